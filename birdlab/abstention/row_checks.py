"""Are these rows probabilities? Every row is looked at as it passes; all that is wrong is said once, at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from birdlab.abstention.tree import Tree
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice

#: How far a row's sum may be from 1: float32 and float64, float16.
TOLERANCE, TOLERANCE_HALF = 1e-3, 1e-2
SHOWN = 20
_EXPECTED = {
    "nan": "numbers; or the option nan: abstain, where such a row is an abstention",
    "infinite": "probabilities in [0, 1]",
    "negative": "probabilities in [0, 1]",
    "row_sum": "a row that sums to 1",
    "zero_row": "a row with something above 0",
    "over_one": "listed probabilities that sum to at most 1",
}
_REMEDY = {
    "negative": "apply the softmax of the model first",
    "infinite": "apply the softmax of the model first",
    "row_sum": "apply the softmax first, or give normalise: true for scores that are no distribution",
}


def tolerance_of(dtype: np.dtype | str) -> float:
    """How far a row's sum may be from 1 for numbers stored so.

    >>> tolerance_of("float16"), tolerance_of("float32")
    (0.01, 0.001)
    """
    return TOLERANCE_HALF if np.dtype(dtype).itemsize < 4 else TOLERANCE


@dataclass
class RowChecks:
    """Checks of rows as they pass.

    Args:
        tree: of the vocabulary, for the names of labels.
        names: item of every row of the truth.
        normalise: whether rows are divided by their sums instead of refused.
        abstain: whether a row with NaN is an abstention instead of an error.
        tolerance: how far a sum may be from 1.
        partial: whether rows are lists of the largest probabilities, whose sums may be below 1.
        source: how problems name the file.
    """

    tree: Tree
    names: list[str]
    normalise: bool
    abstain: bool
    tolerance: float
    partial: bool = False
    source: str | None = None
    problems: list[Problem] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def values(self, block: np.ndarray, total: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows that cannot be used, rows that abstain), each (k,) Boolean, by their values; ``total`` is their sums."""
        nothing = np.zeros(len(block), dtype=bool)
        # One pass tells that all is well: the minimum of anything with NaN is NaN; what is infinite shows in the sums.
        if block.size == 0 or (block.min() >= 0 and np.isfinite(total).all()):
            return nothing, nothing
        nan, negative, infinite = np.isnan(block), block < 0, np.isinf(block)
        bad = negative.any(axis=1) | infinite.any(axis=1)
        self._say("negative", negative & ~infinite, block, at)
        self._say("infinite", infinite, block, at)
        abstains = nan.any(axis=1) & ~bad
        if self.abstain:
            self.counts["nan_rows"] += int(abstains.sum())
            return bad, abstains
        self._say("nan", nan, block, at)
        return bad | abstains, nothing

    def scale(self, total: np.ndarray, usable: np.ndarray, at: np.ndarray) -> np.ndarray:
        """What to multiply each row by so that it counts as a distribution, (k,); 1 unless rows are normalised."""
        total = np.where(usable, total, 1.0)
        if self.partial:
            self._sums("over_one", total > 1 + self.tolerance, total, at)
            return np.ones(len(total))
        off = np.abs(total - 1) > self.tolerance
        if not self.normalise:
            self._sums("row_sum", off, total, at)
            return np.ones(len(total))
        zero = total <= 0
        self._sums("zero_row", zero, total, at)
        self.counts["normalised_rows"] += int((off & ~zero).sum())
        return 1 / np.where(zero, 1.0, total)

    def finish(self) -> list[Notice]:
        """What was let through, counted.

        Raises:
            DataError: what was wrong: the first :data:`SHOWN` places, and how many rows of each kind there were.
        """
        if self.problems:
            kinds = [k for k in _EXPECTED if self.counts[k] > sum(p.code == k for p in self.problems)]
            more = [
                Problem(k, f"{self.counts[k]} rows in all", _EXPECTED[k], _REMEDY.get(k, ""), self.source, key="scores")
                for k in kinds
            ]
            raise DataError([*self.problems, *more])
        texts = {
            "nan_rows": "rows with NaN, taken as the strongest wish to abstain",
            "normalised_rows": f"rows whose sum differed from 1 by more than {self.tolerance:g}, divided by their sum",
        }
        return [Notice(code, text, self.counts[code]) for code, text in texts.items() if self.counts[code]]

    def _say(self, code: str, where: np.ndarray, block: np.ndarray, at: np.ndarray) -> None:
        rows = np.flatnonzero(where.any(axis=1))
        self.counts[code] += len(rows)
        for row in rows[: max(0, SHOWN - len(self.problems))]:
            column = int(where[row].argmax())
            label = self.tree.labels[column]
            found = f"{block[row, column]:g} for {label!r}"
            self.problems.append(Problem(code, found, _EXPECTED[code], _REMEDY.get(code, ""), **self._place(row, at)))

    def _sums(self, code: str, where: np.ndarray, total: np.ndarray, at: np.ndarray) -> None:
        rows = np.flatnonzero(where)
        self.counts[code] += len(rows)
        for row in rows[: max(0, SHOWN - len(self.problems))]:
            found = f"a sum of {total[row]:.6g}"
            self.problems.append(Problem(code, found, _EXPECTED[code], _REMEDY.get(code, ""), **self._place(row, at)))

    def _place(self, row: int, at: np.ndarray) -> dict[str, str | None]:
        return {"file": self.source, "record": f"item {self.names[at[row]]}", "key": "scores"}
