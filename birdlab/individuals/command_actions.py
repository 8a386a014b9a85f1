"""``birdlab score actions``: clips named by hand and by models in, accuracy beside its baseline and macro F1 out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import EXIT_OK, ParameterError, Problem
from birdlab.individuals.actions import NOT_ABOVE, check_labels, check_list, majority, respelt, score_actions
from birdlab.readers.files import Notice

#: The value of ``--split`` that takes every clip.
ALL = "all"
_NEVER_SAID, _NEVER_THERE = "the model never names it", "no clip of it"


def score_command(args: argparse.Namespace) -> int:
    """Score the models and print a table, or with ``--json`` one object.

    Args:
        args: truth, predictions, labels (text with commas), split, json.

    Raises:
        DataError: a file cannot be scored; the problems of all files (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types; see :func:`score_command`."""
    from birdlab.detection.command import model_names
    from birdlab.readers.behaviours import read_clips

    labels = [label.strip() for label in args.labels.split(",")]
    check_list(labels)
    if not args.split.strip():
        raise ParameterError(Problem("bad_value", "nothing", f"a split, or {ALL}", key="--split"))
    split = None if args.split.strip().casefold() == ALL else args.split
    files = dict(zip(model_names(args.predictions), args.predictions, strict=True))
    read, notices = read_clips(args.truth, files, split=split)
    clips = check_labels(read, labels, source=_sources(args.truth, args.predictions))
    first = clips.filter(pl.col("model") == next(iter(files)))
    label, share = majority(first, labels)
    told = [*notices, *respelt(read, labels)]
    about = {"labels": labels, "split": split, "n": first.height, "n_videos": first["video_id"].n_unique()}
    return {
        **about,
        "majority": {"label": label, "accuracy": share},
        "models": [_model(name, path, clips, labels, told) for name, path in files.items()],
        "notices": [{"code": n.code, "message": n.message, "n": n.n} for n in told],
    }


def _sources(truth: Path, predictions: Sequence[Path]) -> str:
    return ", ".join(str(p) for p in [truth, *predictions])


def _model(name: str, path: Path, clips: pl.DataFrame, labels: Sequence[str], told: Sequence[Notice]) -> dict[str, Any]:
    found = score_actions(clips.filter(pl.col("model") == name), labels)
    counts, per = found["confusion"], found["classes"]
    said, there = counts[:, :-1].sum(axis=0), counts.sum(axis=1)
    reasons = {}
    classes = []
    for i, label in enumerate(labels):
        row = {"label": label, "precision": None, "recall": None, "f1": float(per["f1"][i]), "support": int(there[i])}
        for key, n, why in (("precision", said[i], _NEVER_SAID), ("recall", there[i], _NEVER_THERE)):
            if n:
                row[key] = float(per[key][i])
            else:
                reasons[f"classes.{label}.{key}"] = why
        classes.append(row)
    if found["accuracy_lo"] is None:
        reasons |= dict.fromkeys(("accuracy_ci", "above_majority"), found["reason"])
    if found["macro_f1_lo"] is None:
        reasons["macro_f1_ci"] = found["macro_f1_reason"]
    warnings = [NOT_ABOVE] if found["above_majority"] is False else []
    if found["accuracy_lo"] is not None and found["reason"]:
        warnings.append(f"accuracy: {found['reason']}")
    warnings += [f"{n.message} ({n.n:,})" for n in told if n.file == str(path)]
    return {
        "name": name,
        **{k: found[k] for k in ("n", "n_videos", "accuracy")},
        "accuracy_ci": _pair(found["accuracy_lo"], found["accuracy_hi"]),
        "macro_f1": found["macro_f1"],
        "macro_f1_ci": _pair(found["macro_f1_lo"], found["macro_f1_hi"]),
        "above_majority": found["above_majority"],
        "classes": classes,
        "confusion": counts[:, :-1].tolist(),
        "not_named": counts[:, -1].tolist(),
        "warnings": warnings,
        "reasons": reasons,
    }


def _pair(lo: float | None, hi: float | None) -> list[float] | None:
    return None if lo is None or hi is None else [lo, hi]


def printed(report: dict[str, Any]) -> str:
    """The result as text: one row per model, then each model's classes and confusion."""
    about = f"{report['n']:,} clips of {report['n_videos']:,} videos; always {report['majority']['label']}"
    lines = [f"{about}: {_n(report['majority']['accuracy'])}; macro F1 over {', '.join(report['labels'])}"]
    rows = [("model", "accuracy", "95 % (new videos)", "macro F1", "95 %", "above always")]
    for m in report["models"]:
        above = {True: "yes", False: "no", None: "–"}[m["above_majority"]]
        ends = (_ends(m["accuracy_ci"]), _n(m["macro_f1"]), _ends(m["macro_f1_ci"]))
        rows.append((m["name"], _n(m["accuracy"]), *ends, above))
    lines += aligned(rows)
    for m in report["models"]:
        heads = ("behaviour", "precision", "recall", "F1", "clips", *(f"→ {label}" for label in report["labels"]))
        rows = [(*heads, "→ nothing")]
        for c, counts, none in zip(m["classes"], m["confusion"], m["not_named"], strict=True):
            scores = (_n(c["precision"]), _n(c["recall"]), _n(c["f1"]), str(c["support"]))
            rows.append((c["label"], *scores, *map(str, counts), str(none)))
        lines += ["", m["name"], *aligned(rows)]
    lines += [f"note: {n['message']} ({n['n']:,})" for n in report["notices"]]
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table of text: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(pair: list[float] | None) -> str:
    return "–" if pair is None else f"{pair[0]:.3f} to {pair[1]:.3f}"
