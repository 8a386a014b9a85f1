"""Running detectors on a study: tables, shards, resuming, bad frames, speed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from inference_cases import SIZE, bright_spot_detector, make_run, spot_frame, spot_study

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.inference import predict
from birdlab.inference.detector import PredictError, class_map, finish
from birdlab.inference.device import cores, onnx_providers, parse_device, resolve_device
from birdlab.inference.feed import ahead, batches
from birdlab.inference.timing import ShardTiming, speed_table
from birdlab.progress import progress

SPOT = {"name": "spots", "weights": "spots.onnx", "classes": {"class0": "bird"}, "conf": 0.25, "imgsz": 64}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = spot_study(tmp_path / "photos")
    bright_spot_detector(folder / "spots.onnx")
    return folder


def _parts(out: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in sorted(out.glob("shards/*/part-*.parquet"))}


def test_tables_of_a_hand_computed_study(study: Path, tmp_path: Path) -> None:
    made = predict.build(make_run(study, tmp_path / "run", [SPOT], shard_size=5))
    boxes = made["predictions"]
    assert boxes.height == 12
    # Frame f09 shines at column 1, row 1: centre (12, 12), box of 16 px; score 1/(1+exp(8-255/16)) x 0.8.
    row = boxes.filter(pl.col("frame_id") == "f09.png").row(0, named=True)
    assert (row["x"], row["y"], row["w"], row["h"]) == pytest.approx((4, 4, 16, 16), abs=1e-4)
    assert row["score"] == pytest.approx(0.8 / (1 + np.exp(8 - 255 / 16)), abs=1e-6)
    assert (row["model"], row["category"], row["rank"], row["prediction_id"]) == ("spots", "bird", 0, "f09.png/0")
    # Frame f00 shines in the corner: its box of 16 px around (4, 4) is cut at the frame.
    corner = boxes.filter(pl.col("frame_id") == "f00.png").row(0, named=True)
    assert (corner["x"], corner["y"], corner["w"], corner["h"]) == pytest.approx((0, 0, 12, 12), abs=1e-4)
    assert made["failures"].is_empty()
    assert len(_parts(tmp_path / "run")) == 3
    for name in ("predictions", "failures", "speed"):
        schemas.validate(name, made[name])


def test_speed_is_measured_twice_with_warm_up_left_out(study: Path, tmp_path: Path) -> None:
    speed = predict.build(make_run(study, tmp_path / "run", [{**SPOT, "batch": 2}]))["speed"]
    assert speed["stage"].to_list() == ["model", "end_to_end"]
    assert speed["n_frames"].to_list() == [12, 12]
    assert speed["n_warmup"].to_list() == [4, 4]  # two batches of two
    model, whole = speed["seconds"]
    assert 0 < model < whole
    assert speed["fps"].to_list() == pytest.approx([12 / model, 12 / whole])
    row = speed.row(0, named=True)
    assert (row["batch"], row["imgsz"], row["precision"]) == (2, SIZE, "fp32")
    assert row["device"].startswith("CPU ") and "thread" in row["device"]


def test_a_finished_shard_is_never_run_again(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    first = predict.build(make_run(study, out, [SPOT], shard_size=4))
    before = _parts(out)
    monkeypatch.setattr(predict, "load_detector", lambda *_: pytest.fail("a model was loaded"))
    again = predict.build(make_run(study, out, [SPOT], shard_size=4))
    assert _parts(out) == before
    for name, frame in first.items():
        assert frame.equals(again[name]), name  # the speed too: it was kept with the shards


def test_a_changed_picture_or_setting_is_run_again(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    predict.build(make_run(study, out, [SPOT], shard_size=4))
    before = set(_parts(out))
    import cv2

    cv2.imwrite(str(study / "f05.png"), spot_frame(7, 7))
    made = predict.build(make_run(study, out, [SPOT], shard_size=4))["predictions"]
    assert len(set(_parts(out)) - before) == 1
    assert made.filter(pl.col("frame_id") == "f05.png")["x"].item() == pytest.approx(52)
    predict.build(make_run(study, out, [{**SPOT, "conf": 0.5}], shard_size=4))
    assert len(list((out / "shards").iterdir())) == 2


def test_shards_and_batches_do_not_change_a_box(study: Path, tmp_path: Path) -> None:
    bright_spot_detector(study / "spots.onnx", batch="n")
    one = predict.build(make_run(study, tmp_path / "a", [SPOT], shard_size=1))["predictions"]
    many = predict.build(make_run(study, tmp_path / "b", [{**SPOT, "batch": 5}], shard_size=7))["predictions"]
    assert one.equals(many)


def test_an_unreadable_frame_is_a_failure_and_nothing_else(study: Path, tmp_path: Path) -> None:
    (study / "f03.png").write_bytes(b"not a picture")
    (study / "f04.png").write_bytes((study / "f05.png").read_bytes()[:60])
    made = predict.build(make_run(study, tmp_path / "run", [{**SPOT, "batch": 4}], shard_size=5))
    failures = made["failures"]
    assert failures["frame_id"].to_list() == ["f03.png", "f04.png"]
    assert failures["stage"].to_list() == ["read", "read"]
    assert all(message and "\n" not in message for message in failures["message"])
    assert made["predictions"].height == 10
    assert made["speed"]["n_frames"].to_list() == [10, 10]
    notice = made["inference_notices"].filter(pl.col("code") == "failed_read")
    assert notice["n"].item() == 2


def test_a_frame_that_makes_the_model_fail_costs_only_itself(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from birdlab.inference.yolox import YoloxDetector

    own = YoloxDetector.predict

    def predict_or_fail(self: YoloxDetector, images: list[np.ndarray]):
        if any(image[8:16, 24:32].any() for image in images):  # f11: column 3, row 1
            raise PredictError("out of\nmemory")
        return own(self, images)

    monkeypatch.setattr(YoloxDetector, "predict", predict_or_fail)
    made = predict.build(make_run(study, tmp_path / "run", [{**SPOT, "batch": 4}]))
    assert made["failures"].select("frame_id", "stage", "message").rows() == [("f11.png", "predict", "out of memory")]
    assert made["predictions"]["frame_id"].n_unique() == 11


KILLED = """
    import os, signal, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from inference_cases import make_run
    from birdlab.inference import predict, yolox
    calls, own = 0, yolox.YoloxDetector.predict
    def dying(self, images):
        global calls
        calls += 1
        if calls > 2 + {n}:  # two calls warm up
            os.kill(os.getpid(), signal.SIGKILL)
        return own(self, images)
    yolox.YoloxDetector.predict = dying
    predict.build(make_run(Path({study!r}), Path({out!r}), [{spot!r}], shard_size=2))
"""


def test_killed_in_the_middle_then_resumed(study: Path, tmp_path: Path) -> None:
    whole = predict.build(make_run(study, tmp_path / "whole", [SPOT], shard_size=2))
    out = tmp_path / "killed"
    tests = str(Path(__file__).parent)
    code = textwrap.dedent(KILLED).format(tests=tests, study=str(study), out=str(out), spot=SPOT, n=7)
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    before = _parts(out)
    assert len(before) == 3  # seven frames: three whole shards, half of the fourth is lost
    folder = next((out / "shards").iterdir())
    leftover = folder / f".part-00003-abc.parquet.{_dead_pid()}.tmp"
    leftover.write_bytes(b"half")
    mine = folder / ".part-00004-abc.parquet.1.tmp"  # process 1 is alive: not ours to remove
    mine.write_bytes(b"half")
    resumed = predict.build(make_run(study, out, [SPOT], shard_size=2))
    after = _parts(out)
    assert {name: after[name] for name in before} == before
    assert len(after) == 6
    assert not leftover.exists() and mine.exists()
    assert resumed["predictions"].equals(whole["predictions"])
    assert resumed["failures"].equals(whole["failures"])
    assert resumed["speed"]["n_frames"].to_list() == [12, 12]
    assert resumed["speed"]["n_warmup"].to_list() == [4, 4]  # warmed up twice, in either process


def _dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_damaged_part_is_made_again(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    whole = predict.build(make_run(study, out, [SPOT], shard_size=4))["predictions"]
    part = sorted(out.glob("shards/*/part-*.parquet"))[1]
    part.write_bytes(part.read_bytes()[:100])
    assert predict.build(make_run(study, out, [SPOT], shard_size=4))["predictions"].equals(whole)


def test_several_models_and_every_problem_at_once(study: Path, tmp_path: Path) -> None:
    two = [SPOT, {**SPOT, "name": "other", "classes": {"class1": "bird"}, "conf": 0.1}]
    made = predict.build(make_run(study, tmp_path / "run", two))
    assert made["predictions"]["model"].unique(maintain_order=True).to_list() == ["spots", "other"]
    assert made["predictions"].filter(pl.col("model") == "other")["score"].max() == pytest.approx(0.2, abs=1e-3)
    assert made["speed"].height == 4
    wrong = [{**SPOT, "name": "a", "weights": "none.onnx"}, {**SPOT, "name": "b", "sha256": "0" * 64}]
    with pytest.raises(DataError) as caught:
        predict.build(make_run(study, tmp_path / "run", wrong))
    assert [p.code for p in caught.value.problems] == ["no_weights", "wrong_hash"]
    typos = [{**SPOT, "name": n, "classes": {c: "bird"}} for n, c in (("a", "klass0"), ("b", "Class1"), ("c", "x"))]
    with pytest.raises(ParameterError) as caught:
        predict.build(make_run(study, tmp_path / "run", typos))
    assert [(p.record, p.code) for p in caught.value.problems] == [
        ("model a", "unknown_class"),
        ("model c", "unknown_class"),
    ]
    assert caught.value.problems[0].remedy == "did you mean class0?"


def test_no_network_library_for_predictions_made_elsewhere(study: Path, tmp_path: Path) -> None:
    code = f"""
        import sys, types
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import polars as pl
        from birdlab import schemas
        stub = types.ModuleType("birdlab.readers.predictions")
        notices = pl.DataFrame(schema={{"code": pl.String, "message": pl.String, "n": pl.Int64, "file": pl.String}})
        row = dict(model="m", prediction_id="a/0", frame_id="a", category="bird", score=0.5, x=0, y=0, w=1, h=1, rank=0)
        stub.read_predictions = lambda *a, **k: (pl.DataFrame([row]), schemas.empty("failures"), notices)
        sys.modules["birdlab.readers.predictions"] = stub
        from inference_cases import make_run
        from birdlab.inference import predict
        made = predict.build(make_run(Path({str(study)!r}), Path({str(tmp_path)!r}), [{{"name": "m", "predictions": "p.json"}}]))
        assert made["predictions"].height == 1 and made["speed"].is_empty()
        heavy = {{"torch", "ultralytics", "onnxruntime", "openvino"}} & set(sys.modules)
        sys.exit(", ".join(heavy) or 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_frames_are_read_ahead_in_order() -> None:
    seen: list[str] = []

    def source():
        for name in "abcdef":
            seen.append(name)
            yield name

    feed = ahead(source(), 2)
    assert next(feed) == "a"
    feed.close()
    assert seen == list("abc")[: len(seen)]  # at most two more were made

    def broken():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(ahead(broken(), 3))
    shapes = [
        ("a", np.zeros((2, 2, 3))),
        ("b", np.zeros((2, 3, 3))),
        ("c", np.zeros((2, 3, 3))),
        ("d", np.zeros((2, 3, 3))),
    ]
    assert [[n for n, _ in group] for group in batches(shapes, 2)] == [["a"], ["b", "c"], ["d"]]


def test_boxes_are_cut_at_the_frame_and_empty_ones_counted() -> None:
    xyxy = np.array([[-5, -5, 5, 5], [8, 8, 30, 30], [20, 20, 25, 25], [3, 3, 3, 9], [np.nan, 0, 1, 1], [0, 0, 1, 1]])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, np.nan])
    boxes, kept = finish(xyxy, scores, np.arange(6), (10, 20, 3))
    assert kept.tolist() == [0, 1]
    assert boxes.xywh.tolist() == [[0, 0, 5, 5], [8, 8, 12, 2]]
    assert (boxes.classes.tolist(), boxes.n_dropped) == ([0, 1], 4)


NAMES = {0: "person", 14: "bird", 15: "Duck"}


@pytest.mark.parametrize(
    ("wanted", "categories", "kept", "codes"),
    [
        ({}, ["bird"], {14: "bird"}, []),
        ({}, ["duck", "Bird"], {14: "Bird", 15: "duck"}, []),
        ({}, ["owl"], {}, ["no_class"]),
        ({"duck": "bird", "bird": "bird"}, ["bird"], {15: "bird", 14: "bird"}, []),
        ({"brid": "bird"}, ["bird"], {}, ["unknown_class"]),
        ({"bird": "brid"}, ["bird"], {14: "brid"}, ["unknown_category"]),
    ],
)
def test_class_map(wanted: dict, categories: list[str], kept: dict, codes: list[str]) -> None:
    got, problems = class_map(NAMES, wanted, categories, model="m")
    assert (got, [p.code for p in problems]) == (kept, codes)
    assert all("person" in p.expected for p in problems if p.code in ("no_class", "unknown_class"))


def test_devices() -> None:
    assert parse_device(" CUDA ").name == "cuda:0"
    assert resolve_device("cpu").name == "cpu"
    for text in ("gpu", "cpu:1", "cuda:x", "mps:0", ""):
        with pytest.raises(ParameterError, match="auto, cpu, cuda"):
            parse_device(text)
    with pytest.raises(ParameterError, match="cuda:3"):
        parse_device("3")
    with pytest.raises(ParameterError) as caught:
        resolve_device("cuda:99")
    assert caught.value.exit_code == 2
    assert "cpu" in caught.value.problems[0].expected
    with pytest.raises(ParameterError):
        onnx_providers("cuda:99")
    assert onnx_providers("cpu")[1] == ["CPUExecutionProvider"]
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_a_device_that_is_not_there_stops_the_run(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cuda:99"):
        predict.build(make_run(study, tmp_path / "run", [SPOT], device="cuda:99"))


def test_speed_of_a_run_resumed_on_another_machine() -> None:
    slow = ShardTiming("CPU old", 640, "fp32", 1, n_frames=3, n_warmup=2, model_s=3.0, end_to_end_s=6.0)
    fast = ShardTiming("GPU new", 640, "fp32", 1, n_frames=7, n_warmup=2, model_s=0.7, end_to_end_s=1.4)
    speed = speed_table("m", [slow, fast])
    assert speed["device"].to_list() == ["GPU new"] * 2
    assert speed["fps"].to_list() == pytest.approx([10, 5])
    assert speed_table("m", []).is_empty()
    nothing = speed_table("m", [ShardTiming("CPU", 640, "fp32", 1)])
    assert nothing["fps"].to_list() == [None, None]
    assert ShardTiming.loads(slow.dumps()) == slow


def test_progress_writes_a_line_per_tenth(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    state = tmp_path / "progress.json"
    with progress("heron", unit="frames", state=state) as step:
        for done in range(101):
            step(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[3] == "birdlab: heron: 30 of 100 frames"
    assert json.loads(state.read_text()) == {"label": "heron", "done": 100, "total": 100, "unit": "frames"}


def test_progress_leaves_a_notebook_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("birdlab.progress.in_notebook", lambda: True)
    with progress("heron") as step:
        step(1, 2)
        step(2, 2)
    assert capsys.readouterr() == ("", "")
