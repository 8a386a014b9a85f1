"""Does a better tracker, identity or behaviour score make biology better? Task metric against biological error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl

from birdlab import stats

#: Fewer combinations than this say too little.
MIN_N = 8
#: A task metric with fewer values of its own than this (one per tracker, say) has no order to compare with.
MIN_VALUES = 3
TOO_FEW = f"fewer than {MIN_N} combinations: too few to say"
BY_FISHER = "Fisher's z with variance 1.06 / (n - 3)"
SCHEMA: dict[str, Any] = {
    "task": pl.String, "measure": pl.String, "rho": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "n": pl.Int64,
    "n_left_out": pl.Int64, "n_values": pl.Int64, "p": pl.Float64, "p_holm": pl.Float64, "method": pl.String, "words": pl.String, "reason": pl.String,
}  # fmt: skip
#: Random permutations of the test; every one of n! is tried up to 8 combinations.
N_PERMUTATIONS, MOST_EXACT = 20_000, 8


def task_against_biology(
    frame: pl.DataFrame,
    tasks: list[str] | None = None,
    measures: list[str] | None = None,
    *,
    seed: int = 0,
    made_of: Mapping[str, Sequence[str]] | None = None,
) -> pl.DataFrame:
    """Spearman's ρ of every task metric with every biological error over combinations.

    Args:
        frame: one row per combination; task metrics (higher is better) and errors (lower is better) as columns.
        tasks: columns of task metrics; every numeric column not in ``measures`` where not given.
        measures: columns of errors; those whose names end in ``_error`` where not given.
        seed: of the permutation test, where not all orders can be tried.
        made_of: columns that name the parts a number comes from, by task metric and error (who is together knows no
            behaviour model). Combinations that differ in no part of either number are copies and count once.

    Returns:
        task, measure, rho in [-1, 1] (negative: a better score goes with a smaller error), lo, hi (95 %, Fisher's z with
        variance 1.06 / (n - 3) for ranks), n (``n_left_out`` lack one of the numbers), n_values (parts that the task metric
        can differ by: HOTA has one value per tracker), p of a two-sided permutation test, p_holm (over all rows), method,
        words, reason. Below eight combinations, below three values, or where one side is constant, rho, interval and p
        are null. Combinations that share a tracker or a method are not independent: the interval is rather too
        narrow.

    Spearman (1904); Fieller, Hartley and Pearson (1957) for the variance.

    >>> known = pl.DataFrame({"idf1": [0.1, 0.2], "feeding_rate_mean_abs_error": [2.0, 1.0]})
    >>> task_against_biology(known)["words"].item()
    'idf1: fewer than 8 combinations: too few to say (n = 2)'
    """
    numeric = [c for c, dtype in frame.schema.items() if dtype.is_numeric()]
    measures = [c for c in numeric if c.endswith("_error")] if measures is None else measures
    tasks = [c for c in numeric if c not in measures] if tasks is None else tasks
    rows = []
    for task in tasks:
        for measure in measures:
            parts = (made_of or {}).get(task), (made_of or {}).get(measure)
            once = (
                frame.unique(sorted({*parts[0], *parts[1]}), keep="first", maintain_order=True) if all(parts) else frame
            )
            both = once.select(pl.col(task, measure).cast(pl.Float64).fill_nan(None))
            used = both.drop_nulls()
            own = once.drop_nulls([task, measure])
            n_values = own.unique(list(parts[0])).height if parts[0] else own[task].n_unique()
            found = _correlated(used[task].to_numpy(), used[measure].to_numpy(), task, measure, seed, n_values)
            about = {"n_left_out": both.height - used.height, "n_values": n_values}
            rows.append({"task": task, "measure": measure, **about, **found})
    adjusted = stats.holm([row.get("p") for row in rows])
    return pl.DataFrame([row | {"p_holm": p} for row, p in zip(rows, adjusted, strict=True)], schema=SCHEMA)


def _correlated(x: np.ndarray, y: np.ndarray, task: str, measure: str, seed: int, n_values: int) -> dict[str, Any]:
    n, reason = len(x), None
    if n < MIN_N:
        reason = TOO_FEW
    elif np.ptp(x) == 0 or np.ptp(y) == 0:
        reason = f"{task if np.ptp(x) == 0 else measure} is the same for every combination"
    elif n_values < MIN_VALUES:
        reason = f"{task} has {n_values} value{'s' * (n_values != 1)}: too few to say"
    if reason:
        return {"n": n, "words": f"{task}: {reason} (n = {n})", "reason": reason}
    a, b = ranks(x), ranks(y)
    rho = float(np.clip(np.corrcoef(a, b)[0, 1], -1, 1))
    lo, hi, reason = _ends(rho, n)
    p, tried = permutation_p(a, b, seed=seed)
    method = f"Spearman; interval: {BY_FISHER}; p: {tried}"
    return {"rho": rho, "lo": lo, "hi": hi, "n": n, "p": p, "method": method,
            "words": _words(task, rho, lo, hi, n), "reason": reason}  # fmt: skip


def _ends(rho: float, n: int) -> tuple[float | None, float | None, str | None]:
    if 1 - abs(rho) < 1e-12:
        return None, None, "all combinations in one order: Fisher's interval is not defined"
    from scipy.special import ndtri

    half = float(ndtri(0.5 + stats.CONFIDENCE / 2)) * np.sqrt(1.06 / (n - 3))
    return float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half)), None


def permutation_p(a: np.ndarray, b: np.ndarray, *, seed: int = 0) -> tuple[float, str]:
    """Two-sided p of no relation between ranks: share of orders with a correlation at least as far from 0.

    >>> permutation_p(np.arange(4.0), np.arange(4.0))
    (0.08333333333333333, 'all 24 orders')
    """
    a, b = a - a.mean(), b - b.mean()
    seen = abs(float(a @ b)) * (1 - 1e-12)
    if len(a) <= MOST_EXACT:
        orders = np.array(list(permutations(range(len(b)))))
        return float(np.mean(np.abs(b[orders] @ a) >= seen)), f"all {len(orders)} orders"
    rng = np.random.default_rng(seed)
    found = np.abs(rng.permuted(np.tile(b, (N_PERMUTATIONS, 1)), axis=1) @ a) >= seen
    return float((found.sum() + 1) / (N_PERMUTATIONS + 1)), f"{N_PERMUTATIONS} orders drawn with seed {seed}"


def ranks(x: np.ndarray) -> np.ndarray:
    """Ranks from 1; equals share the mean of theirs.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[inverse]


def _words(task: str, rho: float, lo: float | None, hi: float | None, n: int) -> str:
    head = f"{task}: ρ = {rho:.2f}" + (f" [{lo:.2f}, {hi:.2f}]" if lo is not None else "") + f", n = {n}"
    if lo is not None and lo <= 0 <= hi:
        return f"{head}: the interval holds 0, no relation is shown and none is excluded"
    return f"{head}: combinations that score higher have {'smaller' if rho < 0 else 'larger'} errors"
