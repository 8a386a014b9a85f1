"""Which model is best, second, third, and how sure is that for sessions not recorded yet? Accuracy against speed.

Every model saw the same birds, so a hard session pulls all of them down together; the probabilities keep that pairing.
They say how the order holds up, not that a difference is confirmed: that is :mod:`birdlab.detection.comparison`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.detection.groups import BLOCK_S, clusters, highest_level
from birdlab.detection.model_rows import NO_AP_INTERVAL
from birdlab.detection.scores import NO_BIRD, NO_DETECTION
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.metrics import metric_row

DRAWS, SEED = 20_000, 1
NOT_RANKED = "no value: not ranked"
BY_VALUE = f"{NO_AP_INTERVAL}: ranked by value alone"
ONE_MODEL = "one model: nothing to rank"
PLAIN = "a share of 0 or 1 has no logit: drawn on the plain scale"
_S, _F, _I = pl.String, pl.Float64, pl.Int64
COUNT_SCHEMA: dict[str, Any] = {"model": _S, "session": _S, "metric": _S, "k": _I, "n": _I, "unit": _S}
VALUE_SCHEMA: dict[str, Any] = {"model": _S, "metric": _S, "value": _F}
_HEAD: dict[str, Any] = {"model": _S, "metric": _S, "value": _F, "lo": _F, "hi": _F, "n": _I, "rank": pl.Int32}
_TAIL: dict[str, Any] = {"n_sessions": pl.Int32, "unit": _S, "reason": _S}
SPEED_SCHEMA: dict[str, Any] = {
    **{"model": _S, "value": _F, "lo": _F, "hi": _F, "fps": _F, "device": _S, "pareto": pl.Boolean, "reason": _S},
}


def session_counts(
    matches: pl.DataFrame, frames: pl.DataFrame, *, failures: pl.DataFrame | None = None, block_s: float = BLOCK_S
) -> pl.DataFrame:
    """Recall, precision and F1 of every model as counts per session (or site), on frames that all models were asked about.

    Args:
        matches: table ``matches`` of all models at one confidence.
        frames: table ``frames``, the ones scored.
        failures: table ``failures``; a frame on which one model failed is left out for all. A frame with a bird that a
            model has no row for is left out too.
        block_s: see :func:`birdlab.detection.groups.clusters`.

    Returns:
        :data:`COUNT_SCHEMA`, one row per model, session and metric. F1 is the share 2 tp / (2 tp + fp + fn), so k is
        2 tp. ``session`` is the site where every frame has one and there are two (``unit`` says so); n may be 0.
    """
    unit = highest_level(frames)
    names = matches["model"].unique(maintain_order=True).to_list()
    counted = matches.select("model", "frame_id", "label_id", outcome=pl.col("outcome").cast(_S))
    birds = counted.filter(pl.col("outcome").is_in(["tp", "fn"]))
    unseen = birds.group_by("frame_id", "label_id").agg(pl.col("model").n_unique()).filter(pl.col("model") < len(names))
    lost = set(unseen["frame_id"]) | (set() if failures is None else set(_of(failures, names)["frame_id"]))
    where = clusters(frames, block_s=block_s).filter(~pl.col("frame_id").is_in(list(lost)))
    where = where.select("frame_id", session="site" if unit == "site" else "session")
    on = counted.join(where, on="frame_id", how="inner").group_by("model", "session").agg(
        *((pl.col("outcome") == o).sum().cast(_I).alias(o) for o in ("tp", "fp", "fn"))
    )  # fmt: skip
    every = pl.DataFrame({"model": names}, schema={"model": _S}).join(
        where.select(pl.col("session").unique().sort()), how="cross"
    )
    on = every.join(on, on=["model", "session"], how="left", maintain_order="left").fill_null(0)
    tp, fp, fn = pl.col("tp"), pl.col("fp"), pl.col("fn")
    shares = (("recall", tp, tp + fn), ("precision", tp, tp + fp), ("f1", 2 * tp, 2 * tp + fp + fn))
    parts = [on.select("model", "session", metric=pl.lit(m), k=k, n=n, unit=pl.lit(unit)) for m, k, n in shares]
    return pl.concat(parts).cast(COUNT_SCHEMA)


def rank_table(
    per_session: pl.DataFrame,
    *,
    values: pl.DataFrame | None = None,
    unit: str = "session",
    n_new: int | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> pl.DataFrame:
    """Models by metric, with the rank of each and the probability of every rank for sessions like these.

    Args:
        per_session: model, session, metric, k, n (whole numbers, 0 <= k <= n), as :func:`session_counts` makes; its
            column ``unit``, if there, replaces the argument. Sessions that not every model was asked about are left
            out for all, and ``reason`` says how many.
        values: model, metric, value for measures that have no counts (AP): ranked by value, higher is better, with no
            probability.
        unit: what a session is, ``session`` or ``site``.
        n_new: sessions in the new set; ``None`` for as many as one likes (the population these are a sample of).
        draws: see :func:`rank_probabilities`.
        seed: of the draws; the same table comes out every time.

    Returns:
        One row per metric and model, in the order given: value, its interval ``lo``, ``hi`` for new sessions, n, ``rank``
        (1 is best; equal values share the better rank), ``p_rank_1`` … ``p_rank_M`` in [0, 1] with M models,
        ``n_sessions`` they rest on, unit, reason. A model without a value is not ranked, and the others are ranked
        among themselves. Probabilities are null with a reason for fewer than two sessions.

    Raises:
        DataError: a column is missing, a model has a session twice, or counts are impossible.

    >>> counts = pl.DataFrame({"model": ["a", "b"], "session": "s", "metric": "recall", "k": [8, 6], "n": 10})
    >>> rank_table(counts).select("model", "value", "rank", "p_rank_1", "reason").rows()[0]
    ('a', 0.8, 1, None, 'one session: nothing can be said about another')
    """
    _check(per_session, ("model", "session", "metric", "k", "n"), ("model", "session", "metric"))
    _check_counts(per_session)
    if "unit" in per_session.columns and per_session.height:
        unit = str(per_session["unit"][0])
    rows: list[dict[str, Any]] = []
    for metric in per_session["metric"].unique(maintain_order=True).to_list():
        part = per_session.filter(pl.col("metric") == metric)
        rows += _ranked_shares(part, metric, unit=unit, n_new=n_new, draws=draws, seed=seed)
    if values is not None:
        _check(values, ("model", "metric", "value"), ("model", "metric"))
        for metric in values["metric"].unique(maintain_order=True).to_list():
            part = values.filter(pl.col("metric") == metric)
            ranks = _ranks(part["value"].to_list())
            for r, rank in zip(part.iter_rows(named=True), ranks, strict=True):
                about = {"rank": rank, "unit": unit, "reason": BY_VALUE if rank else NOT_RANKED}
                rows.append({"model": r["model"], "metric": metric, "value": r["value"], **about})
    n_models = len({row["model"] for row in rows})
    schema = _HEAD | {f"p_rank_{i + 1}": _F for i in range(n_models)} | _TAIL
    return pl.DataFrame([dict.fromkeys(schema) | row for row in rows], schema=schema)


def rank_probabilities(
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    *,
    unit: str = "session",
    n_new: int | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> tuple[npt.NDArray[np.float64] | None, str | None]:
    """Probability of each rank of each model, from paired counts per session.

    The models' shares Σk / Σn are drawn together on the logit scale: multivariate t with G - 1 degrees of freedom around
    what was seen, with the cluster-robust covariance (CR1) of the sessions, S = G/(G-1) Σ u_g u_g' with
    u_g = (k_g - p n_g) / (Σn p (1-p)). Few sessions cannot hold the covariance of many models (two sessions would never
    let the second of three be first), so S is mixed with models that vary independently, of the same variance of
    differences on the whole, at weight (M - 2) / (M + G - 3). Two models need none of it: their probability is that of
    a t test of the paired difference.

    Args:
        k, n: successes and trials, (M models, G sessions); n may be 0 for some models of a session.
        unit: what a session is, for the reason.
        n_new: sessions in the new set; its own luck widens the draws by √(1 + G/n_new). ``None``: no luck of its own.
        draws: how many, at least 2; one half mirrors the other. 20,000 give a probability to ±0.007.
        seed: of the draws.

    Returns:
        (M, M) probabilities, model by rank, best first, rows and columns of sum 1; models that tie in a draw share its
        ranks evenly. And a reason, which stands alone for fewer than two sessions or models, or where the models
        differ by the same amount in every session; beside probabilities it says that the plain scale was used.

    Raises:
        ParameterError: ``draws`` is below 2 or ``n_new`` below 1.

    The draws lean on no prior knowledge of the models. With four models and four sessions, first places called 0.80 came
    true in 0.76 of the studies where models differ as much as one does between sessions, and those called 0.77 in 0.51 where
    they are nearly alike (benchmarks/sim_ranks.py). Liang and Zeger (1986); few clusters: Cameron and Miller (2015), §VI.D.

    >>> p, _ = rank_probabilities([[8, 9, 9], [8, 9, 9]], [[10, 10, 10]] * 2)
    >>> p.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if draws < 2 or (n_new is not None and n_new < 1):
        raise ParameterError(f"draws is 2 or more and n_new 1 or more, not {draws} and {n_new}")
    k, n = np.asarray(k, dtype=np.float64), np.asarray(n, dtype=np.float64)
    used = n.sum(axis=0) > 0
    k, n, g = k[:, used], n[:, used], int(used.sum())
    if g < 2:
        return None, f"one {unit}: nothing can be said about another" if g else "nothing was counted"
    if len(k) < 2:
        return None, ONE_MODEL
    # Models with the same counts everywhere are one model to the draws, so that they tie in every one.
    both, inverse = np.unique(np.hstack([k, n]), axis=0, return_inverse=True)
    k, n = both[:, :g], both[:, g:]
    centre, u, reason = _scaled(k, n)
    own, weight = _own_variance(u)
    if len(k) > 1 and not own.any():
        return None, f"the differences between the models are the same in every {unit}"
    rng = np.random.default_rng(seed)
    half = (draws + 1) // 2
    shared, alone = rng.standard_normal((half, g)), rng.standard_normal((half, len(k)))
    moves = np.sqrt((1 - weight) * g / (g - 1)) * (shared @ u.T) + np.sqrt(weight * own) * alone
    moves /= np.sqrt(rng.chisquare(g - 1, half) / (g - 1))[:, None]
    moves *= 1.0 if n_new is None else np.sqrt(1 + g / n_new)
    return _shared_ranks(np.concatenate([centre + moves, centre - moves])[:, inverse.reshape(-1)]), reason


def rank_rows(table: pl.DataFrame, *, method: str = "") -> list[dict[str, Any]]:
    """Rows of ``metrics`` for a table of ranks: ``rank`` and ``p_rank_1`` … of every model and measure.

    Args:
        table: what :func:`rank_table` returns.
        method: settings; the rows of probabilities append ``; new_sessions`` (or begin with it).

    Returns:
        Rows with group ``metric``, level the measure that is ranked, n the number of models ranked, n_clusters the
        sessions; a null with its reason.
    """
    rows = []
    shares = [c for c in table.columns if c.startswith("p_rank_")]
    for r in table.iter_rows(named=True):
        same = table.filter(pl.col("metric") == r["metric"])
        n = same["rank"].drop_nulls().len()
        at = {"model": r["model"], "group": "metric", "level": r["metric"], "n": n, "n_clusters": r["n_sessions"]}
        rank = None if r["rank"] is None else float(r["rank"])
        rows.append(metric_row(metric="rank", value=rank, method=method, reason=None if rank else r["reason"], **at))
        how = f"{method}; {stats.NEW}" if method else stats.NEW
        for c in shares[:n]:
            rows.append(metric_row(metric=c, value=r[c], method=how, reason=r["reason"], **at))
    return rows


def speed_frame(
    table: pl.DataFrame, speed: pl.DataFrame, *, metric: str = "recall", stage: str = "end_to_end"
) -> pl.DataFrame:
    """One measure of every model against frames per second, and which models no other beats in both.

    Args:
        table: model, metric, value and where known lo, hi: :func:`rank_table` or rows of ``metrics``.
        speed: table ``speed``.
        metric: the measure, higher is better.
        stage: ``end_to_end`` or ``model``.

    Returns:
        :data:`SPEED_SCHEMA`, a row per model of ``table``. ``pareto``: no other model is at least as good and as fast, and
        better in one; null where value or speed is missing, and for all when they were timed on different devices.
    """
    ends = [pl.col(c) if c in table.columns else pl.lit(None, dtype=_F).alias(c) for c in ("lo", "hi")]
    rows = table.filter(pl.col("metric") == metric).select("model", "value", *ends)
    timed = speed.filter(pl.col("stage").cast(_S) == stage).select("model", "fps", "device")
    rows = rows.join(timed, on="model", how="left", maintain_order="left")
    devices = rows.drop_nulls(["value", "fps"])["device"].n_unique()
    at = rows.select("value", "fps").rows()
    out = []
    for row in rows.iter_rows(named=True):
        v, f = row["value"], row["fps"]
        reason = "no value" if v is None else "nothing was timed" if f is None else None
        if reason is None and devices > 1:
            reason = "the models were timed on different devices"
        others = [(x, y) for x, y in at if x is not None and y is not None]
        beaten = any(x >= v and y >= f and (x > v or y > f) for x, y in others) if reason is None else None
        out.append({**row, "pareto": None if beaten is None else not beaten, "reason": reason})
    return pl.DataFrame(out, schema=SPEED_SCHEMA)


def _of(failures: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    return failures.filter(pl.col("model").is_in(list(names)))


def _ranked_shares(
    part: pl.DataFrame, metric: str, *, unit: str, n_new: int | None, draws: int, seed: int
) -> list[dict[str, Any]]:
    names = part["model"].unique(maintain_order=True).to_list()
    full = part.group_by("session").agg(pl.len()).filter(pl.col("len") == len(names))["session"].sort().to_list()
    n_lost = part["session"].n_unique() - len(full)
    on = part.filter(pl.col("session").is_in(full)).sort("session")
    k, n = (np.array([on.filter(pl.col("model") == m)[c].to_list() for m in names], dtype=float) for c in ("k", "n"))
    total = n.sum(axis=1)
    values = [float(a / b) if b else None for a, b in zip(k.sum(axis=1), total, strict=True)]
    ranks = _ranks(values)
    some = total > 0
    p, reason = rank_probabilities(k[some], n[some], unit=unit, n_new=n_new, draws=draws, seed=seed)
    lost = f"left out: {n_lost} {unit}{'s' * (n_lost > 1)} that not every model was asked about" if n_lost else None
    reason = "; ".join(r for r in (reason, lost) if r) or None
    rows, at = [], 0
    for i, name in enumerate(names):
        about = {
            "model": name,
            "metric": metric,
            "value": values[i],
            "n": int(total[i]),
            "rank": ranks[i],
            "unit": unit,
        }
        about["n_sessions"] = int((n.sum(axis=0) > 0).sum())
        if not some[i]:
            why = NO_DETECTION if metric == "precision" else NO_BIRD
            rows.append(about | {"reason": f"{why}: not ranked" if full else reason})
            continue
        ends = stats.new_sessions(k[i], n[i], unit=unit)
        chances = {} if p is None else {f"p_rank_{r + 1}": float(x) for r, x in enumerate(p[at])}
        rows.append(about | chances | {"lo": ends.lo, "hi": ends.hi, "reason": reason})
        at += 1
    return rows


def _scaled(k: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, str | None]:
    """Centres and influences of the sessions, on the logit scale unless a share is 0 or 1."""
    total = n.sum(axis=1, keepdims=True)
    p = k.sum(axis=1, keepdims=True) / total
    u = (k - p * n) / total
    u[np.abs(u) < 1e-12] = 0.0
    if ((p == 0) | (p == 1)).any():
        return p[:, 0], u, PLAIN
    return np.log(p / (1 - p))[:, 0], u / (p * (1 - p)), None


def _own_variance(u: np.ndarray) -> tuple[np.ndarray, float]:
    """Variance of each model were they independent, and the weight of that: all zero where no difference varies.

    d_i + d_j fits the variances V_ij of the paired differences by least squares; half of it is spread evenly, because few
    sessions tell badly which model varies more.
    """
    m, g = u.shape
    v = g / (g - 1) * ((u[:, None] - u[None]) ** 2).sum(axis=2)
    whole = v.sum() / (2 * max(1, m - 1))
    if m < 3 or whole < 1e-20:
        return np.full(m, 0.0 if whole < 1e-20 else whole / m), 0.0
    fitted = np.clip((v.sum(axis=1) - whole) / (m - 2), 0.0, None)
    return (fitted + whole / m) / 2, (m - 2) / (m + g - 3)


def _shared_ranks(drawn: np.ndarray) -> npt.NDArray[np.float64]:
    """Mean over draws of the ranks a model takes; ties share theirs evenly."""
    n_models = drawn.shape[1]
    p = np.zeros((n_models, n_models))
    for i in range(n_models):
        above = (drawn > drawn[:, i : i + 1]).sum(axis=1)
        tied = (drawn == drawn[:, i : i + 1]).sum(axis=1)
        counts = np.zeros((n_models, n_models + 1))
        np.add.at(counts, (above, tied), 1)
        for a, t in zip(*np.nonzero(counts), strict=True):
            p[i, a : a + t] += counts[a, t] / t
    return p / len(drawn)


def _ranks(values: Sequence[float | None]) -> list[int | None]:
    known = [v for v in values if v is not None]
    return [None if v is None else 1 + sum(other > v for other in known) for v in values]


def _check(table: pl.DataFrame, columns: Sequence[str], key: Sequence[str]) -> None:
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise DataError([Problem("missing_column", "no such column", ", ".join(columns), key=c) for c in missing])
    twice = table.filter(pl.struct(*key).is_duplicated()).select(key).unique(maintain_order=True)
    if twice.height:
        found = "; ".join(", ".join(map(str, row)) for row in twice.head(5).rows())
        raise DataError(Problem("duplicate_row", found, f"one row per {', '.join(key)}", "count them together"))


def _check_counts(table: pl.DataFrame) -> None:
    bad = table.filter(~((pl.col("k") >= 0) & (pl.col("k") <= pl.col("n"))).fill_null(False))
    if bad.height:
        r = bad.row(0, named=True)
        found = f"k={r['k']}, n={r['n']} for {r['model']}, {r['session']}, {r['metric']} ({bad.height} such rows)"
        raise DataError(Problem("impossible_count", found, "0 <= k <= n", key="k"))
