"""What a run must be sure of before it starts: its folder, alone in it, and inputs that are what they should be."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from birdlab.errors import ManifestError, ParameterError, Problem

if TYPE_CHECKING:
    from birdlab.study import Run


def input_digest(run: Run) -> str:
    """Digest of all inputs; files that a manifest vouches for are compared with it.

    Raises:
        ManifestError: a file is missing or not as its manifest says.
    """
    from birdlab.readers.fingerprint import fingerprint

    inputs = fingerprint(run)
    if run.recipe.data.manifest and not run.recipe.data.generator:
        from birdlab import manifest

        path = manifest.locate(run.recipe.data.manifest, run.base, run.data_root)
        if problems := manifest.verify(path, run.data_root, hasher=_known_hashes(run.dir)):
            raise ManifestError(problems)
    return inputs


def _known_hashes(run_dir: Path) -> Any:
    """A hasher that takes from ``hashes.json`` what :func:`birdlab.readers.fingerprint.fingerprint` has just made sure of."""
    from birdlab.manifest import hash_file_or_error

    try:
        known = json.loads((run_dir / "hashes.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    hashes = {(run_dir / name).resolve(): entry for name, entry in known.items()}

    def hasher(path: Path, algorithm: str) -> Any:
        size, changed, value = hashes.get(path.resolve(), (None, None, ""))
        if algorithm == "sha256" and value and path.is_file():
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) == (size, changed):
                return value
        return hash_file_or_error(path, algorithm)

    return hasher


def make_folder(run_dir: Path) -> None:
    """Make the folder of a run.

    Raises:
        ParameterError: it cannot be made.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            Problem(
                "bad_folder", error.strerror or str(error), "a folder that can be made", file=str(run_dir), key="--out"
            )
        ) from error


@contextmanager
def locked(run_dir: Path) -> Iterator[None]:
    """One run at a time works in a folder; the lock goes with the process, however it ends.

    Raises:
        ParameterError: another run is at work in this folder.
    """
    try:
        import fcntl
    except ImportError:  # Windows has none; there two runs in one folder are the user's to avoid.
        yield
        return
    with (run_dir / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            remedy = "wait for it, or give another folder with --out"
            raise ParameterError(
                Problem("in_use", "another run at work in this folder", "one at a time", remedy, file=str(run_dir))
            ) from error
        yield


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """End in order when a scheduler or a container asks to (SIGTERM), as for Ctrl-C."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
