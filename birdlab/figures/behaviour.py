"""Figures of the chapter on actions, keypoints and tracks: confusion, PCK, error by keypoint, tracking measures.

Drawn from saved tables and nothing else. Colours and shapes belong to models, in the order of the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.figures.sheet import PT, Entry, Key, Lay, Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THRESHOLDS_PX = (5.0, 10.0)
NO_ANSWER = "no answer"
TRACKING = {"hota": "HOTA", "deta": "DetA", "assa": "AssA", "idf1": "IDF1", "mota": "MOTA"}
ALL_SCENES = "all"
_CELL_IN, _TALL_IN = 0.42, 0.26
_STEP_IN = 0.125  #: from one model's mark to the next in a row
_FAINT = 0.35


# --- confusion --------------------------------------------------------------------------------------------------------


def fig_confusion(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Behaviour as named by the model against behaviour by hand, per cent of a row, one matrix per model; dark is much.

    Args:
        frame: ``model``, ``truth``, ``predicted`` (null: the model names none), ``share`` in [0, 1] or null (a dash: no such
            clip), ``n`` clips of the row. Behaviours stand in the order in which the frame has them.
        models: names in the order of the recipe; those without rows have no matrix.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        frame = frame.with_columns(cs.float().fill_nan(None))
        shown = sheet.chosen(frame, models, "model")
        if not shown:
            return sheet.empty(width, "No clip was named by a model.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        rows = frame.filter(pl.col("model").is_in(shown)).with_columns(pl.col("predicted").fill_null(NO_ANSWER))
        truths = rows["truth"].unique(maintain_order=True).to_list()
        given = [*truths, *(p for p in rows["predicted"].unique(maintain_order=True) if p not in truths)]
        given = [g for g in given if g != NO_ANSWER] + [g for g in given if g == NO_ANSWER]
        labels = {b: sheet.cut(figure, b, 0.9 if narrow else 1.3) for b in given}
        left = sheet.widest(figure, [labels[t] for t in truths]) + 0.12
        room = width - left - 0.5
        cell = min(
            max(_CELL_IN, min(0.8 if len(given) < 5 else 0.5, sheet.widest(figure, list(labels.values())) + 0.06)),
            room / len(given),
        )
        turned = sheet.widest(figure, list(labels.values())) + 0.04 > cell
        each = cell * len(given)
        gap = 0.5  # for the n of the rows
        per_row = 1 if narrow else max(1, min(len(shown), int((width - left + 0.1) / (each + gap + 0.1)), 3))
        names = sheet.heads(figure, shown, style.model_colours(models), each + gap)
        above = sheet.widest(figure, list(labels.values())) + 0.06 if turned else sheet.LINE_IN + 0.02
        lay = Lay(each, _TALL_IN * len(truths), per_row, left, gap + 0.1, right=gap,
                  top=above + sheet.top_of(len(next(iter(names.values()))) + 1), bottom=0.14)  # fmt: skip
        for i, (axes, name) in enumerate(zip(lay.place(figure, len(shown)), shown, strict=True)):
            _confusion(axes, rows.filter(pl.col("model") == name), truths, given, cell=cell)
            axes.set_yticks(range(len(truths)), [labels[t] if i % per_row == 0 else "" for t in truths])
            for x, behaviour in enumerate(given):
                axes.annotate(labels[behaviour], (x, -0.5), (0, 3), textcoords="offset points", ha="center", va="bottom",
                              rotation=90 if turned else 0, fontsize=PT, annotation_clip=False)  # fmt: skip
            words = [*names[name], Word("named, % of the row")]
            for j, word in enumerate(reversed(words)):
                axes.annotate(word.text, (0, 1), (0, 72 * above + 3 + 72 * j * sheet.LINE_IN), xycoords="axes fraction",
                              textcoords="offset points", va="bottom", fontsize=PT, color=word.colour,
                              fontweight=word.weight, annotation_clip=False)  # fmt: skip
    return figure


def _confusion(axes: Axes, rows: pl.DataFrame, truths: list[str], given: list[str], *, cell: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    cells = {(r["truth"], r["predicted"]): r for r in rows.iter_rows(named=True)}
    for y, truth in enumerate(truths):
        for x, behaviour in enumerate(given):
            share = cells.get((truth, behaviour), {}).get("share")
            if share is None and any(cells.get((truth, g), {}).get("share") is not None for g in given):
                share = 0.0  # the row has clips: none of them was named so
            shade = (1, 1, 1, 1) if share is None else ramp(sheet.stepped(share))
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade, edgecolor="none"))
            if cell >= 0.22:
                axes.annotate("–" if share is None else f"{100 * share:.0f}", (x, y), ha="center", va="center", fontsize=PT,
                              color=style.SOFT if share is None else _ink(shade),
                              fontweight="bold" if truth == behaviour else "normal")  # fmt: skip
            if truth == behaviour:
                axes.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, facecolor="none", edgecolor=style.INK,
                                         linewidth=1.0, gid="right"))  # fmt: skip
        n = next((c["n"] for (t, _), c in cells.items() if t == truth and c["n"] is not None), 0)
        axes.annotate(f"{n:,}", (len(given) - 0.5, y), (5, 0), textcoords="offset points", va="center", fontsize=PT,
                      color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.annotate("n", (len(given) - 0.5, -0.5), (5, 3), textcoords="offset points", va="bottom", fontsize=PT,
                  color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.set(xlim=(-0.5, len(given) - 0.5), ylim=(len(truths) - 0.5, -0.5))
    axes.set_xticks([])
    sheet.bare(axes)


# --- keypoints --------------------------------------------------------------------------------------------------------


def fig_pck(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Share of keypoints within a distance, a line per model; marks and numbers at 5 and 10 px.

    Args:
        frame: ``model``, ``threshold_px``, ``share`` in [0, 1] (null: not drawn).
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        known = frame.with_columns(cs.float().fill_nan(None)).drop_nulls(["threshold_px", "share"])
        shown = sheet.chosen(known, models, "model")
        if not shown:
            return sheet.empty(width, "No keypoint was scored.")
        figure, hues = plt.figure(figsize=(width, 3), layout="none"), style.model_colours(models)
        markers = sheet.marker_of(models)
        at = {name: _at_thresholds(known.filter(pl.col("model") == name)) for name in shown}
        entries = []
        for name in shown:
            said = ", ".join(f"{t:g} px {100 * v:.0f} %" for t, v in at[name])
            sample = {"linestyle": hues[name].dash, "color": hues[name].line, "linewidth": 1.8, "marker": markers[name],
                      "ms": 4.5, "mfc": "white", "mec": hues[name].line}  # fmt: skip
            entries.append(Entry(f"{name}: {said}" if said else name, hues[name].on_light, sample))
        size = 2.85 if narrow else 4.6
        key = Key.of(figure, entries, width - 0.2 if narrow else width - size - 0.74, one_column=True)
        lay = Lay(size, 2.2 if narrow else 2.6, 1, 0.42, right=0.13 if narrow else 0.3 + key.column, top=sheet.top_of(1),
                  bottom=0.44, foot=key.height + 0.04 if narrow else 0.0)  # fmt: skip
        (axes,) = lay.place(figure, 1)
        end = float(known.filter(pl.col("model").is_in(shown))["threshold_px"].max()) or 1.0
        for t in THRESHOLDS_PX:
            if t <= end:
                axes.axvline(t, color=style.EDGE, linewidth=0.7, linestyle=(0, (3, 3)), zorder=1, gid="threshold")
        for name in shown:
            line = known.filter(pl.col("model") == name).sort("threshold_px")
            axes.plot(line["threshold_px"], line["share"], color=hues[name].line, linestyle=hues[name].dash,
                      linewidth=1.8, zorder=3, gid=name)  # fmt: skip
            axes.plot([t for t, _ in at[name]], [v for _, v in at[name]], linestyle="none", marker=markers[name], ms=5,
                      mfc="white", mec=hues[name].line, mew=1.3, zorder=4, gid=f"{name} marks")  # fmt: skip
        axes.set(xlim=(0, end), ylim=(0, 1.02))
        axes.set_xlabel("distance from the keypoint, px", fontsize=PT)
        axes.grid(axis="y")
        sheet.write_head(axes, [Word("share of keypoints within it")])
        high = figure.get_size_inches()[1]
        key.draw(figure, *((0.1, lay.foot) if narrow else (lay.left + size + 0.2, high - lay.top)))
    return figure


def _at_thresholds(line: pl.DataFrame) -> list[tuple[float, float]]:
    """Share at 5 and at 10 px: of the last threshold of the curve that is not beyond; none where the curve ends before."""
    line, out = line.sort("threshold_px"), []
    for t in THRESHOLDS_PX:
        upto = line.filter(pl.col("threshold_px") <= t + 1e-9)
        if upto.height and line["threshold_px"].max() >= t - 1e-9:
            out.append((t, float(upto["share"][-1])))
    return out


def fig_keypoint_error(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Error by keypoint, a panel per kind of scene: the median as a mark, a line to the 95th percentile.

    Keypoints stand from the largest median error over all scenes to the smallest one, by the mean of the models.

    Args:
        frame: ``model``, ``keypoint``, ``scene`` (``all`` or null: all of them), ``median_px``, ``p95_px`` (null: a dash),
            ``n`` keypoints (optional).
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = frame.with_columns(pl.col("scene").fill_null(ALL_SCENES), cs.float().fill_nan(None))
        shown = sheet.chosen(rows, models, "model")
        rows = rows.filter(pl.col("model").is_in(shown))
        if rows["median_px"].drop_nulls().is_empty():
            return sheet.empty(width, "No keypoint was scored.")
        figure = plt.figure(figsize=(width, 3), layout="none")
        keypoints, scenes = _keypoint_order(rows), rows["scene"].unique(maintain_order=True).to_list()
        scenes = [s for s in scenes if s == ALL_SCENES] + [s for s in scenes if s != ALL_SCENES]
        labels = [sheet.cut(figure, k.replace("_", " "), 0.9 if narrow else 1.5) for k in keypoints]
        left = sheet.widest(figure, labels) + 0.14
        per_row = 1 if narrow else min(4, len(scenes))
        each = sheet.fitted(width - left - 0.14, len(scenes), most=3.8, between=0.2, per_row=per_row)
        names = {
            s: sheet.broken(figure, "all scenes" if s == ALL_SCENES else s, each, fontweight="bold") for s in scenes
        }
        row_in = max(0.19, _STEP_IN * len(shown) + 0.07)
        lay = Lay(each, row_in * len(keypoints), per_row, left, 0.2,
                  top=sheet.top_of(max(map(len, names.values()))), bottom=0.42)  # fmt: skip
        lay, key = lay.keyed(figure, _model_entries(shown, models), len(scenes))
        reach = max(rows["p95_px"].max() or 0.0, rows["median_px"].max())
        for i, (axes, scene) in enumerate(zip(lay.place(figure, len(scenes)), scenes, strict=True)):
            _keypoints(axes, rows.filter(pl.col("scene") == scene), keypoints, shown, models, row_in)
            axes.set(xlim=(0, 1.05 * reach or 1.0))
            axes.set_yticks(range(len(keypoints)), labels if i % per_row == 0 else [""] * len(labels))
            axes.set_xlabel("error, px", fontsize=PT)
            sheet.write_head(axes, [Word(t, style.INK, "bold") for t in names[scene]])
        key.draw(figure, 0.1, lay.foot)
    return figure


def _keypoint_order(rows: pl.DataFrame) -> list[str]:
    """From the largest median error to the smallest one, over all scenes where the frame has such rows."""
    over_all = rows.filter(pl.col("scene") == ALL_SCENES)
    used = over_all if over_all.height else rows
    mean = used.group_by("keypoint").agg(pl.col("median_px").mean())
    order = mean.sort(["median_px", "keypoint"], descending=[True, False], nulls_last=True)["keypoint"].to_list()
    return order + sorted(set(rows["keypoint"]) - set(order))


def _keypoints(
    axes: Axes,
    rows: pl.DataFrame,
    keypoints: Sequence[str],
    shown: Sequence[str],
    models: Sequence[str],
    row_in: float,
) -> None:
    from matplotlib.ticker import MaxNLocator

    hues, markers = style.model_colours(models), sheet.marker_of(models)
    cells = {(r["model"], r["keypoint"]): r for r in rows.iter_rows(named=True)}
    for y in range(1, len(keypoints)):
        axes.axhline(y - 0.5, color=style.GRID, linewidth=0.8, zorder=0)
    for i, name in enumerate(shown):
        shift = (i - (len(shown) - 1) / 2) * _STEP_IN / row_in
        for y, keypoint in enumerate(keypoints):
            r = cells.get((name, keypoint))
            if r is None or r["median_px"] is None:
                axes.plot(0.02, y + shift, "_", ms=5, color=hues[name].line, mew=1, zorder=3, gid="undefined",
                          transform=axes.get_yaxis_transform())  # fmt: skip
                continue
            if r["p95_px"] is not None:
                axes.plot([r["median_px"], r["p95_px"]], [y + shift] * 2, color=hues[name].line, linewidth=1.2, zorder=2,
                          gid="p95")  # fmt: skip
            axes.plot(r["median_px"], y + shift, linestyle="none", marker=markers[name], ms=4.8, mfc=hues[name].line,
                      mec="white", mew=0.4, zorder=3, gid=name)  # fmt: skip
    axes.set_ylim(len(keypoints) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, colors=style.INK)


def _model_entries(shown: Sequence[str], models: Sequence[str]) -> list[Entry]:
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    return [
        Entry(name, hues[name].on_light,
              {"marker": markers[name], "ms": 5.5, "mfc": hues[name].line, "mec": "white", "mew": 0.5})
        for name in shown
    ]  # fmt: skip


# --- tracks -----------------------------------------------------------------------------------------------------------


def fig_tracking(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """HOTA, DetA, AssA, IDF1 and MOTA, a row per tracker: all videos together with 95 %, single videos as faint points.

    Args:
        frame: one row per tracker and video: ``tracker`` (or ``model``), ``video_id`` (null or empty: all videos together),
            the five measures (null: not drawn, a dash for all videos), and ``<measure>_lo``, ``<measure>_hi`` where there are
            intervals. MOTA may be below 0.
        models: trackers in the order of their colours.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = frame.rename({"model": "tracker"}) if "tracker" not in frame.columns else frame
        rows = rows.with_columns(cs.float().fill_nan(None))
        shown, measures = sheet.chosen(rows, models, "tracker"), [m for m in TRACKING if m in rows.columns]
        values = [v for m in measures for v in rows.filter(pl.col("tracker").is_in(shown))[m].drop_nulls()]
        if not values:
            return sheet.empty(width, "No track was scored.")
        figure, hues = plt.figure(figsize=(width, 3), layout="none"), style.model_colours(models)
        names = {t: sheet.broken(figure, t, 0.9 if narrow else 1.3, lines=2, fontweight="semibold") for t in shown}
        left = sheet.widest(figure, [t for n in names.values() for t in n], fontweight="semibold") + 0.14
        per_row = 1 if narrow else min(5, len(measures))
        each = sheet.fitted(width - left - 0.14, len(measures), most=3.0, between=0.18, per_row=per_row)
        video = Entry("a video", style.INK, {"marker": "o", "ms": 4, "color": style.SOFT, "mew": 0, "alpha": 0.5})
        line = Entry("all videos, 95 %", style.INK, {"linestyle": "-", "color": style.SOFT, "linewidth": 1.2, "marker": "o",
                                                     "ms": 5, "mfc": style.SOFT, "mec": "white"})  # fmt: skip
        row_in = max(0.3, 0.08 + sheet.LINE_IN * max(map(len, names.values())))
        lay = Lay(each, row_in * len(shown), per_row, left, 0.18, top=sheet.top_of(1), bottom=0.3)
        lay, key = lay.keyed(figure, [line, video], len(measures))
        for i, (axes, measure) in enumerate(zip(lay.place(figure, len(measures)), measures, strict=True)):
            _tracking(axes, rows, measure, shown, models)
            axes.set_xlim(*_reach(rows.filter(pl.col("tracker").is_in(shown)), measure))
            axes.set_yticks(range(len(shown)), ["\n".join(names[t]) if i % per_row == 0 else "" for t in shown])
            for label, tracker in zip(axes.get_yticklabels(), shown, strict=True):
                label.set(color=hues[tracker].on_light, fontweight="semibold")
            sheet.write_head(axes, [Word(TRACKING[measure], style.INK, "bold")])
        key.draw(figure, 0.1, lay.foot)
    return figure


def _reach(rows: pl.DataFrame, measure: str) -> tuple[float, float]:
    """From 0 to 1; further down where a value (MOTA) or an end of an interval lies there."""
    columns = [c for c in (measure, f"{measure}_lo") if c in rows.columns]
    lowest = min([0.0, *(v for c in columns for v in rows[c].drop_nulls() if math.isfinite(v))])
    return (max(lowest, -1.5) - 0.04 if lowest < 0 else -0.03), 1.03


def _tracking(axes: Axes, rows: pl.DataFrame, measure: str, shown: Sequence[str], models: Sequence[str]) -> None:
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    together = pl.col("video_id").is_null() | pl.col("video_id").is_in(["", "all"])
    for y, tracker in enumerate(shown):
        part, hue = rows.filter(pl.col("tracker") == tracker), hues[tracker]
        single = part.filter(~together)[measure].drop_nulls()
        if len(single):
            axes.plot(single, [y] * len(single), "o", ms=4, color=hue.line, mew=0, alpha=_FAINT, zorder=2, gid="videos")
        whole: dict[str, Any] = next(part.filter(together).iter_rows(named=True), {})
        value, lo, hi = (whole.get(f"{measure}{end}") for end in ("", "_lo", "_hi"))
        if value is None:
            axes.annotate("–", (0, y), (3, 0), textcoords="offset points", va="center", fontsize=PT, color=hue.on_light)
            continue
        if lo is not None and hi is not None:
            axes.plot([lo, hi], [y, y], color=hue.line, linewidth=1.4, zorder=3, gid="interval")
        axes.plot(value, y, linestyle="none", marker=markers[tracker], ms=6, mfc=hue.line, mec="white", mew=0.6, zorder=4,
                  gid=tracker)  # fmt: skip
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
