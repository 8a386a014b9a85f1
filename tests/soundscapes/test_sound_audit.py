"""The audit of soundscapes: hours, silence by recorder, month and hour, counts; against a loop over segments."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from birdlab.schemas.soundscapes import TABLES
from birdlab.soundscapes.audit import COUNTS, audit_tables
from birdlab.soundscapes.truth import code_truth

RECORDINGS = next(t for t in TABLES if t.name == "soundscape_recordings")


def made(rows: list[tuple]) -> pl.DataFrame:
    schema = {"media_id": pl.String, "duration_s": pl.Float64, "recorder": pl.String, "start_local": pl.Datetime("us")}
    return RECORDINGS.conform(pl.DataFrame(rows, schema=schema, orient="row"))


def spans(rows: list[tuple]) -> pl.DataFrame:
    schema = {"media_id": pl.String, "class_id": pl.String, "start_s": pl.Float64, "end_s": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


FOUR = made(
    [
        ("a", 3600.0, "r1", datetime(2017, 3, 31, 23, 30)),
        ("b", 12.0, "r1", datetime(2017, 4, 1, 0, 0)),
        ("c", None, "r2", None),
        ("d", None, None, datetime(2017, 4, 2, 5)),
    ]
)
HEARD = spans(
    [
        ("a", "x", 0, 4),
        ("a", "x", 2, 2.5),
        ("a", "y", 1799, 4000),
        ("z", "x", 1, 2),
        ("d", "q", 11, 12),
        ("b", "x", 5, 5),
    ]
)


def value(tables: dict[str, pl.DataFrame], name: str) -> float | None:
    return tables["counts"].filter(pl.col("name") == name)["value"].item()


def test_months_and_hours_are_those_of_the_segment() -> None:
    tables = audit_tables(FOUR, HEARD, classes=["x", "w"])
    rows = {(r["recorder"], r["month"]): r for r in tables["by_month"].to_dicts()}
    # The first half of a is in March; of its 360 segments 0 and the one of 1799 s have a bird.
    assert rows["r1", "2017-03"]["n_segments"] == 360 and rows["r1", "2017-03"]["hours"] == 0.5
    assert rows["r1", "2017-03"]["silent_share"] == pytest.approx(358 / 360)
    april = rows["r1", "2017-04"]
    assert (april["n_recordings"], april["n_silent"], april["n_segments"]) == (2, 0, 363)
    assert april["silent_share"] == pytest.approx(3 / 363) and april["hours"] == pytest.approx(1812 / 3600)
    assert rows["r2", None]["silent_share"] is None and rows["r2", None]["reason"]
    assert rows[None, "2017-04"]["n_segments"] == 3
    hours = {r["hour"]: r for r in tables["by_hour"].to_dicts()}
    assert set(hours) == {0, 5, 23, None} and hours[23]["n_segments"] == 360


def test_counts() -> None:
    tables = audit_tables(FOUR, HEARD, classes=["x", "w", "v"])
    expected = {
        "recordings": 4, "without_length": 2, "without_start": 1, "silent_recordings": 1, "annotations": 6,
        "distinct_annotations": 6, "species": 3, "past_the_end": 1, "without_span": 1, "outside_recordings": 1,
        "outside_classes": 2, "classes": 3, "never": 2, "segments": 720 + 3 + 3, "segments_with_species": 2 + 360 + 1,
    }  # fmt: skip
    assert {name: value(tables, name) for name in expected} == expected
    assert value(tables, "hours") == pytest.approx((3600 + 12 + 15) / 3600)
    assert tables["counts"]["name"].to_list() == list(COUNTS)
    assert tables["never"]["class_id"].to_list() == ["w", "v"] and tables["silent"]["media_id"].to_list() == ["c"]
    species = {r["class_id"]: r for r in tables["species"].to_dicts()}
    assert species["x"] == {"class_id": "x", "n_annotations": 3, "n_segments": 1, "n_recordings": 2, "in_classes": True}


def test_what_cannot_be_said_has_its_reason() -> None:
    tables = audit_tables(FOUR.filter(pl.col("duration_s").is_null()), HEARD)
    assert value(tables, "past_the_end") is None and value(tables, "never") is None
    counts = tables["counts"]
    assert (counts["value"].is_null() == counts["reason"].is_not_null()).all()


def test_nothing_at_all() -> None:
    tables = audit_tables(FOUR.head(0), HEARD.head(0), classes=[])
    assert value(tables, "recordings") == 0 and value(tables, "hours") == 0
    assert tables["by_month"].is_empty() and tables["never"].is_empty()
    bare = audit_tables(pl.DataFrame({"media_id": ["a"]}), HEARD)
    assert value(bare, "segments") == 800


def test_against_a_loop_over_segments() -> None:
    rng = np.random.default_rng(0)
    begin = datetime(2017, 1, 30, 20)
    rows = [
        (f"m{i}", float(rng.integers(1, 4000)), f"r{i % 3}", begin + timedelta(hours=float(rng.integers(0, 60))))
        for i in range(12)
    ]
    heard = []
    for _ in range(60):
        media, seconds, *_ = rows[rng.integers(0, 10)]
        start = rng.random() * seconds
        heard.append((media, f"c{rng.integers(0, 4)}", start, min(start + rng.random() * 30, seconds)))
    hours: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for media, seconds, _, start in rows:
        for k in range(math.ceil(seconds / 5)):
            hit = any(m == media and math.floor(a / 5) <= k <= math.ceil(b / 5) - 1 for m, _, a, b in heard)
            cell = hours[(start + timedelta(seconds=5 * k)).hour]
            cell[0] += 1
            cell[1] += not hit
    tables = audit_tables(made(rows), spans(heard))
    got = {r["hour"]: (r["n_segments"], r["silent_share"]) for r in tables["by_hour"].to_dicts()}
    assert set(got) == set(hours)
    for hour, (n, silent) in hours.items():
        assert got[hour][0] == n and got[hour][1] == pytest.approx(silent / n)
    assert sum(r["hours"] for r in tables["by_month"].to_dicts()) == pytest.approx(sum(r[1] for r in rows) / 3600)
    truth = code_truth(spans(heard), made(rows))
    assert value(tables, "segments") == truth.grid.n_segments and value(tables, "segment_species") == len(truth.seg)
