"""Annotations as a truth on the grid of five seconds: which species is heard in which segment."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most
from birdlab.soundscapes.coded import SEGMENT_S, Grid, Truth

#: Spans that end later than this are taken for a mistake of units, s (116 days).
LATEST_S = 1e7


def code_truth(
    annotations: pl.DataFrame,
    recordings: pl.DataFrame | None = None,
    classes: Sequence[str] | None = None,
    *,
    file: str | None = None,
) -> Truth:
    """The pairs of segment and species in which the species is heard, each once.

    Args:
        annotations: media_id, class_id, start_s, end_s: spans of any length, s; or segments: media_id, class_id, start_s
            without end_s, each one segment.
        recordings: media_id and, where known, duration_s; those without annotation are silent, and count. Without it the
            recordings are those annotated, by name, and their lengths are not known.
        classes: species that may be answered; without it those annotated, by name.
        file: what to call the annotations in a problem.

    Returns:
        The truth. A span covers the segments from ⌊start/5⌋ to ⌈end/5⌉ - 1, from 0 on: one of no length on the grid and a
        reversed one cover none, one of no length off the grid covers one (rule of the official evaluators of BirdCLEF 2018
        and 2020). What is annotated past the end of a recording is part of the truth, as there; its grid reaches that far.

    Raises:
        DataError: a class that is not in the list, a recording that is not in the table, a span without a number.

    >>> spans = pl.DataFrame({"media_id": ["a"], "class_id": ["wren"], "start_s": [47.4], "end_s": [51.3]})
    >>> truth = code_truth(spans)
    >>> truth.seg.tolist(), truth.grid.n_segments, truth.n_rel.tolist()
    ([9, 10], 11, [2])
    """
    _refuse_bad_spans(annotations, file)
    names = tuple(sorted(annotations["class_id"].unique())) if classes is None else tuple(dict.fromkeys(classes))
    if recordings is None:
        media = tuple(sorted(annotations["media_id"].unique()))
        lengths = np.full(len(media), np.nan)
    else:
        media = tuple(recordings["media_id"])
        held = "duration_s" in recordings.columns
        lengths = recordings["duration_s"].cast(pl.Float64).to_numpy() if held else np.full(len(media), np.nan)
    _refuse_unknown(annotations, "class_id", names, file)
    _refuse_unknown(annotations, "media_id", media, file)
    pairs = _segments_of(annotations, media, names)
    seg_in, m = pairs["k"].to_numpy(), pairs["media"].to_numpy()
    known = np.isfinite(lengths)
    n = np.where(known, np.ceil(np.where(known, lengths, 0.0) / SEGMENT_S), 0).astype(np.int64)
    if len(m):
        np.maximum.at(n, m, seg_in + 1)
    offsets = np.concatenate([[0], np.cumsum(n)]).astype(np.int64)
    seg = (offsets[m] + seg_in).astype(np.int32)
    cls = pairs["cls"].to_numpy().astype(np.int32)
    order = np.lexsort((seg, cls))
    return Truth(Grid(media, offsets, known), names, seg[order], cls[order])


def _segments_of(annotations: pl.DataFrame, media: tuple[str, ...], classes: tuple[str, ...]) -> pl.DataFrame:
    """Columns media, cls (numbers) and k (segment within the recording), each triple once."""
    first = (pl.col("start_s") / SEGMENT_S).floor().cast(pl.Int64)
    last = (pl.col("end_s") / SEGMENT_S).ceil().cast(pl.Int64) if "end_s" in annotations.columns else first + 1
    coded = annotations.select(
        _codes(annotations["media_id"], media).alias("media"),
        _codes(annotations["class_id"], classes).alias("cls"),
        first.clip(lower_bound=0).alias("first"),
        last.clip(lower_bound=0).alias("last"),
    ).filter(pl.col("first") < pl.col("last"))
    spread = coded.select("media", "cls", k=pl.int_ranges("first", "last")).explode("k")
    return spread.unique().select(pl.col("media", "cls").cast(pl.Int64), pl.col("k").cast(pl.Int64))


def _codes(names: pl.Series, known: tuple[str, ...]) -> pl.Series:
    """Number of each name in a list; null where it is not in it."""
    return names.cast(pl.String).replace_strict(
        list(known), list(range(len(known))), default=None, return_dtype=pl.Int64
    )


def _refuse_bad_spans(annotations: pl.DataFrame, file: str | None) -> None:
    ends = [name for name in ("start_s", "end_s") if name in annotations.columns]
    number = pl.col(ends).cast(pl.Float64)
    bad = annotations.with_row_index("at").filter(
        pl.any_horizontal(~(number.is_finite() & (number.abs() <= LATEST_S)).fill_null(False))
    )
    problems = [
        Problem(
            "bad_span", f"{[row[e] for e in ends]} of {row['class_id']} in {row['media_id']}",
            f"seconds, at most {LATEST_S:.0f}", file=row.get("source") or file, line=row.get("row"),
            record=None if row.get("row") else f"annotation {row['at'] + 1}",
        )
        for row in bad.head(21).iter_rows(named=True)
    ]  # fmt: skip
    if problems:
        raise DataError(at_most(problems))


def _refuse_unknown(annotations: pl.DataFrame, key: str, known: tuple[str, ...], file: str | None) -> None:
    """Names of the annotations that are in no list: each once, with how often."""
    line = pl.col("row").first() if "row" in annotations.columns else pl.lit(None, pl.Int64)
    source = pl.col("source").first() if "source" in annotations.columns else pl.lit(None, pl.String)
    bad = annotations.filter(~pl.col(key).cast(pl.String).is_in(list(known)))
    if not bad.height:
        return
    code, what = ("class_unknown", "class list") if key == "class_id" else ("media_unknown", "table of recordings")
    problems = []
    each = bad.group_by(key, maintain_order=True).agg(pl.len(), line.alias("line"), source.alias("source"))
    for name, n, at, held in each.iter_rows():
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.7) if len(problems) < 20 else []
        remedy = f"did you mean {near[0]}?" if near else f"add it to the {what}, or leave its annotations out"
        problems.append(
            Problem(code, f"{name!r} in {n:,} annotations", f"a name in the {what}", remedy, held or file, at, key=key)
        )
    raise DataError(at_most(problems))


__all__ = ["LATEST_S", "code_truth"]
