"""Single fields of an items file as people spell them: answerable or not, reasons, dates, names, column headings."""

from __future__ import annotations

import datetime
import re

from birdlab.schemas.constants import REASONS

_REASONS = {
    "vocalisation": "vocalization",
    "song": "vocalization",
    "call": "vocalization",
    "occlusion": "angle",
    "angle/occlusion": "angle",
    "occlusion/angle": "angle",
    "poor quality": "quality",
    "image quality": "quality",
} | {reason: reason for reason in REASONS}
_NOTHING = frozenset({"none", "na", "n/a", "-", "null"})
_TRUE = frozenset({"1", "true", "yes", "t", "y", "answerable"})
_FALSE = frozenset({"0", "false", "no", "f", "n", "unanswerable"})


def heading(name: str) -> str:
    """A column name as it is looked up: lower case, blanks and hyphens as ``_``.

    >>> heading(" Is Answerable ")
    'is_answerable'
    """
    return re.sub(r"[\s\-]+", "_", name.strip().casefold())


def truth_value(text: str) -> bool | None:
    """Yes or no as a boolean; ``None`` where it is neither.

    >>> truth_value("Yes"), truth_value("0"), truth_value("perhaps")
    (True, False, None)
    """
    word = text.casefold()
    return True if word in _TRUE else False if word in _FALSE else None


def split_list(text: str | None) -> list[str]:
    """The parts of a list joined by ``|`` or ``;``, without blanks and empty parts.

    >>> split_list("angle| quality;")
    ['angle', 'quality']
    """
    return [part for part in (p.strip() for p in re.split(r"[|;]", text or "")) if part]


def reasons_of(text: str | None) -> tuple[list[str], list[str]]:
    """Reasons in a field, in the order of :data:`REASONS`, and the words that are none of them.

    >>> reasons_of("Poor quality|song"), reasons_of("weather"), reasons_of("none")
    ((['vocalization', 'quality'], []), ([], ['weather']), ([], []))
    """
    words = [w for w in split_list(text) if w.casefold() not in _NOTHING]
    known = [_REASONS.get(re.sub(r"[\s_]+", " ", word.casefold())) for word in words]
    unknown = [word for word, reason in zip(words, known, strict=True) if reason is None]
    return [reason for reason in REASONS if reason in known], unknown


def date_of(text: str) -> datetime.date | None:
    """The day of an ISO date or date and time; ``None`` where it is none.

    >>> date_of("2024-05-31 06:10"), date_of("31.5.2024"), date_of("2024-02-30")
    (datetime.date(2024, 5, 31), None, None)
    """
    match = re.fullmatch(r"(\d{4}-\d{2}-\d{2})(?:[T ].*)?", text)
    if match is None:
        return None
    try:
        return datetime.date.fromisoformat(match.group(1))
    except ValueError:
        return None


def tidy_name(text: str) -> str:
    """A scientific name with single blanks, a capital genus, and without a common name in brackets behind it.

    >>> tidy_name("turdus_merula (Common Blackbird)")
    'Turdus merula'
    """
    name = re.sub(r"\s*\([^()]*\)\s*$", "", re.sub(r"[\s_]+", " ", text)).strip() or text.strip()
    return name[:1].upper() + name[1:]


def shown_list(names: list[str], n: int = 3) -> str:
    """The first ``n`` names, and how many more there are.

    >>> shown_list(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return ", ".join(name[:80] for name in names[:n]) + more
