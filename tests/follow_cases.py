"""Made videos, detections and clip classifiers whose answers can be worked out by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import onnx
import polars as pl
import torch
from onnx import TensorProto, helper, numpy_helper

from birdlab import schemas
from birdlab.recipe import ClipClassifier, parse_recipe

LABELS = ["Other", "Peck", "Submissive"]
SCALE = 40.0


def write_frames(path: Path, images: Sequence[np.ndarray]) -> Path:
    """RGB pictures as a video of 25 frames per second, nearly without loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=25, options={"crf": "0", "g": "10"})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "rgb24"
        stream.codec_context.time_base = Fraction(1, 25)
        for i, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


class Rising(torch.nn.Module):
    """Names a clip Peck where its last picture is brighter than its first, Other where it is darker."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=[1, 3, 4])
        rise = (mean[:, -1] - mean[:, 0]) * 40.0
        return torch.stack([-rise, rise, torch.zeros_like(rise)], dim=1)


def rising_script(path: Path) -> Path:
    torch.jit.script(Rising()).save(str(path))
    return path


def rising_onnx(path: Path, *, frames: int | str = "t", batch: int | str = "n", side: int | str = "s") -> Path:
    """The same network, written by hand."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1, 3, 4], keepdims=0),
        helper.make_node("Gather", ["mean", "last"], ["end"], axis=1),
        helper.make_node("Gather", ["mean", "first"], ["begin"], axis=1),
        helper.make_node("Sub", ["end", "begin"], ["rise"]),
        helper.make_node("Mul", ["rise", "weight"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([-1], np.int64), "last"),
        numpy_helper.from_array(np.array([0], np.int64), "first"),
        numpy_helper.from_array(np.array([[-SCALE, SCALE, 0.0]], np.float32), "weight"),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, frames, side, side])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])
    graph = helper.make_graph(nodes, "rising", [given], [made], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def spec(weights: Path, **more: object) -> ClipClassifier:
    return ClipClassifier(
        **{"name": "rising", "weights": str(weights), "labels": LABELS, "frames": 4, "imgsz": 16} | more
    )


def frames_of(media_id: str, indices: Sequence[int], *, size: tuple[int, int] = (200, 100)) -> pl.DataFrame:
    rows = [
        {
            "frame_id": f"{media_id}#{i}",
            "media_id": media_id,
            "video_id": "s",
            "frame_index": i,
            "width_px": size[0],
            "height_px": size[1],
            "split": "test",
            "label_state": "unlabelled",
        }
        for i in indices
    ]
    return schemas.validate("frames", pl.DataFrame(rows))


def detections(boxes: Sequence[tuple[str, float, float, float, float, float]], *, model: str = "d") -> pl.DataFrame:
    """Predictions from (frame_id, x, y, w, h, score)."""
    names = ["frame_id", "x", "y", "w", "h", "score"]
    frame = pl.DataFrame(list(boxes), schema=names, orient="row", schema_overrides=dict.fromkeys(names[1:], pl.Float64))
    rank = pl.int_range(pl.len()).over("frame_id")
    return schemas.validate(
        "predictions",
        frame.with_columns(
            pl.lit(model).alias("model"),
            pl.format("{}/{}", "frame_id", rank).alias("prediction_id"),
            pl.lit("bird").alias("category"),
            rank.alias("rank"),
        ),
    )


def media_of(paths: Sequence[Path], *, session: str | None = None) -> pl.DataFrame:
    rows = [
        {
            "dataset": "made",
            "media_id": path.name,
            "kind": "video",
            "path": str(path),
            "video_id": session or path.stem,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "",
        }
        for path in paths
    ]
    return schemas.validate("media", pl.DataFrame(rows))


def stub_run(folder: Path, tracking: dict, **tables: pl.DataFrame) -> SimpleNamespace:
    """As much of a run as following needs."""
    tables = {"failures": schemas.empty("failures")} | tables
    model = {"name": "d", "predictions": "p.json"}
    raw = {"name": "made", "data": {"media": [{"videos": "*.mp4"}]}, "models": [model], "device": "cpu"}
    recipe = parse_recipe(raw | {"tracking": {"detector": "d"} | tracking})
    return SimpleNamespace(recipe=recipe, dir=folder, base=folder, data_root=folder, table=tables.__getitem__)
