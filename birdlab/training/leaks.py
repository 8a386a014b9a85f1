"""Leaks: what stands in two parts of a study at once, from a shared site down to two frames that look the same.

Levels, coarse to fine: ``site``, ``session``, ``date`` (one calendar day, UTC, at one site; at one camera where no site is
given; where neither is, all such frames count as one place) and ``near_duplicate`` (the same bytes, or two frames whose
thumbnails agree). A split that keeps a level whole must keep all finer ones whole too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem

if TYPE_CHECKING:
    from birdlab.recipe.training import Level

_log = logging.getLogger("birdlab")

#: Levels of leaks, coarse to fine.
LEVELS: tuple[Level, ...] = ("site", "session", "date", "near_duplicate")
#: Two frames are near-duplicates when at most this many of the 256 bits of their hashes differ …
NEAR_BITS = 10
#: … and their small pictures, less all that is smooth, correlate by this much: two clear skies hash alike and do not.
NEAR_R = 0.9
#: Side of the small pictures, px.
SIDE = 32
#: So many leaks are shown in one error; all are counted.
SHOWN = 20
LEAK_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"level": pl.String, "frame_a": pl.String, "split_a": pl.String, "frame_b": pl.String, "split_b": pl.String},
    **{"what": pl.String, "n": pl.Int64},
}

#: Gives (frame_id, picture or its error) for the rows of a frames table, as ``birdlab.readers.pixels.iter_frames``.
Reader = Callable[[pl.DataFrame, pl.DataFrame], Iterable[tuple[str, Any]]]


def shared(frames: pl.DataFrame, media: pl.DataFrame, split: pl.DataFrame) -> pl.DataFrame:
    """Every frame of every site, session, date and file that stands in two parts or more.

    Args:
        frames: table ``frames``.
        media: table ``media`` (``recorded_at``, ``sha256`` and ``start_s`` are used where they are given).
        split: ``frame_id`` and ``split``; frames without a row or with a null are in no part.

    Returns:
        ``kind`` (``session``, ``same file``, ``site``, ``date``), ``what`` (its name), ``frame_id``, ``split``; in order of
        kind, name and frame. No rows where nothing is shared.
    """
    joined = with_day(frames, media).join(
        split.select("frame_id", pl.col("split").cast(pl.String).alias("_part")).drop_nulls(), on="frame_id"
    )
    parts = []
    for column, kind in (("video_id", "session"), ("_file", "same file"), ("site_id", "site"), ("_day", "date")):
        rows = joined.filter(pl.col(column).is_not_null() & (pl.col("_part").n_unique().over(column) > 1))
        found = rows.select(pl.lit(kind).alias("kind"), pl.col(column).alias("what"), "frame_id", split="_part")
        parts.append(found.sort("what", "frame_id"))
    return pl.concat(parts)


def with_day(frames: pl.DataFrame, media: pl.DataFrame) -> pl.DataFrame:
    """Frames with ``_day`` (calendar day in UTC and place, null where the day is unknown) and ``_file`` (content's hash)."""
    known = [c for c in ("sha256", "recorded_at", "start_s") if c in media.columns]
    joined = frames.join(media.select("media_id", *known), on="media_id", how="left", maintain_order="left")
    joined = joined.with_columns(
        pl.lit(None, dtype).alias(c)
        for c, dtype in (("sha256", pl.String), ("recorded_at", pl.Datetime("us", "UTC")), ("start_s", pl.Float64))
        if c not in known
    )
    # A recording that runs past midnight has frames of two days.
    since = (pl.col("time_s") - pl.col("start_s")).fill_null(0.0) if "time_s" in frames.columns else pl.lit(0.0)
    day = (pl.col("recorded_at") + pl.duration(milliseconds=(since * 1000).round().cast(pl.Int64))).dt.date()
    place = pl.coalesce("site_id", "camera_id") if "camera_id" in frames.columns else pl.col("site_id")
    return joined.with_columns(
        pl.concat_str(day.cast(pl.String), pl.concat_str(pl.lit(" at "), place).fill_null("")).alias("_day"),
        pl.when(pl.col("frame_id") == pl.col("media_id")).then("sha256").otherwise(same_frame()).alias("_file"),
    ).drop("sha256", "recorded_at", "start_s")


def same_frame() -> pl.Expr:
    """Hash of a video frame's content: of its file, and its place in it."""
    return pl.concat_str("sha256", pl.lit("#"), pl.col("frame_index").cast(pl.String))


def find_leaks(
    frames: pl.DataFrame,
    media: pl.DataFrame,
    split: pl.DataFrame,
    *,
    thumbnails: pl.DataFrame | None = None,
    reader: Reader | None = None,
) -> pl.DataFrame:
    """Leaks between the parts of a split, coarse levels first.

    Args:
        frames: table ``frames``.
        media: table ``media``.
        split: ``frame_id`` and ``split``; frames without a row are in no part and leak nothing.
        thumbnails: as :func:`thumbnails` makes them, to look for near-duplicates.
        reader: reads the pictures where no thumbnails are given (``birdlab.readers.pixels.iter_frames``); without either,
            only copies of the same bytes count as near-duplicates.

    Returns:
        ``level`` (one of :data:`LEVELS`), ``frame_a``, ``split_a``, ``frame_b``, ``split_b``, ``what`` (the site, session or
        day; for near-duplicates how alike the frames are), ``n`` (frames concerned, both parts together). One row per
        thing and pair of parts, with the first frame of either part; for near-duplicates one row per frame of the smaller
        part that has one, with the frame of the other part that is most like it.
    """
    if thumbnails is None and reader is not None:
        there = frames.join(split.select("frame_id"), on="frame_id", how="semi", maintain_order="left")
        thumbnails = _read_thumbnails(there, media, reader)
    rows: list[dict[str, Any]] = []
    for (kind, what), found in shared(frames, media, split).group_by("kind", "what", maintain_order=True):
        by_part = found.group_by("split").agg(pl.col("frame_id").min(), pl.len()).sort("split").rows()
        for (part_a, frame_a, n_a), (part_b, frame_b, n_b) in combinations(by_part, 2):
            level, said = (kind, what) if kind != "same file" else ("near_duplicate", "the same file")
            rows.append(_leak(level, (frame_a, part_a), (frame_b, part_b), said, n_a + n_b))
    copies = {(r["frame_a"], r["frame_b"]) for r in rows if r["level"] == "near_duplicate"}
    if thumbnails is not None:
        for a, b, said in near_duplicates(split, thumbnails):
            if (a[0], b[0]) not in copies:
                rows.append(_leak("near_duplicate", a, b, said, 2))
    order = {level: k for k, level in enumerate(LEVELS)}
    rows.sort(key=lambda r: order[r["level"]])
    return pl.DataFrame(rows, schema=LEAK_SCHEMA)


def _leak(level: str, a: tuple[str, str], b: tuple[str, str], what: str, n: int) -> dict[str, Any]:
    return {
        **{"level": level, "frame_a": a[0], "split_a": a[1], "frame_b": b[0], "split_b": b[1]},
        **{"what": what, "n": n},
    }


def near_duplicates(split: pl.DataFrame, thumbs: pl.DataFrame) -> list[tuple[tuple[str, str], tuple[str, str], str]]:
    """Pairs of frames in two parts that look the same: :data:`NEAR_BITS` and :data:`NEAR_R` both hold.

    Returns:
        ((frame, part), (frame, part), how alike in words): for every frame of the smaller of two parts the frame of the
        other that correlates most, parts in alphabetical order.
    """
    joined = thumbs.join(
        split.select("frame_id", pl.col("split").cast(pl.String)).drop_nulls(), on="frame_id", how="inner"
    ).sort("frame_id")
    by_part = {key[0]: part for key, part in joined.partition_by("split", as_dict=True).items()}
    pairs = []
    for a, b in combinations(sorted(by_part), 2):
        small, large = (a, b) if by_part[a].height <= by_part[b].height else (b, a)
        ids = [by_part[p]["frame_id"].to_list() for p in (small, large)]
        for i, j, bits, r in _nearest(by_part[small], by_part[large]):
            pair = ((ids[0][i], small), (ids[1][j], large))
            said = f"{bits} of 256 bits differ, correlation {r:.2f}"
            pairs.append((*(pair if small == a else pair[::-1]), said))
    return pairs


def _nearest(small: pl.DataFrame, large: pl.DataFrame) -> Iterator[tuple[int, int, int, float]]:
    """(row of small, row of large, bits that differ, correlation) of the near-duplicates."""
    # Words of 64 bits: eight times fewer operations than on bytes.
    x, y = (np.array(t["bits"].to_list(), dtype=np.uint8).reshape(t.height, -1).view(np.uint64) for t in (small, large))
    gray = [t["gray"].to_numpy().reshape(t.height, -1) for t in (small, large)]
    for i, bits in enumerate(x):
        apart = np.bitwise_count(y ^ bits).sum(axis=1)
        near = np.flatnonzero(apart <= NEAR_BITS)
        if len(near):
            r = _texture(gray[1][near]) @ _texture(gray[0][i : i + 1])[0]
            best = int(r.argmax())
            if r[best] >= NEAR_R:
                yield i, int(near[best]), int(apart[near[best]]), float(r[best])


def _texture(gray: np.ndarray) -> np.ndarray:
    """(n, SIDE²) small pictures less the best quadratic surface of each, scaled to length 1 (0 where nothing is left)."""
    side = np.linspace(-1, 1, SIDE)
    v, u = (c.ravel() for c in np.meshgrid(side, side, indexing="ij"))
    smooth, _ = np.linalg.qr(np.stack([np.ones_like(u), u, v, u * u, v * v, u * v], axis=1))
    left = gray.astype(np.float64)
    left -= (left @ smooth) @ smooth.T
    length = np.linalg.norm(left, axis=1, keepdims=True)
    # Rounding leaves a trace of a picture that is all smooth.
    return np.divide(left, length, out=np.zeros_like(left), where=length > 1e-6)


def levels_of(level: Level, refuse: Sequence[Level] | None = None) -> tuple[Level, ...]:
    """The levels whose leaks stop a run: those asked for, or the split's own level and all finer ones.

    >>> levels_of("session"), levels_of("site", ["session"])
    (('session', 'date', 'near_duplicate'), ('session',))
    """
    return LEVELS[LEVELS.index(level) :] if refuse is None else tuple(v for v in LEVELS if v in refuse)


def refuse_leaks(leaks: pl.DataFrame, levels: Sequence[Level]) -> None:
    """Stop where something leaks at one of these levels.

    Args:
        leaks: as :func:`find_leaks` gives them.
        levels: see :func:`levels_of`.

    Raises:
        DataError: naming both frames of every leak, at most 20 of them, and how many there are in all.
    """
    found = leaks.filter(pl.col("level").is_in(list(levels)))
    if found.is_empty():
        return
    problems = [_problem(row) for row in found.head(SHOWN).iter_rows(named=True)]
    if found.height > SHOWN:
        by_level = found.group_by("level", maintain_order=True).len().rows()
        said = ", ".join(f"{n} by {level.replace('_', '-')}" for level, n in by_level)
        text = f"{found.height} leaks in all ({said}), the first {SHOWN} shown"
        problems.append(Problem("leaks", text, "none", key="training.split"))
    raise DataError(problems)


def _problem(row: dict[str, Any]) -> Problem:
    pair = f"{row['frame_a']} in {row['split_a']} and {row['frame_b']} in {row['split_b']}"
    shared_by = {
        "site": f"of one site, {row['what']}",
        "session": f"of one session, {row['what']}",
        "date": f"of one day, {row['what']}",
        "near_duplicate": f"that look the same ({row['what']})",
    }[row["level"]]
    n = f" ({row['n']} frames in all)" if row["n"] > 2 else ""
    remedy = {
        "site": "split by site, or put the site into one part with `fixed`",
        "session": "put the session into one part with `fixed`",
        "date": "put both sessions into one part with `fixed`, or leave `date` out of `refuse`",
        "near_duplicate": "put both sessions into one part with `fixed`, or remove one of the frames",
    }[row["level"]]
    expected = f"every {row['level'].replace('_', '-')} in one part" if row["level"] != "near_duplicate" else "one part"
    return Problem(f"leak_{row['level']}", f"{pair}, {shared_by}{n}", expected, remedy, key="training.split")


def thumbnails(images: Iterable[tuple[str, np.ndarray]]) -> pl.DataFrame:
    """Difference hashes (is each of 16 × 16 grey cells brighter than its right neighbour?) and small grey pictures.

    Two encodings or sizes of one picture with a background differ in few of the 256 bits, two unrelated pictures in about
    half of them; but all skies that brighten to one side hash alike, so the small picture must agree too. A small crop of
    plain sky has hardly any texture to compare: copies of it are found when they are light (of 158 crops, at JPEG
    quality 90: 92 %; half as large: 69 %) and mostly missed when they are strong (at quality 60: 6 %).

    Args:
        images: pairs of frame_id and image (H × W × 3 BGR or H × W, uint8).

    Returns:
        ``frame_id``, ``bits`` (32 bytes as a list of integers) and ``gray`` (32 × 32 brightnesses, row by row). A picture
        without any contrast hashes to zeros.
    """
    import cv2

    ids, bits, pictures = [], [], []
    for frame_id, image in images:
        gray = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        small = cv2.resize(gray, (17, 16), interpolation=cv2.INTER_AREA)
        ids.append(frame_id)
        bits.append(np.packbits(small[:, 1:] > small[:, :-1]).tolist())
        pictures.append(cv2.resize(gray, (SIDE, SIDE), interpolation=cv2.INTER_AREA).ravel())
    schema = {"frame_id": pl.String, "bits": pl.List(pl.UInt8), "gray": pl.Array(pl.UInt8, SIDE * SIDE)}
    if not ids:
        return pl.DataFrame(schema=schema)
    return pl.DataFrame({"frame_id": ids, "bits": bits, "gray": np.stack(pictures)}, schema=schema)


def frame_thumbnails(frames: pl.DataFrame, media: pl.DataFrame) -> pl.DataFrame | None:
    """:func:`thumbnails` of a study's frames; None with a single split, where no pixel needs to be looked at."""
    if frames["split"].n_unique() < 2:
        return None
    from birdlab.readers.pixels import iter_frames

    return _read_thumbnails(frames, media, iter_frames)


def _read_thumbnails(frames: pl.DataFrame, media: pl.DataFrame, reader: Reader) -> pl.DataFrame:
    made = thumbnails((name, image) for name, image in reader(frames, media) if isinstance(image, np.ndarray))
    if made.height < frames.height:
        _log.warning("%d frames cannot be read: no near-duplicate of them is looked for", frames.height - made.height)
    return made
