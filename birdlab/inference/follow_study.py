"""From the recipe's section ``tracking`` to tracks through the study's videos and named windows of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.inference import clip_network
from birdlab.inference.clips import PART, WINDOWS, label_windows
from birdlab.inference.follow import FOLLOWED, NAMES, VIDEOS, environment, export_mot, follow_video, settings
from birdlab.inference.timing import NOTICES
from birdlab.progress import progress
from birdlab.recipe import ClipClassifier, Tracking
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, write_atomic

if TYPE_CHECKING:
    from birdlab.inference.weights import Weights
    from birdlab.study import Run

#: Columns of a part of tracks.
TRACK_PART = pl.Schema({k: v for k, v in FOLLOWED.items() if k not in ("tracker", "media_id", "video_id")})


@dataclass(frozen=True)
class _Video:
    """One video: its frames in order, the detector's boxes, and the frames on which the detector failed."""

    media_id: str
    video_id: str
    frames: pl.DataFrame
    detections: pl.DataFrame
    failed: list[str]


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``followed``, ``follow_videos``, ``follow_windows`` and ``follow_notices``.

    Every video file is followed by itself, from the predictions of one detector, and finished ones in
    ``<run>/shards/`` are read, not followed again. The tracks also go to ``<run>/tracks/<tracker>/<video>.txt`` (MOT
    text). All tables are empty where the recipe has no section ``tracking``.

    Raises:
        DataError: weights of a classifier are missing, not as promised, or do not fit its settings.
        ParameterError: a package or the device is missing.
    """
    section = run.recipe.tracking
    if section is None:
        return _tables([], [], [], [])
    weights = {c.name: clip_network.find_clip_weights(c, run.base, run.data_root) for c in section.classifiers}
    frames, media = run.table("frames"), run.table("media")
    videos = _videos(run, section, frames, media)
    followed, said, notices = [], [], _study_notices(section, videos, media)
    for tracker in section.trackers:
        rows, about = _follow(run, section, tracker, videos)
        followed.append(rows)
        said.append(about)
        notices += _tracker_notices(tracker, rows, about)
    tracks = pl.concat([FOLLOWED.to_frame(), *followed])
    named = []
    for spec in section.classifiers:
        rows, more = _label(run, section, spec, weights[spec.name], videos, tracks, media)
        named.append(rows)
        notices += more
    tables = _tables(followed, said, named, notices)
    export_mot(tables["followed"], tables["follow_videos"], run.dir / "tracks")
    return tables


def _tables(followed: list, videos: list, windows: list, notices: list[tuple]) -> dict[str, pl.DataFrame]:
    return {
        "followed": pl.concat([FOLLOWED.to_frame(), *followed]),
        "follow_videos": pl.concat([VIDEOS.to_frame(), *videos]),
        "follow_windows": pl.concat([WINDOWS.to_frame(), *windows]),
        "follow_notices": pl.DataFrame(notices, schema=NOTICES, orient="row"),
    }


def _videos(run: Run, section: Tracking, frames: pl.DataFrame, media: pl.DataFrame) -> list[_Video]:
    named = pl.col("model") == section.detector
    predictions = run.table("predictions").filter(named).sort("frame_id", "rank", nulls_last=True, maintain_order=True)
    of = predictions.select("frame_id", "prediction_id", "category", "score", "x", "y", "w", "h")
    failed = run.table("failures").filter(named)["frame_id"].implode()
    out = []
    for media_id, video_id in media.filter(pl.col("kind") == "video").select("media_id", "video_id").iter_rows():
        mine = frames.filter(pl.col("media_id") == media_id).sort("frame_index")
        if mine.height:
            seen = of.join(mine.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
            lost = mine.filter(pl.col("frame_id").is_in(failed))["frame_id"].to_list()
            out.append(_Video(media_id, video_id, mine, seen, lost))
    return out


def _shards(videos: list[_Video], content: Callable[[_Video], list[Any]]) -> list[Shard]:
    """One piece of work per video; its payload is the video's number and a key of all that it is made from."""
    return [
        Shard(f"{i:05d}", [i, v.media_id, v.frames["frame_id"].to_list(), content(v)]) for i, v in enumerate(videos)
    ]


def _rows_key(frame: pl.DataFrame) -> str:
    return digest([frame.columns, [list(map(repr, row)) for row in frame.iter_rows()]])


def _folder(run: Run, kind: str, name: str, key: list[Any], schema: pl.Schema) -> Path:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", name)
    folder = run.dir / "shards" / f"{kind}-{safe}-{digest(key)[:12]}"
    clear_leftovers(folder, schema)
    return folder


def _write(path: Path, made: tuple[pl.DataFrame, dict[str, Any]]) -> None:
    """A part with what is to be told about it."""
    frame, about = made
    told = {"birdlab": json.dumps(about, ensure_ascii=False)}
    write_atomic(path, lambda temporary: frame.write_parquet(temporary, metadata=told))


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    return pl.read_parquet(path), json.loads(pl.read_parquet_metadata(path)["birdlab"])


def _follow(run: Run, section: Tracking, tracker: str, videos: list[_Video]) -> tuple[pl.DataFrame, pl.DataFrame]:
    options = settings(tracker, track_buffer=section.buffer, fuse_score=section.fuse_score)
    key = [options, section.detector, section.conf, environment()]
    folder = _folder(run, "tracks", f"{section.detector}-{tracker}", key, TRACK_PART)

    def work(payload: list[Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
        video = videos[payload[0]]
        made = follow_video(video.frames, video.detections, options, conf=section.conf, cache=run.dir / "cache")
        return made.rows, {"n_outside": made.n_outside, "n_loose": made.n_loose, "seconds": made.seconds}

    shards = _shards(videos, lambda v: [_rows_key(v.detections), _rows_key(v.frames.select("width_px", "height_px"))])
    with progress(f"{section.detector} {NAMES[tracker]}", unit="videos", state=run.dir / "progress.json") as step:
        paths = map_shards(work, shards, folder, write=_write, progress=step)
    rows, about = [], []
    for video, path in zip(videos, paths, strict=True):
        frame, told = _read(path)
        rows.append(_named(frame, video, tracker=tracker).select(list(FOLLOWED)))
        one = {"tracker": tracker, "media_id": video.media_id, "video_id": video.video_id}
        about.append(one | {"n_frames": video.frames.height, "n_failed": len(video.failed)} | told)
    return pl.concat([FOLLOWED.to_frame(), *rows]), pl.DataFrame(about, schema=VIDEOS)


def _named(frame: pl.DataFrame, video: _Video, **names: str) -> pl.DataFrame:
    names |= {"media_id": video.media_id, "video_id": video.video_id}
    return frame.with_columns(pl.lit(value).alias(name) for name, value in names.items())


def _label(
    run: Run,
    section: Tracking,
    spec: ClipClassifier,
    weights: Weights,
    videos: list[_Video],
    tracks: pl.DataFrame,
    media: pl.DataFrame,
) -> tuple[pl.DataFrame, list[tuple]]:
    device = run.recipe.device
    chosen = spec.model_dump(mode="json", exclude={"name", "weights", "sha256"})
    network: list[clip_network.ClipNetwork] = []  # loaded when the first video needs it

    def work(payload: list[Any], tracker: str) -> tuple[pl.DataFrame, dict[str, Any]]:
        if not network:
            network.append(clip_network.ClipNetwork(spec, weights, device))
        video = videos[payload[0]]
        mine = _of(tracks, tracker, video)
        made = label_windows(mine, video.frames, media, network[0], spec, batch=section.batch)
        told = {k: getattr(made, k) for k in ("n_tails", "n_unread", "n_failed", "messages")}
        return made.rows, told | {"remarks": network[0].remarks, "device": network[0].device}

    hashes = dict(media.select("media_id", pl.col("sha256").fill_null("")).iter_rows())
    rows, told = [], []
    for tracker in section.trackers:
        key = [chosen, weights.sha256, section.batch, tracker, clip_network.environment(weights, device)]
        folder = _folder(run, "windows", f"{spec.name}-{tracker}", key, PART)
        shards = _shards(videos, lambda v, t=tracker: [hashes[v.media_id], _rows_key(_of(tracks, t, v))])
        with progress(f"{spec.name} {NAMES[tracker]}", unit="videos", state=run.dir / "progress.json") as step:
            paths = map_shards(partial(work, tracker=tracker), shards, folder, write=_write, progress=step)
        for video, path in zip(videos, paths, strict=True):
            frame, about = _read(path)
            rows.append(_named(frame, video, tracker=tracker, model=spec.name).select(list(WINDOWS)))
            told.append(about)
    return pl.concat([WINDOWS.to_frame(), *rows]), _window_notices(spec, pl.concat([WINDOWS.to_frame(), *rows]), told)


def _of(tracks: pl.DataFrame, tracker: str, video: _Video) -> pl.DataFrame:
    return tracks.filter((pl.col("tracker") == tracker) & (pl.col("media_id") == video.media_id))


def _study_notices(section: Tracking, videos: list[_Video], media: pl.DataFrame) -> list[tuple]:
    name, out = section.detector, []
    stills = media.filter(pl.col("kind") == "image").height
    if stills:
        out.append((name, "photographs", "photographs were not followed: tracks need videos", stills))
    if not videos:
        out.append((name, "no_video", "no video to follow birds through", 0))
    steps = [int(v.frames["frame_index"].diff().median() or 1) for v in videos]
    wide = [step for step in steps if step > 1]
    if wide:
        message = (
            f"frames lie up to {max(wide)} apart, and trackers take them as consecutive: a bird may have moved far"
        )
        out.append((name, "steps", message, len(wide)))
    sessions = [v.video_id for v in videos]
    cut = len(sessions) - len(set(sessions))
    if cut:
        out.append((name, "files", "a session is in several files: tracks end where a file ends", cut))
    failed = sum(len(v.failed) for v in videos)
    if failed:
        out.append(
            (name, "failed_frames", "frames without an answer of the detector: trackers saw nothing there", failed)
        )
    return out


def _tracker_notices(tracker: str, rows: pl.DataFrame, about: pl.DataFrame) -> list[tuple]:
    name, n, out = NAMES[tracker], int(about["n_frames"].sum()), []
    if tracker == "botsort":
        message = "motion of the camera and appearance were left aside: cameras are taken to stand still"
        out.append((name, "setting", message, n))
    without = about.join(rows, on="media_id", how="anti")["media_id"].to_list()
    if without:
        out.append((name, "nothing", f"videos in which no bird was followed, {without[0]} first", len(without)))
    outside = int(about["n_outside"].sum())
    if outside:
        out.append((name, "outside", "boxes that the tracker put outside the frame were left out", outside))
    loose = int(about["n_loose"].sum())
    if loose:
        message = "detections became part of no track: too weak, or too far from where a bird was in the frame before"
        out.append((name, "loose", message, loose))
    return out


def _window_notices(spec: ClipClassifier, rows: pl.DataFrame, told: list[dict[str, Any]]) -> list[tuple]:
    where = "in the middle of" if spec.pad == "centre" else "in the upper left corner of"
    setting = f"crops of a track's box lie {where} a black square of {spec.imgsz} px; {spec.frames} boxes in a window"
    out = [(spec.name, "setting", setting, rows.height)]
    for remark in dict.fromkeys(r for one in told for r in one["remarks"]):
        out.append((spec.name, "setting", remark, rows.height))
    for device in dict.fromkeys(one["device"] for one in told):
        out.append((spec.name, "device", f"ran on {device}", sum(one["device"] == device for one in told)))
    counts = {
        "n_tails": f"rests of tracks with fewer than {spec.frames} boxes got no label",
        "n_unread": "windows with a frame that cannot be read got no label",
        "n_failed": "windows made the network fail and got no label",
    }
    for code, message in counts.items():
        n = sum(one[code] for one in told)
        if n:
            why = next((m for one in told if one[code] for m in one["messages"]), "") if code != "n_tails" else ""
            out.append((spec.name, code.removeprefix("n_"), f"{message}: {why}" if why else message, n))
    across = rows.filter(pl.col("n_missing") > 0).height
    if across:
        out.append((spec.name, "gaps", "windows reach across frames in which the bird was not followed", across))
    return out
