"""The callbacks and surroundings under which ultralytics' trainer runs: saved and resumed by birdlab, and quiet."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.recipe.training import Trained
from birdlab.training.curves import why_stop
from birdlab.training.determinism import epoch_seed, insist, refusal, seed_all, state_sha256
from birdlab.training.resume import Course, on_cpu, save_course
from birdlab.training.torchvision_train import Progress

#: What the library raises when it cannot cope.
ERRORS = (ArithmeticError, AssertionError, LookupError, OSError, RuntimeError, TypeError, ValueError, SyntaxError)


@dataclass
class Drive:
    """What the callbacks share: the run as saved, and what has become of it.

    ``judge`` gives validation AP50-95 and AP50 of the averaged network.
    """

    spec: Trained
    seed: int
    folder: Path
    course: Course
    moving: dict[str, Any]
    progress: Progress | None
    judge: Callable[[Any], tuple[float, float]]
    failed: DataError | None = None
    began: float = field(default_factory=time.monotonic)
    threads: int = 0

    @property
    def stopped(self) -> str | None:
        return why_stop(self.course.rows, epochs=self.spec.epochs, patience=self.spec.patience)

    def last_sha256(self) -> str:
        return state_sha256(self.moving["network"])

    def restore(self, trainer: Any) -> None:
        """Before the first epoch: everything as it was after the last one that was saved."""
        import torch

        if self.spec.deterministic:
            insist()
        torch.set_num_threads(self.threads)
        if not self.course.done:
            return
        held, done = self.moving, self.course.done
        trainer.model.load_state_dict(held["network"])
        trainer.ema.ema.load_state_dict(held["average"])
        trainer.ema.updates = held["updates"]
        trainer.optimizer.load_state_dict(held["optimiser"])
        trainer.best_fitness = held["best_fitness"]
        vars(trainer.stopper).update(held["stopper"])
        head = trainer.model.model[-1]
        if getattr(head, "one2one_cv2", None) is not None:
            # Two losses whose weights shift with the epochs.
            trainer.model.criterion = trainer.model.init_criterion()
            trainer.model.criterion.updates = done - 1
            trainer.model.criterion.update()
        trainer.start_epoch = done
        trainer.scheduler.last_epoch = done - 1

    def validate(self, trainer: Any) -> tuple[dict[str, float], float]:
        """birdlab's own scores of the averaged network, as the weights that would be kept give them."""
        import torch

        ap, ap50 = self.judge(trainer)
        torch.set_num_threads(self.threads)
        if self.spec.deterministic:
            insist()
        trainer.best_fitness = ap if trainer.best_fitness is None else max(trainer.best_fitness, ap)
        return {"val_ap": ap, "val_ap50": ap50}, ap

    def begin_epoch(self, trainer: Any) -> None:
        """Random numbers from seed and epoch alone, and no memory of the pictures of earlier epochs."""
        self.began = time.monotonic()
        if self.progress:
            self.progress(self.course.done, self.spec.epochs)
        seed = epoch_seed(self.seed, trainer.epoch + 1)
        seed_all(seed)
        loader = trainer.train_loader
        loader.reset()
        loader.generator.manual_seed(seed)
        dataset = loader.dataset
        if dataset.cache != "ram":
            for i in dataset.buffer:
                dataset.ims[i] = dataset.im_hw0[i] = dataset.im_hw[i] = None
            dataset.buffer.clear()

    def end_epoch(self, trainer: Any) -> None:
        """The epoch into the log, and everything into ``last.pt``."""
        losses = {k: float(v) for k, v in trainer.tloss.items()}
        if not all(map(np.isfinite, losses.values())):
            remedy = "lower lr, or make warmup_epochs longer"
            found = f"a loss that is not finite in epoch {trainer.epoch + 1}"
            where = f"model {self.spec.name}"
            self.failed = DataError(Problem("diverged", found, "a finite loss", remedy, record=where))
            trainer.stop = True
            return
        named = {f"loss_{k.removesuffix('_loss')}": v for k, v in losses.items()}
        row: dict[str, Any] = {"epoch": trainer.epoch + 1, "loss": sum(losses.values()), **named}
        row |= {"val_ap": trainer.metrics["val_ap"], "val_ap50": trainer.metrics["val_ap50"], "lr": _rate(trainer)}
        average = trainer.ema.ema.state_dict()
        self.course.add(row | {"seconds": time.monotonic() - self.began}, average)
        stopper = {k: v for k, v in vars(trainer.stopper).items() if isinstance(v, (int, float, bool))}
        self.moving = {"network": on_cpu(trainer.model.state_dict()), "average": on_cpu(average)}
        self.moving |= {"updates": int(trainer.ema.updates), "optimiser": trainer.optimizer.state_dict()}
        self.moving |= {"best_fitness": float(trainer.best_fitness or 0.0)}
        self.moving |= {"stopper": {k: v if isinstance(v, (bool, int)) else float(v) for k, v in stopper.items()}}
        save_course(self.folder, self.course, self.moving)
        trainer.stop = self.stopped is not None


def _rate(trainer: Any) -> float:
    groups = trainer.optimizer.param_groups
    return float(next((g["lr"] for g in groups if g.get("param_group") == "weight"), groups[0]["lr"]))


def make_trainer(drive: Drive, overrides: dict[str, Any]) -> Any:
    """The library's trainer of the model's task, with a drive's callbacks and without checkpoints of its own."""
    import torch
    from ultralytics.models.yolo.detect import DetectionTrainer
    from ultralytics.models.yolo.segment import SegmentationTrainer

    base = SegmentationTrainer if drive.spec.task == "segment" else DetectionTrainer

    class Trainer(base):  # type: ignore[misc, valid-type]
        def validate(self) -> tuple[Any, Any]:
            """Scored by birdlab: the library draws masks at a quarter of the input, too coarse for small birds."""
            return drive.validate(self)

        def save_model(self) -> bool:
            """Nothing: a callback saves more than the library would."""
            return False

        def final_eval(self) -> None:
            """Nothing: the scores of the best weights are birdlab's."""

        def _handle_nan_recovery(self, epoch: int) -> bool:
            """No silent return to an earlier epoch: a loss that is not finite is an error."""
            return False

    drive.threads = torch.get_num_threads()
    callbacks = {"on_pretrain_routine_end": drive.restore, "on_train_epoch_start": drive.begin_epoch}
    callbacks |= {"on_fit_epoch_end": drive.end_epoch}
    try:
        trainer = Trainer(overrides=overrides, _callbacks=_listed(callbacks))
    except ERRORS as error:
        raise said(error, drive.spec) from error
    torch.set_num_threads(drive.threads)
    return trainer


def _listed(callbacks: dict[str, Any]) -> dict[str, list[Any]]:
    return defaultdict(list, {name: [call] for name, call in callbacks.items()})


def said(error: BaseException, spec: Trained) -> Exception:
    """An error of the library in birdlab's words; one of birdlab's own stays what it is."""
    if isinstance(error, (DataError, ParameterError)):
        return error
    text = (str(error).splitlines() or [type(error).__name__])[0]
    refused = refusal(error, spec.name) if spec.deterministic else None
    return (
        ParameterError(refused)
        if refused
        else DataError(
            Problem("training_failed", text, "a training that ultralytics can do", record=f"model {spec.name}")
        )
    )


@contextmanager
def alone() -> Iterator[None]:
    """While this lasts, ultralytics loads no plug-ins, sends nothing, fetches no fonts and prints nothing."""
    from ultralytics.data import utils as data_utils
    from ultralytics.utils import LOGGER, callbacks
    from ultralytics.utils import events as events_module

    held = callbacks.add_integration_callbacks, data_utils.check_font, LOGGER.level
    events = getattr(events_module, "events", None)
    enabled = getattr(events, "enabled", None)
    callbacks.add_integration_callbacks = lambda *_args, **_kwargs: None
    data_utils.check_font = lambda *_args, **_kwargs: None
    LOGGER.setLevel(logging.ERROR)
    if enabled is not None:
        events.enabled = False
    try:
        yield
    finally:
        callbacks.add_integration_callbacks, data_utils.check_font = held[:2]
        LOGGER.setLevel(held[2])
        if enabled is not None:
            events.enabled = enabled


def forget_caches(yolo: Path) -> None:
    """Remove ultralytics' caches of the labels: they are pickles, and they outlive a change of the labels."""
    for path in yolo.parent.rglob("*.cache"):
        with suppress(OSError):
            path.unlink()
