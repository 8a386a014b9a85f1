"""Run files of BirdCLEF: ``MediaId;TC1-TC2;ClassId;Probability``, one prediction per line, no header.

The rule is that of the official evaluators of 2018 and 2020, with their holes closed: NaN, ``0_1`` and time codes without
two digits are errors, a MediaId may hold ``_``, a byte order mark is left out and remarked. Text (also gzip) is parsed in
blocks, in bulk; only a block with something wrong in it is looked at line by line, so that an error costs little.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.runfile_blocks import blocks_of, kind_of, refuse_binary, shown, without_bom
from birdlab.readers.runfile_errors import FIELDS, Lookup, parse_block, problem_of, split_lines
from birdlab.readers.runfile_lenient import Repairs
from birdlab.readers.runfile_rows import RunRows, coded_of
from birdlab.soundscapes.coded import Coded, Truth

#: Problems that are listed; the others are counted.
LISTED = 20
#: A block of at least so many lines, none of which is a prediction, ends the reading.
_HOPELESS = 50_000
_PER_LINE = 40.0  #: bytes, before the first block is seen
log = logging.getLogger("birdlab")


class Found:
    """Problems of a file: the first ``LISTED`` of each kind of look, all of them counted."""

    def __init__(self) -> None:
        self.problems: list[tuple[int, Problem]] = []
        self.n = 0
        self.stopped = 0

    def add(self, lines: np.ndarray, describe: Callable[[int], Problem]) -> None:
        """Count problems at these lines, and keep as many as may be listed."""
        self.n += len(lines)
        self.problems += [(int(line), describe(int(line))) for line in np.sort(lines)[:LISTED]]

    def refuse(self, file: str) -> None:
        """Raise what was found, if anything, in the order of the file."""
        if not self.n:
            return
        listed = [p for _, p in sorted(self.problems, key=lambda pair: pair[0])[:LISTED]]
        if self.n > len(listed) or self.stopped:
            where = f", up to line {self.stopped:,}, where reading stopped" if self.stopped else ""
            found = f"and {self.n - len(listed):,} more problems{where}"
            listed.append(Problem("more", found, "lines without them", file=file))
        raise DataError(listed)


def read_run(path: Path, truth: Truth, *, name: str, lenient: bool = False, max_classes: int | None = None) -> Coded:
    """Read the predictions of a run and code them on the grid and classes of a truth.

    Args:
        path: text, gzipped text, or parquet with the columns media_id, class_id, probability and start_s or time (the time
            code); which of them is seen in the first bytes, not in the name.
        truth: recordings and classes that may be answered.
        name: of the run.
        lenient: repair what :class:`birdlab.readers.runfile_lenient.Repairs` repairs; every kind is counted in a warning.
        max_classes: most classes per segment (100 in 2018, 10 in 2020); None: any number.

    Returns:
        The run; warnings ``bom``, ``gzip``, ``repaired_…``, ``beyond_end``, ``empty_run`` where they apply. A file
        without a line is a run that lists nothing.

    Raises:
        DataError: every line that is no prediction (the first 20, and how many more), with its number: fields, brackets,
            header, timecode_format, timecode_grid, timecode_length, media_unknown, class_unknown, probability, duplicate,
            too_many; or, once for the file: unreadable, binary, encoding, line_length, damaged.
    """
    kind = kind_of(path)
    if kind == "parquet":
        from birdlab.readers.runfile_parquet import read_parquet_run

        return read_parquet_run(path, truth, name=name, max_classes=max_classes)
    reading = _Text(path, kind, Lookup(truth), max_classes, lenient=lenient)
    for block in blocks_of(path, kind):
        reading.take(block)
        if reading.found.stopped:
            break
    return reading.finish(name)


class _Text:
    """A text file as it is read."""

    def __init__(self, path: Path, kind: str, lookup: Lookup, max_classes: int | None, *, lenient: bool) -> None:
        self.path, self.kind, self.lookup, self.max_classes = path, kind, lookup, max_classes
        self.repairs = Repairs() if lenient else None
        self.rows: RunRows | None = None
        self.line, self.has_bom, self.found = 1, False, Found()

    def take(self, block: bytes) -> None:
        """Add the lines of one block."""
        if self.line == 1 and self.rows is None:
            block, self.has_bom = without_bom(block)
            self.rows = RunRows(self.lookup.truth, self._expected(block), self.max_classes)
            if not block:  # nothing but the mark
                return
        frame = parse_block(block, self.lookup)
        if frame is None:
            self._take_lines(block)
            return
        self._add(frame, self.line)
        self.line += frame.height

    def _expected(self, block: bytes) -> float:
        """Lines of the file, from its size and its first block."""
        per_line = len(block) / max(1, block.count(b"\n")) if block else _PER_LINE
        unpacked = 6 if self.kind == "gzip" else 1
        return self.path.stat().st_size * unpacked / max(per_line, 1.0)

    def _take_lines(self, block: bytes) -> None:
        refuse_binary(block, self.path, self.line)
        raw = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if raw[-1] == b"":
            raw.pop()
        text = b"\n".join(raw).decode("utf-8", "backslashreplace").split("\n")
        lines = pl.DataFrame({"at": np.arange(self.line, self.line + len(raw)), "text": text})
        first, self.line = self.line, self.line + len(raw)
        held = split_lines(lines, self.lookup)
        if self.repairs is not None and not held["is_good"].all():
            mended = self.repairs.mend(held.filter(~pl.col("is_good")).select("at", "text"))
            held = pl.concat([held.filter("is_good"), split_lines(mended, self.lookup)]).sort("at")
        bad = held.filter(~pl.col("is_good"))
        if bad.height:
            texts = dict(bad.head(LISTED).select("at", "text").rows())
            self.found.add(bad["at"].to_numpy(), lambda at: self._described(at, texts[at], raw[at - first]))
        good = held.filter("is_good")
        if good.height:
            self._add(good, good["at"].to_numpy())
        elif bad.height >= _HOPELESS:
            self.found.stopped = self.line - 1

    def _described(self, at: int, text: str, raw: bytes) -> Problem:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            remedy = "save the file as UTF-8"
            return Problem("encoding", shown(raw), "UTF-8 text", remedy, str(self.path), at)
        return problem_of(text, self.lookup, file=str(self.path), line=at)

    def _add(self, frame: pl.DataFrame, line: Any) -> None:
        media, k, cls = (frame[f].to_physical().to_numpy() for f in FIELDS[:3])
        again = self.rows.add(media, k, cls, frame["probability"].to_numpy(), line)
        if len(again):
            self.found.add(again, lambda at: _repeated(at, str(self.path)))

    def finish(self, name: str) -> Coded:
        """The run, or every problem of the file."""
        rows = self.rows or RunRows(self.lookup.truth, 0, self.max_classes)
        found, again, many = rows.finish()
        self.found.add(again, lambda at: _repeated(at, str(self.path)))
        self.found.add(many, lambda at: too_many(self.max_classes, file=str(self.path), line=at))
        if self.found.n:
            self._quote()
            self.found.refuse(str(self.path))
        warnings = []
        if self.kind == "gzip":
            warnings.append({"code": "gzip", "message": "a gzip file, read unpacked", "n": 1})
        if self.has_bom:
            warnings.append({"code": "bom", "message": "a byte order mark at the beginning, left out", "n": 1})
        if self.repairs is not None:
            warnings += self.repairs.warnings()
        return coded_of(rows, found, name, tuple(warnings))

    def _quote(self) -> None:
        """Put the text of lines into problems that were found without it."""
        bare = {line for line, p in self.found.problems if not p.found}
        texts = _texts(self.path, self.kind, bare) if bare else {}
        self.found.problems = [
            (line, p if p.found else _with_text(p, texts.get(line, "a line"))) for line, p in self.found.problems
        ]


def _with_text(problem: Problem, text: str) -> Problem:
    from dataclasses import replace

    return replace(problem, found=text)


def _texts(path: Path, kind: str, wanted: set[int]) -> dict[int, str]:
    """Text of some lines, by number."""
    line, out = 1, {}
    for block in blocks_of(path, kind):
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        n = block.count(b"\n") + (not block.endswith(b"\n"))
        here = [at for at in wanted if line <= at < line + n]
        if here:
            lines = block.split(b"\n")
            out.update({at: shown(lines[at - line]) for at in here})
        line += n
        if len(out) == len(wanted):
            break
    return out


def _repeated(at: int, file: str) -> Problem:
    return Problem("duplicate", "", "each class once per segment", "keep one of the two", file, at)


def too_many(most: int | None, *, file: str, line: int | None = None, record: str | None = None) -> Problem:
    """One class more than a segment may have."""
    found = record or ""
    return Problem("too_many", found, f"at most {most} classes per segment", "", file, line, record)


__all__ = ["LISTED", "Found", "read_run", "too_many"]
