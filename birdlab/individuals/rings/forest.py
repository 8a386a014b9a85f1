"""The forest that says which colour a ring has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.individuals.rings.codes import Palette

#: Rings that are classified at a time.
BLOCK = 20_000


@dataclass(frozen=True)
class ColourForest:
    """A trained forest and the scaling that was fitted once, on the rings it was trained on.

    Args:
        palette: colours, in the order of the probabilities.
        counts: rings per colour it was trained on, in that order.
        unseen: letters without a training ring: their probability is 0 for every ring.
        mean, scale: of each feature in training; a feature that never varied has scale 1.
    """

    palette: Palette
    counts: tuple[int, ...]
    unseen: tuple[str, ...]
    mean: np.ndarray
    scale: np.ndarray
    _model: Any

    @property
    def prior(self) -> np.ndarray:
        """Share of each colour among the training rings, (K,)."""
        counts = np.array(self.counts, dtype=np.float64)
        return counts / counts.sum()

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Probability of each colour for each ring.

        Args:
            features: shape (n, 30), from :func:`birdlab.individuals.rings.crops.histograms`.

        Returns:
            float64 array of shape (n, K), in the order of the palette; every row sums to 1.

        Raises:
            ValueError: a feature that is no number, or rows of another length.
        """
        features = np.asarray(features, dtype=np.float64).reshape(-1, len(self.mean))
        out = np.zeros((len(features), len(self.palette)))
        seen = [i for i, n in enumerate(self.counts) if n]
        for start in range(0, len(features), BLOCK):
            block = (features[start : start + BLOCK] - self.mean) / self.scale
            found = self._model.predict(block).reshape(len(block), -1)
            out[start : start + BLOCK, seen] = found / found.sum(axis=1, keepdims=True)
        return out


def train_forest(
    features: np.ndarray,
    letters: Sequence[str],
    *,
    palette: Palette,
    trees: int = 500,
    seed: int = 42,
    max_features: float | str = 1.0,
) -> ColourForest:
    """Train the colour forest as published: regression trees on one column per colour, mean of their leaves.

    The published inference fits the scaling anew for each ring, on the training rings and that one; here it is fitted
    once, which changes no probability that can be seen and lets all rings be classified at once.

    Args:
        features: shape (n, 30).
        letters: colour of each ring, a letter of the palette.
        palette: colours; those without a ring are listed in ``unseen``.
        trees: number of trees.
        seed: of the random draws; same seed and rings, same forest on any number of cores.
        max_features: features tried at each split; 1.0 (all) is what the published script leaves as it is.

    Returns:
        The forest.

    Raises:
        DataError: no ring, or a letter outside the palette.
    """
    from sklearn.ensemble import RandomForestRegressor

    features = np.asarray(features, dtype=np.float64)
    outside = sorted({letter for letter in letters if letter not in palette.letters})
    if outside or not len(letters):
        found = f"colour {', '.join(outside)}" if outside else "no ring with a colour"
        expected = f"ring masks of the colours {', '.join(palette.letters)}"
        raise DataError(Problem("no_training_rings" if not outside else "unknown_colour", found, expected))
    index = np.array([palette.index(letter) for letter in letters])
    counts = np.bincount(index, minlength=len(palette))
    seen = np.flatnonzero(counts)
    mean, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    target = (index[:, None] == seen[None, :]).astype(np.float64)
    if target.shape[1] == 1:  # one colour: scikit-learn warns of a column vector
        target = target[:, 0]
    model = RandomForestRegressor(trees, random_state=seed, max_features=max_features, n_jobs=2)
    model.fit((features - mean) / scale, target)
    # Trees are summed in the order in which threads finish: one thread gives the same last digit every time.
    model.set_params(n_jobs=1)
    unseen = tuple(letter for letter, n in zip(palette.letters, counts, strict=True) if not n)
    return ColourForest(palette, tuple(int(n) for n in counts), unseen, mean, scale, model)
