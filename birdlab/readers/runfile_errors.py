"""The rules of a line of a run file: in bulk, what is a prediction; line by line, what is wrong with the others."""

from __future__ import annotations

import difflib
import itertools
import re
from dataclasses import dataclass
from functools import cache, cached_property

import polars as pl

from birdlab.errors import Problem
from birdlab.readers.runfile_blocks import shown
from birdlab.soundscapes.coded import SEGMENT_S, Truth

FIELDS = ("media_id", "time", "class_id", "probability")
FORMAT = "MediaId;TC1-TC2;ClassId;Probability"
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)-(\d\d):(\d\d):(\d\d)", re.ASCII)
_HEADS = ("mediaid", "media_id")


def time_code(k: int) -> str:
    """Interval of a segment of a recording.

    >>> time_code(720)
    '01:00:00-01:00:05'
    """
    ends = (SEGMENT_S * k, SEGMENT_S * (k + 1))
    return "-".join(f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in ends)


@cache
def time_codes() -> tuple[str, ...]:
    """Intervals of a day, but the last: it would end at 24:00:00, which is no time of the official rule."""
    of_hour = [f":{s // 60:02d}:{s % 60:02d}" for s in range(0, 3600, SEGMENT_S)]
    ends = [f"{hour:02d}{rest}" for hour in range(24) for rest in of_hour]
    return tuple(f"{start}-{end}" for start, end in itertools.pairwise(ends))


@dataclass(frozen=True)
class Lookup:
    """What the fields of a line may be."""

    truth: Truth

    @cached_property
    def schema(self) -> dict[str, pl.DataType | type[pl.DataType]]:
        """Fields whose codes are the numbers of recording, segment and class."""
        names = (self.truth.grid.media, time_codes(), self.truth.classes)
        return {**{f: pl.Enum(list(n)) for f, n in zip(FIELDS, names, strict=False)}, FIELDS[3]: pl.Float64}

    @cached_property
    def media(self) -> frozenset[str]:
        """Recordings."""
        return frozenset(self.truth.grid.media)

    @cached_property
    def classes(self) -> frozenset[str]:
        """Classes."""
        return frozenset(self.truth.classes)


def parse_block(block: bytes, lookup: Lookup) -> pl.DataFrame | None:
    """All lines of a block as coded columns, or None where any is no prediction: fast, and says not which."""
    try:
        frame = pl.read_csv(block, separator=";", has_header=False, schema=lookup.schema, quote_char=None)
    except pl.exceptions.PolarsError:
        return None
    score = frame["probability"]
    if any(frame.null_count().row(0)) or not frame.height:
        return None
    values = score.to_numpy()
    # False with NaN, too.
    return frame if values.min() >= 0 and values.max() <= 1 else None


def split_lines(lines: pl.DataFrame, lookup: Lookup) -> pl.DataFrame:
    """Lines as coded columns, the same rules, line by line.

    Args:
        lines: columns at (number of the line) and text.

    Returns:
        at, text, the four fields (null where not in the lookup, or no number in [0, 1]) and is_good.
    """
    parts = pl.col("text").str.split_exact(";", 3).struct.rename_fields(list(FIELDS))
    fields = lines.with_columns(parts.alias("parts")).unnest("parts")
    number = pl.col("probability").str.strip_chars().cast(pl.Float64, strict=False)
    coded = fields.with_columns(
        *(pl.col(f).cast(lookup.schema[f], strict=False) for f in FIELDS[:3]),
        pl.when(number.is_between(0, 1)).then(number).alias("probability"),
    )
    is_four = pl.col("text").str.count_matches(";", literal=True) == 3
    return coded.with_columns(is_good=pl.all_horizontal(is_four, *(pl.col(f).is_not_null() for f in FIELDS)))


def problem_of(text: str, lookup: Lookup, *, file: str, line: int) -> Problem:
    """The first thing that is wrong with a line that is no prediction, in the order of the official evaluator."""
    fields = text.split(";")
    bare = text.strip()
    if bare.startswith("<") or (bare.endswith(">") and len(fields) == 4):
        code, expected, remedy = "brackets", FORMAT, "the page prints < and > around a line, they are not part of it"
        return Problem(code, shown(text), expected, remedy, file, line)
    if len(fields) != 4:
        return _not_four(text, len(fields), file, line)
    if fields[0].strip().casefold() in _HEADS:
        return Problem("header", shown(text), "predictions from the first line on", "take the header away", file, line)
    media, time, name, number = fields
    wrong = _time_problem(time)
    if wrong:
        return Problem(wrong[0], shown(time), wrong[1], file=file, line=line, key="TC1-TC2")
    if media not in lookup.media:
        expected = f"one of {len(lookup.media):,} recordings of the ground truth"
        return Problem("media_unknown", shown(media), expected, _like(media, lookup.media), file, line, key="MediaId")
    if name not in lookup.classes:
        expected = f"one of {len(lookup.classes):,} classes"
        return Problem("class_unknown", shown(name), expected, _like(name, lookup.classes), file, line, key="ClassId")
    remedy = "write numbers with a point" if "," in number else ""
    return Problem("probability", shown(number), "a number from 0 to 1", remedy, file, line, key="Probability")


def _not_four(text: str, n: int, file: str, line: int) -> Problem:
    if not text.strip():
        return Problem("fields", "a blank line", FORMAT, "take it away", file, line)
    other = next((s for s in (",", "\t", "|") if text.count(s) >= 3 and n == 1), None)
    remedy = f"separate the fields by ; not by {other!r}" if other else ""
    found = f"{n} field{'s' if n > 1 else ''}: {shown(text)}"
    return Problem("fields", found, FORMAT, remedy, file, line)


def _time_problem(text: str) -> tuple[str, str] | None:
    """Code and what was expected of a time code."""
    match = _TIME.fullmatch(text)
    h1, m1, s1, h2, m2, s2 = map(int, match.groups()) if match else (99,) * 6
    if max(h1, h2) > 23 or max(m1, m2, s1, s2) > 59:
        return "timecode_format", "hh:mm:ss-hh:mm:ss with two digits each, before 24:00:00"
    start, end = 3600 * h1 + 60 * m1 + s1, 3600 * h2 + 60 * m2 + s2
    if start % SEGMENT_S or end % SEGMENT_S:
        return "timecode_grid", f"multiples of {SEGMENT_S} s"
    if end - start != SEGMENT_S:
        return "timecode_length", f"an interval of {SEGMENT_S} s"
    return None


def _like(name: str, names: frozenset[str]) -> str:
    """A name that may be meant."""
    same = [n for n in names if n.casefold() == name.strip().casefold()] if len(name) < 200 else []
    near = same or (difflib.get_close_matches(name, sorted(names)[:3000], n=1, cutoff=0.8) if len(name) < 200 else [])
    return f"did you mean {near[0]}?" if near else ""


__all__ = ["FIELDS", "FORMAT", "Lookup", "parse_block", "problem_of", "split_lines", "time_code", "time_codes"]
