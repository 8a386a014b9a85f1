"""Rows of a run, gathered block by block into what is scored: a matrix where most of it is listed, else a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from birdlab.soundscapes.coded import Coded, Floats, Ints, Truth

#: Segments of a day: time codes go up to 23:59:55.
DAY = 17_280
#: Largest matrix of segments × classes, bytes, and the share of it that must be listed to be worth it.
_LARGEST, _DENSE = 1_500_000_000, 0.25


class FullCoded(Coded):
    """A run that lists every class for every segment of the grid: a matrix, (C, S); ``seg`` and ``cls`` on demand."""

    def __init__(self, name: str, matrix: Floats, warnings: tuple[dict[str, Any], ...]) -> None:
        n_classes, n_segments = matrix.shape
        held = {
            "name": name, "score": matrix.reshape(-1), "starts": n_segments * np.arange(n_classes + 1, dtype=np.int64),
            "warnings": warnings, "n_beyond": 0, "every": np.arange(n_segments, dtype=np.int32),
        }  # fmt: skip
        for key, value in held.items():
            object.__setattr__(self, key, value)

    def __getattr__(self, key: str) -> Any:
        if key not in ("seg", "cls"):
            raise AttributeError(key)
        # Twice four bytes per row, which the scores do without.
        n_classes = len(self.starts) - 1
        if key == "seg":
            value = np.tile(self.every, n_classes)
        else:
            value = np.repeat(np.arange(n_classes, dtype=np.int32), len(self.every))
        object.__setattr__(self, key, value)
        return value

    def of_class(self, c: int) -> tuple[Ints, Floats]:
        """Segments and probabilities that the run lists for a class."""
        return self.every, self.score[int(self.starts[c]) : int(self.starts[c + 1])]


class RunRows:
    """Gathers rows; memory is 8 bytes per cell of a matrix, or some 50 per row at the end of a list.

    Args:
        truth: grid and classes.
        n_rows: rows to expect, roughly.
        max_classes: most classes of a segment, or None.
    """

    def __init__(self, truth: Truth, n_rows: float, max_classes: int | None) -> None:
        self.truth, self.max_classes = truth, max_classes
        # As narrow as a grid allows: ten million rows pass through these.
        self.lengths = np.diff(truth.grid.offsets).astype(np.int32)
        self.offsets = truth.grid.offsets.astype(np.int32)
        self.n_cells = truth.grid.n_segments * len(truth.classes)
        self.wide = np.int32 if self.n_cells < 2**31 else np.int64
        self.beyond: dict[int, int] = {}  # recording × DAY + segment → number
        self.n_rows = 0
        self.listed: list[tuple[Any, ...]] = []
        is_dense = max_classes is None and self.n_cells * 8 <= _LARGEST and n_rows >= _DENSE * self.n_cells
        self.matrix = self.seen = None
        if is_dense and self.n_cells:
            # What was not seen in a cell of the matrix is never looked at.
            self.matrix = np.empty((len(truth.classes), truth.grid.n_segments))
            self.seen = np.zeros(self.n_cells, dtype=np.bool_)

    def add(self, media: Ints, k: Ints, cls: Ints, score: Floats, line: Ints | int) -> Ints:
        """Take rows of one block.

        Args:
            media, k, cls: number of the recording, of the segment within it and of the class.
            score: probability.
            line: of each row, or of the first where they are consecutive.

        Returns:
            The lines of those rows whose segment and class were there before (they are not taken). Of rows that are listed,
            not put into the matrix, this is known at the end (:meth:`finish`).
        """
        # Rows of one recording, as most blocks have them, need no look-up of its place.
        where = media[0] if len(media) and media[0] == media[-1] and (media == media[0]).all() else media
        inside = k < self.lengths[where]
        seg = self.offsets[where] + k
        if not inside.all():
            seg = seg.astype(np.int64)
            seg[~inside] = self._number(media[~inside].astype(np.int64) * DAY + k[~inside])
        lines = line if isinstance(line, np.ndarray) else None
        if self.matrix is None:
            self._list(seg, cls, score, self._lines(lines, line, len(seg)))
            return np.zeros(0, np.int64)
        if not inside.all():
            every = self._lines(lines, line, len(seg))
            self._list(seg[~inside], cls[~inside], score[~inside], every[~inside])
            seg, cls, score, lines = seg[inside], cls[inside], score[inside], every[inside]
        old = self._mark(seg, cls)
        if old is not None:
            again = self._lines(lines, line, len(seg))[old]
            seg, cls, score = seg[~old], cls[~old], score[~old]
        else:
            again = np.zeros(0, np.int64)
        self.matrix.reshape(-1)[cls.astype(self.wide) * self.matrix.shape[1] + seg] = score
        self.n_rows += len(seg)
        return again

    def _mark(self, seg: Ints, cls: Ints) -> np.ndarray | None:
        """Which rows were there before, in this block or an earlier one; None: none of them."""
        if not len(seg):
            return None
        at = seg.astype(self.wide) * len(self.truth.classes) + cls
        part = self.seen[int(at.min()) : int(at.max()) + 1]
        before = np.count_nonzero(part)
        old = self.seen[at] if before else None
        self.seen[at] = True
        if np.count_nonzero(part) - before == len(at):
            return None
        first = np.zeros(len(at), dtype=np.bool_)
        first[np.unique(at, return_index=True)[1]] = True
        return ~first if old is None else ~first | old

    @staticmethod
    def _lines(lines: Ints | None, first: Ints | int, n: int) -> Ints:
        return np.arange(int(first), int(first) + n) if lines is None else lines

    def _list(self, seg: Ints, cls: Ints, score: Floats, line: Ints) -> None:
        self.listed.append((seg.astype(np.int32), cls.astype(np.int32), score, line.astype(np.int64)))

    def _number(self, key: Ints) -> Ints:
        """Numbers of segments past the end, from n_segments on."""
        keys, inverse = np.unique(key, return_inverse=True)
        start = self.truth.grid.n_segments
        numbers = [self.beyond.setdefault(k, start + len(self.beyond)) for k in keys.tolist()]
        return np.array(numbers, dtype=np.int64)[inverse]

    def finish(self) -> tuple[tuple[Ints, Ints, Floats], Ints, Ints]:
        """Rows sorted by class, then segment (none where all of the matrix is listed), and the lines of those that repeat one, and of those that are too many."""
        seg, cls, score, line = self._joined()
        again = too_many = np.zeros(0, np.int64)
        if len(seg):
            key = cls.astype(np.int64) * (self.truth.grid.n_segments + len(self.beyond)) + seg
            order = np.lexsort((line, key)) if not _ascending(line) else np.argsort(key, kind="stable")
            repeated = np.zeros(len(seg), dtype=np.bool_)
            repeated[1:] = key[order[1:]] == key[order[:-1]]
            again, order = line[order[repeated]], order[~repeated]
            del key, repeated
            seg, cls, score, line = seg[order], cls[order], score[order], line[order]
            too_many = self._too_many(seg, line)
        if self.matrix is not None and (len(seg) or self.n_rows < self.matrix.size):
            seg, cls, score = self._with_matrix(seg, cls, score)
        return (seg, cls, score), np.sort(again), too_many

    def _joined(self) -> tuple[Ints, Ints, Floats, Ints]:
        if not self.listed:
            return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64)
        seg, cls, score, line = (np.concatenate([part[i] for part in self.listed]) for i in range(4))
        self.listed = []
        if self.beyond:
            # By recording and time, so that numbers do not depend on the order of lines.
            start = self.truth.grid.n_segments
            rank = np.empty(len(self.beyond), dtype=np.int32)
            rank[[self.beyond[k] - start for k in sorted(self.beyond)]] = start + np.arange(len(self.beyond))
            past = seg >= start
            seg[past] = rank[seg[past] - start]
        return seg, cls, score, line

    def _too_many(self, seg: Ints, line: Ints) -> Ints:
        if self.max_classes is None:
            return np.zeros(0, np.int64)
        order = np.lexsort((line, seg))
        seg = seg[order]
        rank = np.arange(len(seg)) - np.searchsorted(seg, seg)
        return np.sort(line[order[rank >= self.max_classes]])

    def _with_matrix(self, seg: Ints, cls: Ints, score: Floats) -> tuple[Ints, Ints, Floats]:
        """Rows of the matrix, packed in place, then merged with those of the list."""
        matrix, seen, self.matrix, self.seen = self.matrix, self.seen, None, None
        n_classes, n_segments = matrix.shape
        seen = seen.reshape(n_segments, n_classes)
        flat = matrix.reshape(-1)
        segments, classes = np.empty(self.n_rows, np.int32), np.empty(self.n_rows, np.int32)
        at = 0
        for c in range(n_classes):
            held = np.flatnonzero(seen[:, c])
            rows = slice(at, at + len(held))
            # What is written lies at or before what is still to be read.
            flat[rows] = matrix[c][held]
            segments[rows], classes[rows] = held, c
            at += len(held)
        flat = flat[:at]
        if not len(seg):
            return segments, classes, flat
        segments, classes = np.concatenate([segments, seg]), np.concatenate([classes, cls])
        order = np.argsort(classes, kind="stable")
        return segments[order], classes[order], np.concatenate([flat, score])[order]


def _ascending(line: Ints) -> bool:
    return bool((line[1:] >= line[:-1]).all())


def coded_of(rows: RunRows, found: tuple[Ints, Ints, Floats], name: str, warnings: tuple[dict[str, Any], ...]) -> Coded:
    """What was gathered, as a run; segments past a known end are remarked."""
    if rows.matrix is not None:  # still there: all of it is listed
        return FullCoded(name, rows.matrix, warnings)
    seg, cls, score = found
    starts = np.searchsorted(cls, np.arange(len(rows.truth.classes) + 1, dtype=np.int32)).astype(np.int64)
    known = rows.truth.grid.known
    past = [key for key in rows.beyond if known[key // DAY]]
    if past:
        media = len({key // DAY for key in past})
        told = f"{media:,} recording{'s' * (media != 1)}"
        text = f"segments past the end of a recording, in {told}: each prediction for them is wrong"
        warnings = (*warnings, {"code": "beyond_end", "message": text, "n": len(past)})
    if not len(seg):
        text = "no prediction at all: every score is 0"
        warnings = (*warnings, {"code": "empty_run", "message": text, "n": 1})
    where = np.array([divmod(key, DAY) for key in sorted(rows.beyond)], dtype=np.int64).reshape(-1, 2)
    return Coded(name, seg, cls, score, starts, warnings, len(past), where)


__all__ = ["DAY", "FullCoded", "RunRows", "coded_of"]
