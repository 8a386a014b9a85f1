"""Files of ``birdlab score reid``: queries, whose bird is asked for, and rankings of birds by methods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most
from birdlab.readers.item_fields import heading, split_list, truth_value
from birdlab.readers.reid_lists import EXPECTED, names_of
from birdlab.readers.table_file import TableFile, as_text, read_table
from birdlab.schemas.reid import GALLERIES, REID_SPLITS

_SPLITS = {split: split for split in REID_SPLITS} | {"disjointed": "disjoint"}
_SPLITS |= {f"{word}set": split for word, split in list(_SPLITS.items())}
_GALLERIES = {g: g for g in GALLERIES} | {
    "neighbors": "neighbours",
    "neighbor": "neighbours",
    "neighbour": "neighbours",
}
_GALLERIES |= {"withinterritory": "territory"}
QUERY_ROLES = ("query", "validation")
_LISTS = {"candidates_territory": "territory", "candidates_neighbours": "neighbours"}


class _Reader:
    """One file while it is read: its columns by name, and what is wrong where."""

    def __init__(self, table: TableFile) -> None:
        self.table = table
        self.heads = {heading(name): name for name in table.frame.columns}
        self.problems: list[Problem] = []

    def has(self, *names: str) -> str | None:
        return next((self.heads[name] for name in names if name in self.heads), None)

    def text(self, name: str, *others: str, must: bool = True) -> pl.Series | None:
        """A column as text; a missing or empty one is a problem where it must be there."""
        found = self.has(name, *others)
        if found is None:
            if must:
                has = "the columns " + ", ".join(self.table.frame.columns)[:150]
                self.problems.append(self.table.problem(None, "missing_column", has, f"a column {name}", key=name))
            return None
        column = as_text(self.table.frame[found], self.table.shown).alias(name)
        if must:
            self.wrong(column.is_null(), column, "empty_value", f"a {name}")
        return column

    def wrong(self, mask: pl.Series, column: pl.Series, code: str, expected: str) -> None:
        rows = mask.fill_null(False).arg_true().to_list()
        for row in rows[:20]:
            found = "nothing" if column[row] is None else repr(column[row])
            self.problems.append(self.table.problem(row, code, found, expected, key=column.name))
        if len(rows) > 20:
            more = f"{len(rows) - 20} more rows"
            self.problems.append(self.table.problem(None, code, more, expected, key=column.name))

    def words(self, column: pl.Series, words: Mapping[str, str], kind: pl.DataType) -> pl.Series:
        """A column of words of a short list, however they are spelt."""
        spelt = {text: words.get(re.sub(r"[^a-z]", "", text.casefold())) for text in column.drop_nulls().unique()}
        out = column.replace_strict(spelt, return_dtype=pl.String) if spelt else column
        self.wrong(
            out.is_null() & column.is_not_null(), column, "bad_value", " or ".join(dict.fromkeys(words.values()))
        )
        return out.cast(kind)

    def number(self, name: str, *others: str, whole: bool) -> pl.Series | None:
        """A column of numbers; empty and NaN are null."""
        text = self.text(name, *others, must=False)
        if text is None:
            return None
        empty = text.is_null() | text.str.to_lowercase().is_in(["nan", "na", "none", "null"]).fill_null(False)
        value = text.cast(pl.Float64, strict=False)
        bad = ~empty & (value.is_null() | ~value.is_finite())
        if whole:
            bad |= ~empty & ((value != value.floor()) | (value < 1) | (value > 2**31 - 1)).fill_null(False)
        self.wrong(bad, text, "bad_rank" if whole else "not_a_number", "a whole number from 1" if whole else "a number")
        value = pl.select(pl.when(empty | bad).then(None).otherwise(value)).to_series()
        return value.cast(pl.Int32 if whole else pl.Float64).alias(name)

    def once(self, frame: pl.DataFrame, key: list[str], code: str) -> None:
        twice = ~frame.select(pl.struct(key).is_first_distinct()).to_series()
        for row in twice.arg_true().to_list()[:20]:
            found = " ".join(f"{name} {value}" for name, value in zip(key, frame.select(key).row(row), strict=True))
            self.problems.append(self.table.problem(row, code, found, "every one once", key="+".join(key)))

    def finish(self) -> None:
        if self.problems:
            raise DataError(at_most(sorted(self.problems, key=lambda p: p.line or 0)))


def read_queries(path: Path) -> pl.DataFrame:
    """Queries of a study: whose bird is asked for, and who may be answered.

    Args:
        path: CSV, TSV, JSON lines or parquet with query_id, individual_id, split (closed, disjoint, open) and where known
            clip_id, video_id, is_known, role (query, validation), candidates_territory, candidates_neighbours (lists
            joined by ``|``, or as Python writes them). An empty list is one in a text file; in parquet a null says that there is none.

    Returns:
        Table ``reid_queries`` in the order of the file and ``role``; ``is_known`` is null where the file does not say.
        ``clip_id`` and ``video_id`` are those of the file, else the query itself. Columns of candidates that the file
        lacks are missing.

    Raises:
        DataError: with every problem of the file and its line: a column missing, an empty or unknown word, a query twice in
            one protocol. (A bird twice in one list is kept once.)
    """
    reader = _Reader(read_table(path))
    frame = reader.table.frame
    query, bird, split = reader.text("query_id"), reader.text("individual_id"), reader.text("split", "protocol")
    columns = [c for c in (query, bird) if c is not None]
    if split is not None:
        columns.append(reader.words(split, _SPLITS, pl.Enum(REID_SPLITS)).alias("split"))
    for name in ("clip_id", "video_id"):
        column = reader.text(name, must=reader.has(name) is not None)
        if column is None and query is not None:
            column = query.alias(name)
        columns += [] if column is None else [column]
    role = reader.text("role", must=False)
    if role is None:
        role = pl.Series("role", ["query"] * frame.height, dtype=pl.String)
    words = {word: word for word in QUERY_ROLES} | {"test": "query"}
    columns.append(reader.words(role.fill_null("query"), words, pl.String).alias("role"))  # type: ignore[arg-type]
    known = reader.text("is_known", must=False)
    if known is None:
        columns.append(pl.Series("is_known", [None] * frame.height, dtype=pl.Boolean))
    else:
        values = {text: truth_value(text) for text in known.drop_nulls().unique()}
        said = known.replace_strict(values, return_dtype=pl.Boolean) if values else known.cast(pl.Boolean)
        reader.wrong(said.is_null() & known.is_not_null(), known, "not_binary", "true or false")
        columns.append(said.alias("is_known"))
    columns += [_candidates(reader, name) for name in _LISTS if reader.has(name) is not None]
    if reader.problems:
        reader.finish()
    out = pl.DataFrame(columns)
    reader.once(out, ["split", "query_id"], "duplicate_query")
    reader.finish()
    order = [name for name in schemas.TABLES["reid_queries"].dtypes if name in out.columns]
    return out.select(*order, "role")


def _candidates(reader: _Reader, name: str) -> pl.Series:
    found = reader.heads[name]
    raw = reader.table.frame[found]
    if isinstance(raw.dtype, pl.List | pl.Array):
        lists = raw.cast(pl.List(pl.String)).list.eval(pl.element().str.strip_chars().drop_nulls())
        return lists.list.unique(maintain_order=True).alias(name)
    text = as_text(raw, reader.table.shown)
    parts = {t: _names(t) for t in text.drop_nulls().unique()}
    reader.wrong(text.is_in([t for t, names in parts.items() if names is None]), text.alias(name), "bad_list", EXPECTED)
    is_text = reader.table.kind in ("csv", "jsonl")
    nothing: list[str] | None = [] if is_text else None
    return pl.Series(name, [nothing if t is None else parts[t] for t in text], dtype=pl.List(pl.String))


def _names(text: str) -> list[str] | None:
    """Birds of a list as Python writes it (as CHIRP's files do), or joined by ``|`` or ``;``; each once."""
    names = names_of(text) if text.startswith(("[", "(", "{")) else split_list(text)
    return None if names is None else list(dict.fromkeys(names))


def read_ranking(path: Path, *, model: str | None = None) -> pl.DataFrame:
    """Rankings of birds by one or more methods.

    Args:
        path: CSV, TSV, JSON lines or parquet with query_id, gallery (territory, neighbours, all), individual_id, rank or
            similarity or both, and where there are several of them model and split.
        model: name of the method where the file has no column ``model`` (default: the name of the file).

    Returns:
        Table ``reid_ranking`` in the order of the file, with ``rank`` null where the file has none, ``split`` null where it
        has no such column, and ``row``, the 0-based row of the file.

    Raises:
        DataError: with every problem of the file and its line: a column missing, an empty or unknown word, a rank that is no
            whole number from 1, a similarity that is no number, a bird twice for one query, a row with neither rank nor
            similarity.
    """
    reader = _Reader(read_table(path))
    n = reader.table.frame.height
    columns = [c for c in (reader.text("query_id"), reader.text("individual_id")) if c is not None]
    gallery = reader.text("gallery")
    if gallery is not None:
        columns.append(reader.words(gallery, _GALLERIES, pl.Enum(GALLERIES)).alias("gallery"))
    method = reader.text("model", "method", must=reader.has("model", "method") is not None)
    named = pl.Series("model", [model or path.stem] * n, dtype=pl.String)
    columns.append(named if method is None else method.alias("model"))
    split = reader.text("split", "protocol", must=reader.has("split", "protocol") is not None)
    kind = pl.Enum(REID_SPLITS)
    nothing = pl.Series("split", [None] * n, dtype=kind)
    columns.append(nothing if split is None else reader.words(split, _SPLITS, kind).alias("split"))
    rank, similarity = reader.number("rank", whole=True), reader.number("similarity", "score", whole=False)
    if rank is None and similarity is None:
        has = "the columns " + ", ".join(reader.table.frame.columns)[:150]
        reader.problems.append(
            reader.table.problem(None, "missing_column", has, "a column rank or similarity", key="rank")
        )
    reader.finish()
    for name, column, dtype in (("rank", rank, pl.Int32), ("similarity", similarity, pl.Float64)):
        columns.append(pl.Series(name, [None] * n, dtype=dtype) if column is None else column)
    out = pl.DataFrame(columns)
    key = ["model", "split", "query_id", "gallery", "individual_id"]
    reader.once(out, key, "duplicate_bird")
    neither = out["rank"].is_null() & out["similarity"].is_null()
    reader.wrong(neither, out["individual_id"], "no_rank", "a rank or a similarity of the bird")
    _half_ranked(reader, out, key[:-1])
    reader.finish()
    order = list(schemas.TABLES["reid_ranking"].dtypes)
    return out.select(order).with_row_index("row")


def _half_ranked(reader: _Reader, out: pl.DataFrame, key: list[str]) -> None:
    """Ranks of some birds of a query only, and no similarities to rank all of them by."""
    over = pl.struct(key)
    some = out.select(
        pl.col("rank").is_null().any().over(over)
        & pl.col("rank").is_not_null().any().over(over)
        & pl.col("similarity").is_null().any().over(over)
        & pl.col("rank").is_null()
    ).to_series()
    expected = "a rank, or similarities of all birds of the query to rank them by"
    reader.wrong(some, out["rank"].cast(pl.String).alias("rank"), "no_rank", expected)


def check_queries_known(queries: pl.DataFrame, ranking: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Rankings with the protocol of their query; each one's query is known.

    Args:
        queries: of :func:`read_queries`.
        ranking: of :func:`read_ranking`.
        path: file of the ranking.

    Raises:
        DataError: rows of a query that is not asked in their protocol, or (without a column split) in several.
    """
    if not ranking.height:
        return ranking
    table: TableFile | None = None
    problems: list[Problem] = []
    if ranking["split"].null_count():
        asked = queries.group_by("query_id").agg(pl.col("split").first(), n=pl.len())
        joined = ranking.drop("split").join(asked, on="query_id", how="left", maintain_order="left")
        checks = (
            (joined["n"].is_null(), "unknown_query", "a query_id of the queries"),
            ((joined["n"] > 1).fill_null(False), "which_split", "a column split: the query is asked in several"),
        )
        out = joined.drop("n")
    else:
        asked = queries.select("query_id", "split").with_columns(known=pl.lit(True))
        joined = ranking.join(asked, on=["query_id", "split"], how="left", maintain_order="left")
        checks = ((joined["known"].is_null(), "unknown_query", "a query_id of the queries, in its protocol"),)
        out = joined.drop("known")
    for mask, code, expected in checks:
        bad = joined.filter(mask).unique("query_id", keep="first", maintain_order=True)
        for row, name in bad.select("row", "query_id").head(20).iter_rows():
            table = table or read_table(path)
            problems.append(table.problem(row, code, repr(name), expected, key="query_id"))
    if problems:
        raise DataError(at_most(problems))
    return out.select(ranking.columns)
