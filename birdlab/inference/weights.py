"""Where a model's weights lie, whether they are the promised ones, and which adapter runs them."""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import importlib.resources
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.checkpoint import holds_tensors_only
from birdlab.manifest import hash_file
from birdlab.readers.labels import locate
from birdlab.recipe import Model

if TYPE_CHECKING:
    from birdlab.recipe.abstention import Classifier
    from birdlab.recipe.soundscapes import SoundRun

CLASSIFIERS = "a .tflite or .onnx classifier"
SUPPORTED = "an ultralytics .pt, a torchvision .pt or .pth, an .onnx, or an OpenVINO folder (.xml and .bin)"


@dataclass(frozen=True)
class Weights:
    """Weights on disk: ``kind`` is pt, pth, onnx, openvino or tflite; ``metadata`` is what an export says of itself."""

    path: Path
    kind: str
    sha256: str
    adapter: str
    metadata: dict[str, Any]


def find_weights(model: Model, base: Path, root: Path) -> Weights:
    """Locate and identify the weights of one model of a recipe; nothing is loaded and nothing is ever downloaded.

    Args:
        model: model section with ``weights``.
        base: folder of the recipe; ``birdlab:NAME`` is a detector that comes with the demo.
        root: folder of the data, where a relative path is looked for when it does not lead anywhere from ``base``.

    Raises:
        DataError: the file is missing, is of no known kind, or its hash is not the promised one.
        ParameterError: the demo has no detector of that name, or the adapter does not run such weights.
    """
    path = _locate(model, base, root)
    kind = _kind(path, model)
    path = path.parent if kind == "openvino" and path.is_file() else path
    sha256 = hash_weights(path)
    check_hash(model.sha256, sha256, path, where=f"model {model.name}")
    metadata = read_metadata(path, kind)
    return Weights(path, kind, sha256, _adapter(model, path, kind, metadata), metadata)


def find_classifier(spec: Classifier | SoundRun, base: Path, root: Path) -> Weights:
    """Locate and identify the weights of one classifier (of images or sounds) of a recipe; nothing is loaded or downloaded.

    The hash of an ONNX model with tensors in files of their own covers those files too.

    Args:
        spec: section with ``name``, ``weights`` and ``sha256``.
        base: folder of the recipe.
        root: folder of the data, where a relative path is looked for when it does not lead anywhere from ``base``.

    Raises:
        DataError: the file is missing, is no TFLite or ONNX model, or its hash is not the promised one.
    """
    where = f"model {spec.name}"
    path = locate_weights(spec.weights or "", base, root, expected=CLASSIFIERS, where=where)
    kind = path.suffix.lower().removeprefix(".")
    if not path.is_file() or kind not in ("tflite", "onnx"):
        found = "a folder" if path.is_dir() else f"a file ending in {path.suffix or 'nothing'}"
        remedy = "export the model to ONNX with the library that trained it"
        raise DataError(
            Problem("unknown_weights", found, CLASSIFIERS, remedy, file=str(path), record=where, key="weights")
        )
    metadata = read_metadata(path, kind)
    beside = external_files(path) if kind == "onnx" else []
    sha256 = hash_listed([path, *beside], path.parent) if beside else hash_weights(path)
    check_hash(spec.sha256, sha256, path, where=where)
    return Weights(path, kind, sha256, kind, metadata)


def check_hash(promised: str | None, sha256: str, path: Path, *, where: str) -> None:
    """Hold the hash of weights against the one a recipe promises, where it does.

    Raises:
        DataError: they differ.
    """
    if promised and promised.lower().removeprefix("sha256:") != sha256:
        remedy = "check where the file comes from, then put its hash into the recipe"
        raise DataError(Problem("wrong_hash", sha256, f"sha256 {promised}", remedy, file=str(path), record=where))


def locate_weights(given: str, base: Path, root: Path, *, expected: str, where: str) -> Path:
    """Path of weights that a recipe names.

    Raises:
        DataError: there is nothing at that path.
    """
    path = locate(given, base, root)
    if not path.exists():
        remedy = "put the file there or correct the path; birdlab never downloads weights"
        raise DataError(
            Problem("no_weights", "no such file", expected, remedy, file=str(path), record=where, key="weights")
        )
    return path


def _locate(model: Model, base: Path, root: Path) -> Path:
    given = model.weights or ""
    where = f"model {model.name}"
    if given.startswith("birdlab:"):
        folder = Path(str(importlib.resources.files("birdlab.demo"))) / "weights"
        known = {p.stem: p for p in sorted(folder.glob("*.pt"))}
        name = given.removeprefix("birdlab:")
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=1)
            remedy = f"did you mean birdlab:{near[0]}?" if near else ""
            expected = (
                "one of " + ", ".join(f"birdlab:{n}" for n in known)
                if known
                else "a detector of the demo (none is installed)"
            )
            raise ParameterError(
                Problem("unknown_detector", repr(given), expected, remedy, record=where, key="weights")
            )
        return known[name]
    return locate_weights(given, base, root, expected=SUPPORTED, where=where)


def _kind(path: Path, model: Model) -> str:
    suffix = path.suffix.lower()
    if path.is_file() and suffix in {".pt", ".pth", ".onnx"}:
        return suffix[1:]
    folder = path if path.is_dir() else path.parent
    graphs = sorted(folder.glob("*.xml")) if path.is_dir() else [path] if suffix == ".xml" else []
    if len(graphs) == 1 and graphs[0].with_suffix(".bin").exists():
        return "openvino"
    found = f"a folder with {len(graphs)} .xml files" if path.is_dir() else f"a file ending in {suffix or 'nothing'}"
    if len(graphs) == 1:
        found = "an .xml without the .bin beside it"
    remedy = "export the model to ONNX with the library that trained it"
    raise DataError(
        Problem(
            "unknown_weights", found, SUPPORTED, remedy, file=str(path), record=f"model {model.name}", key="weights"
        )
    )


def hash_weights(path: Path) -> str:
    """sha256 of a file; of a folder, the sha256 of the lines ``<sha256>  <relative path>`` of its files in order of path."""
    if path.is_file():
        return hash_file(path)
    return hash_listed([p for p in path.rglob("*") if p.is_file()], path)


def hash_listed(files: list[Path], folder: Path) -> str:
    """sha256 of the lines ``<sha256>  <path relative to folder>`` of files, in order of path."""
    ordered = sorted(files, key=lambda p: p.relative_to(folder).as_posix())
    lines = "".join(f"{hash_file(p)}  {p.relative_to(folder).as_posix()}\n" for p in ordered)
    return hashlib.sha256(lines.encode()).hexdigest()


def read_metadata(path: Path, kind: str) -> dict[str, Any]:
    """What an export says of itself (``names``, ``stride``, ``task`` for those of ultralytics); empty where it says nothing.

    Raises:
        DataError: the file cannot be read as what its name says.
    """
    if kind == "openvino":
        sidecar = path / "metadata.yaml"
        if not sidecar.exists():
            return {}
        try:
            said = yaml.safe_load(sidecar.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise DataError(Problem("bad_metadata", str(error).splitlines()[0], "YAML", file=str(sidecar))) from error
        return said if isinstance(said, dict) else {}
    if kind == "onnx":
        return _onnx_metadata(path)
    return {}


def _onnx_metadata(path: Path) -> dict[str, Any]:
    proto = _onnx_proto(path)
    said: dict[str, Any] = {entry.key: entry.value for entry in proto.metadata_props}
    operators = {node.op_type for node in proto.graph.node}
    said["_int8"] = bool(operators & {"QuantizeLinear", "QLinearConv", "ConvInteger"})
    return said


def _onnx_proto(path: Path) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise missing_package("onnx", "to read .onnx files") from error
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise DataError(
            Problem(
                "bad_onnx",
                "bytes that are not an ONNX model",
                "an ONNX model",
                "export or copy it again",
                file=str(path),
            )
        ) from error
    if not proto.graph.node:
        raise DataError(
            Problem("bad_onnx", "an empty ONNX model", "an ONNX model", "export or copy it again", file=str(path))
        )
    return proto


def external_files(path: Path) -> list[Path]:
    """Files beside an ONNX model that hold its tensors, in order of name; empty for a model in one file.

    Raises:
        DataError: a tensor lies outside the model's folder, or its file is not there.
    """
    from onnx import TensorProto

    proto = _onnx_proto(path)
    tensors = [t for t in _tensors(proto) if t.data_location == TensorProto.EXTERNAL]
    names = sorted({entry.value for t in tensors for entry in t.external_data if entry.key == "location"})
    problems = []
    for name in names:
        expected = "tensors inside the model's file or in files of its folder"
        outside = "\\" in name or ":" in name or name.startswith("/") or ".." in name.split("/")
        if outside or not (path.parent / name).is_file():
            found = f"tensors in {name!r}, " + ("outside the model's folder" if outside else "which is not there")
            remedy = "save the model as one file" if outside else "put the file beside the model"
            problems.append(Problem("external_data", found, expected, remedy, file=str(path), key="weights"))
    if problems:
        raise DataError(problems)
    return [path.parent / name for name in names]


def _tensors(message: Any) -> Iterator[Any]:
    """Every tensor of an ONNX message, those in nodes, subgraphs and functions included."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if isinstance(value, Sequence) or hasattr(value, "add") else [value]:
            if field.message_type.name == "TensorProto":
                yield part
            else:
                yield from _tensors(part)


def _adapter(model: Model, path: Path, kind: str, metadata: dict[str, Any]) -> str:
    where = f"model {model.name}"
    runs = {"yolox": ("onnx",), "torchvision": ("pt", "pth"), "ultralytics": ("pt", "onnx", "openvino")}
    if model.adapter != "auto":
        if kind not in runs[model.adapter]:
            expected = {"yolox": "an .onnx file", "torchvision": "a .pt or .pth file"}.get(model.adapter, "a .pt file")
            expected += f" for the {model.adapter} adapter"
            found = f"{model.adapter} for {path.name}"
            raise ParameterError(Problem("wrong_adapter", found, expected, record=where, key="adapter"))
        return model.adapter
    if kind in ("pt", "pth"):
        return "torchvision" if kind == "pth" or holds_tensors_only(path) else "ultralytics"
    if {"names", "stride"} <= set(metadata):
        return "ultralytics"
    if kind == "onnx":
        return "yolox"
    expected = "an export of ultralytics, with its metadata.yaml"
    raise DataError(
        Problem(
            "no_metadata",
            "an OpenVINO folder without names and stride",
            expected,
            file=str(path),
            record=where,
            key="weights",
        )
    )


def versions(*packages: str) -> list[str]:
    """Installed versions of packages, without importing them; an empty text for one that is not installed."""
    found = []
    for package in packages:
        try:
            found.append(importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            found.append("")
    return found


def missing_package(package: str, why: str) -> ParameterError:
    """The error for a package of the ``infer`` extra that is not installed."""
    return ParameterError(
        Problem(
            "missing_package",
            f"no package {package}",
            f"it is needed {why}",
            'install it with: pip install "birdlab[infer]"',
        )
    )
