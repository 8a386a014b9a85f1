"""Figures of the chapter on difficulty: recall by bin, heatmap, sensitivity and impact, values by session.

Drawn from saved tables and nothing else, like those of :mod:`birdlab.figures.detection`. Colours belong to models; shape and a word say
what is worst, what is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RAMP = ("#F7F8F9", "#2A2F35")  #: of matrices: low and high
_CONFIRMED = "*"


def fig_bins(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Recall by bin, one panel per factor, all models side by side, with both named intervals and n under every bin.

    Thick pale bar: these sessions. Thin bar: a new session or site. Line: the model's overall recall. Filled and labelled: the
    worst bin. The scale is the same in all panels.

    Args:
        rows: as :func:`birdlab.chapters.difficulty.drawn_bins` makes.
        models: names in the order of the recipe.
    """
    factors = rows.select("factor", "title").unique(maintain_order=True).rows()
    present = [m for m in models if m in set(rows["model"])]
    per_row = 1 if narrow else 3
    figure, grid = _panels(len(factors), per_row, narrow, each=2.05 if narrow else 1.85)
    if not factors:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    lowest = _lowest(rows)
    for i, (axes, (factor, title)) in enumerate(zip(grid.flat, factors, strict=False)):
        part = rows.filter(pl.col("factor") == factor)
        for j, name in enumerate(present):
            shift = (j - (len(present) - 1) / 2) * min(0.27, 0.8 / max(1, len(present)))
            _bins_of(axes, part.filter(pl.col("model") == name), hues[name], shift)
        axes.set_title(title)
        _bin_axis(axes, part, lowest, first=i % per_row == 0)
        if i < per_row and (i + 1 == min(per_row, len(factors))):
            _overall_names(axes, rows, present, hues)
    for axes in list(grid.flat)[len(factors) :]:
        axes.set_axis_off()
    return figure


def fig_heatmap(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Recall of every model in every bin as a matrix in one grey ramp; dark is missed.

    Args:
        rows: as :func:`birdlab.chapters.difficulty.drawn_bins` makes.
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    present = [m for m in models if m in set(rows["model"])]
    columns = (
        rows.select("factor", "title", "level", "order").unique(maintain_order=True).sort("order", maintain_order=True)
    )
    order = {f: i for i, f in enumerate(rows["factor"].unique(maintain_order=True).to_list())}
    columns = columns.sort(
        pl.col("factor").replace_strict(order, default=0, return_dtype=pl.Int64), maintain_order=True
    )
    places, at = [], 0.0
    for previous, factor in zip([None, *columns["factor"].to_list()], columns["factor"].to_list(), strict=False):
        at += 0.0 if previous is None else 1.0 if previous == factor else 1.35
        places.append(at)
    width = style.NARROW_IN if narrow else style.WIDE_IN
    height = 0.24 * (at + 1) + 0.5 if narrow else 0.34 * max(1, len(present)) + 1.35
    with style.rc(width):
        figure, axes = plt.subplots(figsize=(width, height))
    if not present or columns.is_empty():
        return _nothing(figure, np.array([[axes]]))
    cells = {(r["model"], r["factor"], r["order"]): r for r in rows.iter_rows(named=True)}
    for j, name in enumerate(present):
        for place, c in zip(places, columns.iter_rows(named=True), strict=True):
            x, y = (j, place) if narrow else (place, j)
            _cell(axes, x, y, cells.get((name, c["factor"], c["order"])), wide=narrow)
    _heat_axes(axes, columns, places, present, style.model_colours(models), narrow)
    return figure


def fig_impact(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Sensitivity and impact, one panel per model: pale from the worst bin to overall, dark from overall to the best bin.

    Args:
        rows: table ``difficulty_factors`` with a column ``title``; factors that are not defined are left out of a panel.
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    known = rows.drop_nulls("impact")
    present = [m for m in models if m in set(known["model"])]
    ranked = known.group_by("title", maintain_order=True).agg(pl.col("impact").max()).sort("impact", descending=True)
    titles = ranked["title"].to_list()
    per_row = 1 if narrow else min(3, max(1, len(present)))
    n_rows = max(1, math.ceil(len(present) / per_row))
    width = style.NARROW_IN if narrow else style.WIDE_IN
    height = (0.25 * max(1, len(titles)) + 0.95) * n_rows
    with style.rc(width):
        figure, grid = plt.subplots(n_rows, per_row, sharey=True, squeeze=False, figsize=(width, height))
    if not present:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    for axes, name in zip(grid.flat, present, strict=False):
        _impact_of(axes, known.filter(pl.col("model") == name), titles, hues[name], name)
    for axes in list(grid.flat)[len(present) :]:
        axes.set_axis_off()
    return figure


def fig_strip(rows: pl.DataFrame, *, model: str, models: Sequence[str], narrow: bool = False) -> Figure:
    """Every bird's value by session, one panel per factor: where rows do not overlap, factor and session are one.

    Args:
        rows: as :func:`birdlab.chapters.difficulty.drawn_birds` makes.
        model: whose misses are marked.
        models: names in the order of the recipe.
    """
    factors = rows.select("factor", "title").unique(maintain_order=True).rows()
    sessions = rows["session"].unique().sort().to_list()
    per_row = 2 if narrow else 5
    each = 0.11 * len(sessions) + 0.75 if len(sessions) > 16 else 0.17 * max(2, len(sessions)) + 0.75
    figure, grid = _panels(len(factors), per_row, narrow, each=each, sharey=True)
    if not factors:
        return _nothing(figure, grid)
    hue = style.model_colours(models).get(model, style.NEUTRAL)
    for axes, (factor, title) in zip(grid.flat, factors, strict=False):
        part = rows.filter(pl.col("factor") == factor)
        _strip(axes, part, sessions, hue)
        axes.set_title(title, fontsize=8)
    for axes in list(grid.flat)[len(factors) :]:
        axes.set_axis_off()
    return figure


def _panels(n: int, per_row: int, narrow: bool, *, each: float, sharey: bool = False) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    n_rows = max(1, math.ceil(n / per_row))
    with style.rc(width):
        figure, grid = plt.subplots(n_rows, per_row, squeeze=False, figsize=(width, each * n_rows), sharey=sharey)
    return figure, grid


def _nothing(figure: Figure, grid: Any) -> Figure:
    for axes in grid.flat:
        axes.set_axis_off()
    grid.flat[0].annotate("Nothing to draw.", (0, 1), xycoords="axes fraction", va="top", color=style.SOFT)
    figure.set_size_inches(figure.get_size_inches()[0], 0.6)
    return figure


def _lowest(rows: pl.DataFrame) -> float:
    """Where the scale of recall begins: a tenth below the lowest interval within these sessions."""
    ends = rows.select(pl.min_horizontal("recall", "within_lo"))["recall"].drop_nulls()
    return max(0.0, math.floor(10 * float(ends.min()) - 0.5) / 10) if len(ends) else 0.0


def _bins_of(axes: Axes, rows: pl.DataFrame, hue: style.Hue, shift: float) -> None:
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=1.8, foreground="white")]
    for r in rows.iter_rows(named=True):
        x = r["order"] + shift
        if r["recall"] is None:
            axes.annotate("–", (x, 0.02), xycoords=("data", "axes fraction"), ha="center", color=style.SOFT)
            continue
        if r["within_lo"] is not None:
            axes.plot([x, x], [r["within_lo"], r["within_hi"]], color=hue.line, alpha=0.28, lw=5, solid_capstyle="butt")
        if r["new_lo"] is not None:
            axes.plot([x, x], [r["new_lo"], r["new_hi"]], color=hue.line, linewidth=0.9)
        fill = hue.line if r["is_worst"] else "white"
        axes.plot(x, r["recall"], "o", ms=4.6, mec=hue.line, mfc=fill, mew=1.3, zorder=5)
        if r["is_worst"]:
            text = f"{100 * r['recall']:.0f}{_CONFIRMED if r['confirmed'] else ''}"
            axes.annotate(text, (x, r["recall"]), (4, 0), textcoords="offset points", va="center", fontsize=7.5,
                          color=hue.on_light, fontweight="semibold", zorder=6, path_effects=halo)  # fmt: skip
    overall = rows["overall"].drop_nulls()
    if len(overall):
        axes.axhline(overall[0], color=hue.line, linewidth=0.7, linestyle=(0, (4, 2)), zorder=0, alpha=0.8)


def _bin_axis(axes: Axes, rows: pl.DataFrame, lowest: float, *, first: bool) -> None:
    bins = rows.group_by("order", "level", maintain_order=True).agg(pl.col("n").max()).sort("order")
    names = [level.replace(" + ", " +\n").replace("Very small", "Very\nsmall") for level in bins["level"].to_list()]
    labels = [f"{n:,}\n{name.lower()}" for n, name in zip(bins["n"].to_list(), names, strict=True)]
    if labels:
        labels[0] = f"n = {labels[0]}"
    axes.set_xticks(bins["order"].to_list(), labels, fontsize=7)
    axes.tick_params(axis="x", length=0)
    axes.set(xlim=(-0.55, max(1, bins.height) - 0.35), ylim=(lowest - 0.02, 1.03))
    ticks = np.unique(np.round(1 - np.arange(0, 1 - lowest + 1e-9, 0.2 if lowest < 0.5 else 0.1), 3))
    axes.set_yticks(ticks, [f"{100 * t:.0f}" + (" %" if t == 1 else "") for t in ticks] if first else [""] * len(ticks))
    axes.grid(axis="y")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _overall_names(axes: Axes, rows: pl.DataFrame, models: Sequence[str], hues: dict[str, style.Hue]) -> None:
    """Names at the right end of the overall lines, apart from each other."""
    named = [(float(o[0]), m) for m in models if len(o := rows.filter(pl.col("model") == m)["overall"].drop_nulls())]
    at = None
    for overall, name in sorted(named, reverse=True):
        gap = 0.13 * (axes.get_ylim()[1] - axes.get_ylim()[0])
        at = overall if at is None else min(overall, at - gap)
        axes.annotate(f"{name} {100 * overall:.0f}", (1.01, at), xycoords=("axes fraction", "data"), va="center",
                      fontsize=7.5, color=hues[name].on_light, fontweight="semibold", annotation_clip=False)  # fmt: skip


def _cell(axes: Axes, x: float, y: float, row: dict[str, Any] | None, *, wide: bool) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    recall = None if row is None else row["recall"]
    shade = "#FFFFFF" if recall is None else LinearSegmentedColormap.from_list("ramp", RAMP)(1 - recall)
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade, edgecolor="none"))
    ink = style.INK if recall is None else _ink(shade)
    text = "–" if recall is None else f"{100 * recall:.0f}"
    worst = bool(row and row["is_worst"])
    axes.annotate(text, (x, y), ha="center", va="center", fontsize=7 if not wide else 7.5, color=ink,
                  fontweight="bold" if worst else "normal")  # fmt: skip
    if worst and recall is not None:
        axes.add_patch(
            Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, facecolor="none", edgecolor=style.INK, linewidth=1.0)
        )


def _ink(shade: tuple[float, ...]) -> str:
    """Black or white, whichever keeps 4.5 : 1 on this grey (WCAG 2, relative luminance); one of them always does."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shade[:3]]
    luminance = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    return "black" if luminance > 0.179 else "white"


def _heat_axes(
    axes: Axes, columns: pl.DataFrame, places: list[float], models: list[str], hues: dict[str, style.Hue], narrow: bool
) -> None:
    end = places[-1] + 0.6
    levels = [level.lower() for level in columns["level"].to_list()]
    spans: dict[str, list[float]] = {}
    for title, place in zip(columns["title"].to_list(), places, strict=True):
        spans.setdefault(title, []).append(place)
    if narrow:
        axes.set(xlim=(-0.6, len(models) - 0.4), ylim=(end, -0.6))
        names = [f"{t}: {level}" if p == min(spans[t]) else level for t, level, p in
                 zip(columns["title"].to_list(), levels, places, strict=True)]  # fmt: skip
        axes.set_yticks(places, names, fontsize=7)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(models)), models, fontsize=7.5)
        labels = axes.get_xticklabels()
    else:
        axes.set(xlim=(-0.6, end), ylim=(len(models) - 0.4, -0.6))
        axes.set_xticks(places, levels, rotation=90, fontsize=7)
        axes.set_yticks(range(len(models)), models)
        labels = axes.get_yticklabels()
        for title, at in spans.items():
            text = title.replace("Distance to the ", "Distance to\nthe ")
            text = text if "\n" in text or len(title) <= 5 * len(at) else title.replace(" ", "\n", 1)
            axes.annotate(text, (min(at) - 0.48, -0.62), ha="left", va="bottom", fontsize=7, color=style.INK,
                          annotation_clip=False, linespacing=0.95)  # fmt: skip
    for label, name in zip(labels, models, strict=True):
        label.set_color(hues[name].on_light)
        label.set_fontweight("semibold")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _impact_of(axes: Axes, rows: pl.DataFrame, titles: list[str], hue: style.Hue, name: str) -> None:
    at = {title: i for i, title in enumerate(titles)}
    overall = rows["overall"][0]
    ends = [overall]
    for r in rows.iter_rows(named=True):
        y, worst, best = at[r["title"]], r["worst_recall"], r["best_recall"]
        axes.barh(y, worst - overall, left=overall, height=0.62, color=hue.line, alpha=0.28, linewidth=0)
        axes.barh(y, best - overall, left=overall, height=0.62, color=hue.line, linewidth=0)
        high = best
        if r["impact_lo"] is not None:
            low, high = overall + r["impact_lo"], max(best, min(1.0, overall + r["impact_hi"]))
            axes.plot([low, high], [y, y], color=style.INK, linewidth=0.9, solid_capstyle="butt")
        axes.annotate(f"{100 * worst:.0f}", (worst, y), (-3, 0), textcoords="offset points", ha="right", va="center",
                      fontsize=7, color=style.SOFT)  # fmt: skip
        text = f"+{100 * r['impact']:.1f}" + (_CONFIRMED if r["confirmed"] else "")
        axes.annotate(text, (high, y), (3, 0), textcoords="offset points", ha="left", va="center", fontsize=7.5,
                      color=hue.on_light, fontweight="bold" if r["confirmed"] else "normal")  # fmt: skip
        ends += [worst, high]
    axes.axvline(overall, color=style.INK, linewidth=0.9)
    axes.annotate(f"overall {100 * overall:.1f} %", (overall, 1), (0, 1), xycoords=("data", "axes fraction"),
                  textcoords="offset points", ha="center", va="bottom", fontsize=7)  # fmt: skip
    span = max(ends) - min(ends) or 0.1
    axes.set(xlim=(min(ends) - 0.16 * span, max(ends) + 0.26 * span), ylim=(len(titles) - 0.4, -0.7))
    ticks = [t for t in axes.get_xticks() if -1e-9 <= t <= 1 + 1e-9]
    axes.set_xticks(ticks, [f"{100 * t:.0f}" for t in ticks])
    axes.set_yticks(range(len(titles)), titles)
    axes.tick_params(axis="y", length=0, colors=style.INK)
    axes.spines["left"].set_visible(False)
    axes.set_title(name, color=hue.on_light, pad=14)
    axes.set_xlabel("recall, worst → best bin, %")


def _strip(axes: Axes, rows: pl.DataFrame, sessions: list[str], hue: style.Hue) -> None:
    code = {name: i for i, name in enumerate(sessions)}
    x = rows["value"].to_numpy()
    # Birds of a session in order, spread over the height of its row: the same picture every time.
    spread = np.asarray([((7 * i) % 11 - 5) / 11 * 0.62 for i in range(rows.height)])
    y = np.asarray([code[s] for s in rows["session"].to_list()], dtype=float) + spread
    missed = (~rows["recovered"].fill_null(True)).to_numpy()
    small = 1.9 if len(x) > 1500 else 2.6
    many = len(x) > 600
    axes.plot(x[~missed], y[~missed], "o", ms=small, mec=style.EDGE, mfc="none", mew=0.6, rasterized=many)
    axes.plot(x[missed], y[missed], "o", ms=small + 0.5, color=hue.line, mew=0, rasterized=many, zorder=4)
    for edge in rows["edges"][0].to_list() if rows.height else []:
        axes.axvline(edge, color=style.EDGE, linewidth=0.6, linestyle=(0, (3, 3)), zorder=0)
    positive = x[x > 0]
    if len(positive) == len(x) and len(x) and x.max() > 30 * np.median(x):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")  # the usual labels are formulas, which style.rc turns off
        axes.xaxis.set_minor_formatter("")
    else:
        axes.locator_params(axis="x", nbins=3)
    axes.set_ylim(len(sessions) - 0.4, -0.6)
    axes.set_yticks(range(len(sessions)), sessions, fontsize=7 if len(sessions) <= 16 else 5.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
