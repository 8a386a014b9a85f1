"""Figures of colour rings: colours as they are and as they are read, how often a bird is named rightly, and the posterior.

Drawn from saved tables and nothing else. A figure with swatches of ring colours is to be shown with ``dark="card"``: turned
into its negative, white would be black.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.difficulty import RAMP, _ink
from birdlab.figures.reid_panels import DOTTED, draw_facets
from birdlab.figures.sheet import PT, Entry, Lay, Word
from birdlab.recipe.reid import RING_METHODS
from birdlab.schemas.reid import GALLERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ASSIGNMENTS = {"argmax": "each clip alone", "joint": "clips together"}
_CELL_IN, _TALL_IN, _SWATCH_IN = 0.42, 0.24, 0.11
_BAR_IN = 0.3  #: a row of a matcher
_NONE = "#E1E5E8"
_DASHED = (0, (3, 3))
_N_IN = 0.2  #: height of the bars of n under the calibration, in units of its y axis


def model_of(matcher: str) -> str:
    """The name under which a matcher stands among the methods.

    >>> model_of("birdlab")
    'rings (birdlab)'
    """
    name = f"rings ({matcher})"
    return name if name in RING_METHODS else matcher


class _Panel(NamedTuple):
    gallery: str | None
    assignment: str | None
    title: str
    model: str = ""


# --- colours ----------------------------------------------------------------------------------------------------------


def css_colour(name: str) -> str | None:
    """The colour of a name that CSS knows, as hex; ``None`` for another one.

    >>> css_colour("Light Blue"), css_colour("aluminium")
    ('#ADD8E6', None)
    """
    from matplotlib.colors import CSS4_COLORS

    word = "".join(c for c in name.casefold() if c.isalpha()).replace("grey", "gray")
    return CSS4_COLORS.get(word)


def fig_confusion(
    frame: pl.DataFrame, *, colours: Mapping[str, str] | None = None, models: Sequence[str] = (), narrow: bool = False
) -> Figure:
    """Colours of rings as they are (rows) and as they are read (columns), per cent of a row; dark is much.

    Args:
        frame: table ``ring_confusion``: ``truth``, ``read`` (letters), ``n``, ``share`` in [0, 1] (null: a dash).
        colours: letter -> name of the recipe's palette, in its order; a name that CSS knows has a swatch. Letters that are
            not in it follow.
        models: not used: a ring has one reader.
    """
    import matplotlib.pyplot as plt

    width = style.NARROW_IN if narrow else style.WIDE_IN
    with style.rc(width):
        rows = frame.with_columns(cs.float().fill_nan(None))
        sums = rows.group_by("truth", maintain_order=True).agg(pl.col("n").sum())
        if not int(rows["n"].sum() or 0):
            return sheet.empty(width, "No ring with a known colour was read.")
        names = {letter.upper(): name for letter, name in (colours or {}).items()}
        found = {*rows["truth"].drop_nulls(), *rows["read"].drop_nulls()}
        order = [c for c in names if c in found] + sorted(found - set(names))
        figure = plt.figure(figsize=(width, 3), layout="none")
        words = {c: c if narrow or names.get(c, c).upper() == c else f"{c}  {names[c]}" for c in order}
        words = {c: sheet.cut(figure, w, 1.4) for c, w in words.items()}
        swatches = {c: css_colour(names.get(c, "")) for c in order}
        left = sheet.widest(figure, list(words.values())) + 2 * _SWATCH_IN + 0.12
        counts = [f"{n:,}" for n in sums["n"].to_list()]
        right = sheet.widest(figure, [*counts, "n"]) + 0.14
        cell = min(_CELL_IN, (width - left - right) / len(order))
        lay = Lay(cell * len(order), _TALL_IN * len(order), 1, left, right=max(right, 2.6 - left - cell * len(order)),
                  top=_SWATCH_IN + sheet.top_of(2) + 0.06, bottom=0.1)  # fmt: skip
        (axes,) = lay.place(figure, 1)
        _cells(axes, rows, order, dict(sums.iter_rows()), cell)
        _name_colours(axes, order, words, swatches, cell)
        axes.annotate("read as, % of the rings of the row", (0, 1), (0, 72 * (_SWATCH_IN + sheet.LINE_IN) + 12),
                      xycoords="axes fraction", textcoords="offset points", va="bottom", fontsize=PT, color=style.SOFT,
                      annotation_clip=False)  # fmt: skip
    return figure


def _cells(axes: Axes, rows: pl.DataFrame, order: Sequence[str], n_of: dict[str, int], cell: float) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    ramp = LinearSegmentedColormap.from_list("ramp", RAMP)
    shares = {(t, r): s for t, r, s in rows.select("truth", "read", "share").iter_rows()}
    for y, truth in enumerate(order):
        n = n_of.get(truth, 0)
        for x, read in enumerate(order):
            share = shares.get((truth, read), 0.0 if n else None)
            share = None if not n else share
            shade = (1, 1, 1, 1) if share is None else ramp(sheet.stepped(share))
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=shade, edgecolor="none"))
            if cell >= 0.2:
                soft = share is None or share == 0
                axes.annotate(_percent(share), (x, y), ha="center", va="center", fontsize=PT,
                              color=style.SOFT if soft else _ink(shade),
                              fontweight="bold" if truth == read and not soft else "normal")  # fmt: skip
            if truth == read:
                axes.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, facecolor="none", edgecolor=style.INK,
                                         linewidth=1.0, gid="right"))  # fmt: skip
        axes.annotate(f"{n:,}", (len(order) - 0.5, y), (5, 0), textcoords="offset points", va="center", fontsize=PT,
                      color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.annotate("n", (len(order) - 0.5, -0.5), (5, 3), textcoords="offset points", va="bottom", fontsize=PT,
                  color=style.SOFT, annotation_clip=False)  # fmt: skip
    axes.set(xlim=(-0.5, len(order) - 0.5), ylim=(len(order) - 0.5, -0.5))
    axes.set_xticks([])
    axes.set_yticks([])
    sheet.bare(axes)


def _percent(share: float | None) -> str:
    """Whole per cent; what is not nothing is not written 0.

    >>> _percent(0.004), _percent(0.0), _percent(None), _percent(0.25)
    ('<1', '0', '–', '25')
    """
    if share is None:
        return "–"
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def _name_colours(
    axes: Axes, order: Sequence[str], words: Mapping[str, str], swatches: Mapping[str, str | None], cell: float
) -> None:
    """Letters and names left of the rows, letters above the columns, a swatch beside each that has one."""
    from matplotlib.patches import Rectangle

    tall, side_x, side_y = len(order) * _TALL_IN, _SWATCH_IN / (cell * len(order)), _SWATCH_IN / (_TALL_IN * len(order))
    for i, letter in enumerate(order):
        middle = 1 - (i + 0.5) / len(order)
        axes.annotate(words[letter], (0, middle), (-72 * (_SWATCH_IN + 0.1), 0), xycoords="axes fraction", ha="right",
                      textcoords="offset points", va="center", fontsize=PT, annotation_clip=False)  # fmt: skip
        at = (i + 0.5) / len(order)
        axes.annotate(letter, (at, 1), (0, 72 * _SWATCH_IN + 6), xycoords="axes fraction", ha="center",
                      textcoords="offset points", va="bottom", fontsize=PT, annotation_clip=False)  # fmt: skip
        if swatches[letter] is None:
            continue
        look: dict[str, Any] = {"facecolor": swatches[letter], "edgecolor": style.EDGE, "linewidth": 0.6,
                                "transform": axes.transAxes, "clip_on": False, "gid": f"swatch {letter}"}  # fmt: skip
        beside = -(_SWATCH_IN + 0.05) / (cell * len(order))
        axes.add_patch(Rectangle((beside, middle - side_y / 2), side_x, side_y, **look))
        axes.add_patch(Rectangle((at - side_x / 2, 1 + 0.04 / tall), side_x, side_y, **look))


# --- matchers ---------------------------------------------------------------------------------------------------------


def fig_matchers(frame: pl.DataFrame, *, models: Sequence[str], narrow: bool = False) -> Figure:
    """Clips whose bird is named rightly, named wrongly, not named: a bar per matcher and way of assigning, a panel per list.

    Filled: right, with its 95 %. Hatched: wrong. Pale: nobody is named. Ring: right, if the leading bird were always named.
    The dotted line is chance.

    Args:
        frame: table ``ring_called``: ``matcher``, ``assignment``, ``gallery``, ``n``, ``right``, ``right_lo``, ``right_hi``,
            ``wrong``, ``best_right``, ``chance`` (a null is not drawn; without ``right`` and ``wrong`` there is a dash).
        models: methods in the order of the recipe, for the colours.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = frame.with_columns(cs.float().fill_nan(None), cs.by_name("gallery", "assignment", "matcher").cast(pl.String))
    if rows["right"].drop_nulls().is_empty():
        rows = rows.clear()
    hues = _hues(rows, models)
    bars = [b for b in dict.fromkeys(rows.select("matcher", "assignment").iter_rows())]
    order = [*hues]
    bars.sort(key=lambda b: (order.index(model_of(b[0])), list(ASSIGNMENTS).index(b[1]) if b[1] in ASSIGNMENTS else 9))
    panels = [_Panel(g, None, g or "") for g in _in_order(rows["gallery"], GALLERIES)]
    lefts: list[str] = []

    def lay_of(each: float, per_row: int, n_heads: int) -> Lay:
        left = 1.02 if narrow else 1.1
        return Lay(each, _BAR_IN * max(1, len(bars)), per_row, left, _COUNTS_IN + 0.16, right=_COUNTS_IN + 0.06,
                   top=sheet.top_of(n_heads + 1), bottom=0.3)  # fmt: skip

    def each_panel(axes: Axes, panel: _Panel, *, first: bool) -> list[Word]:
        part = rows.filter(pl.col("gallery").eq_missing(panel.gallery))
        lefts[:] = lefts or _bar_names(axes, bars, 0.98)
        _bars(axes, part, bars, hues)
        axes.set_yticks(range(len(bars)), lefts if first else [""] * len(bars))
        for label, bar in zip(axes.get_yticklabels(), bars, strict=True):
            label.set_color(hues[model_of(bar[0])].on_light)
        n = part["n"].drop_nulls()
        return [Word(f"n = {int(n.max()):,}" if len(n) else "")]

    columns = 1 if narrow else min(3, max(1, len(panels)))
    return draw_facets(width, panels, _BAR_KEY, lay_of, each_panel, "No clip had rings to be read.", columns)


_COLUMNS_IN = (0.33, 0.75, 1.1)  #: right ends of the numbers right of the bars
_COUNTS_IN = _COLUMNS_IN[-1]
_BAR_KEY = (
    Entry("right, 95 %", style.INK, {"linestyle": "-", "color": style.SOFT, "linewidth": 7, "solid_capstyle": "butt"}),
    Entry("wrong", style.INK, {"hatch": "//////", "color": style.SOFT}),
    Entry("not named", style.INK, {"linestyle": "-", "color": _NONE, "linewidth": 7, "solid_capstyle": "butt"}),
    Entry("right if the leading bird were always named", style.INK,
          {"marker": "o", "ms": 4.8, "mfc": "white", "mec": style.INK, "mew": 1.0}),
    Entry("chance", style.INK, {"linestyle": DOTTED, "color": style.INK, "linewidth": 1.3}),
)  # fmt: skip


def _hues(rows: pl.DataFrame, models: Sequence[str]) -> dict[str, style.Hue]:
    """Colours of the methods; a matcher that is not among them gets the next colour."""
    more = (model_of(m) for m in rows["matcher"].drop_nulls().unique(maintain_order=True))
    return style.model_colours([*models, *(m for m in more if m not in models)])


def _in_order(found: pl.Series, names: Sequence[str]) -> list[str | None]:
    known = set(found)
    return [n for n in names if n in known] + sorted((k for k in known if k not in names), key=str)


def _bar_names(axes: Axes, bars: Sequence[tuple[str, str]], room: float) -> list[str]:
    """Matcher, and way of assigning where a matcher has several."""
    out = []
    for matcher, assignment in bars:
        several = sum(m == matcher for m, _ in bars) > 1
        lines = [matcher, ASSIGNMENTS.get(assignment, assignment or "")] if several else [matcher]
        out.append("\n".join(sheet.cut(axes.figure, t, room) for t in lines))
    return out


def _bars(axes: Axes, part: pl.DataFrame, bars: Sequence[tuple[str, str]], hues: dict[str, style.Hue]) -> None:
    found = {(r["matcher"], r["assignment"]): r for r in part.iter_rows(named=True)}
    for y, bar in enumerate(bars):
        r, hue = found.get(bar), hues[model_of(bar[0])]
        if r is None or r["right"] is None or r["wrong"] is None:
            axes.annotate("–", (0, y), (2, 0), textcoords="offset points", va="center", fontsize=PT, color=hue.on_light)
            continue
        right, wrong = r["right"], r["wrong"]
        rest = max(0.0, 1 - right - wrong)
        axes.barh(y, rest, 0.56, left=right + wrong, color=_NONE, linewidth=0, zorder=1, gid="not named")
        axes.barh(y, wrong, 0.56, left=right, facecolor="white", edgecolor=hue.line, hatch="//////", linewidth=0.7,
                  zorder=2, gid="wrong")  # fmt: skip
        axes.barh(y, right, 0.56, color=hue.line, linewidth=0, zorder=2, gid="right")
        if r["right_lo"] is not None and r["right_hi"] is not None:
            axes.plot([r["right_lo"], r["right_hi"]], [y, y], color="white", linewidth=3.2, zorder=3)
            axes.plot([r["right_lo"], r["right_hi"]], [y, y], color=style.INK, linewidth=1.1, zorder=4, gid="interval")
        if r["best_right"] is not None:
            axes.plot(r["best_right"], y, "o", ms=4.8, mfc="white", mec=style.INK, mew=1.0, zorder=5, gid="best")
        if r["chance"] is not None:
            axes.plot([r["chance"]] * 2, [y - 0.36, y + 0.36], color="white", linewidth=2.4, zorder=5)
            axes.plot([r["chance"]] * 2, [y - 0.36, y + 0.36], color=style.INK, linewidth=1.3, linestyle=(0, (1, 1.2)),
                      zorder=6, gid="chance")  # fmt: skip
        for x, value in enumerate((right, wrong, rest)):
            _count(axes, x, y, _percent(value), style.INK)
    for x, word in enumerate(("right", "wrong", "none")):
        _count(axes, x, None, word, style.SOFT)
    axes.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.5))
    axes.set_xticks([0, 0.5, 1], ["0", "50", "100 %"])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _count(axes: Axes, column: int, y: float | None, text: str, colour: str) -> None:
    """A number right of the bars, in one of three columns; ``y`` of ``None`` is above them."""
    at, where = ((1, 1), "axes fraction") if y is None else ((1, y), ("axes fraction", "data"))
    shift = 72 * _COLUMNS_IN[column]
    axes.annotate(text, at, (shift, 4 if y is None else 0), xycoords=where, textcoords="offset points", ha="right",
                  va="bottom" if y is None else "center", fontsize=PT, color=colour, annotation_clip=False)  # fmt: skip


# --- calibration ------------------------------------------------------------------------------------------------------


def fig_calibration(
    frame: pl.DataFrame, *, models: Sequence[str], model: str = "rings (birdlab)", narrow: bool = False
) -> Figure:
    """Share of right leading birds against their posterior, with 95 %; on the dashed line a posterior is what it says.

    Grey bars: clips of each bin. The calibration error (ECE) stands above each panel.

    Args:
        frame: table ``ring_calibration``: ``assignment``, ``gallery``, ``ece``, ``ece_lo``, ``ece_hi``, ``lo``, ``hi``, ``n``,
            ``mean_score``, ``right`` (null: not drawn), ``right_lo``, ``right_hi``.
        models: methods in the order of the recipe, for the colour.
        model: the method whose posterior it is.
    """
    width = style.NARROW_IN if narrow else style.WIDE_IN
    rows = frame.with_columns(cs.float().fill_nan(None), cs.by_name("gallery", "assignment").cast(pl.String))
    rows = rows.drop_nulls(["mean_score", "right"])
    ways, lists = _in_order(rows["assignment"], list(ASSIGNMENTS)), _in_order(rows["gallery"], GALLERIES)
    pairs = set(rows.select("gallery", "assignment").iter_rows())
    panels = [
        _Panel(g, a, sheet.SEPARATOR.join(x for x in (g, ASSIGNMENTS.get(a or "", a) if len(ways) > 1 else None) if x))
        for a in ways for g in lists if (g, a) in pairs
    ]  # fmt: skip
    hue = style.model_colours([*models, *([model] if model not in models else [])])[model]
    heads = 3 if narrow or len(lists) > 1 else 2

    def lay_of(each: float, per_row: int, n_heads: int) -> Lay:
        return Lay(each, min(each, 2.3), per_row, 0.45, 0.22, right=0.2, top=sheet.top_of(n_heads + heads), bottom=0.44)

    def each_panel(axes: Axes, panel: _Panel, *, first: bool) -> list[Word]:
        part = rows.filter(
            pl.col("gallery").eq_missing(panel.gallery), pl.col("assignment").eq_missing(panel.assignment)
        )
        _calibration(axes, part.sort("lo"), hue)
        axes.set_xlabel("posterior of the leading bird", fontsize=PT)
        if not first:
            axes.set_yticklabels([])
        said = [Word(f"n = {int(part['n'].sum()):,}"), Word(_ece(part))]
        said = said if heads == 3 else [Word(", ".join(w.text for w in said))]
        return [*said, Word("right" if first else "")]

    bars = {"linestyle": "-", "color": "#C4CBD1", "linewidth": 6, "solid_capstyle": "butt"}
    entries = [
        Entry("clips of a bin, 95 %", style.INK, {"linestyle": "-", "color": hue.line, "linewidth": 1.2, "marker": "o", "ms": 5,
                                                  "mfc": hue.line, "mec": "white"}),
        Entry("posterior = share right", style.INK, {"linestyle": _DASHED, "color": style.SOFT, "linewidth": 0.9}),
        Entry("number of clips", style.INK, bars),
    ]  # fmt: skip
    columns = 1 if narrow else min(3, max(1, len(lists)))
    return draw_facets(
        width, panels, entries, lay_of, each_panel, "No clip has a leading bird with a posterior.", columns
    )


def _ece(part: pl.DataFrame) -> str:
    value, lo, hi = part.select("ece", "ece_lo", "ece_hi").row(0)
    if value is None:
        return "ECE –"
    return f"ECE {value:.3f}" + (f" [{lo:.3f}, {hi:.3f}]" if lo is not None and hi is not None else "")


def _calibration(axes: Axes, part: pl.DataFrame, hue: style.Hue) -> None:
    axes.plot([0, 1], [0, 1], color=style.SOFT, linewidth=0.9, linestyle=_DASHED, zorder=1, gid="equal")
    most = max(1, part["n"].max() or 1)
    for r in part.iter_rows(named=True):
        high = 0.85 * _N_IN * r["n"] / most
        axes.bar((r["lo"] + r["hi"]) / 2, high, 0.9 * (r["hi"] - r["lo"]), bottom=-_N_IN - 0.04, color="#C4CBD1",
                 linewidth=0, gid="n")  # fmt: skip
        if r["right_lo"] is not None and r["right_hi"] is not None:
            axes.plot([r["mean_score"]] * 2, [r["right_lo"], r["right_hi"]], color=hue.line, linewidth=1.2, zorder=2,
                      gid="interval")  # fmt: skip
    axes.plot(part["mean_score"], part["right"], "o", ms=5, mfc=hue.line, mec="white", mew=0.5, zorder=3, gid="bins")
    axes.set(xlim=(-0.03, 1.03), ylim=(-_N_IN - 0.05, 1.04))
    ticks = [0, 0.25, 0.5, 0.75, 1]
    axes.set_xticks(ticks, ["0", "", "0.5", "", "1"])
    axes.set_yticks(ticks, ["0 %", "", "50 %", "", "100 %"])
    axes.grid(axis="both")
