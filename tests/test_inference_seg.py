"""Masks of ultralytics segmenters: where they come to lie, against the library's own, and what becomes of empty ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from inference_cases import make_run
from mask_cases import box_of, decode, outline, overlap, smooth_noise, target_picture, write_turned

from birdlab.inference import predict
from birdlab.inference.ultralytics_adapter import UltralyticsDetector, prepare_environment
from birdlab.inference.weights import find_weights
from birdlab.recipe import Model


@pytest.fixture(scope="module")
def segmenters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained segmenters of one class."""
    folder = tmp_path_factory.mktemp("segmenters")
    prepare_environment(folder / "cache")
    import torch
    from ultralytics import YOLO

    paths = {}
    for name in ("yolov8n-seg", "yolo26n-seg"):
        torch.manual_seed(2)
        model = YOLO(f"{name}.yaml")
        network = type(model.model)(f"{name}.yaml", nc=1, verbose=False)
        network.names, network.args, network.task = {0: "bird"}, model.model.args, model.task
        model.model = network
        paths[name] = folder / f"{name}.pt"
        model.save(paths[name])
    return paths


def _detector(path: Path, cache: Path, **model: object) -> UltralyticsDetector:
    made = Model(name="m", weights=str(path), **model)
    return UltralyticsDetector(made, find_weights(made, Path(), Path()), "auto", cache)


def _find_red(images: Any) -> Any:
    """What a segmenter answers whose first prototype is how red a quarter-size cell is: box, score, coefficients."""
    import torch

    red = (images[:, 0] > 0.5).float()
    cells = torch.nn.functional.avg_pool2d(2 * red - 1, 4)
    prototypes = torch.zeros(len(images), 32, *cells.shape[1:])
    prototypes[:, 0] = cells
    found = torch.zeros(len(images), 37, 1)
    for i, one in enumerate(red):
        rows, columns = torch.where(one.any(1))[0], torch.where(one.any(0))[0]
        x0, y0, x1, y1 = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
        found[i, :6, 0] = torch.tensor([(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, 0.75, 1.0])
    return found, prototypes


@pytest.mark.parametrize("size", [(1013, 577), (577, 1013), (640, 640), (1277, 331)])
def test_a_planted_target_is_found_upright_and_turned(
    segmenters: dict[str, Path], size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = UltralyticsDetector._probe

    def probe_then_plant(self: UltralyticsDetector, *arguments: Any) -> None:
        own(self, *arguments)
        self._yolo.predictor.inference = _find_red

    monkeypatch.setattr(UltralyticsDetector, "_probe", probe_then_plant)
    picture, inside = target_picture(*size)
    folder = tmp_path / "photos"
    folder.mkdir()
    for orientation in (1, 3, 6, 8):
        write_turned(folder / f"turned{orientation}.jpg", picture, orientation)
    model = {"name": "m", "weights": str(segmenters["yolov8n-seg"]), "imgsz": 320, "batch": 2}
    made = predict.build(make_run(folder, tmp_path / "run", [model]))["predictions"]
    assert made["frame_id"].to_list() == [f"turned{k}.jpg" for k in (1, 3, 6, 8)]
    pixel = max(size) / 320
    for x, y, w, h, rle in made.select("x", "y", "w", "h", "mask_rle").rows():
        assert np.abs(np.array([x, y, x + w, y + h]) - box_of(inside)).max() <= pixel
        mask = decode(rle)
        assert mask.shape == inside.shape
        # The grid has cells of four input pixels: every edge of the L within half a cell.
        around = 2 * sum(box_of(inside)[k + 2] - box_of(inside)[k] for k in (0, 1))
        assert (mask ^ inside).sum() <= 2 * pixel * around
        assert overlap(mask, inside) > 0.85


@pytest.mark.parametrize("height", [577, 574])
def test_coordinates_equal_hand_calculation(segmenters: dict[str, Path], tmp_path: Path, height: int) -> None:
    import torch

    detector = _detector(segmenters["yolov8n-seg"], tmp_path, imgsz=320)

    def answer(images: Any) -> Any:
        assert tuple(images.shape) == (1, 3, 192, 320)
        found = torch.zeros(1, 37, 1)
        found[0, :6, 0] = torch.tensor([96, 64, 64, 64, 0.5, 1.0])
        prototypes = torch.full((1, 32, 48, 80), -1.0)
        prototypes[..., :24] = 1.0  # inside left of input column 96
        return found, prototypes

    detector._yolo.predictor.inference = answer
    boxes = detector.predict([np.zeros((height, 1013, 3), np.uint8)]).boxes[0]
    # 320 / 1013 of 577 is 182.27, so 182 rows and 10 to pad, 5 above; of 574 it is 181.32, so 181 and 11, 5 above.
    rows, above = {577: (182, 5), 574: (181, 5)}[height]
    x0, x1 = 64 * 1013 / 320, 128 * 1013 / 320
    y0, y1 = (32 - above) * height / rows, (96 - above) * height / rows
    assert boxes.xywh[0].tolist() == pytest.approx([x0, y0, x1 - x0, y1 - y0], abs=1e-3)
    expected = np.zeros((height, 1013), dtype=bool)
    columns = np.arange(1013)
    inside = (columns >= np.floor(x0)) & (columns + 0.5 < 96 * 1013 / 320)
    expected[int(np.floor(y0)) : int(np.ceil(y1)), inside] = True
    assert np.array_equal(decode(boxes.masks[0]), expected)


@pytest.mark.parametrize("name", ["yolov8n-seg", "yolo26n-seg"])
def test_masks_equal_the_library_s_at_frame_size(segmenters: dict[str, Path], tmp_path: Path, name: str) -> None:
    from ultralytics import YOLO

    image = smooth_noise(203, 131)
    ours = _detector(segmenters[name], tmp_path, imgsz=96, conf=1e-5, max_det=60).predict([image]).boxes[0]
    settings = {"imgsz": 96, "conf": 1e-5, "iou": 0.7, "max_det": 60, "verbose": False, "device": "cpu"}
    theirs = YOLO(str(segmenters[name])).predict(image, retina_masks=True, **settings)[0]
    full = [i for i, mask in enumerate(ours.masks) if mask is not None]
    # The library leaves out boxes with an empty mask; those are here, with nothing for a mask.
    xyxy = theirs.boxes.xyxy.numpy()
    compared = 0
    for box, drawn in zip(xyxy, theirs.masks.data.numpy().astype(bool), strict=True):
        same = [i for i in full if np.abs(ours.xywh[i, :2] - box[:2]).max() < 1e-3]
        same = [i for i in same if np.abs(ours.xywh[i, :2] + ours.xywh[i, 2:] - box[2:]).max() < 1e-3]
        if drawn.sum() < 60:
            continue
        # It leaves out a column or row of which the box covers only a part: a band along the outline.
        assert min((decode(ours.masks[i]) ^ drawn).sum() for i in same) <= outline(drawn)
        compared += 1
    assert compared >= 3


def test_a_frame_of_twice_the_size_gives_boxes_and_masks_of_twice_the_size(
    segmenters: dict[str, Path], tmp_path: Path
) -> None:
    detector = _detector(segmenters["yolov8n-seg"], tmp_path, imgsz=96, conf=1e-5, max_det=20)
    small = smooth_noise(96, 61)
    large = small.repeat(2, axis=0).repeat(2, axis=1)  # each pixel four times: halving gives the same input again
    a, b = detector.predict([small]).boxes[0], detector.predict([large]).boxes[0]
    assert len(a.scores) >= 5
    assert np.allclose(b.xywh, 2 * a.xywh, atol=1e-3)
    compared = 0
    for one, two in zip(a.masks, b.masks, strict=True):
        if one is None or two is None:
            continue
        mask = decode(two)
        blocks = mask.reshape(61, 2, 96, 2).sum(axis=(1, 3))
        wrong = (decode(one) != (blocks == 4)) & (blocks % 4 == 0)  # where all four pixels agree
        assert wrong.sum() <= 0.02 * max(100, mask.sum() / 4)
        compared += 1
    assert compared >= 3


def test_empty_masks_keep_their_boxes_and_are_counted(segmenters: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i, size in enumerate([(90, 60), (60, 90)]):
        write_turned(folder / f"p{i}.jpg", smooth_noise(*size), 1)
    model = {"name": "m", "weights": str(segmenters["yolov8n-seg"]), "imgsz": 64, "conf": 1e-5}
    made = predict.build(make_run(folder, tmp_path / "run", [model]))
    masks = made["predictions"]["mask_rle"]
    assert masks.null_count() == 0
    empty = sum(not decode(rle).any() for rle in masks)
    assert 0 < empty < made["predictions"].height
    assert made["inference_notices"].filter(pl.col("code") == "empty_masks")["n"].to_list() == [empty]
    for x, y, w, h, rle in made["predictions"].select("x", "y", "w", "h", "mask_rle").rows():
        if not decode(rle).any():
            continue
        x0, y0, x1, y1 = box_of(decode(rle))
        assert x0 >= np.floor(x) and y0 >= np.floor(y) and x1 <= np.ceil(x + w) and y1 <= np.ceil(y + h)
