"""Groups into parts so that every part is like the whole: in frames, birds, birds per frame and sizes.

Each group is a row of counts; each part should hold its share of every count. What a division costs is the sum of what
the parts hold too much or too little, as in the stratification of multi-label data of Sechidis, Tsoumakas and Vlahavas
(2011, "On the stratification of multi-label data"), on whole groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from birdlab.detection.boxes import RELATIVE_BINS, relative_size, size_counts

#: What each property counts in the cost of a division.
WEIGHTS: dict[str, float] = {"frames": 1.0, "birds": 1.0, "birds_per_frame": 0.5, "relative_size": 0.5}
#: Lower ends of the bins of birds per frame: 0, 1, 2, 3 to 5, 6 to 10, 11 and more.
PER_FRAME_EDGES = (0, 1, 2, 3, 6, 11)
#: Up to so many divisions all are tried (three parts: 10 groups); beyond, a greedy start and swaps.
EXHAUSTIVE = 60_000
#: Starts of the search for many groups; it ends at a cost that nobody would notice. Exchanges are tried among so many.
STARTS, ENOUGH, EXCHANGED = 8, 0.01, 150
#: A part without any frame or without any bird costs so much more than any other division.
_MISSING = 1000.0
_SAME = 1e-9


def group_counts(
    frames: pl.DataFrame, labels: pl.DataFrame, group: pl.Series
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Counts of every group, and the names of the groups in alphabetical order.

    Args:
        frames: labelled and empty frames (``frame_id``, ``width_px``, ``height_px``).
        labels: their birds: no crowds and no ignored regions.
        group: the group of every row of ``frames``.

    Returns:
        names, and per property of :data:`WEIGHTS` an array (groups, bins): ``frames`` and ``birds`` have one bin, birds per
        frame those of :data:`PER_FRAME_EDGES`, relative size the nine of ``RELATIVE_BINS`` (birds in frames of unknown
        size are in none).
    """
    of = frames.select("frame_id", "width_px", "height_px", group.alias("group"))
    per_frame = of.join(labels.group_by("frame_id").len("n"), on="frame_id", how="left").with_columns(
        pl.col("n").fill_null(0)
    )
    sized = labels.join(of, on="frame_id").with_columns(
        relative_size(pl.col("w"), pl.col("h"), pl.col("width_px"), pl.col("height_px")).alias("s")
    )
    names = sorted(of["group"].unique().to_list())
    by_frame = {k[0]: v["n"].to_numpy() for k, v in per_frame.partition_by("group", as_dict=True).items()}
    by_bird = {k[0]: v["s"].drop_nulls().to_numpy() for k, v in sized.partition_by("group", as_dict=True).items()}
    edges = [*PER_FRAME_EDGES, np.inf]
    none = np.zeros(0)
    counts = {
        "frames": np.array([[len(by_frame[g])] for g in names], dtype=float),
        "birds": np.array([[by_frame[g].sum()] for g in names], dtype=float),
        "birds_per_frame": np.array([np.histogram(by_frame[g], edges)[0] for g in names], dtype=float),
        "relative_size": np.array([size_counts(by_bird.get(g, none), RELATIVE_BINS) for g in names], dtype=float),
    }
    return names, counts


def deviations(counts: Mapping[str, np.ndarray], part: np.ndarray, shares: Sequence[float]) -> dict[str, float]:
    """How far the parts are from their shares, per property; in [0, 2], 0 is best.

    For a property with bins b and N in all, the sum over parts p and bins of abs(N_pb - s_p N_b) / N: twice the share of
    frames (birds) that would have to move. 0 where there is nothing to count.

    Args:
        counts: as :func:`group_counts` gives them.
        part: (groups,), number of the part of each group.
        shares: s_p, sum 1.

    >>> halves = {"frames": np.array([[3.0], [1.0]])}
    >>> deviations(halves, np.array([0, 1]), [0.5, 0.5])
    {'frames': 0.5}
    """
    out = {}
    for name, table in counts.items():
        total = table.sum()
        held = np.stack([table[part == p].sum(axis=0) for p in range(len(shares))])
        off = np.abs(held - np.outer(shares, table.sum(axis=0))).sum()
        out[name] = float(off / total) if total else 0.0
    return out


def divide(
    counts: Mapping[str, np.ndarray],
    shares: Sequence[float],
    *,
    fixed: Mapping[int, int] | None = None,
    seed: int = 0,
    weights: Mapping[str, float] = WEIGHTS,
) -> tuple[np.ndarray, bool]:
    """The part of every group at the lowest cost: the weighted sum of :func:`deviations`.

    A part with a share is left without a group, or without a bird, only where nothing else is possible. Of equal divisions
    the seed chooses.

    Args:
        counts: as :func:`group_counts` gives them, groups in a fixed order.
        shares: of the parts, sum 1.
        fixed: group to its part.
        seed: of the order in which groups are tried.
        weights: of the properties.

    Returns:
        (groups,) numbers of parts, and whether every division was tried (the result is then the best there is).
    """
    rng = np.random.default_rng(seed)
    fixed = dict(fixed or {})
    problem = _Problem(counts, np.asarray(shares, dtype=float), weights)
    free = [int(g) for g in rng.permutation(len(problem.rows)) if int(g) not in fixed]
    start = np.full(len(problem.rows), -1)
    for group, part in fixed.items():
        start[group] = part
    if len(shares) ** len(free) <= EXHAUSTIVE:
        return problem.exhaustive(start, free), True
    best, best_cost = start, np.inf
    for _ in range(STARTS):
        found = problem.improve(problem.greedy(start, free), free)
        cost = problem.cost(found)
        if cost < best_cost - _SAME:
            best, best_cost = found, cost
        if best_cost < ENOUGH:
            break
        rng.shuffle(free)
    return best, False


class _Problem:
    """Weighted counts as one row per group, what each part should hold, and the searches over divisions."""

    def __init__(self, counts: Mapping[str, np.ndarray], shares: np.ndarray, weights: Mapping[str, float]) -> None:
        scaled = [weights[k] * t / max(1.0, t.sum()) for k, t in counts.items()]
        self.rows = np.concatenate(scaled, axis=1)
        self.wanted = np.outer(shares, self.rows.sum(axis=0))
        # What a part with a share may not be without: groups, and birds.
        self.needs = np.concatenate([np.ones((len(self.rows), 1)), counts["birds"] > 0], axis=1).astype(float)
        self.needed = shares > 0

    def _costs(self, held: np.ndarray, have: np.ndarray) -> np.ndarray:
        """Of held (…, parts, columns) and have (…, parts, 2)."""
        missing = ((have < 0.5) & self.needed[:, None]).sum(axis=(-1, -2))
        return np.abs(held - self.wanted).sum(axis=(-1, -2)) + _MISSING * missing

    def _held(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        member = (part[None, :] == np.arange(len(self.needed))[:, None]).astype(float)
        return member @ self.rows, member @ self.needs

    def cost(self, part: np.ndarray) -> float:
        return float(self._costs(*self._held(part)))

    def exhaustive(self, start: np.ndarray, free: list[int]) -> np.ndarray:
        held, have = (table[None] for table in self._held(start))
        # Divisions of the first k free groups, then of k + 1: each sum is one addition.
        chosen = np.zeros((1, 0), dtype=np.int64)
        n = len(self.needed)
        for g in free:
            chosen = np.concatenate([np.repeat(chosen, n, axis=0), np.tile(np.arange(n), len(chosen))[:, None]], axis=1)
            held, have = np.repeat(held, n, axis=0), np.repeat(have, n, axis=0)
            at = np.arange(len(chosen))
            held[at, chosen[:, -1]] += self.rows[g]
            have[at, chosen[:, -1]] += self.needs[g]
        costs = self._costs(held, have)
        best = int(np.flatnonzero(costs <= costs.min() + _SAME)[0])
        out = start.copy()
        out[free] = chosen[best]
        return out

    def greedy(self, start: np.ndarray, free: list[int]) -> np.ndarray:
        """Large groups first, each to the part that then is least above what it should hold."""
        out = start.copy()
        held, have = self._held(out)
        parts = np.arange(len(self.needed))
        for g in sorted(free, key=lambda g: -self.rows[g].sum()):
            over = np.maximum(held + self.rows[g] - self.wanted, 0).sum(axis=1) - np.maximum(held - self.wanted, 0).sum(
                axis=1
            )
            lacking = -((have < 0.5) & (self.needs[g] > 0)).sum(axis=1) * self.needed
            room = held.sum(axis=1) - self.wanted.sum(axis=1)
            best = int(np.lexsort((parts, room, lacking, np.round(over, 9)))[0])
            out[g] = best
            held[best] += self.rows[g]
            have[best] += self.needs[g]
        return out

    def improve(self, part: np.ndarray, free: list[int]) -> np.ndarray:
        """Move one group, or exchange two of different parts, as long as that lowers the cost."""
        out, cost = part.copy(), self.cost(part)
        while cost > ENOUGH:
            better = self._best_move(out, free, cost) or self._best_swap(out, free[:EXCHANGED], cost)
            if better is None:
                break
            change, cost = better
            for g, p in change:
                out[g] = p
        return out

    def _best_move(self, part: np.ndarray, free: list[int], cost: float) -> tuple[list[tuple[int, int]], float] | None:
        moves = [[(g, p)] for g in free for p in range(len(self.needed)) if p != part[g]]
        return self._best(part, moves, cost)

    def _best_swap(self, part: np.ndarray, free: list[int], cost: float) -> tuple[list[tuple[int, int]], float] | None:
        swaps = [
            [(a, int(part[b])), (b, int(part[a]))]
            for i, a in enumerate(free)
            for b in free[i + 1 :]
            if part[a] != part[b]
        ]
        for at in range(0, len(swaps), 20_000):
            found = self._best(part, swaps[at : at + 20_000], cost)
            if found is not None:
                return found
        return None

    def _best(self, part: np.ndarray, changes: list, cost: float) -> tuple[list[tuple[int, int]], float] | None:
        if not changes:
            return None
        held, have = self._held(part)
        held, have = np.repeat(held[None], len(changes), axis=0), np.repeat(have[None], len(changes), axis=0)
        at = np.arange(len(changes))
        for k in range(len(changes[0])):
            g, p = (np.array([c[k][i] for c in changes]) for i in (0, 1))
            held[at, part[g]] -= self.rows[g]
            held[at, p] += self.rows[g]
            have[at, part[g]] -= self.needs[g]
            have[at, p] += self.needs[g]
        costs = self._costs(held, have)
        best = int(costs.argmin())
        return (changes[best], float(costs[best])) if costs[best] < cost - _SAME else None
