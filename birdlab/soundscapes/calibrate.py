"""How far scores are from being probabilities: the share that is right among what is listed with a given score.

The scores of a run need not be probabilities, and few are; c-mAP looks at their order alone. A reliability curve says
what they could be read as on these recordings. It is taken over the listed rows: what a run leaves out has no score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.curves import NOT_LISTED
from birdlab.soundscapes.levels import listed_rows
from birdlab.stats import wilson

BINS = {
    "run": pl.String,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "n": pl.Int64,
    "n_right": pl.Int64,
    "mean_score": pl.Float64,
    "share_right": pl.Float64,
    "share_lo": pl.Float64,
    "share_hi": pl.Float64,
    "reason": pl.String,
}
NO_ROW = "no row with such a score"


class Calibration(NamedTuple):
    """Reliability of one run.

    Args:
        bins: :data:`BINS`, one row per bin of scores.
        ece: expected calibration error, in [0, 1], lower is better; None, with the reason, where nothing is listed.
        bias: mean score minus share right, in [-1, 1]; above 0 the scores promise too much.
        n: listed rows.
        n_bins: bins that have rows.
        reason: why there is no number.
    """

    bins: pl.DataFrame
    ece: float | None
    bias: float | None
    n: int
    n_bins: int
    reason: str | None = None


def calibration(truth: Truth, coded: Coded, *, n_bins: int = 10) -> Calibration:
    """Reliability bins of equal width and the expected calibration error of the listed rows of a run.

    Args:
        truth, coded: who is heard where, and what a run lists. Rows of classes that are heard nowhere are wrong ones;
            so are rows past the end of a recording.
        n_bins: bins [lo, hi) over [0, 1]; 1 belongs to the last.

    Returns:
        :class:`Calibration`; ECE = Σ n_b / n |mean score - share right| over the bins with rows.

    Raises:
        ParameterError: ``n_bins`` is below 1.

    Naeini, Cooper and Hauskrecht (2015), §3. Wilson intervals take rows as independent and are too narrow.
    """
    if n_bins < 1:
        raise ParameterError(Problem("bad_value", str(n_bins), "one bin or more", key="n_bins"))
    edges = np.arange(n_bins + 1) / n_bins
    n, right, total = np.zeros(n_bins, dtype=np.int64), np.zeros(n_bins, dtype=np.int64), np.zeros(n_bins)
    for _, _, score, relevant in listed_rows(truth, coded, heard_only=False):
        at = np.searchsorted(edges[1:-1], score, side="right")
        n += np.bincount(at, minlength=n_bins)
        right += np.bincount(at[relevant], minlength=n_bins)
        total += np.bincount(at, score, minlength=n_bins)
    rows = []
    for b in range(n_bins):
        ends = wilson(int(right[b]), int(n[b])) or (None, None)
        means = (total[b] / n[b], right[b] / n[b]) if n[b] else (None, None)
        why = None if n[b] else NO_ROW
        rows.append((coded.name, edges[b], edges[b + 1], int(n[b]), int(right[b]), *means, *ends, why))
    frame = pl.DataFrame(rows, schema=BINS, orient="row")
    rows_in_all = int(n.sum())
    if not rows_in_all:
        return Calibration(frame, None, None, 0, 0, NOT_LISTED)
    ece = float(np.abs(total - right).sum() / rows_in_all)
    bias = float((total - right).sum() / rows_in_all)
    return Calibration(frame, ece, bias, rows_in_all, int(np.count_nonzero(n)))
