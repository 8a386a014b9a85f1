"""The made study of who is who, as files: clips of ringed birds, lists of candidates, codes, ring masks, a weak network.

The layout is that in which CHIRP publishes its re-identification set. What was planted is written to ``reid/truth.json``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.demo import ring_colony as planted
from birdlab.demo.colony import Folder
from birdlab.demo.paint import stream
from birdlab.demo.ring_birds import COLOURS, DIFFICULT, FRAMES, SIDE, RenderedClip, RingSeen, render_clip
from birdlab.demo.ring_colony import BIRDS, SEED, Clip, clips, neighbours, possible, roles, roster, videos
from birdlab.demo.ring_lessons import outline

FOLDER = "reid"
_QUALITY = 88
#: Rings of every so many frames of a clip are in ``instances.json``.
EVERY = 5
#: Pictures with ring masks that a colour forest learns from.
PICTURES = 280
#: The made network's vectors: numbers per clip, and how strongly bird, territory, video and chance are in them.
NUMBERS = 24
STRENGTHS = {"bird": 0.55, "territory": 1.1, "video": 0.5, "chance": 0.9}


def write_reid(out: Path) -> list[str]:
    """Write ``reid/`` of the demo study.

    Written are ``clips.csv`` (CHIRP's Annotation.csv and ``start_frame``), ``images/<video>/<clip>/<frame>.jpg``,
    ``PossibleBirds_Territory.csv`` and ``PossibleBirds_Neighbours.csv``, ``roster.csv``, ``ring_masks/masks.json`` (COCO, a
    category per colour) and its pictures, ``instances.json`` (the same of every fifth image of the clips, as a person
    might have drawn them), ``embeddings.npy`` with ``rows.csv`` (one vector per clip, made by a formula: no network saw
    the pictures) and ``truth.json``.

    Args:
        out: folder of the study.

    Returns:
        Paths written, relative to ``out``.
    """
    folder, every = Folder(out, FOLDER), clips()
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        drawn = list(pool.map(lambda clip: _write_clip(folder, clip), every))
    images, rings = _instances(every, drawn)
    folder.json("instances.json", _coco("Rings of every fifth image of the made clips.", images, rings))
    _write_tables(folder, every)
    learned = _write_masks(folder)
    _write_embeddings(folder, every)
    folder.json("truth.json", _truth(every, drawn, learned), indent=1)
    return folder.names


def draw_clip(clip: Clip) -> RenderedClip:
    """The pictures of one clip, as the light of its video shows them."""
    return render_clip(stream(SEED, 2, clip.number), clip.code, occlusion=clip.occlusion, **clip.video.light[1])


def image_name(clip: Clip, frame: int) -> str:
    """Path of an image, relative to ``reid/``."""
    return f"images/{clip.video.name}/{clip.name}/{frame:02d}.jpg"


def _write_clip(folder: Folder, clip: Clip) -> tuple[list[list[RingSeen]], str]:
    """Draw one clip and write its images.

    Returns:
        Rings of every frame, and where the bird looks.
    """
    drawn = draw_clip(clip)
    for f, frame in enumerate(drawn.frames):
        _save(folder, image_name(clip, f), frame)
    return drawn.rings, drawn.facing


def _save(folder: Folder, name: str, picture: np.ndarray) -> None:
    import cv2

    data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()
    folder.save(name, lambda path: path.write_bytes(data))


def _write_tables(folder: Folder, every: list[Clip]) -> None:
    def repeated(values: Iterable[Any]) -> list[Any]:
        return [value for value in values for _ in range(FRAMES)]

    words = [roles(clip) for clip in every]
    columns = {
        "Video": repeated(c.video.name for c in every),
        "Tracklet": repeated(c.name for c in every),
        "id": repeated(c.bird.name for c in every),
        "Territory": repeated(c.video.territory for c in every),
        "Year": repeated(c.video.day.year for c in every),
        "img": [image_name(c, f) for c in every for f in range(FRAMES)],
        "UnqTrack": repeated(c.track for c in every),
        **{split: repeated(w[split] for w in words) for split in words[0]},
        "Date": repeated(str(c.video.day) for c in every),
        "start_frame": repeated(c.start for c in every),
    }
    folder.csv("clips.csv", columns)
    filmed = videos()
    for word, homes in (("Territory", lambda home: [home]), ("Neighbours", neighbours)):
        lists = [str(possible(video, homes(video.territory))) for video in filmed]
        folder.csv(f"PossibleBirds_{word}.csv", {"Video": [v.name for v in filmed], "PossibleBirds": lists})
    rows = roster()
    folder.csv("roster.csv", {key: [row[key] for row in rows] for key in rows[0]})


def _coco(description: str, images: list[dict[str, Any]], annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "info": {"description": f"{description} Made by birdlab: no ring was ever worn.", "made": True},
        "licenses": [{"id": 1, "name": "CC0-1.0", "url": "https://creativecommons.org/publicdomain/zero/1.0/"}],
        "categories": [{"id": k + 1, "name": name} for k, name in enumerate(COLOURS.values())],
        "images": images,
        "annotations": annotations,
    }


def _labels(image_id: int, rings: list[RingSeen]) -> list[dict[str, Any]]:
    letters = list(COLOURS)
    return [
        {
            "id": 10 * image_id + r,
            "image_id": image_id,
            "category_id": letters.index(ring.letter) + 1,
            **outline(ring, digits=1),
        }
        for r, ring in enumerate(rings)
    ]


def _instances(
    every: list[Clip], drawn: list[tuple[list[list[RingSeen]], str]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    images, annotations = [], []
    for clip, (rings, _) in zip(every, drawn, strict=True):
        for f in range(0, FRAMES, EVERY):
            image_id = 100 * (clip.number + 1) + f
            images.append({"id": image_id, "file_name": image_name(clip, f), "width": SIDE, "height": SIDE})
            annotations += _labels(image_id, rings[f])
    return images, annotations


def _write_masks(folder: Folder) -> dict[str, int]:
    """Pictures of other made birds with their rings; every colour is worn about as often.

    Returns:
        Rings per letter.
    """
    rng = stream(SEED, 3)
    letters = list(COLOURS)
    worn = np.concatenate([rng.permutation(letters) for _ in range(PICTURES // 3)])
    images, annotations, counts = [], [], Counter()
    for k in range(PICTURES):
        clip = render_clip(
            stream(SEED, 4, k),
            "".join(worn[4 * k % len(worn) :][:4]),
            light=float(rng.uniform(0.5, 1.4)),
            blur=float(max(0.0, rng.uniform(-0.6, 0.9))),
            occlusion=float(max(0.0, rng.uniform(-0.4, 0.6))),
            perspective=float(rng.uniform(0, 0.8)),
            white_balance=tuple(float(v) for v in np.exp(rng.normal(0, 0.1, 3))),
            n_frames=1,
        )
        name = f"pictures/{k:03d}.jpg"
        _save(folder, f"ring_masks/{name}", clip.frames[0])
        images.append({"id": k + 1, "file_name": name, "width": SIDE, "height": SIDE})
        annotations += _labels(k + 1, clip.rings[0])
        counts.update(ring.letter for ring in clip.rings[0])
    folder.json("ring_masks/masks.json", _coco("Rings to learn colours from.", images, annotations))
    return {letter: counts[letter] for letter in letters}


def embeddings(every: list[Clip]) -> np.ndarray:
    """Vectors of the made network, (clips, 24) float32: bird, territory, video and chance, each a vector drawn by lot.

    The territory (what is behind the bird) is stronger than the bird: birds of one territory are hard to tell, and it loses
    little where the list grows from a territory to all.
    """
    homes, filmed = list(planted.TERRITORIES), [v.name for v in videos()]
    vectors = np.empty((len(every), NUMBERS), np.float32)
    for k, clip in enumerate(every):
        parts = {
            "bird": (5, int(clip.bird.name[-2:])),
            "territory": (6, homes.index(clip.video.territory)),
            "video": (7, filmed.index(clip.video.name)),
            "chance": (8, clip.number),
        }
        vectors[k] = sum(STRENGTHS[word] * stream(SEED, *key).standard_normal(NUMBERS) for word, key in parts.items())
    return vectors


def _write_embeddings(folder: Folder, every: list[Clip]) -> None:
    vectors = embeddings(every)

    def write(path: Path) -> None:
        with path.open("wb") as stream_:
            np.save(stream_, vectors, allow_pickle=False)

    folder.save("embeddings.npy", write)
    folder.csv("rows.csv", {"clip_id": [clip.name for clip in every]})


def _truth(every: list[Clip], drawn: list[tuple[list[list[RingSeen]], str]], learned: dict[str, int]) -> dict[str, Any]:
    seen = [sum(bool(rings) for rings in frames) for frames, _ in drawn]
    bare = [clip.name for clip, n in zip(every, seen, strict=True) if n == 0]
    on_list = {v.name: possible(v, [v.territory]) for v in videos()}
    return {
        "made": True,
        "n_clips": len(every),
        "videos": [
            {"video": v.name, "territory": v.territory, "date": str(v.day), "light": v.light[0], **v.light[1]}
            for v in videos()
        ],
        "difficult_colours": [list(pair) for pair in DIFFICULT],
        "look_alike": [list(pair) for pair in planted.LOOK_ALIKE],
        "same_code_another_year": ["bird-13", planted.REUSED],
        "ring_lost": planted.LOST,
        "three_rings": planted.THREE,
        "dead": [b.name for b in BIRDS if b.dies],
        "strangers": [b.name for b in BIRDS if b.stranger],
        "arrived_last_year": [b.name for b in BIRDS if b.arrives == planted.YEARS[-1]],
        "query_without_gallery": planted.UNKNOWN_IN_CLOSED,
        "not_on_the_list": [c.name for c in every if c.bird.name not in on_list[c.video.name]],
        "without_visible_rings": {"clips": bare, "share": round(len(bare) / len(every), 4)},
        "together": [[c.beside, c.name] for c in every if c.beside],
        "learned_rings": learned,
        "embeddings": {
            "made_by": "a formula, not a network: standard normal vectors of bird, territory, video and clip, weighted",
            "numbers": NUMBERS,
            "strengths": STRENGTHS,
        },
        "clips": [
            {
                "clip_id": c.name,
                "individual_id": c.bird.name,
                "code": c.code,
                "facing": facing,
                "occlusion": round(c.occlusion, 3),
                "n_with_rings": n,
            }
            for c, n, (_, facing) in zip(every, seen, drawn, strict=True)
        ],
    }
