"""Numbers of the abstention chapter as rows of ``metrics``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from birdlab.abstention.evaluate import AREAS, Evaluated, Number
from birdlab.metrics import metric_row

Rows = list[dict[str, Any]]


def number_rows(found: Evaluated, *, group: str = "all", level: str = "all", cluster: str) -> Rows:
    """One row per measure of one model, and one per gain over chance where chance is known.

    Args:
        found: what was measured.
        group, level: the slice (``variant`` range_map …).
        cluster: what was resampled, named in ``method``.
    """
    rows: Rows = []
    for metric, number in found.numbers.items():
        at = {"model": found.model, "group": group, "level": level}
        rows.append(_row(metric, number, cluster, at))
        if number.chance is not None and metric not in AREAS and number.value is not None:
            gain = number.value - number.chance
            ends = number.interval
            lo, hi = (
                (None, None) if ends is None or ends.lo is None else (ends.lo - number.chance, ends.hi - number.chance)
            )
            about = {"n": number.n, "method": f"{number.method}; minus chance; {cluster} bootstrap"}
            rows.append(metric_row(metric=f"{metric}_gain", value=gain, lo=lo, hi=hi, chance=0.0, **about, **at))
    return rows


def _row(metric: str, number: Number, cluster: str, at: Mapping[str, str]) -> dict[str, Any]:
    ends = number.interval
    reason = number.reason or (ends.reason if ends else None)
    return metric_row(
        metric=metric,
        value=number.value,
        lo=ends.lo if ends else None,
        hi=ends.hi if ends else None,
        n=number.n,
        n_clusters=number.n_clusters,
        chance=number.chance,
        method=f"{number.method}; {cluster} bootstrap" if ends else number.method,
        reason=reason,
        **at,
    )


def pair_rows(pairs: pl.DataFrame) -> Rows:
    """Differences of pairs of models: the difference, p, Holm's p and whether it is confirmed (1 or 0).

    Args:
        pairs: ``measure`` and the columns of :func:`birdlab.abstention.differences.paired_differences`.
    """
    rows: Rows = []
    for r in pairs.iter_rows(named=True):
        at = {"model": f"{r['model_a']} - {r['model_b']}", "group": "pair", "n_clusters": r["n_clusters"]}
        at |= {"method": "paired bootstrap", "reason": r["reason"]}
        name = f"{r['measure']}_difference"
        rows.append(metric_row(metric=name, value=r["difference"], lo=r["lo"], hi=r["hi"], n=r["n_used"], **at))
        rows += [metric_row(metric=f"{name}_{k}", value=r[k], n=r["family"], **at) for k in ("p", "p_holm")]
        sure = None if r["confirmed"] is None else float(r["confirmed"])
        rows.append(metric_row(metric=f"{name}_confirmed", value=sure, n=r["family"], **at))
    return rows


def count_rows(items: pl.DataFrame, taxonomy: Mapping[str, str]) -> Rows:
    """What was asked: photographs, answerable ones, reasons, genera, species, observations, lists of candidates.

    Args:
        items: table ``items``.
        taxonomy: name, version and sha256 of the list, kept as ``method``.
    """
    answerable = items.filter("is_answerable")
    listed = items.filter(pl.col("candidates").is_not_null())
    drops = listed.filter(pl.col("is_answerable") & ~pl.col("candidates").list.contains(pl.col("species")))
    method = " ".join(f"{k}={v}" for k, v in taxonomy.items())
    n = {
        "n_items": items.height,
        "n_answerable": answerable.height,
        "n_unanswerable": items.height - answerable.height,
        "n_genera": items["genus"].n_unique(),
        "n_species": answerable["species"].n_unique(),
        "n_observations": items["observation_id"].drop_nulls().n_unique(),
        "n_listed": listed.height,
        "n_listed_answerable": listed.filter("is_answerable").height,
        "n_list_drops_truth": drops.height,
    }
    rows = [metric_row(model="", metric=k, value=float(v), n=v, method=method) for k, v in n.items()]
    share = drops.height / n["n_listed_answerable"] if n["n_listed_answerable"] else None
    reason = None if share is not None else "no answerable photograph has a list of candidates"
    at = {"model": "", "metric": "list_drops_truth", "n": n["n_listed_answerable"], "method": "range map"}
    rows.append(metric_row(value=share, reason=reason, **at))
    by_reason = items.explode("reasons").drop_nulls("reasons").group_by("reasons").len().sort("reasons")
    rows += [
        metric_row(
            model="", group="true_reason", level=name, metric="n_unanswerable", value=float(k), n=k, method=method
        )
        for name, k in by_reason.iter_rows()
    ]
    return rows


def reason_rows(reasons: pl.DataFrame) -> Rows:
    """Abstention, reason right given abstention, and both, by model, prompt and true reason."""
    rows: Rows = []
    names = {"abstention_rate": "rate_species_level", "abstention_rate_outright": "rate_outright"}
    names |= {"reason_right": "p_right_reason", "abstained_and_right": "joint"}
    of = {"reason_right": "n_abstained", "abstained_and_right": "n_judged"}
    for r in reasons.iter_rows(named=True):
        at = {
            "model": r["model"],
            "group": "true_reason",
            "level": r["true_reason"],
            "method": f"prompt={r['prompt_id']}; Wilson",
        }
        for metric, column in names.items():
            ends = {"lo": r[f"{column}_lo"], "hi": r[f"{column}_hi"], "n": int(r[of.get(metric, "n")])}
            why = r["reason"] if r[column] is None else None
            rows.append(metric_row(metric=metric, value=r[column], reason=why, **ends, **at))
    return rows


def prompt_rows(rates: pl.DataFrame, spread: pl.DataFrame, permission: pl.DataFrame) -> Rows:
    """Abstention rate by prompt, its spread over prompts, and what permission to abstain adds."""
    rows: Rows = []
    for r in rates.iter_rows(named=True):
        name = "abstention_rate" if r["among"] == "all" else f"abstention_rate_{r['among']}"
        at = {"model": r["model"], "group": "prompt", "level": r["prompt_id"], "n": r["n"], "method": "Wilson"}
        rows.append(
            metric_row(metric=name, value=r["rate"], lo=r["rate_lo"], hi=r["rate_hi"], reason=r["reason"], **at)
        )
    for r in spread.iter_rows(named=True):
        at = {
            "model": r["model"],
            "group": "prompts",
            "level": r["prompts"],
            "n": r["n_prompts"],
            "method": "over prompts",
        }
        for k in ("mean", "sd", "min", "max"):
            rows.append(
                metric_row(
                    metric=f"abstention_rate_{k}", value=r[k], reason=r["reason"] if r[k] is None else None, **at
                )
            )
    for r in permission.iter_rows(named=True):
        at = {
            "model": r["model"],
            "group": "prompts",
            "level": "permission",
            "n": r["n"],
            "n_clusters": r["n_clusters"],
        }
        ends = {"lo": r["lo"], "hi": r["hi"], "reason": r["reason"], "method": "paired; CR1"}
        rows.append(metric_row(metric="abstention_rate_difference", value=r["difference"], **ends, **at))
    return rows


def with_dataset(rows: Iterable[dict[str, Any]], dataset: str) -> Rows:
    """The rows, with the name of the data set."""
    return [{**row, "dataset": dataset} for row in rows]
