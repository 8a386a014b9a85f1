"""What a video file says of itself: codec, size as displayed, and the timestamp of every frame."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice

#: Frames decoded to see that the packets' timestamps are the decoder's.
_PROBE = 4


@dataclass(frozen=True)
class VideoInfo:
    """One video file: codec, size as displayed, timestamps of its frames, time of its beginning (UTC, by the container).

    ``pts`` are ascending integers in units of ``time_base`` seconds, one per frame.
    """

    path: Path
    codec: str
    width_px: int
    height_px: int
    pts: NDArray[np.int64]
    time_base: Fraction
    last_s: float
    created: datetime | None
    notices: tuple[Notice, ...] = ()

    @property
    def times_s(self) -> NDArray[np.float64]:
        """Time of every frame since the first, s."""
        return (self.pts - self.pts[0]) * float(self.time_base)

    @property
    def duration_s(self) -> float:
        """Time from the first frame's beginning to the last frame's end, s."""
        return float(self.times_s[-1]) + self.last_s

    @property
    def fps(self) -> float | None:
        """Mean frame rate, Hz; ``None`` for a single frame."""
        return (len(self.pts) - 1) / float(self.times_s[-1]) if len(self.pts) > 1 else None


def open_video(path: Path) -> Any:
    """The container, open for reading; a title that is not UTF-8 is no reason to refuse the file."""
    import av

    return av.open(str(path), metadata_errors="replace")


def read_info(path: Path) -> VideoInfo:
    """Read a video's packets (all of them, without decoding) and its first frames.

    Raises:
        DataError: missing, cut off, damaged, without video, or of a codec that cannot be decoded (with the command that
            converts it).
    """
    import av

    try:
        with open_video(path) as container:
            stream = container.streams.best("video")
            if stream is None:
                raise DataError(_no_video(path))
            if stream.codec_context is None:
                raise DataError(_undecodable(path, _fourcc(path)))
            codec, base = stream.codec_context.name, stream.time_base
            pts, last, whole = _packet_times(container, stream)
            promised, created = stream.frames, _created(container, stream)
        first = _first_frames(path)
    except (av.error.FFmpegError, IndexError) as error:
        # PyAV raises IndexError for a container in which no stream was found.
        raise DataError(broken(path, error)) from error
    if not first:
        raise DataError(_no_frame(path, codec))
    notices = []
    if pts is None or not np.array_equal(pts[: len(first)], [f.pts for f in first][: len(pts)]):
        pts, base, text = _decoded_times(path)
        notices.append(Notice("timestamps_decoded", f"the file was decoded to number its frames: {text}", 1))
    missing = promised - len(pts)
    if not whole or missing > max(2, promised // 100):
        raise DataError(_cut_off(path, len(pts), promised))
    if missing > 0:
        notices.append(Notice("frames_missing", f"the file promises {promised} frames and holds {len(pts)}", missing))
    upright = first[0].rotation % 180 == 0
    width, height = (first[0].width, first[0].height) if upright else (first[0].height, first[0].width)
    last_s = (
        last * float(base) if last else (float((pts[-1] - pts[0]) * base) / (len(pts) - 1) if len(pts) > 1 else 0.0)
    )
    return VideoInfo(path, codec, width, height, pts, base, last_s, created, tuple(notices))


def _packet_times(container: Any, stream: Any) -> tuple[NDArray[np.int64] | None, int, bool]:
    """Ascending timestamps of the packets (None where some have none), duration of the last, and whether all could be read."""
    import av

    pts, lasting, whole = [], {}, True
    try:
        for packet in container.demux(stream):
            if packet.size and not packet.is_discard:
                pts.append(packet.pts)
                lasting[packet.pts] = packet.duration or 0
    except av.error.FFmpegError:
        whole = False
    if not pts or None in pts or len(set(pts)) < len(pts):
        return None, 0, whole
    return np.sort(np.array(pts, dtype=np.int64)), lasting[max(pts)], whole


def _first_frames(path: Path) -> list[Any]:
    import av

    frames: list[Any] = []
    with open_video(path) as container, contextlib.suppress(av.error.InvalidDataError):
        for frame in container.decode(container.streams.best("video")):
            frames.append(frame)
            if len(frames) == _PROBE:
                break
    return frames


def _decoded_times(path: Path) -> tuple[NDArray[np.int64], Fraction, str]:
    """Timestamps by decoding everything: slow, and right where packets do not say when they are shown."""

    with open_video(path) as container:
        stream = container.streams.best("video")
        codec, base, rate = stream.codec_context.name, stream.time_base, stream.average_rate or Fraction(25)
        times = [frame.pts for frame in decoded(container, stream) if not isinstance(frame, DataError)]
    if not times:
        raise DataError(_no_frame(path, codec))
    if None in times or len(set(times)) < len(times) or any(b <= a for a, b in zip(times, times[1:], strict=False)):
        return (
            np.arange(len(times), dtype=np.int64),
            1 / rate,
            f"it has no timestamps, and {float(rate):g} frames per second are assumed",
        )
    return np.array(times, dtype=np.int64), base, "its packets do not say when they are shown"


def decoded(container: Any, stream: Any) -> Iterator[Any]:
    """Frames of a stream in order; a packet that cannot be decoded gives an error in its place."""
    import av

    for packet in container.demux(stream):
        try:
            yield from packet.decode()
        except av.error.EOFError:
            return
        except av.error.FFmpegError as error:
            yield DataError(f"damaged data: {error.strerror}")


def _created(container: Any, stream: Any) -> datetime | None:
    text = container.metadata.get("creation_time") or stream.metadata.get("creation_time") or ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    # Cameras whose clock was never set write 1904 or 1970.
    return time if time.year >= 1990 else None


def _fourcc(path: Path) -> str:
    """The codec's four letters, where neither name nor decoder is known (sample description of MP4, stream header of AVI)."""
    with path.open("rb") as stream:
        head = stream.read(1 << 22)
        stream.seek(max(0, path.stat().st_size - (1 << 22)))
        tail = stream.read()
    for part in (head, tail):
        at = part.find(b"stsd")
        mark = part[at + 16 : at + 20] if at >= 0 else b""
        if b"vids" in part:
            mark = part[part.find(b"vids") + 4 :][:4]
        if len(mark) == 4 and all(32 < c < 127 for c in mark):
            return mark.decode()
    return "unknown"


def conversion_command(path: Path) -> str:
    """The command that makes a video of any codec readable everywhere, quoted for a shell.

    >>> conversion_command(Path("nest 7.mov"))
    "ffmpeg -i 'nest 7.mov' -c:v libx264 -crf 18 -pix_fmt yuv420p 'nest 7_h264.mp4'"
    """
    out = path.with_name(f"{path.stem}_h264.mp4")
    return f"ffmpeg -i {shlex.quote(str(path))} -c:v libx264 -crf 18 -pix_fmt yuv420p {shlex.quote(str(out))}"


def _no_video(path: Path) -> Problem:
    return Problem("no_video", "no picture in the file", "a video", "leave it out of data.media", file=str(path))


def _undecodable(path: Path, codec: str) -> Problem:
    expected = "a codec that can be decoded here"
    return Problem(
        "unknown_codec", f"codec {codec}", expected, f"convert it: {conversion_command(path)}", file=str(path)
    )


def _no_frame(path: Path, codec: str) -> Problem:
    """There is a decoder for the codec, but it made nothing of the file: damage, as a rule."""
    remedy = f"copy it from the card again; if it plays elsewhere, convert it: {conversion_command(path)}"
    return Problem("no_frame", f"no frame that {codec} can decode", "a whole video file", remedy, file=str(path))


def broken(path: Path, error: Exception) -> Problem:
    """The problem of a file that the video library refuses."""
    import av

    if isinstance(error, av.error.DecoderNotFoundError):
        return _undecodable(path, _fourcc(path))
    if isinstance(error, FileNotFoundError):
        found = "no such file"
    elif isinstance(error, PermissionError):
        found = "no permission to read it"
    elif path.exists() and path.stat().st_size == 0:
        found = "an empty file"
    else:
        found = "a file that is cut off or no video"
    return Problem("unreadable_video", found, "a whole video file", "copy it from the card again", file=str(path))


def _cut_off(path: Path, n: int, promised: int) -> Problem:
    found = f"{n} frames, then damaged data or the end of the file"
    expected = f"the {promised} frames that the file promises" if promised else "a whole video file"
    return Problem("cut_off_video", found, expected, "copy it from the card again", file=str(path))
