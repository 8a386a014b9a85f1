"""Photographs with boxes and outlines drawn over them: the picture is a JPEG, the marks are SVG and scale with it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from birdlab.errors import ParameterError, Problem
from birdlab.report.html import Html, el, join, rich
from birdlab.style import MARKS, Hue

Size = Literal["small", "big", "full"]
#: Width of a panel on a wide page, CSS px: text and hairlines of an overlay are scaled by it.
SHOWN_WIDTH: dict[str, int] = {"small": 205, "big": 425, "full": 864}


@dataclass(frozen=True)
class Box:
    """A box in pixels of the panel's picture; ``kind`` is a key of :data:`birdlab.style.MARKS`, ``text`` stands above it."""

    x: float
    y: float
    w: float
    h: float
    kind: str = "hit"
    text: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture of a gallery, already cropped to what is shown.

    Args:
        image_jpeg: bytes of a JPEG file.
        width, height: its size, px.
        boxes: drawn over it, in its own pixels.
        caption: first sentence in bold when ``**…**``; ``alt`` says the same to who cannot see it.
        size: a quarter, half or all of the width.
        polygons: outlines of masks, each a kind and its corners in px.
    """

    image_jpeg: bytes
    width: int
    height: int
    boxes: list[Box] = field(default_factory=list)
    caption: str = ""
    alt: str = ""
    size: Size = "small"
    polygons: list[tuple[str, list[tuple[float, float]]]] = field(default_factory=list)


def check_panels(panels: Sequence[Panel]) -> None:
    """Raise one ParameterError with everything that is wrong with the panels."""
    problems = []
    for i, panel in enumerate(panels):
        where = f"panel {i}"
        if panel.image_jpeg[:2] != b"\xff\xd8":
            problems.append(Problem("not_jpeg", "bytes that are not a JPEG", "image_jpeg as JPEG bytes", record=where))
        if panel.width < 1 or panel.height < 1:
            problems.append(
                Problem("bad_size", f"{panel.width} x {panel.height}", "the picture's size in px", record=where)
            )
        if not panel.alt.strip():
            problems.append(
                Problem("no_alt", "no alt text", "what the picture shows, in words", record=where, key="alt")
            )
        if panel.size not in SHOWN_WIDTH:
            problems.append(
                Problem("bad_size", repr(panel.size), "one of " + ", ".join(SHOWN_WIDTH), record=where, key="size")
            )
        for kind in sorted(_kinds(panel) - set(MARKS)):
            problems.append(Problem("unknown_kind", repr(kind), "one of " + ", ".join(MARKS), record=where, key="kind"))
    if problems:
        raise ParameterError(problems)


def to_html(panels: Sequence[Panel], hues: Mapping[str, Hue]) -> Html:
    """Key and list of pictures."""
    if not panels:
        return el("p", "No picture to show.", cls="bl-fn")
    return join(key(panels), el("ul", *[_item(panel, hues) for panel in panels], cls="bl-gal"))


def key(panels: Sequence[Panel]) -> Html | None:
    """The marks that the panels use, each with its word, in the order of :data:`birdlab.style.MARKS`."""
    used = set().union(*(_kinds(p) for p in panels)) if panels else set()
    entries: dict[str, Html] = {}
    for kind, mark in MARKS.items():
        if kind in used and mark.word not in entries:
            sample = _rect(5, 4, 24, 12, kind)
            swatch = el(
                "svg", el("rect", width=34, height=20, fill="#6d8299"), sample, width=34, height=20, aria_hidden="true"
            )
            entries[mark.word] = el("span", swatch, " ", mark.word)
    return el("p", *entries.values(), cls="bl-key") if entries else None


def as_json(panels: Sequence[Panel], files: Sequence[str]) -> list[dict[str, Any]]:
    """Everything that was drawn, for ``figures/<id>.json``."""
    return [
        {
            "file": name,
            "width": p.width,
            "height": p.height,
            "size": p.size,
            "caption": p.caption,
            "alt": p.alt,
            "boxes": [vars(b) for b in p.boxes],
            "polygons": [{"kind": kind, "points": [list(point) for point in points]} for kind, points in p.polygons],
        }
        for p, name in zip(panels, files, strict=True)
    ]


def _kinds(panel: Panel) -> set[str]:
    return {b.kind for b in panel.boxes} | {kind for kind, _ in panel.polygons}


def _item(panel: Panel, hues: Mapping[str, Hue]) -> Html:
    uri = "data:image/jpeg;base64," + base64.b64encode(panel.image_jpeg).decode("ascii")
    image = el("img", src=uri, width=panel.width, height=panel.height, alt=panel.alt)
    marks = [_outline(kind, points) for kind, points in panel.polygons]
    for box in panel.boxes:
        marks += [_rect(box.x, box.y, box.w, box.h, box.kind), _tag(box, panel)]
    overlay = (
        el("svg", *marks, viewBox=f"0 0 {panel.width} {panel.height}", aria_hidden="true", focusable="false")
        if marks
        else None
    )
    caption = el("p", _caption(panel.caption, hues)) if panel.caption else None
    return el("li", el("div", image, overlay, cls="ph"), caption, cls=None if panel.size == "small" else panel.size)


def _caption(text: str, hues: Mapping[str, Hue]) -> Html:
    if text.startswith("**") and "**" in text[2:]:
        bold, _, rest = text[2:].partition("**")
        return join(el("b", rich(bold, hues, references=False)), rich(rest, hues, references=False))
    return rich(text, hues, references=False)


def _rect(x: float, y: float, w: float, h: float, kind: str) -> Html:
    mark, at = MARKS[kind], {"x": _px(x), "y": _px(y), "width": _px(w), "height": _px(h)}
    line = el("rect", **at, cls="k", stroke=mark.stroke, stroke_width=mark.width, stroke_dasharray=mark.dash or None)
    return join(el("rect", **at, cls="c"), line)


def _outline(kind: str, points: Sequence[tuple[float, float]]) -> Html:
    mark, at = MARKS[kind], " ".join(f"{_px(x)},{_px(y)}" for x, y in points)
    line = el(
        "polygon", points=at, cls="k", stroke=mark.stroke, stroke_width=mark.width, stroke_dasharray=mark.dash or None
    )
    return join(el("polygon", points=at, cls="c"), el("polygon", points=at, cls="f", fill=mark.stroke), line)


def _tag(box: Box, panel: Panel) -> Html | None:
    if not box.text:
        return None
    scale = panel.width / SHOWN_WIDTH[panel.size]
    size = 11.5 * scale
    above = box.y - 4 * scale
    y = above if above - size > 0 else min(box.y + box.h + size + 2 * scale, panel.height - 3 * scale)
    end = box.x > panel.width * 0.7
    x = min(box.x + box.w, panel.width) if end else max(box.x, 0)
    return el("text", box.text, x=_px(x), y=_px(y), font_size=_px(size), text_anchor="end" if end else None)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
