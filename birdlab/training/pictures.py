"""The pictures of an export: linked or copied where every trainer reads them alike, else written upright and once.

A photograph is taken as it is when it is a JPEG or PNG, 8 bits in colour or gray, and stored upright. Any other one (turned
by its EXIF orientation, 16 bits, CMYK, transparent, TIFF …) and every frame of a video is written as birdlab reads it.

The name of a picture is its frame's, made safe, and a hash of the frame, its content and how it is written: pictures of two
sessions never collide, and a picture that is there need not be made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.jsonfile import read_json
from birdlab.readers.files import at_most
from birdlab.shards import digest, write_atomic
from birdlab.training.splits import Splits, frame_hashes

#: What an export writes down about itself.
MANIFEST = "export.json"
FILE_SCHEMA = {"frame_id": pl.String, "split": pl.String, "file": pl.String, "how": pl.String}
LEFT_OUT_SCHEMA = {"frame_id": pl.String, "split": pl.String, "reason": pl.String}


@dataclass(frozen=True)
class Pictures:
    """How pictures get into an export.

    ``how``: link (a symbolic link; a copy where the file system has none) or copy. ``suffix`` and ``quality``: of pictures
    that must be written, ``.jpg`` at that JPEG quality (1 to 100) or ``.png`` (lossless, about ten times as large).
    """

    how: Literal["link", "copy"] = "link"
    suffix: Literal[".jpg", ".png"] = ".jpg"
    quality: int = 95


@dataclass(frozen=True)
class Placed:
    """``files``: ``frame_id``, ``split``, ``file`` (relative to the folder), ``how`` (linked, copied, written);
    ``left_out``: ``frame_id``, ``split``, ``reason`` of frames whose picture could not be placed."""

    files: pl.DataFrame
    left_out: pl.DataFrame


def safe_name(frame_id: str, key: str) -> str:
    """A file's stem for a frame: letters, digits, dot, dash and underscore of its name, and ten characters of a hash.

    >>> safe_name("nest 1/IMG:7.jpg", "x").rpartition("-")[0]
    'nest_1_IMG_7'
    """
    stem, dot, suffix = frame_id.rpartition(".")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", stem if dot and "/" not in suffix and "#" not in suffix else frame_id)
    return f"{plain.strip('._-')[-80:].lstrip('._-') or 'frame'}-{digest([frame_id, key])[:10]}"


def plan_pictures(frames: pl.DataFrame, media: pl.DataFrame, splits: Splits, pictures: Pictures) -> pl.DataFrame:
    """Where the picture of every frame of the splits goes, and how; no pixel is decoded.

    Returns:
        The frames in a part, with ``split``, ``file`` (``images/<part>/<name>``), ``how`` (``link``, ``copy``, ``write``),
        ``source`` (the photograph's path) and ``reason`` (null, or why the frame must be left out).
    """
    inside = splits.apply(frames).with_columns(pl.col("split").cast(pl.String))
    known = splits.table.select("frame_id", pl.col("sha256").alias("_known"))
    inside = inside.join(known, on="frame_id", how="left", maintain_order="left")
    if inside["_known"].null_count():
        now = frame_hashes(inside.filter(pl.col("_known").is_null()), media)
        inside = inside.join(now, on="frame_id", how="left", maintain_order="left")
        inside = inside.with_columns(pl.coalesce("_known", "sha256").alias("_known")).drop("sha256")
    of_media = {m: (kind, path) for m, kind, path in media.select("media_id", "kind", "path").rows()}
    rows = []
    for row in inside.select("frame_id", "media_id", "split", "_known", "width_px").iter_rows(named=True):
        kind, path = of_media.get(row["media_id"], (None, ""))
        how, suffix, reason = _treatment(kind, path, pictures, row["width_px"])
        key = f"{row['_known']}" if how != "write" else f"{row['_known']} {suffix} {pictures.quality}"
        file = f"images/{row['split']}/{safe_name(row['frame_id'], key)}{suffix}"
        rows.append({"file": file, "how": how, "source": path, "reason": reason})
    schema = dict.fromkeys(("file", "how", "source", "reason"), pl.String)
    return pl.concat([inside.drop("_known"), pl.DataFrame(rows, schema=schema)], how="horizontal")


def _treatment(kind: str | None, path: str, pictures: Pictures, width: int | None) -> tuple[str, str, str | None]:
    from birdlab.readers.images import read_header
    from birdlab.readers.pixels import read_image

    if kind is None:
        return "write", pictures.suffix, "its file is not among the media"
    if kind == "video":
        return "write", pictures.suffix, "it cannot be read" if width is None else None
    try:
        header = read_header(Path(path))
        if width is None:
            read_image(path)
    except DataError as error:
        return "write", pictures.suffix, error.problems[0].found
    if width is None:
        return "write", pictures.suffix, "it could not be read when the study was"
    plain = header.mode in ("RGB", "L") and header.orientation == 1
    if plain and header.format == "JPEG":
        return pictures.how, ".jpg", None
    if plain and header.format == "PNG" and _bits(path) == 8:
        return pictures.how, ".png", None
    return "write", pictures.suffix, None


def _bits(png: str) -> int:
    """Bits per channel of a PNG (byte 24, in its IHDR): Pillow calls a picture of 16 bits RGB too."""
    with Path(png).open("rb") as file:
        return file.read(25)[24]


def place_pictures(out: Path, plan: pl.DataFrame, media: pl.DataFrame, pictures: Pictures) -> Placed:
    """Make the pictures of a plan that are not there yet.

    Args:
        out: folder of the export.
        plan: as :func:`plan_pictures` gives it.
        media: table ``media``.
        pictures: as for the plan.
    """
    rows = plan.filter(pl.col("reason").is_null())
    why = dict(plan.filter(pl.col("reason").is_not_null()).select("frame_id", "reason").rows())
    how: dict[str, str] = {}
    for row in rows.filter(pl.col("how") != "write").select("frame_id", "file", "how", "source").iter_rows(named=True):
        try:
            how[row["frame_id"]] = _take(out / row["file"], Path(row["source"]).absolute(), row["how"])
        except DataError as error:
            why[row["frame_id"]] = error.problems[0].found
    wanted = rows.filter(pl.col("how") == "write")
    there = [(out / file).is_file() for file in wanted["file"]]
    how |= dict.fromkeys(wanted.filter(pl.Series(there, dtype=pl.Boolean))["frame_id"], "written")
    for frame_id, reason in _write(out, wanted.filter(~pl.Series(there, dtype=pl.Boolean)), media, pictures):
        if reason is None:
            how[frame_id] = "written"
        else:
            why[frame_id] = reason
    done = plan.filter(pl.col("frame_id").is_in(list(how)))
    files = done.select(
        "frame_id", "split", "file", pl.col("frame_id").replace_strict(how, return_dtype=pl.String).alias("how")
    )
    lost = plan.filter(pl.col("frame_id").is_in(list(why)))
    said = pl.col("frame_id").replace_strict(why, return_dtype=pl.String).alias("reason")
    return Placed(files.sort("frame_id").cast(FILE_SCHEMA), lost.select("frame_id", "split", said).sort("frame_id"))


def _take(target: Path, source: Path, how: str) -> str:
    """Link or copy one photograph; ``linked`` or ``copied``."""
    from birdlab.readers.images import unreadable
    from birdlab.readers.pixels import jpeg_is_whole

    if how == "link" and target.is_symlink() and target.readlink() == source and source.is_file():
        return "linked"
    is_copy = target.is_file() and not target.is_symlink()
    try:
        if is_copy and how == "copy" and target.stat().st_size == source.stat().st_size:
            return "copied"
        raw = source.read_bytes()
    except OSError as error:
        raise DataError(unreadable(source, error)) from error
    if target.suffix == ".jpg" and not jpeg_is_whole(raw):
        raise DataError(unreadable(source, "a truncated file: the picture ends early"))
    if how == "link":
        try:
            write_atomic(target, lambda temporary: temporary.symlink_to(source))
            return "linked"
        except OSError:  # a file system, or a Windows account, without symbolic links
            pass
    write_atomic(target, lambda temporary: temporary.write_bytes(raw))
    return "copied"


def _write(
    out: Path, wanted: pl.DataFrame, media: pl.DataFrame, pictures: Pictures
) -> Iterable[tuple[str, str | None]]:
    """Write pictures as birdlab reads them; (frame_id, null or why not)."""
    import cv2

    from birdlab.readers.pixels import iter_frames

    quality = [cv2.IMWRITE_JPEG_QUALITY, pictures.quality] if pictures.suffix == ".jpg" else []
    wanted = wanted.sort("media_id", "frame_index")
    sizes = wanted.select("height_px", "width_px").rows()
    for (frame_id, image), file, size in zip(iter_frames(wanted, media), wanted["file"], sizes, strict=True):
        if isinstance(image, DataError):
            yield frame_id, image.problems[0].found if image.problems else str(image)
        elif image.shape[:2] != size:
            yield frame_id, f"{image.shape[1]} × {image.shape[0]} px instead of {size[1]} × {size[0]}"
        else:
            _, coded = cv2.imencode(pictures.suffix, image, quality)
            data = coded.tobytes()
            write_atomic(out / file, lambda temporary, data=data: temporary.write_bytes(data))
            yield frame_id, None


def begin_export(out: Path, files: Iterable[str], about: dict[str, Any]) -> None:
    """Make room for an export: files of an earlier one that are not wanted are removed, others are never touched.

    What is going to be written is written down first, so that an export that was killed is taken up and not mistaken for
    somebody's files.

    Args:
        out: the folder; made if absent.
        files: every file of the export, relative to it.
        about: what to write down of it.

    Raises:
        DataError: the folder holds pictures or labels that no export wrote (named), or its list of them is broken.
    """
    wanted = set(files)
    path = out / MANIFEST
    earlier = set(_listed(path)) if path.exists() else set()
    strange = sorted(f for f in _present(out) if f not in wanted | earlier)
    if strange:
        remedy = "export into an empty folder, or remove them"
        problems = [Problem("strange_file", f, "only files of this export", remedy, file=str(out)) for f in strange]
        raise DataError(at_most(problems))
    _write_manifest(path, wanted | earlier, about)
    for file in earlier - wanted:
        (out / file).unlink(missing_ok=True)
    _write_manifest(path, wanted, about)


def _listed(path: Path) -> list[str]:
    content = read_json(path)
    files = content.get("files") if isinstance(content, dict) else None
    inside = isinstance(files, list) and all(
        isinstance(f, str)
        and f.startswith(("images/", "labels/", "annotations/", "data.yaml"))
        and ".." not in f.split("/")
        for f in files
    )
    if not inside:
        remedy = "export into an empty folder"
        raise DataError(
            Problem("not_export", "no list of files below it", "a list birdlab wrote", remedy, file=str(path))
        )
    return files


def _present(out: Path) -> Iterable[str]:
    for folder in ("images", "labels", "annotations"):
        for path in (out / folder).rglob("*"):
            # Trainers keep caches beside the labels; a temporary file is a killed export's.
            mine = path.suffix == ".cache" or (path.name.startswith(".") and path.suffix == ".tmp")
            if not mine and (path.is_symlink() or not path.is_dir()):
                yield path.relative_to(out).as_posix()


def _write_manifest(path: Path, files: set[str], about: dict[str, Any]) -> None:
    text = json.dumps({**about, "files": sorted(files)}, ensure_ascii=False, indent=1) + "\n"
    write_if_changed(path, text)


def write_if_changed(path: Path, text: str) -> bool:
    """Write a text file unless it holds that text already; whether it was written."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (OSError, UnicodeDecodeError):
        pass
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return True
