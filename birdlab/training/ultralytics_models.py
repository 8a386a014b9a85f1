"""Networks of ultralytics for training: descriptions that are safe to build, weights to start from, and the file kept."""

from __future__ import annotations

import copy
import difflib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.checkpoint import load_checkpoint
from birdlab.recipe.training import Trained
from birdlab.shards import write_atomic

#: Last layers, and the task each is for.
HEADS = {"detect": ("Detect", "v10Detect"), "segment": ("Segment", "Segment26")}
#: A layer that fetches weights when it is built.
_FETCHES = ("TorchVision",)
_ACTIVATION = re.compile(r"(torch\.)?nn\.[A-Za-z0-9]+\([\w\s=.,-]*\)")


def find_description(spec: Trained, base: Path) -> Path:
    """The ``.yaml`` that a model's ``architecture`` names: a file, or one that comes with ultralytics.

    Args:
        spec: the model.
        base: folder that relative paths start from.

    Raises:
        ParameterError: there is none of that name; the nearest one is named.
    """
    where = {"record": f"model {spec.name}", "key": "architecture"}
    given = Path(spec.architecture).expanduser()
    path = given if given.is_absolute() else base / given
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    package = importlib.util.find_spec("ultralytics")
    folder = Path(next(iter(package.submodule_search_locations or [""]))) if package else Path()
    own = {p.name: p for p in sorted((folder / "cfg" / "models").rglob("*.yaml"))}
    # yolov8n.yaml is yolov8.yaml at scale n.
    plain = re.sub(r"(\d+)([nslmx])(.+)?$", r"\1\3", given.stem) + given.suffix
    if len(given.parts) == 1 and plain in own:
        return own[plain].with_name(given.name)
    near = difflib.get_close_matches(given.name, [*own, *(n.replace(".yaml", "n.yaml") for n in own)], n=1)
    remedy = f"did you mean {near[0]}?" if near else "give the path of a .yaml, or a name such as yolov8n.yaml"
    found = f"{spec.architecture!r}, which is no file"
    raise ParameterError(Problem("unknown_architecture", found, "a .yaml of ultralytics", remedy, **where))


def read_description(spec: Trained, base: Path) -> dict[str, Any]:
    """A network's description, checked: it runs no code, fetches nothing and ends in the head of the model's task.

    Raises:
        ParameterError: it does; all that is wrong at once.
    """
    import yaml

    path = find_description(spec, base)
    file = path if path.exists() else path.with_name(re.sub(r"(\d+)([nslmx])(.+)?$", r"\1\3", path.stem) + path.suffix)
    where = {"record": f"model {spec.name}", "key": "architecture"}
    try:
        held = yaml.safe_load(file.read_text(encoding="utf-8"))
        layers = [*held["backbone"], *held["head"]]
        kinds = [str(layer[2]) for layer in layers]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, IndexError) as error:
        expected = "a description with backbone and head, as ultralytics has them"
        first = (str(error).splitlines() or [""])[0]
        raise ParameterError(Problem("bad_architecture", f"{path.name} ({first})", expected, **where)) from error
    problems = [
        Problem("fetching_layer", f"layer {k}, which downloads weights", "layers that are built here", **where)
        for k in kinds
        if k.rsplit(".", 1)[-1] in _FETCHES
    ]
    act = held.get("activation")
    if act is not None and not _ACTIVATION.fullmatch(str(act).strip()):
        problems.append(Problem("bad_activation", repr(act), "a layer of torch.nn, such as nn.SiLU()", **where))
    if kinds[-1] not in HEADS[spec.task]:
        expected = f"{' or '.join(HEADS[spec.task])}, for task {spec.task}"
        problems.append(Problem("wrong_task", f"last layer {kinds[-1]}", expected, **where))
    if problems:
        raise ParameterError(problems)
    scale = re.search(r"yolo(?:e-)?v?\d+([nslmx])", path.stem)
    held["scale"] = scale[1] if scale else ""
    return held


def build(spec: Trained, base: Path) -> Any:
    """A network of one class with random weights, as its description has it.

    Raises:
        ParameterError: see :func:`read_description`.
    """
    from ultralytics.nn.tasks import DetectionModel, SegmentationModel

    kind = SegmentationModel if spec.task == "segment" else DetectionModel
    return kind(read_description(spec, base), nc=1, verbose=False)


def start_weights(path: Path, spec: Trained) -> Any:
    """The network in a checkpoint to start from, loaded through the list of what may be loaded.

    Raises:
        DataError: not a checkpoint, not safe to load, or made for another task.
    """
    held = load_checkpoint(path)
    network = (held.get("ema") or held["model"]).float()
    head = type(network.model[-1]).__name__
    if head not in HEADS[spec.task]:
        raise DataError(
            Problem("wrong_task", f"a network that ends in {head}", f"one for task {spec.task}", file=str(path))
        )
    return network


def taken_over(network: Any, start: Any, path: Path) -> str:
    """How many tensors of a network came from the one it starts from, in a sentence.

    Raises:
        DataError: not even half of them, so that it would be trained from random weights under another name.
    """
    given, own = start.state_dict(), network.state_dict()
    fits = [k for k, v in own.items() if k in given and given[k].shape == v.shape]
    if 2 * len(fits) < len(own):
        found = f"weights of which {len(fits)} of {len(own)} tensors fit"
        raise DataError(Problem("bad_weights", found, "weights of the same architecture", file=str(path)))
    rest = f"; the other {len(own) - len(fits)} start at random" if len(fits) < len(own) else ""
    return f"{len(fits)} tensors start from {path.name}{rest}"


def save_weights(
    path: Path, network: Any, state: dict[str, Any], spec: Trained, names: tuple[str, ...]
) -> dict[str, Any]:
    """Write weights for inference in half precision: network, names, task and imgsz; no path, date or optimiser.

    Args:
        path: ``best.pt``.
        network: a network of the right structure; it is not changed.
        state: tensors to write.
        spec: the model.
        names: class names in order.

    Returns:
        The tensors as written.
    """
    import torch

    kept = copy.deepcopy(network).cpu()
    kept.load_state_dict(state)
    description = {k: v for k, v in kept.yaml.items() if k != "yaml_file"} | {"nc": len(names)}
    for name in [n for n in vars(kept) if n in ("criterion", "pt_path", "yaml_file", "loss", "args", "class_weights")]:
        delattr(kept, name)
    args = {"task": spec.task, "imgsz": spec.imgsz}
    vars(kept).update({"yaml": description, "args": args, "names": dict(enumerate(names)), "task": spec.task})
    kept.half().eval().requires_grad_(False)
    # Into memory first: written to a file, torch puts the file's name into the archive.
    buffer = io.BytesIO()
    torch.save({"model": kept, "train_args": args}, buffer)
    write_atomic(path, lambda temporary: temporary.write_bytes(buffer.getvalue()))
    return kept.state_dict()
