"""Birds followed through a video and the behaviour named in windows of their tracks."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from follow_cases import (
    LABELS,
    detections,
    frames_of,
    media_of,
    rising_onnx,
    rising_script,
    spec,
    stub_run,
    write_frames,
)

import birdlab as bl
from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.inference import follow_study
from birdlab.inference.clip_network import ClipNetwork, find_clip_weights
from birdlab.inference.clips import crop, label_windows, windows
from birdlab.inference.follow import (
    FOLLOWED,
    as_colony,
    as_colony_windows,
    export_mot,
    follow_table,
    follow_video,
    settings,
)
from birdlab.readers.mot import read_mot
from birdlab.recipe import parse_recipe

TRACKERS = ["bytetrack", "botsort"]


def two_birds(n: int = 40, hidden: range = range(15, 22)) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One bird moves right, one left below it; the second is not seen for some frames."""
    boxes = []
    for i in range(n):
        boxes.append((f"v.mp4#{i}", 5.0 + 3 * i, 10.0, 20.0, 20.0, 0.9))
        if i not in hidden:
            boxes.append((f"v.mp4#{i}", 150.0 - 2 * i, 60.0, 20.0, 20.0, 0.6))
    return frames_of("v.mp4", range(n)), detections(boxes)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_two_birds_are_two_tracks_and_a_hidden_bird_keeps_its_own(tmp_path: Path, tracker: str) -> None:
    frames, seen = two_birds()
    made = follow_video(frames, seen, settings(tracker), conf=0.1, cache=tmp_path)
    ids = made.rows.join(seen.select("prediction_id", pl.col("y").alias("truth")), on="prediction_id")
    assert ids.group_by("track_id").agg(pl.col("truth").n_unique(), pl.len().alias("n")).sort("track_id").rows() == [
        ("1", 1, 40),
        ("2", 1, 33),
    ]
    near = made.rows.join(seen, on="prediction_id", suffix="_d")
    assert made.n_loose == 0
    assert max(abs(near[c] - near[f"{c}_d"]).max() for c in "xywh") < 3
    assert made.rows["frame_index"].is_sorted() and made.n_outside == 0
    again = follow_video(frames, seen, settings(tracker), conf=0.1, cache=tmp_path)
    assert made.rows.equals(again.rows)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_long_absence_ends_a_track_and_ids_start_anew_with_each_video(tmp_path: Path, tracker: str) -> None:
    frames, seen = two_birds(60, range(10, 10 + settings(tracker)["track_buffer"] + 5))
    made = follow_video(frames, seen, settings(tracker), conf=0.1, cache=tmp_path).rows
    assert sorted(made["track_id"].unique()) == ["1", "2", "3"]
    # A track that begins later is told from its second box on.
    assert made.filter(pl.col("track_id") == "3")["frame_index"].min() == 46


def test_confidence_decides_what_the_tracker_sees(tmp_path: Path) -> None:
    frames = frames_of("v.mp4", range(10))
    boxes = [(f"v.mp4#{i}", 50.0, 50.0, 20.0, 20.0, 0.9 if i < 3 else 0.15) for i in range(10)]
    n = {
        conf: follow_video(frames, detections(boxes), settings("bytetrack"), conf=conf, cache=tmp_path).rows.height
        for conf in (0.1, 0.2)
    }
    assert n == {0.1: 10, 0.2: 3}, "a weak box carries a track on, and does not begin one"
    weak = detections([b for b in boxes if b[5] < 0.2])
    none = follow_video(frames, weak, settings("bytetrack"), conf=0.1, cache=tmp_path)
    assert none.rows.is_empty() and none.n_loose == 7


def test_nothing_seen_and_boxes_at_the_edge(tmp_path: Path) -> None:
    frames = frames_of("v.mp4", range(6))
    assert follow_video(frames, detections([]), settings("botsort"), conf=0.1, cache=tmp_path).rows.is_empty()
    edge = detections([(f"v.mp4#{i}", 185.0 + i, 80.0, 15.0 - i, 20.0, 0.9) for i in range(6)])
    rows = follow_video(frames, edge, settings("botsort"), conf=0.1, cache=tmp_path).rows
    assert rows.height and ((rows["x"] + rows["w"]) <= 200).all() and ((rows["y"] + rows["h"]) <= 100).all()


def test_table_colony_and_mot_text_tell_the_same(tmp_path: Path) -> None:
    frames, seen = two_birds()
    predictions = {"predictions": seen, "frames": frames, "media": media_of([tmp_path / "v.mp4"], session="s")}
    run = stub_run(tmp_path, {"trackers": TRACKERS}, **predictions)
    made = follow_study.build(run)
    table = follow_table(made["followed"], made["follow_videos"])
    assert table.select("tracker", "frames", "tracks", "boxes", "median_length", "frames_with").rows() == [
        ("bytetrack", 40, 2, 73, 36.5, 40),
        ("botsort", 40, 2, 73, 36.5, 40),
    ]
    assert (table["fps"] > 0).all()
    colony = as_colony(made["followed"], made["follow_videos"])
    assert colony.select("tracker", "video_id").unique().sort("tracker").rows() == [
        ("botsort", "v"),
        ("bytetrack", "v"),
    ]
    for tracker in TRACKERS:
        mine = colony.filter(pl.col("tracker") == tracker).sort("frame", "row")
        text = read_mot(run.dir / "tracks" / tracker / "v.txt")
        assert text["frame"].to_list() == mine["frame"].to_list()
        assert text["track_id"].to_list() == mine["track_id"].to_list()
        assert np.allclose(text.select("xmin", "ymax").to_numpy(), mine.select("xmin", "ymax").to_numpy(), atol=1e-2)


def test_finished_videos_are_read_and_a_changed_one_is_followed_again(tmp_path: Path, monkeypatch) -> None:
    frames, seen = two_birds(12)
    frames = pl.concat([frames, frames_of("w.mp4", range(12))])
    other = seen.with_columns(pl.col("frame_id", "prediction_id").str.replace("v.mp4", "w.mp4", literal=True))
    tables = {"frames": frames, "media": media_of([tmp_path / "v.mp4", tmp_path / "w.mp4"], session="s")}
    first = follow_study.build(stub_run(tmp_path, {}, predictions=pl.concat([seen, other]), **tables))
    calls = []
    own = follow_study.follow_video
    monkeypatch.setattr(follow_study, "follow_video", lambda *a, **k: calls.append(a) or own(*a, **k))
    again = follow_study.build(stub_run(tmp_path, {}, predictions=pl.concat([seen, other]), **tables))
    assert not calls and again["followed"].equals(first["followed"])
    moved = other.with_columns(pl.col("x") + 1)
    follow_study.build(stub_run(tmp_path, {}, predictions=pl.concat([seen, moved]), **tables))
    assert len(calls) == 1
    codes = dict(first["follow_notices"].select("code", "message").iter_rows())
    assert "ends" in codes["files"] or "end" in codes["files"]


def test_no_tracking_photographs_strides_and_failures_are_told(tmp_path: Path) -> None:
    none = SimpleNamespace(recipe=SimpleNamespace(tracking=None))
    assert all(t.is_empty() for t in follow_study.build(none).values())
    frames = frames_of("v.mp4", range(0, 50, 5))
    still = pl.DataFrame(
        {"dataset": ["made"], "media_id": ["a.jpg"], "kind": ["image"], "path": ["a"], "video_id": ["a"]}
    )
    failed = pl.DataFrame({"model": ["d"], "frame_id": ["v.mp4#5"], "stage": ["read"], "message": ["broken"]})
    run = stub_run(
        tmp_path,
        {"trackers": ["botsort"]},
        predictions=detections([]),
        frames=frames,
        media=pl.concat([media_of([tmp_path / "v.mp4"]), schemas.validate("media", still)]),
        failures=schemas.validate("failures", failed),
    )
    made = follow_study.build(run)
    told = dict(made["follow_notices"].select("code", "n").iter_rows())
    assert told == {"photographs": 1, "steps": 1, "failed_frames": 1, "setting": 10, "nothing": 1}
    row = follow_table(made["followed"], made["follow_videos"]).row(0, named=True)
    assert (row["tracks"], row["boxes"], row["median_length"], row["frames_with"]) == (0, 0, None, 0)
    assert (run.dir / "tracks" / "botsort" / "v.txt").read_text() == ""


def test_names_of_videos_do_not_collide(tmp_path: Path) -> None:
    videos = pl.DataFrame({"tracker": ["botsort"] * 3, "media_id": ["a/x.mp4", "b/x.mp4", "b/y.mp4"]})
    paths = export_mot(FOLLOWED.to_frame(), videos, tmp_path)
    assert [p.name for p in paths] == ["a__x.txt", "b__x.txt", "y.txt"]


# ---- windows of tracks


def a_track(indices: list[int], track: str = "1", media_id: str = "v.mp4") -> pl.DataFrame:
    rows = [
        {
            "tracker": "bytetrack",
            "media_id": media_id,
            "video_id": "s",
            "frame_id": f"{media_id}#{i}",
            "frame_index": i,
            "track_id": track,
            "category": "bird",
            "x": 4.0,
            "y": 6.0,
            "w": 8.0,
            "h": 8.0,
            "score": 0.9,
            "prediction_id": "",
        }
        for i in indices
    ]
    return pl.DataFrame(rows, schema=FOLLOWED)


def test_windows_take_boxes_as_they_come_and_leave_rests_out() -> None:
    frames = frames_of("v.mp4", range(30))
    tracks = pl.concat([a_track([0, 1, 2, 9, 10, 11, 12, 13, 14]), a_track([3, 4, 5], "2")])
    rows, rests = windows(tracks, frames, 4)
    found = rows.select("track_id", "window", "start", "end", "n_missing").unique().sort("window").rows()
    # A window across the gap of six frames; the ninth box and the three of the second track are rests.
    assert found == [("1", 0, 0, 10, 6), ("1", 1, 10, 14, 0)]
    assert rests == 2 and rows.height == 8
    empty, none = windows(tracks.clear(), frames, 4)
    assert empty.is_empty() and none == 0


def test_windows_of_every_fifth_frame_miss_nothing() -> None:
    frames = frames_of("v.mp4", range(0, 40, 5))
    rows, _ = windows(a_track([0, 5, 10, 15]), frames, 4)
    assert rows.select("start", "end", "n_missing").unique().rows() == [(0, 16, 0)]


def test_crop_is_the_patch_that_was_planted() -> None:
    image = np.zeros((40, 60, 3), np.uint8)
    image[10:20, 30:50] = (10, 20, 200)  # blue, green, red
    whole = crop(image, (30.0, 10.0, 20.0, 10.0), 20)
    assert (whole[5:15] == (200, 20, 10)).all(), "red first; the longer side is filled"
    assert not whole[:5].any() and not whole[15:].any(), "black above and below alike"
    corner = crop(image, (30.0, 10.0, 20.0, 10.0), 20, pad="corner")
    assert (corner[:10] == (200, 20, 10)).all() and not corner[10:].any()
    # Parts of pixels are taken whole, and what lies outside the frame is not there.
    image[0:4, 0:6] = 255
    assert crop(image, (-5.0, -3.0, 10.5, 6.5), 6, pad="corner")[:4].min() == 255
    beyond = crop(image, (70.0, 50.0, 5.0, 5.0), 4)
    assert beyond.shape == (4, 4, 3)


@pytest.fixture(scope="module")
def made_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 frames; inside the box (4, 6, 8, 8) it grows brighter for four frames, darker for four, then nothing moves."""
    images = []
    for i in range(12):
        image = np.zeros((32, 48, 3), np.uint8)
        image[6:14, 4:12] = [60, 100, 150, 200, 200, 150, 100, 60, 90, 90, 90, 90][i]
        image[:, 24:] = 255 - 20 * i  # a distraction outside
        images.append(image)
    return write_frames(tmp_path_factory.mktemp("clips") / "v.mp4", images)


@pytest.mark.parametrize("kind", ["torchscript", "onnx", "fixed onnx"])
def test_planted_behaviour_is_named(tmp_path: Path, made_video: Path, kind: str) -> None:
    if kind == "torchscript":
        weights = rising_script(tmp_path / "rising.pt")
    else:
        fixed = {"frames": 4, "batch": 2, "side": 16} if kind == "fixed onnx" else {}
        weights = rising_onnx(tmp_path / "rising.onnx", **fixed)
    chosen = spec(weights)
    network = ClipNetwork(chosen, find_clip_weights(chosen, tmp_path, tmp_path), "cpu")
    frames, media = frames_of("v.mp4", range(12), size=(48, 32)), media_of([made_video])
    made = label_windows(a_track(list(range(12))), frames, media, network, chosen, batch=2)
    assert made.rows.select("start", "end", "label").rows() == [(0, 4, "Peck"), (4, 8, "Other"), (8, 12, "Other")]
    # By hand: the brightness rises by 140 / 255, times 40, against its negative and 0.
    power = np.exp(np.array([-1, 1, 0]) * 140 / 255 * 40)
    assert made.rows["probability"][0] == pytest.approx(power[1] / power.sum(), abs=1e-6)
    assert made.rows["probability"][2] == pytest.approx(1 / 3, abs=1e-6)
    assert (made.n_tails, made.n_unread, made.n_failed) == (0, 0, 0)


def test_the_network_gets_the_pixels_of_the_box(tmp_path: Path, made_video: Path) -> None:
    chosen = spec(tmp_path / "x", mean=[10.0, 10.0, 10.0])
    got = []

    def probabilities(clips: np.ndarray) -> np.ndarray:
        got.append(clips)
        return np.tile(np.array([0.2, 0.3, 0.5], np.float32), (len(clips), 1))

    frames, media = frames_of("v.mp4", range(12), size=(48, 32)), media_of([made_video])
    stub = SimpleNamespace(labels=LABELS, probabilities=probabilities)
    label_windows(a_track(list(range(12))), frames, media, stub, chosen, batch=8)
    assert got[0].shape == (3, 3, 4, 16, 16) and got[0].dtype == np.uint8
    assert np.abs(got[0][0, :, :].astype(int) - np.array([60, 100, 150, 200]).reshape(1, 4, 1, 1)).max() <= 1


def test_unreadable_frames_and_failing_windows_are_counted(tmp_path: Path, made_video: Path) -> None:
    chosen = spec(rising_script(tmp_path / "rising.pt"))
    network = ClipNetwork(chosen, find_clip_weights(chosen, tmp_path, tmp_path), "cpu")
    frames, media = frames_of("v.mp4", range(16), size=(48, 32)), media_of([made_video])
    made = label_windows(a_track(list(range(15))), frames, media, network, chosen, batch=8)
    assert made.rows.height == 3 and made.n_tails == 1
    made = label_windows(a_track(list(range(2, 14))), frames, media, network, chosen, batch=8)
    assert made.rows["start"].to_list() == [2, 6] and made.n_unread == 1 and made.messages


def test_a_study_with_windows_and_what_is_told_of_them(tmp_path: Path, made_video: Path) -> None:
    weights = rising_script(tmp_path / "rising.torchscript")
    boxes = [(f"v.mp4#{i}", 4.0, 6.0, 8.0, 8.0, 0.9) for i in range(12)]
    section = {"classifiers": [spec(weights, frames=5).model_dump(mode="json")], "trackers": TRACKERS}
    tables = {"frames": frames_of("v.mp4", range(12), size=(48, 32)), "media": media_of([made_video])}
    run = stub_run(tmp_path, section, predictions=detections(boxes), **tables)
    made = follow_study.build(run)
    found = made["follow_windows"].select("model", "tracker", "start", "end", "label")
    assert found.rows() == [
        ("rising", t, a, b, said) for t in TRACKERS for a, b, said in ((0, 5, "Peck"), (5, 10, "Other"))
    ]
    told = made["follow_notices"].filter(pl.col("model") == "rising")
    assert told.filter(pl.col("code") == "tails")["n"].to_list() == [2]
    assert told.filter(pl.col("message").str.contains("softmax")).height == 1
    colony = as_colony_windows(made["follow_windows"], made["follow_videos"])
    assert colony["video_id"].unique().to_list() == ["v"] and "probability" in colony.columns
    assert follow_study.build(run)["follow_windows"].equals(made["follow_windows"])


# ---- weights that are refused


class Saves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten.save(x, "written-by-a-model")  # ultralytics replaces torch.save, which then cannot be scripted
        return x.mean(dim=[2, 3, 4])


class Reads(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=[2, 3, 4]) + torch.from_file("/etc/hostname", False, 1).sum()


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def refusal(path: Path, **more: object) -> str:
    chosen = spec(path, **more)
    with pytest.raises((DataError, ParameterError)) as error:
        ClipNetwork(chosen, find_clip_weights(chosen, path.parent, path.parent), "cpu")
    assert path.name in str(error.value)
    return str(error.value)


def test_archives_that_open_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for module, word in ((Saves(), "save"), (Reads(), "from_file")):
        torch.jit.script(module).save("bad.pt")
        assert word in refusal(tmp_path / "bad.pt")
    assert not (tmp_path / "written-by-a-model").exists()


def test_operators_of_other_libraries_are_refused(tmp_path: Path) -> None:
    good = rising_script(tmp_path / "good.pt")
    with zipfile.ZipFile(good) as given, zipfile.ZipFile(tmp_path / "bad.pt", "w") as made:
        for entry in given.infolist():
            data = given.read(entry)
            if entry.filename.endswith(".py"):
                data = data.replace(b"return", b"ops.image.write_file(x)\n    return", 1)
            made.writestr(entry.filename, data)
    assert "ops.image" in refusal(tmp_path / "bad.pt")


def test_pickles_and_what_is_no_archive_are_refused_and_nothing_is_run(tmp_path: Path) -> None:
    torch.save({"model": Touch(tmp_path / "touched")}, tmp_path / "pickle.pt")
    assert "pickle" in refusal(tmp_path / "pickle.pt")
    (tmp_path / "noise.pt").write_bytes(b"no archive")
    refusal(tmp_path / "noise.pt")
    whole = rising_script(tmp_path / "whole.pt").read_bytes()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    refusal(tmp_path / "half.pt")
    assert not (tmp_path / "touched").exists()


def test_weights_that_do_not_fit_are_told_in_words(tmp_path: Path) -> None:
    script = rising_script(tmp_path / "rising.pt")
    assert "3 labels" not in refusal(script, labels=["a", "b"]) and "2 labels" in refusal(script, labels=["a", "b"])
    assert "windows x 3 x 4 x 16 x 16" in refusal(rising_onnx(tmp_path / "r.onnx", frames=25), frames=4)
    assert "sha256" in refusal(script, sha256="0" * 64)
    with pytest.raises(DataError, match="no such file"):
        find_clip_weights(spec(tmp_path / "missing.pt"), tmp_path, tmp_path)
    (tmp_path / "w.h5").write_bytes(b"")
    with pytest.raises(DataError, match=r"\.h5"):
        find_clip_weights(spec(tmp_path / "w.h5"), tmp_path, tmp_path)


def test_sections_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    base = {"name": "x", "data": {"media": [{"videos": "*.mp4"}]}, "models": [{"name": "d", "predictions": "p.json"}]}
    assert parse_recipe(base | {"tracking": {"detector": "d"}}).tracking.trackers == ["bytetrack"]
    twice = [spec(tmp_path / "a").model_dump(mode="json")] * 2
    for bad, word in (
        ({"detector": "e"}, "no model called e"),
        ({"detector": "d", "trackers": ["sort"]}, "botsort"),
        ({"detector": "d", "classifiers": twice}, "two classifiers"),
        ({"detector": "d", "classifiers": [twice[0] | {"std": [1, 0, 1]}]}, "std"),
    ):
        with pytest.raises(ParameterError, match=word):
            parse_recipe(base | {"tracking": bad})


def test_a_whole_run(tmp_path: Path) -> None:
    """A video, a detector that finds bright cells, a tracker and a classifier, through `start`."""
    from inference_cases import bright_spot_detector, spot_frame

    images = [spot_frame(1 + i // 4, 3, value=255 if i % 4 >= 2 else 210) for i in range(16)]
    write_frames(tmp_path / "data" / "nest.mp4", images)
    bright_spot_detector(tmp_path / "spots.onnx")
    rising_onnx(tmp_path / "rising.onnx")
    (tmp_path / "study.yaml").write_text(
        "name: study\ndevice: cpu\n"
        "data: {root: data, media: [{videos: '*.mp4', stride: 1}]}\n"
        "models: [{name: spots, weights: ../spots.onnx, adapter: yolox, imgsz: 64, classes: {class0: bird}, conf: 0.05}]\n"
        "tracking: {detector: spots, trackers: [bytetrack, botsort], classifiers: [{name: rising,\n"
        f"  weights: rising.onnx, labels: {LABELS}, frames: 4, imgsz: 16}}]}}\n"
        "notebooks: [01_inference]\n".replace("../spots.onnx", "spots.onnx"),
        encoding="utf-8",
    )
    run = bl.start(str(tmp_path / "study.yaml"), str(tmp_path / "out"), notebook="01_inference")
    table = follow_table(run.table("followed"), run.table("follow_videos"))
    assert table.height == 2 and (table["frames_with"] == 16).all()
    assert run.table("follow_windows")["label"].n_unique() >= 1
    assert run.table("follow_notices").height


# ---- real


@pytest.mark.real
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_real_clip_as_the_library_itself_follows_it(real_data: Path, tmp_path: Path, tracker: str) -> None:
    """Our path (boxes, then tracker) against ``YOLO.track``, and our scores against TrackEval asked directly."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    from birdlab.individuals.tracking import score_tracking
    from birdlab.inference.predict import load_detector
    from birdlab.inference.ultralytics_adapter import _reproducible
    from birdlab.inference.weights import find_weights
    from birdlab.readers.pixels import iter_frames
    from birdlab.recipe import Model

    clips, n = real_data / "flying_birds" / "frames" / "clips", 60
    options = settings(tracker, fuse_score=False)  # birds of ten pixels, which move on by a quarter of their size
    path, first = clips / "V_BIRD_045.mp4", 10
    model = Model(name="d", weights=str(real_data / "detectors" / "yolo11n_int8_openvino_model"), conf=0.1)
    detector = load_detector(model, find_weights(model, tmp_path, tmp_path), "cpu", tmp_path / "cache")
    detector.keep = [i for i, name in detector.names.items() if name == "bird"]
    frames = frames_of(path.name, range(first, first + n), size=(640, 512))
    images = list(iter_frames(frames, media_of([path])))
    boxes = []
    for frame_id, image in images:
        found = detector.predict([image]).boxes[0]
        order = np.argsort(-found.scores, kind="stable")
        boxes += [(frame_id, *found.xywh[i].tolist(), float(found.scores[i])) for i in order]
    made = follow_video(frames, detections(boxes), options, conf=0.1, cache=tmp_path / "cache").rows

    listed = "\n".join(f"{k}: {v}" for k, v in options.items())
    (tmp_path / "own.yaml").write_text(listed, encoding="utf-8")
    theirs = []
    with _reproducible():  # else OpenVINO is set up anew in a lower precision, and the boxes differ
        for k, (_, image) in enumerate(images):
            said = detector._yolo.track(
                image, persist=k > 0, tracker=str(tmp_path / "own.yaml"), conf=0.1, classes=detector.keep, imgsz=640,
                iou=0.7, verbose=False, device="cpu",
            )[0].boxes  # fmt: skip
            if said.id is not None:
                rows = zip(said.id.tolist(), said.xyxy.tolist(), strict=True)
                theirs += [(first + k, str(int(i)), *box) for i, box in rows]
    right, low = (pl.col("x") + pl.col("w")).alias("x1"), (pl.col("y") + pl.col("h")).alias("y1")
    ours = sorted(made.select("frame_index", "track_id", "x", "y", right, low).rows())
    assert len(ours) > 15, "a comparison of nothing says nothing"
    assert [r[:2] for r in ours] == [r[:2] for r in sorted(theirs)]
    assert np.allclose([r[2:] for r in ours], [r[2:] for r in sorted(theirs)], atol=1e-2)

    labelled = pl.read_csv(clips / "V_BIRD_045.csv").filter(pl.col("frame").is_between(first, first + n - 1))
    corner = {"xmin": pl.col("x"), "ymin": pl.col("y"), "video_id": pl.lit("v")}
    truth = labelled.with_columns(
        **corner,
        frame=pl.col("frame") - first,
        xmax=pl.col("x") + pl.col("width"),
        ymax=pl.col("y") + pl.col("height"),
        identity=pl.lit("bird"),
    )
    mine = made.with_columns(
        **corner,
        xmax=pl.col("x") + pl.col("w"),
        ymax=pl.col("y") + pl.col("h"),
        identity="track_id",
        frame=pl.col("frame_index") - first,
    )
    got = dict(
        score_tracking(truth, mine, {"v": n}).filter(pl.col("video_id") == "v").select("measure", "value").rows()
    )
    data = asked_directly(truth, mine, n)
    hota, clear, identity = (m.eval_sequence(data) for m in (HOTA(), CLEAR(), Identity()))
    assert got["hota"] == pytest.approx(np.mean(hota["HOTA"]), abs=1e-12)
    assert got["mota"] == pytest.approx(clear["MOTA"], abs=1e-12)
    assert got["idf1"] == pytest.approx(identity["IDF1"], abs=1e-12)


def asked_directly(truth: pl.DataFrame, mine: pl.DataFrame, n: int) -> dict:
    """TrackEval's dictionary of one video, box by box."""

    def iou(a: tuple, b: tuple) -> float:
        w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        both = max(0.0, w) * max(0.0, h)
        return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)

    corners = ["xmin", "ymin", "xmax", "ymax"]
    out: dict = {"num_timesteps": n, "gt_ids": [], "tracker_ids": [], "similarity_scores": []}
    for side, boxes in (("gt", truth), ("tracker", mine)):
        names = sorted(set(boxes["identity"]))
        out[f"num_{side}_ids"], out[f"num_{side}_dets"] = len(names), boxes.height
        for t in range(n):
            now = boxes.filter(pl.col("frame") == t)["identity"].to_list()
            out[f"{side}_ids"].append(np.array([names.index(i) for i in now], dtype=int))
    for t in range(n):
        a, b = (f.filter(pl.col("frame") == t).select(corners).rows() for f in (truth, mine))
        out["similarity_scores"].append(np.array([[iou(p, q) for q in b] for p in a]).reshape(len(a), len(b)))
    return out
