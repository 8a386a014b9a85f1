"""How often a species comes to a camera: visits per camera day, by deployment and over all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.field.events import animal_events, used_deployments
from birdlab.readers.camtrap import Camtrap
from birdlab.stats import CONFIDENCE, cluster_variance

VISITS = {
    "species": pl.String,
    "individual_id": pl.String,  # null but for rates of individuals
    "deployment_id": pl.String,  # null: all deployments together
    "n": pl.Int64,  # visits; null where nobody may have looked
    "animals": pl.Int64,  # sum over visits of the largest group seen at once; null where nobody counted
    "effort_days": pl.Float64,  # days of 24 h
    "rate_per_day": pl.Float64,
    "lo": pl.Float64,  # 95 % for other locations
    "hi": pl.Float64,
    "n_clusters": pl.Int64,  # locations
    "reason": pl.String,  # why a rate or its interval is undefined
}
ONE_DEPLOYMENT = "one deployment: nothing can be said about another"
#: An interval wider than this many times the rate, either way, says nothing and is left out.
WIDEST = 100
#: A week, min.
LONGEST_GAP = 7 * 24 * 60


def merge_visits(events: pl.DataFrame, *, gap_min: float = 0.0) -> pl.DataFrame:
    """Events of one species (or individual) at one deployment that follow one another closely, as one visit.

    Args:
        events: from :func:`birdlab.field.events.animal_events`.
        gap_min: an event that begins less than this after the latest end so far belongs to the visit, min; 0 leaves the
            events as they are.

    Returns:
        deployment_id, species, individual_id, start, end, n_events, animals (the most in one event).
    """
    by = ["deployment_id", "species", "individual_id"]
    ordered = events.sort(*by, "start", "end", maintain_order=True)
    until = pl.col("end").cum_max().shift(1).over(by)
    gap = (pl.col("start") - until).dt.total_microseconds() / 60e6
    new = (gap >= gap_min).fill_null(True) | pl.lit(gap_min == 0)
    visit = new.cast(pl.Int64).cum_sum().over(by).alias("visit")
    grouped = ordered.with_columns(visit).group_by(*by, "visit", maintain_order=True)
    found = grouped.agg(
        pl.col("start").min(), pl.col("end").max(), pl.len().cast(pl.Int64).alias("n_events"), pl.col("animals").max()
    )
    return found.drop("visit")


def visits(camtrap: Camtrap, *, gap_min: float = 0.0, individuals: bool = False) -> pl.DataFrame:
    """Visits per camera day, by species and deployment.

    Args:
        camtrap: the package.
        gap_min: see :func:`merge_visits`, min, from 0 to a week.
        individuals: by individual in place of species; only animals with an id count.

    Returns:
        Columns of ``VISITS``: per species first all deployments (``deployment_id`` null) with an interval for other
        locations, then each deployment, with zero where the species was not seen. A rate is null with its reason where
        effort is not known or nobody may have looked; such a deployment is not among all of them. No row where no animal
        was seen.

    Raises:
        ParameterError: a gap that is negative or longer than a week.
    """
    if not 0 <= gap_min <= LONGEST_GAP:
        expected = f"minutes from 0 to {LONGEST_GAP} (a week)"
        raise ParameterError(Problem("bad_value", f"{gap_min:g}", expected, key="gap"))
    events, _ = animal_events(camtrap, individuals=individuals)
    found = merge_visits(events.filter("inside"), gap_min=gap_min)
    by = ["species", "individual_id"]
    counted = found.group_by(*by, "deployment_id").agg(
        pl.len().cast(pl.Int64).alias("n"),
        pl.when(pl.col("animals").count() > 0).then(pl.col("animals").sum()).alias("animals"),
    )
    # A species whose events all lie outside the dates keeps its rows: they are no zeros of nothing.
    grid = events.select(by).unique().sort(by).join(used_deployments(camtrap), how="cross")
    each = grid.join(counted, on=[*by, "deployment_id"], how="left", nulls_equal=True, maintain_order="left")
    known = pl.col("reason").is_null()
    looked = known | pl.col("n").is_not_null()
    each = each.with_columns(
        n=pl.when(looked).then(pl.col("n").fill_null(0)),
        animals=pl.when(pl.col("n").is_null() & looked).then(0).otherwise(pl.col("animals")),
    )
    each = each.with_columns(rate_per_day=pl.when(known).then(pl.col("n") / pl.col("effort_days")))
    rows = []
    for (species, individual), group in each.group_by(by, maintain_order=True):
        rows.append({"species": species, "individual_id": individual, **_pooled(group.filter(known))})
        for row in group.sort("deployment_id").iter_rows(named=True):
            rows.append({k: row.get(k) for k in VISITS} | {"reason": row["reason"] or ONE_DEPLOYMENT})
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def _pooled(group: pl.DataFrame) -> dict[str, Any]:
    """One row over the deployments whose effort is known."""
    places = group.group_by("place", maintain_order=True).agg(pl.col("n").sum(), pl.col("effort_days").sum())
    n, days = int(group["n"].sum()), float(group["effort_days"].sum())
    lo, hi, reason = rate_interval(places["n"], places["effort_days"])
    counted = group["animals"].drop_nulls()
    return {
        "deployment_id": None,
        "n": n,
        "animals": int(counted.sum()) if len(counted) else None,
        "effort_days": days,
        "rate_per_day": n / days if days > 0 else None,
        "lo": lo,
        "hi": hi,
        "n_clusters": places.height,
        "reason": reason,
    }


def rate_interval(
    n: npt.ArrayLike, days: npt.ArrayLike, *, unit: str = "location", confidence: float = CONFIDENCE
) -> tuple[float | None, float | None, str | None]:
    """Interval of a rate Σn / Σdays for places not visited yet: r · exp(± t(G-1) √v / r), above 0.

    Args:
        n: events per place, (G,).
        days: effort per place, (G,), above 0.
        unit: what a place is.
        confidence: coverage, in (0, 1).

    Returns:
        lo, hi, reason: no ends for fewer than two places, a rate of 0, rates that do not differ, or an interval that
        reaches further than a hundredth and a hundred times the rate.

    The variance v is that of :func:`birdlab.stats.cluster_variance` (CR1), carried to the logarithm by the delta method:
    a rate has no upper end, and its interval must not pass 0.

    >>> lo, hi, _ = rate_interval([4, 6, 5], [10, 10, 10])
    >>> round(lo, 3), round(hi, 3)
    (0.304, 0.822)
    """
    from scipy.special import stdtrit

    k, effort = np.asarray(n, dtype=np.float64), np.asarray(days, dtype=np.float64)
    if len(k) < 2:
        return None, None, f"one {unit}: nothing can be said about another" if len(k) else "effort nowhere known"
    if not k.sum():
        return None, None, "never seen where effort is known"
    v = cluster_variance(k, effort)
    if not v:
        return None, None, f"the rate is the same at every {unit}"
    rate = float(k.sum() / effort.sum())
    half = float(stdtrit(len(k) - 1, 0.5 + confidence / 2)) * math.sqrt(v) / rate
    if half > math.log(WIDEST):
        return None, None, f"{len(k)} {unit}s that differ too much to say anything about another"
    return rate * math.exp(-half), rate * math.exp(half), None
