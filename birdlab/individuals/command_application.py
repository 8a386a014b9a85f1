"""``birdlab score application``: frames, pecks, feeding rates and co-occurrence of every submitted combination."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import polars as pl

from birdlab.errors import EXIT_OK, ParameterError, Problem
from birdlab.individuals.errors import NOTHING, TOO_FEW
from birdlab.individuals.evaluate import MEASURES, PROTOCOL_NOTES, SUMMARY_KEYS, Evaluated, evaluate, summarise
from birdlab.individuals.human import NO_FRAMES, human_numbers
from birdlab.individuals.matching import documented_view
from birdlab.individuals.notices import notices
from birdlab.readers.chirp import Colony, read_colony

_FRAMES = ("frame_accuracy", "frame_precision", "track_accuracy", "n_boxes", "n_visits")
_F1 = ("feeding_precision", "feeding_recall", "feeding_f1", "feeding_f1_by_video_individual", "n_f1")
_HEADS = ("combination", "boxes", "visits", "F1", "rate error", "r", "n", "together error", "r", "n")


def score_command(args: argparse.Namespace) -> int:
    """Score one application set and print a table, or with ``--json`` one object.

    Raises:
        DataError: files missing or not as they should be (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    if args.fps is not None and not 0 < args.fps < float("inf"):
        raise ParameterError(Problem("bad_value", f"{args.fps:g}", "a frame rate above 0, Hz", key="--fps"))
    colony = read_colony(args.dataset, args.inference, fps=args.fps)
    found = evaluate(colony, protocol=args.protocol)
    report = as_json(colony, found, protocol=args.protocol)
    if args.json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        sys.stdout.write(printed(report))
    return EXIT_OK


def as_json(colony: Colony, found: Evaluated, *, protocol: str) -> dict[str, Any]:
    """The result as plain JSON types; see the README for the keys."""
    people = human_numbers(colony, protocol=protocol).with_columns(pl.col("measure").cast(pl.String)).to_dicts()
    human: dict[str, Any] | None = None
    if people:
        told = summarise(people)
        human = {name: _measure(told, name) for name in MEASURES}
        human |= {"frame_accuracy": None, "reasons": {"frame_accuracy": NO_FRAMES}}
    return {
        "protocol": protocol,
        "n_videos": colony.videos.height,
        "combinations": [_combination(row) for row in found.summary.to_dicts()],
        "human": human,
        "protocol_notes": PROTOCOL_NOTES,
        "notices": notices(colony, documented_view(colony)).to_dicts(),
    }


def _combination(row: dict[str, Any]) -> dict[str, Any]:
    out = {k: row[k] for k in ("tracker", "model", "identity", *_FRAMES, *_F1)}
    for name in ("frame_accuracy", "track_accuracy", "feeding_f1", "feeding_f1_by_video_individual"):
        ends = [row[f"{name}_{end}"] for end in ("lo", "hi")]
        out[f"{name}_ci"] = None if None in ends else ends
    out |= {name: _measure(row, name) for name in MEASURES}
    out |= {k: row[k] for k in ("complete", "missing_videos", "videos")}
    reasons = {k: "nothing to divide by" for k in (*_FRAMES[:3], *_F1[:4]) if row[k] is None}
    if row["protocol"] == "reference" and "frame_precision" in reasons:
        reasons["frame_precision"] = "the authors' script has no precision of boxes"
    reasons |= {f"{k}_ci": row[f"{k}_no_ends"] for k in _F1[2:4] if row[f"{k}_no_ends"]}
    for name in MEASURES:
        reasons |= {f"{name}.{k}": _why(row, name, k) for k in SUMMARY_KEYS if row[f"{name}_{k}"] is None}
    return out | {"reasons": reasons}


def _why(row: dict[str, Any], name: str, key: str) -> str:
    """Why one number of :func:`birdlab.individuals.errors.error_summary` is null."""
    n, videos, reason = (row[f"{name}_{k}"] for k in ("n", "n_clusters", "reason"))
    if n == 0:
        return NOTHING
    if key in ("mae_lo", "mae_hi"):
        return (
            "one video: nothing can be said about another"
            if videos < 2
            else "the mean error is the same in every video"
        )
    if key == "r":
        return str(reason)
    if key.endswith("_within"):
        correlated = key in ("r_within", "ccc_within")
        return "too few rows within videos" if n <= videos + correlated else "one side does not vary within videos"
    if key == "ccc":
        return TOO_FEW if n < 3 else "both sides are the same constant"
    return "one row: nothing varies"


def _measure(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: row[f"{name}_{k}"] for k in (*SUMMARY_KEYS, "n", "n_clusters", "reason")}


def printed(report: dict[str, Any]) -> str:
    """The result as a table of text."""
    rows = [_HEADS]
    for c in report["combinations"]:
        name = f"{c['identity']} · {c['tracker']} · {c['model']}" + ("" if c["complete"] else " (incomplete)")
        rows.append((name, _n(c["frame_accuracy"]), _n(c["track_accuracy"]), _n(c["feeding_f1"]), *_cells(c)))
    if report["human"]:
        rows.append(("a person", "–", "–", "–", *_cells(report["human"])))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells))
    told = []
    for notice in report["notices"]:
        count = f" ({notice['n']:,})" if notice["n"] else ""
        told.append(f"note: {notice['message']}{count}")
    for c in report["combinations"]:
        if not c["complete"]:
            told.append(f"note: {c['identity']} · {c['tracker']} · {c['model']} lacks {', '.join(c['missing_videos'])}")
    videos = "1 video" if report["n_videos"] == 1 else f"{report['n_videos']} videos"
    head = (
        f"protocol {report['protocol']}, {videos}; boxes, visits: share right; F1: pecks by the second; "
        "errors: mean, in pecks/min and share of the video"
    )
    return "\n".join([head, *lines, *told]) + "\n"


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    rate, pair = found["feeding_rate"], found["co_occurrence"]
    return (
        _n(rate["mean_abs_error"]),
        _n(rate["r"]),
        str(rate["n"]),
        _n(pair["mean_abs_error"]),
        _n(pair["r"]),
        str(pair["n"]),
    )


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
