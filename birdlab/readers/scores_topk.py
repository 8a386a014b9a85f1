"""Top-k scores: only the few most probable labels of each item, with the probability that is missing carried along."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most
from birdlab.readers.item_fields import heading, shown_list
from birdlab.readers.scores_parts import ID_HEADINGS
from birdlab.readers.table_file import TableFile, as_text

LABEL_HEADINGS = ("taxon_id", "taxon", "label", "species")
PROBABILITY_HEADINGS = ("probability", "prob", "score")
#: ``top1_species``, ``top2_prob``: rank and role.
_RANKED = re.compile(r"top_?(\d+)_(species|label|taxon|taxon_id|prob|probability|score)")
#: How far the probabilities of one item may exceed 1 by rounding.
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class TopKScores:
    """The most probable labels of each item by one model (and one prompt).

    ``frame`` has the columns item_id, label and probability (Float64, in [0, 1]); ``missing_mass`` has one row per item,
    in order of appearance: item_id and missing_mass = 1 - the sum of its probabilities, in [0, 1].
    """

    model: str
    frame: pl.DataFrame
    missing_mass: pl.DataFrame
    source: str
    prompt_id: str | None = None
    notices: tuple[Notice, ...] = field(default=(), repr=False)

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Items in order of appearance."""
        return tuple(self.missing_mass["item_id"].to_list())

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.missing_mass.height

    @property
    def mean_missing_mass(self) -> float:
        """Mean over items of the probability that no listed label has, in [0, 1], lower is better."""
        return float(self.missing_mass["missing_mass"].mean() or 0.0)  # type: ignore[arg-type]


def by_heading(table: TableFile) -> dict[str, str]:
    """Column names of a table by the heading they are looked up as (the first where two agree)."""
    return {heading(name): name for name in reversed(table.frame.columns)}


def first_of(headings: tuple[str, ...], names: dict[str, str]) -> str | None:
    """The column of the first of these headings that a table has."""
    return next((names[h] for h in headings if h in names), None)


def is_long(names: dict[str, str]) -> bool:
    """Whether the columns are those of a long table: a label and its probability per row."""
    return first_of(LABEL_HEADINGS, names) is not None and first_of(PROBABILITY_HEADINGS, names) is not None


def is_ranked(names: dict[str, str]) -> bool:
    """Whether the columns are those of one row per item: ``top1_species``, ``top1_prob``, …"""
    return any(_RANKED.fullmatch(name) for name in names)


def read_topk(table: TableFile, *, model: str) -> list[TopKScores]:
    """Top-k scores of a long table (item_id, taxon_id or label, probability) or of one row per item (top1_species, …).

    Args:
        table: the file as read; columns model and prompt_id, where present, tell several models and prompts apart.
        model: name of the model where the file has no column ``model``.

    Returns:
        One :class:`TopKScores` per model and prompt, in order of appearance.

    Raises:
        DataError: with every problem: probabilities that are no number or outside [0, 1], an item with the same label
            twice, items whose probabilities sum to more than 1.001, a label without a probability or the reverse.
    """
    names = by_heading(table)
    item = first_of(ID_HEADINGS, names)
    if item is None:
        found = f"the columns {shown_list(table.frame.columns, 6)}"
        raise DataError(table.problem(None, "missing_column", found, "a column item_id", key="item_id"))
    base = {
        "item_id": as_text(table.frame[item], table.shown),
        "model": _meta(table, names, "model").fill_null(model),
        "prompt_id": _meta(table, names, "prompt_id"),
    }
    head = pl.DataFrame([series.alias(name) for name, series in base.items()]).with_row_index("row")
    pairs = _long_pairs(table, names) if is_long(names) else _ranked_pairs(table, names)
    rows = pl.concat([pl.concat([head, label, probability], how="horizontal") for label, probability in pairs])
    rows = rows.sort("row", maintain_order=True)
    # pandas writes a rank that an item lacks as NaN.
    rows = rows.filter(pl.col("label").is_not_null() | (pl.col("text").fill_null("NaN") != "NaN"))
    rows = rows.with_columns(pl.col("text").cast(pl.Float64, strict=False).alias("probability"))
    problems = _row_problems(table, rows) or _item_problems(table, rows)
    if problems:
        raise DataError(problems)
    return _per_model(rows, head, table.shown)


def _meta(table: TableFile, names: dict[str, str], name: str) -> pl.Series:
    if name not in names:
        return pl.Series(name, [None] * table.frame.height, dtype=pl.String)
    return as_text(table.frame[names[name]], table.shown)


def _long_pairs(table: TableFile, names: dict[str, str]) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    label, probability = first_of(LABEL_HEADINGS, names), first_of(PROBABILITY_HEADINGS, names)
    return [_pair(table, label, probability)]


def _pair(table: TableFile, label: str | None, probability: str | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    numbers = table.frame[probability]
    # A float NaN would become null as text; it must be told, not dropped.
    text = numbers.cast(pl.Float64).cast(pl.String) if numbers.dtype.is_float() else as_text(numbers, table.shown)
    return (
        as_text(table.frame[label], table.shown).alias("label").to_frame(),
        pl.DataFrame({"text": text, "key": [probability] * table.frame.height}),
    )


def _ranked_pairs(table: TableFile, names: dict[str, str]) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    ranks: dict[int, dict[str, str]] = {}
    for name in names:
        match = _RANKED.fullmatch(name)
        if match:
            role = "probability" if match.group(2).startswith(("prob", "score")) else "label"
            ranks.setdefault(int(match.group(1)), {})[role] = names[name]
    problems = [
        table.problem(None, "missing_column", ", ".join(roles.values()), f"a label and a probability for rank {rank}")
        for rank, roles in sorted(ranks.items())
        if len(roles) < 2
    ]
    if problems:
        raise DataError(at_most(problems))
    return [_pair(table, roles["label"], roles["probability"]) for _, roles in sorted(ranks.items())]


def _row_problems(table: TableFile, rows: pl.DataFrame) -> list[Problem]:
    p = pl.col("probability")
    checks = (
        (pl.col("item_id").is_null(), "empty_value", "nothing", "the id of the item", "item_id"),
        (pl.col("label").is_null(), "empty_value", "a probability without a label", "its label", None),
        (pl.col("text").is_null(), "empty_value", "a label without a probability", "its probability", None),
        (pl.col("text").is_not_null() & p.is_null(), "not_a_number", None, "a probability", None),
        (p.is_nan() | p.is_infinite(), "not_finite", None, "a finite probability", None),
        (p.is_finite() & (p < 0), "negative", None, "a probability from 0 to 1 (are these logits?)", None),
        (p.is_finite() & (p > 1 + TOLERANCE), "above_one", None, "a probability from 0 to 1 (are these logits?)", None),
    )
    found: list[tuple[int, Problem]] = []
    n = 0
    for wrong, code, said, expected, key in checks:
        bad = rows.filter(wrong)
        n += bad.height
        for row in bad.head(20).iter_rows(named=True):
            shown = said or f"{row['text']} for {row['label']!r} of {row['item_id']!r}"
            found.append((row["row"], table.problem(row["row"], code, shown, expected, key=key or row["key"])))
    return _first(found, n, table.shown)


def _item_problems(table: TableFile, rows: pl.DataFrame) -> list[Problem]:
    key = ["model", "prompt_id", "item_id"]
    found: list[tuple[int, Problem]] = []
    twice = rows.filter(pl.struct(*key, "label").is_first_distinct().not_())
    for row in twice.head(20).iter_rows(named=True):
        shown = f"{row['label']!r} of {row['item_id']!r} again"
        found.append((row["row"], table.problem(row["row"], "duplicate_label", shown, "every label of an item once")))
    sums = rows.group_by(key, maintain_order=True).agg(pl.col("probability").sum(), pl.col("row").first())
    above = sums.filter(pl.col("probability") > 1 + TOLERANCE)
    for row in above.head(20).iter_rows(named=True):
        shown = f"probabilities of {row['item_id']!r} that sum to {row['probability']:.4g}"
        found.append((row["row"], table.problem(row["row"], "sum_above_one", shown, "a sum of at most 1")))
    return _first(found, twice.height + above.height, table.shown)


def _first(found: list[tuple[int, Problem]], n: int, shown: str) -> list[Problem]:
    problems = [problem for _, problem in sorted(found, key=lambda pair: pair[0])][:20]
    if n > len(problems):
        problems.append(Problem("more", f"{n - len(problems)} more problems, {n} in all", "none", file=shown))
    return problems


def _per_model(rows: pl.DataFrame, head: pl.DataFrame, source: str) -> list[TopKScores]:
    scores = []
    # An item without any label (all of a row empty) is still an item: all of its mass is missing.
    items = head.filter(pl.col("item_id").is_not_null()).unique(["model", "prompt_id", "item_id"], maintain_order=True)
    for (model, prompt), some in items.group_by("model", "prompt_id", maintain_order=True):
        mine = rows.filter(pl.col("model").eq_missing(model) & pl.col("prompt_id").eq_missing(prompt))
        frame = mine.select("item_id", "label", "probability")
        sums = frame.group_by("item_id").agg(pl.col("probability").sum())
        missing = (1 - pl.col("probability").fill_null(0.0)).clip(0.0, 1.0).alias("missing_mass")
        mass = (
            some.select("item_id")
            .join(sums, on="item_id", how="left", maintain_order="left")
            .select("item_id", missing)
        )
        n_empty = mass.height - frame["item_id"].n_unique()
        notices = (Notice("no_label", "items without any label: all of their probability is missing", n_empty, source),)
        scores.append(TopKScores(str(model), frame, mass, source, prompt, notices if n_empty else ()))  # type: ignore[arg-type]
    return scores
