"""Are people and the model looking at the same clock? Time shift between two codings of pecks, and F1 by tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

MIN_PECKS = 5
#: A peak is no chance when as many meetings at any shift would be rarer than this, and it stands this many standard
#: deviations above the other shifts (rhythmic pecking makes those vary more than chance does).
CHANCE, CLEAR = 0.01, 3.0
CURVE = {
    "tolerance_s": pl.Float64, "corrected": pl.Boolean, "offset_s": pl.Float64, "f1": pl.Float64,
    "precision": pl.Float64, "recall": pl.Float64, "n_matched": pl.Int64, "n_truth": pl.Int64, "n_other": pl.Int64,
    "reason": pl.String,
}  # fmt: skip
_KEYS = ("video_id", "individual_id")


@dataclass(frozen=True)
class Offset:
    """How much later the other coding is.

    Args:
        seconds: shift to take from the other coding's times; positive where it is late. ``None`` without an estimate.
        lo, hi: shifts whose agreement reaches at least the middle between the usual one and the peak.
        p: probability that chance alone makes such a peak at any of the shifts.
        n_truth, n_other: pecks on both sides.
        reason: why there is no estimate.
    """

    seconds: float | None
    lo: float | None
    hi: float | None
    p: float | None
    n_truth: int
    n_other: int
    reason: str | None = None


def time_offset(
    truth: pl.DataFrame, other: pl.DataFrame, fps: float, max_shift_s: float = 3.0, *, step_s: float | None = None
) -> Offset:
    """Shift between two codings of the same pecks: the peak of the cross-correlation of their starts.

    Args:
        truth: video_id, individual_id, start (frames) of pecks by hand.
        other: the same of the model or of a second person. A window says only that a peck lies somewhere in it: give
            its middle frame, else half a window is taken for a shift.
        fps: frame rate, Hz.
        max_shift_s: longest shift looked at to both sides, s.
        step_s: width of the bins of the indicator trains, s; one frame where not given (0.2 s suits coarse windows).

    Returns:
        See :class:`Offset`. Trains are compared bird by bird and video by video and the products added up; every pair
        of starts is smoothed over ± 1 bin, so that a shift may wander by a bin. Of equal peaks the shortest shift; a
        peak that chance makes (p > 0.01 over all shifts), that is less than three standard deviations above the other
        shifts, or that lies at the end of the range, is no estimate.
        Fewer than five pecks on either side: none.

    >>> starts = pl.DataFrame({"video_id": "v", "individual_id": "a", "start": [10, 60, 145, 200, 390, 500]})
    >>> time_offset(starts, starts.with_columns(pl.col("start") + 10), 25.0).seconds
    0.4
    """
    truth, other = _clean(truth), _clean(other)
    n = (truth.height, other.height)
    if min(n) < MIN_PECKS:
        return Offset(None, None, None, None, *n, f"fewer than {MIN_PECKS} pecks on one side")
    width = max(1, round((step_s or 0) * fps))
    reach = max(1, int(max_shift_s * fps) // width)
    lags = _lags(truth, other, width)
    lags = lags[np.abs(lags) <= reach + 1]
    hits = np.bincount(lags + reach + 1, minlength=2 * reach + 3).astype(float)
    return _peak(hits, reach, width / fps, n)


def _chance(k: float, usual: float, n_shifts: int) -> float:
    """Probability that chance meetings (Poisson) reach k at any of the shifts (Bonferroni), at most 1."""
    from scipy.special import pdtrc

    return min(1.0, n_shifts * float(pdtrc(k - 1, max(usual, 1 / n_shifts)))) if k else 1.0


def _peak(hits: np.ndarray, reach: int, step: float, n: tuple[int, int]) -> Offset:
    """Peak of the smoothed products; ``hits`` has one bin more at each end."""
    smooth, near = hits[1:-1] + (hits[:-2] + hits[2:]) / 2, hits[:-2] + hits[1:-1] + hits[2:]
    shifts = np.arange(-reach, reach + 1)
    top = np.flatnonzero(smooth == smooth.max())
    best = int(top[np.argmin(np.abs(shifts[top]))])
    away = np.abs(shifts - shifts[best]) > max(2, reach // 10)
    usual, sd = (float(f(smooth[away])) if away.any() else 0.0 for f in (np.mean, np.std))
    p = _chance(float(near[best]), float(near[away].mean()) if away.any() else 0.0, len(shifts))
    if p > CHANCE or smooth[best] - usual < CLEAR * sd:
        return Offset(None, None, None, p, *n, "no shift fits clearly better than the others")
    if best in (0, len(smooth) - 1):
        return Offset(None, None, None, p, *n, "the best shift lies at the end of the range, so look further")
    half = (smooth[best] + usual) / 2
    lo = best
    while lo > 0 and smooth[lo - 1] >= half:
        lo -= 1
    hi = best
    while hi < len(smooth) - 1 and smooth[hi + 1] >= half:
        hi += 1
    return Offset(*(float(round(shifts[k] * step, 9)) for k in (best, lo, hi)), p, *n)


def _lags(truth: pl.DataFrame, other: pl.DataFrame, width: int) -> np.ndarray:
    """Shift of every pair of starts of the same bird in the same video, bins."""
    parts = [np.zeros(0, dtype=np.int64)]
    for a, b in _pairs(truth, other):
        parts.append((b[None, :] // width - a[:, None] // width).ravel())
    return np.concatenate(parts)


def tolerance_curve(
    truth: pl.DataFrame, other: pl.DataFrame, fps: float, max_s: float = 3.0, *, offset: Offset | None = None,
    n_points: int = 31,
) -> pl.DataFrame:  # fmt: skip
    """F1 of pecks that may lie up to a tolerance apart, with and without the estimated shift.

    Args:
        truth, other, fps: as for :func:`time_offset`.
        max_s: longest tolerance, s.
        offset: estimated shift; without one only the uncorrected curve.
        n_points: tolerances from 0 to ``max_s``.

    Returns:
        tolerance_s, corrected, offset_s, f1, precision, recall (in [0, 1]), n_matched, n_truth, n_other, reason.
        Starts of the same bird in the same video are matched one to one, the closest pair first (of equals the earlier
        one of the truth). F1 is null, with the reason, where neither side has a peck.

    >>> a = pl.DataFrame({"video_id": "v", "individual_id": "a", "start": [0, 100]})
    >>> b = a.with_columns(pl.col("start") + 25)
    >>> tolerance_curve(a, b, 25.0, 2.0, n_points=3)["f1"].to_list()
    [0.0, 1.0, 1.0]
    """
    truth, other = _clean(truth), _clean(other)
    n_truth, n_other = truth.height, other.height
    rows = []
    shifts = [(False, 0.0)] + ([(True, offset.seconds)] if offset is not None and offset.seconds is not None else [])
    for corrected, seconds in shifts:
        moved = other.with_columns(pl.col("start") - round(seconds * fps))
        gaps = np.sort(np.concatenate([np.zeros(0), *(closest(a, b) for a, b in _pairs(truth, moved))]))
        for tolerance in np.linspace(0, max_s, n_points):
            k = int(np.searchsorted(gaps, tolerance * fps + 1e-9, side="right"))
            share = [k / n if n else None for n in (n_other, n_truth)]
            f1 = 2 * k / (n_truth + n_other) if n_truth + n_other else None
            reason = None if f1 is not None else "no peck on either side"
            rows.append((float(tolerance), corrected, seconds, f1, *share, k, n_truth, n_other, reason))
    return pl.DataFrame(rows, schema=CURVE, orient="row")


def closest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances of pairs matched one to one, the closest first; greedy pairs within a tolerance are its first ones.

    >>> closest(np.array([0, 10]), np.array([9, 30])).tolist()
    [1, 30]
    """
    if not len(a) or not len(b):
        return np.zeros(0)
    gap = np.abs(b[None, :] - a[:, None])
    i, j = np.divmod(np.argsort(gap, axis=None, kind="stable"), len(b))
    free_a, free_b, out = np.ones(len(a), dtype=bool), np.ones(len(b), dtype=bool), []
    for x, y in zip(i.tolist(), j.tolist(), strict=True):
        if free_a[x] and free_b[y]:
            free_a[x] = free_b[y] = False
            out.append(gap[x, y])
            if len(out) == min(len(a), len(b)):
                break
    return np.array(out)


def _pairs(truth: pl.DataFrame, other: pl.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Starts of both sides, bird by bird and video by video."""
    there = {k: part["start"].to_numpy() for k, part in other.partition_by(*_KEYS, as_dict=True).items()}
    for key, part in truth.partition_by(*_KEYS, as_dict=True, maintain_order=True).items():
        if key in there:
            yield part["start"].to_numpy(), there[key]


def _clean(events: pl.DataFrame) -> pl.DataFrame:
    return events.select(*_KEYS, pl.col("start").cast(pl.Int64)).drop_nulls().sort(*_KEYS, "start")
