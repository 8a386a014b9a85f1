"""Frames of a made session: who sits where and when, and how the camera saw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from birdlab.demo.birds import FLYING, Bird, sprite
from birdlab.demo.paint import HEIGHT, WIDTH, Canvas, Perch, cloud, over, stream
from birdlab.demo.scenes import Session, paint_background

#: A bird keeps its perch for this long on average, s: frames close in time look alike.
STAY_S = 9.0
#: Length of a bird that is drawn small, as if far away, px: bill to tail, drawn from this range for every stay.
FAR_PX = (44.0, 100.0)


@dataclass(frozen=True)
class Placed:
    """One bird in one frame: which individual, how it looks, where its feet are (px), its light, whether it is far."""

    individual: int
    bird: Bird
    x: float
    y: float
    light: float = 1.0
    far: bool = False


@dataclass(frozen=True)
class Labelled:
    """One bird as it can be seen in one frame.

    Args:
        individual: number of the bird within its session.
        mask: H×W bool: where the bird shows, twigs in front of it taken out.
        box: (x, y, w, h) of the mask, px.
        visible: share of the bird that nothing hides, in (0, 1].
        pose: how it is drawn.
        far: whether it was planted as a bird far away, small in the picture.
    """

    individual: int
    mask: np.ndarray
    box: tuple[int, int, int, int]
    visible: float
    pose: str
    far: bool = False


def timeline(session: Session, perches: list[Perch], n_frames: int) -> list[list[Placed]]:
    """Birds of every frame: one to three, or none in an empty frame; the same seed gives the same birds.

    Args:
        session: made session; a short ``step_s`` keeps birds where they were.
        perches: places for birds, of the session's background.
        n_frames: how many frames.
    """
    rng = stream(13, session.seed)
    # A stream of its own: where no bird is far, every other number stays what it is. Of 80 keys tried, this one makes
    # distance go least with light, border, crowding and flight: the planted factor is one factor.
    distance = stream(32, session.seed)
    stays, start = 0, distance.random()
    cast = [(rng.random() < 0.6, session.unit * rng.uniform(0.88, 1.1), int(rng.integers(1 << 30))) for _ in range(3)]
    empty = set(rng.choice(n_frames, max(1, n_frames // 7), replace=False).tolist()) if n_frames > 1 else set()
    stay = float(np.exp(-session.step_s / STAY_S))
    here: dict[int, Placed] = {}
    frames = []
    for index in range(n_frames):
        if index in empty:
            here = {}
        else:
            here = {k: p for k, p in here.items() if p.bird.pose not in FLYING and rng.random() < stay}
            wanted = int(rng.choice([1, 2, 3], p=[0.5, 0.34, 0.16]))
            for individual in rng.permutation(3):
                if len(here) >= wanted:
                    break
                if individual not in here:
                    # Every stay at the same distance from the last one that was far: a share without luck.
                    far = int((stays + 1) * session.far + start) > int(stays * session.far + start)
                    stays += 1
                    male, length, seed = cast[individual]
                    who = (male, float(distance.uniform(*FAR_PX)) if far else length, seed)
                    here[int(individual)] = replace(_arrive(rng, perches, here, int(individual), who), far=far)
            here = {k: _stir(p, rng) for k, p in here.items()}
        frames.append([here[k] for k in sorted(here)])
    return frames


def _arrive(
    rng: np.random.Generator,
    perches: list[Perch],
    here: dict[int, Placed],
    individual: int,
    who: tuple,
) -> Placed:
    male, length, seed = who
    kinds = {"perch": 0.72, "ground": 0.1, "cling": 0.06, "air": 0.12}
    weights = np.array([kinds[p.kind] / sum(q.kind == p.kind for q in perches) for p in perches])
    for _ in range(60):
        spot = perches[rng.choice(len(perches), p=weights / weights.sum())]
        clear = all(np.hypot(p.x - spot.x, p.y - spot.y) > 0.75 * length for p in here.values())
        if clear and 0.05 * WIDTH < spot.x < 0.95 * WIDTH and 0.09 * HEIGHT < spot.y < 0.97 * HEIGHT:
            break
    poses = {
        "perch": ("side", "side", "side", "upright", "front", "back", "low"),
        "ground": ("low", "side"),
        "cling": ("upright", "back"),
    }
    pose = str(rng.choice(poses.get(spot.kind, FLYING)))
    tilt = {"upright": 62.0, "low": 6.0, "side": 36.0}.get(pose, 20.0) + rng.normal(0, 7)
    bird = Bird(pose, length, int(rng.choice([-1, 1])), float(tilt), male, seed)
    # Some birds sit in the shade of leaves that are not in the picture.
    light = rng.uniform(0.85, 1.08) if rng.random() < 0.6 or spot.kind == "air" else rng.uniform(0.4, 0.8)
    return Placed(individual, bird, spot.x, spot.y, float(light))


def _stir(placed: Placed, rng: np.random.Generator) -> Placed:
    """The same bird a moment later: a pixel or two aside, a little more or less upright, sometimes turned round."""
    bird = placed.bird
    turned = -bird.facing if rng.random() < 0.2 else bird.facing
    bird = replace(bird, tilt=float(bird.tilt + rng.normal(0, 3)), facing=turned)
    return replace(placed, bird=bird, x=placed.x + rng.normal(0, 2), y=placed.y + rng.normal(0, 0.7))


class Camera:
    """A session's fixed camera: its background as seen through light, lens and sensor.

    Args:
        session: made session.
        canvas: its painted background; painted here if not given.
    """

    def __init__(self, session: Session, canvas: Canvas | None = None) -> None:
        import cv2

        self.session = session
        self.canvas = canvas or paint_background(session)
        rng = stream(17, session.seed)
        light = 1 + 0.1 * cloud(rng, 54, 96, (1.5, 2), octaves=2)
        across, down = np.meshgrid(np.linspace(-1, 1, 96), np.linspace(-1, 1, 54))
        self.light = (light * (1 - 0.16 * (across**2 + down**2))).astype(np.float32)
        field = cv2.resize(np.round(self.light * 128), (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR).astype(np.uint8)
        lit = cv2.multiply(self.canvas.image, cv2.merge([field] * 3), scale=1 / 128)
        self.background = cv2.LUT(lit, _response(session))
        self.front = self.canvas.front
        if session.blur > 0:
            self.background = cv2.GaussianBlur(self.background, (0, 0), session.blur)
        coarse = rng.standard_normal((HEIGHT // 2 + 64, WIDTH // 2 + 64), dtype=np.float32) * session.noise * 1.35
        self._grain = cv2.resize(
            np.clip(128 + coarse, 0, 255).astype(np.uint8), None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR
        )

    def shoot(self, birds: list[Placed], index: int) -> tuple[np.ndarray, list[Labelled]]:
        """One frame and what can be seen in it.

        Args:
            birds: who is there; those that end up almost wholly hidden (less than a quarter shows) are left out.
            index: number of the frame, for its noise and flicker.

        Returns:
            The picture (H×W×3, uint8, BGR) and its labelled birds.
        """
        import cv2

        rng = stream(19, self.session.seed, index)
        image = self.background.copy()
        labels = _uncovered([label for placed in birds if (label := self._add(image, placed, rng)) is not None])
        gain = 1 + float(rng.normal(0, 0.012))
        dy, dx = (int(v) for v in rng.integers(0, 128, 2))
        grain = self._grain[dy : dy + HEIGHT, dx : dx + WIDTH]
        return cv2.addWeighted(image, gain, cv2.merge([grain] * 3), 1.0, -128.0), labels

    def _add(self, image: np.ndarray, placed: Placed, rng: np.random.Generator) -> Labelled | None:
        import cv2

        drawn = sprite(placed.bird)
        pad = int(4 + 3 * self.session.blur + 2.5 * self.session.motion)
        paint = cv2.copyMakeBorder(drawn.image, pad, pad, pad, pad, cv2.BORDER_REPLICATE)
        alpha = cv2.copyMakeBorder(drawn.alpha, pad, pad, pad, pad, cv2.BORDER_CONSTANT, value=0)
        left, top = round(placed.x - drawn.feet[0]) - pad, round(placed.y - drawn.feet[1]) - pad
        x0, y0 = max(left, 0), max(top, 0)
        x1, y1 = min(left + alpha.shape[1], WIDTH), min(top + alpha.shape[0], HEIGHT)
        if x1 - x0 < 8 or y1 - y0 < 8:
            return None
        cut = np.s_[y0 - top : y1 - top, x0 - left : x1 - left]
        paint, alpha = np.ascontiguousarray(paint[cut]), np.ascontiguousarray(alpha[cut])
        open_view = 255 - self.front[y0:y1, x0:x1]
        shown = cv2.multiply(alpha, open_view, scale=1 / 255)
        mask = shown > 127
        visible = float(mask.sum() / max((drawn.alpha > 127).sum(), 1))
        if visible < 0.25:
            return None
        light = placed.light * float(self.light[min(53, y0 * 54 // HEIGHT), min(95, x0 * 96 // WIDTH)])
        paint = cv2.LUT(cv2.convertScaleAbs(paint, alpha=light), _response(self.session))
        paint, shown = _blurred(paint, shown, self.session, placed.bird.pose in FLYING, float(rng.uniform(-0.6, 0.6)))
        patch = image[y0:y1, x0:x1]
        patch[:] = over(patch, paint, shown)
        whole = np.zeros((HEIGHT, WIDTH), bool)
        whole[y0:y1, x0:x1] = mask
        return Labelled(placed.individual, whole, _box(whole), visible, placed.bird.pose, placed.far)


def _uncovered(labels: list[Labelled]) -> list[Labelled]:
    """Take out of every bird's mask what a bird drawn later covers."""
    kept: list[Labelled] = []
    for k, label in enumerate(labels):
        later = [other.mask for other in labels[k + 1 :] if (other.mask & label.mask).any()]
        if later:
            mask = label.mask & ~np.logical_or.reduce(later)
            visible = label.visible * float(mask.sum() / label.mask.sum())
            label = replace(label, mask=mask, box=_box(mask), visible=visible)
        if label.visible > 0:
            kept.append(label)
    return kept


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    import cv2

    x, y, w, h = cv2.boundingRect(mask.astype(np.uint8))
    return int(x), int(y), int(w), int(h)


def _blurred(
    paint: np.ndarray, alpha: np.ndarray, session: Session, flying: bool, angle: float
) -> tuple[np.ndarray, np.ndarray]:
    """A bird through the lens: soft edges always, the session's blur, and motion along ``angle`` (radians)."""
    import cv2

    sigma = max(0.7, session.blur)
    paint, alpha = (cv2.GaussianBlur(layer, (0, 0), sigma) for layer in (paint, alpha))
    length = int(session.motion * (4 if flying else 1))
    if length > 1:
        kernel = np.zeros((2 * length + 1, 2 * length + 1), np.uint8)
        dx, dy = length * np.cos(angle) / 2, length * np.sin(angle) / 2
        ends = [(round(length + s * dx), round(length + s * dy)) for s in (-1, 1)]
        cv2.line(kernel, ends[0], ends[1], 1)
        weight = kernel.astype(np.float32) / kernel.sum()
        paint, alpha = (cv2.filter2D(layer, -1, weight) for layer in (paint, alpha))
    return paint, alpha


def _response(session: Session) -> np.ndarray:
    """Grey level in to grey level out, per channel (1×256×3): exposure, white balance, contrast, haze."""
    level = np.linspace(0, 1, 256)[:, None] * session.exposure * (1 + session.warmth * np.array([-0.12, 0.0, 0.1]))
    middle = 0.42 * min(1.0, session.exposure)
    level = (level - middle) * session.contrast + middle
    level = level * (1 - session.haze) + session.haze * np.array([0.84, 0.82, 0.8])
    # A soft shoulder instead of clipped highlights.
    level = np.where(level > 0.85, 0.85 + 0.15 * np.tanh((level - 0.85) / 0.15), level)
    return np.round(np.clip(level, 0, 1) * 255).astype(np.uint8)[None]


def session_frames(session: Session, n_frames: int) -> Iterator[tuple[np.ndarray, list[Labelled]]]:
    """The frames of a session, one after the other, with what can be seen in each."""
    camera = Camera(session)
    for index, birds in enumerate(timeline(session, camera.canvas.perches, n_frames)):
        yield camera.shoot(birds, index)
