"""Masks in every form they come in, to the one text that the columns ``mask_rle`` hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.readers.coco_masks import rle_text


def to_rle(mask: Any, size: tuple[int, int] | None = None, *, value: int | None = None) -> str | None:
    """A mask as the JSON text of ``mask_rle``: size and COCO's compressed run lengths.

    Args:
        mask: polygons (list of flat lists of x, y in px); a run-length object whose counts are a list, text or
            bytes; a numpy bitmap (h, w) of bool or whole numbers; a ``Path`` to, or the bytes of, a picture of one
            channel (PNG; 1, 8 or 16 bits, or a palette, whose indices count). ``None`` and an empty list are no mask.
        size: (height, width) of the frame in px; needed for polygons, and what every other form must have.
        value: the number whose pixels are the bird, in a bitmap or picture that holds several; else all but 0.

    Returns:
        ``{"size": [h, w], "counts": "…"}`` as text, or ``None`` for no mask. A bitmap of zeros is an empty mask.

    Raises:
        ValueError: the sentence says what is wrong.

    >>> to_rle([[0, 0, 2, 0, 2, 1, 0, 1]], (2, 2)) == to_rle(np.array([[1, 1], [0, 0]]))
    True
    >>> to_rle({"size": [2, 2], "counts": [0, 1, 1, 1, 1]}) == to_rle(np.array([[1, 1], [0, 0]]))
    True
    """
    if isinstance(mask, dict | list) or mask is None:
        return rle_text(mask, size)
    bitmap = _picture(mask) if isinstance(mask, Path | bytes) else mask
    if not isinstance(bitmap, np.ndarray):
        raise ValueError(f"a mask that is {type(mask).__name__}")
    if bitmap.ndim != 2 or bitmap.dtype.kind not in "bui":
        raise ValueError(f"a bitmap of shape {bitmap.shape} and type {bitmap.dtype}, not (height, width) whole numbers")
    if size is not None and bitmap.shape != tuple(size):
        raise ValueError(f"size {list(bitmap.shape)} (height, width) in an image of {list(size)}")
    if not bitmap.size:
        raise ValueError("a bitmap without a pixel")
    return rle_text(rle_of_bitmap(bitmap != 0 if value is None else bitmap == value), size)


def rle_of_bitmap(bitmap: np.ndarray) -> dict[str, Any]:
    """The run-length object of a bool (h, w) bitmap, with counts as bytes.

    >>> rle_of_bitmap(np.array([[True, False], [False, False]]))
    {'size': [2, 2], 'counts': b'013'}
    """
    from pycocotools import mask as coco_mask

    rle = coco_mask.encode(np.asfortranarray(bitmap, dtype=np.uint8))
    return {"size": [int(v) for v in rle["size"]], "counts": rle["counts"]}


def to_bitmap(text: str) -> np.ndarray:
    """The bitmap of a ``mask_rle`` text, bool (h, w)."""
    from pycocotools import mask as coco_mask

    return coco_mask.decode(json.loads(text)).astype(bool)


def _picture(source: Path | bytes) -> np.ndarray:
    import io

    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as picture:
            picture.load()
            mode, array = picture.mode, np.asarray(picture)
    except (OSError, UnidentifiedImageError) as error:
        raise ValueError(f"a bitmap that cannot be read: {error}") from None
    if mode not in ("1", "L", "P", "I", "I;16"):
        raise ValueError(f"a bitmap of mode {mode}: a mask has one channel")
    return array
