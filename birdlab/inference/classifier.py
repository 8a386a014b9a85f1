"""What every image classifier gives, whichever library runs it: a row of probabilities per picture."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.classifier_input import Tensor, made_pictures, preparation
from birdlab.inference.detector import PredictError
from birdlab.inference.weights import Weights, versions

if TYPE_CHECKING:
    from birdlab.recipe.abstention import Classifier as Spec

#: Part of the key of finished shards: raise it when the same picture would give other probabilities.
VERSION = 1
#: Threads of a network on the CPU; fixed, so that numbers do not depend on the machine's cores.
THREADS = 2
#: How far from 1 a row of probabilities may sum (half precision over thousands of labels).
SUM_TOLERANCE = 2e-3
SETTINGS = ("crop", "imgsz", "mean", "std", "layout", "softmax", "batch")


class Classifier(Protocol):
    """A loaded classifier; ``network_s`` is the time of the network alone since it was loaded, seconds."""

    labels: list[str]
    device: str
    precision: str
    imgsz: int
    batch: int
    remarks: list[str]
    environment: list[Any]
    network_s: float

    def probabilities(self, images: list[np.ndarray]) -> np.ndarray:
        """Float32 array of shape (B, L) for B upright BGR uint8 images of any shapes (H, W, 3)."""
        ...


class Network(Protocol):
    """A network as a library gives it; ``run`` returns the raw output of that position or raises PredictError."""

    input: Tensor
    outputs: list[Tensor]
    device: str
    precision: str
    remarks: list[str]

    def run(self, blob: np.ndarray, output: int) -> np.ndarray:
        """Raw values of one output for a batch of inputs."""
        ...


def load_classifier(spec: Spec, weights: Weights, labels: list[str], device: str) -> ImageClassifier:
    """Load an image classifier with the library that its file needs.

    Args:
        spec: section of the recipe (crop, imgsz, mean, std, layout, softmax, batch).
        weights: from :func:`birdlab.inference.weights.find_classifier`.
        labels: from :func:`birdlab.inference.classifier_labels.find_labels`, in the order of the network's output.
        device: auto, cpu, cuda, cuda:N or mps.

    Raises:
        DataError: the weights cannot be used, or do not fit the labels.
        ParameterError: the device is not there, a package is missing, or settings do not fit the network.
    """
    network: Network
    if weights.kind == "tflite":
        from birdlab.inference.classifier_tflite import TfliteNetwork

        network = TfliteNetwork(weights, device, imgsz=spec.imgsz)
    else:
        from birdlab.inference.classifier_onnx import OnnxNetwork

        network = OnnxNetwork(weights, device)
    return ImageClassifier(spec, network, labels, str(weights.path), environment(weights, device))


def environment(weights: Weights, device: str) -> list[Any]:
    """What, beside weights and settings, can change a probability: part of the key of finished shards."""
    kind, package = "cpu", "ai-edge-litert"
    if weights.kind == "onnx":
        from birdlab.inference.device import onnx_providers

        kind, package = onnx_providers(device)[0].kind, "onnxruntime"
    return [VERSION, THREADS, kind, package, *versions(package, "opencv-python", "pillow", "numpy")]


class ImageClassifier:
    """A loaded classifier; see :class:`Classifier`.

    Four made pictures are run at once: they choose the output, and with ``softmax: auto`` decide whether it holds
    probabilities. So the choice is the same for every picture and does not depend on which comes first.
    """

    def __init__(self, spec: Spec, network: Network, labels: list[str], path: str, environment: list[Any]) -> None:
        self.labels, self.environment = labels, environment
        self.device, self.precision = network.device, network.precision
        self.remarks = list(network.remarks)
        self.network_s = 0.0
        self._network, self._path = network, path
        self._prepare = preparation(spec, network.input, path, self.remarks)
        self.imgsz = max(self._prepare.size)
        fixed = network.input.shape[0]
        self.batch = fixed or spec.batch
        if fixed and spec.batch not in (1, fixed):
            self.remarks.append(f"the network takes {fixed} at a time; batch {spec.batch} was not used")
        sample = self._look()
        self._softmax, remark = needs_softmax(sample, spec.softmax, network.outputs[self._output], path)
        self.remarks.append(remark)
        self.network_s = 0.0

    def probabilities(self, images: list[np.ndarray]) -> np.ndarray:
        """Float32 array of shape (B, L) for B upright BGR uint8 images of any shapes (H, W, 3).

        Rows are as the network gives them, or their softmax; quantised ones may sum to a little less or more than 1.

        Raises:
            PredictError: the network failed, or gave values that are no numbers.
        """
        rows = self._rows(images)
        if not np.isfinite(rows).all():
            raise PredictError("the network gave values that are no numbers")
        return softmax(rows) if self._softmax else rows

    def _look(self) -> np.ndarray:
        """Raw rows of the made pictures, from the output that fits the labels; sets ``_output``."""
        try:
            self._output = self._choose(len(self.labels))
            return self._rows(made_pictures())
        except PredictError as error:
            expected = "a network that can be run on a picture"
            raise DataError(Problem("bad_network", str(error), expected, file=self._path, key="weights")) from error

    def _choose(self, n: int) -> int:
        outputs = self._network.outputs
        # A side left open may turn out to be the number of labels.
        shapes = [tuple(output.shape) for output in outputs]
        if any(None in shape[1:] for shape in shapes):
            shapes = [self._raw(made_pictures()[:1], i).shape for i in range(len(outputs))]
        hits = [i for i, shape in enumerate(shapes) if len(shape) == 2 and shape[1] == n]
        if len(hits) == 1:
            return hits[0]
        listed = ", ".join(str(Tensor(o.name, s, o.dtype)) for o, s in zip(outputs, shapes, strict=True))
        expected = f"one output of pictures x {n}, as there are {n} labels"
        if hits:
            remedy = "export the model with one of them only"
            raise DataError(Problem("many_outputs", listed, expected, remedy, file=self._path, key="weights"))
        widths = [shape[1] for shape in shapes if len(shape) == 2]
        if len(widths) == 1:
            found, remedy = f"{widths[0]} scores per picture and {n} labels", "give the list of labels of this model"
            raise DataError(Problem("label_count", found, "as many", remedy, file=self._path, key="labels"))
        raise DataError(Problem("no_classifier", listed, expected, file=self._path, key="weights"))

    def _rows(self, images: list[np.ndarray]) -> np.ndarray:
        """Raw scores as real numbers, float32 of shape (B, L)."""
        tensor = self._network.outputs[self._output]
        rows = dequantise(self._raw(images, self._output), tensor)
        if rows.shape != (len(images), len(self.labels)):
            raise PredictError(f"an output of shape {rows.shape} for {len(images)} pictures")
        return rows

    def _raw(self, images: list[np.ndarray], output: int) -> np.ndarray:
        parts = []
        for start in range(0, len(images), self.batch):
            some = [self._prepare(image) for image in images[start : start + self.batch]]
            # Always a whole batch: how many pictures share a call must not change a bit of any row.
            blob = np.stack(some + [np.zeros_like(some[0])] * (self.batch - len(some)))
            started = time.perf_counter()
            raw = self._network.run(blob, output)
            self.network_s += time.perf_counter() - started
            parts.append(raw[: len(some)])
        return np.concatenate(parts)


def dequantise(raw: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Real numbers, float32: (value - zero point) x scale where the network gives integers."""
    if raw.dtype.kind == "f":
        return raw.astype(np.float32)
    if tensor.quantisation is None:
        raise PredictError(f"an output of {raw.dtype} that says no scale")
    scale, zero = tensor.quantisation
    return ((raw.astype(np.int32) - zero) * np.float64(scale)).astype(np.float32)


def softmax(rows: np.ndarray) -> np.ndarray:
    """exp(x) / sum of exp(x) of each row, float32; worked out in float64 from the row's maximum.

    >>> softmax(np.array([[0.0, np.log(3.0)]])).tolist()
    [[0.25, 0.75]]
    """
    wide = np.asarray(rows, dtype=np.float64)
    power = np.exp(wide - wide.max(axis=1, keepdims=True))
    return (power / power.sum(axis=1, keepdims=True)).astype(np.float32)


def needs_softmax(sample: np.ndarray, asked: str, tensor: Tensor, path: str) -> tuple[bool, str]:
    """Whether scores still need a softmax, and the sentence that says so in the report.

    With ``auto``, rows within [0, 1] that sum to 1 are probabilities, rows beyond [0, 1] are logits. The sum may be off
    by :data:`SUM_TOLERANCE`, or by half a step of a quantised output for every label.

    Args:
        sample: scores of made pictures, shape (n, L).
        asked: auto, yes or no.
        tensor: the output, for its quantisation.
        path: the weights, for the error.

    Raises:
        ParameterError: ``auto`` cannot tell: scores within [0, 1] that do not sum to 1.
        DataError: the scores are no numbers.
    """
    if not np.isfinite(sample).all():
        raise DataError(Problem("bad_network", "scores that are no numbers", "finite scores", file=path, key="weights"))
    if asked != "auto":
        return asked == "yes", "softmax was applied, as asked" if asked == "yes" else "no softmax was applied, as asked"
    sums = sample.sum(axis=1, dtype=np.float64)
    step = tensor.quantisation[0] if tensor.quantisation and tensor.dtype.kind in "iu" else 0.0
    tolerance = max(SUM_TOLERANCE, sample.shape[1] * step / 2)
    inside = sample.min() >= -1e-6 and sample.max() <= 1 + 1e-6
    if inside and np.abs(sums - 1).max() <= tolerance:
        return False, "the network's output is probabilities already: no softmax was applied"
    if inside:
        found = f"scores between 0 and 1 whose rows sum to {sums.min():.4g} to {sums.max():.4g}"
        expected = "probabilities that sum to 1, or logits"
        remedy = "say softmax: yes if they are logits, no to take them as they are"
        raise ParameterError(Problem("unclear_scores", found, expected, remedy, file=path, key="softmax"))
    return True, "the network's output is logits: softmax was applied"


def settings(spec: Spec) -> dict[str, Any]:
    """Settings of a recipe's section that can change a probability, for the key of finished shards."""
    return {key: _plain(getattr(spec, key)) for key in SETTINGS}


def _plain(value: Any) -> Any:
    return [float(v) for v in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
