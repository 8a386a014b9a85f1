"""Small camera trap data packages, written row by row."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

DEPLOYMENT = {
    "deploymentID": "d1",
    "locationID": "",
    "latitude": "51.0",
    "longitude": "4.0",
    "deploymentStart": "2020-05-01T00:00:00Z",
    "deploymentEnd": "2020-05-11T00:00:00Z",
    "timestampIssues": "false",
}
MEDIUM = {
    "mediaID": "m1",
    "deploymentID": "d1",
    "captureMethod": "activityDetection",
    "timestamp": "2020-05-02T06:00:00Z",
}
OBSERVATION = {
    "observationID": "",
    "deploymentID": "d1",
    "mediaID": "",
    "eventID": "e1",
    "eventStart": "2020-05-02T06:00:00Z",
    "eventEnd": "2020-05-02T06:00:30Z",
    "observationLevel": "event",
    "observationType": "animal",
    "scientificName": "Pica pica",
    "count": "1",
    "individualID": "",
    "classificationMethod": "human",
    "observationComments": "",
}


def package(
    folder: Path,
    deployments: list[dict[str, Any]],
    observations: list[dict[str, Any]],
    media: list[dict[str, Any]] = (),
    **descriptor: Any,
) -> Path:
    """Write a package; every row is filled up from the ones above, observations are numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "deployments": [DEPLOYMENT | row for row in deployments],
        "media": [MEDIUM | row for row in media],
        "observations": [OBSERVATION | {"observationID": f"o{i}"} | row for i, row in enumerate(observations)],
    }
    heads = {"deployments": DEPLOYMENT, "media": MEDIUM, "observations": OBSERVATION}
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, list(heads[name]))
            writer.writeheader()
            writer.writerows(rows)
    resources = [{"name": name, "path": f"{name}.csv"} for name in tables]
    said = {
        "name": "made",
        "profile": "https://example.org/camtrap-dp/1.0.1/camtrap-dp-profile.json",
        "resources": resources,
    }
    (folder / "datapackage.json").write_text(json.dumps(said | descriptor))
    return folder


def on_day(day: int, clock: str = "06:00:00", seconds: int = 30) -> dict[str, str]:
    """Start and end of an event in May 2020."""
    end = f"{clock[:6]}{int(clock[6:]) + seconds:02d}"
    return {"eventStart": f"2020-05-{day:02d}T{clock}Z", "eventEnd": f"2020-05-{day:02d}T{end}Z"}
