"""Boxes of a tracker laid on boxes of the truth, one to one; and what of a colony the documented protocol counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

IOU = 0.5
CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PAIRS = ("video_id", "row", "predicted_row", "iou")


def has_area() -> pl.Expr:
    """Whether a box has area: its corners the right way round."""
    return (pl.col("xmax") > pl.col("xmin")) & (pl.col("ymax") > pl.col("ymin"))


def documented_view(colony: Colony) -> Colony:
    """The colony as the documented protocol counts it.

    Boxes of the truth without area, of nobody known or written twice are left out; behaviours written twice count once;
    what lies outside its video does not count (boxes, behaviours, windows, rows that a person coded), and a behaviour
    that reaches past the end is clipped. :func:`birdlab.individuals.notices.notices` says how many.
    """
    lengths = colony.videos.select("video_id", "n_frames")
    boxes = colony.boxes.filter(has_area() & pl.col("individual_id").is_not_null())
    boxes = boxes.unique(["video_id", "frame", "visit_id", *CORNERS], keep="first", maintain_order=True)
    events = colony.events.unique(["video_id", "label", "behaviour", "start", "end"], keep="first", maintain_order=True)
    last = pl.col("n_frames") - 1
    events = _inside(events, lengths, first="start", last="end").with_columns(
        pl.col("start").clip(lower_bound=0), pl.min_horizontal("end", last).cast(pl.Int32).alias("end")
    )
    windows = _inside(colony.windows, lengths, first="start", last=pl.max_horizontal("start", pl.col("end") - 1))
    return replace(
        colony,
        boxes=_inside(boxes, lengths, first="frame", last="frame").drop("n_frames"),
        tracks=_inside(colony.tracks, lengths, first="frame", last="frame").drop("n_frames"),
        events=events.drop("n_frames"),
        windows=windows.drop("n_frames"),
        human=_inside(colony.human, lengths, first="frame", last="frame").drop("n_frames"),
    )


def _inside(rows: pl.DataFrame, lengths: pl.DataFrame, *, first: str, last: str | pl.Expr) -> pl.DataFrame:
    """Rows of which a frame from ``first`` to ``last`` lies in their video, with its length (n_frames)."""
    end = pl.col(last) if isinstance(last, str) else last
    both = rows.join(lengths, on="video_id", how="left", maintain_order="left")
    return both.filter((pl.col(first) < pl.col("n_frames")) & (end >= 0))


def match_boxes(truth: pl.DataFrame, predicted: pl.DataFrame, *, iou: float = IOU) -> pl.DataFrame:
    """Pairs of boxes, one to one within each frame, the largest overlap first.

    Args:
        truth: rows of ``colony_boxes``.
        predicted: rows of ``colony_tracks`` of one tracker.
        iou: smallest overlap of a pair, in (0, 1].

    Returns:
        video_id, row, predicted_row, iou. Of equal overlaps the first row of the truth goes first, then the first
        predicted one. A box without area, and the second of two equal rows of the truth, are paired with nothing.

    >>> box = {"video_id": "v", "row": 0, "frame": 0, "xmin": 0.0, "ymin": 0.0, "xmax": 10.0, "ymax": 10.0}
    >>> half = pl.DataFrame([box | {"ymax": 5.0, "track_id": "t", "tracker": "x"}])
    >>> match_boxes(pl.DataFrame([box | {"visit_id": "a_1"}]), half)["iou"].to_list()
    [0.5]
    """
    first = ["video_id", "frame", "visit_id", *CORNERS]
    truth = truth.filter(has_area()).unique(first, keep="first", maintain_order=True)
    mine = predicted.filter(has_area()).select(
        "video_id", "frame", pl.col("row").alias("predicted_row"), *(pl.col(c).alias(f"p_{c}") for c in CORNERS)
    )
    pairs = truth.select("video_id", "frame", "row", *CORNERS).join(mine, on=["video_id", "frame"])
    w = pl.min_horizontal("xmax", "p_xmax") - pl.max_horizontal("xmin", "p_xmin")
    h = pl.min_horizontal("ymax", "p_ymax") - pl.max_horizontal("ymin", "p_ymin")
    both = w.clip(lower_bound=0) * h.clip(lower_bound=0)
    area = (pl.col("xmax") - pl.col("xmin")) * (pl.col("ymax") - pl.col("ymin"))
    other = (pl.col("p_xmax") - pl.col("p_xmin")) * (pl.col("p_ymax") - pl.col("p_ymin"))
    pairs = pairs.with_columns((both / (area + other - both)).alias("iou")).filter(pl.col("iou") >= iou)
    keys = ["video_id", "frame"]
    alone = (pl.len().over(*keys, "row") == 1) & (pl.len().over(*keys, "predicted_row") == 1)
    pairs = pairs.select(*keys, "row", "predicted_row", "iou", alone.alias("alone"))
    rivals = pairs.filter(~pl.col("alone")).sort("iou", "row", "predicted_row", descending=[True, False, False])
    return pl.concat([pairs.filter("alone").select(*_PAIRS), rivals.filter(_greedy(rivals)).select(*_PAIRS)])


def _greedy(rivals: pl.DataFrame) -> pl.Series:
    """Which pairs are taken when each takes its two boxes away, in the order given."""
    taken_truth: set[tuple] = set()
    taken_predicted: set[tuple] = set()
    keep = np.zeros(rivals.height, dtype=bool)
    for i, (video, row, other) in enumerate(rivals.select("video_id", "row", "predicted_row").iter_rows()):
        if (video, row) in taken_truth or (video, other) in taken_predicted:
            continue
        keep[i] = True
        taken_truth.add((video, row))
        taken_predicted.add((video, other))
    return pl.Series(keep)


def first_overlapping(truth: pl.DataFrame, predicted: pl.DataFrame) -> pl.DataFrame:
    """The authors' rule: of every box of the truth the first box of the file that covers more than half of it.

    Returns:
        video_id, row, predicted_row. Overlap is intersection / area of the truth's box in 32-bit floats, as in the
        script; one predicted box may cover several of the truth.
    """
    single = [pl.col(c).cast(pl.Float32) for c in CORNERS]
    mine = predicted.select(
        "video_id", "frame", pl.col("row").alias("predicted_row"),
        *(pl.col(c).cast(pl.Float32).alias(f"p_{c}") for c in CORNERS),
    )  # fmt: skip
    pairs = truth.select("video_id", "frame", "row", *single).join(mine, on=["video_id", "frame"])
    zero = pl.lit(0.0, pl.Float32)
    w = pl.max_horizontal(pl.min_horizontal("xmax", "p_xmax") - pl.max_horizontal("xmin", "p_xmin"), zero)
    h = pl.max_horizontal(pl.min_horizontal("ymax", "p_ymax") - pl.max_horizontal("ymin", "p_ymin"), zero)
    area = (pl.col("xmax") - pl.col("xmin")) * (pl.col("ymax") - pl.col("ymin"))
    covered = pairs.filter((w * h) / area > 0.5)  # x / 0 is no number or infinite; NaN is dropped below
    covered = covered.filter(area.is_finite() & (area != 0))
    return covered.group_by("video_id", "row").agg(pl.col("predicted_row").min())
