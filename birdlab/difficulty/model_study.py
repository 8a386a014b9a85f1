"""The joint model of a whole study: both factor sets fitted to the table ``instances``, tested, and kept as tables."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import polars as pl
from scipy.special import chdtrc
from threadpoolctl import threadpool_limits

from birdlab.detection.published import BLUEBIRD
from birdlab.difficulty.design import DEFAULT_FACTOR_SET, FACTOR_SETS, common_design, select_factors
from birdlab.difficulty.logit import fit_logit
from birdlab.difficulty.model import DifficultyModel, analyse
from birdlab.difficulty.published import table_10
from birdlab.metrics import metric_frame, metric_row
from birdlab.stats import holm

if TYPE_CHECKING:
    from birdlab.recipe import Difficulty
    from birdlab.study import Run

#: The factor sets of a report, in the order of the table that sets them side by side.
SETS = ("bluebird-local", "bluebird-global")
#: Family-wise error of "confirmed", and the normal quantile of a 95 % interval.
ALPHA, Z = 0.05, 1.959963984540054
#: Tables of :class:`birdlab.difficulty.model.DifficultyModel` under their names in the run's folder.
_TABLES = {field.name: f"model_{field.name}" for field in fields(DifficultyModel) if field.name != "coefficients"}
_TESTS = {"p": pl.Float64, "p_holm": pl.Float64, "family": pl.Int64, "confirmed": pl.Boolean}


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables of the chapter on the joint model; see :func:`tables`, and ``metrics_difficulty_model``."""
    made = tables(run.table("instances"), run.recipe.difficulty)
    return made | {"metrics_difficulty_model": metric_rows(made, run.recipe.scoring.published, run.recipe.name)}


def tables(instances: pl.DataFrame, settings: Difficulty) -> dict[str, pl.DataFrame]:
    """The joint model with both factor sets.

    Args:
        instances: table ``instances``.
        settings: the recipe's ``difficulty``: which set is the chosen one, and whether strata stand for sessions.

    Returns:
        ``coefficients`` (the chosen set) and ``coefficient_sets`` (both), with the interval of the marginal effect, the
        test of each slope and Holm's mark; ``model_summary``, ``model_checks``, ``model_sheet``, ``model_vif``,
        ``model_correlations``, ``model_ladder``, ``model_loso``, ``model_calibration``, ``model_reliability``,
        ``model_partial`` (the chosen set only) and ``model_missed``, each with a column ``factor_set``.
    """
    chosen = settings.factors or DEFAULT_FACTOR_SET
    rows = instances
    if settings.split_strata and "stratum" in rows.columns:
        rows = rows.with_columns(session=pl.coalesce("stratum", "session"))
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in ("coefficient_sets", *_TABLES.values())}
    for name in (chosen, *(s for s in SETS if s != chosen)):
        selected, factors = select_factors(rows, name)
        found = analyse(selected, factors, curves=name == chosen)
        label = pl.lit(name).alias("factor_set")
        slopes = with_p_values(found.coefficients, selected, factors)
        parts["coefficient_sets"].append(slopes.select(label, pl.all()))
        for field, table in _TABLES.items():
            parts[table].append(getattr(found, field).select(label, pl.all()))
    out = {table: pl.concat(frames) for table, frames in parts.items()}
    both = out["coefficient_sets"]
    return {"coefficients": both.filter(factor_set=chosen)} | out


def with_p_values(coefficients: pl.DataFrame, instances: pl.DataFrame, factors: tuple[str, ...]) -> pl.DataFrame:
    """Table ``coefficients`` with the interval of the marginal effect and a test of every slope that was fitted.

    Args:
        coefficients: as :func:`birdlab.difficulty.model.analyse` makes it.
        instances: what it was fitted to.
        factors: the factors, in order.

    Returns:
        The table with ``ame_lo``, ``ame_hi`` (95 %, delta method: these sessions), ``p`` of the penalised likelihood
        ratio of slope = 0, ``p_holm`` over all models and factors, ``family`` (their number) and ``confirmed``: status
        ``ok`` and ``p_holm`` below 0.05. Null where nothing was fitted.

    Heinze and Schemper (2002), §2.3: twice the drop of the penalised likelihood, χ² with one degree of freedom.
    """
    p = _p_values(coefficients, instances, factors)
    adjusted = holm(p)
    family = sum(value is not None for value in p)
    columns = {"p": p, "p_holm": adjusted, "family": [family] * len(p)}
    frame = pl.DataFrame(columns, schema={k: _TESTS[k] for k in columns})
    sure = (pl.col("status").cast(pl.String) == "ok") & (pl.col("p_holm") < ALPHA)
    ends = [(pl.col("ame") + side * Z * pl.col("ame_se")).alias(name) for side, name in ((-1, "ame_lo"), (1, "ame_hi"))]
    return pl.concat([coefficients, frame], how="horizontal").with_columns(
        *ends, sure.fill_null(False).alias("confirmed")
    )


def _p_values(coefficients: pl.DataFrame, instances: pl.DataFrame, factors: tuple[str, ...]) -> list[float | None]:
    fitted = coefficients.filter(pl.col("firth").is_not_null())
    if fitted.is_empty():
        return [None] * coefficients.height
    design = common_design(instances, factors)
    found: dict[tuple[str, str], float] = {}
    with threadpool_limits(limits=1):
        for model in fitted["model"].unique(maintain_order=True).to_list():
            sample = design.sample(model)
            best = fit_logit(sample)
            for j, factor in enumerate(design.used):
                held = fit_logit(sample, start=best.theta, hold=(j, 0.0))
                drop = best.state.loglik - held.state.loglik
                if held.converged:
                    found[model, factor] = float(chdtrc(1, max(0.0, 2 * drop)))
    return [found.get((row["model"], row["factor"])) for row in coefficients.iter_rows(named=True)]


def metric_rows(made: dict[str, pl.DataFrame], published: list[Any], dataset: str) -> pl.DataFrame:
    """The chapter's numbers as table ``metrics``, and the printed Table 10 where the recipe asks for it.

    Args:
        made: ``coefficient_sets``, ``model_summary``, ``model_calibration``.
        published: the recipe's ``scoring.published``.
        dataset: name of the study.

    Returns:
        ``group`` is the factor as measured (``brightness_local``), for ``ame`` and ``log_odds`` with their intervals
        within these sessions and ``p_holm``; ``all`` for ``events_per_variable``, ``auc``, ``brier``, ``brier_null``.
    """
    rows: list[dict[str, Any]] = []
    for r in made["coefficient_sets"].iter_rows(named=True):
        method = f"joint model {r['factor_set']}"
        at = {"model": r["model"], "group": FACTOR_SETS[r["factor_set"]][r["factor"]], "reason": r["reason"]}
        ame = {"value": r["ame"], "lo": r["ame_lo"], "hi": r["ame_hi"], "n": r["n_mle"]}
        rows.append(metric_row(metric="ame", method=f"{method}; within_sessions", **at, **ame))
        firth = {"value": r["firth"], "lo": r["firth_lo"], "hi": r["firth_hi"], "n": r["n"]}
        rows.append(metric_row(metric="log_odds", method=f"{method} firth profile; within_sessions", **at, **firth))
        rows.append(metric_row(metric="p_holm", method=f"{method} family of {r['family']}", value=r["p_holm"], **at))
    for r in made["model_summary"].iter_rows(named=True):
        at = {
            "model": r["model"],
            "method": f"joint model {r['factor_set']}",
            "n": r["n"],
            "n_clusters": r["n_sessions"],
        }
        value = r["events_per_variable"]
        rows.append(metric_row(metric="events_per_variable", value=value, reason=r["reason"], **at))
    for r in (
        made["model_calibration"].filter(pl.col("measure").is_in(["auc", "brier", "brier_null"])).iter_rows(named=True)
    ):
        at = {"model": r["model"], "method": f"joint model {r['factor_set']} {r['fit']}", "n": r["n"]}
        rows.append(metric_row(metric=r["measure"], value=r["value"], **at))
    own = [{**row, "dataset": dataset} for row in rows]
    theirs = table_10().to_dicts() if BLUEBIRD in published else []
    printed = [
        {
            **metric_row(metric="log_odds", group=r["factor"], published=r["coefficient"], source=r["source"]),
            **{"dataset": BLUEBIRD, "model": r["model"], "n": 529, "n_clusters": 4},
            **{"method": "published; video fixed effects, per SD", "reason": "published, not computed here"},
        }
        for r in theirs
    ]
    return metric_frame([*own, *printed])
