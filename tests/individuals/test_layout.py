"""Tracks and windows of a run, written into the published layout and read back from it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from birdlab.cli import main
from birdlab.errors import DataError
from birdlab.individuals.evaluate import evaluate
from birdlab.inference.clips import WINDOWS
from birdlab.inference.follow import FOLLOWED, VIDEOS
from birdlab.inference.layout import tables_of, write_layout
from birdlab.readers.chirp import read_colony

BOXES = [(track, frame, 10.0 * int(track) + 0.25, 5.0, 8.5, 4.0) for track in ("1", "2") for frame in range(0, 60, 2)]


def run_folder(folder: Path) -> Path:
    """A run that followed birds through two videos at every second frame; the second video holds nobody."""
    tables = folder / "tables"
    tables.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    rows = [
        {"tracker": "bytetrack", "media_id": "a/nest_1.mp4", "video_id": "s", "frame_id": f"a/nest_1.mp4#{frame}",
         "frame_index": frame, "track_id": track, "category": "bird", "x": x, "y": y, "w": w, "h": h, "score": 0.9,
         "prediction_id": f"{track}/{frame}"}
        for track, frame, x, y, w, h in BOXES
    ]  # fmt: skip
    pl.DataFrame(rows, schema=FOLLOWED).write_parquet(tables / "followed.parquet")
    about = {"tracker": "bytetrack", "video_id": "s", "n_frames": 30, "n_failed": 0, "n_outside": 0, "n_loose": 0}
    media = [about | {"media_id": m, "seconds": 1.0} for m in ("a/nest_1.mp4", "a/nest_2.mp4")]
    pl.DataFrame(media, schema=VIDEOS).write_parquet(tables / "follow_videos.parquet")
    windows = [
        {"model": "c_3d", "tracker": "bytetrack", "media_id": "a/nest_1.mp4", "video_id": "s", "track_id": "1",
         "start": start, "end": start + 25, "label": label, "probability": 0.8, "n_missing": 0}
        for start, label in ((26, "Other"), (0, "Peck"))
    ]  # fmt: skip
    pl.DataFrame(windows, schema=WINDOWS).write_parquet(tables / "follow_windows.parquet")
    return folder


def written_truth(folder: Path) -> Path:
    truth = folder / "GroundTruth"
    truth.mkdir(parents=True)
    (folder / "MetaData.csv").write_text("Video,VideoLength,FPS\nnest_1,60,25\nnest_2,60,25\n")
    boxes = [f"{f},abcd_1,{x},{y},{x + w},{y + h}" for track, f, x, y, w, h in BOXES if track == "1"]
    for video, lines in (("nest_1", boxes), ("nest_2", [])):
        (truth / f"{video}_BBox.csv").write_text("\n".join(["Frame,ID,Xmin,Ymin,Xmax,Ymax", *lines]) + "\n")
        peck = "abcd,peck,3,4\n" if lines else ""
        (truth / f"{video}_PeckEvents.csv").write_text(f"ID,Behaviour,StartFrame,EndFrame\n{peck}")
    return folder


def test_a_run_is_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, colony = run_folder(tmp_path / "run"), written_truth(tmp_path / "colony")
    assert main(["convert", str(run), "--out", str(colony)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("4 of 4 files are in ") and "60 boxes and 2 windows of 2 videos" in said
    assert "as Video in MetaData.csv: nest_1, nest_2" in said and "_IDMatch_" in said
    folder = colony / "InferenceData"
    for video, name in (("nest_1", "abcd"), ("nest_2", "")):
        row = f"1,{name}\n2,unringed\n" if name else ""
        (folder / f"{video}_rings_IDMatch_bytetrack.csv").write_text(f"track_id,individual_id\n{row}")
    found = read_colony(colony)
    tracks = found.tracks.filter(track_id="1", video_id="nest_1")
    assert tracks["frame"].to_list() == list(range(0, 60, 2))
    assert tracks.select("xmin", "ymin", "xmax", "ymax").row(0) == (10.25, 5.0, 18.75, 9.0)
    assert found.windows.select("model", "tracker", "video_id", "track_id", "start", "end", "label").rows() == [
        ("c_3d", "bytetrack", "nest_1", "1", 0, 25, "Peck"), ("c_3d", "bytetrack", "nest_1", "1", 26, 51, "Other"),
    ]  # fmt: skip
    assert found.combinations.select("tracker", "model", "identity", "complete").rows() == [
        ("bytetrack", "c_3d", "rings", True)
    ]
    rates = evaluate(found).numbers.filter(measure="pecks_per_min", video_id="nest_1")
    assert rates.select("truth", "predicted").rows() == [(pytest.approx(25.0), pytest.approx(25.0))]
    words = json.loads((folder / "nest_1_BehavDict_c_3d_bytetrack.json").read_text())
    assert words == {"1": [[0, 25, "Peck"], [26, 51, "Other"]], "2": []}
    assert json.loads((folder / "nest_2_BehavDict_c_3d_bytetrack.json").read_text()) == {}


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path / "run")
    assert main(["convert", str(run)]) == 0
    path = run / "InferenceData" / "nest_1_TrackedBBox_bytetrack.csv"
    before = path.read_bytes()
    other = path.with_name("nest_2_TrackedBBox_bytetrack.csv")
    kept = other.stat().st_mtime_ns
    path.write_text("Frame,ID,Xmin,Ymin,Xmax,Ymax\n")
    assert main(["convert", str(run / "tables" / "followed.parquet"), "--out", str(run)]) == 3
    told = capsys.readouterr()
    assert "3 of 4 files are in" in told.out and "take it away, or give --force" in told.err.lower()
    assert path.read_text() == "Frame,ID,Xmin,Ymin,Xmax,Ymax\n"
    assert main(["convert", str(run), "--force", "--json"]) == 0
    assert path.read_bytes() == before and other.stat().st_mtime_ns == kept
    answer = json.loads(capsys.readouterr().out)
    assert (answer["videos"], answer["boxes"], answer["windows"]) == (["nest_1", "nest_2"], 60, 2)
    assert len(answer["written"]) == 4 and not list(path.parent.glob(".*"))


def test_a_run_that_followed_nobody_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_folder(tmp_path / "run")
    assert tables_of(run) == tables_of(run / "tables") == tables_of(run / "tables" / "followed.parquet")
    wrong = pl.DataFrame({"tracker": ["x"]})
    wrong.write_parquet(run / "tables" / "follow_windows.parquet")
    with pytest.raises(DataError, match="expected a table follow_windows as a run writes it"):
        write_layout(run / "tables", tmp_path)
    (run / "tables" / "followed.parquet").unlink()
    assert main(["convert", str(run)]) == 3
    assert "expected the tracks of a study whose recipe has a section tracking" in capsys.readouterr().err
    (run / "x_BehavDict_m_t.p").write_bytes(b"no pickle")
    assert tables_of(run) is None and tables_of(tmp_path) is None
    assert main(["convert", str(run), "--out", str(tmp_path)]) == 2
    assert "--out with pickles" in capsys.readouterr().err
