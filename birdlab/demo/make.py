"""The made demo study as files: photographs, COCO labels, a second labelling, and what was planted.

Nothing in it was recorded. It exists so that the whole path from frames to report can be run anywhere, and so that
the report's findings can be held against a known truth (``truth.json``).
"""

from __future__ import annotations

import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.demo.colony import write_colony
from birdlab.demo.frames import FAR_PX, Labelled, session_frames
from birdlab.demo.identify import write_identification
from birdlab.demo.paint import HEIGHT, WIDTH, stream
from birdlab.demo.ring_study import write_reid
from birdlab.demo.scenes import COMPLETE_SESSION, SESSIONS, VERSION, Session
from birdlab.demo.soundscapes import write_soundscapes
from birdlab.errors import DataError, Problem
from birdlab.shards import write_atomic

__all__ = ["FRAMES_PER_SESSION", "SECOND_SESSIONS", "VERSION", "make_study"]

FRAMES_PER_SESSION = 16
#: Sessions that a second, made observer labelled too.
SECOND_SESSIONS = ("glade-a", "orchard-a", "pines-a")
#: The file that is written last and says that the study is whole.
MARKER = "made.json"

_FILES = ("labels.json", "second_labels.json", "truth.json")
_QUALITY = 80
_FIRST_DAY = datetime(2001, 5, 1, 7, 0, 0)


@dataclass(frozen=True)
class _Made:
    """What one session adds to the study's files."""

    session: Session
    images: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    sizes: dict[str, int]
    far: list[int]


def make_study(out: Path) -> None:
    """Write the demo study into ``out``, unless it is there already in this version.

    Written are ``frames/<session>/<frame>.jpg`` (3840×2160, with the time of the made recording as EXIF), ``labels.json``
    (COCO with masks; ``session``, ``site``, ``frame`` and ``time_s`` per image, empty frames listed without annotations),
    ``second_labels.json`` (the same for three sessions by a made second observer), ``truth.json`` (what was planted, and
    in which birds), ``abstention/`` (photographs to identify, without pixels: see :mod:`birdlab.demo.identify`),
    ``individuals/`` (a colony of ringed birds as tables: see :mod:`birdlab.demo.colony`), ``reid/`` (clips of ringed birds:
    see :mod:`birdlab.demo.ring_study`), ``soundscapes/`` (annotations and run files without sound: see
    :mod:`birdlab.demo.soundscapes`) and last ``made.json``. The pixels
    depend on nothing but the generator's version; the bytes of the JPEG and MP4 files may differ from one encoder to the
    next.

    Args:
        out: folder of the study; made if absent. Files that are whole are not written again.

    Raises:
        DataError: the folder cannot be written to.
    """
    if _complete(out):
        return
    try:
        _write_study(out)
    except OSError as error:
        found = error.strerror or str(error)
        remedy = "the demo needs about 120 MB; give another folder with --out"
        raise DataError(
            Problem("cannot_write", found, "a folder that can be written to", remedy, file=str(out))
        ) from error


def _write_study(out: Path) -> None:
    (out / MARKER).unlink(missing_ok=True)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda session: _make_session(session, out), SESSIONS))
    truth = _coco("Made by birdlab: no bird here was ever alive.", parts, lambda part: part.annotations)
    _write_json(out / "labels.json", truth)
    second = [part for part in parts if part.session.name in SECOND_SESSIONS]
    _write_json(
        out / "second_labels.json",
        _coco("A second observer of three sessions, made by birdlab.", second, _second_opinion),
    )
    _write_json(out / "truth.json", _planted(parts))
    more = write_identification(out) + write_colony(out) + write_reid(out) + write_soundscapes(out)
    sizes = {name: size for part in parts for name, size in part.sizes.items()}
    sizes |= {name: (out / name).stat().st_size for name in (*_FILES, *more)}
    _write_json(out / MARKER, {"generator": "birdlab demo", "version": VERSION, "bytes": sizes})


def _complete(out: Path) -> bool:
    try:
        marker = json.loads((out / MARKER).read_text(encoding="utf-8"))
        return marker["version"] == VERSION and all((out / n).stat().st_size == s for n, s in marker["bytes"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _make_session(session: Session, out: Path) -> _Made:
    import cv2

    number = next(i for i, s in enumerate(SESSIONS) if s.name == session.name)
    made = _Made(session, [], [], {}, [])
    for index, (image, birds) in enumerate(session_frames(session, FRAMES_PER_SESSION)):
        name = f"frames/{session.name}/{index:04d}.jpg"
        _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
        taken = _FIRST_DAY + timedelta(days=number, seconds=index * session.step_s)
        data = with_exif(encoded.tobytes(), taken)
        write_atomic(out / name, lambda temporary, data=data: temporary.write_bytes(data))
        made.sizes[name] = len(data)
        image_id = 1000 * (number + 1) + index
        about = {"session": session.name, "site": session.site, "frame": index, "time_s": index * session.step_s}
        made.images.append({"id": image_id, "file_name": name, "width": WIDTH, "height": HEIGHT, **about})
        labels = [_annotation(bird, image_id, session) for bird in birds]
        made.annotations.extend(labels)
        made.far.extend(label["id"] for label, bird in zip(labels, birds, strict=True) if bird.far)
    return made


def _annotation(bird: Labelled, image_id: int, session: Session) -> dict[str, Any]:
    from pycocotools import mask as coco_mask

    rle = coco_mask.encode(np.asfortranarray(bird.mask.astype(np.uint8)))
    return {
        "id": 10 * image_id + bird.individual,
        "image_id": image_id,
        "category_id": 1,
        "bbox": [float(v) for v in bird.box],
        "area": int(bird.mask.sum()),
        "iscrowd": 0,
        "segmentation": {"size": [int(v) for v in rle["size"]], "counts": rle["counts"].decode("ascii")},
        "individual_id": f"{session.name}-{bird.individual + 1}",
        "visible": round(bird.visible, 3),
        "pose": bird.pose,
    }


def _second_opinion(part: _Made) -> list[dict[str, Any]]:
    """The same birds as a second person might box them: edges a little off, one bird of the session overlooked."""
    rng = stream(23, part.session.seed)
    overlooked = int(rng.integers(len(part.annotations)))
    labels = []
    for k, first in enumerate(part.annotations):
        x, y, w, h = first["bbox"]
        left, top, right, bottom = rng.normal(0.01, 0.035, 4) * [w, h, w, h]
        x0, y0 = max(0.0, round(x - left)), max(0.0, round(y - top))
        x1, y1 = min(float(WIDTH), round(x + w + right)), min(float(HEIGHT), round(y + h + bottom))
        if k != overlooked:
            kept = {key: first[key] for key in ("id", "image_id", "category_id", "iscrowd", "individual_id")}
            labels.append({**kept, "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0)})
    return labels


def _coco(description: str, parts: list[_Made], annotations: Any) -> dict[str, Any]:
    return {
        "info": {"description": description, "version": VERSION, "made": True},
        "licenses": [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}],
        "categories": [{"id": 1, "name": "bird"}],
        "images": [image for part in parts for image in part.images],
        "annotations": [label for part in parts for label in annotations(part)],
    }


def _planted(parts: list[_Made]) -> dict[str, Any]:
    sessions = []
    for part in parts:
        seen = {label["image_id"] for label in part.annotations}
        counts = {
            "n_frames": len(part.images),
            "n_birds": len(part.annotations),
            "n_empty": len(part.images) - len(seen),
            "n_far": len(part.far),
        }
        sessions.append({**part.session.planted(), **counts})
    far = [part for part in parts if part.session.far]
    planted = {
        "factor": "rel_size",
        "effect": "birds drawn small, as if far away, are missed",
        "setting": "far",
        "length_px": list(FAR_PX),
        "sessions": [part.session.name for part in far],
        "labels": [label for part in far for label in part.far],
    }
    between = {
        "factor": "brightness_global",
        "effect": "one camera and one light per session: it hardly varies within",
        "setting": "exposure",
        "sessions": {part.session.name: part.session.exposure for part in parts},
    }
    return {
        "generator": "birdlab demo",
        "version": VERSION,
        "made": True,
        "planted": planted,
        "complete": {"session": COMPLETE_SESSION, "model": "heron"},
        "between_sessions": between,
        "sessions": sessions,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def with_exif(jpeg: bytes, taken: datetime) -> bytes:
    """A JPEG with the time it was taken, and with "made" in its description, as EXIF (tags 0x010E, 0x9003, 0x9011: UTC).

    >>> with_exif(bytes([0xFF, 0xD8, 0xFF, 0xD9]), datetime(2001, 5, 1, 7))[2:4].hex()
    'ffe1'
    """
    about = b"Made by birdlab: a drawing, not a photograph\x00"
    when = taken.strftime("%Y:%m:%d %H:%M:%S").encode("ascii") + b"\x00"
    zone = b"+00:00\x00"
    # TIFF, big-endian: header (8), IFD0 and Exif IFD with two entries each (2 + 24 + 4), then the texts.
    first, second = 8, 8 + 30
    texts = second + 30
    tiff = b"MM\x00\x2a" + struct.pack(">I", first)
    tiff += struct.pack(">HHHIIHHIII", 2, 0x010E, 2, len(about), texts, 0x8769, 4, 1, second, 0)
    after = texts + len(about)
    tiff += struct.pack(">HHHIIHHIII", 2, 0x9003, 2, len(when), after, 0x9011, 2, len(zone), after + len(when), 0)
    tiff += about + when + zone
    segment = b"Exif\x00\x00" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + jpeg[2:]
