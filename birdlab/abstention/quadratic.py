"""Areas that are quadratic forms in how often each cluster is drawn: UA/A, accuracy against information, AUGRC.

Each of them is a sum over pairs of events, so one matrix of clusters by clusters, made once, gives the area of every
resample, w'Kw, without sorting anything again. The matrix is exact: whole numbers and halves for UA/A.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from birdlab.abstention.events import Events

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: More clusters than this: the matrix would cost more than evaluating each resample on events sorted once.
MAX_CLUSTERS = 2000
#: Bytes of working arrays at a time.
CHUNK_BYTES = 8 * 2**20


def ua_a_kernel(
    u: npt.ArrayLike, is_answerable: npt.ArrayLike, codes: npt.ArrayLike, n_clusters: int
) -> npt.NDArray[np.float64]:
    """Pairs that UA/A counts, by cluster: U[c, d] = pairs of a UA in c more uncertain than an A in d, ties half.

    Args:
        u: uncertainty, (N,); +inf is the strongest wish to abstain, NaN is refused.
        is_answerable: (N,) bool.
        codes: cluster of each photograph, (N,), in 0..C-1.
        n_clusters: C.

    Returns:
        U, (C, C), multiples of 0.5. With clusters drawn w times, UA/A = w'Uw / ((w'n_UA)(w'n_A)). All zero without
        UA or without A.

    Raises:
        ValueError: lengths differ, a code is outside 0..C-1, or u holds NaN.

    Mann and Whitney (1947); the area under a ROC curve with ties: Hanley and McNeil (1982).

    >>> ua_a_kernel([0.1, 0.5, 0.5, 0.9], [True, True, False, False], [0, 1, 0, 1], 2)
    array([[1. , 0.5],
           [1. , 1. ]])
    """
    return pair_kernel(*_ua_a_form(u, is_answerable, codes), n_clusters)


def ua_a_values(
    u: npt.ArrayLike, is_answerable: npt.ArrayLike, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """UA/A of every resample, in [0, 1]; 0.5 is chance.

    Args:
        u, is_answerable, codes: as for :func:`ua_a_kernel`.
        weights: how often each cluster is drawn, (R, C).

    Returns:
        (R,); NaN for a resample without UA or without A.

    >>> ua_a_values([0.1, 0.5, 0.5, 0.9], [True, True, False, False], [0, 1, 0, 1], np.array([[1, 1], [2, 0]]))
    array([0.875, 1.   ])
    """
    form = _ua_a_form(u, is_answerable, codes)
    n_ua, n_a = (totals(part, form[3], weights) for part in form[1:3])
    return _divide(pair_values(*form, weights), n_ua * n_a)


def ig_kernel(events: Events, codes: npt.ArrayLike, n_clusters: int) -> npt.NDArray[np.float64]:
    """Information by accuracy, by cluster: Q[c, d] = information gained in c times mean correct in d at that time.

    Args:
        events: how information and correctness of each counted photograph change, see
            :class:`birdlab.abstention.events.Events`.
        codes: cluster of each counted photograph, (events.n,): ``codes[events.rows]`` of all photographs.
        n_clusters: C.

    Returns:
        Q, (C, C). With clusters drawn w times, the area is w'Qw / (w'n)²: both axes are linear in w, and the
        trapezoid multiplies them. Rows sum to the information of a cluster times accuracy, all clusters together.

    Raises:
        ValueError: lengths differ, a code is outside 0..C-1, or a score is NaN.

    The curve is that of Deng et al. (2012); two photographs, genus right both times, species once:

    >>> from types import SimpleNamespace as Made
    >>> events = Made(score=np.array([0.9, 0.6, 0.8, 0.3]), item=np.array([0, 1, 0, 1]), n=2,
    ...     d_info=np.full(4, 0.5), d_right=np.array([0, 0, 0, -1]))
    >>> Q = ig_kernel(events, [0, 1], 2)
    >>> Q, float(Q.sum() / 2**2)
    (array([[1.  , 1.  ],
           [1.  , 0.75]]), 0.9375)
    """
    codes = _codes(codes, events.n)
    check_codes(codes, n_clusters)
    info = np.bincount(codes[events.item], _floats(events.d_info), n_clusters)
    counted = np.bincount(codes, minlength=n_clusters)
    return pair_kernel(*_ig_form(events, codes), n_clusters) + np.outer(info, counted)


def ig_values(events: Events, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Area of accuracy against information for every resample, in [0, 1].

    Args:
        events, codes: as for :func:`ig_kernel`.
        weights: how often each cluster is drawn, (R, C).

    Returns:
        (R,); NaN for a resample without a counted photograph; 0 where nothing is ever named.
    """
    codes = _codes(codes, events.n)
    n = totals(np.ones(events.n), codes, weights)
    area = pair_values(*_ig_form(events, codes), weights) + totals(events.d_info, codes[events.item], weights) * n
    return _divide(area, n**2)


def augrc_values(
    u: npt.ArrayLike, right: npt.ArrayLike, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Area under the generalised risk-coverage curve of every resample, in [0, 0.5]; lower is better.

    Args:
        u: uncertainty, (N,); right: correctness, (N,) in [0, 1]; codes: cluster, (N,); weights: (R, C).

    Returns:
        (R,), ties at their expected value; NaN for a resample without a photograph.

    Traub et al. (2024), AUGRC: the chance that of two photographs drawn at random the less uncertain one is wrong,
    halves for ties.

    >>> augrc_values([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], [0, 0, 0, 0], np.array([[1]]))
    array([0.125])
    """
    u, wrong = _floats(u), 1 - _floats(right)
    codes, one = _codes(codes, len(u)), np.ones(len(u))
    return _divide(pair_values(-u, one, wrong, codes, weights), totals(one, codes, weights) ** 2)


def pair_values(
    score: Floats, a: Floats, b: Floats, codes: Ints, weights: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Weighted sum over pairs (e, f) of a_e b_f [score_f > score_e], ties half, for every resample.

    Args:
        score, a, b: (E,); codes: cluster, (E,); weights: (R, C).

    Returns:
        (R,). Up to :data:`MAX_CLUSTERS` clusters by one matrix (:func:`pair_kernel`), above that by events sorted
        once, the same values.
    """
    n_resamples, n_clusters = weights.shape
    if n_clusters > MAX_CLUSTERS:
        return _sorted_values(score, a, b, codes, weights)
    kernel = pair_kernel(score, a, b, codes, n_clusters)
    out = np.empty(n_resamples)
    for rows in chunks(n_resamples, 16 * n_clusters):
        w = weights[rows].astype(np.float64)
        out[rows] = np.einsum("rc,rc->r", w @ kernel, w)
    return out


def pair_kernel(score: Floats, a: Floats, b: Floats, codes: Ints, n_clusters: int) -> npt.NDArray[np.float64]:
    """K[c, d] = sum over e in c, f in d of a_e b_f [score_f > score_e], ties half.

    Args:
        score, a, b: (E,); codes: cluster, (E,), in 0..C-1; n_clusters: C.

    Returns:
        K, (C, C). One pass over the distinct scores of the events with a != 0 (or b != 0, whichever are fewer), in
        chunks; memory C² plus a chunk.
    """
    from scipy.sparse import csr_array

    _check(score, codes, n_clusters)
    out = np.zeros((n_clusters, n_clusters))
    left, right = a != 0, b != 0
    if np.count_nonzero(right) < np.count_nonzero(left):
        # The same pairs told from the other end.
        return pair_kernel(-score, b, a, codes, n_clusters).T
    if not left.any() or not right.any():
        return out
    levels, at = np.unique(-score[left], return_inverse=True)
    order = np.argsort(at, kind="stable")
    at, row, a = at[order], codes[left][order], a[left][order]
    order = np.argsort(-score[right], kind="stable")
    falling, column, half = -score[right][order], codes[right][order], b[right][order] / 2
    # An event of f counts half from the first level it ties with, and half from the first level it exceeds.
    entries = [np.searchsorted(levels, falling, side) for side in ("left", "right")]
    above = np.zeros(n_clusters)
    for part in chunks(len(levels), 24 * n_clusters):
        n, bounds = part.stop - part.start, [part.start, part.stop]
        found = [slice(*np.searchsorted(entry, bounds)) for entry in entries]
        cells = [(e[f] - part.start) * n_clusters + column[f] for e, f in zip(entries, found, strict=True)]
        halves = np.concatenate([half[f] for f in found])
        # Counting nothing gives whole numbers.
        seen = np.bincount(np.concatenate(cells), halves, n * n_clusters).astype(np.float64, copy=False)
        seen = seen.reshape(n, n_clusters)
        seen[0] += above
        np.cumsum(seen, axis=0, out=seen)
        e = slice(*np.searchsorted(at, bounds))
        out += csr_array((a[e], (row[e], at[e] - part.start)), shape=(n_clusters, n)) @ seen
        above = seen[-1]
    return out


def totals(x: npt.ArrayLike, codes: npt.ArrayLike, weights: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Sum of x over the photographs of every resample, (R,): linear in the weights.

    Args:
        x: (N,); codes: cluster, (N,); weights: (R, C).

    >>> totals([1, 2, 3], [0, 1, 1], np.array([[1, 1], [0, 2]]))
    array([ 6., 10.])
    """
    x = _floats(x)
    codes = _codes(codes, len(x))
    check_codes(codes, weights.shape[1])
    per_cluster, out = np.bincount(codes, x, weights.shape[1]), np.empty(len(weights))
    for rows in chunks(len(weights), 8 * weights.shape[1]):
        out[rows] = weights[rows].astype(np.float64) @ per_cluster
    return out


def check_codes(codes: Ints, n_clusters: int) -> None:
    """Refuse (ValueError) a cluster code outside 0..C-1."""
    if len(codes) and not 0 <= codes.min() <= codes.max() < n_clusters:
        raise ValueError(f"cluster codes {codes.min()}..{codes.max()} outside 0..{n_clusters - 1}")


def chunks(n: int, bytes_each: int) -> Iterator[slice]:
    """Slices of 0..n, as long as :data:`CHUNK_BYTES` allows for rows of this size."""
    step = max(1, CHUNK_BYTES // max(1, bytes_each))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def _sorted_values(
    score: Floats, a: Floats, b: Floats, codes: Ints, weights: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    _check(score, codes, weights.shape[1])
    out = np.zeros(len(weights))
    used = (a != 0) | (b != 0)
    if not used.any():
        return out
    score, a, b, codes = score[used], a[used], b[used], codes[used]
    order = np.argsort(-score, kind="stable")
    score, a, b, codes = score[order], a[order], b[order], codes[order]
    starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    for rows in chunks(len(weights), 40 * len(score)):
        w = np.take(weights[rows], codes, axis=1)
        wa, wb = w * a, w * b
        if len(starts) < len(score):
            wa, wb = (np.add.reduceat(x, starts, axis=1) for x in (wa, wb))
        # Everything above, and half of what ties.
        mid = np.cumsum(wb, axis=1) - wb / 2
        out[rows] = np.einsum("re,re->r", wa, mid)
    return out


def _ua_a_form(
    u: npt.ArrayLike, is_answerable: npt.ArrayLike, codes: npt.ArrayLike
) -> tuple[Floats, Floats, Floats, Ints]:
    u, answerable = _floats(u), np.asarray(is_answerable, dtype=bool).reshape(-1)
    if len(u) != len(answerable):
        raise ValueError(f"u and is_answerable differ in length: {len(u)} and {len(answerable)}")
    return -u, (~answerable).astype(np.float64), answerable.astype(np.float64), _codes(codes, len(u))


def _ig_form(events: Events, codes: Ints) -> tuple[Floats, Floats, Floats, Ints]:
    return _floats(events.score), _floats(events.d_info), _floats(events.d_right), codes[events.item]


def _floats(x: npt.ArrayLike) -> Floats:
    return np.asarray(x, dtype=np.float64).reshape(-1)


def _codes(codes: npt.ArrayLike, n: int) -> Ints:
    codes = np.asarray(codes, dtype=np.int64).reshape(-1)
    if len(codes) != n:
        raise ValueError(f"{len(codes)} cluster codes for {n} photographs")
    return codes


def _check(score: Floats, codes: Ints, n_clusters: int) -> None:
    if np.isnan(score).any():
        raise ValueError("NaN among the scores: decide first what an undefined uncertainty means")
    check_codes(codes, n_clusters)


def _divide(top: Floats, bottom: Floats) -> npt.NDArray[np.float64]:
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
