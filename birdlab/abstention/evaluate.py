"""Everything that one model's per-image columns say: areas and accuracies with intervals, chance and conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.abstention import quadratic, ratios
from birdlab.abstention.answer_columns import answer_uncertainty
from birdlab.abstention.calibration import calibration
from birdlab.abstention.chance import Level, chance
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import Curve, ig_curve, ua_a, ua_a_point
from birdlab.abstention.events import DEFAULT_RANKS, ig_events, ig_method
from birdlab.abstention.nodes import nodes_reason
from birdlab.abstention.resampling import Percentile, count_clusters, interval
from birdlab.abstention.topk import MISSING_LIMIT, missing_to
from birdlab.abstention.uncertainty import uncertainty, uncertainty_reason

AREAS = ("ua_a", "ig", "auc_a_species", "auc_a_genus", "auc_ua_genus")
#: accuracy -> (of answerable photographs, column, level of chance)
ACCURACIES: dict[str, tuple[bool, str, Level]] = {
    "a_species_accuracy": (True, "species_right", "species"),
    "a_genus_accuracy": (True, "genus_right", "genus"),
    "ua_genus_accuracy": (False, "genus_right", "genus"),
    "within_genus_accuracy": (True, "within_genus_right", "within_genus"),
}
_CALIBRATED = {
    "auc_a_species": "a_species_accuracy",
    "auc_a_genus": "a_genus_accuracy",
    "auc_ua_genus": "ua_genus_accuracy",
}
_NO = {True: "no answerable photograph", False: "no unanswerable photograph"}
SINGLE_POINT = "single point"


@dataclass(frozen=True)
class Number:
    """One measure of one model.

    Args:
        value: null where undefined, and then ``reason`` says why.
        interval: percentile interval over resampled clusters.
        n: photographs it rests on.
        chance: what guessing gives.
        method: the conventions behind it.
        reason: why it is null.
        n_clusters: clusters it rests on.
        drawn: value in every resample, (R,), NaN where there is none.
    """

    value: float | None
    interval: Percentile | None = None
    n: int = 0
    chance: float | None = None
    method: str = ""
    reason: str | None = None
    n_clusters: int | None = None
    drawn: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Evaluated:
    """All measures of one model (and variant), by name, and its curves."""

    model: str
    numbers: Mapping[str, Number]
    curves: Mapping[str, Curve] = field(default_factory=dict)


@dataclass(frozen=True)
class Draws:
    """What the intervals resample: cluster of each row (N,), how often each cluster is drawn (R, C)."""

    codes: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int32]

    @property
    def n_clusters(self) -> int:
        """Clusters that are drawn from."""
        return self.weights.shape[1]


def conventions_for(columns: pl.DataFrame, conventions: Conventions) -> Conventions:
    """The conventions with the uncertainty that a model can have: answers in words state one, or only abstain or not.

    Args:
        columns: per-image columns of one model.
        conventions: those asked for.
    """
    if not _speaks(columns):
        return conventions
    chosen = conventions.uncertainty if conventions.uncertainty == "binary" else answer_uncertainty(columns)
    return replace(conventions, uncertainty=chosen)


def _speaks(columns: pl.DataFrame) -> bool:
    """Whether these columns come from answers, which abstain or not."""
    return bool(columns["abstained"].is_not_null().any())


def _with_unparsed(method: str, columns: pl.DataFrame, used: Conventions) -> str:
    """A method with what becomes of answers that could not be read, where there are answers."""
    return f"{method} unparsed={used.unparsed}" if _speaks(columns) else method


def evaluate(
    columns: pl.DataFrame,
    conventions: Conventions,
    draws: Draws,
    *,
    ranks: Sequence[str] = DEFAULT_RANKS,
    refused: str | None = None,
) -> Evaluated:
    """Score one model.

    Args:
        columns: per-image columns of one model and variant, (N rows).
        conventions: the choices; those of a model that answers in words follow :func:`conventions_for`.
        draws: clusters of the same rows.
        ranks: of the information curve, coarse to fine; a model whose columns lack one has no IG, with the reason.
        refused: why areas over thresholds are not given (probabilities of which much is missing); accuracies stay.

    Returns:
        :class:`Evaluated`: the five areas (and IG if all unseen mass of a list spoke for, or against, its best genus),
        AURC and AUGRC of each calibration curve, four accuracies with chance, accuracy of what is kept at every tenth of
        declining (without an interval), and the share of answerable photographs whose species is not among the names the model has.
    """
    used = conventions_for(columns, conventions)
    answerable = columns["is_answerable"].to_numpy()
    model = columns["model"][0] if columns.height else ""
    numbers: dict[str, Number] = {}
    curves: dict[str, Curve] = {}
    why = refused or uncertainty_reason(columns, used.uncertainty)
    u = None if why else uncertainty(columns, used.uncertainty, nan=used.nan)
    numbers["ua_a"], curves["ua_a"] = _ua_a(columns, u, answerable, used, draws, why)
    numbers["ig"], curves["ig"] = _ig(columns, used, draws, refused, ranks)
    if not refused and _is_partial(columns):
        for side in ("for", "against"):
            numbers[f"ig_missing_{side}"] = _ig(missing_to(columns, side), used, draws, None, ranks)[0]
    for name, accuracy in _CALIBRATED.items():
        found, curve = _calibrated(columns, accuracy, u, used, draws, why)
        numbers |= {name: found[0], f"aurc_{name[4:]}": found[1], f"augrc_{name[4:]}": found[2]}
        curves[name] = curve
        kept = getattr(curve, "accuracy_at", {})
        for share, value in kept.items():
            about = {"n": curve.n, "method": f"declined={share:g}; {curve.method}"}
            numbers[f"{accuracy}_at_{round(100 * share):02d}"] = Number(value, **about)
    for name in ACCURACIES:
        numbers[name] = _accuracy(columns, name, draws)
    numbers["missing_species"] = _missing(columns, draws, answerable)
    return Evaluated(model, numbers, curves)


def _missing(columns: pl.DataFrame, draws: Draws, answerable: np.ndarray) -> Number:
    """Share of the answerable photographs whose species the model has no name for."""
    method = "true species not among the names"
    if columns.height and columns["is_missing_species"].is_null().all():
        return Number(None, method=method, reason="which names the model has is not known from lists of a few")
    missing = columns["is_missing_species"].fill_null(False).to_numpy()[answerable]
    return _mean(missing, draws, answerable, method=method, none=_NO[True])


def _is_partial(columns: pl.DataFrame) -> bool:
    """Whether these are lists of the most probable labels that leave more unseen than is allowed."""
    mean = columns["missing_mass"].drop_nulls().mean()
    return (
        "max_genus_hi" in columns.columns
        and columns["max_genus_hi"].is_not_null().any()
        and (mean or 0) > MISSING_LIMIT
    )


def _ua_a(
    columns: pl.DataFrame,
    u: np.ndarray | None,
    answerable: np.ndarray,
    used: Conventions,
    draws: Draws,
    why: str | None,
) -> tuple[Number, Curve]:
    method = _with_unparsed(used.label("ua_a"), columns, used)
    if u is None:
        return Number(None, n=len(answerable), chance=0.5, method=method, reason=why), _no_curve(
            why, len(answerable), method
        )
    if used.uncertainty == "binary":
        curve = ua_a_point(columns["abstained"].fill_null(False), answerable)
        method = f"{method}; {SINGLE_POINT}"
    else:
        curve = ua_a(u, answerable, method=method)
    if curve.area is None:
        return Number(None, n=curve.n, chance=0.5, method=method, reason=curve.reason), curve
    drawn = quadratic.ua_a_values(u, answerable, draws.codes, draws.weights)
    n_clusters = count_clusters(draws.codes, answerable, ~answerable)
    return _number(curve.area, drawn, n_clusters, n=curve.n, method=method, chance=0.5), curve


def _ig(
    columns: pl.DataFrame, used: Conventions, draws: Draws, refused: str | None, ranks: Sequence[str]
) -> tuple[Number, Curve]:
    method = _with_unparsed(ig_method(used, ranks), columns, used)
    counted = columns.filter("is_answerable") if used.ua == "exclude" else columns
    if why := refused or nodes_reason(counted, used, ranks=ranks):
        return Number(None, n=counted.height, method=method, reason=why), _no_curve(why, counted.height, method)
    events = ig_events(columns, used, ranks=ranks)
    curve = ig_curve(events)
    if curve.area is None:
        return Number(None, n=events.n, method=method, reason=curve.reason), curve
    drawn = quadratic.ig_values(events, draws.codes[events.rows], draws.weights)
    return _number(curve.area, drawn, count_clusters(draws.codes[events.rows]), n=events.n, method=method), curve


def _calibrated(
    columns: pl.DataFrame, accuracy: str, u: np.ndarray | None, used: Conventions, draws: Draws, why: str | None
) -> tuple[list[Number], Curve]:
    """Area of accuracy over coverage, AURC and AUGRC of one set of photographs, and the curve."""
    of_answerable, column, _ = ACCURACIES[accuracy]
    mine = columns["is_answerable"].to_numpy() == of_answerable
    method, n = _with_unparsed(used.label("calibration"), columns, used), int(mine.sum())
    why = why or (None if n else _NO[of_answerable])
    if why or u is None:
        return [Number(None, n=n, method=method, reason=why)] * 3, _no_curve(why, n, method)
    right = columns[column].fill_null(False).to_numpy()[mine]
    curve = calibration(u[mine], right, rule=used.rule, method=method)
    over = (u[mine], right, draws.codes[mine], draws.weights)
    areas: list[tuple[float | None, Callable[[], np.ndarray], str]] = [
        (curve.area, lambda: ratios.calibration_values(*over, rule=used.rule), method),
        (curve.aurc, lambda: ratios.aurc_values(*over), f"u={used.uncertainty}; mean risk"),
        (curve.augrc, lambda: quadratic.augrc_values(*over), f"u={used.uncertainty}"),
    ]
    numbers = [
        _number(value, draw(), count_clusters(draws.codes[mine]), n=n, method=text) for value, draw, text in areas
    ]
    return numbers, curve


def _accuracy(columns: pl.DataFrame, name: str, draws: Draws) -> Number:
    of_answerable, column, level = ACCURACIES[name]
    mine = columns["is_answerable"].to_numpy() == of_answerable
    none = _NO[of_answerable]
    if name == "within_genus_accuracy":
        several = columns["within_genus_n"].fill_null(0).to_numpy() > 1
        mine &= several & columns["within_genus_right"].is_not_null().to_numpy()
        none = "no species named for an answerable photograph of a genus with several"
    guess = chance(columns.filter(mine), level)
    right = columns[column].fill_null(False).to_numpy()[mine]
    method = "top-1" + ("; genera of several species" if name == "within_genus_accuracy" else "")
    return replace(_mean(right, draws, mine, method=method, none=none), chance=guess.value)


def _mean(x: np.ndarray, draws: Draws, mine: np.ndarray, *, method: str, none: str) -> Number:
    if not len(x):
        return Number(None, method=method, reason=none)
    drawn = ratios.mean_values(x, draws.codes[mine], draws.weights)
    return _number(float(np.mean(x)), drawn, count_clusters(draws.codes[mine]), n=len(x), method=method)


def _number(
    value: float | None, drawn: np.ndarray, n_clusters: int, *, n: int, method: str, chance: float | None = None
) -> Number:
    ends = interval(drawn, n_clusters=n_clusters)
    return Number(value, ends, n, chance, method, None, n_clusters, drawn)


def _no_curve(reason: str | None, n: int, method: str) -> Curve:
    nothing = np.empty(0)
    return Curve(nothing, nothing, nothing, None, reason, n, 0, method)
