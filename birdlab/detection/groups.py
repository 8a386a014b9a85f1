"""Recall and precision by session, site and size with their two intervals; false alarms; thinned frames.

Everything here takes the matches of one model at one confidence and gives rows of the table ``metrics``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab import stats
from birdlab.detection.boxes import RELATIVE_BINS, relative_size
from birdlab.detection.scores import NO_BIRD, NO_DETECTION
from birdlab.metrics import metric_row

#: Video frames of one session this close together are one cluster: seconds.
BLOCK_S = 10.0
#: Said where no frame without a bird was looked at.
ONLY_WHERE_A_BIRD_IS = "no empty frame was looked at: precision here only holds where a bird is present"
NO_SITE = "no site is named"
#: measure -> (outcomes of the numerator, of the denominator, why it may be undefined)
_SHARES: dict[str, tuple[list[str], list[str], str]] = {
    "recall": (["tp"], ["tp", "fn"], NO_BIRD),
    "precision": (["tp"], ["tp", "fp"], NO_DETECTION),
}


def clusters(frames: pl.DataFrame, *, block_s: float = BLOCK_S) -> pl.DataFrame:
    """Which frames belong together: frame_id, block, session, site.

    Args:
        frames: table ``frames``.
        block_s: video frames of one session within the same ``block_s`` seconds of its clock are one block; a frame
            without a time, and every photograph, is a block of its own.

    Returns:
        One row per frame in order; ``block`` is an Int64 code, ``session`` the ``video_id``, ``site`` may be null.
    """
    is_video = (pl.col("frame_id") != pl.col("media_id")) & pl.col("time_s").is_not_null()
    place = pl.struct(
        pl.col("video_id"),
        pl.when(is_video).then((pl.col("time_s") / block_s).floor()).otherwise(None).alias("n"),
        pl.when(is_video).then(None).otherwise(pl.col("frame_id")).alias("f"),
    )
    return frames.select(
        "frame_id", place.rank("dense").cast(pl.Int64).alias("block"), session="video_id", site="site_id"
    )


def highest_level(frames: pl.DataFrame) -> str:
    """``site`` when every frame has one and there are at least two, else ``session``: what new ones are counted in.

    >>> highest_level(schemas.empty("frames"))
    'session'
    """
    sites = frames["site_id"]
    return "site" if frames.height and not sites.has_nulls() and sites.n_unique() >= 2 else "session"


def thin(frames: pl.DataFrame, min_gap_s: float) -> pl.DataFrame:
    """Frames of each session at least ``min_gap_s`` seconds apart, taken greedily from the first one.

    Args:
        frames: table ``frames``.
        min_gap_s: smallest distance on the session's clock, s.

    Returns:
        The frames kept, in the order given. Frames without a time are left out: how far apart they are is unknown.

    >>> f = pl.DataFrame({"frame_id": ["a", "b", "c"], "video_id": "s", "time_s": [0.0, 1.0, 2.0], "frame_index": [0, 1, 2]})
    >>> thin(f, 2.0)["frame_id"].to_list()
    ['a', 'c']
    """
    keep: list[str] = []
    timed = frames.drop_nulls("time_s").sort("video_id", "time_s", "frame_index", "frame_id")
    session, last = None, 0.0
    for frame_id, video_id, time_s in timed.select("frame_id", "video_id", "time_s").iter_rows():
        if video_id != session or time_s - last >= min_gap_s - 1e-9:  # times such as 0.7 - 0.4 are not exact
            keep.append(frame_id)
            session, last = video_id, time_s
    return frames.filter(pl.col("frame_id").is_in(keep))


def thinning_distance(frames: pl.DataFrame, asked: float | None) -> float:
    """How far apart thinned frames are to be, s; 0 for no thinning.

    Args:
        frames: table ``frames``.
        asked: the recipe's ``thin_s``; ``None`` for :data:`BLOCK_S` where two frames of a session lie closer than that.

    >>> f = pl.DataFrame({"video_id": ["v", "v", "w"], "time_s": [0.0, 4.0, 5.0]})
    >>> thinning_distance(f, None), thinning_distance(f[1:], None), thinning_distance(f, 2.0)
    (10.0, 0.0, 2.0)
    """
    if asked is not None:
        return asked
    timed = frames.drop_nulls("time_s").sort("video_id", "time_s")
    gaps = timed.select(pl.col("time_s").diff().over("video_id"))["time_s"]
    return BLOCK_S if (gaps < BLOCK_S).any() else 0.0


def shares(
    matches: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    method: str,
    group: str = "all",
    level: str | None = None,
    block_s: float = BLOCK_S,
) -> list[dict[str, Any]]:
    """Counts, recall, precision and F1, with both intervals of the first two, for each level of a group.

    Args:
        matches: table ``matches`` of one model at one confidence.
        frames: table ``frames``, the ones scored; a level without a match still has its rows.
        method: settings; intervals append ``; within_sessions`` and ``; new_sessions``.
        group: ``all``, ``session`` or ``site``.
        level: name of the only level (``all`` if not given), for group ``all`` or a name of your own.
        block_s: see :func:`clusters`.

    Returns:
        Rows for tp, fp, fn, f1, recall and precision. Undefined values are null with a reason. For sites none of
        which is named: one row that says so.
    """
    unit = highest_level(frames)
    where = clusters(frames, block_s=block_s).with_columns(top="site" if unit == "site" else "session")
    found = matches.select("frame_id", pl.col("outcome").cast(pl.String)).join(where, on="frame_id", how="inner")
    if group not in ("session", "site"):
        return _level_rows(found, method=method, group=group, level=level or "all", unit=unit)
    names = where[group].drop_nulls().unique().sort().to_list()
    if not names:
        return [metric_row(metric="recall", group=group, method=method, reason=NO_SITE)]
    rows: list[dict[str, Any]] = []
    for name in names:
        part = found.filter(pl.col(group) == name).with_columns(top="session")
        rows += _level_rows(part, method=method, group=group, level=name, unit="session")
    return rows


def _level_rows(found: pl.DataFrame, *, method: str, group: str, level: str, unit: str) -> list[dict[str, Any]]:
    n = dict(found.group_by("outcome").len().iter_rows())
    tp, fp, fn = (n.get(o, 0) for o in ("tp", "fp", "fn"))
    at = {"group": group, "level": level, "method": method}
    rows = [metric_row(metric=o, value=float(n.get(o, 0)), n=tp + fp + fn, **at) for o in ("tp", "fp", "fn")]
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fn else None
    rows.append(metric_row(metric="f1", value=f1, n=tp + fp + fn, reason=None if tp + fn else NO_BIRD, **at))
    for metric, (top, bottom, why) in _SHARES.items():
        used = found.filter(pl.col("outcome").is_in(bottom)).with_columns(k=pl.col("outcome").is_in(top).cast(pl.Int64))
        rows += share_rows(used, metric=metric, why=why, unit=unit, **at)
    return rows


def share_rows(
    used: pl.DataFrame, *, metric: str, why: str, unit: str, group: str, level: str, method: str
) -> list[dict[str, Any]]:
    """Three rows for a share: the value, then the value with each interval.

    Args:
        used: one row per trial with k (0 or 1), block and top (the cluster for new sessions or sites).
        metric, group, level, method: key of the rows.
        why: reason where there is no trial.
        unit: what ``top`` is.
    """
    total = used.height
    value = int(used["k"].sum()) / total if total else None
    at = {"metric": metric, "group": group, "level": level, "value": value, "n": total}
    rows = [metric_row(method=method, reason=None if total else why, **at)]
    by_block, by_top = (used.group_by(c).agg(pl.col("k").sum(), pl.len().alias("n")).sort(c) for c in ("block", "top"))
    intervals = (
        stats.within_sessions(by_block["k"], by_block["n"]),
        stats.new_sessions(by_top["k"], by_top["n"], unit=unit),
    )
    for i in intervals:
        reason = i.reason if total else why
        rows.append(
            metric_row(method=f"{method}; {i.kind}", lo=i.lo, hi=i.hi, n_clusters=i.n_clusters, reason=reason, **at)
        )
    return rows


def recall_by_size(
    matches: pl.DataFrame, labels: pl.DataFrame, frames: pl.DataFrame, *, method: str, block_s: float = BLOCK_S
) -> list[dict[str, Any]]:
    """Recall by relative size (Western Bluebird, Eq. 1) with both intervals, bins [lo, hi).

    Args:
        matches: table ``matches`` of one model at one confidence.
        labels: table ``labels``.
        frames: table ``frames``, the ones scored; a bird in a frame of unknown size is in no bin.
        method: settings.
        block_s: see :func:`clusters`.

    Returns:
        Three rows per bin that holds a bird, and one row, null with its reason, per bin that holds none.
    """
    unit = highest_level(frames)
    where = clusters(frames, block_s=block_s).with_columns(top="site" if unit == "site" else "session")
    size = frames.select("frame_id", "width_px", "height_px")
    birds = matches.filter(pl.col("outcome").is_in(["tp", "fn"])).select(
        "frame_id", "label_id", k=(pl.col("outcome") == "tp").cast(pl.Int64)
    )
    birds = (
        birds.join(labels.select("label_id", "w", "h"), on="label_id")
        .join(size, on="frame_id")
        .join(where, on="frame_id")
    )
    birds = birds.with_columns(s=relative_size(pl.col("w"), pl.col("h"), pl.col("width_px"), pl.col("height_px")))
    rows: list[dict[str, Any]] = []
    for b in RELATIVE_BINS:
        inside = birds.filter(
            (pl.col("s") >= b.lo) & ((pl.col("s") < b.hi) | (pl.lit(b.hi == 1.0) & (pl.col("s") == 1.0)))
        )
        at = {"group": "relative_size", "level": b.level}
        if inside.is_empty():
            rows.append(metric_row(metric="recall", n=0, method=method, reason="no labelled bird of this size", **at))
        else:
            rows += share_rows(inside, metric="recall", why=NO_BIRD, unit=unit, method=method, **at)
    return rows


def false_alarms(
    matches: pl.DataFrame, frames: pl.DataFrame, *, method: str, block_s: float = BLOCK_S
) -> list[dict[str, Any]]:
    """False alarms per 1,000 empty frames, share of empty frames with one, and false positives per hour of video.

    Args:
        matches: table ``matches`` of one model at one confidence.
        frames: table ``frames``, the ones scored. An hour of video looked at is the number of scored frames of a
            session times the median distance between them, so the rate holds for this sampling of frames.
        method: settings.
        block_s: see :func:`clusters`.

    Returns:
        Rows ``false_alarms_per_1000_empty_frames`` (0 or more, lower is better), ``empty_frames_with_alarm`` (share,
        with both intervals) and ``false_alarms_per_hour``. Without an empty frame all are null, and the reason is
        that precision only holds where a bird is present; without timed video frames the last one is null.
    """
    empty = frames.filter(pl.col("label_state") == "empty")
    if empty.is_empty():
        names = ("false_alarms_per_1000_empty_frames", "empty_frames_with_alarm", "false_alarms_per_hour")
        return [metric_row(metric=m, n=0, method=method, reason=ONLY_WHERE_A_BIRD_IS) for m in names]
    false = matches.filter(pl.col("outcome") == "fp")
    on_empty = false.join(empty.select("frame_id"), on="frame_id", how="semi")
    rate = 1000 * on_empty.height / empty.height
    rows = [metric_row(metric="false_alarms_per_1000_empty_frames", value=rate, n=empty.height, method=method)]
    unit = highest_level(frames)
    where = clusters(empty, block_s=block_s).with_columns(top="site" if unit == "site" else "session")
    used = where.with_columns(k=pl.col("frame_id").is_in(on_empty["frame_id"].to_list()).cast(pl.Int64))
    rows += share_rows(
        used, metric="empty_frames_with_alarm", why=NO_BIRD, unit=unit, group="all", level="all", method=method
    )
    video, hours = looked_at(frames)
    at = {"metric": "false_alarms_per_hour", "method": method, "n": video.height}
    if not hours:
        return [*rows, metric_row(reason="no video frames with times: there are no hours to count", **at)]
    n = false.join(video.select("frame_id"), on="frame_id", how="semi").height
    return [*rows, metric_row(value=n / hours, **at)]


def looked_at(frames: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """Timed video frames of sessions with at least two, and the hours they stand for.

    Each session counts its number of frames times the median distance between neighbouring ones.
    """
    video = frames.filter((pl.col("frame_id") != pl.col("media_id")) & pl.col("time_s").is_not_null())
    video = video.filter(pl.len().over("video_id") > 1)
    seconds = 0.0
    for part in video.partition_by("video_id"):
        gaps = np.diff(np.sort(part["time_s"].to_numpy()))
        seconds += part.height * float(np.median(gaps))
    return video, seconds / 3600
