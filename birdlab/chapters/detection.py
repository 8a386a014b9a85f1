"""02_detection: the tables of scores, sizes, false alarms and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import TEXT, pick, table_of, value, wide, with_ends
from birdlab.report.table import Col

DETECTION_COLUMNS = {
    "model": Col("Model", kind="text"),
    "ap": Col("AP", "IoU .50–.95", "up"),
    "ap50": Col("AP50", "IoU .50", "up"),
    "ap75": Col("AP75", "IoU .75", "up"),
    "ar100": Col("AR", "100 a frame", "up"),
    "precision": Col("Precision", "fixed score", "up"),
    "recall": Col("Recall", "fixed score", "up"),
    "f1": Col("F1", "fixed score", "up"),
    "fps_end_to_end": Col("Speed", "frames/s", "up", digits=1),
}
MASK_COLUMNS = {
    "model": Col("Model", kind="text"),
    "mask_ap": Col("Mask AP", "IoU .50–.95", "up"),
    "mask_ap50": Col("Mask AP50", "IoU .50", "up"),
    "mask_precision": Col("Precision", "fixed score", "up"),
    "mask_recall": Col("Recall", "fixed score", "up"),
    "mask_f1": Col("F1", "fixed score", "up"),
}
COUNT_COLUMNS = {
    "model": Col("Model", kind="text"),
    "rule": Col("Confidence", kind="text"),
    "conf": Col("Score", "at least", digits=3),
    "tp": Col("TP", "found", kind="int"),
    "fp": Col("FP", "false", kind="int"),
    "fn": Col("FN", "missed", kind="int"),
    "precision": Col("Precision", better="up"),
    "recall": Col("Recall", better="up"),
    "f1": Col("F1", better="up"),
}
ALARM_COLUMNS = {
    "model": Col("Model", kind="text"),
    "n_empty": Col("Empty frames", kind="int"),
    "empty_frames_with_alarm": Col("With an alarm", "% of empty frames", "down", kind="percent"),
    "false_alarms_per_1000_empty_frames": Col("Alarms", "per 1,000 empty", "down", digits=0),
    "false_alarms_per_hour": Col("Alarms", "per hour of video", "down", digits=1),
}
PAIR_COLUMNS = {
    "pair": Col("Pair", kind="text"),
    "difference": Col("Difference in recall", "points", kind="percent"),
    "n": Col("Birds", kind="int"),
    "n_only_a": Col("Only the first", kind="int"),
    "n_only_b": Col("Only the second", kind="int"),
    "p_holm": Col("p", "after Holm", kind="p"),
    "mark": Col("Confirmed", kind="text"),
}
MEASURES, MASKS = ([c for c in columns if c != "model"] for columns in (DETECTION_COLUMNS, MASK_COLUMNS))


def scores(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """AP, AR, precision, recall, F1 and speed: a row per model, again on thinned frames, and of the second labelling.

    ``frames`` says which frames a row is about (``all``, the distance of thinned ones, ``twice``).

    Precision and recall carry the interval for a new session.
    """
    rows = [{**wide(metrics, name, MEASURES, conf=conf), "frames": "all"} for name in models]
    for level in metrics.filter(pl.col("group") == "thinned")["level"].unique().to_list():
        thinned = [wide(metrics, name, MEASURES, conf=conf, group="thinned", level=level) for name in models]
        rows += [{**row, "model_note": f"frames at least {level} apart", "frames": level} for row in thinned]
    if value(metrics, "recall", "human") is not None:
        n = value(metrics, "n_frames", "human")
        note = "one observer against another" + (f", {int(n)} frames" if n is not None else "")
        rows.append({**wide(metrics, "human", MEASURES, conf=None), "model_note": note, "frames": "twice"})
    return table_of(rows, ["model", "model_note", "frames", *with_ends(MEASURES)], text=(*TEXT, "frames"))


def masks(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """Mask measures, a row per model; nulls with the reason where labels or model carry no masks."""
    rows = []
    for model in models:
        row = wide(metrics, model, MASKS, conf=conf)
        why = row.get("mask_ap_reason") or "the model draws no outlines"
        rows.append(row | {key: why for key in row if key.endswith("_reason")})
    return table_of(rows, ["model", *with_ends(MASKS)])


def published(metrics: pl.DataFrame, names: Sequence[str], *, table: str = "Table 1") -> pl.DataFrame | None:
    """Rows of a published table, one per printed model, nulls where the paper reports nothing; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & pl.col("source").str.ends_with(table))
    if rows.is_empty():
        return None
    flat = rows.pivot("metric", index=["model", "source"], values="published", aggregate_function="first")
    missing = [pl.lit(None, pl.Float64).alias(n) for n in names if n not in flat.columns]
    flat = flat.with_columns(*missing, (pl.col("source") + ", as printed").alias("model_note"))
    return flat.select("model", "model_note", *names)


def counts(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """Two rows per model: counts, precision, recall and F1 at the fixed confidence and at the highest F1."""
    names = ["tp", "fp", "fn", "precision", "recall", "f1"]
    rows = []
    for model in models:
        rows.append({**wide(metrics, model, names, conf=conf), "rule": "fixed", "conf": conf})
        best = metrics.filter((pl.col("model") == model) & pl.col("method").str.contains("max_f1")).to_dicts()
        best = [r for r in best if r["group"] == "all"]
        if best:
            values = {r["metric"]: r["value"] for r in best}
            why = {f"{r['metric']}_reason": r["reason"] for r in best if r["value"] is None}
            rule = "highest F1, an oracle" if "oracle" in best[0]["method"] else "highest F1 on validation"
            rows.append({"model": model, "rule": rule, **{n: values.get(n) for n in ["conf", *names]}, **why})
    return table_of(rows, ["model", "rule", "conf", *with_ends(names)])


def points(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """Precision and recall of each model at the fixed confidence, and of the second labelling as ``human``."""
    rows = [wide(metrics, name, ["precision", "recall"], conf=None if name == "human" else conf) for name in models]
    return table_of(rows, ["model", "precision", "recall"])


def sizes(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """AP by COCO size, then by relative size; bins of relative size that no labelled bird has are left out."""
    rows: list[dict[str, Any]] = []
    for group, unit in (("coco_size", "COCO"), ("relative_size", "of the frame's side")):
        found = pick(metrics, "ap", group=group)
        for level in found["level"].unique(maintain_order=True).to_list():
            at = found.filter(pl.col("level") == level).to_dicts()
            n = max((r["n"] or 0 for r in at), default=0)
            if n or group == "coco_size":
                values = {r["model"]: r["value"] for r in at if r["model"] in models}
                why = {f"{r['model']}_reason": r["reason"] for r in at if r["value"] is None}
                rows.append({"size": level.replace("-", "–"), "size_note": unit, "n": n, **values, **why})
    return table_of(rows, ["size", "size_note", "n", *models], text=("size", "size_note"))


def size_columns(models: Sequence[str]) -> dict[str, Col]:
    """How :func:`sizes` is printed."""
    return {"size": Col("Size", kind="text"), "n": Col("Birds", kind="int")} | {
        name: Col(name, "AP") for name in models
    }


def alarms(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """False alarms per model; where no empty frame was looked at, dashes with the sentence that says what that means."""
    names = [c for c in ALARM_COLUMNS if c not in ("model", "n_empty")]
    n = value(metrics, "n_empty_frames", "")
    rows = [{**wide(metrics, name, names, conf=conf), "n_empty": n} for name in models]
    return table_of(rows, ["model", "n_empty", *with_ends(names)])


def pairs(comparisons: pl.DataFrame) -> pl.DataFrame:
    """Paired differences in recall for a new session, with Holm's p and whether the difference is confirmed."""
    sure = pl.when(pl.col("confirmed")).then(pl.lit("yes"))
    mark = sure.when(pl.col("p_holm").is_null()).then(pl.lit("cannot be")).otherwise(pl.lit("no"))
    new = comparisons.filter(pl.col("kind") == "new_sessions")
    return new.select(
        pl.format("{} − {}", "model_a", "model_b").alias("pair"),
        *("model_a", "model_b", "difference"),
        pl.col("lo").alias("difference_lo"),
        pl.col("hi").alias("difference_hi"),
        pl.col("reason").alias("difference_reason"),
        *("n", "n_only_a", "n_only_b", "p_holm"),
        pl.col("reason").alias("p_holm_reason"),
        mark.alias("mark"),
    )
