"""Predicted birds laid on those whose keypoints were placed by hand, one to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals.oks import oks
from birdlab.readers.coco_keypoints import Instance, Poses
from birdlab.readers.files import Notice


def keypoint_table(
    truth: Poses, found: Poses, *, model: str, sigmas: Sequence[float]
) -> tuple[pl.DataFrame, list[Notice]]:
    """Table ``keypoints`` of one model: each predicted bird laid on one true bird of its picture, the best OKS first.

    There is no lowest OKS: a bird in a picture with one prediction gets it, however far off. Among equal OKS (0 for all
    that are far) the nearer comes first.

    Args:
        truth, found: birds by hand and of the model.
        model: its name.
        sigmas: fall-off per keypoint, for OKS.

    Returns:
        One row per keypoint of every true bird that is no crowd. A predicted keypoint with v = 0 is one that the model does not place; a
        true bird without a predicted one has none. Notices: true birds that no prediction was laid on, predicted birds
        that were laid on none.
    """
    rows, lost, extra = [], 0, 0
    by_image: dict[str, list[Instance]] = {}
    for bird in found.instances:
        by_image.setdefault(bird.image_id, []).append(bird)
    mine: dict[str, list[Instance]] = {}
    crowded: set[str] = set()
    for bird in truth.instances:
        if bird.is_crowd:
            crowded.add(bird.image_id)
            continue
        mine.setdefault(bird.image_id, []).append(bird)
    for image, birds in mine.items():
        guesses = by_image.get(image, [])
        pairs = _assign(birds, guesses, sigmas)
        extra += 0 if image in crowded else len(guesses) - len(pairs)
        for i, bird in enumerate(birds):
            guess = guesses[pairs[i]] if i in pairs else None
            lost += guess is None and bool((bird.points[:, 2] > 0).any())
            rows += _rows(truth, bird, guess, model)
    notices = (
        [Notice("birds_without_pose", f"{model}: birds by hand that no prediction was laid on", lost)] if lost else []
    )
    extra += sum(len(v) for k, v in by_image.items() if k not in mine and k not in crowded)
    if extra:
        notices.append(Notice("poses_without_bird", f"{model}: predicted birds that were laid on none by hand", extra))
    return pl.DataFrame(rows, schema=schemas.TABLES["keypoints"].dtypes), notices


def _assign(birds: list[Instance], guesses: list[Instance], sigmas: Sequence[float]) -> dict[int, int]:
    """Number of the prediction of each bird that has one; birds without a keypoint by hand come last."""
    pairs = sorted(
        (-(oks(b.points, g.points, b.area, sigmas) or 0.0), _distance(b, g), i, j)
        for i, b in enumerate(birds)
        for j, g in enumerate(guesses)
    )
    taken: dict[int, int] = {}
    used: set[int] = set()
    for _, _, i, j in pairs:
        if i not in taken and j not in used:
            taken[i] = j
            used.add(j)
    return taken


def _distance(bird: Instance, guess: Instance) -> float:
    """Mean distance of the keypoints both have, px; infinite without any."""
    both = (bird.points[:, 2] > 0) & (guess.points[:, 2] > 0)
    if not both.any():
        return float("inf")
    return float(np.hypot(*(bird.points[both, :2] - guess.points[both, :2]).T).mean())


def _rows(truth: Poses, bird: Instance, guess: Instance | None, model: str) -> list[dict[str, Any]]:
    about = truth.images[bird.image_id]
    out = []
    for k, name in enumerate(truth.names):
        x, y, v = bird.points[k]
        there = guess is not None and guess.points[k, 2] > 0
        px, py = (float(guess.points[k, 0]), float(guess.points[k, 1])) if there else (None, None)  # type: ignore[union-attr]
        seen = v > 0
        error = float(np.hypot(px - x, py - y)) if there and seen else None
        out.append(
            {
                "model": model, "instance_id": f"{bird.image_id}/{bird.instance_id}", "image_id": bird.image_id,
                "video_id": about["video"], "scene": about["scene"], "keypoint": name, "visible": bool(seen),
                "x": float(x) if seen else None, "y": float(y) if seen else None, "x_predicted": px,
                "y_predicted": py, "error_px": error, "size_px": float(max(bird.box[2], bird.box[3])),
            }
        )  # fmt: skip
    return out
