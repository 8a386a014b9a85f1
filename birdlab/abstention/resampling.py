"""Whole clusters drawn anew: which photographs belong together, how often each cluster is drawn, what the draws say.

Photographs of one genus share what makes them hard, so intervals redraw genera (or species, observers, observations),
never single photographs, unless asked to. One matrix of draws serves every model, so differences are paired. Weighted
values are in :mod:`birdlab.abstention.quadratic` and :mod:`birdlab.abstention.ratios`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.abstention.conventions import Cluster
from birdlab.errors import DataError, ParameterError, Problem

#: Fewer clusters than this and a percentile interval is known to be too narrow.
FEW_CLUSTERS = 10
#: A share of skipped resamples above this is said beside the interval.
MANY_SKIPPED = 0.05
CONSTANT = "every resample gives the same value"
COLUMN = {
    "genus": "genus",
    "species": "species",
    "observer": "observer_id",
    "observation": "observation_id",
    "item": "item_id",
}


@dataclass(frozen=True)
class Clusters:
    """Which cluster each photograph belongs to.

    Args:
        by: what a cluster is (``genus``, ``species``, ``observer``, ``observation``, ``item``).
        codes: cluster of each row, (N,) int64 in 0..C-1.
        names: name of each cluster, sorted, so codes do not depend on the order of rows.
        n_without_id: rows without an id; each is a cluster of its own.
        note: what else was done, for the caption; ``None`` when there is nothing to say.
    """

    by: str
    codes: npt.NDArray[np.int64]
    names: list[str]
    n_without_id: int = 0
    note: str | None = None

    @property
    def n(self) -> int:
        """Number of clusters C."""
        return len(self.names)


class Percentile(NamedTuple):
    """A percentile interval: its ends (``None`` where none can be given, with ``reason``) and the resamples used."""

    lo: float | None
    hi: float | None
    n_used: int
    n_skipped: int
    reason: str | None


def cluster_codes(items: pl.DataFrame, by: Cluster = "genus") -> Clusters:
    """Cluster of every photograph.

    Args:
        items: columns item_id, genus and, as asked for, species, observer_id or observation_id (N rows).
        by: what belongs together. With ``species`` an unanswerable photograph, which has no species, falls into one
            cluster of its genus, and the note counts them. With ``item`` every photograph is drawn by itself.

    Returns:
        :class:`Clusters`. A row whose id is null is a cluster of its own, counted in ``n_without_id``. No rows: no
        clusters.

    Raises:
        ParameterError: ``by`` is unknown, or ``items`` lacks its column.

    >>> items = pl.DataFrame({"item_id": ["a", "b", "c"], "genus": ["Larus", None, "Larus"]})
    >>> c = cluster_codes(items, "genus")
    >>> c.codes.tolist(), c.names, c.n_without_id
    ([0, 1, 0], ['Larus', 'item b'], 1)
    """
    _check(items, by)
    own = pl.concat_str(pl.lit("item "), pl.col("item_id").cast(pl.String))
    column, note = pl.col(COLUMN[by]).cast(pl.String), None
    if by == "species":
        n = items["species"].null_count()
        note = f"photographs without a species: {n}, one cluster per genus" if n else None
        column = pl.coalesce(column, pl.concat_str(pl.col("genus").cast(pl.String), pl.lit(" (no species)")))
    ids = items.select(name=pl.coalesce(column, own), missing=column.is_null())
    # Without an id: after all the others, apart from an id that happens to read the same.
    names = ids.unique().sort("missing", "name").with_row_index("code")
    codes = ids.join(names, on=["name", "missing"], how="left", maintain_order="left")["code"]
    return Clusters(by, codes.cast(pl.Int64).to_numpy(), names["name"].to_list(), int(ids["missing"].sum()), note)


def codes_for(item_ids: pl.Series, items: pl.DataFrame, clusters: Clusters) -> npt.NDArray[np.int64]:
    """Clusters of rows in another order than ``items``, or of some of them: matched by item_id.

    Args:
        item_ids: ids to look up, (M,).
        items: the table given to :func:`cluster_codes`.
        clusters: what it returned.

    Returns:
        codes, (M,) int64.

    Raises:
        DataError: an id is not in ``items``, or stands there twice.
    """
    table = pl.DataFrame({"item_id": items["item_id"], "code": clusters.codes})
    twice = table.filter(pl.col("item_id").is_duplicated())["item_id"].unique(maintain_order=True)
    found = pl.DataFrame({"item_id": item_ids}).join(
        table.unique("item_id", keep="first"), on="item_id", how="left", maintain_order="left"
    )
    unknown = found.filter(pl.col("code").is_null())["item_id"].unique(maintain_order=True)
    problems = [Problem("duplicate_item_id", f"{i!r} twice", "each item once", key="item_id") for i in twice[:10]]
    problems += [Problem("unknown_item_id", repr(i), "an item_id of the items", key="item_id") for i in unknown[:10]]
    if problems:
        raise DataError(problems)
    return found["code"].to_numpy()


def count_clusters(codes: npt.ArrayLike, *kinds: npt.ArrayLike) -> int:
    """Clusters that a value rests on: the fewest that hold a photograph of each kind.

    Args:
        codes: cluster of each photograph, (N,).
        kinds: which photographs are of a kind, (N,) bool each; none for all photographs.

    Returns:
        At most C; 0 where a kind has no photograph.

    >>> answerable = np.array([True, True, True, False])
    >>> count_clusters([0, 1, 2, 2]), count_clusters([0, 1, 2, 2], answerable, ~answerable)
    (3, 1)
    """
    codes = np.asarray(codes)
    return min(len(np.unique(codes[np.asarray(kind, dtype=bool)])) for kind in kinds or (np.ones(len(codes)),))


def resamples(n_clusters: int, n_resamples: int, seed: int) -> npt.NDArray[np.int32]:
    """How often each cluster is drawn: C clusters with replacement, every one equally likely.

    Args:
        n_clusters: C.
        n_resamples: R, at least 1.
        seed: of ``numpy.random.default_rng``; the same seed gives the same draws.

    Returns:
        counts, (R, C) int32; every row sums to C (multinomial). Use one matrix for all models: then their
        differences are paired. Four bytes per entry: 1,000 resamples of 35,138 single photographs take 140 MB.

    Raises:
        ParameterError: C is negative or R below 1.

    Efron and Tibshirani (1993), An Introduction to the Bootstrap, §6.2; clusters as the units drawn: Davison and
    Hinkley (1997), Bootstrap Methods and their Application, §3.8.

    >>> resamples(3, 2, seed=1).sum(axis=1).tolist()
    [3, 3]
    """
    if n_clusters < 0 or n_resamples < 1:
        found = f"{n_clusters} clusters, {n_resamples} resamples"
        raise ParameterError(Problem("bad_value", found, "no fewer than 0 clusters and 1 resample", key="n_resamples"))
    rng = np.random.default_rng(seed)
    out = np.zeros((n_resamples, n_clusters), dtype=np.int32)
    if n_clusters:
        # Counting C draws is a multinomial draw, and ten times cheaper than one binomial per cluster.
        for row in out:
            row[:] = np.bincount(rng.integers(0, n_clusters, n_clusters), minlength=n_clusters)
    return out


def interval(values: npt.ArrayLike, *, n_clusters: int, confidence: float = 0.95) -> Percentile:
    """Percentile interval of resampled values.

    Args:
        values: one value per resample, (R,); NaN where a resample has none (it drew no unanswerable photograph, say).
            Such resamples are skipped and counted, never taken for 0 or 0.5.
        n_clusters: clusters that the value rests on, :func:`count_clusters`: for UA/A those with an unanswerable
            photograph, if they are fewer than those with an answerable one.
        confidence: coverage, in (0, 1).

    Returns:
        :class:`Percentile`. No ends for fewer than two clusters, for too few usable resamples to have one in each
        tail, and when every resample gives the same value. Below :data:`FEW_CLUSTERS` clusters the ends are given
        and ``reason`` says that they are too close together; so it does when many resamples were skipped.

    Efron and Tibshirani (1993), §13.3; quantiles interpolate linearly.

    >>> interval(np.arange(1001.0), n_clusters=20, confidence=0.5)
    Percentile(lo=250.0, hi=750.0, n_used=1001, n_skipped=0, reason=None)
    >>> interval([0.5, 0.6], n_clusters=1).reason
    'one cluster: nothing can be said about another'
    """
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    used = values[~np.isnan(values)]
    n, skipped = len(used), len(values) - len(used)
    reason = no_interval(used, n_clusters=n_clusters, confidence=confidence)
    if reason is not None:
        return Percentile(None, None, n, skipped, reason)
    reasons = []
    if n_clusters < FEW_CLUSTERS:
        reasons.append(f"few clusters ({n_clusters}): the interval is too narrow")
    if skipped > MANY_SKIPPED * len(values):
        reasons.append(f"{skipped:,} of {len(values):,} resamples have no value")
    lo, hi = np.quantile(used, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Percentile(float(lo), float(hi), n, skipped, "; ".join(reasons) or None)


def no_interval(used: npt.NDArray[np.float64], *, n_clusters: int, confidence: float = 0.95) -> str | None:
    """Why resampled values give no interval, or ``None`` when they do.

    Args:
        used: usable values, (B,), no NaN.
        n_clusters: clusters that were drawn.
        confidence: coverage of the interval.

    >>> no_interval(np.zeros(5), n_clusters=0)
    'nothing was counted'
    """
    if n_clusters < 2:
        return "one cluster: nothing can be said about another" if n_clusters else "nothing was counted"
    if not len(used):
        return "no resample has a value"
    if round(len(used) * (1 - confidence) / 2, 9) < 1:
        return f"only {len(used)} usable resamples: too few for {confidence:.0%}"
    # Sums of the same numbers in another order differ by rounding only.
    if np.ptp(used) <= 1e-12:
        return CONSTANT
    return None


def _check(items: pl.DataFrame, by: str) -> None:
    if by not in get_args(Cluster):
        raise ParameterError(Problem("bad_value", repr(by), "one of " + ", ".join(get_args(Cluster)), key="cluster"))
    needed = {"item_id", COLUMN[by]} | ({"genus"} if by == "species" else set())
    missing = sorted(needed - set(items.columns))
    if missing:
        remedy = "add it to the items, or draw another kind of cluster"
        raise ParameterError(
            [Problem("missing_column", "no such column", f"items by {by}", remedy, key=name) for name in missing]
        )
