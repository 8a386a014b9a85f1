"""Detectors side by side: ranks and how sure they are, orders in other places, birds that all of them miss, speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.detection import agreement, ranking
from birdlab.detection.groups import highest_level
from birdlab.detection.scored import Scored, scored
from birdlab.metrics import metric_frame, metric_row

if TYPE_CHECKING:
    from birdlab.study import Run

#: Measures without counts per session, ranked by value.
BY_VALUE = ("ap", "ap50", "mask_ap")
#: Measures compared between places.
COMPARED = ("recall", "precision", "f1")
SETS = {"set_a": pl.String, "set_b": pl.String}


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``ranks``, ``rank_agreement``, ``rank_moves``, ``model_agreement``, ``missed_by_all``, ``speed_points``
    and ``metrics_comparison``."""
    study, matches = scored(run), run.table("matches")
    values = values_of(run.table("metrics_detection"), study.models)
    ranks = ranks_of(study, matches, values)
    orders, moves = between_places(study, matches)
    boxes_and_masks = agreement.rank_agreement(values, values, pairs=[("ap", "mask_ap")])
    orders = pl.concat([_named(boxes_and_masks, "boxes", "masks"), orders])
    together = agreement.agreement(matches, study.frames)
    missed = agreement.missed_by_all(matches)
    points = ranking.speed_frame(ranks, run.table("speed"), metric="recall") if study.models else pl.DataFrame()
    rows = ranking.rank_rows(ranks, method=study.method) + agreement_rows(together, study.method)
    return {
        "ranks": ranks,
        "rank_agreement": orders,
        "rank_moves": moves,
        "model_agreement": together,
        "missed_by_all": missed,
        "speed_points": points,
        "metrics_comparison": metric_frame({**row, "dataset": run.recipe.name} for row in rows),
    }


def values_of(metrics: pl.DataFrame, models: list[str]) -> pl.DataFrame:
    """AP of boxes and masks of every model: model, metric, value."""
    rows = metrics.filter(
        pl.col("metric").is_in(list(BY_VALUE))
        & pl.col("model").is_in(models)
        & (pl.col("group") == "all")
        & pl.col("published").is_null()
    )
    return rows.select("model", "metric", "value").unique(["model", "metric"], keep="first", maintain_order=True)


def ranks_of(study: Scored, matches: pl.DataFrame, values: pl.DataFrame | None = None) -> pl.DataFrame:
    """Ranks of every measure; see :func:`birdlab.detection.ranking.rank_table`."""
    counts = ranking.session_counts(matches, study.frames, failures=study.failures)
    return ranking.rank_table(counts, values=values)


def between_places(study: Scored, matches: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each site against all others (sessions, where no site is known; splits, where several are scored).

    Returns:
        Rows of :func:`birdlab.detection.agreement.rank_agreement` and of :func:`birdlab.detection.agreement.moved`, each
        with the two places, ``set_a`` and ``set_b``. No rows for a single place or a single model.
    """
    orders, moves = [], []
    for name, rest, inside, outside in _places(study):
        pair = []
        for part in (inside, outside):
            frames = study.frames.filter(part)
            here = matches.join(frames.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
            counts = ranking.session_counts(here, frames, failures=study.failures)
            pair.append(ranking.rank_table(counts.filter(pl.col("metric").is_in(list(COMPARED)))))
        orders.append(_named(agreement.rank_agreement(*pair), name, rest))
        moves.append(_named(agreement.moved(*pair), name, rest))
    nothing = pl.DataFrame(schema=_EMPTY)
    blank = (agreement.rank_agreement(nothing, nothing), agreement.moved(nothing, nothing))
    first, second = (
        pl.concat([_named(b.clear(), "", ""), *found]) for b, found in zip(blank, (orders, moves), strict=True)
    )
    return first, second


_EMPTY = {"model": pl.String, "metric": pl.String, "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}


def _places(study: Scored) -> Iterator[tuple[str, str, Any, Any]]:
    """(name, name of the rest, frames inside, frames outside) of every place, where there are two and two models."""
    if len(study.models) < 2:
        return
    column = "split" if study.frames["split"].n_unique() > 1 else None
    unit = highest_level(study.frames)
    column = column or ("site_id" if unit == "site" else "video_id")
    names = study.frames[column].cast(pl.String).unique().sort().to_list()
    if len(names) < 2:
        return
    for name in names:
        here = pl.col(column).cast(pl.String) == name
        yield f"{name}", "all others", here, ~here


def _named(table: pl.DataFrame, a: str, b: str) -> pl.DataFrame:
    return table.select(pl.lit(a).alias("set_a"), pl.lit(b).alias("set_b"), pl.all())


def agreement_rows(together: pl.DataFrame, method: str) -> list[dict[str, Any]]:
    """What models find together as rows of ``metrics``."""
    rows = []
    for r in together.iter_rows(named=True):
        names = [name for name in (r["model_a"], r["model_b"]) if name]
        at = {"model": " - ".join(names), "group": "agreement", "level": "all", "method": f"{method}; new_sessions"}
        ends = {"lo": r["lo"], "hi": r["hi"], "n": r["n"], "n_clusters": r["n_clusters"], "reason": r["reason"]}
        rows.append(metric_row(metric=r["quantity"], value=r["value"], **ends, **at))
    return rows
