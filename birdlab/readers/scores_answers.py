"""Scores of models that answer: one taxon or none per item, whether it abstained, its reason and its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most
from birdlab.readers.item_fields import REASONS, reasons_of, shown_list, truth_value
from birdlab.readers.scores_parts import ID_HEADINGS
from birdlab.readers.scores_topk import LABEL_HEADINGS, by_heading, first_of
from birdlab.readers.table_file import TableFile, as_text

ANSWER_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "prompt_id": pl.String,
    "item_id": pl.String,
    "taxon": pl.String,
    "abstained": pl.Boolean,
    "reason": pl.String,
    "uncertainty": pl.Float64,
}
_TAXON = ("answer", *LABEL_HEADINGS)
_REASON = ("reason_given", "reason")


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """Answers of one model under all its prompts.

    ``frame`` has the columns of :data:`ANSWER_SCHEMA`, one row per prompt and item: ``taxon`` as written (null where
    none was given), ``reason`` one of vocalization, angle, quality, other (several joined by ``|``) or null,
    ``uncertainty`` any finite number, larger is less certain, or null.
    """

    model: str
    frame: pl.DataFrame
    source: str
    notices: tuple[Notice, ...] = field(default=(), repr=False)

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Items in order of appearance."""
        return tuple(self.frame["item_id"].unique(maintain_order=True).to_list())

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.frame["item_id"].n_unique()


def is_answers(names: dict[str, str]) -> bool:
    """Whether the columns are those of answers."""
    return "abstained" in names or "answer" in names


def read_answer_scores(table: TableFile, *, model: str) -> list[AnswerScores]:
    """Answers in columns: item_id, answer, abstained, and where known model, prompt_id, reason_given, uncertainty.

    Args:
        table: the file as read.
        model: name of the model where the file has no column ``model``.

    Returns:
        One :class:`AnswerScores` per model, in order of appearance. A row that neither abstains nor names a taxon is
        kept, with ``taxon`` null: it is an answer that could not be read, which is no abstention.

    Raises:
        DataError: with every problem: no column abstained, values that are neither yes nor no, unknown reasons,
            uncertainties that are no finite number, an item twice under one prompt.
    """
    names = by_heading(table)
    columns = _columns(table, names, model)
    rows, wrong = [], []
    seen: dict[tuple[object, ...], int] = {}
    for row, (name, prompt, item, taxon, abstained, reason, uncertainty) in enumerate(zip(*columns, strict=True)):
        if item is None:
            wrong.append((row, "empty_value", "nothing", "the id of the item", "item_id"))
        elif (name, prompt, item) in seen:
            wrong.append((row, "duplicate_item", repr(item), "every item once per model and prompt", "item_id"))
        seen.setdefault((name, prompt, item), row)
        said = truth_value(abstained) if abstained else None
        if said is None:
            wrong.append((row, "not_binary", repr(abstained) if abstained else "nothing", "1 or 0", "abstained"))
        known, unknown = reasons_of(reason)
        if unknown:
            wrong.append((row, "unknown_reason", ", ".join(map(repr, unknown)), ", ".join(REASONS), "reason_given"))
        number = _finite(uncertainty)
        if uncertainty is not None and number is None:
            wrong.append((row, "not_finite", repr(uncertainty), "a finite number, or nothing", "uncertainty"))
        rows.append((name, prompt, item, taxon, said, "|".join(known) or None, number))
    if wrong:
        problems = [
            table.problem(row, code, found, expected, key=key) for row, code, found, expected, key in wrong[:20]
        ]
        if len(wrong) > 20:
            more = f"{len(wrong) - 20} more problems, {len(wrong)} in all"
            problems.append(Problem("more", more, "none", file=table.shown))
        raise DataError(problems)
    frame = pl.DataFrame(rows, schema=ANSWER_SCHEMA, orient="row")
    return [
        AnswerScores(str(name), some, table.shown, _notices(some, table.shown))
        for (name,), some in frame.group_by("model", maintain_order=True)
    ]


def _columns(table: TableFile, names: dict[str, str], model: str) -> list[list[str | None]]:
    chosen = {
        "model": names.get("model"),
        "prompt_id": names.get("prompt_id"),
        "item_id": first_of(ID_HEADINGS, names),
        "taxon": first_of(_TAXON, names),
        "abstained": names.get("abstained"),
        "reason": first_of(_REASON, names),
        "uncertainty": names.get("uncertainty"),
    }
    has = f"the columns {shown_list(table.frame.columns, 8)}"
    remedies = {
        "item_id": "",
        "taxon": "call it answer",
        "abstained": "free text that is still to be parsed goes in as answers, not as scores",
    }
    problems = [
        table.problem(None, "missing_column", has, f"a column {name}", remedy=remedy, key=name)
        for name, remedy in remedies.items()
        if chosen[name] is None
    ]
    if problems:
        raise DataError(at_most(problems))
    columns: list[list[str | None]] = []
    for name, column in chosen.items():
        if column is None:
            columns.append([None] * table.frame.height)
        elif name == "uncertainty" and table.frame[column].dtype.is_float():
            columns.append(table.frame[column].cast(pl.String).to_list())  # NaN must be told, not dropped
        else:
            columns.append(as_text(table.frame[column], table.shown).to_list())
    columns[0] = [name or model for name in columns[0]]
    return columns


def _finite(text: str | None) -> float | None:
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _notices(frame: pl.DataFrame, shown: str) -> tuple[Notice, ...]:
    silent = frame.filter(pl.col("taxon").is_null() & ~pl.col("abstained")).height
    both = frame.filter(pl.col("taxon").is_not_null() & pl.col("abstained")).height
    notices = []
    if silent:
        notices.append(Notice("no_answer", "answers that neither abstain nor name a taxon", silent, shown))
    if both:
        notices.append(Notice("taxon_beside_abstention", "abstentions that name a taxon as well", both, shown))
    return tuple(notices)
