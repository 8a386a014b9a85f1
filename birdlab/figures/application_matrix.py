"""Who is seen with whom: true and predicted share of time of every pair, and the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab import style
from birdlab.figures import placing, sheet
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.figures.sheet import PT, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Too little, equal, too much: two hues that stay apart for every eye; neither is a model's.
DIVERGING = ("#542788", "#F7F7F7", "#7F3B08")
PRINTED = 10  #: birds up to which numbers stand in the cells
_LABEL_IN = 0.135  #: the least height of a row that is named
_STRIP_IN = 0.09  #: height of a colour scale
_MOST_IN = 2.9
_KINDS = (("truth", "true"), ("predicted", "predicted"), ("difference", "predicted − true"))


def fig_co_occurrence(frame: pl.DataFrame, *, narrow: bool = False) -> Figure:
    """Share of the video in which two birds are both in view, in per cent: true, predicted, and predicted minus true.

    True and predicted have one scale from 0 to 100; the difference has one of its own, with 0 in its middle. Hatched: undefined,
    such as a pair that no video holds. Numbers stand in the cells of up to ten birds; birds of more rows than can be named are
    named in steps.

    Args:
        frame: ``bird_a``, ``bird_b``, ``truth``, ``predicted`` in [0, 1] or null; one row per pair, in either order.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        birds = sorted({*frame["bird_a"].drop_nulls().to_list(), *frame["bird_b"].drop_nulls().to_list()})
        if len(birds) < 2:
            return sheet.empty(width, "Fewer than two birds: nobody to be seen with.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        n, labels = len(birds), [sheet.cut(figure, b, 0.75 if narrow else 1.0) for b in birds]
        left = sheet.widest(figure, labels) + 0.1
        per_row, cell = _cells(n, left, width, narrow=narrow)
        step = max(1, -(-int(1000 * _LABEL_IN) // int(1000 * cell)))
        turned = left - 0.04 > cell
        below = left if turned else 0.22
        lay = Lay(n * cell, n * cell, per_row, left, between=0.16, top=sheet.top_of(1), bottom=below + 0.42)
        reach = _reach(frame)
        for i, (axes, (column, title)) in enumerate(zip(lay.place(figure, 3), _KINDS, strict=True)):
            end = reach if column == "difference" else 1.0
            _matrix(axes, frame, birds, column, end)
            axes.set_xticks(range(0, n, step), labels[::step], rotation=90 if turned else 0)
            axes.set_yticks(range(0, n, step), labels[::step] if i % per_row == 0 else [""] * len(labels[::step]))
            sheet.write_head(
                axes, [Word(f"{title}, %" if column != "difference" else f"{title}, pp", style.INK, "bold")]
            )
            _scale(axes, end, below, is_difference=column == "difference", size=n * cell)
    return figure


def _cells(n: int, left: float, width: float, *, narrow: bool) -> tuple[int, float]:
    """Matrices in a row, and the side of a cell: as many in a row as leave room for every bird's name."""
    for per_row in (1,) if narrow else (3, 2, 1):
        room = (width - left - 0.14 - (per_row - 1) * 0.16) / per_row
        cell = min(_MOST_IN, room) / n
        if cell >= _LABEL_IN or (n <= PRINTED and cell * n >= 1.6):
            return per_row, min(cell, max(0.5, 1.7 / n))
    return 1, min(room, max(_MOST_IN, n * _LABEL_IN)) / n


def _reach(frame: pl.DataFrame) -> float:
    """End of the scale of differences: the next tenth above the largest one, at least 0.1."""
    most = (frame["predicted"].cast(pl.Float64) - frame["truth"].cast(pl.Float64)).abs().fill_nan(None).max()
    return 0.1 if most is None else max(0.1, -(-int(1000 * most) // 100) / 10)


def _shade(value: float, end: float, *, is_difference: bool) -> tuple[float, ...]:
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("ramp", DIVERGING if is_difference else RAMP)
    return ramp(sheet.stepped((value / end + 1) / 2 if is_difference else value / end))


def _matrix(axes: Axes, frame: pl.DataFrame, birds: list[str], column: str, end: float) -> None:
    from matplotlib.patches import Rectangle

    n, at = len(birds), {b: i for i, b in enumerate(birds)}
    # One hatched ground; cells that are defined lie on it.
    axes.add_patch(Rectangle((-0.5, -0.5), n, n, facecolor="white", edgecolor="#D5DADF", linewidth=0, hatch="/////",
                             zorder=0, gid="undefined"))  # fmt: skip
    for i in range(n):
        axes.add_patch(Rectangle((i - 0.5, i - 0.5), 1, 1, facecolor="white", linewidth=0, zorder=1, gid="self"))
    is_difference = column == "difference"
    for r in frame.iter_rows(named=True):
        value = _value(r, column)
        if value is None or r["bird_a"] not in at or r["bird_b"] not in at:
            continue
        shade = _shade(value, end, is_difference=is_difference)
        i, j = at[r["bird_a"]], at[r["bird_b"]]
        for x, y in ((i, j), (j, i)):
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white",
                                     linewidth=0.8 if n <= PRINTED else 0.3, zorder=2, gid="pair"))  # fmt: skip
            if n <= PRINTED:
                axes.annotate(
                    percent(value), (x, y), ha="center", va="center", fontsize=PT, color=_ink(shade), zorder=3
                )
    axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    sheet.bare(axes)


def _value(row: dict[str, Any], column: str) -> float | None:
    known = [row[c] for c in (("truth", "predicted") if column == "difference" else (column,))]
    if any(v is None or v != v for v in known):
        return None
    return known[1] - known[0] if column == "difference" else known[0]


def percent(value: float) -> str:
    """Whole per cent with a true minus, and no minus before 0.

    >>> percent(0.256), percent(-0.08), percent(-0.001)
    ('26', '−8', '0')
    """
    number = round(100 * value)
    return f"{number:d}".replace("-", "−")


def _scale(axes: Axes, end: float, left: float, *, is_difference: bool, size: float) -> None:
    """A strip under the names of the birds: the colours from one end of the scale to the other."""
    import numpy as np

    low = -left - 0.16
    strip = axes.inset_axes((0, low / size, min(1.0, 1.6 / size), _STRIP_IN / size))
    start = -end if is_difference else 0.0
    values = np.linspace(start, end, 41)
    colours = np.array([[_shade(float(v), end, is_difference=is_difference)[:3] for v in values]])
    strip.imshow(colours, extent=(start, end, 0, 1), aspect="auto", interpolation="nearest")
    ticks = [start, 0.0, end] if is_difference else [0.0, 0.5, 1.0]
    strip.set_xticks(ticks, [("+" if is_difference and t > 0 else "") + percent(t) for t in ticks])
    for label, side in zip(strip.get_xticklabels(), ("left", "center", "right"), strict=True):
        label.set_horizontalalignment(side)
    strip.set_yticks([])
    sheet.bare(strip)
    strip.tick_params(pad=1.5, colors=style.SOFT)
    if is_difference or size < 1.2:
        return
    gap = placing.measure(axes.figure, "undefined", fontsize=PT)[0] + 0.3
    if size - min(size, 1.6) > gap:
        from matplotlib.patches import Rectangle

        place = ((min(size, 1.6) + 0.12) / size, low / size)
        axes.add_patch(Rectangle(place, 0.14 / size, _STRIP_IN / size, transform=axes.transAxes, clip_on=False,
                                 facecolor="white", edgecolor="#C4CBD1", linewidth=0, hatch="/////"))  # fmt: skip
        axes.annotate("undefined", (place[0] + 0.19 / size, place[1] + _STRIP_IN / 2 / size), va="center",
                      xycoords="axes fraction", fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip
