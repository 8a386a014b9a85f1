"""Profile-likelihood intervals of slopes: where the penalised likelihood, maximised over everything else, has fallen far.

Wald intervals fail exactly where Firth's estimate is needed: with few misses and with separated data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from birdlab.difficulty.logit import Fit, Floats, Sample, evaluate, fit_logit

#: Ends farther than this from the estimate (log-odds per standard deviation) are not looked for.
FARTHEST = 1e4
_JOINT_STEPS, _JOINT_TOLERANCE = 100, 1e-8
#: A point counts as an end if the profile there is this close to the line that ends the interval.
_ON_THE_LINE = 1e-5
_WIDEN = 1.6


@dataclass(frozen=True)
class ProfileInterval:
    """Interval of one slope; ``None`` for an end that was not found; ``reason`` says what is wrong with an end."""

    lo: float | None
    hi: float | None
    reason: str | None = None


def profile_interval(sample: Sample, fit: Fit, index: int, *, confidence: float = 0.95) -> ProfileInterval:
    """Interval {b : 2 (l* - l(b)) <= χ²₁} of one slope of a penalised fit.

    Args:
        sample: what was fitted.
        fit: the penalised fit.
        index: which slope.
        confidence: coverage, in (0, 1).

    Returns:
        The interval; it need not be symmetric, and its ends lie on both sides of the estimate. Each end is found by
        the joint scheme of Venzon and Moolgavkar (1988) and then checked on the profile itself; where the scheme fails
        or lands elsewhere (separated data), the profile is bracketed and its crossing searched.

    Heinze and Schemper (2002), §2.3; the penalty is that of the full model also where the slope is held.

    >>> sample = Sample(np.array([[0.0], [0], [0], [1], [1], [1]]), np.array([0, 0, 0, 1, 1, 1]), np.zeros(6, dtype=int))
    >>> interval = profile_interval(sample, fit_logit(sample), 0)
    >>> interval.lo > 0 and interval.hi > 3.89
    True
    """
    drop = float(chdtri(1, 1 - confidence)) / 2
    ends, reasons = [], []
    for side, name in ((-1, "lower"), (1, "upper")):
        end = _joint(sample, fit, index, side, drop)
        if end is None:
            end, reason = _searched(sample, fit, index, side, drop)
            if reason:
                reasons.append(f"{name} end: {reason}")
        ends.append(end)
    return ProfileInterval(ends[0], ends[1], "; ".join(reasons) or None)


def _joint(sample: Sample, fit: Fit, index: int, side: int, drop: float) -> float | None:
    """One end by Newton's method on [l - l*, ∂l/∂nuisance] = 0; ``None`` unless it is an end of the profile.

    Venzon and Moolgavkar (1988), Appendix.
    """
    target, information = fit.state.loglik - drop, fit.state.information
    other = np.delete(np.arange(len(fit.theta)), index)
    tangent = np.ones(len(fit.theta))
    tangent[other] = -np.linalg.solve(information[np.ix_(other, other)], information[other, index])
    theta = fit.theta + side * float(fit.se[index]) * np.sqrt(2 * drop) / 2 * tangent
    for _ in range(_JOINT_STEPS):
        state = evaluate(sample, theta)
        wanted = state.score.copy()
        wanted[index] = state.loglik - target
        if not np.all(np.isfinite(wanted)):
            return None
        if np.abs(wanted).max() < _JOINT_TOLERANCE * max(1.0, len(sample.recovered) / 1000):
            return _checked(sample, fit, index, side, drop, theta)
        move = _joint_step(state.information, state.score, wanted, index, information)
        if move is None or np.abs(theta + move).max() > FARTHEST:
            return None
        theta = theta + move
    return None


def _joint_step(information: Floats, score: Floats, wanted: Floats, index: int, metric: Floats) -> Floats | None:
    """Newton's step with the quadratic correction for the curved likelihood (Eqs. 8-9 of the paper's appendix)."""
    jacobian = -information.copy()
    jacobian[index] = score
    unit = np.zeros(len(score))
    unit[index] = 1.0
    try:
        v, g = np.linalg.solve(jacobian, np.column_stack([wanted, unit])).T
    except np.linalg.LinAlgError:
        return None
    a, b, c = -g @ information @ g, -2 * v @ information @ g - 2, -v @ information @ v
    root = b * b - 4 * a * c
    if root < 0 or abs(a) < 1e-10:
        return -0.1 * v
    moves = [-v - (-b + sign * np.sqrt(root)) / (2 * a) * g for sign in (1, -1)]
    return min(moves, key=lambda move: float(move @ metric @ move))


def _checked(sample: Sample, fit: Fit, index: int, side: int, drop: float, theta: Floats) -> float | None:
    """The end, if it is on the right side and nothing fits better with the slope held there."""
    end = float(theta[index])
    if side * (end - float(fit.beta[index])) <= 0:
        return None
    best, _ = _held(sample, (theta, fit.theta), index, end)
    return end if abs(best.state.loglik - fit.state.loglik + drop) < _ON_THE_LINE else None


def _held(sample: Sample, starts: Sequence[Floats], index: int, value: float) -> tuple[Fit, bool]:
    """The best fit with the slope held, looked for from several points; and whether they led to several maxima."""
    fits = [fit_logit(sample, start=start, hold=(index, value), tolerance=1e-6) for start in starts]
    heights = [fit.state.loglik for fit in fits]
    return fits[int(np.argmax(heights))], max(heights) - min(heights) > _ON_THE_LINE


def _searched(sample: Sample, fit: Fit, index: int, side: int, drop: float) -> tuple[float | None, str | None]:
    """One end by bracketing the profile and Brent's method, following the nuisance parameters along the way."""
    centre, step = float(fit.beta[index]), side * float(fit.se[index])
    path = {centre: fit.theta}
    several = []

    def excess(value: float) -> float:
        near = sorted(path, key=lambda known: abs(known - value))[:2]
        held, differ = _held(sample, [path[known] for known in {*near, centre}], index, value)
        path[value] = held.theta
        several.append(differ)
        return held.state.loglik - fit.state.loglik + drop

    inner, outer = centre, centre + 1.96 * step
    while (above := excess(outer)) > 0:
        if abs(outer - centre) > FARTHEST:
            return None, "the penalised likelihood stays high"
        inner, outer = outer, outer + _WIDEN * (outer - inner)
    if not np.isfinite(above):
        return None, "the likelihood cannot be computed there"
    end = _root(excess, inner, outer)
    return end, "approximate, the penalised likelihood has several maxima" if any(several) else None


def _root(excess: Callable[[float], float], inner: float, outer: float) -> float:
    # Where the path jumps between maxima the inner point may fall below the line: it is the end then.
    if excess(inner) <= 0:
        return inner
    return float(brentq(excess, inner, outer, xtol=1e-6, rtol=1e-6, maxiter=25, disp=False))
