"""Rings that a segmenter found against rings that were given: how many it finds, and the colour of those it found."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.detection.matching import match
from birdlab.stats import new_sessions

IOU = 0.5
NOTHING = "no image with given rings was looked at"


def box_of(outlines: pl.Series) -> pl.DataFrame:
    """x, y, w, h of the boxes around outlines (x, y, x, y, … in px).

    >>> box_of(pl.Series([[1.0, 2.0, 4.0, 2.0, 4.0, 6.0]])).row(0)
    (1.0, 2.0, 3.0, 4.0)
    """
    rows = []
    for outline in outlines:
        points = np.asarray(outline, dtype=np.float64).reshape(-1, 2)
        low, high = points.min(axis=0), points.max(axis=0)
        rows.append((*low.tolist(), *(high - low).tolist()))
    return pl.DataFrame(rows, schema=dict.fromkeys("xywh", pl.Float64), orient="row")


def hold_against(
    found: pl.DataFrame, given: pl.DataFrame, looked_at: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Match found rings to given ones (boxes, IoU ≥ 0.5, one to one, the surest first).

    Args:
        found: rings with clip_id, frame_index, ring, image, outline, score.
        given: rings with image, outline, truth.
        looked_at: image and video_id of every image that has given rings (also none) and was looked at.

    Returns:
        ``found`` with the letter of the given ring it lies on in ``truth``, and the scores: n_given, n_found (on these
        images), n_hit; recall and precision with lo, hi (new videos); reason where there is nothing to compare.

    Masks that touch are told apart by their boxes alone: rings of one leg lie above one another, and hardly overlap.
    """
    pictures = looked_at.unique("image", maintain_order=True)
    mine = found.unique(["image", "outline"], maintain_order=True).join(
        pictures, on="image", how="semi", maintain_order="left"
    )
    theirs = given.join(pictures, on="image", how="semi", maintain_order="left")
    out: dict[str, Any] = {"n_given": theirs.height, "n_found": mine.height, "n_hit": 0, "n_images": pictures.height}
    out |= dict.fromkeys(("recall", "recall_lo", "recall_hi", "precision", "precision_lo", "precision_hi", "reason"))
    if theirs.is_empty():
        return found.with_columns(truth=pl.lit(None, pl.String)), out | {"reason": NOTHING}
    pairs = _pairs(mine, theirs, pictures)
    truth = pairs.select("image", "outline", "truth")
    counted = _counts(mine, theirs, pairs, pictures)
    out["n_hit"] = int(counted["hits"].sum())
    for name, of in (("recall", "given"), ("precision", "found")):
        total = int(counted[of].sum())
        ends = new_sessions(counted["hits"].to_list(), counted[of].to_list(), unit="video")
        out |= {name: out["n_hit"] / total if total else None, f"{name}_lo": ends.lo, f"{name}_hi": ends.hi}
        out["reason"] = out["reason"] or ends.reason
    joined = found.drop("truth", strict=False).join(truth, on=["image", "outline"], how="left", maintain_order="left")
    return joined, out


def _pairs(mine: pl.DataFrame, theirs: pl.DataFrame, pictures: pl.DataFrame) -> pl.DataFrame:
    """image, outline (of the found ring), truth of every hit."""
    frames = schemas.TABLES["frames"].conform(
        pictures.select(
            pl.col("image").alias("frame_id"),
            pl.col("image").alias("media_id"),
            "video_id",
            pl.lit(0, pl.Int32).alias("frame_index"),
            pl.lit("labelled").alias("label_state"),
            pl.lit("test").alias("split"),
        )
    )
    labels = _as_table(theirs, "label_id").with_columns(is_ignored=pl.lit(False), is_crowd=pl.lit(False))
    predictions = _as_table(mine, "prediction_id").with_columns(model=pl.lit("rings"))
    rank = pl.int_range(pl.len(), dtype=pl.Int32).over("frame_id").alias("rank")
    hits = match(labels, predictions.with_columns(rank), frames, iou=IOU, conf=0.0, class_agnostic=True)
    hits = hits.filter(pl.col("outcome").cast(pl.String) == "tp").select("label_id", "prediction_id")
    numbered = mine.select("image", "outline").with_row_index("prediction_id").with_columns(_text("prediction_id"))
    letters = theirs.select("truth").with_row_index("label_id").with_columns(_text("label_id"))
    return hits.join(numbered, on="prediction_id").join(letters, on="label_id")


def _text(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String)


def _as_table(rings: pl.DataFrame, key: str) -> pl.DataFrame:
    about = pl.DataFrame(
        {
            key: [str(i) for i in range(rings.height)],
            "frame_id": rings["image"],
            "category": ["ring"] * rings.height,
            "score": rings["score"] if "score" in rings.columns else [1.0] * rings.height,
        },
        schema_overrides={key: pl.String, "score": pl.Float64, "category": pl.String},
    )
    return pl.concat([about, box_of(rings["outline"])], how="horizontal")


def _counts(mine: pl.DataFrame, theirs: pl.DataFrame, pairs: pl.DataFrame, pictures: pl.DataFrame) -> pl.DataFrame:
    """given, found, hits per video."""
    out = pictures
    for name, rows in (("given", theirs), ("found", mine), ("hits", pairs)):
        out = out.join(rows.group_by("image").len(name), on="image", how="left", maintain_order="left")
    return out.group_by("video_id", maintain_order=True).agg(
        pl.col("given", "found", "hits").fill_null(0).cast(pl.Int64).sum()
    )
