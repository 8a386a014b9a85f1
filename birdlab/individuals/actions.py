"""How well behaviours of clips are named: accuracy beside the commonest behaviour, macro F1 over a declared list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.individuals.jackknife import leave_one_out
from birdlab.metrics import metric_row
from birdlab.readers.files import Notice
from birdlab.recipe.individuals import wrong_list
from birdlab.stats import new_sessions

NOTHING = "no clip"
NOT_ABOVE = "not above majority"


def check_list(labels: Sequence[str]) -> None:
    """Refuse a list of behaviours that cannot be one.

    Raises:
        ParameterError: fewer than two, an empty one, one twice (in any case).
    """
    if wrong := wrong_list(labels):
        raise ParameterError(Problem("bad_labels", *wrong, key="labels"))


def check_labels(clips: pl.DataFrame, labels: Sequence[str], *, source: str = "action_clips") -> pl.DataFrame:
    """The clips with every behaviour spelt as in the list.

    Raises:
        DataError: behaviours, by hand or predicted, that are not in the list in any case; all of them named.
    """
    known = {label.strip().casefold(): label for label in labels}
    used: dict[str, dict[str, str]] = {}
    problems = []
    for column in ("truth", "predicted"):
        said = clips[column].drop_nulls().unique().sort().to_list()
        used[column] = {v: known.get(v.strip().casefold(), "") for v in said}
        strange = [v for v in said if not used[column][v]]
        if strange:
            models = clips.filter(pl.col(column).is_in(strange))["model"].unique().sort().to_list()
            by = f" by {', '.join(models)}" if column == "predicted" else " by hand"
            more = f" and {len(strange) - 8} more" if len(strange) > 8 else ""
            found = f"{', '.join(strange[:8])}{more}, named{by}"
            expected = f"one of {', '.join(labels)}"
            problems.append(Problem("unknown_behaviour", found, expected, "add it to labels", file=source, key=column))
    if problems:
        raise DataError(problems)
    return clips.with_columns(
        pl.col(c).replace_strict(used[c], default=None, return_dtype=pl.String) for c in ("truth", "predicted")
    )


def respelt(clips: pl.DataFrame, labels: Sequence[str]) -> list[Notice]:
    """What :func:`check_labels` spells differently: one notice per spelling.

    Args:
        clips: as read.
        labels: the declared list.
    """
    known = {label.strip().casefold(): label for label in labels}
    truth = clips.select("clip_id", pl.col("truth").alias("said")).unique()
    said = pl.concat([truth, clips.select("clip_id", pl.col("predicted").alias("said")).drop_nulls("said")])
    counts = said["said"].value_counts().sort("said").iter_rows()
    return [
        Notice("spelling", f"behaviour {v} taken as {known[v.strip().casefold()]}", n)
        for v, n in counts
        if v not in labels and v.strip().casefold() in known
    ]


def confusion(clips: pl.DataFrame, labels: Sequence[str]) -> np.ndarray:
    """Clips by truth (rows) and prediction (columns), (k, k + 1) int64; the last column: nothing was named."""
    code = {label: i for i, label in enumerate(labels)}
    out = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    for truth, predicted in clips.select("truth", "predicted").iter_rows():
        out[code[truth], code[predicted] if predicted is not None else len(labels)] += 1
    return out


def class_scores(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Precision, recall, F1 and support of each class, (k,); what has nothing to divide by is 0, as in scikit-learn.

    >>> class_scores(np.array([[1, 0, 0], [0, 0, 1]]))["f1"].tolist()
    [1.0, 0.0]
    """
    hit = np.diag(counts[:, :-1]).astype(float)
    said, there = counts[:, :-1].sum(axis=0), counts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = (np.where(n > 0, hit / np.maximum(n, 1), 0.0) for n in (said, there))
        f1 = np.where(said + there > 0, 2 * hit / np.maximum(said + there, 1), 0.0)
    return {"precision": precision, "recall": recall, "f1": f1, "support": there}


def score_actions(clips: pl.DataFrame, labels: Sequence[str]) -> dict[str, Any]:
    """Scores of one model.

    Args:
        clips: rows of ``action_clips`` of one model, spelt as in ``labels`` (:func:`check_labels`).
        labels: the declared list; macro F1 is the mean over all of it, and a behaviour that never occurs counts as 0.

    Returns:
        n, n_videos, accuracy with lo, hi (95 % for new videos, logit CR1), macro_f1 with lo, hi (leaving one video
        out), above_majority (whether the interval of the accuracy lies above the share of the commonest behaviour; null
        without an interval), classes, confusion (k, k + 1), reason. Null without a clip.

    >>> clips = pl.DataFrame({"video_id": ["v", "w"], "truth": ["Peck", "Other"], "predicted": ["Peck", "Other"]})
    >>> round(score_actions(clips, ["Peck", "Submissive", "Other"])["macro_f1"], 3)
    0.667
    """
    counts = confusion(clips, labels)
    n, per = int(counts.sum()), class_scores(counts)
    out: dict[str, Any] = {"n": n, "n_videos": clips["video_id"].n_unique(), "confusion": counts, "classes": per}
    out |= dict.fromkeys(("accuracy", "accuracy_lo", "accuracy_hi", "macro_f1", "macro_f1_lo", "macro_f1_hi"))
    out |= {"above_majority": None, "macro_f1_reason": None}
    if n == 0:
        return out | {"reason": NOTHING}
    videos = [confusion(part, labels) for _, part in clips.group_by("video_id", maintain_order=True)]
    ends = new_sessions([np.trace(c[:, :-1]) for c in videos], [c.sum() for c in videos], unit="video")
    out |= {"accuracy": float(np.trace(counts[:, :-1]) / n), "accuracy_lo": ends.lo, "accuracy_hi": ends.hi}
    out["above_majority"] = None if ends.lo is None else bool(ends.lo > counts.sum(axis=1).max() / n)
    stacked = np.stack(videos)
    lo, hi, reason = leave_one_out(lambda used: macro_f1(stacked[used].sum(axis=0)), len(videos), unit="video")
    out |= {"macro_f1": macro_f1(counts), "macro_f1_lo": _clip(lo), "macro_f1_hi": _clip(hi)}
    return out | {"reason": ends.reason, "macro_f1_reason": reason}


def macro_f1(counts: np.ndarray) -> float:
    """Mean F1 over all classes of the list."""
    return float(class_scores(counts)["f1"].mean())


def majority(clips: pl.DataFrame, labels: Sequence[str]) -> tuple[str | None, float | None]:
    """The commonest behaviour by hand (the first of the list among equals), and its share: what saying it always gives."""
    counts = {label: 0 for label in labels} | dict(clips["truth"].value_counts().iter_rows())
    if not clips.height:
        return None, None
    best = max(labels, key=lambda label: counts[label])
    return best, counts[best] / clips.height


def action_rows(clips: pl.DataFrame, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of ``metrics``: accuracy and macro_f1 per model, f1 per behaviour, majority_accuracy (model empty)."""
    rows = []
    first = clips.filter(pl.col("model") == clips["model"][0]) if clips.height else clips
    label, share = majority(first, labels)
    about = {"model": "", "metric": "majority_accuracy", "n": first.height}
    rows.append(metric_row(**about, value=share, method=f"always {label}", reason=None if label else NOTHING))
    for (model,), part in clips.filter(pl.col("model") != "").group_by("model", maintain_order=True):
        found = score_actions(part, labels)
        at = {"model": model, "n": found["n"], "n_clusters": found["n_videos"], "chance": share}
        reason = NOT_ABOVE if found["above_majority"] is False else None
        reason = "; ".join(text for text in (found["reason"], reason) if text) or None
        ends = {"lo": found["accuracy_lo"], "hi": found["accuracy_hi"], "reason": reason}
        rows.append(
            metric_row(**at, metric="accuracy", value=found["accuracy"], method="clips; new videos, logit CR1", **ends)
        )
        ends = {
            "lo": found["macro_f1_lo"],
            "hi": found["macro_f1_hi"],
            "reason": found["macro_f1_reason"] or (None if found["n"] else NOTHING),
        }
        method = f"over {', '.join(labels)}; leaving one video out"
        at["chance"] = None
        rows.append(metric_row(**at, metric="macro_f1", value=found["macro_f1"], method=method, **ends))
        for i, name in enumerate(labels):
            n = int(found["classes"]["support"][i])
            value = float(found["classes"]["f1"][i]) if found["n"] else None
            rows.append(
                metric_row(model=model, group="behaviour", level=name, metric="f1", value=value, n=n, method="clips")
            )
    return rows


def confusion_frame(clips: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Cells of the confusion of every model, for the figure.

    Returns:
        model, truth, predicted (null: the model names nothing, where that occurs), share of the clips of that truth (null
        without any), n clips of that truth.
    """
    rows = []
    for (model,), part in clips.group_by("model", maintain_order=True):
        counts = confusion(part, labels)
        shown = [*labels, None] if counts[:, -1].any() else list(labels)
        for i, truth in enumerate(labels):
            n = int(counts[i].sum())
            rows += [(model, truth, name, counts[i, j] / n if n else None, n) for j, name in enumerate(shown)]
    schema = {"model": pl.String, "truth": pl.String, "predicted": pl.String, "share": pl.Float64, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _clip(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, value))
