"""What a protocol gives away: videos, tracks, images and days in two roles, and lists that cannot hold the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from birdlab.schemas.reid import REID_SPLITS

CLEAN, LEAK, REMARK, UNKNOWN = "clean", "leak", "remark", "cannot be checked"
COLUMNS = {
    "split": pl.Enum(REID_SPLITS), "check": pl.String, "n": pl.Int64, "n_of": pl.Int64, "example": pl.String,
    "verdict": pl.String, "reason": pl.String,
}  # fmt: skip
#: Check → what is counted, of what.
CHECKS = {
    "video_in_two_roles": "videos with clips in two roles, of the videos of the protocol",
    "video_in_query_and_gallery": "queries with a gallery clip of their video, of the queries",
    "track_in_two_roles": "tracks with clips in two roles, of the tracks of the protocol",
    "image_in_two_clips": "images that two clips share, of the images of the protocol",
    "image_in_two_roles": "images in two roles, of the images of the protocol",
    "bird_learned_and_asked": "birds that are learned from and asked for or shown, of the birds (disjoint)",
    "same_day": "queries with a gallery clip of the same bird and day, of the queries of known birds",
    "query_before_gallery": "queries with a later gallery clip of the same bird, of the queries of known birds",
    "no_clip_of_the_year": "queries whose bird has no gallery clip of their year, of the queries of known birds",
    "no_list": "queries without a list, of the queries",
    "empty_list": "queries whose list is empty, of the queries",
    "bird_not_in_list": "queries whose bird is not in their list, of the queries with a list",
}
#: Checks that find no leak, but what to know when numbers are read.
_REMARKS = ("same_day", "no_clip_of_the_year", "no_list", "empty_list", "bird_not_in_list")
_Row = dict[str, Any]


def leakage(
    clips: pl.DataFrame, images: pl.DataFrame, roles: pl.DataFrame, candidates: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Check every protocol that has roles.

    Args:
        clips, images, roles: tables ``reid_clips``, ``reid_images``, ``reid_roles``.
        candidates: table ``reid_candidates``; None: lists are not checked.

    Returns:
        split, check (:data:`CHECKS` says what is counted), n, n_of, example, verdict, reason. Verdicts: ``clean`` (n is
        0), ``leak``, ``remark`` (no leak, but to be known: lists, years), ``cannot be checked`` with null counts and
        the reason. Roles of training count as roles; two queries, or two clips of the gallery, are one role. Where only
        some clips have a day or track, these are checked and the reason counts the others.

    >>> clips = pl.DataFrame({"clip_id": ["c1", "c2"], "video_id": ["v", "v"], "individual_id": ["a", "a"]})
    >>> roles = pl.DataFrame({"split": ["closed"] * 2, "clip_id": ["c1", "c2"], "role": ["gallery", "query"], "is_known": [True] * 2})
    >>> leakage(clips, pl.DataFrame(schema={"clip_id": pl.String, "image": pl.String}), roles).row(0)[:6]
    ('closed', 'video_in_two_roles', 1, 1, 'v', 'leak')
    """
    for name, dtype in (("track_id", pl.String), ("date", pl.Date), ("year", pl.Int32)):
        if name not in clips.columns:
            clips = clips.with_columns(pl.lit(None, dtype=dtype).alias(name))
    roles = roles.with_columns(pl.col("split", "role").cast(pl.String))
    rows: list[_Row] = []
    for split in (s for s in REID_SPLITS if (roles["split"] == s).any()):
        mine = roles.filter(pl.col("split") == split).join(clips, on="clip_id", maintain_order="left")
        found = [*_roles(mine, split), *_pictures(mine, images), *_times(mine), *_lists(mine, candidates)]
        rows += [{"split": split, **row} for row in found]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _row(check: str, n: int, n_of: int, example: str | None = None, reason: str | None = None) -> _Row:
    verdict = CLEAN if not n else REMARK if check in _REMARKS else LEAK
    return {"check": check, "n": n, "n_of": n_of, "example": example if n else None, "verdict": verdict,
            "reason": reason}  # fmt: skip


def _cannot(check: str, reason: str) -> _Row:
    return {"check": check, "n": None, "n_of": None, "example": None, "verdict": UNKNOWN, "reason": reason}


def _two_roles(mine: pl.DataFrame, column: str, check: str) -> _Row:
    each = mine.group_by(column).agg(pl.col("role").n_unique().alias("roles")).sort(column)
    several = each.filter(pl.col("roles") > 1)
    return _row(check, several.height, each.height, several[column][0] if several.height else None)


def _roles(mine: pl.DataFrame, split: str) -> Iterator[_Row]:
    yield _two_roles(mine, "video_id", "video_in_two_roles")
    asked, gallery = (mine.filter(pl.col("role") == role) for role in ("query", "gallery"))
    same = asked.join(gallery.select("video_id").unique(), on="video_id", how="semi", maintain_order="left")
    yield _row("video_in_query_and_gallery", same.height, asked.height, _first(same))
    tracks = mine.filter(pl.col("track_id").is_not_null())
    if tracks.is_empty():
        yield _cannot("track_in_two_roles", "tracks are not known")
    else:
        yield _tracks(mine, tracks)
    if split == "disjoint":
        learned = mine.filter(pl.col("role") == "train").select("individual_id").unique()
        both = learned.join(mine.filter(pl.col("role") != "train"), on="individual_id", how="semi").sort(
            "individual_id"
        )
        if learned.is_empty():
            yield _cannot("bird_learned_and_asked", "no clip is learned from")
        else:
            n_of = mine["individual_id"].n_unique()
            yield _row("bird_learned_and_asked", both.height, n_of, both["individual_id"][0] if both.height else None)


def _tracks(mine: pl.DataFrame, tracks: pl.DataFrame) -> _Row:
    without, reasons = mine.height - tracks.height, []
    # Numbers that start anew in each video are of several birds: then a track is known by video and name.
    if tracks.select("track_id", "individual_id").unique().height > tracks["track_id"].n_unique():
        tracks = tracks.with_columns(pl.format("{}/{}", "video_id", "track_id").alias("track_id"))
        reasons.append("names of tracks recur: a track is one within its video")
    if without:
        reasons.append(f"{without} clips without a track are not checked")
    return _two_roles(tracks, "track_id", "track_in_two_roles") | {"reason": "; ".join(reasons) or None}


def _pictures(mine: pl.DataFrame, images: pl.DataFrame) -> Iterator[_Row]:
    named = images.select("clip_id", "image").join(mine.select("clip_id", "role"), on="clip_id")
    if named.is_empty():
        for check in ("image_in_two_clips", "image_in_two_roles"):
            yield _cannot(check, "images are not known")
        return
    n = named["image"].n_unique()
    # As a rule no image comes twice: only those that do are looked at.
    rows = named if n < named.height else named.clear()
    rows = rows.filter(pl.col("image").is_duplicated())
    each = rows.group_by("image").agg(pl.col("clip_id", "role").n_unique()).sort("image")
    for check, column in (("image_in_two_clips", "clip_id"), ("image_in_two_roles", "role")):
        several = each.filter(pl.col(column) > 1)
        yield _row(check, several.height, n, several["image"][0] if several.height else None)


def _times(mine: pl.DataFrame) -> Iterator[_Row]:
    asked = mine.filter((pl.col("role") == "query") & pl.col("is_known"))
    gallery = mine.filter(pl.col("role") == "gallery")
    last = gallery.group_by("individual_id").agg(pl.col("date").max().alias("last"))
    dated = asked.filter(pl.col("date").is_not_null()).join(
        last.drop_nulls(), on="individual_id", maintain_order="left"
    )
    without = asked.height - dated.height
    partly = f"{without} queries without a day, or without one in the gallery, are not checked" if without else None
    if dated.is_empty():
        why = "days are not known" if asked.height else "no query of a known bird"
        yield from (_cannot(check, why) for check in ("same_day", "query_before_gallery"))
    else:
        same = dated.join(gallery, on=["individual_id", "date"], how="semi", maintain_order="left")
        yield _row("same_day", same.height, dated.height, _first(same), partly)
        before = dated.filter(pl.col("date") < pl.col("last"))
        yield _row("query_before_gallery", before.height, dated.height, _first(before), partly)
    known = asked.filter(pl.col("year").is_not_null())
    if known.is_empty():
        yield _cannot("no_clip_of_the_year", "years are not known" if asked.height else "no query of a known bird")
    else:
        across = known.join(gallery, on=["individual_id", "year"], how="anti", maintain_order="left")
        yield _row("no_clip_of_the_year", across.height, known.height, _first(across))


def _lists(mine: pl.DataFrame, candidates: pl.DataFrame | None) -> Iterator[_Row]:
    asked = mine.filter(pl.col("role") == "query").select("clip_id", "video_id", "individual_id")
    for gallery in ("territory", "neighbours"):
        checks = [f"{check}_{gallery}" for check in ("no_list", "empty_list", "bird_not_in_list")]
        lists = None if candidates is None else candidates.filter(pl.col("gallery").cast(pl.String) == gallery)
        if lists is None or lists.is_empty() or asked.is_empty():
            why = "no query" if asked.is_empty() else "there are no lists"
            yield from (_cannot(check, why) for check in checks)
            continue
        rows = asked.join(lists.select("video_id", "candidates"), on="video_id", how="left", maintain_order="left")
        listed = rows.filter(pl.col("candidates").is_not_null())
        odd = (
            (rows.filter(pl.col("candidates").is_null()), rows.height),
            (listed.filter(pl.col("candidates").list.len() == 0), rows.height),
            (listed.filter(~pl.col("candidates").list.contains(pl.col("individual_id"))), listed.height),
        )
        for check, (frame, n_of) in zip(checks, odd, strict=True):
            verdict = CLEAN if frame.is_empty() else REMARK
            yield _row(check, frame.height, n_of, _first(frame)) | {"verdict": verdict}


def _first(rows: pl.DataFrame) -> str | None:
    return rows["clip_id"][0] if rows.height else None
