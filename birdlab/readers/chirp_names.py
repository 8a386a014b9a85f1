"""Names of birds, of tracks and of files in the layout in which CHIRP publishes its application set."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from birdlab.errors import Problem

#: Labels that are no bird, in any case.
NOBODY = ("unknown", "unringed", "")
PICKLES = (".p", ".pkl", ".pickle")
_DICTIONARIES = (*PICKLES, ".json", ".csv")
_VISIT = r"_[0-9]+$"
_WHOLE = r"^(-?[0-9]+)\.0+$"
_TRACKS, _WINDOWS, _NAMES = "_TrackedBBox_", "_BehavDict_", "_IDMatch_"


def bird_of(label: str) -> str | None:
    """The bird of a label: without a trailing ``_<number>``; ``None`` for unknown and unringed.

    >>> bird_of("abcd_1"), bird_of("bird_A"), bird_of("unknown_2"), bird_of("unringed")
    ('abcd', 'bird_A', None, None)
    """
    bird = re.sub(_VISIT, "", label.strip())
    return None if bird.lower() in NOBODY else bird


def bird_expr(column: str) -> pl.Expr:
    """:func:`bird_of` of a column of labels."""
    bird = pl.col(column).str.strip_chars().str.replace(_VISIT, "")
    return pl.when(~bird.str.to_lowercase().is_in(NOBODY)).then(bird)


def track_of(track: str | float) -> str:
    """A track as text; 1 and 1.0 are one track, since a column with a gap is saved as numbers with a point.

    >>> track_of(1), track_of("1.0"), track_of("track-1")
    ('1', '1', 'track-1')
    """
    return re.sub(_WHOLE, r"\1", str(track).strip())


def track_expr(column: str) -> pl.Expr:
    """:func:`track_of` of a column of text."""
    return pl.col(column).str.strip_chars().str.replace(_WHOLE, "$1")


@dataclass(frozen=True)
class Named:
    """A file of predictions and what its name says.

    Args:
        path: the file.
        kind: tracks, windows or identities.
        video, tracker: whose.
        method: model of windows, method of identities.
        sure: whether the name can be read in one way only.
        beside: a pickle of the same thing, where ``path`` is none.
    """

    path: Path
    kind: str
    video: str
    tracker: str
    method: str = ""
    sure: bool = True
    beside: Path | None = None


def name_files(paths: Collection[Path], videos: Collection[str]) -> tuple[list[Named], list[Problem], list[Path]]:
    """What the names of prediction files say; they are read against names that are known, since all may hold ``_``.

    Args:
        paths: files.
        videos: videos of MetaData.csv.

    Returns:
        Files with their video, tracker and method; names that cannot be read, as problems; files of no known kind.
        Trackers are those that have boxes. A name that can be read in two ways is read with the method that other
        files have; where none has, with the longest tracker (or video); where two have, it is a problem.
    """
    named: list[Named] = []
    problems: list[Problem] = []
    other: list[Path] = []
    rest: list[Path] = []
    for path in sorted(paths):
        stem, suffix = path.stem, path.suffix.lower()
        if _TRACKS in stem and suffix == ".csv":
            video, _, tracker = stem.rpartition(_TRACKS)
            if video not in videos:
                problems.append(_no_video(path, video))
            elif not tracker:
                problems.append(Problem("bad_name", path.name, "{video}_TrackedBBox_{tracker}.csv", file=str(path)))
            else:
                named.append(Named(path, "tracks", video, tracker))
        elif (_WINDOWS in stem or _NAMES in stem) and suffix in _DICTIONARIES:
            rest.append(path)
        else:
            other.append(path)
    trackers = {one.tracker for one in named}
    found = [_windows(p, videos, trackers) if _WINDOWS in p.stem else _names(p, videos, trackers) for p in rest]
    problems += [one for one in found if isinstance(one, Problem)]
    readings = [one for one in found if not isinstance(one, Problem)]
    sure = {(one[0].kind, one[0].method) for one in readings if len(one) == 1}
    for several in readings:
        one = _pick(several, sure)
        (problems if isinstance(one, Problem) else named).append(one)  # type: ignore[arg-type]
    return named, problems, other


def _windows(path: Path, videos: Collection[str], trackers: Collection[str]) -> list[Named] | Problem:
    """Every way to read {video}_BehavDict_{model}_{tracker}, longest tracker first."""
    video, _, tail = path.stem.partition(_WINDOWS)
    if video not in videos:
        return _no_video(path, video)
    fitting = [t for t in trackers if tail.endswith(f"_{t}") and len(tail) > len(t) + 1]
    if not fitting:
        return _no_tracker(path, trackers)
    return [Named(path, "windows", video, t, tail[: -len(t) - 1]) for t in sorted(fitting, key=len, reverse=True)]


def _names(path: Path, videos: Collection[str], trackers: Collection[str]) -> list[Named] | Problem:
    """Every way to read {video}_{identity}_IDMatch_{tracker}, longest video first."""
    head, _, tracker = path.stem.rpartition(_NAMES)
    fitting = [v for v in videos if head.startswith(f"{v}_") and len(head) > len(v) + 1]
    if not fitting:
        return _no_video(path, head)
    if tracker not in trackers:
        return _no_tracker(path, trackers)
    return [Named(path, "identities", v, tracker, head[len(v) + 1 :]) for v in sorted(fitting, key=len, reverse=True)]


def _pick(readings: list[Named], sure: Collection[tuple[str, str]]) -> Named | Problem:
    if len(readings) == 1:
        return readings[0]
    known = [one for one in readings if (one.kind, one.method) in sure]
    if len(known) > 1:
        ways = " or ".join(f"{one.method} of tracker {one.tracker}, video {one.video}" for one in known)
        return Problem(
            "ambiguous_name", ways, "a name that can be read in one way", "rename it", file=str(known[0].path)
        )
    if known:
        return known[0]
    first = readings[0]
    return Named(first.path, first.kind, first.video, first.tracker, first.method, sure=False)


def _no_video(path: Path, video: str) -> Problem:
    remedy = "add its row to MetaData.csv, or take the file away"
    return Problem("unknown_video", f"video {video}", "a video of MetaData.csv", remedy, file=str(path))


def _no_tracker(path: Path, trackers: Collection[str]) -> Problem:
    known = ", ".join(sorted(trackers)) or "none"
    return Problem(
        "unknown_tracker", path.name, f"a tracker with boxes ({known})", "add its TrackedBBox file", str(path)
    )
