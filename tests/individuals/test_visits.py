"""Camtrap DP: visit rates and co-occurrence counted by hand, and the published example package."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from birdlab.cli import main
from birdlab.errors import DataError
from birdlab.field.visits import co_occurrence, individual_rates, machine_agreement, visits
from birdlab.readers.camtrap import read_camtrap

HEAD = (
    "observationID,deploymentID,mediaID,eventID,eventStart,eventEnd,observationLevel,observationType,scientificName,"
    "count,behavior,individualID,classificationMethod"
)
DEPLOYMENTS = (
    "deploymentID,locationID,deploymentStart,deploymentEnd,timestampIssues\n"
    "a,x,2020-05-01T00:00:00Z,2020-05-03T00:00:00Z,false\n"
    "b,y,2020-05-01T02:00:00+02:00,2020-05-02T02:00:00+02:00,false\n"
)


def package(root: Path, rows: list[str], deployments: str = DEPLOYMENTS) -> Path:
    (root / "deployments.csv").write_text(deployments)
    (root / "media.csv").write_text("mediaID,deploymentID\nm1,a\n")
    (root / "observations.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    (root / "datapackage.json").write_text("{}")
    return root / "datapackage.json"


EVENTS = [
    "1,a,,e1,2020-05-01T10:00:00Z,2020-05-01T10:00:30Z,event,animal,Parus major,2,,,human",
    "2,a,m1,e1,2020-05-01T10:00:00Z,2020-05-01T10:00:00Z,media,animal,Parus major,2,,,human",
    "3,a,,e2,2020-05-01T10:05:00Z,2020-05-01T10:05:10Z,event,animal,Parus major,1,,,human",
    "4,a,,e3,2020-05-01T10:20:00Z,2020-05-01T10:20:10Z,event,animal,Erithacus rubecula,1,,,human",
    "5,b,m2,e4,2020-05-01T05:00:00Z,2020-05-01T05:00:00Z,media,animal,Parus major,1,,,human",
    "6,b,m3,e4,2020-05-01T05:00:05Z,2020-05-01T05:00:05Z,media,animal,Parus major,3,,,human",
    "7,b,m4,e5,2020-05-01T06:00:00Z,2020-05-01T06:00:05Z,media,blank,,,,,machine",
]


def test_rates_by_hand(tmp_path: Path) -> None:
    camtrap = read_camtrap(package(tmp_path, EVENTS))
    found = {(r["species"], r["deployment_id"]): r for r in visits(camtrap).to_dicts()}
    tit = found["Parus major", "a"]
    assert (tit["n"], tit["animals"], tit["effort_days"], tit["rate_per_day"]) == (2, 3, 2.0, 1.0)
    # Of the pictures of one event the largest count is taken.
    assert (found["Parus major", "b"]["n"], found["Parus major", "b"]["animals"]) == (1, 3)
    assert found["Erithacus rubecula", "b"]["rate_per_day"] == 0.0
    whole = found["Parus major", ""]
    assert whole["rate_per_day"] == pytest.approx(3 / 3) and whole["reason"] is not None  # both have 1 a day
    assert found["Erithacus rubecula", ""]["lo"] == 0.0 and found["Erithacus rubecula", ""]["hi"] > 1 / 3
    joined = {(r["species"], r["deployment_id"]): r["n"] for r in visits(camtrap, gap_min=10).to_dicts()}
    assert joined["Parus major", "a"] == 1


def test_hours_together_by_hand(tmp_path: Path) -> None:
    rows = co_occurrence(read_camtrap(package(tmp_path, EVENTS))).to_dicts()
    found = {r["deployment_id"]: r for r in rows}
    assert (found["a"]["n_hours"], found["a"]["hours_both"]) == (48, 1)
    assert found["a"]["share"] == pytest.approx(1 / 48) and found[""]["n_hours"] == 72


def test_individuals_and_machines_where_there_are_some(tmp_path: Path) -> None:
    rows = [
        "1,a,m1,e1,2020-05-01T10:00:00Z,2020-05-01T10:00:00Z,media,animal,Parus major,1,,ringA,human",
        "2,a,m1,e1,2020-05-01T10:00:00Z,2020-05-01T10:00:00Z,media,animal,Parus major,1,,,machine",
        "3,a,m2,e2,2020-05-01T11:00:00Z,2020-05-01T11:00:00Z,media,animal,Sitta europaea,1,,,human",
        "4,a,m2,e2,2020-05-01T11:00:00Z,2020-05-01T11:00:00Z,media,animal,Parus major,1,,,machine",
    ]
    camtrap = read_camtrap(package(tmp_path, rows))
    assert individual_rates(camtrap)["rates"] == {"ringA": pytest.approx(1 / 3)}
    told = machine_agreement(camtrap)
    assert (told["n_both"], told["agreement"], told["kappa"]) == (2, 0.5, 0.0)


def test_bad_tables_name_their_lines(tmp_path: Path) -> None:
    rows = [
        "1,zz,,e1,2020-05-01T10:00:00Z,,event,animal,Parus major,1,,,human",
        "1,a,,e1,yesterday,,event,animal,Parus major,0,,,human",
    ]
    with pytest.raises(DataError) as caught:
        read_camtrap(package(tmp_path, rows))
    codes = {(p.code, p.line) for p in caught.value.problems}
    assert codes == {("unknown_deployment", 2), ("bad_id", 3), ("bad_time", 3), ("bad_count", 3)}


def test_effort_that_is_not_known(tmp_path: Path) -> None:
    turned = DEPLOYMENTS.replace("2020-05-03", "2020-04-03")
    camtrap = read_camtrap(package(tmp_path, EVENTS, turned))
    row = visits(camtrap).filter(species="Parus major", deployment_id="a").row(0, named=True)
    assert row["rate_per_day"] is None and row["reason"]
    assert "turned_deployment" in set(camtrap.notices["code"])


@pytest.mark.real
def test_the_example_package(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = real_data / "camtrap"
    assert main(["score", "visits", str(folder / "datapackage.json"), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    with (folder / "observations.csv").open() as file:
        rows = list(csv.DictReader(file))
    events = defaultdict(set)
    for r in rows:
        if r["observationType"] == "animal" and r["scientificName"]:
            events[r["scientificName"], r["deploymentID"]].add(r["eventID"])
    want = {key: len(value) for key, value in events.items()}
    got = {(v["species"], v["deployment"]): v["n"] for v in out["visits"] if v["deployment"] and v["n"]}
    # An event with observations of its own counts by these; no species of a picture is left out in this package.
    whole = {r["eventID"] for r in rows if r["observationLevel"] == "event" and r["observationType"] == "animal"}
    stated = {
        (r["scientificName"], r["deploymentID"], r["eventID"])
        for r in rows
        if r["observationLevel"] == "event" and r["observationType"] == "animal"
    }
    for (species, place), ids in events.items():
        want[species, place] = sum(e not in whole or (species, place, e) in stated for e in ids)
    assert got == {k: n for k, n in want.items() if n}
    assert not out["individuals"]["computed"] and "individualID" in out["individuals"]["reason"]
    assert not out["agreement"]["computed"] and out["agreement"]["n_both"] == 0
    methods = Counter(r["classificationMethod"] for r in rows)
    assert methods["machine"] == 22 and out["agreement"]["n_machine"] > 0
    assert out["co_occurrence"]
