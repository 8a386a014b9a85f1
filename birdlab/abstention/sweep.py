"""How far each area moves when one convention at a time is chosen differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import polars as pl

from birdlab.abstention.calibration import calibrations
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import ig_curve, ua_a
from birdlab.abstention.events import ig_events, one_model
from birdlab.abstention.nodes import DEFAULT_RANKS, nodes_reason
from birdlab.abstention.uncertainty import uncertainty, uncertainty_reason
from birdlab.errors import DataError
from birdlab.schemas.constants import RANKS

#: The conventions that decide each measure.
OPTIONS: dict[str, tuple[str, ...]] = {
    "ua_a": ("uncertainty",),
    "ig": ("info", "path", "decision", "ua"),
    "calibration": ("uncertainty", "rule"),
}
CALIBRATIONS = {
    "A-species": "calibration_a_species",
    "A-genus": "calibration_a_genus",
    "UA-genus": "calibration_ua_genus",
}
SWEEP_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"measure": pl.String, "option": pl.String, "choice": pl.String},
    **{"area": pl.Float64, "delta": pl.Float64, "reason": pl.String},
}
_Areas = dict[str, tuple[float | None, str | None]]  # area and reason by measure


def conventions_sweep(columns: pl.DataFrame, base: Conventions | None = None) -> pl.DataFrame:
    """Every area under every choice, one choice at a time away from the base.

    Args:
        columns: per-image columns of one model and variant.
        base: the choices that stay; ``None`` for the defaults.

    Returns:
        One row per measure (``ua_a``, ``ig``, ``calibration_a_species``, ``calibration_a_genus``,
        ``calibration_ua_genus``), option and choice, the base's own included (:data:`SWEEP_SCHEMA`). ``delta`` is the
        area minus the base's. What cannot be had from these columns is null with a reason. Option ``ranks`` is listed
        where the columns hold ranks above the genus and information is depth.

    Raises:
        DataError: several models in the columns.
    """
    base = base or Conventions()
    one_model(columns)
    rows: list[dict[str, Any]] = []
    at_base = {measure: function(columns, base) for measure, function in _MEASURES.items()}
    for measure, option, choice, changed in _choices(base):
        same = getattr(base, option) == choice
        areas = at_base[measure] if same else _MEASURES[measure](columns, changed)
        rows += _rows(areas, at_base[measure], option, choice)
    # Lists of nodes by information hold the ranks they were made with: there is nothing to compare.
    for ranks in _extra_ranks(columns) if base.info == "depth" else []:
        rows += _rows(_ig(columns, base, ranks=ranks), at_base["ig"], "ranks", "+".join(ranks))
    return pl.DataFrame(rows, schema=SWEEP_SCHEMA)


def _choices(base: Conventions) -> Iterator[tuple[str, str, str, Conventions]]:
    """(measure, option, choice, conventions) for every choice of every option that decides a measure."""
    hints = get_type_hints(Conventions)
    for measure, options in OPTIONS.items():
        for option in options:
            for choice in get_args(hints[option]):
                yield measure, option, choice, replace(base, **{option: choice})


def _extra_ranks(columns: pl.DataFrame) -> list[tuple[str, ...]]:
    """Rank lists to compare: the default and each that begins higher, where the columns hold such ranks."""
    held = [r for r in RANKS[:-2] if f"max_{r}" in columns.columns]
    if not held:
        return []
    return [DEFAULT_RANKS, *((*held[i:], *DEFAULT_RANKS) for i in range(len(held) - 1, -1, -1))]


def _rows(areas: _Areas, at_base: _Areas, option: str, choice: str) -> list[dict[str, Any]]:
    rows = []
    for measure, (area, reason) in areas.items():
        reference, why = at_base[measure]
        delta = None if area is None or reference is None else area - reference
        if area is not None and reference is None:
            reason = f"no difference: the base has none ({why})"
        rows.append(dict(zip(SWEEP_SCHEMA, (measure, option, choice, area, delta, reason), strict=True)))
    return rows


def _ua_a(columns: pl.DataFrame, conventions: Conventions) -> _Areas:
    reason = uncertainty_reason(columns, conventions.uncertainty)
    if reason:
        return {"ua_a": (None, reason)}
    try:
        u = uncertainty(columns, conventions.uncertainty, nan=conventions.nan)
    except DataError as error:
        return {"ua_a": (None, error.problems[0].found)}
    curve = ua_a(u, columns["is_answerable"].to_numpy())
    return {"ua_a": (curve.area, curve.reason)}


def _ig(columns: pl.DataFrame, conventions: Conventions, *, ranks: Sequence[str] = DEFAULT_RANKS) -> _Areas:
    counted = columns.filter("is_answerable") if conventions.ua == "exclude" else columns
    reason = nodes_reason(counted, conventions, ranks=ranks)
    if reason:
        return {"ig": (None, reason)}
    curve = ig_curve(ig_events(columns, conventions, ranks=ranks))
    return {"ig": (curve.area, curve.reason)}


def _calibration(columns: pl.DataFrame, conventions: Conventions) -> _Areas:
    try:
        curves = calibrations(columns, conventions)
    except DataError as error:
        return {measure: (None, error.problems[0].found) for measure in CALIBRATIONS.values()}
    return {measure: (curves[name].area, curves[name].reason) for name, measure in CALIBRATIONS.items()}


_MEASURES: dict[str, Callable[[pl.DataFrame, Conventions], _Areas]] = {
    "ua_a": _ua_a,
    "ig": _ig,
    "calibration": _calibration,
}
