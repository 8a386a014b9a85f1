"""05_reidentification: tables of who is named, by which method, from which list of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

from birdlab.chapters.common import plain
from birdlab.individuals.reid.counts import WHAT
from birdlab.individuals.reid.leaks import CHECKS
from birdlab.recipe import Recipe
from birdlab.recipe.reid import RING_METHODS
from birdlab.report.table import Col
from birdlab.schemas.reid import GALLERIES, REID_SPLITS

MICRO, MACRO = "micro; new individuals", "macro; new individuals"
#: Protocols and lists in words.
SPLIT = {"closed": "closed set", "disjoint": "other birds", "open": "open set"}
GALLERY = {"territory": "territory", "neighbours": "+ neighbours", "all": "all birds"}
#: Columns of the table in the manner of the paper's Table 1.
LISTS = [(split, gallery) for split in ("closed", "disjoint") for gallery in GALLERIES]
MEASURES = ("top1", "top5", "map_individual", "map_clip")
NOTHING = "not in this study"
CHANCE = "guessing"
COUNT_COLUMNS = {
    "what": Col("What", kind="text"),
    "computed": Col("Here", kind="text"),
    "published": Col("Published", kind="text"),
    "verdict": Col("Verdict", kind="text"),
    "source": Col("Source", kind="text"),
}
LEAK_COLUMNS = {
    "split": Col("Protocol", kind="text"),
    "check": Col("Check", kind="text"),
    "n": Col("Found", kind="int"),
    "n_of": Col("Of", kind="int"),
    "verdict": Col("Verdict", kind="text"),
}
MEASURE_COLUMNS = {
    "model": Col("Method", kind="text"),
    "list": Col("List", kind="text"),
    "n": Col("n", "clips", kind="int"),
    "top1": Col("Top-1", "%", "up", kind="percent"),
    "top1_chance": Col("Guessing", "%", kind="percent"),
    "top5": Col("Top-5", "%", "up", kind="percent"),
    "top5_chance": Col("Guessing", "%", kind="percent"),
    "map_individual": Col("mAP", "by bird", "up", digits=2),
    "map_individual_chance": Col("Guessing", digits=2),
    "map_clip": Col("mAP", "by clip", "up", digits=2),
    "map_clip_chance": Col("Guessing", digits=2),
    "top1_macro": Col("Top-1", "macro, %", "up", kind="percent"),
    "top1_macro_chance": Col("Guessing", "%", kind="percent"),
}
OPEN_COLUMNS = {
    "model": Col("Method", kind="text"),
    "list": Col("List", kind="text"),
    "auroc": Col("AUROC", "known or new", "up", digits=2),
    "baks": Col("BAKS", "known birds", "up", digits=2),
    "baks_chance": Col("Guessing", digits=2),
    "baus": Col("BAUS", "new birds", "up", digits=2),
    "baus_chance": Col("Guessing", digits=2),
    "threshold": Col("Threshold", digits=2),
}
CALLED_COLUMNS = {
    "model": Col("Matcher", kind="text"),
    "how": Col("Birds of a frame", kind="text"),
    "list": Col("List", kind="text"),
    "n": Col("Clips", kind="int"),
    "right": Col("Named right", "% of all", "up", kind="percent"),
    "chance": Col("Guessing", "%", kind="percent"),
    "wrong": Col("Named wrong", "% of all", "down", kind="percent"),
    "right_of_named": Col("Right", "% of named", "up", kind="percent"),
    "chance_of_named": Col("Guessing", "% of named", kind="percent"),
    "named": Col("Named", "%", kind="percent"),
}
ALIKE_COLUMNS = {
    "model": Col("Method", kind="text"),
    "individual_id": Col("Bird", kind="text"),
    "taken_for": Col("Taken for", kind="text"),
    "n": Col("Clips", kind="int"),
    "n_queries": Col("Of", kind="int"),
    "hamming": Col("Rings that differ", kind="int"),
}
HOW = {"argmax": "each alone", "joint": "together"}


def methods(recipe: Recipe) -> list[str]:
    """Names of the methods of the study, in the recipe's order, the matchers of rings last."""
    section = recipe.reid
    return [m.name for m in section.methods] + list(RING_METHODS if section.rings else ()) if section else []


def counts_table(counts: pl.DataFrame) -> pl.DataFrame:
    """What is in the clips, in words, beside print; a row per number and source."""
    rows = [
        {
            "what": WHAT.get(r["what"], r["what"]),
            "computed": plain(r["computed"]),
            "published": plain(r["published"]),
            "verdict": r["verdict"],
            "source": r["source"],
            "computed_reason": r["reason"],
            "published_reason": "not published",
            "source_reason": "not published",
        }
        for r in counts.to_dicts()
    ]
    names = (*COUNT_COLUMNS, "computed_reason", "published_reason", "source_reason")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def leaks_table(leaks: pl.DataFrame) -> pl.DataFrame:
    """What each protocol gives away: leaks, remarks and what cannot be checked; the clean checks of a protocol in one row."""
    rows = []
    for verdict in ("leak", "remark", "cannot be checked"):
        for r in leaks.filter(pl.col("verdict") == verdict).to_dicts():
            row = {"split": SPLIT[str(r["split"])], "check": check_words(r["check"]), "check_note": r["example"]}
            row |= {k: r[k] for k in ("n", "n_of", "verdict")}
            rows.append(row | {f"{c}_reason": r["reason"] or "not counted" for c in ("n", "n_of")})
    for (split,), part in leaks.filter(pl.col("verdict") == "clean").group_by("split", maintain_order=True):
        said = f"{part.height} checks of videos, tracks, images, days and lists"
        row = {"split": SPLIT[str(split)], "check": said, "n": 0, "n_of": None, "verdict": "clean"}
        rows.append(row | {"n_of_reason": "each check counts something else"})
    ints = {"n", "n_of"}
    names = ("split", "check", "check_note", "n", "n_of", "verdict", "n_reason", "n_of_reason")
    return pl.DataFrame(rows, schema={c: pl.Int64 if c in ints else pl.String for c in names})


def check_words(check: str) -> str:
    """A check in words; those of lists name the list.

    >>> check_words("empty_list_territory")
    'queries whose list is empty, of the queries (territory)'
    """
    for gallery in GALLERIES:
        if check.endswith(f"_{gallery}") and check.removesuffix(f"_{gallery}") in CHECKS:
            return f"{CHECKS[check.removesuffix(f'_{gallery}')]} ({GALLERY[gallery]})"
    return CHECKS.get(check, check)


def table1_columns(metrics: pl.DataFrame) -> dict[str, Col]:
    """Columns of :func:`table1`: Top-1 of every protocol and list that has a value."""
    out: dict[str, Col] = {"model": Col("Method", kind="text")}
    for split, gallery in _lists(metrics):
        label = SPLIT[split][0].upper() + SPLIT[split][1:]
        out[f"{split}_{gallery}"] = Col(label, f"{GALLERY[gallery]}, %", "up", kind="percent")
    return out


def _lists(metrics: pl.DataFrame) -> list[tuple[str, str]]:
    there = metrics.filter(pl.col("metric") == "top1").select("group", "level").unique().rows()
    return [pair for pair in LISTS if pair in set(there)]


def table1(metrics: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Top-1 of every method with each list, micro, with 95 % for new birds, and what guessing gives, as Table 1 of CHIRP."""
    rows: list[dict[str, Any]] = []
    lists = _lists(metrics)
    for name in names:
        row: dict[str, Any] = {"model": name}
        for split, gallery in lists:
            found = number(metrics, "top1", name, split, gallery)
            key = f"{split}_{gallery}"
            row |= {key: found["value"], f"{key}_lo": found["lo"], f"{key}_hi": found["hi"]}
            row[f"{key}_reason"] = found["reason"]
        rows.append(row)
    if names:
        guess: dict[str, Any] = {"model": CHANCE}
        for split, gallery in lists:
            key = f"{split}_{gallery}"
            guess[key] = next(
                (c for n in names if (c := number(metrics, "top1", n, split, gallery)["chance"]) is not None), None
            )
            guess[f"{key}_reason"] = "chance is exact"
        rows.append(guess)
    keys = [f"{s}_{g}" for s, g in lists]
    columns = ["model", *(f"{k}{e}" for k in keys for e in ("", "_lo", "_hi", "_reason"))]
    text = {"model", *(f"{k}_reason" for k in keys)}
    frame = pl.DataFrame(
        [{c: r.get(c) for c in columns} for r in rows],
        schema={c: pl.String if c in text else pl.Float64 for c in columns},
    )
    return frame


def table1_published(metrics: pl.DataFrame) -> pl.DataFrame | None:
    """Printed rows under the columns of :func:`table1`; None without any."""
    rows = metrics.filter(pl.col("published").is_not_null() & (pl.col("metric") == "top1"))
    if rows.is_empty():
        return None
    keys = [f"{s}_{g}" for s, g in _lists(metrics)]
    flat = rows.with_columns(pl.format("{}_{}", "group", "level").alias("_key")).pivot(
        "_key", index="model", values="published", aggregate_function="first", maintain_order=True
    )
    source = pl.format("{}, as printed", pl.lit(rows["source"][0])).alias("model_note")
    missing = [pl.lit(None, pl.Float64).alias(k) for k in keys if k not in flat.columns]
    return flat.with_columns(*missing).select("model", source, *keys)


def number(
    metrics: pl.DataFrame, metric: str, model: str, split: str, gallery: str, method: str = MICRO
) -> dict[str, Any]:
    """One computed row of ``metrics`` as a mapping; every value null, with a reason, where there is none."""
    rows = metrics.filter(
        (pl.col("metric") == metric) & (pl.col("model") == model) & (pl.col("group") == split)
        & (pl.col("level") == gallery) & pl.col("published").is_null()
    )  # fmt: skip
    mine = rows.filter(pl.col("method") == method) if rows.height > 1 else rows
    found = mine.to_dicts() or [dict.fromkeys(metrics.columns) | {"reason": NOTHING}]
    return found[0]


def measure_table(metrics: pl.DataFrame, names: Sequence[str], split: str) -> pl.DataFrame:
    """Every measure of every method with each list of one protocol; a method that cannot be evaluated says why."""
    rows = []
    for gallery in GALLERIES:
        for name in names:
            found = {m: number(metrics, m, name, split, gallery) for m in MEASURES}
            if all(f["reason"] == NOTHING for f in found.values()):
                continue
            row: dict[str, Any] = {"model": name, "list": GALLERY[gallery], "n": found["top1"]["n"] or None}
            for m, f in found.items():
                row |= {m: f["value"], f"{m}_lo": f["lo"], f"{m}_hi": f["hi"], f"{m}_reason": f["reason"]}
            macro = number(metrics, "top1", name, split, gallery, MACRO)
            row |= {"top1_macro": macro["value"], "n_reason": found["top1"]["reason"]}
            row["top1_macro_reason"] = found["top1"]["reason"]
            for m, f in (found | {"top1_macro": macro}).items():
                row |= {f"{m}_chance": f["chance"], f"{m}_chance_reason": f["reason"]}
            rows.append(row)
    columns = ["model", "list", "n", "n_reason"]
    columns += [f"{m}{e}" for m in MEASURES for e in ("", "_lo", "_hi", "_reason")]
    columns += ["top1_macro", "top1_macro_reason"]
    columns += [f"{m}_chance{e}" for m in (*MEASURES, "top1_macro") for e in ("", "_reason")]
    return _frame(rows, columns, ("model", "list"))


def _frame(rows: Sequence[dict[str, Any]], columns: Sequence[str], text: Sequence[str]) -> pl.DataFrame:
    dtypes = {c: pl.String if c in text or c.endswith("_reason") else pl.Float64 for c in columns}
    cells = [
        {c: r.get(c) if dtypes[c] == pl.String or r.get(c) is None else float(r[c]) for c in columns} for r in rows
    ]
    return pl.DataFrame(cells, schema=dtypes)


def open_table(metrics: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Known or new: AUROC, BAKS, BAUS and the threshold of every method with each list; who cannot is a row with its reason."""
    rows = []
    for gallery in GALLERIES:
        for name in names:
            at = metrics.filter((pl.col("model") == name) & (pl.col("group") == "open") & (pl.col("level") == gallery))
            if at.is_empty():
                continue
            row: dict[str, Any] = {"model": name, "list": GALLERY[gallery]}
            refused = number(at, "top1", name, "open", gallery)
            for m in ("auroc", "baks", "baus", "threshold"):
                mine = at.filter((pl.col("metric") == m) & ~pl.col("method").str.ends_with("new videos")).to_dicts()
                found = mine[0] if mine else dict.fromkeys(at.columns) | {"reason": refused["reason"] or NOTHING}
                row |= {
                    m: found["value"],
                    f"{m}_lo": found["lo"],
                    f"{m}_hi": found["hi"],
                    f"{m}_reason": found["reason"],
                }
                row |= {f"{m}_chance": found["chance"], f"{m}_chance_reason": found["reason"] or NOTHING}
            rows.append(row)
    columns = [
        "model",
        "list",
        *(f"{m}{e}" for m in ("auroc", "baks", "baus", "threshold") for e in ("", "_lo", "_hi", "_reason")),
    ]
    columns += [f"{m}_chance{e}" for m in ("baks", "baus") for e in ("", "_reason")]
    return _frame(rows, columns, ("model", "list"))


def called_table(called: pl.DataFrame) -> pl.DataFrame:
    """Both matchers of rings, each clip alone and the birds of a frame together, with every list."""
    rows = []
    order = {g: i for i, g in enumerate(GALLERIES)}
    for r in sorted(
        called.to_dicts(), key=lambda r: (order[r["gallery"]], r["matcher"] != "published", r["assignment"])
    ):
        row = {"model": f"rings ({r['matcher']})", "how": HOW[r["assignment"]], "list": GALLERY[r["gallery"]]}
        row |= {k: r[k] for k in ("n", "named", "chance", "chance_of_named")}
        row["chance_of_named_reason"] = "no bird is named"
        for k in ("right", "wrong", "right_of_named"):
            row |= {
                k: r[k],
                f"{k}_lo": r[f"{k}_lo"],
                f"{k}_hi": r[f"{k}_hi"],
                f"{k}_reason": r["reason"] or "no bird is named",
            }
        rows.append(row)
    columns = ["model", "how", "list", "n", "named", "chance", "chance_of_named", "chance_of_named_reason"]
    columns += [f"{k}{e}" for k in ("right", "wrong", "right_of_named") for e in ("", "_lo", "_hi", "_reason")]
    return _frame(rows, columns, ("model", "how", "list"))


def alike_table(pairs: pl.DataFrame, names: Sequence[str], *, split: str, gallery: str, n: int = 5) -> pl.DataFrame:
    """Birds most often taken for another one, ``n`` pairs of every method."""
    rows = pairs.filter((pl.col("split") == split) & (pl.col("gallery") == gallery))
    parts = [rows.filter(pl.col("model") == name).head(n) for name in names]
    found = pl.concat([rows.clear(), *parts])
    why = pl.lit("without codes of one length").alias("hamming_reason")
    return found.select(*ALIKE_COLUMNS, why)


def drawn_in_colours(recipe: Recipe) -> Callable[..., Any]:
    """The figure of confused colours, with the colours that the recipe names."""
    from birdlab.figures.rings import fig_confusion

    rings = recipe.reid.rings if recipe.reid else None
    return partial(fig_confusion, colours=dict(rings.colours) if rings else None)


def splits_of(metrics: pl.DataFrame) -> list[str]:
    """Protocols that have a number, in their order."""
    there = set(metrics.filter((pl.col("metric") == "top1") & pl.col("published").is_null())["group"].to_list())
    return [s for s in REID_SPLITS if s in there]
