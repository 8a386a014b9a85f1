"""Submissions with one row per segment and one column per class, as later editions of BirdCLEF want them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.birdnet import PREDICTIONS, Predictions
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, at_most, nearest
from birdlab.readers.soundscape_tables import key_of, media_names, some
from birdlab.soundscapes.coded import SEGMENT_S


def is_wide(heads: Sequence[str]) -> bool:
    """Whether a header is that of a wide submission: row_id and classes.

    >>> is_wide(["row_id", "amecro", "blujay"]), is_wide(["row_id", "target"])
    (True, False)
    """
    return (
        bool(heads) and key_of(heads[0]) == "rowid" and len(heads) > 1 and key_of(heads[1]) not in ("target", "birds")
    )


def read_wide_submission(
    path: Path, *, classes: Sequence[str] | None = None, recordings: pl.DataFrame | None = None
) -> Predictions:
    """A wide submission as predictions: every segment lists every class, also those of probability 0.

    Args:
        path: CSV or parquet: ``row_id`` = ``<recording>_<end of the segment, s>``, then one column per class.
        classes: class list.
        recordings: table ``soundscape_recordings``, whose media_id the recordings become.

    Raises:
        DataError: a row_id that is none or stands twice, a value that is no probability (logits are refused, never clipped), a
            class that is not in the list. With their lines.
    """
    shown = str(path)
    heads, frame, lines = _cells(path)
    problems = _classes(heads[1:], classes, shown)
    segments, wrong = _segments(frame["row_id"], lines, shown)
    problems += wrong
    problems += _values(frame, heads[1:], lines, shown)
    if problems:
        raise DataError(at_most(problems))
    media = media_names(segments["name"].unique(maintain_order=True), recordings, shown=shown)
    wide = frame.with_columns(
        media_id=segments["name"].replace_strict(media.of, return_dtype=pl.String), start_s=segments["start_s"]
    )
    table = wide.unpivot(heads[1:], index=["media_id", "start_s"], variable_name="class_id", value_name="probability")
    notices = media.notices()
    lacking = [c for c in classes or () if c not in set(heads[1:])]
    if lacking:
        told = f"classes of the list that the file has no column for ({some(lacking)})"
        notices.append(Notice("class_without_column", told, len(lacking), shown))
    return Predictions(table.select(list(PREDICTIONS)).cast(PREDICTIONS), notices)  # type: ignore[arg-type]


def read_wide_truth(path: Path) -> tuple[pl.DataFrame, list[str]]:
    """The same layout with 0 and 1 as annotations.

    Args:
        path: CSV or parquet: ``row_id`` = ``<recording>_<end of the segment, s>``, then one column of 0 and 1 per class.

    Returns:
        Rows of the classes that are 1: name (of the recording), class_id, start_s, end_s, row (line; of parquet the row);
        and the names of all recordings, in order.

    Raises:
        DataError: a row_id that is none or stands twice, another value than 0 or 1 (the first of each column). With their lines.
    """
    shown = str(path)
    heads, frame, lines = _cells(path, empty=True)
    segments, problems = _segments(frame["row_id"], lines, shown)
    for head in heads[1:]:
        other = (~frame[head].is_in([0.0, 1.0])).fill_null(True)
        if other.any():
            at, n = int(other.arg_true()[0]), int(other.sum()) - 1
            value = frame[head][at]
            found = ("nothing" if value is None else f"{value:g}") + (f", and {n:,} more" if n else "")
            remedy = "probabilities are a run: name the file under runs"
            problems.append(Problem("no_yes_or_no", found, "0 or 1", remedy, shown, lines(at), key=head))
    if problems:
        raise DataError(at_most(sorted(problems, key=lambda p: p.line or 0)))
    rows = [lines(i) or i + 1 for i in range(frame.height)]
    wide = frame.with_columns(segments, row=pl.Series(rows, dtype=pl.Int64)).with_columns(
        end_s=pl.col("start_s") + SEGMENT_S
    )
    about = ["name", "start_s", "end_s", "row"]
    table = wide.unpivot(heads[1:], index=about, variable_name="class_id", value_name="heard")
    table = table.filter(pl.col("heard") == 1).drop("heard").sort("row", maintain_order=True)
    return table, segments["name"].unique(maintain_order=True).to_list()


def _segments(row_id: pl.Series, lines, shown: str) -> tuple[pl.DataFrame, list[Problem]]:
    """Recording (name) and start of each row, s, and the rows whose row_id is none or stands twice."""
    part = row_id.str.extract_groups(r"^(.+)_(\d{1,9})$").struct.unnest()
    name, end = part["1"], part["2"].cast(pl.Int64)
    wrong = name.is_null() | end.is_null() | (end % SEGMENT_S != 0) | (end == 0)
    expected = f"<recording>_<end of the segment, a multiple of {SEGMENT_S} s>"
    problems = [
        Problem("bad_row_id", repr(row_id[i])[:80], expected, "", shown, lines(i), key="row_id")
        for i in wrong.fill_null(True).arg_true()[:20]
    ]
    twice = row_id.is_duplicated() & ~row_id.is_first_distinct()
    problems += [
        Problem("row_id_twice", repr(row_id[i])[:80], "every segment once", "", shown, lines(i), key="row_id")
        for i in twice.arg_true()[:20]
    ]
    return pl.DataFrame({"name": name, "start_s": (end - SEGMENT_S).cast(pl.Int32)}), problems


def _cells(path: Path, *, empty: bool = False):
    """Headings, row_id and columns of numbers, and the line of each row; ``empty``: the caller tells empty cells."""
    if path.suffix.lower() in (".parquet", ".pq"):
        from birdlab.readers.table_file import read_table

        table = read_table(path, str(path))
        heads = list(table.frame.columns)
        _first_is_row_id(heads, str(path))
        try:
            cast = pl.col(heads[1:]).cast(pl.Float64)
            frame = table.frame.select(pl.col(heads[0]).cast(pl.String).alias("row_id"), cast)
        except pl.exceptions.PolarsError as error:
            found = str(error).splitlines()[0][:120]
            raise DataError(Problem("bad_column", found, "numbers", file=str(path))) from error
        return ["row_id", *heads[1:]], frame, lambda i: None
    heads, fast, n_header = _fast(path, empty=empty)
    if fast is not None:
        return heads, fast, lambda i: i + 1 + n_header
    # The slow way names the line of a cell that is no number.
    wanted: dict[str, type[pl.DataType]] = {heads[0]: pl.String, **dict.fromkeys(heads[1:], pl.Float64)}
    frame = read_columns(path, wanted)
    held = frame["line"].to_list()
    return ["row_id", *heads[1:]], frame.rename({heads[0]: "row_id"}), lambda i: held[i]


def _first_is_row_id(heads: list[str], shown: str) -> None:
    if not is_wide(heads):
        has = "the columns " + ", ".join(heads)[:200]
        raise DataError(Problem("missing_column", has, "row_id, then one column per class", file=shown, line=1))


def _fast(path: Path, *, empty: bool) -> tuple[list[str], pl.DataFrame | None, int]:
    """The file in bulk; no frame where anything is not as it should be."""
    from birdlab.readers.table_file import csv_shape, sniff

    sniff(path)
    shape = csv_shape(path, str(path))
    heads = list(shape.header)
    _first_is_row_id(heads, str(path))
    schema = {"row_id": pl.String, **dict.fromkeys(heads[1:], pl.Float64)}
    try:
        frame = pl.read_csv(
            path, separator=shape.delimiter, has_header=False, skip_rows=shape.n_header_lines, schema=schema
        )
    except pl.exceptions.PolarsError:
        return heads, None, shape.n_header_lines
    finite = frame.select(pl.any_horizontal((~pl.col(heads[1:]).is_finite()).any()) if heads[1:] else pl.lit(False))
    checked = frame.select("row_id") if empty else frame
    whole = checked.null_count().sum_horizontal().item() == 0 and not finite.item()
    return (["row_id", *heads[1:]], frame, shape.n_header_lines) if whole else (heads, None, shape.n_header_lines)


def _classes(heads: list[str], classes: Sequence[str] | None, shown: str) -> list[Problem]:
    if classes is None:
        return []
    held = set(classes)
    return [
        Problem("class_unknown", repr(head), "a class of the list", f"nearest: {', '.join(nearest(head, list(classes), 2))}",
                shown, 1, key=head)
        for head in heads
        if head not in held
    ]  # fmt: skip


def _values(frame: pl.DataFrame, heads: list[str], lines, shown: str) -> list[Problem]:
    """What is no probability: the first of each column, told as logits or percents where all of it looks like that."""
    if frame.is_empty():
        return [Problem("empty_file", "a header and no rows", "one row per segment", file=shown)]
    low = frame.select(pl.min_horizontal(pl.col(heads).min())).item()
    high = frame.select(pl.max_horizontal(pl.col(heads).max())).item()
    nan = frame.select(pl.any_horizontal((~pl.col(heads).is_finite()).fill_null(True).any())).item()
    if low is not None and high is not None and low >= 0 and high <= 1 and not nan:
        return []
    hint = "these look like logits: write sigmoid(x)" if low < 0 else "are these percents? divide by 100"
    problems = []
    for head in heads:
        column = frame[head]
        bad = (~column.is_between(0, 1)).fill_null(True) | column.is_nan().fill_null(True)
        rows = bad.arg_true()[:1].to_list()
        for i in rows:
            found = f"{column[i]}, and {int(bad.sum()) - 1} more"
            problems.append(
                Problem(
                    "prob_out_of_range", found, "a number from 0 to 1 (never clipped)", hint, shown, lines(i), key=head
                )
            )
    return problems
