"""From likelihoods to names: the posterior over a clip's candidates, and when no bird is named.

A wrong name is worse than none. No bird is named where two candidates fit equally, where a bird that is not on the
list is more likely, where the posterior is too low, or where no ring was found; the reason is always given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import logsumexp

from birdlab import schemas
from birdlab.individuals.rings.codes import Code, Palette, parse_codes
from birdlab.individuals.rings.likelihood import Evidence, Settings, log_likelihoods, temperatures

MATCHER = "birdlab"
#: Log posteriors nearer than this are equal: the rings cannot tell the birds apart.
TIE = 1e-9
#: Tied birds that a reason names.
_SHOWN = 4
_AT = ["gallery", "clip_id"]


@dataclass(frozen=True)
class Posterior:
    """How probable each candidate is.

    Args:
        birds: gallery, clip_id, individual_id, log_posterior; one row per candidate that has a code. Joint assignment
            adds ``is_assigned``.
        clips: gallery, clip_id, n_candidates (with those that have no code), log_unknown (log posterior of a bird that
            is not on the list), has_rings, n_with_rings; one row per clip and list.
    """

    birds: pl.DataFrame
    clips: pl.DataFrame


def posterior(evidence: Evidence, candidates: pl.DataFrame, *, settings: Settings | None = None) -> Posterior:
    """Posterior of each candidate: prior × likelihood, tempered, over their sum.

    The candidates share 1 - ``unknown_prior`` equally. The unknown bird has the mean likelihood over all codes of two
    rings per leg, from a few that stand for all (:func:`~birdlab.individuals.rings.free.leg_strata`). A bird with
    several codes (a clip without a date) has the mean of their likelihoods. Without a ring the prior is the posterior.

    Args:
        evidence: of :func:`~birdlab.individuals.rings.likelihood.log_likelihoods`; the names of its codes are those in
            ``candidates``.
        candidates: gallery, clip_id, individual_id, code. A bird whose code is null has none on that day and cannot be
            named; a row whose individual is null stands for an empty list.
        settings: dependence and unknown_prior are used.

    Returns:
        Posterior. A list without a bird that has a code: the unknown bird has all of it.

    >>> import numpy as np
    >>> one = Evidence(("c",), ("rg", "rw"), np.log([[8.0, 2.0]]), np.log([[2.0]]), np.ones(1), np.array([1]), np.array([0]))
    >>> birds = pl.DataFrame({"gallery": "all", "clip_id": "c", "individual_id": ["a", "b"], "code": ["rg", "rw"]})
    >>> p = posterior(one, birds, settings=Settings(unknown_prior=0.2))
    >>> p.birds["log_posterior"].exp().round(3).to_list(), p.clips["log_unknown"].exp().round(3).to_list()
    ([0.727, 0.182], [0.091])
    """
    settings = settings or Settings()
    power = temperatures(evidence.n_with_rings, settings.dependence)[:, None]
    lists, birds = _lists_and_birds(candidates, evidence, power)
    with np.errstate(divide="ignore"):
        log_u, log_known = np.log(settings.unknown_prior), np.log1p(-settings.unknown_prior)
    clip_row = _rows_of(lists["clip_id"], evidence.clip_ids)
    free = np.append(logsumexp(power * evidence.log_free, axis=1, b=evidence.free_share), 0.0)
    log_unknown = log_u + free[clip_row]
    value = birds["value"].to_numpy() + log_known - np.log(lists["n_coded"].to_numpy()[birds["list"].to_numpy()])
    total = _total(value, birds["list"].to_numpy(), log_unknown)
    has_rings = clip_row >= 0
    seen = np.append(evidence.n_with_rings, 0)[clip_row]
    with np.errstate(invalid="ignore"):
        unknown = np.where(lists["n_coded"].to_numpy() > 0, log_unknown - total, 0.0)
    return Posterior(
        birds.select(
            *_AT, "individual_id", pl.Series("log_posterior", value - total[birds["list"].to_numpy()], dtype=pl.Float64)
        ),
        lists.select(
            *_AT,
            "n_candidates",
            "n_coded",
            pl.Series("log_unknown", unknown, dtype=pl.Float64),
            pl.Series("has_rings", has_rings),
            pl.Series("n_with_rings", seen, dtype=pl.Int32),
        ),
    )


def calls(
    found: Posterior, clips: pl.DataFrame, *, assignment: str = "argmax", settings: Settings | None = None
) -> pl.DataFrame:
    """Name a bird for every clip and list, or say why not.

    Args:
        found: of :func:`posterior`, or of :func:`birdlab.individuals.rings.joint.assign_jointly` (with
            ``assignment="joint"``).
        clips: clip_id, n_frames.
        assignment: ``argmax`` or ``joint``: what is written into the column.
        settings: min_posterior is used.

    Returns:
        Table ``ring_calls``, in the order of ``found.clips``. ``best`` leads also where it is not named; without a ring
        nothing leads, all candidates tie and the score is null.
    """
    settings = settings or Settings()
    led = _leading(found.birds)
    rows = found.clips.join(led, on=_AT, how="left", maintain_order="left").join(
        clips.select("clip_id", pl.col("n_frames").cast(pl.Int32)), on="clip_id", how="left", maintain_order="left"
    )
    rows = rows.with_columns(
        pl.when("has_rings").then("score"),
        pl.when("has_rings").then("second"),
        pl.when("has_rings").then("n_tied").otherwise(pl.col("n_coded") - 1).clip(0).fill_null(0).alias("n_tied"),
        pl.when(pl.col("has_rings") & (pl.col("n_tied") == 0)).then("best").alias("best"),
    )
    if "is_left_over" not in rows.columns:
        rows = rows.with_columns(is_left_over=pl.lit(False))
    rows = rows.with_columns(_reason(settings.min_posterior).alias("reason")).with_columns(
        pl.when(pl.col("reason").is_null()).then("best").alias("individual_id"),
        pl.lit(MATCHER).alias("matcher"),
        pl.lit(assignment).alias("assignment"),
        pl.col("n_frames").fill_null(pl.col("n_with_rings")),
    )
    table = schemas.TABLES["ring_calls"]
    return table.validate(rows.select(*table.dtypes), source="calls of the matcher birdlab")


def match_birdlab(
    rings: pl.DataFrame,
    clips: pl.DataFrame,
    candidates: pl.DataFrame,
    *,
    palette: Palette,
    settings: Settings | None = None,
    together: pl.DataFrame | None = None,
    unseen: Sequence[str] = (),
    prior: Sequence[float] | None = None,
) -> tuple[pl.DataFrame, Posterior]:
    """Name the bird of every clip by its rings: each clip alone, and the birds of one frame together.

    Args:
        rings: table ``ring_colours``.
        clips: clip_id, n_frames.
        candidates: gallery, clip_id, individual_id, code; see :func:`posterior`.
        palette: colours that rings can have.
        settings: see :class:`~birdlab.individuals.rings.likelihood.Settings`.
        together: clip_id, other_id: pairs of clips that overlap in time in one video, so are of two birds; null: none.
        unseen: letters the colour forest never learned.
        prior: share of each colour among what it learned from.

    Returns:
        Table ``ring_calls`` (argmax and joint), and the posterior of each clip alone.

    Raises:
        DataError: a code that cannot be; it names the bird, the code and the letter.
    """
    from birdlab.individuals.rings.joint import assign_jointly

    settings = settings or Settings()
    codes = codes_of(candidates, palette)
    evidence = log_likelihoods(rings, codes, palette=palette, settings=settings, unseen=unseen, prior=prior)
    alone = posterior(evidence, candidates, settings=settings)
    joint = assign_jointly(alone, together)
    parts = [calls(p, clips, assignment=a, settings=settings) for a, p in (("argmax", alone), ("joint", joint))]
    return pl.concat(parts), alone


def codes_of(candidates: pl.DataFrame, palette: Palette) -> Mapping[str, Code]:
    """Distinct codes of the candidates by their text."""
    pairs = candidates.drop_nulls(["individual_id", "code"]).unique("code", maintain_order=True)
    return parse_codes(pairs.select("individual_id", "code").iter_rows(), palette)


def _lists_and_birds(
    candidates: pl.DataFrame, evidence: Evidence, power: np.ndarray
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists with their number and lengths, and their birds with tempered log likelihoods, in order of the lists."""
    lists = (
        candidates.group_by(_AT, maintain_order=True)
        .agg(pl.col("individual_id").drop_nulls().n_unique().alias("n_candidates").cast(pl.Int32))
        .with_row_index("list")
    )
    rows = candidates.unique(["gallery", "clip_id", "individual_id", "code"], maintain_order=True)
    rows = rows.drop_nulls(["individual_id", "code"])
    rows = rows.join(lists.select("list", *_AT), on=_AT, how="left", maintain_order="left")
    rows = rows.with_columns(pl.Series("value", _values(rows, evidence, power)))
    birds = (
        rows.sort("list", maintain_order=True)
        .group_by("list", *_AT, "individual_id", maintain_order=True)
        .agg(pl.col("value"))
        .with_columns(_mean_log(pl.col("value")).alias("value"))
    )
    n = birds.group_by("list").agg(pl.len().cast(pl.Int32).alias("n_coded"))
    lists = lists.join(n, on="list", how="left", maintain_order="left")
    return lists.with_columns(pl.col("n_coded").fill_null(0)), birds


def _values(rows: pl.DataFrame, evidence: Evidence, power: np.ndarray) -> np.ndarray:
    """Tempered log likelihood of each candidate row; 0 for all where the clip has no ring."""
    clip, code = _rows_of(rows["clip_id"], evidence.clip_ids), _rows_of(rows["code"], evidence.names)
    if (code < 0).any():
        raise ValueError("a candidate's code is not among the codes of the evidence")
    padded = np.concatenate([power * evidence.log_likelihood, np.zeros((1, len(evidence.names)))])
    return padded[clip, code]


def _rows_of(values: pl.Series, names: Sequence[str]) -> np.ndarray:
    """Place of each value among names, -1 where it is not there."""
    if not len(names):
        return np.full(len(values), -1, dtype=np.int64)
    known = pl.Series(names, dtype=pl.String)
    at = pl.Series(np.arange(len(names)), dtype=pl.Int64)
    return values.replace_strict(known, at, default=-1, return_dtype=pl.Int64).to_numpy()


def _mean_log(values: pl.Expr) -> pl.Expr:
    """Log of the mean of exponentials of each list; a list of one is its element, to the last digit."""
    top = values.list.max()
    spread = (values.list.eval((pl.element() - pl.element().max()).exp()).list.mean()).log()
    return pl.when(values.list.len() == 1).then(values.list.first()).otherwise(top + spread)


def _total(value: np.ndarray, of_list: np.ndarray, log_unknown: np.ndarray) -> np.ndarray:
    """Log of the sum over the candidates of each list and the unknown bird."""
    out = log_unknown.copy()
    if len(value):
        starts = np.flatnonzero(np.diff(of_list, prepend=-1))
        lists = of_list[starts]
        out[lists] = np.logaddexp(out[lists], np.logaddexp.reduceat(value, starts))
    return out


def _leading(birds: pl.DataFrame) -> pl.DataFrame:
    """Per clip and list: the bird that leads (or is assigned), how many tie with it, posteriors of it and the next."""
    if "is_assigned" not in birds.columns:
        birds = birds.with_columns(is_assigned=pl.lit(False))
    p = pl.col("log_posterior")
    ranked = birds.sort("is_assigned", "log_posterior", descending=True, maintain_order=True)
    # After joint assignment another bird may be more probable than the assigned one; it is the second, not a tie.
    tied = ((p - p.first()).abs() <= TIE).sum() - 1
    names = pl.col("individual_id").filter((p - p.first()).abs() <= TIE)
    return ranked.group_by(_AT, maintain_order=True).agg(
        pl.col("individual_id").first().alias("best"),
        p.first().exp().alias("score"),
        p.slice(1).max().exp().alias("second"),
        tied.cast(pl.Int32).alias("n_tied"),
        names.head(_SHOWN).alias("tied_names"),
        p.first().alias("log_best"),
    )


def _reason(min_posterior: float) -> pl.Expr:
    n_tied, names = pl.col("n_tied"), pl.col("tied_names")
    several = pl.format(
        "{} birds fit the rings equally: {}{}",
        n_tied + 1,
        names.list.sort().list.join(", "),
        pl.when(n_tied + 1 > _SHOWN).then(pl.lit(", …")).otherwise(pl.lit("")),
    )
    percent = (pl.col("log_unknown").exp() * 100).round(0).cast(pl.Int64)
    low = pl.format("posterior {} is below {}", pl.col("score").round(2), pl.lit(min_posterior))
    return (
        pl.when(pl.col("n_candidates") == 0)
        .then(pl.lit("the list of candidates is empty"))
        .when(~pl.col("has_rings"))
        .then(pl.lit("no ring was found"))
        .when(pl.col("n_coded") == 0)
        .then(pl.lit("no bird of the list wears a code on that day"))
        .when(n_tied > 0)
        .then(several)
        .when(pl.col("log_unknown") >= pl.col("log_best"))
        .then(pl.format("a bird that is not on the list is likelier ({} %)", percent))
        .when("is_left_over")
        .then(pl.lit("the birds of the list fit other clips of the same frames better"))
        .when(pl.col("score") < min_posterior)
        .then(low)
    )
