"""Made frames of the figures of individuals and behaviour, of several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from birdlab.figures import application, application_lanes, behaviour, error_budget

F = pl.Float64
NAMES = [
    f"{i} · {t} · {m}"
    for m in ("C3D", "SlowFast")
    for t in ("BoTSORT", "OCSORT")
    for i in ("CORVID", "MegaDesc", "rings")
]
LONG = "MegaDescriptor-L-384-finetuned · a_tracker_with_underscores_v2 · VideoMAE-base-kinetics"
VIDEOS = [f"2021_nest{i:02d}" for i in range(4)]


def combinations(n: int) -> list[str]:
    """``n`` names; from four on one of them is long."""
    return NAMES[:n] if n < 4 else [*NAMES[:2], LONG, *NAMES[2 : n - 1]]


def birds(n: int) -> list[str]:
    return [f"b{i:02d}a" for i in range(n)]


def rates(n: int, n_birds: int, *, human: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(n)
    rows = []
    for k, c in enumerate([*combinations(n), *(["human"] if human else [])]):
        for b in birds(n_birds):
            for v in VIDEOS:
                truth = float(rng.gamma(2, 3))
                wrong = float(rng.normal(0.3 * k, 0.3 if c == "human" else 1.5 + 0.2 * k))
                undefined = rng.random() < 0.03
                rows.append((c, v, [b], truth, None if undefined else max(0.0, truth + wrong)))
    schema = {
        "combination": pl.String,
        "video_id": pl.String,
        "subject": pl.List(pl.String),
        "truth": F,
        "predicted": F,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def matrix(n_birds: int, *, undefined: float = 0.2) -> pl.DataFrame:
    rng, names = np.random.default_rng(n_birds), birds(n_birds)
    rows = []
    for i in range(n_birds):
        for j in range(i + 1, n_birds):
            truth = float(rng.beta(1, 3))
            near = float(np.clip(truth + rng.normal(0, 0.12), 0, 1))
            gone = rng.random() < undefined
            rows.append((names[i], names[j], None if gone else truth, None if gone else near))
    return pl.DataFrame(
        rows, schema={"bird_a": pl.String, "bird_b": pl.String, "truth": F, "predicted": F}, orient="row"
    )


def lanes(n_birds: int, *, length_s: float = 600.0) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n_birds), []
    for b in birds(n_birds):
        start = 0.0
        while start < length_s:
            start += float(rng.exponential(40))
            end = min(length_s, start + float(rng.exponential(60)))
            if start >= length_s:
                break
            rows.append((b, "truth", start, end, "present"))
            rows.append((b, "predicted", start + 1, end, "present"))
            if rng.random() < 0.3:
                rows.append((b, "predicted", start + 0.4 * (end - start), start + 0.7 * (end - start), "other"))
            for at in rng.uniform(start, end, int((end - start) / 8)):
                rows.append((b, "truth", float(at), float(at) + 0.2, "peck"))
                rows.append((b, "predicted", float(at // 1), float(at // 1) + 1, "peck"))
            start = end
    schema = {"bird": pl.String, "source": pl.String, "start_s": F, "end_s": F, "kind": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def budget(n: int, *, one_video: bool = False) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n), []
    for c in combinations(n):
        identity, tracker, model = c.split(" · ")
        for measure, scale in (("pecks_per_min", 1.2), ("co_occurrence_frac", 0.05)):
            shares = rng.normal(0.8, 0.6, 4) * scale
            if measure == "co_occurrence_frac":
                shares[3] = 0.0
            total = float(abs(shares.sum()))
            for stage, share in zip(error_budget.STAGES, shares, strict=True):
                half = 0.4 * scale
                rows.append({
                    "tracker": tracker, "model": model, "identity": identity, "measure": measure, "stage": stage,
                    "share": float(share), "lo": None if one_video else float(share - half),
                    "hi": None if one_video else float(share + half), "total": total, "fraction": float(share) / total,
                    "reason": "one video: no interval over videos" if one_video else None,
                })  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"lo": F, "hi": F, "reason": pl.String})


def across(n: int, tasks: tuple[str, ...] = ("frame_accuracy", "hota", "feeding_f1")) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n), []
    for measure, scale in (("pecks_per_min", 3.0), ("co_occurrence_frac", 0.12)):
        for c in combinations(n):
            quality = float(rng.uniform(0.3, 0.9))
            error = scale * (1.2 - quality) + float(rng.normal(0, 0.1 * scale))
            rows += [(t, measure, c, quality + float(rng.normal(0, 0.05)), max(error, 0.0), None, None) for t in tasks]
        rows.append((None, measure, "human", None, 0.06 * scale, None, None))
        rows.append((None, measure, "random", None, 1.1 * scale, 0.95 * scale, 1.25 * scale))
        if measure == "pecks_per_min":
            rows.append((None, measure, "mean_rate", None, 1.05 * scale, None, None))
        else:
            rows.append((None, measure, "always_present", None, 5 * scale, None, None))
    schema = {
        "task": pl.String,
        "measure": pl.String,
        "combination": pl.String,
        "value": F,
        "error": F,
        "lo": F,
        "hi": F,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def draws(n: int) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n), []
    metrics = ("frame_accuracy", "feeding_rate_mean_abs_error", "co_occurrence_mean_abs_error")
    for group in dict.fromkeys(" · ".join(c.split(" · ")[1:]) for c in combinations(n)):
        for metric, level in zip(metrics, (0.33, 4.0, 0.2), strict=True):
            rows += [(metric, group, None, i, float(rng.normal(level, 0.1 * level))) for i in range(200)]
            rows += [(metric, group, c, None, level * float(rng.uniform(0.4, 2.2)))
                     for c in combinations(n) if c.endswith(group)]  # fmt: skip
    schema = {"metric": pl.String, "group": pl.String, "combination": pl.String, "draw": pl.Int64, "value": F}
    return pl.DataFrame(rows, schema=schema, orient="row")


def tolerance(n: int) -> pl.DataFrame:
    rows = []
    for k, c in enumerate([*combinations(n), "human"]):
        for t in np.linspace(0, 3, 31):
            for corrected, shift in ((False, 0.6), (True, 0.0)):
                rows.append(
                    (c, float(t), float((0.9 - 0.05 * k) / (1 + np.exp(-4 * (t - shift - 0.1 * k)))), corrected)
                )
    schema = {"source": pl.String, "tolerance_s": F, "f1": F, "corrected": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


MODELS = ["heron", "wren", "organisation/a-very-long-model-name-7B-instruct", "magpie", "jay", "lark", "rook", "crow",
          "dunnock", "siskin", "linnet", "twite"]  # fmt: skip
BEHAVIOURS = ["Peck", "Submissive", "Other", "Preening a neighbour", *(f"behaviour {i}" for i in range(12))]


def confusion(n: int, n_labels: int = 3, *, answers: bool = True) -> pl.DataFrame:
    rng, labels, rows = np.random.default_rng(n), BEHAVIOURS[:n_labels], []
    for model in MODELS[:n]:
        for i, t in enumerate(labels):
            given = [*labels, *([] if answers else [None])]
            p = rng.dirichlet([4 if g == t else 1 for g in given])
            none = i == 2
            rows += [(model, t, g, None if none else float(v), 0 if none else 1388 // (i + 1))
                     for g, v in zip(given, p, strict=True)]  # fmt: skip
    schema = {"model": pl.String, "truth": pl.String, "predicted": pl.String, "share": F, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def pck(n: int) -> pl.DataFrame:
    t = np.linspace(0, 20, 81)
    parts = [
        pl.DataFrame({"model": m, "threshold_px": t, "share": 1 - np.exp(-t / (2 + i))})
        for i, m in enumerate(MODELS[:n])
    ]
    return pl.concat(parts)


def keypoints(
    n: int, n_points: int = 13, scenes: tuple[str, ...] = ("all", "on the feeder", "in the grass")
) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n), []
    for model in MODELS[:n]:
        for k in range(n_points):
            for scene in scenes:
                median = float(rng.uniform(2, 9))
                gone = k == 4 and scene != "all"
                rows.append(
                    (model, f"left_keypoint_{k}", scene, None if gone else median, None if gone else median * 3, 40)
                )
    schema = {"model": pl.String, "keypoint": pl.String, "scene": pl.String, "median_px": F, "p95_px": F, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def tracking(n: int, *, negative: bool = False) -> pl.DataFrame:
    rng, rows = np.random.default_rng(n), []
    for tracker in MODELS[:n]:
        each = rng.uniform(0.35, 0.9, (len(VIDEOS), 5))
        if negative:
            each[:, 4] -= 0.9
        for v, values in zip(VIDEOS, each, strict=True):
            rows.append(
                {"tracker": tracker, "video_id": v, **dict(zip(behaviour.TRACKING, map(float, values), strict=True))}
            )
        row: dict[str, Any] = {"tracker": tracker, "video_id": None}
        for m, value in zip(behaviour.TRACKING, each.mean(axis=0), strict=True):
            row |= {m: float(value), f"{m}_lo": float(value) - 0.1, f"{m}_hi": min(1.0, float(value) + 0.1)}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


Case = tuple[str, Callable[..., Any], pl.DataFrame, dict[str, Any]]


def cases() -> Iterator[Case]:
    """Name, function, frame and options of every drawing."""
    for n, n_birds in ((1, 1), (2, 5), (4, 12), (4, 35), (12, 8)):
        about = {"models": combinations(n)}
        yield f"rates_{n}_{n_birds}", application.fig_rates, rates(n, n_birds), about
        yield f"birds_{n}_{n_birds}", application.fig_error_by_individual, rates(n, n_birds), about
    for n_birds in (2, 5, 10, 20, 35):
        yield f"matrix_{n_birds}", application.fig_co_occurrence, matrix(n_birds), {}
        yield f"lanes_{n_birds}", application_lanes.fig_lanes, lanes(n_birds), {}
    yield "lanes_short", application_lanes.fig_lanes, lanes(1, length_s=90.0), {"models": NAMES, "model": NAMES[1]}
    for n in (1, 2, 4, 12):
        about = {"models": combinations(n)}
        yield f"budget_{n}", error_budget.fig_error_budget, budget(n, one_video=n == 2), about
        yield f"across_{n}", application.fig_task_against_biology, across(n), about
        yield f"random_{n}", application.fig_random, draws(n), about
        yield f"tolerance_{n}", application.fig_tolerance, tolerance(n), about
    yield "across_one_task", application.fig_task_against_biology, across(4, ("hota",)), {"models": combinations(4)}
    for n in (1, 2, 4, 12):
        about = {"models": MODELS[:n]}
        yield f"confusion_{n}", behaviour.fig_confusion, confusion(n, answers=n != 2), about
        yield f"pck_{n}", behaviour.fig_pck, pck(n), about
        yield f"keypoints_{n}", behaviour.fig_keypoint_error, keypoints(n), about
        yield f"tracking_{n}", behaviour.fig_tracking, tracking(n, negative=n == 2), about
    yield "confusion_many", behaviour.fig_confusion, confusion(2, 12), {"models": MODELS[:2]}
