"""The tree over a model's vocabulary: label → species (leaf) → genus and, on request, further ranks.

TreeGT: the probability of a genus is the sum over its species. The tree is built once; its leaves lie in taxonomic
order (genus, then species, by name), so that a genus is a run of neighbouring columns and ties do not depend on the
order in which a model happens to write its labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most

#: Ranks that every tree has; others are asked for.
BASE_RANKS = ("genus", "species")
SHOWN = 5


@dataclass(frozen=True)
class Group:
    """One rank above the genus: its taxa in order of name, and which genera each holds.

    Args:
        names: taxon ids, sorted.
        of_genus: index into ``names`` of every genus of the tree, (G,).
        order: genera brought together by taxon, (G,); ``start`` is where each taxon begins in it.
        of_taxon: taxon of every genus that the taxonomy knows, those outside the vocabulary too.
    """

    names: tuple[str, ...]
    of_genus: np.ndarray
    order: np.ndarray
    start: np.ndarray
    of_taxon: Mapping[str, str]


@dataclass(frozen=True)
class Tree:
    """Leaves, genera and columns of one vocabulary.

    Args:
        labels: the model's labels, in its own order, (L,).
        species: taxon ids of the leaves, sorted by genus, then name, (S,).
        genera: taxon ids, sorted, (G,).
        genus_index: genus of every leaf, (S,); ``genus_start`` and ``genus_size``: its run of leaves, (G,).
        columns: label columns of the leaves in leaf order, (at least S,); ``leaf_start``: where each leaf begins among
            them, or ``None`` when every leaf has one label.
        other: columns of labels that are no species: they count in the sum of a row and are no leaf.
        groups: further ranks by name.
        notices: labels that were merged or are no leaf, counted.

    >>> from birdlab.abstention.taxonomy import Taxonomy
    >>> taxonomy = Taxonomy.from_names(["Corvus corax", "Corvus corone"])
    >>> tree = Tree.build(["background", "Corvus corone", "Corvus corax"], taxonomy)
    >>> tree.species, tree.genera, tree.genus_size.tolist(), tree.other.tolist()
    (('Corvus corax', 'Corvus corone'), ('Corvus',), [2], [0])
    """

    labels: tuple[str, ...]
    species: tuple[str, ...]
    genera: tuple[str, ...]
    genus_index: np.ndarray
    genus_start: np.ndarray
    genus_size: np.ndarray
    columns: np.ndarray
    leaf_start: np.ndarray | None
    other: np.ndarray
    groups: Mapping[str, Group] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def n_species(self) -> int:
        """Leaves, S."""
        return len(self.species)

    @property
    def n_genera(self) -> int:
        """Genera, G."""
        return len(self.genera)

    @property
    def in_order(self) -> bool:
        """Whether the leaf columns are the model's first columns in its own order, so that nothing need be moved."""
        return bool(np.array_equal(self.columns, np.arange(len(self.columns))))

    @property
    def genus_info(self) -> np.ndarray:
        """Information of a genus, (log2 S - log2 n) / log2 S in [0, 1], (G,); 1 for a monotypic one.

        Deng et al. (2012), §3; a tree of one species has information 1 in every node.
        """
        total = np.log2(self.n_species)
        return np.ones(self.n_genera) if total == 0 else (total - np.log2(self.genus_size)) / total

    @classmethod
    def build(cls, labels: Sequence[str], taxonomy: Any, *, ranks: Sequence[str] = BASE_RANKS) -> Tree:
        """The tree of a vocabulary.

        Args:
            labels: the model's labels, distinct, in its own order.
            taxonomy: resolves names (``resolve``), knows the genus of a species (``genus_of``) and its further
                ancestors (``ancestors(rank)``).
            ranks: ``genus`` and ``species`` are always there; any other (``family``, ``order``) is added.

        Returns:
            The tree. Several labels of one species are one leaf (their probabilities are summed). Labels that are no
            species (``background``, a genus, a name the list does not know) are ``other`` and counted in the notices.

        Raises:
            DataError: a label occurs twice, no label is a species, or a species has no taxon at an asked rank.
        """
        labels = tuple(labels)
        _check_labels(labels)
        resolved = taxonomy.resolve(list(labels))
        taxon, rank = resolved["taxon_id"].to_list(), resolved["rank"].cast(pl.String).to_list()
        genus_of = taxonomy.genus_of
        leaves = [i for i in range(len(labels)) if rank[i] == "species" and taxon[i] in genus_of]
        if not leaves:
            expected = "at least one label that the taxonomy knows as a species"
            raise DataError(Problem("no_species", f"{len(labels)} labels, none a species", expected, key="labels"))
        # Within one leaf the labels are sorted too: sums in floating point then do not depend on the column order.
        leaves.sort(key=lambda i: (genus_of[taxon[i]], taxon[i], labels[i]))
        names = [taxon[i] for i in leaves]
        first = [k for k in range(len(names)) if k == 0 or names[k] != names[k - 1]]
        species = tuple(names[k] for k in first)
        of_leaf = [genus_of[s] for s in species]
        genera = tuple(sorted(set(of_leaf)))
        position = {g: i for i, g in enumerate(genera)}
        index = np.array([position[g] for g in of_leaf], dtype=np.int32)
        size = np.bincount(index, minlength=len(genera))
        used = set(leaves)
        other = np.array([i for i in range(len(labels)) if i not in used], dtype=np.intp)
        return cls(
            labels=labels,
            species=species,
            genera=genera,
            genus_index=index,
            genus_start=np.concatenate(([0], np.cumsum(size)[:-1])).astype(np.intp),
            genus_size=size,
            columns=np.array(leaves, dtype=np.intp),
            leaf_start=None if len(first) == len(names) else np.array(first, dtype=np.intp),
            other=other,
            groups={r: _group(r, genera, taxonomy) for r in ranks if r not in BASE_RANKS},
            notices=_notices(labels, rank, other, len(names), species),
        )


def _check_labels(labels: tuple[str, ...]) -> None:
    seen: set[str] = set()
    twice = [x for x in labels if x in seen or seen.add(x)]  # type: ignore[func-returns-value]
    if twice:
        raise DataError(
            at_most(
                [Problem("duplicate_label", repr(x), "every label once", key="labels") for x in dict.fromkeys(twice)]
            )
        )


def _group(rank: str, genera: tuple[str, ...], taxonomy: Any) -> Group:
    """One rank above the genus, from any species of each genus (a genus lies in one taxon of every rank)."""
    ancestors = taxonomy.ancestors(rank)
    of_taxon: dict[str, str] = {}
    for species, genus in taxonomy.genus_of.items():
        if ancestors.get(species) is not None:
            of_taxon.setdefault(genus, ancestors[species])
    lacking = [g for g in genera if g not in of_taxon]
    if lacking:
        remedy = f"use a taxonomy with a {rank} for every species, or leave {rank} out of the ranks"
        raise DataError(
            at_most(
                [Problem("no_ancestor", f"genus {g} in no {rank}", f"one {rank}", remedy, key=rank) for g in lacking]
            )
        )
    names = tuple(sorted({of_taxon[g] for g in genera}))
    position = {name: i for i, name in enumerate(names)}
    of_genus = np.array([position[of_taxon[g]] for g in genera], dtype=np.int32)
    order = np.argsort(of_genus, kind="stable")
    size = np.bincount(of_genus, minlength=len(names))
    return Group(names, of_genus, order, np.concatenate(([0], np.cumsum(size)[:-1])).astype(np.intp), of_taxon)


def _notices(
    labels: tuple[str, ...], rank: list[str | None], other: np.ndarray, n_used: int, species: tuple[str, ...]
) -> tuple[Notice, ...]:
    found = []
    genus = [labels[i] for i in other if rank[i] == "genus"]
    none = [labels[i] for i in other if rank[i] != "genus"]
    if genus:
        text = f"labels that stand for a genus (its name, a hybrid, a split), no species: their probability belongs to no leaf ({_some(genus)})"
        found.append(Notice("genus_labels", text, len(genus)))
    if none:
        text = f"labels that are no species of the taxonomy: their probability belongs to no leaf ({_some(none)})"
        found.append(Notice("other_labels", text, len(none)))
    if n_used > len(species):
        text = f"labels of a species that has another label already, summed ({n_used} labels, {len(species)} species)"
        found.append(Notice("merged_labels", text, n_used - len(species)))
    return tuple(found)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
