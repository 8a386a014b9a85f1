"""What kinds of error a detector makes, and what average precision would gain if each kind were mended (TIDE).

Bolya, Foley, Hays and Hoffman (2020), §2: six types, foreground overlap t_f = 0.5, background overlap t_b = 0.1. Each
gain is measured alone from the detector as it is, so the gains do not depend on an order and do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.detection.boxes import boxes_of, drop_ignored, iou_pairs
from birdlab.detection.matching import match
from birdlab.detection.scored import scored
from birdlab.errors import ParameterError

if TYPE_CHECKING:
    from birdlab.study import Run

_Parts = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]
#: Overlap below which a detection is on nothing, t_b.
BACKGROUND = 0.1
#: In the order of the paper; the last two are its special errors, all false positives and all misses at once.
MAIN_ERRORS = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")
SPECIAL_ERRORS = ("FalsePos", "FalseNeg")
#: What each error is, in words.
MEANING: dict[str, str] = {
    "Cls": "on a bird, wrong class",
    "Loc": "right class, badly placed",
    "Both": "wrong class and badly placed",
    "Dupe": "a second detection of a bird already found",
    "Bkg": "on nothing",
    "Miss": "a bird without any detection near it",
    "FalsePos": "all false detections",
    "FalseNeg": "all birds not found",
}
NO_LABEL = "no labelled bird"
ALL_MISSED = "every labelled bird is a miss: without them nothing is left to find"
_RECALLS = np.linspace(0.0, 1.0, 101)

_S, _F, _I = pl.String, pl.Float64, pl.Int64
SUMMARY: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "error": _S, "meaning": _S, "n": _I, "delta_ap": _F, "ap": _F, "n_labels": _I, "reason": _S},
}
DETECTIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "prediction_id": _S, "frame_id": _S, "category": _S, "score": _F, "error": _S, "iou": _F},
    "label_id": _S,
}
MISSED: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"model": _S, "label_id": _S, "frame_id": _S, "category": _S, "error": _S, "prediction_id": _S}
}


@dataclass(frozen=True)
class Errors:
    """Error types of one or more models.

    Args:
        summary: a row per model and error (six types and two special ones): n, ``delta_ap`` (gain in AP at the
            foreground overlap when mended, in [0, 1] mostly; null with a reason), ``ap`` as it is.
        detections: a row per false positive: its type, its overlap with the label that decided it (null for Bkg
            without any overlap), and that label.
        missed: a row per label not found: ``Miss``, or the error ("Cls", "Loc") and the ``prediction_id`` of the
            detection that would find it: of those that lie on it, the one with the highest score.
    """

    summary: pl.DataFrame
    detections: pl.DataFrame
    missed: pl.DataFrame


def error_types(
    labels: pl.DataFrame,
    predictions: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    iou: float = 0.5,
    conf: float = 0.0,
    max_dets: int = 100,
    class_agnostic: bool = False,
    models: Sequence[str] | None = None,
) -> Errors:
    """Sort every false positive and every miss into TIDE's error types.

    Args:
        labels: table ``labels``; ignored regions and crowds count neither way, as everywhere.
        predictions: table ``predictions``, any number of models.
        frames: table ``frames``; unlabelled ones are left out.
        iou: foreground overlap t_f, in (0.1, 1]; the background overlap t_b is 0.1.
        conf: lowest confidence kept; 0 for the AP of the report.
        max_dets: detections per frame and class, the highest scores first (COCO).
        class_agnostic: one class for all.
        models: names in the order wanted; a model without a detection misses every bird. Default: those that occur.

    Returns:
        Errors. A false positive is the first of: **Loc** its best overlap with a label of its class is in [t_b, t_f);
        **Cls** it reaches t_f with a label of another class; **Dupe** it reaches t_f with a label of its class, which
        is taken; **Bkg** it overlaps no label by more than t_b; **Both** the rest. A label not found is a **Miss**
        unless a Cls or Loc error lies on it. Mended means: Cls and Loc become right where their label is still free
        (of all Cls and Loc errors on a label the one with the highest score, the others go), Both, Dupe and Bkg go,
        Miss takes the label away, FalsePos takes all false positives away, FalseNeg all labels not found. AP is
        COCO's at one overlap: 101 recalls, mean over the classes with a label. No rows for no model.

    Raises:
        ParameterError: iou is not in (0.1, 1], or max_dets below 1.

    Bolya et al. (2020), §2.2 and §2.3; the order of the tests is that of their code.
    """
    if not BACKGROUND < iou <= 1:
        raise ParameterError(f"iou must be in ({BACKGROUND}, 1], not {iou}")
    if max_dets < 1:
        raise ParameterError(f"max_dets is 1 or more, not {max_dets}")
    if class_agnostic:
        labels, predictions = (t.with_columns(category=pl.lit("any")) for t in (labels, predictions))
    on = frames.filter(pl.col("label_state") != "unlabelled").select("frame_id").with_row_index("_frame")
    truth = labels.join(on, on="frame_id", how="semi", maintain_order="left")
    # Frame by frame, as COCO's evaluator gathers them: equal scores are settled by this order.
    found = predictions.join(on, on="frame_id", how="inner", maintain_order="left").filter(pl.col("score") >= conf)
    found = found.sort("_frame", maintain_order=True).drop("_frame")
    rank = pl.col("score").rank("ordinal", descending=True).over("model", "frame_id", "category")
    real, _, _ = drop_ignored(truth, found.clear())
    real = real.filter(~pl.col("is_crowd"))
    parts = []
    names = list(models) if models is not None else predictions["model"].unique(maintain_order=True).to_list()
    for name in names:
        _, mine, _ = drop_ignored(truth, found.filter(pl.col("model") == name))
        mine = mine.filter(rank <= max_dets)
        matches = match(truth, mine, frames, iou=iou, conf=conf, models=[name])
        parts.append(_one_model(name, real, mine, matches, iou))
    return _join(parts)


def study_errors(run: Run, *, conf: float = 0.0) -> Errors:
    """Error types of every model of a run, each on the frames it could be asked about; see :func:`error_types`.

    Args:
        run: the study.
        conf: lowest confidence kept.
    """
    study = scored(run)
    about = {"iou": study.settings.iou, "max_dets": study.settings.max_dets, "conf": conf}
    parts = []
    for name in study.models:
        mine = study.predictions.filter(pl.col("model") == name)
        on, agnostic = study.frames_of(name), study.settings.class_agnostic
        e = error_types(study.labels, mine, on, class_agnostic=agnostic, models=[name], **about)
        parts.append((e.summary, e.detections, e.missed))
    return _join(parts)


def _join(parts: list[_Parts]) -> Errors:
    schemas = (SUMMARY, DETECTIONS, MISSED)
    tables = [[part[i] for part in parts] for i in range(len(schemas))]
    return Errors(*(pl.concat([pl.DataFrame(schema=s), *t]) for s, t in zip(schemas, tables, strict=True)))


def average_precision(score: npt.ArrayLike, hit: npt.ArrayLike, n: int) -> float | None:
    """COCO's AP of one class at one overlap: mean over 101 recalls of the best precision at that recall or beyond.

    Args:
        score: confidence of each detection; ties keep their order.
        hit: bool, whether it found a label.
        n: labels.

    Returns:
        AP in [0, 1], higher is better; ``None`` for n = 0.

    >>> average_precision([0.9, 0.8], [True, False], 1)
    1.0
    """
    if n == 0:
        return None
    order = np.argsort(-np.asarray(score, dtype=np.float64), kind="stable")
    right = np.asarray(hit, dtype=bool)[order]
    tp = np.cumsum(right)
    precision = tp / np.arange(1, len(tp) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(tp / n, _RECALLS, side="left")
    return float(np.sum(best[at[at < len(best)]]) / len(_RECALLS))


def _one_model(name: str, real: pl.DataFrame, mine: pl.DataFrame, matches: pl.DataFrame, iou: float) -> _Parts:
    state = matches.filter(pl.col("prediction_id").is_not_null()).select("prediction_id", "outcome")
    kept = mine.join(state, on="prediction_id", how="inner", maintain_order="left")
    kept = kept.filter(pl.col("outcome") != "ignored")
    found = matches.filter(pl.col("outcome") == "tp")["label_id"]
    hit = (kept["outcome"] == "tp").to_numpy().astype(bool)
    wrong = _classify(kept.filter(~pl.Series(hit, dtype=pl.Boolean)), real, iou)
    free = ~real["label_id"].is_in(found.to_list())
    detections = wrong.with_columns(model=pl.lit(name)).select(list(DETECTIONS))
    missed = _missed(real.filter(free), wrong, name)
    ap, gains = _gains(real, kept, hit, wrong, missed)
    rows = []
    for error in (*MAIN_ERRORS, *SPECIAL_ERRORS):
        counts = {"Miss": missed.filter(pl.col("error") == "Miss").height, "FalsePos": wrong.height}
        n = counts.get(error, missed.height if error == "FalseNeg" else wrong.filter(pl.col("error") == error).height)
        row = {"model": name, "error": error, "meaning": MEANING[error], "n": n, "ap": ap, "n_labels": real.height}
        reason = NO_LABEL if ap is None else ALL_MISSED if gains[error] is None else None
        rows.append(row | {"delta_ap": gains[error], "reason": reason})
    return pl.DataFrame(rows, schema=SUMMARY), detections.cast(DETECTIONS), missed.cast(MISSED)  # type: ignore[arg-type]


def _classify(wrong: pl.DataFrame, real: pl.DataFrame, iou: float) -> pl.DataFrame:
    """Each false positive with its error, the overlap and the label that decided it."""
    same, other = _best_overlaps(wrong, real)
    s, o = same[0], other[0]
    error = np.select(
        [(s >= BACKGROUND) & (s < iou), o >= iou, s >= iou, np.maximum(s, o) <= BACKGROUND],
        ["Loc", "Cls", "Dupe", "Bkg"],
        default="Both",
    )
    by_same = np.isin(error, ["Loc", "Dupe"]) | ((error == "Bkg") & (s >= o))
    overlap, row = np.where(by_same, s, o), np.where(by_same, same[1], other[1])
    row = np.where(overlap > 0, row, -1)
    ids = pl.Series("label_id", [*real["label_id"].to_list(), None], dtype=pl.String).gather(
        np.where(row < 0, real.height, row)
    )
    value = pl.Series("iou", np.where(row < 0, np.nan, overlap), dtype=pl.Float64, nan_to_null=True)
    return wrong.drop("iou", "label_id", strict=False).with_columns(
        pl.Series("error", error, dtype=pl.String), value, ids
    )


_Best = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def _best_overlaps(wrong: pl.DataFrame, real: pl.DataFrame) -> tuple[_Best, _Best]:
    """Largest overlap of each detection with labels of its class and of other classes, and the label's row (or -1)."""
    left = wrong.select("frame_id", "category").with_row_index("d")
    right = real.select("frame_id", pl.col("category").alias("label_category")).with_row_index("g")
    pairs = left.join(right, on="frame_id", how="inner")
    d, g = (pairs[c].to_numpy().astype(np.int64) for c in ("d", "g"))
    alike = (pairs["category"] == pairs["label_category"]).to_numpy()
    value = iou_pairs(boxes_of(wrong)[d], boxes_of(real)[g], np.zeros(len(d), dtype=bool))
    return _largest(d, g, value, alike, wrong.height), _largest(d, g, value, ~alike, wrong.height)


def _largest(
    d: npt.NDArray[np.int64],
    g: npt.NDArray[np.int64],
    value: npt.NDArray[np.float64],
    use: npt.NDArray[np.bool_],
    n: int,
) -> _Best:
    overlap, row = np.zeros(n), np.full(n, -1, dtype=np.int64)
    d, g, value = d[use], g[use], value[use]
    order = np.lexsort((g, -value, d))
    first = order[np.flatnonzero(np.diff(d[order], prepend=-1))]
    overlap[d[first]], row[d[first]] = value[first], g[first]
    return overlap, row


def _missed(free: pl.DataFrame, wrong: pl.DataFrame, name: str) -> pl.DataFrame:
    """Labels not found: the error of the highest detection that would find them when mended, or Miss."""
    near = wrong.filter(pl.col("error").is_in(["Cls", "Loc"])).sort("score", descending=True, maintain_order=True)
    near = near.select("label_id", "error", "prediction_id").unique("label_id", keep="first", maintain_order=True)
    missed = free.select("label_id", "frame_id", "category").join(
        near, on="label_id", how="left", maintain_order="left"
    )
    return missed.with_columns(pl.col("error").fill_null("Miss"), model=pl.lit(name)).select(list(MISSED))


def _gains(
    real: pl.DataFrame, kept: pl.DataFrame, hit: npt.NDArray[np.bool_], wrong: pl.DataFrame, missed: pl.DataFrame
) -> tuple[float | None, dict[str, float | None]]:
    """AP as it is, and its gain when each error is mended."""
    n = dict(real["category"].value_counts().iter_rows())
    base = _mean_ap(kept["category"], kept["score"], hit, n)
    errors: tuple[str, ...] = (*MAIN_ERRORS, *SPECIAL_ERRORS)
    if base is None:
        return None, dict.fromkeys(errors)
    kind = kept.select("prediction_id").join(
        wrong.select("prediction_id", "error", "label_id"), on="prediction_id", how="left", maintain_order="left"
    )
    category_of = dict(real.select("label_id", "category").iter_rows())
    mender = missed.filter(pl.col("error") != "Miss")
    mends = dict(zip(mender["prediction_id"], mender["label_id"], strict=True))
    gains: dict[str, float | None] = {}
    for error in ("Cls", "Loc", "Both", "Dupe", "Bkg"):
        stays = (kind["error"].fill_null("") != error).to_numpy()
        right, category = hit.copy(), kept["category"].to_list()
        for i in np.flatnonzero(~stays).tolist():
            label = mends.get(kind["prediction_id"][i])
            if label is not None:
                stays[i], right[i], category[i] = True, True, category_of[label]
        gains[error] = _mean_ap(pl.Series(category, dtype=pl.String), kept["score"], right, n, stays)
    gains["FalsePos"] = _mean_ap(kept["category"], kept["score"], hit, n, hit)
    for error, gone in (("Miss", missed.filter(pl.col("error") == "Miss")), ("FalseNeg", missed)):
        less = dict(gone["category"].value_counts().iter_rows())
        left = {c: count - less.get(c, 0) for c, count in n.items()}
        gains[error] = _mean_ap(kept["category"], kept["score"], hit, left, kept=len(n)) if any(left.values()) else None
    return base, {e: None if gains[e] is None else gains[e] - base for e in errors}  # type: ignore[operator]


def _mean_ap(
    category: pl.Series,
    score: pl.Series,
    hit: npt.NDArray[np.bool_],
    n: dict[str, int],
    use: npt.NDArray[np.bool_] | None = None,
    *,
    kept: int | None = None,
) -> float | None:
    """Mean AP over the classes with a label; ``kept`` counts classes whose labels were all taken away, with AP 0."""
    use = np.ones(len(hit), dtype=bool) if use is None else use
    names, values, parts = category.to_numpy(), score.to_numpy(), []
    for name, count in n.items():
        mine = use & (names == name)
        ap = average_precision(values[mine], hit[mine], count)
        if ap is not None:
            parts.append(ap)
    return float(sum(parts) / (kept or len(parts))) if parts else None
