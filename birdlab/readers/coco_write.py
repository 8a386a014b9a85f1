"""Tables to COCO files, so that other evaluators and labelling programs can read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab.shards import write_atomic

if TYPE_CHECKING:
    from birdlab.readers.coco import CocoTruth


def write_ground_truth(
    path: str | Path, frames: pl.DataFrame, labels: pl.DataFrame, *, categories: Sequence[str] | None = None
) -> CocoTruth:
    """Write frames and labels as COCO ground truth and return it as read back.

    Args:
        path: the file; written by a temporary file and a rename.
        frames: table ``frames``; unlabelled frames are left out. Images are numbered from 1 in its order.
        labels: table ``labels``; annotations are numbered from 1. ``is_ignored`` becomes ``ignore: 1``.
        categories: class names in order, numbered from 1; by default those of the labels, sorted.

    Raises:
        KeyError: a label's category is not among ``categories``.
    """
    from birdlab.readers.coco import read_ground_truth

    frames = frames.filter(pl.col("label_state") != "unlabelled") if "label_state" in frames.columns else frames
    names = list(categories) if categories is not None else sorted(labels["category"].unique())
    numbers = {name: k for k, name in enumerate(names, start=1)}
    ids = {name: k for k, name in enumerate(frames["frame_id"], start=1)}
    labels = labels.filter(pl.col("frame_id").is_in(list(ids)))
    content = {
        "images": [_image(row, ids) for row in frames.iter_rows(named=True)],
        "annotations": [
            _annotation(k, row, ids, numbers) for k, row in enumerate(labels.iter_rows(named=True), start=1)
        ],
        "categories": [{"id": number, "name": name} for name, number in numbers.items()],
    }
    _write(Path(path), content)
    return read_ground_truth(path)


def write_results(path: str | Path, predictions: pl.DataFrame, truth: CocoTruth) -> int:
    """Write the detections of one model on the images of ``truth`` as COCO results; return how many.

    Args:
        path: the file; written by a temporary file and a rename.
        predictions: table ``predictions`` of one model; frame_id is the truth's file_name.
        truth: the ground truth whose image and category ids are used; other frames and categories are left out.
    """
    ids = dict(truth.images.select("file_name", "image_id").iter_rows())
    numbers = {name: number for number, name in truth.categories.items()}
    rows = []
    for row in predictions.iter_rows(named=True):
        if row["frame_id"] not in ids or row["category"] not in numbers:
            continue
        record = {
            "image_id": ids[row["frame_id"]],
            "category_id": numbers[row["category"]],
            "bbox": [row["x"], row["y"], row["w"], row["h"]],
            "score": row["score"],
        }
        rows.append(record | _mask(row))
    _write(Path(path), rows)
    return len(rows)


def _image(row: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    about = {
        "width": "width_px",
        "height": "height_px",
        "session": "video_id",
        "site": "site_id",
        "camera": "camera_id",
    }
    known = {key: row.get(column) for key, column in about.items() if row.get(column) is not None}
    return {"id": ids[row["frame_id"]], "file_name": row["frame_id"], **known}


def _annotation(number: int, row: dict[str, Any], ids: dict[str, int], numbers: dict[str, int]) -> dict[str, Any]:
    area = row.get("area_px")
    record: dict[str, Any] = {
        "id": number,
        "image_id": ids[row["frame_id"]],
        "category_id": numbers[row["category"]],
        "bbox": [row["x"], row["y"], row["w"], row["h"]],
        "area": row["w"] * row["h"] if area is None else area,
        "iscrowd": int(row["is_crowd"]),
    }
    if row["is_ignored"]:
        record["ignore"] = 1
    record |= {key: row[key] for key in ("individual_id", "track_id") if row.get(key) is not None}
    return record | _mask(row)


def _mask(row: dict[str, Any]) -> dict[str, Any]:
    text = row.get("mask_rle")
    return {} if text is None else {"segmentation": json.loads(text)}


def _write(path: Path, content: Any) -> None:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
