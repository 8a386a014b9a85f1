"""What ``birdlab check`` does with a recipe: its keys, its notebooks and their parameters, and every file that it names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import yaml

from birdlab.check.abstention import check_abstention
from birdlab.check.data import check_promises
from birdlab.check.individuals import check_individuals
from birdlab.check.note import Found, caught, found_in, note
from birdlab.check.reid import check_reid
from birdlab.check.soundscapes import check_soundscapes
from birdlab.check.training import check_models, check_split
from birdlab.datapackage import read_manifest
from birdlab.errors import EXIT_DATA, BirdlabError, Problem
from birdlab.readers.labels import locate
from birdlab.recipe import Model, Recipe, load_recipe, load_yaml_scalar, resolve


def is_recipe(path: Path) -> bool:
    """Whether a YAML file is meant as a recipe: a mapping with ``name`` and ``data`` (a YOLO ``data.yaml`` is none)."""
    try:
        content = load_yaml_scalar(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return isinstance(content, dict) and {"name", "data"} <= set(content)


def check_recipe(path: Path) -> list[Found]:
    """Everything that would stop or bend a run of a recipe; nothing is run, no picture is decoded.

    Raises:
        ParameterError: the recipe itself cannot be read; nothing else was checked.
    """
    recipe = load_recipe(path)
    base = path.parent
    root = resolve(recipe.data.root, base)
    found = caught(lambda: _notebooks(recipe, path))
    for model in recipe.models:
        if model.weights:
            found += caught(lambda model=model: _weights(model, base, root))
    found += caught(lambda: _clip_networks(recipe, base, root))
    found += check_reid(recipe, base, root)
    found += check_individuals(recipe, base, root)
    found += check_soundscapes(recipe, base, root)
    found += check_abstention(recipe, path, base, root)
    found += check_models(recipe, base)
    if recipe.data.generator:
        # The data are not made yet: of the manifest only the form can be checked.
        if recipe.data.manifest:
            found += caught(lambda: _form(locate(recipe.data.manifest, base, root)))
        return found
    if recipe.data.manifest:
        found += caught(lambda: check_promises(locate(recipe.data.manifest, base, root), root))
    # A recipe about abstention alone has nothing recorded, and may have no folder of data.
    return found + caught(lambda: _study(recipe, path, base, root)) if recipe.has_media else found


def _notebooks(recipe: Recipe, path: Path) -> Iterable[Found]:
    from birdlab.report.plan import plan

    plan(recipe, path)
    return []


def _weights(model: Model, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.inference.weights import find_weights

    find_weights(model, base, root)
    return []


def _clip_networks(recipe: Recipe, base: Path, root: Path) -> Iterable[Found]:
    if recipe.tracking and recipe.tracking.classifiers:
        from birdlab.inference.clip_network import find_clip_weights, safe_script

        for spec in recipe.tracking.classifiers:
            weights = find_clip_weights(spec, base, root)
            if weights.kind == "torchscript":
                safe_script(weights.path)
    return []


def _form(manifest: Path) -> Iterable[Found]:
    read_manifest(manifest)
    return []


def _study(recipe: Recipe, path: Path, base: Path, root: Path) -> list[Found]:
    from birdlab.readers.study import read_study

    if not root.is_dir():
        what = "a file" if root.exists() else "no such folder"
        return [
            (
                EXIT_DATA,
                Problem(
                    "no_data_root", what, "the folder of the data", "correct data.root", file=str(path), key="data.root"
                ),
            )
        ]
    missing = [entry.path for entry in recipe.data.labels if not locate(entry.path, base, root).exists()]
    missing += [
        model.predictions
        for model in recipe.models
        if model.predictions and not locate(model.predictions, base, root).exists()
    ]
    found: list[Found] = [
        (
            EXIT_DATA,
            Problem(
                "no_file",
                f"no file or folder {name}",
                "a path from the recipe's folder",
                "correct the path",
                file=str(path),
            ),
        )
        for name in missing
    ]
    left = [entry for entry in recipe.data.labels if entry.path not in missing]
    data = recipe.data.model_copy(update={"labels": left})
    try:
        study = read_study(recipe.model_copy(update={"data": data}), base, root)
    except BirdlabError as error:
        return found + found_in(error)
    found += [note(code, f"{message} ({n:,})", file) for code, message, n, file in study.notices.iter_rows()]
    if not missing:  # without its labels a study cannot be split
        found += check_split(recipe, study.frames, study.labels, study.media)
    for model in recipe.models:
        if model.predictions and model.predictions not in missing:
            found += caught(lambda model=model: _predictions(model, study.frames, recipe, base, root))
    return found


def _predictions(model: Model, frames: pl.DataFrame, recipe: Recipe, base: Path, root: Path) -> list[Found]:
    from birdlab.readers.predictions import read_predictions

    _, failures, notices = read_predictions(
        model, frames, recipe.data.labels, base, root, categories=recipe.data.categories
    )
    found = (
        [note("failures", f"model {model.name} could not be asked about {failures.height:,} frames", model.predictions)]
        if failures.height
        else []
    )
    return found + [note(code, f"{message} ({n:,})", file) for code, message, n, file in notices.iter_rows()]
