"""The made ringed colony: who lives where, which codes they wear when, and which clips were cut from which video.

Nobody ringed or filmed these birds. Codes that are read for one another, a code that is given twice, a ring that is lost,
deaths, arrivals and strangers are planted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from birdlab.demo.paint import stream
from birdlab.demo.ring_birds import FRAMES

SEED = 61
YEARS = (2001, 2002, 2003)
#: Place of each territory in rows of three; those side by side are neighbours, but for hazel and oak.
TERRITORIES = ("alder", "birch", "cedar", "elm", "hazel", "larch", "maple", "oak", "rowan")
_APART = {("hazel", "oak")}
#: Territories that were not filmed in the second year, and those whose birds a network may learn from (disjoint).
UNFILMED = ("birch", "oak", "rowan")
LEARNED = ("alder", "birch", "cedar", "oak")
CLIPS_PER_VIDEO = 10
#: Clips that begin while the one before, of another bird, is still in the picture.
_BESIDE = (3, 7)


@dataclass(frozen=True)
class Ringed:
    """One bird: its codes from a day on, where it lives, the first year it is there, the last day it was alive."""

    name: str
    code: str
    home: str
    arrives: int | None = None
    dies: date | None = None
    later: tuple[str, date] | None = None
    stranger: bool = False

    def code_on(self, day: date) -> str:
        """The code that it wears on a day."""
        return self.later[0] if self.later and day >= self.later[1] else self.code

    def lives(self, day: date) -> bool:
        """Whether it is there on a day."""
        return day.year >= (self.arrives or 0) and (self.dies is None or day <= self.dies)

    def listed(self, year: int) -> bool:
        """Whether it is on the list of its territory: strangers never are, the dead still are in the year after."""
        since = self.arrives is None or year >= self.arrives
        return since and not self.stranger and (self.dies is None or year <= self.dies.year + 1)


#: Wears what another bird wore before it died; its ring is lost; lives with three rings; a visitor; asked for in the
#: closed protocol though it is not in its gallery.
REUSED, LOST, THREE, VISITOR, UNKNOWN_IN_CLOSED = "bird-14", "bird-17", "bird-21", "bird-05", "bird-03"
#: Look-alikes by planting: the same colours in another order, O for R, L for B, S for A.
LOOK_ALIKE = (("bird-01", "bird-02"), ("bird-05", "bird-06"), ("bird-09", "bird-10"), ("bird-29", "bird-30"))


def _birds() -> tuple[Ringed, ...]:
    codes = {
        "alder": "oaor oroa moaw bgac", "birch": "ragy oagy lasc apmc", "cedar": "galy gaby wmab ccal",
        "elm": "cpla cpla yapw alwg", "hazel": "glar pram ypay mcaw", "larch": "rg-a mcra awob lmga",
        "maple": "owao gyma bbca pawb", "oak": "agrc sgrc camp wacl", "rowan": "ylya lsag acbo ropa",
    }  # fmt: skip
    special: dict[str, dict[str, Any]] = {
        "bird-13": {"dies": date(2001, 11, 20)}, REUSED: {"arrives": 2002}, LOST: {"later": ("gl-a", date(2002, 9, 1))},
        "bird-25": {"dies": date(2002, 10, 15)},
    }  # fmt: skip
    special |= {name: {"arrives": 2003} for name in (UNKNOWN_IN_CLOSED, "bird-12", "bird-23", "bird-27", "bird-35")}
    listed = [(code, home) for home in TERRITORIES for code in codes[home].split()]
    birds = [
        Ringed(f"bird-{k + 1:02d}", code, home, **special.get(f"bird-{k + 1:02d}", {}))
        for k, (code, home) in enumerate(listed)
    ]
    strangers = (("bird-37", "sapb", "elm"), ("bird-38", "mywa", "rowan"))
    return tuple(birds) + tuple(Ringed(n, code, home, 2003, stranger=True) for n, code, home in strangers)


BIRDS = _birds()
#: Light per video, in turn: how it was lit, and what :func:`birdlab.demo.ring_birds.render_clip` is told.
LIGHTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("clear", {}),
    ("dusk", {"light": 0.5, "blur": 0.3}),
    ("warm", {"white_balance": (0.8, 1.0, 1.15)}),
    ("soft", {"blur": 0.9}),
    ("glare", {"light": 1.45}),
    ("oblique", {"perspective": 0.8}),
    ("cold shade", {"light": 0.7, "white_balance": (1.2, 1.0, 0.85)}),
)


@dataclass(frozen=True)
class Filmed:
    """One video: where and when, and how it was lit."""

    name: str
    territory: str
    day: date
    number: int

    @property
    def light(self) -> tuple[str, dict[str, Any]]:
        """Name and settings of its light."""
        return LIGHTS[self.number % len(LIGHTS)]


@dataclass(frozen=True)
class Clip:
    """One clip of one bird; ``occlusion`` is how much of its legs is hidden, 1 for all."""

    name: str
    number: int
    video: Filmed
    bird: Ringed
    start: int
    track: str
    occlusion: float
    beside: str | None

    @property
    def code(self) -> str:
        """What the bird wears on the day of the video."""
        return self.bird.code_on(self.video.day)


def videos() -> list[Filmed]:
    """All videos in the order of time."""
    found: list[Filmed] = []
    for year in YEARS:
        for k, home in enumerate(TERRITORIES):
            if year != YEARS[1] or home not in UNFILMED:
                day = date(year, 5, 3) + timedelta(days=2 * k)
                found.append(Filmed(f"made_{home}_{year}", home, day, len(found)))
    return found


def neighbours(home: str) -> list[str]:
    """The territory and those beside it.

    >>> neighbours("alder"), neighbours("hazel")
    (['alder', 'birch', 'elm'], ['birch', 'elm', 'hazel', 'larch'])
    """
    at = {name: divmod(k, 3) for k, name in enumerate(TERRITORIES)}
    row, column = at[home]
    return [
        name
        for name, (r, c) in at.items()
        if abs(r - row) + abs(c - column) <= 1 and not {(name, home), (home, name)} & _APART
    ]


def possible(video: Filmed, homes: list[str]) -> list[str]:
    """Birds that are listed for some territories in the year of a video."""
    return [bird.name for bird in BIRDS if bird.home in homes and bird.listed(video.day.year)]


def clips() -> list[Clip]:
    """All clips, the same on every machine, numbered from video to video."""
    return [clip for video in videos() for clip in _of_video(video)]


def _of_video(video: Filmed) -> Iterator[Clip]:
    rng = stream(SEED, 1, video.number)
    there = [bird for bird in BIRDS if bird.home == video.territory and bird.lives(video.day)]
    if video.name == "made_cedar_2003":
        there += [bird for bird in BIRDS if bird.name == VISITOR]
    order = _order(rng, len(there))
    start, visit, before = int(rng.integers(50, 400)), 0, None
    for k, which in enumerate(order):
        beside = before.name if before is not None and k in _BESIDE else None
        if before is not None:
            again = before.bird == there[which]
            gap = FRAMES if again else int(rng.integers(60, 700))
            start = before.start + (int(rng.integers(2, 13)) if beside else gap)
            visit += not again
        hidden = rng.random() < 0.07
        number = CLIPS_PER_VIDEO * video.number + k
        occlusion = 1.0 if hidden else float(max(0.0, rng.uniform(-0.35, 0.75)))
        track = f"{video.name}_track{visit + 1}"
        before = Clip(f"t{number + 1:03d}", number, video, there[which], start, track, occlusion, beside)
        yield before


def _order(rng: np.random.Generator, n: int) -> list[int]:
    """Which bird each clip of a video is of: all about as often, and two birds where two are in the picture."""
    while True:
        order = [int(k) for k in rng.permutation(np.arange(CLIPS_PER_VIDEO) % n)]
        if n < 2 or all(order[k] != order[k - 1] for k in _BESIDE):
            return order


def roles(clip: Clip) -> dict[str, str]:
    """Words of the three protocols: the last year is asked for, what came before is the gallery."""
    last, bird = clip.video.day.year == YEARS[-1], clip.bird
    new = bird.arrives == YEARS[-1]
    closed = "" if new and bird.name != UNKNOWN_IN_CLOSED else "Test" if last else "Train"
    disjoint = "Train" if bird.home in LEARNED else "" if new else "Query" if last else "Gallery"
    opened = "Unknown_Test" if new else "Known_Test" if last else "Known_Train"
    return {"ClosedSetSplit": closed, "DisjointedSetSplit": disjoint, "OpenSetSplit": opened}


def roster() -> list[dict[str, Any]]:
    """Rows of the list of codes: bird, code, first and last day, territory; strangers are not on it."""
    rows = []
    for bird in (b for b in BIRDS if not b.stranger):
        first = date(bird.arrives, 4, 1) if bird.arrives else None
        spans = [(bird.code, first, bird.dies)]
        if bird.later:
            code, day = bird.later
            spans = [(bird.code, first, day - timedelta(days=1)), (code, day, bird.dies)]
        rows += [
            {"individual_id": bird.name, "code": code, "valid_from": a, "valid_to": z, "territory": bird.home}
            for code, a, z in spans
        ]
    return rows
