"""Networks that turn the picture of a bird into an embedding: timm, torchvision, TorchScript and ONNX weights.

MegaDescriptor and DINOv2 are networks of timm (``swin_large_patch4_window12_384``, ``vit_small_patch14_dinov2``): their
files are given by path, and nothing is downloaded. A checkpoint is read as tensors alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference import device as devices
from birdlab.inference.clip_network import ERRORS, open_network
from birdlab.inference.detector import PredictError
from birdlab.inference.weights import Weights, check_hash, hash_weights, locate_weights, missing_package, versions
from birdlab.recipe.reid import ReidMethod

#: Part of the key of finished shards: raise it when the same picture would get another embedding.
VERSION = 1
SUFFIXES = {
    "timm": (".pt", ".pth", ".bin", ".safetensors"),
    "torchvision": (".pt", ".pth", ".bin", ".safetensors"),
    "torchscript": (".pt", ".torchscript"),
    "onnx": (".onnx",),
}
#: Side and colours of networks that do not say what they were made for (ImageNet's), on the scale 0-1.
SIDE, MEAN, STD = 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Parts of torchvision's networks that come after the embedding.
HEADS = ("fc", "classifier", "heads", "head")


def find_embedder(spec: ReidMethod, base: Path, root: Path) -> Weights:
    """Locate and identify the weights of a network that embeds; nothing is loaded or downloaded.

    Raises:
        DataError: the file is missing, is of no known kind, or its hash is not the promised one.
        ParameterError: a library that needs the name of an architecture, and none is given.
    """
    where = f"method {spec.name}"
    expected = f"a file ending in {', '.join(SUFFIXES[spec.library])} for {spec.library}"
    path = locate_weights(spec.weights or "", base, root, expected=expected, where=where)
    if not path.is_file() or path.suffix.lower() not in SUFFIXES[spec.library]:
        found = "a folder" if path.is_dir() else f"a file ending in {path.suffix or 'nothing'}"
        raise DataError(Problem("unknown_weights", found, expected, file=str(path), record=where, key="weights"))
    if spec.library in ("timm", "torchvision") and not spec.architecture:
        remedy = "MegaDescriptor-L-384 is swin_large_patch4_window12_384, DINOv2-S is vit_small_patch14_dinov2"
        given = f"the name of a network of {spec.library}"
        raise ParameterError(Problem("no_architecture", "none", given, remedy, record=where, key="architecture"))
    sha256 = hash_weights(path)
    check_hash(spec.sha256, sha256, path, where=where)
    return Weights(path, spec.library, sha256, spec.library, {})


def environment(spec: ReidMethod, device: str) -> list[Any]:
    """What, beside weights, settings and pictures, can change an embedding: part of the key of finished shards."""
    packages = {"timm": ["torch", "timm"], "torchvision": ["torch", "torchvision"], "onnx": ["onnxruntime"]}
    named = versions(*packages.get(spec.library, ["torch"]), "opencv-python", "numpy")
    found = devices.onnx_providers(device)[0] if spec.library == "onnx" else devices.resolve_device(device)
    return [VERSION, found.kind, *named]


class Embedder:
    """A loaded network.

    A made picture is run at once: it shows whether the network takes pictures of that size and gives one vector each.

    Args:
        spec: method of the recipe with ``weights``.
        weights: from :func:`find_embedder`.
        device: auto, cpu, cuda, cuda:N or mps.

    Raises:
        DataError: the weights cannot be used, or do not belong to the architecture.
        ParameterError: an unknown architecture or device, or a package is missing.
    """

    def __init__(self, spec: ReidMethod, weights: Weights, device: str) -> None:
        self._path, self.name = str(weights.path), spec.name
        own: dict[str, Any] = {}
        self._module: Any = None
        if spec.library in ("timm", "torchvision"):
            own = self._load(spec, weights, device)
        else:
            self._network = open_network(weights, device)
            self.device = self._network.device
        self.side = spec.imgsz or own.get("side") or SIDE
        mean, std = spec.mean or own.get("mean") or MEAN, spec.std or own.get("std") or STD
        self._mean, self._std = (np.array(v, np.float32).reshape(3, 1, 1) for v in (mean, std))
        try:
            self.size = int(self.embed([np.zeros((32, 32, 3), np.uint8)]).shape[1])
        except PredictError as error:
            expected = f"a network that takes pictures of {self.side} px and gives one vector each"
            remedy = "set imgsz to what the network was made for"
            found = f"a network that fails on such a picture: {error}"
            raise DataError(Problem("wrong_input", found, expected, remedy, file=self._path, key="weights")) from error

    def embed(self, images: list[np.ndarray]) -> np.ndarray:
        """Vectors of pictures (upright BGR uint8, any size, squeezed to the network's square), (n, d) float32.

        Raises:
            PredictError: the network failed, or gave something else than a vector per picture, or no numbers.
        """
        rows = self._run(np.stack([self._prepared(image) for image in images]))
        if rows.ndim != 2 or len(rows) != len(images):
            raise PredictError(f"an output of shape {rows.shape} for {len(images)} pictures")
        if not np.isfinite(rows).all():
            raise PredictError("an embedding that holds no numbers")
        return rows.astype(np.float32)

    def _prepared(self, image: np.ndarray) -> np.ndarray:
        smaller = max(image.shape[:2]) > self.side
        how = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
        square = cv2.resize(image, (self.side, self.side), interpolation=how)[:, :, ::-1]
        return (square.transpose(2, 0, 1).astype(np.float32) / 255 - self._mean) / self._std

    def _run(self, blob: np.ndarray) -> np.ndarray:
        if self._module is None:
            return self._network.raw(blob)[0][1]
        torch = self._torch
        try:
            with torch.inference_mode():
                said = self._module(torch.from_numpy(blob).to(self._on))
            if not isinstance(said, torch.Tensor):
                raise PredictError("an output that is no tensor")
            return said.flatten(1).float().cpu().numpy()
        except ERRORS as error:
            raise PredictError((str(error).splitlines() or [type(error).__name__])[0][:300]) from error

    def _load(self, spec: ReidMethod, weights: Weights, device: str) -> dict[str, Any]:
        try:
            found = devices.resolve_device(device)
            devices.prepare_threads()
            import torch

            make = _timm if spec.library == "timm" else _torchvision
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._module, own = make(spec, weights.path)
        except ImportError as error:
            raise missing_package(error.name or spec.library, f"to run networks of {spec.library}") from error
        self._torch, self._on = torch, found.name
        self._module = self._module.eval().to(found.name)
        self.device = devices.device_words(found, torch.get_num_threads())
        return own


def read_tensors(path: Path) -> dict[str, Any]:
    """Tensors by name of a checkpoint (safetensors, or a pickle read as tensors alone), whatever they are wrapped in.

    Raises:
        DataError: not such a file, or one that holds more than tensors.
    """
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix.lower() == ".safetensors":
                from safetensors.torch import load_file

                found: Any = load_file(path)
            else:
                found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        told = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        if "weights_only" in str(error):  # torch would have the reader run whatever the file holds
            told = "a pickle of more than tensors, which can run code"
        remedy = "save the network's state_dict alone, or as .safetensors"
        raise DataError(
            Problem("unsafe_weights", told, "a file of tensors and nothing else", remedy, file=str(path), key="weights")
        ) from error
    for wrap in ("state_dict", "model_state_dict", "model", "teacher"):
        if isinstance(found, dict) and isinstance(found.get(wrap), dict):
            found = found[wrap]
    if not isinstance(found, dict) or not found or not all(isinstance(v, torch.Tensor) for v in found.values()):
        raise DataError(
            Problem("no_tensors", "no tensors by name", "the state_dict of a network", file=str(path), key="weights")
        )
    return {k.removeprefix("module.").removeprefix("backbone."): v for k, v in found.items()}


def _timm(spec: ReidMethod, path: Path) -> tuple[Any, dict[str, Any]]:
    import timm

    known = set(timm.list_models())
    if (spec.architecture or "").partition(".")[0] not in known:
        raise _unknown(spec, sorted(known))
    overlay = {"state_dict": read_tensors(path)}
    try:
        # The network's own rules for foreign checkpoints (DINOv2's names, other sizes) are applied by timm.
        network = timm.create_model(
            spec.architecture, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay,
            **({"img_size": spec.imgsz} if spec.imgsz and spec.architecture.startswith(("vit", "swin", "eva", "deit")) else {}),
        )  # fmt: skip
    except (RuntimeError, KeyError, ValueError, TypeError, AssertionError) as error:
        raise _misfit(spec, path, error) from error
    own = network.pretrained_cfg
    return network, {"side": own["input_size"][-1], "mean": own["mean"], "std": own["std"]}


def _torchvision(spec: ReidMethod, path: Path) -> tuple[Any, dict[str, Any]]:
    import torch
    from torchvision import models

    known = models.list_models(module=models)
    if spec.architecture not in known:
        raise _unknown(spec, known)
    tensors = {k: v for k, v in read_tensors(path).items() if k.split(".")[0] not in HEADS}
    network = models.get_model(spec.architecture, weights=None)
    for head in HEADS:
        if hasattr(network, head):
            setattr(network, head, torch.nn.Identity())
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise _misfit(spec, path, error) from error
    return network, {}


def _unknown(spec: ReidMethod, known: list[str]) -> ParameterError:
    import difflib

    near = difflib.get_close_matches(str(spec.architecture), known, n=1)
    remedy = f"did you mean {near[0]}?" if near else ""
    expected = f"one of the {len(known)} networks of {spec.library}"
    where = f"method {spec.name}"
    return ParameterError(
        Problem("unknown_architecture", repr(spec.architecture), expected, remedy, record=where, key="architecture")
    )


def _misfit(spec: ReidMethod, path: Path, error: Exception) -> DataError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return DataError(
        Problem(
            "wrong_weights", " ".join(lines)[:300], f"weights of {spec.architecture}", "check architecture",
            file=str(path), record=f"method {spec.name}", key="weights",
        )
    )  # fmt: skip
