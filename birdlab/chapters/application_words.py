"""07_application in words: answer, titles, captions and texts for readers who cannot see the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.application import (
    MEASURES,
    RATE,
    TOGETHER,
    leading_error,
    of_combination,
    with_names,
)
from birdlab.chapters.common import count, num, pct
from birdlab.individuals.across import MIN_N
from birdlab.individuals.budget_words import budget_sentence
from birdlab.individuals.evaluate import PROTOCOL_NOTES
from birdlab.individuals.lanes import GAP_S

_UNIT = {RATE: "pecks/min", TOGETHER: "of the video"}
_WHAT = {RATE: "feeding rates", TOGETHER: "who is seen with whom"}


def answer(summary: pl.DataFrame, budget: pl.DataFrame, order: Sequence[str]) -> tuple[str, str, str]:
    """Question, answer and detail: the error of the best combination, and which stage it is due to."""
    question = "Do the errors of the models reach the biological numbers, and through which stage?"
    if not order:
        return question, "No combination was submitted.", "A tracker needs a file of behaviours and one of names."
    best = order[0]
    rows = of_combination(budget, best).filter(pl.col("measure") == MEASURES[RATE])
    told, _, more = budget_sentence(rows).partition(". ")
    human = _of(summary, "human")
    person = f" A person is off by {_digits(human, RATE)} {_UNIT[RATE]}." if human else ""
    detail = f"{best}: mean error {leading_error(summary, best)}.{person} {more}".strip()
    return question, f"{told.rstrip('.')}.", detail


def headlines(summary: pl.DataFrame, budget: pl.DataFrame, order: Sequence[str]) -> list[dict[str, Any]]:
    """Numbers for the top of the report: the smallest error of feeding rates, and the share of its leading stage."""
    if not order:
        return []
    best = order[0]
    row = with_names(summary.filter(pl.col("protocol") == "documented")).filter(pl.col("combination") == best)
    found = row.row(0, named=True)
    ends = {k: found[f"{RATE}_mae_{k}"] for k in ("lo", "hi")}
    value = found[f"{RATE}_mean_abs_error"]
    out = [{"label": f"Feeding rate, mean error, {best}", "value": value, "unit": "pecks/min", "digits": 1} | ends]
    rows = of_combination(budget, best).filter(pl.col("measure") == MEASURES[RATE]).drop_nulls("fraction")
    if rows.height:
        lead = rows.sort("share", descending=True).row(0, named=True)
        label = f"… of it due to {lead['stage']}"
        out.append({"label": label, "value": 100 * lead["fraction"], "unit": "%", "digits": 0, "lo": None, "hi": None})
    return out


def notes(found: pl.DataFrame) -> list[str]:
    """What was remarked, one sentence each, counted; and where the protocols differ."""
    told = [_counted(row["message"], row["n"]) for row in found.unique(maintain_order=True).to_dicts()]
    return [*told, *(_sentence(PROTOCOL_NOTES[k]) for k in ("frame_accuracy", "feeding_f1"))]


def protocol_notes(measure: str) -> list[str]:
    """Where the two protocols differ for this number."""
    note = _sentence(PROTOCOL_NOTES[measure])
    if measure == RATE:
        return [note, "The mean rate of the other videos has an r below 0 by construction; it says nothing."]
    return [note]


def task_title(summary: pl.DataFrame) -> str:
    """Which combination puts most boxes to the right bird."""
    rows = with_names(summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "")))
    rows = rows.drop_nulls("frame_accuracy").sort("frame_accuracy", descending=True)
    if rows.is_empty():
        return "No box was scored."
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    text = f"{first['combination']} gives {pct(first['frame_accuracy'])} of boxes their bird"
    return f"{text}." if rows.height == 1 else f"{text}, {last['combination']} {pct(last['frame_accuracy'])}."


def error_title(summary: pl.DataFrame, measure: str) -> str:
    """The smallest and the largest mean error, beside a person and chance."""
    rows = with_names(summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "")))
    rows = rows.filter("complete").drop_nulls(f"{measure}_mean_abs_error").sort(f"{measure}_mean_abs_error")
    if rows.is_empty():
        return f"Nothing to compare for {_WHAT[measure]}."
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    text = f"{_WHAT[measure].capitalize()} are off by {_digits(first, measure)}"
    text += "" if rows.height == 1 else f" to {_digits(last, measure)}"
    human = _of(summary, "human")
    person = f"; a person is off by {_digits(human, measure)}" if human else ""
    return f"{text} {_UNIT[measure]}{person}.".replace("Who is seen with whom are", "Who is seen with whom is")


def within_title(summary: pl.DataFrame, measure: str) -> str:
    """Pearson's r of the combination with the smallest error, pooled and within video."""
    rows = with_names(summary.filter((pl.col("protocol") == "documented") & (pl.col("tracker") != "")))
    rows = rows.filter("complete").drop_nulls([f"{measure}_r", f"{measure}_r_within"])
    rows = rows.sort(f"{measure}_mean_abs_error")
    if rows.is_empty():
        return f"{_WHAT[measure].capitalize()} within video: too little varies for a correlation."
    first = rows.row(0, named=True)
    pooled, own = (num(first[f"{measure}_{k}"]) for k in ("r", "r_within"))
    return f"{_WHAT[measure].capitalize()} of {first['combination']}: r is {pooled} over all and {own} within video."


def rates_alt(rates: pl.DataFrame) -> str:
    """True and predicted mean of each combination in words."""
    told = [
        f"{name}: true mean {num1(part['truth'].mean())}, predicted {num1(part['predicted'].mean())} over {part.height} points"
        for (name,), part in rates.drop_nulls(["truth", "predicted"]).group_by("combination", maintain_order=True)
    ]
    return "Predicted against true feeding rates. " + ("; ".join(told) or "No point") + "."


def birds_title(rates: pl.DataFrame, order: Sequence[str]) -> str:
    """The birds that the leading combination puts too low and too high."""
    for name in order:
        by = _by_bird(rates, name)
        if by.height:
            low, high = by.row(0, named=True), by.row(-1, named=True)
            first = f"{name}: the rate of {low['bird']} is off by {_plus(low['error'])} pecks/min"
            return f"{first}." if by.height == 1 else f"{first}, that of {high['bird']} by {_plus(high['error'])}."
    return "Error by bird: nothing to compare."


def birds_alt(rates: pl.DataFrame, order: Sequence[str]) -> str:
    """The lowest and the highest mean error of a bird, of every combination that is drawn."""
    told = []
    for name in order:
        by = _by_bird(rates, name)
        if by.height:
            ends = [f"{by['bird'][i]} {_plus(by['error'][i])}" for i in (0, -1)]
            told.append(f"{name}: lowest {ends[0]}, highest {ends[1]}")
    return "Mean error of feeding rates by bird, pecks/min. " + ("; ".join(told) or "Nothing to compare") + "."


def _by_bird(rates: pl.DataFrame, combination: str) -> pl.DataFrame:
    """Mean error of each bird under one combination, from the lowest up."""
    mine = rates.filter(pl.col("combination") == combination).with_columns(
        bird=pl.col("subject").list.first(), error=pl.col("predicted") - pl.col("truth")
    )
    return mine.group_by("bird").agg(pl.col("error").mean()).drop_nulls().sort("error", "bird")


def _plus(number: float) -> str:
    """One decimal with its sign; none before 0."""
    text = num1(number)
    return "0.0" if text in ("−0.0", "0.0") else text if number < 0 else f"+{text}"


def matrix_title(matrix: pl.DataFrame) -> str:
    """The pair that is most wrong."""
    rows = matrix.drop_nulls(["truth", "predicted"]).with_columns(error=pl.col("predicted") - pl.col("truth"))
    if rows.is_empty():
        return "No pair of birds was seen."
    worst = rows.sort(pl.col("error").abs(), descending=True).row(0, named=True)
    pair = f"{worst['bird_a']} and {worst['bird_b']}"
    return f"{pair} are seen together {pct(worst['truth'])} of the time, predicted {pct(worst['predicted'])}."


def matrix_alt(matrix: pl.DataFrame) -> str:
    """The three pairs that are together most, in words."""
    rows = matrix.drop_nulls("truth").sort("truth", descending=True).head(3).to_dicts()
    told = [f"{r['bird_a']} and {r['bird_b']}: true {pct(r['truth'])}, predicted {pct(r['predicted'])}" for r in rows]
    return "Share of time that pairs are together. " + ("; ".join(told) or "No pair") + "."


def lanes_title(lane: pl.DataFrame) -> str:
    """How long birds were in view, and how much of what was predicted was somebody else."""
    true = _length(lane, "truth", ("present",))
    right, wrong = _length(lane, "predicted", ("present",)), _length(lane, "predicted", ("other",))
    if not true:
        return "Nobody was seen in this video."
    share = f"But for gaps of up to {GAP_S:g} s, {pct(right / true)} of the birds' time in view is predicted"
    return f"{share}; {num1(wrong)} s are given to birds that were not there."


def lanes_alt(lane: pl.DataFrame) -> str:
    """Time in view of each bird, in words."""
    told = []
    for bird in lane["bird"].unique().sort().to_list():
        mine = lane.filter(pl.col("bird") == bird)
        times = [_length(mine, "truth", ("present",)), _length(mine, "predicted", ("present", "other"))]
        told.append(f"{bird}: {num1(times[0])} s by hand, {num1(times[1])} s predicted")
    return "Timeline of birds in view. " + ("; ".join(told) or "Nobody") + "."


def budget_title(budget: pl.DataFrame, order: Sequence[str], measures: Sequence[str] = (RATE,)) -> str:
    """The sentences a field biologist reads, of the best combination: one per biological number."""
    if not order:
        return "There is nothing to share out: no combination."
    told = []
    for measure in measures:
        rows = of_combination(budget, order[0]).filter(pl.col("measure") == MEASURES[measure])
        told.append(_lower(budget_sentence(rows).partition(". ")[0].rstrip(".")))
    return f"{order[0]}: {'. '.join([told[0], *(f'{t[0].upper()}{t[1:]}' for t in told[1:])])}."


def budget_alt(budget: pl.DataFrame, order: Sequence[str], measures: Sequence[str] = (RATE, TOGETHER)) -> str:
    """Shares of every combination in words."""
    told = []
    for measure in measures:
        each = []
        for name in order:
            rows = of_combination(budget, name).filter(pl.col("measure") == MEASURES[measure]).to_dicts()
            shares = [(r["stage"], num1(r["share"]) if measure == RATE else _thousandths(r["share"])) for r in rows]
            each.append(f"{name}: {', '.join(f'{stage} {share}' for stage, share in shares)}")
        what = "feeding rates by stage, pecks/min" if measure == RATE else "time together by stage, share of the video"
        told.append(f"Share of the error of {what}. " + ("; ".join(each) or "No combination") + ".")
    return " ".join(told)


def across_title(found: pl.DataFrame) -> str:
    """Whether a better task metric went with a smaller error."""
    rows = found.filter(pl.col("measure").str.starts_with(RATE))
    known = rows.drop_nulls("rho")
    if known.is_empty():
        n = int(rows["n"].max() or 0) if rows.height else 0
        few = f"{count(n, 'combination', 'combinations')}: too few to say (fewer than {MIN_N})"
        return f"{few[0].upper()}{few[1:]}." if n < MIN_N else "One side is constant: nothing can be said."
    best = known.sort("p", "rho").row(0, named=True)
    told = f"ρ {_signed(best['rho'])} over {count(best['n'], 'combination', 'combinations')}"
    if best["p_holm"] >= 0.05:
        least = f"the clearest, {label(best['task'])}, has {told} (p {best['p_holm']:.2f} after Holm)"
        return f"No score shows a relation with errors of feeding rates: {least}."
    word = "smaller" if best["rho"] < 0 else "larger"
    return f"A better {label(best['task'])} goes with {word} errors of feeding rates: {told}."


def drawn_title(found: pl.DataFrame, task: str = "frame_accuracy") -> str:
    """Whether a better value of the one task metric that is drawn went with a smaller error of feeding rates."""
    rows = found.filter(pl.col("measure").str.starts_with(RATE) & (pl.col("task") == task))
    if rows.is_empty() or rows["rho"][0] is None:
        n = int(rows["n"][0] or 0) if rows.height else 0
        if n < MIN_N:
            few = f"{count(n, 'combination', 'combinations')}, fewer than {MIN_N}: too few to say"
            return f"{label(task).capitalize()} and errors of feeding rates: {few}."
        reason = rows["reason"][0] or "nothing can be said"
        return f"{label(task).capitalize()} and errors of feeding rates: {reason.replace(task, label(task))}."
    row = rows.row(0, named=True)
    told = f"ρ {_signed(row['rho'])} over {count(row['n'], 'combination', 'combinations')}"
    if row["p_holm"] >= 0.05:
        less = f"{told} (p {row['p_holm']:.2f} after Holm)"
        return f"The {label(task)} shows no relation with errors of feeding rates: {less}."
    return (
        f"A better {label(task)} goes with {'smaller' if row['rho'] < 0 else 'larger'} errors of feeding rates: {told}."
    )


def across_alt(frame: pl.DataFrame) -> str:
    """The points in words."""
    told = [
        f"{r['combination']}: {num(r['value'])}, error {num1(r['error'])}"
        for r in frame.drop_nulls(["value", "error"]).to_dicts()
    ]
    return "Task metric against error of feeding rates. " + ("; ".join(told[:12]) or "No point") + "."


def label(task: str) -> str:
    """A task metric in words.

    >>> label("frame_accuracy"), label("idf1")
    ('share of right boxes', 'IDF1')
    """
    words = {
        "frame_accuracy": "share of right boxes",
        "track_accuracy": "share of right visits",
        "feeding_f1": "F1 of pecks",
    }
    return words.get(task, task.upper())


def offset_title(offset: pl.DataFrame) -> str:
    """Whether a person, or the best combination, is late."""
    for row in offset.to_dicts():
        who = "a person" if row["source"] == "human" else row["source"]
        if row["seconds"] is not None:
            late = "late" if row["seconds"] > 0 else "early"
            text = f"is {abs(row['seconds']):.2f} s {late}" if row["seconds"] else "is in time"
            return f"{who[0].upper()}{who[1:]} {text}."
    reason = offset["reason"][0] if offset.height else "nobody coded pecks"
    return f"No time shift could be estimated: {reason}."


def tolerance_alt(curve: pl.DataFrame) -> str:
    """F1 at no and at full tolerance of each curve."""
    told = []
    for (source, corrected), part in curve.drop_nulls("f1").group_by("source", "corrected", maintain_order=True):
        ends = part.sort("tolerance_s")
        what = f"{source}, {'shift taken out' if corrected else 'as coded'}"
        told.append(f"{what}: {num(ends['f1'][0])} to {num(ends['f1'][-1])} at {ends['tolerance_s'][-1]:g} s")
    return "F1 of single pecks by tolerance in time. " + ("; ".join(told[:6]) or "Nothing to compare") + "."


def random_title(draws: pl.DataFrame, frame: pl.DataFrame) -> str:
    """How many combinations do better than 97.5 % of random names."""
    if draws.is_empty() or frame.is_empty():
        return "No name was drawn."
    low = draws.filter(pl.col("metric") == f"{RATE}_mean_abs_error")["lo"].min()
    mine = frame.drop_nulls("value")
    better = mine.filter(pl.col("error") < low).height if low is not None else 0
    return f"{better} of {count(mine.height, 'combination', 'combinations')} do better than names drawn at random."


def random_alt(draws: pl.DataFrame) -> str:
    """Middle and range of the random errors."""
    rows = draws.filter(pl.col("metric") == f"{RATE}_mean_abs_error").to_dicts()
    told = [f"{r['tracker']}, {r['model']}: {num1(r['median'])} [{num1(r['lo'])}, {num1(r['hi'])}]" for r in rows]
    return "Mean error of feeding rates with random names, pecks/min. " + ("; ".join(told) or "None") + "."


def num1(number: float | None) -> str:
    """One decimal with a true minus; an en dash for nothing."""
    return "–" if number is None else f"{number:.1f}".replace("-", "−")


def _thousandths(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}".replace("-", "−")


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _of(summary: pl.DataFrame, model: str) -> dict[str, Any] | None:
    rows = summary.filter((pl.col("model") == model) & (pl.col("protocol") == "documented") & (pl.col("tracker") == ""))
    return rows.row(0, named=True) if rows.height else None


def _digits(row: dict[str, Any], measure: str) -> str:
    value = row[f"{measure}_mean_abs_error"]
    return "–" if value is None else num1(value) if measure == RATE else pct(value)


def _length(lane: pl.DataFrame, source: str, kinds: Sequence[str]) -> float:
    rows = lane.filter((pl.col("source") == source) & pl.col("kind").is_in(list(kinds)))
    return float((rows["end_s"] - rows["start_s"]).sum())


def _counted(message: str, n: int | None) -> str:
    return f"{_sentence(message)[:-1]}{f' ({n:,})' if (n or 0) > 1 else ''}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _lower(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"
