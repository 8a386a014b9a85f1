"""Keypoints of the made colony: thirteen points per bird by hand and by two made models; no picture was drawn for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.demo.colony_birds import HEIGHT, SEED, WIDTH, Video
from birdlab.demo.paint import stream

if TYPE_CHECKING:
    from birdlab.demo.colony import Folder

#: Points of a bird that faces right, in lengths from bill to tail, y downwards; from above, the right side is nearer.
POINTS = {
    "bill_tip": (0.50, -0.16), "bill_base": (0.40, -0.17), "crown": (0.32, -0.26), "nape": (0.22, -0.18),
    "left_eye": (0.35, -0.20), "right_eye": (0.34, -0.18), "throat": (0.32, -0.08), "breast": (0.22, 0.06),
    "left_shoulder": (0.15, -0.10), "right_shoulder": (0.13, -0.05), "back": (-0.05, -0.08), "tail_base": (-0.25, 0.06),
    "tail_tip": (-0.50, 0.14),
}  # fmt: skip
NAMES = tuple(POINTS)
#: Bones between them, 1-based as COCO counts.
SKELETON = [[1, 2], [2, 3], [3, 4], [2, 7], [7, 8], [4, 11], [9, 11], [10, 11], [11, 12], [12, 13]]
N_IMAGES, GROUND_SHARE, SECOND_BIRD = 14, 0.4, 0.35


@dataclass(frozen=True)
class Pointer:
    """How well one made model places points.

    Args:
        name: model.
        sigma: standard deviation along each axis, px; ``ground`` times it for birds on the ground.
        tail: shift of the points of the tail, px.
        missing: share of the points that it does not place, on a perch and on the ground.
    """

    name: str
    sigma: float
    ground: float
    tail: tuple[float, float]
    missing: tuple[float, float]


POINTERS = (
    Pointer("curlew", 2.8, 1.3, (0.0, 0.0), (0.005, 0.01)),
    Pointer("dotterel", 6.5, 1.7, (-9.0, 5.0), (0.03, 0.1)),
)


def write_keypoints(folder: Folder, videos: list[Video]) -> dict[str, Any]:
    """Write ``keypoints/``: the truth as a COCO file, COCO results of two models.

    Returns:
        What was planted, counted as it was drawn: birds, points placed by hand, and per model the points it does not
        place and its mean error, px, by scene.
    """
    images, birds, places = _truth(videos)
    info = {"description": "Made by birdlab: points without pictures, no bird here was ever alive.", "made": True}
    category = {"id": 1, "name": "bird", "keypoints": list(NAMES), "skeleton": SKELETON}
    folder.json(
        "keypoints/truth.json", {"info": info, "images": images, "annotations": birds, "categories": [category]}
    )
    scene = {image["id"]: image["scene"] for image in images}
    told = {}
    for k, pointer in enumerate(POINTERS):
        results, errors, missing = _placed(pointer, birds, places, scene, rng=stream(SEED, 32, k))
        folder.json(f"keypoints/{pointer.name}.json", results)
        far = {where: round(float(np.mean(e)), 3) for where, e in errors.items()}
        told[pointer.name] = {"missing": missing, "mean_error_px": far}
    visible = sum(row["num_keypoints"] for row in birds)
    counts = {"n_images": len(images), "n_birds": len(birds), "n_visible": visible}
    return {**counts, "names": list(NAMES), "models": told, "biased": {"dotterel": ["tail_base", "tail_tip"]}}


def _truth(videos: list[Video]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[np.ndarray]]:
    """Images, annotations, and where all points of each bird are, hidden ones too."""
    images, birds, places = [], [], []
    for video in videos:
        rng = stream(SEED, 31, video.number)
        at = np.sort(rng.choice(video.n_frames, N_IMAGES, replace=False))
        for k, frame in enumerate(at):
            number = len(images) + 1
            ground = bool(rng.random() < GROUND_SHARE)
            about = {"id": number, "file_name": f"{video.name}/{frame:06d}.jpg", "width": WIDTH, "height": HEIGHT}
            images.append({**about, "video": video.name, "scene": "ground" if ground else "perch"})
            for i in range(1 + int(rng.random() < SECOND_BIRD)):
                centre = (320.0 + 560 * ((k + i) % 2) + rng.uniform(-120, 120), 360.0 + rng.uniform(-120, 120))
                points, about_bird = _bird(rng, centre, ground=ground)
                birds.append({"id": len(birds) + 1, "image_id": number, **about_bird})
                places.append(points)
    return images, birds, places


def _bird(rng: np.random.Generator, centre: tuple[float, float], *, ground: bool) -> tuple[np.ndarray, dict[str, Any]]:
    """A bird turned and leaning as it likes: on the ground it leans forward. The far eye and shoulder are not seen."""
    length = rng.uniform(80, 220)
    lean = np.deg2rad(rng.uniform(-10, 35) if ground else rng.uniform(-50, 0))
    facing = int(rng.choice([-1, 1]))
    shape = np.array(list(POINTS.values())) + rng.normal(0, 0.012, (len(NAMES), 2))
    turn = np.array([[np.cos(lean), np.sin(lean)], [-np.sin(lean), np.cos(lean)]])
    points = np.round(shape @ turn * length * [facing, 1] + np.array(centre), 1)
    hidden = set() if rng.random() < 0.15 else {"left" if facing > 0 else "right"}
    visible = np.array([name.partition("_")[0] not in hidden for name in NAMES]) & (rng.random(len(NAMES)) > 0.03)
    low, high = points.min(0) - 0.06 * length, points.max(0) + 0.06 * length
    low, high = np.maximum(np.round(low), 0), np.minimum(np.round(high), [WIDTH, HEIGHT])
    size = high - low
    keypoints = [
        v for (x, y), seen in zip(points.tolist(), visible, strict=True) for v in ((x, y, 2) if seen else (0, 0, 0))
    ]
    return points, {
        "category_id": 1, "iscrowd": 0, "bbox": [*low.tolist(), *size.tolist()], "area": round(float(0.45 * size.prod()), 1),
        "num_keypoints": int(visible.sum()), "keypoints": keypoints,
    }  # fmt: skip


def _placed(
    pointer: Pointer, birds: list[dict[str, Any]], places: list[np.ndarray], scene: dict[int, str], *,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], dict[str, list[float]], int]:  # fmt: skip
    """Results of one model; errors of points that were placed by hand and by it, by scene; points it does not place."""
    results, errors, missing = [], {"perch": [], "ground": []}, 0
    tail = np.array([name.startswith("tail") for name in NAMES])[:, None] * np.array(pointer.tail)
    for row, place in zip(birds, places, strict=True):
        where = scene[row["image_id"]]
        ground = where == "ground"
        sigma = pointer.sigma * (pointer.ground if ground else 1.0)
        found = np.round(place + tail + rng.normal(0, sigma, (len(NAMES), 2)), 1)
        given = rng.random(len(NAMES)) >= pointer.missing[ground]
        score = np.round(rng.uniform(0.5, 1.0, len(NAMES)), 2)
        seen = np.array(row["keypoints"][2::3]) > 0
        missing += int((seen & ~given).sum())
        errors[where] += np.hypot(*(found - place)[seen & given].T).tolist()
        points = [
            v
            for p, s, k in zip(found.tolist(), score.tolist(), given, strict=True)
            for v in ((*p, s) if k else (0, 0, 0))
        ]
        about = {"image_id": row["image_id"], "category_id": 1, "keypoints": points}
        results.append({**about, "score": round(float(score.mean()), 3)})
    return results, errors, missing
