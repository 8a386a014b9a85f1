"""Answers that come in columns (a taxon or none, abstained or not, how uncertain) as the table ``answers``."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.abstention.taxonomy import Taxonomy
from birdlab.readers.item_fields import reasons_of

#: Name of the prompt where the file names none.
NO_PROMPT = "default"


def read_said(given: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """Answers in columns under a list of birds.

    Args:
        given: the columns of ``AnswerScores`` for one model and prompt: model, prompt_id, item_id, taxon, abstained,
            reason, uncertainty.
        taxonomy: the list that ``taxon`` is looked up in, by exact names.

    Returns:
        Table ``answers``. A name of a species, genus or higher taxon is that decision, abstained or not, but an
        abstention that names a species is ``abstain`` with it as candidate; a name of several species is ``multiple``.
        A row that neither abstains nor names a taxon of the list is ``unparsed``, never an abstention. ``confidence``:
        see :func:`confidences`. ``method`` is how the name was found.

    >>> given = pl.DataFrame({"model": ["m"], "prompt_id": [None], "item_id": ["a"], "taxon": ["Pica pica"],
    ...                       "abstained": [False], "reason": [None], "uncertainty": [0.25]})
    >>> read_said(given, Taxonomy.from_names(["Pica pica"])).select("decision", "taxon_id", "confidence").row(0)
    ('species', 'Pica pica', 0.75)
    """
    found = taxonomy.resolve(given["taxon"].to_list())
    rows = [
        _row(answer, taxon) | {"confidence": confidence}
        for answer, taxon, confidence in zip(
            given.iter_rows(named=True), found.iter_rows(named=True), confidences(given["uncertainty"]), strict=True
        )
    ]
    declared = {c.name: c.dtype for c in schemas.TABLES["answers"].columns}
    return schemas.TABLES["answers"].conform(pl.DataFrame(rows, schema=declared))


def confidences(uncertainty: pl.Series) -> list[float | None]:
    """Confidence in [0, 1] in the reverse order of any finite uncertainty: 1 - u where all u lie in [0, 1], else by rank.

    >>> confidences(pl.Series([0.25, None, 1.0])), confidences(pl.Series([-3.0, 40.0, 40.0]))
    ([0.75, None, 0.0], [0.6666666666666667, 0.33333333333333337, 0.33333333333333337])
    """
    u = uncertainty.cast(pl.Float64)
    known = u.drop_nulls().to_numpy()
    if not len(known):
        return u.to_list()
    straight = known.min() >= 0 and known.max() <= 1 and len(np.unique(1 - known)) == len(np.unique(known))
    ranked = u.rank("dense")
    return (1 - u if straight else 1 - ranked / (ranked.max() + 1)).to_list()  # type: ignore[operator]


def _row(answer: dict[str, Any], taxon: dict[str, Any]) -> dict[str, Any]:
    decision, taxon_id = _decision(taxon), taxon["taxon_id"]
    candidates = list(taxon["candidates"] or ()) if decision == "multiple" else []
    if answer["abstained"] and decision in ("species", "unparsed"):
        candidates = [taxon_id] if decision == "species" else []
        decision, taxon_id = "abstain", None
    return {
        **{"model": answer["model"], "prompt_id": answer["prompt_id"] or NO_PROMPT, "permits_abstention": True},
        **{"item_id": answer["item_id"], "text": answer["taxon"] or "", "decision": decision, "taxon_id": taxon_id},
        **{"candidates": candidates, "rank": taxon["rank"] if taxon_id else None},
        **{"reasons": reasons_of(answer["reason"])[0], "hedged": False, "edits": 0, "flags": []},
        "method": taxon["how"] if answer["taxon"] else "none",
    }


def _decision(taxon: dict[str, Any]) -> str:
    if taxon["rank"] == "species":
        return "species"
    if taxon["candidates"]:
        return "multiple"
    if taxon["taxon_id"] is None:
        return "unparsed"
    return "genus" if taxon["rank"] == "genus" else "higher"
