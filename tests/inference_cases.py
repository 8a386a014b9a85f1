"""A detector whose answers can be worked out by hand, and small studies for it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import onnx
import polars as pl
from onnx import TensorProto, helper, numpy_helper

from birdlab import schemas
from birdlab.recipe import parse_recipe

SIZE = 64
CELLS = 84  # 8 x 8 + 4 x 4 + 2 x 2


def bright_spot_detector(path: Path, *, batch: int | str = 1, size: int = SIZE) -> Path:
    """A YOLOX head that finds bright cells: objectness is the logistic of (mean blue - 128) / 16 of a cell.

    Every box has its cell's centre and twice its stride as size; class 0 has probability 0.8, class 1 has 0.2.
    """
    nodes, parts = [], []
    for stride in (8, 16, 32):
        name, n = f"s{stride}", (size // stride) ** 2
        nodes.append(
            helper.make_node(
                "AveragePool", ["images"], [f"{name}_pool"], kernel_shape=[stride, stride], strides=[stride, stride]
            )
        )
        nodes.append(helper.make_node("Conv", [f"{name}_pool", "weight", "bias"], [f"{name}_raw"]))
        nodes.append(helper.make_node("Split", [f"{name}_raw", "split"], [f"{name}_box", f"{name}_logit"], axis=1))
        nodes.append(helper.make_node("Sigmoid", [f"{name}_logit"], [f"{name}_probability"]))
        nodes.append(helper.make_node("Concat", [f"{name}_box", f"{name}_probability"], [f"{name}_all"], axis=1))
        nodes.append(helper.make_node("Reshape", [f"{name}_all", f"{name}_shape"], [f"{name}_flat"]))
        parts.append((name, n))
    nodes.append(helper.make_node("Concat", [f"{name}_flat" for name, _ in parts], ["joined"], axis=2))
    nodes.append(helper.make_node("Transpose", ["joined"], ["output"], perm=[0, 2, 1]))
    weight = np.zeros((7, 3, 1, 1), dtype=np.float32)
    weight[4, 0] = 1 / 16
    logit = float(np.log(4.0))  # logistic(log 4) = 0.8
    bias = np.array([0.5, 0.5, np.log(2), np.log(2), -8.0, logit, -logit], dtype=np.float32)
    constants = [
        numpy_helper.from_array(weight, "weight"),
        numpy_helper.from_array(bias, "bias"),
        numpy_helper.from_array(np.array([4, 3], dtype=np.int64), "split"),
        *[numpy_helper.from_array(np.array([0, 7, n], dtype=np.int64), f"{name}_shape") for name, n in parts],
    ]
    n_cells = sum(n for _, n in parts)
    graph = helper.make_graph(
        nodes,
        "spots",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, size, size])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, n_cells, 7])],
        constants,
    )
    return _save(graph, path)


def constant_detector(path: Path, output: np.ndarray, *, size: int = SIZE) -> Path:
    """A model that answers ``output`` whatever it is shown."""
    zero = helper.make_node("ReduceSum", ["images"], ["total"], keepdims=0)
    nodes = [
        zero,
        helper.make_node("Mul", ["total", "zero"], ["nothing"]),
        helper.make_node("Add", ["answer", "nothing"], ["output"]),
    ]
    constants = [
        numpy_helper.from_array(output.astype(np.float32), "answer"),
        numpy_helper.from_array(np.float32(0), "zero"),
    ]
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, list(output.shape))],
        constants,
    )
    return _save(graph, path)


def _save(graph: onnx.GraphProto, path: Path) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def spot_frame(column: int, row: int, value: int = 255, size: int = SIZE) -> np.ndarray:
    """A black frame with one cell of 8 x 8 px at ``value``."""
    image = np.zeros((size, size, 3), dtype=np.uint8)
    image[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = value
    return image


def spot_study(folder: Path, n: int = 12) -> Path:
    """``n`` photographs with a bright cell at column i mod 8, row i div 8."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        cv2.imwrite(str(folder / f"f{i:02d}.png"), spot_frame(i % 8, i // 8))
    return folder


def make_run(folder: Path, out: Path, models: list[dict], **recipe: object) -> SimpleNamespace:
    """As much of a :class:`birdlab.study.Run` as running detectors needs, over all pictures of a folder."""
    paths = sorted(p for p in folder.iterdir() if p.suffix in {".png", ".jpg"})
    media = [
        {
            "dataset": "spots",
            "media_id": p.name,
            "kind": "image",
            "path": str(p),
            "video_id": "s1",
            "sha256": hashlib.sha256(p.read_bytes()).hexdigest(),
        }
        for p in paths
    ]
    frames = [
        {
            "frame_id": p.name,
            "media_id": p.name,
            "video_id": "s1",
            "frame_index": 0,
            "width_px": SIZE,
            "height_px": SIZE,
            "split": "test",
            "label_state": "unlabelled",
        }
        for p in paths
    ]
    tables = {
        "media": schemas.validate("media", pl.DataFrame(media)),
        "frames": schemas.validate("frames", pl.DataFrame(frames)),
    }
    raw = {"name": "spots", "data": {"media": [{"images": "*"}]}, "models": models, "device": "cpu", **recipe}
    return SimpleNamespace(recipe=parse_recipe(raw), dir=out, base=folder, data_root=folder, table=tables.__getitem__)
