"""The same numbers as the authors' script counts them (ComputeMetrics.py, commit 7fe5823), quirks and all.

A bird of a box is its label before the first ``_``; labels of behaviours are taken whole; every behaviour counts as a
peck by hand, only ``Peck`` as one predicted; windows include their last frame; a minute has 1,500 frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from birdlab.individuals.counting import in_view, seconds_with
from birdlab.individuals.documented import f1_row, pair_row, rate_row, shares, visits_of

FPS, WINDOW = 25, 25
NOBODY = "unringed"


def split_bird(column: str) -> pl.Expr:
    """Label before the first ``_``."""
    return pl.col(column).str.split("_").list.first()


def named_tracks(tracks: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Tracks with their label where the script finds it: numbers in the boxes never equal text in the names.

    Returns:
        video_id, track_id, label of tracks whose ids have one type in both files.
    """
    number = pl.col("track_id").str.contains(r"^-?\d+$").all().alias("boxes_are_numbers")
    types = tracks.group_by("video_id").agg(number)
    known = names.join(types, on="video_id", how="left")
    text = pl.col("key_is_text") if "key_is_text" in names.columns else pl.lit(True)
    fits = (text != pl.col("boxes_are_numbers")).fill_null(True)
    return known.filter(fits).select("video_id", "track_id", "label")


def box_hits(boxes: pl.DataFrame, tracks: pl.DataFrame, first: pl.DataFrame, names: pl.DataFrame) -> dict[str, Any]:
    """Boxes and visits that are right; ``first`` is :func:`birdlab.individuals.matching.first_overlapping`."""
    rows = boxes.select("video_id", "row", "visit_id", split_bird("visit_id").alias("bird"))
    rows = rows.filter(pl.col("bird") != "unknown")
    mine = tracks.select("video_id", pl.col("row").alias("predicted_row"), "track_id").join(
        named_tracks(tracks, names), on=["video_id", "track_id"]
    )
    right = (
        first.join(mine, on=["video_id", "predicted_row"])
        .join(rows, on=["video_id", "row"])
        .filter(pl.col("label") == pl.col("bird"))
        .select("video_id", "row", pl.lit(1).alias("hit"))
    )
    return shares(visits_of(rows, right)) | {"n_named": None, "frame_precision": None}


def video_numbers(
    video: dict[str, Any],
    boxes: pl.DataFrame,
    events: pl.DataFrame,
    tracks: pl.DataFrame,
    names: pl.DataFrame,
    windows: pl.DataFrame,
) -> Iterator[dict[str, Any]]:
    """Rows of ``application`` of one combination in one video; see :func:`birdlab.individuals.documented.video_numbers`."""
    n = int(video["n_frames"])
    about = {"video_id": video["video_id"]}
    minutes = n / FPS / 60
    label = dict(names.filter(pl.col("label") != NOBODY).select("track_id", "label").iter_rows())
    said = windows.filter(pl.col("label") == "Peck").with_columns(
        pl.col("track_id").replace_strict(label, default=None).alias("bird")
    )
    listed = events["label"].unique().sort().to_list()
    for bird in listed:
        mine, theirs = events.filter(pl.col("label") == bird), said.filter(pl.col("bird") == bird)
        yield rate_row(about, bird, mine.height / minutes, theirs.height / minutes)
        there = seconds_with(mine.select("start", "end").iter_rows(), n, WINDOW)
        if there.all() or not there.any():
            continue
        yield f1_row(about, bird, there, seconds_with(theirs.select("start", "end").iter_rows(), n, WINDOW), zero=0.0)
    truth = boxes.select("frame", split_bird("visit_id").alias("bird")).filter(pl.col("bird") != "unknown")
    birds = truth["bird"].unique().sort().to_list()
    code = {bird: k for k, bird in enumerate(birds)}
    named = dict(named_tracks(tracks, names).select("track_id", "label").iter_rows())
    guess = tracks.select("frame", pl.col("track_id").replace_strict(named, default=None).alias("bird"))
    seen, guessed = (_in_view(frame, code) for frame in (truth, guess))
    for i, a in enumerate(birds):
        for j in range(i + 1, len(birds)):
            yield pair_row(about, (a, birds[j]), seen[i, j] / n, guessed[i, j] / n)


def _in_view(boxes: pl.DataFrame, code: dict[str, int]) -> np.ndarray:
    used = boxes.filter(pl.col("bird").is_in(list(code)))
    if used.is_empty() or not code:
        return np.zeros((len(code), len(code)), dtype=np.int64)
    bird = used["bird"].replace_strict(code, return_dtype=pl.Int64).to_numpy()
    return in_view(bird, used["frame"].to_numpy().astype(np.int64), len(code))
