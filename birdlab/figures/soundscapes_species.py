"""Average precision of every species: a list with a mark per run, and above hundreds of them a strip of all.

Drawn from the table ``soundscape_classes`` and nothing else. Colours and shapes belong to runs, in the order of the recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.sheet import PT, Entry, Key, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Species up to which all of them are listed, on a wide and on a narrow page.
MOST_LISTED, MOST_LISTED_NARROW = 40, 24
#: With more of them: how many of the best and how many of the last are listed, on a wide and on a narrow page.
N_ENDS, N_ENDS_NARROW = 12, 8
#: Species up to which the strip has a dot for each run and species; with more, the other runs are lines of means of as many stretches.
MOST_DOTS, N_STRETCHES = 80, 40
_PALE = "#C4CBD1"
_BAND = "#F1F3F5"
_BAR_IN, _GAP_IN = 0.34, 0.06
_STRIP_IN, _COUNTS_IN = 1.1, 0.36
_NOTHING = "No species has an average precision."


def tidied(frame: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Rows of the given runs; not-a-number is null, names are text."""
    out = frame.with_columns(
        cs.float().fill_nan(None), cs.by_name("run", "class_id", require_all=False).cast(pl.String)
    )
    return out.filter(pl.col("run").is_in(list(models)))


def lead_of(rows: pl.DataFrame, models: Sequence[str]) -> str | None:
    """The run with the highest mean AP, of equal ones the first of the recipe; None where none has an AP.

    >>> rows = pl.DataFrame({"run": ["a", "b", "b"], "class_id": ["x", "x", "y"], "ap": [0.5, 0.4, 0.8]})
    >>> lead_of(rows, ["a", "b"])
    'b'
    """
    means = dict(rows.drop_nulls("ap").group_by("run").agg(pl.col("ap").mean()).iter_rows())
    found = [m for m in models if m in means]
    return max(found, key=lambda m: means[m]) if found else None


def ordered(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Species, ``class_id``, ``n_rel`` and ``ap``, by the AP of one run, highest first, those without an AP last.

    Of equal ones those heard most stand at the ends: of the perfect ones first, of those that are never found last.
    """
    heard = rows.group_by("class_id").agg(pl.col("n_rel").max())
    own = rows.filter(pl.col("run") == by).select("class_id", "ap").unique("class_id", keep="first")
    weight = pl.when(pl.col("ap").fill_null(0) >= 0.5).then(-pl.col("n_rel")).otherwise(pl.col("n_rel"))
    out = heard.join(own, on="class_id", how="left").with_columns(weight=weight)
    return out.sort("ap", "weight", "class_id", descending=[True, False, False], nulls_last=True).drop("weight")


@dataclass(frozen=True)
class _List:
    """Species of one list, and the words above it."""

    title: str
    names: list[str]
    first: int


@dataclass(frozen=True)
class _Lay:
    """Measures of the lists, inches."""

    left: float
    width: float
    right: float
    row: float
    columns: int
    top: float
    bottom: float = 0.26

    @property
    def each(self) -> float:
        return self.left + self.width + self.right

    def height(self, lists: Sequence[_List]) -> float:
        """Of all lists, side by side or one above the other."""
        tall = [self.top + self.row * len(part.names) + self.bottom for part in lists]
        return max(tall) if self.columns > 1 else sum(tall)


def fig_species(frame: pl.DataFrame, *, models: Sequence[str], run: str | None = None, narrow: bool = False) -> Figure:
    """Average precision of every species, highest first: a mark per run, its tail to the pessimistic value, segments in grey.

    Of more than 40 species (24 on a phone) the best and the last are listed, under a strip of all of them.

    Args:
        frame: table ``soundscape_classes``: ``run``, ``class_id``, ``n_rel``, ``ap`` (null: a short line at 0),
            ``ap_pessimistic`` (null: no tail).
        models: runs in the order of the recipe; those without rows are not drawn.
        run: whose AP species are sorted by; without it the one with the highest mean.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = tidied(frame, models)
    shown = sheet.chosen(rows, models, "run")
    by = run if run in shown else lead_of(rows, shown)
    with style.rc(width):
        if by is None or rows["ap"].drop_nulls().is_empty():
            return sheet.empty(width, _NOTHING)
        order = ordered(rows, by)
        lists = _lists(order, narrow)
        figure = plt.figure(figsize=(width, 3), layout="none")
        lay = _lay(figure, order, lists, len(shown), narrow)
        many = _many(order, narrow)
        key = Key.of(figure, _entries(rows, shown, models), width - 0.2)
        strip = (sheet.top_of(1) + _STRIP_IN + _COUNTS_IN + (0.66 if narrow else 0.42)) if many else 0.0
        height = strip + lay.height(lists) + key.height + 0.08
        used = (
            width
            if many
            else min(width, max(lay.each * lay.columns + 0.12 * (lay.columns - 1), 3.4, key.column * key.columns + 0.2))
        )
        figure.set_size_inches(used, height)
        if many:
            _strip(figure, rows, order, lists, [by, *(m for m in shown if m != by)], models)
        _draw_lists(figure, rows, order, lists, lay, shown, models, height - strip)
        key.draw(figure, 0.1, key.height + 0.02)
    return figure


def _many(order: pl.DataFrame, narrow: bool) -> bool:
    """Whether there are more species than are listed."""
    return order.height > (MOST_LISTED_NARROW if narrow else MOST_LISTED)


def _lists(order: pl.DataFrame, narrow: bool) -> list[_List]:
    names = order["class_id"].to_list()
    if _many(order, narrow):
        n = N_ENDS_NARROW if narrow else N_ENDS
        return [_List(f"the best {n}", names[:n], 0), _List(f"the last {n}", names[-n:], len(names) - n)]
    if narrow or len(names) <= 20:
        return [_List("", names, 0)]
    half = -(-len(names) // 2)
    return [_List("", names[:half], 0), _List("", names[half:], half)]


def _lay(figure: Figure, order: pl.DataFrame, lists: Sequence[_List], n_runs: int, narrow: bool) -> _Lay:
    """Measures: names as wide as they need to be, at most 1.5 in (1.05 on a phone)."""
    width = figure.get_size_inches()[0]
    names = [n for part in lists for n in part.names]
    left = min(1.05 if narrow else 1.5, sheet.widest(figure, names)) + 0.14
    counts = [f"{n:,}" for n in order["n_rel"].drop_nulls()]
    right = (
        max(_GAP_IN + sheet.widest(figure, counts) + _GAP_IN + _BAR_IN, sheet.widest(figure, ["segments"]) + 0.04)
        + 0.08
    )
    columns = 1 if narrow else len(lists)
    each = (width - 0.12 * (columns - 1)) / columns
    room = min(each - left - right, 4.4)
    row = max(0.18, 0.042 * n_runs + 0.09)
    return _Lay(left, room, right, row, columns, top=sheet.top_of(2 if any(p.title for p in lists) else 1))


def _entries(rows: pl.DataFrame, shown: Sequence[str], models: Sequence[str]) -> list[Entry]:
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    out = [
        Entry(m, hues[m].on_light, {"marker": markers[m], "ms": 5, "mfc": hues[m].line, "mec": "white", "mew": 0.5})
        for m in shown
    ]
    gap = rows.filter(pl.col("ap") - pl.col("ap_pessimistic") > 0.005)
    if gap.height:
        out.append(
            Entry("to the pessimistic value", style.INK, {"linestyle": "-", "color": style.SOFT, "linewidth": 1.4})
        )
    if rows["ap"].null_count():
        out.append(Entry("not defined", style.INK, {"marker": "_", "ms": 6, "mec": style.SOFT, "mew": 1.3}))
    out.append(Entry("segments in which it is heard, log scale", style.INK,
                     {"linestyle": "-", "color": _PALE, "linewidth": 4, "solid_capstyle": "butt"}))  # fmt: skip
    return out


# --- lists ------------------------------------------------------------------------------------------------------------


def _draw_lists(
    figure: Figure,
    rows: pl.DataFrame,
    order: pl.DataFrame,
    lists: Sequence[_List],
    lay: _Lay,
    shown: Sequence[str],
    models: Sequence[str],
    top: float,
) -> None:
    """The lists, from ``top`` inches downwards."""
    wide, high = figure.get_size_inches()
    counts = dict(order.select("class_id", "n_rel").iter_rows())
    most = max([1, *(n for n in counts.values() if n)])
    for i, part in enumerate(lists):
        left = lay.left + (i * (lay.each + 0.12) if lay.columns > 1 else 0)
        tall = lay.row * len(part.names)
        top -= lay.top if lay.columns == 1 or i == 0 else 0
        axes = figure.add_axes((left / wide, (top - tall) / high, lay.width / wide, tall / high))
        _marks(axes, rows, part.names, shown, models, lay)
        _segments(axes, [counts[n] for n in part.names], most, lay)
        sheet.write_head(axes, [Word(part.title, style.INK, "bold"), Word("average precision")], left_in=0)
        top -= (tall + lay.bottom) if lay.columns == 1 else 0


def _marks(
    axes: Axes, rows: pl.DataFrame, names: Sequence[str], shown: Sequence[str], models: Sequence[str], lay: _Lay
) -> None:
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    step = min(0.78, 0.042 * (len(shown) - 1) / lay.row) / max(1, len(shown) - 1)
    cells = {
        (r, c): (ap, low)
        for r, c, ap, low in rows.filter(pl.col("class_id").is_in(list(names)))
        .select("run", "class_id", "ap", "ap_pessimistic")
        .iter_rows()
    }
    axes.hlines(range(len(names)), 0, 1, color=style.GRID, linewidth=0.8, zorder=0)
    for i, run in enumerate(shown):
        at = [y + (i - (len(shown) - 1) / 2) * step for y in range(len(names))]
        found = [cells.get((run, n)) for n in names]
        ys = [(y, f) for y, f in zip(at, found, strict=True) if f is not None]
        tails = [(y, ap, low) for y, (ap, low) in ys if ap is not None and low is not None and ap - low > 0.005]
        if tails:
            axes.hlines([t[0] for t in tails], [t[2] for t in tails], [t[1] for t in tails], color=hues[run].line,
                        linewidth=1.3, zorder=2, gid=f"{run} tail")  # fmt: skip
        axes.plot([f[0] for _, f in ys if f[0] is not None], [y for y, f in ys if f[0] is not None], linestyle="none",
                  marker=markers[run], ms=4.6, mfc=hues[run].line, mec="white", mew=0.4, zorder=4 - 0.01 * i, gid=run,
                  clip_on=False)  # fmt: skip
        axes.plot([0.012] * sum(f[0] is None for _, f in ys), [y for y, f in ys if f[0] is None], linestyle="none",
                  marker="_", ms=5, mec=hues[run].line, mew=1.3, zorder=3, gid=f"{run} undefined")  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(len(names) - 0.5, -0.5))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=PT)
    axes.set_yticks(range(len(names)), [sheet.cut(axes.figure, n, lay.left - 0.12) for n in names], fontsize=PT)
    axes.tick_params(axis="y", length=0, labelcolor=style.INK, pad=5)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.vlines([0, 0.5, 1], -0.5, len(names) - 0.5, color=style.GRID, linewidth=0.8, zorder=0)


def _segments(axes: Axes, counts: Sequence[int | None], most: int, lay: _Lay) -> None:
    """How many segments each species is heard in: the number, and a thin bar on a log scale."""
    from math import log10

    end = lay.width + lay.right - 0.08
    from_in = end - _BAR_IN
    for y, n in enumerate(counts):
        axes.annotate("–" if n is None else f"{n:,}", (1, y), (72 * (from_in - _GAP_IN - lay.width), 0),
                      xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", va="center", fontsize=PT,
                      color=style.SOFT, annotation_clip=False)  # fmt: skip
        if n:
            long = _BAR_IN * (0.08 + 0.92 * (log10(n) / log10(most) if most > 1 else 1))
            axes.plot([from_in / lay.width, (from_in + long) / lay.width], [y, y], color=_PALE, linewidth=4,
                      solid_capstyle="butt", transform=axes.get_yaxis_transform(), clip_on=False, gid="segments")  # fmt: skip
    axes.annotate("segments", (1, 1), (72 * (lay.right - 0.08), 4), xycoords="axes fraction", textcoords="offset points",
                  ha="right", va="bottom", fontsize=PT, color=style.SOFT, annotation_clip=False)  # fmt: skip


# --- strip ------------------------------------------------------------------------------------------------------------


def _strip(
    figure: Figure,
    rows: pl.DataFrame,
    order: pl.DataFrame,
    lists: Sequence[_List],
    shown: Sequence[str],
    models: Sequence[str],
) -> None:
    """All species in their order: a dot per run, and under them how many segments each is heard in."""
    wide, high = figure.get_size_inches()
    left, right, top = 0.45, 0.12, sheet.top_of(1)
    n = order.height
    upper = figure.add_axes(
        (left / wide, (high - top - _STRIP_IN) / high, (wide - left - right) / wide, _STRIP_IN / high)
    )
    below = figure.add_axes((left / wide, (high - top - _STRIP_IN - 0.08 - _COUNTS_IN) / high,
                             (wide - left - right) / wide, _COUNTS_IN / high))  # fmt: skip
    each = 1 if n <= MOST_DOTS else -(-n // N_STRETCHES)
    _strip_aps(upper, rows, order, each, shown, models)
    _strip_counts(below, order, each)
    for axes, shift in ((upper, 0.5), (below, 0.0)):
        axes.set_xticks([])
        axes.set_xlim(-shift, n - shift)
        axes.spines["bottom"].set_visible(False)
        for part in lists:
            first = part.first - shift
            axes.axvspan(first, first + len(part.names), color=_BAND, linewidth=0, zorder=0, gid="listed")
    sheet.write_head(upper, [Word(f"average precision, all {n:,} species")])
    segments = "segments" if each == 1 else f"segments, median; steps: {each} species each"
    _axis_words(below, [segments, f"in the order of {shown[0]}", "shaded: listed beneath"])


def _strip_aps(
    axes: Axes, rows: pl.DataFrame, order: pl.DataFrame, each: int, shown: Sequence[str], models: Sequence[str]
) -> None:
    """A dot per species and run; where ``each`` is above 1, the runs after the first are means of so many neighbours."""
    hues = style.model_colours(models)
    found = rows.drop_nulls("ap").join(order.with_row_index("at").select("class_id", "at"), on="class_id")
    for i, run in enumerate(shown):
        part = found.filter(pl.col("run") == run).sort("at")
        about: dict[str, Any] = {"linestyle": "none", "marker": ".", "ms": 2.6 if i else 3.4}
        if i and each > 1:
            means = part.group_by(pl.col("at") // each).agg(middle=pl.col("at").mean(), ap=pl.col("ap").mean())
            part = means.sort("middle").select("ap", at="middle")
            about = {"linestyle": hues[run].dash, "linewidth": 1.4, "drawstyle": "steps-mid", "antialiased": False}
        axes.plot(part["at"], part["ap"], color=hues[run].line, mec="none", zorder=3 - 0.01 * i if i else 4,
                  gid=f"{run} all", clip_on=False, **about)  # fmt: skip
    axes.set_ylim(-0.02, 1.03)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=PT)
    axes.grid(axis="y")


def _strip_counts(axes: Axes, order: pl.DataFrame, each: int) -> None:
    """Segments of a species, or the median of ``each`` neighbours, as bars on a log scale."""
    n = order.height
    sums = order.with_row_index("at").group_by(pl.col("at") // each, maintain_order=True).agg(pl.col("n_rel").median())
    heard = [max(1, v or 1) for v in sums["n_rel"]]
    starts = [i * each for i in range(len(heard))]
    axes.bar(starts, [h - 0.8 for h in heard], [min(each, n - at) for at in starts], bottom=0.8, align="edge", color=_PALE,
             linewidth=0, antialiased=False, gid="segments")  # fmt: skip
    axes.set_yscale("log")
    most = max(heard)
    ticks = [t for t in (1, 10, 100, 1_000, 10_000, 100_000) if t == 1 or t <= most][:: 2 if most >= 100 else 1]
    axes.set_ylim(0.8, 1.15 * max(most, 10))
    axes.minorticks_off()
    axes.set_yticks(ticks, [f"{t:,}" if t < 1_000 else f"{t // 1000:,} k" for t in ticks], fontsize=PT)


def _axis_words(axes: Axes, told: Sequence[str]) -> None:
    """Under the strip: what stands along it, what the shaded ends are, what the steps are; in as many lines as that needs."""
    figure = axes.figure
    room = axes.get_window_extent().width / figure.dpi
    options: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    lines: list[str] = []
    for part in (sheet.cut(figure, t, room) for t in told if t):
        longer = f"{lines[-1]}; {part}" if lines else part
        if lines and sheet.widest(figure, [longer]) <= room:
            lines[-1] = longer
        else:
            lines.append(part)
    for i, line in enumerate(lines):
        axes.annotate(
            line,
            (0, 0),
            (0, -4 - 72 * sheet.LINE_IN * i),
            ha="left",
            va="top",
            fontsize=PT,
            color=style.SOFT,
            **options,
        )
