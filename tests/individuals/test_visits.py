"""Visits per camera day, species seen together, people and machines: numbers by hand and on a real package."""

from __future__ import annotations

import argparse
import json
import math
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_camtrap import on_day, package
from sklearn.metrics import cohen_kappa_score

from birdlab.errors import ParameterError
from birdlab.field.command import score_command
from birdlab.field.events import NO_END, NOT_SEEN_THROUGH, OUTSIDE, animal_events
from birdlab.field.machine import individuals_told, machine_agreement
from birdlab.field.together import co_occurrence
from birdlab.field.visits import ONE_DEPLOYMENT, VISITS, merge_visits, rate_interval, visits
from birdlab.readers.camtrap import read_camtrap
from birdlab.stats import cluster_variance

D2 = {"deploymentID": "d2", "deploymentEnd": "2020-05-06T00:00:00Z"}


def row(table: pl.DataFrame, deployment: str | None = None, **also) -> dict:
    keep = table["deployment_id"].is_null() if deployment is None else table["deployment_id"] == deployment
    found = table.filter(keep)
    for name, value in also.items():
        found = found.filter(pl.col(name) == value)
    assert found.height == 1
    return found.row(0, named=True)


def made(folder, observations, deployments=({}, D2), media=()):
    return read_camtrap(package(folder, list(deployments), list(observations), list(media)))


def test_rates_by_hand(tmp_path):
    seen = [
        {"eventID": "e1", **on_day(2), "count": "2"},
        {"eventID": "e1", **on_day(2), "count": "1"},
        {"eventID": "e2", **on_day(3), "count": "1"},
        {"eventID": "e3", **on_day(4), "deploymentID": "d2", "scientificName": "Turdus merula"},
        {"eventID": "e4", **on_day(5), "observationType": "blank", "scientificName": "", "count": ""},
    ]
    found = visits(made(tmp_path, seen))
    assert dict(found.schema) == VISITS
    pica = {"species": "Pica pica"}
    first = row(found, "d1", **pica)
    assert (first["n"], first["animals"], first["rate_per_day"], first["reason"]) == (2, 4, 0.2, ONE_DEPLOYMENT)
    zero = row(found, "d2", **pica)
    assert (zero["n"], zero["animals"], zero["rate_per_day"], zero["effort_days"]) == (0, 0, 0.0, 5.0)
    pooled = row(found, **pica)
    assert (pooled["n"], pooled["animals"], pooled["effort_days"], pooled["n_clusters"]) == (2, 4, 15.0, 2)
    assert pooled["rate_per_day"] == pytest.approx(2 / 15)
    # v = 2 [(2 - 20/15)² + (0 - 10/15)²] / 15², carried to the logarithm; t(1) = 12.706: too wide to say anything.
    assert (pooled["lo"], "differ too much" in pooled["reason"]) == (None, True)
    assert row(found, species="Turdus merula")["n"] == 1


def test_interval_by_hand():
    n, days = [4, 6, 5], [10.0, 10.0, 10.0]
    lo, hi, reason = rate_interval(n, days)
    v = cluster_variance(n, days)
    assert v == pytest.approx(3 / 2 * 2 / 900)
    half = 4.302653 * math.sqrt(v) / 0.5
    assert (lo, hi) == (pytest.approx(0.5 * math.exp(-half), rel=1e-6), pytest.approx(0.5 * math.exp(half), rel=1e-6))
    assert reason is None


@pytest.mark.parametrize(
    ("n", "days", "part"),
    [
        ([], [], "effort nowhere"),
        ([3], [2], "one location"),
        ([0, 0], [1, 1], "never seen"),
        ([2, 4], [1, 2], "the same"),
    ],
)
def test_no_interval(n, days, part):
    lo, hi, reason = rate_interval(n, days)
    assert (lo, hi) == (None, None)
    assert part in reason


def test_deployments_at_one_location_are_one_cluster(tmp_path):
    deployments = [{"locationID": "pond"}, {**D2, "locationID": "pond"}]
    pooled = row(visits(made(tmp_path, [{}], deployments)))
    assert (pooled["n_clusters"], pooled["lo"]) == (1, None)
    assert "one location" in pooled["reason"]


def test_gap_puts_events_together(tmp_path):
    seen = [
        {"eventID": "a", **on_day(2, "06:00:00"), "count": "1"},
        {"eventID": "b", **on_day(2, "06:04:00"), "count": "3"},
        {"eventID": "c", **on_day(2, "06:09:30"), "count": "2"},
        {"eventID": "d", **on_day(2, "06:06:00"), "deploymentID": "d2"},
        {"eventID": "e", **on_day(2, "06:04:00"), "scientificName": "Turdus merula"},
    ]
    camtrap = made(tmp_path, seen)
    at = {gap: row(visits(camtrap, gap_min=gap), "d1", species="Pica pica") for gap in (0, 3.5, 3.6, 5, 5.1)}
    # b begins 3.5 min after a ends, c 5 min after b ends: a gap must be less than --gap.
    assert {gap: r["n"] for gap, r in at.items()} == {0: 3, 3.5: 3, 3.6: 2, 5: 2, 5.1: 1}
    assert {gap: r["animals"] for gap, r in at.items()} == {0: 6, 3.5: 6, 3.6: 5, 5: 5, 5.1: 3}
    for gap in (-1, math.nan, 1e9):
        with pytest.raises(ParameterError):
            visits(camtrap, gap_min=gap)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 60), st.sampled_from("ab")), min_size=1, max_size=15),
    st.floats(0.1, 30),
)
def test_visits_against_a_loop(spans, gap):
    begun = datetime(2020, 5, 1, tzinfo=UTC)
    rows = [
        ("d", s, None, str(i), begun + timedelta(seconds=6 * a), begun + timedelta(seconds=6 * (a + n)), 1, True)
        for i, (a, n, s) in enumerate(spans)
    ]
    names = ("deployment_id", "species", "individual_id", "event", "start", "end", "animals", "inside")
    events = pl.DataFrame(rows, schema=list(names), orient="row")
    expected = 0
    for name in {s for *_, s in spans}:
        until = None
        for a, n in sorted((a, n) for a, n, s in spans if s == name):
            expected += until is None or 0.1 * (a - until) >= gap - 1e-12
            until = a + n if until is None else max(until, a + n)
    found = merge_visits(events, gap_min=gap)
    assert found.height == expected
    assert found["n_events"].sum() == len(spans)
    assert merge_visits(events).height == len(spans)


def test_a_short_event_within_a_long_one(tmp_path):
    seen = [
        {"eventID": "a", "eventStart": "2020-05-02T06:00:00Z", "eventEnd": "2020-05-02T07:00:00Z"},
        {"eventID": "b", **on_day(2, "06:10:00")},
        {"eventID": "c", **on_day(2, "07:01:00")},
    ]
    assert row(visits(made(tmp_path, seen), gap_min=2), "d1")["n"] == 1


def test_effort_that_is_not_known(tmp_path):
    deployments = [{}, {"deploymentID": "d2", "deploymentEnd": ""}, {"deploymentID": "d3"}]
    found = visits(made(tmp_path, [{}, {"deploymentID": "d2"}], deployments))
    assert [row(found, d)["reason"] for d in ("d1", "d2", "d3")] == [ONE_DEPLOYMENT, NO_END, NOT_SEEN_THROUGH]
    assert [row(found, d)["n"] for d in ("d1", "d2", "d3")] == [1, 1, None]
    assert [row(found, d)["rate_per_day"] for d in ("d1", "d2", "d3")] == [0.1, None, None]
    assert (row(found)["n"], row(found)["effort_days"]) == (1, 10.0)


def test_a_clock_that_was_wrong_is_no_zero(tmp_path):
    deployments = [{"timestampIssues": "true"}, D2]
    seen = [on_day(20), {"deploymentID": "d2", **on_day(2)}, {"deploymentID": "d2", "eventID": "z", **on_day(9)}]
    camtrap = made(tmp_path, seen, deployments)
    found = visits(camtrap)
    assert (row(found, "d1")["n"], row(found, "d1")["reason"]) == (None, OUTSIDE)
    assert row(found, "d2")["n"] == 1
    said = {n.code: n.n for n in animal_events(camtrap)[1]}
    assert said == {"outside": 2, "timestamp_issues": 1}


def test_media_are_put_together_where_no_events_are_given(tmp_path):
    media = [{"mediaID": f"m{i}"} for i in range(4)]
    seen = [
        {"observationLevel": "media", "mediaID": "m0", "eventID": "a", "count": "2"},
        {"observationLevel": "media", "mediaID": "m1", "eventID": "a", "count": "1"},
        {"observationLevel": "media", "mediaID": "m1", "eventID": "a", "count": "2"},
        {"observationLevel": "media", "mediaID": "m2", "eventID": "", "count": ""},
    ]
    camtrap = made(tmp_path, seen, media=media)
    events, notices = animal_events(camtrap)
    assert events["animals"].to_list() == [3, None]
    assert {n.code for n in notices} == {"no_count"}
    assert row(visits(camtrap), "d1")["animals"] == 3


def test_events_are_taken_where_both_levels_are_given(tmp_path):
    seen = [{}, {"observationLevel": "media", "mediaID": "m1"}]
    camtrap = made(tmp_path, seen, media=[{}])
    assert row(visits(camtrap), "d1")["n"] == 1
    assert {n.code: n.n for n in animal_events(camtrap)[1]} == {"media_level": 1}


def test_a_person_goes_before_a_machine(tmp_path):
    seen = [
        {"observationLevel": "media", "mediaID": "m1", "count": "2"},
        {"observationLevel": "media", "mediaID": "m1", "count": "5", "classificationMethod": "machine"},
    ]
    camtrap = made(tmp_path, seen, media=[{}])
    assert row(visits(camtrap), "d1")["animals"] == 2


def test_no_animal_at_all(tmp_path):
    camtrap = made(tmp_path, [{"observationType": "blank", "scientificName": "", "count": ""}])
    assert visits(camtrap).is_empty()
    assert co_occurrence(camtrap).is_empty()


def test_seen_together_in_hours(tmp_path):
    other = {"scientificName": "Turdus merula"}
    seen = [
        {"eventID": "a", **on_day(2, "06:10:00")},
        {"eventID": "b", **on_day(2, "06:50:00"), **other},
        {"eventID": "c", "eventStart": "2020-05-03T06:59:50Z", "eventEnd": "2020-05-03T07:00:10Z"},
        {"eventID": "d", **on_day(3, "07:30:00"), **other},
        {"eventID": "e", **on_day(4, "06:59:00")},
        {"eventID": "f", **on_day(4, "07:00:00"), **other},
        {"eventID": "g", **on_day(2), "deploymentID": "d2"},
    ]
    found = co_occurrence(made(tmp_path, seen))
    first = row(found, "d1")
    assert (first["n"], first["n_a"], first["n_b"], first["n_both"]) == (240, 4, 3, 2)
    assert (first["share"], first["expected"]) == (2 / 240, 12 / 240**2)
    pooled = row(found)
    assert (pooled["n"], pooled["n_both"], pooled["n_clusters"]) == (360, 2, 2)
    assert pooled["share"] == 2 / 360
    assert found.height == 2
    two = co_occurrence(made(tmp_path / "two", seen), hours=2)
    assert row(two, "d1")["n_both"] == 3
    assert row(two, "d1")["n"] == 120


def test_seen_together_in_events(tmp_path):
    seen = [{}, {"scientificName": "Turdus merula"}, {"eventID": "e2"}]
    first = row(co_occurrence(made(tmp_path, seen), unit="events"), "d1")
    assert (first["n"], first["n_a"], first["n_b"], first["n_both"]) == (2, 2, 1, 1)
    camtrap = made(tmp_path / "other", seen)
    for bad in ({"unit": "days"}, {"hours": 0}, {"hours": math.nan}):
        with pytest.raises(ParameterError):
            co_occurrence(camtrap, **bad)


def test_individuals(tmp_path):
    seen = [
        {"eventID": "a", "individualID": "rgab", **on_day(2)},
        {"eventID": "b", "individualID": "rgab", **on_day(3)},
        {"eventID": "b", "individualID": "oaor", **on_day(3)},
        {"eventID": "c", **on_day(4)},
        {
            "eventID": "d",
            **on_day(4),
            "deploymentID": "d2",
            "observationType": "blank",
            "scientificName": "",
            "count": "",
        },
    ]
    camtrap = made(tmp_path, seen)
    assert individuals_told(camtrap) == (3, 4)
    found = visits(camtrap, individuals=True)
    assert row(found, "d1", individual_id="rgab")["rate_per_day"] == 0.2
    assert row(found, "d1", individual_id="oaor")["n"] == 1
    assert row(found, "d2", individual_id="oaor")["n"] == 0


def labelled(pairs, deployments=("d1", "d1", "d2", "d3", "d1")):
    media, seen = [], []
    for i, (person, machine) in enumerate(pairs):
        at = {"mediaID": f"m{i}", "deploymentID": deployments[i % len(deployments)]}
        media.append(at)
        for method, name in (("human", person), ("machine", machine)):
            if name:
                kind = {"observationType": name, "scientificName": "", "count": ""} if name == "blank" else {}
                said = {"observationLevel": "media", "classificationMethod": method, "scientificName": name}
                seen.append(at | said | kind)
    return seen, media


def test_people_and_machines(tmp_path):
    pairs = [("Pica pica", "Pica pica"), ("Pica pica", "blank"), ("blank", "blank"), ("Turdus merula", "Pica pica")] * 3
    seen, media = labelled([*pairs, ("blank", None), (None, "blank")])
    deployments = [{}, {"deploymentID": "d2"}, {"deploymentID": "d3"}]
    found = machine_agreement(made(tmp_path, seen, deployments, media))
    assert (found["n_media"], found["n_human"], found["n_machine"], found["n_untold"]) == (12, 1, 1, 0)
    assert found["kappa"] == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))
    assert found["lo"] <= found["kappa"] <= found["hi"]


def test_people_and_machines_on_different_pictures(tmp_path):
    seen, media = labelled([("Pica pica", None), (None, "Pica pica"), ("blank", None)])
    found = machine_agreement(made(tmp_path, seen, [{}, D2, {"deploymentID": "d3"}], media))
    assert (found["computed"], found["kappa"]) == (False, None)
    assert "none of 3 media" in found["reason"]
    assert "2 by people alone, 1 by a machine alone" in found["reason"]


def arguments(folder, **also) -> argparse.Namespace:
    return argparse.Namespace(**{"package": folder, "gap": 0.0, "unit": "hours", "hours": 1.0, "json": True} | also)


def test_command(tmp_path, capsys):
    folder = package(tmp_path, [{}, D2], [{}, {"scientificName": "Turdus merula", "individualID": "x"}])
    assert score_command(arguments(folder)) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["package"], report["n_deployments"], report["effort_days"]) == ("made", 2, 15.0)
    keys = {"species", "deployment", "n", "animals", "effort_days", "rate_per_day", "lo", "hi"}
    assert keys <= set(report["visits"][0])
    assert report["individuals"]["computed"] is True
    assert report["individuals"]["visits"][1]["individual"] == "x"
    assert report["agreement"]["computed"] is False
    score_command(arguments(folder, json=False))
    out = capsys.readouterr().out
    assert "made: 2 deployments, 15.0 camera days" in out
    assert "1 of 2 observations of animals have no individualID" in out


@pytest.mark.real
def test_a_real_package(real_data, capsys):
    score_command(arguments(real_data / "camtrap"))
    report = json.loads(capsys.readouterr().out)
    pooled = {r["species"]: r for r in report["visits"] if r["deployment"] is None}
    # Counted in observations.csv by hand: rows of the level event and the type animal, one per event and name.
    assert {name: r["n"] for name, r in pooled.items()} == {
        "Anas platyrhynchos": 12,
        "Anas strepera": 2,
        "Ardea": 2,
        "Ardea cinerea": 1,
        "Aves": 2,
        "Martes foina": 1,
        "Mustela putorius": 3,
        "Rattus norvegicus": 2,
        "Vulpes vulpes": 1,
    }
    assert pooled["Anas platyrhynchos"]["rate_per_day"] == pytest.approx(12 / 73.3716, rel=1e-5)
    assert len(report["visits"]) == 9 * 5
    both = {(r["species_a"], r["species_b"]): r for r in report["co_occurrence"] if r["deployment"] is None}
    assert both["Anas platyrhynchos", "Anas strepera"]["n"] == 1762
    assert report["individuals"]["computed"] is False
    assert "366 of 366" in report["individuals"]["reason"]
    assert report["agreement"]["computed"] is False
    assert "403 by people alone, 20 by a machine alone" in report["agreement"]["reason"]
