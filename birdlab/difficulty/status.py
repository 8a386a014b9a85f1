"""What a coefficient is worth: one status per row, with its reasons, and which one may stand out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

from birdlab.difficulty.checks import TOO_COLLINEAR, UNSTABLE_BELOW, Existence

#: A slope that moves by more than this share of itself when a session is left out is unstable.
_MOVES = 0.5


def verdict(
    row: Mapping[str, object], exists: Existence, *, loso: Mapping[str, float], epv: float | None
) -> tuple[str, str | None]:
    """Status of one fitted coefficient and why.

    Args:
        row: ``factor``, ``firth``, ``firth_se``, ``vif``.
        exists: whether the maximum-likelihood estimate exists.
        loso: penalised slope without each session; NaN where there is none.
        epv: events per variable of the model.

    Returns:
        ``infinite_pos`` or ``infinite_neg`` where the plain estimate is infinite (with complete separation the sign is
        that of the penalised estimate); ``unstable`` with fewer than 5 events per variable, a variance inflation above
        10, or a slope that changes sign or by more than half when a session is left out, where the change is more than
        a standard error (a slope that is 0 for all we know has no sign to lose); else ``ok``.
    """
    factor, firth, se = str(row["factor"]), float(row["firth"]), float(row["firth_se"])  # type: ignore[arg-type]
    if exists.complete:
        sign = "infinite_neg" if firth < 0 else "infinite_pos"
        return sign, "complete separation: all estimates of maximum likelihood are infinite"
    if factor in exists.infinite:
        positive = exists.infinite[factor] > 0
        why = f"separated: the likelihood keeps rising towards {'+' if positive else '-'}infinity"
        return "infinite_pos" if positive else "infinite_neg", why
    reasons = []
    if epv is not None and epv < UNSTABLE_BELOW:
        reasons.append(f"{epv:.1f} events per variable, fewer than {UNSTABLE_BELOW:g}")
    vif = row.get("vif")
    if isinstance(vif, float) and vif > TOO_COLLINEAR:
        reasons.append(f"variance inflation {vif:.0f}, above {TOO_COLLINEAR:g}")
    for session, value in loso.items():
        change = abs(value - firth)
        if math.isfinite(value) and change > max(_MOVES * abs(firth), se):
            what = "changes sign" if value * firth < 0 else "changes"
            reasons.append(f"{what} without session {session}: {value:.2f} instead of {firth:.2f}")
    return ("unstable", "; ".join(reasons)) if reasons else ("ok", None)


def mark_bold(coefficients: pl.DataFrame) -> pl.DataFrame:
    """Column ``is_bold``: the most negative slope of each model, if that can be said.

    Only among coefficients with status ``ok``, and only where the interval excludes 0 and the next most negative one.
    """
    marked = []
    for _, rows in coefficients.group_by("model", maintain_order=True):
        fine = rows.filter((pl.col("status") == "ok") & pl.col("firth_hi").is_not_null()).sort("firth")
        bold = None
        if fine.height:
            limit = min([0.0, *fine["firth"][1:2].to_list()])
            bold = fine["factor"][0] if fine["firth_hi"][0] < limit else None
        chosen = pl.lit(False) if bold is None else pl.col("factor") == bold
        marked.append(rows.with_columns(chosen.alias("is_bold")))
    return pl.concat(marked) if marked else coefficients
