"""Clips that are asked for, with the birds that may be answered."""

from __future__ import annotations

import polars as pl

from birdlab import schemas


def queries_of(
    clips: pl.DataFrame, roles: pl.DataFrame, candidates: pl.DataFrame | None = None, *, role: str = "query"
) -> pl.DataFrame:
    """Table ``reid_queries``: one row per clip and protocol that asks for it.

    Args:
        clips, roles: tables ``reid_clips`` and ``reid_roles``.
        candidates: table ``reid_candidates``; None: no lists.
        role: query, or validation.

    Returns:
        Queries, named as their clips; lists are null where the video has none, and empty where its list is.
    """
    rows = roles.filter(pl.col("role").cast(pl.String) == role).join(
        clips.select("clip_id", "video_id", "individual_id"), on="clip_id", maintain_order="left"
    )
    rows = rows.with_columns(pl.col("clip_id").alias("query_id"))
    for gallery in ("territory", "neighbours") if candidates is not None else ():
        lists = candidates.filter(pl.col("gallery").cast(pl.String) == gallery)
        lists = lists.select("video_id", pl.col("candidates").alias(f"candidates_{gallery}"))
        rows = rows.join(lists, on="video_id", how="left", maintain_order="left")
    return schemas.validate("reid_queries", rows.drop("role"))


def gallery_of(clips: pl.DataFrame, roles: pl.DataFrame, split: str, *, role: str = "gallery") -> pl.DataFrame:
    """Clips of the gallery of one protocol (or those of another ``role``): rows of ``reid_clips``, in their order."""
    mine = roles.filter((pl.col("split").cast(pl.String) == split) & (pl.col("role").cast(pl.String) == role))
    return clips.join(mine.select("clip_id"), on="clip_id", how="semi", maintain_order="left")
