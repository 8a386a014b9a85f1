"""Rings cut out of pictures, and the colour histograms from which the forest learns: the published features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from birdlab.readers.ring_masks import contour_of

#: Side of a crop, px; bins per channel; numbers per ring.
SIDE, BINS = 20, 10
FEATURES = 3 * BINS


def ring_crop(image: np.ndarray, outline: np.ndarray) -> np.ndarray | None:
    """One ring, its bounding box stretched to 20 × 20 px, black around its outline.

    As published (CORVID): the outline's points are rounded, filled, and the corners of its bounding box go to the
    corners of the crop by a perspective warp with bilinear interpolation.

    Args:
        image: uint8 array of shape (H, W, 3), blue-green-red.
        outline: polygon of shape (k, 2), x and y in px, k >= 1; or a mask of shape (H, W), whose largest part is taken.

    Returns:
        uint8 array of shape (20, 20, 3); ``None`` where nothing of the outline lies in the picture.
    """
    import cv2

    if outline.shape[:2] == image.shape[:2] and (outline.dtype == bool or outline.shape[1] != 2):
        found = contour_of(outline)
        if found is None:
            return None
        outline = found
    # Halves to the even number, as the published script rounds.
    points = np.rint(np.asarray(outline, dtype=np.float64).reshape(-1, 2)).astype(np.int32)
    x, y, w, h = cv2.boundingRect(points)
    left, top, right, bottom = max(x, 0), max(y, 0), min(x + w, image.shape[1]), min(y + h, image.shape[0])
    if right <= left or bottom <= top:
        return None
    # Only the box is masked and warped; beyond it the published mask is black, as a border is here.
    inside = np.zeros((h, w), np.uint8)
    cv2.fillPoly(inside, [points - np.array([x, y], np.int32)], 255)
    part = np.zeros((h, w, 3), np.uint8)
    part[top - y : bottom - y, left - x : right - x] = image[top:bottom, left:right]
    part[inside == 0] = 0
    corners = np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32)
    last = SIDE - 1
    target = np.array([[0, 0], [last, 0], [last, last], [0, last]], np.float32)
    return cv2.warpPerspective(part, cv2.getPerspectiveTransform(corners, target), (SIDE, SIDE))


def histograms(crops: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Thirty numbers per ring: pixels in ten equal bins of [0, 256) of hue, saturation and value (OpenCV's HSV).

    OpenCV's hue of 8 bits ends at 179, so the last three of its bins are always 0: 27 numbers can differ. Pixels
    around the ring's outline are black and are counted too, in the first bins.

    Args:
        crops: n crops of one shape (h, w, 3), uint8, blue-green-red.

    Returns:
        float32 array of shape (n, 30); each third sums to the pixels of a crop. (0, 30) for no crop.

    >>> red = np.full((20, 20, 3), (0, 0, 255), np.uint8)
    >>> [int(i) for i in np.flatnonzero(histograms([red])[0])]
    [0, 19, 29]
    """
    import cv2

    if len(crops) == 0:
        return np.zeros((0, FEATURES), np.float32)
    stack = np.asarray(crops)
    n, h, w, _ = stack.shape
    hsv = cv2.cvtColor(np.ascontiguousarray(stack).reshape(n * h, w, 3), cv2.COLOR_BGR2HSV).reshape(n, h * w, 3)
    bins = hsv.astype(np.int64) * BINS // 256
    bins += np.arange(3) * BINS + (np.arange(n) * FEATURES)[:, None, None]
    return np.bincount(bins.ravel(), minlength=n * FEATURES).reshape(n, FEATURES).astype(np.float32)


def histogram(crop: np.ndarray) -> np.ndarray:
    """:func:`histograms` of one crop, shape (30,)."""
    return histograms(crop[None])[0]
