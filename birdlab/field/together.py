"""Which species are at a camera in the same hour, or in the same event."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations
from typing import Any, Literal

import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.field.events import animal_events, used_deployments
from birdlab.readers.camtrap import Camtrap
from birdlab.stats import new_sessions

CO_OCCURRENCE = {
    "species_a": pl.String,
    "species_b": pl.String,
    "deployment_id": pl.String,  # null: all deployments together
    "share": pl.Float64,  # of the windows in which both occur
    "lo": pl.Float64,  # 95 % for other locations
    "hi": pl.Float64,
    "expected": pl.Float64,  # the share if the two came independently of one another at each deployment
    "n": pl.Int64,  # windows
    "n_a": pl.Int64,  # windows with the first
    "n_b": pl.Int64,
    "n_both": pl.Int64,
    "n_clusters": pl.Int64,  # locations
    "reason": pl.String,
}
Unit = Literal["hours", "events"]
ONE_DEPLOYMENT = "one deployment: nothing can be said about another"


def co_occurrence(camtrap: Camtrap, *, unit: Unit = "hours", hours: float = 1.0) -> pl.DataFrame:
    """Share of the windows in which two species both occur.

    Args:
        camtrap: the package.
        unit: ``hours``: windows of effort from the start of each deployment, the last one cut at its end; an event occurs
            in every window that it touches. ``events``: the events of the package that hold an animal.
        hours: length of a window, h, above 0 and at most a week.

    Returns:
        Columns of ``CO_OCCURRENCE``: for each pair that was seen at one deployment at least, all deployments together with
        an interval for other locations, then each deployment that saw both; at the others the share is 0. Deployments
        whose effort is not known or that nobody may have looked through are left out.

    Raises:
        ParameterError: another unit or length of a window.
    """
    if unit not in ("hours", "events"):
        raise ParameterError(Problem("bad_value", unit, "hours or events", key="unit"))
    if not 0 < hours <= 168:
        raise ParameterError(Problem("bad_value", f"{hours:g}", "hours above 0, at most 168", key="hours"))
    events = animal_events(camtrap)[0].filter("inside")
    used = used_deployments(camtrap).filter(pl.col("reason").is_null())
    n = {}
    seen: dict[str, dict[str, set]] = {}
    for row in used.sort("deployment_id").iter_rows(named=True):
        name = row["deployment_id"]
        mine = events.filter(pl.col("deployment_id") == name)
        if unit == "hours":
            n[name] = max(1, math.ceil(24 * row["effort_days"] / hours - 1e-9))
            seen[name] = _in_windows(mine, row["start"], n[name], hours)
        else:
            n[name] = mine["event"].n_unique()
            grouped = mine.group_by("species").agg("event").iter_rows()
            seen[name] = {species: set(held) for species, held in grouped}
    places = dict(used.select("deployment_id", "place").iter_rows())
    pairs = sorted({pair for held in seen.values() for pair in combinations(sorted(held), 2)})
    rows = [row for pair in pairs for row in _pair(pair, seen, n, places)]
    return pl.DataFrame(rows, schema=CO_OCCURRENCE, orient="row")


def _in_windows(events: pl.DataFrame, begun: Any, n: int, hours: float) -> dict[str, set]:
    out: dict[str, set] = defaultdict(set)
    for species, start, end in events.select("species", "start", "end").iter_rows():
        first, last = (min(n - 1, max(0, int((t - begun).total_seconds() // (3600 * hours)))) for t in (start, end))
        out[species].update(range(first, last + 1))
    return dict(out)


def _pair(
    pair: tuple[str, str], seen: dict[str, dict[str, set]], n: dict[str, int], places: dict[str, str]
) -> list[dict[str, Any]]:
    """The pair over all deployments, then at those that saw both."""
    each = []
    for name, held in seen.items():
        a, b = (held.get(species, set()) for species in pair)
        each.append({"name": name, "n": n[name], "n_a": len(a), "n_b": len(b), "n_both": len(a & b)})
    by_place: dict[str, list[int]] = {}
    for row in each:
        total = by_place.setdefault(places[row["name"]], [0, 0])
        total[0] += row["n_both"]
        total[1] += row["n"]
    ends = new_sessions([k for k, _ in by_place.values()], [m for _, m in by_place.values()], unit="location")
    pooled = {key: sum(row[key] for row in each) for key in ("n", "n_a", "n_b", "n_both")}
    chance = sum(row["n_a"] * row["n_b"] / row["n"] for row in each if row["n"])
    about = {"species_a": pair[0], "species_b": pair[1]}
    interval = {"lo": ends.lo, "hi": ends.hi, "n_clusters": ends.n_clusters, "reason": ends.reason}
    shares = {"share": pooled["n_both"] / pooled["n"], "expected": chance / pooled["n"]}
    rows = [{**about, "deployment_id": None, **shares, **interval, **pooled}]
    for row in each:
        if row["n_a"] and row["n_b"]:
            m, name = row["n"], row.pop("name")
            shares = {"share": row["n_both"] / m, "expected": row["n_a"] * row["n_b"] / m**2}
            none = {"lo": None, "hi": None, "n_clusters": None, "reason": ONE_DEPLOYMENT}
            rows.append({**about, "deployment_id": name, **shares, **none, **row})
    return rows
