"""Precision and recall of a species at every threshold, and where F1 is highest.

A segment that is not listed is not found at any threshold. Precision and recall are those of segments of five seconds;
a threshold says "listed with this probability or a higher one".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.levels import Levels, class_levels

NOT_HEARD, NOT_LISTED = "heard in no segment", "listed for no segment"
NO_HIT = "listed for no segment in which it is heard"
POINTS = {
    "run": pl.String,
    "class_id": pl.String,
    "threshold": pl.Float64,
    "precision": pl.Float64,
    "recall": pl.Float64,
    "n_listed": pl.Int64,
    "n_hit": pl.Int64,
}


class BestF1(NamedTuple):
    """Highest F1 over thresholds and the threshold; ``at`` is null, with the reason, where no threshold does better than 0."""

    f1: float | None
    at: float | None
    reason: str | None


def pr_points(found: Levels, *, max_points: int | None = None) -> npt.NDArray[np.int64]:
    """Numbers of the levels that a precision-recall curve is drawn from, from the highest threshold down.

    Args:
        found: counts of one class.
        max_points: draw at most about this many: levels without a hit only lower precision, so of a stretch of them the
            last is kept, and of what is left points at even steps of recall.

    Returns:
        (P,); all levels without ``max_points``.
    """
    every = np.arange(len(found.score))
    if max_points is None or len(every) <= max_points:
        return every
    hit = found.hits > 0
    kept = np.flatnonzero(hit | np.append(hit[1:], True))
    if len(kept) <= max_points:
        return kept
    tp = found.tp[kept]
    wanted = np.searchsorted(tp, np.linspace(tp[0], tp[-1], max_points))
    return kept[np.unique(np.concatenate([[0], np.minimum(wanted, len(kept) - 1), [len(kept) - 1]]))]


def pr_curves(truth: Truth, coded: Coded, *, max_points: int | None = None) -> pl.DataFrame:
    """Precision and recall of each class of the ground truth at each distinct threshold.

    Args:
        truth, coded: who is heard where, and what a run lists.
        max_points: points per class, see :func:`pr_points`; ``None`` for all of them.

    Returns:
        :data:`POINTS`, both in [0, 1], higher is better; a class without a listed segment has no row.
    """
    parts = []
    for c, found in class_levels(truth, coded):
        at = pr_points(found, max_points=max_points)
        tp, listed = found.tp[at], found.listed[at]
        parts.append(
            pl.DataFrame(
                {
                    "class_id": pl.repeat(truth.classes[c], len(at), eager=True, dtype=pl.String),
                    "threshold": found.score[at],
                    "precision": tp / np.maximum(listed, 1),
                    "recall": tp / max(found.n_rel, 1),
                    "n_listed": listed.astype(np.int64),
                    "n_hit": tp.astype(np.int64),
                }
            )
        )
    if not parts:
        return pl.DataFrame(schema=POINTS)
    return pl.concat(parts).with_columns(run=pl.lit(coded.name)).select(pl.col(k).cast(t) for k, t in POINTS.items())


def best_f1(found: Levels) -> BestF1:
    """Highest F1 = 2 tp / (listed + heard) over thresholds, in [0, 1]; of equal ones the highest threshold.

    A threshold that is chosen on the segments it is judged by is an oracle: no other recording will do as well.

    >>> from birdlab.soundscapes.levels import levels
    >>> best_f1(levels([0.9, 0.8, 0.1], [True, False, True], n_rel=2, n_segments=5))
    BestF1(f1=0.8, at=0.1, reason=None)
    """
    if not found.n_rel:
        return BestF1(None, None, NOT_HEARD)
    if not len(found.score):
        return BestF1(0.0, None, NOT_LISTED)
    f1 = 2 * found.tp / (found.listed + found.n_rel)
    best = int(np.argmax(f1))
    return BestF1(float(f1[best]), float(found.score[best]), None) if f1[best] > 0 else BestF1(0.0, None, NO_HIT)


def f1_at(found: Levels, threshold: float) -> float | None:
    """F1 of the segments listed with ``threshold`` or more, in [0, 1]; None for a class that is heard nowhere.

    >>> from birdlab.soundscapes.levels import levels
    >>> f1_at(levels([0.9, 0.4], [True, True], n_rel=2, n_segments=5), 0.5)
    0.6666666666666666
    """
    if not found.n_rel:
        return None
    kept = found.score >= threshold
    return 2 * int(found.hits[kept].sum()) / (int(found.n[kept].sum()) + found.n_rel)
