"""Networks that name the behaviour in a clip: TorchScript and ONNX, loaded without running what is not a network.

A TorchScript archive is a program in a language of its own; no Python pickle in it is read. That language can open files
in two ways (``torch.save``, ``torch.from_file``), and can call operators that a library brings along. An archive whose
source has any of these is refused, and so is a checkpoint of ``torch.save``, which is a pickle. What was looked at is
what is loaded: the archive is packed anew from the parts that were read.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.inference import device as devices
from birdlab.inference.classifier import dequantise, needs_softmax, softmax
from birdlab.inference.classifier_input import Tensor
from birdlab.inference.detector import PredictError
from birdlab.inference.weights import (
    Weights,
    check_hash,
    external_files,
    hash_listed,
    hash_weights,
    locate_weights,
    missing_package,
    read_metadata,
    versions,
)
from birdlab.recipe import ClipClassifier

#: Part of the key of finished shards: raise it when the same window would get another label.
VERSION = 1
SUPPORTED = "a TorchScript archive (.pt, .torchscript) or an .onnx file"
#: Largest archive that is unpacked, bytes.
LARGEST = 4 * 2**30
#: Operators of TorchScript that open files, and libraries of operators that come with torch and do not.
OPENS_FILES = re.compile(r"\b(save|from_file)\b")
OPERATORS = re.compile(r"\bops\s*\.\s*(?!(?:aten|prim|quantized)\b)(\w+)")
ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


class Network(Protocol):
    """A network as a library gives it."""

    input: Tensor | None
    device: str
    remarks: list[str]

    def raw(self, blob: np.ndarray) -> list[tuple[Tensor, np.ndarray]]:
        """All outputs for a batch of inputs; raises PredictError."""
        ...


def find_clip_weights(spec: ClipClassifier, base: Path, root: Path) -> Weights:
    """Locate and identify the weights of a clip classifier; nothing is loaded or downloaded.

    Raises:
        DataError: the file is missing, is of no known kind, or its hash is not the promised one.
    """
    where = f"classifier {spec.name}"
    path = locate_weights(spec.weights, base, root, expected=SUPPORTED, where=where)
    kind = {".pt": "torchscript", ".torchscript": "torchscript", ".onnx": "onnx"}.get(path.suffix.lower())
    if not path.is_file() or kind is None:
        found = "a folder" if path.is_dir() else f"a file ending in {path.suffix or 'nothing'}"
        remedy = "export the network with torch.jit.trace or torch.onnx.export"
        raise DataError(
            Problem("unknown_weights", found, SUPPORTED, remedy, file=str(path), record=where, key="weights")
        )
    beside = external_files(path) if kind == "onnx" else []
    sha256 = hash_listed([path, *beside], path.parent) if beside else hash_weights(path)
    check_hash(spec.sha256, sha256, path, where=where)
    return Weights(path, kind, sha256, kind, read_metadata(path, kind))


def environment(weights: Weights, device: str) -> list[Any]:
    """What, beside weights, settings and tracks, can change a label: part of the key of finished shards."""
    if weights.kind == "onnx":
        return [VERSION, devices.onnx_providers(device)[0].kind, *versions("onnxruntime", "opencv-python", "numpy")]
    return [VERSION, devices.resolve_device(device).kind, *versions("torch", "opencv-python", "numpy")]


def open_network(weights: Weights, device: str) -> Network:
    """A network from a TorchScript archive or an .onnx file; see :func:`safe_script` for what is refused."""
    return _Onnx(weights, device) if weights.kind == "onnx" else _Script(weights, device)


class ClipNetwork:
    """A loaded clip classifier.

    Two made clips are run at once: they show whether the network takes such clips, which output has one value per
    label, and whether these are probabilities already.

    Args:
        spec: section of the recipe.
        weights: from :func:`find_clip_weights`.
        device: auto, cpu, cuda, cuda:N or mps.

    Raises:
        DataError: the weights cannot be used or are refused, or do not fit labels, ``frames`` or ``imgsz``.
        ParameterError: the device is not there, a package is missing, or it cannot be told what the output is.
    """

    def __init__(self, spec: ClipClassifier, weights: Weights, device: str) -> None:
        self.labels, self._path = list(spec.labels), str(weights.path)
        self._network = open_network(weights, device)
        self.device, self.remarks = self._network.device, list(self._network.remarks)
        self.shape = (3, spec.frames, spec.imgsz, spec.imgsz)
        self._batch, self._dtype = self._fits()
        self._mean, self._std = (np.array(v, np.float32).reshape(3, 1, 1, 1) for v in (spec.mean, spec.std))
        made = np.random.default_rng(0).integers(0, 256, (2, *self.shape), dtype=np.uint8)
        sample, tensor = self._look(made)
        self._softmax, remark = needs_softmax(sample, spec.softmax, tensor, self._path)
        self.remarks.append(remark)

    def probabilities(self, clips: np.ndarray) -> np.ndarray:
        """Float32 array of shape (N, labels) for clips N x C x T x H x W, uint8, channels red, green, blue.

        Raises:
            PredictError: the network failed, or gave values that are no numbers.
        """
        rows, _ = self._rows(clips)
        if not np.isfinite(rows).all():
            raise PredictError("scores that are no numbers")
        return softmax(rows) if self._softmax else rows

    def _fits(self) -> tuple[int | None, np.dtype[Any]]:
        """Fixed size of a batch (None: any) and type of the input."""
        given = self._network.input
        if given is None:
            return None, np.dtype(np.float32)
        asked = (None, *self.shape)
        bad = len(given.shape) != 5 or any(a not in (None, b) for a, b in zip(given.shape[1:], asked[1:], strict=False))
        if bad or given.dtype.kind != "f":
            expected = "an input of real numbers, windows x " + " x ".join(map(str, self.shape))
            remedy = "set frames and imgsz to what the network was made for"
            found = f"{given} of {given.dtype}"
            raise DataError(Problem("wrong_input", found, expected, remedy, file=self._path, key="weights"))
        return given.shape[0], given.dtype

    def _look(self, made: np.ndarray) -> tuple[np.ndarray, Tensor]:
        try:
            self._output = self._choose(self._raw(made), len(made))
            return self._rows(made)
        except PredictError as error:
            expected = "a network that takes windows x " + " x ".join(map(str, self.shape))
            remedy = "set frames and imgsz to what the network was made for"
            found = f"a network that fails on such a clip: {error}"
            raise DataError(Problem("wrong_input", found, expected, remedy, file=self._path, key="weights")) from error

    def _choose(self, outputs: list[tuple[Tensor, np.ndarray]], n_clips: int) -> int:
        n = len(self.labels)
        hits = [i for i, (_, values) in enumerate(outputs) if values.shape == (n_clips, n)]
        if len(hits) != 1:
            listed = ", ".join(" x ".join(map(str, values.shape)) or "one number" for _, values in outputs)
            expected = f"one output of windows x {n}, as there are {n} labels"
            raise DataError(Problem("label_count", f"outputs {listed}", expected, file=self._path, key="labels"))
        return hits[0]

    def _rows(self, clips: np.ndarray) -> tuple[np.ndarray, Tensor]:
        outputs = self._raw(clips)
        tensor, values = outputs[self._output]
        if values.shape != (len(clips), len(self.labels)):
            raise PredictError(f"an output of shape {values.shape} for {len(clips)} windows")
        return dequantise(values, tensor), tensor

    def _raw(self, clips: np.ndarray) -> list[tuple[Tensor, np.ndarray]]:
        size = self._batch or max(1, len(clips))
        parts: list[list[tuple[Tensor, np.ndarray]]] = []
        for start in range(0, len(clips), size):
            some = (clips[start : start + size].astype(np.float32) - self._mean) / self._std
            # A batch of fixed size is filled up with black.
            full = np.concatenate([some, np.zeros((size - len(some), *self.shape), np.float32)])
            parts.append([(t, v[: len(some)]) for t, v in self._network.raw(full.astype(self._dtype))])
        return [(same[0][0], np.concatenate([v for _, v in same])) for same in zip(*parts, strict=True)]


class _Onnx:
    def __init__(self, weights: Weights, device: str) -> None:
        from birdlab.inference.classifier_onnx import OnnxNetwork

        self._own = OnnxNetwork(weights, device)
        self.input, self.device, self.remarks = self._own.input, self._own.device, self._own.remarks

    def raw(self, blob: np.ndarray) -> list[tuple[Tensor, np.ndarray]]:
        return [(tensor, np.atleast_1d(self._own.run(blob, i))) for i, tensor in enumerate(self._own.outputs)]


class _Script:
    def __init__(self, weights: Weights, device: str) -> None:
        self.input, self.remarks = None, []
        archive = safe_script(weights.path)
        try:
            found = devices.resolve_device(device)
            devices.prepare_threads()
            import torch
        except ImportError as error:
            raise missing_package(error.name or "torch", "to run TorchScript archives") from error
        self._torch, self._device = torch, found.name
        self.device = devices.device_words(found, torch.get_num_threads())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._module = torch.jit.load(archive, map_location=found.name).eval()
        except ERRORS as error:
            remedy = "export it again with torch.jit.trace or torch.jit.script"
            raise DataError(
                Problem("bad_weights", _line(error), SUPPORTED, remedy, file=str(weights.path), key="weights")
            ) from error

    def raw(self, blob: np.ndarray) -> list[tuple[Tensor, np.ndarray]]:
        torch = self._torch
        try:
            with torch.inference_mode():
                said = self._module(torch.from_numpy(blob).to(self._device))
                said = list(said) if isinstance(said, (tuple, list)) else [said]
                if not said or not all(isinstance(one, torch.Tensor) for one in said):
                    raise PredictError("an output that is no tensor")
                values = [np.atleast_1d(one.float().cpu().numpy()) for one in said]
        except ERRORS as error:
            raise PredictError(_line(error)) from error
        return [(Tensor(f"output {i}", v.shape, v.dtype), v) for i, v in enumerate(values)]


def safe_script(path: Path) -> io.BytesIO:
    """A TorchScript archive, read, looked at and packed anew; see the module for what is refused.

    Raises:
        DataError: not a TorchScript archive, or one that is refused.
    """

    def refused(found: str, expected: str = SUPPORTED, remedy: str = "") -> DataError:
        return DataError(Problem("unsafe_weights", found, expected, remedy, file=str(path), key="weights"))

    try:
        with zipfile.ZipFile(path) as given:
            entries = [entry for entry in given.infolist() if not entry.is_dir()]
            names = [entry.filename for entry in entries]
            if sum(entry.file_size for entry in entries) > LARGEST or len(set(names)) < len(names):
                raise refused("an archive that unpacks to more than it may, or has two parts of one name")
            parts = {entry.filename: given.read(entry) for entry in entries}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise refused(f"a file that is no such archive ({_line(error)})") from error
    within = {name.partition("/")[2] for name in parts}
    source = {name: data.decode("utf-8", "replace") for name, data in parts.items() if name.endswith(".py")}
    if "constants.pkl" not in within or not source:
        remedy = "export the network with torch.jit.trace or torch.jit.script"
        raise refused("a checkpoint of torch.save, which is a pickle and can run code", SUPPORTED, remedy)
    for name, text in source.items():
        calls = [*OPENS_FILES.findall(text), *(f"ops.{library}" for library in OPERATORS.findall(text))]
        if calls:
            found = f"{', '.join(sorted(set(calls))[:5])} in {name}"
            expected = "a network: no operator that opens files (save, from_file) or comes from another library"
            raise refused(found, expected, "export the network alone, or to ONNX")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as made:
        for name, data in parts.items():
            made.writestr(name, data)
    packed.seek(0)
    return packed


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(" .")
