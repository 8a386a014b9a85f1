"""``birdlab score tracking``: HOTA, IDF1, MOTA of MOT text files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import EXIT_OK, DataError, ParameterError, Problem
from birdlab.individuals.tracking import ALL, COUNTS, MEASURES, score_tracking
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.mot import read_mot

_SHOWN = ("hota", "deta", "assa", "idf1", "mota", "id_switches", "fragmentations")


def score_command(args: argparse.Namespace) -> int:
    """Score trackers and print a table, or with ``--json`` one object.

    Raises:
        DataError: files missing or not as they should be (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    if args.frames is not None and args.frames < 1:
        raise ParameterError(Problem("bad_value", str(args.frames), "frames, at least 1", key="--frames"))
    truth, notices = marked(videos_of(args.truth, "truth"), str(args.truth))
    trackers, problems = [], []
    for path in args.predictions:
        try:
            trackers.append((path.stem, _against(truth, path)))
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    names = [
        name if [n for n, _ in trackers].count(name) == 1 else str(path)
        for (name, _), path in zip(trackers, args.predictions, strict=True)
    ]
    report: dict[str, Any] = {
        "trackers": [scored(truth, found, n, frames=args.frames) for n, (_, found) in zip(names, trackers, strict=True)]
    }
    for name, (_, found) in zip(names, trackers, strict=True):
        if lost := [v for v in truth if v not in found]:
            text = f"videos without a file of {name} ({', '.join(lost[:6])}): scored as if it found nothing there"
            notices.append(Notice("no_file", text, len(lost)))
    report["notices"] = notice_table(notices).to_dicts()
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def marked(truth: dict[str, pl.DataFrame], source: str) -> tuple[dict[str, pl.DataFrame], list[Notice]]:
    """The truth without boxes whose seventh column is 0: MOTChallenge marks those that do not count so."""
    kept = {v: boxes.filter(pl.col("score") != 0) for v, boxes in truth.items()}
    if not (lost := sum(truth[v].height - kept[v].height for v in truth)):
        return truth, []
    text = "boxes by hand marked 0 in the seventh column, not to be considered: left out; who finds them is not excused"
    return kept, [Notice("not_considered", text, lost, source)]


def videos_of(path: Path, what: str) -> dict[str, pl.DataFrame]:
    """Boxes by video: a folder of text files, or one file.

    Raises:
        DataError: no file, or one that cannot be read; all of them in one error.
    """
    files = sorted(p for p in path.glob("*.txt") if not p.name.startswith(".")) if path.is_dir() else [path]
    if not files:
        raise DataError(Problem("no_files", "no .txt file", f"MOT text files of the {what}", file=str(path)))
    out, problems = {}, []
    for file in files:
        try:
            out[file.stem] = read_mot(file)
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    return out


def _against(truth: dict[str, pl.DataFrame], path: Path) -> dict[str, pl.DataFrame]:
    """A tracker's boxes under the names of the truth's videos; one file goes with one file."""
    found = videos_of(path, "tracker")
    if len(truth) == 1 and len(found) == 1:
        return {next(iter(truth)): next(iter(found.values()))}
    strange = sorted(set(found) - set(truth))
    if strange:
        expected = "the names of the truth's files: " + ", ".join(list(truth)[:6])
        raise DataError(Problem("unknown_video", ", ".join(strange[:6]), expected, file=str(path)))
    return found


def scored(
    truth: dict[str, pl.DataFrame], found: dict[str, pl.DataFrame], name: str, *, frames: int | None
) -> dict[str, Any]:
    """One tracker as plain JSON types; a video without a file of it is one in which it found nothing."""
    empty = next(iter(truth.values())).clear()
    found = {v: found.get(v, empty) for v in truth}
    longest = {v: max([0, *(f["frame"].max() + 1 for f in (truth[v], found[v]) if f.height)]) for v in truth}
    if frames is not None and frames < max(longest.values()):
        raise ParameterError(
            Problem(
                "bad_value",
                f"{frames} frames, but boxes up to frame {max(longest.values())}",
                "the length",
                key="--frames",
            )
        )
    lengths = {v: frames or n for v, n in longest.items()}
    tables = [
        pl.concat(
            [f.rename({"track_id": "identity"}).with_columns(pl.lit(v).alias("video_id")) for v, f in part.items()]
        )
        for part in (truth, found)
    ]
    rows = score_tracking(*tables, lengths, tracker=name)
    whole = {r["measure"]: r for r in rows.filter(pl.col("video_id") == ALL).to_dicts()}
    out: dict[str, Any] = {"name": name, "n_videos": len(truth), "n_frames": sum(lengths.values())}
    out |= {"n_boxes": whole["hota"]["n_boxes"], "n_tracks": whole["hota"]["n_tracks"]}
    out |= {m: _whole(m, whole[m]["value"]) for m in MEASURES}
    out["ci"] = {
        m: [whole[m]["lo"], whole[m]["hi"]] if whole[m]["lo"] is not None else None for m in MEASURES if m not in COUNTS
    }
    out["by_video"] = [
        {"video": v}
        | {r["measure"]: _whole(r["measure"], r["value"]) for r in rows.filter(pl.col("video_id") == v).to_dicts()}
        for v in truth
    ]
    out["reasons"] = {m: r["reason"] for m, r in whole.items() if r["value"] is None}
    out["reasons"] |= {
        f"ci.{m}": r["reason"] for m, r in whole.items() if r["value"] is not None and r["lo"] is None and r["reason"]
    }
    return out


def _whole(measure: str, value: float | None) -> float | int | None:
    return int(value) if measure in COUNTS and value is not None else value


def printed(report: dict[str, Any]) -> str:
    """The result as a table of text."""
    rows = [("tracker", _SHOWN[0], "95 % (new videos)", *_SHOWN[1:])]
    for t in report["trackers"]:
        cells = ["–" if t[m] is None else str(t[m]) if m in COUNTS else f"{t[m]:.3f}" for m in _SHOWN]
        ends = t["ci"][_SHOWN[0]]
        cells.insert(1, f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else "–")
        rows.append((t["name"], *cells))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True))]) for r in rows
    ]
    first = report["trackers"][0]
    videos = "1 video" if first["n_videos"] == 1 else f"{first['n_videos']} videos"
    told = f"{videos}, {first['n_frames']:,} frames, {first['n_boxes']:,} boxes by hand; TrackEval"
    lines += [f"note: {n['message']} ({n['n']:,})" for n in report["notices"]]
    why = sorted({reason for t in report["trackers"] if (reason := t["reasons"].get(f"ci.{_SHOWN[0]}"))})
    return "\n".join([told, *lines, *(f"note: no interval: {reason}" for reason in why)]) + "\n"
