"""04_difficulty_model: checks, effects, Table 10, factor sets, sessions left out: the tables of the chapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import count
from birdlab.chapters.difficulty import UNITS
from birdlab.chapters.difficulty_names import title as measured_title
from birdlab.detection.published import BLUEBIRD
from birdlab.difficulty.design import FACTOR_SETS, FACTORS
from birdlab.difficulty.published import table_10
from birdlab.report.table import Col, number

#: Factors whatever they are measured on.
PLAIN = dict(
    zip(FACTORS, ("Relative size", "Brightness", "Contrast", "Clutter", "Sharpness", "Birds in the frame"), strict=True)
)
STATUS_WORDS = {
    "infinite_pos": "infinite, +",
    "infinite_neg": "infinite, −",
    "not_fitted": "not fitted",
}
#: Sessions that the table of sessions left out shows at most.
MOST_SESSIONS = 12


class _Lowest(Col):
    """A column whose lowest value may be bold without being called better: no arrow in its header."""

    @property
    def arrow(self) -> str:
        """Nothing."""
        return ""


CHECK_COLUMNS = {
    "model": Col("Model", kind="text"),
    "n": Col("Birds", "used", kind="int"),
    "n_misses": Col("Missed", kind="int"),
    "informative": Col("Sessions", "with hits and misses", kind="text"),
    "events_per_variable": Col("Events", "per variable", digits=1),
    "max_vif": Col("Inflation", "largest VIF", digits=1),
    "condition": Col("Condition", "number", digits=1),
    "separated": Col("Separated by", kind="text"),
    "fitted": Col("Fitted", kind="text"),
}
EFFECT_COLUMNS = {
    "factor": Col("Factor", kind="text"),
    "ame": Col("Recall per SD", "points", kind="percent"),
    "ame_within": Col("per SD in a session", "points", kind="percent"),
    "firth": _Lowest("Log-odds", "Firth, per SD", better="down", digits=2),
    "mle": Col("ML", "where finite", digits=2),
    "cr2": Col("SE", "CR2, by session", kind="text"),
    "loso": Col("Sessions left out", "Firth, range", kind="text"),
    "p_holm": Col("p", "after Holm", kind="p"),
    "status": Col("Status", kind="text"),
}
SET_COLUMNS = {
    "factor": Col("Factor", kind="text"),
    "local": Col("In the bird's box", "points per SD in a session", kind="percent"),
    "local_vif": Col("VIF", digits=1),
    "local_status": Col("Status", kind="text"),
    "global": Col("On the whole frame", "points per SD in a session", kind="percent"),
    "global_vif": Col("VIF", digits=1),
    "global_status": Col("Status", kind="text"),
}


def title(factor: str, factor_set: str) -> str:
    """Name of a factor of the joint model as it was measured.

    >>> title("brightness", "bluebird-local"), title("clutter", "bluebird-global")
    ('Local brightness', 'Background clutter')
    """
    return measured_title(FACTOR_SETS[factor_set][factor])


def status_words(status: str, confirmed: bool = False) -> str:
    """A status as printed.

    >>> status_words("infinite_neg"), status_words("ok", True)
    ('infinite, −', 'ok, confirmed')
    """
    return STATUS_WORDS.get(status, status) + (", confirmed" if confirmed else "")


def of_set(frame: pl.DataFrame, factor_set: str) -> pl.DataFrame:
    """The rows of one factor set, with the name of each factor as ``title`` where there are factors."""
    rows = frame.filter(factor_set=factor_set)
    if "factor" not in rows.columns:
        return rows
    names = {f: title(f, factor_set) for f in FACTORS}
    return rows.with_columns(pl.col("factor").replace_strict(names, default=pl.col("factor")).alias("title"))


def lead_model(summary: pl.DataFrame, best: str | None) -> str | None:
    """The model that sentences begin with: the best one where it was fitted, else the first fitted, else the best."""
    fitted = summary.filter("is_fitted")["model"].to_list()
    return best if best in fitted or not fitted else fitted[0]


def checks(summary: pl.DataFrame) -> pl.DataFrame:
    """What must be known before the coefficients, a row per model.

    Args:
        summary: ``model_summary`` of one factor set.
    """
    rows = []
    for r in summary.iter_rows(named=True):
        rows.append(
            {
                **{key: r[key] for key in ("model", "n", "n_misses", "events_per_variable", "max_vif", "condition")},
                "model_note": None
                if r["n"] == r["n_total"]
                else f"{r['n_total'] - r['n']} of {r['n_total']} birds dropped",
                "informative": f"{len(r['informative_sessions'])} of {r['n_sessions']}",
                "events_per_variable_reason": "there is nothing to fit",
                "max_vif_reason": "there is no factor to fit",
                "condition_reason": "there is no factor to fit",
                "separated": _separated(r) if r["is_fitted"] else None,
                "separated_reason": f"not fitted: {r['reason']}",
                "fitted": "yes" if r["is_fitted"] else "no",
            }
        )
    text = (
        "model",
        "model_note",
        "informative",
        "separated",
        "fitted",
        *(f"{c}_reason" for c in ("events_per_variable", "max_vif", "condition", "separated")),
    )
    schema = dict.fromkeys(text, pl.String) | dict.fromkeys(("n", "n_misses"), pl.Int64)
    schema |= dict.fromkeys(("events_per_variable", "max_vif", "condition"), pl.Float64)
    return pl.DataFrame(rows, schema=schema)


def _separated(row: dict[str, Any]) -> str:
    if row["is_complete_separation"]:
        return "everything"
    terms = [t for t in row["separated"] or [] if t != "intercept"]
    factors = [title(t, row["factor_set"]) for t in terms if t in FACTORS]
    sessions = [t for t in terms if t not in FACTORS]
    if len(sessions) > 2:
        sessions = [f"{len(sessions)} sessions"]
    return ", ".join([*factors, *sessions]) or "nothing"


def effects(coefficients: pl.DataFrame) -> pl.DataFrame:
    """Every coefficient, a row per model and factor: its worth in recall first, then log-odds, errors and status.

    Args:
        coefficients: table ``coefficients``.

    Returns:
        The columns of :data:`EFFECT_COLUMNS`, ends of intervals, reasons, and ``bold_group``: rows among which the
        lowest slope may stand out.
    """
    rows = []
    bold = {r["model"]: r["firth"] for r in coefficients.filter("is_bold").iter_rows(named=True)}
    for i, r in enumerate(coefficients.iter_rows(named=True)):
        why = r["reason"] or "it could not be computed"
        lowest = bold.get(r["model"])
        may = lowest is not None and r["firth"] is not None and r["firth"] >= lowest
        row = {
            key: r[key]
            for key in (
                "model",
                "ame",
                "ame_lo",
                "ame_hi",
                "ame_within",
                "firth",
                "firth_lo",
                "firth_hi",
                "mle",
                "p_holm",
            )
        }
        row |= {"factor": title(r["factor"], r["factor_set"]), "factor_note": r["model"]}
        row |= {f"ame_within_{end}": _within(r, f"ame_{end}") for end in ("lo", "hi")}
        row |= {"cr2": _cr2(r), "loso": _range(r), "status": status_words(str(r["status"]), r["confirmed"])}
        row |= {f"{key}_reason": why for key in ("ame", "ame_within", "firth", "mle", "p_holm")}
        row["cr2_reason"] = why if r["mle"] is None else "it takes two sessions of at most 3,000 birds"
        row["loso_reason"] = why if r["firth"] is None else "it takes two sessions, and both outcomes without each"
        rows.append(row | {"bold_group": r["model"] if may else f"row {i}"})
    numbers = (
        "ame",
        "ame_lo",
        "ame_hi",
        "ame_within",
        "ame_within_lo",
        "ame_within_hi",
        "firth",
        "firth_lo",
        "firth_hi",
        "mle",
        "p_holm",
    )
    text = ("model", "factor", "factor_note", "cr2", "loso", "status", "bold_group")
    reasons = tuple(f"{key}_reason" for key in ("ame", "ame_within", "firth", "mle", "p_holm", "cr2", "loso"))
    return pl.DataFrame(rows, schema=dict.fromkeys((*text, *reasons), pl.String) | dict.fromkeys(numbers, pl.Float64))


def one_sd(row: dict[str, Any], *, within: bool = True) -> str:
    """One standard deviation of a coefficient's factor in its unit, that within sessions in brackets.

    >>> row = {"factor": "rel_size", "factor_set": "bluebird-local", "sd": 0.016, "within_sd": 0.015}
    >>> one_sd(row), one_sd(row, within=False)
    ("1.6 (1.5) % of the frame's side", "1.6 % of the frame's side")
    """
    scale, unit = UNITS.get(FACTOR_SETS[row["factor_set"]][row["factor"]], (1, ""))
    inside = f" ({_short(row['within_sd'] * scale)})" if within else ""
    return f"{_short(row['sd'] * scale)}{inside} {'gray levels' if unit.startswith('gray') else unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.2g}".rstrip(".")


def _within(row: dict[str, Any], key: str) -> float | None:
    return None if row[key] is None else row[key] * row["within_sd"] / row["sd"]


def _cr2(row: dict[str, Any]) -> str | None:
    return None if row["se_cr2"] is None else f"{row['se_cr2']:.2f}, {row['cr2_df']:.1f} df"


def _range(row: dict[str, Any]) -> str | None:
    return None if row["loso_lo"] is None else f"{number(row['loso_lo'], 2)} to {number(row['loso_hi'], 2)}"


def table_of_slopes(coefficients: pl.DataFrame, summary: pl.DataFrame) -> pl.DataFrame:
    """The layout of Western Bluebird's Table 10: recall and Firth's log-odds per SD, a row per model.

    Args:
        coefficients: table ``coefficients``.
        summary: ``model_summary`` of the same factor set.

    Returns:
        ``model``, ``recall``, a column per factor with its profile interval and reason, ``lowest``: the most negative
        slope where that can be said.
    """
    rows = []
    for s in summary.iter_rows(named=True):
        row: dict[str, Any] = {"model": s["model"], "recall": s["recall"], "recall_reason": "no bird was used"}
        row["model_note"] = f"{s['n_misses']} of {s['n']} missed, {count(s['n_sessions'], 'session', 'sessions')}"
        row["lowest_reason"] = (
            "no slope is below 0 and below all others beyond doubt" if s["is_fitted"] else s["reason"]
        )
        for r in coefficients.filter(model=s["model"]).iter_rows(named=True):
            name = r["factor"]
            row |= {
                name: r["firth"],
                f"{name}_lo": r["firth_lo"],
                f"{name}_hi": r["firth_hi"],
                f"{name}_reason": r["reason"],
            }
            if r["is_bold"]:
                row["lowest"] = PLAIN[name]
        rows.append(row)
    text = ("model", "model_note", "lowest", "lowest_reason", "recall_reason", *(f"{f}_reason" for f in FACTORS))
    numbers = ("recall", *(f"{f}{end}" for f in FACTORS for end in ("", "_lo", "_hi")))
    return pl.DataFrame(rows, schema=dict.fromkeys(text, pl.String) | dict.fromkeys(numbers, pl.Float64))


def slope_columns(factor_set: str) -> dict[str, Col]:
    """How :func:`table_of_slopes` is printed."""
    shown = {"model": Col("Model", kind="text"), "recall": Col("Recall", "%", kind="percent")}
    shown |= {f: Col(title(f, factor_set), digits=2) for f in FACTORS}
    return shown | {"lowest": Col("Most negative", "beyond doubt", kind="text")}


def printed_slopes(names: Sequence[str]) -> pl.DataFrame | None:
    """The printed Table 10 as rows of :func:`table_of_slopes`; None where the recipe does not ask for it."""
    if BLUEBIRD not in names:
        return None
    rows = []
    for (model,), part in table_10().partition_by("model", as_dict=True, maintain_order=True).items():
        row = {"model": str(model), "model_note": "Western Bluebird, as printed", "recall": part["recall"][0]}
        row["lowest"] = PLAIN[part.filter("is_bold")["factor"][0]]
        rows.append(row | dict(part.select("factor", "coefficient").iter_rows()))
    text = dict.fromkeys(("model", "model_note", "lowest"), pl.String)
    return pl.DataFrame(rows, schema=text | dict.fromkeys(("recall", *FACTORS), pl.Float64))


def sets(both: pl.DataFrame) -> pl.DataFrame:
    """The factors measured in the bird's box beside the same ones of the whole frame, a row per model and factor.

    Args:
        both: table ``coefficient_sets``.
    """
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for r in both.iter_rows(named=True):
        side = r["factor_set"].removeprefix("bluebird-")
        row = cells.setdefault((r["model"], r["factor"]), {"model": r["model"], "factor_note": r["model"]})
        row |= {"factor": PLAIN[r["factor"]], side: r["ame_within"], f"{side}_vif": r["vif"]}
        row |= {f"{side}_{end}": _within(r, f"ame_{end}") for end in ("lo", "hi")}
        row |= {f"{side}_status": status_words(str(r["status"]), r["confirmed"]), f"{side}_reason": r["reason"]}
        row[f"{side}_vif_reason"] = (
            r["reason"] if r["status"] in ("constant", "aliased") else "it has no end, or nothing was fitted"
        )
    sides = ("local", "global")
    text = ("model", "factor", "factor_note", *(f"{s}_{k}" for s in sides for k in ("status", "reason", "vif_reason")))
    numbers = [f"{s}{k}" for s in sides for k in ("", "_lo", "_hi", "_vif")]
    schema = dict.fromkeys(text, pl.String) | dict.fromkeys(numbers, pl.Float64)
    return pl.DataFrame(list(cells.values()), schema=schema)


def left_out(loso: pl.DataFrame, coefficients: pl.DataFrame, model: str | None) -> pl.DataFrame:
    """Firth's slopes of one model with each session left out: the sessions that move them most, at most twelve.

    Args:
        loso: ``model_loso`` of one factor set.
        coefficients: table ``coefficients``.
        model: whose.

    Returns:
        ``session`` ("none" first), a column per factor with the reason of a null, ``change`` (the largest, in standard
        errors) and ``n_sessions``.
    """
    mine = coefficients.filter(model=model or "")
    whole = {r["factor"]: r for r in mine.iter_rows(named=True)}
    reason = "it cannot be estimated without this session"
    rows: list[dict[str, Any]] = []
    for (session,), part in (
        loso.filter(model=model or "").partition_by("session", as_dict=True, maintain_order=True).items()
    ):
        row: dict[str, Any] = {"session": str(session), "change": None, "change_reason": reason}
        for r in part.iter_rows(named=True):
            row[r["factor"]] = r["firth"]
            if r["firth"] is not None and whole[r["factor"]]["firth_se"]:
                moved = abs(r["firth"] - whole[r["factor"]]["firth"]) / whole[r["factor"]]["firth_se"]
                row |= {"change": max(row["change"] or 0.0, moved), "change_reason": None}
        rows.append(row)
    n = len(rows)
    shown = sorted(rows, key=lambda r: -(r["change"] or 0.0))[:MOST_SESSIONS]
    rows = [r for r in rows if r in shown]
    if n:
        rows.insert(
            0,
            {"session": "none", "change": None, "change_reason": "nothing is left out"}
            | {f: r["firth"] for f, r in whole.items()},
        )
    for row in rows:
        row |= {f"{f}_reason": r["reason"] if r["firth"] is None else reason for f, r in whole.items()} | {
            "n_sessions": n
        }
    schema = {
        "session": pl.String,
        "change": pl.Float64,
        "change_reason": pl.String,
        "n_sessions": pl.Int64,
    } | dict.fromkeys(FACTORS, pl.Float64)
    return pl.DataFrame(rows, schema=schema | {f"{f}_reason": pl.String for f in FACTORS})


def left_out_columns(factor_set: str) -> dict[str, Col]:
    """How :func:`left_out` is printed."""
    shown = {"session": Col("Session left out", kind="text")} | {
        f: Col(title(f, factor_set), digits=2) for f in FACTORS
    }
    return shown | {"change": Col("Largest change", "standard errors", digits=1)}
