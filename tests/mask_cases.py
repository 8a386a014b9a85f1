"""Pictures with one red target at a known place, as files that a camera held upright or turned would have written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

#: Stored pixels are the upright picture turned by this many quarter turns against the clock.
QUARTER_TURNS = {1: 0, 6: 1, 8: -1, 3: 2}


def target_picture(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """An RGB picture of a red L on dark green with blue blocks elsewhere, and the L as a bool mask."""
    inside = np.zeros((height, width), dtype=bool)
    x0, y0, w, h = round(0.55 * width), round(0.2 * height), round(0.3 * width), round(0.35 * height)
    inside[y0 : y0 + h, x0 : x0 + w] = True
    inside[y0 : y0 + h // 2, x0 + w // 2 : x0 + w] = False
    picture = np.zeros((height, width, 3), dtype=np.uint8)
    picture[..., 1] = 40
    picture[-height // 6 :, : width // 3] = (0, 0, 255)
    picture[inside] = (255, 0, 0)
    return picture, inside


def write_turned(path: Path, picture: np.ndarray, orientation: int) -> None:
    """Write an RGB picture as a JPEG whose EXIF orientation says how to turn it upright."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = np.ascontiguousarray(np.rot90(picture, QUARTER_TURNS[orientation]))
    Image.fromarray(stored).save(path, quality=98, subsampling=0, exif=exif)


def box_of(inside: np.ndarray) -> list[int]:
    """Left, top, right, bottom of a mask."""
    ys, xs = np.nonzero(inside)
    return [int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1]


def decode(rle: str) -> np.ndarray:
    """A mask from its run lengths, by pycocotools."""
    from pycocotools import mask as coco

    said = json.loads(rle)
    return coco.decode({"size": said["size"], "counts": said["counts"].encode()}).astype(bool)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """IoU of two masks."""
    return float((a & b).sum() / (a | b).sum())


def outline(mask: np.ndarray) -> int:
    """Length of a mask's outline, px."""
    padded = np.pad(mask, 1)
    return int((padded[1:] != padded[:-1]).sum() + (padded[:, 1:] != padded[:, :-1]).sum())


def smooth_noise(width: int, height: int, seed: int = 3) -> np.ndarray:
    """A BGR picture of soft noise."""
    import cv2

    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
