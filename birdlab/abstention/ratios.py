"""Accuracies and calibration areas of every resample: ratios of sums, and means of such ratios.

An accuracy is a sum over a count, both linear in how often a cluster is drawn. The area under a calibration curve is
a mean of ratios and needs every rank; photographs are sorted once, and a group of tied ones (copies of a photograph
drawn twice are tied too) is summed in closed form with harmonic numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from birdlab.abstention.conventions import Rule
from birdlab.abstention.quadratic import check_codes, chunks, totals


def mean_values(x: npt.ArrayLike, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Mean of x in every resample: an accuracy (x right or wrong), a rate of abstention, a gain over chance.

    Args:
        x: (N,), bool or float.
        codes: cluster of each photograph, (N,).
        weights: how often each cluster is drawn, (R, C).

    Returns:
        (R,); NaN for a resample without a photograph.

    >>> mean_values([True, False, False], [0, 0, 1], np.array([[1, 1], [2, 0], [0, 2]])).round(3).tolist()
    [0.333, 0.5, 0.0]
    """
    n = totals(np.ones(len(np.asarray(codes))), codes, weights)
    return np.divide(totals(x, codes, weights), n, out=np.full(len(n), np.nan), where=n > 0)


def calibration_values(
    u: npt.ArrayLike,
    right: npt.ArrayLike,
    codes: npt.ArrayLike,
    weights: npt.NDArray[np.integer],
    *,
    rule: Rule = "mean",
) -> npt.NDArray[np.float64]:
    """Area under accuracy of the k least uncertain photographs, for every resample, in [0, 1].

    A tied group of d photographs of mean correctness p, after n0 photographs with c0 right, adds
    d p + (c0 - n0 p)(H[n0 + d] - H[n0]) to the sum of acc(k), its expected value over all orders of the tied ones;
    H are the harmonic numbers.

    Args:
        u: uncertainty, (N,); +inf comes last, NaN is refused.
        right: correctness, (N,), bool or shares in [0, 1].
        codes: cluster of each photograph, (N,).
        weights: how often each cluster is drawn, (R, C).
        rule: ``mean`` of acc(k) over k = 1..n; ``trapz`` over coverage 1/n..1 divided by its width; ``trapz_left``
            the same extended flat to coverage 0. All are supported; AURC is 1 minus the ``mean``.

    Returns:
        (R,); NaN for a resample without a photograph. With one photograph every rule gives its correctness.

    Raises:
        ValueError: lengths differ or u holds NaN.

    Nadeem, Zucker and Hanczar (2009), accuracy-rejection curves.

    >>> u, right = [0.1, 0.2, 0.8, 0.9], [True, True, False, False]
    >>> [calibration_values(u, right, [0] * 4, np.array([[1]]), rule=r).round(6).item()
    ...     for r in ("mean", "trapz", "trapz_left")]
    [0.791667, 0.805556, 0.854167]
    """
    starts, right, codes = _arrange(u, right, codes)
    check_codes(codes, weights.shape[1])
    out = np.full(len(weights), np.nan)
    if not len(right):
        return out
    most = int(totals(np.ones(len(right)), codes, weights).max(initial=0))
    harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, most + 1)))
    tied = len(starts) < len(right)
    for rows in chunks(len(weights), 40 * len(right)):
        d = np.take(weights[rows], codes, axis=1)
        k = d * right
        if tied:
            d, k = (np.add.reduceat(x, starts, axis=1) for x in (d, k))
        n_end, c_end = np.cumsum(d, axis=1), np.cumsum(k, axis=1)
        lift = c_end - k
        if tied:
            share = np.divide(k, d, out=np.zeros(d.shape), where=d > 0)
            lift = lift - (n_end - d) * share
        else:
            lift -= (n_end - d) * right
        step = np.diff(harmonic[n_end], axis=1, prepend=0.0)
        total = c_end[:, -1] + np.einsum("re,re->r", lift, step)
        first = _first(d, k) if rule != "mean" else 0.0
        out[rows] = _area(total, first, c_end[:, -1], n_end[:, -1], rule)
    return out


def aurc_values(
    u: npt.ArrayLike, right: npt.ArrayLike, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Area under the risk-coverage curve (mean risk over k = 1..n) of every resample, in [0, 1]; lower is better.

    Args and Returns as for :func:`calibration_values`, of which it is 1 minus the ``mean``.

    >>> aurc_values([0.1, 0.9], [True, False], [0, 0], np.array([[1]]))
    array([0.25])
    """
    return 1 - calibration_values(u, right, codes, weights)


def _arrange(
    u: npt.ArrayLike, right: npt.ArrayLike, codes: npt.ArrayLike
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64 | np.bool_], npt.NDArray[np.int64]]:
    u = np.asarray(u, dtype=np.float64).reshape(-1)
    right, codes = np.asarray(right, dtype=np.float64).reshape(-1), np.asarray(codes, dtype=np.int64).reshape(-1)
    if not len(u) == len(right) == len(codes):
        raise ValueError(f"u, right and codes differ in length: {len(u)}, {len(right)}, {len(codes)}")
    if np.isnan(u).any():
        raise ValueError("NaN among the uncertainties: decide first what an undefined one means")
    if ((right == 0) | (right == 1)).all():
        right = right.astype(bool)  # counts in whole numbers: exact, and half the memory
    order = np.argsort(u, kind="stable")
    u = u[order]
    starts = np.flatnonzero(np.append(True, u[1:] != u[:-1])) if len(u) else np.zeros(0, dtype=np.intp)
    return starts, right[order], codes[order]


def _first(d: npt.NDArray[np.integer], k: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """acc(1): the share right in the first group that was drawn at all."""
    column = np.argmax(d > 0, axis=1)[:, None]
    d, k = np.take_along_axis(d, column, 1)[:, 0], np.take_along_axis(k, column, 1)[:, 0]
    return k / np.maximum(d, 1)


def _area(
    total: npt.NDArray[np.float64],
    first: npt.NDArray[np.float64] | float,
    n_right: npt.NDArray[np.integer],
    n: npt.NDArray[np.integer],
    rule: Rule,
) -> npt.NDArray[np.float64]:
    """Area from the sum of acc(k), acc(1) and acc(n)."""
    out = np.full(len(total), np.nan)
    if rule == "mean":
        return np.divide(total, n, out=out, where=n > 0)
    last = n_right / np.maximum(n, 1)
    inner = total - (first + last) / 2
    if rule == "trapz":
        return np.where(n == 1, total, np.divide(inner, n - 1, out=out, where=n > 1))
    return np.divide(first + inner, n, out=out, where=n > 0)
