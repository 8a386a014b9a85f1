"""What a file is, told by looking at it: photographs and videos by their ending, labels and results by their content."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from birdlab.errors import DataError, Problem
from birdlab.readers.files import natural_key

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})
VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".avi", ".mkv", ".m4v", ".mts", ".m2ts", ".mpg", ".mpeg", ".wmv", ".webm"})
WEIGHT_SUFFIXES = frozenset({".pt", ".onnx"})
#: Files that list class names for YOLO labels.
CLASS_FILES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names")

JsonKind = Literal["coco", "results", "labelme", "megadetector", "manifest", "other"]
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", ".git"})


@dataclass(frozen=True)
class Listing:
    """Every file under a folder: posix paths relative to it in natural order, and what could not be looked at."""

    root: Path
    files: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()  #: sub-folder, reason
    loops: int = 0  #: links to a folder that was already seen
    holds_own: bool = False  #: folders that birdlab writes to are (or will be) inside; they were passed over
    hidden: int = 0  #: names that begin with a dot
    odd_names: tuple[str, ...] = ()  #: names that are not UTF-8, as far as they can be shown
    dead_links: tuple[str, ...] = ()  #: links to a file that is not there

    def with_suffix(self, suffixes: Collection[str]) -> list[str]:
        """The files with one of these endings, in any case."""
        return [name for name in self.files if suffix_of(name) in suffixes]


def suffix_of(name: str) -> str:
    """Ending in lower case with its dot, or "".

    >>> suffix_of("a/B.JPG"), suffix_of("a.b/c")
    ('.jpg', '')
    """
    return PurePosixPath(name).suffix.lower()


def list_folder(root: Path, *, leave_out: Collection[Path] = ()) -> Listing:
    """Walk a folder. Links are followed, each real folder once; hidden files and ``leave_out`` are passed over.

    Raises:
        DataError: ``root`` does not exist, is a file, or cannot be opened.
    """
    where = str(root)
    if not root.exists():
        raise DataError(
            Problem(
                "no_folder",
                "no such folder",
                "a folder with pictures, videos or labels",
                "check the spelling",
                file=where,
            )
        )
    if not root.is_dir():
        raise DataError(
            Problem("not_a_folder", "a file", "a folder", f"give the folder it lies in: {root.parent}", file=where)
        )
    barred = {folder.resolve() for folder in leave_out}
    seen = {_identity(root)}
    denied: list[tuple[str, str]] = []
    named: dict[str, list[str]] = {"file": [], "hidden": [], "odd": [], "dead": [], "other": []}
    loops = 0

    def note(error: OSError) -> None:
        denied.append((_relative(str(error.filename), root), error.strerror or "an error"))

    for folder, folders, names in os.walk(root, followlinks=True, onerror=note):
        below = [n for n in sorted(folders, key=natural_key) if not n.startswith(".") and n not in _SKIPPED_FOLDERS]
        folders.clear()
        for name in below:
            place = Path(folder, name)
            identity = _identity(place)
            if identity in seen:
                loops += 1
            elif place.resolve() not in barred:
                seen.add(identity)
                folders.append(name)
        for name in names:
            place = Path(folder, name)
            named[_sort_of(place)].append(_relative(str(place), root))
    if any(name == "." for name, _ in denied):
        raise DataError(Problem("unreadable", denied[0][1], "a folder that can be opened", file=where))
    return Listing(
        root,
        tuple(sorted(named["file"], key=natural_key)),
        tuple(denied),
        loops=loops,
        holds_own=any(folder.is_relative_to(root.resolve()) for folder in barred),
        hidden=len(named["hidden"]),
        odd_names=tuple(sorted(name.encode("utf-8", "replace").decode() for name in named["odd"])),
        dead_links=tuple(sorted(named["dead"])),
    )


def _sort_of(place: Path) -> str:
    if place.name.startswith("."):
        return "hidden"
    if not _is_utf8(str(place)):
        return "odd"
    return "file" if place.is_file() else "dead" if place.is_symlink() else "other"


def unusable(listing: Listing) -> list[Problem]:
    """Pictures and videos that no table can name (not UTF-8) or that are links to nothing."""
    media = IMAGE_SUFFIXES | VIDEO_SUFFIXES
    problems = [
        Problem("not_utf8", "a name that is not UTF-8", "a name in UTF-8", "rename it", file=name)
        for name in listing.odd_names
        if suffix_of(name) in media
    ]
    return problems + [
        Problem(
            "dead_link",
            "a link to a file that is not there",
            "a file",
            "bring the file back, or remove the link",
            file=name,
        )
        for name in listing.dead_links
        if suffix_of(name) in media
    ]


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _relative(name: str, root: Path) -> str:
    return Path(os.path.relpath(name, root)).as_posix()


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_kind(value: Any) -> JsonKind:
    """What a JSON file holds.

    >>> json_kind({"images": [], "annotations": []}), json_kind([{"image_id": 1, "score": 0.5}])
    ('coco', 'results')
    >>> json_kind({"shapes": [], "imagePath": "a.jpg"}), json_kind({"images": [], "detection_categories": {}})
    ('labelme', 'megadetector')
    """
    if isinstance(value, list):
        first = value[0] if value else None
        return (
            "results"
            if isinstance(first, dict) and "score" in first and ("image_id" in first or "bbox" in first)
            else "other"
        )
    if not isinstance(value, dict):
        return "other"
    if isinstance(value.get("shapes"), list):
        return "labelme"
    if "detection_categories" in value or _is_speciesnet(value.get("predictions")):
        return "megadetector"
    if isinstance(value.get("images"), list) and ("annotations" in value or "categories" in value):
        return "coco"
    return "manifest" if isinstance(value.get("resources"), list) else "other"


def _is_speciesnet(predictions: Any) -> bool:
    first = predictions[0] if isinstance(predictions, list) and predictions else None
    return isinstance(first, dict) and "filepath" in first


def is_yolo_text(text: str) -> int | None:
    """Columns of a YOLO label file (5; 6 with confidence; 0 when empty; 7 and more for outlines), or ``None`` if it is none.

    >>> is_yolo_text("0 0.5 0.5 0.1 0.1"), is_yolo_text(""), is_yolo_text("read me first")
    (5, 0, None)
    """
    columns = 0
    for line in text.splitlines():
        parts = line.split()
        if not parts:
            continue
        # One slip in a file does not make it something else: its own reader names the line.
        if len(parts) < 5 or not all(
            re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", part) for part in parts[:5]
        ):
            return None if columns == 0 else columns
        columns = max(columns, len(parts))
    return columns


def openvino_folders(listing: Listing) -> list[str]:
    """Folders that hold an OpenVINO model (an ``.xml`` beside the ``.bin`` of the same name)."""
    stems = {name[:-4] for name in listing.files if suffix_of(name) == ".bin"}
    folders = {name.rpartition("/")[0] for name in listing.files if suffix_of(name) == ".xml" and name[:-4] in stems}
    return sorted(folders, key=natural_key)
