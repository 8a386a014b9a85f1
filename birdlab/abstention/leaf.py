"""Nodes worth naming when information counts leaves: each more informative than every more probable one.

With ``info="leaf"`` a small genus can be less probable than a large one and still say more, so an image has a list of
nodes (its Pareto front) instead of one per rank: genera in order of falling probability and rising information, then
the best species. Deng et al. (2012); the front as in Valmadre (2022), §3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from birdlab.abstention.tree import Tree


@dataclass(frozen=True)
class Fronts:
    """The lists of a block of rows, flat: nodes of row 0 first, each list in order of falling probability."""

    length: np.ndarray
    p: np.ndarray
    info: np.ndarray
    #: Index of the genus, -1 for the best species (the last node of a row).
    genus: np.ndarray


@dataclass(frozen=True)
class Levels:
    """Genera of two and more species brought together by size, largest (least informative) first."""

    order: np.ndarray
    start: np.ndarray
    info: np.ndarray

    @classmethod
    def of(cls, tree: Tree) -> Levels:
        """The levels of a tree; genera of one species are left out (their node is their species)."""
        # A genus that holds every leaf says no more than the root.
        several = np.flatnonzero((tree.genus_size > 1) & (tree.genus_size < tree.n_species))
        order = several[np.argsort(-tree.genus_size[several], kind="stable")]
        size = tree.genus_size[order]
        start = np.flatnonzero(np.concatenate(([True], size[1:] != size[:-1]))[: len(size)])
        return cls(order, start, tree.genus_info[order[start]] if len(order) else np.empty(0))


def fronts(sums: np.ndarray, best: np.ndarray, levels: Levels) -> Fronts:
    """The list of every row when all rows share the tree.

    Args:
        sums: genus probabilities, (k, G).
        best: largest species probability, (k,), in the same type.
        levels: of the tree.

    Returns:
        Fronts. Of nodes that tie in probability the most informative is listed; of genera that tie in both, the first
        by name.

    >>> from birdlab.abstention.taxonomy import Taxonomy
    >>> names = ["A a", "A b", "A c", "B a", "B b", "C a"]
    >>> levels = Levels.of(Tree.build(names, Taxonomy.from_names(names)))
    >>> found = fronts(np.array([[0.5, 0.4, 0.1]]), np.array([0.3]), levels)
    >>> found.p.tolist(), found.genus.tolist()
    ([0.5, 0.4, 0.3], [0, 1, -1])
    """
    if not len(levels.order):
        return _flat(np.empty((len(sums), 0), dtype=bool), np.empty((len(sums), 0)), best, levels)
    sized = sums.take(levels.order, axis=1)
    top = np.maximum.reduceat(sized, levels.start, axis=1)
    # From the most informative level down: a level is listed where it exceeds everything that says more.
    above = np.concatenate((best[:, None], top[:, :0:-1]), axis=1)
    keep = top > np.maximum.accumulate(above, axis=1)[:, ::-1]
    found = _flat(keep, top, best, levels)
    found.genus[found.genus >= 0] = _first_at(sized, keep, top, levels)
    return found


def _flat(keep: np.ndarray, top: np.ndarray, best: np.ndarray, levels: Levels) -> Fronts:
    """Kept levels and the best species of every row, one after the other; genus is 0 for a level yet to be named."""
    every = np.concatenate((keep, np.ones((len(keep), 1), dtype=bool)), axis=1)
    row, level = np.nonzero(every)
    p = np.concatenate((top, best[:, None]), axis=1)[row, level].astype(np.float64)
    info = np.concatenate((levels.info, [1.0]))[level]
    return Fronts(every.sum(axis=1), p, info, np.where(level == keep.shape[1], -1, 0))


def _first_at(sized: np.ndarray, keep: np.ndarray, top: np.ndarray, levels: Levels) -> np.ndarray:
    """Genus of every kept level, the first by name among those that have its largest probability."""
    row, level = np.nonzero(keep)
    size = np.diff(np.concatenate((levels.start, [len(levels.order)])))
    place, _ = best_in(sized, row, levels.start[level], size[level])
    return levels.order[place]


def listed_fronts(sums: np.ndarray, best: np.ndarray, n_leaves: np.ndarray, n_species: np.ndarray) -> Fronts:
    """The list of every row when each row has leaves of its own (a range map's candidates).

    Args:
        sums: genus probabilities, (k, G).
        best: largest species probability, (k,).
        n_leaves: candidates of every genus, (k, G).
        n_species: candidates, (k,).

    Returns:
        Fronts, with information (log2 S - log2 n) / log2 S over the row's own S.
    """
    row, genus = np.nonzero((sums > best[:, None]) & (n_leaves > 1) & (n_leaves < n_species[:, None]))
    p, n = sums[row, genus], n_leaves[row, genus]
    # Most informative first; of equals the more probable, then the first by name.
    order = np.lexsort((genus, -p, n, row))
    row, genus, p, n = row[order], genus[order], p[order], n[order]
    # Running maximum within rows, on ranks so that nothing is rounded: kept is what exceeds all that say more.
    rank = np.unique(p, return_inverse=True)[1].reshape(-1) + 1
    running = np.maximum.accumulate(row * (len(p) + 2) + rank)
    keep = np.concatenate(([True], running[1:] > running[:-1]))[: len(row)] if len(row) else np.empty(0, dtype=bool)
    row, genus, p, n = row[keep][::-1], genus[keep][::-1], p[keep][::-1], n[keep][::-1]
    whole = np.log2(np.maximum(n_species, 1))
    info = (whole[row] - np.log2(n)) / whole[row]
    every = np.concatenate((row, np.arange(len(sums))))
    order = np.argsort(every, kind="stable")
    return Fronts(
        np.bincount(every, minlength=len(sums)),
        np.concatenate((p, best)).astype(np.float64)[order],
        np.concatenate((info, np.ones(len(sums))))[order],
        np.concatenate((genus, np.full(len(sums), -1)))[order],
    )


def best_in(
    values: np.ndarray, row: np.ndarray, start: np.ndarray, size: np.ndarray, allowed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Largest value within runs of columns, and its column; the first of several equal ones.

    Args:
        values: (k, C), without NaN.
        row, start, size: a run of columns each, (R,); no run is empty.
        allowed: where a value counts, (k, C); a run without any gives the value -1.

    Returns:
        (column, value), each (R,).

    >>> column, value = best_in(np.array([[3, 1, 2, 2]]), np.array([0]), np.array([1]), np.array([3]))
    >>> column.tolist(), value.tolist()
    ([2], [2])
    """
    if not len(row):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=values.dtype)
    ends = np.cumsum(size)
    begins = ends - size
    place = np.arange(ends[-1]) + np.repeat(start - begins, size)
    flat = place + np.repeat(row * values.shape[1], size)
    found = values.ravel().take(flat)
    if allowed is not None:
        found[~allowed.ravel().take(flat)] = -1
    top = np.maximum.reduceat(found, begins)
    hit = np.flatnonzero(found == np.repeat(top, size))
    return place[hit[np.searchsorted(hit, begins)]], top
