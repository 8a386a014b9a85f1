"""Confidence that an answer states, as a share: 0.62, "62%", "8/10"; words are flagged, not guessed."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(
    r"^\D{0,20}?(\d{1,3}(?:[.,]\d{1,6})?|[.]\d{1,6})\s*(%|percent|prozent|pour cent|/\s*100?\b)?", re.I
)
_STATED = re.compile(
    r"confidence(?:[ _](?:level|score))?[\"'*_`]{0,3}\s{0,3}(?:is|of|at|[:=(])?\s{0,3}[\"'*_`~≈]{0,4}\s{0,2}"
    r"(-?\d{1,3}(?:[.,]\d{1,6})?\s{0,2}(?:%|/\s?100?\b)?|(?:very |moderately )?(?:high|low|medium|moderate)\b)",
    re.I,
)
_SURE = re.compile(r"(\d{1,3}(?:[.,]\d{1,6})?)\s{0,2}%\s{0,2}(?:confiden|sure|certain|likel|probab|sicher|sure)", re.I)


def read_confidence(value: object) -> tuple[float | None, tuple[str, ...]]:
    """Confidence in [0, 1] and flags of one value as a model writes it.

    A bare number above 10 and up to 100 counts as per cent (flag ``confidence_percent``); above 1 and up to 10 its scale
    is unknown (null, ``confidence_scale``). Words (``high``): null, ``confidence_words``. Others: ``confidence_bad``.

    >>> read_confidence("62%"), read_confidence(0.62), read_confidence("high"), read_confidence("8/10")
    ((0.62, ()), (0.62, ()), (None, ('confidence_words',)), (0.8, ()))
    """
    if value is None or value == "":
        return None, ()
    if isinstance(value, bool):
        return None, ("confidence_bad",)
    if isinstance(value, int | float):
        return _scaled(value, "") if abs(value) < 1e6 or value != value else (None, ("confidence_bad",))
    if not isinstance(value, str):
        return None, ("confidence_bad",)
    match = _NUMBER.match(value[:60])
    if match is None:
        return None, ("confidence_words",) if re.search(r"[a-z]", value[:60], re.I) else ("confidence_bad",)
    if value.strip().startswith(("-", "−")):
        return None, ("confidence_bad",)
    return _scaled(float(match.group(1).replace(",", ".")), (match.group(2) or "").replace(" ", "").lower())


def _scaled(number: float, unit: str) -> tuple[float | None, tuple[str, ...]]:
    if not math.isfinite(number) or number < 0:
        return None, ("confidence_bad",)
    top = {"": 1.0, "/10": 10.0}.get(unit, 100.0)
    if unit == "" and number > 1:
        if number <= 10:
            return None, ("confidence_scale",)
        return (number / 100, ("confidence_percent",)) if number <= 100 else (None, ("confidence_bad",))
    share = number / top
    return (share, ()) if share <= 1 else (None, ("confidence_bad",))


def stated_confidence(text: str) -> tuple[float | None, tuple[str, ...]]:
    """The last confidence stated in running text; null where there is none.

    >>> stated_confidence("Common Raven (confidence: 0.8)"), stated_confidence("I'm 90% sure it's a Merlin")
    ((0.8, ()), (0.9, ()))
    """
    last = None
    for pattern, unit in ((_STATED, ""), (_SURE, "%")):
        for match in pattern.finditer(text):
            if last is None or match.start() > last[0]:
                last = (match.start(), match.group(1) + unit)
    return read_confidence(last[1]) if last else (None, ())
