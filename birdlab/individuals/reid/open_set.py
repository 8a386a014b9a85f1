"""Known or new? The protocol open: a threshold from validation, AUROC, and balanced accuracies of both kinds of birds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.individuals.reid.measures import (
    Number,
    codes_of,
    expected_top_k,
    floats,
    number_rows,
    row_jackknife,
)
from birdlab.metrics import metric_row
from birdlab.stats import NEW, Interval

#: What is answered below the threshold.
NEW_BIRD = "new"
NO_VALIDATION = "no validation queries: there is no threshold"
NO_SCORE = "the method gives no similarity"
NO_UNKNOWN, NO_KNOWN = "no query of an unknown bird", "no query of a known bird"


@dataclass(frozen=True)
class Threshold:
    """Lowest score that is answered, and the balanced accuracy of known against unknown it has on validation.

    ``value`` None: there is none, and ``reason`` says why.
    """

    value: float | None
    balanced_accuracy: float | None
    n_known: int
    n_unknown: int
    reason: str | None = None


def auroc(score: npt.ArrayLike, known: npt.ArrayLike) -> float | None:
    """Probability that a known bird scores higher than an unknown one (ties count half), in [0, 1]; .5 is chance.

    Args:
        score: higher is more likely known, (n,); -inf for a query without an answer.
        known: (n,) bool.

    Returns:
        None where one of the kinds is missing.

    >>> auroc([0.1, 0.4, 0.3, 0.9], [False, False, True, True])
    0.75
    """
    from scipy.stats import rankdata

    score, known = np.asarray(score, dtype=np.float64), np.asarray(known, dtype=bool)
    n_known, n_unknown = int(known.sum()), int((~known).sum())
    if not n_known or not n_unknown:
        return None
    ranks = rankdata(score)
    return float((ranks[known].sum() - n_known * (n_known + 1) / 2) / (n_known * n_unknown))


def balanced_accuracy(y_true: Sequence[object], y_pred: Sequence[object]) -> float | None:
    """Mean over the birds of ``y_true`` of the share of theirs that is named right, in [0, 1]; None for no row.

    >>> balanced_accuracy(["a", "a", "b"], ["a", "c", "b"])
    0.75
    """
    right: dict[object, list[bool]] = {}
    for true, said in zip(y_true, y_pred, strict=True):
        right.setdefault(true, []).append(true == said)
    return float(np.mean([np.mean(own) for own in right.values()])) if right else None


def baks(y_true: Sequence[object], y_pred: Sequence[object], unknown: Sequence[object]) -> float | None:
    """Balanced accuracy on known birds: that of the rows whose bird is none of ``unknown``.

    As wildlife-datasets 1.0.9 defines it (Adam et al. 2024).

    >>> round(baks([1, 1, 1, 2, 9], [1, 1, 2, 2, "new"], [9]), 4)
    0.8333
    """
    strange = set(unknown)
    kept = [(t, p) for t, p in zip(y_true, y_pred, strict=True) if t not in strange]
    return balanced_accuracy([t for t, _ in kept], [p for _, p in kept])


def baus(
    y_true: Sequence[object], y_pred: Sequence[object], unknown: Sequence[object], new: object = NEW_BIRD
) -> float | None:
    """Balanced accuracy on unknown birds: mean over them of the share that is called ``new``.

    As wildlife-datasets 1.0.9 defines it (Adam et al. 2024).

    >>> baus(["z", "z", "y"], ["new", "a", "new"], ["y", "z"])
    0.75
    """
    strange = set(unknown)
    right: dict[object, list[bool]] = {}
    for true, said in zip(y_true, y_pred, strict=True):
        if true in strange:
            right.setdefault(true, []).append(said == new)
    return float(np.mean([np.mean(own) for own in right.values()])) if right else None


def choose_threshold(outcomes: pl.DataFrame) -> Threshold:
    """Threshold that tells known from unknown birds best on the validation queries.

    Args:
        outcomes: of one method and gallery of the protocol open; rows with the role ``validation`` are used. A known
            bird taken out of the gallery stands in for an unknown one.

    Returns:
        Threshold: of the scores of validation, and one above them all, the one with the highest balanced accuracy (mean of
        known answered and unknown refused); the lowest of equal ones. A query without an answer is refused by all.
    """
    rows = outcomes.filter(pl.col("role") == "validation")
    known = rows["is_known"].to_numpy().astype(bool)
    n_known, n_unknown = int(known.sum()), int((~known).sum())
    if not n_known or not n_unknown:
        why = NO_VALIDATION if not rows.height else f"validation: {NO_KNOWN if not n_known else NO_UNKNOWN}"
        return Threshold(None, None, n_known, n_unknown, why)
    if rows["score"].null_count() == rows.height:
        return Threshold(None, None, n_known, n_unknown, NO_SCORE)
    score = _scores(rows)
    steps = np.append(np.unique(score[np.isfinite(score)]), np.inf)
    answered = n_known - np.searchsorted(np.sort(score[known]), steps, side="left")
    refused = np.searchsorted(np.sort(score[~known]), steps, side="left")
    # In whole numbers: equal thresholds stay equal, and the first is the lowest.
    right = answered * n_unknown + refused * n_known
    best = int(np.argmax(right))
    return Threshold(float(steps[best]), float(right[best]) / (2 * n_known * n_unknown), n_known, n_unknown)


def open_measures(outcomes: pl.DataFrame) -> tuple[dict[str, Number], Threshold]:
    """AUROC, BAKS and BAUS of one method and gallery of the protocol open, and the threshold of the last two.

    Below the threshold the answer is "new". A tie for the first place is right by its share. Chance: AUROC 1/2; BAKS and
    BAUS of a guess that says "new" as often as the method does, and else names one of the list.
    """
    rows = outcomes.filter(pl.col("role") == "query")
    threshold = choose_threshold(outcomes)
    known = rows["is_known"].to_numpy().astype(bool)
    why = None if known.any() and not known.all() else (NO_UNKNOWN if known.any() else NO_KNOWN)
    if rows.height and rows["score"].null_count() == rows.height:
        why = NO_SCORE
    score = _scores(rows)
    out = {"auroc": _number(rows, lambda keep: auroc(score[keep], known[keep]), 0.5, why)}
    why = threshold.reason or (NO_SCORE if why == NO_SCORE else None)
    answered = score >= (np.inf if threshold.value is None else threshold.value)
    answered &= np.isfinite(score)
    top = expected_top_k(floats(rows, "n_above"), floats(rows, "n_tied"), 1)
    length = np.maximum(rows["n_candidates"].to_numpy(), 1)
    says_new = float(1 - answered.mean()) if rows.height else 0.0
    guess = (1 - says_new) * np.where(rows["in_list"].to_numpy(), 1 / length, 0.0)
    bird, n_birds = codes_of(rows, "individual_id")
    for name, of, right, luck, none in (
        ("baks", known, top * answered, guess, NO_KNOWN),
        ("baus", ~known, (~answered).astype(float), np.full(rows.height, says_new), NO_UNKNOWN),
    ):
        chance = _balanced(luck, bird, n_birds, of)
        reason = why or (None if of.any() else none)
        part = rows.filter(pl.Series(of, dtype=pl.Boolean))
        values, codes = right[of], bird[of]
        out[name] = _number(part, lambda keep, v=values, c=codes: _balanced(v, c, n_birds, keep), chance, reason)
    return out, threshold


def open_rows(outcomes: pl.DataFrame, at: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of ``metrics`` of :func:`open_measures`, and of the threshold.

    Args:
        outcomes: of one method and gallery of the protocol open.
        at: model, group, level of the rows.
    """
    numbers, threshold = open_measures(outcomes)
    rows = [row for name, number in numbers.items() for row in number_rows(name, "threshold of validation", number, at)]
    about = {"n": threshold.n_known + threshold.n_unknown, "reason": threshold.reason, "method": "validation"}
    infinite = threshold.value is not None and not np.isfinite(threshold.value)
    if infinite:
        about["reason"] = "no score tells known birds from unknown ones: nothing is answered"
    value = None if infinite else threshold.value
    rows.append(metric_row(metric="threshold", value=value, **about, **at))
    balanced = threshold.balanced_accuracy
    rows.append(metric_row(metric="threshold_balanced_accuracy", value=balanced, chance=0.5, **about, **at))
    return rows


def _number(rows: pl.DataFrame, measure, chance: float | None, reason: str | None) -> Number:
    none = Interval(None, None, NEW, 0, reason)
    if reason is not None:
        return Number(None, None, rows.height, none, none, reason)
    value = measure(np.ones(rows.height, dtype=bool))
    ends = [row_jackknife(rows, unit, measure) for unit in ("individual", "video")]
    return Number(value, chance, rows.height, ends[0], ends[1])


def _balanced(
    values: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], n: int, keep: npt.NDArray[np.bool_]
) -> float | None:
    """Mean over birds of the means of the rows kept."""
    count = np.bincount(codes[keep], minlength=n)
    total = np.bincount(codes[keep], values[keep], minlength=n)
    return float((total[count > 0] / count[count > 0]).mean()) if count.any() else None


def _scores(rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    score = floats(rows, "score")
    return np.where(np.isnan(score), -np.inf, score)
