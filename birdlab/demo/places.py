"""Four kinds of place: glade, meadow, orchard and pine wood.

What stands at the birds' distance (nest box, trunk, rails, feeder, branches, grass) is painted in focus at full size,
with the perches it offers; the distance behind it comes from :mod:`birdlab.demo.distance`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from birdlab.demo.distance import far_glade, far_meadow, far_orchard, far_pines
from birdlab.demo.paint import (
    HEIGHT,
    WIDTH,
    Canvas,
    Color,
    Perch,
    cloud,
    leaf,
    limb,
    line,
    mix,
    polygon,
    rgb,
    textured,
    vary,
)


def _trunk(canvas: Canvas, rng: np.random.Generator, x: float, width: float, color: Color) -> None:
    y = np.linspace(-20, HEIGHT + 20, 14)
    edge = width / 2 * (1 + 0.28 * (y / HEIGHT) ** 3) + rng.normal(0, width * 0.015, (2, 14))
    lean = x + rng.normal(0, 0.05) * (y - HEIGHT / 2)
    outline = np.vstack([np.column_stack([lean - edge[0], y]), np.column_stack([lean + edge[1], y])[::-1]])
    bark = 0.16 * cloud(rng, 1080, 240, (10, 30), octaves=4) - 0.22 * (cloud(rng, 1080, 240, (7, 26), octaves=3) > 1.0)
    turn = np.linspace(-0.95, 0.95, 64)
    shade = (0.5 + 0.62 * np.sqrt(1 - (turn - 0.25) ** 2 / 1.5))[None, :]
    textured(canvas, outline, color, texture=bark.astype(np.float32), shade=shade)
    canvas.perches[:] = [p for p in canvas.perches if abs(p.x - x) > 0.62 * width]


def _branch(
    canvas: Canvas, rng: np.random.Generator, start: tuple[float, float], angle: float, length: float, **look
) -> None:
    """A branch that wanders and forks; level stretches become perches. ``look``: color, width, leaves, depth, front."""
    width, depth = look["width"], look.get("depth", 2)
    n = 9
    turns = angle + np.cumsum(rng.normal(0, 0.1, n)) + rng.normal(0, 0.08)
    steps = length / n * np.column_stack([np.cos(turns), np.sin(turns)])
    points = np.vstack([start, np.asarray(start) + np.cumsum(steps, 0)])
    limb(canvas, points, (width, 0.45 * width), look["color"], front=look.get("front", False))
    for k in range(2, n + 1):
        thick = width * (1 - 0.55 * k / n)
        if abs(np.sin(turns[k - 1])) < 0.6 and thick > 0.05 * canvas.unit:
            canvas.perches.append(Perch(points[k][0], points[k][1] - 0.42 * thick, "perch"))
        if depth > 0 and rng.random() < 0.5:
            side = rng.choice([-1, 1]) * rng.uniform(0.4, 0.9)
            _branch(
                canvas,
                rng,
                tuple(points[k]),
                turns[k - 1] + side,
                length * rng.uniform(0.3, 0.5),
                **{**look, "width": 0.5 * thick, "depth": depth - 1},
            )
        for _ in range(rng.poisson(look.get("leaves", 0.0))):
            look["foliage"](canvas, rng, points[k], turns[k - 1])


def _broad_leaves(*names: str, size: float = 0.36) -> Callable[..., None]:
    def draw(canvas: Canvas, rng: np.random.Generator, at: np.ndarray, angle: float) -> None:
        color = vary(rng, rgb(names[rng.integers(len(names))]), 0.14)
        spot = tuple(np.asarray(at) + rng.normal(0, 0.08 * canvas.unit, 2))
        leaf(
            canvas,
            spot,
            canvas.unit * size * rng.uniform(0.6, 1.25),
            rng.normal(1.1, 0.9),
            color,
            front=rng.random() < 0.35,
        )

    return draw


def _needles(*names: str) -> Callable[..., None]:
    def draw(canvas: Canvas, rng: np.random.Generator, at: np.ndarray, angle: float) -> None:
        color, front = rgb(names[rng.integers(len(names))]), rng.random() < 0.4
        for turn in rng.uniform(-1.1, 1.1, 16) + angle:
            reach = canvas.unit * rng.uniform(0.22, 0.5)
            tip = np.asarray(at) + reach * np.array([np.cos(turn), np.sin(turn)])
            line(canvas.image, np.array([at, tip]), vary(rng, color, 0.2), max(2, 0.02 * canvas.unit))
            if front:
                line(canvas.front, np.array([at, tip]), 255, max(2, 0.02 * canvas.unit))

    return draw


def _plank(
    canvas: Canvas,
    rng: np.random.Generator,
    outline: np.ndarray,
    color: Color,
    *,
    upright: bool = True,
    shade: np.ndarray | None = None,
) -> None:
    cells = (2, 26) if upright else (26, 2)
    grain = 0.09 * cloud(rng, 240, 240, cells, octaves=3) + 0.05 * cloud(rng, 240, 240, (3, 3))
    textured(
        canvas, outline, color, texture=grain.astype(np.float32), shade=np.ones((2, 2)) if shade is None else shade
    )


def _nest_box(canvas: Canvas, rng: np.random.Generator, x: float, y: float, color: Color) -> None:
    """A wooden nest box, its roof's middle at (x, y); the roof and the front are perches."""
    u = canvas.unit
    w, h = 1.05 * u, 1.75 * u
    soft = np.linspace(1.1, 0.86, 8)[:, None] * np.linspace(1.05, 0.92, 8)[None, :]
    side = np.array(
        [[x + w / 2, y + 0.1 * u], [x + w / 2 + 0.3 * u, y], [x + w / 2 + 0.3 * u, y + 0.95 * h], [x + w / 2, y + h]]
    )
    _plank(canvas, rng, side, mix(color, (20, 20, 20), 0.42))
    front = np.array([[x - w / 2, y + 0.1 * u], [x + w / 2, y + 0.1 * u], [x + w / 2, y + h], [x - w / 2, y + h]])
    _plank(canvas, rng, front, color, shade=soft)
    shadow = np.array(
        [[x - w / 2, y + 0.1 * u], [x + w / 2, y + 0.1 * u], [x + w / 2, y + 0.26 * u], [x - w / 2, y + 0.2 * u]]
    )
    _plank(canvas, rng, shadow, mix(color, (15, 15, 18), 0.5))
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.column_stack([np.cos(turn), np.sin(turn)])
    hole = np.array([x, y + 0.62 * u])
    polygon(canvas.image, hole + 0.225 * u * ring, mix(color, (230, 240, 245), 0.25))
    polygon(canvas.image, hole + 0.2 * u * ring, rgb("#17120f"))
    polygon(canvas.image, hole + 0.2 * u * ring * [0.85, 0.35] + [0.02 * u, 0.1 * u], rgb("#33271f"))
    roof = np.array(
        [
            [x - 0.68 * u, y + 0.13 * u],
            [x - 0.6 * u, y - 0.03 * u],
            [x + 0.95 * u, y - 0.12 * u],
            [x + 0.72 * u, y + 0.13 * u],
        ]
    )
    _plank(canvas, rng, roof, mix(color, rgb("#8d8f90"), 0.5), upright=False, shade=np.linspace(1.25, 0.75, 6)[:, None])
    for screw in (-0.42, 0.42):
        polygon(canvas.image, np.array([x + screw * w, y + 0.92 * h]) + 0.02 * u * ring, rgb("#4b4d50"))
    canvas.perches += [Perch(x + k * u, y - 0.05 * u - 0.04 * k * u, "perch") for k in (-0.4, 0.1, 0.55)] * 2
    canvas.perches += [Perch(x + 0.02 * u, y + 0.86 * u, "cling")] * 2


def _ground(canvas: Canvas, rng: np.random.Generator, top: float, colors: list[Color], n: int) -> None:
    """Grass in focus from ``top`` (fraction of the height) downwards, and places on it."""
    u = canvas.unit
    for y in np.sort(top + (1.04 - top) * rng.beta(2.2, 1.0, n)):
        x = rng.uniform(-40, WIDTH + 40)
        length, bend = u * rng.uniform(0.25, 0.8) * (0.5 + y), rng.normal(0, 0.28)
        root = np.array([x, y * HEIGHT + 20])
        tip = root + length * np.array([bend, -1])
        middle = (root + tip) / 2 + [-bend * 0.2 * length, 0]
        wide = max(2.0, 0.022 * u * rng.uniform(0.7, 1.5))
        color = vary(rng, colors[rng.integers(len(colors))], 0.16)
        blade = np.vstack([root - [wide, 0], middle - [0.7 * wide, 0], tip, middle + [0.7 * wide, 0], root + [wide, 0]])
        polygon(canvas.image, blade, color)
        if rng.random() < 0.3:
            polygon(canvas.front, blade, 255)
    for _ in range(6):
        canvas.perches.append(Perch(rng.uniform(0.08, 0.92) * WIDTH, rng.uniform(top + 0.05, 0.95) * HEIGHT, "ground"))


def _rail_fence(canvas: Canvas, rng: np.random.Generator, y: float, color: Color) -> None:
    u = canvas.unit
    slope = rng.normal(0, 0.015)
    shade = np.linspace(1.22, 0.62, 8)[:, None]
    for level in (0.0, 1.25):
        x = np.array([-20, WIDTH + 20])
        upper = y + level * u + slope * (x - WIDTH / 2)
        rail = np.array([[x[0], upper[0]], [x[1], upper[1]], [x[1], upper[1] + 0.3 * u], [x[0], upper[0] + 0.3 * u]])
        _plank(canvas, rng, rail, color, upright=False, shade=shade)
        canvas.perches += [
            Perch(px, y + level * u + slope * (px - WIDTH / 2) + 4, "perch")
            for px in rng.uniform(150, WIDTH - 150, 5 if level == 0 else 2)
        ]
    for k in range(-1, 5):
        x = (k + rng.uniform(0.2, 0.4)) * WIDTH / 3.6
        top = y - 0.55 * u + slope * (x - WIDTH / 2)
        post = np.array(
            [
                [x - 0.24 * u, top + 0.05 * u],
                [x, top - 0.03 * u],
                [x + 0.24 * u, top + 0.05 * u],
                [x + 0.26 * u, HEIGHT + 9],
                [x - 0.26 * u, HEIGHT + 9],
            ]
        )
        _plank(
            canvas,
            rng,
            post,
            mix(color, (30, 40, 45), 0.15),
            shade=(0.6 + 0.6 * np.sin(np.linspace(0.5, 2.9, 12)))[None, :],
        )
        canvas.perches.append(Perch(x, top + 2, "perch"))


def _post(canvas: Canvas, rng: np.random.Generator, x: float, y: float, color: Color) -> None:
    u = canvas.unit
    outline = np.array([[x - 0.17 * u, y], [x + 0.17 * u, y], [x + 0.19 * u, HEIGHT + 9], [x - 0.19 * u, HEIGHT + 9]])
    _plank(canvas, rng, outline, color, shade=(0.6 + 0.6 * np.sin(np.linspace(0.5, 2.9, 12)))[None, :])


def _feeder(canvas: Canvas, rng: np.random.Generator, x: float, y: float) -> None:
    """A hanging seed feeder: wire, roof, tube with seed, tray; tray and roof are perches."""
    u = canvas.unit
    line(canvas.image, np.array([[x, -10], [x, y]]), rgb("#3c3d3f"), 0.025 * u)
    across = (0.55 + 0.6 * np.sin(np.linspace(0.4, 2.8, 16)))[None, :]
    seed = (0.28 * cloud(rng, 300, 120, (60, 24), octaves=2)).astype(np.float32)
    tube = np.array(
        [
            [x - 0.27 * u, y + 0.2 * u],
            [x + 0.27 * u, y + 0.2 * u],
            [x + 0.27 * u, y + 1.6 * u],
            [x - 0.27 * u, y + 1.6 * u],
        ]
    )
    textured(canvas, tube, rgb("#a98d5f"), texture=seed, shade=across)
    glint = np.array(
        [
            [x - 0.16 * u, y + 0.25 * u],
            [x - 0.1 * u, y + 0.25 * u],
            [x - 0.1 * u, y + 1.5 * u],
            [x - 0.16 * u, y + 1.5 * u],
        ]
    )
    polygon(canvas.image, glint, rgb("#d8cdb4"))
    roof = np.array(
        [[x - 0.6 * u, y + 0.3 * u], [x - 0.1 * u, y - 0.1 * u], [x + 0.1 * u, y - 0.1 * u], [x + 0.6 * u, y + 0.3 * u]]
    )
    _plank(canvas, rng, roof, rgb("#5f7a63"), upright=False, shade=across)
    tray = np.array(
        [
            [x - 0.85 * u, y + 1.6 * u],
            [x + 0.85 * u, y + 1.6 * u],
            [x + 0.75 * u, y + 1.78 * u],
            [x - 0.75 * u, y + 1.78 * u],
        ]
    )
    _plank(canvas, rng, tray, rgb("#7a5f45"), upright=False, shade=across)
    canvas.perches += [Perch(x + k * u, y + 1.6 * u, "perch") for k in (-0.62, 0.6)] * 3 + [
        Perch(x, y - 0.08 * u, "perch")
    ]


def _near_glade(canvas: Canvas, rng: np.random.Generator) -> None:
    u = canvas.unit
    x = WIDTH * rng.uniform(0.2, 0.36)
    _ground(canvas, rng, 0.86, [rgb("#6f8a3c"), rgb("#8aa04a"), rgb("#57702f"), rgb("#a8a05a")], 900)
    bark = rgb("#6d5a49")
    look = {
        "color": bark,
        "width": 0.42 * u,
        "leaves": 0.8,
        "foliage": _broad_leaves("#5f8a35", "#7aa544", "#4a7030", "#93b250"),
    }
    _branch(canvas, rng, (x + 0.5 * u, HEIGHT * rng.uniform(0.3, 0.42)), -0.12, 10.5 * u, **look)
    _branch(canvas, rng, (x - 0.5 * u, HEIGHT * rng.uniform(0.18, 0.3)), 3.3, 5 * u, **{**look, "width": 0.3 * u})
    _branch(canvas, rng, (WIDTH + 40, HEIGHT * rng.uniform(0.55, 0.7)), 3.25, 5.5 * u, **{**look, "width": 0.3 * u})
    _trunk(canvas, rng, x, 2.6 * u, bark)
    _nest_box(canvas, rng, x + rng.uniform(-0.1, 0.25) * u, HEIGHT * rng.uniform(0.44, 0.52), rgb("#a9845a"))


def _near_meadow(canvas: Canvas, rng: np.random.Generator) -> None:
    u = canvas.unit
    x, y = WIDTH * rng.uniform(0.58, 0.72), HEIGHT * rng.uniform(0.3, 0.38)
    _post(canvas, rng, x, y + 1.2 * u, rgb("#7b6a58"))
    _nest_box(canvas, rng, x, y, rgb("#b39468"))
    _rail_fence(canvas, rng, HEIGHT * rng.uniform(0.62, 0.68), rgb("#a39a8c"))
    _ground(canvas, rng, 0.8, [rgb("#a9a452"), rgb("#8d9a45"), rgb("#c5b56c"), rgb("#6f8540")], 1700)


def _near_orchard(canvas: Canvas, rng: np.random.Generator) -> None:
    u = canvas.unit
    look = {
        "color": rgb("#74665a"),
        "width": 0.3 * u,
        "leaves": 0.9,
        "foliage": _broad_leaves("#7aa04c", "#5f8840", "#9aba62", "#87a850"),
    }
    _feeder(canvas, rng, WIDTH * rng.uniform(0.5, 0.66), HEIGHT * rng.uniform(0.2, 0.26))
    _branch(canvas, rng, (-60, HEIGHT * rng.uniform(0.12, 0.2)), 0.05, 0.75 * WIDTH, **look)
    _branch(canvas, rng, (-60, HEIGHT * rng.uniform(0.62, 0.74)), -0.1, 0.5 * WIDTH, **look)
    _branch(
        canvas, rng, (WIDTH + 60, HEIGHT * rng.uniform(0.72, 0.84)), 3.2, 0.42 * WIDTH, **{**look, "width": 0.24 * u}
    )


def _near_pines(canvas: Canvas, rng: np.random.Generator) -> None:
    u = canvas.unit
    bark = rgb("#6a4f3f")
    look = {
        "color": bark,
        "width": 0.26 * u,
        "leaves": 1.3,
        "foliage": _needles("#3f6147", "#55795a", "#31503c", "#6d8c63"),
    }
    x = WIDTH * rng.uniform(0.62, 0.78)
    _ground(canvas, rng, 0.88, [rgb("#7d6a45"), rgb("#8f7b50"), rgb("#5f6a3c"), rgb("#6b5638")], 500)
    for height, angle in ((0.2, 3.2), (0.42, 3.05), (0.66, 3.25), (0.3, -0.1), (0.56, 0.1)):
        _branch(canvas, rng, (x, HEIGHT * (height + rng.normal(0, 0.03))), angle, (9 if angle > 1 else 5) * u, **look)
    _trunk(canvas, rng, x, 1.9 * u, bark)
    _nest_box(canvas, rng, x - 0.1 * u, HEIGHT * rng.uniform(0.42, 0.5), rgb("#8f7a5e"))


#: Leaves of each kind of place, as painters of one tuft.
FOLIAGE: dict[str, Callable[..., None]] = {
    "glade": _broad_leaves("#6f9840", "#557f38", "#8fae58", "#a59a4c"),
    "meadow": _broad_leaves("#8f9a48", "#a9a052", "#77883c", size=0.28),
    "orchard": _broad_leaves("#6f9840", "#557f38", "#8fae58", "#b0a050"),
    "pines": _needles("#4d7050", "#3a5a42", "#6d8a60"),
}
#: Each kind of place: the painter of its distance (a quarter of the size), and of what is in focus.
PLACES: dict[str, tuple[Callable[..., np.ndarray], Callable[..., None]]] = {
    "glade": (far_glade, _near_glade),
    "meadow": (far_meadow, _near_meadow),
    "orchard": (far_orchard, _near_orchard),
    "pines": (far_pines, _near_pines),
}
