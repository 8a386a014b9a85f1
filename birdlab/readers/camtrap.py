"""Camera trap data packages (Camtrap DP 1.0): deployments, media and observations, checked against one another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from birdlab.errors import BirdlabError, DataError, Problem
from birdlab.jsonfile import read_json
from birdlab.readers.camtrap_rows import Table, times
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, at_most, notice_table

LEVELS = ("media", "event")
TYPES = ("animal", "human", "vehicle", "blank", "unknown", "unclassified")
METHODS = ("human", "machine")
_TIME = pl.Datetime("us", "UTC")
DEPLOYMENTS = {
    "deployment_id": pl.String,
    "location_id": pl.String,  # null where not told
    "start": _TIME,
    "end": _TIME,  # null: effort unknown
    "effort_days": pl.Float64,  # (end - start) in days of 24 h; null where an end is missing
    "timestamp_issues": pl.Boolean,
    "line": pl.Int64,
}
MEDIA = {
    "media_id": pl.String,
    "deployment_id": pl.String,
    "taken": _TIME,
    "capture_method": pl.String,
    "line": pl.Int64,
}
OBSERVATIONS = {
    "observation_id": pl.String,
    "deployment_id": pl.String,
    "media_id": pl.String,  # null at the level of events
    "event_id": pl.String,
    "start": _TIME,
    "end": _TIME,
    "level": pl.String,
    "type": pl.String,
    "species": pl.String,
    "count": pl.Int64,
    "individual_id": pl.String,
    "method": pl.String,  # human, machine, or null
    "line": pl.Int64,
}
_REQUIRED = {
    "deployments": ("deploymentID", "deploymentStart"),
    "media": ("mediaID", "deploymentID"),
    "observations": ("observationID", "deploymentID", "eventStart", "observationLevel", "observationType"),
}
_OPTIONAL = {
    "deployments": ("deploymentEnd", "locationID", "timestampIssues"),
    "media": ("timestamp", "captureMethod"),
    "observations": tuple("mediaID eventID eventEnd scientificName count individualID classificationMethod".split()),
}


@dataclass(frozen=True)
class Camtrap:
    """A package: its name, ``deployments``, ``media``, ``observations`` (columns above), what was remarked."""

    name: str
    deployments: pl.DataFrame
    media: pl.DataFrame
    observations: pl.DataFrame
    notices: pl.DataFrame


def read_camtrap(path: Path) -> Camtrap:
    """A Camtrap DP, read and checked.

    Args:
        path: datapackage.json, or the folder that holds it. Tables are read from beside it, never from the web.

    Returns:
        Times in UTC; a time without a zone is taken as UTC and counted. Other tables of the package are not read.

    Raises:
        DataError: no package of Camtrap DP 1.x; a table, a column or a cell missing or not what it should be; an id twice;
            an end before its start; an observation or a medium of a deployment, an observation of a medium, that is not
            there. Everything with file, line and id.
    """
    path = path / "datapackage.json" if path.is_dir() else path
    package = read_json(path)
    files = _resources(package, path)
    notices: list[Notice] = []
    tables, problems = {}, []
    for name in _REQUIRED:
        try:
            wanted, may = (dict.fromkeys(columns[name], pl.String) for columns in (_REQUIRED, _OPTIONAL))
            frame = read_columns(files[name], wanted, optional=may)
            lost = [pl.lit(None, dtype=pl.String).alias(column) for column in may if column not in frame.columns]
            empty = [pl.when(pl.col(c).str.len_bytes() > 0).then(pl.col(c)).alias(c) for c in may if c in frame.columns]
            tables[name] = Table(files[name], next(iter(wanted)), frame.with_columns(*lost, *empty), problems, notices)
        except BirdlabError as error:
            problems += error.problems
    if not problems:
        out = [_deployments(tables["deployments"]), _media(tables["media"]), _observations(tables["observations"])]
        _ids(tables)
        if not problems:
            _remark(out[2], notices, files["observations"])
            return Camtrap(str(package.get("name") or path.parent.name), *out, notice_table(notices))
    raise DataError(at_most(problems))


def _resources(package: Any, path: Path) -> dict[str, Path]:
    """Where the three tables lie."""
    source = str(path)
    if not isinstance(package, Mapping) or not isinstance(package.get("resources"), list):
        raise DataError(Problem("not_a_package", "no list resources", "a data package", file=source, key="resources"))
    profile = package.get("profile") or package.get("$schema") or ""
    version = re.search(r"camtrap-dp/v?(\d+)\.", str(profile))
    # A profile of another kind, or none, says nothing of the tables; an old version is known to have others.
    if version and version[1] == "0":
        found, remedy = str(profile)[-80:], "bring the package to version 1.0"
        raise DataError(Problem("old_version", found, "Camtrap DP 1.x", remedy, file=source, key="profile"))
    named = {
        r.get("name"): r for r in package["resources"] if isinstance(r, Mapping) and isinstance(r.get("name"), str)
    }
    out, problems = {}, []
    for name in _REQUIRED:
        where = named.get(name, {}).get("path")
        where = where[0] if isinstance(where, list) and len(where) == 1 else where
        if not isinstance(where, str):
            found = f"resources {', '.join(sorted(named)) or 'of no name'}" if name not in named else "no path"
            problems.append(Problem("no_table", found, f"{name} with the path of a file", file=source, record=name))
        elif (
            "://" in where or PurePosixPath(where).is_absolute() or ".." in PurePosixPath(where).parts or "\\" in where
        ):
            remedy = "put the table beside the package"
            problems.append(
                Problem("bad_path", repr(where)[:80], "a path below the package", remedy, source, record=name)
            )
        else:
            out[name] = path.parent / where
    if problems:
        raise DataError(problems)
    return out


def _deployments(table: Table) -> pl.DataFrame:
    table.unique()
    frame = table.frame.with_columns(
        times(table, "deploymentStart", needed=True).alias("start"), times(table, "deploymentEnd").alias("end")
    )
    table.ordered(frame, "deploymentEnd")
    issues = table.choice("timestampIssues", ("true", "false", "1", "0"))
    days = (pl.col("end") - pl.col("start")).dt.total_microseconds() / 86_400e6
    frame = frame.with_columns(effort_days=days, timestamp_issues=issues.is_in(["true", "1"]).fill_null(False))
    return frame.select(
        *(pl.col(a).alias(b) for a, b in (("deploymentID", "deployment_id"), ("locationID", "location_id"))),
        *("start", "end", "effort_days", "timestamp_issues", "line"),
    ).cast(DEPLOYMENTS)


def _media(table: Table) -> pl.DataFrame:
    table.unique()
    names = {"mediaID": "media_id", "deploymentID": "deployment_id", "captureMethod": "capture_method"}
    frame = table.frame.with_columns(times(table, "timestamp").alias("taken")).rename(names)
    return frame.select(list(MEDIA)).cast(MEDIA)


def _observations(table: Table) -> pl.DataFrame:
    table.unique()
    frame = table.frame.with_columns(
        times(table, "eventStart", needed=True).alias("start"),
        times(table, "eventEnd").alias("end"),
        table.choice("observationLevel", LEVELS).alias("level"),
        table.choice("observationType", TYPES).alias("type"),
        table.choice("classificationMethod", METHODS).alias("method"),
        table.whole("count").alias("count"),
    )
    table.ordered(frame, "eventEnd")
    names = {"observationID": "observation_id", "deploymentID": "deployment_id", "mediaID": "media_id"}
    names |= {"eventID": "event_id", "scientificName": "species", "individualID": "individual_id"}
    species = pl.col("scientificName").str.replace_all(r"\s+", " ")
    # An event without an end is as long as one picture.
    frame = frame.with_columns(species, end=pl.col("end").fill_null(pl.col("start"))).rename(names)
    return frame.select(list(OBSERVATIONS)).cast(OBSERVATIONS)


def _ids(tables: Mapping[str, Table]) -> None:
    """Deployments and media that are pointed at must be there."""
    observations, media = tables["observations"], tables["media"]
    deployments = tables["deployments"].frame["deploymentID"]
    for table in (media, observations):
        table.known("deploymentID", deployments, "a deployment of deployments.csv")
    observations.known("mediaID", media.frame["mediaID"], "a medium of media.csv")
    lone = observations.frame.filter(
        (pl.col("observationLevel").str.to_lowercase() == "media") & pl.col("mediaID").is_null()
    )
    observations.wrong(lone, "no_medium", "mediaID", "the medium of an observation of a medium")


def _remark(observations: pl.DataFrame, notices: list[Notice], path: Path) -> None:
    animals = observations.filter(pl.col("type") == "animal")
    nameless = animals.filter(pl.col("species").is_null()).height
    broad = animals.filter(~pl.col("species").str.contains(" ", literal=True))["species"].unique().sort().to_list()
    for n, code, text in (
        (nameless, "no_species", "animals without a scientific name: in no rate"),
        (len(broad), "not_a_species", f"names of groups, kept beside those of species: {', '.join(broad[:8])}"),
    ):
        if n:
            notices.append(Notice(code, text, n, str(path)))


def left_out(observations: pl.DataFrame) -> Sequence[tuple[str, int]]:
    """How many observations are of no animal, by type.

    >>> left_out(pl.DataFrame({"type": ["animal", "blank", "human", "blank"]}))
    [('blank', 2), ('human', 1)]
    """
    counts = (
        observations.filter(pl.col("type") != "animal")
        .group_by("type")
        .len()
        .sort("len", "type", descending=[True, False])
    )
    return list(counts.iter_rows())
