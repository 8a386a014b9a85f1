"""Average precision of one model: the twelve COCO numbers, AP by size, AP by class, precision-recall arrays.

Definitions: COCO detection evaluation (cocodataset.org, "Evaluate"; ten overlaps .50:.05:.95, 101 recall points).
Two engines compute them, see :mod:`birdlab.detection.backends`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from birdlab.detection.backends import Arrays, Engine, IouType, Plan, Side, accumulate, mean_defined
from birdlab.detection.boxes import COCO_BINS, boxes_of, decode_rle, drop_ignored, size_counts
from birdlab.detection.scale import by_size_rows, coco_areas, relative_scale, relative_sizes
from birdlab.errors import ParameterError

#: Names of the twelve COCO numbers, in COCO's order.
STATS = (
    *("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large"),
    *("ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"),
)
_UNBOUNDED = 1e10  # COCO's upper end of "large", px²


@dataclass(frozen=True)
class Evaluation:
    """What one model scores on one set of frames. Undefined is null, and ``reasons`` says why.

    Args:
        stats: the twelve COCO numbers by name (:data:`STATS`), each in [0, 1], higher is better. AP and the size
            rows count ``max_dets`` detections per frame and class; ar1, ar10, ar100 count 1, 10 and 100.
        by_size: definition ("coco", "relative"), level, lo, hi (px² or s_r; hi null: no upper end), n (labelled
            birds in [lo, hi)), ap, ap50, reason.
        by_category: category, n, n_detections, ap, ap50, reason.
        curve: category, recall (101 points), precision, score; at overlap 0.5. score is null where the recall is
            not reached.
        n_ground_truth: labelled birds, without crowds and ignored ones.
        n_images: frames scored.
        n_detections: detections on them, after those on ignored regions were dropped.
        reasons: key of ``stats`` (or "by_size.DEFINITION.LEVEL") to why it is null.
        warnings: what a reader should know.
        settings: engine, iou_type, max_dets, class_agnostic.
    """

    stats: dict[str, float | None]
    by_size: pl.DataFrame
    by_category: pl.DataFrame
    curve: pl.DataFrame
    n_ground_truth: int
    n_images: int
    n_detections: int
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Inputs:
    frames: pl.DataFrame
    labels: pl.DataFrame
    predictions: pl.DataFrame
    categories: list[str]
    warnings: list[str]


def evaluate(
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    engine: Engine = "hotcoco",
    iou_type: IouType = "bbox",
    max_dets: int = 100,
    class_agnostic: bool = False,
) -> Evaluation:
    """Evaluate one model's detections on the frames that were looked at.

    Args:
        labels: table ``labels``. Ignored rows take detections out of scoring (``boxes.drop_ignored``); crowds
            absorb detections, as in COCO.
        predictions: table ``predictions`` of one model; no rows at all is a model that found nothing.
        frames: table ``frames``; unlabelled ones are not scored. Equal scores on different frames are ranked in the
            order of this table (COCO's tools use the order of image ids).
        engine: ``hotcoco`` or ``pycocotools``.
        iou_type: overlap of boxes, or of masks (every row needs ``mask_rle``; see ``masks.with_masks``).
        max_dets: detections per frame and class that count.
        class_agnostic: let a detection find a bird of another class.

    Returns:
        The numbers. Without a labelled bird, AP and AR are null; with birds and no detection they are 0.

    Raises:
        ParameterError: more than one model, ``max_dets`` below 1, or an unknown engine.
    """
    _check(predictions, engine, iou_type, max_dets)
    columns = ["frame_id", "category", "score", "x", "y", "w", "h", *(["mask_rle"] if iou_type == "segm" else [])]
    inputs = _inputs(labels, predictions.select(columns), frames)
    truth, found = _sides(inputs, iou_type)
    steps = tuple(sorted({1, 10, 100, max_dets}))
    sizes = [(h or 0, w or 0) for h, w in inputs.frames.select("height_px", "width_px").iter_rows()]
    plan = Plan(sizes, max(1, len(inputs.categories)), iou_type, steps, not class_agnostic)
    areas = coco_areas(inputs.labels, truth, found, iou_type)
    ranges = [(0.0, _UNBOUNDED), *((b.lo, min(b.hi, _UNBOUNDED)) for b in COCO_BINS)]
    arrays = accumulate(engine, plan, truth, found, areas, ranges)
    at = steps.index(max_dets)
    real = ~truth.extra
    coco = by_size_rows("coco", COCO_BINS, size_counts(areas[0][real], COCO_BINS), arrays, at)
    small = relative_scale(engine, plan, truth, found, relative_sizes(inputs.frames, truth, found), max_dets)
    by_size = pl.concat([coco, small])
    stats, reasons = _stats(arrays, steps, at, coco, int(real.sum()))
    reasons |= {
        f"by_size.{r['definition']}.{r['level']}": r["reason"] for r in by_size.iter_rows(named=True) if r["reason"]
    }
    return Evaluation(
        stats,
        by_size,
        _by_category(inputs, truth, found, arrays, at, class_agnostic),
        _curve(inputs.categories, arrays, at, class_agnostic),
        int(real.sum()),
        inputs.frames.height,
        len(found),
        reasons,
        inputs.warnings + _unsized(inputs) + _crowded(inputs.labels, max_dets, class_agnostic),
        {"engine": engine, "iou_type": iou_type, "max_dets": max_dets, "class_agnostic": class_agnostic},
    )


def _check(predictions: pl.DataFrame, engine: str, iou_type: str, max_dets: int) -> None:
    if predictions["model"].n_unique() > 1:
        raise ParameterError(f"evaluate scores one model at a time, not {predictions['model'].n_unique()}")
    if engine not in ("hotcoco", "pycocotools") or iou_type not in ("bbox", "segm"):
        raise ParameterError(
            f"engine is hotcoco or pycocotools and iou_type bbox or segm, not {engine!r}, {iou_type!r}"
        )
    if max_dets < 1:
        raise ParameterError(f"max_dets is 1 or more, not {max_dets}")


def _inputs(labels: pl.DataFrame, predictions: pl.DataFrame, frames: pl.DataFrame) -> _Inputs:
    """Rows on frames that were looked at, with the frame's number; ignored regions and what lies on them are out."""
    looked = frames.filter(pl.col("label_state") != "unlabelled")
    numbers = looked.select("frame_id", _image=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    warnings = []
    on = predictions.join(numbers, on="frame_id", how="inner", maintain_order="left")
    if on.height < predictions.height:
        warnings.append(f"{predictions.height - on.height} detections on frames that were not labelled are not scored")
    real, kept, dropped = drop_ignored(labels.join(numbers, on="frame_id", how="inner", maintain_order="left"), on)
    if dropped.height:
        warnings.append(f"{dropped.height} detections on ignored regions are not scored")
    if on.is_empty():
        warnings.append("0 detections")
    categories = sorted(set(real["category"].unique()) | set(kept["category"].unique()))
    return _Inputs(looked, real, kept, categories, warnings)


def _sides(inputs: _Inputs, iou_type: IouType) -> tuple[Side, Side]:
    codes = pl.DataFrame({"category": inputs.categories, "_category": np.arange(1, len(inputs.categories) + 1)})
    codes = codes.cast({"category": pl.String})

    def side(table: pl.DataFrame, extra: np.ndarray) -> Side:
        numbers = table.select("category").join(codes, on="category", how="left", maintain_order="left")
        masks = [decode_rle(text) for text in table["mask_rle"]] if iou_type == "segm" else None
        image = table["_image"].to_numpy().astype(np.int64)
        return Side(image, numbers["_category"].to_numpy().astype(np.int64), boxes_of(table), extra, masks)

    if iou_type == "segm" and (inputs.labels["mask_rle"].null_count() or inputs.predictions["mask_rle"].null_count()):
        raise ParameterError("segm needs a mask for every label and detection; see birdlab.detection.masks.with_masks")
    labels, predictions = inputs.labels, inputs.predictions
    return side(labels, labels["is_crowd"].to_numpy().astype(bool)), side(predictions, predictions["score"].to_numpy())


def _stats(
    arrays: Arrays, steps: tuple[int, ...], at: int, coco: pl.DataFrame, n: int
) -> tuple[dict[str, float | None], dict[str, str]]:
    precision, recall = arrays.precision, arrays.recall
    names = [b.level for b in COCO_BINS]
    counts = dict(zip(coco["level"], coco["n"], strict=True))
    stats: dict[str, float | None] = {
        "ap": mean_defined(precision[:, :, :, 0, at]),
        "ap50": mean_defined(precision[0, :, :, 0, at]),
        "ap75": mean_defined(precision[5, :, :, 0, at]),
        **dict(zip((f"ap_{name}" for name in names), coco["ap"], strict=True)),
        **{f"ar{k}": mean_defined(recall[:, :, 0, steps.index(k)]) for k in (1, 10, 100)},
        **{
            f"ar_{name}": mean_defined(recall[:, :, a, at]) if counts[name] else None for a, name in enumerate(names, 1)
        },
    }
    why = "no labelled bird" if n == 0 else "no labelled bird of this size"
    return stats, {key: why for key, value in stats.items() if value is None}


def _by_category(
    inputs: _Inputs, truth: Side, found: Side, arrays: Arrays, at: int, class_agnostic: bool
) -> pl.DataFrame:
    rows = []
    for k, name in enumerate(inputs.categories, start=1):
        n = int(np.sum((truth.category == k) & ~truth.extra))
        row = {"category": name, "n": n, "n_detections": int(np.sum(found.category == k))}
        reason = "scored without classes" if class_agnostic else None if n else "no labelled bird of this class"
        ap = None if reason else mean_defined(arrays.precision[:, :, k - 1, 0, at])
        ap50 = None if reason else mean_defined(arrays.precision[0, :, k - 1, 0, at])
        rows.append(row | {"ap": ap, "ap50": ap50, "reason": reason})
    schema = {"category": pl.String, "n": pl.Int64, "n_detections": pl.Int64}
    return pl.DataFrame(rows, schema=schema | {"ap": pl.Float64, "ap50": pl.Float64, "reason": pl.String})


def _curve(categories: list[str], arrays: Arrays, at: int, class_agnostic: bool) -> pl.DataFrame:
    parts = []
    recall = np.linspace(0.0, 1.0, arrays.precision.shape[1])
    for k, name in enumerate(["all classes"] if class_agnostic else categories):
        precision, score = arrays.precision[0, :, k, 0, at].round(13), arrays.scores[0, :, k, 0, at]
        if (precision > -1).all():
            parts.append(pl.DataFrame({"category": name, "recall": recall, "precision": precision, "score": score}))
    empty = pl.DataFrame(schema={"category": pl.String, **dict.fromkeys(("recall", "precision", "score"), pl.Float64)})
    reached = pl.when(pl.col("precision") > 0).then(pl.col("score"))
    return pl.concat([empty, *parts]).with_columns(reached.alias("score"))


def _unsized(inputs: _Inputs) -> list[str]:
    unknown = inputs.frames.filter(pl.col("width_px").is_null() | pl.col("height_px").is_null())
    birds = inputs.labels.join(unknown.select("frame_id"), on="frame_id", how="semi").filter(~pl.col("is_crowd"))
    if birds.is_empty():
        return []
    return [f"{birds.height} labelled birds on frames of unknown width or height are in no bin of relative size"]


def _crowded(labels: pl.DataFrame, max_dets: int, class_agnostic: bool) -> list[str]:
    by = ["frame_id"] if class_agnostic else ["frame_id", "category"]
    counts = labels.filter(~pl.col("is_crowd")).group_by(by).len()
    over = counts.filter(pl.col("len") > max_dets)
    if over.is_empty():
        return []
    return [
        f"{over.height} frames hold more than max_dets = {max_dets} labelled birds of one class (up to "
        f"{over['len'].max()}): not all of them can be found; raise max_dets"
    ]
