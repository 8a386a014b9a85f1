"""A pipeline with some of its stages replaced by the truth: whose boxes, which tracks, which birds, whose pecks.

A :class:`Scene` is one video under one tracker in integer codes. Groups are tracks: the predicted ones first, then one
per visit of the truth. What every operator does is said in :data:`birdlab.individuals.budget.OPERATORS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

#: No bird, no track, no box.
NONE = -1
#: Track of a peck of the truth at which the truth has no box of its bird.
OWN = -2
PECK = "peck"


@dataclass(frozen=True)
class Boxes:
    """Boxes of a state in the order of frames: frame, group before tracks are replaced, visit of the truth (or none)."""

    frame: np.ndarray
    track: np.ndarray
    visit: np.ndarray


@dataclass(frozen=True)
class Scene:
    """One video under one tracker.

    Args:
        n_frames: length of the video.
        minutes: length of the video, min.
        birds: code to name; ``truth_birds`` of them are in the truth's boxes or events, the first ones.
        tracks: code to name of predicted tracks.
        visit_bird: bird of each visit; :data:`NONE` for a visit of nobody known.
        boxes: index 0 the predicted boxes, 1 the truth's boxes with the predicted track that each is given.
        truth_bird: bird of each box of ``boxes[1]``.
        found: predicted box of each box of the truth; :data:`NONE` where nobody found it.
        events: start, end (last frame), bird of each peck of the truth.
    """

    n_frames: int
    minutes: float
    birds: list[str]
    truth_birds: int
    tracks: dict[str, int]
    visit_bird: np.ndarray
    boxes: tuple[Boxes, Boxes]
    truth_bird: np.ndarray
    found: np.ndarray
    events: tuple[np.ndarray, np.ndarray, np.ndarray]
    _cache: dict = field(default_factory=dict)

    @property
    def n_tracks(self) -> int:
        """Predicted tracks; visits are the groups after them."""
        return len(self.tracks)

    def group(self, d: int, t: int) -> np.ndarray:
        """Track of every box once detection (``d``) and tracks (``t``) are replaced or not."""
        boxes = self.boxes[d]
        return np.where(boxes.visit >= 0, self.n_tracks + boxes.visit, boxes.track) if t else boxes.track

    def owner(self, d: int) -> np.ndarray:
        """Bird that owns most of each predicted track's boxes; :data:`NONE` for nobody known or no box of the truth."""
        return self._once(("owner", d), lambda: self._owner(d))

    def _owner(self, d: int) -> np.ndarray:
        boxes = self.boxes[d]
        ok = (boxes.visit >= 0) & (boxes.track < self.n_tracks)
        return majority(boxes.track[ok], self.visit_bird[boxes.visit[ok]], self.n_tracks, missing=NONE)

    def group_birds(self, d: int, t: int, i: int, named: np.ndarray) -> np.ndarray:
        """Bird of every group.

        Args:
            d, t, i: detection, tracks, identity replaced (1) or not (0).
            named: bird that the identity method gives each predicted track.
        """
        if t and i:
            return np.concatenate([np.full(self.n_tracks, NONE), self.visit_bird])
        if t:
            return np.concatenate([named, self._voted(d, named)])
        return np.concatenate([self.owner(d) if i else named, self.visit_bird])

    def _voted(self, d: int, named: np.ndarray) -> np.ndarray:
        """Bird of every visit: the most votes of its boxes; a box on a rightly named track votes for its own bird."""
        visit, track, count, first = self._once(("pairs", d), lambda: self._pairs(d))
        right = named == self.owner(d)
        votes = np.where(right[track], self.visit_bird[visit], named[track])
        voted = majority(visit, votes, len(self.visit_bird), missing=OWN, weight=count, first=first)
        return np.where(voted == OWN, self.visit_bird, voted)

    def _pairs(self, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        boxes = self.boxes[d]
        ok = np.flatnonzero((boxes.visit >= 0) & (boxes.track < self.n_tracks))
        key = boxes.visit[ok].astype(np.int64) * max(self.n_tracks, 1) + boxes.track[ok]
        key, first, count = np.unique(key, return_index=True, return_counts=True)
        return (*np.divmod(key, max(self.n_tracks, 1)), count, ok[first])

    def presence(self, d: int, t: int, birds: np.ndarray) -> np.ndarray:
        """Frames in which each bird is seen, (birds, frames), once every group has its bird."""
        who = birds[self.group(d, t)]
        ok = who >= 0
        seen = np.zeros((len(self.birds), self.n_frames), dtype=bool)
        seen[who[ok], self.boxes[d].frame[ok]] = True
        return seen

    def event_groups(self, d: int, t: int) -> np.ndarray:
        """Track that each peck of the truth is given to; :data:`NONE` for a lost one, :data:`OWN` for its own track."""
        return self._once(("events", d, t), lambda: self._event_groups(d, t))

    def _event_groups(self, d: int, t: int) -> np.ndarray:
        start, end, bird = self.events
        order, lo, hi = self._once("spans", lambda: self._spans(start, end, bird))
        event, at = expand(lo, hi)
        box = order[at]
        if not d:
            event, box = event[self.found[box] >= 0], self.found[box][self.found[box] >= 0]
        return majority(event, self.group(d, t)[box], len(start), missing=OWN if d else NONE)

    def _spans(self, start: np.ndarray, end: np.ndarray, bird: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ordered = in_order(self.truth_bird, self.boxes[1].frame, self.n_frames)
        return spans(ordered, bird, start, end + 1, self.n_frames)

    def window_groups(self, d: int, t: int, windows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        """Track that each window (track, start, end) is given to; :data:`NONE` for one whose boxes have vanished."""
        track, start, end = windows
        given = self._given(d, t, track, start, end)
        if d:
            was = self._given(0, 0, track, start, end)
            home = self._home(d, t)[track]
            never = ~np.isin(track, self.boxes[0].track)
            stays = (was == NONE) & ((home != NONE) | never)
            return np.where(given != NONE, given, np.where(stays, np.where(home == NONE, track, home), NONE))
        home = self._home(d, t)[track]
        return np.where(given != NONE, given, np.where(home == NONE, track, home))

    def _given(self, d: int, t: int, track: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        boxes = self.boxes[d]
        ordered = self._once(("order", d), lambda: in_order(boxes.track, boxes.frame, self.n_frames))
        order, lo, hi = spans(ordered, track, start, end, self.n_frames)
        window, at = expand(lo, hi)
        return majority(window, self.group(d, t)[order[at]], len(track), missing=NONE)

    def _home(self, d: int, t: int) -> np.ndarray:
        """Group that most boxes of each predicted track go to."""

        def home() -> np.ndarray:
            ok = self.boxes[d].track < self.n_tracks
            return majority(self.boxes[d].track[ok], self.group(d, t)[ok], self.n_tracks, missing=NONE)

        return self._once(("home", d, t), home)

    def _once(self, key: object, make):
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]


def majority(
    key: np.ndarray,
    value: np.ndarray,
    n: int,
    *,
    missing: int,
    weight: np.ndarray | None = None,
    first: np.ndarray | None = None,
) -> np.ndarray:
    """The value that is met most often for each key 0 … n - 1; of equals the one met first.

    Args:
        key, value: integers of the same length, in the order of frames.
        n: number of keys.
        missing: what a key gets that does not occur.
        weight: how often each pair was met; once where not given.
        first: where each pair was met first; its place where not given.

    >>> majority(np.array([0, 0, 0, 2]), np.array([7, 5, 5, 9]), 3, missing=-1).tolist()
    [5, -1, 9]
    """
    out = np.full(n, missing, dtype=np.int64)
    if not len(key):
        return out
    low = int(value.min())
    span = int(value.max()) - low + 1
    pair, inverse = np.unique(key.astype(np.int64) * span + (value - low), return_inverse=True)
    count = np.bincount(inverse, weights=weight, minlength=len(pair))
    place = np.full(len(pair), np.iinfo(np.int64).max)
    np.minimum.at(place, inverse, np.arange(len(key)) if first is None else first)
    keys = pair // span
    best = np.lexsort((place, -count, keys))
    keys, at = np.unique(keys[best], return_index=True)
    out[keys] = pair[best][at] % span + low
    return out


def in_order(owner: np.ndarray, frame: np.ndarray, n_frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Things by owner and frame: their places, and a key that grows with both."""
    key = owner.astype(np.int64) * (n_frames + 1) + frame
    order = np.argsort(key, kind="stable")
    return order, key[order]


def spans(
    ordered: tuple[np.ndarray, np.ndarray], asked: np.ndarray, start: np.ndarray, end: np.ndarray, n_frames: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Things of each asked owner in frames [start, end): places lo … hi - 1 of ``order``."""
    order, key = ordered
    lo, hi = (
        np.searchsorted(key, asked.astype(np.int64) * (n_frames + 1) + np.clip(x, 0, n_frames)) for x in (start, end)
    )
    return order, lo, np.maximum(lo, hi)


def expand(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranges lo … hi - 1 written out: number of the range, and the places.

    >>> [x.tolist() for x in expand(np.array([2, 5]), np.array([4, 6]))]
    [[0, 0, 1], [2, 3, 5]]
    """
    size = hi - lo
    which = np.repeat(np.arange(len(lo)), size)
    return which, np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(lo, size)


def scene(
    video: dict, truth: pl.DataFrame, predicted: pl.DataFrame, pairs: pl.DataFrame, events: pl.DataFrame, *,
    tracks: list[str], others: list[str],
) -> Scene:  # fmt: skip
    """One video under one tracker in codes.

    Args:
        video: row of ``colony_videos``.
        truth: its ``colony_boxes``.
        predicted: its ``colony_tracks`` of the tracker.
        pairs: row, predicted_row: boxes that match.
        events: its ``colony_events``.
        tracks: all tracks that boxes, windows or identities speak of.
        others: birds that some identity method names.
    """
    n = int(video["n_frames"])
    inside = pl.col("frame").is_between(0, n - 1)
    truth, predicted = (f.filter(inside).sort("frame", "row") for f in (truth, predicted))
    pecks = events.filter(is_peck("behaviour") & pl.col("individual_id").is_not_null())
    known = sorted({*truth["individual_id"].drop_nulls().to_list(), *pecks["individual_id"].to_list()})
    every = events["individual_id"].drop_nulls().to_list()
    known = sorted({*known, *every})
    birds = known + sorted(set(others) - set(known))
    code = {b: k for k, b in enumerate(birds)}
    visits = truth.group_by("visit_id", maintain_order=True).agg(pl.col("individual_id").first())
    visit_bird = np.array([code.get(b, NONE) for b in visits["individual_id"].to_list()], dtype=np.int64)
    visit = codes(truth["visit_id"], {v: k for k, v in enumerate(visits["visit_id"].to_list())})
    named = {t: k for k, t in enumerate(tracks)}
    p_track = codes(predicted["track_id"], named)
    found, back = _linked(truth, predicted, pairs)
    p_visit = np.where(back >= 0, visit[back], NONE) if len(visit) else np.full(len(p_track), NONE)
    given = np.where(found >= 0, p_track[found], NONE) if len(p_track) else np.full(len(visit), NONE)
    frame = truth["frame"].to_numpy().astype(np.int64)
    given = _nearest(visit, frame, given, len(named))
    both = Boxes(predicted["frame"].to_numpy().astype(np.int64), p_track, p_visit), Boxes(frame, given, visit)
    timed = tuple(pecks[c].to_numpy().astype(np.int64) for c in ("start", "end"))
    who = np.array([code[b] for b in pecks["individual_id"].to_list()], dtype=np.int64)
    truth_bird = visit_bird[visit] if len(visit) else np.zeros(0, dtype=np.int64)
    minutes = n / float(video["fps"]) / 60
    return Scene(n, minutes, birds, len(known), named, visit_bird, both, truth_bird, found, (*timed, who))


def is_peck(column: str) -> pl.Expr:
    """Whether a behaviour is a peck, whatever its case."""
    return pl.col(column).str.strip_chars().str.to_lowercase() == PECK


def codes(values: pl.Series, of: dict[str, int]) -> np.ndarray:
    """Text to integers."""
    if not of:
        return np.zeros(len(values), dtype=np.int64)
    return values.replace_strict(of, return_dtype=pl.Int64).to_numpy().astype(np.int64)


def _linked(truth: pl.DataFrame, predicted: pl.DataFrame, pairs: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Place of the other box for every box of the truth and for every predicted one."""
    found, back = np.full(truth.height, NONE), np.full(predicted.height, NONE)
    at = truth.select("row", a=pl.int_range(pl.len()))
    to = predicted.select(pl.col("row").alias("predicted_row"), b=pl.int_range(pl.len()))
    both = pairs.select("row", "predicted_row").join(at, on="row").join(to, on="predicted_row")
    a, b = both["a"].to_numpy(), both["b"].to_numpy()
    found[a], back[b] = b, a
    return found, back


def _nearest(visit: np.ndarray, frame: np.ndarray, track: np.ndarray, n_tracks: int) -> np.ndarray:
    """Boxes nobody found take the track of the nearest found box of their visit (the earlier one of two), or their own."""
    order = np.argsort(visit, kind="stable")
    v, f, t = visit[order], frame[order], track[order]
    place = np.arange(len(v))
    before = np.maximum.accumulate(np.where(t >= 0, place, -1)) if len(v) else place
    after = np.minimum.accumulate(np.where(t >= 0, place, len(v))[::-1])[::-1] if len(v) else place
    far = np.iinfo(np.int64).max
    b, a = np.clip(before, 0, None), np.clip(after, None, max(len(v) - 1, 0))
    if len(v):
        gap_b = np.where((before >= 0) & (v[b] == v), f - f[b], far)
        gap_a = np.where((after < len(v)) & (v[a] == v), f[a] - f, far)
        near = np.where(gap_b <= gap_a, t[b], t[a])
        t = np.where(np.minimum(gap_b, gap_a) == far, n_tracks + v, near)
    out = np.empty_like(track)
    out[order] = t
    return out
