"""Probabilities of an image classifier for a list of photographs, in shards that survive a kill.

A part is a parquet file: ``item_id``, then one float32 column per label. Beside it lies a small JSON file with what
failed and how long it took, so that the part itself is the same, byte for byte, whenever it is made.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError
from birdlab.inference.classifier import Classifier, environment, load_classifier, settings
from birdlab.inference.classifier_items import Image, checked_items, images_of
from birdlab.inference.classifier_labels import ITEM, find_labels
from birdlab.inference.feed import ahead, batches, depth_for
from birdlab.inference.timing import NOTICES, ShardTiming, run_notices, speed_table
from birdlab.inference.weights import Weights, find_classifier
from birdlab.inference.worker import Failures, ask, readable, warm_up
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly, write_atomic

if TYPE_CHECKING:
    from birdlab.recipe.abstention import Classifier as Spec

#: Part of the key of finished shards: raise it when the content of a part changes.
VERSION = 1
FAILURES = pl.Schema({"model": pl.String, "item_id": pl.String, "stage": pl.String, "message": pl.String})
#: Bytes of a photograph of 12 megapixels: how many may wait decoded.
PHOTOGRAPH = 36_000_000
#: Rows whose sum is further from 1 than this are spoken of.
SUM_NOTED = 1e-3


@dataclass(frozen=True)
class Classified:
    """What a classifier said of a list of photographs.

    Args:
        parts: parquet files in the order of the items: ``item_id``, then one float32 column per label, in [0, 1].
        labels: names of these columns, in the order of the network's output.
        failures: columns model, item_id, stage (read or predict), message: items that have no row.
        notices: columns model, code, message, n.
        speed: the ``speed`` table.
    """

    parts: list[Path]
    labels: list[str]
    failures: pl.DataFrame
    notices: pl.DataFrame
    speed: pl.DataFrame


def classify(
    spec: Spec,
    items: pl.DataFrame,
    *,
    base: Path,
    root: Path,
    out_dir: Path,
    device: str = "auto",
    shard_size: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> Classified:
    """Run an image classifier on photographs; shards that are finished already are not run again.

    Parts lie in ``<out_dir>/shards/<model>-<key>/``; the key covers the weights' hash, the labels, every setting and
    version that can change a probability, and each part's name the hashes of its photographs.

    Args:
        spec: section of the recipe with ``weights``.
        items: ``item_id`` (unique) and ``image`` (path relative to ``root``, else to ``base``); optionally ``x``,
            ``y``, ``w``, ``h`` (px: only this box is looked at; null: the whole picture) and ``sha256`` of the file.
        base: folder of the recipe.
        root: folder of the data.
        out_dir: folder of the run.
        device: auto, cpu, cuda, cuda:N or mps.
        shard_size: photographs per resumable piece of work.
        progress: called with (shards done, shards in all).

    Returns:
        The parts, and which items have no row because their picture could not be read or made the network fail.

    Raises:
        DataError: weights, labels or items cannot be used.
        ParameterError: the device is not there, a package is missing, or settings do not fit the network.
    """
    checked_items(items, spec.name)
    where = f"model {spec.name}"
    weights = find_classifier(spec, base, root)
    labels = find_labels(spec.labels, weights, base, root, where=where)
    images = images_of(items, base, root)
    shards = [
        Shard(f"{i:05d}", [[one.item_id, one.sha256, one.box] for one in piece])
        for i, piece in enumerate(split_evenly(images, shard_size))
    ]
    folder = out_dir / "shards" / f"{_safe(spec.name)}-{_key(spec, weights, labels, device)[:12]}"
    _clear(folder, labels)
    missing = {shard.id for shard in shards if not (folder / shard.filename).exists()}
    if missing:
        classifier = load_classifier(spec, weights, labels, device)
        chosen = [one for i, one in enumerate(images) if f"{i // shard_size:05d}" in missing]
        worker = Worker(classifier, chosen)
        try:
            paths = map_shards(worker, shards, folder, write=write_part, progress=progress)
        finally:
            worker.close()
    else:
        paths = [folder / shard.filename for shard in shards]
        if progress:
            progress(len(paths), len(paths))
    return _collect(spec.name, paths, labels)


class Worker:
    """Runs one classifier over its missing shards in order; pictures are read ahead on a thread of their own.

    Args:
        classifier: the loaded model.
        images: the photographs of all shards that will be run, in their order.
    """

    def __init__(self, classifier: Classifier, images: list[Image]) -> None:
        self._classifier = classifier
        self._n_warmup = warm_up(classifier.probabilities, classifier.batch, _read(images))
        self._feed = ahead(_read(images), depth_for(classifier.batch, PHOTOGRAPH))

    def close(self) -> None:
        """Stop reading ahead."""
        self._feed.close()

    def __call__(self, payload: list[list[Any]]) -> Part:
        """The part of one shard: ``payload`` is a list of (item_id, hash of its file, box)."""
        model = self._classifier
        timing = ShardTiming(model.device, model.imgsz, model.precision, model.batch, remarks=list(model.remarks))
        timing.n_warmup, self._n_warmup = self._n_warmup, 0
        failures: Failures = {}
        rows: dict[str, np.ndarray] = {}
        started, before = time.perf_counter(), model.network_s
        pictures = readable(self._feed, [item_id for item_id, *_ in payload], failures)
        for group in batches(pictures, model.batch, one_shape=False):
            rows.update(ask(lambda images: list(model.probabilities(images)), group, failures))
        timing.model_s = model.network_s - before
        timing.end_to_end_s = time.perf_counter() - started
        timing.n_frames = len(rows)
        kept = [item_id for item_id, *_ in payload if item_id in rows]
        scores = np.stack([rows[i] for i in kept]) if kept else np.empty((0, len(model.labels)), np.float32)
        columns = {label: scores[:, i] for i, label in enumerate(model.labels)}
        frame = pl.DataFrame({ITEM: pl.Series(kept, dtype=pl.String), **columns}, schema=part_schema(model.labels))
        sums = scores.sum(axis=1, dtype=np.float64).tolist()
        return Part(frame, [[i, *failures[i]] for i, *_ in payload if i in failures], timing, sums)


@dataclass(frozen=True)
class Part:
    """One finished shard: its rows, its failures (item_id, stage, message), its times, the sum of every row."""

    frame: pl.DataFrame
    failures: list[list[str]]
    timing: ShardTiming
    sums: list[float]


def part_schema(labels: list[str]) -> pl.Schema:
    """Columns of a part."""
    return pl.Schema({ITEM: pl.String, **dict.fromkeys(labels, pl.Float32)})


def write_part(path: Path, part: Part) -> None:
    """Write the rows to ``path`` and all else to the JSON file beside it; a part that is there has both."""
    beside = {"failures": part.failures, "timing": asdict(part.timing), "sums": part.sums}
    text = json.dumps(beside, ensure_ascii=False) + "\n"
    write_atomic(path.with_suffix(".json"), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    # Hundreds of columns with few rows each: statistics per column would be most of the file.
    write_atomic(path, lambda temporary: part.frame.write_parquet(temporary, statistics=False))


def _read(images: list[Image]) -> Iterator[tuple[str, np.ndarray | DataError]]:
    for one in images:
        yield one.item_id, one.read()


def _key(spec: Spec, weights: Weights, labels: list[str], device: str) -> str:
    return digest([VERSION, weights.adapter, weights.sha256, labels, settings(spec), *environment(weights, device)])


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80]


def _clear(folder: Path, labels: list[str]) -> None:
    """Remove what a killed run left, and parts whose JSON file is gone or broken."""
    clear_leftovers(folder, part_schema(labels))
    for path in folder.glob("part-*.parquet"):
        try:
            _beside(path)
        except (OSError, ValueError, TypeError, KeyError):
            path.unlink(missing_ok=True)


def _beside(path: Path) -> tuple[list[list[str]], ShardTiming, list[float]]:
    said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    failures = [[str(part) for part in (item_id, stage, message)] for item_id, stage, message in said["failures"]]
    return failures, ShardTiming(**said["timing"]), [float(total) for total in said["sums"]]


def _collect(model: str, paths: list[Path], labels: list[str]) -> Classified:
    beside = [_beside(path) for path in paths]
    rows = [[model, *row] for failures, _, _ in beside for row in failures]
    failures = pl.DataFrame(rows, schema=FAILURES, orient="row")
    timings = [timing for _, timing, _ in beside]
    notices = run_notices(model, timings, failures, unit="photographs", made="probabilities")
    sums = np.array([total for _, _, totals in beside for total in totals])
    return Classified(
        paths, labels, failures, pl.concat([notices, _sums_notice(model, sums)]), speed_table(model, timings)
    )


def _sums_notice(model: str, sums: np.ndarray) -> pl.DataFrame:
    n = int((np.abs(sums - 1) > SUM_NOTED).sum())
    if not n:
        return NOTICES.to_frame()
    message = (
        f"rows do not sum to 1 (from {sums.min():.3f} to {sums.max():.3f}, mean {sums.mean():.3f}) and were kept as "
        "the network gave them; normalise: true divides each row by its sum"
    )
    return pl.DataFrame([(model, "row_sums", message, n)], schema=NOTICES, orient="row")
