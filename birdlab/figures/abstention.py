"""Figures of the chapter on abstention: the two trade-offs, calibration, reasons; and those of answers in words.

Drawn from saved tables and nothing else, like those of :mod:`birdlab.figures.detection`. Colours belong to models; an answer in
words, which has one operating point and no threshold, is a ring on a dotted line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style
from birdlab.figures import placing
from birdlab.figures.abstention_answers import fig_across, fig_prompts, fig_wrongly
from birdlab.figures.abstention_reasons import GIVEN, REASONS, fig_confusion
from birdlab.figures.placing import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GIVEN",
    "REASONS",
    "fig_across",
    "fig_calibration",
    "fig_confusion",
    "fig_prompts",
    "fig_tradeoff",
    "fig_wrongly",
]

_DOTTED = (0, (1, 1.6))
_CHANCE = (0, (3, 3))
_SAMPLE_IN, _GAP_IN, _ROW_IN = 0.19, 0.08, 0.152
_NAME = {"fontsize": 7.5, "fontweight": "semibold"}
_AREA = {"fontsize": 7.5}
_TAG = {"fontsize": 7, "fontweight": "semibold"}
_SLACK = 1.12  # another page may have a wider font
_EDGE = 0.02  # of the axes, in data units beyond 0 and 1
_CORNERS = ("lower right", "lower left", "upper right", "upper left")


@dataclass(frozen=True)
class _Panel:
    """One pair of axes from 0 to 1."""

    curve: str
    title: str
    x: str
    y: str
    corners: Sequence[str] = _CORNERS
    ideal: tuple[float, float] | None = None
    has_chance: bool = False
    x_names: dict[float, str] | None = None


@dataclass(frozen=True)
class _Line:
    """The line of one model, with what the list says of it."""

    name: str
    hue: style.Hue
    x: np.ndarray
    y: np.ndarray
    area: str
    is_point: bool = False
    dash: Any = "-"


@dataclass(frozen=True)
class _Layout:
    """Measures of a row or column of panels, inches; ``beneath`` says that the lists stand under the axes."""

    width: float
    height: float
    left: float = 0.42
    between: float = 0.62
    top: float = 0.5
    bottom: float = 0.56
    beneath: bool = False

    def inside(self) -> Box:
        """The axes, a little inside their frame."""
        return Box(0.06, 0.05, self.width - 0.05, self.height - 0.05)


_TRADEOFF = (
    _Panel("ua_a", "Declines what cannot be told", "declined, answerable (want none)",
           "declined, unanswerable (want all)", ideal=(0.0, 1.0), has_chance=True),
    _Panel("ig", "Right, and how precisely", "information said", "accuracy of what is said",
           corners=("lower left", "lower right", "upper right", "upper left"), ideal=(1.0, 1.0),
           x_names={0.0: "root", 0.5: "genus", 1.0: "species"}),
)  # fmt: skip
_CALIBRATION = tuple(
    _Panel(curve, title, "share declined", "accuracy of the rest",
           corners=("upper left", "lower right", "lower left", "upper right"))
    for curve, title in (
        ("calibration_a_species", "species, answerable"),
        ("calibration_a_genus", "genus, answerable"),
        ("calibration_ua_genus", "genus, unanswerable"),
    )
)  # fmt: skip


def fig_tradeoff(curves: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """The two trade-offs of declining: UA/A (share declined, unanswerable against answerable) and IG (accuracy against information).

    Models stand in the order of their area, chance among them. A dotted line with a ring is an answer in words, which has no
    threshold. The dot at the end of a line in the right panel is the model that answers as precisely as it can.

    Args:
        curves: ``model``, ``curve`` (``ua_a`` or ``ig``), ``x``, ``y`` in order, ``area``, ``lo``, ``hi`` (all null where
            undefined), ``is_point``. Rows with a null in x or y are not drawn; a model without rows is not listed.
        models: names in the order of the recipe.
    """
    layout = _Layout(2.76, 2.76) if narrow else _Layout(3.5, 3.5)
    return _curve_figure(curves, _TRADEOFF, models, layout, narrow=narrow)


def fig_calibration(curves: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Accuracy of what is kept against the share declined: species and genus where answerable, genus where not.

    Args:
        curves: as for :func:`fig_tradeoff`; ``curve`` is ``calibration_a_species``, ``calibration_a_genus`` or
            ``calibration_ua_genus``.
        models: names in the order of the recipe.
    """
    layout = _Layout(2.8, 2.2, bottom=0.46) if narrow else _Layout(2.42, 2.3, between=0.36, bottom=0.46)
    return _curve_figure(curves, _CALIBRATION, models, layout, narrow=narrow)


# --- lines with an ordered list ---------------------------------------------------------------------------------------


def _curve_figure(
    curves: pl.DataFrame, panels: Sequence[_Panel], models: Sequence[str], layout: _Layout, *, narrow: bool
) -> Figure:
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        figure = plt.figure(figsize=(width, 4), layout="none")
        lines = {p.curve: _lines(curves.filter(pl.col("curve") == p.curve), p, models) for p in panels}
        shown = [p for p in panels if any(line.hue is not style.NEUTRAL for line in lines[p.curve])]
        if not shown:
            return placing.nothing(figure)
        lists = {p.curve: _List.of(figure, lines[p.curve], layout) for p in shown}
        places = {p.curve: _place(lists[p.curve], lines[p.curve], p, layout, figure) for p in shown}
        beneath = any(box is None for box in places.values())
        tail = max(lists[p.curve].height_beneath for p in shown) + 0.1 if beneath else 0.0
        boxes = _stack(figure, len(shown), layout, narrow, tail)
        for panel, axes in zip(shown, boxes, strict=True):
            first = narrow or panel is shown[0] or panel.y != shown[0].y
            _frame(axes, panel, first=first)
            block = None if beneath else places[panel.curve]
            _draw(axes, lines[panel.curve], panel)
            lists[panel.curve].draw(axes, block, layout)
            _names(axes, lines[panel.curve], panel, layout, [] if block is None else [block])
    return figure


def _stack(figure: Figure, n: int, layout: _Layout, narrow: bool, tail: float) -> list[Axes]:
    """Axes of a fixed size in inches, side by side or one above the other; ``tail`` is kept free under each."""
    beside = layout.left + n * layout.width + (n - 1) * layout.between + 0.32
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, beside)
    each = layout.top + layout.height + layout.bottom + tail
    height = each * (n if narrow else 1)
    figure.set_size_inches(width, height)
    out = []
    for i in range(n):
        left = layout.left + (0 if narrow else i * (layout.width + layout.between))
        bottom = height - (i if narrow else 0) * each - layout.top - layout.height
        out.append(figure.add_axes((left / width, bottom / height, layout.width / width, layout.height / height)))
    return out


def _lines(rows: pl.DataFrame, panel: _Panel, models: Sequence[str]) -> list[_Line]:
    """Lines with something to draw, the largest area first, those without area last; chance takes its place among them."""
    ranked: list[tuple[float, int, _Line]] = []
    for i, (name, hue) in enumerate(style.model_colours(models).items()):
        part = rows.filter(pl.col("model") == name).drop_nulls(["x", "y"])
        if part.is_empty():
            continue
        area, lo, hi = (part[c][0] for c in ("area", "lo", "hi"))
        is_point = bool(part["is_point"].fill_null(False).any())
        x, y = part["x"].to_numpy(), part["y"].to_numpy()
        if is_point and panel.has_chance:
            x, y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])
        line = _Line(name, hue, x, y, _area_text(area, lo, hi), is_point, _DOTTED if is_point else hue.dash)
        ranked.append((math.inf if area is None else -area, i, line))
    if panel.has_chance and ranked:
        ends = np.array([0.0, 1.0])
        ranked.append((-0.5, len(ranked), _Line("chance", style.NEUTRAL, ends, ends, "0.50", dash=_CHANCE)))
    return [line for _, _, line in sorted(ranked, key=lambda r: r[:2])]


def _area_text(area: float | None, lo: float | None, hi: float | None) -> str:
    if area is None:
        return "–"
    return f"{area:.2f}" + ("" if lo is None or hi is None else f" [{lo:.2f}, {hi:.2f}]")


@dataclass(frozen=True)
class _List:
    """The ordered list: a piece of each line, name, area with its interval; sizes in inches."""

    lines: Sequence[_Line]
    names: Sequence[str]
    name_width: float
    width: float
    header: str
    columns: int

    @classmethod
    def of(cls, figure: Figure, lines: Sequence[_Line], layout: _Layout) -> _List:
        """Measure the list; long names are shortened until it fits under its axes."""
        header = "area [95 %]" if any("[" in line.area for line in lines) else "area"
        areas = max(placing.measure(figure, text, **_AREA)[0] for text in [header, *(line.area for line in lines)])
        for n in (26, 22, 18, 16, 14, 12, 10, 8):
            names = [placing.shortened(line.name, n) for line in lines]
            name_width = _SLACK * max(placing.measure(figure, name, **_NAME)[0] for name in names)
            width = _SAMPLE_IN + 2 * _GAP_IN + name_width + areas + 0.04
            if width <= layout.width:
                break
        columns = 2 if 2 * width + 0.1 <= layout.width and len(lines) > 3 else 1
        return cls(lines, names, name_width, width, header, columns)

    @property
    def height(self) -> float:
        """In one column, with its header."""
        return _ROW_IN * (len(self.lines) + 1)

    @property
    def height_beneath(self) -> float:
        """Under the axes, in one or two columns, with its header."""
        return _ROW_IN * (math.ceil(len(self.lines) / self.columns) + 1)

    def draw(self, axes: Axes, block: Box | None, layout: _Layout) -> None:
        """Write it into ``block``, or under the axes where that is ``None``."""
        columns = 1 if block is not None else self.columns
        per_column = math.ceil(len(self.lines) / columns)
        left, top = (block.left, block.top) if block is not None else (0.0, -layout.bottom + 0.02)
        for i, line in enumerate(self.lines):
            column, row = divmod(i, per_column)
            x = left + column * (layout.width / 2 if columns > 1 else 0)
            if row == 0:
                self._write(axes, x + _SAMPLE_IN + 2 * _GAP_IN + self.name_width, top - 0.5 * _ROW_IN, self.header,
                            layout, color=style.SOFT, fontsize=7)  # fmt: skip
            self._row(axes, x, top - (row + 1.5) * _ROW_IN, line, self.names[i], layout)

    def _row(self, axes: Axes, x: float, y: float, line: _Line, name: str, layout: _Layout) -> None:
        w, h = layout.width, layout.height
        ends = np.array([x, x + _SAMPLE_IN]) / w
        thin = line.is_point or line.hue is style.NEUTRAL
        axes.plot(ends, [y / h, y / h], color=line.hue.line, linestyle=line.dash, linewidth=1.0 if thin else 1.8,
                  transform=axes.transAxes, clip_on=False, gid="sample")  # fmt: skip
        if line.is_point:
            axes.plot(ends.mean(), y / h, "o", ms=4, mfc="white", mec=line.hue.line, mew=1.2, transform=axes.transAxes,
                      clip_on=False, zorder=4, gid="sample")  # fmt: skip
        after = x + _SAMPLE_IN + _GAP_IN
        colour = line.hue.on_light
        self._write(axes, after, y, name, layout, color=colour, **_NAME)
        self._write(axes, after + self.name_width + _GAP_IN, y, line.area, layout, color=colour, **_AREA)

    @staticmethod
    def _write(axes: Axes, x: float, y: float, text: str, layout: _Layout, **font: Any) -> None:
        place = (x / layout.width, y / layout.height)
        axes.annotate(text, place, xycoords="axes fraction", va="center", annotation_clip=False, zorder=6, **font)


def _inches(x: np.ndarray, y: np.ndarray, layout: _Layout) -> tuple[np.ndarray, np.ndarray]:
    span = 1 + 2 * _EDGE
    return (x + _EDGE) / span * layout.width, (y + _EDGE) / span * layout.height


def _path(line: _Line, layout: _Layout) -> np.ndarray:
    return placing.along(*_inches(line.x, line.y, layout))


def _place(block: _List, lines: Sequence[_Line], panel: _Panel, layout: _Layout, figure: Figure) -> Box | None:
    paths = [_path(line, layout) for line in lines]
    taken = [] if panel.ideal is None else [_ideal_box(panel, layout, figure)]
    return placing.free_corner((block.width, block.height), layout.inside(), paths, taken, panel.corners)


def _ideal_box(panel: _Panel, layout: _Layout, figure: Figure) -> Box:
    """Where the word stands: under the mark, towards the middle."""
    width, height = placing.measure(figure, "ideal", fontsize=7)
    x, y = (float(v) for v in _inches(np.float64(panel.ideal[0]), np.float64(panel.ideal[1]), layout))
    left = x + 0.09 if panel.ideal[0] < 0.5 else x - 0.09 - width
    return Box(left, y - 0.05 - height, left + width, y - 0.05)


def _frame(axes: Axes, panel: _Panel, *, first: bool) -> None:
    """Axes, ticks, titles; the mark of the ideal."""
    limits = (-_EDGE, 1 + _EDGE)
    ticks = [0, 0.25, 0.5, 0.75, 1]
    names = [f"{t:g}" if t in (0, 0.5, 1) else "" for t in ticks]
    axes.set(xlim=limits, ylim=limits)
    axes.set_xticks(ticks, [f"{n}\n{panel.x_names[t]}" if panel.x_names and n else n for t, n in
                            zip(ticks, names, strict=True)])  # fmt: skip
    axes.set_yticks(ticks, names if first else [""] * len(ticks))
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    if first:
        style.label_y(axes, panel.y)
    else:
        axes.set_title(panel.title, pad=19)  # on one line with the panel that names the axis
    axes.grid(axis="both")
    if panel.ideal is not None:
        axes.plot(*panel.ideal, "D", ms=5, mfc="white", mec=style.SOFT, mew=1.0, clip_on=False, zorder=2, gid="ideal")


def _draw(axes: Axes, lines: Sequence[_Line], panel: _Panel) -> None:
    for line in reversed(lines):  # the best one on top
        is_chance = line.hue is style.NEUTRAL
        width = 0.8 if is_chance else 1.0 if line.is_point else 1.8
        colour = style.EDGE if is_chance else line.hue.line
        axes.plot(line.x, line.y, color=colour, linestyle=line.dash, linewidth=width, solid_capstyle="round",
                  solid_joinstyle="round", zorder=1 if is_chance else 3, gid=line.name)  # fmt: skip
        if line.is_point or len(line.x) == 1:
            rings = slice(1, -1) if panel.has_chance else slice(1 if len(line.x) > 1 else 0, None)
            axes.plot(line.x[rings], line.y[rings], "o", ms=5.5, mfc="white", mec=line.hue.line, mew=1.5, zorder=5,
                      linestyle="none", gid=f"{line.name} rings")  # fmt: skip
        elif panel.x_names:
            axes.plot(line.x[-1], line.y[-1], "o", ms=3.6, color=line.hue.line, mew=0, zorder=4, gid="end")


def _names(axes: Axes, lines: Sequence[_Line], panel: _Panel, layout: _Layout, taken: list[Box]) -> None:
    """The name on each line where there is room; first of all the word at the mark of the ideal."""
    figure = axes.figure
    paths = [_path(line, layout) for line in lines]
    if panel.ideal is not None:
        box = _ideal_box(panel, layout, figure)
        _tag(axes, "ideal", box, layout, color=style.SOFT, fontsize=7)
        taken = [*taken, box.grown(0.03)]
    for i, line in enumerate(lines):
        name = placing.shortened(line.name, 18)
        is_chance = line.hue is style.NEUTRAL
        font = {"fontsize": 7} if is_chance else _TAG
        width, height = placing.measure(figure, name, **font)
        size, others = (width + 0.04, height + 0.02), [p for j, p in enumerate(paths) if j != i]
        inside = layout.inside()
        if line.is_point:
            marks = np.concatenate(paths)
            ring = _inches(line.x, line.y, layout)
            at = 1 if panel.has_chance else len(line.x) - 1
            box = placing.beside(size, (float(ring[0][at]), float(ring[1][at])), marks, taken, inside, gaps=(0.05, 0.1))
            if box is not None and box.holds(marks):
                box = None
        else:
            box = placing.on_line(size, paths[i], others, taken, inside)
            if is_chance and box is not None and not box.holds(paths[i]):
                box = None
        if box is not None:
            colour = style.SOFT if is_chance else line.hue.on_light
            _tag(axes, name, box, layout, color=colour, **font)
            taken = [*taken, box.grown(0.02)]


def _tag(axes: Axes, text: str, box: Box, layout: _Layout, **font: Any) -> None:
    place = ((box.left + box.right) / 2 / layout.width, (box.bottom + box.top) / 2 / layout.height)
    axes.annotate(text, place, xycoords="axes fraction", ha="center", va="center", zorder=7, gid="tag",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8}, **font)  # fmt: skip
