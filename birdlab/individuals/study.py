"""The application numbers of a study: combinations under both protocols, people, baselines, error budget, time shift."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.individuals.across import task_against_biology
from birdlab.individuals.baselines import everyone_always_present, everyone_mean_rate, random_identity
from birdlab.individuals.budget import error_budget
from birdlab.individuals.errors import POOLED, WITHIN
from birdlab.individuals.evaluate import MEASURES, SUMMARY, Evaluated, evaluate, summarise
from birdlab.individuals.human import human_numbers, runs
from birdlab.individuals.inputs import section_of
from birdlab.individuals.lanes import presence_lanes
from birdlab.individuals.matching import documented_view
from birdlab.individuals.notices import notices
from birdlab.individuals.offset import CURVE, Offset, time_offset, tolerance_curve
from birdlab.individuals.published import published
from birdlab.individuals.states import is_peck
from birdlab.metrics import metric_frame, metric_row
from birdlab.readers.chirp import Colony
from birdlab.schemas.individuals import PROTOCOLS
from birdlab.stats import one_thread

if TYPE_CHECKING:
    from birdlab.study import Run

#: Task metrics that are set against biological errors.
TASKS = ("frame_accuracy", "track_accuracy", "feeding_f1", "hota", "idf1", "mota")
ERRORS = tuple(f"{name}_mean_abs_error" for name in MEASURES)
_NAMED, _WHOLE = ("tracker", "identity"), ("tracker", "identity", "model")
#: What a number comes from: combinations that differ in the behaviour model alone have the same boxes and companions.
MADE_OF = {
    **dict.fromkeys(("hota", "idf1", "mota"), ("tracker",)),
    **dict.fromkeys(("frame_accuracy", "track_accuracy", "co_occurrence_mean_abs_error"), _NAMED),
    **dict.fromkeys(("feeding_f1", "feeding_rate_mean_abs_error"), _WHOLE),
}
#: Windows of a second begin anywhere in it: shifts between windows and pecks are looked for in bins, s.
WINDOW_STEP_S = 0.2
OFFSET = {
    "source": pl.String, "tracker": pl.String, "model": pl.String, "identity": pl.String, "seconds": pl.Float64,
    "lo": pl.Float64, "hi": pl.Float64, "n_truth": pl.Int64, "n_other": pl.Int64, "reason": pl.String,
}  # fmt: skip


def colony_of(run: Run) -> Colony:
    """The study's application set from its tables."""
    return Colony(**{f.name: run.table(f"colony_{f.name}") for f in fields(Colony)})


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``application`` and of all tables of 07."""
    section = section_of(run)
    colony = colony_of(run)
    with one_thread():
        found = {p: evaluate(colony, protocol=p) for p in PROTOCOLS}
        view = documented_view(colony)
        chance = random_identity(view, section.n_random, run.recipe.seed)
        budget = error_budget(view)
        numbers, summary = with_others(colony, view, found)
        shifts, curves = offsets(colony, view, found["documented"], tolerance_s=section.tolerance_s)
        tasks = with_tracking(found["documented"].summary, run.table("tracking_scores"))
        across = task_against_biology(tasks, list(TASKS), list(ERRORS), seed=run.recipe.seed, made_of=MADE_OF)
    rows = summary_rows(summary) + budget_rows(budget)
    metrics = metric_frame(row | {"dataset": run.recipe.name} for row in rows)
    printed = published(section.published)
    printed = printed.filter(~pl.col("metric").is_in(["accuracy", "macro_f1", "error_mean_px", "pck_5", "pck_10"]))
    return {
        "application": numbers,
        "application_summary": summary,
        "application_tasks": tasks.drop("videos", "missing_videos"),
        "application_notices": notices(colony, view),
        "application_random": chance.summary,
        "application_draws": chance.draws,
        "error_budget": budget,
        "across_combinations": across,
        "time_offset": shifts,
        "time_tolerance": curves,
        "presence_lanes": presence_lanes(view),
        "metrics_application": pl.concat([metrics, printed]),
    }


def with_others(colony: Colony, view: Colony, found: dict[str, Evaluated]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbers and summaries of all combinations, and below them people and baselines (under the documented protocol)."""
    parts = [found[p].numbers for p in PROTOCOLS]
    summaries = [found[p].summary for p in PROTOCOLS]
    others = [human_numbers(colony, protocol=p) for p in PROTOCOLS]
    others += [everyone_mean_rate(view), everyone_always_present(view)]
    notes = {
        ("human", "documented"): "documented, the minutes that were coded",
        ("human", "reference"): "reference, five minutes whatever was coded",
        ("mean_rate", "documented"): "of the other videos",
        ("always_present", "documented"): "every bird in every frame",
    }
    for table in others:
        if table.is_empty():
            continue
        parts.append(table)
        plain = table.with_columns(pl.col("measure").cast(pl.String)).to_dicts()
        key = (plain[0]["model"], plain[0]["protocol"])
        told = {k: plain[0][k] for k in ("protocol", "tracker", "model", "identity")} | {"note": notes.get(key)}
        measured = {r["measure"] for r in plain}
        row = summarise(plain)
        absent = [name for name, measure in MEASURES.items() if measure not in measured]
        row = {k: None if any(k.startswith(f"{a}_") for a in absent) else v for k, v in row.items()}
        videos = sorted({r["video_id"] for r in plain})
        row |= {"complete": True, "videos": videos, "missing_videos": []}
        summaries.append(pl.DataFrame([told | row], schema=SUMMARY))
    return pl.concat(parts), pl.concat(summaries)


def model_pecks(view: Colony, combination: dict[str, Any]) -> pl.DataFrame:
    """Middles of the Peck windows of one combination: video_id, individual_id, start (frames)."""
    at = {k: combination[k] for k in ("tracker",)}
    names = view.identities.filter(pl.col("identity") == combination["identity"], **at)
    windows = view.windows.filter(is_peck("label"), pl.col("model") == combination["model"], **at)
    both = windows.join(names.select("video_id", "track_id", "individual_id"), on=["video_id", "track_id"])
    middle = ((pl.col("start") + pl.col("end")) // 2).alias("start")
    return both.drop_nulls("individual_id").select("video_id", "individual_id", middle)


def human_pecks(colony: Colony) -> tuple[pl.DataFrame, pl.DataFrame]:
    """First rows of coded pecks, and the truth of what was coded: video_id, individual_id, start (frames) each."""
    coded, length = [], {}
    for (video, bird), part in colony.human.sort("frame").group_by("video_id", "individual_id", maintain_order=True):
        coded += [(video, bird, int(start)) for start in runs(part["peck"].to_numpy())]
        length[video, bird] = part.height
    schema = {"video_id": pl.String, "individual_id": pl.String, "start": pl.Int64}
    pecks = colony.events.filter(is_peck("behaviour")).drop_nulls("individual_id")
    inside = [
        row for row in pecks.select("video_id", "individual_id", "start").iter_rows() if row[2] < length.get(row[:2], 0)
    ]
    return pl.DataFrame(coded, schema=schema, orient="row"), pl.DataFrame(inside, schema=schema, orient="row")


def on_one_clock(starts: pl.DataFrame, rates: dict[str, float], fps: float) -> pl.DataFrame:
    """Starts in frames of each video's rate, as frames of one rate.

    Args:
        starts: video_id, start and more.
        rates: frame rate of every video, Hz.
        fps: the rate wanted, Hz.

    >>> on_one_clock(pl.DataFrame({"video_id": ["a", "b"], "start": [10, 10]}), {"a": 25.0, "b": 50.0}, 50.0)["start"].to_list()
    [20, 10]
    """
    rate = pl.col("video_id").replace_strict(rates, default=fps, return_dtype=pl.Float64)
    return starts.with_columns((pl.col("start") * fps / rate).round().cast(pl.Int64).alias("start"))


def offsets(colony: Colony, view: Colony, found: Evaluated, *, tolerance_s: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Time shift of a person and of every combination to the truth, and F1 by tolerance of the person and the best one.

    Returns:
        Tables ``time_offset`` and ``time_tolerance`` (source: human, or a combination).
    """
    clock = dict(view.videos.select("video_id", "fps").iter_rows())
    fps = min(clock.values())  # a shift is known no finer than to a frame of the slowest video
    truth = (
        view.events.filter(is_peck("behaviour"))
        .drop_nulls("individual_id")
        .select("video_id", "individual_id", "start")
    )
    rows, curves = [], [pl.DataFrame(schema={"source": pl.String, **CURVE})]

    def look(source: str, about: dict[str, str], there: pl.DataFrame, other: pl.DataFrame, step: float | None) -> None:
        there, other = (on_one_clock(starts, clock, fps) for starts in (there, other))
        shift: Offset = time_offset(there, other, fps, tolerance_s, step_s=step)
        ends = {k: getattr(shift, k) for k in ("seconds", "lo", "hi", "n_truth", "n_other", "reason")}
        rows.append({"source": source} | about | ends)
        curve = tolerance_curve(there, other, fps, tolerance_s, offset=shift)
        curves.append(curve.select(pl.lit(source).alias("source"), pl.all()))

    if colony.human.height:
        coded, inside = human_pecks(view)
        look("human", {"tracker": "", "model": "human", "identity": ""}, inside, coded, None)
    ranked = found.summary.filter("complete").sort("feeding_rate_mean_abs_error", nulls_last=True)
    for c in ranked.to_dicts():
        about = {k: c[k] for k in ("tracker", "model", "identity")}
        look(f"{c['identity']} · {c['tracker']} · {c['model']}", about, truth, model_pecks(view, c), WINDOW_STEP_S)
    return pl.DataFrame(rows, schema=OFFSET), pl.concat(curves)


def with_tracking(summary: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Summaries of complete combinations with the tracking measures of their tracker."""
    whole = scores.filter(pl.col("video_id") == "").pivot(
        "measure", index="tracker", values="value", aggregate_function="first"
    )
    names = [n for n in ("hota", "idf1", "mota") if n in whole.columns]
    joined = summary.filter("complete").join(
        whole.select("tracker", *names), on="tracker", how="left", maintain_order="left"
    )
    return joined.with_columns(pl.lit(None, pl.Float64).alias(n) for n in ("hota", "idf1", "mota") if n not in names)


def summary_rows(summary: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics``: group ``protocol``, model ``identity · tracker · model``, or who it is."""
    rows = []
    shares = (
        "frame_accuracy",
        "frame_precision",
        "track_accuracy",
        "feeding_precision",
        "feeding_recall",
        "feeding_f1",
    )
    for r in summary.to_dicts():
        name = " · ".join(r[k] for k in ("identity", "tracker", "model")) if r["tracker"] else r["model"]
        about = {"model": name, "group": "protocol", "level": r["protocol"], "method": r["note"] or "application set"}
        if r["tracker"]:
            for metric in (*shares, "feeding_f1_by_video_individual"):
                n = (
                    r["n_boxes"]
                    if metric.startswith("frame")
                    else r["n_visits"]
                    if metric.startswith("track")
                    else r["n_f1"]
                )
                reason = r.get(f"{metric}_no_ends") if r[metric] is not None else "nothing to divide by"
                ends = {"lo": r.get(f"{metric}_lo"), "hi": r.get(f"{metric}_hi"), "n_clusters": len(r["videos"])}
                rows.append(metric_row(**about, **ends, metric=metric, value=r[metric], n=n, reason=reason))
        for measure in MEASURES:
            if r[f"{measure}_n"] is None:
                continue
            at = about | {"n": r[f"{measure}_n"], "n_clusters": r[f"{measure}_n_clusters"]}
            for key in (*POOLED, *WITHIN):
                value = r[f"{measure}_{key}"]
                ends = {"lo": r[f"{measure}_mae_lo"], "hi": r[f"{measure}_mae_hi"]} if key == "mean_abs_error" else {}
                reason = None if value is not None else r[f"{measure}_reason"] or "too few rows"
                rows.append(metric_row(**at, metric=f"{measure}_{key}", value=value, reason=reason, **ends))
    return rows


def budget_rows(budget: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics``: Shapley share of every stage."""
    names = {v: k for k, v in MEASURES.items()}
    return [
        metric_row(
            model=" · ".join(r[k] for k in ("identity", "tracker", "model")), group="stage", level=r["stage"],
            metric=f"{names[r['measure']]}_error_share", value=r["share"], lo=r["lo"], hi=r["hi"], n=r["n"],
            n_clusters=r["n_clusters"], method="Shapley; new videos, CR1", reason=r["reason"],
        )
        for r in budget.to_dicts()
    ]  # fmt: skip
