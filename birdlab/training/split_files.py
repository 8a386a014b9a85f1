"""Splits on disk: one JSON file with every frame's part and content hash, that is refused when anything has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.jsonfile import read_json
from birdlab.readers.files import at_most
from birdlab.shards import write_atomic
from birdlab.training.splits import GROUP_SCHEMA, PARTS, TABLE_SCHEMA, Splits, frame_hashes, split_digest

#: Version of the file's layout.
VERSION = 1
_KEYS = ("version", "sha256", "level", "reason", "seed", "shares", "deviations", "n_unlabelled", "groups", "frames")
_REMEDY = "split again: scores of models trained on the old split do not carry over"


def write_splits(path: str | Path, splits: Splits) -> None:
    """Write splits as JSON, by a temporary file and a rename; the same splits give the same bytes."""
    content = {
        "version": VERSION,
        "sha256": splits.sha256,
        "level": splits.level,
        "reason": splits.reason,
        "seed": splits.seed,
        "shares": splits.shares,
        "deviations": splits.deviations,
        "n_unlabelled": splits.n_unlabelled,
        "groups": splits.groups.to_dicts(),
        "frames": splits.table.to_dicts(),
    }
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    write_atomic(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_splits(path: str | Path, frames: pl.DataFrame | None = None, *, media: pl.DataFrame | None = None) -> Splits:
    """Read what :func:`write_splits` wrote, and compare it with the study.

    Args:
        path: the file.
        frames: table ``frames``; None to check only that the file is whole and unchanged.
        media: table ``media``, to compare the content of every frame too.

    Raises:
        DataError: the file is no splits file or was edited; a frame of the split is missing or has changed, or a labelled
            frame of the study is in no part. The frames are named, the first 20 of them.
    """
    path = Path(path)
    content = read_json(path)
    splits = _parse(content, str(path))
    if split_digest(splits.table) != splits.sha256:
        found = f"frames whose digest is {split_digest(splits.table)[:12]}…"
        expected = f"{splits.sha256[:12]}…, as written in it"
        raise DataError(Problem("splits_edited", found, expected, "restore it, or split again", file=str(path)))
    if frames is not None:
        _compare(splits, frames, media, str(path))
    return splits


def _parse(content: Any, file: str) -> Splits:
    missing = [k for k in _KEYS if k not in content] if isinstance(content, dict) else list(_KEYS)
    if missing:
        expected = "a splits file as birdlab writes it"
        raise DataError(Problem("not_splits", f"no {', '.join(missing[:3])}", expected, file=file))
    if content["version"] != VERSION:
        found, expected = f"version {content['version']!r:.20}", f"version {VERSION}"
        raise DataError(Problem("splits_version", found, expected, "split again", file=file, key="version"))
    try:
        table = pl.DataFrame(content["frames"], schema=TABLE_SCHEMA)
        groups = pl.DataFrame(content["groups"], schema=GROUP_SCHEMA)
        shares = {p: float(s) for p, s in content["shares"].items() if p in PARTS}
        off = {str(k): float(v) for k, v in content["deviations"].items()}
        numbers = int(content["n_unlabelled"]), int(content["seed"])
    except (pl.exceptions.PolarsError, TypeError, ValueError, AttributeError) as error:
        detail = str(error).splitlines()[0][:100]
        raise DataError(Problem("not_splits", detail, "a splits file as birdlab writes it", file=file)) from error
    texts = [content[k] for k in ("level", "reason", "sha256")]
    nulls = [frame.null_count().sum_horizontal().sum() for frame in (table.drop("sha256"), groups)]
    if not all(isinstance(t, str) for t in texts) or texts[0] not in ("site", "session") or any(nulls):
        found = "a null, a number or another word where text belongs"
        raise DataError(Problem("not_splits", found, "a splits file as birdlab writes it", file=file))
    twice = table.filter(pl.col("frame_id").is_duplicated())
    if twice.height:
        raise DataError(Problem("frame_twice", twice["frame_id"][0], "every frame once", file=file, key="frames"))
    return Splits(table, groups, texts[0], texts[1], shares, off, *numbers, texts[2])


def _compare(splits: Splits, frames: pl.DataFrame, media: pl.DataFrame | None, file: str) -> None:
    known = frames.filter(pl.col("label_state") != "unlabelled")
    gone = splits.table.join(frames, on="frame_id", how="anti")["frame_id"].to_list()
    bare = splits.table.join(frames, on="frame_id", how="semi").join(known, on="frame_id", how="anti")
    new = known.join(splits.table, on="frame_id", how="anti")["frame_id"].sort().to_list()
    problems = [Problem("frame_gone", f"no frame {f}", "the frames that were split", _REMEDY, file=file) for f in gone]
    for frame_id in bare["frame_id"]:
        problems.append(Problem("frame_unlabelled", f"{frame_id} without labels", "its labels", _REMEDY, file=file))
    if media is not None:
        there = known.join(splits.table.select("frame_id"), on="frame_id", how="semi")
        now = frame_hashes(there, media).rename({"sha256": "now"})
        changed = splits.table.join(now, on="frame_id").filter(
            pl.col("sha256").is_not_null() & pl.col("sha256").ne_missing(pl.col("now"))
        )
        for frame_id, was, is_now in changed.select("frame_id", "sha256", "now").sort("frame_id").rows():
            found = f"{frame_id} with content {is_now[:12] + '…' if is_now else 'that cannot be read'}"
            problems.append(Problem("frame_changed", found, f"{was[:12]}…, as it was split", _REMEDY, file=file))
    for frame_id in new:
        found = f"{frame_id}, labelled and in no part"
        problems.append(Problem("frame_not_split", found, "a part for every labelled frame", _REMEDY, file=file))
    if problems:
        raise DataError(at_most(problems))
