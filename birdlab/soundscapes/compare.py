"""Runs beside one another: who leads, and whether a difference would be there on other recordings too.

Differences are paired: both runs are scored on the same drawn recordings. Their p value is that of t = difference /
standard error with n - 1 degrees of freedom (n clusters with something heard), so it can be small enough for Holm's
correction over many pairs or species, which a share of 1,000 resamples cannot. A difference is called confirmed with a
corrected p below .05 and at least :data:`birdlab.soundscapes.resample.MIN_CLUSTERS` clusters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.soundscapes.resample import (
    CONSTANT,
    MIN_CLUSTERS,
    MIN_OF_CLASS,
    Estimate,
    Resampled,
    class_means,
    estimate,
)
from birdlab.stats import holm

ALPHA, MAX_RUNS = 0.05, 4
SAME = "the difference is the same in every resample"
_F, _I, _S, _B = pl.Float64, pl.Int64, pl.String, pl.Boolean
_TEST = {
    **{"difference": _F, "lo": _F, "hi": _F, "p": _F, "p_holm": _F, "family": _I, "confirmed": _B},
    **{"n_clusters": _I, "n_skipped": _I, "method": _S, "reason": _S},
}
PAIRS = {"run_a": _S, "run_b": _S, **_TEST}
SPECIES = {"run_a": _S, "run_b": _S, "class_id": _S, "ap_a": _F, "ap_b": _F, **_TEST, "better": _S}
BOARD = {
    **{"division": _S, "rank": _I, "run": _S, "team": _S, "assisted": _B, "external_data": _B},
    **{"cmap": _F, "team_best": _B, "flags": pl.List(pl.String)},
}


def paired_differences(found: Sequence[Resampled]) -> pl.DataFrame:
    """Difference in c-mAP of every pair of runs on the same resamples, with Holm's correction over the pairs.

    Args:
        found: :func:`birdlab.soundscapes.resample.resample_run` of each run, with one truth, clusters and seed.

    Returns:
        :data:`PAIRS`, A minus B in the order given; the family are the pairs that could be tested. No row for fewer than
        two runs.

    Raises:
        ParameterError: the runs were not resampled alike.
    """
    _alike(found)
    rows = []
    for a, b in itertools.combinations(found, 2):
        value = None if a.cmap is None or b.cmap is None else a.cmap - b.cmap
        draws = None
        if a.draws is not None and b.draws is not None:
            draws = class_means(a.draws) - class_means(b.draws)
        without = class_means(a.without) - class_means(b.without)
        e = estimate(value, draws, without, a.n_clusters, unit=a.unit, bounds=(-1.0, 1.0))
        rows.append({"run_a": a.run, "run_b": b.run} | _tested(e))
    return pl.DataFrame(_corrected(rows), schema=PAIRS, orient="row")


def species_differences(a: Resampled, b: Resampled) -> pl.DataFrame:
    """Difference in average precision of two runs, species by species, with Holm's correction over the species.

    Args:
        a, b: both runs, resampled alike.

    Returns:
        :data:`SPECIES`, A minus B, largest difference first; ``better`` names the run that is confirmed to be better.
        Species heard in fewer than :data:`~birdlab.soundscapes.resample.MIN_OF_CLASS` clusters are not tested and not
        part of the family.

    Raises:
        ParameterError: the runs were not resampled alike.
    """
    _alike([a, b])
    rows = []
    for h, name in enumerate(a.class_ids):
        draws = None if a.draws is None or b.draws is None else a.draws[:, h] - b.draws[:, h]
        e = estimate(
            float(a.ap[h] - b.ap[h]),
            draws,
            a.without[:, h] - b.without[:, h],
            int(a.n_with[h]),
            unit=a.unit,
            least=MIN_OF_CLASS,
            bounds=(-1.0, 1.0),
        )
        at = {"run_a": a.run, "run_b": b.run, "class_id": name, "ap_a": float(a.ap[h]), "ap_b": float(b.ap[h])}
        rows.append(at | _tested(e))
    for row in _corrected(rows):
        row["better"] = None if not row["confirmed"] else row["run_a"] if row["difference"] > 0 else row["run_b"]
    frame = pl.DataFrame(rows, schema=SPECIES, orient="row")
    return frame.sort(pl.col("difference").abs(), "class_id", descending=[True, False], nulls_last=True)


def leaderboard(runs: pl.DataFrame, cmap: dict[str, float | None]) -> pl.DataFrame:
    """Runs by c-mAP, automatic and assisted ones ranked apart, with what the rules of the challenge say about each.

    Args:
        runs: table ``soundscape_runs`` (run, team, assisted, external_data).
        cmap: c-mAP of each run.

    Returns:
        :data:`BOARD`: automatic runs first, best first; equal c-mAP shares a rank; a run without a c-mAP has no rank. Human
        assistance has to be declared, so a run of which nothing is said is ranked as automatic, and flagged. Flags also
        tell teams of more than four runs, and teams none of whose runs does without external data.
    """
    flags = _team_flags(runs)
    rows = []
    for row in runs.iter_rows(named=True):
        value = cmap.get(row["run"])
        own = list(flags[row["team"]])
        if row["assisted"] is None:
            own.append("human assistance: not said; ranked as automatic")
        if row["external_data"] is None:
            own.append("external data: not said")
        rows.append(
            {
                "division": "assisted" if row["assisted"] else "automatic",
                **{k: row[k] for k in ("run", "team", "assisted", "external_data")},
                "cmap": value,
                "flags": own,
            }
        )
    frame = pl.DataFrame(rows, schema={k: t for k, t in BOARD.items() if k not in ("rank", "team_best")})
    rank = pl.col("cmap").rank("min", descending=True).over("division").cast(pl.Int64)
    best = (pl.col("cmap") == pl.col("cmap").max().over("division", "team")).fill_null(value=False)
    frame = frame.with_columns(rank=rank, team_best=best, late=pl.col("division") == "assisted")
    order = frame.sort("late", "rank", "run", nulls_last=True, maintain_order=True)
    return order.select(pl.col(k).cast(t) for k, t in BOARD.items())


def _team_flags(runs: pl.DataFrame) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for (team,), part in runs.group_by("team", maintain_order=True):
        flags, outside = [], part["external_data"]
        if part.height > MAX_RUNS:
            flags.append(f"team of {part.height} runs; at most {MAX_RUNS} are allowed")
        if not (~outside).any():
            known = outside.null_count() == 0
            without = "no run without external data" if known else "no run said to be without external data"
            flags.append(f"team has {without}; one is required")
        out[str(team)] = flags
    return out


def _tested(e: Estimate) -> dict[str, Any]:
    """Columns of a difference; p is two-sided."""
    p, reason = None, SAME if e.reason == CONSTANT or (e.reason or "").startswith("the same in every") else e.reason
    if e.se is not None and e.value is not None and e.df is not None:
        from scipy.special import stdtr

        p = float(2 * stdtr(e.df, -abs(e.value) / e.se))
    out = {"difference": e.value, "lo": e.lo, "hi": e.hi, "p": p, "n_clusters": e.n_clusters}
    return out | {"n_skipped": e.n_skipped, "method": e.method, "reason": reason}


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with Holm's p values, the size of the family, and whether a difference is confirmed."""
    family = sum(row["p"] is not None for row in rows)
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        enough = row["n_clusters"] >= MIN_CLUSTERS
        row |= {"p_holm": p, "family": family, "confirmed": p is not None and p < ALPHA and enough}
    return rows


def _alike(found: Sequence[Resampled]) -> None:
    for other in found[1:]:
        first = found[0]
        same = (
            first.class_ids,
            first.seed,
            first.unit,
            first.n_clusters,
            _shape(first.draws),
            first.without.shape,
        ) == ((other.class_ids, other.seed, other.unit, other.n_clusters, _shape(other.draws), other.without.shape))
        if not same:
            expected = "runs resampled with one truth, clusters, number of resamples and seed"
            raise ParameterError(Problem("not_paired", f"{first.run!r} and {other.run!r} differ", expected))


def _shape(draws: np.ndarray | None) -> tuple[int, ...]:
    return () if draws is None else draws.shape
