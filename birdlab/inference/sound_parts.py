"""What a classifier of windows gives for one recording, as a part that survives a kill.

A part is a parquet file: ``start_s`` of a segment and ``scores``, the raw score of each class. Beside it lies a small JSON
file with what was found in the sound file and how long it took, so that the part itself is the same, byte for byte,
whenever it is made.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError
from birdlab.inference.feed import ahead
from birdlab.inference.sound import Heard, Sound, windows
from birdlab.inference.sound_windows import SEGMENT_S, beyond, highest, windows_of_segments
from birdlab.inference.timing import ShardTiming
from birdlab.inference.worker import Failures, ask, one_line
from birdlab.shards import clear_leftovers, write_atomic

if TYPE_CHECKING:
    from birdlab.inference.sound_windows import WindowClassifier
    from birdlab.recipe.soundscapes import SoundRun


@dataclass(frozen=True)
class Columns:
    """Classes of a run, and which outputs of the network speak of each.

    Args:
        classes: class ids, in the order of the class list.
        outputs: positions of the network's outputs, those of a class together.
        starts: where those of each class begin in ``outputs``.
    """

    classes: tuple[str, ...]
    outputs: tuple[int, ...]
    starts: tuple[int, ...]

    @staticmethod
    def of(mapped: dict[int, str], classes: tuple[str, ...]) -> Columns:
        """From the class of each output that has one; classes without an output are left out.

        >>> Columns.of({0: "b", 2: "a", 3: "b"}, ("a", "b", "c"))
        Columns(classes=('a', 'b'), outputs=(2, 0, 3), starts=(0, 1))
        """
        place = {c: i for i, c in enumerate(dict.fromkeys(classes))}
        outputs = sorted(mapped, key=lambda i: (place[mapped[i]], i))
        of = [mapped[i] for i in outputs]
        starts = [k for k in range(len(of)) if not k or of[k] != of[k - 1]]
        return Columns(tuple(of[k] for k in starts), tuple(outputs), tuple(starts))

    def take(self, scores: np.ndarray) -> np.ndarray:
        """Score of each class, the highest of its outputs: (windows, outputs) to (windows, classes)."""
        return np.maximum.reduceat(scores[:, list(self.outputs)], list(self.starts), axis=1)

    @property
    def schema(self) -> pl.Schema:
        """Columns of a part."""
        return pl.Schema({"start_s": pl.Int32, "scores": pl.Array(pl.Float32, len(self.classes))})


@dataclass
class Told:
    """What is known of a recording beside its scores.

    Args:
        timing: how it was run; ``n_frames`` counts windows.
        heard: what was found in the sound file; ``None`` where it could not be opened.
        n_failed: windows that made the network fail.
        n_segments: segments that have scores.
        low, high: range of the raw scores, made sounds included.
        failure: stage (read, predict) and message, where the recording has no scores.
    """

    timing: ShardTiming
    heard: Heard | None = None
    n_failed: int = 0
    n_segments: int = 0
    low: float = 0.0
    high: float = 0.0
    failure: tuple[str, str] | None = None

    @property
    def outside(self) -> bool:
        """Whether a score goes beyond [0, 1]."""
        return beyond(self.low, self.high)


@dataclass(frozen=True)
class Part:
    """One finished recording: rows as :attr:`Columns.schema`, and all else."""

    frame: pl.DataFrame
    told: Told


class Listener:
    """Runs one classifier over recordings, one per call; a file is read ahead on a thread of its own.

    Args:
        spec: the run's section of the recipe.
        classifier: the loaded model.
        columns: classes and outputs.
        sounds: the recordings it may be asked for.
    """

    def __init__(self, spec: SoundRun, classifier: WindowClassifier, columns: Columns, sounds: list[Sound]) -> None:
        self._rate, self._classifier, self._columns = spec.sample_rate, classifier, columns
        self._sounds = {sound.media_id: sound for sound in sounds}

    def __call__(self, payload: list[str]) -> Part:
        """The part of one recording: ``payload`` is its name and the hash of its file."""
        model = self._classifier
        remarks = list(model.remarks)
        told = Told(ShardTiming(model.device, model.size, model.precision, model.batch, remarks=remarks))
        told.low, told.high = model.range
        started, before = time.perf_counter(), model.network_s
        heard: list[Heard] = []
        scores = np.empty((0, len(self._columns.classes)), np.float32)
        try:
            scores = self._listen(self._sounds[payload[0]].path, heard, told)
        except DataError as error:
            told.failure = ("read", one_line(error))
        told.heard = heard[0] if heard else None
        told.timing.model_s, told.timing.end_to_end_s = model.network_s - before, time.perf_counter() - started
        return Part(self._segments(scores, told), told)

    def _listen(self, path: Path, heard: list[Heard], told: Told) -> np.ndarray:
        """Scores of all windows, (windows, classes); a row of NaN where the network failed."""
        rows, message = [], ""
        feed = ahead(windows(path, self._rate, self._classifier.size, heard), 2)
        try:
            for some in feed:
                failures: Failures = {}
                taken = np.full((len(some), len(self._columns.classes)), np.nan, np.float32)
                named = [(str(i), window) for i, window in enumerate(some)]
                for start in range(0, len(named), self._classifier.batch):
                    group = named[start : start + self._classifier.batch]
                    for i, row in ask(lambda sounds: list(self._classifier.scores(sounds)), group, failures):
                        taken[int(i)] = self._columns.take(row[None])[0]
                told.n_failed += len(failures)
                message = message or next((text for _, text in failures.values()), "")
                rows.append(taken)
        finally:
            feed.close()
        scores = np.concatenate(rows)
        told.timing.n_frames = len(scores) - told.n_failed
        if not told.timing.n_frames:
            told.failure = ("predict", message)
            return scores[:0]
        told.low = min(told.low, float(np.nanmin(scores)))
        told.high = max(told.high, float(np.nanmax(scores)))
        return scores

    def _segments(self, scores: np.ndarray, told: Told) -> pl.DataFrame:
        if not len(scores) or told.heard is None:
            return self._columns.schema.to_frame()
        n = -(-told.heard.frames // (SEGMENT_S * told.heard.sample_rate))
        best = highest(scores, windows_of_segments(len(scores), self._classifier.size, self._rate, n))
        there = np.flatnonzero(~np.isnan(best[:, 0]))
        told.n_segments = len(there)
        columns = {"start_s": (there * SEGMENT_S).astype(np.int32), "scores": best[there]}
        return pl.DataFrame(columns, schema=self._columns.schema)


def write_part(path: Path, part: Part) -> None:
    """Write the rows to ``path`` and all else to the JSON file beside it; a part that is there has both."""
    text = json.dumps(asdict(part.told), ensure_ascii=False) + "\n"
    write_atomic(path.with_suffix(".json"), lambda temporary: temporary.write_text(text, encoding="utf-8"))
    write_atomic(path, lambda temporary: part.frame.write_parquet(temporary, statistics=False))


def read_told(path: Path) -> Told:
    """What lies beside a part."""
    said: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    heard, failure = said["heard"], said["failure"]
    about = {key: said[key] for key in ("n_failed", "n_segments", "low", "high")}
    about["heard"] = None if heard is None else Heard(**heard)
    about["failure"] = None if failure is None else (str(failure[0]), str(failure[1]))
    return Told(timing=ShardTiming(**said["timing"]), **about)


def clear(folder: Path, columns: Columns) -> None:
    """Remove what a killed run left, and parts whose JSON file is gone or broken."""
    clear_leftovers(folder, columns.schema)
    for path in folder.glob("part-*.parquet"):
        try:
            read_told(path)
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            path.unlink(missing_ok=True)
