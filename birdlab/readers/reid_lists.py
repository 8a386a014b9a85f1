"""Lists of birds that may occur in a video: PossibleBirds of its territory, and of it with its neighbours."""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.chirp_names import NOBODY
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, at_most, notice_table

_VIDEO, _LISTS = ("Video", "video_id"), ("PossibleBirds", "candidates", "possible_birds")
_LONGEST = 100_000
EXPECTED = "a list of names, ['abcd', 'efgh'] or abcd|efgh"


def read_candidates(
    territory: Path | None, neighbours: Path | None, *, clips: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read who may be answered in which video.

    Args:
        territory, neighbours: CSV Video, PossibleBirds (a list as Python writes it, or names joined by ``|``); None
            where there is none.
        clips: table ``reid_clips``; with it videos without a list and names that nobody bears are counted.

    Returns:
        Table ``reid_candidates`` and notices (code, message, n, file). An empty list stays, as an empty one, and is
        counted; names come once, in the order of the file; ``unknown`` and ``unringed`` are no birds; a video that
        comes twice with the same birds counts once, and is counted. Names stand as in the file: a number at their end
        may be part of them.

    Raises:
        DataError: a file or column is missing, a cell is no list, a video has two lists that differ; all in one.
    """
    parts, notices, problems = [schemas.empty("reid_candidates")], [], []
    for gallery, path in (("territory", territory), ("neighbours", neighbours)):
        if path is None:
            continue
        frame = _read(Path(path), gallery, notices, problems)
        parts.append(frame)
        if clips is not None:
            _remark(frame, gallery, clips, Path(path).name, notices)
    if problems:
        raise DataError(at_most(problems))
    both = schemas.validate("reid_candidates", pl.concat(parts))
    _remark_narrow(both, notices)
    return both, notice_table(notices).with_columns(pl.col("file").cast(pl.String))


def _read(path: Path, gallery: str, notices: list[Notice], problems: list[Problem]) -> pl.DataFrame:
    raw = read_columns(path, {}, optional=dict.fromkeys((*_VIDEO, *_LISTS), pl.String))
    found = [next((n for n in names if n in raw.columns), None) for names in (_VIDEO, _LISTS)]
    for name, names in zip(found, (_VIDEO, _LISTS), strict=True):
        if name is None:
            told = ", ".join(raw.columns[:-1]) or "none of them"
            problems.append(Problem("no_column", told, f"a column {names[0]}", file=str(path), key=names[0]))
    lists: dict[str, list[str]] = {}
    twice = nobody = 0
    rows = raw.select(*found, "line").iter_rows() if None not in found else ()
    for video, text, line in rows:
        about = {"file": str(path), "line": line}
        if not video:
            problems.append(Problem("bad_cell", "nothing", "a video", key=found[0], **about))
            continue
        names = _names(text, about, problems)
        birds = list(dict.fromkeys(n for n in names if n.lower() not in NOBODY))
        nobody += len(names) - sum(n.lower() not in NOBODY for n in names)
        first = lists.setdefault(video, birds)
        if first is not birds:
            twice += 1
            if set(first) != set(birds):
                remedy = "keep one of them"
                problems.append(Problem("two_lists", f"another list of {video}", "one list", remedy, **about))
    counted = (
        ("list_twice", "videos that come twice with the same birds: counted once", twice),
        ("list_nobody", "names of no bird (unknown, unringed): left out", nobody),
        ("list_empty", "videos whose list is empty: no bird can be answered there", sum(not v for v in lists.values())),
    )
    notices += [Notice(code, f"{text} ({gallery})", n, path.name) for code, text, n in counted if n]
    data = {"video_id": list(lists), "gallery": [gallery] * len(lists), "candidates": list(lists.values())}
    return pl.DataFrame(data, schema=schemas.TABLES["reid_candidates"].dtypes)


def _names(text: str | None, about: dict, problems: list[Problem]) -> list[str]:
    found = names_of(text)
    if found is None:
        problems.append(Problem("bad_list", reprlib.repr(text), EXPECTED, key="PossibleBirds", **about))
    return found or []


def names_of(text: str | None) -> list[str] | None:
    """Names of a cell, as Python writes a list or joined by ``|``; ``None`` where it is neither. Nothing is run.

    >>> names_of("['a', 'b']"), names_of("a|b"), names_of("[]"), names_of("[1, 2]")
    (['a', 'b'], ['a', 'b'], [], None)
    """
    if text is None or text.lower() in ("", "nan", "[]"):
        return []
    if not text.startswith(("[", "(", "{")):
        return [name.strip() for name in text.split("|") if name.strip()]
    try:
        found = ast.literal_eval(text) if len(text) < _LONGEST else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if isinstance(found, set):
        found = sorted(found, key=str)
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        return None
    return [name.strip() for name in found]


def _remark(frame: pl.DataFrame, gallery: str, clips: pl.DataFrame, file: str, notices: list[Notice]) -> None:
    videos = clips["video_id"].unique()
    known = clips["individual_id"].unique()
    without = videos.filter(~videos.is_in(frame["video_id"].implode()))
    unused = frame.filter(~pl.col("video_id").is_in(videos.implode()))
    names = frame["candidates"].explode().drop_nulls().unique()
    nobody = names.filter(~names.is_in(known.implode()))
    told = (
        ("no_list", f"videos without a list ({_some(without)}): nothing can be asked there", len(without)),
        ("unused_list", "lists of videos that no clip is from: not used", unused.height),
        ("listed_unseen", f"birds of the lists without a clip ({_some(nobody)}): candidates that no gallery shows",
         len(nobody)),
    )  # fmt: skip
    notices += [Notice(code, f"{text} [{gallery}]", n, file) for code, text, n in told if n]


def _remark_narrow(both: pl.DataFrame, notices: list[Notice]) -> None:
    """Birds of a territory that are missing from the list with its neighbours."""
    wide = both.filter(pl.col("gallery") == "neighbours").select("video_id", wide="candidates")
    near = both.filter(pl.col("gallery") == "territory").join(wide, on="video_id")
    lost = near.filter(pl.col("candidates").list.set_difference("wide").list.len() > 0).height
    if lost:
        text = "videos whose list with neighbours lacks a bird of the territory: both lists stand as they are"
        notices.append(Notice("narrow_list", text, lost))


def _some(names: Iterable[str], n: int = 5) -> str:
    every = sorted(set(names))
    return ", ".join(every[:n]) + (f" and {len(every) - n} more" if len(every) > n else "")
