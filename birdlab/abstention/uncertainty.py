"""How unsure a model is of an image: one number from its per-image columns, larger is less sure."""

from __future__ import annotations

from typing import get_args

import numpy as np
import polars as pl

from birdlab.abstention.conventions import Nan, Uncertainty
from birdlab.errors import DataError, ParameterError, Problem

_NEEDED: dict[str, tuple[str, ...]] = {
    "1-maxprob": ("max_species",),
    "entropy": ("entropy",),
    "1-genusmax": ("max_genus",),
    "1-within_genus": ("max_species", "max_genus"),
    "stated": ("stated",),
    "binary": ("abstained",),
}


def uncertainty(columns: pl.DataFrame, kind: Uncertainty = "1-maxprob", *, nan: Nan = "error") -> np.ndarray:
    """Uncertainty of each image, larger for less sure.

    Args:
        columns: per-image columns, (N rows).
        kind: see :class:`birdlab.abstention.conventions.Conventions`. ``stated``: an answer that abstains is less sure
            than any that does not, whatever confidence it states (+inf).
        nan: an undefined value is an ``error``, or the strongest wish to ``abstain`` (+inf).

    Returns:
        (N,) float64. Where 1 - p would tie values of p that differ (products of many token probabilities), -p stands
        for it: the same order.

    Raises:
        DataError: the columns are not there or hold nothing, or a value is undefined and ``nan="error"``.
        ParameterError: unknown ``kind`` or ``nan``.

    >>> uncertainty(pl.DataFrame({"max_species": [0.75, 0.5]})).tolist()
    [0.25, 0.5]
    """
    _check(kind, nan)
    reason = uncertainty_reason(columns, kind)
    if reason:
        raise DataError(Problem("not_applicable", reason, f"the column of u={kind}", key="uncertainty"))
    u = _values(columns, kind)
    undefined = np.isnan(u)
    if undefined.any():
        if nan == "error":
            raise DataError(_undefined(columns, kind, undefined))
        u[undefined] = np.inf
    return u


def uncertainty_reason(columns: pl.DataFrame, kind: Uncertainty) -> str | None:
    """Why this uncertainty is not to be had from these columns; ``None`` where it is.

    >>> uncertainty_reason(pl.DataFrame({"max_species": [0.5]}), "stated")
    'no column stated'
    """
    missing = [c for c in _NEEDED[kind] if c not in columns.columns]
    if missing:
        return f"no column {', '.join(missing)}"
    empty = [c for c in _NEEDED[kind] if columns.height and columns[c].null_count() == columns.height]
    if empty:
        return f"{', '.join(empty)} is empty"
    return None


def _check(kind: str, nan: str) -> None:
    choices = {"uncertainty": (kind, get_args(Uncertainty)), "nan": (nan, get_args(Nan))}
    problems = [
        Problem("bad_value", repr(value), "one of " + ", ".join(known), key=key)
        for key, (value, known) in choices.items()
        if value not in known
    ]
    if problems:
        raise ParameterError(problems)


def _values(columns: pl.DataFrame, kind: Uncertainty) -> np.ndarray:
    """The uncertainty of each image, NaN where it is undefined."""
    arrays = [columns[c].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy() for c in _NEEDED[kind]]
    if kind in ("entropy", "binary"):
        return arrays[0]
    if kind == "1-within_genus":
        with np.errstate(divide="ignore", invalid="ignore"):
            return _complement(arrays[0] / arrays[1])
    u = _complement(arrays[0])
    if kind == "stated" and "abstained" in columns.columns:
        u[columns["abstained"].fill_null(False).to_numpy()] = np.inf
    return u


def _complement(p: np.ndarray) -> np.ndarray:
    """1 - p, or -p where rounding would tie what differs."""
    ordered = np.sort(p)
    u = 1.0 - ordered
    collapsed = bool(np.any((ordered[1:] > ordered[:-1]) & (u[1:] == u[:-1])))
    return -p if collapsed else 1.0 - p


def _undefined(columns: pl.DataFrame, kind: str, undefined: np.ndarray) -> Problem:
    """The first image without a value, and how many there are."""
    first = int(np.flatnonzero(undefined)[0])
    record = str(columns["item_id"][first]) if "item_id" in columns.columns else f"row {first}"
    found = f"no {kind} for {int(undefined.sum())} of {len(undefined)} images, {record!r} first"
    remedy = 'mend the probabilities, or let nan="abstain" count them as the strongest wish to abstain'
    return Problem("undefined_uncertainty", found, "a number for every image", remedy, record=record, key=kind)
