"""What stands on a drawing: its texts and where they lie, its lines by id, and whether the texts fit."""

from __future__ import annotations

import itertools
from typing import Any

from birdlab import style
from birdlab.figures import sheet


def texts(figure: Any) -> list[tuple[Any, Any]]:
    """Every text that is seen, with its box in px."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    found = list(figure.texts)
    for axes in figure.axes:
        found += [*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [label for at, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
                      if low <= at <= high]  # fmt: skip
    return [(t, t.get_window_extent(renderer)) for t in found if t.get_visible() and t.get_text().strip()]


def words(figure: Any) -> list[str]:
    return [text.get_text() for text, _ in texts(figure)]


def by_gid(axes: Any, gid: str) -> list[Any]:
    return [drawn for drawn in axes.lines if drawn.get_gid() == gid]


def points(axes: Any, gid: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for drawn in by_gid(axes, gid) for x, y in zip(*drawn.get_data(), strict=True)]


def check_texts(figure: Any, *, narrow: bool) -> None:
    """No text lies over another or leaves the drawing, all have the size of the sheet, and the page is wide enough."""
    width, height = figure.get_size_inches()
    assert width <= (style.NARROW_IN if narrow else style.WIDE_IN) + 1e-9
    found = texts(figure)
    assert {t.get_fontsize() for t, _ in found} == {sheet.PT}
    for text, box in found:
        inside = (
            box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width * figure.dpi + 1 and box.y1 <= height * figure.dpi + 1
        )
        assert inside, f"{text.get_text()!r} leaves the drawing: {box}"
    for (a, one), (b, other) in itertools.combinations(found, 2):
        over_x = min(one.x1, other.x1) - max(one.x0, other.x0)
        over_y = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert over_x <= 1 or over_y <= 1, f"{a.get_text()!r} over {b.get_text()!r}"
