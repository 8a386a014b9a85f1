"""Boundary IoU: how well the outlines of two masks agree, where the IoU of large masks hardly sees their edges.

Cheng, Girshick, Dollár, Berg and Kirillov (2021), "Boundary IoU: Improving Object-Centric Image Segmentation
Evaluation", Eq. 2. Neither of the two engines computes it.

The band's width follows from the frame, not from the bird: in a 4K frame it is 88 px, so a bird thinner than 176 px is all
band and its boundary IoU is its IoU. It says something of its own about close-ups only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Width of the band along an outline, as a share of the frame's diagonal (Cheng et al. 2021, §5).
DILATION_RATIO = 0.02


def band_width(height: int, width: int, *, ratio: float = DILATION_RATIO) -> int:
    """Width of the band along an outline, px: ``ratio`` of the frame's diagonal, rounded, at least 1.

    >>> band_width(4, 4), band_width(192, 240), band_width(2160, 3840)
    (1, 6, 88)
    """
    return max(1, round(ratio * math.hypot(height, width)))


def boundary(mask: np.ndarray, width: int) -> np.ndarray:
    """Pixels of a mask no further than ``width`` from its outside, counted as a king walks.

    Args:
        mask: bool (h, w); what lies beyond the array is outside.
        width: of the band, px, at least 1.

    Returns:
        bool (h, w): all of a mask that is nowhere thicker than the band.

    >>> boundary(np.ones((4, 4), bool), 1).astype(int).tolist()
    [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    """
    import cv2

    # A rim of nothing: a mask that the frame cuts off has an outline there too, as in the paper's own code.
    padded = np.pad(mask.astype(np.uint8), 1)
    inner = cv2.erode(padded, np.ones((3, 3), np.uint8), iterations=width)[1:-1, 1:-1]
    return mask.astype(bool) & (inner == 0)


def boundary_iou(found: dict[str, Any], truth: dict[str, Any], *, ratio: float = DILATION_RATIO) -> float | None:
    """Overlap of the bands along two outlines, |F ∩ T| / |F ∪ T| of the bands, in [0, 1], higher is better.

    Args:
        found, truth: compressed run-length objects of one size, as ``boxes.decode_rle`` gives.
        ratio: width of the band as a share of the frame's diagonal.

    Returns:
        The overlap; ``None`` where both masks are empty. A mask nowhere thicker than two bands is all band: then it
        is the IoU of the masks. It is symmetric.

    A bird of 4 × 4 px found as its upper 4 × 3 has bands of 12 and 10 px in a frame of 48 × 48 (1 px wide), of which
    8 are shared: the two sides of 3 px and the inner 2 px of the top. IoU is 0.75.

    >>> from birdlab.detection.mask_forms import rle_of_bitmap
    >>> t, f = np.zeros((48, 48), bool), np.zeros((48, 48), bool)
    >>> t[:4, :4] = f[:3, :4] = True
    >>> boundary_iou(rle_of_bitmap(f), rle_of_bitmap(t)) == 8 / (12 + 10 - 8)
    True
    """
    from pycocotools import mask as coco_mask

    sides = [(coco_mask.decode(rle), coco_mask.toBbox(rle)) for rle in (found, truth)]
    filled = [box for _, box in sides if box[2] > 0]
    if not filled:
        return None
    # Only the window that holds both masks is eroded: a bird is small in its frame.
    x0, y0 = (int(min(box[k] for box in filled)) for k in (0, 1))
    x1, y1 = (int(max(box[k] + box[k + 2] for box in filled)) for k in (0, 1))
    width = band_width(*truth["size"], ratio=ratio)
    f, t = (boundary(mask[y0:y1, x0:x1] > 0, width) for mask, _ in sides)
    return float(np.count_nonzero(f & t) / np.count_nonzero(f | t))
