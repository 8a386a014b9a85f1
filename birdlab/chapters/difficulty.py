"""03_difficulty: factor sheet, bins, worst bins, slices, pairs, AP by size, error types: the tables of the chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from birdlab.chapters.common import pick
from birdlab.chapters.difficulty_names import LEVEL_JOIN, condition, predicate, shown_levels, title
from birdlab.detection.errors import MAIN_ERRORS, SPECIAL_ERRORS
from birdlab.detection.published import BLUEBIRD
from birdlab.difficulty.bins import MISSING
from birdlab.difficulty.printed import tables_4_to_9
from birdlab.report.table import Col

#: What the values of a factor are multiplied by for print, and their unit then.
UNITS: dict[str, tuple[float, str]] = {
    "rel_size": (100, "% of the frame's side"),
    **dict.fromkeys(("brightness_local", "brightness_global"), (1, "gray level, 0–255")),
    **dict.fromkeys(("contrast_local", "contrast_global"), (1, "gray levels, SD")),
    "blur_local": (1, "variance of the Laplacian"),
    **dict.fromkeys(("clutter_local", "clutter_background"), (100, "% edge pixels")),
    "crowding": (1, "labelled birds"),
    "border_px": (1, "px"),
}
SHEET_COLUMNS = {
    "factor": Col("Factor", kind="text"),
    "n": Col("Birds", kind="int"),
    "min": Col("Least", digits=2),
    "median": Col("Median", digits=2),
    "max": Col("Most", digits=2),
    "sd": Col("SD", "all birds", digits=2),
    "within": Col("Within sessions", "% of that SD", kind="percent", digits=0),
    "edges": Col("Bins begin at", kind="text"),
}
SLICE_COLUMNS = {
    "slice": Col("Birds that are", kind="text"),
    "n": Col("Birds", kind="int"),
    "missed": Col("Missed", kind="int"),
    "recall": Col("Recall", "%", kind="percent", digits=0),
    "missed_share": Col("Of all misses", "%", kind="percent", digits=0),
    "excess": Col("Worse than either", "points", kind="percent", digits=0),
    "p_max": Col("p", "whole family", kind="p"),
    "mark": Col("Confirmed", kind="text"),
}
PAIR_COLUMNS = {
    "birds": Col("Birds", kind="text"),
    "pair": Col("Pair", kind="text"),
    "difference": Col("Difference in recall", "points", kind="percent"),
    "n": Col("Birds", "n", kind="int"),
    "n_only_a": Col("Only the first", kind="int"),
    "n_only_b": Col("Only the second", kind="int"),
    "p_holm": Col("p", "after Holm", kind="p"),
    "mark": Col("Confirmed", kind="text"),
}
_YES = pl.when(pl.col("confirmed")).then(pl.lit("yes"))


def sheet(rows: pl.DataFrame, bins: pl.DataFrame) -> pl.DataFrame:
    """The factors: how many birds have a value, its range, and how much of its spread lies within sessions.

    Args:
        rows: table ``factors``.
        bins: table ``difficulty_bins``, for the edges; may be empty.
    """
    out = []
    for name in [c for c in UNITS if c in rows.columns] + [c for c in ("occlusion",) if c in rows.columns]:
        scale, unit = UNITS.get(name, (1, "as labelled"))
        known = rows.select("video_id", pl.col(name).cast(pl.Float64).alias("x")).drop_nulls()
        row: dict[str, Any] = {"factor": title(name), "factor_note": unit, "n": known.height}
        if known.is_empty():
            if name != "occlusion":  # nobody expects it
                why = "no bird has a value"
                out.append(row | {f"{c}_reason": why for c in SHEET_COLUMNS if c not in ("factor", "n")})
            continue
        x = known["x"]
        row |= {
            "min": x.min() * scale,
            "median": x.median() * scale,
            "max": x.max() * scale,
            "sd": x.std(ddof=0) * scale,
        }
        left = known.select(pl.col("x") - pl.col("x").mean().over("video_id"))["x"]
        row["within"] = left.std(ddof=0) / x.std(ddof=0) if x.std(ddof=0) else None
        row["within_reason"] = None if row["within"] is not None else "every value is the same"
        row["edges"] = _edges(bins, name, scale) or None
        row["edges_reason"] = None if row["edges"] else "no model was asked about these birds"
        out.append(row)
    reasons = {f"{c}_reason": pl.String for c in SHEET_COLUMNS if c not in ("factor", "n")}
    schema = {"factor": pl.String, "factor_note": pl.String, "n": pl.Int64}
    schema |= dict.fromkeys(("min", "median", "max", "sd", "within"), pl.Float64) | {"edges": pl.String} | reasons
    return pl.DataFrame(out, schema=schema)


def _edges(bins: pl.DataFrame, factor: str, scale: float) -> str:
    mine = bins.filter((pl.col("factor") == factor) & (pl.col("level") != MISSING))
    mine = mine.filter(pl.col("model") == mine["model"].first()) if mine.height else mine
    said = []
    for r in mine.sort("order").iter_rows(named=True):
        name = shown_levels(factor, r["level"])
        said.append(name if r["lo"] is None else f"{name} {r['lo'] * scale:.3g}")
    return ", ".join(said)


def drawn_bins(bins: pl.DataFrame, factors: pl.DataFrame) -> pl.DataFrame:
    """Recall by bin as the figures draw it: a row per model, factor and bin.

    Returns:
        model, factor, title, level, order, n, k, recall, both intervals, ``overall``, ``is_worst`` (every bin of a
        tie), ``confirmed`` (its factor), ``confounded``, ``reason``.
    """
    about = factors.select("model", "factor", "overall", "worst", "confirmed")
    rows = bins.join(about, on=["model", "factor"], how="left", maintain_order="left")
    worst = pl.col("worst").str.split(LEVEL_JOIN).list.contains(pl.col("level")).fill_null(False)
    names = {f: title(f) for f in rows["factor"].unique().to_list()}
    shown = [shown_levels(f, level) for f, level in rows.select("factor", "level").iter_rows()]
    return rows.select(
        *("model", "factor"),
        pl.col("factor").replace_strict(names, return_dtype=pl.String).alias("title"),
        pl.Series("level", shown, dtype=pl.String),
        *("order", "n", "k", "recall", "within_lo", "within_hi", "new_lo", "new_hi", "overall"),
        worst.alias("is_worst"),
        *("confirmed", "confounded", "reason"),
    )


def drawn_birds(instances: pl.DataFrame, bins: pl.DataFrame, model: str | None) -> pl.DataFrame:
    """Every bird's value of every factor by session, for the strip plot.

    Returns:
        factor, title, session, value, ``recovered`` (by ``model``), ``edges`` (of the bins).
    """
    mine = instances.filter(pl.col("model") == (model or ""))
    names = [n for n in bins["factor"].unique(maintain_order=True).to_list() if n in mine.columns]
    parts = [pl.DataFrame(schema={"factor": pl.String, "title": pl.String, "session": pl.String, "value": pl.Float64,
                                  "recovered": pl.Boolean, "edges": pl.List(pl.Float64)})]  # fmt: skip
    for name in names:
        edges = bins.filter((pl.col("factor") == name) & (pl.col("model") == model)).sort("order")["lo"].drop_nulls()
        scale = UNITS.get(name, (1, ""))[0]
        about = [pl.lit(name).alias("factor"), pl.lit(title(name)).alias("title"), "session"]
        value = (pl.col(name) * scale).alias("value")
        lines = pl.lit([e * scale for e in edges.to_list()], dtype=pl.List(pl.Float64)).alias("edges")
        parts.append(mine.drop_nulls(name).select(*about, value, "recovered", lines))
    return pl.concat(parts)


def worst(factors: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """The layout of Western Bluebird's Tables 4-9: a row per model, a column per factor, with n and marks."""
    names = factors["factor"].unique(maintain_order=True).to_list()
    rows = []
    for model in models:
        mine = {r["factor"]: r for r in factors.filter(pl.col("model") == model).to_dicts()}
        row: dict[str, Any] = {"model": model}
        for name in names:
            r = mine.get(name, {})
            row[name] = worst_cell(name, r) if r.get("delta") is not None else None
            row[f"{name}_reason"] = r.get("reason") or "the model was not asked about any bird"
        rows.append(row)
    columns = ["model", *names, *(f"{n}_reason" for n in names)]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String))


def worst_cell(factor: str, row: Mapping[str, Any]) -> str:
    r"""One cell of those tables: worst bin, recall, Δ, n, a star where Holm confirms it, a dagger where one session rules.

    >>> found = {"worst": "Dark", "worst_recall": 0.777, "delta": 0.206, "worst_n": 175, "confirmed": True}
    >>> worst_cell("brightness_local", found).replace("\u00a0", " ")
    'Dark: 77.7 %, Δ 20.6* (n 175)'
    """
    marks = ("*" if row.get("confirmed") else "") + ("†" if row.get("confounded") else "")
    n = "" if row.get("worst_n") is None else f" (n\u00a0{row['worst_n']})"
    level = shown_levels(factor, row["worst"])
    # Lines break between the parts, not inside them.
    return f"{level}: {100 * row['worst_recall']:.1f}\u00a0%, Δ\u00a0{100 * row['delta']:.1f}{marks}{n}"


def worst_columns(factors: pl.DataFrame) -> dict[str, Col]:
    """How :func:`worst` is printed."""
    names = factors["factor"].unique(maintain_order=True).to_list()
    return {"model": Col("Model", kind="text")} | {name: Col(title(name), kind="text") for name in names}


def printed_worst(names: Sequence[str], factors: pl.DataFrame) -> pl.DataFrame | None:
    """The printed Tables 4-9 of Western Bluebird as rows of :func:`worst`; None where the recipe does not ask for them."""
    shown = factors["factor"].unique(maintain_order=True).to_list()
    if BLUEBIRD not in names or not shown:
        return None
    rows = []
    for (model,), part in tables_4_to_9().partition_by("model", as_dict=True, maintain_order=True).items():
        cells = {r["factor"]: worst_cell(r["factor"], {**r, "worst_recall": r["recall"]}) for r in part.to_dicts()}
        row = {"model": str(model), "model_note": "Western Bluebird, as printed"}
        rows.append(row | {name: cells.get(name) for name in shown})
    return pl.DataFrame(rows, schema=dict.fromkeys(["model", "model_note", *shown], pl.String))


def worst_slices(slices: pl.DataFrame, models: Sequence[str], *, most: int = 3) -> pl.DataFrame:
    """The slices of two factors with the lowest recall of each model, at most ``most`` with a miss in them."""
    rows = slices.filter((pl.col("k") < pl.col("n")) & pl.col("model").is_in(list(models)))
    # Local and global values of one thing are one factor twice.
    kind = [pl.col(c).str.split("_").list.first() for c in ("factor_a", "factor_b")]
    rows = rows.filter(kind[0] != kind[1]).group_by("model", maintain_order=True).head(most)
    words = [
        f"{predicate(r['factor_a'], r['level_a'])} and {predicate(r['factor_b'], r['level_b'])}"
        for r in rows.iter_rows(named=True)
    ]
    mark = _YES.when(pl.col("p_max").is_null()).then(pl.lit("cannot be")).otherwise(pl.lit("no"))
    dagger = pl.when(pl.col("confounded")).then(pl.lit(" †")).otherwise(pl.lit(""))
    return rows.select(
        "model",
        pl.Series("slice", words, dtype=pl.String) + dagger,
        pl.col("model").alias("slice_note"),
        "n",
        (pl.col("n") - pl.col("k")).alias("missed"),
        "recall",
        pl.col("within_lo").alias("recall_lo"),
        pl.col("within_hi").alias("recall_hi"),
        *("missed_share", "excess", "p_max"),
        pl.col("reason").alias("p_max_reason"),
        mark.alias("mark"),
    )


def pairs(compared: pl.DataFrame, best: str | None, *, most: int = 4) -> pl.DataFrame:
    """The best model against each other one on the same birds: overall, and in the bins where they differ most."""
    new = compared.filter(pl.col("kind") == "new_sessions")
    if best is not None:
        new = new.filter((pl.col("model_a") == best) | (pl.col("model_b") == best))
    parts = [new.clear()]
    for part in new.partition_by("model_a", "model_b", maintain_order=True):
        inside = part.filter(pl.col("factor") != "all").drop_nulls("difference")
        # One bin per factor, the one with the largest difference either way.
        far = inside.sort(pl.col("difference").abs(), descending=True, maintain_order=True)
        parts += [
            part.filter(pl.col("factor") == "all"),
            far.unique("factor", keep="first", maintain_order=True).head(most),
        ]
    rows = pl.concat(parts)
    words = [
        "all birds" if f == "all" else condition(f, level) for f, level in rows.select("factor", "level").iter_rows()
    ]
    mark = _YES.when(pl.col("p_holm").is_null()).then(pl.lit("cannot be")).otherwise(pl.lit("no"))
    return rows.select(
        pl.Series("birds", words, dtype=pl.String),
        pl.format("{} − {}", "model_a", "model_b").alias("pair"),
        *("model_a", "model_b", "factor", "difference"),
        pl.col("lo").clip(-1, 1).alias("difference_lo"),
        pl.col("hi").clip(-1, 1).alias("difference_hi"),
        pl.col("reason").alias("difference_reason"),
        *("n", "n_only_a", "n_only_b", "p_holm"),
        pl.col("reason").alias("p_holm_reason"),
        mark.alias("mark"),
    )


def scale_bins(metrics: pl.DataFrame, models: Sequence[str]) -> list[tuple[str, str, int]]:
    """Sizes of the scale table in order: COCO's three, then relative ones with a bird: (group, level, most birds)."""
    found = []
    for group in ("coco_size", "relative_size"):
        rows = pick(metrics, "ap", group=group).filter(pl.col("model").is_in(list(models)))
        for level in rows["level"].unique(maintain_order=True).to_list():
            n = int(rows.filter(pl.col("level") == level)["n"].max() or 0)
            if n or group == "coco_size":
                found.append((group, level, n))
    return found


def scale(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """The layout of Western Bluebird's Table 3: AP by size, a row per model, a further one where it draws outlines."""
    bins, rows = scale_bins(metrics, models), []
    for model in models:
        for metric, note in (("ap", None), ("mask_ap", "outlines")):
            mine = metrics.filter(
                (pl.col("model") == model) & (pl.col("metric") == metric) & pl.col("published").is_null()
            )
            cells = {(r["group"], r["level"]): r for r in mine.iter_rows(named=True)}
            if metric == "mask_ap" and not any(group in ("coco_size", "relative_size") for group, _ in cells):
                continue
            row: dict[str, Any] = {"model": model, "model_note": note, "what": metric}
            for group, level, _ in bins:
                cell = cells.get((group, level), {})
                row[f"{group} {level}"] = cell.get("value")
                if cell.get("value") is None:
                    row[f"{group} {level}_reason"] = cell.get("reason") or "not measured in this run"
            rows.append(row)
    names = [f"{group} {level}" for group, level, _ in bins]
    schema = dict.fromkeys(("model", "model_note", "what"), pl.String) | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema | {f"{n}_reason": pl.String for n in names})


def scale_columns(metrics: pl.DataFrame, models: Sequence[str]) -> dict[str, Col]:
    """How :func:`scale` is printed: n stands under every size."""
    shown = {"model": Col("Model", kind="text")}
    for group, level, n in scale_bins(metrics, models):
        name = f"COCO {level}" if group == "coco_size" else level.replace("-", "–")
        shown[f"{group} {level}"] = Col(name, f"{n:,} {'bird' if n == 1 else 'birds'}", "up")
    return shown


def printed_scale(metrics: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame | None:
    """The printed Table 3 as rows of :func:`scale`, for the sizes that the table has; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & pl.col("source").str.ends_with("Table 3"))
    names = [f"{group} {level}" for group, level, _ in scale_bins(metrics, models)]
    if rows.is_empty() or not names:
        return None
    out = []
    for (model, source), part in rows.partition_by("model", "source", as_dict=True, maintain_order=True).items():
        cells = {f"{r['group']} {r['level']}": r["published"] for r in part.iter_rows(named=True)}
        about = {"model": str(model), "model_note": f"{source}, as printed"}
        out.append(about | {name: cells.get(name) for name in names})
    schema = {"model": pl.String, "model_note": pl.String} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(out, schema=schema)


def errors(error_types: pl.DataFrame, calibration: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """What AP50 would gain if each kind of error were mended, and how far the scores can be believed: a row per model."""
    rows = []
    for model in models:
        mine = {r["error"]: r for r in error_types.filter(pl.col("model") == model).to_dicts()}
        sure = calibration.filter(pl.col("model") == model).to_dicts()
        row: dict[str, Any] = {"model": model, "model_note": _counted(mine)}
        row["ap"] = next((r["ap"] for r in mine.values()), None)
        why = next((r["reason"] for r in mine.values() if r["reason"]), None)
        row["ap_reason"] = why or "the model was not scored"
        for error in (*MAIN_ERRORS, *SPECIAL_ERRORS):
            row[error] = mine.get(error, {}).get("delta_ap")
            row[f"{error}_reason"] = mine.get(error, {}).get("reason") or row["ap_reason"]
        for name in ("mean_score", "precision", "ece"):
            row[name] = sure[0][name] if sure else None
            row[f"{name}_reason"] = (sure[0]["reason"] if sure else None) or "no detection at the fixed score"
        rows.append(row)
    numbers = ["ap", *MAIN_ERRORS, *SPECIAL_ERRORS, "mean_score", "precision", "ece"]
    schema = {"model": pl.String, "model_note": pl.String} | dict.fromkeys(numbers, pl.Float64)
    return pl.DataFrame(rows, schema=schema | {f"{n}_reason": pl.String for n in numbers})


def _counted(mine: Mapping[str, Mapping[str, Any]]) -> str:
    words = {"Loc": "badly placed", "Dupe": "doubled", "Bkg": "on nothing", "Miss": "never seen"}
    words = {"Cls": "wrong class", "Both": "wrong class and place"} | words
    return ", ".join(f"{mine[e]['n']:,} {w}" for e, w in words.items() if mine.get(e, {}).get("n"))


def error_columns(error_types: pl.DataFrame) -> dict[str, Col]:
    """How :func:`errors` is printed; errors of class only where they occur."""
    labels = {"Cls": "Class", "Loc": "Place", "Both": "Both", "Dupe": "Double", "Bkg": "On nothing", "Miss": "Unseen"}
    labels |= {"FalsePos": "All false", "FalseNeg": "All missed"}
    some = error_types.filter(pl.col("n") > 0)["error"].unique().to_list()
    kept = {e: Col(label, "gain") for e, label in labels.items() if e not in ("Cls", "Both") or e in some}
    shown = {"model": Col("Model", kind="text"), "ap": Col("AP50", "as it is", "up", digits=2), **kept}
    shown |= {"mean_score": Col("Mean score", "it claims", digits=2), "precision": Col("Right", "it is", digits=2)}
    return shown | {"ece": Col("ECE", "of the score", "down", digits=2)}


def titled(factors: pl.DataFrame) -> pl.DataFrame:
    """Table ``difficulty_factors`` with the name of each factor as ``title``."""
    names = [title(f) for f in factors["factor"].to_list()]
    return factors.with_columns(pl.Series("title", names, dtype=pl.String))
