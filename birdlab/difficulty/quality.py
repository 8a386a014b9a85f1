"""How well the joint model describes its own birds: discrimination, error of the probabilities, reliability by tenths."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.difficulty.logit import Floats

RELIABILITY_SCHEMA = {
    "tenth": pl.Int32,
    "n": pl.Int32,
    "predicted": pl.Float64,
    "observed": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
}


def area_under_curve(probability: Floats, recovered: Floats) -> float | None:
    """Share of pairs of a recovered and a missed bird that the probabilities order rightly, ties half; 1 is best.

    Returns:
        In [0, 1], 0.5 for no discrimination; ``None`` where all birds were recovered, or all missed.

    Hanley and McNeil (1982).

    >>> area_under_curve(np.array([0.9, 0.8, 0.3]), np.array([1.0, 0.0, 0.0]))
    1.0
    """
    from scipy.stats import rankdata

    hit = recovered > 0.5
    n_hit, n_miss = int(hit.sum()), int((~hit).sum())
    if not n_hit or not n_miss:
        return None
    return float((rankdata(probability)[hit].sum() - n_hit * (n_hit + 1) / 2) / (n_hit * n_miss))


def brier(probability: Floats, recovered: Floats) -> float | None:
    """Mean squared error of the probabilities, in [0, 1], lower is better; ``None`` without birds (Brier 1950).

    >>> brier(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    0.25
    """
    return float(np.mean((probability - recovered) ** 2)) if len(recovered) else None


def reliability(probability: Floats, recovered: Floats, *, n_bins: int = 10) -> pl.DataFrame:
    """Predicted and observed recall by tenths of the predicted probability.

    Returns:
        ``tenth`` from 1, ``n``, mean ``predicted``, ``observed`` with its Wilson interval. Bins hold equal numbers of
        birds (one more in the first ones); fewer birds than bins give as many bins as birds.
    """
    from birdlab.stats import wilson

    order = np.argsort(probability, kind="stable")
    rows = []
    for i, part in enumerate(np.array_split(order, min(n_bins, len(order))) if len(order) else []):
        k, n = float(recovered[part].sum()), len(part)
        lo, hi = wilson(k, n) or (None, None)
        rows.append((i + 1, n, float(probability[part].mean()), k / n, lo, hi))
    return pl.DataFrame(rows, schema=RELIABILITY_SCHEMA, orient="row")


def hosmer_lemeshow(table: pl.DataFrame) -> tuple[float | None, float | None]:
    """Hosmer and Lemeshow's statistic on a table of :func:`reliability` (0 is a perfect fit) and its p value, χ²(bins - 2).

    Returns:
        (None, None) with fewer than 3 bins, or where a bin's predicted recall is 0 or 1.

    Hosmer and Lemeshow (1980); a footnote: it says little with few misses.
    """
    from scipy.special import chdtrc

    n, p, o = (table[c].to_numpy().astype(np.float64) for c in ("n", "predicted", "observed"))
    if len(n) < 3 or np.any((p <= 0) | (p >= 1)):
        return None, None
    statistic = float(np.sum(n * (o - p) ** 2 / (p * (1 - p))))
    return statistic, float(chdtrc(len(n) - 2, statistic))
