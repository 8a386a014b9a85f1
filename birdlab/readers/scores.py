"""Scores of a model on the items of an abstention study, whatever their shape, and which row belongs to which item."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, get_args

import numpy as np
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.item_fields import heading, shown_list
from birdlab.readers.scores_answers import AnswerScores, is_answers, read_answer_scores
from birdlab.readers.scores_topk import (
    PROBABILITY_HEADINGS,
    TopKScores,
    by_heading,
    first_of,
    is_long,
    is_ranked,
    read_topk,
)
from birdlab.readers.scores_wide import Names, WideScores, read_wide
from birdlab.readers.table_file import TableFile, csv_shape, damaged, read_table, sniff

Kind = Literal["auto", "wide", "topk", "answers"]
Scores = WideScores | TopKScores | AnswerScores


class Alignment(NamedTuple):
    """Which row of the scores belongs to each item, by name.

    ``rows`` (n,) int64: for every item that has scores, in the order of the items, its position in ``scores.item_ids``;
    ``missing``: items without scores, in the order of the items; ``extra``: scored ids that are no item.
    """

    rows: np.ndarray
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def read_scores(
    path: Path | Sequence[Path],
    *,
    model: str = "",
    kind: Kind = "auto",
    ids: Names | None = None,
    labels: Names | None = None,
    scale: float | None = None,
    source: str = "",
) -> list[Scores]:
    """Read or open the scores of one or several models.

    Args:
        path: npy, parquet, feather, CSV, TSV or JSON lines; a list of files or a folder of parquet files is one matrix.
        model: name of the model where the file has no column ``model``; the stem of the file where empty.
        kind: ``wide`` (one column per label), ``topk`` (item_id, label, probability in rows, or top1_species, top1_prob,
            … in columns), ``answers`` (item_id, answer, abstained, …), or ``auto``: told by the columns.
        ids, labels, scale: for a matrix; see :func:`birdlab.readers.scores_wide.read_wide`.
        source: how problems name the file; its path where empty.

    Returns:
        One object per model (and prompt, but answers hold all prompts of a model), in order of appearance. Rows of a
        file that has both a probability and an answer column go by which of the two they fill.

    Raises:
        DataError: with every problem found; see the readers of each kind.
        ParameterError: ``kind`` is unknown.
    """
    if kind not in get_args(Kind):
        raise ParameterError(Problem("bad_value", repr(kind), "one of " + ", ".join(get_args(Kind)), key="kind"))
    if isinstance(path, str):
        path = Path(path)
    several = not isinstance(path, Path) or path.is_dir()
    first = path if isinstance(path, Path) else Path(next(iter(path), "scores"))
    name = model or first.stem
    if kind == "auto":
        kind = "wide" if several else _told_by_columns(first, source)
    if kind == "wide":
        return list(read_wide(path, model=name, ids=ids, labels=labels, scale=scale, source=source))
    if several:
        raise ParameterError(Problem("bad_value", "several files", f"one file of kind {kind}", key="path"))
    table = read_table(first, source)
    if kind == "topk":
        _check_topk(table)
        return list(read_topk(table, model=name))
    return _answers_and_more(table, name)


def _told_by_columns(path: Path, source: str) -> Kind:
    """The kind of scores a file holds, by its header alone."""
    shown = source or str(path)
    names = headings_of(path, shown)
    if names is None:
        return "wide"
    by_name = {name: name for name in names}
    if is_answers(by_name):
        return "answers"
    return "topk" if is_long(by_name) or is_ranked(by_name) else "wide"


def headings_of(path: Path, shown: str) -> list[str] | None:
    """Headings of a table as they are looked up; ``None`` for a plain matrix.

    Raises:
        DataError: the file cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file_kind = sniff(path, shown)
    try:
        if file_kind == "npy":
            return None
        if file_kind == "parquet":
            names = pq.read_schema(path).names
        elif file_kind == "arrow":
            with pa.memory_map(str(path)) as file:
                names = pa.ipc.open_file(file).schema.names
        elif file_kind == "csv":
            names = list(csv_shape(path, shown).header)
        else:
            names = read_table(path, shown).frame.columns
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, shown, error) from error
    return [heading(str(name)) for name in names]


def _check_topk(table: TableFile) -> None:
    names = by_heading(table)
    if is_long(names) or is_ranked(names):
        return
    found, expected = (
        f"the columns {shown_list(table.frame.columns, 6)}",
        "item_id, label, probability, or top1_species, …",
    )
    raise DataError(table.problem(None, "missing_column", found, expected))


def _answers_and_more(table: TableFile, name: str) -> list[Scores]:
    """Answers, and probabilities where a file has rows of both kinds."""
    names = by_heading(table)
    probability = first_of(PROBABILITY_HEADINGS, names)
    if probability is None or not is_long(names):
        return list(read_answer_scores(table, model=name))
    filled = table.frame[probability].is_not_null()
    scores: list[Scores] = []
    for rows, read in ((filled, read_topk), (~filled, read_answer_scores)):
        if rows.any():
            scores += read(table.kept(rows), model=name)
    return scores


def align(scores: Scores, items: pl.DataFrame, *, missing: Literal["error", "drop"] = "error") -> Alignment:
    """Find the row of each item in the scores, by name and never by order.

    Args:
        scores: what :func:`read_scores` gave.
        items: a table with the column item_id (no id twice).
        missing: items without scores are an ``error``, or are left out (``drop``) and told in the result.

    Returns:
        An :class:`Alignment`; with ``drop`` its ``rows`` belong to the items that are not in ``missing``.

    Raises:
        DataError: items without scores (their number and the first of them), or no item has any.
        ParameterError: ``missing`` is neither.

    >>> frame = pl.DataFrame({"item_id": ["b", "a", "z"], "label": ["Pica pica"] * 3, "probability": [0.5] * 3})
    >>> scores = TopKScores("m", frame, frame.select("item_id", missing_mass=1 - pl.col("probability")), "s.csv")
    >>> found = align(scores, pl.DataFrame({"item_id": ["a", "b"]}))
    >>> found.rows.tolist(), found.missing, found.extra
    ([1, 0], (), ('z',))
    """
    if missing not in ("error", "drop"):
        raise ParameterError(Problem("bad_value", repr(missing), "error or drop", key="missing"))
    at = {name: row for row, name in enumerate(scores.item_ids)}
    wanted = items["item_id"].to_list()
    rows = [at[name] for name in wanted if name in at]
    without = tuple(name for name in wanted if name not in at)
    known = set(wanted)
    extra = tuple(name for name in scores.item_ids if name not in known)
    if without and (missing == "error" or not rows):
        found = f"no scores for {len(without)} of {len(wanted)} items: {shown_list(list(without), 5)}"
        expected = f"a row of scores for every item, by {scores.model}"
        raise DataError(Problem("items_without_scores", found, expected, _remedy(without, extra), scores.source))
    return Alignment(np.array(rows, dtype=np.int64), without, extra)


def _remedy(without: tuple[str, ...], extra: tuple[str, ...]) -> str:
    """What may lie behind ids that do not meet."""
    same = {PurePosixPath(name).stem.casefold(): name for name in extra}
    for name in without:
        other = same.get(PurePosixPath(name).stem.casefold())
        if other is not None:
            return f"{name!r} may be {other!r} of the scores: ids must be equal, with folder and ending"
    return "leave these items out of the items file, or score them"
