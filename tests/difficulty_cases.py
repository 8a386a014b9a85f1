"""Made data for the tests of the joint model: the planted slopes and a plain, dense implementation to compare with."""

from __future__ import annotations

import numpy as np
import polars as pl

FACTORS = ("rel_size", "brightness", "contrast", "clutter", "blur", "crowding")
SLOPES = np.array([0.6, -0.8, -0.4, -0.7, 0.5, -0.3])


def made(
    *,
    n: int = 400,
    sessions: int = 4,
    intercept: float = 1.8,
    session_sd: float = 0.5,
    seed: int = 1,
    block_sd: float = 0.0,
) -> pl.DataFrame:
    """Instances whose outcomes follow the model with :data:`SLOPES`; ``block_sd`` adds luck shared by ten frames."""
    rng = np.random.default_rng(seed)
    session = np.sort(rng.integers(0, sessions, n))
    session[:sessions] = np.arange(sessions)
    session.sort()
    z = rng.normal(size=(n, 6)) + 0.5 * rng.normal(size=(sessions, 6))[session]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    luck = block_sd * rng.normal(size=n // 10 + 1)[np.arange(n) // 10]
    eta = intercept + z @ SLOPES + session_sd * rng.normal(size=sessions)[session] + luck
    recovered = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    columns = {
        "instance": np.arange(n),
        "session": [f"s{g + 1:02d}" for g in session],
        "frame": [f"f{i // 2}" for i in range(n)],
        **{name: z[:, j] for j, name in enumerate(FACTORS)},
        "recovered": recovered,
    }
    return pl.DataFrame(columns)


def dense_penalised_loglik(theta: np.ndarray, columns: np.ndarray, recovered: np.ndarray) -> float:
    """Log-likelihood with Jeffreys' penalty, written down without any trick."""
    eta = columns @ theta
    p = 1 / (1 + np.exp(-eta))
    information = columns.T @ (columns * (p * (1 - p))[:, None])
    plain = np.sum(recovered * eta - np.logaddexp(0, eta))
    return float(plain + 0.5 * np.linalg.slogdet(information)[1])
