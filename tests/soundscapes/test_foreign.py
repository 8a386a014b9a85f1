"""Predictions in other layouts, and run files written."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError, ParameterError
from birdlab.readers.birdnet import read_birdnet, read_label_map, to_segments
from birdlab.readers.run_write import write_run
from birdlab.readers.wide_submission import is_wide, read_wide_submission

HEAD = "Start (s){0}End (s){0}Scientific name{0}Common name{0}Confidence\n"
ROWS = [
    ("3.0", "6.0", "Cardinalis cardinalis", "Northern Cardinal", "0.8"),
    ("6.0", "9.0", "Cardinalis cardinalis", "Northern Cardinal", "0.9"),
    ("0.0", "3.0", "Corvus brachyrhynchos", "American Crow", "0.5"),
    ("9.0", "12.0", "Dog", "Dog", "0.4"),
]


def table(delimiter: str, rows: list[tuple] = ROWS) -> str:
    return HEAD.format(delimiter) + "".join(delimiter.join(row) + "\n" for row in rows)


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("delimiter", [";", ","])
def test_birdnet(tmp_path: Path, delimiter: str) -> None:
    read = read_birdnet(written(tmp_path, "site_1.BirdNET.results.csv", table(delimiter)))
    # 3-6 and 6-9 lie on segments 0 and 5 by two and one, and by three seconds.
    assert read.table.rows() == [
        ("site_1", 0, "amecro", 0.5),
        ("site_1", 0, "norcar", 0.8),
        ("site_1", 5, "norcar", 0.9),
    ]
    found = {n.code: n.n for n in read.notices}
    assert found == {"by_ebird": 2, "no_class": 1, "windows_to_segments": 3}


def test_birdnet_in_one_table_and_in_many(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path, f"many/{name}.BirdNET.results.csv", table(","))
    written(tmp_path, "many/BirdNET_analysis_params.csv", "x,y\n1,2\n")
    rows = [(*row, f"/data/{name}.wav") for name in ("a", "b") for row in ROWS]
    one = written(tmp_path, "one.csv", table(",", rows).replace("Confidence\n", "Confidence,File\n"))
    many = read_birdnet(tmp_path / "many")
    assert many.table.rows() == read_birdnet(one).table.rows() and many.table.height == 6
    assert "aside" in [n.code for n in many.notices]


def test_birdnet_raven_table_and_r_table(tmp_path: Path) -> None:
    raven = (
        "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\tHigh Freq (Hz)\tCommon Name\tSpecies Code\t"
        "Confidence\tBegin Path\tFile Offset (s)\n"
        "1\tSpectrogram 1\t1\t3603\t3606\t0\t15000\tNorthern Cardinal\tnorcar\t0.8\t/d/b.wav\t3\n"
    )
    read = read_birdnet(written(tmp_path, "all.BirdNET.selection.table.txt", raven))
    assert read.table.rows() == [("b", 0, "norcar", 0.8), ("b", 5, "norcar", 0.8)][: read.table.height]
    assert read.table.height == 2  # 5-6 is one second of the next segment: at least 1 s
    r = "filepath,start,end,scientific_name,common_name,confidence\nb.wav,0,3,Cardinalis cardinalis,Northern Cardinal,0.8\n"
    assert read_birdnet(written(tmp_path, "r.csv", r)).table.rows() == [("b", 0, "norcar", 0.8)]


def test_birdnet_classes_and_label_map(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", table(","))
    read = read_birdnet(path, classes=["norcar"])
    assert set(read.table["class_id"]) == {"norcar"}
    assert {n.code: n.n for n in read.notices}["class_not_in_list"] == 1
    assert set(read_birdnet(path, classes=["Corvus brachyrhynchos", "Northern Cardinal"]).table["class_id"]) == {
        "Corvus brachyrhynchos",
        "Northern Cardinal",
    }
    mapping = read_label_map(written(tmp_path, "m.csv", "label,class_id\nDog_Dog,dog\nNorthern Cardinal,red\nx,\n"))
    assert mapping == {"Dog_Dog": "dog", "Northern Cardinal": "red"}
    read = read_birdnet(path, label_map=mapping)
    assert set(read.table["class_id"]) == {"dog", "red", "amecro"}
    with pytest.raises(DataError, match="label_twice|as b and as a"):
        read_label_map(written(tmp_path, "n.csv", "label,class_id\nx,a\nx,b\n"))


def test_birdnet_recordings_and_ends(tmp_path: Path) -> None:
    recordings = pl.DataFrame({"media_id": ["SSW0001"], "file": ["deep/a.flac"], "duration_s": [5.0]})
    read = read_birdnet(written(tmp_path, "a.BirdNET.results.csv", table(",")), recordings=recordings)
    assert read.table.select("media_id", "start_s").unique().rows() == [("SSW0001", 0)]
    assert {n.code: n.n for n in read.notices}["window_past_end"] == 1


def test_birdnet_without_a_detection(tmp_path: Path) -> None:
    read = read_birdnet(written(tmp_path, "a.csv", HEAD.format(",")))
    assert read.table.is_empty() and read.table.columns == ["media_id", "start_s", "class_id", "probability"]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("0", "3", "x", "y", "-1.5"), "prob_out_of_range"),
        (("0", "3", "x", "y", "87"), "prob_out_of_range"),
        (("0", "3", "x", "y", "nan"), "prob_out_of_range"),
        (("0", "3", "x", "y", ""), "prob_out_of_range"),
        (("3", "3", "x", "y", "0.5"), "bad_time"),
        (("-3", "0", "x", "y", "0.5"), "bad_time"),
        (("a", "3", "x", "y", "0.5"), "bad_time"),
    ],
)
def test_birdnet_wrong_rows(tmp_path: Path, row: tuple, code: str) -> None:
    with pytest.raises(DataError) as error:
        read_birdnet(written(tmp_path, "a.csv", table(",", [*ROWS, row])))
    assert [(p.code, p.line) for p in error.value.problems] == [(code, 6)]


def test_birdnet_other_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Start"):
        read_birdnet(written(tmp_path, "a.csv", "a,b\n1,2\n"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 160), st.integers(0, 1000)), min_size=1, max_size=12, unique=True
    )
)
def test_windows_on_the_grid_against_a_loop(windows: list[tuple[int, int, int]]) -> None:
    rows = [("a", "x", s / 10, (s + n) / 10, p / 1000) for s, n, p in windows]
    frame = pl.DataFrame(rows, schema=["media_id", "class_id", "start_s", "end_s", "probability"], orient="row")
    expected: dict[int, float] = {}
    for s, n, p in windows:
        for k in range(0, 15):
            # In tenths of a second: exact.
            shared = min(s + n, 50 * k + 50) - max(s, 50 * k)
            if shared > 0 and 2 * shared >= min(20, n):
                expected[5 * k] = max(expected.get(5 * k, 0), p / 1000)
    got = to_segments(frame)
    assert dict(got.select("start_s", "probability").iter_rows()) == expected
    # No window is lost.
    assert all(to_segments(frame[i : i + 1]).height >= 1 for i in range(frame.height))


WIDE = "row_id,amecro,blujay\nsite_a_5,0.1,0.25\nsite_a_10,0,1\n49846_5,1e-3,0.5\n"


def test_wide(tmp_path: Path) -> None:
    read = read_wide_submission(written(tmp_path, "s.csv", WIDE))
    assert sorted(read.table.rows()) == [
        ("49846", 0, "amecro", 0.001),
        ("49846", 0, "blujay", 0.5),
        ("site_a", 0, "amecro", 0.1),
        ("site_a", 0, "blujay", 0.25),
        ("site_a", 5, "amecro", 0.0),
        ("site_a", 5, "blujay", 1.0),
    ]
    with (tmp_path / "s.csv").open() as file:
        total = sum(float(v) for row in csv.DictReader(file) for k, v in row.items() if k != "row_id")
    assert read.table["probability"].sum() == pytest.approx(total, abs=1e-12)
    pl.read_csv(tmp_path / "s.csv").write_parquet(tmp_path / "s.parquet")
    assert sorted(read_wide_submission(tmp_path / "s.parquet").table.rows()) == sorted(read.table.rows())


def test_wide_recordings_and_classes(tmp_path: Path) -> None:
    path = written(tmp_path, "s.csv", WIDE)
    recordings = pl.DataFrame({"media_id": ["SSW1", "49846"], "file": ["site_a.ogg", None], "duration_s": [9.0, 9.0]})
    read = read_wide_submission(path, recordings=recordings, classes=["amecro", "blujay", "norcar"])
    assert set(read.table["media_id"]) == {"SSW1", "49846"}
    assert {n.code: n.n for n in read.notices} == {"class_without_column": 1}
    with pytest.raises(DataError) as error:
        read_wide_submission(path, classes=["amecro"])
    assert [(p.code, p.key) for p in error.value.problems] == [("class_unknown", "blujay")]


@pytest.mark.parametrize(
    ("text", "code", "line", "hint"),
    [
        (WIDE.replace("0.25", "-2.5"), "prob_out_of_range", 2, "logits"),
        (WIDE.replace("0.25", "25"), "prob_out_of_range", 2, "percents"),
        (WIDE.replace("0.25", ""), "bad_cell", 2, ""),
        (WIDE.replace("0.25", "nan"), "bad_cell", 2, ""),
        (WIDE.replace("0.25", "x"), "bad_cell", 2, ""),
        (WIDE.replace("site_a_10", "site_a_7"), "bad_row_id", 3, ""),
        (WIDE.replace("site_a_10", "site_a_0"), "bad_row_id", 3, ""),
        (WIDE.replace("site_a_10", "10"), "bad_row_id", 3, ""),
        (WIDE.replace("site_a_10", "site_a_5"), "row_id_twice", 3, ""),
        ("row_id,target\na_5,1\n", "missing_column", 1, ""),
        ("\n\n" + WIDE.replace("0.25", "-2.5"), "prob_out_of_range", 4, "logits"),
    ],
)
def test_wide_wrong(tmp_path: Path, text: str, code: str, line: int, hint: str) -> None:
    with pytest.raises(DataError) as error:
        read_wide_submission(written(tmp_path, "s.csv", text))
    first = error.value.problems[0]
    assert (first.code, first.line) == (code, line) and hint in first.remedy


def test_what_is_wide() -> None:
    assert is_wide(["row_id", "amecro"]) and not is_wide(["row_id", "birds"]) and not is_wide(["media_id", "a"])


def test_runs_are_written_in_the_official_layout(tmp_path: Path) -> None:
    rows = [("PER_49", 310, "hauthr1", 0.88764), ("a", 360_000, "x", 1e-7), ("a", 3595, "x", 1.0), ("a", 0, "y", 0.0)]
    frame = pl.DataFrame(rows, schema=["media_id", "start_s", "class_id", "probability"], orient="row")
    write_run(frame, tmp_path / "deep" / "run.txt")
    assert (tmp_path / "deep" / "run.txt").read_text().splitlines() == [
        "PER_49;00:05:10-00:05:15;hauthr1;0.8876400000",
        "a;100:00:00-100:00:05;x;0.0000001000",
        "a;00:59:55-01:00:00;x;1.0000000000",
        "a;00:00:00-00:00:05;y;0.0000000000",
    ]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["run.txt"]


@pytest.mark.parametrize(
    "row",
    [
        ("a;b", 0, "x", 0.5),
        ("a", 3, "x", 0.5),
        ("a", -5, "x", 0.5),
        ("a", 0, "x", 1.5),
        ("a", 0, "x", float("nan")),
        ("a", 0, None, 0.5),
        ("a", 5, "x\n", 0.5),
    ],
)
def test_rows_that_no_run_can_hold(tmp_path: Path, row: tuple) -> None:
    schema = {"media_id": pl.String, "start_s": pl.Int64, "class_id": pl.String, "probability": pl.Float64}
    frame = pl.DataFrame([row], schema=schema, orient="row")
    with pytest.raises(ParameterError):
        write_run(frame, tmp_path / "run.txt")
    assert not list(tmp_path.iterdir())


def test_a_run_with_a_row_twice(tmp_path: Path) -> None:
    frame = pl.DataFrame({"media_id": ["a", "a"], "start_s": [0, 0], "class_id": ["x", "x"], "probability": [0.1, 0.2]})
    with pytest.raises(ParameterError, match="twice in 2 rows"):
        write_run(frame, tmp_path / "run.txt")


def test_round_trip_through_the_reader_of_runs(tmp_path: Path) -> None:
    from birdlab.readers.runfile import read_run
    from birdlab.soundscapes.truth import code_truth

    rng = np.random.default_rng(3)
    grid = [(m, 5 * k, c) for m in ("a_1", "49846") for k in range(30) for c in ("x", "y", "z")]
    frame = pl.DataFrame(grid, schema=["media_id", "start_s", "class_id"], orient="row")
    frame = frame.with_columns(probability=pl.Series(rng.random(len(grid)).round(10)))
    write_run(frame, tmp_path / "run.txt")
    recordings = pl.DataFrame({"media_id": ["a_1", "49846"], "duration_s": [150.0, 150.0]})
    nothing = pl.DataFrame(
        schema={"media_id": pl.String, "class_id": pl.String, "start_s": pl.Float64, "end_s": pl.Float64}
    )
    truth = code_truth(nothing, recordings, ["x", "y", "z"])
    coded = read_run(tmp_path / "run.txt", truth, name="r")
    media = {m: i for i, m in enumerate(truth.grid.media)}
    expected = {
        (int(truth.grid.offsets[media[m]]) + s // 5, truth.classes.index(c)): p for m, s, c, p in frame.iter_rows()
    }
    assert (
        dict(zip(zip(coded.seg.tolist(), coded.cls.tolist(), strict=True), coded.score.tolist(), strict=True))
        == expected
    )
