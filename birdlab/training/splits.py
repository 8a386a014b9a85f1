"""Frames into train, val and test: whole sites where there are enough of them, else whole sessions.

A detector that is tested on sessions it was trained on is tested on its memory. So a part takes a site or a session whole,
and of all ways to do that the one is taken in which the parts are most alike (:mod:`birdlab.training.stratify`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.files import nearest
from birdlab.recipe.training import Level, Splitting
from birdlab.shards import digest
from birdlab.training.leaks import levels_of, same_frame, with_day
from birdlab.training.stratify import deviations, divide, group_counts

PARTS = ("train", "val", "test")
TABLE_SCHEMA = {"frame_id": pl.String, "split": pl.Enum(PARTS), "sha256": pl.String}
GROUP_SCHEMA = {
    **{"group": pl.String, "split": pl.Enum(PARTS), "is_fixed": pl.Boolean, "sites": pl.List(pl.String)},
    **{"sessions": pl.List(pl.String), "frames": pl.Int64, "empty": pl.Int64, "birds": pl.Int64},
}


@dataclass(frozen=True)
class Splits:
    """Which part every labelled frame belongs to.

    Args:
        table: ``frame_id``, ``split`` and ``sha256`` (of the frame's content; null where its file was not given or cannot
            be read), sorted by frame_id. Unlabelled frames are not in it.
        groups: one row per site or session kept whole: ``group``, ``split``, ``is_fixed``, ``sites``, ``sessions``,
            ``frames``, ``empty``, ``birds``.
        level: ``site`` or ``session``.
        reason: why that level, and how the division was found, in one or two sentences.
        shares: the share of the labelled frames that each part should have.
        deviations: how far the parts are from their shares, see :func:`birdlab.training.stratify.deviations`.
        n_unlabelled: frames that nobody looked at: in no part.
        seed: that chose between equal divisions.
        sha256: digest of every frame's part and content; two equal ones are the same split of the same pictures.
    """

    table: pl.DataFrame
    groups: pl.DataFrame
    level: Level
    reason: str
    shares: dict[str, float]
    deviations: dict[str, float]
    n_unlabelled: int
    seed: int
    sha256: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that have frames, in the order train, val, test."""
        have = set(self.table["split"].cast(pl.String).unique().to_list())
        return tuple(p for p in PARTS if p in have)

    def apply(self, frames: pl.DataFrame) -> pl.DataFrame:
        """The rows of ``frames`` that are in a part, with that part as their ``split``."""
        part = self.table.select("frame_id", pl.col("split").cast(frames.schema["split"]).alias("_part"))
        joined = frames.join(part, on="frame_id", how="inner", maintain_order="left")
        return joined.with_columns(pl.col("_part").alias("split")).drop("_part")


def make_splits(
    frames: pl.DataFrame, labels: pl.DataFrame, spec: Splitting, *, media: pl.DataFrame | None = None
) -> Splits:
    """Divide the labelled frames of a study into parts that share no site, or no session.

    Sites are used if every frame has one and there are at least as many as parts, else sessions. Sites that share a session
    are one group; so are sessions of one day at one site where a leak by date would be refused and ``media`` tells the
    days. Frames without birds are kept and spread like the others; unlabelled ones are left out and counted. The result
    depends on the seed and not on the order of rows.

    Args:
        frames: table ``frames``; its own ``split`` is not looked at.
        labels: table ``labels``.
        spec: the recipe's ``training.split``.
        media: table ``media``, for the days and for the hashes of the frames' content (a file without one is hashed).

    Raises:
        DataError: nothing is labelled; too few sites or sessions to keep them whole.
        ParameterError: ``fixed`` names no site or session, or puts one thing into two parts.
    """
    known = frames.filter(pl.col("label_state") != "unlabelled").sort("frame_id")
    if known.is_empty():
        raise DataError(_problem("no_labels", f"{frames.height} frames, none of them labelled", "labelled frames"))
    birds = labels.filter(~pl.col("is_ignored") & ~pl.col("is_crowd")).join(known, on="frame_id", how="semi")
    shares = {p: spec.shares.get(p, 0.0) for p in PARTS if spec.shares.get(p, 0.0) > 0 or p in spec.fixed.values()}
    level, group, why = _level(known, spec, sum(s > 0 for s in shares.values()), media)
    names, counts = group_counts(known, birds, group)
    fixed = _fixed(known.with_columns(group.alias("group")), frames, spec.fixed)
    parts = list(shares)
    numbers = {names.index(g): parts.index(p) for g, p in fixed.items()}
    chosen, is_best = divide(counts, list(shares.values()), fixed=numbers, seed=spec.seed)
    _check_parts(chosen, shares, level)
    part_of = {g: parts[k] for g, k in zip(names, chosen, strict=True)}
    table = known.select("frame_id", group.replace_strict(part_of, return_dtype=pl.String).alias("split"))
    table = table.join(frame_hashes(known, media), on="frame_id", how="left").cast(TABLE_SCHEMA)
    how = "all divisions were tried" if is_best else "found by a greedy start and swaps"
    return Splits(
        table.sort("frame_id"),
        _groups(known.with_columns(group.alias("group")), birds, part_of, fixed),
        level,
        f"{why}; of the divisions that keep them whole the most even one ({how})",
        shares,
        deviations(counts, chosen, list(shares.values())),
        frames.height - known.height,
        spec.seed,
        split_digest(table),
    )


def split_digest(table: pl.DataFrame) -> str:
    """sha256 of every frame's part and content, whatever the order of rows.

    Args:
        table: ``frame_id``, ``split``, ``sha256``.
    """
    return digest(
        [
            list(row)
            for row in table.select("frame_id", pl.col("split").cast(pl.String), "sha256").sort("frame_id").rows()
        ]
    )


def frame_hashes(frames: pl.DataFrame, media: pl.DataFrame | None) -> pl.DataFrame:
    """Hash of every frame's content: of the photograph's bytes, or of the video's and the frame's place in it.

    Returns:
        ``frame_id`` and ``sha256``; null where ``media`` is not given, lacks the file, or it cannot be read.
    """
    if media is None:
        return frames.select("frame_id", pl.lit(None, pl.String).alias("sha256"))
    used = media.join(frames, on="media_id", how="semi").select("media_id", "sha256", "path")
    hashes = {m: known or _hash(path) for m, known, path in used.rows()}
    of_file = pl.col("media_id").replace_strict(hashes, default=None, return_dtype=pl.String).alias("sha256")
    whole = pl.col("frame_id") == pl.col("media_id")
    return frames.with_columns(of_file).select(
        "frame_id", pl.when(whole).then("sha256").otherwise(same_frame()).alias("sha256")
    )


def _hash(path: str) -> str | None:
    from birdlab.readers.fingerprint import file_state

    state = file_state(path)
    return state[2] if state else None


def _level(
    known: pl.DataFrame, spec: Splitting, n_parts: int, media: pl.DataFrame | None
) -> tuple[Level, pl.Series, str]:
    """The level, the group of every frame, and why."""
    if spec.by != "session":
        without = int(known["site_id"].is_null().sum())
        group = _tied(known, ["site_id", "video_id"]) if not without else known["video_id"]
        n = known["site_id"].drop_nulls().n_unique()
        n_whole = group.n_unique()
        if not without and n_whole >= n_parts:
            tied = f" in {n_whole} groups that share no session" if n_whole < n else ""
            return "site", group, f"whole sites: there are {n}{tied} for {n_parts} parts"
        found = f"{n} {'site' if n == 1 else 'sites'}"
        if without:
            found = f"{without} of {known.height} frames have no site"
        elif n_whole < n:
            found += f" that share sessions ({n_whole} in groups that share none)"
        if spec.by == "site":
            remedy = "set training.split.by to session, or name the sites in data.media"
            expected = f"a site for every frame, and at least {n_parts} sites"
            raise DataError(_problem("few_sites", found, expected, remedy))
        why = f"whole sessions: {found}" + ("" if without else f", fewer than {n_parts} parts")
    else:
        why = "whole sessions, as the recipe asks"
    n = known["video_id"].n_unique()
    group = known["video_id"]
    if media is not None and "date" in levels_of("session", spec.refuse):
        group = _tied(with_day(known, media), ["video_id", "_day"])
        if group.n_unique() < n:
            why += f"; {n} sessions make {group.n_unique()} groups, those of one day at one site stay together"
    if group.n_unique() < n_parts:
        raise DataError(_few_sessions(group, n, n_parts, known))
    return "session", group, why


def _few_sessions(group: pl.Series, n: int, n_parts: int, known: pl.DataFrame) -> Problem:
    n_groups = group.n_unique()
    if n == 1:
        remedy = (
            "a score on frames of the session it was trained on says nothing of another: record a second one, "
            "or name sessions within it by data.media[].session"
        )
        return _problem(
            "one_session", f"one session, {known['video_id'][0]}", f"{n_parts} of them, one per part", remedy
        )
    if n_groups < n:
        remedy = "record on other days, or leave date out of training.split.refuse"
        found = f"{n} sessions on {n_groups} days and places"
        return _problem("few_sessions", found, f"{n_parts} of them, one per part", remedy)
    remedy = "record more, or set the share of val or test to 0"
    return _problem("few_sessions", f"{n} sessions", f"{n_parts} of them, one per part", remedy)


def _problem(code: str, found: str, expected: str, remedy: str = "", key: str = "training.split") -> Problem:
    return Problem(code, found, expected, remedy, key=key)


def _tied(frames: pl.DataFrame, columns: list[str]) -> pl.Series:
    """The group of every row: rows that share a value of any column are in one, named after its first values.

    A null ties nothing. The name is the alphabetically first value of the first column.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = frames.select(columns).unique()
    first = pairs[columns[0]].unique().sort().to_list()
    node = {(0, value): k for k, value in enumerate(first)}
    edges = []
    for value, other in pairs.rows():
        if other is not None:
            edges.append((node[(0, value)], node.setdefault((1, other), len(node))))
    rows, cols = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    _, label = connected_components(coo_array((np.ones(len(rows)), (rows, cols)), shape=(len(node), len(node))), False)
    name: dict[int, str] = {}
    for value in first:
        name.setdefault(int(label[node[(0, value)]]), value)
    of = {value: name[int(label[node[(0, value)]])] for value in first}
    return frames[columns[0]].replace_strict(of, return_dtype=pl.String).alias("group")


def _fixed(known: pl.DataFrame, frames: pl.DataFrame, fixed: Mapping[str, str]) -> dict[str, str]:
    """Group to the part that the recipe asks for."""
    part: dict[str, tuple[str, str]] = {}
    problems = []
    for name, wanted in fixed.items():
        of = known.filter((pl.col("site_id") == name) | (pl.col("video_id") == name))["group"].unique().sort().to_list()
        if not of:
            problems += _unknown_fixed(name, frames)
        for group in of:
            other = part.setdefault(group, (name, wanted))
            if other[1] != wanted:
                found = f"{other[0]} in {other[1]} and {name} in {wanted}, which must stay together"
                remedy = "put both into one part, or split by session"
                problems.append(_problem("fixed_twice", found, "one part", remedy, "training.split.fixed"))
    if problems:
        raise ParameterError(problems)
    return {group: wanted for group, (_, wanted) in part.items()}


def _unknown_fixed(name: str, frames: pl.DataFrame) -> list[Problem]:
    there = {*frames["site_id"].drop_nulls(), *frames["video_id"]}
    if name in there:  # a session that nobody labelled has no frame to put anywhere
        return []
    near = ", ".join(nearest(name, sorted(there), 2))
    expected = f"a site or session of the study, such as {near}"
    return [_problem("unknown_group", f"{name!r}", expected, "correct the name", "training.split.fixed")]


def _check_parts(chosen: np.ndarray, shares: dict[str, float], level: str) -> None:
    lost = [p for k, (p, share) in enumerate(shares.items()) if share > 0 and not (chosen == k).any()]
    if lost:
        remedy = f"leave more {level}s out of training.split.fixed"
        raise ParameterError(
            _problem(
                "empty_part",
                f"no {level} left for {' and '.join(lost)}",
                "one per part",
                remedy,
                "training.split.fixed",
            )
        )


def _groups(known: pl.DataFrame, birds: pl.DataFrame, part_of: dict[str, str], fixed: dict[str, str]) -> pl.DataFrame:
    counted = known.join(birds.group_by("frame_id").len("birds"), on="frame_id", how="left")
    out = counted.group_by("group").agg(
        pl.col("site_id").drop_nulls().unique().sort().alias("sites"),
        pl.col("video_id").unique().sort().alias("sessions"),
        pl.len().alias("frames"),
        (pl.col("label_state") == "empty").sum().alias("empty"),
        pl.col("birds").sum(),
    )
    out = out.with_columns(
        pl.col("group").replace_strict(part_of, return_dtype=pl.String).alias("split"),
        pl.col("group").is_in(list(fixed)).alias("is_fixed"),
    )
    return out.select(*GROUP_SCHEMA).cast(GROUP_SCHEMA).sort("split", "group")  # type: ignore[arg-type]
