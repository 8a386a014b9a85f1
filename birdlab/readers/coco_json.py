"""JSON files as columns: read strictly, and with the place of everything that is wrong.

A :class:`Section` is one list of JSON objects (``annotations``, ``images``, a results file). It hands out columns
and notes what cannot be used; :class:`Findings` gathers that, one :class:`~birdlab.errors.Problem` per kind of fault
however often it occurs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem

#: Problems listed in one error; the rest are counted.
MAX_LISTED = 20
#: Bytes read at a time, and what lies between two objects of a list.
_BLOCK = 4 * 2**20
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_MISSING = object()
_INT64 = range(-(2**63), 2**63)


class Findings:
    """What is wrong with one file, gathered until everything has been looked at."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def add(self, code: str, found: str, expected: str, remedy: str = "", **place: Any) -> None:
        """Note one problem; ``place`` is ``record``, ``key`` or ``line``."""
        self.problems.append(Problem(code, found, expected, remedy, file=self.file, **place))

    def raise_any(self) -> None:
        """Raise what was gathered as one :class:`DataError`, at most :data:`MAX_LISTED` problems and a count."""
        if not self.problems:
            return
        listed = self.problems[:MAX_LISTED]
        more = len(self.problems) - len(listed)
        if more:
            listed.append(Problem("more", f"{more} more problems", "a file without them", file=self.file))
        raise DataError(listed)


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or one clear error if it is missing, unreadable or empty."""
    where = str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(Problem("no_file", "no such file", "a COCO JSON file", file=where)) from error
    except OSError as error:
        raise DataError(Problem("unreadable", error.strerror or str(error), "a readable file", file=where)) from error
    if not raw.strip():
        raise DataError(Problem("empty_file", "an empty file", "a COCO JSON file", file=where))
    return raw


def parse(raw: bytes, file: str) -> Any:
    """JSON from bytes in UTF-8 (with or without a byte order mark).

    Raises:
        DataError: not UTF-8, or not JSON, with the line and column where reading stopped.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise DataError(
            Problem("not_utf8", found, "text in UTF-8", "save the file as UTF-8", file=file, line=line)
        ) from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        remedy = "the file ends in the middle: write or copy it again" if cut else ""
        found = f"{error.msg} at column {error.colno} (offset {error.pos} of {len(text)})"
        raise DataError(Problem("not_json", found, "JSON", remedy, file=file, line=error.lineno)) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise DataError(Problem("not_json", str(error)[:100], "JSON", file=file)) from error


def object_rows(raw: bytes, schema: dict[str, Any]) -> pl.DataFrame | None:
    """Columns of a JSON list of flat objects, quickly; ``None`` where only a close look can tell what is there.

    The list is cut between its objects, some megabytes at a time, and read by polars with a fixed schema, which
    refuses text for numbers and numbers for text. A cut at a wrong place breaks the JSON, so it ends in ``None`` too.
    """
    start, stop = raw.find(b"[") + 1, raw.rfind(b"]")
    if stop < start or start == 0 or raw[: start - 1].strip() or raw[stop + 1 :].strip():
        return None
    parts = [pl.DataFrame(schema=schema)]
    try:
        while start < stop:
            between = _BETWEEN.search(raw, start + _BLOCK, stop) if stop - start > _BLOCK else None
            end, following = (stop, stop) if between is None else (between.start() + 1, between.end() - 1)
            block = raw[start:end]
            if b"\n" in block or block.count(b"}, {") + block.count(b"},{") == 0:
                block = _BETWEEN.sub(b"}\n{", block.translate(None, b"\r\n"))
            else:
                block = block.replace(b"}, {", b"}\n{").replace(b"},{", b"}\n{")
            if block.strip():
                parts.append(pl.read_ndjson(block, schema=schema))
            start = following
        return pl.concat(parts, rechunk=True)
    except (pl.exceptions.PolarsError, ValueError):
        return None


class Section:
    """One list of JSON objects and the faults found in it.

    Args:
        name: what the file calls the list (``annotations``); records are named ``annotations[3]``.
        records: the list's items.
        findings: where faults are noted.
    """

    def __init__(self, name: str, records: Sequence[Any], findings: Findings) -> None:
        self.name, self.findings = name, findings
        bad = [i for i, record in enumerate(records) if not isinstance(record, dict)]
        self.flag(bad, "wrong_type", None, lambda i: type(records[i]).__name__, "an object with keys", n=len(records))
        self.records: list[dict[str, Any]] = [r if isinstance(r, dict) else {} for r in records]
        self._skip = set(bad)

    def __len__(self) -> int:
        return len(self.records)

    def place(self, index: int) -> str:
        """Name of a record: its position, and its id if it has one."""
        own = self.records[index].get("id", _MISSING) if hasattr(self, "records") else _MISSING
        return f"{self.name}[{index}]" + ("" if own is _MISSING else f" (id {own!r:.40})")

    def flag(
        self,
        indices: Iterable[int],
        code: str,
        key: str | None,
        show: Callable[[int], str],
        expected: str,
        remedy: str = "",
        *,
        n: int | None = None,
    ) -> None:
        """Note that records ``indices`` are at fault; one problem for all of them, the first one shown."""
        at = [int(i) for i in indices]
        if not at:
            return
        total = len(self) if n is None else n
        found = show(at[0])
        if len(at) > 1:
            others = ", ".join(str(i) for i in at[1:6]) + (", …" if len(at) > 6 else "")
            found += f" (and {len(at) - 1} more of {total} {self.name}: {others})"
        self.findings.add(code, found, expected, remedy, record=self.place(at[0]), key=key)

    def values(self, key: str, *, required: bool = True, expected: str = "a value") -> list[Any]:
        """The values of one key, ``None`` where absent; absent ones are noted when the key is required."""
        values = [record.get(key) for record in self.records]
        if required:
            absent = [i for i, v in enumerate(values) if v is None and i not in self._skip]
            self.flag(absent, "missing_key", key, lambda i: "no such key", expected)
        return values

    def integers(self, key: str, *, required: bool = True, expected: str = "a whole number") -> pl.Series:
        """Int64 column of one key; text, fractions and truth values are noted and become null."""
        values = self.values(key, required=required, expected=expected)
        fixed = [_integer(v) for v in values]
        bad = [i for i, (v, f) in enumerate(zip(values, fixed, strict=True)) if v is not None and f is None]
        remedy = "write the number without quotes" if bad and isinstance(values[bad[0]], str) else ""
        self.flag(bad, "wrong_type", key, lambda i: _typed(values[i]), expected, remedy)
        return pl.Series(key, fixed, dtype=pl.Int64)

    def numbers(self, key: str, *, required: bool = True, expected: str = "a number") -> pl.Series:
        """Float64 column of one key; NaN, infinities and other types are noted and become null."""
        values = self.values(key, required=required, expected=expected)
        fixed = [_number(v) for v in values]
        bad = [i for i, (v, f) in enumerate(zip(values, fixed, strict=True)) if v is not None and f is None]
        self.flag(bad, _code(values, bad), key, lambda i: _typed(values[i]), expected)
        return pl.Series(key, fixed, dtype=pl.Float64)

    def flags(self, key: str) -> pl.Series:
        """Boolean column of one key that is 0, 1, true, false or absent (false)."""
        values = self.values(key, required=False)
        bad = [i for i, v in enumerate(values) if v not in (None, 0, 1)]
        self.flag(bad, "bad_value", key, lambda i: _typed(values[i]), "0 or 1")
        return pl.Series(key, [v == 1 for v in values], dtype=pl.Boolean)

    def texts(self, key: str, *, required: bool = True, expected: str = "text") -> pl.Series:
        """String column of one key; other types are noted and become null."""
        values = self.values(key, required=required, expected=expected)
        bad = [i for i, v in enumerate(values) if v is not None and not (isinstance(v, str) and v)]
        self.flag(bad, "wrong_type", key, lambda i: _typed(values[i]), expected)
        return pl.Series(key, [v if isinstance(v, str) and v else None for v in values], dtype=pl.String)

    def boxes(self, values: Sequence[Any]) -> np.ndarray:
        """Boxes as float64 (n, 4), x, y, w, h; faulty ones are noted and become NaN. ``None`` is NaN without a note."""
        boxes = np.full((len(values), 4), np.nan)
        shape, nan = [], []
        for i, box in enumerate(values):
            if box is None:
                continue
            if not isinstance(box, list | tuple) or len(box) != 4 or not all(_is_number(v) for v in box):
                shape.append(i)
            elif not all(math.isfinite(v) for v in box):
                nan.append(i)
            else:
                boxes[i] = box
        expected = "four numbers: x, y, width, height in pixels"
        self.flag(shape, "bad_box", "bbox", lambda i: _typed(values[i]), expected)
        self.flag(nan, "nan", "bbox", lambda i: _typed(values[i]), expected)
        return boxes


def check_boxes(section: Section, boxes: np.ndarray) -> None:
    """Note boxes whose width or height is negative; NaN rows were noted before."""
    negative = np.flatnonzero((boxes[:, 2:] < 0).any(axis=1))
    remedy = "COCO boxes are x, y, width, height, not two corners"
    section.flag(
        negative, "negative_box", "bbox", lambda i: str(boxes[i].tolist()), "width and height of 0 or more", remedy
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: Any) -> int | None:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return value if type(value) is int and value in _INT64 else None


def _number(value: Any) -> float | None:
    try:
        return float(value) if _is_number(value) and math.isfinite(value) else None
    except OverflowError:  # a whole number of more than 300 digits
        return None


def _code(values: Sequence[Any], bad: Sequence[int]) -> str:
    return "nan" if bad and isinstance(values[bad[0]], float) else "wrong_type"


def _typed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > 80:
        text = text[:77] + "…"
    return f"the text {text}" if isinstance(value, str) else text
