"""06_actions_keypoints_tracking: the tables of actions, keypoints and tracks, and their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.chapters.common import cells_of, count, num, number_of, pct, published, table_of, with_ends  # noqa: F401 (notebooks ask for published here)
from birdlab.report.show import m
from birdlab.report.table import Col

if TYPE_CHECKING:
    from birdlab.recipe import Recipe

ACTIONS = ("accuracy", "macro_f1")
POINTS = ("error_mean_px", "error_median_px", "error_p95_px", "pck_5", "pck_10", "pck_norm_0.1", "oks_ap")
TRACKS = ("hota", "deta", "assa", "idf1", "mota", "id_switches", "fragmentations")
ACTION_COLUMNS = {
    "model": Col("Model", kind="text"),
    "accuracy": Col("Right", "of clips, %", "up", kind="percent"),
    "gain": Col("+", "over the commonest", kind="percent"),
    "macro_f1": Col("Macro F1", "over the list", "up"),
    "above": Col("Above baseline", kind="text"),
}
POINT_COLUMNS = {
    "model": Col("Model", kind="text"),
    "error_mean_px": Col("Mean", "error, px", "down", digits=1),
    "error_median_px": Col("Median", "px", "down", digits=1),
    "error_p95_px": Col("Percentile", "95th, px", "down", digits=1),
    "pck_5": Col("PCK", "5 px, %", "up", kind="percent"),
    "pck_10": Col("PCK", "10 px, %", "up", kind="percent"),
    "pck_norm_0.1": Col("PCK", "0.1 of the box, %", "up", kind="percent"),
    "oks_ap": Col("OKS AP", better="up"),
}
TRACK_COLUMNS = {
    "model": Col("Tracker", kind="text"),
    "hota": Col("HOTA", better="up"),
    "deta": Col("DetA", "found", "up"),
    "assa": Col("AssA", "kept", "up"),
    "idf1": Col("IDF1", better="up"),
    "mota": Col("MOTA", better="up"),
    "id_switches": Col("Switches", "of identity", "down", digits=0),
    "fragmentations": Col("Breaks", "lost, found again", "down", digits=0),
}


#: What a task is scored with: the section of the recipe, its truth, and what a model gives.
_GIVEN = {
    "actions": ("BehaviourAnnotations.csv, or a CSV clip_id,video_id,behaviour", "CSV clip_id,behaviour"),
    "keypoints": ("COCO keypoints", "COCO results, a DeepLabCut or a SLEAP file"),
}
_NO_TRACKER = (
    "No tracker: the folder of predictions has no file {video}_TrackedBBox_{tracker}.csv. `birdlab convert` writes them "
    "from a run that followed birds."
)


def lacking(recipe: Recipe, task: str) -> list[str]:
    """What the recipe lacks for clips (``actions``) or ``keypoints`` to be scored, and how to give it; empty where nothing."""
    section = recipe.individuals
    asked = getattr(section, task) if section else None
    truth, given = _GIVEN[task]
    if asked is None:
        how = f"give truth ({truth}) and predictions (model: {given})"
        return [f"Not asked for: the recipe has no individuals.{task}; {how}."]
    if not asked.predictions:
        return [f"No model: individuals.{task}.predictions of the recipe is empty; give model: {given}."]
    return []


def lacking_tracks(trackers: Sequence[str]) -> list[str]:
    """What lacks for tracks to be scored; empty where nothing."""
    return [] if trackers else [_NO_TRACKER]


def caption(read: str, lacks: Sequence[str]) -> str:
    """How to read a figure; where there is nothing to read, why."""
    return " ".join(lacks) or read


def actions(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """One row per model: share right with its interval and gain over the commonest behaviour, macro F1."""
    rows = []
    for name in models:
        row = cells_of(metrics, name, ACTIONS)
        commonest = number_of(metrics, "majority_accuracy", "")["value"]
        if row["accuracy"] is not None and commonest is not None:
            row["gain"] = row["accuracy"] - commonest
        else:
            row["gain_reason"] = "no clip was scored"
        row["above"] = "yes" if _above(row, commonest) else "not shown"
        rows.append(row)
    return table_of(rows, ["model", *with_ends(ACTIONS), "gain", "above"], text=("model", "above"))


def _above(row: dict[str, Any], commonest: float | None) -> bool:
    return row["accuracy_lo"] is not None and commonest is not None and row["accuracy_lo"] > commonest


def points(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """One row per model that places keypoints."""
    rows = [cells_of(metrics, name, POINTS) for name in models]
    return table_of(rows, ["model", *with_ends(POINTS)], text=("model",))


def tracks(metrics: pl.DataFrame, trackers: Sequence[str]) -> pl.DataFrame:
    """One row per tracker over all videos."""
    rows = [cells_of(metrics, name, TRACKS, group="tracker") for name in trackers]
    return table_of(rows, ["model", *with_ends(TRACKS)], text=("model",))


def best(metrics: pl.DataFrame, names: Sequence[str], measure: str, *, group: str = "all") -> str | None:
    """The name with the highest value of a measure, the first of equals; None where none has one."""
    have = [(v, n) for n in names if (v := number_of(metrics, measure, n, group=group)["value"]) is not None]
    return max(have, key=lambda pair: pair[0])[1] if have else None


def answer(
    metrics: pl.DataFrame, namers: Sequence[str], placers: Sequence[str], trackers: Sequence[str]
) -> tuple[str, str, str]:
    """Question, answer and detail of the chapter."""
    question = "What does each bird do, where are its parts, and is it followed through the video?"
    said = [actions_title(metrics, namers), points_title(metrics, placers), tracks_title(metrics, trackers)]
    said = [text for text, asked in zip(said, (namers, placers, trackers), strict=True) if asked]
    if not said:
        return question, "Nothing was asked.", "The recipe names neither clips nor keypoints, and no tracker was found."
    return question, said[0], " ".join(said[1:])


def headlines(metrics: pl.DataFrame, namers: Sequence[str], trackers: Sequence[str]) -> list[dict[str, Any]]:
    """Numbers for the top of the report: the best share of clips right, the best HOTA."""
    out = []
    if (name := best(metrics, namers, "accuracy")) is not None:
        found = number_of(metrics, "accuracy", name)
        about = {"label": f"Behaviours named right, {name}", "unit": "%", "digits": 0}
        out.append(about | {k: None if found[k] is None else 100 * found[k] for k in ("value", "lo", "hi")})
    if (name := best(metrics, trackers, "hota", group="tracker")) is not None:
        found = number_of(metrics, "hota", name, group="tracker")
        out.append({"label": f"HOTA, {name}", "digits": 2} | {k: found[k] for k in ("value", "lo", "hi")})
    return out


def actions_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """Who names behaviours best, and whether that beats always saying the commonest one."""
    name = best(metrics, models, "accuracy")
    if name is None:
        return "No clip was named."
    row = actions(metrics, [name]).to_dicts()[0]
    found, commonest = number_of(metrics, "accuracy", name), number_of(metrics, "majority_accuracy", "")
    text = f"{m(name)} names {pct(found['value'])} of {found['n'] or 0:,} clips right"
    if commonest["value"] is None:
        return f"{text}."
    level = f"always saying the commonest behaviour gives {pct(commonest['value'])}"
    return f"{text}; {level}{'' if row['above'] == 'yes' else ', and more than that is not shown'}."


def points_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """Who places keypoints best."""
    name = best(metrics, models, "pck_10")
    if name is None:
        return "No keypoint was scored."
    near, median = number_of(metrics, "pck_10", name), number_of(metrics, "error_median_px", name)
    text = f"{m(name)} places {pct(near['value'])} of keypoints within 10 px"
    return f"{text}, half of them within {num1(median['value'])} px."


def tracks_title(metrics: pl.DataFrame, trackers: Sequence[str]) -> str:
    """Which tracker keeps birds best."""
    name = best(metrics, trackers, "hota", group="tracker")
    if name is None:
        return "No track was scored."
    row = cells_of(metrics, name, TRACKS, group="tracker")
    switches = int(row["id_switches"] or 0)
    told = f"HOTA {num(row['hota'])}, {count(switches, 'switch', 'switches')} of identity"
    return f"{name} follows birds best: {told}."


def num1(number: float | None) -> str:
    """One decimal; – for nothing."""
    return "–" if number is None else f"{number:.1f}"


def confusion_title(frame: pl.DataFrame) -> str:
    """The largest mistake of each model."""
    frame = frame.filter(pl.col("model") != "")
    if frame["share"].drop_nulls().is_empty():
        return "No clip was named."
    said = frame.with_columns(pl.col("predicted").fill_null("nothing"))
    wrong = said.filter((pl.col("truth") != pl.col("predicted")) & pl.col("share").is_not_null())
    worst = wrong.sort("share", descending=True, maintain_order=True).unique("model", keep="first", maintain_order=True)
    told = [f"{m(r['model'])} calls {pct(r['share'])} of {r['truth']} {r['predicted']}" for r in worst.to_dicts()]
    return f"Largest mistakes: {'; '.join(told)}." if told else "No mistake was made."


def actions_alt(frame: pl.DataFrame) -> str:
    """The confusion in words: the share of each behaviour that is named right, per model."""
    right = frame.filter(pl.col("truth") == pl.col("predicted"))
    told = [f"{r['model']}, {r['truth']}: {pct(r['share'])} right of {r['n']}" for r in right.to_dicts()]
    return "Confusion of behaviours. " + ("; ".join(told) or "No clip") + "."


def points_alt(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """PCK at the two thresholds of each model."""
    told = [
        f"{name}: {pct(number_of(metrics, 'pck_5', name)['value'])} within 5 px, "
        f"{pct(number_of(metrics, 'pck_10', name)['value'])} within 10 px"
        for name in models
    ]
    return "Share of keypoints by distance. " + ("; ".join(told) or "No model") + "."


def parts_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """The keypoint that each model places worst."""
    told = [f"{m(name)} at {row['level'].replace('_', ' ')}" for name in models if (row := _worst(metrics, name))]
    return f"Farthest off: {', '.join(told)}." if told else "No keypoint was scored."


def _worst(metrics: pl.DataFrame, model: str) -> dict[str, Any] | None:
    at = (pl.col("model") == model) & (pl.col("group") == "keypoint") & (pl.col("metric") == "error_median_px")
    rows = metrics.filter(at).drop_nulls("value").sort("value", descending=True, maintain_order=True)
    return rows.row(0, named=True) if rows.height else None


def parts_alt(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """The keypoint with the largest median error of each model."""
    told = [
        f"{name}: largest at {row['level']}, {num1(row['value'])} px"
        for name in models
        if (row := _worst(metrics, name))
    ]
    return "Error by keypoint and scene. " + ("; ".join(told) or "Nothing was scored") + "."


def tracks_alt(metrics: pl.DataFrame, trackers: Sequence[str]) -> str:
    """The five measures of every tracker."""
    told = []
    for name in trackers:
        row = cells_of(metrics, name, TRACKS, group="tracker")
        told.append(f"{name}: " + ", ".join(f"{k.upper()} {num(row[k])}" for k in ("hota", "idf1", "mota")))
    return "Tracking measures per tracker. " + ("; ".join(told) or "No tracker") + "."


def tracking_frame(scores: pl.DataFrame) -> pl.DataFrame:
    """One row per tracker and video (empty: all together) with the measures as columns and their ends, for the figure."""
    about = {"index": ["tracker", "video_id"], "aggregate_function": "first", "maintain_order": True}
    wide = scores.pivot("measure", values="value", **about)
    for end in ("lo", "hi"):
        more = scores.pivot("measure", values=end, **about)
        names = {c: f"{c}_{end}" for c in more.columns if c not in ("tracker", "video_id")}
        wide = wide.join(more.rename(names), on=["tracker", "video_id"], maintain_order="left")
    return wide


def notes_of(notices: pl.DataFrame) -> list[str]:
    """What the readers remarked, one sentence each, counted."""
    told = []
    for row in notices.unique(maintain_order=True).to_dicts():
        n = f" ({row['n']:,})" if (row["n"] or 0) > 1 else ""
        text = row["message"].rstrip(".")
        told.append(f"{text[:1].upper()}{text[1:]}{n}.")
    return told
