"""YOLO text files: one per picture, one line per bird, coordinates as fractions of the picture.

A line is ``class cx cy w h``, or ``class x1 y1 x2 y2 x3 y3 …`` for an outline (mask and box), each perhaps followed by
a confidence. A picture whose text file is empty was looked at; one without a text file was not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import yaml

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most, natural_key
from birdlab.readers.labels import LabelSet, label_table
from birdlab.readers.names import FrameNames

#: How far a coordinate may lie outside [0, 1]: exporters round.
TOLERANCE = 1e-4
#: Text files of an export that hold no labels.
_NOT_LABELS = ("classes.txt", "obj.names", "train.txt", "val.txt", "test.txt", "readme.txt", "notes.txt", "license.txt")


@dataclass(frozen=True)
class Line:
    """One line: class number, box ``cx, cy, w, h`` and outline (x, y, x, y …) as fractions, confidence, track."""

    class_id: int
    box: tuple[float, float, float, float]
    outline: tuple[float, ...] = ()
    confidence: float | None = None
    track: str | None = None


def parse_line(text: str, *, tracked: bool = False) -> Line:
    """One line of a YOLO text file.

    Args:
        text: the line.
        tracked: read seven columns as box, confidence and track number (a tracker's output) instead of a triangle.

    Raises:
        ValueError: the sentence says what is wrong.

    >>> parse_line("0 0.5 0.5 0.2 0.1").box
    (0.5, 0.5, 0.2, 0.1)
    >>> parse_line("1 0.1 0.2 0.3 0.2 0.2 0.4").box
    (0.2, 0.3, 0.2, 0.2)
    """
    fields = text.split()
    try:
        values = [float(field) for field in fields]
    except ValueError:
        wrong = next(field for field in fields if not _is_number(field))
        raise ValueError(f"{wrong!r} where a number belongs") from None
    n = len(values)
    if n < 5:
        raise ValueError(f"{n} columns")
    if not all(math.isfinite(v) for v in values):
        raise ValueError(f"{next(f for f, v in zip(fields, values, strict=True) if not math.isfinite(v))}")
    if values[0] < 0 or values[0] != int(values[0]):
        raise ValueError(f"class {fields[0]}")
    track = None
    if tracked and n == 7 and values[6] == int(values[6]):
        track, n = str(int(values[6])), 6
    coordinates = values[1 : n if n % 2 else n - 1]
    confidence = None if n % 2 else values[n - 1]
    outside = [v for v in coordinates if not -TOLERANCE <= v <= 1 + TOLERANCE]
    if outside:
        raise ValueError(f"{outside[0]:g}, outside 0 to 1" + (" (pixels?)" if max(outside) > 2 else ""))
    if confidence is not None and not 0 <= confidence <= 1:
        raise ValueError(f"confidence {confidence:g}")
    if len(coordinates) == 4:
        return Line(int(values[0]), tuple(coordinates), (), confidence, track)  # type: ignore[arg-type]
    xs, ys = coordinates[::2], coordinates[1::2]
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    box = tuple(round(v, 15) for v in ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top))
    return Line(int(values[0]), box, tuple(coordinates), confidence, track)  # type: ignore[arg-type]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_lines(path: Path, *, tracked: bool = False) -> tuple[list[tuple[int, Line]], list[Problem]]:
    """(line number from 1, line) of every line that is not blank, and the problems of the others."""
    expected = "class cx cy w h (fractions of the picture, perhaps a confidence), or class x1 y1 x2 y2 x3 y3 …"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return [], [Problem("unreadable", str(error)[:100], "a text file", file=str(path))]
    lines, problems = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            lines.append((number, parse_line(line, tracked=tracked)))
        except ValueError as error:
            problems.append(Problem("bad_line", str(error), expected, file=str(path), line=number))
    return lines, problems


def find_texts(folder: Path, frames: pl.DataFrame, names: FrameNames) -> tuple[dict[str, Path], list[Path]]:
    """The text file of every frame that has one, and text files that belong to no frame.

    Places looked at, in turn: the picture's path with its last folder ``images`` read as ``labels``, beside the
    picture, the same path below ``folder`` (whole, or from ``images`` on), and a file of the same name that only one
    picture has. For a frame of a video the name is ``<video>_<n>``, n counting from 1 as ultralytics writes it.
    """
    texts = {p.resolve() for p in _walk_texts(folder)}
    by_name: dict[str, list[Path]] = {}
    for path in texts:
        by_name.setdefault(path.stem, []).append(path)
    wanted = [(row[0], _text_name(*row)) for row in frames.select("frame_id", "media_id", "frame_index").iter_rows()]
    stems = pl.Series([PurePosixPath(name).stem for _, name in wanted], dtype=pl.String)
    once = set(stems.filter(stems.is_unique()).to_list())
    found: dict[str, Path] = {}
    for frame_id, name in wanted:
        places = [names.root / p for p in _beside(name)] + [folder / p for p in _below(name)]
        path = next((p.resolve() for p in places if p.resolve() in texts), None)
        same = by_name.get(PurePosixPath(name).stem, [])
        if path is None and PurePosixPath(name).stem in once and len(same) == 1:
            path = same[0]
        if path is not None:
            found[frame_id] = path
    return found, sorted(texts - set(found.values()), key=lambda p: natural_key(p.as_posix()))


def _walk_texts(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.txt"):
        if path.name.lower() not in _NOT_LABELS and not path.name.startswith("."):
            yield path


def _text_name(frame_id: str, media_id: str, index: int) -> str:
    pure = PurePosixPath(media_id)
    if frame_id == media_id:
        return pure.with_suffix(".txt").as_posix()
    return pure.with_name(f"{pure.stem}_{index + 1}.txt").as_posix()


def _beside(name: str) -> Iterator[str]:
    parts = name.split("/")
    if "images" in parts:
        at = len(parts) - 1 - parts[::-1].index("images")
        yield "/".join([*parts[:at], "labels", *parts[at + 1 :]])
    yield name


def _below(name: str) -> Iterator[str]:
    yield name
    parts = name.split("/")
    if "images" in parts:
        yield "/".join(parts[len(parts) - parts[::-1].index("images") :])


def class_names(classes: Sequence[str] | Path | None, folder: Path) -> list[str]:
    """Class names in order: as given, from a file, or from ``data.yaml`` / ``classes.txt`` in or above ``folder``.

    Raises:
        DataError: there are none, or the file does not list them.
    """
    if classes is not None and not isinstance(classes, Path):
        return list(classes)
    if classes is not None:
        return _names_in(classes)
    for place in (folder, *list(folder.resolve().parents)[:2]):
        for name in ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names"):
            if (place / name).is_file():
                return _names_in(place / name)
    remedy = "add to this labels entry of the recipe: classes: [bird]"
    raise DataError(
        Problem(
            "no_class_names", "no data.yaml and no classes.txt", "class names", remedy, file=str(folder), key="classes"
        )
    )


def _names_in(path: Path) -> list[str]:
    expected = "names: [bird] or names: {0: bird}" if path.suffix in (".yaml", ".yml") else "one class name per line"
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix not in (".yaml", ".yml"):
            return [line.strip() for line in text.splitlines() if line.strip()]
        names = (yaml.safe_load(text) or {}).get("names")
        if isinstance(names, dict) and names:
            return [str(names.get(i, f"class {i}")) for i in range(max(map(int, names)) + 1)]
        if isinstance(names, list) and names:
            return [str(name) for name in names]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, ValueError, TypeError) as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else str(error).splitlines()[0][:100]
        raise DataError(Problem("no_class_names", found, expected, file=str(path), key="names")) from error
    raise DataError(Problem("no_class_names", "no names", expected, file=str(path), key="names"))


def read_yolo(path: Path, frames: pl.DataFrame, names: FrameNames, *, classes: Sequence[str] | Path | None) -> LabelSet:
    """YOLO labels of the study's frames.

    Args:
        path: folder with the text files, at any depth.
        frames: the ``frames`` table.
        names: its index.
        classes: class names in order or a file that lists them; ``None`` looks for ``data.yaml`` or ``classes.txt``.

    Raises:
        DataError: every line that cannot be read, with its number; no text file belongs to a frame; no class names.
    """
    if not path.is_dir():
        raise DataError(
            Problem("not_a_folder", "a file", "the folder with YOLO text files", file=str(path), key="data.labels")
        )
    of_frame, orphans = find_texts(path, frames, names)
    if not of_frame:
        raise DataError(_no_texts(path, orphans))
    known = class_names(classes, path)
    sizes = {r[0]: r[1:] for r in frames.select("frame_id", "width_px", "height_px").iter_rows()}
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    unplaced, scored, looked_at = [], 0, set()
    for frame_id, text in of_frame.items():
        lines, wrong = read_lines(text)
        problems += wrong
        if None in sizes[frame_id]:
            unplaced.append(frame_id)
            continue
        looked_at.add(frame_id)
        for number, line in lines:
            if line.class_id >= len(known):
                problems.append(_no_such_class(text, number, line.class_id, known))
                continue
            scored += line.confidence is not None
            rows.append(
                {"label_id": f"{frame_id}:{number}", "frame_id": frame_id, "category": known[line.class_id]}
                | in_pixels(line, *sizes[frame_id])
            )
    if problems:
        raise DataError(at_most(problems))
    notices = _notices(orphans, unplaced, scored)
    return LabelSet(label_table(rows), frozenset(looked_at), tuple(notices), tuple(known))


def in_pixels(line: Line, width: int, height: int) -> dict[str, Any]:
    """Box, area and mask of a line in a picture of that size, as columns of the ``labels`` table."""
    from birdlab.readers.coco_masks import rle_text

    cx, cy, w, h = (v * size for v, size in zip(line.box, (width, height) * 2, strict=True))
    columns: dict[str, Any] = {
        "x": cx - w / 2,
        "y": cy - h / 2,
        "w": w,
        "h": h,
        "area_px": w * h,
        "is_crowd": False,
        "is_ignored": False,
    }
    if line.outline:
        flat = [v * size for v, size in zip(line.outline, [width, height] * (len(line.outline) // 2), strict=True)]
        columns["mask_rle"] = rle_text([flat], (height, width))
        columns["area_px"] = mask_area(columns["mask_rle"])
    return columns


def mask_area(rle: str) -> float:
    """Pixels of a mask given as ``mask_rle`` text."""
    import json

    from pycocotools import mask

    return float(mask.area(json.loads(rle)))


def _no_such_class(path: Path, number: int, class_id: int, known: list[str]) -> Problem:
    expected = f"0 to {len(known) - 1}: {', '.join(known[:5])}" + (", …" if len(known) > 5 else "")
    return Problem(
        "unknown_class", f"class {class_id}", expected, "correct `classes`", file=str(path), line=number, key="class"
    )


def _no_texts(path: Path, orphans: list[Path]) -> Problem:
    some = f"{len(orphans)} text files of other names, e.g. {orphans[0].name}" if orphans else "no text file"
    expected = "text files named like the pictures (images/a.jpg and labels/a.txt)"
    return Problem(
        "no_labels", some, expected, "check path and data.media in the recipe", file=str(path), key="data.labels"
    )


def _notices(orphans: list[Path], unplaced: list[str], scored: int) -> list[Notice]:
    notices = []
    if orphans:
        text = f"label files belong to no picture of the study (the first is {orphans[0].name})"
        notices.append(Notice("label_without_image", text, len(orphans)))
    if unplaced:
        text = f"label files of pictures that cannot be read were left out (the first is {unplaced[0]})"
        notices.append(Notice("labels_unplaced", text, len(unplaced)))
    if scored:
        notices.append(
            Notice("confidence_unused", "labels carry a confidence, as predictions do; it was not used", scored)
        )
    return notices
