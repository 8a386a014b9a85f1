"""Figures of the chapter on soundscapes: which run leads, precision and recall by species, what scores are worth.

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
from birdlab.figures.reid_panels import draw_facets, line_entries
from birdlab.figures.sheet import PT, Entry, Key, Lay, Word
from birdlab.figures.soundscapes_panels import fig_audit, fig_instead, fig_when_where
from birdlab.figures.soundscapes_species import fig_species, tidied

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

#: Segments of a species up to which a curve is a few steps, and the species no example.
ENOUGH = 10
#: Heads of the groups of runs.
DIVISIONS = {"automatic": "automatic", "assisted": "assisted by people", "published": "published, other recordings"}
_F = pl.Float64
_VALUES = [f"{m}{s}" for m in ("cmap", "rmap") for s in ("", "_lo", "_hi", "_pessimistic")]
BOARD_FRAME = {"run": pl.String, "division": pl.String, **dict.fromkeys(_VALUES, _F)}
_DASHED = (0, (3, 3))
_ROW_IN, _VALUE_IN = 0.2, 0.36
_N_IN = 0.2  #: height of the bars of n under the calibration, in units of its y axis
_PALE = "#C4CBD1"


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
    ticks = [0, end / 2, end]
    axes.set_xticks(ticks, [f"{t:.2f}".rstrip("0").rstrip(".") or "0" for t in ticks], fontsize=PT)
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


# --- precision and recall ---------------------------------------------------------------------------------------------


def chosen(classes: pl.DataFrame, n: int = 12, *, enough: int = ENOUGH) -> list[str]:
    """Species with the highest and the lowest AP (mean over runs), half of each, highest first.

    Args:
        classes: table ``soundscape_classes``.
        n: how many; fewer where there are fewer.
        enough: segments in which a species is heard, at least; where too few species have so many, those heard most follow.
    """
    rows = classes.with_columns(cs.float().fill_nan(None)).group_by("class_id").agg(pl.col("ap").mean(), pl.col("n_rel").max())
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
    about = about.select("run", "class_id", "n_rel", "ap", at="threshold", at_precision="precision_at", at_recall="recall_at")
    order = pl.DataFrame({"class_id": names}, schema={"class_id": pl.String}).with_row_index("place")
    about = about.join(order, on="class_id", maintain_order="left").sort("place", maintain_order=True).drop("place")
    keys = ["run", "class_id"]
    return about.join(points, on=keys, how="left", maintain_order="left_right").select(*points.columns, *about.drop(keys).columns)


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
        return Lay(each, min(each, 1.45), per_row, 0.36, 0.2, right=0.14, top=sheet.top_of(n_heads + 3), bottom=0.44)

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
        if line.height:
            # The area under steps that reach back from each point is the average precision.
            x, y = [0.0, *line["recall"]], [line["precision"][0], *line["precision"]]
            axes.plot(x, y, color=hues[run].line, linestyle=hues[run].dash, linewidth=1.5, drawstyle="steps-pre",
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
    dot = {"linestyle": "-", "color": style.SOFT, "linewidth": 1.2, "marker": "o", "ms": 5, "mfc": style.SOFT, "mec": "white"}
    entries = [
        Entry("rows of a bin, 95 %", style.INK, dot),
        Entry("score = share right", style.INK, {"linestyle": _DASHED, "color": style.SOFT, "linewidth": 0.9}),
        Entry(f"rows listed, log scale, at most {most:,}", style.INK, bars),
    ]
    return draw_facets(width, panels, entries, lay_of, each_panel, "No run lists a score.", 2 if narrow else 4, hues=hues)


def _bins(axes: Axes, part: pl.DataFrame, hue: style.Hue, most: int) -> None:
    axes.plot([0, 1], [0, 1], color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=1, gid="equal")
    for r in part.iter_rows(named=True):
        high = 0.85 * _N_IN * math.log1p(r["n"]) / math.log1p(most)
        axes.bar((r["lo"] + r["hi"]) / 2, high, 0.9 * (r["hi"] - r["lo"]), bottom=-_N_IN - 0.04, color=_PALE,
                 linewidth=0, gid="n")  # fmt: skip
        if r["share_lo"] is not None and r["share_hi"] is not None:
            axes.plot([r["mean_score"]] * 2, [r["share_lo"], r["share_hi"]], color=hue.line, linewidth=1.2, zorder=2,
                      gid="interval")  # fmt: skip
    axes.plot(part["mean_score"], part["share_right"], "o", ms=5, mfc=hue.line, mec="white", mew=0.5, zorder=3, gid="bins")
    axes.set(xlim=(-0.03, 1.03), ylim=(-_N_IN - 0.05, 1.04))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=PT)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"], fontsize=PT)
    axes.grid(axis="both")
