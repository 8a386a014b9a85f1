"""``birdlab init``: from a folder to a recipe and a manifest, asking only what cannot be seen."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.datapackage import DESCRIPTOR, capped, slug
from birdlab.errors import EXIT_OK, BirdlabError, DataError, ParameterError, Problem
from birdlab.init.ask import ask_all, from_flags, questions, stated_licences
from birdlab.init.look import Survey, look
from birdlab.init.recipe import Choices, model_names, recipe_text, relative
from birdlab.init.words import defaults_taken, describe, plural
from birdlab.kinds import list_folder, unusable
from birdlab.manifest import hash_files, resource, write_manifest
from birdlab.progress import progress
from birdlab.recipe import Recipe, load_yaml_scalar, parse_recipe
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    from birdlab.readers.study import StudyTables

#: Work on fewer files than this shows no progress.
_QUICK = 200
_FLAGS = ("session", "site", "no_label", "truth", "licence", "source")


def initialise(args: argparse.Namespace) -> int:
    """Look at a folder, say what was found, ask what cannot be seen, and write a recipe and a manifest.

    Args:
        args: ``folder``, ``name``, ``out``, ``session``, ``site``, ``no_label``, ``truth``, ``licence``, ``source``,
            ``yes``, ``force``; see ``birdlab init --help``.

    Returns:
        0. What is written loads, and its study reads; otherwise nothing is written.

    Raises:
        ParameterError: something to be asked has no flag and nobody is there to answer, a flag cannot be used, or
            files are there already.
        DataError: the folder cannot be looked at, holds nothing of use, or its labels have problems.
    """
    out, folder = args.out.expanduser().resolve(), args.folder.expanduser()
    listing = list_folder(folder, leave_out=(out / "reports", out / "data_manifests"))
    name = _study_name(args.name, folder)
    recipe_path, manifest = out / "reports" / f"{name}.yaml", out / "data_manifests" / name
    _refuse_overwriting(recipe_path, manifest, force=args.force)
    with _progress("looking", len(listing.with_suffix({".json", ".txt"}))) as step:
        survey = look(replace(listing, root=listing.root.resolve()), step)
    _refuse_useless(survey, folder)
    sys.stdout.write(describe(survey, str(folder)) + "\n")
    given = {key: getattr(args, key, None) for key in _FLAGS}
    values = from_flags(survey, given, name)
    asked = questions(survey, given, name)
    if args.yes and asked:
        sys.stdout.write(defaults_taken(asked) + "\n")
    values |= {q.key: q.default for q in asked} if args.yes else ask_all(asked)
    if not values.get("licence") and len(stated := stated_licences(survey)) == 1:
        values["licence"] = stated[0]
    choices = Choices(name, **{key: value for key, value in values.items() if value is not None})
    study, left_out = _try(survey, choices)
    for path, problem in left_out.items():
        sys.stdout.write(f"Left out, since it does not fit these pictures: {path}\n  {problem}\n")
    _write(survey, choices, study, list(left_out), recipe_path, manifest)
    sys.stdout.write(_farewell(survey, recipe_path, manifest, list(left_out)))
    return EXIT_OK


def _study_name(given: str | None, folder: Path) -> str:
    if given is None:
        return slug(Path(os.path.normpath(folder.absolute())).name).strip("-_.") or "study"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", given):
        expected = "letters, digits, dots, hyphens and underscores, beginning with a letter or a digit"
        raise ParameterError(Problem("bad_value", repr(given), expected, key="--name"))
    return given


def _refuse_overwriting(recipe_path: Path, manifest: Path, *, force: bool) -> None:
    there = [path for path in (recipe_path, manifest / DESCRIPTOR) if path.exists()]
    if there and not force:
        remedy = "choose another --name, or replace it with --force"
        raise ParameterError(
            [Problem("exists", "a file of that name", "none", remedy, file=str(path)) for path in there]
        )


def _refuse_useless(survey: Survey, folder: Path) -> None:
    if problems := unusable(survey.listing):
        raise DataError(capped(problems))
    if survey.photos or survey.videos:
        return
    if not survey.listing.files:
        found = "an empty folder"
    elif survey.labels or survey.results:
        found = "labels or results without their pictures"
    elif survey.weights:
        found = "detectors without pictures"
    else:
        kinds = ", ".join(f"{n} {ending}" for ending, n in list(survey.others.items())[:5])
        found = f"no pictures and no videos ({kinds})" if kinds else "no pictures and no videos"
    remedy = "give the folder that holds the pictures with, somewhere below, their labels"
    expected = "pictures (jpg, png, tif …) or videos (mp4, mov, avi …)"
    raise DataError([Problem("nothing_of_use", found, expected, remedy, file=str(folder)), *survey.problems])


@contextmanager
def _progress(label: str, n: int) -> Iterator[Callable[[int, int], None] | None]:
    with progress(label, unit="files") if n >= _QUICK else nullcontext() as step:
        yield step


def _try(survey: Survey, choices: Choices) -> tuple[StudyTables, dict[str, str]]:
    """Read the study as the recipe will have it; results that do not fit it are named with their first problem."""
    from birdlab.readers.predictions import read_predictions
    from birdlab.readers.study import read_study

    # As if the recipe lay among the data: its own folder need not be there yet.
    root = survey.listing.root
    recipe = _parsed(recipe_text(survey, choices, root, None))
    study = read_study(recipe, root, root)
    left_out: dict[str, str] = {}
    for result, model in zip(survey.results, recipe.models, strict=False):
        try:
            read_predictions(model, study.frames, recipe.data.labels, root, root, categories=recipe.data.categories)
        except BirdlabError as error:
            left_out[result.path] = str(error.problems[0]) if error.problems else str(error)
    return study, left_out


def _parsed(text: str) -> Recipe:
    return parse_recipe(load_yaml_scalar(text), source="the recipe to be written")


def _write(
    survey: Survey, choices: Choices, study: StudyTables, left_out: list[str], recipe_path: Path, manifest: Path
) -> None:
    """Write the manifest, then the recipe; a manifest without its recipe is taken back."""
    files, resources = _described(survey, study)
    text = recipe_text(
        survey, choices, recipe_path.parent, relative(manifest / DESCRIPTOR, recipe_path.parent), left_out
    )
    _parsed(text)
    was_there = manifest.exists()
    try:
        write_manifest(
            manifest,
            name=choices.name,
            files=files,
            resources=resources,
            title=choices.name,
            licences=_licences(choices.licence),
            sources=[{"title": choices.source}] if choices.source else [],
        )
        write_atomic(recipe_path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    except OSError as error:
        if not was_there:
            shutil.rmtree(manifest, ignore_errors=True)
        problem = Problem(
            "not_written",
            error.strerror or "an error",
            "a folder that can be written to",
            "choose another --out",
            file=str(recipe_path.parent.parent),
        )
        raise ParameterError(problem) from error


def _described(survey: Survey, study: StudyTables) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Rows of ``files.csv`` (photographs and their small label files) and resources (all else that is used)."""
    root = survey.listing.root
    many = [file for source in (*survey.labels, *survey.results) if len(source.files) > 1 for file in source.files]
    single = [file for source in (*survey.labels, *survey.results) if len(source.files) == 1 for file in source.files]
    extra = [source.classes for source in survey.labels if source.classes]
    weights = [file for model in survey.weights for file in model.files]
    rows = [*survey.photos, *many]
    alone = list(dict.fromkeys([*survey.videos, *single, *extra, *weights]))
    paths = [root / name for name in (*rows, *alone)]
    with _progress("hashing", len(paths)) as step:
        hashes = hash_files(paths, progress=step)
    sizes = [path.stat().st_size for path in paths]
    shown = {m: (w, h) for m, w, h in study.media.select("media_id", "width_px", "height_px").iter_rows()}
    photos = set(survey.photos)
    table = [
        (name, "photograph" if name in photos else "label", size, f"sha256:{digest}", *shown.get(name, (None, None)))
        for name, size, digest in zip(rows, sizes, hashes, strict=False)
    ]
    schema = {
        "path": pl.String,
        "kind": pl.String,
        "bytes": pl.Int64,
        "hash": pl.String,
        "width_px": pl.Int32,
        "height_px": pl.Int32,
    }
    n = len(rows)
    resources = [
        resource(name, bytes=size, sha256=digest, **_size_of(shown.get(name)))
        for name, size, digest in zip(alone, sizes[n:], hashes[n:], strict=True)
    ]
    return pl.DataFrame(table, schema=schema, orient="row"), resources


def _size_of(shown: tuple[int | None, int | None] | None) -> dict[str, int]:
    return {"width_px": shown[0], "height_px": shown[1]} if shown and shown[0] and shown[1] else {}


def _licences(text: str) -> list[dict[str, str]]:
    if not text:
        return []
    if re.match(r"https?://", text):
        return [{"path": text}]
    # Frictionless wants an identifier (CC0-1.0) as name; words go into the title.
    return [{"name": text}] if re.fullmatch(r"[A-Za-z0-9.+-]+", text) else [{"name": slug(text), "title": text}]


def _farewell(survey: Survey, recipe_path: Path, manifest: Path, left_out: Sequence[str]) -> str:
    here = Path.cwd()
    recipe = _shown(recipe_path, here)
    models = [
        name
        for name, model in zip(model_names(survey), (*survey.results, *survey.weights), strict=True)
        if model.path not in left_out
    ]
    lines = [f"\nWrote {recipe}", f"Wrote {_shown(manifest / DESCRIPTOR, here)}"]
    if not models:
        lines.append("There is no model yet: add weights or predictions under `models:` to score one.")
    else:
        lines.append(f"{plural(len(models), 'model')}: {', '.join(models)}.")
    return "\n".join([*lines, f"Next: birdlab run {shlex.quote(recipe)}", ""])


def _shown(path: Path, here: Path) -> str:
    shorter = os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
    return PurePosixPath(Path(shorter).as_posix()).as_posix()
