"""MegaDetector and SpeciesNet results: boxes as fractions of the picture, failures kept apart from empty frames.

Formats: MegaDetector batch output, version 1.x (``images`` with ``file``, ``detections``, ``failure``, and
``detection_categories``), and SpeciesNet ``predictions`` (``filepath``, ``detections``, ``failures``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.jsonfile import read_json
from birdlab.readers.files import Notice, at_most
from birdlab.readers.labels import LabelSet, label_table
from birdlab.readers.names import FrameNames, Resolved, unresolved

#: Classes of the detector where a SpeciesNet file does not name them.
_DETECTOR = {"1": "animal", "2": "human", "3": "vehicle"}


@dataclass(frozen=True)
class Detection:
    """One detection: class of the detector, class of the classifier if there is one, confidence, box as fractions."""

    label: str
    species: str | None
    confidence: float
    box: tuple[float, float, float, float]
    frame_number: int | None = None


@dataclass(frozen=True)
class Entry:
    """One picture or video of a file: its name, what was found, why it failed, which frames of a video were looked at."""

    file: str
    record: str
    detections: tuple[Detection, ...] = ()
    failure: str | None = None
    frames: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Found:
    """The entries of a file matched to the study's frames: detections of every frame looked at, and failures."""

    detections: dict[str, list[Detection]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


def read_entries(path: Path) -> list[Entry]:
    """Every picture of a MegaDetector or SpeciesNet file.

    Raises:
        DataError: the file is neither, or has entries that cannot be read (each is named).
    """
    content = read_json(path)
    if (
        isinstance(content, dict)
        and isinstance(content.get("images"), list)
        and isinstance(content.get("detection_categories"), dict)
    ):
        key, listed = "images", content["images"]
    elif isinstance(content, dict) and isinstance(content.get("predictions"), list):
        key, listed = "predictions", content["predictions"]
    else:
        expected = "images and detection_categories (MegaDetector), or predictions (SpeciesNet)"
        found = (
            f"the keys {', '.join(map(str, list(content)[:8]))}"
            if isinstance(content, dict)
            else type(content).__name__
        )
        raise DataError(Problem("not_megadetector", found, expected, file=str(path)))
    categories = _names(content, "detection_categories", path) or _DETECTOR
    species = _names(content, "classification_categories", path)
    entries, problems = [], []
    for index, item in enumerate(listed):
        record = f"{key}[{index}]"
        try:
            entries.append(_entry(item, record, categories, species))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            problems.append(_bad(path, record, error))
    if problems:
        raise DataError(at_most(problems))
    return entries


def _names(content: dict[str, Any], key: str, path: Path) -> dict[str, str]:
    named = content.get(key) or {}
    if not isinstance(named, dict):
        raise DataError(Problem("wrong_type", type(named).__name__, "class numbers and names", file=str(path), key=key))
    return {str(k): str(v) for k, v in named.items()}


def _bad(path: Path, record: str, error: Exception) -> Problem:
    found = f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)[:120]
    expected = "file (or filepath) and detections with category, conf in [0, 1] and bbox [x, y, w, h] as fractions"
    return Problem("bad_entry", found, expected, file=str(path), record=record)


def _entry(item: dict[str, Any], record: str, categories: dict[str, str], species: dict[str, str]) -> Entry:
    if not isinstance(item, dict):
        raise ValueError(repr(item))
    name = item["file"] if "file" in item else item["filepath"]
    if not isinstance(name, str):
        raise ValueError(f"file {name!r}")
    failure = item.get("failure")
    if item.get("failures"):
        # The classifier may fail where the detector did not; its boxes stand.
        failed = [str(part) for part in item["failures"]]
        failure = ", ".join(failed) if "DETECTOR" in failed or item.get("detections") is None else None
    listed = item.get("detections")
    if failure is None and listed is None:
        failure = "no detections were written"
    frames = item.get("frames_processed")
    if failure:
        return Entry(name, record, (), str(failure), None)
    if not isinstance(listed, list | None):
        raise ValueError(f"detections that are {type(listed).__name__}")
    whole = _species_of_picture(item)
    detections = tuple(_detection(d, i, categories, species, whole) for i, d in enumerate(listed or []))
    return Entry(name, record, detections, None, tuple(int(f) for f in frames) if frames is not None else None)


def _detection(
    d: dict[str, Any], index: int, categories: dict[str, str], species: dict[str, str], whole: str | None
) -> Detection:
    confidence, box = d["conf"], d["bbox"]
    if not isinstance(box, list):
        raise ValueError(f"detections[{index}]: bbox {box!r}")
    numbers = [confidence, *box]
    if len(box) != 4 or any(
        isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v) for v in numbers
    ):
        raise ValueError(f"detections[{index}]: conf {confidence!r}, bbox {box!r}")
    if not 0 <= confidence <= 1:
        raise ValueError(f"detections[{index}]: conf {confidence:g}")
    if min(box[2:]) < 0 or max(box) > 1.5:
        raise ValueError(f"detections[{index}]: bbox {box} (pixels?)")
    category = str(d["category"])
    label = str(d.get("label") or categories.get(category, f"category {category}"))
    ranked = d.get("classifications") or []
    best = species.get(str(ranked[0][0])) if ranked else None
    number = d.get("frame_number")
    found = best or (whole if label == "animal" else None)
    return Detection(label, found, float(confidence), tuple(map(float, box)), None if number is None else int(number))  # type: ignore[arg-type]


def _species_of_picture(item: dict[str, Any]) -> str | None:
    """SpeciesNet classifies the picture: common name of its final prediction (the last of the ``;`` fields)."""
    prediction = item.get("prediction")
    if not isinstance(prediction, str) or item.get("prediction_source", "") == "detector":
        return None
    name = prediction.split(";")[-1].strip()
    return None if name in ("", "blank", "animal", "human", "vehicle", "no cv result", "unknown") else name


def match_frames(path: Path, frames: pl.DataFrame, names: FrameNames) -> Found:
    """The entries of a file by frame of the study.

    Entries of files outside the study are left out and counted. A picture with a ``failure`` is a failure, never an
    empty frame; so is a picture that birdlab itself cannot read, since fractions need its size.

    Raises:
        DataError: the file is wrong, or names pictures that are nowhere, or names one twice.
    """
    detections: dict[str, list[Detection]] = {}
    failures: dict[str, str] = {}
    problems: list[Problem] = []
    counts: Counter[str] = Counter()
    unread = set(frames.filter(pl.col("width_px").is_null())["frame_id"].to_list())
    videos = _video_frames(frames)
    for entry in read_entries(path):
        for found, number in _frames_of(entry, names, path.parent, videos):
            if found.frame_id is None and found.how != "outside":
                problems.append(unresolved(entry.file, found, names, file=str(path), record=entry.record))
            elif found.frame_id is None:
                counts["outside"] += 1
            elif found.frame_id in detections or found.frame_id in failures:
                text = f"{entry.file!r} a second time"
                problems.append(
                    Problem("image_twice", text, "one entry for each picture", file=str(path), record=entry.record)
                )
            elif entry.failure or found.frame_id in unread:
                failures[found.frame_id] = entry.failure or "the picture cannot be read"
            else:
                detections[found.frame_id] = [d for d in entry.detections if d.frame_number == number]
    if problems:
        raise DataError(at_most(problems, 5))
    notices = []
    if counts["outside"]:
        text = "entries of pictures that data.media does not take into the study"
        notices.append(Notice("labels_outside", text, counts["outside"]))
    if failures:
        first = next(iter(failures))
        text = f"pictures that the detector failed on ({failures[first]}: {first}); they are not empty frames"
        notices.append(Notice("detector_failed", text, len(failures)))
    return Found(detections, failures, tuple(notices))


def _video_frames(frames: pl.DataFrame) -> dict[str, list[int]]:
    moving = frames.filter(pl.col("frame_id") != pl.col("media_id"))
    return {
        key[0]: part["frame_index"].to_list()
        for key, part in moving.partition_by("media_id", as_dict=True).items()  # type: ignore[index]
    }


def _frames_of(
    entry: Entry, names: FrameNames, folder: Path, videos: dict[str, list[int]]
) -> Iterator[tuple[Resolved, int | None]]:
    """Frames that an entry speaks of: one picture, or the frames of a video that were processed."""
    numbers = entry.frames
    if numbers is None and any(d.frame_number is not None for d in entry.detections):
        numbers = tuple(sorted({d.frame_number for d in entry.detections if d.frame_number is not None}))
    if numbers is None and videos:
        video = names.video(entry.file, folder)
        if video is not None:
            # A failed video, or one without a list of processed frames: it speaks of every frame of the study.
            yield from ((names.resolve(entry.file, folder, n), n) for n in videos[video])
            return
    if numbers is None:
        yield names.resolve(entry.file, folder), None
    else:
        yield from ((names.resolve(entry.file, folder, n), n) for n in numbers)


def category_of(detection: Detection, known: set[str]) -> str:
    """Class name of a detection: the species where the study knows it, else the detector's class.

    ``known`` holds names in :func:`~birdlab.readers.labels.normal` form.
    """
    from birdlab.readers.labels import normal

    return detection.species if detection.species and normal(detection.species) in known else detection.label


def boxes_in_pixels(detection: Detection, width: int, height: int) -> dict[str, float]:
    """The box in pixels of a picture of that size."""
    x, y, w, h = detection.box
    return {"x": x * width, "y": y * height, "w": w * width, "h": h * height}


def read_megadetector_labels(
    path: Path, frames: pl.DataFrame, names: FrameNames, *, min_score: float, known: set[str]
) -> LabelSet:
    """Detections from ``min_score`` on, taken as labels (for a first look, or after somebody checked them).

    A picture with a failure stays unlabelled. Detections below ``min_score`` are counted and left out: a picture that has
    only such is empty.
    """
    found = match_frames(path, frames, names)
    sizes = {r[0]: r[1:] for r in frames.select("frame_id", "width_px", "height_px").iter_rows()}
    rows, below = [], 0
    for frame_id, detections in found.detections.items():
        for i, detection in enumerate(detections):
            if detection.confidence < min_score:
                below += 1
                continue
            box = boxes_in_pixels(detection, *sizes[frame_id])
            row = {
                "label_id": f"{frame_id}:{i}",
                "frame_id": frame_id,
                "category": category_of(detection, known),
                **box,
            }
            rows.append(row | {"area_px": box["w"] * box["h"], "is_crowd": False, "is_ignored": False})
    notices = [*found.notices, Notice("labels_detected", "labels are a detector's output, not a person's", len(rows))]
    if below:
        notices.append(Notice("labels_below", f"detections below min_score {min_score:g} are no labels", below))
    classes = tuple(dict.fromkeys(row["category"] for row in rows))
    return LabelSet(label_table(rows), frozenset(found.detections), tuple(notices), classes)


def read_megadetector_predictions(
    path: Path, frames: pl.DataFrame, names: FrameNames, *, model: str, known: set[str]
) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    """Detections as ``predictions`` (class names as in the file) and ``failures`` of a model, and notices."""
    found = match_frames(path, frames, names)
    sizes = {r[0]: r[1:] for r in frames.select("frame_id", "width_px", "height_px").iter_rows()}
    rows = [
        {
            "model": model,
            "prediction_id": f"{frame_id}:{i}",
            "frame_id": frame_id,
            "category": category_of(d, known),
            "score": d.confidence,
        }
        | boxes_in_pixels(d, *sizes[frame_id])
        for frame_id, detections in found.detections.items()
        for i, d in enumerate(detections)
    ]
    table = schemas.TABLES["predictions"]
    predictions = pl.DataFrame(rows, schema_overrides=table.dtypes, schema=list(table.dtypes), orient="row")
    failed = [{"model": model, "frame_id": f, "stage": "predict", "message": why} for f, why in found.failures.items()]
    failures = pl.DataFrame(failed, schema=schemas.TABLES["failures"].dtypes, orient="row")
    silent = frames.height - frames["frame_id"].is_in([*found.detections, *found.failures]).sum()
    text = "pictures of the study that the file does not mention: taken as looked at, with nothing found"
    notices = [*found.notices, *([Notice("not_mentioned", text, silent)] if silent else [])]
    return predictions, failures, notices
