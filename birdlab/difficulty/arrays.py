"""Labelled birds and their outcomes as arrays: what every statistic of this room works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import DataError, Problem


@dataclass(frozen=True)
class Birds:
    """Instances as arrays: one row per labelled bird, one column of outcomes per model.

    Args:
        table: one row per bird: instance, session, frame, factors …
        models: names in order.
        outcome: float64 (N, models): 1 found, 0 missed, NaN not known.
        session, block, top: int64 (N,): session, cluster of frames (codes within the study), unit of new ones.
        sessions: names of the sessions, by code.
    """

    table: pl.DataFrame
    models: list[str]
    outcome: npt.NDArray[np.float64]
    session: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]
    top: npt.NDArray[np.int64]
    sessions: list[str]


def arrange(instances: pl.DataFrame, factors: Sequence[str], *, unit: str = "session") -> Birds:
    """Turn a table of instances into arrays.

    Args:
        instances: instance, session, frame, factors, recovered (0/1, Boolean, or null where it is not known); for
            several models a column ``model`` and a row per model and instance; optionally ``block``, clusters of
            frames that share their luck (otherwise each frame is one).
        factors: names of columns.
        unit: column of what new ones would be: ``session`` or ``site``.

    Raises:
        DataError: a column is missing, ``recovered`` is neither 0 nor 1, an instance occurs twice for one model, or
            one bird has two values of a factor.
    """
    needed = ["instance", "session", "frame", "recovered", *factors, *([unit] if unit != "session" else [])]
    missing = [name for name in needed if name not in instances.columns]
    if missing:
        raise DataError(
            [Problem("missing_column", "no such column", "a column of the instances", key=m) for m in missing]
        )
    rows = instances if "model" in instances.columns else instances.with_columns(model=pl.lit(""))
    rows = rows.with_columns(pl.col("recovered").cast(pl.Float64).fill_nan(None))
    bad = rows.filter(~pl.col("recovered").is_in([0.0, 1.0]) & pl.col("recovered").is_not_null())
    if bad.height:
        found = f"{bad['recovered'][0]:g} in {bad.height} rows"
        raise DataError(
            Problem("not_binary", found, "0 or 1", record=f"instance {bad['instance'][0]}", key="recovered")
        )
    if rows.select(pl.struct("model", "instance").is_duplicated().any()).item():
        twice = rows.filter(pl.struct("model", "instance").is_duplicated())["instance"][0]
        raise DataError(
            Problem("duplicate_key", "the same instance twice", "one row per bird", record=f"instance {twice}")
        )
    about = ["instance", "session", "frame", *[c for c in ("block", unit) if c in rows.columns and c != "session"]]
    table = rows.select(*about, *[f for f in factors if f not in about]).unique(maintain_order=True)
    if table["instance"].n_unique() < table.height:
        twice = table.filter(pl.col("instance").is_duplicated())["instance"][0]
        found = "one bird with two sessions, frames or values of a factor"
        raise DataError(Problem("ambiguous", found, "the same values for every model", record=f"instance {twice}"))
    models = rows["model"].unique(maintain_order=True).to_list()
    wide = [_outcomes(table, rows.filter(pl.col("model") == m)) for m in models]
    session = table["session"].cast(pl.String).fill_null("")
    names = session.unique().sort().to_list()
    cluster = pl.struct("session", "block" if "block" in table.columns else "frame")
    return Birds(
        table,
        models,
        np.column_stack(wide) if wide else np.empty((table.height, 0)),
        session.replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
        if names
        else np.empty(0, int),
        _codes(table, cluster),
        _codes(table, pl.col(unit)),
        names,
    )


def _outcomes(table: pl.DataFrame, rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    joined = table.select("instance").join(
        rows.select("instance", "recovered"), on="instance", how="left", maintain_order="left"
    )
    return joined["recovered"].to_numpy().astype(np.float64)


def _codes(table: pl.DataFrame, of: pl.Expr) -> npt.NDArray[np.int64]:
    return table.select(of.rank("dense").cast(pl.Int64).fill_null(0)).to_series().to_numpy()
