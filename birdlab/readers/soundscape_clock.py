"""When a recording began: dates, times and zones as tables, metadata and file names write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from birdlab.errors import Problem

_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)(\d\d)(\d\d)[_T\-]?([0-2]\d)([0-5]\d)([0-5]\d)(Z?)(?![\d])", re.IGNORECASE)
_OFFSET = re.compile(r"^(?:UTC|GMT)?\s*([+\-\N{MINUS SIGN}])\s*(\d{1,2})(?::?(\d\d))?$", re.IGNORECASE)
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M")


@dataclass(frozen=True)
class Start:
    """Start in UTC and on local clocks, both without a zone; ``how`` it was found: ``given``, or a code of a notice."""

    utc: datetime | None
    local: datetime | None
    how: str = "given"


def zone_of(text: str) -> tzinfo | None:
    """A time zone: ``UTC-5``, ``+05:30``, ``Z`` or a name of the zone database; None for what is none.

    >>> zone_of("UTC-5"), zone_of("+05:30"), zone_of("nowhere")
    (datetime.timezone(datetime.timedelta(days=-1, seconds=68400)), datetime.timezone(datetime.timedelta(seconds=19800)), None)
    """
    text = text.strip()
    if text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    found = _OFFSET.match(text) or re.match(r"^()(\d)()$", text)
    if found:
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        if minutes > 14 * 60:
            return None
        return timezone(timedelta(minutes=-minutes if found[1] in ("-", "\N{MINUS SIGN}") else minutes))
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def moment(text: str) -> datetime | None:
    """A date and time, with its zone where it names one (``Z``, ``UTC``, ``+02:00``); None for what is none.

    >>> moment("2017-03-25 23:00 UTC")
    datetime.datetime(2017, 3, 25, 23, 0, tzinfo=datetime.timezone.utc)
    >>> moment("2016-02-14T12:40:00"), moment("2017-13-01 00:00")
    (datetime.datetime(2016, 2, 14, 12, 40), None)
    """
    text = " ".join(text.split())
    zoned = re.match(r"^(.*\d)\s*(Z|UTC|GMT)$", text, re.IGNORECASE)
    bare = zoned[1] if zoned else text
    try:
        found = datetime.fromisoformat(bare)
    except ValueError:
        found = next((d for d in (_try(bare, form) for form in _FORMS) if d), None)
    if found is None or not re.search(r"\d[T ]\d", bare):
        return None
    return found.replace(tzinfo=UTC) if zoned and found.tzinfo is None else found


def _try(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def start_of(held: Mapping[str, str | None], name: str) -> Start | Problem:
    """Start of a recording.

    Args:
        held: texts start_utc, start_local, date, time, timezone, where they are given.
        name: of its file, without folder and ending.
    """
    zone = None
    if held.get("timezone"):
        zone = zone_of(held["timezone"] or "")
        if zone is None:
            return _bad("timezone", held["timezone"], "a time zone: UTC-5, +05:30, America/New_York")
    given: dict[str, datetime | None] = {"start_utc": None, "start_local": None}
    for key in given:
        text = held.get(key)
        if text:
            given[key] = moment(text)
            if given[key] is None:
                return _bad(key, text, "a date and time, YYYY-MM-DD HH:MM[:SS]")
    utc, local = given["start_utc"], given["start_local"]
    how = "given"
    if utc is None and local is None and held.get("date"):
        local = moment(f"{held['date']} {held.get('time') or ''}") if held.get("time") else None
        if held.get("time") and local is None:
            return _bad("time", f"{held['date']} {held['time']}", "a date YYYY-MM-DD and a time HH:MM[:SS] [UTC]")
    if utc is None and local is None:
        utc, local, how = _from_name(name)
    if utc is not None and utc.tzinfo is None:
        utc = utc.replace(tzinfo=UTC)
    try:
        return _both(utc, local, zone, how)
    except OverflowError:
        # The first or the last hours of the calendar in a zone that lies outside.
        return _bad(
            "start_utc", str((utc or local).replace(tzinfo=None)), "a date within the years 1 to 9999 in UTC too"
        )


def _both(utc: datetime | None, local: datetime | None, zone: tzinfo | None, how: str) -> Start:
    """UTC and local time from either and the zone."""
    if local is not None and local.tzinfo is not None:
        # A zone in the text: UTC itself is no local time.
        utc = utc or local
        local = local.replace(tzinfo=None) if local.utcoffset() or zone is UTC else None
    elif local is not None and utc is None and zone is not None:
        utc = local.replace(tzinfo=zone)
    if utc is not None and local is None and zone is not None:
        local = utc.astimezone(zone).replace(tzinfo=None)
    if utc is not None and local is None and utc.utcoffset():
        local = utc.replace(tzinfo=None)
    if how == "given" and (utc is None) != (local is None):
        how = "no_zone" if utc is None else "no_local"
    return Start(utc.astimezone(UTC).replace(tzinfo=None) if utc else None, local, how)


def _from_name(name: str) -> tuple[datetime | None, datetime | None, str]:
    """UTC or local start that a file name carries: ``…_20170325_230016Z`` is UTC."""
    for found in _NAME.finditer(name):
        try:
            when = datetime(*(int(part) for part in found.groups()[:6]))  # type: ignore[arg-type]
        except ValueError:
            continue
        return (when, None, "start_from_name") if found[7] else (None, when, "start_from_name_local")
    return None, None, "no_start"


def _bad(key: str, found: str | None, expected: str) -> Problem:
    return Problem("bad_time", repr(found)[:60], expected, key=key)
