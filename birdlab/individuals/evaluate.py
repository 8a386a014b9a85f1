"""Every submitted combination of tracker, behaviour model and identity method under one protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.individuals import documented, reference
from birdlab.individuals.errors import NOTHING, POOLED, WITHIN, error_summary
from birdlab.individuals.jackknife import leave_one_out
from birdlab.individuals.matching import documented_view, first_overlapping, match_boxes

if TYPE_CHECKING:
    from birdlab.readers.chirp import Colony

MEASURES = {"feeding_rate": "pecks_per_min", "co_occurrence": "co_occurrence_frac"}
SUMMARY_KEYS = (*POOLED, *WITHIN, "mae_lo", "mae_hi")
_SHARES = ("frame_accuracy", "frame_precision", "track_accuracy")
_BOUNDED, _F1_MEANS = ("frame_accuracy", "track_accuracy"), ("feeding_f1", "feeding_f1_by_video_individual")
_ENDS = tuple(f"{name}_{end}" for name in (*_BOUNDED, *_F1_MEANS) for end in ("lo", "hi"))
_F1 = ("feeding_precision", "feeding_recall", *_F1_MEANS)
SUMMARY: dict[str, Any] = {
    "protocol": pl.String, "tracker": pl.String, "model": pl.String, "identity": pl.String, "complete": pl.Boolean,
    "videos": pl.List(pl.String), "missing_videos": pl.List(pl.String),
    "n_boxes": pl.Int64, "n_right": pl.Int64, "n_named": pl.Int64, "n_visits": pl.Int64, "n_visits_right": pl.Int64,
    **dict.fromkeys((*_SHARES, *_ENDS, *_F1), pl.Float64), "n_f1": pl.Int64, "note": pl.String,
    **{f"{name}_no_ends": pl.String for name in _F1_MEANS},
    **{f"{m}_{k}": pl.Float64 for m in MEASURES for k in SUMMARY_KEYS},
    **{f"{m}_{k}": t for m in MEASURES for k, t in (("n", pl.Int64), ("n_clusters", pl.Int64), ("reason", pl.String))},
}  # fmt: skip
#: What the two protocols do differently, one sentence per measure.
PROTOCOL_NOTES = {
    "frame_accuracy": (
        "documented: boxes matched one to one, IoU ≥ 0.5, the best first; reference: the first box in the file that covers "
        "more than half of the bird's, which may cover several birds"
    ),
    "feeding_rate": (
        "documented: pecks only, every bird, two tracks of one bird at one time count once; reference: every coded behaviour is "
        "a peck, only birds that have one are compared, and 25 frames are always a second"
    ),
    "co_occurrence": (
        "documented: also pairs that were only predicted, frames of the video only; reference: pairs of the truth, frames past "
        "the end too"
    ),
    "feeding_f1": (
        "documented: mean per bird, then over birds; undefined where nobody pecks; reference: mean over birds and videos, and "
        "birds that peck in every second or in none are dropped"
    ),
}


@dataclass(frozen=True)
class Evaluated:
    """``numbers``: table ``application``; ``summary``: one row per combination (:data:`SUMMARY`)."""

    numbers: pl.DataFrame
    summary: pl.DataFrame


def evaluate(colony: Colony, *, protocol: str = "documented") -> Evaluated:
    """Score every submitted combination.

    Args:
        colony: application set.
        protocol: ``documented`` (the paper's text, and birdlab's decisions where it is silent) or ``reference`` (what
            the authors' script does).

    Returns:
        Numbers per video and bird or pair, and their summaries. A combination that lacks videos is scored on those it
        has and marked. What is undefined is null with a reason.

    Raises:
        ValueError: an unknown protocol.
    """
    if protocol not in schemas.individuals.PROTOCOLS:
        raise ValueError(f"protocol {protocol!r}; expected documented or reference")
    view = documented_view(colony) if protocol == "documented" else colony
    rules = documented if protocol == "documented" else reference
    pairing = match_boxes if protocol == "documented" else first_overlapping
    rows: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for (tracker,), part in view.combinations.group_by("tracker", maintain_order=True):
        tracks = view.tracks.filter(pl.col("tracker") == tracker)
        pairs = pairing(view.boxes, tracks)
        tables = _Tables(view, tracks, str(tracker))
        for c in part.to_dicts():
            about = {"protocol": protocol} | {k: c[k] for k in ("tracker", "model", "identity")}
            mine = [about | row for row in tables.rows(rules.video_numbers, c)]
            of = pl.col("video_id").is_in(c["videos"])
            names = view.identities.filter((pl.col("tracker") == tracker) & (pl.col("identity") == c["identity"]) & of)
            hits = rules.box_hits(view.boxes.filter(of), tracks.filter(of), pairs.filter(of), names)
            rows += mine
            told = {k: c[k] for k in ("complete", "videos", "missing_videos")}
            summaries.append(about | told | hits | summarise(mine))
    return Evaluated(number_table(rows), pl.DataFrame(summaries, schema=SUMMARY))


def number_table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as the table ``application``."""
    return pl.DataFrame(rows, schema=schemas.TABLES["application"].dtypes)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of :data:`SUMMARY` from rows of one combination: errors per measure, F1 of pecks in seconds."""
    out: dict[str, Any] = {}
    for name, measure in MEASURES.items():
        mine = [r for r in rows if r["measure"] == measure and r["predicted"] is not None]
        columns = ([r[k] for r in mine] for k in ("truth", "predicted"))
        found = error_summary(*columns, group=[r["video_id"] for r in mine])
        out |= {f"{name}_{k}": found[k] for k in (*SUMMARY_KEYS, "n", "n_clusters", "reason")}
    f1 = [r for r in rows if r["measure"] == "feeding_f1"]
    by_row = bool(rows) and rows[0]["protocol"] == "reference"
    for name in ("precision", "recall"):
        out[f"feeding_{name}"] = _mean(f1, name, by_row=by_row)
    for name, by in zip(_F1_MEANS, (by_row, True), strict=True):
        out[name] = _mean(f1, "predicted", by_row=by)
        out[f"{name}_lo"], out[f"{name}_hi"], out[f"{name}_no_ends"] = _f1_ends(f1, by_row=by)
    out["n_f1"] = sum(r["predicted"] is not None for r in f1)
    return out


def _mean(rows: list[dict[str, Any]], key: str, *, by_row: bool) -> float | None:
    """Mean over rows, or first of each bird's rows and then over birds; what is undefined does not take part."""
    values: dict[str, list[float]] = {}
    for i, row in enumerate(rows):
        if row[key] is not None:
            values.setdefault(str(i) if by_row else row["subject"][0], []).append(row[key])
    means = [sum(v) / len(v) for v in values.values()]
    return sum(means) / len(means) if means else None


def _f1_ends(rows: list[dict[str, Any]], *, by_row: bool) -> tuple[float | None, float | None, str | None]:
    """95 % interval of the mean F1, one video left out at a time, cut at 0 and 1; or why there is none."""
    scored = [r for r in rows if r["predicted"] is not None]
    videos = list(dict.fromkeys(r["video_id"] for r in scored))

    def without(used: np.ndarray) -> float | None:
        kept = {videos[i] for i in used}
        return _mean([r for r in scored if r["video_id"] in kept], "predicted", by_row=by_row)

    lo, hi, reason = leave_one_out(without, len(videos))
    return (None if lo is None else max(0.0, lo)), (None if hi is None else min(1.0, hi)), reason


class _Tables:
    """The tables of one tracker cut into videos once, for all its combinations."""

    def __init__(self, view: Colony, tracks: pl.DataFrame, tracker: str) -> None:
        self.videos = view.videos.to_dicts()
        self.boxes, self.events, self.tracks = (_cut(f, "video_id") for f in (view.boxes, view.events, tracks))
        self.names = _cut(view.identities.filter(pl.col("tracker") == tracker), "identity", "video_id")
        self.windows = _cut(view.windows.filter(pl.col("tracker") == tracker), "model", "video_id")
        self.empty = {
            "boxes": view.boxes.clear(), "events": view.events.clear(), "tracks": tracks.clear(),
            "names": view.identities.clear(), "windows": view.windows.clear(),
        }  # fmt: skip

    def rows(self, numbers: Any, combination: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for video in self.videos:
            v = video["video_id"]
            if v not in combination["videos"]:
                continue
            yield from numbers(
                video,
                self.boxes.get((v,), self.empty["boxes"]),
                self.events.get((v,), self.empty["events"]),
                self.tracks.get((v,), self.empty["tracks"]),
                self.names.get((combination["identity"], v), self.empty["names"]),
                self.windows.get((combination["model"], v), self.empty["windows"]),
            )


def _cut(frame: pl.DataFrame, *keys: str) -> dict[tuple, pl.DataFrame]:
    return frame.partition_by(list(keys), as_dict=True, maintain_order=True)


__all__ = ["MEASURES", "NOTHING", "PROTOCOL_NOTES", "SUMMARY", "Evaluated", "evaluate", "number_table", "summarise"]
