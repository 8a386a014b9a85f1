"""What makes a bird hard to see, measured on one frame: light, contrast, blur, clutter, crowding, size, border.

One Canny edge map and one pass of statistics per frame; what is measured at a bird is measured on its crop. Arrays in,
plain numbers out: nothing here reads a file.

The *crop* of a box is every pixel that the box touches inside the frame: columns floor(x) to ceil(x + w), rows
likewise. The same pixels are taken out of the background (Western Bluebird, Eq. 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from birdlab.detection.boxes import relative_size

Gray = NDArray[np.uint8]
Boxes = NDArray[np.float64]

#: Hysteresis thresholds of the edge detector on 8-bit gray (Sobel 3 × 3, L1 norm of the gradient).
CANNY = (100.0, 200.0)
#: Longer side of the thumbnails in which a moved camera is looked for, px.
THUMB_PX = 192
#: Columns that need the frame's pixels; null where it cannot be read.
AT_BIRD = ("brightness_local", "contrast_local", "blur_local", "clutter_local")


class Window(NamedTuple):
    """Pixels of a crop, rows top:bottom and columns left:right."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def n_pixels(self) -> int:
        """Number of pixels."""
        return (self.right - self.left) * (self.bottom - self.top)

    def of(self, image: NDArray[Any]) -> NDArray[Any]:
        """The crop, as a view."""
        return image[self.top : self.bottom, self.left : self.right]


def window(box: Sequence[float], width: int, height: int) -> Window | None:
    """Pixels of the frame that a box touches; ``None`` for a box without area or outside the frame.

    Args:
        box: x, y, w, h in px.
        width: of the frame, px.
        height: of the frame, px.

    >>> window((1.5, 0, 2, 1), 10, 10), window((-3, 0, 3, 1), 10, 10)
    (Window(left=1, top=0, right=4, bottom=1), None)
    """
    x, y, w, h = box
    if not _has_area(w, h):
        return None
    # 10.1 + 20.9 is a hair more than 31: a millionth of a pixel touches nothing.
    left, top = max(0, int(np.floor(x + 1e-6))), max(0, int(np.floor(y + 1e-6)))
    right, bottom = min(width, int(np.ceil(x + w - 1e-6))), min(height, int(np.ceil(y + h - 1e-6)))
    return Window(left, top, right, bottom) if right > left and bottom > top else None


def _has_area(w: float, h: float) -> bool:
    return w > 0 and h > 0 and w * h > 0


def _kept(start: float, length: float, limit: int) -> float:
    """Share of a side that lies within the frame; what sticks out by less than a millionth of a pixel does not."""
    out = max(0.0, -start) + max(0.0, start + length - limit)
    return 1.0 if out < 1e-6 else max(0.0, 1.0 - out / length)


def place(box: Sequence[float], width: int | None, height: int | None) -> dict[str, Any]:
    """What a box says without a pixel: relative size, distance from the border, part outside the frame.

    Args:
        box: x, y, w, h in px, as labelled.
        width: of the frame, px; ``None`` where it is unknown.
        height: of the frame, px.

    Returns:
        ``rel_size`` in [0, 1] for a box inside the frame (Western Bluebird, Eq. 1, of the whole box), ``border_px`` (px
        from the nearest side of the frame to the box, 0 where it reaches it), ``clipped`` (share of its area outside
        the frame, in [0, 1]) and ``reason``. All null for a box without area and where the frame's size is unknown;
        ``border_px`` null for a box outside the frame.

    >>> place((-5, 10, 10, 10), 100, 100)
    {'rel_size': 0.1, 'border_px': 0.0, 'clipped': 0.5, 'reason': None}
    """
    x, y, w, h = (float(v) for v in box)
    none = {"rel_size": None, "border_px": None, "clipped": None}
    if not _has_area(w, h):
        return none | {"reason": "box without area"}
    if not width or not height:
        return none | {"reason": "size of the frame unknown"}
    kept = _kept(x, w, width) * _kept(y, h, height)
    about = {"rel_size": float(relative_size(w, h, width, height)), "clipped": 1.0 - kept}
    if window(box, width, height) is None:
        return about | {"border_px": None, "reason": "box outside the frame"}
    border = max(0.0, min(x, y, width - (x + w), height - (y + h)))
    return {"rel_size": about["rel_size"], "border_px": border, "clipped": about["clipped"], "reason": None}


def mean_sd(pixels: NDArray[Any]) -> tuple[float, float]:
    """Mean and population standard deviation of whole numbers: brightness and RMS contrast of 8-bit gray.

    >>> mean_sd(np.array([[0, 255]], np.uint8))
    (127.5, 127.5)
    """
    import cv2

    mean, sd = cv2.meanStdDev(pixels)
    if sd[0, 0] > 0.05:
        return float(mean[0, 0]), float(sd[0, 0])
    # The difference of two near-equal doubles: a flat crop must have contrast 0, so count in whole numbers.
    n, whole = pixels.size, pixels.astype(np.int64)
    total, squares = int(whole.sum()), int((whole * whole).sum())
    return total / n, (n * squares - total * total) ** 0.5 / n


def sharpness(crop: Gray) -> float | None:
    """Variance of the Laplacian over a crop in gray levels², from 0 up; the lower, the blurrier.

    Kernel 0 1 0 / 1 −4 1 / 0 1 0, the crop mirrored at its own border (Pech-Pacheco et al. 2000, LAPV; Western
    Bluebird §6.2). It grows with contrast and with the noise of the camera: compare like with like.

    Returns:
        ``None`` for a crop under 3 px on a side, which holds no pixel with a neighbour on every side.

    >>> round(sharpness(np.array([[0, 0, 0], [0, 9, 0], [0, 0, 0]], np.uint8)), 6)
    272.0
    """
    import cv2

    if min(crop.shape) < 3:
        return None
    _, sd = mean_sd(cv2.Laplacian(crop, cv2.CV_16S, ksize=1))
    return sd * sd


def edge_map(gray: Gray, canny: tuple[float, float] = CANNY) -> Gray:
    """Canny's binary edge map (255 on edges) of a whole frame: the one that background and local clutter share."""
    import cv2

    return cv2.Canny(gray, *canny)


def covered_px(windows: Sequence[Window]) -> int:
    """Number of pixels under one window or more; overlaps count once.

    >>> covered_px([Window(0, 0, 2, 2), Window(1, 1, 3, 3)])
    7
    """
    if not windows:
        return 0
    xs = np.unique([v for w in windows for v in (w.left, w.right)])
    ys = np.unique([v for w in windows for v in (w.top, w.bottom)])
    cell = np.zeros((len(ys) - 1, len(xs) - 1), dtype=bool)
    for w in windows:
        rows, columns = np.searchsorted(ys, (w.top, w.bottom)), np.searchsorted(xs, (w.left, w.right))
        cell[slice(*rows), slice(*columns)] = True
    return int(np.diff(ys) @ cell @ np.diff(xs))


def background_clutter(
    edges: Gray, windows: Sequence[Window], regions: Sequence[NDArray[np.bool_]] = ()
) -> tuple[float | None, float, float]:
    """Share of edge pixels in what is left of a frame when every bird is taken out, in [0, 1] (Western Bluebird, Eq. 2).

    Args:
        edges: edge map of the frame, not 0 on edges. **It is overwritten**: edges under windows and regions become 0.
        windows: pixels of all birds and of boxes that are no background either.
        regions: further pixels that are no background, bool, of the frame's shape.

    Returns:
        (clutter, share of the frame that is background, share of edge pixels in the whole frame); clutter is ``None``
        where no background is left.

    >>> background_clutter(np.array([[255, 0, 255, 0]], np.uint8), [Window(0, 0, 1, 1)])
    (0.3333333333333333, 0.75, 0.5)
    """
    import cv2

    taken = 0
    for w in windows:
        taken += cv2.countNonZero(w.of(edges))
        w.of(edges)[...] = 0
    if len(regions):
        out = np.logical_or.reduce(list(regions))
        taken += int(np.count_nonzero(edges[out]))
        for w in windows:
            w.of(out)[...] = True
        edges[out] = 0
        covered = int(np.count_nonzero(out))
    else:
        covered = covered_px(windows)
    left, found = edges.size - covered, cv2.countNonZero(edges)
    return (found / left if left else None), left / edges.size, (found + taken) / edges.size


def measure_frame(
    gray: Gray,
    boxes: Boxes,
    *,
    others: Boxes | None = None,
    regions: Sequence[NDArray[np.bool_]] = (),
    canny: tuple[float, float] = CANNY,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All factors of one frame, with one edge map.

    Args:
        gray: uint8 (height, width).
        boxes: float64 (n, 4), labelled birds as x, y, w, h in px.
        others: float64 (m, 4), boxes that are no background and no bird to be found (crowds, ignored regions).
        regions: bool (height, width) each, the same for ignored regions with an outline.
        canny: hysteresis thresholds.

    Returns:
        (frame, birds). frame: ``brightness_global`` in [0, 255], ``contrast_global`` in [0, 127.5],
        ``clutter_background`` in [0, 1] (Eq. 2), ``edge_fraction`` of the whole frame, ``background_share``, ``reason``.
        birds, one per box in order: those of the frame but the last three, ``crowding`` (number of boxes), ``n_pixels``
        of the crop, ``brightness_local``, ``contrast_local``, ``blur_local``, ``clutter_local`` and what :func:`place`
        gives. Null with a reason: everything local for a box without area or outside the frame; contrast of one pixel;
        blur under 3 px on a side; background clutter where no background is left.

    Raises:
        ValueError: ``gray`` is not uint8 with two dimensions.
    """
    if gray.dtype != np.uint8 or gray.ndim != 2 or not gray.size:
        raise ValueError(f"a frame is uint8, height × width, not {gray.dtype} {gray.shape}")
    height, width = gray.shape
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    more = np.zeros((0, 4)) if others is None else np.asarray(others, dtype=np.float64).reshape(-1, 4)
    windows = [window(box, width, height) for box in boxes.tolist()]
    edges = edge_map(gray, canny)
    local = [_crop_values(gray, edges, w) for w in windows]
    masked = [w for w in (*windows, *(window(box, width, height) for box in more.tolist())) if w]
    clutter, share, fraction = background_clutter(edges, masked, regions)
    brightness, contrast = mean_sd(gray)
    empty = None if clutter is not None else "no background left"
    of_frame = {"brightness_global": brightness, "contrast_global": contrast, "clutter_background": clutter}
    birds = []
    for box, values in zip(boxes.tolist(), local, strict=True):
        row = place(box, width, height)
        reason = "; ".join(r for r in (row["reason"], values["reason"], empty) if r) or None
        birds.append(of_frame | row | values | {"crowding": len(boxes), "reason": reason})
    frame = of_frame | {"edge_fraction": fraction, "background_share": share, "reason": empty}
    return frame, birds


def _crop_values(gray: Gray, edges: Gray, at: Window | None) -> dict[str, Any]:
    if at is None:
        return dict.fromkeys(AT_BIRD) | {"n_pixels": 0, "reason": None}
    import cv2

    crop, n = at.of(gray), at.n_pixels
    mean, sd = mean_sd(crop)
    blur = sharpness(crop)
    if n == 1:
        reason = "crop of one pixel: no contrast, no blur"
    else:
        reason = None if blur is not None else "crop under 3 px on a side: no blur"
    return {
        "brightness_local": mean,
        "contrast_local": sd if n > 1 else None,
        "blur_local": blur,
        "clutter_local": cv2.countNonZero(at.of(edges)) / n,
        "n_pixels": n,
        "reason": reason,
    }


def thumbnail(gray: Gray) -> Gray:
    """The frame at :data:`THUMB_PX` on its longer side; a smaller frame as it is."""
    import cv2

    longer = max(gray.shape)
    if longer <= THUMB_PX:
        return np.ascontiguousarray(gray)
    height, width = (max(1, round(side * THUMB_PX / longer)) for side in gray.shape)
    # Every n-th pixel first: averaging all of a 4K frame costs more than its statistics, and shows the same.
    step = max(1, longer // (2 * THUMB_PX))
    return cv2.resize(np.ascontiguousarray(gray[::step, ::step]), (width, height), interpolation=cv2.INTER_AREA)


def colour_spread(bgr: NDArray[np.uint8]) -> float:
    """How much the colours of a picture differ, in gray levels, from 0 (gray, or one tint all over) up.

    The root of var(Cb) + var(Cr), population variances, over a picture of at most about 500 px (a larger one is thinned).

    >>> colour_spread(np.full((4, 4, 3), (90, 60, 80), np.uint8))
    0.0
    """
    import cv2

    step = max(1, max(bgr.shape[:2]) // 500)
    ycc = cv2.cvtColor(np.ascontiguousarray(bgr[::step, ::step]), cv2.COLOR_BGR2YCrCb)
    _, sd = cv2.meanStdDev(ycc)
    return float(np.hypot(sd[1, 0], sd[2, 0]))
