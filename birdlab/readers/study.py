"""From a recipe to the tables of a study: media, frames, labels, second labels, notices."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, ManifestError, ParameterError, Problem
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.fingerprint import file_state, read_hashes, relative_key
from birdlab.readers.labels import LabelSet, locate, read_labels
from birdlab.readers.names import index_names
from birdlab.recipe import Recipe

if TYPE_CHECKING:
    from birdlab.study import Run

_STATE = pl.Enum(schemas.LABEL_STATES)
_IS_IMAGE = pl.col("kind").cast(pl.String) == "image"
#: What a label file may say of a photograph where the recipe does not.
_FREE = ("session", "site", "camera")


@dataclass(frozen=True)
class StudyTables:
    """What was recorded and labelled.

    ``frames`` has the further column ``second_label_state``: what the second labelling found, null where it did not
    look. ``notices`` has the columns code, message, n, file: everything skipped, merged, mapped or assumed.
    """

    media: pl.DataFrame
    frames: pl.DataFrame
    labels: pl.DataFrame
    second_labels: pl.DataFrame
    notices: pl.DataFrame


def read_study(recipe: Recipe, base: Path, root: Path) -> StudyTables:
    """Read everything that a recipe's ``data`` names, except pixels.

    A frame that no label file mentions is ``unlabelled``, or ``empty`` where every label entry says
    ``unlisted: empty``.

    Args:
        recipe: the study.
        base: folder of the recipe; label paths start there.
        root: folder of the data; media globs start there.

    Raises:
        DataError: every problem of every media and label entry, in one error.
        ParameterError: an entry has settings that do not belong together.
    """
    media, frames, notices = _read_media(recipe, root)
    names = index_names(frames, root)
    sets: list[LabelSet] = []
    problems: list[Problem] = []
    for spec in recipe.data.labels:
        try:
            sets.append(read_labels(spec, frames, names, base=base, categories=recipe.data.categories))
        except DataError as error:
            problems += error.problems
    first = [s for s in sets if s.spec and not s.spec.second]
    second = [s for s in sets if s.spec and s.spec.second]
    problems += _labelled_twice(first) + _labelled_twice(second)
    if problems:
        raise DataError(problems)
    notices += [n for s in sets for n in s.notices]
    media, frames, notices = _apply_facts(media, frames, first, notices)
    frames, more = _apply_states(frames, first, second)
    return StudyTables(
        schemas.validate("media", media, source=f"media of {recipe.name}"),
        schemas.validate("frames", frames, source=f"frames of {recipe.name}"),
        schemas.validate("labels", _join_labels(first), source=f"labels of {recipe.name}"),
        schemas.validate("labels", _join_labels(second), source=f"second labels of {recipe.name}"),
        notice_table([*notices, *more]),
    )


def _read_media(recipe: Recipe, root: Path) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    from birdlab.readers.images import read_images
    from birdlab.readers.video import read_videos

    parts, notices, problems = [], [], []
    for entry in recipe.data.media:
        read = read_images if entry.images is not None else read_videos
        try:
            media, frames, found = read(entry, root, recipe.name)
        except ParameterError:
            raise
        except DataError as error:
            problems += error.problems
            continue
        # What the recipe says of a file wins over what a label file says of it.
        free = [pl.lit(getattr(entry, key) is None and entry.images is not None).alias(f"free_{key}") for key in _FREE]
        parts.append((media, frames.with_columns(free)))
        notices += found
    if problems:
        raise DataError(problems)
    if not parts:
        raise DataError(
            Problem("no_media", "no media", "images or videos", "give data.media in the recipe", key="data.media")
        )
    media = pl.concat([m for m, _ in parts], how="diagonal_relaxed")
    twice = media.filter(pl.col("media_id").is_duplicated())["media_id"].unique(maintain_order=True).to_list()
    if twice:
        found = f"{len(twice)} files in more than one entry, e.g. {twice[0]}"
        raise DataError(
            Problem("media_twice", found, "each file in one entry", "make the globs disjoint", key="data.media")
        )
    return media, pl.concat([f for _, f in parts], how="diagonal_relaxed"), notices


def _labelled_twice(sets: list[LabelSet]) -> list[Problem]:
    seen: dict[str, str] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for labels in sets:
        path = labels.spec.path if labels.spec else ""
        for frame_id in sorted(labels.looked_at):
            other = seen.setdefault(frame_id, path)
            if other != path:
                pairs[other, path] += 1
                example.setdefault((other, path), frame_id)
    remedy = "mark one of them `second: true`, or take the pictures out of one"
    return [
        Problem(
            "labelled_twice",
            f"{n} of its pictures labelled in {a} too, e.g. {example[a, b]}",
            "one labelling",
            remedy,
            file=b,
        )
        for (a, b), n in pairs.items()
    ]


def _apply_facts(
    media: pl.DataFrame, frames: pl.DataFrame, sets: list[LabelSet], notices: list[Notice]
) -> tuple[pl.DataFrame, pl.DataFrame, list[Notice]]:
    """Sessions, sites, cameras and times of photographs that a label file gives where the recipe is silent."""
    known = [s.facts for s in sets if s.facts is not None]
    columns = frames.columns
    free = [f"free_{key}" for key in _FREE]
    if known:
        facts = pl.concat(known, how="diagonal_relaxed")
        given = {"session": "video_id", "site": "site_id", "camera": "camera_id"}
        frames = frames.join(facts, on="frame_id", how="left", maintain_order="left")
        for key, column in given.items():
            if key in facts.columns:
                value = pl.when(pl.col(f"free_{key}")).then(pl.col(key))
                frames = frames.with_columns(pl.coalesce(value, pl.col(column)).alias(column))
        if "session" in facts.columns:
            notices = _session_notices(frames, notices)
        media = _follow(media, frames)
        frames = _times(frames, media)
        at = frames.filter(pl.col("frame_id") == pl.col("media_id")).select("media_id", "time_s")
        media = media.join(at, on="media_id", how="left", maintain_order="left")
        media = media.with_columns(pl.when(_IS_IMAGE).then("time_s").otherwise("start_s").alias("start_s")).drop(
            "time_s"
        )
    return media, frames.select([c for c in columns if c not in free]), notices


def _session_notices(frames: pl.DataFrame, notices: list[Notice]) -> list[Notice]:
    n = frames.filter(pl.col("free_session") & pl.col("session").is_not_null()).height
    left = frames.filter(pl.col("free_session") & pl.col("session").is_null()).height
    kept = [m for m in notices if m.code != "session_assumed"] if not left else notices
    return (
        [*kept, Notice("session_from_labels", "pictures whose session is the one that the label file names", n)]
        if n
        else notices
    )


def _follow(media: pl.DataFrame, frames: pl.DataFrame) -> pl.DataFrame:
    """Session, site and camera of photographs as their frame has them, and the start on the session's clock."""
    ids = ("video_id", "site_id", "camera_id")
    still = frames.filter(pl.col("frame_id") == pl.col("media_id")).select("media_id", *ids)
    media = media.join(still, on="media_id", how="left", suffix="_new", maintain_order="left")
    media = media.with_columns(
        pl.when(_IS_IMAGE).then(pl.col(f"{name}_new")).otherwise(pl.col(name)).alias(name) for name in ids
    ).drop(f"{name}_new" for name in ids)
    since = pl.col("recorded_at") - pl.col("recorded_at").min().over("video_id")
    start = (since.dt.total_microseconds() / 1e6).alias("start_s")
    return media.with_columns(pl.when(_IS_IMAGE).then(start).otherwise(pl.col("start_s")).alias("start_s"))


def _times(frames: pl.DataFrame, media: pl.DataFrame) -> pl.DataFrame:
    """Time of photographs: as the label file gives it, else frame number / frame rate, else by EXIF, else null."""
    kinds = media.select("media_id", pl.col("kind").cast(pl.String), pl.col("start_s").alias("by_exif"))
    frames = frames.join(kinds, on="media_id", how="left", maintain_order="left")
    given = [pl.col("time_s_right")] if "time_s_right" in frames.columns else []
    if {"frame", "fps"} <= set(frames.columns):
        given.append(pl.when(pl.col("fps") > 0).then(pl.col("frame") / pl.col("fps")))
    still = pl.coalesce(*given, pl.col("by_exif"))
    return frames.with_columns(
        pl.when(pl.col("kind") == "image").then(still).otherwise(pl.col("time_s")).alias("time_s")
    )


def _apply_states(
    frames: pl.DataFrame, first: list[LabelSet], second: list[LabelSet]
) -> tuple[pl.DataFrame, list[Notice]]:
    states = {k: v for s in first for k, v in s.states().items()}
    splits = {k: s.spec.split for s in first if s.spec and s.spec.split for k in s.looked_at}
    again = {k: v for s in second for k, v in s.states().items()}
    rules = {s.spec.unlisted for s in first if s.spec}
    unlisted = "empty" if rules == {"empty"} else "unlabelled"
    ids = pl.col("frame_id")
    n_unlisted = frames.filter(~ids.is_in(list(states))).height
    frames = frames.with_columns(
        ids.replace_strict(states, default=unlisted, return_dtype=pl.String).cast(_STATE).alias("label_state"),
        ids.replace_strict(again, default=None, return_dtype=pl.String).cast(_STATE).alias("second_label_state"),
    )
    if splits:
        split = ids.replace_strict(splits, default=None, return_dtype=pl.String)
        frames = frames.with_columns(pl.coalesce(split, pl.col("split").cast(pl.String)).alias("split"))
    notices = []
    if n_unlisted and first:
        text = f"frames that no label file mentions are taken as {unlisted}"
        notices.append(Notice("frames_unlisted", text, n_unlisted))
    return frames, notices


def _join_labels(sets: list[LabelSet]) -> pl.DataFrame:
    if not sets:
        return schemas.empty("labels")
    labels = pl.concat([s.labels for s in sets], how="diagonal_relaxed")
    if labels["label_id"].is_duplicated().any():
        # Two COCO files number their annotations from 1; the frame makes the identifier unique again.
        labels = labels.with_columns(pl.concat_str("source", pl.lit(":"), "label_id").alias("label_id"))
    return labels


def build(run: Run) -> dict[str, pl.DataFrame]:
    """The tables ``media``, ``frames``, ``labels``, ``second_labels`` and ``notices`` of a run.

    Data that birdlab makes itself (``data.generator``) are made first, unless they are there already.
    """
    if run.recipe.data.generator:
        from birdlab.demo.generators import make_data

        make_data(run.recipe.data.generator, run.data_root)
    _verify(run)
    study = read_study(run.recipe, run.base, run.data_root)
    known = read_hashes(run.dir / "hashes.json")
    paths = study.media["path"].to_list()
    with ThreadPoolExecutor(4) as pool:
        hashes = list(pool.map(lambda path: known.get(relative_key(path, run.base)) or file_state(path), paths))
    media = study.media.with_columns(pl.Series("sha256", [h[2] if h else None for h in hashes], dtype=pl.String))
    return {
        "media": media,
        "frames": study.frames,
        "labels": study.labels,
        "second_labels": study.second_labels,
        "notices": study.notices,
    }


def _verify(run: Run) -> None:
    """Hold the files against the recipe's manifest, where it names one; hashes known from an earlier look are used again."""
    from birdlab.manifest import hash_file_or_error, verify

    name = run.recipe.data.manifest
    if not name or run.recipe.data.generator:
        return
    known = read_hashes(run.dir / "hashes.json")

    def hasher(path: Path, algorithm: str) -> str | DataError:
        entry = known.get(relative_key(str(path.absolute()), run.base)) if algorithm == "sha256" else None
        status = path.stat() if entry else None
        if entry and status and (status.st_size, status.st_mtime_ns) == entry[:2]:
            return entry[2]
        return hash_file_or_error(path, algorithm)

    problems = verify(locate(name, run.base, run.data_root), run.data_root, hasher=hasher)
    if problems:
        raise ManifestError(problems)
