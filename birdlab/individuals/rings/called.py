"""How often the named bird is the right one: by matcher, way of assigning and list, beside chance."""

from __future__ import annotations

from typing import Any

import polars as pl

from birdlab.metrics import metric_row
from birdlab.stats import Interval, new_sessions

CALLED = {
    "matcher": pl.String, "assignment": pl.String, "gallery": pl.String, "n": pl.Int64, "n_named": pl.Int64,
    "n_tied": pl.Int64, "n_no_rings": pl.Int64, "named": pl.Float64,
    **{f"{name}{end}": pl.Float64 for name in ("right", "right_of_named", "wrong", "best_right") for end in ("", "_lo", "_hi")},
    "chance": pl.Float64, "chance_of_named": pl.Float64, "mean_list": pl.Float64, "reason": pl.String,
}  # fmt: skip
NOBODY = "no bird is named"


def call_outcomes(calls: pl.DataFrame, clips: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Each call beside the truth.

    Args:
        calls: table ``ring_calls``.
        clips: clip_id, video_id, individual_id.
        candidates: gallery, clip_id, individual_id of the lists.

    Returns:
        The calls with video_id, truth, in_list, is_named, is_right (a bird is named and it is the right one), best_right
        (the leading bird is the right one, named or not; where several tie none leads) and chance (1 / length of the list,
        0 where the true bird is not in it).
    """
    truth = clips.select("clip_id", "video_id", pl.col("individual_id").alias("truth"))
    members = candidates.select("gallery", "clip_id", pl.col("individual_id").alias("truth")).unique()
    rows = calls.with_columns(pl.col("gallery").cast(pl.String), pl.col("assignment").cast(pl.String))
    rows = rows.join(truth, on="clip_id", how="inner", maintain_order="left").join(
        members.with_columns(in_list=pl.lit(True)),
        on=["gallery", "clip_id", "truth"],
        how="left",
        maintain_order="left",
    )
    named = pl.col("individual_id").is_not_null()
    return rows.with_columns(pl.col("in_list").fill_null(False)).with_columns(
        named.alias("is_named"),
        (named & (pl.col("individual_id") == pl.col("truth"))).fill_null(False).alias("is_right"),
        (pl.col("best") == pl.col("truth")).fill_null(False).alias("best_right"),
        pl.when(pl.col("in_list") & (pl.col("n_candidates") > 0))
        .then(1 / pl.col("n_candidates"))
        .otherwise(0.0)
        .alias("chance"),
    )


def called(outcomes: pl.DataFrame, *, unit: str = "video") -> pl.DataFrame:
    """:data:`CALLED` of every matcher, way of assigning and list.

    Args:
        outcomes: of :func:`call_outcomes`.
        unit: ``video`` or ``individual``: the clusters of the intervals.

    Returns:
        n clips, n_named; named (share), right (named and right, of all), right_of_named, wrong (named and wrong, of all),
        best_right (the leading bird is right, named or not), each in [0, 1] with a 95 % interval for new videos (or birds);
        chance (of naming at random from the list; ``chance_of_named``: of the clips that are named), mean length of the
        list. Shares of none named are null.
    """
    column = {"video": "video_id", "individual": "truth"}[unit]
    rows: list[dict[str, Any]] = []
    for (matcher, assignment, gallery), part in outcomes.group_by(
        "matcher", "assignment", "gallery", maintain_order=True
    ):
        row: dict[str, Any] = {"matcher": matcher, "assignment": assignment, "gallery": gallery, "n": part.height}
        row["n_named"], row["n_tied"] = int(part["is_named"].sum()), int((part["n_tied"] > 0).sum())
        row["n_no_rings"] = int((part["n_with_rings"] == 0).sum())
        row["named"] = row["n_named"] / part.height
        wrong = part.with_columns(is_wrong=pl.col("is_named") & ~pl.col("is_right"))
        for name, hit, of in (
            ("right", "is_right", None), ("right_of_named", "is_right", "is_named"), ("wrong", "is_wrong", None),
            ("best_right", "best_right", None),
        ):  # fmt: skip
            value, ends = _share(wrong, hit, of, column, unit)
            row |= {name: value, f"{name}_lo": ends.lo, f"{name}_hi": ends.hi}
            if name == "right":
                row["reason"] = ends.reason
        row["chance_of_named"] = part.filter("is_named")["chance"].mean()
        row |= {"chance": part["chance"].mean(), "mean_list": part["n_candidates"].mean()}
        rows.append(row)
    return pl.DataFrame(rows, schema=CALLED)


def _share(part: pl.DataFrame, hit: str, of: str | None, column: str, unit: str) -> tuple[float | None, Interval]:
    rows = part.filter(of) if of else part
    by = rows.group_by(column, maintain_order=True).agg(pl.col(hit).sum().alias("k"), pl.len().alias("n"))
    ends = new_sessions(by["k"].to_list(), by["n"].to_list(), unit=unit)
    return (int(by["k"].sum()) / rows.height if rows.height else None), ends


def called_rows(found: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics``: group ``rings``, level ``gallery``, method ``matcher, assignment``."""
    rows = []
    for r in found.to_dicts():
        about = {
            "model": f"rings ({r['matcher']})", "group": "rings", "level": r["gallery"],
            "method": f"{r['assignment']}; new videos", "n": r["n"],
        }  # fmt: skip
        rows.append(metric_row(**about, metric="named", value=r["named"]))
        for name in ("right", "right_of_named", "wrong", "best_right"):
            chance = {"wrong": None, "right_of_named": r["chance_of_named"]}.get(name, r["chance"])
            reason = NOBODY if r[name] is None else r["reason"]
            ends = {"lo": r[f"{name}_lo"], "hi": r[f"{name}_hi"]}
            rows.append(
                metric_row(**about, metric=f"rings_{name}", value=r[name], **ends, chance=chance, reason=reason)
            )
    return rows
