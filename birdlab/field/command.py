"""``birdlab score visits``: a Camtrap DP package in, visit rates and co-occurrence out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import polars as pl

from birdlab.errors import EXIT_OK, ParameterError, Problem
from birdlab.field import visits as field
from birdlab.readers.camtrap import read_camtrap


def score_command(args: argparse.Namespace) -> int:
    """Print visit rates as a table, or with ``--json`` everything as one object.

    Raises:
        DataError: files missing or not as they should be (exit 3).
        ParameterError: an option that cannot be used (exit 2).
    """
    if not 0 <= args.gap < float("inf"):
        raise ParameterError(Problem("bad_value", f"{args.gap:g}", "minutes, from 0 up", key="--gap"))
    camtrap = read_camtrap(args.package)
    rates, pairs = field.visits(camtrap, gap_min=args.gap), field.co_occurrence(camtrap)
    effort = field.effort_days(camtrap)
    report: dict[str, Any] = {"package": str(args.package), "n_deployments": len(effort), "n_media": camtrap.n_media}
    report["effort_days"] = sum(d for d in effort.values() if d)
    report["visits"] = [_row(r) for r in rates.to_dicts()]
    report["co_occurrence"] = [_row(r) for r in pairs.to_dicts()]
    report["individuals"] = field.individual_rates(camtrap)
    report["agreement"] = field.machine_agreement(camtrap)
    report["notices"] = camtrap.notices.to_dicts()
    if args.json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        sys.stdout.write(printed(report, rates))
    return EXIT_OK


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "deployment" if k == "deployment_id" else k: v or None if k == "deployment_id" else v for k, v in row.items()
    }


def printed(report: dict[str, Any], rates: pl.DataFrame) -> str:
    """The rates over all deployments as a table of text, and what cannot be computed."""
    rows = [("species", "visits", "animals", "per day", "95 % (new deployments)")]
    for r in rates.filter(pl.col("deployment_id") == field.ALL).to_dicts():
        ends = "–" if r["lo"] is None else f"{r['lo']:.3f} to {r['hi']:.3f}"
        rate = "–" if r["rate_per_day"] is None else f"{r['rate_per_day']:.3f}"
        rows.append((r["species"], str(r["n"]), str(r["animals"]), rate, ends))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True))]) for r in rows
    ]
    head = f"{report['n_deployments']} deployments, {report['effort_days']:.1f} camera days"
    told = []
    for what, key in (("visit rates of individuals", "individuals"), ("agreement of people and machines", "agreement")):
        if not report[key]["computed"]:
            told.append(f"not computed, {what}: {report[key]['reason']}")
    told += [f"note: {n['message']}" for n in report["notices"]]
    return "\n".join([head, *lines, *told]) + "\n"
