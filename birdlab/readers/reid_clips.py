"""Clips of single birds and the protocols they take part in: CHIRP's Annotation.csv, or a plain table of one's own.

One row per image (or per clip). Words of the split columns become roles: what is learned from in closed and open is
the gallery, what is tested is a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.chirp_names import NOBODY
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, at_most, notice_table
from birdlab.readers.reid_dates import parse_dates
from birdlab.schemas.reid import REID_SPLITS

_CHIRP = {
    "Tracklet": "clip_id", "Video": "video_id", "id": "individual_id", "Territory": "territory", "Year": "year",
    "img": "image", "UnqTrack": "track_id", "ClosedSetSplit": "closed", "DisjointedSetSplit": "disjoint",
    "OpenSetSplit": "open", "Date": "date",
}  # fmt: skip
_PLAIN = (
    "clip_id", "video_id", "individual_id", "territory", "year", "image", "track_id", "closed", "disjoint",
    "disjointed", "open", "date", "frame_index", "start_frame",
)  # fmt: skip
_NEEDED = ("clip_id", "video_id", "individual_id")
_WHOLE = ("year", "frame_index", "start_frame")
_OF_A_CLIP = ("territory", "date", "year", *REID_SPLITS)
_GALLERY = {"train": "gallery", "gallery": "gallery", "test": "query", "query": "query", "validation": "validation"}
#: Words of the split columns, in any case, and the roles they are.
WORDS: dict[str, dict[str, str]] = {
    "closed": _GALLERY,
    "disjoint": {word: word for word in ("train", "query", "gallery", "validation")},
    "open": {**_GALLERY, "known_train": "gallery", "known_test": "query", "unknown_test": "query"},
}
_NO_PART = ("", "nan", "none", "na", "-")


@dataclass(frozen=True)
class ReidData:
    """Clips and what is known of them.

    Args:
        clips, images, roles: tables ``reid_clips`` (and ``start_frame``, where the file has it), ``reid_images``,
            ``reid_roles``.
        notices: code, message, n, file of what was remarked.
    """

    clips: pl.DataFrame
    images: pl.DataFrame
    roles: pl.DataFrame
    notices: pl.DataFrame


def read_clips(path: Path, *, images: Path | None = None) -> ReidData:
    """Read clips, their images and their roles.

    Args:
        path: CHIRP's Annotation.csv (Video, Tracklet, id and optional Territory, Year, img, UnqTrack, ClosedSetSplit,
            DisjointedSetSplit, OpenSetSplit, Date), or a table clip_id, video_id, individual_id and optional image,
            frame_index, track_id, territory, date, year, start_frame, closed, disjoint, open; a row per image or clip.
        images: folder in which the first image of every clip is looked for; default: the disk is not looked at.

    Returns:
        All tables; roles as the file gives them. ``is_known`` says whether the bird has a clip in the gallery of the
        protocol, whatever the word: a query without one is counted in a notice (closed, disjoint: scored wrong; open:
        unknown). Clips of ``unknown`` or ``unringed`` birds are left out and counted. Where Tracklet names recur, a
        clip is Video/Tracklet (or with territory and bird, if folders or tracks show that they are different clips).
        Without ``frame_index`` images are in the order of the numbers that end their names, else of the file.

    Raises:
        DataError: all in one: no rows; a column or a cell that is needed is missing; a clip of two birds, videos,
            territories, days, years or roles; a word that is no role; a day or path that cannot be read; no folder.
    """
    path = Path(path)
    notices: list[Notice] = []
    raw = _read(path)
    raw = _without_nobody(raw, str(path), notices)
    if "tracklets" in raw.columns:
        raw = _named(raw.drop("tracklets"), notices)
    raw = raw.with_columns(pl.col("clip_id").cast(pl.Categorical).to_physical().alias("clip"))
    problems = [*_two_of_a_kind(raw, str(path)), *_bad_paths(raw, str(path)), *_bad_frames(raw, str(path))]
    first = raw.unique("clip", keep="first", maintain_order=True)
    roles, wrong = _roles(first, str(path))
    dates, bad_dates = parse_dates(first, str(path))
    problems += [*wrong, *bad_dates]
    if problems:
        raise DataError(at_most(problems))
    frames = _images(raw, notices)
    clips = _clips(raw, first.with_columns(dates), notices)
    _remark_roles(clips, roles, first, notices)
    if images is not None:
        _remark_missing(frames, Path(images), notices)
    table = notice_table(notices).with_columns(pl.col("file").cast(pl.String).fill_null(path.name))
    return ReidData(clips, frames, schemas.validate("reid_roles", roles), table)


def _read(path: Path) -> pl.DataFrame:
    """Columns of either layout under one set of names, with their lines; needed cells are filled."""
    # Columns are found in any case: each is asked for once, so that what is wrong with it is told once.
    chirp = [name for name in _CHIRP if name.lower() not in _PLAIN]
    types = {name: pl.Int64 if name.lower() in _WHOLE else pl.String for name in (*chirp, *_PLAIN)}
    frame = read_columns(path, {}, optional=types)
    plain = "clip_id" in frame.columns
    names = {n: n for n in _PLAIN if n in frame.columns}
    if not plain:
        extra = {"frame_index": "frame_index", "start_frame": "start_frame"}
        spelt = {name if name.lower() not in _PLAIN else name.lower(): new for name, new in _CHIRP.items()}
        names = {old: new for old, new in {**spelt, **extra}.items() if old in frame.columns}
    elif "disjointed" in names:
        names = {old: new for old, new in names.items() if old != "disjoint"} | {"disjointed": "disjoint"}
    wanted = _NEEDED if plain else tuple(old for old, new in _CHIRP.items() if new in _NEEDED)
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        told = ", ".join(frame.columns[:-1][:12]) or "none that is known"
        expected = "columns clip_id, video_id, individual_id, or Video, Tracklet, id (CHIRP)"
        raise DataError([Problem("no_column", told, expected, file=str(path), key=name) for name in missing])
    if frame.is_empty():
        raise DataError(Problem("no_rows", "no row", "a row per image or clip", file=str(path)))
    empty = [
        Problem("bad_cell", "nothing", "a name", _remedy(names[name]), str(path), line=line, key=name)
        for name in wanted
        for line in frame.filter(pl.col(name).fill_null("") == "")["line"].head(10)
    ]
    if empty:
        raise DataError(at_most(empty))
    out = frame.select(pl.col(old).alias(new) for old, new in names.items())
    text = [name for name, dtype in out.schema.items() if dtype == pl.String]
    out = out.with_columns(pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in text)
    out = out.with_columns(frame["line"])
    if "image" in out.columns:
        out = out.with_columns(pl.col("image").str.replace_all("\\", "/", literal=True).str.strip_prefix("./"))
    return out if plain else out.with_columns(pl.lit(True).alias("tracklets"))


def _remedy(column: str) -> str:
    return "write unknown for a bird that nobody knows: such clips are left out" if column == "individual_id" else ""


def _without_nobody(raw: pl.DataFrame, source: str, notices: list[Notice]) -> pl.DataFrame:
    """Rows of a bird; ids stand as they are, since a number at their end may be part of them."""
    nobody = raw["individual_id"].str.to_lowercase().is_in([word for word in NOBODY if word])
    if nobody.any():
        left = raw.filter(nobody).select("video_id", "clip_id").unique().height
        notices.append(Notice("no_bird", "clips of unknown or unringed birds: left out", left))
        raw = raw.filter(~nobody)
    if raw.is_empty():
        raise DataError(Problem("no_rows", "only clips of unknown birds", "clips of birds with a name", file=source))
    return raw


def _named(raw: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    """Names of clips from Tracklet, which may recur from video to video, or from bird to bird."""
    parts = [c for c in ("video_id", "territory", "individual_id") if c in raw.columns]
    codes = raw.select(pl.col(c).cast(pl.Categorical).to_physical() for c in ("clip_id", *parts))
    keys = [[], ["video_id"], [c for c in parts if c != "individual_id"], ["video_id", "individual_id"], parts]
    whole = codes.unique().height
    # Nothing but the name of the bird would tell its clips from those of another: without a witness two are a mistake.
    separate = [k for k in keys[:3] if codes.select("clip_id", *k).unique().height == whole]
    witness = _witness(raw, codes, 0) if separate[:1] != [[]] else None
    if witness is None and not separate:
        # An error is sure: a few slips shall be called what they are, and not make every clip one of two birds.
        witness = _witness(raw, codes, whole // 50)
    if witness is None:
        key = separate[0] if separate else ["video_id"]
        whole = codes.select("clip_id", *key).unique().height
    else:
        units = codes.with_columns(witness).unique("witness", keep="first")
        whole = units.select(codes.columns).unique().height
        key = next(k for k in keys if units.select("clip_id", *k).unique().height == whole)
        first = pl.col("clip_id", *parts).first().over("witness")
        raw = raw.with_columns(raw.select("clip_id", *parts, witness).select(first.name.prefix("unit ")))
    words = {"video_id": "Video", "territory": "Territory", "individual_id": "id", "clip_id": "Tracklet"}
    columns = [*key, "clip_id"] if witness is None else [f"unit {c}" for c in (*key, "clip_id")]
    named = raw.with_columns(pl.concat_str(columns, separator="/", ignore_nulls=True).alias("clip_id"))
    if key:
        text = f"names of tracklets recur: a clip is named {'/'.join(words[c] for c in (*key, 'clip_id'))}"
        notices.append(Notice("clip_names", text, whole))
    return named.drop([c for c in named.columns if c.startswith("unit ")])


def _witness(raw: pl.DataFrame, codes: pl.DataFrame, slips: int) -> pl.Series | None:
    """Folder of the images, or track, if there is one for each video, territory, bird and tracklet, but for slips."""
    n = codes.unique().height
    for column in ("image", "track_id"):
        if column not in raw.columns or raw[column].null_count():
            continue
        what = raw[column].str.replace(r"/[^/]*$", "") if column == "image" else raw[column]
        witness = what.cast(pl.Categorical).to_physical().alias("witness")
        if codes.with_columns(witness).unique().height - min(n, witness.n_unique()) <= slips:
            return witness
    return None


def _two_of_a_kind(raw: pl.DataFrame, source: str) -> Iterator[Problem]:
    """Clips that hold two of what a clip has one of."""
    one = {"video_id": "video", "individual_id": "bird", "date": "day", **dict.fromkeys(REID_SPLITS, "role")}
    n = raw["clip"].n_unique()
    for column in ("individual_id", "video_id", *(c for c in _OF_A_CLIP if c in raw.columns)):
        pairs = raw.select("clip_id", "clip", column, "line").unique(["clip", column], keep="first")
        if pairs.height == n:
            continue
        word = one.get(column, column)
        several = pairs.filter(pl.len().over("clip") > 1).sort("line")
        for name in several["clip_id"].unique(maintain_order=True).head(5):
            rows = several.filter(pl.col("clip_id") == name)
            said = ", ".join(
                f"{value or 'nothing'} (line {line})" for value, line in rows[column, "line"].head(4).rows()
            )
            found, line = f"clip {name}: {said}", int(rows["line"][1])
            code = "two_territories" if word == "territory" else f"two_{word}s"
            yield Problem(code, found, f"one {word} per clip", file=source, line=line, key=column)


def _bad_paths(raw: pl.DataFrame, source: str) -> Iterator[Problem]:
    if "image" not in raw.columns:
        return
    outside = raw["image"].str.contains(r"^(/|~|[A-Za-z]:)|(^|/)\.\.(/|$)").fill_null(False)
    for image, line in raw.filter(outside).select("image", "line").head(5).iter_rows():
        yield Problem("bad_path", image, "a path below the folder of the images", file=source, line=line, key="image")


def _bad_frames(raw: pl.DataFrame, source: str) -> Iterator[Problem]:
    if "frame_index" not in raw.columns:
        return
    rows = raw.filter(pl.col("frame_index").is_not_null())
    below = rows.filter(pl.col("frame_index") < 0)
    twice = rows.filter(pl.struct("clip", "frame_index").is_duplicated() & (pl.col("frame_index") >= 0))
    for found, frame in (("below 0", below), ("the same number twice in a clip", twice)):
        for name, index, line in frame.select("clip_id", "frame_index", "line").head(5).iter_rows():
            text, expected = f"{index} in clip {name}: {found}", "0-based numbers, each once in its clip"
            yield Problem("bad_frame", text, expected, file=source, line=line, key="frame_index")
    some = rows.height
    if 0 < some < raw.height:
        line = int(raw.filter(pl.col("frame_index").is_null())["line"][0])
        yield Problem("bad_frame", "nothing", "a number in every row, or in none", file=source, line=line)


def _images(raw: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    if "image" not in raw.columns:
        return schemas.empty("reid_images")
    rows = raw.filter(pl.col("image").is_not_null())
    if "frame_index" not in raw.columns or raw["frame_index"].null_count() == raw.height:
        number = rows["image"].str.extract(r"(\d+)\.[^./]*$").cast(pl.Int64, strict=False).alias("number")
        rows = rows.with_columns(number)
        if not number.null_count() and not rows.select(pl.struct("clip", "number").is_duplicated().any()).item():
            rows = rows.sort("number", maintain_order=True)
        rows = rows.with_columns(pl.int_range(pl.len()).over("clip").alias("frame_index"))
    twice = rows.height - rows.select("clip", pl.col("image").cast(pl.Categorical).to_physical()).unique().height
    if twice:
        notices.append(Notice("image_twice", "images that are named more than once in one clip", twice))
    out = rows.sort("line" if "number" not in rows.columns else "clip", maintain_order=True)
    return schemas.validate("reid_images", out.select("clip_id", "frame_index", "image"))


def _clips(raw: pl.DataFrame, first: pl.DataFrame, notices: list[Notice]) -> pl.DataFrame:
    counted = pl.lit(0)
    if "image" in raw.columns:
        counted = pl.col("image").is_not_null().sum()
    elif "frame_index" in raw.columns:
        counted = pl.len()
    n_images = raw.group_by("clip").agg(counted.cast(pl.Int32).alias("n_images"))
    clips = first.join(n_images, on="clip", how="left", maintain_order="left")
    if "year" not in clips.columns:
        clips = clips.with_columns(pl.lit(None, dtype=pl.Int32).alias("year"))
    differs = clips.filter(pl.col("year") != pl.col("date").dt.year()).height
    if differs:
        notices.append(Notice("year_differs", "clips whose year is not that of their day: the day stands", differs))
    clips = clips.with_columns(pl.coalesce(pl.col("date").dt.year(), pl.col("year")).alias("year"))
    undated = clips["date"].null_count()
    if undated:
        text = "clips without a day: what is older than what cannot be told" + (
            " but by the year" if clips.filter(pl.col("date").is_null())["year"].count() else ""
        )
        notices.append(Notice("no_date", text, undated))
    if "track_id" in raw.columns:
        several = raw.select("clip", "track_id").unique().height - clips.height
        if several:
            notices.append(Notice("two_tracks", "tracks beside the first of their clip: the first is kept", several))
    columns = list(schemas.TABLES["reid_clips"].dtypes) + ["start_frame"]
    return schemas.validate("reid_clips", clips.select(c for c in columns if c in clips.columns))


def _roles(first: pl.DataFrame, source: str) -> tuple[pl.DataFrame, list[Problem]]:
    """Table ``reid_roles`` of the split columns, and words that are no role."""
    parts, problems = [schemas.empty("reid_roles")], []
    for split in (s for s in REID_SPLITS if s in first.columns):
        word = pl.col(split).str.to_lowercase().str.replace_all(r"[ -]+", "_")
        rows = first.select("clip_id", "individual_id", "line", pl.col(split).alias("said"), word.alias("word"))
        rows = rows.filter(pl.col("word").is_not_null() & ~pl.col("word").is_in(_NO_PART))
        rows = rows.with_columns(pl.col("word").replace_strict(WORDS[split], default=None).alias("role"))
        odd = rows.filter(pl.col("role").is_null()).unique("word", keep="first", maintain_order=True)
        expected = f"one of {', '.join(WORDS[split])}"
        problems += [
            Problem("unknown_role", said, expected, file=source, line=line, key=split)
            for said, line in odd.select("said", "line").head(10).iter_rows()
        ]
        parts.append(with_known(rows.select(pl.lit(split).cast(pl.Enum(REID_SPLITS)).alias("split"), "clip_id",
                                            "individual_id", "role")))  # fmt: skip
    if problems:
        return parts[0], problems
    return pl.concat([schemas.TABLES["reid_roles"].conform(part) for part in parts]), []


def with_known(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows split, clip_id, individual_id, role as table ``reid_roles``: is the bird in the gallery of its protocol?"""
    gallery = rows.filter(pl.col("role").cast(pl.String) == "gallery").select("split", "individual_id").unique()
    known = rows.join(gallery.with_columns(pl.lit(True).alias("is_known")), on=["split", "individual_id"], how="left",
                      maintain_order="left")  # fmt: skip
    known = known.with_columns(pl.col("is_known").fill_null(False))
    return schemas.TABLES["reid_roles"].conform(known.select("split", "clip_id", "role", "is_known"))


def _remark_roles(clips: pl.DataFrame, roles: pl.DataFrame, first: pl.DataFrame, notices: list[Notice]) -> None:
    if roles.is_empty():
        notices.append(Notice("no_protocol", "clips without a role in any protocol", clips.height))
        return
    asked = roles.filter(pl.col("role") == "query").join(clips.select("clip_id", "individual_id"), on="clip_id")
    for split in ("closed", "disjoint"):
        without = asked.filter((pl.col("split") == split) & ~pl.col("is_known"))
        if without.height:
            text = (
                f"queries of {split} whose bird is not in the gallery ({_some(without['individual_id'])}): scored wrong"
            )
            notices.append(Notice(f"not_in_gallery_{split}", text, without.height))
    if "open" not in first.columns:
        return
    said = first.select("clip_id", pl.col("open").str.to_lowercase().str.replace_all(r"[ -]+", "_").alias("word"))
    asked = asked.filter(pl.col("split") == "open").join(said, on="clip_id")
    cases = (
        ("known_test", False, "known_without_gallery", "called known, not in the gallery: counted as unknown"),
        ("unknown_test", True, "unknown_in_gallery", "called unknown, in the gallery: counted as known"),
    )
    for word, known, code, text in cases:
        odd = asked.filter((pl.col("word") == word) & (pl.col("is_known") == known))
        if odd.height:
            notices.append(Notice(code, f"queries of birds {text} ({_some(odd['individual_id'])})", odd.height))


def _remark_missing(frames: pl.DataFrame, folder: Path, notices: list[Notice]) -> None:
    if not folder.is_dir():
        raise DataError(
            Problem("no_folder", "no such folder", "the folder of the images", "check the path", str(folder))
        )
    if frames.is_empty():
        return
    names = frames.unique("clip_id", keep="first", maintain_order=True)["image"]
    gone = [name for name in names if not (folder / name).is_file()]
    if gone:
        text = f"clips whose first image is not in the folder of the images ({gone[0]} first)"
        notices.append(Notice("no_image", text, len(gone)))


def _some(names: Iterable[str], n: int = 5) -> str:
    every = sorted(set(names))
    return ", ".join(every[:n]) + (f" and {len(every) - n} more" if len(every) > n else "")
