"""MOTChallenge text: one box per line, frame, id, left, top, width, height, confidence …; frames count from 1 there."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most

SCHEMA = {
    "frame": pl.Int32, "track_id": pl.String, "xmin": pl.Float64, "ymin": pl.Float64, "xmax": pl.Float64,
    "ymax": pl.Float64, "score": pl.Float64,
}  # fmt: skip
_EXPECTED = "frame, id, left, top, width, height, numbers with commas or blanks between them"


def read_mot(path: Path) -> pl.DataFrame:
    """Boxes of a MOT text file, truth or results.

    Args:
        path: one line per box; an empty file is a tracker that found nothing. The seventh column is the confidence (of a
            truth: 0 marks a box that does not count; read as ``score``); those after it, class
            and visibility, or -1s, which are not read.

    Returns:
        frame (0-based), track_id (text), corners (px), score, in the order of the file.

    Raises:
        DataError: no such file; lines that are not as they should be, an id twice in one frame, with their numbers.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or str(error)
        raise DataError(Problem("unreadable", why, "a MOT text file", "check the path", file=str(path))) from error
    except UnicodeDecodeError as error:
        raise DataError(Problem("bad_encoding", "bytes that are not text", _EXPECTED, file=str(path))) from error
    problems: list[Problem] = []
    rows: list[tuple] = []
    seen: dict[tuple[int, str], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        row = _box(line, str(path), number, problems)
        if row is None:
            continue
        key = (row[0], row[1])
        if key in seen:
            found = f"id {row[1]} in frame {row[0] + 1} again, first in line {seen[key]}"
            problems.append(Problem("id_twice", found, "each id once in a frame", file=str(path), line=number))
        seen[key] = number
        rows.append(row)
    if problems:
        raise DataError(at_most(problems))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _box(line: str, source: str, number: int, problems: list[Problem]) -> tuple | None:
    """One line as a row of :data:`SCHEMA`; None, with a problem, where it cannot be one."""
    cells = line.replace(",", " ").split()
    found = f"{line[:60]!r}"
    if len(cells) < 6:
        problems.append(Problem("short_line", found, _EXPECTED, file=source, line=number))
        return None
    try:
        values = [float(c) for c in (cells[0], *cells[2:6], cells[6] if len(cells) > 6 else "1")]
    except ValueError:
        problems.append(Problem("not_a_number", found, _EXPECTED, file=source, line=number))
        return None
    frame, left, top, width, height, score = values
    if not all(map(math.isfinite, values)) or frame != int(frame) or not 1 <= frame < 2**31:
        expected = "finite numbers, frames counted from 1"
        problems.append(Problem("bad_number", found, expected, file=source, line=number, key="frame"))
        return None
    if width < 0 or height < 0:
        problems.append(Problem("negative_size", found, "width and height from 0 up", file=source, line=number))
        return None
    track = cells[1].removesuffix(".0")
    return int(frame) - 1, track, left, top, left + width, top + height, score


def write_mot(boxes: pl.DataFrame) -> str:
    """MOT results of boxes: the text of a file.

    Args:
        boxes: frame (0-based), track_id, corners, optional score. Ids that are no whole numbers are numbered from 1 in
            the order in which they first occur, as the format has none but numbers.

    >>> row = {"frame": 0, "track_id": "7", "xmin": 1.0, "ymin": 2.0, "xmax": 4.0, "ymax": 6.0}
    >>> write_mot(pl.DataFrame([row]))
    '1,7,1,2,3,4,1,-1,-1,-1\\n'
    """
    ids = boxes["track_id"].unique(maintain_order=True).to_list() if boxes.height else []
    is_number = all(i.isdigit() and int(i) > 0 for i in ids)
    code = {i: i if is_number else str(k) for k, i in enumerate(ids, start=1)}
    lines = []
    for r in boxes.sort("frame", maintain_order=True).to_dicts():
        numbers = (r["xmin"], r["ymin"], r["xmax"] - r["xmin"], r["ymax"] - r["ymin"], r.get("score", 1.0))
        box = ",".join(f"{v:.6g}" for v in numbers)
        lines.append(f"{r['frame'] + 1},{code[r['track_id']]},{box},-1,-1,-1\n")
    return "".join(lines)
