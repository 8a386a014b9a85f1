"""Scores against errors: a task metric beside the biological error, names drawn at random, F1 by tolerance in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style
from birdlab.figures import placing, sheet
from birdlab.figures.placing import Box
from birdlab.figures.sheet import HUMAN, PT, Entry, Key, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How metrics and measures are written; others by their own name.
WORDS = {
    "frame_accuracy": "boxes with the right bird",
    "track_accuracy": "visits with the right bird",
    "feeding_f1": "F1 of pecks, 1 s",
    "hota": "HOTA",
    "idf1": "IDF1",
    "mota": "MOTA",
    "deta": "DetA",
    "assa": "AssA",
    "pecks_per_min": "error of feeding rates, pecks per minute",
    "feeding_rate": "error of feeding rates, pecks per minute",
    "feeding_rate_mean_abs_error": "error of feeding rates, pecks per minute",
    "feeding_rate_r": "r of feeding rates",
    "co_occurrence_frac": "error of time together, share of the video",
    "co_occurrence": "error of time together, share of the video",
    "co_occurrence_mean_abs_error": "error of time together, share of the video",
    "co_occurrence_r": "r of time together",
}
RANDOM = "random"
#: Levels that are no combination: how they are written and dashed.
LEVELS = {
    HUMAN: ("a person", (0, (6, 2))),
    "mean_rate": ("mean rate", (0, (3, 2))),
    "mean_rate_oracle": ("true mean rate", (0, (3, 2, 1, 2))),
    "always_present": ("always there", (0, (1, 1.4))),
    RANDOM: ("random names", (0, (1.5, 2.5))),
}
_BAND = "#E6E9EC"
_ROW_IN = 0.42  #: a distribution
_N_BINS = 24


def words_of(name: str) -> str:
    """A metric's name in words.

    >>> words_of("hota"), words_of("my_metric")
    ('HOTA', 'my metric')
    """
    return WORDS.get(name, name.replace("_", " "))


def fig_task_against_biology(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """A task metric against the mean error of a biological number: a point per combination, numbered as in the key.

    Dashed lines are levels without a task metric: a person, the mean rate; the band holds 95 % of draws of random names. Lower
    is better, and further right is a better score.

    Args:
        frame: ``task`` (name of the metric; null in rows of levels), ``measure``, ``combination`` (or a key of
            :data:`LEVELS`), ``value`` of the task metric (null for levels), ``error``, ``lo`` and ``hi`` (ends of the band of
            ``random``, else null). A combination with a null in value or error is not drawn; the key says so.
        models: combinations in the order of their colours and numbers.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        points = _finite(frame.filter(pl.col("combination").is_in(list(models))), "value", "error")
        if points.is_empty():
            return sheet.empty(width, "No combination has both a score and an error.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        panels = [(m, t) for m in points["measure"].unique(maintain_order=True)
                  for t in points.filter(pl.col("measure") == m)["task"].unique(maintain_order=True)]  # fmt: skip
        levels = {m: _levels(frame.filter(pl.col("measure") == m)) for m, _ in panels}
        margin = sheet.widest(figure, [name for part in levels.values() for name, *_ in part]) + 0.16
        n_tasks = max(sum(1 for other, _ in panels if other == m) for m, _ in panels)
        per_row = 1 if narrow else min(3, n_tasks)
        side = sheet.fitted(width - 0.5 - margin, per_row, most=3.4, between=0.3, per_row=per_row)
        numbers = {name: i + 1 for i, name in enumerate(models)}
        entries = _combinations(sheet.chosen(frame, models), set(points["combination"]), models, numbers)
        lay = Lay(side, min(side, 2.3), per_row, 0.5, 0.3, right=margin, top=sheet.top_of(2), bottom=0.44)
        lay, key = lay.keyed(figure, entries, per_row)
        slots = _slots(panels, per_row)
        placed = lay.place(figure, len(slots))
        for axes, slot in zip(placed, slots, strict=True):
            if slot is None:
                axes.remove()
                continue
            (measure, task), first, last = slot
            part = points.filter((pl.col("measure") == measure) & (pl.col("task") == task))
            limits = _error_limits(points.filter(pl.col("measure") == measure), levels[measure])
            _scatter(axes, part, levels[measure], limits, models, named=last)
            lines = (
                sheet.wrapped(figure, words_of(measure), width - 0.4 if narrow else side * per_row)[:2] if first else []
            )
            sheet.write_head(axes, [Word(t) for t in lines], left_in=0.3)
            axes.set_xlabel(words_of(task), fontsize=PT)
            if not first:
                axes.set_yticklabels([])
        key.draw(figure, 0.1, lay.foot)
    return figure


def fig_random(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """What names drawn at random reach, as a distribution per tracker and behaviour model, and what the combinations reach.

    Grey: the draws, a bar under them from their 2.5th to their 97.5th percentile and a tick at the median. Coloured: the
    combinations with that tracker and model.

    Args:
        frame: ``metric``, ``group`` (tracker and behaviour model; optional), ``combination`` (null or ``random`` in rows of
            draws), ``value``; rows with a null value are not drawn.
        models: combinations in the order of their colours.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = frame if "group" in frame.columns else frame.with_columns(group=pl.lit(""))
        rows = _finite(rows, "value").with_columns(pl.col("combination").fill_null(RANDOM))
        rows = rows.filter(pl.col("combination").is_in([RANDOM, *models]))
        if rows.filter(pl.col("combination") == RANDOM).is_empty():
            return sheet.empty(width, "No draw of random names has a value.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        metrics = rows["metric"].unique(maintain_order=True).to_list()
        groups = rows["group"].fill_null("").unique(maintain_order=True).to_list()
        per_row = 1 if narrow else min(3, len(metrics))
        lines = {g: sheet.broken(figure, g, 0.9 if narrow else 1.3) for g in groups}
        left = sheet.widest(figure, [t for part in lines.values() for t in part]) + 0.16
        each = sheet.fitted(width - left - 0.16, len(metrics), most=4.2, between=0.24, per_row=per_row)
        shown = sheet.chosen(rows, models)
        hues, markers = style.model_colours(models), sheet.marker_of(models)
        entries = [_DRAWS, *(Entry(m, hues[m].on_light, _dot(hues[m], markers[m])) for m in shown)]
        titles = {m: sheet.wrapped(figure, words_of(m), each)[:3] for m in metrics}
        high = max(_ROW_IN, max(len(v) for v in lines.values()) * sheet.LINE_IN + 0.06) * len(groups)
        lay = Lay(each, high, per_row, left, 0.24, top=sheet.top_of(max(map(len, titles.values()))), bottom=0.3)
        lay, key = lay.keyed(figure, entries, len(metrics))
        for i, (axes, metric) in enumerate(zip(lay.place(figure, len(metrics)), metrics, strict=True)):
            _distributions(axes, rows.filter(pl.col("metric") == metric), groups, models)
            names = ["\n".join(lines[g]) for g in groups] if i % per_row == 0 else [""] * len(groups)
            axes.set_yticks(range(len(groups)), names)
            sheet.write_head(axes, [Word(t, style.INK, "bold") for t in titles[metric]])
        key.draw(figure, 0.1, lay.foot)
    return figure


def fig_tolerance(frame: pl.DataFrame, *, models: Sequence[str] = (), narrow: bool = False) -> Figure:
    """F1 of single pecks by how far apart in time two of them may lie, as coded and with the estimated shift taken out.

    Args:
        frame: ``source`` (a combination, or ``human``), ``tolerance_s``, ``f1`` (null: not drawn), ``corrected``.
        models: combinations in the order of their colours; sources that are not among them get the next colours.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        known = _finite(frame, "tolerance_s", "f1")
        sources = known["source"].unique(maintain_order=True).to_list()
        if not sources:
            return sheet.empty(width, "No peck on either side: F1 is not defined.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        hues = style.model_colours([*models, *(s for s in sources if s not in models and s != HUMAN)])
        hues[HUMAN] = style.Hue(style.INK, style.INK, "#E6E8EA", "hue-none")
        # Colours come round after seven: from there on lines have points too.
        again = {
            s: m if i >= len(style.HUES) and s != HUMAN else ""
            for i, (s, m) in enumerate(sheet.marker_of(list(hues)).items())
        }
        entries = [Entry("a person" if s == HUMAN else s, hues[s].on_light,
                         {"linestyle": "-", "color": hues[s].line, "linewidth": 1.8, "marker": again[s], "ms": 4}) for s in sources]  # fmt: skip
        is_two = known["corrected"].any() and not known["corrected"].all()
        if is_two:
            grey = {"color": style.SOFT, "linewidth": 1.4}
            entries += [Entry("as coded", style.INK, {"linestyle": (0, (3, 2)), **grey}),
                        Entry("shift taken out", style.INK, {"linestyle": "-", **grey})]  # fmt: skip
        size = 2.85 if narrow else 4.6
        key = Key.of(figure, entries, width - 0.2 if narrow else width - size - 0.74, one_column=True)
        lay = Lay(size, 2.2 if narrow else 2.6, 1, 0.42, right=0.13 if narrow else 0.3 + key.column,
                  top=sheet.top_of(1), bottom=0.44, foot=key.height + 0.04 if narrow else 0.0)  # fmt: skip
        (axes,) = lay.place(figure, 1)
        for source in sources:
            for corrected in (False, True):
                line = known.filter((pl.col("source") == source) & (pl.col("corrected") == corrected)).sort(
                    "tolerance_s"
                )
                if line.height:
                    solid = corrected or not is_two
                    axes.plot(line["tolerance_s"], line["f1"], color=hues[source].line, linewidth=1.8 if solid else 1.3,
                              linestyle="-" if solid else (0, (3, 2)), marker="o" if line.height == 1 else again[source], markevery=5, ms=4,
                              gid=f"{source} {'corrected' if corrected else 'coded'}")  # fmt: skip
        axes.set(xlim=(0, known["tolerance_s"].max() or 1.0), ylim=(0, 1.02))
        axes.set_xlabel("how far apart two pecks may lie, s", fontsize=PT)
        axes.grid(axis="y")
        sheet.write_head(axes, [Word("F1")])
        high = figure.get_size_inches()[1]
        key.draw(figure, *((0.1, lay.foot) if narrow else (lay.left + size + 0.2, high - lay.top)))
    return figure


# --- scores against errors --------------------------------------------------------------------------------------------

Level = tuple[str, float | None, float | None, float | None, Any]
_DRAWS = Entry(
    "names drawn at random", style.INK, {"linestyle": "-", "color": "#C4CBD1", "linewidth": 6, "solid_capstyle": "butt"}
)


def _finite(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    frame = frame.with_columns(pl.col(columns).cast(pl.Float64))
    return frame.filter(pl.all_horizontal(pl.col(columns).is_finite()))


def _dot(hue: style.Hue, marker: str) -> dict[str, Any]:
    return {"marker": marker, "ms": 5.5, "mfc": hue.line, "mec": "white", "mew": 0.5}


def _combinations(names: Sequence[str], drawn: set[str], models: Sequence[str], numbers: dict[str, int]) -> list[Entry]:
    hues, markers, out = style.model_colours(models), sheet.marker_of(models), []
    for name in names:
        missing = "" if name in drawn else " (undefined)"
        out.append(Entry(f"{numbers[name]}  {name}{missing}", hues[name].on_light, _dot(hues[name], markers[name])))
    return out


def _levels(rows: pl.DataFrame) -> list[Level]:
    """Name, error, ends of the band and dashes of everything that has no task metric."""
    out: list[Level] = []
    rows = rows.filter(pl.col("combination").is_in(list(LEVELS)))
    for r in rows.unique("combination", keep="first", maintain_order=True).iter_rows(named=True):
        ends = [r.get("lo"), r.get("hi")]
        if r["error"] is not None or None not in ends:
            name, dash = LEVELS[r["combination"]]
            out.append((name, r["error"], *(ends if r["combination"] == RANDOM else (None, None)), dash))
    return out


def _slots(panels: list[tuple[str, str]], per_row: int) -> list[tuple[tuple[str, str], bool, bool] | None]:
    """Panels in rows that hold one measure each, with who is first and last of a row; ``None`` is an empty place."""
    out: list[tuple[tuple[str, str], bool, bool] | None] = []
    measures = list(dict.fromkeys(m for m, _ in panels))
    for measure in measures:
        mine = [p for p in panels if p[0] == measure]
        for start in range(0, len(mine), per_row):
            row = mine[start : start + per_row]
            out += [(p, i == 0, i == len(row) - 1) for i, p in enumerate(row)]
            out += [None] * (per_row - len(row))
    while out and out[-1] is None:
        out.pop()
    return out


def _error_limits(points: pl.DataFrame, levels: Sequence[Level]) -> tuple[float, float]:
    """From 0 to the worst combination or level; a level beyond twice the worst combination is not followed."""
    worst = points["error"].max()
    reach = [v for _, error, lo, hi, _ in levels for v in (error, hi, lo) if v is not None and v <= 2 * worst]
    return 0.0, 1.08 * max([worst, *reach]) or 1.0


def _scatter(
    axes: Axes,
    part: pl.DataFrame,
    levels: Sequence[Level],
    limits: tuple[float, float],
    models: Sequence[str],
    *,
    named: bool,
) -> None:
    from matplotlib.ticker import MaxNLocator

    lowest, highest = float(part["value"].min()), float(part["value"].max())
    edge = 0.14 * (highest - lowest) or 0.05
    axes.set(xlim=(lowest - edge, highest + edge), ylim=limits)
    for name, error, lo, hi, dash in levels:
        if lo is not None and hi is not None:
            axes.axhspan(lo, hi, color=_BAND, linewidth=0, zorder=0, gid=f"{name} band")
        if error is not None:
            axes.axhline(error, color=style.SOFT, linewidth=1.0, linestyle=dash, zorder=1, gid=name)
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    for r in part.iter_rows(named=True):
        c = r["combination"]
        axes.plot(r["value"], r["error"], linestyle="none", **_dot(hues[c], markers[c]), zorder=4, gid=c)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y")
    _number(axes, part, {name: i + 1 for i, name in enumerate(models)}, hues)
    if named:
        _name_levels(axes, levels, limits)


def _number(axes: Axes, part: pl.DataFrame, numbers: dict[str, int], hues: dict[str, style.Hue]) -> None:
    """The number of each combination beside its point; none where there is no room."""
    figure, span = axes.figure, axes.get_window_extent()
    width, height = span.width / figure.dpi, span.height / figure.dpi
    at = {c: tuple((axes.transData.transform((v, e)) - (span.x0, span.y0)) / figure.dpi)
          for c, v, e in part.select("combination", "value", "error").iter_rows()}  # fmt: skip
    around = [(x + dx, y + dy) for x, y in at.values() for dx in (-0.04, 0, 0.04) for dy in (-0.04, 0, 0.04)]
    taken: list[Box] = []
    for name, point in at.items():
        text = str(numbers[name])
        size = placing.measure(figure, text, fontsize=PT, fontweight="semibold")
        box = placing.beside(size, point, np.asarray(around), taken, Box(0, 0, width, height), gaps=(0.045, 0.09, 0.16))
        if box is not None and not box.holds(np.asarray(around)):
            taken.append(box)
            axes.annotate(text, ((box.left + box.right) / 2 / width, (box.bottom + box.top) / 2 / height), ha="center",
                          va="center", xycoords="axes fraction", fontsize=PT, fontweight="semibold",
                          color=hues[name].on_light, zorder=5, gid="number")  # fmt: skip


def _name_levels(axes: Axes, levels: Sequence[Level], limits: tuple[float, float]) -> None:
    """Names right of the panel at the height of their lines; a level above the panel has an arrow."""
    if not levels:
        return
    height = axes.get_window_extent().height / axes.figure.dpi
    inches = height / (limits[1] - limits[0])
    middles = [e if e is not None else (lo + hi) / 2 for _, e, lo, hi, _ in levels]  # type: ignore[operator]
    wished = [min(m, limits[1]) * inches for m in middles]
    for (name, *_), y, m in zip(levels, sheet.apart(wished, 0.15, 0.06, height), middles, strict=True):
        axes.annotate(f"{name} ↑" if m > limits[1] else name, (1, y / height), (5, 0), xycoords="axes fraction",
                      textcoords="offset points", va="center", fontsize=PT, color=style.SOFT,
                      annotation_clip=False)  # fmt: skip


# --- random names -----------------------------------------------------------------------------------------------------


def _distributions(axes: Axes, rows: pl.DataFrame, groups: Sequence[str], models: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = float(rows["value"].min()), float(rows["value"].max())
    edge = 0.06 * (high - low) or 0.05
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    for y, group in enumerate(groups):
        part = rows.filter(pl.col("group").fill_null("") == group)
        draws = part.filter(pl.col("combination") == RANDOM)["value"].to_numpy()
        if len(draws):
            counts, ends = np.histogram(draws, bins=_N_BINS, range=(low, high if high > low else low + 1))
            axes.fill_between(np.repeat(ends, 2)[1:-1], y + 0.1, y + 0.1 - 0.5 * np.repeat(counts / counts.max(), 2),
                              color="#C4CBD1", linewidth=0, zorder=1, gid="draws")  # fmt: skip
            ends = np.quantile(draws, [0.025, 0.5, 0.975])
            axes.plot(ends[[0, 2]], [y + 0.1] * 2, color=style.SOFT, linewidth=1.4, zorder=2, gid="95 %")
            axes.plot(ends[1], y + 0.1, "|", ms=6, color=style.INK, mew=1.2, zorder=3, gid="median")
        mine = part.filter(pl.col("combination") != RANDOM)
        for r in mine.iter_rows(named=True):
            c = r["combination"]
            axes.plot(r["value"], y + 0.1, linestyle="none", **_dot(hues[c], markers[c]), zorder=4, gid=c)
    axes.set(xlim=(low - edge, high + edge), ylim=(len(groups) - 0.6, -0.5))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, colors=style.INK)
    axes.grid(axis="x")
