"""Reading a ``.pt`` checkpoint without running what is hidden in it.

A checkpoint is a pickle, and a pickle can call any function while it is read. Here the pickle is first read as text:
every class or function it names, and every one it calls. Only known layers and plain data may be named, only a short
list may be called; torch's own restricted reader then loads it. Anything else is refused by name.
"""

from __future__ import annotations

import enum
import importlib
import pathlib
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem

#: Modules whose classes are layers or whole networks, and modules whose classes hold losses and assigners.
_LAYERS = ("torch.nn.modules", "torch.nn", "ultralytics.nn.modules", "ultralytics.nn.tasks", "torch.nn.parameter")
_HELPERS = ("ultralytics.utils.loss", "ultralytics.utils.tal")
#: Old names of things that have moved or that depend on the system the checkpoint was written on.
_MOVED = {
    "ultralytics.nn.modules.block.Silence": "torch.nn.modules.linear.Identity",
    "ultralytics.nn.tasks.YOLOv10DetectionModel": "ultralytics.nn.tasks.DetectionModel",
    "ultralytics.utils.loss.v10DetectLoss": "ultralytics.utils.loss.E2EDetectLoss",
    "ultralytics.yolo.utils.IterableSimpleNamespace": "ultralytics.utils.IterableSimpleNamespace",
}
_LOAD_ERRORS = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    AttributeError,
    TypeError,
    ValueError,
    KeyError,
    ImportError,
)
#: What the pickle of a tensor names.
_TENSOR = re.compile(
    r"torch\._utils\._rebuild_\w+|torch\.\w*Storage|torch\.storage\.\w+|torch\.\w*float\w*|torch\.Size"
)
_PATHS = {f"{module}.{kind}" for module in ("pathlib", "pathlib._local") for kind in ("PosixPath", "WindowsPath")}


def import_ultralytics() -> None:
    """Import ultralytics and undo what the import does to the whole process.

    It takes OpenCV's threads away and puts a function of its own in place of Pillow's ``Image.open``, which answers a
    picture that cannot be read with an attempt to install something.
    """
    import cv2
    from PIL import Image

    threads, own = cv2.getNumThreads(), Image.open
    importlib.import_module("ultralytics.utils.patches")
    cv2.setNumThreads(threads)
    Image.open = own


def load_checkpoint(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """The checkpoint as ultralytics saves it: a mapping with the network under ``ema`` or ``model``.

    Args:
        path: file ending in ``.pt``.
        trust: read it as an ordinary pickle, which runs whatever code it holds.

    Raises:
        DataError: not a checkpoint; it names classes or functions beyond the known ones (they are listed); or it holds
            weights without a network.
    """
    import_ultralytics()
    import torch

    names, called = scan(path)
    if trust:
        checkpoint = torch.load(path, map_location="cpu", weights_only=False)
    else:
        safe = _safe_globals(path, names, called)
        try:
            with torch.serialization.safe_globals(safe):
                checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        except _LOAD_ERRORS as error:
            raise DataError(
                _problem(path, "bad_checkpoint", _first_line(error), "an ultralytics checkpoint")
            ) from error
    held = [checkpoint.get(key) for key in ("ema", "model")] if isinstance(checkpoint, dict) else []
    network = next((value for value in held if value is not None), None)
    if not isinstance(network, torch.nn.Module):
        raise DataError(
            _problem(
                path, "no_network", "weights without a network", "an ultralytics checkpoint, saved by its training"
            )
        )
    if checkpoint.get("modelopt") and not trust:
        found = "a quantised network whose restoring runs code"
        raise DataError(_problem(path, "untrusted_pickle", found, "a plain network", _TRUST))
    return checkpoint


_TRUST = "if you know who made the file, set trust: true for this model; it then runs the code inside"


def scan(path: Path) -> tuple[set[str], set[str]]:
    """Names of all classes and functions that a checkpoint's pickle refers to, and of those it calls; runs nothing.

    A call of something that cannot be told from the text is reported as ``?``.

    Raises:
        DataError: the file is no zip archive with a pickle as ``torch.save`` writes it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.namelist()
            if any("/code/" in name for name in inside):
                raise DataError(
                    _problem(
                        path,
                        "torchscript",
                        "a TorchScript archive",
                        "an ultralytics checkpoint",
                        "give the .pt it was exported from",
                    )
                )
            pickles = [name for name in inside if name == "data.pkl" or name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise DataError(
                    _problem(path, "bad_checkpoint", f"{len(pickles)} pickles in the archive", "exactly one, data.pkl")
                )
            return _names(archive.read(pickles[0]))
    except zipfile.BadZipFile as error:
        remedy = "copy the file again, or save an old checkpoint anew with today's torch"
        raise DataError(
            _problem(path, "bad_checkpoint", "not a zip archive", "a checkpoint as torch.save writes it", remedy)
        ) from error
    except (ValueError, pickle.UnpicklingError, IndexError, KeyError) as error:
        raise DataError(
            _problem(
                path,
                "bad_checkpoint",
                f"a damaged pickle ({_first_line(error)})",
                "a checkpoint as torch.save writes it",
            )
        ) from error


def holds_tensors_only(path: Path) -> bool:
    """Whether a checkpoint is tensors by name, without any layer or network; runs and loads nothing.

    False for a file that is no checkpoint.
    """
    try:
        names, _ = scan(path)
    except (DataError, OSError):
        return False
    return all(name == "collections.OrderedDict" or _TENSOR.fullmatch(name) for name in names) and bool(names)


def _names(data: bytes) -> tuple[set[str], set[str]]:
    """Follow the pickle's stack far enough to know what every call calls."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    named: set[str] = set()
    called: set[str] = set()
    mark = object()
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name in {"GLOBAL", "INST"}:
            _pop_to_mark(stack, mark) if name == "INST" else None
            stack.append(_Name(".".join(str(argument).split(" ", 1))))
            named.add(stack[-1])
            called.update({stack[-1]} if name == "INST" else ())
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_Name(f"{module}.{attribute}"))
            named.add(stack[-1])
        elif name in {"REDUCE", "OBJ"}:
            values = _pop_to_mark(stack, mark) if name == "OBJ" else [stack.pop(-2), stack.pop()]
            called.add(values[0] if isinstance(values[0], _Name) else "?")
            stack.append(None)
        elif name in {"PUT", "BINPUT", "LONG_BINPUT"}:
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in {"GET", "BINGET", "LONG_BINGET"}:
            stack.append(memo[argument])
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "MARK":
            stack.append(mark)
        elif name in {"EXT1", "EXT2", "EXT4"}:
            named.add("?")
            stack.append(None)
        else:
            _generic(stack, opcode, argument, mark)
    return {str(n) for n in named}, {str(n) for n in called}


class _Name(str):
    """A dotted name that the pickle resolves, as opposed to a text that it holds."""

    __slots__ = ()


def _pop_to_mark(stack: list[Any], mark: object) -> list[Any]:
    values: list[Any] = []
    while (top := stack.pop()) is not mark:
        values.insert(0, top)
    return values


def _generic(stack: list[Any], opcode: pickletools.OpcodeInfo, argument: Any, mark: object) -> None:
    before = list(opcode.stack_before)
    if pickletools.markobject in before:
        _pop_to_mark(stack, mark)
        before = before[: before.index(pickletools.markobject)]
    kept = (
        stack[-len(before)]
        if before and opcode.name in {"BUILD", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"}
        else argument
    )
    del stack[len(stack) - len(before) :]
    stack.extend(kept if isinstance(kept, (str, _Name)) else None for _ in opcode.stack_after)


def _safe_globals(path: Path, names: set[str], called: set[str]) -> list[Any]:
    """What torch's restricted reader may be given beyond its own list; everything else is refused in one error."""
    import torch

    beyond = set(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    callables, data = _callables(), _data()
    safe: dict[str, Any] = {}
    foreign: set[str] = {name for name in names if name == "?"}
    for name in sorted(names & beyond):
        target = callables.get(name) or data.get(name) or _layer(_MOVED.get(name, name))
        if target is None or (name in called and name not in callables):
            foreign.add(name)
        else:
            safe[name] = target
    foreign.update(name for name in called if name == "?" or (name in beyond and name not in callables))
    if foreign:
        old = any(name.startswith(("models.", "utils.")) for name in foreign)
        remedy = "a YOLOv5 checkpoint of its own repository: export it to ONNX there" if old else _TRUST
        found = f"a pickle that would use {', '.join(sorted(foreign))}"
        raise DataError(
            _problem(path, "untrusted_pickle", found, "known layers of torch and ultralytics, and plain data", remedy)
        )
    extra: list[Any] = [(target, name) for name, target in safe.items()]
    if "numpy.dtype" in safe:
        import numpy as np

        # A dtype's own class is made on the fly and named nowhere in the pickle.
        extra.extend(type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "bool"))
    return extra


def _layer(name: str) -> type | None:
    """The class of that dotted name if it is a layer, a network, a loss or an assigner that is defined where it says."""
    import torch

    module, _, attribute = name.rpartition(".")
    if not any(module == room or module.startswith(room + ".") for room in (*_LAYERS, *_HELPERS)):
        return None
    try:
        target = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None
    if not isinstance(target, type):
        return None
    return target if issubclass(target, torch.nn.Module) or target.__module__ in _HELPERS else None


def _callables() -> dict[str, Callable[..., Any]]:
    import numpy as np

    scalar = np.float64(0).__reduce__()[0]
    here = type(pathlib.Path())
    return {
        "builtins.getattr": _method,
        "numpy.core.multiarray.scalar": scalar,
        "numpy._core.multiarray.scalar": scalar,
        "numpy.dtype": np.dtype,
        **dict.fromkeys(_PATHS, here),
    }


def _data() -> dict[str, Any]:
    from ultralytics.utils import IterableSimpleNamespace

    return {
        name: IterableSimpleNamespace
        for name in ("ultralytics.utils.IterableSimpleNamespace", "ultralytics.yolo.utils.IterableSimpleNamespace")
    }


def _method(owner: Any, name: str) -> Any:
    """``getattr`` for a layer's ``forward…`` or a member of an enumeration: all that checkpoints use it for."""
    import torch

    kind = owner if isinstance(owner, type) else type(owner)
    if issubclass(kind, torch.nn.Module) and name.startswith("forward"):
        return getattr(owner, name)
    if isinstance(owner, type) and issubclass(owner, enum.Enum) and name in owner.__members__:
        return owner[name]
    raise pickle.UnpicklingError(f"getattr of {name!r} on {kind.__name__}")


def _problem(path: Path, code: str, found: str, expected: str, remedy: str = "") -> Problem:
    return Problem(code, found, expected, remedy, file=str(path))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
