"""Recall by difficulty factor, one factor at a time: bins with two intervals, worst bin, Δ, impact, what is confirmed.

Western Bluebird, §6.2 and Tables 4-9, with what they leave out: n, intervals, what chance alone would give, and what a
factor is worth. *Sensitivity* Δ is best minus worst bin; *impact* is best bin minus overall (Hoiem, Chodpathumwan and
Dai 2012): recall to be gained if all birds were like those of the best bin. A large Δ in a small bin has little impact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.difficulty.arrays import Birds, arrange
from birdlab.difficulty.bins import DEFAULT_FACTORS, MISSING, Bins, Preset, Ties, bin_instances, shown_level
from birdlab.difficulty.permutation import Permuted, can_permute, max_t, p_value, permuted_counts, spread

#: Smallest bin that may be worst or best; a share of one session's birds above which a bin stands for that session.
MIN_N, ONE_SESSION = 20, 0.6
ALPHA = 0.05
_F, _I, _S, _B = pl.Float64, pl.Int64, pl.String, pl.Boolean
BIN_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "factor": _S, "level": _S, "order": _I, "lo": _F, "hi": _F, "min": _F, "max": _F},
    **{"n": _I, "k": _I, "recall": _F, "sessions": _I, "max_session_share": _F, "largest_session": _S},
    **{"within_lo": _F, "within_hi": _F, "n_blocks": _I, "within_reason": _S},
    **{"new_lo": _F, "new_hi": _F, "new_reason": _S, "eligible": _B, "confounded": _B, "reason": _S},
}
FACTOR_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "factor": _S, "n": _I, "k": _I, "overall": _F, "worst": _S, "worst_n": _I, "worst_recall": _F},
    **{"best": _S, "best_n": _I, "best_recall": _F, "delta": _F, "delta_lo": _F, "delta_hi": _F, "delta_null": _F},
    **{"p": _F, "p_holm": _F, "p_max": _F, "confirmed": _B, "family": _I, "n_permutations": _I},
    **{"impact": _F, "birds": _F, "shortfall": _F, "confounded": _B, "within_difference": _F},
    **{"within_sessions_n": _I, "note": _S, "reason": _S},
}


@dataclass(frozen=True)
class Univariate:
    """Recall by factor. ``bins``: a row per model, factor and bin; ``factors``: a row per model and factor."""

    bins: pl.DataFrame
    factors: pl.DataFrame


def univariate(
    instances: pl.DataFrame,
    factors: Sequence[str] = DEFAULT_FACTORS,
    *,
    preset: str | Preset = "default",
    ties: Ties | None = None,
    min_n: int = MIN_N,
    n_permutations: int = 2000,
    seed: int = 1,
    unit: str = "session",
) -> Univariate:
    """Recall by factor for every model: bins, worst and best bin, Δ, impact, and which differences are confirmed.

    Args:
        instances: see :func:`birdlab.difficulty.arrays.arrange`.
        factors: columns to look at.
        preset: quantiles and tie rule, see :func:`birdlab.difficulty.bins.bin_factor`.
        ties: where a value on an edge goes, instead of the preset's rule.
        min_n: birds a bin needs to be worst or best.
        n_permutations: permutations of outcomes within sessions; 0 for none (then no p values).
        seed: of the permutations.
        unit: ``session`` or ``site``: what the interval for new ones counts.

    Returns:
        The two tables of :func:`recall_by_bin` and :func:`sensitivity`. Edges are taken on all birds, once. A model
        that was not asked about a bird (recovered is null) does not count it: n is then smaller for that model.

    Raises:
        DataError: see :func:`birdlab.difficulty.arrays.arrange` and :func:`birdlab.difficulty.bins.bin_instances`.
    """
    birds = arrange(instances, factors, unit=unit)
    binned = bin_instances(birds.table, factors, preset=preset, ties=ties)
    bins = recall_by_bin(birds, binned, min_n=min_n, unit=unit)
    found = sensitivity(birds, binned, bins, n_permutations=n_permutations, seed=seed)
    return Univariate(bins, found)


def recall_by_bin(birds: Birds, binned: dict[str, Bins], *, min_n: int = MIN_N, unit: str = "session") -> pl.DataFrame:
    """Recall in every bin of every factor, with both named intervals.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`.
        binned: bins by factor.
        min_n: birds a bin needs to be worst or best.
        unit: what ``birds.top`` is.

    Returns:
        One row per model, factor and level (:data:`BIN_SCHEMA`). ``lo``, ``hi`` are edges (null: no end), ``min`` and
        ``max`` the values inside. ``within_*``: for more frames of these sessions, Wilson with n lowered to what the
        clusters of frames are worth; ``new_*``: for sessions not recorded yet, CR1 on the logit scale with t(G-1).
        ``confounded``: the bin lies in fewer than two sessions, or more than 60 % of it in one. An empty bin has n = 0
        and no recall; birds without a value have a row ``missing``, so that the n of a factor add up to all birds.
    """
    rows: list[dict[str, Any]] = []
    for (m, model), (factor, b) in itertools.product(enumerate(birds.models), binned.items()):
        known = ~np.isnan(birds.outcome[:, m])
        values = birds.table[factor].cast(pl.Float64).to_numpy()
        levels = [*enumerate(b.levels), (-1, MISSING)]
        for code, level in levels:
            inside = known & (b.codes == code)
            if code == -1 and not inside.any():
                continue
            row = {"model": model, "factor": factor, "level": level, "order": code if code >= 0 else len(b.levels)}
            row |= {"lo": b.lo[code], "hi": b.hi[code]} if code >= 0 else {}
            if inside.any() and code >= 0:
                row |= {"min": float(values[inside].min()), "max": float(values[inside].max())}
            row |= _bin_row(birds, m, inside, unit)
            row["eligible"] = b.varies and code >= 0 and row["n"] >= min_n
            rows.append(row)
    return pl.DataFrame(rows, schema=BIN_SCHEMA)


def sensitivity(
    birds: Birds, binned: dict[str, Bins], bins: pl.DataFrame, *, n_permutations: int = 2000, seed: int = 1
) -> pl.DataFrame:
    """Worst and best bin, Δ, impact, and whether Δ is more than chance, for every model and factor.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`.
        binned: bins by factor.
        bins: what :func:`recall_by_bin` returns for them.
        n_permutations: permutations of outcomes within sessions; 0 for none.
        seed: of the permutations.

    Returns:
        One row per model and factor (:data:`FACTOR_SCHEMA`); shares, not percent. Bins that tie are all named, from
        low to high ("Dark = Bright"). ``delta`` = best - worst; ``delta_lo``, ``delta_hi`` its interval within these
        sessions; ``delta_null`` its mean and ``p`` its one-sided p value when outcomes are permuted within sessions;
        ``p_holm`` over the ``family`` of all models and factors that could be tested, ``confirmed`` below 0.05;
        ``p_max`` by max-T. ``impact`` = best - overall, ``birds`` the birds that would be, ``shortfall`` = overall -
        worst. ``within_difference``: best minus worst inside sessions that have both, averaged by n. Undefined is
        null with a ``reason``. B permutations give no p below 1 / (B + 1): a family of more than B / 20 cannot be
        confirmed by Holm, and needs more permutations.

    Δ and worst bin: Western Bluebird, Tables 4-9. Impact: Hoiem et al. (2012). Permutation: p_value, max_t.
    """
    rows = [
        _factor_row(birds, m, b, bins.filter((pl.col("model") == model) & (pl.col("factor") == factor)))
        for (m, model), (factor, b) in itertools.product(enumerate(birds.models), binned.items())
    ]
    table = pl.DataFrame(rows, schema=FACTOR_SCHEMA)
    return _tested(table, birds, binned, bins, n_permutations, seed) if table.height else table


def sums(codes: npt.NDArray[np.int64], hit: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Sum of the values (birds found) and number of birds per code, for the codes that occur.

    >>> [x.tolist() for x in sums(np.array([0, 2, 2]), np.array([1.0, 1.0, 0.0]))]
    [[1.0, 1.0], [1, 2]]
    """
    n = np.bincount(codes)
    return np.bincount(codes, weights=hit)[n > 0], n[n > 0]


def cells(factors: pl.DataFrame) -> pl.DataFrame:
    """The layout of Western Bluebird's Tables 4-9: a row per model, a column per factor, "Dark: 77.7%, Δ=20.6".

    Args:
        factors: what :func:`sensitivity` returns.

    Returns:
        model and one text column per factor, in order; "–" where there is no worst bin.
    """
    text = [cell(row) for row in factors.iter_rows(named=True)]
    table = factors.select("model", "factor").with_columns(cell=pl.Series(text, dtype=pl.String))
    return table.pivot("factor", index="model", values="cell", maintain_order=True)


def cell(row: dict[str, Any]) -> str:
    """One cell of the paper's Tables 4-9: worst bin, its recall and Δ in percent and percentage points.

    >>> cell({"factor": "crowding", "worst": "2-3", "worst_recall": 35 / 48, "delta": 444 / 481 - 35 / 48})
    '2–3 objects: 72.9%, Δ=19.4'
    """
    if row["delta"] is None:
        return "–"
    names = " = ".join(shown_level(row["factor"], level) for level in row["worst"].split(" = "))
    return f"{names}: {100 * row['worst_recall']:.1f}%, Δ={100 * row['delta']:.1f}"


def _bin_row(birds: Birds, m: int, inside: npt.NDArray[np.bool_], unit: str) -> dict[str, Any]:
    hit = birds.outcome[inside, m]
    n = len(hit)
    if not n:
        return {"n": 0, "k": 0, "sessions": 0, "n_blocks": 0, "confounded": False, "reason": "no bird in this bin"}
    per_session = np.bincount(birds.session[inside], minlength=len(birds.sessions))
    largest, sessions = int(per_session.argmax()), int(np.sum(per_session > 0))
    share = float(per_session[largest] / n)
    within = stats.within_sessions(*sums(birds.block[inside], hit))
    new = stats.new_sessions(*sums(birds.top[inside], hit), unit=unit)
    return {
        **{"n": n, "k": int(hit.sum()), "recall": float(hit.sum() / n), "sessions": sessions},
        **{"max_session_share": share, "largest_session": birds.sessions[largest]},
        **{"within_lo": within.lo, "within_hi": within.hi, "within_reason": within.reason},
        **{"n_blocks": within.n_clusters, "new_lo": new.lo, "new_hi": new.hi, "new_reason": new.reason},
        "confounded": sessions < 2 or share > ONE_SESSION,
    }


def _factor_row(birds: Birds, m: int, b: Bins, bins: pl.DataFrame) -> dict[str, Any]:
    known = ~np.isnan(birds.outcome[:, m])
    n, k = int(known.sum()), int(np.nansum(birds.outcome[:, m]))
    overall = k / n if n else None
    row: dict[str, Any] = {"model": birds.models[m], "factor": b.factor, "n": n, "k": k, "overall": overall}
    row |= {"note": b.note, "confirmed": False, "confounded": False}
    able = bins.filter(pl.col("eligible")).sort("order")
    if not b.varies or able.height < 2:
        return row | {"reason": b.note if not b.varies else "fewer than two bins hold enough birds"}
    recall = able["recall"].to_numpy()
    worst, best = np.flatnonzero(recall == recall.min()), np.flatnonzero(recall == recall.max())
    w, t = int(worst[0]), int(best[0])
    lo, hi = _delta_interval(birds, m, b, able["order"].to_list())
    difference, pairs = _within(birds, m, b, int(able["order"][w]), int(able["order"][t]))
    return row | {
        **{"worst": " = ".join(able["level"].gather(worst)), "worst_n": able["n"][w], "worst_recall": recall[w]},
        **{"best": " = ".join(able["level"].gather(best)), "best_n": able["n"][t], "best_recall": recall[t]},
        **{"delta": recall[t] - recall[w], "delta_lo": lo, "delta_hi": hi},
        **{"impact": recall[t] - overall, "birds": (recall[t] - overall) * n, "shortfall": overall - recall[w]},
        "confounded": bool(able["confounded"].gather([*worst, *best]).any()),
        **{"within_difference": difference, "within_sessions_n": pairs},
    }


def _delta_interval(birds: Birds, m: int, b: Bins, codes: list[int]) -> tuple[float | None, float | None]:
    """Interval of Δ whichever bins are worst and best: simultaneous ones of all pairs, each from two Wilson intervals.

    Newcombe (1998), method 10, at Bonferroni's level for the pairs; Δ is the largest of the differences.
    """
    known = ~np.isnan(birds.outcome[:, m])
    level = 1 - (1 - stats.CONFIDENCE) / math.comb(len(codes), 2)
    ends = []
    for code in codes:
        inside = known & (b.codes == code)
        k, n = sums(birds.block[inside], birds.outcome[inside, m])
        i = stats.within_sessions(k, n, confidence=level)
        ends.append((float(k.sum() / n.sum()), i.lo, i.hi))
    lo, hi = 0.0, 0.0
    for (p, l1, u1), (q, l2, u2) in itertools.permutations(ends, 2):
        lo = max(lo, p - q - math.hypot(p - l1, u2 - q))  # type: ignore[operator]
        hi = max(hi, p - q + math.hypot(u1 - p, q - l2))  # type: ignore[operator]
    return lo, min(1.0, hi)


def _within(birds: Birds, m: int, b: Bins, worst: int, best: int) -> tuple[float | None, int]:
    """Best minus worst inside the sessions that have both, weighted by their birds in the two; number of sessions."""
    known, size = ~np.isnan(birds.outcome[:, m]), len(birds.sessions)
    k, n = np.zeros((2, size)), np.zeros((2, size))
    for i, code in enumerate((worst, best)):
        inside = known & (b.codes == code)
        n[i] = np.bincount(birds.session[inside], minlength=size)
        k[i] = np.bincount(birds.session[inside], weights=birds.outcome[inside, m], minlength=size)
    both = (n > 0).all(axis=0)
    if not both.any():
        return None, 0
    k, n = k[:, both], n[:, both]
    return float(np.average(k[1] / n[1] - k[0] / n[0], weights=n.sum(axis=0))), int(both.sum())


def _tested(
    table: pl.DataFrame, birds: Birds, binned: dict[str, Bins], bins: pl.DataFrame, n_permutations: int, seed: int
) -> pl.DataFrame:
    """Add E[Δ | null], p, p_holm, p_max, confirmed, family; the reason where there is no test."""
    why = None
    if n_permutations < 1:
        why = "no permutations were asked for"
    elif not can_permute(birds.session, birds.block):
        why = "no session holds two clusters of frames to exchange"
    out: list[dict[str, Any]] = [{"n_permutations": 0 if why else n_permutations} for _ in range(table.height)]
    tested = [] if why else _null(table, birds, binned, bins, n_permutations, seed)
    for i, mean, p, p_max in tested:
        out[i] |= {"delta_null": mean, "p": p, "p_max": p_max}
    for row, holm in zip(out, stats.holm([row.get("p") for row in out]), strict=True):
        row |= {"p_holm": holm, "confirmed": holm is not None and holm < ALPHA, "family": len(tested)}
    for row, given in zip(out, table.iter_rows(named=True), strict=True):
        alike = "every bird has the same outcome" if given["k"] in (0, given["n"]) else None
        row["reason"] = given["reason"] or (why or alike if row.get("p") is None else None)
    new = pl.DataFrame(out, schema={c: FACTOR_SCHEMA[c] for c in (*_TESTED, "reason")})
    return table.with_columns(new.get_columns())


_TESTED = ("delta_null", "p", "p_holm", "p_max", "confirmed", "family", "n_permutations")


def _null(
    table: pl.DataFrame, birds: Birds, binned: dict[str, Bins], bins: pl.DataFrame, n_permutations: int, seed: int
) -> list[tuple[int, float, float, float | None]]:
    """For each row that can be tested: its number, mean Δ under permutation, p and max-T p."""
    varied = [b for b in binned.values() if b.varies]
    start = dict(
        zip([b.factor for b in varied], np.cumsum([0, *[len(b.levels) for b in varied]]).tolist(), strict=False)
    )
    testable = [
        (i, r) for i, r in enumerate(table.iter_rows(named=True)) if r["delta"] is not None and 0 < r["k"] < r["n"]
    ]
    if not testable:
        return []
    groups = np.concatenate([b.indicators() for b in varied], axis=1)
    null: Permuted = permuted_counts(
        birds.outcome, groups, session=birds.session, block=birds.block, n_permutations=n_permutations, seed=seed
    )
    recall = null.recall()
    able = {
        key: part["order"].to_numpy()
        for key, part in bins.filter(pl.col("eligible")).partition_by("model", "factor", as_dict=True).items()
    }
    spreads = np.column_stack(
        [
            spread(recall[:, birds.models.index(r["model"])][:, start[r["factor"]] + able[r["model"], r["factor"]]])
            for _, r in testable
        ]
    )
    observed = np.array([r["delta"] for _, r in testable])
    together = max_t(observed, spreads)
    return [
        (i, float(spreads[:, j].mean()), p_value(observed[j], spreads[:, j]), together[j])
        for j, (i, _) in enumerate(testable)
    ]
