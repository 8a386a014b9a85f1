"""What must be beaten: names drawn at random, everyone at the mean rate, everyone always there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals.counting import seconds_with
from birdlab.individuals.states import NONE, is_peck

if TYPE_CHECKING:
    from birdlab.individuals.budget import Match
    from birdlab.individuals.states import Scene
    from birdlab.readers.chirp import Colony

RULE = (
    "every track of a tracker is given one of its video's possible birds (the birds of the truth where nobody listed "
    "any), each equally likely and independent of all other tracks; boxes and behaviours stay as predicted"
)
METRICS = (
    "frame_accuracy", "feeding_f1", "feeding_rate_mean_abs_error", "feeding_rate_r", "co_occurrence_mean_abs_error",
    "co_occurrence_r",
)  # fmt: skip
DRAWS = {
    "tracker": pl.String, "model": pl.String, "metric": pl.String, "draw": pl.Int64, "value": pl.Float64,
}  # fmt: skip
SUMMARY = {
    "tracker": pl.String, "model": pl.String, "metric": pl.String, "mean": pl.Float64, "lo": pl.Float64,
    "median": pl.Float64, "hi": pl.Float64, "n_draws": pl.Int64, "reason": pl.String,
}  # fmt: skip
ONE_VIDEO = "one video: there is no other whose mean could be used"
ALONE = "one bird: nobody to be seen with"


@dataclass(frozen=True)
class Random:
    """Random names: ``draws`` one row per tracker, behaviour model, metric and draw; ``summary`` mean, 2.5/50/97.5 %."""

    draws: pl.DataFrame
    summary: pl.DataFrame


def random_identity(colony: Colony, n_draws: int = 200, seed: int = 0, *, match: Match | None = None) -> Random:
    """How well biology is measured by a pipeline that names birds by chance (:data:`RULE`).

    Args:
        colony: one application set; protocol ``documented``.
        n_draws: draws of all names.
        seed: same seed, same draws: a tracker's names do not depend on other trackers, nor on behaviour models.
        match: as for :func:`birdlab.individuals.budget.error_budget`.

    Returns:
        Per tracker and behaviour model the metrics of :data:`METRICS` of every draw, and mean, median and the
        range of 95 % of draws: a distribution, not an interval for new videos. A correlation that is undefined in a
        draw (fewer than three rows, a constant) is null there; a metric that no draw defines says why.
    """
    from birdlab.individuals.budget import scenes_of, windows_of

    parts = []
    pairs = colony.combinations.select("tracker", "model", "videos").explode("videos").unique(maintain_order=True)
    for (tracker,), part in pairs.drop_nulls().group_by("tracker", maintain_order=True):
        videos = sorted(set(part["videos"].to_list()))
        possible = {r["video_id"]: r["possible"] for r in colony.videos.iter_rows(named=True)}
        scenes = dict(scenes_of(colony, tracker, videos, match, others=possible))
        countable = _countable(colony.boxes, videos)
        drawn = {
            v: _draw(s, possible[v], n_draws, [seed, *tracker.encode(), 0, *v.encode()]) for v, s in scenes.items()
        }
        windows = windows_of(colony.windows, tracker, scenes)
        frames = {v: _right(scenes[v], drawn[v]) for v in scenes}
        together = {v: _pairs(scenes[v], drawn[v]) for v in scenes}
        for (model,), of_model in part.group_by("model", maintain_order=True):
            used = [v for v in of_model["videos"].to_list() if v in scenes]
            right, n = sum(frames[v] for v in used), sum(countable.get(v, 0) for v in used)
            rates = [_rates(scenes[v], drawn[v], windows.get((model, v))) for v in used]
            seconds = [(scenes[v].birds, _f1(scenes[v], drawn[v], windows.get((model, v)))) for v in used]
            values = [right / n if n else np.full(n_draws, np.nan), _mean_f1(seconds, n_draws)]
            values += [*_errors(rates, n_draws), *_errors([together[v] for v in used], n_draws)]
            parts += [_draw_rows(tracker, model, m, x) for m, x in zip(METRICS, values, strict=True)]
    draws = pl.concat(parts) if parts else pl.DataFrame(schema=DRAWS)
    return Random(draws, _summary(draws))


def everyone_mean_rate(colony: Colony, *, oracle: bool = False) -> pl.DataFrame:
    """Everybody pecks at the mean true rate: of the other videos, or (``oracle``) of all, its own among them.

    Returns:
        Table ``application``, model ``mean_rate`` (``mean_rate_oracle``), one row per bird of the truth and video. With
        one video the prediction is null, with the reason; the oracle is a mean that nobody has before the truth is
        known.
    """
    rates = true_rates(colony)
    total, n = pl.col("truth").sum(), pl.len()
    others = (total - total.over("video_id")) / (n - n.over("video_id"))
    mean = total / n if oracle else pl.when(n > n.over("video_id")).then(others)
    rows = rates.with_columns(predicted=mean)
    reason = pl.when(pl.col("predicted").is_null()).then(pl.lit(ONE_VIDEO))
    return _table(rows.with_columns(reason=reason), "pecks_per_min", "mean_rate_oracle" if oracle else "mean_rate")


def everyone_always_present(colony: Colony) -> pl.DataFrame:
    """Every bird of a video's truth is seen in every frame of it: a co-occurrence of 1 for every pair.

    Returns:
        Table ``application``, model ``always_present``, one row per pair of birds of the truth and video.
    """
    return _table(true_pairs(colony).with_columns(predicted=pl.lit(1.0)), "co_occurrence_frac", "always_present")


def baseline_summary(rows: pl.DataFrame) -> dict[str, Any]:
    """Errors of a baseline, summarised like those of every combination.

    Args:
        rows: table ``application`` of one baseline and measure; rows without a prediction are left out.

    Returns:
        See :func:`birdlab.individuals.errors.error_summary`; differences within videos by ``video_id``. The mean of the
        other videos is low where a video's own rates are high, so r of :func:`everyone_mean_rate` is below 0 by
        construction and says nothing.
    """
    from birdlab.individuals.errors import error_summary

    used = rows.drop_nulls(["truth", "predicted"])
    columns = (used[c].to_numpy() for c in ("truth", "predicted"))
    return error_summary(*columns, group=used["video_id"].to_numpy())


def true_rates(colony: Colony) -> pl.DataFrame:
    """Pecks per minute by hand: video_id, subject, truth; every bird of boxes or events, also those that never peck."""
    rows = []
    for row, _, events, birds in _truths(colony):
        counts = events.filter(is_peck("behaviour"))["individual_id"].value_counts()
        pecks = dict(counts.iter_rows())
        minutes = row["n_frames"] / row["fps"] / 60
        rows += [(row["video_id"], [b], pecks.get(b, 0) / minutes) for b in birds]
    return _numbers(rows)


def true_pairs(colony: Colony) -> pl.DataFrame:
    """Share of the video in which two birds are seen together by hand: video_id, subject (both), truth."""
    rows = []
    for row, boxes, _, birds in _truths(colony):
        seen = {b: set(boxes.filter(individual_id=b)["frame"].to_list()) for b in birds}
        for k, a in enumerate(birds):
            rows += [(row["video_id"], [a, b], len(seen[a] & seen[b]) / row["n_frames"]) for b in birds[k + 1 :]]
    return _numbers(rows)


def _numbers(rows: list[tuple]) -> pl.DataFrame:
    schema = {"video_id": pl.String, "subject": pl.List(pl.String), "truth": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _truths(colony: Colony) -> Iterator[tuple[dict[str, Any], pl.DataFrame, pl.DataFrame, list[str]]]:
    """Per video: its row, boxes and events of known birds, their names."""
    known = pl.col("individual_id").is_not_null()
    for row in colony.videos.iter_rows(named=True):
        inside = pl.col("frame").is_between(0, row["n_frames"] - 1)
        boxes = colony.boxes.filter(known, inside, video_id=row["video_id"])
        events = colony.events.filter(known, video_id=row["video_id"])
        yield row, boxes, events, sorted({*boxes["individual_id"].to_list(), *events["individual_id"].to_list()})


def _table(rows: pl.DataFrame, measure: str, model: str) -> pl.DataFrame:
    about = {"protocol": "documented", "tracker": "", "model": model, "identity": "", "measure": measure}
    rows = rows.with_columns(
        *(pl.lit(v).alias(k) for k, v in about.items()), abs_error=(pl.col("predicted") - pl.col("truth")).abs()
    )
    return schemas.TABLES["application"].conform(rows)


def _draw(place: Scene, possible: list[str], n_draws: int, seed: list[int]) -> np.ndarray:
    """Bird of every track in every draw, (draws, tracks)."""
    code = {b: k for k, b in enumerate(place.birds)}
    choice = np.array([code[b] for b in sorted(set(possible))] or list(range(place.truth_birds)), dtype=np.int64)
    if not len(choice):
        return np.full((n_draws, place.n_tracks), NONE)
    rng = np.random.default_rng(seed)
    return choice[rng.integers(0, len(choice), size=(n_draws, place.n_tracks))]


def _countable(boxes: pl.DataFrame, videos: list[str]) -> dict[str, int]:
    """Boxes of known birds per video that count: with an area, and each once."""
    corners = ("xmin", "ymin", "xmax", "ymax")
    ok = (pl.col("xmax") > pl.col("xmin")) & (pl.col("ymax") > pl.col("ymin")) & pl.col("individual_id").is_not_null()
    used = boxes.filter(ok, pl.col("video_id").is_in(videos)).unique(["video_id", "frame", "visit_id", *corners])
    return dict(used.group_by("video_id").len().iter_rows())


def _right(place: Scene, drawn: np.ndarray) -> np.ndarray:
    """Boxes of the truth that are found and named right, per draw."""
    found = place.found >= 0
    ok = found & (place.truth_bird >= 0)
    track = place.boxes[0].track[place.found[ok]]
    counts = np.zeros((place.n_tracks, len(place.birds)), dtype=np.int64)
    np.add.at(counts, (track, place.truth_bird[ok]), 1)
    named = np.where(drawn >= 0, counts[np.arange(place.n_tracks), drawn] if counts.size else 0, 0)
    return named.sum(axis=1)


def _rates(place: Scene, drawn: np.ndarray, windows: tuple | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth (birds), prediction and whether the row exists (draws, birds) of pecks per minute."""
    n_draws, n = len(drawn), len(place.birds)
    count, last = np.zeros((n_draws, n)), np.full((n_draws, n), NONE, dtype=np.int64)
    each = np.arange(n_draws)
    for track, start, end in zip(*windows, strict=True) if windows and n else ():
        bird = drawn[:, track]
        free = (bird >= 0) & (last[each, bird] <= start)
        count[each[free], bird[free]] += 1
        last[each[free], bird[free]] = end
    named = np.zeros((n_draws, n + 1), dtype=bool)
    np.put_along_axis(named, np.where(drawn >= 0, drawn, n), True, axis=1)
    named[:, : place.truth_birds] = True
    truth = np.bincount(place.events[2], minlength=n) / place.minutes
    return truth, count / place.minutes, named[:, :n]


def _f1(place: Scene, drawn: np.ndarray, windows: tuple | None) -> np.ndarray:
    """F1 of the seconds with pecks, (draws, birds); NaN where neither side has one."""
    n_draws, n, frames = len(drawn), len(place.birds), place.n_frames
    width = max(1, round(frames / (60 * place.minutes)))
    start, end, who = place.events
    there = [seconds_with(zip(start[who == b], end[who == b], strict=True), frames, width) for b in range(n)]
    said = np.zeros((n_draws, n + 1, -(-frames // width)), dtype=bool)
    track, begin, stop = windows or (np.zeros(0, dtype=np.int64),) * 3
    for t in np.unique(track):
        spans = zip(begin[track == t], stop[track == t] - 1, strict=True)
        at = np.flatnonzero(seconds_with(spans, frames, width))
        said[np.arange(n_draws)[:, None], np.where(drawn[:, t] >= 0, drawn[:, t], n)[:, None], at[None, :]] = True
    true = np.array(there, dtype=bool).reshape(n, said.shape[2])
    hit, total = (said[:, :n] & true).sum(axis=2), said[:, :n].sum(axis=2) + true.sum(axis=1)
    return np.divide(2.0 * hit, total, out=np.full(hit.shape, np.nan), where=total > 0)


def _mean_f1(parts: list[tuple[list[str], np.ndarray]], n_draws: int) -> np.ndarray:
    """Mean over each bird's videos and then over birds, per draw, of what is defined; NaN where nothing is."""
    by_bird: dict[str, list[np.ndarray]] = {}
    for birds, values in parts:
        for k, bird in enumerate(birds):
            by_bird.setdefault(bird, []).append(values[:, k])
    means = [_defined(np.stack(columns)) for columns in by_bird.values()]
    return _defined(np.stack(means)) if means else np.full(n_draws, np.nan)


def _defined(values: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is a number; NaN where none is."""
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    return np.divide(np.where(known, values, 0.0).sum(axis=0), n, out=np.full(n.shape, np.nan), where=n > 0)


def _pairs(place: Scene, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth (pairs), prediction and whether the row exists (draws, pairs) of the share seen together."""
    n = len(place.birds)
    a, b = np.triu_indices(n, 1)
    true = place.presence(1, 1, place.group_birds(1, 1, 1, drawn[0])).astype(np.float64)
    sets, weight = _together(place)
    seen = np.zeros((len(drawn), n + 1, len(weight)), dtype=np.float32)
    for track, at in sets:
        seen[np.arange(len(drawn))[:, None], drawn[:, track][:, None], at[None, :]] = 1
    seen = seen[:, :n]
    both = np.rint(np.matmul(seen * weight.astype(np.float32), seen.transpose(0, 2, 1))).astype(np.int64)[:, a, b]
    exists = (a < place.truth_birds) & (b < place.truth_birds) | (both > 0)
    frames = max(place.n_frames, 1)
    return (true @ true.T)[a, b] / frames, both / frames, exists


def _together(place: Scene) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """Sets of tracks that are seen in one frame: per track the sets it is in, and the number of frames of each set."""
    boxes = place.boxes[0]
    frame = pl.DataFrame({"frame": boxes.frame, "track": boxes.track}).unique().sort("frame", "track")
    sets = frame.group_by("frame", maintain_order=True).agg("track").group_by("track", maintain_order=True).len()
    long = sets.select("track", at=pl.int_range(pl.len())).explode("track").drop_nulls()
    members = [(k[0], p["at"].to_numpy()) for k, p in long.partition_by("track", as_dict=True).items()]
    return members, sets["len"].to_numpy()


def _errors(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], n_draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute error and Pearson's r of every draw over the rows that it has."""
    if not parts:
        return np.full(n_draws, np.nan), np.full(n_draws, np.nan)
    truth = np.concatenate([p[0] for p in parts])[None, :]
    predicted, exists = (np.concatenate([p[k] for p in parts], axis=1) for k in (1, 2))
    n = exists.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(exists, np.abs(predicted - truth), 0).sum(axis=1) / n
        x, y = (np.where(exists, v - np.where(exists, v, 0).sum(axis=1, keepdims=True) / n[:, None], 0)
                for v in (np.broadcast_to(truth, exists.shape), predicted))  # fmt: skip
        sx, sy = (x * x).sum(axis=1), (y * y).sum(axis=1)
        r = (x * y).sum(axis=1) / np.sqrt(sx * sy)
    flat = (n < 3) | (sx <= 1e-24) | (sy <= 1e-24)
    return error, np.where(flat, np.nan, np.clip(r, -1, 1))


def _draw_rows(tracker: str, model: str, metric: str, values: np.ndarray) -> pl.DataFrame:
    frame = pl.DataFrame({"draw": np.arange(len(values)), "value": values.astype(np.float64)}).with_columns(
        pl.col("value").fill_nan(None), tracker=pl.lit(tracker), model=pl.lit(model), metric=pl.lit(metric)
    )
    return frame.select(*DRAWS).cast(DRAWS)


def _summary(draws: pl.DataFrame) -> pl.DataFrame:
    value = pl.col("value")
    frame = draws.group_by("tracker", "model", "metric", maintain_order=True).agg(
        mean=value.mean(),
        lo=value.quantile(0.025, "linear"),
        median=value.median(),
        hi=value.quantile(0.975, "linear"),
        n_draws=value.count().cast(pl.Int64),
    )
    why = "fewer than three rows, or a constant, in every draw"
    none = pl.when(pl.col("metric").str.ends_with("_r")).then(pl.lit(why)).otherwise(pl.lit("no row to average"))
    return frame.with_columns(reason=pl.when(pl.col("n_draws") == 0).then(none)).select(*SUMMARY).cast(SUMMARY)
