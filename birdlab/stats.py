"""Intervals and tests for shares of clustered things: birds in frames, frames in sessions, sessions at sites.

Two intervals with names. *Within these sessions*: what more frames of the same recordings would give; a Wilson
interval whose n is lowered to what the clusters of frames are worth. *For new sessions* (or sites): what another
recording would give; a logit-scale interval with the cluster-robust variance CR1 and Student's t with G - 1 degrees
of freedom. Sessions are never resampled when they are few: with four of them a percentile bootstrap covers about
0.77 instead of 0.95.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
WITHIN, NEW = "within_sessions", "new_sessions"


@dataclass(frozen=True)
class Interval:
    """An interval of a share or of a difference.

    Args:
        lo, hi: ends; ``None`` where no interval can be given, and then ``reason`` says why.
        kind: ``within_sessions`` or ``new_sessions``.
        n_clusters: clusters it rests on.
        reason: why there is no interval, or what was done instead of the usual formula.
        p: two-sided p value of "no difference" (differences only).
    """

    lo: float | None
    hi: float | None
    kind: str
    n_clusters: int
    reason: str | None = None
    p: float | None = None


def wilson(k: float, n: float, *, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Wilson score interval of k successes in n independent trials; both ends in [0, 1].

    Args:
        k: successes, 0 <= k <= n; need not be whole (effective counts).
        n: trials.
        confidence: coverage, in (0, 1).

    Returns:
        (lo, hi), or ``None`` for n = 0, where nothing is known.

    Raises:
        ValueError: k is not in [0, n].

    Wilson (1927); Brown, Cai and DasGupta (2001), Eq. 4.

    >>> lo, hi = wilson(35, 48)
    >>> round(100 * lo, 1), round(100 * hi, 1)
    (59.0, 83.4)
    """
    if n == 0:
        return None
    if not 0 <= k <= n:
        raise ValueError(f"k must be in [0, n], not k={k}, n={n}")
    z = _normal_quantile(confidence)
    p, z2n = k / n, z * z / n
    centre = (p + z2n / 2) / (1 + z2n)
    half = z / (1 + z2n) * math.sqrt(p * (1 - p) / n + z2n / (4 * n))
    return (0.0 if k == 0 else max(0.0, centre - half), 1.0 if k == n else min(1.0, centre + half))


def cluster_variance(k: npt.ArrayLike, n: npt.ArrayLike) -> float | None:
    """Variance of the pooled share Σk / Σn from clusters (CR1), v = G/(G-1) Σ e_g² / (Σn)² with e_g = k_g - p n_g.

    Args:
        k: successes (or sums) per cluster, (G,).
        n: trials per cluster, (G,), all above 0.

    Returns:
        v, at least 0; ``None`` for fewer than two clusters.

    >>> cluster_variance([1, 3], [4, 4])
    0.0625
    """
    k, n = np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if len(k) < 2:
        return None
    # Shares that are the same everywhere: e is 0 but for rounding (counts that differ give at least 1 / Σn).
    e = k - k.sum() / n.sum() * n
    e[np.abs(e) < 1e-12 * n.sum()] = 0.0
    return float(len(k) / (len(k) - 1) * np.sum(e**2) / n.sum() ** 2)


def design_effect(k: npt.ArrayLike, n: npt.ArrayLike) -> float | None:
    """How many times more the pooled share varies than with independent trials, deff = v / (p(1-p)/n); 1 is none.

    Returns:
        deff, at least 0; ``None`` for fewer than two clusters or a share of 0 or 1.

    Kish (1965); the variance is :func:`cluster_variance`.

    >>> design_effect([4, 0], [4, 4])
    8.0
    """
    v = cluster_variance(k, n)
    total, p = float(np.sum(n)), float(np.sum(k)) / float(np.sum(n)) if np.sum(n) else 0.0
    return None if v is None or p in (0.0, 1.0) else v / (p * (1 - p) / total)


def n_effective(k: npt.ArrayLike, n: npt.ArrayLike, *, confidence: float = CONFIDENCE) -> float | None:
    """Number of independent trials that clustered ones are worth, at most Σn.

    n_eff = p(1-p)/v · (z / t_{G-1})²: the ratio of quantiles pays for a variance that few clusters estimate badly.

    Returns:
        n_eff in (0, Σn]; ``None`` for fewer than two clusters or v = 0, where the clusters say nothing.

    Korn and Graubard (1998), degrees-of-freedom adjusted effective sample size.
    """
    v = cluster_variance(k, n)
    if not v:
        return None
    total = float(np.sum(n))
    p = float(np.sum(k)) / total
    ratio = _normal_quantile(confidence) / _t_quantile(len(np.asarray(k)) - 1, confidence)
    return min(total, p * (1 - p) / v * ratio**2)


def within_sessions(k: npt.ArrayLike, n: npt.ArrayLike, *, confidence: float = CONFIDENCE) -> Interval:
    """Interval of a share for more frames of these sessions: Wilson with n lowered to n_eff.

    Args:
        k: successes per cluster of frames (a photograph, or a block of neighbouring video frames), (G,).
        n: trials per cluster, (G,); clusters without a trial are left out.
        confidence: coverage, in (0, 1).

    Returns:
        Interval in [0, 1]. A share of 0 or 1 (or one cluster, or v = 0) has no usable variance: then Wilson with
        the number of clusters for n, and ``reason`` says so. No trials: no interval.

    >>> within_sessions([1, 0, 1, 1], [1, 1, 1, 1]).reason is None
    True
    """
    k, n = _used(k, n)
    if not len(n):
        return Interval(None, None, WITHIN, 0, "nothing was counted")
    p, n_eff = float(k.sum() / n.sum()), n_effective(k, n, confidence=confidence)
    reason = None
    if n_eff is None or p in (0.0, 1.0):
        n_eff = float(len(n))
        reason = f"Wilson interval with n = {len(n)} clusters of frames: they do not vary"
    lo, hi = wilson(p * n_eff, n_eff, confidence=confidence) or (None, None)
    return Interval(lo, hi, WITHIN, len(n), reason)


def new_sessions(
    k: npt.ArrayLike, n: npt.ArrayLike, *, unit: str = "session", confidence: float = CONFIDENCE
) -> Interval:
    """Interval of a share for sessions not recorded yet: logit(p) ± t_{G-1} √v / (p(1-p)).

    Args:
        k: successes per session (or site), (G,).
        n: trials per session, (G,); sessions without a trial are left out.
        unit: what a cluster is, ``session`` or ``site``.
        confidence: coverage, in (0, 1).

    Returns:
        Interval in [0, 1]. ``None`` ends for fewer than two clusters. A share of 0 or 1, or v = 0, has no usable
        variance: then Wilson with the number of clusters for n, and ``reason`` says so.

    Liang and Zeger (1986) with the factor G/(G-1) (CR1); t(G-1) as in Cameron and Miller (2015), §VI.D.
    """
    k, n = _used(k, n)
    if not len(n):
        return Interval(None, None, NEW, 0, "nothing was counted")
    if len(n) < 2:
        return Interval(None, None, NEW, len(n), f"one {unit}: nothing can be said about another")
    p, v = float(k.sum() / n.sum()), cluster_variance(k, n)
    if p in (0.0, 1.0) or not v:
        lo, hi = wilson(p * len(n), len(n), confidence=confidence) or (None, None)
        return Interval(lo, hi, NEW, len(n), f"Wilson interval with n = {len(n)} {unit}s: they do not vary")
    half = _t_quantile(len(n) - 1, confidence) * math.sqrt(v) / (p * (1 - p))
    centre = math.log(p / (1 - p))
    return Interval(_expit(centre - half), _expit(centre + half), NEW, len(n))


def mean_difference(
    total: npt.ArrayLike, n: npt.ArrayLike, *, kind: str = NEW, unit: str = "session", confidence: float = CONFIDENCE
) -> Interval:
    """Interval and p value of a mean of paired differences, from clusters: d ± t_{G-1} √v (CR1).

    Args:
        total: sum of the differences per cluster, (G,) (recovered by A minus recovered by B, bird by bird).
        n: pairs per cluster, (G,); clusters without a pair are left out.
        kind: name of the interval.
        unit: what a cluster is.
        confidence: coverage, in (0, 1).

    Returns:
        Interval in the differences' unit, with p. No ends and no p for fewer than two clusters or when the clusters
        do not differ at all (v = 0), and ``reason`` says which.

    >>> mean_difference([0, 0], [5, 5]).reason
    'the difference is the same in every session'
    """
    total, n = _used(total, n)
    if len(n) < 2:
        reason = f"one {unit}: nothing can be said about another" if len(n) else "nothing was counted"
        return Interval(None, None, kind, len(n), reason)
    v = cluster_variance(total, n)
    if not v:
        return Interval(None, None, kind, len(n), f"the difference is the same in every {unit}")
    d, se = float(total.sum() / n.sum()), math.sqrt(v)
    half = _t_quantile(len(n) - 1, confidence) * se
    return Interval(d - half, d + half, kind, len(n), None, _t_two_sided(d / se, len(n) - 1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down p values for a family of tests, in [0, 1], in the order given.

    Args:
        p_values: raw p values; ``None`` for a test that could not be made, which is not part of the family.

    Returns:
        Adjusted p values, each at least the raw one; ``None`` stays ``None``; an empty family is an empty list.

    Holm (1979).

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    order = sorted((i for i, p in enumerate(p_values) if p is not None), key=lambda i: p_values[i])
    out: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[i]))  # type: ignore[operator]
        out[i] = running
    return out


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for linear algebra inside the block: products this small only wait for one another."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1):
        yield


def _used(k: npt.ArrayLike, n: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    k, n = np.asarray(k, dtype=np.float64).reshape(-1), np.asarray(n, dtype=np.float64).reshape(-1)
    if len(k) != len(n):
        raise ValueError(f"k and n differ in length: {len(k)} and {len(n)}")
    return k[n > 0], n[n > 0]


def _normal_quantile(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + confidence / 2))


def _t_quantile(df: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + confidence / 2))


def _t_two_sided(t: float, df: int) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(t)))


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
