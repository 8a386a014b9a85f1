"""Bins of a difficulty factor: quantile edges, ties, names of the bins, and what is said when a factor does not vary.

Edges are taken once, on the labelled birds, never per model. Western Bluebird, §6.2: "quantile thresholds computed on
the error-analysis set", counts "by their natural categories". The bin sizes 175/174/180 and 115 of its Tables 4-8 are
those of the quantiles .33/.66 and .25/.5/.75 with values on an edge going to the upper bin (preset ``bluebird``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import DataError, ParameterError, Problem

Ties = Literal["upper", "lower"]
#: Level of the birds whose factor is unknown, and of all birds where a factor does not vary.
MISSING, NO_VARIATION = "missing", "no variation"
_THREE = ("Low", "Medium", "High")


@dataclass(frozen=True)
class Factor:
    """How a factor is binned and called.

    Args:
        title: name in a table or figure.
        levels: names of its bins, from low to high.
        is_count: natural categories (edges in ``count_edges``) instead of quantiles.
        unit: unit of its values, empty for none.
    """

    title: str
    levels: tuple[str, ...] = _THREE
    is_count: bool = False
    unit: str = ""


_DARK, _CLEAN, _SHARP = (
    ("Dark", "Neutral", "Bright"),
    ("Clean", "Moderate", "Cluttered"),
    ("Blurred", "Medium", "Sharp"),
)
#: Lower ends of the natural categories of a count: 0 (only where it occurs), 1, 2-3, 4 and more.
COUNT_EDGES, COUNT_LEVELS = (1.0, 2.0, 4.0), ("0", "1", "2-3", "4+")
#: Known factors; any other numeric column is binned in three, Low/Medium/High.
FACTORS: dict[str, Factor] = {
    "rel_size": Factor("relative size", ("Very small", "Small", "Medium", "Large")),
    "brightness": Factor("brightness", _DARK, unit="gray level"),
    "brightness_global": Factor("global brightness", _DARK, unit="gray level"),
    "brightness_local": Factor("local brightness", _DARK, unit="gray level"),
    "contrast": Factor("contrast", unit="gray level"),
    "contrast_global": Factor("global contrast", unit="gray level"),
    "contrast_local": Factor("local contrast", unit="gray level"),
    "blur": Factor("blur / sharpness", _SHARP, unit="variance of the Laplacian"),
    "blur_local": Factor("local blur / sharpness", _SHARP, unit="variance of the Laplacian"),
    "clutter": Factor("clutter", _CLEAN, unit="share of edge pixels"),
    "clutter_background": Factor("background clutter", _CLEAN, unit="share of edge pixels"),
    "clutter_local": Factor("local clutter", _CLEAN, unit="share of edge pixels"),
    "crowding": Factor("crowding", COUNT_LEVELS, is_count=True, unit="birds in the frame"),
    "border_px": Factor("distance to the border", ("Near", "Middle", "Far"), unit="px"),
    "occlusion": Factor("occlusion"),
}
#: Column of the table ``factors`` that stands for each of the six names of the joint model.
DEFAULT_FACTORS = ("rel_size", "brightness", "contrast", "clutter", "blur", "crowding")


@dataclass(frozen=True)
class Preset:
    """Quantiles of factors with three and with four bins, and where a value on an edge goes."""

    thirds: tuple[float, ...]
    quarters: tuple[float, ...] = (0.25, 0.5, 0.75)
    ties: Ties = "upper"


PRESETS: dict[str, Preset] = {"default": Preset((1 / 3, 2 / 3)), "bluebird": Preset((0.33, 0.66))}


@dataclass(frozen=True)
class Bins:
    """The bins of one factor.

    Args:
        factor: name of the factor.
        levels: names of the bins, from low to high; those that hold nothing are kept.
        lo, hi: ends of each bin; ``None`` where it has no end. Ties ``upper``: [lo, hi), ties ``lower``: (lo, hi].
            Counts are always [lo, hi).
        codes: int64, the bin of each bird, -1 where the factor is unknown.
        quantiles: those the edges stand for; empty for counts.
        ties: where a value on an edge went.
        varies: whether there is anything to compare.
        note: what a reader should know (merged bins, no variation), or ``None``.
    """

    factor: str
    levels: tuple[str, ...]
    lo: tuple[float | None, ...]
    hi: tuple[float | None, ...]
    codes: npt.NDArray[np.int64]
    quantiles: tuple[float, ...] = ()
    ties: Ties = "upper"
    varies: bool = True
    note: str | None = None

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges between the bins, rising."""
        return tuple(e for e in self.lo[1:] if e is not None)

    def indicators(self) -> npt.NDArray[np.bool_]:
        """Which bird is in which bin, bool (n birds, n levels)."""
        return self.codes[:, None] == np.arange(len(self.levels))


def factor_of(name: str) -> Factor:
    """How a factor is binned and called; a name birdlab does not know is binned in three."""
    return FACTORS.get(name, Factor(name.replace("_", " ")))


def shown_level(factor: str, level: str) -> str:
    """A bin's name as the paper prints it.

    >>> shown_level("crowding", "2-3"), shown_level("blur", "Sharp")
    ('2–3 objects', 'Sharp')
    """
    if not factor_of(factor).is_count or level in (MISSING, NO_VARIATION):
        return level
    return f"{level.replace('-', '–')} {'object' if level == '1' else 'objects'}"


def quantile_edges(values: npt.ArrayLike, quantiles: Sequence[float]) -> npt.NDArray[np.float64]:
    """Edges at these quantiles of the values that are known, by linear interpolation (numpy's default, Hyndman-Fan 7).

    Args:
        values: numbers; NaN is unknown.
        quantiles: shares in (0, 1), rising.

    Returns:
        float64, one edge per quantile; they may coincide. Empty where no value is known.

    >>> quantile_edges([1.0, 2.0, 3.0, 4.0, 5.0], [0.25, 0.5]).tolist()
    [2.0, 3.0]
    """
    values = np.asarray(values, dtype=np.float64)
    known = values[~np.isnan(values)]
    return np.quantile(known, quantiles, method="linear") if len(known) else np.empty(0)


def assign(values: npt.ArrayLike, edges: Sequence[float], *, ties: Ties = "upper") -> npt.NDArray[np.int64]:
    """Bin of each value: the number of edges below it; a value on an edge goes to the upper or the lower bin.

    Args:
        values: numbers; NaN is unknown.
        edges: rising.
        ties: ``upper`` (``x >= edge``) or ``lower`` (``x > edge``).

    Returns:
        int64 codes from 0; -1 for NaN.

    >>> assign([1, 2, 3, float("nan")], [2]).tolist(), assign([1, 2, 3], [2], ties="lower").tolist()
    ([0, 1, 1, -1], [0, 0, 1])
    """
    values = np.asarray(values, dtype=np.float64)
    codes = np.searchsorted(np.asarray(edges, dtype=np.float64), values, side="right" if ties == "upper" else "left")
    return np.where(np.isnan(values), -1, codes).astype(np.int64)


def bin_factor(
    values: npt.ArrayLike | pl.Series,
    factor: str,
    *,
    preset: str | Preset = "default",
    ties: Ties | None = None,
    quantiles: Sequence[float] | None = None,
) -> Bins:
    """Bin one factor of the labelled birds.

    Args:
        values: one number per labelled bird; null or NaN is unknown.
        factor: its name; decides the names of the bins and whether it is a count (see :data:`FACTORS`).
        preset: ``default`` (1/3, 2/3), ``bluebird`` (.33, .66), both with quartiles for ``rel_size``, or your own.
        ties: where a value on an edge goes, instead of the preset's rule.
        quantiles: shares in (0, 1), instead of the preset's; the names are then those of the factor, or numbers.

    Returns:
        The bins. One distinct value, or all edges on one value, is "no variation": one level that holds every bird.
        Edges that coincide are one edge: the bins on both sides of it are merged, renamed ("Small + Medium"), and
        ``note`` says so. A bin may be empty and is kept, with its name.

    Raises:
        ParameterError: unknown preset or tie rule, or quantiles that do not rise within (0, 1).
        DataError: a value is infinite.

    Conventions: Western Bluebird, §6.2.

    >>> bin_factor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "brightness").codes.tolist()
    [0, 0, 1, 1, 2, 2]
    >>> bin_factor([5.0, 5.0, 5.0], "blur").note
    'no variation: every value is 5'
    """
    chosen, rule = _preset(preset), ties
    rule = rule or chosen.ties
    if rule not in ("upper", "lower"):
        raise ParameterError(f"ties is upper or lower, not {rule!r}")
    numbers = _numbers(values, factor)
    known = numbers[~np.isnan(numbers)]
    distinct = np.unique(known)
    how = factor_of(factor)
    if not len(distinct):
        return Bins(factor, (), (), (), assign(numbers, []), (), rule, False, "no bird has a value")
    if len(distinct) == 1 and not how.is_count:
        return _flat(factor, numbers, rule, f"no variation: every value is {distinct[0]:g}")
    if how.is_count and quantiles is None:
        return _counts(factor, numbers, distinct, rule)
    shares = _shares(quantiles, how, chosen)
    levels = how.levels if len(how.levels) == len(shares) + 1 else tuple(f"{i + 1}" for i in range(len(shares) + 1))
    edges = quantile_edges(numbers, shares)
    names, kept, note = _merge(levels, edges, rule)
    if len(kept) == 1 and len(edges) > 1:
        return _flat(factor, numbers, rule, f"no variation: all edges fall on {kept[0]:g}")
    return Bins(factor, names, (None, *kept), (*kept, None), assign(numbers, kept, ties=rule), shares, rule, True, note)


def bin_instances(
    birds: pl.DataFrame,
    factors: Sequence[str],
    *,
    preset: str | Preset = "default",
    ties: Ties | None = None,
) -> dict[str, Bins]:
    """Bin several factors of the same birds; see :func:`bin_factor`.

    Args:
        birds: one row per labelled bird with the factors as columns.
        factors: names of columns.

    Raises:
        DataError: a column is missing or holds text.
    """
    problems = []
    for name in factors:
        if name not in birds.columns:
            problems.append(Problem("missing_column", "no such column", "a number per bird", key=name))
        elif not (birds.schema[name].is_numeric() or birds.schema[name] in (pl.Null, pl.Boolean)):
            problems.append(Problem("wrong_type", str(birds.schema[name]), "numbers", key=name))
    if problems:
        raise DataError(problems)
    return {name: bin_factor(birds[name], name, preset=preset, ties=ties) for name in factors}


def _numbers(values: npt.ArrayLike | pl.Series, factor: str) -> npt.NDArray[np.float64]:
    if isinstance(values, pl.Series):
        values = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    numbers = np.asarray(values, dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        found = f"an infinite value ({len(infinite)} of {len(numbers)})"
        raise DataError(
            Problem("infinite", found, "a finite number or nothing", record=f"row {infinite[0]}", key=factor)
        )
    return numbers


def _preset(preset: str | Preset) -> Preset:
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise ParameterError(f"no bin preset is called {preset!r}: there are {', '.join(PRESETS)}")
    return PRESETS[preset]


def _shares(quantiles: Sequence[float] | None, how: Factor, preset: Preset) -> tuple[float, ...]:
    given = quantiles if quantiles is not None else preset.quarters if len(how.levels) == 4 else preset.thirds
    shares = tuple(float(q) for q in given)
    if (
        not shares
        or any(not 0 < q < 1 for q in shares)
        or any(a >= b for a, b in zip(shares, shares[1:], strict=False))
    ):
        raise ParameterError(f"quantiles must rise within (0, 1), not {list(shares)}")
    return shares


def _flat(factor: str, numbers: npt.NDArray[np.float64], ties: Ties, note: str) -> Bins:
    return Bins(factor, (NO_VARIATION,), (None,), (None,), assign(numbers, []), (), ties, False, note)


def _counts(factor: str, numbers: npt.NDArray[np.float64], distinct: npt.NDArray[np.float64], ties: Ties) -> Bins:
    codes, names = assign(numbers, COUNT_EDGES), COUNT_LEVELS
    lo: tuple[float | None, ...] = (None, *COUNT_EDGES)
    hi: tuple[float | None, ...] = (*COUNT_EDGES, None)
    if distinct[0] >= COUNT_EDGES[0]:
        codes, names, lo, hi = np.where(codes > 0, codes - 1, codes), names[1:], lo[1:], hi[1:]
    notes = []
    if len(distinct) == 1:
        notes.append(f"no variation: every value is {distinct[0]:g}")
    if np.any(distinct != np.floor(distinct)):
        notes.append("some values are no whole numbers")
    varies = len(np.unique(codes[codes >= 0])) > 1
    if len(distinct) > 1 and not varies:
        notes.append("no variation: every bird is in the same category")
    return Bins(factor, names, lo, hi, codes, (), ties, varies, "; ".join(notes) or None)


def _merge(
    levels: tuple[str, ...], edges: npt.NDArray[np.float64], ties: Ties
) -> tuple[tuple[str, ...], tuple[float, ...], str | None]:
    """Names and edges when edges that coincide are one; the bins that vanish go where their values went."""
    groups: list[list[str]] = [[levels[0]]]
    kept: list[float] = []
    for edge, name in zip(edges.tolist(), levels[1:], strict=True):
        if kept and edge == kept[-1]:
            if ties == "upper":
                groups[-1].append(name)
            else:  # (lo, lo] between equal edges: its values went below the edge
                groups[-2].append(groups[-1][0])
                groups[-1] = [name]
        else:
            kept.append(edge)
            groups.append([name])
    names = tuple(" + ".join(group) for group in groups)
    if len(kept) == len(edges):
        return names, tuple(kept), None
    twice = ", ".join(f"{edge:g}" for edge in kept if np.sum(edges == edge) > 1)
    merged = ", ".join(name for name in names if " + " in name)
    return names, tuple(kept), f"several edges fall on {twice}: bins merged ({merged})"
