"""What can be told about a detector from its files, without running it and without unpickling anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from birdlab.kinds import Listing, openvino_folders, suffix_of


@dataclass(frozen=True)
class Weights:
    """A detector that can be run."""

    path: str
    kind: str  #: ultralytics, ONNX or OpenVINO
    files: tuple[str, ...]
    imgsz: int | None = None
    names: tuple[str, ...] = ()


def find_weights(listing: Listing) -> list[Weights]:
    """Detectors in a folder, with input size and class names where the files state them; nothing is run or unpickled."""
    found = []
    folders = openvino_folders(listing)
    for folder in folders:
        files = tuple(
            p for p in listing.files if p.rpartition("/")[0] == folder and suffix_of(p) in (".xml", ".bin", ".yaml")
        )
        imgsz, names = _openvino_about(listing.root / folder / "metadata.yaml")
        found.append(Weights(folder or ".", "OpenVINO", files, imgsz, names))
    for path in listing.with_suffix({".onnx"}):
        imgsz, names = _onnx_about(listing.root / path)
        found.append(Weights(path, "ONNX", (path,), imgsz, names))
    found += [Weights(path, "ultralytics", (path,)) for path in listing.with_suffix({".pt"})]
    return found


def _openvino_about(path: Path) -> tuple[int | None, tuple[str, ...]]:
    try:
        about = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None, ()
    return (_longer(about.get("imgsz")), _names(about.get("names"))) if isinstance(about, dict) else (None, ())


def _onnx_about(path: Path) -> tuple[int | None, tuple[str, ...]]:
    """Input size and class names of an ONNX file, as far as it states them and the library to read it is there."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        return None, ()
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (OSError, DecodeError):
        return None, ()
    about = {entry.key: entry.value for entry in model.metadata_props}
    shape = [d.dim_value for i in model.graph.input[:1] for d in i.type.tensor_type.shape.dim]
    return _longer(shape[2:]) or _longer(_literal(about.get("imgsz"))), _names(_literal(about.get("names")))


def _literal(text: str | None) -> Any:
    try:
        return ast.literal_eval(text) if text else None
    except (ValueError, SyntaxError):
        return None


def _longer(value: Any) -> int | None:
    sizes = [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, int) and v >= 32]
    return max(sizes) if sizes else None


def _names(value: Any) -> tuple[str, ...]:
    return tuple(
        str(v) for v in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    )
