"""Average marginal effects: what one more standard deviation of a factor does to recall, in probability.

Log-odds of models with different recall cannot be compared (they shrink with what is left out); these can.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from birdlab.difficulty.logit import Fit, Floats, Sample


def average_marginal_effects(sample: Sample, fit: Fit) -> tuple[Floats, Floats]:
    """Mean change of P(recovered) per +1 of each factor, over the birds of the fit, and its standard error.

    AME_j = β_j · mean p(1 - p); the delta method takes slopes and session intercepts as estimated.

    Args:
        sample: what was fitted; factors in standard deviations make the unit +1 SD.
        fit: the maximum-likelihood (or penalised) fit.

    Returns:
        Effects, (p,), in [-1, 1], negative: fewer birds recovered where the factor is high; standard errors, (p,).

    Greene (2012), §17.3.2; the same as statsmodels' ``get_margeff(at="overall")``.

    >>> from birdlab.difficulty.logit import fit_logit
    >>> sample = Sample(np.array([[0.0], [0], [0], [1], [1], [1]]), np.array([0, 0, 1, 0, 1, 1]), np.zeros(6, dtype=int))
    >>> effect, _ = average_marginal_effects(sample, fit_logit(sample, penalised=False))
    >>> bool(np.isclose(effect[0], 2 * np.log(2) * 2 / 9))
    True
    """
    state, n = fit.state, len(sample.recovered)
    spread = state.probability * (1 - state.probability)
    bend = spread * (1 - 2 * state.probability)
    effects = fit.beta * spread.mean()
    by_slope = np.diag(np.full(len(fit.beta), spread.mean())) + np.outer(fit.beta, bend @ sample.z / n)
    by_intercept = np.outer(fit.beta, np.bincount(sample.session, bend, sample.n_sessions) / n)
    return effects, _delta_se(fit, by_slope, by_intercept)


def partial_effect(sample: Sample, fit: Fit, index: int, values: Floats) -> tuple[Floats, Floats]:
    """Mean P(recovered) if one factor had a given value for every bird and the others kept theirs.

    Args:
        sample: what was fitted.
        fit: the fit.
        index: which factor.
        values: where to ask, in standard deviations from the mean, (m,). Ask within the range seen inside sessions.

    Returns:
        Mean probabilities in [0, 1] and their standard errors (delta method), (m,) each.
    """
    n = len(sample.recovered)
    base = sample.z @ fit.beta + fit.alpha[sample.session]
    means, by_slope, by_intercept = [], [], []
    for value in values:
        z = sample.z.copy()
        z[:, index] = value
        p = expit(base + fit.beta[index] * (value - sample.z[:, index]))
        bend = p * (1 - p)
        means.append(p.mean())
        by_slope.append(bend @ z / n)
        by_intercept.append(np.bincount(sample.session, bend, sample.n_sessions) / n)
    return np.array(means), _delta_se(fit, np.array(by_slope), np.array(by_intercept))


def _delta_se(fit: Fit, by_slope: Floats, by_intercept: Floats) -> Floats:
    """Standard errors of m quantities from their derivatives by slopes (m, p) and intercepts (m, G)."""
    # Inverse of the information with the intercepts' block diagonal: slopes first, then what is left of intercepts.
    adjusted = by_slope - by_intercept / fit.state.weight @ fit.state.cross.T
    variance = np.einsum("ij,jk,ik->i", adjusted, fit.covariance, adjusted)
    return np.sqrt(variance + (by_intercept**2 / fit.state.weight).sum(axis=1))
