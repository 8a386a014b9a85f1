"""Every number of one model (or of the second labelling) as rows of the table ``metrics``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.detection import scores
from birdlab.detection.engine import STATS, evaluate
from birdlab.detection.groups import false_alarms, recall_by_size, shares, thin, thinning_distance
from birdlab.detection.mask_rows import NO_AP_INTERVAL, mask_rows
from birdlab.detection.matching import match
from birdlab.detection.scored import HUMAN, Scored
from birdlab.metrics import metric_row

_SIZE_GROUP = {"coco": "coco_size", "relative": "relative_size"}
Rows = list[dict[str, Any]]


def model_rows(study: Scored, name: str, everything: pl.DataFrame, matches: pl.DataFrame) -> Rows:
    """Every row of one model."""
    frames = study.frames_of(name)
    rows = _failure_rows(study, frames)
    if frames.is_empty():
        return _named(name, rows + _nothing(study, name))
    found = study.predictions.filter(pl.col("model") == name)
    rows += _count(study, found, matches)
    rows += ap_rows(study, found, frames)
    rows += shares(matches, frames, method=study.method)
    rows += [r for group in ("session", "site") for r in shares(matches, frames, method=study.method, group=group)]
    rows += recall_by_size(matches, study.labels, frames, method=study.method)
    rows += false_alarms(matches, frames, method=study.method)
    rows.append(mean_iou_row(matches, study.method))
    rows += max_f1_rows(study, name, everything, rows)
    rows += _split_rows(study, found, frames, matches) + _thinned_rows(study, found, frames, matches)
    return _named(name, rows + mask_rows(study, found, frames))


def _named(name: str, rows: Iterable[dict[str, Any]]) -> Rows:
    return [{**row, "model": name} for row in rows]


def _failure_rows(study: Scored, frames: pl.DataFrame) -> Rows:
    lost = study.frames.join(frames.select("frame_id"), on="frame_id", how="anti")
    birds = study.labels.filter(~pl.col("is_crowd") & ~pl.col("is_ignored"))
    n_birds = birds.join(lost.select("frame_id"), on="frame_id", how="semi").height
    why = "the model could not be asked about these frames: neither hits nor misses" if lost.height else None
    return [
        metric_row(metric=metric, value=float(n), n=study.frames.height, method="failures", reason=why)
        for metric, n in (("n_failed_frames", lost.height), ("n_birds_on_failed_frames", n_birds))
    ]


def _nothing(study: Scored, name: str) -> Rows:
    if study.frames.is_empty():
        why = f"no frame of split {', '.join(study.settings.splits)} was labelled or looked at"
    else:
        why = f"{name} failed on all {study.frames.height} frames"
    fixed = ("tp", "fp", "fn", "precision", "recall", "f1")
    rows = [metric_row(metric=m, n=0, method=study.coco, reason=why) for m in STATS]
    return rows + [metric_row(metric=m, n=0, method=study.method, reason=why) for m in fixed]


def _count(study: Scored, found: pl.DataFrame, matches: pl.DataFrame) -> Rows:
    on = found.join(study.frames.select("frame_id"), on="frame_id", how="semi").height
    ignored = matches.filter(pl.col("outcome") == "ignored").height
    return [
        metric_row(metric="n_detections", value=float(on), n=on, method="any confidence"),
        metric_row(
            metric="n_detections_not_scored", value=float(found.height - on), n=found.height, method="other frames"
        ),
        metric_row(metric="n_ignored", value=float(ignored), n=matches.height, method=study.method),
    ]


def ap_rows(
    study: Scored, found: pl.DataFrame, frames: pl.DataFrame, *, group: str = "all", level: str = "all"
) -> Rows:
    """The COCO numbers on some frames; for group ``all`` also by size and by class, and the warnings."""
    s = study.settings
    looked = found.join(frames.select("frame_id"), on="frame_id", how="semi")
    result = evaluate(
        study.labels, looked, frames, engine=s.engine, max_dets=s.max_dets, class_agnostic=s.class_agnostic
    )
    at = {"method": study.coco, "group": group, "level": level}
    n_of = dict(result.by_size.filter(definition="coco").select("level", "n").iter_rows())
    rows = []
    for metric in STATS:
        n = n_of.get(metric.partition("_")[2], result.n_ground_truth)
        reason = result.reasons.get(metric) or NO_AP_INTERVAL
        rows.append(metric_row(metric=metric, value=result.stats[metric], n=n, reason=reason, **at))
    if group != "all":
        return rows
    for r in result.by_size.iter_rows(named=True):
        about = {"group": _SIZE_GROUP[r["definition"]], "level": r["level"], "n": r["n"], "method": study.coco}
        reason = r["reason"] or NO_AP_INTERVAL
        rows += [metric_row(metric=m, value=r[m], reason=reason, **about) for m in ("ap", "ap50")]
    if result.by_category.height > 1:
        for r in result.by_category.iter_rows(named=True):
            about = {"group": "category", "level": r["category"], "n": r["n"], "method": study.coco}
            rows += [
                metric_row(metric=m, value=r[m], reason=r["reason"] or NO_AP_INTERVAL, **about) for m in ("ap", "ap50")
            ]
    warnings = enumerate(result.warnings, start=1)
    return rows + [
        metric_row(metric="warning", group="warning", level=str(i), method=study.coco, reason=w) for i, w in warnings
    ]


def mean_iou_row(matches: pl.DataFrame, method: str) -> dict[str, Any]:
    """Mean overlap of the hits, in (0, 1], higher is better; null without a hit."""
    hits = matches.filter(pl.col("outcome") == "tp")["iou"]
    reason = None if len(hits) else "no hit"
    return metric_row(
        metric="mean_iou", value=hits.mean() if len(hits) else None, n=len(hits), method=method, reason=reason
    )


def max_f1_rows(study: Scored, name: str, everything: pl.DataFrame, rows: Rows) -> Rows:
    """Counts and shares at the confidence with the highest F1, and a warning where AP50 contradicts it."""
    val = study.predictions.filter(pl.col("model") == name).join(
        study.elsewhere.select("frame_id"), on="frame_id", how="semi"
    )
    elsewhere = study.match([name], study.elsewhere) if val.height else None
    point = scores.at_chosen_confidence(everything, elsewhere)
    oracle = (
        "oracle: chosen on the frames that are scored" if point.chosen == scores.ORACLE else f"chosen on {point.chosen}"
    )
    method = f"iou={study.settings.iou:g} max_f1 {oracle}"
    reasons, found, birds = point.reasons(), point.tp + point.fp, point.tp + point.fn
    basis = {"precision": found, "recall": birds}
    out = [
        metric_row(
            metric=key,
            value=None if value is None else float(value),
            n=basis.get(key, found + point.fn),
            method=method,
            reason=reasons.get(key),
        )
        for key, value in point.as_dict().items()
        if key != "iou"
    ]
    ap50 = next((r["value"] for r in rows if r["metric"] == "ap50" and r["group"] == "all"), None)
    one_class = everything["category"].n_unique() == 1 or study.settings.class_agnostic
    if point.chosen == scores.ORACLE and study.settings.iou == 0.5 and one_class:
        warning = scores.max_f1_warning(point.f1, ap50)
        if warning:
            out.append(metric_row(metric="warning", group="warning", level="max_f1", method=method, reason=warning))
    return out


def _split_rows(study: Scored, found: pl.DataFrame, frames: pl.DataFrame, matches: pl.DataFrame) -> Rows:
    rows: Rows = []
    if len(study.settings.splits) < 2:
        return rows
    for split in study.settings.splits:
        part = frames.filter(pl.col("split") == split)
        at = {"group": "split", "level": split}
        if part.is_empty():
            why = "no frame of this split was labelled or looked at"
            rows.append(metric_row(metric="ap", n=0, method=study.coco, reason=why, **at))
            continue
        rows += ap_rows(study, found, part, **at) + shares(_on(matches, part), part, method=study.method, **at)
    return rows


def _thinned_rows(study: Scored, found: pl.DataFrame, frames: pl.DataFrame, matches: pl.DataFrame) -> Rows:
    gap = thinning_distance(study.frames, study.settings.thin_s)
    if not gap:
        return []
    part = thin(frames, gap)
    at = {"group": "thinned", "level": f"{gap:g} s"}
    if part.is_empty():
        why = "no frame has a time: how far frames are apart is unknown"
        return [metric_row(metric="ap", n=0, method=study.coco, reason=why, **at)]
    n = metric_row(metric="n_frames", value=float(part.height), n=frames.height, method="frames kept", **at)
    return [n, *ap_rows(study, found, part, **at), *shares(_on(matches, part), part, method=study.method, **at)]


def _on(matches: pl.DataFrame, frames: pl.DataFrame) -> pl.DataFrame:
    return matches.join(frames.select("frame_id"), on="frame_id", how="semi")


def human_rows(study: Scored) -> Rows:
    """The second labelling scored against the first, on frames that both looked at: what agreement can be expected."""
    second, frames = study.second_labels, study.frames
    if "second_label_state" in frames.columns:
        frames = frames.filter(pl.col("second_label_state").fill_null("unlabelled") != "unlabelled")
    else:
        frames = frames.join(second.select("frame_id"), on="frame_id", how="semi")
    if frames.is_empty():
        return [
            metric_row(model=HUMAN, metric="ap", n=0, method=study.coco, reason="no scored frame was labelled twice")
        ]
    birds = second.filter(~pl.col("is_ignored") & ~pl.col("is_crowd"))
    found = birds.with_columns(model=pl.lit(HUMAN), prediction_id="label_id", score=pl.lit(1.0))
    found = schemas.TABLES["predictions"].conform(found).select(list(schemas.TABLES["predictions"].dtypes))
    s = study.settings
    matches = match(study.labels, found, frames, iou=s.iou, conf=0.0, class_agnostic=s.class_agnostic, models=[HUMAN])
    method = f"iou={s.iou:g} second labels{study.agnostic}"
    rows = ap_rows(study, found, frames) + shares(matches, frames, method=method)
    rows.append(mean_iou_row(matches, method))
    rows.append(
        metric_row(metric="n_frames", value=float(frames.height), n=study.frames.height, method="labelled twice")
    )
    return _named(HUMAN, rows)
