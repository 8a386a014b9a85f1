"""Label files of every format, brought to one shape: labels, frames that were looked at, class names of the study.

Readers of single formats return a :class:`LabelSet` with class names as the file spells them; :func:`read_labels`
chooses the reader and maps the spellings to the study's categories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, shown_path
from birdlab.readers.names import FrameNames, unresolved
from birdlab.recipe import Labels, resolve

#: Facts about photographs that a COCO file may carry beside the labels, with their types.
FACTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "session": pl.String,
    "site": pl.String,
    "camera": pl.String,
    "frame": pl.Float64,
    "fps": pl.Float64,
    "time_s": pl.Float64,
}


@dataclass(frozen=True)
class LabelSet:
    """What one label file or folder says.

    ``labels`` has the shape of the ``labels`` table; ``looked_at`` are the frames that somebody looked at, with birds or
    without; ``classes`` are the names that the file declares, ``None`` where every label is typed by hand; ``facts`` has
    ``frame_id`` and the columns of :data:`FACTS`.
    """

    labels: pl.DataFrame
    looked_at: frozenset[str]
    notices: tuple[Notice, ...] = ()
    classes: tuple[str, ...] | None = None
    facts: pl.DataFrame | None = None
    spec: Labels | None = field(default=None, repr=False)

    def states(self) -> dict[str, str]:
        """Frame to ``labelled`` (a bird to be found is there) or ``empty`` (looked at, none there)."""
        birds = set(self.labels.filter(~pl.col("is_ignored"))["frame_id"].unique().to_list())
        return {frame_id: "labelled" if frame_id in birds else "empty" for frame_id in self.looked_at}


def label_table(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Rows with keys of the ``labels`` table (missing nullable ones are null) as that table."""
    table = schemas.TABLES["labels"]
    return pl.DataFrame(list(rows), schema_overrides=table.dtypes, schema=list(table.dtypes), orient="row")


def locate(path: str, base: Path, root: Path) -> Path:
    """A label, prediction or manifest path of a recipe: relative to the recipe, else to the data root if it is there."""
    first = resolve(path, base)
    second = resolve(path, root)
    return second if second.exists() and not first.exists() else first


def read_labels(
    spec: Labels, frames: pl.DataFrame, names: FrameNames, *, base: Path, categories: list[str]
) -> LabelSet:
    """Labels of one entry of the recipe's ``data.labels``, with class names of the study.

    Args:
        spec: the entry.
        frames: the ``frames`` table.
        names: its index, :func:`birdlab.readers.names.index_names`.
        base: folder of the recipe.
        categories: classes that the study scores.

    Raises:
        DataError: the file is missing or wrong, names pictures that are not there, or classes that nobody mapped.
    """
    path = locate(spec.path, base, names.root)
    if not path.exists():
        raise DataError(
            Problem("no_labels", "no such file or folder", f"{spec.format} labels", file=str(path), key="data.labels")
        )
    read = _read(spec, path, frames, names, base, {normal(name) for name in (*categories, *spec.ignore, *spec.rename)})
    labels, notices = map_categories(read, spec, categories, file=str(path))
    source = shown_path(path, names.root, base)
    labels = labels.with_columns(pl.coalesce("source", pl.lit(source)).alias("source"))
    notices = [replace(n, file=n.file or source) for n in (*read.notices, *notices)]
    return replace(read, labels=labels, notices=tuple(notices), spec=spec)


def _read(spec: Labels, path: Path, frames: pl.DataFrame, names: FrameNames, base: Path, known: set[str]) -> LabelSet:
    if spec.format == "coco":
        return read_coco(path, frames, names)
    if spec.format == "yolo":
        from birdlab.readers.yolo import read_yolo

        listed = locate(spec.classes, base, names.root) if isinstance(spec.classes, str) else spec.classes
        return read_yolo(path, frames, names, classes=listed)
    if spec.format == "labelme":
        from birdlab.readers.labelme import read_labelme

        return read_labelme(path, frames, names)
    from birdlab.readers.megadetector import read_megadetector_labels

    return read_megadetector_labels(path, frames, names, min_score=spec.min_score, known=known)


def read_coco(path: Path, frames: pl.DataFrame, names: FrameNames) -> LabelSet:
    """COCO ground truth as labels of the study's frames.

    A picture in ``images`` without annotations is empty. Entries of files that exist without being part of the study
    are left out and counted.

    Raises:
        DataError: the file is wrong, names a picture that is nowhere, names one twice, or gives it another size.
    """
    from birdlab.readers.coco import read_ground_truth

    truth = read_ground_truth(path)
    frame_of, notices = resolve_all(truth.images["file_name"].to_list(), names, path)
    frame = pl.col("file_name").replace_strict(frame_of, default=None, return_dtype=pl.String)
    images = truth.images.with_columns(frame.alias("frame_id"))
    images = images.filter(pl.col("frame_id").is_not_null())
    check_sizes(images.select("frame_id", "width", "height"), frames, file=str(path))
    frame = pl.col("frame_id").replace_strict(frame_of, default=None, return_dtype=pl.String)
    labels = truth.labels.with_columns(frame, pl.lit(None, dtype=pl.String).alias("source"))
    labels = labels.filter(pl.col("frame_id").is_not_null())
    notices += [Notice("coco_warning", warning, 1) for warning in truth.warnings]
    return LabelSet(
        schemas.TABLES["labels"].conform(labels),
        frozenset(images["frame_id"].to_list()),
        tuple(notices),
        tuple(truth.categories.values()),
        _facts(images),
    )


def _facts(images: pl.DataFrame) -> pl.DataFrame | None:
    have = [name for name in FACTS if name in images.columns]
    if not have:
        return None
    return images.select("frame_id", *(pl.col(name).cast(FACTS[name], strict=False) for name in have))


def resolve_all(file_names: list[str], names: FrameNames, path: Path) -> tuple[dict[str, str], list[Notice]]:
    """Names in a file to frames of the study; names of files outside the study are left out and counted.

    Raises:
        DataError: names that mean no picture at all (five are listed, all are counted), or two for one frame.
    """
    frame_of, problems, outside, unknown = {}, [], 0, 0
    for name in file_names:
        found = names.resolve(name, path.parent)
        if found.frame_id is not None:
            frame_of[name] = found.frame_id
        elif found.how == "outside":
            outside += 1
        else:
            unknown += 1
            if unknown <= 5:
                problems.append(unresolved(name, found, names, file=str(path), record=f"image {name!r}"))
    if unknown > 5:
        found = f"{unknown - 5} more names of no picture"
        problems.append(Problem("unknown_image", found, "pictures of the study", file=str(path)))
    for frame_id, n in Counter(frame_of.values()).items():
        if n > 1:
            given = [name for name, meant in frame_of.items() if meant == frame_id]
            found = " and ".join(repr(name) for name in given[:2])
            problems.append(Problem("image_twice", found, f"one entry for {frame_id}", "keep one", file=str(path)))
    if problems:
        raise DataError(problems)
    notices = []
    if outside:
        notices.append(
            Notice("labels_outside", "entries of pictures that data.media does not take into the study", outside)
        )
    return frame_of, notices


def check_sizes(sizes: pl.DataFrame, frames: pl.DataFrame, *, file: str) -> None:
    """Refuse labels of pictures whose size is not the size labelled (``frame_id``, ``width``, ``height``).

    Raises:
        DataError: naming the first such picture, both sizes and the count.
    """
    both = sizes.join(frames.select("frame_id", "width_px", "height_px"), on="frame_id")
    wrong = both.filter((pl.col("width") != pl.col("width_px")) | (pl.col("height") != pl.col("height_px")))
    if wrong.is_empty():
        return
    first = wrong.row(0, named=True)
    turned = (first["width"], first["height"]) == (first["height_px"], first["width_px"])
    remedy = (
        "the labels ignore the camera's orientation: label the upright picture"
        if turned
        else "label the picture that is scored, or scale the boxes"
    )
    raise DataError(
        Problem(
            "size_differs",
            f"{first['width']} × {first['height']} px ({wrong.height} of {both.height} pictures differ)",
            f"{first['width_px']} × {first['height_px']} px, the size of the picture as displayed",
            remedy,
            file=file,
            record=first["frame_id"],
        )
    )


def normal(name: str) -> str:
    """A class name without the differences that do not count: case, spaces around and doubled.

    >>> normal("Bluebird  "), normal("western  Bluebird")
    ('bluebird', 'western bluebird')
    """
    return " ".join(name.split()).casefold()


def map_categories(
    read: LabelSet, spec: Labels, categories: list[str], *, file: str
) -> tuple[pl.DataFrame, list[Notice]]:
    """The labels with class names of the study; each spelling is mapped once.

    A spelling is looked up in ``rename``, then in ``ignore`` (the label becomes a region out of scoring), then among
    the categories, without regard to case and spaces. Others are dropped and counted where the file declares its
    classes, and an error where they were typed by hand.

    Raises:
        DataError: a spelling that nobody mapped, with all spellings, their counts and the lines to add; or no class of
            the file is a class of the study.
    """
    counts = Counter(read.labels["category"].to_list())
    targets, unknown, notices = _targets([*counts, *(read.classes or ())], spec, categories, file)
    if unknown and (read.classes is None or not targets):
        raise DataError(_unmapped(counts, unknown, read, categories, file))
    for name in [n for n in unknown if counts[n]]:
        notices.append(
            Notice("class_dropped", f"labels of class {name!r}, which the study does not score", counts[name])
        )
    for name, (target, _) in targets.items():
        if name != target and counts[name]:
            notices.append(Notice("spelling_mapped", f"{name!r} was read as {target!r}", counts[name]))
    is_ignored = {name for name, (_, ignored) in targets.items() if ignored}
    labels = read.labels.filter(pl.col("category").is_in(list(targets))).with_columns(
        (pl.col("is_ignored") | pl.col("category").is_in(list(is_ignored))).alias("is_ignored"),
        pl.col("category").replace({name: target for name, (target, _) in targets.items()}),
    )
    n_ignored = labels["is_ignored"].sum()
    if n_ignored:
        notices.append(Notice("regions_ignored", "labels that mark regions out of scoring", int(n_ignored)))
    return labels, notices


def _targets(
    spellings: list[str], spec: Labels, categories: list[str], file: str
) -> tuple[dict[str, tuple[str, bool]], list[str], list[Notice]]:
    known = {normal(c): (c, False) for c in categories} | {normal(c): (c, True) for c in spec.ignore}
    wrong = [target for target in spec.rename.values() if normal(target) not in known]
    if wrong:
        expected = "one of " + ", ".join(sorted({name for name, _ in known.values()}))
        raise DataError(
            Problem("bad_rename", f"{wrong[0]!r}", expected, "or add it to data.categories", file=file, key="rename")
        )
    renamed = {normal(name): known[normal(target)] for name, target in spec.rename.items()}
    lookup = known | renamed
    exact = {name: known[normal(target)] for name, target in spec.rename.items()}
    targets, unknown = {}, []
    for name in dict.fromkeys(spellings):
        target = exact.get(name) or lookup.get(normal(name))
        if target:
            targets[name] = target
        else:
            unknown.append(name)
    unused = [name for name in spec.rename if name not in spellings and normal(name) not in map(normal, spellings)]
    notices = (
        [Notice("rename_unused", f"no label is called {', '.join(map(repr, unused))}", len(unused))] if unused else []
    )
    return targets, unknown, notices


def _unmapped(counts: Counter[str], unknown: list[str], read: LabelSet, categories: list[str], file: str) -> Problem:
    spellings = counts if counts else Counter(dict.fromkeys(read.classes or (), 0))
    listed = ", ".join(f"{name!r} ({n})" for name, n in spellings.most_common(12))
    more = f" and {len(spellings) - 12} more" if len(spellings) > 12 else ""
    lines = ", ".join(f"{name!r}: {categories[0]}" for name in unknown[:12])
    expected = f"each to be one of {', '.join(categories)}"
    remedy = f"add to this labels entry of the recipe: rename: {{{lines}}}; a class that is no bird to be found: ignore: [{unknown[0]!r}]"
    return Problem("unknown_class", f"labels {listed}{more}", expected, remedy, file=file, key="label")
