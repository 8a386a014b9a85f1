"""Training ultralytics' detectors and segmenters with its own trainer, driven from outside.

The trainer's own checkpoints are not used: they hold the averaged weights in half precision, so a run taken up from one
is another run. Here a callback after every epoch saves network, average, optimiser, schedule and log as plain tensors,
and a callback before the first one puts them back; every epoch draws its random numbers from seed and epoch. The
validation score is birdlab's own AP50-95 of the averaged network (of the masks, for a segmenter).
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.inference.checkpoint import import_ultralytics
from birdlab.inference.ultralytics_adapter import prepare_environment
from birdlab.recipe.training import Trained
from birdlab.training import ultralytics_models as models
from birdlab.training.data import TrainingData
from birdlab.training.determinism import deterministic, epoch_seed, own_randomness, seed_all, state_sha256
from birdlab.training.resume import Course, Fit, load_course
from birdlab.training.scoring import validation_scores
from birdlab.training.settings import read_settings
from birdlab.training.torchvision_train import Progress
from birdlab.training.ultralytics_drive import ERRORS, Drive, alone, forget_caches, make_trainer, said

#: Settings of ultralytics' trainer that a recipe may name. ``None``: ultralytics' own default.
SETTINGS: dict[str, Any] = dict.fromkeys(
    (
        *(
            "optimizer",
            "lrf",
            "momentum",
            "weight_decay",
            "warmup_epochs",
            "warmup_momentum",
            "warmup_bias_lr",
            "cos_lr",
        ),
        *(
            "nbs",
            "box",
            "cls",
            "cls_pw",
            "dfl",
            "freeze",
            "cls_remap",
            "rect",
            "multi_scale",
            "overlap_mask",
            "mask_ratio",
        ),
        *(
            "hsv_h",
            "hsv_s",
            "hsv_v",
            "degrees",
            "translate",
            "scale",
            "shear",
            "perspective",
            "flipud",
            "fliplr",
            "bgr",
        ),
        *("mosaic", "close_mosaic", "mixup", "cutmix", "copy_paste", "copy_paste_mode", "cache", "workers", "max_det"),
    )
)
_ELSEWHERE = {
    **{name: f"set {name} of the model itself" for name in ("epochs", "patience", "imgsz", "batch", "deterministic")},
    **{"lr0": "set lr of the model itself", "seed": "set seeds of the model", "device": "set device of the recipe"},
    **{name: "it is false: the check for mixed precision downloads a network" for name in ("amp", "half")},
    "pretrained": "set weights of the model itself",
    "data": "it is the split of the recipe",
}


def check_recipe(spec: Trained, base: Path, *, cache: Path | None = None) -> None:
    """Everything that can be wrong with the model's section, found before the first picture is read.

    Args:
        spec: the model.
        base: folder that a relative ``architecture`` starts from.
        cache: folder for what ultralytics writes when it is imported; without one it is not, and the values of its
            settings are looked at only when training begins.

    Raises:
        ParameterError: unknown architecture or settings, or values that the library refuses.
    """
    values = read_settings(spec, SETTINGS, reserved=_ELSEWHERE)
    if values["optimizer"] == "auto" and spec.lr is not None:
        found = "optimizer auto, which picks its own learning rate, beside lr"
        where = {"record": f"model {spec.name}", "key": "settings.optimizer"}
        raise ParameterError(Problem("bad_setting", found, "one of the two", **where))
    models.read_description(spec, base)
    if cache is None:
        return
    prepare_environment(cache)
    import_ultralytics()
    from ultralytics.cfg import get_cfg

    try:
        get_cfg(overrides={k: v for k, v in (values | {"lr0": spec.lr}).items() if v is not None})
    except (TypeError, ValueError, SyntaxError) as error:
        first = (str(error).splitlines() or [""])[0]
        where = {"record": f"model {spec.name}", "key": "settings"}
        raise ParameterError(Problem("bad_setting", first, "values that ultralytics takes", **where)) from error


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
        spec: the model; ``architecture`` is an absolute path or a name of ultralytics.
        data: what to train on; ``data.yolo`` must have the model's task.
        folder: gets ``last.pt``, ``log.csv`` and ``best.pt``; what ultralytics writes of its own accord goes to
            ``cache``, two folders up.
        seed: seed of this run.
        about: settings the folder is bound to.
        weights: checkpoint to start from; ``None`` for random weights.
        device: as torch writes it.
        progress: called with (epochs done, epochs at most).

    Raises:
        ParameterError: unknown architecture or settings, other settings than the run was begun with, or an operation
            that cannot be done deterministically.
        DataError: no YOLO files, or pictures or weights that cannot be used.
    """
    if (yolo := data.yolo.get(spec.task)) is None:
        remedy, where = "export the split as YOLO files first", f"model {spec.name}"
        expected = f"the split as YOLO files, task {spec.task}"
        raise DataError(Problem("no_export", "no data.yaml", expected, remedy, record=where))
    work = folder / "work"
    cache = folder.parents[1] / "cache"
    check_recipe(spec, Path(), cache=cache)
    forget_caches(yolo)
    held = load_course(folder, about)
    course, moving = held or (Course(about), {})

    def judge(trainer: Any) -> tuple[float, float]:
        network = trainer.ema.ema
        models.save_weights(work / "now.pt", network, network.state_dict(), spec, data.categories)
        return validation_scores(spec, data, work / "now.pt", device=device, cache=cache)

    drive = Drive(spec, seed, folder, course, moving, progress, judge)
    try:
        with ExitStack() as stack:
            stack.enter_context(own_randomness())
            stack.enter_context(deterministic(spec.deterministic, model=spec.name))
            stack.enter_context(alone())
            return _fit(drive, data, weights=weights, device=device, work=work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fit(drive: Drive, data: TrainingData, *, weights: Path | None, device: str, work: Path) -> Fit:
    spec = drive.spec
    settings = _overrides(spec, drive.seed, device)
    notes = ["starts from random weights"] if weights is None else []
    if settings["nbs"] > spec.batch:
        notes.append("gradients are gathered over batches: a resumed run steps at other batches than an unbroken one")
    trainer = make_trainer(drive, settings | {"data": str(data.yolo[spec.task]), "project": str(work), "name": "run"})
    try:
        seed_all(epoch_seed(drive.seed, 0))
        start = None if weights is None else models.start_weights(weights, spec)
        trainer.model = trainer.get_model(cfg=models.read_description(spec, Path()), weights=start, verbose=False)
        if weights is not None:
            notes.append(models.taken_over(trainer.model, start, weights))
        if drive.stopped is None:
            trainer.train()
    except ERRORS as error:
        raise said(error, spec) from error
    if drive.failed:
        raise drive.failed
    if drive.progress:
        drive.progress(drive.course.done, spec.epochs)
    network = trainer.model
    trainer.set_model_attributes()
    if trainer.batch_size != spec.batch:
        notes.append(f"memory was short: trained with batches of {trainer.batch_size}, not {spec.batch}")
    kept = models.save_weights(drive.folder / "best.pt", network, drive.course.best, spec, data.categories)
    stopped = drive.stopped or "epochs"
    told = {k: v for k, v in settings.items() if k in SETTINGS or k in ("lr0", "optimizer")}
    told |= {k: getattr(trainer.args, k) for k in ("optimizer", "lr0")}
    return Fit(drive.course, stopped, drive.last_sha256(), state_sha256(kept), told, notes)


def _overrides(spec: Trained, seed: int, device: str) -> dict[str, Any]:
    """What the trainer is told. ``nbs`` is the batch unless the recipe says otherwise: one step per batch."""
    own = {k: v for k, v in read_settings(spec, SETTINGS, reserved=_ELSEWHERE).items() if v is not None}
    told: dict[str, Any] = {"task": spec.task, "mode": "train", "model": "birdlab.yaml", "imgsz": spec.imgsz}
    told |= {"batch": spec.batch, "epochs": spec.epochs, "patience": spec.patience, "seed": seed, "device": device}
    told |= {"deterministic": spec.deterministic, "workers": 0, "nbs": spec.batch, "amp": False, "val": True}
    told |= {"save": False, "plots": False, "verbose": False, "exist_ok": True, "pretrained": False}
    if spec.lr is not None:
        told |= {"lr0": spec.lr, "optimizer": "AdamW"}
    return told | own
