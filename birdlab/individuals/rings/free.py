"""A bird of which nothing is known may wear any code: which legs stand for all of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Likeliest legs that stand for themselves alone; each further one stands for so many times more than the one before.
SINGLE_LEGS, GROWTH = 4, 1.5


def leg_strata(n: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Places of n legs, the likeliest first, that stand for all of them, and the share of the legs that each stands for.

    Rings that are seen once, or unsurely, fit many codes a little: together the others weigh more than the likeliest. So
    the rest is cut into strata that grow, and the middle one of each counts as often as its stratum has legs.

    >>> place, share = leg_strata(9)
    >>> place.tolist(), (9 * share).round().astype(int).tolist()
    ([0, 1, 2, 3, 4, 6, 8], [1, 1, 1, 1, 2, 2, 1])
    """
    sizes, grown = [1] * min(SINGLE_LEGS, n), 1.0
    while sum(sizes) < n:
        grown *= GROWTH
        sizes.append(min(round(grown), n - sum(sizes)))
    size = np.array(sizes, dtype=np.int64)
    return np.cumsum(size) - size + (size - 1) // 2, size / n
