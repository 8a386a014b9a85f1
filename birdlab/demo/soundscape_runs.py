"""What made runs say of the made soundscapes: a good one, a saturated, a rounded, one that confuses pairs, an assisted one.

Scores come from a formula: no network heard anything, there is nothing to hear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from birdlab.demo.paint import stream
from birdlab.demo.soundscape_birds import (
    BAD_HOUR,
    BAD_HOUR_FACTOR,
    NOISY,
    NOISY_FACTOR,
    PAIRS,
    SEED,
    SPECIES,
    Soundscapes,
    make_soundscapes,
)

#: Classes that a run lists per segment.
LISTED = 8
#: How strongly the noise of all runs, of a run, and of a recording (the same in all its segments) is in a score.
SHARED, OWN, PLACE = 0.8, 0.6, 0.5
#: Share of the segments of a pair's first species in which the confusing run hears the second.
CONFUSED = 0.85
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MadeRun:
    """One made run.

    Args:
        name: of the run and its file.
        team: who made it up.
        assisted, external_data: as the run's section of the recipe says.
        strength: every species is this much stronger (weaker) in it.
        digits: digits of its probabilities.
        about: how it was made, in a sentence.
    """

    name: str
    team: str
    assisted: bool
    external_data: bool
    strength: float
    digits: int
    about: str


RUNS = (
    MadeRun("dawn-good", "dawn", False, False, 1.0, 10, "every species as well as it can be told"),
    MadeRun("dawn-saturated", "dawn", False, False, 0.7, 10, "weaker, and every high score is written as 1"),
    MadeRun("dusk-rounded", "dusk", False, True, 0.9, 2, "a little weaker, probabilities of two digits"),
    MadeRun("noon-confused", "noon", False, False, 0.9, 10, "a little weaker, and three pairs of species are confused"),
    MadeRun("noon-assisted", "noon", True, False, 1.25, 10, "stronger, said to be checked by a person"),
)


@dataclass(frozen=True)
class Listed:
    """Rows of a run: recording, segment and class by number, probability; recordings and segments in order."""

    recording: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    cls: npt.NDArray[np.int64]
    probability: Floats


@dataclass(frozen=True)
class Heard:
    """Segments of all recordings in a row, and what is true of each.

    Args:
        recording: number of the recording of each segment, (S,).
        segment: its number within, (S,).
        present: whether a class is heard, (S, C) bool.
        effect: how far a score lies up where it is heard, (S, C).
    """

    recording: npt.NDArray[np.int64]
    segment: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]
    effect: Floats


@cache
def heard() -> Heard:
    """The truth by segment, and how well it can be told there."""
    made = make_soundscapes()
    counts = [one.n_segments for one in made.recordings]
    starts = np.concatenate([[0], np.cumsum(counts)])
    recording = np.repeat(np.arange(len(counts)), counts)
    segment = np.arange(starts[-1]) - starts[recording]
    place = class_places(made)
    present = np.zeros((starts[-1], len(made.classes)), dtype=bool)
    for song in made.songs:
        for k in song.segments:
            present[starts[song.recording] + k, place[song.species]] = True
    strength = np.zeros(len(made.classes))
    strength[place] = made.detectability
    weak = np.array([NOISY_FACTOR if one.recorder == NOISY else 1.0 for one in made.recordings])[recording]
    minute = np.array([one.local.hour * 60 + one.local.minute for one in made.recordings])[recording] + segment // 12
    weak = weak * np.where(minute // 60 == BAD_HOUR, BAD_HOUR_FACTOR, 1.0)
    return Heard(recording, segment, present, present * strength * weak[:, None])


def class_places(made: Soundscapes) -> npt.NDArray[np.int64]:
    """Place of each species of :data:`SPECIES` in the class list."""
    return np.array([made.classes.index(code) for code, *_ in SPECIES])


def list_run(number: int) -> Listed:
    """What run ``number`` of :data:`RUNS` lists: the highest classes of every segment."""
    run, what = RUNS[number], heard()
    shape = what.present.shape
    n_recordings = int(what.recording[-1]) + 1
    noise = SHARED * stream(SEED, 3).normal(size=shape) + OWN * stream(SEED, 4, number).normal(size=shape)
    noise += PLACE * stream(SEED, 5).normal(size=(n_recordings, shape[1]))[what.recording]
    score = run.strength * what.effect + noise
    if run.name == "noon-confused":
        score = _confuse(score, what, stream(SEED, 6))
    probability = _PROBABILITIES.get(run.name, _plain)(score).round(run.digits)
    best = np.sort(np.argpartition(-score, LISTED, axis=1)[:, :LISTED], axis=1)
    rows = np.repeat(np.arange(shape[0]), LISTED)
    chance = probability[rows, best.ravel()]
    kept = chance > 0
    return Listed(what.recording[rows][kept], what.segment[rows][kept], best.ravel()[kept], chance[kept])


def _plain(score: Floats) -> Floats:
    return 1 / (1 + np.exp(-1.6 * (score - 2.6)))


def _saturated(score: Floats) -> Floats:
    """Every score above a low bar is 1: right and wrong ones end in one tie."""
    return np.minimum(1.0, 1.45 * _plain(score + 0.7))


_PROBABILITIES: dict[str, Callable[[Floats], Floats]] = {"dawn-saturated": _saturated}


def _confuse(score: Floats, what: Heard, rng: np.random.Generator) -> Floats:
    classes = make_soundscapes().classes
    out = score.copy()
    for first, second in PAIRS:
        a, b = classes.index(first), classes.index(second)
        wrong = what.present[:, a] & (rng.random(len(score)) < CONFUSED)
        low, high = np.minimum(score[wrong, a], score[wrong, b]), np.maximum(score[wrong, a], score[wrong, b])
        out[wrong, a], out[wrong, b] = low, high
    return out


def told_of_run(number: int, listed: Listed) -> dict[str, Any]:
    """What was planted in a run."""
    run = RUNS[number]
    about: dict[str, Any] = {
        "name": run.name,
        "team": run.team,
        "assisted": run.assisted,
        "external_data": run.external_data,
        "about": run.about,
        "strength": run.strength,
        "digits": run.digits,
        "n_rows": len(listed.probability),
        "n_ones": int((listed.probability == 1.0).sum()),
    }
    if run.name == "noon-confused":
        about["pairs"] = [{"heard": a, "said": b, "share": CONFUSED} for a, b in PAIRS]
    return about
