"""Behaviours and names of tracks: dictionaries saved as JSON, as pickles of plain values, or as CSV."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.jsonfile import each_key_once
from birdlab.readers.chirp_names import PICKLES, Named, bird_expr, track_expr, track_of
from birdlab.readers.columns import read_columns
from birdlab.readers.safe_pickle import load_plain

WINDOWS_SHAPE, NAMES_SHAPE = "{track: [[start, end, label], …]}", "{track: bird}"
_WINDOW_COLUMNS = {"track_id": pl.String, "start": pl.Int64, "end": pl.Int64, "label": pl.String}
_NAME_COLUMNS = {"track_id": pl.String, "label": pl.String}
_MOST_BYTES, _MOST_ROWS, _LONGEST = 128 * 2**20, 2_000_000, 200


def read_windows(named: Named) -> pl.DataFrame:
    """Table ``colony_windows`` of one file, with ``key_is_text``: whether the track is text there, and no number.

    Raises:
        DataError: a value that is no window; two windows of one track with the same frames; a pickle beside that
            says something else.
    """
    if named.beside:
        return _reconciled(named, read_windows)
    if named.path.suffix.lower() == ".csv":
        frame = _from_csv(named.path, _WINDOW_COLUMNS)
    else:
        frame = _frame(_WINDOW_COLUMNS, window_rows(named.path))
    _once(frame, ["track_id", "start", "end"], named.path)
    about = {"model": named.method, "tracker": named.tracker, "video_id": named.video}
    frame = frame.with_columns(*(pl.lit(v).alias(k) for k, v in about.items()))
    return schemas.TABLES["colony_windows"].conform(frame)


def read_identities(named: Named) -> pl.DataFrame:
    """Table ``colony_identities`` of one file, with ``key_is_text``.

    Raises:
        DataError: a value that is no name; a track named twice; a pickle beside that says something else.
    """
    if named.beside:
        return _reconciled(named, read_identities)
    if named.path.suffix.lower() == ".csv":
        frame = _from_csv(named.path, {"track_id": pl.String, "individual_id": pl.String})
        frame = frame.rename({"individual_id": "label"})
    else:
        frame = _frame(_NAME_COLUMNS, name_rows(named.path))
    _once(frame, ["track_id"], named.path)
    about = {"identity": named.method, "tracker": named.tracker, "video_id": named.video}
    frame = frame.with_columns(bird_expr("label").alias("individual_id"))
    frame = frame.with_columns(*(pl.lit(v).alias(k) for k, v in about.items()))
    return schemas.TABLES["colony_identities"].conform(frame)


def window_rows(path: Path) -> list[tuple[str, int, int, str, bool]]:
    """Track, start, end, label of every window of a dictionary, and whether the track is text.

    Raises:
        DataError: the file is no dictionary of windows.
    """
    rows = []
    for track, windows in dictionary(path, WINDOWS_SHAPE).items():
        name = track_name(track, path)
        for start, end, label in _windows_of(windows, path, name):
            rows.append((name, start, end, label, isinstance(track, str)))
            if len(rows) > _MOST_ROWS:
                raise DataError(Problem("too_many", f"more than {_MOST_ROWS:,} windows", WINDOWS_SHAPE, file=str(path)))
    return rows


def name_rows(path: Path) -> list[tuple[str, str, bool]]:
    """Track and bird of a dictionary, and whether the track is text.

    Raises:
        DataError: the file is no dictionary of names.
    """
    rows = []
    for track, bird in dictionary(path, NAMES_SHAPE).items():
        name = track_name(track, path)
        if not _is_label(bird):
            raise DataError(
                Problem("bad_name", reprlib.repr(bird)[:60], "a bird", file=str(path), record=f"track {name}")
            )
        rows.append((name, bird, isinstance(track, str)))
    return rows


def _reconciled(named: Named, read: Callable[[Named], pl.DataFrame]) -> pl.DataFrame:
    """What a JSON or CSV and the pickle beside it say; where the pickle is no plain one, the other alone."""
    ours = read(replace(named, beside=None))
    try:
        theirs = read(replace(named, path=named.beside, beside=None))
    except DataError:
        return ours
    same = [frame.drop("key_is_text").sort(pl.all()) for frame in (ours, theirs)]
    if not same[0].equals(same[1]):
        found, remedy = f"something else than in {named.beside.name}", "keep the one that is right"
        raise DataError(Problem("differ", found, "the same in both", remedy, file=str(named.path)))
    # The pickle knows which tracks are numbers: JSON has text only.
    return theirs


def dictionary(path: Path, shape: str) -> dict[Any, Any]:
    """The dictionary in a JSON file or a pickle of plain values, as it stands.

    Raises:
        DataError: the file holds something else.
    """
    raw = load_plain(path) if path.suffix.lower() in PICKLES else _json(path)
    if not isinstance(raw, dict):
        raise DataError(Problem("bad_shape", type(raw).__name__, shape, file=str(path)))
    return raw


def _json(path: Path) -> Any:
    """A JSON file of moderate size; a key that stands twice is a problem, never the last of them."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            found, expected = f"{path.stat().st_size / 2**20:.0f} MiB", f"at most {_MOST_BYTES // 2**20} MiB"
            raise DataError(Problem("too_large", found, expected, file=str(path)))
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=each_key_once(str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(Problem("unreadable", str(error)[:120], "a JSON file in UTF-8", file=str(path))) from error
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DataError(Problem("not_json", str(error)[:120], "JSON", file=str(path), line=line)) from error


def _windows_of(windows: Any, path: Path, track: str) -> Iterable[tuple[int, int, str]]:
    """(start, end, label) of one track: a list of three, or a dictionary with (start, end) as keys."""
    where = {"file": str(path), "record": f"track {track}"}
    if isinstance(windows, dict):
        listed = [(*key, label) if isinstance(key, (tuple, list)) else (key, label) for key, label in windows.items()]
    elif isinstance(windows, list):
        listed = windows
    else:
        raise DataError(Problem("bad_shape", type(windows).__name__, WINDOWS_SHAPE, **where))
    for entry in listed:
        whole = isinstance(entry, (list, tuple)) and len(entry) == 3
        if not whole or not all(_is_frame(v) for v in entry[:2]) or not _is_label(entry[2]):
            raise DataError(Problem("bad_window", reprlib.repr(entry)[:60], "start, end (frames) and a label", **where))
        yield int(entry[0]), int(entry[1]), entry[2]


def _is_frame(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -(2**31) < value < 2**31 and value == int(value)


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and not any(0xD800 <= ord(c) <= 0xDFFF for c in value)


def track_name(track: Any, path: Path) -> str:
    """A key of such a dictionary as text.

    Raises:
        DataError: it is neither a number nor text of moderate length.
    """
    name = track
    if isinstance(track, (int, float)) and not isinstance(track, bool) and abs(track) < 2**63:
        name = track_of(track)
    if not _is_label(name):
        found = ascii(reprlib.repr(track))[1:61]
        raise DataError(Problem("bad_track", found, f"a number, or text of up to {_LONGEST} letters", file=str(path)))
    return track_of(name)


def _from_csv(path: Path, types: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    frame = read_columns(path, types).select(list(types))
    # A column of nothing but numbers is read as numbers, as pandas does.
    text = frame.height > 0 and frame["track_id"].cast(pl.Float64, strict=False).null_count() > 0
    return frame.with_columns(track_expr("track_id"), pl.lit(text).alias("key_is_text"))


def _frame(types: dict[str, type[pl.DataType]], rows: list[tuple]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={**types, "key_is_text": pl.Boolean}, orient="row")


def _once(frame: pl.DataFrame, key: list[str], path: Path) -> None:
    twice = frame.filter(pl.struct(key).is_duplicated()) if frame.height else frame
    if twice.height:
        row = twice.row(0, named=True)
        found = f"frames {row['start']} to {row['end']} twice" if "start" in key else "two names"
        record = f"track {row['track_id']}"
        raise DataError(Problem("twice", found, "each once", file=str(path), record=record))
