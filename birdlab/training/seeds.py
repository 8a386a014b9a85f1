"""Several seeds of one model: how far its scores move by luck, against how far they move between sessions."""

from __future__ import annotations

import polars as pl

ONE_SEED = "1 seed"
ONE_SESSION = "1 session"


def seed_table(scores: pl.DataFrame) -> pl.DataFrame:
    """Mean and standard deviation over seeds of every score.

    Args:
        scores: model, seed, metric, value; one row per model, seed and metric. A null value is left out and counted.

    Returns:
        model, metric, n_seeds (with a value), n_undefined, mean, sd (of the seeds, n - 1), lowest, highest, reason
        (why sd or mean is null), said ("0.412 ± 0.013 (3 seeds)", or "0.412 (1 seed)"), in the order met.

    >>> rows = pl.DataFrame({"model": ["a"] * 2, "seed": [0, 1], "metric": ["ap"] * 2, "value": [0.4, 0.6]})
    >>> seed_table(rows).select("mean", "sd", "said").row(0)
    (0.5, 0.14142135623730948, '0.500 ± 0.141 (2 seeds)')
    """
    value = pl.col("value").cast(pl.Float64)
    table = scores.group_by("model", "metric", maintain_order=True).agg(
        value.count().cast(pl.Int64).alias("n_seeds"),
        value.null_count().cast(pl.Int64).alias("n_undefined"),
        value.mean().alias("mean"),
        value.std(ddof=1).alias("sd"),
        value.min().alias("lowest"),
        value.max().alias("highest"),
    )
    table = table.with_columns(sd=pl.when(pl.col("n_seeds") > 1).then(pl.col("sd")))
    reason = (
        pl.when(pl.col("n_seeds") == 0)
        .then(pl.lit("undefined for every seed"))
        .when(pl.col("n_seeds") == 1)
        .then(pl.lit(ONE_SEED))
    )
    said = [_said(row["mean"], row["sd"], row["n_seeds"]) for row in table.iter_rows(named=True)]
    return table.with_columns(reason.alias("reason"), pl.Series("said", said, dtype=pl.String))


def _said(mean: float | None, sd: float | None, n: int) -> str:
    if mean is None:
        return "undefined"
    return f"{mean:.3f} ({ONE_SEED})" if sd is None else f"{mean:.3f} ± {sd:.3f} ({n} seeds)"


def seed_variance(scores: pl.DataFrame) -> pl.DataFrame:
    """How much of a score's variance is the seed and how much the session, per model and metric.

    Args:
        scores: model, metric, seed, session, value; one row each. A session without a value for one of the seeds is
            left out for all of them and counted.

    Returns:
        One row per model and metric: n_seeds, n_sessions, n_left_out (sessions); var_seeds, the variance between seeds
        of the mean over sessions, and var_sessions, the variance between sessions of the mean over seeds (both n - 1),
        with their roots sd_seeds and sd_sessions; ratio = var_seeds / var_sessions; and the components of the two-way
        random model value = mean + seed + session + rest, one value per cell: component_seed, component_session,
        component_rest, by the mean squares and not below 0. Undefined is null, and reason says why ("1 seed").

    Searle, Casella and McCulloch (1992), §4.4: E(MS_seed) = σ²_rest + S σ²_seed and so on, for S sessions.

    >>> cells = [(0, "x", 0.2), (0, "y", 0.6), (1, "x", 0.4), (1, "y", 0.8)]
    >>> rows = pl.DataFrame(cells, schema=["seed", "session", "value"], orient="row")
    >>> t = seed_variance(rows.with_columns(model=pl.lit("a"), metric=pl.lit("ap"))).row(0, named=True)
    >>> round(t["var_seeds"], 6), round(t["var_sessions"], 6), round(t["ratio"], 6), t["reason"]
    (0.02, 0.08, 0.25, None)
    """
    rows = [
        {"model": str(model), "metric": str(metric), **_variance(part)}
        for (model, metric), part in scores.group_by("model", "metric", maintain_order=True)
    ]
    numbers = ("var_seeds", "var_sessions", "sd_seeds", "sd_sessions", "ratio")
    numbers += ("component_seed", "component_session", "component_rest")
    schema = {
        "model": pl.String,
        "metric": pl.String,
        **dict.fromkeys(("n_seeds", "n_sessions", "n_left_out"), pl.Int64),
    }
    return pl.DataFrame(rows, schema={**schema, **dict.fromkeys(numbers, pl.Float64), "reason": pl.String})


def _variance(part: pl.DataFrame) -> dict[str, float | int | str | None]:
    n_seeds, n_all = part["seed"].n_unique(), part["session"].n_unique()
    full = part.drop_nulls("value").group_by("session").agg(pl.len()).filter(pl.col("len") == n_seeds)
    cells = part.join(full.select("session"), on="session", how="semi")
    n_sessions = full.height
    row: dict[str, float | int | str | None] = {"n_seeds": n_seeds, "n_sessions": n_sessions}
    row["n_left_out"] = n_all - n_sessions
    reasons = [ONE_SEED] if n_seeds < 2 else []
    if n_sessions < 2:
        reasons.append("no session has a value for every seed" if n_sessions == 0 else ONE_SESSION)
    row["reason"] = "; ".join(reasons) or None
    by_seed = cells.group_by("seed").agg(pl.col("value").mean())["value"]
    by_session = cells.group_by("session").agg(pl.col("value").mean())["value"]
    v_seed = float(by_seed.var()) if n_seeds > 1 and n_sessions else None
    v_session = float(by_session.var()) if n_sessions > 1 else None
    row |= {"var_seeds": v_seed, "var_sessions": v_session}
    row |= {"sd_seeds": None if v_seed is None else v_seed**0.5}
    row |= {"sd_sessions": None if v_session is None else v_session**0.5}
    row["ratio"] = None
    if v_seed is None or v_session is None:
        return row
    if v_session > 0:
        row["ratio"] = v_seed / v_session
    else:
        row["reason"] = "the sessions do not differ"
    means = cells.with_columns(
        pl.col("value").mean().over("seed").alias("_seed"), pl.col("value").mean().over("session").alias("_session")
    )
    rest = means["value"] - means["_seed"] - means["_session"] + float(cells["value"].mean())
    ms_rest = float((rest**2).sum()) / ((n_seeds - 1) * (n_sessions - 1))
    row |= {"component_seed": max(0.0, v_seed - ms_rest / n_sessions)}
    return row | {"component_session": max(0.0, v_session - ms_rest / n_seeds), "component_rest": ms_rest}
