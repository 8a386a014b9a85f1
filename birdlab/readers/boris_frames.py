"""From BORIS's seconds to frames: which frame a time is, and events in frames as the colony's tables have them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.errors import ParameterError, Problem
from birdlab.readers.chirp_names import bird_expr

#: Far below a thousandth of a frame, far above the rounding of a product of doubles.
_CRUMB = 1e-6


def frame_of(t: float, fps: float) -> int:
    """The frame nearest to a time, ties upward: floor(t · fps + 1/2).

    BORIS writes the time of a frame rounded to thousandths, and 1.16 · 25 is 28.999999999999996: cutting it off would name
    the frame before.

    Args:
        t: time since the first frame, s, at least 0.
        fps: frame rate, Hz, above 0.

    >>> frame_of(1.16, 25), frame_of(0.0, 25), frame_of(0.02, 25)
    (29, 0, 1)
    """
    return math.floor(t * fps + 0.5 + _CRUMB)


def to_colony_events(
    events: pl.DataFrame, fps: float | Mapping[str, float], *, n_frames: Mapping[str, int] | None = None
) -> pl.DataFrame:
    """Events in seconds as the table ``colony_events``.

    Args:
        events: from :func:`birdlab.readers.boris.read_boris` (several may be put one below the other).
        fps: frame rate, Hz, of all videos or of each.
        n_frames: length of each video, frames; the last frame of an event is at most the last of its video. By default
            events keep the end they have.

    Returns:
        video_id, row (from 0 in each video), label (the subject as in the file), individual_id (null for no focal subject
        and unknown), behaviour, start and end (frames, both included). A point event is one frame. Presence in a bin
        [a, b) of a binary table ends in the frame before b, and has at least one frame.

    Raises:
        ParameterError: a video without a frame rate above 0.
    """
    videos = events["video_id"].unique().sort().to_list()
    rates = {v: fps.get(v) for v in videos} if isinstance(fps, Mapping) else dict.fromkeys(videos, fps)
    bad = [v for v, rate in rates.items() if rate is None or not math.isfinite(rate) or rate <= 0]
    if bad:
        expected = "a frame rate above 0 of every video"
        raise ParameterError(Problem("no_fps", f"none for {', '.join(bad[:5])}", expected, "give it", key="fps"))
    if not videos:
        return schemas.empty("colony_events")
    rate = pl.col("video_id").replace_strict(rates, return_dtype=pl.Float64)
    start, stop = _nearest(pl.col("start_s") * rate), _nearest(pl.col("end_s") * rate)
    end = pl.when(pl.col("kind") == "bins").then(stop - 1).otherwise(stop)
    out = events.with_columns(start=start, end=end, label=pl.col("subject"))
    if n_frames is not None:
        last = pl.col("video_id").replace_strict({v: n_frames.get(v) for v in videos}, return_dtype=pl.Int64) - 1
        out = out.with_columns(start=pl.min_horizontal("start", last), end=pl.min_horizontal("end", last))
    # Bins narrower than a frame would otherwise end before they begin.
    out = out.with_columns(end=pl.max_horizontal("start", "end"))
    out = out.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).over("video_id").alias("row"))
    unringed = pl.when(pl.col("individual_id").is_not_null()).then(bird_expr("label"))
    out = out.with_columns(individual_id=unringed).select(list(schemas.empty("colony_events").schema))
    return out.cast(dict(schemas.empty("colony_events").schema))


def _nearest(frame: pl.Expr) -> pl.Expr:
    return (frame + 0.5 + _CRUMB).floor().cast(pl.Int64)


def presence(events: pl.DataFrame, *, fps: float, n_frames: int) -> np.ndarray:
    """In which frames of one video one behaviour of one bird is coded.

    Args:
        events: rows of :func:`birdlab.readers.boris.read_boris` of one video, bird and behaviour.
        fps: frame rate, Hz.
        n_frames: length of the video, frames.

    Returns:
        Booleans, (n_frames,): however fine the bins of a binary table are, a video has as many frames as it has.
    """
    out = np.zeros(n_frames, dtype=bool)
    for start, end in to_colony_events(events, fps).select("start", "end").iter_rows():
        out[start : end + 1] = True
    return out
