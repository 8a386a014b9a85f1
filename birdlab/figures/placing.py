"""Where words go in a drawing: free corners, names on lines, names beside points. Everything in inches from the lower left.

A place is taken when a line passes through it or another text stands there; a name that fits nowhere is left out, and the ordered
list beside the lines still says whose line it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from birdlab import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_SAMPLES = 240  #: points that stand for a line where collisions are looked for


class Box(NamedTuple):
    """A rectangle in inches.

    >>> Box(0, 0, 1, 1).meets(Box(0.5, 0.5, 2, 2)), Box(0, 0, 1, 1).meets(Box(1, 0, 2, 1))
    (True, False)
    """

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether the two share an area."""
        return (
            self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top
        )

    def within(self, other: Box) -> bool:
        """Whether it lies in the other one."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.bottom >= other.bottom
            and self.top <= other.top
        )

    def holds(self, points: np.ndarray) -> int:
        """How many of the points (n x 2) lie in it."""
        x, y = points[:, 0], points[:, 1]
        return int(((x > self.left) & (x < self.right) & (y > self.bottom) & (y < self.top)).sum())

    def grown(self, by: float) -> Box:
        """The same box, wider by ``by`` on every side."""
        return Box(self.left - by, self.bottom - by, self.right + by, self.top + by)


def around(x: float, y: float, size: tuple[float, float]) -> Box:
    """The box of a size centred on a point.

    >>> around(1, 1, (2, 1))
    Box(left=0.0, bottom=0.5, right=2.0, top=1.5)
    """
    return Box(x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)


def measure(figure: Figure, text: str, **font: Any) -> tuple[float, float]:
    """Width and height of a text in inches, as this figure would draw it; (0, 0) for an empty one."""
    if not text:
        return 0.0, 0.0
    words = figure.text(0, 0, text, **font)
    extent = words.get_window_extent(figure.canvas.get_renderer())
    words.remove()
    return extent.width / figure.dpi, extent.height / figure.dpi


def along(x: np.ndarray, y: np.ndarray, n: int = N_SAMPLES) -> np.ndarray:
    """``n`` points at even distances along a line, n x 2; a single point stays one.

    >>> along(np.array([0.0, 1.0]), np.array([0.0, 0.0]), 3).tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
    """
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    if len(x) < 2 or length[-1] == 0:
        return np.column_stack([x, y])[:1]
    at = np.linspace(0, length[-1], n)
    return np.column_stack([np.interp(at, length, x), np.interp(at, length, y)])


def free_corner(
    size: tuple[float, float], inside: Box, lines: Sequence[np.ndarray], taken: Iterable[Box], corners: Sequence[str]
) -> Box | None:
    """The first corner of ``inside`` where a block of this size meets no line and no other block; ``None`` if there is none.

    Args:
        corners: in order of preference, of ``lower right``, ``lower left``, ``upper right``, ``upper left``.
    """
    width, height = size
    for corner in corners:
        left = inside.right - width if "right" in corner else inside.left
        bottom = inside.top - height if "upper" in corner else inside.bottom
        box = Box(left, bottom, left + width, bottom + height)
        if (
            box.within(inside)
            and not any(box.meets(other) for other in taken)
            and not any(box.grown(0.03).holds(line) for line in lines)
        ):
            return box
    return None


def on_line(
    size: tuple[float, float], line: np.ndarray, others: Sequence[np.ndarray], taken: Sequence[Box], inside: Box
) -> Box | None:
    """Where a name stands on its own line, clear of all other lines and near the middle; else beside the line.

    Returns:
        ``None`` where no place is free of lines and texts.
    """
    rest = np.concatenate(others) if len(others) else np.empty((0, 2))
    cut = len(line) // 12
    points = line[cut : len(line) - cut : max(1, len(line) // 40)]
    width, height = size
    ways = [(0.0, 0.0), (0.05 + width / 2, 0.03 + height / 2), (-0.05 - width / 2, -0.03 - height / 2),
            (0.05 + width / 2, -0.03 - height / 2), (-0.05 - width / 2, 0.03 + height / 2)]  # fmt: skip
    middle = (inside.left + inside.right) / 2
    for n_way, (dx, dy) in enumerate(ways):
        covered = rest if n_way == 0 else np.concatenate([rest, line])
        best, most = None, -np.inf
        for x, y in points:
            box = around(x + dx, y + dy, size)
            if not box.within(inside) or any(box.meets(other) for other in taken) or box.grown(0.015).holds(covered):
                continue
            if n_way and box.grown(0.12).holds(rest):  # beside two lines it would be read as the name of either
                continue
            distance = float(np.hypot(rest[:, 0] - x, rest[:, 1] - y).min()) if len(rest) else 1.0
            # A quarter of an inch is clear; beyond it the middle is the better place.
            worth = min(distance, 0.25) - 0.1 * abs(x - middle)
            if worth > most:
                best, most = box, worth
        if best is not None:
            return best
    return None


def beside(
    size: tuple[float, float],
    point: tuple[float, float],
    marks: np.ndarray,
    taken: Sequence[Box],
    inside: Box,
    *,
    gaps: Sequence[float] = (0.07, 0.16, 0.28, 0.42, 0.6),
) -> Box | None:
    """Where a name stands beside its point: right, left, above, below, aslant, first near, then farther.

    Args:
        marks: points (n x 2) that should not be covered: other points, intervals, lines.
        gaps: distances from the point to the box that are tried.

    Returns:
        A place that meets no other text, with the fewest marks under it among the nearest such places; ``None`` if every
        place meets a text or leaves ``inside``.
    """
    x, y = point
    width, height = size
    found: tuple[int, Box] | None = None
    for gap in gaps:
        dx, dy = gap + width / 2, gap + height / 2
        ways = ((dx, 0), (-dx, 0), (0, dy), (0, -dy), (dx, dy), (-dx, dy), (dx, -dy), (-dx, -dy))
        for way_x, way_y in ways:
            box = around(x + way_x, y + way_y, size)
            if not box.within(inside) or any(box.meets(other) for other in taken):
                continue
            covered = box.holds(marks)
            if covered == 0:
                return box
            if found is None or covered < found[0]:
                found = covered, box
    return None if found is None else found[1]


def shortened(name: str, n: int) -> str:
    """A name of at most ``n`` characters; the middle goes, because names of models differ at their ends.

    >>> shortened("imageomics/bioclip-2-huge", 16), shortened("wren", 16)
    ('imageomi…-2-huge', 'wren')
    """
    if len(name) <= n:
        return name
    head = n // 2
    return f"{name[:head]}…{name[len(name) - (n - head - 1) :]}"


def nothing(figure: Figure, text: str = "Nothing to draw.") -> Figure:
    """Turn the figure into one line of words."""
    for axes in list(figure.axes):
        axes.remove()
    figure.set_layout_engine("none")
    figure.set_size_inches(figure.get_size_inches()[0], 0.6)
    figure.text(0.04, 0.7, text, va="top", color=style.SOFT)
    return figure


def name_point(
    axes: Axes,
    name: str,
    point: tuple[float, float],
    hue: style.Hue,
    *,
    marks: np.ndarray,
    taken: list[Box],
    size: tuple[float, float],
) -> None:
    """Write a model's name beside its point, with a thin line to it where the name had to move; none where there is no room.

    Args:
        axes: to draw in.
        name: of the model; shortened in the middle where it is long.
        point: in inches from the lower left corner of the axes.
        hue: of the model.
        marks: (n, 2) points in inches that the name must not cover.
        taken: boxes that are taken; the name's own is added.
        size: width and height of the axes, inches.
    """
    shown, (width, height) = shortened(name, 22), size
    inside = Box(0.03, 0.03, width - 0.02, height - 0.02)
    box = beside(measure(axes.figure, shown, fontsize=7.5, fontweight="semibold"), point, marks, taken, inside)
    if box is None:
        return
    taken.append(box.grown(0.02))
    x, y = (box.left + box.right) / 2, (box.bottom + box.top) / 2
    axes.annotate(shown, (x / width, y / height), xycoords="axes fraction", ha="center", va="center", fontsize=7.5,
                  color=hue.on_light, fontweight="semibold", zorder=6)  # fmt: skip
    near = (min(max(point[0], box.left), box.right), min(max(point[1], box.bottom), box.top))
    if math.dist(near, point) > 0.14:
        axes.plot([near[0] / width, point[0] / width], [near[1] / height, point[1] / height], color=style.EDGE,
                  linewidth=0.6, transform=axes.transAxes, zorder=1, gid="leader")  # fmt: skip
