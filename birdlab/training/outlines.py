"""Masks as one outline each, as YOLO's text files hold them.

The outline runs along the edges between pixels, not through their centres, so that drawing it gives back the mask. A line
of such a file is one polygon. A mask in several parts, or with holes, becomes one polygon all the same: its rings are
joined by cuts of no width, there and back along one line, which enclose nothing. Ring by ring the shortest cut is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from birdlab.detection.boxes import decode_rle

Points = NDArray[np.int64]
#: Direction of the next edge after going (dx, dy): turn away from the pixel on the right hand side first, so that two
#: pixels that touch at a corner stay two rings.
_TURNS = {(1, 0): ((0, 1), (1, 0), (0, -1)), (0, 1): ((-1, 0), (0, 1), (1, 0))}
_TURNS |= {(-x, -y): tuple((-a, -b) for a, b in turns) for (x, y), turns in list(_TURNS.items())}


def rings(mask: NDArray[Any]) -> list[Points]:
    """The closed outlines of a mask, along the edges between pixels.

    Args:
        mask: (height, width), true inside.

    Returns:
        One array (n, 2) of corners x, y in px per ring, from the top left one on; outer rings run clockwise (in image
        coordinates), holes the other way. Pixels that touch only at a corner are in rings of their own. None for an empty
        mask.

    >>> rings(np.array([[0, 1, 1], [0, 1, 1]]))[0].tolist()
    [[1, 0], [3, 0], [3, 2], [1, 2]]
    """
    inside = np.pad(np.asarray(mask, dtype=bool), 1)
    ys, xs = np.nonzero(inside)
    if not len(xs):
        return []
    # Every edge of a pixel with nothing on its other side, walked with the pixel on the right hand.
    edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (ny, nx), (fx, fy), step in (
        ((-1, 0), (0, 0), (1, 0)),
        ((0, 1), (1, 0), (0, 1)),
        ((1, 0), (1, 1), (-1, 0)),
        ((0, -1), (0, 1), (0, -1)),
    ):
        bare = ~inside[ys + ny, xs + nx]
        for x, y in zip((xs[bare] + fx - 1).tolist(), (ys[bare] + fy - 1).tolist(), strict=True):
            edges.setdefault((x, y), []).append(step)
    found = []
    for start in sorted(edges, key=lambda p: (p[1], p[0])):
        while edges[start]:
            found.append(_walk(edges, start))
    return found


def _walk(edges: dict[tuple[int, int], list[tuple[int, int]]], start: tuple[int, int]) -> Points:
    """One ring from its top left corner on; its edges are taken out of ``edges``."""
    step = last = min(edges[start], key=lambda s: s != (1, 0))
    corners, at = [start], start
    while True:
        edges[at].remove(step)
        at = (at[0] + step[0], at[1] + step[1])
        if at == start:
            return np.array(corners, dtype=np.int64)
        step = next(s for s in _TURNS[last] if s in edges[at])
        if step != last:
            corners.append(at)
        last = step


def joined(found: list[Points]) -> Points:
    """Rings as one polygon: each is entered and left along one line, at its corner nearest to those already joined.

    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    >>> joined([square, square + 4])[:, 0].tolist()
    [0, 1, 1, 4, 5, 5, 4, 4, 1, 0]
    """
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    out, rest = found[0], list(found[1:])
    while rest:
        best = None
        for k, ring in enumerate(rest):
            apart = ((out[:, None, :] - ring[None, :, :]) ** 2).sum(axis=2)
            i, j = np.unravel_index(int(apart.argmin()), apart.shape)
            if best is None or apart[i, j] < best[0]:
                best = (apart[i, j], int(i), int(j), k)
        _, i, j, k = best
        ring = rest.pop(k)
        turned = np.concatenate([ring[j:], ring[: j + 1]])
        out = np.concatenate([out[: i + 1], turned, out[i:]])
    return out


def outline(mask_rle: str) -> tuple[Points, int, int]:
    """A mask's outline as one polygon.

    Args:
        mask_rle: as in the tables.

    Returns:
        corners (n, 2) in px, number of parts, number of holes; no corners for an empty mask.
    """
    from pycocotools import mask as coco

    rle = decode_rle(mask_rle)
    # Only the box of the mask is decoded to a picture's worth of Python objects.
    x, y, w, h = (int(v) for v in coco.toBbox(rle))
    found = rings(coco.decode(rle)[y : y + h, x : x + w])
    found = [ring + (x, y) for ring in found]
    outer = [signed_area(ring) > 0 for ring in found]
    return joined(found), sum(outer), len(outer) - sum(outer)


def signed_area(ring: Points) -> float:
    """Area of a ring in px², above 0 where it runs clockwise in image coordinates (y down)."""
    x, y = ring[:, 0], ring[:, 1]
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def filled_iou(corners: Points, mask_rle: str) -> float:
    """Overlap in [0, 1] of a mask with its outline as OpenCV fills it, edges included, which is how trainers draw it."""
    import cv2
    from pycocotools import mask as coco

    rle = decode_rle(mask_rle)
    height, width = rle["size"]
    x, y, w, h = (int(v) for v in coco.toBbox(rle))
    # Edges included, a filled outline reaches one pixel further.
    truth = coco.decode(rle)[y : min(height, y + h + 1), x : min(width, x + w + 1)]
    drawn = cv2.fillPoly(np.zeros(truth.shape, dtype=np.uint8), [(corners - (x, y)).astype(np.int32)], 1)
    union = np.count_nonzero(truth | drawn)
    return float(np.count_nonzero(truth & drawn) / union) if union else 1.0
