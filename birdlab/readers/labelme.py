"""LabelMe JSON as it is found in the field: boxes and outlines of the same bird, moved folders, every shape there is.

What becomes of a shape:

- ``rectangle``: a box (points in any order; four corners, as newer editors write them, are taken by their bounds).
- ``polygon``: an outline, rasterised as COCO does; ``mask``: a mask as it is.
- ``circle``: the box around it, without a mask. ``point``, ``line``, ``linestrip`` and others: skipped and counted.
- A rectangle and an outline of the same label are one bird when they share a ``group_id``, or when their boxes overlap
  by more than 0.8 (IoU). The box is the rectangle's, the mask the outline's. Several outlines of one group are the
  visible parts of one bird.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.jsonfile import read_json
from birdlab.readers.coco_masks import rle_text
from birdlab.readers.files import Notice, at_most, natural_key
from birdlab.readers.labels import LabelSet, label_table, normal
from birdlab.readers.names import FrameNames, unresolved
from birdlab.readers.yolo import mask_area

#: A rectangle and an outline whose boxes overlap by more than this are one bird.
SAME_BIRD_IOU = 0.8
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Shape:
    """One shape: position in its file, label as typed, box ``x, y, w, h`` in px, mask text, group, what it was drawn as."""

    index: int
    label: str
    kind: str
    box: Box
    mask: str | None
    group: str | None


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, in [0, 1]; 0 where either has no area.

    >>> iou((0, 0, 2, 1), (1, 0, 2, 1))
    0.3333333333333333
    """
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (a[2] * a[3] + b[2] * b[3] - width * height)


def read_shape(raw: dict[str, Any], index: int, size: tuple[int, int]) -> Shape | str:
    """One entry of ``shapes``; the name of its kind where that kind holds no bird.

    Args:
        raw: the entry.
        index: its position.
        size: (height, width) of the picture, px.

    Raises:
        ValueError: the sentence says what is wrong.
    """
    label, kind = raw.get("label"), str(raw.get("shape_type") or "polygon")
    if not isinstance(label, str) or not label.strip():
        raise ValueError(f"label {label!r}")
    if kind not in ("rectangle", "polygon", "rotation", "circle", "mask"):
        return kind
    points = _points(raw.get("points"))
    group = raw.get("group_id")
    group = None if group is None or group == "" else str(group)
    mask = None
    if kind == "circle":
        if len(points) != 2:
            raise ValueError(f"a circle of {len(points)} points")
        radius = math.dist(points[0], points[1])
        box = (points[0][0] - radius, points[0][1] - radius, 2 * radius, 2 * radius)
    else:
        least = 2 if kind in ("rectangle", "mask") else 3
        if len(points) < least:
            raise ValueError(f"a {kind} of {len(points)} point{'s' if len(points) != 1 else ''}")
        box = _bounds(points)
        if kind == "mask":
            mask = _drawn_mask(raw, box, size)
        elif kind != "rectangle":
            mask = rle_text([[v for point in points for v in point]], size)
    return Shape(index, label, kind, box, mask, group)


def _points(raw: Any) -> list[tuple[float, float]]:
    if not isinstance(raw, list):
        raise ValueError("no points")
    points = []
    for point in raw:
        if not isinstance(point, list) or len(point) != 2:
            raise ValueError(f"the point {point!r:.40}")
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in point):
            raise ValueError(f"the point {point!r:.40}")
        points.append((float(point[0]), float(point[1])))
    return points


def _bounds(points: Sequence[tuple[float, float]]) -> Box:
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


def _drawn_mask(raw: dict[str, Any], box: Box, size: tuple[int, int]) -> str:
    from PIL import Image
    from pycocotools import mask as coco

    try:
        with Image.open(io.BytesIO(base64.b64decode(raw.get("mask") or "", validate=True))) as image:
            part = np.asarray(image.convert("L")) > 0
    except (binascii.Error, OSError, ValueError, TypeError) as error:
        raise ValueError("a mask without its picture") from error
    left, top = round(box[0]), round(box[1])
    whole = np.zeros(size, np.uint8, order="F")
    height, width = min(part.shape[0], size[0] - top), min(part.shape[1], size[1] - left)
    if left < 0 or top < 0 or height <= 0 or width <= 0:
        raise ValueError("a mask outside the picture")
    whole[top : top + height, left : left + width] = part[:height, :width]
    rle = coco.encode(whole)
    return json.dumps({"size": list(size), "counts": rle["counts"].decode()}, separators=(",", ":"))


def merge_shapes(shapes: Sequence[Shape]) -> tuple[list[Shape], int]:
    """Shapes of one picture as one per bird; and how many shapes were taken up by others.

    First groups: outlines of one ``group_id`` and label are joined, with its rectangle if there is just one. Then the
    remaining rectangles and outlines of equal label are paired, best overlap first.
    """
    left: dict[int, Shape] = {s.index: s for s in shapes}
    groups: dict[tuple[str, str], list[Shape]] = {}
    for shape in shapes:
        if shape.group is not None:
            groups.setdefault((shape.group, normal(shape.label)), []).append(shape)
    for members in groups.values():
        boxes = [s for s in members if s.mask is None]
        outlines = [s for s in members if s.mask is not None]
        if len(boxes) <= 1 and outlines and len(members) > 1:
            for shape in members:
                del left[shape.index]
            whole = _join(outlines)
            left[members[0].index] = replace(whole, index=members[0].index, box=boxes[0].box if boxes else whole.box)
    pairs = sorted(
        (
            (-iou(a.box, b.box), a.index, b.index)
            for a in left.values()
            for b in left.values()
            if a.mask is None
            and a.kind == "rectangle"
            and b.mask is not None
            and normal(a.label) == normal(b.label)
            # Different groups are different birds, however close.
            and (a.group is None or b.group is None or a.group == b.group)
        ),
    )
    for negative, a, b in pairs:
        if -negative > SAME_BIRD_IOU and a in left and b in left:
            left[a] = replace(left[a], mask=left.pop(b).mask)
    merged = [left[index] for index in sorted(left)]
    return merged, len(shapes) - len(merged)


def _join(outlines: list[Shape]) -> Shape:
    if len(outlines) == 1:
        return outlines[0]
    from pycocotools import mask as coco

    rle = coco.merge([json.loads(s.mask or "") for s in outlines])
    text = json.dumps({"size": rle["size"], "counts": rle["counts"].decode()}, separators=(",", ":"))
    corners = [c for s in outlines for c in ((s.box[0], s.box[1]), (s.box[0] + s.box[2], s.box[1] + s.box[3]))]
    return replace(outlines[0], box=_bounds(corners), mask=text)


@dataclass(frozen=True)
class _File:
    """One JSON file that was matched to a frame."""

    path: Path
    frame_id: str
    content: dict[str, Any]


def read_labelme(path: Path, frames: pl.DataFrame, names: FrameNames) -> LabelSet:
    """LabelMe labels of the study's frames.

    A picture with a JSON whose ``shapes`` is empty was looked at and is empty; a picture without a JSON was not looked
    at. ``imagePath`` is followed from the JSON's folder, then the JSON's own name, then a unique file name.

    Args:
        path: folder with JSON files, at any depth, or one file.
        frames: the ``frames`` table.
        names: its index.

    Raises:
        DataError: every file and shape that cannot be read, in one error.
    """
    files = [path] if path.is_file() else _json_files(path)
    sizes = {r[0]: r[1:] for r in frames.select("frame_id", "height_px", "width_px").iter_rows()}
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    rows: list[dict[str, Any]] = []
    looked_at: dict[str, Path] = {}
    for file in files:
        found = _open(file, names, counts, problems)
        if found is None:
            continue
        if found.frame_id in looked_at:
            text = f"{found.frame_id}, labelled in {looked_at[found.frame_id].name} too"
            problems.append(
                Problem("labelled_twice", text, "one JSON for each picture", file=str(file), key="imagePath")
            )
        elif None in sizes[found.frame_id]:
            counts["unplaced"] += 1
        else:
            looked_at[found.frame_id] = file
            rows += _rows(found, sizes[found.frame_id], counts, problems)
    if problems:
        raise DataError(at_most(problems))
    if not looked_at:
        found = f"{len(files)} JSON files, none for a picture of the study" if files else "no JSON file"
        raise DataError(Problem("no_labels", found, "LabelMe JSON files", file=str(path), key="data.labels"))
    return LabelSet(label_table(rows), frozenset(looked_at), tuple(_notices(counts)))


def _json_files(folder: Path) -> list[Path]:
    # Macs leave a hidden ._a.json beside every a.json on a card.
    found = [p for p in folder.rglob("*.json") if not p.name.startswith(".")]
    return sorted(found, key=lambda p: natural_key(p.as_posix()))


def _open(file: Path, names: FrameNames, counts: Counter[str], problems: list[Problem]) -> _File | None:
    try:
        content = read_json(file)
    except DataError as error:
        problems += error.problems
        return None
    if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
        counts["no_labelme"] += 1
        return None
    image_path = content.get("imagePath")
    image_path = image_path if isinstance(image_path, str) and image_path.strip() else ""
    found = names.resolve(image_path, file.parent) if image_path else None
    if found is None or found.frame_id is None:
        # LabelMe writes a.json beside a.jpg: after a move or a renaming, that is the picture.
        own = names.beside(file)
        if own is not None:
            counts["by_own_name"] += bool(image_path)
            return _File(file, own, content)
    if found is None:
        problems.append(Problem("no_image_path", "no imagePath", "the picture's path", file=str(file), key="imagePath"))
        return None
    if found.how == "outside":
        counts["outside"] += 1
        return None
    if found.frame_id is None:
        problems.append(unresolved(image_path, found, names, file=str(file), record="imagePath"))
        return None
    counts["moved"] += found.how in ("basename", "suffix")
    return _File(file, found.frame_id, content)


def _rows(file: _File, size: tuple[int, int], counts: Counter[str], problems: list[Problem]) -> list[dict[str, Any]]:
    wrong_size = _size_problem(file, size)
    if wrong_size:
        problems.append(wrong_size)
        return []
    shapes: list[Shape] = []
    expected = "a label, and points [x, y] in pixels (2 for a rectangle, 3 or more for a polygon)"
    for index, raw in enumerate(file.content["shapes"]):
        try:
            shape = read_shape(raw if isinstance(raw, dict) else {}, index, size)
        except ValueError as error:
            problems.append(Problem("bad_shape", str(error), expected, file=str(file.path), record=f"shapes[{index}]"))
            continue
        if isinstance(shape, str):
            counts[f"kind:{shape}"] += 1
        else:
            counts["circle"] += shape.kind == "circle"
            shapes.append(shape)
    birds, n_merged = merge_shapes(shapes)
    counts["merged"] += n_merged
    return [_row(file.frame_id, bird) for bird in birds]


def _size_problem(file: _File, size: tuple[int, int]) -> Problem | None:
    given = (file.content.get("imageHeight"), file.content.get("imageWidth"))
    if None in given or given == size:
        return None
    turned = given == size[::-1]
    remedy = (
        "the labels ignore the camera's orientation: label the upright picture"
        if turned
        else "label the picture that is scored"
    )
    return Problem(
        "size_differs",
        f"{given[1]!r} × {given[0]!r} px",
        f"{size[1]} × {size[0]} px, the size of {file.frame_id} as displayed",
        remedy,
        file=str(file.path),
        key="imageWidth, imageHeight",
    )


def _row(frame_id: str, bird: Shape) -> dict[str, Any]:
    x, y, w, h = bird.box
    area = mask_area(bird.mask) if bird.mask else w * h
    row = {
        "label_id": f"{frame_id}:{bird.index}",
        "frame_id": frame_id,
        "category": bird.label,
        "x": x,
        "y": y,
        "w": w,
        "h": h,
    }
    return row | {"area_px": area, "mask_rle": bird.mask, "is_crowd": False, "is_ignored": False}


_TEXTS = {
    "merged": ("shapes_merged", "shapes were the same bird as another (a box and its outline) and joined to it"),
    "circle": ("circle_as_box", "circles were taken as the boxes around them"),
    "moved": ("image_moved", "files whose imagePath leads nowhere; the picture was found by its name"),
    "by_own_name": ("image_by_own_name", "files whose imagePath leads nowhere; the picture beside the JSON was taken"),
    "outside": ("labels_outside", "files of pictures that data.media does not take into the study"),
    "no_labelme": ("other_json", "JSON files that are not LabelMe's were skipped"),
    "unplaced": ("labels_unplaced", "files of pictures that cannot be read were left out"),
}


def _notices(counts: Counter[str]) -> list[Notice]:
    notices = [Notice(code, text, counts[key]) for key, (code, text) in _TEXTS.items() if counts[key]]
    for key in sorted(k for k in counts if k.startswith("kind:")):
        text = f"shapes of kind {key.removeprefix('kind:')!r} hold no bird and were skipped"
        notices.append(Notice("shape_skipped", text, counts[key]))
    return notices
