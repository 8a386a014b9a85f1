"""Birds in one frame are different birds: clips that overlap in time are named together.

The names are those with the highest product of posteriors in which no bird is seen twice at once
(``scipy.optimize.linear_sum_assignment`` on log posteriors, with a column of its own for each clip: a bird that is not
on the list). The probability of each name then takes the other clips into account.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

from birdlab.individuals.rings.decide import Posterior
from birdlab.individuals.rings.exact import exact_marginals

#: Log posteriors below this count as this: nothing is impossible.
LOWEST = -700.0
#: Rounds of messages between clips; pairs and chains need as many as they are long.
ROUNDS = 30


def assign_jointly(found: Posterior, together: pl.DataFrame | None) -> Posterior:
    """Posterior and assignment of birds, given that clips that overlap are of different birds.

    Clips that all overlap with one another are assigned by ``linear_sum_assignment``. Where some of a group do not (the
    first and the last of a chain may be one bird) the surest clip takes its bird first, and a clip may not take a bird
    that an overlapping one holds. A bird that is not on the list may be several. Posteriors are the marginal ones of the
    product of the clips' posteriors without the impossible names: exact for groups of up to about eight clips, and for
    chains; by belief propagation, which is only near, for larger ones.

    Args:
        found: of :func:`~birdlab.individuals.rings.decide.posterior`.
        together: clip_id, other_id; either order, a clip with itself is dropped, a clip that was not asked for too.

    Returns:
        Posterior with ``is_assigned`` in ``birds`` (at most one per clip and list) and ``is_left_over`` in ``clips``
        (no bird was assigned) for the clips that overlap with another; the other clips are as they were.
    """
    birds = found.birds.with_columns(is_assigned=pl.lit(False))
    pairs = _pairs(together)
    if not pairs or birds.is_empty():
        return Posterior(birds, found.clips.with_columns(is_left_over=pl.lit(False)))
    rows = birds.with_row_index("row")
    value, assigned = birds["log_posterior"].to_numpy().copy(), np.zeros(birds.height, dtype=bool)
    log_unknown, left_over = found.clips["log_unknown"].to_numpy().copy(), np.zeros(found.clips.height, dtype=bool)
    for gallery in found.clips["gallery"].unique(maintain_order=True):
        clips = found.clips.with_row_index("row").filter(pl.col("gallery") == gallery, pl.col("has_rings"))
        clip_row = dict(zip(clips["clip_id"], clips["row"], strict=True))
        mine = rows.filter(pl.col("gallery") == gallery, pl.col("clip_id").is_in(list(pairs)))
        of_clip = {
            clip[0]: (part["row"].to_numpy(), part["individual_id"].to_list())
            for clip, part in mine.group_by("clip_id", maintain_order=True)
            if clip[0] in clip_row
        }
        for group in _groups(pairs, of_clip):
            names = sorted({bird for clip in group for bird in of_clip[clip][1]})
            at = dict(zip(names, range(len(names)), strict=True))
            columns = [np.array([at[b] for b in of_clip[c][1]]) for c in group]
            table = np.full((len(group), len(names) + 1), -np.inf)
            for i, clip in enumerate(group):
                table[i, columns[i]] = np.maximum(value[of_clip[clip][0]], LOWEST)
                table[i, -1] = max(log_unknown[clip_row[clip]], LOWEST)
            apart = np.array([[b in pairs[a] for b in group] for a in group])
            answer, marginal = assign(table, apart), marginals(table, apart)
            for i, clip in enumerate(group):
                value[of_clip[clip][0]] = marginal[i, columns[i]]
                assigned[of_clip[clip][0]] = columns[i] == answer[i]
                log_unknown[clip_row[clip]] = marginal[i, -1]
                left_over[clip_row[clip]] = answer[i] == len(names)
    return Posterior(
        birds.with_columns(pl.Series("log_posterior", value), pl.Series("is_assigned", assigned)),
        found.clips.with_columns(pl.Series("log_unknown", log_unknown), pl.Series("is_left_over", left_over)),
    )


def assign(table: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Column of each clip: the likeliest names together.

    Args:
        table: log posterior of each bird, -inf where it is not on the list, last column the bird that is not on the
            list, (n, birds + 1).
        apart: which clips must be different birds, (n, n), symmetric.

    Returns:
        (n,); the last column where no bird of the list is assigned.

    >>> table = np.log([[0.98, 0.01, 0.01], [0.54, 0.45, 0.01]])
    >>> assign(table, ~np.eye(2, dtype=bool)).tolist()
    [0, 1]
    """
    n, last = len(table), table.shape[1] - 1
    if apart.sum() == n * (n - 1):
        own = np.where(np.eye(n, dtype=bool), table[:, [-1]], -np.inf)
        wide = np.concatenate([table[:, :-1], own], axis=1)
        # A finite stand-in for "impossible" that no sum of possible ones can reach.
        cost = np.where(np.isfinite(wide), -wide, (n + 1) * -LOWEST)
        column = linear_sum_assignment(cost)[1]
        return np.minimum(column, last)
    left, answer = table.copy(), np.full(n, -1)
    for _ in range(n):
        open_ = np.flatnonzero(answer < 0)
        clip = open_[left[open_].max(axis=1).argmax()]
        answer[clip] = left[clip].argmax()
        if answer[clip] != last:
            left[apart[clip], answer[clip]] = -np.inf
    return answer


def marginals(table: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Log posterior of each clip's birds given that overlapping clips differ; same shape as ``table``.

    Two clips, chains and groups that are too large for :func:`~birdlab.individuals.rings.exact.exact_marginals`: sum-product
    belief propagation on the pairs of clips: clip i tells clip j how probable each bird is for i without what j told it,
    and j loses that share. That is exact unless clips overlap in a ring.

    >>> table = np.log([[0.98, 0.01, 0.01], [0.54, 0.45, 0.01]])
    >>> np.exp(marginals(table, ~np.eye(2, dtype=bool)))[1].round(2).tolist()
    [0.02, 0.96, 0.02]
    """
    n = len(table)
    # With fewer overlaps than clips they form chains (the clips of a group hang together).
    found = exact_marginals(table, apart) if apart.sum() // 2 >= n else None
    if found is not None:
        return found
    p = np.exp(table - table.max(axis=1, keepdims=True))
    message = np.zeros((n, n, table.shape[1]))
    for _ in range(min(ROUNDS, 2 * n)):
        keep = _keep(message, apart)
        new = np.zeros_like(message)
        for i in range(n):
            for j in np.flatnonzero(apart[i]):
                others = np.delete(keep[:, i], j, axis=0)
                belief = p[i] * others.prod(axis=0)
                new[i, j] = belief / belief.sum()
        if np.allclose(new, message, rtol=0, atol=1e-12):
            break
        message = new
    belief = p * _keep(message, apart).prod(axis=0)
    with np.errstate(divide="ignore"):
        return np.log(belief / belief.sum(axis=1, keepdims=True))


def _keep(message: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Share of each bird that clip i leaves to clip j; the bird that is not on the list is never taken."""
    keep = np.where(apart[:, :, None], np.clip(1 - message, 1e-300, 1.0), 1.0)
    keep[..., -1] = 1.0
    return keep


def _pairs(together: pl.DataFrame | None) -> Mapping[str, set[str]]:
    """Clips that overlap with each clip."""
    out: dict[str, set[str]] = {}
    if together is not None:
        for one, other in together.select("clip_id", "other_id").iter_rows():
            if one != other:
                out.setdefault(one, set()).add(other)
                out.setdefault(other, set()).add(one)
    return out


def _groups(pairs: Mapping[str, set[str]], asked: Mapping[str, object]) -> list[list[str]]:
    """Clips that hang together by overlaps, two or more, in the order of ``asked``."""
    seen: set[str] = set()
    out = []
    for clip in asked:
        if clip in seen:
            continue
        group, todo = [], [clip]
        seen.add(clip)
        while todo:
            one = todo.pop()
            group.append(one)
            new = sorted(c for c in pairs[one] if c in asked and c not in seen)
            seen.update(new)
            todo += new
        if len(group) > 1:
            out.append(group)
    return out
