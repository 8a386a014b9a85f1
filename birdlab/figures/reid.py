"""Figures of the chapter on re-identification: Top-1 by length of the list, CMC, risk, years between, and single birds.

Drawn from saved tables and nothing else. A panel is a protocol and a list (where the frame has several lists); colours and
shapes belong to methods, in the order of the recipe. Chance is dotted in grey.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.reid_birds import fig_birds, fig_years
from birdlab.figures.reid_panels import (
    CHANCE,
    DOTTED,
    Facet,
    columns_for,
    count_text,
    draw_facets,
    facet_of,
    facets_of,
    line_entries,
    tidied,
)
from birdlab.figures.sheet import PT, Entry, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["fig_birds", "fig_cmc", "fig_list_size", "fig_risk", "fig_years", "list_size_frame"]

#: Methods of which bands are drawn: with more of them a band is no longer told from the next one.
MOST_BANDS = 4
#: Lists that stand in nature, as points beside the curve; ``all`` is the end of the curve.
OBSERVED = ("territory", "neighbours")
_STEP_IN = 0.075  #: from one method's point to the next
_SPREAD_IN = 0.36  #: from the first method's point to the last one's, at most
_TALL_IN = 2.2
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_UNRANKED = "No query was ranked."
_Draw = Callable[["Axes", pl.DataFrame], None]


# --- length of the list -----------------------------------------------------------------------------------------------


def list_size_frame(curve: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """The two tables of :func:`fig_list_size` in one.

    Args:
        curve: table ``reid_list_size``.
        points: table ``reid_lists``; its list ``all`` is the end of the curve and left out.

    Returns:
        ``kind`` (curve or point), ``model``, ``split``, ``gallery`` (null for the curve), ``list_size``, ``list_min``,
        ``list_max``, ``top1``, ``lo``, ``hi``, ``chance``, ``n``.
    """
    names = ("model", "split", "gallery", "list_size", "list_min", "list_max", "top1", "lo", "hi", "chance", "n")
    text = {"model", "split", "gallery"}
    parts = []
    for kind, table in (("curve", curve), ("point", points)):
        cells = [
            (pl.col(c) if c in table.columns else pl.lit(None)).cast(pl.String if c in text else pl.Float64).alias(c)
            for c in names
        ]
        parts.append(table.select(pl.lit(kind).alias("kind"), *cells) if table.height else None)
    kept = [p for p in parts if p is not None]
    schema = {"kind": pl.String, **{c: pl.String if c in text else pl.Float64 for c in names}}
    out = pl.concat(kept) if kept else pl.DataFrame(schema=schema)
    out = out.filter((pl.col("kind") == "curve") | pl.col("gallery").is_in(OBSERVED))
    return out.with_columns(pl.col("n").cast(pl.Int64))


def fig_list_size(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Top-1 against the number of candidates on a log scale, a line per method; observed lists are points, chance is dotted.

    The band of a line (up to four methods) and the line through a point are their 95 %. A point stands at the mean length
    of its lists, methods a little apart.

    Args:
        frame: of :func:`list_size_frame`.
        models: methods in the order of the recipe; those without rows are not drawn.
    """
    rows = tidied(frame, models).drop_nulls(["list_size", "top1"]).filter(pl.col("list_size") > 0)
    rows = rows.with_columns(panel_gallery=pl.lit(None, pl.String))
    shown = sheet.chosen(rows, models, "model")
    entries = line_entries(shown, models, marked=True)
    if rows.filter(pl.col("kind") == "curve").height:
        entries.append(CHANCE)
    if rows.filter(pl.col("kind") == "point")["lo"].drop_nulls().len():
        entries.append(_ENDS)
    end = float(rows["list_size"].max() or 2.0)

    def draw(axes: Axes, part: pl.DataFrame) -> None:
        _sizes(axes, part, shown, models)
        _log_axis(axes, end)
        _name_lists(axes, part)

    return _curves(rows, entries, draw, ("Top-1", "candidates in the list", _UNRANKED), narrow, extra=1)


_ENDS = Entry("an observed list, 95 %", style.INK, {"linestyle": "-", "color": style.SOFT, "linewidth": 1.1, "marker": "o",
                                                    "ms": 4.8, "mfc": "white", "mec": style.SOFT})  # fmt: skip


def _sizes(axes: Axes, part: pl.DataFrame, shown: Sequence[str], models: Sequence[str]) -> None:
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    curve, points = (part.filter(pl.col("kind") == kind) for kind in ("curve", "point"))
    chance = curve.group_by("list_size").agg(pl.col("chance").mean()).drop_nulls().sort("list_size")
    axes.plot(chance["list_size"], chance["chance"], color=style.SOFT, linewidth=1.1, linestyle=DOTTED, zorder=1,
              gid="chance")  # fmt: skip
    here = [m for m in shown if m in set(points["model"])]
    for name in shown:
        line, hue = curve.filter(pl.col("model") == name).sort("list_size"), hues[name]
        band = line.drop_nulls(["lo", "hi"])
        if len(shown) <= MOST_BANDS and band.height > 1:
            axes.fill_between(band["list_size"], band["lo"], band["hi"], color=hue.line, alpha=0.1, linewidth=0,
                              zorder=1, gid=f"{name} band")  # fmt: skip
        axes.plot(line["list_size"], line["top1"], color=hue.line, linestyle=hue.dash, linewidth=1.7, zorder=3,
                  marker="o" if line.height == 1 else "", ms=3, gid=name)  # fmt: skip
        if name not in here:
            continue
        for r in points.filter(pl.col("model") == name).iter_rows(named=True):
            step = min(_STEP_IN, _SPREAD_IN / len(here))
            shift = 72 * step * (here.index(name) - (len(here) - 1) / 2)
            _point(axes, r, shift, hue, markers[name])


def _point(axes: Axes, row: dict[str, Any], shift_pt: float, hue: style.Hue, marker: str) -> None:
    """A point with its interval, moved sideways by some points of paper."""
    from matplotlib.transforms import ScaledTranslation

    moved = axes.transData + ScaledTranslation(shift_pt / 72, 0, axes.figure.dpi_scale_trans)
    at = {"transform": moved, "color": hue.line}
    if row["lo"] is not None and row["hi"] is not None:
        axes.plot([row["list_size"]] * 2, [row["lo"], row["hi"]], linewidth=1.1, zorder=4, gid="interval", **at)
    axes.plot([row["list_size"]], [row["top1"]], linestyle="none", marker=marker, ms=4.8, mfc="white", mec=hue.line,
              mew=1.3, zorder=5, gid=f"{row['model']} {row['gallery']}", **at)  # fmt: skip


def _log_axis(axes: Axes, end: float) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xlim(0.93, max(end, 2.0) * 1.09)
    axes.xaxis.set_minor_locator(NullLocator())
    width = axes.get_window_extent().width / axes.figure.dpi
    ticks = [t for t in _TICKS if t <= max(end, 2.0) * 1.05]
    while len(ticks) > 2 and width / len(ticks) < 0.28:
        ticks = ticks[::2]
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])


def _name_lists(axes: Axes, part: pl.DataFrame) -> None:
    """The names of the observed lists above the panel, moved apart, a faint line down from each."""
    points = part.filter(pl.col("kind") == "point")
    means = points.group_by("gallery", maintain_order=True).agg(pl.col("list_size").mean())
    if means.is_empty():
        return
    figure, width = axes.figure, axes.get_window_extent().width / axes.figure.dpi
    low, high = (np.log(v) for v in axes.get_xlim())
    wished = [width * (np.log(v) - low) / (high - low) for v in means["list_size"]]
    half = sheet.widest(figure, means["gallery"].to_list()) / 2
    placed = sheet.apart(wished, 2 * half, half - 0.1, width - half + 0.1)
    for name, size, x in zip(means["gallery"], means["list_size"], placed, strict=True):
        axes.axvline(size, color=style.EDGE, linewidth=0.6, zorder=0, gid=f"{name} list")
        axes.annotate(name, (x / width, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", ha="center",
                      va="bottom", fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip


# --- CMC and risk -----------------------------------------------------------------------------------------------------


def fig_cmc(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Share of queries whose bird is among the first k, a line per method; chance is dotted.

    Args:
        frame: table ``reid_cmc``: ``model``, ``split``, ``gallery``, ``k``, ``top`` (null: not drawn), ``chance``, ``n``.
        models: methods in the order of the recipe.
    """
    rows = tidied(frame, models).drop_nulls(["k", "top"]).with_columns(panel_gallery=pl.col("gallery").cast(pl.String))
    shown = sheet.chosen(rows, models, "model")
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    end = float(rows["k"].max() or 1)

    def draw(axes: Axes, part: pl.DataFrame) -> None:
        from matplotlib.ticker import MaxNLocator

        chance = part.group_by("k").agg(pl.col("chance").mean()).drop_nulls().sort("k")
        axes.plot(chance["k"], chance["chance"], color=style.SOFT, linewidth=1.1, linestyle=DOTTED, gid="chance")
        for name in shown:
            line, hue = part.filter(pl.col("model") == name).sort("k"), hues[name]
            axes.plot(line["k"], line["top"], color=hue.line, linestyle=hue.dash, linewidth=1.7, zorder=3,
                      marker=markers[name], markevery=[0] if line.height else None, ms=4.8, mfc="white", mec=hue.line,
                      mew=1.3, gid=name)  # fmt: skip
        axes.set_xlim(1 - 0.03 * end, end * 1.02 if end > 1 else 1.5)
        axes.set_xticks([1, *(t for t in MaxNLocator(5, integer=True).tick_values(1, end) if 1 < t <= end)])

    entries = [*line_entries(shown, models, marked=True), CHANCE]
    return _curves(rows, entries, draw, ("share among the first k", "k", _UNRANKED), narrow)


def fig_risk(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Share of wrong names against the share of queries that are named, a line per method; dotted: naming everything.

    The surest queries are named first. Lower is better.

    Args:
        frame: table ``reid_risk``: ``model``, ``split``, ``gallery``, ``coverage``, ``risk`` (null: not drawn),
            ``base_risk`` (null: no dotted line).
        models: methods in the order of the recipe.
    """
    rows = tidied(frame, models).drop_nulls(["coverage", "risk"])
    rows = rows.with_columns(panel_gallery=pl.col("gallery").cast(pl.String))
    shown, hues = sheet.chosen(rows, models, "model"), style.model_colours(models)
    top = max([0.05, *rows.select(pl.max_horizontal("risk", "base_risk")).to_series().drop_nulls().to_list()])

    def draw(axes: Axes, part: pl.DataFrame) -> None:
        for name in shown:
            line, hue = part.filter(pl.col("model") == name).sort("coverage"), hues[name]
            base = line["base_risk"].drop_nulls()
            if len(base):
                axes.axhline(
                    base[0], color=hue.line, linewidth=1.0, linestyle=DOTTED, zorder=1, gid=f"{name} everything"
                )
            axes.plot(line["coverage"], line["risk"], color=hue.line, linestyle=hue.dash, linewidth=1.6, zorder=3,
                      marker="o" if line.height == 1 else "", ms=3.5, gid=name)  # fmt: skip
        axes.set_xlim(-0.01, 1.02)
        axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        axes.set_ylim(-0.012 * top, min(1.02, 1.06 * top))

    dotted = Entry("every query named", style.INK, {"linestyle": DOTTED, "color": style.SOFT, "linewidth": 1.1})
    entries = [*line_entries(shown, models, marked=False), dotted]
    words = ("wrong names among those named", "queries named", "No query was named with a score.")
    return _curves(rows, entries, draw, words, narrow, share=False)


def _curves(
    rows: pl.DataFrame,
    entries: Sequence[Entry],
    draw: _Draw,
    words: tuple[str, str, str],
    narrow: bool,
    *,
    extra: int = 0,
    share: bool = True,
) -> Figure:
    """A panel per protocol and list on one scale.

    Args:
        words: name of the y axis, of the x axis, what is said where there is nothing to draw.
        extra: lines that stay free above each panel.
        share: whether the scale goes from 0 to 1.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    facets = facets_of(rows)
    counts = {facet: count_text(facet_of(rows, facet)) for facet in facets}
    has_n = any(counts.values())

    def lay_of(each: float, per_row: int, n_heads: int) -> Lay:
        return Lay(each, min(_TALL_IN, max(1.5, each)), per_row, 0.45, 0.22, right=0.2,
                   top=sheet.top_of(n_heads + 1 + has_n + extra) - 0.04, bottom=0.44)  # fmt: skip

    def each_panel(axes: Axes, facet: Facet, *, first: bool) -> list[Word]:
        from matplotlib.ticker import PercentFormatter

        if share:
            axes.set_ylim(0, 1.02)
        draw(axes, facet_of(rows, facet))
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        axes.grid(axis="y")
        axes.set_xlabel(words[1], fontsize=PT)
        if not first:
            axes.set_yticklabels([])
        told = [Word(counts[facet])] if has_n else []
        return [*told, Word(words[0] if first else ""), *[Word("")] * extra]

    return draw_facets(width, facets, entries, lay_of, each_panel, words[2], columns_for(facets, narrow))
