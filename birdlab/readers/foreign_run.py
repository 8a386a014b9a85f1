"""Which layout a file of predictions has: an official run, BirdNET's tables, or a wide submission."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

from birdlab.readers.birdnet import is_birdnet
from birdlab.readers.wide_submission import is_wide

Layout = Literal["run", "wide", "birdnet"]
#: Bytes of the first line that are looked at: a wide header of thousands of classes fits.
_HEAD = 1 << 20


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
