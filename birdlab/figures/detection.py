"""Figures of the chapters on data and detection, drawn from a saved table and nothing else.

Each function takes the table it draws and ``narrow`` (a phone's width: panels stacked, labels above their marks) and returns a
matplotlib figure; :func:`birdlab.report.show.show_figure` draws both widths and saves them with the table. Colours belong to
models, in the order of the recipe; shape, not colour, says what kind of mark it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Indents a session below its site (labels are right-aligned, so the indent stands behind the name).
NEST = "    "


def fig_sizes(bins: pl.DataFrame, *, narrow: bool = False) -> Figure:
    """Labelled birds by relative size, as bars with n above each.

    Args:
        bins: ``level``, ``n`` in order of size, as :func:`birdlab.chapters.audit.size_bins` makes.
    """
    figure, axes = _axes(narrow, height=2.3 if not narrow else 2.4)
    x = np.arange(bins.height)
    axes.bar(x, bins["n"].to_list(), width=0.78, color="#9AA1A8")
    for i, n in enumerate(bins["n"].to_list()):
        axes.annotate(
            f"{n}" if n else "–", (i, n), (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=7.5
        )
    axes.set_xticks(x, [level.replace("-", "–\n") for level in bins["level"].to_list()])
    axes.set_xlabel("relative size √(wh/WH)")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    style.label_y(axes, "birds")
    axes.margins(y=0.16)
    return figure


def fig_pr(curves: pl.DataFrame, *, models: Sequence[str], points: pl.DataFrame, narrow: bool = False) -> Figure:
    """Precision against recall at one IoU, a line per model, a ring at the confidence of the table.

    Args:
        curves: ``model``, ``score``, ``precision``, ``recall``, ``f1``, from high to low confidence.
        models: names in the order of the recipe (fixes the colours).
        points: ``model``, ``precision``, ``recall`` at the fixed confidence; rows with a null are not drawn.
    """
    figure, axes = _axes(narrow, height=3.4 if not narrow else 3.2)
    _iso_f1(axes)
    ranked = []
    for name, hue in style.model_colours(models).items():
        line = curves.filter(
            (pl.col("model") == name) & pl.col("precision").is_not_null() & pl.col("recall").is_not_null()
        )
        if line.height:
            recall, precision = line["recall"].to_numpy(), line["precision"].to_numpy()
            axes.plot(recall, precision, color=hue.line, linestyle=hue.dash, solid_capstyle="round")
            ranked.append((float(np.trapezoid(np.maximum.accumulate(precision[::-1])[::-1], recall)), name, hue))
        ring = points.filter(pl.col("model") == name).drop_nulls(["precision", "recall"])
        if ring.height:
            axes.plot(ring["recall"], ring["precision"], "o", ms=6, mfc="white", mec=hue.line, mew=1.6, zorder=5)
    human = points.filter(pl.col("model") == "human").drop_nulls(["precision", "recall"])
    if human.height:
        axes.plot(human["recall"], human["precision"], "D", ms=6, color=style.INK, zorder=6)
        where = (human["recall"][0], human["precision"][0])
        axes.annotate(
            "second observer", where, (-7, -3), textcoords="offset points", ha="right", va="top", fontsize=7.5
        )
    # The corner under the curves is the empty one: names in the order of the area under the curve.
    for i, (_, name, hue) in enumerate(sorted(ranked, key=lambda r: r[0])):
        place = (0.02, 0.03 + (0.055 if not narrow else 0.06) * i)
        axes.annotate(name, place, xycoords="axes fraction", color=hue.on_light, fontweight="semibold", va="bottom")
    axes.set(xlim=(0, 1.02), ylim=(0, 1.03), xlabel="recall")
    style.label_y(axes, "precision")
    return figure


def fig_f1(curves: pl.DataFrame, *, models: Sequence[str], conf: float, narrow: bool = False) -> Figure:
    """F1 against confidence, a line per model, its highest point marked, the confidence of the table as a dashed line."""
    figure, axes = _axes(narrow, height=2.8)
    axes.axvline(conf, color=style.EDGE, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.annotate(f"confidence {conf:g}", (conf, 0), (3, 3), textcoords="offset points", fontsize=7.5, color=style.SOFT)
    above = True
    for name, hue in style.model_colours(models).items():
        line = curves.filter((pl.col("model") == name) & pl.col("f1").is_not_null())
        if not line.height:
            continue
        score, f1 = line["score"].to_numpy(), line["f1"].to_numpy()
        axes.plot(score, f1, color=hue.line, linestyle=hue.dash)
        best = int(f1.argmax())
        axes.plot(score[best], f1[best], "o", ms=5, color=hue.line, zorder=5)
        text = f"{name} {f1[best]:.2f} at {score[best]:.2f}"
        axes.annotate(
            text,
            (score[best], f1[best]),
            (4, 5 if above else -12),
            textcoords="offset points",
            color=hue.on_light,
            fontweight="semibold",
        )
        above = not above
    axes.set(xlim=(0, 1), ylim=(0, 1.08), xlabel="confidence kept")
    style.label_y(axes, "F1")
    return figure


def fig_recall_by(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Recall per site and session, one panel per model, with the two named intervals where they are defined.

    Thick pale bar: these sessions. Thin dark bar: a new session. The dashed line is the model's recall over everything.

    Args:
        rows: as :func:`birdlab.chapters.common.by_place` makes; a null interval is not drawn, a null value is drawn as a dash.
    """
    import matplotlib.pyplot as plt

    levels = rows.select("level", "rank").unique(maintain_order=True).rows()
    present = [m for m in models if m in set(rows["model"])] or [""]
    n_rows, n_cols = (len(present), 1) if narrow else (1, len(present))
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, 1.4 + 3.6 * n_cols)
    height = (0.19 * len(levels) + 0.75) * n_rows
    with style.rc(width):
        figure, grid = plt.subplots(
            n_rows, n_cols, sharey=not narrow, sharex=True, squeeze=False, figsize=(width, height)
        )
        hues = style.model_colours(models)
        for axes, name in zip(grid.flat, present, strict=True):
            hue = hues.get(name, style.NEUTRAL)
            _dots(axes, rows.filter(pl.col("model") == name), levels, hue)
            axes.set_title(name, color=hue.on_light)
        for axes in grid[-1]:
            axes.set_xlabel("recall")
    return figure


def _dots(axes: Axes, rows: pl.DataFrame, levels: list[tuple[str, int]], hue: style.Hue) -> None:
    by_level = {(r["level"], r["rank"]): r for r in rows.to_dicts()}
    overall = by_level.get(("all", 0), {}).get("value")
    if overall is not None:
        axes.axvline(overall, color=style.EDGE, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    values = [r["value"] for r in by_level.values() if r["value"] is not None and r["rank"] == 2]
    worst = min(values, default=None)
    for i, level in enumerate(levels):
        r = by_level.get(level)
        if r is None or r["value"] is None:
            axes.annotate("–", (0, i), ha="left", va="center", color=style.SOFT)
            continue
        if r["within_lo"] is not None:
            axes.plot(
                [r["within_lo"], r["within_hi"]], [i, i], color=hue.line, alpha=0.28, linewidth=6, solid_capstyle="butt"
            )
        if r["new_lo"] is not None:
            axes.plot([r["new_lo"], r["new_hi"]], [i, i], color=hue.line, linewidth=1.1)
        filled = level[1] == 2 and r["value"] == worst and len(values) > 1
        axes.plot(r["value"], i, "o", ms=5, mec=hue.line, mfc=hue.line if filled else "white", mew=1.4, zorder=5)
        axes.annotate(
            f"{r['n']}", (1.03, i), ha="left", va="center", fontsize=7, color=style.SOFT, annotation_clip=False
        )
    axes.annotate("n", (1.03, -0.9), ha="left", va="center", fontsize=7, color=style.SOFT, annotation_clip=False)
    axes.set(xlim=(-0.02, 1.02), ylim=(len(levels) - 0.4, -0.9))
    nested = any(rank == 1 for _, rank in levels)
    axes.set_yticks(range(len(levels)), [f"{name}{NEST if nested and rank == 2 else ''}" for name, rank in levels])
    for label, (_, rank) in zip(axes.yaxis.get_majorticklabels(), levels, strict=False):
        label.set_fontweight("normal" if nested and rank == 2 else "semibold" if rank < 2 else "normal")
        label.set_color(style.SOFT if rank == 2 else style.INK)
    axes.grid(axis="x")


def _axes(narrow: bool, *, height: float) -> tuple[Figure, Axes]:
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else 6.2
    with style.rc(width):
        figure, axes = plt.subplots(figsize=(width, height))
    return figure, axes


def _iso_f1(axes: Axes) -> None:
    recall = np.linspace(0.01, 1, 200)
    for f1 in (0.2, 0.4, 0.6, 0.8):
        precision = f1 * recall / (2 * recall - f1 + 1e-12)
        shown = (precision > 0) & (precision <= 1.0)
        axes.plot(recall[shown], precision[shown], color=style.GRID, linewidth=0.9, zorder=0)
        axes.annotate(
            f"F1 {f1:g}",
            (1.0, f1 / (2 - f1)),
            (-2, 1),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=6.5,
            color=style.EDGE,
        )
