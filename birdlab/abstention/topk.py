"""Lists of the most probable labels: what they leave open about a genus, and when they are no basis for a curve.

A sum over listed species is a lower bound of a genus; the missing mass may belong to any. On a flat softmax the best
genus of a top-5 list agreed with that of the full vector on 59 % of the images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from birdlab.abstention.block import block_rows
from birdlab.abstention.hierarchy import Options, wide_columns
from birdlab.abstention.tree import Tree
from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.files import Notice
from birdlab.readers.item_fields import shown_list, tidy_name

MISSING_LIMIT = 0.05
_COUNTS = (
    *("n_species", "n_genera", "within_genus_n", "top_genus_n", "leaf_p", "leaf_info", "leaf_right"),
    *("is_missing_species", "is_missing_genus"),
)


def topk_columns(
    scores: Any,
    tree: Tree,
    truth: pl.DataFrame,
    *,
    options: Options | None = None,
    whole_vocabulary: bool = True,
) -> tuple[pl.DataFrame, list[Notice]]:
    """Per-image columns from lists of the most probable labels.

    Args:
        scores: with ``model`` and ``frame`` (item_id, label, probability), each label once per item; see ``TopKScores``.
        tree: of the labels: those of the model where they are known, else those in the table.
        truth: items; every one needs at least one listed label.
        whole_vocabulary: whether the tree has all labels of the model. If not, how many species and genera it could
            have named is unknown: counts, lists by leaf information and what the vocabulary lacks are null.
        options: how to read; lists cannot be normalised or restricted by a range map.

    Returns:
        Table ``image_scores`` and notices. ``missing_mass`` = 1 - sum of the list. Genus probabilities are lower bounds;
        two more columns tell the rest: ``max_genus_hi`` = M + missing mass (at most 1), the most that the best genus can
        have, and ``top_genus_certain``, whether no other genus can reach M. Where mass is missing, what the list does
        not show is null: entropy, the probability of a true species that is not listed, and the best species of a
        true genus without a listed one. ``max_species`` is exact (unless a species has several labels).

    Raises:
        DataError: see :func:`birdlab.abstention.hierarchy.wide_columns`; a listed label that the tree lacks.
        ParameterError: ``normalise`` or ``range_map``.
    """
    asked = options or Options()
    for key in ("normalise", "range_map"):
        if getattr(asked, key):
            expected = "False: what a list does not show cannot be renormalised"
            raise ParameterError(Problem("bad_value", "True", expected, "give the full probabilities", key=key))
    asked = Options(**{**vars(asked), "partial": True})
    frame, notices = wide_columns(
        topk_chunks(scores.frame, tree, truth["item_id"]),
        tree,
        truth,
        options=asked,
        model=scores.model,
        source=getattr(scores, "source", None),
    )
    if not whole_vocabulary:
        unknown = (*_COUNTS, *(f"top_{rank}_n" for rank in tree.groups))
        frame = frame.with_columns(pl.lit(None, dtype=frame[c].dtype).alias(c) for c in unknown)
    # Strictly: an unlisted genus may hold all of the missing mass, too.
    room = pl.max_horizontal("second_genus", pl.lit(0.0)) + pl.col("missing_mass")
    return frame.with_columns(
        max_genus_hi=pl.min_horizontal(pl.col("max_genus") + pl.col("missing_mass"), pl.lit(1.0)),
        top_genus_certain=pl.col("max_genus") > room,
    ), notices


def topk_chunks(frame: pl.DataFrame, tree: Tree, item_ids: pl.Series) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The lists as rows of a matrix, a block at a time; labels that are not listed have 0."""
    items = pl.DataFrame({"item_id": item_ids.cast(pl.String), "item": np.arange(len(item_ids), dtype=np.int64)})
    labels = pl.DataFrame({"label": tree.labels, "column": np.arange(len(tree.labels), dtype=np.int64)})
    found = frame.join(items, on="item_id", how="inner").join(labels, on="label", how="left").sort("item")
    unknown = found.filter(pl.col("column").is_null())["label"].unique().sort()
    if len(unknown):
        shown = ", ".join(repr(x) for x in unknown.head(5))
        raise DataError(
            Problem("unknown_label", f"{len(unknown)} labels ({shown})", "labels of the tree", key="labels")
        )
    item, column = found["item"].to_numpy(), found["column"].to_numpy()
    p = found["probability"].to_numpy()
    present = np.unique(item)
    size = block_rows(len(tree.labels))
    for start in range(0, len(present), size):
        at = present[start : start + size]
        low, high = np.searchsorted(item, [at[0], at[-1] + 1])
        block = np.zeros((len(at), len(tree.labels)))
        block[np.searchsorted(at, item[low:high]), column[low:high]] = p[low:high]
        yield at, block


def topk_vocabulary(scores: Any, path: Path, *, where: str) -> tuple[str, ...]:
    """All labels of a model, from a text file, for its lists of the most probable ones.

    Args:
        scores: with ``frame``; see ``TopKScores``.
        path: one label per line.
        where: the model or option, for errors.

    Raises:
        DataError: the file cannot be read, or lacks labels that the lists have.
    """
    from birdlab.inference.classifier_labels import read_label_list

    listed = scores.frame["label"].unique(maintain_order=True).to_list()
    known = whole_vocabulary(read_label_list(path, where=where), listed)
    lacking = sorted(set(listed) - set(known))
    if lacking:
        found = f"{len(known)} labels without {shown_list(lacking)}"
        remedy = "name the file with all labels of this model"
        expected = "every label that the lists of the most probable ones have"
        raise DataError(Problem("unknown_label", found, expected, remedy, str(path), record=where, key="labels"))
    return known


def whole_vocabulary(known: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    """All labels of a model, written as the lists write them.

    Args:
        known: labels of the model.
        listed: labels that occur in the lists: ``Pica pica`` stands for ``Pica pica (Eurasian Magpie)``, where only one
            label of the model is that bird.

    >>> whole_vocabulary(["Pica pica (Eurasian Magpie)", "background"], ["Pica pica"])
    ('Pica pica', 'background')
    """
    times = Counter(map(tidy_name, known))
    written = {tidy_name(label): label for label in listed if label not in set(known)}
    return tuple(written.get(tidy_name(x), x) if times[tidy_name(x)] == 1 else x for x in known)


def refuse_topk(mean_missing: float, limit: float = MISSING_LIMIT) -> str | None:
    """Why UA/A and the information curve are not computed from these lists; ``None`` where they may be.

    Args:
        mean_missing: mean missing mass over the items, in [0, 1].
        limit: the most that is allowed.

    >>> refuse_topk(0.01) is None, refuse_topk(0.32)
    (True, 'the lists leave 32.0 % of the probability unseen (limit 5 %): sums over a genus are only lower bounds')
    """
    if mean_missing <= limit:
        return None
    seen = f"the lists leave {100 * mean_missing:.1f} % of the probability unseen (limit {100 * limit:g} %)"
    return f"{seen}: sums over a genus are only lower bounds"


def missing_to(columns: pl.DataFrame, side: Literal["for", "against"]) -> pl.DataFrame:
    """The columns if all of the missing mass of every item belonged to its best genus, or to that genus's best rival.

    Two scenarios between which to read an information curve computed ``with force``; the area need not lie between
    theirs, because moving one item along the threshold changes where it is counted.

    Args:
        columns: of :func:`topk_columns`.
        side: ``for``: M becomes ``max_genus_hi``, names unchanged. ``against``: where a rival could reach M
            (``top_genus_certain`` is false) the rival is named with the second best probability plus the missing mass;
            which genus that is is unknown, so it counts as wrong and its name is null. Elsewhere nothing changes.

    Returns:
        Columns for the conventions with depth information and independent paths; lists by leaf information and the
        top-down path are null, because they would have to be made anew.
    """
    if side == "for":
        changed = [pl.col("max_genus_hi").alias("max_genus")]
    else:
        sure = pl.col("top_genus_certain") | (pl.col("missing_mass") <= 0)
        rival = pl.min_horizontal(pl.col("second_genus") + pl.col("missing_mass"), pl.lit(1.0))
        changed = [
            pl.when(sure).then("max_genus").otherwise(rival).alias("max_genus"),
            pl.when(sure).then("top_genus").alias("top_genus"),
            (pl.col("genus_right") & sure).alias("genus_right"),
        ]
    gone = (
        "leaf_p",
        "leaf_info",
        "leaf_right",
        "max_species_top_down",
        "top_species_top_down",
        "species_right_top_down",
    )
    return columns.with_columns(*changed, *(pl.lit(None, dtype=columns[c].dtype).alias(c) for c in gone))
