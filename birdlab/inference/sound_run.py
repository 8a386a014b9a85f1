"""The run file of a classifier of one's own, put together from its parts, and what is said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl

from birdlab.inference.sound_windows import RULE, SEGMENT_S, probabilities
from birdlab.readers.files import Notice
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    from birdlab.inference.sound import Heard, Sound
    from birdlab.inference.sound_parts import Told
    from birdlab.recipe.soundscapes import SoundRun

#: Digits of a probability behind the point, and half of the last one: what is not above it would be shown as 0.
DIGITS, LEAST = 10, 0.5e-10
#: How far the length of a file may be from that of the table of recordings, s.
LENGTH_S = 1.0


class RunWriter:
    """Writes a run file, one recording at a time.

    Args:
        classes: class of each column of the parts.
        max_classes: most classes listed per segment; the highest, at a tie the first of the class list.
        logits: whether scores become 1 / (1 + exp(-x)).
    """

    def __init__(self, classes: tuple[str, ...], max_classes: int | None, *, logits: bool) -> None:
        self._classes, self._most, self._logits = classes, max_classes, logits
        self.n_rows = self.n_zero = self.n_over = 0

    def write(self, path: Path, parts: Iterable[tuple[str, Path]]) -> None:
        """Write the run file ``path``, whole or not at all, from recordings and their parts."""
        self.n_rows = self.n_zero = self.n_over = 0

        def every(temporary: Path) -> None:
            with temporary.open("wb") as stream:
                for media_id, part in parts:
                    self._add(stream, media_id, pl.read_parquet(part))

        write_atomic(path, every)

    def _add(self, stream: BinaryIO, media_id: str, part: pl.DataFrame) -> None:
        if not part.height:
            return
        chance = probabilities(part["scores"].to_numpy(), logits=self._logits)
        listed = chance > LEAST
        self.n_zero += int(listed.size - np.count_nonzero(listed))
        if self._most is not None and self._most < chance.shape[1]:
            best = np.zeros_like(listed)
            order = np.argsort(-chance, axis=1, kind="stable")[:, : self._most]
            np.put_along_axis(best, order, True, axis=1)
            self.n_over += int(np.count_nonzero(listed & ~best))
            listed &= best
        segment, column = np.nonzero(listed)
        times = pl.Series([time_code(s) for s in part["start_s"].to_list()], dtype=pl.String)
        rows = pl.DataFrame(
            {
                "media": pl.repeat(media_id, len(segment), eager=True),
                "time": times.gather(segment),
                "class": pl.Series(self._classes, dtype=pl.String).gather(column),
                "probability": chance[segment, column],
            }
        )
        rows.write_csv(stream, include_header=False, separator=";", float_precision=DIGITS, quote_style="never")
        self.n_rows += rows.height

    def notices(self) -> list[Notice]:
        """What was not listed."""
        out = []
        if self.n_zero:
            out.append(Notice("zero", f"probabilities that {DIGITS} digits show as 0 are not listed", self.n_zero))
        if self.n_over:
            said = f"probabilities beyond the {self._most} highest of a segment are not listed"
            out.append(Notice("max_classes", said, self.n_over))
        return out


def time_code(start_s: int) -> str:
    """A segment of five seconds as a run file names it.

    >>> time_code(3595)
    '00:59:55-01:00:00'
    """
    return "-".join(f"{t // 3600:02d}:{t // 60 % 60:02d}:{t % 60:02d}" for t in (start_s, start_s + SEGMENT_S))


def said_of(spec: SoundRun, sounds: list[Sound], told: list[Told], *, logits: bool) -> list[Notice]:
    """What was done to the sounds of a run, and what was found in them: every assumption with its count.

    Args:
        spec: the run's section of the recipe.
        sounds: the recordings.
        told: what is known of each, in the same order.
        logits: whether scores became 1 / (1 + exp(-x)).
    """
    used = [(s, t, t.heard) for s, t in zip(sounds, told, strict=True) if t.heard and not t.failure]
    heard = [h for _, _, h in used]
    segments = sum(t.n_segments for _, t, _ in used)
    score = (
        "scores go beyond 0 and 1: each became 1 / (1 + exp(-x)), as for several species at once"
        if logits
        else "all scores lie within 0 and 1 and were taken as they are"
    )
    rates = Counter(h.sample_rate for h in heard if h.sample_rate != spec.sample_rate)
    listed = ", ".join(f"{rate:,} Hz" for rate, _ in rates.most_common(3)) + (", …" if len(rates) > 3 else "")
    differs = [s.duration_s is not None and abs(h.duration_s - s.duration_s) > LENGTH_S for s, _, h in used]
    said = [
        ("window_rule", f"windows of {spec.window_s:g} s without gaps; {RULE}", segments),
        ("logits" if logits else "probabilities", score, segments),
        ("resampled", f"recordings of {listed} were brought to {spec.sample_rate:,} Hz (resample_poly of scipy)",
         sum(rates.values())),
        ("mixed", "recordings with several channels: the channels were averaged", sum(h.channels > 1 for h in heard)),
        ("padded", "recordings whose last window was filled up with silence", sum(h.padded_s > 0 for h in heard)),
        ("short", "recordings shorter than one window", sum(h.duration_s < spec.window_s for h in heard)),
        ("not_finite", "samples that are no numbers were taken as 0", sum(h.n_not_finite for h in heard)),
        ("loud", "samples beyond full scale (-1 to 1) were taken as they are", sum(h.n_loud for h in heard)),
        ("cut_header", "recordings whose header promises more sound than there is", sum(h.promised is not None for h in heard)),
        ("length_differs", f"recordings whose length is not within {LENGTH_S:g} s of the table's", sum(differs)),
        ("failed_windows", "windows made the network fail and have no score", sum(t.n_failed for _, t, _ in used)),
        ("no_score", "segments without a score, as the network failed on their windows",
         sum(_n_segments(h) - t.n_segments for _, t, h in used)),
    ]  # fmt: skip
    return [Notice(code, message, n) for code, message, n in said if n]


def _n_segments(heard: Heard) -> int:
    return -(-heard.frames // (SEGMENT_S * heard.sample_rate))
