"""Days as people write them, one way per file."""

from __future__ import annotations

import polars as pl

from birdlab.errors import Problem

_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y%m%d", "%Y/%m/%d")
_SLASHED = ("%d/%m/%Y", "%m/%d/%Y")
EXPECTED = "days as 2021-09-30, 30.09.2021, 20210930 or 2021/09/30"


def parse_dates(rows: pl.DataFrame, source: str) -> tuple[pl.Series, list[Problem]]:
    """The column ``date`` of text as days.

    Args:
        rows: ``line`` and, where the file has it, ``date``.
        source: what to call the file.

    Returns:
        Days (null where the cell is empty) and problems. Read: 2021-09-30 (with or without a time), 30.09.2021,
        20210930, 2021/09/30, all rows of a file in one way; 30/09/2021 or 09/30/2021 only if some row tells which.
    """
    nothing = pl.Series("date", [None] * rows.height, dtype=pl.Date)
    if "date" not in rows.columns or rows["date"].null_count() == rows.height:
        return nothing, []
    text = rows["date"].str.replace(r"^(\d{4}-\d{1,2}-\d{1,2})[T ].*$", "$1").str.replace(r"^(\d{8})\.0$", "$1")
    n = text.count()
    read = {form: text.str.to_date(form, strict=False) for form in (*_FORMATS, *_SLASHED)}
    counts = {form: days.count() for form, days in read.items()}
    fitting = [form for form in read if counts[form] == n]
    if len(fitting) == 2 and set(fitting) == set(_SLASHED) and not (read[fitting[0]] == read[fitting[1]]).all():
        line = int(rows["line"][int(text.is_not_null().arg_true()[0])])
        remedy = "write the year first"
        found = f"{text.drop_nulls()[0]}, and no row that tells days from months"
        return nothing, [Problem("ambiguous_date", found, EXPECTED, remedy, source, line, key="date")]
    best = fitting[0] if fitting else max(counts, key=lambda form: counts[form])
    days = read[best]
    year = days.dt.year()
    bad = (text.is_not_null() & (days.is_null() | ~year.is_between(1900, 2100))).fill_null(True)
    problems = [
        Problem("bad_date", rows["date"][i], f"{EXPECTED}, all in one way", file=source, line=int(rows["line"][i]),
                key="date")
        for i in bad.arg_true()[:10].to_list()
    ]  # fmt: skip
    return days.alias("date"), problems
