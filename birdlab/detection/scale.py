"""AP by size: COCO's three sizes in px², and nine bins of relative size.

Relative scale as in USB (Universal-Scale object detection Benchmark; Western Bluebird, Table 3): only the size that
decides the bin is replaced, by wh / (WH) on labels and detections alike, with ranges [lo², hi²] closed at both ends.
Overlaps stay in pixels, so the same holds for masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab.detection.backends import Arrays, Engine, IouType, Plan, Side, accumulate, mean_defined
from birdlab.detection.boxes import RELATIVE_BINS, SizeBin, size_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = {
    **{"definition": pl.String, "level": pl.String, "lo": pl.Float64, "hi": pl.Float64, "n": pl.Int64},
    **{"ap": pl.Float64, "ap50": pl.Float64, "reason": pl.String},
}


def coco_areas(labels: pl.DataFrame, truth: Side, found: Side, iou_type: IouType) -> tuple[np.ndarray, np.ndarray]:
    """Areas in px² that decide COCO's sizes: of labels, and of detections.

    A label's is the file's ``area`` (of the mask, where COCO has one); without it that of the mask when masks are
    compared, else w·h. A detection's is that of what is compared.
    """
    own = _own_area(truth, iou_type)
    given = labels["area_px"].cast(pl.Float64).to_numpy()
    return np.where(np.isnan(given), own, given), _own_area(found, iou_type)


def _own_area(side: Side, iou_type: IouType) -> np.ndarray:
    if iou_type == "bbox" or not len(side):
        return side.boxes[:, 2] * side.boxes[:, 3]
    import hotcoco.mask

    # Not pycocotools' function: with NumPy 2 it fails on more than 255 masks.
    return np.asarray(hotcoco.mask.area(side.masks), dtype=np.float64)


def relative_sizes(frames: pl.DataFrame, truth: Side, found: Side) -> tuple[np.ndarray, np.ndarray]:
    """wh / (WH) = s_r² of labels and of detections; NaN where the frame's width or height is unknown."""
    sizes = frames.select(pl.col("width_px", "height_px").cast(pl.Float64)).to_numpy().reshape(-1, 2)
    frame_area = sizes[:, 0] * sizes[:, 1]
    frame_area[~(frame_area > 0)] = np.nan
    return tuple(side.boxes[:, 2] * side.boxes[:, 3] / frame_area[side.image - 1] for side in (truth, found))


def relative_scale(
    engine: Engine, plan: Plan, truth: Side, found: Side, sizes: tuple[np.ndarray, np.ndarray], max_dets: int
) -> pl.DataFrame:
    """AP in the nine bins of relative size.

    Args:
        engine: ``hotcoco`` or ``pycocotools``.
        plan: images, classes and limits.
        truth: labels.
        found: detections.
        sizes: s_r² of labels and detections, see :func:`relative_sizes`.
        max_dets: detections per frame and class that count.

    Returns:
        definition, level, lo, hi (s_r), n in [lo, hi), ap, ap50, reason. A box exactly on an edge counts in the AP
        of both its bins (USB's closed ranges), and in n of the upper one. An unmatched detection counts against the
        bin of its own size, so the bins' APs do not average to AP. Birds in frames of unknown size are in no bin.
    """
    counts = size_counts(np.sqrt(sizes[0][~truth.extra]), RELATIVE_BINS)
    # NaN: in no bin. 2 lies beyond every range, so the engines leave such a box out of all of them.
    areas = tuple(np.nan_to_num(size, nan=2.0) for size in sizes)
    ranges = [(0.0, 1.0), *((b.lo**2, b.hi**2) for b in RELATIVE_BINS)]
    one = Plan(plan.sizes, plan.n_categories, plan.iou_type, (max_dets,), plan.use_cats)
    arrays = accumulate(engine, one, truth, found, areas, ranges)
    unknown = bool(len(truth)) and bool(np.isnan(sizes[0]).all())
    why = "width and height of the frames are unknown" if unknown else "no labelled bird of this size"
    return by_size_rows("relative", RELATIVE_BINS, counts, arrays, 0, why)


def by_size_rows(
    definition: str,
    bins: Sequence[SizeBin],
    counts: Sequence[int],
    arrays: Arrays,
    at: int,
    why: str = "no labelled bird of this size",
) -> pl.DataFrame:
    """One row per bin from the engine's arrays, whose first area range is all sizes; null where n is 0."""
    rows = []
    for a, (bin_, n) in enumerate(zip(bins, counts, strict=True), start=1):
        ap = mean_defined(arrays.precision[:, :, :, a, at]) if n else None
        ap50 = mean_defined(arrays.precision[0, :, :, a, at]) if n else None
        hi = bin_.hi if np.isfinite(bin_.hi) else None
        reason = None if n else why
        rows.append((definition, bin_.level, bin_.lo, hi, n, ap, ap50, reason))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
