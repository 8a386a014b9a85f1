"""The common table of the joint model: which birds and which factors it is fitted to, and in what units.

Everything here is the same for all models: rows are dropped for all of them or for none, and z-scores are taken once,
with the population's standard deviation (ddof 0) over the birds that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from birdlab.difficulty.logit import Codes, Floats, Sample
from birdlab.errors import DataError, ParameterError, Problem

#: The factors of Western Bluebird, §6.3, in the order of its Table 10.
FACTORS = ("rel_size", "brightness", "contrast", "clutter", "blur", "crowding")
#: Columns of the table ``factors`` that stand for them.
FACTOR_SETS: dict[str, dict[str, str]] = {
    "bluebird-local": {
        "rel_size": "rel_size",
        "brightness": "brightness_local",
        "contrast": "contrast_local",
        "clutter": "clutter_local",
        "blur": "blur_local",
        "crowding": "crowding",
    },
    "bluebird-global": {
        "rel_size": "rel_size",
        "brightness": "brightness_global",
        "contrast": "contrast_global",
        "clutter": "clutter_background",
        "blur": "blur_local",
        "crowding": "crowding",
    },
}
#: Whole frame and bird crop at once: only where they can be told apart.
BOTH = "both"
FACTOR_SETS[BOTH] = {
    name: name
    for name in (
        *("rel_size", "brightness_global", "brightness_local", "contrast_global", "contrast_local"),
        *("clutter_background", "clutter_local", "blur_local", "crowding"),
    )
}
DEFAULT_FACTOR_SET = "bluebird-local"
#: What is left of a column beside others, as a share of its length, below which it is a combination of them.
_ALIASED = 1e-7
_KEYS = ("instance", "session", "frame", "recovered")


@dataclass(frozen=True)
class Design:
    """The birds and factors that every model of the study is fitted to.

    Args:
        birds: one row per bird that is used, sorted by session: instance, session, frame, factors as given.
        outcomes: 1.0 recovered, 0.0 missed, for each model, (n,) in the order of ``birds``.
        factors: all factors that were asked for.
        used: those that can be fitted; z has their columns.
        excluded: why the others cannot: (status ``constant``, ``aliased`` or ``not_fitted``, reason).
        z: z-scores, (n, p).
        mean, sd, within_sd: per factor with values: mean, SD, SD within sessions (all ddof 0), in the factor's unit.
        session: codes of the sessions, (n,); ``sessions`` their names, sorted, the first is the reference.
        frame: codes of the frames, (n,).
        n_total: birds given; ``missing`` counts those without a value per column (outcome included).
    """

    birds: pl.DataFrame
    outcomes: dict[str, Floats]
    factors: tuple[str, ...]
    used: tuple[str, ...]
    excluded: dict[str, tuple[str, str]]
    z: Floats
    mean: dict[str, float]
    sd: dict[str, float]
    within_sd: dict[str, float]
    session: Codes
    sessions: tuple[str, ...]
    frame: Codes
    n_total: int
    missing: dict[str, int]

    @property
    def n(self) -> int:
        """Birds used."""
        return self.birds.height

    def sample(self, model: str) -> Sample:
        """What is fitted for one model."""
        return Sample(self.z, self.outcomes[model], self.session)


def select_factors(
    factors: pl.DataFrame, factor_set: str = DEFAULT_FACTOR_SET, *, allow_collinear: bool = False
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The columns of a factor set under the names of the joint model.

    Args:
        factors: table ``factors`` (columns such as ``brightness_local``), or table ``instances``.
        factor_set: ``bluebird-local`` (measured on the bird's box, the default), ``bluebird-global`` (on the frame), or
            ``both``.
        allow_collinear: take ``both`` even if the factors can hardly be told apart.

    Returns:
        The frame with the set's columns renamed (the other measured columns left out), and the names in order.

    Raises:
        ParameterError: no set has that name; or ``both`` with a variance inflation factor of 10 or more.
        DataError: a column is missing.
    """
    if factor_set not in FACTOR_SETS:
        raise ParameterError(f"no factor set is called {factor_set!r}: there are {', '.join(FACTOR_SETS)}")
    columns = FACTOR_SETS[factor_set]
    problems = [
        Problem("missing_column", "no such column", "a factor of each bird", key=column)
        for column in columns.values()
        if column not in factors.columns
    ]
    if problems:
        raise DataError(problems)
    measured = {column for known in FACTOR_SETS.values() for column in known.values()}
    others = [column for column in factors.columns if column not in measured and column not in columns]
    chosen = factors.select(*others, *(pl.col(column).alias(name) for name, column in columns.items()))
    if factor_set == BOTH and not allow_collinear:
        _refuse_collinear(chosen, tuple(columns))
    return chosen, tuple(columns)


def _refuse_collinear(frame: pl.DataFrame, names: tuple[str, ...]) -> None:
    from birdlab.difficulty.checks import TOO_COLLINEAR, inflation

    session = next((column for column in ("session", "video_id") if column in frame.columns), None)
    complete = frame.drop_nulls(list(names))
    values = complete.select(names).to_numpy().astype(np.float64)
    codes = _codes(complete, session) if session else np.zeros(len(values), dtype=np.int64)
    vif = inflation(values, codes)
    bad = [f"{name} ({'no end' if v is None else f'{v:.0f}'})" for name, v in zip(names, vif, strict=True)]
    bad = [text for text, v in zip(bad, vif, strict=True) if v is None or v >= TOO_COLLINEAR]
    if bad:
        raise ParameterError(
            f"whole-frame and local factors cannot be told apart here, variance inflation of 10 or more: "
            f"{', '.join(bad)}. Choose bluebird-local or bluebird-global, or set allow_collinear"
        )


def common_design(instances: pl.DataFrame, factors: Sequence[str] = FACTORS) -> Design:
    """The common table of all models.

    Args:
        instances: one row per labelled bird (and model): ``instance``, ``session``, ``frame``, the factors, ``recovered``
            (true/false or 1/0, null where the bird was not judged) and, with several models, ``model``.
        factors: columns that the model has.

    Returns:
        The design. A bird without a value of some factor, or not judged for some model, is dropped for all models and
        counted; a factor that is unknown for every bird, has one value, or is a combination of earlier ones and of the
        sessions, is excluded with its reason.

    Raises:
        DataError: a column is missing, an outcome is not 0 or 1, or a bird comes twice.
    """
    birds, outcomes, missing = _birds(instances, tuple(factors))
    n_total = birds.height
    unknown = [f for f in factors if birds[f].null_count() == n_total]
    needed = [f for f in factors if f not in unknown]
    keep = birds.select(pl.all_horizontal(pl.col([*needed, *outcomes]).is_not_null())).to_series()
    birds = birds.filter(keep).sort("session", maintain_order=True)
    sessions = tuple(sorted(birds["session"].unique().to_list()))
    session = _codes(birds, "session")
    values = birds.select(needed).to_numpy().astype(np.float64).reshape(birds.height, len(needed))
    mean, sd, within = _spread(values, session)
    excluded = {f: ("not_fitted", "unknown for every bird") for f in unknown}
    excluded |= {f: ("constant", "1 distinct value") for f, s in zip(needed, sd, strict=True) if not s > 0}
    varying = [i for i, f in enumerate(needed) if f not in excluded]
    z = (values[:, varying] - mean[varying]) / sd[varying]
    names = [needed[i] for i in varying]
    combined = aliased(z, session, names)
    excluded |= {f: ("aliased", why) for f, why in combined.items()}
    kept = [i for i, f in enumerate(names) if f not in combined]
    return Design(
        birds=birds.drop(list(outcomes)),
        outcomes={name.removeprefix(_OUTCOME): birds[name].to_numpy().astype(np.float64) for name in outcomes},
        factors=tuple(factors),
        used=tuple(names[i] for i in kept),
        excluded=excluded,
        z=np.ascontiguousarray(z[:, kept]),
        mean=dict(zip(needed, mean.tolist(), strict=True)),
        sd=dict(zip(needed, sd.tolist(), strict=True)),
        within_sd=dict(zip(needed, within.tolist(), strict=True)),
        session=session,
        sessions=sessions,
        frame=_codes(birds, "session", "frame"),
        n_total=n_total,
        missing=missing,
    )


def aliased(z: Floats, session: Codes, names: Sequence[str]) -> dict[str, str]:
    """Factors that are exact combinations of earlier ones and of the sessions, with the reason.

    Columns are taken in order, as in a QR decomposition without pivoting: the later one of two is named.

    >>> z = np.array([[1.0, 2.0], [2.0, 4.0], [4.0, 8.0]])
    >>> aliased(z, np.zeros(3, dtype=np.int64), ["brightness", "contrast"])
    {'contrast': 'an exact combination of brightness'}
    """
    centred = within_deviation(z, session)
    basis: list[Floats] = []
    kept: list[int] = []
    found = {}
    for j, name in enumerate(names):
        rest = centred[:, j]
        for _ in range(2):  # twice is enough against rounding
            for direction in basis:
                rest = rest - direction * (direction @ rest)
        length = float(np.linalg.norm(rest))
        if length > _ALIASED * float(np.linalg.norm(z[:, j] - z[:, j].mean())):
            basis.append(rest / length)
            kept.append(j)
        elif np.linalg.norm(centred[:, j]) <= _ALIASED * float(np.linalg.norm(z[:, j] - z[:, j].mean())):
            found[name] = "varies only between sessions: cannot be told from the sessions themselves"
        else:
            weights = np.linalg.lstsq(centred[:, kept], centred[:, j], rcond=None)[0]
            with_whom = [names[i] for i, weight in zip(kept, weights, strict=True) if abs(weight) > 1e-6]
            found[name] = f"an exact combination of {', '.join(with_whom)}"
    return found


def within_deviation(values: Floats, session: Codes) -> Floats:
    """Values less the mean of their session, (n, p)."""
    if not len(values):
        return values
    n = np.bincount(session)
    means = np.array([np.bincount(session, column) / n for column in values.T]).reshape(values.shape[1], len(n))
    return values - means.T[session]


def _spread(values: Floats, session: Codes) -> tuple[Floats, Floats, Floats]:
    """Mean, SD and SD within sessions of each column; an SD that is only rounding is 0."""
    if not len(values):
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing, nothing
    mean = values.mean(axis=0)
    sd = np.where(values.max(axis=0) == values.min(axis=0), 0.0, values.std(axis=0))
    within = np.sqrt((within_deviation(values, session) ** 2).mean(axis=0))
    return mean, sd, within


def _codes(birds: pl.DataFrame, *columns: str) -> Codes:
    keys = birds.select(columns).unique().sort(columns).with_row_index("code")
    return birds.join(keys, on=columns, how="left", maintain_order="left")["code"].to_numpy().astype(np.int64)


_OUTCOME = "recovered:"


def _birds(instances: pl.DataFrame, factors: tuple[str, ...]) -> tuple[pl.DataFrame, list[str], dict[str, int]]:
    """One row per bird with one outcome column per model; counts of missing values per column."""
    absent = [c for c in (*_KEYS, *factors) if c not in instances.columns]
    if absent:
        raise DataError(
            [Problem("missing_column", "no such column", "a column of the instances", key=c) for c in absent]
        )
    named = instances if "model" in instances.columns else instances.with_columns(pl.lit("").alias("model"))
    named = named.with_columns(_outcome(named["recovered"]), pl.col("session", "frame").cast(pl.String))
    twice = named.filter(pl.struct("model", "instance").is_duplicated())
    if twice.height:
        found = f"{twice['instance'][0]} twice"
        raise DataError(Problem("duplicate_instance", found, "every bird once per model", key="instance"))
    # One model without a name where there is no column; a column without rows is no model at all.
    models = named["model"].unique(maintain_order=True).to_list() if "model" in instances.columns else [""]
    birds = named.unique("instance", keep="first", maintain_order=True).select("instance", "session", "frame", *factors)
    birds = birds.with_columns(pl.col(f).cast(pl.Float64).fill_nan(None) for f in factors)
    for model in models:
        mine = named.filter(model=model).select("instance", pl.col("recovered").alias(_OUTCOME + model))
        birds = birds.join(mine, on="instance", how="left", maintain_order="left")
    outcomes = [_OUTCOME + model for model in models]
    judged = birds.select(pl.all_horizontal(pl.col(outcomes).is_not_null())).to_series()
    missing = {f: birds[f].null_count() for f in factors} | {"recovered": int((~judged).sum())}
    return birds, outcomes, {column: n for column, n in missing.items() if n}


def _outcome(recovered: pl.Series) -> pl.Series:
    numbers = recovered.cast(pl.Float64).fill_nan(None)
    wrong = numbers.drop_nulls().filter(~numbers.drop_nulls().is_in([0.0, 1.0]))
    if len(wrong):
        raise DataError(Problem("not_binary", f"{wrong[0]:g}", "0 (missed) or 1 (recovered)", key="recovered"))
    return numbers.alias("recovered")
