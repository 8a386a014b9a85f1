"""Who was in view when, by hand and predicted: two lanes per bird, pecks as ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.sheet import PT, Entry, Key, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUTH, PREDICTED = "truth", "predicted"
PRESENT, PECK, OTHER = "present", "peck", "other"
BY_HAND = "#6B747D"
_LANE, _GAP = 0.26, 0.04  #: of a row: height of a lane, half the distance of the two
_TICK = 0.13  #: length of a peck, outside its lane
_ROW_IN, _TIGHT_IN, _MANY = 0.38, 0.3, 12
_MINUTES_FROM = 180.0  #: s; a longer video has a scale in minutes
_SHORTEST = 0.0012  #: of the width of the scale: shorter stretches would not be seen
_DENSE = 600


def fig_lanes(
    frame: pl.DataFrame, *, models: Sequence[str] = (), model: str | None = None, narrow: bool = False
) -> Figure:
    """Stretches of time in which each bird is in view: by hand in grey, predicted in colour; a tick is a peck.

    Hatched: wrong stretches, where the bird is predicted and by hand is not in view: another bird has its name, or nobody is there.

    Args:
        frame: of one video: ``bird``, ``source`` (``truth`` or ``predicted``), ``start_s``, ``end_s`` (start ≤ end, s),
            ``kind``: ``present``, ``peck`` (a tick in the middle of it), or ``other`` (predicted where it is not in view by hand). Rows with a
            null are not drawn; a bird without a row in one lane has an empty lane.
        models: combinations in the order of their colours.
        model: the one that is drawn; the first colour where it is not given.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = frame.with_columns(cs.float().fill_nan(None)).drop_nulls(["bird", "source", "kind", "start_s", "end_s"])
        birds = sorted(set(rows["bird"]))
        if not birds:
            return sheet.empty(width, "No bird is in view in this video, by hand or predicted.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        hue = style.model_colours(models).get(model or "", style.model_colour(0))
        labels = [sheet.cut(figure, b, 0.8 if narrow else 1.5) for b in birds]
        left = sheet.widest(figure, labels) + 0.14
        key = Key.of(figure, _entries(rows, hue), width - 0.2)
        row = _ROW_IN if len(birds) <= _MANY else _TIGHT_IN
        lay = Lay(
            width - left - 0.2, row * len(birds), 1, left, right=0.2, top=0.1, bottom=0.42, foot=key.height + 0.04
        )
        (axes,) = lay.place(figure, 1)
        end = float(rows["end_s"].max())
        start = min(0.0, float(rows["start_s"].min()))
        unit, per = ("min", 60.0) if end - start > _MINUTES_FROM else ("s", 1.0)
        for y, bird in enumerate(birds):
            axes.axhline(y, color=style.GRID, linewidth=0.8, zorder=0)
            _lane(axes, rows.filter(pl.col("bird") == bird), y, hue, per, (end - start) * _SHORTEST)
        axes.set(xlim=(start / per, (end or 1.0) / per), ylim=(len(birds) - 0.45, -0.55))
        axes.set_yticks(range(len(birds)), labels)
        axes.set_xlabel(f"time in the video, {unit}", fontsize=PT)
        axes.tick_params(axis="y", length=0, colors=style.INK)
        axes.spines["left"].set_visible(False)
        sheet.write_head(axes, [Word("")])
        key.draw(figure, 0.1, lay.foot)
    return figure


def _entries(rows: pl.DataFrame, hue: style.Hue) -> list[Entry]:
    """What the drawing holds, in words."""
    bar = {"linestyle": "-", "linewidth": 6, "solid_capstyle": "butt"}
    tick = {"marker": "|", "ms": 7, "mew": 1.0}
    out = []
    if rows.filter(source=TRUTH, kind=PRESENT).height:
        out.append(Entry("in view, by hand", style.INK, {**bar, "color": BY_HAND}))
    if rows.filter(source=PREDICTED, kind=PRESENT).height:
        out.append(Entry("predicted", hue.on_light, {**bar, "color": hue.line}))
    if rows.filter(source=PREDICTED, kind=OTHER).height:
        out.append(Entry("predicted, not in view by hand", style.INK,
                         {"hatch": "//////", "color": style.INK}))  # fmt: skip
    if rows.filter(kind=PECK).height:
        out.append(Entry("a peck", style.INK, {**tick, "mec": style.INK}))
    return out


def _lane(axes: Axes, rows: pl.DataFrame, y: int, hue: style.Hue, per: float, shortest: float) -> None:
    """Both lanes of one bird: by hand above, predicted below."""
    dense = rows.height > _DENSE
    for source, low, colour in ((TRUTH, y - _GAP - _LANE, BY_HAND), (PREDICTED, y + _GAP, hue.line)):
        mine = rows.filter(pl.col("source") == source)
        for kind in (PRESENT, OTHER):
            spans = [(s / per, max(e - s, shortest) / per) for s, e in
                     mine.filter(pl.col("kind") == kind).select("start_s", "end_s").iter_rows()]  # fmt: skip
            if not spans:
                continue
            if kind == PRESENT:
                axes.broken_barh(spans, (low, _LANE), facecolor=colour, linewidth=0, zorder=2, rasterized=dense,
                                 gid=f"{source} present")  # fmt: skip
            else:
                axes.broken_barh(spans, (low, _LANE), facecolor="white", edgecolor=style.INK, linewidth=0.5,
                                 hatch="//////", zorder=3, gid=f"{source} other")  # fmt: skip
        pecks = mine.filter(pl.col("kind") == PECK)
        if pecks.height:
            at = ((pecks["start_s"] + pecks["end_s"]) / 2 / per).to_numpy()
            ends = (low - _TICK, low) if source == TRUTH else (low + _LANE, low + _LANE + _TICK)
            axes.vlines(at, *ends, color=style.INK if source == TRUTH else hue.on_light, linewidth=0.8, zorder=4,
                        rasterized=dense, gid=f"{source} peck")  # fmt: skip
