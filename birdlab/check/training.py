"""What ``birdlab check`` does with the section ``training`` of a recipe: its models, and the split of the study."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from birdlab.check.note import Found, caught
from birdlab.recipe import Recipe


def check_models(recipe: Recipe, base: Path) -> list[Found]:
    """What cannot be trained: architectures, settings, weights to start from. No library is imported, nothing is built.

    Args:
        recipe: the recipe.
        base: its folder.
    """
    section = recipe.training
    if section is None:
        return []

    def look() -> Iterable[Found]:
        from birdlab.training.train import check_models

        check_models(section.models, base=base)
        return []

    return caught(look)


def with_twins(media: pl.DataFrame) -> pl.DataFrame:
    """Table ``media`` with the hashes of those files that have the size of another one; only these can be copies."""
    from birdlab.readers.fingerprint import file_state

    sizes = [_size(Path(path)) for path in media["path"]]
    sized = media.with_columns(pl.Series("_size", sizes, dtype=pl.Int64))
    twin = pl.col("_size").is_not_null() & pl.col("_size").is_duplicated() & pl.col("sha256").is_null()
    paths = sized.filter(twin)["path"].to_list()
    hashes = {path: state[2] for path in paths if (state := file_state(path))}
    found = pl.col("path").replace_strict(hashes, default=None, return_dtype=pl.String)
    return sized.with_columns(pl.col("sha256").fill_null(found)).drop("_size")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def check_split(recipe: Recipe, frames: pl.DataFrame, labels: pl.DataFrame, media: pl.DataFrame) -> list[Found]:
    """Whether the study can be split as the section asks, what would leak, and whether train and val have birds.

    No picture is decoded: frames that look alike without being the same bytes are found only when the run decodes them.

    Args:
        recipe: the recipe.
        frames, labels, media: tables of the study.
    """
    section = recipe.training
    if section is None:
        return []

    def look() -> Iterable[Found]:
        from birdlab.training.data import TrainingData, check_tasks
        from birdlab.training.leaks import find_leaks, levels_of, refuse_leaks
        from birdlab.training.splits import make_splits

        # A stand-in for the hashes: the split does not depend on them, and reading every file takes long.
        named = media.with_columns(pl.col("sha256").fill_null(pl.col("media_id")))
        splits = make_splits(frames, labels, section.split, media=named)
        leaks = find_leaks(frames, with_twins(media), splits.table)
        refuse_leaks(leaks, levels_of(splits.level, section.split.refuse))
        parts = splits.table.select("frame_id", pl.col("split").cast(pl.String))
        data = TrainingData(frames, labels, media, parts, tuple(recipe.data.categories))
        check_tasks(data, [spec.task for spec in section.models])
        return []

    return caught(look)
