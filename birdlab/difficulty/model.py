"""The joint model of why birds are missed: recovery against all factors at once, with a fixed effect per session.

Western Bluebird, §6.3 and Table 10, with what that table lacks: whether the estimates exist, how sure they are, what
they are worth in recall, and whether they hold when a session is left out. Associations, not causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from birdlab import schemas
from birdlab.difficulty import checks, quality
from birdlab.difficulty.design import FACTORS, Design, common_design, within_deviation
from birdlab.difficulty.effects import average_marginal_effects, partial_effect
from birdlab.difficulty.findings import common_checks, model_checks
from birdlab.difficulty.ladder import LADDER_SCHEMA, adjustment_ladder
from birdlab.difficulty.logit import TOLERANCE, Fit, Floats, Sample, fit_logit
from birdlab.difficulty.profile import profile_interval
from birdlab.difficulty.robust import bias_reduced_error, cluster_error, leave_one_session_out
from birdlab.difficulty.status import mark_bold, verdict

#: How the estimates were made, for captions.
ESTIMATOR = (
    "Logistic regression with one intercept per session on z-scores (population SD over the complete rows); "
    "Firth's penalised likelihood with profile intervals, maximum likelihood where it is finite; "
    f"Newton's method, tolerance {TOLERANCE:g}"
)
_F, _S, _I, _B = pl.Float64, pl.String, pl.Int64, pl.Boolean
SUMMARY_SCHEMA = {
    "model": _S,
    "n_total": _I,
    "n": _I,
    "n_misses": _I,
    "recall": _F,
    "n_sessions": _I,
    "informative_sessions": pl.List(_S),
    "uninformative_sessions": pl.List(_S),
    "n_informative": _I,
    "n_mle": _I,
    "separated": pl.List(_S),
    "is_complete_separation": _B,
    "separates_alone": pl.List(_S),
    "events_per_variable": _F,
    "max_vif": _F,
    "condition": _F,
    "reference_session": _S,
    "is_fitted": _B,
    "reason": _S,
}
CALIBRATION_SCHEMA = {"model": _S, "fit": _S, "measure": _S, "value": _F, "n": _I}
LOSO_SCHEMA = {"model": _S, "session": _S, "factor": _S, "firth": _F}
PARTIAL_SCHEMA = {"model": _S, "factor": _S, "value": _F, "recall": _F, "lo": _F, "hi": _F}


@dataclass(frozen=True)
class DifficultyModel:
    """Everything the joint model says, as tables.

    Args:
        summary: one row per model: counts, checks in numbers, whether it was fitted.
        coefficients: table ``coefficients``, one row per model and factor, none left out.
        checks: every check in words, in order; ``model`` is empty where it is about all of them.
        sheet: the factors: n, distinct values, mean, SD, SD within sessions.
        vif: variance inflation with and without sessions.
        correlations: pairs of factors, over all birds and within sessions.
        ladder: see :func:`birdlab.difficulty.ladder.adjustment_ladder`.
        loso: penalised slopes with each session left out.
        calibration: AUC, Brier score, its null, Hosmer-Lemeshow, for either fit.
        reliability: predicted and observed recall by tenths.
        partial: recall against one factor, over the range seen within sessions (5 to 95 %).
        missed: every missed bird with its factors and fitted probability.
    """

    summary: pl.DataFrame
    coefficients: pl.DataFrame
    checks: pl.DataFrame
    sheet: pl.DataFrame
    vif: pl.DataFrame
    correlations: pl.DataFrame
    ladder: pl.DataFrame
    loso: pl.DataFrame
    calibration: pl.DataFrame
    reliability: pl.DataFrame
    partial: pl.DataFrame
    missed: pl.DataFrame


def analyse(instances: pl.DataFrame, factors: Sequence[str] = FACTORS, *, curves: bool = True) -> DifficultyModel:
    """Fit the joint model to every model's outcomes on the same birds.

    Args:
        instances: one row per labelled bird (and model): ``instance``, ``session``, ``frame``, the factors, ``recovered``
            (true/false or 1/0, null where not judged) and, with several models, ``model``.
        factors: names of the factor columns, in the order they are printed.
        curves: also make the partial-effect curves.

    Returns:
        The tables. What cannot be computed is null with a reason: a model that recovered every bird, or has fewer than
        one event per variable, keeps its rows with status ``not_fitted``.

    Raises:
        DataError: a column is missing, an outcome is not 0 or 1, or a bird comes twice.
    """
    with threadpool_limits(limits=1):  # threads that wait for each other cost more than these small matrices
        design = common_design(instances, factors)
        vif = _vif(design)
        parts = [_one_model(design, name, curves) for name in design.outcomes]
        tables = {key: pl.concat([part[key] for part in parts]) for key in (parts[0] if parts else ())}
        if not parts:
            nobody = replace(design, outcomes={"": np.ones(design.n)})
            tables = {key: frame.clear() for key, frame in _one_model(nobody, "", curves).items()}
        tables["checks"] = pl.concat([common_checks(design, vif), tables["checks"]])
        tables |= {"sheet": factor_sheet(design), "vif": vif, "correlations": checks.correlations(design)}
        return DifficultyModel(**{field.name: tables[field.name] for field in fields(DifficultyModel)})


def factor_sheet(design: Design) -> pl.DataFrame:
    """The factors on the common table: values, units of the z-scores, and how much of their spread is within sessions."""
    rows = []
    for name in design.factors:
        values = design.birds[name]
        known = name in design.mean and design.n > 0
        sd, within = (design.sd[name], design.within_sd[name]) if known else (None, None)
        rows.append(
            {
                "factor": name,
                "n": design.n,
                "n_missing": design.missing.get(name, 0),
                "n_distinct": values.drop_nulls().n_unique(),
                "min": values.min(),
                "median": values.median(),
                "max": values.max(),
                "mean": design.mean[name] if known else None,
                "sd": sd,
                "within_sd": within,
                "within_ratio": within / sd if sd else None,
                "excluded": ": ".join(design.excluded[name]) if name in design.excluded else None,
            }
        )
    kinds = {"factor": _S, "n": _I, "n_missing": _I, "n_distinct": _I, "excluded": _S}
    return pl.DataFrame(rows, schema={key: kinds.get(key, _F) for key in rows[0]} if rows else kinds)


def _vif(design: Design) -> pl.DataFrame:
    alone, beside = checks.inflation(design.z), checks.inflation(design.z, design.session)
    columns = {"factor": design.used, "vif": alone, "vif_with_sessions": beside}
    return pl.DataFrame(columns, schema={"factor": _S, "vif": _F, "vif_with_sessions": _F})


@dataclass(frozen=True)
class _Fitted:
    """One model's fits: the penalised one on all rows, and what there is of maximum likelihood."""

    sample: Sample
    firth: Fit
    exists: checks.Existence
    plain: Sample | None
    loso: Floats


def _one_model(design: Design, model: str, curves: bool) -> dict[str, pl.DataFrame]:
    y = design.outcomes[model]
    n_missed, n_hit = int((y < 0.5).sum()), int((y > 0.5).sum())
    epv = checks.events_per_variable(n_missed, n_hit, len(design.used), len(design.sessions))
    reason = _not_fitted(design, n_missed, n_hit, epv)
    fitted = None if reason else _fit(design, model)
    if fitted is not None and not fitted.firth.converged:
        fitted, reason = None, "Firth's estimate did not converge"
    summary = _summary(design, model, epv, fitted, reason)
    coefficients = _coefficients(design, model, fitted, epv, reason)
    return {
        "summary": summary,
        "coefficients": coefficients,
        "checks": model_checks(design, summary, fitted.exists if fitted else None),
        "ladder": adjustment_ladder(design, model) if fitted else pl.DataFrame(schema=LADDER_SCHEMA),
        "loso": _loso(design, model, fitted),
        **_quality(model, fitted),
        "partial": _partial(design, model, fitted if curves else None),
        "missed": _missed(design, model, fitted),
    }


def _not_fitted(design: Design, n_missed: int, n_hit: int, epv: float | None) -> str | None:
    if not design.n:
        return "no bird has all factors and an outcome"
    if not n_missed or not n_hit:
        return f"{'no' if n_hit else 'every'} bird was missed ({n_hit} of {design.n} recovered): nothing to explain"
    if not design.used:
        return "no factor varies in a way that can be fitted"
    if epv is not None and epv < checks.NOT_FITTED_BELOW:
        fewer = f"{n_missed} missed" if n_missed <= n_hit else f"{n_hit} recovered"
        return f"{epv:.2f} events per variable ({fewer} of {design.n}): not fitted below {checks.NOT_FITTED_BELOW:g}"
    return None


def _fit(design: Design, model: str) -> _Fitted:
    sample = design.sample(model)
    firth = fit_logit(sample)
    exists = checks.existence(design, model)
    plain = sample.subset(exists.rows, exists.columns) if exists.fit is not None else None
    return _Fitted(sample, firth, exists, plain, leave_one_session_out(sample, firth, design.used))


def _summary(design: Design, model: str, epv: float | None, fitted: _Fitted | None, reason: str | None) -> pl.DataFrame:
    y = design.outcomes[model]
    informative = checks.informative_sessions(design, model)
    size = dict(zip(design.sessions, np.bincount(design.session).tolist(), strict=True))
    vifs = checks.inflation(design.z, design.session)
    row = {
        "model": model,
        "n_total": design.n_total,
        "n": design.n,
        "n_misses": int((y < 0.5).sum()),
        "recall": float(y.mean()) if design.n else None,
        "n_sessions": len(design.sessions),
        "informative_sessions": informative,
        "uninformative_sessions": [s for s in design.sessions if s not in informative],
        "n_informative": sum(size[s] for s in informative),
        "n_mle": len(fitted.plain.recovered) if fitted and fitted.plain else 0,
        "separated": list(fitted.exists.infinite) if fitted else [],
        "is_complete_separation": fitted.exists.complete if fitted else None,
        "separates_alone": checks.separating_alone(design, model),
        "events_per_variable": epv,
        "max_vif": max((v for v in vifs if v is not None), default=None),
        "condition": checks.condition_number(design),
        "reference_session": design.sessions[0] if design.sessions else None,
        "is_fitted": fitted is not None,
        "reason": reason,
    }
    return pl.DataFrame([row], schema=SUMMARY_SCHEMA)


def _coefficients(
    design: Design, model: str, fitted: _Fitted | None, epv: float | None, reason: str | None
) -> pl.DataFrame:
    rows = []
    vifs = dict(zip(design.used, checks.inflation(design.z, design.session), strict=True))
    plain = _plain_columns(design, fitted) if fitted else {}
    for name in design.factors:
        row: dict[str, object] = {"model": model, "factor": name, "n": design.n, "vif": vifs.get(name)}
        if design.sd.get(name):
            row |= {"sd": design.sd[name], "within_sd": design.within_sd[name]}
        if name in design.excluded:
            row["status"], row["reason"] = design.excluded[name]
        elif fitted is None:
            row |= {"status": "not_fitted", "reason": reason}
        else:
            j, ratio = design.used.index(name), design.within_sd[name] / design.sd[name]
            row |= _penalised_columns(fitted, j, ratio, design) | plain.get(name, {})
            if row.get("ame") is not None:
                row["ame_within"] = row["ame"] * ratio
            row["status"], why = verdict(
                row, fitted.exists, loso=dict(zip(design.sessions, fitted.loso[:, j].tolist(), strict=True)), epv=epv
            )
            row["reason"] = "; ".join(filter(None, [why, row["reason"]])) or None
        rows.append(row)
    return mark_bold(schemas.TABLES["coefficients"].conform(pl.DataFrame(rows, infer_schema_length=None)))


def _penalised_columns(fitted: _Fitted, j: int, ratio: float, design: Design) -> dict[str, object]:
    interval = profile_interval(fitted.sample, fitted.firth, j)
    firth, left = float(fitted.firth.beta[j]), fitted.loso[:, j]
    out: dict[str, object] = {
        "firth": firth,
        "firth_se": float(fitted.firth.se[j]),
        "firth_lo": interval.lo,
        "firth_hi": interval.hi,
        "firth_within": firth * ratio,
        "reason": interval.reason,
    }
    if np.isfinite(left).any():
        lo, hi = int(np.nanargmin(left)), int(np.nanargmax(left))
        out |= {"loso_lo": float(left[lo]), "loso_hi": float(left[hi])}
        out |= {"loso_lo_without": design.sessions[lo], "loso_hi_without": design.sessions[hi]}
    return out


def _plain_columns(design: Design, fitted: _Fitted) -> dict[str, dict[str, object]]:
    """Maximum likelihood, marginal effects and robust errors of the factors that have a finite estimate."""
    fit, sample = fitted.exists.fit, fitted.plain
    if fit is None or sample is None or not fitted.exists.columns:
        return {}
    effects, effect_se = average_marginal_effects(sample, fit)
    by_session = cluster_error(sample, fit, sample.session)
    by_frame = cluster_error(sample, fit, design.frame[fitted.exists.rows], unit="frame")
    reduced = bias_reduced_error(sample, fit)
    out: dict[str, dict[str, object]] = {}
    for i, column in enumerate(fitted.exists.columns):
        name = design.used[column]
        if name in fitted.exists.infinite:
            continue
        ratio = design.within_sd[name] / design.sd[name]
        arrays = {
            "mle": fit.beta,
            "mle_se": fit.se,
            "ame": effects,
            "ame_se": effect_se,
            "se_session": by_session.se,
            "se_frame": by_frame.se,
            "se_cr2": reduced.se,
            "cr2_df": reduced.df,
            "cr2_p": reduced.p,
        }
        out[name] = {key: None if values is None else float(values[i]) for key, values in arrays.items()}
        out[name] |= {"n_mle": len(sample.recovered), "mle_within": float(fit.beta[i]) * ratio}
    return out


def _loso(design: Design, model: str, fitted: _Fitted | None) -> pl.DataFrame:
    if fitted is None:
        return pl.DataFrame(schema=LOSO_SCHEMA)
    rows = [
        (model, session, factor, float(fitted.loso[g, j]) if np.isfinite(fitted.loso[g, j]) else None)
        for g, session in enumerate(design.sessions)
        for j, factor in enumerate(design.used)
    ]
    return pl.DataFrame(rows, schema=LOSO_SCHEMA, orient="row")


def _quality(model: str, fitted: _Fitted | None) -> dict[str, pl.DataFrame]:
    rows, tables = [], [pl.DataFrame(schema={"model": _S, "fit": _S} | quality.RELIABILITY_SCHEMA)]
    found = [("firth", fitted.sample, fitted.firth)] if fitted else []
    if fitted and fitted.plain is not None and fitted.exists.fit is not None:
        found.append(("mle", fitted.plain, fitted.exists.fit))
    for name, sample, fit in found:
        p, y = fit.state.probability, sample.recovered
        table = quality.reliability(p, y)
        statistic, p_value = quality.hosmer_lemeshow(table)
        measures = {
            "auc": quality.area_under_curve(p, y),
            "brier": quality.brier(p, y),
            "brier_null": quality.brier(np.full(len(y), y.mean()), y),
            "hosmer_lemeshow": statistic,
            "hosmer_lemeshow_p": p_value,
        }
        rows += [(model, name, measure, value, len(y)) for measure, value in measures.items()]
        tables.append(table.select(pl.lit(model).alias("model"), pl.lit(name).alias("fit"), pl.all()))
    calibration = pl.DataFrame(rows, schema=CALIBRATION_SCHEMA, orient="row")
    return {"calibration": calibration, "reliability": pl.concat(tables)}


def _partial(design: Design, model: str, fitted: _Fitted | None) -> pl.DataFrame:
    if fitted is None:
        return pl.DataFrame(schema=PARTIAL_SCHEMA)
    parts = []
    inside = within_deviation(design.z, design.session)
    for j, factor in enumerate(design.used):
        values = np.linspace(*np.quantile(inside[:, j], [0.05, 0.95]), 21)
        recall, se = partial_effect(fitted.sample, fitted.firth, j, values)
        columns = {
            "model": [model] * len(values),
            "factor": [factor] * len(values),
            "value": design.mean[factor] + values * design.sd[factor],
            "recall": recall,
            "lo": np.clip(recall - 1.96 * se, 0, 1),
            "hi": np.clip(recall + 1.96 * se, 0, 1),
        }
        parts.append(pl.DataFrame(columns, schema=PARTIAL_SCHEMA))
    return pl.concat(parts)


def _missed(design: Design, model: str, fitted: _Fitted | None) -> pl.DataFrame:
    birds = design.birds.select("instance", "session", "frame", *design.factors)
    probability = pl.Series("probability", fitted.firth.state.probability if fitted else [None] * design.n, dtype=_F)
    missed = birds.with_columns(probability).filter(pl.Series(design.outcomes[model] < 0.5))
    return missed.select(pl.lit(model).alias("model"), pl.all())
