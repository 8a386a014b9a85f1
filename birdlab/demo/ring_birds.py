"""Made clips of colour-ringed birds: a body, two legs and the rings on them, drawn for one second.

No bird was ringed. Every ring is a small cylinder of known colour under light, blur, a shifted white balance, perspective
and things in front of it, so that what is read from a clip can be held against what was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from birdlab.demo.paint import Color, cloud, mix, polygon, rgb, vary

#: Letters of the made palette and the names of their colours: the categories of the ring masks.
COLOURS = {
    "A": "aluminium", "B": "blue", "C": "cyan", "G": "green", "L": "lavender", "M": "magenta", "O": "orange",
    "P": "pink", "R": "red", "S": "stone", "W": "white", "Y": "yellow",
}  # fmt: skip
#: The colours themselves; O and R, L and B, S and A are near each other on purpose.
_PAINT = {
    "A": "#b4b9c0", "B": "#2a48c4", "C": "#2cc3d6", "G": "#2f9a3c", "L": "#6c6fd8", "M": "#b3279c", "O": "#ee6d1c",
    "P": "#f29ab8", "R": "#d4231f", "S": "#8e9298", "W": "#f2f2ee", "Y": "#f0d022",
}  # fmt: skip
BGR = {letter: rgb(text) for letter, text in _PAINT.items()}
#: Pairs of colours that are read for one another.
DIFFICULT = (("O", "R"), ("B", "L"), ("A", "S"))
#: Raise when anything that is drawn changes.
VERSION = "1"
#: Frames of a clip and side of its pictures, px.
FRAMES, SIDE = 25, 96
#: A ring of which less than this share shows is not listed.
SHOWS = 0.3
FACINGS = ("toward", "away", "left", "right")
#: Everything is drawn on a square of this side (px) and then made smaller.
_CANVAS = 192
_SHIFT, _STRIPS = 4, 7
_WIDTH, _HEIGHT, _GAP = 8.6, 8.2, 1.2  # half width, half height and half gap of a ring, px of the canvas


class RingSeen(NamedTuple):
    """One ring of one frame: its colour, where the bird wears it, and the part that shows.

    ``polygon`` is (k, 2) float32: x, y in px, where the first pixel reaches from 0 to 1.
    """

    letter: str
    leg: str
    slot: str
    polygon: np.ndarray


@dataclass(frozen=True)
class RenderedClip:
    """A drawn clip.

    Args:
        frames: (n, 96, 96, 3) uint8, BGR.
        rings: per frame the rings that show; a leg with a single ring wears it in the ``lower`` slot.
        facing: where the bird looks, of :data:`FACINGS`: ``left`` and ``right`` are those of the picture.
    """

    frames: np.ndarray
    rings: list[list[RingSeen]]
    facing: str


@dataclass(frozen=True)
class _Scene:
    """What does not change within a clip."""

    ground: np.ndarray
    body: np.ndarray
    covers: np.ndarray
    feet: np.ndarray
    hips: np.ndarray
    lowered: np.ndarray
    near: int
    blades: list[tuple[np.ndarray, Color]]


def code_legs(code: str) -> tuple[str, str]:
    """Letters of the left and the right leg, from above: four letters are 2+2, three 2+1, two 1+1, a hyphen parts them.

    Raises:
        ValueError: a letter is not in the palette, or a leg has more than two rings.

    >>> code_legs("oaor"), code_legs("rga"), code_legs("r-ga")
    (('OA', 'OR'), ('RG', 'A'), ('R', 'GA'))
    """
    text = code.upper()
    cut = {4: 2, 3: 2, 2: 1}.get(len(text), len(text))
    left, right = text.split("-") if text.count("-") == 1 else (text[:cut], text[cut:])
    unknown = sorted(set(left + right) - set(BGR))
    if unknown or max(len(left), len(right)) > 2 or not left + right:
        raise ValueError(f"code {code!r}; expected up to two letters of {''.join(BGR)} per leg")
    return left, right


def render_clip(
    rng: np.random.Generator,
    code: str,
    *,
    light: float = 1.0,
    blur: float = 0.0,
    occlusion: float = 0.0,
    perspective: float = 0.0,
    white_balance: tuple[float, float, float] = (1.0, 1.0, 1.0),
    n_frames: int = FRAMES,
) -> RenderedClip:
    """Draw one second of a bird that wears ``code``; equal streams and settings give equal pictures.

    Args:
        rng: where it stands, how it moves, noise, background.
        code: letters of :data:`COLOURS`, left leg first (see :func:`code_legs`); an empty text draws a bird without rings.
        light: exposure; 1 is plain, 0.3 dusk, 1.6 glare.
        blur: standard deviation of the blur, px.
        occlusion: in [0, 1]: how much of the legs is behind belly, grass or perch; from 0.9 on most rings are hidden.
        perspective: in [0, 1]: how obliquely the camera looks.
        white_balance: gains of blue, green and red.
        n_frames: pictures of the clip.

    Returns:
        Pictures, and the rings that show in each.

    Raises:
        ValueError: the code cannot be worn.
    """
    legs = code_legs(code) if code else ("", "")
    facing = FACINGS[int(rng.choice(4, p=(0.26, 0.2, 0.27, 0.27)))]
    scene = _scene(rng, facing, occlusion, n_frames)
    worn = [(letter, g, slot) for g in (0, 1) for letter, slot in _slots(legs[g])]
    strips, outlines = _cylinders(scene, worn, n_frames)
    shades = [_shades(letter, float(rng.uniform(-0.7, 0.7)), rng) for letter, _, _ in worn]
    lens, warp = _Lens(rng, light, blur, white_balance), _oblique(rng, perspective)
    frames, rings = np.empty((n_frames, SIDE, SIDE, 3), np.uint8), []
    for f in range(n_frames):
        canvas, marks = scene.ground.copy(), np.zeros((_CANVAS, _CANVAS), np.uint8)
        for g in (1 - scene.near, scene.near):
            _draw_leg(canvas, marks, scene.feet[f, g], scene.hips[f, g])
            for r in (r for r, (_, leg, _) in enumerate(worn) if leg == g):
                _draw_ring(canvas, marks, strips[r][f], outlines[r][f], (shades[r], r + 1))
        _draw_front(canvas, marks, scene, f)
        seen = _seen(marks, outlines, f, worn)
        frames[f] = lens(_warped(canvas, warp))
        rings.append([ring._replace(polygon=_to_picture(ring.polygon, warp)) for ring in seen])
    return RenderedClip(frames, rings, facing)


def _slots(letters: str) -> list[tuple[str, str]]:
    """Letters of one leg with their place, the upper ring first."""
    return list(zip(letters, ("upper", "lower")[2 - len(letters) :], strict=True))


def _scene(rng: np.random.Generator, facing: str, occlusion: float, n_frames: int) -> _Scene:
    """Where feet, hips and body are in every frame; px of the canvas. Leg 0 is the bird's left one."""
    base = {"right": 0.0, "toward": np.pi / 2, "left": np.pi, "away": 1.5 * np.pi}[facing]
    yaw = base + rng.uniform(-0.5, 0.5) + _wander(rng, n_frames, 0.02, 0.15)
    scale, apart, stride = rng.uniform(0.9, 1.1), rng.uniform(20, 26), rng.uniform(6, 17) * rng.choice([-1, 1])
    sideways, depth = np.sin(yaw), -np.cos(yaw)  # of the left leg
    ahead = np.column_stack([np.cos(yaw), np.sin(yaw) * 0.3])
    middle = np.array([96 + rng.uniform(-14, 14), 168 + rng.uniform(-5, 5)])
    drift = np.column_stack([_wander(rng, n_frames, 0.5, 9), _wander(rng, n_frames, 0.25, 3)])
    hop = (np.arange(n_frames) >= rng.integers(5, n_frames + 12)) * rng.uniform(-14, 14)
    drift[:, 0] += hop
    feet = np.empty((n_frames, 2, 2))
    for g, sign in enumerate((1, -1)):
        feet[:, g] = middle + drift + sign * (scale * apart * np.column_stack([sideways, 0.3 * depth]) + stride * ahead)
    length = 78 * scale
    sway = _wander(rng, n_frames, 0.8, 9)
    hips = middle + drift + np.column_stack([sway, np.full(n_frames, -length)])
    hips = hips[:, None, :] + (feet - feet.mean(1, keepdims=True)) * [0.72, 0.5]
    lowered = _wander(rng, n_frames, 0.8, 6) + occlusion * rng.uniform(18, 50) + max(0.0, occlusion - 0.85) * 220
    if rng.random() < 0.05 + 0.25 * occlusion:  # stands on one leg
        feet[:, int(rng.integers(2))] += [0, -rng.uniform(30, 60)]
    near = 0 if depth.mean() > 0 else 1
    body, covers = _body(rng, float(np.cos(base)))
    blades = _blades(rng, occlusion)
    return _Scene(_background(rng, middle[1]), body, covers, feet, hips, lowered, near, blades)


def _wander(rng: np.random.Generator, n: int, step: float, most: float) -> np.ndarray:
    """A smooth walk about zero, (n,)."""
    return np.clip(np.cumsum(np.convolve(rng.normal(0, step, n + 4), np.full(5, 0.45), "valid")), -most, most)


def _background(rng: np.random.Generator, foot: float) -> np.ndarray:
    """Something out of focus, and a board, a branch, soil or snow to stand on."""
    far = np.float32(rgb(str(rng.choice(["#7d9068", "#8b8f6a", "#6f8a86", "#9aa3a8", "#5f6f55"]))))
    image = far * (1 + 0.14 * cloud(rng, _CANVAS, _CANVAS, (3, 3), octaves=2)[..., None])
    kind, top = rng.integers(4), round(foot - 4)
    near = np.float32(rgb(("#8a6d4e", "#6b5a48", "#75664f", "#d9dee2")[kind]))
    end = min(top + (18, 13, _CANVAS, _CANVAS)[kind], _CANVAS)
    rough = cloud(rng, end - top, _CANVAS, ((end - top) / (4, 3, 9, 20)[kind] + 2, 12), octaves=3)
    slope = np.linspace(1.08, 0.72, end - top)[:, None]
    image[top:end] = near * ((1 + (0.1, 0.14, 0.16, 0.03)[kind] * rough) * slope)[..., None]
    return np.clip(image, 0, 255).astype(np.uint8)


def _body(rng: np.random.Generator, along: float) -> tuple[np.ndarray, np.ndarray]:
    """Belly, flank and tail above the legs as a picture and where it covers; the belly ends at the height of the hips."""
    plumage = vary(rng, rgb(str(rng.choice(["#8d8478", "#7c7468", "#6f7275", "#a08d74"]))), 0.08)
    image, covers = np.zeros((_CANVAS, 2 * _CANVAS, 3), np.uint8), np.zeros((_CANVAS, 2 * _CANVAS), np.uint8)
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    round_ = np.column_stack([np.cos(turn), np.sin(turn)])
    middle, half = np.array([_CANVAS, 96.0]), np.array([46 + 40 * abs(along), 62.0])
    tail = middle + np.array([[-40 * along, -20], [-150 * along, 30], [-146 * along, 52], [-30 * along, 34]])
    ragged = 1 + 0.035 * rng.standard_normal(40)[:, None] * (round_[:, 1:] > 0)
    for points, tone in ((tail, 0.35), (middle + round_ * half * ragged, 0.0)):
        polygon(image, points, mix(plumage, (10, 10, 15), tone))
        polygon(covers, points, 255)
    polygon(image, middle + [14 * along, 22] + round_ * half * [0.72, 0.6], mix(plumage, (225, 230, 235), 0.35))
    shade = np.linspace(1.12, 0.7, _CANVAS)[:, None] * (1 + 0.07 * cloud(rng, _CANVAS, 2 * _CANVAS, (14, 20), 2))
    return np.clip(image * shade[..., None], 0, 255).astype(np.uint8), np.where(
        covers > 127, np.uint8(255), np.uint8(0)
    )


def _blades(rng: np.random.Generator, occlusion: float) -> list[tuple[np.ndarray, Color]]:
    """Grass, twigs or leaves between the camera and the legs: outlines at rest."""
    blades = []
    for _ in range(int(rng.poisson(5 * occlusion))):
        x, top, width = rng.uniform(30, 162), rng.uniform(100, 160), rng.uniform(3, 11)
        bend = rng.uniform(-22, 22)
        half = np.array([-1, -0.7, 0, 0.7, 1]) * width
        outline = np.column_stack([x + bend * np.array([0, 0.4, 1, 0.4, 0]) + half, [194, 150, top, 150, 194]])
        blades.append((outline, vary(rng, rgb(str(rng.choice(["#5d7a3c", "#8c8a4e", "#6b5a3f"]))), 0.15)))
    return blades


def _cylinders(
    scene: _Scene, worn: list[tuple[str, int, str]], n_frames: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Per ring its strips (frames, strips, 4, 2), in parts of a px, and its outline (frames, points, 2); px of the canvas."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, _STRIPS + 1)
    across, bulge = np.sin(angle) * _WIDTH, np.cos(angle) * 0.3 * _WIDTH
    strips, outlines = [], []
    for _, g, slot in worn:
        foot, axis = scene.feet[:, g], scene.hips[:, g] - scene.feet[:, g]
        axis = axis / np.linalg.norm(axis, axis=1, keepdims=True)
        side = np.column_stack([-axis[:, 1], axis[:, 0]])
        height = 20 + (2 * (_HEIGHT + _GAP) if slot == "upper" else 0)
        centre = foot + axis * height
        ends = [
            centre[:, None] + side[:, None] * across[:, None] + axis[:, None] * (sign * _HEIGHT - bulge)[:, None]
            for sign in (1, -1)
        ]
        upper, lower = ends
        strips.append(_fixed(np.stack([upper[:, :-1], upper[:, 1:], lower[:, 1:], lower[:, :-1]], axis=2)))
        outlines.append(np.concatenate([upper, lower[:, ::-1]], axis=1))
    return strips, outlines


def _shades(letter: str, lit: float, rng: np.random.Generator) -> list[Color]:
    """Colour of every strip: darker towards the edges, a bright line where the light falls, stronger on metal."""
    middle = np.linspace(-np.pi / 2, np.pi / 2, _STRIPS * 2 + 1)[1::2]
    base = np.array(vary(rng, BGR[letter], 0.05)) * rng.uniform(0.82, 1.0)
    metal = letter == "A"
    dull = (0.35 if metal else 0.52) + (0.65 if metal else 0.48) * np.clip(np.cos(middle - lit), 0, 1)
    shine = np.exp(-(((middle - lit) / 0.22) ** 2)) * (0.75 if metal else 0.28)
    paint = base * dull[:, None] * (1 - shine[:, None]) + 250.0 * shine[:, None]
    return [tuple(float(v) for v in np.clip(row, 0, 255)) for row in paint]  # type: ignore[misc]


def _fixed(points: np.ndarray) -> np.ndarray:
    return np.rint(points * (1 << _SHIFT)).astype(np.int32)


def _draw_leg(canvas: np.ndarray, marks: np.ndarray, foot: np.ndarray, hip: np.ndarray) -> None:
    import cv2

    along = hip - foot
    side = np.array([-along[1], along[0]]) / np.linalg.norm(along)
    for half, shift, tone in ((3.4, 0.0, (38, 40, 46)), (1.2, 1.0, (70, 74, 82))):
        outline = [
            foot + side * (shift + half),
            hip + side * (shift + half * 1.2),
            hip + side * (shift - half * 1.2),
            foot + side * (shift - half),
        ]
        cv2.fillConvexPoly(canvas, _fixed(np.array(outline)), tone, cv2.LINE_8, _SHIFT)
    for dx, dy in ((-13, 5), (2, 8), (14, 4)):
        toe = np.array([foot + [-2, -3], foot + [dx, dy], foot + [2, 0]])
        cv2.fillConvexPoly(canvas, _fixed(toe), (40, 42, 48), cv2.LINE_8, _SHIFT)
    hides = np.array([foot + side * 3, hip + side * 4, hip - side * 4, foot - side * 3])
    cv2.fillConvexPoly(marks, _fixed(hides), 0, cv2.LINE_8, _SHIFT)


def _draw_ring(
    canvas: np.ndarray, marks: np.ndarray, strips: np.ndarray, outline: np.ndarray, looks: tuple[list[Color], int]
) -> None:
    import cv2

    for quad, colour in zip(strips, looks[0], strict=True):
        cv2.fillConvexPoly(canvas, quad, colour, cv2.LINE_8, _SHIFT)
    cv2.fillPoly(marks, [_fixed(outline)], looks[1], cv2.LINE_8, _SHIFT)


def _draw_front(canvas: np.ndarray, marks: np.ndarray, scene: _Scene, f: int) -> None:
    """The body over the tops of the legs, then what stands before the bird."""
    import cv2

    hip = scene.hips[f].mean(0)
    left = int(np.clip(round(_CANVAS - hip[0]), 0, _CANVAS))
    top = int(np.clip(round(hip[1] + scene.lowered[f] - 150), -_CANVAS + 1, 60))
    part = slice(max(-top, 0), _CANVAS - max(top, 0)), slice(left, left + _CANVAS)
    here = slice(max(top, 0), max(top, 0) + part[0].stop - part[0].start)
    cv2.copyTo(scene.body[part], scene.covers[part], canvas[here])
    cv2.copyTo(np.zeros_like(marks[here]), scene.covers[part], marks[here])
    for k, (blade, colour) in enumerate(scene.blades):
        points = blade.copy()
        points[1:4, 0] += np.array([0.4, 1.0, 0.4]) * 4 * np.sin(0.5 * f + k)
        cv2.fillPoly(canvas, [_fixed(points)], colour, cv2.LINE_8, _SHIFT)
        cv2.fillPoly(marks, [_fixed(points)], 0, cv2.LINE_8, _SHIFT)


def _seen(marks: np.ndarray, outlines: list[np.ndarray], f: int, worn: list[tuple[str, int, str]]) -> list[RingSeen]:
    """Rings of which enough shows: the outline of the largest part, px of the canvas."""
    import cv2

    found = []
    for r, (letter, g, slot) in enumerate(worn):
        outline = outlines[r][f]
        low, high = outline.min(0), outline.max(0)
        x0, y0, x1, y1 = (min(max(int(v), 0), _CANVAS) for v in (low[0] - 2, low[1] - 2, high[0] + 3, high[1] + 3))
        mine = (marks[y0:y1, x0:x1] == r + 1).astype(np.uint8)
        if mine.sum() < SHOWS * 4 * _WIDTH * _HEIGHT:
            continue
        contours, _ = cv2.findContours(mine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(x0, y0))
        largest = cv2.approxPolyDP(max(contours, key=cv2.contourArea), 0.6, True)[:, 0].astype(np.float32)
        if len(largest) >= 3:
            edge = 0.5 * np.sign(largest - largest.mean(0))  # from the centres of the outermost pixels to their edges
            found.append(RingSeen(letter, ("left", "right")[g], slot, largest + edge))
    return found


def _oblique(rng: np.random.Generator, perspective: float) -> np.ndarray | None:
    """Homography of the canvas, or none where the camera looks straight."""
    import cv2

    corners = np.float32([[0, 0], [_CANVAS, 0], [_CANVAS, _CANVAS], [0, _CANVAS]])
    moved = corners + np.float32(rng.uniform(-1, 1, (4, 2)) * 34 * perspective)
    return cv2.getPerspectiveTransform(corners, moved.astype(np.float32)) if perspective > 0 else None


def _warped(canvas: np.ndarray, warp: np.ndarray | None) -> np.ndarray:
    import cv2

    if warp is None:
        return canvas
    return cv2.warpPerspective(canvas, warp, (_CANVAS, _CANVAS), borderMode=cv2.BORDER_REPLICATE)


def _to_picture(points: np.ndarray, warp: np.ndarray | None) -> np.ndarray:
    """Pixel centres of the canvas as places in the picture, px."""
    import cv2

    moved = points if warp is None else cv2.perspectiveTransform(points[None], warp)[0]
    return np.clip((moved + 0.5) * (SIDE / _CANVAS), 0, SIDE).astype(np.float32)


class _Lens:
    """What the camera does to a picture: size, blur, exposure and white balance, noise, compression."""

    def __init__(self, rng: np.random.Generator, light: float, blur: float, gains: tuple[float, float, float]) -> None:
        import cv2

        self.rng, self.sigma = rng, blur
        level = np.arange(256)[:, None] * light * np.asarray(gains)[None, :]
        bent = np.where(level > 215, 215 + (level - 215) * 0.45, level)  # highlights roll off before they clip
        self.table = np.clip(np.round(bent), 0, 255).astype(np.uint8)[:, None, :]
        self.noise = np.round(rng.normal(0, 2.0 + 2.5 * max(0.0, 1 - light), (SIDE + 64, SIDE + 64, 3))).astype(
            np.int16
        )
        self.coding = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(72, 92))]

    def __call__(self, canvas: np.ndarray) -> np.ndarray:
        import cv2

        small = cv2.resize(canvas, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        if self.sigma > 0:
            small = cv2.GaussianBlur(small, (0, 0), self.sigma)
        dx, dy = self.rng.integers(0, 64, 2)
        lit = cv2.LUT(small, self.table)
        noisy = cv2.add(lit, self.noise[dy : dy + SIDE, dx : dx + SIDE], dtype=cv2.CV_8U)
        return cv2.imdecode(cv2.imencode(".jpg", noisy, self.coding)[1], cv2.IMREAD_COLOR)
