"""COCO ground truth and results: files to tables, and tables to files.

Reading is strict: whatever would change a score in silence (an unknown image, text for a number, a NaN, ids shifted
by one) is an error that names the record; whatever can be understood in one way only (no ``iscrowd``, no ``area``)
is taken so and said in ``warnings``. Format: Lin et al. 2014, "Microsoft COCO", and cocodataset.org, "data format".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.readers.coco_json import Findings, Section, parse, read_bytes
from birdlab.readers.coco_masks import boxes_or_masks, mask_column, sizes_of
from birdlab.readers.coco_results import read_results
from birdlab.readers.coco_write import write_ground_truth, write_results

__all__ = ["CocoTruth", "read_ground_truth", "read_results", "write_ground_truth", "write_results"]

_MAX_SIDE = 1_000_000  #: px; wider is no picture, and masks of it would overflow


@dataclass(frozen=True)
class CocoTruth:
    """A COCO ground-truth file.

    Args:
        images: image_id i64, file_name, width, height (px, null where the file gives none), then every further key
            of the file's images that holds one plain value (``session``, ``site``); file order.
        labels: table ``labels``; frame_id is the file_name, label_id the annotation's id, file order.
        categories: category id to name.
        warnings: what was assumed or looks wrong, one sentence each.
        path: the file.
    """

    images: pl.DataFrame
    labels: pl.DataFrame
    categories: dict[int, str]
    warnings: list[str] = field(default_factory=list)
    path: str = ""


def read_ground_truth(path: str | Path, *, prefix: str = "") -> CocoTruth:
    """Read a COCO ground-truth file (detection; polygons or run lengths where it has masks).

    Args:
        path: the file.
        prefix: put before every annotation id to make ``label_id`` unique in a study of several files.

    Returns:
        The tables. Absent ``iscrowd`` is 0; absent ``area`` is null (w·h counts) and said; ``ignore: 1`` sets
        ``is_ignored``: such a label is left out of scoring, whatever its ``iscrowd``.

    Raises:
        DataError: everything that is wrong with the file, in one error.
    """
    path = Path(path)
    findings = Findings(str(path))
    content = parse(read_bytes(path), str(path))
    sections = _sections(content, findings)
    findings.raise_any()
    images, categories, annotations = sections
    warnings: list[str] = []
    image_table = _images(images, warnings)
    names = _categories(categories)
    labels = _labels(annotations, image_table, names, warnings)
    findings.raise_any()
    labels = labels.with_columns(label_id=pl.lit(prefix) + pl.col("label_id"), source=pl.lit(str(path)))
    return CocoTruth(image_table, schemas.TABLES["labels"].conform(labels), names, warnings, str(path))


def _sections(content: Any, findings: Findings) -> list[Section]:
    if not isinstance(content, dict):
        remedy = (
            "a list of detections is a results file: give it after the ground truth"
            if isinstance(content, list)
            else ""
        )
        found = f"a {type(content).__name__} at the top"
        findings.add("not_ground_truth", found, "an object with images, annotations and categories", remedy)
        return []
    sections = []
    for key in ("images", "categories", "annotations"):
        value = content.get(key)
        if not isinstance(value, list):
            found = f"only the keys {', '.join(map(str, content))}" if value is None else type(value).__name__
            findings.add(
                "missing_key" if value is None else "wrong_type", found[:200] or "nothing", f"a list of {key}", key=key
            )
        else:
            sections.append(Section(key, value, findings))
    if isinstance(content.get("images"), list) and not content["images"]:
        findings.add("no_images", "an empty list", "at least one image", key="images")
    return sections


def _images(images: Section, warnings: list[str]) -> pl.DataFrame:
    ids = images.integers("id", expected="a whole number that annotations refer to")
    _twice(images, ids, "duplicate_image_id", "id", "every image id once")
    if not any("file_name" in record for record in images.records):
        warnings.append("images have no file_name: their ids are used as names")
        names = ids.cast(pl.String).alias("file_name")
    else:
        names = images.texts("file_name", expected="the image's path").str.replace_all("\\", "/", literal=True)
    _twice(images, names, "duplicate_file_name", "file_name", "every file once")
    columns = [ids.alias("image_id"), names]
    for key in ("width", "height"):
        size = images.integers(key, required=False, expected="pixels")
        bad = [i for i, v in enumerate(size) if v is not None and not 0 < v <= _MAX_SIDE]
        images.flag(bad, "bad_size", key, lambda i, size=size: str(size[i]), f"1 to {_MAX_SIDE:,} pixels")
        columns.append(size.scatter(bad, None) if bad else size)
    without = sum(w is None or h is None for w, h in zip(columns[2], columns[3], strict=True))
    if without:
        warnings.append(f"{without} of {len(images)} images give no width and height: they have no relative size")
    return pl.DataFrame([*columns, *_plain_columns(images.records)])


def _plain_columns(records: Sequence[dict[str, Any]]) -> list[pl.Series]:
    """Further keys of the images whose values are plain and of one type."""
    keys = dict.fromkeys(key for record in records for key in record)
    columns = []
    for key in keys:
        if key in ("id", "image_id", "file_name", "width", "height"):
            continue
        values = [record.get(key) for record in records]
        kinds = {type(v) for v in values if v is not None}
        if kinds and (kinds <= {int, float} or len(kinds) == 1) and kinds <= {int, float, str, bool}:
            dtype = pl.Float64 if kinds == {int, float} else None
            try:
                columns.append(pl.Series(key, values, dtype=dtype))
            except (OverflowError, TypeError):  # a whole number beyond 64 bits is no plain value
                continue
    return columns


def _categories(categories: Section) -> dict[int, str]:
    ids = categories.integers("id", expected="a whole number that annotations refer to")
    names = categories.texts("name", expected="the class name")
    _twice(categories, ids, "duplicate_category_id", "id", "every category id once")
    _twice(categories, names, "duplicate_category_name", "name", "every class name once")
    return {i: n for i, n in zip(ids, names, strict=True) if i is not None and n is not None}


def _labels(annotations: Section, images: pl.DataFrame, names: dict[int, str], warnings: list[str]) -> pl.DataFrame:
    records = annotations.records
    image_ids = annotations.integers("image_id", expected="the id of an image")
    category_ids = annotations.integers("category_id", expected="the id of a category")
    known_images = {i: k for k, i in enumerate(images["image_id"]) if i is not None}
    lost = [i for i, v in enumerate(image_ids) if v is not None and v not in known_images]
    annotations.flag(
        lost, "unknown_image_id", "image_id", lambda i: str(image_ids[i]), "the id of an image of this file"
    )
    lost = [i for i, v in enumerate(category_ids) if v is not None and v not in names]
    known = ", ".join(f"{i} ({n})" for i, n in list(names.items())[:5]) or "none is listed"
    annotations.flag(
        lost, "unknown_category_id", "category_id", lambda i: str(category_ids[i]), f"a category of this file: {known}"
    )
    row = [known_images.get(i) for i in image_ids]
    names_of = images["file_name"].to_list()
    sizes = sizes_of(images, row)
    masks, rles = mask_column(annotations, sizes)
    boxes = boxes_or_masks(annotations, rles, warnings)
    area = annotations.numbers("area", required=False)
    annotations.flag(
        [i for i, v in enumerate(area) if v is not None and v < 0],
        "negative_area",
        "area",
        lambda i: str(area[i]),
        "0 or more px²",
    )
    _note_areas(annotations, area, boxes, rles, warnings)
    ignored = annotations.flags("ignore")
    if ignored.any():
        warnings.append(f"{ignored.sum()} annotations with ignore: 1 are left out of scoring")
    frame = pl.DataFrame(
        {
            "label_id": _label_ids(annotations, warnings),
            "frame_id": pl.Series([None if k is None else names_of[k] for k in row], dtype=pl.String),
            "category": pl.Series([names.get(i) for i in category_ids], dtype=pl.String),
            **{name: boxes[:, k] for k, name in enumerate("xywh")},
            "area_px": area,
            "mask_rle": pl.Series(masks, dtype=pl.String),
            "is_crowd": annotations.flags("iscrowd"),
            "is_ignored": ignored,
            **{key: _optional_text(records, key) for key in ("individual_id", "track_id")},
        }
    )
    _note_boxes(frame, sizes, warnings)
    return frame


def _note_areas(
    annotations: Section, area: pl.Series, boxes: np.ndarray, rles: Sequence[dict[str, Any] | None], warnings: list[str]
) -> None:
    import hotcoco.mask

    absent = area.null_count()
    if absent:
        warnings.append(f"area is missing in {absent} of {len(annotations)} annotations: w·h is used")
    given = area.to_numpy()
    box_area = boxes[:, 2] * boxes[:, 3]
    reference = box_area.copy()
    with_mask = [i for i, rle in enumerate(rles) if rle is not None]
    if with_mask:
        reference[with_mask] = hotcoco.mask.area([rles[i] for i in with_mask])
    # A polygon's own area and the pixels it covers differ by up to its outline: allow 10 % and a few pixels.
    off = np.minimum(abs(given - reference), abs(given - box_area)) > 0.1 * np.maximum(reference, given) + 8
    at = np.flatnonzero(off)
    if len(at):
        i = at[0]
        what = "mask" if rles[i] is not None else "w·h"
        warnings.append(
            f"area of {len(at)} annotations is more than 10 % off the box area and the mask area, so their size class "
            f"may be wrong (first: {annotations.place(i)}: area {given[i]:g}, {what} {reference[i]:g} px²)"
        )


def _note_boxes(frame: pl.DataFrame, sizes: Sequence[tuple[int, int] | None], warnings: list[str]) -> None:
    flat = frame.filter((pl.col("w") == 0) | (pl.col("h") == 0)).height
    if flat:
        warnings.append(f"{flat} annotations have a box without area: nothing can match them")
    height = pl.Series("H", [s and s[0] for s in sizes], dtype=pl.Float64)
    width = pl.Series("W", [s and s[1] for s in sizes], dtype=pl.Float64)
    past = (
        (pl.col("x") < -1)
        | (pl.col("y") < -1)
        | (pl.col("x") + pl.col("w") > width + 1)
        | (pl.col("y") + pl.col("h") > height + 1)
    )
    outside = frame.filter(past.fill_null(False)).height
    if outside:
        warnings.append(f"{outside} annotations have a box that reaches outside its image")


def _label_ids(annotations: Section, warnings: list[str]) -> pl.Series:
    if len(annotations) and not any("id" in record for record in annotations.records):
        warnings.append("annotations have no id: they are numbered in file order")
        return pl.Series([str(i) for i in range(len(annotations))], dtype=pl.String)
    ids = annotations.integers("id", expected="a whole number of its own")
    _twice(annotations, ids, "duplicate_annotation_id", "id", "every annotation id once")
    return ids.cast(pl.String)


def _optional_text(records: Sequence[dict[str, Any]], key: str) -> pl.Series:
    values = [record.get(key) for record in records]
    return pl.Series([None if v is None or isinstance(v, dict | list) else str(v) for v in values], dtype=pl.String)


def _twice(section: Section, values: pl.Series, code: str, key: str, expected: str) -> None:
    again = (values.is_not_null() & ~values.is_first_distinct()).arg_true()
    section.flag(again, code, key, lambda i: f"{values[i]!r} again", expected)
