"""Which rings of a frame are on one leg, which is the upper one, and which leg is the left one.

Distances are measured in rings, not in pixels: a bird further from the camera has smaller rings that lie closer
together. What the picture does not tell stays unknown: two legs in view do not say which way the bird faces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

#: Most rings of a frame that are looked at, the surest first; the rest is counted.
MOST_RINGS = 8
#: Sideways distance weighs this much more than the one along the leg: rings of a leg are stacked.
SIDEWAYS = 1.5
#: A bird that looks towards the camera has its left leg on the right of the picture.
FACING = {"toward": -1, "away": 1}
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Legs:
    """Groups of rings in frames; rows are the frames in which a ring was found, in order of clip and frame.

    Args:
        clip: number of the clip of each frame in ``clip_ids``, (F,), ascending.
        clip_ids: names of the clips, in the order of their first row.
        rings: number of the row of ``ring_colours`` of each ring, (F, 2 groups, 2 rings), -1 where there is none;
            a group of two holds the upper ring first, a single ring stands in the first place.
        is_ordered: whether it is clear which of the two is the upper one, (F, 2).
        side: 1 where the first group is the bird's left leg, -1 where it is its right, 0 where it is unknown, (F,).
        n_extra: rings of the frame in neither group, (F,).
    """

    clip: Ints
    clip_ids: tuple[str, ...]
    rings: Ints
    is_ordered: Bools
    side: Ints
    n_extra: Ints


def find_legs(rings: pl.DataFrame, *, pair: float = 2.0, order: float = 0.5) -> Legs:
    """Group the rings of every frame into legs.

    The two nearest rings of a frame are a pair, then the two nearest of the rest, as long as their distance is below
    ``pair``; what is left over is a leg with one ring. Of more than two groups the two with the highest sum of
    scores are kept, pairs before single rings.

    Args:
        rings: table ``ring_colours``; a column ``facing`` (``toward`` or ``away`` from the camera; anything else is
            unknown) tells left from right where two legs stand at least half a ring apart.
        pair: largest distance of two rings of one leg, in rings: √((1.5 dx)² + dy²) / median √(width height).
        order: smallest vertical distance, in heights of a ring, at which one is clearly the upper ring.

    Returns:
        Legs; frames without a ring are not among them. No rings: no frames.

    >>> frame = pl.DataFrame({"clip_id": ["c"] * 3, "frame_index": [0] * 3, "ring": [0, 1, 2], "x": [10.0, 10, 40],
    ...     "y": [30.0, 20, 25], "width": [10.0] * 3, "height": [8.0] * 3, "score": [1.0] * 3})
    >>> find_legs(frame).rings.tolist()
    [[[1, 0], [2, -1]]]
    """
    frames = _frames(rings)
    if not frames.height:
        empty = np.zeros(0, dtype=np.int64)
        return Legs(empty, (), np.zeros((0, 2, 2), dtype=np.int64), np.zeros((0, 2), dtype=bool), empty, empty)
    at, n = _padded(frames)
    there = at >= 0
    x, y, w, h, score = (_values(rings, name, at) for name in ("x", "y", "width", "height", "score"))
    size = np.nanmedian(np.where(there, np.sqrt(np.maximum(w * h, 1e-12)), np.nan), axis=1)
    groups, strength = _groups(x, y, np.where(there, score, 0.0), there, size * pair)
    kept = np.argsort(-strength, axis=1, kind="stable")[:, :2]
    chosen = np.take_along_axis(groups, kept[:, :, None], axis=1)
    if chosen.shape[1] < 2:
        chosen = np.concatenate([chosen, np.full_like(chosen, -1)], axis=1)
    chosen, is_ordered = _upper_first(chosen, y, h, order)
    side = _sides(chosen, x, size, frames)
    rows = np.where(chosen >= 0, np.take_along_axis(at[:, None], np.maximum(chosen, 0), axis=2), -1)
    names = frames["clip_id"].unique(maintain_order=True)
    number = dict(zip(names.to_list(), range(len(names)), strict=True))
    clip = frames["clip_id"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
    return Legs(clip, tuple(names), rows, is_ordered, side, n - (chosen >= 0).sum(axis=(1, 2)))


def _frames(rings: pl.DataFrame) -> pl.DataFrame:
    """One row per frame with the numbers of its rings, the surest first, clips in the order they first appear."""
    first = pl.col("row").min().over("clip_id").alias("clip_row")
    facing = pl.col("facing") if "facing" in rings.columns else pl.lit(None, dtype=pl.String).alias("facing")
    return (
        rings.with_row_index("row")
        .select("clip_id", "frame_index", "score", pl.col("row").cast(pl.Int64), facing)
        .with_columns(first)
        .sort("clip_row", "frame_index", "score", "row", descending=[False, False, True, False])
        .group_by("clip_id", "frame_index", maintain_order=True)
        .agg(pl.col("row"), pl.col("facing").first())
    )


def _padded(frames: pl.DataFrame) -> tuple[Ints, Ints]:
    """Rows of the rings of each frame, -1 for none, at most ``MOST_RINGS``, and how many there are in all."""
    n = frames["row"].list.len().to_numpy().astype(np.int64)
    most = min(int(n.max()), MOST_RINGS)
    flat = frames["row"].explode().to_numpy()
    place = np.arange(len(flat)) - np.repeat(np.cumsum(n) - n, n)
    at = np.full((len(n), most), -1, dtype=np.int64)
    seen = place < most
    at[np.repeat(np.arange(len(n)), n)[seen], place[seen]] = flat[seen]
    return at, n


def _values(rings: pl.DataFrame, name: str, at: Ints) -> npt.NDArray[np.float64]:
    values = rings[name].cast(pl.Float64).to_numpy()
    return np.where(at >= 0, values[np.maximum(at, 0)], np.nan)


def _groups(
    x: np.ndarray, y: np.ndarray, score: np.ndarray, there: Bools, limit: np.ndarray
) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Pairs, nearest first, then single rings: places in the frame (F, G, 2), and how strong each group is."""
    n_frames, most = x.shape
    one, two = np.triu_indices(most, 1)
    apart = np.hypot(SIDEWAYS * (x[:, one] - x[:, two]), y[:, one] - y[:, two])
    apart = np.where(np.isnan(apart), np.inf, apart)
    free, every = there.copy(), np.arange(n_frames)
    n_pairs = most // 2
    groups = np.full((n_frames, n_pairs + most, 2), -1, dtype=np.int64)
    strength = np.full((n_frames, n_pairs + most), -1.0)
    for k in range(n_pairs):
        usable = np.where(free[:, one] & free[:, two], apart, np.inf)
        best = usable.argmin(axis=1)
        near = usable[every, best] < limit
        rows, a, b = every[near], one[best[near]], two[best[near]]
        groups[rows, k, 0], groups[rows, k, 1] = a, b
        strength[rows, k] = 2 * MOST_RINGS + score[rows, a] + score[rows, b]
        free[rows, a] = free[rows, b] = False
    rows, alone = np.nonzero(free)
    groups[rows, n_pairs + alone, 0] = alone
    strength[rows, n_pairs + alone] = score[rows, alone]
    return groups, strength


def _upper_first(groups: Ints, y: np.ndarray, h: np.ndarray, order: float) -> tuple[Ints, Bools]:
    """The same groups with the upper ring first, and where that is clear."""
    a, b = (np.maximum(groups[..., i], 0) for i in (0, 1))
    paired = groups[..., 1] >= 0
    gap = np.take_along_axis(y, b, axis=1) - np.take_along_axis(y, a, axis=1)
    height = (np.take_along_axis(h, a, axis=1) + np.take_along_axis(h, b, axis=1)) / 2
    with np.errstate(invalid="ignore"):
        swap = paired & (gap < 0)
        clear = paired & (np.abs(gap) >= order * height) & (height > 0)
    return np.where(swap[..., None], groups[..., ::-1], groups), clear


def _sides(groups: Ints, x: np.ndarray, size: np.ndarray, frames: pl.DataFrame) -> Ints:
    """Whether the first group is the bird's left leg (1), its right one (-1), or it is unknown (0)."""
    looks = frames["facing"].replace_strict(FACING, default=0, return_dtype=pl.Int64).fill_null(0).to_numpy()
    there = groups >= 0
    at = np.take_along_axis(x[:, None], np.maximum(groups, 0), axis=2)
    n = there.sum(axis=2)
    middle = np.where(there, at, 0.0).sum(axis=2) / np.maximum(n, 1)
    gap = middle[:, 1] - middle[:, 0]
    apart = (n > 0).all(axis=1) & (np.abs(gap) >= 0.5 * size)
    return np.where(apart, looks * np.sign(gap), 0).astype(np.int64)
