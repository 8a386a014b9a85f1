"""Birds followed through a video: detections of any model, joined to tracks by ByteTrack or BoT-SORT of ultralytics."""

from __future__ import annotations

import importlib.util
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.inference.weights import missing_package, versions
from birdlab.readers.mot import write_mot
from birdlab.shards import write_atomic

#: Part of the key of finished shards: raise it when the same detections would give other tracks.
VERSION = 1
#: Settings of both trackers: the library's own, written out so that a newer library does not change them. Frames are
#: those of the study; a track that is not seen for ``track_buffer`` of them ends.
SETTINGS: dict[str, Any] = {
    "track_high_thresh": 0.25,
    "track_low_thresh": 0.0,  # the recipe's ``conf`` decides what the tracker sees
    "new_track_thresh": 0.25,
    "track_buffer": 30,
    "match_thresh": 0.8,
    "fuse_score": True,
}
#: BoT-SORT's own: neither motion of the camera nor appearance. The cameras of a study stand still, and what flutters in
#: a picture is taken for motion of the camera.
BOTSORT = {"gmc_method": "none", "proximity_thresh": 0.5, "appearance_thresh": 0.8, "with_reid": False, "model": "auto"}
NAMES = {"bytetrack": "ByteTrack", "botsort": "BoT-SORT"}
FOLLOWED = pl.Schema(
    {
        "tracker": pl.String,
        "media_id": pl.String,
        "video_id": pl.String,
        "frame_id": pl.String,
        "frame_index": pl.Int32,
        "track_id": pl.String,
        "category": pl.String,
        "x": pl.Float64,
        "y": pl.Float64,
        "w": pl.Float64,
        "h": pl.Float64,
        "score": pl.Float64,
        "prediction_id": pl.String,
    }
)
#: One row per tracker and video, also where nothing was followed.
VIDEOS = pl.Schema(
    {
        "tracker": pl.String,
        "media_id": pl.String,
        "video_id": pl.String,
        "n_frames": pl.Int64,
        "n_failed": pl.Int64,
        "n_outside": pl.Int64,
        "n_loose": pl.Int64,
        "seconds": pl.Float64,
    }
)
TABLE = pl.Schema(
    {
        "tracker": pl.String,
        "media_id": pl.String,
        "frames": pl.Int64,
        "tracks": pl.Int64,
        "boxes": pl.Int64,
        "median_length": pl.Float64,
        "frames_with": pl.Int64,
        "fps": pl.Float64,
    }
)


@dataclass(frozen=True)
class Tracks:
    """Tracks of one video: rows as :data:`FOLLOWED` without names of tracker and files; boxes that lay outside the
    frame and were left out; detections that are part of no track; seconds that the tracker took.
    """

    rows: pl.DataFrame
    n_outside: int
    n_loose: int
    seconds: float


def settings(tracker: str, **own: Any) -> dict[str, Any]:
    """All settings of a tracker, by the library's names; ``own`` replaces some.

    >>> settings("bytetrack", track_buffer=50)["track_buffer"], settings("botsort")["gmc_method"]
    (50, 'none')
    """
    return SETTINGS | (BOTSORT if tracker == "botsort" else {}) | own | {"tracker_type": tracker}


def environment() -> list[Any]:
    """What, beside detections and settings, can change a track: part of the key of finished shards."""
    return [VERSION, *versions("ultralytics", "lap", "numpy", "scipy")]


def follow_video(
    frames: pl.DataFrame, detections: pl.DataFrame, options: dict[str, Any], *, conf: float, cache: Path
) -> Tracks:
    """Join the detections of one video to tracks.

    The tracker starts anew with every call and takes the frames as consecutive, whatever lies between them. A frame
    without detections counts as one in which nothing was seen. Categories do not matter to it; a box has that of its
    detection. A track that begins after the first frame is reported from its second box on; a bird that is not seen is
    not reported.

    Args:
        frames: frame_id, frame_index, width_px, height_px of the video, in order.
        detections: frame_id, prediction_id, category, score, x, y, w, h (px); the order within a frame decides ties.
        options: of the tracker, from :func:`settings`.
        conf: lowest confidence that the tracker sees, in [0, 1].
        cache: folder for what the library writes of its own accord.

    Returns:
        The tracks, ids "1", "2" … in the order in which they begin. Boxes are the tracker's (its filter smooths those
        of the detector), cut at the edge of the frame.

    Raises:
        ParameterError: ultralytics or lap is not installed.

    Zhang et al. (2022) ByteTrack; Aharon et al. (2022) BoT-SORT.
    """
    follower = _tracker(options, cache)
    of = detections.filter(pl.col("score") >= conf).partition_by("frame_id", as_dict=True, maintain_order=True)
    nothing, known = detections.clear(), set(frames["frame_id"])
    rows: list[tuple] = []
    outside, started = 0, time.perf_counter()
    for frame_id, index, width, height in frames.select("frame_id", "frame_index", "width_px", "height_px").iter_rows():
        seen = of.get((frame_id,), nothing)
        found = follower.update(_boxes(seen, (height or 0, width or 0)))
        named = seen.select("category", "prediction_id").rows()
        for x0, y0, x1, y1, track, score, _, place in sorted(found.tolist(), key=lambda row: row[4]):
            box = _inside((x0, y0, x1, y1), width, height)
            if box is None:
                outside += 1
                continue
            category, prediction = named[int(place)]
            rows.append((frame_id, index, str(int(track)), category, *box, score, prediction))
    seconds = time.perf_counter() - started
    schema = {k: v for k, v in FOLLOWED.items() if k not in ("tracker", "media_id", "video_id")}
    seen = sum(part.height for (frame_id,), part in of.items() if frame_id in known)
    return Tracks(pl.DataFrame(rows, schema=schema, orient="row"), outside, seen - len(rows) - outside, seconds)


def _tracker(options: dict[str, Any], cache: Path) -> Any:
    from birdlab.inference.checkpoint import import_ultralytics
    from birdlab.inference.ultralytics_adapter import prepare_environment

    prepare_environment(cache)
    # Without it the library would try to install it.
    if importlib.util.find_spec("lap") is None:
        raise missing_package("lap", "to follow birds through a video")
    try:
        import_ultralytics()
        from ultralytics.trackers.bot_sort import BOTSORT as BotSort
        from ultralytics.trackers.byte_tracker import BYTETracker
    except ImportError as error:
        raise missing_package(error.name or "ultralytics", "to follow birds through a video") from error
    kind = BotSort if options["tracker_type"] == "botsort" else BYTETracker
    return kind(SimpleNamespace(**options))


def _boxes(seen: pl.DataFrame, shape: tuple[int, int]) -> Any:
    from ultralytics.engine.results import Boxes

    x, y, w, h, score = (seen[c].to_numpy() for c in ("x", "y", "w", "h", "score"))
    return Boxes(np.stack([x, y, x + w, y + h, score, np.zeros(len(x))], axis=1).astype(np.float32), shape)


def _inside(box: tuple[float, ...], width: int | None, height: int | None) -> tuple[float, float, float, float] | None:
    """x, y, w, h of a box cut at the edge of the frame (where its size is known); None where nothing is left."""
    right, low = width or float("inf"), height or float("inf")
    x0, x1 = (min(max(v, 0.0), right) for v in box[::2])
    y0, y1 = (min(max(v, 0.0), low) for v in box[1::2])
    return (x0, y0, x1 - x0, y1 - y0) if x1 > x0 and y1 > y0 else None


def follow_table(followed: pl.DataFrame, videos: pl.DataFrame) -> pl.DataFrame:
    """What was followed: one row per tracker and video, in the order of ``videos``.

    Args:
        followed: as :data:`FOLLOWED`.
        videos: as :data:`VIDEOS`.

    Returns:
        tracker, media_id, frames, tracks, boxes, median_length (boxes per track; null without a track), frames_with (at
        least one track), fps (of the tracker alone; null where nothing was timed).
    """
    keys = ["tracker", "media_id"]
    lengths = followed.group_by(*keys, "track_id").len()
    tracks = lengths.group_by(keys).agg(pl.len().alias("tracks"), pl.col("len").median().alias("median_length"))
    boxes = followed.group_by(keys).agg(pl.len().alias("boxes"), pl.col("frame_index").n_unique().alias("frames_with"))
    fps = pl.when(pl.col("seconds") > 0).then(pl.col("n_frames") / pl.col("seconds"))
    table = videos.join(tracks, on=keys, how="left", maintain_order="left")
    table = table.join(boxes, on=keys, how="left", maintain_order="left")
    counts = (pl.col(c).fill_null(0) for c in ("tracks", "boxes", "frames_with"))
    table = table.with_columns(*counts, pl.col("n_frames").alias("frames"), fps.alias("fps"))
    return table.select(list(TABLE)).cast(dict(TABLE))


def video_names(media_ids: Iterable[str]) -> dict[str, str]:
    """Short names of videos: the file's name without its suffix, with its folders where two have the same.

    >>> video_names(["a/x.mp4", "b/x.mp4", "b/y.mp4"])
    {'a/x.mp4': 'a__x', 'b/x.mp4': 'b__x', 'b/y.mp4': 'y'}
    """
    paths = {media_id: PurePosixPath(media_id) for media_id in media_ids}
    stems = Counter(path.stem for path in paths.values())
    long = {k: "__".join(p.with_suffix("").parts) for k, p in paths.items()}
    names = {k: p.stem if stems[p.stem] == 1 else long[k] for k, p in paths.items()}
    taken = Counter(names.values())
    return {k: name if taken[name] == 1 else "__".join(paths[k].parts) for k, name in names.items()}


def as_colony(followed: pl.DataFrame, videos: pl.DataFrame) -> pl.DataFrame:
    """Tracks as the table ``colony_tracks``; a video has the name that :func:`video_names` gives its file."""
    names = _names(videos)
    row = pl.int_range(pl.len()).over("tracker", "media_id").alias("row")
    corners = {"xmin": pl.col("x"), "ymin": pl.col("y"), "xmax": pl.col("x") + pl.col("w")}
    corners |= {"ymax": pl.col("y") + pl.col("h"), "frame": pl.col("frame_index")}
    named = pl.col("media_id").replace_strict(names, return_dtype=pl.String).alias("video_id")
    made = followed.with_columns(named, row, **corners).select(list(schemas.TABLES["colony_tracks"].dtypes))
    return schemas.validate("colony_tracks", made)


def as_colony_windows(rows: pl.DataFrame, videos: pl.DataFrame) -> pl.DataFrame:
    """Named windows as the table ``colony_windows``, with their probability; videos as in :func:`as_colony`."""
    named = pl.col("media_id").replace_strict(_names(videos), return_dtype=pl.String).alias("video_id")
    columns = list(schemas.TABLES["colony_windows"].dtypes)
    return schemas.validate("colony_windows", rows.with_columns(named).select(*columns, "probability"))


def _names(videos: pl.DataFrame) -> dict[str, str]:
    return video_names(videos["media_id"].unique(maintain_order=True).to_list())


def export_mot(followed: pl.DataFrame, videos: pl.DataFrame, folder: Path) -> list[Path]:
    """Write MOT text ``<folder>/<tracker>/<video>.txt``, an empty file where nothing was followed.

    Frames count from 1 there: the first frame of the file is 1, whichever frames of it the study looks at.
    """
    names = _names(videos)
    corners = {"xmax": pl.col("x") + pl.col("w"), "ymax": pl.col("y") + pl.col("h")}
    boxes = followed.with_columns(**corners).rename({"frame_index": "frame", "x": "xmin", "y": "ymin"})
    written = []
    for tracker, media_id in videos.select("tracker", "media_id").iter_rows():
        path = folder / tracker / f"{names[media_id]}.txt"
        text = write_mot(boxes.filter((pl.col("tracker") == tracker) & (pl.col("media_id") == media_id)))
        write_atomic(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
        written.append(path)
    return written
