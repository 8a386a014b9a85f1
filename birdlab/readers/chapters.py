"""Chapters: several video files that are one recording, placed on one clock with the gaps between them.

Cameras cut long recordings into files. Two files are joined only where their names say so:

- GoPro: ``GX010012``, ``GX020012`` (also GH, GL, GS), and ``GOPR0012``, ``GP010012``;
- ``…part1``, ``…part2``; where numbers of these or of GoPro's are missing, only if the files carry times;
- ``…_01``, ``…_02`` (or ``-01``): two digits, without a break, from 00 or 01 on, and either their times fit (the next
  begins at most ten minutes after the last ended) or, where files carry no time, the rest of the name holds a number
  (``VID_0001_01``). So ``nest_01`` and ``nest_02`` without times stay two recordings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal

from birdlab.readers.files import Notice, natural_key

#: A file may seem to begin this long before its predecessor ends (clocks of cameras count whole seconds), s.
OVERLAP_S = 2.0
#: Longest gap between ``_01`` and ``_02`` that still makes them one recording, s.
LONGEST_GAP_S = 600.0

_GOPRO = re.compile(r"(?P<stem>G[HXLS])(?P<n>\d\d)(?P<file>\d{4})", re.IGNORECASE)
_GOPRO_OLD = re.compile(r"(?P<stem>GO|G)P(?P<n>R|\d\d)(?P<file>\d{4})", re.IGNORECASE)
_PART = re.compile(r"(?P<stem>.*?)[ _.-]*part[ _.-]*(?P<n>\d{1,3})", re.IGNORECASE)
_NUMBER = re.compile(r"(?P<stem>.+)[_-](?P<n>\d\d)")


@dataclass(frozen=True)
class Clip:
    """One video file: path relative to the data root, time its container gives (UTC), length in seconds, frame size."""

    path: str
    created: datetime | None
    duration_s: float
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Placed:
    """Where a file lies on its session's clock: session, start in seconds, and start in UTC where it is known."""

    session: str
    start_s: float
    started: datetime | None


@dataclass(frozen=True)
class _Chapter:
    kind: Literal["gopro", "part", "number", "single"]
    group: tuple[str, str, str]
    number: int


def place(
    clips: Sequence[Clip], *, sessions: Sequence[str | None], cameras: Sequence[str | None], chapters: bool = True
) -> tuple[list[Placed], list[Notice]]:
    """Put every file on the clock of its session.

    Files that the recipe gives the same session (and camera) share a clock; without a session from the recipe, a file is a
    session of its own unless it is a chapter. On a clock, a file begins when its container says; where times are
    missing or contradict the lengths, it begins when the one before it ends, and a notice says so.

    Args:
        clips: the files, in natural order.
        sessions: session by the recipe, ``None`` where it gives none.
        cameras: camera by the recipe; two cameras of one session do not follow each other.
        chapters: join chapters.

    Returns:
        One :class:`Placed` per file, in the order of ``clips``, and notices.
    """
    notices: list[Notice] = []
    groups: dict[tuple[str, ...], list[Clip]] = {}
    joined = _join(clips, notices) if chapters else {}
    for clip, session, camera in zip(clips, sessions, cameras, strict=True):
        if session is not None:
            key = ("named", session, camera or "")
        else:
            key = ("file", joined.get(clip.path, clip.path), "")
        groups.setdefault(key, []).append(clip)
    names = _names([key for key in groups if key[0] == "file"])
    by_path: dict[str, Placed] = {}
    for key, members in groups.items():
        session = key[1] if key[0] == "named" else names[key[1]]
        by_path |= _clock(session, members, notices)
    return [by_path[clip.path] for clip in clips], notices


def _names(keys: list[tuple[str, ...]]) -> dict[str, str]:
    """Session names of files: the stem where it is unique, else the path without suffix, else the path."""
    plain = {path: PurePosixPath(path) for _, path, _ in keys}
    names = {}
    for path, pure in plain.items():
        choices = (pure.stem, pure.with_suffix("").as_posix(), path)
        ways = ([p.stem for p in plain.values()], [p.with_suffix("").as_posix() for p in plain.values()])
        names[path] = next((c for c, all_of in zip(choices, ways, strict=False) if all_of.count(c) == 1), path)
    return names


def _chapter(path: str) -> _Chapter:
    pure = PurePosixPath(path)
    place = (pure.parent.as_posix(), pure.suffix.lower())
    for kind, pattern in (("gopro", _GOPRO), ("gopro", _GOPRO_OLD), ("part", _PART), ("number", _NUMBER)):
        match = pattern.fullmatch(pure.stem)
        if match:
            found = match.groupdict()
            number = 0 if found["n"].upper() == "R" else int(found["n"])
            stem = found["file"] if kind == "gopro" else found["stem"]
            brand = found["stem"][1:].upper() if pattern is _GOPRO else ""
            return _Chapter(kind, (*place, f"{kind}:{brand}:{stem}"), number)  # type: ignore[arg-type]
    return _Chapter("single", (*place, pure.stem), 0)


def _join(clips: Sequence[Clip], notices: list[Notice]) -> dict[str, str]:
    """Chapters: path to the path of the recording's first file."""
    groups: dict[tuple[str, str, str], list[tuple[_Chapter, Clip]]] = {}
    for clip in clips:
        chapter = _chapter(clip.path)
        groups.setdefault(chapter.group, []).append((chapter, clip))
    first_of: dict[str, str] = {}
    for members in groups.values():
        members.sort(key=lambda pair: (pair[0].number, pair[1].path))
        run: list[Clip] = []
        for (before, a), (after, b) in pairwise(members):
            run = run or [a]
            follows = a.size == b.size and (after.number == before.number + 1 or _lacking(before, after, a, b, notices))
            if follows and (before.kind != "number" or _fits(before, len(run), a, b, notices)):
                run.append(b)
                first_of |= {clip.path: run[0].path for clip in run}
            else:
                run = []
    for first in dict.fromkeys(first_of.values()):
        n = sum(f == first for f in first_of.values())
        text = "video files are chapters of one recording and share its clock (data.media.chapters: false keeps them apart)"
        notices.append(Notice("chapters_joined", text, n, first))
    return first_of


def _lacking(before: _Chapter, after: _Chapter, a: Clip, b: Clip, notices: list[Notice]) -> bool:
    """Whether files between two chapters are missing, yet their times say where the later one belongs."""
    if before.kind == "number" or after.number <= before.number + 1:
        return False
    known = bool(a.created and b.created and timedelta() < b.created - a.created < timedelta(days=1))
    then = (
        "a gap on its clock"
        if known
        else "what follows is kept as another recording, for no time says where it belongs"
    )
    text = f"chapters are missing between {PurePosixPath(a.path).name} and {PurePosixPath(b.path).name}: {then}"
    notices.append(Notice("chapters_missing", text, after.number - before.number - 1, b.path))
    return known


def _fits(chapter: _Chapter, n_so_far: int, a: Clip, b: Clip, notices: list[Notice]) -> bool:
    if chapter.number - (n_so_far - 1) not in (0, 1):
        return False
    if a.created and b.created:
        # A file's time is its beginning with most cameras, its end with some: either may make the two fit.
        apart = (b.created - a.created).total_seconds()
        return any(-OVERLAP_S <= apart - length <= LONGEST_GAP_S for length in (a.duration_s, b.duration_s))
    stem = chapter.group[2].split(":", 2)[2]
    if re.search(r"\d", stem):
        return True
    text = "video files have names like chapters but no time; they are kept as separate recordings"
    notices.append(Notice("chapters_unsure", f"{text} (data.media.session joins them)", 2, b.path))
    return False


def _clock(session: str, clips: list[Clip], notices: list[Notice]) -> dict[str, Placed]:
    timed = all(clip.created for clip in clips)
    ordered = sorted(clips, key=lambda c: natural_key(c.path))
    if timed and len({clip.created for clip in clips}) == len(clips):
        ordered = sorted(clips, key=lambda c: (c.created, natural_key(c.path)))
    starts = _by_time(ordered) if timed else None
    if starts is None:
        return _end_to_end(session, ordered, timed, notices)
    zero = ordered[0].created - timedelta(seconds=starts.shift)  # type: ignore[operator]
    for (a, at), (_, then) in pairwise(zip(ordered, starts.times, strict=True)):
        gap = then - at - a.duration_s
        if gap > OVERLAP_S:
            notices.append(Notice("clock_gap", f"{gap:.0f} s without recording in session {session}", 1, a.path))
    if starts.shift:
        text = f"files of session {session} carry the time of their end, not of their beginning"
        notices.append(Notice("clock_by_end", text, len(ordered), ordered[0].path))
    return {c.path: Placed(session, s, zero + timedelta(seconds=s)) for c, s in zip(ordered, starts.times, strict=True)}


def _end_to_end(session: str, clips: list[Clip], timed: bool, notices: list[Notice]) -> dict[str, Placed]:
    placed, at = {}, 0.0
    for clip in clips:
        placed[clip.path] = Placed(session, at, clip.created if len(clips) == 1 else None)
        at += clip.duration_s
    if len(clips) > 1:
        why = "their times contradict their lengths" if timed else "they carry no time"
        text = f"files of session {session} are put end to end without gaps, because {why}"
        notices.append(Notice("clock_assumed", text, len(clips), clips[0].path))
    return placed


@dataclass(frozen=True)
class _Starts:
    times: list[float]
    shift: float  # seconds by which the first file's own time lies behind its beginning


def _by_time(clips: list[Clip]) -> _Starts | None:
    """Starts by the files' times: read as beginnings, else as ends; ``None`` where neither agrees with the lengths."""
    for at_end in (False, True):
        lengths = [clip.duration_s if at_end else 0.0 for clip in clips]
        begins = [clip.created - timedelta(seconds=d) for clip, d in zip(clips, lengths, strict=True)]  # type: ignore[operator]
        times, good = [0.0], True
        for (a, begin), (_, then) in pairwise(zip(clips, begins, strict=True)):
            gap = (then - begin).total_seconds() - a.duration_s
            good = good and gap >= -OVERLAP_S
            # Whole seconds are too coarse for a gap of a moment: such files follow each other directly.
            direct = times[-1] + a.duration_s
            times.append(direct if abs(gap) <= OVERLAP_S else (then - begins[0]).total_seconds())
        if good:
            return _Starts(times, lengths[0])
    return None
