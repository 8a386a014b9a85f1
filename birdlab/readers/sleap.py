"""Poses of SLEAP: its analysis h5, in the order of axes of either preset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.readers.coco_keypoints import Poses
from birdlab.readers.hdf5 import as_text, dataset, numbers, open_hdf5, texts
from birdlab.readers.pose_images import Sheet, placed

if TYPE_CHECKING:
    import h5py

#: Axes as stored: what SLEAP has always written, and the preset "standard".
MATLAB, STANDARD = ("track", "xy", "node", "frame"), ("frame", "track", "node", "xy")
_WANTED = ("frame", "track", "node", "xy")


def read_sleap(path: Path, truth: Poses) -> Poses:
    """Poses of one model, of one video.

    Args:
        path: analysis h5: ``tracks`` (tracks, 2, nodes, frames), or as its attribute ``dims`` says, NaN where nothing was
            placed; ``node_names``; optional ``track_names``, ``instance_scores``, ``point_scores``, ``video_path``.
        truth: birds by hand. The first frame of the file is frame 0; see
            :func:`birdlab.readers.pose_images.placed` for how pictures are found.

    Returns:
        One bird per track and frame in which a point was placed; its score is ``instance_scores``, or the mean of
        ``point_scores``.

    Raises:
        DataError: the file cannot be read, or its axes are not as said.
    """
    source = str(path)
    with open_hdf5(path) as file:
        names = texts(file, "node_names", source)
        points = numbers(file, "tracks", source).astype(np.float64)
        order = _axes(file, points, len(names), source)
        points = points.transpose([order.index(axis) for axis in _WANTED])
        n_frames, n_tracks = points.shape[:2]
        scores = _scores(file, order, (n_frames, n_tracks, len(names)), source)
        birds = texts(file, "track_names", source) if "track_names" in file else []
        video = texts(file, "video_path", source)[0] if "video_path" in file else ""
    if len(birds) != n_tracks:
        birds = [str(i) for i in range(n_tracks)]
    there = np.isfinite(points).all(axis=-1)
    used = np.flatnonzero(there.any(axis=(1, 2)))
    sheet = Sheet(
        used.tolist(), birds, names, np.where(there[..., None], points, np.nan)[used], scores[used], video=video
    )
    if not len(used):
        raise DataError(Problem("no_rows", "no frame with a point", "poses", file=source, key="tracks"))
    return placed(sheet, truth, path)


def _axes(file: h5py.File, points: np.ndarray, n_nodes: int, source: str) -> tuple[str, ...]:
    """Names of the four axes of ``tracks``."""
    told = _dims(file, "tracks")
    if told is not None and sorted(told) == sorted(MATLAB) and points.ndim == 4:
        if points.shape[told.index("xy")] == 2 and points.shape[told.index("node")] == n_nodes:
            return tuple(told)
    elif points.ndim == 4:
        for axes in (MATLAB, STANDARD):
            if points.shape[axes.index("xy")] == 2 and points.shape[axes.index("node")] == n_nodes:
                return axes
    found = f"shape {points.shape} with {n_nodes} nodes"
    raise DataError(Problem("bad_shape", found, "(tracks, 2, nodes, frames)", file=source, key="tracks"))


def _dims(file: h5py.File, name: str) -> list[str] | None:
    text = as_text(file[name].attrs.get("dims"))
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, list) and all(isinstance(axis, str) for axis in value) else None


def _scores(file: h5py.File, order: Sequence[str], shape: tuple[int, int, int], source: str) -> np.ndarray:
    """(frames, tracks), NaN where nothing is said."""
    n_frames, n_tracks, n_nodes = shape
    sizes = {"frame": n_frames, "track": n_tracks, "node": n_nodes}
    for name, axes in (("instance_scores", ("frame", "track")), ("point_scores", ("frame", "track", "node"))):
        if name not in file or dataset(file, name, source).dtype.kind not in "iuf":
            continue
        values = numbers(file, name, source).astype(np.float64)
        stored = _dims(file, name) or [axis for axis in order if axis in axes]
        if sorted(stored) != sorted(axes) or values.shape != tuple(sizes[axis] for axis in stored):
            continue
        values = values.transpose([stored.index(axis) for axis in axes])
        if values.ndim == 3:
            n = np.isfinite(values).sum(axis=-1)
            values = np.where(n > 0, np.nansum(values, axis=-1) / np.maximum(n, 1), np.nan)
        if np.isfinite(values).any():
            return values
    return np.full((n_frames, n_tracks), np.nan)
