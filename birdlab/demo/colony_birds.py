"""The made colony's birds: who comes to which feeder, for how long, where they sit, and when they peck or bow.

No bird was watched: comings, goings and pecks are drawn by lot from rates that are planted here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from birdlab.demo.paint import stream

FPS = 25
SEED = 47
#: Size of the made videos, px; nobody painted their frames.
WIDTH, HEIGHT = 1280, 720


@dataclass(frozen=True)
class Bird:
    """One colour-ringed bird: pecks and bows per minute that it is there, and the share of a video that it is there."""

    name: str
    pecks: float
    bows: float
    there: float


BIRDS = (
    Bird("oaor", 21.0, 0.5, 0.55), Bird("oroa", 7.0, 4.0, 0.45), Bird("glgw", 8.0, 1.5, 0.5), Bird("wsbl", 6.0, 3.5, 0.5),
    Bird("rrab", 0.0, 7.0, 0.4), Bird("aspy", 9.0, 2.0, 0.5), Bird("brog", 6.0, 3.0, 0.4), Bird("ymco", 4.0, 2.0, 0.3),
)  # fmt: skip
#: Eats far more than the others; never pecks; is named by nobody; is among the possible birds and was never there.
GREEDY, FASTING, UNNAMED, ABSENT = "oaor", "rrab", "ymco", "gwsl"
#: Ring codes that are read for one another, and two birds that come and go together.
LOOK_ALIKE, TOGETHER = ("oaor", "oroa"), ("glgw", "wsbl")


@dataclass(frozen=True)
class Feeder:
    """A place with two videos: birds that come, and birds that are listed as possible beside them."""

    name: str
    birds: tuple[str, ...]
    also_possible: tuple[str, ...]
    n_frames: tuple[int, int]


FEEDERS = (
    Feeder("barn", ("oaor", "oroa", "glgw", "wsbl", "rrab"), ("gwsl",), (3000, 3100)),
    Feeder("ford", ("oaor", "aspy", "ymco", "brog"), ("oroa",), (2950, 3000)),
    Feeder("mill", ("glgw", "wsbl", "oroa", "brog"), ("oaor", "gwsl"), (3000, 2900)),
)


@dataclass(frozen=True)
class Visit:
    """One bird at the feeder without a break, in frames [start, end); ``bird`` is None for a bird that nobody knows.

    ``boxes`` are whole px, (end - start, 4): xmin, ymin, xmax, ymax.
    """

    label: str
    bird: str | None
    start: int
    end: int
    far: bool
    boxes: np.ndarray


@dataclass(frozen=True)
class Event:
    """Something a bird did, in frames ``start`` … ``end`` (inclusive); ``visit`` is its place in the video's list."""

    visit: int
    bird: str
    behaviour: str
    start: int
    end: int


@dataclass(frozen=True)
class Video:
    """One made video and all that happened in it."""

    name: str
    feeder: str
    number: int
    n_frames: int
    possible: tuple[str, ...]
    visits: list[Visit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def birds(self) -> list[str]:
        """Known birds that were there, sorted."""
        return sorted({v.bird for v in self.visits if v.bird})

    def frames_of(self, bird: str) -> np.ndarray:
        """Frames in which a bird is there, (n_frames,), bool."""
        here = np.zeros(self.n_frames, dtype=bool)
        for visit in self.visits:
            if visit.bird == bird:
                here[visit.start : visit.end] = True
        return here

    def pecks_of(self, bird: str) -> int:
        """How often a bird pecked."""
        return sum(e.bird == bird and e.behaviour == "peck" for e in self.events)


def make_videos() -> list[Video]:
    """The six videos, the same on every machine."""
    videos = []
    for feeder in FEEDERS:
        for k, n_frames in enumerate(feeder.n_frames):
            possible = tuple(sorted(feeder.birds + feeder.also_possible))
            videos.append(
                _video(Video(f"made_{feeder.name}_{k + 1}", feeder.name, len(videos), n_frames, possible), feeder)
            )
    return videos


def _video(video: Video, feeder: Feeder) -> Video:
    about = {bird.name: bird for bird in BIRDS}
    spans: dict[str, list[tuple[int, int]]] = {}
    for k, name in enumerate(feeder.birds):
        rng = stream(SEED, 1, video.number, k)
        first, second = TOGETHER
        if name == second:
            spans[name] = [_beside(rng, span, video.n_frames) for span in spans[first]]
        else:
            spans[name] = _spans(rng, video.n_frames, about[name].there)
    slots = stream(SEED, 2, video.number).permutation(7)
    for k, (name, listed) in enumerate(spans.items()):
        for i, (start, end) in enumerate(listed):
            rng = stream(SEED, 3, video.number, k, i)
            far = bool((k + i + video.number) % 3 == 0)
            boxes = _boxes(rng, end - start, int(slots[k]), far=far)
            video.visits.append(Visit(f"{name}_{i + 1}", name, start, end, far, boxes))
            visit = len(video.visits) - 1
            video.events.extend(_events(rng, about[name], visit, (start, end)))
    if video.number % 2:  # a bird without rings comes by
        start = 700 + 100 * video.number
        boxes = _boxes(stream(SEED, 4, video.number), 160, int(slots[6]), far=True)
        video.visits.append(Visit("unknown_1", None, start, start + 160, True, boxes))
    video.events.sort(key=lambda e: (e.start, e.bird))
    return video


def _spans(rng: np.random.Generator, n_frames: int, there: float) -> list[tuple[int, int]]:
    """Two or three visits that fill about the share ``there`` of the video."""
    n = int(rng.integers(2, 4))
    stay = rng.uniform(0.75, 1.25, n)
    stay = np.round(stay / stay.sum() * n_frames * there).astype(int)
    away = rng.uniform(0.05, 2.0, n + 1)
    away = np.round(away / away.sum() * (n_frames - stay.sum())).astype(int)
    at, spans = 0, []
    for pause, length in zip(away, stay, strict=False):
        at += int(pause)
        spans.append((at, min(at + int(length), n_frames)))
        at += int(length)
    return spans


def _beside(rng: np.random.Generator, span: tuple[int, int], n_frames: int) -> tuple[int, int]:
    """A visit that begins and ends a little apart from another one's."""
    late, longer = rng.integers(-15, 40, 2)
    return max(0, span[0] + int(late)), min(n_frames, span[1] + int(longer))


def _boxes(rng: np.random.Generator, n: int, slot: int, *, far: bool) -> np.ndarray:
    """A bird that shifts about its place; far birds are small and sit higher."""
    width = rng.uniform(34, 44) if far else rng.uniform(92, 124)
    height = width * rng.uniform(0.7, 0.85)
    x = 90 + slot * 180 + rng.uniform(-20, 20)
    y = (210 if far else 470) + rng.uniform(-25, 25)
    steps = np.cumsum(rng.integers(-1, 2, (n, 2)), axis=0) * (0.4 if far else 0.8)
    drift = np.clip(steps, -0.3 * width, 0.3 * width)
    centre = np.array([x, y]) + drift
    half = np.array([width, height]) / 2
    return np.round(np.hstack([centre - half, centre + half])).astype(np.int64)


def _events(rng: np.random.Generator, bird: Bird, visit: int, span: tuple[int, int]) -> list[Event]:
    """Pecks and bows of one visit; none overlap, and pecks begin at least a second apart."""
    found: list[Event] = []
    for behaviour, rate, shortest, length in (
        ("peck", bird.pecks, 26, (4, 13)), ("submissive", bird.bows, 60, (20, 41)),
    ):  # fmt: skip
        mean = FPS * 60 / rate if rate else np.inf
        at = span[0] + rng.exponential(mean) if rate else np.inf
        while at < span[1] - length[1]:
            start = int(at)
            one = Event(visit, bird.name, behaviour, start, start + int(rng.integers(*length)) - 1)
            if all(one.end < e.start - 5 or one.start > e.end + 5 for e in found):
                found.append(one)
            at += shortest + rng.exponential(max(mean - shortest, 5.0))
    return found
