"""The adapters: YOLOX heads worked out by hand, ultralytics weights against the library itself, unsafe weights."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_cases import CELLS, SIZE, bright_spot_detector, constant_detector, make_run, spot_frame

from birdlab.errors import BirdlabError, DataError, ParameterError
from birdlab.inference import predict, yolox
from birdlab.inference.checkpoint import load_checkpoint, scan
from birdlab.inference.masks import crop_rle
from birdlab.inference.ultralytics_adapter import mask_rle, prepare_environment
from birdlab.inference.weights import find_weights, hash_weights
from birdlab.recipe import Model


def _weights(path: Path, **model: object):
    return find_weights(Model(name="m", weights=str(path), **model), Path(), Path())


def _yolox(path: Path, **model: object) -> yolox.YoloxDetector:
    return yolox.YoloxDetector(Model(name="m", weights=str(path), imgsz=SIZE, **model), _weights(path), "cpu")


# ---------------------------------------------------------------------------------------------------- YOLOX


def _raw(n_classes: int = 3, *, decoded: bool = False) -> np.ndarray:
    raw = np.zeros((1, CELLS, 5 + n_classes), dtype=np.float32)
    if decoded:
        grid = yolox.cells((SIZE, SIZE), CELLS)
        raw[0, :, :2] = (grid[:, :2] + 0.5) * grid[:, 2:]
        raw[0, :, 2:4] = grid[:, 2:]
    return raw


def test_head_is_decoded_by_hand(tmp_path: Path) -> None:
    raw = _raw()
    raw[0, 8 * 3 + 2] = [0.25, 0.75, np.log(3), np.log(1.5), 0.9, 0.1, 0.5, 0.2]  # stride 8, column 2, row 3
    raw[0, 64 + 4 + 1] = [0.5, 0.5, 0, 0, 0.5, 0, 0, 1]  # stride 16, column 1, row 1
    detector = _yolox(constant_detector(tmp_path / "c.onnx", raw), conf=0.15)
    boxes = detector.predict([np.zeros((32, 128, 3), np.uint8)]).boxes[0]  # half size: frame px = 2 x input px
    # Centre ((2 + 0.25) 8, (3 + 0.75) 8) = (18, 30), size (24, 12): left top (6, 24), in the frame (12, 48) cut at 32.
    # At stride 16: centre (24, 24), size 16: (16, 16, 16, 16), in the frame (32, 32, 32, 32): below the frame.
    assert detector.names == {0: "class0", 1: "class1", 2: "class2"}
    assert boxes.classes.tolist() == []
    assert boxes.n_dropped == 3
    boxes = detector.predict([np.zeros((64, 64, 3), np.uint8)]).boxes[0]
    assert boxes.classes.tolist() == [2, 1, 2]
    assert boxes.scores.tolist() == pytest.approx([0.5, 0.45, 0.18], abs=1e-6)
    assert boxes.xywh.tolist() == [
        pytest.approx(b, abs=1e-4) for b in ([16, 16, 16, 16], [6, 24, 24, 12], [6, 24, 24, 12])
    ]
    detector.keep = [1]
    assert detector.predict([np.zeros((64, 64, 3), np.uint8)]).boxes[0].classes.tolist() == [1]


def test_a_decoded_head_is_taken_as_it_is(tmp_path: Path) -> None:
    raw = _raw(decoded=True)
    raw[0, 5] = [30, 20, 10, 6, 0.5, 1, 0, 0]
    boxes = _yolox(constant_detector(tmp_path / "c.onnx", raw)).predict([np.zeros((64, 64, 3), np.uint8)]).boxes[0]
    assert boxes.xywh.tolist() == [pytest.approx([25, 17, 10, 6], abs=1e-4)]


def test_letterbox_keeps_bgr_and_pads_right_and_bottom() -> None:
    image = np.full((20, 40, 3), (10, 20, 30), np.uint8)
    blob, ratio = yolox.letterbox(image, (64, 64))
    assert ratio == 1.6
    assert blob[:, 0, 0].tolist() == [10, 20, 30]
    assert blob[:, 32, 0].tolist() == [114] * 3
    assert blob[:, 31, 63].tolist() == [10, 20, 30]


def test_onnxruntime_and_opencv_agree(tmp_path: Path) -> None:
    weights = _weights(bright_spot_detector(tmp_path / "s.onnx"))
    blob = yolox.letterbox(spot_frame(3, 2), (SIZE, SIZE))[0][None]
    ours = yolox._Onnxruntime(weights, ["CPUExecutionProvider"])(blob)
    other = yolox._OpenCV(weights)
    assert other.size == (SIZE, SIZE)
    assert np.allclose(ours, other(blob), atol=1e-5)


def test_class_names_beside_the_weights(tmp_path: Path) -> None:
    path = bright_spot_detector(tmp_path / "s.onnx")
    (tmp_path / "s.txt").write_text("tit\nfinch\n")
    assert _yolox(path).names == {0: "tit", 1: "finch"}
    (tmp_path / "s.txt").write_text("tit\n")
    with pytest.raises(DataError, match="found 1 class names; expected 2"):
        _yolox(path)
    assert _yolox(constant_detector(tmp_path / "coco.onnx", _raw(80))).names[14] == "bird"


@pytest.mark.parametrize("shape", [(1, 83, 8), (1, CELLS, 5), (1, 8, CELLS), (CELLS, 8)])
def test_another_head_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="expected 1 x cells x") as caught:
        _yolox(constant_detector(tmp_path / "c.onnx", np.zeros(shape)))
    assert ("ultralytics" in caught.value.problems[0].remedy) == (shape == (1, 8, CELLS))


def _greedy(xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, iou: float) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        a = xyxy[i]
        for j in kept:
            b = xyxy[j]
            w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            shared = max(w, 0) * max(h, 0)
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            if classes[i] == classes[j] and shared > iou * union:
                break
        else:
            kept.append(i)
    return kept


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.integers(0, 8)] * 2, *[st.integers(1, 6)] * 2, st.integers(0, 4), st.integers(0, 2)), max_size=25
    )
)
def test_suppression_equals_a_plain_loop(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, dtype=float).reshape(-1, 6)
    xyxy = np.concatenate([table[:, :2], table[:, :2] + table[:, 2:4]], axis=1)
    got = yolox.nms(xyxy, table[:, 4] / 4, table[:, 5].astype(int), iou=0.4)
    assert got.tolist() == _greedy(xyxy, table[:, 4] / 4, table[:, 5].astype(int), 0.4)


# ---------------------------------------------------------------------------------------------------- weights


def test_weights_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "w.h5").write_bytes(b"x")
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xff not onnx")
    (tmp_path / "half.xml").write_text("<net/>")
    folder = tmp_path / "ir"
    folder.mkdir()
    codes = {}
    for name in ("none.pt", "w.h5", "bad.onnx", "half.xml", "ir"):
        with pytest.raises(DataError) as caught:
            _weights(tmp_path / name)
        codes[name] = caught.value.problems[0].code
    assert codes == {
        "none.pt": "no_weights",
        "w.h5": "unknown_weights",
        "bad.onnx": "bad_onnx",
        "half.xml": "unknown_weights",
        "ir": "unknown_weights",
    }
    (folder / "net.xml").write_text("<net/>")
    (folder / "net.bin").write_bytes(b"")
    with pytest.raises(DataError, match="without names and stride"):
        _weights(folder)
    with pytest.raises(ParameterError, match="birdlab:"):
        find_weights(Model(name="m", weights="birdlab:dodo"), Path(), Path())
    with pytest.raises(ParameterError, match="yolox for ir"):
        _weights(folder, adapter="yolox")


def test_hash_of_a_folder_is_that_of_its_listing(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1").write_bytes(b"one")
    (tmp_path / "a").write_bytes(b"two")
    listing = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in (("a", b"two"), ("b/1", b"one"))
    )
    assert hash_weights(tmp_path) == hashlib.sha256(listing.encode()).hexdigest()


def test_the_promised_hash_may_be_written_either_way(tmp_path: Path) -> None:
    path = bright_spot_detector(tmp_path / "s.onnx")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert _weights(path, sha256=digest).sha256 == _weights(path, sha256=f"sha256:{digest.upper()}").sha256 == digest


# ---------------------------------------------------------------------------------------------------- checkpoints


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained networks of one class, as ultralytics saves them."""
    folder = tmp_path_factory.mktemp("tiny")
    prepare_environment(folder / "cache")
    import torch
    from ultralytics import YOLO

    paths = {}
    for name in ("yolov8n", "yolo26n", "yolo11n-seg"):
        torch.manual_seed(1)
        model = YOLO(f"{name}.yaml")
        network = type(model.model)(f"{name}.yaml", nc=1, verbose=False)
        network.names, network.args, network.task = {0: "bird"}, model.model.args, model.task
        model.model = network
        paths[name] = folder / f"{name}.pt"
        model.save(paths[name])
    return paths


def test_a_known_network_is_loaded_without_trust(tiny: dict[str, Path]) -> None:
    names, called = scan(tiny["yolov8n"])
    assert "ultralytics.nn.tasks.DetectionModel" in names
    assert "ultralytics.nn.tasks.DetectionModel" not in called
    checkpoint = load_checkpoint(tiny["yolov8n"])
    assert type(checkpoint["model"]).__name__ == "DetectionModel"


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_code_in_a_checkpoint_does_not_run(tiny: dict[str, Path], tmp_path: Path, where: str) -> None:
    import torch

    mark = tmp_path / "was-here"
    checkpoint = torch.load(tiny["yolov8n"], weights_only=False)
    if where == "beside":
        checkpoint["extra"] = _Evil(mark)
    else:
        checkpoint["model"].model[0].extra = [_Evil(mark)]
    path = tmp_path / "evil.pt"
    torch.save(checkpoint, path)
    with pytest.raises(DataError) as caught:
        load_checkpoint(path)
    assert not mark.exists()
    problem = caught.value.problems[0]
    assert problem.code == "untrusted_pickle"
    assert "posix.system" in problem.found and "DetectionModel" not in problem.found
    assert "trust: true" in problem.remedy
    load_checkpoint(path, trust=True)
    assert mark.exists()


def test_a_network_may_not_be_built_while_it_is_read(tiny: dict[str, Path], tmp_path: Path) -> None:
    # ultralytics evaluates the text under `activation` when it builds a network: naming known classes is not enough.
    import torch
    from ultralytics.nn.tasks import DetectionModel

    mark = tmp_path / "was-here"

    class Builds:
        def __reduce__(self):
            return DetectionModel, (
                {"nc": 1, "activation": f"__import__('os').system('touch {mark}')", "backbone": [], "head": []},
            )

    path = tmp_path / "built.pt"
    torch.save({"model": Builds()}, path)
    with pytest.raises(DataError, match="ultralytics.nn.tasks.DetectionModel"):
        load_checkpoint(path)
    assert not mark.exists()


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    import torch

    (tmp_path / "text.pt").write_text("weights")
    torch.save({"model": {"w": torch.zeros(2)}}, tmp_path / "state.pt")
    torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.zeros(1)), str(tmp_path / "script.pt"))
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("a/readme", "x")
    with zipfile.ZipFile(tmp_path / "cut.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"a": 1})[:-3])
    codes = {}
    for path in sorted(tmp_path.glob("*.pt")):
        with pytest.raises(DataError) as caught:
            load_checkpoint(path)
        codes[path.stem] = caught.value.problems[0].code
    assert codes == {
        "cut": "bad_checkpoint",
        "script": "torchscript",
        "state": "no_network",
        "text": "bad_checkpoint",
        "zip": "bad_checkpoint",
    }


# ---------------------------------------------------------------------------------------------------- ultralytics


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(7)
    for i, shape in enumerate([(60, 90), (60, 90), (90, 60), (40, 40)]):
        noise = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / f"p{i}.png"), cv2.GaussianBlur(noise, (5, 5), 0))
    return folder


@pytest.mark.parametrize("name", ["yolov8n", "yolo26n"])
def test_boxes_equal_the_library_s_own(tiny: dict[str, Path], photos: Path, tmp_path: Path, name: str) -> None:
    from ultralytics import YOLO

    model = {"name": name, "weights": str(tiny[name]), "imgsz": 64, "conf": 0.0001, "batch": 2}
    made = predict.build(make_run(photos, tmp_path / "run", [model]))
    again = predict.build(make_run(photos, tmp_path / "again", [model]))
    assert made["predictions"].equals(again["predictions"])
    assert made["predictions"].height > 4
    own = YOLO(str(tiny[name]))
    for frame_id in ("p0.png", "p2.png", "p3.png"):
        result = own.predict(
            cv2.imread(str(photos / frame_id)), imgsz=64, conf=0.0001, iou=0.7, max_det=300, verbose=False, device="cpu"
        )[0]
        ours = made["predictions"].filter(pl.col("frame_id") == frame_id).select("x", "y", "w", "h", "score").to_numpy()
        xyxy, scores = result.boxes.xyxy.numpy(), result.boxes.conf.numpy()
        sides = (xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)
        theirs = np.column_stack([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2], scores])[sides]
        assert len(ours) == len(theirs)
        assert np.allclose(ours, theirs[np.argsort(-theirs[:, 4], kind="stable")], atol=1e-3)
    row = made["speed"].row(0, named=True)
    assert (row["precision"], row["imgsz"], row["n_frames"]) == ("fp32", 64, 4)


def test_masks_equal_the_library_s_scaling(tiny: dict[str, Path], photos: Path, tmp_path: Path) -> None:
    from pycocotools import mask as coco

    model = {"name": "seg", "weights": str(tiny["yolo11n-seg"]), "imgsz": 64, "conf": 0.0001}
    made = predict.build(make_run(photos, tmp_path / "run", [model]))["predictions"]
    drawn = made.drop_nulls("mask_rle")
    assert drawn.height > 4
    row = drawn.row(0, named=True)
    rle = json.loads(row["mask_rle"])
    inside = coco.decode({"size": rle["size"], "counts": rle["counts"].encode()})
    assert inside.shape == cv2.imread(str(photos / row["frame_id"])).shape[:2]
    ys, xs = np.nonzero(inside)
    if len(xs):
        assert xs.min() >= np.floor(row["x"]) and xs.max() < np.ceil(row["x"] + row["w"])
        assert ys.min() >= np.floor(row["y"]) and ys.max() < np.ceil(row["y"] + row["h"])


@pytest.mark.parametrize("shape", [(300, 200), (120, 640), (640, 640)])
def test_a_mask_is_drawn_where_it_was_found(shape: tuple[int, int]) -> None:
    from pycocotools import mask as coco

    yy, xx = np.mgrid[: shape[0], : shape[1]] + 0.5
    truth = ((xx - shape[1] * 0.6) / 40) ** 2 + ((yy - shape[0] * 0.5) / 25) ** 2 < 1
    gain = min(320 / shape[0], 320 / shape[1])
    size = round(shape[1] * gain), round(shape[0] * gain)
    small = cv2.resize(truth.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    top, left = round((320 - size[1]) / 2 - 0.1), round((320 - size[0]) / 2 - 0.1)
    on_input = np.zeros((320, 320), np.float32)
    on_input[top : top + size[1], left : left + size[0]] = small > 0.5
    ys, xs = np.nonzero(truth)
    box = np.array([xs.min(), ys.min(), xs.max() + 1 - xs.min(), ys.max() + 1 - ys.min()], dtype=float)
    rle = json.loads(mask_rle(on_input - 0.5, box, shape, (320, 320)))
    drawn = coco.decode({"size": rle["size"], "counts": rle["counts"].encode()}).astype(bool)
    assert (drawn & truth).sum() / (drawn | truth).sum() > 0.93


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**36 - 1), st.integers(0, 3), st.integers(0, 3), st.booleans()
)
def test_run_lengths_equal_coco_s(h: int, w: int, bits: int, x: int, y: int, flush: bool) -> None:
    from pycocotools import mask as coco

    crop = np.array([(bits >> i) & 1 for i in range(h * w)], dtype=bool).reshape(h, w)
    x, y = (0, 0) if flush else (x, y)
    shape = (y + h, x + w) if flush else (y + h + 2, x + w + 1)
    whole = np.zeros(shape, dtype=np.uint8, order="F")
    whole[y : y + h, x : x + w] = crop
    assert json.loads(crop_rle(crop, (x, y), shape)) == {
        "size": list(shape),
        "counts": coco.encode(whole)["counts"].decode(),
    }


def test_half_precision_on_a_cpu_is_said_not_done(tiny: dict[str, Path], photos: Path, tmp_path: Path) -> None:
    model = {"name": "m", "weights": str(tiny["yolov8n"]), "imgsz": 70, "half": True}
    made = predict.build(make_run(photos, tmp_path / "run", [model]))
    assert made["speed"]["precision"].to_list() == ["fp32"] * 2
    assert made["speed"]["imgsz"].to_list() == [96, 96]
    said = made["inference_notices"]["message"].to_list()
    assert any("half precision" in message for message in said)
    assert any("96 px" in message and "imgsz 70" in message for message in said)


def test_the_library_has_nothing_to_warn_of(
    tiny: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = _weights(tiny["yolov8n"])
    model = Model(name="m", weights=str(weights.path), imgsz=64)
    detector = predict.load_detector(model, weights, "cpu", tmp_path / "cache")
    # Imported by another than birdlab, the library speaks: as it would here.
    caplog.set_level(logging.INFO, logger="ultralytics")
    monkeypatch.setattr(logging.getLogger("ultralytics"), "propagate", True)
    detector.predict([np.zeros((64, 64, 3), np.uint8)])
    assert [record.getMessage() for record in caplog.records] == []


def test_a_classifier_is_refused(photos: Path, tmp_path: Path, tiny: dict[str, Path]) -> None:
    from ultralytics import YOLO

    YOLO("yolo11n-cls.yaml").save(tmp_path / "cls.pt")
    with pytest.raises(BirdlabError, match="a model for classify"):
        predict.build(
            make_run(photos, tmp_path / "run", [{"name": "m", "weights": str(tmp_path / "cls.pt"), "imgsz": 64}])
        )


def test_an_export_is_known_by_its_metadata(tiny: dict[str, Path], photos: Path, tmp_path: Path) -> None:
    import torch
    from ultralytics import YOLO

    torch.manual_seed(0)
    onnx = Path(YOLO(str(tiny["yolov8n"])).export(format="onnx", imgsz=64, simplify=False, opset=17))
    found = _weights(onnx)
    assert (found.kind, found.adapter) == ("onnx", "ultralytics")
    models = [
        {"name": "pt", "weights": str(tiny["yolov8n"]), "imgsz": 64, "conf": 0.001},
        {"name": "onnx", "weights": str(onnx), "imgsz": 96, "conf": 0.001},
    ]
    square = photos.parent / "square"
    square.mkdir()
    cv2.imwrite(str(square / "a.png"), cv2.imread(str(photos / "p3.png")))
    made = predict.build(make_run(square, tmp_path / "run", models))
    pt, exported = (made["predictions"].filter(pl.col("model") == n) for n in ("pt", "onnx"))
    assert pt.height == exported.height > 0
    assert np.allclose(pt.select("x", "y", "w", "h", "score"), exported.select("x", "y", "w", "h", "score"), atol=1e-3)
    fixed = made["inference_notices"].filter(pl.col("model") == "onnx")["message"]
    assert any("fixed by the export" in message for message in fixed)


# ---------------------------------------------------------------------------------------------------- real detectors


def _iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(w, 0) * max(h, 0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _boxes_of(frame: pl.DataFrame) -> dict[str, list[tuple]]:
    found = defaultdict(list)
    for row in frame.iter_rows(named=True):
        found[row["frame_id"]].append(((row["x"], row["y"], row["w"], row["h"]), row["score"]))
    return found


@pytest.mark.real
def test_yolox_reproduces_given_predictions(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "photos" / "house_sparrow_cc0"
    truth = json.loads((folder / "annotations_coco.json").read_text())
    name, size = (
        {i["id"]: i["file_name"] for i in truth["images"]},
        {i["id"]: (i["width"], i["height"]) for i in truth["images"]},
    )
    given_boxes = json.loads((folder / "predictions_yolox_nano.json").read_text())
    # The given boxes were made with suppression at 0.65 and were not cut at the frame.
    model = {"name": "yolox", "weights": str(real_data / "detectors" / "yolox_nano.onnx"), "iou": 0.65}
    made = predict.build(make_run(folder, tmp_path / "run", [model]))["predictions"]
    assert made.height == len(given_boxes) == 210
    ours = _boxes_of(made)
    for box in given_boxes:
        x, y, w, h = box["bbox"]
        width, height = size[box["image_id"]]
        cut = (max(x, 0), max(y, 0), min(x + w, width) - max(x, 0), min(y + h, height) - max(y, 0))
        near = max(_iou(cut, b) for b, score in ours[name[box["image_id"]]] if abs(score - box["score"]) < 1e-4)
        assert near > 0.99 or min(cut[2:]) < 3, box


@pytest.mark.real
def test_openvino_reproduces_given_counts(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "flying_birds" / "crops"
    truth = json.loads((folder / "coco.json").read_text())
    given_boxes = json.loads((folder / "preds_yolo11n_int8_openvino.json").read_text())
    name = {i["id"]: Path(i["file_name"]).name for i in truth["images"]}
    real = defaultdict(list)
    for label in truth["annotations"]:
        real[name[label["image_id"]]].append(tuple(label["bbox"]))
    weights = str(real_data / "detectors" / "yolo11n_int8_openvino_model")
    # The given detections were suppressed at 0.6.
    made = predict.build(make_run(folder / "images", tmp_path / "run", [{"name": "m", "weights": weights, "iou": 0.6}]))
    ours = _boxes_of(made["predictions"])
    tp = fp = 0
    for frame_id in name.values():
        free = list(real[frame_id])
        for box, score in sorted(ours[frame_id], key=lambda item: -item[1]):
            best = max(free, key=lambda b: _iou(box, b), default=None)
            if score < 0.25:
                continue
            if best is not None and _iou(box, best) >= 0.5:
                free.remove(best)
                tp += 1
            else:
                fp += 1
    assert abs(tp - 74) <= 2 and abs(fp - 1) <= 2 and len(truth["annotations"]) == 165
    assert abs(made["predictions"].height - len(given_boxes)) <= 8
    if os.uname().machine == "x86_64":
        for box in (b for b in given_boxes if b["score"] >= 0.25):
            near = max(
                _iou(tuple(box["bbox"]), b) for b, s in ours[name[box["image_id"]]] if abs(s - box["score"]) < 0.001
            )
            assert near > 0.99
    assert made["speed"]["precision"].to_list() == ["int8", "int8"]


def test_importing_ultralytics_leaves_the_process_as_it_was(tmp_path):
    """Its own import replaces Pillow's Image.open; then a broken picture would end in an attempt to install a package."""
    code = (
        "import cv2\nfrom PIL import Image\nown, n = Image.open, cv2.getNumThreads()\n"
        "from birdlab.inference.checkpoint import import_ultralytics\nimport_ultralytics()\n"
        "print(Image.open is own, cv2.getNumThreads() == n)"
    )
    env = {**os.environ, "YOLO_CONFIG_DIR": str(tmp_path), "YOLO_OFFLINE": "True"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[-1] == "True True", done.stderr
