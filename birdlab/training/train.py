"""Fine-tuning of a recipe's models: one folder per model and seed, resumed where it was stopped, each with a model card.

``<out>/<model>/seed-<k>/`` holds ``log.csv`` (one row per epoch), ``last.pt`` (to resume), ``best.pt`` (to run),
``card.md`` and ``card.json``. The best weights are chosen by the validation part; the test part is scored once, with
those, and ``<out>/test_looks.json`` counts how often that was done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.inference import device as devices
from birdlab.progress import progress as show_progress
from birdlab.recipe import resolve
from birdlab.recipe.training import Trained, Training
from birdlab.training import card as cards
from birdlab.training.curves import best_epoch, curve_table, read_log
from birdlab.training.data import TrainingData, check_data, check_tasks, study_data
from birdlab.training.determinism import kept_threads
from birdlab.training.resume import Fit, check_about
from birdlab.training.scoring import METRICS, count_look, score_weights
from birdlab.training.seeds import seed_table, seed_variance
from birdlab.training.torchvision_train import Progress

if TYPE_CHECKING:
    from birdlab.study import Run

#: A limit of a model that was trained with one seed.
ALONE = "1 seed: how far the scores move from seed to seed is unknown"


@dataclass(frozen=True)
class TrainedModel:
    """One model trained with one seed.

    Args:
        name, seed: model and seed.
        folder: folder of the run.
        weights: ``best.pt``.
        card: what ``card.json`` says.
        log: one row per epoch (:func:`birdlab.training.curves.read_log`).
    """

    name: str
    seed: int
    folder: Path
    weights: Path
    card: dict[str, Any]
    log: pl.DataFrame

    @property
    def sha256(self) -> str:
        """Hash of the file ``best.pt``."""
        return str(self.card["weights"]["sha256"])

    @property
    def scores(self) -> dict[str, Any]:
        """Scores by part (``val``, ``test``); a part without a labelled frame is ``None``."""
        return dict(self.card["scores"])


def train_models(
    run: Run,
    training: Training,
    data: TrainingData | None = None,
    *,
    out: Path | None = None,
    device: str | None = None,
) -> list[TrainedModel]:
    """Train every model of a recipe with each of its seeds; finished ones are read, stopped ones are resumed.

    Args:
        run: the study: gives the folder, the device and the place of relative paths.
        training: section of the recipe.
        data: frames, labels and parts (default: the study's, split as the section says, leaks refused).
        out: where the runs' folders go (default ``<run.dir>/training``).
        device: auto, cpu, cuda, cuda:N or mps (default: the recipe's).

    Raises:
        ParameterError, DataError: what is wrong with the models' sections, found before the first picture is read; a
            leak between the parts; see :func:`train_one`.
    """
    place = out or run.dir / "training"
    check_models(training.models, base=run.base, cache=place / "cache")
    data = data or study_data(run, training, place)
    check_tasks(data, [spec.task for spec in training.models])
    trained = []
    for spec in training.models:
        for seed in spec.seeds:
            label = f"{spec.name}, seed {seed}"
            with show_progress(label, unit="epochs", state=run.dir / "progress.json") as step:
                made = train_one(
                    spec, data, place, seed=seed, base=run.base, device=device or run.recipe.device, progress=step
                )
            trained.append(made)
    return trained


def check_models(models: Sequence[Trained], *, base: Path, cache: Path | None = None) -> None:
    """Refuse what cannot be trained, all of it in one error: architectures, settings, weights to start from.

    Args:
        models: the models.
        base: folder that relative paths start from.
        cache: folder for what ultralytics writes when it is imported; without one no library is: the values of
            ultralytics' settings and what is in the weights are not looked at.

    Raises:
        ParameterError, DataError: every problem of every model.
    """
    problems: list[Problem] = []
    kinds: set[type[BirdlabError]] = set()
    for spec in models:
        try:
            _check(spec, base, cache)
            path, _ = _start(spec, base)
            if path is not None and cache is not None:
                _try(spec, path, base)
        except BirdlabError as error:
            problems += error.problems or [
                Problem("bad_model", str(error), "a model that can be trained", record=spec.name)
            ]
            kinds.add(type(error))
    if problems:
        raise (DataError if any(issubclass(k, DataError) for k in kinds) else ParameterError)(problems)


def train_one(
    spec: Trained,
    data: TrainingData,
    out: Path,
    *,
    seed: int | None = None,
    base: Path = Path(),
    device: str = "cpu",
    progress: Progress | None = None,
) -> TrainedModel:
    """Train one model with one seed, score its best weights and write its card.

    Args:
        spec: the model.
        data: frames, labels and parts.
        out: the run's folder is ``out/<name>/seed-<seed>``.
        seed: the seed (default: the first of the model's).
        base: folder that relative paths of the model start from.
        device: auto, cpu, cuda, cuda:N or mps.
        progress: called with (epochs done, epochs at most).

    Returns:
        The trained model. A run that is finished is read, not trained or scored again; of its card only the licences and
        the number of seeds follow the recipe.

    Raises:
        ParameterError: the model's section is wrong, or its folder holds a run with other settings or data.
        DataError: data or weights cannot be used, or training diverges.
    """
    seed = spec.seeds[0] if seed is None else seed
    folder = out / spec.name / f"seed-{seed}"
    _check(spec, base, out / "cache")
    notes = check_data(data, task=spec.task)
    start, start_sha256 = _start(spec, base)
    about = _about(spec, data, seed, start_sha256, base)
    if (done := read_trained(folder)) is not None:
        check_about(done.card["about"], about, folder / "card.json")
        return _told_now(done, spec, data)
    folder.mkdir(parents=True, exist_ok=True)
    on = devices.resolve_device(device)
    best, how = folder / "best.pt", {"device": on.name, "cache": out / "cache"}
    with kept_threads():
        fit = _fit(
            spec, data, folder, seed=seed, about=about, base=base, weights=start, device=on.name, progress=progress
        )
        scores: dict[str, Any] = {"val": score_weights(spec, data, best, "val", **how)}
        test = score_weights(spec, data, best, "test", **how)
    sha256 = hashlib.sha256(best.read_bytes()).hexdigest()
    if test is not None:
        test["looks"] = count_look(out / "test_looks.json", data.split_key, f"{spec.name}/seed-{seed}", sha256)
    scores["test"] = test
    words = devices.device_words(on, devices.torch_threads())  # their number decides the last bits of the weights
    card = _card(spec, data, fit, seed=seed, scores=scores, device=words, notes=notes)
    card["weights"] |= {"sha256": sha256, "bytes": best.stat().st_size}
    cards.write_card(folder, card)
    made = read_trained(folder)
    if made is None:
        raise DataError(Problem("no_card", "no model card", "the card that was written just now", file=str(folder)))
    return made


def read_trained(folder: Path) -> TrainedModel | None:
    """The finished run in a folder; ``None`` where there is none.

    Raises:
        DataError: the weights are not those of the card, or card or log are damaged.
    """
    card = cards.read_card(folder)
    if card is None:
        return None
    weights = folder / "best.pt"
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest() if weights.exists() else "no file"
    if sha256 != card["weights"]["sha256"]:
        remedy = "delete card.json; the weights are then written anew from last.pt"
        expected = f"sha256 {card['weights']['sha256']}, as the card says"
        raise DataError(Problem("wrong_hash", sha256, expected, remedy, file=str(weights)))
    return TrainedModel(card["model"], int(card["seed"]), folder, weights, card, read_log(folder / "log.csv"))


def score_table(trained: Sequence[TrainedModel], part: str = "test") -> pl.DataFrame:
    """Scores of all runs on one part as model, seed, metric, value, for :func:`birdlab.training.seeds.seed_table`."""
    rows = [
        (t.name, t.seed, m, t.scores[part][m])
        for t in trained
        if t.scores.get(part)
        for m in METRICS
        if m in t.scores[part]
    ]
    schema = {"model": pl.String, "seed": pl.Int64, "metric": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def session_table(trained: Sequence[TrainedModel], part: str = "test") -> pl.DataFrame:
    """Scores by session as model, seed, session, metric, value, for :func:`birdlab.training.seeds.seed_variance`."""
    rows = [
        (t.name, t.seed, s["session"], m, s[m])
        for t in trained
        if t.scores.get(part)
        for s in t.scores[part]["by_session"]
        for m in METRICS
        if m in s
    ]
    schema = {"model": pl.String, "seed": pl.Int64, "session": pl.String, "metric": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def summary_tables(trained: Sequence[TrainedModel], part: str = "test") -> dict[str, pl.DataFrame]:
    """Tables ``training_seeds``, ``training_variance`` and ``training_curves`` of these runs."""
    return {
        "training_seeds": seed_table(score_table(trained, part)),
        "training_variance": seed_variance(session_table(trained, part)),
        "training_curves": curve_table((t.name, t.seed, t.log) for t in trained),
    }


def _check(spec: Trained, base: Path, cache: Path | None) -> None:
    if spec.library == "torchvision":
        from birdlab.training import torchvision_train

        torchvision_train.check_recipe(spec)
    else:
        from birdlab.training import ultralytics_train

        ultralytics_train.check_recipe(spec, base, cache=cache)


def _try(spec: Trained, path: Path, base: Path) -> None:
    """Load weights to start from into a network of the model: the last of several models is not to fail after hours."""
    from birdlab.training.determinism import own_randomness

    with own_randomness():
        if spec.library == "torchvision":
            from birdlab.training import torchvision_models

            torchvision_models.start_from(torchvision_models.build(spec, 1), path)
        else:
            from birdlab.training import ultralytics_drive, ultralytics_models

            start = ultralytics_models.start_weights(path, spec)
            try:
                network = ultralytics_models.build(spec, base)
            except ultralytics_drive.ERRORS as error:
                raise ultralytics_drive.said(error, spec) from error
            ultralytics_models.taken_over(network, start, path)


def _fit(spec: Trained, data: TrainingData, folder: Path, *, base: Path, **how: Any) -> Fit:
    if spec.library == "torchvision":
        from birdlab.training import torchvision_train

        return torchvision_train.fit(spec, data, folder, **how)
    from birdlab.training import ultralytics_train

    path = resolve(spec.architecture, base)
    if path.is_file():
        spec = spec.model_copy(update={"architecture": str(path.resolve())})
    return ultralytics_train.fit(spec, data, folder, **how)


def _start(spec: Trained, base: Path) -> tuple[Path | None, str | None]:
    """The weights to start from and their hash, held against the one the recipe promises."""
    from birdlab.inference.weights import check_hash, locate_weights

    if spec.weights is None:
        return None, None
    where = f"model {spec.name}"
    if spec.weights.startswith("birdlab:"):
        remedy = "give the path of the file: birdlab:NAME is for models that are run as they are"
        raise ParameterError(
            Problem("no_path", repr(spec.weights), "a file of weights", remedy, record=where, key="weights")
        )
    path = locate_weights(spec.weights, base, base, expected="a file of weights", where=where)
    if not path.is_file():
        raise DataError(
            Problem("no_weights", "a folder", "a file of weights", file=str(path), record=where, key="weights")
        )
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    check_hash(spec.sha256, sha256, path, where=where)
    return path, sha256


def _about(spec: Trained, data: TrainingData, seed: int, start_sha256: str | None, base: Path) -> dict[str, Any]:
    """All that decides the weights, as plain JSON types: a run is resumed under the same or not at all."""
    told = spec.model_dump(mode="json", exclude={"name", "seeds", "licence", "weights", "sha256"})
    told |= {"seed": seed, "start_sha256": start_sha256, "data": data.sha256, "split": data.split_key}
    path = resolve(spec.architecture, base)
    if spec.library == "ultralytics" and path.is_file():
        told["architecture"] = f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return json.loads(json.dumps(told, sort_keys=True))


def _card(
    spec: Trained, data: TrainingData, fit: Fit, *, seed: int, scores: dict[str, Any], device: str, notes: list[str]
) -> dict[str, Any]:
    rows = fit.course.rows
    settings = {"imgsz": spec.imgsz, "batch": spec.batch, "epochs": spec.epochs, "patience": spec.patience}
    training = {"epochs": len(rows), "best_epoch": best_epoch(rows), "stopped": fit.stopped, "device": device}
    training |= {"resumed_after": fit.course.resumed_after, "deterministic": spec.deterministic}
    return {
        "model": spec.name,
        "seed": seed,
        "n_seeds": len(spec.seeds),
        "task": spec.task,
        "library": spec.library,
        "architecture": Path(spec.architecture).name,
        "classes": list(data.categories),
        "licence": _licences(spec, data),
        "data": {"name": data.name, "sha256": data.sha256, "parts": data.counts()},
        "split": {"by": data.split_by, "sha256": data.split_key},
        "settings": settings | fit.settings,
        "training": training,
        "scores": scores,
        "weights": {"file": "best.pt", "state_sha256": fit.state_sha256, "last_sha256": fit.last_sha256},
        "versions": cards.versions(spec.library),
        "limits": [*fit.notes, *notes, *data.notes, *_limits(spec, data)],
        "about": fit.course.about,
    }


def _licences(spec: Trained, data: TrainingData) -> dict[str, str]:
    return {"weights": spec.licence, "data": data.licence, "library": cards.library_licence(spec.library)}


def _told_now(done: TrainedModel, spec: Trained, data: TrainingData) -> TrainedModel:
    """A finished run whose card says what the recipe says now of things that do not decide the weights."""
    limits = list(done.card["limits"])
    if (ALONE in limits) != (len(spec.seeds) == 1):
        limits = [text for text in limits if text != ALONE] if ALONE in limits else [*limits, ALONE]
    card = done.card | {"licence": _licences(spec, data), "n_seeds": len(spec.seeds), "limits": limits}
    if card == done.card:
        return done
    cards.write_card(done.folder, card)
    return replace(done, card=card)


def _limits(spec: Trained, data: TrainingData) -> list[str]:
    counts = data.counts()
    n, sites = counts["test"]["sessions"], counts["test"]["sites"]
    where = f"{n} session{'s' if n != 1 else ''}" + (f" at {sites} site{'s' if sites != 1 else ''}" if sites else "")
    tested = f"tested on {where} of this study; other places, cameras, seasons and species are untested"
    if not counts["test"]["frames"]:
        tested = "not tested on any frame"
    limits = [tested, "the validation score chose the best epoch, so it is somewhat too high"]
    if len(spec.seeds) == 1:
        limits.append(ALONE)
    if not spec.deterministic:
        limits.append("another run with this seed may give other weights")
    return limits
