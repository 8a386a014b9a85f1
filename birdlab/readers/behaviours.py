"""Clips whose behaviour was named: BehaviourAnnotations.csv, a plain table of one's own, and what models say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import CsvFile, read_rows
from birdlab.readers.files import Notice, at_most

#: Columns of the two kinds of tables, and what they are called here.
_OURS = {"clip_id": "clip_id", "video_id": "video_id", "behaviour": "behaviour"}
_THEIRS = {"AnnotID": "clip_id", "VideoPath": "video_id", "Behaviour": "behaviour"}
_YES, _NO = ("true", "t", "1", "1.0", "yes", "y"), ("false", "f", "0", "0.0", "no", "n")


def read_truth(path: Path, *, split: str | None = None) -> tuple[pl.DataFrame, list[Notice]]:
    """Clips named by hand.

    Args:
        path: BehaviourAnnotations.csv (AnnotID, VideoPath, Behaviour, optional Corrupted and Split), or a table with
            clip_id, video_id, behaviour.
        split: only clips of this split, where the file has the column Split (in any case).

    Returns:
        clip_id, video_id, truth; notices of what was left out. The video of a VideoPath is its folder, or, without one,
        the name up to the last ``_``: clips are cut from one video and numbered.

    Raises:
        DataError: no clip is left; a clip that stands there twice, an empty cell (of the clips that are left).
    """
    source = str(path)
    table = read_rows(path, shown=source)
    theirs = "annotid" in {head.strip().casefold() for head in table.header}
    frame = _columns(table, _THEIRS if theirs else _OURS, ("corrupted", "split"))
    if theirs:
        videos = pl.col("video_id").map_elements(video_of, return_dtype=pl.String)
        frame = frame.with_columns(videos)
    notices: list[Notice] = []
    if "corrupted" in frame.columns:
        frame, n = _sound(frame, source)
        notices += [Notice("corrupted", "clips marked as corrupted: left out", n, source)] if n else []
    if split is not None and "split" in frame.columns:
        kept = frame.filter(pl.col("split").str.to_lowercase() == split.strip().casefold())
        if kept.is_empty() and frame.height:
            have = ", ".join(frame["split"].unique().drop_nulls().sort().to_list()) or "none"
            raise DataError(
                Problem("no_split", f"no clip of split {split}", f"one of {have}", file=source, key="Split")
            )
        if n := frame.height - kept.height:
            notices.append(Notice("other_split", f"clips of other splits than {split}: left out", n, source))
        frame = kept
    if frame.is_empty():
        raise DataError(Problem("no_clips", "no clip", "clips named by hand", file=source))
    _check(frame, ("clip_id", "video_id", "behaviour"), source)
    return frame.select("clip_id", "video_id", pl.col("behaviour").alias("truth")), notices


def _columns(table: CsvFile, wanted: Mapping[str, str], more: Sequence[str] = ()) -> pl.DataFrame:
    """Columns by their heads in any case, renamed, cells without blanks at the ends, empty ones null; and ``line``."""
    heads = [head.strip().casefold() for head in table.header]
    lost = [name for name in wanted if name.casefold() not in heads]
    if lost:
        found, expected = ", ".join(table.header)[:120], f"columns {', '.join(lost)}"
        raise DataError(Problem("no_column", found, expected, file=table.file, line=1, key=lost[0]))
    places = {ours: heads.index(theirs.casefold()) for theirs, ours in wanted.items()}
    places |= {name: heads.index(name) for name in more if name in heads}
    cells = {name: [row[i].strip() or None for _, row in table.rows] for name, i in places.items()}
    schema = dict.fromkeys(places, pl.String)
    return pl.DataFrame(cells, schema=schema).with_columns(line=pl.Series([n for n, _ in table.rows], dtype=pl.Int64))


def _sound(frame: pl.DataFrame, source: str) -> tuple[pl.DataFrame, int]:
    """Clips that are not marked as corrupted (an empty cell marks nothing), and how many are."""
    mark = pl.col("corrupted").str.to_lowercase()
    strange = frame.filter(~mark.is_in([*_YES, *_NO]))
    if strange.height:
        expected = "true or false, 1 or 0, yes or no"
        raise DataError(
            at_most(
                [
                    Problem("bad_cell", repr(v)[:40], expected, file=source, line=line, key="Corrupted")
                    for v, line in strange.select("corrupted", "line").iter_rows()
                ]
            )
        )
    sound = frame.filter(~mark.is_in(_YES).fill_null(False))
    return sound, frame.height - sound.height


def video_of(path: str) -> str:
    """The video a clip was cut from; see :func:`read_truth`.

    >>> video_of("20210909_CFfo1Z/clip_03.mp4"), video_of("20210909_CFfo1Z_03.mp4")
    ('20210909_CFfo1Z', '20210909_CFfo1Z')
    """
    pure = PurePosixPath(path.replace("\\", "/"))
    if len(pure.parts) > 1:
        return pure.parts[-2]
    return pure.stem.rpartition("_")[0] or pure.stem


def read_predictions(path: Path, truth: pl.DataFrame) -> tuple[pl.DataFrame, list[Notice]]:
    """What one model calls the clips.

    Args:
        path: table with clip_id (or AnnotID) and behaviour; other columns are not read.
        truth: from :func:`read_truth`.

    Returns:
        clip_id, predicted, one row per clip of the truth: null where the model names none, or its cell is empty (counted
        as wrong; the notice names the first).

    Raises:
        DataError: a clip that stands there twice, or none of the truth's clips.
    """
    source = str(path)
    table = read_rows(path, shown=source)
    theirs = "annotid" in {head.strip().casefold() for head in table.header}
    frame = _columns(table, {"AnnotID" if theirs else "clip_id": "clip_id", "behaviour": "behaviour"})
    _check(frame, ("clip_id",), source)
    unknown = frame.join(truth, on="clip_id", how="anti").height
    known = truth.select("clip_id").join(
        frame.select("clip_id", pl.col("behaviour").alias("predicted")), on="clip_id", how="left", maintain_order="left"
    )
    missing = known.filter(pl.col("predicted").is_null())["clip_id"].to_list()
    if len(missing) == known.height:
        found = f"{frame.height} clips, none of the truth" if unknown == frame.height else "no behaviour of any clip"
        raise DataError(Problem("no_common_clip", found, "clip ids of the truth", file=source))
    notices = []
    if unknown:
        text = f"{path.name}: clips that are not in the truth: not scored"
        notices.append(Notice("unknown_clips", text, unknown, source))
    if missing:
        first = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        text = f"{path.name}: clips without a behaviour, counted as wrong: {first}"
        notices.append(Notice("unnamed_clips", text, len(missing), source))
    return known, notices


def read_clips(
    truth: Path, predictions: Mapping[str, Path], *, split: str | None = None
) -> tuple[pl.DataFrame, list[Notice]]:
    """Table ``action_clips`` of all models; the problems of all files are in one error."""
    known, notices = read_truth(truth, split=split)
    parts, problems = [], []
    for model, path in predictions.items():
        try:
            found, more = read_predictions(path, known)
            parts.append(known.join(found, on="clip_id", how="left").with_columns(pl.lit(model).alias("model")))
            notices += more
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    alone = known.with_columns(pl.lit(None, pl.String).alias("predicted"), pl.lit("").alias("model"))
    frame = pl.concat(parts) if parts else alone
    return schemas.validate("action_clips", frame, source=str(truth)), notices


def _check(frame: pl.DataFrame, filled: Sequence[str], source: str) -> None:
    """Refuse empty cells and clips that stand there twice.

    Raises:
        DataError: the first twenty of them with their lines.
    """
    problems = [
        Problem("bad_cell", "nothing", "text", file=source, line=line, key=name)
        for name in filled
        for line in frame.filter(pl.col(name).is_null())["line"].to_list()
    ]
    twice = frame.filter(pl.col("clip_id").is_not_null() & ~pl.col("clip_id").is_first_distinct())
    problems += [
        Problem("clip_twice", f"clip {clip} twice", "each clip once", file=source, line=line, key="clip_id")
        for clip, line in twice.select("clip_id", "line").iter_rows()
    ]
    if problems:
        raise DataError(at_most(problems))
