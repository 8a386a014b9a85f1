"""What is in every part of a split, as a table to print."""

from __future__ import annotations

import polars as pl

from birdlab.detection.audit import summarise
from birdlab.detection.boxes import RELATIVE_BINS, relative_size, size_counts
from birdlab.training.splits import Splits


def split_table(frames: pl.DataFrame, labels: pl.DataFrame, splits: Splits) -> pl.DataFrame:
    """One row per part: how much it holds, and how like the whole it is.

    Args:
        frames: table ``frames``.
        labels: table ``labels``.
        splits: as :func:`birdlab.training.splits.make_splits` gives them.

    Returns:
        ``split`` (then ``all``), ``wanted`` and ``share`` of the labelled frames in [0, 1], ``frames``, ``empty``,
        ``birds``, ``sessions``, ``sites``, ``birds_per_frame`` (mean over all frames of the part, those without a bird too),
        ``median_box_frac`` (of the frame's area), and ``size_<bin>``: share of the part's birds in each bin of relative
        size that has a bird at all. Means and shares are null where there is nothing to take them of.
    """
    inside = splits.apply(frames)
    both = [summarise(inside, labels), summarise(inside.with_columns(pl.lit("all").alias("split")), labels)]
    counts = pl.concat([b.with_columns(pl.col("split").cast(pl.String)) for b in both], how="vertical_relaxed")
    sizes = _sizes(inside, labels)
    total = inside.height
    rows = counts.with_columns(
        pl.col("labelled", "empty").cast(pl.Int64),
        (pl.col("frames") / total).alias("share"),
        pl.when(pl.col("frames") > 0).then(pl.col("birds") / pl.col("frames")).alias("birds_per_frame"),
        pl.col("split").replace_strict({**splits.shares, "all": 1.0}, return_dtype=pl.Float64).alias("wanted"),
    )
    order = {p: k for k, p in enumerate((*splits.parts, "all"))}
    keep = ["wanted", "share", "frames", "empty", "birds", "sessions", "sites", "birds_per_frame", "median_box_frac"]
    joined = rows.select("split", *keep).join(sizes, on="split", how="left")
    return joined.sort(pl.col("split").replace_strict(order, return_dtype=pl.Int64))


def _sizes(inside: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    birds = labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd")).join(
        inside.select("frame_id", "split", "width_px", "height_px"), on="frame_id", how="inner"
    )
    sized = birds.select(
        pl.col("split").cast(pl.String),
        relative_size(*(pl.col(c) for c in ("w", "h", "width_px", "height_px"))).alias("s"),
    ).drop_nulls()
    used = [k for k, n in enumerate(size_counts(sized["s"].to_numpy(), RELATIVE_BINS)) if n]
    rows = []
    for part in [*inside["split"].cast(pl.String).unique().sort(), "all"]:
        found = sized if part == "all" else sized.filter(pl.col("split") == part)
        counts = size_counts(found["s"].to_numpy(), RELATIVE_BINS)
        shares = {f"size_{RELATIVE_BINS[k].level}": counts[k] / found.height if found.height else None for k in used}
        rows.append({"split": part, **shares})
    names = [f"size_{RELATIVE_BINS[k].level}" for k in used]
    return pl.DataFrame(rows, schema={"split": pl.String, **dict.fromkeys(names, pl.Float64)})
