"""Long work in pieces that survive a kill: each finished piece is a file, and a finished file is never made again.

``map_shards`` runs a function over shards and writes ``part-<shard id>-<input hash>.parquet``, by a temporary file
and a rename, so a part is either whole or absent. A rerun skips the parts that are there. The result does not depend
on the executor, on the number of workers or on where an earlier run was stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

T = TypeVar("T")
_log = logging.getLogger("birdlab")


@dataclass(frozen=True)
class Shard:
    """A piece of work: ``id`` names it, ``payload`` (JSON types) is all the function needs and decides the part's hash."""

    id: str
    payload: Any

    @property
    def filename(self) -> str:
        """Name of the part; it changes whenever the payload does."""
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", self.id)
        return f"part-{safe}-{digest(self.payload)[:16]}.parquet"


def digest(value: Any) -> str:
    """sha256 of a value of JSON types, independent of the order of keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def split_evenly(items: Sequence[Any], size: int) -> list[list[Any]]:
    """Consecutive pieces of at most ``size`` items.

    >>> split_evenly([1, 2, 3, 4, 5], 2)
    [[1, 2], [3, 4], [5]]
    """
    if size < 1:
        raise ValueError(f"a shard holds at least one item, not {size}")
    return [list(items[i : i + size]) for i in range(0, len(items), size)]


def write_atomic(path: Path, write: Callable[[Path], Any]) -> None:
    """Call ``write`` on a temporary file beside ``path`` and rename it: ``path`` is never half written.

    Raises:
        OSError: the disk is full, the folder may not be written …; it names ``path``.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        # A full disk names no file, and the temporary one means nothing to the user.
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame by a temporary file and a rename."""
    write_atomic(path, lambda temporary: frame.write_parquet(temporary))


def clear_leftovers(folder: Path, schema: pl.Schema) -> None:
    """Remove what a killed run left in a folder of parts, so that it is made again.

    Args:
        folder: folder of the parts; need not exist.
        schema: columns and types a part has. A part that cannot be read or has others is removed, which is logged.
            Temporary files go when the process that wrote them is gone.
    """
    for path in folder.glob(".part-*.tmp"):
        owner = path.name.split(".")[-2]
        if not (owner.isdigit() and _is_alive(int(owner))):
            path.unlink(missing_ok=True)
    for path in folder.glob("part-*.parquet"):
        try:
            readable = pl.read_parquet_schema(path) == schema
        except (OSError, pl.exceptions.PolarsError):
            readable = False
        if not readable:
            _log.warning("%s cannot be read and is made again", path.name)
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def map_shards(
    fn: Callable[[Any], T],
    shards: Iterable[Shard],
    out_dir: Path,
    executor: Executor | None = None,
    *,
    write: Callable[[Path, T], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Run ``fn(shard.payload)`` for every shard whose part is not there yet; return the parts in shard order.

    Args:
        fn: pure function of the payload that returns a frame (or what ``write`` takes); importable by name when an
            executor is given.
        shards: the pieces of work, ids unique.
        out_dir: folder of the parts; made if absent.
        executor: any ``concurrent.futures.Executor`` (a process pool, Dask's); ``None`` runs here, one by one.
        write: makes the part from what ``fn`` returns, whole or not at all; by default :func:`write_parquet`.
        progress: called with (parts there, parts in all) at the start and after every part.

    Raises:
        ValueError: two shards have the same file name.
    """
    store: Callable[[Path, Any], None] = write or write_parquet
    todo = list(shards)
    paths = [out_dir / shard.filename for shard in todo]
    if len(set(paths)) != len(paths):
        raise ValueError("two shards have the same id and payload")
    out_dir.mkdir(parents=True, exist_ok=True)
    missing = [(shard, path) for shard, path in zip(todo, paths, strict=True) if not path.exists()]
    done = len(todo) - len(missing)
    if progress:
        progress(done, len(todo))
    if executor is None:
        for shard, path in missing:
            store(path, fn(shard.payload))
            done += 1
            if progress:
                progress(done, len(todo))
        return paths
    futures: dict[Future[T], Path] = {executor.submit(fn, shard.payload): path for shard, path in missing}
    for future in as_completed(futures):
        store(futures[future], future.result())
        done += 1
        if progress:
            progress(done, len(todo))
    return paths
