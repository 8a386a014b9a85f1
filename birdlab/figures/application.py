"""Figures of the chapter on the application: rates, errors by bird, who is seen with whom, scores against errors.

Drawn from saved tables and nothing else. A combination is named ``identity · tracker · model``; its colour and shape are those
of its place in ``models``. People are open diamonds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.application_matrix import fig_co_occurrence
from birdlab.figures.application_scores import fig_random, fig_task_against_biology, fig_tolerance
from birdlab.figures.sheet import HUMAN, PERSON, PT, Entry, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "fig_co_occurrence",
    "fig_error_by_individual",
    "fig_random",
    "fig_rates",
    "fig_task_against_biology",
    "fig_tolerance",
]

RATE = "pecks per minute"
_ROW_IN = 0.17  #: a bird
_DENSE = 400  #: points of a panel that are drawn as pixels in a vector file
_FAINT = 0.3
_DASHED = (0, (3, 3))
_PEOPLE = Entry("a person, the same videos", style.INK, PERSON)


def fig_rates(frame: pl.DataFrame, *, models: Sequence[str], unit: str = RATE, narrow: bool = False) -> Figure:
    """Predicted against true value, a panel per combination on one scale, the line where they are equal; people in every panel.

    Args:
        frame: ``combination`` (``human`` for people), ``truth``, ``predicted``, ``video_id``, ``subject``; a row with a null
            is not drawn but counted.
        models: combinations in the order of their colours; those without rows have no panel.
        unit: of the values.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        used = _defined(frame)
        shown = sheet.chosen(frame, models)
        people = used.filter(pl.col("combination") == HUMAN)
        panels = shown or ([HUMAN] if people.height else [])
        if used.filter(pl.col("combination").is_in([*panels, HUMAN])).is_empty():
            return sheet.empty(width, "No bird has both a true and a predicted value.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        per_row = min(len(panels), 2 if narrow else 4)
        left, between = 0.42, 0.2
        side = sheet.fitted(width - left - 0.12, len(panels), most=2.7, between=between, per_row=per_row)
        names = sheet.heads(figure, panels, style.model_colours(models), side)
        names = {k: [Word("a person", style.INK, "bold")] if k == HUMAN else v for k, v in names.items()}
        lay = Lay(
            side, side, per_row, left, between, top=sheet.top_of(len(next(iter(names.values()))) + 2), bottom=0.44
        )
        lay, key = lay.keyed(figure, _rates_key(panels, people, narrow=narrow), len(panels))
        both = used.filter(pl.col("combination").is_in([*panels, HUMAN]))
        limits = _limits(both["truth"].to_list() + both["predicted"].to_list())
        for i, (axes, name) in enumerate(zip(lay.place(figure, len(panels)), panels, strict=True)):
            _rates_panel(axes, frame.filter(pl.col("combination") == name), people, limits, name, models)
            first = i % per_row == 0
            n = _counted(frame.filter(pl.col("combination") == name))
            sheet.write_head(axes, [*names[name], Word(n), Word("predicted" if first else "")])
            axes.set_xlabel(f"true {unit}" if side > 1.7 else "true", fontsize=PT)
            if not first:
                axes.set_yticklabels([])
        key.draw(figure, 0.1, lay.foot)
    return figure


def fig_error_by_individual(
    frame: pl.DataFrame, *, models: Sequence[str], unit: str = RATE, narrow: bool = False
) -> Figure:
    """Predicted minus true value by bird: the mean over videos as a mark, single videos as faint points, a panel per combination.

    Birds stand from the most overestimated to the most underestimated one, by the mean of all combinations. The dashed line is
    a combination's mean over all its points.

    Args:
        frame: as for :func:`fig_rates`; ``subject`` is a bird, or a list of one or two.
        models: combinations in the order of their colours.
        unit: of the values.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = _with_birds(frame).with_columns(error=pl.col("predicted") - pl.col("truth"))
        shown = sheet.chosen(rows, models)
        mine = rows.filter(pl.col("combination").is_in(shown))
        if mine["error"].drop_nulls().is_empty():
            return sheet.empty(width, "No bird has both a true and a predicted value.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        birds = _ordered(mine)
        labels = [sheet.cut(figure, b, 0.8 if narrow else 1.5) for b in birds]
        left = sheet.widest(figure, labels) + 0.14
        per_row = min(len(shown), 2 if narrow else 4)
        each = sheet.fitted(width - left - 0.14, len(shown), most=3.6, between=0.2, per_row=per_row)
        names = sheet.heads(figure, shown, style.model_colours(models), each)
        people = rows.filter(pl.col("combination") == HUMAN)
        entries = [_BIRD, _VIDEO, _MEAN, *([_PEOPLE] if people["error"].drop_nulls().len() else [])]
        lines = sheet.wrapped(figure, f"predicted − true {unit}", each)
        lay = Lay(each, _ROW_IN * (len(birds) + 0.6), per_row, left, 0.2,
                  top=sheet.top_of(len(next(iter(names.values())))), bottom=0.26 + 0.14 * len(lines))  # fmt: skip
        lay, key = lay.keyed(figure, entries, len(shown))
        reach = rows.filter(pl.col("combination").is_in([*shown, HUMAN]))["error"].drop_nulls().to_list()
        for i, (axes, name) in enumerate(zip(lay.place(figure, len(shown)), shown, strict=True)):
            _birds_panel(axes, mine.filter(pl.col("combination") == name), people, birds, name, models)
            axes.set(xlim=_limits(reach), ylim=(len(birds) - 0.3, -0.9))
            axes.set_yticks(range(len(birds)), labels if i % per_row == 0 else [""] * len(birds))
            axes.set_xlabel("\n".join(lines), fontsize=PT)
            sheet.write_head(axes, names[name])
        key.draw(figure, 0.1, lay.foot)
    return figure


_BIRD = Entry("a bird, mean of its videos", style.INK, {"marker": "o", "ms": 5, "color": style.SOFT, "mew": 0})
_VIDEO = Entry("a video", style.INK, {"marker": "o", "ms": 4, "color": style.SOFT, "mew": 0, "alpha": 0.45})
_MEAN = Entry("mean of all points", style.INK, {"linestyle": _DASHED, "color": style.SOFT, "linewidth": 0.9})


def _defined(frame: pl.DataFrame) -> pl.DataFrame:
    numbers = pl.col("truth", "predicted").cast(pl.Float64)
    frame = frame.with_columns(numbers)
    return frame.filter(pl.col("truth").is_finite() & pl.col("predicted").is_finite())


def _counted(rows: pl.DataFrame) -> str:
    n = _defined(rows).height
    return f"n = {n:,}" + (f", {rows.height - n:,} undefined" if rows.height > n else "")


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """From the lowest value or 0 to the highest one or 0, with an edge."""
    low, high = min([0.0, *values]), max([0.0, *values])
    edge = 0.05 * (high - low) or 1.0
    return low - edge, high + edge


def _rates_key(panels: Sequence[str], people: pl.DataFrame, *, narrow: bool) -> list[Entry]:
    line = Entry("predicted = true", style.INK, {"linestyle": _DASHED, "color": style.SOFT, "linewidth": 0.9})
    unit = "one bird (or pair) in one video"
    dot = Entry("a bird in a video" if narrow else unit, style.INK,
                {"marker": "o", "ms": 4, "color": style.SOFT, "mew": 0})  # fmt: skip
    return [*([dot] if panels != [HUMAN] else []), *([_PEOPLE] if people.height else []), line]


def _rates_panel(
    axes: Axes,
    rows: pl.DataFrame,
    people: pl.DataFrame,
    limits: tuple[float, float],
    name: str,
    models: Sequence[str],
) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.plot(limits, limits, color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=1, gid="equal")
    if people.height:
        axes.plot(
            people["truth"], people["predicted"], zorder=2, gid=HUMAN, rasterized=people.height > _DENSE, **PERSON
        )
    used = _defined(rows)
    if name != HUMAN and used.height:
        hue = style.model_colours(models)[name]
        axes.plot(used["truth"], used["predicted"], linestyle="none", marker=sheet.marker_of(models)[name], ms=4.2,
                  mfc=hue.line, mec="white", mew=0.4, alpha=0.75, zorder=3, gid=name,
                  rasterized=used.height > _DENSE)  # fmt: skip
    axes.set(xlim=limits, ylim=limits)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="both")


def _with_birds(frame: pl.DataFrame) -> pl.DataFrame:
    subject = pl.col("subject")
    named = subject.list.join(" & ") if isinstance(frame.schema["subject"], pl.List) else subject
    numbers = pl.col("truth", "predicted").cast(pl.Float64).fill_nan(None)
    return frame.with_columns(numbers, bird=named)


def _ordered(rows: pl.DataFrame) -> list[str]:
    """Birds from the most over- to the most underestimated one; undefined ones last."""
    each = rows.group_by("bird").agg(pl.col("error").mean())
    return each.sort(["error", "bird"], descending=[True, False], nulls_last=True)["bird"].to_list()


def _birds_panel(
    axes: Axes, rows: pl.DataFrame, people: pl.DataFrame, birds: list[str], name: str, models: Sequence[str]
) -> None:
    from matplotlib.ticker import MaxNLocator

    hue, at = style.model_colours(models)[name], {b: i for i, b in enumerate(birds)}
    axes.axvline(0, color=style.INK, linewidth=0.7, zorder=0)
    used = rows.drop_nulls("error")
    if used.height:
        axes.axvline(used["error"].mean(), color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=1, gid="mean")
        axes.plot(used["error"], [at[b] for b in used["bird"]], "o", ms=3.6, color=hue.line, mew=0, alpha=_FAINT,
                  zorder=2, gid="videos", rasterized=used.height > _DENSE)  # fmt: skip
    person = people.drop_nulls("error").filter(pl.col("bird").is_in(birds)).group_by("bird").agg(pl.col("error").mean())
    if person.height:
        axes.plot(person["error"], [at[b] for b in person["bird"]], zorder=3, gid=HUMAN, **PERSON)
    mean = used.group_by("bird").agg(pl.col("error").mean())
    for bird, error in mean.sort("bird").iter_rows():
        axes.plot(error, at[bird], sheet.marker_of(models)[name], ms=5, mfc=hue.line, mec="white", mew=0.5, zorder=4,
                  gid="bird")  # fmt: skip
    for bird in sorted(set(birds) - set(mean["bird"])):
        axes.annotate("–", (0, at[bird]), ha="center", va="center", fontsize=PT, color=style.SOFT)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, colors=style.INK)
