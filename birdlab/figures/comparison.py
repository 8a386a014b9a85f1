"""Figures that compare models: how sure each rank is, and accuracy against speed. Drawn from a saved table and nothing else."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style
from birdlab.figures import placing
from birdlab.figures.difficulty import RAMP
from birdlab.figures.placing import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Names of measures as they are printed.
TITLES = {"ap": "AP", "ap50": "AP50", "ap75": "AP75", "f1": "F1", "mask_ap": "mask AP", "mask_ap50": "mask AP50"}
_ROW_IN, _HEAD_IN, _FOOT_IN = 0.26, 0.5, 0.36  #: a row; above and below the rows of a panel
_VALUE_IN, _GAP_IN = 0.95, 0.3  #: for the value at the end of a row; between panels
_WIDEST_IN, _TIGHT_IN, _BARE_IN = 0.5, 0.32, 0.17  #: cells: widest; too narrow for "<1" and "10th"; for any number
_LONG = (24, 16)  #: characters of a model's name beside its row, wide and narrow
#: On the grey ramp black words keep 4.5 : 1 up to the first number, white ones from the second; no cell lies between.
_DARKEST_FOR_INK, _LIGHTEST_FOR_WHITE = 0.52, 0.66


def fig_ranks(table: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Probability of every rank, a strip of cells per model and a panel per measure; darker is surer, the numbers are percent.

    The outlined cell is the rank that was seen. Models stand from best to worst by their mean rank, in every panel alike; the
    value and its interval for new sessions stand at the end of the row. Where there are no probabilities, the seen rank alone
    is outlined, and why is written under the panel.

    Args:
        table: what :func:`birdlab.detection.ranking.rank_table` returns.
        models: names in the order of the recipe (fixes the colours).
    """
    import matplotlib.pyplot as plt

    ranked = table.filter(pl.col("model").is_in(list(models)))
    metrics = ranked["metric"].unique(maintain_order=True).to_list()
    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        figure = plt.figure(figsize=(width, 1.0), layout="none")
        if not metrics:
            return placing.nothing(figure)
        order, n = _order(ranked), int(ranked["rank"].max() or 1)
        n = max(n, *(ranked.filter(pl.col("metric") == m)["rank"].drop_nulls().len() for m in metrics))
        value_in = _VALUE_IN if not narrow else 0.36
        # The font of another machine may be wider.
        label_in = 0.16 + 1.12 * max(_name_size(figure, name, narrow) for name in order)
        room = width - label_in - 0.08
        per_row = 1
        while not narrow and per_row < min(3, len(metrics)):
            free = (room - per_row * _GAP_IN) / (per_row + 1) - value_in
            if free / n < 0.36:
                break
            per_row += 1
        cell = min(_WIDEST_IN, ((room - (per_row - 1) * _GAP_IN) / per_row - value_in) / n)
        used = label_in + per_row * (n * cell + value_in) + (per_row - 1) * _GAP_IN + 0.08
        width = width if narrow else min(width, used)
        tall = _HEAD_IN + len(order) * _ROW_IN + _FOOT_IN
        n_rows = math.ceil(len(metrics) / per_row)
        figure.set_size_inches(width, n_rows * tall)
        hues = style.model_colours(models)
        for i, metric in enumerate(metrics):
            left = label_in + i % per_row * (n * cell + value_in + _GAP_IN)
            bottom = (n_rows - 1 - i // per_row) * tall + _FOOT_IN
            size = (n * cell / width, len(order) * _ROW_IN / (n_rows * tall))
            axes = figure.add_axes((left / width, bottom / (n_rows * tall), *size))
            part = {r["model"]: r for r in ranked.filter(pl.col("metric") == metric).to_dicts()}
            _strips(axes, part, order, hues, n=n, cell=cell, named=i % per_row == 0, narrow=narrow)
            axes.annotate(TITLES.get(metric, metric.replace("_", " ")), (0, 1), (0, 21), xycoords="axes fraction",
                          textcoords="offset points", fontsize=8.5, fontweight="bold", va="bottom")  # fmt: skip
            _foot(axes, part, characters=int((n * cell + value_in) * 17), blank=cell < _TIGHT_IN)
    return figure


def fig_speed(frame: pl.DataFrame, *, models: Sequence[str], metric: str = "recall", narrow: bool = False) -> Figure:
    """One measure against frames per second, a point per model, with its interval for new sessions where there is one.

    Filled: no other model is at least as good and as fast; a stepped line joins these. Hollow: some model beats it in both, or
    no front is given.
    Speed is on a logarithmic scale where it spans more than a factor of five.

    Args:
        frame: what :func:`birdlab.detection.ranking.speed_frame` returns. A model without value or speed is not drawn but
            named under the axes.
        models: names in the order of the recipe.
        metric: name of the measure.
    """
    import matplotlib.pyplot as plt

    mine = frame.filter(pl.col("model").is_in(list(models)))
    known = mine.drop_nulls(["value", "fps"]).filter(pl.col("fps") > 0)
    left_out = [m for m in mine["model"].to_list() if m not in set(known["model"])]
    width, height = (style.NARROW_IN, 3.2) if narrow else (6.2, 3.6)
    with style.rc(width):
        figure = plt.figure(figsize=(width, height), layout="none")
        if known.is_empty():
            return placing.nothing(figure, "No model has both a value and a speed.")
        note = _speed_note(known, left_out)
        room = Box(0.5, 0.66 if note else 0.5, width - 0.14, height - 0.32)
        place = (room.left / width, room.bottom / height)
        axes = figure.add_axes((*place, (room.right - room.left) / width, (room.top - room.bottom) / height))
        _speed_axes(axes, known, metric)
        hues = style.model_colours(models)
        _front(axes, known)
        for r in known.iter_rows(named=True):
            hue = hues[r["model"]]
            if r["lo"] is not None and r["hi"] is not None:
                axes.plot([r["fps"]] * 2, [r["lo"], r["hi"]], color=hue.line, linewidth=1.0, zorder=3)
            fill = hue.line if r["pareto"] else "white"
            axes.plot(r["fps"], r["value"], "o", ms=6, mfc=fill, mec=hue.line, mew=1.6, zorder=5, gid=r["model"])
        _names(axes, known, hues)
        figure.text(place[0], 0.05 / height, note, fontsize=7, color=style.SOFT)
    return figure


# --- ranks ------------------------------------------------------------------------------------------------------------


def _order(ranked: pl.DataFrame) -> list[str]:
    """Models from best to worst by their mean rank; those that were never ranked last."""
    mean = ranked.group_by("model", maintain_order=True).agg(pl.col("rank").mean())
    return mean.sort("rank", nulls_last=True, maintain_order=True)["model"].to_list()


def _name_size(figure: Figure, name: str, narrow: bool) -> float:
    return placing.measure(figure, placing.shortened(name, _LONG[narrow]), fontsize=8, fontweight="semibold")[0]


def _strips(
    axes: Axes,
    part: dict[str, dict[str, Any]],
    order: Sequence[str],
    hues: dict[str, style.Hue],
    *,
    n: int,
    cell: float,
    named: bool,
    narrow: bool,
) -> None:
    from matplotlib.patches import Rectangle

    axes.set(xlim=(0.5, n + 0.5), ylim=(len(order) - 0.5, -0.5))
    axes.set_axis_off()
    tight = cell < _TIGHT_IN
    for rank in range(1, n + 1) if cell >= _BARE_IN else (1, n):
        axes.annotate(str(rank) if tight else ordinal(rank), (rank, -0.5), (0, 3), textcoords="offset points", ha="center", va="bottom",
                      fontsize=7.5, color=style.SOFT, annotation_clip=False)  # fmt: skip
    for y, name in enumerate(order):
        if named:
            axes.annotate(placing.shortened(name, _LONG[narrow]), (0.5, y), (-6, 0), textcoords="offset points", ha="right",
                          va="center", color=hues[name].on_light, fontweight="semibold", annotation_clip=False)  # fmt: skip
        row = part.get(name)
        if row is None or row["rank"] is None:
            axes.annotate("–", (n + 0.5, y), (6, 0), textcoords="offset points", va="center", color=style.SOFT,
                          annotation_clip=False)  # fmt: skip
            continue
        for rank in range(1, n + 1):
            p = row.get(f"p_rank_{rank}")
            if p is not None:
                shade, ink = shade_of(p)
                axes.add_patch(Rectangle((rank - 0.48, y - 0.44), 0.96, 0.88, facecolor=shade, edgecolor="none"))
                if cell >= _BARE_IN and not (tight and percent(p) == "<1"):
                    size = 6.5 if tight else 7.5
                    axes.annotate(percent(p), (rank, y), ha="center", va="center", fontsize=size, color=ink)
            elif rank == row["rank"] and not tight:
                axes.annotate(ordinal(rank), (rank, y), ha="center", va="center", fontsize=7.5)
        axes.add_patch(Rectangle((row["rank"] - 0.46, y - 0.42), 0.92, 0.84, facecolor="none", zorder=4,
                                 edgecolor=hues[name].line, linewidth=1.5, gid="seen"))  # fmt: skip
        axes.annotate(_value(row, ends=not narrow), (n + 0.5, y), (6, 0), textcoords="offset points", va="center", fontsize=7.5,
                      annotation_clip=False)  # fmt: skip


def _value(row: dict[str, Any], *, ends: bool) -> str:
    def short(x: float) -> str:
        text = f"{x:.2f}"
        return text.removeprefix("0") if text.startswith("0.") else text

    if not ends or row["lo"] is None or row["hi"] is None:
        return short(row["value"])
    return f"{short(row['value'])} [{short(row['lo'])}, {short(row['hi'])}]"


def _foot(axes: Axes, part: dict[str, dict[str, Any]], *, characters: int, blank: bool) -> None:
    """Why there are no probabilities, or what they rest on."""
    rows = [r for r in part.values() if r["rank"] is not None]
    if not rows:
        text = "not ranked: no model has a value"
    elif rows[0].get("p_rank_1") is None:
        text = rows[0]["reason"] or "no probability"
    else:
        text = (
            f"probability in %{' (blank: under 1)' if blank else ''}, from {rows[0]['n_sessions']} {rows[0]['unit']}s"
        )
        text += f"; {rows[0]['reason']}" if rows[0]["reason"] else ""
    lines = textwrap.wrap(text, max(20, characters))[:2]
    axes.annotate("\n".join(lines), (0, 0), (0, -4), xycoords="axes fraction", textcoords="offset points", va="top",
                  fontsize=7, color=style.SOFT, linespacing=1.1)  # fmt: skip


def ordinal(rank: int) -> str:
    """1st, 2nd, 3rd, 4th …

    >>> [ordinal(i) for i in (1, 2, 3, 4, 11, 12, 13, 21, 102)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '102nd']
    """
    ending = "th" if 10 < rank % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


def percent(p: float) -> str:
    """A probability in whole percent; never 0 or 100, because a finite number of draws cannot say so.

    >>> percent(0.0), percent(0.004), percent(0.82), percent(0.999)
    ('<1', '<1', '82', '>99')
    """
    return "<1" if p < 0.005 else ">99" if p > 0.995 else f"{100 * p:.0f}"


def shade_of(p: float) -> tuple[str, str]:
    """Colours of a cell and of the number in it, at least 4.5 : 1 apart.

    >>> shade_of(0.0), shade_of(1.0)[0], shade_of(1.0)[1]
    (('#f7f8f9', '#5C636B'), '#2a2f35', '#FFFFFF')
    """
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    if p < 0.005:
        return to_hex(ramp(2 * p * _DARKEST_FOR_INK)), style.SOFT
    if p <= 0.5:
        return to_hex(ramp(2 * p * _DARKEST_FOR_INK)), style.INK
    return to_hex(ramp(_LIGHTEST_FOR_WHITE + (2 * p - 1) * (1 - _LIGHTEST_FOR_WHITE))), "#FFFFFF"


# --- speed ------------------------------------------------------------------------------------------------------------


def _speed_axes(axes: Axes, known: pl.DataFrame, metric: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    speeds = known["fps"].to_numpy()
    slow, fast = float(speeds.min()), float(speeds.max())
    if fast > 5 * slow:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(slow / 1.5, fast * 1.5)
    else:
        edge = 0.16 * (fast - slow) or 0.2 * fast
        axes.set_xlim(max(0.0, slow - edge), fast + edge)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    heights = [v for c in ("value", "lo", "hi") for v in known[c].drop_nulls().to_list()]
    edge = 0.1 * (max(heights) - min(heights)) or 0.05
    axes.set_ylim(max(0.0, min(heights) - edge), min(1.02, max(heights) + edge))
    axes.set_xlabel("frames per second, from file to boxes")
    axes.grid(axis="y")
    style.label_y(axes, TITLES.get(metric, metric.replace("_", " ")))


def _speed_note(known: pl.DataFrame, left_out: Sequence[str]) -> str:
    """What is not drawn, and why no front is."""
    words = []
    if known["pareto"].null_count() == known.height:
        words.append("Timed on different devices: no front.")
    if left_out:
        shown = ", ".join(placing.shortened(m, 18) for m in left_out[:3]) + (" …" if len(left_out) > 3 else "")
        words.append(f"No value or speed: {shown}")
    return " ".join(words)


def _front(axes: Axes, known: pl.DataFrame) -> None:
    """A step from each model of the front to the next slower and better one: what can be had at that speed."""
    front = known.filter(pl.col("pareto").fill_null(False)).sort("fps", "value")
    if front.height > 1:
        axes.step(front["fps"], front["value"], where="post", color=style.EDGE, linewidth=0.9, zorder=1,
                  linestyle=(0, (3, 3)), gid="front")  # fmt: skip


def _names(axes: Axes, known: pl.DataFrame, hues: dict[str, style.Hue]) -> None:
    """Names beside their points, clear of points, intervals and each other."""
    figure, span = axes.figure, axes.get_window_extent()
    width, height = span.width / figure.dpi, span.height / figure.dpi

    def inches(x: float, y: float) -> tuple[float, float]:
        at = (axes.transData.transform((x, y)) - (span.x0, span.y0)) / figure.dpi
        return float(at[0]), float(at[1])

    marks: np.ndarray = _marks(known, inches)
    taken: list[Box] = []
    for r in known.sort("value", "fps", descending=True).iter_rows(named=True):
        point = inches(r["fps"], r["value"])
        placing.name_point(axes, r["model"], point, hues[r["model"]], marks=marks, taken=taken, size=(width, height))


def _marks(known: pl.DataFrame, inches: Callable[[float, float], tuple[float, float]]) -> np.ndarray:
    """Points along every interval, ring and step of the front, in inches."""
    lines = []
    for r in known.iter_rows(named=True):
        x, y = inches(r["fps"], r["value"])
        lines.append([(x + dx, y + dy) for dx in (-0.05, 0, 0.05) for dy in (-0.05, 0, 0.05)])
        if r["lo"] is not None and r["hi"] is not None:
            (x0, y0), (x1, y1) = inches(r["fps"], r["lo"]), inches(r["fps"], r["hi"])
            lines.append(placing.along(np.array([x0, x1]), np.array([y0, y1]), 60))
    front = known.filter(pl.col("pareto").fill_null(False)).sort("fps", "value")
    corners = [inches(*at) for at in front.select("fps", "value").rows()]
    for (x0, y0), (x1, y1) in zip(corners[:-1], corners[1:], strict=True):
        lines.append(placing.along(np.array([x0, x1, x1]), np.array([y0, y0, y1]), 80))
    return np.concatenate([np.asarray(points, dtype=float) for points in lines])
