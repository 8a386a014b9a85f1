"""Boxes: overlap, size, and which detections fall on regions that are left out of scoring.

Boxes are COCO ``x, y, w, h`` in pixels, origin at the top left.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

Number = TypeVar("Number")


class SizeBin(NamedTuple):
    """A range of sizes; counts use [lo, hi), AP uses the closed range as COCO and USB do."""

    level: str
    lo: float
    hi: float


def _name(edge: float) -> str:
    return str(int(edge)) if edge in (0, 1) else f"1/{round(1 / edge)}"


#: Edges on s_r of the Universal-Scale object detection Benchmark (USB), used in Western Bluebird, Table 3.
RELATIVE_EDGES: tuple[float, ...] = (0.0, *(1 / 2**k for k in range(8, 0, -1)), 1.0)
#: Nine bins of relative size; lo and hi are in s_r.
RELATIVE_BINS: tuple[SizeBin, ...] = tuple(
    SizeBin(f"{_name(a)}-{_name(b)}", a, b) for a, b in itertools.pairwise(RELATIVE_EDGES)
)
#: COCO's three sizes; lo and hi are areas in px² (of the mask where the label file gives one).
COCO_BINS: tuple[SizeBin, ...] = (
    SizeBin("small", 0.0, 32.0**2),
    SizeBin("medium", 32.0**2, 96.0**2),
    SizeBin("large", 96.0**2, math.inf),
)


def iou_pairs(dt: np.ndarray, gt: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Overlap in [0, 1] of the detection and the label in each row, higher is better.

    Args:
        dt: float64 (n, 4), detections as x, y, w, h in px.
        gt: float64 (n, 4), labels.
        is_crowd: bool (n,), label is a crowd: its overlap is intersection / area of the detection.

    Returns:
        float64 (n,): intersection over union; 0 where either box has no area or the boxes do not overlap.

    The order of operations is that of the COCO toolkit's C code (``bbIou``), so that ties fall the same way.

    >>> iou_pairs(np.array([[0.0, 0, 2, 2]]), np.array([[0.0, 0, 4, 2]]), np.array([False])).tolist()
    [0.5]
    """
    w = np.minimum(dt[:, 0] + dt[:, 2], gt[:, 0] + gt[:, 2]) - np.maximum(dt[:, 0], gt[:, 0])
    h = np.minimum(dt[:, 1] + dt[:, 3], gt[:, 1] + gt[:, 3]) - np.maximum(dt[:, 1], gt[:, 1])
    inter = np.where((w > 0) & (h > 0), w * h, 0.0)
    area = dt[:, 2] * dt[:, 3]
    union = np.where(is_crowd, area, area + gt[:, 2] * gt[:, 3] - inter)
    return np.divide(inter, union, out=np.zeros_like(inter), where=(inter > 0) & (union > 0))


def iou_matrix(dt: np.ndarray, gt: np.ndarray, is_crowd: np.ndarray | None = None) -> np.ndarray:
    """Overlap in [0, 1] of every detection with every label, higher is better.

    Args:
        dt: (n, 4), detections as x, y, w, h in px.
        gt: (m, 4), labels.
        is_crowd: bool (m,); ``None`` when no label is a crowd.

    Returns:
        float64 (n, m); see :func:`iou_pairs` for crowds and boxes without area. No rows or no columns where there
        is nothing to compare.

    >>> iou_matrix(np.array([[0, 0, 2, 2]]), np.array([[0, 0, 4, 2], [0, 0, 4, 2]]), np.array([False, True])).tolist()
    [[0.5, 1.0]]
    """
    dt = np.asarray(dt, dtype=np.float64).reshape(-1, 4)
    gt = np.asarray(gt, dtype=np.float64).reshape(-1, 4)
    crowd = np.zeros(len(gt), dtype=bool) if is_crowd is None else np.asarray(is_crowd, dtype=bool)
    rows = np.repeat(np.arange(len(dt)), len(gt))
    columns = np.tile(np.arange(len(gt)), len(dt))
    return iou_pairs(dt[rows], gt[columns], crowd[columns]).reshape(len(dt), len(gt))


def relative_size(w: Number, h: Number, W: Number, H: Number) -> Number:
    """Apparent size of a bird in its frame, s_r = sqrt(wh / WH), in [0, 1] for a box inside the frame.

    Western Bluebird, Eq. 1. Works on numbers, numpy arrays, polars series and expressions alike; a null stays null.

    >>> relative_size(240, 135, 3840, 2160)
    0.0625
    """
    return (w * h / (W * 1.0 * H)) ** 0.5  # type: ignore[operator]


def size_counts(sizes: np.ndarray, bins: tuple[SizeBin, ...]) -> list[int]:
    """Number of sizes in each bin, [lo, hi); the last bin of a bounded scale also takes its upper end.

    >>> size_counts(np.array([1 / 16, 1 / 32, 1.0]), RELATIVE_BINS)
    [0, 0, 0, 0, 1, 1, 0, 0, 1]
    """
    last = len(bins) - 1
    return [
        int(np.sum((sizes >= b.lo) & ((sizes < b.hi) | ((i == last) & (sizes == b.hi))))) for i, b in enumerate(bins)
    ]


def boxes_of(frame: pl.DataFrame) -> np.ndarray:
    """Columns x, y, w, h as float64 (n, 4)."""
    return np.ascontiguousarray(frame.select(pl.col("x", "y", "w", "h").cast(pl.Float64)).to_numpy().reshape(-1, 4))


def decode_rle(text: str) -> dict[str, Any]:
    """A mask as pycocotools takes it, from the JSON text of the ``mask_rle`` columns."""
    rle = json.loads(text)
    counts = rle["counts"]
    return {"size": rle["size"], "counts": counts.encode() if isinstance(counts, str) else counts}


def drop_ignored(
    labels: pl.DataFrame, predictions: pl.DataFrame, *, share: float = 0.5, iou: float = 0.5
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Take out the regions that are left out of scoring, and the detections that lie on them.

    A detection is dropped when at least ``share`` of its area lies inside one ignored region of its frame (the
    region's mask where it has one, else its box) and it reaches ``iou`` with no labelled bird of that frame.

    Args:
        labels: table ``labels``.
        predictions: table ``predictions``, any number of models.
        share: part of the detection's area, in [0, 1].
        iou: overlap with a labelled bird (not a crowd) that keeps a detection, in [0, 1].

    Returns:
        (labels without ignored rows, predictions that stay, predictions dropped with the region's ``label_id``);
        row order is kept. Nothing is dropped where no label is ignored. Calling it again changes nothing.
    """
    regions = labels.filter(pl.col("is_ignored"))
    real = labels.filter(~pl.col("is_ignored"))
    if regions.is_empty() or predictions.is_empty():
        return real, predictions, predictions.clear().with_columns(pl.lit(None, pl.String).alias("label_id"))
    rows = predictions.with_row_index("_row").join(regions.select("frame_id").unique(), on="frame_id", how="semi")
    birds = real.filter(~pl.col("is_crowd")).join(regions.select("frame_id").unique(), on="frame_id", how="semi")
    by_frame = {key[0]: part for key, part in birds.partition_by("frame_id", as_dict=True).items()}
    areas = {key[0]: part for key, part in regions.partition_by("frame_id", as_dict=True).items()}
    drop: dict[int, str] = {}
    for (frame_id,), found in rows.partition_by("frame_id", as_dict=True).items():
        inside = _shares(boxes_of(found), areas[frame_id])
        best = inside.argmax(axis=1)
        on_region = inside[np.arange(len(best)), best] >= share
        if frame_id in by_frame:
            on_region &= ~(iou_matrix(boxes_of(found), boxes_of(by_frame[frame_id])) >= iou).any(axis=1)
        ids, index = areas[frame_id]["label_id"].to_list(), found["_row"].to_list()
        drop.update({index[i]: ids[best[i]] for i in np.flatnonzero(on_region)})
    mask = np.zeros(predictions.height, dtype=bool)
    mask[list(drop)] = True
    region_ids = pl.Series("label_id", [drop[i] for i in sorted(drop)], dtype=pl.String)
    return real, predictions.filter(~mask), predictions.filter(mask).with_columns(region_ids)


def _shares(dt: np.ndarray, regions: pl.DataFrame) -> np.ndarray:
    """Part of each detection's area inside each region, (n detections, m regions)."""
    shares = iou_matrix(dt, boxes_of(regions), np.ones(regions.height, dtype=bool))
    for column, text in enumerate(regions["mask_rle"].to_list()):
        if text is not None:
            shares[:, column] = _mask_shares(dt, decode_rle(text))
    return shares


def _mask_shares(dt: np.ndarray, region: dict[str, Any]) -> np.ndarray:
    import hotcoco.mask
    from pycocotools import mask as coco_mask

    height, width = region["size"]
    drawn = coco_mask.frPyObjects(np.ascontiguousarray(dt), height, width)
    # iscrowd=1 makes it intersection / drawn area; the drawn box is cut at the frame, the share is of the whole box.
    part = np.asarray(coco_mask.iou(drawn, [region], [1])).reshape(-1)
    # hotcoco's area: pycocotools' fails on more than 255 masks with NumPy 2.
    inter = np.nan_to_num(part) * np.asarray(hotcoco.mask.area(drawn), dtype=np.float64)
    area = dt[:, 2] * dt[:, 3]
    return np.divide(inter, area, out=np.zeros_like(inter), where=area > 0)
