"""The made soundscapes: recorders, hours, who sings when, and how well each species can be told. Nothing was recorded.

Names and codes are those of real birds of eastern North America; when they sing, how often and how loud is made up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

import numpy as np

from birdlab.demo.paint import stream

SEED = 83
SEGMENT_S = 5
#: Local time of the study, hours from UTC.
ZONE_H = -5
SITES = ("creek", "meadow", "ridge")
#: One that hisses: every bird is this much weaker in it.
NOISY, NOISY_FACTOR = "meadow2", 0.35
#: A local hour full of wind: every bird is this much weaker in it.
BAD_HOUR, BAD_HOUR_FACTOR = 14, 0.3
#: Local hours of day of the ten recordings of each recorder, and the months they fall in.
HOURS = (0, 2, 4, 5, 6, 8, 10, 14, 17, 22)
MONTHS = (3, 4, 5, 6, 7)
YEAR = 2003
#: Hours in which only the owl sings.
NIGHT = frozenset((21, 22, 23, 0, 1, 2, 3))
#: Segments in which the commonest species is heard; the rarest one is heard in one.
MOST = 700
#: Species, from the commonest to the rarest: code, English name, when it sings.
SPECIES = (
    ("reevir1", "Red-eyed Vireo", "day"), ("amerob", "American Robin", "dawn"), ("ovenbi1", "Ovenbird", "dawn"),
    ("bkcchi", "Black-capped Chickadee", "day"), ("woothr", "Wood Thrush", "dawn"), ("amecro", "American Crow", "day"),
    ("btnwar", "Black-throated Green Warbler", "day"), ("eawpew", "Eastern Wood-Pewee", "day"),
    ("sonspa", "Song Sparrow", "dawn"), ("blujay", "Blue Jay", "day"), ("comyel", "Common Yellowthroat", "day"),
    ("herthr", "Hermit Thrush", "dusk"), ("tuftit", "Tufted Titmouse", "dawn"), ("norcar", "Northern Cardinal", "dawn"),
    ("daejun", "Dark-eyed Junco", "day"), ("dowwoo", "Downy Woodpecker", "day"), ("veery", "Veery", "dusk"),
    ("haiwoo", "Hairy Woodpecker", "day"), ("pinwar", "Pine Warbler", "day"), ("scatan", "Scarlet Tanager", "day"),
    ("whbnut", "White-breasted Nuthatch", "day"), ("grycat", "Gray Catbird", "dawn"), ("houwre", "House Wren", "day"),
    ("rewbla", "Red-winged Blackbird", "dawn"), ("eastow", "Eastern Towhee", "dawn"), ("brdowl", "Barred Owl", "night"),
    ("btbwar", "Black-throated Blue Warbler", "day"), ("moudov", "Mourning Dove", "dawn"),
    ("indbun", "Indigo Bunting", "day"), ("chswar", "Chestnut-sided Warbler", "day"), ("leafly", "Least Flycatcher", "day"),
    ("robgro", "Rose-breasted Grosbeak", "day"), ("yebsap", "Yellow-bellied Sapsucker", "day"),
    ("swaspa", "Swamp Sparrow", "dawn"), ("winwre3", "Winter Wren", "dawn"), ("pilwoo", "Pileated Woodpecker", "day"),
    ("magwar", "Magnolia Warbler", "day"), ("whtspa", "White-throated Sparrow", "dusk"),
    ("purfin", "Purple Finch", "day"), ("canwar", "Canada Warbler", "dawn"),
)  # fmt: skip
#: Species of the class list that nobody made sing.
NEVER = ("bkpwar", "cedwax", "gockin", "grcfly", "norpar", "ruckin")
#: Pairs that one run confuses: where the first sings it hears the second.
PAIRS = (("herthr", "woothr"), ("haiwoo", "dowwoo"), ("pinwar", "daejun"))
#: Range of detectability: how far scores of a segment with the species lie above those without, standard deviations.
WEAKEST, STRONGEST = 1.6, 6.0
#: Share of songs at each time of day, by local hour.
TIMES = {
    "dawn": {4: 3, 5: 6, 6: 5, 7: 3, 8: 2, 10: 1, 14: 0.5, 17: 0.5},
    "day": {5: 1, 6: 2, 8: 3, 10: 3, 14: 2.5, 17: 2},
    "dusk": {4: 2, 5: 2, 17: 4, 6: 0.5},
    "night": {0: 2, 2: 1, 22: 2},
}


@dataclass(frozen=True)
class Recording:
    """One made recording; ``start`` is in UTC."""

    media_id: str
    recorder: str
    site: str
    start: datetime
    duration_s: int

    @property
    def local(self) -> datetime:
        """Start in local time."""
        return self.start.astimezone(timezone(timedelta(hours=ZONE_H)))

    @property
    def n_segments(self) -> int:
        """Segments of five seconds, the last one perhaps cut."""
        return math.ceil(self.duration_s / SEGMENT_S)


@dataclass(frozen=True)
class Song:
    """One annotation: recording and species by number, span in whole seconds."""

    recording: int
    species: int
    start: int
    end: int

    @property
    def segments(self) -> range:
        """Segments that it touches: start rounded down, end rounded up."""
        return range(self.start // SEGMENT_S, math.ceil(self.end / SEGMENT_S))


@dataclass(frozen=True)
class Soundscapes:
    """All that was planted.

    Args:
        recordings: in order of name.
        songs: annotations by recording, start and species.
        detectability: of each species of :data:`SPECIES`.
        classes: the class list, species that never sing included, by code.
    """

    recordings: list[Recording]
    songs: list[Song]
    detectability: np.ndarray
    classes: list[str]


@cache
def make_soundscapes() -> Soundscapes:
    """The recordings and who sings in them, the same every time."""
    recordings = _recordings()
    rng = stream(SEED, 1)
    # Common and rare species alike are easy or hard.
    order = rng.permutation(len(SPECIES))
    detectability = np.linspace(WEAKEST, STRONGEST, len(SPECIES))[order].round(2)
    # Two bouts of one species may meet: a song is written once.
    songs = list(dict.fromkeys(song for s in range(len(SPECIES)) for song in _songs(s, recordings)))
    songs.sort(key=lambda one: (one.recording, one.start, one.species, one.end))
    return Soundscapes(recordings, songs, detectability, sorted([code for code, *_ in SPECIES] + list(NEVER)))


def _recordings() -> list[Recording]:
    rng = stream(SEED, 0)
    made = []
    for r, recorder in enumerate(f"{site}{k}" for site in SITES for k in (1, 2)):
        for k, hour in enumerate(HOURS):
            month = MONTHS[(k + r) % len(MONTHS)]
            day, minute = int(rng.integers(1, 29)), int(rng.integers(0, 40))
            local = datetime(YEAR, month, day, hour, minute, tzinfo=timezone(timedelta(hours=ZONE_H)))
            duration = int(rng.integers(300, 480)) if k % 4 else 5 * int(rng.integers(60, 121))
            name = f"{recorder}_{month:02d}{day:02d}_{hour:02d}{minute:02d}"
            made.append(Recording(name, recorder, recorder[:-1], local.astimezone(UTC), duration))
    return sorted(made, key=lambda one: one.media_id)


def target(species: int) -> int:
    """Segments in which a species is to be heard: from :data:`MOST` down to 1, each step by the same factor.

    >>> target(0), target(len(SPECIES) - 1)
    (700, 1)
    """
    return round(MOST ** (1 - species / (len(SPECIES) - 1)))


def _songs(species: int, recordings: list[Recording]) -> list[Song]:
    """Songs of one species, in bouts, until it is heard in as many segments as it is to be."""
    rng = stream(SEED, 2, species)
    hours = TIMES[SPECIES[species][2]]
    home = rng.choice(len(SITES), size=1 + int(rng.integers(len(SITES))), replace=False)
    weights = np.array(
        [hours.get(one.local.hour, 0) * (1.0 if SITES.index(one.site) in home else 0.15) for one in recordings]
    )
    # Recordings of a species vary far more than chance: some are full of it, most have none.
    weights *= rng.gamma(0.6, 1.0, len(recordings))
    heard: set[tuple[int, int]] = set()
    songs: list[Song] = []
    goal = target(species)
    for _ in range(20 * goal):
        r = int(rng.choice(len(recordings), p=weights / weights.sum()))
        at = int(rng.integers(0, recordings[r].duration_s - 12))
        for _ in range(1 + int(rng.geometric(0.35))):
            end = min(at + 1 + int(rng.integers(1, 7)), recordings[r].duration_s)
            if at >= recordings[r].duration_s - 1 or len(heard) >= goal:
                break
            song = Song(r, species, at, end)
            new = {(r, k) for k in song.segments} - heard
            if len(heard) + len(new) <= goal:
                songs.append(song)
                heard |= new
            at = end + int(rng.integers(1, 9))
        if len(heard) >= goal:
            break
    return songs
