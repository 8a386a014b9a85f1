"""Events coded in BORIS: tabular events, aggregated events and binary tables, of old versions and new ones.

Times are seconds on the observation's own axis. An observation over several media files in a row has one axis for all of
them, so there the observation stands for the video.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import polars as pl

from birdlab.readers.boris_table import Layout, read_table
from birdlab.readers.files import Notice, notice_table

KINDS = ("point", "state", "bins")
NO_SUBJECT = ("", "no focal subject")
EVENTS = {
    "observation": pl.String,  # as in the file
    "observer": pl.String,  # null where nothing is said
    "video_id": pl.String,  # the media file's name without its ending, or the observation
    "subject": pl.String,  # as in the file
    "individual_id": pl.String,  # null for no focal subject
    "behaviour": pl.String,
    "modifiers": pl.String,  # as in the file; empty for none
    "start_s": pl.Float64,
    "end_s": pl.Float64,  # of a point event its time; of bins the end of the last one
    "kind": pl.String,  # point; state: from start to end; bins: presence in bins [start, end), of a binary table
}
MEDIA = {
    "observation": pl.String,
    "observer": pl.String,
    "video_id": pl.String,
    "length_s": pl.Float64,  # null where nothing is said
    "fps": pl.Float64,  # null where nothing is said
}


@dataclass(frozen=True)
class Boris:
    """An export as read: ``events`` (columns of ``EVENTS``), ``media`` (one row per observation), what was remarked."""

    layout: Layout
    events: pl.DataFrame
    media: pl.DataFrame
    notices: pl.DataFrame


def read_boris(
    path: Path,
    *,
    observer: str | None = None,
    subject: str | None = None,
    video: str | None = None,
    length_s: float | None = None,
) -> Boris:
    """Events of one export of BORIS.

    Args:
        path: CSV or TSV: tabular events (with or without the block that old versions put before the header), aggregated
            events, or a binary table.
        observer: who coded, where the file has no column or independent variable observer, coder or rater.
        subject: bird of a binary table; by default what follows the last ``_`` of the file's name.
        video: the video, where the file names none, or several observations are of one video.
        length_s: length of the video, s, where the file does not say it.

    Returns:
        Events in the order of the file (of a tabular file, of their start); see :class:`Boris`.

    Raises:
        DataError: the layout is none of the three, a cell is not what it should be, a state event without START or STOP;
            each with its line.
    """
    from birdlab.readers.boris_binary import binary_events
    from birdlab.readers.boris_events import clip, listed_events

    table = read_table(path)
    notices: list[Notice] = []
    if table.layout == "binary":
        stem = PurePosixPath(path.name).stem
        name, _, bird = stem.rpartition("_")
        whose = subject if subject is not None else bird
        frame, media = binary_events(table, notices, observation=name or stem, subject=whose, length_s=length_s)
    else:
        frame, media = listed_events(table, notices, stem=PurePosixPath(path.name).stem)
    if video is not None:
        frame, media = (t.with_columns(pl.lit(video).alias("video_id")) for t in (frame, media))
    if length_s is not None:
        media = media.with_columns(pl.col("length_s").fill_null(length_s))
    if observer is not None:
        frame, media = (t.with_columns(pl.col("observer").fill_null(observer)) for t in (frame, media))
    frame = clip(frame, media, notices, table.file)
    named = ~pl.col("subject").str.to_lowercase().is_in(NO_SUBJECT)
    frame = frame.with_columns(pl.when(named).then(pl.col("subject")).alias("individual_id"))
    return Boris(table.layout, frame.select(list(EVENTS)).cast(EVENTS), media.cast(MEDIA), notice_table(notices))


def video_name(cell: str) -> str:
    """A video from the path of its file, with either slash, or from ``player #1:path``.

    >>> video_name("player #1:videos/nest_04.mp4"), video_name("C:\\\\coded\\\\nest_04.mp4")
    ('nest_04', 'nest_04')
    """
    cell = cell.strip()
    if cell.casefold().startswith("player #"):
        cell = cell.partition(":")[2]
    return PurePosixPath(cell.replace("\\", "/").strip()).stem
