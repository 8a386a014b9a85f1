"""Rows of a file of answers, one at a time: JSON lines and CSV. A broken line is a problem, never the end of reading."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from birdlab.errors import DataError, Problem
from birdlab.readers.item_fields import heading

#: Longest line that is read, in bytes. An answer of a model has some thousand.
MAX_LINE = 16 * 2**20
SHOWN = 20


class Row(NamedTuple):
    """A row: the line it starts on, and its fields by key."""

    line: int
    fields: dict[str, Any]


class Collector:
    """Problems of one file: the first 20, and the number of all."""

    def __init__(self, file: str) -> None:
        self.file, self.shown, self.total = file, [], 0  # type: tuple[str, list[Problem], int]

    def add(self, code: str, found: str, expected: str, remedy: str = "", **where: Any) -> None:
        """One more problem; ``where``: line, key."""
        self.total += 1
        if len(self.shown) < SHOWN:
            self.shown.append(Problem(code, found, expected, remedy, file=self.file, **where))

    def stop(self) -> None:
        """Raise what was found.

        Raises:
            DataError: there is a problem.
        """
        if not self.total:
            return
        more = self.total - len(self.shown)
        rest = [Problem("more", f"{more} more problems", "a file without them", file=self.file)] if more else []
        raise DataError([*self.shown, *rest])


def read_lines(path: Path, problems: Collector) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file with their numbers; never more than one of them is held.

    Lines that are too long, hold a NUL or are not UTF-8 are problems and left out. A byte order mark is passed over.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        problems.add("unreadable", error.strerror or "an error", "a file that can be read")
        return
    with stream:
        number = 0
        while raw := stream.readline(MAX_LINE + 1):
            number += 1
            if len(raw) > MAX_LINE:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE)
                problems.add(
                    "line_too_long", f"a line of more than {MAX_LINE >> 20} MB", "one answer a line", line=number
                )
                continue
            if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
                problems.add("not_utf8", "text in UTF-16", "text in UTF-8", "save the file as UTF-8", line=1)
                return
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if b"\0" in raw:
                problems.add("nul", f"a NUL byte at offset {raw.index(0)} of the line", "text", line=number)
                continue
            try:
                yield number, raw.decode()
            except UnicodeDecodeError as error:
                found = f"byte 0x{raw[error.start]:02x} at offset {error.start} of the line"
                problems.add("not_utf8", found, "text in UTF-8", "save the file as UTF-8", line=number)


def json_rows(path: Path, problems: Collector) -> Iterator[Row]:
    """Objects of a JSON lines file."""
    for number, line in read_lines(path, problems):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            found = f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
            problems.add("not_json", found, "one JSON object a line", line=number)
        except (ValueError, RecursionError) as error:
            problems.add("not_json", str(error)[:100], "one JSON object a line", line=number)
        else:
            if isinstance(value, dict):
                yield Row(number, value)
            else:
                remedy = "write one object a line (jsonl)"
                problems.add("not_object", f"a JSON {_kind(value)}", "one JSON object a line", remedy, line=number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice[:40]!r} twice in one object")
    return unique


def _kind(value: object) -> str:
    return {list: "list", str: "text", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _delimiter(path: Path, named: str) -> str:
    """Semicolon where a header has these and not the delimiter that goes with the name of the file."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 16).decode(errors="replace")
    except OSError:  # told by whoever reads the lines
        return named
    return ";" if ";" in first and named not in first else named


def csv_rows(path: Path, problems: Collector, *, delimiter: str) -> Iterator[Row]:
    """Rows of a CSV file with a header; an empty field is null. Semicolons are seen where the header has no comma."""
    at = [0]

    def lines() -> Iterator[str]:
        for number, line in read_lines(path, problems):
            at[0] = number
            yield line

    reader = csv.reader(lines(), delimiter=_delimiter(path, delimiter), strict=True)
    header: list[str] | None = None
    while True:
        start = at[0] + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            remedy = "longer answers go into a jsonl file" if "field larger" in str(error) else ""
            problems.add("not_csv", str(error), "CSV with quoted answers", remedy, line=start)
            return
        if row is None:
            return
        if header is None:
            header = [heading(name) for name in row]
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                problems.add("duplicate_column", f"column {twice[0]!r} twice", "one column of a name", line=start)
                return
        elif row and len(row) != len(header):
            problems.add("ragged_row", f"{len(row)} fields", f"{len(header)}, as in the header", line=start)
        elif row:
            yield Row(start, {k: v if v != "" else None for k, v in zip(header, row, strict=True)})
