"""Masks from a network's grid to run lengths in frame pixels, one at a time.

A grid of 28 x 28 (Mask R-CNN) or a quarter of the input (YOLO) is drawn only where a detection can be, row block by row
block: the memory needed is that of one detection's box, however many there are and however large the frame.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from birdlab.inference.detector import Boxes

#: Most values that are interpolated at a time.
BLOCK = 2**19


def drawn_rle(
    grid: np.ndarray,
    scale: tuple[float, float],
    offset: tuple[float, float],
    box: np.ndarray,
    shape: tuple[int, int],
    *,
    level: float,
) -> str | None:
    """The mask ``grid > level`` in frame pixels, bilinearly interpolated and cut at a box.

    Pixel (column x, row y) of the frame, whose centre is at (x + 1/2, y + 1/2), looks at (x + 1/2) · scale + offset
    on the grid, whose cell i covers i to i + 1; beyond the outer cells' centres the outer cells count.

    Args:
        grid: float array of shape (h, w).
        scale: cells per frame pixel along x and y.
        offset: where the frame's left top corner lies on the grid, in cells, along x and y.
        box: left, top, width, height in frame px; pixels that it touches may be drawn.
        shape: (H, W) of the frame.
        level: a pixel is inside where the interpolated value is larger.

    Returns:
        JSON text ``{"size": [H, W], "counts": "…"}``; ``None`` if no pixel is inside.

    >>> drawn_rle(np.array([[0., 1.]]), (0.5, 0.5), (0, 0), np.array([0, 0, 4, 2]), (2, 4), level=0.5)
    '{"size": [2, 4], "counts": "44"}'
    """
    bounds = _bounds(grid, scale, offset, box, shape, level)
    if bounds is None:
        return None
    x0, y0, x1, y1 = bounds
    crop = _interpolated(
        grid, (np.arange(x0, x1) + 0.5) * scale[0] + offset[0], (np.arange(y0, y1) + 0.5) * scale[1] + offset[1], level
    )
    return crop_rle(crop, (x0, y0), shape) if crop.any() else None


def pasted_rle(mask: np.ndarray, box: np.ndarray, whole: np.ndarray, shape: tuple[int, int]) -> str | None:
    """The mask of a region network, a square grid of probabilities over its box, in frame pixels.

    The grid is stretched over the box exactly (as in Detectron2; torchvision itself first rounds the box outward to
    whole pixels, which moves edges by up to a pixel); around it the probability is 0.

    Args:
        mask: float array of shape (28, 28) or alike, in [0, 1].
        box: left, top, width, height in frame px, cut at the frame.
        whole: left, top, right, bottom in frame px before it was cut.
        shape: (H, W) of the frame.

    Returns:
        JSON text of the run lengths; ``None`` if no pixel reaches one half.
    """
    h, w = mask.shape
    scale = w / (whole[2] - whole[0]), h / (whole[3] - whole[1])
    offset = 1 - whole[0] * scale[0], 1 - whole[1] * scale[1]
    return drawn_rle(np.pad(mask, 1), scale, offset, box, shape, level=0.5)


def with_masks(boxes: Boxes, masks: list[str | None], shape: tuple[int, int]) -> Boxes:
    """Boxes with their masks; one without a pixel (``None``) is an empty RLE, which overlaps with nothing, and counted.

    Args:
        boxes: of one frame.
        masks: RLE per box.
        shape: height and width of the frame, px.
    """
    empty = crop_rle(np.zeros((0, 0), bool), (0, 0), shape)
    filled = [mask if mask is not None else empty for mask in masks]
    return replace(boxes, masks=filled, n_empty_masks=sum(mask is None for mask in masks))


def crop_rle(crop: np.ndarray, corner: tuple[int, int], shape: tuple[int, int]) -> str:
    """COCO RLE (JSON text) of a frame that is empty but for ``crop``, whose left top pixel is at ``corner`` (x, y).

    >>> crop_rle(np.ones((1, 1), bool), (1, 0), (2, 2))
    '{"size": [2, 2], "counts": "211"}'
    """
    from pycocotools import mask as coco

    height, width = shape
    padded = np.zeros((crop.shape[1], crop.shape[0] + 2), dtype=np.int8)
    padded[:, 1:-1] = crop.T
    steps = np.diff(padded, axis=1)
    columns, starts = np.nonzero(steps == 1)
    _, ends = np.nonzero(steps == -1)
    offset = (corner[0] + columns) * height + corner[1]
    # A run that reaches the foot of a column goes on at the head of the next one: runs of length 0 are legal in RLE.
    edges = np.stack([offset + starts, offset + ends], axis=1).ravel()
    counts = np.diff(np.concatenate([[0], edges, [height * width]]))
    packed = coco.frPyObjects({"size": [height, width], "counts": _merged(counts.tolist())}, height, width)
    return json.dumps({"size": [height, width], "counts": packed["counts"].decode("ascii")})


def _merged(counts: list[int]) -> list[int]:
    """The same runs with those of length 0 (but the first) joined to their neighbours, as COCO writes them."""
    merged = counts[:1]
    pending = False
    for count in counts[1:]:
        if pending:
            merged[-1] += count
            pending = False
        elif count == 0:
            pending = True
        else:
            merged.append(count)
    return merged


def _bounds(
    grid: np.ndarray,
    scale: tuple[float, float],
    offset: tuple[float, float],
    box: np.ndarray,
    shape: tuple[int, int],
    level: float,
) -> tuple[int, int, int, int] | None:
    """Columns and rows of the frame that the box touches and in which a pixel can be inside at all."""
    high = grid > level
    limits = []
    for axis, (low, side, size) in enumerate(((box[0], box[2], shape[1]), (box[1], box[3], shape[0]))):
        cells = np.flatnonzero(high.any(axis=axis))
        if not len(cells):
            return None
        # A value above the level needs a cell above it within one cell; the outer cells count for all beyond them.
        first, last = (cells[0] - 0.5, cells[-1] + 1.5)
        n = grid.shape[1 - axis]
        start = -np.inf if cells[0] == 0 else (first - offset[axis]) / scale[axis] - 0.5
        stop = np.inf if cells[-1] == n - 1 else (last - offset[axis]) / scale[axis] + 0.5
        lo = max(0.0, np.floor(low), np.floor(start) if np.isfinite(start) else 0.0)
        hi = min(float(size), np.ceil(low + side), np.ceil(stop) if np.isfinite(stop) else float(size))
        if hi <= lo:
            return None
        limits.append((int(lo), int(hi)))
    return limits[0][0], limits[1][0], limits[0][1], limits[1][1]


def _interpolated(grid: np.ndarray, xs: np.ndarray, ys: np.ndarray, level: float) -> np.ndarray:
    """Whether the grid, interpolated at columns ``xs`` and rows ``ys`` (cells from its corner), is above the level."""
    left, right, fx = _neighbours(xs, grid.shape[1])
    above, below, fy = _neighbours(ys, grid.shape[0])
    values = grid.astype(np.float32)
    across = values[:, left] * (1 - fx) + values[:, right] * fx
    inside = np.empty((len(ys), len(xs)), dtype=bool)
    step = max(1, BLOCK // max(1, len(xs)))
    for start in range(0, len(ys), step):
        part = slice(start, start + step)
        weight = fy[part, None]
        np.greater(across[above[part]] * (1 - weight) + across[below[part]] * weight, level, out=inside[part])
    return inside


def _neighbours(positions: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = np.clip(positions - 0.5, 0, n - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, n - 1), (at - low).astype(np.float32)
