"""Predicted keypoints of any program that is known: which one it is shows in the file."""

from __future__ import annotations

from pathlib import Path

from birdlab.errors import DataError, Problem
from birdlab.readers.coco_keypoints import Poses, read_results
from birdlab.readers.deeplabcut import read_deeplabcut
from birdlab.readers.hdf5 import open_hdf5
from birdlab.readers.sleap import read_sleap

HDF5 = (".h5", ".hdf5")
_KINDS = ".json (COCO), .csv or .h5 (DeepLabCut), .h5 (SLEAP analysis)"


def read_poses(path: Path, truth: Poses) -> Poses:
    """Keypoints of one model.

    Args:
        path: COCO results or a COCO file (``.json``), DeepLabCut's csv or h5, SLEAP's analysis h5; or a folder of them:
            one per video, no picture in two of them.
        truth: birds by hand, from :func:`birdlab.readers.coco_keypoints.read_truth`.

    Raises:
        DataError: the file cannot be read, or is of another kind; of a folder every file's problems.
    """
    if path.is_dir():
        return _folder(path, truth)
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(Problem("unreadable", "no such file", _KINDS, "check the path", file=str(path)))
    if suffix == ".json":
        return read_results(path, truth)
    if suffix == ".csv":
        return read_deeplabcut(path, truth)
    if suffix not in HDF5:
        raise DataError(Problem("unknown_kind", suffix or "a file without suffix", _KINDS, file=str(path)))
    with open_hdf5(path) as file:
        is_sleap = "tracks" in file and "node_names" in file
    return read_sleap(path, truth) if is_sleap else read_deeplabcut(path, truth)


def _folder(path: Path, truth: Poses) -> Poses:
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in (".json", ".csv", *HDF5) and p.name[0] != ".")
    parts, problems = [], []
    seen: dict[str, Path] = {}
    for file in files:
        try:
            part = read_poses(file, truth)
        except DataError as error:
            problems += error.problems
            continue
        for image in dict.fromkeys(bird.image_id for bird in part.instances):
            if image in seen:
                found = f"picture {image}, also in {seen[image].name}"
                remedy = "keep the csv or the h5 of a video, not both"
                problems.append(Problem("image_twice", found, "each picture in one file", remedy, file=str(file)))
                break
            seen[image] = file
        parts.append(part)
    if problems:
        raise DataError(problems)
    if not parts:
        raise DataError(Problem("empty_folder", "no file of poses", _KINDS, file=str(path)))
    birds = [bird for part in parts for bird in part.instances]
    return Poses(truth.names, truth.images, birds, [notice for part in parts for notice in part.notices])
