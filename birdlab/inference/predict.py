"""Predictions of a study: detectors run on its frames in resumable shards, or detections made elsewhere."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.inference.detector import Detector, class_map
from birdlab.inference.timing import NOTICES, ShardTiming, run_notices, speed_table
from birdlab.inference.weights import Weights, find_weights
from birdlab.inference.worker import PART, Worker
from birdlab.progress import progress
from birdlab.recipe import Model
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly

if TYPE_CHECKING:
    from birdlab.study import Run

log = logging.getLogger("birdlab")

#: Part of the key of finished shards: raise it when the content of a part changes.
VERSION = 1


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Predictions, failures and speed of every model of a recipe, and what was remarkable about running them.

    Weights are run on every frame of the study, labelled or not. Finished shards in ``<run>/shards/<model>-<key>/`` are
    read, not run again; the key covers the weights' hash and every setting that can change a box.

    Returns:
        Tables ``predictions``, ``failures``, ``speed`` and ``inference_notices`` (model, code, message, n).

    Raises:
        DataError: weights or predictions are missing or not as promised; every such problem of every model.
        ParameterError: the device is not there, or classes of the recipe are unknown to a model.
    """
    frames, media = run.table("frames"), run.table("media")
    jobs = _prepare(run, frames, media)
    parts: dict[str, list[pl.DataFrame]] = {"predictions": [], "failures": [], "speed": [], "inference_notices": []}
    for model in run.recipe.models:
        made = _run_weights(jobs[model.name], run) if model.name in jobs else _read_elsewhere(model, run, frames)
        for name, frame in made.items():
            parts[name].append(frame)
    tables = {n: pl.concat([schemas.empty(n), *parts[n]]) for n in ("predictions", "failures", "speed")}
    tables["inference_notices"] = pl.concat([NOTICES.to_frame(), *parts["inference_notices"]])
    return tables


@dataclass
class _Job:
    """One model with weights: its shards, and the detector where some of them are still to be run."""

    model: Model
    folder: Path
    shards: list[Shard]
    frames: pl.DataFrame
    media: pl.DataFrame
    detector: Detector | None = None
    kept: dict[int, str] | None = None

    @property
    def missing(self) -> list[Shard]:
        return [shard for shard in self.shards if not (self.folder / shard.filename).exists()]


def _prepare(run: Run, frames: pl.DataFrame, media: pl.DataFrame) -> dict[str, _Job]:
    """Everything that can be wrong with the recipe's weights is found here, before the first frame is read."""
    problems: list[Problem] = []
    kinds: set[type[BirdlabError]] = set()
    found: dict[str, Weights] = {}
    jobs: dict[str, _Job] = {}
    models = [m for m in run.recipe.models if m.weights is not None]
    for model in models:
        try:
            found[model.name] = find_weights(model, run.base, run.data_root)
        except BirdlabError as error:
            problems += error.problems or [
                Problem("bad_weights", str(error), "weights that can be run", record=model.name)
            ]
            kinds.add(type(error))
    if not problems:
        shards = _shards(frames, media, run.recipe.shard_size)
        for model in models:
            try:
                jobs[model.name] = _job(run, model, found[model.name], shards, (frames, media))
            except BirdlabError as error:
                problems += error.problems or [
                    Problem("bad_weights", str(error), "weights that can be run", record=model.name)
                ]
                kinds.add(type(error))
    if problems:
        raise (DataError if any(issubclass(k, DataError) for k in kinds) else ParameterError)(
            list(dict.fromkeys(problems))
        )
    return jobs


def _job(
    run: Run, model: Model, weights: Weights, shards: list[Shard], tables: tuple[pl.DataFrame, pl.DataFrame]
) -> _Job:
    device = run.recipe.device
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", model.name)
    folder = run.dir / "shards" / f"{safe}-{_key(model, weights, device, run.recipe.data.categories)[:12]}"
    clear_leftovers(folder, PART)
    job = _Job(model, folder, shards, *tables)
    if not job.missing:
        return job
    job.detector = load_detector(model, weights, device, run.dir / "cache")
    job.kept, problems = class_map(job.detector.names, model.classes, run.recipe.data.categories, model=model.name)
    if problems:
        raise ParameterError(problems)
    job.detector.keep = sorted(job.kept)
    return job


def load_detector(model: Model, weights: Weights, device: str, cache: Path) -> Detector:
    """Load the weights of one model with the adapter they need.

    Args:
        model: model section of the recipe.
        weights: from :func:`birdlab.inference.weights.find_weights`.
        device: auto, cpu, cuda, cuda:N or mps.
        cache: folder for what a library writes of its own accord.

    Raises:
        DataError: the weights cannot be used.
        ParameterError: the device is not there, or a package is missing.
    """
    if weights.adapter == "yolox":
        from birdlab.inference.yolox import YoloxDetector

        return YoloxDetector(model, weights, device)
    if weights.adapter == "torchvision":
        from birdlab.inference.torchvision_adapter import TorchvisionDetector

        return TorchvisionDetector(model, weights, device)
    from birdlab.inference.ultralytics_adapter import UltralyticsDetector

    return UltralyticsDetector(model, weights, device, cache)


def _key(model: Model, weights: Weights, device: str, categories: list[str]) -> str:
    settings = model.model_dump(mode="json", include={"classes", "conf", "iou", "max_det", "imgsz", "batch", "half"})
    if weights.adapter == "yolox":
        from birdlab.inference.yolox import environment
    elif weights.adapter == "torchvision":
        from birdlab.inference.torchvision_adapter import environment

        settings["architecture"] = model.architecture
    else:
        from birdlab.inference.ultralytics_adapter import environment
    parts = [VERSION, weights.adapter, weights.sha256, settings, sorted(categories), *environment(weights, device)]
    return digest(parts)


def _shards(frames: pl.DataFrame, media: pl.DataFrame, size: int) -> list[Shard]:
    hashes = frames.join(media.select("media_id", "sha256"), on="media_id", how="left", maintain_order="left")
    rows = hashes.select("frame_id", pl.col("sha256").fill_null("")).rows()
    return [Shard(f"{i:05d}", [list(row) for row in piece]) for i, piece in enumerate(split_evenly(rows, size))]


def _run_weights(job: _Job, run: Run) -> dict[str, pl.DataFrame]:
    missing = job.missing
    if missing and job.detector is not None:
        wanted = pl.DataFrame(
            {"frame_id": [frame_id for shard in missing for frame_id, _ in shard.payload]},
            schema={"frame_id": pl.String},
        )
        todo = wanted.join(job.frames, on="frame_id", how="left", maintain_order="left")
        with progress(job.model.name, state=run.dir / "progress.json") as step:
            worker = Worker(job.detector, job.kept or {}, todo, job.media, batch=job.model.batch)
            try:
                paths = map_shards(worker, job.shards, job.folder, progress=step)
            finally:
                worker.close()
    else:
        paths = [job.folder / shard.filename for shard in job.shards]
    return _collect(job.model.name, paths)


def _collect(model: str, paths: list[Path]) -> dict[str, pl.DataFrame]:
    part = pl.concat([PART.to_frame(), *(pl.read_parquet(path) for path in paths)])
    of = {record: part.filter(pl.col("record") == record) for record in ("box", "failure", "timing")}
    named = pl.lit(model).alias("model")
    identifier = pl.format("{}/{}", "frame_id", "rank").alias("prediction_id")
    boxes = of["box"].drop("record", "stage", "message").with_columns(named, identifier)
    timings = [ShardTiming.loads(text) for text in of["timing"]["message"]]
    return {
        "predictions": schemas.validate("predictions", boxes),
        "failures": schemas.validate("failures", of["failure"].select(named, "frame_id", "stage", "message")),
        "speed": speed_table(model, timings),
        "inference_notices": run_notices(model, timings, of["failure"]),
    }


def _read_elsewhere(model: Model, run: Run, frames: pl.DataFrame) -> dict[str, pl.DataFrame]:
    from birdlab.readers.predictions import read_predictions

    predictions, failures, notices = read_predictions(
        model, frames, run.recipe.data.labels, run.base, run.data_root, categories=run.recipe.data.categories
    )
    said = notices.select(pl.lit(model.name).alias("model"), "code", "message", "n")
    return {
        "predictions": schemas.validate("predictions", predictions).select(list(schemas.TABLES["predictions"].dtypes)),
        "failures": schemas.validate("failures", failures).select(list(schemas.TABLES["failures"].dtypes)),
        "speed": schemas.empty("speed"),
        "inference_notices": said.cast(dict(NOTICES)),
    }
