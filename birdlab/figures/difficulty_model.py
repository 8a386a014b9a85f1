"""Figures of the chapter on the joint model: forest, ladder, collinearity, curves, fit. Drawn from saved tables only."""

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

from birdlab.figures.difficulty import RAMP

_RUNGS = ("alone", "+ session", "+ factors", "+ both")


def fig_forest(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Slopes of each model with profile intervals, and every session left out as a small ring.

    Filled: status ok. Open and dashed: unstable. Arrow: no finite estimate. The scale is the same in all panels and follows the
    estimates; an interval that leaves it ends in an arrowhead.

    Args:
        rows: as :func:`birdlab.chapters.difficulty_model.drawn_effects` makes.
        models: names in the order of the recipe.
    """
    present = [name for name in models if rows.filter(model=name)["firth"].drop_nulls().len()]
    titles = rows["title"].unique(maintain_order=True).to_list()
    per_row = 1 if narrow else min(3, max(1, len(present)))
    figure, grid = _panels(max(1, len(present)), per_row, narrow, each=0.3 * max(1, len(titles)) + 0.75, sharey=True)
    if not present:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    lo, hi = _reach(rows)
    for axes, name in zip(grid.flat, present, strict=False):
        axes.axvline(0, color=style.INK, linewidth=0.7, zorder=0)
        for r in rows.filter(model=name).iter_rows(named=True):
            _slope(axes, titles.index(r["title"]), r, hues[name], (lo, hi))
        axes.set(xlim=(lo, hi), ylim=(len(titles) - 0.4, -0.75))
        axes.set_yticks(range(len(titles)), titles)
        axes.tick_params(axis="y", length=0, colors=style.INK)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_title(name, color=hues[name].on_light)
        axes.set_xlabel("fewer found  ←  log-odds per SD  →  more found", fontsize=7)
    return _rest(figure, grid, len(present))


def fig_ladder(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Slopes on four rungs, one panel per factor: alone, beside the sessions, beside the other factors, beside both.

    Filled: another sign than alone. Bars are 95 %; the scale of a panel follows the estimates.

    Args:
        rows: as :func:`birdlab.chapters.difficulty_model.drawn_ladder` makes.
        models: names in the order of the recipe.
    """
    titles = rows["title"].unique(maintain_order=True).to_list()
    present = [name for name in models if name in set(rows["model"])]
    per_row = 2 if narrow else 3
    figure, grid = _panels(max(1, len(titles)), per_row, narrow, each=1.75)
    if not titles:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    _key(figure, present, hues)
    for axes, title in zip(grid.flat, titles, strict=False):
        part = rows.filter(title=title)
        axes.axhline(0, color=style.INK, linewidth=0.7, zorder=0)
        for j, name in enumerate(present):
            _rungs(axes, part.filter(model=name).sort("order"), hues[name], (j - (len(present) - 1) / 2) * 0.16)
        low, high = float(part["firth"].min()), float(part["firth"].max())
        room = 0.75 * max(high - low, 0.8)
        axes.set(xlim=(-0.45, 3.45), ylim=(min(low, 0) - room, max(high, 0) + room))
        names = _RUNGS if not narrow else ("alone", "+s", "+f", "+both")
        axes.set_xticks(range(4), names, fontsize=6.5 if not narrow else 6.5)
        axes.tick_params(axis="x", length=0)
        axes.set_title(title)
    return _rest(figure, grid, len(titles))


def fig_collinearity(rows: pl.DataFrame, *, narrow: bool = False) -> Figure:
    """Correlations of the factors over all birds and within sessions, in one grey ramp, and variance inflation beside them.

    Args:
        rows: as :func:`birdlab.chapters.difficulty_model.drawn_collinearity` makes.
    """
    import matplotlib.pyplot as plt

    names = rows.filter(panel="VIF")["row"].unique(maintain_order=True).to_list()
    panels, n = ("pooled", "within sessions", "VIF"), max(1, len(names))
    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        if narrow:
            heights = {"height_ratios": [n, n, n]}
            figure, grid = plt.subplots(3, 1, squeeze=False, figsize=(width, 0.93 * n + 1.9), gridspec_kw=heights)
        else:
            widths = {"width_ratios": [n, n, 2.4]}
            figure, grid = plt.subplots(
                1, 3, squeeze=False, figsize=(width, 0.3 * n + 1.35), gridspec_kw=widths, sharey=True
            )
    if not names:
        return _nothing(figure, grid)
    heads = {"pooled": "r, all birds", "within sessions": "r, within sessions", "VIF": "Variance inflation"}
    for axes, panel in zip(grid.flat, panels, strict=True):
        columns = ["alone", "sessions"] if panel == "VIF" else names
        cells = {(r["row"], r["column"]): r["value"] for r in rows.filter(panel=panel).iter_rows(named=True)}
        for y, row in enumerate(names):
            for x, column in enumerate(columns):
                if panel == "VIF" or row != column:
                    _cell(axes, x, y, cells.get((row, column)), matrix=panel != "VIF")
        axes.set(xlim=(-0.6, len(columns) - 0.4), ylim=(n - 0.4, -0.6))
        labels = ["factors", "+ sessions"] if panel == "VIF" else names
        turn = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if panel != "VIF" else {}
        axes.set_xticks(range(len(columns)), labels, fontsize=6.5, **turn)
        axes.set_yticks(range(n), names, fontsize=7)
        axes.tick_params(length=0, colors=style.INK)
        axes.set_title(heads[panel])
        axes.spines[:].set_visible(False)
    return figure


def fig_partial(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Mean fitted recall against one factor, the others as they are, over the range that is seen within sessions.

    Bands are 95 % for these sessions. Dashed: a slope that is not ok. The scale is the same in all panels.

    Args:
        rows: as :func:`birdlab.chapters.difficulty_model.drawn_partial` makes.
        models: names in the order of the recipe.
    """
    titles = rows["title"].unique(maintain_order=True).to_list()
    present = [name for name in models if name in set(rows["model"])]
    per_row = 2 if narrow else 3
    figure, grid = _panels(max(1, len(titles)), per_row, narrow, each=1.7, sharey=True)
    if not titles:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    _key(figure, present, hues)
    for axes, title in zip(grid.flat, titles, strict=False):
        part = rows.filter(title=title)
        for name in present:
            mine, hue = part.filter(model=name), hues[name]
            dash = "-" if mine["status"][0] == "ok" else (0, (3, 2))
            x = mine["value"].to_numpy()
            axes.fill_between(x, mine["lo"].to_numpy(), mine["hi"].to_numpy(), color=hue.line, alpha=0.14, linewidth=0)
            axes.plot(x, mine["recall"].to_numpy(), color=hue.line, linestyle=dash)
        axes.set(ylim=(0, 1.02))
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="y")
        axes.set_title(title)
        axes.set_xlabel(part["unit"][0], fontsize=6.5 if narrow else 7)
    return _rest(figure, grid, len(titles))


def fig_fit(rows: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Fitted against observed recall by tenths of the fitted one, a panel per model; on the diagonal is right.

    Args:
        rows: as :func:`birdlab.chapters.difficulty_model.drawn_fit` makes.
        models: names in the order of the recipe.
    """
    present = [name for name in models if name in set(rows["model"])]
    per_row = 1 if narrow else min(3, max(1, len(present)))
    figure, grid = _panels(max(1, len(present)), per_row, narrow, each=2.5 if not narrow else 2.6, sharey=True)
    if not present:
        return _nothing(figure, grid)
    hues = style.model_colours(models)
    for axes, name in zip(grid.flat, present, strict=False):
        part, hue = rows.filter(model=name), hues[name]
        axes.plot([0, 1], [0, 1], color=style.EDGE, linewidth=0.7, zorder=0)
        for r in part.iter_rows(named=True):
            axes.plot([r["predicted"]] * 2, [r["lo"], r["hi"]], color=hue.line, alpha=0.28, lw=4, solid_capstyle="butt")
            axes.plot(r["predicted"], r["observed"], "o", ms=4.4, mec=hue.line, mfc="white", mew=1.3, zorder=5)
        r = part.row(0, named=True)
        p = r["hosmer_lemeshow_p"]
        hosmer = "" if p is None else f"\nHosmer–Lemeshow p {'< 0.001' if p < 0.001 else f'= {p:.2f}'}"
        text = f"AUC {r['auc']:.2f}\nBrier {r['brier']:.3f}, one recall for all {r['brier_null']:.3f}{hosmer}"
        axes.annotate(
            text, (1, 0.03), xycoords="axes fraction", ha="right", va="bottom", fontsize=7, color=hue.on_light
        )
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ticks = [0, 0.25, 0.5, 0.75, 1]
        axes.set_xticks(ticks, [f"{100 * t:.0f}" for t in ticks])
        axes.set_yticks(ticks, [f"{100 * t:.0f}" for t in ticks])
        axes.grid()
        axes.set_title(name, color=hue.on_light)
        axes.set_xlabel("fitted recall, %")
        style.label_y(axes, "observed recall, %")
    return _rest(figure, grid, len(present))


def _panels(n: int, per_row: int, narrow: bool, *, each: float, sharey: bool = False) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    n_rows = max(1, math.ceil(n / per_row))
    with style.rc(width):
        return plt.subplots(n_rows, per_row, squeeze=False, figsize=(width, each * n_rows), sharey=sharey)


def _nothing(figure: Figure, grid: Any) -> Figure:
    for axes in grid.flat:
        axes.set_axis_off()
    grid.flat[0].annotate("Nothing to draw.", (0, 1), xycoords="axes fraction", va="top", color=style.SOFT)
    figure.set_size_inches(figure.get_size_inches()[0], 0.6)
    return figure


def _rest(figure: Figure, grid: Any, used: int) -> Figure:
    for axes in list(grid.flat)[used:]:
        axes.set_axis_off()
    return figure


def _reach(rows: pl.DataFrame) -> tuple[float, float]:
    """Ends of the common scale: all estimates, and intervals up to twice the range of the estimates."""
    known = rows.drop_nulls("firth")
    points = np.array([*known["firth"].to_list(), 0.0])
    span = max(float(np.ptp(points)), 1.0)
    lo = max([float(points.min()) - span, min([0.0, *known["firth_lo"].drop_nulls().to_list()])])
    hi = min([float(points.max()) + span, max([0.0, *known["firth_hi"].drop_nulls().to_list()])])
    room = 0.08 * (hi - lo) + 0.05
    return lo - room, hi + room


def _slope(axes: Axes, y: int, row: dict[str, Any], hue: style.Hue, reach: tuple[float, float]) -> None:
    status, lo, hi = row["status"], *reach
    if row["firth"] is None:
        word = {"not_fitted": "not fitted"}.get(status, status)
        axes.annotate(word, (0, y), (4, 0), textcoords="offset points", va="center", fontsize=6.5, color=style.SOFT)
        return
    fine = status == "ok"
    left, right = (
        row[k] if row[k] is not None else end for k, end in (("firth_lo", -math.inf), ("firth_hi", math.inf))
    )
    dash = "-" if fine else (0, (2.5, 1.5))
    axes.plot(
        [max(left, lo), min(right, hi)], [y, y], color=hue.line, linewidth=1.4, linestyle=dash, solid_capstyle="butt"
    )
    point = min(max(row["firth"], lo), hi)
    for end, edge, marker in ((left, lo, "<"), (right, hi, ">")):
        if (end < lo) if marker == "<" else (end > hi):
            axes.plot(edge, y, marker, ms=4, color=hue.line, mew=0, clip_on=False)
    for value in row["loso"]:
        if lo <= value <= hi:
            axes.plot(value, y + 0.24, "o", ms=2.6, mec=hue.line, mfc="none", mew=0.6, alpha=0.8)
    if status.startswith("infinite"):
        axes.plot(
            point, y, ">" if status.endswith("pos") else "<", ms=6.5, mec=hue.line, mfc="white", mew=1.3, zorder=5
        )
    else:
        axes.plot(point, y, "o", ms=5, mec=hue.line, mfc=hue.line if fine else "white", mew=1.3, zorder=5)
    word = f"{row['firth']:.2f}".replace("-", "−") + ("*" if row["confirmed"] else "")
    word += "" if fine else " ∞" if status.startswith("infinite") else f" {status}"
    axes.annotate(word, (point, y), (0, 4.5), textcoords="offset points", ha="center", fontsize=6.5, color=hue.on_light,
                  fontweight="semibold" if row["confirmed"] else "normal")  # fmt: skip


def _rungs(axes: Axes, rows: pl.DataFrame, hue: style.Hue, shift: float) -> None:
    x = rows["order"].to_numpy() + shift
    axes.plot(x, rows["firth"].to_numpy(), color=hue.line, linewidth=0.8, alpha=0.6)
    for place, r in zip(x, rows.iter_rows(named=True), strict=True):
        axes.plot([place, place], [r["lo"], r["hi"]], color=hue.line, alpha=0.28, lw=3.5, solid_capstyle="butt")
        fill = hue.line if r["is_flipped"] else "white"
        axes.plot(place, r["firth"], "o", ms=4.2, mec=hue.line, mfc=fill, mew=1.2, zorder=5)
        if r["is_clear_flip"]:
            axes.annotate("flips", (place, r["firth"]), (5, 0), textcoords="offset points", va="center", fontsize=6.5,
                          color=hue.on_light)  # fmt: skip


def _key(figure: Figure, models: Sequence[str], hues: dict[str, style.Hue]) -> None:
    """Names of the models above all panels, in their colours: curves cross, and have no end that is free to name."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=hues[name].line, linestyle=hues[name].dash) for name in models]
    key = figure.legend(lines, list(models), loc="outside upper left", ncols=min(len(models), 3 if len(models) > 5 else 5), frameon=False,
                        handlelength=1.2, columnspacing=1.2, borderaxespad=0, labelcolor=[hues[n].on_light for n in models])  # fmt: skip
    for text in key.get_texts():
        text.set_fontweight("semibold")


def _cell(axes: Axes, x: float, y: float, value: float | None, *, matrix: bool) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    strength = 1.0 if value is None else abs(value) if matrix else min(1.0, max(0.0, (value - 1) / 9))
    shade = LinearSegmentedColormap.from_list("ramp", RAMP)(strength)
    axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade, edgecolor="none"))
    text = "∞" if value is None else f"{value:.2f}".replace("-", "−").replace("0.", ".") if matrix else f"{value:,.1f}"
    # On this ramp black keeps 4.5 : 1 up to about 0.63, white from there on.
    axes.annotate(text, (x, y), ha="center", va="center", fontsize=7, color="black" if strength < 0.63 else "white")
