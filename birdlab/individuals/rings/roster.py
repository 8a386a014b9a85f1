"""Which bird wore which code when: the list against which rings are read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.individuals.rings.codes import Palette, code_problems, parse_code
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, at_most, notice_table

_SHOWN = 5
_EARLY, _LATE = dt.date(1, 1, 1), dt.date(9999, 12, 31)
CODES = {"date": pl.Date, "individual_id": pl.String, "code": pl.String}


def read_roster(path: Path, palette: Palette) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a CSV ``individual_id, code[, valid_from, valid_to, territory]``.

    One row is one bird with one code; a bird whose rings changed has several rows. An empty ``valid_from`` is since
    ever, an empty ``valid_to`` is still; both days belong to the time. A code may be used again by another bird, at
    another time or at the same one.

    Args:
        path: the file.
        palette: colours that rings can have.

    Returns:
        Table ``ring_roster``, in the order of the file, codes in lower case; notices: rows that were there twice, codes
        that two birds wear at one time (they cannot be told apart; both stay candidates), times in which a bird wears
        none of its codes.

    Raises:
        DataError: all of it in one: no such file or column, no row, a code that cannot be (see
            :func:`~birdlab.individuals.rings.codes.parse_code`), a date that is not YYYY-MM-DD, a time that ends before
            it begins, two codes of one bird on one day.
    """
    text = pl.String
    frame = read_columns(
        path,
        {"individual_id": text, "code": text},
        optional={"valid_from": text, "valid_to": text, "territory": text},
    )
    if frame.is_empty():
        raise DataError(Problem("empty_file", "a header without rows", "one row per bird and code", file=str(path)))
    absent = [name for name in ("valid_from", "valid_to", "territory") if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    problems = _faults(frame, palette, str(path))
    if problems:
        raise DataError(at_most(problems))
    columns = ["individual_id", "code", "valid_from", "valid_to", "territory", "line"]
    days = [pl.Series(key, [_day(v) for v in frame[key]], dtype=pl.Date) for key in ("valid_from", "valid_to")]
    roster = frame.select(columns).with_columns(*days, pl.col("territory").replace("", None))
    roster = _with_codes(roster, palette)
    once = roster.unique(["individual_id", "code", "valid_from", "valid_to"], keep="first", maintain_order=True)
    problems = _overlaps(once, str(path))
    if problems:
        raise DataError(at_most(problems))
    notices = [Notice("roster_twice", "rows of the roster that were there before", roster.height - once.height)]
    notices += _gaps(once)
    table = schemas.TABLES["ring_roster"].validate(once.drop("line"), source=str(path))
    return table, notice_table([*(n for n in notices if n.n), *shared_codes(table)])


def roster_of_names(names: Iterable[str], palette: Palette) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A roster for birds that are called by their code, valid at all times (CHIRP).

    Args:
        names: birds; each is taken once.
        palette: colours that rings can have.

    Returns:
        Table ``ring_roster``; notices: names that are no code by their length (those birds are never named by rings),
        codes that two birds share (``OAOR`` and ``oaor``).

    Raises:
        DataError: a name as long as a code with a letter outside the palette.
    """
    birds = list(dict.fromkeys(names))
    found = {bird: code_problems(bird, palette, individual=bird) for bird in birds}
    wrong = [p for problems in found.values() for p in problems if p.code == "unknown_colour"]
    if wrong:
        raise DataError(at_most(wrong))
    no_code = [bird for bird, problems in found.items() if problems]
    coded = [bird for bird, problems in found.items() if not problems]
    frame = pl.DataFrame(
        {"individual_id": coded, "code": coded}, schema={"individual_id": pl.String, "code": pl.String}
    )
    roster = schemas.TABLES["ring_roster"].conform(
        _with_codes(frame, palette).with_columns(
            pl.lit(None, pl.Date).alias("valid_from"), pl.lit(None, pl.Date).alias("valid_to")
        )
    )
    said = f"birds whose name is no code and who cannot be named by rings: {_some(no_code)}"
    notices = [Notice("name_no_code", said, len(no_code))] if no_code else []
    return roster, notice_table([*notices, *shared_codes(roster)])


def valid_at(roster: pl.DataFrame, date: dt.date | None) -> pl.DataFrame:
    """Rows of the roster that hold on a day; on a day that is not known (``None``) all of them.

    >>> roster = schemas.TABLES["ring_roster"].conform(pl.DataFrame({
    ...     "individual_id": ["a", "b"], "code": ["rg", "rg"], "valid_from": [None, dt.date(2021, 4, 1)],
    ...     "valid_to": [dt.date(2020, 9, 30), None]}))
    >>> valid_at(roster, dt.date(2020, 9, 30))["individual_id"].to_list(), valid_at(roster, None).height
    (['a'], 2)
    """
    if date is None:
        return roster
    return roster.filter(pl.col("valid_from").fill_null(_EARLY) <= date, pl.col("valid_to").fill_null(_LATE) >= date)


def unnamed_birds(clips: pl.DataFrame, roster: pl.DataFrame) -> pl.DataFrame:
    """Notices of birds that rings cannot name: those that the roster lacks, and those without a code on a clip's day.

    Args:
        clips: individual_id, date of the clips that are asked for.
        roster: table ``ring_roster``.

    >>> roster = schemas.TABLES["ring_roster"].conform(pl.DataFrame({
    ...     "individual_id": ["a"], "code": ["rg"], "valid_from": [None], "valid_to": [dt.date(2020, 9, 30)]}))
    >>> clips = pl.DataFrame({"individual_id": ["a", "b"], "date": [dt.date(2021, 5, 1)] * 2})
    >>> unnamed_birds(clips, roster)["code"].to_list()
    ['bird_no_code', 'clip_no_code']
    """
    asked = clips.select("individual_id", "date").with_row_index("row")
    lacking = asked.join(roster, on="individual_id", how="anti")
    birds = lacking["individual_id"].unique().sort().to_list()
    worn = asked.join(roster, on="individual_id").filter(
        pl.col("date").is_null()
        | pl.col("date").is_between(pl.col("valid_from").fill_null(_EARLY), pl.col("valid_to").fill_null(_LATE))
    )
    n = asked.height - lacking.height - worn["row"].n_unique()
    said = f"birds asked for that the roster lacks, whom rings cannot name: {_some(birds)}"
    notices = [
        Notice("bird_no_code", said, len(birds)),
        Notice("clip_no_code", "clips on a day on which their bird wears no code of the roster", n),
    ]
    return notice_table(notice for notice in notices if notice.n)


def codes_by_date(roster: pl.DataFrame, dates: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Birds and codes that hold on each of many days.

    Args:
        roster: table ``ring_roster``.
        dates: day of each clip; null where it is not known.

    Returns:
        date, individual_id, code: one row per distinct day (null too), bird and code, in the order of the roster. For a
        null day all codes count, so a bird may stand there with several. Notices: clips without a day, clips on a day
        on which no bird of the roster wears rings.
    """
    days = dates.unique().sort().to_list()
    parts = [
        valid_at(roster, day)
        .select(pl.lit(day, pl.Date).alias("date"), "individual_id", "code")
        .unique(maintain_order=True)
        for day in days
    ]
    frame = pl.concat(parts) if parts else pl.DataFrame(schema=CODES)
    undated = dates.null_count()
    empty = [day for day, part in zip(days, parts, strict=True) if part.is_empty()]
    n_empty = int(dates.is_in(pl.Series(empty, dtype=pl.Date)).fill_null(False).sum()) if empty else 0
    notices = [
        Notice("clip_undated", "clips without a date: every code that a bird ever wore is a candidate", undated),
        Notice("nobody_ringed", "clips on a day on which no bird of the roster wears rings", n_empty),
    ]
    return frame, notice_table(n for n in notices if n.n)


def shared_codes(roster: pl.DataFrame) -> list[Notice]:
    """Codes that two birds wear at one time: nothing tells those birds apart, and both stay candidates."""
    timed = _timed(roster)
    pairs = timed.join(timed, on="code", suffix="_b").filter(
        pl.col("individual_id") < pl.col("individual_id_b"),
        pl.col("start") <= pl.col("end_b"),
        pl.col("start_b") <= pl.col("end"),
    )
    names = pairs.select("code", "individual_id", "individual_id_b").unique(maintain_order=True).rows()
    if not names:
        return []
    told = _some([f"{code} ({a}, {b})" for code, a, b in names])
    return [Notice("code_shared", f"pairs of birds with one code at one time cannot be told apart: {told}", len(names))]


def _with_codes(frame: pl.DataFrame, palette: Palette) -> pl.DataFrame:
    codes = [
        parse_code(code, palette, individual=bird).text for bird, code in frame.select("individual_id", "code").rows()
    ]
    return frame.with_columns(pl.Series("code", codes, dtype=pl.String))


def _faults(frame: pl.DataFrame, palette: Palette, file: str) -> list[Problem]:
    """Codes and dates that cannot be, with their lines."""
    problems: list[Problem] = []
    for row in frame.to_dicts():
        line = row["line"]
        for wrong in code_problems(row["code"], palette, individual=row["individual_id"]):
            place = {"file": file, "line": line, "record": wrong.record, "key": "code"}
            problems.append(Problem(wrong.code, wrong.found, wrong.expected, wrong.remedy, **place))
        days: list[dt.date | None] = []
        for key in ("valid_from", "valid_to"):
            days.append(_day(row[key]))
            if row[key] and days[-1] is None:
                found = repr(row[key])
                problems.append(Problem("bad_date", found, "a date as YYYY-MM-DD", file=file, line=line, key=key))
        if None not in days and days[1] < days[0]:
            found = f"{row['valid_from']} to {row['valid_to']}"
            problems.append(
                Problem("ends_before_it_begins", found, "valid_to not before valid_from", file=file, line=line)
            )
    return problems


def _day(text: str | None) -> dt.date | None:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").date() if text else None
    except ValueError:
        return None


def _timed(roster: pl.DataFrame) -> pl.DataFrame:
    return roster.with_columns(
        pl.col("valid_from").fill_null(_EARLY).alias("start"), pl.col("valid_to").fill_null(_LATE).alias("end")
    )


def _in_order(roster: pl.DataFrame) -> pl.DataFrame:
    """Rows of each bird in time, each with the end and the code of the row before."""
    timed = _timed(roster).sort("individual_id", "start", "end", maintain_order=True)
    return timed.with_columns(
        pl.col("end").shift(1).over("individual_id").alias("before"),
        pl.col("code").shift(1).over("individual_id").alias("code_before"),
    )


def _overlaps(roster: pl.DataFrame, file: str) -> list[Problem]:
    bad = _in_order(roster).filter(pl.col("start") <= pl.col("before"))
    return [
        Problem(
            "codes_overlap",
            f"{row['individual_id']} with {row['code_before']} and {row['code']} at one time",
            "one code of a bird on a day",
            "let the earlier row end (valid_to) the day before the later one begins",
            file=file,
            line=row["line"],
            record=f"bird {row['individual_id']}",
        )
        for row in bad.to_dicts()
    ]


def _gaps(roster: pl.DataFrame) -> list[Notice]:
    later = _in_order(roster).filter(pl.col("before").is_not_null())
    gap = later.filter((pl.col("start") - pl.col("before")).dt.total_days() > 1)
    birds = _some(gap["individual_id"].unique(maintain_order=True).to_list())
    return [Notice("code_gap", f"times between two codes in which a bird wears none of them: {birds}", gap.height)]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
