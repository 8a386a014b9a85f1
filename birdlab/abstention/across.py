"""Across models: does a model that knows more birds also know better when not to answer? IG against UA/A.

A handful of models says little: at n = 8 an r of 0.4 goes with anything from -0.4 to 0.9. So r never stands alone, and
an interval that holds much more than 0 is never put into words as the absence of a relation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from birdlab import stats
from birdlab.errors import DataError, Problem

#: Fewest models with an interval: Fisher's z has standard error 1 / sqrt(n - 3).
MIN_MODELS = 4
#: Correlations closer to 0 than this are called weak, whatever their sign.
WEAK = 0.3
_F, _S, _I = pl.Float64, pl.String, pl.Int64
_COLUMNS = ("model", "ig", "ua_a")
LINE_SCHEMA: dict[str, Any] = {
    **{"family": _S, "model": _S, "parameters": _F, "order": _I, "ig": _F, "ua_a": _F},
    **{"ig_change": _F, "ua_a_change": _F},
}


@dataclass(frozen=True)
class Across:
    """IG against UA/A over models.

    Args:
        r: Pearson's correlation, in [-1, 1]; ``None`` where it is undefined, and ``reason`` says why.
        lo, hi: its 95 % interval (Fisher's z); ``None`` for fewer than four models or models on one line.
        n: models with both numbers; ``n_left_out`` lack one of them.
        p: two-sided p value of r = 0 (Student's t with n - 2 degrees of freedom).
        words: what may be said of it in one sentence.
        lines: models of a family from small to large (:data:`LINE_SCHEMA`); families of at least two models.
        reason: why r or its interval is missing.
    """

    r: float | None
    lo: float | None
    hi: float | None
    n: int
    p: float | None
    words: str
    lines: pl.DataFrame
    n_left_out: int = 0
    reason: str | None = None


def across_models(rows: pl.DataFrame) -> Across:
    """Correlation of IG and UA/A over models, with interval and wording, and how both change with size in a family.

    Args:
        rows: one row per model: model, ig, ua_a (in [0, 1] or both in percent), and where known family and parameters
            (a count).

    Returns:
        See :class:`Across`. Models that lack ``ig`` or ``ua_a`` are left out and counted. The interval takes models as
        independent draws; models of one family are not, so it is rather too narrow.

    Raises:
        DataError: a column is missing or a model occurs twice.

    Fisher (1921): atanh(r) ± z / sqrt(n - 3).

    >>> rows = pl.DataFrame({"model": list("abcd"), "ig": [0.1, 0.2, 0.3, 0.4], "ua_a": [0.5, 0.4, 0.6, 0.5]})
    >>> found = across_models(rows)
    >>> round(found.r, 3), found.n
    (0.316, 4)
    >>> found.words
    'r = 0.32 [-0.93, 0.98], n = 4: too few models to say'
    """
    _check(rows)
    used = rows.filter(pl.all_horizontal(pl.col("ig", "ua_a").cast(_F).is_finite().fill_null(False)))
    x, y = (used[c].cast(_F).to_numpy() for c in ("ig", "ua_a"))
    r, lo, hi, p, reason = _correlation(x, y)
    words = in_words(r, lo, hi, len(x), reason=reason)
    return Across(r, lo, hi, len(x), p, words, family_lines(used), rows.height - len(x), reason)


def fisher_interval(r: float, n: int, *, confidence: float = stats.CONFIDENCE) -> tuple[float, float] | None:
    """Interval of a correlation by Fisher's z, within [-1, 1]; ``None`` for n < 4 or abs(r) = 1.

    >>> [round(end, 2) for end in fisher_interval(0.375, 8)]
    [-0.45, 0.85]
    """
    if n < MIN_MODELS or abs(r) >= 1:
        return None
    from scipy.special import ndtri

    half = float(ndtri(0.5 + confidence / 2)) / math.sqrt(n - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def in_words(r: float | None, lo: float | None, hi: float | None, n: int, *, reason: str | None = None) -> str:
    """One sentence on a correlation, never stronger than its interval.

    Args:
        r, lo, hi: correlation and its interval.
        n: models.
        reason: why one of them is missing.

    Returns:
        An interval that holds 0 and reaches beyond ±0.3 is "too few models to say"; only one that lies within ±0.3 is
        called weak; one that leaves out 0 names the direction.

    >>> in_words(0.05, -0.1, 0.2, 300)
    'r = 0.05 [-0.10, 0.20], n = 300: a linear relation is weak at most (within ±0.3)'
    >>> in_words(0.9, 0.6, 0.98, 9)
    'r = 0.90 [0.60, 0.98], n = 9: models with a higher IG have a higher UA/A'
    """
    if r is None:
        return f"r is not given, n = {n}: {reason}"
    if lo is None or hi is None:
        return f"r = {r:.2f} without an interval, n = {n}: {reason}"
    head = f"r = {r:.2f} [{lo:.2f}, {hi:.2f}], n = {n}: "
    if -WEAK < lo and hi < WEAK:
        return head + f"a linear relation is weak at most (within ±{WEAK:g})"
    if lo <= 0 <= hi:
        return head + "too few models to say"
    return head + f"models with a higher IG have a {'higher' if r > 0 else 'lower'} UA/A"


def family_lines(rows: pl.DataFrame) -> pl.DataFrame:
    """Models of one family from small to large, with what each step in size changed.

    Args:
        rows: as for :func:`across_models`.

    Returns:
        :data:`LINE_SCHEMA`: families by name, ``order`` from 0; ``ig_change`` and ``ua_a_change`` from the next smaller
        model (null for the smallest). Models without family or parameters, and families of one model, are not in it.
    """
    if not {"family", "parameters"} <= set(rows.columns):
        return pl.DataFrame(schema=LINE_SCHEMA)
    known = rows.select(
        pl.col("family", "model").cast(_S), pl.col("parameters").cast(_F), pl.col("ig", "ua_a").cast(_F)
    ).drop_nulls()
    lines = known.filter(pl.len().over("family") > 1).sort("family", "parameters", "model")
    lines = lines.with_columns(
        order=pl.int_range(pl.len()).over("family").cast(_I),
        ig_change=pl.col("ig").diff().over("family"),
        ua_a_change=pl.col("ua_a").diff().over("family"),
    )
    return lines.select(*LINE_SCHEMA)


def _correlation(
    x: np.ndarray, y: np.ndarray
) -> tuple[float | None, float | None, float | None, float | None, str | None]:
    n = len(x)
    if n < MIN_MODELS:
        return None, None, None, None, f"fewer than {MIN_MODELS} models: a correlation of them means nothing"
    for name, v in (("IG", x), ("UA/A", y)):
        if np.ptp(v) == 0:
            return None, None, None, None, f"{name} is the same for every model"
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    if 1 - abs(r) < 1e-12:
        return math.copysign(1.0, r), None, None, None, "the models lie on one line: Fisher's interval is not defined"
    from scipy.special import stdtr

    t = abs(r) * math.sqrt((n - 2) / (1 - r * r))
    lo, hi = fisher_interval(r, n) or (None, None)
    return r, lo, hi, float(2 * stdtr(n - 2, -t)), None


def _check(rows: pl.DataFrame) -> None:
    missing = [c for c in _COLUMNS if c not in rows.columns]
    if missing:
        raise DataError([Problem("missing_column", "no such column", "model, ig and ua_a", key=c) for c in missing])
    twice = rows.filter(pl.col("model").is_duplicated())["model"].unique(maintain_order=True).to_list()
    if twice:
        raise DataError(
            Problem(
                "duplicate_model", ", ".join(map(str, twice)), "one row per model", "choose one variant", key="model"
            )
        )
