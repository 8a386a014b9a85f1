"""What was said instead: the class listed first in segments where a species is heard and does not come first.

The class listed first in a segment is the one with the highest probability there.

* A species that shares the highest probability with others comes first, and is counted as sharing it.
* Where several others share it, nobody is named: the segment is counted as tied and is no pair.
* Several birds may be heard in one segment. A class that is listed first and is heard there too is no mistake: pairs
  count such segments apart, and the confuser of a species is the class most often named where it is *not* heard.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.levels import truth_scores

PAIRS = {
    "run": pl.String,
    "class_id": pl.String,
    "said": pl.String,
    "n": pl.Int64,
    "n_heard_too": pl.Int64,
    "n_instead": pl.Int64,
    "n_rel": pl.Int64,
    "share": pl.Float64,
}
SPECIES = {
    "run": pl.String,
    "class_id": pl.String,
    "n_rel": pl.Int64,
    "n_first": pl.Int64,
    "n_first_shared": pl.Int64,
    "n_other": pl.Int64,
    "n_other_right": pl.Int64,
    "n_tied": pl.Int64,
    "n_nothing": pl.Int64,
    "said_instead": pl.String,
    "n_said_instead": pl.Int64,
}


class First(NamedTuple):
    """The first place of each segment: highest probability (-1: nothing listed), how many classes share it, one of them."""

    score: npt.NDArray[np.float64]
    n: npt.NDArray[np.int32]
    cls: npt.NDArray[np.int32]


class Instead(NamedTuple):
    """What was said instead: :data:`PAIRS`, most mistaken first, and :data:`SPECIES`, one row per class heard."""

    pairs: pl.DataFrame
    species: pl.DataFrame


def first_places(coded: Coded, n_segments: int) -> First:
    """The class listed first in each of the ``n_segments`` segments of a grid, in two passes over the classes."""
    score = np.full(n_segments, -1.0)
    n, cls = np.zeros(n_segments, dtype=np.int32), np.full(n_segments, -1, dtype=np.int32)
    for counting in (False, True):
        for c in range(len(coded.starts) - 1):
            seg, p = coded.of_class(c)
            inside = seg < n_segments
            if not inside.all():
                seg, p = seg[inside], p[inside]
            if not counting:
                score[seg] = np.maximum(score[seg], p)  # A class stands once in a segment.
                continue
            top = seg[p == score[seg]]
            n[top] += 1
            cls[top] = c
    return First(score, n, cls)


def said_instead(truth: Truth, coded: Coded) -> Instead:
    """Which class is listed first where each species is heard and does not come first, and how often.

    Args:
        truth, coded: who is heard where, and what a run lists.

    Returns:
        :class:`Instead`. In ``pairs``: in n segments ``said`` is listed first, alone, while ``class_id`` is heard; in
        n_heard_too of them ``said`` is heard as well, in n_instead it is not; share = n_instead / n_rel. In ``species``
        n_rel = n_first + n_other + n_tied + n_nothing (n_first_shared of n_first; n_other_right of n_other name a class
        that is heard too); ``said_instead`` is null where no other class was named wrongly; of equally frequent ones it is
        the one listed first more often in all (n), then the first in the order of the class list.
    """
    first = first_places(coded, truth.grid.n_segments)
    seg, cls = np.asarray(truth.seg, dtype=np.int64), np.asarray(truth.cls, dtype=np.int64)
    own = truth_scores(truth, coded)
    nothing = first.n[seg] == 0
    is_first = ~nothing & (own == first.score[seg])
    other = ~nothing & ~is_first & (first.n[seg] == 1)
    n_classes = len(truth.classes)
    keys = cls * max(truth.grid.n_segments, 1) + seg  # Sorted: a truth is sorted by class, then segment.
    named = first.cls[seg]
    asked = named.astype(np.int64) * max(truth.grid.n_segments, 1) + seg
    right = other & _isin_sorted(keys, asked)

    def count(mask: np.ndarray) -> np.ndarray:
        return np.bincount(cls[mask], minlength=n_classes)

    pairs = _pairs(truth, coded.name, cls[other], named[other], right[other])
    heard = np.flatnonzero(truth.n_rel)
    species = pl.DataFrame(
        {
            "class_id": [truth.classes[c] for c in heard],
            "n_rel": truth.n_rel[heard],
            "n_first": count(is_first)[heard],
            "n_first_shared": count(is_first & (first.n[seg] > 1))[heard],
            "n_other": count(other)[heard],
            "n_other_right": count(right)[heard],
            "n_tied": count(~nothing & ~is_first & ~other)[heard],
            "n_nothing": count(nothing)[heard],
        },
        schema={k: SPECIES[k] for k in list(SPECIES)[1:9]},
    )
    worst = pairs.filter(pl.col("n_instead") > 0).group_by("class_id", maintain_order=True).first()
    worst = worst.select("class_id", said_instead="said", n_said_instead="n_instead")
    species = species.join(worst, on="class_id", how="left", maintain_order="left").with_columns(run=pl.lit(coded.name))
    return Instead(pairs, species.select(pl.col(k).cast(t) for k, t in SPECIES.items()))


def _pairs(truth: Truth, run: str, cls: np.ndarray, named: np.ndarray, right: np.ndarray) -> pl.DataFrame:
    """Counted pairs of classes, most mistaken first; equal ones in the order of the class list."""
    n_classes = max(len(truth.classes), 1)
    codes, at = np.unique(cls * n_classes + named, return_inverse=True)
    n, heard_too = np.bincount(at, minlength=len(codes)), np.bincount(at[right], minlength=len(codes))
    n_rel = truth.n_rel[codes // n_classes] if len(codes) else np.zeros(0, dtype=np.int64)
    order = np.lexsort((codes, -n, -(n - heard_too)))
    frame = pl.DataFrame(
        {
            "run": [run] * len(codes),
            "class_id": [truth.classes[k // n_classes] for k in codes],
            "said": [truth.classes[k % n_classes] for k in codes],
            "n": n,
            "n_heard_too": heard_too,
            "n_instead": n - heard_too,
            "n_rel": n_rel,
            "share": (n - heard_too) / np.maximum(n_rel, 1),
        },
        schema=PAIRS,
    )
    return frame[order]


def _isin_sorted(keys: np.ndarray, asked: np.ndarray) -> npt.NDArray[np.bool_]:
    if not len(keys):
        return np.zeros(len(asked), dtype=bool)
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return keys[at] == asked
