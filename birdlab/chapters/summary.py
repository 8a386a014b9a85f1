"""10_summary: the key numbers of all chapters beside published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters import abstention_words as knowing
from birdlab.chapters.common import (
    NEW,
    best_model,
    count,
    interval_of,
    num,
    number_of,
    pct,
    share_of,
    unit_of,
    value,
    wide,
)
from birdlab.chapters.difficulty_names import title as title_of
from birdlab.report.show import m
from birdlab.report.table import Col

#: Key measures of detection, in words, with the unit they are printed in.
KEY = {
    "ap": "Average precision, IoU 0.50–0.95",
    "ap50": "Average precision, IoU 0.50",
    "precision": "Precision at the fixed score",
    "recall": "Recall at the fixed score",
    "f1": "F1 at the fixed score",
    "mask_ap": "Average precision of outlines, IoU 0.50–0.95",
    "fps_end_to_end": "Frames per second, file to boxes",
}
#: Key measures of abstention, in words.
KNOWING = {
    "ua_a": "UA/A: declines what cannot be told (0.5 is chance)",
    "ig": "IG: accuracy against information",
    "a_species_accuracy": "Species right, answerable photographs",
    "a_genus_accuracy": "Genus right, answerable photographs",
}
#: Key measures of birds followed in videos: (measure, group, whether less is better), in words.
FOLLOWING = {
    ("accuracy", "all", False): "Behaviours of clips named right",
    ("pck_10", "all", False): "Keypoints within 10 px",
    ("hota", "tracker", False): "HOTA of the best tracker",
    ("frame_accuracy", "protocol", False): "Boxes with the right bird, as documented",
    ("feeding_f1", "protocol", False): "F1 of pecks in seconds, as documented",
    ("feeding_rate_mean_abs_error", "protocol", True): "Mean error of feeding rates, pecks/min",
    ("co_occurrence_mean_abs_error", "protocol", True): "Mean error of co-occurrence, share of the video",
}
FOLLOWING_COLUMNS = {
    "measure": Col("Measure", kind="text"),
    "best": Col("Best", kind="text"),
    "value": Col("Value", digits=2),
    "published": Col("Published", "CHIRP", kind="text"),
}
#: Rows of the published table that were trained for the task, as the recipe's detectors usually are.
FINE_TUNED = ("YOLOv8", "YOLO26", "Faster R-CNN", "RT-DETR", "OWL-ViT FT", "YOLO-World FT", "YOLOv8-Seg", "Mask R-CNN")


def key_numbers(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> pl.DataFrame:
    """One row per key measure: a column per model with the interval for a new session, and the published range.

    ``published`` is text, as the range over the fine-tuned detectors of the paper's Table 1; null where nothing is published.
    """
    per_model = {name: wide(metrics, name, list(KEY), conf=conf) for name in models}
    rows = []
    for measure, words in KEY.items():
        row: dict[str, Any] = {"measure": words, "published": _range(metrics, measure)}
        if row["published"] is None:
            row["published_reason"] = "no published number stands beside this study"
        for name in models:
            mine = per_model[name]
            row |= {
                name: mine.get(measure),
                f"{name}_lo": mine.get(f"{measure}_lo"),
                f"{name}_hi": mine.get(f"{measure}_hi"),
            }
            row[f"{name}_reason"] = mine.get(f"{measure}_reason")
        rows.append(row)
    rows += impact_row(metrics, models)
    text = {"measure", "measure_note", "published", "published_reason", *(f"{name}_reason" for name in models)}
    ends = [c for name in models for c in (name, f"{name}_lo", f"{name}_hi", f"{name}_reason")]
    columns = ["measure", "measure_note", *ends, "published", "published_reason"]
    return pl.DataFrame(rows, schema={c: pl.String if c in text else pl.Float64 for c in columns})


def impact_row(metrics: pl.DataFrame, models: Sequence[str]) -> list[dict[str, Any]]:
    """What the costliest confirmed factor costs each model, in points of recall, as a row; none without 03_difficulty."""
    impact = metrics.filter((pl.col("metric") == "impact") & pl.col("published").is_null())
    if impact.is_empty():
        return []
    sure = metrics.filter((pl.col("metric") == "confirmed") & (pl.col("value") == 1.0)).select("model", "group")
    known = impact.join(sure, on=["model", "group"], how="semi").sort("value", descending=True, maintain_order=True)
    row: dict[str, Any] = {"measure": "Worth fixing: recall to be won on the costliest confirmed factor, points"}
    row |= {"published": None, "published_reason": "papers print differences between bins, not what they are worth"}
    names = []
    for name in models:
        mine = known.filter(pl.col("model") == name)
        plain = mine.filter(~pl.col("method").str.contains("_sessions")).head(1).to_dicts()
        row[f"{name}_reason"] = "no single factor is confirmed"
        if plain:
            factor = plain[0]["group"]
            ends = mine.filter((pl.col("group") == factor) & pl.col("method").str.ends_with(NEW)).to_dicts()
            row[name] = 100 * plain[0]["value"]
            row[f"{name}_reason"] = ends[0]["reason"] if ends else None
            numbers = {k: ends[0][k] if ends else None for k in ("lo", "hi")}
            row |= {f"{name}_{k}": None if v is None else 100 * v for k, v in numbers.items()}
            names.append(f"{name}: {title_of(factor).lower()}")
    return [row | {"measure_note": "; ".join(names) or None}]


def knowing_numbers(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """One row per key measure of abstention, shaped like :func:`key_numbers`; ``published`` is the range of RealBirdID."""
    rows = []
    for measure, words in KNOWING.items():
        printed = metrics.filter(
            pl.col("published").is_not_null()
            & (pl.col("metric") == measure)
            & (pl.col("group") == "all")
            & (pl.col("model") != "")
        )["published"]
        row: dict[str, Any] = {"measure": words, "measure_note": None}
        row["published"] = None if printed.is_empty() else _span(printed)
        row["published_reason"] = "no published number stands beside this study"
        for name in models:
            found = number_of(metrics, measure, name)
            row |= {
                name: found["value"],
                f"{name}_lo": found["lo"],
                f"{name}_hi": found["hi"],
                f"{name}_reason": found["reason"],
            }
        rows.append(row)
    text = {"measure", "measure_note", "published", "published_reason", *(f"{name}_reason" for name in models)}
    ends = [c for name in models for c in (name, f"{name}_lo", f"{name}_hi", f"{name}_reason")]
    names = ["measure", "measure_note", *ends, "published", "published_reason"]
    return pl.DataFrame(rows, schema={c: pl.String if c in text else pl.Float64 for c in names})


def following_numbers(metrics: pl.DataFrame) -> pl.DataFrame:
    """One row per key measure of 06 and 07: the best of this study with its interval, and the range that CHIRP prints."""
    rows = []
    for (measure, group, less), words in FOLLOWING.items():
        of = metrics.filter(pl.col("metric") == measure)
        mine = of.filter(
            pl.col("published").is_null() & (pl.col("group") == group) & pl.col("model").str.len_chars().gt(0)
        )
        if group == "protocol":
            mine = mine.filter((pl.col("level") == "documented") & pl.col("model").str.contains(" · ", literal=True))
        mine = mine.drop_nulls("value").sort("value", descending=not less, maintain_order=True)
        best = mine.row(0, named=True) if mine.height else dict.fromkeys(("model", "value", "lo", "hi"))
        printed = of["published"].drop_nulls()
        row = {
            "measure": words,
            "best": best["model"],
            "value": best["value"],
            "value_lo": best["lo"],
            "value_hi": best["hi"],
        }
        none = "not measured in this run"
        row |= {
            "best_reason": none,
            "value_reason": none if best["value"] is None else "a mean of birds, not resampled",
        }
        row |= {"published": _span(printed) if len(printed) > 1 else f"{printed[0]:.3g}" if len(printed) else None}
        # A recipe may ask for the paper, and a number of the paper may still be missing.
        beside = metrics.filter(pl.col("dataset") == "chirp").height > 0
        nothing = "no such number of CHIRP is at hand" if beside else "no published number stands beside this study"
        rows.append(row | {"published_reason": nothing})
    floats = {"value", "value_lo", "value_hi"}
    return pl.DataFrame(rows, schema={c: pl.Float64 if c in floats else pl.String for c in rows[0]})


def following_title(metrics: pl.DataFrame) -> str:
    """How far the best combination is off, and a person."""
    found = following_numbers(metrics).filter(pl.col("measure").str.starts_with("Mean error of feeding")).to_dicts()[0]
    if found["value"] is None:
        return "No combination was scored."
    at = (pl.col("model") == "human") & (pl.col("level") == "documented")
    human = metrics.filter((pl.col("metric") == "feeding_rate_mean_abs_error") & at)["value"].drop_nulls()
    person = f"; a person by {human[0]:.1f}" if len(human) else ""
    return f"Feeding rates of {found['best']} are off by {found['value']:.1f} pecks/min{person}."


def columns(models: Sequence[str], *, source: str = "Western Bluebird") -> dict[str, Col]:
    """How :func:`key_numbers` and :func:`knowing_numbers` are printed."""
    shown = {"measure": Col("Measure", kind="text")} | {name: Col(name, digits=2) for name in models}
    return shown | {"published": Col("Published", source, kind="text")}


def answer(
    metrics: pl.DataFrame,
    models: Sequence[str],
    *,
    conf: float,
    speaking: Sequence[str] = (),
    followed: bool = False,
    more: Sequence[str] = (),
) -> tuple[str, str, str]:
    """Question, answer and detail.

    Args:
        metrics: table ``metrics`` of all chapters.
        models: detectors.
        conf: the fixed score.
        speaking: models that name birds, where the study asks about abstention.
        followed: whether birds were followed in videos.
        more: sentences of further chapters.
    """
    question, found, detail = _detection(metrics, models, conf=conf)
    told = knowing.verdict(metrics, speaking) if speaking else ""
    others = [*([following_title(metrics)] if followed else []), *more]
    told = " ".join(filter(None, [told, *others]))
    if others and not models and not speaking:
        return question, others[0], " ".join(others[1:])
    if not told:
        return question, found, detail
    if not models:
        return question, told, knowing.answer(metrics, speaking)[2]
    return question, found, f"{detail} {told}"


def _detection(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> tuple[str, str, str]:
    question = "What do all chapters say together, and how does it compare with print?"
    best = best_model(metrics, models)
    if best is None:
        return question, "There is no score to sum up.", "The chapters say why."
    recall = share_of(metrics, "recall", best, conf=conf)
    detail = (
        f"AP {num(value(metrics, 'ap', best))}, recall {pct(recall['value'])}{interval_of(recall)} at score ≥ {conf:g}."
    )
    if len(models) < 2:
        return question, f"{m(best)} finds {pct(recall['value'])} of the birds.", detail
    if _leads_everywhere(metrics, best, [name for name in models if name != best]):
        return question, f"{m(best)} leads, confirmed for a new {unit_of(metrics)}.", detail
    return question, f"{m(best)} leads here; that a new {unit_of(metrics)} would agree is not confirmed.", detail


def title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the table shows."""
    best = best_model(metrics, models)
    sessions = value(metrics, "n_sessions", "")
    if best is None:
        return "Nothing was scored."
    return f"{m(best)} leads on {count(int(sessions or 0), 'session', 'sessions')}."


def _span(printed: pl.Series) -> str:
    """Lowest and highest printed number; three digits where two would round the lowest away."""
    lo, hi = float(printed.min()), float(printed.max())  # type: ignore[arg-type]
    digits = 3 if lo < 0.1 else 2
    return f"{lo:.{digits}f}–{hi:.{digits}f}"


def knowing_title(metrics: pl.DataFrame, speaking: Sequence[str]) -> str:
    """What the table of abstention shows."""
    return knowing.verdict(metrics, speaking) or "Who knows when not to answer could not be scored."


def notes(metrics: pl.DataFrame) -> list[str]:
    """Sentences under the table: where published numbers come from."""
    shown = (
        pl.col("published").is_not_null()
        & pl.col("metric").is_in(list(KEY))
        & pl.col("source").str.contains("Table [12]$")
    )
    sources = metrics.filter(shown)["source"].unique().sort().to_list()
    return [f"Published: {', '.join(sources)}, one test session of 1,006 frames. Not computed here."] if sources else []


def _leads_everywhere(metrics: pl.DataFrame, best: str, others: Sequence[str]) -> bool:
    """Whether ``best`` is confirmed to find more than every other model; a confirmed lead of another one is not that."""
    new = metrics.filter((pl.col("group") == "pair") & pl.col("method").str.ends_with(NEW))
    by_pair = {(r["model"], r["metric"]): r["value"] for r in new.to_dicts()}

    def leads(other: str) -> bool:
        for pair, sign in ((f"{best} - {other}", 1), (f"{other} - {best}", -1)):
            if by_pair.get((pair, "recall_difference_confirmed")):
                return sign * by_pair[pair, "recall_difference"] > 0
        return False

    return all(leads(other) for other in others)


def _range(metrics: pl.DataFrame, measure: str) -> str | None:
    table = "Table 2" if measure.startswith("mask_") else "Table 1"
    rows = metrics.filter(
        pl.col("published").is_not_null()
        & (pl.col("metric") == measure)
        & pl.col("source").str.ends_with(table)
        & pl.col("model").is_in(FINE_TUNED)
    )["published"]
    if rows.is_empty():
        return None
    digits = 1 if measure.startswith("fps") else 2
    return f"{rows.min():.{digits}f}–{rows.max():.{digits}f}"
