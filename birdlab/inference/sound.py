"""Sound files: which recording each is, and its samples as one channel at the rate that a classifier expects.

Channels are averaged. Another sample rate is brought to the wanted one by ``scipy.signal.resample_poly`` (a polyphase
Kaiser low-pass, the file taken as silent before its start and after its end). A file is read once, from front to back,
about a minute at a time, however long it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.manifest import hash_file_or_error
from birdlab.readers.files import Notice, at_most, find_files

#: Kinds of sound files that are looked for in a folder.
SUFFIXES = frozenset((".wav", ".wave", ".flac", ".aif", ".aiff", ".ogg"))
EXPECTED = "a sound file (wav, flac, aiff or ogg)"
#: Sample rates that a file may have, Hz.
RATES = (1_000, 1_000_000)
#: Most samples of one channel a file may say it has: more is a length that was never written.
MOST = 2**40
#: About how much is read at a time, s.
CHUNK_S = 60.0
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Sound:
    """One recording: ``sha256`` is that of its file (empty where it cannot be read), ``duration_s`` what a table says."""

    media_id: str
    file: str
    path: Path
    sha256: str
    duration_s: float | None = None


@dataclass
class Heard:
    """What was found in a sound file while it was read.

    Args:
        sample_rate: of the file, Hz.
        channels: of the file.
        frames: samples of one channel.
        subtype: how samples are stored (PCM_16, PCM_24, FLOAT …).
        n_not_finite: samples that are no numbers; they were taken as 0.
        n_loud: samples beyond -1 and 1 (only files of real numbers have them); they were taken as they are.
        n_windows: windows made.
        padded_s: seconds of silence that fill up the last window.
        promised: samples of one channel that a WAV header promises and the file has not, where it says so.
    """

    sample_rate: int
    channels: int
    frames: int
    subtype: str
    n_not_finite: int = 0
    n_loud: int = 0
    n_windows: int = 0
    padded_s: float = 0.0
    promised: int | None = None

    @property
    def duration_s(self) -> float:
        """Length, s."""
        return self.frames / self.sample_rate


def find_sounds(
    folder: Path, recordings: pl.DataFrame | None = None, *, hashed: Callable[[Path], str | None] | None = None
) -> tuple[list[Sound], list[Notice]]:
    """The sound files below a folder and the recording each of them is.

    With a table of recordings, a file is the recording whose ``file`` is its path below the folder, else its name, else
    its name without suffix, else the one whose ``media_id`` is its name without suffix; files of no recording are left
    out. Without a table every file is a recording called like the file without suffix.

    Args:
        folder: folder of sound files.
        recordings: table ``soundscape_recordings`` (media_id; file and duration_s where known), or ``None``.
        hashed: known sha256 of a file, or ``None`` where it has to be worked out.

    Returns:
        Recordings in the natural order of their files, and notices: files and recordings left over.

    Raises:
        DataError: no folder or no sound file, two files of one recording, or no file of any recording.
    """
    paths, notices = find_files(folder, "**/*", SUFFIXES)
    about = {} if recordings is None else {row["media_id"]: row for row in recordings.to_dicts()}
    names = None if recordings is None else _index(about)
    found: dict[str, str] = {}
    problems, strangers = [], []
    for path in paths:
        media_id = _recording(path, names)
        if media_id is None:
            strangers.append(path)
        elif media_id in found:
            said = f"{found[media_id]} and {path}, both recording {media_id!r}"
            problems.append(Problem("two_sounds", said, "one sound file per recording", file=str(folder), key="audio"))
        else:
            found[media_id] = path
    if problems:
        raise DataError(at_most(problems))
    if not found:
        remedy = "name files as the column file or media_id of the recordings"
        said = f"{len(paths)} sound files, none of a recording of the study (first: {paths[0]})"
        raise DataError(Problem("no_recording", said, "sound files of its recordings", remedy, file=str(folder)))
    if strangers:
        first = ", ".join(strangers[:3])
        notices.append(Notice("other_sounds", f"sound files of no recording of the study ({first})", len(strangers)))
    silent = [media_id for media_id in about if media_id not in found]
    if silent:
        said = f"recordings without a sound file: nothing can be predicted for them ({', '.join(silent[:3])})"
        notices.append(Notice("no_sound", said, len(silent)))
    places = [folder / path for path in found.values()]
    with ThreadPoolExecutor(2) as pool:
        keys = list(pool.map(lambda place: (hashed and hashed(place)) or hash_file_or_error(place), places))
    sounds = [
        Sound(m, f, p, k if isinstance(k, str) else "", about.get(m, {}).get("duration_s"))
        for (m, f), p, k in zip(found.items(), places, keys, strict=True)
    ]
    return sounds, notices


def _index(about: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    """Recording by path or name of its file, by the name without suffix, by its own name; unclear names lead nowhere."""
    tables: list[dict[str, str | None]] = [{}, {}, {}]
    for media_id, row in about.items():
        file = (row.get("file") or "").replace("\\", "/")
        for table, key in zip(tables, (file, PurePath(file).stem, media_id), strict=True):
            if key:
                table[key] = None if key in table else media_id
    return [{key: value for key, value in table.items() if value is not None} for table in tables]


def _recording(path: str, names: list[dict[str, str]] | None) -> str | None:
    stem = PurePath(path).stem
    if names is None:
        return stem
    by_file, by_stem, by_id = names
    return by_file.get(path) or by_file.get(PurePath(path).name) or by_stem.get(stem) or by_id.get(stem)


def open_sound(path: Path) -> tuple[Any, Heard]:
    """An open ``soundfile.SoundFile`` and what its header says.

    Raises:
        DataError: the file is missing, no sound file, has no sample or a length or rate that no recording has.
        ParameterError: soundfile is not installed.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:
        remedy = 'install it with: pip install "birdlab[audio]"'
        said = Problem("missing_package", "no package soundfile", "it is needed to read sound files", remedy)
        raise ParameterError(said) from error
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise DataError(Problem("bad_sound", "an empty file", EXPECTED, file=str(path)))
        file = soundfile.SoundFile(path)
    except (soundfile.SoundFileError, OSError, TypeError, ValueError) as error:
        raise DataError(Problem("bad_sound", _words(error, path), EXPECTED, file=str(path))) from error
    heard = Heard(int(file.samplerate), int(file.channels), int(file.frames), str(file.subtype))
    found = ""
    if not RATES[0] <= heard.sample_rate <= RATES[1]:
        found = f"a sample rate of {heard.sample_rate} Hz"
    elif heard.frames > MOST:
        found = "a header that does not say how long it is"
    elif heard.frames <= 0:
        found = f"no sample, as its header says, in {path.stat().st_size:,} bytes"
    if found:
        file.close()
        raise DataError(Problem("bad_sound", found, EXPECTED, file=str(path)))
    heard.promised = _promised(str(getattr(file, "extra_info", "")), heard, path)
    return file, heard


def _promised(log: str, heard: Heard, path: Path) -> int | None:
    """Samples of one channel that the header of a WAV promises, where libsndfile's log says that there are fewer."""
    said = re.search(r"^data\s*:\s*(\d+)\s*\(should be (\d+)\)", log, flags=re.MULTILINE | re.IGNORECASE)
    if said is None or int(said[2]) <= 0 or int(said[1]) <= int(said[2]):
        return None
    return round(heard.frames * int(said[1]) / int(said[2]))


def windows(path: Path, sample_rate: int, size: int, heard: list[Heard]) -> Iterator[Floats]:
    """Windows of a recording without gaps, some at a time; the last one is filled up with silence.

    Args:
        path: the sound file.
        sample_rate: wanted, Hz.
        size: samples of a window at that rate.
        heard: gets what was found in the file, as soon as it is open.

    Yields:
        Float32 arrays of shape (windows, size); full scale of files of whole numbers is -1 to 1.

    Raises:
        DataError: the file cannot be read, or not to its end.
    """
    file, facts = open_sound(path)
    heard.append(facts)
    with file:
        source = _Mono(file, facts, path)
        common = math.gcd(sample_rate, facts.sample_rate)
        up, down = sample_rate // common, facts.sample_rate // common
        n_out = -(-facts.frames * up // down)
        step = max(1, int(CHUNK_S * sample_rate // size)) * size
        for start in range(0, n_out, step):
            part = _resampled(source, start, min(start + step, n_out), up, down)
            n = -(-len(part) // size)
            missing = n * size - len(part)
            if missing:
                part = np.concatenate([part, np.zeros(missing, np.float32)])
                facts.padded_s = missing / sample_rate
            facts.n_windows += n
            yield part.reshape(n, size)


class _Mono:
    """Samples of a sound file, channels averaged; asked for from front to back; what follows the last start is kept."""

    def __init__(self, file: Any, heard: Heard, path: Path) -> None:
        self._file, self._heard, self._path = file, heard, path
        self._start, self._kept = 0, np.empty(0, np.float32)

    def __call__(self, start: int, end: int) -> Floats:
        """Samples ``start`` to ``end`` (as far as there are any)."""
        end = min(end, self._heard.frames)
        missing = end - self._start - len(self._kept)
        if missing > 0:
            self._kept = np.concatenate([self._kept, self._read(missing)])
        self._kept, self._start = self._kept[start - self._start :], start
        return self._kept[: end - start]

    def _read(self, n: int) -> Floats:
        import soundfile

        try:
            samples = self._file.read(n, dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, OSError, ValueError) as error:
            raise DataError(Problem("bad_sound", _words(error, self._path), EXPECTED, file=str(self._path))) from error
        if len(samples) < n:
            found = f"the end {n - len(samples):,} samples before it was promised, or a broken part"
            raise DataError(Problem("cut_sound", found, "a whole sound file", file=str(self._path)))
        finite = np.isfinite(samples)
        if not finite.all():
            self._heard.n_not_finite += int(finite.size - np.count_nonzero(finite))
            samples = np.where(finite, samples, np.float32(0))
        self._heard.n_loud += int(np.count_nonzero(np.abs(samples) > 1))
        return samples.mean(axis=1, dtype=np.float32)


def _resampled(source: _Mono, start: int, end: int, up: int, down: int) -> Floats:
    """Samples ``start`` to ``end`` at ``up / down`` times the rate of the source."""
    if up == down:
        return source(start, end)
    from scipy.signal import resample_poly

    # The filter of resample_poly reaches 10 x max(up, down) samples of the raised rate to both sides.
    reach = -(-10 * max(up, down) // up) + 1
    # From a multiple of down on, samples of both rates coincide.
    first = max(0, start * down // up - reach) // down * down
    samples = source(first, -(-end * down // up) + reach + 1)
    skip = start - first // down * up
    return np.ascontiguousarray(resample_poly(samples, up, down)[skip : skip + end - start], dtype=np.float32)


def _words(error: Exception, path: Path) -> str:
    if isinstance(error, FileNotFoundError) or not path.exists():
        return "no such file"
    said = str(getattr(error, "error_string", "") or error).replace(str(path), path.name)
    return " ".join(said.split())[:300].rstrip(" .") or type(error).__name__
