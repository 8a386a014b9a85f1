"""Strips of clips: frames from first to last, with the behaviour named by hand and by each model under them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from birdlab.errors import DataError, Problem
from birdlab.panels.detection import spread
from birdlab.readers.labels import locate
from birdlab.report.show import Panel, m

if TYPE_CHECKING:
    from birdlab.recipe import Recipe

Picture = NDArray[np.uint8]
WIDTH_PX = {"big": 760, "full": 1400}  #: saved width of a strip
_GAP_PX = 4
_QUALITY = 78
#: A strip of frames that are wider than this (width / height) takes the whole page.
_WIDE_FRAME = 1.25
#: Columns of the clips' table that hold the path of a clip, in any case.
_PATHS = ("videopath", "path", "clip_path", "file")
_NO_ANSWER = "nothing"


def clip_panels(
    clips: pl.DataFrame, root: Path, recipe: Recipe, *, n: int = 6, each: int = 5, base: Path | None = None
) -> list[Panel]:
    """Strips of clips, those that a model named wrong first, then the others; a video's second after every video's first.

    Args:
        clips: table ``action_clips``.
        root: folder of the data.
        recipe: its section ``individuals.actions`` names the table of clips; the column VideoPath (or ``path``) of that table
            says where a clip lies: under ``root``, or beside the table.
        n: strips at most.
        each: frames of a strip.
        base: folder of the recipe, where the table is looked for first (default: ``root``).

    Returns:
        Panels. A clip whose file is not there or cannot be read is passed over, with a word in the log; none is left where
        the table has no paths.
    """
    section = recipe.individuals.actions if recipe.individuals else None
    if section is None or clips.is_empty() or n < 1:
        return []
    files = clip_files(locate(section.truth, base or root, root), root)
    if not files:
        logging.getLogger("birdlab").info("no clip of %s has a file: no strip is shown", section.truth)
        return []
    panels: list[Panel] = []
    for row in _wanted(clips):
        path = files.get(row["clip_id"])
        if path is None:
            continue
        answers = {a["model"]: a["predicted"] for a in row["answers"] if a["model"]}
        try:
            panels.append(clip_strip(path, truth=row["truth"], answers=answers, n=each, name=row["clip_id"]))
        except DataError as error:
            logging.getLogger("birdlab").warning("clip %s is not shown: %s", row["clip_id"], error)
        if len(panels) == n:
            break
    return panels


def clip_caption(
    shown: Sequence[Panel], clips: pl.DataFrame, root: Path, recipe: Recipe, *, base: Path | None = None
) -> str:
    """How to read the strips and how many clips have no file; where none is shown, why and how to give the files.

    Args:
        shown: what :func:`clip_panels` gave.
        clips, root, recipe, base: as for it.
    """
    section = recipe.individuals.actions if recipe.individuals else None
    read = "Frames of a clip from left to right. Mistakes first."
    if section is None:
        return "No clips are asked for: the recipe has no individuals.actions."
    ids = clips["clip_id"].unique()
    if ids.is_empty():
        return f"No clip: {section.truth} lists none."
    table = locate(section.truth, base or root, root)
    n = len(set(ids) - set(clip_files(table, root)))
    column = path_column(table)
    if column is None:
        return f"{section.truth} does not say where clips lie: give it a column VideoPath (or path), under data.root or beside the table."
    if n == len(ids):
        return f"No clip of {section.truth} has a file: {column} is looked for under data.root and beside the table; copy the clips there."
    if not shown:
        return "No clip is shown: n_clips is 0, or none of the files can be read; the log of the notebook says which."
    return f"{read} {n:,} of {len(ids):,} clips have no file at their {column}." if n else read


def path_column(table: Path) -> str | None:
    """The column of a table of clips that says where they lie, as it is spelt there; None without one."""
    from birdlab.readers.csvfile import read_rows

    heads = [head.strip() for head in read_rows(table, shown=str(table)).header]
    return next((head for head in heads if head.casefold() in _PATHS), None)


def clip_strip(
    path: Path, *, truth: str = "", answers: Mapping[str, str | None] | None = None, n: int = 5, name: str = ""
) -> Panel:
    """Frames of a clip side by side, at even distances from the first to the last one.

    Args:
        path: a video file.
        truth: behaviour by hand.
        answers: model -> behaviour; ``None`` where it names none.
        n: frames; a shorter clip gives all it has.
        name: of the clip, for the alt text; the file's name where it is empty.

    Raises:
        DataError: a file that is not there, or in which no wanted frame can be read.
    """
    frames = frames_of(path, n)
    height, width = frames[0].shape[:2]
    size = "full" if width > _WIDE_FRAME * height else "big"
    strip = side_by_side(frames, WIDTH_PX[size], places=n)
    jpeg = _jpeg(strip)
    said = [(model, answer or _NO_ANSWER) for model, answer in (answers or {}).items()]
    right = "; ".join(f"{m(model)}: {_plain(answer)}" for model, answer in said)
    caption = f"**{_plain(truth)}** by hand." if truth else ""
    caption += f" {right}." if right else ""
    spoken = "; ".join(f"{model}: {answer}" for model, answer in said)
    alt = f"{len(frames)} frames of clip {name or path.stem}" + (f", by hand {truth}" if truth else "")
    alt += f"; {spoken}" if spoken else ""
    return Panel(jpeg, strip.shape[1], strip.shape[0], [], caption.strip(), alt, size=size)


def frames_of(path: Path, n: int) -> list[Picture]:
    """Up to ``n`` frames of a video at even distances, the first and the last among them; unreadable ones left out.

    Raises:
        DataError: no file, or no readable frame.
    """
    from birdlab.readers.video import decode
    from birdlab.readers.video_info import read_info

    if not path.is_file():
        raise DataError(Problem("no_file", "no such file", "a clip", file=str(path)))
    times = read_info(path).times_s
    indices = sorted({round(i) for i in np.linspace(0, len(times) - 1, max(1, n)).tolist()}) if len(times) else []
    found = [p for _, p in decode(path, indices, times=[float(times[i]) for i in indices])]
    pictures = [p for p in found if not isinstance(p, DataError)]
    if not pictures:
        raise DataError(Problem("no_frame", "no frame that can be read", "a clip", file=str(path)))
    return pictures


def side_by_side(frames: Sequence[Picture], width: int, *, places: int | None = None) -> Picture:
    """Frames scaled to one width and set side by side on white; fewer frames than ``places`` leave the rest white.

    Args:
        frames: height × width × 3, uint8; of one size, or fitted into that of the first.
        width: of the strip, px.
        places: frames that would fill the strip.
    """
    import cv2

    places = max(len(frames), places or len(frames))
    each = (width - (places - 1) * _GAP_PX) // places
    height = max(1, round(each * frames[0].shape[0] / frames[0].shape[1]))
    strip = np.full((height, width, 3), 255, np.uint8)
    for i, frame in enumerate(frames):
        scale = min(each / frame.shape[1], height / frame.shape[0])
        size = (max(1, round(frame.shape[1] * scale)), max(1, round(frame.shape[0] * scale)))
        small = cv2.resize(frame, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
        left = i * (each + _GAP_PX) + (each - size[0]) // 2
        top = (height - size[1]) // 2
        strip[top : top + size[1], left : left + size[0]] = small
    return strip


def clip_files(table: Path, root: Path) -> dict[str, Path]:
    """Clip -> its file, of the clips whose file is there: at the path under ``root``, beside
    the table, by its name there, or in a folder ``clips`` beside the table's."""
    from birdlab.readers.csvfile import read_rows

    rows = read_rows(table, shown=str(table))
    heads = [head.strip().casefold() for head in rows.header]
    ids = next((heads.index(h) for h in ("clip_id", "annotid") if h in heads), None)
    at = next((heads.index(h) for h in _PATHS if h in heads), None)
    if ids is None or at is None:
        return {}
    out = {}
    for _, cells in rows.rows:
        # Tables made on Windows have backslashes.
        told = PureWindowsPath(cells[at].strip()).as_posix()
        places = [root / told, table.parent / told, table.parent / Path(told).name]
        places.append(table.parent.parent / "clips" / told)
        found = next((p for p in places if told and p.is_file()), None)
        if found is not None:
            out[cells[ids].strip()] = found
    return out


def _wanted(clips: pl.DataFrame) -> list[dict]:
    """Clips with all answers, mistakes first."""
    wrong = ((pl.col("model") != "") & (pl.col("predicted") != pl.col("truth")).fill_null(True)).any()
    rows = clips.group_by("clip_id", maintain_order=True).agg(
        pl.col("video_id", "truth").first(), wrong.alias("wrong"), pl.struct("model", "predicted").alias("answers")
    )
    first, rest = rows.filter("wrong"), rows.filter(~pl.col("wrong"))
    return [row for part in (first, rest) for row in spread(part, part.height)]


def _plain(text: str) -> str:
    """A behaviour's name without what a caption would read as a mark."""
    return text.replace("*", "∗").replace("{", "(").replace("}", ")")


def _jpeg(picture: Picture) -> bytes:
    import cv2

    return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1].tobytes()
