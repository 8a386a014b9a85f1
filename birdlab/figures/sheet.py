"""A sheet of panels of one size, measured in inches: heads above, a key beneath. Words are 8 pt and never under another one.

Used by the figures of individuals and behaviour, whose names (``identity · tracker · model``) are long and many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab import style
from birdlab.figures import placing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PT = 8  #: of all words
LINE_IN = 0.145  #: a line of words
SEPARATOR = " · "  #: between the parts of the name of a combination
#: Shapes of points, so that nobody needs the colour; the diamond is kept for people.
MARKERS = ("o", "s", "^", "v", "P", "X", "<", ">")
HUMAN = "human"
PERSON: dict[str, Any] = {"marker": "D", "ms": 4.2, "mfc": "none", "mec": style.INK, "mew": 0.9, "linestyle": "none"}
SLACK = 1.12  #: another page may have a wider font


@dataclass(frozen=True)
class Lay:
    """Measures of a sheet, inches: a panel, what stands around it, and how many stand in a row."""

    width: float
    height: float
    per_row: int = 1
    left: float = 0.5
    between: float = 0.22
    right: float = 0.12
    top: float = 0.34
    bottom: float = 0.42
    foot: float = 0.0

    def span(self, n: int) -> float:
        """Width of the figure with ``n`` panels."""
        columns = min(n, self.per_row)
        return self.left + columns * self.width + (columns - 1) * self.between + self.right

    def keyed(self, figure: Figure, entries: Sequence[Entry], n: int) -> tuple[Lay, Key]:
        """The same with room for a key under the panels, at least as wide as the key's words need; and the key."""
        most = figure.get_size_inches()[0]
        wanted = min(most, max(self.span(n), 3.4)) - 0.2
        key = Key.of(
            figure,
            entries,
            wanted if Key.of(figure, entries, wanted).texts == [e.text for e in entries] else most - 0.2,
        )
        wide = replace(self, foot=key.height + 0.04)
        used = key.column * key.columns + 0.2
        return (replace(wide, right=self.right + used - self.span(n)) if used > self.span(n) else wide), key

    def place(self, figure: Figure, n: int) -> list[Axes]:
        """Axes for ``n`` panels, row by row from the upper left; sets the size of the figure."""
        rows = math.ceil(n / self.per_row)
        each = self.top + self.height + self.bottom
        height = rows * each + self.foot
        width = self.span(n)
        figure.set_size_inches(width, height)
        out = []
        for i in range(n):
            row, column = divmod(i, self.per_row)
            left = self.left + column * (self.width + self.between)
            low = height - (row + 1) * each + self.bottom
            axes = figure.add_axes((left / width, low / height, self.width / width, self.height / height))
            axes.tick_params(labelsize=PT)
            out.append(axes)
        return out


def fitted(room: float, n: int, *, most: float, between: float = 0.22, per_row: int = 4) -> float:
    """Width of each of ``n`` panels (at most ``per_row`` in a row) that share ``room`` inches, at most ``most``.

    >>> round(fitted(8.0, 2, most=9.0, between=0.5), 2), fitted(8.0, 1, most=3.0)
    (3.75, 3.0)
    """
    columns = max(1, min(n, per_row))
    return min(most, (room - (columns - 1) * between) / columns)


def empty(width: float, text: str = "Nothing to draw.") -> Figure:
    """A figure that says in one line, or a few short ones, why it shows nothing."""
    import textwrap

    import matplotlib.pyplot as plt

    figure = placing.nothing(plt.figure(figsize=(width, 0.6), layout="none"), "\n".join(textwrap.wrap(text, 48)))
    figure.texts[0].set_fontsize(PT)
    return figure


def broken(figure: Figure, name: str, room: float, *, lines: int = 3, **font: Any) -> list[str]:
    """A name in at most ``lines`` lines of ``room`` inches: broken at its separators, then shortened in the middle."""
    font = {"fontsize": PT, **font}

    def fits(text: str) -> bool:
        return SLACK * placing.measure(figure, text, **font)[0] <= room

    if fits(name):
        return [name]
    out: list[str] = []
    for part in name.split(SEPARATOR):
        if out and fits(f"{out[-1]}{SEPARATOR}{part}"):
            out[-1] += f"{SEPARATOR}{part}"
        else:
            out.append(part)
    if len(out) > lines:
        out = [*out[: lines - 1], SEPARATOR.join(out[lines - 1 :])]
    return [_cut(line, fits) for line in out]


def cut(figure: Figure, text: str, room: float, **font: Any) -> str:
    """A text that is no wider than ``room`` inches: its middle goes where it is."""
    font = {"fontsize": PT, **font}
    return _cut(text, lambda t: SLACK * placing.measure(figure, t, **font)[0] <= room)


def _cut(text: str, fits: Any) -> str:
    n = len(text)
    while n > 3 and not fits(placing.shortened(text, n)):
        n -= 1
    return placing.shortened(text, n)


def widest(figure: Figure, texts: Sequence[str], **font: Any) -> float:
    """Width of the widest text with the slack that another font may need, inches; 0 without texts."""
    return SLACK * max((placing.measure(figure, t, **{"fontsize": PT, **font})[0] for t in texts), default=0.0)


@dataclass(frozen=True)
class Word:
    """A line above a panel."""

    text: str
    colour: str = style.SOFT
    weight: str = "normal"


def heads(figure: Figure, names: Sequence[str], hues: dict[str, style.Hue], room: float) -> dict[str, list[Word]]:
    """The name of each panel in bold, broken into as many lines as the longest one needs."""
    parts = {name: broken(figure, name, room, fontweight="bold") for name in names}
    most = max((len(p) for p in parts.values()), default=1)
    return {
        name: [Word("")] * (most - len(p)) + [Word(t, hues.get(name, style.NEUTRAL).on_light, "bold") for t in p]
        for name, p in parts.items()
    }


def write_head(axes: Axes, words: Sequence[Word], *, left_in: float = 0.0) -> None:
    """Write lines above the axes, the last one lowest."""
    for i, word in enumerate(reversed(words)):
        if word.text:
            axes.annotate(word.text, (0, 1), (-72 * left_in, 4 + i * LINE_IN * 72), xycoords="axes fraction",
                          textcoords="offset points", va="bottom", fontsize=PT, color=word.colour,
                          fontweight=word.weight, annotation_clip=False)  # fmt: skip


def top_of(n_lines: int) -> float:
    """Room above a panel for as many lines, inches."""
    return n_lines * LINE_IN + 0.14


@dataclass(frozen=True)
class Entry:
    """One line of a key: its words, their colour, and how its sample is drawn (options of a line)."""

    text: str
    colour: str = style.INK
    sample: dict[str, Any] = field(default_factory=dict)


_SAMPLE_IN, _PAD_IN, _ROW_IN = 0.24, 0.08, 0.165


@dataclass(frozen=True)
class Key:
    """Entries in columns of one width, in their order, row by row."""

    entries: Sequence[Entry]
    texts: Sequence[str]
    column: float
    columns: int

    @classmethod
    def of(cls, figure: Figure, entries: Sequence[Entry], room: float, *, one_column: bool = False) -> Key:
        """Measure the key for ``room`` inches; texts that are wider are shortened."""
        # Many entries stand in two columns, if their texts stay long enough for that.
        for room_of_one, lengths in (
            (room / 2 if len(entries) > 5 and not one_column else 0.0, (1000, 48, 40)),
            (room, (1000, *range(64, 8, -4))),
        ):
            for n in lengths:
                texts = [placing.shortened(e.text, n) for e in entries]
                column = _SAMPLE_IN + 2 * _PAD_IN + widest(figure, texts) + 0.06
                if column <= room_of_one:
                    break
            if column <= room_of_one:
                break
        columns = 1 if one_column else max(1, min(len(entries), int((room + 0.06) / column)))
        return cls(entries, texts, column, columns)

    @property
    def height(self) -> float:
        """Inches; 0 without entries."""
        return math.ceil(len(self.entries) / self.columns) * _ROW_IN + 0.06 if self.entries else 0.0

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw it with its upper left corner at a point, inches from the lower left of the figure."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        wide, high = figure.get_size_inches()
        for i, (entry, text) in enumerate(zip(self.entries, self.texts, strict=True)):
            row, column = divmod(i, self.columns)
            x, y = left + column * self.column, top - (row + 0.5) * _ROW_IN
            options = {"linestyle": "none", **entry.sample}
            is_line = options["linestyle"] not in ("none", "None", "")
            xs = [x, x + _SAMPLE_IN / 2, x + _SAMPLE_IN] if is_line else [x + _SAMPLE_IN / 2]
            if "hatch" in options:
                figure.add_artist(Rectangle((x / wide, (y - 0.045) / high), _SAMPLE_IN / wide, 0.09 / high, gid="sample",
                                            facecolor="white", edgecolor=options["color"], linewidth=0.5,
                                            hatch=options["hatch"]))  # fmt: skip
                figure.text(
                    (x + _SAMPLE_IN + _PAD_IN) / wide, y / high, text, va="center", fontsize=PT, color=entry.colour
                )
                continue
            if is_line and options.get("marker"):
                options["markevery"] = [1]
            figure.add_artist(Line2D([v / wide for v in xs], [y / high] * len(xs), gid="sample", **options))
            figure.text((x + _SAMPLE_IN + _PAD_IN) / wide, y / high, text, va="center", fontsize=PT, color=entry.colour)


def foot(figure: Figure, text: str, left: float, *, bottom: float = 0.05) -> None:
    """A soft line at the lower edge, inches."""
    wide, high = figure.get_size_inches()
    figure.text(left / wide, bottom / high, text, fontsize=PT, color=style.SOFT, va="bottom", linespacing=1.2)


def wrapped(figure: Figure, text: str, room: float) -> list[str]:
    """A sentence in lines of at most ``room`` inches; empty for an empty one."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and SLACK * placing.measure(figure, longer, fontsize=PT)[0] <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def apart(at: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights moved as little as needed so that neighbours lie ``gap`` apart, within ``low`` and ``high`` where that fits.

    >>> apart([0.0, 0.1, 2.0], 1.0, -5.0, 5.0)
    [-0.45, 0.55, 2.0]
    """
    order = sorted(range(len(at)), key=lambda i: at[i])
    groups: list[list[float]] = []  # of each: sum of wished starts, number of members
    for k, i in enumerate(order):
        groups.append([at[i], 1, k])
        while (
            len(groups) > 1
            and groups[-1][0] / groups[-1][1] - groups[-2][0] / groups[-2][1]
            < gap * (groups[-2][1] + groups[-1][1]) / 2
        ):
            last = groups.pop()
            groups[-1] = [groups[-1][0] + last[0], groups[-1][1] + last[1], groups[-1][2]]
    out = [0.0] * len(at)
    for total, n, first in groups:
        middle, half = total / n, gap * (n - 1) / 2
        middle = min(max(middle, low + half), high - half) if high - low >= 2 * half else middle
        for j in range(int(n)):
            out[order[int(first) + j]] = round(middle - half + j * gap, 9)
    return out


def stepped(value: float, steps: int = 20) -> float:
    """The nearest of a few steps from 0 to 1: few shades stay exact in a picture with a small palette.

    >>> stepped(0.33), stepped(1.2)
    (0.35, 1.0)
    """
    return round(min(max(value, 0.0), 1.0) * steps) / steps


def marker_of(models: Sequence[str]) -> dict[str, str]:
    """The shape of each model's points, by its place.

    >>> marker_of(["a", "b"])
    {'a': 'o', 'b': 's'}
    """
    return {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(models)}


def chosen(frame: pl.DataFrame, models: Sequence[str], column: str = "combination") -> list[str]:
    """Those of the models that have rows, in their order."""
    have = set(frame[column].drop_nulls().to_list())
    return [m for m in models if m in have]


def bare(axes: Axes) -> None:
    """No spines and no tick marks; words of the ticks in ink."""
    axes.tick_params(length=0, colors=style.INK, labelsize=PT)
    for spine in axes.spines.values():
        spine.set_visible(False)
