"""COCO results: what a detector found, checked against the ground truth it belongs to."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.readers.coco_json import Findings, Section, check_boxes, object_rows, parse, read_bytes
from birdlab.readers.coco_masks import boxes_or_masks, mask_column, sizes_of

if TYPE_CHECKING:
    from birdlab.readers.coco import CocoTruth

_RESULT = {"image_id": pl.Int64, "category_id": pl.Int64, "bbox": pl.List(pl.Float64), "score": pl.Float64}


def read_results(
    path: str | Path, truth: CocoTruth | None, *, model: str, source: str = ""
) -> tuple[pl.DataFrame, list[str]]:
    """Read a COCO results file: a list of ``image_id, category_id, bbox, score`` and perhaps ``segmentation``.

    Args:
        path: the file.
        truth: the ground truth the ids belong to; ``None`` where every record gives its ``file_name``, and then the
            category is ``category_name`` or the id as text.
        model: name of the model, for the table.
        source: how the file is called in messages; its path by default.

    Returns:
        (table ``predictions``, in file order, prediction_id = position in the file; warnings). Detections of
        categories that the truth does not have are left out and counted in a warning.

    Raises:
        DataError: everything that is wrong with the file, in one error.
    """
    path = Path(path)
    findings = Findings(source or str(path))
    raw = read_bytes(path)
    rows = None if truth is None or b'"segmentation"' in raw else _quick_results(raw)
    section = None
    if rows is None:
        section = _result_section(parse(raw, findings.file), findings)
        findings.raise_any()
        rows = _careful_results(section, truth)
    del raw
    warnings = ["0 detections"] if rows.is_empty() else []
    _check_scores(rows, findings)
    rows = rows.with_row_index("prediction_id")
    if truth is not None:
        rows = _to_names(rows, truth, findings, warnings)
    findings.raise_any()
    return _predictions(rows, model), warnings


def _quick_results(raw: bytes) -> pl.DataFrame | None:
    """Results without masks, if nothing about their types is odd; ``None`` asks for the careful way."""
    rows = object_rows(raw, _RESULT)
    if rows is None or rows.is_empty():
        return rows if rows is None else _flat(rows.drop("bbox"), np.empty((0, 4)))
    if sum(rows.null_count().row(0)) or (rows["bbox"].list.len() != 4).any():
        return None
    boxes = rows["bbox"].explode()
    return None if boxes.null_count() else _flat(rows.drop("bbox"), boxes.to_numpy().reshape(-1, 4))


def _flat(rows: pl.DataFrame, boxes: np.ndarray) -> pl.DataFrame:
    return rows.with_columns(pl.Series(name, boxes[:, k], dtype=pl.Float64) for k, name in enumerate("xywh"))


def _result_section(content: Any, findings: Findings) -> Section | None:
    if isinstance(content, list):
        return Section("detections", content, findings)
    found = f"a {type(content).__name__} at the top"
    remedy = ""
    if isinstance(content, dict):
        found = f"an object with the keys {', '.join(map(str, list(content)[:8]))}"
        if "detection_categories" in content:
            remedy = "this is a MegaDetector file: give it format: megadetector in a recipe"
        elif "annotations" in content:
            remedy = "this looks like ground truth: give the truth first, then the results"
    findings.add("not_results", found, "a list of detections with image_id, category_id, bbox and score", remedy)
    return None


def _careful_results(section: Section, truth: CocoTruth | None) -> pl.DataFrame:
    """The same columns from any results file, every fault noted with its record."""
    by_name = truth is None or any(isinstance(r.get("image_id"), str) for r in section.records)
    columns: dict[str, pl.Series] = {}
    sizes: list[tuple[int, int] | None] = [None] * len(section)
    if truth is None:
        columns["frame_id"] = section.texts("file_name", expected="the image's path")
        columns["category"] = _category_text(section)
    else:
        ids = _ids_by_name(section, truth) if by_name else section.integers("image_id", expected="the id of an image")
        columns["image_id"] = ids
        columns["category_id"] = section.integers("category_id", expected="the id of a category")
        rows = {i: k for k, i in enumerate(truth.images["image_id"])}
        sizes = sizes_of(truth.images, [rows.get(i) for i in ids])
    columns["score"] = section.numbers("score", expected="a confidence from 0 to 1")
    masks, rles = mask_column(section, sizes)
    boxes = boxes_or_masks(section, rles, [])
    if any(text is not None for text in masks):
        columns["mask_rle"] = pl.Series(masks, dtype=pl.String)
    section.findings.raise_any()
    return _flat(pl.DataFrame(columns), boxes)


def _category_text(section: Section) -> pl.Series:
    values = [r.get("category_name", r.get("category_id")) for r in section.records]
    absent = [i for i, v in enumerate(values) if v is None]
    section.flag(absent, "missing_key", "category_id", lambda i: "no such key", "the class of the detection")
    return pl.Series([None if v is None else str(v) for v in values], dtype=pl.String)


def _ids_by_name(section: Section, truth: CocoTruth) -> pl.Series:
    """Image ids given as text: an exact file name, or its stem where that is no bare number, is the image it names."""
    names: dict[str, int | None] = {}
    for image_id, name in truth.images.select("image_id", "file_name").iter_rows():
        names[name] = image_id
        stem = Path(name).stem
        if not stem.isdigit():
            names[stem] = None if stem in names and names[stem] != image_id else image_id
    ids: list[int | None] = []
    lost = []
    for i, record in enumerate(section.records):
        value = record.get("image_id")
        known = names.get(value) if isinstance(value, str) else value if type(value) is int else None
        ids.append(known)
        if known is None:
            lost.append(i)
    values = section.values("image_id", required=False)
    near = difflib.get_close_matches(str(values[lost[0]]), list(names), n=3) if lost else []
    remedy = f"the nearest names are {', '.join(near)}" if near else "write the number without quotes"
    section.flag(
        lost,
        "wrong_type",
        "image_id",
        lambda i: f"the text {values[i]!r:.60}" if isinstance(values[i], str) else repr(values[i]),
        "a whole number, the id of an image (or its file name)",
        remedy,
    )
    return pl.Series("image_id", ids, dtype=pl.Int64)


def _check_scores(rows: pl.DataFrame, findings: Findings) -> None:
    """Ranges of what both ways of reading hand over: scores in [0, 1], no negative width or height."""
    section = _Positions(rows.height, findings)
    score = rows["score"].to_numpy()
    at = np.flatnonzero((score < 0) | (score > 1))
    top = float(score.max()) if len(score) else 0.0
    remedy = "these look like percentages: divide by 100" if 1 < top <= 100 and (score >= 0).all() else ""
    section.flag(at, "score_range", "score", lambda i: f"{score[i]:g}", "a confidence from 0 to 1", remedy)
    check_boxes(section, rows.select("x", "y", "w", "h").to_numpy())


class _Positions(Section):
    """Detections known by their position only."""

    def __init__(self, n: int, findings: Findings) -> None:
        self.name, self.findings, self._n = "detections", findings, n

    def __len__(self) -> int:
        return self._n

    def place(self, index: int) -> str:
        return f"detections[{index}]"


def _to_names(rows: pl.DataFrame, truth: CocoTruth, findings: Findings, warnings: list[str]) -> pl.DataFrame:
    """Image ids to frame ids and category ids to names; what the truth does not have is an error or a count."""
    images = truth.images.select("image_id", frame_id="file_name")
    rows = rows.join(images, on="image_id", how="left", maintain_order="left")
    lost = rows["frame_id"].is_null()
    if lost.any():
        _unknown_images(rows, lost, truth, findings)
    counts = dict(rows["category_id"].value_counts().iter_rows())
    unknown = sorted(i for i in counts if i not in truth.categories)
    if unknown and len(unknown) == len(counts):
        _no_known_category(unknown, truth, findings)
    elif unknown:
        n = sum(counts[i] for i in unknown)
        ids = ", ".join(map(str, unknown[:8])) + (", …" if len(unknown) > 8 else "")
        warnings.append(
            f"{n} detections of {len(unknown)} categories that the ground truth does not have (ids {ids}) are left out; "
            "check that both files number their classes alike"
        )
    names = pl.DataFrame(
        {"category_id": list(truth.categories), "category": list(truth.categories.values())},
        schema_overrides={"category_id": pl.Int64},
    )
    return rows.join(names, on="category_id", how="inner" if unknown else "left", maintain_order="left")


def _unknown_images(rows: pl.DataFrame, lost: pl.Series, truth: CocoTruth, findings: Findings) -> None:
    known = truth.images["image_id"].sort().to_numpy()
    ids = rows.filter(lost)["image_id"].unique(maintain_order=True).to_list()
    listed = ", ".join(map(str, ids[:8])) + (", …" if len(ids) > 8 else "")
    near = sorted({int(known[np.argmin(abs(known - i))]) for i in ids[:8]})
    findings.add(
        "unknown_image_id",
        f"{len(ids)} image ids that the ground truth does not have ({listed}) in {int(lost.sum())} of {rows.height} detections",
        f"one of the {len(known)} image ids from {known[0]} to {known[-1]} of {truth.path or 'the ground truth'} (nearest: {', '.join(map(str, near[:8]))})",
        "score these results against the ground truth they were made for",
        record=f"detections[{int(lost.arg_true()[0])}]",
        key="image_id",
    )


def _no_known_category(unknown: list[int], truth: CocoTruth, findings: Findings) -> None:
    known = truth.categories
    listed = ", ".join(f"{i} ({name})" for i, name in list(known.items())[:8])
    remedy = "write the id of the class with the same name"
    for shift in (1, -1):
        if all(i + shift in known for i in unknown):
            pairs = ", ".join(f"{i} -> {i + shift} ({known[i + shift]})" for i in unknown[:5])
            remedy = f"the ids look shifted by one; if so, by name: {pairs}"
            break
    ids = ", ".join(map(str, unknown[:8])) + (", …" if len(unknown) > 8 else "")
    findings.add(
        "unknown_category_id",
        f"no category of the ground truth, only the ids {ids}",
        f"one of {listed or 'no category'}",
        remedy,
        key="category_id",
    )


def _predictions(rows: pl.DataFrame, model: str) -> pl.DataFrame:
    rows = rows.with_columns(pl.lit(model).alias("model"), pl.col("prediction_id").cast(pl.String))
    keep = [c for c in rows.columns if c not in ("image_id", "category_id")]
    order = pl.col("score").rank("ordinal", descending=True).over("frame_id") - 1
    return schemas.TABLES["predictions"].conform(rows.select(keep).with_columns(order.alias("rank")))
