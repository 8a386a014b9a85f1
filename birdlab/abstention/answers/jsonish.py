"""JSON inside an answer, as models write it: fenced, single quotes, trailing commas, half finished. Never evaluated."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

#: Larger or deeper objects are not read: no answer needs them.
MAX_CHARS, MAX_DEPTH, MAX_TRIES = 20_000, 24, 6
_FENCE = re.compile(r"```[a-zA-Z0-9]{0,10}\s{0,20}\n?([^`]{1,20000})```")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.){0,4000}"' + r"|'(?:[^'\\\n]|\\.){0,4000}'")
_WORDS = {"null": "None", "true": "True", "false": "False", "NaN": "None", "nan": "None", "undefined": "None"}
_QUOTES = {ord("“"): '"', ord("”"): '"', ord("„"): '"', ord("\u00a0"): " "}


def find_json(text: str) -> tuple[Any, bool] | None:
    """The last JSON object or list of an answer, and whether it had to be mended; null where there is none.

    >>> find_json("Sure: {'species': 'Corvus corax',}"), find_json('{"a": 1}'), find_json("none {here")
    (({'species': 'Corvus corax'}, True), ({'a': 1}, False), None)
    """
    if "{" not in text and "[" not in text:
        return None
    for candidate in _candidates(text):
        if len(candidate) > MAX_CHARS or _depth(candidate) > MAX_DEPTH:
            continue
        loaded = _load(candidate)
        if loaded is not None and isinstance(loaded[0], dict | list):
            return loaded
    return None


def _candidates(text: str) -> Iterator[str]:
    stripped = text.strip()
    if stripped[:1] in "{[" and len(stripped) <= MAX_CHARS:
        yield stripped
    yield from reversed([m.group(1).strip() for m in _FENCE.finditer(text)][-MAX_TRIES:])
    yield from reversed(_balanced(text)[-MAX_TRIES:])


def _balanced(text: str) -> list[str]:
    """Outermost bracketed pieces. Quotes do not hide brackets here: a piece that is none fails to load."""
    found: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(r"[{}]", text):
        if match.group() == "{":
            if depth == 0:
                start = match.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                found.append(text[start : match.end()])
    return found


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in re.findall(r"[\[\]{}()]", text):
        depth += 1 if char in "[{(" else -1
        deepest = max(deepest, depth)
    return deepest


def _load(text: str) -> tuple[Any, bool] | None:
    try:
        return json.loads(text, strict=False), False
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(_mended(text)), True
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _mended(text: str) -> str:
    """Words of JSON as those of Python and keys in quotes, outside strings; trailing commas are fine as they are."""
    parts, at = [], 0
    text = text.translate(_QUOTES)
    for match in _STRING.finditer(text):
        parts += [_bare(text[at : match.start()]), match.group()]
        at = match.end()
    parts.append(_bare(text[at:]))
    return "".join(parts)


def _bare(piece: str) -> str:
    piece = re.sub(r"//[^\n]{0,500}", "", piece)
    piece = re.sub(r"\b([A-Za-z_]{1,40})(\s{0,5}:)", r'"\1"\2', piece)
    return re.sub(r"\b(?:null|true|false|NaN|nan|undefined)\b(?!\")", lambda m: _WORDS[m.group()], piece)
