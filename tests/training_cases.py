"""Made pictures to train on: bright rectangles and discs on a noisy ground, in sessions of two frames."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.training.data import TrainingData

#: A very small YOLOv8 for pictures of 64 px; ``HEAD`` is its last layer.
YAML = """
nc: 1
depth_multiple: 1.0
width_multiple: 1.0
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, C2f, [16, true]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, C2f, [16, true]]
  - [-1, 1, Conv, [16, 3, 2]]
head:
  - [[4, 5], 1, HEAD]
"""
DETECT = YAML.replace("HEAD", "Detect, [nc]")
SEGMENT = YAML.replace("HEAD", "Segment, [nc, 8, 16]")


def made_data(folder: Path, *, n: dict[str, int] | None = None, masks: bool = False) -> TrainingData:
    """Write pictures of 80 × 64 px and YOLO files under ``folder``; every fifth frame is empty."""
    import cv2

    n = n or {"train": 8, "val": 4, "test": 4}
    rng = np.random.default_rng(3)
    media, frames, labels, split = [], [], [], []
    for part, count in n.items():
        for kind in ("images", "labels"):
            (folder / "yolo" / kind / part).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            name = f"{part}/{i:02d}.png"
            image = rng.integers(0, 60, (64, 80, 3), dtype=np.uint8)
            lines = []
            for k in range(0 if i % 5 == 4 else 1 + i % 2):
                w, h = (int(v) for v in rng.integers(14, 26, 2))
                x, y = k * 40 + int(rng.integers(0, 40 - w)), int(rng.integers(0, 64 - h))
                image[y : y + h, x : x + w] = (40, 200, 250)
                bitmap = np.zeros((64, 80), np.uint8)
                bitmap[y : y + h, x : x + w] = 1
                row = {"label_id": f"{name}/{k}", "frame_id": name, "category": "bird", "is_crowd": False}
                row |= {"x": float(x), "y": float(y), "w": float(w), "h": float(h), "is_ignored": False}
                labels.append(row | {"mask_rle": _rle(bitmap) if masks else None})
                corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h)]
                polygon = " ".join(f"{px / 80:.6f} {py / 64:.6f}" for px, py in corners)
                box = f"{(x + w / 2) / 80:.6f} {(y + h / 2) / 64:.6f} {w / 80:.6f} {h / 64:.6f}"
                lines.append(f"0 {polygon if masks else box}")
            path = folder / "yolo" / "images" / name
            cv2.imwrite(str(path), image)
            (folder / "yolo" / "labels" / part / f"{i:02d}.txt").write_text("\n".join(lines), encoding="ascii")
            session = f"{part}-{i // 2}"
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            media.append(
                {"dataset": "made", "media_id": name, "kind": "image", "path": str(path), "video_id": session}
                | {"sha256": sha256}
            )
            state = "labelled" if lines else "empty"
            frames.append(
                {"frame_id": name, "media_id": name, "video_id": session, "frame_index": 0, "split": part}
                | {"label_state": state, "width_px": 80, "height_px": 64, "site_id": part}
            )
            split.append({"frame_id": name, "split": part})
    yolo = folder / "yolo" / "data.yaml"
    text = {"path": str(folder / "yolo"), "train": "images/train", "val": "images/val", "names": {0: "bird"}}
    yolo.write_text(json.dumps(text), encoding="utf-8")
    tables = [
        schemas.validate(k, pl.DataFrame(v)) for k, v in (("frames", frames), ("labels", labels), ("media", media))
    ]
    return TrainingData(
        *tables,
        pl.DataFrame(split),
        ("bird",),
        {"segment" if masks else "detect": yolo},
        name="made",
        licence="CC0",
        split_by="session",
    )


def _rle(bitmap: np.ndarray) -> str:
    from pycocotools import mask as coco

    packed = coco.encode(np.asfortranarray(bitmap))
    return json.dumps({"size": list(bitmap.shape), "counts": packed["counts"].decode("ascii")})
