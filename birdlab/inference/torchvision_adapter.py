"""Detectors and segmenters of torchvision (BSD-3-Clause): Faster and Mask R-CNN, RetinaNet, FCOS, SSD."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference import device as devices
from birdlab.inference.detector import Boxes, PredictError, Prediction, finish
from birdlab.inference.masks import pasted_rle, with_masks
from birdlab.inference.torchvision_models import check_architecture, is_fixed, load_network
from birdlab.inference.weights import Weights, missing_package, versions
from birdlab.recipe import Model

#: Part of the key of finished shards: raise it when the same input would give other boxes.
VERSION = 1
#: What the library raises when it cannot cope with an image.
ERRORS = (ArithmeticError, AssertionError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)


class TorchvisionDetector:
    """A loaded torchvision model; see :class:`birdlab.inference.detector.Detector`.

    Frames go in as RGB from 0 to 1 and are resized by the network itself so that the longer side is ``imgsz`` (SSD: to
    its one input size). Scores must exceed ``conf``; suppression is per class at ``iou``; classes other than ``keep``
    and the background are left out before ``max_det`` counts and before masks are made. The candidates per level that
    the library keeps before suppression are its own number, but never fewer than ``max_det``. The time of the network
    alone begins after resizing and ends before masks are drawn in the frame; suppression is part of it.

    Args:
        model: model section of the recipe.
        weights: where the weights lie.
        device: auto, cpu, cuda, cuda:N or mps.

    Raises:
        DataError: the weights cannot be loaded, are not safe to load, or do not fit their architecture.
        ParameterError: the device is not there, or torchvision is not installed.
    """

    def __init__(self, model: Model, weights: Weights, device: str) -> None:
        devices.prepare_threads()
        self._device = devices.resolve_device(device)
        try:
            import torch
            import torchvision  # noqa: F401
        except ImportError as error:
            raise missing_package(error.name or "torchvision", "to run these weights") from error
        if model.architecture is not None:
            problems = check_architecture(model.architecture, where=f"model {model.name}")
            if problems:
                raise ParameterError(problems)
        network, spec = load_network(
            weights.path, architecture=model.architecture, names=_names_beside(weights), sha256=weights.sha256
        )
        self.remarks: list[str] = []
        self._half = model.half and self._device.kind == "cuda"
        if model.half and not self._half:
            self.remarks.append("half precision was asked for, but it needs CUDA: ran in fp32")
        self.names = {i: name for i, name in enumerate(spec.names, start=1) if name is not None}
        self.keep: list[int] = sorted(self.names)
        self.precision = "fp16" if self._half else "fp32"
        self.imgsz = self._fit_size(network, model, spec.architecture, spec.imgsz)
        threads = devices.torch_threads()
        torch.set_num_threads(threads)
        self.device = devices.device_words(self._device, threads)
        set_limits(network, conf=model.conf, iou=model.iou, max_det=model.max_det)
        self._network = self._prepared(network).to(self._device.name)

    def predict(self, images: list[np.ndarray]) -> Prediction:
        """Detect in BGR uint8 images."""
        import torch

        amp = torch.autocast("cuda", dtype=torch.float16) if self._half else nullcontext()
        try:
            with torch.inference_mode(), amp:
                found = self._network([torch.from_numpy(np.ascontiguousarray(i)).permute(2, 0, 1) for i in images])
                self._wait()
                seconds = time.perf_counter() - self._network.transform.ready_at
            boxes = [self._boxes(one, image.shape) for one, image in zip(found, images, strict=True)]
        except ERRORS as error:
            raise PredictError(f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}") from error
        return Prediction(boxes, seconds)

    def _fit_size(self, network: Any, model: Model, architecture: str, trained: tuple[int, int] | None) -> int:
        if is_fixed(architecture):
            size = max(network.transform.fixed_size)
            if size != model.imgsz:
                self.remarks.append(f"the network's input is fixed at {size} px; imgsz {model.imgsz} was not used")
            return size
        # The longer side decides: with both limits at imgsz the factor is imgsz over the longer side.
        network.transform.min_size, network.transform.max_size = (model.imgsz,), model.imgsz
        if trained is not None and max(trained) != model.imgsz:
            self.remarks.append(f"trained with a longer side of {max(trained)} px; imgsz {model.imgsz} was asked for")
        return model.imgsz

    def _prepared(self, network: Any) -> Any:
        """The network with frames taken as they are, and with only the wanted classes let through to suppression."""
        network.transform = _frame_transform(network.transform, self._device, self._wait)
        if hasattr(network, "roi_heads"):
            heads = network.roi_heads
            own = heads.postprocess_detections
            heads.postprocess_detections = lambda logits, *rest: own(fold(logits, self.keep), *rest)
            return network
        own, probabilities = network.postprocess_detections, type(network).__name__ == "SSD"

        def wanted(outputs: dict[str, Any], *rest: Any) -> Any:
            logits = outputs["cls_logits"]
            kept = fold(logits, self.keep) if probabilities else [silence(level, self.keep) for level in logits]
            return own({**outputs, "cls_logits": kept}, *rest)

        network.postprocess_detections = wanted
        return network

    def _wait(self) -> None:
        import torch

        if self._device.kind == "cuda":
            torch.cuda.synchronize(self._device.index)
        elif self._device.kind == "mps":
            torch.mps.synchronize()

    def _boxes(self, found: dict[str, Any], shape: tuple[int, ...]) -> Boxes:
        xyxy, scores, labels = (found[key].float().cpu().numpy() for key in ("boxes", "scores", "labels"))
        boxes, kept = finish(xyxy, scores, labels, shape)
        if "masks" not in found:
            return boxes
        grids = found["masks"][:, 0].float().cpu().numpy()
        whole = xyxy.astype(np.float64)
        masks = [pasted_rle(grids[i], box, whole[i], shape[:2]) for i, box in zip(kept, boxes.xywh, strict=True)]
        return with_masks(boxes, masks, shape[:2])


def environment(weights: Weights, device: str) -> list[Any]:
    """What, beside weights and settings, can change a box: part of the key of finished shards."""
    names = "\n".join(_names_beside(weights) or [])
    listed = hashlib.sha256(names.encode()).hexdigest() if names else ""
    return [VERSION, devices.resolve_device(device).kind, listed, *versions("torch", "torchvision")]


def set_limits(network: Any, *, conf: float, iou: float, max_det: int) -> None:
    """Set the score threshold, the overlap of suppression and the number of detections of any torchvision detector."""
    if hasattr(network, "roi_heads"):
        heads, rpn = network.roi_heads, network.rpn
        heads.score_thresh, heads.nms_thresh, heads.detections_per_img = conf, iou, max_det
        for limits in (rpn._pre_nms_top_n, rpn._post_nms_top_n):
            limits["testing"] = max(limits["testing"], max_det)
        return
    network.score_thresh, network.nms_thresh, network.detections_per_img = conf, iou, max_det
    network.topk_candidates = max(network.topk_candidates, max_det)


def fold(logits: Any, keep: list[int]) -> Any:
    """Logits whose softmax leaves the kept classes as they were and gives all others' probability to the background.

    Args:
        logits: tensor of shape (…, classes), class 0 the background.
        keep: wanted class indices, from 1.

    >>> import torch
    >>> fold(torch.tensor([0.1, 0.2, 0.3, 0.4]).log(), [2]).exp().round(decimals=4).tolist()
    [0.699999988079071, 0.0, 0.30000001192092896, 0.0]
    """
    import torch

    others = [i for i in range(1, logits.shape[-1]) if i not in set(keep)]
    if not others:
        return logits
    chances = logits.float().log_softmax(-1)
    folded = torch.full_like(chances, -torch.inf)
    folded[..., keep] = chances[..., keep]
    folded[..., 0] = chances[..., [0, *others]].logsumexp(-1)
    return folded


def silence(logits: Any, keep: list[int]) -> Any:
    """Logits of independent classes with all but the kept ones at minus infinity, probability 0."""
    import torch

    kept = torch.full_like(logits, -torch.inf)
    kept[..., keep] = logits[..., keep]
    return kept


def _frame_transform(own: Any, device: devices.Device, wait: Callable[[], None]) -> Any:
    """The library's own resizing for uint8 BGR frames, one frame at a time, leaving masks on their grid."""
    import torch
    from torchvision.models.detection.image_list import ImageList
    from torchvision.models.detection.transform import resize_boxes

    class FrameTransform(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.ready_at = own, 0.0

        def forward(self, images: list[Any], targets: Any = None) -> tuple[Any, Any]:
            small = []
            for image in images:
                # Only one frame at a time is held in floats: a 4K frame is 100 MB.
                rgb = image.to(device.name).flip(0).float().div_(255)
                small.append(own.resize(own.normalize(rgb))[0])
            sizes = [tuple(image.shape[-2:]) for image in small]
            batch = ImageList(own.batch_images(small, size_divisible=own.size_divisible), sizes)
            wait()
            self.ready_at = time.perf_counter()
            return batch, targets

        def postprocess(self, result: list[Any], sizes: list[Any], frames: list[Any]) -> list[Any]:
            for found, size, frame in zip(result, sizes, frames, strict=True):
                found["boxes"] = resize_boxes(found["boxes"].float(), size, frame)
            return result

    return FrameTransform()


def _names_beside(weights: Weights) -> list[str] | None:
    """Class names in the text file beside the weights with the same name, one a line."""
    listed = weights.path.with_suffix(".txt")
    if not listed.exists():
        return None
    try:
        lines = [line.strip() for line in listed.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(Problem("unreadable", str(error), "class names in UTF-8", file=str(listed))) from error
    return [line for line in lines if line] or None
