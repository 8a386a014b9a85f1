"""What was recorded where and when: a table of recordings, a folder of BirdCLEF metadata, or the sound files alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most, natural_key, walk
from birdlab.readers.sound_length import sound_seconds
from birdlab.readers.soundscape_clock import Start, start_of
from birdlab.readers.soundscape_json import media_of, plain, read_objects
from birdlab.readers.soundscape_tables import Sheet, read_sheet, seconds, some, stem
from birdlab.schemas.soundscapes import TABLES
from birdlab.soundscapes.truth import LATEST_S

RECORDINGS = next(t for t in TABLES if t.name == "soundscape_recordings")
#: Column → headings (lower case, without blanks and marks) and metadata keys under which it is known.
KEYS: dict[str, tuple[str, ...]] = {
    "media_id": ("mediaid", "recordingid", "recording"),
    "file": ("filename", "file", "fid", "filepath", "soundfile", "audiofile"),
    "duration_s": ("durations", "duration", "durationsec", "lengths", "length"),
    "recorder": ("recorder", "recordingunit", "recorderid", "unit", "device", "recordingunitid"),
    "site": ("site", "siteid", "recordingsite", "locationid", "plot"),
    "country": ("country",),
    "start_utc": ("startutc", "utc", "datetimeutc"),
    "start_local": ("startlocal", "start", "starttime", "datetime", "datetimelocal", "local"),
    "date": ("date", "recordingdate"),
    "time": ("time", "recordingtime"),
    "timezone": ("timezone", "tz", "utcoffset"),
    "latitude": ("latitude", "lat", "decimallatitude"),
    "longitude": ("longitude", "lon", "lng", "long", "decimallongitude"),
}
SOUNDS = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff"})


class _Rows:
    """Recordings while they are gathered."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.lists: dict[str, list[str]] = {}

    def note(self, code: str, media: str) -> None:
        self.lists.setdefault(code, []).append(media)

    def add(self, held: Mapping[str, str | None], folder: Path, shown: str, line: int | None) -> None:
        """One recording from its texts."""
        file = held.get("file")
        media = held.get("media_id") or (stem(file) if file else None)
        if media is None:
            self.problems.append(Problem("no_media", "nothing", "a media_id or a file", file=shown, line=line))
            return
        place = f"line {line}" if line else shown
        if media in self.places:
            found = f"{media!r}, also in {self.places[media]}"
            self.problems.append(Problem("media_twice", found, "every recording once", "", shown, line, key="media_id"))
            return
        self.places[media] = place
        if not held.get("media_id"):
            self.note("media_from_file_name", media)
        start = self._start(held, media, shown, line)
        name = stem(file or media)
        self.rows.append(
            {
                "media_id": media,
                "file": file,
                "duration_s": self._duration(held, media, folder, shown, line),
                "recorder": held.get("recorder") or _recorder(name),
                "site": held.get("site"),
                "country": held.get("country"),
                "start_utc": start.utc,
                "start_local": start.local,
                "latitude": self._number(held, "latitude", shown, line, 90),
                "longitude": self._number(held, "longitude", shown, line, 180),
            }
        )

    def _start(self, held: Mapping[str, str | None], media: str, shown: str, line: int | None) -> Start:
        start = start_of(held, stem(held.get("file") or media))
        if isinstance(start, Problem):
            self.problems.append(
                Problem(start.code, start.found, start.expected, start.remedy, shown, line, None, start.key)
            )
            return Start(None, None)
        if start.how != "given":
            self.note(start.how, media)
        return start

    def _number(
        self, held: Mapping[str, str | None], key: str, shown: str, line: int | None, largest: float
    ) -> float | None:
        text = held.get(key)
        if text is None:
            return None
        value = seconds(pl.Series([text])).item() if ":" not in text else None
        if value is None or abs(value) > largest:
            expected = f"degrees from -{largest} to {largest}"
            self.problems.append(Problem("bad_value", repr(text)[:60], expected, "", shown, line, key=key))
            return None
        return value

    def _duration(
        self, held: Mapping[str, str | None], media: str, folder: Path, shown: str, line: int | None
    ) -> float | None:
        text = held.get("duration_s")
        if text is not None:
            value = seconds(pl.Series([text])).item()
            if value is None or not 0 < value <= LATEST_S:
                expected = f"a length above 0, s or hh:mm:ss, at most {LATEST_S:.0f} s"
                self.problems.append(
                    Problem("bad_duration", repr(text)[:60], expected, "", shown, line, key="duration_s")
                )
            return value
        file = held.get("file")
        beside = next((p for p in (folder / file, folder / Path(file).name) if p.is_file()), None) if file else None
        value = sound_seconds(beside) if beside else None
        if value is None:
            self.note("unreadable_sound" if beside else "no_duration", media)
        return value


_WORDS = {
    "media_from_file_name": "recordings named after their file, without folder and ending",
    "start_from_name": "starts read from the name of the file, which ends in Z: UTC",
    "start_from_name_local": "starts read from the name of the file; without Z they are taken as local time",
    "no_zone": "starts without a time zone: taken as local time, UTC is not known",
    "no_local": "starts in UTC without a time zone: local time is not known",
    "no_start": "recordings without a start",
    "no_duration": "recordings without a length: they reach to their last annotation or prediction",
    "unreadable_sound": "sound files whose length could not be read",
}


def read_recordings(path: Path) -> tuple[pl.DataFrame, list[Notice]]:
    """The table ``soundscape_recordings`` from a table, a folder of metadata, or a folder of sound files.

    A table has media_id (else a file, whose name without folder and ending is the id), and any of duration_s, file, recorder,
    site, country, start_utc, start_local, date, time, timezone, latitude, longitude. Metadata in JSON are BirdCLEF's: Date and
    Time, UTC where Time says so, else local; Timezone (``UTC-5`` or a name such as America/New_York) gives the other of the
    two. A start that nobody gives is read from a file name ``…_YYYYMMDD_HHMMSS``: UTC with a Z behind it, else local. A length
    that nobody gives is read from a wav or flac file that lies beside. What is not known is null.

    Args:
        path: a CSV, TSV or parquet file, a JSON file, or a folder.

    Raises:
        DataError: no such file, no column of recordings, a recording twice, a length that is none, a time that is none; all
            of them with lines.
    """
    rows = _Rows()
    notices: list[Notice] = []
    if path.is_dir():
        notices += _folder(path, rows)
    elif path.suffix.lower() == ".json":
        _metadata(path, str(path), rows)
    else:
        notices += _sheet(path, rows)
    if rows.problems:
        raise DataError(at_most(rows.problems))
    if not rows.rows:
        raise DataError(Problem("no_recordings", "no recording", "at least one", file=str(path)))
    for code, told in _WORDS.items():
        names = rows.lists.get(code, [])
        if names:
            notices.append(Notice(code, f"{told} ({some(names)})", len(names)))
    frame = pl.DataFrame(rows.rows, schema=RECORDINGS.dtypes)
    return RECORDINGS.validate(frame, source=str(path)), notices


def _sheet(path: Path, rows: _Rows) -> list[Notice]:
    sheet = read_sheet(path, shown=str(path))
    columns = {name: sheet.named(*keys) for name, keys in KEYS.items()}
    if columns["media_id"] is None and columns["file"] is None:
        raise DataError(sheet.missing("media", "a column media_id (or file)"))
    held = {name: sheet.text(column) for name, column in columns.items() if column is not None}
    lines = sheet.frame["line"].to_list()
    for i, line in enumerate(lines):
        rows.add({name: column[i] for name, column in held.items()}, path.parent, str(path), line)
    return [*sheet.notices, *_not_used(sheet, columns)]


def _not_used(sheet: Sheet, columns: Mapping[str, str | None]) -> list[Notice]:
    known = set(columns.values())
    other = [head for i, head in enumerate(sheet.heads) if str(i) not in known and head]
    if not other:
        return []
    return [Notice("columns_not_used", f"columns that are not used ({some(other)})", len(other), sheet.file)]


def _folder(path: Path, rows: _Rows) -> list[Notice]:
    files = sorted((f for f in walk(path, "", []) if not Path(f).name.startswith(".")), key=natural_key)
    found = [f for f in files if f.lower().endswith(".json")]
    for file in found:
        try:
            _metadata(path / file, str(path / file), rows)
        except DataError as error:
            rows.problems += error.problems
    if found:
        return []
    sounds = [f for f in files if Path(f).suffix.lower() in SOUNDS]
    if not sounds:
        expected = "metadata in JSON, or sound files"
        raise DataError(Problem("no_recordings", f"{len(files)} files of other kinds", expected, file=str(path)))
    for file in sounds:
        rows.add({"file": file}, path, str(path / file), None)
    return [Notice("from_sound_files", "recordings are the sound files of a folder without metadata", len(sounds))]


def _metadata(path: Path, shown: str, rows: _Rows) -> None:
    for meta in read_objects(path, shown):
        one = plain(meta)
        media_of(meta, shown)
        texts: dict[str, str | None] = {}
        for name, keys in KEYS.items():
            value = next((one[key] for key in keys if one.get(key) not in (None, "")), None)
            simple = isinstance(value, (str, int, float)) and not isinstance(value, bool)
            texts[name] = str(value).strip() or None if simple else None
        rows.add(texts, path.parent, shown, None)


def _recorder(name: str) -> str | None:
    """Recorder that a file name of BirdCLEF's Ithaca recordings carries.

    >>> _recorder("S1067SSW04_048K_S02_SWIFT29_20170325_230016Z")
    'SWIFT29'
    """
    return next((part for part in name.split("_") if part.startswith("SWIFT") and part[5:].isdecimal()), None)
