"""``birdlab score reid``: queries and rankings of birds in, Top-1, Top-5 and mAP beside chance out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import polars as pl

from birdlab.errors import EXIT_OK
from birdlab.individuals.command_actions import aligned
from birdlab.individuals.reid.measures import Number, counts_of, measures_of
from birdlab.individuals.reid.open_set import open_measures
from birdlab.individuals.reid.ranked import outcomes_of_ranking
from birdlab.schemas.reid import GALLERIES, REID_SPLITS

_DERIVED = "the queries do not say which birds are known: those ranked for any query of their protocol are"


def score_command(args: argparse.Namespace) -> int:
    """Score the rankings and print a table, or with ``--json`` one object.

    Args:
        args: queries, ranking (paths), json.

    Raises:
        DataError: a file cannot be scored; all of its problems (exit 3).
    """
    report = score(args)
    text = json.dumps(report, ensure_ascii=False, allow_nan=False) + "\n" if args.json else printed(report)
    sys.stdout.write(text)
    return EXIT_OK


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types: rows, warnings, reasons; see :func:`score_command`."""
    from birdlab.readers.reid_tables import check_queries_known, read_queries, read_ranking

    queries = read_queries(args.queries)
    ranking = check_queries_known(queries, read_ranking(args.ranking), args.ranking)
    warnings = [_DERIVED] if queries.filter(pl.col("split") == "open")["is_known"].null_count() else []
    warnings += _remarks(queries)
    rows: list[dict[str, Any]] = []
    reasons: dict[str, str] = {}
    for model in ranking["model"].unique(maintain_order=True).to_list():
        found = outcomes_of_ranking(model, queries, ranking)
        warnings += [f"{n.message} ({n.n:,})" for n in found.notices]
        for _, part in found.outcomes.group_by(["split", "gallery"], maintain_order=True):
            row, why = _row(part)
            rows.append(row)
            key = f"{row['protocol']}.{row['gallery']}.{row['method']}"
            reasons |= {f"{key}.{name}": text for name, text in why.items()}
    order = {name: i for i, name in enumerate((*REID_SPLITS, *GALLERIES))}
    rows.sort(key=lambda r: (order[r["protocol"]], order[r["gallery"]]))
    return {"rows": rows, "warnings": warnings, "reasons": reasons}


def _remarks(queries: pl.DataFrame) -> list[str]:
    """Protocols in which nothing is asked, and birds that are called known in one query and unknown in another."""
    asked = queries.filter(pl.col("role") == "query")
    silent = sorted(set(queries["split"].cast(pl.String)) - set(asked["split"].cast(pl.String)))
    remarks = [f"{split}: no query, every row has the role validation: nothing can be scored" for split in silent]
    said = asked.drop_nulls("is_known").group_by("split", "individual_id").agg(pl.col("is_known").n_unique())
    both = said.filter(pl.col("is_known") > 1)["individual_id"].unique().sort().to_list()
    if both:
        told = ", ".join(both[:5]) + (f" and {len(both) - 5} more" if len(both) > 5 else "")
        remarks.append(
            f"birds called known in one query and unknown in another of one protocol: {told} ({len(both):,})"
        )
    return remarks


def _row(part: pl.DataFrame) -> tuple[dict[str, Any], dict[str, str]]:
    """One row of the result, and why its nulls are null."""
    split, gallery, model = (str(part[name][0]) for name in ("split", "gallery", "model"))
    measures, counts = measures_of(part), counts_of(part)
    row: dict[str, Any] = {"protocol": split, "gallery": gallery, "method": model, "n": counts.pop("n")}
    reasons: dict[str, str] = {}
    for name in ("top1", "top5", "map_individual"):
        _put(row, reasons, name, measures[name, "micro"])
    for name in ("top1", "top5", "map_individual"):
        _put(row, reasons, f"{name}_macro", measures[name, "macro"])
    size = part.filter(pl.col("role") == "query")["n_candidates"].mean()
    row |= {**counts, "mean_candidates": size}
    if split == "open":
        numbers, threshold = open_measures(part)
        for name, number in numbers.items():
            _put(row, reasons, name, number)
        value = threshold.value
        infinite = value is not None and value == float("inf")
        row["threshold"] = None if infinite else value
        if row["threshold"] is None:
            reasons["threshold"] = (
                threshold.reason or "no score tells known birds from unknown ones: nothing is answered"
            )
    return row, reasons


def _put(row: dict[str, Any], reasons: dict[str, str], name: str, number: Number) -> None:
    """A number with its chance and intervals as keys of the row."""
    row[name] = number.value
    row[f"chance_{name}"] = number.chance
    row[f"{name}_ci_individual"] = _pair(number.by_individual.lo, number.by_individual.hi)
    row[f"{name}_ci_video"] = _pair(number.by_video.lo, number.by_video.hi)
    if number.value is None:
        reasons[name] = number.reason or "undefined"
    for unit, ends in (("individual", number.by_individual), ("video", number.by_video)):
        if ends.lo is None and number.value is not None:
            reasons[f"{name}_ci_{unit}"] = ends.reason or "undefined"


def _pair(lo: float | None, hi: float | None) -> list[float] | None:
    return None if lo is None or hi is None else [lo, hi]


def printed(report: Mapping[str, Any]) -> str:
    """The result as text: one line per protocol, gallery and method."""
    heads = ("protocol", "gallery", "method", "queries", "Top-1", "95 % (new birds)", "95 % (new videos)", "chance")
    table = [(*heads, "Top-5", "chance", "mAP (birds)", "chance", "not listed", "tied")]
    for r in report["rows"]:
        table.append(
            (
                *(str(r[k]) for k in ("protocol", "gallery", "method", "n")),
                _n(r["top1"]),
                _ends(r["top1_ci_individual"]),
                _ends(r["top1_ci_video"]),
                *(_n(r[k]) for k in ("chance_top1", "top5", "chance_top5", "map_individual", "chance_map_individual")),
                *(str(r[k]) for k in ("n_not_listed", "n_tied")),
            )
        )
    lines = aligned([[_one_line(cell) for cell in cells] for cells in table])
    for r in report["rows"]:
        if r["protocol"] == "open":
            said = ", ".join(f"{name.upper()} {_n(r[name])}" for name in ("auroc", "baks", "baus"))
            why = report["reasons"].get(f"open.{r['gallery']}.{r['method']}.baks")
            lines.append(_one_line(f"open, {r['gallery']}, {r['method']}: {said}" + (f" ({why})" if why else "")))
    lines += [_one_line(f"note: {text}") for text in report["warnings"]]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Names of a file in one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(pair: list[float] | None) -> str:
    return "–" if pair is None else f"{pair[0]:.3f} to {pair[1]:.3f}"
