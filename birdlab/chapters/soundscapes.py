"""08_soundscapes: tables of recordings, runs and species."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

from birdlab.chapters.common import count, plain
from birdlab.recipe import Recipe
from birdlab.report.table import Col
from birdlab.soundscapes.audit import COUNTS

COUNT_COLUMNS = {"what": Col("What", kind="text"), "value": Col("Value", kind="text")}
BOARD_COLUMNS = {
    "model": Col("Run", kind="text"),
    "division": Col("Division", kind="text"),
    "rank": Col("Rank", kind="int"),
    "cmap": Col("c-mAP", "official", "up"),
    "cmap_pessimistic": Col("c-mAP", "pessimistic"),
    "gap": Col("Gap", "by ties", "down"),
    "rmap": Col("r-mAP", "official", "up"),
    "rmap_pessimistic": Col("r-mAP", "pessimistic"),
}
NAMED_COLUMNS = {
    "model": Col("Run", kind="text"),
    "cmap_expected": Col("c-mAP", "expected"),
    "cmap_step": Col("c-mAP", "step"),
    "cmap_padded": Col("cmAP", "padded, 2023"),
    "cmap_min5": Col("c-mAP", "≥ 5 segments"),
    "auroc_macro": Col("AUROC", "macro, 2024"),
    "ece": Col("ECE", "of scores", "down"),
    "event_f1": Col("Event F1", "score ≥ 0.5", "up"),
}
SPECIES_COLUMNS = {
    "class_id": Col("Species", kind="text"),
    "n_rel": Col("Heard", "segments", kind="int"),
    "n_recordings": Col("In", "recordings", kind="int"),
    "n_listed": Col("Listed", "segments", kind="int"),
    "n_hit": Col("Of these", "right", kind="int"),
    "ap": Col("AP", "official", "up", digits=2),
    "ap_pessimistic": Col("AP", "pessimistic", digits=2),
    "auroc": Col("AUROC", digits=2),
    "best_f1": Col("F1", "best (oracle)", digits=2),
    "threshold": Col("Threshold", "proposed", digits=2),
    "precision_at": Col("Precision", "there, %", kind="percent", lo="precision_lo", hi="precision_hi"),
    "recall_at": Col("Recall", "there, %", kind="percent"),
    "said_instead": Col("Said instead", "in segments", kind="text"),
}
#: The two runs of a table of species beside one another are named in its title.
SPECIES_PAIR_COLUMNS = {
    "class_id": Col("Species", kind="text"),
    "n_clusters": Col("Heard in", "recordings or days", kind="int"),
    "ap_a": Col("AP", "first run", digits=2),
    "ap_b": Col("AP", "second run", digits=2),
    "difference": Col("Difference", digits=2),
    "p_holm": Col("p", "Holm", kind="p"),
    "confirmed": Col("Confirmed", kind="text"),
}
PAIR_COLUMNS = {
    "pair": Col("Pair", kind="text"),
    "difference": Col("Difference", "c-mAP"),
    "p_holm": Col("p", "Holm", kind="p"),
    "confirmed": Col("Confirmed", kind="text"),
}
DIVISIONS = {"automatic": "automatic", "assisted": "assisted by people"}


def runs(recipe: Recipe) -> list[str]:
    """Names of the runs, in the recipe's order."""
    return [r.name for r in recipe.soundscapes.runs] if recipe.soundscapes else []


def automatic(recipe: Recipe) -> list[str]:
    """Names of the runs that are ranked as automatic; all, where people helped in every one."""
    told = recipe.soundscapes.runs if recipe.soundscapes else []
    return [r.name for r in told if not r.assisted] or [r.name for r in told]


def leader(board: pl.DataFrame) -> str | None:
    """The automatic run with the highest c-mAP, else any; None without a score."""
    for division in ("automatic", None):
        rows = board.drop_nulls("cmap")
        rows = rows.filter(pl.col("division") == division) if division else rows
        if rows.height:
            return str(rows.sort("cmap", descending=True, maintain_order=True)["run"][0])
    return None


def counts_table(counts: pl.DataFrame) -> pl.DataFrame:
    """What there is, in words."""
    rows = [
        (COUNTS.get(r["name"], r["name"]), plain(r["value"]), r["reason"] or "not known") for r in counts.to_dicts()
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(("what", "value", "value_reason"), pl.String), orient="row")


def board_table(board: pl.DataFrame, scores: pl.DataFrame, runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """Runs by c-mAP, automatic ones first, with intervals, the pessimistic rule, flags, and how they were made (``runs``)."""
    made = {} if runs is None else dict(runs.select("run", "description").iter_rows())
    by = {r["run"]: r for r in scores.to_dicts()}
    rows: list[dict[str, Any]] = []
    for r in board.to_dicts():
        found = by.get(r["run"], {})
        told = [] if r["team"] == r["run"] else [r["team"]]
        told += [made[r["run"]]] if made.get(r["run"]) else []
        told += ["external data"] if r["external_data"] else []
        row = {"model": r["run"], "model_note": "; ".join([*told, *(r["flags"] or [])]) or None}
        row |= {"division": DIVISIONS.get(r["division"], r["division"]), "rank": r["rank"]}
        row |= {
            k: found.get(k)
            for k in ("cmap", "cmap_lo", "cmap_hi", "cmap_pessimistic", "gap", "rmap", "rmap_lo", "rmap_hi")
        }
        row |= {
            "rmap_pessimistic": found.get("rmap_pessimistic"),
            "cmap_reason": found.get("reason") or "nothing is heard",
            "rmap_reason": found.get("rmap_reason") or "nothing is heard",
        }
        rows.append(
            row | {f"{k}_reason": "nothing is heard" for k in ("cmap_pessimistic", "gap", "rmap_pessimistic", "rank")}
        )
    text = {"model", "model_note", "division"}
    names = ["model", "model_note", "division", "rank", "cmap", "cmap_lo", "cmap_hi", "cmap_pessimistic", "gap", "rmap"]
    names += ["rmap_lo", "rmap_hi", "rmap_pessimistic"]
    names += [f"{k}_reason" for k in ("cmap", "cmap_pessimistic", "gap", "rmap", "rmap_pessimistic", "rank")]
    dtypes = {
        c: pl.String if c in text or c.endswith("_reason") else pl.Int64 if c == "rank" else pl.Float64 for c in names
    }
    return pl.DataFrame([{c: r.get(c) for c in names} for r in rows], schema=dtypes)


def board_published(metrics: pl.DataFrame) -> pl.DataFrame | None:
    """Published runs, which were read second-hand, under the columns of :func:`board_table`; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & pl.col("metric").is_in(["cmap", "rmap"]))
    if rows.is_empty():
        return None
    flat = rows.pivot("metric", index="model", values="published", aggregate_function="first", maintain_order=True)
    note = pl.lit(f"{rows['source'][0]}, read second-hand").alias("model_note")
    empty = [pl.lit(None, pl.Float64).alias(c) for c in BOARD_COLUMNS if c not in (*flat.columns, "division", "rank")]
    return flat.with_columns(
        note, pl.lit(None, pl.String).alias("division"), pl.lit(None, pl.Int64).alias("rank"), *empty
    ).select("model", "model_note", *[c for c in BOARD_COLUMNS if c != "model"])


def named_table(named: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Other averages in use, each under its name, a row per run."""
    wide = {(r["run"], r["metric"]): r for r in named.to_dicts()}
    rows = []
    for r in scores.to_dicts():
        row: dict[str, Any] = {
            "model": r["run"],
            **{k: r[k] for k in ("cmap_expected", "cmap_step", "ece", "event_f1")},
        }
        row |= {
            f"{k}_reason": "nothing is heard, or nothing listed"
            for k in ("cmap_expected", "cmap_step", "ece", "event_f1")
        }
        for metric in ("cmap_padded", "cmap_min5", "auroc_macro"):
            found = wide.get((r["run"], metric), {})
            row |= {metric: found.get("value"), f"{metric}_reason": found.get("reason") or "not taken"}
        rows.append(row)
    names = [*NAMED_COLUMNS, *(f"{c}_reason" for c in NAMED_COLUMNS if c != "model")]
    dtypes = {c: pl.String if c == "model" or c.endswith("_reason") else pl.Float64 for c in names}
    return pl.DataFrame([{c: r.get(c) for c in names} for r in rows], schema=dtypes)


def named_notes(named: pl.DataFrame) -> list[str]:
    """Over how many classes each average is taken."""
    told = []
    for metric, words in (
        ("cmap_padded", "padded cmAP"),
        ("cmap_min5", "c-mAP of classes in ≥ 5 segments"),
        ("auroc_macro", "macro AUROC"),
    ):
        row = named.filter(pl.col("metric") == metric).head(1).to_dicts()
        if row:
            told.append(f"{words}: {count(row[0]['n_classes'], 'class', 'classes')}, {row[0]['n_skipped']} left out")
    return [f"{'; '.join(told)}."] if told else []


def species_table(classes: pl.DataFrame, name: str | None) -> pl.DataFrame:
    """Every species of the ground truth for one run, the highest AP first."""
    rows = classes.filter(pl.col("run") == (name or "")).sort(
        "ap", "n_rel", descending=[True, True], nulls_last=True, maintain_order=True
    )
    short = "the precision is never reached, or nothing listed"
    why = {"threshold": short, "precision_at": short, "recall_at": short, "best_f1": "never listed where it is heard", "said_instead": "no other species is listed first there",
           "ap_pessimistic": "nothing listed", "auroc": "heard in every segment"}  # fmt: skip
    ends = ["lo", "hi"]
    named = pl.format("{}, {}", "said_instead", "n_said_instead").alias("said_instead")
    return rows.with_columns(named).select(
        *SPECIES_COLUMNS,
        "precision_lo",
        "precision_hi",
        *(pl.col(e).alias(f"ap_{e}") for e in ends),
        pl.col("reason").fill_null("nothing listed").alias("ap_reason"),
        *(pl.lit(text).alias(f"{c}_reason") for c, text in why.items()),
    )


def species_pairs_table(pairs: pl.DataFrame) -> pl.DataFrame:
    """Differences of average precision between two runs, species by species; those that could be tested."""
    said = pl.when(pl.col("confirmed")).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("confirmed")
    ends = [pl.col(e).alias(f"difference_{e}") for e in ("lo", "hi")]
    return pairs.drop_nulls("p").with_columns(said).select(*SPECIES_PAIR_COLUMNS, *ends)


def pairs_table(pairs: pl.DataFrame) -> pl.DataFrame:
    """Differences of c-mAP between runs on the same recordings."""
    said = pl.when(pl.col("confirmed")).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("confirmed")
    why = pl.col("reason").fill_null("not tested")
    return pairs.select(
        pl.format("{} − {}", "run_a", "run_b").alias("pair"), "difference", pl.col("lo").alias("difference_lo"),
        pl.col("hi").alias("difference_hi"), "p_holm", said, why.alias("p_holm_reason"), why.alias("difference_reason"),
    )  # fmt: skip


def drawn_for(name: str) -> Callable[..., Any]:
    """The figure of species, sorted by the run that is shown."""
    from birdlab.figures.soundscapes import fig_species

    return partial(fig_species, run=name)


def shown_run(board: pl.DataFrame, names: Sequence[str]) -> str:
    """The run whose species and hours are shown: the leader, else the first."""
    return leader(board) or (names[0] if names else "")
