"""Pixels of photographs and video frames, always blue-green-red, 8 bit, upright.

What becomes of pictures that are stored otherwise:

- EXIF orientation and the rotation of a video are applied.
- 16 bits per channel are divided by 257 and rounded: 65535 becomes 255.
- Gray becomes three equal channels; palettes are expanded.
- Transparent pixels are laid on black, in proportion to their opacity.
- CMYK is converted by Pillow, without a colour profile.
- A file that ends early is an error, never a picture with a gray half.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from birdlab.errors import DataError, Problem
from birdlab.readers.images import Header, read_header, unreadable

Picture = NDArray[np.uint8]

#: A JPEG marker that is no stuffed byte (00), no restart mark (D0-D7) and no fill byte (FF).
_MARKER = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])")


def read_image(path: Path | str) -> Picture:
    """One photograph as an array of height × width × 3, uint8, blue-green-red, upright.

    Raises:
        DataError: the file is missing, no picture, cut off, or of a kind without a stated conversion.
    """
    path = Path(path)
    header = read_header(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(unreadable(path, error)) from error
    if is_plain_jpeg(header):
        return _jpeg(path, raw)
    # OpenCV 5.0 fails on a TIFF that lies on its side.
    lying = header.format == "TIFF" and header.orientation >= 5
    if header.mode == "CMYK" or lying or header.format in ("JPEG", "MPO", "GIF"):
        return _by_pillow(path)
    return _by_opencv(path, raw, header)


def read_gray(path: Path | str) -> Picture:
    """One photograph as an array of height × width, uint8, brightness, upright.

    A JPEG gives the luma it is stored with (OpenCV's ``IMREAD_GRAYSCALE``: no colour is decoded, about half the time of
    :func:`read_image`); every other kind, and a CMYK JPEG, is what :func:`read_image` gives, weighted
    0.299 R + 0.587 G + 0.114 B (``cv2.cvtColor``). The two ways differ by a gray level or two.

    Raises:
        DataError: as :func:`read_image`.
    """
    import cv2

    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(unreadable(path, error)) from error
    if jpeg_channels(raw) in (1, 3):
        return _jpeg(path, raw, gray=True)
    return cv2.cvtColor(read_image(path), cv2.COLOR_BGR2GRAY)


def jpeg_channels(raw: bytes) -> int | None:
    """Number of channels that the frame header of a JPEG promises (4: CMYK); ``None`` for anything but an 8-bit JPEG.

    >>> jpeg_channels(bytes.fromhex("ffd8ffc000110800080008030122000211010311 01")), jpeg_channels(b"GIF89a")
    (3, None)
    """
    at = 2
    while raw[:3] == b"\xff\xd8\xff" and (match := _MARKER.search(raw, at)):
        marker, at = match[1][0], match.end()
        # ITU-T T.81, table B.1: SOF0-SOF15 without DHT, JPG and DAC.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            head = raw[at : at + 8]
            return head[7] if len(head) == 8 and head[2] == 8 else None
        if marker in (0xD9, 0xDA):
            return None
        at += int.from_bytes(raw[at : at + 2], "big")
    return None


def is_plain_jpeg(header: Header) -> bool:
    """Whether OpenCV decodes the photograph as it should: a JPEG in colour or gray, not one in CMYK."""
    return header.format in ("JPEG", "MPO") and header.mode in ("RGB", "L")


def _jpeg(path: Path, raw: bytes, *, gray: bool = False) -> Picture:
    import cv2

    # OpenCV decodes a cut-off JPEG without a word, and so does libjpeg underneath.
    if not jpeg_is_whole(raw):
        raise DataError(unreadable(path, "a truncated file: the picture ends early"))
    image = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR_BGR)
    if image is None:
        raise DataError(unreadable(path, "JPEG data that cannot be decoded"))
    return image


def jpeg_is_whole(raw: bytes) -> bool:
    """Whether the JPEG stream at the start of ``raw`` reaches its own end mark.

    Walks the markers (ITU-T T.81, annex B), so thumbnails inside and data appended behind the picture do not mislead.

    >>> jpeg_is_whole(bytes.fromhex("ffd8ffda000212ff00ffd9")), jpeg_is_whole(bytes.fromhex("ffd8ffda000212ff00"))
    (True, False)
    """
    at = 2
    while match := _MARKER.search(raw, at):
        if match[1] == b"\xd9":
            return True
        # A segment with a length, or the head of a scan, behind which the search runs on through coded data.
        at = match.end() + int.from_bytes(raw[match.end() : match.end() + 2], "big")
    return False


def _by_pillow(path: Path) -> Picture:
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.load()
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I;16"):
                upright = Image.fromarray(np.rint(np.asarray(upright) / 257).astype(np.uint8))
            rgb = np.asarray(upright.convert("RGB"))
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise DataError(unreadable(path, error)) from error
    return np.ascontiguousarray(rgb[..., ::-1])


def _by_opencv(path: Path, raw: bytes, header: Header) -> Picture:
    import cv2
    from PIL import Image

    try:
        # Pillow checks lengths and checksums; OpenCV keeps 16 bits, which Pillow does not.
        with Image.open(path) as image:
            image.load()
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise DataError(unreadable(path, error)) from error
    stored = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_UNCHANGED)
    if stored is None:
        return _by_pillow(path)
    if stored.dtype == np.uint16:
        stored = np.rint(stored / 257).astype(np.uint8)
    if stored.dtype != np.uint8:
        found = f"pixels of type {stored.dtype}"
        raise DataError(
            Problem("unreadable_image", found, "8 or 16 bits per channel", "convert the picture", file=str(path))
        )
    # OpenCV turns a TIFF by itself, every other kind is given as stored.
    return _upright(_three_channels(stored), 1 if header.format == "TIFF" else header.orientation)


def _three_channels(image: NDArray[Any]) -> Picture:
    if image.ndim == 2:
        image = image[..., None]
    if image.shape[2] in (2, 4):
        opacity = image[..., -1:].astype(np.uint16)
        image = ((image[..., :-1] * opacity + 127) // 255).astype(np.uint8)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image[..., :3]


def _upright(image: Picture, orientation: int) -> Picture:
    # EXIF 2.32, tag 274: 2-4 mirror or turn over, 5-8 lie on their side.
    steps = {
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, 1),
    }
    return np.ascontiguousarray(steps[orientation](image) if orientation in steps else image)


def iter_frames(frames: pl.DataFrame, media: pl.DataFrame) -> Iterator[tuple[str, Picture | DataError]]:
    """Pixels of every row of ``frames``, in its order.

    Rows of one video that follow each other in ascending order are read in one pass through the file.

    Args:
        frames: rows of the ``frames`` table.
        media: the ``media`` table (``media_id``, ``kind``, ``path``, ``start_s`` are used).

    Yields:
        ``(frame_id, picture)``; a frame that cannot be read comes with its error in place of the picture.
    """
    places = {row["media_id"]: row for row in media.select("media_id", "kind", "path", "start_s").iter_rows(named=True)}
    rows = frames.select("frame_id", "media_id", "frame_index", "time_s").rows(named=True)
    for run in _runs(rows):
        place = places[run[0]["media_id"]]
        if place["kind"] == "video":
            yield from _video_run(run, Path(place["path"]), place["start_s"])
        else:
            yield run[0]["frame_id"], _image_or_error(Path(place["path"]))


def _runs(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    cuts = [0]
    for i, (a, b) in enumerate(pairwise(rows), start=1):
        if a["media_id"] != b["media_id"] or b["frame_index"] <= a["frame_index"]:
            cuts.append(i)
    for start, end in pairwise([*cuts, len(rows)]):
        if end > start:
            yield rows[start:end]


def _image_or_error(path: Path) -> Picture | DataError:
    try:
        return read_image(path)
    except DataError as error:
        return error


def _video_run(
    run: list[dict[str, Any]], path: Path, start_s: float | None
) -> Iterator[tuple[str, Picture | DataError]]:
    from birdlab.readers.video import decode

    timed = start_s is not None and all(row["time_s"] is not None for row in run)
    times = [row["time_s"] - start_s for row in run] if timed else None
    indices = [row["frame_index"] for row in run]
    for row, (_, picture) in zip(run, decode(path, indices, times=times), strict=True):
        yield row["frame_id"], picture
