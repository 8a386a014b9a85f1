"""The distance behind each kind of place: sky, hills, woods, painted at a quarter of the frame's size, out of focus."""

from __future__ import annotations

import numpy as np

from birdlab.demo.paint import HEIGHT, WIDTH, Color, cloud, mix, polygon, rgb, vary


def _far_canvas(top: Color, bottom: Color) -> np.ndarray:
    t = np.linspace(0, 1, HEIGHT // 4, dtype=np.float32)[:, None, None]
    column = np.float32(top) * (1 - t) + np.float32(bottom) * t
    return np.repeat(np.round(column), WIDTH // 4, axis=1).astype(np.uint8)


def _bokeh(
    image: np.ndarray, rng: np.random.Generator, colors: list[Color], *, n: int, size: float, band: tuple[float, float]
) -> np.ndarray:
    """Blurred foliage: many soft discs between two heights (fractions), light ones last."""
    import cv2

    height, width = image.shape[:2]
    for k in range(n):
        x, y = rng.uniform(-20, width + 20), height * rng.uniform(*band)
        tone = mix(vary(rng, colors[rng.integers(len(colors))], 0.2), (200, 235, 235), 0.25 * (k / n) * rng.random())
        radius = size * rng.uniform(0.5, 1.4)
        cv2.ellipse(
            image, (int(x), int(y)), (int(radius), int(radius * rng.uniform(0.6, 1))), 0, 0, 360, tone, -1, cv2.LINE_AA
        )
    return cv2.GaussianBlur(image, (0, 0), size * 0.42)


def _sparkle(
    image: np.ndarray, rng: np.random.Generator, color: Color, *, n: int, radius: float, band: tuple[float, float]
) -> np.ndarray:
    """Round highlights of light that falls through leaves, added to the picture."""
    import cv2

    layer = np.zeros_like(image)
    height, width = image.shape[:2]
    for _ in range(n):
        light = rng.uniform(0.08, 0.3)
        centre = (int(rng.uniform(0, width)), int(height * rng.uniform(*band)))
        cv2.circle(
            layer, centre, int(radius * rng.uniform(0.4, 1.2)), tuple(int(v * light) for v in color), -1, cv2.LINE_AA
        )
    return cv2.add(image, cv2.GaussianBlur(layer, (0, 0), 2.0))


def _ridge(image: np.ndarray, rng: np.random.Generator, color: Color, base: float, rise: float) -> None:
    height, width = image.shape[:2]
    profile = cloud(rng, 1, width, (1, 3), octaves=5)[0] * rise
    top = np.column_stack([np.arange(width), height * (base - profile)])
    polygon(image, np.vstack([top, [width, height], [0, height]]), color)


def _blurred_trunks(image: np.ndarray, rng: np.random.Generator, color: Color, *, n: int, width: float) -> None:
    height = image.shape[0]
    for x in rng.uniform(0, image.shape[1], n):
        w, slope = width * rng.uniform(0.5, 1.4), rng.normal(0, 18)
        quad = np.array([[x - w, height], [x - 0.7 * w + slope, -5], [x + 0.7 * w + slope, -5], [x + w, height]])
        polygon(image, quad, vary(rng, color, 0.2))
        polygon(
            image,
            quad[[0, 1, 1, 0]] + [[0, 0], [0, 0], [0.5 * w, 0], [0.5 * w, 0]],
            vary(rng, mix(color, (210, 220, 225), 0.18), 0.1),
        )


def far_glade(rng: np.random.Generator) -> np.ndarray:
    """A wood in summer, with light falling through the leaves."""
    import cv2

    image = _far_canvas(rgb("#8fae8a"), rgb("#5d7a3e"))
    image = _bokeh(
        image, rng, [rgb("#3f6b3a"), rgb("#6f9a4c"), rgb("#2f5233"), rgb("#93b562")], n=420, size=34, band=(-0.05, 0.72)
    )
    _blurred_trunks(image, rng, rgb("#5a4d3f"), n=5, width=15)
    image = cv2.GaussianBlur(image, (0, 0), 7)
    image = _bokeh(
        image, rng, [rgb("#7d9a4a"), rgb("#5f7d3a"), rgb("#a3a85c"), rgb("#6c6a3c")], n=260, size=20, band=(0.74, 1.05)
    )
    return _sparkle(image, rng, rgb("#fff4c8"), n=34, radius=17, band=(0.0, 0.65))


def far_meadow(rng: np.random.Generator) -> np.ndarray:
    """Sky with clouds, three ridges in haze, a meadow."""
    import cv2

    image = _far_canvas(rgb("#8fb8de"), rgb("#e6edf0"))
    height, width = image.shape[:2]
    puff = (
        np.clip(cloud(rng, height, width, (4, 5), octaves=5) * 0.5 - 0.1, 0, 1) * np.linspace(1, 0.2, height)[:, None]
    )
    image = (image * (1 - 0.75 * puff[..., None]) + 252 * 0.75 * puff[..., None]).astype(np.uint8)
    for k, color in enumerate(("#9fb4bf", "#7f9c95", "#66875f")):
        _ridge(image, rng, rgb(color), 0.40 + 0.06 * k, 0.025 + 0.008 * k)
        image = cv2.GaussianBlur(image, (0, 0), 2.5)
    low = image[int(0.58 * height) :].copy()
    low = _bokeh(
        low, rng, [rgb("#a9b05a"), rgb("#8a9a48"), rgb("#c2b56a"), rgb("#6f8a40")], n=900, size=13, band=(-0.02, 1.05)
    )
    fade = np.clip(np.linspace(0, 8, low.shape[0]), 0, 1)[:, None, None]
    image[int(0.58 * height) :] = (low * fade + image[int(0.58 * height) :] * (1 - fade)).astype(np.uint8)
    return image


def far_orchard(rng: np.random.Generator) -> np.ndarray:
    """Blossom and light leaves, a lawn below."""
    image = _far_canvas(rgb("#c7d3b0"), rgb("#7f9a58"))
    image = _bokeh(
        image, rng, [rgb("#7fa35a"), rgb("#5b8145"), rgb("#a9c27a"), rgb("#8aa06a")], n=380, size=44, band=(-0.05, 0.8)
    )
    _blurred_trunks(image, rng, rgb("#6b5c4c"), n=3, width=12)
    image = _bokeh(image, rng, [rgb("#86a858"), rgb("#6d8f4b"), rgb("#a4b86a")], n=200, size=30, band=(0.75, 1.05))
    image = _sparkle(image, rng, rgb("#ffd9e2"), n=22, radius=24, band=(0.05, 0.6))
    return _sparkle(image, rng, rgb("#fffbe0"), n=26, radius=28, band=(0.0, 0.5))


def far_pines(rng: np.random.Generator) -> np.ndarray:
    """Dark conifers, trunks and a brown forest floor."""
    import cv2

    image = _far_canvas(rgb("#a8b9b3"), rgb("#5b5f48"))
    image = _bokeh(
        image, rng, [rgb("#4d6a58"), rgb("#37523f"), rgb("#6d8672"), rgb("#2d4436")], n=300, size=36, band=(-0.05, 0.7)
    )
    _blurred_trunks(image, rng, rgb("#5f4c40"), n=9, width=14)
    image = cv2.GaussianBlur(image, (0, 0), 5)
    image = _bokeh(
        image, rng, [rgb("#6b5f45"), rgb("#7d6f4c"), rgb("#57603f"), rgb("#8d7a52")], n=320, size=18, band=(0.78, 1.05)
    )
    return _sparkle(image, rng, rgb("#e8f2ea"), n=28, radius=15, band=(0.0, 0.6))
