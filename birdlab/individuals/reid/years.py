"""How many years lie between a query and the gallery, and what that does to the answer."""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.individuals.reid.measures import chance_top_k, expected_top_k
from birdlab.stats import new_sessions

YEARS = {
    "query_id": pl.String, "individual_id": pl.String, "years": pl.Int32, "days": pl.Int64, "reason": pl.String,
}  # fmt: skip
BY_YEARS = {
    "model": pl.String, "split": pl.String, "gallery": pl.String, "level": pl.String, "n": pl.Int64,
    "n_individuals": pl.Int64, "top1": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "chance": pl.Float64,
    "reason": pl.String,
}  # fmt: skip
_NO_GALLERY = "the bird is not in the gallery"
_NO_QUERY, _NO_CLIP = "the query has no year", "no gallery clip of the bird has a year"
#: Level of queries without a number of years.
UNKNOWN = "unknown"
_KEY = ("model", "split", "gallery")
_PLACES = (("n_above", float("nan")), ("n_tied", 0.0))


def years_between(queries: pl.DataFrame, gallery: pl.DataFrame) -> pl.DataFrame:
    """Calendar years between each query and the nearest gallery clip of the same bird.

    Args:
        queries: query_id (or clip_id), individual_id and, where known, year and date: clips that are asked for.
        gallery: individual_id, year, date: clips of the gallery of the same protocol.

    Returns:
        query_id, individual_id, years (0 = the same calendar year), days (to the nearest clip with a day), reason; in
        the order of the queries. ``years`` is null with its reason where the query or all gallery clips of the bird
        have no year, or where it is not in the gallery.

    >>> asked = pl.DataFrame({"query_id": ["q"], "individual_id": ["a"], "year": [2021]})
    >>> years_between(asked, pl.DataFrame({"individual_id": ["a", "a"], "year": [2014, 2019]}))["years"].to_list()
    [2]
    """
    name = "query_id" if "query_id" in queries.columns else "clip_id"
    rows = _with_times(queries).select(pl.col(name).alias("query_id"), "individual_id", "year", "date")
    seen = _with_times(gallery).select("individual_id", "year", "date")
    rows = rows.with_row_index("row")
    years = _nearest(rows, seen, "year").rename({"gap": "years"})
    days = _nearest(rows, seen, "date").rename({"gap": "days"})
    birds = seen.group_by("individual_id").agg(pl.col("year").count().alias("dated"))
    rows = rows.join(birds, on="individual_id", how="left")
    rows = rows.join(years, on="row", how="left").join(days, on="row", how="left").sort("row")
    why = (
        pl.when(pl.col("dated").is_null()).then(pl.lit(_NO_GALLERY))
        .when(pl.col("year").is_null()).then(pl.lit(_NO_QUERY))
        .when(pl.col("dated") == 0).then(pl.lit(_NO_CLIP))
    )  # fmt: skip
    out = rows.with_columns(why.alias("reason"))
    return out.select(pl.col(name).cast(dtype) for name, dtype in YEARS.items())


def _with_times(frame: pl.DataFrame) -> pl.DataFrame:
    """With the columns year and date; a year that is missing is that of the day."""
    for name, dtype in (("year", pl.Int32), ("date", pl.Date)):
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype=dtype).alias(name))
    return frame.with_columns(pl.coalesce(pl.col("year").cast(pl.Int32), pl.col("date").dt.year()).alias("year"))


def _nearest(rows: pl.DataFrame, seen: pl.DataFrame, column: str) -> pl.DataFrame:
    """row, gap: distance to the nearest value of the same bird, in whole years or days."""
    at = pl.col(column).cast(pl.Int64 if column == "year" else pl.Int32).cast(pl.Int64).alias("at")
    asked = rows.filter(pl.col(column).is_not_null()).select("row", "individual_id", at).sort("at")
    there = seen.filter(pl.col(column).is_not_null()).select("individual_id", at).unique().sort("at")
    there = there.with_columns(pl.col("at").alias("near"))
    found = asked.join_asof(there, on="at", by="individual_id", strategy="nearest", check_sortedness=False)
    found = found.filter(pl.col("near").is_not_null())
    return found.select("row", (pl.col("at") - pl.col("near")).abs().alias("gap"))


def years_by_split(clips: pl.DataFrame, roles: pl.DataFrame) -> pl.DataFrame:
    """:func:`years_between` for every protocol: split, then its columns; query_id is the name of the clip.

    Args:
        clips, roles: tables ``reid_clips`` and ``reid_roles``.
    """
    parts = [pl.DataFrame(schema={"split": pl.String, **YEARS})]
    told = roles.with_columns(pl.col("split", "role").cast(pl.String)).join(clips, on="clip_id", maintain_order="left")
    for (split,), mine in told.group_by("split", maintain_order=True):
        asked, gallery = (mine.filter(pl.col("role") == role) for role in ("query", "gallery"))
        parts.append(years_between(asked, gallery).select(pl.lit(split).alias("split"), pl.all()))
    return pl.concat(parts)


def level_of(years: pl.Expr) -> pl.Expr:
    """Words for a number of years: 0, 1, 2, 3 or more, unknown."""
    number = pl.when(years >= 3).then(pl.lit("3 or more")).otherwise(years.cast(pl.String))
    return pl.when(years.is_null()).then(pl.lit(UNKNOWN)).otherwise(number)


def outcomes_by_years(outcomes: pl.DataFrame, years: pl.DataFrame) -> pl.DataFrame:
    """Top-1 by years between query and gallery, for every method, protocol and list.

    Args:
        outcomes: table ``reid_outcomes``; validation rows, and queries of birds that are in no gallery, are not counted.
        years: split, query_id, years (:func:`years_by_split`).

    Returns:
        model, split, gallery, level (0, 1, 2, 3 or more, unknown), n, n_individuals, top1 (share of queries whose bird
        is first; with others in a tie the expected share), lo, hi (for new individuals: clustered by bird), chance
        (mean of 1 / length of the list, 0 where the bird is not in it), reason of a missing interval.
    """
    told = years.select(pl.col("split").cast(pl.String), "query_id", "years")
    rows = outcomes.filter((pl.col("role") == "query") & pl.col("is_known")).with_columns(
        pl.col("split", "gallery").cast(pl.String)
    )
    rows = rows.join(told, on=["split", "query_id"], how="left", maintain_order="left")
    places = [rows[name].cast(pl.Float64).fill_null(missing).to_numpy() for name, missing in _PLACES]
    rows = rows.with_columns(
        level_of(pl.col("years")).alias("level"),
        pl.Series("top1", expected_top_k(*places, 1)),
        pl.Series("chance", chance_top_k(rows["n_candidates"].to_numpy(), rows["in_list"].to_numpy(), 1)),
    )
    out = []
    for key, group in rows.group_by(*_KEY, "level", maintain_order=True):
        birds = group.group_by("individual_id", maintain_order=True).agg(pl.col("top1").sum(), pl.len())
        ends = new_sessions(np.asarray(birds["top1"]), np.asarray(birds["len"]), unit="individual")
        means = group["top1"].mean(), ends.lo, ends.hi, group["chance"].mean()
        out.append((*key, group.height, birds.height, *means, ends.reason))
    return pl.DataFrame(out, schema=BY_YEARS, orient="row").sort(*_KEY, "level", maintain_order=True)
