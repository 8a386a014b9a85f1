"""Masks of COCO files: polygons and run lengths in every form, to the one text that the tables hold."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from birdlab.readers.coco_json import Section, check_boxes


def rle_text(segmentation: Any, size: tuple[int, int] | None) -> str | None:
    """One COCO segmentation as the JSON text of ``mask_rle``: size and compressed counts.

    Args:
        segmentation: polygons (list of flat lists of x, y in px), or a run-length object whose counts are a list,
            text or bytes; ``None`` and an empty list are no mask.
        size: (height, width) of the image in px; needed for polygons, and what a run-length object must have.

    Returns:
        ``{"size": [h, w], "counts": "…"}`` as text, or ``None`` for no mask.

    Raises:
        ValueError: the sentence says what is wrong.

    >>> rle_text({"size": [2, 2], "counts": [1, 2, 1]}, (2, 2))
    '{"size":[2,2],"counts":"121"}'
    """
    if segmentation is None or segmentation == []:
        return None
    rle = _run_lengths(segmentation, size) if isinstance(segmentation, dict) else _polygons(segmentation, size)
    counts = rle["counts"]
    text = counts.decode("ascii") if isinstance(counts, bytes) else counts
    return json.dumps({"size": [int(v) for v in rle["size"]], "counts": text}, separators=(",", ":"))


def mask_column(
    section: Section, sizes: Sequence[tuple[int, int] | None]
) -> tuple[list[str | None], list[dict[str, Any] | None]]:
    """``mask_rle`` of every record of a section, and the same as run-length objects; faulty ones are noted."""
    texts: list[str | None] = []
    faults: dict[int, str] = {}
    for i, record in enumerate(section.records):
        try:
            texts.append(rle_text(record.get("segmentation"), sizes[i]))
        except ValueError as error:
            texts.append(None)
            faults[i] = str(error)
    expected = "polygons, or run lengths of the image's size"
    for code, of_size in (("mask_size", True), ("bad_mask", False)):
        at = [i for i, why in faults.items() if why.startswith("size ") == of_size]
        section.flag(at, code, "segmentation", faults.__getitem__, expected)
    return texts, [None if text is None else json.loads(text) for text in texts]


def sizes_of(images: pl.DataFrame, rows: Sequence[int | None]) -> list[tuple[int, int] | None]:
    """(height, width) of every row's image, ``None`` where it is not given."""
    pairs = [None if None in pair else pair for pair in images.select("height", "width").iter_rows()]
    return [None if k is None else pairs[k] for k in rows]


def boxes_or_masks(section: Section, rles: Sequence[dict[str, Any] | None], warnings: list[str]) -> np.ndarray:
    import hotcoco.mask

    values = section.values("bbox", required=False)
    absent = [i for i, v in enumerate(values) if v is None]
    for i in absent:
        if rles[i] is not None:
            values[i] = hotcoco.mask.toBbox(rles[i]).tolist()
    derived = sum(values[i] is not None for i in absent)
    if derived:
        warnings.append(f"bbox is missing in {derived} {section.name}: it is taken from the mask")
    lost = [i for i in absent if values[i] is None]
    section.flag(lost, "missing_key", "bbox", lambda i: "neither bbox nor segmentation", "a box or a mask")
    boxes = section.boxes(values)
    check_boxes(section, boxes)
    return boxes


def _run_lengths(segmentation: dict[str, Any], size: tuple[int, int] | None) -> dict[str, Any]:
    import hotcoco.mask

    own, counts = segmentation.get("size"), segmentation.get("counts")
    if not (isinstance(own, list | tuple) and len(own) == 2 and all(type(v) is int and v > 0 for v in own)):
        raise ValueError(f"run lengths with size {own!r:.60}")
    if size is not None and tuple(own) != size:
        raise ValueError(f"size {list(own)} (height, width) in an image of {list(size)}")
    _check_pixels(own)
    height, width = own
    if isinstance(counts, list):
        if not all(type(v) is int and v >= 0 for v in counts):
            raise ValueError("run lengths that are not whole numbers of 0 or more")
        if sum(counts) != height * width:
            raise ValueError(f"run lengths that add up to {sum(counts)} in an image of {height * width} pixels")
        return hotcoco.mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    if not isinstance(counts, str | bytes):
        raise ValueError(f"run lengths whose counts are {type(counts).__name__}")
    runs = _decoded(counts.encode() if isinstance(counts, str) else counts)
    if (runs < 0).any() or runs.sum() != height * width:
        raise ValueError(f"run lengths that add up to {runs.sum()} in an image of {height * width} pixels")
    return {"size": [height, width], "counts": counts}


def _decoded(counts: bytes) -> np.ndarray:
    """Run lengths from COCO's text: five bits a character, low ones first, and from the fourth run on the difference
    to the run before last. Decoders take what there is, so only this sees a text that was cut off."""
    codes = np.frombuffer(counts, np.uint8).astype(np.int64) - 48
    last = np.flatnonzero(codes & 32 == 0)
    if ((codes < 0) | (codes > 63)).any() or (len(codes) and (not len(last) or last[-1] != len(codes) - 1)):
        raise ValueError("an RLE text that is not in COCO's encoding, or was cut off")
    first = np.concatenate([[0], last[:-1] + 1]).astype(np.int64) if len(last) else last
    digit = np.arange(len(codes)) - np.repeat(first, last - first + 1)
    if digit.max(initial=0) > 9:
        raise ValueError("run lengths of more than 50 bits")
    runs = np.add.reduceat((codes & 31) << (5 * digit), first) if len(last) else codes
    runs -= np.where(codes[last] & 16, np.int64(32) << (5 * digit[last]), 0)
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def _check_pixels(size: Sequence[int]) -> None:
    if size[0] * size[1] >= 2**32:
        raise ValueError(f"a mask of {size[0] * size[1]:,} pixels, more than COCO's run lengths can hold")


def _polygons(segmentation: Any, size: tuple[int, int] | None) -> dict[str, Any]:
    from pycocotools import mask

    if not isinstance(segmentation, list):
        raise ValueError(f"a segmentation that is {type(segmentation).__name__}")
    if size is None:
        raise ValueError("polygons in an image whose width and height are not known")
    _check_pixels(size)
    for polygon in segmentation:
        if not isinstance(polygon, list) or not all(isinstance(v, int | float) and math.isfinite(v) for v in polygon):
            raise ValueError("polygons that are not lists of numbers")
        if len(polygon) < 6 or len(polygon) % 2:
            raise ValueError(f"a polygon of {len(polygon)} numbers")
    return mask.merge(mask.frPyObjects(segmentation, *size))
