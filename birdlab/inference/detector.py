"""What every detector gives, whichever library runs it; and which of its classes a study keeps."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from birdlab.errors import Problem


@dataclass(frozen=True)
class Boxes:
    """Detections of one frame, in frame pixels.

    Args:
        xywh: float64 array of shape (n, 4): left, top, width, height, inside the frame, every side > 0.
        scores: float64 array of shape (n,) in [0, 1].
        classes: int array of shape (n,), class indices of the model.
        masks: COCO RLE as JSON text per detection, or ``None`` where the model gives no masks.
        n_dropped: detections left out because they had no area inside the frame or were no numbers.
        n_empty_masks: detections that have a box but no pixel in their mask.
    """

    xywh: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: list[str] | None = None
    n_dropped: int = 0
    n_empty_masks: int = 0


@dataclass(frozen=True)
class Prediction:
    """Detections of one batch and the seconds the network alone took for it."""

    boxes: list[Boxes]
    network_s: float


class Detector(Protocol):
    """A loaded model. ``keep`` must be set to the wanted class indices before the first :meth:`predict`."""

    names: dict[int, str]
    keep: list[int]
    imgsz: int
    precision: str
    device: str
    remarks: list[str]

    def predict(self, images: list[np.ndarray]) -> Prediction:
        """Detect in BGR uint8 images of shape (H, W, 3), all of the same shape."""
        ...


class PredictError(RuntimeError):
    """A model could not be asked about a frame."""


def finish(
    xyxy: np.ndarray, scores: np.ndarray, classes: np.ndarray, shape: tuple[int, ...]
) -> tuple[Boxes, np.ndarray]:
    """Clip corner boxes to the frame and drop those that are empty or no numbers.

    Coordinates stay unrounded. A box that reaches beyond the frame is cut at its edge, as ultralytics does.

    Args:
        xyxy: float array of shape (n, 4), left, top, right, bottom, px.
        scores: float array of shape (n,).
        classes: int array of shape (n,).
        shape: (H, W, …) of the frame.

    Returns:
        The boxes, and the positions of the kept rows.

    >>> boxes, kept = finish(np.array([[-2., 1., 4., 3.], [5., 5., 5., 9.]]), np.ones(2), np.zeros(2, int), (10, 10))
    >>> boxes.xywh.tolist(), kept.tolist(), boxes.n_dropped
    ([[0.0, 1.0, 4.0, 2.0]], [0], 1)
    """
    xyxy = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
    scores = np.asarray(scores, dtype=np.float64).reshape(-1)
    finite = np.isfinite(xyxy).all(axis=1) & np.isfinite(scores)
    limit = np.array([shape[1], shape[0], shape[1], shape[0]], dtype=np.float64)
    clipped = np.clip(np.where(finite[:, None], xyxy, 0.0), 0.0, limit)
    xywh = np.concatenate([clipped[:, :2], clipped[:, 2:] - clipped[:, :2]], axis=1)
    kept = np.flatnonzero(finite & (xywh[:, 2:] > 0).all(axis=1))
    classes = np.asarray(classes).reshape(-1)[kept].astype(np.int64)
    return Boxes(xywh[kept], np.clip(scores[kept], 0.0, 1.0), classes, n_dropped=len(xyxy) - len(kept)), kept


def class_map(
    names: dict[int, str], wanted: dict[str, str], categories: list[str], *, model: str
) -> tuple[dict[int, str], list[Problem]]:
    """Which classes of a model are kept, and what the study calls them.

    With an empty map, classes whose name equals a category of the study are kept, whatever their case.

    Args:
        names: class index to name, as the model has them.
        wanted: name in the model to category of the study (the recipe's ``classes``); names are matched exactly, else
            without regard to case.
        categories: categories of the study.
        model: name of the model, for the problems.

    Returns:
        Class index to category, and what is wrong: a name that the model does not have, a category that the study
        does not score, or no class left.

    >>> class_map({0: "person", 14: "Bird"}, {}, ["bird"], model="m")
    ({14: 'bird'}, [])
    """
    where = f"model {model}"
    problems: list[Problem] = []
    kept: dict[int, str] = {}
    if not wanted:
        lower = {category.lower(): category for category in categories}
        kept = {i: lower[name.lower()] for i, name in names.items() if name.lower() in lower}
        if not kept:
            remedy = f"add classes: {{NAME: {categories[0]}}} with a name of the model" if categories else ""
            found = f"no class called {' or '.join(categories)}"
            problems.append(
                Problem(
                    "no_class", found, f"one among the model's: {_listed(names)}", remedy, record=where, key="classes"
                )
            )
    for name, category in wanted.items():
        hits = [i for i, n in names.items() if n == name] or [i for i, n in names.items() if n.lower() == name.lower()]
        if not hits:
            remedy = _did_you_mean(name, list(names.values()))
            problems.append(
                Problem(
                    "unknown_class",
                    repr(name),
                    f"one of the model's: {_listed(names)}",
                    remedy,
                    record=where,
                    key="classes",
                )
            )
        if category not in categories:
            remedy = _did_you_mean(category, categories) or "add it to data.categories, or leave the class out"
            expected = "a category of the study: " + ", ".join(categories)
            problems.append(
                Problem("unknown_category", repr(category), expected, remedy, record=where, key=f"classes.{name}")
            )
        kept.update(dict.fromkeys(hits, category))
    return kept, problems


def _listed(names: dict[int, str]) -> str:
    shown = list(dict.fromkeys(names.values()))
    return ", ".join(shown[:100]) + (f" and {len(shown) - 100} more" if len(shown) > 100 else "")


def _did_you_mean(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1)
    return next((f"did you mean {k}?" for k in known if near and k.lower() == near[0]), "")
