"""How far predicted biological numbers lie from true ones: errors, limits of agreement, correlations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from birdlab.stats import mean_difference

TOO_FEW = "fewer than 3 points"
CONSTANT = "one side is constant"
NOTHING = "nothing to compare"
#: Numbers that are given pooled and, with ``_within`` behind the name, within video.
POOLED = ("mean_abs_error", "median_abs_error", "sd_abs_error", "bias", "loa_lo", "loa_hi", "r", "ccc")
WITHIN = tuple(f"{name}_within" for name in POOLED)


def error_summary(
    truth: npt.ArrayLike, predicted: npt.ArrayLike, *, group: npt.ArrayLike | None = None
) -> dict[str, Any]:
    """Errors of predicted numbers.

    Args:
        truth, predicted: (n,), finite, in one unit.
        group: video of each number, (n,); for the correlation within videos and the interval of the mean error.

    Returns:
        :data:`POOLED`: mean_abs_error, median_abs_error, sd_abs_error (ddof 1) of \\|predicted - truth\\|; bias (mean of
        predicted - truth) and the Bland-Altman limits loa_lo, loa_hi (bias ± 1.96 sd of the differences); Pearson's r;
        Lin's ccc (agreement, in [-1, 1]). :data:`WITHIN`: the same within video, see :func:`within_summary`. n; mae_lo,
        mae_hi: 95 % for new videos (CR1, t(G-1)); n_clusters; reason for what is null: r of fewer than 3 points or of a
        constant.

    Bland and Altman (1986); Lin (1989), with sample variances (n - 1), as the mean of squares would shrink small n.

    >>> found = error_summary([1, 2, 3], [2, 2, 5])
    >>> found["mean_abs_error"], found["bias"], round(found["r"], 3)
    (1.0, 1.0, 0.866)
    """
    t, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    n = len(t)
    out: dict[str, Any] = dict.fromkeys((*POOLED, *WITHIN, "mae_lo", "mae_hi"))
    out |= {"n": n, "n_clusters": 0, "reason": None}
    if n == 0:
        return out | {"reason": NOTHING}
    difference = p - t
    error = np.abs(difference)
    out |= {"mean_abs_error": float(error.mean()), "median_abs_error": float(np.median(error))}
    out["bias"] = float(difference.mean())
    if n > 1:
        sd = float(difference.std(ddof=1))
        out |= {"sd_abs_error": float(error.std(ddof=1))}
        out |= {"loa_lo": out["bias"] - 1.96 * sd, "loa_hi": out["bias"] + 1.96 * sd}
    out["r"], out["reason"] = correlation(t, p)
    out["ccc"] = concordance(t, p)
    if group is not None:
        _, code = np.unique(np.asarray(group), return_inverse=True)
        size = np.bincount(code)
        out |= within_summary(t, p, code)
        ends = mean_difference(np.bincount(code, error), size, unit="video")
        out |= {"mae_lo": None if ends.lo is None else max(0.0, ends.lo), "mae_hi": ends.hi, "n_clusters": len(size)}
    return out


def within_summary(truth: np.ndarray, predicted: np.ndarray, video: np.ndarray) -> dict[str, float | None]:
    """Errors of predicted numbers within video: what is left when every video is taken for itself.

    Args:
        truth, predicted: (n,), finite, in one unit; n ≥ 1.
        video: 0-based number of each number's video, (n,), none left out.

    Returns:
        mean_abs_error_within, median_…, sd_…, bias_within: the value of each video, averaged over the videos that have
        one (each the same weight); loa_lo_within, loa_hi_within: that bias ± 1.96 s with s² = Σ(d - mean d of its
        video)² / (n - videos); r_within, ccc_within: of both sides minus the mean of their video. Null where no video
        has two numbers; r and ccc also where n ≤ videos + 1 or nothing varies.

    Limits of agreement from the scatter within subjects: Bland and Altman (1999), §5.

    >>> found = within_summary(np.array([1.0, 2, 5, 6]), np.array([2.0, 3, 5, 6]), np.array([0, 0, 1, 1]))
    >>> found["mean_abs_error_within"], found["bias_within"], found["loa_hi_within"]
    (0.5, 0.5, 0.5)
    """
    n, size = len(truth), np.bincount(video)
    difference = predicted - truth
    parts = np.split(np.abs(difference)[np.argsort(video, kind="stable")], np.cumsum(size)[:-1])
    out: dict[str, float | None] = dict.fromkeys(WITHIN)
    out["mean_abs_error_within"] = float(np.mean([e.mean() for e in parts]))
    out["median_abs_error_within"] = float(np.mean([np.median(e) for e in parts]))
    out["bias_within"] = float((np.bincount(video, difference) / size).mean())
    if n > len(size):
        out["sd_abs_error_within"] = float(np.mean([e.std(ddof=1) for e in parts if len(e) > 1]))
        own = difference - (np.bincount(video, difference) / size)[video]
        half = 1.96 * float(np.sqrt(own @ own / (n - len(size))))
        out |= {"loa_lo_within": out["bias_within"] - half, "loa_hi_within": out["bias_within"] + half}
    if n > len(size) + 1:
        centred = [_centred(x, video, size) for x in (truth, predicted)]
        out["r_within"], _ = correlation(*centred)
        out["ccc_within"] = concordance(*centred)
    return out


def _centred(x: np.ndarray, video: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Numbers minus the mean of their video; crumbs of the last bit, where nothing varies, are 0."""
    own = x - (np.bincount(video, x) / size)[video]
    return np.where(np.abs(own) <= 1e-12 * np.abs(x).max(), 0.0, own)


def correlation(a: np.ndarray, b: np.ndarray) -> tuple[float | None, str | None]:
    """Pearson's r, or why there is none: fewer than three points, or a side that does not vary.

    >>> import numpy as np
    >>> correlation(np.array([2.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    (None, 'one side is constant')
    """
    if len(a) < 3:
        return None, TOO_FEW
    x, y = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((x @ x) * (y @ y)))
    # Centring leaves crumbs of the last bit where nothing varies.
    crumb = 1e-12 * len(a) * max(1e-300, float(np.abs(a).max() * np.abs(b).max()))
    if spread <= crumb or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None, CONSTANT
    return float(np.clip((x @ y) / spread, -1, 1)), None


def concordance(a: np.ndarray, b: np.ndarray) -> float | None:
    """Lin's concordance 2 s_ab / (s_a² + s_b² + (mean a - mean b)²); None for fewer than three points or two equal constants.

    >>> import numpy as np
    >>> round(concordance(np.array([1.0, 2, 3]), np.array([2.0, 3, 4])), 4)
    0.6667
    """
    if len(a) < 3:
        return None
    bottom = float(a.var(ddof=1) + b.var(ddof=1) + (a.mean() - b.mean()) ** 2)
    return float(2 * np.cov(a, b)[0, 1] / bottom) if bottom > 0 else None
