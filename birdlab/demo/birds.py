"""Birds of the made study: small painted bluebirds in several poses, each with its outline.

A bird is drawn in units of its own length (bill to tail) on a canvas twice as fine as the frame, shaded as a round
body lit from above, and reduced. Males have a blue back and a rusty breast, females are greyer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from birdlab.demo.paint import Color, curve, disc, line, mix, polygon, rgb, vary

POSES = ("side", "upright", "low", "front", "back", "wings_up", "wings_down", "glide")
FLYING = ("wings_up", "wings_down", "glide")

_FINE = 2  #: px of the drawing per px of the frame
_REACH = 1.15  #: half the drawing's side, in bird lengths


@dataclass(frozen=True)
class Bird:
    """One bird as it is to be drawn: ``length`` in px from bill to tail, ``facing`` +1 right or -1 left."""

    pose: str
    length: float
    facing: int = 1
    tilt: float = 35.0  #: degrees by which the body rises towards the head
    male: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Sprite:
    """A drawn bird: picture (h×w×3 uint8 BGR), opacity (h×w uint8) and where its feet are in it, px."""

    image: np.ndarray
    alpha: np.ndarray
    feet: tuple[float, float]


class _Drawing:
    """Colours and outline of one bird, in bird lengths with y downwards."""

    def __init__(self, length: float, base: Color) -> None:
        side = int(2 * _REACH * length * _FINE)
        self.scale = length * _FINE
        self.image = np.empty((side, side, 3), np.uint8)
        self.image[:] = np.round(base)
        self.alpha = np.zeros((side, side), np.uint8)

    def px(self, points: np.ndarray | list) -> np.ndarray:
        return (np.asarray(points, float) + _REACH) * self.scale

    def shape(self, points: np.ndarray | list, color: Color | None = None, *, solid: bool = True) -> None:
        """Fill a smooth closed curve: with colour, as part of the outline, or both."""
        outline = curve(self.px(points))
        if color is not None:
            polygon(self.image, outline, color)
        if solid:
            polygon(self.alpha, outline, 255)

    def hull(self, *circles: tuple[np.ndarray, float], color: Color | None = None) -> None:
        """Fill what a rubber band around the circles encloses."""
        import cv2

        turn = np.linspace(0, 2 * np.pi, 28, endpoint=False)
        ring = np.column_stack([np.cos(turn), np.sin(turn)])
        points = np.vstack([self.px(np.asarray(c) + ring * r) for c, r in circles]).astype(np.float32)
        outline = cv2.convexHull(points)[:, 0]
        if color is not None:
            polygon(self.image, outline, color)
        polygon(self.alpha, outline, 255)

    def dot(self, centre: np.ndarray, radius: float, color: Color, *, solid: bool = False) -> None:
        disc(self.image, tuple(self.px(centre)), radius * self.scale, color)
        if solid:
            disc(self.alpha, tuple(self.px(centre)), radius * self.scale, 255)

    def stroke(self, points: np.ndarray | list, color: Color, width: float, *, solid: bool = False) -> None:
        line(self.image, self.px(points), color, width * self.scale)
        if solid:
            line(self.alpha, self.px(points), 255, width * self.scale)

    def crop(self) -> tuple[int, int]:
        """Cut the drawing to the bird and a margin; returns how much went at the left and at the top, fine px."""
        import cv2

        x, y, w, h = cv2.boundingRect(self.alpha)
        left, top = max(x - 2 * _FINE, 0), max(y - 2 * _FINE, 0)
        cut = np.s_[top : y + h + 2 * _FINE, left : x + w + 2 * _FINE]
        self.image, self.alpha = self.image[cut], self.alpha[cut]
        return left, top

    def soften(self, sigma: float) -> None:
        import cv2

        self.image = cv2.GaussianBlur(self.image, (0, 0), max(0.6, sigma * self.scale))


@dataclass(frozen=True)
class _Plumage:
    back: Color
    wing: Color
    quill: Color
    breast: Color
    belly: Color
    under: Color

    @staticmethod
    def of(male: bool, rng: np.random.Generator) -> _Plumage:
        names = (
            ("#3a62a4", "#30579b", "#1c2740", "#b5602f", "#b9b6b3", "#8d93a6")
            if male
            else ("#72849b", "#5f7ba6", "#3a4350", "#b58562", "#c4c0ba", "#a3a4a8")
        )
        return _Plumage(*(vary(rng, rgb(n), 0.06) for n in names))


_INK = rgb("#17181c")


def sprite(bird: Bird) -> Sprite:
    """Draw a bird.

    Args:
        bird: pose, length (px), side it faces, sex and seed of its small differences.

    Returns:
        The picture, cropped to the bird with a margin of two px where there is room.

    Raises:
        KeyError: no pose has that name.
    """
    import cv2

    from birdlab.demo.paint import stream

    rng = stream(7_411, bird.seed)
    plumage = _Plumage.of(bird.male, rng)
    drawing = _Drawing(bird.length, plumage.back)
    feet = _PAINTERS[bird.pose](drawing, bird, plumage, rng)
    left, top = drawing.crop()
    image = _shaded(drawing, rng)
    size = (drawing.alpha.shape[1] // _FINE, drawing.alpha.shape[0] // _FINE)
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    alpha = cv2.resize(drawing.alpha, size, interpolation=cv2.INTER_AREA)
    feet_px = (feet + _REACH) * bird.length - np.array([left, top]) / _FINE
    if bird.facing < 0:
        image, alpha = np.ascontiguousarray(image[:, ::-1]), np.ascontiguousarray(alpha[:, ::-1])
        feet_px[0] = size[0] - feet_px[0]
    return Sprite(image, alpha, (float(feet_px[0]), float(feet_px[1])))


def _shaded(drawing: _Drawing, rng: np.random.Generator) -> np.ndarray:
    """Round the flat drawing: a height from the distance to the outline, lit from above; fine feather noise."""
    import cv2

    inside = cv2.distanceTransform((drawing.alpha > 127).astype(np.uint8), cv2.DIST_L2, 3)
    radius = 0.17 * drawing.scale
    height = radius * np.sqrt(np.clip(1 - (1 - np.minimum(inside / radius, 1)) ** 2, 0, 1))
    height = cv2.GaussianBlur(height, (0, 0), 0.02 * drawing.scale)
    down, right = np.gradient(height)
    lit = (0.25 * -right + 0.8 * down + 0.75) / np.sqrt(right**2 + down**2 + 1)
    grain = rng.standard_normal((64, 64)).astype(np.float32)
    grain = cv2.resize(grain, drawing.alpha.shape[::-1], interpolation=cv2.INTER_CUBIC)
    bright = 0.52 + 0.62 * np.clip(lit, 0, 1.3) + 0.05 * grain
    # Where there is no bird, brightness is of no account but must stay smooth for the reduction.
    return np.clip(drawing.image * bright[..., None].astype(np.float32), 0, 255).astype(np.uint8)


def _head(d: _Drawing, at: np.ndarray, p: _Plumage, look: tuple[float, float] = (1.0, 0.06)) -> None:
    """Bill, eye and cheek of a head of radius 0.135 seen from the side."""
    look_at = np.asarray(look) / np.hypot(*look)
    across = np.array([-look_at[1], look_at[0]])
    base, tip = at + 0.115 * look_at, at + 0.245 * look_at + 0.012 * across
    d.shape([base - 0.035 * across, base - 0.03 * across + 0.05 * look_at, tip, base + 0.035 * across], _INK)
    eye = at + 0.055 * look_at - 0.03 * across
    d.dot(eye, 0.034, mix(p.back, (230, 230, 230), 0.35))
    d.dot(eye, 0.026, _INK)
    d.dot(eye + np.array([0.008, -0.01]), 0.008, (245, 245, 245))


def _perched(d: _Drawing, bird: Bird, p: _Plumage, rng: np.random.Generator) -> np.ndarray:
    angle = np.deg2rad(bird.tilt)
    ahead, belly = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])
    shoulder, rump = 0.15 * ahead, -0.2 * ahead
    lift = np.deg2rad(np.clip(bird.tilt + 22, 12, 78))
    head = shoulder + 0.205 * np.array([np.cos(lift), -np.sin(lift)])
    foot = 0.25 * belly + 0.02 * ahead
    for shift in (-0.035, 0.045):
        d.stroke(
            [0.13 * belly + shift * ahead, foot + [shift, 0.0], foot + [shift + 0.05, 0.005]], _INK, 0.016, solid=True
        )
    tail = rump - 0.42 * ahead + 0.05 * belly
    d.shape([rump - 0.06 * belly, tail - 0.05 * belly, tail + 0.035 * belly, rump + 0.06 * belly], p.quill)
    d.stroke([rump - 0.04 * belly, tail - 0.035 * belly], p.wing, 0.035)
    d.hull((shoulder, 0.185), (rump, 0.115), (0.0 * ahead, 0.195), color=p.back)
    d.dot(rump + 0.05 * belly, 0.15, p.belly)
    d.dot(-0.06 * ahead + 0.12 * belly, 0.14, p.belly)
    d.dot(shoulder + 0.09 * belly, 0.165, p.breast)
    d.dot(0.02 * ahead + 0.11 * belly, 0.12, p.breast)
    d.hull((head, 0.135), (shoulder + 0.02 * ahead - 0.04 * belly, 0.14), color=p.back)
    d.dot(shoulder + 0.1 * belly + 0.07 * ahead, 0.1, p.breast)
    d.soften(0.016)
    wing = [
        shoulder - 0.07 * belly,
        0.08 * ahead + 0.07 * belly,
        rump + 0.05 * belly,
        rump - 0.2 * ahead + 0.0 * belly,
        rump - 0.06 * belly,
    ]
    d.shape(wing, p.wing)
    for k in np.linspace(0, 1, 5):
        start = 0.1 * ahead + (0.055 - 0.09 * k) * belly - 0.1 * k * ahead
        d.stroke([start, rump - (0.19 - 0.05 * k) * ahead + (0.01 - 0.05 * k) * belly], p.quill, 0.011)
    d.stroke([shoulder - 0.05 * belly, 0.08 * ahead + 0.06 * belly], mix(p.breast, p.wing, 0.55), 0.022)
    _head(d, head, p, (1.0, float(rng.uniform(-0.15, 0.3))))
    return foot


def _frontal(d: _Drawing, bird: Bird, p: _Plumage, rng: np.random.Generator) -> np.ndarray:
    head, lean = np.array([rng.uniform(-0.02, 0.03), -0.235]), 0.0
    seen_from_behind = bird.pose == "back"
    d.shape([[-0.045, 0.2], [-0.055, 0.55], [0.055, 0.55], [0.045, 0.2]], p.quill)
    for x in (-0.06, 0.06):
        d.stroke([[x, 0.25], [x, 0.34]], _INK, 0.02, solid=True)
    d.hull((np.array([0, -0.02]), 0.205), (np.array([lean, 0.17]), 0.14), color=p.back)
    if not seen_from_behind:
        d.dot(np.array([0, 0.15]), 0.16, p.belly)
        d.dot(np.array([0, -0.01]), 0.165, p.breast)
    d.hull((head, 0.14), (np.array([0, -0.1]), 0.12), color=p.back)
    d.soften(0.016)
    if seen_from_behind:
        for side in (-1, 1):
            d.shape(
                [
                    [side * 0.02, -0.12],
                    [side * 0.2, -0.06],
                    [side * 0.19, 0.16],
                    [side * 0.05, 0.4],
                    [side * 0.005, 0.2],
                ],
                p.wing,
            )
            d.stroke([[side * 0.17, -0.02], [side * 0.045, 0.37]], p.quill, 0.02)
            d.stroke([[side * 0.1, 0.0], [side * 0.03, 0.33]], p.quill, 0.012)
            d.dot(np.array([side * 0.11, -0.12]), 0.035, mix(p.breast, p.wing, 0.35))
        _head(d, head, p, (1.0, -0.1))
    else:
        for side in (-1, 1):
            d.shape([[side * 0.15, -0.13], [side * 0.215, -0.02], [side * 0.16, 0.24], [side * 0.17, 0.0]], p.wing)
            d.dot(head + [side * 0.075 + 0.01, -0.025], 0.024, _INK)
            d.dot(head + [side * 0.075 + 0.016, -0.034], 0.007, (245, 245, 245))
        d.shape([head + [-0.025, 0.0], head + [0.012, -0.02], head + [0.045, 0.0], head + [0.012, 0.065]], _INK)
    return np.array([0.0, 0.34])


def _wing(root: np.ndarray, out: np.ndarray, back: np.ndarray, span: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Outline of a spread wing and the lines between its long feathers."""
    wrist = root + 0.42 * span * out - 0.1 * back
    tip = root + span * out + 0.22 * span * back
    fingers = [
        tip + t * (root + 0.34 * back + 0.12 * out - tip) + 0.07 * np.sin(np.pi * t) * back
        for t in (0.15, 0.4, 0.65, 0.85)
    ]
    outline = np.array(
        [root - 0.06 * back, wrist, root + 0.8 * span * out + 0.0 * back, tip, *fingers, root + 0.3 * back]
    )
    return outline, [np.array([wrist * 0.6 + root * 0.4 + 0.05 * back, f]) for f in [tip, *fingers]]


def _in_flight(d: _Drawing, bird: Bird, p: _Plumage, rng: np.random.Generator) -> np.ndarray:
    angle = np.deg2rad(bird.tilt * 0.5 - 5)
    ahead, belly = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])
    beat = -belly if bird.pose == "wings_up" else belly * 0.85
    swing = rng.uniform(-0.35, 0.25)
    shoulder, rump, head = 0.14 * ahead, -0.2 * ahead, 0.31 * ahead - 0.03 * belly
    out = beat + swing * ahead
    out = out / np.linalg.norm(out)
    for offset, tone in ((0.09, 0.35), (0.0, 0.0)):
        root = shoulder + offset * ahead - 0.05 * belly
        outline, quills = _wing(root, out + 0.5 * offset * ahead, -ahead, 0.62)
        color = mix(p.under if bird.pose == "wings_up" else p.wing, _INK, tone)
        if offset:
            d.shape(outline, color)
            continue
        tail = rump - 0.34 * ahead
        d.shape([rump - 0.05 * belly, tail - 0.11 * belly, tail + 0.11 * belly, rump + 0.05 * belly], p.quill)
        d.stroke([rump, tail - 0.06 * belly], p.wing, 0.04)
        d.hull((shoulder, 0.16), (rump, 0.085), color=p.back)
        d.hull((head, 0.125), (shoulder, 0.13), color=p.back)
        d.dot(rump + 0.06 * belly, 0.12, p.belly)
        d.dot(0.05 * ahead + 0.1 * belly, 0.14, p.breast)
        d.dot(shoulder + 0.08 * belly, 0.12, p.breast)
        d.soften(0.014)
        d.shape(outline, color)
        for quill in quills:
            d.stroke(quill, p.quill, 0.014)
        d.stroke(outline[:4], mix(color, p.back, 0.6), 0.03)
    _head(d, head, p, tuple(ahead))
    return np.array([0.0, 0.0])


def _gliding(d: _Drawing, bird: Bird, p: _Plumage, rng: np.random.Generator) -> np.ndarray:
    angle = np.deg2rad(bird.tilt + rng.uniform(-15, 15))
    ahead, side = np.array([np.cos(angle), -np.sin(angle)]), np.array([np.sin(angle), np.cos(angle)])
    shoulder, rump, head = 0.12 * ahead, -0.2 * ahead, 0.32 * ahead
    tail = rump - 0.34 * ahead
    d.shape([rump - 0.05 * side, tail - 0.13 * side, tail + 0.13 * side, rump + 0.05 * side], p.quill)
    d.hull((shoulder, 0.15), (rump, 0.08), color=p.back)
    d.hull((head, 0.12), (shoulder, 0.12), color=p.back)
    d.soften(0.012)
    for turn, span in ((-1, 0.66), (1, 0.52)):
        outline, quills = _wing(shoulder + 0.06 * turn * side, turn * side * 0.95 + 0.1 * ahead, -ahead, span)
        d.shape(outline, p.wing if turn < 0 else mix(p.wing, p.under, 0.5))
        for quill in quills:
            d.stroke(quill, p.quill, 0.014)
    d.dot(shoulder, 0.07, mix(p.back, p.breast, 0.3))
    _head(d, head, p, tuple(ahead))
    return np.array([0.0, 0.0])


_PAINTERS = {
    "side": _perched,
    "upright": _perched,
    "low": _perched,
    "front": _frontal,
    "back": _frontal,
    "wings_up": _in_flight,
    "wings_down": _in_flight,
    "glide": _gliding,
}
