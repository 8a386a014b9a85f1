"""Masks: AP, precision and recall by mask overlap, mIoU and Dice under every named definition, boundary IoU.

"mIoU" means different things in different papers, so each meaning has a name (:data:`DEFINITIONS`) and all are given.
Western Bluebird, Table 2, prints one mIoU and one Dice per model without saying which; see
:func:`birdlab.detection.mask_checks.possible_definitions` for what its rows can be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from birdlab.detection.backends import Engine
from birdlab.detection.engine import evaluate
from birdlab.detection.mask_overlap import (
    DEFINITIONS,
    UNDEFINED,
    Overlaps,
    mean_boundary_iou,
    mean_overlap,
    overlaps,
)
from birdlab.detection.matching import match
from birdlab.detection.scores import OperatingPoint, operating_point


@dataclass(frozen=True)
class MaskScores:
    """How good the masks of one model are. Undefined is null, and ``reasons`` says why.

    Args:
        ap, ap50: average precision with mask overlap, in [0, 1], higher is better.
        fixed: counts, precision, recall and F1 with mask overlap at the confidence.
        miou, dice: one value in [0, 1] per definition of :data:`DEFINITIONS`, higher is better.
        boundary_iou: mean over hits in [0, 1], higher is better, see :mod:`birdlab.detection.boundary`.
        n_ground_truth, n_images: labelled birds and frames whose masks were compared.
        reasons: key to why it is null.
        warnings: what a reader should know.
        overlaps: what miou, dice and boundary_iou are means of; ``None`` where masks are not on both sides.
    """

    ap: float | None
    ap50: float | None
    fixed: OperatingPoint
    miou: dict[str, float | None]
    dice: dict[str, float | None]
    boundary_iou: float | None
    n_ground_truth: int
    n_images: int
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    overlaps: Overlaps | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types: ap, ap50, precision, recall, f1, counts, miou, dice, boundary_iou."""
        point = self.fixed.as_dict()
        return {"ap": self.ap, "ap50": self.ap50, **point, "miou": self.miou, "dice": self.dice} | {
            "boundary_iou": self.boundary_iou,
            "n_ground_truth": self.n_ground_truth,
            "n_images": self.n_images,
        }


def has_masks(labels: pl.DataFrame, predictions: pl.DataFrame) -> bool:
    """Whether labelled birds and detections have masks at all."""
    real = labels.filter(~pl.col("is_ignored"))["mask_rle"]
    found = predictions["mask_rle"]
    return real.null_count() < len(real) and found.null_count() < len(found)


def with_masks(
    labels: pl.DataFrame, predictions: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, list[str]]:
    """Tables in which everything that is compared has a mask.

    Args:
        labels: table ``labels``.
        predictions: table ``predictions``.
        frames: table ``frames``.

    Returns:
        (labels, predictions, frames, warnings): frames with a labelled bird that has no mask are left out; a
        detection without a mask stands for its filled box, as in COCO's own tools. Both are counted in warnings.
    """
    warnings = []
    bare = labels.filter(pl.col("mask_rle").is_null() & ~pl.col("is_ignored"))
    lost = frames.filter(pl.col("frame_id").is_in(bare["frame_id"].unique().to_list()))
    if lost.height:
        warnings.append(f"{lost.height} frames with birds that have no mask are not in the mask scores")
        frames = frames.join(lost.select("frame_id"), on="frame_id", how="anti", maintain_order="left")
    labels = labels.join(frames.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
    predictions = predictions.join(frames.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
    absent = predictions["mask_rle"].null_count()
    if absent:
        warnings.append(f"{absent} detections have no mask: their filled box is used")
        predictions = predictions.with_columns(_filled_boxes(labels, predictions, frames))
    return labels, predictions, frames, warnings


def evaluate_masks(
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    engine: Engine = "hotcoco",
    iou: float = 0.5,
    conf: float = 0.25,
    max_dets: int = 100,
    class_agnostic: bool = False,
) -> MaskScores:
    """Score one model's masks.

    Args:
        labels: table ``labels``; rows with ``is_ignored`` and crowds as in ``engine.evaluate``.
        predictions: table ``predictions`` of one model.
        frames: table ``frames``; unlabelled ones are not scored.
        engine: ``hotcoco`` or ``pycocotools``.
        iou: mask overlap that counts as a hit, in (0, 1].
        conf: confidence kept for everything but AP, in [0, 1].
        max_dets: detections per frame and class that count for AP.
        class_agnostic: let a detection find a bird of another class.

    Returns:
        The scores; where labels or detections have no masks everything is null, with the reason. The two pixel
        definitions (``per_frame``, ``pooled_pixels``) take all classes together, and leave out detections that do
        not count (on crowds and ignored regions).

    Raises:
        ParameterError: an argument is out of range, or several models.
    """
    if not has_masks(labels, predictions):
        return _without_masks(iou, conf)
    labels, predictions, frames, warnings = with_masks(labels, predictions, frames)
    result = evaluate(
        labels, predictions, frames, engine=engine, iou_type="segm", max_dets=max_dets, class_agnostic=class_agnostic
    )
    matches = match(labels, predictions, frames, iou=iou, conf=conf, class_agnostic=class_agnostic, iou_type="segm")
    point = operating_point(matches, conf, iou=iou)
    found = overlaps(matches, labels, predictions)
    miou, dice, edge = mean_overlap(found, "iou"), mean_overlap(found, "dice"), mean_boundary_iou(found)
    reasons = {key: why for key, why in result.reasons.items() if key in ("ap", "ap50")} | point.reasons()
    reasons |= {
        f"{name}.{kind}": UNDEFINED[kind]
        for name, values in (("miou", miou), ("dice", dice))
        for kind, value in values.items()
        if value is None
    }
    if edge is None:
        reasons["boundary_iou"] = UNDEFINED["matched_instances"]
    return MaskScores(
        result.stats["ap"],
        result.stats["ap50"],
        point,
        miou,
        dice,
        edge,
        result.n_ground_truth,
        result.n_images,
        reasons,
        warnings + [w for w in result.warnings if w != "0 detections"],
        found,
    )


def _without_masks(iou: float, conf: float) -> MaskScores:
    nothing: dict[str, float | None] = dict.fromkeys(DEFINITIONS)
    keys = ["ap", "ap50", "precision", "recall", "f1", "boundary_iou"]
    keys += [f"{m}.{d}" for m in ("miou", "dice") for d in DEFINITIONS]
    why = dict.fromkeys(keys, "no masks on both sides")
    return MaskScores(None, None, OperatingPoint(conf, iou, 0, 0, 0), nothing, dict(nothing), None, 0, 0, why)


def _filled_boxes(labels: pl.DataFrame, predictions: pl.DataFrame, frames: pl.DataFrame) -> pl.Series:
    """``mask_rle`` with boxes filled in where it is null; the canvas is the frame, or that of the frame's masks."""
    from pycocotools import mask

    canvas = {f: (h, w) for f, h, w in frames.select("frame_id", "height_px", "width_px").iter_rows() if h and w}
    for table in (labels, predictions):
        for frame_id, text in table.select("frame_id", "mask_rle").drop_nulls().iter_rows():
            canvas.setdefault(frame_id, tuple(json.loads(text)["size"]))
    out = []
    for row in predictions.select("frame_id", "mask_rle", "x", "y", "w", "h").iter_rows(named=True):
        text = row["mask_rle"]
        if text is None:
            height, width = canvas.get(row["frame_id"], (1, 1))
            box = np.array([[row["x"], row["y"], row["w"], row["h"]]])
            rle = mask.frPyObjects(box, height, width)[0]
            text = json.dumps({"size": [height, width], "counts": rle["counts"].decode()}, separators=(",", ":"))
        out.append(text)
    return pl.Series("mask_rle", out, dtype=pl.String)
