"""Segments, truth and predictions as numbers: the grid of five seconds, who is there, what a run lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Length of a segment, s.
SEGMENT_S = 5
#: End of the last segment that a run file can name, s: one that ended at 24:00:00 is no time code.
NAMED_S = 86_400 - SEGMENT_S
Ints, Floats = npt.NDArray[np.integer], npt.NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Segments of recordings, in order.

    Args:
        media: recordings.
        offsets: number of the first segment of each, and behind the last the number of all, (M + 1,). A recording whose
            length is not known has segments up to its last annotated or predicted one.
        known: whether the length of each is known, (M,) bool.
    """

    media: tuple[str, ...]
    offsets: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]

    @property
    def n_segments(self) -> int:
        """Segments in all."""
        return int(self.offsets[-1])


@dataclass(frozen=True)
class Truth:
    """Who is heard where: pairs of segment and class, each once, sorted by class, then segment.

    Args:
        grid: segments.
        classes: names of all classes that may be answered; a class without a segment is not in the ground truth.
        seg, cls: (n,) int32.
    """

    grid: Grid
    classes: tuple[str, ...]
    seg: Ints
    cls: Ints

    @property
    def n_rel(self) -> npt.NDArray[np.int64]:
        """Segments of each class, (C,)."""
        return np.bincount(self.cls, minlength=len(self.classes))


@dataclass(frozen=True)
class Coded:
    """What one run lists: rows of segment, class and probability, on the grid and classes of a truth.

    Rows are sorted by class (``starts``), within a class in any order. Segments past the end of a recording are numbered
    from ``grid.n_segments`` on: they are never relevant, and count in every ranking.

    Args:
        name: of the run.
        seg, cls: (n,) int32.
        score: (n,) float64, in [0, 1].
        starts: first row of each class, (C + 1,).
        warnings: code, message, n of what is remarked.
        n_beyond: segments past an end.
        beyond: recording and segment within it of each segment numbered past the grid, (B, 2); None: not known.
    """

    name: str
    seg: Ints
    cls: Ints
    score: Floats
    starts: npt.NDArray[np.int64]
    warnings: tuple[dict[str, Any], ...] = ()
    n_beyond: int = 0
    beyond: npt.NDArray[np.int64] | None = None

    def of_class(self, c: int) -> tuple[Ints, Floats]:
        """Segments and probabilities that the run lists for a class, in any order."""
        rows = slice(int(self.starts[c]), int(self.starts[c + 1]))
        return self.seg[rows], self.score[rows]
