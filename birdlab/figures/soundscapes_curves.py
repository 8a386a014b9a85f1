"""Figures of soundscapes by score: precision and recall of chosen species, and what scores are worth.

Drawn from saved tables and nothing else. Colours belong to runs, in the order of the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.reid_panels import draw_facets, line_entries
from birdlab.figures.sheet import PT, Entry, Lay, Word
from birdlab.figures.soundscapes_species import tidied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Segments of a species up to which a curve is a few steps, and the species no example.
ENOUGH = 10
_DASHED = (0, (3, 3))
_N_IN = 0.2  #: height of the bars of n under the calibration, in units of its y axis
_PALE = "#C4CBD1"


# --- precision and recall ---------------------------------------------------------------------------------------------


def chosen(classes: pl.DataFrame, n: int = 12, *, enough: int = ENOUGH) -> list[str]:
    """Species with the highest and the lowest AP (mean over runs), half of each, highest first.

    Args:
        classes: table ``soundscape_classes``.
        n: how many; fewer where there are fewer.
        enough: segments in which a species is heard, at least; where too few species have so many, those heard most follow.
    """
    rows = (
        classes.with_columns(cs.float().fill_nan(None))
        .group_by("class_id")
        .agg(pl.col("ap").mean(), pl.col("n_rel").max())
    )
    rows = rows.drop_nulls("ap").sort("ap", "n_rel", "class_id", descending=[True, True, False])
    many = rows.filter(pl.col("n_rel") >= enough)
    if many.height < n:
        rest = rows.filter(pl.col("n_rel") < enough).sort("n_rel", "class_id", descending=[True, False])
        kept = pl.concat([many, rest.head(n - many.height)])
        return kept.sort("ap", "n_rel", "class_id", descending=[True, True, False])["class_id"].to_list()
    names = many["class_id"].to_list()
    half = n - n // 2
    return [*names[:half], *(names[-(n - half) :] if n > half else [])]


def pr_frame(points: pl.DataFrame, classes: pl.DataFrame, *, n: int = 12, enough: int = ENOUGH) -> pl.DataFrame:
    """What :func:`fig_pr` draws: the points of the species of :func:`chosen`, in that order, with AP and threshold of each.

    Args:
        points: table ``soundscape_pr``.
        classes: table ``soundscape_classes``.
    """
    names = chosen(classes, n, enough=enough)
    about = classes.filter(pl.col("class_id").is_in(names))
    about = about.select(
        "run", "class_id", "n_rel", "ap", at="threshold", at_precision="precision_at", at_recall="recall_at"
    )
    order = pl.DataFrame({"class_id": names}, schema={"class_id": pl.String}).with_row_index("place")
    about = about.join(order, on="class_id", maintain_order="left").sort("place", maintain_order=True).drop("place")
    keys = ["run", "class_id"]
    return about.join(points, on=keys, how="left", maintain_order="left_right").select(
        *points.columns, *about.drop(keys).columns
    )


class _Panel(NamedTuple):
    """A species or a run."""

    name: str
    title: str
    model: str = ""


def fig_pr(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Precision against recall, a panel per species, a line per run; the point is the threshold with the target precision.

    Args:
        frame: of :func:`pr_frame`; a species without a point of any run has an empty panel.
        models: runs in the order of the recipe.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = tidied(frame, models)
    shown = sheet.chosen(rows, models, "run")
    names = rows["class_id"].unique(maintain_order=True).to_list()
    panels = [_Panel(n, n) for n in names] if rows.drop_nulls(["precision", "recall"]).height else []

    def lay_of(each: float, per_row: int, n_heads: int) -> Lay:
        return Lay(
            each,
            min(each, 1.1 if narrow else 1.45),
            per_row,
            0.36,
            0.2,
            right=0.14,
            top=sheet.top_of(n_heads + 3),
            bottom=0.44,
        )

    def each_panel(axes: Axes, panel: _Panel, *, first: bool) -> list[Word]:
        part = rows.filter(pl.col("class_id") == panel.name)
        _curves(axes, part, shown, models)
        if not first:
            axes.set_yticklabels([])
        heard = part["n_rel"].drop_nulls()
        _aps(axes, part, shown, models)
        axes.set_xlabel("recall", fontsize=PT)
        told = f"heard in {int(heard.max()):,}" if len(heard) else ""
        return [Word(told), Word(""), Word("precision" if first else "")]

    entries = line_entries(shown, models, marked=False)
    if rows["at_recall"].drop_nulls().len():
        entries.append(Entry("the threshold with the target precision", style.INK, {
            "marker": "o", "ms": 5.2, "mfc": style.SOFT, "mec": "white", "mew": 0.7}))  # fmt: skip
    nothing = "No run lists a species that is heard."
    return draw_facets(width, panels, entries, lay_of, each_panel, nothing, 2 if narrow else 4)


def _curves(axes: Axes, part: pl.DataFrame, shown: Sequence[str], models: Sequence[str]) -> None:
    hues = style.model_colours(models)
    for i, run in enumerate(shown):
        rows = part.filter(pl.col("run") == run)
        line = rows.drop_nulls(["precision", "recall"]).sort("recall", maintain_order=True)
        # Thresholds above that of the first hit find nothing: they have no width.
        line = line.filter(pl.col("recall") > 0) if (line["recall"] > 0).any() else line
        if line.height:
            # Steps that reach back from each point: their area is the average precision of whole thresholds.
            x, y = [0.0, *line["recall"]], [line["precision"][0], *line["precision"]]
            axes.plot(x, y, color=hues[run].line, linestyle=hues[run].dash, linewidth=1.4, drawstyle="steps-pre",
                      antialiased=False, zorder=3 - 0.01 * i, gid=run, clip_on=False)  # fmt: skip
        mark = rows.drop_nulls(["at_recall", "at_precision"]).head(1)
        if mark.height:
            axes.plot(mark["at_recall"], mark["at_precision"], "o", ms=5.2, mfc=hues[run].line, mec="white", mew=0.7, zorder=4,
                      gid=f"{run} at", clip_on=False)  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.set_xticks([0, 0.5, 1], ["0", "", "1"], fontsize=PT)
    axes.set_yticks([0, 0.5, 1], ["0", "", "1"], fontsize=PT)
    axes.grid(axis="both")


def _aps(axes: Axes, part: pl.DataFrame, shown: Sequence[str], models: Sequence[str]) -> None:
    """Above the panel: AP of each run in its colour, as far as there is room."""
    hues = style.model_colours(models)
    values = dict(part.group_by("run").agg(pl.col("ap").first()).iter_rows())
    room = axes.get_window_extent().width / axes.figure.dpi + 0.1
    at = 0.0
    for text, colour in [("AP", style.SOFT), *((_hundredths(values.get(r)), hues[r].on_light) for r in shown)]:
        wide = sheet.widest(axes.figure, [text]) + 0.02
        if at + wide > room:
            break
        axes.annotate(text, (0, 1), (72 * at, 4 + 72 * sheet.LINE_IN), xycoords="axes fraction", textcoords="offset points", va="bottom",
                      fontsize=PT, color=colour, annotation_clip=False)  # fmt: skip
        at += wide + 0.04


def _hundredths(value: float | None) -> str:
    """
    >>> _hundredths(0.5), _hundredths(1.0), _hundredths(None)
    ('.50', '1', '–')
    """
    return "–" if value is None else "1" if round(value, 2) >= 1 else f"{value:.2f}".lstrip("0")


# --- calibration ------------------------------------------------------------------------------------------------------


def fig_calibration(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Share of listed rows that are right against their score, a panel per run, with 95 %; grey bars: rows, log scale.

    On the dashed line a score is the share that is right.

    Args:
        frame: table ``soundscape_calibration``: ``run``, ``lo``, ``hi``, ``n``, ``mean_score``, ``share_right`` (null: not
            drawn), ``share_lo``, ``share_hi`` (null: no line).
        models: runs in the order of the recipe.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = tidied(frame, models).drop_nulls(["mean_score", "share_right"])
    hues = style.model_colours(models)
    panels = [_Panel(m, m, m) for m in sheet.chosen(rows, models, "run")]
    most = int(rows["n"].max() or 1)
    per_row = 2 if narrow else math.ceil(len(panels) / max(1, math.ceil(len(panels) / 4))) or 1

    def lay_of(each: float, per_row: int, n_heads: int) -> Lay:
        return Lay(each, min(each, 1.8), per_row, 0.45, 0.2, right=0.2, top=sheet.top_of(n_heads + 2), bottom=0.44)

    def each_panel(axes: Axes, panel: _Panel, *, first: bool) -> list[Word]:
        part = rows.filter(pl.col("run") == panel.name).sort("lo")
        _bins(axes, part, hues[panel.name], most)
        axes.set_xlabel("score", fontsize=PT)
        if not first:
            axes.set_yticklabels([])
        n = int(part["n"].sum())
        ece = part.select((pl.col("n") * (pl.col("mean_score") - pl.col("share_right")).abs()).sum()).item() / max(1, n)
        return [Word(f"ECE {ece:.3f}"), Word("right" if first else "")]

    bars = {"linestyle": "-", "color": _PALE, "linewidth": 6, "solid_capstyle": "butt"}
    dot = {
        "linestyle": "-",
        "color": style.SOFT,
        "linewidth": 1.2,
        "marker": "o",
        "ms": 5,
        "mfc": style.SOFT,
        "mec": "white",
    }
    entries = [
        Entry("rows of a bin, 95 %", style.INK, dot),
        Entry("score = share right", style.INK, {"linestyle": _DASHED, "color": style.SOFT, "linewidth": 0.9}),
        Entry(f"rows listed, log scale, at most {most:,}", style.INK, bars),
    ]
    return draw_facets(width, panels, entries, lay_of, each_panel, "No run lists a score.", per_row, hues=hues)


def _bins(axes: Axes, part: pl.DataFrame, hue: style.Hue, most: int) -> None:
    axes.plot([0, 1], [0, 1], color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=1, gid="equal")
    for r in part.iter_rows(named=True):
        high = 0.85 * _N_IN * math.log1p(r["n"]) / math.log1p(most)
        axes.bar((r["lo"] + r["hi"]) / 2, high, 0.9 * (r["hi"] - r["lo"]), bottom=-_N_IN - 0.04, color=_PALE,
                 linewidth=0, gid="n")  # fmt: skip
        if r["share_lo"] is not None and r["share_hi"] is not None:
            axes.plot([r["mean_score"]] * 2, [r["share_lo"], r["share_hi"]], color=hue.line, linewidth=1.2, zorder=2,
                      gid="interval")  # fmt: skip
    axes.plot(
        part["mean_score"], part["share_right"], "o", ms=5, mfc=hue.line, mec="white", mew=0.5, zorder=3, gid="bins"
    )
    axes.set(xlim=(-0.03, 1.03), ylim=(-_N_IN - 0.05, 1.04))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=PT)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"], fontsize=PT)
    axes.grid(axis="both")
