"""Heatmaps side by side with the same rows and columns, each with its sums or means along both edges. Dark is much.

Where nothing was recorded the ground is hatched; a dot is a cell that was recorded and has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.figures.sheet import PT, Entry, Key, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PALE, _BAR = "#C4CBD1", "#A9B1B8"
_EDGE_IN, _BARS_IN, _GAP_IN = 0.36, 0.34, 0.05
_STEPS = 10  #: shades of a map
_LEAST_IN, _MOST_CELL_IN = 1.5, 0.4
_RAMP = (5, 0.1)  #: boxes of a scale, and the width of each, inches
#: Cells of a map up to which values are written into them.
MOST_WRITTEN = 160


@dataclass(frozen=True)
class Block:
    """One map.

    Args:
        title: what is shown.
        cells: (row, column) -> value, null where there is none; a pair that is missing is hatched.
        by_row, by_column: of each row and column; null is a dash or no bar.
        write: a value in words.
        inside: what stands in a cell, empty for nothing; drawn where all of it fits.
        most: end of the scale; the largest value without it.
    """

    title: str
    cells: Mapping[tuple[int, int], float | None]
    by_row: Sequence[float | None]
    by_column: Sequence[float | None]
    write: Callable[[float], str]
    inside: Callable[[float], str] = field(default=lambda value: "")
    most: float | None = None

    def end(self) -> float:
        """The value that is darkest."""
        found = [v for v in self.cells.values() if v is not None]
        return self.most or max(found, default=0.0) or 1.0


@dataclass(frozen=True)
class Axis:
    """Names along the columns (a second line, written once for all that share it, after a line feed), and what they are."""

    name: str
    labels: Sequence[str]


@dataclass(frozen=True)
class _Lay:
    left: float
    cell: float
    tall: float
    edge: float
    columns: int
    rows: int
    top: float
    bottom: float
    gap: float = 0.2
    beside: bool = True  #: whether the scale stands beside the title, or under it

    @property
    def inner(self) -> float:
        return self.cell * self.columns

    @property
    def height(self) -> float:
        return self.top + _BARS_IN + (_GAP_IN + self.tall * self.rows if self.rows else 0) + self.bottom


def draw_blocks(
    width: float,
    rows: Sequence[str],
    axis: Axis,
    blocks: Sequence[Block],
    *,
    head: str,
    notes: Sequence[str],
    stacked: bool,
    hatched: str = "no recording",
) -> Figure:
    """The maps beside each other, or one above the other.

    Args:
        width: of the page, inches.
        rows: their names; none leaves the bars along the columns.
        axis: the columns.
        head: a line above everything, bold; empty for none.
        notes: sentences beneath.
        stacked: one above the other.
        hatched: what a hatched cell is.
    """
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(width, 3), layout="none")
    lay = _measured(figure, rows, axis, blocks, stacked)
    entries = _entries(rows, blocks, len(axis.labels), hatched)
    key = Key.of(figure, entries, width - 0.2)
    lines = [line for note in notes for line in sheet.wrapped(figure, note, width - 0.2)]
    n_high = len(blocks) if stacked else 1
    above = sheet.LINE_IN + 0.06 if head else 0.0
    height = above + n_high * lay.height + key.height + 0.06 + sheet.LINE_IN * len(lines)
    each = lay.inner + lay.edge
    span = lay.left + (each if stacked else len(blocks) * each + (len(blocks) - 1) * lay.gap) + 0.06
    words = sheet.widest(figure, lines) + 0.2
    figure.set_size_inches(min(width, max(span, 3.0, key.column * key.columns + 0.2, words)), height)
    wide, high = figure.get_size_inches()
    if head:
        figure.text(0.1 / wide, 1 - 0.05 / high, sheet.cut(figure, head, wide - 0.2, fontweight="bold"), fontsize=PT,
                    fontweight="bold", va="top")  # fmt: skip
    for i, block in enumerate(blocks):
        left = lay.left + (0 if stacked else i * (each + lay.gap))
        top = high - above - (i * lay.height if stacked else 0) - lay.top
        _draw(figure, block, lay, (left, top), rows if stacked or i == 0 else [""] * len(rows), axis)
    foot = key.height + 0.02 + sheet.LINE_IN * len(lines)
    key.draw(figure, 0.1, foot)
    for i, line in enumerate(lines):
        at = 0.05 + sheet.LINE_IN * (len(lines) - 1 - i)
        figure.text(0.1 / wide, at / high, line, fontsize=PT, color=style.SOFT, va="bottom")
    return figure


def _measured(figure: Figure, rows: Sequence[str], axis: Axis, blocks: Sequence[Block], stacked: bool) -> _Lay:
    width, n = figure.get_size_inches()[0], len(axis.labels)
    ends = [b.write(v) for b in blocks for v in b.by_column if v is not None]
    left = max(min(0.95 if stacked else 1.4, sheet.widest(figure, rows)), sheet.widest(figure, ends)) + 0.12
    sums = [b.write(v) for b in blocks for v in b.by_row if v is not None]
    edge = (_GAP_IN + _EDGE_IN + 0.04 + sheet.widest(figure, [*sums, "all"])) if rows else 0.1
    room = (
        width - left - edge - 0.06 if stacked else (width - left - 0.06 - 0.2 * (len(blocks) - 1)) / len(blocks) - edge
    )
    lines = 2 if any("\n" in label for label in axis.labels) else 1
    titles = [sheet.widest(figure, [b.title], fontweight="bold") + _ramp_width(figure, b) + 0.1 for b in blocks]
    cell = min(room / n, max(_MOST_CELL_IN, max(_LEAST_IN, *titles) / n))
    beside = cell * n >= max(titles) - 1e-9 or not rows
    return _Lay(left, cell, 0.15 if len(rows) > 15 else 0.19, edge, n, len(rows), top=sheet.top_of(1 if beside else 2) + 0.06,
                bottom=0.22 + sheet.LINE_IN * lines, beside=beside)  # fmt: skip


def _entries(rows: Sequence[str], blocks: Sequence[Block], n_columns: int, hatched: str) -> list[Entry]:
    out = []
    if rows and any(len(b.cells) < len(rows) * n_columns for b in blocks):
        out.append(Entry(hatched, style.INK, {"hatch": "//////", "color": _PALE}))
    if rows and any(v is None for b in blocks for v in b.cells.values()):
        out.append(Entry("recorded, no value", style.INK, {"marker": ".", "ms": 4, "mfc": style.SOFT, "mec": "none"}))
    return out


def _draw(
    figure: Figure, block: Block, lay: _Lay, corner: tuple[float, float], rows: Sequence[str], axis: Axis
) -> None:
    """One map with its bars; ``corner`` is the upper left of the bars, inches."""
    wide, high = figure.get_size_inches()
    left, top = corner

    def axes_at(x: float, y: float, w: float, h: float) -> Axes:
        return figure.add_axes((x / wide, (y - h) / high, w / wide, h / high))

    over = axes_at(left, top, lay.inner, _BARS_IN)
    _column_bars(over, block, lay)
    sheet.write_head(over, [Word(block.title, style.INK, "bold"), *([] if lay.beside else [Word("")])])
    lowest = over
    if rows:
        lowest = axes_at(left, top - _BARS_IN - _GAP_IN, lay.inner, lay.tall * lay.rows)
        if block.cells:
            at = left + lay.inner if lay.beside else left + _ramp_width(figure, block)
            _ramp(figure, block, (at, top + 0.06))
        _cells(lowest, block, lay)
        names = [sheet.cut(figure, name, lay.left - 0.1) for name in rows]
        lowest.set_yticks(range(lay.rows), names, fontsize=PT)
        _row_bars(lowest, block, lay)
    _column_names(lowest, axis, lay)


def _column_bars(axes: Axes, block: Block, lay: _Lay) -> None:
    found = [(x, v) for x, v in enumerate(block.by_column) if v is not None]
    most = max([v for _, v in found], default=0.0) or 1.0
    axes.bar([x for x, _ in found], [v for _, v in found], 0.86, color=_BAR, linewidth=0, gid="by column")
    axes.set(xlim=(-0.5, lay.columns - 0.5), ylim=(0, most))
    axes.set_xticks([])
    axes.set_yticks([most] if found else [], [block.write(most)] if found else [], fontsize=PT)
    axes.tick_params(axis="y", length=2.5)
    axes.spines["bottom"].set_color(_PALE)


def _cells(axes: Axes, block: Block, lay: _Lay) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ramp, most = LinearSegmentedColormap.from_list("ramp", RAMP), block.end()
    if len(block.cells) < lay.rows * lay.columns:
        axes.add_patch(Rectangle((-0.5, -0.5), lay.columns, lay.rows, facecolor="white", edgecolor=_PALE, hatch="//////",
                                 linewidth=0, zorder=0, gid="nothing recorded"))  # fmt: skip
    texts = {at: block.inside(v) for at, v in block.cells.items() if v is not None}
    few = lay.rows * lay.columns <= MOST_WRITTEN
    fits = few and sheet.widest(axes.figure, sorted(set(texts.values()))) + 0.03 <= lay.cell
    for (y, x), value in block.cells.items():
        shade: Any = "white" if value is None else ramp(sheet.stepped(value / most, _STEPS))
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white", linewidth=0.5, zorder=1,
                                 antialiased=False, gid="undefined" if value is None else "cell"))  # fmt: skip
        if value is None:
            axes.plot(x, y, ".", ms=3, mfc=style.SOFT, mec="none", zorder=2, gid="no value")
        elif fits and texts[y, x]:
            axes.annotate(texts[y, x], (x, y), ha="center", va="center", fontsize=PT, color=_ink(shade), zorder=3)
    axes.set(xlim=(-0.5, lay.columns - 0.5), ylim=(lay.rows - 0.5, -0.5))
    sheet.bare(axes)


def _row_bars(axes: Axes, block: Block, lay: _Lay) -> None:
    """Right of the map: the value of each row, and a bar."""
    most = max([v for v in block.by_row if v is not None], default=0.0) or 1.0
    start = (lay.inner + _GAP_IN) / lay.inner
    for y, value in enumerate(block.by_row):
        end = start
        if value is not None:
            end = start + _EDGE_IN * value / most / lay.inner
            axes.plot([start, end], [y, y], color=_BAR, linewidth=72 * 0.68 * lay.tall, solid_capstyle="butt",
                      transform=axes.get_yaxis_transform(), clip_on=False, gid="by row")  # fmt: skip
        axes.annotate("–" if value is None else block.write(value), (end, y), (3, 0), xycoords=("axes fraction", "data"),
                      textcoords="offset points", va="center", fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip


def _column_names(axes: Axes, axis: Axis, lay: _Lay) -> None:
    """As many names as fit, at even steps; the second line of the first of each that have the same one."""
    names = [label.split("\n")[0] for label in axis.labels]
    room = sheet.widest(axes.figure, names) + 0.04
    step = next((s for s in (1, 2, 3, 6, 12, 24) if s * lay.cell >= room), len(names) or 1)
    at = list(range(0, len(names), step))
    beneath: dict[str, int] = {}
    for i in at:
        for second in axis.labels[i].split("\n")[1:]:
            beneath.setdefault(second, i)
    apart = sheet.widest(axes.figure, list(beneath)) + 0.04
    firsts = sorted(beneath.items(), key=lambda item: item[1])
    # Of two that stand too close the later one stays: it names more columns.
    kept = {i: t for (t, i), after in zip(firsts, [*firsts, None][1:], strict=True)
            if after is None or (after[1] - i) * lay.cell >= apart}  # fmt: skip
    axes.set_xticks(at, [f"{names[i]}\n{kept[i]}" if i in kept else names[i] for i in at], fontsize=PT)
    axes.tick_params(axis="x", length=0, pad=3, labelcolor=style.SOFT)
    axes.set_xlabel(axis.name, fontsize=PT, labelpad=2)


def _ramp_width(figure: Figure, block: Block) -> float:
    """Of the scale with its two ends, inches."""
    return _RAMP[0] * _RAMP[1] + 0.08 + sheet.widest(figure, ["0"]) + sheet.widest(figure, [block.write(block.end())])


def _ramp(figure: Figure, block: Block, corner: tuple[float, float]) -> None:
    """The scale of a map, its lower right end at a point in inches."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    wide, high = figure.get_size_inches()
    ramp, (n, each) = LinearSegmentedColormap.from_list("ramp", RAMP), _RAMP
    end = block.write(block.end())
    x, y = corner[0] - sheet.widest(figure, [end]) - 0.04 - n * each, corner[1]
    for i in range(n):
        figure.add_artist(Rectangle(((x + i * each) / wide, y / high), each / wide, 0.09 / high, linewidth=0, gid="scale",
                                    facecolor=ramp(i / (n - 1))))  # fmt: skip
    for text, at, side in (("0", x - 0.04, "right"), (end, x + n * each + 0.04, "left")):
        figure.text(at / wide, (y + 0.045) / high, text, fontsize=PT, color=style.SOFT, ha=side, va="center")
