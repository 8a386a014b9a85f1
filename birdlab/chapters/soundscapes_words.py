"""08_soundscapes in words: answer, titles, captions and texts for readers who cannot see the figures."""

from __future__ import annotations

from typing import Any

import polars as pl

from birdlab.chapters.common import count, num, pct
from birdlab.chapters.reid_words import remark
from birdlab.chapters.soundscapes import leader
from birdlab.report.show import m
from birdlab.soundscapes.compare import ALPHA
from birdlab.soundscapes.resample import MIN_CLUSTERS
from birdlab.soundscapes.scores import TIE_GAP

RULES = (
    "Official: within equal scores hits come first, as the evaluators sort; pessimistic: they come last. A run whose two values lie "
    "apart is saturated or rounded."
)

CONFIRMED = (
    f"Confirmed: p below {ALPHA:g} after correction, and at least {MIN_CLUSTERS} recordings or days to judge by."
)
#: Segments with a bird below which an hour or a recorder is not named as the best or the worst.
ENOUGH_HEARD = 20


def answer(board: pl.DataFrame, scores: pl.DataFrame, counts: pl.DataFrame) -> tuple[str, str, str]:
    """Question, answer and detail: who leads, and whether ties help."""
    question = "Who is heard where, and which run says it best?"
    name = leader(board)
    if name is None:
        return question, "No run was scored.", "Nothing is heard in the recordings, or no run could be read."
    row = of_run(scores, name)
    ends = interval(row, "cmap")
    told = f"{ahead(board, name)}: c-mAP {num(row['cmap'])}{ends} over {count(row['n_classes'], 'species', 'species')}."
    return question, told, " ".join(filter(None, [tied(scores), heard(counts)]))


def ahead(board: pl.DataFrame, name: str) -> str:
    """That a run leads, alone or level with others of its division, or that none finds anything."""
    row = board.filter(pl.col("run") == name).row(0, named=True)
    if row["cmap"] == 0:
        return "No run lists a species where it is heard"
    level = board.filter((pl.col("division") == row["division"]) & (pl.col("cmap") == row["cmap"]))["run"].to_list()
    others = [run for run in level if run != name]
    if not others:
        return f"{m(name)} leads"
    rest = m(others[0]) if len(others) == 1 else f"{len(others)} other runs"
    return f"{m(name)} and {rest} lead, level"


def of_run(scores: pl.DataFrame, name: str) -> dict[str, Any]:
    """The row of ``soundscape_scores`` of one run."""
    return scores.filter(pl.col("run") == name).row(0, named=True)


def interval(row: dict[str, Any], key: str) -> str:
    """The interval of a value, or nothing."""
    lo, hi = row[f"{key}_lo"], row[f"{key}_hi"]
    return "" if lo is None or hi is None else f" [{num(lo)}, {num(hi)}]"


def tied(scores: pl.DataFrame) -> str:
    """Runs that gain from ties."""
    rows = scores.filter(pl.col("gap") > TIE_GAP).sort("gap", descending=True)
    if rows.is_empty():
        return "No run gains from ties."
    r = rows.row(0, named=True)
    return f"Ties help {m(r['run'])} most: {num(r['cmap'])} by the official rule, {num(r['cmap_pessimistic'])} by the pessimistic one."


def heard(counts: pl.DataFrame) -> str:
    """Hours and recordings."""
    have = {r["name"]: r["value"] for r in counts.to_dicts()}
    hours = have.get("hours")
    if hours is None:
        return ""
    long = f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.1f} minutes"
    return f"{long} in {count(int(have.get('recordings') or 0), 'recording', 'recordings')}."


def headlines(board: pl.DataFrame, scores: pl.DataFrame) -> list[dict[str, Any]]:
    """Numbers for the top of the report: c-mAP of the leading run."""
    name = leader(board)
    if name is None:
        return []
    row = of_run(scores, name)
    return [{"label": f"c-mAP, {name}", "value": row["cmap"], "lo": row["cmap_lo"], "hi": row["cmap_hi"], "digits": 2}]


def audit_title(counts: pl.DataFrame) -> str:
    """How much was recorded, and how much of it is silent."""
    have = {r["name"]: r["value"] for r in counts.to_dicts()}
    text = heard(counts) or "The length of the recordings is not known."
    silent = have.get("silent_recordings")
    return f"{text[:-1]}, {count(int(silent), 'recording', 'recordings')} without a bird." if silent else text


def board_title(board: pl.DataFrame, scores: pl.DataFrame, pairs: pl.DataFrame) -> str:
    """Who leads, and whether that would be so on other recordings."""
    name = leader(board)
    if name is None:
        return "No run was scored."
    row = of_run(scores, name)
    mine = pairs.filter((pl.col("run_a") == name) | (pl.col("run_b") == name))
    automatic = board.filter(pl.col("division") == "automatic")["run"].to_list()
    mine = mine.filter(pl.col("run_a").is_in(automatic) & pl.col("run_b").is_in(automatic))
    sure = mine.height > 0 and bool(mine["confirmed"].fill_null(False).all())
    rest = (
        ""
        if len(automatic) < 2
        else ", confirmed on other recordings"
        if sure
        else "; that other recordings would agree is not confirmed"
    )
    return f"{ahead(board, name)} with c-mAP {num(row['cmap'])}{interval(row, 'cmap')}{rest}."


def board_notes(scores: pl.DataFrame, board: pl.DataFrame, unit: str) -> list[str]:
    """The rule for ties, how intervals were made (``unit``: recording or day), who is ranked apart."""
    notes = [RULES]
    how = {"bootstrap": f"whole {unit}s drawn anew", "leave_one_out": f"one {unit} left out at a time"}
    for method in scores["how"].drop_nulls().unique().sort().to_list():
        n = int(scores["n_clusters"].max() or 0)
        notes.append(f"Intervals: {count(n, unit, f'{unit}s')} with a bird, {how.get(method, method)}.")
    if board.filter(pl.col("division") == "assisted").height:
        notes.append("Runs in which people helped are ranked apart.")
    return notes


def named_title(scores: pl.DataFrame) -> str:
    """How far the averages in use lie apart."""
    rows = scores.drop_nulls(["cmap", "cmap_step"])
    if rows.is_empty():
        return "No run was scored."
    return "Other averages that are in use, none of them comparable with c-mAP."


def species_title(classes: pl.DataFrame, name: str) -> str:
    """Best and worst species of the shown run."""
    rows = classes.filter(pl.col("run") == name).drop_nulls("ap").sort("ap", descending=True, maintain_order=True)
    if rows.is_empty():
        return "No species was scored."
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    none = rows.filter(pl.col("n_listed") == 0).height
    told = f"; {count(none, 'species is', 'species are')} never listed" if none else ""
    return (
        f"{m(name)}: AP from {num(last['ap'])} ({last['class_id']}) to {num(first['ap'])} ({first['class_id']}){told}."
    )


def species_alt(classes: pl.DataFrame, name: str) -> str:
    """Average precision of the best and the worst species in words."""
    rows = classes.filter(pl.col("run") == name).drop_nulls("ap").sort("ap", descending=True, maintain_order=True)
    ends = [*rows.head(8).to_dicts(), *rows.tail(min(8, max(0, rows.height - 8))).to_dicts()]
    told = [f"{r['class_id']} {num(r['ap'])} of {r['n_rel']} segments" for r in ends]
    return f"Average precision by species, {name}. " + ("; ".join(told) or "None") + "."


def pr_title(points: pl.DataFrame, name: str) -> str:
    """Average precision of the shown run for the species that are drawn."""
    rows = points.filter(pl.col("run") == name).drop_nulls("ap").unique("class_id", maintain_order=True).sort("ap")
    if rows.is_empty():
        return "No species is drawn."
    first, last = rows.row(-1, named=True), rows.row(0, named=True)
    return f"{m(name)}: AP from {num(last['ap'])} ({last['class_id']}) to {num(first['ap'])} ({first['class_id']}) of those drawn."


def pr_alt(points: pl.DataFrame) -> str:
    """What is drawn, in words."""
    names = points["class_id"].unique(maintain_order=True).to_list()
    return "Precision against recall of " + (", ".join(names[:24]) or "no species") + "."


def where_title(panels: pl.DataFrame, name: str) -> str:
    """Worst and best hour and recorder of the shown run, of those in which something is heard often enough."""
    told = []
    for panel, key, at in (("recorder", "recorder", ""), ("hour", "hour", " h")):
        rows = panels.filter((pl.col("run") == name) & (pl.col("panel") == panel)).drop_nulls([key, "cmap"])
        often = rows.filter(pl.col("n_heard") >= ENOUGH_HEARD)
        rows = (often if often.height > 1 else rows).sort("cmap")
        if rows.height > 1:
            ends = [
                f"{num(r['cmap'])} ({r[key]}{at}, {count(r['n_heard'], 'segment', 'segments')} with a bird)"
                for r in (rows.row(0, named=True), rows.row(-1, named=True))
            ]
            told.append(f"by {panel} from {ends[0]} to {ends[1]}")
    return f"{m(name)}, c-mAP {'; '.join(told)}." if told else "Recorders and hours are not known."


def where_alt(panels: pl.DataFrame, name: str) -> str:
    """Scores by hour in words."""
    rows = panels.filter((pl.col("run") == name) & (pl.col("panel") == "hour")).drop_nulls("cmap")
    told = [
        f"{r['hour']} h: {num(r['cmap'])} in {r['n_recordings']} recordings, {r['n_heard']} segments with a bird"
        for r in rows.to_dicts()
    ]
    return "Score by recorder and local hour, and the number of recordings. " + ("; ".join(told) or "Not known") + "."


def instead_title(pairs: pl.DataFrame, name: str) -> str:
    """The commonest mistake of the shown run."""
    rows = pairs.filter((pl.col("run") == name) & (pl.col("n_instead") > 0)).sort(
        "n_instead", descending=True, maintain_order=True
    )
    if rows.is_empty():
        return "No species was named in the place of another."
    r = rows.row(0, named=True)
    return f"{m(name)} says {r['said']} where {r['class_id']} is heard, in {count(r['n_instead'], 'segment', 'segments')} ({pct(r['share'])})."


def instead_alt(pairs: pl.DataFrame, name: str) -> str:
    """The commonest mistakes in words."""
    rows = pairs.filter((pl.col("run") == name) & (pl.col("n_instead") > 0)).sort("n_instead", descending=True).head(8)
    told = [f"{r['class_id']} heard, {r['said']} said: {r['n_instead']}" for r in rows.to_dicts()]
    return "What was said instead. " + ("; ".join(told) or "Nothing") + "."


def calibration_title(scores: pl.DataFrame) -> str:
    """Whether scores can be read as probabilities."""
    rows = scores.drop_nulls("ece").sort("ece")
    if rows.is_empty():
        return "No run lists a score."
    r = rows.row(0, named=True)
    return f"Scores are not probabilities: those of {m(r['run'])} come nearest, off by {num(r['ece'])} on average."


def species_caption(target: float) -> str:
    """What the columns of the table of species are, with the precision its thresholds are chosen for."""
    return (
        "The leading run. Small grey: 95 %, of AP for other recordings, of precision by Wilson, as if neighbouring segments were "
        f"independent: too narrow. Threshold: the lowest with a precision of at least {pct(target)}, on these segments."
    )


def species_pairs_title(pairs: pl.DataFrame) -> str:
    """For how many species one of the two runs is confirmed to be better."""
    tested = pairs.drop_nulls("p")
    if tested.is_empty():
        return "No species is heard often enough to compare two runs by it."
    a, b = tested.row(0, named=True)["run_a"], tested.row(0, named=True)["run_b"]
    won = [tested.filter(pl.col("better") == name).height for name in (a, b)]
    of = count(tested.height, "species", "species")
    return f"{m(a)} finds {won[0]} of {of} better than {m(b)}, which finds {won[1]} better (confirmed, Holm)."


def species_pairs_notes(pairs: pl.DataFrame) -> list[str]:
    """How many species were not tested, and why."""
    rest = pairs.filter(pl.col("p").is_null())
    told = rest.group_by("reason").len().sort("len", "reason", descending=[True, False]).iter_rows()
    why = "; ".join(f"{n} {reason or 'not tested'}" for reason, n in told)
    not_tested = [f"Not tested: {count(rest.height, 'species', 'species')} ({why})."] if rest.height else []
    return [CONFIRMED, *not_tested]


def pairs_title(pairs: pl.DataFrame) -> str:
    """How many differences between runs are confirmed."""
    if pairs.is_empty():
        return "One run: there is nothing to compare."
    sure = int(pairs["confirmed"].fill_null(False).sum())
    return f"{sure} of {count(pairs.height, 'difference', 'differences')} between runs {'is' if sure == 1 else 'are'} confirmed (Holm)."


def notes_of(*notices: pl.DataFrame) -> list[str]:
    """Everything that was remarked, one sentence each, counted."""
    return list(dict.fromkeys(remark(r) for part in notices for r in part.to_dicts()))
