"""04_difficulty_model: answer, titles, alt texts and notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import chance, count
from birdlab.chapters.difficulty_model import PLAIN, of_set, one_sd, title
from birdlab.difficulty.checks import TOO_COLLINEAR
from birdlab.difficulty.design import FACTORS
from birdlab.difficulty.model import ESTIMATOR
from birdlab.report.show import m
from birdlab.report.table import number

QUESTION = "Which factors keep an effect of their own once the others and the session are held fixed?"
_MANY = 12
#: A hyphen in front of a number, not inside a name.
_MINUS = re.compile(r"(?<![\w-])-(?=\d)")


def answer(coefficients: pl.DataFrame, summary: pl.DataFrame, lead: str | None) -> tuple[str, str, str]:
    """Question, answer and detail: the factors with a confirmed slope, their worth in points, and how sure that is.

    Args:
        coefficients: table ``coefficients``.
        summary: ``model_summary`` of the same factor set.
        lead: the model that is spoken of first.
    """
    about = summary.filter(model=lead or "").to_dicts()
    if not about or lead is None:
        return QUESTION, "It cannot be said.", "There is no model, or no labelled bird, to look at."
    if not about[0]["is_fitted"]:
        why = f"No joint model was fitted: {about[0]['reason']}."
        return QUESTION, f"It cannot be said for {m(lead)}.", why + _others(coefficients, summary, lead)
    mine = coefficients.filter(model=lead)
    own = mine.filter("confirmed").sort(pl.col("ame").abs(), descending=True, nulls_last=True, maintain_order=True)
    infinite = mine.filter(pl.col("status").cast(pl.String).str.starts_with("infinite"))
    rows = own.to_dicts()
    if not rows:
        said = f"None is confirmed for {m(lead)}."
        detail = _family(mine)
    else:
        verb = "keeps an effect of its" if len(rows) == 1 else "keep effects of their"
        said = f"{listed(_titles(rows))} {verb} own for {m(lead)}."
        detail = _worth(rows[0], about[0]["n_sessions"]) + "".join(
            f" {_titles([r])[0]}: {_points(r)}." for r in rows[1:3]
        )
    return QUESTION, said, detail + _separated(infinite) + _suggested(mine) + _others(coefficients, summary, lead)


def _worth(row: dict[str, Any], n_sessions: int) -> str:
    """What the largest slope is worth, whether it holds without any one session, and what that says of new ones."""
    one = f"One standard deviation more, {one_sd(row, within=False)}, goes with {_points(row)} of recall in these sessions"
    said = f"{one} ({chance(row['p_holm'])} after Holm)."
    if row["loso_lo"] is not None:
        holds = row["loso_lo"] * row["loso_hi"] > 0
        same = "keeps its sign whichever session" if holds else "changes its sign when one session"
        said += f" The effect {same} is left out."
    if row["cr2_p"] is None:
        return f"{said} Nothing can be said about new sessions."
    return f"{said} For new sessions {chance(row['cr2_p'])}, judged from {count(n_sessions, 'session', 'sessions')}."


def _per_sd(row: dict[str, Any]) -> str:
    return "" if row["ame"] is None else f" ({_signed(row['ame'])} points per SD)"


def _points(row: dict[str, Any]) -> str:
    if row["ame"] is None:
        return f"log-odds {number(row['firth'], 1)}"
    return f"{_signed(row['ame'])} points [{number(100 * row['ame_lo'], 1)}, {number(100 * row['ame_hi'], 1)}]"


def _suggested(mine: pl.DataFrame) -> str:
    """Slopes whose own interval excludes 0 although Holm's does not."""
    near = mine.filter((pl.col("firth_lo") * pl.col("firth_hi") > 0) & ~pl.col("confirmed"))
    near = near.filter(~pl.col("status").cast(pl.String).str.starts_with("infinite"))
    if near.is_empty():
        return ""
    names = [
        f"{t}{' (unstable)' if str(r['status']) == 'unstable' else ''}"
        for t, r in zip(_titles(near.to_dicts()), near.to_dicts(), strict=True)
    ]
    return f" Suggested, not confirmed: {listed(names, first_small=True)}."


def _separated(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    return f" No finite estimate: {listed(_titles(rows.to_dicts()), first_small=True)}."


def _family(mine: pl.DataFrame) -> str:
    known = mine.drop_nulls("p_holm").sort("p_holm", "p", maintain_order=True).to_dicts()
    if not known:
        return "No slope could be tested."
    r = known[0]
    held = {"ok": "", "unstable": ", and it is unstable"}.get(str(r["status"]), ", but without a finite estimate")
    return f"The clearest is {_titles([r])[0].lower()} at {_points(r)}, {chance(r['p_holm'])} after Holm over {r['family']} tests{held}."


def _others(coefficients: pl.DataFrame, summary: pl.DataFrame, lead: str) -> str:
    said = []
    for r in summary.filter(pl.col("model") != lead).to_dicts():
        rows = coefficients.filter(model=r["model"]).filter("confirmed").to_dicts()
        if rows:
            cells = [f"{t.lower()}, {_points(row)}" for t, row in zip(_titles(rows), rows, strict=True)]
            said.append(f"{m(r['model'])} ({'; '.join(cells)})")
        elif r["is_fitted"]:
            said.append(f"{m(r['model'])} (none)")
    return f" Confirmed for the others: {', '.join(said)}." if said else ""


def checks_title(summary: pl.DataFrame) -> str:
    """What the table of checks shows: how many models could be fitted."""
    if summary.is_empty():
        return "There is no model to check."
    n = int(summary["is_fitted"].sum())
    lost = summary.filter(~pl.col("is_fitted"))["model"].to_list()
    said = f"{count(n, 'model was', 'models were')} fitted" if n else "No model was fitted"
    return f"{said}; {listed([m(name) for name in lost])} could not be." if lost else f"{said}."


def checks_notes(checks: pl.DataFrame, summary: pl.DataFrame, missed: pl.DataFrame) -> list[str]:
    """Sentences under the checks: birds dropped, factors left out, sessions without information, what is not fitted.

    Args:
        checks: ``model_checks`` of one factor set.
        summary: ``model_summary`` of the same set.
        missed: ``model_missed`` of the same set.
    """
    if summary.is_empty():
        return []
    notes = [*_common_notes(checks)]
    for r in summary.to_dicts():
        idle = checks.filter(model=r["model"], check="informative sessions").to_dicts()
        names = [
            f"{c['term']} ({'all' if ': all' in c['message'] else 'none'} of {c['value']:.0f} recovered)" for c in idle
        ]
        if names:
            notes.append(f"{m(r['model'])}: no information on slopes from {_capped(names, 24)}.")
        for c in checks.filter(model=r["model"], check="separation").to_dicts():
            if c["term"] in FACTORS or (not c["term"] and not c["is_fine"]):
                notes.append(f"{m(r['model'])}: {_named(c, r['factor_set'])}.")
        if not r["is_fitted"]:
            birds = missed.filter(model=r["model"])["instance"].cast(pl.String).to_list()
            told = f" Missed: {_capped(birds, _MANY)}." if birds and len(birds) <= 5 * _MANY else ""
            notes.append(f"{m(r['model'])} is not fitted: {r['reason']}.{told}")
    if summary["is_fitted"].any():
        notes.append(f"{ESTIMATOR}; reference session {summary['reference_session'][0]}.")
    return notes


def _common_notes(checks: pl.DataFrame) -> list[str]:
    mine = checks.filter(model="")
    factor_set = checks["factor_set"][0]
    notes = []
    lost = mine.filter(check="missing").to_dicts()
    if lost:
        words = [f"{_factor(c['term'], factor_set)} ({c['value']:.0f})" for c in lost]
        notes.append(f"{mine.filter(check='birds')['message'][0]}: {', '.join(words)}.")
    for check in ("constant", "aliased", "not_fitted"):
        notes += [f"{_named(c, factor_set)}." for c in mine.filter(check=check).to_dicts()]
    notes += [f"{c['message']}." for c in mine.filter(check="sessions").filter(~pl.col("is_fine")).to_dicts()]
    apart = mine.filter(check="spread within sessions").filter(~pl.col("is_fine")).to_dicts()
    if apart:
        words = [
            f"{_factor(c['term'], factor_set)} ({1 / c['value']:.0f} times)"
            if c["value"]
            else _factor(c["term"], factor_set)
            for c in apart
        ]
        notes.append(
            f"One SD over all birds is many SDs within a session for {listed(words)}: read the second column of effects."
        )
    return notes


def _factor(term: str, factor_set: str) -> str:
    if term == "recovered":
        return "the outcome"
    return title(term, factor_set).lower() if term in FACTORS else term


def _named(check: dict[str, Any], factor_set: str) -> str:
    text = check["message"]
    term = check["term"]
    if term in FACTORS and text.startswith(term):
        text = title(term, factor_set) + text[len(term) :]
    for factor in FACTORS:
        text = text.replace(f"combination of {factor}", f"combination of {title(factor, factor_set).lower()}")
    return text[:1].upper() + text[1:]


def effects_title(coefficients: pl.DataFrame) -> str:
    """What the table of effects shows: the confirmed slopes of all models."""
    fitted = coefficients.drop_nulls("firth")
    if fitted.is_empty():
        return "No slope could be estimated."
    sure = fitted.filter("confirmed")
    if sure.is_empty():
        return f"None of {count(fitted.height, 'slope', 'slopes')} is confirmed to differ from 0."
    said = []
    for (factor,), part in sure.partition_by("factor", as_dict=True, maintain_order=True).items():
        cells = [f"{m(r['model'])}{_per_sd(r)}" for r in part.to_dicts()]
        said.append(f"{title(str(factor), part['factor_set'][0]).lower()} for {listed(cells)}")
    text = f"{sure.height} of {count(fitted.height, 'slope is', 'slopes are')} confirmed: {'; '.join(said)}."
    return text[:1].upper() + text[1:]


def effects_notes(coefficients: pl.DataFrame) -> list[str]:
    """Sentences under the table of effects: why a coefficient is not ok, models and factors with the same reason together."""
    grouped: dict[tuple[str, str], list[str]] = {}
    odd = coefficients.filter(~pl.col("status").cast(pl.String).is_in(["ok", "not_fitted", "constant", "aliased"]))
    for r in odd.iter_rows(named=True):
        for reason in (r["reason"] or "").split("; "):
            if reason:
                grouped.setdefault((r["model"], reason), []).append(title(r["factor"], r["factor_set"]))
    notes = [
        f"{m(model)}, {listed(names, first_small=True)}: {_MINUS.sub('−', reason)}."
        for (model, reason), names in grouped.items()
    ]
    if len(notes) > 2 * _MANY:
        notes = [*notes[: 2 * _MANY], f"{len(notes) - 2 * _MANY} further reasons are in the table coefficients."]
    notes += one_sd_notes(coefficients)
    if coefficients["is_bold"].any():
        notes.append("Bold: the most negative slope of a model, below 0 and below its runner-up beyond doubt.")
    return notes


def one_sd_notes(coefficients: pl.DataFrame) -> list[str]:
    """One sentence with the units: one standard deviation of every factor, over all birds and within a session."""
    rows = coefficients.drop_nulls("sd").unique("factor", keep="first", maintain_order=True).to_dicts()
    said = [f"{_titles([r])[0].lower()} {one_sd(r)}" for r in rows]
    return [f"One SD over all birds (in a session): {'; '.join(said)}."] if said else []


def slopes_title(coefficients: pl.DataFrame) -> str:
    """What Table 10's layout shows: the most negative slope of each model, where that can be said."""
    bold = coefficients.filter("is_bold").to_dicts()
    if bold:
        return f"Most negative beyond doubt: {listed([PLAIN[r['factor']].lower() + ' for ' + m(r['model']) for r in bold])}."
    return (
        "For no model can one slope be called the most negative."
        if coefficients.height
        else "There is no model to show."
    )


def sets_title(both: pl.DataFrame) -> str:
    """What the two factor sets side by side show: the factors that only the bird's own box can tell from the session."""
    if both.drop_nulls("firth").is_empty():
        return "Neither factor set could be fitted."
    bad = {}
    for name in ("bluebird-local", "bluebird-global"):
        rows = of_set(both, name).filter(pl.col("vif") > TOO_COLLINEAR).unique("factor", maintain_order=True)
        bad[name] = rows["title"].to_list()
    whole, box = bad["bluebird-global"], bad["bluebird-local"]
    if not whole and not box:
        return "Both sets can be told from the sessions."
    said = [f"{listed(names)} cannot be told from the sessions and the rest" for names in (whole, box) if names]
    end = "" if box else "; measured in the bird's box, every factor can"
    text = said[0] + (f"; nor can {listed(box, first_small=True)}" if whole and box else "")
    return f"{text}{end}."


def left_out_title(rows: pl.DataFrame, lead: str | None) -> str:
    """What the table of sessions left out shows: the session that moves the slopes most."""
    known = rows.drop_nulls("change").sort("change", descending=True, maintain_order=True)
    if known.is_empty():
        return "No session could be left out."
    whole = rows.row(0, named=True)
    turned = [
        f
        for f in FACTORS
        for r in known.to_dicts()
        if r[f] is not None and whole[f] is not None and r[f] * whole[f] < 0
    ]
    n = len(set(turned))
    text = (
        f"{m(str(lead))}: {count(n, 'slope changes', 'slopes change')} sign when a session is left out"
        if n
        else f"No slope of {m(str(lead))} changes sign when a session is left out"
    )
    r = known.row(0, named=True)
    return f"{text}; {r['session']} moves one by {r['change']:.1f} standard errors."


def left_out_notes(rows: pl.DataFrame) -> list[str]:
    """How many sessions are not shown."""
    if rows.is_empty():
        return []
    hidden = rows["n_sessions"][0] - (rows.height - 1)
    return [f"{count(hidden, 'further session moves', 'further sessions move')} the slopes less."] if hidden > 0 else []


def _titles(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [title(r["factor"], r["factor_set"]) for r in rows]


def _signed(share: float) -> str:
    text = number(100 * share, 1)
    return text if text.startswith("−") else f"+{text}"


def _capped(names: Sequence[str], most: int) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def listed(names: Sequence[str], *, first_small: bool = False) -> str:
    """Names in a sentence: the first as it is written, the others in small letters.

    >>> listed(["Local contrast", "Relative size"])
    'Local contrast and relative size'
    """
    names = [n[:1].lower() + n[1:] if (i or first_small) and not n.startswith("{") else n for i, n in enumerate(names)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
