"""What a guess would get: the accuracy of picking one name of the list at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

Level = Literal["species", "genus", "within_genus"]
_COUNT = {"species": "n_species", "genus": "n_genera", "within_genus": "within_genus_n"}


@dataclass(frozen=True)
class Chance:
    """Accuracy of a guess.

    Args:
        value: in [0, 1]; ``None`` with a ``reason``.
        n: items it is a mean over.
        n_apart: items counted apart: for ``within_genus`` those of a genus with one leaf, where nothing can be guessed
            wrong; elsewhere those whose truth the list lacks (the mean takes them as if it did not).
        reason: why there is no value.
    """

    value: float | None
    n: int
    n_apart: int
    reason: str | None = None


def chance(columns: pl.DataFrame, level: Level) -> Chance:
    """Accuracy of a uniform guess, mean over items of 1/|list|.

    Args:
        columns: table ``image_scores`` of one model and variant.
        level: ``species``: a species of the vocabulary, or of the item's candidate list in variant ``range_map``
            (answerable items). ``genus``: a genus of the list, all alike (every item); this is not the rule "a species
            at random, then its genus", which favours large genera and would be the mean of n(true genus) / S.
            ``within_genus``: a species of the true genus (answerable items whose genus has several leaves).

    Returns:
        Chance. A list that lacks the truth counts as 1/|list| all the same, as in a mean of 1/|list|.

    >>> table = pl.DataFrame({"is_answerable": [True, True], "n_species": [4, 2], "is_missing_species": [False, False]})
    >>> chance(table, "species").value
    0.375
    """
    count = _COUNT[level]
    if level != "genus":
        columns = columns.filter("is_answerable")
    if level == "within_genus":
        columns = columns.filter(pl.col("within_genus_right").is_not_null())
        several = columns.filter(pl.col(count) > 1)
        apart = columns.height - several.height
        columns = several
    else:
        apart = int(columns["is_missing_species" if level == "species" else "is_missing_genus"].sum() or 0)
        columns = columns.filter(pl.col(count) > 0)
    if not columns.height:
        return Chance(None, 0, apart, "no item has a list of known length to guess from")
    return Chance(float((1 / columns[count]).mean()), columns.height, apart)  # type: ignore[arg-type]
