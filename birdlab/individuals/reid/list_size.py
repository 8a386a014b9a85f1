"""How much does a short list help? Top-1 against the number of candidates, exact from the ranks in the whole gallery."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.individuals.reid.measures import counted, floats, mean_number, scored

SCHEMA = {
    "model": pl.String,
    "split": pl.String,
    "list_size": pl.Int32,
    "top1": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "lo_video": pl.Float64,
    "hi_video": pl.Float64,
    "chance": pl.Float64,
    "n": pl.Int64,
    "n_not_ranked": pl.Int64,
    "reason": pl.String,
}


def expected_top1(
    n_above: npt.ArrayLike, n_tied: npt.ArrayLike, n_birds: int, sizes: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Top-1 expected when the candidates are the true bird and a random draw of the others, in [0, 1].

    With a birds before the true one and t that tie, put in random order, a list of L keeps it first when none of the a + i
    better ones is drawn: mean over i = 0 … t of C(N - 1 - a - i, L - 1) / C(N - 1, L - 1) (hypergeometric). No sampling.

    Args:
        n_above, n_tied: of each query, (q,); NaN where the bird is not ranked.
        n_birds: N, birds that are ranked.
        sizes: L, each in 1 … N.

    Returns:
        (q, len(sizes)); 0 for a bird that is not ranked.

    >>> expected_top1([1, 0], [0, 1], 3, [1, 2, 3]).tolist()
    [[1.0, 0.5, 0.0], [1.0, 0.75, 0.5]]
    """
    above, tied = np.asarray(n_above, dtype=np.float64), np.asarray(n_tied, dtype=np.float64)
    ranked = ~(np.isnan(above) | np.isnan(tied))
    a, t = np.where(ranked, above, 0).astype(np.int64), np.where(ranked, tied, 0).astype(np.int64)
    table = none_drawn(n_birds, sizes)
    sums = np.vstack([np.zeros(len(sizes)), np.cumsum(table, axis=0)])
    value = (sums[a + t + 1] - sums[a]) / (t + 1)[:, None]
    # One better bird is enough in a whole list: cumulated sums leave rounding there.
    alone = table[a]
    return np.where(ranked[:, None], np.where((t == 0)[:, None], alone, np.clip(value, 0, 1)), 0.0)


def none_drawn(n_birds: int, sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """P(none of m given birds among L - 1 drawn of N - 1), (N, len(sizes)): rows m = 0 … N - 1."""
    out = np.zeros((max(n_birds, 1), len(sizes)))
    drawn = np.asarray(sizes, dtype=np.int64) - 1
    if len(drawn) and (drawn.min() < 0 or drawn.max() > n_birds - 1):
        raise ValueError(f"list sizes must be in 1 … {n_birds}")
    out[0] = 1.0
    for m in range(1, n_birds):
        # The m-th bird is missed too: of the N - m not yet looked at, those not drawn.
        out[m] = out[m - 1] * np.maximum(n_birds - m - drawn, 0) / (n_birds - m)
    return out


def default_sizes(n_birds: int) -> list[int]:
    """List sizes of the curve: every one to 20, then about 20 more up to all birds."""
    spread = np.unique(np.round(np.geomspace(20, max(n_birds, 20), 20)).astype(int))
    return [size for size in [*range(1, 21), *spread.tolist()[1:]] if size <= n_birds] or [1]


def list_size_curve(outcomes: pl.DataFrame, sizes: Sequence[int] | None = None) -> pl.DataFrame:
    """Top-1 by list size for every method and protocol, from its outcomes in the gallery ``all``.

    Args:
        outcomes: table ``reid_outcomes``; rows of other galleries are passed over.
        sizes: list sizes (default: :func:`default_sizes`); those longer than the gallery are left out.

    Returns:
        model, split, list_size, top1 with the intervals for new birds (lo, hi) and new videos (lo_video, hi_video),
        chance (1 / L, less the share of birds that are not in the gallery), n, n_not_ranked (wrong at every size:
        birds not in the gallery and, in rankings cut short, those behind the cut), reason (why an end is null).
    """
    rows = []
    whole = outcomes.filter(pl.col("gallery").cast(pl.String) == "all")
    for (model, split), part in whole.group_by(["model", "split"], maintain_order=True):
        frame = counted(part)
        if not frame.height:
            continue
        n_birds = int(frame["n_candidates"].max())  # type: ignore[arg-type]
        wanted = [s for s in (sizes or default_sizes(n_birds)) if 1 <= s <= n_birds]
        values, length = _values(frame, wanted)
        listed = frame["in_list"].to_numpy()
        lost = int(frame["n_above"].is_null().sum())
        for j, size in enumerate(wanted):
            at = frame.with_columns(
                pl.Series("top1", values[:, j]), pl.Series("chance", listed / np.clip(length, 1, size))
            )
            number = mean_number(at, "top1", "chance")
            ends = (number.by_individual, number.by_video)
            rows.append(
                (str(model), str(split), size, number.value)
                + tuple(end for interval in ends for end in (interval.lo, interval.hi))
                + (number.chance, number.n, lost, ends[0].reason or ends[1].reason)
            )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _values(frame: pl.DataFrame, sizes: Sequence[int]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Expected Top-1 (q, len(sizes)) and the length of each query's own list, which a drawn one cannot exceed."""
    above, tied = floats(frame, "n_above"), floats(frame, "n_tied")
    length = frame["n_candidates"].to_numpy().astype(np.int64)
    values = np.zeros((frame.height, len(sizes)))
    for n_birds in np.unique(length[length > 0]).tolist():
        mine = length == n_birds
        values[mine] = expected_top1(above[mine], tied[mine], n_birds, np.minimum(sizes, n_birds).tolist())
    return values, length


def observed_points(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Top-1 with the lists as they are, to stand beside the curve: one row per method, protocol and gallery.

    Returns:
        model, split, gallery, list_size (mean over queries), list_min, list_max, and the columns of the curve.
    """
    rows = []
    for (model, split, gallery), part in outcomes.group_by(["model", "split", "gallery"], maintain_order=True):
        frame = scored(counted(part), (1,))
        if not frame.height:
            continue
        number = mean_number(frame, "top1", "chance_top1")
        size = frame["n_candidates"]
        ends = (number.by_individual, number.by_video)
        rows.append(
            (str(model), str(split), str(gallery), size.mean(), size.min(), size.max(), number.value)
            + tuple(end for interval in ends for end in (interval.lo, interval.hi))
            + (number.chance, number.n, int(frame["n_above"].is_null().sum()), ends[0].reason or ends[1].reason)
        )
    extra = {"gallery": pl.String, "list_size": pl.Float64, "list_min": pl.Int32, "list_max": pl.Int32}
    rest = {k: v for k, v in SCHEMA.items() if k not in ("model", "split", "list_size")}
    schema = {"model": pl.String, "split": pl.String, **extra, **rest}
    return pl.DataFrame(rows, schema=schema, orient="row")
