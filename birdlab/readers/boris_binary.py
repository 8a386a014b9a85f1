"""Binary tables of BORIS: one row per instant, one column per behaviour; presence in bins, never a count."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.boris import EVENTS, MEDIA
from birdlab.readers.boris_table import BorisTable, plain, seconds
from birdlab.readers.files import Notice, at_most

#: Columns that are no behaviour.
_OTHER = ("time", "time (s)", "frame", "frame index", "image index", "observation id", "observation date", "subject")


def binary_events(
    table: BorisTable, notices: list[Notice], *, observation: str, subject: str, length_s: float | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs of rows in which a behaviour is marked, as events of the kind ``bins``.

    Row i is the bin from its time to the next row's; the last one is as long as the middle one of the others. BORIS writes
    rows up to the end of the media, so the length is unknown by one bin: it is null unless it is given.

    Raises:
        DataError: a cell that is no whole number from 0, times that do not rise, no row.
    """
    names = {i: head.strip() for i, head in enumerate(table.header) if plain(head) not in _OTHER and head.strip()}
    problems = _twice(table, list(names.values()))
    times, marks = _numbers(table, list(names), problems)
    if problems:
        raise DataError(at_most(problems))
    if not len(times):
        raise DataError(Problem("no_rows", "a header and no row", "a row per bin", file=table.file))
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    ends = np.append(times[1:], times[-1] + step)
    if length_s is not None and ends[-1] < length_s < ends[-1] + step:
        ends[-1] = length_s  # what is left is shorter than a bin: no row comes for it
    _remarks(table, marks, step, notices, known=length_s is not None)
    rows = []
    for j, behaviour in enumerate(names.values()):
        on = np.concatenate(([0], (marks[:, j] > 0).astype(np.int8), [0]))
        starts, stops = np.flatnonzero(np.diff(on) == 1), np.flatnonzero(np.diff(on) == -1) - 1
        rows += [
            {"behaviour": behaviour, "start_s": times[a], "end_s": ends[b], "line": table.rows[a][0]}
            for a, b in zip(starts, stops, strict=True)
        ]
    columns = {**{k: v for k, v in EVENTS.items() if k != "individual_id"}, "line": pl.Int64}
    same = {"observation": observation, "observer": None, "video_id": observation, "subject": subject}
    same |= {"modifiers": "", "kind": "bins"}
    rows = sorted(({**same, **row} for row in rows), key=lambda r: (r["start_s"], r["behaviour"]))
    media = {"observation": observation, "video_id": observation, "length_s": length_s}
    return (
        pl.DataFrame([{k: r[k] for k in columns} for r in rows], schema=columns, orient="row"),
        pl.DataFrame([{k: media.get(k) for k in MEDIA}], schema=MEDIA, orient="row"),
    )


def _numbers(table: BorisTable, places: list[int], problems: list[Problem]) -> tuple[np.ndarray, np.ndarray]:
    times, marks = [], []
    for line, row in table.rows:
        time = seconds(table.cell(row, "time"))
        if time is None or time < 0 or (times and time <= times[-1]):
            expected = "seconds from 0" if time is None or time < 0 else f"a time after {times[-1]:g} s"
            problems.append(_cell(table, line, table.cell(row, "time"), expected, "time"))
        else:
            times.append(time)
        cells = [row[i].strip() for i in places]
        for i, cell in zip(places, cells, strict=True):
            if not _whole(cell):
                problems.append(_cell(table, line, cell, "0, or 1 or more", table.header[i].strip()))
        marks.append([float(cell) if _whole(cell) else 0.0 for cell in cells])
    return np.array(times), np.array(marks).reshape(len(marks), len(places))


def _whole(cell: str) -> bool:
    return cell.removesuffix(".0").isdecimal() and cell.isascii()


def _cell(table: BorisTable, line: int, cell: str, expected: str, key: str) -> Problem:
    found = repr(cell)[:60] if cell else "nothing"
    return Problem("bad_cell", found, expected, file=table.file, line=line, key=key)


def _twice(table: BorisTable, names: list[str]) -> list[Problem]:
    return [
        Problem("column_twice", f"column {name} twice", "each behaviour once", file=table.file, key=name)
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _remarks(table: BorisTable, marks: np.ndarray, step: float, notices: list[Notice], *, known: bool) -> None:
    text = f"a binary table says in which bins of {step:g} s a behaviour occurs, never how often: no rates come from it"
    notices.append(Notice("presence_only", text, len(marks), table.file))
    if many := int((marks > 1).sum()):
        text = "cells above 1, several events in a bin: read as presence"
        notices.append(Notice("several_in_a_bin", text, many, table.file))
    if not known:
        text = "the length of the video is not told, and known to one bin only"
        notices.append(Notice("no_length", text, 1, table.file))
