"""A threshold per species: the lowest one at which what is listed is right often enough.

Scores are not probabilities and do not mean the same for two species, so one threshold for all of them gives precise
lists of some and useless lists of others. A threshold found here is chosen on the segments it is reported for: it is an
oracle there, and a proposal for other recordings of the same place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.curves import NO_HIT, NOT_HEARD, NOT_LISTED
from birdlab.soundscapes.levels import Levels, class_levels
from birdlab.stats import wilson

THRESHOLDS = {
    "run": pl.String,
    "class_id": pl.String,
    "target_precision": pl.Float64,
    "threshold": pl.Float64,
    "precision_at": pl.Float64,
    "precision_lo": pl.Float64,
    "precision_hi": pl.Float64,
    "recall_at": pl.Float64,
    "n_at": pl.Int64,
    "reason": pl.String,
}


class Threshold(NamedTuple):
    """A threshold, precision there with its Wilson interval, recall, segments listed; or why there is none."""

    threshold: float | None = None
    precision_at: float | None = None
    precision_lo: float | None = None
    precision_hi: float | None = None
    recall_at: float | None = None
    n_at: int | None = None
    reason: str | None = None


def threshold_at(found: Levels, target: float) -> Threshold:
    """Lowest threshold with a precision of at least ``target``, in [0, 1].

    Precision rises and falls with the threshold; the lowest one that reaches the target finds most. The Wilson interval
    takes segments as independent, which neighbours in one recording are not: it is too narrow.

    Args:
        found: counts of one class.
        target: precision asked for, in (0, 1].

    Returns:
        :class:`Threshold`; none for a class that is heard nowhere, listed nowhere, or never listed so precisely.

    Raises:
        ParameterError: ``target`` is not in (0, 1].

    >>> from birdlab.soundscapes.levels import levels
    >>> at = threshold_at(levels([0.9, 0.8, 0.1], [True, True, False], n_rel=4, n_segments=9), 0.9)
    >>> at.threshold, at.precision_at, round(at.precision_lo, 3), at.recall_at
    (0.8, 1.0, 0.342, 0.5)
    """
    if not 0 < target <= 1:
        raise ParameterError(Problem("bad_value", str(target), "a share in (0, 1]", key="target_precision"))
    if not found.n_rel:
        return Threshold(reason=NOT_HEARD)
    if not len(found.score):
        return Threshold(reason=NOT_LISTED)
    tp, listed = found.tp, found.listed
    if not tp[-1]:
        return Threshold(reason=NO_HIT)
    # Counts against a share in floating point: 0.7 of 10 is 7.
    reached = np.flatnonzero(tp >= target * listed - 1e-9)
    if not len(reached):
        best = float((tp / listed).max())
        return Threshold(reason=f"no threshold has a precision of {target:g}; the highest is {best:.3f}")
    at = int(reached[-1])
    lo, hi = wilson(int(tp[at]), int(listed[at])) or (None, None)
    precision, recall = float(tp[at] / listed[at]), float(tp[at] / found.n_rel)
    return Threshold(float(found.score[at]), precision, lo, hi, recall, int(listed[at]))


def class_thresholds(truth: Truth, coded: Coded, *, target: float = 0.9) -> pl.DataFrame:
    """:func:`threshold_at` of each class of the ground truth: :data:`THRESHOLDS`."""
    rows = [
        {"run": coded.name, "class_id": truth.classes[c], "target_precision": target}
        | threshold_at(found, target)._asdict()
        for c, found in class_levels(truth, coded)
    ]
    return pl.DataFrame(rows, schema=THRESHOLDS, orient="row")
