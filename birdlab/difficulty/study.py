"""The difficulty analysis of a whole study: instances, recall by factor, slices, pairs, errors, calibration, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from birdlab.detection.calibration import calibration
from birdlab.detection.errors import study_errors
from birdlab.detection.groups import clusters, highest_level
from birdlab.detection.scored import scored
from birdlab.difficulty.anomalies import strata
from birdlab.difficulty.arrays import Birds, arrange
from birdlab.difficulty.bins import Bins, bin_instances
from birdlab.difficulty.impact import impact_intervals
from birdlab.difficulty.paired import compare_models
from birdlab.difficulty.slices import slices
from birdlab.difficulty.univariate import recall_by_bin, sensitivity

if TYPE_CHECKING:
    from birdlab.recipe import Difficulty
    from birdlab.study import Run

#: Factors of the chapter, in its order: columns of the table ``factors``.
MEASURED = (
    *("rel_size", "brightness_local", "brightness_global", "contrast_local", "contrast_global", "blur_local"),
    *("clutter_local", "clutter_background", "crowding", "border_px", "occlusion"),
)
#: Permutations per test: Holm's correction over the whole family needs p values that small.
PER_TEST = 40
INSTANCES = {
    **dict.fromkeys(("model", "instance", "session", "stratum", "site", "frame"), pl.String),
    **{"block": pl.Int64, "recovered": pl.Boolean},
    **dict.fromkeys(MEASURED, pl.Float64),
    "reason": pl.String,
}


@dataclass(frozen=True)
class Arranged:
    """The birds of a study ready for its statistics.

    Args:
        birds: as arrays.
        binned: bins by factor.
        unit: what ``birds.top`` is: ``site``, ``session``, or ``recording`` where sessions are split into strata.
        factors: the factors looked at, in order.
    """

    birds: Birds
    binned: dict[str, Bins]
    unit: str
    factors: tuple[str, ...]


def build_instances(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the table ``instances``: every labelled bird of the scored splits and what each model made of it."""
    looked = run.table("frames")
    facts = strata(run.table("frame_facts"))
    names = [model.name for model in run.recipe.models]
    failures = run.table("failures") if names else None
    matches = run.table("matches")
    return {"instances": instances(run.table("factors"), matches, looked, facts, models=names, failures=failures)}


def instances(
    factors: pl.DataFrame,
    matches: pl.DataFrame,
    frames: pl.DataFrame,
    stratum: pl.DataFrame,
    *,
    models: list[str],
    failures: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Labelled birds with their factors and the outcome of every model.

    Args:
        factors: table ``factors``.
        matches: table ``matches`` at the recipe's overlap and confidence.
        frames: table ``frames``.
        stratum: frame_id, stratum (:func:`birdlab.difficulty.anomalies.strata`).
        models: names in the recipe's order.
        failures: table ``failures``; a bird on a frame that a model failed on was not missed by it.

    Returns:
        One row per model and bird (:data:`INSTANCES`): ``recovered`` is true for a hit, false for a miss, null where
        the model was not asked. ``block`` is the cluster of frames, ``stratum`` the session or, where its camera was
        nudged or its light changed to infrared, the part of it. No rows without a model.
    """
    place = clusters(frames).join(stratum, on="frame_id", how="left")
    birds = factors.join(place, on="frame_id", how="left", maintain_order="left")
    birds = birds.with_columns(pl.col("stratum").fill_null(pl.col("session")))
    birds = birds.rename({"label_id": "instance", "frame_id": "frame"})
    found = matches.filter(pl.col("outcome").is_in(["tp", "fn"]))
    found = found.select("model", instance="label_id", recovered=pl.col("outcome") == "tp")
    parts = [pl.DataFrame(schema=INSTANCES)]
    for name in models:
        mine = birds.with_columns(model=pl.lit(name))
        mine = mine.join(found, on=["model", "instance"], how="left", maintain_order="left")
        if failures is not None:
            lost = failures.filter(pl.col("model") == name)["frame_id"].to_list()
            asked = ~pl.col("frame").is_in(lost)
            mine = mine.with_columns(recovered=pl.when(asked).then("recovered"))
        parts.append(mine.select(pl.col(c).cast(t) for c, t in INSTANCES.items()))
    return pl.concat(parts)


def analysed(table: pl.DataFrame) -> tuple[str, ...]:
    """The factors of :data:`MEASURED` that any bird has a value of; occlusion only where labels carry it.

    >>> analysed(pl.DataFrame({"rel_size": [0.1], "occlusion": [None]}))
    ('rel_size',)
    """
    return tuple(name for name in MEASURED if name in table.columns and table[name].is_not_null().any())


def arranged(rows: pl.DataFrame, frames: pl.DataFrame, settings: Difficulty) -> Arranged:
    """The instances as arrays with their bins; sessions are split into strata where the recipe allows it.

    Args:
        rows: table ``instances``.
        frames: table ``frames``, those scored: decides whether new ones are sessions or sites.
        settings: the recipe's ``difficulty``.
    """
    unit, factors = highest_level(frames), analysed(rows)
    if settings.split_strata and (rows["stratum"] != rows["session"]).any():
        rows = rows.with_columns(recording="session", session="stratum")
        unit = unit if unit == "site" else "recording"
    birds = arrange(rows, factors, unit=unit)
    return Arranged(birds, bin_instances(birds.table, factors, preset=settings.preset), unit, factors)


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables of the chapter on difficulty.

    Returns:
        ``difficulty_bins`` (recall by bin), ``difficulty_factors`` (worst bin, Δ, impact with both intervals, Holm),
        ``difficulty_slices``, ``difficulty_pairs``, ``error_types``, ``missed_birds`` (error of every bird not found),
        ``calibration_bins``, ``calibration`` and ``metrics_difficulty``, which holds every printed number.
    """
    from birdlab.difficulty.rows import metric_rows

    study, settings, seed = scored(run), run.recipe.difficulty, run.recipe.seed
    made = tables(run.table("instances"), study.frames, settings, seed=seed)
    errors, sureness = study_errors(run), calibration(run.table("matches"), study.frames)
    made |= {"error_types": errors.summary, "missed_birds": errors.missed}
    made |= {"calibration_bins": sureness.bins, "calibration": sureness.summary}
    return made | {"metrics_difficulty": metric_rows(study, made, settings, dataset=run.recipe.name)}


def tables(rows: pl.DataFrame, frames: pl.DataFrame, settings: Difficulty, *, seed: int) -> dict[str, pl.DataFrame]:
    """Recall by factor, slices and pairs of models.

    Args:
        rows: table ``instances``.
        frames: table ``frames``, those scored.
        settings: the recipe's ``difficulty``.
        seed: of the permutations.
    """
    study = arranged(rows, frames, settings)
    birds, binned, unit = study.birds, study.binned, study.unit
    asked = settings.n_permutations
    draws = max(asked, PER_TEST * len(binned) * len(birds.models)) if asked else 0
    bins = recall_by_bin(birds, binned, min_n=settings.min_n, unit=unit)
    factors = sensitivity(birds, binned, bins, n_permutations=draws, seed=seed)
    ends = impact_intervals(birds, binned, bins, unit=unit)
    return {
        "difficulty_bins": bins,
        "difficulty_factors": factors.join(ends, on=["model", "factor"], how="left", maintain_order="left"),
        "difficulty_slices": slices(birds, binned, min_n=settings.min_n, n_permutations=asked, seed=seed),
        "difficulty_pairs": compare_models(birds, binned, min_n=settings.min_n, unit=unit),
    }
