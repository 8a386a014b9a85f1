"""How much the wording of the question decides: abstention by prompt, its spread, and what permission to abstain does."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from birdlab import stats
from birdlab.abstention.answered import CLUSTERS, Abstained, answered, unparsed_counts, with_share
from birdlab.abstention.conventions import Unparsed
from birdlab.errors import ParameterError, Problem

AMONG = ("all", "answerable", "unanswerable")
PERMITTED, NOT_PERMITTED, BOTH = "permitted", "not_permitted", "all"
_F, _I, _S = pl.Float64, pl.Int64, pl.String
PROMPT_SCHEMA: dict[str, Any] = {
    **{"model": _S, "prompt_id": _S, "permits_abstention": pl.Boolean, "among": _S},
    **{"n": _I, "k": _I, "rate": _F, "rate_lo": _F, "rate_hi": _F},
    **{"k_outright": _I, "rate_outright": _F, "rate_outright_lo": _F, "rate_outright_hi": _F},
    **{"n_unparsed": _I, "unparsed_share": _F, "n_no_answer": _I, "reason": _S},
}
FRAGILITY_SCHEMA: dict[str, Any] = {
    **{"model": _S, "prompts": _S, "n_prompts": _I, "mean": _F, "sd": _F, "min": _F, "max": _F},
    **{"min_prompt": _S, "max_prompt": _S, "same_items": pl.Boolean, "n_unparsed": _I, "unparsed_share": _F},
    "reason": _S,
}
CONTRAST_SCHEMA: dict[str, Any] = {
    **{"model": _S, "difference": _F, "lo": _F, "hi": _F, "p": _F, "rate_permitted": _F, "rate_not_permitted": _F},
    **{"n": _I, "n_clusters": _I, "n_unpaired": _I, "n_prompts_permitted": _I, "n_prompts_not_permitted": _I},
    **{"n_unparsed": _I, "unparsed_share": _F, "method": _S, "reason": _S},
}


def prompt_rates(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """Abstention rate of every prompt, in [0, 1], among all, answerable and unanswerable photographs.

    Args:
        answers, items: tables of those names.
        unparsed, abstained: see :func:`birdlab.abstention.answered.answered`.

    Returns:
        Three rows per model and prompt (:data:`PROMPT_SCHEMA`): k of n answers abstain, with Wilson's interval, and
        ``k_outright`` of them by declining outright. ``n_no_answer``: photographs without an answer, not in n. n = 0
        is a null rate with a ``reason``. The rates among answerable and unanswerable ones are the point (x, y) of a
        model that only says whether it abstains.

    Raises:
        DataError, ParameterError: see :func:`birdlab.abstention.answered.answered`.
    """
    table = answered(answers, items, unparsed=unparsed, abstained=abstained)
    rows = []
    for key, part in table.group_by("model", "prompt_id", "permits_abstention", maintain_order=True):
        for among in AMONG:
            used = part if among == "all" else part.filter(pl.col("is_answerable") == (among == "answerable"))
            asked = items.height if among == "all" else int((items["is_answerable"] == (among == "answerable")).sum())
            row = dict(zip(("model", "prompt_id", "permits_abstention", "among"), (*key, among), strict=True))
            n = int(used["is_counted"].sum())
            row |= {"n": n, "k": int(used["abstained"].sum()), "k_outright": int(used["outright"].sum())}
            row |= unparsed_counts(used) | {"n_no_answer": asked - used.height}
            row["reason"] = None if n else "no answer to such a photograph"
            with_share(row, "rate", row["k"], n)
            with_share(row, "rate_outright", row["k_outright"], n)
            rows.append(row)
    return pl.DataFrame(rows, schema=PROMPT_SCHEMA, orient="row")


def fragility(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """Spread of the abstention rate over prompts that ask the same: mean, sd (n - 1), min and max; shares, not points.

    Args:
        answers, items: tables of those names; all photographs are used.
        unparsed, abstained: see :func:`birdlab.abstention.answered.answered`.

    Returns:
        Rows ``permitted``, ``not_permitted`` and ``all`` per model, those that have a prompt (:data:`FRAGILITY_SCHEMA`).
        ``same_items``: every prompt was counted on the same photographs; where it is false part of the spread is theirs.
        One prompt has no sd (null with a ``reason``).

    RealBirdID reports sd 10.10 points for InternVL3 over 15 instructions.
    """
    rates = prompt_rates(answers, items, unparsed=unparsed, abstained=abstained).filter(among="all")
    given = answered(answers, items, unparsed=unparsed).partition_by("model", "prompt_id", as_dict=True)
    rows = []
    for (model,), part in rates.group_by("model", maintain_order=True):
        for prompts, used in (
            (PERMITTED, part.filter("permits_abstention")),
            (NOT_PERMITTED, part.filter(~pl.col("permits_abstention"))),
            (BOTH, part),
        ):
            if used.is_empty():
                continue
            tables = [given[model, prompt] for prompt in used["prompt_id"]]
            asked = {frozenset(t.filter("is_counted")["item_id"].to_list()) for t in tables}
            row = {"model": model, "prompts": prompts, "same_items": len(asked) == 1}
            rows.append(row | unparsed_counts(pl.concat(tables)) | _spread(used))
    return pl.DataFrame(rows, schema=FRAGILITY_SCHEMA, orient="row")


def permission_contrast(
    answers: pl.DataFrame,
    items: pl.DataFrame,
    *,
    cluster: str = "genus",
    unparsed: Unparsed = "wrong",
    abstained: Abstained = "species_level",
) -> pl.DataFrame:
    """What permission to abstain adds: mean paired difference of the abstention rate, in [-1, 1].

    For each photograph answered under both kinds of prompt: its abstention rate over the prompts that permit, minus
    that over those that do not. The mean over photographs has the interval for new clusters (CR1, t(G - 1)).

    Args:
        answers, items: tables of those names.
        cluster: column of items, ``genus``, ``observer_id``, ``observation_id`` or ``item_id``; a photograph without a
            value is a cluster of its own.
        unparsed, abstained: see :func:`birdlab.abstention.answered.answered`.

    Returns:
        One row per model (:data:`CONTRAST_SCHEMA`). ``n`` photographs are paired, ``n_unpaired`` were answered under
        one kind only. Null with a ``reason`` where one kind of prompt is absent, where nothing is paired, or, for the
        ends alone, where the clusters do not allow an interval.

    Raises:
        DataError, ParameterError: see :func:`birdlab.abstention.answered.answered`; ``cluster`` is not one of those.
    """
    if cluster not in CLUSTERS:
        raise ParameterError(Problem("bad_value", repr(cluster), "one of " + ", ".join(CLUSTERS), key="cluster"))
    table = answered(answers, items, unparsed=unparsed, abstained=abstained)
    own = pl.concat_str(pl.lit("\0"), "item_id")
    table = table.with_columns(cluster=pl.col(cluster).cast(_S).fill_null(own))
    rows = []
    for (model,), part in table.group_by("model", maintain_order=True):
        kinds = dict(part.group_by("permits_abstention").agg(pl.col("prompt_id").n_unique()).iter_rows())
        row = {"model": model, **unparsed_counts(part), "method": f"paired, clusters by {cluster}, {abstained}"}
        row |= {"n_prompts_permitted": kinds.get(True, 0), "n_prompts_not_permitted": kinds.get(False, 0)}
        rows.append(row | _contrast(part.filter("is_counted"), kinds, cluster.removesuffix("_id")))
    return pl.DataFrame(rows, schema=CONTRAST_SCHEMA, orient="row")


def _contrast(part: pl.DataFrame, kinds: dict[bool, int], unit: str) -> dict[str, Any]:
    rate = pl.col("abstained").cast(_F)
    per_item = part.group_by("item_id", "cluster", maintain_order=True).agg(
        on=rate.filter("permits_abstention").mean(), off=rate.filter(~pl.col("permits_abstention")).mean()
    )
    per_item = per_item.sort("item_id")  # sums in one order, whatever the order of the rows
    paired = per_item.drop_nulls(["on", "off"]).with_columns(d=pl.col("on") - pl.col("off"))
    row: dict[str, Any] = {"n": paired.height, "n_unpaired": per_item.height - paired.height, "n_clusters": 0}
    if len(kinds) < 2:
        which = "no prompt permits" if True not in kinds else "every prompt permits"
        return row | {"reason": f"{which} abstention: there is nothing to compare"}
    if paired.is_empty():
        return row | {"reason": "no photograph was answered under both kinds of prompt"}
    by_cluster = paired.group_by("cluster", maintain_order=True).agg(pl.col("d").sum(), n=pl.len())
    i = stats.mean_difference(by_cluster["d"], by_cluster["n"], kind="new_clusters", unit=unit)
    row |= {"rate_permitted": paired["on"].mean(), "rate_not_permitted": paired["off"].mean()}
    return row | {
        **{"difference": paired["d"].mean(), "lo": i.lo, "hi": i.hi, "p": i.p},
        **{"n_clusters": i.n_clusters, "reason": i.reason},
    }


def _spread(rates: pl.DataFrame) -> dict[str, Any]:
    known = rates.drop_nulls("rate")
    row: dict[str, Any] = {"n_prompts": known.height}
    if known.is_empty():
        return row | {"reason": "no answer was counted"}
    x, prompts = known["rate"].to_numpy(), known["prompt_id"].to_list()
    return row | {
        **{"mean": float(x.mean()), "min": float(x.min()), "max": float(x.max())},
        **{"min_prompt": prompts[int(x.argmin())], "max_prompt": prompts[int(x.argmax())]},
        "sd": float(np.std(x, ddof=1)) if len(x) > 1 else None,
        "reason": None if len(x) > 1 else "one prompt: there is no spread",
    }
