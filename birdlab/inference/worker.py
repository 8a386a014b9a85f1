"""One detector at work on shards of frames: reading ahead, batching, timing, and what becomes of a bad frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from birdlab.errors import BirdlabError, DataError
from birdlab.inference.detector import Boxes, Detector, PredictError
from birdlab.inference.feed import ahead, batches, depth_for
from birdlab.inference.timing import WARMUP_BATCHES, ShardTiming

T = TypeVar("T")
#: Frames that gave nothing: what failed (read or predict) and why.
Failures = dict[str, tuple[str, str]]
#: Columns of a part: one row per detection, per failed frame, and one with the shard's times.
PART = pl.Schema(
    {
        "record": pl.Enum(["box", "failure", "timing"]),
        "frame_id": pl.String,
        "category": pl.String,
        "score": pl.Float64,
        "x": pl.Float64,
        "y": pl.Float64,
        "w": pl.Float64,
        "h": pl.Float64,
        "mask_rle": pl.String,
        "rank": pl.Int32,
        "stage": pl.String,
        "message": pl.String,
    }
)


class Worker:
    """Runs one model over its missing shards in order; frames of the next shard are read while this one is detected.

    Args:
        detector: the loaded model, its ``keep`` set.
        kept: class index of the model to category of the study.
        todo: rows of the ``frames`` table of all shards that will be run, in their order.
        media: the ``media`` table.
        batch: frames per call.
    """

    def __init__(
        self, detector: Detector, kept: dict[int, str], todo: pl.DataFrame, media: pl.DataFrame, *, batch: int
    ) -> None:
        from birdlab.readers.pixels import iter_frames

        self._detector, self._kept, self._batch = detector, kept, batch
        self._n_warmup = warm_up(detector.predict, batch, iter_frames(todo, media))
        pixels = todo.select((pl.col("width_px").cast(pl.Int64) * pl.col("height_px")).max()).item() or 0
        self._feed = ahead(iter_frames(todo, media), depth_for(self._batch, 3 * pixels))

    def close(self) -> None:
        """Stop reading ahead."""
        self._feed.close()

    def __call__(self, payload: list[list[str]]) -> pl.DataFrame:
        """The part of one shard: ``payload`` is a list of (frame_id, hash of its file)."""
        detector = self._detector
        timing = ShardTiming(
            detector.device, detector.imgsz, detector.precision, self._batch, remarks=list(detector.remarks)
        )
        timing.n_warmup, self._n_warmup = self._n_warmup, 0
        failures: Failures = {}
        found: dict[str, Boxes] = {}
        started = time.perf_counter()
        frames = readable(self._feed, [frame_id for frame_id, _ in payload], failures)
        for group in batches(frames, self._batch):
            for frame_id, (boxes, seconds) in ask(self._detect, group, failures):
                found[frame_id] = boxes
                timing.model_s += seconds
        timing.end_to_end_s = time.perf_counter() - started
        timing.n_frames = len(found)
        timing.n_dropped = sum(boxes.n_dropped for boxes in found.values())
        timing.n_empty_masks = sum(boxes.n_empty_masks for boxes in found.values())
        return self._part(payload, found, failures, timing)

    def _detect(self, images: list[np.ndarray]) -> list[tuple[Boxes, float]]:
        made = self._detector.predict(images)
        return [(boxes, made.network_s / len(images)) for boxes in made.boxes]

    def _part(
        self,
        payload: list[list[str]],
        found: dict[str, Boxes],
        failures: Failures,
        timing: ShardTiming,
    ) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        for frame_id, _ in payload:
            if frame_id in failures:
                stage, message = failures[frame_id]
                rows.append({"record": "failure", "frame_id": frame_id, "stage": stage, "message": message})
            elif frame_id in found:
                rows.extend(_box_rows(frame_id, found[frame_id], self._kept))
        rows.append({"record": "timing", "message": timing.dumps()})
        return pl.DataFrame(rows, schema=PART)


def _box_rows(frame_id: str, boxes: Boxes, kept: dict[int, str]) -> Iterator[dict[str, Any]]:
    order = np.argsort(-boxes.scores, kind="stable")
    order = [i for i in order.tolist() if int(boxes.classes[i]) in kept]
    for rank, i in enumerate(order):
        x, y, w, h = boxes.xywh[i].tolist()
        yield {
            "record": "box",
            "frame_id": frame_id,
            "category": kept[int(boxes.classes[i])],
            "score": float(boxes.scores[i]),
            "x": x,
            "y": y,
            "w": w,
            "h": h,
            "mask_rle": boxes.masks[i] if boxes.masks else None,
            "rank": rank,
        }


def readable(
    feed: Iterator[tuple[str, np.ndarray | DataError]], wanted: list[str], failures: Failures
) -> Iterator[tuple[str, np.ndarray]]:
    """The images of ``wanted`` from a feed in the same order; one that cannot be read goes to ``failures``."""
    for name in wanted:
        # A shard that another process has finished meanwhile is passed over.
        image = next((image for came, image in feed if came == name), None)
        if image is None:
            raise RuntimeError(f"{name} was never read")
        if isinstance(image, DataError):
            failures[name] = ("read", one_line(image))
        else:
            yield name, image


def ask(
    model: Callable[[list[np.ndarray]], list[T]], group: list[tuple[str, np.ndarray]], failures: Failures
) -> Iterator[tuple[str, T]]:
    """What ``model`` says of each image of a batch; one that it fails on goes to ``failures``."""
    try:
        said = model([image for _, image in group])
    except PredictError as error:
        if len(group) == 1:
            failures[group[0][0]] = ("predict", one_line(error))
            return
        # One bad frame must not cost the others of its batch.
        for one in group:
            yield from ask(model, [one], failures)
        return
    yield from zip((name for name, _ in group), said, strict=True)


def warm_up(
    model: Callable[[list[np.ndarray]], Any], batch: int, frames: Iterator[tuple[str, np.ndarray | DataError]]
) -> int:
    """Run the first readable frame as whole batches whose output is thrown away; returns how many frames that were."""
    image = next((image for _, image in frames if isinstance(image, np.ndarray)), None)
    if image is None:
        return 0
    done = 0
    for _ in range(WARMUP_BATCHES):
        try:
            model([image] * batch)
        except PredictError:
            # It will fail again in its own place, and be counted there.
            return done
        done += batch
    return done


def one_line(error: Exception) -> str:
    """An error as one line of at most 500 characters, without the file that a failed frame names anyway."""
    if isinstance(error, BirdlabError) and error.problems:
        error = BirdlabError(replace(error.problems[0], file=None))
    return " ".join(str(error).split())[:500] or type(error).__name__
