"""The layout in which CHIRP publishes its application set: truth by hand, predictions of every stage, a second person.

``MetaData.csv`` names the videos, ``GroundTruth`` has boxes and behaviours, ``InferenceData`` tracks, windows and
identities, ``HumanBenchmarkBORIS`` what a person coded again. Labels and track ids are kept as they stand in the files.
"""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from birdlab import schemas
from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.chirp_names import PICKLES, Named, bird_expr, bird_of, name_files, track_expr
from birdlab.readers.chirp_predictions import read_identities, read_windows
from birdlab.readers.chirp_remarks import remarks
from birdlab.readers.columns import read_columns
from birdlab.readers.files import Notice, notice_table

__all__ = ["Colony", "bird_expr", "bird_of", "read_colony"]
#: Frame rate of the published videos, for those that have none of their own, Hz.
FPS = 25.0
#: Frame rates that a camera can have, Hz; longest video (two days at 50 Hz), frames; farthest corner of a box, px. What
#: lies outside is a slip of the pen, and would fill the memory or give numbers that are none.
RATES, MOST_FRAMES, FARTHEST = (1e-4, 1e5), 10_000_000, 1e7
_RATE = f"a frame rate from {RATES[0]:g} to {RATES[1]:,.0f}, Hz"
_BOX = {
    "Frame": pl.Int64,
    "ID": pl.String,
    "Xmin": pl.Float64,
    "Ymin": pl.Float64,
    "Xmax": pl.Float64,
    "Ymax": pl.Float64,
}
_EVENT = {"ID": pl.String, "Behaviour": pl.String, "StartFrame": pl.Int64, "EndFrame": pl.Int64}
_PREDICTED = ("colony_tracks", "colony_windows", "colony_identities")
COMBINATIONS = {
    "tracker": pl.String, "model": pl.String, "identity": pl.String, "complete": pl.Boolean,
    "videos": pl.List(pl.String), "missing_videos": pl.List(pl.String),
}  # fmt: skip


@dataclass(frozen=True)
class Colony:
    """One application set, as tables of :mod:`birdlab.schemas.individuals`.

    Args:
        videos, boxes, events, tracks, identities, windows, human: tables ``colony_*``.
        combinations: tracker, model, identity that were submitted; complete, videos (present), missing_videos.
        notices: code, message, n, file of what was remarked.
    """

    videos: pl.DataFrame
    boxes: pl.DataFrame
    events: pl.DataFrame
    tracks: pl.DataFrame
    identities: pl.DataFrame
    windows: pl.DataFrame
    human: pl.DataFrame
    combinations: pl.DataFrame
    notices: pl.DataFrame


def read_colony(folder: Path, inference: Path | None = None, *, fps: float | None = None, human: bool = True) -> Colony:
    """Read an application set.

    Args:
        folder: holds MetaData.csv and GroundTruth, or a folder ``ApplicationSpecific`` that does.
        inference: folder of the predictions; default: ``InferenceData`` in it.
        fps: frame rate of videos without one in MetaData.csv, Hz; default 25, with a notice.
        human: read what a person coded again.

    Returns:
        All tables. Expected videos are the rows of MetaData.csv: a combination that lacks one is incomplete, and one
        without truth by hand is missing everywhere. What is odd but can be read is a notice.

    Raises:
        DataError: everything that cannot be read, in one error: missing files, names that say no known video or
            tracker, cells of a wrong type with their lines, pickles of more than plain values.
    """
    if fps is not None and not RATES[0] <= fps <= RATES[1]:
        raise ParameterError(Problem("bad_fps", f"{fps:g}", _RATE, key="fps"))
    folder, notices = Path(folder), []
    if not (folder / "MetaData.csv").exists() and (folder / "ApplicationSpecific" / "MetaData.csv").exists():
        folder = folder / "ApplicationSpecific"
        text = "the application set lies in the folder ApplicationSpecific of the one that was named"
        notices.append(Notice("subfolder", text, 1))
    place = Path(inference) if inference is not None else folder / "InferenceData"
    _all_there(folder, place)
    videos = read_videos(folder / "MetaData.csv", fps, notices)
    known = videos["video_id"].to_list()
    files = sorted(place.glob("*"))
    named, problems, other = name_files([f for f in files if f.is_file() and not f.name.startswith(".")], known)
    if other:
        notices.append(Notice("other_files", f"files of no known kind, {other[0].name} first, not read", len(other)))
    named = _once(named, problems, notices)
    longest = [n for n in named if not n.sure]
    if longest:
        text = (
            f"names that can be read in two ways, {longest[0].path.name} first: read with the longest tracker and video"
        )
        notices.append(Notice("two_readings", text, len(longest)))
    with_truth = _with_truth(folder, known, {n.video for n in named}, problems, notices)
    named = [n for n in named if n.video in with_truth or problems]
    collect = _Collected(problems)
    truth = folder / "GroundTruth"
    boxes = collect.all("colony_boxes", [(truth / f"{v}_BBox.csv", _boxes(v)) for v in with_truth])
    events = collect.all("colony_events", [(truth / f"{v}_PeckEvents.csv", _events(v)) for v in with_truth])
    tracks = collect.all("colony_tracks", [(n.path, _tracks(n)) for n in named if n.kind == "tracks"])
    windows = collect.all("colony_windows", [(n.path, _of(read_windows, n)) for n in named if n.kind == "windows"])
    names = collect.all(
        "colony_identities", [(n.path, _of(read_identities, n)) for n in named if n.kind == "identities"]
    )
    coded = _human(folder / "HumanBenchmarkBORIS", known, collect, notices) if human else schemas.empty("colony_human")
    if collect.problems:
        raise DataError(collect.problems[:50])
    if collect.empty:
        text = f"files of predictions without a row, {collect.empty[0].name} first: nothing was found there"
        notices.append(Notice("empty_predictions", text, len(collect.empty)))
    found = _combinations(named, known, notices)
    tables = [videos, boxes, events, tracks, names, windows, coded]
    notices += remarks(*tables, found)
    return Colony(*tables, found, notice_table(notices).with_columns(pl.col("file").cast(pl.String)))


def read_videos(path: Path, fps: float | None, notices: list[Notice]) -> pl.DataFrame:
    """Table ``colony_videos`` from MetaData.csv."""
    wanted = {"Video": pl.String, "VideoLength": pl.Int64}
    frame = read_columns(path, wanted, optional={"PossibleBirds": pl.String, "FPS": pl.Float64})
    problems, rows = [], []
    for row in frame.to_dicts():
        about = {"file": str(path), "line": row["line"]}
        if not 1 <= row["VideoLength"] <= MOST_FRAMES:
            expected = f"frames, from 1 to {MOST_FRAMES:,}"
            problems.append(Problem("bad_length", str(row["VideoLength"]), expected, key="VideoLength", **about))
        rate = row.get("FPS")
        if rate is not None and not RATES[0] <= rate <= RATES[1]:
            problems.append(Problem("bad_fps", f"{rate:g}", _RATE, key="FPS", **about))
        possible = _possible(row.get("PossibleBirds"), about, problems)
        rows.append(
            (row["Video"], row["VideoLength"], rate or fps or FPS, rate is not None or fps is not None, possible)
        )
    names = [row[0] for row in rows]
    twice = sorted({n for n in names if names.count(n) > 1})
    problems += [Problem("video_twice", n, "each video once", file=str(path), key="Video") for n in twice]
    if not rows:
        problems.append(Problem("no_videos", "no row", "a row per video", file=str(path)))
    if problems:
        raise DataError(problems)
    assumed = [row[0] for row in rows if not row[3]]
    if assumed:
        text = f"no frame rate in MetaData.csv: {FPS:g} Hz assumed; give it in a column FPS, or as fps"
        notices.append(Notice("fps_assumed", text, len(assumed)))
    return pl.DataFrame(rows, schema=schemas.TABLES["colony_videos"].dtypes, orient="row")


def _possible(text: str | None, about: dict, problems: list[Problem]) -> list[str]:
    if not text:
        return []
    try:
        found = ast.literal_eval(text) if len(text) < 10_000 else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, (list, tuple)) or not all(isinstance(bird, str) for bird in found):
        expected = "a list of names, ['abcd', 'efgh']"
        problems.append(Problem("bad_list", reprlib.repr(text), expected, key="PossibleBirds", **about))
        return []
    return list(dict.fromkeys(bird for name in found if (bird := bird_of(name)) is not None))


def _all_there(folder: Path, inference: Path) -> None:
    """One error with everything of the layout that is missing, and what belongs there."""
    meta, problems = folder / "MetaData.csv", []
    if not meta.exists():
        # Someone who names the folder above the set looks for it one level down.
        below = sorted(p.parent.name for p in folder.glob("*/MetaData.csv"))[:3]
        remedy = f"name the folder {' or '.join(below)} in it" if below else "check the path of the folder"
        expected = "a table with the columns Video and VideoLength (frames)"
        problems.append(Problem("unreadable", "no such file", expected, remedy, file=str(meta)))
        if below or not folder.is_dir():
            raise DataError(problems)
    holds = {
        folder / "GroundTruth": "the truth by hand, {video}_BBox.csv and {video}_PeckEvents.csv",
        inference: "the predictions, {video}_TrackedBBox_{tracker}.csv and the names and behaviours of its tracks",
    }
    for place, what in holds.items():
        if not place.is_dir():
            found = "a file" if place.exists() else "no such folder"
            problems.append(Problem("no_folder", found, f"a folder with {what}", "check the path", file=str(place)))
    if problems:
        raise DataError(problems)


def _once(named: list[Named], problems: list[Problem], notices: list[Notice]) -> list[Named]:
    """Each kind, video, tracker and method once; a pickle goes with its JSON or CSV."""
    kept: dict[tuple, Named] = {}
    beside = 0
    for one in sorted(named, key=lambda n: (n.path.suffix.lower() in PICKLES, str(n.path))):
        key = (one.kind, one.video, one.tracker, one.method)
        first = kept.get(key)
        if first is None:
            kept[key] = one
        elif one.path.suffix.lower() in PICKLES and first.path.suffix.lower() not in PICKLES and not first.beside:
            kept[key] = replace(first, beside=one.path)
            beside += 1
        else:
            found, remedy = f"{first.path.name} too", "keep one of them"
            problems.append(Problem("twice", found, "one file", remedy, file=str(one.path)))
    if beside:
        text = "pickles beside a JSON or CSV: compared with it where they hold plain values, passed over where not"
        notices.append(Notice("pickle_beside", text, beside))
    return sorted(kept.values(), key=lambda n: str(n.path))


def _with_truth(
    folder: Path, known: list[str], predicted: set[str], problems: list[Problem], notices: list[Notice]
) -> list[str]:
    """Videos that have boxes and behaviours by hand; missing for some is a notice, for all, or in part, a problem."""
    truth, out, without = folder / "GroundTruth", [], []
    for video in known:
        files = [truth / f"{video}_{kind}.csv" for kind in ("BBox", "PeckEvents")]
        missing = [f for f in files if not f.exists()]
        if not missing:
            out.append(video)
        elif len(missing) == 1 or video in predicted:
            remedy = "add it, or take the video out of MetaData.csv"
            problems += [
                Problem("no_truth", "no such file", f"the truth of video {video}", remedy, str(f)) for f in missing
            ]
        else:
            without.append(video)
    if without and not out and not problems:
        problems.append(Problem("no_truth", "no video with truth by hand", "{video}_BBox.csv", file=str(truth)))
    elif without:
        text = f"videos without truth by hand and predictions ({', '.join(without[:12])}): missing in every combination"
        notices.append(Notice("no_truth", text, len(without)))
    return out


class _Collected:
    """Files read one after the other; problems of all of them are kept for one error."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.empty: list[Path] = []

    def all(self, table: str, files: Iterable[tuple[Path, Callable[[Path], pl.DataFrame]]]) -> pl.DataFrame:
        parts = [schemas.empty(table)]
        for path, read in files:
            try:
                parts.append(schemas.validate(table, read(path), source=str(path)))
                if parts[-1].is_empty() and table in _PREDICTED:
                    self.empty.append(path)
            except BirdlabError as error:
                self.problems += error.problems or [
                    Problem("unreadable", str(error), "a file of the set", file=str(path))
                ]
        return pl.concat(parts, how="diagonal")


def _of(read: Callable[[Named], pl.DataFrame], named: Named) -> Callable[[Path], pl.DataFrame]:
    return lambda _: read(named)


def _corners(path: Path) -> pl.DataFrame:
    frame = read_columns(path, _BOX)
    corners, problems = ("Xmin", "Ymin", "Xmax", "Ymax"), []
    for name in corners:
        for value, line in frame.filter(pl.col(name).abs() > FARTHEST).select(name, "line").head(5).iter_rows():
            about = {"file": str(path), "line": line, "key": name}
            problems.append(Problem("bad_corner", f"{value:g}", f"px, at most {FARTHEST:g}", **about))
    if problems:
        raise DataError(problems)
    return frame.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"), pl.col("Frame").alias("frame"), "ID",
        *(pl.col(c).alias(c.lower()) for c in corners),
    )  # fmt: skip


def _boxes(video: str) -> Callable[[Path], pl.DataFrame]:
    def read(path: Path) -> pl.DataFrame:
        return _corners(path).select(
            pl.lit(video).alias("video_id"), pl.col("ID").alias("visit_id"), bird_expr("ID").alias("individual_id"),
            pl.exclude("ID"),
        )  # fmt: skip

    return read


def _tracks(named: Named) -> Callable[[Path], pl.DataFrame]:
    def read(path: Path) -> pl.DataFrame:
        about = {"tracker": named.tracker, "video_id": named.video}
        track = track_expr("ID").alias("track_id")
        return _corners(path).select(*(pl.lit(v).alias(k) for k, v in about.items()), track, pl.exclude("ID"))

    return read


def _events(video: str) -> Callable[[Path], pl.DataFrame]:
    def read(path: Path) -> pl.DataFrame:
        frame = read_columns(path, _EVENT)
        late = frame.filter(pl.col("EndFrame") < pl.col("StartFrame"))
        if late.height:
            raise DataError(
                [
                    Problem("reversed_event", f"frames {start} to {end}", "StartFrame ≤ EndFrame", "turn them round",
                            file=str(path), line=line)
                    for start, end, line in late.head(10).select("StartFrame", "EndFrame", "line").iter_rows()
                ]
            )  # fmt: skip
        return frame.select(
            pl.lit(video).alias("video_id"), pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
            pl.col("ID").alias("label"), bird_expr("ID").alias("individual_id"), pl.col("Behaviour").alias("behaviour"),
            pl.col("StartFrame").alias("start"), pl.col("EndFrame").alias("end"),
        )  # fmt: skip

    return read


def _human(place: Path, known: list[str], collect: _Collected, notices: list[Notice]) -> pl.DataFrame:
    if not place.is_dir():
        return schemas.empty("colony_human")
    files: dict[tuple[str, str], Path] = {}
    drawn, other = [], []
    for path in sorted(p for p in place.iterdir() if p.is_file() and not p.name.startswith(".")):
        fitting = [v for v in known if path.stem.startswith(f"{v}_") and len(path.stem) > len(v) + 1]
        if path.suffix.lower() != ".tsv" or not fitting:
            (drawn if path.name.startswith("Random_") else other).append(path.name)
            continue
        video = max(fitting, key=len)
        label = path.stem[len(video) + 1 :]
        key = (video, bird_of(label) or label)
        if key in files:
            found, remedy = f"{files[key].name} too", "keep one of them"
            collect.problems.append(Problem("twice", found, "one file per video and bird", remedy, file=str(path)))
        files.setdefault(key, path)
    for code, names, text in (
        ("human_random", drawn, "random baselines drawn by somebody else, not read: how they were drawn is not known"),
        ("human_other", other, "files that are no person's coding of a video of MetaData.csv, not read"),
    ):
        if names:
            notices.append(Notice(code, f"{text} ({', '.join(names[:6])})", len(names)))
    coded = collect.all("colony_human", [(path, _coded(*key)) for key, path in files.items()])
    without = set(files) - set(coded.select("video_id", "individual_id").unique().rows())
    if without and not collect.problems:
        first = files[min(without)].name
        notices.append(Notice("human_empty", f"codings without a row, {first} first: nothing was coded", len(without)))
    if not files:
        notices.append(Notice("human_none", "HumanBenchmarkBORIS holds no coding of a video: no second person", 0))
    return coded


def _coded(video: str, bird: str) -> Callable[[Path], pl.DataFrame]:
    def read(path: Path) -> pl.DataFrame:
        frame = read_columns(path, {"Present": pl.Int64, "Peck": pl.Int64})
        wrong = frame.filter(~pl.col("Present").is_in([0, 1]) | ~pl.col("Peck").is_in([0, 1]))
        if wrong.height:
            found = f"Present {wrong['Present'][0]}, Peck {wrong['Peck'][0]}"
            raise DataError(Problem("not_binary", found, "0 or 1", file=str(path), line=int(wrong["line"][0])))
        return frame.select(
            pl.lit(video).alias("video_id"), pl.lit(bird).alias("individual_id"),
            pl.int_range(pl.len(), dtype=pl.Int32).alias("frame"),
            pl.col("Present").cast(pl.Boolean).alias("present"), pl.col("Peck").cast(pl.Boolean).alias("peck"),
        )  # fmt: skip

    return read


def _combinations(named: list[Named], known: list[str], notices: list[Notice]) -> pl.DataFrame:
    """Tracker, model and identity of the same tracker, with the videos that have all three."""
    have: dict[tuple[str, str, str], set[str]] = {}
    for one in named:
        have.setdefault((one.kind, one.tracker, one.method), set()).add(one.video)
    rows = []
    alone: list[str] = []
    for (_, tracker, _), boxes in sorted((k, v) for k, v in have.items() if k[0] == "tracks"):
        models = sorted((k[2], v) for k, v in have.items() if k[:2] == ("windows", tracker))
        methods = sorted((k[2], v) for k, v in have.items() if k[:2] == ("identities", tracker))
        if not models or not methods:
            alone.append(tracker)
        for model, coded in models:
            for identity, names in methods:
                there = boxes & coded & names
                missing = [v for v in known if v not in there]
                rows.append((tracker, model, identity, not missing, [v for v in known if v in there], missing))
    if alone:
        text = f"trackers without behaviours or without names of birds ({', '.join(alone[:6])}): in no combination"
        notices.append(Notice("not_combined", text, len(alone)))
    if apart := [row for row in rows if not row[4]]:
        text = (
            f"combinations without a video that has all of their files ({' · '.join(apart[0][2::-1])} first): left out"
        )
        notices.append(Notice("no_common_video", text, len(apart)))
    return pl.DataFrame([row for row in rows if row[4]], schema=COMBINATIONS, orient="row")
