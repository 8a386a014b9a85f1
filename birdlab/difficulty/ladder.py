"""The adjustment ladder: one factor alone, then beside its sessions, the other factors, and both.

A coefficient that changes sign on the way is a finding of its own: the factor alone and the factor beside the others
tell different stories (as brightness does in Western Bluebird, Tables 4 and 10).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from birdlab.difficulty.design import Design
from birdlab.difficulty.logit import Fit, Floats, Sample, fit_logit, maximum_likelihood

RUNGS = ("alone", "sessions", "factors", "factors and sessions")
LADDER_SCHEMA = {
    "model": pl.String,
    "factor": pl.String,
    "rung": pl.Enum(RUNGS),
    "firth": pl.Float64,
    "firth_se": pl.Float64,
    "mle": pl.Float64,
    "is_flipped": pl.Boolean,
    "is_clear_flip": pl.Boolean,
}


def adjustment_ladder(design: Design, model: str) -> pl.DataFrame:
    """Log-odds of each factor per +1 SD on the four rungs.

    Returns:
        One row per factor and rung: ``firth`` (penalised) with its standard error, ``mle`` (null where infinite),
        ``is_flipped``: the sign differs from the first rung's; ``is_clear_flip``: and both are more than 1.96 standard
        errors from 0. No rows where all birds were recovered, or all missed.
    """
    sample = design.sample(model)
    if len(np.unique(sample.recovered)) < 2 or not design.used:
        return pl.DataFrame(schema=LADDER_SCHEMA)
    pooled = Sample(sample.z, sample.recovered, np.zeros_like(sample.session))
    rungs: list[list[tuple[float, float, float | None]]] = [
        [_slope(_column(pooled, j), 0) for j in range(len(design.used))],
        [_slope(_column(sample, j), 0) for j in range(len(design.used))],
        _slopes(pooled),
        _slopes(sample),
    ]
    rows = []
    for j, factor in enumerate(design.used):
        first, first_se, _ = rungs[0][j]
        for rung, values in zip(RUNGS, rungs, strict=True):
            firth, se, mle = values[j]
            flipped = firth * first < 0
            clear = flipped and abs(firth) > 1.96 * se and abs(first) > 1.96 * first_se
            rows.append((model, factor, rung, firth, se, mle, flipped, clear))
    return pl.DataFrame(rows, schema=LADDER_SCHEMA, orient="row")


def _column(sample: Sample, j: int) -> Sample:
    return Sample(sample.z[:, [j]], sample.recovered, sample.session)


def _slope(sample: Sample, j: int) -> tuple[float, float, float | None]:
    return _slopes(sample)[j]


def _slopes(sample: Sample) -> list[tuple[float, float, float | None]]:
    fit = fit_logit(sample)
    plain = _informative_fit(sample)
    mle: list[float | None] = [None] * sample.z.shape[1] if plain is None else plain.beta.tolist()
    return list(zip(fit.beta.tolist(), _list(fit.se), mle, strict=True))


def _informative_fit(sample: Sample) -> Fit | None:
    """Plain maximum likelihood on the sessions that are neither all recovered nor all missed."""
    n, k = np.bincount(sample.session), np.bincount(sample.session, sample.recovered)
    rows = ((k > 0) & (k < n))[sample.session]
    if not rows.any() or np.any(np.ptp(sample.z[rows], axis=0) == 0):
        return None
    return maximum_likelihood(sample.subset(rows))


def _list(values: Floats) -> list[float]:
    return values.tolist()
