"""Mask scores of one model as rows of the table ``metrics``, with both named intervals of what is a mean."""

from __future__ import annotations

from typing import Any

import polars as pl

from birdlab import stats
from birdlab.detection.groups import clusters, highest_level, share_rows
from birdlab.detection.mask_overlap import DEFINITIONS, UNDEFINED, Overlaps, values
from birdlab.detection.masks import MaskScores, evaluate_masks, has_masks
from birdlab.detection.scored import Scored
from birdlab.detection.scores import NO_BIRD, NO_DETECTION
from birdlab.metrics import metric_row

NO_AP_INTERVAL = "no interval is computed for AP and AR"
#: Said where boundary IoU is IoU for every hit.
ALL_BAND = "the same as IoU for every hit: no mask is thicker than two bands of 2 % of the frame's diagonal"
Rows = list[dict[str, Any]]
_SHARES = {"recall": (["tp", "fn"], NO_BIRD), "precision": (["tp", "fp"], NO_DETECTION)}


def mask_rows(study: Scored, found: pl.DataFrame, frames: pl.DataFrame) -> Rows:
    """AP, counts, mIoU and Dice by definition, boundary IoU; one row with the reason where masks are not on both sides.

    Args:
        study: what is scored.
        found: table ``predictions`` of one model.
        frames: table ``frames``, those the model could be asked about.

    Returns:
        Rows ``mask_…``; the method of mIoU and Dice ends with the name of the definition, those of the interval
        rows with ``; within_sessions`` and ``; new_sessions`` behind it. ``n`` is what the mean is taken over.
    """
    s = study.settings
    on = frames.select("frame_id")
    labels, looked = (t.join(on, on="frame_id", how="semi", maintain_order="left") for t in (study.labels, found))
    coco, fixed = study.coco.replace("bbox", "segm"), f"mask {study.method}"
    if not has_masks(labels, looked):
        side = "labels" if labels["mask_rle"].null_count() == labels.height else "detections"
        return [metric_row(metric="mask_ap", n=0, method=coco, reason=f"the {side} have no masks")]
    options = {"engine": s.engine, "iou": s.iou, "conf": s.conf, "max_dets": s.max_dets}
    result = evaluate_masks(labels, looked, frames, class_agnostic=s.class_agnostic, **options)
    n, why = result.n_ground_truth, result.reasons
    rows = [
        metric_row(metric=f"mask_{m}", value=v, n=n, method=coco, reason=why.get(m) or NO_AP_INTERVAL)
        for m, v in (("ap", result.ap), ("ap50", result.ap50))
    ]
    rows += _count_rows(result, frames, fixed) + _overlap_rows(result, frames, fixed)
    warnings = enumerate(result.warnings, start=1)
    return rows + [
        metric_row(metric="warning", group="warning", level=f"mask {i}", method=coco, reason=w) for i, w in warnings
    ]


def mean_rows(used: pl.DataFrame, frames: pl.DataFrame, *, metric: str, method: str, why: str) -> Rows:
    """Three rows for a mean of values in [0, 1]: the mean, then the mean with each interval.

    Args:
        used: frame_id and k in [0, 1], a row per value.
        frames: table ``frames``, for the clusters.
        metric, method: key of the rows.
        why: reason where there is no value.

    The intervals are those of shares (:mod:`birdlab.stats`) with sums in place of counts: a value in [0, 1] varies at
    most as much as a hit or miss of the same mean, so where n is capped at the number of values they are too wide
    rather than too narrow.
    """
    n = used.height
    value = float(used["k"].sum() / n) if n else None
    at = {"metric": metric, "value": value, "n": n}
    rows = [metric_row(method=method, reason=None if n else why, **at)]
    unit = highest_level(frames)
    placed = used.join(clusters(frames), on="frame_id", how="inner")
    sums = [
        placed.group_by(c).agg(pl.col("k").sum(), pl.len().alias("n")).sort(c)
        for c in ("block", "site" if unit == "site" else "session")
    ]
    within = stats.within_sessions(*_bounded(sums[0]))
    for i in (within, stats.new_sessions(*_bounded(sums[1]), unit=unit)):
        reason = i.reason if n else why
        rows.append(
            metric_row(method=f"{method}; {i.kind}", lo=i.lo, hi=i.hi, n_clusters=i.n_clusters, reason=reason, **at)
        )
    return rows


def _bounded(sums: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Sums and counts per cluster; a sum that rounding carried past its count is cut to it."""
    return sums.select(pl.min_horizontal("k", "n").cast(pl.Float64))["k"], sums["n"]


def _count_rows(result: MaskScores, frames: pl.DataFrame, fixed: str) -> Rows:
    rows: Rows = []
    for key, value in result.fixed.as_dict().items():
        if key not in ("conf", "iou"):
            about = {"metric": f"mask_{key}", "method": fixed, "reason": result.reasons.get(key)}
            number = None if value is None else float(value)
            rows.append(metric_row(value=number, n=result.n_ground_truth, **about))
    if result.overlaps is None:
        return rows
    unit = highest_level(frames)
    where = clusters(frames).with_columns(top="site" if unit == "site" else "session")
    pairs = result.overlaps.pairs.join(where, on="frame_id", how="inner")
    for metric, (bottom, why) in _SHARES.items():
        used = pairs.filter(pl.col("outcome").is_in(bottom)).with_columns(k=(pl.col("outcome") == "tp").cast(pl.Int64))
        about = {"metric": f"mask_{metric}", "group": "all", "level": "all", "method": fixed}
        rows += share_rows(used, why=why, unit=unit, **about)[1:]
    return rows


def _overlap_rows(result: MaskScores, frames: pl.DataFrame, fixed: str) -> Rows:
    found: Overlaps | None = result.overlaps
    rows: Rows = []
    for name, measure, numbers in (("miou", "iou", result.miou), ("dice", "dice", result.dice)):
        for kind in DEFINITIONS:
            about = {"metric": f"mask_{name}", "method": f"{fixed}; {kind}"}
            if found is None or kind == "pooled_pixels":
                why = result.reasons.get(f"{name}.{kind}")
                n = 0 if found is None else found.frames.height
                rows.append(metric_row(value=numbers[kind], n=n, reason=why, **about))
            else:
                rows += mean_rows(values(found, kind, measure), frames, why=UNDEFINED[kind], **about)
    about = {"metric": "mask_boundary_iou", "method": f"{fixed}; matched_instances"}
    if found is not None:
        edges = found.pairs.select("frame_id", k="boundary_iou").drop_nulls()
        about_edges = mean_rows(edges, frames, why=UNDEFINED["matched_instances"], **about)
        hits = found.pairs.filter(pl.col("outcome") == "tp")
        if (hits["iou"] < 1).any() and ((hits["boundary_iou"] - hits["iou"]).abs() < 1e-12).all():
            about_edges[0]["reason"] = ALL_BAND
        rows += about_edges
    return rows
