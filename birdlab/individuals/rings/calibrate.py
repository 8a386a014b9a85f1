"""Whether a posterior of 0.9 is right nine times in ten, and the one number that makes it so.

The frames of a clip are not independent, so their product is too sure of itself. How much they depend on one another is
fitted on clips whose bird is known, from other videos than those it is used for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy.optimize import minimize_scalar

from birdlab.individuals.jackknife import leave_one_out
from birdlab.individuals.rings.decide import Posterior, posterior
from birdlab.individuals.rings.likelihood import Evidence, Settings
from birdlab.stats import new_sessions

#: Highest dependence that is tried.
HIGHEST = 4.0
#: Fewest clips with rings and a known bird that it is fitted on; most that are used.
FEWEST, MOST = 20, 2000
BINS = 10


@dataclass(frozen=True)
class Dependence:
    """Fitted dependence of the frames of a clip.

    Args:
        value: in [0, 4]; the default of the settings where none could be fitted.
        n: clips it was fitted on.
        log_loss: mean of -ln(posterior of the true bird) with it, and with the default; null where not fitted.
        reason: why the default stands.
    """

    value: float
    n: int
    log_loss: float | None = None
    log_loss_before: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Calibration:
    """Posteriors against how often they were right.

    Args:
        bins: lo, hi (of the posterior), n, mean_score, right (share), right_lo, right_hi (95 %, over clusters); bins
            without a clip are left out.
        ece: expected calibration error Σ n_b/n |right_b - mean_score_b|, in [0, 1]; null without a clip.
        lo, hi: its 95 % interval (jackknife over clusters); ``reason`` says why there is none.
        n, n_left_out: clips counted; clips without a leading bird (ties, no rings), which are not.
    """

    bins: pl.DataFrame
    ece: float | None
    lo: float | None
    hi: float | None
    n: int
    n_left_out: int
    reason: str | None = None


def fit_dependence(
    evidence: Evidence, candidates: pl.DataFrame, truth: pl.DataFrame, *, settings: Settings | None = None
) -> Dependence:
    """The dependence with the lowest log loss on clips whose bird is known.

    A bird that is not on its clip's list counts as the unknown bird. Of more than 2,000 clips and lists, that many
    evenly spaced ones are used.

    Args:
        evidence: of the clips.
        candidates: gallery, clip_id, individual_id, code.
        truth: clip_id, individual_id.
        settings: the other numbers, and the dependence that stands where fewer than 20 clips can be used.
    """
    settings = settings or Settings()
    known = truth.filter(pl.col("clip_id").is_in(list(evidence.clip_ids))).select("clip_id", "individual_id")
    lists = candidates.join(known.select("clip_id"), on="clip_id", how="semi")
    keys = lists.drop_nulls(["individual_id", "code"]).select("gallery", "clip_id").unique(maintain_order=True)
    if len(keys) > MOST:
        keys = keys[np.linspace(0, len(keys) - 1, MOST).astype(int)]
        lists = lists.join(keys, on=["gallery", "clip_id"], how="semi")
    if len(keys) < FEWEST:
        reason = f"{len(keys)} clips with rings and a known bird; {FEWEST} are needed"
        return Dependence(settings.dependence, len(keys), reason=reason)

    def loss(dependence: float) -> float:
        found = posterior(evidence, lists, settings=replace(settings, dependence=dependence))
        return -float(true_log_posterior(found, known).mean())

    best = minimize_scalar(loss, bounds=(0.0, HIGHEST), method="bounded", options={"xatol": 0.005})
    return Dependence(float(best.x), len(keys), float(best.fun), loss(settings.dependence))


def true_log_posterior(found: Posterior, truth: pl.DataFrame) -> pl.Series:
    """Log posterior of the true bird of each clip and list with rings; of the unknown bird where it is not listed."""
    at = ["gallery", "clip_id"]
    true = found.birds.join(truth, on=["clip_id", "individual_id"], how="inner").select(*at, "log_posterior")
    rows = found.clips.filter("has_rings").join(truth.select("clip_id"), on="clip_id", how="semi")
    rows = rows.join(true, on=at, how="left")
    return rows.select(pl.coalesce("log_posterior", "log_unknown").clip(-700)).to_series()


def cross_fitted(
    evidence: Evidence,
    candidates: pl.DataFrame,
    truth: pl.DataFrame,
    *,
    settings: Settings | None = None,
    folds: int = 5,
) -> tuple[Posterior, pl.DataFrame]:
    """Posteriors whose dependence comes from other videos.

    Args:
        evidence, candidates: of the clips.
        truth: clip_id, video_id, individual_id; clips that are not in it have that fitted on all of it.
        settings: the other numbers.
        folds: groups of videos; each group's is fitted on the others.

    Returns:
        Posterior; fits: fold (null: clips that are not in ``truth``), dependence, n, log_loss,
        log_loss_before, reason.
    """
    settings = settings or Settings()
    videos = truth["video_id"].unique().sort()
    fold = pl.DataFrame({"video_id": videos, "fold": np.arange(len(videos)) % max(1, min(folds, len(videos)))})
    of_clip = truth.join(fold, on="video_id", how="left").select("clip_id", "individual_id", "fold")
    asked = candidates.join(of_clip.select("clip_id", "fold"), on="clip_id", how="left", maintain_order="left")
    parts, rows = [], []
    for number in asked["fold"].unique().sort(nulls_last=True).to_list():
        others = of_clip if number is None else of_clip.filter(pl.col("fold") != number)
        fit = fit_dependence(evidence, candidates, others, settings=settings)
        mine = asked.filter(pl.col("fold").eq_missing(pl.lit(number))).drop("fold")
        parts.append(posterior(evidence, mine, settings=replace(settings, dependence=fit.value)))
        rows.append((number, fit.value, fit.n, fit.log_loss, fit.log_loss_before, fit.reason))
    columns = {"fold": pl.Int64, "dependence": pl.Float64, "n": pl.Int64, "log_loss": pl.Float64}
    table = pl.DataFrame(rows, schema=columns | {"log_loss_before": pl.Float64, "reason": pl.String}, orient="row")
    if not parts:
        return posterior(evidence, candidates, settings=settings), table
    return Posterior(pl.concat([p.birds for p in parts]), pl.concat([p.clips for p in parts])), table


def calibration(rows: pl.DataFrame, *, cluster: str = "individual_id", unit: str = "individual") -> Calibration:
    """How well a posterior says how often it is right.

    Ten bins of equal width. With few clips the error of calibration is above 0 even for a perfect posterior.

    Args:
        rows: score, in [0, 1] (null: no bird leads), is_right, and the clusters' column.
        cluster: column of the clusters: clips of one bird (or video) are not independent.
        unit: what a cluster is.

    >>> rows = pl.DataFrame({"score": [0.9] * 4, "is_right": [True, True, True, False], "individual_id": list("aabb")})
    >>> found = calibration(rows)
    >>> round(found.ece, 3), found.bins.select("n", "right").rows()
    (0.15, [(4, 0.75)])
    """
    used = rows.drop_nulls(["score", "is_right"])
    score, right = used["score"].to_numpy(), used["is_right"].cast(pl.Float64).to_numpy()
    at = np.minimum((score * BINS).astype(int), BINS - 1)
    codes = used[cluster].rank("dense").to_numpy().astype(int) - 1 if used.height else np.zeros(0, dtype=int)
    n_clusters = int(codes.max()) + 1 if used.height else 0
    sums = np.zeros((n_clusters, BINS, 3))
    np.add.at(sums, (codes, at), np.column_stack([np.ones(len(score)), score, right]))
    bins = []
    for b in np.flatnonzero(sums[..., 0].sum(axis=0)):
        n, s, k = sums[:, b].sum(axis=0)
        has = sums[:, b, 0] > 0
        interval = new_sessions(sums[has, b, 2], sums[has, b, 0], unit=unit)
        bins.append((b / BINS, (b + 1) / BINS, int(n), s / n, k / n, interval.lo, interval.hi))
    names = ("lo", "hi", "n", "mean_score", "right", "right_lo", "right_hi")
    schema = {name: pl.Int64 if name == "n" else pl.Float64 for name in names}
    ece = _error(sums.sum(axis=0))
    lo, hi, reason = leave_one_out(lambda used: _error(sums[used].sum(axis=0)), n_clusters, unit=unit)
    return Calibration(
        pl.DataFrame(bins, schema=schema, orient="row"),
        ece,
        None if lo is None else max(0.0, lo),
        None if hi is None else min(1.0, hi),
        used.height,
        rows.height - used.height,
        reason,
    )


def _error(sums: np.ndarray) -> float | None:
    """Calibration error from n, Σ score and Σ right of each bin, (bins, 3)."""
    n = sums[:, 0].sum()
    return float(np.abs(sums[:, 1] - sums[:, 2]).sum() / n) if n else None
