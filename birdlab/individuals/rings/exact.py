"""Posteriors of clips that must be different birds, summed over everything that they may be together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: Most ways in which one bird may be shared out, over all sets of clips that already have one; more are not summed.
MOST_WAYS = 4000
#: Log posteriors are cut so that their product over a group stays a number.
LOWEST_PRODUCT = -600.0


def exact_marginals(table: Floats, apart: npt.NDArray[np.bool_]) -> Floats | None:
    """Log posterior of each clip's birds given that overlapping clips differ; None for a group that is too large.

    Birds are gone through one by one, with the set of clips that have one already: a bird takes any clips of the rest that
    do not overlap, and who is left over in the end is a bird that is not on the list. Sums of everything before and behind
    a bird give its share.

    Args:
        table: log posterior of each bird, -inf where it is not on the list, last column the bird that is not on the
            list, (n, birds + 1).
        apart: which clips must be different birds, (n, n), symmetric.

    Returns:
        Same shape as ``table``; each row's exponentials sum to 1.

    >>> table = np.log([[0.98, 0.01, 0.01], [0.54, 0.45, 0.01]])
    >>> np.exp(exact_marginals(table, ~np.eye(2, dtype=bool)))[1].round(2).tolist()
    [0.02, 0.96, 0.02]
    """
    ways = _ways(apart)
    if ways is None:
        return None
    before, taken, inside = ways
    n, birds = len(table), table.shape[1] - 1
    p = table - table.max(axis=1, keepdims=True)
    p = np.where(np.isfinite(p), np.exp(np.maximum(p, LOWEST_PRODUCT / n)), 0.0)
    # Weight of each way for each bird: the product over the clips that it takes.
    weight = np.where(inside[:, :, None], p[None, :, :birds], 1.0).prod(axis=1)
    has = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    behind = np.empty((birds + 1, 2**n))
    behind[birds] = np.where(has, 1.0, p[:, birds]).prod(axis=1)
    for b in range(birds - 1, -1, -1):
        behind[b] = np.bincount(before, weight[:, b] * behind[b + 1][before | taken], 2**n)
    front, out = np.zeros(2**n), np.zeros_like(p)
    front[0] = 1.0
    for b in range(birds):
        share = front[before] * weight[:, b]
        out[:, b] = (share * behind[b + 1][before | taken]) @ inside
        front = np.bincount(before | taken, share, 2**n)
    out[:, birds] = (front * behind[birds]) @ (1 - has)
    with np.errstate(divide="ignore"):
        return np.log(out / out.sum(axis=1, keepdims=True))


def _ways(
    apart: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None:
    """Sets of clips as bits: those that have a bird, those that the next one takes, and the latter as a mask (ways, n)."""
    n = len(apart)
    if 2**n > MOST_WAYS:
        return None
    sets = np.arange(2**n)
    bits = ((sets[:, None] >> np.arange(n)) & 1).astype(bool)
    free = ~np.einsum("si,ij,sj->s", bits, apart, bits).astype(bool)
    before, taken = (grid.ravel() for grid in np.meshgrid(sets, sets[free], indexing="ij"))
    fits = (before & taken) == 0
    if fits.sum() > MOST_WAYS:
        return None
    before, taken = before[fits], taken[fits]
    return before, taken, bits[taken]
