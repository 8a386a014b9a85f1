"""Ring masks in COCO files: one outline per ring, and its colour where the category is one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.coco import read_ground_truth
from birdlab.readers.coco_json import parse, read_bytes
from birdlab.readers.files import Notice, notice_table

if TYPE_CHECKING:
    from birdlab.individuals.rings.codes import Palette

#: One ring found in one picture. ``outline`` is x, y, x, y, … in px of the picture; ``truth`` the letter of its colour.
INSTANCES = {
    "image": pl.String, "ring": pl.Int32, "outline": pl.List(pl.Float64), "score": pl.Float64, "truth": pl.String,
}  # fmt: skip
_SHOWN = 5


def read_ring_masks(path: Path, palette: Palette) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Read a COCO file of ring masks (polygons or run lengths).

    Of a polygon in several parts the largest is taken, of run lengths the outline of the largest part. A category that
    is a colour's name or letter, in any case, is the ring's colour; any other (``ring``) is none.

    Args:
        path: the file.
        palette: colours that rings can have.

    Returns:
        Rings (image, the COCO ``file_name``; ring, 0-based number in it; outline; score, 1 or the annotation's own;
        truth); pictures (image, width, height) of the file, also those without a ring; notices: categories that are no
        colour, boxes without a mask, crowds and ignored annotations, all left out and counted but the first.

    Raises:
        DataError: as :func:`birdlab.readers.coco.read_ground_truth`; no ring with a mask at all.
    """
    truth = read_ground_truth(path)
    content = parse(read_bytes(path), str(path))
    segmentations = [record.get("segmentation") for record in content["annotations"]]
    scores = [_score(record) for record in content["annotations"]]
    letters = {name: palette.letter_of(name) for name in truth.categories.values()}
    labels = truth.labels.select("frame_id", "category", "mask_rle", "is_crowd", "is_ignored")
    rows, n_bare, n_left = [], 0, 0
    for (image, category, rle, crowd, ignored), given, score in zip(
        labels.iter_rows(), segmentations, scores, strict=True
    ):
        outline = None if rle is None else outline_of(given, rle)
        if crowd or ignored:
            n_left += 1
        elif outline is None:
            n_bare += 1
        else:
            rows.append((image, outline, score, letters[category]))
    if not rows:
        remedy = "boxes alone do not show a ring's colour" if n_bare else ""
        raise DataError(Problem("no_masks", "no ring with a mask", "masks of rings", remedy, file=str(path)))
    frame = pl.DataFrame(rows, schema=["image", "outline", "score", "truth"], orient="row", strict=False)
    rings = numbered(frame)
    notices = _notices(letters, labels["category"], n_bare, n_left, truth.warnings, path.name)
    pictures = truth.images.select(pl.col("file_name").alias("image"), "width", "height")
    return rings, pictures, notice_table(notices)


def read_coloured_masks(path: Path, palette: Palette) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ring masks that colours are learned from: rings and notices of :func:`read_ring_masks`.

    Raises:
        DataError: also where no category is a colour of the palette.
    """
    rings, _, notices = read_ring_masks(path, palette)
    if rings["truth"].null_count() == rings.height:
        pairs = zip(palette.letters, palette.names, strict=True)
        expected = "categories that are colours: " + ", ".join(f"{name} ({letter})" for letter, name in pairs)
        found = notices.filter(pl.col("code") == "ring_no_colour")["message"].to_list()[0]
        raise DataError(Problem("no_training_rings", found, expected, "name them in rings.colours", file=str(path)))
    return rings, notices


def numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """Rings as :data:`INSTANCES`, numbered within their picture in the order in which they come."""
    ring = pl.int_range(pl.len(), dtype=pl.Int32).over("image").alias("ring")
    return frame.with_columns(ring).select(pl.col(name).cast(dtype) for name, dtype in INSTANCES.items())


def contour_of(mask: np.ndarray) -> np.ndarray | None:
    """Outline of a mask's largest part, as OpenCV gives it (corners of the outer border only).

    Args:
        mask: bool or uint8 array of shape (H, W).

    Returns:
        int array of shape (k, 2), x and y in px; ``None`` for a mask without a pixel. The published pipeline takes the
        first part where a mask has several; for masks in one piece both are the same.

    >>> contour_of(np.ones((2, 3), bool)).tolist()
    [[0, 0], [0, 1], [2, 1], [2, 0]]
    """
    import cv2

    found, _ = cv2.findContours(np.ascontiguousarray(mask, dtype=np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not found:
        return None
    # A line of pixels has no area: the longer outline then decides.
    return max(found, key=lambda c: (cv2.contourArea(c), len(c))).reshape(-1, 2)


def outline_of(segmentation: Any, rle: str | Mapping[str, Any]) -> list[float] | None:
    """Outline of one mask, x, y, x, y, … in px; ``None`` where it covers no pixel.

    Args:
        segmentation: what the file holds: polygons are taken as they are; else ``rle`` is drawn.
        rle: the same mask as COCO run lengths, as text or object.

    >>> outline_of([[0, 0, 4, 0, 4, 4], [8, 8, 9, 8, 9, 9]], "")
    [0.0, 0.0, 4.0, 0.0, 4.0, 4.0]
    """
    if isinstance(segmentation, list):
        polygons = [np.asarray(polygon, dtype=np.float64).reshape(-1, 2) for polygon in segmentation]
        return max(polygons, key=_area).ravel().tolist()
    from pycocotools import mask as coco

    given = json.loads(rle) if isinstance(rle, str) else rle
    run = {"size": list(given["size"]), "counts": given["counts"].encode()}
    x, y, w, h = (int(v) for v in coco.toBbox(run))
    if not (w and h):
        return None
    # Outlines of a large picture are sought in the ring's own box.
    outline = contour_of(coco.decode(run)[y : y + h, x : x + w])
    return None if outline is None else (outline + [x, y]).astype(np.float64).ravel().tolist()


def _area(points: np.ndarray) -> float:
    x, y = points.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _score(record: Mapping[str, Any]) -> float:
    score = record.get("score")
    valid = isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1
    return float(score) if valid else 1.0


def _notices(
    letters: Mapping[str, str | None],
    categories: pl.Series,
    n_bare: int,
    n_left: int,
    warnings: list[str],
    file: str,
) -> list[Notice]:
    other = sorted(name for name, letter in letters.items() if letter is None)
    n_other = int(categories.is_in(other).sum()) if other else 0
    told = ", ".join(other[:_SHOWN]) + (f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else "")
    notices = [
        Notice("ring_no_colour", f"ring masks whose category is no colour of the palette: {told}", n_other, file),
        Notice(
            "ring_no_mask", "annotations of rings without a mask, or with an empty one, were left out", n_bare, file
        ),
        Notice("ring_ignored", "crowds and ignored annotations of rings were left out", n_left, file),
    ]
    said = [Notice("coco", warning, 1, file) for warning in warnings]
    return [n for n in notices if n.n] + said
