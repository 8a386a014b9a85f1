"""Average precision with every recording (or day) counted as often as it is drawn: no list is sorted again.

A segment drawn w times counts as w segments with the same probability. A tie with k relevant ones after F irrelevant and
T relevant ones adds Σ (T + t) / (F + T + t), t = 1..k, which is k - F (H[F + T + k] - H[F + T]) with the harmonic numbers H:
no list is ever sorted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.soundscapes.coded import Coded, Floats, Ints, Truth
from birdlab.soundscapes.levels import listed_rows, positions
from birdlab.stats import one_thread

Unit = Literal["recording", "day"]
#: Levels × resamples worked on at once.
_CELLS = 1_000_000


@dataclass(frozen=True)
class Clusters:
    """Which recording or day each segment of the grid belongs to.

    Args:
        by: ``recording`` or ``day`` (local date on which the recording began).
        codes: cluster of each segment, (S,), in 0..G-1.
        names: of the clusters.
        of_media: cluster of each recording, (M,).
        n_without_day: recordings without a local start; each is a cluster of its own.
    """

    by: Unit
    codes: npt.NDArray[np.int64]
    names: tuple[str, ...]
    of_media: npt.NDArray[np.int64]
    n_without_day: int = 0

    @property
    def n(self) -> int:
        """Clusters."""
        return len(self.names)


def segment_clusters(truth: Truth, recordings: pl.DataFrame | None = None, *, by: Unit = "recording") -> Clusters:
    """Recordings or days as clusters of segments.

    Args:
        truth: its grid.
        recordings: table ``soundscape_recordings``, for days.
        by: ``day``: recordings of all recorders that began on one local date belong together.

    Raises:
        ParameterError: ``by`` is unknown.
    """
    if by not in ("recording", "day"):
        raise ParameterError(Problem("bad_value", repr(by), "recording or day", key="cluster"))
    media = truth.grid.media
    names, without = list(media), 0
    if by == "day":
        start: dict[str, object] = {}
        if recordings is not None and {"media_id", "start_local"} <= set(recordings.columns):
            start = dict(recordings.select("media_id", pl.col("start_local").dt.date()).iter_rows())
        without = sum(start.get(m) is None for m in media)
        names = [str(start[m]) if start.get(m) is not None else f"recording {m}" for m in media]
    unique = {name: code for code, name in enumerate(dict.fromkeys(names))}
    per_media = np.array([unique[name] for name in names], dtype=np.int64)
    return Clusters(by, np.repeat(per_media, np.diff(truth.grid.offsets)), tuple(unique), per_media, without)


def class_values(
    code: Ints, score: Floats, relevant: npt.NDArray[np.bool_], weights: npt.NDArray[np.float32]
) -> Floats:
    """Sum of precisions at the hits of one class (average precision times relevant segments) in every resample.

    Args:
        code, score, relevant: listed rows of the class: cluster, probability, whether it is heard, (n,). A segment past
            the grid that is in no known recording has the code G: it counts once in every resample.
        weights: how often each cluster is drawn, and a last column of ones, (R, G + 1) float32.

    Returns:
        (R,), by the official rule: copies of a segment tie, hits first.
    """
    out = np.zeros(len(weights))
    if not relevant.any():
        return out
    hit = score[relevant]
    order = np.argsort(-hit, kind="stable")
    hit, hit_code = hit[order], code[relevant][order]
    starts = np.flatnonzero(np.append(True, hit[1:] != hit[:-1]))
    value = hit[starts]
    wrong = ~relevant & (score > value[-1])
    # A wrong segment is above every level from the first one that its probability exceeds.
    entry, wrong_code = np.searchsorted(-value, -score[wrong], side="right"), code[wrong]
    harmonic = _harmonic(weights, code)
    n_columns, step = weights.shape[1], max(1, _CELLS // len(weights))
    above, hits_before = np.zeros(n_columns, dtype=np.float32), np.zeros(len(weights), dtype=np.int64)
    for lo in range(0, len(value), step):
        hi = min(lo + step, len(value))
        inside = (entry >= lo) & (entry < hi)
        cells = wrong_code[inside] * (hi - lo) + entry[inside] - lo
        counts = np.bincount(cells, minlength=n_columns * (hi - lo)).reshape(n_columns, hi - lo).astype(np.float32)
        counts[:, 0] += above
        np.cumsum(counts, axis=1, out=counts)
        above = counts[:, -1].copy()
        f = (weights @ counts).astype(np.int64)
        rows = slice(starts[lo], starts[hi] if hi < len(value) else len(hit))
        k = np.take(weights, hit_code[rows], axis=1).astype(np.int64)
        if rows.stop - rows.start > hi - lo:
            k = np.add.reduceat(k, starts[lo:hi] - starts[lo], axis=1)
        end = np.cumsum(k, axis=1) + hits_before[:, None]
        top = f + end
        out += (k - f * (harmonic[top] - harmonic[top - k])).sum(axis=1)
        hits_before = end[:, -1]
    return out


def weighted_ap(
    truth: Truth,
    coded: Coded,
    clusters: Clusters,
    weights: npt.NDArray[np.integer],
    *,
    classes: npt.NDArray[np.bool_] | None = None,
) -> Floats:
    """Average precision (official rule) of each class of the ground truth in every resample, in [0, 1].

    Args:
        truth, coded: who is heard where, and what a run lists.
        clusters: of the segments.
        weights: how often each cluster is drawn, (R, G).
        classes: which of the H classes heard are wanted, (H,); all by default, the others are NaN.

    Returns:
        (R, H) for the H classes heard, in the order of the class list; NaN where no segment of the class is drawn. Equal
        to scoring the drawn segments one by one, to about 1e-10.

    Raises:
        ValueError: the weights are of another number of clusters.
    """
    if weights.shape[1] != clusters.n:
        raise ValueError(f"weights of {weights.shape[1]} clusters for {clusters.n}")
    wide, code = with_beyond(weights), _codes(truth, coded, clusters)
    n_rel = weights.astype(np.float64) @ heard_by_cluster(truth, clusters).astype(np.float64)
    out = np.full(n_rel.shape, np.nan)
    with one_thread():
        for h, (_, seg, score, relevant) in enumerate(listed_rows(truth, coded)):
            if classes is not None and not classes[h]:
                continue
            sums = class_values(code[seg], score, relevant, wide)
            np.divide(sums, n_rel[:, h], out=out[:, h], where=n_rel[:, h] > 0)
    return out


def heard_by_cluster(truth: Truth, clusters: Clusters) -> npt.NDArray[np.int64]:
    """Segments of each cluster in which each class of the ground truth is heard, (G, H)."""
    heard = np.flatnonzero(truth.n_rel)
    column = np.searchsorted(heard, truth.cls)
    cells = clusters.codes[truth.seg] * len(heard) + column
    return np.bincount(cells, minlength=clusters.n * len(heard)).reshape(clusters.n, len(heard))


def with_beyond(weights: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    """Weights with a last column of ones, for segments that are of no cluster."""
    return np.column_stack([weights, np.ones(len(weights))]).astype(np.float32)


def _codes(truth: Truth, coded: Coded, clusters: Clusters) -> npt.NDArray[np.int64]:
    """Cluster of every segment, G for one of no known recording."""
    media, _ = positions(truth, coded)
    return np.append(clusters.of_media, clusters.n)[media]  # -1 is the last.


def _harmonic(weights: npt.NDArray[np.float32], code: npt.NDArray[np.int64]) -> Floats:
    """H_0 … of as many as any resample lists."""
    most = int((weights @ np.bincount(code, minlength=weights.shape[1]).astype(np.float32)).max(initial=0)) + 1
    if most >= 2**24:
        raise ValueError("more segments than single precision counts exactly")
    parts = np.cumsum(1 / np.arange(1, most + 1, dtype=np.longdouble))
    return np.append(0.0, parts.astype(np.float64))
