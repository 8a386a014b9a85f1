"""What the made trackers, identity methods and behaviour models do with the made colony, and where they go wrong.

Every flaw is drawn by lot from rates given here, once; :mod:`birdlab.demo.colony_damage` counts what it costs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from birdlab.demo.colony_birds import ABSENT, LOOK_ALIKE, SEED, UNNAMED, Event, Video
from birdlab.demo.paint import stream

#: Rows of a track that one window of a behaviour model has.
WINDOW = 25


@dataclass(frozen=True)
class Tracker:
    """How well one made tracker follows.

    Args:
        name: tracker.
        jitter: error of each edge, share of the box.
        missed: share of the boxes of near and of far birds that are missed, in runs of ``run`` frames on average.
        patience: missed frames after which the track is given up and a new one begins.
        breaks: further breaks per 1,000 boxes.
        merges: share of the tracks begun after another bird's ended that go on under that one's number.
        false: tracks per video of what is no bird, and their length in frames.
        without: videos it was never run on.
    """

    name: str
    jitter: float
    missed: tuple[float, float]
    run: float
    patience: int
    breaks: float
    merges: float
    false: tuple[int, int]
    without: tuple[str, ...] = ()


TRACKERS = (
    Tracker("heronsort", 0.03, (0.01, 0.04), 4, 60, 0.3, 0.0, (1, 20)),
    Tracker("wrentrack", 0.05, (0.04, 0.24), 26, 20, 3.0, 0.85, (3, 60)),
    Tracker("finchtrack", 0.04, (0.32, 0.65), 60, 400, 0.2, 0.0, (2, 40), ("made_mill_2",)),
)


@dataclass(frozen=True)
class Namer:
    """How well one made method tells birds apart: wrong for look-alike rings, wrong otherwise, unringed beyond that."""

    name: str
    alike: float
    wrong: float
    unringed: float
    guesses: float  #: share of tracks without a known bird that get a name all the same


NAMERS = (Namer("rings", 0.14, 0.0, 0.02, 0.08), Namer("plumage", 0.6, 0.58, 0.02, 0.8))


@dataclass(frozen=True)
class Watcher:
    """How well one made behaviour model sees: pecks missed, pecks seen where none is, bows missed."""

    name: str
    misses: float
    invents: float
    overlooks: float
    both: bool  #: a peck on the edge of two windows is seen in both


WATCHERS = (Watcher("steady", 0.06, 0.003, 0.25, False), Watcher("eager", 0.02, 0.16, 0.5, True))
#: What was run on what: every method on the first two trackers, one of each on the third.
USED = {
    "heronsort": (("rings", "plumage"), ("steady", "eager")),
    "wrentrack": (("rings", "plumage"), ("steady", "eager")),
    "finchtrack": (("rings",), ("steady",)),
}


@dataclass
class Track:
    """Boxes under one number: frames, boxes (whole px) and the visit each shows (-1: no bird), in order of frames."""

    frames: np.ndarray
    boxes: np.ndarray
    visits: np.ndarray
    id: str = ""


@dataclass(frozen=True)
class Followed:
    """One video as one tracker sees it.

    Args:
        tracks: its tracks, in order of their first frames.
        owners: bird that most boxes of each track show; None for nobody known.
        at: track and row at which each event of the video is seen, None for one whose bird is missed throughout.
        n_missed, n_merged: boxes of the truth without a box; tracks that show two birds.
    """

    video: Video
    tracker: str
    tracks: list[Track]
    owners: list[str | None]
    at: list[tuple[int, int] | None]
    n_missed: int
    n_merged: int


@dataclass(frozen=True)
class Watched:
    """Windows of one model: (track, start, end after the last, label), and what went wrong with pecks.

    ``seen`` are the events that a window tells, by their place in the video; ``invented`` the windows without one.
    """

    windows: list[tuple[int, int, int, str]]
    seen: set[int] = field(default_factory=set)
    invented: list[int] = field(default_factory=list)


def follow(video: Video, number: int) -> Followed:
    """One video through one tracker."""
    tracker = TRACKERS[number]
    rng = stream(SEED, 11, number, video.number)
    pieces: list[Track] = []
    n_missed = 0
    for k, visit in enumerate(video.visits):
        found = _found(rng, visit.end - visit.start, tracker.missed[visit.far], tracker.run)
        n_missed += int((~found).sum())
        rows = np.flatnonzero(found)
        size = (visit.boxes[:, 2:] - visit.boxes[:, :2])[rows]
        moved = visit.boxes[rows] + rng.normal(0, tracker.jitter, (len(rows), 4)) * np.hstack([size, size])
        boxes = np.round(moved).astype(np.int64)
        cut = (np.diff(rows) > tracker.patience) | (rng.random(max(len(rows) - 1, 0)) < tracker.breaks / 1000)
        for part in np.split(np.arange(len(rows)), np.flatnonzero(cut) + 1):
            if len(part):
                pieces.append(Track(visit.start + rows[part], boxes[part], np.full(len(part), k)))
    tracks, n_merged = _merged(rng, pieces, tracker.merges)
    tracks += [_false(rng, video, tracker.false[1]) for _ in range(tracker.false[0])]
    tracks.sort(key=lambda t: (int(t.frames[0]), int(t.boxes[0, 0])))
    for k, track in enumerate(tracks):
        track.id = f"track-{k + 1}"
    owners = [_owner(video, track) for track in tracks]
    return Followed(video, tracker.name, tracks, owners, _where(video, tracks), n_missed, n_merged)


def _found(rng: np.random.Generator, n: int, missed: float, run: float) -> np.ndarray:
    """Which of ``n`` boxes are found: runs found and runs missed take turns."""
    found = np.ones(n, dtype=bool)
    at = rng.exponential(run * (1 - missed) / missed) * rng.random()
    while at < n:
        length = 1 + rng.exponential(run - 1)
        found[int(at) : int(at + length)] = False
        at += length + rng.exponential(run * (1 - missed) / missed)
    if not found.any():
        found[: min(n, 10)] = True
    return found


def _merged(rng: np.random.Generator, pieces: list[Track], share: float) -> tuple[list[Track], int]:
    """Some pieces go on under the number of another visit's piece that ended before them."""
    tracks: list[Track] = []
    n_merged = 0
    for piece in sorted(pieces, key=lambda t: (int(t.frames[0]), int(t.visits[0]))):
        start, visit = int(piece.frames[0]), int(piece.visits[0])
        ended = [
            t for t in tracks if start - 400 < int(t.frames[-1]) < start and len(set(t.visits.tolist()) | {visit}) == 2
        ]
        if ended and rng.random() < share:
            last = max(ended, key=lambda t: int(t.frames[-1]))
            last.frames = np.concatenate([last.frames, piece.frames])
            last.boxes = np.vstack([last.boxes, piece.boxes])
            n_merged += int(visit not in last.visits)
            last.visits = np.concatenate([last.visits, piece.visits])
        else:
            tracks.append(piece)
    return tracks, n_merged


def _false(rng: np.random.Generator, video: Video, length: int) -> Track:
    """A swinging leaf at the lower edge of the picture."""
    start = int(rng.integers(0, video.n_frames - length))
    x = int(rng.integers(40, 1100)) + np.round(6 * np.sin(np.arange(length) / 7)).astype(np.int64)
    box = np.column_stack([x, np.full(length, 640), x + 60, np.full(length, 700)])
    return Track(np.arange(start, start + length), box, np.full(length, -1))


def _owner(video: Video, track: Track) -> str | None:
    birds = [video.visits[v].bird if v >= 0 else None for v in track.visits.tolist()]
    known = Counter(b for b in birds if b)
    return known.most_common(1)[0][0] if known else None


def _where(video: Video, tracks: list[Track]) -> list[tuple[int, int] | None]:
    """Track and row of the first box found of each event's bird while it lasts."""
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    for k, track in enumerate(tracks):
        for row, (visit, frame) in enumerate(zip(track.visits.tolist(), track.frames.tolist(), strict=True)):
            rows[(visit, frame)] = (k, row)
    return [
        next((rows[(e.visit, f)] for f in range(e.start, e.end + 1) if (e.visit, f) in rows), None)
        for e in video.events
    ]


def name(followed: Followed, tracker: int, number: int) -> list[str]:
    """What one method calls each track: a bird, or unringed."""
    namer, video = NAMERS[number], followed.video
    rng = stream(SEED, 12, tracker, number, video.number)
    nameable = [b for b in video.possible if b != UNNAMED]
    names = []
    for track, owner in zip(followed.tracks, followed.owners, strict=True):
        lot, guess = rng.random(), str(rng.choice([b for b in nameable if b != owner]))
        if owner is None:
            names.append((ABSENT if ABSENT in nameable else guess) if lot < namer.guesses else "unringed")
        elif len(track.frames) < 15 or (owner == UNNAMED and namer.wrong == 0) or lot > 1 - namer.unringed:
            names.append("unringed")
        elif owner in LOOK_ALIKE and lot < namer.alike:
            other = LOOK_ALIKE[1 - LOOK_ALIKE.index(owner)]
            names.append(other if namer.wrong == 0 and other in nameable else guess)
        else:
            names.append(guess if owner == UNNAMED or lot < namer.wrong else owner)
    return names


def watch(followed: Followed, tracker: int, number: int) -> Watched:
    """What one model sees in windows of 25 tracked frames; a window across a gap holds the gap."""
    watcher, events = WATCHERS[number], followed.video.events
    rng = stream(SEED, 13, tracker, number, followed.video.number)
    here: dict[tuple[int, int], list[int]] = {}
    for e, at in enumerate(followed.at):
        for window in sorted(_windows_of(events[e], followed, at, both=watcher.both)):
            here.setdefault(window, []).append(e)
    out = Watched([])
    for k, track in enumerate(followed.tracks):
        for w, row in enumerate(range(0, len(track.frames), WINDOW)):
            part = track.frames[row : row + WINDOW]
            told = here.get((k, w), [])
            pecks = [e for e in told if events[e].behaviour == "peck"]
            lot = rng.random()
            label = "Other"
            if pecks and lot >= watcher.misses:
                label = "Peck"
                out.seen.update(pecks)
            elif not pecks and lot < watcher.invents:
                label = "Peck"
                out.invented.append(len(out.windows))
            elif len(told) > len(pecks) and lot >= watcher.overlooks:
                label = "Submissive"
            out.windows.append((k, int(part[0]), int(part[-1]) + 1, label))
    return out


def _windows_of(event: Event, followed: Followed, at: tuple[int, int] | None, *, both: bool) -> set[tuple[int, int]]:
    """Track and number of the windows in which an event can be seen."""
    if at is None:
        return set()
    track, row = at
    found = {(track, row // WINDOW)}
    if both or event.behaviour != "peck":
        frames, visits = followed.tracks[track].frames, followed.tracks[track].visits
        while row + 1 < len(frames) and frames[row + 1] <= event.end and visits[row + 1] == event.visit:
            row += 1
        found.add((track, row // WINDOW))
    return found
