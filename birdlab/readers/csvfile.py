"""Tables of text as people save them: any of four delimiters, four encodings, a byte order mark or none."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most

DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class CsvFile:
    """Header and rows (each with the line where it ends) of a table of text; every row is as long as the header.

    ``left_out`` counts rows that the reader was told not to keep.
    """

    file: str
    header: list[str]
    rows: list[tuple[int, list[str]]]
    encoding: str
    left_out: int = 0


def read_rows(path: Path, *, shown: str, only: tuple[str, str] | None = None) -> CsvFile:
    """A CSV or TSV as rows of text.

    Args:
        path: the file.
        shown: what to call it in a problem.
        only: column and value (in any case) of the rows to keep, where the file has the column: a list of all life holds
            a hundred rows for every bird.

    Raises:
        DataError: the file is missing, empty, binary or holds a NUL; rows longer or shorter than the header (each with
            its line); a quote that is never closed; two columns of one name.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        why = "no such file" if not path.exists() else "a folder" if path.is_dir() else type(error).__name__
        raise DataError(Problem("unreadable", why, "a CSV file", "check the path", file=shown)) from error
    text, encoding = decode(raw, shown)
    first = text.lstrip("\n\r").partition("\n")[0].rstrip("\r")
    if not first.strip():
        raise DataError(Problem("empty_file", "nothing", "a header and rows", file=shown))
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    problems: list[Problem] = []
    place, wanted, left_out = None, only[1].casefold() if only else "", 0
    for line, row in _lines(reader, shown):
        if not header:
            header = row
            problems += _twice(header, shown, line)
            names = [head.strip().casefold() for head in header]
            place = names.index(only[0]) if only and only[0] in names else None
        elif len(row) != len(header):
            found, expected = f"{len(row)} fields", f"{len(header)}, as the header has"
            problems.append(Problem("ragged_row", found, expected, "quote fields that hold the delimiter", shown, line))
        elif place is not None and row[place].strip().casefold() not in (wanted, ""):
            left_out += 1
        else:
            rows.append((line, row))
    if problems:
        raise DataError(at_most(problems))
    return CsvFile(shown, header, rows, encoding, left_out)


def _lines(reader, shown: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that hold anything, each with its line."""
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        remedy = "close the quote, or save the file again as CSV"
        raise DataError(Problem("bad_csv", str(error), "quoted CSV", remedy, shown, reader.line_num)) from error


def _twice(header: list[str], shown: str, line: int) -> list[Problem]:
    names = [head.strip().casefold() for head in header]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    return [
        Problem("column_twice", f"column {name} twice", "each column once", file=shown, line=line) for name in twice
    ]


def decode(raw: bytes, shown: str) -> tuple[str, str]:
    """Text and encoding of the bytes of a table; without a byte order mark UTF-8, else Latin-1.

    Raises:
        DataError: broken UTF-16, a NUL character.
    """
    encoding = "utf-8"
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif raw[:200].count(0) > len(raw[:200]) // 4:
        encoding = "utf-16-le" if raw[1:2] == b"\0" else "utf-16-be"
    try:
        text = raw.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise DataError(Problem("bad_encoding", f"broken {encoding}", "text", file=shown)) from error
        text, encoding = raw.decode("latin-1"), "latin-1"
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(
            Problem("binary", "a NUL character", "a table of text", "save it as CSV", file=shown, line=line)
        )
    return text.lstrip("\ufeff"), encoding
