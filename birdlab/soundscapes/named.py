"""Other averages over species that are in use, each under its name and with the number of classes it is taken over.

They are not comparable with c-mAP, nor with themselves on another class list or set of recordings.

* ``cmap_padded``: macro average precision over *all* classes of the list after five rows of ones are put before truth
  and scores (BirdCLEF 2023). Equal scores share a threshold, as in scikit-learn; a class that is heard nowhere gets 1.
* ``cmap_min5``: c-mAP (official rule) over the classes heard in at least five segments.
* ``cmap_min5_full``: the same classes, average precision over all segments as scikit-learn has it (BirdSet's cmAP5).
* ``auroc_macro``: mean area under the ROC curve, ties one half (BirdCLEF 2024 and later). Classes that are heard in no
  segment, or in every one, have no area: they are skipped and counted.
* ``f1_macro``: mean F1 of segments at one threshold over the classes of the ground truth.

In all that look at all segments, those a run does not list come last, behind a listed 0, tied with one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab.metrics import metric_row
from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.curves import f1_at
from birdlab.soundscapes.levels import Levels, class_levels

PAD, MIN_POSITIVES = 5, 5
NAMED = {
    "run": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "chance": pl.Float64,
    "n_classes": pl.Int64,
    "n_skipped": pl.Int64,
    "method": pl.String,
    "reason": pl.String,
}


def auroc(found: Levels) -> float | None:
    """Area under the ROC curve over all segments, in [0, 1]; 0.5 is chance. Not listed ones come last, ties count half.

    Returns:
        None for a class that is heard in no segment, or in all of them: then there is no pair to order.

    >>> from birdlab.soundscapes.levels import levels
    >>> auroc(levels([0.9, 0.5, 0.5], [True, True, False], n_rel=2, n_segments=4))
    0.875
    """
    n_negative = found.n_segments - found.n_rel
    if not found.n_rel or not n_negative:
        return None
    misses = found.n - found.hits
    below = n_negative - np.cumsum(misses)
    lost, rest = found.n_rel - int(found.hits.sum()), n_negative - int(misses.sum())
    twice = int((found.hits * (2 * below + misses)).sum()) + lost * rest
    return twice / (2 * found.n_rel * n_negative)


def full_ap(found: Levels, *, pad: int = 0) -> float | None:
    """Average precision over all segments, equal scores sharing a threshold, in [0, 1]; higher is better.

    Args:
        found: counts of one class.
        pad: relevant segments of probability 1 put before the others.

    Returns:
        Σ hits · precision / relevant, as scikit-learn's ``average_precision_score``; None without a relevant segment.

    >>> from birdlab.soundscapes.levels import levels
    >>> once = levels([0.9, 0.5], [False, True], n_rel=1, n_segments=10)
    >>> full_ap(once), round(full_ap(once, pad=1), 6)
    (0.5, 0.833333)
    """
    if not found.n_rel + pad:
        return None
    rest, lost = found.n_segments - int(found.n.sum()), found.n_rel - int(found.hits.sum())
    n, hits = np.append(found.n, rest), np.append(found.hits, lost)
    if pad and len(found.score) and found.score[0] == 1:
        n[0], hits[0] = n[0] + pad, hits[0] + pad
    elif pad:
        n, hits = np.append(pad, n), np.append(pad, hits)
    precision = np.cumsum(hits) / np.maximum(np.cumsum(n), 1)
    return float((hits * precision).sum() / (found.n_rel + pad))


def official_ap(found: Levels) -> float | None:
    """Average precision of what is listed by the official rule, in [0, 1]: within equal scores hits come first.

    Returns:
        Σ over hits of (hits so far) / (rank), over all relevant segments, listed or not; None without one.

    >>> from birdlab.soundscapes.levels import levels
    >>> official_ap(levels([1, 1, 1], [False, True, False], n_rel=1, n_segments=3))
    1.0
    """
    if not found.n_rel:
        return None
    wrong_above = np.cumsum(found.n - found.hits) - (found.n - found.hits)
    order = np.arange(1, int(found.hits.sum()) + 1)
    return float((order / (order + np.repeat(wrong_above, found.hits))).sum() / found.n_rel)


def named_scores(
    truth: Truth, coded: Coded, *, pad: int = PAD, min_positives: int = MIN_POSITIVES, threshold: float = 0.5
) -> pl.DataFrame:
    """The named averages of one run.

    Args:
        truth, coded: who is heard where, and what a run lists.
        pad: rows of ones.
        min_positives: segments a class must be heard in for ``cmap_min5``.
        threshold: of ``f1_macro``.

    Returns:
        :data:`NAMED`, five rows: value (null with the reason where no class is left), number of classes averaged, and of
        classes of the list that are skipped.
    """
    padded, often, often_full, areas, f1 = [], [], [], [], []
    for _, found in class_levels(truth, coded, heard_only=False):
        padded.append(full_ap(found, pad=pad))
        if found.n_rel:
            areas.append(auroc(found))
            f1.append(f1_at(found, threshold))
        if found.n_rel >= max(min_positives, 1):
            often.append(official_ap(found))
            often_full.append(full_ap(found))
    few = f"no class is heard in {min_positives} segments"
    none = "no class is heard in some segments and not in others"
    scikit = "equal scores share a threshold, segments not listed last"
    rows = [
        ("cmap_padded", padded, None, f"{pad} rows of ones; all classes of the list; {scikit}", "no class"),
        (f"cmap_min{min_positives}", often, None, f"official rule; classes heard in >= {min_positives} segments", few),
        (
            f"cmap_min{min_positives}_full",
            often_full,
            None,
            f"classes heard in >= {min_positives} segments; {scikit}",
            few,
        ),
        ("auroc_macro", areas, 0.5, "ties one half, segments not listed last", none),
        ("f1_macro", f1, None, f"classes of the ground truth; probability >= {threshold:g}", "no class is heard"),
    ]
    out = []
    for metric, values, chance, method, why in rows:
        kept = [v for v in values if v is not None]
        value = float(np.mean(kept)) if kept else None
        skipped = len(truth.classes) - len(kept)
        out.append((coded.name, metric, value, chance, len(kept), skipped, method, None if kept else why))
    return pl.DataFrame(out, schema=NAMED, orient="row")


def named_rows(named: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics`` of :func:`named_scores`; n is the number of classes averaged."""
    return [
        metric_row(
            model=row["run"],
            metric=row["metric"],
            value=row["value"],
            chance=row["chance"],
            n=row["n_classes"],
            method=f"{row['method']}; {row['n_skipped']} classes skipped",
            reason=row["reason"],
        )
        for row in named.iter_rows(named=True)
    ]
