"""The one matcher of birdlab: which detection found which bird.

Protocol (Western Bluebird §6; the COCO toolkit's rules): keep score >= conf; by score, descending, ties in the order
of the predictions; overlap >= iou counts; the best free label, the last one on equal overlap; a bird before a crowd;
a crowd absorbs any number of detections and counts neither for nor against; per class unless asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.detection.boxes import boxes_of, decode_rle, drop_ignored, iou_pairs
from birdlab.errors import ParameterError

IouType = Literal["bbox", "segm"]
#: Pairs of boxes compared at a time: bounds the memory, not the result.
_CHUNK = 1_000_000


def match(
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    iou: float = 0.5,
    conf: float = 0.25,
    class_agnostic: bool = False,
    models: Sequence[str] | None = None,
    iou_type: IouType = "bbox",
) -> pl.DataFrame:
    """Match detections to labelled birds, greedily by score.

    Args:
        labels: table ``labels``; rows with ``is_ignored`` are regions that are left out (see ``drop_ignored``).
        predictions: table ``predictions``, any number of models, scores in [0, 1].
        frames: table ``frames``; only labelled and empty ones are scored, rows of other frames are left out.
        iou: overlap that counts as a hit, in (0, 1].
        conf: confidence kept, in [0, 1].
        class_agnostic: let a detection find a bird of another class.
        models: names in the order wanted; a model without a detection misses every bird. Default: those that occur.
        iou_type: ``bbox``, or ``segm`` for the overlap of masks (a row without a mask overlaps nothing).

    Returns:
        Table ``matches``: for each model one row per labelled bird (tp or fn), per false positive (fp), and per
        detection that does not count (ignored: on a crowd or on an ignored region; ``label_id`` says which).
        Crowds themselves have no row. Empty input gives an empty table.

    Raises:
        ParameterError: ``iou`` or ``conf`` is out of range.

    Greedy matching is stable under cutting the score: ``at_confidence(match(..., conf=0), c)`` equals
    ``match(..., conf=c)``, so one pass serves every threshold.
    """
    if not 0 < iou <= 1 or not 0 <= conf <= 1:
        raise ParameterError(f"iou must be in (0, 1] and conf in [0, 1], not iou={iou}, conf={conf}")
    scored = frames.filter(pl.col("label_state") != "unlabelled").select("frame_id", "video_id").with_row_index("_f")
    kept = predictions.filter(pl.col("score") >= conf)
    truth, kept, dropped = drop_ignored(_on(labels, scored), _on(kept, scored))
    names = list(models) if models is not None else predictions["model"].unique(maintain_order=True).to_list()
    parts = []
    for name in names:
        dt = kept.filter(pl.col("model") == name)
        gt_of, overlap = _greedy(truth, dt, iou=iou, class_agnostic=class_agnostic, iou_type=iou_type)
        parts.append(_rows(truth, dt, gt_of, overlap).with_columns(pl.lit(name).alias("model")))
    out = [*parts, _ignored_rows(dropped.filter(pl.col("model").is_in(names)))] if parts else []
    joined = pl.concat(out, how="diagonal") if out else schemas.empty("matches")
    joined = joined.with_columns(iou_thr=pl.lit(iou), score_thr=pl.lit(conf), protocol=pl.lit("greedy"))
    return schemas.TABLES["matches"].conform(joined).select(list(schemas.TABLES["matches"].dtypes))


def at_confidence(matches: pl.DataFrame, conf: float) -> pl.DataFrame:
    """What ``match`` would have given at a higher confidence: detections below it go, their birds become misses.

    Args:
        matches: table ``matches`` made at a confidence of at most ``conf``.
        conf: confidence kept, in [0, 1].

    Raises:
        ParameterError: the matches were made at a higher confidence, so detections are missing.
    """
    if matches.height and matches["score_thr"].max() > conf:
        raise ParameterError(f"matches made at confidence {matches['score_thr'].max()} cannot be lowered to {conf}")
    low = pl.col("score") < conf
    kept = matches.filter(~(low & pl.col("outcome").is_in(["fp", "ignored"])).fill_null(False))
    lost = (pl.col("outcome") == "tp") & (pl.col("score") < conf)
    return kept.with_columns(
        pl.when(lost).then(None).otherwise(pl.col(c)).alias(c) for c in ("prediction_id", "iou")
    ).with_columns(
        pl.when(lost)
        .then(pl.lit("fn"))
        .otherwise(pl.col("outcome").cast(pl.String))
        .cast(matches.schema["outcome"])
        .alias("outcome"),
        pl.when(lost).then(None).otherwise(pl.col("score")).alias("score"),
        pl.lit(conf).alias("score_thr"),
    )


def _on(table: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame:
    """Rows on scored frames, in order, with the frame's number ``_f`` and its session."""
    return table.join(scored, on="frame_id", how="inner", maintain_order="left")


def _greedy(
    truth: pl.DataFrame, dt: pl.DataFrame, *, iou: float, class_agnostic: bool, iou_type: IouType
) -> tuple[np.ndarray, np.ndarray]:
    """Row of ``truth`` that each row of ``dt`` took (-1: none) and their overlap."""
    gt_of, overlap = np.full(dt.height, -1, dtype=np.int64), np.full(dt.height, np.nan)
    if dt.is_empty() or truth.is_empty():
        return gt_of, overlap
    gt_key, dt_key = _keys(truth, dt, class_agnostic)
    crowd = truth["is_crowd"].to_numpy()
    gt_order = np.lexsort((crowd, gt_key))  # stable: a bird before a crowd, else file order
    dt_order = np.lexsort((-dt["score"].to_numpy(), dt_key))  # stable: equal scores keep the order of the predictions
    d, g, value = _candidates(truth, dt, gt_key, dt_key, gt_order, dt_order, iou=iou, iou_type=iou_type)
    taken: set[int] = set()
    crowded = set(np.flatnonzero(crowd).tolist())
    edges = np.flatnonzero(np.diff(d, prepend=-1, append=-1)).tolist() if len(d) else []
    g_list, v_list, d_list = g.tolist(), value.tolist(), d.tolist()
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        best, best_value = -1, 0.0
        for i in range(start, stop):
            label = g_list[i]
            if label in taken or (label in crowded and best >= 0 and best not in crowded):
                continue
            if v_list[i] >= best_value:  # on equal overlap the last label wins, as in the COCO toolkit
                best, best_value = label, v_list[i]
        if best >= 0:
            gt_of[d_list[start]], overlap[d_list[start]] = best, best_value
            if best not in crowded:
                taken.add(best)
    return gt_of, overlap


def _keys(truth: pl.DataFrame, dt: pl.DataFrame, class_agnostic: bool) -> tuple[np.ndarray, np.ndarray]:
    """One integer per row: the frame, or the frame and class, within which boxes are compared."""
    f_gt, f_dt = truth["_f"].to_numpy().astype(np.int64), dt["_f"].to_numpy().astype(np.int64)
    if class_agnostic:
        return f_gt, f_dt
    names = pl.concat([truth["category"].unique(), dt["category"].unique()]).unique().sort()
    codes = pl.DataFrame({"category": names, "_c": np.arange(len(names), dtype=np.int64)})
    c_gt = truth.select("category").join(codes, on="category", how="left", maintain_order="left")["_c"].to_numpy()
    c_dt = dt.select("category").join(codes, on="category", how="left", maintain_order="left")["_c"].to_numpy()
    return f_gt * len(names) + c_gt, f_dt * len(names) + c_dt


def _candidates(
    truth: pl.DataFrame,
    dt: pl.DataFrame,
    gt_key: np.ndarray,
    dt_key: np.ndarray,
    gt_order: np.ndarray,
    dt_order: np.ndarray,
    *,
    iou: float,
    iou_type: IouType,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs that overlap enough, detections by score and labels in order: (row of dt, row of truth, overlap)."""
    threshold = min(iou, 1 - 1e-10)  # as the COCO toolkit: overlap 1 passes in spite of rounding
    sorted_gt, sorted_dt = gt_key[gt_order], dt_key[dt_order]
    first = np.searchsorted(sorted_gt, sorted_dt, side="left")
    count = np.searchsorted(sorted_gt, sorted_dt, side="right") - first
    has = np.flatnonzero(count)
    overlap = _BoxOverlap(truth, dt) if iou_type == "bbox" else _MaskOverlap(truth, dt)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    total = np.cumsum(count[has])
    start = 0
    while start < len(has):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + _CHUNK, side="right")))
        rows = has[start:stop]
        n = count[rows]
        within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        d, g = dt_order[np.repeat(rows, n)], gt_order[np.repeat(first[rows], n) + within]
        value = overlap(d, g)
        good = value >= threshold
        found.append((d[good], g[good], value[good]))
        start = stop
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


class _BoxOverlap:
    def __init__(self, truth: pl.DataFrame, dt: pl.DataFrame) -> None:
        self.gt, self.dt, self.crowd = boxes_of(truth), boxes_of(dt), truth["is_crowd"].to_numpy()

    def __call__(self, d: np.ndarray, g: np.ndarray) -> np.ndarray:
        return iou_pairs(self.dt[d], self.gt[g], self.crowd[g])


class _MaskOverlap:
    """Overlap of masks for pairs whose boxes touch; a row without a mask overlaps nothing."""

    def __init__(self, truth: pl.DataFrame, dt: pl.DataFrame) -> None:
        self.crowd = truth["is_crowd"].to_numpy()
        self.gt = [decode_rle(t) if t is not None else None for t in truth["mask_rle"].to_list()]
        self.dt = [decode_rle(t) if t is not None else None for t in dt["mask_rle"].to_list()]

    def __call__(self, d: np.ndarray, g: np.ndarray) -> np.ndarray:
        from pycocotools import mask as coco_mask

        values = np.zeros(len(d))
        for i, (row, label) in enumerate(zip(d.tolist(), g.tolist(), strict=True)):
            a, b = self.dt[row], self.gt[label]
            if a is not None and b is not None:
                values[i] = coco_mask.iou([a], [b], [int(self.crowd[label])])[0, 0]
        return np.nan_to_num(values)


def _rows(truth: pl.DataFrame, dt: pl.DataFrame, gt_of: np.ndarray, overlap: np.ndarray) -> pl.DataFrame:
    """One model's part of the table: birds in the order of the labels, then detections that found none."""
    hit = np.flatnonzero(gt_of >= 0)
    crowd = truth["is_crowd"].to_numpy()
    real_hit = hit[~crowd[gt_of[hit]]] if len(hit) else hit
    on_crowd = hit[crowd[gt_of[hit]]] if len(hit) else hit
    dt_of = np.full(truth.height, -1, dtype=np.int64)
    dt_of[gt_of[real_hit]] = real_hit
    birds = np.flatnonzero(~crowd)
    found = pl.Series("_dt", dt_of[birds])
    columns = dt.select("prediction_id", "score").with_columns(
        iou=pl.Series(overlap, dtype=pl.Float64, nan_to_null=True)
    )
    pairs = columns.with_columns(_dt=pl.Series(np.arange(dt.height)))
    what = ["frame_id", "video_id", "category"]
    labelled = truth[birds].select(*what, "label_id").with_columns(found)
    labelled = labelled.join(pairs, on="_dt", how="left", maintain_order="left").drop("_dt")
    labelled = labelled.with_columns(
        outcome=pl.when(pl.col("prediction_id").is_null()).then(pl.lit("fn")).otherwise(pl.lit("tp"))
    )
    wrong = dt[np.flatnonzero(gt_of < 0)].select(*what, "prediction_id", "score").with_columns(outcome=pl.lit("fp"))
    absorbed = (
        dt[on_crowd]
        .select(*what, "prediction_id", "score")
        .with_columns(truth[gt_of[on_crowd]]["label_id"], columns["iou"].gather(on_crowd), outcome=pl.lit("ignored"))
    )
    return pl.concat([labelled, wrong, absorbed], how="diagonal")


def _ignored_rows(dropped: pl.DataFrame) -> pl.DataFrame:
    what = ["model", "frame_id", "video_id", "category", "label_id", "prediction_id", "score"]
    return dropped.select(what).with_columns(outcome=pl.lit("ignored"))
