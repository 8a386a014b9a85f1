"""Two factors at once: "dark and cluttered" birds, every pair of bins that holds enough of them.

All slices are looked at, not only the interesting ones, so the worst of them is compared with the worst that outcomes
permuted within sessions give (max-T over all slices and models).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.difficulty.arrays import Birds
from birdlab.difficulty.bins import Bins
from birdlab.difficulty.permutation import can_permute, max_t, permuted_counts
from birdlab.difficulty.univariate import ALPHA, MIN_N, ONE_SESSION, sums
from birdlab.errors import ParameterError

_F, _I, _S, _B = pl.Float64, pl.Int64, pl.String, pl.Boolean
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "factor_a": _S, "level_a": _S, "factor_b": _S, "level_b": _S, "n": _I, "k": _I, "recall": _F},
    **{"within_lo": _F, "within_hi": _F, "overall": _F, "shortfall": _F, "missed_share": _F, "recall_a": _F},
    **{"recall_b": _F, "excess": _F, "sessions": _I, "max_session_share": _F, "confounded": _B, "p": _F, "p_max": _F},
    **{"confirmed": _B, "family": _I, "reason": _S},
}


def slices(
    birds: Birds, binned: dict[str, Bins], *, min_n: int = MIN_N, n_permutations: int = 2000, seed: int = 1
) -> pl.DataFrame:
    """Recall of every pair of bins of two factors that holds enough birds, worst first.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`.
        binned: bins by factor; factors that do not vary take no part.
        min_n: birds (with a known outcome) a slice needs.
        n_permutations: permutations of outcomes within sessions; 0 for none (then no p values).
        seed: of the permutations.

    Returns:
        One row per model and slice, per model by rising recall, then falling n (:data:`SCHEMA`). ``shortfall`` =
        overall - recall; ``missed_share`` part of all the model's misses that lie in the slice; ``recall_a``,
        ``recall_b`` of its two bins alone, ``excess`` = the lower of them - recall, above 0 where the two together
        are worse than either; ``p`` one-sided, that a slice of these sessions' birds is found so seldom by chance;
        ``p_max`` the same for the whole ``family`` of slices and models, ``confirmed`` below 0.05. No rows where no
        slice is large enough.
    """
    varied = {name: b for name, b in binned.items() if b.varies}
    names, member = _members(varied, birds.table.height)
    rows: list[dict[str, Any]] = []
    columns: list[tuple[int, int]] = []
    for m in range(len(birds.models)):
        known = ~np.isnan(birds.outcome[:, m])
        for c in np.flatnonzero(member[known].sum(axis=0) >= min_n).tolist():
            rows.append(_row(birds, m, member[:, c], names[c], varied))
            columns.append((m, c))
    tests = _tests(birds, member, rows, columns, n_permutations, seed)
    table = pl.DataFrame([row | test for row, test in zip(rows, tests, strict=True)], schema=SCHEMA)
    order = {model: i for i, model in enumerate(birds.models)}
    by = [pl.col("model").replace_strict(order, return_dtype=pl.Int64), pl.col("recall"), pl.col("n")]
    return table.sort(by, descending=[False, False, True], maintain_order=True) if table.height else table


def birds_in(birds: Birds, binned: dict[str, Bins], where: dict[str, str]) -> pl.Series:
    """Instances that lie in all of these bins, in the order of the table.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`.
        binned: bins by factor.
        where: level by factor, such as ``{"brightness": "Dark", "clutter": "Cluttered"}``.

    Raises:
        ParameterError: no such factor or level.
    """
    inside = np.ones(birds.table.height, dtype=bool)
    for factor, level in where.items():
        if factor not in binned or level not in binned[factor].levels:
            known = ", ".join(binned[factor].levels) if factor in binned else ", ".join(binned)
            raise ParameterError(f"no bin {factor} = {level!r}: there are {known}")
        inside &= binned[factor].codes == binned[factor].levels.index(level)
    return birds.table["instance"].filter(pl.Series(inside))


def _members(varied: dict[str, Bins], n: int) -> tuple[list[tuple[str, int, str, int]], npt.NDArray[np.bool_]]:
    """Every pair of bins of two factors that any bird is in: (factor, code, factor, code) and bool (birds, slices)."""
    names: list[tuple[str, int, str, int]] = []
    columns = []
    for (fa, a), (fb, b) in itertools.combinations(varied.items(), 2):
        both = np.where((a.codes >= 0) & (b.codes >= 0), a.codes * len(b.levels) + b.codes, -1)
        for pair in np.unique(both[both >= 0]).tolist():
            names.append((fa, pair // len(b.levels), fb, pair % len(b.levels)))
            columns.append(both == pair)
    return names, np.column_stack(columns) if columns else np.empty((n, 0), dtype=bool)


def _row(
    birds: Birds, m: int, member: npt.NDArray[np.bool_], name: tuple[str, int, str, int], varied: dict[str, Bins]
) -> dict[str, Any]:
    outcome = birds.outcome[:, m]
    known = ~np.isnan(outcome)
    fa, a, fb, b = name
    inside = member & known
    hit, overall = outcome[inside], float(outcome[known].mean())
    alone = [float(outcome[known & (varied[f].codes == code)].mean()) for f, code in ((fa, a), (fb, b))]
    recall, per_session = float(hit.mean()), np.bincount(birds.session[inside])
    misses = int(np.sum(outcome[known] == 0))
    within, share = stats.within_sessions(*sums(birds.block[inside], hit)), float(per_session.max() / len(hit))
    sessions = int(np.sum(per_session > 0))
    return {
        **{"model": birds.models[m], "factor_a": fa, "level_a": varied[fa].levels[a]},
        **{"factor_b": fb, "level_b": varied[fb].levels[b], "n": len(hit), "k": int(hit.sum()), "recall": recall},
        **{"within_lo": within.lo, "within_hi": within.hi, "overall": overall, "shortfall": overall - recall},
        "missed_share": float(np.sum(hit == 0) / misses) if misses else None,
        **{"recall_a": alone[0], "recall_b": alone[1], "excess": min(alone) - recall},
        **{"sessions": sessions, "max_session_share": share, "confounded": sessions < 2 or share > ONE_SESSION},
    }


def _tests(
    birds: Birds,
    member: npt.NDArray[np.bool_],
    rows: list[dict[str, Any]],
    columns: list[tuple[int, int]],
    n_permutations: int,
    seed: int,
) -> list[dict[str, Any]]:
    why = None
    if n_permutations < 1:
        why = "no permutations were asked for"
    elif not can_permute(birds.session, birds.block):
        why = "no session holds two clusters of frames to exchange"
    if why or not rows:
        return [{"confirmed": False, "family": 0, "reason": why} for _ in rows]
    used = np.unique([c for _, c in columns])
    null = permuted_counts(
        birds.outcome,
        member[:, used],
        session=birds.session,
        block=birds.block,
        n_permutations=n_permutations,
        seed=seed,
    ).recall()
    place = {c: i for i, c in enumerate(used.tolist())}
    # Missed share of a slice: the larger, the worse; a slice that drew no known outcome counts as the worst.
    drawn = 1 - np.nan_to_num(np.column_stack([null[:, m, place[c]] for m, c in columns]))
    observed = np.array([1 - row["recall"] for row in rows])
    p = (1 + np.sum(drawn >= observed - 1e-12, axis=0)) / (1 + len(drawn))
    together = max_t(observed, drawn)
    family = sum(value is not None for value in together)
    return [
        {
            "p": None if both is None else float(one),
            "p_max": both,
            "confirmed": both is not None and both < ALPHA,
            "family": family,
            "reason": None if both is not None else "the outcomes of these birds cannot be permuted: all are alike",
        }
        for one, both in zip(p.tolist(), together, strict=True)
    ]
