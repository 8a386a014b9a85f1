"""Is a confidence of 0.8 right in 8 of 10 cases? Reliability of the detections' scores, ECE and Brier score.

A score says how sure a detector is that a detection is a bird; what it should be compared with is the precision of the
detections with that score. Birds without any detection do not enter: a calibrated detector may still miss most of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import stats
from birdlab.detection.groups import BLOCK_S, clusters
from birdlab.errors import ParameterError

#: Detections a bin of the reliability diagram holds at least, where there are enough of them.
MIN_PER_BIN = 20
_S, _F, _I = pl.String, pl.Float64, pl.Int64
BIN_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "bin": _I, "lo": _F, "hi": _F, "n": _I, "n_right": _I, "mean_score": _F, "precision": _F},
    **{"gap": _F, "within_lo": _F, "within_hi": _F, "n_clusters": _I},
}
SUMMARY_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "n": _I, "n_right": _I, "n_bins": _I, "mean_score": _F, "precision": _F, "gap": _F, "ece": _F},
    **{"brier": _F, "brier_constant": _F, "reason": _S},
}
NOTHING = "no detection"
ONE_SCORE = "all detections have the same score"


@dataclass(frozen=True)
class Calibration:
    """``bins``: a row per model and bin of scores; ``summary``: a row per model."""

    bins: pl.DataFrame
    summary: pl.DataFrame


def calibration(
    matches: pl.DataFrame, frames: pl.DataFrame, *, n_bins: int = 10, block_s: float = BLOCK_S
) -> Calibration:
    """Compare the scores of detections with how often they are right.

    Args:
        matches: table ``matches`` of any number of models; detections at or above its ``score_thr``, ignored ones
            count neither way. Calibration is that of the scores kept: say the confidence beside it.
        frames: table ``frames``, the ones scored (for the clusters behind the intervals).
        n_bins: bins with equally many detections; fewer where a bin would hold fewer than 20 of them.
        block_s: video frames this close together are one cluster, s.

    Returns:
        Calibration. Per bin: scores in [lo, hi] (equal scores are never parted, so bins may differ in size),
        ``precision`` with its interval within these sessions, ``gap`` = mean score - precision (above 0: too sure).
        Per model: ``ece`` = Σ n_b/n |gap_b| in [0, 1], lower is better; ``brier`` mean (score - right)² in [0, 1],
        lower is better; ``brier_constant`` that of saying the precision every time, p (1 - p): a Brier score above it
        means the scores are worse than one number. Null with a reason without detections; a single score gives one
        bin. A model of ``matches`` without detections has its row.

    Raises:
        ParameterError: n_bins is below 1.

    ECE with equal-mass bins: Nguyen and O'Connor (2015); Nixon et al. (2019), §3. Brier (1950). Küppers et al. (2020)
    for detections: precision in place of accuracy.
    """
    if n_bins < 1:
        raise ParameterError(f"n_bins is 1 or more, not {n_bins}")
    where = clusters(frames, block_s=block_s).select("frame_id", "block")
    rows, summary = [], []
    for name in matches["model"].unique(maintain_order=True).to_list():
        mine = matches.filter((pl.col("model") == name) & pl.col("outcome").is_in(["tp", "fp"]))
        mine = mine.join(where, on="frame_id", how="left", maintain_order="left")
        if mine.is_empty():
            summary.append({"model": name, "n": 0, "n_right": 0, "n_bins": 0, "reason": NOTHING})
            continue
        score, right = mine["score"].to_numpy(), (mine["outcome"] == "tp").to_numpy().astype(np.float64)
        block = mine["block"].fill_null(-1).to_numpy()
        code = equal_mass(score, n_bins=max(1, min(n_bins, len(score) // MIN_PER_BIN)))
        bins = [_bin(score[code == b], right[code == b], block[code == b]) for b in range(int(code.max()) + 1)]
        rows += [{"model": name, "bin": b, **row} for b, row in enumerate(bins)]
        summary.append({"model": name, **_summary(score, right, bins)})
    return Calibration(pl.DataFrame(rows, schema=BIN_SCHEMA), pl.DataFrame(summary, schema=SUMMARY_SCHEMA))


def equal_mass(score: npt.ArrayLike, *, n_bins: int) -> npt.NDArray[np.int64]:
    """Bin of each score, from low to high, with as equal numbers as equal scores allow; no bin is empty.

    Args:
        score: (n,), at least one.
        n_bins: bins wanted.

    Returns:
        int64 codes 0 … at most n_bins - 1. Scores that are equal share the bin that the first of them falls in.

    >>> equal_mass([0.1, 0.2, 0.2, 0.2, 0.9, 0.95], n_bins=3).tolist()
    [0, 0, 0, 0, 1, 1]
    """
    score = np.asarray(score, dtype=np.float64)
    first = np.searchsorted(np.sort(score), score, side="left")
    return np.unique(first * n_bins // len(score), return_inverse=True)[1].astype(np.int64)


def _bin(
    score: npt.NDArray[np.float64], right: npt.NDArray[np.float64], block: npt.NDArray[np.int64]
) -> dict[str, Any]:
    _, cluster = np.unique(block, return_inverse=True)
    i = stats.within_sessions(np.bincount(cluster, weights=right), np.bincount(cluster))
    mean, precision = float(score.mean()), float(right.mean())
    return {
        **{"lo": float(score.min()), "hi": float(score.max()), "n": len(score), "n_right": int(right.sum())},
        **{"mean_score": mean, "precision": precision, "gap": mean - precision},
        **{"within_lo": i.lo, "within_hi": i.hi, "n_clusters": i.n_clusters},
    }


def _summary(
    score: npt.NDArray[np.float64], right: npt.NDArray[np.float64], bins: list[dict[str, Any]]
) -> dict[str, Any]:
    n, precision = len(score), float(right.mean())
    return {
        **{"n": n, "n_right": int(right.sum()), "n_bins": len(bins), "mean_score": float(score.mean())},
        **{"precision": precision, "gap": float(score.mean()) - precision},
        "ece": sum(b["n"] * abs(b["gap"]) for b in bins) / n,
        **{"brier": float(np.mean((score - right) ** 2)), "brier_constant": precision * (1 - precision)},
        "reason": ONE_SCORE if score.min() == score.max() else None,
    }
