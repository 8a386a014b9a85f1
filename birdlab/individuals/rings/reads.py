"""What was read on the legs of a bird, for showing; and how often the colours of single rings are right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import schemas
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.geometry import Legs, find_legs
from birdlab.individuals.rings.published import PAIR_PX, colour_sums
from birdlab.stats import new_sessions

Floats = npt.NDArray[np.float64]
#: Pairs of colours that are looked at for two legs.
LEADING = 12
_READ = {"clip_id": pl.String, "pair": pl.Int32, "upper": pl.String, "lower": pl.String, "probability": pl.Float64}
#: Added to the probability of every pair: no single frame rules a pair out.
EPS = 1e-6


def ring_reads(
    ring_colours: pl.DataFrame,
    palette: Palette,
    *,
    matcher: str = "birdlab",
    frames: pl.DataFrame | None = None,
    pair_px: float = PAIR_PX,
) -> pl.DataFrame:
    """The likeliest colours of the two legs of every clip, pooled over its frames, without any list of birds.

    ``published``: colours by their summed evidence, all that this rule keeps; the two strongest are pair 0, the next
    two pair 1, in the order of the palette. It has no probability, and upper and lower mean nothing.

    ``birdlab``: legs as :func:`birdlab.individuals.rings.geometry.find_legs` groups them. The two pairs are those that
    explain the pairs of the clip best together (each pair seen is one of them, two pairs of one frame are both); where
    there is but one, a leg with a single ring beside it is the other leg, and has no ``lower``. ``probability`` is the
    mean, over the frames in which it was read, of the product of its rings' probabilities. Which leg is the left one is
    not told.

    Args:
        ring_colours: table ``ring_colours``.
        palette: colours.
        matcher: published or birdlab.
        frames: clip_id, frame_index of all frames (published needs to know which is the last); default: frames with
        rings. pair_px: for published.

    Returns:
        Table ``ring_reads``, at most two rows per clip; none for a clip without a ring that is used.
    """
    if matcher == "published":
        given = ring_colours.select("clip_id", "frame_index").unique(maintain_order=True) if frames is None else frames
        rows = list(_published_reads(colour_sums(ring_colours, given, pair_px=pair_px), palette))
    else:
        legs = find_legs(ring_colours)
        chances = ring_colours["probabilities"].explode().to_numpy().reshape(-1, len(palette))
        rows = [row for clip, seen in _seen(legs, chances) for row in _pooled_reads(clip, seen, palette)]
    table = schemas.TABLES["ring_reads"]
    if not rows:
        return table.empty()
    frame = pl.DataFrame(rows, schema={**_READ, "n_frames": pl.Int32}, orient="row")
    return table.validate(frame.with_columns(pl.lit(matcher).alias("matcher"), pl.lit("unknown").alias("leg")))


def _published_reads(sums: pl.DataFrame, palette: Palette) -> Iterator[tuple]:
    for row in sums.filter(pl.col("sums").is_not_null()).iter_rows(named=True):
        strength = np.array(row["sums"])
        leading = [int(i) for i in np.argsort(-strength, kind="stable")[:4] if strength[i] > 0]
        for pair in range(2):
            colours = sorted(leading[2 * pair : 2 * pair + 2])
            letters = [palette.letters[i] for i in colours] + [None, None]
            if colours:
                yield row["clip_id"], pair, letters[0], letters[1], None, row["n_with_rings"]


@dataclass(frozen=True)
class _Seen:
    """Legs seen in one clip: of those with two rings the frame and the probability of every (upper, lower), (n, K·K);
    of those with one ring the frame and the probability of its colour, (m, K)."""

    frame: npt.NDArray[np.int64]
    chances: Floats
    lone_frame: npt.NDArray[np.int64]
    lone: Floats


def _seen(legs: Legs, chances: Floats) -> Iterator[tuple[str, _Seen]]:
    k = chances.shape[1]
    bounds = np.searchsorted(legs.clip, np.arange(len(legs.clip_ids) + 1))
    for clip, start, stop in zip(legs.clip_ids, bounds[:-1], bounds[1:], strict=True):
        rings = legs.rings[start:stop]
        paired, lone = (rings >= 0).all(axis=2), (rings >= 0).sum(axis=2) == 1
        two = rings[paired]
        pairs = (chances[two[:, 0], :, None] * chances[two[:, 1], None, :]).reshape(-1, k * k)
        yield clip, _Seen(np.nonzero(paired)[0], pairs, np.nonzero(lone)[0], chances[rings[lone][:, 0]])


def _pooled_reads(clip: str, seen: _Seen, palette: Palette) -> list[tuple]:
    """Rows of one clip: its pairs, the better read first, then a leg that shows one ring only."""
    k = len(palette)
    reads: list[tuple[float, str, str | None, int]] = []
    if len(seen.frame):
        leading = np.argsort(-seen.chances.sum(axis=0), kind="stable")[:LEADING]
        first, second = _two_pairs(seen, leading)
        mine = seen.chances[:, first] >= seen.chances[:, second]
        if first == second:
            # Both legs alike, or one leg only: in a frame with two pairs the other one is the second leg's.
            mine = np.concatenate([[True], seen.frame[1:] != seen.frame[:-1]])
        for pair, rows in ((first, mine), (second, ~mine)):
            if rows.any():
                upper, lower = (palette.letters[i] for i in divmod(int(pair), k))
                reads.append(
                    (float(seen.chances[rows, pair].mean()), upper, lower, len(set(seen.frame[rows].tolist())))
                )
        reads.sort(key=lambda read: -read[0])
    if len(reads) < 2:
        # Beside a pair, a leg with one ring is the other leg.
        used = np.isin(seen.lone_frame, seen.frame) if reads else np.ones(len(seen.lone_frame), bool)
        if used.any():
            mean = seen.lone[used].mean(axis=0)
            colour = int(mean.argmax())
            reads.append((float(mean[colour]), palette.letters[colour], None, len(set(seen.lone_frame[used].tolist()))))
    return [(clip, i, upper, lower, probability, n) for i, (probability, upper, lower, n) in enumerate(reads)]


def _two_pairs(seen: _Seen, leading: npt.NDArray[np.int64]) -> tuple[int, int]:
    """The two pairs of colours (of ``leading``, possibly one twice) under which what was seen is likeliest."""
    p = seen.chances[:, leading] + EPS
    starts = np.flatnonzero(np.concatenate([[True], seen.frame[1:] != seen.frame[:-1]]))
    size = np.diff(np.append(starts, len(seen.frame)))
    single, double = p[starts[size == 1]], starts[size >= 2]
    total = np.log((single[:, :, None] + single[:, None, :]) / 2).sum(axis=0)
    a, b = p[double], p[double + 1]
    total = total + np.log((a[:, :, None] * b[:, None, :] + a[:, None, :] * b[:, :, None]) / 2).sum(axis=0)
    u, v = np.unravel_index(int(np.argmax(np.triu(total) + np.tril(np.full_like(total, -np.inf), -1))), total.shape)
    return int(leading[u]), int(leading[v])


def colour_scores(ring_colours: pl.DataFrame, palette: Palette, *, unit: str = "clip_id") -> pl.DataFrame:
    """How often the colour of a ring is right, where it is given: the likeliest one, and among the three likeliest.

    Args:
        ring_colours: table ``ring_colours``; rings without a truth are not scored.
        palette: colours.
        unit: column of the clusters of the intervals (add ``video_id`` to cluster by video).

    Returns:
        One row for ``all``, one per colour that occurs: colour, n, n_clusters, top1, lo, hi, top3, top3_lo, top3_hi
        (for new clusters), chance1 and chance3 (1/K, 3/K of the palette's K colours), common1 (the share of the most
        common colour: what always saying it would reach), reason. Ties count by expectation. No ring with a truth: one
        row ``all`` with n = 0 and a reason.
    """
    known = ring_colours.filter(pl.col("truth").is_not_null())
    k = len(palette)
    if known.is_empty():
        empty = {"colour": "all", "n": 0, "n_clusters": 0, "reason": "no ring whose colour is given"}
        return pl.DataFrame([empty], schema=_SCORES)
    p = known["probabilities"].explode().to_numpy().reshape(-1, k)
    true = np.array([palette.index(letter) for letter in known["truth"]])
    own = p[np.arange(len(p)), true][:, None]
    above, tied = (p > own).sum(axis=1), (p == own).sum(axis=1)
    right = {top: np.clip((top - above) / tied, 0, 1) for top in (1, 3)}
    _, cluster = np.unique(known[unit].to_numpy(), return_inverse=True)
    rows = []
    for colour in ["all", *(letter for i, letter in enumerate(palette.letters) if (true == i).any())]:
        rows_used = np.ones(len(p), bool) if colour == "all" else true == palette.index(colour)
        rows.append({"colour": colour, **_share(right, rows_used, cluster), "chance1": 1 / k, "chance3": min(3 / k, 1)})
    rows[0]["common1"] = float(np.bincount(true).max() / len(true))
    return pl.DataFrame(rows, schema=_SCORES)


_SCORES = {
    "colour": pl.String, "n": pl.Int64, "n_clusters": pl.Int64,
    "top1": pl.Float64, "lo": pl.Float64, "hi": pl.Float64,
    "top3": pl.Float64, "top3_lo": pl.Float64, "top3_hi": pl.Float64,
    "chance1": pl.Float64, "chance3": pl.Float64, "common1": pl.Float64, "reason": pl.String,
}  # fmt: skip


def _share(right: dict[int, Floats], used: npt.NDArray[np.bool_], cluster: npt.NDArray[np.int64]) -> dict:
    n = np.bincount(cluster[used])
    kept = n > 0
    intervals = {
        top: new_sessions(np.bincount(cluster[used], weights=share[used])[kept], n[kept], unit="clip")
        for top, share in right.items()
    }
    one, three = intervals[1], intervals[3]
    return {
        "n": int(used.sum()), "n_clusters": int(kept.sum()),
        "top1": float(right[1][used].mean()), "lo": one.lo, "hi": one.hi,
        "top3": float(right[3][used].mean()), "top3_lo": three.lo, "top3_hi": three.hi,
        "reason": one.reason,
    }  # fmt: skip


def colour_confusion(ring_colours: pl.DataFrame, palette: Palette) -> pl.DataFrame:
    """Which colour is read as which: truth, read, n, share of the rings of that truth.

    Returns:
        One row for every colour that occurs and every colour of the palette, in its order, also where n is 0. The
        likeliest colour counts, the first of the palette where several are equal.
    """
    known = ring_colours.filter(pl.col("truth").is_not_null())
    read = known["probabilities"].list.arg_max()
    true = [palette.index(letter) for letter in known["truth"]]
    k = len(palette)
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (true, read.to_numpy().astype(np.int64)), 1)
    rows = [
        (palette.letters[i], palette.letters[j], int(counts[i, j]), float(counts[i, j] / counts[i].sum()))
        for i in range(k)
        if counts[i].sum()
        for j in range(k)
    ]
    schema = {"truth": pl.String, "read": pl.String, "n": pl.Int64, "share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
