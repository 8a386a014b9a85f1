"""Scores by recorder and by local hour of the day, beside how much was recorded there.

* The hour is that of the segment, not of the recording's start: a recording of an hour that began at 5:30 counts half
  for 5 and half for 6. A change to summer time inside a recording is not followed.
* c-mAP of a cell is the mean over the classes heard *in that cell*, ranked among its own segments, official rule: cells
  have different classes, so a low number may be a hard choir rather than a bad hour.
* ``top1``: of the segments with something heard, the share in which the class listed first is heard (ties: expected).
* ``recall``: of the pairs of segment and species heard, the share listed with at least a threshold.
* Segments past the end of a recording rank among the others, and are no segments of the cell. (Left out where a run does
  not say where they are.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.soundscapes.coded import SEGMENT_S, Coded, Floats, Ints, Truth
from birdlab.soundscapes.confusers import first_places
from birdlab.soundscapes.levels import listed_rows, positions, truth_scores

PANELS = {
    "run": pl.String,
    "panel": pl.String,
    "recorder": pl.String,
    "hour": pl.Int32,
    "n_recordings": pl.Int64,
    "n_segments": pl.Int64,
    "n_heard": pl.Int64,
    "n_pairs": pl.Int64,
    "n_classes": pl.Int64,
    "cmap": pl.Float64,
    "top1": pl.Float64,
    "recall": pl.Float64,
    "reason": pl.String,
}
NO_RECORDING, SILENT = "no recording", "nothing is heard"


class Places(NamedTuple):
    """Where and when each segment of a grid is.

    Args:
        recorder: number in ``recorders``, (N,); -1 where not said.
        recorders: names, sorted.
        hour: local hour, (N,); -1 where not known.
    """

    recorder: npt.NDArray[np.int64]
    recorders: tuple[str, ...]
    hour: npt.NDArray[np.int64]


def segment_places(truth: Truth, media: Ints, k: Ints, recordings: pl.DataFrame | None) -> Places:
    """Recorder and local hour of every segment.

    Args:
        truth: its recordings.
        media, k: recording of each segment (-1: none) and its number within it, (N,).
        recordings: table ``soundscape_recordings``; recorder and start_local are used. A start in UTC alone gives no local
            hour.
    """
    known: dict[str, tuple] = {}
    if recordings is not None and recordings.height:
        has = [pl.col(c) if c in recordings.columns else pl.lit(None).alias(c) for c in ("recorder", "start_local")]
        known = {row[0]: row[1:] for row in recordings.select("media_id", *has).iter_rows()}
    rows = [*(known.get(m, (None, None)) for m in truth.grid.media), (None, None)]
    names = tuple(sorted({r for r, _ in rows if r is not None}))
    number = {name: i for i, name in enumerate(names)}
    recorder = np.array([number.get(r, -1) for r, _ in rows], dtype=np.int64)
    start = np.array([-1 if t is None else t.hour * 3600 + t.minute * 60 + t.second for _, t in rows], dtype=np.int64)
    second = start[media] + SEGMENT_S * k
    hour = np.where(start[media] >= 0, second // 3600 % 24, -1)
    return Places(recorder[media], names, hour)


def cell_ap(relevant: npt.NDArray[np.bool_], own: Ints, n_cells: int) -> npt.NDArray[np.float64]:
    """Sum of precisions at the hits of one class within each cell, official rule, (n_cells,).

    Args:
        relevant: listed segments, best first, hits first within equal probabilities: whether the class is heard, (n,).
        own: cell of each, (n,).
        n_cells: number of cells.

    >>> cell_ap(np.array([False, True, True]), np.array([1, 0, 1]), 2).tolist()
    [1.0, 0.5]
    """
    order = np.argsort(own.astype(np.int16) if n_cells < 2**15 else own, kind="stable")
    own, relevant = own[order], relevant[order]
    hit = np.flatnonzero(relevant)
    first = np.searchsorted(own, np.arange(n_cells))
    cell = own[hit]
    before = np.searchsorted(hit, first)  # Hits of earlier cells.
    tp, rank = np.arange(1, len(hit) + 1) - before[cell], hit - first[cell] + 1
    return np.bincount(cell, tp / rank, n_cells)


def _best_first(seg: Ints, score: Floats, relevant: npt.NDArray[np.bool_]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Segments and hits of a class from the highest probability down to the last hit; what comes later moves nothing."""
    if not relevant.any():
        return seg[:0], relevant[:0]
    used = score >= score[relevant].min()
    seg, score, relevant = seg[used], score[used], relevant[used]
    # Hits first, then a stable sort by probability: of equal ones hits stay first.
    hits = np.argsort(~relevant, kind="stable")
    order = hits[np.argsort(-score[hits], kind="stable")]
    return seg[order], relevant[order]


def panels(
    truth: Truth, coded: Coded, recordings: pl.DataFrame | None = None, *, threshold: float = 0.5
) -> pl.DataFrame:
    """Scores of a run by recorder, by local hour, and by both.

    Args:
        truth, coded: who is heard where, and what a run lists.
        recordings: table ``soundscape_recordings``.
        threshold: of ``recall``.

    Returns:
        :data:`PANELS`: ``panel`` is recorder, hour (24 rows) or recorder_hour (24 rows for each recorder). A cell without a
        recording, or where nothing is heard, has null scores and the reason. Segments whose recorder or hour is not known
        are in a last row of null recorder and hour, if there are any.
    """
    media, k = positions(truth, coded)
    places = segment_places(truth, media, k, recordings)
    n_recorders = len(places.recorders)
    both = np.where((places.recorder >= 0) & (places.hour >= 0), places.recorder * 24 + places.hour, -1)
    parts = [
        ("recorder", places.recorder, [(name, None) for name in places.recorders]),
        ("hour", places.hour, [(None, h) for h in range(24)]),
        ("recorder_hour", both, [(name, h) for name in places.recorders for h in range(24)]),
    ]
    first = first_places(coded, truth.grid.n_segments)
    own = truth_scores(truth, coded)
    is_first = (first.n[truth.seg] > 0) & (own == first.score[truth.seg])
    hits_first = np.bincount(truth.seg[is_first], minlength=truth.grid.n_segments) / np.maximum(first.n, 1)
    wanted = []
    for panel, cell, keys in parts:
        if panel == "recorder_hour" and not n_recorders:
            continue
        lost = (cell < 0) & (media >= 0)
        labels = [*keys, (None, None)] if lost.any() else keys
        wanted.append((panel, labels, np.where(lost, len(keys), cell)))
    sums = _cell_scores(truth, coded, [(cell, len(labels)) for _, labels, cell in wanted])
    frames = []
    for (panel, labels, cell), (cmap, n_classes) in zip(wanted, sums, strict=True):
        columns = {"cmap": cmap, "n_classes": n_classes} | _counts(truth, cell, len(labels), media)
        columns |= _found_columns(truth, own >= threshold, hits_first, cell, len(labels))
        frames.append(_frame(coded.name, panel, labels, columns))
    return pl.concat(frames)


def _cell_scores(truth: Truth, coded: Coded, cells: list[tuple[Ints, int]]) -> list[tuple[Floats, Ints]]:
    """c-mAP and number of classes of the cells of each panel; every class is sorted once."""
    total = [np.zeros(n) for _, n in cells]
    n_classes = [np.zeros(n, dtype=np.int64) for _, n in cells]
    starts = np.searchsorted(truth.cls, np.arange(len(truth.classes) + 1))
    for c, seg, score, relevant in listed_rows(truth, coded):
        seg, relevant = _best_first(seg, score, relevant)
        heard = truth.seg[starts[c] : starts[c + 1]]
        for p, (cell, n) in enumerate(cells):
            n_rel, own = np.bincount(cell[heard], minlength=n), cell[seg]
            lost = own < 0
            found = cell_ap(relevant[~lost], own[~lost], n) if lost.any() else cell_ap(relevant, own, n)
            total[p] += np.divide(found, n_rel, out=np.zeros(n), where=n_rel > 0)
            n_classes[p] += n_rel > 0
    means = [np.divide(t, n, out=np.full(len(n), np.nan), where=n > 0) for t, n in zip(total, n_classes, strict=True)]
    return list(zip(means, n_classes, strict=True))


def _counts(truth: Truth, cell: Ints, n: int, media: Ints) -> dict[str, np.ndarray]:
    """Recordings and segments of each cell."""
    n_media, grid = max(len(truth.grid.media), 1), slice(truth.grid.n_segments)
    recordings = np.bincount(np.unique(cell[grid] * n_media + media[grid]) // n_media, minlength=n)
    return {"n_recordings": recordings, "n_segments": np.bincount(cell[grid], minlength=n)}


def _found_columns(
    truth: Truth, found: npt.NDArray[np.bool_], hits_first: Floats, cell: Ints, n: int
) -> dict[str, np.ndarray]:
    """Segments with something heard, pairs heard, and the shares of them that are named first and found."""
    heard = np.unique(truth.seg)
    n_heard = np.bincount(cell[heard], minlength=n)
    pair = cell[truth.seg]
    n_pairs = np.bincount(pair, minlength=n)
    top = np.bincount(cell[heard], hits_first[heard], n)
    none = np.full(n, np.nan)
    return {
        "n_heard": n_heard,
        "n_pairs": n_pairs,
        "top1": np.divide(top, n_heard, out=none.copy(), where=n_heard > 0),
        "recall": np.divide(np.bincount(pair[found], minlength=n), n_pairs, out=none.copy(), where=n_pairs > 0),
    }


def _frame(
    run: str, panel: str, labels: list[tuple[str | None, int | None]], columns: dict[str, np.ndarray]
) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "run": [run] * len(labels),
            "panel": [panel] * len(labels),
            "recorder": [r for r, _ in labels],
            "hour": [h for _, h in labels],
            **columns,
        },
        schema={k: t for k, t in PANELS.items() if k != "reason"},
    )
    why = pl.when(pl.col("n_recordings") == 0).then(pl.lit(NO_RECORDING)).when(pl.col("n_heard") == 0)
    frame = frame.with_columns(pl.col("cmap", "top1", "recall").fill_nan(None), reason=why.then(pl.lit(SILENT)))
    return frame.select(pl.col(k).cast(t) for k, t in PANELS.items())
