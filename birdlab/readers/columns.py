"""The named columns of a large table of text, typed, fast; a cell that is not what it should be is named by its line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import DELIMITERS, read_rows

_KIND = {pl.Int64: "a whole number", pl.Float64: "a number", pl.String: "text"}


def read_columns(
    path: Path, wanted: Mapping[str, type[pl.DataType]], *, optional: Mapping[str, type[pl.DataType]] | None = None
) -> pl.DataFrame:
    """Columns of a CSV or TSV, in the order of the file, whatever else it holds.

    Args:
        path: the file: UTF-8, UTF-16 or Latin-1, with a byte order mark or none; comma, semicolon, tab or bar.
        wanted: column (in any case, blanks at its ends do not count) → Int64, Float64 or String.
        optional: columns that may be missing, and have empty cells (null; of text also an empty one).

    Returns:
        The columns found, named as in ``wanted``, and ``line`` (Int64, counts from 1). A header without rows gives no row.

    Raises:
        DataError: no such file, a column missing or there twice, a row longer than the header, an empty cell, a cell of another
            type; the first ten of each column with their lines. A number that is not finite is none.
    """
    head, body, before = _header(path)
    delimiter = max(DELIMITERS, key=head.count)
    heads = [cell.strip().strip('"').strip() for cell in head.split(delimiter)]
    types = {**wanted, **(optional or {})}
    places: dict[str, int] = {}
    problems = []
    for name in types:
        found = [i for i, head in enumerate(heads) if head.casefold() == name.casefold()]
        if len(found) == 1:
            places[name] = found[0]
        elif len(found) > 1:
            problems.append(
                Problem("column_twice", f"column {name} twice", "once", file=str(path), line=before + 1, key=name)
            )
        elif name in wanted:
            told = ", ".join(heads[:12]) or "nothing"
            problems.append(Problem("no_column", told, f"a column {name}", file=str(path), line=before + 1, key=name))
    if problems:
        raise DataError(problems)
    order = sorted(places, key=lambda name: places[name])
    raw = _rows_of(path, body, delimiter, len(heads))
    frame = raw.select(pl.nth(places[name]).alias(name) for name in order).select(list(places))
    frame = frame.with_columns(pl.int_range(2, pl.len() + 2, dtype=pl.Int64).alias("line") + before)
    frame = frame.filter(pl.any_horizontal(pl.col(list(places)).is_not_null()))
    return _typed(frame, {name: types[name] for name in places}, set(wanted), str(path))


def _rows_of(path: Path, body: bytes, delimiter: str, width: int) -> pl.DataFrame:
    """All cells as text; blank lines are rows of nulls."""
    # A header of our own: without one the first row, which may be blank, would say how many columns there are.
    head = delimiter.join(f"c{i}" for i in range(width)).encode()
    try:
        return pl.read_csv(head + b"\n" + body, separator=delimiter, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        # The slow reader knows the line of a row with more cells than the header, or of a quote never closed.
        read_rows(path, shown=str(path))
        found = str(error).splitlines()[0].removeprefix("found ")[:120]
        raise DataError(Problem("bad_csv", found, "a table of text", file=str(path))) from error


def _header(path: Path) -> tuple[str, bytes, int]:
    """The first line that holds anything, what follows it in UTF-8, and how many lines stand before it."""
    text = _bytes(path)
    if b"\r" in text and b"\n" not in text:
        text = text.replace(b"\r", b"\n")
    held = text.lstrip(b"\r\n")
    head, _, body = held.partition(b"\n")
    return head.decode().strip("\r"), body, text[: len(text) - len(held)].count(b"\n")


def _bytes(path: Path) -> bytes:
    """The file in UTF-8, without a byte order mark."""
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or str(error)
        raise DataError(Problem("unreadable", why, "a table of text", "check the path", file=source)) from error
    if not raw.strip():
        raise DataError(Problem("empty_file", "nothing", "a header and rows", file=source))
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return raw.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(Problem("bad_encoding", "broken UTF-16", "text", file=source)) from error
    if b"\0" in raw:
        line = raw[: raw.index(b"\0")].count(b"\n") + 1
        remedy = "save it as CSV"
        raise DataError(Problem("binary", "a NUL character", "a table of text", remedy, file=source, line=line))
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raw = raw.decode("latin-1").encode("utf-8")
    return raw.removeprefix(b"\xef\xbb\xbf")


def _typed(
    frame: pl.DataFrame, types: Mapping[str, type[pl.DataType]], wanted: Collection[str], source: str
) -> pl.DataFrame:
    """Columns as their types; an empty cell is a problem where the column is wanted."""
    problems: list[Problem] = []
    out = []
    for name, dtype in types.items():
        text = frame[name].str.strip_chars()
        if dtype == pl.String:
            column = text
        else:
            # Whole numbers are often saved as 12.0.
            number = text.cast(pl.Float64, strict=False)
            number = pl.select(pl.when(number.is_finite()).then(number)).to_series()
            if dtype == pl.Int64:
                number = pl.select(
                    pl.when((number == number.round()) & (number.abs() < 2**31)).then(number)
                ).to_series()
            column = number.cast(dtype)
        bad = column.is_null() if name in wanted else column.is_null() & (text.str.len_bytes() > 0).fill_null(False)
        for i in bad.arg_true()[:10].to_list():
            found = "nothing" if text[i] in (None, "") else repr(text[i])[:60]
            problems.append(Problem("bad_cell", found, _KIND[dtype], file=source, line=int(frame["line"][i]), key=name))
        out.append(column.alias(name))
    if problems:
        raise DataError(problems)
    return pl.DataFrame([*out, frame["line"]])
