"""The detection numbers of a whole study: every model on the scored frames, each number one row of ``metrics``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.detection.comparison import compare_recall
from birdlab.detection.curves import curve, thin_curve
from birdlab.detection.groups import highest_level
from birdlab.detection.matching import at_confidence
from birdlab.detection.model_rows import Rows, human_rows, model_rows
from birdlab.detection.published import published
from birdlab.detection.scored import Scored, scored
from birdlab.metrics import metric_frame, metric_row

if TYPE_CHECKING:
    from birdlab.study import Run


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables ``matches`` (every model at the recipe's overlap and confidence) and ``metrics_detection``."""
    study = scored(run)
    everything = study.match(study.models)
    matches = at_confidence(everything, study.settings.conf)
    rows = study_rows(study, everything, matches)
    rows += speed_rows(run.table("speed") if study.models else schemas.empty("speed"), study.models)
    metrics = metric_frame({**row, "dataset": run.recipe.name} for row in rows)
    return {"matches": matches, "metrics_detection": pl.concat([metrics, published(study.settings.published)])}


def curves(run: Run, *, max_points: int = 500) -> pl.DataFrame:
    """Precision, recall and F1 against confidence for every model of a run, thinned for drawing.

    Returns:
        See :func:`birdlab.detection.curves.curve`; the row of the highest F1 is always among them.
    """
    study = scored(run)
    return thin_curve(curve(study.match(study.models)), max_points=max_points)


def comparisons(run: Run) -> pl.DataFrame:
    """Pairs of models of a run on the same birds; see :func:`birdlab.detection.comparison.compare_recall`."""
    study = scored(run)
    return compare_recall(study.match(study.models, conf=study.settings.conf), study.frames)


def study_rows(study: Scored, everything: pl.DataFrame, matches: pl.DataFrame) -> Rows:
    """All rows of a study but speed and published ones.

    Args:
        study: what is scored.
        everything: matches of all models at confidence 0.
        matches: the same at the recipe's confidence.
    """
    rows = count_rows(study)
    if not study.models:
        rows.append(metric_row(model="", metric="ap", method=study.coco, reason="no model in the recipe"))
    for name in study.models:
        mine = pl.col("model") == name
        rows += model_rows(study, name, everything.filter(mine), matches.filter(mine))
    rows += pair_rows(study, matches)
    return rows + human_rows(study)


def count_rows(study: Scored) -> Rows:
    """What is scored: frames by state, birds, sessions, sites."""
    frames = study.frames
    birds = study.labels.join(frames.select("frame_id"), on="frame_id", how="semi")
    empty = frames.filter(pl.col("label_state") == "empty").height
    n = {
        "n_frames": frames.height,
        "n_labelled_frames": frames.height - empty,
        "n_empty_frames": empty,
        "n_unlabelled_frames": study.n_unlabelled,
        "n_birds": birds.filter(~pl.col("is_crowd") & ~pl.col("is_ignored")).height,
        "n_crowds": birds.filter(pl.col("is_crowd") & ~pl.col("is_ignored")).height,
        "n_ignored_regions": birds.filter(pl.col("is_ignored")).height,
        "n_sessions": frames["video_id"].n_unique(),
        "n_sites": frames["site_id"].drop_nulls().n_unique(),
    }
    method = "splits=" + ",".join(study.settings.splits)
    rows = [metric_row(model="", metric=k, value=float(v), n=v, method=method) for k, v in n.items()]
    unit = highest_level(frames)
    # What the intervals "; new_sessions" are for: another site where sites are known, else another session.
    clusters = n["n_sites"] if unit == "site" else n["n_sessions"]
    return [*rows, metric_row(model="", metric="new_sessions_unit", value=float(clusters), n=clusters, method=unit)]


def pair_rows(study: Scored, matches: pl.DataFrame) -> Rows:
    """Differences in recall of pairs of models: the difference, its p values and whether it is confirmed (1 or 0)."""
    rows: Rows = []
    for r in compare_recall(matches, study.frames).iter_rows(named=True):
        at = {"model": f"{r['model_a']} - {r['model_b']}", "group": "pair", "n_clusters": r["n_clusters"]}
        at["method"] = f"{study.method}; {r['kind']}"
        rows.append(
            metric_row(
                metric="recall_difference",
                value=r["difference"],
                lo=r["lo"],
                hi=r["hi"],
                n=r["n"],
                reason=r["reason"],
                **at,
            )
        )
        family = {"n": r["family"], "reason": r["reason"]}
        rows += [metric_row(metric=f"recall_difference_{k}", value=r[k], **family, **at) for k in ("p", "p_holm")]
        rows.append(metric_row(metric="recall_difference_confirmed", value=float(r["confirmed"]), **family, **at))
    return rows


def speed_rows(speed: pl.DataFrame, models: Sequence[str]) -> Rows:
    """Frames per second of each model, for the network alone and from file to boxes."""
    rows: Rows = []
    for name in models:
        timed = speed.filter(pl.col("model") == name)
        if timed.is_empty():
            why = "nothing was timed: the detections were made elsewhere or before"
            rows.append(metric_row(model=name, metric="fps_end_to_end", method="not timed", reason=why))
        for r in timed.iter_rows(named=True):
            method = f"{r['device']}, batch {r['batch']}, {r['imgsz']} px, {r['precision']}"
            reason = None if r["fps"] is not None else "nothing was timed"
            rows.append(
                metric_row(
                    model=name,
                    metric=f"fps_{r['stage']}",
                    value=r["fps"],
                    n=r["n_frames"],
                    method=method,
                    reason=reason,
                )
            )
    return rows
