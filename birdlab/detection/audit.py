"""What data a study has, and whether its splits are clean: counts, differences, leaks, doubtful labels.

Everything here is counted on the tables; only :func:`frame_thumbnails` looks at pixels.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.training.leaks import frame_thumbnails, near_duplicates, shared, thumbnails

if TYPE_CHECKING:
    from birdlab.study import Run

__all__ = [
    "agreement",
    "compare_splits",
    "doubtful_labels",
    "frame_thumbnails",
    "leaks",
    "relative_area",
    "repeated_files",
    "summarise",
    "thumbnails",
]

#: Splits are flagged as different beyond these: ratio of medians or means, and difference of shares.
RATIO_FLAG, SHARE_FLAG = 1.5, 0.20


def relative_area(frames: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Labelled birds with ``area_frac``, their box area as a fraction of the frame in [0, 1].

    Rows left out of scoring, and crowds, are not birds and are dropped. A frame of unknown size gives null.

    >>> f = pl.DataFrame({"frame_id": ["a"], "width_px": [100], "height_px": [50], "video_id": ["v"], "split": ["test"]})
    >>> b = pl.DataFrame({"frame_id": ["a"], "w": [10.0], "h": [5.0], "is_ignored": [False], "is_crowd": [False]})
    >>> relative_area(f, b)["area_frac"].to_list()
    [0.01]
    """
    return (
        labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd"))
        .join(frames.select("frame_id", "width_px", "height_px", "video_id", "split"), on="frame_id", how="inner")
        .with_columns((pl.col("w") * pl.col("h") / (pl.col("width_px") * pl.col("height_px"))).alias("area_frac"))
    )


def summarise(frames: pl.DataFrame, labels: pl.DataFrame, by: str | list[str] = "split") -> pl.DataFrame:
    """Counts per split (or per any column of ``frames``).

    Returns:
        One row per group: ``sites``, ``sessions``, ``frames``, ``labelled``, ``empty``, ``unlabelled``, ``birds``, ``masks``,
        ``birds_per_frame`` (mean over labelled frames), ``max_birds``, ``median_box_px`` (px², of the box), ``median_box_frac``.
        Means and medians are null where there is nothing to take them of.
    """
    by = [by] if isinstance(by, str) else by
    birds = relative_area(frames.with_columns(pl.col("split")), labels)
    if by != ["split"]:
        extra = [c for c in by if c not in birds.columns]
        birds = birds.join(frames.select("frame_id", *extra), on="frame_id", how="left") if extra else birds
    state = pl.col("label_state")
    counts = frames.group_by(by, maintain_order=True).agg(
        pl.col("site_id").drop_nulls().n_unique().alias("sites"),
        pl.col("video_id").n_unique().alias("sessions"),
        pl.len().alias("frames"),
        *[(state == s).sum().alias(s) for s in ("labelled", "empty", "unlabelled")],
    )
    sizes = birds.group_by(by).agg(
        pl.len().alias("birds"),
        pl.col("mask_rle").is_not_null().sum().alias("masks"),
        (pl.col("w") * pl.col("h")).median().alias("median_box_px"),
        pl.col("area_frac").median().alias("median_box_frac"),
    )
    crowd = birds.group_by([*by, "frame_id"]).len().group_by(by).agg(pl.col("len").max().alias("max_birds"))
    joined = counts.join(sizes, on=by, how="left").join(crowd, on=by, how="left")
    return joined.with_columns(pl.col("birds", "masks").fill_null(0)).with_columns(
        pl.when(pl.col("labelled") > 0).then(pl.col("birds") / pl.col("labelled")).alias("birds_per_frame")
    )


def compare_splits(summary: pl.DataFrame) -> pl.DataFrame:
    """Pairs of splits that differ so much that a score on one says little about the other.

    Flagged: median box fraction or birds per labelled frame that differ by a factor of 1.5 or more, a share of empty frames
    that differs by 20 points or more. Splits without labelled birds cannot be compared and are left out.

    Returns:
        ``a``, ``b``, ``what``, ``value_a``, ``value_b``: one row per flagged difference, none when all agree.
    """
    rows: list[dict[str, object]] = []
    records = [r for r in summary.to_dicts() if r["birds"]]
    for a, b in combinations(records, 2):
        for column, what in (
            ("median_box_frac", "median box, share of the frame"),
            ("birds_per_frame", "birds per labelled frame"),
        ):
            x, y = a[column], b[column]
            if x and y and max(x, y) / min(x, y) >= RATIO_FLAG:
                rows.append({"a": a["split"], "b": b["split"], "what": what, "value_a": x, "value_b": y})
        x, y = (r["empty"] / max(1, r["empty"] + r["labelled"]) for r in (a, b))
        if abs(x - y) >= SHARE_FLAG:
            rows.append({"a": a["split"], "b": b["split"], "what": "share of empty frames", "value_a": x, "value_b": y})
    schema = {"a": pl.String, "b": pl.String, "what": pl.String, "value_a": pl.Float64, "value_b": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def leaks(frames: pl.DataFrame, media: pl.DataFrame, thumbs: pl.DataFrame | None = None) -> pl.DataFrame:
    """What stands in two splits at once: a site, a session, a date, the same file, a near-duplicate frame.

    A shared session or frame means that the test was partly seen in training; a shared site or date is weaker, and normal in
    some designs: it is shown, and the reader decides. The kinds are those of :mod:`birdlab.training.leaks`.

    Args:
        frames: the frames table.
        media: the media table (``recorded_at`` and ``sha256`` may be null).
        thumbs: as :func:`birdlab.training.leaks.thumbnails` makes them; None to skip near-duplicates.

    Returns:
        ``kind`` (session, same file, near-duplicate frame, site, date), ``what``, ``splits``, ``n`` (frames concerned).
    """
    split = frames.select("frame_id", "split")
    found = (
        shared(frames, media, split)
        .group_by("kind", "what", maintain_order=True)
        .agg(pl.col("split").unique().sort().str.join(", ").alias("splits"), pl.len().cast(pl.Int64).alias("n"))
    )
    pairs = near_duplicates(split, thumbs) if thumbs is not None else []
    alike = [("near-duplicate frame", f"{a} ≈ {b}", f"{part_a}, {part_b}", 2) for (a, part_a), (b, part_b), _ in pairs]
    return pl.concat([found, pl.DataFrame(alike, schema=found.schema, orient="row")])


def doubtful_labels(frames: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Labels that deserve a second look, one row each.

    Kinds: ``no area`` (w or h ≤ 0), ``outside the frame`` (no pixel inside), ``reaches over the edge`` (more than a pixel
    beyond it), ``the same box twice`` (equal box and class in one frame), ``nearly the same box twice`` (IoU > 0.9).

    Returns:
        ``kind``, ``frame_id``, ``label_id``, ``box`` (x, y, w, h as text).
    """
    b = labels.filter(~pl.col("is_ignored")).join(
        frames.select("frame_id", "width_px", "height_px"), on="frame_id", how="inner"
    )
    x, y, w, h = (pl.col(c) for c in "xywh")
    width, height = pl.col("width_px"), pl.col("height_px")
    outside = (x >= width) | (y >= height) | (x + w <= 0) | (y + h <= 0)
    over = (x < -1) | (y < -1) | (x + w > width + 1) | (y + h > height + 1)
    kind = (
        pl.when((w <= 0) | (h <= 0))
        .then(pl.lit("no area"))
        .when(outside)
        .then(pl.lit("outside the frame"))
        .when(over)
        .then(pl.lit("reaches over the edge"))
    )
    single = b.with_columns(kind.alias("kind")).filter(pl.col("kind").is_not_null())
    box = pl.format("{}, {}, {}, {}", *(pl.col(c).round(1) for c in "xywh")).alias("box")
    single = single.select("kind", "frame_id", "label_id", box)
    pairs = b.join(b, on=["frame_id", "category"], suffix="_2").filter(pl.col("label_id") < pl.col("label_id_2"))
    iw = pl.min_horizontal(x + w, pl.col("x_2") + pl.col("w_2")) - pl.max_horizontal(x, pl.col("x_2"))
    ih = pl.min_horizontal(y + h, pl.col("y_2") + pl.col("h_2")) - pl.max_horizontal(y, pl.col("y_2"))
    inter = iw.clip(0) * ih.clip(0)
    iou = inter / (w * h + pl.col("w_2") * pl.col("h_2") - inter)
    pairs = pairs.with_columns(iou.alias("iou")).filter(pl.col("iou") > 0.9)
    twice = (
        pl.when(pl.col("iou") == 1).then(pl.lit("the same box twice")).otherwise(pl.lit("nearly the same box twice"))
    )
    double = pairs.select(
        twice.alias("kind"), "frame_id", pl.format("{} and {}", "label_id", "label_id_2").alias("label_id"), box
    )
    return pl.concat([single, double]).sort("kind", "frame_id", "label_id")


def repeated_files(media: pl.DataFrame) -> pl.DataFrame:
    """Files with the same bytes under two names: ``sha256``, ``files`` (names joined by "; "), ``n``."""
    return (
        media.filter(pl.col("sha256").is_not_null())
        .group_by("sha256")
        .agg(pl.col("media_id").sort().str.join("; ").alias("files"), pl.len().cast(pl.Int64).alias("n"))
        .filter(pl.col("n") > 1)
        .sort("files")
    )


def agreement(run: Run) -> pl.DataFrame:
    """The second labelling scored against the first, as rows of ``metrics`` with model ``human``; needs no detector.

    Where no frame was labelled twice there is one row, null, with that reason.
    """
    from birdlab.detection.study import Scored, human_rows
    from birdlab.metrics import metric_frame

    frames = run.table("frames")
    inside = pl.col("split").cast(pl.String).is_in(list(run.recipe.scoring.splits))
    on = frames.filter(inside & (pl.col("label_state") != "unlabelled"))
    nothing = (schemas.empty("predictions"), schemas.empty("failures"))
    study = Scored(
        on, frames.clear(), run.table("labels"), *nothing, run.table("second_labels"), [], run.recipe.scoring, 0
    )
    return metric_frame({**row, "dataset": run.recipe.name} for row in human_rows(study))
