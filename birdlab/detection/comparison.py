"""Is one model better than another? The same birds, found by one and not by the other, session by session."""

from __future__ import annotations

import itertools

import polars as pl

from birdlab import stats
from birdlab.detection.groups import BLOCK_S, clusters, highest_level

#: A difference is confirmed below this, after Holm's correction, for new sessions.
ALPHA = 0.05

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "model_a": pl.String,
    "model_b": pl.String,
    "kind": pl.String,
    "unit": pl.String,
    "difference": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "confirmed": pl.Boolean,
    "n": pl.Int64,
    "n_only_a": pl.Int64,
    "n_only_b": pl.Int64,
    "n_clusters": pl.Int32,
    "family": pl.Int64,
    "reason": pl.String,
}


def compare_recall(matches: pl.DataFrame, frames: pl.DataFrame, *, block_s: float = BLOCK_S) -> pl.DataFrame:
    """Difference in recall of every pair of models, on the birds that both were scored on.

    Args:
        matches: table ``matches`` of two or more models at one confidence.
        frames: table ``frames``, the ones scored.
        block_s: video frames this close together are one cluster, s.

    Returns:
        Two rows per pair (A, B), in the order of the models. ``difference`` is recall of A minus recall of B, in
        [-1, 1]; ``kind`` is ``within_sessions`` (clusters are frames or blocks) or ``new_sessions`` (clusters are
        ``unit``: sessions, or sites when there are two). ``p_holm`` is corrected over the ``family`` of pairs of the
        same kind. Only ``new_sessions`` can be confirmed (p_holm < 0.05): with one session none is, and ``reason``
        says so. No rows for fewer than two models.

    The difference is paired and clustered (CR1, t with G - 1); two overlapping intervals are never compared.
    """
    unit = highest_level(frames)
    where = clusters(frames, block_s=block_s).with_columns(top="site" if unit == "site" else "session")
    birds = matches.filter(pl.col("outcome").is_in(["tp", "fn"]))
    birds = birds.select("model", "frame_id", "label_id", hit=(pl.col("outcome") == "tp").cast(pl.Int64))
    birds = birds.join(where.select("frame_id", "block", "top"), on="frame_id", how="inner", maintain_order="left")
    names = matches["model"].unique(maintain_order=True).to_list()
    rows = []
    for a, b in itertools.combinations(names, 2):
        left, right = (birds.filter(pl.col("model") == name) for name in (a, b))
        both = left.join(right.select("label_id", other="hit"), on="label_id", how="inner")
        rows += _pair(a, b, both.with_columns(d=pl.col("hit") - pl.col("other")), unit)
    return _with_holm(rows)


def _pair(a: str, b: str, both: pl.DataFrame, unit: str) -> list[dict[str, object]]:
    about = {
        "model_a": a,
        "model_b": b,
        "difference": both["d"].mean() if both.height else None,
        "n": both.height,
        "n_only_a": both.filter(pl.col("d") == 1).height,
        "n_only_b": both.filter(pl.col("d") == -1).height,
    }
    rows = []
    for kind, column, what in ((stats.WITHIN, "block", "cluster of frames"), (stats.NEW, "top", unit)):
        part = both.group_by(column).agg(pl.col("d").sum(), pl.len().alias("n")).sort(column)
        i = stats.mean_difference(part["d"], part["n"], kind=kind, unit=what)
        reason = i.reason if both.height else "no bird that both were scored on"
        ends = {"lo": i.lo, "hi": i.hi, "p": i.p, "n_clusters": i.n_clusters, "reason": reason}
        rows.append({**about, "kind": kind, "unit": what, **ends})
    return rows


def _with_holm(rows: list[dict[str, object]]) -> pl.DataFrame:
    for kind in (stats.WITHIN, stats.NEW):
        family = [row for row in rows if row["kind"] == kind]
        corrected = stats.holm([row["p"] for row in family])  # type: ignore[misc]
        for row, p in zip(family, corrected, strict=True):
            sure = kind == stats.NEW and p is not None and p < ALPHA
            row.update(p_holm=p, confirmed=sure, family=sum(r["p"] is not None for r in family))
    return pl.DataFrame(rows, schema=SCHEMA)
