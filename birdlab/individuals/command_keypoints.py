"""``birdlab score keypoints``: points by hand and of models in, errors in px, PCK and OKS AP out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.errors import EXIT_OK, DataError, ParameterError, Problem
from birdlab.individuals.command_actions import aligned
from birdlab.individuals.keypoints import MISSED, NOT_PLACED, PIXELS, SHARES, keypoint_scores, score_intervals
from birdlab.individuals.oks import oks_numbers, sigma_list
from birdlab.individuals.poses import keypoint_table

if TYPE_CHECKING:
    from birdlab.readers.coco_keypoints import Poses

_ERRORS = ("mean_px", "median_px", "p95_px")
_COUNTS = ("n_instances", "n_points", "n_missing")
_NO_INTERVAL = "too few videos"


def score_command(args: argparse.Namespace) -> int:
    """Score the models and print a table, or with ``--json`` one object.

    Args:
        args: truth, predictions, sigmas (a number, or a JSON file keypoint → number), scene, session, json.

    Raises:
        DataError: a file cannot be scored; the problems of all files (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types; see :func:`score_command`."""
    from birdlab.detection.command import model_names
    from birdlab.readers.coco_keypoints import read_truth
    from birdlab.readers.pose_files import read_poses

    declared = read_sigmas(args.sigmas)
    truth = read_truth(args.truth, scene=args.scene, session=args.session)
    sigmas = sigma_list(truth.names, declared)
    found, problems = {}, []
    for name, path in zip(model_names(args.predictions), args.predictions, strict=True):
        try:
            found[name] = read_poses(path, truth)
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    return {
        "keypoints": list(truth.names),
        "n_images": len(truth.images),
        "models": [_model(name, truth, poses, sigmas) for name, poses in found.items()],
        "notices": [{"code": n.code, "message": n.message, "n": n.n} for n in truth.notices],
    }


def read_sigmas(text: str) -> float | dict[str, float]:
    """A number for all keypoints, or a JSON file with one for each.

    Raises:
        ParameterError: neither; a number that is not above 0.

    >>> read_sigmas("0.05")
    0.05
    """
    from birdlab.jsonfile import read_json

    try:
        value: Any = float(text)
    except ValueError:
        value = read_json(Path(text), source=text)
    sigmas = value if isinstance(value, dict) else {"": value}
    for name, sigma in sigmas.items():
        if isinstance(sigma, bool) or not isinstance(sigma, (int, float)) or not 0 < sigma < float("inf"):
            expected = "a number above 0, or a JSON object keypoint → number"
            raise ParameterError(Problem("bad_value", str(sigma)[:60], expected, key=f"--sigmas {name}".strip()))
    return {k: float(v) for k, v in sigmas.items()} if isinstance(value, dict) else float(value)


def _model(name: str, truth: Poses, found: Poses, sigmas: Sequence[float]) -> dict[str, Any]:
    points, told = keypoint_table(truth, found, model=name, sigmas=sigmas)
    scores = keypoint_scores(points)
    reasons = _reasons(scores)
    ends = score_intervals(points)
    intervals: dict[str, list[float] | None] = {}
    for key, at in ends.items():
        intervals[key] = None if at.lo is None or at.hi is None else [at.lo, at.hi]
        if intervals[key] is None:
            reasons[f"intervals.{key}"] = at.reason or _NO_INTERVAL
    oks: dict[str, Any] = {}
    for row in oks_numbers(truth, found, sigmas):
        key = row["measure"]
        oks[key] = row["value"]
        intervals[f"oks_{key}"] = None if row["lo"] is None else [row["lo"], row["hi"]]
        if row["reason"]:
            reasons[f"oks.{key}" if row["value"] is None else f"intervals.oks_{key}"] = row["reason"]
    return {
        "name": name,
        **_plain(scores),
        "intervals": intervals,
        "n_videos": max((at.n_clusters for at in ends.values()), default=0),
        "oks": {**oks, "sigmas": dict(zip(truth.names, sigmas, strict=True))},
        "by_keypoint": _by(points, "keypoint"),
        "by_scene": _by(points.drop_nulls("scene"), "scene"),
        "warnings": [f"{n.message} ({n.n:,})" for n in (*found.notices, *told)],
        "reasons": reasons,
    }


def _by(points: pl.DataFrame, column: str) -> list[dict[str, Any]]:
    rows = []
    for (level,), part in points.group_by(column, maintain_order=True):
        scores = keypoint_scores(part)
        rows.append({column: level, **_plain(scores), "reasons": _reasons(scores)})
    return rows


def _plain(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores with PCK by distance, as declared: in px, and in shares of the longer side of the bird's box."""
    out = {k: scores[k] for k in (*_COUNTS, *_ERRORS)}
    out["pck"] = {f"{t:g}": scores[f"pck_{t:g}"] for t in PIXELS}
    return out | {"pck_normalised": {f"{s:g}": scores[f"pck_norm_{s:g}"] for s in SHARES}}


def _reasons(scores: Mapping[str, Any]) -> dict[str, str]:
    if not scores["n_points"]:
        return dict.fromkeys((*_ERRORS, "pck", "pck_normalised"), MISSED)
    return dict.fromkeys((k for k in _ERRORS if scores[k] is None), NOT_PLACED)


def printed(report: dict[str, Any]) -> str:
    """The result as text: one row per model, then each model by keypoint and by scene."""
    heads = ["birds", "points", "missing", "mean px", "median", "95 %", *(f"PCK@{t:g}" for t in PIXELS)]
    heads += [f"PCK@{s:g} box" for s in SHARES]
    rows = [["model", *heads, "OKS AP"]]
    rows += [[m["name"], *_cells(m), _n(m["oks"]["ap"])] for m in report["models"]]
    n = len(report["keypoints"])
    lines = [
        f"{n} keypoints, {report['n_images']:,} pictures; a missing point is beyond every distance",
        *aligned(rows),
    ]
    for m in report["models"]:
        for group in ("keypoint", "scene"):
            if m[f"by_{group}"]:
                rows = [[group, *heads], *([str(r[group]), *_cells(r)] for r in m[f"by_{group}"])]
                lines += ["", m["name"], *aligned(rows)]
        sigmas = sorted(set(m["oks"]["sigmas"].values()))
        lines += [f"OKS with sigma {', '.join(f'{s:g}' for s in sigmas)}"]
        lines += [f"note: {text}" for text in m["warnings"]]
    lines += [f"note: {n['message']} ({n['n']:,})" for n in report["notices"]]
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    shares = [*row["pck"].values(), *row["pck_normalised"].values()]
    return [*(str(row[k]) for k in _COUNTS), *(_n(row[k], 2) for k in _ERRORS), *(_n(s) for s in shares)]


def _n(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
