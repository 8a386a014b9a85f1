"""Selection tables of Raven: rows of one selection in two views, files in a row, edges of boxes that are swapped."""

from __future__ import annotations

import polars as pl

from birdlab.readers.files import Notice
from birdlab.readers.soundscape_tables import Sheet, seconds, some, stem

#: Name → first line of a file without a header, and its columns.
LAYOUTS = {
    "a Raven table": (
        r"^\d+\t(Spectrogram|Waveform|Spectrum)[^\t]*\t\d+\t[\d.]+\t[\d.]+\t[\d.]+\t[\d.]+(\t[^\t\d][^\t]*)?\t?$",
        (
            *("Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)"),
            "Species",
        ),
    ),
    "Audacity labels": (r"^\d+(\.\d+)?\t\d+(\.\d+)?\t[^\t]+$", ("start", "end", "label")),
}


def is_raven(sheet: Sheet) -> bool:
    """Whether a table has Raven's columns: a selection, or a view, and its begin.

    >>> is_raven(Sheet("a.txt", pl.DataFrame(), ("Selection", "View", "Begin Time (s)")))
    True
    """
    return "begintimes" in sheet.keys and ("selection" in sheet.keys or "view" in sheet.keys)


def in_file(sheet: Sheet, start: pl.Series, end: pl.Series) -> tuple[pl.Series, pl.Series, list[Notice]]:
    """Times within each sound file, s.

    Raven opens files in a row, with one clock over all of them; ``File Offset (s)`` says where a selection begins in its own
    file. A table over several begin files without it is taken to restart at each file, and that is said.
    """
    offset = sheet.column("file_offset")
    files = sheet.named("beginfile", "beginpath")
    if files is None:
        return start, end, []
    if offset is None:
        n = sheet.text(files).drop_nulls().n_unique()
        told = f"files in one table without File Offset (s): times are taken as within each file ({sheet.file})"
        return start, end, [Notice("no_file_offset", told, n, sheet.file)] if n > 1 else []
    own = seconds(sheet.text(offset))
    own = pl.select(pl.coalesce(own, start)).to_series()
    return own, own + (end - start), []


def once(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """Selections that stand in a table as Waveform and as Spectrogram, each once: the row of the spectrogram is kept.

    Args:
        rows: with source, media_id, selection, view, class_id, start_s, end_s.
    """
    key = ["source", "media_id", "selection", "class_id", "start_s", "end_s"]
    with_view = pl.col("selection").is_not_null() & pl.col("view").is_not_null()
    # Spectrograms first, within the order of the file.
    ranked = rows.with_row_index("at").with_columns(second=~pl.col("view").fill_null("").str.starts_with("Spectrogram"))
    kept = pl.concat(
        [
            ranked.filter(with_view).sort("second", "at").unique(key, keep="first", maintain_order=True),
            ranked.filter(~with_view),
        ]
    ).sort("at")
    n = rows.height - kept.height
    told = "rows of a selection that another view shows too, counted once (Waveform beside Spectrogram)"
    return kept.drop("at", "second"), [Notice("redundant_view", told, n)] if n else []


def edges(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """Boxes whose low edge is above the high one, turned; counted."""
    turned = (pl.col("low_hz") > pl.col("high_hz")).fill_null(False)
    swapped = rows.filter(turned)
    if swapped.is_empty():
        return rows, []
    low, high = pl.col("low_hz"), pl.col("high_hz")
    rows = rows.with_columns(
        low_hz=pl.when(turned).then(high).otherwise(low), high_hz=pl.when(turned).then(low).otherwise(high)
    )
    told = f"boxes with the low edge above the high one, turned ({some(map(stem, swapped['source'].unique().sort()))})"
    return rows, [Notice("edges_swapped", told, swapped.height)]
