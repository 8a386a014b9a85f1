"""Which frame of the study a name in a label or prediction file means."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import polars as pl

from birdlab.errors import Problem
from birdlab.readers.files import nearest

How = Literal["exact", "relative", "suffix", "basename", "outside", "ambiguous", "unknown"]


@dataclass(frozen=True)
class Resolved:
    """Which frame a name in a label or prediction file means, and how that was found out.

    ``how`` is ``outside`` for a file that exists but is no part of the study, ``ambiguous`` where several frames
    have that name (``candidates``), ``unknown`` where none has.
    """

    frame_id: str | None
    how: How
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class FrameNames:
    """An index of the study's frames by name; see :func:`index_names`."""

    root: Path
    exact: dict[str, str]
    by_basename: dict[str, tuple[str, ...]]
    by_stem: dict[str, tuple[str, ...]]
    media: frozenset[str]

    def resolve(self, name: str, folder: Path, frame_index: int | None = None) -> Resolved:
        """The frame called ``name`` in a file that lies in ``folder``.

        Tried in turn: path relative to the data root, path relative to ``folder``, then the only frame of that
        basename (of several, the one that shares most trailing folders). Backslashes are read as slashes. A file
        that exists on disk without being a frame of the study is ``outside``, never matched by its basename.

        Args:
            name: path or name as written in the file.
            folder: folder of the label or prediction file.
            frame_index: frame of a video file; the name then is the video's.
        """
        clean = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
        mark = "" if frame_index is None else f"#{frame_index}"
        plain = _tidy(clean)
        for how, path in (("exact", plain), ("relative", self._relative(clean, folder))):
            if path is not None and path + mark in self.exact:
                return Resolved(self.exact[path + mark], how)  # type: ignore[arg-type]
            if path is not None and mark and path in self.media:
                return Resolved(None, "outside")
        without_frame = re.sub(r"#\d+$", "", clean)
        if _exists(self.root / without_frame) or _exists(folder / without_frame):
            return Resolved(None, "outside")
        return self._by_basename(plain + mark)

    def video(self, name: str, folder: Path) -> str | None:
        """The media file called ``name`` in a file that lies in ``folder``, by its path or its unique name."""
        clean = unicodedata.normalize("NFC", name.strip().replace("\\", "/"))
        for path in (_tidy(clean), self._relative(clean, folder)):
            if path in self.media:
                return path
        same = [m for m in self.media if PurePosixPath(m).name == PurePosixPath(clean).name]
        return same[0] if len(same) == 1 else None

    def beside(self, file: Path) -> str | None:
        """The only picture with the folder and stem of ``file`` (``a.jpg`` beside ``a.json``)."""
        same = self.by_stem.get(self._relative(file.stem, file.parent) or "", ())
        return same[0] if len(same) == 1 else None

    def _by_basename(self, path: str) -> Resolved:
        candidates = self.by_basename.get(PurePosixPath(path).name.casefold(), ())
        if not candidates:
            return Resolved(None, "unknown")
        if len(candidates) == 1:
            return Resolved(candidates[0], "basename")
        shared = sorted(((_shared_tail(path, c), c) for c in candidates), reverse=True)
        if shared[0][0] > shared[1][0]:
            return Resolved(shared[0][1], "suffix")
        return Resolved(None, "ambiguous", candidates)

    def _relative(self, clean: str, folder: Path) -> str | None:
        base = Path(os.path.normpath(self.root))
        target = Path(os.path.normpath(folder / clean))
        return (
            unicodedata.normalize("NFC", target.relative_to(base).as_posix()) if target.is_relative_to(base) else None
        )


def index_names(frames: pl.DataFrame, root: Path) -> FrameNames:
    """Index the frames of a study so that label files can be matched to them."""
    ids = frames["frame_id"].to_list()
    exact = {unicodedata.normalize("NFC", frame_id): frame_id for frame_id in ids}
    by_basename: dict[str, list[str]] = {}
    by_stem: dict[str, list[str]] = {}
    for name, frame_id in exact.items():
        pure = PurePosixPath(name)
        by_basename.setdefault(pure.name.casefold(), []).append(frame_id)
        by_stem.setdefault(pure.with_suffix("").as_posix(), []).append(frame_id)
    media = frozenset(unicodedata.normalize("NFC", m) for m in frames["media_id"].unique().to_list())
    return FrameNames(root, exact, _frozen(by_basename), _frozen(by_stem), media)


def _frozen(index: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(values) for key, values in index.items()}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def _tidy(path: str) -> str:
    return PurePosixPath(os.path.normpath(path)).as_posix() if path else path


def _shared_tail(a: str, b: str) -> int:
    n = 0
    for x, y in zip(reversed(a.split("/")), reversed(b.split("/")), strict=False):
        if x.casefold() != y.casefold():
            break
        n += 1
    return n


def unresolved(name: str, resolved: Resolved, names: FrameNames, *, file: str, record: str) -> Problem:
    """The problem of a name that means no frame of the study, with the nearest names."""
    if resolved.how == "ambiguous":
        some = ", ".join(resolved.candidates[:3])
        found = f"{name!r}, the name of {len(resolved.candidates)} pictures ({some})"
        return Problem(
            "ambiguous_image",
            found,
            "a path that means one picture",
            "give the path from data.root",
            file=file,
            record=record,
        )
    near = ", ".join(nearest(name, list(names.exact), 2))
    remedy = "check data.root and data.media in the recipe"
    return Problem(
        "unknown_image", f"{name!r}", f"a picture of the study, such as {near}", remedy, file=file, record=record
    )
