"""Average precision of a run per species and per segment, exact under four rules for ties.

For a query (a species, or a segment) with n_rel relevant items, of which a run lists some among others by their
probability, ``AveP = (1/n_rel) · Σ_k P(k) rel(k)`` over the ranks k of the list (Goëau et al., BirdCLEF 2019: c-mAP).
Relevant items that are not listed stay in n_rel. Items of one probability have no order of their own, so a rule must
give one:

* ``official``: relevant items first (as the evaluators of 2018 and 2020 sort);
* ``pessimistic``: relevant items last;
* ``expected``: mean over all orders;
* ``step``: every relevant item of a tie gets the precision at its end (scikit-learn). It may lie above ``official``.

For a tie of m items with r relevant, n items and T relevant ones above it, the sums over its relevant items have closed
forms in (n, m, r, T); nothing is ranked row by row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from birdlab.soundscapes.coded import Coded, Floats, Ints, Truth

#: Columns of the four rules, in the order of the arrays below.
RULES = ("ap", "ap_pessimistic", "ap_expected", "ap_step")
#: Gap between official and pessimistic c-mAP from which a run is remarked as tied (saturated or rounded scores).
TIE_GAP = 0.001
#: Largest work of comparing every class with every relevant pair, in rows of the run; above it rows are sorted.
_COMPARED = 20


@dataclass(frozen=True)
class Ties:
    """Ties that hold a relevant item, sorted by their query: items above, items in it, relevant in it, relevant above."""

    owner: Ints
    n: Ints
    m: Ints
    r: Ints
    above: Ints


def class_scores(truth: Truth, coded: Coded) -> pl.DataFrame:
    """Average precision of each species of the ground truth, in [0, 1], higher is better.

    Args:
        truth: who is heard where.
        coded: what a run lists.

    Returns:
        One row per species with at least one segment, in the order of the classes: class_id, n_rel, n_listed, n_hit
        (Int64), ap, ap_pessimistic, ap_expected, ap_step (Float64; 0 where nothing is listed).

    Source: papers/birdclef2019, "Metric"; closed forms as in :mod:`birdlab.soundscapes.scores`.

    >>> from birdlab.soundscapes.coded import Grid
    >>> grid = Grid(("a",), np.array([0, 4]), np.array([True]))
    >>> truth = Truth(grid, ("wren",), np.array([0, 1], np.int32), np.array([0, 0], np.int32))
    >>> run = Coded("run", np.arange(3, dtype=np.int32), np.zeros(3, np.int32), np.array([.9, .5, .5]), np.array([0, 3]))
    >>> class_scores(truth, run).select("n_rel", "n_hit", "ap", "ap_pessimistic").row(0)
    (2, 2, 1.0, 0.8333333333333333)
    """
    n_rel = truth.n_rel
    heard = np.flatnonzero(n_rel)
    bounds = np.concatenate([[0], np.cumsum(n_rel)])
    is_relevant = np.zeros(_reach(truth.grid.n_segments, coded), dtype=np.bool_)
    listed, hits, found = np.diff(coded.starts)[heard], np.zeros(len(heard), np.int64), []
    room = np.empty(int(listed.max(initial=0)))  # one for all: new memory costs more than the sorting
    for i, c in enumerate(heard):
        seg, score = coded.of_class(int(c))
        own = truth.seg[bounds[c] : bounds[c + 1]]
        is_relevant[own] = True
        relevant = np.sort(score[is_relevant[seg]])
        is_relevant[own] = False
        hits[i] = len(relevant)
        if len(relevant):
            every = room[: len(score)]
            every[:] = score
            every.sort()
            found.append(_ties_of(i, every, relevant))
    ties = _joined(found)
    sums = average_precisions(ties, len(heard)) / n_rel[heard]
    columns = {"class_id": [truth.classes[c] for c in heard], "n_rel": n_rel[heard], "n_listed": listed, "n_hit": hits}
    return pl.DataFrame({**columns, **dict(zip(RULES, sums, strict=True))}, schema=_SCHEMA)


_SCHEMA = {"class_id": pl.String, **dict.fromkeys(("n_rel", "n_listed", "n_hit"), pl.Int64), **dict.fromkeys(RULES, pl.Float64)}  # fmt: skip


def _ties_of(owner: int, every: Floats, relevant: Floats) -> Ties:
    """Ties of one query from its sorted probabilities, all and relevant; from high to low."""
    value, first = np.unique(relevant, return_index=True)
    r = np.diff(np.append(first, len(relevant)))
    hi = np.searchsorted(every, value, "right")
    m = hi - np.searchsorted(every, value, "left")
    above = len(relevant) - first - r
    return Ties(np.full(len(value), owner), len(every) - hi, m, r, above)


def _joined(found: list[Ties]) -> Ties:
    names = ("owner", "n", "m", "r", "above")
    if not found:
        return Ties(*(np.zeros(0, np.int64) for _ in names))
    return Ties(*(np.concatenate([getattr(t, name) for t in found]) for name in names))


def average_precisions(ties: Ties, n_owners: int) -> Floats:
    """Sum of precisions at the relevant items of each query under the four rules, (4, n_owners), order of ``RULES``.

    Args:
        ties: sorted by owner; the order within an owner does not matter up to rounding.
        n_owners: number of queries; one without ties gets 0.
    """
    n, m, r, above = (np.asarray(x, dtype=np.float64) for x in (ties.n, ties.m, ties.r, ties.above))
    count = np.asarray(ties.r, dtype=np.int64)
    t = _within(count) + 1.0
    seen = np.repeat(above, count) + t
    best = seen / (np.repeat(n, count) + t)
    worst = seen / (np.repeat(n + m - r, count) + t)
    out = np.zeros((4, n_owners))
    per_item = np.repeat(np.asarray(ties.owner), count)
    out[0] = _sums(best, per_item, n_owners)
    out[1] = _sums(worst, per_item, n_owners)
    # Where all of a tie are relevant, or it is of one item, every order gives the same: only mixed ties are spread out.
    mixed = ties.m > ties.r
    mean = np.add.reduceat(best, np.cumsum(count) - count) if len(best) else best
    mean[mixed] = _mean_over_orders(n[mixed], m[mixed], r[mixed], above[mixed])
    out[2] = _sums(mean, ties.owner, n_owners)
    out[3] = _sums(r * (above + r) / (n + m), ties.owner, n_owners)
    return out


def _mean_over_orders(n: Floats, m: Floats, r: Floats, above: Floats) -> Floats:
    """(r/m) Σ_j (T + 1 + (j-1)(r-1)/(m-1)) / (n+j) of each tie, j from 1 to m > 1."""
    if not len(n):
        return n
    count = m.astype(np.int64)
    j = _within(count) + 1.0
    slope = np.repeat((r - 1) / (m - 1), count)
    terms = (np.repeat(above + 1, count) + (j - 1) * slope) / (np.repeat(n, count) + j)
    return r / m * np.add.reduceat(terms, np.cumsum(count) - count)


def _within(count: Ints) -> Ints:
    """0, 1, … within each of consecutive groups of these sizes."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)


def _sums(values: Floats, owner: Ints, n_owners: int) -> Floats:
    """Pairwise sums of consecutive runs of an owner."""
    out = np.zeros(n_owners)
    if len(values):
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        out[owner[first]] = np.add.reduceat(values, first)
    return out


def segment_scores(truth: Truth, coded: Coded) -> pl.DataFrame:
    """Average precision of each segment in which a species is heard, over the classes listed for it, in [0, 1].

    Returns:
        One row per segment with at least one species, in order: segment, n_rel, n_listed, n_hit (Int64) and the four
        average precisions; silent segments have none. Classes that are nowhere in the ground truth count as wrong.

    Source: the second score (r-mAP) of the official evaluators of BirdCLEF 2018 and 2020.
    """
    segment, query = np.unique(truth.seg, return_inverse=True)
    score = _listed_scores(truth, coded)
    listed = np.flatnonzero(~np.isnan(score))
    # Sorted by segment, then from high to low: what is tied among the relevant lies side by side.
    order = listed[np.lexsort((-score[listed], query[listed]))]
    seg, value, owner = truth.seg[order], score[order], query[order]
    is_full = np.count_nonzero(np.diff(coded.starts)) * len(order) <= _COMPARED * max(len(coded.score), 1)
    count = _compared if is_full else _sorted
    n, m = count(coded, seg, value, truth.grid.n_segments)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (value[1:] != value[:-1])
    first = np.flatnonzero(new)
    start = np.searchsorted(owner, owner)
    r = np.diff(np.append(first, len(order)))
    ties = Ties(owner[first], n[first], m[first], r, first - start[first])
    n_rel = np.bincount(query, minlength=len(segment))
    sums = average_precisions(ties, len(segment)) / n_rel
    n_listed = _listed_per_segment(truth, coded)[segment]
    counts = {
        "segment": segment,
        "n_rel": n_rel,
        "n_listed": n_listed,
        "n_hit": np.bincount(owner, minlength=len(segment)),
    }
    schema = {**dict.fromkeys(counts, pl.Int64), **dict.fromkeys(RULES, pl.Float64)}
    return pl.DataFrame({**counts, **dict(zip(RULES, sums, strict=True))}, schema=schema)


class _Row:
    """The probabilities of one class at a time, by segment; ``blank`` where it is not listed."""

    def __init__(self, n_segments: int, coded: Coded, blank: float) -> None:
        self.coded, self.blank = coded, blank
        self.values = np.full(_reach(n_segments, coded), blank)
        self.every = np.arange(len(self.values), dtype=np.int32)

    def is_full(self, c: int) -> bool:
        """Whether the class is listed for every segment, in order: then there is nothing to put in place."""
        seg, _ = self.coded.of_class(c)
        return len(seg) == len(self.every) and np.array_equal(seg, self.every)

    def take(self, c: int, segments: Ints) -> Floats:
        """Probabilities of the class for these segments."""
        seg, score = self.coded.of_class(c)
        if self.is_full(c):
            return score[segments]
        self.values[seg] = score
        found = self.values[segments]
        self.values[seg] = self.blank
        return found


def _listed_per_segment(truth: Truth, coded: Coded) -> Ints:
    row = _Row(truth.grid.n_segments, coded, 0.0)
    out = np.zeros(len(row.every), np.int64)
    for c in np.flatnonzero(np.diff(coded.starts)):
        if row.is_full(int(c)):
            out += 1
        else:
            out[coded.of_class(int(c))[0]] += 1  # a segment is listed once per class
    return out


def _listed_scores(truth: Truth, coded: Coded) -> Floats:
    """Probability that the run gives each pair of the truth; NaN where it does not list it."""
    out = np.full(len(truth.seg), np.nan)
    bounds = np.concatenate([[0], np.cumsum(truth.n_rel)])
    row = _Row(truth.grid.n_segments, coded, np.nan)
    for c in np.flatnonzero(np.diff(bounds)):
        own = slice(bounds[c], bounds[c + 1])
        out[own] = row.take(int(c), truth.seg[own])
    return out


def _reach(n_segments: int, coded: Coded) -> int:
    last = [int(coded.of_class(int(c))[0].max()) for c in np.flatnonzero(np.diff(coded.starts))]
    return max([n_segments, *(s + 1 for s in last)])


def _compared(coded: Coded, seg: Ints, value: Floats, n_segments: int) -> tuple[Ints, Ints]:
    """Classes listed above each pair, and level with it (itself too), class by class; pairs are sorted by segment.

    Pairs are taken in layers, the first of each segment, the second, …, segments with most of them first: a layer is
    compared with a beginning of the same row of probabilities, which is gathered once per class.
    """
    segments, first, size = np.unique(seg, return_index=True, return_counts=True)
    by_size = np.argsort(-size, kind="stable")
    layer = np.arange(len(seg)) - np.repeat(first, size)
    place = np.empty(len(segments), np.int64)
    place[by_size] = np.arange(len(segments))
    order = np.lexsort((np.repeat(place, size), layer))
    ends = np.cumsum(np.bincount(layer)).tolist()
    layers = [slice(a, b) for a, b in itertools.pairwise([0, *ends])]
    wanted, values = segments[by_size], value[order]
    above, level = np.zeros(len(seg), np.int64), np.zeros(len(seg), np.int64)
    # Bytes are added fast; they are emptied before they are full.
    more, as_much = np.zeros(len(seg), np.uint8), np.zeros(len(seg), np.uint8)
    row = _Row(n_segments, coded, -1.0)
    for i, c in enumerate(np.flatnonzero(np.diff(coded.starts))):
        theirs = row.take(int(c), wanted)
        for part in layers:
            own, other = values[part], theirs[: part.stop - part.start]
            more[part] += (other > own).view(np.uint8)
            as_much[part] += (other == own).view(np.uint8)
        if i % 255 == 254:
            above += more
            level += as_much
            more[:] = as_much[:] = 0
    above[order], level[order] = above + more, level + as_much
    return above, level


def _sorted(coded: Coded, seg: Ints, value: Floats, n_segments: int) -> tuple[Ints, Ints]:
    """The same by sorting the rows of the segments asked for."""
    asked = np.zeros(_reach(n_segments, coded), dtype=np.bool_)
    asked[seg] = True
    rows = np.flatnonzero(asked[coded.seg])
    segments, score = coded.seg[rows], coded.score[rows]
    order = np.lexsort((-score, segments))
    segments, score = segments[order], score[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (segments[1:] != segments[:-1]) | (score[1:] != score[:-1])
    first = np.flatnonzero(new)
    size = np.diff(np.append(first, len(rows)))
    # Pairs come in the same order, each in exactly one tie: ties are looked up by their rank among all.
    fresh = np.ones(len(seg), dtype=np.bool_)
    fresh[1:] = (seg[1:] != seg[:-1]) | (value[1:] != value[:-1])
    held = pl.DataFrame({"s": segments[first].astype(np.int64), "v": score[first], "at": np.arange(len(first))})
    pairs = pl.DataFrame({"s": seg.astype(np.int64), "v": value})
    at = pairs.join(held, on=["s", "v"], how="left", maintain_order="left")["at"].to_numpy()
    return first[at] - np.searchsorted(segments, seg), size[at]


def run_scores(truth: Truth, coded: Coded) -> dict[str, Any]:
    """The scores of a run: c-mAP and r-mAP under four rules for ties, in [0, 1], higher is better.

    Returns:
        name, cmap, cmap_pessimistic, cmap_step, cmap_expected, rmap and the same three, n_classes (species in the ground
        truth, the mean of c-mAP is over them), n_segments (with a species; the mean of r-mAP), classes and segments (frames
        of :func:`class_scores`, :func:`segment_scores`), warnings (code, message, n; those of the file, then ``tie_gap``),
        reasons. Without a species in the ground truth both are None, with the reason.
    """
    classes, segments = class_scores(truth, coded), segment_scores(truth, coded)
    out: dict[str, Any] = {"name": coded.name}
    for name, frame in (("cmap", classes), ("rmap", segments)):
        for suffix in ("", "_pessimistic", "_step", "_expected"):
            out[name + suffix] = _mean(frame[f"ap{suffix}"])
    empty = {} if classes.height else {k: "no species is heard in the ground truth" for k in out if k != "name"}
    warnings = [*coded.warnings, *_tie_gap(out, classes)]
    return out | {
        "n_classes": classes.height, "n_segments": segments.height, "classes": classes, "segments": segments,
        "warnings": warnings, "reasons": empty,
    }  # fmt: skip


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None


def _tie_gap(scores: dict[str, Any], classes: pl.DataFrame) -> list[dict[str, Any]]:
    gaps = [scores[name] - scores[f"{name}_pessimistic"] for name in ("cmap", "rmap") if scores[name] is not None]
    if not gaps or max(gaps) <= TIE_GAP:
        return []
    n = classes.filter(pl.col("ap") - pl.col("ap_pessimistic") > TIE_GAP).height
    text = (
        f"equal probabilities: c-mAP {scores['cmap']:.4f} with ties best-case (official), "
        f"{scores['cmap_pessimistic']:.4f} worst-case; r-mAP {scores['rmap']:.4f} and {scores['rmap_pessimistic']:.4f}; "
        "species that gain from it"
    )
    return [{"code": "tie_gap", "message": text, "n": n}]


__all__ = ["RULES", "TIE_GAP", "Ties", "average_precisions", "class_scores", "run_scores", "segment_scores"]
