"""Several photographs of one observation as one: the mean of their probabilities, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from birdlab.abstention.block import block_rows
from birdlab.abstention.hierarchy import Options, wide_columns
from birdlab.abstention.tree import Tree
from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most

#: Memory for observations that wait for their other photographs.
WAITING_BYTES = 16 * 2**20
VARIANT = "observation"


def observations(items: pl.DataFrame) -> pl.DataFrame:
    """One row per observation: item_id (= observation_id), is_answerable, genus, species, n_photos.

    An item without an observation id is an observation of its own, under its own id. An observation is answerable if
    and only if all its photographs are, and then with the same species.

    Args:
        items: with item_id, observation_id, is_answerable, genus, species.

    Raises:
        DataError: photographs of one observation that differ in genus, in species, or in whether they are answerable.

    >>> items = pl.DataFrame({"item_id": ["a", "b"], "observation_id": ["o", "o"], "is_answerable": [True, True],
    ...                       "genus": ["Pica", "Pica"], "species": ["Pica pica", "Pica pica"]})
    >>> observations(items).row(0)
    ('o', True, 'Pica', 'Pica pica', 2)
    """
    named = items.select(
        pl.coalesce(pl.col("observation_id"), pl.col("item_id")).alias("item_id"),
        pl.col("observation_id").is_null().alias("alone"),
        *(pl.col(c) for c in ("is_answerable", "genus", "species")),
    )
    facts = ("is_answerable", "genus", "species")
    grouped = named.group_by("item_id", maintain_order=True).agg(
        *(pl.col(c).first() for c in facts),
        pl.len().cast(pl.Int32).alias("n_photos"),
        *(pl.col(c).n_unique().alias(f"n_{c}") for c in ("alone", *facts)),
    )
    problems = []
    for row in grouped.filter(pl.any_horizontal(pl.col(f"n_{c}") > 1 for c in ("alone", *facts))).iter_rows(named=True):
        differ = [c for c in facts if row[f"n_{c}"] > 1] or ["observation_id"]
        expected = "the same for all photographs of an observation"
        place = f"observation {row['item_id']}"
        found = f"{row['n_photos']} photographs that differ"
        problems.append(Problem("observation_conflict", found, expected, record=place, key=", ".join(differ)))
    if problems:
        raise DataError(at_most(problems))
    return grouped.select("item_id", *facts, "n_photos")


def pooled(
    scores: Any,
    tree: Tree,
    items: pl.DataFrame,
    *,
    rows: np.ndarray | None = None,
    options: Options | None = None,
) -> tuple[pl.DataFrame, list[Notice]]:
    """Per-image columns of observations: mean probability over the photographs of each.

    Args:
        scores: with ``model``, ``labels`` and ``chunks(rows, size)``; see ``WideScores``.
        tree: of its labels.
        items: with item_id, observation_id, is_answerable, genus, species.
        rows: row of the matrix of every item, (N,); by default item i is row i.
        options: how to read; ``range_map`` is not used (photographs of one observation may have different lists).

    Returns:
        Table ``image_scores`` of variant ``observation``, item_id being the observation's, with those of a single
        photograph too; no rows where no observation has several photographs. With ``normalise`` each photograph is
        divided by its own sum first. An observation with NaN in a photograph has NaN. And notices.

    Raises:
        DataError: see :func:`observations` and :func:`birdlab.abstention.hierarchy.wide_columns`.
    """
    options = options or Options()
    options = Options(**{**vars(options), "range_map": False})
    truth = observations(items)
    if not truth.filter(pl.col("n_photos") > 1).height:
        empty = wide_columns([], tree, truth.head(0), options=options)[0]
        return empty, [
            Notice("no_observations", "no observation has several photographs: none is pooled", truth.height)
        ]
    place = pl.DataFrame({"item_id": truth["item_id"], "place": np.arange(truth.height)})
    ids = items.select(pl.coalesce(pl.col("observation_id"), pl.col("item_id")).alias("item_id"))
    group = ids.join(place, on="item_id", how="left", maintain_order="left")["place"].to_numpy()
    rows = np.arange(items.height) if rows is None else np.asarray(rows)
    chunks = pooled_chunks(scores, rows, group, normalise=options.normalise)
    source = getattr(scores, "source", None)
    frame, notices = wide_columns(
        chunks, tree, truth, options=options, model=scores.model, variant=VARIANT, source=source
    )
    several = int((truth["n_photos"] > 1).sum())
    text = f"of {truth.height} observations, those whose probabilities are a mean over several photographs"
    return frame, [*notices, Notice("pooled_observations", text, several)]


def pooled_chunks(
    scores: Any, rows: np.ndarray, group: np.ndarray, *, normalise: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(groups, mean probabilities) of rows of a matrix, a bounded number of groups at a time.

    Args:
        scores: with ``labels`` and ``chunks(rows, size)``.
        rows: rows of the matrix, (N,), each once.
        group: 0..G-1 of every row, (N,).
        normalise: divide every row by its sum first.

    Yields:
        Groups in order of their first row, and (k, L) means, valid until the next are asked for. At most :data:`WAITING_BYTES` of them wait at a time; a
        matrix whose groups lie together is read once.
    """
    order = np.argsort(rows, kind="stable")
    rows, group = rows[order], group[order]
    firsts = np.sort(np.unique(group, return_index=True)[1])
    at_once = max(1, WAITING_BYTES // (8 * max(1, len(scores.labels))))
    place = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    waiting = np.empty((min(at_once, len(firsts)), len(scores.labels)))
    for start in range(0, len(firsts), at_once):
        batch = group[firsts[start : start + at_once]]
        place[batch] = np.arange(len(batch))
        mine = place[group] >= 0
        sums = waiting[: len(batch)]
        sums.fill(0)
        for number, block in scores.chunks(rows[mine], size=block_rows(len(scores.labels))):
            to = place[group[np.searchsorted(rows, number)]]
            _add(sums, to, block, normalise)
        sums /= np.bincount(place[group[mine]], minlength=len(batch))[:, None]
        yield batch, sums
        place[batch] = -1


def _add(sums: np.ndarray, to: np.ndarray, block: np.ndarray, normalise: bool) -> None:
    if normalise:
        total = block.sum(axis=1, dtype=np.float64)[:, None]
        # A row of zeros stays one: the mean then shows it.
        block = block / np.where(total > 0, total, 1.0)
    order = np.argsort(to, kind="stable")
    target, first = np.unique(to[order], return_index=True)
    if len(target) == len(to):
        sums[to] += block
        return
    sums[target] += np.add.reduceat(block[order], first, axis=0, dtype=np.float64)
