"""09_abstention: answer, titles, alt texts, notes and headline numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.abstention import AREAS, beaten, count_of
from birdlab.chapters.common import count, num, number_of, pct, quoted
from birdlab.report.show import m

CHANCE = 0.5
NOBODY = "No model is confirmed above chance at knowing when not to answer"


def leader(metrics: pl.DataFrame, models: Sequence[str], measure: str) -> str | None:
    """The model with the highest value of a measure, the first of equals; None when none has one."""
    have = [(v, name) for name in models if (v := number_of(metrics, measure, name)["value"]) is not None]
    return max(have, key=lambda pair: pair[0])[1] if have else None


def interval_of(row: dict[str, Any]) -> str:
    """An interval in square brackets behind its number; nothing where there is none."""
    return "" if row["lo"] is None else f" [{row['lo']:.2f}, {row['hi']:.2f}]"


def above_chance(metrics: pl.DataFrame, models: Sequence[str]) -> list[str]:
    """Models whose interval of UA/A lies above chance."""
    rows = {name: number_of(metrics, "ua_a", name) for name in models}
    return [name for name, row in rows.items() if row["lo"] is not None and row["lo"] > CHANCE]


def answer(metrics: pl.DataFrame, models: Sequence[str]) -> tuple[str, str, str]:
    """Question, answer and detail."""
    question = "Does it know when a photograph cannot be identified?"
    best, namer = leader(metrics, models, "ua_a"), leader(metrics, models, "ig")
    if best is None:
        why = number_of(metrics, "ua_a", models[0])["reason"] if models else "no model"
        if namer is None:
            return question, "Nothing could be scored.", f"Reason: {why}."
        return question, "Cannot be said here.", f"UA/A is undefined: {why}. {_names(metrics, namer)}"
    row = number_of(metrics, "ua_a", best)
    sure = above_chance(metrics, models)
    detail = f"UA/A {num(row['value'])}{interval_of(row)}, where {CHANCE:g} is chance and 1 perfect. "
    if namer is not None:
        detail += _names(metrics, namer)
    if not sure:
        return question, "No model is above chance beyond its interval.", f"Highest: {m(best)}. {detail}"
    if row["value"] is not None and row["value"] < 0.75:
        return question, f"Only in part: the best, {m(best)}, is above chance and far from perfect.", detail
    return question, f"{m(best)} does best.", detail


def _names(metrics: pl.DataFrame, namer: str) -> str:
    ig = number_of(metrics, "ig", namer)
    species = number_of(metrics, "a_species_accuracy", namer)
    return (
        f"{m(namer)} names best: IG {num(ig['value'])}{interval_of(ig)}, {pct(species['value'])} of the species right."
    )


def headlines(metrics: pl.DataFrame, models: Sequence[str]) -> list[dict[str, Any]]:
    """One number for the top of the report: UA/A of the model that knows best; none where nothing could be scored."""
    best = leader(metrics, models, "ua_a")
    if best is None:
        return []
    row = number_of(metrics, "ua_a", best)
    about = {
        "lo": row["lo"],
        "hi": row["hi"],
        "digits": 2,
        "reference": CHANCE,
        "model": best,
        "reason": row["reason"] or "",
    }
    return [{"label": "Knows its limits", "value": row["value"], "detail": f"{best}, UA/A; chance is 0.5", **about}]


def asked_title(metrics: pl.DataFrame) -> str:
    """What the table of photographs shows."""
    n, un = count_of(metrics, "n_items"), count_of(metrics, "n_unanswerable")
    if not n:
        return "There is no photograph to identify."
    return f"{count(un, 'photograph', 'photographs')} of {n:,} cannot be identified to species."


def asked_notes(notices: pl.DataFrame, alignment: pl.DataFrame, models: Sequence[str]) -> list[str]:
    """The list of birds with its version and hash, how labels align with it, and everything that was left out or assumed."""
    notes = []
    for told in notices.filter(pl.col("code") == "taxonomy")["message"].to_list():
        told = re.sub(
            "version=sha256 [0-9a-f]+ ", "", quoted(told)
        )  # a list without a year: its hash follows in any case
        told = told.replace("name=", "").replace("version=", "").replace("sha256=", "sha256 ")
        notes.append(f"List of birds: {told}.")
    for name in models:
        rows = alignment.filter(pl.col("model") == name)
        if rows.height:
            said = ", ".join(f"{r['n']:,} {r['how'].replace('_', ' ')}" for r in rows.to_dicts())
            notes.append(f"{m(name)}: labels found in the list: {said}.")
    shown = notices.filter(~pl.col("code").is_in(["taxonomy", "prompt"]))
    together = shown.group_by("code", "message", "n", maintain_order=True).agg(pl.col("model"))
    for r in together.to_dicts():
        names = ", ".join(m(name) for name in r["model"] if name)
        told = f"{quoted(r['message'])} ({r['n']:,})."
        notes.append(f"{names}: {told}" if names else _sentence(told))
    return notes


def tradeoff_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the two curves show."""
    best, namer = leader(metrics, models, "ua_a"), leader(metrics, models, "ig")
    if best is None:
        return f"{m(namer)} names best; who knows when not to is undefined." if namer else "Nothing could be scored."
    if best not in above_chance(metrics, models):
        return f"{NOBODY}; {m(namer)} names best." if namer else f"{NOBODY}."
    if namer is None or best == namer:
        return f"{m(best)} knows best when not to answer" + (", and names best." if namer else ".")
    return f"{m(best)} knows best when not to answer; {m(namer)} names best."


def tradeoff_alt(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """The two areas of every model in words."""
    said = [
        f"{name}: UA/A {num(number_of(metrics, 'ua_a', name)['value'])}, IG {num(number_of(metrics, 'ig', name)['value'])}"
        for name in models
    ]
    return "Two curves per model, with areas. " + "; ".join(said) + "."


def conventions_words(metrics: pl.DataFrame, models: Sequence[str], cluster: str) -> str:
    """The conventions behind the two curves, for the caption of the figure."""
    said = [f"{words} {_methods(metrics, models, k, cluster)}" for k, words in (("ua_a", "UA/A"), ("ig", "IG"))]
    return "Conventions: " + "; ".join(said) + "."


def _methods(metrics: pl.DataFrame, models: Sequence[str], measure: str, cluster: str) -> str:
    methods: dict[str, list[str]] = {}
    for name in models:
        method = (number_of(metrics, measure, name)["method"] or "").replace(f"; {cluster} bootstrap", "")
        methods.setdefault(method.replace("; ", ", "), []).append(name)
    several = len(methods) > 1
    parts = [
        f"{method}{' (' + ', '.join(map(m, names)) + ')' if several else ''}"
        for method, names in methods.items()
        if method
    ]
    return "; ".join(parts)


def areas_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the table of areas shows."""
    sure = above_chance(metrics, models)
    scored = [name for name in models if number_of(metrics, "ua_a", name)["value"] is not None]
    if not scored:
        return "UA/A could not be scored for any model."
    if not sure:
        return f"{NOBODY}."
    below = [name for name in scored if name not in sure]
    if not below:
        return "Every model is above chance at telling the two kinds apart."
    return f"Above chance at telling the two kinds apart: {', '.join(map(m, sure))}."


def areas_notes(metrics: pl.DataFrame, models: Sequence[str], *, cluster: str, n_resamples: int) -> list[str]:
    """The conventions behind the areas, the intervals, and what the printed rows are."""
    notes = []
    for measure, words in (("ua_a", "UA/A"), ("ig", "IG"), ("auc_a_species", "Calibration")):
        notes.append(f"{words}: {_methods(metrics, models, measure, cluster)}.")
    rows = [number_of(metrics, measure, name) for measure in AREAS for name in models]
    n_clusters = max((r["n_clusters"] or 0 for r in rows), default=0)
    few = " With so few, percentile intervals are somewhat too narrow." if 0 < n_clusters < 30 else ""
    notes.append(f"Intervals: 95 %, {n_resamples:,} resamples of {count(n_clusters, cluster, _plural(cluster))}.{few}")
    family = metrics.filter((pl.col("group") == "pair") & (pl.col("metric") == "ua_a_difference_confirmed"))["n"].max()
    if family:
        pairs = count(int(family), "pair", "pairs")
        notes.append(f"Holm's correction: over {pairs} of models in UA/A, and again in IG.")
    remarks = dict.fromkeys(r["reason"] for r in rows if r["value"] is not None and r["reason"])
    notes += [_sentence(f"{r}.") for r in remarks]
    if metrics.filter(pl.col("published").is_not_null()).height:
        notes.append("Printed rows: RealBirdID, other photographs; its conventions are not stated. Not computed here.")
    return notes


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _plural(word: str) -> str:
    return {"genus": "genera", "species": "species"}.get(word, f"{word}s")


def calibration_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the calibration curves show."""
    best = leader(metrics, models, "auc_a_species")
    if best is None:
        return "Accuracy against the share declined could not be drawn."
    area, plain = (
        number_of(metrics, "auc_a_species", best)["value"],
        number_of(metrics, "a_species_accuracy", best)["value"],
    )
    gain = 100 * (area - plain)
    if gain < 0.5:
        return f"Declining its least sure answers does not lift the mean species accuracy of {m(best)}."
    return f"Declining its least sure answers lifts the mean species accuracy of {m(best)} by {gain:.0f} points."


def calibration_alt(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """The three calibration areas of every model in words."""
    words = {
        "auc_a_species": "species of answerable",
        "auc_a_genus": "genus of answerable",
        "auc_ua_genus": "genus of unanswerable",
    }
    said = [
        f"{name}: " + ", ".join(f"{text} {num(number_of(metrics, k, name)['value'])}" for k, text in words.items())
        for name in models
    ]
    return "Accuracy against the share declined; areas: " + "; ".join(said) + "."


def accuracies_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the range map does to naming and to knowing."""
    pairs = []
    for name in models:
        before, after = (
            {k: number_of(metrics, k, name, group=g, level=v)["value"] for k in ("ig", "ua_a")}
            for g, v in (("all", "all"), ("variant", "range_map"))
        )
        if None not in (*before.values(), *after.values()):
            pairs.append((after["ig"] - before["ig"], after["ua_a"] - before["ua_a"]))
    best = leader(metrics, models, "a_species_accuracy")
    if not pairs:
        return f"{m(best)} names most species right." if best else "No accuracy could be had."
    ig, ua = (sum(p[i] for p in pairs) / len(pairs) for i in (0, 1))
    return f"With the range map IG changes by {_signed(ig)} and UA/A by {_signed(ua)}, on average over {count(len(pairs), 'model', 'models')}."


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '−'}{abs(value):.2f}"


def accuracies_notes(metrics: pl.DataFrame, contamination: pl.DataFrame) -> list[str]:
    """Chance, lists that drop the truth, names a model lacks, and what "trained on" rests on."""
    notes = []
    for r in metrics.filter((pl.col("metric") == "list_drops_truth") & pl.col("value").is_not_null()).to_dicts():
        notes.append(
            f"The range map drops the true species of {100 * r['value']:.1f} % of {r['n']:,} answerable photographs with a list."
        )
    chance = metrics.filter(
        pl.col("chance").is_not_null() & (pl.col("group") == "all") & (pl.col("metric") == "a_species_accuracy")
    )
    lists = chance.group_by("chance", maintain_order=True).agg(pl.col("model")).to_dicts()
    if lists:
        said = "; ".join(f"{100 * r['chance']:.2f} % ({', '.join(map(m, r['model']))})" for r in lists)
        notes.append(f"Chance is the mean of one over the length of the list. For species: {said}.")
    notes.append(
        "Within genus: the best species of the true genus, in genera of several; for answers in words, where a species of it was named."
    )
    missing = metrics.filter(
        (pl.col("metric") == "missing_species") & (pl.col("group") == "all") & (pl.col("value") > 0)
    )
    for r in missing.to_dicts():
        notes.append(
            f"{m(r['model'])}: {100 * r['value']:.1f} % of the answerable photographs show a species it has no name for; they count as wrong."
        )
    if contamination.height:
        notes.append(
            "Trained on: the photograph's source is on the model's card; the source was seen, not necessarily the photograph."
        )
    return notes


def across_title(metrics: pl.DataFrame) -> str:
    """Whether naming and knowing go together over models, never more than the interval allows."""
    rows = metrics.filter((pl.col("metric") == "r_ig_ua_a") & pl.col("published").is_null()).to_dicts()
    words = re.sub(r"-(?=\d)", "−", rows[0]["reason"]) if rows else None
    return f"IG and UA/A over models: {words}." if words else "IG and UA/A over models: not measured."


def across_alt(frame: pl.DataFrame) -> str:
    """Every model's two areas in words."""
    said = [f"{r['model']}: IG {num(r['ig'])}, UA/A {num(r['ua_a'])}" for r in frame.to_dicts()]
    return "IG against UA/A. " + "; ".join(said) + "."


def sweep_title(sweep: pl.DataFrame) -> str:
    """How far one choice can move an area."""
    rows = sweep.filter(pl.col("delta").is_not_null() & pl.col("measure").is_in(["ua_a", "ig"]))
    if rows.is_empty():
        return "No area could be computed under other choices."
    r = (
        rows.with_columns(pl.col("delta").abs().alias("size"))
        .sort("size", descending=True, maintain_order=True)
        .row(0, named=True)
    )
    measure = {"ua_a": "UA/A", "ig": "IG"}[r["measure"]]
    return f"One choice moves {measure} of {m(r['model'])} by {_signed(r['delta'])}: {r['option']} = {r['choice']}."


def verdict(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """One line for the summary: who leads in UA/A and whether over all others is confirmed."""
    best = leader(metrics, models, "ua_a")
    if best is None:
        return ""
    if best not in above_chance(metrics, models):
        return f"{NOBODY}."
    others = [name for name in models if name != best]
    if not others:
        return f"{m(best)} is above chance at knowing when not to answer."
    sure = set(beaten(metrics, best, models)) >= set(others)
    return f"{m(best)} knows best when not to answer" + (
        ", confirmed over every other model." if sure else "; not confirmed over every other model."
    )
