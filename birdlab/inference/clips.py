"""Windows of tracks, cut out of the video and named by a clip classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError
from birdlab.inference.worker import Failures, ask

if TYPE_CHECKING:
    from birdlab.inference.clip_network import ClipNetwork
    from birdlab.recipe import ClipClassifier

WINDOWS = pl.Schema(
    {
        "model": pl.String,
        "tracker": pl.String,
        "media_id": pl.String,
        "video_id": pl.String,
        "track_id": pl.String,
        "start": pl.Int32,
        "end": pl.Int32,
        "label": pl.String,
        "probability": pl.Float64,
        "n_missing": pl.Int64,
    }
)
#: Columns that one video gives.
PART = pl.Schema({k: v for k, v in WINDOWS.items() if k not in ("model", "tracker", "media_id", "video_id")})


@dataclass
class Labelled:
    """Windows of one video that were named, and those that were not."""

    rows: pl.DataFrame
    n_tails: int  #: rests of tracks, shorter than a window
    n_unread: int  #: windows with a frame that cannot be read
    n_failed: int  #: windows that made the network fail
    messages: list[str] = field(default_factory=list)  #: why, each once


def windows(tracks: pl.DataFrame, frames: pl.DataFrame, size: int) -> tuple[pl.DataFrame, int]:
    """Cut the tracks of one video into windows of ``size`` boxes each.

    Boxes of a track follow each other as they come, also across frames in which the bird was not seen (as CHIRP's script
    takes them); ``n_missing`` says how many of the study's frames lie inside a window without a box. A rest of fewer than
    ``size`` boxes gives no window.

    Args:
        tracks: frame_id, frame_index, track_id, x, y, w, h of one video.
        frames: the video's frames in the study, in order (frame_id).
        size: boxes in a window, at least 1.

    Returns:
        ``tracks`` with ``window`` (0, 1 … within its track), ``place`` (0 to size - 1), ``start``, ``end`` (the frame after
        the last one) and ``n_missing``, without the rests; and the number of rests.
    """
    order = frames.select("frame_id").with_row_index("position")
    rows = tracks.join(order, on="frame_id", how="inner").sort("track_id", "position", maintain_order=True)
    at = pl.int_range(pl.len()).over("track_id")
    rows = rows.with_columns((at // size).alias("window"), (at % size).alias("place"))
    one, n = ["track_id", "window"], pl.len().over("track_id", "window")
    span = pl.col("position").cast(pl.Int64)
    rows = rows.with_columns(
        n.alias("n"),
        pl.col("frame_index").min().over(one).alias("start"),
        (pl.col("frame_index").max().over(one) + 1).alias("end"),
        (span.max().over(one) - span.min().over(one) + 1 - n).alias("n_missing"),
    )
    rests = rows.filter(pl.col("n") < size).select(one).n_unique()
    return rows.filter(pl.col("n") == size).sort("position", "track_id", maintain_order=True).drop("n"), rests


def crop(image: np.ndarray, box: tuple[float, float, float, float], size: int, *, pad: str = "centre") -> np.ndarray:
    """The bird in its box as a square: RGB uint8 array of shape (size, size, 3).

    The box is widened to whole pixels and cut at the edge of the frame, its shorter side filled up with black, and the
    square resized (bilinear).

    Args:
        image: BGR uint8 array of shape (H, W, 3).
        box: left, top, width, height, px.
        size: side of the result, px.
        pad: ``centre`` puts the crop into the middle (an odd pixel more of black right or below), ``corner`` into the
            upper left corner.

    >>> white = np.full((4, 4, 3), 255, np.uint8)
    >>> crop(white, (1, 0, 1, 2), 2, pad="corner")[..., 0].tolist()
    [[255, 0], [255, 0]]
    """
    import cv2

    height, width = image.shape[:2]
    left, top = min(max(0, math.floor(box[0])), width - 1), min(max(0, math.floor(box[1])), height - 1)
    right = min(max(left + 1, math.ceil(box[0] + box[2])), width)
    low = min(max(top + 1, math.ceil(box[1] + box[3])), height)
    side = max(right - left, low - top)
    free = (side - (low - top), side - (right - left)) if pad == "centre" else (0, 0)
    square = np.zeros((side, side, 3), np.uint8)
    down, across = free[0] // 2, free[1] // 2
    square[down : down + low - top, across : across + right - left] = image[top:low, left:right, ::-1]
    return cv2.resize(square, (size, size), interpolation=cv2.INTER_LINEAR)


def label_windows(
    tracks: pl.DataFrame,
    frames: pl.DataFrame,
    media: pl.DataFrame,
    network: ClipNetwork,
    spec: ClipClassifier,
    *,
    batch: int,
) -> Labelled:
    """Name the behaviour in every window of the tracks of one video.

    Args:
        tracks: rows of the video and tracker, as :data:`birdlab.inference.follow.FOLLOWED`.
        frames: rows of the ``frames`` table of the video, in order.
        media: the ``media`` table.
        network: the loaded classifier.
        spec: its section of the recipe.
        batch: windows at a time.

    Returns:
        Rows as :data:`PART`, by track and start. The label is the one of highest probability, the first of equal ones.
    """
    rows, n_tails = windows(tracks, frames, spec.frames)
    known = rows.unique(["track_id", "window"], keep="first", maintain_order=True)
    about = {(r["track_id"], r["window"]): r for r in known.to_dicts()}
    unread: set[tuple[str, int]] = set()
    failures: Failures = {}
    named: list[dict[str, Any]] = []
    messages: dict[str, None] = {}
    keys = {str(i): key for i, key in enumerate(about)}
    names = {key: name for name, key in keys.items()}

    def run(group: list[tuple[str, np.ndarray]]) -> None:
        for name, row in ask(lambda clips: list(network.probabilities(np.stack(clips))), group, failures):
            best = int(np.argmax(row))
            said = {"label": network.labels[best], "probability": float(row[best])}
            named.append({c: about[keys[name]][c] for c in ("track_id", "start", "end", "n_missing")} | said)

    pending: list[tuple[str, np.ndarray]] = []
    for key, clip in _clips(rows, frames, media, spec, (unread, messages)):
        pending.append((names[key], clip))
        if len(pending) == batch:
            run(pending)
            pending = []
    if pending:
        run(pending)
    messages |= dict.fromkeys(message for _, message in failures.values())
    made = pl.DataFrame(named, schema=PART).sort(pl.col("track_id").str.len_bytes(), "track_id", "start")
    return Labelled(made, n_tails, len(unread), len(failures), list(messages))


def _clips(
    rows: pl.DataFrame,
    frames: pl.DataFrame,
    media: pl.DataFrame,
    spec: ClipClassifier,
    bad: tuple[set[tuple[str, int]], dict[str, None]],
) -> Iterator[tuple[tuple[str, int], np.ndarray]]:
    """Whole windows as C x T x H x W, RGB uint8, in the order in which they end; the video is read once."""
    from birdlab.inference.feed import ahead
    from birdlab.inference.worker import one_line
    from birdlab.readers.pixels import iter_frames

    boxes = rows.partition_by("frame_id", as_dict=True, maintain_order=True)
    wanted = frames.filter(pl.col("frame_id").is_in(rows["frame_id"].unique().to_list()))
    filling: dict[tuple[str, int], np.ndarray] = {}
    for frame_id, image in ahead(iter_frames(wanted, media), 4):
        for row in boxes[frame_id,].iter_rows(named=True):
            key = (row["track_id"], row["window"])
            if isinstance(image, DataError):
                bad[0].add(key)
                bad[1][one_line(image)] = None
                filling.pop(key, None)
            if key in bad[0]:
                continue
            clip = filling.setdefault(key, np.empty((3, spec.frames, spec.imgsz, spec.imgsz), np.uint8))
            part = crop(image, (row["x"], row["y"], row["w"], row["h"]), spec.imgsz, pad=spec.pad)
            clip[:, row["place"]] = part.transpose(2, 0, 1)
            if row["place"] == spec.frames - 1:
                yield key, filling.pop(key)
