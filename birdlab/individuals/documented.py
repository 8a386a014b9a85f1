"""Biological numbers of one combination as CHIRP's text defines them; where it is silent, birdlab's own decisions hold.

A bird is its label without a trailing ``_<number>``. Pecks only; windows are half-open; frames and behaviours outside
the video do not count. Every bird of the boxes, the behaviours or the predictions is a row, also with zero pecks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from birdlab.individuals.budget import count_windows
from birdlab.individuals.counting import in_view, precision_recall, seconds_with
from birdlab.individuals.states import is_peck
from birdlab.stats import new_sessions

#: A visit is right when more than this share of its boxes is.
MOST = 0.8
HITS = {"video_id": pl.String, "visit_id": pl.String, "n": pl.Int64, "right": pl.Int64}


def box_hits(boxes: pl.DataFrame, tracks: pl.DataFrame, pairs: pl.DataFrame, names: pl.DataFrame) -> dict[str, Any]:
    """Boxes and visits that are given their bird.

    Args:
        boxes: ``colony_boxes`` as counted (:func:`birdlab.individuals.matching.documented_view`).
        tracks: ``colony_tracks`` of one tracker, of the same videos.
        pairs: :func:`birdlab.individuals.matching.match_boxes` of the two.
        names: ``colony_identities`` of one method for that tracker.

    Returns:
        n_boxes, n_right, frame_accuracy (right / boxes); n_named and frame_precision (right / boxes of trackers that
        are given a bird); n_visits, n_visits_right, track_accuracy. A share of nothing is null.
    """
    birds = names.select("video_id", "track_id", pl.col("individual_id").alias("named"))
    named = tracks.select("video_id", pl.col("row").alias("predicted_row"), "track_id").join(
        birds, on=["video_id", "track_id"]
    )
    right = (
        pairs.join(named, on=["video_id", "predicted_row"])
        .join(boxes.select("video_id", "row", "individual_id"), on=["video_id", "row"])
        .filter(pl.col("named") == pl.col("individual_id"))
        .select("video_id", "row", pl.lit(1).alias("hit"))
    )
    visits = visits_of(boxes, right)
    return shares(visits) | {
        "n_named": (n := named["named"].count()),
        "frame_precision": int(visits["right"].sum()) / n if n else None,
    }


def visits_of(boxes: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """video_id, visit_id, n boxes and right ones (rows of ``right``: video_id, row, hit) of every visit."""
    return (
        boxes.select("video_id", "row", "visit_id")
        .join(right, on=["video_id", "row"], how="left")
        .group_by("video_id", "visit_id")
        .agg(pl.len().alias("n"), pl.col("hit").sum().alias("right"))
    )


def shares(visits: pl.DataFrame) -> dict[str, Any]:
    """Shares of boxes and of visits that are right, with 95 % for new videos (logit CR1; ``…_lo``, ``…_hi``).

    Args:
        visits: video_id, visit_id, n boxes and right ones of every visit.
    """
    good = (pl.col("right") / pl.col("n") > MOST).sum()
    by_video = visits.group_by("video_id").agg(pl.col("n", "right").sum(), pl.len().alias("visits"), good.alias("good"))
    out: dict[str, Any] = {}
    for name, k, n in (("frame_accuracy", "right", "n"), ("track_accuracy", "good", "visits")):
        hits, total = int(by_video[k].sum()), int(by_video[n].sum())
        ends = new_sessions(by_video[k].to_numpy(), by_video[n].to_numpy(), unit="video")
        out |= {name: hits / total if total else None, f"{name}_lo": ends.lo, f"{name}_hi": ends.hi}
        out |= {"n_boxes": total, "n_right": hits} if n == "n" else {"n_visits": total, "n_visits_right": hits}
    return out


def video_numbers(
    video: dict[str, Any],
    boxes: pl.DataFrame,
    events: pl.DataFrame,
    tracks: pl.DataFrame,
    names: pl.DataFrame,
    windows: pl.DataFrame,
) -> Iterator[dict[str, Any]]:
    """Rows of ``application`` of one combination in one video: feeding rate, F1 of seconds, co-occurrence.

    Args:
        video: row of ``colony_videos``.
        boxes, events: truth of the video, as counted.
        tracks: its boxes of the tracker.
        names: its tracks' birds by the identity method.
        windows: its windows by the behaviour model.
    """
    n = int(video["n_frames"])
    known = {*boxes["individual_id"].drop_nulls().to_list(), *events["individual_id"].drop_nulls().to_list()}
    bird_of = dict(names.drop_nulls("individual_id").select("track_id", "individual_id").iter_rows())
    birds = sorted(known | set(bird_of.values()))
    code = {bird: k for k, bird in enumerate(birds)}
    pecks = events.filter(is_peck("behaviour") & pl.col("individual_id").is_not_null())
    said = windows.filter(is_peck("label") & (pl.col("end") > pl.col("start"))).sort("start", "end", "track_id")
    whose = np.array([code.get(bird_of.get(t, ""), -1) for t in said["track_id"].to_list()], dtype=np.int64)
    start, end = said["start"].to_numpy().astype(np.int64), said["end"].to_numpy().astype(np.int64)
    counted = count_windows(start, end, whose, len(birds))
    true_pecks = dict(pecks["individual_id"].value_counts().iter_rows())
    minutes, width = n / float(video["fps"]) / 60, max(1, round(float(video["fps"])))
    about = {"video_id": video["video_id"]}
    for bird, k in code.items():
        truth, predicted = true_pecks.get(bird, 0) / minutes, float(counted[k]) / minutes
        yield rate_row(about, bird, truth, predicted)
        spans = pecks.filter(pl.col("individual_id") == bird).select("start", "end").iter_rows()
        there = seconds_with(spans, n, width)
        mine = whose == k
        found = seconds_with(zip(start[mine].tolist(), (end[mine] - 1).tolist(), strict=True), n, width)
        yield f1_row(about, bird, there, found)
    seen = _in_view(boxes, "individual_id", code, n)
    guessed = _in_view(
        tracks.with_columns(pl.col("track_id").replace_strict(bird_of, default=None)), "track_id", code, n
    )
    for i, a in enumerate(birds):
        for j in range(i + 1, len(birds)):
            if (a in known and birds[j] in known) or guessed[i, j]:
                yield pair_row(about, (a, birds[j]), seen[i, j] / n, guessed[i, j] / n)


def _in_view(boxes: pl.DataFrame, column: str, code: dict[str, int], n_frames: int) -> np.ndarray:
    inside = boxes.filter(pl.col("frame").is_between(0, n_frames - 1) & pl.col(column).is_not_null())
    if inside.is_empty() or not code:
        return np.zeros((len(code), len(code)), dtype=np.int64)
    bird = inside[column].replace_strict(code, default=-1, return_dtype=pl.Int64).to_numpy()
    return in_view(bird, inside["frame"].to_numpy().astype(np.int64), len(code))


def rate_row(about: dict[str, Any], bird: str, truth: float, predicted: float) -> dict[str, Any]:
    """Row of a feeding rate, pecks/min."""
    return about | {
        "measure": "pecks_per_min",
        "subject": [bird],
        "truth": truth,
        "predicted": predicted,
        "abs_error": abs(predicted - truth),
    }


def pair_row(about: dict[str, Any], pair: tuple[str, str], truth: float, predicted: float) -> dict[str, Any]:
    """Row of a pair's co-occurrence, share of the video."""
    return about | {
        "measure": "co_occurrence_frac",
        "subject": list(pair),
        "truth": float(truth),
        "predicted": float(predicted),
        "abs_error": abs(float(predicted) - float(truth)),
    }


def f1_row(
    about: dict[str, Any], bird: str, truth: np.ndarray, predicted: np.ndarray, *, zero: float | None = None
) -> dict[str, Any]:
    """Row of the seconds with pecks: ``truth`` their number by hand, ``predicted`` F1."""
    precision, recall, f1 = precision_recall(truth, predicted, zero=zero)
    row = {"measure": "feeding_f1", "subject": [bird], "truth": float(truth.sum()), "predicted": f1}
    reason = "no peck by hand or predicted" if f1 is None else None
    return about | row | {"precision": precision, "recall": recall, "reason": reason}
