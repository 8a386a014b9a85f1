"""Networks of torchvision (BSD-3-Clause) and their weights on disk, for training and for inference.

A weights file is ``torch.save({"birdlab": {…}, "state_dict": …})``: ``birdlab`` is plain JSON, ``state_dict`` holds
tensors only, so that torch's restricted reader (``weights_only=True``) loads it and nothing in it can run.

    {"library": "torchvision", "architecture": "maskrcnn_resnet50_fpn", "names": ["bird"], "imgsz": [640, 640],
     "settings": {}}

``names`` are the classes in the order of the network's labels 1, 2, … (0 is the background), ``imgsz`` is [min_size,
max_size] of the network's own resizing, ``settings`` are arguments of the builder. Other keys are kept as they are.
"""

from __future__ import annotations

import difflib
import inspect
import io
import json
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.shards import write_atomic

#: Builders of ``torchvision.models.detection`` that give boxes, or boxes and masks.
ARCHITECTURES = (
    "fasterrcnn_resnet50_fpn",
    "fasterrcnn_resnet50_fpn_v2",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "maskrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2",
    "retinanet_resnet50_fpn",
    "retinanet_resnet50_fpn_v2",
    "fcos_resnet50_fpn",
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
)
#: Arguments of builders that are set here, or that are no plain data.
_TAKEN = {
    "weights",
    "weights_backbone",
    "num_classes",
    "progress",
    "kwargs",
    "min_size",
    "max_size",
    "size",
    "backbone",
}
#: What the network's own class takes beyond its builder: numbers and lists of numbers, by the start of the name.
_PLAIN = ("rpn_", "box_", "image_mean", "image_std", "score_thresh", "nms_thresh", "topk_candidates", "fg_iou_thresh")
_PLAIN += ("bg_iou_thresh", "detections_per_img", "iou_thresh", "positive_fraction", "center_sampling_radius")
#: First eight digits of the sha256 of COCO weights that torchvision runs with epsilon 0 in their batch norms.
_EPSILON_ZERO = ("258fb6c6", "bf2d0c1e", "eeacb38b")
_LOAD_ERRORS = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    AttributeError,
    TypeError,
    ValueError,
    KeyError,
    OSError,
)


@dataclass(frozen=True)
class Spec:
    """What a weights file says of its network.

    Args:
        architecture: one of :data:`ARCHITECTURES`.
        names: classes of the network's labels 1, 2, …; ``None`` for a label that is no class.
        imgsz: (min_size, max_size) it was trained at, px; ``None`` where that is not known.
        settings: arguments of the builder, plain JSON.
        more: whatever else the file says, plain JSON.
    """

    architecture: str
    names: list[str | None]
    imgsz: tuple[int, int] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The ``birdlab`` part of a weights file."""
        said = {"library": "torchvision", "architecture": self.architecture, "names": list(self.names)}
        return {**self.more, **said, "imgsz": list(self.imgsz) if self.imgsz else None, "settings": self.settings}


def build_network(
    architecture: str,
    n_classes: int,
    *,
    imgsz: tuple[int, int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """A network with random weights (torch's generator decides which); nothing is downloaded.

    Args:
        architecture: one of :data:`ARCHITECTURES`.
        n_classes: classes without the background.
        imgsz: (min_size, max_size) of the network's own resizing, px; not used by SSD, whose input is fixed.
        settings: further arguments of the builder: numbers, truth values, lists of numbers.

    Returns:
        The ``torch.nn.Module``, in training mode.

    Raises:
        ParameterError: no such architecture or setting, or torchvision is not installed.
    """
    problems = check_architecture(architecture)
    if problems:
        raise ParameterError(problems)
    builder = _builder(architecture)
    given = dict(settings or {})
    problems = _check_settings(given, builder)
    if problems:
        raise ParameterError(problems)
    if imgsz is not None and not is_fixed(architecture):
        given |= {"min_size": int(imgsz[0]), "max_size": int(imgsz[1])}
    with warnings.catch_warnings():
        # Without pretrained layers every layer is trained; the library says so each time.
        warnings.simplefilter("ignore", UserWarning)
        try:
            return builder(weights=None, weights_backbone=None, num_classes=n_classes + 1, **given)
        except (TypeError, ValueError) as error:
            found = f"settings that {architecture} does not take: {_first_line(error)}"
            raise ParameterError(Problem("bad_setting", found, "arguments of its builder", key="settings")) from error


def is_fixed(architecture: str) -> bool:
    """Whether the network has one input size, to which every frame is stretched.

    >>> is_fixed("ssd300_vgg16"), is_fixed("fcos_resnet50_fpn")
    (True, False)
    """
    return architecture.startswith("ssd")


def check_architecture(architecture: str, *, where: str | None = None) -> list[Problem]:
    """The problem with a name that is none of :data:`ARCHITECTURES`, with the nearest one.

    >>> check_architecture("maskrcnn_resnet_fpn")[0].remedy
    'did you mean maskrcnn_resnet50_fpn?'
    """
    if architecture in ARCHITECTURES:
        return []
    near = difflib.get_close_matches(architecture, ARCHITECTURES, n=1)
    remedy = f"did you mean {near[0]}?" if near else ""
    expected = "one of " + ", ".join(ARCHITECTURES)
    return [Problem("unknown_architecture", repr(architecture), expected, remedy, record=where, key="architecture")]


def save_weights(path: Path, network: Any, spec: Spec) -> None:
    """Write a weights file, whole or not at all; the same tensors and spec give the same bytes.

    Args:
        path: file to write, ending in ``.pt``.
        network: network of :func:`build_network`, or its state dict.
        spec: what to say of it.

    Raises:
        OSError: the file cannot be written.
    """
    import torch

    tensors = network if isinstance(network, Mapping) else network.state_dict()
    kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    said = json.loads(json.dumps(spec.as_json()))
    # Into memory first: written to a file, torch puts the file's name into the archive.
    buffer = io.BytesIO()
    torch.save({"birdlab": said, "state_dict": kept}, buffer)
    write_atomic(path, lambda temporary: temporary.write_bytes(buffer.getvalue()))


def load_network(
    path: Path, *, architecture: str | None = None, names: list[str] | None = None, sha256: str = ""
) -> tuple[Any, Spec]:
    """A network with the weights of a file, in evaluation mode on the CPU.

    Args:
        path: weights file as :func:`save_weights` writes it, or a bare state dict (``.pth``).
        architecture: of a bare state dict; must agree with what a weights file says.
        names: classes of a bare state dict without the background; 91 outputs without names have those of COCO.
        sha256: hash of the file, by which COCO weights of torchvision's that need epsilon 0 are known.

    Raises:
        DataError: the file needs more than tensors and plain data, says too little or something that cannot be, or its
            tensors do not fit the network.
    """
    tensors, said = read_weights(path)
    spec = _spec_said(path, said, architecture) if said is not None else _spec_given(path, tensors, architecture, names)
    try:
        network = build_network(spec.architecture, len(spec.names), settings=spec.settings)
    except ParameterError as error:
        raise DataError([_problem(path, p.code, p.found, p.expected, p.remedy) for p in error.problems]) from error
    problems = misfits(path, network, tensors)
    if problems:
        raise DataError(problems)
    network.load_state_dict(tensors, strict=False)
    if sha256.startswith(_EPSILON_ZERO):
        _set_epsilon(network, 0.0)
    return network.eval(), spec


def read_weights(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Tensors of a file by name, and what it says of them (``None`` for a bare state dict); nothing in it is run.

    Raises:
        DataError: the file cannot be read, or is a pickle that needs more than tensors and plain data.
    """
    import torch

    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except _LOAD_ERRORS as error:
        raise DataError(_refused(path, error)) from error
    said = None
    if isinstance(held, dict) and "birdlab" in held:
        said, held = held["birdlab"], held.get("state_dict")
        if not _is_plain(said) or not isinstance(said, dict):
            raise DataError(_problem(path, "bad_checkpoint", "a birdlab part that is no plain mapping", _FORMAT))
    elif isinstance(held, dict) and isinstance(held.get("model"), dict):
        held = held["model"]  # as torchvision's own training scripts save it
    if not isinstance(held, dict) or not held or not all(isinstance(k, str) for k in held):
        raise DataError(_problem(path, "no_weights", f"a {type(held).__name__} that is no state dict", _FORMAT))
    foreign = [name for name, value in held.items() if not isinstance(value, torch.Tensor)]
    if foreign:
        found = f"{len(foreign)} entries that are no tensors, first {foreign[0]!r}"
        raise DataError(_problem(path, "no_weights", found, _FORMAT))
    return dict(held), said


_FORMAT = "a state dict of tensors, alone or beside a birdlab part"


def misfits(path: Path, network: Any, tensors: Mapping[str, Any]) -> list[Problem]:
    """What keeps tensors from being the weights of a network: names that are missing or too many, shapes that differ.

    Counters of batch norms (``num_batches_tracked``) may be missing: weights trained with frozen ones have none, and
    in evaluation both are the same.
    """
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    missing = [n for n in wanted if n not in found and not n.endswith("num_batches_tracked")]
    extra = [n for n in found if n not in wanted]
    differ = [n for n in found if n in wanted and found[n] != wanted[n]]
    problems = []
    for names, what, expected in ((missing, "without", "all of the network's"), (extra, "with", "only the network's")):
        if names:
            text = f"weights {what} {len(names)} tensors, first {names[0]}"
            remedy = "check the architecture"
            problems.append(_problem(path, "wrong_architecture", text, f"{expected} tensors", remedy))
    if differ:
        first = differ[0]
        text = f"{len(differ)} tensors of another shape, first {first} with {found[first]}"
        remedy = "check the architecture and the number of class names"
        problems.append(_problem(path, "wrong_architecture", text, f"shape {wanted[first]}", remedy))
    return problems


def _spec_said(path: Path, said: dict[str, Any], architecture: str | None) -> Spec:
    problems = []
    library, own = said.get("library"), said.get("architecture")
    names, imgsz, settings = said.get("names"), said.get("imgsz"), said.get("settings") or {}
    if library != "torchvision":
        problems.append(_problem(path, "wrong_library", f"library {library!r}", "torchvision"))
    if not isinstance(own, str):
        problems.append(_problem(path, "bad_checkpoint", f"architecture {own!r}", "the name of a builder"))
    elif architecture not in (None, own):
        remedy = "leave architecture out: the file says it"
        problems.append(_problem(path, "wrong_architecture", f"weights of {own}", architecture or "", remedy))
    if not (isinstance(names, list) and names and all(isinstance(n, str) and n for n in names)):
        problems.append(_problem(path, "wrong_names", f"names {names!r:.80}", "a list of class names"))
    sizes = isinstance(imgsz, list | tuple) and len(imgsz) == 2 and all(type(v) is int and v > 0 for v in imgsz)
    if imgsz is not None and not sizes:
        problems.append(_problem(path, "bad_checkpoint", f"imgsz {imgsz!r:.80}", "[min_size, max_size] in px"))
    if not isinstance(settings, dict):
        problems.append(_problem(path, "bad_checkpoint", f"settings {settings!r:.80}", "a mapping"))
    if problems:
        raise DataError(problems)
    more = {k: v for k, v in said.items() if k not in ("library", "architecture", "names", "imgsz", "settings")}
    return Spec(own, names, tuple(imgsz) if imgsz else None, settings, more)


def _spec_given(path: Path, tensors: dict[str, Any], architecture: str | None, names: list[str] | None) -> Spec:
    if architecture is None:
        remedy = f"add architecture: NAME to the model, one of {', '.join(ARCHITECTURES)}"
        found = "a bare state dict, which does not say which network it is for"
        raise DataError(_problem(path, "no_architecture", found, "the recipe's key architecture", remedy))
    problems = check_architecture(architecture)
    if problems:
        raise ParameterError(problems)
    if names is not None:
        named = names[1:] if names and names[0] == "__background__" else names
        return Spec(architecture, list(named))
    from torchvision.models._meta import _COCO_CATEGORIES

    coco = [None if name == "N/A" else name for name in _COCO_CATEGORIES[1:]]
    if misfits(path, build_network(architecture, len(coco)), tensors):
        found = f"a bare state dict without class names, not that of {architecture} with COCO's 91 outputs"
        remedy = f"write them into {path.with_suffix('.txt').name} beside the weights, one a line, without background"
        raise DataError(_problem(path, "no_names", found, "class names", remedy))
    return Spec(architecture, coco)


def _builder(architecture: str) -> Any:
    try:
        from torchvision.models import detection
    except ImportError as error:
        from birdlab.inference.weights import missing_package

        raise missing_package(error.name or "torchvision", "to run these weights") from error
    return getattr(detection, architecture)


def _check_settings(given: dict[str, Any], builder: Any) -> list[Problem]:
    allowed = set(inspect.signature(builder).parameters) - _TAKEN
    problems = []
    for name, value in given.items():
        if not (name in allowed or (name.startswith(_PLAIN) and name not in _TAKEN)):
            near = difflib.get_close_matches(name, sorted(allowed), n=1)
            remedy = f"did you mean {near[0]}?" if near else ""
            problems.append(
                Problem("unknown_setting", repr(name), "an argument of the builder", remedy, key="settings")
            )
        elif not _is_numbers(value):
            found = f"{value!r:.80}"
            problems.append(Problem("bad_setting", found, "a number, or a list of numbers", key=f"settings.{name}"))
    return problems


def _is_numbers(value: Any) -> bool:
    each = value if isinstance(value, list | tuple) else [value]
    return all(v is None or isinstance(v, bool | int | float) for v in each)


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _refused(path: Path, error: Exception) -> Problem:
    import torch

    try:
        foreign = sorted(set(torch.serialization.get_unsafe_globals_in_checkpoint(path)))
    except _LOAD_ERRORS:
        foreign = []
    # Files of torch before 1.6 are bare pickles.
    old = isinstance(error, pickle.UnpicklingError) and not foreign and _starts_as_pickle(path)
    if not foreign and not old:
        return _problem(path, "bad_checkpoint", _first_line(error)[:200], "weights as torch.save writes them")
    found = f"a pickle that would use {', '.join(foreign)}" if foreign else "a pickle that needs more than that"
    remedy = "save the state dict alone: torch.save(model.state_dict(), PATH)"
    return _problem(path, "untrusted_pickle", found, "tensors and plain data", remedy)


def _starts_as_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == pickle.PROTO


def _set_epsilon(network: Any, value: float) -> None:
    import torch

    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = value


def _problem(path: Path, code: str, found: str, expected: str, remedy: str = "") -> Problem:
    return Problem(code, found, expected, remedy, file=str(path))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
