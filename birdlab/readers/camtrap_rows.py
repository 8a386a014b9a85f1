"""Cells of a table of Camtrap DP: dates with a time zone, words of a list, whole numbers, ids that must be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from birdlab.errors import BirdlabError, Problem
from birdlab.readers.csvfile import read_rows
from birdlab.readers.files import Notice

#: Problems of one kind and column that are listed one by one.
_LISTED = 10
_DATE = r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?(\.\d{1,6})?\d*\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?$"


@dataclass(frozen=True)
class Table:
    """A table of text, the column that names its rows, and where problems and notices go."""

    path: Path
    key: str
    frame: pl.DataFrame
    problems: list[Problem]
    notices: list[Notice]

    def wrong(self, rows: pl.DataFrame, code: str, column: str, expected: str) -> None:
        """A problem for each of these rows, the first ten one by one."""
        if rows.is_empty():
            return
        # A comment with a line break moves all lines after it: the slow reader knows them.
        lines = _lines(self.path, self.key)
        for row in rows.head(_LISTED).iter_rows(named=True):
            cell = row[column]
            found = "nothing" if cell in (None, "") else repr(cell)[:60]
            line = row["line"] if code == "id_twice" else lines.get(row[self.key], row["line"])
            self.problems.append(
                Problem(code, found, expected, file=str(self.path), line=line, record=row[self.key], key=column)
            )
        if more := rows.height - _LISTED:
            if more > 0:
                self.problems.append(Problem("more", f"{more} more of them", expected, file=str(self.path), key=column))

    def unique(self) -> None:
        """Each id once."""
        again = self.frame.filter(~pl.col(self.key).is_first_distinct())
        self.wrong(again, "id_twice", self.key, "each id once")

    def known(self, column: str, ids: pl.Series, expected: str) -> None:
        """Ids that point at another table must be there; empty cells point at nothing."""
        lost = self.frame.filter(pl.col(column).is_not_null() & ~pl.col(column).is_in(ids.implode()))
        self.wrong(lost, f"unknown_{column}", column, expected)

    def choice(self, column: str, words: Sequence[str]) -> pl.Series:
        """A word of a list in lower case; null for an empty cell."""
        text = self.frame[column].str.to_lowercase()
        self.wrong(
            self.frame.filter(text.is_not_null() & ~text.is_in(list(words))), "bad_word", column, ", ".join(words)
        )
        return text

    def whole(self, column: str) -> pl.Series:
        """A whole number from 1; null for an empty cell."""
        text = self.frame[column]
        number = text.str.extract(r"^(\d{1,9})(?:\.0+)?$").cast(pl.Int64)
        bad = text.is_not_null() & (number.is_null() | (number < 1))
        self.wrong(self.frame.filter(bad.fill_null(True)), "bad_number", column, "a whole number from 1")
        return number

    def ordered(self, frame: pl.DataFrame, column: str) -> None:
        """No end before its start."""
        bad = frame.filter((pl.col("end") < pl.col("start")).fill_null(False))
        self.wrong(bad, "reversed_dates", column, "an end not before its start")


def times(table: Table, column: str, *, needed: bool = False) -> pl.Series:
    """Dates of ISO 8601 in UTC; null for an empty cell. One without a zone is taken as UTC, and counted.

    Args:
        table: the table.
        column: its column.
        needed: whether an empty cell is a problem.
    """
    text = table.frame[column]
    part = [text.str.extract(_DATE, i + 1) for i in range(5)]
    zone = part[4].str.replace("[Zz]", "+0000").str.replace(":", "").str.replace(r"^([+-]\d\d)$", "${1}00")
    plain = part[0] + "T" + part[1] + part[2].fill_null(":00") + part[3].fill_null(".0") + zone.fill_null("+0000")
    out = plain.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", time_zone="UTC", time_unit="us", strict=False)
    bad = out.is_null() & (text.is_not_null() if not needed else pl.Series([True] * len(text), dtype=pl.Boolean))
    table.wrong(table.frame.filter(bad), "bad_date", column, "a date and time like 2020-05-30T04:57:37+02:00")
    if n := int((out.is_not_null() & part[4].is_null()).sum()):
        table.notices.append(Notice("no_time_zone", f"{column} without a time zone: taken as UTC", n, str(table.path)))
    return out


def _lines(path: Path, key: str) -> dict[str, int]:
    """Line of each id, the last one of a row of several lines."""
    try:
        table = read_rows(path, shown=str(path))
    except BirdlabError:
        return {}
    heads = [head.strip().casefold() for head in table.header]
    place = heads.index(key.casefold())
    return {row[place].strip(): line for line, row in table.rows}
