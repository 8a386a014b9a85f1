"""The made soundscapes: the same every time, what is written is what was planted, and runs are what they are said to be."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from birdlab.demo import soundscape_birds as planted
from birdlab.demo.soundscape_birds import SPECIES, make_soundscapes, target
from birdlab.demo.soundscape_runs import LISTED, RUNS
from birdlab.demo.soundscapes import write_soundscapes

GOOD, SATURATED, ROUNDED, CONFUSED, ASSISTED = (run.name for run in RUNS)
Segment = tuple[str, int]


def seconds(text: str) -> int:
    h, m, s = text.split(":")
    return int(h) * 3600 + int(m) * 60 + int(s)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    names = write_soundscapes(out)
    there = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert sorted(names) == there and len(names) == 4 + len(RUNS)
    return out / "soundscapes"


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "truth.json").read_text())


@pytest.fixture(scope="module")
def recordings(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "recordings.csv").open(newline="") as file:
        return {row["media_id"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def annotations(folder: Path) -> list[tuple[str, str, int, int]]:
    head, *lines = (folder / "annotations.csv").read_text().splitlines()
    assert head == "MediaId;ClassId;TC1-TC2;Country"
    rows = [line.split(";") for line in lines]
    return [(media, c, *map(seconds, span.split("-"))) for media, c, span, _ in rows]  # type: ignore[misc]


@pytest.fixture(scope="module")
def heard(annotations: list[tuple[str, str, int, int]]) -> dict[str, set[Segment]]:
    """Segments of each species, from the written spans: start rounded down to 5 s, end rounded up."""
    found: dict[str, set[Segment]] = defaultdict(set)
    for media, c, start, end in annotations:
        found[c] |= {(media, k) for k in range(start // 5, (end + 4) // 5)}
    return found


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, dict[Segment, dict[str, float]]]:
    """Probability by run, segment and class."""
    out = {}
    for run in RUNS:
        found: dict[Segment, dict[str, float]] = defaultdict(dict)
        for line in (folder / "runs" / f"{run.name}.txt").read_text().splitlines():
            media, span, c, p = line.split(";")
            start, end = map(seconds, span.split("-"))
            assert end == start + 5 and start % 5 == 0 and c not in found[media, start // 5]
            found[media, start // 5][c] = float(p)
        out[run.name] = found
    return out


def average_precision(
    run: dict[Segment, dict[str, float]], c: str, where: set[Segment], *, worst: bool = False
) -> float:
    """By its definition; ties with those that are right first, or last."""
    listed = [(said[c], segment in where) for segment, said in run.items() if c in said]
    listed.sort(key=lambda one: (-one[0], one[1] if worst else not one[1]))
    right = np.array([hit for _, hit in listed])
    return float((np.cumsum(right)[right] / (np.flatnonzero(right) + 1)).sum() / len(where))


def mean_precision(
    run: dict[Segment, dict[str, float]], heard: dict[str, set[Segment]], *, worst: bool = False
) -> float:
    return float(np.mean([average_precision(run, c, where, worst=worst) for c, where in heard.items()]))


def test_the_same_bytes_again_and_small_files(folder: Path, tmp_path: Path) -> None:
    make_soundscapes.cache_clear()
    write_soundscapes(tmp_path)
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "soundscapes" / path.relative_to(folder)).read_bytes()
            assert path.stat().st_size < 3_000_000


def test_species_are_heard_as_often_as_planted(
    truth: dict[str, Any], heard: dict[str, set[Segment]], annotations: list[tuple[str, str, int, int]]
) -> None:
    told = {one["class_id"]: one for one in truth["species"]}
    assert {c: len(where) for c, where in heard.items()} == {c: one["n_segments"] for c, one in told.items()}
    assert [one["n_segments"] for one in truth["species"]] == [target(s) for s in range(len(SPECIES))]
    assert {c: len({m for m, _ in where}) for c, where in heard.items()} == {
        c: t["n_recordings"] for c, t in told.items()
    }
    assert truth["made"] is True and len(told) == 40 and min(len(where) for where in heard.values()) == 1
    assert truth["n_annotations"] == len(annotations) == len(set(annotations))
    assert truth["n_pairs"] == sum(len(where) for where in heard.values())


def test_recordings_hours_and_silence(
    truth: dict[str, Any], recordings: dict[str, dict[str, str]], annotations: list[tuple[str, str, int, int]]
) -> None:
    assert len(recordings) == truth["n_recordings"] == 60
    assert Counter(row["recorder"] for row in recordings.values()) == dict.fromkeys(
        ("creek1", "creek2", "meadow1", "meadow2", "ridge1", "ridge2"), 10
    )
    assert len({row["site"] for row in recordings.values()}) == 3
    lengths = {media: int(row["duration_s"]) for media, row in recordings.items()}
    assert all(300 <= s <= 600 for s in lengths.values()) and any(s % 5 for s in lengths.values())
    assert sum(-(-s // 5) for s in lengths.values()) == truth["n_segments"]
    assert all(0 <= start < end <= lengths[media] for media, _, start, end in annotations)
    silent = set(recordings) - {media for media, *_ in annotations}
    assert silent == set(truth["silent_recordings"]) and len(silent) >= 10
    hours = {}
    for media, row in recordings.items():
        utc = datetime.strptime(row["start_utc"], "%Y-%m-%dT%H:%M:%SZ")
        assert row["timezone"] == "UTC-5"
        local = utc + timedelta(hours=truth["zone_hours"])
        hours[media] = local.hour
        assert media.endswith(local.strftime("_%m%d_%H%M"))
    assert {hours[media] for media in silent} <= planted.NIGHT
    night = {c for media, c, *_ in annotations if hours[media] in planted.NIGHT}
    assert night == {"brdowl"} and len({row["start_utc"][5:7] for row in recordings.values()}) == 5


def test_the_class_list_holds_species_that_never_sing(
    folder: Path, truth: dict[str, Any], heard: dict[str, set[Segment]]
) -> None:
    classes = (folder / "classes.txt").read_text().split("\n")
    assert classes[-1] == "" and classes[:-1] == sorted(set(heard) | set(truth["never"]))
    assert len(truth["never"]) == 6 and not set(truth["never"]) & set(heard)


def test_codes_and_names_are_those_of_the_pinned_list() -> None:
    from birdlab.readers.taxonomy import read_taxonomy

    taxa = read_taxonomy("ebird_2024").taxa
    known = dict(taxa.select("code", "common_name").iter_rows())
    for code, name, _ in SPECIES:
        assert known[code].removeprefix("Northern ") == name.removeprefix("Northern ")
    assert set(planted.NEVER) <= set(known)


def test_runs_list_what_is_told(
    truth: dict[str, Any], runs: dict[str, Any], recordings: dict[str, dict[str, str]]
) -> None:
    lengths = {media: int(row["duration_s"]) for media, row in recordings.items()}
    for told in truth["runs"]:
        run = runs[told["name"]]
        values = [p for said in run.values() for p in said.values()]
        assert len(values) == told["n_rows"] and values.count(1.0) == told["n_ones"]
        assert all(0 < p <= 1 for p in values) and max(map(len, run.values())) == LISTED
        assert len(run) == truth["n_segments"] and all(5 * k < lengths[media] for media, k in run)
    ones = {told["name"]: told["n_ones"] for told in truth["runs"]}
    assert ones[SATURATED] > 2000 and ones[GOOD] == 0
    assert len({p for said in runs[ROUNDED].values() for p in said.values()}) <= 101
    assert len({p for said in runs[GOOD].values() for p in said.values()}) > 30_000


def test_teams_and_flags(truth: dict[str, Any]) -> None:
    teams = defaultdict(list)
    for told in truth["runs"]:
        teams[told["team"]].append(told)
    assert max(map(len, teams.values())) <= 4
    assert [name for name, made in teams.items() if all(one["external_data"] for one in made)] == ["dusk"]
    assert [told["name"] for told in truth["runs"] if told["assisted"]] == [ASSISTED]


def test_runs_score_in_the_planted_order(runs: dict[str, Any], heard: dict[str, set[Segment]]) -> None:
    best = {name: mean_precision(run, heard) for name, run in runs.items()}
    worst = {name: mean_precision(run, heard, worst=True) for name, run in runs.items()}
    assert best[ASSISTED] > best[GOOD] > max(best[ROUNDED], best[CONFUSED], best[SATURATED])
    assert best[SATURATED] - worst[SATURATED] > 0.25
    assert 0.001 < best[ROUNDED] - worst[ROUNDED] < 0.05
    assert best[GOOD] - worst[GOOD] < 1e-6 and 0.45 < best[GOOD] < 0.65


def test_what_is_easy_to_tell_scores_high(
    truth: dict[str, Any], runs: dict[str, Any], heard: dict[str, set[Segment]]
) -> None:
    from scipy.stats import spearmanr

    often = [one for one in truth["species"] if one["n_segments"] >= 10]
    found = [average_precision(runs[GOOD], one["class_id"], heard[one["class_id"]]) for one in often]
    assert spearmanr(found, [one["detectability"] for one in often]).statistic > 0.6


def test_the_confused_run_says_the_second_of_a_pair(
    truth: dict[str, Any], runs: dict[str, Any], heard: dict[str, set[Segment]]
) -> None:
    told = next(one for one in truth["runs"] if one["name"] == CONFUSED)
    for pair in told["pairs"]:
        said, other = [], []
        for name, shares in ((CONFUSED, said), (GOOD, other)):
            for segment in heard[pair["heard"]] - heard[pair["said"]]:
                row = runs[name][segment]
                shares.append(row.get(pair["said"], 0) > row.get(pair["heard"], 0))
        assert np.mean(said) > 0.6 and np.mean(other) < 0.35, pair


def test_the_noisy_recorder_and_the_bad_hour_find_least(
    truth: dict[str, Any], runs: dict[str, Any], heard: dict[str, set[Segment]], recordings: dict[str, dict[str, str]]
) -> None:
    """Share of pairs of species and segment among which the species is listed first or second."""
    by_recorder, by_hour = defaultdict(list), defaultdict(list)
    for c, where in heard.items():
        for media, k in where:
            row = runs[GOOD][media, k]
            hit = c in sorted(row, key=lambda name: -row[name])[:2]
            start = datetime.strptime(recordings[media]["start_utc"], "%Y-%m-%dT%H:%M:%SZ")
            local = start + timedelta(hours=truth["zone_hours"], seconds=5 * k)
            noisy = recordings[media]["recorder"] == truth["noisy_recorder"]["recorder"]
            bad = local.hour == truth["bad_hour"]["local_hour"]
            if not bad:
                by_recorder[recordings[media]["recorder"]].append(hit)
            if not noisy:
                by_hour[local.hour].append(hit)
    recorder = {name: np.mean(hits) for name, hits in by_recorder.items()}
    hour = {h: np.mean(hits) for h, hits in by_hour.items() if len(hits) >= 40}
    assert min(recorder, key=recorder.get) == truth["noisy_recorder"]["recorder"]  # type: ignore[arg-type]
    assert min(hour, key=hour.get) == truth["bad_hour"]["local_hour"]  # type: ignore[arg-type]
    assert sorted(recorder.values())[1] > 1.5 * min(recorder.values()) and sorted(hour.values())[1] > 1.5 * min(
        hour.values()
    )
