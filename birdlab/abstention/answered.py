"""Answers in words beside what is true of each photograph: the one table that reasons and prompts are counted from.

Two ways to abstain are kept apart. *Outright*: the answer declines. *At species level*: it declines, or names only a
genus, a higher taxon or several species. An answer that could not be read is neither.
"""

from __future__ import annotations

from typing import Literal

import polars as pl

from birdlab import stats
from birdlab.abstention.conventions import Unparsed
from birdlab.errors import DataError, ParameterError, Problem

Abstained = Literal["species_level", "outright"]
#: Decisions that name no single species.
SPECIES_LEVEL = ("abstain", "genus", "higher", "multiple")
NO_REASON = "none"
#: Columns of items that answers may be clustered by.
CLUSTERS = ("genus", "observer_id", "observation_id", "item_id")
_SHOWN = 5


def answered(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """Every answer with the truth of its photograph and whether it abstained.

    Args:
        answers: table ``answers``.
        items: table ``items``.
        unparsed: an answer that could not be read counts as one that did not abstain (``wrong``) or is not counted
            (``drop``). It is never an abstention.
        abstained: which of the two ways the column ``abstained`` means.

    Returns:
        One row per answer in order: model, prompt_id, permits_abstention, item_id, is_answerable, true_reasons,
        reasons (each once), is_unparsed, is_counted, species_level, outright, abstained, and the cluster columns
        (null where the items have none). Photographs without an answer have no row.

    Raises:
        DataError: an answer to a photograph that is not among the items, or two answers of one model to one prompt
            and photograph.
        ParameterError: an unknown option.
    """
    _check_options(unparsed, abstained)
    _check(answers, items)
    decision = pl.col("decision").cast(pl.String)
    empty = pl.lit([], dtype=pl.List(pl.String))
    truth = items.select(
        "item_id",
        "is_answerable",
        true_reasons=pl.col("reasons").fill_null(empty).list.unique(maintain_order=True),
        **{c: pl.col(c) if c in items.columns else pl.lit(None, pl.String) for c in CLUSTERS if c != "item_id"},
    )
    table = answers.select(
        "model",
        "prompt_id",
        "permits_abstention",
        "item_id",
        reasons=pl.col("reasons").fill_null(empty).list.unique(maintain_order=True),
        is_unparsed=decision == "unparsed",
        species_level=decision.is_in(SPECIES_LEVEL),
        outright=decision == "abstain",
    )
    return table.join(truth, on="item_id", how="left", maintain_order="left").with_columns(
        is_counted=~pl.col("is_unparsed") if unparsed == "drop" else pl.lit(True),
        abstained=pl.col(abstained),
    )


def with_share(row: dict[str, object], name: str, k: float, n: int) -> None:
    """Put a share and its Wilson interval into a row: ``name``, ``name_lo``, ``name_hi``; null for n = 0.

    >>> row = {}
    >>> with_share(row, "rate", 0, 0)
    >>> row
    {'rate': None, 'rate_lo': None, 'rate_hi': None}
    """
    lo, hi = stats.wilson(k, n) or (None, None)
    row |= {name: k / n if n else None, f"{name}_lo": lo, f"{name}_hi": hi}


def unparsed_counts(part: pl.DataFrame) -> dict[str, object]:
    """How many answers of a part of :func:`answered` could not be read, and their share of all of them (null for none)."""
    n = int(part["is_unparsed"].sum())
    return {"n_unparsed": n, "unparsed_share": n / part.height if part.height else None}


def _check_options(unparsed: str, abstained: str) -> None:
    problems = [
        Problem("bad_value", repr(value), "one of " + ", ".join(allowed), key=key)
        for key, value, allowed in (
            ("unparsed", unparsed, ("wrong", "drop")),
            ("abstained", abstained, ("species_level", "outright")),
        )
        if value not in allowed
    ]
    if problems:
        raise ParameterError(problems)


def _check(answers: pl.DataFrame, items: pl.DataFrame) -> None:
    problems = []
    if items["item_id"].is_duplicated().any():
        problems.append(_problem(items, items["item_id"].is_duplicated(), "duplicate_item", "each item once"))
    foreign = ~answers["item_id"].is_in(items["item_id"].to_list())
    if foreign.any():
        problems.append(_problem(answers, foreign, "unknown_item", "answers to the items given"))
    twice = answers.select(pl.struct("model", "prompt_id", "item_id").is_duplicated()).to_series()
    if twice.any():
        problems.append(_problem(answers, twice, "duplicate_answer", "one answer per model, prompt and item"))
    kinds = answers.select(pl.col("permits_abstention").n_unique().over("model", "prompt_id")).to_series() > 1
    if kinds.any():
        problems.append(
            _problem(answers, kinds, "prompt_of_two_kinds", "a prompt that permits abstention, or does not")
        )
    if problems:
        raise DataError(problems)


def _problem(table: pl.DataFrame, wrong: pl.Series, code: str, expected: str) -> Problem:
    ids = table.filter(wrong)["item_id"].unique(maintain_order=True).to_list()
    names = ", ".join(map(str, ids[:_SHOWN])) + (" …" if len(ids) > _SHOWN else "")
    return Problem(code, f"{int(wrong.sum())} rows ({names})", expected, "compare the two files", key="item_id")
