"""Made pictures to train the demo's ring segmenter on: birds with other codes, places and light than those of the study.

One class, ``ring``: which colour it has is the colour forest's to say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.demo.paint import stream
from birdlab.demo.ring_birds import COLOURS, SIDE, RingSeen, render_clip
from birdlab.demo.ring_birds import VERSION as DRAWN
from birdlab.errors import DataError, Problem
from birdlab.progress import progress
from birdlab.shards import write_atomic

NAME = "demo_lessons_ringlet"
#: Of what is drawn, and of which pictures are taken: raise the second when these change.
VERSION = f"{DRAWN}.1"
SEED = 7_310
#: The file that is written last and says that the pictures are whole.
MARKER = "made.json"
SESSIONS, SESSIONS_PER_SITE, CLIPS, TAKEN = 56, 4, 20, (0, 3)
#: Share of birds without rings.
BARE = 0.06
#: The trainer cuts outlines to whole pixels of its input and fills their borders too, which widens every ring by half such
#: a pixel to each side: the lessons' outlines are that much inside the rings, px.
INSIDE = 0.5 * SIDE / 128


def make_ring_lessons(out: Path) -> None:
    """Write the pictures of the ring segmenter into ``out``, unless they are there already in this version.

    Written are ``pictures/<session>/<clip>_<frame>.png`` (96 px), ``labels.json`` (COCO polygons of one class ``ring``;
    ``session``, ``site`` and ``frame`` per image, pictures without rings without annotations) and last ``made.json``.

    Args:
        out: folder; made if absent.

    Raises:
        DataError: the folder cannot be written to.
    """
    if _complete(out):
        return
    try:
        _write(out)
    except OSError as error:
        found = error.strerror or str(error)
        remedy = "the pictures need 50 MB; give another folder with --out"
        raise DataError(
            Problem("cannot_write", found, "a folder that can be written to", remedy, file=str(out))
        ) from error


def _write(out: Path) -> None:
    (out / MARKER).unlink(missing_ok=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    sizes: dict[str, int] = {}
    with progress("pictures for ringlet", unit="sessions") as step:
        for index in range(SESSIONS):
            step(index, SESSIONS)
            for image, labels, data in session_pictures(index):
                write_atomic(out / image["file_name"], lambda temporary, data=data: temporary.write_bytes(data))
                sizes[image["file_name"]] = len(data)
                images.append(image)
                annotations += labels
        step(SESSIONS, SESSIONS)
    truth = {
        "info": {"description": "Made by birdlab: no bird here was ever alive.", "version": VERSION, "made": True},
        "licenses": [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}],
        "categories": [{"id": 1, "name": "ring"}],
        "images": images,
        "annotations": annotations,
    }
    _write_json(out / "labels.json", truth)
    sizes["labels.json"] = (out / "labels.json").stat().st_size
    _write_json(out / MARKER, {"generator": NAME, "version": VERSION, "bytes": sizes})


def session_pictures(index: int) -> list[tuple[dict[str, Any], list[dict[str, Any]], bytes]]:
    """Pictures of one session, its own light and camera: COCO image, annotations and PNG of each."""
    import cv2

    rng = stream(SEED, index)
    light, blur = float(rng.uniform(0.45, 1.45)), float(max(0.0, rng.uniform(-0.6, 1.2)))
    gains = tuple(float(v) for v in np.exp(rng.normal(0, 0.12, 3)))
    session, site = f"rings-{index:03d}", f"rings-{index // SESSIONS_PER_SITE:02d}"
    pictures = []
    for k in range(CLIPS):
        clip = render_clip(
            stream(SEED, index, k),
            _code(rng),
            light=light,
            blur=blur,
            occlusion=float(max(0.0, rng.uniform(-0.3, 0.9))),
            perspective=float(rng.uniform(0, 0.9)),
            white_balance=gains,
            n_frames=max(TAKEN) + 1,
        )
        for f in TAKEN:
            image_id = 1000 * index + 10 * k + f
            name = f"pictures/{session}/{k:02d}_{f}.png"
            about = {"session": session, "site": site, "frame": 10 * k + f}
            image = {"id": image_id, "file_name": name, "width": SIDE, "height": SIDE, **about}
            labels = [
                {"id": 10 * image_id + r, "image_id": image_id, "category_id": 1, **outline(_inside(ring))}
                for r, ring in enumerate(clip.rings[f])
            ]
            pictures.append((image, labels, cv2.imencode(".png", clip.frames[f])[1].tobytes()))
    return pictures


def _inside(ring: RingSeen) -> RingSeen:
    """A ring with every point moved inwards by :data:`INSIDE` along x and y."""
    away = ring.polygon - ring.polygon.mean(0)
    return ring._replace(polygon=ring.polygon - np.sign(away) * np.minimum(INSIDE, np.abs(away)))


def outline(ring: RingSeen, *, digits: int = 2) -> dict[str, Any]:
    """A ring's polygon as the keys ``segmentation``, ``bbox``, ``area`` and ``iscrowd`` of a COCO annotation, to ``digits`` places after the point.

    >>> square = np.float32([[1, 1], [3, 1], [3, 4], [1, 4]])
    >>> outline(RingSeen("A", "left", "upper", square))["bbox"], outline(RingSeen("A", "left", "upper", square))["area"]
    ([1.0, 1.0, 2.0, 3.0], 6.0)
    """
    import cv2

    points = np.round(ring.polygon.astype(float), digits)
    low, high = points.min(0), points.max(0)
    box = [float(v) for v in np.round([*low, *(high - low)], digits)]
    area = round(float(cv2.contourArea(points.astype(np.float32))), 2)
    return {"segmentation": [[float(v) for v in points.ravel()]], "bbox": box, "area": area, "iscrowd": 0}


def _code(rng: np.random.Generator) -> str:
    """A code of three or four rings, or none."""
    n = 0 if rng.random() < BARE else int(rng.choice([3, 4], p=(0.2, 0.8)))
    return "".join(rng.choice(list(COLOURS), n))


def _complete(out: Path) -> bool:
    try:
        held = json.loads((out / MARKER).read_text(encoding="utf-8"))
        there = all((out / file).stat().st_size == size for file, size in held["bytes"].items())
        return there and (held["generator"], held["version"]) == (NAME, VERSION)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
