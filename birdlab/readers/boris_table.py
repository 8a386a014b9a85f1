"""BORIS's exports as rows of text: where the header is, what stands before it, and how numbers and times are written."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import decode
from birdlab.readers.files import at_most

Layout = Literal["tabular", "aggregated", "binary"]
DELIMITERS = "\t,;|"
#: Names that versions have given to one column, in lower case, "behaviour" written "behavior".
NAMES = {
    "observation": ("observation id",),
    "observer": ("observer", "coder", "rater"),
    "media": ("media file name", "media file", "media file path", "source"),
    "length": ("media duration (s)", "media duration", "total length", "total length (s)"),
    "fps": ("fps", "fps (frame/s)"),
    "subject": ("subject",),
    "behaviour": ("behavior",),
    "type": ("behavior type", "status", "behavioral type"),
    "modifiers": ("modifiers", "modifier"),
    "time": ("time", "time (s)"),
    "start": ("start (s)", "start"),
    "stop": ("stop (s)", "stop"),
    "offset": ("time offset (s)", "time offset"),
}
NEEDED = {
    "tabular": ("subject", "behaviour", "type", "time"),
    "aggregated": ("observation", "subject", "behaviour", "type", "start", "stop"),
}
#: What BORIS writes where nothing is known.
NOTHING = ("", "na", "n/a", "none", "nan")
_DECIMAL = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?$")
_CLOCK = re.compile(r"^(\d+):([0-5]?\d):([0-5]?\d(?:[.,]\d+)?)$")
#: Rows looked at for the header: the block before it lists media files and independent variables.
_LOOKED_AT = 500


@dataclass(frozen=True)
class BorisTable:
    """One export: its layout, the place of each column, rows with their lines, what the block before the header says."""

    file: str
    layout: Layout
    header: list[str]
    places: dict[str, int]
    rows: list[tuple[int, list[str]]]
    before: Mapping[str, list[str]] = field(default_factory=dict)

    def cell(self, row: Sequence[str], name: str) -> str:
        """A cell by the name of its column; empty where the file has no such column."""
        return row[self.places[name]].strip() if name in self.places else ""


def read_table(path: Path) -> BorisTable:
    """Read a CSV or TSV that BORIS exported, whatever its version.

    Args:
        path: the file: comma, semicolon, tab or bar; UTF-8, UTF-16 or Latin-1, with a byte order mark or none.

    Raises:
        DataError: no such file; no header of one of the three layouts (found and expected columns are listed); a column
            there twice; a row longer than the header.
    """
    source = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or str(error)
        raise DataError(Problem("unreadable", why, "an export of BORIS", "check the path", file=source)) from error
    text, _ = decode(raw, source)
    if not text.strip():
        raise DataError(Problem("empty_file", "nothing", "a header and rows", file=source))
    for delimiter in DELIMITERS:
        lines, broken = _split(text, delimiter)
        for i, (_, row) in enumerate(lines[:_LOOKED_AT]):
            if layout := _layout(row):
                if broken:
                    at, why = broken
                    remedy = "close the quote, or export again"
                    raise DataError(Problem("bad_csv", why, "a table of text", remedy, file=source, line=at))
                return _table(source, layout, lines, i)
    raise _no_header(source, text)


def _split(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], tuple[int, str] | None]:
    """Rows that hold anything, with their lines, as far as they can be read; and where and why they cannot."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((reader.line_num, row))
    except csv.Error as error:
        return rows, (reader.line_num, str(error))
    return rows, None


def plain(head: str) -> str:
    """Name of a column as it is compared: lower case, American, no blanks at its ends."""
    return " ".join(head.split()).casefold().replace("behaviour", "behavior")


def _layout(row: Sequence[str]) -> Layout | None:
    heads = [plain(cell) for cell in row]
    has = {name for name, known in NAMES.items() if any(head in known for head in heads)}
    if has.issuperset(NEEDED["aggregated"]):
        return "aggregated"
    if has.issuperset(NEEDED["tabular"]):
        return "tabular"
    # A table of presence begins with the time, and says nothing of behaviours but their names.
    if heads[0] in NAMES["time"] and len(heads) > 1 and not has & {"behaviour", "type", "subject"}:
        return "binary"
    return None


def _table(source: str, layout: Layout, lines: list[tuple[int, list[str]]], at: int) -> BorisTable:
    line, header = lines[at]
    while header and not header[-1].strip():
        header = header[:-1]
    heads = [plain(cell) for cell in header]
    places = {}
    for name, known in NAMES.items():
        # The first name of a list that a file has wins: a file may hold a file's name and its source.
        if found := [heads.index(head) for head in known if head in heads]:
            places[name] = found[0]
    # Independent variables may be called as they like; only the columns that are read must be there once.
    twice = [heads[i] for i in places.values() if heads.count(heads[i]) > 1]
    problems = [
        Problem("column_twice", f"column {head} twice", "each column once", file=source, line=line) for head in twice
    ]
    rows = []
    for n, row in lines[at + 1 :]:
        if any(cell.strip() for cell in row[len(header) :]):
            found, expected = f"{len(row)} cells", f"{len(header)}, as the header has"
            problems.append(Problem("ragged_row", found, expected, "quote cells that hold the delimiter", source, n))
        rows.append((n, (row + [""] * len(header))[: len(header)]))
    if problems:
        raise DataError(at_most(problems))
    before = {plain(row[0]): [cell.strip() for cell in row[1:] if cell.strip()] for _, row in lines[:at]}
    return BorisTable(source, layout, list(header), places, rows, before)


def _no_header(source: str, text: str) -> DataError:
    heads = text.lstrip().splitlines()[0]
    delimiter = max(DELIMITERS, key=heads.count)
    found = ", ".join(cell.strip().strip('"') for cell in heads.split(delimiter) if cell.strip())[:240]
    expected = (
        "columns Subject, Behavior, Behavior type (or Status), Time of tabular events; or Observation id, Subject, "
        "Behavior, Behavior type, Start (s), Stop (s) of aggregated events; or time and behaviours of a binary table"
    )
    remedy = "export the events again from BORIS as CSV or TSV"
    if "total number of occur" in text[:4000].casefold() or "time budget" in text[:4000].casefold():
        remedy = "a time budget holds sums and no times: export tabular or aggregated events instead"
    elif text.lstrip()[:1] in "{<":
        remedy = "a project file is no table: export its events from BORIS as CSV or TSV"
    return DataError(Problem("no_boris_header", found or "nothing", expected, remedy, file=source))


def seconds(cell: str) -> float | None:
    """A time or a length in seconds: 1.16, 1,16 or 00:00:01.160; ``None`` where it is none.

    >>> seconds("1,16"), seconds("00:01:01.5"), seconds("NA")
    (1.16, 61.5, None)
    """
    cell = cell.strip()
    if found := _CLOCK.match(cell):
        hours, minutes, rest = found.groups()
        return 3600.0 * int(hours) + 60.0 * int(minutes) + float(rest.replace(",", "."))
    if not _DECIMAL.match(cell):
        return None
    number = float(cell.replace(",", "."))
    return number if math.isfinite(number) else None
