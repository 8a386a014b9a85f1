"""Camera trap data packages: what is read, and what is refused with file, line and id."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest
from made_camtrap import package

from birdlab.errors import DataError
from birdlab.readers.camtrap import DEPLOYMENTS, MEDIA, OBSERVATIONS, left_out, read_camtrap


def problems(folder) -> list[tuple]:
    with pytest.raises(DataError) as caught:
        read_camtrap(folder)
    return [(p.code, p.file.rpartition("/")[2], p.line, p.record, p.key) for p in caught.value.problems]


def test_tables_have_their_columns(tmp_path):
    read = read_camtrap(package(tmp_path, [{}], [{}], [{}]))
    assert (dict(read.deployments.schema), dict(read.media.schema)) == (DEPLOYMENTS, MEDIA)
    assert dict(read.observations.schema) == OBSERVATIONS
    assert read.name == "made"
    assert read.deployments["effort_days"].to_list() == [10.0]
    assert read.deployments["location_id"].to_list() == [None]


@pytest.mark.parametrize(
    "written",
    [
        "2020-05-02T06:00:00Z",
        "2020-05-02T08:00:00+02:00",
        "2020-05-02T08:00:00+0200",
        "2020-05-02 08:00+02",
        "2020-05-01T22:00:00.000-08:00",
        "2020-05-02T06:00:00",
    ],
)
def test_dates_with_time_zones(tmp_path, written):
    read = read_camtrap(package(tmp_path, [{}], [{"eventStart": written}]))
    assert read.observations["start"][0] == datetime(2020, 5, 2, 6, tzinfo=UTC)
    assert ("no_time_zone" in read.notices["code"]) == (written == "2020-05-02T06:00:00")


def test_effort_over_a_change_of_time_zone(tmp_path):
    dates = {"deploymentStart": "2020-03-28T12:00:00+01:00", "deploymentEnd": "2020-03-29T12:00:00+02:00"}
    read = read_camtrap(package(tmp_path, [dates], []))
    assert read.deployments["effort_days"][0] == pytest.approx(23 / 24)


def test_a_deployment_without_end_is_kept(tmp_path):
    read = read_camtrap(package(tmp_path, [{"deploymentEnd": ""}], [{}]))
    assert read.deployments["effort_days"].to_list() == [None]


def test_reversed_dates_and_bad_dates(tmp_path):
    deployments = [{"deploymentEnd": "2020-04-01T00:00:00Z"}]
    observations = [
        {"eventEnd": "2020-05-01T00:00:00Z"},
        {"eventStart": "yesterday"},
        {"eventStart": "2020-02-30T00:00:00Z"},
    ]
    assert problems(package(tmp_path, deployments, observations)) == [
        ("reversed_dates", "deployments.csv", 2, "d1", "deploymentEnd"),
        ("bad_date", "observations.csv", 3, "o1", "eventStart"),
        ("bad_date", "observations.csv", 4, "o2", "eventStart"),
        ("reversed_dates", "observations.csv", 2, "o0", "eventEnd"),
    ]


def test_unknown_deployments_and_media(tmp_path):
    observations = [
        {},
        {"deploymentID": "d9"},
        {"mediaID": "m9", "observationLevel": "media"},
        {"observationLevel": "media"},
    ]
    found = problems(package(tmp_path, [{}], observations, [{"deploymentID": "d8"}]))
    assert found == [
        ("unknown_deploymentID", "media.csv", 2, "m1", "deploymentID"),
        ("unknown_deploymentID", "observations.csv", 3, "o1", "deploymentID"),
        ("unknown_mediaID", "observations.csv", 4, "o2", "mediaID"),
        ("no_medium", "observations.csv", 5, "o3", "mediaID"),
    ]


def test_a_comment_with_a_line_break_moves_no_line(tmp_path):
    observations = [{"observationComments": "first\nsecond\nthird"}, {"count": "many"}]
    assert problems(package(tmp_path, [{}], observations)) == [("bad_number", "observations.csv", 5, "o1", "count")]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"observationType": "bird"}, "bad_word"),
        ({"observationLevel": "sequence"}, "bad_word"),
        ({"classificationMethod": "both"}, "bad_word"),
        ({"count": "0"}, "bad_number"),
        ({"count": "1.5"}, "bad_number"),
    ],
)
def test_words_and_numbers(tmp_path, row, code):
    assert [p[0] for p in problems(package(tmp_path, [{}], [row]))] == [code]


def test_ids_twice(tmp_path):
    found = problems(package(tmp_path, [{}, {}], [{"observationID": "x"}, {"observationID": "x"}]))
    assert found == [
        ("id_twice", "deployments.csv", 3, "d1", "deploymentID"),
        ("id_twice", "observations.csv", 3, "x", "observationID"),
    ]


def test_many_problems_are_counted(tmp_path):
    with pytest.raises(DataError) as caught:
        read_camtrap(package(tmp_path, [{}], [{"deploymentID": "d9"}] * 25))
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1].found == "15 more of them"


def test_columns_and_tables_that_are_missing(tmp_path):
    folder = package(tmp_path, [{}], [{}])
    text = (folder / "observations.csv").read_text().replace("observationType", "kind")
    (folder / "observations.csv").write_text(text)
    (folder / "media.csv").unlink()
    found = problems(folder)
    assert [(p[0], p[1]) for p in found] == [("unreadable", "media.csv"), ("no_column", "observations.csv")]


@pytest.mark.parametrize("where", ["https://example.org/media.csv", "/etc/passwd", "../media.csv", "a\\b.csv"])
def test_tables_elsewhere_are_not_opened(tmp_path, where):
    resources = [{"name": n, "path": f"{n}.csv"} for n in ("deployments", "observations")]
    folder = package(tmp_path, [{}], [{}], resources=[*resources, {"name": "media", "path": where}])
    assert problems(folder) == [("bad_path", "datapackage.json", None, "media", None)]


def test_descriptors_that_are_no_package(tmp_path):
    old = package(tmp_path / "a", [{}], [{}], profile="https://example.org/camtrap-dp/0.6/profile.json")
    assert problems(old)[0][0] == "old_version"
    lone = package(tmp_path / "b", [{}], [{}], resources=[{"name": "media", "path": "media.csv"}])
    assert [p[3] for p in problems(lone)] == ["deployments", "observations"]
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "datapackage.json").write_text("[]")
    assert problems(tmp_path / "c")[0][0] == "not_a_package"
    with pytest.raises(DataError):
        read_camtrap(tmp_path / "nowhere")


def test_what_is_no_animal_is_counted(tmp_path):
    rows = [{"observationType": "blank"}, {"observationType": "human"}, {"observationType": "Blank"}, {}]
    read = read_camtrap(package(tmp_path, [{}], rows))
    assert left_out(read.observations) == [("blank", 2), ("human", 1)]


def test_groups_and_nameless_animals_are_told(tmp_path):
    read = read_camtrap(package(tmp_path, [{}], [{"scientificName": "Aves"}, {"scientificName": ""}]))
    assert dict(read.notices.select("code", "n").rows()) == {"no_species": 1, "not_a_species": 1}


@pytest.mark.real
def test_a_real_package(real_data):
    read = read_camtrap(real_data / "camtrap" / "datapackage.json")
    assert (read.deployments.height, read.media.height, read.observations.height) == (4, 423, 549)
    assert read.deployments["effort_days"].sum() == pytest.approx(73.3716, abs=1e-4)
    assert dict(left_out(read.observations)) == {
        "blank": 115,
        "human": 33,
        "vehicle": 21,
        "unknown": 13,
        "unclassified": 1,
    }
    assert read.observations.filter(pl.col("level") == "event").height == 36
