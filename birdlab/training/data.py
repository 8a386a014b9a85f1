"""What a model is trained on: the labelled frames, which part each belongs to, and their pixels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.inference.detector import Boxes
from birdlab.readers.pixels import Picture, iter_frames
from birdlab.shards import digest

if TYPE_CHECKING:
    from birdlab.recipe.training import Training
    from birdlab.study import Run
    from birdlab.training.splits import Splits

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class TrainingData:
    """Frames, labels and the part of every frame.

    Args:
        frames, labels, media: the study's tables.
        split: frame_id and split (train, val or test); frames that are not listed take no part.
        categories: class names; their order is the order of the network's classes.
        yolo: task (detect, segment) to ``data.yaml`` of the same parts as YOLO files, which ultralytics reads.
        name: what the data are called, for the model card.
        licence: licence of the data, for the model card.
        split_sha256: hash of the split; without one that of frame_id and part.
        split_by: ``site``, ``session`` … for the model card.
        notes: what else the model card must say of the data.
    """

    frames: pl.DataFrame
    labels: pl.DataFrame
    media: pl.DataFrame
    split: pl.DataFrame
    categories: tuple[str, ...]
    yolo: Mapping[str, Path] = field(default_factory=dict)
    name: str = ""
    licence: str = ""
    split_sha256: str = ""
    split_by: str = ""
    notes: tuple[str, ...] = ()

    def part(self, name: str) -> pl.DataFrame:
        """Frames of one part that were looked at, by frame_id; empty frames are among them."""
        wanted = self.split.filter(pl.col("split").cast(pl.String) == name).select("frame_id")
        looked = self.frames.filter(pl.col("label_state") != "unlabelled")
        return looked.join(wanted, on="frame_id", how="semi").sort("frame_id")

    def labels_of(self, frames: pl.DataFrame) -> pl.DataFrame:
        """Labels of these frames, ignored and crowd ones too, in a fixed order."""
        return self.labels.join(frames.select("frame_id"), on="frame_id", how="semi").sort("frame_id", "label_id")

    def pictures(self, frames: pl.DataFrame) -> Iterator[tuple[str, Picture]]:
        """Pixels (BGR uint8) of these frames in their order.

        Raises:
            DataError: a frame cannot be read: training on fewer frames than the card says would not be the same run.
        """
        for frame_id, picture in iter_frames(frames, self.media):
            if isinstance(picture, DataError):
                raise picture
            yield frame_id, picture

    @cached_property
    def sha256(self) -> str:
        """Hash of pictures, labels and parts: two runs with the same one saw the same data."""
        used = self.frames.join(self.split.select("frame_id", "split"), on="frame_id", suffix="_part").sort("frame_id")
        hashes = used.join(self.media.select("media_id", "sha256"), on="media_id", how="left", maintain_order="left")
        columns = ["frame_id", "category", "x", "y", "w", "h", "mask_rle", "is_crowd", "is_ignored"]
        labels = self.labels_of(used).select(columns).sort(columns[:6])
        part = pl.col("split_part" if "split_part" in used.columns else "split").cast(pl.String)
        rows = hashes.select("frame_id", "frame_index", part, pl.col("sha256").fill_null("")).rows()
        return digest([rows, labels.rows(), list(self.categories)])

    @cached_property
    def split_key(self) -> str:
        """``split_sha256``, or the hash of frame_id and part."""
        rows = self.split.select("frame_id", pl.col("split").cast(pl.String)).sort("frame_id").rows()
        return self.split_sha256 or digest([list(row) for row in rows])

    def counts(self) -> dict[str, dict[str, int | None]]:
        """Frames, empty frames, birds, birds with a mask, sessions and sites of every part (sites null: unknown)."""
        return {name: self._count(self.part(name)) for name in PARTS}

    def _count(self, frames: pl.DataFrame) -> dict[str, int | None]:
        birds = real(self.labels_of(frames))
        sites = frames["site_id"].drop_nulls().n_unique() if "site_id" in frames.columns else 0
        return {
            "frames": frames.height,
            "empty": frames.height - birds["frame_id"].n_unique(),
            "birds": birds.height,
            "masks": birds.height - birds["mask_rle"].null_count(),
            "sessions": frames["video_id"].n_unique(),
            "sites": sites or None,
        }


def study_data(run: Run, training: Training, folder: Path) -> TrainingData:
    """The data of a study, split as its section says; the split is kept as ``splits.json`` and a leak stops here.

    Args:
        run: the study.
        training: section of the recipe.
        folder: gets ``splits.json`` and the YOLO files.

    Raises:
        DataError: the study cannot be split, or something leaks between the parts; both frames are named.
    """
    from birdlab.training.leaks import find_leaks, levels_of, refuse_leaks
    from birdlab.training.split_files import write_splits
    from birdlab.training.splits import make_splits

    frames, labels, media = (run.table(name) for name in ("frames", "labels", "media"))
    splits = make_splits(frames, labels, training.split, media=media)
    levels = levels_of(splits.level, training.split.refuse)
    reader = iter_frames if "near_duplicate" in levels else None
    refuse_leaks(find_leaks(frames, media, splits.table, reader=reader), levels)
    write_splits(folder / "splits.json", splits)
    told, about = run.recipe.data, (run.recipe.name, run.recipe.data.licence)
    return training_data((frames, labels, media), splits, training, folder, categories=told.categories, about=about)


def training_data(
    tables: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame],
    splits: Splits,
    training: Training,
    folder: Path,
    *,
    categories: Iterable[str],
    about: tuple[str, str] = ("", ""),
) -> TrainingData:
    """The data of a recipe's models, with the files that they need, or that the recipe exports, written under ``folder``.

    Args:
        tables: frames, labels and media of the study.
        splits: which frame is in which part.
        training: section of the recipe.
        folder: gets ``yolo-detect``, ``yolo-segment`` and ``coco`` where a model needs them or ``export`` names them.
        categories: class names in order.
        about: name and licence of the data, for the model card.

    Raises:
        DataError: nothing can be exported, or the folder holds files of others.
    """
    from birdlab.training.export import export_coco, export_yolo

    frames, labels, media = tables
    names = tuple(categories)
    yolo, notes = {}, []
    needed = {m.task for m in training.models if m.library == "ultralytics"}
    for task in sorted(needed | {form.removeprefix("yolo-") for form in training.export if form != "coco"}):
        made = export_yolo(folder / f"yolo-{task}", frames, labels, media, splits, task=task, categories=names)
        yolo[task] = made.listings["yolo"]
        if made.left_out.height:
            notes.append(f"{made.left_out.height} frames are not in the YOLO files for task {task}")
    if "coco" in training.export:
        made = export_coco(folder / "coco", frames, labels, media, splits, categories=names)
        if made.left_out.height:
            notes.append(f"{made.left_out.height} frames are not in the COCO files")
    split = splits.table.select("frame_id", pl.col("split").cast(pl.String))
    how = {"split_sha256": splits.sha256, "split_by": splits.level, "notes": tuple(notes)}
    return TrainingData(frames, labels, media, split, names, yolo, *about, **how)


def real(labels: pl.DataFrame) -> pl.DataFrame:
    """Labels that stand for one bird each: neither a crowd nor an ignored region."""
    return labels.filter(~pl.col("is_crowd") & ~pl.col("is_ignored"))


def check_tasks(data: TrainingData, tasks: Iterable[str]) -> None:
    """:func:`check_data` for several tasks, before the first of them is trained.

    Raises:
        DataError: what is wrong for any of them, each thing once.
    """
    problems: dict[Problem, None] = {}
    for task in sorted(set(tasks)):
        try:
            check_data(data, task=task)
        except DataError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise DataError(list(problems))


def check_data(data: TrainingData, *, task: str) -> list[str]:
    """Look whether the data can be trained on, and say what is left out.

    Args:
        data: the data.
        task: ``detect`` or ``segment``.

    Returns:
        Notes for the model card.

    Raises:
        DataError: train or val has no labelled bird (with a mask, to segment), or a label's class is not among the
            categories; all that is wrong at once.
    """
    problems, notes = [], []
    for part in ("train", "val"):
        birds = real(data.labels_of(data.part(part)))
        if task == "segment":
            birds = birds.filter(pl.col("mask_rle").is_not_null())
        if birds.is_empty():
            what = "labelled bird" + (" with a mask" if task == "segment" else "")
            remedy = "give the part more frames, or other sessions"
            problems.append(Problem("no_birds", f"no {what} in {part}", "at least one", remedy, key=part))
    labels = data.labels_of(pl.concat([data.part(p) for p in PARTS]))
    foreign = sorted(set(real(labels)["category"].unique()) - set(data.categories))
    if foreign:
        expected = "one of " + ", ".join(data.categories)
        problems.append(Problem("unknown_category", ", ".join(foreign), expected, key="categories"))
    if problems:
        raise DataError(problems)
    train = data.labels_of(data.part("train"))
    for column, what in (("is_ignored", "ignored regions"), ("is_crowd", "crowds")):
        n = int(train[column].sum())
        if n:
            notes.append(f"{n} {what} of the training frames are background to the training (in scoring they are not)")
    return notes


def predictions_table(model: str, names: Mapping[int, str], found: Iterable[tuple[str, Boxes]]) -> pl.DataFrame:
    """Detections frame by frame as a table ``predictions``.

    Args:
        model: name of the model.
        names: class names by the detector's class index.
        found: (frame_id, boxes) of every frame.
    """
    rows: list[dict[str, Any]] = []
    for frame_id, boxes in found:
        order = np.argsort(-boxes.scores, kind="stable")
        for rank, i in enumerate(order.tolist()):
            row = dict(zip(("x", "y", "w", "h"), map(float, boxes.xywh[i]), strict=True))
            row |= {"model": model, "prediction_id": f"{frame_id}/{rank}", "frame_id": frame_id, "rank": rank}
            row |= {"category": names[int(boxes.classes[i])], "score": float(boxes.scores[i])}
            rows.append(row | {"mask_rle": boxes.masks[i] if boxes.masks is not None else None})
    if not rows:
        return schemas.empty("predictions")
    return schemas.validate("predictions", pl.DataFrame(rows, schema_overrides={"mask_rle": pl.String}))
