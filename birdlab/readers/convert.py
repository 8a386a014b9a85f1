"""``birdlab convert PATH``: pickles of an application set as JSON beside them; a run's own tracks in that set's layout."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.chirp_names import PICKLES
from birdlab.readers.chirp_predictions import NAMES_SHAPE, WINDOWS_SHAPE, dictionary, name_rows, track_name, window_rows
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    import argparse

_WINDOWS, _NAMES = "_BehavDict_", "_IDMatch_"


@dataclass(frozen=True)
class Converted:
    """What became of the pickles of a folder.

    Args:
        written: JSON files that were written, or lay there with the same content.
        numbers: those of pickles whose tracks are numbers; JSON writes them as text.
        problems: pickles that were refused, and JSON files of other content that stand in the way.
    """

    written: list[Path]
    numbers: list[Path]
    problems: list[Problem]


def convert_pickle(path: Path, *, force: bool = False) -> tuple[Path, bool]:
    """Write a pickle of behaviours or names of tracks as JSON beside it.

    Args:
        path: ``{video}_BehavDict_{model}_{tracker}.p`` or ``{video}_{identity}_IDMatch_{tracker}.p`` (or .pkl, .pickle),
            of plain values; nothing of it is executed.
        force: replace a JSON file of other content.

    Returns:
        The JSON file, ``{track: [[start, end, label], …]}`` or ``{track: bird}`` with tracks and windows in the order of
        the pickle, and whether tracks were numbers. Written whole or not at all; one of the same content is left as it
        is. The pickle stays.

    Raises:
        DataError: no such file, not one of the two kinds, not of plain values, or a JSON file of other content is there.
    """
    path = Path(path)
    if path.suffix.lower() not in PICKLES or not (_WINDOWS in path.stem or _NAMES in path.stem):
        expected = "{video}_BehavDict_{model}_{tracker}.p or {video}_{identity}_IDMatch_{tracker}.p"
        raise DataError(Problem("not_of_the_set", path.name, expected, file=str(path)))
    content, numbers = _content(path)
    out = path.with_suffix(".json")
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if out.exists() and not force:
        if _text_of(out) != content:
            found, remedy = "a file of other content", "take it away, or give --force to replace it"
            raise DataError(Problem("in_the_way", found, f"no file, or what {path.name} says", remedy, file=str(out)))
    else:
        write_atomic(out, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
    return out, numbers


def convert_folder(folder: Path, *, force: bool = False) -> Converted:
    """Write every pickle of behaviours or names below a folder as JSON beside it; see :func:`convert_pickle`.

    Returns:
        What was written, and what was not and why: one bad file does not hold up the others.

    Raises:
        DataError: no such folder, or no such pickle in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise DataError(Problem("no_folder", found, "a folder with predictions", "check the path", file=str(folder)))
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in PICKLES
        and path.is_file()
        and not path.name.startswith(".")
        and (_WINDOWS in path.stem or _NAMES in path.stem)
    ]
    if not paths:
        found, expected = "no pickle of behaviours or names", "files named …_BehavDict_….p or …_IDMatch_….p"
        raise DataError(Problem("nothing_to_convert", found, expected, file=str(folder)))
    written: list[Path] = []
    numbers: list[Path] = []
    problems: list[Problem] = []
    seen: dict[Path, Path] = {}
    for path in paths:
        out = path.with_suffix(".json")
        if out in seen:
            found = f"{seen[out].name} too, which is written to the same file"
            problems.append(Problem("twice", found, "one pickle", "keep one of them", file=str(path)))
            continue
        seen[out] = path
        try:
            made, has_numbers = convert_pickle(path, force=force)
        except BirdlabError as error:
            problems += error.problems
            continue
        written.append(made)
        if has_numbers:
            numbers.append(made)
    return Converted(written, numbers, problems)


def convert_command(args: argparse.Namespace) -> int:
    """``birdlab convert PATH [--out DIR] [--force] [--json]``: a pickle, every one below a folder, or the tracks of a run.

    Raises:
        DataError: pickles that were refused, or files in the way, all of them, after the others were written.
    """
    from birdlab.inference.layout import tables_of

    path = Path(args.path)
    tables = tables_of(path)
    if tables is not None:
        return _run_command(path, tables, args)
    if getattr(args, "out", None) is not None:
        found, expected = "--out with pickles", "a run: JSON is written beside each pickle"
        raise ParameterError(Problem("bad_option", found, expected, key="--out"))
    if not path.exists():
        raise DataError(
            Problem("unreadable", "no such file", "a pickle, or a folder", "check the path", file=str(path))
        )
    if path.is_dir():
        done = convert_folder(path, force=args.force)
    else:
        made, has_numbers = convert_pickle(path, force=args.force)
        done = Converted([made], [made] if has_numbers else [], [])
    if getattr(args, "json", False) and not done.problems:
        files = [str(file) for file in done.written]
        sys.stdout.write(json.dumps({"written": files, "number_tracks": [str(f) for f in done.numbers]}) + "\n")
    elif not getattr(args, "json", False):
        sys.stdout.write(_told(done))
    if done.problems:
        raise DataError(done.problems)
    return 0


def _run_command(path: Path, tables: Path, args: argparse.Namespace) -> int:
    """The tracks of a run, into ``InferenceData`` of ``--out`` or of the folder that was named."""
    from birdlab.inference.layout import told, write_layout

    folder = path.parent if path.name == "followed.parquet" else path
    done = write_layout(tables, getattr(args, "out", None) or folder, force=args.force)
    if not getattr(args, "json", False):
        sys.stdout.write(told(done))
    elif not done.problems:
        counts = {"videos": done.videos, "boxes": done.n_boxes, "windows": done.n_windows}
        sys.stdout.write(json.dumps({"written": [str(file) for file in done.written]} | counts) + "\n")
    if done.problems:
        raise DataError(done.problems)
    return 0


def _told(done: Converted) -> str:
    lines = [f"{len(done.written)} of {len(done.written) + len(done.problems)} pickles are there as JSON"]
    if done.numbers:
        lines.append(
            f"tracks are numbers in {len(done.numbers)} of them ({done.numbers[0].name} first) and text in JSON: "
            "protocol reference tells 1 from '1', so keep those pickles beside the JSON if you print it"
        )
    return "\n".join(lines) + "\n"


def _content(path: Path) -> tuple[dict[str, Any], bool]:
    """The dictionary of a pickle in JSON's types, and whether one of its tracks is a number."""
    of_windows = _WINDOWS in path.stem
    tracks = list(dictionary(path, WINDOWS_SHAPE if of_windows else NAMES_SHAPE))
    names = [track_name(track, path) for track in tracks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        found = f"track {twice} twice, as a number and as text"
        raise DataError(Problem("twice", found, "each track once", file=str(path)))
    numbers = not all(isinstance(track, str) for track in tracks)
    if not of_windows:
        return {track: bird for track, bird, _ in name_rows(path)}, numbers
    out: dict[str, Any] = {name: [] for name in names}
    for track, start, end, label, _ in window_rows(path):
        out[track].append([start, end, label])
    return out, numbers


def _text_of(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
