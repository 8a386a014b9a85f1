"""``birdlab check``: every problem of a recipe, manifest, data file or notebook in one list; nothing is run.

What makes a run impossible or a number wrong is an error; what was assumed, skipped or looks odd is a note.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from birdlab.check.data import (
    check_coco,
    check_images,
    check_labelme,
    check_labels,
    check_manifest,
    check_megadetector,
    check_results,
    check_texts,
    check_videos,
    check_weights,
)
from birdlab.check.note import Found, Note, caught
from birdlab.check.recipe import check_recipe, is_recipe
from birdlab.datapackage import DESCRIPTOR, capped
from birdlab.errors import EXIT_DATA, EXIT_OK, EXIT_USAGE, DataError, Problem
from birdlab.init.look import Survey, look
from birdlab.jsonfile import read_json
from birdlab.kinds import IMAGE_SUFFIXES, VIDEO_SUFFIXES, WEIGHT_SUFFIXES, json_kind, list_folder, suffix_of, unusable

__all__ = ["Note", "check_command", "check_path"]

_KINDS = "a recipe, manifest, notebook, picture, video, COCO, LabelMe, MegaDetector or YOLO file, or a folder of them"


def check_command(args: argparse.Namespace) -> int:
    """Check every path of ``args.paths`` and print what was found, as lines or (``args.json``) as one JSON object.

    Returns:
        0 when nothing is wrong, 2 for problems of a recipe or a notebook, 3 for problems of data only.
    """
    found = [
        (code, replace(problem, file=problem.file or str(path)))
        for path in args.paths
        for code, problem in findings(path, args.against)
    ]
    errors = [(code, problem) for code, problem in found if not isinstance(problem, Note)]
    notes = [problem for _, problem in found if isinstance(problem, Note)]
    if args.json:
        body = {"errors": [p.as_json() for _, p in errors], "warnings": [p.as_json() for p in notes]}
        sys.stdout.write(json.dumps(body, ensure_ascii=False) + "\n")
    else:
        lines = [f"error  {problem}" for _, problem in errors] + [f"note   {problem}" for problem in notes]
        sys.stdout.write("\n".join([*lines, _verdict(len(args.paths), len(errors), len(notes)), ""]))
    if not errors:
        return EXIT_OK
    return EXIT_USAGE if any(code == EXIT_USAGE for code, _ in errors) else EXIT_DATA


def _verdict(n_paths: int, n_errors: int, n_notes: int) -> str:
    errors = "no errors" if not n_errors else "1 error" if n_errors == 1 else f"{n_errors} errors"
    notes = "" if not n_notes else ", 1 note" if n_notes == 1 else f", {n_notes} notes"
    return f"{errors}{notes} in {'1 path' if n_paths == 1 else f'{n_paths} paths'}"


def check_path(path: Path | str, against: Path | str | None = None) -> list[Problem]:
    """Everything that is wrong with a file, or with the files of a folder, and what is worth knowing.

    Args:
        path: a recipe (YAML), manifest, notebook, picture, video, COCO ground truth or results, LabelMe or
            MegaDetector JSON, YOLO label file, or a folder of such.
        against: COCO ground truth that results files belong to.

    Returns:
        Problems; those of class :class:`~birdlab.check.note.Note` stop nothing. Empty when all is well.
    """
    return [problem for _, problem in findings(Path(path), Path(against) if against else None)]


def findings(path: Path, against: Path | None = None) -> list[Found]:
    """As :func:`check_path`, each problem with the exit code that it calls for."""
    path = path.expanduser()
    suffix = suffix_of(path.name)
    if not path.exists():
        code = EXIT_USAGE if suffix in (".yaml", ".yml", ".ipynb") else EXIT_DATA
        what = "a link to nothing" if path.is_symlink() else "no such file or folder"
        return [(code, Problem("no_file", what, _KINDS, "check the spelling", file=str(path)))]
    if path.is_dir():
        return caught(lambda: _folder(path, against))
    return caught(lambda: _file(path, suffix, against))


def _file(path: Path, suffix: str, against: Path | None) -> list[Found]:
    if suffix in (".yaml", ".yml"):
        return check_recipe(path)
    if suffix == ".ipynb":
        from birdlab.report.notebook import check_notebook

        return [(EXIT_USAGE, problem) for problem in check_notebook(path)]
    if suffix in IMAGE_SUFFIXES:
        return check_images([path])
    if suffix in VIDEO_SUFFIXES:
        return check_videos([path])
    if suffix in WEIGHT_SUFFIXES:
        return check_weights(path)
    if suffix == ".json":
        return _json(path, against)
    if suffix == ".txt":
        return check_texts([path])
    return [(EXIT_DATA, Problem("unknown_kind", f"a file ending in {suffix or 'nothing'}", _KINDS, file=str(path)))]


def _json(path: Path, against: Path | None) -> list[Found]:
    content = read_json(path)
    kind = json_kind(content)
    if kind == "manifest":
        return check_manifest(path)
    if kind == "megadetector":
        return check_megadetector(path)
    if kind == "labelme":
        return check_labelme(path)
    if isinstance(content, list) or (against is not None and kind == "other"):
        return check_results(path, against, content)
    if kind == "coco" or (isinstance(content, dict) and {"images", "annotations", "categories"} & set(content)):
        return check_coco(path)
    found = type(content).__name__
    if isinstance(content, dict):
        found = f"an object with the keys {', '.join(map(str, list(content)[:6]))}" if content else "an empty object"
    return [(EXIT_DATA, Problem("unknown_kind", found, _KINDS, file=str(path)))]


def _folder(path: Path, against: Path | None) -> list[Found]:
    """Everything inside a folder, by kind."""
    listing = list_folder(path)
    survey = look(listing)
    found: list[Found] = [(EXIT_DATA, problem) for problem in (*survey.problems, *capped(unusable(listing)))]
    found += [
        (EXIT_DATA, Problem("unreadable", reason, "a folder that can be opened", file=str(path / name)))
        for name, reason in listing.unreadable
    ]
    seen = (
        len(survey.photos)
        + len(survey.videos)
        + len(survey.labels)
        + len(survey.results)
        + len(survey.weights)
        + len(survey.problems)
    )
    found += check_images([path / name for name in survey.photos])
    found += check_videos([path / name for name in survey.videos])
    truths = _truths(survey)
    for source in survey.labels:
        if source.format == "coco":
            found += caught(partial(check_coco, path / source.path))
    for result in survey.results:
        if result.format == "coco":
            content = read_json(path / result.path)
            truth = against or truths.get(result.path.rpartition("/")[0])
            found += caught(partial(check_results, path / result.path, truth, content))
        elif result.format == "megadetector":
            found += caught(partial(check_megadetector, path / result.path))
        else:
            found += check_texts([path / name for name in result.files])
    found += check_labels(survey)
    for name in listing.files:
        if Path(name).name == DESCRIPTOR:
            found, seen = found + caught(partial(check_manifest, path / name)), seen + 1
        elif suffix_of(name) == ".ipynb" or (suffix_of(name) in (".yaml", ".yml") and is_recipe(path / name)):
            found, seen = found + caught(partial(_file, path / name, suffix_of(name), against)), seen + 1
    if not seen and not found:
        what = "an empty folder" if not listing.files else f"{len(listing.files)} files of other kinds"
        raise DataError(Problem("nothing_to_check", what, _KINDS, file=str(path)))
    return found


def _truths(survey: Survey) -> dict[str, Any]:
    """The ground truth of a folder's results: its COCO file, where it has only one."""
    by_folder: dict[str, list[Path]] = {}
    for source in survey.labels:
        if source.format == "coco":
            by_folder.setdefault(source.path.rpartition("/")[0], []).append(survey.listing.root / source.path)
    return {folder: paths[0] for folder, paths in by_folder.items() if len(paths) == 1}
