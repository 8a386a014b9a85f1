"""The tasks below the biology: actions, keypoints and tracks of a study, each number one row of ``metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from birdlab.individuals import actions, keypoints, tracking
from birdlab.individuals.inputs import section_of
from birdlab.individuals.published import published
from birdlab.individuals.study import colony_of
from birdlab.metrics import metric_frame

if TYPE_CHECKING:
    from birdlab.recipe import Recipe
    from birdlab.study import Run

TASK_METRICS = ("accuracy", "macro_f1", "error_mean_px", "pck_5", "pck_10")


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``tracking_scores`` and ``metrics_tasks``."""
    section = section_of(run)
    scores = tracking.track_colony(colony_of(run))
    rows = tracking.tracking_rows(scores)
    if section.actions:
        rows += actions.action_rows(run.table("action_clips"), section.actions.labels)
    if section.keypoints:
        rows += keypoints.keypoint_rows(run.table("keypoints"), run.table("keypoint_oks"))
    metrics = metric_frame(row | {"dataset": run.recipe.name} for row in rows)
    printed = published(section.published).filter(pl.col("metric").is_in(TASK_METRICS))
    return {"tracking_scores": scores, "metrics_tasks": pl.concat([metrics, printed])}


def namers(recipe: Recipe) -> list[str]:
    """Models that name behaviours of clips."""
    section = recipe.individuals
    return list(section.actions.predictions) if section and section.actions else []


def placers(recipe: Recipe) -> list[str]:
    """Models that place keypoints."""
    section = recipe.individuals
    return list(section.keypoints.predictions) if section and section.keypoints else []


def labels(recipe: Recipe) -> list[str]:
    """The declared list of behaviours."""
    section = recipe.individuals
    return list(section.actions.labels) if section and section.actions else []


def trackers(scores: pl.DataFrame) -> list[str]:
    """Trackers that were scored, in order."""
    return scores["tracker"].unique(maintain_order=True).to_list()


def sigma_notes(recipe: Recipe) -> list[str]:
    """Which sigmas OKS was taken with."""
    section = recipe.individuals
    if section is None or section.keypoints is None:
        return []
    sigmas = section.keypoints.sigmas
    told = (
        f"{sigmas:g} for every keypoint"
        if isinstance(sigmas, float)
        else ", ".join(f"{k} {v:g}" for k, v in sigmas.items())
    )
    return [f"OKS with sigmas as declared: {told}. A larger sigma forgives more."]
