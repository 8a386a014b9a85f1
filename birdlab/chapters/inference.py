"""01_inference: which model saw which frames, how fast, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from birdlab.chapters.common import count, table_of
from birdlab.recipe import Model
from birdlab.report.show import m
from birdlab.report.table import Col

if TYPE_CHECKING:
    from birdlab.study import Run

MODEL_COLUMNS = {
    "model": Col("Model", kind="text"),
    "source": Col("From", kind="text"),
    "asked": Col("Frames asked", kind="int"),
    "failed": Col("Failed", kind="int"),
    "detections": Col("Detections", "any score", kind="int"),
    "kept": Col("Detections", "at the fixed score", kind="int"),
    "silent": Col("Frames without any", "at the fixed score", kind="int"),
}
SPEED_COLUMNS = {
    "model": Col("Model", kind="text"),
    "fps_model": Col("Network alone", "frames/s", "up", digits=1),
    "fps_end_to_end": Col("File to boxes", "frames/s", "up", digits=1),
    "n_frames": Col("Frames timed", kind="int"),
    "n_warmup": Col("Warm-up", "not timed", kind="int"),
    "imgsz": Col("Input", "px", kind="int"),
    "batch": Col("Batch", kind="int"),
    "precision": Col("Precision", kind="text"),
    "device": Col("Device", kind="text"),
}
FAILURE_COLUMNS = {
    "model": Col("Model", kind="text"),
    "frame_id": Col("Frame", kind="text"),
    "stage": Col("Stage", kind="text"),
    "message": Col("Why", kind="text"),
}
NOTICE_COLUMNS = {
    "model": Col("Model", kind="text"),
    "message": Col("What", kind="text"),
    "n": Col("How many", kind="int"),
}
_ELSEWHERE = "nothing was timed: the detections were made elsewhere"
_TOO_FEW = "nothing was timed: there are too few frames beyond the warm-up"


def models(
    run_models: Sequence[Model],
    frames: pl.DataFrame,
    predictions: pl.DataFrame,
    failures: pl.DataFrame,
    *,
    conf: float,
) -> pl.DataFrame:
    """What each model was asked and what it said: frames, failures, detections, frames without any."""
    rows = []
    for model in run_models:
        mine = predictions.filter(pl.col("model") == model.name)
        failed = failures.filter(pl.col("model") == model.name).height
        kept = mine.filter(pl.col("score") >= conf)
        path = (model.weights or model.predictions or "").replace("\\", "/").rstrip("/")
        about = {"model": model.name, "source": path.rpartition("/")[2], "asked": frames.height, "failed": failed}
        silent = frames.height - failed - kept["frame_id"].n_unique()
        rows.append({**about, "detections": mine.height, "kept": kept.height, "silent": silent})
    return table_of(rows, list(MODEL_COLUMNS), text=("model", "source"))


def answer(asked: pl.DataFrame) -> tuple[str, str, str]:
    """Question, answer and detail, from :func:`models`."""
    question = "Did every model see every frame?"
    if asked.is_empty():
        return question, "There is no model in the recipe.", "Add models with weights, or predictions made elsewhere."
    n = int(asked["asked"].max() or 0)
    failed = asked.filter(pl.col("failed") > 0).to_dicts()
    if not failed:
        return (
            question,
            "Yes.",
            f"{count(asked.height, 'model', 'models')} × {count(n, 'frame', 'frames')}, none skipped.",
        )
    said = ", ".join(f"{m(r['model'])} failed on {count(int(r['failed']), 'frame', 'frames')}" for r in failed)
    return question, "No.", f"{said} of {n:,}; they are left out of that model's scores and listed below."


def models_title(asked: pl.DataFrame) -> str:
    """What the table of models shows."""
    if asked.is_empty():
        return "No model."
    most = asked.sort("kept", descending=True).row(0, named=True)
    if not most["kept"]:
        return "No model draws a box at the fixed score."
    return f"{m(most['model'])} draws the most boxes: {count(int(most['kept']), 'box', 'boxes')} at the fixed score."


def speed(speed_table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Frames per second of each model, twice, with what they were measured on."""
    rows = []
    for name in names:
        timed = {r["stage"]: r for r in speed_table.filter(pl.col("model") == name).to_dicts()}
        if not timed:
            keys = [c for c in SPEED_COLUMNS if c != "model"]
            rows.append({"model": name, **{f"{k}_reason": _ELSEWHERE for k in keys}})
            continue
        one = next(iter(timed.values()))
        about = {k: one[k] for k in ("n_frames", "n_warmup", "imgsz", "batch", "precision", "device")}
        fps = {f"fps_{stage}": timed[stage]["fps"] if stage in timed else None for stage in ("model", "end_to_end")}
        why = {f"{k}_reason": _TOO_FEW for k, v in fps.items() if v is None}
        rows.append({"model": name, **fps, **about, **why})
    return table_of(rows, list(SPEED_COLUMNS), text=("model", "precision", "device"))


def speed_title(rows: pl.DataFrame) -> str:
    """What the table of speeds shows."""
    timed = rows.drop_nulls("fps_end_to_end").sort("fps_end_to_end", descending=True)
    if timed.is_empty():
        return "No model was timed."
    fast = timed.row(0, named=True)
    return f"{m(fast['model'])} is the fastest, at {fast['fps_end_to_end']:.1f} frames per second from file to boxes."


def failures_title(failures: pl.DataFrame) -> str:
    """What the table of failures shows."""
    return (
        "Nothing failed."
        if failures.is_empty()
        else f"{count(failures.height, 'frame', 'frames')} could not be predicted."
    )


def notices_title(notices: pl.DataFrame) -> str:
    """What the table of notices shows."""
    return (
        "Nothing was assumed."
        if notices.is_empty()
        else f"{count(notices.height, 'thing', 'things')} to know about how the models were run."
    )


#: Birds followed through videos: :func:`birdlab.inference.follow.follow_table`.
FOLLOW_COLUMNS = {
    "tracker": Col("Tracker", kind="text"),
    "media_id": Col("Video", kind="text"),
    "frames": Col("Frames", digits=0),
    "frames_with": Col("With a bird", "frames", digits=0),
    "tracks": Col("Tracks", digits=0),
    "boxes": Col("Boxes", digits=0),
    "median_length": Col("Median track", "boxes", digits=0),
    "fps": Col("Speed", "tracker alone, frames/s", digits=0),
}


def follow_title(table: pl.DataFrame) -> str:
    """How many tracks were made in how many videos."""
    videos = table["media_id"].n_unique()
    if not videos:
        return "No video was followed."
    tracks = int(table["tracks"].sum())
    return f"{count(tracks, 'track', 'tracks')} through {count(videos, 'video', 'videos')}."


def followed(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """One row per tracker and video, with the reasons for what is undefined."""
    from birdlab.inference.follow import follow_table

    table = follow_table(tables["followed"], tables["follow_videos"])
    return table.with_columns(
        pl.lit("no track").alias("median_length_reason"), pl.lit("nothing was timed").alias("fps_reason")
    )


def all_notices(run: Run) -> pl.DataFrame:
    """What was assumed or done another way: by the models, and by the trackers where there are some."""
    notices = run.table("inference_notices")
    if run.recipe.tracking is None:
        return notices
    return pl.concat([notices, run.table("follow_notices")], how="diagonal_relaxed")


#: Windows of tracked birds by behaviour: :func:`named_windows`.
WINDOW_COLUMNS = {
    "model": Col("Classifier", kind="text"),
    "tracker": Col("Tracker", kind="text"),
    "label": Col("Behaviour", kind="text"),
    "windows": Col("Windows", digits=0),
    "share": Col("Share", "%", kind="percent"),
    "probability": Col("Probability", "mean", digits=2),
}


def named_windows(windows: pl.DataFrame) -> pl.DataFrame:
    """Windows by classifier, tracker and behaviour: how many, their share, the mean probability of the name given."""
    keys = ["model", "tracker"]
    counts = windows.group_by(*keys, "label").agg(pl.len().alias("windows"), pl.col("probability").mean())
    share = (pl.col("windows") / pl.col("windows").sum().over(keys)).alias("share")
    return counts.with_columns(share).sort(*keys, "windows", "label", descending=[False, False, True, False])


def windows_title(windows: pl.DataFrame) -> str:
    """How many windows were named."""
    return f"{count(windows.height, 'window was', 'windows were')} named."
