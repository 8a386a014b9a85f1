"""10_summary: the key numbers of re-identification beside those that CHIRP prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import pct
from birdlab.chapters.reid import GALLERY, LISTS, SPLIT, number
from birdlab.chapters.reid_words import best, lead
from birdlab.report.show import m
from birdlab.report.table import Col

COLUMNS = {
    "measure": Col("Right bird at the first place", kind="text"),
    "best": Col("Best", kind="text"),
    "value": Col("Value", "%", kind="percent"),
    "chance": Col("Guessing", "%", kind="percent"),
    "published": Col("Published", "CHIRP, %", kind="text"),
}


def naming_numbers(metrics: pl.DataFrame, methods: Sequence[str]) -> pl.DataFrame:
    """One row per protocol and list: the best method of this study with its interval, guessing, and the printed range."""
    printed = metrics.filter(pl.col("published").is_not_null() & (pl.col("metric") == "top1"))
    rows: list[dict[str, Any]] = []
    for split, gallery in LISTS:
        name = best(metrics, methods, split, gallery)
        there = printed.filter((pl.col("group") == split) & (pl.col("level") == gallery))["published"]
        if name is None and there.is_empty():
            continue
        found = number(metrics, "top1", name or "", split, gallery)
        row = {"measure": f"{SPLIT[split]}, {GALLERY[gallery]}", "best": name, "value": found["value"]}
        row |= {"value_lo": found["lo"], "value_hi": found["hi"], "chance": found["chance"]}
        span = f"{100 * there.min():.0f}–{100 * there.max():.0f}" if len(there) else None  # type: ignore[operator]
        none = "no method was asked"
        row |= {"published": span, "best_reason": none, "value_reason": found["reason"] or none, "chance_reason": none}
        rows.append(row | {"published_reason": "no published number stands beside this study"})
    floats = {"value", "value_lo", "value_hi", "chance"}
    names = ("measure", "best", "value", "value_lo", "value_hi", "chance", "published")
    names += ("best_reason", "value_reason", "chance_reason", "published_reason")
    return pl.DataFrame(rows, schema={c: pl.Float64 if c in floats else pl.String for c in names})


def naming_title(metrics: pl.DataFrame, methods: Sequence[str]) -> str:
    """The best method from the shortest list and from all birds."""
    split, gallery = lead(metrics)
    told = []
    for which in dict.fromkeys((gallery, "all")):
        name = best(metrics, methods, split, which)
        if name is not None:
            found = number(metrics, "top1", name, split, which)
            told.append(
                f"{m(name)} names {pct(found['value'])} right ({GALLERY[which]}; guessing {pct(found['chance'])})"
            )
    return f"{'; '.join(told)}." if told else "No bird was named."
