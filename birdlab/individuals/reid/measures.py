"""Measures of re-identification: how often the true bird is found, beside what guessing would give.

Definitions, in one place.

* The score of a query and a bird is the highest (or mean, as declared) similarity to the bird's clips in the gallery.
  Birds are ranked among the candidates of the query.
* Ties: the value expected over a random order of the tied ones. With ``n_above`` birds before the true one and
  ``n_tied`` others that tie with it, P(rank <= k) = clip((k - n_above) / (n_tied + 1), 0, 1), and the average precision
  by individual is the mean of 1 / rank over the tied places. Queries whose first place is tied are counted.
* A true bird that is not listed or not ranked is found at no rank: 0, and counted. An empty list likewise.
* Top-k: share of queries whose bird is among the first k (the cumulative match characteristic, over k).
  ``map_individual``: mean of 1 / rank, one true bird in a list of birds. ``map_clip``: mean of the average precision over
  the clips of the gallery that belong to candidates (the sum of precisions at the scores of the true bird's clips over
  their number; equal scores share a threshold, as in scikit-learn's ``average_precision_score``). They are different
  numbers, so each is named.
* micro: mean over queries. macro: mean over birds of their own means.
* Chance, with L candidates: Top-k in_list min(k, L) / L; ``map_individual`` in_list H_L / L with H_L = 1 + 1/2 + … + 1/L;
  ``map_clip`` with R of N clips (H_N + (R - 1)(N - H_N) / (N - 1)) / N (Bestgen 2015); AUROC 1/2.
* Which queries count: all; in the protocol open those of birds in the gallery (the others are for AUROC and BAUS).
* Intervals: two, for new birds and for new videos (clusters are birds, or videos): logit scale, CR1, t(G - 1) for
  means in [0, 1] (:func:`birdlab.stats.new_sessions`), leave-one-cluster-out for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.individuals.jackknife import leave_one_out
from birdlab.metrics import metric_row
from birdlab.stats import NEW, Interval, new_sessions

Floats = npt.NDArray[np.float64]
#: Reason of an outcome whose first place several birds share; counted by it.
TIED_FIRST = "several birds tie for the first place"
NO_QUERY, NO_CLIPS = "no query", "the method gives no similarity of clips"
#: Unit of the clusters -> column of the outcomes.
CLUSTERS = {"individual": "individual_id", "video": "video_id"}


@dataclass(frozen=True)
class Number:
    """A measure beside chance, with an interval per kind of cluster; a null value or end has its reason."""

    value: float | None
    chance: float | None
    n: int
    by_individual: Interval
    by_video: Interval
    reason: str | None = None


def expected_top_k(n_above: npt.ArrayLike, n_tied: npt.ArrayLike, k: int) -> Floats:
    """Probability that the true bird is among the first k when tied birds are put in random order, in [0, 1].

    Args:
        n_above: birds before the true one, (n,); NaN where it is not listed or not ranked.
        n_tied: other birds that tie with it, (n,).
        k: at least 1.

    Returns:
        (n,); 0 for a bird that is not ranked.

    >>> expected_top_k([0, 1, np.nan], [1, 0, np.nan], 1).tolist()
    [0.5, 0.0, 0.0]
    """
    above, tied = _ranks(n_above, n_tied)
    return np.clip((k - above) / (tied + 1), 0, 1)


def expected_reciprocal(n_above: npt.ArrayLike, n_tied: npt.ArrayLike) -> Floats:
    """Mean of 1 / rank over the places that the true bird shares: average precision by individual, in [0, 1].

    >>> expected_reciprocal([0, 1, np.nan], [1, 0, np.nan]).tolist()
    [0.75, 0.5, 0.0]
    """
    above, tied = _ranks(n_above, n_tied)
    ranked = np.isfinite(above)
    lo = np.where(ranked, above, 0).astype(np.int64)
    hi = lo + tied.astype(np.int64) + 1
    harmonic = harmonic_numbers(int(hi.max(initial=0)))
    return np.where(ranked, (harmonic[hi] - harmonic[lo]) / (tied + 1), 0.0)


def chance_top_k(n_candidates: npt.ArrayLike, in_list: npt.ArrayLike, k: int) -> Floats:
    """Probability that a random order of the candidates has the true bird among the first k, in [0, 1].

    >>> chance_top_k([3, 3, 0, 4], [True, False, False, True], 5).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    length = np.asarray(n_candidates, dtype=np.float64)
    return np.where(np.asarray(in_list, dtype=bool), np.minimum(k, length) / np.maximum(length, 1), 0.0)


def chance_reciprocal(n_candidates: npt.ArrayLike, in_list: npt.ArrayLike) -> Floats:
    """Mean of 1 / rank over a random order of the candidates, H_L / L, in [0, 1]; 0 where the bird is not listed.

    >>> chance_reciprocal([2, 2], [True, False]).tolist()
    [0.75, 0.0]
    """
    length = np.asarray(n_candidates, dtype=np.int64)
    harmonic = harmonic_numbers(int(length.max(initial=0)))
    return np.where(np.asarray(in_list, dtype=bool), harmonic[length] / np.maximum(length, 1), 0.0)


def chance_average_precision(n_relevant: npt.ArrayLike, n: npt.ArrayLike) -> Floats:
    """Average precision expected of n clips in random order, n_relevant of them of the true bird; 0 without one.

    Bestgen (2015), "Exact expected average precision of the random baseline for system evaluation".

    >>> chance_average_precision([1, 2, 0], [2, 2, 5]).tolist()
    [0.75, 1.0, 0.0]
    """
    relevant, total = np.asarray(n_relevant, dtype=np.float64), np.asarray(n, dtype=np.int64)
    harmonic = harmonic_numbers(int(total.max(initial=0)))[total]
    more = (relevant - 1) * (total - harmonic) / np.maximum(total - 1, 1)
    return np.where(relevant > 0, (harmonic + more) / np.maximum(total, 1), 0.0)


def list_average_precision(true: str, ranked: Sequence[str]) -> float:
    """Average precision of one ranked list of labels: mean over the places of ``true`` of the precision there.

    Args:
        true: the bird.
        ranked: labels, best first; a bird may stand several times (its clips), lists may be of any length.

    Returns:
        In [0, 1]; 0 where ``true`` is not in the list.

    >>> list_average_precision("a", ["b", "a", "c"]), round(list_average_precision("a", ["a", "b", "a"]), 4)
    (0.5, 0.8333)
    """
    places = [rank for rank, label in enumerate(ranked, start=1) if label == true]
    return float(np.mean([hit / rank for hit, rank in enumerate(places, start=1)])) if places else 0.0


def harmonic_numbers(n: int) -> Floats:
    """H_0 … H_n."""
    return np.append(0.0, np.cumsum(1 / np.arange(1, n + 1, dtype=np.float64)))


def _ranks(n_above: npt.ArrayLike, n_tied: npt.ArrayLike) -> tuple[Floats, Floats]:
    above, tied = np.array(n_above, dtype=np.float64), np.array(n_tied, dtype=np.float64)
    lost = np.isnan(above) | np.isnan(tied)
    above[lost], tied[lost] = np.inf, 0
    return above, tied


def counted(outcomes: pl.DataFrame) -> pl.DataFrame:
    """The outcomes that count for Top-k and mAP: queries, in the protocol open those of known birds."""
    return outcomes.filter((pl.col("role") == "query") & ((pl.col("split") != "open") | pl.col("is_known")))


def floats(outcomes: pl.DataFrame, column: str) -> Floats:
    """A column as float64; null is NaN."""
    return outcomes[column].cast(pl.Float64).to_numpy().astype(np.float64)


def scored(outcomes: pl.DataFrame, ks: Sequence[int] = (1, 5)) -> pl.DataFrame:
    """Outcomes with ``top<k>``, ``ap_individual`` and, each with ``chance_`` before it, what guessing would give."""
    above, tied = floats(outcomes, "n_above"), floats(outcomes, "n_tied")
    length, listed = outcomes["n_candidates"].to_numpy(), outcomes["in_list"].to_numpy()
    columns: list[pl.Series] = []
    for k in ks:
        columns.append(pl.Series(f"top{k}", expected_top_k(above, tied, k)))
        columns.append(pl.Series(f"chance_top{k}", chance_top_k(length, listed, k)))
    columns.append(pl.Series("ap_individual", expected_reciprocal(above, tied)))
    columns.append(pl.Series("chance_ap_individual", chance_reciprocal(length, listed)))
    return outcomes.with_columns(columns)


def mean_number(frame: pl.DataFrame, column: str, chance: str | None, *, macro: bool = False) -> Number:
    """Mean of a column of :func:`scored` over queries, or over birds of their means, with both intervals.

    Args:
        frame: rows that count.
        column: values in [0, 1].
        chance: column of what guessing would give.
        macro: mean over birds of their own means.
    """
    if not frame.height:
        empty = Interval(None, None, NEW, 0, NO_QUERY)
        return Number(None, None, 0, empty, empty, NO_QUERY)
    birds = frame.group_by("individual_id").agg(pl.col(column).mean())
    value = float((birds if macro else frame)[column].mean())  # type: ignore[arg-type]
    guess = None
    if chance is not None and chance in frame.columns and frame[chance].null_count() == 0:
        by_bird = frame.group_by("individual_id").agg(pl.col(chance).mean())
        guess = float((by_bird if macro else frame)[chance].mean())  # type: ignore[arg-type]
    if macro:
        individual = new_sessions(birds[column].to_numpy(), np.ones(birds.height), unit="individual")
        return Number(value, guess, frame.height, individual, _macro_by_video(frame, column))
    by = {unit: frame.group_by(name).agg(pl.col(column).sum(), n=pl.len()) for unit, name in CLUSTERS.items()}
    ends = {unit: new_sessions(sums[column].to_numpy(), sums["n"].to_numpy(), unit=unit) for unit, sums in by.items()}
    return Number(value, guess, frame.height, ends["individual"], ends["video"])


def _macro_by_video(frame: pl.DataFrame, column: str) -> Interval:
    """Leave one video out; a bird that is seen in it alone goes with it."""
    video, n = codes_of(frame, "video_id")
    bird, n_birds = codes_of(frame, "individual_id")
    x = frame[column].to_numpy()
    cell = video * n_birds + bird
    total = np.bincount(cell, x, n * n_birds).reshape(n, n_birds)
    count = np.bincount(cell, minlength=n * n_birds).reshape(n, n_birds)

    def macro(used: npt.NDArray[np.int64]) -> float | None:
        at = count[used].sum(axis=0)
        return float((total[used].sum(axis=0)[at > 0] / at[at > 0]).mean()) if at.any() else None

    return clipped(leave_one_out(macro, n), n)


def row_jackknife(frame: pl.DataFrame, unit: str, measure: Callable[[npt.NDArray[np.bool_]], float | None]) -> Interval:
    """Interval of a measure of rows, one bird or video left out at a time.

    Args:
        frame: the rows.
        unit: individual or video.
        measure: value in [0, 1] of the rows marked, (n,) bool; None where undefined.
    """
    codes, n = codes_of(frame, CLUSTERS[unit])

    def of(used: npt.NDArray[np.int64]) -> float | None:
        keep = np.zeros(n, dtype=bool)
        keep[used] = True
        return measure(keep[codes])

    return clipped(leave_one_out(of, n, unit=unit), n)


def clipped(ends: tuple[float | None, float | None, str | None], n: int) -> Interval:
    """Ends inside [0, 1], where the measure lies."""
    lo, hi, reason = ends
    inside = (None, None) if lo is None or hi is None else (max(0.0, lo), min(1.0, hi))
    return Interval(*inside, NEW, n, reason)


def codes_of(frame: pl.DataFrame, column: str) -> tuple[npt.NDArray[np.int64], int]:
    """A column of names as whole numbers from 0, and how many there are."""
    names, codes = np.unique(frame[column].to_numpy().astype(str), return_inverse=True)
    return codes.astype(np.int64), len(names)


def measures_of(outcomes: pl.DataFrame, ks: Sequence[int] = (1, 5)) -> dict[tuple[str, str], Number]:
    """Top-k, mAP by individual and by clip, micro and macro, of one method, protocol and gallery.

    Returns:
        (measure, ``micro`` or ``macro``) -> Number.
    """
    frame = scored(counted(outcomes), ks)
    wanted = {f"top{k}": (f"top{k}", f"chance_top{k}") for k in ks}
    wanted["map_individual"] = ("ap_individual", "chance_ap_individual")
    out = {
        (name, over): mean_number(frame, column, chance, macro=over == "macro")
        for name, (column, chance) in wanted.items()
        for over in ("micro", "macro")
    }
    if frame.height and frame["ap_clip"].null_count() < frame.height:
        filled = frame.with_columns(pl.col("ap_clip").fill_null(0.0))
        for over in ("micro", "macro"):
            out["map_clip", over] = mean_number(filled, "ap_clip", "chance_ap_clip", macro=over == "macro")
    else:
        why = NO_CLIPS if frame.height else NO_QUERY
        none = Interval(None, None, NEW, 0, why)
        out |= {("map_clip", over): Number(None, None, frame.height, none, none, why) for over in ("micro", "macro")}
    return out


def counts_of(outcomes: pl.DataFrame) -> dict[str, int]:
    """Queries that count, and how many are not listed, listed but not ranked, without candidates, tied first."""
    frame = counted(outcomes)
    lost = frame["n_above"].is_null()
    return {
        "n": frame.height,
        "n_individuals": frame["individual_id"].n_unique(),
        "n_videos": frame["video_id"].n_unique(),
        "n_unknown": outcomes.filter((pl.col("role") == "query") & ~pl.col("is_known")).height,
        "n_not_listed": int((~frame["in_list"]).sum()),
        "n_not_ranked": int((frame["in_list"] & lost).sum()),
        "n_empty_list": int((frame["n_candidates"] == 0).sum()),
        "n_no_answer": int((frame["answer"].is_null() & frame["reason"].ne_missing(TIED_FIRST)).sum()),
        "n_tied": int(frame["reason"].eq_missing(TIED_FIRST).sum()),
    }


def cmc(outcomes: pl.DataFrame, k_max: int = 20) -> pl.DataFrame:
    """Cumulative match characteristic: k, top, chance, n of one method, protocol and gallery."""
    frame = counted(outcomes)
    ks = list(range(1, k_max + 1))
    values = scored(frame, ks)
    rows = [(k, values[f"top{k}"].mean(), values[f"chance_top{k}"].mean(), frame.height) for k in ks]
    schema = {"k": pl.Int32, "top": pl.Float64, "chance": pl.Float64, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def summarise(outcomes: pl.DataFrame, ks: Sequence[int] = (1, 5)) -> list[dict[str, Any]]:
    """Rows of ``metrics`` of every method, protocol (``group``) and gallery (``level``) among the outcomes.

    Each measure is there with micro and macro means (``method``), and twice: with the interval for new birds and that
    for new videos. Counts are rows too. In the protocol open AUROC, BAKS, BAUS and the threshold follow.
    """
    from birdlab.individuals.reid.open_set import open_rows

    rows: list[dict[str, Any]] = []
    for (model, split, gallery), part in outcomes.group_by(["model", "split", "gallery"], maintain_order=True):
        at = {"model": str(model), "group": str(split), "level": str(gallery)}
        for (name, over), number in measures_of(part, ks).items():
            rows += number_rows(name, over, number, at)
        counts = counts_of(part)
        rows += [metric_row(metric=k, value=float(v), n=counts["n"], method="count", **at) for k, v in counts.items()]
        share = counts["n_tied"] / counts["n"] if counts["n"] else None
        why = None if counts["n"] else NO_QUERY
        rows.append(metric_row(metric="tied_first", value=share, n=counts["n"], method="share", reason=why, **at))
        rows += open_rows(part, at) if str(split) == "open" else []
    return rows


def number_rows(metric: str, method: str, number: Number, at: dict[str, str]) -> list[dict[str, Any]]:
    """Two rows of ``metrics``: one per kind of interval."""
    rows = []
    for unit, ends in (("individual", number.by_individual), ("video", number.by_video)):
        rows.append(
            metric_row(
                metric=metric,
                value=number.value,
                lo=ends.lo,
                hi=ends.hi,
                n=number.n,
                n_clusters=ends.n_clusters,
                chance=number.chance,
                method=f"{method}; new {unit}s",
                reason=number.reason or ends.reason,
                **at,
            )
        )
    return rows


def not_evaluated(model: str, split: str, gallery: str, reason: str) -> list[dict[str, Any]]:
    """The rows of ``metrics`` of a method that cannot be evaluated on a protocol and gallery: Top-1 without a value."""
    none = Interval(None, None, NEW, 0, reason)
    at = {"model": model, "group": split, "level": gallery}
    return number_rows("top1", "micro", Number(None, None, 0, none, none, reason), at)
