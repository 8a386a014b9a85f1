"""Files of predictions in other layouts than the official one: which it is, and what it lists."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.birdnet import Predictions, is_birdnet, read_birdnet, read_label_map
from birdlab.readers.files import at_most
from birdlab.readers.wide_submission import is_wide, read_wide_submission
from birdlab.soundscapes.coded import NAMED_S, SEGMENT_S, Truth

Layout = Literal["run", "wide", "birdnet"]
#: Bytes of the first line that are looked at: a wide header of thousands of classes fits.
_HEAD = 1 << 20
#: Said of a label map beside a file in the official layout.
MAP_NOT_USED = "the label map is not used: a run file names classes by their ids"


def layout_of(path: Path) -> Layout:
    """The layout by the first line of a text, or the columns of a parquet; a folder holds BirdNET's tables.

    What is none of the foreign ones is read as a run file, which then says what is wrong with it.
    """
    if path.is_dir():
        return "birdnet"
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            heads = list(pl.read_parquet_schema(path))
        else:
            with path.open("rb") as file:
                first = file.readline(_HEAD).decode("utf-8-sig", "replace").strip("\r\n")
            delimiter = max(",;\t", key=first.count)
            heads = [cell.strip().strip('"') for cell in first.split(delimiter)]
    except (OSError, pl.exceptions.PolarsError):
        return "run"
    if is_wide(heads):
        return "wide"
    return "birdnet" if is_birdnet(heads) else "run"


def read_foreign(
    path: Path, layout: Layout, *, truth: Truth, recordings: pl.DataFrame | None, label_map: Path | None = None,
    max_classes: int | None = None,
) -> Predictions:  # fmt: skip
    """What a wide submission or BirdNET's tables list, all of which a run file can say.

    Args:
        path: a file, or a folder of BirdNET's tables.
        layout: ``wide`` or ``birdnet``.
        truth: recordings and classes that may be answered.
        recordings: table ``soundscape_recordings``.
        label_map: CSV label,class_id; BirdNET's only.
        max_classes: most classes per segment; None: any number.

    Raises:
        DataError: what the readers of the layouts refuse; a recording that is not in the truth; a segment past 24 h; more
            classes in a segment than it may have.
    """
    if layout == "wide":
        found = read_wide_submission(path, classes=truth.classes, recordings=recordings)
    else:
        labels = read_label_map(label_map) if label_map else None
        found = read_birdnet(path, classes=truth.classes, label_map=labels, recordings=recordings)
    _refuse_outside(found.table, truth, str(path))
    if max_classes is not None:
        _refuse_many(found.table, max_classes, str(path))
    return found


def _refuse_outside(table: pl.DataFrame, truth: Truth, file: str) -> None:
    """Recordings that are not in the truth and segments that no run file can name, each recording once."""
    media = truth.grid.media
    each = table.group_by("media_id", maintain_order=True).agg(
        n=pl.len(), n_late=(pl.col("start_s") >= NAMED_S).sum(), latest=pl.col("start_s").max()
    )
    problems = []
    for name, n, n_late, latest in each.iter_rows():
        if name not in media:
            expected = f"one of {len(media):,} recordings of the ground truth"
            remedy = "a recording in which nothing is annotated must stand in the table of recordings"
            problems.append(Problem("media_unknown", f"{name!r} in {n:,} predictions", expected, remedy, file))
        elif n_late:
            late = f"{n_late:,} predictions past {NAMED_S} s in {name!r}, up to {latest + SEGMENT_S} s"
            problems.append(Problem("past_a_day", late, "segments that end before 24:00:00", "", file))
    if problems:
        raise DataError(at_most(problems))


def _refuse_many(table: pl.DataFrame, most: int, file: str) -> None:
    """Segments that list more classes than they may, as one problem."""
    each = table.group_by("media_id", "start_s", maintain_order=True).len().filter(pl.col("len") > most)
    if each.height:
        media, start, n = each.row(0)
        found = f"{n:,} classes at {start} s in {media!r}, and {each.height - 1:,} more segments with too many"
        remedy = "a wide submission lists every class: score it without max_classes"
        raise DataError(Problem("too_many", found, f"at most {most} classes per segment", remedy, file))
