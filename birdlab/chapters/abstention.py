"""09_abstention: the tables of areas, accuracies, reasons, prompts and conventions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import cells_of, number_of, published, table_of, with_ends  # noqa: F401 (notebooks ask for published here)
from birdlab.report.table import Col

AREAS = ("ua_a", "ig", "auc_a_species", "auc_a_genus", "auc_ua_genus", "aurc_a_species", "augrc_a_species")
AREA_COLUMNS = {
    "model": Col("Model", kind="text"),
    "ua_a": Col("UA/A", ".5 is chance", "up"),
    "ig": Col("IG", "accuracy × information", "up"),
    "auc_a_species": Col("A-species", "calibration", "up"),
    "auc_a_genus": Col("A-genus", "calibration", "up"),
    "auc_ua_genus": Col("UA-genus", "calibration", "up"),
    "aurc_a_species": Col("AURC", "A-species", "down"),
    "augrc_a_species": Col("AUGRC", "A-species", "down"),
    "above": Col("Above", "after Holm", kind="text"),
}
ACCURACIES = ("a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy", "within_genus_accuracy")
ACCURACY_COLUMNS = {
    "model": Col("Model", kind="text"),
    "a_species_accuracy": Col("Species", "A, %", "up", kind="percent"),
    "a_species_accuracy_gain": Col("+", "over chance", kind="percent"),
    "a_genus_accuracy": Col("Genus", "A, %", "up", kind="percent"),
    "a_genus_accuracy_gain": Col("+", "over chance", kind="percent"),
    "ua_genus_accuracy": Col("Genus", "UA, %", "up", kind="percent"),
    "ua_genus_accuracy_gain": Col("+", "over chance", kind="percent"),
    "within_genus_accuracy": Col("In genus", "A, %", "up", kind="percent"),
    "within_genus_accuracy_gain": Col("+", "over chance", kind="percent"),
    "ig": Col("IG", better="up"),
    "ua_a": Col("UA/A", better="up"),
}
#: Slices of the accuracy table: (group, level) -> words under the model's name.
_SLICES = {
    ("all", "all"): "as given",
    ("variant", "range_map"): "with the range map",
    ("variant", "observation"): "per observation",
    ("contamination", "contaminated"): "trained-on sources",
    ("contamination", "clean"): "other sources",
    ("contamination", "unknown"): "sources of unknown use",
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


def areas(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """The five areas of each model with intervals, the uncertainty used, and the models it is confirmed above in UA/A."""
    rows = []
    for name in models:
        row = cells_of(metrics, name, AREAS)
        row["model_note"] = uncertainty_words(number_of(metrics, "ua_a", name)["method"] or "")
        leads = {"UA/A": beaten(metrics, name, models), "IG": beaten(metrics, name, models, measure="ig")}
        row["above"] = "; ".join(f"{k}: {', '.join(v)}" for k, v in leads.items() if v) or None
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


def accuracies(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Accuracy with gain over chance, IG and UA/A: as given, with the range map, per observation, by training source."""
    names = [*(n for a in ACCURACIES for n in (a, f"{a}_gain")), "ig", "ua_a"]
    rows = []
    for name in models:
        for (group, level), words in _SLICES.items():
            here = metrics.filter((pl.col("model") == name) & (pl.col("group") == group) & (pl.col("level") == level))
            if here.filter(pl.col("metric").is_in(list(ACCURACIES))).is_empty():
                continue
            row = cells_of(metrics, name, names, group=group, level=level)
            n = number_of(metrics, "a_species_accuracy", name, group=group, level=level)["n"] or 0
            row |= {"model_note": f"{words}, n {n:,}", "slice": level}
            for a in ACCURACIES:  # the interval of a gain is that of its accuracy, moved by chance
                row[f"{a}_gain_lo"] = row[f"{a}_gain_hi"] = None
                if f"{a}_reason" in row:
                    row[f"{a}_gain_reason"] = row[f"{a}_reason"]
                elif row[f"{a}_gain"] is None:
                    row[f"{a}_gain_reason"] = "how many names there are to guess from is not known"
            rows.append(row)
    return table_of(rows, ["model", "model_note", "slice", *with_ends(names)], text=("model", "model_note", "slice"))


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


def sweep_table(sweep: pl.DataFrame, models: Sequence[str], speaking: Collection[str] = ()) -> pl.DataFrame:
    """Areas under every other choice, a column per model: first as printed, then one choice changed at a time.

    Args:
        sweep: table ``abstention_sweep``.
        models: of the recipe.
        speaking: those that answer in words; what they, or the others, cannot have is said in one way.

    Returns:
        measure, choice, and a column ``of <model>`` per model with its reason. A choice that changes no model is not listed.
    """
    rows: list[dict[str, Any]] = []
    for measure, words in _MEASURES.items():
        part = sweep.filter(pl.col("measure") == measure)
        base = {
            r["model"]: r for r in part.filter(pl.col("delta") == 0.0).unique("model", maintain_order=True).to_dicts()
        }
        rows.append(_sweep_row(words, "as printed", base, models, speaking))
        for (option, choice), few in part.group_by("option", "choice", maintain_order=True):
            at = {r["model"]: r for r in few.to_dicts()}
            if all(r["delta"] == 0.0 for r in at.values()):
                continue
            rows.append(_sweep_row(words, f"{option} = {choice}", at, models, speaking))
    names = [f"of {name}" for name in models]  # a model may be called "measure"
    return table_of(rows, ["measure", "choice", *names], text=("measure", "choice"))


def _sweep_row(
    measure: str, choice: str, at: dict[str, dict[str, Any]], models: Sequence[str], speaking: Collection[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"measure": measure, "choice": choice}
    for name in models:
        found = at.get(name)
        row[f"of {name}"] = found["area"] if found else None
        row[f"of {name}_reason"] = _NO_PROBABILITY if name in speaking else _NOTHING_SAID
        if found is None:
            row[f"of {name}_reason"] = "not measured"
    return row


_NO_PROBABILITY = "an answer in words carries no such number"
_NOTHING_SAID = "a classifier states no confidence and never declines"
_MEASURES = {
    "ua_a": "UA/A",
    "ig": "IG",
    "calibration_a_species": "A-species",
    "calibration_a_genus": "A-genus",
    "calibration_ua_genus": "UA-genus",
}


def sweep_columns(models: Sequence[str]) -> dict[str, Col]:
    """How :func:`sweep_table` is printed."""
    return {"choice": Col("Choice", kind="text"), "measure": Col("Area", kind="text")} | {
        f"of {name}": Col(name) for name in models
    }


def scored_prompts(notices: pl.DataFrame) -> dict[str, str]:
    """Model -> the prompt whose answers are scored, as the builder of the inputs noted it."""
    rows = notices.filter(pl.col("code") == "prompt")
    return {r["model"]: r["message"].removeprefix("scored prompt: ") for r in rows.to_dicts()}


ASKED_COLUMNS = {"what": Col("What", kind="text"), "n": Col("n", kind="int")}
