"""Figures of re-identification by years between query and gallery, and by bird."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from birdlab import style
from birdlab.figures import placing, sheet
from birdlab.figures.reid_panels import (
    CHANCE,
    DOTTED,
    Facet,
    columns_for,
    count_text,
    dash,
    dot_entries,
    draw_facets,
    facet_of,
    facets_of,
    tidied,
)
from birdlab.figures.sheet import PT, Entry, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNKNOWN = "unknown"
#: Birds that are named under a panel.
N_WORST = 5
#: Birds of a panel up to which each has its interval: with more of them one hides the next.
MOST_SPANS = 60
_STEP_IN = 0.1  #: from one method's mark to the next
_SLOT_IN = 0.42  #: least width of a level
_TALL_IN = 1.9
_DASHED = (0, (3, 3))
_LINE = {"linestyle": "-", "color": style.SOFT, "linewidth": 1.1}


# --- years ------------------------------------------------------------------------------------------------------------


def fig_years(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Top-1 by the years between query and gallery, methods side by side with 95 %, n under every level, chance dotted.

    Args:
        frame: table ``reid_years``: ``model``, ``split``, ``gallery``, ``level``, ``n``, ``top1`` (null: a dash), ``lo``,
            ``hi``, ``chance`` (null: not drawn).
        models: methods in the order of the recipe.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = tidied(frame, models).drop_nulls("level").with_columns(panel_gallery=pl.col("gallery").cast(pl.String))
    shown, levels = sheet.chosen(rows, models, "model"), sorted(rows["level"].unique(), key=_years_of)
    facets = facets_of(rows) if rows["top1"].drop_nulls().len() else []
    slot = max(_SLOT_IN, _STEP_IN * len(shown) + 0.1)
    fits = max(1, int((width - 0.6) / (slot * max(1, len(levels)) + 0.2)))
    per_row = max(1, min(columns_for(facets, narrow), fits))

    def lay_of(each: float, columns: int, n_heads: int) -> Lay:
        return Lay(each, _TALL_IN, columns, 0.45, 0.24, top=sheet.top_of(n_heads + 1), bottom=0.6)

    def each_panel(axes: Axes, facet: Facet, *, first: bool) -> list[Word]:
        part = facet_of(rows, facet)
        _years(axes, part, levels, shown, models)
        axes.set_xlabel("years to the nearest picture in the gallery", fontsize=PT)
        if axes.get_window_extent().width / axes.figure.dpi < 2.6:
            axes.set_xlabel("years between", fontsize=PT)
        if not first:
            axes.set_yticklabels([])
        return [Word("Top-1" if first else "")]

    entries = [*dot_entries(shown, models), Entry("95 % for new birds", style.INK, _LINE), CHANCE]
    return draw_facets(width, facets, entries, lay_of, each_panel, "No query has a bird of known years.", per_row)


def _years_of(level: str) -> tuple[float, str]:
    """Order of levels: by the number they begin with; those without one last."""
    found = re.match(r"\s*(\d+)", level)
    return (float(found[1]) if found else float("inf")), level


def _years(axes: Axes, rows: pl.DataFrame, levels: Sequence[str], shown: Sequence[str], models: Sequence[str]) -> None:
    from matplotlib.ticker import PercentFormatter

    hues, markers = style.model_colours(models), sheet.marker_of(models)
    shown = sheet.chosen(rows, shown, "model")
    width = axes.get_window_extent().width / axes.figure.dpi
    step = min(_STEP_IN / (width / len(levels)), 0.86 / len(shown))
    cells = {(r["model"], r["level"]): r for r in rows.iter_rows(named=True)}
    ticks = []
    for x, level in enumerate(levels):
        part = rows.filter(pl.col("level") == level)
        chance, n = part["chance"].drop_nulls(), part["n"].drop_nulls()
        if len(chance):
            axes.plot([x - 0.43, x + 0.43], [chance.mean()] * 2, color=style.SOFT, linewidth=1.1, linestyle=DOTTED,
                      zorder=1, gid="chance")  # fmt: skip
        for i, name in enumerate(shown):
            at = x + (i - (len(shown) - 1) / 2) * step
            r = cells.get((name, level))
            if r is None or r["top1"] is None:
                dash(axes, at, 0, hues[name].on_light)
                continue
            if r["lo"] is not None and r["hi"] is not None:
                axes.plot([at, at], [r["lo"], r["hi"]], color=hues[name].line, linewidth=1.2, zorder=2, gid="interval")
            axes.plot(at, r["top1"], linestyle="none", marker=markers[name], ms=5, mfc=hues[name].line, mec="white",
                      mew=0.5, zorder=3, gid=name)  # fmt: skip
        least = "" if n.is_empty() else f"{int(n.min()):,}" if n.min() == n.max() else f"≥{int(n.min()):,}"
        ticks.append(f"{_short(level)}\n{least or '–'}")
    axes.set(xlim=(-0.5, len(levels) - 0.5), ylim=(0, 1.02))
    axes.set_xticks(range(len(levels)), ticks)
    axes.annotate("n", (0, 0), (-5, -12.3), xycoords="axes fraction", textcoords="offset points", ha="right", va="top",
                  fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.tick_params(axis="x", length=0, pad=3)
    axes.grid(axis="y")


def _short(level: str) -> str:
    """``3 or more`` as ``3+``: levels stand close together.

    >>> _short("3 or more"), _short("unknown")
    ('3+', '?')
    """
    return "?" if level == UNKNOWN else level.replace(" or more", "+")


# --- birds ------------------------------------------------------------------------------------------------------------


class _Panel(NamedTuple):
    """A method in a protocol and list."""

    model: str
    facet: Facet
    title: str


def fig_birds(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Recall of every bird, the worst first, a panel per method; the worst are named with the bird they are taken for.

    Args:
        frame: table ``reid_birds``: ``model``, ``split``, ``gallery``, ``individual_id``, ``n``, ``top1`` (null: not drawn),
            ``lo``, ``hi``, ``chance``, ``taken_for``, ``n_taken_for``.
        models: methods in the order of the recipe.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = tidied(frame, models).drop_nulls("top1").with_columns(panel_gallery=pl.col("gallery").cast(pl.String))
    shown, hues = sheet.chosen(rows, models, "model"), style.model_colours(models)
    facets = facets_of(rows)
    panels = [
        _Panel(m, f, sheet.SEPARATOR.join([m, f.title]) if len(facets) > 1 else m)
        for f in facets for m in shown if facet_of(rows, f).filter(pl.col("model") == m).height
    ]  # fmt: skip
    lines = min(N_WORST, max((_sorted(rows, p).height for p in panels), default=0))

    def lay_of(each: float, columns: int, n_heads: int) -> Lay:
        return Lay(each, 1.5, columns, 0.45, 0.24, top=sheet.top_of(n_heads + 2),
                   bottom=0.3 + sheet.LINE_IN * (lines + 1))  # fmt: skip

    def each_panel(axes: Axes, panel: _Panel, *, first: bool) -> list[Word]:
        part = _sorted(rows, panel)
        _birds(axes, part, hues[panel.model])
        _name_worst(axes, part)
        if not first:
            axes.set_yticklabels([])
        return [Word(f"{part.height:,} birds, {count_text(part)} each"), Word("right" if first else "")]

    spans = any(_sorted(rows, p).height <= MOST_SPANS for p in panels) and rows["lo"].drop_nulls().len() > 0
    dot = {"color": style.SOFT, "marker": "o", "ms": 4.5, "mfc": style.SOFT, "mec": "white"}
    entries = [
        Entry("a bird, 95 % for new videos", style.INK, {**dot, **_LINE}) if spans else Entry("a bird", style.INK, dot),
        Entry("mean of the birds", style.INK, {**_LINE, "linestyle": _DASHED}),
        CHANCE,
    ]
    columns = 1 if narrow else min(3, max(1, len(shown) if len(facets) > 1 else len(panels)))
    return draw_facets(width, panels, entries, lay_of, each_panel, "No bird was asked for.", columns, hues=hues)


def _sorted(rows: pl.DataFrame, panel: _Panel) -> pl.DataFrame:
    """The birds of a panel, worst first; of equal ones the one with more queries, then by name."""
    part = facet_of(rows, panel.facet).filter(pl.col("model") == panel.model)
    return part.sort("top1", "n", "individual_id", descending=[False, True, False], nulls_last=True)


def _birds(axes: Axes, part: pl.DataFrame, hue: style.Hue) -> None:
    from matplotlib.ticker import PercentFormatter

    many = part.height > MOST_SPANS
    spans = part.with_row_index("at").drop_nulls(["lo", "hi"])
    if not many:
        axes.vlines(spans["at"], spans["lo"], spans["hi"], color=hue.line, linewidth=1.0, alpha=0.35, zorder=2,
                    gid="interval")  # fmt: skip
    axes.plot(range(part.height), part["top1"], "o", ms=3 if many else 4.5, mfc=hue.line, mec="white", mew=0 if many else 0.4, zorder=4,
              gid="birds", clip_on=False)  # fmt: skip
    axes.axhline(part["top1"].mean(), color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=3, gid="mean")
    if part["chance"].drop_nulls().len():
        axes.axhline(part["chance"].mean(), color=style.SOFT, linewidth=1.1, linestyle=DOTTED, zorder=1, gid="chance")
    axes.set(xlim=(-0.7, max(part.height, 2) - 0.3), ylim=(-0.02, 1.02))
    axes.set_xticks([])
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.grid(axis="y")


def _name_worst(axes: Axes, part: pl.DataFrame) -> None:
    """Under the panel: the worst birds, how many of their queries were right, whom they are taken for."""
    width = axes.get_window_extent().width / axes.figure.dpi
    told = ["worst first:" if part.height > N_WORST else "from the worst:"]
    told += [_line(axes.figure, r, width) for r in part.head(N_WORST).iter_rows(named=True)]
    for i, text in enumerate(told):
        axes.annotate(text, (0, 0), (0, -6 - 72 * sheet.LINE_IN * i),
                      xycoords="axes fraction", textcoords="offset points", va="top", fontsize=PT,
                      color=style.SOFT if i == 0 else style.INK, annotation_clip=False)  # fmt: skip


def _line(figure: Figure, row: dict[str, Any], room: float) -> str:
    """A bird in one line of ``room`` inches; long names are shortened in the middle."""
    text = ""
    for length in (1000, *range(32, 5, -2)):
        n = "" if row["n"] is None else f" of {row['n']:,}"
        taken = row.get("taken_for") if row["top1"] < 1 else None
        taken = f", taken for {placing.shortened(taken, length)}" if taken else ""
        text = f"{placing.shortened(row['individual_id'], length)}: {100 * row['top1']:.0f} %{n}{taken}"
        if sheet.widest(figure, [text]) <= room:
            return text
    return sheet.cut(figure, text, room)
