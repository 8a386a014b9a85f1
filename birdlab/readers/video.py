"""Video files: their frames by container timestamps, and the pixels of chosen frames.

A frame's index is its position among the frames that the decoder puts out; its time is its timestamp minus the first
one, so a variable frame rate is followed, never index divided by a mean rate. Rotation is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.chapters import Clip, Placed, place
from birdlab.readers.files import Notice, find_files, names_from
from birdlab.readers.video_info import VideoInfo, broken, decoded, open_video, read_info
from birdlab.recipe import Media, parse_range

SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mts", ".m2ts", ".ts", ".mpg", ".mpeg", ".wmv", ".3gp"}
)
#: A wanted frame further ahead than this is looked for by a jump instead of decoding all between, s.
_JUMP_S = 3.0


def select(times_s: NDArray[np.float64], start_s: float, media: Media) -> NDArray[np.int64]:
    """Indices of the frames of one file that the recipe takes.

    Args:
        times_s: time of every frame since the file's first, s, ascending.
        start_s: start of the file on its session's clock, s.
        media: ``use`` (half-open part of the session's clock), and ``stride`` (every n-th frame of each file) or
            ``rate`` (the first frame in each 1/rate seconds of the session's clock); without these, all frames.

    >>> select(np.array([0.0, 0.4, 0.8, 1.2, 1.6, 2.0]), 0.0, Media(videos="*", rate=1)).tolist()
    [0, 3, 5]
    """
    clock = times_s + start_s
    indices = np.arange(len(clock))
    if media.use:
        lo, hi = parse_range(media.use)
        indices = indices[(clock >= lo) & (clock < hi)]
    if media.stride:
        return indices[indices % media.stride == 0]
    if media.rate:
        # Timestamps are whole ticks: a frame due at second 1 may carry 0.99999.
        slots = np.floor(clock[indices] * media.rate + 1e-4).astype(np.int64)
        return indices[np.unique(slots, return_index=True)[1]]
    return indices


def read_videos(media: Media, root: Path, dataset: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    """Videos of one entry of the recipe's ``data.media``, and the frames that the entry takes of them.

    A file is a recording session of its own unless the recipe's pattern or its name (a chapter, see
    :mod:`birdlab.readers.chapters`) says otherwise.

    Args:
        media: entry with ``videos`` (a glob).
        root: folder of the data.
        dataset: name of the study.

    Returns:
        Rows of ``media`` (every file) and ``frames`` (taken frames), and notices.

    Raises:
        DataError: every file that cannot be read, in one error; or no frame lies in ``use``.
    """
    paths, notices = find_files(root, media.videos or "", SUFFIXES)
    session, more = names_from("session", _how(media.session), paths, required=True)
    site, of_site = names_from("site", media.site, paths, required=False)
    camera, of_camera = names_from("camera", media.camera, paths, required=False)
    infos = _read_all([root / path for path in paths])
    clips = [
        Clip(path, info.created, info.duration_s, (info.width_px, info.height_px))
        for path, info in zip(paths, infos, strict=True)
    ]
    placed, of_clock = place(clips, sessions=session, cameras=camera, chapters=media.chapters)
    own = [Notice(n.code, n.message, n.n, p) for p, info in zip(paths, infos, strict=True) for n in info.notices]
    notices += [*more, *of_site, *of_camera, *of_clock, *own]
    places = list(zip(paths, infos, placed, site, camera, strict=True))
    table = schemas.TABLES["media"].conform(
        pl.DataFrame([_media_row(dataset, *p) for p in places], infer_schema_length=None)
    )
    taken = [_frame_rows(media, *p) for p in places]
    frames = pl.concat(taken)
    if frames.is_empty():
        longest = max(p.start_s + i.duration_s for i, p in zip(infos, placed, strict=True))
        expected = f"a part of the recordings, which end at {longest:.1f} s"
        raise DataError(Problem("nothing_used", f"no frame in {media.use}", expected, file=str(root), key="media.use"))
    unused = [p for p, part in zip(paths, taken, strict=True) if part.is_empty()]
    if unused:
        notices.append(Notice("video_unused", f"video files lie outside `use: {media.use}`", len(unused), unused[0]))
    return table, frames, notices


def _how(session: str | None) -> str | None:
    # "file" is what a session is without a word; chapters are joined only then.
    return None if session == "file" else session


def _read_all(paths: Sequence[Path]) -> list[VideoInfo]:
    infos, problems = [], []
    for path in paths:
        try:
            infos.append(read_info(path))
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    return infos


def _media_row(
    dataset: str, path: str, info: VideoInfo, placed: Placed, site: str | None, camera: str | None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "media_id": path,
        "kind": "video",
        "path": str(info.path.absolute()),
        "video_id": placed.session,
        "site_id": site,
        "camera_id": camera,
        "bytes": info.path.stat().st_size,
        "width_px": info.width_px,
        "height_px": info.height_px,
        "fps": info.fps,
        "duration_s": info.duration_s,
        "recorded_at": placed.started,
        "start_s": placed.start_s,
    }


def _frame_rows(
    media: Media, path: str, info: VideoInfo, placed: Placed, site: str | None, camera: str | None
) -> pl.DataFrame:
    indices = select(info.times_s, placed.start_s, media)
    rows = pl.DataFrame({"frame_index": indices, "time_s": info.times_s[indices] + placed.start_s})
    rows = rows.with_columns(
        pl.concat_str(pl.lit(f"{path}#"), pl.col("frame_index").cast(pl.String)).alias("frame_id"),
        pl.lit(path).alias("media_id"),
        pl.lit(placed.session).alias("video_id"),
        pl.lit(site, dtype=pl.String).alias("site_id"),
        pl.lit(camera, dtype=pl.String).alias("camera_id"),
        pl.lit(info.width_px).alias("width_px"),
        pl.lit(info.height_px).alias("height_px"),
        pl.lit(media.split).alias("split"),
        pl.lit("unlabelled").alias("label_state"),
    )
    return schemas.TABLES["frames"].conform(rows)


def decode(
    path: Path, indices: Sequence[int], *, times: Sequence[float] | None = None
) -> Iterator[tuple[int, NDArray[np.uint8] | DataError]]:
    """Pixels of chosen frames of one video, in one pass.

    Args:
        path: the video.
        indices: frames wanted, ascending.
        times: their times since the file's first frame, s, as :func:`read_info` gave them; without these the file's
            packets are read once more to find them.

    Yields:
        ``(index, picture)`` for every index: height × width × 3, uint8, blue-green-red, upright. A frame that is damaged or
        not there comes with its error in place of the picture.
    """
    import av

    todo = list(indices)
    try:
        if times is None:
            info = read_info(path)
            times = [float(info.times_s[i]) if i < len(info.pts) else float("inf") for i in indices]
        with open_video(path) as container:
            for index, picture in _pictures(container, path, list(indices), list(times)):
                todo.pop(0)
                yield index, picture
    except (av.error.FFmpegError, DataError) as error:
        problems = error.problems if isinstance(error, DataError) else [broken(path, error)]
        for index in todo:
            yield index, DataError(problems)


def _pictures(container: Any, path: Path, indices: list[int], times: list[float]) -> Iterator[tuple[int, Any]]:
    stream = container.streams.best("video")
    stream.thread_type = "AUTO"
    base = float(stream.time_base)
    frames = decoded(container, stream)
    current = _next(frames)
    if current is None or current.pts is None:
        yield from _counted(container, path, indices)
        return
    first, jump = current.pts, _JUMP_S
    for index, time in zip(indices, times, strict=True):
        wanted = first + round(time / base) if np.isfinite(time) else None
        if wanted is None:
            yield index, _frame_error(path, index, "no such frame")
            continue
        if current is not None and (wanted - current.pts) * base > jump:
            before = current.pts
            container.seek(wanted, stream=stream, backward=True)
            frames = decoded(container, stream)
            current = _next(frames)
            if current is None or current.pts is None or current.pts > wanted:
                # The jump went past the frame: start over, and decode everything.
                container.seek(first, stream=stream, backward=True)
                frames, jump = decoded(container, stream), float("inf")
                current = _next(frames)
            elif current.pts <= before:
                jump *= 4  # key frames lie further apart than the frames wanted
        while current is not None and current.pts < wanted:
            current = _next(frames)
        if current is None or current.pts != wanted:
            yield index, _frame_error(path, index, "a frame that cannot be decoded")
        elif current.is_corrupt:
            yield index, _frame_error(path, index, "a damaged frame")
        else:
            yield index, _picture(current)


def _counted(container: Any, path: Path, indices: list[int]) -> Iterator[tuple[int, Any]]:
    """The same for a file without timestamps: frames are counted from its beginning."""
    container.seek(0)
    stream = container.streams.best("video")
    wanted = list(indices)
    good = (f for f in decoded(container, stream) if not isinstance(f, DataError))
    for number, frame in enumerate(good):
        while wanted and wanted[0] == number:
            yield wanted.pop(0), _picture(frame)
        if not wanted:
            return
    for index in wanted:
        yield index, _frame_error(path, index, "a frame that cannot be decoded")


def _next(frames: Iterator[Any]) -> Any:
    return next((frame for frame in frames if not isinstance(frame, DataError)), None)


def _picture(frame: Any) -> NDArray[np.uint8]:
    image = frame.to_ndarray(format="bgr24")
    # The container's angle is counter-clockwise, as numpy's is.
    turns = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image


def _frame_error(path: Path, index: int, found: str) -> DataError:
    return DataError(Problem("unreadable_frame", found, "a frame", file=str(path), record=f"frame {index}"))
