"""Do two observers code the same? Cohen's kappa on windows, and correlations of the rates that follow from the codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.individuals.icc import icc
from birdlab.individuals.jackknife import leave_one_out
from birdlab.readers.boris import Boris
from birdlab.readers.files import Notice, notice_table

AGREEMENT = {
    "measure": pl.String,  # kappa, icc_2_1, icc_3_1
    "level": pl.String,  # all, behaviour, individual, individual_behaviour
    "individual_id": pl.String,
    "behaviour": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,  # 95 %: of kappa over videos, of an ICC over (video, bird)
    "hi": pl.Float64,
    "n": pl.Int64,  # windows; of an ICC rates
    "n_videos": pl.Int64,
    "n_a": pl.Int64,  # windows (of an ICC events) of the first observer
    "n_b": pl.Int64,
    "n_both": pl.Int64,  # windows of both; null for an ICC
    "observed": pl.Float64,  # share of windows coded alike
    "expected": pl.Float64,  # the share that chance would give
    "reason": pl.String,
}
NOBODY = "no focal subject"
CONSTANT = "both observers code all windows alike and the same: chance agreement is 1"
NO_CELL = "neither observer codes anything"
BINS = "a binary table says where events are and not how many: no rate"
_LEVELS = {
    "all": (),
    "behaviour": ("behaviour",),
    "individual": ("individual",),
    "individual_behaviour": ("individual", "behaviour"),
}
_CRUMB = 1e-9


def kappa(a: np.ndarray, b: np.ndarray) -> tuple[float | None, float, float]:
    """Cohen's kappa of two codings of the same windows, (observed - expected) / (1 - expected); at most 1, 0 is chance.

    Args:
        a, b: (n,), booleans or any labels, n > 0.

    Returns:
        kappa (``None`` where both are the same constant: chance agreement is 1), observed and expected agreement.

    Cohen (1960), Eq. 1.

    >>> kappa(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    (0.5, 0.75, 0.5)
    """
    n = len(a)
    labels, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    of_a, of_b = (np.bincount(c, minlength=len(labels)) for c in (codes[:n], codes[n:]))
    # Whole numbers: a share of one must be one.
    alike, chance = int((codes[:n] == codes[n:]).sum()), int(of_a @ of_b)
    value = None if chance == n * n else (n * alike - chance) / (n * n - chance)
    return value, alike / n, chance / n**2


def both_coded(a: Boris, b: Boris) -> tuple[dict[str, float], pl.DataFrame]:
    """Videos that both exports hold, with their length in s, and notices of those that only one holds.

    Raises:
        DataError: no common video; lengths of one video that differ by more than a second, or that nobody tells.
    """
    parts = [dict(t.media.group_by("video_id").agg(pl.col("length_s").max()).iter_rows()) for t in (a, b)]
    common = sorted(set(parts[0]) & set(parts[1]))
    if not common:
        found = f"{', '.join(sorted(parts[0])[:4])} and {', '.join(sorted(parts[1])[:4])}"
        raise DataError(
            Problem("no_common_video", found, "a video that both coded", "give the video's name", key="video")
        )
    problems, lengths = [], {}
    for video in common:
        said = [part[video] for part in parts if part[video] is not None]
        if not said:
            problems.append(Problem("no_length", "no length", "its length in s", "give it", record=video))
        elif max(said) - min(said) > 1:
            found = f"{said[0]:g} s and {said[1]:g} s"
            problems.append(Problem("two_lengths", found, "one length", "are they the same video?", record=video))
        else:
            lengths[video] = max(said)
    if problems:
        raise DataError(problems)
    lone = sorted(set(parts[0]) ^ set(parts[1]))
    text = f"videos that only one of the two coded: left out: {', '.join(lone[:5])}"
    return lengths, notice_table([Notice("one_observer", text, len(lone))] if lone else [])


def one_sided(events_a: pl.DataFrame, events_b: pl.DataFrame, lengths: Mapping[str, float]) -> list[Notice]:
    """Birds and behaviours of the common videos that only one of the two coded; they count against agreement.

    Args:
        events_a, events_b, lengths: as for :func:`agreement`.

    Returns:
        A notice of birds and one of behaviours, each with their names; none where both coded the same ones.
    """
    sides = [events.filter(pl.col("video_id").is_in(list(lengths))) for events in (events_a, events_b)]
    out = []
    for code, column, what in (("one_sided_birds", "individual_id", "birds"), ("one_sided", "behaviour", "behaviours")):
        first, second = (set(side[column].fill_null(NOBODY)) for side in sides)
        if lone := sorted(first ^ second):
            parts = [("the first", sorted(first - second)), ("the second", sorted(second - first))]
            told = "; ".join(f"{who}: {', '.join(names[:5])}" for who, names in parts if names)
            text = f"{what} that only one of the two coded, or the other named otherwise: no agreement on them ({told})"
            out.append(Notice(code, text, len(lone)))
    return out


def agreement(
    events_a: pl.DataFrame, events_b: pl.DataFrame, lengths: Mapping[str, float], *, window_s: float = 1.0
) -> pl.DataFrame:
    """Agreement of two observers who coded the same videos.

    A cell is a video, a bird that at least one of the two codes there, and a behaviour that at least one of the two codes
    anywhere; its windows are [0, w), [w, 2w), … to the end of the video. A window is coded if an event touches it; an
    event that ends where a window begins does not. How many events are in a window does not count.

    Args:
        events_a, events_b: events as read by :func:`birdlab.readers.boris.read_boris`; those of other videos do not count.
        lengths: the videos that both coded, with their lengths, s.
        window_s: length of a window, s.

    Returns:
        Columns of ``AGREEMENT``. Kappa over all cells, by behaviour, by bird and by both, with an interval that leaves out
        one video at a time. ICC(2,1) and ICC(3,1) of the events per minute of (video, bird), by behaviour. What is
        undefined is null with its reason.

    Raises:
        ParameterError: a window or a length that is not above 0.
    """
    if not (math.isfinite(window_s) and window_s > 0) or any(not 0 < length < math.inf for length in lengths.values()):
        raise ParameterError(Problem("bad_value", "a window or a length of 0 or less", "seconds above 0", key="window"))
    a, b = (_used(events, lengths) for events in (events_a, events_b))
    cells = _cells(a, b)
    windows = [_windows(t, cells, lengths, window_s) for t in (a, b)]
    rows = [row for level in _LEVELS for row in _kappas(level, cells, windows)]
    rows += [row for behaviour in _behaviours(a, b) for row in _iccs(behaviour, a, b, cells, lengths)]
    return pl.DataFrame(rows, schema=AGREEMENT, orient="row")


def _used(events: pl.DataFrame, lengths: Mapping[str, float]) -> pl.DataFrame:
    """Events of the videos of both; a bird without a name is one bird, as joins know no null."""
    return events.filter(pl.col("video_id").is_in(list(lengths))).with_columns(
        pl.col("individual_id").fill_null("").alias("individual")
    )


def _behaviours(a: pl.DataFrame, b: pl.DataFrame) -> list[str]:
    return sorted(set(a["behaviour"]) | set(b["behaviour"]))


def _cells(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    birds = pl.concat([t.select("video_id", "individual") for t in (a, b)]).unique()
    behaviours = pl.DataFrame({"behaviour": _behaviours(a, b)}, schema={"behaviour": pl.String})
    return birds.join(behaviours, how="cross").sort("individual", "behaviour", "video_id")


def _windows(
    events: pl.DataFrame, cells: pl.DataFrame, lengths: Mapping[str, float], window_s: float
) -> list[np.ndarray]:
    """For each cell, which windows are coded."""
    names = ("video_id", "individual", "behaviour")
    spans: dict[tuple[str, ...], list[tuple[float, float, str]]] = {}
    for *key, start, end, kind in events.select(*names, "start_s", "end_s", "kind").iter_rows():
        spans.setdefault(tuple(key), []).append((start, end, kind))
    out = []
    for key in cells.select(names).iter_rows():
        n = max(1, math.ceil(lengths[key[0]] / window_s - _CRUMB))
        coded = np.zeros(n, dtype=bool)
        for start, end, kind in spans.get(key, ()):
            first = min(n - 1, math.floor(start / window_s + _CRUMB))
            last = first if kind == "point" else math.ceil(end / window_s - _CRUMB) - 1
            coded[first : max(first, last) + 1] = True
        out.append(coded)
    return out


def _kappas(level: str, cells: pl.DataFrame, windows: list[list[np.ndarray]]) -> list[dict[str, Any]]:
    by = list(_LEVELS[level])
    if cells.is_empty():
        return [_row("kappa", level, reason=NO_CELL, n=0, n_videos=0)] if level == "all" else []
    groups = (
        cells.with_row_index("cell").group_by(by, maintain_order=True) if by else [((), cells.with_row_index("cell"))]
    )
    rows = []
    for key, group in groups:
        numbers = group["cell"].to_list()
        videos = group["video_id"].to_numpy()
        first, second = ([part[i] for i in numbers] for part in windows)
        a, b = np.concatenate(first), np.concatenate(second)
        value, observed, expected = kappa(a, b)
        names = np.unique(videos)
        lo = hi = None
        reason = CONSTANT if value is None else None
        if value is not None:
            lo, hi, reason = leave_one_out(_without(first, second, videos, names), len(names))
        counts = {
            "n": len(a),
            "n_videos": len(names),
            "n_a": int(a.sum()),
            "n_b": int(b.sum()),
            "n_both": int((a & b).sum()),
        }
        said = dict(zip(by, key, strict=True))
        hi = None if hi is None else min(1.0, hi)
        values = {"value": value, "lo": lo, "hi": hi, "observed": observed, "expected": expected, "reason": reason}
        rows.append(_row("kappa", level, **said, **counts, **values))
    return rows


def _without(first: list[np.ndarray], second: list[np.ndarray], videos: np.ndarray, names: np.ndarray):
    def measure(used: np.ndarray) -> float | None:
        keep = np.flatnonzero(np.isin(videos, names[used]))
        return kappa(np.concatenate([first[i] for i in keep]), np.concatenate([second[i] for i in keep]))[0]

    return measure


def _iccs(
    behaviour: str, a: pl.DataFrame, b: pl.DataFrame, cells: pl.DataFrame, lengths: Mapping[str, float]
) -> list[dict[str, Any]]:
    """ICC of events per minute of one behaviour, over videos and birds."""
    mine = cells.filter(pl.col("behaviour") == behaviour).select("video_id", "individual")
    counts, bins = [], False
    for events in (a, b):
        used = events.filter(pl.col("behaviour") == behaviour)
        bins |= bool((used["kind"] == "bins").any())
        n = used.group_by("video_id", "individual").agg(pl.len())
        counts.append(
            mine.join(n, on=["video_id", "individual"], how="left", maintain_order="left")["len"].fill_null(0)
        )
    about = {"behaviour": behaviour, "n": mine.height, "n_videos": mine["video_id"].n_unique()}
    about |= {"n_a": int(counts[0].sum()), "n_b": int(counts[1].sum())}
    if bins:
        about |= {"n_a": None, "n_b": None}
        return [_row(m, "behaviour", **about, reason=BINS) for m in ("icc_2_1", "icc_3_1")]
    minutes = np.array([lengths[v] / 60 for v in mine["video_id"]])
    found = icc(np.column_stack([c.to_numpy() / minutes for c in counts]))
    return [
        _row(m, "behaviour", **about, value=found[m], lo=found[f"{m}_lo"], hi=found[f"{m}_hi"], reason=found["reason"])
        for m in ("icc_2_1", "icc_3_1")
    ]


def _row(measure: str, level: str, *, individual: str | None = None, **values: Any) -> dict[str, Any]:
    out = dict.fromkeys(AGREEMENT)
    return out | {"measure": measure, "level": level, "individual_id": individual or None} | values
