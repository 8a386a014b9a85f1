"""The checks in words, in the order they are made: what a reader must know before the coefficients."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.difficulty import checks
from birdlab.difficulty.design import Design

CHECKS_SCHEMA = {
    "model": pl.String,
    "check": pl.String,
    "term": pl.String,
    "value": pl.Float64,
    "is_fine": pl.Boolean,
    "message": pl.String,
}
#: Condition number above which a design is ill-conditioned (Belsley, Kuh and Welsch 1980).
_ILL_CONDITIONED = 30.0
#: Share of a factor's spread within sessions below which its unit (one SD over all birds) misleads.
_BETWEEN = 0.3


def common_checks(design: Design, vif: pl.DataFrame) -> pl.DataFrame:
    """Checks that are about the birds and factors, the same for all models; ``model`` is empty.

    Returns:
        ``check``, ``term`` (factor or session), ``value``, ``is_fine``, ``message``.
    """
    rows = [_dropped(design)]
    rows += [
        ("missing", column, float(n), False, f"{column}: unknown for {n} birds") for column, n in design.missing.items()
    ]
    for name, (status, reason) in design.excluded.items():
        words = {"constant": f"{name}: constant ({reason})", "aliased": f"{name}: {reason}"}
        rows.append((status, name, None, False, f"{words.get(status, f'{name}: {reason}')}; left out of the model"))
    rows.append(_sessions(design))
    for name, alone, beside in vif.iter_rows():
        fine = beside is not None and beside <= checks.TOO_COLLINEAR
        text = f"{name}: variance inflation {_number(beside)} beside the other factors and the sessions, {_number(alone)} without the sessions"
        rows.append(("variance inflation", name, beside, fine, text))
    for name in design.used:
        ratio = design.within_sd[name] / design.sd[name]
        text = f"{name}: one SD over all birds is {1 / ratio:.1f} SDs within a session"
        rows.append(("spread within sessions", name, ratio, ratio >= _BETWEEN, text))
    condition = checks.condition_number(design)
    if condition is not None:
        text = f"condition number {condition:.1f}" + (": ill-conditioned" if condition > _ILL_CONDITIONED else "")
        rows.append(("condition number", "", condition, condition <= _ILL_CONDITIONED, text))
    return _table("", rows)


def model_checks(design: Design, summary: pl.DataFrame, exists: checks.Existence | None) -> pl.DataFrame:
    """Checks of one model's outcomes.

    Args:
        design: the common table.
        summary: the model's row.
        exists: what there is of maximum likelihood; ``None`` where nothing was fitted.
    """
    row = summary.row(0, named=True)
    rows = [_outcome(row)]
    n = dict(zip(design.sessions, np.bincount(design.session).tolist(), strict=True))
    k = dict(zip(design.sessions, np.bincount(design.session, design.outcomes[row["model"]]).tolist(), strict=True))
    for session in row["uninformative_sessions"]:
        what = "all" if k[session] else "none"
        text = f"session {session} carries no information on slopes: {what} of its {n[session]} birds recovered"
        rows.append(("informative sessions", session, float(n[session]), False, text))
    epv = row["events_per_variable"]
    if epv is not None:
        text = f"{epv:.1f} birds of the rarer outcome per parameter"
        rows.append(("events per variable", "", epv, epv >= checks.UNSTABLE_BELOW, text))
    if exists is not None:
        rows += _separation(row, exists)
    if row["reason"]:
        rows.append(("fit", "", None, False, f"not fitted: {row['reason']}"))
    return _table(row["model"], rows)


def _dropped(design: Design) -> tuple[str, str, float | None, bool, str]:
    dropped = design.n_total - design.n
    text = f"{design.n} of {design.n_total} birds used" + (f", {dropped} dropped for missing values" if dropped else "")
    return "birds", "", float(design.n), dropped == 0, text


def _sessions(design: Design) -> tuple[str, str, float | None, bool, str]:
    g = len(design.sessions)
    if g == 1:
        text = "one session: its effect cannot be separated from anything, and nothing can be said about another"
    elif g < 10:
        text = f"{g} sessions: too few to support inference to new sessions"
    else:
        text = f"{g} sessions"
    return "sessions", "", float(g), g >= 10, text


def _outcome(row: dict[str, object]) -> tuple[str, str, float | None, bool, str]:
    missed = int(row["n_misses"])  # type: ignore[call-overload]
    text = f"{missed} of {row['n']} birds missed"
    return "outcome", "", float(missed), 0 < missed < int(row["n"]), text  # type: ignore[call-overload]


def _separation(row: dict[str, object], exists: checks.Existence) -> list[tuple[str, str, float | None, bool, str]]:
    if not exists.infinite and not exists.complete:
        text = "no separation: every estimate of maximum likelihood is finite"
        return [("separation", "", None, True, text)]
    if exists.complete:
        alone = row["separates_alone"] or []
        text = "; ".join(["complete separation: no estimate of maximum likelihood is finite", *alone])  # type: ignore[misc]
        return [("separation", "", None, False, text)]
    n_left = int(exists.rows.sum())
    return [
        (
            "separation",
            term,
            float(direction),
            False,
            f"{term}: the estimate of maximum likelihood is {'+' if direction > 0 else '-'}infinite; "
            f"the other slopes rest on the {n_left} birds that it does not settle",
        )
        for term, direction in exists.infinite.items()
        if term != checks.INTERCEPT
    ]


def _number(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.1f}"


def _table(model: str, rows: list[tuple[str, str, float | None, bool, str]]) -> pl.DataFrame:
    return pl.DataFrame([(model, *row) for row in rows], schema=CHECKS_SCHEMA, orient="row")
