"""Predictions as a run file of BirdCLEF's official layout."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.shards import write_atomic
from birdlab.soundscapes.coded import SEGMENT_S

#: Digits behind the point.
DIGITS = 10


def write_run(table: pl.DataFrame, path: Path) -> None:
    """Write ``MediaId;TC1-TC2;ClassId;Probability``, one line per prediction, in the order of the table.

    Probabilities have ten digits; two that differ by less become equal. The file is written beside its place and renamed.

    Args:
        table: media_id, start_s (whole, a multiple of 5), class_id, probability (in [0, 1]); a segment and class once.
        path: the run file.

    Raises:
        ParameterError: a row that no run file can hold: an id that is empty or has a semicolon or line end, a start off the
            grid, a probability that is none, a row twice.
        DataError: the file cannot be written.
    """
    _refuse(table, path)
    start = pl.col("start_s").cast(pl.Int64)
    lines = table.select(
        "media_id", pl.concat_str([_code(start), _code(start + SEGMENT_S)], separator="-").alias("tc"), "class_id",
        pl.col("probability").cast(pl.Float64),
    )  # fmt: skip
    try:
        write_atomic(
            path,
            lambda temporary: lines.write_csv(
                temporary,
                include_header=False,
                separator=";",
                quote_style="never",
                float_precision=DIGITS,
                float_scientific=False,
                line_terminator="\n",
            ),
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise DataError(Problem("not_written", why, "a file that can be written", file=str(path))) from error


def _code(seconds: pl.Expr) -> pl.Expr:
    """``hh:mm:ss``; hours past 99 take three digits."""
    parts = (seconds // 3600, seconds // 60 % 60, seconds % 60)
    return pl.concat_str([p.cast(pl.String).str.zfill(2) for p in parts], separator=":")


def _key(table: pl.DataFrame) -> pl.Expr:
    """Recording, segment and class as one number: a third of the memory that the texts would take."""
    n = max(table["class_id"].n_unique(), 1), max(table["media_id"].n_unique(), 1)
    codes = [
        pl.col(c).cast(pl.String).cast(pl.Categorical).to_physical().rank("dense") for c in ("class_id", "media_id")
    ]
    return (pl.col("start_s").cast(pl.Int64, strict=False) * n[1] + codes[1].cast(pl.Int64)) * n[0] + codes[0]


def _refuse(table: pl.DataFrame, path: Path) -> None:
    missing = [c for c in ("media_id", "start_s", "class_id", "probability") if c not in table.columns]
    if missing:
        raise ParameterError(Problem("missing_column", ", ".join(missing), "predictions", file=str(path)))
    value, start = pl.col("probability").cast(pl.Float64), pl.col("start_s").cast(pl.Float64)
    ids = pl.col("media_id", "class_id").cast(pl.String)
    kinds = {
        "an id that is empty or holds ; or a line end": pl.any_horizontal(
            ids.is_null() | (ids == "") | ids.str.contains("[;\r\n]")
        ),
        "a start that is no multiple of 5 s": (start.is_null() | (start < 0) | (start % SEGMENT_S != 0)),
        "a probability outside [0, 1]": ~(value.is_between(0, 1) & value.is_finite()).fill_null(False),
        "a segment and class twice": _key(table).is_duplicated(),
    }
    problems = []
    for found, mask in kinds.items():
        bad = table.select(mask.alias("bad"))["bad"].fill_null(True).arg_true()
        if len(bad):
            first = f"{table.row(int(bad[0]))}"[:120]
            problems.append(Problem("bad_row", f"{found} in {len(bad)} rows: {first}", "rows of a run", file=str(path)))
    if problems:
        raise ParameterError(problems)
