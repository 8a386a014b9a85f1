"""TFLite image classifiers, float or quantised, on LiteRT (CPU)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.inference import device as devices
from birdlab.inference.classifier import THREADS
from birdlab.inference.classifier_input import Tensor
from birdlab.inference.detector import PredictError
from birdlab.inference.tflite_trial import allocate
from birdlab.inference.weights import Weights, missing_package

#: Seconds a file may take to be loaded and run once before it is taken for broken.
TRIAL_S = 300
#: What LiteRT raises for a file that is broken in one place or another.
ERRORS = (RuntimeError, ValueError, TypeError, KeyError, IndexError, MemoryError, SystemError)
EXPECTED = "a model that LiteRT can run"


class TfliteNetwork:
    """A loaded TFLite model; see :class:`birdlab.inference.classifier.Network`.

    The file is first loaded and run once in a process of its own: one that makes LiteRT crash or hang is an error,
    not the end of this process.

    Raises:
        DataError: the file is broken, or needs operators that LiteRT does not have.
        ParameterError: LiteRT is not installed.
    """

    def __init__(self, weights: Weights, device: str, *, imgsz: int | None = None) -> None:
        asked = devices.parse_device(device)
        self.remarks: list[str] = []
        if asked is not None and asked.kind != "cpu":
            self.remarks.append(f"{asked.name} was asked for, but TFLite models run on the CPU here")
        self.device = devices.device_words(devices.Device("cpu"), THREADS)
        self._path = str(weights.path)
        self._interpreter, given, made = _load(weights.path, imgsz or 0)
        if len(given) != 1:
            found = f"{len(given)} inputs"
            raise DataError(Problem("bad_input", found, "one input", file=self._path, key="weights"))
        self._index, self._places = given[0]["index"], [one["index"] for one in made]
        self.input, self.outputs = _tensor(given[0]), [_tensor(one) for one in made]
        self.precision = "int8" if self.input.dtype.kind in "iu" else "fp32"

    def run(self, blob: np.ndarray, output: int) -> np.ndarray:
        """Raw values of one output for a batch of inputs.

        Raises:
            PredictError: LiteRT failed.
        """
        try:
            if tuple(self._interpreter.get_input_details()[0]["shape"]) != blob.shape:
                self._interpreter.resize_tensor_input(self._index, blob.shape)
                self._interpreter.allocate_tensors()
            self._interpreter.set_tensor(self._index, blob)
            self._interpreter.invoke()
            return self._interpreter.get_tensor(self._places[output])
        except ERRORS as error:
            raise PredictError(_first_line(error)) from error


def _load(path: Path, side: int) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """The interpreter, ready to run, and what it says of its inputs and outputs."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise missing_package("ai-edge-litert", "to run .tflite files") from error
    with path.open("rb") as stream:
        head = stream.read(8)
    # FlatBuffers keep the identifier of their kind in bytes 4 to 7.
    if head[4:8] != b"TFL3":
        found = "an empty file" if not head else "bytes that are not a TFLite model"
        raise DataError(
            Problem("bad_tflite", found, "a TFLite model", "export or copy it again", file=str(path), key="weights")
        )
    _try(path, side)
    try:
        interpreter = Interpreter(model_path=str(path), num_threads=THREADS)
        allocate(interpreter, side)
        return interpreter, interpreter.get_input_details(), interpreter.get_output_details()
    except ERRORS as error:
        line = _first_line(error)
        custom = "custom op" in line.lower() or "flex" in line.lower()
        remedy = "export it with TFLite's own operators only" if custom else "export or copy it again"
        raise DataError(Problem("bad_tflite", line, EXPECTED, remedy, file=str(path), key="weights")) from error


def _try(path: Path, side: int, timeout_s: float = TRIAL_S) -> None:
    script = Path(__file__).with_name("tflite_trial.py")
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(script), str(path), str(side)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        found = f"a model that is not run once within {timeout_s:g} s"
    else:
        # Ordinary errors come again, with their words, when the file is loaded here.
        if done.returncode in (0, 1):
            return
        known = {int(s): s.name for s in signal.Signals}
        found = f"a model that makes LiteRT crash ({known.get(-done.returncode, f'exit {done.returncode}')})"
    raise DataError(Problem("bad_tflite", found, EXPECTED, "export or copy it again", file=str(path), key="weights"))


def _tensor(details: dict[str, Any]) -> Tensor:
    shape = tuple(int(n) if n > 0 else None for n in details["shape_signature"])
    dtype = np.dtype(details["dtype"])
    scale, zero = details["quantization"]
    return Tensor(str(details["name"]), shape, dtype, (float(scale), int(zero)) if scale else None)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(" .")
