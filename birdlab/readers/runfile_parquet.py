"""Runs as parquet: media_id, start_s or time, class_id, probability; the same rules, rows for lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.runfile import LISTED, Found, too_many
from birdlab.readers.runfile_blocks import shown
from birdlab.readers.runfile_errors import FIELDS, Lookup, problem_of, time_code
from birdlab.readers.runfile_rows import DAY, RunRows, coded_of
from birdlab.soundscapes.coded import SEGMENT_S, Coded, Truth

#: Rows taken at once.
ROWS = 1 << 16
#: Columns and the names under which they may come, in any case.
NAMES = {
    "media_id": ("media_id", "mediaid"),
    "time": ("start_s", "time", "tc1-tc2", "timecode", "time_code"),
    "class_id": ("class_id", "classid"),
    "probability": ("probability", "score"),
}


def read_parquet_run(path: Path, truth: Truth, *, name: str, max_classes: int | None = None) -> Coded:
    """A run from a parquet file; see :func:`birdlab.readers.runfile.read_run`. Rows count from 1.

    Raises:
        DataError: a broken file, a column missing or of a type that cannot be what it should, and every bad row.
    """
    try:
        scan = pl.scan_parquet(path)
        schema = scan.collect_schema()
        columns = _columns(schema, str(path))
        n_rows = int(scan.select(pl.len()).collect().item())
    except pl.exceptions.PolarsError as error:
        raise _damaged(path, error) from error
    lookup, found = Lookup(truth), Found()
    rows = RunRows(truth, n_rows, max_classes)
    plain = [pl.col(c).alias(f) for f, c in columns.items()]
    at = 1
    try:
        for batch in _batches(path, scan, schema, columns, lookup):
            _take(batch, at, rows, found)
            at += batch.height
        sorted_rows, again, many = rows.finish()
        where = {"file": str(path)}
        found.add(again, lambda row: Problem("duplicate", f"row {row}", "each class once per segment", **where, record=f"row {row}"))  # fmt: skip
        found.add(many, lambda row: too_many(max_classes, **where, record=f"row {row}"))
        if found.n:
            _describe(found, scan.select(plain), lookup, str(path))
    except pl.exceptions.PolarsError as error:
        raise _damaged(path, error) from error
    found.refuse(str(path))
    return coded_of(rows, sorted_rows, name, ())


def _batches(
    path: Path, scan: pl.LazyFrame, schema: pl.Schema, columns: dict[str, str], lookup: Lookup
) -> Iterator[pl.DataFrame]:
    """Blocks of rows as numbers, see :func:`_coded`.

    Names repeat, and parquet keeps each once per group of rows: where both columns of names are text, only these few are
    looked up (by pyarrow, which hands them out), and the rows of text are never made.
    """
    texts = [c for f, c in columns.items() if f in ("media_id", "class_id") and schema[c] == pl.String]
    if len(texts) < 2:
        # A column of a dictionary is looked up as text, too: its categories may be any.
        coded = scan.select(*(_coded(f, pl.col(c), schema[c], lookup) for f, c in columns.items()))
        yield from coded.collect_batches(chunk_size=ROWS, maintain_order=True)
        return
    kept: dict[str, tuple[Any, pl.Series]] = {}
    for block in _blocks(path, texts, list(columns.values())):
        parts = {}
        for field, name in columns.items():
            column = block.column(name)
            if name not in texts:
                parts[field] = _number(field, pl.Series(field, pl.from_arrow(column)), lookup)
                continue
            if field not in kept or not column.dictionary.equals(kept[field][0]):
                words = pl.Series(field, pl.from_arrow(column.dictionary), dtype=pl.String)
                codes = words.to_frame().select(_coded(field, pl.col(field), pl.String, lookup)).to_series()
                kept[field] = column.dictionary, codes
            parts[field] = _looked_up(field, kept[field][1], pl.Series(pl.from_arrow(column.indices)))
        yield pl.DataFrame(parts)


def _blocks(path: Path, texts: list[str], columns: list[str]) -> Iterator[Any]:
    """Record batches of pyarrow, the columns of text as dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as file:
            yield from file.iter_batches(ROWS, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _number(field: str, part: pl.Series, lookup: Lookup) -> pl.Series:
    """A column of numbers, or of time codes, as :func:`_coded` has it; whole seconds on the grid by the short way."""
    if field == "probability":
        return part.cast(pl.Float64)
    if part.dtype == pl.Int32 and len(part) and not part.null_count():
        k = part.to_numpy()
        if k.min() >= 0 and k.max() <= SEGMENT_S * (DAY - 2):
            whole = k // SEGMENT_S
            if np.array_equal(whole * SEGMENT_S, k):
                return pl.Series(field, whole)
    return part.to_frame().select(_coded(field, pl.col(field), part.dtype, lookup)).to_series()


def _looked_up(field: str, codes: pl.Series, rows: pl.Series) -> pl.Series:
    """Code of each row from those of the distinct names; null where there is none."""
    if codes.null_count() or rows.null_count() or not len(codes):
        return codes.gather(rows).alias(field)
    return pl.Series(field, codes.to_numpy()[rows.to_numpy()])


def _damaged(path: Path, error: Exception) -> DataError:
    why = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    return DataError(Problem("damaged", why, "a parquet file", "write or copy it again", str(path)))


def _columns(schema: pl.Schema, file: str) -> dict[str, str]:
    """Column of each field; raises where one is missing, there twice or of a type that cannot be."""
    folded = {c.strip().casefold(): c for c in schema}
    out, problems = {}, []
    for field, names in NAMES.items():
        held = next((folded[n] for n in names if n in folded), None)
        if held is None:
            told = ", ".join(schema) or "no column"
            problems.append(Problem("no_column", told, f"a column {' or '.join(names[:2])}", file=file, key=field))
            continue
        dtype, is_number = schema[held], schema[held].is_numeric()
        is_text = dtype in (pl.String, pl.Categorical, pl.Enum)
        fits = {"time": is_text or is_number, "probability": is_number}.get(field, is_text)
        if not fits:
            expected = {"time": "seconds or time codes", "probability": "numbers"}.get(field, "text")
            problems.append(Problem("bad_type", f"{dtype}", expected, file=file, key=held))
        out[field] = held
    if problems:
        raise DataError(problems)
    return out


def _coded(field: str, column: pl.Expr, dtype: pl.DataType, lookup: Lookup) -> pl.Expr:
    """Number of recording, segment or class, null where there is none; of the probability itself."""
    if field == "probability":
        return column.cast(pl.Float64).alias(field)
    if field == "time" and dtype.is_numeric():
        k = column if dtype.is_integer() else column.cast(pl.Int32, strict=False)
        is_whole = pl.lit(True) if dtype.is_integer() else column == k
        fits = is_whole & (k % SEGMENT_S == 0) & k.is_between(0, SEGMENT_S * (DAY - 2))
        return pl.when(fits).then(k // SEGMENT_S).cast(pl.Int32).alias(field)
    if dtype != pl.String:
        column = column.cast(pl.String)
    return column.cast(lookup.schema[field], strict=False).to_physical().alias(field)


def _take(batch: pl.DataFrame, first: int, rows: RunRows, found: Found) -> None:
    line: np.ndarray | int = first
    score = batch["probability"].to_numpy()
    if any(batch.null_count().row(0)) or not (score.min() >= 0 and score.max() <= 1):
        is_good = pl.all_horizontal(pl.col(f).is_not_null() for f in FIELDS) & pl.col("probability").is_between(0, 1)
        numbered = batch.with_columns(pl.Series("row", np.arange(first, first + batch.height)))
        bad = numbered.filter(~is_good)["row"].to_numpy()
        found.add(bad, lambda row: Problem("row", "", "", record=f"row {row}"))
        batch = numbered.filter(is_good)
        line, score = batch["row"].to_numpy(), batch["probability"].to_numpy()
    media, k, cls = (batch[f].to_numpy() for f in FIELDS[:3])
    if batch.height:
        again = rows.add(media, k, cls, score, line)
        found.add(again, lambda row: Problem("duplicate", f"row {row}", "each class once per segment", record=f"row {row}"))  # fmt: skip


def _describe(found: Found, plain: pl.LazyFrame, lookup: Lookup, file: str) -> None:
    """What is wrong with each listed row, as if it were a line."""
    described = []
    for at, problem in sorted(found.problems, key=lambda pair: pair[0])[:LISTED]:
        row = plain.slice(at - 1, 1).collect().row(0)
        media, time, name, score = row
        if not isinstance(time, str) and time is not None:
            is_code = time % SEGMENT_S == 0 and 0 <= time <= SEGMENT_S * (DAY - 2)
            time = time_code(int(time) // SEGMENT_S) if is_code else f"{time} s"
        text = ";".join("" if v is None else str(v) for v in (media, time, name, score))
        if problem.code == "row":
            told = problem_of(text, lookup, file=file, line=0)
            problem = Problem(told.code, told.found, told.expected, told.remedy, file, None, f"row {at}", told.key)
        else:
            problem = Problem(problem.code, shown(text), problem.expected, problem.remedy, file, None, f"row {at}")
        described.append((at, problem))
    found.problems = described


__all__ = ["NAMES", "read_parquet_run"]
