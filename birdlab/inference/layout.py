"""Tracks and windows that birdlab made itself, written into the layout in which CHIRP publishes its predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.chirp_names import PICKLES
from birdlab.shards import write_atomic

#: Tables of a run that followed birds: what is written is made of them.
TABLES = ("followed", "follow_windows", "follow_videos")
FOLDER = "InferenceData"
_CORNERS = {"frame": "Frame", "track_id": "ID", "xmin": "Xmin", "ymin": "Ymin", "xmax": "Xmax", "ymax": "Ymax"}
_AGAIN = "run the recipe again: 01_inference writes it"


@dataclass
class Laid:
    """What became of the tables of a run.

    Args:
        folder: where the files lie.
        written: files that were written, or lay there with the same content.
        problems: files of other content that stand in the way.
        n_videos, n_boxes, n_windows: what they hold; videos without a box are among them, with files without a row.
        videos: names of the videos, as a MetaData.csv must have them.
    """

    folder: Path
    n_videos: int = 0
    n_boxes: int = 0
    n_windows: int = 0
    videos: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def tables_of(path: Path) -> Path | None:
    """The folder with the tables of tracks that a path means: of a run, of its tables, or of ``followed.parquet``.

    Returns:
        The folder, or None where the path is nothing of a run that followed birds. A folder with ``run.json`` and without
        pickles is taken for one, so that what it lacks is named.
    """
    if path.name == "followed.parquet":
        return path.parent
    for folder in (path / "tables", path):
        if (folder / "followed.parquet").is_file():
            return folder
    if (path / "run.json").is_file() and not any(p.suffix.lower() in PICKLES for p in path.rglob("*")):
        return path / "tables"
    return None


def write_layout(tables: Path, out: Path, *, force: bool = False) -> Laid:
    """Write ``{video}_TrackedBBox_{tracker}.csv`` and ``{video}_BehavDict_{model}_{tracker}.json`` of every video.

    Args:
        tables: folder with ``followed.parquet``, and where there are any ``follow_windows.parquet`` and ``follow_videos.parquet``.
        out: folder that gets a folder ``InferenceData``.
        force: replace files of other content.

    Returns:
        See :class:`Laid`. A video has the name that the MOT text of the run has. Frames are those of the video, from 0;
        windows are [start, end). Each file is written whole or not at all, and one of the same content is left as it is.

    Raises:
        DataError: a table is missing, cannot be read or is no such table, or holds nobody.
    """
    from birdlab.inference.follow import as_colony, as_colony_windows, video_names

    followed, rows, videos = _read(tables)
    tracks, windows = as_colony(followed, videos), as_colony_windows(rows, videos)
    names = video_names(videos["media_id"].unique(maintain_order=True).to_list())
    done = Laid(out / FOLDER, len(names), tracks.height, windows.height, sorted(names.values()))
    done.folder.mkdir(parents=True, exist_ok=True)
    models = windows["model"].unique(maintain_order=True).to_list()
    for tracker, media_id in videos.iter_rows():
        name = names[media_id]
        mine = tracks.filter(video_id=name, tracker=tracker).sort("frame", "row")
        boxes = mine.select(pl.col(old).alias(new) for old, new in _CORNERS.items()).write_csv()
        _put(done, f"{name}_TrackedBBox_{tracker}.csv", boxes, force=force)
        for model in models:
            said = windows.filter(video_id=name, tracker=tracker, model=model)
            content = json.dumps(dict(_windows(mine, said)), ensure_ascii=False) + "\n"
            _put(done, f"{name}_BehavDict_{model}_{tracker}.json", content, force=force)
    return done


def told(done: Laid) -> str:
    """What was written and what is still to be given, for the terminal."""
    n = len(done.written)
    lines = [
        f"{n} of {n + len(done.problems)} files are in {done.folder}: {done.n_boxes:,} boxes and {done.n_windows:,} windows "
        f"of {done.n_videos:,} {'video' if done.n_videos == 1 else 'videos'}",
        f"as Video in MetaData.csv: {', '.join(done.videos[:6])}{' …' if len(done.videos) > 6 else ''}",
        "feeding rates need names of birds too: give {video}_{method}_IDMatch_{tracker}.csv (track_id, individual_id)",
    ]
    if not done.n_windows:
        lines.append(
            "and behaviours: the run has no windows; give {video}_BehavDict_{model}_{tracker}.csv, or a classifier"
        )
    return "\n".join(lines) + "\n"


def _windows(tracks: pl.DataFrame, said: pl.DataFrame) -> Iterator[tuple[str, list[tuple[int, int, str]]]]:
    """Every track of a video with its windows; an empty list for one too short to have any."""
    by = dict.fromkeys(tracks["track_id"].unique(maintain_order=True).to_list(), pl.DataFrame())
    by |= {track: part for (track,), part in said.group_by("track_id", maintain_order=True)}
    for track, part in by.items():
        yield track, part.select("start", "end", "label").sort("start").rows() if part.height else []


def _put(done: Laid, name: str, text: str, *, force: bool) -> None:
    path = done.folder / name
    if path.exists() and not force and path.read_bytes() != text.encode():
        remedy = "take it away, or give --force to replace it"
        done.problems.append(
            Problem("in_the_way", "a file of other content", "no file, or what the run says", remedy, file=str(path))
        )
        return
    if not path.exists() or path.read_bytes() != text.encode():
        write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    done.written.append(path)


def _read(tables: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    from birdlab.inference.clips import WINDOWS
    from birdlab.inference.follow import FOLLOWED, VIDEOS

    followed = _table(tables / "followed.parquet", FOLLOWED)
    rows, videos = WINDOWS.to_frame(), followed.select("tracker", "media_id").unique(maintain_order=True)
    if (tables / "follow_windows.parquet").is_file():
        rows = _table(tables / "follow_windows.parquet", WINDOWS)
    if (tables / "follow_videos.parquet").is_file():
        videos = _table(tables / "follow_videos.parquet", VIDEOS).select("tracker", "media_id")
    if videos.is_empty():
        expected = "a study whose recipe has a section tracking, and videos"
        raise DataError(Problem("nobody", "no video that birds were followed through", expected, file=str(tables)))
    for name, frame in (("followed", followed), ("follow_windows", rows)):
        strange = frame.join(videos, on=["tracker", "media_id"], how="anti")["media_id"].unique().to_list()
        if strange:
            found, expected = f"video {strange[0]}, which follow_videos lacks", "tables of one run"
            raise DataError(Problem("strange", found, expected, _AGAIN, file=str(tables / f"{name}.parquet")))
    return followed, rows, videos


def _table(path: Path, schema: pl.Schema) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError as error:
        expected = "the tracks of a study whose recipe has a section tracking"
        raise DataError(Problem("no_tracks", "no such file", expected, _AGAIN, file=str(path))) from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(Problem("unreadable", str(error)[:120], "a parquet file", _AGAIN, file=str(path))) from error
    wrong = [
        f"{name} {frame.schema.get(name, 'missing')}" for name, kind in schema.items() if frame.schema.get(name) != kind
    ]
    if wrong:
        expected = f"a table {path.stem} as a run writes it"
        raise DataError(Problem("wrong_table", ", ".join(wrong[:4]), expected, _AGAIN, file=str(path)))
    return frame.select(list(schema))
