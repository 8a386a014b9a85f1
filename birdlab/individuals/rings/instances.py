"""From ring masks and pictures to the colours of every ring: crops, histograms, forest, one table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.crops import FEATURES, histograms, ring_crop
from birdlab.individuals.rings.forest import ColourForest, train_forest
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.pixels import read_image

#: Pictures whose crops are held at a time.
BLOCK = 2000


def ring_features(instances: pl.DataFrame, folder: Path) -> tuple[np.ndarray, np.ndarray, list[Notice]]:
    """Histogram of every ring, each picture decoded once.

    Args:
        instances: rings with image and outline (:data:`birdlab.readers.ring_masks.INSTANCES`).
        folder: where the images lie.

    Returns:
        Features (n, 30) float32 in the order of the rows; whether a row has any, (n,) bool; notices: pictures that
        cannot be read, outlines outside their picture.
    """
    features = np.zeros((instances.height, FEATURES), np.float32)
    used = np.zeros(instances.height, bool)
    unread: list[str] = []
    crops: list[np.ndarray] = []
    at: list[int] = []

    def flush() -> None:
        features[at], used[at] = histograms(crops), True
        crops.clear()
        at.clear()

    for n, (image, rows, outlines) in enumerate(_by_image(instances)):
        try:
            picture = read_image(folder / image)
        except DataError as error:
            # The path in the study, not that of this machine.
            unread.append(f"{image}: {error.problems[0].found}" if error.problems else f"{image}: {error}")
            continue
        for row, outline in zip(rows, outlines, strict=True):
            crop = ring_crop(picture, np.asarray(outline, dtype=np.float64).reshape(-1, 2))
            if crop is not None:
                crops.append(crop)
                at.append(row)
        if n % BLOCK == BLOCK - 1 and crops:
            flush()
    if crops:
        flush()
    notices = []
    if unread:
        notices.append(Notice("ring_image_unread", f"pictures with rings cannot be read: {unread[0]}", len(unread)))
    outside = instances.height - int(used.sum())
    if outside:
        notices.append(Notice("ring_left_out", "rings in unreadable pictures, or outside their picture", outside))
    return features, used, notices


def _by_image(instances: pl.DataFrame) -> Iterator[tuple[str, list[int], list[list[float]]]]:
    grouped = (
        instances.select("image", "outline")
        .with_row_index("row")
        .group_by("image", maintain_order=True)
        .agg("row", "outline")
    )
    yield from grouped.iter_rows()


def forest_of(
    instances: pl.DataFrame, folder: Path, palette: Palette, *, trees: int = 500, seed: int = 42
) -> tuple[ColourForest, pl.DataFrame]:
    """Train the colour forest on rings whose colour is given.

    Args:
        instances: rings with image, outline and truth; those without a truth are not used and counted.
        folder: where their images lie.
        palette: colours.
        trees, seed: of the forest.

    Returns:
        The forest; notices: rings left out, colours of the palette without a ring.

    Raises:
        DataError: no ring with a colour, or none of their pictures can be read.
    """
    known = instances.filter(pl.col("truth").is_not_null())
    features, used, notices = ring_features(known, folder)
    letters = [letter for letter, u in zip(known["truth"], used, strict=True) if u]
    if notices and not letters:
        expected = "pictures of the rings that colours are learned from"
        raise DataError(Problem("no_training_rings", notices[0].message, expected, file=str(folder)))
    forest = train_forest(features[used], letters, palette=palette, trees=trees, seed=seed)
    without = instances.height - known.height
    if without:
        notices.append(Notice("ring_no_truth", "training rings whose category is no colour", without))
    if forest.unseen:
        told = f"colours without a training ring, whose probability is 0 for every ring: {', '.join(forest.unseen)}"
        notices.append(Notice("colour_unseen", told, len(forest.unseen)))
    return forest, notice_table(notices)


def in_clips(
    instances: pl.DataFrame, images: pl.DataFrame, *, source: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Which frame of which clip each ring's picture is.

    A picture is found by its path as the table of images has it, else by a path that ends alike (whole folder names),
    if only one does.

    Args:
        instances: rings with image.
        images: table ``reid_images``.
        source: file of the rings, for errors and notices.

    Returns:
        The rings with clip_id and frame_index, and ``image`` as in ``images``; those of a picture that several clips
        share come once for each. Notices: pictures with rings that are no image of a clip, whose rings are left out.

    Raises:
        DataError: no picture is an image of a clip.
    """
    known = images["image"].unique(maintain_order=True).to_list()
    wanted = instances["image"].unique(maintain_order=True).to_list()
    paths = _resolved(wanted, known)
    lost = [name for name in wanted if name not in paths]
    if wanted and not paths:
        found = f"pictures like {wanted[0]!r}"
        expected = f"images of the clips, like {known[0]!r}" if known else "images of the clips; the clips name none"
        raise DataError(
            Problem("no_clip_image", found, expected, "file_name must be the image's path in the clips", source)
        )
    names = pl.DataFrame(
        {"image": list(paths), "path": list(paths.values())}, schema={"image": pl.String, "path": pl.String}
    )
    joined = (
        instances.join(names, on="image", how="inner", maintain_order="left")
        .drop("image")
        .rename({"path": "image"})
        .join(images.select("clip_id", "frame_index", "image"), on="image", how="inner", maintain_order="left")
    )
    # Two names of the masks may be one image: rings are numbered again.
    ring = pl.int_range(pl.len(), dtype=pl.Int32).over("clip_id", "frame_index").alias("ring")
    notices = (
        [Notice("ring_no_clip", f"pictures with ring masks are no image of a clip: {lost[0]}", len(lost), source)]
        if lost
        else []
    )
    return joined.with_columns(ring), notice_table(notices)


def _resolved(wanted: list[str], known: list[str]) -> dict[str, str]:
    exact = set(known)
    found = {name: name for name in wanted if name in exact}
    if len(found) == len(wanted):
        return found
    by_name: dict[str, list[str]] = {}
    for path in known:
        by_name.setdefault(PurePosixPath(path).name, []).append(path)
    for name in wanted:
        if name not in found:
            near = [p for p in by_name.get(PurePosixPath(name).name, []) if _ends_alike(p, name)]
            if len(near) == 1:
                found[name] = near[0]
    return found


def _ends_alike(path: str, name: str) -> bool:
    return f"/{path}".endswith(f"/{name}") or f"/{name}".endswith(f"/{path}")


def ring_colours(instances: pl.DataFrame, forest: ColourForest, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Colour probabilities of every ring in the frames of clips.

    Args:
        instances: rings with clip_id, frame_index, ring, image, outline, score, truth (see :func:`in_clips`).
        forest: trained colour forest.
        folder: where the images lie.

    Returns:
        Table ``ring_colours``, by clip, frame and ring; x and y are medians of the outline's points, as published,
        width and height those of its box. Notices: rings and pictures that were left out.

    Raises:
        DataError: there are rings, and none of them lies in a picture that can be read.
    """
    features, used, notices = ring_features(instances, folder)
    if notices and not used.any():
        expected = "images of the clips with the rings in them"
        raise DataError(Problem("no_rings", notices[0].message, expected, file=str(folder)))
    kept = instances.filter(pl.Series(used))
    chances = forest.predict(features[used])
    outlines = [np.asarray(o, dtype=np.float64).reshape(-1, 2) for o in kept["outline"]]
    middle = np.array([np.median(o, axis=0) for o in outlines]).reshape(-1, 2)
    side = np.array([np.ptp(o, axis=0) for o in outlines]).reshape(-1, 2)
    table = kept.select("clip_id", "frame_index", "ring", "score", "truth").with_columns(
        pl.Series("x", middle[:, 0]),
        pl.Series("y", middle[:, 1]),
        pl.Series("width", side[:, 0]),
        pl.Series("height", side[:, 1]),
        pl.Series("probabilities", chances.tolist(), dtype=pl.List(pl.Float64)),
    )
    table = schemas.TABLES["ring_colours"].validate(table)
    return table.sort("clip_id", "frame_index", "ring"), notice_table(notices)
