"""Events: where a falling threshold changes what is said about an image, and what that does to the two averages.

Every convention of the accuracy-information curve is one way to make events; the curve, and its intervals, need
nothing else (:func:`birdlab.abstention.curves.ig_curve`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from birdlab.abstention.conventions import Conventions
from birdlab.abstention.nodes import DEFAULT_RANKS, Nodes, nodes
from birdlab.errors import DataError, Problem

#: Breakpoints of DARTS that agree to this many digits are one: they are quotients, and equal ones round differently.
DIGITS = 12


@dataclass(frozen=True)
class Events:
    """Changes of what is said about n images while a threshold falls; equal scores happen together.

    Args:
        score: threshold at which the event happens, (E,) float64, falling; +inf before every threshold.
        item: image, (E,) int64 in 0..n-1.
        d_info: change of the image's information, (E,); it starts at 0 (the root).
        d_right: change of the image's correctness, (E,); it starts at 1 (the root is right).
        n: images counted, those without any event included.
        rows: their rows in the columns, (n,).
        n_ua: unanswerable images among them.
        method: the conventions, as printed beside the number.
    """

    score: np.ndarray
    item: np.ndarray
    d_info: np.ndarray
    d_right: np.ndarray
    n: int
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_ua: int = 0
    method: str = ""


def ig_events(
    columns: pl.DataFrame, conventions: Conventions | None = None, *, ranks: Sequence[str] = DEFAULT_RANKS
) -> Events:
    """Events of the accuracy-information curve of one model.

    Args:
        columns: per-image columns of one model and variant, (N rows). A null ``max_species`` or ``max_genus`` is a
            name never given: no event.
        conventions: ``info``, ``path``, ``decision`` and ``ua`` are used; ``None`` for the defaults.
        ranks: coarse to fine, with ``genus`` and ``species`` last; an extra rank reads ``max_family``,
            ``family_right`` and has one more event.

    Returns:
        Events. ``threshold``: the finest node whose probability reaches t is said. ``darts``: the node with the
        largest (information + lambda) x probability is said, lambda from infinity down to 0 (``darts_all``: on to
        where every image has its species); on a tie the finer one. A node that is never said has no event: a genus
        of one species goes from root to species at once.

    Raises:
        DataError: several models in the columns, or the columns lack what the conventions need.
        ParameterError: see :func:`birdlab.abstention.nodes.nodes`.

    Deng, Krause, Berg and Fei-Fei (2012), §3-4 (DARTS), with the exact breakpoints in place of a bisection.

    >>> table = pl.DataFrame({"genus": ["A"], "is_answerable": [True], "max_genus": [0.9], "genus_right": [True]})
    >>> table = table.with_columns(max_species=pl.lit(0.5), species_right=pl.lit(False))
    >>> events = ig_events(table)
    >>> events.score.tolist(), events.d_info.tolist(), events.d_right.tolist()
    ([0.9, 0.5], [0.5, 0.5], [0.0, -1.0])
    """
    conventions = conventions or Conventions()
    one_model(columns)
    rows = np.arange(columns.height)
    if conventions.ua == "exclude" and "is_answerable" in columns.columns:
        rows = rows[columns["is_answerable"].to_numpy()]
        columns = columns.filter("is_answerable")
    found = nodes(columns, conventions, ranks=ranks)
    if conventions.decision == "threshold":
        parts = _threshold_events(found)
    else:
        parts = _darts_events(found, lowest=0.0 if conventions.decision == "darts" else -np.inf)
    n_ua = int((~columns["is_answerable"]).sum())
    return _events(parts, rows=rows, n_ua=n_ua, method=ig_method(conventions, ranks))


def ig_method(conventions: Conventions, ranks: Sequence[str] = DEFAULT_RANKS) -> str:
    """The choices behind the area, as the ``method`` of its row; ranks where they are not the usual two.

    >>> ig_method(Conventions(), ("family", "genus", "species"))
    'info=depth path=independent decision=threshold ua=exclude ranks=family+genus+species'
    """
    return conventions.label("ig") + ("" if tuple(ranks) == DEFAULT_RANKS else f" ranks={'+'.join(ranks)}")


def one_model(columns: pl.DataFrame) -> None:
    """Refuses columns of several models or variants, whose images would be counted several times."""
    for key in ("model", "variant"):
        if key in columns.columns and columns[key].n_unique() > 1:
            names = ", ".join(repr(v) for v in columns[key].unique().sort().head(5).to_list())
            expected = f"the rows of one {key}"
            raise DataError(Problem("several_models", names, expected, "filter the columns first", key=key))


_Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # score, item, d_info, d_right


def _threshold_events(found: Nodes) -> list[_Part]:
    """The finest node that reaches t: a node is said only where no finer one has reached it as well."""
    p = np.where(np.isnan(found.p), -np.inf, found.p)
    finer = np.full_like(p, -np.inf)
    for level in range(len(p) - 2, -1, -1):
        np.maximum(finer[level + 1], p[level + 1], out=finer[level])
    info, right = np.zeros(p.shape[1]), np.ones(p.shape[1])
    parts = []
    for level in range(len(p)):
        item = np.flatnonzero(p[level] > finer[level])
        parts.append(_step(p[level][item], item, found, np.full(len(item), level), (info, right)))
    return parts


def _darts_events(found: Nodes, *, lowest: float) -> list[_Part]:
    """The upper envelope of the lines lambda -> (information + lambda) x probability, from lambda = inf down."""
    # Sums in float32 exceed 1 by a little, or their own parts: then the line of a coarse node has no smaller slope.
    p = np.where(np.isnan(found.p), -np.inf, np.minimum(found.p, 1.0))
    p = np.maximum.accumulate(p[::-1])[::-1]
    p[np.isnan(found.p)] = np.nan
    n_levels, n = p.shape
    info, right = np.zeros(n), np.ones(n)
    slope, worth, level, score = np.ones(n), np.zeros(n), np.full(n, -1), np.full(n, np.inf)
    parts = []
    for _ in range(n_levels):
        best, chosen = np.full(n, -np.inf), np.full(n, -1)
        for other in range(n_levels):
            at = _crossing(slope, worth, p[other], found.info[other])
            take = (other > level) & (at >= best) & (at > -np.inf)
            best[take], chosen[take] = at[take], other
        score = np.minimum(score, _rounded(best))
        item = np.flatnonzero((chosen >= 0) & (score >= lowest))
        level = np.where(chosen >= 0, chosen, n_levels)
        slope[item], worth[item] = p[chosen[item], item], found.info[chosen[item], item]
        parts.append(_step(score[item], item, found, chosen[item], (info, right)))
    return parts


def _crossing(slope: np.ndarray, info: np.ndarray, p: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Lambda at and below which a finer node (p, other) is as good as the present one (slope, info); -inf for never."""
    with np.errstate(divide="ignore", invalid="ignore"):
        at = (other * p - info * slope) / (slope - p)
    parallel = slope == p
    at[parallel] = np.where(other[parallel] >= info[parallel], np.inf, -np.inf)
    return np.where(np.isnan(p), -np.inf, at)


def _rounded(score: np.ndarray) -> np.ndarray:
    """Scores to :data:`DIGITS` significant digits (and 0 where they are nothing but rounding)."""
    out = score.copy()
    some = np.isfinite(score) & (np.abs(score) > 10.0**-DIGITS)
    scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(score[some]))))
    out[some] = np.round(score[some] * scale) / scale
    out[np.isfinite(score) & ~some] = 0.0
    return out


def _step(
    score: np.ndarray, item: np.ndarray, found: Nodes, level: np.ndarray, state: tuple[np.ndarray, np.ndarray]
) -> _Part:
    """The events in which these items come to these nodes; updates the state (information, correctness)."""
    info, right = state
    new_info, new_right = found.counted[level, item], found.right[level, item]
    part = score, item, new_info - info[item], new_right - right[item]
    info[item], right[item] = new_info, new_right
    return part


def _events(parts: list[_Part], *, rows: np.ndarray, n_ua: int, method: str) -> Events:
    """The parts in order of falling score, without those that change nothing."""
    nothing = (np.empty(0),) * 4
    score, item, d_info, d_right = (np.concatenate(arrays) for arrays in zip(nothing, *parts, strict=True))
    changes = np.flatnonzero((d_info != 0) | (d_right != 0))
    order = changes[np.argsort(-score[changes], kind="stable")]
    return Events(
        score[order], item[order].astype(np.int64), d_info[order], d_right[order], len(rows), rows, n_ua, method
    )
