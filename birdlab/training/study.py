"""The training of a recipe as tables: the split, what leaked, every score with its seed, the courses, the model cards.

Trainings live in ``<run>/training/<model>/seed-<k>/`` and outlast the tables: a finished one is read, a stopped one goes on,
whatever has changed in birdlab since. Another recipe, other data, another split or other versions of the libraries make
another training, which is refused until the folder of the old one is gone: each one costs hours, and a look at the test part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.metrics import metric_frame, metric_row
from birdlab.readers.labels import locate
from birdlab.recipe.training import Trained, Training
from birdlab.shards import write_atomic
from birdlab.training import cards_table, scoring
from birdlab.training.card import read_card, versions
from birdlab.training.data import TrainingData, study_data
from birdlab.training.leaks import find_leaks, levels_of
from birdlab.training.seeds import seed_table, seed_variance
from birdlab.training.split_files import read_splits
from birdlab.training.split_table import split_table
from birdlab.training.splits import Splits
from birdlab.training.train import TrainedModel, check_models, session_table, train_models

if TYPE_CHECKING:
    from birdlab.study import Run

#: Parts that are scored.
SCORED = ("val", "test")
#: Versions that make another training; birdlab's own and those of the readers are written down only.
DECIDING = ("torch", "torchvision", "ultralytics")
SCORE_SCHEMA: dict[str, Any] = {
    **{"model": pl.String, "seed": pl.Int64, "stage": pl.Enum(["trained", "start"]), "part": pl.String},
    **{"metric": pl.String, "value": pl.Float64, "n_frames": pl.Int64, "n_birds": pl.Int64, "reason": pl.String},
}


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``splits``, ``split_facts``, ``split_table``, ``split_shape``, ``leaks`` and the tables ``training_*``.

    Trains what is not trained yet, and shows how far it is.

    Raises:
        ParameterError: the recipe has no section ``training``; see :func:`birdlab.training.train.train_models`.
        DataError: the study cannot be split, or something leaks; both frames are named.
    """
    training = run.recipe.training
    if training is None:
        remedy = "list the models to train under training.models"
        raise ParameterError(
            Problem("no_training", "no section training", "a recipe with one", remedy, file=str(run.recipe_path))
        )
    folder = run.dir / "training"
    check_models(training.models, base=run.base, cache=folder / "cache")
    check_versions(training.models, folder)
    data = study_data(run, training, folder)
    splits = read_splits(folder / "splits.json")
    trained = train_models(run, training, data)
    scores = score_frame(trained, start_scores(run, training, data, folder))
    tables = split_tables(run, training, splits)
    looks = scoring.count_looks(folder / "test_looks.json", data.split_key)
    return {
        **tables,
        "split_facts": tables["split_facts"].with_columns(pl.lit(looks, dtype=pl.Int64).alias("test_looks")),
        **training_tables(trained, scores, root=run.dir),
        "metrics_training": metrics_of(scores, dataset=run.recipe.name),
    }


def check_versions(models: Sequence[Trained], folder: Path) -> None:
    """Refuse finished trainings that other versions of the libraries made.

    Args:
        models: models of the recipe.
        folder: holds ``<model>/seed-<k>/``.

    Raises:
        ParameterError: one problem per training and library.
    """
    problems = []
    for spec in models:
        now = {k: v for k, v in versions(spec.library).items() if k in DECIDING}
        for seed in spec.seeds:
            place = folder / spec.name / f"seed-{seed}"
            was = (read_card(place) or {}).get("versions", now)
            remedy = "go back to that version, or delete the folder to train again, which looks at the test part again"
            problems += [
                Problem("other_version", f"{k} {now[k]}", f"{was.get(k)}, which trained it", remedy, file=str(place))
                for k in now
                if was.get(k) != now[k]
            ]
    if problems:
        raise ParameterError(problems)


def split_tables(run: Run, training: Training, splits: Splits) -> dict[str, pl.DataFrame]:
    """Tables ``splits``, ``split_facts`` (one row), ``split_table``, ``split_shape`` and ``leaks`` of a split."""
    frames, labels, media = (run.table(name) for name in ("frames", "labels", "media"))
    levels = levels_of(splits.level, training.split.refuse)
    # Near-duplicates that the recipe refuses were looked for before the split was kept; here only equal files are.
    leaks = find_leaks(frames, media, splits.table)
    facts = {"level": splits.level, "reason": splits.reason, "sha256": splits.sha256, "seed": splits.seed}
    facts |= {"refused": list(levels), "n_leaks": leaks.height, "n_unlabelled": splits.n_unlabelled}
    facts |= {"n_groups": splits.groups.height}
    return {
        "splits": splits.table.select("frame_id", pl.col("split").cast(pl.String), "sha256"),
        "split_facts": pl.DataFrame([facts], schema_overrides={"refused": pl.List(pl.String)}),
        "split_table": split_table(frames, labels, splits),
        "split_shape": split_shape(frames, labels, splits),
        "leaks": leaks,
    }


#: Bins of birds per frame: lower end and name.
CROWDS = ((0, "none"), (1, "1"), (2, "2"), (3, "3–5"), (6, "6–10"), (11, "11 and more"))


def split_shape(frames: pl.DataFrame, labels: pl.DataFrame, splits: Splits) -> pl.DataFrame:
    """How frames spread over birds per frame, and birds over relative sizes, in every part.

    Returns:
        ``split``, ``what`` (``birds per frame`` or ``relative size``), ``bin``, ``n`` (frames, or birds), ``share`` of the
        part's, in [0, 1] (null where the part has none). Bins without an entry in any part are left out.

    >>> from birdlab import schemas
    >>> frames = pl.DataFrame({"frame_id": ["a", "b"], "media_id": ["a", "b"], "video_id": ["s", "t"], "split": "test",
    ...     "frame_index": 0, "label_state": ["empty", "labelled"], "width_px": 100, "height_px": 100})
    >>> label = {"label_id": "1", "frame_id": "b", "category": "bird", "x": 0.0, "y": 0.0, "w": 10.0, "h": 10.0}
    >>> label |= {"is_crowd": False, "is_ignored": False}
    >>> frames, labels = (schemas.validate(k, v) for k, v in (("frames", frames), ("labels", pl.DataFrame([label]))))
    >>> from birdlab.recipe.training import Splitting
    >>> from birdlab.training.splits import make_splits
    >>> made = make_splits(frames, labels, Splitting(shares={"train": 0.5, "val": 0.5}))
    >>> split_shape(frames, labels, made).filter(pl.col("n") > 0).select("what", "bin", "share").sort("bin").rows()
    [('birds per frame', '1', 1.0), ('relative size', '1/16-1/8', 1.0), ('birds per frame', 'none', 1.0)]
    """
    from birdlab.detection.boxes import RELATIVE_BINS, relative_size, size_counts

    inside = splits.apply(frames).with_columns(pl.col("split").cast(pl.String))
    birds = labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd")).join(
        inside.select("frame_id", "split", "width_px", "height_px"), on="frame_id", how="inner"
    )
    counted = inside.join(birds.group_by("frame_id").len("birds"), on="frame_id", how="left")
    sized = birds.select("split", relative_size(*map(pl.col, ("w", "h", "width_px", "height_px"))).alias("size"))
    rows: list[dict[str, Any]] = []
    for part in splits.parts:
        crowd = counted.filter(pl.col("split") == part)["birds"].fill_null(0)
        for (low, name), high in zip(CROWDS, [*(low for low, _ in CROWDS[1:]), None], strict=True):
            n = int(((crowd >= low) & (crowd < high if high else True)).sum())
            rows.append({"split": part, "what": "birds per frame", "bin": name, "n": n})
        sizes = sized.filter(pl.col("split") == part)["size"].drop_nulls().to_numpy()
        for size, n in zip(RELATIVE_BINS, size_counts(sizes, RELATIVE_BINS), strict=True):
            rows.append({"split": part, "what": "relative size", "bin": size.level, "n": n})
    table = pl.DataFrame(rows, schema={"split": pl.String, "what": pl.String, "bin": pl.String, "n": pl.Int64})
    total = pl.col("n").sum().over("split", "what")
    table = table.with_columns(pl.when(total > 0).then(pl.col("n") / total).alias("share"))
    return table.filter(pl.col("n").sum().over("what", "bin") > 0)


def start_scores(run: Run, training: Training, data: TrainingData, folder: Path) -> dict[str, dict[str, Any]]:
    """Scores of the weights that models start from, before any training, on the same parts and by the same scores.

    They are kept as ``<model>/start.json`` and taken from there while weights, data, split and input size are the same: a
    look at the test part is counted once.

    Args:
        run: the study.
        training: section of the recipe.
        data: frames, labels and parts.
        folder: folder of the trainings.

    Returns:
        By model: part -> scores as :func:`birdlab.training.scoring.score_weights` gives them, or ``reason``: why weights
        to train on cannot be run as they are. Models that start from random weights are not in it.
    """
    from birdlab.inference import device as devices
    from birdlab.inference.weights import find_weights
    from birdlab.recipe import Model

    found: dict[str, dict[str, Any]] = {}
    on = None
    for spec in training.models:
        if spec.weights is None:
            continue
        on = on or devices.resolve_device(run.recipe.device)
        path = locate(spec.weights, run.base, run.base)
        try:
            weights = find_weights(Model(name=spec.name, weights=str(path.resolve())), run.base, run.base)
        except BirdlabError as error:
            found[spec.name] = {"reason": f"the weights to start from are no whole detector ({_first(error)})"}
            continue
        key = {"weights": weights.sha256, "data": data.sha256, "split": data.split_key, "imgsz": spec.imgsz}
        kept = folder / spec.name / "start.json"
        held = _read_start(kept, key)
        if held is None:
            held = _score_start(spec, data, path, device=on.name, folder=folder, sha256=weights.sha256)
            text = json.dumps({"key": key, "scores": held}, indent=1, ensure_ascii=False) + "\n"
            write_atomic(kept, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
        found[spec.name] = held
    return found


def _read_start(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return dict(held["scores"]) if held["key"] == key else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "delete it; the weights are then scored again"
        raise DataError(
            Problem("bad_start", str(error), "scores that birdlab wrote", remedy, file=str(path))
        ) from error


def _score_start(
    spec: Trained, data: TrainingData, path: Path, *, device: str, folder: Path, sha256: str
) -> dict[str, Any]:
    """Scores by part; weights without a head of their own give a reason instead."""
    scores: dict[str, Any] = {}
    for part in SCORED:
        try:
            scores[part] = scoring.score_weights(spec, data, path, part, device=device, cache=folder / "cache")
        except BirdlabError as error:
            return {"reason": f"the weights to start from cannot be run as they are ({_first(error)})"}
    if scores["test"] is not None:
        looks = folder / "test_looks.json"
        scoring.count_look(looks, data.split_key, f"{spec.name}/start", sha256)
    return scores


def _first(error: BirdlabError) -> str:
    return error.problems[0].found if error.problems else str(error)


def score_frame(trained: Sequence[TrainedModel], start: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """Every score as a row: model, seed (null for start weights), stage, part, metric, value, n_frames, n_birds, reason."""
    rows: list[dict[str, Any]] = []
    for model in trained:
        for part in SCORED:
            at = {"model": model.name, "seed": model.seed, "stage": "trained", "part": part}
            rows += _rows(at, model.scores.get(part), model.card["task"], "")
    tasks = {t.name: t.card["task"] for t in trained}
    for name, scores in start.items():
        for part in SCORED:
            at = {"model": name, "seed": None, "stage": "start", "part": part}
            rows += _rows(at, scores.get(part), tasks.get(name, "detect"), scores.get("reason", ""))
    return pl.DataFrame(rows, schema=SCORE_SCHEMA)


def _rows(at: dict[str, Any], scored: dict[str, Any] | None, task: str, reason: str) -> list[dict[str, Any]]:
    names = scoring.METRICS if task == "segment" else scoring.METRICS[:2]
    if scored is None:
        why = reason or f"no labelled frame in {at['part']}"
        return [{**at, "metric": name, "reason": why} for name in names]
    n = {"n_frames": scored["n_frames"], "n_birds": scored["n_birds"]}
    return [
        {**at, "metric": name, "value": scored.get(name), **n}
        | ({"reason": "no labelled bird to score"} if scored.get(name) is None else {})
        for name in names
    ]


def training_tables(trained: Sequence[TrainedModel], scores: pl.DataFrame, *, root: Path) -> dict[str, pl.DataFrame]:
    """Tables ``training_scores``, ``training_seeds``, ``training_variance``, ``training_curves`` and ``training_cards``.

    Args:
        trained: finished trainings.
        scores: as :func:`score_frame` gives them.
        root: folder that paths of the weights are written from.

    Returns:
        ``training_seeds`` is by model and part what :func:`birdlab.training.seeds.seed_table` gives; ``training_variance``
        what :func:`birdlab.training.seeds.seed_variance` gives, of the test part (of val where there is no test part).
    """
    mine = scores.filter(pl.col("stage") == "trained")
    seeds = [
        seed_table(mine.filter(pl.col("part") == part)).select(pl.lit(part).alias("part"), pl.all()) for part in SCORED
    ]
    part = "test" if any(t.scores.get("test") for t in trained) else "val"
    variance = seed_variance(session_table(trained, part)).select(pl.lit(part).alias("part"), pl.all())
    return {
        "training_scores": scores,
        "training_seeds": pl.concat(seeds),
        "training_variance": variance,
        "training_curves": cards_table.course_table(trained),
        "training_cards": cards_table.card_table(trained, root=root),
    }


def metrics_of(scores: pl.DataFrame, *, dataset: str) -> pl.DataFrame:
    """Scores as rows of ``metrics``: one per seed, their mean and standard deviation, and the start weights.

    The group is ``training``, the level the part; the deviation is the metric ``<name>_sd``, null with "1 seed".
    """
    rows = []
    for r in scores.iter_rows(named=True):
        method = "start weights" if r["stage"] == "start" else f"seed {r['seed']}"
        at = {"model": r["model"], "group": "training", "level": r["part"], "method": method, "n": r["n_birds"]}
        rows.append(metric_row(metric=r["metric"], value=r["value"], reason=r["reason"], **at))
    for part in SCORED:
        mine = scores.filter((pl.col("stage") == "trained") & (pl.col("part") == part))
        for r in seed_table(mine).iter_rows(named=True):
            at = {"model": r["model"], "group": "training", "level": part, "n": r["n_seeds"]}
            at["method"] = f"{r['n_seeds']} seeds" if r["n_seeds"] != 1 else "1 seed"
            no_mean = r["reason"] if r["mean"] is None else None
            rows.append(metric_row(metric=f"{r['metric']}_mean", value=r["mean"], reason=no_mean, **at))
            rows.append(metric_row(metric=f"{r['metric']}_sd", value=r["sd"], reason=r["reason"], **at))
    return metric_frame({**row, "dataset": dataset} for row in rows)
