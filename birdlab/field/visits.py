"""Visit rates and co-occurrence by species and deployment, and what a package cannot say of individuals and machines."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from birdlab.readers.camtrap import Camtrap
from birdlab.stats import mean_difference

DAY_S = 86_400.0
VISITS = {
    "species": pl.String, "deployment_id": pl.String, "n": pl.Int64, "animals": pl.Int64, "effort_days": pl.Float64,
    "rate_per_day": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "reason": pl.String,
}  # fmt: skip
PAIRS = {
    "species_a": pl.String, "species_b": pl.String, "deployment_id": pl.String, "n_hours": pl.Int64,
    "hours_a": pl.Int64, "hours_b": pl.Int64, "hours_both": pl.Int64, "share": pl.Float64, "reason": pl.String,
}  # fmt: skip
ALL = ""
NO_EFFORT = "the deployment has no start and end in order"
NO_INDIVIDUAL = "no observation names an individual (individualID)"
NO_PAIR = "no picture was labelled both by a person and by a machine (mediaID, classificationMethod)"


def events_of(camtrap: Camtrap) -> pl.DataFrame:
    """One row per event and species: deployment_id, event_id, species, start, end, animals.

    Animals only. Of an event that has observations of its own (level ``event``) these count; else those of its pictures,
    of which the largest count of one picture is taken.
    """
    seen = camtrap.observations.filter((pl.col("type") == "animal") & pl.col("species").is_not_null())
    seen = seen.with_columns(pl.coalesce("event_id", "media_id", "observation_id").alias("event_id"))
    whole = seen.filter(pl.col("level") == "event").select("deployment_id", "event_id").unique()
    pictures = seen.filter(pl.col("level") != "event").join(whole, on=["deployment_id", "event_id"], how="anti")
    keys = ["deployment_id", "event_id", "species"]
    per_picture = pictures.group_by(*keys, "media_id").agg(
        pl.col("count").fill_null(1).sum(), pl.col("start").min(), pl.col("end").max()
    )
    parts = [
        seen.filter(pl.col("level") == "event").group_by(keys).agg(
            pl.col("count").fill_null(1).sum().alias("animals"), pl.col("start").min(), pl.col("end").max()
        ),
        per_picture.group_by(keys).agg(pl.col("count").max().alias("animals"), pl.col("start").min(), pl.col("end").max()),
    ]  # fmt: skip
    return pl.concat(parts).sort("deployment_id", "start", "species", "event_id")


def visits(camtrap: Camtrap, *, gap_min: float = 0.0) -> pl.DataFrame:
    """Visits per camera day of every species at every deployment, and over all of them.

    Args:
        camtrap: package.
        gap_min: events of one species at one deployment that lie less than this apart are one visit, minutes; 0: every
            event is a visit.

    Returns:
        One row per species and deployment, also where the species was never seen (rate 0), and per species over all
        (deployment empty) with a 95 % interval for new deployments (CR1, t(G-1), cut at 0). Without start and end of a
        deployment the rate is null, with the reason, and the deployment takes no part in the whole.
    """
    events = events_of(camtrap)
    found = {}
    for (species, place), part in events.group_by("species", "deployment_id"):
        counted, last = [], -math.inf
        for start, end, animals in part.sort("start").select("start", "end", "animals").iter_rows():
            at = start.timestamp() if start is not None else math.inf
            if counted and at - last < 60 * gap_min:
                counted[-1] = max(counted[-1], animals)
            else:
                counted.append(animals)
            last = max(last, end.timestamp() if end is not None else at)
        found[species, place] = (len(counted), sum(counted))
    effort = effort_days(camtrap)
    rows = []
    for species in sorted(set(events["species"])):
        mine = [(place, days, *found.get((species, place), (0, 0))) for place, days in effort.items()]
        for place, days, n, animals in mine:
            rate, reason = (n / days, None) if days else (None, NO_EFFORT)
            rows.append((species, place, n, animals, days, rate, None, None, reason))
        used = [m for m in mine if m[1]]
        rows.append(_whole(species, used))
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def _whole(species: str, used: list[tuple[str, float, int, int]]) -> tuple:
    days = sum(m[1] for m in used)
    n, animals = sum(m[2] for m in used), sum(m[3] for m in used)
    if not days:
        return (species, ALL, n, animals, None, None, None, None, NO_EFFORT)
    ends = mean_difference([m[2] for m in used], [m[1] for m in used], unit="deployment")
    lo = None if ends.lo is None else max(0.0, ends.lo)
    return (species, ALL, n, animals, days, n / days, lo, ends.hi, ends.reason)


def effort_days(camtrap: Camtrap) -> dict[str, float | None]:
    """Length of every deployment in days; None where it has no start and end in order."""
    out: dict[str, float | None] = {}
    for ident, start, end in camtrap.deployments.select("deployment_id", "start", "end").iter_rows():
        length = (end - start).total_seconds() / DAY_S if start is not None and end is not None else 0.0
        out[ident] = length if length > 0 else None
    return out


def co_occurrence(camtrap: Camtrap, *, window_h: float = 1.0) -> pl.DataFrame:
    """Share of hours of effort in which two species were both seen, per deployment and over all.

    Args:
        camtrap: package.
        window_h: length of the windows that effort is cut into from the start of each deployment, hours.

    Returns:
        One row per pair of species (alphabetical) and deployment where either was seen, and per pair over all: hours with
        each and with both, and share = hours with both / hours of effort. Null without effort.
    """
    events = events_of(camtrap)
    starts = dict(camtrap.deployments.select("deployment_id", "start").iter_rows())
    effort = effort_days(camtrap)
    hours: dict[str, dict[str, set[int]]] = {}
    for place, species, start, end in events.select("deployment_id", "species", "start", "end").iter_rows():
        if effort.get(place) and start is not None:
            a = (start - starts[place]).total_seconds() / 3600 // window_h
            b = ((end or start) - starts[place]).total_seconds() / 3600 // window_h
            hours.setdefault(place, {}).setdefault(species, set()).update(range(int(a), int(b) + 1))
    names = sorted(set(events["species"]))
    rows = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            total = [0, 0, 0, 0]
            for place, days in effort.items():
                if not days:
                    continue
                seen = [hours.get(place, {}).get(s, set()) for s in (a, b)]
                counts = [math.ceil(days * 24 / window_h), len(seen[0]), len(seen[1]), len(seen[0] & seen[1])]
                total = [x + y for x, y in zip(total, counts, strict=True)]
                if seen[0] or seen[1]:
                    rows.append((a, b, place, *counts, counts[3] / counts[0], None))
            share = total[3] / total[0] if total[0] else None
            rows.append((a, b, ALL, *total, share, None if total[0] else NO_EFFORT))
    return pl.DataFrame(rows, schema=PAIRS, orient="row")


def individual_rates(camtrap: Camtrap) -> dict[str, Any]:
    """Visits per camera day of named individuals, or why there are none.

    Returns:
        computed, reason, n_observations, and ``rates``: individual → visits per day over all deployments with effort.
    """
    seen = camtrap.observations.filter(pl.col("type") == "animal")
    named = seen.drop_nulls("individual_id")
    out: dict[str, Any] = {"computed": named.height > 0, "n_observations": seen.height, "n_named": named.height}
    if not named.height:
        return out | {"reason": f"{NO_INDIVIDUAL}: 0 of {seen.height:,} observations of animals do", "rates": {}}
    days = sum(d for d in effort_days(camtrap).values() if d)
    event = pl.coalesce("event_id", "media_id", "observation_id")
    counts = named.select("individual_id", event).unique().group_by("individual_id").len().sort("individual_id")
    rates = {bird: n / days if days else None for bird, n in counts.iter_rows()}
    return out | {"reason": None if days else NO_EFFORT, "rates": rates}


def machine_agreement(camtrap: Camtrap) -> dict[str, Any]:
    """Agreement of people and machines on pictures that both labelled, or why there is none.

    Returns:
        computed, reason, n_both (pictures), n_human, n_machine, agreement (same species), kappa (Cohen's; null for
        constants).
    """
    labelled = camtrap.observations.filter(pl.col("media_id").is_not_null())
    what = pl.coalesce("species", "type").alias("label")
    by = labelled.group_by("media_id", "method").agg(what.sort().str.join(" + "))
    both = by.filter(pl.col("method") == "human").join(by.filter(pl.col("method") == "machine"), on="media_id")
    counts = {m: labelled.filter(pl.col("method") == m)["media_id"].n_unique() for m in ("human", "machine")}
    out: dict[str, Any] = {"n_both": both.height, "n_human": counts["human"], "n_machine": counts["machine"]}
    out |= {"computed": both.height > 0, "agreement": None, "kappa": None}
    if not both.height:
        told = f"{NO_PAIR}: {counts['human']:,} by people, {counts['machine']:,} by machines, 0 by both"
        return out | {"reason": told}
    same = float((both["label"] == both["label_right"]).mean())
    shares = [dict(both[c].value_counts(normalize=True).iter_rows()) for c in ("label", "label_right")]
    chance = sum(share * shares[1].get(label, 0.0) for label, share in shares[0].items())
    kappa = (same - chance) / (1 - chance) if chance < 1 else None
    return out | {"agreement": same, "kappa": kappa, "reason": None if kappa is not None else "both are constant"}
