"""Standard errors that allow for birds of one session (or frame) being alike, and what single sessions do to a slope.

With four sessions the small-sample correction CR2 leaves 1 to 3 degrees of freedom: such data cannot support
inference to new sessions, and these numbers say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from birdlab.difficulty.design import aliased
from birdlab.difficulty.logit import Codes, Fit, Floats, Sample, fit_logit

#: Sessions with more birds than this have no CR2: it needs the eigenvalues of a matrix of that size.
LARGEST_CLUSTER = 3000
#: Eigenvalues below this share of the largest are 0: the session's own intercept leaves one in every cluster.
_NO_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class ClusterError:
    """Cluster-robust standard errors of the slopes: ``se`` (p,), Satterthwaite ``df`` and ``p`` (CR2 only), or why not."""

    se: Floats | None
    df: Floats | None = None
    p: Floats | None = None
    reason: str | None = None


def cluster_error(sample: Sample, fit: Fit, cluster: Codes, *, unit: str = "session") -> ClusterError:
    """Standard errors with the sandwich CR1, factor G/(G-1).

    Args:
        sample: what was fitted by maximum likelihood.
        fit: the fit.
        cluster: codes of the clusters, (n,): sessions, or frames.
        unit: what a cluster is.

    Returns:
        Standard errors, (p,); none for one cluster.

    Liang and Zeger (1986); the same as R's ``sandwich::vcovCL(type = "HC0", cadjust = TRUE)``.
    """
    codes = np.unique(cluster, return_inverse=True)[1]
    n_clusters = int(codes.max()) + 1 if len(codes) else 0
    if n_clusters < 2:
        return ClusterError(None, reason=f"one {unit}: nothing can be said about another")
    moments = fit.state.residual_z * (sample.recovered - fit.state.probability)[:, None]
    sums = np.array([np.bincount(codes, column, n_clusters) for column in moments.T])
    bread = fit.covariance
    variance = n_clusters / (n_clusters - 1) * bread @ (sums @ sums.T) @ bread
    return ClusterError(np.sqrt(np.diag(variance)))


def bias_reduced_error(sample: Sample, fit: Fit) -> ClusterError:
    """Standard errors clustered by session with the bias-reduced sandwich CR2 and Satterthwaite's degrees of freedom.

    Args:
        sample: what was fitted by maximum likelihood, sorted by session or not.
        fit: the fit.

    Returns:
        Standard errors, degrees of freedom (0 to G-1 or so) and two-sided p values of "no effect", each (p,); none for
        one session or a session of more than 3,000 birds.

    Bell and McCaffrey (2002); Pustejovsky and Tipton (2018), Eqs. 6 and 11, on the scale of the response with working
    variances p(1 - p), as R's clubSandwich does for a logit.
    """
    if sample.n_sessions < 2:
        return ClusterError(None, reason="one session: nothing can be said about another")
    if np.bincount(sample.session).max() > LARGEST_CLUSTER:
        return ClusterError(None, reason=f"a session has more than {LARGEST_CLUSTER} birds")
    p = fit.state.probability
    w = p * (1 - p)
    dummies = sample.session[:, None] == np.arange(sample.n_sessions)
    columns = np.column_stack([sample.z, dummies]).astype(np.float64)
    bread = np.linalg.inv(fit.state.information)
    residual = sample.recovered - p
    loads, own, shares = [], [], []
    for g in range(sample.n_sessions):
        mine = sample.session == g
        adjusted = _adjusted(columns[mine], w[mine], bread)
        loads.append(adjusted.T @ (w[mine][:, None] * columns[mine]))
        own.append((w[mine][:, None] * adjusted**2).sum(axis=0))
        shares.append(adjusted.T @ residual[mine])
    n_slopes = sample.z.shape[1]
    variance = (np.array(shares)[:, :n_slopes] ** 2).sum(axis=0)
    df = np.array([_satterthwaite([load[j] for load in loads], [o[j] for o in own], bread) for j in range(n_slopes)])
    se = np.sqrt(variance)
    return ClusterError(se, df, _two_sided(fit.beta / se, df))


def _adjusted(columns: Floats, w: Floats, bread: Floats) -> Floats:
    """A_g' W_g X_g M for one cluster, (n_g, parameters): its residuals y - p times this are its share of the sandwich.

    On the scale of the response the derivatives are X_g = w x, the working variances w and the weights 1/w.
    """
    root = np.sqrt(w)
    scaled = (w * root)[:, None] * columns
    left_over = np.diag(w**2) - scaled @ bread @ scaled.T
    values, vectors = np.linalg.eigh(left_over)
    kept = values > _NO_EIGENVALUE * values[-1]
    power = np.zeros_like(values)
    power[kept] = values[kept] ** -0.5
    adjustment = root[:, None] * ((vectors * power) @ vectors.T) * root
    return adjustment @ columns @ bread


def _satterthwaite(load: list[Floats], own: list[float], bread: Floats) -> float:
    """(tr P)² / tr P² with P_gh = δ_gh a_g'Φ_g a_g - b_g'M b_h, a_g the column of one slope, b_g = X_g'a_g."""
    b = np.array(load)
    matrix = np.diag(own) - b @ bread @ b.T
    return float(np.trace(matrix) ** 2 / np.sum(matrix**2))


def _two_sided(t: Floats, df: Floats) -> Floats:
    from scipy.special import stdtr

    return 2 * stdtr(df, -np.abs(t))


def leave_one_session_out(sample: Sample, fit: Fit, names: tuple[str, ...]) -> Floats:
    """Penalised slopes with each session left out in turn, (G, p); NaN where a slope cannot be estimated without it.

    The factors keep their units. A factor that does not vary, or is a combination of others, in the sessions that are
    left has no estimate, nor has any factor where the rest is all recovered or all missed.
    """
    out = np.full((sample.n_sessions, sample.z.shape[1]), np.nan)
    if sample.n_sessions < 2:
        return out
    p = sample.z.shape[1]
    for g in range(sample.n_sessions):
        rest = sample.session != g
        left = sample.subset(rest)
        if len(np.unique(left.recovered)) < 2:
            continue
        gone = aliased(left.z, left.session, names)
        kept = [j for j in range(p) if names[j] not in gone]
        start = np.concatenate([fit.beta[kept], np.delete(fit.alpha, g)])
        refit = fit_logit(left.subset(np.ones(len(left.z), dtype=bool), kept), start=start)
        if refit.converged:
            out[g, kept] = refit.beta
    return out
