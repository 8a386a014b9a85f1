"""Could a model have been trained on these photographs? Clean, unknown or contaminated, by source and date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

import polars as pl

from birdlab.errors import ParameterError, Problem

CLEAN, UNKNOWN, CONTAMINATED = STATUSES = ("clean", "unknown", "contaminated")
_COUNT_SCHEMA: dict[str, Any] = {
    **{"model": pl.String, "status": pl.String, "n": pl.Int64, "n_answerable": pl.Int64},
    **{"n_unanswerable": pl.Int64, "share": pl.Float64, "reason": pl.String},
}


@dataclass(frozen=True)
class Card:
    """What is known of how a model was made; everything may be unknown.

    Args:
        model: name of the model.
        family: models of one recipe and several sizes.
        parameters, training_images: counts.
        cutoff: day after which nothing is in its training data.
        sources: names of its training sources, compared without case.
        sources_complete: whether ``sources`` lists all of them.
    """

    model: str
    family: str | None = None
    parameters: int | None = None
    training_images: int | None = None
    cutoff: date | None = None
    sources: tuple[str, ...] = ()
    sources_complete: bool = False


def read_card(model: str, values: Mapping[str, Any]) -> Card:
    """A model card from a mapping, as written in a recipe.

    Args:
        model: name of the model.
        values: any of the fields of :class:`Card`; ``cutoff`` as a date or ``YYYY-MM-DD``; ``sources`` a list.

    Returns:
        The card; an unknown value is ``None``.

    Raises:
        ParameterError: unknown keys, and values that cannot be used, all of them.

    >>> read_card("A", {"cutoff": "2023-12-31", "sources": ["iNaturalist"]}).cutoff
    datetime.date(2023, 12, 31)
    """
    known = [f.name for f in fields(Card) if f.name != "model"]
    problems = [
        _problem(model, key, "an unknown key", "one of " + ", ".join(known)) for key in values if key not in known
    ]
    out: dict[str, Any] = {}
    for key in known:
        value = values.get(key)
        if value is None:
            continue
        try:
            out[key] = _CONVERT[key](value)
        except (TypeError, ValueError, OverflowError):
            problems.append(_problem(model, key, repr(value), _EXPECTED[key]))
    if problems:
        raise ParameterError(problems)
    return Card(model, **out)


def cards_frame(cards: Sequence[Card]) -> pl.DataFrame:
    """Cards as a table: model, family, parameters, training_images, cutoff, sources (joined by ``|``), sources_complete."""
    schema = {
        **{"model": pl.String, "family": pl.String, "parameters": pl.Int64, "training_images": pl.Int64},
        **{"cutoff": pl.Date, "sources": pl.String, "sources_complete": pl.Boolean},
    }
    rows = [{**{f: getattr(c, f) for f in schema}, "sources": "|".join(c.sources) or None} for c in cards]
    return pl.DataFrame(rows, schema=schema, orient="row")


def contamination(items: pl.DataFrame, card: Card) -> pl.DataFrame:
    """Whether each photograph can have been in a model's training data.

    Args:
        items: table ``items``, with ``date`` and ``source`` (where the photograph was published) where known.
        card: what is known of the model.

    Returns:
        model, item_id, status and reason, one row per item in order.

        - ``contaminated``: its source is among the training sources, and it is not later than the cut-off (or there is
          none). The photograph may have been seen: the source was, not necessarily the file.
        - ``clean``: it was taken after the cut-off; or its source is known and not in a complete list of sources.
        - ``unknown``: everything else.

    >>> items = pl.DataFrame({"item_id": ["a", "b"], "date": [date(2024, 5, 1), None], "source": ["iNaturalist"] * 2})
    >>> contamination(items, Card("A", cutoff=date(2023, 12, 31), sources=("inaturalist",)))["status"].to_list()
    ['clean', 'unknown']
    """
    day = pl.col("date").cast(pl.Date) if "date" in items.columns else pl.lit(None, pl.Date)
    source = pl.col("source").cast(pl.String) if "source" in items.columns else pl.lit(None, pl.String)
    key = source.map_elements(_key, return_dtype=pl.String)
    trained = key.is_in([_key(s) for s in card.sources]).fill_null(False)
    cutoff = pl.lit(card.cutoff, pl.Date)
    later = (day > cutoff).fill_null(False)
    undated = day.is_null() & (card.cutoff is not None)
    cases: list[tuple[pl.Expr, str, str]] = [
        (later, CLEAN, "taken after the cut-off"),
        (trained & (card.cutoff is None), CONTAMINATED, "its source was trained on, and no cut-off is known"),
        (trained & ~undated, CONTAMINATED, "its source was trained on, and it is not later than the cut-off"),
        (trained, UNKNOWN, "its source was trained on, and it has no date to compare with the cut-off"),
        (
            (key != "") & card.sources_complete,
            CLEAN,
            "its source is not among the training sources, which are all known",
        ),
        ((key != ""), UNKNOWN, "its source is not among the training sources known, which may not be all"),
    ]
    status, reason = pl.lit(UNKNOWN), pl.lit("its source is not known")
    for case, name, why in reversed(cases):
        held = case.fill_null(False)
        status = pl.when(held).then(pl.lit(name)).otherwise(status)
        reason = pl.when(held).then(pl.lit(why)).otherwise(reason)
    return items.select(
        pl.lit(card.model).alias("model"),
        "item_id",
        status.cast(pl.Enum(STATUSES)).alias("status"),
        reason.alias("reason"),
    )


def contamination_counts(found: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Photographs by status for each model: n, of them answerable and unanswerable, share of all, and the usual reason.

    Args:
        found: what :func:`contamination` returns, of one model or several under each other.
        items: table ``items``.

    Returns:
        Three rows per model, clean, unknown and contaminated, n = 0 included; ``reason`` names each reason with its
        count. The shares of a model add up to 1; no item, no share.
    """
    table = found.join(items.select("item_id", "is_answerable"), on="item_id", how="left", maintain_order="left")
    rows = []
    for (model,), part in table.group_by("model", maintain_order=True):
        for status in STATUSES:
            inside = part.filter(pl.col("status").cast(pl.String) == status)
            n, n_a = inside.height, int(inside["is_answerable"].sum())
            why = inside["reason"].value_counts(sort=True).sort("count", "reason", descending=[True, False])
            row = {"model": model, "status": status, "n": n, "n_answerable": n_a, "n_unanswerable": n - n_a}
            row |= {"share": n / part.height, "reason": "; ".join(f"{w} ({k})" for w, k in why.iter_rows()) or None}
            rows.append(row)
    return pl.DataFrame(rows, schema=_COUNT_SCHEMA, orient="row")


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


def _problem(model: str, key: str, found: str, expected: str) -> Problem:
    return Problem("bad_card", found, expected, record=f"card of {model}", key=key)


def _count(value: Any) -> int:
    if isinstance(value, (bool, str)) or value != int(value) or value <= 0:
        raise ValueError(value)
    return int(value)


def _day(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(v, str) and v.strip() for v in value):
        raise ValueError(value)
    return tuple(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


_CONVERT = {
    **{"family": _text, "parameters": _count, "training_images": _count},
    **{"cutoff": _day, "sources": _names, "sources_complete": _flag},
}
_EXPECTED = {
    **{"family": "a name", "parameters": "a count above 0", "training_images": "a count above 0"},
    **{"cutoff": "a date, YYYY-MM-DD", "sources": "a list of names", "sources_complete": "true or false"},
}
