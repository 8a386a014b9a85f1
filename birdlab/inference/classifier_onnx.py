"""ONNX image classifiers on onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.inference import device as devices
from birdlab.inference.classifier import THREADS
from birdlab.inference.classifier_input import Tensor
from birdlab.inference.detector import PredictError
from birdlab.inference.weights import Weights, missing_package

#: Types of tensors as onnxruntime writes them.
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}


class OnnxNetwork:
    """A loaded ONNX model; see :class:`birdlab.inference.classifier.Network`.

    Raises:
        DataError: onnxruntime cannot run the model, or it has several inputs.
        ParameterError: onnxruntime is not installed, or the device is not there.
    """

    def __init__(self, weights: Weights, device: str) -> None:
        self._session, found, remark = _open(weights, device)
        self.remarks = [remark] if remark else []
        self.device = devices.device_words(found, THREADS)
        given = self._session.get_inputs()
        if len(given) != 1:
            listed = ", ".join(one.name for one in given) or "no input"
            raise DataError(Problem("bad_input", listed, "one input", file=str(weights.path), key="weights"))
        self.input = _tensor(given[0], weights)
        self.outputs = [_tensor(one, weights, quiet=True) for one in self._session.get_outputs()]
        half = self.input.dtype == np.float16
        self.precision = "int8" if weights.metadata.get("_int8") else "fp16" if half else "fp32"

    def run(self, blob: np.ndarray, output: int) -> np.ndarray:
        """Raw values of one output for a batch of inputs.

        Raises:
            PredictError: onnxruntime failed.
        """
        try:
            return np.asarray(self._session.run([self.outputs[output].name], {self.input.name: blob})[0])
        except (*devices.onnx_errors(), RuntimeError, ValueError) as error:
            raise PredictError(_first_line(error)) from error


def _open(weights: Weights, device: str) -> tuple[Any, devices.Device, str]:
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_package("onnxruntime", "to run .onnx files") from error
    found, providers, remark = devices.onnx_providers(device)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(weights.path), options, providers=providers, enable_fallback=0)
        return session, found, remark
    except (*devices.onnx_errors(), RuntimeError, ValueError) as error:
        line = _first_line(error)
        custom = "not a registered function" in line or "no opset import for domain" in line.lower()
        remedy = "export it with the standard operators of ONNX only" if custom else "export or copy it again"
        problem = Problem(
            "bad_onnx", line, "a model onnxruntime can run", remedy, file=str(weights.path), key="weights"
        )
        raise DataError(problem) from error


def _tensor(given: Any, weights: Weights, *, quiet: bool = False) -> Tensor:
    """``quiet`` lets outputs of other types pass: they may be ones nobody asks for."""
    if given.type not in TYPES and not quiet:
        expected = "an input of real numbers, uint8 or int8"
        raise DataError(
            Problem("bad_input", f"an input of {given.type}", expected, file=str(weights.path), key="weights")
        )
    shape = tuple(side if isinstance(side, int) and side > 0 else None for side in given.shape)
    return Tensor(given.name, shape, np.dtype(TYPES.get(given.type, object)))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(" .")
