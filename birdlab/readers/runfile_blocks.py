"""The bytes of a run file in blocks of whole lines, plain or gzip, in bounded memory whatever the file holds."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from birdlab.errors import DataError, Problem

#: Bytes read at once; no line may be longer.
BLOCK = 16 << 20
_PROBE = 1 << 16
_BOM = b"\xef\xbb\xbf"


def kind_of(path: Path) -> str:
    """``parquet``, ``gzip`` or ``text``, by the first bytes.

    Raises:
        DataError: no such file, a folder, a file that may not be read.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        why = "no such file" if not path.exists() else "a folder" if path.is_dir() else error.strerror or str(error)
        raise DataError(Problem("unreadable", why, "a run file", "check the path", str(path))) from error
    if magic == b"PAR1":
        return "parquet"
    return "gzip" if magic[:2] == b"\x1f\x8b" else "text"


def blocks_of(path: Path, kind: str, size: int = 0) -> Iterator[bytes]:
    """Blocks of whole lines, as they are in the file; the last line may lack its end.

    Args:
        path: the file.
        kind: of :func:`kind_of`, ``gzip`` or ``text``.
        size: bytes of a block at most (default: ``BLOCK``).

    Raises:
        DataError: UTF-16, a NUL character (binary), a line longer than a block, a gzip file that is damaged.
    """
    size, passed = size or BLOCK, 0
    cut = _packed(path, size) if kind == "gzip" else _plain(path, size)
    for block, is_whole in cut:
        if not passed:
            _refuse_utf16(block, path)
            refuse_binary(block, path, 1)
        if not is_whole:
            line = _line_at(path, kind, passed)
            refuse_binary(block, path, line)
            found = f"a line of more than {size >> 20} MB, beginning {shown(block[:60])}"
            remedy = "is it a run file? See what the file is"
            raise DataError(Problem("line_length", found, "one prediction per line", remedy, str(path), line))
        yield block
        passed += len(block)


def without_bom(block: bytes) -> tuple[bytes, bool]:
    """A first block without its byte order mark, and whether it had one."""
    return block.removeprefix(_BOM), block.startswith(_BOM)


def shown(raw: bytes | str, n: int = 80) -> str:
    """Text as a message shows it, in quotes, at most ``n`` characters of it."""
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    return repr(text if len(text) <= n else text[:n] + "…")


def refuse_binary(block: bytes, path: Path, line: int) -> None:
    """Raise where a block whose first line has this number holds a NUL character."""
    at = block.find(b"\0")
    if at >= 0:
        line += block.count(b"\n", 0, at)
        remedy = "a binary file, or text saved as UTF-16: save it as UTF-8 text"
        raise DataError(Problem("binary", "a NUL character", "UTF-8 text", remedy, str(path), line))


def _line_at(path: Path, kind: str, at: int) -> int:
    """Number of the line that begins at this byte of the text."""
    with gzip.open(path, "rb") if kind == "gzip" else path.open("rb") as file:
        line = 1
        while at > 0 and (block := file.read(min(at, BLOCK))):
            line, at = line + block.count(b"\n"), at - len(block)
    return line


def _refuse_utf16(block: bytes, path: Path) -> None:
    if block[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(Problem("encoding", "UTF-16", "UTF-8 text", "save the file as UTF-8", str(path), 1))


def _plain(path: Path, size: int) -> Iterator[tuple[bytes, bool]]:
    """Blocks cut at the end of a line, read once and not joined; False with a piece of a line that is too long."""
    with path.open("rb") as file:
        end, at = os.fstat(file.fileno()).st_size, 0
        while at < end:
            stop = min(at + size, end)
            if stop < end:
                file.seek(max(at, stop - _PROBE))
                last = file.read(stop - file.tell()).rfind(b"\n")
                if last >= 0:
                    stop = max(at, stop - _PROBE) + last + 1
            file.seek(at)
            block = file.read(stop - at)
            if not block:  # the file was cut meanwhile
                return
            if stop < end and not block.endswith(b"\n"):
                block, is_whole = _cut(block)
                if not is_whole:
                    yield block, False
                    return
            at += len(block)
            yield block, True


def _cut(block: bytes) -> tuple[bytes, bool]:
    """The whole lines at the beginning of a block; files of old Macs end their lines with a carriage return alone."""
    cut = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, len(block) - 1) + 1
    return (block[:cut], True) if cut else (block, False)


def _packed(path: Path, size: int) -> Iterator[tuple[bytes, bool]]:
    try:
        with gzip.open(path, "rb") as file:
            yield from _joined(file, size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        remedy = "pack or copy it again"
        raise DataError(
            Problem("damaged", f"a broken gzip file ({error})", "a whole one", remedy, str(path))
        ) from error


def _joined(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    rest = b""
    while True:
        more = file.read(size - len(rest))
        if not more:
            if rest:
                yield rest, True
            return
        block, is_whole = _cut(rest + more)
        if not is_whole and len(rest) + len(more) < size:
            rest += more
            continue
        if not is_whole:
            yield block, False
            return
        rest = (rest + more)[len(block) :]
        yield block, True


__all__ = ["BLOCK", "blocks_of", "kind_of", "refuse_binary", "shown", "without_bom"]
