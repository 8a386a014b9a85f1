"""02b_comparison: outlines scored under every definition, ranks, orders in other places, birds that every model misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import count, in_new, num, pct, table_of, with_ends
from birdlab.detection.mask_overlap import TITLES
from birdlab.figures.comparison import percent
from birdlab.report.show import m
from birdlab.report.table import Col

OVERLAP_COLUMNS = {
    "model": Col("Model", kind="text"),
    "definition": Col("Mean over", kind="text"),
    "mask_miou": Col("mIoU", better="up"),
    "mask_dice": Col("Dice", better="up"),
    "n": Col("n", kind="int"),
}
PLACE_COLUMNS = {
    "sets": Col("Compared", kind="text"),
    "recall": Col("τ of recall", digits=2),
    "precision": Col("τ of precision", digits=2),
    "f1": Col("τ of F1", digits=2),
    "ap": Col("τ of AP", digits=2),
    "n": Col("Models", kind="int"),
}
MOVE_COLUMNS = {
    "model": Col("Model", kind="text"),
    "sets": Col("Compared", kind="text"),
    "measure": Col("Measure", kind="text"),
    "value_a": Col("There", "%", kind="percent"),
    "value_b": Col("Elsewhere", "%", kind="percent"),
    "change": Col("Change", "points", kind="percent"),
    "mark": Col("More than chance", kind="text"),
}
TOGETHER_COLUMNS = {
    "what": Col("Birds", kind="text"),
    "value": Col("Share", "%", kind="percent"),
    "k": Col("Birds", kind="int"),
    "n": Col("of", kind="int"),
}
_WORDS = {"ap": "AP", "ap50": "AP50", "mask_ap": "mask AP", "recall": "recall", "precision": "precision", "f1": "F1"}
_TOGETHER = {
    "missed_by_all": "missed by every model",
    "found_by_all": "found by every model",
    "union_recall": "found by at least one (an oracle)",
    "found_only_by": "found only by {a}",
    "same_outcome": "{a} and {b} agree",
}


def overlap_table(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """mIoU and Dice by definition with the interval for a new session: a row per model and definition.

    A model without outlines has one row, with the reason.
    """
    rows = []
    for name in models:
        mine = metrics.filter((pl.col("model") == name) & pl.col("published").is_null() & (pl.col("group") == "all"))
        mine = mine.filter(pl.col("metric").is_in(["mask_miou", "mask_dice"]))
        found = []
        for key, words in TITLES.items():
            row: dict[str, Any] = {"model": name, "definition": words, "slice": key}
            for metric in ("mask_miou", "mask_dice"):
                plain = _of_definition(mine, metric, key)
                if plain is None:
                    continue
                row |= {metric: plain["value"], "n": plain["n"], f"{metric}_reason": plain["reason"]}
                ends = _of_definition(mine, metric, key, end="; new_sessions")
                row |= {f"{metric}_lo": ends["lo"], f"{metric}_hi": ends["hi"]} if ends else {}
            if "mask_miou" in row or "mask_dice" in row:
                found.append(row)
        if not found:
            why = mine["reason"].drop_nulls().to_list()
            reason = why[0] if why else "the model draws no outlines"
            found = [
                {
                    "model": name,
                    "definition": "any",
                    "slice": "any",
                    "mask_miou_reason": reason,
                    "mask_dice_reason": reason,
                    "n_reason": reason,
                }
            ]
        rows += found
    columns = ["model", "definition", "slice", *with_ends(["mask_miou", "mask_dice"]), "n"]
    return table_of(rows, columns, text=("model", "definition", "slice"))


def _of_definition(rows: pl.DataFrame, metric: str, definition: str, *, end: str = "") -> dict[str, Any] | None:
    at = rows.filter((pl.col("metric") == metric) & pl.col("method").str.ends_with(f"{definition}{end}")).to_dicts()
    return at[0] if at else None


def overlap_published(metrics: pl.DataFrame) -> pl.DataFrame | None:
    """Printed mIoU and Dice, a row per model, with no definition; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & pl.col("metric").is_in(["mask_miou", "mask_dice"]))
    if rows.is_empty():
        return None
    flat = rows.pivot(
        "metric", index=["model", "source"], values="published", aggregate_function="first", maintain_order=True
    )
    note = pl.format("{}, as printed", "source").alias("model_note")
    return flat.select(
        "model",
        note,
        pl.lit("not stated").alias("definition"),
        "mask_miou",
        "mask_dice",
        pl.lit(None, pl.Float64).alias("n"),
    )


def overlap_notes(metrics: pl.DataFrame) -> list[str]:
    """Boundary IoU of every model's hits, and which definition each printed row can have."""
    rows = metrics.filter(pl.col("published").is_not_null() & (pl.col("metric") == "mask_miou"))
    printed = [
        f"{r['model']}: {r['reason'].split('; ', 1)[1]}." for r in rows.to_dicts() if "; " in (r["reason"] or "")
    ]
    edges = metrics.filter((pl.col("metric") == "mask_boundary_iou") & (pl.col("group") == "all"))
    edges = edges.filter(pl.col("method").str.ends_with("matched_instances")).drop_nulls("value")
    own = [
        f"Mean boundary IoU of the hits of {m(r['model'])}: {num(r['value'])}"
        + (f" ({r['reason']})." if r["reason"] else ".")
        for r in edges.to_dicts()
    ]
    return [*own, *printed]


def overlap_title(table: pl.DataFrame) -> str:
    """How far the definitions lie apart."""
    spread = []
    for (name,), part in table.drop_nulls("mask_miou").group_by("model", maintain_order=True):
        lowest, highest = part["mask_miou"].min(), part["mask_miou"].max()
        spread.append((highest - lowest, name, lowest, highest))
    if not spread:
        return "No model was scored on outlines."
    _, name, lowest, highest = max(spread)
    return f"The same outlines of {m(str(name))} have mIoU {num(lowest)} to {num(highest)}, by the definition."


def ranks_title(ranks: pl.DataFrame) -> str:
    """How sure the first place in recall is."""
    rows = ranks.filter((pl.col("metric") == "recall") & (pl.col("rank") == 1)).to_dicts()
    if not rows:
        return "There is no order of models to show."
    first = rows[0]
    p = first.get("p_rank_1")
    if p is None:
        return f"{m(first['model'])} is first in recall here; how sure that is cannot be said."
    return f"{m(first['model'])} is first in recall here, and with probability {percent(p)} % {in_new(first['unit'])}."


def ranks_alt(ranks: pl.DataFrame) -> str:
    """Ranks and probabilities of being first, in words."""
    said = []
    for r in ranks.filter(pl.col("rank").is_not_null()).to_dicts():
        p = f", first with {percent(r['p_rank_1'])} %" if r.get("p_rank_1") is not None else ""
        said.append(f"{_WORDS.get(r['metric'], r['metric'])}: {r['model']} rank {r['rank']}{p}")
    return "Ranks. " + ("; ".join(said) or "None") + "."


def place_table(orders: pl.DataFrame) -> pl.DataFrame:
    """Kendall's τ of each measure between two places, and of AP between boxes and masks: a row per pair of sets."""
    rows = []
    for (a, b), part in orders.group_by("set_a", "set_b", maintain_order=True):
        row: dict[str, Any] = {"sets": f"{a} against {b}", "n": part["n"].max()}
        row |= {f"{c}_reason": "not compared between these" for c in PLACE_COLUMNS if c not in ("sets", "n")}
        for r in part.to_dicts():
            row |= {r["metric_a"]: r["tau"], f"{r['metric_a']}_lo": r["lo"], f"{r['metric_a']}_hi": r["hi"]}
            row[f"{r['metric_a']}_reason"] = r["reason"] if r["tau"] is None else None
        rows.append(row)
    names = [c for c in PLACE_COLUMNS if c not in ("sets", "n")]
    return table_of(rows, ["sets", *with_ends(names), "n"], text=("sets",))


def place_title(orders: pl.DataFrame) -> str:
    """How alike the orders are, never more than so many models can say."""
    known = orders.drop_nulls("tau")
    if known.is_empty():
        return "No two orders of models can be compared."
    same = known.filter(pl.col("tau") == 1).height
    said = f"{same} of {count(known.height, 'comparison', 'comparisons')} order the models alike"
    n = int(known["n"].max() or 0)  # type: ignore[arg-type]
    few = f"; {count(n, 'model is', 'models are')} too few to say more" if known["lo"].is_null().all() else ""
    return f"{said}{few}."


def move_table(moves: pl.DataFrame) -> pl.DataFrame:
    """Values of each model in one place and elsewhere, the largest changes first."""
    mark = (
        pl.when("moved")
        .then(pl.lit("yes"))
        .when(pl.col("moved").is_null())
        .then(pl.lit("cannot be said"))
        .otherwise(pl.lit("no"))
    )
    rows = moves.with_columns(pl.col("change").abs().alias("size")).sort(
        "moved", "size", descending=True, nulls_last=True, maintain_order=True
    )
    return rows.select(
        "model",
        pl.format("{} against {}", "set_a", "set_b").alias("sets"),
        pl.col("metric_a").replace(_WORDS).alias("measure"),
        "value_a",
        "value_b",
        "change",
        pl.col("lo").alias("change_lo"),
        pl.col("hi").alias("change_hi"),
        pl.col("reason").alias("change_reason"),
        pl.col("reason").alias("value_a_reason"),
        pl.col("reason").alias("value_b_reason"),
        mark.alias("mark"),
    )


def move_title(moves: pl.DataFrame) -> str:
    """How many values move more than their intervals."""
    judged = moves.drop_nulls("moved")
    if judged.is_empty():
        return "Whether a value moves from place to place cannot be said here."
    n = int(judged["moved"].sum())
    return (
        f"{n} of {count(judged.height, 'value', 'values')} differ between one place and all others by more than chance."
    )


def together_table(together: pl.DataFrame) -> pl.DataFrame:
    """What models find together: what, value with the interval for a new session, counts."""
    rows = []
    for r in together.filter(pl.col("quantity") != "kappa").to_dicts():
        words = _TOGETHER.get(r["quantity"], r["quantity"]).format(a=r["model_a"] or "", b=r["model_b"] or "")
        row: dict[str, Any] = {"what": words, "value": r["value"], "value_lo": r["lo"], "value_hi": r["hi"]}
        rows.append(row | {"value_reason": r["reason"], "k": r["k"], "n": r["n"]})
    return table_of(rows, ["what", *with_ends(["value"]), "k", "n"], text=("what",))


def together_title(together: pl.DataFrame) -> str:
    """How many birds no model finds."""
    rows = together.filter(pl.col("quantity") == "missed_by_all").to_dicts()
    if not rows or rows[0]["value"] is None:
        return "Fewer than two models: nothing to compare."
    r = rows[0]
    return f"{count(r['k'], 'bird', 'birds')} of {r['n']:,} ({pct(r['value'])}) are missed by every model."


def together_notes(together: pl.DataFrame) -> list[str]:
    """Agreement of pairs beyond chance."""
    rows = together.filter(pl.col("quantity") == "kappa").to_dicts()
    said = []
    for r in rows:
        ends = "" if r["lo"] is None else f" [{r['lo']:.2f}, {r['hi']:.2f}]"
        said.append(f"{m(r['model_a'])} and {m(r['model_b'])}: κ {num(r['value'])}{ends}")
    return ["Agreement beyond chance on found or missed: " + "; ".join(said) + "."] if said else []


def speed_title(points: pl.DataFrame) -> str:
    """Which models no other one beats in both."""
    front = points.filter(pl.col("pareto") == True) if "pareto" in points.columns else points.head(0)  # noqa: E712
    if front.is_empty():
        return "Speed and recall cannot be weighed against each other here."
    names = front.sort("fps", descending=True)["model"].to_list()
    if len(names) == points.height:
        return "No model is beaten in both recall and speed."
    return f"Not beaten in both recall and speed: {', '.join(map(m, names))}."


def speed_alt(points: pl.DataFrame) -> str:
    """Every model's recall and speed in words."""
    if "fps" not in points.columns:
        return "Nothing was timed."
    said = [f"{r['model']}: recall {pct(r['value'])}, {num(r['fps'])} frames per second" for r in points.to_dicts()]
    return "Recall against speed. " + "; ".join(said) + "."


def answer(ranks: pl.DataFrame, together: pl.DataFrame) -> tuple[str, str, str]:
    """Question, answer and detail."""
    question = "Which model is better, how sure is that, and what do all of them miss?"
    return question, ranks_title(ranks), together_title(together)


def outlines_title(table: pl.DataFrame) -> str:
    """What the gallery of outlines shows."""
    return (
        "Outlines: the hits that fit worst, the largest missed, and the surest false ones."
        if table.drop_nulls("mask_miou").height
        else "No model draws outlines."
    )
