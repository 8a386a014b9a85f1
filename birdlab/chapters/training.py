"""train_detector: the split, the courses of the trainings, scores with their seeds, model cards."""

from __future__ import annotations

from typing import Any

import polars as pl

from birdlab import style
from birdlab.chapters.common import count, num, pct, quoted
from birdlab.recipe import Recipe
from birdlab.report.show import m
from birdlab.report.table import Col
from birdlab.training.seeds import ONE_SEED

MEASURES = {"ap": "AP", "ap50": "AP50", "mask_ap": "mask AP", "mask_ap50": "mask AP50"}
LEVELS = {"site": "site", "session": "session", "date": "day", "near_duplicate": "near-duplicate frame"}
SPLIT_COLUMNS = {
    "split": Col("Part", kind="text"),
    "wanted": Col("Wanted", "% of frames", kind="percent", digits=0),
    "share": Col("Share", "% of frames", kind="percent"),
    "frames": Col("Frames", kind="int"),
    "empty": Col("Empty", kind="int"),
    "birds": Col("Birds", kind="int"),
    "sites": Col("Sites", kind="int"),
    "sessions": Col("Sessions", kind="int"),
    "birds_per_frame": Col("Birds per frame", digits=2),
    "median_box_frac": Col("Median box", "% of frame", kind="percent", digits=2),
}
SCORE_COLUMNS = {
    "model": Col("Model", kind="text"),
    "what": Col("Weights", kind="text"),
    "measure": Col("Measure", kind="text"),
    "val": Col("Val", "mean over seeds", better="up"),
    "val_sd": Col("± sd", "seeds"),
    "test": Col("Test", "mean over seeds", better="up"),
    "test_sd": Col("± sd", "seeds"),
    "seeds": Col("Seeds", kind="text"),
}
VARIANCE_COLUMNS = {
    "model": Col("Model", kind="text"),
    "measure": Col("Measure", kind="text"),
    "sd_seeds": Col("Between seeds", "sd of means over sessions"),
    "sd_sessions": Col("Between sessions", "sd of means over seeds"),
    "ratio": Col("Ratio", "of the variances", digits=2),
    "n_seeds": Col("Seeds", kind="int"),
    "n_sessions": Col("Sessions", kind="int"),
}
CARD_COLUMNS = {
    "model": Col("Model", kind="text"),
    "seed": Col("Seed", kind="int"),
    "path": Col("Weights", kind="text"),
    "sha256": Col("sha256", "first 16 places", kind="text"),
    "size": Col("Size", "MB", digits=2),
    "best_epoch": Col("Best epoch", kind="int"),
    "epochs": Col("Epochs", kind="int"),
    "ended": Col("Ended by", kind="text"),
    "minutes": Col("Time", "min", digits=1),
    "licence": Col("Licence", kind="text"),
}


def names(recipe: Recipe) -> list[str]:
    """Names of the models that the recipe trains, in order; none without a section ``training``."""
    return [spec.name for spec in recipe.training.models] if recipe.training else []


def hues(recipe: Recipe) -> dict[str, style.Hue]:
    """The colour of every model of the recipe."""
    return style.colours_of_kinds(recipe.coloured)


def best_trained(seeds: pl.DataFrame) -> str | None:
    """The model with the highest mean AP on val (of the boxes), the first of equals; the test part is not asked."""
    known = seeds.filter((pl.col("part") == "val") & (pl.col("metric") == "ap")).drop_nulls("mean")
    return known.sort("mean", descending=True, maintain_order=True)["model"][0] if known.height else None


def answer(seeds: pl.DataFrame, scores: pl.DataFrame, facts: pl.DataFrame, table: pl.DataFrame) -> tuple[str, str, str]:
    """Question, answer and detail."""
    level = facts["level"][0]
    question = f"How good is each trained model on {level}s that it never saw, and how much of that is luck?"
    best = best_trained(seeds)
    if best is None:
        return question, "No trained model has a score.", _tested(scores, table)
    part = "test" if _mean(seeds, best, "test") is not None else "val"
    said = f"{m(best)} reaches AP {_said(seeds, best, part)} on {part}."
    detail = _tested(scores, table)
    before = scores.filter((pl.col("stage") == "start") & (pl.col("model") == best) & (pl.col("metric") == "ap"))
    before = before.filter(pl.col("part") == part).drop_nulls("value")
    if before.height:
        detail += f" The weights it started from reach {num(before['value'][0])} there."
    others = [n for n in seeds["model"].unique(maintain_order=True) if n != best and _mean(seeds, n, part) is not None]
    if others:
        detail += " " + "; ".join(f"{m(n)}: {_said(seeds, n, part)}" for n in others) + "."
        detail += " The first one named is the best on val."
    return question, said, detail


def _change(seeds: pl.DataFrame, scores: pl.DataFrame, model: str, part: str, metric: str) -> str | None:
    """``from 0.20 to 0.90``, or ``0.90`` where no start weights were scored; None without a score."""
    after = _mean(seeds, model, part, metric)
    if after is None:
        return None
    at = (pl.col("model") == model) & (pl.col("metric") == metric) & (pl.col("part") == part)
    before = scores.filter(at & (pl.col("stage") == "start"))["value"].drop_nulls().to_list()
    return f"from {num(before[0])} to {num(after)}" if before else num(after)


def _mean(seeds: pl.DataFrame, model: str, part: str, metric: str = "ap") -> float | None:
    rows = seeds.filter((pl.col("model") == model) & (pl.col("part") == part) & (pl.col("metric") == metric))
    return rows["mean"][0] if rows.height else None


def _said(seeds: pl.DataFrame, model: str, part: str) -> str:
    rows = seeds.filter((pl.col("model") == model) & (pl.col("part") == part) & (pl.col("metric") == "ap"))
    return str(rows["said"][0])


def _tested(scores: pl.DataFrame, table: pl.DataFrame) -> str:
    rows = table.filter(pl.col("split") == "test").to_dicts()
    if not rows or scores.filter((pl.col("part") == "test") & pl.col("value").is_not_null()).is_empty():
        return "There is no test part with a labelled bird: only val was scored, which also chose the best epoch."
    r = rows[0]
    where = count(r["sessions"], "session", "sessions")
    where += f" at {count(r['sites'], 'site', 'sites')}" if r["sites"] else ""
    return f"Tested on {count(r['frames'], 'frame', 'frames')} with {count(r['birds'], 'bird', 'birds')} from {where}."


def headlines(seeds: pl.DataFrame, scores: pl.DataFrame) -> list[dict[str, Any]]:
    """Numbers for the top of the report: test AP of the best model (by val), and the gain over its start weights."""
    best = best_trained(seeds)
    if best is None:
        return []
    out = []
    for part in ("test", "val"):
        rows = seeds.filter(
            (pl.col("model") == best) & (pl.col("part") == part) & (pl.col("metric") == "ap")
        ).to_dicts()
        if not rows or rows[0]["mean"] is None:
            continue
        r = rows[0]
        spread = ONE_SEED if r["sd"] is None else f"± {r['sd']:.3f} over {r['n_seeds']} seeds"
        reason = "no interval: AP is not resampled over few sessions"
        start = scores.filter((pl.col("stage") == "start") & (pl.col("model") == best) & (pl.col("part") == part))
        before = start.filter(pl.col("metric") == "ap")["value"].drop_nulls().to_list()
        detail = f"{best}, {spread}" + (f"; before training {before[0]:.2f}" if before else "")
        about = {"reference": before[0] if before else None, "model": best, "reason": reason, "detail": detail}
        out.append({"label": f"AP on {part}", "value": r["mean"], **about})
        break
    return out


# --- the split ----------------------------------------------------------------------------------------------------------


def split_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The split as printed, with the reasons of its nulls."""
    columns = ["wanted", "median_box_frac", "birds_per_frame", "sites"]
    why = {"wanted": "the recipe asks for no such part", "sites": "no site is named", "birds_per_frame": "no frame"}
    return table.with_columns(pl.lit(why.get(c, "no bird")).alias(f"{c}_reason") for c in columns)


def split_title(table: pl.DataFrame, facts: pl.DataFrame) -> str:
    """What is kept whole, and how many of them there are."""
    level, whole = facts["level"][0], table.filter(pl.col("split") == "all")
    n = whole["sites" if level == "site" else "sessions"][0]
    parts = " / ".join(str(v) for v in table.filter(pl.col("split") != "all")["split"].to_list())
    return f"No {level} is in two parts: {count(n or 0, level, level + 's')} into {parts}."


def split_notes(facts: pl.DataFrame) -> list[str]:
    """Why this level, which leaks were refused and how many of others there are, the hash, what is in no part."""
    f = facts.row(0, named=True)
    refused = ", ".join(LEVELS[v] for v in f["refused"]) or "none"
    reason = quoted(f["reason"])
    notes = [f"{reason[:1].upper()}{reason[1:]}."]
    notes.append(f"A leak by any of these stops the run: {refused}; none was found.")
    if f["n_leaks"]:
        notes.append(f"{count(f['n_leaks'], 'thing is', 'things are')} shared at a level that the recipe lets pass.")
    if f["n_unlabelled"]:
        notes.append(f"{count(f['n_unlabelled'], 'unlabelled frame is', 'unlabelled frames are')} in no part.")
    notes.append(f"Split {f['sha256'][:16]}, seed {f['seed']}: frames, parts and pictures in one hash.")
    return notes


def leak_note(leaks: pl.DataFrame) -> str:
    """What the parts share at levels that the recipe lets pass, in a sentence; empty where they share nothing."""
    if leaks.is_empty():
        return ""
    by = leaks.group_by("level", maintain_order=True).agg(pl.len().alias("n"), pl.col("what").first()).rows()
    said = ", ".join(f"{n} by {LEVELS[level]} ({quoted(what)}{' …' if n > 1 else ''})" for level, n, what in by)
    return f"The parts are not wholly apart, as the recipe allows: they share {said}. Scores may be too high."


def shape_title(shape: pl.DataFrame) -> str:
    """How far a part's share of frames without a bird lies from that of train."""
    rows = shape.filter((pl.col("what") == "birds per frame") & (pl.col("bin") == "none")).drop_nulls("share")
    if rows.height < 2:
        return (
            "Every part has frames with birds only."
            if rows.is_empty()
            else "How full the frames are, and how large the birds."
        )
    low, high = rows["share"].min(), rows["share"].max()
    if pct(low) == pct(high):
        return f"{pct(low)} of every part's frames have no bird."
    return f"Between {pct(low)} and {pct(high)} of a part's frames have no bird."


def shape_alt(shape: pl.DataFrame) -> str:
    """All shares in words."""
    said = []
    for (what, part), rows in shape.group_by("what", "split", maintain_order=True):
        shares = ", ".join(f"{b} {pct(s)}" for b, s in rows.select("bin", "share").rows() if s)
        said.append(f"{part}, {what}: {shares or 'none'}")
    return "Shares by part. " + "; ".join(said) + "."


# --- the courses --------------------------------------------------------------------------------------------------------


def curves_title(curves: pl.DataFrame) -> str:
    """How many trainings ended early, and where the best epochs lie."""
    ends = curves.drop_nulls("stopped")
    if ends.is_empty():
        return "Nothing was trained."
    best = curves.filter("is_best")["epoch"]
    n, early = ends.height, int((ends["stopped"] == "patience").sum())
    at = f"epoch {best.min()}" if best.min() == best.max() else f"epochs {best.min()} to {best.max()}"
    rest = "all stopped early" if early == n else "none stopped early" if not early else f"{early} stopped early"
    if n == 1:
        rest = "it stopped early" if early else "it ran to its last epoch"
    return f"{count(n, 'training', 'trainings')}, best at {at}; {rest}."


def curves_alt(curves: pl.DataFrame) -> str:
    """Best epoch, its score and why it ended, for every training."""
    said = []
    for (model, seed), rows in curves.group_by("model", "seed", maintain_order=True):
        best = rows.filter("is_best").row(0, named=True)
        why = "stopped early" if "patience" in rows["stopped"].drop_nulls().to_list() else "ran to the last epoch"
        said.append(f"{model}, seed {seed}: AP {num(best['val_ap'])} at epoch {best['epoch']} of {rows.height}, {why}")
    return "Validation AP by epoch. " + ("; ".join(said) or "None") + "."


# --- scores -------------------------------------------------------------------------------------------------------------


def score_table(seeds: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """A row per model and measure for the trained weights, and one for the weights that it started from.

    Returns:
        ``model``, ``what`` (``trained`` or ``as they were``), ``measure``, ``val``, ``val_sd``, ``test``, ``test_sd``,
        ``seeds``, and the reason of every null; ``slice`` holds the measure's key.
    """
    rows: list[dict[str, Any]] = []
    for (model,), mine in seeds.group_by("model", maintain_order=True):
        for metric in mine["metric"].unique(maintain_order=True):
            for stage in ("start", "trained"):
                row = _start_row if stage == "start" else _trained_row
                made = row(str(model), metric, seeds, scores)
                if made:
                    rows.append({"model": model, "measure": MEASURES.get(metric, metric), "slice": metric, **made})
    values = [f"{part}{end}" for part in ("val", "test") for end in ("", "_sd")]
    texts = ["model", "what", "measure", "slice", "seeds", *(f"{v}_reason" for v in values)]
    schema = {**dict.fromkeys(texts, pl.String), **dict.fromkeys(values, pl.Float64)}
    return pl.DataFrame(rows, schema=schema)


def _trained_row(model: str, metric: str, seeds: pl.DataFrame, scores: pl.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {"what": "trained"}
    for part in ("val", "test"):
        at = (pl.col("model") == model) & (pl.col("metric") == metric) & (pl.col("part") == part)
        found = seeds.filter(at).to_dicts()
        r = found[0] if found else {"mean": None, "sd": None, "reason": f"{part} was not scored", "n_seeds": 0}
        why = scores.filter(at & (pl.col("stage") == "trained"))["reason"].drop_nulls().to_list()
        row |= {part: r["mean"], f"{part}_sd": r["sd"]}
        row |= {f"{part}_reason": why[0] if why else r["reason"], f"{part}_sd_reason": (why or [r["reason"]])[0]}
        if r["n_seeds"]:
            row["seeds"] = ONE_SEED if r["n_seeds"] == 1 else f"{r['n_seeds']} seeds"
    return {"seeds": "none", **row}


def _start_row(model: str, metric: str, seeds: pl.DataFrame, scores: pl.DataFrame) -> dict[str, Any]:
    mine = scores.filter((pl.col("stage") == "start") & (pl.col("model") == model) & (pl.col("metric") == metric))
    if mine.is_empty():
        return {}
    row: dict[str, Any] = {"what": "as they were", "seeds": "–"}
    for r in mine.iter_rows(named=True):
        why = r["reason"] if r["value"] is None else "weights that were not trained here have no seed"
        row |= {r["part"]: r["value"], f"{r['part']}_reason": r["reason"], f"{r['part']}_sd_reason": why}
    return row


def score_title(seeds: pl.DataFrame, scores: pl.DataFrame) -> str:
    """What training brought on the test part (on val, where there is none), model by model, with a segmenter's outlines."""
    said = []
    for model in seeds["model"].unique(maintain_order=True):
        part = "test" if _mean(seeds, model, "test") is not None else "val"
        boxes = _change(seeds, scores, model, part, "ap")
        outlines = _change(seeds, scores, model, part, "mask_ap")
        if boxes is None:
            said.append(f"{m(model)} has no score")
        else:
            masks = f", mask AP {outlines.removeprefix('from ')}" if outlines else ""
            verb = "goes from AP" if boxes.startswith("from ") else "reaches AP"
            said.append(f"{m(model)} {verb} {boxes.removeprefix('from ')}{masks} on {part}")
    return ("; ".join(said) or "Nothing was trained") + "."


def score_notes(facts: pl.DataFrame) -> list[str]:
    """That val chose, and how often the test part of this split was looked at."""
    notes = ["The best epoch was chosen by val, so val is somewhat too high; test chose nothing."]
    if n := facts["test_looks"][0]:
        times = count(n, "time", "times")
        notes.append(f"The test part of this split was scored {times} in this folder: once per file of weights.")
    return notes


# --- seeds against sessions ---------------------------------------------------------------------------------------------


def variance_table(variance: pl.DataFrame) -> pl.DataFrame:
    """Spread between seeds and between sessions, a row per model and measure, with the reasons of nulls."""
    why = pl.col("reason").fill_null("too few of both")
    return variance.with_columns(
        pl.col("metric").replace(MEASURES).alias("measure"),
        why.alias("sd_seeds_reason"),
        why.alias("sd_sessions_reason"),
        why.alias("ratio_reason"),
    )


def variance_title(variance: pl.DataFrame) -> str:
    """Which of the two is larger, for AP."""
    known = variance.filter(pl.col("metric") == "ap").drop_nulls("ratio")
    if known.is_empty():
        said = variance["reason"].drop_nulls().unique(maintain_order=True).to_list()
        return f"Seeds cannot be weighed against sessions here: {said[0] if said else 'nothing was scored'}."
    words = []
    for r in known.iter_rows(named=True):
        larger = "more by seed than by session" if r["ratio"] > 1 else "less by seed than by session"
        words.append(f"AP of {m(r['model'])} varies {larger} (variances {r['ratio']:.2f} : 1)")
    return "; ".join(words) + "."


# --- cards --------------------------------------------------------------------------------------------------------------


def card_rows(cards: pl.DataFrame) -> pl.DataFrame:
    """Model cards as printed."""
    ended = pl.when(pl.col("stopped") == "patience").then(pl.lit("patience")).otherwise(pl.lit("last epoch"))
    again = pl.when(pl.col("n_resumed") > 0).then(pl.format(", resumed {} ×", "n_resumed")).otherwise(pl.lit(""))
    network = pl.format("{}, {}", "architecture", "library")
    return cards.with_columns(
        pl.col("sha256").str.head(16),
        (pl.col("bytes") / 1e6).alias("size"),
        (pl.col("seconds") / 60).alias("minutes"),
        (ended + again).alias("ended"),
        network.alias("model_note"),
        pl.lit("no licence is stated in the recipe").alias("licence_reason"),
    )


def card_title(cards: pl.DataFrame) -> str:
    """How many weights there are and how long they took."""
    seconds = float(cards["seconds"].sum())
    took = count(round(seconds), "second", "seconds") if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return f"{count(cards.height, 'file of weights', 'files of weights')}, trained in {took} in all."


def card_notes(cards: pl.DataFrame) -> list[str]:
    """Licences of data and libraries, device and versions: each once."""
    data = cards["licence_data"].drop_nulls().unique(maintain_order=True).to_list()
    notes = [f"Licence of the data: {quoted(', '.join(data)) or 'not stated'}."]
    for library, licence in cards.select("library", "licence_library").unique(maintain_order=True).rows():
        notes.append(f"Licence of {library}: {licence}.")
    notes += [f"Device: {quoted(d)}." for d in cards["device"].unique(maintain_order=True)]
    notes += [f"Versions: {v}." for v in cards["versions"].unique(maintain_order=True)]
    said = limits(cards)
    return [*notes, f"Limits, as the cards have them: {said}"] if said else notes


def limits(cards: pl.DataFrame) -> str:
    """What the model cards warn of, each once, and of which model."""
    said: dict[str, list[str]] = {}
    for name, listed in cards.select("model", "limits").rows():
        for text in listed or []:
            said.setdefault(text, []).append(name)
    parts = []
    for text, models in said.items():
        who = (
            ""
            if len(set(models)) == cards["model"].n_unique()
            else f"{', '.join(m(n) for n in dict.fromkeys(models))}: "
        )
        parts.append(f"{who}{quoted(text)}")
    return "; ".join(parts) + "." if parts else ""
