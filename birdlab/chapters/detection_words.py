"""02_detection: answer, titles, alt texts and headline numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import best_model, count, in_new, interval_of, num, pct, pick, share_of, unit_of, value
from birdlab.report.show import m


def answer(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> tuple[str, str, str]:
    """Question, answer and detail."""
    question = f"How good are the boxes, and what should the next {unit_of(metrics)} expect?"
    best = best_model(metrics, models)
    if best is None:
        why = pick(metrics, "ap")["reason"].drop_nulls().to_list()
        return question, "Nothing could be scored.", f"Reason: {why[0] if why else 'there is no model in the recipe'}."
    recall, precision = (share_of(metrics, name, best, conf=conf) for name in ("recall", "precision"))
    found = f"{m(best)} finds {_in_words(recall['value'])}." if recall["value"] is not None else f"{m(best)} leads."
    detail = f"Recall {pct(recall['value'])}{interval_of(recall)}, precision {pct(precision['value'])}{interval_of(precision)} "
    detail += f"at score ≥ {conf:g}; AP {num(value(metrics, 'ap', best))}."
    others = [name for name in models if name != best and value(metrics, "ap", name) is not None]
    if others:
        said = [f"{m(name)} finds {pct(share_of(metrics, 'recall', name, conf=conf)['value'])}" for name in others]
        detail += f" On the same birds {', '.join(said)}."
    return question, found, detail


def headlines(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> list[dict[str, Any]]:
    """Numbers for the top of the report, as arguments of :meth:`birdlab.study.Run.headline`; none without a scored model."""
    best = best_model(metrics, models)
    if best is None:
        return []
    human = value(metrics, "ap", "human")
    detail = f"{best}, IoU 0.50–0.95" + (f"; two observers: {human:.2f}" if human is not None else "")
    ap = {"label": "Average precision", "value": value(metrics, "ap", best), "detail": detail, "reference": human}
    ap["reason"] = "no interval: AP is not resampled over few sessions"
    found = _percent(share_of(metrics, "recall", best, conf=conf))
    true = _percent(share_of(metrics, "precision", best, conf=conf))
    out: list[dict[str, Any]] = [
        ap,
        {"label": "Birds found", **found, "detail": f"{best}, {in_new(unit_of(metrics))}"},
        {"label": "Boxes that are birds", **true, "detail": f"{best}, {in_new(unit_of(metrics))}"},
    ]
    for row in pick(metrics, "false_alarms_per_1000_empty_frames").filter(pl.col("model") == best).to_dicts():
        about = {"unit": "per 1,000", "digits": 0, "scale": (0, max(1000.0, row["value"] or 0))}
        detail = f"{best}, on {row['n'] or 0} empty frames"
        out.append(
            {"label": "False alarms", "value": row["value"], **about, "detail": detail, "reason": row["reason"] or ""}
        )
    for row in pick(metrics, "fps_end_to_end").filter(pl.col("model") == best).to_dicts():
        about = {"unit": "frames/s", "digits": 1, "scale": (0, max(10.0, 1.5 * (row["value"] or 0)))}
        detail = f"{best}, file to boxes"
        out.append({"label": "Speed", "value": row["value"], **about, "detail": detail, "reason": row["reason"] or ""})
    return [{**number, "model": best} for number in out]


def scores_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """What the first table shows."""
    best = best_model(metrics, models)
    if best is None:
        return "No detector could be scored."
    birds = count(int(value(metrics, "n_birds", "") or 0), "bird", "birds")
    if len(models) == 1:
        return f"{m(best)} reaches AP {num(value(metrics, 'ap', best))} on {birds}."
    return f"{m(best)} has the highest AP of {len(models)} detectors on {birds}."


def scores_notes(metrics: pl.DataFrame, models: Sequence[str]) -> list[str]:
    """Sentences under the first table: what is doubtful about a number, what was left out."""
    warned = metrics.filter(
        (pl.col("metric") == "warning") & pl.col("model").is_in(list(models)) & pl.col("published").is_null()
    )
    notes = [f"{m(r['model'])}: {r['reason']}." for r in warned.to_dicts()]
    for row in pick(metrics, "n_failed_frames").filter(pl.col("value") > 0).to_dicts():
        notes.append(f"{m(row['model'])} could not be asked about {count(int(row['value']), 'frame', 'frames')}.")
    left = value(metrics, "n_unlabelled_frames", "")
    if left:
        notes.append(f"{count(int(left), 'frame was', 'frames were')} not looked at by anybody and are not scored.")
    return notes


def counts_title(counts: pl.DataFrame) -> str:
    """What the table of counts shows."""
    fixed = counts.filter(pl.col("rule") == "fixed").drop_nulls("tp")
    if fixed.is_empty():
        return "There is nothing to count."
    row = fixed.sort("tp", descending=True).row(0, named=True)
    false = count(int(row["fp"]), "false box", "false boxes")
    return f"{m(row['model'])} finds {int(row['tp'])} of {int(row['tp'] + row['fn'])} birds with {false}."


def pr_title(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> str:
    """What the precision–recall figure shows."""
    best = best_model(metrics, models)
    if best is None:
        return "There is no curve to draw."
    p, r = (share_of(metrics, name, best, conf=conf)["value"] for name in ("precision", "recall"))
    if p is None or r is None:
        return f"{m(best)} has no box at score ≥ {conf:g}."
    return f"At score ≥ {conf:g} {m(best)} finds {pct(r)} of the birds, and {pct(p)} of its boxes are birds."


def pr_alt(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> str:
    """The precision–recall figure in words."""
    said = []
    for name in models:
        p, r = (share_of(metrics, k, name, conf=conf)["value"] for k in ("precision", "recall"))
        said.append(f"{name}: precision {num(p)} at recall {num(r)}, AP50 {num(value(metrics, 'ap50', name))}")
    return "Precision against recall. " + ("; ".join(said) or "No model") + "."


def f1_title(counts: pl.DataFrame) -> str:
    """What the F1 figure shows."""
    best = counts.filter(pl.col("rule") != "fixed").drop_nulls(["f1", "conf"]).to_dicts()
    fixed = {r["model"]: r["f1"] or 0.0 for r in counts.filter(pl.col("rule") == "fixed").to_dicts()}
    if not best:
        return "F1 is undefined for every model."
    gain, row = max(((r["f1"] - fixed[r["model"]], r) for r in best), key=lambda pair: pair[0])
    if gain < 0.01:
        return "No model loses more than 0.01 of F1 at the fixed score."
    return f"{m(row['model'])} would gain {gain:.2f} of F1 at score ≥ {row['conf']:.2f}, chosen with hindsight."


def f1_alt(counts: pl.DataFrame) -> str:
    """The F1 figure in words."""
    said = [f"{r['model']}, {r['rule']}: F1 {num(r['f1'])} at score {num(r['conf'])}" for r in counts.to_dicts()]
    return "F1 against the confidence kept. " + ("; ".join(said) or "No model") + "."


def sizes_title(sizes: pl.DataFrame, models: Sequence[str]) -> str:
    """What the table of sizes shows."""
    relative = sizes.filter(pl.col("size_note") != "COCO")
    if relative.is_empty() or not models:
        return "No labelled bird has a size to score."
    top = relative.sort("n", descending=True).row(0, named=True)
    total = int(relative["n"].sum())
    return f"{int(top['n'])} of {total} birds are {top['size']} of the frame's side; {m(models[0])} reaches AP {num(top[models[0]])} there."


def places_title(rows: pl.DataFrame, models: Sequence[str]) -> str:
    """What the figure of recall per site and session shows, for the first model that has a spread."""
    for name in models:
        found = _ranked(rows, name)
        if len(found) > 1:
            low, high = found[0], found[-1]
            return f"{m(name)} finds {pct(low['value'])} in session {low['level']} and {pct(high['value'])} in {high['level']}."
    return "There are not two sessions with birds to compare."


def places_alt(rows: pl.DataFrame, models: Sequence[str]) -> str:
    """The figure of recall per site and session in words: range and extremes per model."""
    said = []
    for name in models:
        found = _ranked(rows, name)
        if found:
            ends = [
                f"{num(r['value'])} ({r['level']}, {count(r['n'], 'bird', 'birds')})" for r in (found[0], found[-1])
            ]
            said.append(f"{name}: {count(len(found), 'session', 'sessions')}, from {ends[0]} to {ends[1]}")
    return "Recall per site and session. " + ("; ".join(said) or "Nothing to draw") + "."


def _ranked(rows: pl.DataFrame, model: str) -> list[dict[str, Any]]:
    mine = rows.filter((pl.col("model") == model) & (pl.col("rank") == 2)).drop_nulls("value")
    return mine.sort("value", "level").to_dicts()


def alarms_title(metrics: pl.DataFrame, models: Sequence[str]) -> str:
    """The sentence on false alarms: their rate, or why there is none."""
    rows = pick(metrics, "false_alarms_per_1000_empty_frames").filter(pl.col("model").is_in(list(models))).to_dicts()
    said = [f"{m(r['model'])} {r['value']:.0f}" for r in rows if r["value"] is not None]
    if said:
        return f"False alarms per 1,000 empty frames: {', '.join(said)}."
    why = [r["reason"] for r in rows if r["reason"]]
    return (why[0][0].upper() + why[0][1:] + ".") if why else "No model was scored."


def pairs_title(pairs: pl.DataFrame, metrics: pl.DataFrame) -> str:
    """What the table of paired comparisons shows."""
    if pairs.is_empty():
        return "No two models were scored, so there is nothing to compare."
    sure = pairs.filter(pl.col("mark") == "yes").to_dicts()
    if sure:
        first = sure[0]
        better, worse = (
            (first["model_a"], first["model_b"]) if first["difference"] > 0 else (first["model_b"], first["model_a"])
        )
        return f"{m(better)} finds more than {m(worse)}, confirmed for a new {unit_of(metrics)}."
    if (pairs["mark"] == "cannot be").all():
        return "No ranking of models can be confirmed from these sessions."
    return f"No difference between models is confirmed for a new {unit_of(metrics)}."


def outcomes_title(metrics: pl.DataFrame, models: Sequence[str], *, conf: float) -> str:
    """What the gallery of outcomes shows."""
    said = []
    for name in models:
        share = share_of(metrics, "recall", name, conf=conf)
        if share["value"] is not None:
            missed = share["n"] - round(share["value"] * share["n"])
            said.append(f"{m(name)} missed {missed} of {share['n']}")
    return "Found, missed and false: " + ", ".join(said) + "." if said else "There is nothing to show."


def masks_title(masks: pl.DataFrame) -> str:
    """What the table of mask scores shows."""
    scored = masks.drop_nulls("mask_ap").sort("mask_ap", descending=True).to_dicts()
    if not scored:
        return "No model was scored on outlines."
    return f"{m(scored[0]['model'])} reaches mask AP {num(scored[0]['mask_ap'])}."


def _percent(share: dict[str, Any]) -> dict[str, Any]:
    numbers = {"value": share["value"], "lo": share["new_lo"], "hi": share["new_hi"]}
    scaled = {k: None if v is None else 100 * v for k, v in numbers.items()}
    why = share["reason"] or ("" if share["new_lo"] is not None else "no interval: it takes two sessions")
    return {**scaled, "unit": "%", "digits": 1, "scale": (0, 100), "reason": why}


def _in_words(fraction: float) -> str:
    words = (
        "",
        "one bird",
        "two birds",
        "three birds",
        "four birds",
        "half of the birds",
        "six birds",
        "seven birds",
        "eight birds",
        "nine birds",
    )
    if fraction in (0, 1):
        return "no bird" if fraction == 0 else "every bird"
    tenths = round(10 * fraction)
    if tenths in (0, 10):
        return "hardly a bird" if tenths == 0 else "nearly every bird"
    return f"about {words[tenths]}" + ("" if tenths == 5 else " in ten")
