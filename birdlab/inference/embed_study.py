"""From the methods of a recipe's section ``reid`` that have weights to an embedding of every clip."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.inference.classifier_items import Image, images_of
from birdlab.inference.embedder import Embedder, environment, find_embedder
from birdlab.inference.feed import ahead, depth_for
from birdlab.inference.timing import NOTICES
from birdlab.inference.worker import Failures, ask
from birdlab.progress import progress
from birdlab.readers.embeddings import unit_vectors
from birdlab.readers.labels import locate
from birdlab.recipe.reid import ReidMethod
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly

if TYPE_CHECKING:
    from birdlab.study import Run

PART = pl.Schema(
    {
        "clip_id": pl.String,
        "n_images": pl.Int64,
        "n_failed": pl.Int64,
        "message": pl.String,
        "embedding": pl.List(pl.Float32),
    }
)
EMBEDDINGS = pl.Schema({"model": pl.String, **PART})
#: Clips of one resumable piece of work.
SHARD_CLIPS = 64
#: Length of the mean of a clip's unit vectors below which its images cancel out.
LEAST = 1e-6


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``reid_embeddings`` and ``reid_embedding_notices``; empty where no method has weights.

    The embedding of a clip is the mean of the unit vectors of its images, scaled to length 1 again. Finished shards in
    ``<run>/shards/`` are read, not run again.

    Raises:
        DataError: weights are missing, not as promised, or do not fit.
        ParameterError: an unknown architecture or device, or a package is missing.
    """
    section = run.recipe.reid
    specs = [m for m in section.methods if m.weights] if section else []
    parts, notices = [EMBEDDINGS.to_frame()], []
    for spec in specs:
        rows = embed_clips(run, spec)
        parts.append(rows.select(pl.lit(spec.name).alias("model"), pl.all()))
        notices += _told(spec.name, rows)
    return {
        "reid_embeddings": pl.concat(parts),
        "reid_embedding_notices": pl.DataFrame(notices, schema=NOTICES, orient="row"),
    }


def embed_clips(run: Run, spec: ReidMethod) -> pl.DataFrame:
    """Embeddings of all clips of the study that take part in a protocol: :data:`PART`."""
    section = run.recipe.reid
    weights = find_embedder(spec, run.base, run.data_root)
    wanted = run.table("reid_roles").filter(pl.col("role").cast(pl.String) != "train").select("clip_id").unique()
    images = run.table("reid_images").join(wanted, on="clip_id", how="semi", maintain_order="left")
    clips_file = locate(section.clips, run.base, run.data_root)
    folder = locate(section.images, run.base, run.data_root) if section.images else clips_file.parent
    items = images.select(pl.format("{}\n{}", "clip_id", "frame_index").alias("item_id"), "image")
    found = images_of(items, folder, folder)
    clips = images["clip_id"].to_list()
    starts = [i for i in range(len(clips)) if not i or clips[i] != clips[i - 1]]
    groups = [found[a:b] for a, b in zip(starts, [*starts[1:], len(found)], strict=True)]
    shards = [
        Shard(f"{i:05d}", [[[one.item_id, one.sha256] for one in clip] for clip in piece])
        for i, piece in enumerate(split_evenly(groups, SHARD_CLIPS))
    ]
    settings = spec.model_dump(mode="json", include={"library", "architecture", "imgsz", "mean", "std"})
    key = digest([weights.sha256, settings, environment(spec, run.recipe.device)])[:12]
    out = run.dir / "shards" / f"embed-{re.sub(r'[^A-Za-z0-9_-]+', '_', spec.name)}-{key}"
    clear_leftovers(out, PART)
    missing = [i for i, shard in enumerate(shards) if not (out / shard.filename).exists()]
    with progress(f"{spec.name} looks at clips", state=run.dir / "progress.json") as step:
        if not missing:
            paths = [out / shard.filename for shard in shards]
        else:
            todo = [clip for i in missing for clip in groups[i * SHARD_CLIPS : (i + 1) * SHARD_CLIPS]]
            worker = _Worker(Embedder(spec, weights, run.recipe.device), todo)
            try:
                paths = map_shards(worker, shards, out, progress=step)
            finally:
                worker.close()
    return pl.concat([PART.to_frame(), *(pl.read_parquet(path) for path in paths)])


class _Worker:
    """Embeds the clips of missing shards in order; pictures are read ahead on a thread of their own."""

    def __init__(self, embedder: Embedder, clips: list[list[Image]]) -> None:
        self._embedder = embedder
        self._feed = ahead(((one.item_id, one.read()) for clip in clips for one in clip), depth_for(25, 2**20))

    def close(self) -> None:
        self._feed.close()

    def __call__(self, payload: list[list[list[str]]]) -> pl.DataFrame:
        rows = [self._clip([item_id for item_id, _ in clip]) for clip in payload]
        return pl.DataFrame(rows, schema=PART, orient="row")

    def _clip(self, wanted: list[str]) -> tuple[Any, ...]:
        from birdlab.inference.worker import readable

        failures: Failures = {}
        pictures = list(readable(self._feed, wanted, failures))
        said = list(ask(lambda images: list(self._embedder.embed(images)), pictures, failures)) if pictures else []
        message = next((f"{stage}: {text}" for stage, text in failures.values()), None)
        vector = pooled(np.stack([row for _, row in said])) if said else None
        clip_id = wanted[0].rpartition("\n")[0]
        return clip_id, len(wanted), len(failures), message, None if vector is None else vector.tolist()


def pooled(rows: np.ndarray) -> np.ndarray | None:
    """The mean of the unit vectors of a clip's images, scaled to length 1; None where they cancel out or are zero.

    >>> pooled(np.array([[2.0, 0.0], [0.0, 3.0]])).round(3).tolist()
    [0.7070000171661377, 0.7070000171661377]
    """
    units, _, zero = unit_vectors(rows)
    if zero.all():
        return None
    mean = units[~zero].mean(axis=0)
    length = float(np.linalg.norm(mean))
    return None if length <= LEAST else (mean / length).astype(np.float32)


def _told(name: str, rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    out = []
    failed = rows.filter(pl.col("n_failed") > 0)
    if failed.height:
        said = f"pictures could not be embedded ({failed['message'][0]})"
        out.append((name, "not_embedded", said, int(failed["n_failed"].sum())))
    empty = rows.filter(pl.col("embedding").is_null()).height
    if empty:
        out.append((name, "no_embedding", "clips without an embedding: they get no answer", empty))
    return out
