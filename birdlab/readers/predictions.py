"""Predictions made elsewhere: COCO results, MegaDetector or SpeciesNet JSON, YOLO text files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most, notice_table, shown_path
from birdlab.readers.labels import locate, normal, resolve_all
from birdlab.readers.names import FrameNames, index_names
from birdlab.recipe import Labels, Model

_Read = tuple[pl.DataFrame, pl.DataFrame, list[Notice]]


def read_predictions(
    model: Model,
    frames: pl.DataFrame,
    labels: Sequence[Labels],
    base: Path,
    root: Path,
    *,
    categories: Sequence[str] = (),
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Detections of one model that brings a file of predictions.

    Names in the file must be pictures of the study. Predictions for pictures that exist but are no part of it are left
    out and counted. A frame that the file does not mention has no detections: whether the model was asked about it,
    the formats do not say (MegaDetector's does).

    Args:
        model: the model of the recipe.
        frames: the ``frames`` table.
        labels: the recipe's ``data.labels``: COCO image ids are those of its COCO file, and its ``rename`` holds.
        base: folder of the recipe.
        root: folder of the data.
        categories: classes of the study; those of the model that are none of them are dropped and counted. Empty:
            all are kept. A score below the model's ``conf`` is left out where the recipe gives one.

    Returns:
        Tables ``predictions`` (ranked), ``failures``, and notices.

    Raises:
        DataError: the file is missing or wrong, names unknown pictures, or has no class of the study.
    """
    if model.predictions is None:
        raise ValueError(f"model {model.name} has no predictions file")
    path = locate(model.predictions, base, root)
    if not path.exists():
        expected = f"{model.format} predictions of {model.name}"
        raise DataError(
            Problem("no_predictions", "no such file or folder", expected, file=str(path), key="models.predictions")
        )
    names, renamed = index_names(frames, root), _renamed(labels)
    if model.format == "coco":
        read = _coco(model, path, names, labels, base)
    elif model.format == "megadetector":
        from birdlab.readers.megadetector import read_megadetector_predictions

        known = {normal(n) for n in (*categories, *model.classes, *renamed)}
        read = read_megadetector_predictions(path, frames, names, model=model.name, known=known)
    else:
        read = _yolo(model, path, frames, names)
    predictions, failures, notices = read
    predictions, more = map_classes(predictions, model, renamed, categories, file=str(path))
    predictions, below = _confident(predictions, model)
    source = shown_path(path, root, base)
    table = notice_table([replace(n, file=n.file or source) for n in (*notices, *more, *below)])
    failures = schemas.validate("failures", failures, source=source)
    return schemas.validate("predictions", _ranked(predictions), source=source), failures, table


def _confident(predictions: pl.DataFrame, model: Model) -> tuple[pl.DataFrame, list[Notice]]:
    # The default of conf is for running weights: a file is taken whole unless the recipe says otherwise.
    if "conf" not in model.model_fields_set:
        return predictions, []
    kept = predictions.filter(pl.col("score") >= model.conf)
    text = f"detections of {model.name} with a score below conf {model.conf:g}"
    n = predictions.height - kept.height
    return kept, [Notice("score_below_conf", text, n)] if n else []


def _ranked(predictions: pl.DataFrame) -> pl.DataFrame:
    rank = pl.col("score").rank("ordinal", descending=True).over("frame_id") - 1
    return schemas.TABLES["predictions"].conform(predictions.with_columns(rank.alias("rank")))


def _renamed(labels: Sequence[Labels]) -> dict[str, str]:
    return {normal(name): target for spec in labels for name, target in spec.rename.items()}


def map_classes(
    predictions: pl.DataFrame, model: Model, renamed: dict[str, str], categories: Sequence[str], *, file: str
) -> tuple[pl.DataFrame, list[Notice]]:
    """Class names of a model to classes of the study.

    With ``classes`` in the recipe, only those are kept; without, the classes that the study knows by that name or by the
    labels' ``rename``. Case and spaces do not count. What is dropped is counted.

    Raises:
        DataError: no class of the predictions is a class of the study, or one in ``classes`` leads to none.
    """
    known = {normal(c): c for c in categories}
    if model.classes:
        wrong = [target for target in model.classes.values() if known and normal(target) not in known]
        if wrong:
            expected = "a class of the study: " + ", ".join(categories)
            raise DataError(
                Problem("bad_class_map", repr(wrong[0]), expected, file=file, key=f"models.{model.name}.classes")
            )
        targets = {normal(name): known.get(normal(target), target) for name, target in model.classes.items()}
    else:
        targets = known | {name: known.get(normal(target), target) for name, target in renamed.items()}
    if not targets:
        return predictions, []
    counts = Counter(predictions["category"].to_list())
    dropped = {name: n for name, n in counts.items() if normal(name) not in targets}
    if counts and len(dropped) == len(counts):
        listed = ", ".join(f"{name!r} ({n})" for name, n in counts.most_common(8))
        expected = "a class of the study: " + (", ".join(categories) or ", ".join(targets.values()))
        remedy = f"give the model in the recipe classes: {{{next(iter(counts))!r}: {next(iter(targets.values()))}}}"
        raise DataError(
            Problem("unknown_class", f"only {listed}", expected, remedy, file=file, key=f"models.{model.name}.classes")
        )
    notices = [
        Notice("class_dropped", f"detections of {model.name} of class {name!r}, which the study does not score", n)
        for name, n in sorted(dropped.items())
    ]
    kept = predictions.filter(~pl.col("category").is_in(list(dropped)))
    mapping = {name: targets[normal(name)] for name in counts if name not in dropped}
    return kept.with_columns(pl.col("category").replace(mapping)), notices


def _coco(model: Model, path: Path, names: FrameNames, labels: Sequence[Labels], base: Path) -> _Read:
    from birdlab.readers.coco import read_ground_truth, read_results

    files = [locate(spec.path, base, names.root) for spec in labels if spec.format == "coco" and not spec.second]
    failures = schemas.empty("failures")
    if not files:
        predictions, warnings = read_results(path, None, model=model.name)
        frame_of, notices = resolve_all(predictions["frame_id"].unique(maintain_order=True).to_list(), names, path)
        return _on_frames(predictions, frame_of), failures, notices + _warned(warnings)
    fitting: list[tuple[Path, pl.DataFrame, list[str]]] = []
    refused: list[DataError] = []
    for file in files:
        try:
            fitting.append((file, *read_results(path, read_ground_truth(file), model=model.name)))
        except DataError as error:
            refused.append(error)
    if not fitting:
        raise refused[0]
    if len(fitting) > 1:
        found = "image ids that fit " + " and ".join(file.name for file, _, _ in fitting[:2])
        expected = "ids of one label file"
        remedy = "number the pictures of all label files through, or score one label file at a time"
        raise DataError(Problem("ambiguous_ids", found, expected, remedy, file=str(path), key="image_id"))
    file, predictions, warnings = fitting[0]
    frame_of, notices = resolve_all(predictions["frame_id"].unique(maintain_order=True).to_list(), names, file)
    return _on_frames(predictions, frame_of), failures, notices + _warned(warnings)


def _on_frames(predictions: pl.DataFrame, frame_of: dict[str, str]) -> pl.DataFrame:
    frame = pl.col("frame_id").replace_strict(frame_of, default=None, return_dtype=pl.String)
    return predictions.with_columns(frame).filter(pl.col("frame_id").is_not_null())


def _warned(warnings: Sequence[str]) -> list[Notice]:
    return [Notice("coco_warning", warning, 1) for warning in warnings]


def _yolo(model: Model, path: Path, frames: pl.DataFrame, names: FrameNames) -> _Read:
    from birdlab.readers.yolo import class_names, find_texts, in_pixels, read_lines

    if not path.is_dir():
        raise DataError(
            Problem(
                "not_a_folder", "a file", "the folder with YOLO text files", file=str(path), key="models.predictions"
            )
        )
    of_frame, orphans = find_texts(path, frames, names)
    if not of_frame and orphans:
        expected = "text files named like the pictures of the study"
        raise DataError(
            Problem(
                "no_predictions",
                f"{len(orphans)} text files of other names, e.g. {orphans[0].name}",
                expected,
                file=str(path),
            )
        )
    try:
        known = class_names(None, path)
    except DataError:
        # Without a list of names the numbers are the names: classes: {"14": bird}.
        known = []
    sizes = {r[0]: r[1:] for r in frames.select("frame_id", "width_px", "height_px").iter_rows()}
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    failed = [f for f in of_frame if None in sizes[f]]
    for frame_id in (f for f in of_frame if None not in sizes[f]):
        lines, wrong = read_lines(of_frame[frame_id], tracked=True)
        problems += wrong
        for number, line in lines:
            if line.confidence is None:
                problems.append(_no_confidence(of_frame[frame_id], number))
                continue
            row = in_pixels(line, *sizes[frame_id]) | {"score": line.confidence, "track_id": line.track}
            row |= {"model": model.name, "frame_id": frame_id, "prediction_id": f"{frame_id}:{number}"}
            name = known[line.class_id] if line.class_id < len(known) else str(line.class_id)
            rows.append(row | {"category": name})
    if problems:
        raise DataError(at_most(problems))
    table = schemas.TABLES["predictions"]
    kept = [{k: v for k, v in row.items() if k in table.dtypes} for row in rows]
    predictions = pl.DataFrame(kept, schema_overrides=table.dtypes, schema=list(table.dtypes), orient="row")
    message = {"model": model.name, "stage": "read", "message": "the picture cannot be read"}
    failures = pl.DataFrame([message | {"frame_id": f} for f in failed], schema=schemas.TABLES["failures"].dtypes)
    return predictions, failures, _yolo_notices(frames, of_frame, orphans)


def _no_confidence(path: Path, line: int) -> Problem:
    expected, remedy = "a last column in [0, 1]", "write them with save_conf=True"
    return Problem("no_confidence", "no confidence", expected, remedy, file=str(path), line=line)


def _yolo_notices(frames: pl.DataFrame, of_frame: dict[str, Path], orphans: list[Path]) -> list[Notice]:
    notices = []
    if orphans:
        text = f"text files of pictures that are no part of the study (the first is {orphans[0].name})"
        notices.append(Notice("predictions_outside", text, len(orphans)))
    silent = frames.height - len(of_frame)
    if silent:
        notices.append(
            Notice("frames_without_file", "frames without a text file are taken as frames without a detection", silent)
        )
    return notices
