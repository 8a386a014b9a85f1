"""The difficulty numbers of a study as rows of the table ``metrics``, and printed ones of papers beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.detection.engine import evaluate
from birdlab.detection.masks import has_masks, with_masks
from birdlab.detection.model_rows import NO_AP_INTERVAL
from birdlab.detection.scored import Scored
from birdlab.difficulty.printed import published_scale
from birdlab.metrics import metric_frame, metric_row

if TYPE_CHECKING:
    from birdlab.recipe import Difficulty

Rows = list[dict[str, Any]]


def metric_rows(study: Scored, made: dict[str, pl.DataFrame], settings: Difficulty, *, dataset: str) -> pl.DataFrame:
    """Every number of the chapter as table ``metrics``.

    Args:
        study: what is scored.
        made: ``difficulty_bins``, ``difficulty_factors``, ``error_types``, ``calibration``.
        settings: the recipe's ``difficulty``.
        dataset: name of the study.

    Returns:
        ``group`` is the factor and ``level`` its bin for recall (with both intervals); ``level`` is ``all`` for Δ,
        impact (with both intervals), p and p_holm, and the worst bin's for ``worst_recall``. ``group`` is
        ``error_type`` for gains in AP, ``coco_size`` and ``relative_size`` for ``mask_ap``.
    """
    method = f"{study.method} bins={settings.preset}"
    rows = _bin_rows(made["difficulty_bins"], method) + _factor_rows(made["difficulty_factors"], method)
    rows += _error_rows(made["error_types"], study) + _calibration_rows(made["calibration"], study)
    rows += [row for name in study.models for row in _mask_rows(study, name)]
    own = metric_frame({**row, "dataset": dataset} for row in rows)
    return pl.concat([own, published_scale(study.settings.published)])


def _bin_rows(bins: pl.DataFrame, method: str) -> Rows:
    rows: Rows = []
    for r in bins.iter_rows(named=True):
        at = {"model": r["model"], "group": r["factor"], "level": r["level"], "metric": "recall"}
        at |= {"value": r["recall"], "n": r["n"]}
        rows.append(metric_row(method=method, reason=r["reason"], **at))
        for kind, key, n in (("within_sessions", "within", r["n_blocks"]), ("new_sessions", "new", r["sessions"])):
            ends = {"lo": r[f"{key}_lo"], "hi": r[f"{key}_hi"], "n_clusters": n}
            reason = r["reason"] or r[f"{key}_reason"]
            rows.append(metric_row(method=f"{method}; {kind}", reason=reason, **ends, **at))
    return rows


def _factor_rows(factors: pl.DataFrame, method: str) -> Rows:
    rows: Rows = []
    for r in factors.iter_rows(named=True):
        at = {"model": r["model"], "group": r["factor"], "n": r["n"]}
        why = r["reason"]
        for metric in ("impact", "delta"):
            rows.append(metric_row(metric=metric, value=r[metric], method=method, reason=why, **at))
            within = {"lo": r[f"{metric}_lo"], "hi": r[f"{metric}_hi"], "method": f"{method}; within_sessions"}
            rows.append(metric_row(metric=metric, value=r[metric], reason=why, **within, **at))
        new = {"lo": r["impact_new_lo"], "hi": r["impact_new_hi"], "method": f"{method}; new_sessions"}
        rows.append(metric_row(metric="impact", value=r["impact"], reason=why or r["impact_new_reason"], **new, **at))
        tests = {"method": f"{method}; {r['n_permutations']} permutations, family of {r['family']}", "reason": why}
        rows += [metric_row(metric=k, value=r[k], chance=None, **tests, **at) for k in ("p", "p_holm")]
        rows.append(metric_row(metric="confirmed", value=float(r["confirmed"]), **tests, **at))
        worst = {**at, "n": r["worst_n"], "level": r["worst"] or "none"}
        rows.append(metric_row(metric="worst_recall", value=r["worst_recall"], method=method, reason=why, **worst))
    return rows


def _error_rows(errors: pl.DataFrame, study: Scored) -> Rows:
    method = f"tide iou={study.settings.iou:g} max_dets={study.settings.max_dets}{study.agnostic}"
    rows: Rows = []
    for r in errors.iter_rows(named=True):
        at = {"model": r["model"], "group": "error_type", "level": r["error"], "n": r["n"], "method": method}
        rows.append(metric_row(metric="delta_ap", value=r["delta_ap"], reason=r["reason"] or NO_AP_INTERVAL, **at))
    return rows


def _calibration_rows(summary: pl.DataFrame, study: Scored) -> Rows:
    rows: Rows = []
    for r in summary.iter_rows(named=True):
        at = {"model": r["model"], "n": r["n"], "method": f"{study.method} calibration", "reason": r["reason"]}
        rows += [metric_row(metric=k, value=r[v], **at) for k, v in _CALIBRATION.items()]
    return rows


_CALIBRATION = {"ece": "ece", "brier": "brier", "brier_constant": "brier_constant", "score_gap": "gap"}


def _mask_rows(study: Scored, name: str) -> Rows:
    """AP of masks by size; nothing where masks are not on both sides (02_detection says so)."""
    frames, s = study.frames_of(name), study.settings
    on = frames.select("frame_id")
    found = study.predictions.filter(pl.col("model") == name)
    labels, looked = (t.join(on, on="frame_id", how="semi", maintain_order="left") for t in (study.labels, found))
    if not has_masks(labels, looked):
        return []
    labels, looked, frames, _ = with_masks(labels, looked, frames)
    about = {"engine": s.engine, "max_dets": s.max_dets, "class_agnostic": s.class_agnostic}
    result = evaluate(labels, looked, frames, iou_type="segm", **about)
    rows: Rows = []
    for r in result.by_size.iter_rows(named=True):
        at = {"model": name, "group": f"{r['definition']}_size", "level": r["level"], "n": r["n"]}
        reason = r["reason"] or NO_AP_INTERVAL
        method = study.coco.replace("bbox", "segm")
        rows.append(metric_row(metric="mask_ap", value=r["ap"], method=method, reason=reason, **at))
    return rows
