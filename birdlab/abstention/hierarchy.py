"""From species probabilities to per-image columns: TreeGT, P(genus) = sum of P(species), in one pass over the matrix.

The matrix is never held: blocks of a few hundred rows come from a reader, and what is kept is about 200 bytes an image.
Every threshold curve of this package is computed from these columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from birdlab.abstention.block import LeafOrder, Measure, Truth, block_rows
from birdlab.abstention.columns_frame import SCHEMA, Collected, TruthArrays, columns_frame
from birdlab.abstention.range_map import RangeMap
from birdlab.abstention.row_checks import RowChecks
from birdlab.abstention.tree import Tree
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most

Chunks = Iterable[tuple[np.ndarray, np.ndarray]]
#: Below this, S times the median of the largest probability says that the softmax is nearly flat.
FLAT, TIED_SHARE = 3.0, 0.01


@dataclass(frozen=True)
class Options:
    """How rows are read and what is computed.

    Args:
        normalise: divide every row by its sum (scores of a language model) instead of refusing sums other than 1.
        nan: a row with NaN is an ``error``, or counts as the strongest wish to ``abstain``.
        entropy: whether to compute it (the costliest column).
        leaf: whether to list the nodes by leaf information.
        range_map: whether to add the variant ``range_map`` from the column ``candidates`` of the items.
        tolerance: how far a row's sum may be from 1; see :func:`birdlab.abstention.row_checks.tolerance_of`.
        partial: whether rows hold only the largest probabilities (top-k), the rest being missing mass.
    """

    normalise: bool = False
    nan: Literal["error", "abstain"] = "error"
    entropy: bool = True
    leaf: bool = True
    range_map: bool = False
    tolerance: float = 1e-3
    partial: bool = False


def wide_columns(
    chunks: Chunks,
    tree: Tree,
    truth: pl.DataFrame,
    *,
    options: Options | None = None,
    model: str = "model",
    variant: str = "plain",
    rows: np.ndarray | None = None,
    source: str | None = None,
) -> tuple[pl.DataFrame, list[Notice]]:
    """Per-image columns of a matrix of species probabilities, read once.

    Args:
        chunks: pairs of (row numbers of the matrix (k,), probabilities (k, L) float16, 32 or 64), each row once, in any
            order; see ``WideScores.chunks``.
        tree: of the matrix's labels.
        truth: items with item_id, is_answerable, genus, species, and candidates for a range map.
        options: how to read and what to compute.
        model, variant: values of these columns.
        rows: row of the matrix of every item, (N,); by default item i is row i. Other rows are passed over.
        source: how problems name the file.

    Returns:
        Table ``image_scores``, rows as in ``truth`` (with a range map: all items ``plain``, then all ``range_map``), and
        notices. ``max_species`` = m, the largest leaf probability; ``max_genus`` = M, the largest genus sum, M >= m.
        Of equal probabilities the first by genus and name wins, whatever the order of the columns. Probability of labels
        that are no species counts in the sum of a row and belongs to no leaf. A true species that the vocabulary
        lacks is wrong at species (``is_missing_species``), a genus without a leaf is wrong at genus: nothing is dropped.
        ``entropy`` is in nats over the leaves. No items: an empty table.

    Raises:
        DataError: rows that are no probabilities (at most 20 named, with their number), a matrix whose width is not the
            number of labels, or items whose row never came.

    Valmadre (2022), §3; Deng et al. (2012), §3.

    >>> from birdlab.abstention.taxonomy import Taxonomy
    >>> names = ["Corvus corax", "Corvus corone", "Pica pica"]
    >>> tree = Tree.build(names, Taxonomy.from_names(names))
    >>> truth = pl.DataFrame({"item_id": ["a"], "is_answerable": [True], "genus": ["Corvus"], "species": ["Corvus corax"]})
    >>> table, _ = wide_columns([(np.array([0]), np.array([[0.25, 0.35, 0.4]]))], tree, truth)
    >>> table.select("top_species", "species_right", "max_species", "top_genus", "genus_right", "max_genus").row(0)
    ('Pica pica', False, 0.4, 'Corvus', True, 0.6)
    """
    pass_ = _Pass(tree, truth, options or Options(), rows, source)
    for at, block in _blocks(chunks, pass_.place, len(tree.labels), source):
        pass_.add(at, block)
    return pass_.finish(model, variant)


def _blocks(
    chunks: Chunks, place: np.ndarray | None, width: int, source: str | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(items, their rows): a block at a time, in float32 or float64, without rows that are no item's."""
    for number, whole in chunks:
        number, whole = np.asarray(number), np.asarray(whole)
        if whole.ndim != 2 or whole.shape[1] != width:
            found = f"rows of shape {whole.shape[1:]}"
            raise DataError(Problem("wrong_width", found, f"{width} numbers, one per label", file=source, key="scores"))
        if place is not None:
            at = np.where((number >= 0) & (number < len(place)), place[np.clip(number, 0, len(place) - 1)], -1)
            if (at < 0).any():
                whole, at = whole[at >= 0], at[at >= 0]
        else:
            at = number
        size = block_rows(width)
        for first in range(0, len(whole), size):
            block = whole[first : first + size]
            yield (
                at[first : first + size],
                block if block.dtype.kind == "f" and block.dtype.itemsize > 2 else np.float32(block),
            )


class _Pass:
    """One pass over a matrix: what is kept of it."""

    def __init__(
        self, tree: Tree, truth: pl.DataFrame, options: Options, rows: np.ndarray | None, source: str | None
    ) -> None:
        self.tree, self.options, self.n = tree, options, truth.height
        self.truth = TruthArrays.of(truth, tree)
        self.measure = Measure(tree, entropy=options.entropy, leaf=options.leaf, second=options.partial)
        self.order: LeafOrder | None = None
        self.place = None if rows is None else _inverse(rows)
        self.seen = np.zeros(self.n, dtype=bool)
        self.plain, self.listed = Collected(self.n), Collected(self.n)
        self.range_map = RangeMap(tree, truth) if options.range_map else None
        self.checks = RowChecks(
            tree,
            truth["item_id"].cast(pl.String).to_list(),
            normalise=options.normalise,
            abstain=options.nan == "abstain",
            tolerance=options.tolerance,
            partial=options.partial,
            source=source,
        )

    def add(self, at: np.ndarray, block: np.ndarray) -> None:
        """Take in the rows of the items ``at``."""
        if self.order is None:
            self.order = LeafOrder(self.tree, block.dtype)
        leaves, sums, total = self._sums(block)
        bad, abstains = self.checks.values(block, total, at)
        unusable = bad | abstains
        if unusable.any():
            leaves, sums, total = self._sums(np.where(unusable[:, None], block.dtype.type(0), block))
        scale = self.checks.scale(total, ~unusable, at)
        self.seen[at] = True
        truth = Truth(self.truth.species[at], self.truth.genus[at])
        found, fronts = self.measure(leaves, sums, truth, scale=scale)
        missing = np.clip(1 - total, 0, 1) if self.options.partial else np.zeros(len(at))
        missing[unusable] = 0.0
        more = {"abstains": abstains, "missing_mass": missing}
        more["partial"] = missing > self.options.tolerance
        self.plain.put(at, found | more, fronts)
        if self.range_map is not None:
            kept, sums, scale, lists = self.range_map.restrict(leaves, at, usable=~bad, scale=scale)
            found, fronts = self.measure(kept, sums, truth, scale=scale, listed=lists)
            more["listed_truth"] = (truth.species >= 0) & lists.allowed[np.arange(len(at)), truth.species]
            self.listed.put(at, found | more, fronts)

    def _sums(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leaf probabilities, genus sums, and the sum of every row with all of its labels."""
        leaves, other = self.order(block)  # type: ignore[misc]
        with np.errstate(invalid="ignore"):  # inf - inf, in rows that are refused
            sums = self.measure.genus_sums(leaves)
            total = sums.sum(axis=1, dtype=np.float64)
        return leaves, sums, total if other is None else total + other

    def finish(self, model: str, variant: str) -> tuple[pl.DataFrame, list[Notice]]:
        """The table and what was let through."""
        notices = [*self.tree.notices, *self.checks.finish()]
        if not self.seen.all():
            lacking = [
                Problem("no_row", f"item {self.checks.names[i]}", "a row of scores", file=self.checks.source)
                for i in np.flatnonzero(~self.seen)
            ]
            raise DataError(at_most(lacking))
        if not self.n:
            return pl.DataFrame(schema=columns_schema(self.tree)), notices
        frame = columns_frame(self.plain, self.truth, self.tree, model=model, variant=variant)
        notices += _warnings(frame, self.options)
        if self.range_map is not None:
            listed = columns_frame(self.listed, self.truth, self.tree, model=model, variant="range_map")
            frame = pl.concat([frame, listed])
            notices += self.range_map.notices()
        return frame, notices


def columns_schema(tree: Tree) -> dict[str, Any]:
    """Names and types of the columns that a tree gives."""
    more: dict[str, Any] = {}
    for rank in tree.groups:
        more |= {
            f"max_{rank}": pl.Float64,
            f"top_{rank}": pl.String,
            f"{rank}_right": pl.Boolean,
            f"top_{rank}_n": pl.Int32,
        }
    return SCHEMA | more


def _inverse(rows: np.ndarray) -> np.ndarray:
    """Item of every row of the matrix, -1 where it is no item's."""
    rows = np.asarray(rows)
    place = np.full(int(rows.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place if len(place) else np.full(1, -1, dtype=np.int64)


def _warnings(frame: pl.DataFrame, options: Options) -> list[Notice]:
    """What makes the numbers less than they seem: a flat softmax, ties, missing mass."""
    found = []
    m = frame["max_species"].drop_nulls()
    if not len(m):
        return found
    nothing = int((m <= 0).sum())
    if nothing:
        text = "items without any probability on a species: they name nothing and are not right"
        found.append(Notice("no_leaf_probability", text, nothing))
    # Every row knows all leaves in the variant that is looked at here.
    flat = frame["n_species"][0] * m.median()  # type: ignore[operator]
    if flat < FLAT and frame["n_species"][0] >= FLAT:
        text = (
            f"the median largest probability is {flat:.2g} times 1/S: the softmax is nearly flat (a missing temperature "
            "or logit scale?), and P(genus) then says little more than how many species a genus has"
        )
        found.append(Notice("flat_softmax", text, frame.height))
    tied = int(m.is_duplicated().sum())
    if tied > TIED_SHARE * len(m):
        text = f"of {len(m)} items, those whose largest probability another item has as well (numbers stored coarsely?)"
        found.append(Notice("tied_uncertainty", text, tied))
    if options.partial:
        mean = float(frame["missing_mass"].mean())  # type: ignore[arg-type]
        if mean > 0:
            found.append(
                Notice("missing_mass", f"mean probability that the lists do not show: {mean:.3g}", frame.height)
            )
    return found
