"""``birdlab score detection``: COCO files in, scores out, as a table or as one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.detection.engine import Evaluation, evaluate
from birdlab.detection.masks import evaluate_masks, has_masks
from birdlab.detection.matching import at_confidence, match
from birdlab.detection.scores import max_f1, max_f1_warning, operating_point
from birdlab.errors import EXIT_OK, BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.coco import CocoTruth, read_ground_truth, read_results
from birdlab.shards import write_atomic

_MATCH_FILES = {".csv", ".parquet"}


def score_command(args: argparse.Namespace) -> int:
    """Score results files against ground truth and print what came out.

    Args:
        args: truth, predictions, iou, conf, max_dets, engine, class_agnostic, matches, json (see ``birdlab score
            detection --help``).

    Returns:
        The exit code, 0.

    Raises:
        ParameterError: an option has a value that cannot be used (exit 2).
        DataError: a file cannot be scored; every problem of every file is in it (exit 3).
    """
    _check_options(args)
    truth, models = _read(args.truth, args.predictions)
    frames = frames_of(truth)
    scores, kept = [], []
    for name, (predictions, warnings) in models.items():
        entry, matches = _score(name, truth, predictions, frames, warnings, args)
        scores.append(entry)
        if args.matches is not None:
            kept.append(at_confidence(matches, args.conf))
    if args.matches is not None:
        _write_matches(args.matches, pl.concat(kept))
    result = {"models": scores, "ground_truth": _about(truth, frames), "settings": _settings(args)}
    if args.json:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    else:
        from birdlab.detection.printed import printed

        text = printed(result)
    sys.stdout.write(text + "\n")
    return EXIT_OK


def frames_of(truth: CocoTruth) -> pl.DataFrame:
    """Table ``frames`` of a ground-truth file: every image was looked at, by image id (as COCO's tools order them).

    The session is the images' ``session`` (or ``video_id``) where there is one, else the folder.
    """
    images = truth.images.sort("image_id")
    labelled = truth.labels["frame_id"].unique().to_list()
    name = pl.col("file_name")
    folder = pl.when(name.str.contains("/", literal=True)).then(name.str.replace(r"/[^/]*$", "")).otherwise(pl.lit("."))
    session = next((c for c in ("session", "video_id") if c in images.columns), None)
    site = pl.col("site").cast(pl.String) if "site" in images.columns else pl.lit(None, pl.String)
    state = pl.when(name.is_in(labelled)).then(pl.lit("labelled")).otherwise(pl.lit("empty"))
    frame = images.select(
        name.alias("frame_id"),
        name.alias("media_id"),
        (folder if session is None else pl.col(session).cast(pl.String).fill_null(folder)).alias("video_id"),
        site.alias("site_id"),
        pl.lit(0).alias("frame_index"),
        pl.col("width").alias("width_px"),
        pl.col("height").alias("height_px"),
        pl.lit("test").alias("split"),
        state.alias("label_state"),
    )
    return schemas.TABLES["frames"].conform(frame)


def model_names(paths: list[Path]) -> list[str]:
    """One name per results file: its stem, with folders in front as far as it takes to tell them apart.

    >>> model_names([Path("a/yolo.json"), Path("b/yolo.json"), Path("owl.json")])
    ['a/yolo', 'b/yolo', 'owl']
    """
    names = [path.stem for path in paths]
    parts = [path.with_suffix("").parts for path in paths]
    for depth in range(2, max(map(len, parts)) + 1):
        twice = {name for name in names if names.count(name) > 1}
        names = ["/".join(parts[i][-depth:]) if name in twice else name for i, name in enumerate(names)]
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[i] = f"{name} ({seen[name]})"
    return names


def _check_options(args: argparse.Namespace) -> None:
    problems = []
    if not 0 < args.iou <= 1:
        problems.append(Problem("bad_value", str(args.iou), "an overlap above 0 and up to 1", key="--iou"))
    if not 0 <= args.conf <= 1:
        problems.append(Problem("bad_value", str(args.conf), "a confidence from 0 to 1", key="--conf"))
    if args.max_dets < 1:
        problems.append(Problem("bad_value", str(args.max_dets), "1 or more detections", key="--max-dets"))
    if args.matches is not None:
        if args.matches.suffix.lower() not in _MATCH_FILES:
            problems.append(
                Problem("bad_value", str(args.matches), "a file that ends in .csv or .parquet", key="--matches")
            )
        elif not args.matches.parent.is_dir():
            problems.append(
                Problem("no_folder", f"no folder {args.matches.parent}", "a folder that exists", key="--matches")
            )
    if problems:
        raise ParameterError(problems)


def _read(truth_path: Path, paths: list[Path]) -> tuple[CocoTruth, dict[str, tuple[pl.DataFrame, list[str]]]]:
    """The truth and every model's detections; the problems of all results files end in one error."""
    truth = read_ground_truth(truth_path)
    models, problems = {}, []
    for name, path in zip(model_names(paths), paths, strict=True):
        try:
            models[name] = read_results(path, truth, model=name)
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    return truth, models


def _score(
    name: str,
    truth: CocoTruth,
    predictions: pl.DataFrame,
    frames: pl.DataFrame,
    warnings: list[str],
    args: argparse.Namespace,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """The entry of one model in ``models``, and its table ``matches`` at confidence 0."""
    options = {"engine": args.engine, "max_dets": args.max_dets, "class_agnostic": args.class_agnostic}
    result = evaluate(truth.labels, predictions, frames, **options)
    # One pass at confidence 0 serves the fixed confidence, the highest F1 and the matches file.
    matches = match(
        truth.labels, predictions, frames, iou=args.iou, conf=0.0, class_agnostic=args.class_agnostic, models=[name]
    )
    fixed = operating_point(matches, args.conf, iou=args.iou)
    best = max_f1(matches, iou=args.iou)
    reasons = dict(result.reasons)
    for key, point in (("fixed", fixed), ("max_f1", best)):
        reasons |= {f"{key}.{k}": why for k, why in point.reasons().items()}
    entry: dict[str, Any] = {
        "name": name,
        "n_ground_truth": result.n_ground_truth,
        "n_images": result.n_images,
        "n_detections": result.n_detections,
        **result.stats,
        "fixed": fixed.as_dict(),
        "max_f1": best.as_dict() | {"chosen": best.chosen},
        "by_size": result.by_size.drop("reason").to_dicts(),
        "by_category": result.by_category.to_dicts(),
    }
    notes = [*truth.warnings, *warnings, *result.warnings]
    if has_masks(truth.labels, predictions):
        scored = evaluate_masks(truth.labels, predictions, frames, iou=args.iou, conf=args.conf, **options)
        entry["mask"] = scored.as_dict()
        reasons |= {f"mask.{key}": why for key, why in scored.reasons.items()}
        notes += [w for w in scored.warnings if w not in notes]
    impossible = _one_class_warning(result, best.f1, args)
    entry["warnings"] = list(dict.fromkeys([*notes, *([impossible] if impossible else [])]))
    entry["reasons"] = reasons
    return entry, matches


def _one_class_warning(result: Evaluation, f1: float | None, args: argparse.Namespace) -> str | None:
    """The check of AP50 against the highest F1; it holds for one class at IoU 0.5 only."""
    comparable = args.iou == 0.5 and (result.by_category.height == 1 or args.class_agnostic)
    return max_f1_warning(f1, result.stats["ap50"]) if comparable else None


def _about(truth: CocoTruth, frames: pl.DataFrame) -> dict[str, Any]:
    labels = truth.labels
    return {
        "file": truth.path,
        "n_images": frames.height,
        "n_empty": frames.filter(pl.col("label_state") == "empty").height,
        "n_crowd": labels.filter(pl.col("is_crowd") & ~pl.col("is_ignored")).height,
        "n_ignored": labels.filter(pl.col("is_ignored")).height,
        "categories": {str(k): name for k, name in truth.categories.items()},
    }


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "engine": args.engine,
        "iou": args.iou,
        "conf": args.conf,
        "max_dets": args.max_dets,
        "class_agnostic": args.class_agnostic,
    }


def _write_matches(path: Path, matches: pl.DataFrame) -> None:
    write = matches.write_csv if path.suffix.lower() == ".csv" else matches.write_parquet
    try:
        write_atomic(path, write)
    except OSError as error:
        problem = Problem("unwritable", error.strerror or str(error), "a file that can be written", file=str(path))
        raise BirdlabError(problem) from error
