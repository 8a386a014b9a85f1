"""MOT text, read and written, and `birdlab score tracking`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import polars as pl
import pytest

from birdlab.errors import DataError, ParameterError
from birdlab.individuals.command_tracking import score_command
from birdlab.readers.mot import SCHEMA, read_mot, write_mot

TRUTH = "".join(f"{f},1,0,0,10,10,1,1,1\n" for f in range(1, 5))
SWITCHED = "".join(f"{f},{1 if f < 3 else 2},0,0,10,10,0.9,-1,-1,-1\n" for f in range(1, 5))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_truth_and_results_are_read_alike(tmp_path: Path) -> None:
    truth = read_mot(write(tmp_path / "gt.txt", "1,7,10.5,20,30,40,1,1,0.5\n\n3, 7, 1 ,2,3,4\n"))
    assert truth.rows() == [(0, "7", 10.5, 20.0, 40.5, 60.0, 1.0), (2, "7", 1.0, 2.0, 4.0, 6.0, 1.0)]
    assert read_mot(write(tmp_path / "p.txt", "1 7.0 -2 0 5 5 0.25 -1 -1 -1\n")).rows() == [
        (0, "7", -2.0, 0.0, 3.0, 5.0, 0.25)
    ]
    assert read_mot(write(tmp_path / "none.txt", "")).schema == pl.Schema(SCHEMA)


def test_everything_wrong_is_in_one_error_with_its_line(tmp_path: Path) -> None:
    text = "1,1,0,0,5,5\n1,1,9,9,5,5\n1,2,0,0\n0,1,0,0,5,5\n2,1,a,0,5,5\n3,1,0,0,-5,5\n4,1,0,0,nan,5\n2.5,1,0,0,5,5\n"
    path = write(tmp_path / "bad.txt", text)
    with pytest.raises(DataError) as error:
        read_mot(path)
    found = [(p.line, p.code) for p in error.value.problems]
    assert found == [
        (2, "id_twice"),
        (3, "short_line"),
        (4, "bad_number"),
        (5, "not_a_number"),
        (6, "negative_size"),
        (7, "bad_number"),
        (8, "bad_number"),
    ]
    assert all(p.file == str(path) for p in error.value.problems)
    with pytest.raises(DataError, match="no such file"):
        read_mot(tmp_path / "missing.txt")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not text"):
        read_mot(tmp_path / "bytes.txt")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rows = [(4, "3", 0.25, 1.5, 10.25, 21.5, 0.5), (0, "12", 1.0, 2.0, 3.0, 4.0, 1.0)]
    boxes = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    again = read_mot(write(tmp_path / "a.txt", write_mot(boxes)))
    assert again.rows() == sorted(rows)
    named = boxes.with_columns(pl.Series("track_id", ["oaor_2", "rgab_1"]))
    assert read_mot(write(tmp_path / "b.txt", write_mot(named)))["track_id"].to_list() == ["2", "1"]
    assert write_mot(boxes.clear()) == ""


def score(capsys: pytest.CaptureFixture[str], truth: Path, *predictions: Path, frames: int | None = None) -> list[dict]:
    args = argparse.Namespace(truth=truth, predictions=list(predictions), frames=frames, json=True)
    assert score_command(args) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)["trackers"]


def test_one_switch_in_four_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, found = write(tmp_path / "gt.txt", TRUTH), write(tmp_path / "sort.txt", SWITCHED)
    nothing = write(tmp_path / "nothing.txt", "")
    one, none = score(capsys, truth, found, nothing)
    assert (one["name"], one["n_videos"], one["n_frames"], one["n_boxes"], one["n_tracks"]) == ("sort", 1, 4, 4, 2)
    assert one["hota"] == pytest.approx(0.5**0.5, abs=1e-12)
    assert (one["mota"], one["idf1"], one["id_switches"]) == (0.75, 0.5, 1)
    assert one["ci"]["hota"] is None and "one video" in one["reasons"]["ci.hota"]
    assert (none["hota"], none["idf1"], none["motp"]) == (0.0, 0.0, None) and "motp" in none["reasons"]


def test_folders_of_videos_are_pooled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for video, text in (("a", SWITCHED), ("b", TRUTH), ("c", SWITCHED)):
        write(tmp_path / "gt" / f"{video}.txt", TRUTH)
        if video != "c":
            write(tmp_path / "sort" / f"{video}.txt", text)
    (got,) = score(capsys, tmp_path / "gt", tmp_path / "sort", frames=6)
    assert (got["n_videos"], got["n_frames"], got["n_boxes"]) == (3, 18, 12)
    # By hand: 4 boxes missed, one switch: 1 - 5 / 12; identities right 2 + 4 of (12 + 8) / 2.
    assert got["mota"] == pytest.approx(7 / 12) and got["idf1"] == pytest.approx(6 / 10)
    assert {v["video"]: v["mota"] for v in got["by_video"]} == {"a": 0.75, "b": 1.0, "c": 0.0}
    lo, hi = got["ci"]["idf1"]
    assert lo < got["idf1"] < hi


def test_mistakes_of_the_command_are_told(tmp_path: Path) -> None:
    truth, found = write(tmp_path / "gt" / "a.txt", TRUTH), write(tmp_path / "s" / "z.txt", SWITCHED)
    write(tmp_path / "gt" / "b.txt", TRUTH)

    def run(truth: Path, found: Path, frames: int | None = None) -> None:
        score_command(argparse.Namespace(truth=truth, predictions=[found], frames=frames, json=True))

    with pytest.raises(DataError, match="z"):
        run(tmp_path / "gt", found.parent)
    with pytest.raises(ParameterError, match="3 frames"):
        run(truth, found, 3)
    with pytest.raises(ParameterError, match="at least 1"):
        run(truth, found, 0)
    with pytest.raises(DataError, match="no such file"):
        run(truth, tmp_path / "missing.txt")
