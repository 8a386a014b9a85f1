"""Scores of one class as counts at distinct thresholds: what curves, thresholds and areas are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from birdlab.soundscapes.coded import Coded, Floats, Ints, Truth


@dataclass(frozen=True)
class Levels:
    """What a run lists for one class, by distinct probability.

    Args:
        score: distinct probabilities, falling, (L,).
        n: segments listed with each, (L,).
        hits: of these, segments in which the class is heard, (L,).
        n_rel: segments in which the class is heard, listed or not.
        n_segments: segments a list could name: those of the grid, and those past it that the run lists for any class.
    """

    score: Floats
    n: npt.NDArray[np.int64]
    hits: npt.NDArray[np.int64]
    n_rel: int
    n_segments: int

    @property
    def tp(self) -> npt.NDArray[np.int64]:
        """Hits at each threshold or above it, (L,)."""
        return np.cumsum(self.hits)

    @property
    def listed(self) -> npt.NDArray[np.int64]:
        """Segments listed at each threshold or above it, (L,)."""
        return np.cumsum(self.n)


def levels(score: npt.ArrayLike, relevant: npt.ArrayLike, *, n_rel: int, n_segments: int) -> Levels:
    """Counts at distinct probabilities.

    Args:
        score: probabilities of the listed segments, (n,), in any order.
        relevant: whether the class is heard in each, (n,) bool.
        n_rel: segments in which it is heard, at least the relevant ones listed.
        n_segments: segments in all, at least those listed.

    >>> found = levels([0.5, 0.9, 0.5], [True, False, False], n_rel=2, n_segments=4)
    >>> found.score.tolist(), found.n.tolist(), found.hits.tolist()
    ([0.9, 0.5], [1, 2], [0, 1])
    """
    score, relevant = np.asarray(score, dtype=np.float64), np.asarray(relevant, dtype=bool)
    if not len(score):
        none = np.zeros(0, dtype=np.int64)
        return Levels(np.zeros(0), none, none, n_rel, n_segments)
    order = np.argsort(-score)
    score = score[order]
    starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    n = np.diff(np.append(starts, len(score)))
    hits = np.add.reduceat(relevant[order].astype(np.int64), starts)
    return Levels(score[starts], n, hits, n_rel, n_segments)


def listed_rows(
    truth: Truth, coded: Coded, *, heard_only: bool = True
) -> Iterator[tuple[int, Ints, Floats, np.ndarray]]:
    """Class by class: its number, segments, probabilities, and whether it is heard in each segment.

    Args:
        truth: who is heard where.
        coded: what a run lists.
        heard_only: leave out classes that are heard nowhere.
    """
    starts = np.searchsorted(truth.cls, np.arange(len(truth.classes) + 1))
    heard = np.zeros(n_numbered(truth, coded), dtype=bool)
    for c in range(len(truth.classes)):
        where = truth.seg[starts[c] : starts[c + 1]]
        if heard_only and not len(where):
            continue
        heard[where] = True
        seg, score = coded.of_class(c)
        yield c, seg, score, heard[seg]
        heard[where] = False


def class_levels(truth: Truth, coded: Coded, *, heard_only: bool = True) -> Iterator[tuple[int, Levels]]:
    """Class by class: its number and :class:`Levels`; one at a time, because all of them may be millions."""
    n_rel, n = truth.n_rel, n_numbered(truth, coded)
    for c, _, score, relevant in listed_rows(truth, coded, heard_only=heard_only):
        yield c, levels(score, relevant, n_rel=int(n_rel[c]), n_segments=n)


def n_numbered(truth: Truth, coded: Coded) -> int:
    """Segments of the grid and those past it that the run lists."""
    return max(truth.grid.n_segments, int(coded.seg.max(initial=-1)) + 1)


def positions(truth: Truth, coded: Coded) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Recording, and segment within it, of every segment of the grid and past it, (N,) each.

    Where a run does not say where its segments past the grid are, each is in a recording -1.
    """
    grid, n = truth.grid, n_numbered(truth, coded)
    media = np.repeat(np.arange(len(grid.media)), np.diff(grid.offsets))
    k = np.arange(grid.n_segments) - grid.offsets[media]
    past = np.column_stack([np.full(n - len(media), -1), np.zeros(n - len(media), dtype=np.int64)])
    if coded.beyond is not None and len(past):
        past = np.asarray(coded.beyond, dtype=np.int64)[: len(past)]
    return np.concatenate([media, past[:, 0]]), np.concatenate([k, past[:, 1]])


def truth_scores(truth: Truth, coded: Coded) -> npt.NDArray[np.float64]:
    """Probability listed for each pair of the truth, (n,); -2 where it is not listed."""
    out = np.full(len(truth.seg), -2.0)
    starts = np.searchsorted(truth.cls, np.arange(len(truth.classes) + 1))
    at = np.full(n_numbered(truth, coded), -1, dtype=np.int64)
    for c in np.flatnonzero(np.diff(starts)):
        rows = slice(starts[c], starts[c + 1])
        at[truth.seg[rows]] = np.arange(starts[c], starts[c + 1])
        seg, score = coded.of_class(int(c))
        hit = at[seg] >= 0
        out[at[seg[hit]]] = score[hit]
        at[truth.seg[rows]] = -1
    return out
