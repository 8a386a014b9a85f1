"""The tables of birdlab: column names, types, units and meaning, in one place.

Every function that is not a reader or a writer takes and returns polars frames of these shapes. A column
that is unknown or undefined holds ``null``, never 0, -1 or NaN. Boxes are COCO ``x, y, w, h`` in pixels with
the origin at the top left; scores are in [0, 1]; times are seconds.
"""

from __future__ import annotations

import polars as pl

from birdlab.schemas import abstention, detection, difficulty, individuals, recordings, reid, reported, soundscapes
from birdlab.schemas.constants import LABEL_STATES, OUTCOMES, SPLITS
from birdlab.schemas.contract import Column, Table

__all__ = ["LABEL_STATES", "OUTCOMES", "SPLITS", "TABLES", "Column", "Table", "documentation", "empty", "validate"]

#: Every table by name.
TABLES: dict[str, Table] = {
    table.name: table
    for room in (recordings, detection, difficulty, abstention, individuals, reid, soundscapes, reported)
    for table in room.TABLES
}


def validate(name: str, frame: pl.DataFrame, *, source: str = "") -> pl.DataFrame:
    """Validate ``frame`` against the table called ``name``; see :meth:`Table.validate`."""
    return TABLES[name].validate(frame, source=source)


def empty(name: str) -> pl.DataFrame:
    """An empty frame of the table called ``name``.

    >>> empty("frames").columns[:2]
    ['frame_id', 'media_id']
    """
    return TABLES[name].empty()


def documentation() -> str:
    """All tables as Markdown, for the README and for readers of a run's folder."""
    parts = []
    for table in TABLES.values():
        key = ", ".join(table.key) or "none"
        parts.append(f"### {table.name}\n\n{table.doc} Key: {key}.\n\n| column | type | meaning |\n|---|---|---|\n")
        parts.append(
            "".join(f"| {c.name} | {c.dtype}{' or null' if c.nullable else ''} | {c.doc} |\n" for c in table.columns)
        )
        parts.append("\n")
    return "".join(parts)
