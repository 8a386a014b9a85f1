"""Does "first with probability 0.8" come true in 80 of 100 studies? Simulated sessions and models, printed seeds.

    python benchmarks/sim_ranks.py                      # 2, 4 and 10 sessions, 2,000 repetitions each (about a minute)
    python benchmarks/sim_ranks.py --repetitions 500

A made study: M models, G sessions of about 100 birds each (0.7 to 1.3 of the mean). logit P(found) of model m in session
g = 1.2 + skill of m + session (SD 0.6, the same for all models) + model in session (SD 0.3) + bird (SD 1, the same for
all models). Skills are drawn anew in every repetition, with SD 0.1 (models nearly alike), 0.3 or 1.

What is checked: the probability of rank 1 of every model against whether it is first in the population of sessions
(``n_new=None``), and against whether it is first in another G sessions (``n_new=G``), in five classes of probability.
Models nearly alike are called too surely: no prior knowledge of the models enters. Leaves with exit code 1 when, for the
population, skills of SD 0.3 or 1 and four sessions or more, the mean probability of a class with at least 200 cases is
further than 0.08 from the share that came true.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from birdlab.detection.ranking import rank_probabilities

INTERCEPT, SESSION_SD, BOTH_SD, BIRD_SD, N_BIRDS = 1.2, 0.6, 0.3, 1.0, 100
EDGES = (0.0, 0.05, 0.35, 0.65, 0.95, 1.0)
TOLERANCE, MIN_CASES = 0.08, 200
DRAWS = 2000


def expit(x: np.ndarray) -> np.ndarray:
    """Inverse of the logit."""
    return 1 / (1 + np.exp(-x))


def draw(rng: np.random.Generator, skill: np.ndarray, n_sessions: int) -> tuple[np.ndarray, np.ndarray]:
    """Birds found and birds there, models x sessions; every model sees the same birds."""
    n = np.round(N_BIRDS * rng.uniform(0.7, 1.3, n_sessions)).astype(int)
    shared, own = rng.normal(0, SESSION_SD, n_sessions), rng.normal(0, BOTH_SD, (len(skill), n_sessions))
    k = np.empty((len(skill), n_sessions))
    for g in range(n_sessions):
        bird = rng.normal(0, BIRD_SD, n[g])
        chance = expit(INTERCEPT + skill[:, None] + shared[g] + own[:, g : g + 1] + bird)
        k[:, g] = (rng.random(chance.shape) < chance).sum(axis=1)
    return k, np.broadcast_to(n, k.shape)


def simulate(*, n_models: int, n_sessions: int, skill_sd: float, repetitions: int, seed: int) -> dict[str, np.ndarray]:
    """Probability of rank 1 and whether it came true, one row per model and repetition; repetition r: seed + r.

    Returns:
        ``population`` and ``another set``, each (cases, 2); ``null``, repetitions without probabilities.
    """
    out: dict[str, list[np.ndarray]] = {"population": [], "another set": []}
    n_null = 0
    for r in range(repetitions):
        rng = np.random.default_rng(seed * 100_000 + r)
        skill = rng.normal(0, skill_sd, n_models)
        k, n = draw(rng, skill, n_sessions)
        again, n_again = draw(rng, skill, n_sessions)
        share = again.sum(axis=1) / n_again.sum(axis=1)
        # The same spread for every model: the order in the population is the order of the skills.
        first = {"population": skill == skill.max(), "another set": share == share.max()}
        for name, n_new in (("population", None), ("another set", n_sessions)):
            p, _ = rank_probabilities(k, n, n_new=n_new, draws=DRAWS, seed=r)
            if p is None:
                n_null += name == "population"
                continue
            out[name].append(np.column_stack([p[:, 0], first[name] / first[name].sum()]))
    return {name: np.concatenate(rows) for name, rows in out.items()} | {"null": np.array(n_null)}


def main() -> int:
    """Print what was said and what came true, by class of probability."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad = 0
    print(f"{args.models} models, seed {args.seed}, {args.repetitions} repetitions; r: seed {args.seed} * 100000 + r")
    print(
        "| sessions | SD of skill | first in | said: came true (cases), by class of probability | null |\n|"
        + "---|" * 5
    )
    for n_sessions in (2, 4, 10):
        for skill_sd in (0.1, 0.3, 1.0):
            about: dict[str, Any] = {"n_models": args.models, "n_sessions": n_sessions, "skill_sd": skill_sd}
            found = simulate(repetitions=args.repetitions, seed=args.seed, **about)
            for name in ("population", "another set"):
                said, true = found[name].T
                cells = []
                for lo, hi in zip(EDGES[:-1], EDGES[1:], strict=True):
                    inside = (said >= lo) & ((said < hi) | (hi == 1.0))
                    if not inside.any():
                        continue
                    a, b, cases = said[inside].mean(), true[inside].mean(), int(inside.sum())
                    held = name == "population" and n_sessions >= 4 and skill_sd >= 0.3 and cases >= MIN_CASES
                    wrong = held and abs(a - b) > TOLERANCE
                    bad += wrong
                    cells.append(f"{a:.2f}: {b:.2f} ({cases}){' **' if wrong else ''}")
                print(
                    f"| {n_sessions} | {skill_sd} | {name} | {' · '.join(cells)} | {int(found['null'])} |", flush=True
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
