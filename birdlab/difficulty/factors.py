"""The tables ``factors`` and ``frame_facts``: every scored frame that holds a labelled bird, measured once.

Work is sharded (``<run>/shards/factors-<key>/``): a killed run goes on where it stopped, and a part is made again only
if its frames, boxes, the method or a library changed.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.detection.boxes import decode_rle
from birdlab.difficulty import measure
from birdlab.difficulty.anomalies import anomaly_notices, find_anomalies, spread_by_looking
from birdlab.errors import DataError
from birdlab.progress import progress
from birdlab.readers.files import Notice, notice_table
from birdlab.shards import Shard, clear_leftovers, digest, map_shards, split_evenly

if TYPE_CHECKING:
    from birdlab.study import Run

log = logging.getLogger("birdlab")

#: Part of the key of finished shards: raise it when the content of a part changes.
VERSION = 1
LIBRARIES = ("opencv-python", "numpy", "pillow", "av")
_VIDEO_KEYS = ("frame_id", "media", "frame_index", "time_s")
SETTINGS = pl.Schema({"setting": pl.String, "value": pl.String})
_BIRD = {n: t for n, t in schemas.TABLES["factors"].dtypes.items() if n not in ("frame_id", "video_id", "occlusion")}
_FRAME = ("width_px", "height_px", "n_birds", "edge_fraction", "background_share", "colour_spread")
#: Columns of a part: one row per bird and one per frame.
PART = pl.Schema(
    {"record": pl.Enum(["frame", "bird"]), "frame_id": pl.String}
    | _BIRD
    | {n: schemas.TABLES["frame_facts"].dtypes[n] for n in _FRAME}
    | {"thumb": pl.Binary, "thumb_width": pl.Int32}
)


def build(run: Run, *, executor: Executor | None = None) -> dict[str, pl.DataFrame]:
    """Factors of every labelled bird of the scored splits, facts of their frames, and what must be said about both.

    Args:
        run: the study.
        executor: any ``concurrent.futures.Executor``; without one, a thread per core (decoding and OpenCV work outside
            Python's lock, so threads serve as well as processes).

    Returns:
        Tables ``factors``, ``frame_facts``, ``factor_settings`` (decode path, thresholds, versions) and
        ``factor_notices`` (code, message, n, file). A frame that cannot be read has null values and its reason.
    """
    frames, labels, media = run.table("frames"), run.table("labels"), run.table("media")
    splits = list(run.recipe.scoring.splits)
    frames = frames.filter(pl.col("split").cast(pl.String).is_in(splits))
    entries = frame_entries(frames, labels, media, run.data_root)
    shards = [Shard(f"{i:05d}", piece) for i, piece in enumerate(split_evenly(entries, run.recipe.shard_size))]
    folder = run.dir / "shards" / f"factors-{_key()[:12]}"
    clear_leftovers(folder, PART)
    missing = sum(not (folder / shard.filename).exists() for shard in shards)
    with progress("factors", state=run.dir / "progress.json") as step, _workers(executor, missing) as pool:
        paths = map_shards(partial(measure_shard, root=str(run.data_root)), shards, folder, pool, progress=step)
    return tables_of(pl.concat([PART.to_frame(), *(pl.read_parquet(path) for path in paths)]), frames, labels)


def frame_entries(frames: pl.DataFrame, labels: pl.DataFrame, media: pl.DataFrame, root: Path) -> list[dict[str, Any]]:
    """What :func:`measure_shard` needs of each frame with a labelled bird, in the order of ``frames``: JSON types.

    Birds are labels that are neither crowd nor ignored. Crowds and ignored regions are no background: they are taken
    out of it by their mask where an ignored region has one, else by their box.
    """
    place = media.select("media_id", "kind", "path", "start_s", "sha256")
    rows = frames.join(place, on="media_id", how="left", maintain_order="left")
    by_frame = {k[0]: part for k, part in labels.partition_by("frame_id", as_dict=True, maintain_order=True).items()}
    entries = []
    for row in rows.iter_rows(named=True):
        boxes = _boxes(by_frame.get(row["frame_id"]))
        if not boxes["birds"]:
            continue
        timed = row["time_s"] is not None and row["start_s"] is not None
        about = {key: row[key] for key in ("frame_id", "video_id", "kind", "frame_index", "sha256")}
        about["media"] = Path(os.path.relpath(row["path"], root.absolute())).as_posix()
        about["time_s"] = row["time_s"] - row["start_s"] if timed else None
        about["size"] = [row["width_px"], row["height_px"]]
        entries.append(about | boxes)
    return entries


def _boxes(labels: pl.DataFrame | None) -> dict[str, list[Any]]:
    boxes: dict[str, list[Any]] = {"birds": [], "others": [], "regions": []}
    if labels is None:
        return boxes
    columns = ("label_id", "x", "y", "w", "h", "is_crowd", "is_ignored", "mask_rle")
    for label_id, x, y, w, h, crowd, ignored, mask in labels.select(columns).iter_rows():
        if not (crowd or ignored):
            boxes["birds"].append([label_id, x, y, w, h])
        elif ignored and mask is not None:
            boxes["regions"].append([mask, x, y, w, h])
        else:
            boxes["others"].append([x, y, w, h])
    return boxes


def measure_shard(payload: list[dict[str, Any]], *, root: str) -> pl.DataFrame:
    """Measure the frames of one shard, each decoded once; a pure function of the files below ``root``.

    Args:
        payload: entries of :func:`frame_entries`.
        root: folder of the data.

    Returns:
        Columns :data:`PART`.
    """
    birds: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    thumbs: list[np.ndarray | None] = []
    for entry, gray, spread in _pictures(payload, Path(root)):
        if isinstance(gray, DataError):
            frame, of_birds = _unread(entry, _one_line(gray))
            thumbs.append(None)
        else:
            boxes, others, regions = _arrays(entry, gray.shape)
            frame, of_birds = measure.measure_frame(gray, boxes, others=others, regions=regions)
            frame |= {"height_px": gray.shape[0], "width_px": gray.shape[1], "colour_spread": spread}
            thumbs.append(measure.thumbnail(gray))
        facts.append(frame | {"record": "frame", "frame_id": entry["frame_id"], "n_birds": len(of_birds)})
        ids = (bird[0] for bird in entry["birds"])
        record = {"record": "bird", "frame_id": entry["frame_id"]}
        birds += [bird | record | {"label_id": i} for i, bird in zip(ids, of_birds, strict=True)]
    _add_colour(facts, thumbs, payload, Path(root))
    for fact, thumb in zip(facts, thumbs, strict=True):
        if thumb is not None:
            fact |= {"thumb": thumb.tobytes(), "thumb_width": thumb.shape[1]}
    return pl.DataFrame([*facts, *birds], schema=PART)


def _pictures(payload: list[dict[str, Any]], root: Path) -> Iterator[tuple[dict[str, Any], Any, float | None]]:
    """Each entry with its gray picture, or its error, and the spread of its colours where they come for nothing."""
    import cv2

    from birdlab.readers.pixels import iter_frames, read_gray

    for kind, group in groupby(payload, key=lambda entry: entry["kind"]):
        entries = list(group)
        if kind != "video":
            for entry in entries:
                try:
                    yield entry, read_gray(root / entry["media"]), None
                except DataError as error:
                    yield entry, error, None
            continue
        # A time counts from the file's beginning here, so the session's clock starts with it.
        schema = {"frame_id": pl.String, "media_id": pl.String, "frame_index": pl.Int32, "time_s": pl.Float64}
        frames = pl.DataFrame([[e[k] for k in _VIDEO_KEYS] for e in entries], schema=schema, orient="row")
        names = frames["media_id"].unique().to_list()
        media = pl.DataFrame({"media_id": names, "path": [str(root / name) for name in names]}).with_columns(
            pl.lit("video").alias("kind"), pl.lit(0.0).alias("start_s")
        )
        for entry, (_, picture) in zip(entries, iter_frames(frames, media), strict=True):
            if isinstance(picture, DataError):
                yield entry, picture, None
            else:
                yield entry, cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), measure.colour_spread(picture)


def _arrays(entry: dict[str, Any], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    from pycocotools import mask as coco_mask

    boxes = np.array([bird[1:] for bird in entry["birds"]], dtype=np.float64).reshape(-1, 4)
    others, regions = list(entry["others"]), []
    for text, *box in entry["regions"]:
        rle = decode_rle(text)
        if tuple(rle["size"]) == shape:
            regions.append(coco_mask.decode(rle).astype(bool))
        else:
            others.append(box)
    return boxes, np.array(others, dtype=np.float64).reshape(-1, 4), regions


def _unread(entry: dict[str, Any], why: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A frame that cannot be read: what the labels say of its birds stays, everything else is null."""
    birds = [measure.place(bird[1:], *entry["size"]) for bird in entry["birds"]]
    birds = [b | {"crowding": len(birds), "reason": "; ".join(r for r in (why, b["reason"]) if r)} for b in birds]
    return {"reason": why}, birds


def _add_colour(
    facts: list[dict[str, Any]], thumbs: list[np.ndarray | None], payload: list[dict[str, Any]], root: Path
) -> None:
    """Look at few of the photographs for their colour, session by session; frames of videos have it already."""
    for _, group in groupby(range(len(payload)), key=lambda i: (payload[i]["video_id"], payload[i]["kind"])):
        rows = [i for i in group if thumbs[i] is not None]
        if not rows or payload[rows[0]]["kind"] == "video":
            continue
        look = _looker([root / payload[i]["media"] for i in rows])
        for i, spread in zip(rows, spread_by_looking([thumbs[i] for i in rows], look), strict=True):  # type: ignore[misc]
            facts[i]["colour_spread"] = spread


def _looker(paths: list[Path]) -> Callable[[int], float | None]:
    from birdlab.readers.images import read_header
    from birdlab.readers.pixels import is_plain_jpeg, read_image

    def look(i: int) -> float | None:
        import cv2

        try:
            if not is_plain_jpeg(read_header(paths[i])):
                return measure.colour_spread(read_image(paths[i]))
            raw = np.frombuffer(paths[i].read_bytes(), np.uint8)
        except (DataError, OSError):
            return None
        # An eighth of the size, straight from the coefficients.
        small = cv2.imdecode(raw, cv2.IMREAD_REDUCED_COLOR_8)
        return None if small is None else measure.colour_spread(small)

    return look


def _one_line(error: DataError) -> str:
    # Without the path: the row names its frame.
    text = str(replace(error.problems[0], file=None)) if error.problems else str(error)
    return "frame cannot be read: " + " ".join(text.split())[:300]


def tables_of(part: pl.DataFrame, frames: pl.DataFrame, labels: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables of :func:`build` from all parts.

    Args:
        part: rows of :data:`PART`.
        frames: the measured frames and others, in the study's order.
        labels: table ``labels``; a column ``occlusion``, where it has one, is taken over.
    """
    session = frames.select("frame_id", "video_id")
    occlusion = pl.col("occlusion").cast(pl.Float64) if "occlusion" in labels.columns else pl.lit(None, pl.Float64)
    birds = part.filter(pl.col("record") == "bird").select("frame_id", *_BIRD)
    birds = birds.join(session, on="frame_id", how="left", maintain_order="left")
    carried = labels.select("label_id", occlusion.alias("occlusion"))
    birds = birds.join(carried, on="label_id", how="left", maintain_order="left")
    facts = part.filter(pl.col("record") == "frame").join(session, on="frame_id", how="left", maintain_order="left")
    found = find_anomalies(facts, [_thumb(*row) for row in facts.select("thumb", "thumb_width").iter_rows()])
    facts = facts.join(found, on="frame_id", how="left", maintain_order="left")
    columns = {name: list(schemas.TABLES[name].dtypes) for name in ("factors", "frame_facts")}
    factors, frame_facts = birds.select(columns["factors"]), facts.select(columns["frame_facts"])
    return {
        "factors": factors,
        "frame_facts": frame_facts,
        "factor_settings": settings(),
        "factor_notices": notice_table([*_notices(factors, frame_facts), *anomaly_notices(frame_facts)]),
    }


def _thumb(data: bytes | None, width: int | None) -> np.ndarray | None:
    return np.frombuffer(data, np.uint8).reshape(-1, width) if data and width else None


def _notices(factors: pl.DataFrame, facts: pl.DataFrame) -> list[Notice]:
    unread = facts.filter(pl.col("width_px").is_null()).height
    counts = {
        "frame_unreadable": (unread, "frames could not be read; their birds have no factor of the picture"),
        "box_clipped": (
            factors.filter((pl.col("clipped") > 0) & (pl.col("clipped") < 1)).height,
            "boxes lie partly outside the frame; they are measured on what is inside",
        ),
        "box_not_measured": (
            factors.filter(pl.col("n_pixels") == 0).height,
            "boxes without area or outside the frame were not measured",
        ),
        "crop_too_small": (
            factors.filter((pl.col("n_pixels") > 0) & pl.col("blur_local").is_null()).height,
            "birds under 3 px on a side have no measure of blur",
        ),
    }
    return [Notice(code, text, n) for code, (n, text) in counts.items() if n]


def settings() -> pl.DataFrame:
    """How factors are measured: decode path, thresholds, definitions and versions, as ``setting``, ``value``."""
    low, high = measure.CANNY
    rows = {
        "decode": "JPEG: stored luma (libjpeg through cv2, IMREAD_GRAYSCALE); other photographs and frames of videos: "
        "8-bit BGR, then cv2.cvtColor BGR2GRAY; orientation applied",
        "edges": f"cv2.Canny, thresholds {low:g} and {high:g}, aperture 3, L1 gradient, whole frame, once",
        "blur": "variance of cv2.Laplacian, aperture 1, 16-bit, crop mirrored at its border",
        "contrast": "population standard deviation of gray",
        "crop": "pixels that the box touches, inside the frame",
        "background": "outside every labelled box, crowd and ignored region",
    }
    rows |= {f"version of {name}": version for name, version in _versions().items()}
    return pl.DataFrame({"setting": list(rows), "value": list(rows.values())}, schema=SETTINGS)


def _versions() -> dict[str, str]:
    import cv2

    # The wheel may be one of several names; the module knows what was loaded.
    found = {"opencv-python": cv2.__version__}
    for name in LIBRARIES[1:]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def _key() -> str:
    return digest([VERSION, measure.CANNY, measure.THUMB_PX, _versions()])


@contextmanager
def _workers(executor: Executor | None, n_shards: int) -> Iterator[Executor | None]:
    n = min(_cores(), n_shards)
    if executor is not None or n < 2:
        yield executor
        return
    pool = ThreadPoolExecutor(n, thread_name_prefix="birdlab-factors")
    try:
        yield pool
    finally:
        # Stopped in the middle, only what is being measured is waited for.
        pool.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
