"""Courses and model cards of finished trainings as tables to draw and to print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.training.curves import best_epoch
from birdlab.training.train import TrainedModel

CARD_SCHEMA: dict[str, Any] = {
    **{"model": pl.String, "seed": pl.Int64, "task": pl.String, "library": pl.String, "architecture": pl.String},
    **{"path": pl.String, "bytes": pl.Int64, "sha256": pl.String, "state_sha256": pl.String, "imgsz": pl.Int64},
    **{"best_epoch": pl.Int64, "epochs": pl.Int64, "epochs_at_most": pl.Int64, "stopped": pl.String},
    **{"n_resumed": pl.Int64, "seconds": pl.Float64, "device": pl.String, "deterministic": pl.Boolean},
    **{"licence": pl.String, "licence_data": pl.String, "licence_library": pl.String, "test_looks": pl.Int64},
    **{"versions": pl.String, "limits": pl.List(pl.String)},
}
COURSE_SCHEMA: dict[str, Any] = {
    **{"model": pl.String, "seed": pl.Int64, "epoch": pl.Int64, "train_loss": pl.Float64, "val_ap": pl.Float64},
    **{"val_ap50": pl.Float64, "lr": pl.Float64, "seconds": pl.Float64, "is_best": pl.Boolean, "stopped": pl.String},
}


def course_table(trained: Sequence[TrainedModel]) -> pl.DataFrame:
    """One row per model, seed and epoch.

    Returns:
        ``train_loss`` (mean over batches of the sum of the losses), ``val_ap`` and ``val_ap50`` in [0, 1] (of the masks,
        for a segmenter), ``lr``, ``seconds``, ``is_best`` (its weights were kept), ``stopped`` (``epochs`` or ``patience``,
        in the last row of a training), then ``loss_*``: the parts of the loss.
    """
    parts = [pl.DataFrame(schema=COURSE_SCHEMA)]
    for t in trained:
        best, last = best_epoch(t.log.rows(named=True)), t.log.height
        named = t.log.rename({"loss": "train_loss"}).with_columns(
            pl.lit(t.name).alias("model"),
            pl.lit(t.seed, dtype=pl.Int64).alias("seed"),
            (pl.col("epoch") == best).alias("is_best"),
            pl.when(pl.col("epoch") == last).then(pl.lit(str(t.card["training"]["stopped"]))).alias("stopped"),
        )
        own = sorted(c for c in named.columns if c.startswith("loss_"))
        parts.append(named.select(*COURSE_SCHEMA, *own).cast(COURSE_SCHEMA))
    return pl.concat(parts, how="diagonal")


def card_table(trained: Sequence[TrainedModel], *, root: Path) -> pl.DataFrame:
    """What the model cards say, one row per training; ``path`` is that of the weights, from ``root``.

    ``seconds`` is the time of all epochs. An empty licence is null: nobody stated one.
    """
    rows = []
    for t in trained:
        card = t.card
        training, weights, licence = card["training"], card["weights"], card["licence"]
        row: dict[str, Any] = {"model": t.name, "seed": t.seed}
        row |= {k: card[k] for k in ("task", "library", "architecture", "limits")}
        row |= {"path": t.weights.resolve().relative_to(root.resolve()).as_posix()}
        row |= {k: weights[k] for k in ("bytes", "sha256", "state_sha256")}
        row |= {k: training[k] for k in ("best_epoch", "epochs", "stopped", "device", "deterministic")}
        row |= {"imgsz": card["settings"]["imgsz"], "epochs_at_most": card["settings"]["epochs"]}
        row |= {"n_resumed": len(training["resumed_after"]), "seconds": float(t.log["seconds"].sum())}
        row |= {"licence": licence["weights"] or None, "licence_data": licence["data"] or None}
        row |= {"licence_library": licence["library"]}
        row |= {"test_looks": (card["scores"].get("test") or {}).get("looks")}
        row |= {"versions": ", ".join(f"{k} {v}" for k, v in card["versions"].items())}
        rows.append(row)
    return pl.DataFrame(rows, schema=CARD_SCHEMA)
