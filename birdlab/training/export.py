"""Splits as folders that trainers read: YOLO text files (boxes, or outlines) and COCO JSON, per part.

What a format cannot hold is left out by a stated rule and counted:

- YOLO knows no ignored regions and no crowds: they are not written (COCO has both).
- Boxes are cut at the frame's edge; one without area inside the frame is left out.
- An outline file holds outlines only. A frame with a bird that has no mask is left out of it, since the bird would be
  taught as background; so would be a bird of an empty mask.
- Parts and holes of a mask are joined by cuts of no width, see :mod:`birdlab.training.outlines`; ``losses`` says what that
  and the drawing of it cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl
import yaml

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.training.outlines import filled_iou, outline
from birdlab.training.pictures import (
    FILE_SCHEMA,
    LEFT_OUT_SCHEMA,
    Pictures,
    begin_export,
    place_pictures,
    plan_pictures,
    write_if_changed,
)
from birdlab.training.splits import Splits

Task = Literal["detect", "segment"]
LOSS_SCHEMA = {
    **{"label_id": pl.String, "frame_id": pl.String, "parts": pl.Int64, "holes": pl.Int64},
    **{"iou": pl.Float64, "iou_filled": pl.Float64},
}


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Args:
        folder: the folder.
        listings: ``data.yaml`` of a YOLO export under ``yolo``; the JSON file of every part of a COCO export.
        files: ``frame_id``, ``split``, ``file`` (relative to the folder), ``how`` (linked, copied, written; ``named``
            without pictures).
        left_out: ``frame_id``, ``split``, ``reason``: frames of the split that are not in the export.
        categories: class names in order.
        counts: labels by what became of them: ``written``, ``ignored``, ``crowds``, ``cut`` (at the frame's edge; written
            too), ``no_area``, ``frame_left_out``.
        losses: of an outline export, per bird: ``parts`` and ``holes`` of its mask, ``iou`` of the mask with the outline
            drawn as COCO does, ``iou_filled`` with the outline filled as trainers do, edges included.
    """

    folder: Path
    listings: dict[str, Path]
    files: pl.DataFrame
    left_out: pl.DataFrame
    categories: tuple[str, ...]
    counts: dict[str, int]
    losses: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LOSS_SCHEMA))


def export_yolo(
    out: str | Path,
    frames: pl.DataFrame,
    labels: pl.DataFrame,
    media: pl.DataFrame,
    splits: Splits,
    *,
    task: Task = "detect",
    categories: Sequence[str] | None = None,
    pictures: Pictures = Pictures(),  # noqa: B008 (frozen)
) -> Exported:
    """Write ``images/<part>``, ``labels/<part>`` and ``data.yaml``; writing again changes nothing that is there.

    Args:
        out: folder of the export.
        frames: table ``frames``.
        labels: table ``labels``.
        media: table ``media``.
        splits: which frame is in which part.
        task: boxes, or outlines of masks.
        categories: class names in order; by default those of the birds in the splits, sorted.
        pictures: linked or copied, and how frames of videos are written.

    Returns:
        What was written, left out and lost. A part without frames is not in ``data.yaml``.

    Raises:
        DataError: the folder holds files of others; nothing can be exported.
        ParameterError: a bird's class is not among ``categories``.
    """
    out = Path(out)
    plan = plan_pictures(frames, media, splits, pictures)
    mine = labels.join(plan.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
    birds = mine.filter(~pl.col("is_ignored") & ~pl.col("is_crowd"))
    names = _categories(birds, categories)
    plan = _without_masks(plan, birds) if task == "segment" else plan
    usable = plan.filter(pl.col("reason").is_null())
    if usable.is_empty():
        raise DataError(_nothing(plan, task))
    _begin(out, [*usable["file"], *map(text_file, usable["file"]), "data.yaml"], f"YOLO, {task}", splits, pictures)
    placed = place_pictures(out, plan, media, pictures)
    sizes = {r[0]: r[1:] for r in usable.select("frame_id", "width_px", "height_px").rows()}
    counts, losses = _write_texts(out, placed.files, birds, sizes, names, task)
    counts |= _dropped(mine, birds, placed.files)
    yaml_path = out / "data.yaml"
    write_if_changed(yaml_path, _data_yaml(placed.files, names, splits))
    return Exported(out, {"yolo": yaml_path}, placed.files, placed.left_out, tuple(names), counts, losses)


def export_coco(
    out: str | Path,
    frames: pl.DataFrame,
    labels: pl.DataFrame,
    media: pl.DataFrame,
    splits: Splits,
    *,
    categories: Sequence[str] | None = None,
    pictures: Pictures | None = Pictures(),  # noqa: B008 (frozen)
) -> Exported:
    """Write ``annotations/<part>.json`` and ``images/<part>``, with crowds and ignored regions; again changes nothing.

    Args:
        out: folder of the export.
        frames: table ``frames``.
        labels: table ``labels``.
        media: table ``media``.
        splits: which frame is in which part.
        categories: class names in order, numbered from 1; those of further labels follow. All parts number alike.
        pictures: linked or copied, and how frames of videos are written; None to write no pictures: ``file_name`` is then
            the frame's id, else the picture's path in the folder.

    Raises:
        DataError: the folder holds files of others; nothing can be exported.
    """
    from birdlab.readers.coco_write import write_ground_truth

    out = Path(out)
    plan = plan_pictures(frames, media, splits, pictures) if pictures else _named(frames, splits)
    mine = labels.join(plan.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
    names = [*(categories or ()), *sorted(set(mine["category"]) - set(categories or ()))]
    usable = plan.filter(pl.col("reason").is_null())
    if usable.is_empty():
        raise DataError(_nothing(plan, "detect"))
    jsons = {p: f"annotations/{p}.json" for p in splits.parts}
    _begin(out, [*(usable["file"] if pictures else []), *jsons.values()], "COCO", splits, pictures)
    if pictures:
        placed = place_pictures(out, plan, media, pictures)
        files, left_out = placed.files, placed.left_out
    else:
        files, left_out = usable.select(*FILE_SCHEMA).sort("frame_id"), pl.DataFrame(schema=LEFT_OUT_SCHEMA)
    named = dict(files.select("frame_id", "file").rows())
    for part, file in jsons.items():
        here = usable.filter((pl.col("split") == part) & pl.col("frame_id").is_in(list(named))).sort("frame_id")
        of_part = mine.join(here.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
        write_ground_truth(
            out / file,
            _renamed(here, named),
            _renamed(of_part.sort("frame_id", maintain_order=True), named),
            categories=names,
        )
    written = mine.filter(pl.col("frame_id").is_in(list(named))).height
    counts = {"written": written, "frame_left_out": mine.height - written}
    return Exported(out, {p: out / f for p, f in jsons.items()}, files, left_out, tuple(names), counts)


def _named(frames: pl.DataFrame, splits: Splits) -> pl.DataFrame:
    """A plan without pictures: every frame under its own name."""
    nothing = pl.lit(None, pl.String).alias("reason")
    inside = splits.apply(frames).with_columns(pl.col("split").cast(pl.String), nothing)
    return inside.with_columns(pl.col("frame_id").alias("file"), pl.lit("named").alias("how"))


def text_file(picture: str) -> str:
    """The YOLO text file of a picture.

    >>> text_file("images/train/a.jpg")
    'labels/train/a.txt'
    """
    return f"labels/{picture.removeprefix('images/').rpartition('.')[0]}.txt"


def _begin(out: Path, files: list[str], form: str, splits: Splits, pictures: Pictures | None) -> None:
    about: dict[str, Any] = {"format": form, "splits_sha256": splits.sha256, "level": splits.level}
    if pictures is not None:
        written = f"JPEG, quality {pictures.quality}" if pictures.suffix == ".jpg" else "PNG"
        about |= {"pictures": pictures.how, "written_as": written}
    begin_export(out, files, about)


def _categories(birds: pl.DataFrame, categories: Sequence[str] | None) -> list[str]:
    there = sorted(birds["category"].unique())
    if categories is None:
        return there
    unknown = [c for c in there if c not in categories]
    if unknown:
        n = birds.filter(pl.col("category").is_in(unknown)).height
        found = f"{n} birds of class {', '.join(map(repr, unknown[:5]))}"
        raise ParameterError(Problem("unknown_class", found, f"one of {', '.join(categories)}", key="categories"))
    return list(categories)


def _without_masks(plan: pl.DataFrame, birds: pl.DataFrame) -> pl.DataFrame:
    bare = birds.filter(pl.col("mask_rle").is_null() | _is_empty(birds["mask_rle"])).group_by("frame_id").len("_n")
    out = plan.join(bare, on="frame_id", how="left", maintain_order="left")
    why = pl.format("{} of its birds without a mask", "_n")
    return out.with_columns(pl.coalesce("reason", pl.when(pl.col("_n") > 0).then(why)).alias("reason")).drop("_n")


def _is_empty(masks: pl.Series) -> pl.Series:
    from birdlab.readers.yolo import mask_area

    return pl.Series([text is not None and mask_area(text) == 0 for text in masks], dtype=pl.Boolean)


def _nothing(plan: pl.DataFrame, task: Task) -> Problem:
    why = plan["reason"].drop_nulls().value_counts(sort=True)
    found = f"{plan.height} frames, none of which can be exported"
    found += f" ({why.row(0)[0]} in {why.row(0)[1]})" if why.height else ""
    remedy = "export boxes (task detect)" if task == "segment" else "check the files"
    return Problem("nothing_to_export", found, "at least one", remedy, key="training")


def _write_texts(
    out: Path,
    files: pl.DataFrame,
    birds: pl.DataFrame,
    sizes: dict[str, tuple[int, int]],
    names: list[str],
    task: Task,
) -> tuple[dict[str, int], pl.DataFrame]:
    numbers = {name: k for k, name in enumerate(names)}
    by_frame = {k[0]: v for k, v in birds.partition_by("frame_id", as_dict=True, maintain_order=True).items()}
    counts = {"written": 0, "cut": 0, "no_area": 0}
    losses: list[dict[str, Any]] = []
    for frame_id, file in files.select("frame_id", "file").rows():
        lines = []
        for row in by_frame[frame_id].iter_rows(named=True) if frame_id in by_frame else ():
            if task == "segment":
                coordinates = _outline(row, sizes[frame_id], losses)
            else:
                coordinates = _box(row, sizes[frame_id], counts)
            if coordinates:
                lines.append(" ".join([str(numbers[row["category"]]), *(f"{v:.9g}" for v in coordinates)]) + "\n")
        counts["written"] += len(lines)
        if write_if_changed(out / text_file(file), "".join(lines)):
            # Trainers know their caches by paths and sizes: a label that changed within its size would not be seen.
            for cache in (out / "labels").glob("*.cache"):
                cache.unlink()
    return counts, pl.DataFrame(losses, schema=LOSS_SCHEMA)


def _box(row: dict[str, Any], size: tuple[int, int], counts: dict[str, int]) -> list[float]:
    """cx, cy, w, h as fractions of the frame, cut at its edge; nothing where no area is left."""
    width, height = size
    left, right = (min(max(v, 0.0), width) for v in (row["x"], row["x"] + row["w"]))
    top, bottom = (min(max(v, 0.0), height) for v in (row["y"], row["y"] + row["h"]))
    if right <= left or bottom <= top:
        counts["no_area"] += 1
        return []
    counts["cut"] += max(row["w"] - (right - left), row["h"] - (bottom - top)) > 0.5
    return [(left + right) / 2 / width, (top + bottom) / 2 / height, (right - left) / width, (bottom - top) / height]


def _outline(row: dict[str, Any], size: tuple[int, int], losses: list[dict[str, Any]]) -> list[float]:
    """x, y, x, y … of the mask's outline as fractions of the frame."""
    corners, parts, holes = outline(row["mask_rle"])
    loss = {"label_id": row["label_id"], "frame_id": row["frame_id"], "parts": parts, "holes": holes}
    coordinates = [v / s for corner in corners.tolist() for v, s in zip(corner, size, strict=True)]
    losses.append(loss | {"iou": _iou(corners, row["mask_rle"]), "iou_filled": filled_iou(corners, row["mask_rle"])})
    return coordinates


def _iou(corners: Any, mask_rle: str) -> float:
    """Overlap in [0, 1] of a mask with its outline drawn as COCO does."""
    from pycocotools import mask as coco

    from birdlab.detection.boxes import decode_rle

    rle = decode_rle(mask_rle)
    drawn = coco.frPyObjects([corners.ravel().astype(float).tolist()], *rle["size"])
    return float(coco.iou(drawn, [rle], [0])[0, 0])


def _dropped(mine: pl.DataFrame, birds: pl.DataFrame, files: pl.DataFrame) -> dict[str, int]:
    there = files["frame_id"].to_list()
    return {
        "ignored": int(mine["is_ignored"].sum()),
        "crowds": mine.filter(pl.col("is_crowd") & ~pl.col("is_ignored")).height,
        "frame_left_out": birds.filter(~pl.col("frame_id").is_in(there)).height,
    }


def _data_yaml(files: pl.DataFrame, names: list[str], splits: Splits) -> str:
    # Without `path`, trainers take the folder that the file lies in: the export can be moved.
    there = files["split"].unique().to_list()
    content = {p: f"images/{p}" for p in splits.parts if p in there}
    listed = yaml.safe_dump({**content, "names": dict(enumerate(names))}, sort_keys=False, allow_unicode=True)
    return f"# Splits {splits.sha256}\n{listed}"


def _renamed(table: pl.DataFrame, named: dict[str, str]) -> pl.DataFrame:
    return table.with_columns(pl.col("frame_id").replace_strict(named, return_dtype=pl.String))
