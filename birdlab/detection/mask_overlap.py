"""mIoU and Dice of masks under every definition in use, from one table of pairs and one of frames.

Two frames of 4 × 4 pixels; T a bird's pixel, D a detection's, B one of both::

    a   B B D .      b   . . . .      a: a bird found with IoU 4/6 (Dice 8/10), a bird of 2 px missed,
        B B D .          . B B .         a false detection of 1 px;
        . . . .          . B B .      b: a bird found with IoU 1 (Dice 1)
        T T . D          . . . .

========================  =======================================  ===========================
definition                mIoU                                     Dice
========================  =======================================  ===========================
matched_instances         (4/6 + 1) / 2 = 5/6                      (8/10 + 1) / 2 = 9/10
all_truth                 (4/6 + 1 + 0) / 3 = 5/9                  (8/10 + 1 + 0) / 3 = 3/5
all_truth_and_false       (4/6 + 1 + 0 + 0) / 4 = 5/12             (8/10 + 1 + 0 + 0) / 4 = 9/20
per_frame                 (4/9 + 4/4) / 2 = 13/18                  (8/13 + 8/8) / 2 = 21/26
pooled_pixels             (4 + 4) / (9 + 4) = 8/13                 2 (4 + 4) / (11 + 10) = 16/21
========================  =======================================  ===========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from birdlab.detection.boundary import boundary_iou
from birdlab.detection.boxes import decode_rle

Measure = Literal["iou", "dice"]
#: What each mean is taken over; I, P, T are the pixels of the overlap, of the detections and of the truth.
DEFINITIONS = {
    "matched_instances": "mean over hits (pairs matched by mask overlap at the confidence)",
    "all_truth": "mean over labelled birds, a miss counting 0",
    "all_truth_and_false": "mean over labelled birds and false positives, a miss and a false positive counting 0",
    "per_frame": "mean over frames of the overlap of all detections with all birds; frames with neither are left out",
    "pooled_pixels": "all frames' pixels together: sum of I over sum of the union (Dice: 2 sum I over sum P + sum T)",
}
#: The same in a few words, for the heads of tables.
TITLES = {
    "matched_instances": "matched pairs",
    "all_truth": "misses as 0",
    "all_truth_and_false": "misses and false positives as 0",
    "per_frame": "per image",
    "pooled_pixels": "pooled pixels",
}
#: Why each is null.
UNDEFINED = {
    "matched_instances": "no hit",
    "all_truth": "no labelled bird",
    "all_truth_and_false": "no labelled bird and no detection",
    "per_frame": "no pixel of a bird or a detection",
    "pooled_pixels": "no pixel of a bird or a detection",
}
_OUTCOMES = {
    "matched_instances": ["tp"],
    "all_truth": ["tp", "fn"],
    "all_truth_and_false": ["tp", "fn", "fp"],
}


@dataclass(frozen=True)
class Overlaps:
    """What all definitions are computed from.

    Args:
        pairs: frame_id, label_id, prediction_id, outcome (tp, fn or fp), iou, dice (both 0 but for hits),
            boundary_iou (null but for hits): a row per bird and per false positive.
        frames: frame_id, inter, found, truth: pixels of I, P and T, a row per frame that has a bird or a detection.
    """

    pairs: pl.DataFrame
    frames: pl.DataFrame


def overlaps(matches: pl.DataFrame, labels: pl.DataFrame, predictions: pl.DataFrame) -> Overlaps:
    """Overlaps of one model's masks.

    Args:
        matches: table ``matches`` of one model by mask overlap, at one confidence.
        labels, predictions: tables in which all that was matched has a mask.

    Returns:
        The two tables; detections that do not count (on crowds and ignored regions) are in neither.
    """
    counted = matches.filter(pl.col("outcome") != "ignored")
    hits = counted.filter(pl.col("outcome") == "tp").select("label_id", "prediction_id")
    masks = hits.join(labels.select("label_id", t="mask_rle"), on="label_id", how="left", maintain_order="left")
    masks = masks.join(predictions.select("prediction_id", f="mask_rle"), on="prediction_id", how="left")
    edges = {a: boundary_iou(decode_rle(f), decode_rle(t)) for a, _, t, f in masks.iter_rows()}
    iou = pl.col("iou").fill_null(0.0)
    pairs = counted.select(
        *("frame_id", "label_id", "prediction_id"),
        pl.col("outcome").cast(pl.String),
        iou=iou,
        # Dice of a pair follows from its IoU: 2 I / (P + T) = 2 IoU / (1 + IoU).
        dice=2 * iou / (1 + iou),
        boundary_iou=pl.Series([edges.get(k) for k in counted["label_id"]], dtype=pl.Float64),
    )
    return Overlaps(pairs, _frame_pixels(counted, labels, predictions))


def values(found: Overlaps, definition: str, measure: Measure) -> pl.DataFrame:
    """The single overlaps that a definition is the mean of: frame_id, k in [0, 1], a row each.

    Args:
        found: see :func:`overlaps`.
        definition: a key of :data:`DEFINITIONS` but ``pooled_pixels``, which is no mean.
        measure: ``iou`` or ``dice``.
    """
    if definition in _OUTCOMES:
        used = found.pairs.filter(pl.col("outcome").is_in(_OUTCOMES[definition]))
        return used.select("frame_id", k=measure)
    i, p, t = (pl.col(c) for c in ("inter", "found", "truth"))
    share = i / (p + t - i) if measure == "iou" else 2 * i / (p + t)
    return found.frames.filter(p + t > 0).select("frame_id", k=share)


def mean_overlap(found: Overlaps, measure: Measure) -> dict[str, float | None]:
    """mIoU or Dice by definition, each in [0, 1], higher is better; ``None`` where nothing is counted.

    Args:
        found: see :func:`overlaps`.
        measure: ``iou`` or ``dice``.

    Misses and false positives can only lower it: matched_instances >= all_truth >= all_truth_and_false. In every
    definition IoU <= Dice <= 2 IoU / (1 + IoU), the upper bound for means by Jensen's inequality (concave); for
    ``pooled_pixels`` Dice equals it.

    The frames a and b drawn above:

    >>> rows = [("a", "tp", 4 / 6, 8 / 10), ("a", "fn", 0.0, 0.0), ("a", "fp", 0.0, 0.0), ("b", "tp", 1.0, 1.0)]
    >>> pairs = pl.DataFrame(rows, schema=["frame_id", "outcome", "iou", "dice"], orient="row")
    >>> frames = pl.DataFrame({"frame_id": ["a", "b"], "inter": [4, 4], "found": [7, 4], "truth": [6, 4]})
    >>> [round(v, 6) for v in mean_overlap(Overlaps(pairs, frames), "iou").values()]
    [0.833333, 0.555556, 0.416667, 0.722222, 0.615385]
    >>> [round(v, 6) for v in mean_overlap(Overlaps(pairs, frames), "dice").values()]
    [0.9, 0.6, 0.45, 0.807692, 0.761905]
    """
    out: dict[str, float | None] = {}
    for definition in DEFINITIONS:
        if definition == "pooled_pixels":
            i, p, t = (float(found.frames[c].sum()) for c in ("inter", "found", "truth"))
            whole, part = (p + t - i, i) if measure == "iou" else (p + t, 2 * i)
            out[definition] = part / whole if whole else None
        else:
            k = values(found, definition, measure)["k"].to_numpy()
            out[definition] = float(k.sum() / len(k)) if len(k) else None
    return out


def mean_boundary_iou(found: Overlaps) -> float | None:
    """Mean boundary IoU over hits, in [0, 1], higher is better; ``None`` without a hit (see :mod:`.boundary`)."""
    return found.pairs["boundary_iou"].mean()  # type: ignore[return-value]


def _frame_pixels(counted: pl.DataFrame, labels: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Pixels of overlap, of detections and of birds in every frame that has either."""
    sides = []
    for table, key in ((predictions, "prediction_id"), (labels, "label_id")):
        wanted = counted.select(key).drop_nulls()
        rows = table.join(wanted, on=key, how="semi").select("frame_id", "mask_rle")
        sides.append(
            {f: [decode_rle(t) for t in texts] for f, texts in rows.group_by("frame_id").agg("mask_rle").iter_rows()}
        )
    names = sorted(sides[0].keys() | sides[1].keys())
    pixels = np.array([_pixels(sides[0].get(f, []), sides[1].get(f, [])) for f in names], dtype=np.float64)
    columns = {"frame_id": pl.Series(names, dtype=pl.String)}
    return pl.DataFrame(columns | dict(zip(("inter", "found", "truth"), pixels.reshape(-1, 3).T, strict=True)))


def _pixels(found: list[dict[str, Any]], truth: list[dict[str, Any]]) -> tuple[float, float, float]:
    from pycocotools import mask

    unions = [mask.merge(side) if side else None for side in (found, truth)]
    p, t = (0.0 if union is None else float(mask.area(union)) for union in unions)
    both = float(mask.area(mask.merge(unions, intersect=True))) if found and truth else 0.0
    return both, p, t
