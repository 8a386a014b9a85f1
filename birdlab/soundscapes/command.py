"""``birdlab score soundscapes``: a ground truth and run files in, c-mAP and r-mAP under four rules for ties out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from birdlab.errors import EXIT_OK, BirdlabError, DataError, ParameterError, Problem
from birdlab.soundscapes.coded import Truth
from birdlab.soundscapes.scores import RULES, run_scores
from birdlab.soundscapes.truth import code_truth

#: Keys of a run in the order in which they are printed.
MEASURES = tuple(f"{name}{rule}" for name in ("cmap", "rmap") for rule in ("", "_pessimistic", "_step", "_expected"))
_COUNTS = ("n_rel", "n_listed", "n_hit")
_PRINTED = 12
#: What is found where a run is in another layout, and what to do.
LAYOUTS = {"wide": "a wide submission", "birdnet": "a table of BirdNET"}
IN_A_RECIPE = "name it in a recipe, under soundscapes, runs: birdlab run reads it"


def score_command(args: argparse.Namespace) -> int:
    """Score the runs and print a table, or with ``--json`` one object.

    Args:
        args: truth, runs (paths), classes, recordings, lenient, max_classes, json (see ``birdlab score soundscapes
            --help``).

    Returns:
        The exit code, 0.

    Raises:
        ParameterError: an option has a value that cannot be used (exit 2).
        DataError: a file cannot be read; all problems of all files (exit 3).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types: runs, warnings, reasons; see :func:`score_command`."""
    from birdlab.detection.command import model_names
    from birdlab.readers.foreign_run import layout_of
    from birdlab.readers.runfile import read_run

    if args.max_classes is not None and args.max_classes < 1:
        expected = "a number of classes from 1 on"
        raise ParameterError(Problem("bad_value", str(args.max_classes), expected, key="--max-classes"))
    truth, warnings = _truth(args.truth, args.classes, args.recordings)
    runs: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for path, name in zip(args.runs, model_names(args.runs), strict=True):
        try:
            if (layout := layout_of(path)) != "run" and path.is_file():
                raise DataError(Problem("layout", LAYOUTS[layout], "a run file", IN_A_RECIPE, file=str(path)))
            coded = read_run(path, truth, name=name, lenient=args.lenient, max_classes=args.max_classes)
            runs.append(_entry(run_scores(truth, coded)))
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    reasons = {f"{run['name']}.{key}": why for run in runs for key, why in run["reasons"].items()}
    return {"runs": runs, "warnings": warnings, "reasons": reasons}


def _truth(truth: Path, classes: Path | None, recordings: Path | None) -> tuple[Truth, list[str]]:
    """The coded truth and what its readers remark; the problems of all three files end in one error."""
    from birdlab.readers.class_list import read_classes
    from birdlab.readers.soundscape_recordings import read_recordings
    from birdlab.readers.soundscape_truth import read_annotations

    problems: list[Problem] = []

    def tried(read: Any, path: Path | None) -> Any:
        if path is None:
            return None
        try:
            return read(path)
        except BirdlabError as error:
            problems.extend(p if p.file else replace(p, file=str(path)) for p in error.problems)
            return None

    names = tried(read_classes, classes)
    table = tried(read_recordings, recordings)
    given = {"recordings": table[0] if table else None, "classes": names[0] if names else None}
    read = tried(lambda path: read_annotations(path, **given), truth)
    if problems:
        raise DataError(problems)
    coded = code_truth(read.annotations, table[0] if table else None, names[0] if names else None, file=str(truth))
    notices = [*(names[1] if names else ()), *(table[1] if table else ()), *read.notices]
    told = [f"{n.message} ({n.n:,})" for n in notices]
    if recordings is None:
        told.append("no --recordings: lengths are not known, and recordings without an annotation not at all")
    if classes is None:
        told.append("no --classes: the species of the ground truth are the ones that may be answered")
    return coded, list(dict.fromkeys(told))


def _entry(scores: Mapping[str, Any]) -> dict[str, Any]:
    """One run of the result."""
    classes = scores["classes"].select("class_id", *_COUNTS, *RULES).to_dicts()
    kept = {key: scores[key] for key in ("name", *MEASURES, "n_classes", "n_segments")}
    warnings = [f"{w['code']}: {w['message']} ({w['n']:,})" for w in scores["warnings"]]
    return {**kept, "classes": classes, "warnings": warnings, "reasons": scores["reasons"]}


def printed(report: Mapping[str, Any]) -> str:
    """The result as text: one line per run, then the species of a single run, best first."""
    from birdlab.individuals.command_actions import aligned

    heads = ("run", "c-mAP", "worst ties", "expected", "step", "r-mAP", "worst ties", "species", "segments")
    keys = ("cmap", "cmap_pessimistic", "cmap_expected", "cmap_step", "rmap", "rmap_pessimistic")
    table: list[Sequence[str]] = [heads]
    for run in report["runs"]:
        counts = (f"{run['n_classes']:,}", f"{run['n_segments']:,}")
        table.append((run["name"], *(_n(run[key]) for key in keys), *counts))
    lines = aligned(table)
    if len(report["runs"]) == 1:
        lines += ["", *_species(report["runs"][0]["classes"])]
    lines += [f"note: {text}" for text in report["warnings"]]
    for run in report["runs"]:
        lines += [f"note: {run['name']}: {text}" for text in run["warnings"]]
        lines += [f"note: {run['name']}: {why}" for why in dict.fromkeys(run["reasons"].values())]
    return "\n".join(lines) + "\n"


def _species(classes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The species, or the best and the worst of many."""
    from birdlab.individuals.command_actions import aligned

    ranked = sorted(classes, key=lambda c: (-c["ap"], c["class_id"]))
    left_out = len(ranked) - 2 * _PRINTED
    shown = ranked if left_out <= 0 else [*ranked[:_PRINTED], *ranked[-_PRINTED:]]
    rows = [
        (c["class_id"], _n(c["ap"]), _n(c["ap_pessimistic"]), *(f"{c[k]:,}" for k in ("n_hit", "n_rel", "n_listed")))
        for c in shown
    ]
    lines = aligned([("species", "AP", "worst ties", "found", "of segments", "listed"), *rows])
    return [*lines, f"({left_out:,} species between these: --json has all)"] if left_out > 0 else lines


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


__all__ = ["MEASURES", "printed", "score", "score_command"]
