"""Exact curves over all distinct thresholds: UA against A, and accuracy against information gain.

Equal scores cross a threshold together, so no curve depends on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from birdlab.abstention.events import Events
from birdlab.errors import ParameterError, Problem


@dataclass(frozen=True)
class Curve:
    """A curve and its area.

    Args:
        x, y: points in the order in which the threshold falls, (P,); empty where the curve is undefined.
        threshold: threshold from which each point holds, (P,); +inf at a start that no threshold reaches.
        area: area under the curve, ``None`` where it is undefined, and then ``reason`` says why.
        reason: why there is no area.
        n: images counted.
        n_ua: unanswerable images among them.
        method: the conventions behind the number.
    """

    x: np.ndarray
    y: np.ndarray
    threshold: np.ndarray
    area: float | None
    reason: str | None
    n: int
    n_ua: int
    method: str


C = TypeVar("C", bound=Curve)


def ua_a(u: npt.ArrayLike, is_answerable: npt.ArrayLike, *, method: str = "") -> Curve:
    """How well uncertainty tells unanswerable photographs from answerable ones: in [0, 1], 0.5 is chance, 1 perfect.

    Args:
        u: uncertainty, (N,), any scale; +inf for the strongest wish to abstain.
        is_answerable: (N,) bool.
        method: the conventions, kept with the number.

    Returns:
        Curve with x the abstained share of A and y the abstained share of UA at every distinct u, from (0, 0) to
        (1, 1). The area is the share of pairs with u_UA > u_A, ties counted half (Mann-Whitney), from whole numbers.
        No UA or no A: no area, and the reason.

    Raises:
        ParameterError: lengths differ, or a u is NaN.

    RealBirdID (arXiv 2603.27033), UA/A; area as in Bamber (1975).

    >>> ua_a([0.1, 0.2, 0.8, 0.9], [True, True, False, False]).area
    1.0
    """
    u, answerable = np.asarray(u, dtype=np.float64), np.asarray(is_answerable, dtype=bool)
    check_uncertainty(u, answerable, "is_answerable")
    n, n_a = len(u), int(answerable.sum())
    n_ua = n - n_a
    reason = _one_kind(n_a, n_ua)
    if reason:
        return Curve(*_empty(), None, reason, n, n_ua, method)
    order = np.argsort(-u, kind="stable")
    ends = group_ends(u[order])
    abstained_a = np.cumsum(answerable[order])[ends]
    abstained_ua = ends + 1 - abstained_a
    # Twice the pairs won, in whole numbers: A kept after each group, and half of those in it.
    before = np.concatenate([[0], abstained_a[:-1]])
    won = int(np.sum(np.diff(abstained_ua, prepend=0) * (2 * n_a - before - abstained_a)))
    x, y = (np.concatenate([[0.0], k / m]) for k, m in ((abstained_a, n_a), (abstained_ua, n_ua)))
    threshold = np.concatenate([[np.inf], u[order][ends]])
    return Curve(x, y, threshold, won / (2 * n_a * n_ua), None, n, n_ua, method)


def ua_a_point(abstained: npt.ArrayLike, is_answerable: npt.ArrayLike) -> Curve:
    """UA/A of answers that only abstain or not: one point, area (1 + TPR - FPR) / 2 in [0, 1], 0.5 is chance.

    Args:
        abstained: (N,) bool.
        is_answerable: (N,) bool.

    Returns:
        Curve of one point, x = FPR (abstained share of A), y = TPR (abstained share of UA). No UA or no A: no area.

    Raises:
        ParameterError: lengths differ.

    >>> point = ua_a_point([True, False, False, False, True, False], [True] * 4 + [False] * 2)
    >>> point.x[0], point.y[0], point.area, point.method
    (np.float64(0.25), np.float64(0.5), 0.625, 'single point')
    """
    abstained, answerable = np.asarray(abstained, dtype=bool), np.asarray(is_answerable, dtype=bool)
    full = ua_a(abstained.astype(np.float64), answerable, method="single point")
    if full.area is None:
        return full
    point = np.mean(abstained[answerable], keepdims=True), np.mean(abstained[~answerable], keepdims=True)
    return replace(full, x=point[0], y=point[1], threshold=np.array([1.0]))


def ig_curve(events: Events) -> Curve:
    """Accuracy against information gain: mean correctness by mean information as the threshold falls; area in [0, 1].

    Args:
        events: see :func:`birdlab.abstention.events.ig_events`.

    Returns:
        Curve with x the mean information of what is said (right or wrong), y its mean correctness, from (0, 1) (the
        root for every image). Trapezoid from 0 to the largest x reached, nothing beyond: a model that says nothing
        has 0. y may rise again. No image counted: no area, and the reason.

    RealBirdID (arXiv 2603.27033), IG; the curve of Deng et al. (2012) with the information said on x.

    >>> score, item = np.array([0.9, 0.8, 0.6, 0.3]), np.array([0, 0, 1, 1])
    >>> curve = ig_curve(Events(score, item, np.full(4, 0.5), np.array([0.0, 0.0, 0.0, -1.0]), n=2))
    >>> curve.x.tolist(), curve.y.tolist(), curve.area
    ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 1.0, 1.0, 1.0, 0.5], 0.9375)
    """
    if events.n == 0:
        return Curve(*_empty(), None, "no image is counted", 0, events.n_ua, events.method)
    order = np.argsort(-events.score, kind="stable")
    score = events.score[order]
    ends = group_ends(score)
    x = np.concatenate([[0.0], np.cumsum(events.d_info[order])[ends] / events.n])
    y = np.concatenate([[1.0], 1.0 + np.cumsum(events.d_right[order])[ends] / events.n])
    threshold = np.concatenate([[np.inf], score[ends]])
    return Curve(x, y, threshold, trapezoid(x, y), None, events.n, events.n_ua, events.method)


def thin(curve: C, max_points: int) -> C:
    """The curve with at most ``max_points`` points, for drawing; the area stays that of all points.

    Args:
        curve: any curve.
        max_points: at least 4.

    Returns:
        The same curve where it is short enough; else both ends, and the lowest and the highest point of each of
        (max_points - 2) // 2 steps of x, so that no peak is lost.

    Raises:
        ParameterError: ``max_points`` is below 4.
    """
    if max_points < 4:
        raise ParameterError(Problem("bad_value", str(max_points), "at least 4", key="max_points"))
    n = len(curve.x)
    if n <= max_points:
        return curve
    steps = (max_points - 2) // 2
    width = float(curve.x.max() - curve.x.min()) or 1.0
    step = np.minimum((steps * (curve.x - curve.x.min()) / width).astype(np.int64), steps - 1)
    order = np.lexsort((curve.y, step))
    first = np.flatnonzero(np.diff(step[order], prepend=-1))
    last = np.append(first[1:] - 1, n - 1)
    keep = np.unique(np.concatenate([[0, n - 1], order[first], order[last]]))
    return replace(curve, x=curve.x[keep], y=curve.y[keep], threshold=curve.threshold[keep])


def trapezoid(x: np.ndarray, y: np.ndarray) -> float:
    """Area under the points by the trapezoid rule, 0 for one point."""
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def group_ends(ordered: np.ndarray) -> np.ndarray:
    """Positions of the last of each run of equal values.

    >>> group_ends(np.array([3.0, 2.0, 2.0, 1.0])).tolist()
    [0, 2, 3]
    """
    if not len(ordered):
        return np.empty(0, dtype=np.int64)
    return np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)


def check_uncertainty(u: np.ndarray, other: np.ndarray, name: str) -> None:
    """Refuses uncertainties that are not one number per image."""
    problems = []
    if u.ndim != 1 or u.shape != other.shape:
        problems.append(Problem("bad_shape", f"{u.shape} and {other.shape}", "two arrays of one length", key=name))
    elif np.isnan(u).any():
        first = int(np.flatnonzero(np.isnan(u))[0])
        remedy = 'make them with uncertainty(..., nan="abstain")'
        problems.append(Problem("nan", "NaN", "a number", remedy, record=f"u[{first}]", key="u"))
    if problems:
        raise ParameterError(problems)


def _one_kind(n_a: int, n_ua: int) -> str | None:
    if n_a and n_ua:
        return None
    if not n_a and not n_ua:
        return "no image is counted"
    return "no unanswerable photograph" if n_a else "no answerable photograph"


def _empty() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0), np.empty(0), np.empty(0)
