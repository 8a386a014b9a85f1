"""Precision, recall and F1 at every confidence: the exact curves, and few points of them for drawing."""

from __future__ import annotations

import numpy as np
import polars as pl

#: Columns of a curve: one row per distinct score, from high to low.
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "score": pl.Float64,
    "tp": pl.Int64,
    "fp": pl.Int64,
    "precision": pl.Float64,
    "recall": pl.Float64,
    "f1": pl.Float64,
}


def curve(matches: pl.DataFrame) -> pl.DataFrame:
    """Precision, recall and F1 when every detection at or above a score is kept, for every score that occurs.

    Args:
        matches: table ``matches`` made at ``conf=0`` (or the lowest confidence of interest), any number of models;
            ignored detections count neither way.

    Returns:
        model, score, tp, fp, precision = tp / (tp + fp), recall = tp / n birds, f1 = 2 tp / (2 tp + fp + fn), all in
        [0, 1], higher is better; scores fall. Equal scores are kept or cut together. recall and f1 are null where
        there is no labelled bird. No rows for a model without detections.

    >>> from birdlab import schemas
    >>> m = schemas.empty("matches").select("model", "score", "outcome").vstack(pl.DataFrame(
    ...     {"model": "m", "score": [0.9, 0.8, None], "outcome": ["tp", "fp", "fn"]},
    ...     schema=schemas.empty("matches").select("model", "score", "outcome").schema))
    >>> curve(m).select("score", "precision", "recall", "f1").rows()
    [(0.9, 1.0, 0.5, 0.6666666666666666), (0.8, 0.5, 0.5, 0.5)]
    """
    parts = []
    for name in matches["model"].unique(maintain_order=True).to_list():
        outcome = matches.filter(pl.col("model") == name).select("score", pl.col("outcome").cast(pl.String))
        n_birds = outcome.filter(pl.col("outcome").is_in(["tp", "fn"])).height
        found = outcome.filter(pl.col("outcome").is_in(["tp", "fp"]))
        score, hit = found["score"].to_numpy(), (found["outcome"] == "tp").to_numpy()
        order = np.argsort(-score, kind="stable")
        score, hit = score[order], hit[order]
        last = np.flatnonzero(np.diff(score, append=-np.inf))  # the last of each run of equal scores
        tp = np.cumsum(hit)[last] if len(score) else np.empty(0, np.int64)
        parts.append(_points(name, score[last], tp, last + 1 - tp, n_birds))
    return pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)


def _points(model: str, score: np.ndarray, tp: np.ndarray, fp: np.ndarray, n_birds: int) -> pl.DataFrame:
    nothing = [None] * len(score)
    return pl.DataFrame(
        {
            "model": [model] * len(score),
            "score": score,
            "tp": tp,
            "fp": fp,
            "precision": tp / np.maximum(tp + fp, 1),
            "recall": tp / n_birds if n_birds else nothing,
            "f1": 2 * tp / (tp + fp + n_birds) if n_birds else nothing,
        },
        schema=SCHEMA,
    )


def thin_curve(points: pl.DataFrame, *, max_points: int = 500) -> pl.DataFrame:
    """At most ``max_points`` rows per model of a curve, evenly along its length, for drawing.

    The first and last row and the row of the highest F1 (the first of equals) are always kept, so that what is read
    off the drawing is exact.

    Args:
        points: what :func:`curve` returns.
        max_points: at least 3.

    Raises:
        ValueError: ``max_points`` is below 3.

    >>> thin_curve(pl.DataFrame(schema=SCHEMA)).height
    0
    """
    if max_points < 3:
        raise ValueError(f"max_points must be at least 3, not {max_points}")
    parts = [_thin(part, max_points) for part in points.partition_by("model", maintain_order=True)]
    return pl.concat(parts) if parts else points


def _thin(points: pl.DataFrame, max_points: int) -> pl.DataFrame:
    if points.height <= max_points:
        return points
    xyz = points.select(pl.col("score", "precision", "recall").fill_null(0.0)).to_numpy()
    step = np.sqrt(np.sum(np.diff(xyz, axis=0) ** 2, axis=1))
    length = np.concatenate([[0.0], np.cumsum(step)])
    # One place is left for the highest F1; places that fall on the same row simply give fewer rows.
    rows = np.searchsorted(length, np.linspace(0, length[-1], max_points - 1))
    f1 = points["f1"].fill_null(0.0).to_numpy()
    keep = np.unique(np.concatenate([rows, [int(f1.argmax()), 0, points.height - 1]]).clip(0, points.height - 1))
    return points[keep.tolist()]
