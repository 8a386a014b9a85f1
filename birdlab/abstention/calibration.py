"""Calibration: how accurate the answers are that a model keeps when it abstains on what it is least sure of.

Images of one uncertainty are kept or dropped together; inside such a group the accuracy is the one expected over all
orders (the group's mean correctness), so that the order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.abstention.conventions import Conventions, Rule
from birdlab.abstention.curves import Curve, check_uncertainty, group_ends, trapezoid
from birdlab.abstention.uncertainty import uncertainty, uncertainty_reason
from birdlab.errors import ParameterError, Problem

#: Abstention rates at which the accuracy of what is kept is reported, in tenths.
TENTHS = range(10)
NO_SPECIES = "an unanswerable photograph has no true species"
#: Which images, and the correctness of which rank.
SETS: dict[str, tuple[bool, str]] = {
    "A-species": (True, "species"),
    "A-genus": (True, "genus"),
    "UA-genus": (False, "genus"),
    "UA-species": (False, "species"),
}


@dataclass(frozen=True)
class CalibrationCurve(Curve):
    """Accuracy of the k least uncertain images, k = 1..n: x is the coverage k / n, y the accuracy, in rising u.

    Args:
        rule: how the area was taken.
        aurc: area under the risk-coverage curve, mean of 1 - accuracy over k, in [0, 1], 0 is perfect.
        augrc: area under the generalised one, trapezoid of (wrong among the k least uncertain) / n over coverage from
            0 to 1, in [0, 0.5], 0 is perfect.
        accuracy_at: accuracy by abstention rate 0, 0.1, ... 0.9; ``ceil((1 - rate) n)`` images are kept.
    """

    rule: str = "mean"
    aurc: float | None = None
    augrc: float | None = None
    accuracy_at: Mapping[float, float] = field(default_factory=dict)


def calibration(
    u: npt.ArrayLike, right: npt.ArrayLike, *, rule: Rule = "mean", n_ua: int = 0, method: str = ""
) -> CalibrationCurve:
    """Accuracy among the k least uncertain, for every k, and its area in [0, 1], 1 is perfect.

    Args:
        u: uncertainty, (n,); +inf for the strongest wish to abstain.
        right: correctness, (n,) bool or shares.
        rule: ``mean`` of acc(k) over k = 1..n; ``trapz`` over coverage 1/n..1, divided by its width; ``trapz_left``
            over coverage 0..1 with acc(1) down to 0.
        n_ua: unanswerable images among them, kept with the number.
        method: the conventions, kept with the number.

    Returns:
        CalibrationCurve. No image: no area, and the reason. One image: every rule gives its correctness.

    Raises:
        ParameterError: lengths differ, a u is NaN, or the rule is unknown.

    Nadeem, Zucker and Hanczar (2009) for the mean rule; Geifman and El-Yaniv (2017) for AURC; Traub et al. (2024),
    §4, for AUGRC.

    >>> curve = calibration([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0])
    >>> round(curve.area, 6), curve.augrc, curve.accuracy_at[0.5]
    (0.791667, 0.125, 1.0)
    """
    if rule not in get_args(Rule):
        raise ParameterError(Problem("bad_value", repr(rule), "one of " + ", ".join(get_args(Rule)), key="rule"))
    u, right = np.asarray(u, dtype=np.float64), np.asarray(right, dtype=np.float64)
    check_uncertainty(u, right, "right")
    n = len(u)
    if not n:
        return _undefined("no image is counted", rule, 0, method)
    order = np.argsort(u, kind="stable")
    u = u[order]
    kept = np.arange(1, n + 1)
    n_right = _expected_right(u, right[order])
    accuracy, coverage = n_right / kept, kept / n
    wrong = kept - n_right
    at = {tenth / 10: float(accuracy[-(-n * (10 - tenth) // 10) - 1]) for tenth in TENTHS}
    augrc = float((wrong.sum() - wrong[-1] / 2) / n**2)
    area, aurc = _area(coverage, accuracy, rule), float(np.mean(1.0 - accuracy))
    return CalibrationCurve(coverage, accuracy, u, area, None, n, n_ua, method, rule, aurc, augrc, at)


def calibrations(columns: pl.DataFrame, conventions: Conventions | None = None) -> dict[str, CalibrationCurve]:
    """The calibration curves of one model: A-species, A-genus, UA-genus, and UA-species, which is undefined.

    Args:
        columns: per-image columns of one model and variant, (N rows). A null correctness is wrong: nothing right was
            said.
        conventions: ``uncertainty``, ``nan`` and ``rule`` are used; ``None`` for the defaults.

    Returns:
        CalibrationCurve by name of :data:`SETS`; one that cannot be had has no area, and the reason.

    Raises:
        DataError: an uncertainty is undefined and ``nan="error"``.
    """
    conventions = conventions or Conventions()
    method = conventions.label("calibration")
    reason = uncertainty_reason(columns, conventions.uncertainty)
    u = None if reason else uncertainty(columns, conventions.uncertainty, nan=conventions.nan)
    answerable = columns["is_answerable"].to_numpy()
    curves = {}
    for name, (of_answerable, rank) in SETS.items():
        mine = answerable if of_answerable else ~answerable
        n = int(mine.sum())
        if u is None or name == "UA-species" or not n:
            kind = "answerable" if of_answerable else "unanswerable"
            why = NO_SPECIES if name == "UA-species" else reason or f"no {kind} photograph"
            curves[name] = _undefined(why, conventions.rule, n, method, n_ua=0 if of_answerable else n)
            continue
        right = columns[f"{rank}_right"].fill_null(False).to_numpy()
        n_ua = 0 if of_answerable else n
        curves[name] = calibration(u[mine], right[mine], rule=conventions.rule, n_ua=n_ua, method=method)
    return curves


def coverage_at_risk(curve: CalibrationCurve, risk: float) -> float | None:
    """Largest share of images that can be kept with at most this share of them wrong; ``None`` where no threshold does.

    Only sets that a threshold can keep are looked at: images of one uncertainty stay together.

    Args:
        curve: what :func:`calibration` returns (not thinned).
        risk: in [0, 1].

    Raises:
        ParameterError: the risk is outside [0, 1].

    >>> coverage_at_risk(calibration([0.05, 0.1, 0.15, 0.2, 0.25], [0, 1, 1, 1, 1]), 0.3)
    1.0
    """
    if not 0 <= risk <= 1:
        raise ParameterError(Problem("bad_value", str(risk), "a share in [0, 1]", key="risk"))
    ends = group_ends(curve.threshold)
    # 1 - 4/5 is a little more than 0.2.
    fine = ends[1.0 - curve.y[ends] <= risk + 1e-12]
    return float(curve.x[fine[-1]]) if len(fine) else None


def _expected_right(u: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Right answers expected among the k first, k = 1..n, over all orders of images with equal u (which is sorted)."""
    ends = group_ends(u)
    size = np.diff(ends, prepend=-1)
    total = np.cumsum(right)[ends]
    before = np.concatenate([[0.0], total[:-1]])
    group = np.repeat(np.arange(len(ends)), size)
    inside = np.arange(len(u)) - (ends - size)[group]
    return before[group] + inside * ((total - before) / size)[group]


def _area(coverage: np.ndarray, accuracy: np.ndarray, rule: Rule) -> float:
    if rule == "mean" or len(accuracy) == 1:
        return float(np.mean(accuracy))
    area = trapezoid(coverage, accuracy)
    if rule == "trapz_left":
        return area + float(coverage[0] * accuracy[0])
    return area / float(coverage[-1] - coverage[0])


def _undefined(reason: str, rule: Rule, n: int, method: str, *, n_ua: int = 0) -> CalibrationCurve:
    empty = np.empty(0)
    return CalibrationCurve(empty, empty, empty, None, reason, n, n_ua, method, rule)
