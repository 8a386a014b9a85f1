"""Scores of trained weights: one part at a time, in all and by session, through the adapters that a study uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.detection.engine import evaluate
from birdlab.errors import DataError, Problem
from birdlab.recipe import Model
from birdlab.recipe.training import Trained
from birdlab.shards import write_atomic
from birdlab.training.data import TrainingData, predictions_table

#: Scores that a card may hold: boxes, and masks of a segmenter.
METRICS = ("ap", "ap50", "mask_ap", "mask_ap50")


def score_weights(
    spec: Trained, data: TrainingData, weights: Path, part: str, *, device: str, cache: Path
) -> dict[str, Any] | None:
    """Scores of a file of weights on one part, in all and by session, by birdlab's own AP.

    Args:
        spec: the model.
        data: frames, labels and parts.
        weights: the file, as training writes it.
        part: train, val or test.
        device: as torch writes it.
        cache: folder for what a library writes of its own accord.

    Returns:
        ap, ap50 (boxes), for a segmenter mask_ap and mask_ap50 too, each in [0, 1] or null without a labelled bird;
        n_frames, n_birds, and by_session (session, n_birds and the same scores). ``None`` without a frame.
    """
    frames = data.part(part)
    if frames.is_empty():
        return None
    predictions = _predict(spec, data, frames, weights, device=device, cache=cache)
    scored = score_predictions(spec, data, frames, predictions)
    sessions = sorted(frames["video_id"].unique())
    scored["by_session"] = [
        {"session": s, **score_predictions(spec, data, frames.filter(pl.col("video_id") == s), predictions)}
        for s in sessions
    ]
    return scored


def validation_scores(
    spec: Trained, data: TrainingData, weights: Path, *, device: str, cache: Path
) -> tuple[float, float]:
    """AP50-95 and AP50 of a file of weights on val, in [0, 1]: of the boxes, or of a segmenter's masks."""
    frames = data.part("val")
    scored = score_predictions(spec, data, frames, _predict(spec, data, frames, weights, device=device, cache=cache))
    names = ("mask_ap", "mask_ap50") if spec.task == "segment" else ("ap", "ap50")
    return float(scored[names[0]] or 0.0), float(scored[names[1]] or 0.0)


def score_predictions(
    spec: Trained, data: TrainingData, frames: pl.DataFrame, predictions: pl.DataFrame
) -> dict[str, Any]:
    """n_frames, n_birds and the scores of one model's detections on these frames; see :func:`score_weights`."""
    labels = data.labels_of(frames)
    found = predictions.join(frames.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
    boxes = evaluate(labels, found, frames)
    scored: dict[str, Any] = {"n_frames": frames.height, "n_birds": boxes.n_ground_truth}
    scored |= {"ap": boxes.stats["ap"], "ap50": boxes.stats["ap50"]}
    if spec.task == "segment":
        from birdlab.detection.masks import with_masks

        with_labels, with_found, with_frames, _ = with_masks(labels, found, frames)
        masks = evaluate(with_labels, with_found, with_frames, iou_type="segm")
        scored |= {"mask_ap": masks.stats["ap"], "mask_ap50": masks.stats["ap50"]}
    return scored


def _predict(
    spec: Trained, data: TrainingData, frames: pl.DataFrame, weights: Path, *, device: str, cache: Path
) -> pl.DataFrame:
    from birdlab.inference.predict import load_detector
    from birdlab.inference.weights import find_weights

    model = Model(name=spec.name, weights=str(weights.resolve()), imgsz=spec.imgsz)
    detector = load_detector(model, find_weights(model, weights.parent, weights.parent), device, cache)
    found = ((f, detector.predict([picture]).boxes[0]) for f, picture in data.pictures(frames))
    return predictions_table(spec.name, detector.names, found)


def count_look(path: Path, split: str, who: str, sha256: str) -> int:
    """Note that somebody looked at the test part, and say how often that was done on this split.

    Args:
        path: the list of looks, JSON.
        split: hash of the split.
        who: model and seed.
        sha256: hash of its weights.

    Raises:
        DataError: the list is damaged.
    """
    looks = [*_read_looks(path), {"split": split, "model": who, "weights": sha256}]
    text = json.dumps(looks, indent=1) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return sum(entry["split"] == split for entry in looks)


def count_looks(path: Path, split: str) -> int:
    """How often the test part of a split was looked at so far; 0 without a list.

    Raises:
        DataError: the list is damaged.
    """
    return sum(entry["split"] == split for entry in _read_looks(path))


def _read_looks(path: Path) -> list[dict[str, str]]:
    try:
        looks = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return [{"split": str(e["split"]), "model": str(e["model"]), "weights": str(e["weights"])} for e in looks]
    except (ValueError, KeyError, TypeError) as error:
        remedy = "put the file back: it counts how often the test part was looked at"
        raise DataError(Problem("bad_looks", str(error), "a list of looks", remedy, file=str(path))) from error
