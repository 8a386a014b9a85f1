"""Intraclass correlations of ratings: two-way models, one rating each, with intervals from the F distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from birdlab.stats import CONFIDENCE

TOO_FEW = "fewer than 3 rated things"
NO_SPREAD = "the ratings do not vary"
PERFECT = "no interval: the raters do not differ but by a constant"


def icc(ratings: npt.ArrayLike, *, confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Intraclass correlations ICC(2,1) and ICC(3,1) of things that were each rated once by the same raters; at most 1.

    ICC(2,1) asks whether raters give the same numbers (a rater who always counts more lowers it):
    (R - E) / (R + (k - 1) E + k (C - E) / n). ICC(3,1) asks whether they rank and space things alike:
    (R - E) / (R + (k - 1) E). R, C and E are the mean squares of things, raters and what is left.

    Args:
        ratings: (n, k), n things and k raters, finite.
        confidence: coverage of the intervals, in (0, 1).

    Returns:
        icc_2_1, icc_2_1_lo, icc_2_1_hi, icc_3_1, icc_3_1_lo, icc_3_1_hi, n, reason. Null with the reason for fewer than 3
        things or ratings that do not vary; without E there is no interval. The intervals take the things as independent.

    Raises:
        ValueError: fewer than two raters, or a rating that is not finite.

    Shrout and Fleiss (1979), table 4 and pp. 424-425; McGraw and Wong (1996), table 7.

    >>> found = icc([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    >>> round(found["icc_2_1"], 2), round(found["icc_3_1"], 2)
    (0.29, 0.71)
    """
    x = np.asarray(ratings, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] < 2 or not np.isfinite(x).all():
        raise ValueError("expected finite ratings, things x raters, of two raters or more")
    n, k = x.shape
    out: dict[str, Any] = dict.fromkeys(f"icc_{m}_1{end}" for m in (2, 3) for end in ("", "_lo", "_hi"))
    out |= {"n": n, "reason": None}
    if n < 3:
        return out | {"reason": TOO_FEW}
    grand, things, raters = x.mean(), x.mean(axis=1, keepdims=True), x.mean(axis=0, keepdims=True)
    row = k * float(((things - grand) ** 2).sum()) / (n - 1)
    column = n * float(((raters - grand) ** 2).sum()) / (k - 1)
    rest = float(((x - things - raters + grand) ** 2).sum()) / ((n - 1) * (k - 1))
    crumb = 1e-24 * max(1.0, float(np.abs(x).max()) ** 2)
    row, column, rest = (0.0 if square < crumb else square for square in (row, column, rest))
    if row + rest == 0:
        return out | {"reason": NO_SPREAD}
    out["icc_3_1"] = (row - rest) / (row + (k - 1) * rest)
    out["icc_2_1"] = (row - rest) / (row + (k - 1) * rest + k * (column - rest) / n)
    if rest == 0:
        return out | {"reason": PERFECT}
    out["icc_3_1_lo"], out["icc_3_1_hi"] = _consistency(row / rest, n, k, confidence)
    out["icc_2_1_lo"], out["icc_2_1_hi"] = _agreement((row, column, rest), out["icc_2_1"], n, k, confidence)
    return out


def _consistency(f: float, n: int, k: int, confidence: float) -> tuple[float, float]:
    upper = 0.5 + confidence / 2
    lo = f / _f(upper, n - 1, (n - 1) * (k - 1))
    hi = f * _f(upper, (n - 1) * (k - 1), n - 1)
    return (lo - 1) / (lo + k - 1), (hi - 1) / (hi + k - 1)


def _agreement(
    squares: tuple[float, float, float], rho: float, n: int, k: int, confidence: float
) -> tuple[float, float]:
    """Satterthwaite's degrees of freedom stand for those of a sum of two mean squares.

    They are made for correlations from 0: with a negative one they can be so few that the interval misses the value.
    """
    rho = max(0.0, rho)
    row, column, rest = squares
    upper, ratio = 0.5 + confidence / 2, column / rest
    part = n * (1 + (k - 1) * rho) - k * rho
    top = (k - 1) * (n - 1) * (k * rho * ratio + part) ** 2
    v = top / ((n - 1) * k**2 * rho**2 * ratio**2 + part**2)
    below, above = _f(upper, n - 1, v), _f(upper, v, n - 1)
    error = k * column + (k * n - k - n) * rest
    return n * (row - below * rest) / (below * error + n * row), n * (above * row - rest) / (error + n * above * row)


def _f(p: float, numerator: float, denominator: float) -> float:
    from scipy.stats import f

    return float(f.ppf(p, numerator, denominator))
