"""09_abstention: the tables of areas, accuracies, reasons, prompts and conventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import table_of, with_ends
from birdlab.report.table import Col

REASONS = ("vocalization", "angle", "quality", "other", "none")
AREAS = ("ua_a", "ig", "auc_a_species", "auc_a_genus", "auc_ua_genus")
AREA_COLUMNS = {
    "model": Col("Model", kind="text"),
    "ua_a": Col("UA/A", ".5 is chance", "up"),
    "ig": Col("IG", "accuracy × information", "up"),
    "auc_a_species": Col("A-species", "calibration", "up"),
    "auc_a_genus": Col("A-genus", "calibration", "up"),
    "auc_ua_genus": Col("UA-genus", "calibration", "up"),
    "above": Col("UA/A above", "after Holm", kind="text"),
}
ACCURACIES = ("a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy", "within_genus_accuracy")
ACCURACY_COLUMNS = {
    "model": Col("Model", kind="text"),
    "a_species_accuracy": Col("Species", "answerable, %", "up", kind="percent"),
    "a_species_accuracy_gain": Col("over chance", "points", kind="percent"),
    "a_genus_accuracy": Col("Genus", "answerable, %", "up", kind="percent"),
    "a_genus_accuracy_gain": Col("over chance", "points", kind="percent"),
    "ua_genus_accuracy": Col("Genus", "unanswerable, %", "up", kind="percent"),
    "ua_genus_accuracy_gain": Col("over chance", "points", kind="percent"),
    "within_genus_accuracy": Col("Within genus", "%", "up", kind="percent"),
    "within_genus_accuracy_gain": Col("over chance", "points", kind="percent"),
    "ig": Col("IG", better="up"),
    "ua_a": Col("UA/A", better="up"),
}
REASON_COLUMNS = {
    "model": Col("Model", kind="text"),
    "true_reason": Col("True reason", kind="text"),
    "n": Col("Photographs", kind="int"),
    "rate": Col("Declined", "%, whatever the reason", kind="percent"),
    "right": Col("Right reason", "% of declined", "up", kind="percent"),
    "both": Col("Declined, right reason", "% of all", "up", kind="percent"),
}
PROMPT_COLUMNS = {
    "model": Col("Model", kind="text"),
    "prompts": Col("Prompts", kind="text"),
    "n_prompts": Col("n", kind="int"),
    "mean": Col("Declined", "mean, %", kind="percent"),
    "sd": Col("SD", "points", kind="percent"),
    "min": Col("Min", "%", kind="percent"),
    "max": Col("Max", "%", kind="percent"),
    "difference": Col("With permission", "points, paired", kind="percent"),
}
EXAMPLE_COLUMNS = {
    "item_id": Col("Photograph", kind="text"),
    "model": Col("Model", kind="text"),
    "truth": Col("Truth", kind="text"),
    "text": Col("What it said", kind="text"),
    "read_as": Col("Read as", kind="text"),
}
_MOST_TEXT = 240
#: Slices of the accuracy table: (group, level) -> words under the model's name.
_SLICES = {
    ("all", "all"): "as given",
    ("variant", "range_map"): "with the range map",
    ("variant", "observation"): "per observation",
    ("contamination", "contaminated"): "sources it was trained on",
    ("contamination", "clean"): "sources it was not trained on",
    ("contamination", "unknown"): "sources unknown to its card",
}
_ASKED = {
    "n_answerable": "Answerable",
    "n_unanswerable": "Unanswerable",
    "n_species": "Species among the answerable",
    "n_genera": "Genera",
    "n_observations": "Observations",
    "n_listed": "Photographs with a list from a range map",
    "n_list_drops_truth": "… whose list drops the true species",
}


def number_of(
    metrics: pl.DataFrame, metric: str, model: str, *, group: str = "all", level: str = "all"
) -> dict[str, Any]:
    """One computed row of ``metrics`` as a mapping; every value null, with a reason, where there is none."""
    rows = metrics.filter(
        (pl.col("metric") == metric)
        & (pl.col("model") == model)
        & (pl.col("group") == group)
        & (pl.col("level") == level)
        & pl.col("published").is_null()
    ).to_dicts()
    blank = dict.fromkeys(metrics.columns) | {"model": model, "metric": metric, "reason": "not measured in this run"}
    return rows[0] if rows else blank


def count_of(metrics: pl.DataFrame, metric: str) -> int:
    """A count of the study, 0 where it was not made."""
    return int(number_of(metrics, metric, "")["value"] or 0)


def asked(metrics: pl.DataFrame) -> pl.DataFrame:
    """What was asked: photographs, reasons, genera, lists; ``what``, ``n``."""
    rows = [{"what": words, "n": count_of(metrics, name)} for name, words in _ASKED.items()]
    reasons = metrics.filter((pl.col("group") == "true_reason") & (pl.col("metric") == "n_unanswerable"))
    split = [
        {"what": f"… for want of {_WANT.get(r['level'], r['level'])}", "n": int(r["value"])} for r in reasons.to_dicts()
    ]
    return pl.DataFrame([*rows[:2], *split, *rows[2:]], schema={"what": pl.String, "n": pl.Int64})


_WANT = {
    "vocalization": "its voice",
    "angle": "a better angle",
    "quality": "a sharper picture",
    "other": "something else",
}


def _cells(
    metrics: pl.DataFrame, model: str, names: Sequence[str], *, group: str = "all", level: str = "all"
) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model}
    for name in names:
        found = number_of(metrics, name, model, group=group, level=level)
        row |= {name: found["value"], f"{name}_lo": found["lo"], f"{name}_hi": found["hi"]}
        if found["value"] is None:
            row[f"{name}_reason"] = found["reason"]
    return row


def areas(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """The five areas of each model with intervals, the uncertainty used, and the models it is confirmed above in UA/A."""
    rows = []
    for name in models:
        row = _cells(metrics, name, AREAS)
        row["model_note"] = uncertainty_words(number_of(metrics, "ua_a", name)["method"] or "")
        row["above"] = ", ".join(beaten(metrics, name, models)) or None
        row["above_reason"] = "no difference is confirmed in its favour"
        rows.append(row)
    return table_of(rows, ["model", "model_note", *with_ends(AREAS), "above"], text=("model", "model_note", "above"))


def uncertainty_words(method: str) -> str:
    """Which uncertainty a model was thresholded by, from the method of its row.

    >>> uncertainty_words("u=binary nan=error; single point")
    'declines or not: one point'
    """
    kind = next((part[2:] for part in method.replace(";", " ").split() if part.startswith("u=")), "")
    words = {
        "1-maxprob": "1 − largest probability",
        "binary": "declines or not: one point",
        "stated": "1 − stated confidence",
    }
    return words.get(kind, kind)


def beaten(metrics: pl.DataFrame, model: str, models: Sequence[str], *, measure: str = "ua_a") -> list[str]:
    """Models over which a model's lead is confirmed after Holm's correction."""
    rows = metrics.filter(pl.col("group") == "pair")
    by = {(r["model"], r["metric"]): r["value"] for r in rows.to_dicts()}
    out = []
    for other in models:
        for pair, sign in ((f"{model} - {other}", 1), (f"{other} - {model}", -1)):
            difference = by.get((pair, f"{measure}_difference"))
            if by.get((pair, f"{measure}_difference_confirmed")) and sign * difference > 0:
                out.append(other)
    return out


def published(metrics: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame | None:
    """Rows of RealBirdID with the named measures, a row per printed model; None without any."""
    rows = metrics.filter(
        pl.col("published").is_not_null()
        & pl.col("metric").is_in(list(names))
        & (pl.col("group") == "all")
        & (pl.col("model") != "")
    )
    if rows.is_empty():
        return None
    flat = rows.pivot("metric", index=["model"], values="published", aggregate_function="first", maintain_order=True)
    sources = rows.group_by("model", maintain_order=True).agg(pl.col("source").first())
    missing = [pl.lit(None, pl.Float64).alias(n) for n in names if n not in flat.columns]
    flat = flat.join(sources, on="model", how="left", maintain_order="left").with_columns(*missing)
    return flat.select("model", pl.format("{}, as printed", "source").alias("model_note"), *names)


def accuracies(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Accuracy with gain over chance, IG and UA/A: as given, with the range map, per observation, by training source."""
    names = [*(n for a in ACCURACIES for n in (a, f"{a}_gain")), "ig", "ua_a"]
    rows = []
    for name in models:
        for (group, level), words in _SLICES.items():
            here = metrics.filter((pl.col("model") == name) & (pl.col("group") == group) & (pl.col("level") == level))
            if here.filter(pl.col("metric").is_in(list(ACCURACIES))).is_empty():
                continue
            row = _cells(metrics, name, names, group=group, level=level)
            n = number_of(metrics, "a_species_accuracy", name, group=group, level=level)["n"] or 0
            row |= {"model_note": f"{words}, {n:,} answerable", "slice": level}
            for a in ACCURACIES:  # a gain is undefined for the reason that its accuracy is
                if f"{a}_reason" in row:
                    row[f"{a}_gain_reason"] = row[f"{a}_reason"]
            rows.append(row)
    return table_of(rows, ["model", "model_note", "slice", *with_ends(names)], text=("model", "model_note", "slice"))


def reason_table(reasons: pl.DataFrame, prompts: dict[str, str]) -> pl.DataFrame:
    """Abstention by true reason of each model that answers in words, at the prompt that is scored.

    Args:
        reasons: table ``abstention_reasons``.
        prompts: model -> its scored prompt.
    """
    rows = []
    for r in reasons.to_dicts():
        if prompts.get(r["model"]) != r["prompt_id"] or not r["n"] or r["true_reason"] == "unknown":
            continue
        row = {
            "model": r["model"],
            "model_note": f"prompt {r['prompt_id']}",
            "true_reason": r["true_reason"],
            "n": r["n"],
        }
        columns = {"rate": "rate_species_level", "right": "p_right_reason", "both": "joint"}
        for to, of in columns.items():
            row |= {to: r[of], f"{to}_lo": r[f"{of}_lo"], f"{to}_hi": r[f"{of}_hi"], f"{to}_reason": r["reason"]}
        rows.append(row)
    names = ["model", "model_note", "true_reason", "n", *with_ends(["rate", "right", "both"])]
    return table_of(rows, names, text=("model", "model_note", "true_reason"))


def confusion_frame(confusion: pl.DataFrame, prompts: dict[str, str]) -> pl.DataFrame:
    """The reasons given at the scored prompt: model, true_reason, given_reason, share, n."""
    scored = pl.DataFrame(
        {"model": list(prompts), "prompt_id": list(prompts.values())},
        schema={"model": pl.String, "prompt_id": pl.String},
    )
    rows = confusion.join(scored, on=["model", "prompt_id"], how="semi")
    rows = rows.filter(pl.col("true_reason").is_in([r for r in REASONS if r != "none"]))
    used = rows.group_by("true_reason").agg(pl.col("n").sum())
    rows = rows.join(used.filter(pl.col("n") > 0), on="true_reason", how="semi", maintain_order="left")
    return rows.select("model", "true_reason", pl.col("given").alias("given_reason"), "share", "n")


def prompt_frame(rates: pl.DataFrame) -> pl.DataFrame:
    """Abstention rate per prompt over all photographs: model, prompt_id, permits_abstention, rate, lo, hi, n."""
    rows = rates.filter(pl.col("among") == "all")
    return rows.select(
        "model",
        "prompt_id",
        "permits_abstention",
        "rate",
        pl.col("rate_lo").alias("lo"),
        pl.col("rate_hi").alias("hi"),
        "n",
    )


def prompt_table(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Mean, sd, min and max of the abstention rate over prompts, and what permission adds."""
    words = {"permitted": "may decline", "not_permitted": "no permission", "all": "all"}
    rows = []
    for name in models:
        for level, said in words.items():
            mean = number_of(metrics, "abstention_rate_mean", name, group="prompts", level=level)
            if mean["n"] is None or (
                level == "all" and rows and rows[-1]["n_prompts"] == mean["n"] and rows[-1]["model"] == name
            ):
                continue
            row: dict[str, Any] = {"model": name, "prompts": said, "n_prompts": mean["n"]}
            for k in ("mean", "sd", "min", "max"):
                found = number_of(metrics, f"abstention_rate_{k}", name, group="prompts", level=level)
                row |= {k: found["value"], f"{k}_reason": found["reason"]}
            gain = number_of(metrics, "abstention_rate_difference", name, group="prompts", level="permission")
            shown = level == "all" or gain["value"] is None
            row |= {"difference": gain["value"] if shown else None, "difference_lo": gain["lo"] if shown else None}
            row |= {
                "difference_hi": gain["hi"] if shown else None,
                "difference_reason": gain["reason"] or "see the row of all prompts",
            }
            rows.append(row)
    names = ["model", "prompts", "n_prompts", "mean", "sd", "min", "max", *with_ends(["difference"])]
    return table_of(rows, names, text=("model", "prompts"))


def across_frame(metrics: pl.DataFrame, cards: dict[str, tuple[str | None, float | None]]) -> pl.DataFrame:
    """IG and UA/A of each model with intervals, family and size, for the figure.

    Args:
        metrics: table ``metrics_abstention``.
        cards: model -> (family, parameters).
    """
    rows = []
    for name, (family, parameters) in cards.items():
        row: dict[str, Any] = {"model": name, "family": family, "parameters": parameters}
        for k in ("ig", "ua_a"):
            found = number_of(metrics, k, name)
            row |= {k: found["value"], f"{k}_lo": found["lo"], f"{k}_hi": found["hi"]}
        rows.append(row)
    types = {"model": pl.String, "family": pl.String, "parameters": pl.Float64}
    numbers = {f"{k}{end}": pl.Float64 for k in ("ig", "ua_a") for end in ("", "_lo", "_hi")}
    return pl.DataFrame(rows, schema={**types, **numbers})


def examples(answers: pl.DataFrame, items: pl.DataFrame, prompts: dict[str, str], *, each: int) -> pl.DataFrame:
    """Answerable photographs that were declined, and answers that could not be read, as they were said.

    Args:
        answers, items: tables of those names.
        prompts: model -> its scored prompt.
        each: of either kind and model, at most; taken in the order of item_id, one per genus before a second.

    Returns:
        item_id, model, truth, text (cut after 240 characters), read_as.
    """
    truth = items.filter("is_answerable").select("item_id", "genus", pl.col("species").alias("truth"))
    rows = answers.join(truth, on="item_id", how="inner").sort("model", "item_id")
    decision = pl.col("decision").cast(pl.String)
    parts = []
    for name, prompt in prompts.items():
        mine = rows.filter((pl.col("model") == name) & (pl.col("prompt_id") == prompt))
        for kind in ("abstain", "unparsed"):
            found = mine.filter(decision == kind).with_columns(pl.int_range(pl.len()).over("genus").alias("turn"))
            parts.append(found.sort("turn", "item_id", maintain_order=True).head(each))
    chosen = pl.concat(parts) if parts else rows.head(0)
    cut = (
        pl.when(pl.col("text").str.len_chars() > _MOST_TEXT)
        .then(pl.col("text").str.head(_MOST_TEXT) + "…")
        .otherwise("text")
    )
    said = pl.when(cut.str.strip_chars() == "").then(pl.lit("(nothing)")).otherwise(cut)
    why = pl.col("reasons").list.join(", ")
    read = pl.concat_str(
        decision, pl.when(why != "").then(pl.lit(": ") + why).otherwise(pl.lit("")), pl.lit(" ("), "method", pl.lit(")")
    )
    return chosen.select("item_id", "model", "truth", said.alias("text"), read.alias("read_as"))


def wrongly_frame(answers: pl.DataFrame, items: pl.DataFrame, prompts: dict[str, str]) -> pl.DataFrame:
    """Share of answerable photographs declined outright, by genus and model: genus, model, rate, n."""
    truth = items.filter("is_answerable").select("item_id", "genus")
    scored = pl.DataFrame(
        {"model": list(prompts), "prompt_id": list(prompts.values())},
        schema={"model": pl.String, "prompt_id": pl.String},
    )
    rows = answers.join(scored, on=["model", "prompt_id"], how="semi").join(truth, on="item_id", how="inner")
    declined = (pl.col("decision").cast(pl.String) == "abstain").cast(pl.Float64)
    return (
        rows.group_by("genus", "model")
        .agg(declined.mean().alias("rate"), pl.len().cast(pl.Int64).alias("n"))
        .sort("genus", "model")
    )


def sweep_table(sweep: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Areas under every choice, a column per model: measure, choice, one column per model with its reason."""
    keep = sweep.filter(pl.col("measure").is_in(list(_MEASURES)))
    rows: list[dict[str, Any]] = []
    for (measure, option, choice), part in keep.group_by("measure", "option", "choice", maintain_order=True):
        at = {r["model"]: r for r in part.to_dicts()}
        row: dict[str, Any] = {"measure": _MEASURES[str(measure)], "choice": f"{option} = {choice}"}
        base = [r for r in at.values() if r["delta"] == 0.0]
        row["choice_note"] = None if len(base) < len([r for r in at.values() if r["area"] is not None]) else "no change"
        for name in models:
            r = at.get(name)
            row |= {name: r["area"] if r else None, f"{name}_reason": (r["reason"] if r else None) or "not measured"}
        rows.append(row)
    return table_of(rows, ["measure", "choice", "choice_note", *models], text=("measure", "choice", "choice_note"))


_MEASURES = {"ua_a": "UA/A", "ig": "IG", "calibration_a_species": "A-species"}


def sweep_columns(models: Sequence[str]) -> dict[str, Col]:
    """How :func:`sweep_table` is printed."""
    return {"choice": Col("Choice", kind="text"), "measure": Col("Area", kind="text")} | {
        name: Col(name) for name in models
    }


def scored_prompts(notices: pl.DataFrame) -> dict[str, str]:
    """Model -> the prompt whose answers are scored, as the builder of the inputs noted it."""
    rows = notices.filter(pl.col("code") == "prompt")
    return {r["model"]: r["message"].removeprefix("scored prompt: ") for r in rows.to_dicts()}
