"""torchvision networks: where boxes and masks come to lie, against the library itself, and weights that are refused."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_cases import make_run
from mask_cases import box_of, decode, outline, smooth_noise, target_picture, write_turned

from birdlab.errors import BirdlabError, DataError, ParameterError
from birdlab.inference import predict, torchvision_adapter
from birdlab.inference.masks import drawn_rle, pasted_rle
from birdlab.inference.torchvision_adapter import TorchvisionDetector, environment
from birdlab.inference.torchvision_models import Spec, build_network, load_network, save_weights
from birdlab.inference.weights import find_weights
from birdlab.recipe import Model

SMALL = "fasterrcnn_mobilenet_v3_large_320_fpn"
LITE = "ssdlite320_mobilenet_v3_large"


def _weights(path: Path, **model: object):
    return find_weights(Model(name="m", weights=str(path), **model), Path(), Path())


def _detector(path: Path, **model: object) -> TorchvisionDetector:
    made = Model(name="m", weights=str(path), **model)
    return TorchvisionDetector(made, find_weights(made, Path(), Path()), "cpu")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Weights files of untrained networks of two classes, made when first asked for."""
    import torch

    folder = tmp_path_factory.mktemp("untrained")

    def make(architecture: str) -> Path:
        path = folder / f"{architecture}.pt"
        if not path.exists():
            torch.manual_seed(4)
            network = build_network(architecture, 2)
            if architecture == LITE:
                # Untrained, every score would be one third.
                for value in network.head.classification_head.parameters():
                    torch.nn.init.normal_(value, std=0.03)
            save_weights(path, network, Spec(architecture, ["bird", "cat"], (128, 128)))
        return path

    return make


# ---------------------------------------------------------------------------------------------------- planted targets


def _planted_network(answer: Any) -> Any:
    """torchvision's own region network around a head that answers with what it finds in its input tensor."""
    import torch
    from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
    from torchvision.models.detection.transform import GeneralizedRCNNTransform

    class Proposals(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._pre_nms_top_n, self._post_nms_top_n = {"testing": 1}, {"testing": 1}

        def forward(self, images: Any, features: Any, targets: Any) -> Any:
            return [], {}

    class Heads(torch.nn.Module):
        postprocess_detections = staticmethod(lambda *_: None)

        def forward(self, features: Any, proposals: Any, sizes: Any, targets: Any) -> Any:
            return [answer(features["0"][i, :, : size[0], : size[1]]) for i, size in enumerate(sizes)], {}

    class Backbone(torch.nn.Module):
        def forward(self, images: Any) -> Any:
            return images

    transform = GeneralizedRCNNTransform(100, 100, [0.0] * 3, [1.0] * 3)
    return GeneralizedRCNN(Backbone(), Proposals(), Heads(), transform).eval()


def _find_red(image: Any) -> dict[str, Any]:
    """Box around the red pixels of a network's input, and a 28 x 28 grid of how red it is inside."""
    import torch

    red = image[0] > 0.5
    rows, columns = torch.where(red.any(1))[0], torch.where(red.any(0))[0]
    x0, y0, x1, y1 = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    grid = torch.nn.functional.interpolate(red[None, None, y0:y1, x0:x1].float(), (28, 28), mode="area")
    boxes = torch.tensor([[x0, y0, x1, y1]], dtype=torch.float32)
    return {"boxes": boxes, "scores": torch.tensor([0.75]), "labels": torch.tensor([1]), "masks": grid}


def _plant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: Any) -> Path:
    import torch

    path = tmp_path / "planted.pt"
    torch.save({"birdlab": {}, "state_dict": {"nothing": torch.zeros(1)}}, path)
    spec = Spec("maskrcnn_resnet50_fpn", ["bird"], (320, 320))
    monkeypatch.setattr(torchvision_adapter, "load_network", lambda *_, **__: (_planted_network(answer), spec))
    return path


@pytest.mark.parametrize("size", [(1013, 577), (577, 1013), (640, 640), (2000, 90)])
def test_a_planted_target_is_found_upright_and_turned(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = _plant(monkeypatch, tmp_path, _find_red)
    picture, inside = target_picture(*size)
    folder = tmp_path / "photos"
    folder.mkdir()
    for orientation in (1, 3, 6, 8):
        write_turned(folder / f"turned{orientation}.jpg", picture, orientation)
    model = {"name": "m", "weights": str(weights), "imgsz": 320, "batch": 2}
    made = predict.build(make_run(folder, tmp_path / "run", [model]))["predictions"]
    assert made["frame_id"].to_list() == [f"turned{k}.jpg" for k in (1, 3, 6, 8)]
    pixel = max(size) / 320  # one pixel of the network's input: what it sees is sampled, so an edge can be off by it
    for x, y, w, h, rle in made.select("x", "y", "w", "h", "mask_rle").rows():
        assert np.abs(np.array([x, y, x + w, y + h]) - box_of(inside)).max() <= pixel
        mask = decode(rle)
        assert mask.shape == inside.shape
        # Every edge of the L within one and a half input pixels: the frame pixels in doubt are a band along its outline.
        around = 2 * sum(box_of(inside)[k + 2] - box_of(inside)[k] for k in (0, 1))
        assert (mask ^ inside).sum() <= 1.5 * pixel * around


def test_coordinates_equal_hand_calculation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    grid = torch.zeros(1, 1, 28, 28)
    grid[..., :14] = 1.0
    said = {"boxes": torch.tensor([[64.0, 32.0, 128.0, 96.0]]), "scores": torch.tensor([0.5])}
    detector = _detector(
        _plant(monkeypatch, tmp_path, lambda _: {**said, "labels": torch.tensor([1]), "masks": grid}), imgsz=320
    )
    boxes = detector.predict([np.zeros((577, 1013, 3), np.uint8)]).boxes[0]
    # Longer side 1013 to 320; shorter floor(577 x 320 / 1013) = floor(182.27) = 182.
    x0, y0, x1, y1 = 64 * 1013 / 320, 32 * 577 / 182, 128 * 1013 / 320, 96 * 577 / 182
    assert boxes.xywh[0].tolist() == pytest.approx([x0, y0, x1 - x0, y1 - y0], abs=1e-3)
    columns, rows = np.arange(1013) + 0.5, np.arange(577) + 0.5
    left_half = (columns > x0) & (columns < (x0 + x1) / 2)
    expected = ((rows > y0) & (rows < y1))[:, None] & left_half[None]
    # Between two cells that end, at a corner, interpolation rounds the corner off: one cell there is not compared.
    near_x = np.minimum(np.abs(columns - x0), np.abs(columns - (x0 + x1) / 2)) < (x1 - x0) / 28
    near_y = np.minimum(np.abs(rows - y0), np.abs(rows - y1)) < (y1 - y0) / 28
    differ = decode(boxes.masks[0]) ^ expected
    assert expected.sum() > 15_000
    assert not differ[~(near_y[:, None] & near_x[None])].any()


def test_an_empty_mask_keeps_its_box_and_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def answer(_: Any) -> dict[str, Any]:
        grids = torch.full((2, 1, 28, 28), 0.5)  # not above one half
        grids[1] = 0.6
        boxes = torch.tensor([[4.0, 4.0, 20.0, 20.0], [6.0, 6.0, 20.0, 20.0]])
        return {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1]), "masks": grids}

    weights = _plant(monkeypatch, tmp_path, answer)
    folder = tmp_path / "photos"
    folder.mkdir()
    write_turned(folder / "a.jpg", target_picture(64, 48)[0], 1)
    made = predict.build(make_run(folder, tmp_path / "run", [{"name": "m", "weights": str(weights), "imgsz": 64}]))
    assert [decode(rle).any() for rle in made["predictions"]["mask_rle"]] == [False, True]
    said = made["inference_notices"].filter(pl.col("code") == "empty_masks")
    assert said["n"].to_list() == [1]


# ---------------------------------------------------------------------------------------------------- the library itself


@pytest.mark.parametrize("architecture", [SMALL, "retinanet_resnet50_fpn", "fcos_resnet50_fpn", LITE])
def test_boxes_equal_the_library_s_own(untrained: Any, architecture: str) -> None:
    import torch

    path = untrained(architecture)
    detector = _detector(path, imgsz=128, conf=0.005, iou=0.6, max_det=40)
    images = [smooth_noise(121, 77), smooth_noise(121, 77, seed=5)]
    ours = detector.predict(images).boxes
    own, _ = load_network(path)
    torchvision_adapter.set_limits(own, conf=0.005, iou=0.6, max_det=40)
    if not architecture.startswith("ssd"):
        # Networks without a background column score their label 0 too, which stands for nothing.
        own.detections_per_img = 5000
    if not architecture.startswith("ssd"):
        own.transform.min_size, own.transform.max_size = (128,), 128
    with torch.inference_mode():
        theirs = own([torch.from_numpy(i[..., ::-1].copy()).permute(2, 0, 1).float() / 255 for i in images])
    for mine, other in zip(ours, theirs, strict=True):
        xyxy = np.concatenate([mine.xywh[:, :2], mine.xywh[:, :2] + mine.xywh[:, 2:]], axis=1)
        named = other["labels"] > 0
        corners, scores, labels = (other[k][named][:40].numpy() for k in ("boxes", "scores", "labels"))
        sides = (corners[:, 2:] > corners[:, :2]).all(axis=1)
        assert mine.n_dropped == (~sides).sum()
        # The library cuts at the frame in float32 before scaling: a box may reach over it by a rounding.
        assert np.allclose(xyxy, corners[sides], atol=1e-3)
        assert np.allclose(mine.scores, scores[sides], atol=1e-6)
        assert mine.classes.tolist() == labels[sides].tolist()
        assert 0 < len(mine.scores) <= 40 and mine.scores.min() > 0.005


def test_masks_lie_where_the_library_pastes_them(untrained: Any) -> None:
    import torch

    path = untrained("maskrcnn_resnet50_fpn")
    detector = _detector(path, imgsz=128, max_det=12)
    image = smooth_noise(181, 243)
    ours = detector.predict([image]).boxes[0]
    own, _ = load_network(path)
    torchvision_adapter.set_limits(own, conf=0.001, iou=0.7, max_det=12)
    own.transform.min_size, own.transform.max_size = (128,), 128
    with torch.inference_mode():
        other = own([torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1).float() / 255])[0]
    compared = 0
    for rle, pasted in zip(ours.masks, other["masks"][:, 0].numpy() > 0.5, strict=True):
        if pasted.sum() < 100:
            continue
        # Its rounding of boxes to whole pixels shifts an edge by up to a pixel: a band along all edges of the mask.
        mask = decode(rle)
        assert (mask ^ pasted).sum() <= outline(pasted)
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize("architecture", [SMALL, "maskrcnn_resnet50_fpn"])
def test_a_frame_of_twice_the_size_gives_boxes_and_masks_of_twice_the_size(untrained: Any, architecture: str) -> None:
    detector = _detector(untrained(architecture), imgsz=128, max_det=8)
    small = smooth_noise(128, 91)
    large = small.repeat(2, axis=0).repeat(2, axis=1)  # each pixel four times: halving gives the same input again
    a, b = detector.predict([small]).boxes[0], detector.predict([large]).boxes[0]
    assert len(a.scores) == 8
    assert np.allclose(b.xywh, 2 * a.xywh, atol=2e-2)
    assert np.allclose(b.scores, a.scores, atol=1e-4)
    for one, two in zip(a.masks or [], b.masks or [], strict=True):
        if one is None or two is None:
            continue
        doubled, mask = decode(one).repeat(2, axis=0).repeat(2, axis=1), decode(two)
        sure = mask.reshape(91, 2, 128, 2).sum(axis=(1, 3)) % 4 == 0  # all four pixels agree
        wrong = (doubled ^ mask)[::2, ::2] & sure
        assert wrong.sum() <= 0.03 * max(1000, mask.sum() / 4)  # noise of a cell or two between them


@pytest.mark.parametrize("architecture", [SMALL, "fcos_resnet50_fpn"])
def test_other_classes_do_not_use_up_the_places(untrained: Any, architecture: str) -> None:
    everything = _detector(untrained(architecture), imgsz=64, max_det=5000)
    one = _detector(untrained(architecture), imgsz=64, max_det=5)
    one.keep = [2]
    image = smooth_noise(64, 48)
    a, b = everything.predict([image]).boxes[0], one.predict([image]).boxes[0]
    of_class = a.classes == 2
    assert set(a.classes.tolist()) == {1, 2}
    n = len(b.scores)
    assert n + b.n_dropped == 5 and b.classes.tolist() == [2] * n
    assert np.allclose(b.xywh, a.xywh[of_class][:n], atol=1e-3)
    assert np.allclose(b.scores, a.scores[of_class][:n], atol=1e-6)


def test_settings_that_cannot_be_kept_are_said(untrained: Any) -> None:
    detector = _detector(untrained(LITE), imgsz=640, half=True)
    assert (detector.imgsz, detector.precision) == (320, "fp32")
    assert [r.split(",")[0] for r in detector.remarks] == [
        "half precision was asked for",
        "the network's input is fixed at 320 px; imgsz 640 was not used",
    ]
    assert "128 px; imgsz 640" in _detector(untrained(SMALL)).remarks[0]
    assert detector.names == {1: "bird", 2: "cat"}


# ---------------------------------------------------------------------------------------------------- drawing


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6))
def test_drawing_equals_interpolating_the_whole_frame(seed: int) -> None:
    from scipy.ndimage import map_coordinates

    rng = np.random.default_rng(seed)
    height, width = rng.integers(5, 60, 2)
    grid = rng.normal(size=rng.integers(1, 9, 2)) - rng.choice([0, 1.5])
    scale, offset = rng.uniform(0.05, 0.6, 2), rng.uniform(-2, 2, 2)
    low = rng.uniform(0, 0.8, 2) * (width, height)
    box = np.concatenate([low, rng.uniform(0.1, 1, 2) * ((width, height) - low)])
    xs, ys = (np.arange(width) + 0.5) * scale[0] + offset[0], (np.arange(height) + 0.5) * scale[1] + offset[1]
    at = np.meshgrid(ys - 0.5, xs - 0.5, indexing="ij")
    expected = map_coordinates(grid, at, order=1, mode="nearest") > 0.2
    x0, y0, x1, y1 = *np.floor(box[:2]).astype(int), *np.ceil(box[:2] + box[2:]).astype(int)
    cut = np.zeros_like(expected)
    cut[y0:y1, x0:x1] = expected[y0:y1, x0:x1]
    rle = drawn_rle(grid, tuple(scale), tuple(offset), box, (int(height), int(width)), level=0.2)
    assert (rle is None) == (not cut.any())
    assert rle is None or np.array_equal(decode(rle), cut)


def test_300_masks_of_a_4k_frame_never_lie_in_memory_together() -> None:
    rng = np.random.default_rng(0)
    shape = (2160, 3840)
    grids = rng.random((300, 28, 28)).astype(np.float32)
    grids[:, 4:24, 4:24] += 0.5
    low = rng.uniform(0, 1500, (300, 2))
    whole = np.concatenate([low, low + rng.uniform(30, 600, (300, 2))], axis=1)
    whole[0] = (0, 0, 3840, 2160)
    tracemalloc.start()
    rles = [pasted_rle(g, np.concatenate([w[:2], w[2:] - w[:2]]), w, shape) for g, w in zip(grids, whole, strict=True)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert None not in rles
    # One mask over the whole frame needs less than ten bytes a pixel; 300 whole masks would be 2.5 GB.
    assert peak < 10 * shape[0] * shape[1]


# ---------------------------------------------------------------------------------------------------- weights


def test_weights_come_back_as_they_were_saved(tmp_path: Path) -> None:
    import torch

    network = build_network(LITE, 1)
    spec = Spec(LITE, ["wren"], (320, 320), {"score_thresh": 0.1}, {"seed": 3})
    save_weights(tmp_path / "a.pt", network, spec)
    save_weights(tmp_path / "elsewhere.pt", network, spec)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "elsewhere.pt").read_bytes()
    back, said = load_network(tmp_path / "a.pt")
    assert said == spec
    assert not back.training
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), back.state_dict().values(), strict=True)
    )
    assert _weights(tmp_path / "a.pt").adapter == "torchvision"
    # Three of the library's own files are meant for batch norms with epsilon 0; their names hold the hash.
    norms = {
        m.eps for m in load_network(tmp_path / "a.pt", sha256="258fb6c6" + "0" * 56)[0].modules() if hasattr(m, "eps")
    }
    assert norms == {0.0} and {m.eps for m in back.modules() if hasattr(m, "eps")} != {0.0}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.pt", "elsewhere.pt"]


@pytest.mark.parametrize("suffix", ["pt", "pth"])
def test_code_in_weights_does_not_run(tmp_path: Path, suffix: str) -> None:
    import torch

    mark, path = tmp_path / "was-here", tmp_path / f"evil.{suffix}"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {mark}",)

    for payload in ({"birdlab": {"x": Evil()}, "state_dict": {"w": torch.zeros(1)}}, {"w": Evil()}):
        torch.save(payload, path)
        with pytest.raises(DataError, match="posix.system"):
            predict.load_detector(Model(name="m", weights=str(path)), _weights(path), "cpu", tmp_path / "cache")
        # Trust is not offered: a state dict has no need of it.
        with pytest.raises(DataError, match="posix.system"):
            _detector(path, trust=True, adapter="torchvision")
    (tmp_path / "old.pth").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError):
        _detector(tmp_path / "old.pth")
    assert not mark.exists()


def test_a_bare_state_dict_needs_its_architecture_and_names(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "bare.pth"
    torch.save(build_network(LITE, 2).state_dict(), path, _use_new_zipfile_serialization=False)
    assert _weights(path).adapter == "torchvision"
    codes = []
    for more in ({}, {"architecture": "ssdlite320_mobilenet_large"}, {"architecture": LITE}):
        with pytest.raises(BirdlabError) as caught:
            _detector(path, **more)
        codes.append(caught.value.problems[0].code)
    assert codes == ["no_architecture", "unknown_architecture", "no_names"]
    (tmp_path / "bare.txt").write_text("__background__\nbird\ncat\n")
    before = environment(_weights(path), "cpu")
    assert _detector(path, architecture=LITE).names == {1: "bird", 2: "cat"}
    (tmp_path / "bare.txt").write_text("wren\ntit\n")
    assert _detector(path, architecture=LITE).names == {1: "wren", 2: "tit"}
    assert environment(_weights(path), "cpu") != before
    (tmp_path / "bare.txt").write_text("wren\n")
    with pytest.raises(DataError, match="number of class names"):
        _detector(path, architecture=LITE)


def test_91_outputs_are_coco_s_classes(tmp_path: Path) -> None:
    import torch

    state = build_network(LITE, 90).state_dict()
    # Networks trained with frozen batch norms have no counters.
    torch.save({k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}, tmp_path / "coco.pth")
    names = _detector(tmp_path / "coco.pth", architecture=LITE).names
    assert (len(names), names[1], names[16], 12 in names) == (80, "person", "bird", False)


def test_weights_that_cannot_be(tmp_path: Path, untrained: Any) -> None:
    import torch

    good = torch.load(untrained(LITE), weights_only=True)
    cases = {
        "wrong_library": {**good, "birdlab": {**good["birdlab"], "library": "detectron"}},
        "wrong_names": {**good, "birdlab": {**good["birdlab"], "names": {"1": "bird"}}},
        "unknown_architecture": {**good, "birdlab": {**good["birdlab"], "architecture": "yolo"}},
        "unknown_setting": {**good, "birdlab": {**good["birdlab"], "settings": {"reduce_tails": True}}},
        "bad_checkpoint": {**good, "birdlab": {**good["birdlab"], "imgsz": [0, "x"]}},
        "wrong_architecture": {**good, "birdlab": {**good["birdlab"], "names": ["bird"]}},
        "no_weights": {**good, "state_dict": {"w": [1, 2]}},
    }
    for code, held in cases.items():
        torch.save(held, tmp_path / "w.pt")
        with pytest.raises(BirdlabError) as caught:
            _detector(tmp_path / "w.pt", adapter="torchvision")
        assert caught.value.problems[0].code == code
        assert str(tmp_path / "w.pt") in str(caught.value)
    with pytest.raises(DataError, match="Leave architecture out"):
        _detector(untrained(LITE), architecture=SMALL)
    (tmp_path / "text.pth").write_text("weights")
    with pytest.raises(DataError, match="expected weights as torch.save writes them"):
        _detector(tmp_path / "text.pth")
    (tmp_path / "x.onnx").write_bytes(b"")
    with pytest.raises(ParameterError, match="found ultralytics for text.pth"):
        _weights(tmp_path / "text.pth", adapter="ultralytics")
    with pytest.raises(ParameterError, match="min_size"):
        build_network(LITE, 1, settings={"min_size": 5})
