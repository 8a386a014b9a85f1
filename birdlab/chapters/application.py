"""07_application: biological numbers of every combination, people and baselines; which stage costs what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import count, num, pct
from birdlab.individuals.errors import POOLED, WITHIN
from birdlab.report.table import Col

KEYS = ("tracker", "model", "identity")
RATE, TOGETHER = "feeding_rate", "co_occurrence"
MEASURES = {RATE: "pecks_per_min", TOGETHER: "co_occurrence_frac"}
#: Names of what is not a combination.
OTHERS = {
    "human": "a person",
    "random": "random names",
    "mean_rate": "everyone at the mean rate",
    "always_present": "everyone always present",
}
TASK_COLUMNS = {
    "combination": Col("Combination", kind="text"),
    "frame_accuracy": Col("Boxes", "right bird, %", "up", kind="percent"),
    "frame_accuracy_script": Col("Boxes", "reference, %", kind="percent"),
    "frame_precision": Col("Named", "right, %", "up", kind="percent"),
    "track_accuracy": Col("Visits", "right, %", "up", kind="percent"),
    "track_accuracy_script": Col("Visits", "reference, %", kind="percent"),
    "feeding_precision": Col("P", "pecks, 1 s", "up", digits=2),
    "feeding_recall": Col("R", "pecks, 1 s", "up", digits=2),
    "feeding_f1": Col("F1", "per bird", "up", digits=2),
    "feeding_f1_script": Col("F1", "reference", digits=2),
}
#: Numbers that the authors' script has too, beside the documented ones.
SCRIPT = ("frame_accuracy", "track_accuracy", "feeding_f1")
_ERROR = (*POOLED, "n")
_SCRIPT_ERROR = ("mean_abs_error", "r")
OPERATOR_COLUMNS = {
    "stage": Col("Stage", kind="text"),
    "replaced": Col("Replaced by the truth", kind="text"),
    "stays": Col("Stays", kind="text"),
    "hand_case": Col("By hand", kind="text"),
}
ACROSS_COLUMNS = {
    "task": Col("Task metric", kind="text"),
    "measure": Col("Error of", kind="text"),
    "rho": Col("Spearman ρ", digits=2),
    "n": Col("Combinations", digits=0),
    "n_values": Col("Values", "of the task metric", digits=0),
    "p": Col("p", "permutation"),
    "p_holm": Col("p", "after Holm"),
}


def error_columns(measure: str) -> dict[str, Col]:
    """How the errors of one measure are printed."""
    unit = "pecks/min" if measure == RATE else "share of video"
    digits = 2 if measure == RATE else 3
    return {
        "combination": Col("Combination", kind="text"),
        "mean_abs_error": Col("Mean", f"error, {unit}", "down", digits=digits),
        "mean_abs_error_script": Col("Mean", "reference", digits=digits),
        "median_abs_error": Col("Median", better="down", digits=digits),
        "sd_abs_error": Col("SD", digits=digits),
        "bias": Col("Bias", digits=digits),
        "limits": Col("Limits", "Bland–Altman", kind="text"),
        "r": Col("r", better="up", digits=2),
        "r_script": Col("r", "reference", digits=2),
        "ccc": Col("CCC", "Lin", "up", digits=2),
        "n": Col("n", digits=0),
    }


def budget_columns(measure: str) -> dict[str, Col]:
    """How the shares of one measure's error are printed."""
    unit, digits = ("pecks/min", 2) if measure == RATE else ("share of video", 3)
    stages = {s: Col(s.capitalize(), digits=digits) for s in ("detection", "tracks", "identity", "behaviour")}
    head = {"combination": Col("Combination", kind="text"), "total": Col("Error", f"mean, {unit}", digits=digits)}
    return head | stages | {"lead": Col("Largest", kind="text")}


def within_columns(measure: str) -> dict[str, Col]:
    """How the errors of one measure within video are printed: as pooled, without the authors' script, which has none."""
    return {k: c for k, c in error_columns(measure).items() if not k.endswith("_script")}


def named(combination: dict[str, Any]) -> str:
    """``identity · tracker · model`` of a combination; the plain name of people and baselines."""
    if not combination["tracker"]:
        return OTHERS.get(combination["model"], combination["model"])
    return " · ".join(combination[k] for k in ("identity", "tracker", "model"))


def with_names(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with a column ``combination``; see :func:`named`."""
    names = pl.Series("combination", [named(row) for row in frame.select(KEYS).to_dicts()], dtype=pl.String)
    return frame.with_columns(names)


def task_table(summary: pl.DataFrame) -> pl.DataFrame:
    """Boxes, visits and pecks of every combination as documented, beside those of the authors' script (``…_script``).

    Rows go from the largest share of right boxes down; a combination that lacks videos says which.
    """
    found = with_names(summary.filter(pl.col("tracker") != ""))
    mine = found.filter(pl.col("protocol") == "documented").sort("frame_accuracy", descending=True, nulls_last=True)
    script = found.filter(pl.col("protocol") == "reference").select(
        "combination", *(pl.col(c).alias(f"{c}_script") for c in SCRIPT)
    )
    rows = mine.join(script, on="combination", how="left", maintain_order="left")
    lacks = pl.format("without {}", pl.col("missing_videos").list.join(", "))
    note = pl.when(~pl.col("complete")).then(lacks).alias("combination_note")
    columns = [c for c in TASK_COLUMNS if c != "combination"]
    why = [pl.when(pl.col(c).is_null()).then(pl.lit("nothing to count")).alias(f"{c}_reason") for c in columns]
    ends = [f"{c}_{end}" for c in SCRIPT for end in ("lo", "hi")]
    return rows.select("combination", note, *columns, *ends, *why)


def error_table(summary: pl.DataFrame, measure: str, *, within: bool = False) -> pl.DataFrame:
    """Errors of one biological number as documented, beside the authors' script: combinations, people and baselines.

    Args:
        summary: table ``application_summary``, people and baselines among it.
        measure: ``feeding_rate`` or ``co_occurrence``.
        within: within video instead of pooled; the authors' script has no such numbers.

    Returns:
        Rows of combinations from the smallest mean error up, people and baselines below them; ``…_script``: the
        reference protocol.
    """
    named_rows = with_names(summary)
    script = {r["combination"]: r for r in named_rows.filter(pl.col("protocol") == "reference").to_dicts()}
    mine = named_rows.filter(pl.col("protocol") == "documented")
    mine = mine.with_columns(pl.col("tracker").eq("").alias("_other")).sort(
        "_other", f"{measure}_mean_abs_error", nulls_last=True, maintain_order=True
    )
    rows = [
        _error_row(row, measure, within=within)
        | ({} if within else _script_row(script.get(row["combination"]), measure))
        for row in mine.to_dicts()
        if row["tracker"] or row[f"{measure}_n"] is not None
    ]
    numbers = _ERROR if within else (*_ERROR, *(f"{k}_script" for k in _SCRIPT_ERROR))
    text = {"combination", "combination_note", "slice", "limits"}
    ends = () if within else ("mean_abs_error_lo", "mean_abs_error_hi")
    columns = ["combination", "combination_note", "slice", *numbers, "limits", *ends]
    columns += [f"{k}_reason" for k in (*numbers, "limits")]
    dtypes = {c: pl.String if c in text or c.endswith("_reason") else pl.Float64 for c in columns}
    return pl.DataFrame([{c: r.get(c) for c in columns} for r in rows], schema=dtypes)


def _error_row(row: dict[str, Any], measure: str, *, within: bool) -> dict[str, Any]:
    names = dict(zip(POOLED, WITHIN if within else POOLED, strict=True)) | {"n": "n"}
    here = {k: row.get(f"{measure}_{name}") for k, name in names.items()}
    lacks = None if row["complete"] else f"without {', '.join(row['missing_videos'])}"
    out = {"combination": row["combination"], "combination_note": lacks or row["note"], **here}
    out["slice"] = "combination" if row["tracker"] else row["combination"]
    out |= {"mean_abs_error_lo": row.get(f"{measure}_mae_lo"), "mean_abs_error_hi": row.get(f"{measure}_mae_hi")}
    if here["loa_lo"] is not None and here["loa_hi"] is not None:
        digits = 2 if measure == RATE else 3
        text = f"{here['loa_lo']:.{digits}f} to {here['loa_hi']:.{digits}f}".replace("-", "−")
        out["limits"] = text.replace(" ", "\u00a0")
    why = "nothing varies within video, or too few rows" if within else "fewer than 3 points, or a constant"
    why = (None if within else row.get(f"{measure}_reason")) or why
    return out | {f"{k}_reason": why for k in (*_ERROR, "limits") if out.get(k) is None}


def _script_row(script: dict[str, Any] | None, measure: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key in _SCRIPT_ERROR:
        out[f"{key}_script"] = script[f"{measure}_{key}"] if script else None
        out[f"{key}_script_reason"] = script[f"{measure}_reason"] if script else "not in the authors' script"
    return out


def rates_frame(numbers: pl.DataFrame, shown: Sequence[str], *, measure: str = RATE) -> pl.DataFrame:
    """Truth and prediction of every bird and video under the documented protocol, of some combinations and of people."""
    rows = numbers.filter(
        (pl.col("protocol") == "documented")
        & (pl.col("measure").cast(pl.String) == MEASURES[measure])
        & ~pl.col("model").is_in(["random", "mean_rate", "mean_rate_oracle", "always_present"])
    )
    rows = with_names(rows).with_columns(
        pl.when(pl.col("model") == "human").then(pl.lit("human")).otherwise("combination").alias("combination")
    )
    rows = rows.filter(pl.col("combination").is_in([*shown, "human"]))
    return rows.select("combination", "video_id", "subject", "truth", "predicted")


def ranked(summary: pl.DataFrame, measure: str = RATE) -> list[str]:
    """Complete combinations from the smallest mean error to the largest, as documented; incomplete ones last."""
    rows = with_names(summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "")))
    rows = rows.sort("complete", f"{measure}_mean_abs_error", descending=[True, False], nulls_last=True)
    return rows["combination"].to_list()


def matrix_frame(numbers: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """Share of time that each pair was together, mean over videos, by hand and by the first combination of ``order``."""
    combination = order[0] if order else ""
    rows = with_names(
        numbers.filter((pl.col("protocol") == "documented") & (pl.col("measure").cast(pl.String) == MEASURES[TOGETHER]))
    ).filter(pl.col("combination") == combination)
    pairs = rows.with_columns(
        pl.col("subject").list.get(0).alias("bird_a"), pl.col("subject").list.get(1).alias("bird_b")
    )
    return pairs.group_by("bird_a", "bird_b").agg(pl.col("truth", "predicted").mean()).sort("bird_a", "bird_b")


def budget_table(budget: pl.DataFrame, measure: str = RATE) -> pl.DataFrame:
    """Shares of the mean absolute error by stage, a row per combination, largest error last."""
    rows = with_names(budget.filter(pl.col("measure") == MEASURES[measure]))
    out = []
    for (name,), part in rows.group_by("combination", maintain_order=True):
        by = {r["stage"]: r for r in part.to_dicts()}
        row: dict[str, Any] = {"combination": name, "total": part["total"][0]}
        for stage, found in by.items():
            row |= {stage: found["share"], f"{stage}_lo": found["lo"], f"{stage}_hi": found["hi"]}
            row[f"{stage}_reason"] = found["reason"]
        lead = max(by.values(), key=lambda r: r["share"] if r["share"] is not None else float("-inf"))
        told = lead["fraction"] is not None and lead["share"] > 0
        row["lead"] = f"{lead['stage']} ({100 * lead['fraction']:.0f} %)" if told else None
        row["lead_reason"] = "there is no error"
        out.append(row)
    stages = ("detection", "tracks", "identity", "behaviour")
    columns = ["combination", "total", *(f"{s}{e}" for s in stages for e in ("", "_lo", "_hi", "_reason"))]
    columns += ["lead", "lead_reason"]
    text = {"combination", "lead", *(c for c in columns if c.endswith("_reason"))}
    frame = pl.DataFrame(
        [{c: r.get(c) for c in columns} for r in out],
        schema={c: pl.String if c in text else pl.Float64 for c in columns},
    )
    return frame.sort("total", maintain_order=True)


def of_combination(frame: pl.DataFrame, combination: str) -> pl.DataFrame:
    """Rows of one combination, named as on the page."""
    return with_names(frame).filter(pl.col("combination") == combination)


def leading_error(summary: pl.DataFrame, combination: str, measure: str = RATE) -> str:
    """Mean error of a combination with its interval, in words."""
    rows = with_names(summary.filter(pl.col("protocol") == "documented")).filter(pl.col("combination") == combination)
    row = rows.row(0, named=True)
    digits, unit = (1, " pecks/min") if measure == RATE else (3, " of the video")
    value = row[f"{measure}_mean_abs_error"]
    if value is None:
        return "undefined"
    lo, hi = row.get(f"{measure}_mae_lo"), row.get(f"{measure}_mae_hi")
    ends = f" [{lo:.{digits}f}, {hi:.{digits}f}]" if lo is not None and hi is not None else ""
    return f"{value:.{digits}f}{unit}{ends}"


def counted_words(summary: pl.DataFrame, videos: pl.DataFrame) -> str:
    """How much was followed: videos, combinations, and how many of these are complete."""
    rows = summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != ""))
    left = rows.filter(~pl.col("complete")).height
    told = f"{count(videos.height, 'video', 'videos')}, {count(rows.height, 'combination', 'combinations')}"
    return told + (f", {left} of them incomplete" if left else "")


def correlation_words(found: pl.DataFrame) -> str:
    """Whether a better task metric went with a smaller error of the feeding rate."""
    rows = found.filter(pl.col("measure").str.starts_with(RATE)).drop_nulls("rho")
    if rows.is_empty():
        return found["words"][0] if found.height else "No combination was scored."
    best = rows.sort("rho").row(0, named=True)
    return f"{best['task']} goes with the error of feeding rates at ρ {num(best['rho'])} over {best['n']} combinations."


def of_complete(draws: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Rows of the trackers and behaviour models that make a complete combination: others were drawn for fewer videos."""
    whole = summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "") & pl.col("complete"))
    return draws.join(
        whole.select("tracker", "model").unique(), on=["tracker", "model"], how="semi", maintain_order="left"
    )


def draws_frame(draws: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """Errors of feeding rates with random names (combination null) and of complete combinations, by tracker and model."""
    draws = of_complete(draws, summary)
    metric, name = f"{RATE}_mean_abs_error", pl.lit("mean error of feeding rates, pecks/min").alias("metric")
    group = pl.format("{} · {}", "tracker", "model").alias("group")
    drawn = draws.filter(pl.col("metric") == metric).select(
        name, group, pl.lit(None, pl.String).alias("combination"), "value"
    )
    rows = with_names(
        summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "") & pl.col("complete"))
    )
    return pl.concat([drawn, rows.select(name, group, "combination", pl.col(metric).alias("value"))])


def operators() -> pl.DataFrame:
    """What each stage replaced by the truth means."""
    from birdlab.individuals.budget import OPERATORS

    return OPERATORS


def published(metrics: pl.DataFrame) -> pl.DataFrame | None:
    """Printed rows of the first table: boxes and F1 by identity method; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & pl.col("metric").is_in(["frame_accuracy", "feeding_f1"]))
    if rows.is_empty():
        return None
    flat = rows.pivot("metric", index=["model", "source"], values="published", aggregate_function="first")
    absent = [pl.lit(None, pl.Float64).alias(c) for c in TASK_COLUMNS if c not in ("combination", *flat.columns)]
    flat = flat.with_columns(pl.col("model").alias("combination"), *absent)
    note = pl.format("{}, as printed", "source").alias("combination_note")
    return flat.select("combination", note, *(c for c in TASK_COLUMNS if c != "combination"))


def across_frame(
    tasks: pl.DataFrame, summary: pl.DataFrame, chance: pl.DataFrame, task: str = "frame_accuracy"
) -> pl.DataFrame:
    """A task metric and the error of feeding rates (pecks/min) of complete combinations, people, the mean rate, chance.

    Args:
        tasks: table ``application_tasks``.
        summary: table ``application_summary``.
        chance: table ``application_random``; the band spans the draws of all trackers and behaviour models.
        task: the task metric.

    Returns:
        task (null for people and baselines), measure, combination, value of the task metric (null for those), error, lo, hi
        (of the band of random names; null elsewhere).
    """
    error = pl.col(f"{RATE}_mean_abs_error").alias("error")
    rows = with_names(tasks).select(pl.lit(task).alias("task"), "combination", pl.col(task).alias("value"), error)
    others = with_names(summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") == "")))
    none = [pl.lit(None, pl.String).alias("task"), pl.lit(None, pl.Float64).alias("value")]
    others = others.select(none[0], pl.col("model").alias("combination"), none[1], error).drop_nulls("error")
    ends = [pl.lit(None, pl.Float64).alias(k) for k in ("lo", "hi")]
    drawn = chance.filter(pl.col("metric") == f"{RATE}_mean_abs_error").drop_nulls("median")
    band = drawn.select(
        none[0], pl.lit("random").alias("combination"), none[1], pl.col("median").mean().alias("error"),
        pl.col("lo").min(), pl.col("hi").max(),
    ).head(1)  # fmt: skip
    levels = pl.concat([rows, others]).with_columns(*ends)
    return pl.concat([levels, band]).with_columns(pl.lit(RATE).alias("measure"))


def tolerance_frame(curves: pl.DataFrame) -> pl.DataFrame:
    """Curves of a person and of the best combination."""
    sources = curves["source"].unique(maintain_order=True).to_list()
    shown = [s for s in sources if s == "human"] + [s for s in sources if s != "human"][:1]
    return curves.filter(pl.col("source").is_in(shown)).select("source", "tolerance_s", "f1", "corrected")


def across_table(found: pl.DataFrame) -> pl.DataFrame:
    """Spearman's ρ of every task metric with both errors."""
    from birdlab.chapters.application_words import label

    of = {f"{RATE}_mean_abs_error": "feeding rates", f"{TOGETHER}_mean_abs_error": "co-occurrence"}
    names = pl.Series("task", [label(t) for t in found["task"].to_list()], dtype=pl.String)
    return found.select(
        names, pl.col("measure").replace(of), "rho", pl.col("lo").alias("rho_lo"), pl.col("hi").alias("rho_hi"),
        pl.col("n", "n_values").cast(pl.Float64), "p", "p_holm",
        *(pl.col("reason").alias(f"{c}_reason") for c in ("rho", "p", "p_holm")),
    )  # fmt: skip


def lane_frame(lanes: pl.DataFrame, order: Sequence[str], video: int) -> pl.DataFrame:
    """Lanes of one video (by its place in the list): by hand, and of the first combination of ``order``."""
    combination = order[0] if order else ""
    videos = lanes["video_id"].unique().sort().to_list()
    if not videos:
        return lanes
    mine = lanes.filter(pl.col("video_id") == videos[video % len(videos)])
    return mine.filter((pl.col("source") == "truth") | (pl.col("combination") == combination))


def share_words(fraction: float | None) -> str:
    """A share of the error in percent; an en dash where there is no error."""
    return "–" if fraction is None else pct(fraction)
