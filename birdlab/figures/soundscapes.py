"""Figures of the chapter on soundscapes: which run leads; and those of species, curves, and maps.

Drawn from saved tables and nothing else. Colours belong to runs, in the order of the recipe; what is published is grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.sheet import PT, Entry, Lay, Word
from birdlab.figures.soundscapes_curves import chosen, fig_calibration, fig_pr, pr_frame
from birdlab.figures.soundscapes_panels import fig_audit, fig_instead, fig_when_where
from birdlab.figures.soundscapes_species import fig_species

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "board_frame",
    "chosen",
    "fig_audit",
    "fig_board",
    "fig_calibration",
    "fig_instead",
    "fig_pr",
    "fig_species",
    "fig_when_where",
    "pr_frame",
]

#: Heads of the groups of runs.
DIVISIONS = {"automatic": "automatic", "assisted": "assisted by people", "published": "published, other recordings"}
_F = pl.Float64
_VALUES = [f"{m}{s}" for m in ("cmap", "rmap") for s in ("", "_lo", "_hi", "_pessimistic")]
BOARD_FRAME = {"run": pl.String, "division": pl.String, **dict.fromkeys(_VALUES, _F)}
_ROW_IN, _VALUE_IN = 0.2, 0.36


# --- board ------------------------------------------------------------------------------------------------------------


def board_frame(board: pl.DataFrame, scores: pl.DataFrame, metrics: pl.DataFrame) -> pl.DataFrame:
    """Runs in their order on the board, then published ones, of :func:`fig_board`.

    Args:
        board: table ``soundscape_board``.
        scores: table ``soundscape_scores``.
        metrics: table ``metrics_soundscapes``, for its published rows of c-mAP and r-mAP.

    Returns:
        ``run``, ``division`` (automatic, assisted, published), and of c-mAP and r-mAP the value, ``_lo``, ``_hi``,
        ``_pessimistic``.
    """
    own = board.select("run", "division").join(
        scores.select("run", *_VALUES), on="run", how="left", maintain_order="left"
    )
    parts = [own]
    if metrics.height:
        printed = metrics.filter(pl.col("published").is_not_null() & pl.col("metric").is_in(["cmap", "rmap"]))
        wide: dict[str, dict[str, Any]] = {}
        for r in printed.iter_rows(named=True):
            wide.setdefault(r["model"], {"run": r["model"], "division": "published"})[r["metric"]] = r["published"]
        parts.append(pl.DataFrame([{c: r.get(c) for c in BOARD_FRAME} for r in wide.values()], schema=BOARD_FRAME))
    return pl.concat([p.select(pl.col(c).cast(t) for c, t in BOARD_FRAME.items()) for p in parts])


class _Row(NamedTuple):
    """A line of the board: the head of a group, or a run."""

    head: str
    run: dict[str, Any] | None


def fig_board(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """c-mAP and r-mAP of every run: filled official with 95 %, open pessimistic; automatic and assisted runs apart.

    What is published is grey, with a dotted line through its c-mAP or r-mAP; it is of other recordings.

    Args:
        frame: of :func:`board_frame`; a null value is a dash, a null interval or pessimistic value is not drawn.
        models: runs in the order of the recipe; those that are not among them are not drawn.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = frame.with_columns(cs.float().fill_nan(None))
    rows = rows.filter((pl.col("division") == "published") | pl.col("run").is_in(list(models)))
    with style.rc(width):
        own = rows.filter(pl.col("division") != "published")
        if own["cmap"].drop_nulls().is_empty() and own["rmap"].drop_nulls().is_empty():
            return sheet.empty(width, "No run has a score.")
        lines = _board_lines(rows)
        figure = plt.figure(figsize=(width, 3), layout="none")
        names = [line.run["run"] for line in lines if line.run]
        left = min(1.1 if narrow else 2.1, sheet.widest(figure, names)) + 0.14
        each = (width - left - 0.16 - _VALUE_IN) if narrow else (width - left - 2 * _VALUE_IN - 0.36) / 2
        per_row = 1 if narrow else 2
        draft = Lay(min(each, 3.2), _ROW_IN * len(lines), per_row, left, _VALUE_IN + 0.2, right=_VALUE_IN + 0.1,
                    top=sheet.top_of(1), bottom=0.3)  # fmt: skip
        lay, key = draft.keyed(figure, _board_entries(rows), 2)
        end = _end(rows.select(*_VALUES).max_horizontal().max() or 0.0)
        for i, (axes, metric) in enumerate(zip(lay.place(figure, 2), ("cmap", "rmap"), strict=True)):
            named = narrow or i == 0
            _board(axes, lines, metric, end, models)
            _board_names(axes, lines, models, left - 0.12 if named else None)
            sheet.write_head(axes, [Word("c-mAP" if metric == "cmap" else "r-mAP", style.INK, "bold")])
        key.draw(figure, 0.1, lay.foot)
    return figure


def _board_lines(rows: pl.DataFrame) -> list[_Row]:
    """Runs by group, each group with a head where there are several."""
    found = rows["division"].unique().to_list()
    groups = [g for g in DIVISIONS if g in found] + sorted(g for g in found if g not in DIVISIONS)
    out = []
    for group in groups:
        if len(groups) > 1:
            out.append(_Row(DIVISIONS.get(group, group), None))
        out += [_Row("", r) for r in rows.filter(pl.col("division") == group).iter_rows(named=True)]
    return out


def _end(most: float) -> float:
    """End of the axis: the next tenth.

    >>> _end(0.31), _end(0.97), _end(0.0)
    (0.4, 1.0, 0.1)
    """
    return min(1.0, max(1, math.ceil(10 * most + 0.1)) / 10)


def _board_entries(rows: pl.DataFrame) -> list[Entry]:
    line = {"linestyle": "-", "color": style.SOFT, "linewidth": 1.2}
    dot = {"marker": "o", "ms": 5, "mec": style.SOFT, "mew": 1.1}
    out = [Entry("official rule, 95 %" if rows["cmap_lo"].drop_nulls().len() else "official rule", style.INK,
                 {**(line if rows["cmap_lo"].drop_nulls().len() else {}), **dot, "mfc": style.SOFT})]  # fmt: skip
    if rows["cmap_pessimistic"].drop_nulls().len():
        out.append(Entry("pessimistic", style.INK, {**dot, "mfc": "white"}))
    if rows.filter(pl.col("division") == "published").height:
        out.append(Entry("published", style.INK, {"marker": "D", "ms": 4.2, "mfc": style.EDGE, "mec": style.EDGE}))
    return out


def _board(axes: Axes, lines: Sequence[_Row], metric: str, end: float, models: Sequence[str]) -> None:
    hues = style.model_colours(models)
    axes.set(xlim=(0, end), ylim=(len(lines) - 0.5, -0.5))
    for y, line in enumerate(lines):
        if line.run is None:
            continue
        r, printed = line.run, line.run["division"] == "published"
        hue = style.NEUTRAL if printed else hues[r["run"]]
        value, low = r[metric], r[f"{metric}_pessimistic"]
        _value(axes, y, "–" if value is None else f"{value:.3f}", hue.on_light)
        if value is None:
            continue
        if printed:
            axes.axvline(value, color=style.EDGE, linewidth=0.9, linestyle=(0, (1, 1.6)), zorder=1, gid="published")
            axes.plot(value, y, "D", ms=4.2, mfc=style.EDGE, mec=style.EDGE, zorder=4, gid=r["run"], clip_on=False)
            continue
        if r[f"{metric}_lo"] is not None and r[f"{metric}_hi"] is not None:
            axes.plot([r[f"{metric}_lo"], r[f"{metric}_hi"]], [y, y], color=hue.line, linewidth=1.3, zorder=2,
                      gid=f"{r['run']} interval", solid_capstyle="butt")  # fmt: skip
        if low is not None:
            axes.plot(low, y, "o", ms=5, mfc="white", mec=hue.line, mew=1.1, zorder=3, gid=f"{r['run']} pessimistic",
                      clip_on=False)  # fmt: skip
        axes.plot(value, y, "o", ms=5, mfc=hue.line, mec=hue.line, mew=1.1, zorder=4, gid=r["run"], clip_on=False)
    step = 0.2 if end > 0.5 else 0.1
    ticks = [t for t in (step * i for i in range(11)) if t <= end + 1e-9]
    axes.set_xticks(ticks, [f"{t:.1f}" if t else "0" for t in ticks], fontsize=PT)
    axes.vlines(ticks, -0.5, len(lines) - 0.5, color=style.GRID, linewidth=0.8, zorder=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _value(axes: Axes, y: float, text: str, colour: str) -> None:
    axes.annotate(text, (1, y), (72 * (_VALUE_IN + 0.03), 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                  ha="right", va="center", fontsize=PT, color=colour, annotation_clip=False)  # fmt: skip


def _board_names(axes: Axes, lines: Sequence[_Row], models: Sequence[str], room: float | None) -> None:
    """Names of runs in their colours, heads of groups in grey at the left; ``room`` of None leaves them out."""
    hues = style.model_colours(models)
    axes.set_yticks([])
    if room is None:
        return
    for y, line in enumerate(lines):
        if line.run is None:
            axes.annotate(line.head, (0, y), (-72 * room, -1), xycoords=("axes fraction", "data"),
                          textcoords="offset points", va="center", fontsize=PT, color=style.SOFT,
                          annotation_clip=False)  # fmt: skip
            continue
        hue = style.NEUTRAL if line.run["division"] == "published" else hues[line.run["run"]]
        axes.annotate(sheet.cut(axes.figure, line.run["run"], room), (0, y), (-7, 0), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", va="center", fontsize=PT, color=hue.on_light,
                      annotation_clip=False)  # fmt: skip
