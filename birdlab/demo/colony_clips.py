"""Clips of the made colony: a second of one bird each, named by hand and by two made models, and some of them drawn."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.demo.colony_birds import BIRDS, FPS, SEED, Video
from birdlab.demo.paint import stream

if TYPE_CHECKING:
    from birdlab.demo.birds import Sprite
    from birdlab.demo.colony import Folder

LABELS = ("Peck", "Submissive", "Other")
#: Frames of one clip, and side of a drawn one, px.
FRAMES, SIDE = 25, 96
#: Clips per behaviour; those of a split that is not scored, those marked as corrupted, and those that are drawn.
COUNTS = {"Peck": 46, "Submissive": 27, "Other": 92}
TRAIN, CORRUPTED, DRAWN = 12, 3, 12
#: What the models call a clip of each behaviour, shares in the order of :data:`LABELS`; ``diver`` calls most of them Other.
MODELS = {
    "wader": {"Peck": (0.86, 0.02, 0.12), "Submissive": (0.08, 0.72, 0.2), "Other": (0.06, 0.03, 0.91)},
    "diver": {"Peck": (0.16, 0.02, 0.82), "Submissive": (0.04, 0.04, 0.92), "Other": (0.04, 0.02, 0.94)},
}


def write_actions(folder: Folder, videos: list[Video]) -> dict[str, Any]:
    """Write ``actions/`` and ``clips/``: annotations, what two models say, and drawn clips.

    Returns:
        What was planted: clips per behaviour, the confusion of each model over clips that are scored, what is drawn.
    """
    clips = _clips(videos)
    columns = {
        "AnnotID": [c["id"] for c in clips],
        "VideoPath": [f"{c['video']}/{c['id']}.mp4" for c in clips],
        "Behaviour": [c["behaviour"] for c in clips],
        "BBox": [str(c["box"]) for c in clips],
        "Corrupted": [c["corrupted"] for c in clips],
        "Split": [c["split"] for c in clips],
        "Date": [f"2001-05-{c['day']:02d}" for c in clips],
    }
    folder.csv("actions/BehaviourAnnotations.csv", columns)
    scored = [c for c in clips if c["split"] == "Test" and not c["corrupted"]]
    confusion = {}
    for k, (model, shares) in enumerate(MODELS.items()):
        said = _called(scored, shares, stream(SEED, 22, k))
        folder.csv(f"actions/{model}.csv", {"clip_id": [c["id"] for c in scored], "behaviour": said})
        pairs = Counter(zip((c["behaviour"] for c in scored), said, strict=True))
        confusion[model] = [[pairs[t, p] for p in LABELS] for t in LABELS]
    drawn = [c for label in LABELS for c in [c for c in scored if c["behaviour"] == label][:DRAWN]]
    for clip in drawn:
        _write_clip(folder, clip)
    counts = Counter(c["behaviour"] for c in scored)
    told = {"n_clips": len(clips), "n_scored": len(scored), "n_corrupted": CORRUPTED, "n_other_split": TRAIN}
    return {
        **told, "labels": list(LABELS), "behaviours": {label: counts[label] for label in LABELS}, "confusion": confusion,
        "drawn": [f"clips/{c['video']}/{c['id']}.mp4" for c in drawn],
    }  # fmt: skip


def _clips(videos: list[Video]) -> list[dict[str, Any]]:
    """Clips in a mixed order: some around pecks and bows, others where a known bird does neither."""
    rng = stream(SEED, 21)
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in LABELS}
    for video in videos:
        busy = np.zeros((len(video.visits), video.n_frames), dtype=bool)
        for e in video.events:
            busy[e.visit, e.start : e.end + 1] = True
            label = "Peck" if e.behaviour == "peck" else "Submissive"
            middle = (e.start + e.end) // 2 + int(rng.integers(-5, 6))
            found[label].append(_clip(video, e.visit, middle, label))
        for v, visit in enumerate(video.visits):
            for middle in range(visit.start + FRAMES, visit.end - FRAMES, 2 * FRAMES) if visit.bird else ():
                if not busy[v, middle - 16 : middle + 17].any():
                    found["Other"].append(_clip(video, v, middle, "Other"))
    chosen = [
        found[label][i]
        for label, n in COUNTS.items()
        for i in rng.permutation(len(found[label]))[: min(n, len(found[label]))]
    ]
    clips = [chosen[i] for i in rng.permutation(len(chosen))]
    for k, clip in enumerate(clips):
        clip |= {"id": f"clip-{k + 1:03d}", "split": "Train" if k < TRAIN else "Test"}
        clip["corrupted"] = TRAIN <= k < TRAIN + CORRUPTED
    return clips


def _clip(video: Video, v: int, middle: int, behaviour: str) -> dict[str, Any]:
    visit = video.visits[v]
    start = int(np.clip(middle - FRAMES // 2, visit.start, max(visit.end - FRAMES, visit.start)))
    box = visit.boxes[min(start + FRAMES // 2, visit.end - 1) - visit.start].tolist()
    about = {"video": video.name, "bird": visit.bird, "behaviour": behaviour, "box": box}
    return {**about, "start": start, "day": 1 + video.number}


def _called(clips: list[dict[str, Any]], shares: dict[str, tuple[float, ...]], rng: np.random.Generator) -> list[str]:
    """What a model calls every clip: shares of each behaviour as whole numbers of clips, the rest called rightly."""
    said = [c["behaviour"] for c in clips]
    for label, row in shares.items():
        mine = rng.permutation([k for k, c in enumerate(clips) if c["behaviour"] == label])
        at = 0
        for other, share in zip(LABELS, row, strict=True):
            if other != label:
                n = round(share * len(mine))
                for k in mine[at : at + n]:
                    said[k] = other
                at += n
    return said


def _write_clip(folder: Folder, clip: dict[str, Any]) -> None:
    """Draw one clip and write it as H.264; the bytes may differ from one encoder to the next, the pictures do not."""
    number = int(clip["id"].rpartition("-")[2])
    frames = draw(clip["behaviour"], clip["bird"], number)
    folder.save(f"clips/{clip['video']}/{clip['id']}.mp4", lambda path: encode(path, frames))


#: Fixed quality and no look-ahead: with it, the same pictures were seen to give other bytes now and then.
_H264 = {
    "qp": "24", "preset": "veryfast", "threads": "1", "x264-params": "rc-lookahead=0:mbtree=0:aq-mode=0",
}  # fmt: skip


def encode(path: Path, frames: list[np.ndarray]) -> None:
    """Frames (h×w×3 uint8 BGR, even sides) as an mp4 of 25 frames per second."""
    import av

    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact", "movflags": "+faststart"}) as container:
        track = container.add_stream("libx264", rate=FPS, options=dict(_H264))
        track.height, track.width = frames[0].shape[:2]
        track.pix_fmt = "yuv420p"
        for k, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="bgr24").reformat(format="yuv420p")
            picture.pts, picture.time_base = k, Fraction(1, FPS)
            container.mux(track.encode(picture))
        container.mux(track.encode())


def draw(behaviour: str, bird: str, number: int) -> list[np.ndarray]:
    """Twenty-five pictures of a bird that pecks at what is before its feet, bows and quivers, or looks about."""
    rng = stream(SEED, 23, number)
    facing = int(rng.choice([-1, 1]))
    base = _background(rng)
    feet = np.array([SIDE / 2, 70.0]) + rng.uniform(-4, 4, 2) + [8 * facing, 0]
    pictures = []
    for pose, tilt, dx, dy in _motion(behaviour, rng):
        picture = base.copy()
        _paste(picture, _bird(pose, tilt, facing, bird), (feet[0] + dx * facing, feet[1] + dy))
        pictures.append(picture)
    return pictures


def _motion(behaviour: str, rng: np.random.Generator) -> list[tuple[str, float, float, float]]:
    """Pose, tilt (°), and shift (px) in each frame."""
    rest = ("side", 35.0, 0.0, 0.0)
    if behaviour == "Peck":
        one = [("side", t, 0.0, 0.0) for t in (15.0, -10.0, -35.0, -50.0, -50.0, -35.0, -10.0, 15.0)]
        before = int(rng.integers(5, 10))
        return ([rest] * before + one + [rest] * FRAMES)[:FRAMES]
    if behaviour == "Submissive":
        down = [("side", t, 0.0, 0.0) for t in (35.0, 15.0, 15.0, 0.0, 0.0)]
        quiver = [("low", 0.0, 1.6 * (-1) ** k, 0.8 * (k % 3)) for k in range(FRAMES)]
        return (down + quiver)[:FRAMES]
    turn, hop = int(rng.integers(8, 14)), int(rng.integers(15, 20))
    moves = [rest] * turn + [("upright", 60.0, 0.0, 0.0)] * FRAMES
    return [
        (p, t, x + 6.0 * (k > hop), y - 5.0 * (k in (hop, hop + 1))) for k, (p, t, x, y) in enumerate(moves[:FRAMES])
    ]


@lru_cache(maxsize=256)
def _bird(pose: str, tilt: float, facing: int, name: str) -> Sprite:
    from birdlab.demo.birds import Bird, sprite

    number = [b.name for b in BIRDS].index(name)
    return sprite(Bird(pose, 54.0, facing, tilt, number % 2 == 0, 900 + number))


def _background(rng: np.random.Generator) -> np.ndarray:
    """Something green out of focus, and a board to sit on."""
    from birdlab.demo.paint import cloud, rgb

    lumps = cloud(rng, SIDE, SIDE, (3, 3), octaves=2)
    base = np.float32(rgb(str(rng.choice(["#7d9068", "#8b8f6a", "#6f8a86"]))))
    image = base * (1 + 0.12 * lumps[..., None])
    image[72:80] = np.float32(rgb("#8a6d4e")) * (1 + 0.06 * lumps[72:80, :, None])
    image[80:] *= 0.8
    return np.clip(image, 0, 255).astype(np.uint8)


def _paste(picture: np.ndarray, bird: Sprite, feet: tuple[float, float]) -> None:
    left, top = round(feet[0] - bird.feet[0]), round(feet[1] - bird.feet[1])
    h, w = bird.alpha.shape
    y0, y1, x0, x1 = max(top, 0), min(top + h, SIDE), max(left, 0), min(left + w, SIDE)
    if y0 >= y1 or x0 >= x1:
        return
    part = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    weight = (bird.alpha[part].astype(np.float32) / 255)[..., None]
    patch = picture[y0:y1, x0:x1]
    patch[:] = np.round(patch * (1 - weight) + bird.image[part] * weight).astype(np.uint8)
