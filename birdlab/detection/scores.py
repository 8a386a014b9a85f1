"""Precision, recall and F1 with their counts, at a given confidence and at the one with the highest F1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from birdlab.detection.curves import curve
from birdlab.detection.matching import at_confidence
from birdlab.errors import ParameterError

#: How the confidence came about. ``oracle``: picked on the very frames that are scored, so an upper bound.
GIVEN, ORACLE = "given", "oracle"
NO_BIRD, NO_DETECTION = "no labelled bird", "no detection"


@dataclass(frozen=True)
class OperatingPoint:
    """One model at one confidence: counts, and what follows from them.

    Args:
        conf: confidence kept; ``None`` where there is no detection to choose one by.
        iou: overlap that counts as a hit.
        tp, fp, fn: hits, false positives, misses.
        chosen: ``given``, ``oracle`` or the name of the split the confidence was chosen on.
    """

    conf: float | None
    iou: float
    tp: int
    fp: int
    fn: int
    chosen: str = GIVEN

    @property
    def precision(self) -> float | None:
        """tp / (tp + fp) in [0, 1], higher is better; ``None`` without a detection."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else None

    @property
    def recall(self) -> float | None:
        """tp / (tp + fn) in [0, 1], higher is better; ``None`` without a labelled bird."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def f1(self) -> float | None:
        """2 tp / (2 tp + fp + fn) in [0, 1], higher is better; ``None`` without a labelled bird."""
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn) if self.tp + self.fn else None

    def as_dict(self) -> dict[str, float | int | None]:
        """conf, iou, tp, fp, fn, precision, recall, f1 as plain JSON types."""
        counts = {"conf": self.conf, "iou": self.iou, "tp": self.tp, "fp": self.fp, "fn": self.fn}
        return {**counts, "precision": self.precision, "recall": self.recall, "f1": self.f1}

    def reasons(self) -> dict[str, str]:
        """Why a key of :meth:`as_dict` is ``None``."""
        why = {"conf": NO_DETECTION, "precision": NO_DETECTION, "recall": NO_BIRD, "f1": NO_BIRD}
        return {key: why[key] for key, value in self.as_dict().items() if value is None}


def operating_point(matches: pl.DataFrame, conf: float, *, iou: float = 0.5, chosen: str = GIVEN) -> OperatingPoint:
    """Counts of one model at a confidence.

    Args:
        matches: table ``matches`` of one model, made at a confidence of at most ``conf``.
        conf: confidence kept, in [0, 1].
        iou: overlap the matches were made at (used where the table is empty).
        chosen: how the confidence came about.

    Raises:
        ParameterError: several models, or matches made at a higher confidence.

    >>> from birdlab import schemas
    >>> operating_point(schemas.empty("matches"), 0.25).as_dict()["precision"] is None
    True
    """
    _one_model(matches)
    n = dict(at_confidence(matches, conf).group_by(pl.col("outcome").cast(pl.String)).len().iter_rows())
    at = float(matches["iou_thr"][0]) if matches.height else iou
    return OperatingPoint(conf, at, n.get("tp", 0), n.get("fp", 0), n.get("fn", 0), chosen)


def max_f1(matches: pl.DataFrame, *, iou: float = 0.5, chosen: str = ORACLE) -> OperatingPoint:
    """The confidence with the highest F1, exact over every score that occurs, and the counts there.

    Args:
        matches: table ``matches`` of one model made at ``conf=0``.
        iou: overlap the matches were made at (used where the table is empty).
        chosen: ``oracle`` when the result is reported on these same frames, else the name of their split.

    Returns:
        The operating point; of equal F1 the one with the highest confidence. Without a detection ``conf`` is
        ``None`` and every bird is missed; without a bird the confidence is that of the best-scored detection.

    Raises:
        ParameterError: several models.
    """
    _one_model(matches)
    points = curve(matches)
    n_birds = matches.filter(pl.col("outcome").is_in(["tp", "fn"])).height
    at = float(matches["iou_thr"][0]) if matches.height else iou
    if points.is_empty():
        return OperatingPoint(None, at, 0, 0, n_birds, chosen)
    best = points.row(int(points["f1"].fill_null(0.0).to_numpy().argmax()), named=True)
    return OperatingPoint(best["score"], at, best["tp"], best["fp"], n_birds - best["tp"], chosen)


def at_chosen_confidence(
    matches: pl.DataFrame, elsewhere: pl.DataFrame | None, *, split: str = "val"
) -> OperatingPoint:
    """The max-F1 point with its confidence chosen on other frames where there are any, else as an oracle.

    Args:
        matches: table ``matches`` of one model on the frames that are reported, made at ``conf=0``.
        elsewhere: the same model's matches on frames that are not reported (the validation split), or ``None``.
        split: name of the split of ``elsewhere``.

    Returns:
        Counts on the frames that are reported; ``chosen`` is ``split`` or ``oracle``.
    """
    if elsewhere is not None:
        there = max_f1(elsewhere, chosen=split)
        if there.conf is not None and there.tp:
            return operating_point(matches, there.conf, iou=there.iou, chosen=split)
    return max_f1(matches)


def ap50_bound(f1: float) -> float:
    """Highest AP50 that a highest F1 leaves room for, in [0, 1].

    At recall r the precision is at most F r / (2r - F), so AP50 <= ∫ min(1, F r / (2r - F)) dr over [0, 1]; with
    a = F/2 and r0 = a / (1 - a) that is r0 + a (1 - r0) + 2 a² ln((1 - a) / a).

    Args:
        f1: the highest F1 of one class over all confidences, in [0, 1], at IoU 0.5.

    Raises:
        ValueError: f1 is not in [0, 1].

    >>> round(ap50_bound(0.5997), 3), round(ap50_bound(0.017), 3), ap50_bound(1.0)
    (0.752, 0.018, 1.0)
    """
    if not 0 <= f1 <= 1:
        raise ValueError(f"F1 is in [0, 1], not {f1}")
    if f1 == 0:
        return 0.0
    a = f1 / 2
    r0 = a / (1 - a)
    return min(1.0, r0 + a * (1 - r0) + 2 * a * a * math.log((1 - a) / a))


def max_f1_warning(f1: float | None, ap50: float | None) -> str | None:
    """A sentence when an F1 cannot be the highest one of the detections that gave this AP50, else ``None``.

    Args:
        f1: F1 called the highest, at IoU 0.5 and one class, in [0, 1].
        ap50: AP at IoU 0.5 of the same detections, in [0, 1].

    COCO's AP is a mean over 101 recalls including 0, so it may exceed the integral by up to 1/101.

    >>> max_f1_warning(0.9259, 0.8772) is None
    True
    """
    if f1 is None or ap50 is None or ap50 <= ap50_bound(f1) + 1 / 101:
        return None
    return (
        f"F1 {f1:.4f} is not the highest of these detections: it would allow an AP50 of at most "
        f"{ap50_bound(f1):.3f}, and AP50 is {ap50:.4f}; another confidence was used"
    )


def _one_model(matches: pl.DataFrame) -> None:
    names = matches["model"].unique().to_list()
    if len(names) > 1:
        raise ParameterError(f"one model at a time, not {', '.join(sorted(names))}")
