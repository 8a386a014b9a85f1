"""A wrong name is worse than none: how often a name is wrong, when only the surest queries are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.individuals.reid.measures import Number, expected_top_k, floats, number_rows, row_jackknife
from birdlab.stats import NEW, Interval

By = Literal["score", "margin"]
NO_SCORE = "the method gives no similarity, and says of no answer how sure it is"


@dataclass(frozen=True)
class RiskCurve:
    """Share of wrong names among the answered, by coverage.

    Args:
        points: threshold, coverage (share of all queries that are named), n_answered, risk (share of wrong names among
            them); one row per distinct threshold, the surest first.
        aurc: mean of the risk over k = 1 … n of the k surest queries, in [0, 1]; 0 is perfect; its chance is the risk of
            naming everything in random order.
        at_risk: risk -> largest coverage with at most that risk (0 where none has it).
        n, n_unanswered: queries, and those among them that get no name at any threshold: they are last, and wrong.
    """

    points: pl.DataFrame
    aurc: Number
    at_risk: dict[float, float]
    n: int
    n_unanswered: int


POINTS = {"threshold": pl.Float64, "coverage": pl.Float64, "n_answered": pl.Int64, "risk": pl.Float64}


def identity_risk(outcomes: pl.DataFrame, by: By = "score", risks: tuple[float, ...] = (0.01, 0.05, 0.1)) -> RiskCurve:
    """Risk against coverage of the names of one method, protocol and gallery.

    Queries of equal score are named together. A name for a bird that is not in the gallery is wrong. A tie for the first
    place is wrong by the share of the others: one of them would have to be named.

    Args:
        outcomes: table ``reid_outcomes``; all queries count, also those of unknown birds.
        by: what tells how sure a name is: ``score`` of the first, or ``margin`` to the second.
        risks: for ``at_risk``.

    Geifman and El-Yaniv (2017).
    """
    rows = outcomes.filter(pl.col("role") == "query")
    sure = floats(rows, by)
    sure = np.where(np.isnan(sure), -np.inf, sure)
    right = expected_top_k(floats(rows, "n_above"), floats(rows, "n_tied"), 1)
    right = np.where(rows["is_known"].to_numpy() | (rows["split"].cast(pl.String) != "open").to_numpy(), right, 0.0)
    named = np.isfinite(sure)
    why = None if named.any() else (NO_SCORE if rows.height else "no query")
    points = _points(sure[named], right[named], rows.height)
    at_risk = {}
    for risk in risks:
        fine = points.filter(pl.col("risk") <= risk + 1e-12)
        at_risk[risk] = float(fine["coverage"].max()) if fine.height else 0.0  # type: ignore[arg-type]
    return RiskCurve(points, _aurc_number(rows, sure, right, why), at_risk, rows.height, int((~named).sum()))


def aurc(sure: npt.ArrayLike, right: npt.ArrayLike) -> float | None:
    """Mean risk of the k surest, k = 1 … n, in [0, 1]; equal ones in random order; None for no query.

    >>> aurc([0.9, 0.1], [True, False]), aurc([0.5, 0.5], [True, False])
    (0.25, 0.5)
    """
    sure, right = np.asarray(sure, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if not len(sure):
        return None
    ends, total = _groups(sure, right)
    size = np.diff(ends, prepend=0)
    # Inside a group the expected number of right ones grows evenly.
    share = np.repeat(np.diff(total, prepend=0.0) / size, size)
    return float(np.mean(1 - np.cumsum(share) / np.arange(1, len(sure) + 1)))


def risk_rows(outcomes: pl.DataFrame, by: By = "score") -> list[dict[str, Any]]:
    """Rows of ``metrics``: AURC of every method, protocol (``group``) and gallery (``level``)."""
    rows = []
    for (model, split, gallery), part in outcomes.group_by(["model", "split", "gallery"], maintain_order=True):
        at = {"model": str(model), "group": str(split), "level": str(gallery)}
        rows += number_rows("aurc", f"names by {by}", identity_risk(part, by).aurc, at)
    return rows


def _groups(
    sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """How many are at least as sure as each distinct value, the surest first, and how many of them are right."""
    order = np.argsort(-sure, kind="stable")
    sure, right = sure[order], right[order]
    last = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
    return last + 1, np.cumsum(right)[last]


def _points(sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64], n: int) -> pl.DataFrame:
    if not len(sure):
        return pl.DataFrame(schema=POINTS)
    ends, total = _groups(sure, right)
    threshold = np.sort(sure)[::-1][ends - 1]
    values = {"threshold": threshold, "coverage": ends / n, "n_answered": ends, "risk": 1 - total / ends}
    return pl.DataFrame(values, schema=POINTS)


def _aurc_number(
    rows: pl.DataFrame, sure: npt.NDArray[np.float64], right: npt.NDArray[np.float64], why: str | None
) -> Number:
    if why is not None:
        none = Interval(None, None, NEW, 0, why)
        return Number(None, None, rows.height, none, none, why)
    ends = [row_jackknife(rows, unit, lambda keep: aurc(sure[keep], right[keep])) for unit in ("individual", "video")]
    return Number(aurc(sure, right), float(1 - right.mean()), rows.height, ends[0], ends[1])
