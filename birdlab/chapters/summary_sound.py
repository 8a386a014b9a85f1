"""10_summary: the key numbers of soundscapes beside those of BirdCLEF 2019."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import num
from birdlab.report.show import m
from birdlab.report.table import Col

COLUMNS = {
    "measure": Col("Measure", kind="text"),
    "best": Col("Best run", kind="text"),
    "value": Col("Value"),
    "published": Col("Published", "BirdCLEF 2019", kind="text"),
}
ROWS = {
    ("cmap", "official"): "c-mAP, ties best-case (official)",
    ("cmap", "pessimistic"): "c-mAP, ties worst-case",
    ("rmap", "official"): "r-mAP, ties best-case (official)",
}


def sound_numbers(metrics: pl.DataFrame, runs: Sequence[str]) -> pl.DataFrame:
    """One row per score: the best of ``runs`` with its interval, and the printed range."""
    rows: list[dict[str, Any]] = []
    for (metric, method), words in ROWS.items():
        of = metrics.filter((pl.col("metric") == metric) & pl.col("model").is_in(list(runs)))
        mine = of.filter((pl.col("method") == method) & pl.col("published").is_null()).drop_nulls("value")
        mine = mine.sort("value", descending=True, maintain_order=True)
        best = mine.row(0, named=True) if mine.height else dict.fromkeys(("model", "value", "lo", "hi", "reason"))
        row = {
            "measure": words,
            "best": best["model"],
            "value": best["value"],
            "value_lo": best["lo"],
            "value_hi": best["hi"],
        }
        printed = metrics.filter((pl.col("metric") == metric) & pl.col("published").is_not_null())["published"]
        span = (
            None
            if printed.is_empty() or method != "official"
            else " to ".join(dict.fromkeys(f"{v:.3g}" for v in printed.sort()))
        )
        none = "no run was scored"
        no_ends = best["reason"] or ("it is taken for the official rule alone" if method != "official" else None)
        row |= {"published": span, "best_reason": none, "value_reason": (mine.height and no_ends) or none}
        rows.append(row | {"published_reason": "no published number stands beside this study"})
    floats = {"value", "value_lo", "value_hi"}
    return pl.DataFrame(rows, schema={c: pl.Float64 if c in floats else pl.String for c in rows[0]})


def sound_title(metrics: pl.DataFrame, runs: Sequence[str]) -> str:
    """The leading run."""
    row = sound_numbers(metrics, runs).row(0, named=True)
    if row["value"] is None:
        return "No run about soundscapes was scored."
    if row["value"] == 0:
        return "No run lists a species where it is heard: c-mAP 0."
    return f"{m(row['best'])} says best who is heard: c-mAP {num(row['value'])}."
