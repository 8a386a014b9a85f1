"""Which stage is to blame: shares of the mean absolute error by stage, which sum to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.sheet import PT, SEPARATOR, Entry, Key, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STAGES = ("detection", "tracks", "identity", "behaviour")
MEASURES = {"pecks_per_min": ("feeding rate", "pecks per minute", 2), "co_occurrence_frac": ("time together", "share of the video", 3)}  # fmt: skip
MOST = 8  #: combinations that are drawn
_GREY = "#9AA1A8"
_BAR_IN, _HEAD_IN, _GROUP_IN = 0.16, 0.17, 0.1  #: a bar; a line of a group's head; between groups


def fig_error_budget(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Shares of the mean absolute error by stage, bars with 95 % over videos, a panel per biological number.

    The four shares of a combination sum to its error, which stands above them. A share left of 0 hides errors of other stages.
    The first combination is drawn in its colour, the others in grey; at most eight are drawn.
    An interval that is much longer than all bars ends in an arrow.

    Args:
        frame: table ``error_budget``: ``tracker``, ``model``, ``identity``, ``measure``, ``stage``, ``share``, ``lo``, ``hi``
            (null: no interval, with ``reason``), ``total``, ``fraction``. A null share is written as a dash.
        models: combinations as ``identity · tracker · model``, the leading one first; those without rows are left out.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        named = pl.concat_str(["identity", "tracker", "model"], separator=SEPARATOR)
        rows = frame.with_columns(cs.float().fill_nan(None), combination=named).filter(
            pl.col("combination").is_in(list(models))
        )
        present = sheet.chosen(rows, models)
        if not present:
            return sheet.empty(width, "No combination was taken apart.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        shown, hues = present[:MOST], style.model_colours(models)
        known = set(rows["measure"].cast(pl.String))
        measures = [m for m in MEASURES if m in known] + sorted(known - set(MEASURES))
        sketch = _Sketch(figure, shown, measures, narrow=narrow)
        notes = _notes(figure, rows.filter(pl.col("combination").is_in(shown)), len(present), sketch.width)
        goes_on = _go_on(rows.filter(pl.col("combination").is_in(shown)), measures)
        bar = {"linestyle": "-", "linewidth": 6, "solid_capstyle": "butt"}
        key = Key.of(figure, [
            Entry("leading combination" if len(shown) > 1 else "share", style.INK, {**bar, "color": hues[shown[0]].line}),
            *([Entry("others", style.INK, {**bar, "color": _GREY})] if len(shown) > 1 else []),
            Entry("95 % over videos (arrow: it goes on)" if goes_on else "95 % over videos", style.INK, {"linestyle": "-", "linewidth": 1.1, "color": style.INK}),
        ], sketch.width - 0.2)  # fmt: skip
        tail = key.height + len(notes) * sheet.LINE_IN + 0.1
        for axes, measure in zip(sketch.axes(tail), measures, strict=True):
            part = rows.filter(pl.col("measure").cast(pl.String) == measure)
            _panel(axes, part, sketch, hues, measure)
        key.draw(figure, 0.1, tail - 0.04)
        sheet.foot(figure, "\n".join(notes), 0.1)
    return figure


class _Sketch:
    """Where everything stands, inches: names of stages left, values right of the bars, one group after the other."""

    def __init__(self, figure: Figure, shown: Sequence[str], measures: Sequence[str], *, narrow: bool) -> None:
        self.figure, self.shown, self.measures, self.narrow = figure, shown, measures, narrow
        self.width = style.NARROW_IN if narrow else style.WIDE_IN
        self.left = sheet.widest(figure, STAGES) + 0.14
        self.value = sheet.widest(figure, ["−0.000 (−00 %)"]) + 0.08
        self.per_row = 1 if narrow else min(2, len(measures))
        room = self.width - self.per_row * (self.left + self.value + 0.12)
        self.bars = min(3.2, room / self.per_row)
        names = {m: sheet.broken(figure, m, self.left + self.bars + self.value - 0.4, lines=2, fontweight="semibold")
                 for m in shown}  # fmt: skip
        self.names = names
        self.tops, y = [], 0.0  # of each group: where its head begins
        for name in shown:
            self.tops.append(y)
            y += (len(names[name]) + 1) * _HEAD_IN + len(STAGES) * _BAR_IN + _GROUP_IN
        self.height = y

    def axes(self, tail: float) -> list[Axes]:
        """One panel per measure; sets the size of the figure."""
        n_rows = -(-len(self.measures) // self.per_row)
        block = self.left + self.bars + self.value + 0.12
        each = 0.34 + self.height + 0.44
        wide = self.width if self.narrow else min(self.width, self.per_row * block)
        high = n_rows * each + tail
        self.figure.set_size_inches(wide, high)
        out = []
        for i, _ in enumerate(self.measures):
            row, column = divmod(i, self.per_row)
            low = high - (row + 1) * each + 0.44
            place = ((column * block + self.left) / wide, low / high, self.bars / wide, self.height / high)
            out.append(self.figure.add_axes(place))
        return out


def _panel(axes: Axes, rows: pl.DataFrame, sketch: _Sketch, hues: dict[str, style.Hue], measure: str) -> None:
    from matplotlib.ticker import MaxNLocator

    title, unit, digits = MEASURES.get(measure, (measure.replace("_", " "), "", 2))
    axes.set(xlim=_limits(rows.filter(pl.col("combination").is_in(list(sketch.shown)))), ylim=(sketch.height, 0))
    for i, (name, top) in enumerate(zip(sketch.shown, sketch.tops, strict=True)):
        part = {r["stage"]: r for r in rows.filter(pl.col("combination") == name).iter_rows(named=True)}
        _group(axes, part, (name, top, sketch), hues[name], digits=digits, leads=i == 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=PT)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(f"share of the error, {unit}" if unit else "share of the error", fontsize=PT)
    sheet.write_head(axes, [Word(title, style.INK, "bold")], left_in=sketch.left - 0.06)


def _group(
    axes: Axes,
    part: dict[str, dict[str, Any]],
    at: tuple[str, float, _Sketch],
    hue: style.Hue,
    *,
    digits: int,
    leads: bool,
) -> None:
    """Name, total, and the four bars of one combination."""
    name, top, sketch = at
    lines = sketch.names[name]
    font = {"fontsize": PT, "va": "center", "annotation_clip": False}
    start = (-72 * (sketch.left - 0.06), 0)
    for i, line in enumerate(lines):
        axes.annotate(line, (0, top + (i + 0.5) * _HEAD_IN), start, xycoords=("axes fraction", "data"), zorder=5,
                      textcoords="offset points", color=hue.on_light if leads else style.INK, fontweight="semibold",
                      **font)  # fmt: skip
    total = next((r["total"] for r in part.values() if r["total"] is not None), None)
    said = (
        "no error to share out"
        if total == 0
        else "mean error –"
        if total is None
        else f"mean error {total:.{digits}f}, the sum of"
    )
    axes.annotate(said, (0, top + (len(lines) + 0.5) * _HEAD_IN), start, xycoords=("axes fraction", "data"),
                  textcoords="offset points", color=style.SOFT, zorder=5, **font)  # fmt: skip
    colour, bars = hue.line if leads else _GREY, top + (len(lines) + 1) * _HEAD_IN
    axes.plot([0, 0], [bars, bars + len(STAGES) * _BAR_IN], color=style.INK, linewidth=0.8, zorder=4, gid="zero")
    for j, stage in enumerate(STAGES):
        y = bars + (j + 0.5) * _BAR_IN
        r = part.get(stage)
        axes.annotate(stage, (0, y), (-5, 0), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
                      color=style.INK, **font)  # fmt: skip
        share = None if r is None else r["share"]
        axes.annotate(_value(r, digits), (1, y), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                      color=style.SOFT, **font)  # fmt: skip
        if share is None:
            continue
        axes.barh(y, share, height=0.72 * _BAR_IN, color=colour, linewidth=0, zorder=2, gid=f"{name} {stage}")
        if r["lo"] is not None and r["hi"] is not None:
            low, high = axes.get_xlim()
            axes.plot([max(r["lo"], low), min(r["hi"], high)], [y, y], color=style.INK, linewidth=1.1, zorder=3,
                      gid="interval", solid_capstyle="butt")  # fmt: skip
            for beyond, end, marker in ((r["lo"] < low, low, "<"), (r["hi"] > high, high, ">")):
                if beyond:
                    axes.plot(end, y, marker, ms=4, color=style.INK, mew=0, zorder=3, clip_on=False, gid="goes on")


def _value(row: dict[str, Any] | None, digits: int) -> str:
    """A share with its part of the total in per cent.

    >>> _value({"share": -0.126, "fraction": -0.04}, 2), _value(None, 2)
    ('−0.13 (−4 %)', '–')
    """
    if row is None or row["share"] is None:
        return "–"
    share = round(row["share"], digits) + 0.0
    text = f"{share:.{digits}f}" + ("" if row["fraction"] is None else f" ({round(100 * row['fraction'])} %)")
    return text.replace("-", "−")


def _limits(rows: pl.DataFrame) -> tuple[float, float]:
    """Around all bars; intervals are followed for another half of that and no further, or the bars would vanish."""
    shares, ends = rows["share"].drop_nulls().to_list(), rows.select("lo", "hi").drop_nulls()
    low, high = min([0.0, *shares]), max([0.0, *shares])
    room = 0.5 * (high - low) or 1.0
    low = max(low - room, min([low, *ends["lo"].to_list()]))
    high = min(high + room, max([high, *ends["hi"].to_list()]))
    edge = 0.04 * (high - low) or 1.0
    return (low - edge if low < 0 else 0.0), high + edge


def _go_on(rows: pl.DataFrame, measures: Sequence[str]) -> bool:
    """Whether an interval is longer than its panel."""
    for measure in measures:
        part = rows.filter(pl.col("measure").cast(pl.String) == measure)
        low, high = _limits(part)
        if part.filter((pl.col("lo") < low) | (pl.col("hi") > high)).height:
            return True
    return False


def _notes(figure: Figure, rows: pl.DataFrame, n: int, width: float) -> list[str]:
    """Why there are no intervals, and how many combinations are not drawn."""
    told = []
    if n > MOST:
        told.append(f"The first {MOST} of {n} combinations; the table has all.")
    reasons = rows.filter(pl.col("lo").is_null())["reason"].drop_nulls().unique(maintain_order=True).to_list()
    told += [f"No interval: {r}." for r in reasons[:2]]
    return [line for text in told for line in sheet.wrapped(figure, text, width - 0.2)]
