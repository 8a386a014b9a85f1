"""Picking numbers out of ``metrics``, arranging them in rows, and writing them in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

#: Ends of ``metrics.method`` of the two named intervals.
WITHIN, NEW = "; within_sessions", "; new_sessions"
TEXT = ("model", "model_note", "rule")


def pick(
    metrics: pl.DataFrame, metric: str | Sequence[str], *, group: str = "all", level: str | None = None
) -> pl.DataFrame:
    """Computed rows of the given measures in one group (and level); no such row gives an empty frame."""
    names = [metric] if isinstance(metric, str) else list(metric)
    rows = metrics.filter(pl.col("metric").is_in(names) & (pl.col("group") == group) & pl.col("published").is_null())
    return rows if level is None else rows.filter(pl.col("level") == level)


def value(metrics: pl.DataFrame, metric: str, model: str) -> float | None:
    """The overall value of one measure of one model; None when there is none."""
    rows = pick(metrics, metric, level="all").filter(pl.col("model") == model)
    rows = rows.filter(~pl.col("method").str.contains("_sessions|max_f1"))
    return rows["value"][0] if rows.height else None


def number_of(
    metrics: pl.DataFrame, metric: str, model: str, *, group: str = "all", level: str = "all"
) -> dict[str, Any]:
    """One computed row of ``metrics`` as a mapping; every value null, with a reason, where there is none."""
    rows = metrics.filter(
        (pl.col("metric") == metric)
        & (pl.col("model") == model)
        & (pl.col("group") == group)
        & (pl.col("level") == level)
        & pl.col("published").is_null()
    ).to_dicts()
    blank = dict.fromkeys(metrics.columns) | {"model": model, "metric": metric, "reason": "not measured in this run"}
    return rows[0] if rows else blank


def cells_of(
    metrics: pl.DataFrame, model: str, names: Sequence[str], *, group: str = "all", level: str = "all"
) -> dict[str, Any]:
    """Named measures of one model as a row: ``<measure>``, ``_lo``, ``_hi`` and, for a null, ``_reason``."""
    row: dict[str, Any] = {"model": model}
    for name in names:
        found = number_of(metrics, name, model, group=group, level=level)
        row |= {name: found["value"], f"{name}_lo": found["lo"], f"{name}_hi": found["hi"]}
        if found["value"] is None:
            row[f"{name}_reason"] = found["reason"]
    return row


def published(metrics: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame | None:
    """Printed rows that have one of the named measures, a row per printed model; None without any."""
    rows = metrics.filter(
        pl.col("published").is_not_null()
        & pl.col("metric").is_in(list(names))
        & (pl.col("group") == "all")
        & (pl.col("model") != "")
    )
    if rows.is_empty():
        return None
    flat = rows.pivot("metric", index=["model"], values="published", aggregate_function="first", maintain_order=True)
    sources = rows.group_by("model", maintain_order=True).agg(pl.col("source").first())
    missing = [pl.lit(None, pl.Float64).alias(n) for n in names if n not in flat.columns]
    flat = flat.join(sources, on="model", how="left", maintain_order="left").with_columns(*missing)
    return flat.select("model", pl.format("{}, as printed", "source").alias("model_note"), *names)


def unit_of(metrics: pl.DataFrame) -> str:
    """What the interval for "a new one" is counted in: ``site`` when every frame has one of at least two sites, else ``session``."""
    found = metrics.filter(pl.col("metric") == "new_sessions_unit")["method"].to_list()
    return found[0] if found else "session"


def in_new(unit: str) -> str:
    """``in a new session``, ``at a new site``."""
    return f"{'at' if unit == 'site' else 'in'} a new {unit}"


def best_model(metrics: pl.DataFrame, models: Sequence[str]) -> str | None:
    """The model with the highest AP, the first of equals; None when none has one."""
    have = [(ap, name) for name in models if (ap := value(metrics, "ap", name)) is not None]
    return max(have, key=lambda pair: pair[0])[1] if have else None


def wide(
    metrics: pl.DataFrame,
    model: str,
    names: Sequence[str],
    *,
    conf: float | None,
    group: str = "all",
    level: str = "all",
) -> dict[str, Any]:
    """The named measures of one model as one row.

    Args:
        metrics: table ``metrics``.
        model: name of the model.
        names: measures, in order.
        conf: fixed confidence; rows made at another one are passed over.
        group, level: slice.

    Returns:
        ``model``, every measure, ``<measure>_lo`` and ``_hi`` for a new session where that interval is defined, and
        ``<measure>_reason`` for a null.
    """
    rows = metrics.filter(
        (pl.col("model") == model)
        & (pl.col("group") == group)
        & (pl.col("level") == level)
        & pl.col("published").is_null()
        & ~pl.col("method").str.contains("max_f1")
    )
    if conf is not None:
        other = pl.col("method").str.contains("conf=") & ~pl.col("method").str.contains(f"conf={conf:g}( |$|;)")
        rows = rows.filter(~other)
    out: dict[str, Any] = {"model": model}
    for name in names:
        at = rows.filter(pl.col("metric") == name)
        plain = at.filter(~pl.col("method").str.contains("_sessions")).to_dicts()
        if plain:
            out[name] = plain[0]["value"]
            if plain[0]["value"] is None:
                out[f"{name}_reason"] = plain[0]["reason"]
        else:
            out[f"{name}_reason"] = _absent(model, group)
        ends = at.filter(pl.col("method").str.ends_with(NEW)).to_dicts()
        if ends:
            out[f"{name}_lo"], out[f"{name}_hi"] = ends[0]["lo"], ends[0]["hi"]
    return out


def _absent(model: str, group: str) -> str:
    if model == "human":
        return "a person gives no score and no speed"
    return "measured once, on all frames" if group != "all" else "not measured in this run"


def with_ends(names: Sequence[str]) -> list[str]:
    """Column names with those of their intervals."""
    return [column for name in names for column in (name, f"{name}_lo", f"{name}_hi")]


def table_of(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, text: Sequence[str] = TEXT) -> pl.DataFrame:
    """Rows as a frame with the given columns (numbers, but for the text ones) and any ``*_reason`` that occurs."""
    reasons = sorted({key for row in rows for key in row if key.endswith("_reason")})
    schema = {c: pl.String if c in text else pl.Float64 for c in columns} | {r: pl.String for r in reasons}
    full = []
    for row in rows:
        cells = {c: row.get(c) for c in schema}
        full.append({c: v if schema[c] == pl.String or v is None else float(v) for c, v in cells.items()})
    return pl.DataFrame(full, schema=schema)


def shares_by(metrics: pl.DataFrame, metric: str, *, group: str, conf: float) -> pl.DataFrame:
    """A share per session, site or size with both intervals side by side, 'all' first.

    Returns:
        ``model``, ``level``, ``value``, ``n``, ``reason`` (of a null), ``within_lo``, ``within_hi``, ``new_lo``, ``new_hi``.
    """
    fixed = pl.col("method").str.contains(f"conf={conf:g}( |$|;)")
    rows = metrics.filter((pl.col("metric") == metric) & fixed & pl.col("published").is_null())
    rows = pl.concat([rows.filter(pl.col("group") == "all"), rows.filter(pl.col("group") == group)])
    key = ["model", "level"]
    out = rows.filter(~pl.col("method").str.contains("_sessions")).select(*key, "value", "n", "reason")
    out = out.filter(pl.col("n").is_not_null())
    for name, kind in (("within", WITHIN), ("new", NEW)):
        ends = rows.filter(pl.col("method").str.ends_with(kind))
        ends = ends.select(*key, pl.col("lo").alias(f"{name}_lo"), pl.col("hi").alias(f"{name}_hi"))
        out = out.join(ends, on=key, how="left", maintain_order="left")
    return out


def by_place(metrics: pl.DataFrame, metric: str, frames: pl.DataFrame, *, conf: float) -> pl.DataFrame:
    """A share over everything, then per site with the site's sessions below it, or per session where no site is named.

    Returns:
        Rows of :func:`shares_by` in that order, with ``rank`` (0 all, 1 site, 2 session).
    """
    sessions = shares_by(metrics, metric, group="session", conf=conf)
    sites = shares_by(metrics, metric, group="site", conf=conf).filter(pl.col("level") != "all")
    place = frames.select(pl.col("video_id").alias("level"), pl.col("site_id").alias("site")).unique("level")
    rank = pl.when(pl.col("level") == "all").then(0).otherwise(2).alias("rank")
    sessions = sessions.join(place, on="level", how="left", maintain_order="left").with_columns(rank)
    sites = sites.with_columns(pl.col("level").alias("site"), pl.lit(1).alias("rank"))
    rows = pl.concat([sessions, sites], how="diagonal_relaxed")
    return rows.sort("site", "rank", "level", nulls_last=False, maintain_order=True).sort(
        pl.col("rank") > 0, maintain_order=True
    )


def share_of(metrics: pl.DataFrame, metric: str, model: str, *, conf: float) -> dict[str, Any]:
    """One model's overall share with both intervals, as a row of :func:`shares_by`."""
    rows = shares_by(metrics, metric, group="all", conf=conf).filter(pl.col("model") == model).to_dicts()
    blank = dict.fromkeys(("value", "within_lo", "within_hi", "new_lo", "new_hi"))
    return rows[0] if rows else {**blank, "n": 0, "reason": "not measured in this run"}


def interval_of(share: dict[str, Any]) -> str:
    """The interval for a new session in per cent, as `` [51, 84]``; nothing where it is undefined."""
    return "" if share["new_lo"] is None else f" [{100 * share['new_lo']:.0f}, {100 * share['new_hi']:.0f}]"


def quoted(text: str) -> str:
    """Words from the data for a sentence of ours: what looks like a model or a reference there stays words.

    >>> quoted("{model:heron} in [[tab-asked]]")
    '{ model:heron} in [ [tab-asked]]'
    """
    return text.replace("{model:", "{ model:").replace("[[", "[ [")


def num(number: float | None) -> str:
    """Two decimals, or "undefined"."""
    return "undefined" if number is None else f"{number:.2f}"


def pct(fraction: float | None) -> str:
    """A fraction in whole per cent, or "undefined"."""
    return "undefined" if fraction is None else f"{100 * fraction:.0f} %"


def chance(p: float | None) -> str:
    """A p value in words, never 0.

    >>> chance(0.0004), chance(0.012), chance(None)
    ('p < 0.001', 'p = 0.012', 'not tested')
    """
    if p is None:
        return "not tested"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def plain(number: float | None) -> str | None:
    """A whole number without decimals, anything else with two.

    >>> plain(402750.0), plain(2.92), plain(None)
    ('402,750', '2.92', None)
    """
    return None if number is None else f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def count(n: int, one: str, many: str) -> str:
    """A number with its noun.

    >>> count(1, "frame", "frames"), count(1200, "frame", "frames")
    ('1 frame', '1,200 frames')
    """
    return f"{n:,} {one if n == 1 else many}"
