"""A bare ONNX detector with a YOLOX head, on onnxruntime or, where that is missing, on OpenCV.

The head is that of Ge et al., "YOLOX: Exceeding YOLO Series in 2021", arXiv:2107.08430, section 2.1: per cell of each
stride an offset, the logarithm of a size, an objectness and class probabilities. Input as in the authors' demo: BGR
0 to 255, resized to fit, padded at the right and the bottom with 114.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.inference import device as devices
from birdlab.inference.detector import Boxes, PredictError, Prediction, finish
from birdlab.inference.weights import Weights, missing_package, versions
from birdlab.recipe import Model

#: Part of the key of finished shards: raise it when the same input would give other boxes.
VERSION = 1
PAD = 114
STRIDES = ((8, 16, 32), (8, 16, 32, 64))
COCO_NAMES = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,parking meter,"
    "bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,skis,"
    "snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,"
    "fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,"
    "potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"
    "refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
).split(",")


class YoloxDetector:
    """A loaded YOLOX model; see :class:`birdlab.inference.detector.Detector`.

    Class names are those of COCO when there are 80, else the lines of a text file beside the weights with the same
    name (``model.txt``), else ``class0``, ``class1`` …

    Raises:
        DataError: the model's input or output is not that of a YOLOX detector.
        ParameterError: the device is not there, or neither onnxruntime nor OpenCV is installed.
    """

    def __init__(self, model: Model, weights: Weights, device: str) -> None:
        found, providers, remark = devices.onnx_providers(device)
        self.remarks = [remark] if remark else []
        if model.half:
            self.remarks.append(
                "half precision was asked for, but an ONNX model runs in the precision it was exported in"
            )
        self.conf, self.iou, self.max_det = model.conf, model.iou, model.max_det
        self._session = _open(weights, providers)
        self._path = str(weights.path)
        height, width = self._session.size or (model.imgsz, model.imgsz)
        if self._session.size and model.imgsz != max(height, width):
            self.remarks.append(
                f"the model's input is fixed at {width} x {height} px; imgsz {model.imgsz} was not used"
            )
        self.size = (height, width)
        self.imgsz = max(height, width)
        self.precision = (
            "int8" if weights.metadata.get("_int8") else "fp16" if self._session.dtype == np.float16 else "fp32"
        )
        self.device = devices.device_words(found, devices.cores())
        blank = np.full((1, 3, height, width), PAD, dtype=np.float32)
        sample = self._run(blank)
        self._cells = cells(self.size, sample.shape[1]) if sample.ndim == 3 and sample.shape[2] > 5 else None
        if self._cells is None:
            raise DataError(_not_yolox(weights, sample, self.size))
        lo, hi = float(sample[..., 4:].min()), float(sample[..., 4:].max())
        if not (lo >= 0 and hi <= 1.001):  # NaN fails too
            expected = "probabilities from 0 to 1: an export that ends in the head's sigmoid"
            raise DataError(Problem("not_yolox", f"scores from {lo:g} to {hi:g}", expected, file=str(weights.path)))
        # Decoded centres lie all over the input; undecoded ones are offsets of about one cell.
        self._decoded = bool(np.median(np.abs(sample[0, :, :2])) > 8)
        self.names = _names(weights, sample.shape[2] - 5)
        self.keep = sorted(self.names)

    def predict(self, images: list[np.ndarray]) -> Prediction:
        """Detect in BGR uint8 images of one shape."""
        prepared = [letterbox(image, self.size) for image in images]
        blob = np.stack([p for p, _ in prepared])
        started = time.perf_counter()
        if self._session.batch is None or self._session.batch == len(images):
            raw = self._run(blob)
        else:
            raw = np.concatenate([self._run(one[None]) for one in blob])
        seconds = time.perf_counter() - started
        boxes = [
            self._boxes(out, ratio, image.shape) for out, (_, ratio), image in zip(raw, prepared, images, strict=True)
        ]
        return Prediction(boxes, seconds)

    def _run(self, blob: np.ndarray) -> np.ndarray:
        try:
            return np.asarray(self._session(blob), dtype=np.float32)
        except self._session.errors as error:
            raise PredictError(str(error).splitlines()[0]) from error

    def _boxes(self, raw: np.ndarray, ratio: float, shape: tuple[int, ...]) -> Boxes:
        cxcywh = raw[:, :4] if self._decoded else decode(raw[:, :4], self._cells)
        scores = raw[:, 4:5] * raw[:, 5:][:, self.keep]
        cell, column = np.nonzero(scores >= self.conf)
        half = cxcywh[cell, 2:] / 2
        xyxy = np.concatenate([cxcywh[cell, :2] - half, cxcywh[cell, :2] + half], axis=1) / ratio
        chosen, classes = scores[cell, column], np.asarray(self.keep, dtype=np.int64)[column]
        kept = nms(xyxy, chosen, classes, iou=self.iou)[: self.max_det]
        return finish(xyxy[kept], chosen[kept], classes[kept], shape)[0]


def environment(_weights: Weights, device: str) -> list[Any]:
    """What, beside weights and settings, can change a box: part of the key of finished shards."""
    return [VERSION, devices.onnx_providers(device)[0].kind, *versions("onnxruntime", "opencv-python")]


def letterbox(image: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, float]:
    """Resize to fit and pad right and bottom with 114.

    Args:
        image: BGR uint8 array of shape (H, W, 3).
        size: height and width of the network's input, px.

    Returns:
        float32 array of shape (3, height, width) with values 0 to 255, and the factor from frame to input pixels.
    """
    import cv2

    ratio = min(size[0] / image.shape[0], size[1] / image.shape[1])
    width, height = max(1, int(image.shape[1] * ratio)), max(1, int(image.shape[0] * ratio))
    padded = np.full((*size, 3), PAD, dtype=np.uint8)
    padded[:height, :width] = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32), ratio


def cells(size: tuple[int, int], n: int) -> np.ndarray | None:
    """Column, row and stride of every cell of the head, in its order; ``None`` if no set of strides has ``n`` cells.

    Returns:
        float32 array of shape (n, 3).

    >>> cells((64, 64), 84)[[0, 64, 80]].tolist()
    [[0.0, 0.0, 8.0], [0.0, 0.0, 16.0], [0.0, 0.0, 32.0]]
    """
    for strides in STRIDES:
        shapes = [(size[0] // s, size[1] // s, s) for s in strides]
        if sum(rows * columns for rows, columns, _ in shapes) == n:
            parts = []
            for rows, columns, stride in shapes:
                y, x = np.mgrid[:rows, :columns]
                parts.append(np.stack([x.ravel(), y.ravel(), np.full(rows * columns, stride)], axis=1))
            return np.concatenate(parts).astype(np.float32)
    return None


def decode(raw: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Offsets and log sizes to centre and size in input pixels: (o + cell) · stride and exp(o) · stride.

    Args:
        raw: array of shape (n, 4).
        grid: array of shape (n, 3) from :func:`cells`.

    >>> decode(np.array([[0.5, 0.25, 0.0, np.log(2.0)]]), np.array([[3.0, 2.0, 8.0]])).tolist()
    [[28.0, 18.0, 8.0, 16.0]]
    """
    stride = grid[:, 2:3]
    with np.errstate(over="ignore"):
        return np.concatenate([(raw[:, :2] + grid[:, :2]) * stride, np.exp(raw[:, 2:]) * stride], axis=1)


def nms(xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, *, iou: float) -> np.ndarray:
    """Greedy non-maximum suppression within each class.

    Args:
        xyxy: corner boxes, shape (n, 4), px.
        scores: shape (n,).
        classes: int, shape (n,).
        iou: a box that overlaps a better one of its class by more than this is dropped.

    Returns:
        Positions of the kept boxes by falling score, ties in the order given; boxes that are no numbers are kept for
        :func:`birdlab.inference.detector.finish` to count.

    >>> boxes = np.array([[0., 0., 10., 10.], [0., 0., 10., 9.], [0., 0., 10., 10.]])
    >>> nms(boxes, np.array([.5, .9, .8]), np.array([0, 0, 1]), iou=0.5).tolist()
    [1, 2]
    """
    order = np.argsort(-scores, kind="stable")
    area = np.prod(np.maximum(xyxy[:, 2:] - xyxy[:, :2], 0), axis=1)
    alive = np.ones(len(order), dtype=bool)
    kept = []
    for position, best in enumerate(order):
        if not alive[position]:
            continue
        kept.append(best)
        rest = np.flatnonzero(alive[position + 1 :]) + position + 1
        rest = rest[classes[order[rest]] == classes[best]]
        others = order[rest]
        corner = np.minimum(xyxy[best, 2:], xyxy[others, 2:]) - np.maximum(xyxy[best, :2], xyxy[others, :2])
        shared = np.prod(np.maximum(corner, 0), axis=1)
        union = area[best] + area[others] - shared
        alive[rest[shared > iou * union]] = False
    return np.asarray(kept, dtype=np.int64)


class _Onnxruntime:
    def __init__(self, weights: Weights, providers: list[Any]) -> None:
        import onnxruntime

        self.errors = (*devices.onnx_errors(), RuntimeError, ValueError)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = devices.cores()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(weights.path), options, providers=providers)
        except self.errors as error:
            raise DataError(
                Problem("bad_onnx", str(error).splitlines()[0], "a model onnxruntime can run", file=str(weights.path))
            ) from error
        first = self._session.get_inputs()[0]
        self.name, shape = first.name, first.shape
        if len(shape) != 4 or shape[1] not in (3, "3") and isinstance(shape[1], int):
            raise DataError(
                Problem(
                    "not_yolox", f"an input of shape {shape}", "one image input N x 3 x H x W", file=str(weights.path)
                )
            )
        self.size = (shape[2], shape[3]) if isinstance(shape[2], int) and isinstance(shape[3], int) else None
        self.batch = shape[0] if isinstance(shape[0], int) else None
        self.dtype = np.float16 if first.type == "tensor(float16)" else np.float32

    def __call__(self, blob: np.ndarray) -> np.ndarray:
        return self._session.run(None, {self.name: blob.astype(self.dtype)})[0]


class _OpenCV:
    def __init__(self, weights: Weights) -> None:
        import cv2

        self.errors = (cv2.error,)
        try:
            self._net = cv2.dnn.readNetFromONNX(str(weights.path))
        except cv2.error as error:
            raise DataError(
                Problem("bad_onnx", str(error).splitlines()[0], "a model OpenCV can run", file=str(weights.path))
            ) from error
        self.size, self.batch, self.dtype = _input_size(weights), 1, np.float32

    def __call__(self, blob: np.ndarray) -> np.ndarray:
        self._net.setInput(blob)
        return self._net.forward()


def _input_size(weights: Weights) -> tuple[int, int] | None:
    import onnx

    proto = onnx.load(str(weights.path), load_external_data=False)
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in constants]
    shape = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
    return (shape[2], shape[3]) if len(shape) == 4 and shape[2] and shape[3] else None


def _open(weights: Weights, providers: list[Any]) -> _Onnxruntime | _OpenCV:
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        try:
            return _OpenCV(weights)
        except ImportError as error:
            raise missing_package("onnxruntime", "to run .onnx files") from error
    return _Onnxruntime(weights, providers)


def _names(weights: Weights, n: int) -> dict[int, str]:
    listed = weights.path.with_suffix(".txt")
    if listed.exists():
        try:
            lines = [line.strip() for line in listed.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(Problem("unreadable", str(error), "class names in UTF-8", file=str(listed))) from error
        if len(lines) != n:
            raise DataError(Problem("wrong_names", f"{len(lines)} class names", f"{n}, one a line", file=str(listed)))
        return dict(enumerate(lines))
    return dict(enumerate(COCO_NAMES)) if n == len(COCO_NAMES) else {i: f"class{i}" for i in range(n)}


def _not_yolox(weights: Weights, sample: np.ndarray, size: tuple[int, int]) -> Problem:
    shape = " x ".join(map(str, sample.shape)) or "one number"
    expected = (
        f"1 x cells x (5 + classes), with the cells of strides 8, 16 and 32 for an input of {size[1]} x {size[0]} px"
    )
    looks_ultralytics = sample.ndim == 3 and cells(size, sample.shape[2]) is not None
    remedy = "it looks like an ultralytics export without its metadata: export it again" if looks_ultralytics else ""
    return Problem("not_yolox", f"an output of {shape}", expected, remedy, file=str(weights.path))
