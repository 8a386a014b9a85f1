"""What ``birdlab init`` sees in a folder: pictures, videos, labels, results, detectors, and what it cannot use."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import yaml

from birdlab.errors import DataError, Problem
from birdlab.init.weights import Weights, find_weights
from birdlab.jsonfile import read_json
from birdlab.kinds import (
    CLASS_FILES,
    IMAGE_SUFFIXES,
    VIDEO_SUFFIXES,
    Listing,
    is_yolo_text,
    json_kind,
    suffix_of,
)
from birdlab.readers.files import natural_key
from birdlab.readers.names import FrameNames, index_names

#: Class of an annotation whose category the file does not list.
UNKNOWN = "?"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LabelSource:
    """One label file, or all label files of one kind in one folder."""

    path: str  #: posix path relative to the folder looked at; "." for the folder itself
    format: str  #: coco, yolo or labelme
    files: tuple[str, ...]
    pictures: frozenset[str]  #: photographs that have an entry
    names: dict[str, int]  #: class name -> boxes or outlines
    n_empty: int = 0  #: entries without a bird
    unknown: tuple[str, ...] = ()  #: entries whose picture is not in the folder
    has_session: bool = False  #: every entry says its recording session …
    has_site: bool = False  #: … and its site
    licences: tuple[str, ...] = ()
    classes: str | None = None  #: YOLO: file with the class names, relative to the folder looked at

    @property
    def n_boxes(self) -> int:
        """Boxes and outlines in all."""
        return sum(self.names.values())


@dataclass(frozen=True)
class Results:
    """Detections made elsewhere."""

    path: str
    format: str  #: coco, megadetector or yolo
    n: int
    n_pictures: int
    name: str  #: what the model is called in the file, or the file's own name
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  #: class names that the file states
    numbered: dict[str, str] = field(default_factory=dict)  #: YOLO: class number -> class name, "" where not listed


@dataclass(frozen=True)
class Survey:
    """Everything that was seen."""

    listing: Listing
    photos: tuple[str, ...]
    videos: tuple[str, ...]
    labels: tuple[LabelSource, ...] = ()
    results: tuple[Results, ...] = ()
    weights: tuple[Weights, ...] = ()
    problems: tuple[Problem, ...] = ()  #: files that could not be read
    others: dict[str, int] = field(default_factory=dict)  #: ending -> files that birdlab has no use for

    @property
    def labelled(self) -> frozenset[str]:
        """Photographs that some label file has an entry for."""
        return frozenset().union(*(source.pictures for source in self.labels))

    @property
    def unlisted(self) -> list[str]:
        """Photographs without an entry in any label file."""
        labelled = self.labelled
        return [photo for photo in self.photos if photo not in labelled]

    @property
    def overlapping(self) -> list[LabelSource]:
        """Label sources that have entries for the same photographs as another one."""
        return [a for a in self.labels if any(a is not b and a.pictures & b.pictures for b in self.labels)]


def look(listing: Listing, progress: Progress | None = None) -> Survey:
    """Look at every file of a folder; small files are read, of pictures and videos only the names.

    Args:
        listing: the folder's files, from :func:`birdlab.kinds.list_folder`.
        progress: called with (JSON and text files read, files to read).
    """
    photos, videos = listing.with_suffix(IMAGE_SUFFIXES), listing.with_suffix(VIDEO_SUFFIXES)
    columns = {"frame_id": photos, "media_id": photos}
    names = index_names(pl.DataFrame(columns, schema={"frame_id": pl.String, "media_id": pl.String}), listing.root)
    json_files, text_files = listing.with_suffix({".json"}), _label_texts(listing)
    done = _Counter(progress, len(json_files) + len(text_files))
    used: set[str] = {*photos, *videos}
    problems: list[Problem] = []
    labels: list[LabelSource] = []
    results: list[Results] = []
    labelme: dict[str, dict[str, Any]] = {}
    for path in json_files:
        done.step()
        try:
            content = read_json(listing.root / path)
        except DataError as error:
            problems += error.problems
            used.add(path)
            continue
        kind = json_kind(content)
        if kind == "coco":
            labels.append(_coco(path, content, names))
        elif kind == "labelme":
            labelme[path] = {key: content.get(key) for key in ("shapes", "imagePath")}
        elif kind == "results":
            pictures = {repr(r.get("image_id", r.get("file_name"))) for r in content if isinstance(r, dict)}
            results.append(Results(path, "coco", len(content), len(pictures), _model_name(path), (path,)))
        elif kind == "megadetector":
            results.append(_megadetector(path, content))
        elif kind == "other":
            continue
        used.add(path)
    labels += _labelme(labelme, names, photos)
    yolo_labels, yolo_results = _yolo(text_files, listing, photos, done)
    weights = find_weights(listing)
    for source in (*yolo_labels, *yolo_results, *weights):
        used.update(source.files)
    if yolo_labels or yolo_results:
        used.update(path for path in listing.files if PurePosixPath(path).name in CLASS_FILES)
    others = Counter(suffix_of(path) or "no ending" for path in listing.files if path not in used)
    return Survey(
        listing,
        tuple(photos),
        tuple(videos),
        (*labels, *yolo_labels),
        (*results, *yolo_results),
        tuple(weights),
        tuple(problems),
        dict(sorted(others.items())),
    )


class _Counter:
    """Counts files read and tells the progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        self.done += 1
        if self.progress:
            self.progress(self.done, self.total)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _coco(path: str, content: dict[str, Any], names: FrameNames) -> LabelSource:
    # Only counted here: readers.coco judges the file.
    images, annotations = _dicts(content.get("images")), _dicts(content.get("annotations"))
    categories = {str(c.get("id")): str(c.get("name")) for c in _dicts(content.get("categories"))}
    per_image = Counter(str(a.get("image_id")) for a in annotations)
    counts = Counter(categories.get(str(a.get("category_id")), UNKNOWN) for a in annotations)
    folder = (names.root / path).parent
    pictures, unknown = set(), []
    for image in images:
        name = image.get("file_name")
        frame = names.resolve(name, folder).frame_id if isinstance(name, str) else None
        if frame is None:
            unknown.append(str(name))
        else:
            pictures.add(frame)
    licences = {str(entry.get("name") or entry.get("url")) for entry in _dicts(content.get("licenses"))}
    licences |= {i["license"] for i in images if isinstance(i.get("license"), str)}
    return LabelSource(
        path,
        "coco",
        (path,),
        frozenset(pictures),
        {name: counts.get(name, 0) for name in [*categories.values(), *(n for n in counts if n == UNKNOWN)]},
        n_empty=sum(str(image.get("id")) not in per_image for image in images),
        unknown=tuple(unknown),
        has_session=bool(images) and all(i.get("session") is not None for i in images),
        has_site=bool(images) and all(i.get("site") is not None for i in images),
        licences=tuple(sorted(licences - {"None"})),
    )


def _labelme(files: dict[str, dict[str, Any]], names: FrameNames, photos: Iterable[str]) -> list[LabelSource]:
    if not files:
        return []
    by_stem = {_stem(photo): photo for photo in photos}
    counts: Counter[str] = Counter()
    pictures, unknown, n_empty = set(), [], 0
    for path, content in files.items():
        shapes = _dicts(content["shapes"])
        counts.update(str(shape.get("label")) for shape in shapes)
        n_empty += not shapes
        named = content["imagePath"]
        frame = names.resolve(named, (names.root / path).parent).frame_id if isinstance(named, str) and named else None
        frame = frame or by_stem.get(_stem(path))
        if frame is None:
            unknown.append(path)
        else:
            pictures.add(frame)
    return [
        LabelSource(
            common_folder(files), "labelme", tuple(files), frozenset(pictures), dict(counts), n_empty, tuple(unknown)
        )
    ]


def _megadetector(path: str, content: dict[str, Any]) -> Results:
    entries = _dicts(content.get("images") or content.get("predictions"))
    info = content.get("info")
    name = info.get("detector") if isinstance(info, dict) else None
    n = sum(len(_dicts(entry.get("detections"))) for entry in entries)
    own = _model_name(name.rpartition("/")[2]) if isinstance(name, str) and name else _model_name(path)
    stated = content.get("detection_categories")
    names = tuple(map(str, stated.values())) if isinstance(stated, dict) else ()
    return Results(path, "megadetector", n, len(entries), own, (path,), names)


def _label_texts(listing: Listing) -> list[str]:
    """Text files that may be YOLO labels: they bear the name of a picture or lie in a folder ``labels``."""
    stems = {_stem(photo).rpartition("/")[2] for photo in listing.with_suffix(IMAGE_SUFFIXES)}
    found = []
    for path in listing.with_suffix({".txt"}):
        name = PurePosixPath(path)
        if name.name not in CLASS_FILES and (name.stem in stems or "labels" in name.parts[:-1]):
            found.append(path)
    return found


def _yolo(
    texts: list[str], listing: Listing, photos: list[str], done: _Counter
) -> tuple[list[LabelSource], list[Results]]:
    """YOLO labels and YOLO results (six columns), each as one source."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for photo in photos:
        by_name[_stem(photo).rpartition("/")[2]].append(photo)
    labels: dict[str, str] = {}
    results: dict[str, str] = {}
    for path in texts:
        done.step()
        try:
            text = (listing.root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        columns = is_yolo_text(text)
        if columns is not None:
            (results if columns == 6 else labels)[path] = text
    if results and common_folder(results) == common_folder(labels or results):
        # Empty files beside results are results without a detection.
        results |= {p: t for p, t in labels.items() if not t.strip()}
        labels = {p: t for p, t in labels.items() if t.strip()}
    class_file = next((p for p in listing.files if PurePosixPath(p).name in CLASS_FILES), None)
    sources = []
    if labels:
        names = class_names(listing.root / class_file) if class_file else []
        numbers = Counter(line.split()[0] for text in labels.values() for line in text.splitlines() if line.strip())
        highest = max((int(number) for number in numbers if number.isdecimal()), default=0)
        if highest >= len(names):
            # No list of names, or one too short: "bird" for the only class, else the number.
            names += [f"class {n}" if highest else "bird" for n in range(len(names), min(highest, 999) + 1)]
        n_empty = sum(not text.strip() for text in labels.values())
        matched = {path: _picture_of(path, by_name) for path in labels}
        pictures = frozenset(photo for photo in matched.values() if photo)
        unknown = tuple(path for path, photo in matched.items() if not photo)
        every = {name: numbers.get(str(number), 0) for number, name in enumerate(names)}
        sources.append(
            LabelSource(
                common_folder(labels), "yolo", tuple(labels), pictures, every, n_empty, unknown, classes=class_file
            )
        )
    made = []
    if results:
        lines = [line for text in results.values() for line in text.splitlines() if line.strip()]
        numbers = {line.split()[0] for line in lines}
        listed = class_names(listing.root / class_file) if class_file else []
        named = {n: listed[int(n)] if n.isdecimal() and int(n) < len(listed) else "" for n in sorted(numbers)}
        folder = common_folder(results)
        # ultralytics writes <name of the run>/labels/*.txt
        name = _model_name(folder.removesuffix("/labels") if folder != "." else "yolo")
        made.append(Results(folder, "yolo", len(lines), len(results), name, tuple(results), tuple(named), named))
    return sources, made


def _picture_of(label: str, by_name: dict[str, list[str]]) -> str | None:
    candidates = by_name.get(_stem(label).rpartition("/")[2], [])
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    wanted = re.sub(r"(^|/)labels/", r"\1images/", _stem(label))
    return next((photo for photo in candidates if _stem(photo) in (wanted, _stem(label))), None)


def class_names(path: Path) -> list[str]:
    """Class names of a YOLO data set from ``data.yaml``, ``classes.txt`` or ``obj.names``; empty where none can be read."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix not in (".yaml", ".yml"):
            return [line.strip() for line in text.splitlines() if line.strip()]
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    names = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict):
        return [str(name) for _, name in sorted(names.items(), key=lambda item: natural_key(str(item[0])))]
    return [str(name) for name in names] if isinstance(names, list) else []


def _stem(path: str) -> str:
    return str(PurePosixPath(path).with_suffix(""))


def _model_name(path: str) -> str:
    stem = PurePosixPath(path).name
    stem = stem.removesuffix(".json")
    short = re.sub(r"^(?:predictions?|preds?|results?|detections?|dets?)[-_ .]+", "", stem, flags=re.IGNORECASE)
    return short or stem


def common_folder(paths: Iterable[str]) -> str:
    """The deepest folder that holds all of ``paths``; "." for the top.

    >>> common_folder(["a/b/1.txt", "a/c/2.txt"]), common_folder(["1.txt"])
    ('a', '.')
    """
    parts = [path.split("/")[:-1] for path in paths]
    shared = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return "/".join(shared) or "."


def folders_of(paths: Iterable[str]) -> list[str]:
    """Folders that hold ``paths``, in natural order."""
    return sorted({path.rpartition("/")[0] for path in paths}, key=natural_key)
