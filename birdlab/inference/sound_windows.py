"""A classifier of windows of sound, TFLite or ONNX, and how its windows become segments of five seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.classifier import THREADS, Network, dequantise
from birdlab.inference.classifier_input import Tensor
from birdlab.inference.detector import PredictError
from birdlab.inference.weights import Weights, versions

if TYPE_CHECKING:
    from birdlab.recipe.soundscapes import SoundRun

#: Part of the key of finished shards: raise it when the same sound would give other scores.
VERSION = 1
#: Length of a segment, s (that of :data:`birdlab.soundscapes.coded.SEGMENT_S`).
SEGMENT_S = 5
#: Windows per call where the network leaves it open.
BATCH = 16
#: How far beyond 0 and 1 a probability may lie by rounding.
SLACK = 1e-6
#: The rule by which windows become segments, as the report says it.
RULE = (
    "a segment of 5 s takes the highest score of the windows that overlap it by at least 1 s or half a window, whichever "
    "is shorter; where none does, that of the window that overlaps it longest"
)
EXPECTED = "windows of samples: (N, samples), (N, 1, samples), (N, samples, 1) or (samples)"
Floats = npt.NDArray[np.floating]


class WindowClassifier:
    """A loaded classifier of windows.

    Four made sounds are run at once: they choose the output that fits the labels; ``range`` is that of their scores.

    Args:
        spec: the run's section of the recipe (window_s, sample_rate).
        weights: from :func:`birdlab.inference.weights.find_classifier`.
        labels: one per score, in the order of the network's output.
        device: auto, cpu, cuda, cuda:N or mps.

    Raises:
        DataError: the weights cannot be used, or do not fit the labels.
        ParameterError: the device is not there, a package is missing, or window_s and sample_rate do not fit.
    """

    def __init__(self, spec: SoundRun, weights: Weights, labels: list[str], device: str) -> None:
        self.labels, self._path = labels, str(weights.path)
        self.size = window_samples(spec)
        self._network = _load(weights, device, self.size)
        self.device, self.precision = self._network.device, self._network.precision
        self.remarks = list(self._network.remarks)
        self.network_s = 0.0
        self._layout, fixed = input_layout(self._network.input, self.size, self._path)
        self.batch = fixed or BATCH
        sample = self._look(open_batch=fixed is None)
        #: Lowest and highest score of the made sounds.
        self.range = (float(sample.min()), float(sample.max()))
        self.network_s = 0.0

    def scores(self, sounds: list[np.ndarray]) -> np.ndarray:
        """Raw scores of windows, float32 of shape (windows, labels).

        Raises:
            PredictError: the network failed, or gave values that are no numbers.
        """
        parts = []
        for start in range(0, len(sounds), self.batch):
            some = sounds[start : start + self.batch]
            # Always a whole batch: how many windows share a call must not change a bit of any row.
            blob = np.stack([*some, *[np.zeros_like(some[0])] * (self.batch - len(some))])
            parts.append(self._run(blob, self._output)[: len(some)])
        rows = np.concatenate(parts)
        if not np.isfinite(rows).all():
            raise PredictError("the network gave values that are no numbers")
        return rows

    def _run(self, blob: np.ndarray, output: int) -> np.ndarray:
        """Real scores of one whole batch; an output without an axis of the batch gets one."""
        given = _fed(blob.astype(np.float32), self._network.input, self._layout)
        started = time.perf_counter()
        raw = self._network.run(given, output)
        self.network_s += time.perf_counter() - started
        rows = dequantise(np.asarray(raw), self._network.outputs[output])
        return rows[None] if self._layout == "samples" and rows.ndim == 1 else rows

    def _look(self, *, open_batch: bool) -> np.ndarray:
        sounds = made_sounds(self.size)
        try:
            try:
                self._output = self._choose(sounds)
                return self.scores(sounds)
            except PredictError:
                if not open_batch:
                    raise
            # Some exports leave the batch open and yet take one window at a time.
            self.batch = 1
            self._output = self._choose(sounds)
            rows = self.scores(sounds)
            self.remarks.append("the network leaves the number of windows open, but takes one at a time")
            return rows
        except PredictError as error:
            expected = f"a network that can be run on {self.size:,} samples"
            raise DataError(Problem("bad_network", str(error), expected, file=self._path, key="weights")) from error

    def _choose(self, sounds: list[np.ndarray]) -> int:
        """Position of the output that has one score per label."""
        blob = np.stack([sounds[i % len(sounds)] for i in range(self.batch)])
        n, shapes, failed = len(self.labels), {}, None
        for i in range(len(self._network.outputs)):
            try:
                shapes[i] = self._run(blob, i).shape
            except PredictError as error:  # an output that nobody asks for need not be real numbers
                failed = error
        if not shapes and failed is not None:
            raise failed
        wide = {i: shape for i, shape in shapes.items() if len(shape) == 2 and shape[0] == self.batch}
        hits = [i for i, shape in wide.items() if shape[1] == n]
        if len(hits) == 1:
            return hits[0]
        listed = ", ".join(str(Tensor(self._network.outputs[i].name, s, np.dtype("f4"))) for i, s in shapes.items())
        expected = f"one output of windows x {n}, as there are {n} labels"
        if hits:
            remedy = "export the model with one of them only"
            raise DataError(Problem("many_outputs", listed, expected, remedy, file=self._path, key="weights"))
        if len(wide) == 1:
            found = f"{next(iter(wide.values()))[1]} scores per window and {n} labels"
            remedy = "give the list of labels of this model"
            raise DataError(Problem("label_count", found, "as many", remedy, file=self._path, key="labels"))
        raise DataError(Problem("no_classifier", listed, expected, file=self._path, key="weights"))


def _load(weights: Weights, device: str, size: int) -> Network:
    if weights.kind == "tflite":
        from birdlab.inference.classifier_tflite import TfliteNetwork

        return TfliteNetwork(weights, device, imgsz=size)
    from birdlab.inference.classifier_onnx import OnnxNetwork

    return OnnxNetwork(weights, device)


def window_samples(spec: SoundRun) -> int:
    """Samples of a window, window_s x sample_rate, rounded; at least 1."""
    return max(1, round(spec.window_s * spec.sample_rate))


def environment(weights: Weights, device: str) -> list[Any]:
    """What, beside weights and settings, can change a score: part of the key of finished shards."""
    kind, package = "cpu", "ai-edge-litert"
    if weights.kind == "onnx":
        from birdlab.inference.device import onnx_providers

        kind, package = onnx_providers(device)[0].kind, "onnxruntime"
    return [VERSION, THREADS, BATCH, kind, package, *versions(package, "soundfile", "scipy", "numpy")]


def input_layout(tensor: Tensor, size: int, path: str) -> tuple[str, int | None]:
    """How windows are laid out for a network, and how many it takes at a time (``None``: left open).

    Raises:
        DataError: the input is not one of windows of sound.
        ParameterError: its windows have another length than window_s x sample_rate.

    >>> input_layout(Tensor("sound", (1, 144000), np.dtype("f4")), 144000, "m.tflite")
    ('N samples', 1)
    >>> input_layout(Tensor("sound", (None, 1, 80000), np.dtype("f4")), 80000, "m.onnx")
    ('N 1 samples', None)
    """
    shape = tensor.shape
    names = {1: "samples", 2: "N samples"}
    if len(shape) == 3:
        one = [axis for axis in (1, 2) if shape[axis] == 1]
        names[3] = {(1,): "N 1 samples", (2,): "N samples 1"}.get(tuple(one), "")
    layout = names.get(len(shape), "")
    whole = tensor.dtype in (np.uint8, np.int8) and tensor.quantisation is not None
    if not layout or not (tensor.dtype.kind == "f" or whole):
        found = str(tensor) if not layout else f"an input of {tensor.dtype}"
        raise DataError(Problem("bad_input", found, EXPECTED, file=path, key="weights"))
    wanted = shape[{"samples": 0, "N samples": 1, "N 1 samples": 2, "N samples 1": 1}[layout]]
    if wanted is not None and wanted != size:
        found = f"windows of {wanted:,} samples"
        expected = f"window_s x sample_rate = {size:,} samples"
        remedy = "say the window_s and sample_rate that the network was trained for"
        raise ParameterError(Problem("window_length", found, expected, remedy, file=path, key="window_s"))
    return layout, 1 if layout == "samples" else shape[0]


def _fed(blob: np.ndarray, tensor: Tensor, layout: str) -> np.ndarray:
    """A batch of windows (N, samples) as the network takes it."""
    if tensor.dtype.kind in "iu":
        limits, (scale, zero) = np.iinfo(tensor.dtype), tensor.quantisation or (1.0, 0)
        blob = np.clip(np.rint(blob / scale) + zero, limits.min, limits.max)
    blob = blob.astype(tensor.dtype)
    if layout == "samples":
        return blob[0]
    return blob[:, None] if layout == "N 1 samples" else blob[..., None] if layout == "N samples 1" else blob


def made_sounds(size: int) -> list[np.ndarray]:
    """Silence, a rising tone, noise and a click: the same four on every machine, float32 of ``size`` samples."""
    at = np.arange(size, dtype=np.float64) / size
    tone = 0.5 * np.sin(2 * np.pi * (size / 64) * at * (1 + 4 * at))
    click = np.zeros(size)
    click[size // 2] = 1.0
    noise = np.random.default_rng(0).normal(0, 0.2, size).clip(-1, 1)
    return [np.zeros(size, np.float32), *(x.astype(np.float32) for x in (tone, noise, click))]


def beyond(low: float, high: float) -> bool:
    """Whether scores go beyond [0, 1], so that they are no probabilities.

    >>> beyond(0.0, 1.0), beyond(-3.2, 0.9)
    (False, True)
    """
    return low < -SLACK or high > 1 + SLACK


def probabilities(raw: Floats, *, logits: bool) -> npt.NDArray[np.float64]:
    """Scores in [0, 1]: the logistic function of logits, 1 / (1 + exp(-x)), else as they are; float64.

    >>> probabilities(np.array([0.0, np.log(3)]), logits=True).tolist()
    [0.5, 0.75]
    """
    from scipy.special import expit

    wide = np.asarray(raw, dtype=np.float64)
    return expit(wide) if logits else wide.clip(0, 1)


def windows_of_segments(n_windows: int, size: int, sample_rate: int, n_segments: int) -> npt.NDArray[np.int64]:
    """First and last window of each segment of 5 s by :data:`RULE`, (n_segments, 2).

    Args:
        n_windows: windows of the recording, without gaps from its start, at least 1.
        size: samples of a window.
        sample_rate: Hz.
        n_segments: segments; each begins before the end of the last window.

    Windows of 3 s: the first segment (0-5 s) has windows 0 and 1, the second (5-10 s) 1 (by 1 s), 2 and 3 (by 1 s).

    >>> windows_of_segments(5, 3, 1, 3).tolist()
    [[0, 1], [1, 3], [3, 4]]
    """
    start = np.arange(n_segments, dtype=np.int64) * SEGMENT_S * sample_rate
    end = start + SEGMENT_S * sample_rate
    first = start // size
    last = np.minimum((end - 1) // size, n_windows - 1)
    if n_segments and first[-1] >= n_windows:
        raise ValueError("a segment that begins after the last window")

    def overlap(window: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.minimum(end, (window + 1) * size) - np.maximum(start, window * size)

    least = min(2 * sample_rate, size)
    low = np.where(2 * overlap(first) < least, first + 1, first)
    high = np.where(2 * overlap(last) < least, last - 1, last)
    # None long enough: all that there are lie at the edges, and the longer one counts.
    longest = np.where(overlap(first) >= overlap(last), first, last)
    none = low > high
    return np.stack([np.where(none, longest, low), np.where(none, longest, high)], axis=1)


def highest(scores: Floats, ranges: npt.NDArray[np.int64]) -> Floats:
    """Highest score of the windows of each segment, (segments, classes); NaN where all of them are NaN.

    Args:
        scores: of windows, (windows, classes); a row of NaN is a window that has none.
        ranges: from :func:`windows_of_segments`.
    """
    out = np.full((len(ranges), scores.shape[1]), np.nan, dtype=scores.dtype)
    for step in range(int((ranges[:, 1] - ranges[:, 0]).max(initial=-1)) + 1):
        at = np.minimum(ranges[:, 0] + step, ranges[:, 1])
        out = np.fmax(out, scores[at])
    return out
