"""Intervals of measures that are no sums over clusters: leave one video out at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from birdlab.stats import CONFIDENCE


def leave_one_out(
    measure: Callable[[np.ndarray], float | None], n: int, *, unit: str = "video", confidence: float = CONFIDENCE
) -> tuple[float | None, float | None, str | None]:
    """Interval of a measure of n clusters from its values without each of them.

    Args:
        measure: value from the clusters whose numbers it is given; None where it is undefined.
        n: number of clusters.
        unit: what a cluster is.
        confidence: coverage, in (0, 1).

    Returns:
        lo, hi, reason: value ± t(n-1) √((n-1)/n Σ (value without i - their mean)²), and why there is none: fewer than
        two clusters, a measure that is undefined without one of them, values that do not differ.

    Quenouille's and Tukey's jackknife (Efron and Tibshirani 1993, §11.2).

    >>> lo, hi, _ = leave_one_out(lambda used: float(np.array([1.0, 2.0, 3.0])[used].mean()), 3)
    >>> round(lo, 3), round(hi, 3)
    (-0.484, 4.484)
    """
    if n < 2:
        return None, None, f"one {unit}: nothing can be said about another" if n else "nothing was counted"
    every = np.arange(n)
    value = measure(every)
    without = [measure(np.delete(every, i)) for i in every]
    if value is None or any(w is None for w in without):
        return None, None, f"undefined without one of the {unit}s"
    values = np.array(without, dtype=np.float64)
    variance = (n - 1) / n * float(((values - values.mean()) ** 2).sum())
    if variance <= 1e-24:
        return None, None, f"the same in every {unit}"
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * math.sqrt(variance)
    return value - half, value + half, None
