"""Rings found by a segmenter in the images of clips: any detector with masks that birdlab can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.inference.detector import Boxes, Detector, PredictError
from birdlab.inference.predict import load_detector
from birdlab.inference.weights import find_weights
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.pixels import Picture, read_image
from birdlab.readers.ring_masks import numbered, outline_of
from birdlab.recipe import Model

#: Images that are given to the network at a time, and how many are decoded ahead to find those of one shape.
BATCH, AHEAD = 32, 256
#: Overlap above which the less sure of two rings is dropped; most rings of an image.
OVERLAP, MOST = 0.7, 20


def segment_rings(
    images: list[str],
    folder: Path,
    weights: str,
    *,
    library: str = "ultralytics",
    imgsz: int = 128,
    conf: float = 0.5,
    device: str = "cpu",
    cache: Path,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run a segmenter of rings on images, each once.

    Args:
        images: paths relative to ``folder`` (``reid_images.image``); duplicates are run once.
        folder: where the images lie.
        weights: .pt, .onnx or alike, or ``birdlab:NAME``; relative to ``folder``.
        library: ultralytics or torchvision (Mask R-CNN).
        imgsz: longer side of the network's input, px.
        conf: lowest confidence of a ring.
        device: auto, cpu, cuda, cuda:N or mps.
        cache: folder for what a library writes of its own accord.

    Returns:
        Rings (:data:`birdlab.readers.ring_masks.INSTANCES`; outline of the largest part of each mask; ``truth`` is
        null: a class of the model is no truth); notices: images that could not be read or run, rings without a pixel.

    Raises:
        DataError: weights that cannot be used or give no masks, or no image that can be read.
        ParameterError: a package or the device is missing.
    """
    detector = _detector(weights, library, imgsz, conf, device, (folder, cache))
    wanted = list(dict.fromkeys(images))
    rows: list[tuple[str, list[float], float]] = []
    failed: list[str] = []
    n_read = n_empty = 0
    for names, pictures in _batches(wanted, folder, failed):
        n_read += len(names)
        try:
            found = detector.predict(pictures).boxes
        except PredictError as error:
            failed += [f"{name}: {error}" for name in names]
            continue
        for name, boxes in zip(names, found, strict=True):
            outlines = _outlines(boxes)
            n_empty += sum(outline is None for outline in outlines)
            rows += [(name, o, float(s)) for o, s in zip(outlines, boxes.scores, strict=True) if o is not None]
    if wanted and not n_read:
        raise DataError(Problem("no_images", failed[0], "images of the clips that can be read", file=str(folder)))
    frame = pl.DataFrame(rows, schema=["image", "outline", "score"], orient="row")
    frame = frame.with_columns(pl.lit(None, pl.String).alias("truth"))
    notices = [
        Notice(
            "ring_image_unread", f"images of clips were not searched for rings: {'; '.join(failed[:3])}", len(failed)
        ),
        Notice("ring_no_pixel", "rings that were found without a pixel in their mask were left out", n_empty),
        *(Notice("segmenter", remark, 1) for remark in detector.remarks),
    ]
    return numbered(frame), notice_table(n for n in notices if n.n)


def segmenter_key(weights: str, folder: Path, *, library: str) -> str:
    """Hash of the segmenter's weights; see :func:`segment_rings` for the arguments and what is raised."""
    return find_weights(Model(name="rings", weights=weights, adapter=library), folder, folder).sha256


def _detector(weights: str, library: str, imgsz: int, conf: float, device: str, places: tuple[Path, Path]) -> Detector:
    folder, cache = places
    settings: dict[str, Any] = {"conf": conf, "iou": OVERLAP, "max_det": MOST, "imgsz": imgsz, "batch": BATCH}
    model = Model(name="rings", weights=weights, adapter=library, **settings)
    found = find_weights(model, folder, folder)
    detector = load_detector(model, found, device, cache)
    detector.keep = sorted(detector.names)
    return detector


def _batches(names: list[str], folder: Path, failed: list[str]) -> Iterator[tuple[list[str], list[Picture]]]:
    """Images of one shape, at most :data:`BATCH` at a time."""
    for start in range(0, len(names), AHEAD):
        shapes: dict[tuple[int, ...], list[tuple[str, Picture]]] = {}
        for name in names[start : start + AHEAD]:
            try:
                picture = read_image(folder / name)
            except DataError as error:
                failed.append(f"{name}: {error.problems[0].found if error.problems else error}")
                continue
            shapes.setdefault(picture.shape, []).append((name, picture))
        for group in shapes.values():
            for at in range(0, len(group), BATCH):
                part = group[at : at + BATCH]
                yield [name for name, _ in part], [picture for _, picture in part]


def _outlines(boxes: Boxes) -> list[list[float] | None]:
    if boxes.masks is None:
        raise DataError(
            Problem("no_masks", "a model that gives boxes alone", "a segmenter of rings", key="rings.segmenter")
        )
    return [outline_of(None, rle) for rle in boxes.masks]
