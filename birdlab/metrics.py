"""Rows of the table ``metrics``, the spine of every report: each printed number is one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from birdlab import schemas


def metric_row(**values: Any) -> dict[str, Any]:
    """One row of the table ``metrics`` as a mapping; what is not given is null (``group`` and ``level``: all)."""
    row: dict[str, Any] = dict.fromkeys(schemas.TABLES["metrics"].dtypes)
    return {**row, "group": "all", "level": "all", **values}


def metric_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Rows of :func:`metric_row` as a frame with the columns and types of ``metrics``."""
    return pl.DataFrame(list(rows), schema=schemas.TABLES["metrics"].dtypes, orient="row")
