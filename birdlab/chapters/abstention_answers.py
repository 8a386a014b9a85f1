"""09_abstention: tables, titles, alt texts and notes of models that answer in words: reasons, prompts, what they said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import number_of, pct, quoted, table_of, with_ends
from birdlab.report.show import m
from birdlab.report.table import Col
from birdlab.schemas.constants import REASONS

REASON_COLUMNS = {
    "model": Col("Model", kind="text"),
    "rate_vocalization": Col("Declined", "voice, %", kind="percent"),
    "rate_angle": Col("Declined", "angle, %", kind="percent"),
    "rate_quality": Col("Declined", "quality, %", kind="percent"),
    "right_vocalization": Col("Right reason", "voice, % of declined", "up", kind="percent"),
    "right_angle": Col("Right reason", "angle", "up", kind="percent"),
    "right_quality": Col("Right reason", "quality", "up", kind="percent"),
    "both_all": Col("Both", "% of all", "up", kind="percent"),
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


def reason_table(reasons: pl.DataFrame, prompts: dict[str, str]) -> pl.DataFrame:
    """Abstention by true reason of each model that answers in words, at the prompt that is scored: a row per model.

    Args:
        reasons: table ``abstention_reasons``.
        prompts: model -> its scored prompt.

    Returns:
        Columns of :data:`REASON_COLUMNS` with intervals; the number of photographs per reason in the note of the model.
    """
    names = [c for c in REASON_COLUMNS if c != "model"]
    measures = {"rate": "rate_species_level", "right": "p_right_reason", "both": "joint"}
    rows = []
    for model, prompt in prompts.items():
        mine = reasons.filter((pl.col("model") == model) & (pl.col("prompt_id") == prompt))
        by = {r["true_reason"]: r for r in mine.to_dicts()}
        n = ", ".join(f"{by[k]['n']} {k}" for k in REASONS if k in by and by[k]["n"])
        row: dict[str, Any] = {"model": model, "model_note": f"prompt {prompt}; {n or 'no reason is known'}"}
        for name in names:
            measure, _, reason = name.partition("_")
            of, found = measures[measure], by.get(reason)
            row |= {f"{name}{end}": found[f"{of}{end}"] if found else None for end in ("", "_lo", "_hi")}
            row[f"{name}_reason"] = (found["reason"] if found else None) or "no photograph with this reason"
        rows.append(row)
    return table_of(rows, ["model", "model_note", *with_ends(names)])


def confusion_frame(confusion: pl.DataFrame, prompts: dict[str, str]) -> pl.DataFrame:
    """The reasons given at the scored prompt: model, true_reason, given_reason, share, n."""
    scored = pl.DataFrame(
        {"model": list(prompts), "prompt_id": list(prompts.values())},
        schema={"model": pl.String, "prompt_id": pl.String},
    )
    rows = confusion.join(scored, on=["model", "prompt_id"], how="semi")
    rows = rows.filter(pl.col("true_reason").is_in(REASONS))
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
            parts.append(found.sort("turn", "item_id", maintain_order=True).head(max(each, 0)))
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


def published_reasons(metrics: pl.DataFrame) -> pl.DataFrame | None:
    """Printed rates of declining by true reason, a row per model; None without any."""
    rows = metrics.filter(
        pl.col("published").is_not_null() & (pl.col("metric") == "abstention_rate") & (pl.col("group") == "true_reason")
    )
    if rows.is_empty():
        return None
    flat = rows.with_columns(pl.format("rate_{}", "level").alias("column")).pivot(
        "column", index=["model", "source"], values="published", aggregate_function="first", maintain_order=True
    )
    missing = [pl.lit(None, pl.Float64).alias(c) for c in REASON_COLUMNS if c != "model" and c not in flat.columns]
    note = pl.format("{}, as printed", "source").alias("model_note")
    return flat.with_columns(*missing, note).select("model", "model_note", *(c for c in REASON_COLUMNS if c != "model"))


def reasons_title(reasons: pl.DataFrame, prompts: dict[str, str]) -> str:
    """Whether reasons are right."""
    rows = reasons.filter((pl.col("true_reason") == "all") & pl.col("p_right_reason").is_not_null()).to_dicts()
    scored = [r for r in rows if prompts.get(r["model"]) == r["prompt_id"]]
    if not scored:
        return "No model gave a reason for declining."
    best = max(scored, key=lambda r: r["p_right_reason"])
    return f"When it declines, {m(best['model'])} gives a right reason in {pct(best['p_right_reason'])} of the cases."


def confusion_title(frame: pl.DataFrame) -> str:
    """Which reason is blamed most."""
    rows = frame.drop_nulls("share").filter(pl.col("n") > 0)
    if rows.is_empty():
        return "No photograph was declined: there is no reason to compare."
    weighed = rows.group_by("model", "given_reason", maintain_order=True).agg(
        (pl.col("share") * pl.col("n")).sum().alias("k"), pl.col("n").sum()
    )
    top = (
        weighed.with_columns(p=pl.col("k") / pl.col("n"))
        .sort("p", descending=True, maintain_order=True)
        .row(0, named=True)
    )
    what = "no reason" if top["given_reason"] == "none" else top["given_reason"]
    return f"{m(top['model'])} blames {what} in {pct(top['p'])} of what it declines."


def confusion_alt(frame: pl.DataFrame) -> str:
    """The heatmaps in words: for each model and true reason, the reason most often given."""
    rows = frame.drop_nulls("share").filter(pl.col("n") > 0)
    top = rows.sort("share", descending=True, maintain_order=True).unique(
        ["model", "true_reason"], keep="first", maintain_order=True
    )
    said = [
        f"{r['model']}, {r['true_reason']}: {r['given_reason']} {pct(r['share'])}"
        for r in top.sort("model", "true_reason").to_dicts()
    ]
    return "Reason given by true reason. " + ("; ".join(said) or "Nothing was declined") + "."


def prompts_title(table: pl.DataFrame) -> str:
    """How much the rate of declining depends on the wording."""
    rows = table.filter(pl.col("sd").is_not_null() & (pl.col("prompts") == "may decline")).sort("sd", descending=True)
    if rows.is_empty():
        return "One prompt per model and kind: the spread over wordings is not known."
    r = rows.row(0, named=True)
    return f"{m(r['model'])} declines {pct(r['min'])} to {pct(r['max'])}, depending on the wording (SD {100 * r['sd']:.1f} points)."


def prompts_alt(frame: pl.DataFrame) -> str:
    """Every prompt's rate in words."""
    said = [f"{r['model']}, {quoted(r['prompt_id'])}: {pct(r['rate'])}" for r in frame.to_dicts()]
    return "Share declined by prompt. " + ("; ".join(said) or "No model answers in words") + "."


def wrongly_title(metrics: pl.DataFrame, wrongly: pl.DataFrame, prompts: dict[str, str]) -> str:
    """How often answerable photographs are declined."""
    rows = wrongly.filter((pl.col("given") == "all") & pl.col("rate").is_not_null())
    scored = [r for r in rows.to_dicts() if prompts.get(r["model"]) == r["prompt_id"]]
    if not scored:
        return "No model answers in words."
    said = [f"{m(r['model'])} {pct(r['rate'])}" for r in sorted(scored, key=lambda r: -r["rate"])]
    return f"Answerable photographs without a species: {', '.join(said)}."


def wrongly_alt(rates: pl.DataFrame) -> str:
    """For each model the genera most often declined, in words."""
    said = []
    for (name,), part in rates.group_by("model", maintain_order=True):
        top = part.filter(pl.col("rate") > 0).sort("rate", "genus", descending=[True, False]).head(3).to_dicts()
        said.append(f"{name}: " + (", ".join(f"{r['genus']} {pct(r['rate'])}" for r in top) or "none"))
    return "Share declined by genus, highest first. " + ("; ".join(said) or "No model answers in words") + "."


def read_notes(answers: pl.DataFrame, wrongly: pl.DataFrame, prompts: dict[str, str], *, section: Any) -> list[str]:
    """What the answers came to, model by model, the reasons given for declining what can be identified, how they were read.

    An answer that could not be read is a number of its own.

    Args:
        answers, wrongly: tables ``answers`` and ``abstention_wrongly``.
        prompts: model -> its scored prompt.
        section: the recipe's section ``abstention``.
    """
    notes = []
    for name, prompt in prompts.items():
        here = (pl.col("model") == name) & (pl.col("prompt_id") == prompt)
        counts = answers.filter(here).group_by(pl.col("decision").cast(pl.String)).len()
        counts = counts.sort("len", "decision", descending=[True, False])
        said = ", ".join(f"{n:,} {what}" for what, n in counts.iter_rows())
        blamed = wrongly.filter(here & (pl.col("given") != "all") & (pl.col("rate") > 0)).to_dicts()
        why = ", ".join(f"{r['given'] if r['given'] != 'none' else 'no reason'} {pct(r['rate'])}" for r in blamed)
        more = f" Of answerable photographs, left without a species for: {why}." if why else ""
        notes.append(f"{m(name)}, prompt {quoted(prompt)}: {said or 'no answer'}.{more}")
    if prompts:
        choices = " ".join(f"{k}={v}" for k, v in section.policy.model_dump().items())
        notes.append(f"Reading: {choices} unparsed={section.unparsed} missing={section.missing}.")
    return notes
