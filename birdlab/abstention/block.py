"""A block of rows at a time: leaf probabilities in, per-image numbers out. The only code that touches the matrix.

A block is at most :func:`block_rows` rows, so that it stays in the cache and a matrix of any size needs a few megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from birdlab.abstention.leaf import Fronts, Levels, best_in, fronts, listed_fronts
from birdlab.abstention.tree import Tree

#: Rows and numbers of a block, at most; rows moved into leaf order at once.
ROWS, NUMBERS, MOVED = 256, 2**20, 32


def block_rows(width: int) -> int:
    """Rows of a block of a matrix of this width: 256, fewer (in steps of 32) where a row is long.

    >>> block_rows(3_442), block_rows(11_000), block_rows(100_000)
    (256, 64, 32)
    """
    return max(MOVED, min(ROWS, NUMBERS // max(1, width) // MOVED * MOVED))


class LeafOrder:
    """Brings a block into leaf order, in buffers of its own that are used again for the next block.

    Args:
        tree: of the vocabulary.
        dtype: float32 or float64.
    """

    def __init__(self, tree: Tree, dtype: np.dtype) -> None:
        import cv2

        self.tree, self.cv2 = tree, cv2
        n = len(tree.columns)
        if not tree.in_order:
            self.leaves = np.empty((block_rows(len(tree.labels)), n), dtype)
            self.turned = np.empty((len(tree.labels), MOVED), dtype)
            self.picked = np.empty((n, MOVED), dtype)

    def __call__(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(leaf probabilities (k, S), valid until the next call; sum of the other labels (k,) or ``None``)."""
        tree = self.tree
        other = block[:, tree.other].sum(axis=1, dtype=np.float64) if len(tree.other) else None
        if tree.in_order:
            leaves = np.ascontiguousarray(block[:, : len(tree.columns)])
        else:
            leaves = self.leaves[: len(block)]
            for first in range(0, len(block), MOVED):
                self._move(block[first : first + MOVED], leaves[first : first + MOVED])
        if tree.leaf_start is not None:
            leaves = np.add.reduceat(leaves, tree.leaf_start, axis=1)
        return leaves, other

    def _move(self, rows: np.ndarray, out: np.ndarray) -> None:
        # Whole rows of the transposed block are copied instead of single numbers: a third of the time of take(axis=1).
        if len(rows) < MOVED:
            out[:] = rows[:, self.tree.columns]
            return
        self.cv2.transpose(np.ascontiguousarray(rows), dst=self.turned)
        np.take(self.turned, self.tree.columns, axis=0, out=self.picked, mode="clip")
        self.cv2.transpose(self.picked, dst=out)


@dataclass(frozen=True)
class Truth:
    """What is true of the rows of a block: indices into the tree, -1 where it has no such species or genus."""

    species: np.ndarray
    genus: np.ndarray


@dataclass(frozen=True)
class Listed:
    """The candidates of the rows of a block: where a leaf is one, (k, S), and how many each genus has, (k, G)."""

    allowed: np.ndarray
    n_leaves: np.ndarray


class Measure:
    """Per-image numbers of blocks of one vocabulary.

    Args:
        tree: of the vocabulary.
        entropy: whether to compute it.
        leaf: whether to list the nodes by leaf information.
        second: whether to give the second largest genus probability.
    """

    def __init__(self, tree: Tree, *, entropy: bool, leaf: bool, second: bool = False) -> None:
        self.tree, self.entropy, self.leaf, self.second = tree, entropy, leaf, second
        self.levels = Levels.of(tree)
        self._logs: np.ndarray | None = None

    def genus_sums(self, leaves: np.ndarray) -> np.ndarray:
        """Genus probabilities, (k, G), in the type of the leaves."""
        return np.add.reduceat(leaves, self.tree.genus_start, axis=1)

    def __call__(
        self, leaves: np.ndarray, sums: np.ndarray, truth: Truth, *, scale: np.ndarray, listed: Listed | None = None
    ) -> tuple[dict[str, np.ndarray], Fronts | None]:
        """The numbers of one block.

        Args:
            leaves, sums: leaf and genus probabilities, (k, S) and (k, G), without NaN.
            truth: of the rows.
            scale: what every probability of a row is multiplied by, (k,).
            listed: the candidates, where a range map restricts the leaves.

        Returns:
            Arrays of (k,) by name, and the lists of nodes (``None`` without ``leaf``).
        """
        tree, k = self.tree, np.arange(len(leaves))
        species, genus = leaves.argmax(axis=1), sums.argmax(axis=1)
        m, top = leaves[k, species], sums[k, genus]
        out = {"species": species, "top_genus": genus, "max_species": m * scale, "max_genus": top * scale}
        inside, p_inside = self._inside(leaves, genus, species, listed)
        out |= {"species_top_down": inside, "max_species_top_down": p_inside * scale}
        out |= self._true(leaves, sums, truth, best=species, scale=scale, listed=listed)
        for rank, group in tree.groups.items():
            wider = np.add.reduceat(sums.take(group.order, axis=1), group.start, axis=1)
            best = wider.argmax(axis=1)
            out |= {f"top_{rank}": best, f"max_{rank}": wider[k, best] * scale}
        if self.second:
            rest = sums.copy()
            rest[k, genus] = 0
            out["second_genus"] = rest.max(axis=1) * scale
        if self.entropy:
            out["entropy"] = self._entropy(leaves, sums, scale)
        out |= self._counts(truth, genus, listed)
        if not self.leaf:
            return out, None
        if listed is None:
            found = fronts(sums, m, self.levels)
        else:
            found = listed_fronts(sums, m, listed.n_leaves, listed.n_leaves.sum(axis=1))
        found.p[:] *= np.repeat(scale, found.length)
        return out, found

    def _inside(
        self, leaves: np.ndarray, genus: np.ndarray, species: np.ndarray, listed: Listed | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Best species inside the best genus: the best of all, or where that lies elsewhere, looked for."""
        tree, inside = self.tree, species.copy()
        row = np.flatnonzero(tree.genus_index[species] != genus)
        allowed = None if listed is None else listed.allowed
        inside[row], _ = best_in(leaves, row, tree.genus_start[genus[row]], tree.genus_size[genus[row]], allowed)
        return inside, leaves[np.arange(len(leaves)), inside]

    def _true(
        self,
        leaves: np.ndarray,
        sums: np.ndarray,
        truth: Truth,
        *,
        best: np.ndarray,
        scale: np.ndarray,
        listed: Listed | None,
    ) -> dict[str, np.ndarray]:
        """Probabilities of the truth (0 where the tree has no such taxon) and the best species of the true genus."""
        tree, k = self.tree, np.arange(len(leaves))
        p_species = np.where(truth.species >= 0, leaves[k, truth.species], 0) * scale
        p_genus = np.where(truth.genus >= 0, sums[k, truth.genus], 0) * scale
        # Where no leaf is true nothing can be right; where the best of all lies in the true genus it is the best there.
        within, p_within = best.copy(), leaves[k, best]
        row = np.flatnonzero((truth.species >= 0) & (tree.genus_index[best] != truth.genus))
        true = truth.genus[row]
        allowed = None if listed is None else listed.allowed
        within[row], p_within[row] = best_in(leaves, row, tree.genus_start[true], tree.genus_size[true], allowed)
        return {"p_true_species": p_species, "p_true_genus": p_genus, "within": within, "p_within": p_within}

    def _entropy(self, leaves: np.ndarray, sums: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """-sum c p ln(c p) = c (-sum p ln p) - c ln(c) sum p, in nats, over the leaves."""
        if self._logs is None or self._logs.shape[1] != leaves.shape[1] or self._logs.dtype != leaves.dtype:
            self._logs = np.empty((block_rows(len(self.tree.labels)), leaves.shape[1]), leaves.dtype)
        logs = self._logs[: len(leaves)]
        np.maximum(leaves, np.finfo(leaves.dtype).tiny, out=logs)
        np.log(logs, out=logs)
        np.multiply(logs, leaves, out=logs)
        plain = -logs.sum(axis=1).astype(np.float64)
        total = sums.sum(axis=1, dtype=np.float64)
        return np.maximum(scale * (plain - np.log(scale) * total), 0.0)

    def _counts(self, truth: Truth, genus: np.ndarray, listed: Listed | None) -> dict[str, np.ndarray]:
        """Leaves and genera that could be named."""
        tree, k = self.tree, np.arange(len(genus))
        if listed is None:
            return {
                "n_species": np.full(len(k), tree.n_species),
                "n_genera": np.full(len(k), tree.n_genera),
                "top_genus_n": tree.genus_size[genus],
                "within_genus_n": np.where(truth.genus >= 0, tree.genus_size[truth.genus], 0),
            }
        n = listed.n_leaves
        return {
            "n_species": n.sum(axis=1),
            "n_genera": (n > 0).sum(axis=1),
            "top_genus_n": n[k, genus],
            "within_genus_n": np.where(truth.genus >= 0, n[k, truth.genus], 0),
        }
