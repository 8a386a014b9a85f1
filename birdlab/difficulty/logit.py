"""Logistic regression with one intercept per session, by maximum likelihood or with Firth's penalty.

The model is logit P(recovered) = z·β + α_session. The session intercepts are eliminated from every Newton step (they
make a diagonal block of the information), so a step costs what the slopes cost, however many sessions there are, and
the estimates are those of the model with session dummies: neither the likelihood nor Jeffreys' prior depends on which
session is the reference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import expit

Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.int64]
#: Largest score and largest step of the last iteration, below which a fit has converged.
TOLERANCE = 1e-9
MAX_ITERATIONS = 300
_MAX_STEP, _MAX_HALVINGS = 5.0, 30
#: Plain steps before extrapolation starts, and how many steps it looks back.
_PATIENCE, _MEMORY = 8, 6
#: Where a bird is this sure to be recovered or missed (log-odds), the plain likelihood has no finite maximum.
_SURE = 60.0


@dataclass(frozen=True)
class Sample:
    """What a model is fitted to: factors (n, p), outcomes 0 or 1 (n,), session codes 0 … G-1 (n,)."""

    z: Floats
    recovered: Floats
    session: Codes

    @property
    def n_sessions(self) -> int:
        """Number of sessions, G; every code below it occurs."""
        return int(self.session.max()) + 1 if len(self.session) else 0

    def subset(self, rows: npt.NDArray[np.bool_], columns: Sequence[int] | None = None) -> Sample:
        """These rows (and columns) with the sessions that are left numbered anew."""
        z = self.z[rows] if columns is None else self.z[np.ix_(rows, list(columns))]
        return Sample(z, self.recovered[rows], np.unique(self.session[rows], return_inverse=True)[1])


@dataclass(frozen=True)
class State:
    """Everything about one point of the parameter space.

    Args:
        loglik: log-likelihood, with the penalty ½ log|I| where there is one.
        probability: fitted probabilities, (n,).
        score: derivative of ``loglik``, slopes first, then intercepts, (p + G,).
        precision: information about the slopes when the intercepts are free (Schur complement), (p, p).
        cross: information between slopes and intercepts, (p, G).
        weight: information about each intercept, (G,).
        residual_z: factors less their weighted mean in the session, (n, p).
    """

    loglik: float
    probability: Floats
    score: Floats
    precision: Floats
    cross: Floats
    weight: Floats
    residual_z: Floats

    @property
    def information(self) -> Floats:
        """Information about slopes and intercepts, (p + G, p + G)."""
        slopes = self.precision + (self.cross / self.weight) @ self.cross.T
        return np.block([[slopes, self.cross], [self.cross.T, np.diag(self.weight)]])


@dataclass(frozen=True)
class Fit:
    """A fitted model: ``theta`` is slopes, then intercepts, (p + G,); ``state`` what holds there."""

    theta: Floats
    state: State
    converged: bool
    n_iterations: int

    @property
    def beta(self) -> Floats:
        """Slopes, (p,)."""
        return self.theta[: len(self.state.precision)]

    @property
    def alpha(self) -> Floats:
        """One intercept per session, (G,)."""
        return self.theta[len(self.state.precision) :]

    @property
    def covariance(self) -> Floats:
        """Inverse information of the slopes, (p, p): the model-based covariance."""
        return np.linalg.inv(self.state.precision)

    @property
    def se(self) -> Floats:
        """Model-based standard errors of the slopes, (p,)."""
        return np.sqrt(np.diag(self.covariance))


def fit_logit(
    sample: Sample,
    *,
    penalised: bool = True,
    start: Floats | None = None,
    hold: tuple[int, float] | None = None,
    tolerance: float = TOLERANCE,
) -> Fit:
    """Fit the model by Newton's method with step halving.

    Args:
        sample: no column of its factors may be a combination of others and of the sessions.
        penalised: with Firth's penalty (finite whatever the data) or plain maximum likelihood.
        start: parameters to start from, (p + G,); slopes of 0 by default.
        hold: (index, value) of a slope that is not fitted: a point of its profile likelihood.
        tolerance: see :data:`TOLERANCE`.

    Returns:
        The fit. ``converged`` is false where no maximum was reached: with plain likelihood that is what separated data
        do, and then the numbers in it mean nothing.

    Firth (1993), §3.1, modified score U + Σ h_i (½ - p_i) x_i; Heinze and Schemper (2002), Eqs. 2-3.

    >>> sample = Sample(np.array([[0.0], [0], [0], [1], [1], [1]]), np.array([0, 0, 1, 0, 1, 1]), np.zeros(6, dtype=int))
    >>> fit = fit_logit(sample, penalised=False)
    >>> bool(np.isclose(fit.beta[0], 2 * np.log(2)))
    True
    """
    p, n = sample.z.shape[1], len(sample.recovered)
    theta = _start(sample) if start is None else np.array(start, dtype=np.float64)
    free = np.arange(p)
    if hold is not None:
        theta[hold[0]] = hold[1]
        free = np.delete(free, hold[0])
    counted = np.concatenate([free, np.arange(p, len(theta))])
    state = evaluate(sample, theta, penalised=penalised)
    history: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    for n_iterations in range(MAX_ITERATIONS + 1):
        step = _step(state, free)
        score, size = np.abs(state.score[counted]).max(initial=0.0), np.abs(step).max(initial=0.0)
        if score < tolerance * max(1.0, n / 1000) and size < tolerance:
            return Fit(theta, state, True, n_iterations)
        if not np.isfinite(size) or (not penalised and surest(sample, theta) > _SURE):
            break
        history.append((theta, step))
        moved = _accelerated(sample, state, history, penalised) if n_iterations >= _PATIENCE else None
        moved = moved or _line_search(sample, state, theta, step * min(1.0, _MAX_STEP / size), penalised)
        if moved is None:
            # No step improves the likelihood: converged as far as its rounding allows, or not at all.
            return Fit(theta, state, bool(size < 1e-6), n_iterations)
        theta, state = moved
    return Fit(theta, state, False, n_iterations)


def maximum_likelihood(sample: Sample) -> Fit | None:
    """The maximum-likelihood fit where there is a finite one, else ``None``.

    Newton's method ending in a stationary point proves that the maximum exists, since the log-likelihood is strictly
    concave; with separated data the steps never become small.

    Albert and Anderson (1984), Theorems 1-3.
    """
    fit = fit_logit(sample, penalised=False)
    return fit if fit.converged else None


def surest(sample: Sample, theta: Floats) -> float:
    """Largest absolute log-odds of a bird at these parameters."""
    p = sample.z.shape[1]
    return float(np.abs(sample.z @ theta[:p] + theta[p:][sample.session]).max(initial=0.0))


def evaluate(sample: Sample, theta: Floats, *, penalised: bool = True) -> State:
    """Log-likelihood, score and information in one pass; a log-likelihood of -inf where it cannot be computed."""
    z, y, group, n_groups = sample.z, sample.recovered, sample.session, sample.n_sessions
    p = z.shape[1]
    eta = z @ theta[:p] + theta[p:][group]
    hit, miss = expit(eta), expit(-eta)
    w = hit * miss
    weight = np.bincount(group, w, n_groups)
    wz = w[:, None] * z
    cross = np.array([np.bincount(group, column, n_groups) for column in wz.T]).reshape(p, n_groups)
    loglik = -float(np.logaddexp(0.0, np.where(y > 0.5, -eta, eta)).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        residual_z = z - (cross / weight).T[group]
        precision = residual_z.T @ (w[:, None] * residual_z)
    residual = np.where(y > 0.5, miss, -hit)
    if penalised:
        penalty, leverage = _jeffreys(w, weight, group, residual_z, precision)
        loglik, residual = loglik + penalty, residual + leverage * (miss - hit) / 2
    score = np.concatenate([z.T @ residual, np.bincount(group, residual, n_groups)])
    return State(loglik, hit, score, precision, cross, weight, residual_z)


def _jeffreys(w: Floats, weight: Floats, group: Codes, residual_z: Floats, precision: Floats) -> tuple[float, Floats]:
    """½ log|I| and the diagonal of the weighted hat matrix; (-inf, 0) where the information is singular."""
    try:
        root = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        root = np.full_like(precision, np.nan)
    if not (np.all(np.isfinite(root)) and np.all(weight > 0)):
        return -np.inf, np.zeros(len(w))
    spread = solve_triangular(root, residual_z.T, lower=True, check_finite=False)
    leverage = w * (1 / weight[group] + (spread**2).sum(axis=0))
    return 0.5 * float(np.log(weight).sum()) + float(np.log(np.diag(root)).sum()), leverage


def _start(sample: Sample) -> Floats:
    n, k = np.bincount(sample.session), np.bincount(sample.session, sample.recovered)
    return np.concatenate([np.zeros(sample.z.shape[1]), np.log((k + 0.5) / (n - k + 0.5))])


def _step(state: State, free: Codes) -> Floats:
    """Newton's step for the free slopes and all intercepts; NaN where the information is singular."""
    p = len(state.precision)
    beta = np.zeros(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_group = state.cross / state.weight
        rest = (state.score[:p] - per_group @ state.score[p:])[free]
        try:
            beta[free] = np.linalg.solve(state.precision[np.ix_(free, free)], rest)
        except np.linalg.LinAlgError:
            beta[free] = np.nan
        return np.concatenate([beta, state.score[p:] / state.weight - per_group.T @ beta])


def _line_search(
    sample: Sample, state: State, theta: Floats, step: Floats, penalised: bool
) -> tuple[Floats, State] | None:
    """The full step, or the longest halved one that does not lower the likelihood; ``None`` if there is none."""
    slack = 1e-13 * abs(state.loglik) if np.isfinite(state.loglik) else 0.0
    for _ in range(_MAX_HALVINGS):
        new = evaluate(sample, theta + step, penalised=penalised)
        if np.isfinite(new.loglik) and new.loglik >= state.loglik - slack:
            return theta + step, new
        step = step / 2
    return None


def _accelerated(
    sample: Sample, state: State, history: deque[tuple[Floats, Floats]], penalised: bool
) -> tuple[Floats, State] | None:
    """Anderson's extrapolation from the last steps, where it raises the likelihood.

    With the expected information in place of the penalised likelihood's own curvature, Newton's steps shrink only by a
    constant factor, which is close to 1 for separated data.
    """
    points, steps = (np.array(side) for side in zip(*history, strict=True))
    d_points, d_steps = np.diff(points, axis=0), np.diff(steps, axis=0)
    share = np.linalg.lstsq(d_steps.T, steps[-1], rcond=None)[0]
    target = points[-1] + steps[-1] - (d_points + d_steps).T @ share
    if not np.all(np.isfinite(target)) or np.abs(target - points[-1]).max() > 4 * _MAX_STEP:
        return None
    new = evaluate(sample, target, penalised=penalised)
    return (target, new) if np.isfinite(new.loglik) and new.loglik >= state.loglik else None
