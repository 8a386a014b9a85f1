"""``birdlab score agreement``: two observers' exports of BORIS in, kappa and correlations of rates out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from birdlab.errors import EXIT_OK, BirdlabError, DataError, ParameterError, Problem
from birdlab.individuals.command_actions import aligned


def score_command(args: argparse.Namespace) -> int:
    """Compare two exports and print a table, or with ``--json`` one object.

    Args:
        args: first and second (exports of BORIS), window (s), length (s, where the exports do not tell it), video (where
            they name none or name it differently), subject (bird of binary tables), json.

    Raises:
        DataError: an export cannot be read, no video is in both; the problems of both files (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types; see :func:`score_command`."""
    from birdlab.individuals.agreement import agreement, both_coded, one_sided
    from birdlab.readers.boris import read_boris
    from birdlab.readers.files import notice_table

    for name in ("window", "length"):
        value = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise ParameterError(Problem("bad_value", f"{value:g}", "seconds above 0", key=f"--{name}"))
    read, problems = [], []
    for path in (args.first, args.second):
        try:
            read.append(read_boris(path, length_s=args.length, video=args.video, subject=args.subject))
        except BirdlabError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    lengths, lone = both_coded(*read)
    table = agreement(read[0].events, read[1].events, lengths, window_s=args.window)
    sides = notice_table(one_sided(read[0].events, read[1].events, lengths))
    notices = [row for t in (read[0].notices, read[1].notices, lone, sides) for row in t.to_dicts()]
    return {
        "files": [str(args.first), str(args.second)],
        "window_s": args.window,
        "videos": [{"video": v, "length_s": length} for v, length in lengths.items()],
        "agreement": table.to_dicts(),
        "notices": notices,
    }


def printed(report: dict[str, Any]) -> str:
    """The result as text."""
    total = sum(v["length_s"] for v in report["videos"])
    videos = "1 video" if len(report["videos"]) == 1 else f"{len(report['videos'])} videos"
    lines = [f"{videos} of {total:,.0f} s, windows of {report['window_s']:g} s"]
    rows = [("measure", "bird", "behaviour", "value", "95 %", "alike", "by chance", "n")]
    for r in report["agreement"]:
        ends = "–" if r["lo"] is None else f"{r['lo']:.3f} to {r['hi']:.3f}"
        bird = r["individual_id"] or ("no focal subject" if "individual" in r["level"] else "all")
        numbers = (_n(r["value"]), ends, _n(r["observed"]), _n(r["expected"]), f"{r['n']:,}")
        name = {"kappa": "kappa", "icc_2_1": "ICC(2,1)", "icc_3_1": "ICC(3,1)"}[r["measure"]]
        rows.append((name, bird, r["behaviour"] or "all", *numbers))
    lines += aligned(rows)
    lines += [f"note: {r}" for r in sorted({r["reason"] for r in report["agreement"] if r["reason"]})]
    lines += [f"note: {n['message']} ({n['n']:,})" for n in report["notices"]]
    return "\n".join(lines) + "\n"


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
