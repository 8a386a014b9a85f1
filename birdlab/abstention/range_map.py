"""A range map's prior: only species on an item's candidate list keep their probability, and those are renormalised."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.abstention.block import Listed
from birdlab.abstention.tree import Tree
from birdlab.readers.files import Notice

#: Items whose lists are looked at together.
SLICE = 2000


class RangeMap:
    """Candidate lists of items, applied to blocks of leaf probabilities as they pass.

    Args:
        tree: of the vocabulary.
        items: with is_answerable, species, and candidates: a list of taxon ids or null. Of a list only what is a leaf
            counts; repeats count once.
    """

    def __init__(self, tree: Tree, items: pl.DataFrame) -> None:
        self.tree, self.items = tree, items
        self.leaf = pl.Enum(list(tree.species))
        self.counts = {"no_list": 0, "no_leaf": 0, "uniform": 0}

    def restrict(
        self,
        leaves: np.ndarray,
        at: np.ndarray,
        *,
        usable: np.ndarray,
        scale: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Listed]:
        """One block with its lists applied.

        Args:
            leaves: leaf probabilities, (k, S); left as they are.
            at: items of the rows, (k,).
            usable: rows that hold probabilities, (k,) Boolean: others are not counted.
            scale: of the rows as they are, kept where there is no list, (k,).

        Returns:
            (leaf probabilities, genus sums, scale, lists): 0 outside the list, and ``scale`` makes a row sum to 1.
            Where nothing is left, every candidate has the same probability. An item without a list, or with one that
            holds no leaf, is unchanged: then every leaf is a candidate.
        """
        tree, (k, n) = self.tree, leaves.shape
        row, leaf, has_list = self._pairs(at)
        allowed = np.zeros((k, n), dtype=bool)
        allowed[row, leaf] = True
        row, leaf = np.nonzero(allowed)  # each pair once
        free = np.bincount(row, minlength=k) == 0
        allowed[free] = True
        n_leaves = np.bincount(row * tree.n_genera + tree.genus_index[leaf], minlength=k * tree.n_genera)
        n_leaves = n_leaves.reshape(k, tree.n_genera)
        n_leaves[free] = tree.genus_size
        kept = leaves * allowed
        total = kept.sum(axis=1, dtype=np.float64)
        empty = ~free & (total <= 0)
        kept[empty] = allowed[empty]
        total[empty] = n_leaves[empty].sum(axis=1)
        sums = np.add.reduceat(kept, tree.genus_start, axis=1)
        self.counts["no_list"] += int((~has_list & usable).sum())
        self.counts["no_leaf"] += int((has_list & free & usable).sum())
        self.counts["uniform"] += int((empty & usable).sum())
        return kept, sums, np.where(free, scale, 1 / np.where(free, 1.0, total)), Listed(allowed, n_leaves)

    def _pairs(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row, leaf) of every candidate that is a leaf, and which rows have a list."""
        lists = self.items["candidates"].gather(pl.Series(at, dtype=pl.UInt32))
        has_list = lists.is_not_null().to_numpy()
        length = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
        flat = lists.filter(pl.Series(length > 0, dtype=pl.Boolean)).explode()
        leaf = flat.cast(self.leaf, strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        row = np.repeat(np.arange(len(at)), length)
        return row[leaf >= 0], leaf[leaf >= 0], has_list

    def notices(self) -> list[Notice]:
        """What could not be applied as meant, and how often the truth was dropped, counted."""
        texts = {
            "no_list": "items without a candidate list: their probabilities are unchanged",
            "no_leaf": "items whose candidates are all outside the vocabulary: their probabilities are unchanged",
            "uniform": "items whose candidates all had probability 0: every candidate was given the same",
        }
        found = [Notice(f"range_map_{c}", text, self.counts[c]) for c, text in texts.items() if self.counts[c]]
        n_dropped, n = dropped(self.items)
        if n_dropped:
            text = f"of {n} answerable items with a list, those whose true species it drops"
            found.append(Notice("range_map_drops_truth", text, n_dropped))
        return found


def dropped(items: pl.DataFrame) -> tuple[int, int]:
    """(k, n): of n answerable items with a candidate list, the k whose true species the list drops; k/n is their share.

    Args:
        items: with is_answerable, species, candidates.

    >>> items = pl.DataFrame({"is_answerable": [True, True, False], "species": ["Pica pica", "Pica pica", None],
    ...                       "candidates": [["Pica pica"], ["Corvus corax"], ["Corvus corax"]]})
    >>> dropped(items)
    (1, 2)
    """
    asked = pl.col("is_answerable") & pl.col("candidates").is_not_null()
    drops = asked & ~pl.col("candidates").list.contains(pl.col("species")).fill_null(False)
    found = [piece.select(drops.sum(), asked.sum().alias("n")).row(0) for piece in items.iter_slices(SLICE)]
    return sum(k for k, _ in found), sum(n for _, n in found)
