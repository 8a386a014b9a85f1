"""Keypoints placed by hand as COCO JSON, and those of models as COCO results or as a second COCO file."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.jsonfile import each_key_once
from birdlab.readers.files import Notice, at_most

#: Fields of ``images`` that hold the number of the frame in its video, the first that is there.
FRAMES = ("frame", "frame_index", "frame_id")
#: Farthest that a keypoint can lie, px: what is farther is no place in a picture, and its distance no number.
FARTHEST = 1e7


@dataclass(frozen=True)
class Instance:
    """One bird: ``points`` (k, 3) x, y, v in px; box x, y, w, h; area px²; score of a prediction; a crowd is not scored."""

    instance_id: str
    image_id: str
    points: np.ndarray
    box: tuple[float, float, float, float]
    area: float
    score: float = 1.0
    is_crowd: bool = False


@dataclass(frozen=True)
class Poses:
    """A keypoint file: names of the keypoints, pictures (id → video, scene, file name, frame), birds."""

    names: tuple[str, ...]
    images: dict[str, dict[str, str | None]]
    instances: list[Instance]
    notices: list[Notice] = field(default_factory=list)


def read_truth(path: Path, *, scene: str = "scene", session: str = "video") -> Poses:
    """Keypoints by hand.

    Args:
        path: COCO file whose first category has ``keypoints``, the names in order.
        scene, session: fields of ``images`` that name the kind of scene and the video; missing ones are null.

    Raises:
        DataError: no category with keypoints, a bird of an unknown picture, a picture or a bird twice, keypoints that
            are not 3 numbers per name, a visibility other than 0, 1, 2; the first twenty with their records.
    """
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise DataError(Problem("bad_shape", type(raw).__name__, "a COCO object", file=str(path)))
    names = _names(raw, path)
    problems: list[Problem] = []
    images = _images(raw, path, problems, scene=scene, session=session)
    birds: list[Instance] = []
    seen: set[str] = set()
    for i, row in enumerate(_list(raw, "annotations", path)):
        bird = _instance(row, f"annotations[{i}]", names, path, problems, images) if "keypoints" in row else None
        if bird is None:
            continue
        at = {"file": str(path), "record": f"annotations[{i}]"}
        strange = sorted(set(bird.points[:, 2].tolist()) - {0.0, 1.0, 2.0})
        if strange:
            problems.append(Problem("bad_visibility", f"{strange[0]:g}", "v of 0, 1 or 2", key="keypoints", **at))
        if bird.instance_id in seen:
            problems.append(Problem("id_twice", f"id {bird.instance_id} twice", "each id once", key="id", **at))
        seen.add(bird.instance_id)
        birds.append(bird)
    if problems:
        raise DataError(at_most(problems))
    if not birds:
        raise DataError(Problem("no_keypoints", "no bird with keypoints", "keypoints in annotations", file=str(path)))
    return Poses(names, images, birds, _remarks(birds, path))


def _remarks(birds: list[Instance], path: Path) -> list[Notice]:
    """What is odd in birds by hand."""
    scored = [bird for bird in birds if not bird.is_crowd]
    unseen = sum(not (bird.points[:, 2] > 0).any() for bird in scored)
    flat = sum(bird.box[2] <= 0 or bird.box[3] <= 0 for bird in scored if (bird.points[:, 2] > 0).any())
    counts = (
        ("crowds", "birds by hand marked as a crowd: not scored", len(birds) - len(scored)),
        ("no_keypoint", "birds by hand without a keypoint that can be seen: not scored", unseen),
        ("flat_box", "birds by hand whose box has no area: OKS and normalised PCK take them for tiny", flat),
    )
    return [Notice(code, text, n, str(path)) for code, text, n in counts if n]


def _images(
    raw: dict[str, Any], path: Path, problems: list[Problem], *, scene: str, session: str
) -> dict[str, dict[str, str | None]]:
    images: dict[str, dict[str, str | None]] = {}
    for i, row in enumerate(_list(raw, "images", path)):
        ident = _id(row.get("id"))
        if ident in images or row.get("id") is None:
            found = f"id {ident} twice" if ident in images else "no id"
            problems.append(Problem("bad_image_id", found, "each id once", file=str(path), record=f"images[{i}]"))
        frame = next((row[k] for k in FRAMES if row.get(k) is not None), None)
        about = {"scene": row.get(scene), "video": row.get(session), "file_name": row.get("file_name"), "frame": frame}
        images[ident] = {k: None if v is None else _id(v) for k, v in about.items()}
    return images


def read_results(path: Path, truth: Poses) -> Poses:
    """Keypoints of one model: COCO results (a list), or a whole COCO file with the same keypoint names.

    The third number of a keypoint is how sure the model is, or v; 0 stands for a keypoint that the model does not place.
    Where it is 0 throughout the file it says nothing, and every keypoint but those at (0, 0) is placed.

    Raises:
        DataError: as :func:`read_truth`; other keypoint names than the truth's.
    """
    raw = read_json(path)
    if isinstance(raw, dict):
        names = _names(raw, path)
        if names != truth.names:
            expected = ", ".join(truth.names)
            raise DataError(Problem("other_keypoints", ", ".join(names), expected, file=str(path), key="keypoints"))
        rows = _list(raw, "annotations", path)
    else:
        rows = raw if isinstance(raw, list) else []
        if not isinstance(raw, list):
            raise DataError(Problem("bad_shape", type(raw).__name__, "COCO results", file=str(path)))
    problems: list[Problem] = []
    found, unscored = [], 0
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            problems.append(Problem("bad_shape", type(row).__name__, "an object", file=str(path), record=f"record {i}"))
        elif isinstance(raw, list) or "keypoints" in row:
            found.append(_instance(row, f"record {i}", truth.names, path, problems, truth.images))
            unscored += not _number(row.get("score"))
    if problems:
        raise DataError(at_most(problems))
    birds, notices = _with_v([b for b in found if b is not None], path)
    if unscored:
        text = f"{path.name}: predicted birds without a score: taken as 1"
        notices.append(Notice("no_score", text, unscored, str(path)))
    return Poses(truth.names, truth.images, birds, notices)


def _with_v(birds: list[Instance], path: Path) -> tuple[list[Instance], list[Notice]]:
    """Birds whose third numbers say something."""
    if not birds or any((bird.points[:, 2] > 0).any() for bird in birds):
        return birds, []
    for bird in birds:
        bird.points[:, 2] = (bird.points[:, :2] != 0).any(axis=1)
    text = f"{path.name}: v is 0 for every keypoint: taken as placed, but those at (0, 0)"
    return birds, [Notice("no_visibility", text, len(birds), str(path))]


def read_json(path: Path) -> Any:
    """JSON of a file, or one clear problem."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=each_key_once(str(path)))
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or str(error)
        raise DataError(Problem("unreadable", why, "a COCO file", "check the path", file=str(path))) from error
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DataError(Problem("not_json", str(error)[:120], "JSON", file=str(path), line=line)) from error


def _names(raw: dict[str, Any], path: Path) -> tuple[str, ...]:
    for category in _list(raw, "categories", path):
        names = category.get("keypoints")
        if isinstance(names, list) and names and all(isinstance(n, str) for n in names):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                found = f"{', '.join(twice)} twice"
                raise DataError(
                    Problem("name_twice", found, "each name once", file=str(path), key="categories[].keypoints")
                )
            return tuple(names)
    raise DataError(
        Problem("no_keypoints", "no category with keypoints", "categories[].keypoints: names", file=str(path))
    )


def _list(raw: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    value = raw.get(key)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(Problem("bad_shape", type(value).__name__, "a list of objects", file=str(path), key=key))
    return value


def _instance(
    row: dict[str, Any],
    record: str,
    names: Sequence[str],
    path: Path,
    problems: list[Problem],
    images: Mapping[str, Any],
) -> Instance | None:
    def wrong(code: str, found: str, expected: str, key: str) -> None:
        problems.append(Problem(code, found, expected, file=str(path), record=record, key=key))

    image = _id(row.get("image_id"))
    if image not in images:
        wrong("unknown_image_id", image, "a picture of the truth", "image_id")
        return None
    numbers = row.get("keypoints")
    if not isinstance(numbers, list) or len(numbers) != 3 * len(names):
        found = f"{len(numbers)} values" if isinstance(numbers, list) else type(numbers).__name__
        wrong("bad_keypoints", found, f"3 numbers for each of {len(names)} keypoints", "keypoints")
        return None
    odd = [v for v in numbers if not _number(v) or abs(v) > FARTHEST]
    if odd:
        wrong("bad_keypoints", ascii(reprlib.repr(odd[0]))[1:-1], f"numbers of at most {FARTHEST:g}", "keypoints")
        return None
    points = np.array(numbers, dtype=np.float64).reshape(-1, 3)
    placed = points[points[:, 2] > 0]
    box = row.get("bbox")
    if not (isinstance(box, list) and len(box) == 4 and all(_number(v) for v in box)):
        if not len(placed):
            box = [0.0, 0.0, 0.0, 0.0]
        else:
            lo, hi = placed[:, :2].min(axis=0), placed[:, :2].max(axis=0)
            box = [*lo, *(hi - lo)]
    area = row.get("area")
    area = float(area) if _number(area) and area > 0 else float(box[2] * box[3])
    score = row.get("score", 1.0)
    x, y, w, h = (float(v) for v in box)
    return Instance(
        _id(row.get("id", record)), image, points, (x, y, w, h), area, float(score) if _number(score) else 1.0,
        row.get("iscrowd") in (1, True),
    )  # fmt: skip


def _id(value: Any) -> str:
    """An id as text; 7.0, as some write it, is 7."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
