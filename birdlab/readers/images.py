"""Photographs: from a glob to rows of ``media`` and ``frames``, by their headers alone."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.files import Notice, find_files, names_from
from birdlab.recipe import Media

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})
#: EXIF orientations under which width and height change places (the picture is stored lying on its side).
_SIDEWAYS = (5, 6, 7, 8)
_ORIENTATION, _EXIF_IFD, _TAKEN, _OFFSET, _SUBSECOND = 0x0112, 0x8769, 36867, 36881, 37521


@dataclass(frozen=True)
class Header:
    """What a photograph says of itself before its pixels are decoded.

    ``width_px`` and ``height_px`` are as displayed; ``orientation`` is EXIF's (1: as stored); ``mode`` and ``format``
    are Pillow's words; ``taken`` is DateTimeOriginal in UTC, and ``has_zone`` whether EXIF gave its offset from UTC.
    """

    width_px: int
    height_px: int
    orientation: int
    mode: str
    format: str
    taken: datetime | None
    has_zone: bool


def read_header(path: Path) -> Header:
    """Size, orientation and time of a photograph; no pixel is decoded.

    Raises:
        DataError: the file is missing, empty or no picture that can be read.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            exif = image.getexif()
            width, height = image.size
            mode, kind = image.mode, image.format or ""
            orientation = exif.get(_ORIENTATION, 1)
            taken, has_zone = _taken(exif.get_ifd(_EXIF_IFD))
    except (OSError, Image.DecompressionBombError, ValueError, SyntaxError, EOFError, KeyError) as error:
        raise DataError(unreadable(path, error)) from error
    orientation = orientation if orientation in range(1, 9) else 1
    # Pillow turns a TIFF by itself, every other kind is given as stored.
    if orientation in _SIDEWAYS and kind != "TIFF":
        width, height = height, width
    return Header(width, height, orientation, mode, kind, taken, has_zone)


def unreadable(path: Path, error: Exception | str) -> Problem:
    """The problem of a photograph that cannot be read."""
    if isinstance(error, FileNotFoundError):
        found = "no such file"
    elif isinstance(error, PermissionError):
        found = "no permission to read it"
    elif path.exists() and path.stat().st_size == 0:
        found = "an empty file"
    elif size := re.search(r"Image size \((\d+) pixels\) exceeds limit of (\d+) pixels", str(error)):
        # Pillow's guard against files that promise a picture which no memory holds; some mosaics are as large.
        found, expected = f"{int(size[1]):,} pixels", f"at most {int(size[2]):,}"
        return Problem("too_large", found, expected, "cut the picture into tiles", file=str(path))
    else:
        # Pillow's message repeats the path; the problem names the file already.
        found = re.sub(r"\s*'[^']*'$", "", str(error)) if "cannot identify" not in str(error) else "no picture"
    return Problem("unreadable_image", found, "a picture", "copy it from the card again", file=str(path))


def _taken(exif: dict[int, object]) -> tuple[datetime | None, bool]:
    text, offset = str(exif.get(_TAKEN, "")).strip("\0 "), str(exif.get(_OFFSET, "")).strip("\0 ")
    try:
        taken = datetime.strptime(text, "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None, False
    fraction = re.fullmatch(r"\d{1,6}", str(exif.get(_SUBSECOND, "")).strip("\0 "))
    if fraction:
        taken += timedelta(microseconds=int(fraction[0].ljust(6, "0")))
    zone = re.fullmatch(r"([+-])(\d\d):(\d\d)", offset)
    if not zone:
        return taken.replace(tzinfo=UTC), False
    shift = timedelta(hours=int(zone[2]), minutes=int(zone[3])) * (-1 if zone[1] == "-" else 1)
    return taken.replace(tzinfo=timezone(shift)).astimezone(UTC), True


def read_images(media: Media, root: Path, dataset: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    """Photographs of one entry of the recipe's ``data.media``.

    The session is what the recipe's pattern says; without one, the folder the photograph lies in, or the name of the
    study where all lie in one folder. ``time_s`` counts from the session's first DateTimeOriginal; null without EXIF.

    Args:
        media: entry with ``images`` (a glob).
        root: folder of the data.
        dataset: name of the study.

    Returns:
        Rows of ``media`` and ``frames`` in natural order, and notices. A photograph that cannot be read has null width
        and height and is counted; its label state is ``unlabelled`` until labels say otherwise.

    Raises:
        DataError: nothing matches the glob, or a pattern matches no file.
        ParameterError: the entry has settings that belong to videos.
    """
    unused = [key for key in ("stride", "rate", "use") if getattr(media, key) is not None]
    if unused:
        problem = Problem(
            "bad_value", f"{unused[0]} beside images", "it beside videos", "remove it", key=f"media.{unused[0]}"
        )
        raise ParameterError(problem)
    paths, notices = find_files(root, media.images or "", SUFFIXES)
    session, session_notices = _sessions(media, paths, dataset)
    site, site_notices = names_from("site", media.site, paths, required=False)
    camera, camera_notices = names_from("camera", media.camera, paths, required=False)
    with warnings.catch_warnings(), ThreadPoolExecutor(8) as pool:
        # A large aerial picture is not an attack (Pillow still refuses those above 179 megapixels).
        warnings.simplefilter("ignore")
        headers = list(pool.map(lambda path: _header_or_error(root / path), paths))
    notices += [*session_notices, *site_notices, *camera_notices, *_header_notices(paths, headers)]
    table = _media_table(dataset, root, paths, headers).with_columns(
        pl.Series("video_id", session), pl.Series("site_id", site, pl.String), pl.Series("camera_id", camera, pl.String)
    )
    since = pl.col("recorded_at") - pl.col("recorded_at").min().over("video_id")
    table = table.with_columns((since.dt.total_microseconds() / 1e6).alias("start_s"))
    frames = table.select(
        pl.col("media_id").alias("frame_id"),
        *("media_id", "video_id", "site_id", "camera_id"),
        pl.lit(0).alias("frame_index"),
        pl.col("start_s").alias("time_s"),
        *("width_px", "height_px"),
        pl.lit(media.split).alias("split"),
        pl.lit("unlabelled").alias("label_state"),
    )
    return schemas.TABLES["media"].conform(table), schemas.TABLES["frames"].conform(frames), notices


def _media_table(dataset: str, root: Path, paths: list[str], headers: list[Header | DataError]) -> pl.DataFrame:
    read = [h if isinstance(h, Header) else None for h in headers]
    return pl.DataFrame(
        {
            "dataset": [dataset] * len(paths),
            "media_id": paths,
            "kind": ["image"] * len(paths),
            "path": [str((root / path).absolute()) for path in paths],
            "bytes": [_size(root / path) for path in paths],
            "width_px": [h.width_px if h else None for h in read],
            "height_px": [h.height_px if h else None for h in read],
            "recorded_at": [h.taken if h else None for h in read],
        },
        schema_overrides={"recorded_at": pl.Datetime("us", "UTC"), "bytes": pl.Int64},
    )


def _size(path: Path) -> int | None:
    """Bytes of a file; None for a link that leads nowhere, whose missing header is a notice."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _header_or_error(path: Path) -> Header | DataError:
    try:
        return read_header(path)
    except DataError as error:
        return error


def _header_notices(paths: list[str], headers: list[Header | DataError]) -> list[Notice]:
    notices = []
    for path, header in zip(paths, headers, strict=True):
        if isinstance(header, DataError):
            notices.append(
                Notice("unreadable_image", f"a picture that cannot be read: {header.problems[0].found}", 1, path)
            )
    local = sum(isinstance(h, Header) and h.taken is not None and not h.has_zone for h in headers)
    if local:
        notices.append(
            Notice("time_without_zone", "pictures whose EXIF time has no time zone; it is taken as UTC", local)
        )
    return notices


def _sessions(media: Media, paths: list[str], dataset: str) -> tuple[list[str], list[Notice]]:
    if media.session is not None:
        if media.session == "folder":
            return [PurePosixPath(p).parent.name or dataset for p in paths], []
        names, notices = names_from("session", media.session, paths, required=True)
        return [str(name) for name in names], notices
    folders = [PurePosixPath(p).parent for p in paths]
    if len(set(folders)) == 1:
        text = "pictures in one folder are taken as one recording session; give data.media.session if there are more"
        return [dataset] * len(paths), [Notice("session_assumed", text, len(paths))]
    # Two folders of the same name in different places (siteA/day1, siteB/day1) are two sessions.
    twice = {name for name, n in Counter(f.name for f in set(folders)).items() if n > 1}
    sessions = [f.as_posix() if f.name in twice else (f.name or dataset) for f in folders]
    text = "pictures: each folder is taken as one recording session; give data.media.session if it is not"
    return sessions, [Notice("session_assumed", text, len(paths))]
