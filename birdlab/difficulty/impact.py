"""What mending a factor would be worth, with its uncertainty: intervals of impact, best bin minus overall recall.

The best bin is chosen by looking, so an interval of it alone would promise too much. Here every bin that could have
been the best has an interval at Bonferroni's level; that of the impact runs over all of them, as impact is the largest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.difficulty.arrays import Birds
from birdlab.difficulty.bins import Bins
from birdlab.difficulty.univariate import sums

_F, _S = pl.Float64, pl.String
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "factor": _S, "impact_lo": _F, "impact_hi": _F},
    **{"impact_new_lo": _F, "impact_new_hi": _F, "impact_new_reason": _S},
}
_Flags = npt.NDArray[np.bool_]
_Ends = tuple[float | None, float | None]


def impact_intervals(
    birds: Birds, binned: dict[str, Bins], bins: pl.DataFrame, *, unit: str = "session"
) -> pl.DataFrame:
    """Both named 95 % intervals of the impact of every factor on every model.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`.
        binned: bins by factor.
        bins: what :func:`birdlab.difficulty.univariate.recall_by_bin` returns for them.
        unit: what ``birds.top`` is.

    Returns:
        One row per model and factor (:data:`SCHEMA`), shares in [0, 1]. ``impact_lo``, ``impact_hi``: more frames of
        these sessions, Newcombe's difference of two Wilson intervals (1998, method 10), the bin against all other
        birds, times the share of the other birds. ``impact_new_*``: sessions not recorded yet, linearised difference
        with CR1 and t(G - 1); where a bin's recall is 0 or 1 or no session differs
        from another, Newcombe's on the two intervals for new sessions.
        Null without two bins that hold enough birds, and ``impact_new_*`` for one session, with its reason.
    """
    rows: list[dict[str, Any]] = []
    for m, model in enumerate(birds.models):
        for factor, b in binned.items():
            able = bins.filter((pl.col("model") == model) & (pl.col("factor") == factor) & pl.col("eligible"))
            codes = able["order"].to_list() if b.varies and able.height > 1 else []
            rows.append({"model": model, "factor": factor, **_row(birds, m, b, codes, unit)})
    return pl.DataFrame(rows, schema=SCHEMA)


def _row(birds: Birds, m: int, b: Bins, codes: list[int], unit: str) -> dict[str, Any]:
    if not codes:
        return {"impact_new_reason": "fewer than two bins hold enough birds"}
    known = ~np.isnan(birds.outcome[:, m])
    level = 1 - (1 - stats.CONFIDENCE) / len(codes)
    within = [_newcombe(birds, m, known, b.codes == code, level, unit="") for code in codes]
    lo, hi = _hull(within)
    clusters = len(np.unique(birds.top[known]))
    if clusters < 2:
        reason = f"one {unit}: nothing can be said about another"
        return {"impact_lo": lo, "impact_hi": hi, "impact_new_reason": reason}
    new_lo, new_hi = _hull([_new(birds, m, known, b.codes == code, level, unit) for code in codes])
    return {"impact_lo": lo, "impact_hi": hi, "impact_new_lo": new_lo, "impact_new_hi": new_hi}


def _hull(ends: list[_Ends]) -> _Ends:
    """Of the largest of several differences: the highest lower and the highest upper end; never below 0 or above 1."""
    lows, highs = [e[0] for e in ends if e[0] is not None], [e[1] for e in ends if e[1] is not None]
    if not lows or not highs:
        return None, None
    return max(0.0, *lows), min(1.0, max(highs))


def _newcombe(birds: Birds, m: int, known: _Flags, member: _Flags, level: float, *, unit: str) -> _Ends:
    """One bin against all other birds; ``unit`` empty: within these sessions, else for new ones."""
    hit, ends = birds.outcome[:, m], []
    for part in (known & member, known & ~member):
        if unit:
            i = stats.new_sessions(*sums(birds.top[part], hit[part]), unit=unit, confidence=level)
        else:
            i = stats.within_sessions(*sums(birds.block[part], hit[part]), confidence=level)
        if i.lo is None or i.hi is None:
            return None, None
        ends.append((float(hit[part].mean()), i.lo, i.hi))
    (p, l1, u1), (q, l2, u2) = ends
    rest = float(np.mean(~member[known]))
    return rest * (p - q - math.hypot(p - l1, u2 - q)), rest * (p - q + math.hypot(u1 - p, q - l2))


def _new(birds: Birds, m: int, known: _Flags, member: _Flags, level: float, unit: str) -> _Ends:
    hit, top = birds.outcome[known, m], birds.top[known]
    inside = member[known]
    p, overall = float(hit[inside].mean()), float(hit.mean())
    if p in (0.0, 1.0):
        return _newcombe(birds, m, known, member, level, unit=unit)
    # What each bird adds to p - overall, summed by cluster: a paired comparison, birds of the bin are in both.
    influence = inside * (hit - p) / inside.sum() - (hit - overall) / len(hit)
    _, code = np.unique(top, return_inverse=True)
    e = np.bincount(code, weights=influence)
    groups = len(e)
    if np.abs(e).max() < 1e-12:  # no cluster differs from another: no usable variance either
        return _newcombe(birds, m, known, member, level, unit=unit)
    half = _t(groups - 1, level) * math.sqrt(groups / (groups - 1) * float(e @ e))
    return p - overall - half, p - overall + half


def _t(df: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + confidence / 2))
