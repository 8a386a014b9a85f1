"""Does the joint model tell the truth? Known slopes, made birds, many repetitions; every seed is printed.

    python benchmarks/sim_difficulty.py [repetitions]

For 4 and for 10 sessions, with and without luck that neighbouring frames share and the model does not know (which
shrinks every slope on the log-odds scale, whatever the estimator): mean of slope / true slope, root mean squared error,
coverage of the 95 % intervals, and how often the plain estimate does not exist.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from birdlab.difficulty.logit import Sample, fit_logit, maximum_likelihood
from birdlab.difficulty.profile import profile_interval
from birdlab.difficulty.robust import bias_reduced_error, cluster_error

SLOPES = np.array([0.6, -0.8, -0.4, -0.7, 0.5, -0.3])
FRAMES_PER_BLOCK = 10
#: Sessions, birds, intercept, SD of blocks of frames, seed.
DESIGNS = (
    (4, 529, 2.6, 0.0, 20031),
    (4, 529, 2.6, 1.0, 20032),
    (4, 529, 4.6, 0.0, 20033),
    (10, 520, 2.6, 0.0, 20034),
    (10, 520, 2.6, 1.0, 20035),
)


def draw(rng: np.random.Generator, sessions: int, n: int, intercept: float, block_sd: float) -> Sample:
    """One made study: factors partly shared within sessions, a session effect, blocks of ten neighbouring birds."""
    session = np.sort(np.arange(n) % sessions)
    z = rng.normal(size=(n, 6)) + 0.5 * rng.normal(size=(sessions, 6))[session]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    block = block_sd * rng.normal(size=n // FRAMES_PER_BLOCK + 1)[np.arange(n) // FRAMES_PER_BLOCK]
    eta = intercept + z @ SLOPES + 0.4 * rng.normal(size=sessions)[session] + block
    return Sample(z, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.float64), session)


def repeat(repetitions: int, sessions: int, n: int, intercept: float, block_sd: float, seed: int) -> None:
    """Run one design and print its line."""
    rng = np.random.default_rng(seed)
    firth, plain, inside = [], [], {"profile": [], "CR1 t": [], "CR2 t": []}
    misses, no_mle = [], 0
    for _ in range(repetitions):
        sample = draw(rng, sessions, n, intercept, block_sd)
        misses.append(n - sample.recovered.sum())
        fit = fit_logit(sample)
        firth.append(fit.beta)
        ends = [profile_interval(sample, fit, j) for j in range(6)]
        inside["profile"].append([i.lo <= b <= i.hi for i, b in zip(ends, SLOPES, strict=True)])
        mle = maximum_likelihood(sample)
        if mle is None:
            no_mle += 1
            continue
        plain.append(mle.beta)
        one, two = cluster_error(sample, mle, sample.session), bias_reduced_error(sample, mle)
        inside["CR1 t"].append(np.abs(mle.beta - SLOPES) < stdtrit(sessions - 1, 0.975) * one.se)
        inside["CR2 t"].append(np.abs(mle.beta - SLOPES) < stdtrit(two.df, 0.975) * two.se)
    firth = np.array(firth)
    ratio, error = firth.mean(axis=0) / SLOPES, np.sqrt(((firth - SLOPES) ** 2).mean())
    cover = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in inside.items() if values)
    mle_ratio = (np.array(plain) / SLOPES).mean() if plain else float("nan")
    print(
        f"G={sessions:2d} n={n} block SD {block_sd:g} seed {seed}: {np.mean(misses):5.1f} misses; "
        f"Firth slope/true {ratio.mean():.3f} (by factor {ratio.min():.3f} to {ratio.max():.3f}), RMSE {error:.3f}; "
        f"MLE {mle_ratio:.3f} where finite, infinite in {no_mle} of {repetitions}; coverage: {cover}"
    )


def main() -> None:
    """Run all designs."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with threadpool_limits(limits=1):
        for sessions, n, intercept, block_sd, seed in DESIGNS:
            start = time.process_time()
            repeat(repetitions, sessions, n, intercept, block_sd, seed)
            print(f"     {time.process_time() - start:.0f} CPU s for {repetitions} repetitions")


if __name__ == "__main__":
    main()
