"""Event F1: does a run say when a species begins and ends to sing? An extra; no part of the challenge.

* Events are made of segments, of truth and run alike: neighbouring segments of a species in one recording are one event,
  from the start of the first to the end of the last. So times are multiples of five seconds.
* A run's event is right when its onset *and* its offset each lie within the collar of those of one event of the truth. The
  collar is the same for both, and is not widened for long events. One event matches one event; the most matches count.
* A segment is said when its probability reaches a threshold: one for all (0.5 as given), or one per species. Thresholds
  that were chosen on the same segments make an oracle, and the method says so.
* Segments past the end of a recording are segments of it. Where a run does not say where they are, each is an event of its
  own, and wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.soundscapes.coded import SEGMENT_S, Coded, Ints, Truth
from birdlab.soundscapes.curves import best_f1
from birdlab.soundscapes.levels import class_levels, positions

THRESHOLD, COLLAR_S = 0.5, 5.0
ORACLE = "best_f1"
CLASSES = {
    "run": pl.String,
    "class_id": pl.String,
    "threshold": pl.Float64,
    "n_true": pl.Int64,
    "n_said": pl.Int64,
    "n_match": pl.Int64,
    "precision": pl.Float64,
    "recall": pl.Float64,
    "f1": pl.Float64,
    "reason": pl.String,
}
NO_EVENT, NEVER = "no event, neither heard nor said", "no threshold: the species is never found"


class EventScores(NamedTuple):
    """Event scores of a run.

    Args:
        classes: :data:`CLASSES`, one row per class that is heard, or said.
        f1_micro, precision, recall: over the events of all classes, in [0, 1]; None without any.
        f1_macro: mean F1 over the classes heard; None without any.
        n_classes: classes of ``f1_macro``.
        method: collar, rule and threshold in words.
    """

    classes: pl.DataFrame
    f1_micro: float | None
    precision: float | None
    recall: float | None
    f1_macro: float | None
    n_classes: int
    method: str


def merge(media: Ints, k: Ints) -> tuple[Ints, Ints, Ints]:
    """Events of one class: recording, first and last segment (numbers within the recording) of each, in order.

    Args:
        media, k: recording of each segment and its number within it, in any order, each once.

    >>> [x.tolist() for x in merge(np.array([1, 0, 0, 1]), np.array([0, 1, 2, 2]))]
    [[0, 1, 1], [1, 0, 2], [2, 0, 2]]
    """
    order = np.lexsort((k, media))
    media, k = np.asarray(media, dtype=np.int64)[order], np.asarray(k, dtype=np.int64)[order]
    if not len(k):
        return media, k, k
    new = np.append(True, (np.diff(k) > 1) | (np.diff(media) > 0))
    last = np.append(new[1:], True)
    return media[new], k[new], k[last]


def count_matches(true: tuple[Ints, Ints, Ints], said: tuple[Ints, Ints, Ints], collar_s: float) -> int:
    """Most pairs of events, one to one, of the same recording whose onsets and offsets lie within the collar.

    Args:
        true, said: events as of :func:`merge`.
        collar_s: s, at least 0.

    Events of a list do not overlap, so those near one event are neighbours, and going through them in order, taking the
    first free one each time, gives as many pairs as possible.
    """
    near = int(np.floor(collar_s / SEGMENT_S + 1e-9))
    longest = 1 + max((int(x.max(initial=0)) for events in (true, said) for x in events[1:]), default=0)
    step = longest + near + 1  # Recordings far enough apart on one line.
    (a0, a1), (b0, b1) = ((m * step + first, m * step + last) for m, first, last in (true, said))
    lo = np.maximum(np.searchsorted(b0, a0 - near), np.searchsorted(b1, a1 - near))
    hi = np.minimum(np.searchsorted(b0, a0 + near, side="right"), np.searchsorted(b1, a1 + near, side="right"))
    n, free = 0, 0
    for start, stop in zip(lo.tolist(), hi.tolist(), strict=True):
        at = max(start, free)
        if at < stop:
            n, free = n + 1, at + 1
    return n


def event_scores(
    truth: Truth,
    coded: Coded,
    *,
    collar_s: float = COLLAR_S,
    threshold: float | str | Mapping[str, float | None] = THRESHOLD,
) -> EventScores:
    """Precision, recall and F1 of events.

    Args:
        truth, coded: who is heard where, and what a run lists.
        collar_s: how far on- and offsets may lie apart, s.
        threshold: one for all; ``"best_f1"``: for each species the one with the highest F1 of segments on this truth, an
            oracle; or one per class id, chosen elsewhere (a class without one is never said).

    Returns:
        :class:`EventScores`.

    Raises:
        ParameterError: the collar is below 0, or the threshold is another word.
    """
    if not 0 <= collar_s < 1e9:
        raise ParameterError(Problem("bad_value", str(collar_s), "0 s or more", key="collar_s"))
    at, words = _thresholds(truth, coded, threshold)
    starts = np.searchsorted(truth.cls, np.arange(len(truth.classes) + 1))
    media, k = positions(truth, coded)
    lost = media < 0
    media = np.where(lost, len(truth.grid.media) + np.cumsum(lost), media)
    rows = []
    for c, name in enumerate(truth.classes):
        seg, score = coded.of_class(c)
        said = seg[score >= at[c]]
        heard = truth.seg[starts[c] : starts[c + 1]]
        true, given = merge(media[heard], k[heard]), merge(media[said], k[said])
        counts = (len(true[0]), len(given[0]), count_matches(true, given, collar_s))
        if counts[0] or counts[1]:
            rows.append(_row(coded.name, name, None if np.isinf(at[c]) else float(at[c]), counts))
    classes = pl.DataFrame(rows, schema=CLASSES, orient="row")
    in_truth = classes.filter(pl.col("n_true") > 0)
    total = tuple(int(classes[k].sum()) for k in ("n_true", "n_said", "n_match"))
    precision, recall, micro = _shares(total)
    macro = float(in_truth["f1"].mean()) if in_truth.height else None  # type: ignore[arg-type]
    method = f"onset and offset both within {collar_s:g} s; segments merged; {words}"
    return EventScores(classes, micro, precision, recall, macro, in_truth.height, method)


def _thresholds(
    truth: Truth, coded: Coded, threshold: float | str | Mapping[str, float | None]
) -> tuple[np.ndarray, str]:
    """Threshold of each class, inf for one that is never said, and the words for it."""
    if isinstance(threshold, Mapping):
        given = [threshold.get(name) for name in truth.classes]
        return np.array([np.inf if t is None else t for t in given], dtype=np.float64), "a threshold per species, given"
    if not isinstance(threshold, str):
        return np.full(len(truth.classes), float(threshold)), f"probability >= {threshold:g}"
    if threshold != ORACLE:
        raise ParameterError(
            Problem("bad_value", repr(threshold), f"a number, {ORACLE}, or one per class", key="threshold")
        )
    out = np.full(len(truth.classes), np.inf)
    for c, found in class_levels(truth, coded):
        best = best_f1(found).at
        out[c] = np.inf if best is None else best
    return out, "oracle: the threshold per species with the highest F1 of segments on the same recordings"


def _row(run: str, name: str, threshold: float | None, counts: tuple[int, int, int]) -> tuple:
    reason = NEVER if threshold is None else None
    return (run, name, threshold, *counts, *_shares(counts), reason)


def _shares(counts: tuple[int, int, int]) -> tuple[float | None, float | None, float | None]:
    n_true, n_said, n_match = counts
    precision = n_match / n_said if n_said else None
    recall = n_match / n_true if n_true else None
    return precision, recall, 2 * n_match / (n_true + n_said) if n_true + n_said else None
