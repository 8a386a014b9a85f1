"""What the figures of re-identification share: a panel per protocol and list, its head, the key of methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.figures import sheet
from birdlab.figures.sheet import PT, Entry, Lay, Word
from birdlab.schemas.reid import GALLERIES, REID_SPLITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTTED = (0, (1, 1.6))
CHANCE = Entry("chance", style.INK, {"linestyle": DOTTED, "color": style.SOFT, "linewidth": 1.1})


class Facet(NamedTuple):
    """One panel: a protocol, and a list where there are several kinds; ``None`` is any."""

    split: str | None
    gallery: str | None
    title: str


def tidied(frame: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Rows of the given methods; not-a-number is null, protocols are text, lengths and numbers of places are floats."""
    out = frame.with_columns(
        cs.float().fill_nan(None), cs.by_name("model", "split", "gallery", require_all=False).cast(pl.String)
    )
    return out.filter(pl.col("model").is_in(list(models)))


def facets_of(rows: pl.DataFrame) -> list[Facet]:
    """Protocols in their order, in each its lists in theirs; the list is named where the frame has several.

    Args:
        rows: ``split``, and ``panel_gallery`` (null: one panel for all lists).

    >>> rows = pl.DataFrame({"split": ["open", "closed"], "panel_gallery": ["all", "all"]})
    >>> [f.title for f in facets_of(rows)]
    ['closed', 'open']
    """
    pairs = rows.select("split", "panel_gallery").unique().rows()

    def place(names: Sequence[str], name: str | None) -> tuple[int, str]:
        return (names.index(name) if name in names else len(names)), name or ""

    pairs.sort(key=lambda p: (place(REID_SPLITS, p[0]), place(GALLERIES, p[1])))
    named = len({g for _, g in pairs}) > 1
    return [Facet(s, g, " · ".join(x for x in (s, g if named else None) if x)) for s, g in pairs]


def facet_of(rows: pl.DataFrame, facet: Facet) -> pl.DataFrame:
    """The rows of a panel."""
    return rows.filter(pl.col("split").eq_missing(facet.split), pl.col("panel_gallery").eq_missing(facet.gallery))


def columns_for(facets: Sequence[Facet], narrow: bool) -> int:
    """Panels in a row: one on a phone, else the lists of a protocol side by side, or up to three protocols."""
    lists = len({f.gallery for f in facets})
    return 1 if narrow else lists if 1 < lists <= 3 else min(3, max(1, len(facets)))


def line_entries(shown: Sequence[str], models: Sequence[str], *, marked: bool) -> list[Entry]:
    """Key of methods drawn as lines."""
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    out = []
    for name in shown:
        sample: dict[str, Any] = {"linestyle": hues[name].dash, "color": hues[name].line, "linewidth": 1.8}
        if marked:
            sample |= {"marker": markers[name], "ms": 4.8, "mfc": "white", "mec": hues[name].line, "mew": 1.3}
        out.append(Entry(name, hues[name].on_light, sample))
    return out


def dot_entries(shown: Sequence[str], models: Sequence[str]) -> list[Entry]:
    """Key of methods drawn as points."""
    hues, markers = style.model_colours(models), sheet.marker_of(models)
    return [
        Entry(m, hues[m].on_light,
              {"marker": markers[m], "ms": 5.5, "mfc": hues[m].line, "mec": "white", "mew": 0.5})
        for m in shown
    ]  # fmt: skip


def count_text(part: pl.DataFrame) -> str:
    """``n = 77``, with a span where methods differ; empty where the frame does not say.

    >>> count_text(pl.DataFrame({"n": [70, 77]})), count_text(pl.DataFrame({"k": [1]}))
    ('n = 70–77', '')
    """
    known = part["n"].drop_nulls() if "n" in part.columns else pl.Series([], dtype=pl.Int64)
    if known.is_empty():
        return ""
    low, high = int(known.min()), int(known.max())
    return f"n = {low:,}" + (f"–{high:,}" if high > low else "")


def draw_facets(
    width: float,
    facets: Sequence[Any],
    entries: Sequence[Entry],
    lay_of: Callable[[float, int, int], Lay],
    draw: Callable[..., list[Word]],
    nothing: str,
    per_row: int,
    *,
    hues: dict[str, style.Hue] | None = None,
) -> Figure:
    """A sheet with a panel per facet.

    Args:
        width: of the page, inches.
        facets: with a ``title``; none gives a figure that says ``nothing``.
        entries: of the key beneath.
        lay_of: measures, from the width of a panel, panels per row and lines of the titles.
        draw: ``draw(axes, facet, first=…)`` fills a panel and returns the words under its title.
        hues: colour of a title, where it is the name of a method.
    """
    import matplotlib.pyplot as plt

    with style.rc(width):
        if not facets:
            return sheet.empty(width, nothing)
        figure = plt.figure(figsize=(width, 3), layout="none")
        draft = lay_of(1.0, per_row, 1)
        each = sheet.fitted(width - draft.left - draft.right, min(len(facets), per_row), most=4.4 if len(facets) == 1 else 3.4,
                            between=draft.between, per_row=per_row)  # fmt: skip
        names = {f: sheet.broken(figure, f.title, each, fontweight="bold") if f.title else [] for f in facets}
        most = max(map(len, names.values()))
        lay, key = lay_of(each, per_row, most).keyed(figure, entries, len(facets))
        placed = lay.place(figure, len(facets))
        for i, (axes, facet) in enumerate(zip(placed, facets, strict=True)):
            told = draw(axes, facet, first=i % per_row == 0)
            colour = (hues or {}).get(getattr(facet, "model", ""), style.NEUTRAL).on_light if hues else style.INK
            sheet.write_head(axes, [*(Word(t, colour, "bold") for t in names[facet]), *told])
        key.draw(figure, 0.1, lay.foot)
    return figure


def dash(axes: Axes, x: float, y: float, colour: str) -> None:
    """A value that is not defined."""
    axes.annotate("–", (x, y), (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=PT, color=colour)
