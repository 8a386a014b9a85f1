"""Training torchvision's Faster R-CNN and Mask R-CNN with a plain loop that can be killed and taken up again.

SGD with momentum; the learning rate rises over the first steps and then falls along a cosine or in steps. The only
augmentation is a flip from left to right. After every epoch the validation frames are scored with birdlab's own AP.
Everything random in an epoch is drawn from seed and epoch alone, in this process; so a run that is killed and resumed
goes through the same numbers as one that is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.detection.boxes import decode_rle
from birdlab.detection.engine import evaluate
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.torchvision_models import save_weights
from birdlab.readers.pixels import Picture
from birdlab.recipe.training import Trained
from birdlab.training import torchvision_models as models
from birdlab.training.curves import why_stop
from birdlab.training.data import TrainingData, predictions_table, real
from birdlab.training.determinism import deterministic, epoch_seed, own_randomness, seed_all, state_sha256
from birdlab.training.resume import Course, Fit, load_course, save_course
from birdlab.training.settings import read_settings

Progress = Callable[[int, int], None]

#: Settings of the loop and their defaults. ``lr`` stands in the recipe; without it, it is 0.00125 per picture of a
#: batch (0.02 for 16), as in torchvision's own reference training.
SETTINGS: dict[str, Any] = {
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "warmup_steps": 500,  # at most one epoch of them
    "schedule": "cosine",  # or "step"
    "final_lr": 0.01,  # share of lr at the end of the cosine
    "step_epochs": [67, 92],  # epochs after which lr is multiplied by gamma
    "gamma": 0.1,
    "clip": 10.0,  # largest norm of the gradient
    "flip": 0.5,  # probability of a flip from left to right
    "cache_mb": 1024,  # pictures held in memory, MB
}
_LR_PER_PICTURE = 0.02 / 16


@dataclass(frozen=True)
class _Plan:
    spec: Trained
    seed: int
    settings: dict[str, Any]
    device: str

    @property
    def lr(self) -> float:
        return self.spec.lr or _LR_PER_PICTURE * self.spec.batch


def rate_at(step: int, *, steps: int, epochs: int, settings: dict[str, Any]) -> float:
    """Learning rate of a step as a share of the first one, in (0, 1].

    Args:
        step: step, from 0 over all epochs.
        steps: steps per epoch.
        epochs: epochs of the whole schedule.
        settings: of :data:`SETTINGS`.

    >>> s = SETTINGS | {"warmup_steps": 2, "final_lr": 0.0}
    >>> [round(rate_at(k, steps=4, epochs=2, settings=s), 3) for k in (0, 1, 4, 7)]
    [0.5, 0.962, 0.5, 0.038]
    """
    warmup = max(1, min(settings["warmup_steps"], steps))
    rise = min(1.0, (step + 1) / warmup)
    if settings["schedule"] == "step":
        passed = sum(step // steps >= epoch for epoch in settings["step_epochs"])
        return rise * settings["gamma"] ** passed
    fall = (1 + math.cos(math.pi * step / (steps * epochs))) / 2
    return rise * (settings["final_lr"] + (1 - settings["final_lr"]) * fall)


def fit(
    spec: Trained,
    data: TrainingData,
    folder: Path,
    *,
    seed: int,
    about: dict[str, Any],
    weights: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Fit:
    """Train one model with one seed in its folder, from the start or from where ``last.pt`` left off.

    Args:
        spec: the model.
        data: what to train on.
        folder: gets ``last.pt``, ``log.csv`` and ``best.pt``.
        seed: seed of this run.
        about: settings the folder is bound to.
        weights: weights to start from; ``None`` for random ones.
        device: as torch writes it.
        progress: called with (epochs done, epochs at most).

    Raises:
        ParameterError: unknown architecture or settings, other settings than the run was begun with, or an operation
            that cannot be done deterministically.
        DataError: a picture or the weights cannot be read, or the loss is not finite.
    """
    models.check_architecture(spec)
    plan = _Plan(spec, seed, read_settings(spec, SETTINGS, choices={"schedule": ("cosine", "step")}), device)
    with own_randomness(), deterministic(spec.deterministic, model=spec.name):
        return _fit(plan, data, folder, about=about, weights=weights, progress=progress)


def _fit(
    plan: _Plan,
    data: TrainingData,
    folder: Path,
    *,
    about: dict[str, Any],
    weights: Path | None,
    progress: Progress | None,
) -> Fit:
    spec = plan.spec
    seed_all(epoch_seed(plan.seed, 0))
    network = models.build(spec, len(data.categories))
    notes = _start(network, weights)
    network.to(plan.device)
    examples, left_out = _Examples.of(data, plan)
    notes += left_out
    optimiser, schedule = _optimiser(network, plan, examples.steps)
    course = Course(about)
    if (held := load_course(folder, about)) is not None:
        course, moving = held
        network.load_state_dict(moving["network"])
        optimiser.load_state_dict(moving["optimiser"])
        schedule.load_state_dict(moving["schedule"])
    val = data.part("val")
    stopped = why_stop(course.rows, epochs=spec.epochs, patience=spec.patience)
    while stopped is None:
        began, epoch = time.monotonic(), course.done + 1
        if progress:
            progress(course.done, spec.epochs)
        seed_all(epoch_seed(plan.seed, epoch))
        losses = _one_epoch(network, optimiser, schedule, examples.batches(epoch), plan, epoch, weights is not None)
        scores = score(network, data, val, spec, device=plan.device, model=spec.name)
        rate = losses.pop("lr")
        row = {"epoch": epoch, **losses, "val_ap": scores["ap"], "val_ap50": scores["ap50"]}
        row |= {"lr": rate, "seconds": time.monotonic() - began}
        course.add(row, network.state_dict())
        moving = {"network": network.state_dict(), "optimiser": optimiser.state_dict()}
        save_course(folder, course, moving | {"schedule": schedule.state_dict()})
        stopped = why_stop(course.rows, epochs=spec.epochs, patience=spec.patience)
    if progress:
        progress(course.done, spec.epochs)
    save_weights(folder / "best.pt", course.best, models.describe(spec, data.categories))
    last, best = state_sha256(network.state_dict()), state_sha256(course.best)
    return Fit(course, stopped, last, best, {**plan.settings, "optimizer": "SGD", "lr": plan.lr}, notes)


def _start(network: Any, weights: Path | None) -> list[str]:
    if weights is None:
        return ["starts from random weights, batch normalisation is trained"]
    taken, left = models.start_from(network, weights)
    rest = (
        f"; {len(left)} start at random ({', '.join(sorted({k.rsplit('.', 1)[0] for k in left})[:4])})" if left else ""
    )
    return [f"{taken} tensors start from {weights.name}{rest}; batch normalisation stays as it was there"]


def _optimiser(network: Any, plan: _Plan, steps: int) -> tuple[Any, Any]:
    import torch

    settings = plan.settings
    trained = [p for p in network.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(
        trained, lr=plan.lr, momentum=settings["momentum"], weight_decay=settings["weight_decay"]
    )

    def rate(step: int) -> float:
        return rate_at(step, steps=steps, epochs=plan.spec.epochs, settings=settings)

    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, rate)


def _one_epoch(
    network: Any,
    optimiser: Any,
    schedule: Any,
    batches: Iterator[tuple[list[Any], list[dict[str, Any]]]],
    plan: _Plan,
    epoch: int,
    frozen_norm: bool,
) -> dict[str, float]:
    """Mean losses over the batches, their sum as ``loss``, the parts as ``loss_*``; and ``lr`` of the last step."""
    import torch

    network.train()
    for module in network.modules():
        # Fine-tuning on few frames: the statistics of the pretrained network are better than those of small batches.
        if frozen_norm and isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    sums: dict[str, float] = {}
    n, rate = 0, plan.lr
    for images, targets in batches:
        parts = network(images, targets)
        total = sum(parts.values())
        if not torch.isfinite(total):
            raise _diverged(plan, epoch)
        optimiser.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), plan.settings["clip"])
        optimiser.step()
        rate = float(optimiser.param_groups[0]["lr"])
        schedule.step()
        named = {f"loss_{k.removeprefix('loss_')}": float(v.detach()) for k, v in parts.items()}
        for key, value in {"loss": float(total.detach()), **named}.items():
            sums[key] = sums.get(key, 0.0) + value
        n += 1
    return {key: value / n for key, value in sums.items()} | {"lr": rate}


def _diverged(plan: _Plan, epoch: int) -> DataError:
    remedy = f"lower lr (it is {plan.lr:g}) or make warmup_steps longer"
    found = f"a loss that is not finite in epoch {epoch}"
    return DataError(Problem("diverged", found, "a finite loss", remedy, record=f"model {plan.spec.name}"))


@dataclass
class _Examples:
    """The training frames, in batches whose order and flips depend on seed and epoch alone."""

    data: TrainingData
    frames: pl.DataFrame
    labels: dict[str, list[dict[str, Any]]]
    plan: _Plan

    @classmethod
    def of(cls, data: TrainingData, plan: _Plan) -> tuple[_Examples, list[str]]:
        frames, notes = data.part("train"), []
        birds = real(data.labels_of(frames))
        if plan.spec.task == "segment":
            bare = birds.filter(pl.col("mask_rle").is_null())["frame_id"].unique()
            if len(bare):
                notes.append(f"{len(bare)} training frames with birds that have no mask are left out")
                frames = frames.filter(~pl.col("frame_id").is_in(bare.to_list()))
        flat = birds.filter((pl.col("w") <= 0) | (pl.col("h") <= 0)).height
        if flat:
            notes.append(f"{flat} labelled boxes without an area are left out")
            birds = birds.filter((pl.col("w") > 0) & (pl.col("h") > 0))
        rows: dict[str, list[dict[str, Any]]] = {f: [] for f in frames["frame_id"]}
        for row in birds.select("frame_id", "category", "x", "y", "w", "h", "mask_rle").iter_rows(named=True):
            if row["frame_id"] in rows:
                rows[row["frame_id"]].append(row)
        held = cls(data, frames, rows, plan)
        held._cache: dict[int, Picture] = {}
        held._room = int(plan.settings["cache_mb"] * 1e6)
        return held, notes

    @property
    def steps(self) -> int:
        return math.ceil(self.frames.height / self.plan.spec.batch)

    def batches(self, epoch: int) -> Iterator[tuple[list[Any], list[dict[str, Any]]]]:
        rng = np.random.default_rng(epoch_seed(self.plan.seed, epoch))
        order, flips = rng.permutation(self.frames.height), rng.random(self.frames.height)
        for start in range(0, len(order), self.plan.spec.batch):
            chosen = order[start : start + self.plan.spec.batch].tolist()
            pairs = [self._example(i, flip=bool(flips[i] < self.plan.settings["flip"])) for i in chosen]
            yield [image for image, _ in pairs], [target for _, target in pairs]

    def _picture(self, i: int) -> Picture:
        if i in self._cache:
            return self._cache[i]
        _, picture = next(self.data.pictures(self.frames.slice(i, 1)))
        if picture.nbytes <= self._room:
            self._room -= picture.nbytes
            self._cache[i] = picture
        return picture

    def _example(self, i: int, *, flip: bool) -> tuple[Any, dict[str, Any]]:
        import torch

        picture, birds = self._picture(i), self.labels[self.frames["frame_id"][i]]
        width = picture.shape[1]
        xywh = np.array([[b["x"], b["y"], b["w"], b["h"]] for b in birds], dtype=np.float64).reshape(-1, 4)
        if flip:
            picture = picture[:, ::-1]
            xywh[:, 0] = width - xywh[:, 0] - xywh[:, 2]
        xyxy = np.concatenate([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], axis=1).astype(np.float32)
        classes = [self.data.categories.index(b["category"]) + 1 for b in birds]
        device = self.plan.device
        target = {
            "boxes": torch.from_numpy(xyxy).to(device),
            "labels": torch.tensor(classes, dtype=torch.int64).to(device),
        }
        if self.plan.spec.task == "segment":
            drawn = [_bitmap(b["mask_rle"], picture.shape, flip=flip) for b in birds]
            stack = np.stack(drawn) if drawn else np.zeros((0, *picture.shape[:2]), np.uint8)
            target["masks"] = torch.from_numpy(stack).to(device)
        return models.to_input(picture, device), target


def _bitmap(rle: str, shape: tuple[int, ...], *, flip: bool) -> np.ndarray:
    from pycocotools import mask as coco

    bitmap = coco.decode(decode_rle(rle))
    if bitmap.shape != shape[:2]:
        raise DataError(Problem("mask_size", f"a mask of {bitmap.shape}", f"the frame's {shape[:2]}"))
    return np.ascontiguousarray(bitmap[:, ::-1] if flip else bitmap)


def predict(
    network: Any, data: TrainingData, frames: pl.DataFrame, *, device: str, masks: bool, model: str
) -> pl.DataFrame:
    """Table ``predictions`` of a network on these frames."""
    network.eval()
    found = ((f, models.detect(network, p, device=device, masks=masks)) for f, p in data.pictures(frames))
    return predictions_table(model, dict(enumerate(data.categories)), found)


def score(
    network: Any, data: TrainingData, frames: pl.DataFrame, spec: Trained, *, device: str, model: str
) -> dict[str, float | None]:
    """AP50-95 and AP50 on these frames, in [0, 1], by boxes or, for a segmenter, by masks."""
    masks = spec.task == "segment"
    predictions = predict(network, data, frames, device=device, masks=masks, model=model)
    labels = data.labels_of(frames)
    if masks:
        from birdlab.detection.masks import with_masks

        labels, predictions, frames, _ = with_masks(labels, predictions, frames)
    stats = evaluate(labels, predictions, frames, iou_type="segm" if masks else "bbox").stats
    return {"ap": stats["ap"], "ap50": stats["ap50"]}


def check_recipe(spec: Trained) -> None:
    """Everything that can be wrong with the model's section, found before the first picture is read.

    Raises:
        ParameterError: unknown architecture, or unknown or impossible settings.
    """
    models.check_architecture(spec)
    values = read_settings(spec, SETTINGS, choices={"schedule": ("cosine", "step")})
    bad = [k for k in ("momentum", "flip", "final_lr") if not 0 <= values[k] <= 1]
    if bad:
        where = f"model {spec.name}"
        raise ParameterError(
            [Problem("bad_setting", repr(values[k]), "0 to 1", record=where, key=f"settings.{k}") for k in bad]
        )
