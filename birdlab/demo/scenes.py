"""Places and sessions of the made study: four sites, each with a fixed camera per session.

A session's background is painted once: distance out of focus, then what stands at the birds' distance (nest box,
trunks, rails, branches, leaves) in focus, then leaves near the lens. Light, contrast, blur and clutter belong to the
session and are known, so that the report's findings can be held against what was planted.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from birdlab.demo.paint import (
    HEIGHT,
    WIDTH,
    Canvas,
    Perch,
    cloud,
    curve,
    leaf,
    limb,
    over,
    polygon,
    rgb,
    stream,
    textured,
    vary,
)
from birdlab.demo.places import FOLIAGE, PLACES

#: Raise when anything that is drawn changes: made studies are kept by this number.
VERSION = "6"


@dataclass(frozen=True)
class Session:
    """One recording session: where, how it was lit, and how its birds come and go. All of it is planted, known truth.

    Args:
        name: session, also the folder of its frames.
        site: site; ``kind`` is the painter that makes it.
        unit: length of a bird at the focal distance, px.
        step_s: time from one frame to the next, s.
        exposure: brightness as a factor, 1 for a well exposed picture.
        contrast: factor about middle grey.
        warmth: -1 blue to +1 orange.
        haze: share of the picture that is fog.
        blur: standard deviation of the lens blur, px.
        motion: length of the motion blur of a perched bird, px; birds in flight get four times as much.
        clutter: 0 to 1: twigs and leaves in front of and around the birds, look-alikes.
        noise: standard deviation of the sensor noise, grey levels.
        far: share of stays that are far away, whatever else holds for the bird: it is drawn
            :data:`birdlab.demo.frames.FAR_PX` long instead of about ``unit``.
        seed: of everything that is drawn.
    """

    name: str
    site: str
    kind: str
    unit: float = 190.0
    step_s: float = 30.0
    exposure: float = 1.0
    contrast: float = 1.0
    warmth: float = 0.1
    haze: float = 0.0
    blur: float = 0.0
    motion: float = 0.0
    clutter: float = 0.2
    noise: float = 1.5
    far: float = 0.0
    seed: int = 0

    def planted(self) -> dict[str, object]:
        """Every setting, as plain JSON types."""
        return asdict(self)


#: The test sessions. In seven of them some birds are far away, which is what makes detectors miss; light, haze, blur and
#: clutter belong to a whole session.
SESSIONS = (
    Session(
        "glade-a", "glade", "glade", unit=170, step_s=3, exposure=1.05, contrast=1.06, clutter=0.15, far=0.58, seed=101
    ),
    Session(
        "glade-b",
        "glade",
        "glade",
        unit=156,
        step_s=30,
        exposure=0.45,
        contrast=0.82,
        warmth=-0.5,
        clutter=0.35,
        noise=4.5,
        far=0.53,
        seed=102,
    ),
    Session(
        "meadow-a",
        "meadow",
        "meadow",
        unit=150,
        step_s=30,
        exposure=1.04,
        contrast=0.96,
        warmth=0.3,
        clutter=0.1,
        seed=201,
    ),
    Session(
        "meadow-b",
        "meadow",
        "meadow",
        unit=140,
        step_s=4,
        exposure=1.0,
        contrast=0.76,
        warmth=-0.3,
        haze=0.43,
        clutter=0.15,
        noise=2,
        far=0.48,
        seed=202,
    ),
    Session(
        "orchard-a",
        "orchard",
        "orchard",
        unit=230,
        step_s=4,
        exposure=1.0,
        contrast=1.05,
        warmth=0.25,
        clutter=0.3,
        motion=2,
        far=0.63,
        seed=301,
    ),
    Session(
        "orchard-b",
        "orchard",
        "orchard",
        unit=165,
        step_s=30,
        exposure=0.92,
        contrast=0.88,
        blur=3.5,
        clutter=0.35,
        motion=6,
        far=0.53,
        seed=302,
    ),
    Session(
        "pines-a", "pines", "pines", unit=160, step_s=30, exposure=0.95, contrast=1.0, clutter=1.0, far=0.53, seed=401
    ),
    Session(
        "pines-b",
        "pines",
        "pines",
        unit=145,
        step_s=3,
        exposure=0.5,
        contrast=0.88,
        warmth=-0.2,
        clutter=0.7,
        motion=3,
        noise=3.5,
        far=0.53,
        seed=402,
    ),
)

#: The session in which heron finds every bird: clear, and no bird far away.
COMPLETE_SESSION = "meadow-a"


def paint_background(session: Session) -> Canvas:
    """The session's picture without birds, before the camera: H×W×3, what hides birds, and their perches."""
    import cv2

    rng = stream(11, session.seed)
    far = PLACES[session.kind][0](rng)
    image = cv2.resize(far, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    canvas = Canvas(image, np.zeros((HEIGHT, WIDTH), np.uint8), session.unit)
    PLACES[session.kind][1](canvas, rng)
    _look_alikes(canvas, rng, session)
    _clutter(canvas, rng, session)
    _near_lens(canvas, rng, session)
    _air(canvas, rng)
    return canvas


def _look_alikes(canvas: Canvas, rng: np.random.Generator, session: Session) -> None:
    """Dead leaves, stones, cones and scraps of blue tape: small things that are not birds."""
    u = canvas.unit
    turn = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    spots = [p for p in canvas.perches if p.kind == "perch"]
    lit = np.linspace(1.2, 0.5, 8)[:, None]
    for _ in range(4 + rng.poisson(8 * session.clutter)):
        spot = spots[rng.integers(len(spots))]
        at, kind, size = np.array([spot.x, spot.y]), rng.integers(4), u * rng.uniform(0.25, 0.5)
        if kind == 0:
            for _ in range(rng.integers(2, 5)):
                leaf(canvas, tuple(at), 1.3 * size, rng.uniform(0.2, 2.9), vary(rng, rgb("#a5673a"), 0.15))
        elif kind == 1 and session.kind != "orchard":
            at[1] = rng.uniform(0.92, 0.99) * HEIGHT
            outline = at + size * np.column_stack([np.cos(turn), 0.65 * np.sin(turn)]) * rng.uniform(0.85, 1.1, (14, 1))
            stain = (0.12 * cloud(rng, 60, 60, (5, 5))).astype(np.float32)
            textured(canvas, curve(outline), vary(rng, rgb("#7f6a55")), texture=stain, shade=lit)
        elif kind == 2:
            outline = at + 0.6 * size * (np.column_stack([0.6 * np.cos(turn), np.sin(turn)]) + [0, 1])
            scales = (0.3 * cloud(rng, 60, 60, (9, 7), octaves=1)).astype(np.float32)
            textured(canvas, outline, rgb("#6d4c36"), texture=scales, shade=lit)
        else:
            tape = at + size * np.array([[0, 0], [0.15, 0.4], [-0.05, 0.9], [0.2, 0.95], [0.4, 0.4], [0.28, -0.05]])
            polygon(canvas.image, tape, vary(rng, rgb("#4d6fa8"), 0.1))


def _clutter(canvas: Canvas, rng: np.random.Generator, session: Session) -> None:
    """Twigs and leaves at the birds' distance, in front of some of the perches; stalks in the meadow."""
    u = canvas.unit
    foliage = FOLIAGE[session.kind]
    spots = [p for p in canvas.perches if p.kind == "perch"]
    for _ in range(rng.poisson(42 * session.clutter)):
        spot = spots[rng.integers(len(spots))]
        start, angle, reach = np.array([spot.x, spot.y + 0.1 * u]), rng.uniform(-2.7, -0.4), u * rng.uniform(1.0, 2.4)
        if session.kind == "meadow":
            start, angle = np.array([spot.x + rng.normal(0, u), 0.99 * HEIGHT]), rng.normal(-1.57, 0.12)
            reach = start[1] - spot.y + rng.uniform(-0.2, 0.8) * u
        elif rng.random() < 0.35:
            angle = -angle
        points = start + reach * np.linspace(0, 1, 7)[:, None] * np.array([np.cos(angle), np.sin(angle)])
        points[1:] += rng.normal(0, 0.05 * u, (6, 2))
        limb(canvas, points, (0.07 * u, 0.03 * u), vary(rng, rgb("#6b5a48")), front=True)
        for k in range(1, 7):
            for _ in range(rng.poisson(0.9)):
                foliage(canvas, rng, points[k], angle)


def _near_lens(canvas: Canvas, rng: np.random.Generator, session: Session) -> None:
    """A few leaves close to the lens, far out of focus, at the edges of the picture."""
    import cv2

    n = rng.poisson(2 + 8 * session.clutter)
    small = Canvas(
        np.zeros((HEIGHT // 8, WIDTH // 8, 3), np.uint8),
        np.zeros((HEIGHT // 8, WIDTH // 8), np.uint8),
        session.unit / 8,
    )
    small.image[:] = np.round(rgb("#4f6b33"))
    for _ in range(n):
        x = rng.choice([rng.uniform(-0.05, 0.12), rng.uniform(0.88, 1.05)]) * WIDTH / 8
        y = rng.uniform(-0.1, 1.1) * HEIGHT / 8
        for _ in range(4):
            leaf(
                small,
                (x + rng.normal(0, 12), y + rng.normal(0, 12)),
                55 * rng.uniform(0.7, 1.4),
                rng.uniform(0, 6.28),
                vary(rng, rgb("#58783a"), 0.2),
                front=True,
            )
    if not n:
        return
    soft = [
        cv2.resize(cv2.GaussianBlur(layer, (0, 0), 7), (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
        for layer in (small.image, small.front)
    ]
    canvas.image[:] = over(canvas.image, soft[0], soft[1])
    canvas.front[:] = np.maximum(canvas.front, soft[1])


def _air(canvas: Canvas, rng: np.random.Generator) -> None:
    canvas.perches += [Perch(rng.uniform(0.12, 0.88) * WIDTH, rng.uniform(0.12, 0.7) * HEIGHT, "air") for _ in range(8)]
