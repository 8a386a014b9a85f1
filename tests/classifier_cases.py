"""Classifiers of the mean colour, whose answers can be worked out by hand: ONNX, and TFLite in float and int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper

from birdlab.errors import BirdlabError
from birdlab.inference.classify import Classified, classify
from birdlab.recipe.abstention import Classifier

LABELS = ["red", "green", "blue", "none of them"]
# Logits from the mean colour (red, green, blue, 0-255), and their bias.
WEIGHT = np.array([[4, -1, 0, 0], [0, 3, -1, 0], [-1, 0, 5, 0]], dtype=np.float32) / 100
BIAS = np.array([0.5, -0.25, 0.0, 1.0], dtype=np.float32)
COLOURS = {"red": (200, 20, 10), "green": (10, 180, 30), "blue": (0, 40, 250), "dark": (4, 2, 1)}  # RGB


def colour_classifier(
    path: Path,
    *,
    layout: str = "NCHW",
    end: str = "Softmax",
    batch: int | str = "n",
    size: int | str = 8,
    dtype: int = TensorProto.FLOAT,
    extra: str = "",
) -> Path:
    """Mean colour, linear, and ``end``: Softmax, Sigmoid, or Identity for logits."""
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    shape = [batch, 3, size, size] if layout == "NCHW" else [batch, size, size, 3]
    nodes = [
        helper.make_node("Cast", ["image"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["real", "axes"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
        helper.make_node(end, ["logits"], ["scores"]),
    ]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 4])]
    if extra == "feature":
        outputs.insert(0, helper.make_tensor_value_info("mean", TensorProto.FLOAT, [batch, 3]))
    if extra == "twin":
        outputs.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 4]))
    if extra == "custom":
        nodes.append(helper.make_node("Magic", ["scores"], ["end"], domain="com.example"))
        outputs = [helper.make_tensor_value_info("end", TensorProto.FLOAT, [batch, 4])]
    constants = [
        numpy_helper.from_array(np.array(axes, dtype=np.int64), "axes"),
        numpy_helper.from_array(WEIGHT, "weight"),
        numpy_helper.from_array(BIAS, "bias"),
    ]
    graph = helper.make_graph(
        nodes, "colours", [helper.make_tensor_value_info("image", dtype, shape)], outputs, constants
    )
    sets = [helper.make_opsetid("", 18)] + ([helper.make_opsetid("com.example", 1)] if extra == "custom" else [])
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), str(path))
    path.with_name(f"{path.stem}.labels.txt").write_text("\n".join(LABELS) + "\n")
    return path


def expected(rgb: np.ndarray, end: str = "Softmax") -> np.ndarray:
    """The same in numpy, float64."""
    logits = np.asarray(rgb, dtype=np.float64) @ WEIGHT.astype(np.float64) + BIAS
    if end == "Sigmoid":
        return 1 / (1 + np.exp(-logits))
    power = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


class _TinyTflite:
    """Puts a TFLite model together, tensor by tensor."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema, self.model, self.graph = schema, schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.buffers = 3, [schema.BufferT()]
        self.model.operatorCodes, self.model.subgraphs = [], [self.graph]
        self.graph.tensors, self.graph.operators = [], []

    def tensor(
        self, name: str, shape: list[int], kind: str, value: np.ndarray | None = None, quantised: Any = None
    ) -> int:
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, [abs(n) for n in shape], 0
        tensor.shapeSignature = shape if min(shape) < 0 else None
        tensor.type = getattr(self.schema.TensorType, kind)
        if value is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(value.tobytes(), dtype=np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if quantised is not None:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [quantised[0]], [quantised[1]]
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def operator(self, kind: str, inputs: list[int], outputs: list[int], **options: Any) -> None:
        code, operator = self.schema.OperatorCodeT(), self.schema.OperatorT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        if kind == "CUSTOM":
            code.customCode = "Magic"
        name = {"MEAN": "ReducerOptions", "FULLY_CONNECTED": "FullyConnectedOptions", "SOFTMAX": "SoftmaxOptions"}
        operator.opcodeIndex, operator.inputs, operator.outputs = len(self.model.operatorCodes), inputs, outputs
        if kind in name:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, name[kind])
            operator.builtinOptions = getattr(self.schema, name[kind] + "T")()
            for key, value in options.items():
                setattr(operator.builtinOptions, key, value)
        self.model.operatorCodes.append(code)
        self.graph.operators.append(operator)

    def save(self, path: Path, given: int, made: int) -> None:
        import flatbuffers

        self.graph.inputs, self.graph.outputs = [given], [made]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))


def colour_tflite(path: Path, *, kind: str = "FLOAT32", end: str = "SOFTMAX", side: int = 8, batch: int = 1) -> Path:
    """The same network as TFLite; ``end``: SOFTMAX, CUSTOM or empty for logits; -1: left open.

    INT8 takes values from 0 to 255 as scale 1, zero point -128, and gives steps of 1/256 (logits: of 1/8).
    """
    tiny, whole = _TinyTflite(), kind == "INT8"
    pixel, step, fine = ((1.0, -128), (1 / 8, 0), (1 / 256, -128)) if whole else (None, None, None)
    unit = float(np.abs(WEIGHT).max()) / 127
    weight = np.rint(WEIGHT.T / unit).astype(np.int8) if whole else WEIGHT.T.copy()
    bias = np.rint(BIAS / unit).astype(np.int32) if whole else BIAS
    image = tiny.tensor("image", [batch, side, side, 3], kind, quantised=pixel)
    axes = tiny.tensor("axes", [2], "INT32", np.array([1, 2], dtype=np.int32))
    weights = tiny.tensor("weight", [4, 3], kind, weight, (unit, 0) if whole else None)
    biases = tiny.tensor("bias", [4], "INT32" if whole else kind, bias, (unit, 0) if whole else None)
    mean = tiny.tensor("mean", [batch, 3], kind, quantised=pixel)
    logits = tiny.tensor("logits", [batch, 4], kind, quantised=step)
    tiny.operator("MEAN", [image, axes], [mean], keepDims=False)
    tiny.operator("FULLY_CONNECTED", [mean, weights, biases], [logits])
    made = logits
    if end:
        made = tiny.tensor("scores", [batch, 4], kind, quantised=fine)
        tiny.operator(end, [logits], [made], **({"beta": 1.0} if end == "SOFTMAX" else {}))
    tiny.save(path, image, made)
    path.with_name(f"{path.stem}.labels.txt").write_text("\n".join(LABELS) + "\n")
    return path


def pictures(folder: Path, n: int = 0) -> pl.DataFrame:
    """Photographs of one colour each, of different shapes; ``n`` more of noise."""
    rows = []
    for i, (name, rgb) in enumerate(COLOURS.items()):
        cv2.imwrite(str(folder / f"{name}.png"), np.full((20 + i, 30, 3), rgb[::-1], dtype=np.uint8))
        rows.append((name, f"{name}.png"))
    rng = np.random.default_rng(1)
    for i in range(n):
        cv2.imwrite(str(folder / f"noise{i}.png"), rng.integers(0, 256, (9 + i, 11, 3), dtype=np.uint8))
        rows.append((f"noise{i}", f"noise{i}.png"))
    return pl.DataFrame(rows, schema=["item_id", "image"], orient="row")


def section(weights: str, **more: Any) -> Classifier:
    return Classifier(name="m", weights=weights, **more)


def run(folder: Path, items: pl.DataFrame, weights: str = "net.onnx", *, to: str = "run", **more: Any) -> Classified:
    options = {key: more.pop(key) for key in ("shard_size", "progress", "device") if key in more}
    return classify(section(weights, **more), items, base=folder, root=folder, out_dir=folder / to, **options)


def rows(made: Classified) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in made.parts])


def problem(error: pytest.ExceptionInfo[BirdlabError], code: str) -> str:
    """The text of the error, whose only problem has this code."""
    assert [p.code for p in error.value.problems] == [code]
    return str(error.value)
