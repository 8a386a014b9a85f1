"""Which picture of the truth a predicted pose belongs to: by its name, or by the number of its frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.readers.coco_keypoints import FARTHEST, Instance, Poses
from birdlab.readers.files import Notice, at_most


@dataclass(frozen=True)
class Sheet:
    """Poses as tracking software saves them.

    Args:
        rows: picture of each row: names, or numbers of frames.
        birds: name of each bird.
        names: keypoints of the model, in order.
        points: (rows, birds, keypoints, 2) x, y in px; NaN where nothing was placed.
        scores: (rows, birds); NaN where nothing is said.
        video: name of the video, where the file tells.
    """

    rows: Sequence[str] | Sequence[int]
    birds: Sequence[str]
    names: Sequence[str]
    points: np.ndarray
    scores: np.ndarray
    video: str = ""


def placed(sheet: Sheet, truth: Poses, path: Path) -> Poses:
    """Poses of a sheet on the pictures of the truth.

    A name belongs to the picture whose path has most folders and the file name, from the right, in common with it. The
    number of a frame (0-based) belongs to the picture with that ``frame``, or else with that last number in its file name.
    Where the truth has several videos, the file must tell which is meant: its name begins with the video's.

    Args:
        sheet: as read.
        truth: birds by hand.
        path: of the sheet, for messages.

    Returns:
        The birds with at least one point, keypoints in the truth's order; notices of pictures outside the truth, of
        keypoints that only one side has.

    Raises:
        DataError: no picture or no keypoint in common; a name or number that may be any of several pictures.
    """
    order, notices = _keypoints(sheet.names, truth.names, path)
    find = _by_name(truth) if sheet.rows and isinstance(sheet.rows[0], str) else _by_frame(truth, sheet, path)
    birds, strange, problems = [], 0, _no_places(sheet, path)
    taken: dict[str, object] = {}
    for r, row in enumerate(sheet.rows):
        images = find(row)
        if len(images) > 1:
            found = f"{row}: one of {', '.join(sorted(images)[:3])}"
            problems.append(Problem("ambiguous_image", found, "one picture", file=str(path), record=f"row {r + 1}"))
        if len(images) != 1:
            strange += not images
            continue
        if images[0] in taken:
            found = f"{taken[images[0]]} and {row} for picture {images[0]}"
            problems.append(Problem("image_twice", found, "one row", file=str(path), record=f"row {r + 1}"))
            continue
        taken[images[0]] = row
        for b, bird in enumerate(sheet.birds):
            xy = np.where(order[:, None] >= 0, sheet.points[r, b, order], np.nan)
            if (there := np.isfinite(xy).all(axis=1)).any():
                birds.append(_instance(f"{row}/{bird}", images[0], xy, there, sheet.scores[r, b]))
    if problems:
        raise DataError(at_most(problems))
    if not taken:
        found = f"{len(sheet.rows)} pictures, none of the truth (the first: {sheet.rows[0] if sheet.rows else 'none'})"
        raise DataError(Problem("no_common_image", found, "pictures of the truth", file=str(path)))
    if strange:
        text = f"{path.name}: pictures that are not in the truth: not scored"
        notices.append(Notice("other_images", text, strange, str(path)))
    return Poses(truth.names, truth.images, birds, notices)


def _no_places(sheet: Sheet, path: Path) -> list[Problem]:
    """Points that lie where no picture reaches; infinite ones are not placed."""
    far = np.argwhere(np.isfinite(sheet.points) & (np.abs(sheet.points) > FARTHEST))
    return [
        Problem(
            "bad_keypoints", f"{sheet.points[r, b, k, axis]:g}", f"numbers of at most {FARTHEST:g}", file=str(path),
            record=str(sheet.rows[r]), key=sheet.names[k],
        )
        for r, b, k, axis in far.tolist()
    ]  # fmt: skip


def _instance(name: str, image: str, xy: np.ndarray, there: np.ndarray, score: float) -> Instance:
    points = np.column_stack([xy, there.astype(float)])
    lo, hi = xy[there].min(axis=0), xy[there].max(axis=0)
    width, height = (float(v) for v in hi - lo)
    return Instance(
        name, image, points, (float(lo[0]), float(lo[1]), width, height), width * height,
        float(score) if np.isfinite(score) else 1.0,
    )  # fmt: skip


def _keypoints(found: Sequence[str], names: Sequence[str], path: Path) -> tuple[np.ndarray, list[Notice]]:
    """Place of each true keypoint among the model's, -1 where it has none; case and blanks at the ends do not count."""
    have = {name.strip().casefold(): i for i, name in enumerate(found)}
    if len(have) < len(found):
        raise DataError(Problem("keypoint_twice", ", ".join(found), "each keypoint once", file=str(path)))
    order = np.array([have.get(name.strip().casefold(), -1) for name in names])
    wanted = {name.strip().casefold() for name in names}
    if (order < 0).all():
        expected = ", ".join(names)
        raise DataError(Problem("other_keypoints", ", ".join(found) or "none", expected, file=str(path)))
    lost = [name for name, i in zip(names, order, strict=True) if i < 0]
    extra = [name for name in found if name.strip().casefold() not in wanted]
    notices = []
    if lost:
        text = f"{path.name}: keypoints that the model does not know, counted as not placed: {', '.join(lost)}"
        notices.append(Notice("unknown_keypoints", text, len(lost), str(path)))
    if extra:
        text = f"{path.name}: keypoints that are not in the truth, not scored: {', '.join(extra)}"
        notices.append(Notice("extra_keypoints", text, len(extra), str(path)))
    return order, notices


def _by_name(truth: Poses):
    by_base: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for image, about in truth.images.items():
        parts = _parts(about["file_name"] or image)
        by_base.setdefault(parts[-1] if parts else "", []).append((parts, image))

    def find(row: str | int) -> list[str]:
        parts = _parts(str(row))
        near = [(_common(parts, theirs), image) for theirs, image in by_base.get(parts[-1] if parts else "", [])]
        best = max((n for n, _ in near), default=0)
        return [image for n, image in near if n == best]

    return find


def _by_frame(truth: Poses, sheet: Sheet, path: Path):
    videos = {image: video_of(about) for image, about in truth.images.items()}
    wanted = _video(set(videos.values()), [sheet.video, path.stem], path)
    by_frame: dict[int, list[str]] = {}
    for image, about in truth.images.items():
        if videos[image] == wanted and (frame := frame_of(about)) is not None:
            by_frame.setdefault(frame, []).append(image)
    return lambda row: by_frame.get(int(row), [])


def _video(videos: set[str], hints: Iterable[str], path: Path) -> str:
    """The only video, or the one with the longest name that a hint begins with."""
    if len(videos) == 1:
        return next(iter(videos))
    for hint in hints:
        stem = PurePosixPath(hint.replace("\\", "/")).stem.casefold()
        near = [v for v in videos if v and stem.startswith(PurePosixPath(v).stem.casefold())]
        if near:
            return max(near, key=len)
    found = f"numbers of frames, and {len(videos)} videos in the truth"
    remedy = f"begin the file's name with one of {', '.join(sorted(videos)[:5])}"
    raise DataError(Problem("which_video", found, "the video they belong to", remedy, file=str(path)))


def video_of(about: Mapping[str, str | None]) -> str:
    """The video of a picture: as told, else its folder."""
    if about["video"]:
        return about["video"]
    parts = _parts(about["file_name"] or "")
    return parts[-2] if len(parts) > 1 else ""


def frame_of(about: Mapping[str, str | None]) -> int | None:
    """The frame of a picture: as told, else the last number of its file name.

    >>> frame_of({"frame": None, "file_name": "v2/img0042.png"})
    42
    """
    if (told := about.get("frame")) is not None:
        return int(told) if told.isdecimal() else None
    runs = re.findall(r"\d+", PurePosixPath(about["file_name"] or "").stem)
    return int(runs[-1]) if runs else None


def _parts(name: str) -> tuple[str, ...]:
    return tuple(p for p in PurePosixPath(name.replace("\\", "/")).parts if p != "/")


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[-1 - n] == b[-1 - n]:
        n += 1
    return n
