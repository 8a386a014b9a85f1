"""How far predicted keypoints lie from those placed by hand: errors in px, PCK, per keypoint and kind of scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from birdlab.individuals.oks import NO_VIDEO
from birdlab.metrics import metric_row
from birdlab.stats import NEW, Interval, mean_difference, new_sessions

PIXELS = (5.0, 10.0)
SHARES = (0.05, 0.1)
MISSED = "no keypoint that can be seen"
NOT_PLACED = "no keypoint was placed"
CURVE_PX = 30
#: Errors in px: share of the keypoints that lie below; None is the mean.
ERRORS: dict[str, float | None] = {"mean_px": None, "median_px": 0.5, "p95_px": 0.95}


def keypoint_scores(points: pl.DataFrame) -> dict[str, Any]:
    """Errors and PCK of one model (or a part of its keypoints).

    Args:
        points: rows of the table ``keypoints``; those that nobody could see do not count.

    Returns:
        n_points, n_missing (not placed by the model), n_instances; mean_px, median_px, p95_px of the placed ones (95th
        percentile, linear); pck_<t>: share of all seen keypoints within t px (≤), pck_norm_<s>: within s times the
        longer side of the bird's box. A keypoint that was not placed is beyond every distance. Null without one.

    >>> frame = pl.DataFrame({"visible": [True, True], "error_px": [3.0, None], "size_px": [50.0, 50.0], "instance_id": "a"})
    >>> found = keypoint_scores(frame)
    >>> found["mean_px"], found["pck_5"], found["n_missing"]
    (3.0, 0.5, 1)
    """
    seen = points.filter("visible")
    error = seen["error_px"].drop_nulls().to_numpy()
    out: dict[str, Any] = {"n_points": seen.height, "n_missing": seen.height - len(error)}
    out["n_instances"] = seen["instance_id"].n_unique()
    for name, share in ERRORS.items():
        value = None if not len(error) else error.mean() if share is None else np.quantile(error, share)
        out[name] = None if value is None else float(value)
    for name, hits in within(seen).items():
        out[name] = int(hits.sum()) / seen.height if seen.height else None
    return out


def within(seen: pl.DataFrame) -> dict[str, np.ndarray]:
    """Which keypoints lie within each distance, (n,) bool per name of :func:`keypoint_scores`."""
    error = seen["error_px"].fill_null(float("inf")).to_numpy()
    size = seen["size_px"].to_numpy()
    out = {f"pck_{t:g}": error <= t for t in PIXELS}
    return out | {f"pck_norm_{s:g}": error <= s * size for s in SHARES}


def keypoint_rows(points: pl.DataFrame, oks: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics`` of every model: overall with intervals over videos, by keypoint, by scene, OKS AP.

    Args:
        points: table ``keypoints``.
        oks: table ``keypoint_oks``: model and :func:`birdlab.individuals.oks.oks_numbers`.
    """
    rows = []
    for (model,), part in points.group_by("model", maintain_order=True):
        rows += _rows(part, {"model": model}, intervals=True)
        for group, column in (("keypoint", "keypoint"), ("scene", "scene")):
            for (level,), of in part.drop_nulls(column).group_by(column, maintain_order=True):
                rows += _rows(of, {"model": model, "group": group, "level": level}, intervals=False)
    for row in oks.to_dicts():
        about = {k: row[k] for k in ("model", "value", "lo", "hi", "n", "n_clusters", "reason")}
        how = "pycocotools, own sigmas; new videos, jackknife"
        rows.append(metric_row(**about, metric=f"oks_{row['measure']}", method=how))
    return rows


def _rows(part: pl.DataFrame, about: dict[str, Any], *, intervals: bool) -> list[dict[str, Any]]:
    found = keypoint_scores(part)
    ends = score_intervals(part) if intervals else {}
    nothing = Interval(None, None, NEW, 0)
    rows = []
    for name in (*ERRORS, *within(part.clear())):
        is_error = name in ERRORS
        at, value = ends.get(name, nothing), found[name]
        n = found["n_points"] - (found["n_missing"] if is_error else 0)
        why = at.reason if value is not None else NOT_PLACED if found["n_points"] else MISSED
        rows.append(
            metric_row(
                **about, metric=f"error_{name}" if is_error else name, value=value, lo=at.lo, hi=at.hi, n=n,
                n_clusters=at.n_clusters or None, method=_method(name), reason=why,
            )
        )  # fmt: skip
    return rows


def _method(name: str) -> str:
    if name not in ERRORS:
        return "share within; new videos, logit CR1"
    how = ERRORS[name]
    if how is None:
        return "mean of placed; new videos, CR1"
    return f"{100 * how:g} % of placed; new videos, logit CR1 of the share below"


def score_intervals(points: pl.DataFrame) -> dict[str, Interval]:
    """95 % intervals for new videos of the values of :func:`keypoint_scores`.

    Args:
        points: rows of the table ``keypoints`` of one model.

    Returns:
        Of the mean: mean ± t(G-1) √v (CR1 over videos). Of a quantile (Woodruff 1952): the interval of the share of the
        keypoints that lie at or below it, turned back into px; so it is no wider than the errors seen. Of a share: logit
        CR1. No ends and the reason where there are fewer than two videos, or a picture names none.
    """
    seen = points.filter("visible")
    names = [*ERRORS, *within(seen)]
    if seen["video_id"].null_count() or seen.is_empty():
        return dict.fromkeys(names, Interval(None, None, NEW, 0, NO_VIDEO if seen.height else MISSED))
    videos = seen.partition_by("video_id", maintain_order=True)
    errors = [e for v in videos if len(e := v["error_px"].drop_nulls().to_numpy())]
    out = {name: _error_interval(errors, share) for name, share in ERRORS.items()}
    hits = [within(v) for v in videos]
    for name in within(seen.clear()):
        out[name] = new_sessions([h[name].sum() for h in hits], [v.height for v in videos], unit="video")
    return out


def _error_interval(errors: Sequence[np.ndarray], share: float | None) -> Interval:
    """Interval of the mean (None) or of a quantile of errors, from those of each video."""
    n = [len(e) for e in errors]
    if share is None:
        ends = mean_difference([e.sum() for e in errors], n, unit="video")
        reason = f"the same in all {len(n)} videos" if len(n) > 1 and ends.lo is None else ends.reason
        return Interval(None if ends.lo is None else max(0.0, ends.lo), ends.hi, NEW, len(n), reason)
    if len(n) < 2:
        return new_sessions([0] * len(n), n, unit="video")
    every = np.concatenate(errors)
    at = np.quantile(every, share)
    ends = new_sessions([(e <= at).sum() for e in errors], n, unit="video")
    if ends.lo is None or ends.hi is None:
        return ends
    # The share at the quantile itself is a step off it; the step is taken out of both ends.
    lo, hi = (
        float(np.quantile(every, min(max(end - np.mean(every <= at) + share, 0.0), 1.0))) for end in (ends.lo, ends.hi)
    )
    return Interval(lo, hi, NEW, len(n), ends.reason)


def pck_curve(points: pl.DataFrame) -> pl.DataFrame:
    """model, threshold_px (0 to 30), share of seen keypoints within it."""
    rows = []
    for (model,), part in points.filter("visible").group_by("model", maintain_order=True):
        error = np.sort(part["error_px"].drop_nulls().to_numpy())
        grid = np.arange(0, CURVE_PX + 0.25, 0.5)
        rows += [(model, float(t), float(np.searchsorted(error, t, side="right") / part.height)) for t in grid]
    return pl.DataFrame(
        rows, schema={"model": pl.String, "threshold_px": pl.Float64, "share": pl.Float64}, orient="row"
    )


def keypoint_errors(points: pl.DataFrame) -> pl.DataFrame:
    """model, keypoint, scene, median_px, p95_px, n: of the placed keypoints, for the figure."""
    seen = points.filter("visible").drop_nulls("error_px").with_columns(pl.col("scene").fill_null("all"))
    return seen.group_by("model", "keypoint", "scene", maintain_order=True).agg(
        pl.col("error_px").median().alias("median_px"),
        pl.col("error_px").quantile(0.95, "linear").alias("p95_px"),
        pl.len().cast(pl.Int64).alias("n"),
    )
