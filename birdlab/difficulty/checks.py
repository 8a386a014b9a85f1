"""What is checked before a joint model is believed: information in the sessions, separation, events, collinearity.

The checks are made in the order of the report: outcome, rows that are dropped, constant factors, aliased factors,
informative sessions, separation, events per variable, variance inflation, units, condition number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.difficulty.design import Design, aliased, within_deviation
from birdlab.difficulty.logit import Codes, Fit, Floats, Sample, maximum_likelihood

#: Fewer events per variable: not fitted at all; unstable.
NOT_FITTED_BELOW, UNSTABLE_BELOW = 1.0, 5.0
#: Variance inflation from which two factors can hardly be told apart.
TOO_COLLINEAR = 10.0
INTERCEPT = "intercept"
#: What the linear programme calls 0.
_ZERO = 1e-5


@dataclass(frozen=True)
class Existence:
    """Whether the maximum-likelihood estimate exists, and what is left of it where it does not.

    Args:
        infinite: terms whose estimate is infinite, with the direction (+1, -1): factors, session dummies (against the
            first session), ``intercept``.
        rows: birds that the finite estimates rest on, (n,); the others are recovered (or missed) with certainty.
        columns: factors of that fit, positions in the design (those that are infinite are only controls in it).
        fit: the fit on these rows and columns; ``None`` where nothing is left.
        complete: every bird is classified without error: nothing is left.
    """

    infinite: dict[str, int]
    rows: npt.NDArray[np.bool_]
    columns: tuple[int, ...]
    fit: Fit | None
    complete: bool


def informative_sessions(design: Design, model: str) -> list[str]:
    """Sessions with birds both recovered and missed: only they say anything about slopes (a fixed effect takes the rest).

    Returns:
        Names, sorted.
    """
    n = np.bincount(design.session)
    k = np.bincount(design.session, design.outcomes[model])
    return [name for name, hits, birds in zip(design.sessions, k, n, strict=True) if 0 < hits < birds]


def events_per_variable(n_missed: int, n_recovered: int, n_slopes: int, n_sessions: int) -> float | None:
    """Birds of the rarer outcome per parameter, min(misses, hits) / (slopes + sessions - 1); higher is better.

    Returns:
        At least 0; ``None`` without parameters.

    Peduzzi et al. (1996): below 10 estimates start to be biased, below 5 they are not to be relied on.

    >>> round(events_per_variable(61, 468, 6, 4), 3)
    6.778
    """
    parameters = n_slopes + n_sessions - 1
    return min(n_missed, n_recovered) / parameters if parameters > 0 else None


def inflation(values: Floats, session: Codes | None = None) -> list[float | None]:
    """Variance inflation factor of each column beside the others and the session dummies, 1/(1 - R²); 1 is none.

    Args:
        values: factors, (n, p).
        session: codes of the sessions, (n,); ``None`` for factors alone.

    Returns:
        One number of at least 1 per column; ``None`` for a constant column or an exact combination.

    >>> [round(v, 3) for v in inflation(np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]))]
    [1.0, 1.0]
    """
    if not values.size:
        return [None] * values.shape[1]
    codes = np.zeros(len(values), dtype=np.int64) if session is None else session
    centred = within_deviation(values, codes)
    total = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    out: list[float | None] = []
    for j in range(values.shape[1]):
        others = np.delete(centred, j, axis=1)
        rest = centred[:, j] - others @ np.linalg.lstsq(others, centred[:, j], rcond=None)[0]
        left = float(rest @ rest)
        out.append(float(total[j]) / left if left > 1e-14 * total[j] else None)
    return out


def condition_number(design: Design) -> float | None:
    """Condition number of the design with its columns scaled to length 1, at least 1; above 30 it is ill-conditioned.

    Belsley, Kuh and Welsch (1980), §3.2, with z-scores and one column per session.
    """
    if not design.n or not design.used:
        return None
    columns = np.column_stack([design.z, design.session[:, None] == np.arange(len(design.sessions))]).astype(np.float64)
    values = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else None


def correlations(design: Design) -> pl.DataFrame:
    """Correlations of the factors, over all birds and within sessions.

    Returns:
        ``factor``, ``other``, ``r_pooled``, ``r_within``, each in [-1, 1]; all pairs, for a heatmap.
    """
    pooled = np.atleast_2d(np.corrcoef(design.z.T)) if design.n > 1 and design.used else np.empty((0, 0))
    inside = within_deviation(design.z, design.session)
    within = np.atleast_2d(np.corrcoef(inside.T)) if len(pooled) else pooled
    rows = [
        {"factor": a, "other": b, "r_pooled": float(pooled[i, j]), "r_within": float(within[i, j])}
        for i, a in enumerate(design.used)
        for j, b in enumerate(design.used)
        if len(pooled)
    ]
    return pl.DataFrame(
        rows, schema={"factor": pl.String, "other": pl.String, "r_pooled": pl.Float64, "r_within": pl.Float64}
    )


def existence(design: Design, model: str) -> Existence:
    """The maximum-likelihood fit where it exists; else which terms are infinite, and the fit of what is left.

    Newton's method reaching a maximum proves that there is no separation. Otherwise the linear programme of Konis
    (2007), Eq. 4.23, names the terms; the birds it classifies with certainty are set aside and the question is put
    again to the rest, until the rest has a maximum or nothing is left. Slopes from the rest are those of the whole, in
    the limit (Geyer 2009, §3).
    """
    sample, rows = design.sample(model), np.ones(design.n, dtype=bool)
    columns = list(range(len(design.used)))
    infinite: dict[str, int] = {}
    while rows.any():
        left = sample.subset(rows, columns)
        fit = maximum_likelihood(left)
        if fit is not None:
            return Existence(_ordered(infinite, design), rows, tuple(columns), fit, False)
        directions, certain = separated_terms(left)
        if not certain.any():
            return Existence(_ordered(infinite, design), rows, tuple(columns), None, False)
        first = rows.all()
        names = [design.used[j] for j in columns]
        # Dummies are named against the first session, so only the first round can name them.
        names += [*design.sessions[1:], INTERCEPT] if first else []
        found = {term: int(d) for term, d in zip(names, directions, strict=False) if d}
        infinite = found | infinite
        rows[np.flatnonzero(rows)[certain]] = False
        # What separates is constant, or a combination, on the rest: it comes last, so that it is what is left out.
        columns = _estimable(design, rows, sorted(columns, key=lambda j: design.used[j] in infinite))
    return Existence(_ordered(infinite, design), rows, (), None, True)


def separated_terms(sample: Sample) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """Terms whose maximum-likelihood estimate is infinite, and the birds that this settles.

    Args:
        sample: factors, outcomes, sessions; no column may be a combination of others and of the sessions.

    Returns:
        Direction (+1, -1, 0 for finite) of the p factors, the dummies of sessions 1 … G-1 and the intercept; and which
        birds are recovered (or missed) with certainty in that direction, (n,).

    Konis (2007), Eq. 4.23: maximise Σ s_i x_i·b subject to s_i x_i·b >= 0 and -1 <= b <= 1, s_i = ±1 the outcome.
    """
    from scipy.optimize import linprog

    dummies = sample.session[:, None] == np.arange(1, sample.n_sessions)
    columns = np.column_stack([sample.z, dummies, np.ones(len(sample.z))]).astype(np.float64)
    signed = np.where(sample.recovered > 0.5, 1.0, -1.0)[:, None] * columns
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    if not found.success:
        return np.zeros(columns.shape[1], dtype=np.int64), np.zeros(len(signed), dtype=bool)
    return np.where(np.abs(found.x) > _ZERO, np.sign(found.x), 0).astype(np.int64), signed @ found.x > _ZERO


def _estimable(design: Design, rows: npt.NDArray[np.bool_], columns: list[int]) -> list[int]:
    """Columns that are neither constant nor combinations of earlier ones on the birds that are left."""
    if not rows.any():
        return []
    codes = np.unique(design.session[rows], return_inverse=True)[1]
    values = design.z[np.ix_(rows, columns)]
    varying = [i for i in range(len(columns)) if values[:, i].max() > values[:, i].min()]
    names = [design.used[columns[i]] for i in varying]
    combined = aliased(values[:, varying], codes, names)
    return [columns[i] for i in varying if design.used[columns[i]] not in combined]


def _ordered(infinite: dict[str, int], design: Design) -> dict[str, int]:
    order = [*design.used, *design.sessions, INTERCEPT]
    return {term: infinite[term] for term in order if term in infinite}


def separating_alone(design: Design, model: str) -> list[str]:
    """Factors that tell every missed bird from every recovered one on their own, as one sentence each."""
    hit = design.outcomes[model] > 0.5
    if hit.all() or not hit.any():
        return []
    found = []
    for name in design.used:
        values = design.birds[name].to_numpy()
        if values[hit].max() < values[~hit].min():
            found.append(f"{name} alone separates: every bird above {values[hit].max():g} was missed, no other")
        elif values[~hit].max() < values[hit].min():
            found.append(f"{name} alone separates: every bird below {values[hit].min():g} was missed, no other")
    return found
