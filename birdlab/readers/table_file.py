"""A table in a file of any common kind as one polars frame, and where each of its rows stands in that file.

CSV and TSV are read strictly: every record has as many fields as the header, the text is UTF-8, and all cells stay text
until somebody who knows what they mean converts them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most

Kind = Literal["csv", "jsonl", "parquet", "arrow", "npy"]
_SUFFIXES: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
}
#: First bytes of files that can be read, whatever their ending says.
_MAGIC: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\x93NUMPY": "npy"}
#: First bytes of files that are refused, and what to do instead.
_REFUSED = {
    b"PK\x03\x04": ("an npz, spreadsheet or other zip archive", "write a plain npy, parquet or CSV file"),
    b"\x80": ("a pickle", "pickles run code when they are read: write npy, parquet or CSV"),
    b"\x89HDF": ("an HDF5 file", "write a npy, parquet or CSV file"),
    b"\x1f\x8b": ("a gzip file", "unpack it first"),
    b"FEA1": ("a Feather file of version 1", "write it again as Feather version 2"),
    b"\xff\xfe": ("text in UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("text in UTF-16", "save it as UTF-8"),
}
_LONGEST_FIELD = 1 << 24


@dataclass(frozen=True)
class TableFile:
    """One table as it stands in a file: its frame (text cells for CSV; "" is null) and how to name its places."""

    path: Path
    shown: str
    kind: Kind
    frame: pl.DataFrame
    lines: tuple[int, ...] = ()  #: line of each row of the file where the reader knows it already (JSON lines)
    origin: tuple[int, ...] = ()  #: row of the file that each row of the frame is, where rows were left out

    def problem(self, row: int | None, code: str, found: object, expected: str, **more: str) -> Problem:
        """A :class:`Problem` at a row (from 0) of this table: by line in a text file, by row number elsewhere."""
        text = (found if isinstance(found, str) else repr(found))[:200]
        where: dict[str, int | str] = {}
        row = self.origin[row] if self.origin and row is not None else row
        if row is not None and self.kind in ("csv", "jsonl"):
            where["line"] = self.lines[row] if self.lines else self._csv_lines[row]
        elif row is not None:
            where["record"] = f"row {row + 1}"
        return Problem(
            code, text or "nothing", expected, more.get("remedy", ""), self.shown, key=more.get("key"), **where
        )  # type: ignore[arg-type]

    def kept(self, mask: pl.Series) -> TableFile:
        """The rows where ``mask`` is true; their problems still name their place in the file."""
        rows = mask.arg_true().to_list()
        return replace(
            self,
            frame=self.frame.filter(mask),
            origin=tuple(self.origin[i] for i in rows) if self.origin else tuple(rows),
        )

    @cached_property
    def _csv_lines(self) -> list[int]:
        return csv_lines(self.path)


def sniff(path: Path, shown: str = "") -> Kind:
    """What kind of table a file is, by its first bytes, then by its ending.

    Raises:
        DataError: it cannot be opened, is empty, or is of a kind that is refused (npz, pickle, UTF-16, …).
    """
    where = shown or str(path)
    try:
        if path.is_fifo():  # it would be waited for without end, and can be read only once
            raise DataError(Problem("unreadable", "a pipe", "a file", "write it to a file first", where))
        with path.open("rb") as file:
            start = file.read(4096)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(Problem("unreadable", reason, "a file that can be read", file=where)) from error
    if not start.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(Problem("empty_file", "an empty file", "a table with a header", file=where))
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    for magic, (what, remedy) in _REFUSED.items():
        if start.startswith(magic):
            raise DataError(Problem("refused_format", what, "npy, parquet, feather, CSV or JSON lines", remedy, where))
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind in ("parquet", "arrow", "npy"):
        found, expected = "other content", f"a {path.suffix.lower()[1:]} file, as its name says"
        raise DataError(Problem("not_as_named", found, expected, "write the file again: it may be cut short", where))
    if b"\0" in start:
        raise DataError(Problem("not_text", "NUL bytes", "text in UTF-8", "save it as UTF-8", where))
    if kind is None:
        found, known = repr(path.suffix or path.name), "a name that ends in " + ", ".join(_SUFFIXES)
        raise DataError(Problem("unknown_format", found, known, "name the file after what it is", where))
    return kind


def read_table(path: Path, shown: str = "") -> TableFile:
    """Read a CSV, TSV, JSON-lines, parquet or Arrow (feather) table whole.

    Args:
        path: the file; its columns keep their names (stripped of blanks at both ends).
        shown: how problems name the file; its path where empty.

    Raises:
        DataError: the file is missing, empty, refused, cut short, not UTF-8, ragged or has a column twice.
    """
    where = shown or str(path)
    kind = sniff(path, where)
    if kind == "npy":
        raise DataError(Problem("refused_format", "a npy array", "a table with named columns", file=where))
    if kind == "jsonl":
        frame, lines = _json_lines(path, where)
        return TableFile(path, where, kind, frame, lines)
    frame = _text(path, where) if kind == "csv" else _columnar(path, where, kind)
    if frame.height == 0:
        raise DataError(Problem("empty_file", "a header and no rows", "at least one row", file=where))
    return TableFile(path, where, kind, frame)


def _columnar(path: Path, where: str, kind: Kind) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if kind == "parquet":
            table = pq.read_table(path, partitioning=None)
        else:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
        check_header([str(name) for name in table.column_names], where, None)
        return pl.from_arrow(table.rename_columns([str(name).strip() for name in table.column_names]))  # type: ignore[return-value]
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        raise damaged(path, where, error) from error


def damaged(path: Path, where: str, error: Exception) -> DataError:
    """The error for a binary file that its own library cannot read."""
    said = str(error).replace(str(path), path.name).splitlines()
    found = said[0][:200] if said else type(error).__name__
    expected = f"a whole {path.suffix.lower().lstrip('.') or 'table'} file"
    return DataError(Problem("damaged_file", found, expected, "write the file again", where))


def check_header(header: list[str], where: str, line: int | None) -> None:
    """Every column has a name and each name stands once.

    Raises:
        DataError: with one problem per column that has no name or stands twice.
    """
    names = [name.strip() for name in header]
    problems = [
        Problem(
            "no_column_name",
            f"column {i + 1} without a name",
            "a name per column",
            "write it without an index",
            where,
            line,
        )
        for i, name in enumerate(names)
        if not name
    ]
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            problems.append(
                Problem("duplicate_column", name[:80], "every column once", file=where, line=line, key=name[:80])
            )
        seen.add(name)
    if problems:
        raise DataError(at_most(problems))


@dataclass(frozen=True)
class CsvShape:
    """How a CSV file is written: its header, the delimiter, and how many physical lines the header ends at."""

    header: tuple[str, ...]
    delimiter: str
    n_header_lines: int


def csv_shape(path: Path, where: str) -> CsvShape:
    """Header and delimiter (comma, semicolon or tab: the one that cuts the header into most fields)."""
    best: CsvShape | None = None
    for delimiter in "\t,;" if path.suffix.lower() == ".tsv" else ",;\t":
        for _, end, fields in _records(path, where, delimiter):
            if best is None or len(fields) > len(best.header):
                best = CsvShape(tuple(name.strip() for name in fields), delimiter, end)
            break
    if best is None:
        raise DataError(Problem("empty_file", "an empty file", "a table with a header", file=where))
    check_header(list(best.header), where, best.n_header_lines)
    return best


def csv_lines(path: Path) -> list[int]:
    """Line (from 1) at which each record below the header begins, in order."""
    shape = csv_shape(path, str(path))
    return [start for start, _, _ in _records(path, str(path), shape.delimiter)][1:]


def _records(path: Path, where: str, delimiter: str) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and fields of each record that is not blank."""
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        before = 0
        try:
            for fields in reader:
                if fields:
                    yield before + 1, reader.line_num, fields
                before = reader.line_num
        except UnicodeDecodeError as error:
            raise DataError(_not_utf8(path, where)) from error
        except csv.Error as error:
            problem = Problem("not_csv", str(error), "comma-separated values", file=where, line=reader.line_num)
            raise DataError(problem) from error


def _not_utf8(path: Path, where: str) -> Problem:
    """Where the first byte stands that is not UTF-8; the file is read line by line."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                found = f"byte 0x{raw[error.start]:02x}"
                return Problem("not_utf8", found, "text in UTF-8", "save the file as UTF-8", where, number)
    return Problem("not_utf8", "a byte that is not UTF-8", "text in UTF-8", "save the file as UTF-8", where)


def csv_problems(path: Path, where: str, shape: CsvShape, numbers: frozenset[int] = frozenset()) -> list[Problem]:
    """Every record with too few or too many fields, and every cell of the columns ``numbers`` that is no number."""
    problems = []
    width = len(shape.header)
    for i, (start, _, fields) in enumerate(_records(path, where, shape.delimiter)):
        if i == 0:
            continue
        if len(fields) != width:
            found, expected = f"{len(fields)} fields", f"{width}, as in the header"
            problems.append(Problem("wrong_fields", found, expected, file=where, line=start))
            continue
        for place in numbers:
            text = fields[place].strip()
            if text and not _is_number(text):
                remedy = "write a decimal point" if "," in text else ""
                key = shape.header[place][:80]
                problems.append(Problem("not_a_number", repr(text[:60]), "a number", remedy, where, start, key=key))
    return problems


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(path: Path, where: str) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    shape = csv_shape(path, where)
    names = [str(i) for i in range(len(shape.header))]
    n_wrong = 0

    def skip(row: object) -> str:
        nonlocal n_wrong
        n_wrong += 1
        return "skip"

    # One thread: the order of rows is the order of the file, and the problem that is told is always the first.
    read = pacsv.ReadOptions(use_threads=False, column_names=names, skip_rows=shape.n_header_lines)
    parse = pacsv.ParseOptions(delimiter=shape.delimiter, newlines_in_values=True, invalid_row_handler=skip)
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    said = ""
    try:
        table = pacsv.read_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowException as error:
        said, n_wrong = str(error).splitlines()[0][:200], n_wrong + 1
    if n_wrong:
        problems = csv_problems(path, where, shape)
        if not problems and not csv_lines(path):
            problems = [Problem("empty_file", "a header and no rows", "at least one row", file=where)]
        raise DataError(at_most(problems) or Problem("not_csv", said, "comma-separated values", file=where))
    frame: pl.DataFrame = pl.from_arrow(table.rename_columns(list(shape.header)))  # type: ignore[assignment]
    stripped = pl.all().str.strip_chars()
    return frame.select(pl.when(stripped != "").then(stripped).name.keep())


def _json_lines(path: Path, where: str) -> tuple[pl.DataFrame, tuple[int, ...]]:
    """One JSON object per line; a key that a line lacks is null there."""
    rows: list[dict[str, str | None]] = []
    lines: list[int] = []
    problems: list[Problem] = []
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    value = json.loads(text)
                    if "\\ud" in text.casefold():
                        json.dumps(value, ensure_ascii=False).encode()  # half a character is no text
                except (ValueError, RecursionError) as error:
                    problems.append(Problem("not_json", str(error)[:100], "one JSON object", file=where, line=number))
                    continue
                if not isinstance(value, dict):
                    problems.append(
                        Problem("not_an_object", type(value).__name__, "one JSON object", file=where, line=number)
                    )
                    continue
                rows.append({str(key).strip(): _json_text(cell) for key, cell in value.items()})
                lines.append(number)
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(path, where)) from error
    if problems:
        raise DataError(at_most(problems))
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not rows:
        raise DataError(Problem("empty_file", "no objects", "one JSON object per line", file=where))
    check_header(names, where, None)
    return pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in names}, schema=dict.fromkeys(names, pl.String)
    ), tuple(lines)


def _json_text(cell: object) -> str | None:
    """A JSON value as a CSV file would write it: true, 0.5, lists joined by ``|``."""
    if cell is None or isinstance(cell, str):
        return (cell or "").strip() or None
    if isinstance(cell, list):
        return "|".join(_json_text(one) or "" for one in cell) or None
    return json.dumps(cell)


def as_text(series: pl.Series, shown: str = "") -> pl.Series:
    """A column of any kind as text: whole floats without ``.0`` (ids that pandas widened), lists joined by ``|``.

    Raises:
        DataError: the column holds something that has no text (binary data, structures).

    >>> as_text(pl.Series("id", [7.0, None])).to_list(), as_text(pl.Series("r", [["angle", "quality"]])).to_list()
    (['7', None], ['angle|quality'])
    """
    kind = series.dtype
    if kind.is_float():
        series = series.fill_nan(None)
        whole = bool((series.drop_nulls() == series.drop_nulls().round(0)).all()) and (series.abs().max() or 0) < 2**53
        text = series.cast(pl.Int64 if whole else pl.Float64).cast(pl.String)
    elif isinstance(kind, pl.List) and kind.inner in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        text = series.cast(pl.List(pl.String)).list.join("|", ignore_nulls=True)
    elif kind.is_nested() or kind in (pl.Binary, pl.Object):
        problem = Problem("bad_column", f"{kind} values", "text, numbers or lists of text", file=shown, key=series.name)
        raise DataError(problem)
    else:
        text = series.cast(pl.String)
    text = text.str.strip_chars()
    return text.set(text == "", None)
