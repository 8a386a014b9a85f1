"""``birdlab score difficulty``: a table of birds and their factors in, bins and the joint model out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import polars as pl

from birdlab.difficulty.design import FACTORS
from birdlab.difficulty.instances_file import read_instances
from birdlab.difficulty.model import DifficultyModel, analyse
from birdlab.errors import EXIT_OK


def score_command(args: argparse.Namespace) -> int:
    """Analyse a file of instances and print what came out.

    Args:
        args: instances (path), preset (of the bins), json.

    Returns:
        The exit code, 0.

    Raises:
        DataError: the file cannot be scored; every problem is in it (exit 3).
    """
    result = score(read_instances(args.instances), preset=args.preset)
    result["file"] = str(args.instances)
    if args.json:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    else:
        from birdlab.difficulty.command_text import as_text

        text = as_text(result)
    sys.stdout.write(text + "\n")
    return EXIT_OK


def score(instances: pl.DataFrame, *, preset: str = "default") -> dict[str, Any]:
    """Bins and the joint model of one model's outcomes, as plain JSON types.

    Args:
        instances: see :func:`birdlab.difficulty.instances_file.read_instances`.
        preset: of the bins, ``default`` or ``bluebird``.

    Returns:
        The object that ``--json`` prints. Counts, recall and the joint model are about the birds with all factors and
        an outcome (``n``); the bins about all birds with an outcome, each factor's unknown ones in a bin ``missing``.
    """
    from birdlab.difficulty.univariate import univariate
    from birdlab.stats import wilson

    model = analyse(instances, FACTORS, curves=False)
    one = model.summary.row(0, named=True)
    judged = instances.filter(pl.col("recovered").is_not_null())
    bins = univariate(judged, FACTORS, preset=preset, n_permutations=0).bins
    reasons: dict[str, str] = {}
    interval = wilson(one["n"] - one["n_misses"], one["n"])
    if one["reason"]:
        reasons["model_fitted"] = one["reason"]
    if interval is None:
        reasons["recall"] = "no bird has all factors and an outcome"
    return {
        "n": one["n"],
        "n_total": one["n_total"],
        "n_used_for_slopes": (one["n_mle"] or one["n_informative"]) if one["is_fitted"] else 0,
        "misses": one["n_misses"],
        "recall": one["recall"],
        "recall_wilson": _pair(*(interval or (None, None))),
        "bins": [_bin(row, reasons) for row in bins.iter_rows(named=True)],
        "checks": _checks(model, one),
        "coefficients": [_coefficient(row, reasons) for row in model.coefficients.iter_rows(named=True)],
        "model_fitted": one["is_fitted"],
        "missed_instances": model.missed["instance"].to_list(),
        "calibration": {f"{fit}_{measure}": value for _, fit, measure, value, _ in model.calibration.iter_rows()},
        "settings": {"preset": preset, "reference_session": one["reference_session"]},
        "reasons": reasons,
    }


def _pair(lo: float | None, hi: float | None) -> list[float | None] | None:
    return None if lo is None and hi is None else [lo, hi]


def _bin(row: dict[str, Any], reasons: dict[str, str]) -> dict[str, Any]:
    keys = ("factor", "level", "lo", "hi", "n", "k", "recall", "sessions", "max_session_share")
    out: dict[str, Any] = {key: row[key] for key in keys}
    out["ci_within_sessions"] = _pair(row["within_lo"], row["within_hi"])
    out["ci_new_sessions"] = _pair(row["new_lo"], row["new_hi"])
    name = f"bins.{row['factor']}.{row['level']}"
    for key, why in (("recall", "reason"), ("ci_within_sessions", "within_reason"), ("ci_new_sessions", "new_reason")):
        if row[why]:
            reasons[f"{name}.{key}"] = row[why]
    return out


def _checks(model: DifficultyModel, one: dict[str, Any]) -> dict[str, Any]:
    status = dict(model.coefficients.select("factor", pl.col("status").cast(pl.String)).iter_rows())
    sheet = model.sheet
    missing = model.checks.filter(check="missing").select("term", pl.col("value").cast(pl.Int64))
    return {
        "dropped_missing": one["n_total"] - one["n"],
        "missing": dict(missing.iter_rows()),
        "constant": [factor for factor, s in status.items() if s == "constant"],
        "aliased": [factor for factor, s in status.items() if s == "aliased"],
        "informative_sessions": one["informative_sessions"],
        "uninformative_sessions": one["uninformative_sessions"],
        "separated": one["separated"],
        "complete_separation": bool(one["is_complete_separation"]),
        "separates_alone": one["separates_alone"],
        "events_per_variable": one["events_per_variable"],
        "vif": dict(model.vif.select("factor", "vif_with_sessions").iter_rows()),
        "within_session_sd_over_sd": dict(sheet.select("factor", "within_ratio").drop_nulls().iter_rows()),
        "condition_number": one["condition"],
        "messages": model.checks.filter(~pl.col("is_fine"))["message"].to_list(),
    }


def _coefficient(row: dict[str, Any], reasons: dict[str, str]) -> dict[str, Any]:
    keys = ("factor", "status", "firth", "mle", "mle_se", "ame")
    out: dict[str, Any] = {key: row[key] for key in keys}
    out["firth_ci"] = _pair(row["firth_lo"], row["firth_hi"])
    out["loso"] = _pair(row["loso_lo"], row["loso_hi"])
    more = ("firth_se", "firth_within", "mle_within", "ame_se", "ame_within", "n_mle", "se_session", "se_frame")
    out |= {key: row[key] for key in (*more, "se_cr2", "cr2_df", "cr2_p", "is_bold")}
    if row["reason"]:
        reasons[f"coefficients.{row['factor']}"] = row["reason"]
    if out["loso"] is None and out["firth"] is not None:
        reasons[f"coefficients.{row['factor']}.loso"] = "it needs at least two sessions, and both outcomes without each"
    return out
