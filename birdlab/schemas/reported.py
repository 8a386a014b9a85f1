"""What the report prints."""

from __future__ import annotations

import polars as pl

from birdlab.schemas.contract import I32, I64, F, S, may, must, table

TABLES = (
    table(
        "metrics",
        "Every number the report prints, one row each.",
        ("dataset", "model", "group", "level", "metric", "method"),
        must("dataset", S, "name of the data set"),
        must("model", S, "model, 'human', or '' where none is concerned"),
        must(
            "group",
            S,
            "what the rows are sliced by ('all', 'session', 'site', 'relative_size', 'coco_size', 'split')",
        ),
        must("level", S, "the slice within the group ('all' for everything)"),
        must("metric", S, "name of the measure ('ap', 'ap50', 'recall', 'tp' …)"),
        may("value", F, "the number; null when it is undefined"),
        may("lo", F, "lower end of the 95 % interval"),
        may("hi", F, "upper end of the 95 % interval"),
        may("n", I64, "what the number rests on (birds, frames, …)"),
        may("n_clusters", I32, "clusters behind the interval"),
        may("chance", F, "what guessing would give"),
        must("method", S, "settings and kind of interval ('within_sessions', 'new_sessions', 'conf=0.25 iou=0.5' …)"),
        may("published", F, "the published number, where one stands beside it"),
        may("source", S, "paper and table of the published number"),
        may("reason", S, "why the value or the interval is null"),
    ),
    table(
        "artefacts",
        "Every table and figure of the report.",
        ("id",),
        must("id", S, "identifier, unique in the run ('tab-detection')"),
        must("kind", pl.Enum(["table", "figure", "gallery"]), "what it is"),
        must("notebook", S, "notebook that made it"),
        must("title", S, "first sentence of the caption: the finding"),
        must("caption", S, "how to read it"),
        may("alt", S, "what a reader who cannot see it should know"),
        must("path", S, "file it was drawn from, relative to the run"),
        must("sha256", S, "hash of that file"),
    ),
)
