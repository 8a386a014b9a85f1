"""Two models on the same photographs: the difference of an area or accuracy, from the same draws of clusters.

Always paired, resample by resample; two intervals that overlap are never compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.abstention.resampling import CONSTANT, FEW_CLUSTERS, interval, no_interval
from birdlab.errors import ParameterError, Problem

if TYPE_CHECKING:
    from birdlab.abstention.evaluate import Evaluated

ALPHA = 0.05
SAME = "the difference is the same in every resample"
_F, _I, _S = pl.Float64, pl.Int64, pl.String
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model_a": _S, "model_b": _S, "difference": _F, "lo": _F, "hi": _F, "p": _F, "p_holm": _F},
    **{"confirmed": pl.Boolean, "n_clusters": _I, "n_used": _I, "n_skipped": _I, "family": _I, "reason": _S},
}


def paired_differences(
    values: Mapping[str, npt.ArrayLike],
    points: Mapping[str, float | None],
    *,
    n_clusters: int,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Difference of every pair of models, with percentile interval, bootstrap p value and Holm's correction.

    Args:
        values: one value per resample for each model, (R,), all from the same matrix of draws; NaN where a resample
            has none (skipped for the pair, and counted).
        points: the value of each model on the photographs as they are; ``None`` where undefined.
        n_clusters: clusters that the values rest on (:func:`birdlab.abstention.resampling.count_clusters`).
        confidence: coverage of the intervals.

    Returns:
        One row per pair (:data:`SCHEMA`) in the order of ``values``: A minus B, its ends, p, and ``p_holm`` over the
        ``family`` of pairs that could be tested. ``confirmed``: p_holm < 0.05 with at least
        :data:`~birdlab.abstention.resampling.FEW_CLUSTERS` clusters. ``reason`` says why a number is missing, or
        that nothing could have been confirmed: few clusters, or too few resamples for so many pairs
        (:func:`resamples_needed`). No rows for fewer than two models.

    Raises:
        ParameterError: the models of ``values`` and ``points`` differ, or their resamples differ in number.

    p = min(1, 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (B + 1)) over the B usable resamples d*: the interval at level
    1 - p just reaches 0. The added one as in Monte Carlo tests, Davison and Hinkley (1997), ch. 4; Holm (1979).

    >>> values = {"a": np.linspace(0.6, 0.7, 999), "b": np.linspace(0.5, 0.6, 999)}
    >>> row = paired_differences(values, {"a": 0.65, "b": 0.55}, n_clusters=2).row(0, named=True)
    >>> round(row["difference"], 3), row["reason"]
    (0.1, 'the difference is the same in every resample')
    """
    arrays = _arrays(values, points)
    rows = [
        {"model_a": a, "model_b": b} | _pair(arrays[a] - arrays[b], points[a], points[b], n_clusters, confidence)
        for a, b in itertools.combinations(arrays, 2)
    ]
    family = sum(row["p"] is not None for row in rows)
    for row, p in zip(rows, stats.holm([row["p"] for row in rows]), strict=True):
        row["p_holm"], row["family"] = p, family
        row["confirmed"] = p is not None and p < ALPHA and n_clusters >= FEW_CLUSTERS
        if p is not None and not row["confirmed"] and family * 2 / (row["n_used"] + 1) >= ALPHA:
            few = f"{row['n_used']:,} resamples are too few to confirm one of {family} pairs"
            row["reason"] = f"{row['reason']}; {few}" if row["reason"] else few
    return pl.DataFrame(rows, schema=SCHEMA)


def compare(found: Mapping[str, Evaluated], measures: Sequence[str]) -> pl.DataFrame:
    """Differences of every pair of models in each measure; each measure is a family of its own.

    Args:
        found: what was measured of each model, all with the same draws of clusters.
        measures: names of numbers.

    Returns:
        ``measure`` and the columns of :data:`SCHEMA`. Models that lack a measure are in no pair of it; a measure that
        fewer than two have gives no rows.
    """
    parts = [pl.DataFrame(schema={"measure": pl.String, **SCHEMA})]
    for measure in measures:
        numbers = {name: one.numbers[measure] for name, one in found.items()}
        have = {name: n for name, n in numbers.items() if n.drawn is not None and n.value is not None}
        table = paired_differences(
            {name: n.drawn for name, n in have.items()},  # type: ignore[misc]
            {name: n.value for name, n in have.items()},
            n_clusters=min((n.n_clusters or 0 for n in have.values()), default=0),
        )
        parts.append(table.select(pl.lit(measure).alias("measure"), pl.all()))
    return pl.concat(parts)


def bootstrap_p(d: npt.NDArray[np.float64]) -> float:
    """Two-sided bootstrap p value of "no difference", in (0, 1].

    Args:
        d: differences, one per usable resample, (B,), B at least 1.

    Returns:
        min(1, 2 (1 + min(#{d <= 0}, #{d >= 0})) / (B + 1)); never 0.

    >>> bootstrap_p(np.arange(1.0, 100.0)), bootstrap_p(np.zeros(9))
    (0.02, 1.0)
    """
    return min(1.0, 2 * (1 + min(int(np.sum(d <= 0)), int(np.sum(d >= 0)))) / (len(d) + 1))


def resamples_needed(n_models: int, *, alpha: float = ALPHA) -> int:
    """Fewest resamples with which the clearest difference among all pairs of models can be confirmed.

    The smallest p value is 2 / (R + 1), and Holm multiplies it by the number of pairs.

    >>> resamples_needed(2), resamples_needed(8)
    (40, 1120)
    """
    return math.floor(2 * math.comb(n_models, 2) / alpha + 1e-9)


def _pair(
    d: npt.NDArray[np.float64], a: float | None, b: float | None, n_clusters: int, confidence: float
) -> dict[str, Any]:
    used = d[~np.isnan(d)]
    row: dict[str, Any] = {"difference": None, "lo": None, "hi": None, "p": None, "reason": None}
    row |= {"n_clusters": n_clusters, "n_used": len(used), "n_skipped": len(d) - len(used)}
    if a is None or b is None:
        return row | {"reason": "undefined for one of the models"}
    row["difference"] = a - b
    reason = no_interval(used, n_clusters=n_clusters, confidence=confidence)
    if reason is not None:
        return row | {"reason": SAME if reason == CONSTANT else reason}
    found = interval(d, n_clusters=n_clusters, confidence=confidence)
    return row | {"lo": found.lo, "hi": found.hi, "p": bootstrap_p(used), "reason": found.reason}


def _arrays(
    values: Mapping[str, npt.ArrayLike], points: Mapping[str, float | None]
) -> dict[str, npt.NDArray[np.float64]]:
    arrays = {model: np.asarray(v, dtype=np.float64).reshape(-1) for model, v in values.items()}
    lengths = sorted({len(v) for v in arrays.values()})
    problems = []
    if set(arrays) != set(points):
        found = ", ".join(sorted(set(arrays) ^ set(points)))
        problems.append(Problem("models_differ", f"{found} in one of them only", "the same models", key="points"))
    if len(lengths) > 1:
        expected = "the same draws of clusters for all models"
        problems.append(Problem("resamples_differ", f"{lengths} resamples", expected, key="values"))
    if problems:
        raise ParameterError(problems)
    return arrays
