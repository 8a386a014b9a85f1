"""Lists of classes: one id per line, or the first column of a CSV."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import DELIMITERS, decode
from birdlab.readers.files import Notice
from birdlab.readers.soundscape_tables import some

#: Words (lower case, blanks and hyphens as ``_``) that are a heading when they stand in the first cell, not a class.
HEADINGS = frozenset(
    "class_id classid class classes class_name code codes species species_code species_id ebird ebird_code ebird_codes"
    " species_ebird_code label labels primary_label id name scientific_name common_name taxon taxon_id".split()
)
_YEARLY = re.compile(r"(ebird|clements|avilist)_?\d{4}[a-z]?")


def read_classes(path: Path) -> tuple[tuple[str, ...], list[Notice]]:
    """Class ids of a list, in its order, each once, and what was remarked.

    The first row is a header if its first cell is one of :data:`HEADINGS`, in any case, or a list of a year such as
    ``ebird2021``; nothing else is taken for one. A cell ends at the first comma, semicolon, tab or bar.

    Args:
        path: text in UTF-8, UTF-16 or Latin-1.

    Raises:
        DataError: no such file, no text, no class, a quote that is never closed.
    """
    shown = str(path)
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        why = "no such file" if not path.exists() else "a folder" if path.is_dir() else type(error).__name__
        raise DataError(Problem("unreadable", why, "a list of classes", "check the path", file=shown)) from error
    text, encoding = decode(raw, shown)
    cells, n_blank = _first_cells(text, shown)
    notices = [Notice("latin_1", "read as Latin-1: it is not UTF-8", 1, shown)] if encoding == "latin-1" else []
    if cells and is_heading(cells[0]):
        notices.append(Notice("class_list_header", f"the first row, {cells[0]!r}, is a header", 1, shown))
        cells = cells[1:]
    kept = list(dict.fromkeys(cells))
    if not kept:
        raise DataError(Problem("empty_class_list", "no class", "one class id per line", file=shown))
    if len(kept) < len(cells):
        twice = [c for c, n in Counter(cells).items() if n > 1]
        told = f"classes listed more than once, counted once ({some(twice)})"
        notices.append(Notice("class_twice", told, len(cells) - len(kept), shown))
    if n_blank:
        notices.append(Notice("class_blank", "rows without a class", n_blank, shown))
    return tuple(kept), notices


def is_heading(cell: str) -> bool:
    """Whether a cell is the heading of a list of classes.

    >>> is_heading("ebird2021"), is_heading("Class-ID"), is_heading("amecro")
    (True, True, False)
    """
    word = re.sub(r"[\s\-]+", "_", cell.strip().casefold())
    return word in HEADINGS or bool(_YEARLY.fullmatch(word))


def _first_cells(text: str, shown: str) -> tuple[list[str], int]:
    """First cell of every row, and the number of rows (but the last) that have none."""
    first = text.lstrip("\r\n").partition("\n")[0]
    held = [d for d in DELIMITERS if d in first]
    delimiter = max(held, key=first.count) if held else ","
    cells, n_blank = [], 0
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            cell = row[0].strip() if row else ""
            if cell:
                cells.append(cell)
            else:
                n_blank += 1
    except csv.Error as error:
        raise DataError(Problem("bad_csv", str(error), "a list of classes", "", shown, reader.line_num)) from error
    return cells, n_blank
