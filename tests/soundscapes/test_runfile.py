"""Run files: every case, every error with its line, repairs, parquet, blocks that meet in the middle of lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError
from birdlab.readers import runfile_blocks
from birdlab.readers.runfile import read_run
from birdlab.readers.runfile_errors import time_code
from birdlab.readers.soundscape_truth import read_annotations
from birdlab.soundscapes.coded import Coded, Grid, Truth
from birdlab.soundscapes.scores import run_scores
from birdlab.soundscapes.truth import code_truth

CASES = json.loads((Path(__file__).parents[1] / "data/soundscapes/cmap_cases.json").read_text())["cases"]
CLASSES = ("amecro", "blujay", "cangoo", "norcar")
LINES = (
    "SSW0001;00:00:00-00:00:05;amecro;0.9",
    "SSW0001;00:00:05-00:00:10;amecro;0.4",
    "SSW0002;00:00:00-00:00:05;blujay;0.7",
)


@pytest.fixture
def truth() -> Truth:
    """Two recordings of 20 s; the second is silent but for one jay."""
    rows = {"media_id": ["SSW0001", "SSW0002"], "class_id": ["amecro", "blujay"], "start_s": [0, 15]}
    table = pl.DataFrame({"media_id": ["SSW0001", "SSW0002"], "duration_s": [20.0, 20.0]})
    return code_truth(pl.DataFrame(rows), table, CLASSES)


def read(folder: Path, truth: Truth, text: str | bytes, **options) -> Coded:
    path = folder / "run.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_run(path, truth, name="run", **options)


def refused(folder: Path, truth: Truth, text: str | bytes, **options) -> list[tuple[str, int | None]]:
    """Codes and lines of the problems."""
    with pytest.raises(DataError) as error:
        read(folder, truth, text, **options)
    assert all(p.file == str(folder / "run.txt") and p.found and p.expected for p in error.value.problems)
    return [(p.code, p.line) for p in error.value.problems]


def rows_of(run: Coded, truth: Truth) -> set[tuple[int, str, float]]:
    return {(int(s), truth.classes[c], float(v)) for s, c, v in zip(run.seg, run.cls, run.score, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_cases(tmp_path, case):
    (tmp_path / "gt.csv").write_text(case["gt"])
    table = None
    if case.get("recordings"):
        held = case["recordings"]
        table = pl.DataFrame({"media_id": list(held), "duration_s": list(held.values())})
    truth = code_truth(read_annotations(tmp_path / "gt.csv").annotations, table, case["classes"])
    most = case.get("options", {}).get("max_classes_per_segment")
    wanted = case["birdlab"]
    if wanted["verdict"] == "error":
        found = refused(tmp_path, truth, case["run"], max_classes=most)
        assert found[0] == (wanted["code"], wanted["line"])
        return
    result = run_scores(truth, read(tmp_path, truth, case["run"], max_classes=most))
    codes = [w["code"] for w in result["warnings"] if table is not None or w["code"] != "beyond_end"]
    assert codes == wanted.get("warnings", [])
    names = {"optimistic": "", "pessimistic": "_pessimistic", "expected": "_expected", "step": "_step"}
    for rule, suffix in names.items():
        expected = case["expected"][rule]
        assert result[f"cmap{suffix}"] == pytest.approx(expected["cmap"], abs=1e-14)
        assert result[f"rmap{suffix}"] == pytest.approx(expected["rmap"], abs=1e-14)
        aps = dict(result["classes"].select("class_id", f"ap{suffix}").rows())
        assert aps == pytest.approx(expected["ap"], abs=1e-14)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("SSW0001;00:00:00-00:00:05;amecro", "fields"),
        ("SSW0001;00:00:00-00:00:05;amecro;0.5;", "fields"),
        ("", "fields"),
        ("SSW0001\t00:00:00-00:00:05\tamecro\t0.5", "fields"),
        ("<SSW0001;00:00:10-00:00:15;amecro;0.5>", "brackets"),
        ("media_id;time;class_id;probability", "header"),
        ("SSW0001;0:0:10-0:0:15;amecro;0.5", "timecode_format"),
        ("SSW0001;00:00:10;amecro;0.5", "timecode_format"),
        ("SSW0001;00:60:00-00:60:05;amecro;0.5", "timecode_format"),
        ("SSW0001;24:00:00-24:00:05;amecro;0.5", "timecode_format"),
        ("SSW0001;23:59:55-24:00:00;amecro;0.5", "timecode_format"),
        ("SSW0001;٠٠:00:10-00:00:15;amecro;0.5", "timecode_format"),
        ("SSW0001;00:00:11-00:00:16;amecro;0.5", "timecode_grid"),
        ("SSW0001;00:00:10-00:00:20;amecro;0.5", "timecode_length"),
        ("SSW0001;00:00:10-00:00:10;amecro;0.5", "timecode_length"),
        ("ssw0001;00:00:10-00:00:15;amecro;0.5", "media_unknown"),
        (";00:00:10-00:00:15;amecro;0.5", "media_unknown"),
        ("SSW0001;00:00:10-00:00:15;Amecro;0.5", "class_unknown"),
        ('SSW0001;00:00:10-00:00:15;"amecro";0.5', "class_unknown"),
        *((f"SSW0001;00:00:10-00:00:15;amecro;{p}", "probability") for p in
          ("1.5", "-0.1", "nan", "NaN", "inf", "-inf", "0,5", "", "0_1", "0x1", "half", "1e400", "0.5f", "٠.٥")),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path, truth, line, code):
    assert refused(tmp_path, truth, "\n".join([*LINES, line, ""])) == [(code, 4)]
    assert refused(tmp_path, truth, "\n".join([line, *LINES])) == [(code, 1)]


@pytest.mark.parametrize("number", ["0.5", ".5", "5e-1", "+0.5", " 0.5", "0.5 ", "\t0.5\t", "0.50000000000", "5E-1"])
def test_numbers_that_the_official_reader_takes(tmp_path, truth, number):
    run = read(tmp_path, truth, f"{LINES[1]}\nSSW0001;00:00:10-00:00:15;norcar;{number}\n{LINES[0]}\n")
    assert (2, "norcar", 0.5) in rows_of(run, truth) and len(run.score) == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_numbers_are_the_same_doubles(tmp_path_factory, values):
    truth = code_truth(pl.DataFrame({"media_id": ["a"], "class_id": ["x"], "start_s": [0]}))
    lines = [f"a;{time_code(i)};x;{v!r}" for i, v in enumerate(values)]
    for last in ("", "a;00:50:00-00:50:05;x;0.5 \n"):  # a space sends the block down the other way
        run = read(tmp_path_factory.mktemp("run"), truth, "\n".join([*lines, last]))
        by_segment = run.score[np.argsort(run.seg)]
        assert by_segment[: len(values)].tolist() == values


def test_all_errors_are_listed_in_order_up_to_twenty(tmp_path, truth):
    bad = [f"SSW0001;00:00:10-00:00:15;b{i};0.5" for i in range(30)]
    text = "\n".join([LINES[0], *bad, LINES[1], LINES[0]])
    with pytest.raises(DataError) as error:
        read(tmp_path, truth, text)
    *listed, last = error.value.problems
    assert [p.line for p in listed] == list(range(2, 22)) and {p.code for p in listed} == {"class_unknown"}
    assert last.code == "more" and last.found == "and 11 more problems"


def test_errors_of_every_kind_come_in_the_order_of_the_file(tmp_path, truth):
    text = "\n".join([LINES[0], LINES[0], "x", LINES[1], "SSW0001;00:00:00-00:00:05;amecro;0.1", LINES[2], "y;;;"])
    assert refused(tmp_path, truth, text) == [
        ("duplicate", 2),
        ("fields", 3),
        ("duplicate", 5),
        ("timecode_format", 7),
    ]


def test_messages_quote_the_line_and_help(tmp_path, truth):
    with pytest.raises(DataError) as error:
        read(tmp_path, truth, "\n".join([*LINES, LINES[1], "SSW0001;00:00:10-00:00:15;AMECRO;0.5"]))
    same, case = error.value.problems
    assert same.found == repr(LINES[1]) and case.remedy == "did you mean amecro?"


@pytest.mark.parametrize("extra", [{}, {"max_classes": 9}])
def test_duplicates_far_apart_and_side_by_side(tmp_path, truth, monkeypatch, extra):
    monkeypatch.setattr(runfile_blocks, "BLOCK", 120)
    cells = [f"{m};{time_code(k)};{c};0.{k}" for m in ("SSW0001", "SSW0002") for k in range(4) for c in CLASSES]
    assert len(read(tmp_path, truth, "\n".join(cells), **extra).score) == 32
    text = "\n".join([*cells, cells[0], cells[31], cells[31]])
    assert refused(tmp_path, truth, text, **extra) == [("duplicate", 33), ("duplicate", 34), ("duplicate", 35)]
    beyond = f"SSW0001;{time_code(50)};amecro;0.5"
    assert refused(tmp_path, truth, "\n".join([*cells, beyond, cells[0], beyond]), **extra) == [
        ("duplicate", 34),
        ("duplicate", 35),
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.sets(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
    st.sampled_from([60, 97, 500]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_blocks_orders_and_line_ends_make_no_difference(tmp_path_factory, cells, random, size, end):
    rows = {"media_id": ["SSW0001", "SSW0002"], "class_id": ["amecro", "blujay"], "start_s": [0, 15]}
    table = pl.DataFrame({"media_id": ["SSW0001", "SSW0002"], "duration_s": [20.0, 20.0]})
    truth = code_truth(pl.DataFrame(rows), table, CLASSES)
    lines = [f"SSW000{m + 1};{time_code(k)};{CLASSES[c]};0.{m}{k}{c}" for m, k, c in sorted(cells)]
    whole = read(tmp_path_factory.mktemp("whole"), truth, "\n".join(lines))
    random.shuffle(lines)
    kept = runfile_blocks.BLOCK
    runfile_blocks.BLOCK = size
    try:
        cut = read(tmp_path_factory.mktemp("cut"), truth, end.join(lines), max_classes=random.choice([None, 4]))
    finally:
        runfile_blocks.BLOCK = kept
    assert rows_of(cut, truth) == rows_of(whole, truth) and cut.n_beyond == whole.n_beyond
    for one, other in zip(run_scores(truth, cut).values(), run_scores(truth, whole).values(), strict=True):
        assert one.equals(other) if isinstance(one, pl.DataFrame) else one == other


def test_mixed_line_ends_are_counted_as_lines(tmp_path, truth):
    text = f"{LINES[0]}\r\n{LINES[1]}\r{LINES[2]}\nbad\r\n"
    assert refused(tmp_path, truth, text) == [("fields", 4)]


def test_gzip_is_read_and_said(tmp_path, truth):
    run = read(tmp_path, truth, gzip.compress("\n".join(LINES).encode()))
    assert [w["code"] for w in run.warnings] == ["gzip"] and len(run.score) == 3
    bad = gzip.compress("\n".join([*LINES, LINES[0]]).encode())
    assert refused(tmp_path, truth, bad) == [("duplicate", 4)]


def test_bom_and_empty_files_are_remarked(tmp_path, truth):
    assert [w["code"] for w in read(tmp_path, truth, "\ufeff" + LINES[0]).warnings] == ["bom"]
    for nothing in ("", "\ufeff"):
        assert [w["code"] for w in read(tmp_path, truth, nothing).warnings][-1] == "empty_run"


def test_segments_past_the_end_are_wrong_and_counted(tmp_path, truth):
    run = read(tmp_path, truth, "\n".join([*LINES, "SSW0002;00:00:45-00:00:50;amecro;0.99"]))
    assert run.n_beyond == 1 and run.warnings[0]["code"] == "beyond_end"
    assert run.seg.max() == truth.grid.n_segments == 8
    assert run_scores(truth, run)["classes"]["ap"][0] == 0.5


def test_without_lengths_nothing_is_past_an_end(tmp_path):
    truth = code_truth(pl.DataFrame({"media_id": ["a"], "class_id": ["x"], "start_s": [0]}))
    run = read(tmp_path, truth, "a;00:10:00-00:10:05;x;0.5\n")
    assert run.n_beyond == 0 and run.warnings == () and run.seg.tolist() == [1]


def test_most_classes_per_segment(tmp_path, truth):
    lines = [f"SSW0001;00:00:00-00:00:05;{c};0.5" for c in CLASSES]
    assert refused(tmp_path, truth, "\n".join([*LINES[1:], *lines]), max_classes=2) == [
        ("too_many", 5),
        ("too_many", 6),
    ]
    assert len(read(tmp_path, truth, "\n".join(lines), max_classes=4).score) == 4


# --- lenient -----------------------------------------------------------------


def test_repairs_are_made_and_counted(tmp_path, truth):
    text = (
        "MediaId;TC1-TC2;ClassId;Probability\n"
        "< SSW0001;00:00:00-00:00:05;amecro;0.9>\n"
        "\n"
        "  SSW0001 ; 0:0:5-0:0:10 ; amecro ; 0.4  \n"
        "SSW0002;00:00:00-00:00:05;blujay;0.7\n"
        "   \n"
    )
    assert [line for _, line in refused(tmp_path, truth, text)] == [1, 2, 3, 4, 6]
    run = read(tmp_path, truth, text, lenient=True)
    assert rows_of(run, truth) == rows_of(read(tmp_path, truth, "\n".join(LINES)), truth)
    assert {w["code"]: w["n"] for w in run.warnings} == {
        "repaired_blank": 2, "repaired_brackets": 1, "repaired_header": 1, "repaired_spaces": 2, "repaired_times": 1,
    }  # fmt: skip
    assert "line 3 first" in next(w["message"] for w in run.warnings if w["code"] == "repaired_blank")


def test_repairs_do_not_hide_errors(tmp_path, truth):
    # A padded and an unpadded copy of a segment are one; a name is never guessed, a number never changed.
    text = "\n".join([LINES[0], "", "SSW0001;0:0:0-0:0:5;amecro;0.9", "SSW0001;00:00:10-00:00:15;AMECRO;0.5"])
    assert refused(tmp_path, truth, text, lenient=True) == [("duplicate", 3), ("class_unknown", 4)]
    assert refused(tmp_path, truth, LINES[0].replace("0.9", "0,9"), lenient=True) == [("probability", 1)]


# --- parquet -----------------------------------------------------------------


def frame_of(text: str) -> pl.DataFrame:
    names = ["media_id", "time", "class_id", "probability"]
    return pl.DataFrame([(*line.split(";")[:3], float(line.split(";")[3])) for line in text.split("\n")], names, orient="row")  # fmt: skip


def test_parquet_is_read_whatever_its_name(tmp_path, truth):
    wanted = rows_of(read(tmp_path, truth, "\n".join(LINES)), truth)
    frame = frame_of("\n".join(LINES))
    starts = frame.with_columns(start_s=pl.Series([0.0, 5.0, 0.0])).drop("time")
    coded = frame.with_columns(pl.col("media_id", "class_id").cast(pl.Categorical))
    upper = frame.rename(
        {"media_id": "MediaId", "time": "TC1-TC2", "class_id": "ClassId", "probability": "Probability"}
    )
    for table in (frame, starts, starts.cast({"start_s": pl.Int16}), coded, upper):
        table.write_parquet(tmp_path / "run.txt")
        assert rows_of(read_run(tmp_path / "run.txt", truth, name="r"), truth) == wanted


@pytest.mark.parametrize("dictionary", [True, False])
def test_parquet_of_many_groups_each_with_names_of_its_own(tmp_path, dictionary):
    grid = Grid(("a", "b", "c"), np.array([0, 30, 50, 60]), np.array([True, True, True]))
    truth = Truth(grid, CLASSES, np.array([3, 40], np.int32), np.array([0, 2], np.int32))
    rng = np.random.default_rng(8)
    cells = [("abc"[m], k, c) for m, n in ((2, 10), (0, 33), (1, 20)) for k in range(n) for c in CLASSES]
    cells = [cells[i] for i in rng.permutation(len(cells))]
    text = "\n".join(f"{m};{time_code(k)};{c};{rng.random():.10f}" for m, k, c in cells)
    wanted = rows_of(read(tmp_path, truth, text), truth)
    assert len(wanted) == len(cells)
    table = frame_of(text).to_arrow()
    path = tmp_path / "groups.parquet"
    pq.write_table(table, path, row_group_size=7, use_dictionary=dictionary)
    assert rows_of(read_run(path, truth, name="r"), truth) == wanted
    names = table.column("class_id").to_pylist()
    names[100] = "nobody"
    table = table.set_column(table.column_names.index("class_id"), "class_id", [names])
    pq.write_table(table, path, row_group_size=7, use_dictionary=dictionary)
    with pytest.raises(DataError) as error:
        read_run(path, truth, name="r")
    assert [(p.code, p.record) for p in error.value.problems] == [("class_unknown", "row 101")]


def test_parquet_with_a_broken_page_is_told(tmp_path, truth):
    table = frame_of("\n".join(LINES))
    table.write_parquet(tmp_path / "r.parquet")
    whole = bytearray((tmp_path / "r.parquet").read_bytes())
    whole[4:40] = b"\xff" * 36
    (tmp_path / "r.parquet").write_bytes(whole)
    with pytest.raises(DataError, match="a parquet file") as error:
        read_run(tmp_path / "r.parquet", truth, name="r")
    assert error.value.problems[0].code == "damaged"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"probability": 1.5}, "probability"),
        ({"probability": float("nan")}, "probability"),
        ({"probability": None}, "probability"),
        ({"media_id": "SSW9"}, "media_unknown"),
        ({"media_id": None}, "media_unknown"),
        ({"class_id": "x"}, "class_unknown"),
        ({"start_s": 3}, "timecode_format"),
        ({"start_s": -5}, "timecode_format"),
        ({"start_s": None}, "timecode_format"),
        ({}, "duplicate"),
    ],
)
def test_a_bad_row_of_parquet_is_named(tmp_path, truth, change, code):
    rows = [("SSW0001", 0, "amecro", 0.9), ("SSW0001", 5, "amecro", 0.4), ("SSW0001", 5, "amecro", 0.4)]
    names = ["media_id", "start_s", "class_id", "probability"]
    last = {**dict(zip(names, rows[2], strict=True)), **change}
    pl.DataFrame([*rows[:2], tuple(last.values())], names, orient="row").write_parquet(tmp_path / "r.parquet")
    with pytest.raises(DataError) as error:
        read_run(tmp_path / "r.parquet", truth, name="r")
    assert [(p.code, p.record) for p in error.value.problems] == [(code, "row 3")]


def test_parquet_without_its_columns(tmp_path, truth):
    pl.DataFrame({"media_id": ["a"], "class_id": [1], "score": [0.5]}).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(DataError) as error:
        read_run(tmp_path / "r.parquet", truth, name="r")
    assert {(p.code, p.key) for p in error.value.problems} == {("no_column", "time"), ("bad_type", "class_id")}
    (tmp_path / "r.parquet").write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(DataError, match="a parquet file"):
        read_run(tmp_path / "r.parquet", truth, name="r")


def test_matrix_and_list_hold_the_same(tmp_path):
    rng = np.random.default_rng(3)
    grid = Grid(("a", "b"), np.array([0, 30, 50]), np.array([True, True]))
    truth = Truth(grid, CLASSES, np.array([3, 40], np.int32), np.array([0, 2], np.int32))
    cells = [(m, k, c) for m, n in ((0, 33), (1, 20)) for k in range(n) for c in range(4) if rng.random() < 0.8]
    text = "\n".join(f"{'ab'[m]};{time_code(k)};{CLASSES[c]};{rng.random():.10f}" for m, k, c in cells)
    dense, listed = read(tmp_path, truth, text), read(tmp_path, truth, text, max_classes=4)
    assert rows_of(dense, truth) == rows_of(listed, truth) and dense.starts.tolist() == listed.starts.tolist()
    assert len(dense.score) == len(cells) and dense.n_beyond == 3


def test_results_of_another_file_do_not_shine_through(tmp_path, truth):
    for _ in range(2):
        assert len(read(tmp_path, truth, "\n".join(LINES)).score) == 3


def test_a_run_that_lists_everything_is_the_same_as_a_list(tmp_path, truth):
    rng = np.random.default_rng(5)
    cells = [f"{m};{time_code(k)};{c};{rng.random():.3f}" for m in truth.grid.media for k in range(4) for c in CLASSES]
    full, listed = read(tmp_path, truth, "\n".join(cells)), read(tmp_path, truth, "\n".join(cells), max_classes=4)
    for key in ("seg", "cls", "score", "starts"):
        assert getattr(full, key).tolist() == getattr(listed, key).tolist()
    assert full.seg.dtype == full.cls.dtype == np.int32 and full.n_beyond == 0
    one, other = run_scores(truth, full), run_scores(truth, listed)
    assert one["classes"].equals(other["classes"]) and one["segments"].equals(other["segments"])
