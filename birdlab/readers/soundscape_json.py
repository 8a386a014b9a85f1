"""Metadata of BirdCLEF recordings in JSON: one object per recording, in validation files with ``ClassIds``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem
from birdlab.readers.soundscape_tables import key_of

#: Keys (lower case, without marks) of a time code ``hh:mm:ss-hh:mm:ss``, a pair of times, or a list of them.
SPANS = (
    *("tc1tc2", "tc", "tcs", "timecode", "timecodes", "time", "times", "timeinterval", "timeintervals"),
    *("interval", "intervals", "segment", "segments"),
)
#: Keys of a start and an end: time codes or seconds.
PAIRS = (
    *(("tc1", "tc2"), ("start", "end"), ("begin", "end"), ("starttime", "endtime"), ("begintime", "endtime")),
    *(("onset", "offset"), ("starts", "ends"), ("starttimes", "endtimes"), ("begintimes", "endtimes")),
)
_LARGEST = 64 << 20


def read_objects(path: Path, shown: str) -> list[dict[str, Any]]:
    """The objects of a JSON file: one, or a list of them.

    Raises:
        DataError: no such file, no JSON, something else than objects.
    """
    try:
        if path.stat().st_size > _LARGEST:
            found = f"{path.stat().st_size >> 20} MiB"
            raise DataError(Problem("too_large", found, "metadata of recordings, at most 64 MiB", file=shown))
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(Problem("unreadable", error.strerror or str(error), "a JSON file", file=shown)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(Problem("not_json", str(error)[:100], "one JSON object", file=shown)) from error
    objects = value if isinstance(value, list) else [value]
    for i, one in enumerate(objects):
        if not isinstance(one, dict):
            found = type(one).__name__
            raise DataError(Problem("not_an_object", found, "one object per recording", "", shown, None, f"[{i}]"))
    return objects


def media_of(meta: dict[str, Any], shown: str) -> str:
    """Recording that an object is about: its MediaId, else its FileName.

    Raises:
        DataError: neither.
    """
    found = plain(meta).get("mediaid") or plain(meta).get("filename")
    if found is None or isinstance(found, (dict, list, bool)) or not str(found).strip():
        has = "the keys " + ", ".join(map(str, meta))[:200]
        raise DataError(Problem("missing_key", has, "MediaId (or FileName)", file=shown, key="MediaId"))
    return str(found).strip()


def plain(meta: dict[str, Any]) -> dict[str, Any]:
    """An object by keys in lower case without marks."""
    return {key_of(str(key)): value for key, value in meta.items()}


def spans_of(meta: dict[str, Any], shown: str) -> list[tuple[str, str, str]] | None:
    """(class, start, end) of each annotation of a recording, times as the file writes them; None without ``ClassIds``.

    Raises:
        DataError: ``ClassIds`` is no list of objects with ``ClassId`` and times; the message names the keys that are there.
    """
    held = plain(meta)
    if "classids" not in held:
        return None
    rows = held["classids"]
    if not isinstance(rows, list):
        raise DataError(_bad(shown, "ClassIds", type(rows).__name__, "a list of objects"))
    out: list[tuple[str, str, str]] = []
    for i, row in enumerate(rows):
        place = f"ClassIds[{i}]"
        if not isinstance(row, dict):
            raise DataError(_bad(shown, place, repr(row)[:60], "an object with ClassId and time codes"))
        one = plain(row)
        name = one.get("classid", one.get("species"))
        has = "the keys " + (", ".join(map(str, row)) or "none")
        if not isinstance(name, str):
            raise DataError(_bad(shown, place, has[:200], "a key ClassId"))
        times = list(_times(one))
        if not times:
            expected = "time codes hh:mm:ss-hh:mm:ss under TC1-TC2, TimeCodes, … or a start and an end"
            raise DataError(_bad(shown, place, has[:200], expected))
        out += [(name, start, end) for start, end in times]
    return out


def _times(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for start, end in PAIRS:
        if start in one and end in one:
            yield str(one[start]), str(one[end])
            return
    for key in SPANS:
        if key in one:
            yield from _spans(one[key])
            return


def _spans(value: Any) -> Iterator[tuple[str, str]]:
    """Times of one value: a text, a pair of numbers, an object, or a list of such."""
    if isinstance(value, str):
        for part in filter(None, (p.strip() for p in value.replace(";", ",").split(","))):
            start, _, end = part.partition("-")
            yield start.strip(), end.strip()
    elif isinstance(value, dict):
        yield from _times(plain(value))
    elif isinstance(value, list):
        if len(value) == 2 and all(isinstance(v, (int, float)) for v in value):
            yield str(value[0]), str(value[1])
        elif len(value) == 2 and all(isinstance(v, str) and "-" not in v for v in value):
            yield value[0], value[1]
        else:
            for each in value:
                yield from _spans(each)


def _bad(shown: str, place: str, found: str, expected: str) -> Problem:
    return Problem("bad_class_ids", found, expected, file=shown, record=place, key="ClassIds")
