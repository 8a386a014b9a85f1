"""Figures of the chapter on abstention that compare: prompts of one model, models with each other, genera declined for nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import style
from birdlab.figures import placing
from birdlab.figures.placing import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ((True, "may decline"), (False, "no permission"))
CHANCE = 0.5
TOP = 8  #: genera of a model where there are too many to draw them all
MOST = 24  #: genera that are all drawn, for up to three models on a wide page
LEAST_N = 5  #: photographs a genus needs to be among the top ones: one declined photograph of one is no rate

_ROW_IN = 0.165


def fig_prompts(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Share declined by prompt with its interval, one panel per model with several prompts; the others in a panel of their own.

    Filled: the prompt permits declining. Hollow: it does not. The thin line is the plain mean of the prompts of a kind. The
    scale is the same in all panels.

    Args:
        frame: ``model``, ``prompt_id``, ``permits_abstention``, ``rate`` in [0, 1] or null (drawn as a dash), ``lo``, ``hi``
            (null: not drawn), ``n``.
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    n_prompts = {m: frame.filter(pl.col("model") == m)["prompt_id"].n_unique() for m in models}
    several = [m for m in models if n_prompts[m] > 1]
    single = [m for m in models if n_prompts[m] == 1]
    slots = _prompt_slots(frame.filter(pl.col("model").is_in(several)))
    heights = [len(slots)] * len(several) + ([len(single) + 1] if single else [])
    per_row = 1 if narrow else min(3, max(1, len(heights)))
    n_rows = max(1, math.ceil(len(heights) / per_row))
    tall = [max(heights[i * per_row : (i + 1) * per_row], default=1) * _ROW_IN + 0.7 for i in range(n_rows)]
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, 1.4 + 2.4 * per_row)
    with style.rc(width):
        figure, grid = plt.subplots(
            n_rows, per_row, squeeze=False, figsize=(width, sum(tall)), gridspec_kw={"height_ratios": tall}
        )
        if not heights:
            return placing.nothing(figure)
        hues, end = style.model_colours(models), _reach(frame, ("rate", "hi"))
        for i, (axes, name) in enumerate(zip(grid.flat, several, strict=False)):
            _prompts_of(axes, frame.filter(pl.col("model") == name), slots, hues[name], named=i % per_row == 0)
            axes.set_title(name, color=hues[name].on_light)
            _rate_axis(axes, end, _declined(frame.filter(pl.col("model") == name)))
        if single:
            axes = grid.flat[len(several)]
            alone = len(several) % per_row == 0
            _single_prompts(axes, frame, single, hues, rows=len(single) + 1 if alone else max(heights))
            _rate_axis(axes, end, _declined(frame.filter(pl.col("model").is_in(single))))
        for axes in list(grid.flat)[len(heights) :]:
            axes.set_axis_off()
    return figure


def fig_across(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """UA/A against IG, a point per model with the interval of each; arrows lead from small to large within a family.

    Args:
        frame: ``model``, ``ig``, ``ig_lo``, ``ig_hi``, ``ua_a``, ``ua_a_lo``, ``ua_a_hi`` (each may be null), ``family`` and
            ``parameters`` (null: no arrow). A model without one of the two areas is not drawn but named under the axes.
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    known = frame.filter(pl.col("model").is_in(list(models))).drop_nulls(["ig", "ua_a"])
    width, height = (style.NARROW_IN, 3.5) if narrow else (6.2, 4.0)
    left_out = [m for m in models if m in set(frame["model"]) and m not in set(known["model"])]
    with style.rc(width):
        figure = plt.figure(figsize=(width, height), layout="none")
        if known.is_empty():
            return placing.nothing(figure)
        room = Box(0.5, 0.64 if left_out else 0.48, width - 0.12, height - 0.32)
        axes = figure.add_axes(
            (
                room.left / width,
                room.bottom / height,
                (room.right - room.left) / width,
                (room.top - room.bottom) / height,
            )
        )
        axes.set(xlim=_limits(known, ("ig", "ig_lo", "ig_hi")), xlabel="IG: accuracy and information")
        axes.set_ylim(_limits(known, ("ua_a", "ua_a_lo", "ua_a_hi"), CHANCE))
        style.label_y(axes, "UA/A: declines the right photographs")
        axes.axhline(CHANCE, color=style.EDGE, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
        hues = style.model_colours(models)
        for r in known.iter_rows(named=True):
            _cross(axes, r, hues[r["model"]])
        _families(axes, known)
        _name_points(axes, known, hues)
        if left_out:
            shown = ", ".join(placing.shortened(m, 18) for m in left_out[:3]) + (" …" if len(left_out) > 3 else "")
            figure.text(room.left / width, 0.05 / height, f"Undefined: {shown}", fontsize=7, color=style.SOFT)
    return figure


def fig_wrongly(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Where answerable photographs are declined: the share by genus, one panel per model, n at the end of each row.

    Up to 24 genera are all drawn, in one order for all models, by their mean share; where there are more, or more than three
    models, each panel has its own eight highest among genera with at least five photographs, which is written above them.
    The dashed line is the model's share over all genera.

    Args:
        frame: ``genus``, ``model``, ``rate`` in [0, 1] or null (not ranked), ``n`` answerable photographs.
        models: names in the order of the recipe.
    """
    import matplotlib.pyplot as plt

    known = frame.filter(pl.col("model").is_in(list(models)) & pl.col("genus").is_not_null()).drop_nulls(["rate"])
    present = [m for m in models if m in set(known["model"])]
    n_genera = known["genus"].n_unique()
    cut = n_genera > (12 if narrow else MOST) or (len(present) > 3 and n_genera > TOP)
    parts = {m: _worst(known.filter(pl.col("model") == m), cut) for m in present}
    order = _common_order(known)
    rows = TOP if cut else max(1, len(order))
    per_row = 1 if narrow else min(3, max(1, len(present)))
    n_rows = max(1, math.ceil(len(present) / per_row))
    width = style.NARROW_IN if narrow else min(style.WIDE_IN, 1.4 + 2.4 * per_row)
    with style.rc(width):
        figure, grid = plt.subplots(
            n_rows, per_row, squeeze=False, figsize=(width, n_rows * (rows * _ROW_IN + (1.0 if cut else 0.86)))
        )
        if not present:
            return placing.nothing(figure)
        hues, end = style.model_colours(models), _reach(pl.concat(parts.values()), ("rate",))
        for i, (axes, name) in enumerate(zip(grid.flat, present, strict=False)):
            part = parts[name]
            names = part["genus"].to_list() if cut else order
            _genera(axes, part, names, hues[name], named=cut or i % per_row == 0, rows_shown=rows)
            overall = _overall(axes, known.filter(pl.col("model") == name))
            axes.set_title(placing.shortened(name, 24), color=hues[name].on_light, pad=16 if cut else 6)
            if cut:
                words = f"{part.height} highest of {n_genera:,} genera, n ≥ {LEAST_N}"
                words = words if part.height else f"no genus with n ≥ {LEAST_N}"
                axes.annotate(words, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", va="bottom",
                              fontsize=7, color=style.SOFT)  # fmt: skip
            _rate_axis(axes, end, f"declined though answerable\ndashed: all genera{overall}")
        for axes in list(grid.flat)[len(present) :]:
            axes.set_axis_off()
    return figure


# --- prompts ----------------------------------------------------------------------------------------------------------


def _prompt_slots(frame: pl.DataFrame) -> list[tuple[bool, str | None]]:
    """Rows of every panel: for each kind a heading (no prompt), then its prompts, the one with the highest mean rate first."""
    mean = frame.group_by("permits_abstention", "prompt_id").agg(pl.col("rate").mean()).sort(
        ["rate", "prompt_id"], descending=[True, False], nulls_last=True
    )  # fmt: skip
    slots: list[tuple[bool, str | None]] = []
    for permits, _ in KINDS:
        prompts = mean.filter(pl.col("permits_abstention") == permits)["prompt_id"].to_list()
        slots += [(permits, None), *((permits, p) for p in prompts)] if prompts else []
    return slots


def _prompts_of(
    axes: Axes, rows: pl.DataFrame, slots: list[tuple[bool, str | None]], hue: style.Hue, *, named: bool
) -> None:
    found = {(r["permits_abstention"], r["prompt_id"]): r for r in rows.iter_rows(named=True)}
    words = dict(KINDS)
    for i, (permits, prompt) in enumerate(slots):
        if prompt is None:
            rates = rows.filter(pl.col("permits_abstention") == permits)["rate"].drop_nulls()
            mean = float(rates.mean()) if len(rates) else None
            text = words[permits] if mean is None else f"{words[permits]}: mean {100 * mean:.0f} %"
            axes.annotate(text, (0, i), xycoords=("axes fraction", "data"), va="center", fontsize=7.5,
                          color=hue.on_light, fontweight="semibold")  # fmt: skip
            if mean is not None:
                last = max(j for j, slot in enumerate(slots) if slot[0] == permits)
                axes.plot([mean, mean], [i + 0.5, last + 0.45], color=hue.line, linewidth=0.8, zorder=1, gid="mean")
        elif (permits, prompt) in found:
            _dot(axes, found[permits, prompt], i, hue, filled=permits)
    axes.set_ylim(len(slots) - 0.4, -0.6)
    at = [i for i, slot in enumerate(slots) if slot[1] is not None]
    axes.set_yticks(at, [placing.shortened(str(slots[i][1]), 20) if named else "" for i in at])
    axes.tick_params(axis="y", length=0, colors=style.INK)


def _single_prompts(
    axes: Axes, frame: pl.DataFrame, single: Sequence[str], hues: dict[str, style.Hue], *, rows: int
) -> None:
    """Models that were asked once: a row each, as far apart as the ``rows`` of the panel beside it."""
    kinds = set()
    for i, name in enumerate(single):
        row = frame.filter(pl.col("model") == name).row(0, named=True)
        kinds.add(bool(row["permits_abstention"]))
        _dot(axes, row, i + 1, hues[name], filled=bool(row["permits_abstention"]))
    words = " · ".join(f"{'●' if permits else '○'} {word}" for permits, word in KINDS if permits in kinds)
    axes.annotate(words, (0, 0), xycoords=("axes fraction", "data"), va="center", fontsize=7.5, color=style.SOFT)
    axes.set_title("One prompt")
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_yticks(range(1, len(single) + 1), [placing.shortened(m, 20) for m in single])
    axes.tick_params(axis="y", length=0)
    for label, name in zip(axes.get_yticklabels(), single, strict=True):
        label.set_color(hues[name].on_light)
        label.set_fontweight("semibold")


def _declined(rows: pl.DataFrame) -> str:
    low, high = rows["n"].min(), rows["n"].max()
    if low is None:
        return "declined"
    return f"declined, n = {low:,}" + (f"–{high:,}" if high != low else "") + " photographs"


def _dot(axes: Axes, row: dict[str, Any], y: float, hue: style.Hue, *, filled: bool) -> None:
    if row["rate"] is None:
        axes.annotate("–", (0, y), va="center", color=style.SOFT)
        return
    if row["lo"] is not None and row["hi"] is not None:
        axes.plot([row["lo"], row["hi"]], [y, y], color=hue.line, linewidth=1.1, zorder=2, gid="interval")
    axes.plot(row["rate"], y, "o", ms=4.8, mec=hue.line, mfc=hue.line if filled else "white", mew=1.3, zorder=5,
              gid="rate")  # fmt: skip


def _reach(frame: pl.DataFrame, columns: Sequence[str]) -> float:
    """The right end of a scale of rates: the largest value rounded up to a tenth, at most 1."""
    top = frame.select(pl.max_horizontal(pl.col(c).cast(pl.Float64).max() for c in columns)).item()
    return 1.0 if top is None else min(1.0, max(0.1, math.ceil(10 * float(top) - 1e-9) / 10))


def _rate_axis(axes: Axes, end: float, name: str) -> None:
    ticks = np.linspace(0, end, 3)
    axes.set_xticks(ticks, [f"{100 * t:g}" + (" %" if t == ticks[-1] else "") for t in ticks])
    axes.set_xlim(-0.02 * end, 1.03 * end)
    axes.set_xlabel(name)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


# --- across models ----------------------------------------------------------------------------------------------------


def _limits(frame: pl.DataFrame, columns: Sequence[str], *more: float) -> tuple[float, float]:
    """Around all values and interval ends, with a tenth of the span to spare, wide enough that the axis has ticks."""
    values = [v for c in columns for v in frame[c].drop_nulls().to_list()] + list(more)
    low, high = min(values), max(values)
    spare = max(0.1 * (high - low), 0.03)
    return low - spare, high + spare


def _cross(axes: Axes, r: dict[str, Any], hue: style.Hue) -> None:
    if r["ig_lo"] is not None and r["ig_hi"] is not None:
        axes.plot([r["ig_lo"], r["ig_hi"]], [r["ua_a"]] * 2, color=hue.line, linewidth=1.0, zorder=3, gid="interval")
    if r["ua_a_lo"] is not None and r["ua_a_hi"] is not None:
        axes.plot([r["ig"]] * 2, [r["ua_a_lo"], r["ua_a_hi"]], color=hue.line, linewidth=1.0, zorder=3, gid="interval")
    axes.plot(r["ig"], r["ua_a"], "o", ms=6, mfc="white", mec=hue.line, mew=1.6, zorder=5, gid=r["model"])


def _family_steps(frame: pl.DataFrame) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Neighbours in size within each family, the smaller one first."""
    sized = frame.drop_nulls(["family", "parameters"]).sort("family", "parameters", maintain_order=True)
    steps = []
    for part in sized.partition_by("family", maintain_order=True):
        rows = part.to_dicts()
        steps += list(zip(rows[:-1], rows[1:], strict=True))
    return steps


def _families(axes: Axes, frame: pl.DataFrame) -> None:
    for small, large in _family_steps(frame):
        axes.annotate("", (large["ig"], large["ua_a"]), (small["ig"], small["ua_a"]), zorder=2,
                      arrowprops={"arrowstyle": "-|>,head_width=0.14,head_length=0.32", "color": style.SOFT,
                                  "linewidth": 0.7, "shrinkA": 5, "shrinkB": 5})  # fmt: skip


def _name_points(axes: Axes, frame: pl.DataFrame, hues: dict[str, style.Hue]) -> None:
    """Names beside their points, clear of points, intervals, arrows and each other; a thin line where they had to move."""
    figure = axes.figure
    span = axes.get_window_extent()
    width, height = span.width / figure.dpi, span.height / figure.dpi

    def inches(x: float, y: float) -> tuple[float, float]:
        at = (axes.transData.transform((x, y)) - (span.x0, span.y0)) / figure.dpi
        return float(at[0]), float(at[1])

    marks = _marks(frame, inches)
    size = placing.measure(figure, "chance 0.50", fontsize=7)
    at_chance = inches(axes.get_xlim()[0], CHANCE)[1]
    ways = [Box(x, y, x + size[0], y + size[1]) for x in (width - size[0] - 0.04, 0.06, width / 2)
            for y in (at_chance + 0.03, at_chance - 0.03 - size[1])]  # fmt: skip
    chance = min(ways, key=lambda box: box.grown(0.03).holds(marks))
    axes.annotate("chance 0.50", (chance.left / width, chance.bottom / height), xycoords="axes fraction",
                  fontsize=7, color=style.SOFT, va="bottom")  # fmt: skip
    line = placing.along(np.array([0.0, width]), np.array([at_chance, at_chance]))
    everything = np.concatenate([marks, line])
    taken = [chance]
    for r in frame.sort("ua_a", "ig", descending=True).iter_rows(named=True):
        point = inches(r["ig"], r["ua_a"])
        placing.name_point(
            axes, r["model"], point, hues[r["model"]], marks=everything, taken=taken, size=(width, height)
        )


def _marks(frame: pl.DataFrame, inches: Any) -> np.ndarray:
    """Points along every interval, arrow and ring, in inches."""
    ends = []
    for r in frame.iter_rows(named=True):
        at = (r["ig"], r["ua_a"])
        ends += [((r["ig_lo"], r["ua_a"]), (r["ig_hi"], r["ua_a"])), ((r["ig"], r["ua_a_lo"]), (r["ig"], r["ua_a_hi"]))]
        ends.append((at, at))
    ends += [((a["ig"], a["ua_a"]), (b["ig"], b["ua_a"])) for a, b in _family_steps(frame)]
    out = []
    for a, b in ends:
        if None in (*a, *b):
            continue
        (x0, y0), (x1, y1) = inches(*a), inches(*b)
        out.append(placing.along(np.array([x0, x1]), np.array([y0, y1]), 80))
        if a == b:  # the ring has a size
            out.append(np.array([[x0 + dx, y0 + dy] for dx in (-0.04, 0, 0.04) for dy in (-0.04, 0, 0.04)]))
    return np.concatenate(out)


# --- genera -----------------------------------------------------------------------------------------------------------


def _worst(rows: pl.DataFrame, cut: bool) -> pl.DataFrame:
    """The rows of a panel, highest share first, then most photographs; the top ones of large enough genera if ``cut``."""
    ranked = rows.sort(["rate", "n", "genus"], descending=[True, True, False])
    return ranked.filter(pl.col("n") >= LEAST_N).head(TOP) if cut else ranked


def _common_order(rows: pl.DataFrame) -> list[str]:
    mean = rows.group_by("genus").agg(pl.col("rate").mean())
    return mean.sort(["rate", "genus"], descending=[True, False])["genus"].to_list()


def _genera(
    axes: Axes, rows: pl.DataFrame, names: Sequence[str], hue: style.Hue, *, named: bool, rows_shown: int
) -> None:
    found = {r["genus"]: r for r in rows.iter_rows(named=True)}
    for i, genus in enumerate(names):
        r = found.get(genus)
        if r is None:
            axes.annotate("–", (0, i), va="center", color=style.SOFT)
            continue
        axes.plot([0, r["rate"]], [i, i], color=hue.line, alpha=0.35, linewidth=1.4, solid_capstyle="butt", zorder=2)
        axes.plot(r["rate"], i, "o", ms=4.8, color=hue.line, mew=0, zorder=5, gid="rate")
        axes.annotate(f"{r['n']:,}", (1.02, i), xycoords=("axes fraction", "data"), va="center", fontsize=7,
                      color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.annotate("n", (1.02, -0.95), xycoords=("axes fraction", "data"), va="center", fontsize=7, color=style.SOFT,
                  annotation_clip=False)  # fmt: skip
    axes.set_ylim(rows_shown - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [placing.shortened(g, 20) for g in names] if named else [""] * len(names))
    for label in axes.get_yticklabels():
        label.set_fontstyle("italic")
    axes.tick_params(axis="y", length=0, colors=style.INK)


def _overall(axes: Axes, rows: pl.DataFrame) -> str:
    """Draw the share over all genera, weighted by their photographs; its value in words."""
    n = rows["n"].sum()
    if not n:
        return ""
    share = float((rows["rate"] * rows["n"]).sum() / n)
    axes.axvline(share, color=style.EDGE, linewidth=0.9, linestyle=(0, (3, 3)), zorder=1, gid="overall")
    return f", {100 * share:.0f} %"
