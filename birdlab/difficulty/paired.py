"""Two models on the same birds: the difference in recall, overall and in every bin of every factor.

Always paired, bird by bird, and clustered; two intervals that overlap are never compared.
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
from birdlab.difficulty.univariate import ALPHA, MIN_N, sums

_F, _I, _S = pl.Float64, pl.Int64, pl.String
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model_a": _S, "model_b": _S, "factor": _S, "level": _S, "kind": _S, "difference": _F, "lo": _F, "hi": _F},
    **{"p": _F, "p_holm": _F, "confirmed": pl.Boolean, "n": _I, "n_only_a": _I, "n_only_b": _I, "n_clusters": _I},
    **{"family": _I, "reason": _S},
}


def compare_models(
    birds: Birds, binned: dict[str, Bins] | None = None, *, min_n: int = MIN_N, unit: str = "session"
) -> pl.DataFrame:
    """Difference in recall of every pair of models on the birds both were asked about, overall and bin by bin.

    Args:
        birds: see :func:`birdlab.difficulty.arrays.arrange`, two or more models.
        binned: bins by factor; ``None`` for the overall difference only.
        min_n: birds a bin needs; smaller ones are left out.
        unit: what ``birds.top`` is.

    Returns:
        Two rows per pair and bin (:data:`SCHEMA`; factor and level ``all`` for all birds): recall of A minus recall
        of B in [-1, 1] with its interval and p value, ``kind`` ``within_sessions`` (clusters of frames) or
        ``new_sessions``. ``p_holm`` is corrected over the ``family`` of that kind: all pairs for the overall
        differences, all pairs and bins for those in bins. Only ``new_sessions`` can be ``confirmed``: with one
        session no difference is, and ``reason`` says so. No rows for fewer than two models.

    CR1 with t(G - 1), see :func:`birdlab.stats.mean_difference`.
    """
    parts: list[tuple[str, str, npt.NDArray[np.bool_]]] = [("all", "all", np.ones(len(birds.outcome), dtype=bool))]
    for factor, b in (binned or {}).items():
        parts += [(factor, level, b.codes == code) for code, level in enumerate(b.levels) if b.varies]
    rows: list[dict[str, Any]] = []
    for i, j in itertools.combinations(range(len(birds.models)), 2):
        d = birds.outcome[:, i] - birds.outcome[:, j]
        for factor, level, inside in parts:
            used = inside & ~np.isnan(d)
            if factor == "all" or used.sum() >= min_n:
                about = {"model_a": birds.models[i], "model_b": birds.models[j], "factor": factor, "level": level}
                rows += [about | row for row in _pair(birds, d, used, unit)]
    for kind, whole in itertools.product((stats.WITHIN, stats.NEW), (True, False)):
        family = [row for row in rows if row["kind"] == kind and (row["factor"] == "all") == whole]
        for row, p in zip(family, stats.holm([row["p"] for row in family]), strict=True):
            row["p_holm"], row["family"] = p, sum(r["p"] is not None for r in family)
            row["confirmed"] = kind == stats.NEW and p is not None and p < ALPHA
    return pl.DataFrame(rows, schema=SCHEMA)


def _pair(birds: Birds, d: npt.NDArray[np.float64], used: npt.NDArray[np.bool_], unit: str) -> list[dict[str, Any]]:
    n = int(used.sum())
    about = {"difference": float(d[used].mean()) if n else None, "n": n}
    about |= {"n_only_a": int(np.sum(d[used] == 1)), "n_only_b": int(np.sum(d[used] == -1))}
    rows = []
    for kind, codes, what in ((stats.WITHIN, birds.block, "cluster of frames"), (stats.NEW, birds.top, unit)):
        i = stats.mean_difference(*sums(codes[used], d[used]), kind=kind, unit=what)
        reason = i.reason if n else "no bird that both were asked about"
        rows.append(
            about | {"kind": kind, "lo": i.lo, "hi": i.hi, "p": i.p, "n_clusters": i.n_clusters, "reason": reason}
        )
    return rows
