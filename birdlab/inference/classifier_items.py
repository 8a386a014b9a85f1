"""The photographs that a classifier is asked about: where they lie, their hashes, the box that is looked at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.inference.classifier_labels import ITEM
from birdlab.manifest import hash_file_or_error
from birdlab.readers.files import at_most
from birdlab.readers.labels import locate

#: Columns of a box, px.
BOX = ("x", "y", "w", "h")


@dataclass(frozen=True)
class Image:
    """One photograph to look at; ``box`` is left, top, width, height in px, ``None`` for all of it."""

    item_id: str
    path: Path | None
    sha256: str
    box: list[float] | None = None

    def read(self) -> np.ndarray | DataError:
        """Its pixels (upright BGR uint8), cut to the box; or why there are none."""
        from birdlab.readers.pixels import read_image

        if self.path is None:
            return DataError(Problem("no_image", "no picture", "the path of a picture", key="image"))
        try:
            return cut(read_image(self.path), self.box)
        except DataError as error:
            return error


def cut(image: np.ndarray, box: list[float] | None) -> np.ndarray:
    """The part of an image inside a box, whole pixels that the box touches.

    Args:
        image: array of shape (H, W, 3).
        box: left, top, width, height, px; ``None`` for the whole image. What lies beyond the image is left out.

    Raises:
        DataError: the box has no area inside the image.

    >>> cut(np.arange(12).reshape(3, 4, 1), [1.5, -1, 1, 2])[..., 0].tolist()
    [[1, 2]]
    """
    if box is None:
        return image
    if np.isfinite(box).all():
        x, y, w, h = box
        left, top = max(0, int(np.floor(x))), max(0, int(np.floor(y)))
        right, bottom = min(image.shape[1], int(np.ceil(x + w))), min(image.shape[0], int(np.ceil(y + h)))
        if w > 0 and h > 0 and right > left and bottom > top:
            return image[top:bottom, left:right]
    expected = f"a box with area inside the picture of {image.shape[1]} x {image.shape[0]} px"
    raise DataError(Problem("bad_box", str(box), expected))


def checked_items(items: pl.DataFrame, model: str) -> None:
    """Hold a table of items against what :func:`classify` needs.

    Raises:
        DataError: columns are missing, an item has no name or the name of another.
    """
    where = f"items of model {model}"
    problems = [
        Problem("no_column", f"no column {name}", "item_id and image", record=where)
        for name in (ITEM, "image")
        if name not in items.columns
    ]
    given = [name for name in BOX if name in items.columns]
    if 0 < len(given) < len(BOX):
        problems.append(Problem("no_column", f"only {', '.join(given)}", "x, y, w and h, or none", record=where))
    if ITEM in items.columns:
        n = items[ITEM].null_count()
        if n:
            problems.append(Problem("no_item_id", f"{n} rows without item_id", "one in every row", record=where))
        twice = items.filter(pl.col(ITEM).is_duplicated() & pl.col(ITEM).is_not_null())[ITEM]
        for name in twice.unique(maintain_order=True).to_list():
            problems.append(Problem("double_item", repr(name), "an item_id of its own in every row", record=where))
    if problems:
        raise DataError(at_most(problems))


def images_of(items: pl.DataFrame, base: Path, root: Path) -> list[Image]:
    """Where the photographs of items lie, and the hash of each; an unreadable one gets an empty hash."""
    given = [None if name is None else locate(name, root, base) for name in items["image"].cast(pl.String).to_list()]
    known = items["sha256"].to_list() if "sha256" in items.columns else [None] * items.height
    unknown = list(dict.fromkeys(p for p, sha256 in zip(given, known, strict=True) if p and not sha256))
    with ThreadPoolExecutor(4) as pool:
        hashed = dict(zip(unknown, pool.map(hash_file_or_error, unknown), strict=True))
    boxes: list[list[float] | None] = [None] * items.height
    if BOX[0] in items.columns:
        rows = items.select(pl.col(BOX).cast(pl.Float64)).rows()
        boxes = [None if all(v is None for v in row) else [np.nan if v is None else v for v in row] for row in rows]
    images = []
    for item_id, path, sha256, box in zip(items[ITEM].cast(pl.String), given, known, boxes, strict=True):
        found = sha256 or (hashed[path] if path else "")
        images.append(Image(item_id, path, found if isinstance(found, str) else "", box))
    return images
