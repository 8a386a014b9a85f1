"""Reader of an instances file: one labelled bird per line, its factors, and whether it was recovered."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import polars as pl

from birdlab.difficulty.design import FACTORS
from birdlab.errors import DataError, Problem

_NAMES = ("instance", "session", "frame")
_OUTCOMES = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
#: Beyond it the square of a number, and so every variance, may overflow.
_LARGEST = 1e100
#: First bytes of tables that are often taken for text.
_BINARY = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a spreadsheet or another zip archive"}
#: More problems than these are counted, not listed.
_LISTED = 50


def read_instances(path: Path, factors: tuple[str, ...] = FACTORS) -> pl.DataFrame:
    """Read a CSV file with the columns instance, session, frame, the factors, and recovered (0 or 1).

    Args:
        path: the file, UTF-8, comma-separated, with a header; an empty field is a missing value.
        factors: factor columns it must have; further columns are passed over.

    Returns:
        ``instance`` (integers where all are, else text), ``session``, ``frame``, the factors (Float64) and
        ``recovered`` (Int64); missing values null.

    Raises:
        DataError: the file cannot be read or holds something else; every line that is wrong is named.
    """
    header, records = _records(path)
    wanted = (*_NAMES, *factors, "recovered")
    _check_header(header, wanted, str(path))
    place = {name: header.index(name) for name in wanted}
    problems: list[Problem] = []
    columns: dict[str, list[object]] = {name: [] for name in wanted}
    seen: dict[str, int] = {}
    for line, fields in records:
        if len(fields) != len(header):
            found = f"{len(fields)} fields"
            problems.append(
                Problem("wrong_fields", found, f"{len(header)}, as in the header", file=str(path), line=line)
            )
            continue
        for name in wanted:
            value, wrong = _value(name, fields[place[name]].strip())
            columns[name].append(value)
            if wrong:
                code, expected = wrong
                shown = fields[place[name]].strip()[:60] or "nothing"
                problems.append(Problem(code, shown, expected, file=str(path), line=line, key=name))
        instance = fields[place["instance"]].strip()
        if instance and instance in seen:
            expected = f"every bird once (first in line {seen[instance]})"
            problems.append(
                Problem("duplicate_instance", instance, expected, file=str(path), line=line, key="instance")
            )
        seen.setdefault(instance, line)
    if not problems:
        problems = _too_little(columns["recovered"], records, str(path))
    if problems:
        raise DataError(_shortened(problems, str(path)))
    kinds = {name: pl.String for name in _NAMES} | dict.fromkeys(factors, pl.Float64) | {"recovered": pl.Int64}
    frame = pl.DataFrame(columns, schema=kinds)
    numbers = frame["instance"].cast(pl.Int64, strict=False)
    same = numbers.null_count() == 0 and bool((numbers.cast(pl.String) == frame["instance"]).all())
    return frame.with_columns(numbers) if same else frame


def _records(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    where = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "an error"
        raise DataError(Problem("unreadable", reason, "a file that can be read", file=where)) from error
    for start, kind in _BINARY.items():
        if raw.startswith(start):
            raise DataError(Problem("not_csv", kind, "comma-separated values", "write it as CSV", file=where, line=1))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        found = f"byte 0x{raw[error.start]:02x}"
        remedy = "save the file as UTF-8"
        raise DataError(Problem("not_utf8", found, "text in UTF-8", remedy, file=where, line=line)) from error
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        rows = [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error as error:
        problem = Problem("not_csv", str(error), "comma-separated values", file=where, line=reader.line_num)
        raise DataError(problem) from error
    if not rows:
        raise DataError(Problem("empty_file", "an empty file", "a header and one line per bird", file=where, line=1))
    return [name.strip() for name in rows[0][1]], rows[1:]


def _check_header(header: list[str], wanted: tuple[str, ...], where: str) -> None:
    problems = []
    remedy = ""
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        remedy = "separate the columns by commas"
    if not set(wanted) & set(header):  # one mistake, not one per column
        found, expected = f"the columns {', '.join(header)[:200]}", f"the columns {', '.join(wanted)}"
        raise DataError(Problem("missing_column", found, expected, remedy, file=where, line=1))
    for name in wanted:
        if name not in header:
            found = f"the columns {', '.join(header)[:200]}"
            problems.append(Problem("missing_column", found, f"a column {name}", remedy, file=where, line=1, key=name))
        elif header.count(name) > 1:
            problems.append(Problem("duplicate_column", "the same column twice", "once", file=where, line=1, key=name))
    if problems:
        raise DataError(problems)


def _value(name: str, text: str) -> tuple[object, tuple[str, str] | None]:
    """The value of one field, or what is wrong with it (code, what was expected)."""
    if name in _NAMES:
        return text, None if text else ("empty_value", f"the {name} of the bird")
    if not text:
        return None, None
    if name == "recovered":
        value = _OUTCOMES.get(text.lower())
        return value, None if value is not None else ("not_binary", "0 (missed), 1 (recovered), or nothing")
    try:
        number = float(text)
    except ValueError:
        return None, ("not_a_number", "a number, or nothing where it is unknown")
    if not math.isfinite(number):
        return None, ("not_finite", "a finite number, or nothing where it is unknown")
    if abs(number) > _LARGEST:
        return None, ("too_large", f"a number from -{_LARGEST:g} to {_LARGEST:g}, or nothing where it is unknown")
    return number, None


def _too_little(recovered: list[object], records: list[tuple[int, list[str]]], where: str) -> list[Problem]:
    if len(records) < 2:
        found = "one bird" if records else "no line below the header"
        line = records[0][0] if records else 1
        return [Problem("too_few_rows", found, "at least two birds", file=where, line=line)]
    if all(value is None for value in recovered):
        return [Problem("no_outcome", "no bird with an outcome", "0 or 1", file=where, line=2, key="recovered")]
    return []


def _shortened(problems: list[Problem], where: str) -> list[Problem]:
    if len(problems) <= _LISTED:
        return problems
    more = len(problems) - _LISTED
    return [*problems[:_LISTED], Problem("more_problems", f"{more} more problems", "none", file=where)]
