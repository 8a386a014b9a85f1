"""How much of the error of a biological number is due to each stage: detection, tracks, identity, behaviour.

Each stage is replaced by the truth, alone and together with every set of others (:data:`OPERATORS`); the errors of the
16 pipelines are shared out by Shapley's rule, row by row (one bird or pair in one video), and averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations as subsets_of
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas, stats
from birdlab.individuals.states import NONE, OWN, Scene, is_peck, scene

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

STAGES = ("detection", "tracks", "identity", "behaviour")
RATE, TOGETHER = "pecks_per_min", "co_occurrence_frac"
D, T, ID, B = 1, 2, 4, 8
ALL = D | T | ID | B
NO_BEHAVIOUR = "behaviour does not enter who was seen together"
_OPERATORS = (
    (
        "detection",
        "the boxes are those of the truth; false boxes vanish, and windows that had only them",
        "the predicted track of the box that finds it; a box nobody found takes that of the nearest found box of its "
        "visit, a visit nobody found is a track of its own with its true bird, and a peck at which nothing of its bird "
        "was found counts, unless a window of its track already tells it",
        "10 frames of bird A, boxes found in 6, one peck in the other 4: A is seen in 10 frames and the peck counts",
    ),
    (
        "tracks",
        "boxes of one visit are one track; boxes without a truth keep theirs",
        "the names: each box votes for the name of its old track, or for its own bird where that track was named after "
        "the bird that owns most of it; most votes win, then the first; no name is a vote too. A window goes to the "
        "track with most of the old track's boxes in it, then the first",
        "one track over 6 frames of A and 4 of B, named A: A keeps 6 frames and B gets 4",
    ),
    (
        "identity",
        "each track is the bird that owns most of its boxes (then the first); a track without a true box is nobody",
        "boxes, tracks and windows",
        "one track over 6 frames of A and 4 of B, named C: all 10 frames are A",
    ),
    (
        "behaviour",
        "windows are thrown away; each true peck is given to the track with most boxes of its bird in its frames",
        "boxes, tracks and names; a peck at which no box of its bird was found is lost",
        "three pecks of A in one second under one window: three pecks instead of one",
    ),
)
#: What is replaced by the truth, what stays, and a case worked by hand, per stage.
OPERATORS = pl.DataFrame(_OPERATORS, schema=["stage", "replaced", "stays", "hand_case"], orient="row")
#: Matching of boxes: (truth, predicted boxes of one tracker) to video_id, row, predicted_row.
Match = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Errors:
    """Absolute errors of one measure of one combination: (16 sets of stages, rows), and each row's video."""

    values: np.ndarray
    video: np.ndarray
    counted: np.ndarray  #: rows that the measure's table has; others only arise in between


def error_budget(
    colony: Colony, combinations: pl.DataFrame | None = None, *, match: Match | None = None
) -> pl.DataFrame:
    """Shares of detection, tracks, identity and behaviour in the mean absolute error of rates and of co-occurrence.

    Args:
        colony: one application set; protocol ``documented``.
        combinations: tracker, model, identity, videos of those wanted; all that were submitted where not given.
        match: matching of boxes, (truth, predicted boxes of one tracker) → video_id, row, predicted_row.

    Returns:
        Table ``error_budget``: four rows per combination and measure, over the videos that the combination has. The
        shares sum to ``total``, the mean absolute error over the rows of the table ``application``. A share below 0
        means that the stage's errors hide those of others. Intervals are for new videos (CR1, t with G - 1 degrees of
        freedom); none for one video, with the reason. A pair of birds that is seen together only in between (some
        stages replaced) adds to the shares, whose sum it does not change.

    Shapley (1953): the mean of what a stage mends over all orders in which stages can be replaced.
    """
    wanted = colony.combinations if combinations is None else combinations
    rows: list[dict[str, Any]] = []
    for tracker, part in wanted.group_by("tracker", maintain_order=True):
        videos = sorted({v for found in part["videos"].to_list() for v in found})
        scenes = dict(scenes_of(colony, str(tracker[0]), videos, match))
        names = named_of(colony.identities, str(tracker[0]), scenes)
        seen: dict[tuple, np.ndarray] = {}
        windows = windows_of(colony.windows, str(tracker[0]), scenes)
        for c in part.iter_rows(named=True):
            used = [v for v in c["videos"] if v in scenes]
            pipelines = [Pipeline(v, scenes[v], names, windows, c["model"], c["identity"], seen) for v in used]
            about = {k: c[k] for k in ("tracker", "model", "identity")}
            rows += _rows(about, RATE, [p.rate_errors() for p in pipelines])
            rows += _rows(about, TOGETHER, [p.pair_errors() for p in pipelines])
    return schemas.TABLES["error_budget"].conform(pl.DataFrame(rows, schema=schemas.TABLES["error_budget"].dtypes))


def shapley(values: np.ndarray) -> np.ndarray:
    """Shapley values of what replacing each stage mends.

    Args:
        values: (2**k, rows): the error with each set of stages replaced, sets as bits.

    Returns:
        (k, rows); over stages they sum to ``values[0] - values[-1]``.

    >>> shapley(np.array([[4.0], [4.0], [1.0], [0.0]])).tolist()  # stage 1 mends 3 alone, and stage 0 the rest after it
    [[0.5], [3.5]]
    """
    k = int(values.shape[0]).bit_length() - 1
    out = np.zeros((k, values.shape[1]))
    for stage in range(k):
        others = [s for s in range(k) if s != stage]
        for size in range(k):
            weight = factorial(size) * factorial(k - size - 1)  # divided once, below: whole weights keep zeros zero
            for chosen in subsets_of(others, size):
                s = sum(1 << c for c in chosen)
                out[stage] += weight * (values[s] - values[s | 1 << stage])
    return out / factorial(k)


class Pipeline:
    """One combination in one video: its 16 pipelines."""

    def __init__(self, video, place: Scene, names, windows, model, identity, seen) -> None:
        self.video, self.scene, self.identity, self.seen = video, place, identity, seen
        self.named = names.get((identity, video), np.full(place.n_tracks, NONE))
        none = np.zeros(0, dtype=np.int64)
        self.windows = windows.get((model, video), (none, none, none))
        own = np.unique(self.named[self.named >= 0])
        self.rows = np.union1d(np.arange(place.truth_birds), own).astype(np.int64)

    def rate_errors(self) -> Errors:
        """Absolute errors of pecks per minute, (16, birds)."""
        s = self.scene
        truth = np.bincount(s.events[2], minlength=len(s.birds))
        counts = np.stack([self.pecks(subset) for subset in range(ALL + 1)])
        errors = np.abs(counts - truth)[:, self.rows] / s.minutes
        return Errors(errors, np.full(len(self.rows), self.video), np.ones(len(self.rows), dtype=bool))

    def pecks(self, subset: int) -> np.ndarray:
        d, t, i = (int(bool(subset & x)) for x in (D, T, ID))
        birds = self.scene.group_birds(d, t, i, self.named)
        start, end, who = self.scene.events
        given = self.scene.event_groups(d, t)
        if subset & B:
            return self._count(np.where(given == OWN, who, _of(birds, given)))
        group = self.scene.window_groups(d, t, self.windows)
        bird = _of(birds, group)
        count = count_windows(self.windows[1], self.windows[2], bird, len(self.scene.birds))
        if not d:
            return count
        missed = np.flatnonzero(self.scene.event_groups(0, 0) == NONE)
        told = np.zeros(len(missed), dtype=bool)
        for k, e in enumerate(missed):
            told[k] = np.any((group == given[e]) & (self.windows[1] <= end[e]) & (self.windows[2] > start[e]))
        added = missed[~told]
        return count + self._count(np.where(given[added] == OWN, who[added], _of(birds, given[added])))

    def _count(self, bird: np.ndarray) -> np.ndarray:
        return np.bincount(bird[bird >= 0], minlength=len(self.scene.birds))

    def pair_errors(self) -> Errors:
        """Absolute errors of the share of the video seen together, (16, pairs)."""
        s = self.scene
        a, b = np.triu_indices(len(self.rows), 1)
        a, b = self.rows[a], self.rows[b]
        truth = self.together(ALL)[a, b]
        frames = np.stack([self.together(subset)[a, b] for subset in range(ALL + 1)])
        both_true = (a < s.truth_birds) & (b < s.truth_birds)
        counted = both_true | (frames[0] > 0)
        arises = counted | (frames > 0).any(axis=0)
        errors = np.abs(frames - truth)[:, arises] / max(s.n_frames, 1)
        return Errors(errors, np.full(int(arises.sum()), self.video), counted[arises])

    def together(self, subset: int) -> np.ndarray:
        d, t, i = (int(bool(subset & x)) for x in (D, T, ID))
        key = (self.video, "" if i else self.identity, d, t, i)
        if key not in self.seen:
            birds = self.scene.group_birds(d, t, i, self.named)
            here = self.scene.presence(d, t, birds).astype(np.float32)  # whole numbers below 2**24: exact
            self.seen[key] = np.rint(here @ here.T).astype(np.int64)
        return self.seen[key]


def count_windows(start: np.ndarray, end: np.ndarray, bird: np.ndarray, n_birds: int) -> np.ndarray:
    """Windows of each bird; one that starts before the end of the last counted one of the same bird is not counted.

    Args:
        start, end: frames [start, end), sorted by (start, end).
        bird: code, negative for nobody.

    >>> count_windows(np.array([0, 10, 25, 30]), np.array([25, 35, 50, 55]), np.array([0, 0, 0, 1]), 2).tolist()
    [2, 1]
    """
    order = np.flatnonzero(bird >= 0)
    order = order[np.argsort(bird[order], kind="stable")]
    start, end, bird = start[order], end[order], bird[order]
    close = (bird[1:] == bird[:-1]) & (start[1:] < end[:-1])
    count = np.bincount(bird, minlength=n_birds)
    for who in np.unique(bird[1:][close]):
        last, n = NONE, 0
        for s, e in zip(start[bird == who].tolist(), end[bird == who].tolist(), strict=True):
            if s >= last:
                last, n = e, n + 1
        count[who] = n
    return count


def _of(birds: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Bird of each group; nobody for those that have none."""
    return np.where(group >= 0, np.append(birds, NONE)[group], NONE)


def _rows(about: dict[str, str], measure: str, parts: list[Errors]) -> list[dict[str, Any]]:
    """Four rows of the table for one combination and measure."""
    values = np.concatenate([p.values for p in parts], axis=1) if parts else np.zeros((ALL + 1, 0))
    counted = [int(p.counted.sum()) for p in parts]
    n, shares = sum(counted), shapley(values)
    mean = values.sum(axis=1) / max(n, 1)
    at = np.cumsum([0] + [p.values.shape[1] for p in parts])
    rows = []
    for k, stage in enumerate(STAGES):
        sums = [shares[k, at[g] : at[g + 1]].sum() for g in range(len(parts))]
        share = float(np.sum(sums)) / n if n else None
        lo, hi, reason = _interval(measure, stage, sums, counted)
        numbers = {"share": share, "lo": lo, "hi": hi, "total": float(mean[0])}
        fraction = share / float(mean[0]) if share is not None and mean[0] > 0 else None
        left = {"alone": float(mean[1 << k]), "others": float(mean[ALL ^ (1 << k)])}
        counts = {"n": n, "n_clusters": sum(c > 0 for c in counted), "reason": reason}
        rows.append({**about, "measure": measure, "stage": stage, **numbers, "fraction": fraction, **left, **counts})
    return rows


def _interval(
    measure: str, stage: str, sums: list[float], counted: list[int]
) -> tuple[float | None, float | None, str | None]:
    if measure == TOGETHER and stage == "behaviour":
        return None, None, NO_BEHAVIOUR
    if not sum(counted):
        return None, None, "no bird was seen or named" if measure == RATE else "no two birds: nobody to be seen with"
    found = stats.mean_difference(sums, counted, unit="video")
    same = found.lo is None and found.n_clusters > 1
    return found.lo, found.hi, "the share is the same in every video" if same else found.reason


def scenes_of(
    colony: Colony, tracker: str, videos: list[str], match: Match | None = None, *, others: dict | None = None
) -> Iterator[tuple[str, Scene]]:
    """The tracker's videos in codes; ``others``: birds beside those of the truth and of identity methods, by video."""
    if match is None:
        from birdlab.individuals.matching import match_boxes as match
    truth = colony.boxes.filter(pl.col("video_id").is_in(videos))
    predicted = colony.tracks.filter(pl.col("video_id").is_in(videos), tracker=tracker)
    pairs = _by_video(match(truth, predicted))
    truths, boxes, events = _by_video(truth), _by_video(predicted), _by_video(colony.events)
    names = _by_video(colony.identities.filter(tracker=tracker))
    windows = _by_video(colony.windows.filter(tracker=tracker))
    empty = {"truth": truth.clear(), "boxes": predicted.clear(), "events": colony.events.clear()}
    no_pairs = pl.DataFrame(schema={"row": pl.Int64, "predicted_row": pl.Int64})
    for row in colony.videos.filter(pl.col("video_id").is_in(videos)).iter_rows(named=True):
        v = row["video_id"]
        parts = [p[v]["track_id"] for p in (boxes, names, windows) if v in p]
        tracks = sorted({t for p in parts for t in p.unique().to_list()})
        named = names[v]["individual_id"].drop_nulls().unique().to_list() if v in names else []
        yield v, scene(
            row, truths.get(v, empty["truth"]), boxes.get(v, empty["boxes"]), pairs.get(v, no_pairs),
            events.get(v, empty["events"]), tracks=tracks, others=named + list((others or {}).get(v) or []),
        )  # fmt: skip


def named_of(identities: pl.DataFrame, tracker: str, scenes: dict[str, Scene]) -> dict[tuple, np.ndarray]:
    """(identity method, video) to the bird of every track."""
    out = {}
    for key, part in identities.filter(tracker=tracker).group_by("identity", "video_id"):
        if key[1] not in scenes:
            continue
        place = scenes[key[1]]
        birds = {b: k for k, b in enumerate(place.birds)}
        named = np.full(place.n_tracks, NONE)
        for track, bird in part.select("track_id", "individual_id").iter_rows():
            named[place.tracks[track]] = birds.get(bird, NONE)
        out[key] = named
    return out


def windows_of(windows: pl.DataFrame, tracker: str, scenes: dict[str, Scene]) -> dict[tuple, tuple]:
    """(model, video) to the Peck windows: track, start, end, sorted by start, end, track."""
    pecks = windows.filter(is_peck("label"), pl.col("end") > pl.col("start"), tracker=tracker)
    out = {}
    for key, part in pecks.sort("start", "end", "track_id").group_by("model", "video_id", maintain_order=True):
        if key[1] in scenes:
            track = np.array([scenes[key[1]].tracks[t] for t in part["track_id"].to_list()], dtype=np.int64)
            out[key] = (track, *(part[c].to_numpy().astype(np.int64) for c in ("start", "end")))
    return out


def _by_video(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {k[0]: part for k, part in frame.partition_by("video_id", as_dict=True, maintain_order=True).items()}
