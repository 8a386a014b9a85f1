"""Brushes of the made study: noise, curves, leaves, branches, wood, on an 8-bit BGR canvas.

Everything is drawn by OpenCV from numbers of a seeded numpy stream, so a scene depends on its seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Color = tuple[float, float, float]

#: Size of every made frame, px (4K).
WIDTH, HEIGHT = 3840, 2160
#: Fixed-point bits of OpenCV's sub-pixel drawing.
_SHIFT = 4


class Perch(NamedTuple):
    """A place for a bird's feet, px; ``kind`` is perch, ground, cling or air."""

    x: float
    y: float
    kind: str


@dataclass
class Canvas:
    """What is painted so far: the picture, what stands in front of the birds, and where birds can sit.

    Args:
        image: H×W×3, uint8, BGR.
        front: H×W, uint8; 255 where something hides a bird.
        perches: places for birds.
        unit: length of a bird from bill to tail, px; everything in focus is sized by it.
    """

    image: np.ndarray
    front: np.ndarray
    unit: float
    perches: list[Perch] = field(default_factory=list)


def stream(*key: int) -> np.random.Generator:
    """A PCG64 stream of its own for ``key`` (seed, session, frame, …); equal keys give equal numbers.

    >>> float(stream(1, 2).random()) == float(stream(1, 2).random()) != float(stream(2, 1).random())
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def rgb(text: str) -> Color:
    """``#rrggbb`` as B, G, R in [0, 255].

    >>> rgb("#ff8000")
    (0.0, 128.0, 255.0)
    """
    return float(int(text[5:7], 16)), float(int(text[3:5], 16)), float(int(text[1:3], 16))


def mix(a: Color, b: Color, t: float) -> Color:
    """The colour ``t`` of the way from ``a`` to ``b``."""
    return tuple((1 - t) * p + t * q for p, q in zip(a, b, strict=True))  # type: ignore[return-value]


def vary(rng: np.random.Generator, color: Color, amount: float = 0.12) -> Color:
    """A neighbour of ``color``: lighter or darker, a little warmer or colder."""
    light = 1 + rng.normal(0, amount)
    tint = rng.normal(0, amount / 4, 3)
    return tuple(float(np.clip(c * (light + t), 0, 255)) for c, t in zip(color, tint, strict=True))  # type: ignore[return-value]


def cloud(
    rng: np.random.Generator, height: int, width: int, cells: tuple[float, float], octaves: int = 4
) -> np.ndarray:
    """Smooth noise with mean 0 and standard deviation 1, float32; ``cells`` are the lumps down and across."""
    import cv2

    total = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        rows = min(max(2, round(cells[0] * 2**octave)), height)
        columns = min(max(2, round(cells[1] * 2**octave)), width)
        grid = rng.standard_normal((rows, columns), dtype=np.float32)
        total += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) / 1.7**octave
    return (total - total.mean()) / max(float(total.std()), 1e-6)


def curve(points: list[tuple[float, float]] | np.ndarray, *, closed: bool = True, steps: int = 8) -> np.ndarray:
    """A smooth curve through ``points`` (Catmull–Rom), as an N×2 polygon."""
    p = np.asarray(points, float)
    p = np.vstack([p[-1], p, p[:2]]) if closed else np.vstack([p[0], p, p[-1]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    parts = []
    for a, b, c, d in zip(p[:-3], p[1:-2], p[2:-1], p[3:], strict=True):
        parts.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3))
    return np.vstack(parts) if closed else np.vstack([*parts, p[-2:-1]])


def polygon(image: np.ndarray, points: np.ndarray, color: Color | float) -> None:
    """Fill a polygon with soft edges."""
    import cv2

    fixed = np.round(np.asarray(points, float) * (1 << _SHIFT)).astype(np.int32)
    cv2.fillPoly(image, [fixed], color, cv2.LINE_AA, _SHIFT)


def line(image: np.ndarray, points: np.ndarray, color: Color | float, width: float) -> None:
    """Draw an open line of ``width`` px with soft edges."""
    import cv2

    fixed = np.round(np.asarray(points, float) * (1 << _SHIFT)).astype(np.int32)
    cv2.polylines(image, [fixed], False, color, max(1, round(width)), cv2.LINE_AA, _SHIFT)


def disc(image: np.ndarray, centre: tuple[float, float], radius: float, color: Color | float) -> None:
    """Fill a disc with soft edges."""
    import cv2

    fixed = (round(centre[0] * (1 << _SHIFT)), round(centre[1] * (1 << _SHIFT)))
    cv2.circle(image, fixed, max(1, round(radius * (1 << _SHIFT))), color, -1, cv2.LINE_AA, _SHIFT)


def textured(canvas: Canvas, outline: np.ndarray, color: Color, *, texture: np.ndarray, shade: np.ndarray) -> None:
    """Fill a polygon with ``color`` times texture and shade, both sampled over the polygon's bounding box.

    Args:
        canvas: where to paint.
        outline: N×2 polygon, px.
        color: base colour.
        texture: h×w noise, mean 0; 0.15 means 15 % lighter or darker. Stretched over the box.
        shade: h×w brightness, 1 for the plain colour. Stretched over the box.
    """
    import cv2

    height, width = canvas.image.shape[:2]
    x0, y0 = np.maximum(np.floor(outline.min(0)).astype(int) - 1, 0)
    x1, y1 = np.minimum(np.ceil(outline.max(0)).astype(int) + 2, (width, height))
    if x1 - x0 < 2 or y1 - y0 < 2:
        return
    size = (int(x1 - x0), int(y1 - y0))
    mask = np.zeros(size[::-1], np.uint8)
    polygon(mask, outline - (x0, y0), 255)
    bright = (1 + cv2.resize(texture, size)) * cv2.resize(shade.astype(np.float32), size)
    paint = np.clip(bright[..., None] * np.float32(color), 0, 255)
    patch = canvas.image[y0:y1, x0:x1]
    alpha = (mask.astype(np.float32) / 255)[..., None]
    patch[:] = np.round(patch * (1 - alpha) + paint * alpha).astype(np.uint8)


_LEAF_T = np.linspace(0, 1, 9)
_LEAF_W = np.sin(np.pi * _LEAF_T**0.8)


def leaf(
    canvas: Canvas, at: tuple[float, float], length: float, angle: float, color: Color, *, front: bool = False
) -> None:
    """One leaf from its stalk at ``at``: two halves of different brightness and a midrib."""
    direction = np.array([np.cos(angle), np.sin(angle)])
    across = np.array([-direction[1], direction[0]]) * length * 0.23
    spine = np.asarray(at) + _LEAF_T[:, None] * direction * length
    spine = spine + across * (np.sin(np.pi * _LEAF_T) * 0.3)[:, None]
    upper, lower = spine + across * _LEAF_W[:, None], spine - across * _LEAF_W[:, None]
    polygon(canvas.image, np.vstack([upper, lower[::-1]]), color)
    polygon(canvas.image, np.vstack([upper, spine[::-1]]), mix(color, (0, 0, 0), 0.22))
    if length > 40:
        line(canvas.image, spine[:-1], mix(color, (220, 240, 240), 0.25), length / 60)
    if front:
        polygon(canvas.front, np.vstack([upper, lower[::-1]]), 255)


def limb(canvas: Canvas, points: np.ndarray, widths: tuple[float, float], color: Color, *, front: bool = False) -> None:
    """A branch along ``points``, tapering, lit from above."""
    points = np.asarray(points, float)
    half = np.linspace(widths[0], widths[1], len(points))[:, None] / 2
    along = np.gradient(points, axis=0)
    normal = np.column_stack([-along[:, 1], along[:, 0]]) / np.maximum(np.linalg.norm(along, axis=1), 1e-6)[:, None]
    normal[normal[:, 1] > 0] *= -1
    for offset, size, tone in ((0, 1.0, 0.0), (0.25, 0.55, 0.16), (0.5, 0.22, 0.32)):
        centre = points + normal * half * offset
        shade = mix(mix(color, (0, 0, 0), 0.3), (200, 215, 225), tone)
        polygon(canvas.image, np.vstack([centre + normal * half * size, (centre - normal * half * size)[::-1]]), shade)
    if front:
        polygon(canvas.front, np.vstack([points + normal * half, (points - normal * half)[::-1]]), 255)


def over(image: np.ndarray, paint: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """``paint`` over ``image`` where ``alpha`` (H×W uint8) says; all three of one size."""
    import cv2

    weight = cv2.merge([alpha, alpha, alpha])
    kept = cv2.multiply(image, 255 - weight, scale=1 / 255)
    return cv2.add(kept, cv2.multiply(paint, weight, scale=1 / 255))
