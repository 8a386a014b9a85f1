"""Rows of tabular and aggregated events of BORIS as events with a start and an end."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.boris import EVENTS, MEDIA, video_name
from birdlab.readers.boris_table import NOTHING, BorisTable, plain, seconds
from birdlab.readers.files import Notice, at_most

_POINT = ("point", "point event")
_STATE = ("state", "state event")
_UNPAIRED = "close the state in BORIS and export again"


def listed_events(table: BorisTable, notices: list[Notice], *, stem: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events (columns of ``EVENTS``, without individual_id, and ``line``) and observations of a list of events.

    Raises:
        DataError: every cell that is not what it should be, every START without STOP and STOP without START.
    """
    problems: list[Problem] = []
    # What the block says holds only where the rows do not say it themselves.
    observation = (table.before.get("observation id") or [stem])[0]
    rows = []
    for line, row in table.rows:
        found = _row(table, line, row, problems)
        if found is not None:
            rows.append({**found, "observation": table.cell(row, "observation") or observation, "line": line})
    events = _paired(table, rows, problems) if table.layout == "tabular" else rows
    if problems:
        raise DataError(at_most(problems))
    media = _media(table, rows, notices, observation)
    videos = {row["observation"]: row for row in media.iter_rows(named=True)}
    for event in events:
        event |= {name: videos[event["observation"]][name] for name in ("observer", "video_id")}
    columns = {**{k: v for k, v in EVENTS.items() if k != "individual_id"}, "line": pl.Int64}
    return pl.DataFrame([{k: e[k] for k in columns} for e in events], schema=columns, orient="row"), media


def _row(table: BorisTable, line: int, row: list[str], problems: list[Problem]) -> dict[str, Any] | None:
    """What one row says: subject, behaviour, kind (start and stop of a state too) and its time or times."""
    kind = table.cell(row, "type").casefold()
    before = len(problems)

    def wrong(name: str, expected: str) -> None:
        cell = table.cell(row, name)
        found = repr(cell)[:60] if cell else "nothing"
        key = table.header[table.places[name]].strip()
        problems.append(Problem("bad_cell", found, expected, file=table.file, line=line, key=key))

    kinds = {**dict.fromkeys(_POINT, "point"), **dict.fromkeys(_STATE, "state")}
    if table.layout == "tabular":
        kinds = {**dict.fromkeys(_POINT, "point"), "start": "start", "stop": "stop"}
    if kind not in kinds:
        wrong("type", "POINT, START or STOP" if table.layout == "tabular" else "POINT or STATE")
    if not table.cell(row, "behaviour"):
        wrong("behaviour", "a behaviour")
    names = ("time",) if table.layout == "tabular" else ("start", "stop")
    times = [seconds(table.cell(row, name)) for name in names]
    if len(times) == 2 and times[1] is None and kinds.get(kind) == "point" and _nothing(table.cell(row, "stop")):
        times[1] = times[0]
    for name, time in zip(names, times, strict=True):
        if time is None or time < 0:
            wrong(name, "seconds, or hours:minutes:seconds, from 0")
    if len(problems) == before and times[-1] < times[0]:
        wrong("stop", f"an end not before its start, {times[0]}")
    if len(problems) > before:
        return None
    return {
        "subject": table.cell(row, "subject"),
        "behaviour": table.cell(row, "behaviour"),
        "modifiers": _modifiers(table, row),
        "kind": kinds[kind],
        "start_s": times[0],
        "end_s": times[-1],
        "media": table.cell(row, "media"),
        "cells": {name: table.cell(row, name) for name in ("observer", "length", "fps", "offset")},
    }


def _modifiers(table: BorisTable, row: list[str]) -> str:
    """Modifiers of an event: one column, or newer versions' ``Modifier #1``, ``Modifier #2``, …"""
    if "modifiers" in table.places:
        return table.cell(row, "modifiers")
    cells = [row[i].strip() for i, head in enumerate(table.header) if plain(head).startswith("modifier #")]
    return "|".join(cell for cell in cells if not _nothing(cell))


def _paired(table: BorisTable, rows: list[dict[str, Any]], problems: list[Problem]) -> list[dict[str, Any]]:
    """START and STOP of one subject, behaviour and modifiers as one state; in the order in which events start."""
    out: list[dict[str, Any]] = []
    running: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    # A stop and the next start at the same time: the file's order decides.
    for row in sorted(rows, key=lambda r: (r["observation"], r["start_s"])):
        key = tuple(row[name] for name in ("observation", "subject", "behaviour", "modifiers"))
        if row["kind"] == "point":
            out.append(row)
        elif row["kind"] == "start":
            event = {**row, "kind": "state", "end_s": None}
            running[key].append(event)
            out.append(event)
        elif running[key]:
            running[key].pop(0)["end_s"] = row["end_s"]
        else:
            problems.append(_unpaired(table, row, "STOP", "a START before it"))
    problems += [_unpaired(table, e, "START", "a STOP after it") for group in running.values() for e in group]
    return out


def _unpaired(table: BorisTable, row: dict[str, Any], what: str, expected: str) -> Problem:
    whose = row["subject"] or "no focal subject"
    found = f"{what} of {row['behaviour']} ({whose}) at {row['start_s']:g} s alone"
    return Problem("unpaired_state", found, expected, _UNPAIRED, file=table.file, line=row["line"])


def _media(table: BorisTable, rows: list[dict[str, Any]], notices: list[Notice], observation: str) -> pl.DataFrame:
    """One row per observation: its video, length, frame rate and who coded it."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["observation"]].append(row)
    if not groups:
        groups[observation] = []
    out = []
    block = {name: (table.before.get(name) or [""])[0] for name in ("observer", "coder", "rater")}
    several, offsets = [], []
    for name, group in groups.items():
        files = sorted({video_name(r["media"]) for r in group if not _nothing(r["media"])} | _players(table))
        several += [name] if len(files) > 1 else []
        said = {key: _said(group, key) for key in ("observer", "length", "fps", "offset")}
        offset = (
            seconds(said["offset"]) if said["offset"] else seconds((table.before.get("time offset (s)") or [""])[0])
        )
        offsets += [name] if offset else []
        out.append(
            {
                "observation": name,
                "observer": said["observer"] or next((v for v in block.values() if v), None),
                "video_id": files[0] if len(files) == 1 else name,
                "length_s": _above_0(said["length"]),
                "fps": _above_0(said["fps"]),
            }
        )
    if several:
        text = f"observations over several media files, each read as one video: {', '.join(several[:5])}"
        notices.append(Notice("several_files", text, len(several), table.file))
    if offsets:
        text = f"observations with a time offset; times are taken as they stand: {', '.join(offsets[:5])}"
        notices.append(Notice("time_offset", text, len(offsets), table.file))
    if unknown := [row["observation"] for row in out if row["length_s"] is None]:
        text = f"observations whose length is not told; ends cannot be checked: {', '.join(unknown[:5])}"
        notices.append(Notice("no_length", text, len(unknown), table.file))
    return pl.DataFrame(out, schema=MEDIA, orient="row")


def _players(table: BorisTable) -> set[str]:
    """Media files that the block before the header lists."""
    return {video_name(c) for k, cells in table.before.items() if k.startswith("player #") for c in cells}


def _said(group: list[dict[str, Any]], key: str) -> str:
    return next((r["cells"][key] for r in group if not _nothing(r["cells"][key])), "")


def _nothing(cell: str) -> bool:
    return cell.strip().casefold() in NOTHING


def _above_0(cell: str) -> float | None:
    number = seconds(cell)
    return number if number and number > 0 else None


def clip(events: pl.DataFrame, media: pl.DataFrame, notices: list[Notice], source: str) -> pl.DataFrame:
    """Events cut at the end of their media; those that begin after it are left out. Both are counted."""
    lengths = media.select("observation", "length_s")
    frame = events.join(lengths, on="observation", how="left", maintain_order="left")
    # Times are rounded to thousandths, and so is the length.
    beyond = (pl.col("start_s") > pl.col("length_s") + 5e-4).fill_null(False)
    late = (pl.col("end_s") > pl.col("length_s") + 5e-4).fill_null(False) & ~beyond & (pl.col("kind") != "bins")
    for code, which, what in (
        ("after_the_end", beyond, "events that begin after the end of the media: left out"),
        ("past_the_end", late, "events past the end of the media: cut there"),
    ):
        found = frame.filter(which)
        if found.height:
            lines = ", ".join(str(n) for n in found["line"].head(5).to_list())
            notices.append(Notice(code, f"{what} (line {lines})", found.height, source))
    kept = frame.filter(~beyond)
    return kept.with_columns(*(pl.min_horizontal(c, pl.col("length_s")).alias(c) for c in ("start_s", "end_s")))
