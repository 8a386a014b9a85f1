"""What recall by bin would look like if the factor did not matter: outcomes permuted within each session.

A session keeps its recall, so a difference between sessions is never taken for an effect of a factor. Outcomes move in
whole clusters of frames (a photograph, or a block of neighbouring video frames): birds of one cluster share their luck.
All models move together, which is what makes a maximum over models and factors (max-T) a fair one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from birdlab import stats

Floats = npt.NDArray[np.float64]
#: Permuted outcomes held at a time: bounds the memory, not the result.
_CHUNK = 4_000_000


@dataclass(frozen=True)
class Permuted:
    """Counts under permutation.

    Args:
        k: birds found, (permutations, models, groups).
        n: birds whose outcome is known, (permutations or 1, models, groups).
    """

    k: npt.NDArray[np.float32]
    n: npt.NDArray[np.float32]

    def recall(self) -> Floats:
        """k / n, NaN where n is 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.k.astype(np.float64) / self.n.astype(np.float64)


def can_permute(session: npt.ArrayLike, block: npt.ArrayLike) -> bool:
    """Whether any session holds two clusters to exchange.

    >>> can_permute([0, 0, 1], [0, 0, 1])
    False
    """
    pairs = np.unique(np.column_stack([np.asarray(session), np.asarray(block)]), axis=0)
    return bool(len(pairs)) and len(np.unique(pairs[:, 0])) < len(pairs)


def permutations(
    session: npt.ArrayLike, block: npt.ArrayLike, *, n_permutations: int, seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Rows to take outcomes from: clusters shuffled within their session and laid end to end, in chunks.

    Args:
        session: int (N,), session of each bird.
        block: int (N,), cluster of frames of each bird; a cluster of two sessions is two clusters.
        n_permutations: how many.
        seed: of the random numbers.

    Yields:
        int64 (some, N): in each row a permutation of 0 … N - 1 that keeps every session's rows among themselves. With
        one bird per cluster it is a plain permutation; clusters of unequal size keep their order inside but not the
        places where they begin.

    >>> rows = next(permutations([0, 0, 1, 1], [0, 1, 2, 2], n_permutations=5, seed=1))
    >>> sorted(set(rows[:, 2].tolist())), sorted(set(rows[:, 0].tolist()))
    ([2], [0, 1])
    """
    session, block = np.asarray(session), np.asarray(block)
    n = len(session)
    _, first, code = np.unique(np.column_stack([session, block]), axis=0, return_index=True, return_inverse=True)
    code = code.reshape(-1)
    _, session_code = np.unique(session, return_inverse=True)
    # Places: session by session, clusters in the order they first occur, birds in the order given.
    places = np.lexsort((np.arange(n), first[code], session_code))
    back = np.empty(n, dtype=np.int64)
    back[places] = np.arange(n)
    at, cluster, rng = session_code[places], code[places], np.random.default_rng(seed)
    done = 0
    while done < n_permutations:
        some = min(n_permutations - done, max(1, _CHUNK // max(n, 1)))
        keys = rng.random((some, len(first)))[:, cluster] + at
        yield places[np.argsort(keys, axis=1, kind="stable")][:, back]
        done += some


def permuted_counts(
    outcome: Floats,
    groups: npt.NDArray[np.bool_],
    *,
    session: npt.ArrayLike,
    block: npt.ArrayLike,
    n_permutations: int = 2000,
    seed: int = 1,
) -> Permuted:
    """Birds found per group when outcomes are permuted within sessions, jointly for all models.

    Args:
        outcome: (N, models), 1 found, 0 missed, NaN not known (that model was not asked); moves with its bird.
        groups: bool (N, groups), which bird is in which bin or slice.
        session, block: see :func:`permutations`.
        n_permutations: how many.
        seed: of the random numbers.

    >>> found = permuted_counts(np.array([[1.0], [0.0]]), np.array([[True], [False]]), session=[0, 0], block=[0, 1])
    >>> sorted(set(found.k.ravel().tolist()))
    [0.0, 1.0]
    """
    known = ~np.isnan(outcome)
    y = np.where(known, outcome, 0.0).astype(np.float32)
    w = known.astype(np.float32)
    member = groups.astype(np.float32)
    whole = bool(known.all())
    ks, ns = [], []
    with stats.one_thread():
        for rows in permutations(session, block, n_permutations=n_permutations, seed=seed):
            ks.append(_count(y, rows, member))
            if not whole:
                ns.append(_count(w, rows, member))
        n = (w.T @ member)[None] if whole else np.concatenate(ns)
    return Permuted(np.concatenate(ks), n)


def spread(recall: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Best minus worst along the last axis, in [0, 1]: the statistic Δ."""
    return np.nanmax(recall, axis=-1) - np.nanmin(recall, axis=-1)


def p_value(observed: float, null: npt.ArrayLike) -> float:
    """Share of permutations at least as large, counting the observation itself: (1 + #{T* >= T}) / (1 + B).

    Phipson and Smyth (2010): never 0.

    >>> p_value(3.0, [1.0, 2.0, 3.0])
    0.5
    """
    null = np.asarray(null, dtype=np.float64)
    return float((1 + np.sum(null >= observed - 1e-12)) / (1 + len(null)))


def max_t(observed: Floats, null: npt.NDArray[np.floating]) -> list[float | None]:
    """Family-wise p values by the distribution of the largest standardised statistic (single-step max-T).

    Args:
        observed: (tests,); NaN for a test that could not be made.
        null: (permutations, tests), the same statistics under the same permutations.

    Returns:
        p values in (0, 1], in order; ``None`` for a test that is NaN or does not vary under permutation.

    Westfall and Young (1993), §2.3.
    """
    mean, sd = null.mean(axis=0, dtype=np.float64), null.std(axis=0, dtype=np.float64)
    usable = ~np.isnan(observed) & (sd > 0)
    if not usable.any():
        return [None] * len(observed)
    z = (observed[usable] - mean[usable]) / sd[usable]
    largest = ((null[:, usable] - mean[usable]) / sd[usable]).max(axis=1)
    found = iter([p_value(value, largest) for value in z.tolist()])
    return [next(found) if ok else None for ok in usable.tolist()]


def _count(
    values: npt.NDArray[np.float32], rows: npt.NDArray[np.int64], member: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """(some, models, groups): sums of the permuted values in each group; whole numbers below 2^24, so exact."""
    parts = [values[:, m][rows] @ member for m in range(values.shape[1])]
    return np.stack(parts, axis=1)
