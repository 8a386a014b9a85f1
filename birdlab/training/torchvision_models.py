"""Networks of torchvision for training: which can be trained, weights to start from, and all they find in a frame."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.detector import Boxes, finish
from birdlab.inference.masks import pasted_rle
from birdlab.inference.torchvision_adapter import set_limits
from birdlab.inference.torchvision_models import Spec, build_network, read_weights
from birdlab.readers.pixels import Picture
from birdlab.recipe import Model
from birdlab.recipe.training import Trained

#: Builders of ``torchvision.models.detection`` that can be trained, and the task each is for.
ARCHITECTURES = {
    "fasterrcnn_resnet50_fpn": "detect",
    "fasterrcnn_resnet50_fpn_v2": "detect",
    "fasterrcnn_mobilenet_v3_large_fpn": "detect",
    "fasterrcnn_mobilenet_v3_large_320_fpn": "detect",
    "maskrcnn_resnet50_fpn": "segment",
    "maskrcnn_resnet50_fpn_v2": "segment",
}


def check_architecture(spec: Trained) -> None:
    """Refuse an architecture that cannot be trained here or is made for another task.

    Raises:
        ParameterError: naming the nearest one.
    """
    known = [name for name, task in ARCHITECTURES.items() if task == spec.task]
    if spec.architecture in known:
        return
    near = difflib.get_close_matches(spec.architecture, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else ""
    other = ARCHITECTURES.get(spec.architecture)
    found = repr(spec.architecture) + (f", which is for task {other}" if other else "")
    expected = f"for task {spec.task} one of {', '.join(known)}"
    where = f"model {spec.name}"
    raise ParameterError(Problem("unknown_architecture", found, expected, remedy, record=where, key="architecture"))


def describe(spec: Trained, names: tuple[str, ...]) -> Spec:
    """What a file of weights says of its network; ``names`` are the classes without the background, in order."""
    return Spec(spec.architecture, list(names), (spec.imgsz, spec.imgsz), more={"task": spec.task})


def build(spec: Trained, n_classes: int) -> Any:
    """A network with random weights that makes the longer side of a frame ``imgsz``; nothing is downloaded.

    Asked for boxes, it has the limits of an inference model that a recipe says nothing about: scores above 0.001,
    suppression at an overlap of 0.7, at most 300 boxes.
    """
    network = build_network(spec.architecture, n_classes, imgsz=(spec.imgsz, spec.imgsz))
    usual = Model(name="usual", weights="usual.pt")
    set_limits(network, conf=usual.conf, iou=usual.iou, max_det=usual.max_det)
    return network


def start_from(network: Any, path: Path) -> tuple[int, list[str]]:
    """Take over from a file every tensor whose name and shape fit.

    Args:
        network: a network of :func:`build`.
        path: a file of weights, a bare state dict, or that of the classifier whose body the backbone is; nothing in it is
            run.

    Returns:
        How many tensors were taken, and the names of those of the network that were not in the file or had another
        shape (the heads, when the number of classes differs).

    Raises:
        DataError: the file is no such thing, or does not hold all of the backbone's body.
    """
    given, _ = read_weights(path)
    if not any(name.startswith("backbone.") for name in given):
        given = {f"backbone.body.{name.removeprefix('features.')}": value for name, value in given.items()}
    own = network.state_dict()
    fits = {k: given[k] for k, v in own.items() if k in given and given[k].shape == v.shape}
    left = [k for k in own if k not in fits and not k.endswith("num_batches_tracked")]
    body = [k for k in left if k.startswith("backbone.body.")]
    if body:
        found = f"weights without {len(body)} tensors of the backbone's body, first {body[0]}"
        raise DataError(Problem("bad_weights", found, "weights of the same architecture", file=str(path)))
    network.load_state_dict(fits, strict=False)
    return len(fits), left


def to_input(picture: Picture, device: str) -> Any:
    """BGR uint8 of shape (H, W, 3) as RGB float32 of shape (3, H, W) in [0, 1] on the device."""
    import torch

    rgb = np.ascontiguousarray(picture[:, :, ::-1].transpose(2, 0, 1))
    return torch.from_numpy(rgb).to(device).float().div_(255)


def detect(network: Any, picture: Picture, *, device: str, masks: bool) -> Boxes:
    """All that a network of :func:`build` finds in one frame, in frame pixels.

    Masks are drawn one after the other from their grids, so that a large frame with many detections needs the memory of
    one mask.

    Args:
        network: in ``eval`` mode, on the device.
        picture: BGR uint8, (H, W, 3).
        device: as torch writes it.
        masks: whether to draw the masks of a Mask R-CNN.
    """
    import torch
    from torchvision.models.detection.transform import resize_boxes

    with torch.inference_mode():
        image = to_input(picture, device)
        batch, _ = network.transform([image])
        features = network.backbone(batch.tensors)
        features = {"0": features} if isinstance(features, torch.Tensor) else features
        proposals, _ = network.rpn(batch, features)
        found = network.roi_heads(features, proposals, batch.image_sizes)[0][0]
        scaled = resize_boxes(found["boxes"], batch.image_sizes[0], list(image.shape[-2:]))
    xyxy, scores, labels = (t.cpu().numpy() for t in (scaled, found["scores"], found["labels"]))
    boxes, kept = finish(xyxy, scores, labels - 1, picture.shape)
    if not masks:
        return boxes
    grids, whole = found["masks"][:, 0].cpu().numpy(), xyxy.astype(np.float64)
    drawn = [pasted_rle(grids[i], box, whole[i], picture.shape[:2]) for i, box in zip(kept, boxes.xywh, strict=True)]
    return Boxes(boxes.xywh, boxes.scores, boxes.classes, drawn, boxes.n_dropped)
