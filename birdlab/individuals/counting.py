"""From tracks, names and windows of one combination in one video to pecks, seconds with pecks and frames in view."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def seconds_with(spans: Iterable[tuple[int, int]], n_frames: int, width: int) -> np.ndarray:
    """Which windows of ``width`` frames hold a frame of any span.

    Args:
        spans: first and last frame (inclusive), in any order; what lies outside the video does not count.
        n_frames: length of the video.
        width: frames per window; the last window may be shorter.

    Returns:
        (ceil(n_frames / width),) bool.

    >>> seconds_with([(30, 35), (90, 200)], 100, 25).tolist()
    [False, True, False, True]
    """
    n = -(-n_frames // width)
    edges = np.zeros(n + 1, dtype=np.int64)
    for start, end in spans:
        first, last = max(start, 0), min(end, n_frames - 1)
        if first <= last:
            edges[first // width] += 1
            edges[last // width + 1] -= 1
    return np.cumsum(edges)[:n] > 0


def precision_recall(
    truth: np.ndarray, predicted: np.ndarray, *, zero: float | None = None
) -> tuple[float | None, float | None, float | None]:
    """Precision, recall and F1 of windows.

    Args:
        truth, predicted: (n,) bool.
        zero: value where nothing is there to divide by (the authors' script: 0).

    Returns:
        By default precision is null where nothing is predicted, recall where there is nothing to recall; F1 is 0 where
        only one side has a peck and null where neither has.

    >>> precision_recall(np.array([True, False]), np.array([False, False]))
    (None, 0.0, 0.0)
    """
    hit, said, there = int((truth & predicted).sum()), int(predicted.sum()), int(truth.sum())
    precision = hit / said if said else zero
    recall = hit / there if there else zero
    if not said and not there:
        return precision, recall, zero
    return precision, recall, 2 * hit / (said + there)


def in_view(bird: np.ndarray, frame: np.ndarray, n_birds: int) -> np.ndarray:
    """Frames that every pair of birds shares.

    Args:
        bird: code of the bird of each box, -1 for nobody.
        frame: its frame.
        n_birds: number of codes.

    Returns:
        (n_birds, n_birds) int64; the diagonal has the frames of each bird.
    """
    used = bird >= 0
    bird, frame = bird[used], frame[used]
    if not len(frame):
        return np.zeros((n_birds, n_birds), dtype=np.int64)
    seen = np.zeros((n_birds, int(frame.max() - frame.min()) + 1), dtype=np.float32)
    seen[bird, frame - frame.min()] = 1
    return np.rint(seen @ seen.T).astype(np.int64)  # whole numbers below 2**24: exact in 32 bits
