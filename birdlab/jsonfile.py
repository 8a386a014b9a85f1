"""JSON files as people have them: empty, cut off, in another encoding. What is wrong is said in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem


def read_json(path: Path, *, source: str = "") -> Any:
    """The content of a JSON file in UTF-8 (a byte order mark is passed over).

    Args:
        path: the file.
        source: how messages name it; its path by default.

    Raises:
        DataError: the file cannot be opened, is empty, is not UTF-8 or is not JSON; the place is named.
    """
    where = source or str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(
            Problem("unreadable", error.strerror or "an error", "a file that can be read", file=where)
        ) from error
    if not raw.strip():
        found = "an empty file" if not raw else "nothing but blanks"
        raise DataError(Problem("empty_file", found, "JSON", "restore it from its source, or remove it", file=where))
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        found = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise DataError(
            Problem("not_utf8", found, "text in UTF-8", "save the file as UTF-8", file=where, line=line)
        ) from error
    except json.JSONDecodeError as error:
        raise DataError(_broken(error, where)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(Problem("not_json", str(error)[:100], "JSON", file=where)) from error


def each_key_once(where: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Hook of :func:`json.loads` (``object_pairs_hook``) that refuses an object with one key twice, of which Python
    would keep the last.

    Args:
        where: how messages name the file.

    >>> json.loads('{"a": 1, "b": 2}', object_pairs_hook=each_key_once("x.json"))
    {'a': 1, 'b': 2}
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            keys = [key for key, _ in pairs]
            found = f"{ascii(next(key for key in keys if keys.count(key) > 1))[:60]} twice"
            raise DataError(Problem("key_twice", found, "each key once", file=where))
        return out

    return once


def _broken(error: json.JSONDecodeError, where: str) -> Problem:
    # A file that stops before its last bracket was cut off; anything else is a slip at one place.
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return Problem(
            "truncated_json",
            f"a file that ends in the middle ({len(error.doc)} characters)",
            "whole JSON",
            "copy or export it again",
            file=where,
            line=error.lineno,
        )
    found = f"{error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
    return Problem("not_json", found, "JSON", file=where, line=error.lineno)
