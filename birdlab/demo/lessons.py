"""Made pictures to train the demo's models on: tiles of made sessions, with labels, masks, session and site.

The sessions have other seeds and other sites than the demo study. Those of the shipped models are milder in light, blur
and clutter than the study's hardest ones; those of ``demo_lessons``, the short example, have birds far away as the study
has. A model learns on tiles at the pixel scale at which it will later see whole frames.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.demo.frames import Labelled, session_frames
from birdlab.demo.paint import HEIGHT, WIDTH, stream
from birdlab.demo.scenes import VERSION as DRAWN
from birdlab.demo.scenes import Session
from birdlab.errors import DataError, Problem
from birdlab.progress import progress
from birdlab.shards import write_atomic

#: Of what is drawn, and of how it is cut into tiles: raise the second when a tile or a label changes.
VERSION = f"{DRAWN}.1"
SEED = 20_240
#: The file that is written last and says that the tiles are whole.
MARKER = "made.json"
#: A bird of which less than this share is inside a tile is not to be learned there.
INSIDE = 0.4
SESSIONS_PER_SITE = 4
#: In so many sessions ``heron`` and ``wren`` took turns when their first tiles were cut.
BOTH = 24
_KINDS = ("glade", "meadow", "orchard", "pines")


@dataclass(frozen=True)
class Lessons:
    """Tiles for one model.

    Args:
        name: of the model.
        imgsz: longer side of the whole frame when the model runs, px; tiles have the same scale.
        n_sessions: how many sessions, four at each site.
        first: number of the first one; models learn from sessions of the same numbers.
        n_frames: frames of every session.
        far: share of stays at which a bird is far away.
        stream: of random places; models of one stream take turns in a frame.
        turn: which turn is this model's.
    """

    name: str
    imgsz: int
    n_sessions: int
    first: int = 0
    n_frames: int = 14
    far: float = 0.0
    stream: int = 1
    turn: int = 0

    @property
    def tile(self) -> int:
        """Side of a tile, px: 1024 px of the 4K frame, in whole strides of 32 px."""
        return round(1024 * self.imgsz / WIDTH / 32) * 32

    def turns(self, index: int) -> int:
        """How many turns are taken in a frame of session ``index``."""
        both = self.stream == 1 and index < BOTH
        return max(2 if both else 1, self.turn + 1)

    def session(self, index: int) -> Session:
        """Session number ``index`` as these lessons have it."""
        return replace(training_session(index), far=self.far)


#: By the name that a recipe gives as ``data.generator``. Of ``heron``'s and ``wren``'s sessions the first 72 and 24 are
#: those from which the first weights learned.
LESSONS = {
    "demo_lessons_heron": Lessons("heron", 960, 80),
    "demo_lessons_wren": Lessons("wren", 416, 32, turn=1),
    "demo_lessons_dunlin": Lessons("dunlin", 640, 56, stream=2),
    "demo_lessons": Lessons("lessons", 640, 24, first=100, n_frames=6, far=0.4, stream=3),
}


def training_session(index: int) -> Session:
    """The training session number ``index``: drawn at random, milder than the hardest test sessions."""
    rng = stream(SEED, index)
    return Session(
        name=f"train-{index:03d}",
        site=f"train-{index // SESSIONS_PER_SITE:02d}",
        kind=_KINDS[index % 4],
        unit=float(np.exp(rng.uniform(np.log(125), np.log(290)))),
        step_s=60.0,
        exposure=float(rng.uniform(0.72, 1.16)),
        contrast=float(rng.uniform(0.85, 1.12)),
        warmth=float(rng.uniform(-0.5, 0.5)),
        haze=float(max(0.0, rng.uniform(-0.2, 0.22))),
        blur=float(max(0.0, rng.uniform(-2.5, 2.5))),
        motion=float(max(0.0, rng.uniform(-3, 3))),
        clutter=float(rng.uniform(0, 0.55)),
        noise=float(rng.uniform(1, 3)),
        seed=90_000 + index,
    )


def make_lessons(name: str, out: Path, *, workers: int | None = None) -> None:
    """Write the tiles of one model into ``out``, unless they are there already in this version.

    Written are ``tiles/<session>/<frame>_<k>.png``, ``labels.json`` (COCO with masks; ``session``, ``site`` and ``frame`` per
    image, empty tiles without annotations) and last ``made.json``. Stopped half way, it goes on with the next session.

    Args:
        name: key of :data:`LESSONS`.
        out: folder; made if absent.
        workers: sessions that are drawn at a time, some 0.5 GB each (default: one per processor, four at most).

    Raises:
        DataError: the folder cannot be written to.
    """
    if _complete(out, name):
        return
    try:
        _write_lessons(name, out, workers or min(4, os.cpu_count() or 1))
    except OSError as error:
        found = error.strerror or str(error)
        remedy = "the lessons need up to 400 MB; give another folder with --out"
        raise DataError(
            Problem("cannot_write", found, "a folder that can be written to", remedy, file=str(out))
        ) from error


def _write_lessons(name: str, out: Path, workers: int) -> None:
    lessons = LESSONS[name]
    (out / MARKER).unlink(missing_ok=True)
    numbers = range(lessons.first, lessons.first + lessons.n_sessions)
    parts: list[dict[str, Any]] = []
    with progress(f"pictures for {lessons.name}", unit="sessions") as step, ThreadPoolExecutor(workers) as pool:
        step(0, len(numbers))
        for part in pool.map(lambda index: _session_once(name, index, out), numbers):
            parts.append(part)
            step(len(parts), len(numbers))
    truth = {
        "info": {"description": "Made by birdlab: no bird here was ever alive.", "version": VERSION, "made": True},
        "licenses": [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}],
        "categories": [{"id": 1, "name": "bird"}],
        "images": [image for part in parts for image in part["images"]],
        "annotations": [label for part in parts for label in part["annotations"]],
    }
    _write_json(out / "labels.json", truth)
    sizes = {file: size for part in parts for file, size in part["bytes"].items()}
    sizes["labels.json"] = (out / "labels.json").stat().st_size
    _write_json(out / MARKER, {"generator": name, "version": VERSION, "bytes": sizes})


def _complete(out: Path, name: str) -> bool:
    return _whole(out / MARKER, out, name) is not None


def _whole(path: Path, out: Path, name: str) -> dict[str, Any] | None:
    """A list of files as these lessons wrote it, if all of them are there; else ``None``."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        there = all((out / file).stat().st_size == size for file, size in held["bytes"].items())
        return held if there and (held["generator"], held["version"]) == (name, VERSION) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _session_once(name: str, index: int, out: Path) -> dict[str, Any]:
    path = out / "sessions" / f"{index:03d}.json"
    if (held := _whole(path, out, name)) is not None:
        return held
    part = {"generator": name, "version": VERSION, **_make_session(LESSONS[name], index, out)}
    _write_json(path, part)
    return part


def _make_session(lessons: Lessons, index: int, out: Path) -> dict[str, Any]:
    """The tiles of one session: around every bird one, shifted at random, and one more anywhere in each frame."""
    import cv2

    rng = stream(SEED, lessons.stream, index)
    session, scale, side = lessons.session(index), lessons.imgsz / WIDTH, lessons.tile
    images, annotations, sizes = [], [], {}
    for frame, (image, birds) in enumerate(session_frames(session, lessons.n_frames)):
        small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
        for k, (x, y) in enumerate(_corners(rng, birds, lessons, index)):
            file = f"tiles/{session.name}/{frame:02d}_{k}.png"
            _, coded = cv2.imencode(".png", small[y : y + side, x : x + side])
            data = coded.tobytes()
            write_atomic(out / file, lambda temporary, data=data: temporary.write_bytes(data))
            sizes[file] = len(data)
            image_id = 1000 * index + 10 * frame + k
            about = {"session": session.name, "site": session.site, "frame": frame}
            images.append({"id": image_id, "file_name": file, "width": side, "height": side, **about})
            labels = [tile_label(bird, (x, y), scale, side) for bird in birds]
            annotations += [
                {"id": 10 * image_id + n, "image_id": image_id, **label} for n, label in enumerate(labels) if label
            ]
    return {"images": images, "annotations": annotations, "bytes": sizes}


def _corners(
    rng: np.random.Generator, birds: Sequence[Labelled], lessons: Lessons, index: int
) -> list[tuple[int, int]]:
    """Upper left corners of a frame's tiles, px of the small frame."""
    scale = lessons.imgsz / WIDTH
    size = np.round(np.array([WIDTH, HEIGHT]) * scale).astype(int)
    places: list[list[tuple[Any, Any]]] = []
    for _ in range(lessons.turns(index)):
        centres = [(b.box[0] + b.box[2] / 2, b.box[1] + b.box[3] / 2) for b in birds]
        centres += [(float(rng.uniform(0, WIDTH)), float(rng.uniform(0, HEIGHT)))]
        places.append([(np.array(centre), rng.uniform(-0.4, 0.4, 2)) for centre in centres])
    corners = [
        np.round(centre * scale + shift * lessons.tile - lessons.tile / 2).astype(int)
        for centre, shift in places[lessons.turn]
    ]
    return [(int(x), int(y)) for x, y in (np.clip(corner, 0, size - lessons.tile) for corner in corners)]


def tile_label(bird: Labelled, corner: tuple[int, int], scale: float, tile: int) -> dict[str, Any] | None:
    """One bird in one tile as a COCO annotation without numbers; ``None`` where nothing of it is inside.

    A bird of whose box less than :data:`INSIDE` is inside is ``ignore``: neither to be found nor a false alarm.

    Args:
        bird: as it shows in the whole frame.
        corner: upper left corner of the tile, px of the frame at ``scale``.
        scale: of the tile's pixels, relative to the frame's.
        tile: side of the tile, px.
    """
    from pycocotools import mask as coco_mask

    x, y, w, h = (v * scale for v in bird.box)
    left, top = (float(v) for v in np.clip([x - corner[0], y - corner[1]], 0, tile))
    right, bottom = (float(v) for v in np.clip([x - corner[0] + w, y - corner[1] + h], 0, tile))
    area = (right - left) * (bottom - top)
    if area <= 0:
        return None
    box = [left, top, right - left, bottom - top]
    label = {"category_id": 1, "bbox": box, "area": area, "iscrowd": 0, "ignore": int(area < INSIDE * w * h)}
    mask = _tile_mask(bird, corner, scale, tile)
    if not mask.any():
        return label
    rle = coco_mask.encode(np.asfortranarray(mask))
    segmentation = {"size": [int(v) for v in rle["size"]], "counts": rle["counts"].decode("ascii")}
    return label | {"area": int(mask.sum()), "segmentation": segmentation}


def _tile_mask(bird: Labelled, corner: tuple[int, int], scale: float, tile: int) -> np.ndarray:
    """The bird's mask in a tile (uint8, 0 or 1): pixels of which at least half belongs to the bird."""
    import cv2

    shift = np.array([[scale, 0, -corner[0]], [0, scale, -corner[1]]])
    # Pixel centres are at half pixels; each pixel of the tile is the mean of the frame's pixels it stands for.
    shift[:, 2] += (scale - 1) / 2
    x, y, w, h = bird.box
    pad = int(np.ceil(2 / scale))
    y0, x0 = max(y - pad, 0), max(x - pad, 0)
    part = bird.mask[y0 : y + h + pad, x0 : x + w + pad].astype(np.float32)
    side = round(1 / scale) | 1  # an even one would shift the mask by half a pixel
    part = cv2.blur(part, (side, side), borderType=cv2.BORDER_CONSTANT)
    shift[:, 2] += scale * np.array([x0, y0])
    drawn = cv2.warpAffine(part, shift, (tile, tile), flags=cv2.INTER_LINEAR)
    return (drawn >= 0.5).astype(np.uint8)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
