"""Detectors of the ultralytics library (AGPL-3.0): YOLOv8, YOLO11, YOLO26, RT-DETR, with or without masks."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.inference import device as devices
from birdlab.inference.checkpoint import import_ultralytics, load_checkpoint
from birdlab.inference.detector import Boxes, PredictError, Prediction, finish
from birdlab.inference.masks import drawn_rle, with_masks
from birdlab.inference.weights import Weights, missing_package, versions
from birdlab.recipe import Model

#: Part of the key of finished shards: raise it when the same input would give other boxes or masks.
VERSION = 2
#: Newest instructions that give the same int8 products as older ones (oneDNN, ONEDNN_MAX_CPU_ISA).
COMMON_ISA = "AVX512_CORE"
#: Masks held on the network's grid at a time.
GRIDS = 32
TASKS = ("detect", "segment", "pose")
#: What third-party code raises when it cannot cope with an image.
ERRORS = (ArithmeticError, AssertionError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


def prepare_environment(cache: Path) -> None:
    """Set what ultralytics reads when it is imported: its folder, no network, no installs, no chatter, all cores."""
    cache.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("YOLO_CONFIG_DIR", str(cache))
    os.environ.update(YOLO_OFFLINE="True", YOLO_AUTOINSTALL="False", YOLO_VERBOSE="False", ULTRALYTICS_SAFE_LOAD="True")
    devices.prepare_threads()


class UltralyticsDetector:
    """A loaded ultralytics model; see :class:`birdlab.inference.detector.Detector`.

    Exports have a fixed input size and precision; where the recipe asks for another one, ``remarks`` says so. Masks
    are interpolated bilinearly from the network's grid (a quarter of its input) to the frame inside the box, one at a
    time; a box whose mask has no pixel is kept without a mask.

    Args:
        model: model section of the recipe.
        weights: where the weights lie.
        device: auto, cpu, cuda, cuda:N or mps.
        cache: folder for what ultralytics writes.

    Raises:
        DataError: the weights cannot be loaded, are not safe to load, or are not for detection.
        ParameterError: the device is not there, or ultralytics is not installed.
    """

    def __init__(self, model: Model, weights: Weights, device: str, cache: Path) -> None:
        prepare_environment(cache)
        self._device = devices.resolve_device(device)
        if weights.kind == "openvino" and self._device.kind != "cpu":
            asked, self._device = self._device, devices.Device("cpu")
            self.remarks = [f"an OpenVINO model runs on the CPU, not on {asked.name}"]
        else:
            self.remarks = []
        self._half = model.half and self._device.kind == "cuda" and weights.kind != "openvino"
        if model.half and not self._half:
            self.remarks.append("half precision was asked for, but it needs CUDA: ran in the model's own precision")
        self._settings = {
            "conf": model.conf,
            "iou": model.iou,
            "max_det": model.max_det,
            "imgsz": model.imgsz,
            # Named only where it is wanted: the library warns of it at every call, whatever its value.
            **({"half": True} if self._half else {}),
        }
        self._errors = (*ERRORS, *devices.onnx_errors()) if weights.kind == "onnx" else ERRORS
        with _reproducible() if weights.kind == "openvino" else nullcontext():
            self._set_up(model, weights, cache)

    def _set_up(self, model: Model, weights: Weights, cache: Path) -> None:
        self._yolo = _load(model, weights, cache)
        if self._yolo.task not in TASKS:
            found = f"a model for {self._yolo.task}"
            raise DataError(
                Problem("wrong_task", found, "a detector (boxes, with or without masks)", file=str(weights.path))
            )
        self._predictor = _mask_predictor() if self._yolo.task == "segment" else None
        self.keep: list[int] = []
        self._probe(model, weights)

    def predict(self, images: list[np.ndarray]) -> Prediction:
        """Detect in BGR uint8 images of one shape; classes other than ``keep`` are left out before ``max_det`` counts."""
        try:
            results = self._call(images, self.keep or None)
        except self._errors as error:
            raise PredictError(f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}") from error
        seconds = sum(r.speed["inference"] for r in results) / 1000
        return Prediction([self._boxes(result) for result in results], seconds)

    def _call(self, images: list[np.ndarray], classes: list[int] | None) -> list[Any]:
        return self._yolo.predict(
            images,
            predictor=self._predictor,
            batch=len(images),
            classes=classes,
            device=self._device.name,
            verbose=False,
            save=False,
            **self._settings,
        )

    def _probe(self, model: Model, weights: Weights) -> None:
        """One blank image: sets the library up, after which it knows names, size and precision, and threads can be set."""
        import torch

        side = max(64, model.imgsz)
        try:
            self._call([np.full((side, side, 3), 114, dtype=np.uint8)], None)
        except self._errors as error:
            found = f"a model that fails on a blank image: {(str(error).splitlines() or [type(error).__name__])[0]}"
            raise DataError(
                Problem("bad_weights", found, "a detector that ultralytics can run", file=str(weights.path))
            ) from error
        # Setting up a predictor puts the threads of the whole process down, on two cores to one.
        threads = devices.torch_threads()
        torch.set_num_threads(threads)
        predictor = self._yolo.predictor
        self.names = {int(i): str(name) for i, name in predictor.model.names.items()}
        self.keep = sorted(self.names)
        self.imgsz = max(predictor.imgsz)
        if self.imgsz != model.imgsz:
            why = "fixed by the export" if weights.kind != "pt" else "a multiple of the network's stride"
            self.remarks.append(f"the network's input is {self.imgsz} px, {why}; imgsz {model.imgsz} was asked for")
        self.precision = _precision(weights, half=bool(getattr(predictor.model, "fp16", False)))
        self.device = devices.device_words(self._device, threads if weights.kind == "pt" else devices.cores())
        if (
            weights.kind == "openvino"
            and self.precision == "int8"
            and os.environ.get("ONEDNN_MAX_CPU_ISA") == COMMON_ISA
        ):
            self.remarks.append(
                f"int8 layers were computed with the instructions all processors share ({COMMON_ISA}), slower but the same everywhere"
            )

    def _boxes(self, result: Any) -> Boxes:
        found = result.boxes
        xyxy, scores, classes = (t.cpu().numpy() for t in (found.xyxy, found.conf, found.cls))
        boxes, kept = finish(xyxy, scores, classes, result.orig_shape)
        if self._yolo.task != "segment":
            return boxes
        masks = [
            mask_rle(logits, box, result.orig_shape, result.mask_parts[2])
            for logits, box in zip(_grids(result.mask_parts, kept), boxes.xywh, strict=True)
        ]
        return with_masks(boxes, masks, result.orig_shape[:2])


def environment(weights: Weights, device: str) -> list[Any]:
    """What, beside weights and settings, can change a box: part of the key of finished shards."""
    kind = devices.resolve_device(device).kind if weights.kind != "openvino" else "cpu"
    runtime = {"pt": "torchvision", "onnx": "onnxruntime", "openvino": "openvino"}[weights.kind]
    isa = os.environ.get("ONEDNN_MAX_CPU_ISA", COMMON_ISA) if weights.kind == "openvino" else ""
    return [VERSION, kind, isa, *versions("ultralytics", "torch", runtime, "opencv-python")]


def mask_rle(logits: np.ndarray, box: np.ndarray, shape: tuple[int, int], input_shape: tuple[int, int]) -> str | None:
    """A mask on the network's grid as COCO RLE at the frame's size, cut at its box.

    Args:
        logits: float array of shape (h, w), above 0 inside; the grid spans the letterboxed input (frame in the middle,
            padding around it).
        box: left, top, width, height, frame px.
        shape: (H, W) of the frame.
        input_shape: height and width of the input, px.

    Returns:
        JSON text ``{"size": [H, W], "counts": "…"}``, or ``None`` if no pixel is inside.
    """
    # As the library letterboxes and scales boxes back: sides rounded, the smaller half of odd padding left and above.
    gain = min(input_shape[0] / shape[0], input_shape[1] / shape[1])
    sides = [max(round(side * gain), 1) for side in shape]
    pads = [round((given - side) / 2 - 0.1) for given, side in zip(input_shape, sides, strict=True)]
    cells = [n / given for n, given in zip(logits.shape, input_shape, strict=True)]
    scale = sides[1] / shape[1] * cells[1], sides[0] / shape[0] * cells[0]
    return drawn_rle(logits, scale, (pads[1] * cells[1], pads[0] * cells[0]), box, shape, level=0.0)


def _grids(parts: tuple[Any, Any, Any], kept: np.ndarray) -> Iterator[np.ndarray]:
    """The mask of each kept detection on the network's grid: prototypes summed by its coefficients."""
    coefficients, prototypes = parts[0].cpu().numpy()[kept], parts[1].cpu().numpy()
    flat = prototypes.reshape(len(prototypes), -1)
    for start in range(0, len(kept), GRIDS):
        some = coefficients[start : start + GRIDS] @ flat
        yield from some.reshape(-1, *prototypes.shape[1:])


def _mask_predictor() -> type:
    """The library's predictor for masks, which keeps prototypes and coefficients in place of masks of all detections.

    The library's own would hold every mask at the input's size at once, and leave out boxes whose mask is empty.
    """
    from ultralytics.engine.results import Results
    from ultralytics.models.yolo.segment import SegmentationPredictor
    from ultralytics.utils import ops

    class Predictor(SegmentationPredictor):
        def construct_result(self, pred: Any, img: Any, orig_img: Any, img_path: Any, proto: Any) -> Any:
            pred[:, :4] = ops.scale_boxes(img.shape[2:], pred[:, :4], orig_img.shape)
            result = Results(orig_img, path=img_path, names=self.model.names, boxes=pred[:, :6])
            result.mask_parts = (pred[:, 6:].float(), proto.float(), tuple(img.shape[2:]))
            return result

    return Predictor


def _precision(weights: Weights, *, half: bool) -> str:
    if half:
        return "fp16"
    said = weights.metadata.get("args") or {}
    if isinstance(said, str):
        said = {
            "int8": "'int8': True" in said or "'quantize': 8" in said,
            "half": "'half': True" in said or "'quantize': 16" in said,
        }
    if said.get("int8") or said.get("quantize") in (8, "int8") or weights.metadata.get("_int8"):
        return "int8"
    return "fp16" if said.get("half") or said.get("quantize") in (16, "fp16") else "fp32"


def _load(model: Model, weights: Weights, cache: Path) -> Any:
    try:
        import torch  # noqa: F401

        import_ultralytics()
        from ultralytics import YOLO
    except ImportError as error:
        raise missing_package(error.name or "ultralytics", "to run these weights") from error
    try:
        if weights.kind == "pt":
            with _handing_over(load_checkpoint(weights.path, trust=model.trust)):
                return YOLO(str(weights.path))
        task = weights.metadata.get("task")
        return YOLO(str(_as_named(weights, cache)), task=str(task) if task else None)
    except ERRORS as error:
        found = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            Problem("bad_weights", found, "weights that ultralytics can load", file=str(weights.path))
        ) from error


@contextmanager
def _handing_over(checkpoint: dict[str, Any]) -> Iterator[None]:
    """While this lasts, ultralytics gets the checkpoint that was loaded safely in place of loading the file itself."""
    from ultralytics.nn import tasks

    own = tasks.torch_safe_load
    tasks.torch_safe_load = lambda weight, *_args, **_kwargs: (checkpoint, str(weight))
    try:
        yield
    finally:
        tasks.torch_safe_load = own


@contextmanager
def _reproducible() -> Iterator[None]:
    """While this lasts, OpenVINO models are compiled so that every x86 processor finds the same boxes.

    By default OpenVINO computes in bfloat16 on processors that can, whose 8 bits shift a box in a 640 px input by up
    to 2 px, and multiplies int8 layers with instructions that saturate on one processor and do not on the next: one
    int8 detector found 74 or 80 of the same 165 birds. Here all is fp32 but the int8 layers, and those use the
    instructions that all processors with AVX2 share. ``ONEDNN_MAX_CPU_ISA``, if set by the user, is left alone.
    """
    openvino = _import_openvino()
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", COMMON_ISA)
    own = openvino.Core

    class Core(own):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.set_property("CPU", {"INFERENCE_PRECISION_HINT": openvino.Type.f32})

    openvino.Core = Core
    try:
        yield
    finally:
        openvino.Core = own


def _import_openvino() -> Any:
    """OpenVINO without its telemetry, which else reports its own import to a server and writes into the home folder."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # "not installed", for who imports it
    try:
        return importlib.import_module("openvino")
    except ImportError as error:
        raise missing_package("openvino", "to run an OpenVINO folder") from error


def _as_named(weights: Weights, cache: Path) -> Path:
    """An OpenVINO folder under a name by which ultralytics knows what it is."""
    if weights.kind != "openvino" or "_openvino_model" in weights.path.name.lower():
        return weights.path
    named = cache / f"{weights.sha256[:16]}_openvino_model"
    if not named.exists():
        try:
            named.symlink_to(weights.path.resolve(), target_is_directory=True)
        except OSError:
            shutil.copytree(weights.path, named)
    return named
