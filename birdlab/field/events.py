"""Which animals a camera saw, when: one row per event and species, from the level at which a deployment was looked through."""

from __future__ import annotations

import polars as pl

from birdlab.readers.camtrap import Camtrap, left_out
from birdlab.readers.files import Notice

NO_END = "no end of the deployment: effort unknown"
NO_EFFORT = "start and end are the same: no effort"
NOT_SEEN_THROUGH = "no observation of this deployment: it may not have been looked through"
OUTSIDE = "all its events lie outside its dates"


def used_deployments(camtrap: Camtrap) -> pl.DataFrame:
    """The deployments, with ``place`` (location, or the deployment where none is told) and why no rate comes from them.

    Returns:
        The deployments, ``place`` and ``reason``: null where effort is known and something was observed.
    """
    seen = camtrap.observations["deployment_id"].unique()
    animals = animal_events(camtrap)[0]
    inside = animals.filter("inside")["deployment_id"].unique()
    outside = animals["deployment_id"].unique()
    where = pl.col("deployment_id")
    reason = (
        pl.when(pl.col("end").is_null())
        .then(pl.lit(NO_END))
        .when(pl.col("effort_days") <= 0)
        .then(pl.lit(NO_EFFORT))
        .when(~where.is_in(seen.implode()))
        .then(pl.lit(NOT_SEEN_THROUGH))
        .when(where.is_in(outside.implode()) & ~where.is_in(inside.implode()))
        .then(pl.lit(OUTSIDE))
    )
    place = pl.coalesce("location_id", "deployment_id")
    return camtrap.deployments.with_columns(place=place, reason=reason)


def animal_events(camtrap: Camtrap, *, individuals: bool = False) -> tuple[pl.DataFrame, list[Notice]]:
    """Events with an animal that has a name.

    A deployment with observations of events is read from them alone, since those of media say the same again; another one
    from its media, put together by event where the media have one.

    Args:
        camtrap: the package.
        individuals: one row per individual, and only animals that have an id.

    Returns:
        deployment_id, species, individual_id (null unless asked for), event, start, end, animals (sum of the counts of an
        event; of media the largest of any medium; null where nobody counted), inside (within the dates of the deployment,
        or these are not known, in whole or in part); and notices.
    """
    observations, notices = camtrap.observations, []
    with_events = observations.filter(pl.col("level") == "event")["deployment_id"].unique()
    of_events = pl.col("deployment_id").is_in(with_events.implode())
    used = observations.filter((pl.col("level") == "event") | ~of_events)
    if again := observations.height - used.height:
        text = "observations of media where events are given: they say the same again, and are not counted"
        notices.append(Notice("media_level", text, again))
    used = _people_first(used, notices)
    if others := left_out(used):
        text = f"observations of no animal: {', '.join(f'{kind} {n}' for kind, n in others)}"
        notices.append(Notice("no_animal", text, sum(n for _, n in others)))
    animals = used.filter((pl.col("type") == "animal") & pl.col("species").is_not_null())
    individual = pl.col("individual_id") if individuals else pl.lit(None, dtype=pl.String).alias("individual_id")
    animals = animals.with_columns(individual, event=pl.coalesce("event_id", "media_id", "observation_id"))
    if individuals:
        animals = animals.filter(pl.col("individual_id").is_not_null())
    events = _together(animals)
    if unknown := events["animals"].null_count():
        notices.append(Notice("no_count", "events whose animals nobody counted", unknown))
    return _placed(events, camtrap.deployments, notices), notices


def _people_first(observations: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    """Without what a machine said of a medium (or an event) that a person labelled too: the same animals, twice."""
    what = pl.coalesce("media_id", "event_id", "observation_id")
    by_person = observations.filter(pl.col("method") == "human").select(what)["media_id"].unique()
    twice = (pl.col("method") == "machine").fill_null(False) & what.is_in(by_person.implode())
    kept = observations.filter(~twice)
    if n := observations.height - kept.height:
        text = "observations by a machine of what a person labelled too: the person's are counted"
        notices.append(Notice("also_by_machine", text, n))
    return kept


def _together(animals: pl.DataFrame) -> pl.DataFrame:
    by = ["deployment_id", "species", "individual_id", "event"]
    count = pl.when(pl.col("count").count() > 0).then(pl.col("count").sum()).alias("animals")
    per_medium = animals.group_by(*by, "media_id", maintain_order=True).agg(
        pl.col("start").min(), pl.col("end").max(), count
    )
    events = per_medium.group_by(by, maintain_order=True).agg(
        pl.col("start").min(), pl.col("end").max(), pl.col("animals").max()
    )
    return events.sort("deployment_id", "species", "individual_id", "start", "end", "event")


def _placed(events: pl.DataFrame, deployments: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    dates = deployments.select("deployment_id", pl.col("start").alias("begun"), pl.col("end").alias("ended"))
    joined = events.join(dates, on="deployment_id", how="left", maintain_order="left")
    early, late = pl.col("end") < pl.col("begun"), pl.col("start") > pl.col("ended")
    out = joined.with_columns(inside=~(early | late).fill_null(False)).drop("begun", "ended")
    if n := out.height - int(out["inside"].sum()):
        where = ", ".join(out.filter(~pl.col("inside"))["deployment_id"].unique().sort().head(5).to_list())
        text = f"events outside the dates of their deployment: left out ({where})"
        notices.append(Notice("outside", text, n))
    issues = deployments.filter("timestamp_issues")["deployment_id"].to_list()
    if issues:
        text = f"deployments whose clock was wrong (timestampIssues): {', '.join(issues[:5])}"
        notices.append(Notice("timestamp_issues", text, len(issues)))
    return out
