"""Figures of the chapter on training: how alike the parts of a split are, and how each training went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from birdlab import style
from birdlab.figures import placing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Greys from few to many birds and from small to large; black words keep 4.5 : 1 on the light ones, white on the dark.
_RAMP = ("#E8EBEE", "#CDD3D9", "#B1B9C1", "#96A0A9", "#68727C", "#515B65", "#3A434B", "#232A31", "#000000")
_DARK_FROM = 4
_ROW_IN = 0.3  #: a bar with the gap below it
STOPPED = {"epochs": "all epochs", "patience": "stopped early"}
#: Patterns of a model's seeds; the colour is the model's own.
_SEEDS_NAMED = 6  #: lines of the key; of further seeds only how many there are
_SEED_DASHES = ("-", (0, (4, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))


def fig_split(shape: pl.DataFrame, *, narrow: bool = False) -> Figure:
    """Shares of frames by birds per frame, and of birds by relative size: a bar per part, a panel per question.

    Parts that are alike have bars that are cut in the same places. The number of frames or birds stands at the end.

    Args:
        shape: what :func:`birdlab.training.study.split_shape` returns.
    """
    import matplotlib.pyplot as plt

    panels = shape["what"].unique(maintain_order=True).to_list()
    parts = shape["split"].unique(maintain_order=True).to_list()
    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        if not parts:
            return placing.nothing(plt.figure(figsize=(width, 1.0)))
        n_cols = 1 if narrow else len(panels)
        n_rows = math.ceil(len(panels) / n_cols)
        keys = [shape.filter(pl.col("what") == p)["bin"].n_unique() for p in panels]
        lines = max(math.ceil(k / (3 if narrow else 5)) for k in keys)
        height = n_rows * (0.42 + _ROW_IN * len(parts) + 0.24 * lines)
        figure, grid = plt.subplots(n_rows, n_cols, squeeze=False, figsize=(width, height))
        for axes, what in zip(grid.flat, panels, strict=True):
            _shares(axes, shape.filter(pl.col("what") == what), parts, narrow=narrow)
            axes.set_title("frames by " + what if what == "birds per frame" else "birds by " + what)
    return figure


def _shares(axes: Axes, rows: pl.DataFrame, parts: Sequence[str], *, narrow: bool) -> None:
    from matplotlib.patches import Patch

    bins = rows["bin"].unique(maintain_order=True).to_list()
    shade = {b: round(i * (len(_RAMP) - 1) / max(len(bins) - 1, 4)) for i, b in enumerate(bins)}
    for y, part in enumerate(parts):
        mine = rows.filter(pl.col("split") == part)
        left, total = 0.0, int(mine["n"].sum())
        for r in mine.iter_rows(named=True):
            share = r["share"] or 0.0
            if not share:
                continue
            at = shade[r["bin"]]
            axes.barh(y, share, left=left, height=0.72, color=_RAMP[at], edgecolor="white", linewidth=0.8)
            if share > (0.14 if narrow else 0.1):
                ink = "#FFFFFF" if at >= _DARK_FROM else style.INK
                axes.annotate(
                    f"{100 * share:.0f} %", (left + share / 2, y), ha="center", va="center", fontsize=7, color=ink
                )
            left += share
        axes.annotate(
            f"{total:,}", (1.01, y), (2, 0), textcoords="offset points", va="center", fontsize=7.5, color=style.SOFT,
            annotation_clip=False,
        )  # fmt: skip
        if not total:
            axes.annotate("none", (0.01, y), va="center", fontsize=7.5, color=style.SOFT)
    axes.set(xlim=(0, 1.08), ylim=(len(parts) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(parts)), parts, fontweight="semibold", color=style.INK, fontsize=8)
    axes.tick_params(left=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    patches = [
        Patch(facecolor=_RAMP[shade[b]], edgecolor=style.EDGE, linewidth=0.4, label=b.replace("-", "–")) for b in bins
    ]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(0, 0), ncols=3 if narrow else 5, handlelength=0.9,
                handleheight=0.9, columnspacing=1.0, handletextpad=0.4, borderaxespad=0.2, fontsize=7)  # fmt: skip


def fig_curves(
    curves: pl.DataFrame, *, models: Sequence[str], hues: Mapping[str, style.Hue], narrow: bool = False
) -> Figure:
    """Validation AP by epoch, a panel per model and a line per seed; the dot is the epoch whose weights were kept.

    Why a training ended stands at the end of its line where there is room, and under the panel.

    Args:
        curves: what :func:`birdlab.training.cards_table.course_table` returns.
        models: names in the order of the recipe.
        hues: their colours.
    """
    import matplotlib.pyplot as plt

    there = set(curves["model"])
    shown = [name for name in models if name in there]
    n_cols = 1 if narrow else min(3, max(1, len(shown)))
    n_rows = max(1, math.ceil(len(shown) / n_cols))
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, (4.6, 6.6, style.WIDE_IN)[n_cols - 1])
    per_model = curves.group_by("model").agg(pl.col("seed").n_unique())["seed"].max() or 1
    height = 2.35 + 0.135 * min(int(per_model), _SEEDS_NAMED + 1)
    with style.rc(width):
        figure, grid = plt.subplots(n_rows, n_cols, squeeze=False, figsize=(width, height * n_rows), sharey=True)
        if not shown:
            return placing.nothing(figure)
        top = max(0.05, 1.12 * float(curves["val_ap"].max() or 0.0))
        for axes, name in zip(grid.flat, shown, strict=False):
            _course(axes, curves.filter(pl.col("model") == name), hues.get(name, style.NEUTRAL))
            axes.set_title(placing.shortened(name, 30), color=hues.get(name, style.NEUTRAL).on_light)
            axes.set(ylim=(0, min(1.02, top)), xlabel="epoch")
            style.label_y(axes, "AP on val")
            axes.grid(axis="y")
        for axes in list(grid.flat)[len(shown) :]:
            axes.set_visible(False)
    return figure


def _course(axes: Axes, mine: pl.DataFrame, hue: style.Hue) -> None:
    from matplotlib.ticker import MaxNLocator

    seeds = mine["seed"].unique().sort().to_list()
    for i, seed in enumerate(seeds):
        line = mine.filter(pl.col("seed") == seed).sort("epoch")
        dash, alpha = _SEED_DASHES[i % len(_SEED_DASHES)], 1.0 if i < len(_SEED_DASHES) else 0.6
        why = STOPPED.get(line["stopped"].drop_nulls().to_list()[-1], "") if line["stopped"].drop_nulls().len() else ""
        label = f"seed {seed}: {why}, {line.height} epochs" if line.height != 1 else f"seed {seed}: {why}, 1 epoch"
        axes.plot(
            line["epoch"], line["val_ap"], color=hue.line, linestyle=dash, alpha=alpha, linewidth=1.3, label=label
        )
        best = line.filter(pl.col("is_best"))
        axes.plot(
            best["epoch"], best["val_ap"], "o", ms=5, mfc=hue.line, mec="white", mew=0.8, zorder=5, gid=f"best-{seed}"
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    last = int(mine["epoch"].max() or 1)
    axes.set_xlim(min(1, last) - 0.04 * last, last + 0.04 * max(last, 2))
    lines, words = axes.get_legend_handles_labels()
    if len(words) > _SEEDS_NAMED:
        lines, words = (
            lines[: _SEEDS_NAMED + 1],
            [*words[:_SEEDS_NAMED], f"and {len(words) - _SEEDS_NAMED} further seeds"],
        )
    axes.legend(lines, words, loc="upper left", bbox_to_anchor=(0, -0.24), handlelength=2.4, borderaxespad=0.0,
                fontsize=7, labelspacing=0.35)  # fmt: skip
