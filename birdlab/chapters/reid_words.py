"""05_reidentification in words: answer, titles, captions and texts for readers who cannot see the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import count, num, pct
from birdlab.chapters.reid import GALLERY, SPLIT, number, splits_of
from birdlab.recipe.reid import RING_METHODS
from birdlab.report.show import m
from birdlab.schemas.reid import GALLERIES

RINGS = RING_METHODS[1]
RANKED = (
    "Micro: mean over clips. Small grey: 95 % for new birds. mAP by bird: mean of 1 / rank of the true bird; by clip: mean "
    "average precision over the clips of the gallery. Macro: mean over birds. A tie counts by what a random order would give."
)


def best(metrics: pl.DataFrame, names: Sequence[str], split: str, gallery: str, metric: str = "top1") -> str | None:
    """The method with the highest value; None where none has one."""
    have = [(v, n) for n in names if (v := number(metrics, metric, n, split, gallery)["value"]) is not None]
    return max(have, key=lambda pair: pair[0])[1] if have else None


def lead(metrics: pl.DataFrame) -> tuple[str, str]:
    """Protocol and list that the chapter speaks of first: the closed set and the shortest list that there is."""
    splits = splits_of(metrics)
    for split in ("closed", *splits):
        for gallery in GALLERIES:
            rows = metrics.filter(
                (pl.col("group") == split) & (pl.col("level") == gallery) & (pl.col("metric") == "top1")
            )
            if rows.drop_nulls("value").height:
                return split, gallery
    return (splits[0] if splits else "closed"), "all"


def answer(metrics: pl.DataFrame, names: Sequence[str], called: pl.DataFrame) -> tuple[str, str, str]:
    """Question, answer and detail: who names birds best from a short list and from all birds."""
    question = "Which bird is it, and with which list of candidates?"
    split, gallery = lead(metrics)
    name = best(metrics, names, split, gallery)
    if name is None:
        return question, "Nobody was named.", "No method has an answer for any clip."
    found = number(metrics, "top1", name, split, gallery)
    told = f"{m(name)} names the right bird in {pct(found['value'])} of {count(found['n'], 'clip', 'clips')}"
    told += f" ({GALLERY[gallery]}); guessing {above(found)} {pct(found['chance'])}."
    return question, told, " ".join(filter(None, [wider(metrics, names, split), named(called)]))


def above(found: dict[str, Any]) -> str:
    """``gives``; ``, from which it is not told apart, gives`` where the interval reaches down to chance."""
    sure = found["lo"] is not None and found["chance"] is not None and found["lo"] > found["chance"]
    return "gives" if sure else "(from which this is not told apart) gives"


def wider(metrics: pl.DataFrame, names: Sequence[str], split: str) -> str:
    """What becomes of the best methods when every bird may be answered."""
    name = best(metrics, names, split, "all")
    if name is None:
        return ""
    found = number(metrics, "top1", name, split, "all")
    return f"Among all birds {m(name)} is right in {pct(found['value'])}, guessing in {pct(found['chance'])}."


def named(called: pl.DataFrame) -> str:
    """How many clips birdlab's matcher of rings names, and how many of these names are right."""
    rows = called.filter((pl.col("matcher") == "birdlab") & (pl.col("assignment") == "joint"))
    if rows.is_empty():
        return ""
    r = next((r for g in GALLERIES for r in rows.to_dicts() if r["gallery"] == g), rows.to_dicts()[0])
    return f"Where it is sure enough ({pct(r['named'])} of clips), {m(RINGS)} is right in {pct(r['right_of_named'])} of its names."


def headlines(metrics: pl.DataFrame, names: Sequence[str]) -> list[dict[str, Any]]:
    """Numbers for the top of the report: Top-1 of the best method from the shortest list, and from all birds, beside chance."""
    split, gallery = lead(metrics)
    out = []
    for which in dict.fromkeys((gallery, "all")):
        name = best(metrics, names, split, which)
        if name is not None:
            found = number(metrics, "top1", name, split, which)
            about = {"label": f"Right bird, {GALLERY[which]}, {name}", "unit": "%", "digits": 0, "scale": (0, 100)}
            if found["chance"] is not None:
                about |= {"detail": f"guessing gives {pct(found['chance'])}", "reference": 100 * found["chance"]}
            out.append(about | {k: None if found[k] is None else 100 * found[k] for k in ("value", "lo", "hi")})
    return out


def clips_title(sizes: pl.DataFrame, counts: pl.DataFrame) -> str:
    """How many clips of how many birds, and whether print says otherwise."""
    have = {r["what"]: r["computed"] for r in counts.to_dicts()}
    differs = counts.filter(pl.col("verdict") == "differs")["what"].unique().len()
    text = f"{have.get('n_clips') or 0:,.0f} clips of {have.get('n_individuals') or 0:,.0f} birds"
    return f"{text}; {count(differs, 'number differs', 'numbers differ')} from print." if differs else f"{text}."


def leaks_title(leaks: pl.DataFrame) -> str:
    """Whether any protocol gives the answer away."""
    found = leaks.filter(pl.col("verdict") == "leak")
    if found.is_empty():
        unknown = leaks.filter(pl.col("verdict") == "cannot be checked").height
        rest = f"; {count(unknown, 'check', 'checks')} could not be made" if unknown else ""
        return f"No protocol gives an answer away{rest}."
    where = ", ".join(dict.fromkeys(SPLIT[str(s)] for s in found["split"]))
    return f"{count(found.height, 'check finds', 'checks find')} a leak: {where}."


def table1_title(metrics: pl.DataFrame, names: Sequence[str]) -> str:
    """The best method of each list of the leading protocol."""
    split, _ = lead(metrics)
    told = []
    for gallery in GALLERIES:
        name = best(metrics, names, split, gallery)
        if name is not None:
            found = number(metrics, "top1", name, split, gallery)
            told.append(f"{GALLERY[gallery]}: {m(name)}, {pct(found['value'])}")
    return f"Right bird at the first place, {SPLIT[split]}. {'; '.join(told)}." if told else "Nobody was named."


def table1_notes(metrics: pl.DataFrame) -> list[str]:
    """What the printed numbers are, and where one lies below chance."""
    rows = metrics.filter(pl.col("published").is_not_null() & (pl.col("metric") == "top1"))
    notes = ["Guessing: one bird of the list at random; a bird that is not on the list cannot be guessed."]
    if rows.is_empty():
        return notes
    below = rows.filter(pl.col("reason").str.contains("guessing is right"))
    if below.height:
        values = ", ".join(f"{v:.2f}" for v in below["published"].sort())
        why = below["reason"][0].rpartition("; ")[2]
        notes.append(f"Printed values below chance ({values}): {why}. The cause is not known.")
    return [*notes, "How the printed numbers average over clips and birds is not stated."]


def measures_title(metrics: pl.DataFrame, names: Sequence[str], split: str) -> str:
    """Top-1 and Top-5 of the best method from the longest list."""
    name = best(metrics, names, split, "all")
    if name is None:
        return f"No method ranks all birds ({SPLIT[split]})."
    one, five = (number(metrics, k, name, split, "all") for k in ("top1", "top5"))
    told = f"Among all birds ({SPLIT[split]}) {m(name)} has the right one first in {pct(one['value'])}"
    return f"{told} and among five in {pct(five['value'])} (guessing: {pct(one['chance'])} and {pct(five['chance'])})."


def open_title(metrics: pl.DataFrame, names: Sequence[str]) -> str:
    """Who tells known birds from new ones."""
    for gallery in ("all", *GALLERIES):
        have = []
        for name in names:
            rows = metrics.filter(
                (pl.col("metric") == "auroc") & (pl.col("model") == name) & (pl.col("level") == gallery)
            ).drop_nulls("value")
            have += [(rows["value"][0], rows["lo"][0], name)] if rows.height else []
        if have:
            value, lo, name = max(have, key=lambda found: found[0])
            sure = "" if lo is not None and lo > 0.5 else ", and better than a coin is not shown"
            return f"{m(name)} tells known from new birds best ({GALLERY[gallery]}): AUROC {num(value)}{sure}."
    return "No method was asked whether a bird is new."


def curve_title(curve: pl.DataFrame, names: Sequence[str], split: str) -> str:
    """Where the methods cross, or how far each falls from a short to the longest list."""
    told = []
    for name in names:
        rows = curve.filter((pl.col("model") == name) & (pl.col("split") == split)).sort("list_size").drop_nulls("top1")
        if rows.height > 1:
            first = rows.filter(pl.col("list_size") >= 3).head(1) if rows["list_size"].max() >= 3 else rows.head(1)
            low = (pct(first["top1"][0]), first["list_size"][0])
            told.append(
                f"{m(name)} falls from {low[0]} ({low[1]} birds) to {pct(rows['top1'][-1])} ({rows['list_size'][-1]})"
            )
    return f"{'; '.join(told[:3])}." if told else "No method ranks all birds: there is no curve."


def curve_alt(curve: pl.DataFrame) -> str:
    """The ends of every curve in words."""
    told = []
    for (name, split), rows in curve.sort("list_size").group_by("model", "split", maintain_order=True):
        ends = rows.drop_nulls("top1")
        if ends.height:
            told.append(
                f"{name}, {SPLIT[str(split)]}: {pct(ends['top1'][0])} of {ends['list_size'][0]}, {pct(ends['top1'][-1])} of {ends['list_size'][-1]}"
            )
    return "Top-1 against the number of candidates. " + ("; ".join(told) or "No curve") + "."


def years_title(years: pl.DataFrame, split: str, gallery: str) -> str:
    """Whether a longer time between gallery and query costs names."""
    rows = years.filter((pl.col("split") == split) & (pl.col("gallery") == gallery) & (pl.col("level") != "unknown"))
    levels = rows["level"].unique(maintain_order=True).to_list()
    if not levels:
        return "The years between clips are not known."
    if len(levels) == 1:
        return f"Every clip lies {levels[0]} years from the gallery: nothing can be compared."
    return f"Clips lie {levels[0]} to {levels[-1]} years from the nearest clip of their bird."


def points_alt(frame: pl.DataFrame, what: str, key: str, value: str) -> str:
    """Values of a frame in words: model, key, value."""
    told = [f"{r['model']}, {r[key]}: {num(r[value])}" for r in frame.drop_nulls(value).head(16).to_dicts()]
    return f"{what}. " + ("; ".join(told) or "Nothing to draw") + "."


def risk_title(metrics: pl.DataFrame, names: Sequence[str], split: str, gallery: str) -> str:
    """Who can be trusted when only its surest names are used."""
    have = []
    for name in names:
        rows = metrics.filter(
            (pl.col("metric") == "aurc")
            & (pl.col("model") == name)
            & (pl.col("group") == split)
            & (pl.col("level") == gallery)
        ).drop_nulls("value")
        have += [(rows["value"][0], rows["chance"][0], name)] if rows.height else []
    if not have:
        return "No method says how sure it is."
    value, chance, name = min(have, key=lambda found: found[0])
    base = "" if chance is None else f"; naming in random order has {num(chance)}"
    return f"{m(name)} knows best when it is right: mean share of wrong names {num(value)} over all coverages{base}."


def risk_alt(risk: pl.DataFrame, names: Sequence[str]) -> str:
    """Risk at the lowest and at full coverage in words."""
    told = []
    for name in names:
        rows = risk.filter(pl.col("model") == name).sort("coverage")
        if rows.height:
            told.append(
                f"{name}: {pct(rows['risk'][0])} wrong of {pct(rows['coverage'][0])}, {pct(rows['risk'][-1])} of {pct(rows['coverage'][-1])}"
            )
    return (
        "Share of wrong names against the share of clips that are named. "
        + ("; ".join(told) or "Nothing to draw")
        + "."
    )


def alike_title(pairs: pl.DataFrame) -> str:
    """The pair that is taken for one another most often."""
    if pairs.is_empty():
        return "No bird was taken for another."
    r = pairs.sort("n", descending=True, maintain_order=True).row(0, named=True)
    return f"{r['individual_id']} is taken for {r['taken_for']} most often: in {count(int(r['n']), 'clip', 'clips')} by {m(r['model'])}."


def birds_alt(birds: pl.DataFrame) -> str:
    """The birds that are found least often in words."""
    worst = birds.drop_nulls("top1").sort("top1", maintain_order=True).head(8).to_dicts()
    told = [f"{r['model']}, {r['individual_id']}: {pct(r['top1'])} of {r['n']}" for r in worst]
    return "Share of clips of each bird that are named right. Lowest: " + ("; ".join(told) or "none") + "."


def called_title(called: pl.DataFrame) -> str:
    """The two matchers with the list of the territory (or the shortest there is)."""
    rows = called.filter(pl.col("assignment") == "argmax").to_dicts()
    gallery = next((g for g in GALLERIES if any(r["gallery"] == g for r in rows)), None)
    mine = {r["matcher"]: r for r in rows if r["gallery"] == gallery}
    if not mine:
        return "The recipe has no rings: nothing was read from legs."
    told = [f"{m(f'rings ({k})')} names {pct(r['right'])} right and {pct(r['wrong'])} wrong" for k, r in mine.items()]
    return f"With the list {GALLERY[gallery or 'all']} {' ; '.join(told).replace(' ; ', '; ')}."


def called_alt(called: pl.DataFrame) -> str:
    """Right and wrong names of every matcher and list in words."""
    told = [
        f"{r['matcher']}, {r['assignment']}, {GALLERY[r['gallery']]}: {pct(r['right'])} right, {pct(r['wrong'])} wrong"
        for r in called.to_dicts()
    ]
    return "Clips whose bird is named right, named wrong, or not named. " + ("; ".join(told) or "None") + "."


def called_notes(segments: pl.DataFrame, together: pl.DataFrame, notices: pl.DataFrame) -> list[str]:
    """How the rings were found, which clips are of one frame, and what was remarked."""
    notes = [
        "published: the rule of the paper, with what it does that its text does not say; birdlab: likelihood of the whole code, "
        "no name below the stated posterior or where several birds fit equally.",
    ]
    if segments.height and segments["recall"][0] is not None:
        r = segments.row(0, named=True)
        notes.append(
            f"Rings found by the segmenter: {pct(r['recall'])} of {r['n_given']:,} given ones, {pct(r['precision'])} of those found "
            f"are rings (boxes, IoU ≥ 0.5, {count(r['n_images'], 'image', 'images')})."
        )
    if together.height:
        notes.append(
            f"{count(together.height, 'pair', 'pairs')} of clips show two birds at once; the published loop acts on any common frame."
        )
    return [*notes, *(remark(r) for r in notices.to_dicts())]


def remark(row: dict[str, Any]) -> str:
    """A notice as a sentence, counted."""
    head, colon, _ = row["message"].partition(": ")
    # A name in front stays as it is.
    named = bool(colon) and " " not in head
    text = row["message"] if named else row["message"][0].upper() + row["message"][1:]
    n = f" ({row['n']:,})" if row["n"] else ""
    return f"{text.rstrip('.')}{n}."


def colours_title(scores: pl.DataFrame) -> str:
    """How often the colour of a single ring is right."""
    every = scores.filter(pl.col("colour") == "all").drop_nulls("top1") if "top1" in scores.columns else scores.clear()
    if every.is_empty():
        return "No ring has a given colour: nothing can be said of single rings."
    r = every.row(0, named=True)
    worst = scores.filter(pl.col("colour") != "all").drop_nulls("top1").sort("top1").head(1).to_dicts()
    rest = f"; {worst[0]['colour']} is read worst ({pct(worst[0]['top1'])})" if worst else ""
    guess = f" (guessing: {pct(r['chance1'])} and {pct(r['chance3'])})"
    return (
        f"The colour of {pct(r['top1'])} of {r['n']:,} rings is read right, {pct(r['top3'])} among three{guess}{rest}."
    )


def colours_alt(confusion: pl.DataFrame) -> str:
    """The colours that are confused most in words."""
    if "read" not in confusion.columns or confusion.is_empty():
        return "No confusion of colours."
    wrong = (
        confusion.filter((pl.col("truth") != pl.col("read")) & (pl.col("n") > 0)).sort("share", descending=True).head(6)
    )
    told = [f"{r['truth']} read as {r['read']}: {pct(r['share'])}" for r in wrong.to_dicts()]
    return "Which colour is read as which. " + ("; ".join(told) or "None is confused") + "."


def calibration_title(bins: pl.DataFrame, gallery: str) -> str:
    """Whether a posterior means what it says."""
    mine = bins.filter((pl.col("gallery") == gallery) & (pl.col("assignment") == "argmax")).drop_nulls("ece")
    if mine.is_empty():
        return "There is no posterior to hold against the truth."
    r = mine.row(0, named=True)
    ends = "" if r["ece_lo"] is None else f" [{num(r['ece_lo'])}, {num(r['ece_hi'])}]"
    return f"Posteriors of {m(RINGS)} are off by {num(r['ece'])}{ends} on average ({GALLERY[gallery]})."


def calibration_alt(bins: pl.DataFrame, gallery: str) -> str:
    """Posterior and share right of every bin in words."""
    mine = bins.filter((pl.col("gallery") == gallery) & (pl.col("assignment") == "argmax"))
    told = [f"{num(r['mean_score'])}: {pct(r['right'])} of {r['n']}" for r in mine.to_dicts()]
    return "Posterior against the share of right names. " + ("; ".join(told) or "No bin") + "."


def notes_of(*notices: pl.DataFrame) -> list[str]:
    """Everything that was remarked, one sentence each, counted."""
    return list(dict.fromkeys(remark(r) for part in notices for r in part.to_dicts()))
