"""Answers in words as per-image columns, so that they go through the same curves as species probabilities.

An answer names one node of the tree; its probability is the confidence stated, or 1 where none is. Every other node has
no probability at all: an answer is a point, and what a threshold does to it depends on the confidence alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import polars as pl

from birdlab.abstention.answered import SPECIES_LEVEL, answered
from birdlab.abstention.columns_frame import SCHEMA
from birdlab.abstention.conventions import Unparsed
from birdlab.errors import DataError, ParameterError, Problem


class HasGenera(Protocol):
    """What is needed of a taxonomy: the genus of every species."""

    @property
    def genus_of(self) -> Mapping[str, str]:
        """Genus by species."""


def answer_columns(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    taxonomy: HasGenera,
    *,
    unparsed: Unparsed = "wrong",
    vocabulary: Sequence[str] | None = None,
    variant: str = "plain",
) -> pl.DataFrame:
    """Per-image columns of one model's answers to one prompt.

    Args:
        answers: table ``answers`` of one model and one prompt.
        items: table ``items``, names resolved in the same taxonomy.
        taxonomy: gives the genus of every species.
        unparsed: an answer that could not be read is ``wrong``: no node, not an abstention, as sure as can be; or its
            row is left out (``drop``).
        vocabulary: species that could have been answered; ``None`` for all of the taxonomy. It fixes what the leaf
            information of a genus is, and chance.
        variant: name of the variant.

    Returns:
        Table ``image_scores`` (:data:`SCHEMA`), one row per answer in order.

        - A species has ``max_species`` = ``max_genus`` = its confidence, or 1.0; several species of one genus, or a
          genus, have ``max_genus`` only; a higher taxon, several genera and an abstention have neither.
        - ``abstained``: no species is named (unparsed answers do not abstain). ``stated``: confidence in the
          species named, null where it has none or the answer abstains; 1 where the answer could not be read, so that
          it is never taken for a wish to abstain.
        - ``species_right`` is null for unanswerable photographs, else whether that species was named; ``genus_right``
          gives a species, or a genus, credit for its genus. ``within_genus_right`` is null where no species of the true
          genus was named.
        - ``leaf_*``: the one node named. Its information is that of the genus, (log2 S - log2 n) / log2 S, or 1. A genus
          without a species in the vocabulary has no such information: its list is empty.
        - ``p_true_*``, ``entropy`` and ``is_missing_genus`` are null: words do not give them; ``missing_mass`` is 0.

        Photographs without an answer have no row: :func:`birdlab.abstention.prompts.prompt_rates` counts them.

    Raises:
        ParameterError: answers of several models or prompts.
        DataError: see :func:`birdlab.abstention.answered.answered`; a species that the taxonomy does not have.
    """
    _check_one(answers)
    answered(answers, items, unparsed=unparsed)  # only for its checks
    table = answers.with_columns(pl.col("decision").cast(pl.String)).join(
        items.select("item_id", "is_answerable", "genus", "species"), on="item_id", how="left", maintain_order="left"
    )
    if unparsed == "drop":
        table = table.filter(pl.col("decision") != "unparsed")
    genus_of = taxonomy.genus_of
    leaves = list(dict.fromkeys(genus_of if vocabulary is None else vocabulary))
    _check_species(table, leaves, genus_of)
    sizes, known = Counter(genus_of[s] for s in leaves), set(leaves)
    genera = set(genus_of.values())
    rows = [_row(r, genus_of, genera) | _counts(r, sizes, known) for r in table.iter_rows(named=True)]
    for row in rows:
        row |= {"variant": variant, **_leaf(row, sizes, len(leaves))}
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def answer_uncertainty(columns: pl.DataFrame) -> Literal["stated", "binary"]:
    """Which uncertainty suits answers: ``stated`` where every species named has a confidence, else ``binary``.

    Args:
        columns: what :func:`answer_columns` returns.

    Returns:
        ``stated`` or ``binary``; ``binary`` where no species is named at all.

    >>> answer_uncertainty(pl.DataFrame({"max_species": [1.0, None], "stated": [None, None]}))
    'binary'
    """
    named = columns.filter(pl.col("max_species").is_not_null())
    return "binary" if named.is_empty() or named["stated"].has_nulls() else "stated"


def _row(answer: dict[str, Any], genus_of: Mapping[str, str], genera: set[str]) -> dict[str, Any]:
    """What one answer says, and whether it is right."""
    decision, taxon = answer["decision"], answer["taxon_id"]
    confidence = 1.0 if answer["confidence"] is None else float(answer["confidence"])
    species = taxon if decision == "species" else None
    genus = genus_of[species] if species else _genus(answer, genus_of, genera)
    right = answer["species"] is not None and species == answer["species"] if answer["is_answerable"] else None
    stated = {"species": answer["confidence"], "unparsed": 1.0}.get(decision)
    at_species, at_genus = (confidence if node else None for node in (species, genus))
    in_genus = genus == answer["genus"] if genus else False
    return {
        **{c: answer[c] for c in ("model", "item_id", "is_answerable", "genus", "species")},
        "top_species_genus": genus if species else None,
        **{"max_species": at_species, "top_species": species, "max_genus": at_genus, "top_genus": genus},
        **{"species_right": right, "genus_right": in_genus, "species_right_top_down": right},
        **{"max_species_top_down": at_species, "top_species_top_down": species, "missing_mass": 0.0},
        "within_genus_right": right if species and in_genus else None,
        **{"stated": stated, "abstained": decision in SPECIES_LEVEL},
    }


def _genus(answer: dict[str, Any], genus_of: Mapping[str, str], genera: set[str]) -> str | None:
    """The genus that an answer comes down to: named itself, or that of all species it names."""
    if answer["decision"] not in ("genus", "multiple"):
        return None
    if answer["taxon_id"] in genera:
        return answer["taxon_id"]
    found = {genus_of.get(c, c if c in genera else None) for c in answer["candidates"] or ()}
    return found.pop() if len(found) == 1 else None


def _counts(answer: dict[str, Any], sizes: Counter[str], known: set[str]) -> dict[str, Any]:
    species = answer["species"]
    return {
        **{"within_genus_n": sizes[answer["genus"]], "n_species": len(known), "n_genera": len(sizes)},
        "is_missing_species": species is not None and species not in known,
    }


def _leaf(row: dict[str, Any], sizes: Counter[str], whole: int) -> dict[str, Any]:
    """The list of nodes by information, of one node or none, and the size of the genus named."""
    genus = row["top_genus"]
    out: dict[str, Any] = {"top_genus_n": None if genus is None else sizes[genus]}
    if row["top_species"] is not None:
        return out | {"leaf_p": [row["max_species"]], "leaf_info": [1.0], "leaf_right": [row["species_right"]]}
    if genus is None or not sizes[genus]:
        return out | {"leaf_p": [], "leaf_info": [], "leaf_right": []}
    info = 1 - math.log2(sizes[genus]) / math.log2(whole) if whole > 1 else 1.0
    return out | {"leaf_p": [row["max_genus"]], "leaf_info": [info], "leaf_right": [row["genus_right"]]}


def _check_one(answers: pl.DataFrame) -> None:
    problems = []
    for key in ("model", "prompt_id"):
        names = answers[key].unique(maintain_order=True).to_list()
        if len(names) > 1:
            found = f"{len(names)}: " + ", ".join(map(str, names[:5]))
            problems.append(Problem("several", found, f"answers of one {key}", "filter the answers first", key=key))
    if problems:
        raise ParameterError(problems)


def _check_species(table: pl.DataFrame, leaves: Sequence[str], genus_of: Mapping[str, str]) -> None:
    problems = []
    named = table.filter(pl.col("decision") == "species")["taxon_id"].unique(maintain_order=True).to_list()
    for key, names in (("taxon_id", named), ("vocabulary", leaves)):
        foreign = [str(n) for n in names if n not in genus_of]
        if foreign:
            found = f"{len(foreign)} names ({', '.join(foreign[:5])}{' …' if len(foreign) > 5 else ''})"
            problems.append(Problem("unknown_species", found, "species of the taxonomy", key=key))
    if problems:
        raise DataError(problems)
