"""The log of a training run: one row per epoch, when to stop, which epoch was the best, and the curves to draw."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.shards import write_atomic

#: Columns that every log has: epoch from 1, sum of the training losses (mean over batches), validation AP50-95 and
#: AP50 in [0, 1], learning rate at the end of the epoch, wall time of the epoch in s. ``loss_*`` are the parts of loss.
COLUMNS = ("epoch", "loss", "val_ap", "val_ap50", "lr", "seconds")


def best_epoch(rows: Sequence[dict[str, Any]]) -> int | None:
    """The epoch with the highest validation AP50-95, of equal ones the first; ``None`` without an epoch.

    As long as the validation score is 0, the newest epoch counts as the best one: a network that starts from random
    weights finds nothing at first, and that is no reason to stop.

    >>> best_epoch([{"epoch": 1, "val_ap": 0.0}, {"epoch": 2, "val_ap": 0.0}])
    2
    >>> best_epoch([{"epoch": 1, "val_ap": 0.2}, {"epoch": 2, "val_ap": 0.3}, {"epoch": 3, "val_ap": 0.3}])
    2
    """
    best: int | None = None
    value = 0.0
    for row in rows:
        score = float(row["val_ap"] or 0.0)
        if score > value or value == 0.0:
            best, value = int(row["epoch"]), score
    return best


def why_stop(rows: Sequence[dict[str, Any]], *, epochs: int, patience: int) -> str | None:
    """``epochs`` or ``patience`` when training is over after these epochs, else ``None``.

    >>> rows = [{"epoch": e, "val_ap": v} for e, v in [(1, 0.2), (2, 0.1), (3, 0.2)]]
    >>> why_stop(rows, epochs=9, patience=2), why_stop(rows, epochs=9, patience=3), why_stop(rows, epochs=3, patience=3)
    ('patience', None, 'epochs')
    """
    if not rows:
        return None
    last, best = int(rows[-1]["epoch"]), best_epoch(rows) or 0
    if last >= epochs:
        return "epochs"
    return "patience" if last - best >= patience else None


def write_log(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write ``log.csv`` whole: the epochs of the checkpoint, no more and no less."""
    parts = [name for name in (rows[-1] if rows else {}) if name not in COLUMNS]
    names = ["epoch", "loss", *parts, *COLUMNS[2:]]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({n: row.get(n) for n in names} for row in rows)
    write_atomic(path, lambda temporary: temporary.write_text(text.getvalue(), encoding="utf-8"))


def read_log(path: Path) -> pl.DataFrame:
    """Read ``log.csv``: one row per epoch, columns of :data:`COLUMNS` and one per part of the loss.

    Raises:
        DataError: no such file, a column is missing, or the epochs are not 1, 2, 3 … each once.
    """
    try:
        log = pl.read_csv(path, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(Problem("bad_log", first, "the log of a training run", file=str(path))) from error
    missing = [name for name in COLUMNS if name not in log.columns]
    if missing:
        found = f"no column {', '.join(missing)}"
        raise DataError(Problem("bad_log", found, ", ".join(COLUMNS), file=str(path)))
    if log["epoch"].to_list() != list(range(1, log.height + 1)):
        found = f"epochs {', '.join(map(str, log['epoch'].to_list()[:20]))}"
        raise DataError(Problem("bad_log", found, "every epoch once, from 1", file=str(path), key="epoch"))
    return log.with_columns(pl.exclude("epoch").cast(pl.Float64))


def curve_table(runs: Iterable[tuple[str, int, pl.DataFrame]]) -> pl.DataFrame:
    """All logs as one long table to draw: model, seed, epoch, quantity (a column of the log), value, best.

    Args:
        runs: (model, seed, log) of each run.

    Returns:
        ``best`` marks the rows of the epoch whose weights were kept; no runs give no rows.
    """
    schema = {"model": pl.String, "seed": pl.Int64, "epoch": pl.Int64, "quantity": pl.String, "value": pl.Float64}
    parts = [pl.DataFrame(schema=schema | {"best": pl.Boolean})]
    for model, seed, log in runs:
        best = best_epoch(log.rows(named=True))
        long = log.with_columns(pl.exclude("epoch").cast(pl.Float64)).unpivot(
            index="epoch", variable_name="quantity", value_name="value"
        )
        named = long.with_columns(pl.lit(model).alias("model"), pl.lit(seed, dtype=pl.Int64).alias("seed"))
        parts.append(
            named.with_columns((pl.col("epoch") == best).alias("best")).select(*parts[0].columns).cast(parts[0].schema)
        )
    return pl.concat(parts)
