"""Every run of a study: scores under four rules for ties, species, curves, when and where, what was said instead."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.errors import BirdlabError, DataError, Problem
from birdlab.metrics import metric_frame, metric_row
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.foreign_run import MAP_NOT_USED, layout_of, read_foreign
from birdlab.readers.run_write import write_run
from birdlab.readers.runfile import read_run
from birdlab.recipe.soundscapes import SoundRun, Soundscapes
from birdlab.soundscapes.calibrate import BINS, calibration
from birdlab.soundscapes.coded import Coded, Truth
from birdlab.soundscapes.compare import BOARD, leaderboard, paired_differences, species_differences
from birdlab.soundscapes.compare import PAIRS as DIFFERENCES
from birdlab.soundscapes.compare import SPECIES as SPECIES_DIFFERENCES
from birdlab.soundscapes.confusers import PAIRS as INSTEAD
from birdlab.soundscapes.confusers import said_instead
from birdlab.soundscapes.curves import POINTS, best_f1, pr_curves
from birdlab.soundscapes.events import CLASSES as EVENTS
from birdlab.soundscapes.events import event_scores
from birdlab.soundscapes.inputs import place, section_of
from birdlab.soundscapes.levels import class_levels
from birdlab.soundscapes.named import NAMED, auroc, named_rows, named_scores
from birdlab.soundscapes.panels import PANELS, panels
from birdlab.soundscapes.published import published
from birdlab.soundscapes.resample import (
    Resampled,
    class_intervals,
    cmap_estimate,
    resample_run,
    rmap_interval,
    segment_clusters,
)
from birdlab.soundscapes.scores import RULES, run_scores
from birdlab.soundscapes.thresholds import threshold_at
from birdlab.soundscapes.truth import code_truth
from birdlab.stats import one_thread

if TYPE_CHECKING:
    from birdlab.study import Run

#: Points of a precision-recall curve that is drawn.
POINTS_DRAWN = 60
SUFFIX = {"ap": "", "ap_pessimistic": "_pessimistic", "ap_expected": "_expected", "ap_step": "_step"}
SCORES = {
    "run": pl.String,
    **{f"{name}{suffix}": pl.Float64 for name in ("cmap", "rmap") for suffix in SUFFIX.values()},
    **{f"{name}_{end}": pl.Float64 for name in ("cmap", "rmap") for end in ("lo", "hi")},
    "gap": pl.Float64, "n_classes": pl.Int64, "n_segments": pl.Int64, "n_clusters": pl.Int64, "how": pl.String,
    "ece": pl.Float64, "event_f1": pl.Float64, "event_method": pl.String, "reason": pl.String,
    "rmap_reason": pl.String,
}  # fmt: skip


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables of 08 that come from runs.

    Raises:
        DataError: run files that cannot be scored: the problems of all runs, with their lines.
    """
    section = section_of(run)
    recordings = run.table("soundscape_recordings")
    classes = run.table("soundscape_class_list")["class_id"].to_list()
    truth = code_truth(run.table("annotations"), recordings, classes)
    made: dict[str, list[pl.DataFrame]] = {}
    rows: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    found: list[Resampled] = []
    notices: list[Notice] = []
    about: list[dict[str, Any]] = []
    problems: list[Problem] = []
    with one_thread():
        clusters = segment_clusters(truth, recordings, by=section.cluster)
        for spec in section.runs:
            try:
                coded, told = read_one(run, spec, truth, section)
            except BirdlabError as error:
                problems += error.problems or [
                    Problem("unusable", str(error), "a run that can be scored", record=spec.name)
                ]
                continue
            if problems:
                continue
            notices += told
            about.append(_about(spec, coded))
            drawn = resample_run(truth, coded, clusters, n_resamples=section.n_resamples, seed=run.recipe.seed)
            found.append(drawn)
            for name, frame in _of_run(truth, coded, drawn, recordings, section).items():
                made.setdefault(name, []).append(frame)
            scores.append(_scores(truth, coded, drawn, clusters, section))
            notices += [n for n in _remarks(coded.name, run_scores(truth, coded)["warnings"]) if n not in notices]
            rows += _metric_rows(scores[-1]) + named_rows(made["soundscape_named"][-1])
        if problems:
            raise DataError(problems)
        runs = pl.DataFrame(about, schema=RUNS)
        board = leaderboard(runs, {s["run"]: s["cmap"] for s in scores})
        pairs = paired_differences(found)
        first_two = _leaders(board, found)
        species = species_differences(*first_two) if len(first_two) == 2 else pl.DataFrame(schema=SPECIES_DIFFERENCES)
    schemas = {"soundscape_classes": None, "soundscape_named": NAMED, "soundscape_pr": POINTS, "soundscape_calibration": BINS,
               "soundscape_instead": INSTEAD, "soundscape_panels": PANELS, "soundscape_events": EVENTS}  # fmt: skip
    metrics = metric_frame(row | {"dataset": run.recipe.name} for row in rows)
    return {
        **{
            name: pl.concat(made[name]) if name in made else pl.DataFrame(schema=schema)
            for name, schema in schemas.items()
        },
        "soundscape_runs": runs,
        "soundscape_scores": pl.DataFrame(scores, schema=SCORES),
        "soundscape_board": board,
        "soundscape_pairs": pairs.cast(DIFFERENCES) if pairs.height else pl.DataFrame(schema=DIFFERENCES),
        "soundscape_species_pairs": species,
        "soundscape_run_notices": notice_table(notices),
        "metrics_soundscapes": pl.concat([metrics, published(section.published)]),
    }


RUNS = {
    "run": pl.String, "team": pl.String, "assisted": pl.Boolean, "external_data": pl.Boolean, "description": pl.String,
    "file": pl.String, "n_rows": pl.Int64,
}  # fmt: skip


def read_one(run: Run, spec: SoundRun, truth: Truth, section: Soundscapes) -> tuple[Coded, list[Notice]]:
    """One run of the recipe as it is scored, and what was remarked.

    A file in another layout (BirdNET's, a wide submission) is first written as a run file of the official one into
    ``<run>/soundscape_runs/``: what is scored is what could be submitted.
    """
    notices: list[Notice] = []
    if spec.weights:
        made = run.table("sound_runs").filter(pl.col("run") == spec.name)
        path = run.dir / made["file"][0]
        told = run.table("sound_notices").filter(pl.col("model") == spec.name)
        notices += [Notice(r["code"], f"{spec.name}: {r['message']}", int(r["n"] or 0)) for r in told.to_dicts()]
    else:
        path = place(run, spec.file or "")
        layout = layout_of(path)
        if layout != "run":
            recordings = run.table("soundscape_recordings")
            labels = place(run, spec.label_map) if spec.label_map else None
            most = section.max_classes
            found = read_foreign(path, layout, truth=truth, recordings=recordings, label_map=labels, max_classes=most)
            notices += found.notices
            path = run.dir / "soundscape_runs" / f"{spec.name}.txt"
            write_run(found.table, path)
        elif spec.label_map:
            notices.append(Notice("label_map_not_used", f"{spec.name}: {MAP_NOT_USED}", 1))
    coded = read_run(path, truth, name=spec.name, lenient=section.lenient, max_classes=section.max_classes)
    return coded, [*notices, *_remarks(spec.name, coded.warnings)]


def _remarks(name: str, warnings: Iterable[dict[str, Any]]) -> list[Notice]:
    return [Notice(w["code"], f"{name}: {w['message']}", int(w.get("n") or 0)) for w in warnings]


def _about(spec: SoundRun, coded: Coded) -> dict[str, Any]:
    file = Path(spec.file or spec.weights or "").name
    told = {"assisted": spec.assisted, "external_data": spec.external_data, "description": spec.description or None}
    return {"run": spec.name, "team": spec.team or spec.name, **told, "file": file, "n_rows": len(coded.score)}


def _of_run(
    truth: Truth, coded: Coded, drawn: Resampled, recordings: pl.DataFrame, section: Soundscapes
) -> dict[str, pl.DataFrame]:
    """The tables of one run."""
    instead = said_instead(truth, coded)
    events = event_scores(truth, coded, collar_s=section.collar_s)
    return {
        "soundscape_classes": class_table(truth, coded, drawn, instead.species, target=section.target_precision),
        "soundscape_named": named_scores(truth, coded),
        "soundscape_pr": pr_curves(truth, coded, max_points=POINTS_DRAWN),
        "soundscape_calibration": calibration(truth, coded).bins,
        "soundscape_instead": instead.pairs,
        "soundscape_panels": panels(truth, coded, recordings),
        "soundscape_events": events.classes,
    }


def class_table(truth: Truth, coded: Coded, drawn: Resampled, species: pl.DataFrame, *, target: float) -> pl.DataFrame:
    """Table ``soundscape_classes`` of one run: one row per class of the ground truth."""
    from birdlab import schemas

    found = run_scores(truth, coded)["classes"].with_columns(pl.lit(coded.name).alias("run"))
    ends = class_intervals(drawn).select("class_id", "lo", "hi", "reason")
    heard = _recordings_of(truth)
    rows = []
    for row, (_, levels) in zip(found.to_dicts(), class_levels(truth, coded), strict=True):
        at, best = threshold_at(levels, target), best_f1(levels)
        more = {"auroc": auroc(levels), "best_f1": best.f1, "best_f1_at": best.at}
        more |= {k: getattr(at, k) for k in ("threshold", "precision_at", "precision_lo", "precision_hi", "recall_at")}
        rows.append(row | more | {"n_recordings": heard[row["class_id"]], "threshold_reason": at.reason})
    # Typed as in the table: where no species has a reason there is nothing to infer a type from.
    typed = {**schemas.TABLES["soundscape_classes"].dtypes, "threshold_reason": pl.String}
    if not rows:
        return pl.DataFrame(schema=typed)
    frame = pl.DataFrame(rows, schema={name: typed[name] for name in rows[0]})
    frame = frame.join(ends, on="class_id", how="left", maintain_order="left").join(
        species.select("class_id", "said_instead", "n_said_instead"), on="class_id", how="left", maintain_order="left"
    )
    return schemas.TABLES["soundscape_classes"].conform(frame)


def _recordings_of(truth: Truth) -> dict[str, int]:
    """Recordings in which each class is heard."""
    import numpy as np

    media = np.searchsorted(truth.grid.offsets, truth.seg, side="right") - 1
    pairs = np.unique(np.stack([truth.cls, media]), axis=1)[0]
    counts = np.bincount(pairs, minlength=len(truth.classes))
    return {name: int(n) for name, n in zip(truth.classes, counts, strict=True)}


def _scores(truth: Truth, coded: Coded, drawn: Resampled, clusters: Any, section: Soundscapes) -> dict[str, Any]:
    """One row of ``soundscape_scores``."""
    found, at = run_scores(truth, coded), cmap_estimate(drawn)
    segments = found["segments"]
    ends = rmap_interval(segments["ap"].to_numpy(), segments["segment"].to_numpy(), clusters)
    events = event_scores(truth, coded, collar_s=section.collar_s)
    out = {"run": coded.name, **{k: found[k] for k in found if k.startswith(("cmap", "rmap"))}}
    out |= {"cmap_lo": at.lo, "cmap_hi": at.hi, "rmap_lo": ends.lo, "rmap_hi": ends.hi}
    gap = None if found["cmap"] is None else found["cmap"] - found["cmap_pessimistic"]
    out |= {"gap": gap, "n_classes": found["n_classes"], "n_segments": found["n_segments"], "n_clusters": at.n_clusters}
    out |= {
        "how": at.method,
        "ece": calibration(truth, coded).ece,
        "event_f1": events.f1_micro,
        "event_method": events.method,
    }
    return {k: out.get(k) for k in SCORES} | {"reason": at.reason, "rmap_reason": ends.reason}


def _metric_rows(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``metrics`` of one run: c-mAP and r-mAP under every rule for ties, calibration, events."""
    out = []
    for name, n, why in (("cmap", "n_classes", "reason"), ("rmap", "n_segments", "rmap_reason")):
        for rule, suffix in zip(RULES, SUFFIX.values(), strict=True):
            ends = (
                {"lo": row[f"{name}_lo"], "hi": row[f"{name}_hi"], "n_clusters": row["n_clusters"]}
                if not suffix
                else {}
            )
            method = {"ap": "official", "ap_pessimistic": "pessimistic", "ap_expected": "expected", "ap_step": "step"}[
                rule
            ]
            value = row[f"{name}{suffix}"]
            reason = row[why] if not suffix or value is None else None
            out.append(
                metric_row(model=row["run"], metric=name, method=method, value=value, n=row[n], reason=reason, **ends)
            )
    out.append(metric_row(model=row["run"], metric="sound_ece", value=row["ece"], method="ten bins, listed rows"))
    out.append(metric_row(model=row["run"], metric="event_f1", value=row["event_f1"], method=row["event_method"]))
    return out


def _leaders(board: pl.DataFrame, found: list[Resampled]) -> list[Resampled]:
    """The two runs with the highest c-mAP, whatever division they are in."""
    best = board.drop_nulls("cmap").sort("cmap", descending=True, maintain_order=True)["run"].head(2).to_list()
    by = {r.run: r for r in found}
    return [by[name] for name in best]


__all__ = ["BOARD", "RUNS", "SCORES", "build", "class_table", "read_one"]
