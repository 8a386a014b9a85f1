"""From the scores of one model to all its per-image columns: plain, with range map, and per observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from birdlab.abstention.hierarchy import Options, wide_columns
from birdlab.abstention.observations import pooled
from birdlab.abstention.row_checks import tolerance_of
from birdlab.abstention.topk import topk_columns
from birdlab.abstention.tree import BASE_RANKS, Tree
from birdlab.readers.files import Notice


def score_columns(
    scores: Any,
    items: pl.DataFrame,
    taxonomy: Any,
    *,
    ranks: Sequence[str] = BASE_RANKS,
    options: Options | None = None,
    observation: bool = False,
    missing: str = "error",
    labels: Sequence[str] | None = None,
) -> tuple[pl.DataFrame, list[Notice]]:
    """Per-image columns of one model, every variant that the items allow.

    Args:
        scores: ``WideScores`` or ``TopKScores``.
        items: table ``items``; matched by id, never by order.
        taxonomy: that the items were read with.
        ranks: ``genus`` and ``species``, and any other that is wanted.
        options: how to read; the tolerance of row sums follows the dtype of the file. ``range_map`` is used where an
            item has candidates.
        observation: whether to add the variant ``observation`` where some observation has several photographs.
        missing: items without scores are an ``error`` or are left out (``drop``), counted.
        labels: all labels of the model, where ``scores`` lists only the most probable ones; without them the size of its
            vocabulary is unknown.

    Returns:
        Table ``image_scores``, variants one after the other, and notices.

    Raises:
        DataError: see :func:`birdlab.abstention.hierarchy.wide_columns` and ``birdlab.readers.scores.align``.
    """
    from birdlab.readers.scores import align

    options = options or Options()
    aligned = align(scores, items, missing=missing)
    notices = []
    if aligned.missing:
        notices.append(Notice("items_without_scores", "items without scores, left out", len(aligned.missing)))
        items = items.filter(~pl.col("item_id").is_in(list(aligned.missing)))
    if aligned.extra:
        notices.append(Notice("scores_without_item", "scored ids that are no item, left out", len(aligned.extra)))
    if not hasattr(scores, "chunks"):
        seen = scores.frame["label"].unique(maintain_order=True).to_list()
        tree = Tree.build(seen if labels is None else labels, taxonomy, ranks=ranks)
        frame, more = topk_columns(scores, tree, items, options=options, whole_vocabulary=labels is not None)
        return frame, [*notices, *more]
    tree = Tree.build(scores.labels, taxonomy, ranks=ranks)
    has_lists = "candidates" in items.columns and items["candidates"].is_not_null().any()
    tolerance = max(options.tolerance, tolerance_of(scores.dtype))
    options = replace(options, tolerance=tolerance, range_map=options.range_map and bool(has_lists))
    about = {"options": options, "model": scores.model, "rows": aligned.rows, "source": scores.source}
    frame, more = wide_columns(scores.chunks(aligned.rows), tree, items, **about)
    notices += more
    if observation and "observation_id" in items.columns:
        by_observation, more = pooled(scores, tree, items, rows=aligned.rows, options=options)
        known = {n.code for n in notices}
        frame = pl.concat([frame, by_observation])
        notices += [n for n in more if n.code not in known]
    return frame, notices
