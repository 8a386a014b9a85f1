"""Figure of the reasons a model gives when it declines, against the true ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from birdlab import style
from birdlab.figures import placing
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.schemas.constants import REASONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GIVEN = (*REASONS, "none")


def fig_confusion(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Reason given against true reason, per cent of the declined photographs of a row, one matrix per model; dark is much.

    Args:
        frame: ``model``, ``true_reason``, ``given_reason`` (of :data:`GIVEN`), ``share`` in [0, 1] or null (drawn as a dash),
            ``n`` declined photographs with that true reason.
        models: names in the order of the recipe; those without rows have no matrix.
    """
    import matplotlib.pyplot as plt

    present = [m for m in models if m in set(frame["model"])]
    rows = [r for r in REASONS if r in set(frame["true_reason"])]
    per_row = 1 if narrow else min(3, max(1, len(present)))
    n_rows = max(1, math.ceil(len(present) / per_row))
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, 1.0 + 2.53 * per_row)
    height = n_rows * (0.3 * max(1, len(rows)) + 0.95)
    with style.rc(width):
        figure, grid = plt.subplots(n_rows, per_row, squeeze=False, figsize=(width, height))
        if not present:
            return placing.nothing(figure)
        figure.get_layout_engine().set(h_pad=0.08)
        hues = style.model_colours(models)
        for i, (axes, name) in enumerate(zip(grid.flat, present, strict=False)):
            _matrix(axes, frame.filter(pl.col("model") == name), rows, first=i % per_row == 0)
            axes.set_title(name, color=hues[name].on_light, pad=5)
        for axes in list(grid.flat)[len(present) :]:
            axes.set_axis_off()
    return figure


def _matrix(axes: Axes, rows: pl.DataFrame, reasons: Sequence[str], *, first: bool) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    cells = {(r["true_reason"], r["given_reason"]): r for r in rows.iter_rows(named=True)}
    places = [j + (0.12 if given == "none" else 0.0) for j, given in enumerate(GIVEN)]  # "none" is no reason: apart
    for i, true in enumerate(reasons):
        for x, given in zip(places, GIVEN, strict=True):
            share = cells.get((true, given), {}).get("share")
            shade = "white" if share is None else ramp(min(max(share, 0.0), 1.0))
            axes.add_patch(Rectangle((x - 0.48, i - 0.46), 0.96, 0.92, facecolor=shade, edgecolor="none"))
            axes.annotate("–" if share is None else f"{100 * share:.0f}", (x, i), ha="center", va="center",
                          fontsize=7.5, color=style.SOFT if share is None else _ink(shade),
                          fontweight="bold" if true == given else "normal")  # fmt: skip
            if true == given:
                axes.add_patch(Rectangle((x - 0.46, i - 0.44), 0.92, 0.88, facecolor="none", edgecolor=style.INK,
                                         linewidth=1.0))  # fmt: skip
        n = next((c["n"] for (t, _), c in cells.items() if t == true and c["n"] is not None), 0)
        axes.annotate(f"{n:,}", (places[-1] + 0.95, i), ha="center", va="center", fontsize=7, color=style.SOFT)
    axes.annotate("n", (places[-1] + 0.95, -0.62), ha="center", va="bottom", fontsize=7, color=style.SOFT)
    for x, given in zip(places, GIVEN, strict=True):
        word = given.replace("vocalization", "vocal-\nization")
        axes.annotate(word, (x, -0.62), ha="center", va="bottom", fontsize=7, linespacing=0.95)
    axes.annotate("reason given, % of the row", (-0.5, -1.45), va="bottom", fontsize=7, color=style.SOFT)
    axes.set(xlim=(-0.55, places[-1] + 1.35), ylim=(len(reasons) - 0.45, -1.9))
    axes.set_xticks([])
    axes.set_yticks(range(len(reasons)), reasons if first else [""] * len(reasons))
    if first:
        axes.annotate("true reason", (-0.03, -0.62), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                      fontsize=7, color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.tick_params(length=0, colors=style.INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
