"""Do two evaluation sets order the models alike, what moved between them, and which birds do the models agree on?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.detection.groups import clusters, highest_level
from birdlab.errors import DataError, Problem

#: Fewest models with an interval of τ.
MIN_MODELS = 8
#: τ closer to 0 than this is called weak, whatever its sign.
WEAK = 0.3
#: Said of what all models together find: nobody knows beforehand which of them to believe.
ORACLE = "oracle: a bird counts as found when any model finds it"
_S, _F, _I = pl.String, pl.Float64, pl.Int64
_ENDS: dict[str, Any] = {"lo": _F, "hi": _F}
TAU_SCHEMA: dict[str, Any] = {
    **{"metric_a": _S, "metric_b": _S, "tau": _F, **_ENDS, "n": _I, "n_left_out": _I, "words": _S, "reason": _S},
}
MOVED_SCHEMA: dict[str, Any] = {
    **{"model": _S, "metric_a": _S, "metric_b": _S, "value_a": _F, "value_b": _F, "change": _F, **_ENDS},
    **{"outside": pl.Boolean, "moved": pl.Boolean, "reason": _S},
}
SCHEMA: dict[str, Any] = {
    **{"quantity": _S, "model_a": _S, "model_b": _S, "value": _F, **_ENDS, "k": _I, "n": _I, "n_clusters": pl.Int32},
    **{"unit": _S, "reason": _S},
}
Pairs = Sequence[tuple[str, str]]


def rank_agreement(table_a: pl.DataFrame, table_b: pl.DataFrame, *, pairs: Pairs | None = None) -> pl.DataFrame:
    """Kendall's τ-b of the models' values in two evaluation sets, with an interval and words.

    Args:
        table_a, table_b: model, metric, value, as :func:`birdlab.detection.ranking.rank_table` returns: test and
            validation, two sites, boxes and masks.
        pairs: measures that belong together, (name in a, name in b); ``None`` for those of the same name.

    Returns:
        :data:`TAU_SCHEMA`, one row per pair: ``tau`` in [-1, 1], 1 when both sets order all models alike; n models with
        both values, ``n_left_out`` that lack one. The interval (Fieller's) needs eight models and takes them as
        independent draws: variants of one model are not, so it is rather too narrow. ``words`` is never stronger than
        the interval.

    Kendall (1945), τ-b = (C - D) / √((n₀ - n₁)(n₀ - n₂)); Fieller, Hartley and Pearson (1957):
    atanh(τ) ± z √(0.437 / (n - 4)).

    >>> a = pl.DataFrame({"model": list("abcd"), "metric": "ap", "value": [0.4, 0.3, 0.2, 0.1]})
    >>> b = a.with_columns(value=pl.Series([0.5, 0.6, 0.3, 0.2]))
    >>> rank_agreement(a, b)["words"][0]
    'τ = 0.67 without an interval, n = 4: too few models to say'
    """
    rows = []
    for one, other, both in _paired(table_a, table_b, pairs):
        used = both.drop_nulls(["value_a", "value_b"])
        tau = kendall_tau_b(used["value_a"].to_numpy(), used["value_b"].to_numpy())
        n = used.height
        lo, hi = fieller_interval(tau, n) or (None, None) if tau is not None else (None, None)
        reason = _no_tau(tau, n)
        about = {"metric_a": one, "metric_b": other, "tau": tau, "lo": lo, "hi": hi, "n": n}
        words = in_words(tau, lo, hi, n, reason=reason)
        rows.append(about | {"n_left_out": both.height - n, "words": words, "reason": reason})
    return pl.DataFrame(rows, schema=TAU_SCHEMA)


def kendall_tau_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Kendall's τ-b, in [-1, 1]; ``None`` for fewer than two pairs or where all x or all y are equal.

    >>> kendall_tau_b([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    i, j = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    below = math.sqrt(np.count_nonzero(dx) * np.count_nonzero(dy))
    return float(np.sum(dx * dy) / below) if below else None


def fieller_interval(tau: float, n: int, *, confidence: float = stats.CONFIDENCE) -> tuple[float, float] | None:
    """Interval of τ, within [-1, 1]; ``None`` for fewer than eight pairs or abs(τ) = 1.

    >>> [round(end, 2) for end in fieller_interval(0.5, 8)]
    [-0.1, 0.83]
    """
    if n < MIN_MODELS or abs(tau) > 1 - 1e-12:
        return None
    from scipy.special import ndtri

    half = float(ndtri(0.5 + confidence / 2)) * math.sqrt(0.437 / (n - 4))
    return math.tanh(math.atanh(tau) - half), math.tanh(math.atanh(tau) + half)


def in_words(tau: float | None, lo: float | None, hi: float | None, n: int, *, reason: str | None = None) -> str:
    """One sentence on two orders of models, never stronger than its interval.

    Returns:
        Without an interval, or with one that holds 0 and reaches beyond ±0.3: "too few models to say". Only an interval
        within ±0.3 is called weak; one that leaves out 0 names the direction.

    >>> in_words(0.7, 0.3, 0.9, 12)
    'τ = 0.70 [0.30, 0.90], n = 12: models that do better in one set do better in the other'
    """
    if tau is None:
        return f"τ is not given, n = {n}: {reason}"
    if lo is None or hi is None:
        why = "too few models to say" if n < MIN_MODELS else reason
        return f"τ = {tau:.2f} without an interval, n = {n}: {why}"
    head = f"τ = {tau:.2f} [{lo:.2f}, {hi:.2f}], n = {n}: "
    if -WEAK < lo and hi < WEAK:
        return head + f"one order says little about the other (within ±{WEAK:g})"
    if lo <= 0 <= hi:
        return head + "too few models to say"
    return head + f"models that do better in one set do {'better' if tau > 0 else 'worse'} in the other"


def moved(table_a: pl.DataFrame, table_b: pl.DataFrame, *, pairs: Pairs | None = None) -> pl.DataFrame:
    """What changed from one evaluation set to the other, model by model, and whether it is more than the intervals allow.

    Args:
        table_a, table_b: model, metric, value, lo, hi (for new sessions), as :func:`rank_table` returns.
        pairs: see :func:`rank_agreement`.

    Returns:
        :data:`MOVED_SCHEMA`, one row per model and pair that both tables have: ``change`` = b - a with an interval made
        of both (MOVER), ``outside``: b lies outside a's own interval (its direction depends on which set is a);
        ``moved``: the interval of the change leaves out 0, which is stricter, because b is uncertain too. Null with a
        reason where an interval is missing. The sets are taken as independent: for boxes and masks of the same birds the
        interval is too wide, and no correction is made for looking at many rows.

    Zou and Donner (2008), Eq. 3: lo = d - √((b - lo_b)² + (hi_a - a)²), hi = d + √((hi_b - b)² + (a - lo_a)²).
    """
    rows = []
    for one, other, both in _paired(table_a, table_b, pairs):
        for r in both.iter_rows(named=True):
            a, b = r["value_a"], r["value_b"]
            row = {"model": r["model"], "metric_a": one, "metric_b": other, "value_a": a, "value_b": b}
            if a is None or b is None:
                rows.append(row | {"reason": "no value in one of the sets"})
                continue
            row["change"] = b - a
            row["outside"] = None if r["lo_a"] is None or r["hi_a"] is None else not r["lo_a"] <= b <= r["hi_a"]
            if any(r[c] is None for c in ("lo_a", "hi_a", "lo_b", "hi_b")):
                rows.append(row | {"reason": "no interval in one of the sets"})
                continue
            lo = b - a - math.hypot(b - r["lo_b"], r["hi_a"] - a)
            hi = b - a + math.hypot(r["hi_b"] - b, a - r["lo_a"])
            rows.append(row | {"lo": lo, "hi": hi, "moved": not lo <= 0 <= hi})
    return pl.DataFrame([dict.fromkeys(MOVED_SCHEMA) | r for r in rows], schema=MOVED_SCHEMA)


def agreement(matches: pl.DataFrame, frames: pl.DataFrame | None = None) -> pl.DataFrame:
    """Which birds the models find together, bird by bird, on the birds that all of them were asked about.

    Args:
        matches: table ``matches`` of two or more models at one confidence.
        frames: table ``frames``, for sites as clusters where they are known; ``None``: clusters are sessions.

    Returns:
        :data:`SCHEMA`. ``missed_by_all``, ``found_by_all`` and ``union_recall`` (share of birds that at least one model
        finds; an oracle, and ``reason`` says so), ``found_only_by`` per model, ``kappa`` and ``same_outcome`` (share of
        birds with equal outcome) per pair. Shares k / n in [0, 1], Cohen's κ in [-1, 1] (1: always the same outcome,
        0: as often as chance); lo, hi for new sessions, null with a reason for fewer than two. κ is null where both
        models find all birds, or miss them all. No rows for fewer than two models.

    Cohen (1960). Interval of κ: delta method over clusters (CR1, t with G - 1) on the scale of atanh.
    """
    names = matches["model"].unique(maintain_order=True).to_list()
    if len(names) < 2:
        return pl.DataFrame(schema=SCHEMA)
    found, top, unit = _found(matches, frames, names)
    count = found.sum(axis=1)
    whole = (("missed_by_all", count == 0), ("found_by_all", count == len(names)), ("union_recall", count > 0))
    rows = [_share(quantity, hit, top, unit) for quantity, hit in whole]
    union = rows[-1]
    union["reason"] = "; ".join(r for r in (ORACLE, union["reason"]) if r)
    for i, name in enumerate(names):
        rows.append(_share("found_only_by", found[:, i] & (count == 1), top, unit) | {"model_a": name})
    for i, j in itertools.combinations(range(len(names)), 2):
        about = {"model_a": names[i], "model_b": names[j]}
        rows.append(_kappa_row(found[:, i], found[:, j], top, unit) | about)
        rows.append(_share("same_outcome", found[:, i] == found[:, j], top, unit) | about)
    return pl.DataFrame([dict.fromkeys(SCHEMA) | r for r in rows], schema=SCHEMA)


def missed_by_all(matches: pl.DataFrame) -> pl.DataFrame:
    """The birds that no model finds, for a gallery: label_id, frame_id, video_id, category, in the order of the matches.

    Only birds that every model was asked about are among them.
    """
    names = matches["model"].unique(maintain_order=True).to_list()
    birds = matches.filter(pl.col("outcome").is_in(["tp", "fn"]))
    by_bird = birds.group_by("label_id", "frame_id", "video_id", maintain_order=True).agg(
        pl.col("category").first(), pl.col("model").n_unique(), found=(pl.col("outcome") == "tp").any()
    )
    missed = by_bird.filter((pl.col("model") == len(names)) & ~pl.col("found"))
    return missed.select("label_id", "frame_id", "video_id", "category")


def cohen_kappa(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Cohen's κ of two yes-or-no columns, in [-1, 1]; ``None`` where chance agreement is complete (or nothing is there).

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0])
    0.5
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if not len(a):
        return None
    p, q = a.mean(), b.mean()
    chance = p * q + (1 - p) * (1 - q)
    return None if chance >= 1 else float((np.mean(a == b) - chance) / (1 - chance))


def _paired(table_a: pl.DataFrame, table_b: pl.DataFrame, pairs: Pairs | None) -> list[tuple[str, str, pl.DataFrame]]:
    for table in (table_a, table_b):
        missing = [c for c in ("model", "metric", "value") if c not in table.columns]
        if missing:
            raise DataError(
                [Problem("missing_column", "no such column", "model, metric, value", key=c) for c in missing]
            )
        twice = table.filter(pl.struct("model", "metric").is_duplicated()).select("model", "metric").unique()
        if twice.height:
            found = ", ".join(f"{m} {k}" for m, k in twice.sort("model", "metric").rows())
            raise DataError(Problem("duplicate_row", found, "one row per model and metric"))
    if pairs is None:
        there = set(table_b["metric"])
        pairs = [(m, m) for m in table_a["metric"].unique(maintain_order=True) if m in there]
    out = []
    for one, other in pairs:
        sides = []
        for table, metric, side in ((table_a, one, "a"), (table_b, other, "b")):
            ends = [c if c in table.columns else pl.lit(None, dtype=_F).alias(c) for c in ("lo", "hi")]
            part = table.filter(pl.col("metric") == metric).select("model", "value", *ends)
            sides.append(part.rename({c: f"{c}_{side}" for c in ("value", "lo", "hi")}))
        both = sides[0].join(sides[1], on="model", how="full", coalesce=True, maintain_order="left_right")
        out.append((one, other, both))
    return out


def _no_tau(tau: float | None, n: int) -> str | None:
    if n < 2:
        return "fewer than two models have a value in both sets"
    if tau is None:
        return "every model has the same value in one of the sets"
    if n < MIN_MODELS:
        return f"fewer than {MIN_MODELS} models: no interval"
    return "the order is the same or reversed throughout: no interval is defined" if abs(tau) > 1 - 1e-12 else None


def _found(matches: pl.DataFrame, frames: pl.DataFrame | None, names: list[str]) -> tuple[np.ndarray, np.ndarray, str]:
    """Found or not, birds x models, on birds that all models were asked about; cluster of each bird; what a cluster is."""
    birds = matches.filter(pl.col("outcome").is_in(["tp", "fn"]))
    birds = birds.with_columns(
        code=pl.col("model").replace_strict({m: i for i, m in enumerate(names)}, return_dtype=_I)
    )
    key = ["label_id", "frame_id", "video_id"]
    wide = birds.group_by(key, maintain_order=True).agg(
        pl.col("code").n_unique().alias("asked"), pl.col("code").filter(pl.col("outcome") == "tp").alias("finders")
    )
    wide, unit = wide.filter(pl.col("asked") == len(names)).with_columns(top="video_id"), "session"
    if frames is not None:
        unit = highest_level(frames)
        where = clusters(frames).select("frame_id", top="site" if unit == "site" else "session")
        wide = wide.drop("top").join(where, on="frame_id", how="inner", maintain_order="left")
    found = np.zeros((wide.height, len(names)), dtype=bool)
    for bird, finders in enumerate(wide["finders"].to_list()):
        found[bird, finders] = True
    top = np.unique(wide["top"].to_numpy(), return_inverse=True)[1] if wide.height else np.empty(0, np.int64)
    return found, top.astype(np.int64), unit


def _share(quantity: str, hit: np.ndarray, top: np.ndarray, unit: str) -> dict[str, Any]:
    n = len(hit)
    i = stats.new_sessions(np.bincount(top, weights=hit), np.bincount(top), unit=unit)
    about = {"quantity": quantity, "value": float(hit.mean()) if n else None, "k": int(hit.sum()), "n": n}
    return about | {"lo": i.lo, "hi": i.hi, "n_clusters": i.n_clusters, "unit": unit, "reason": i.reason}


def _kappa_row(a: np.ndarray, b: np.ndarray, top: np.ndarray, unit: str) -> dict[str, Any]:
    g = len(np.unique(top))
    kappa = cohen_kappa(a, b)
    row = {"quantity": "kappa", "value": kappa, "k": int((a == b).sum()), "n": len(a), "n_clusters": g, "unit": unit}
    if kappa is None:
        reason = "both models find every bird, or miss every bird" if len(a) else "no bird that all were asked about"
        return row | {"reason": reason}
    if g < 2:
        return row | {"reason": f"one {unit}: nothing can be said about another"}
    p, q, same = a.mean(), b.mean(), (a == b).mean()
    chance = p * q + (1 - p) * (1 - q)
    # What each bird adds to κ = 1 - (1 - same) / (1 - chance), to first order, summed over its cluster.
    slope = (2 * q - 1) * (a - p) + (2 * p - 1) * (b - q)
    each = ((a == b) - same) / (1 - chance) - (1 - same) / (1 - chance) ** 2 * slope
    v = g / (g - 1) * np.sum((np.bincount(top, weights=each) / len(a)) ** 2)
    if abs(kappa) > 1 - 1e-12 or v < 1e-24:
        return row | {"reason": f"it is the same in every {unit}: no interval is defined"}
    from scipy.special import stdtrit

    half = float(stdtrit(g - 1, 0.5 + stats.CONFIDENCE / 2)) * math.sqrt(v) / (1 - kappa**2)
    return row | {"lo": math.tanh(math.atanh(kappa) - half), "hi": math.tanh(math.atanh(kappa) + half), "reason": None}
