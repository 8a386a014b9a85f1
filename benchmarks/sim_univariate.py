"""Do the intervals cover and does the Δ test keep its level? Simulated sessions, printed seeds.

    python benchmarks/sim_univariate.py                   # 4 and 10 sessions, 1,000 repetitions each (minutes)
    python benchmarks/sim_univariate.py --repetitions 500

A made study: G sessions of neighbouring frames, one bird per frame, blocks of five frames that share their luck.
logit P(found) = 2.2 + session (SD 0.5) + block (SD 0.8) + slope * factor; the factor has parts of session, block and
frame (SD 0.5, 0.6, 0.6), so it drifts as light and clutter do. Slope 0: the factor has no effect; slope -0.8: it has.

What is checked, each against its own target: *within these sessions* (recall that more frames of the same sessions
would have, overall and in each bin), *for new sessions* (recall over the population of sessions), the interval of Δ
(best minus worst bin if these sessions were filmed for ever), and at slope 0 how often p < 0.05 for Δ.
Leaves with exit code 1 when a coverage is below 0.92 or a type-I error above 0.08.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from birdlab.difficulty.arrays import arrange
from birdlab.difficulty.bins import assign, bin_instances
from birdlab.difficulty.univariate import recall_by_bin, sensitivity
from birdlab.stats import new_sessions, within_sessions

INTERCEPT, SESSION_SD, BLOCK_SD, BLOCK = 2.2, 0.5, 0.8, 5
FACTOR_SD = (0.5, 0.6, 0.6)
MIN_COVERAGE, MAX_TYPE_I = 0.92, 0.08


@dataclass
class Tally:
    """Hits and tries of one question, and the widths of the intervals."""

    hits: int = 0
    tries: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, hit: bool, width: float = 0.0) -> None:
        """Count one try."""
        self.hits, self.tries = self.hits + int(hit), self.tries + 1
        self.widths.append(width)

    @property
    def share(self) -> float:
        """Hits / tries."""
        return self.hits / self.tries if self.tries else float("nan")


def expit(x: np.ndarray) -> np.ndarray:
    """Inverse of the logit."""
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class Sessions:
    """Sessions drawn once: the effect of each on recall and on the factor, and its number of frames."""

    effect: np.ndarray
    level: np.ndarray
    n: np.ndarray


def draw_sessions(rng: np.random.Generator, n_sessions: int, n_birds: int) -> Sessions:
    """Sessions of unequal length (each 0.7 to 1.3 of the mean)."""
    n = np.round(n_birds / n_sessions * rng.uniform(0.7, 1.3, n_sessions)).astype(int)
    return Sessions(rng.normal(0, SESSION_SD, n_sessions), rng.normal(0, FACTOR_SD[0], n_sessions), n)


def draw_birds(rng: np.random.Generator, sessions: Sessions, slope: float) -> dict[str, np.ndarray]:
    """Birds of these sessions: session, block, factor, chance of being found, found."""
    session = np.repeat(np.arange(len(sessions.n)), sessions.n)
    block = np.concatenate([np.arange(k) // BLOCK for k in sessions.n])
    _, code = np.unique(np.column_stack([session, block]), axis=0, return_inverse=True)
    code = code.reshape(-1)
    shared = rng.normal(size=(code.max() + 1, 2))
    factor = sessions.level[session] + FACTOR_SD[1] * shared[code, 0] + FACTOR_SD[2] * rng.normal(size=len(session))
    chance = expit(INTERCEPT + sessions.effect[session] + BLOCK_SD * shared[code, 1] + slope * factor)
    found = (rng.random(len(session)) < chance).astype(int)
    return {"session": session, "block": code, "factor": factor, "chance": chance, "found": found}


def table(birds: dict[str, np.ndarray]) -> pl.DataFrame:
    """Birds as a table of instances."""
    n = len(birds["session"])
    return pl.DataFrame(
        {
            "instance": np.arange(n),
            "session": [f"s{s}" for s in birds["session"]],
            "frame": np.arange(n),
            "block": birds["block"],
            "factor": birds["factor"],
            "recovered": birds["found"],
        }
    )


def recall_in(birds: dict[str, np.ndarray], edges: tuple[float, ...]) -> tuple[float, np.ndarray]:
    """Expected recall overall and in each bin, from a very large sample."""
    codes = assign(birds["factor"], edges)
    n = np.bincount(codes, minlength=len(edges) + 1)
    per_bin = np.bincount(codes, weights=birds["chance"], minlength=len(edges) + 1) / np.maximum(n, 1)
    return float(birds["chance"].mean()), per_bin


def repeat(
    seed: int, *, n_sessions: int, n_birds: int, slope: float, n_permutations: int, tallies: dict[str, Tally]
) -> None:
    """One study: draw it, analyse it, count what covered its target."""
    rng = np.random.default_rng(seed)
    sessions = draw_sessions(rng, n_sessions, n_birds)
    birds = arrange(table(draw_birds(rng, sessions, slope)), ["factor"])
    binned = bin_instances(birds.table, ["factor"])
    bins = recall_by_bin(birds, binned)
    found = sensitivity(birds, binned, bins, n_permutations=n_permutations, seed=seed).row(0, named=True)
    edges = binned["factor"].edges
    same = Sessions(sessions.effect, sessions.level, sessions.n * 100)
    overall, per_bin = recall_in(draw_birds(rng, same, slope), edges)
    many = draw_sessions(rng, 4000, 40_000)
    everywhere, per_bin_new = recall_in(draw_birds(rng, many, slope), edges)
    hit = birds.outcome[:, 0]
    for name, codes, how, target in (
        ("within_sessions overall", birds.block, within_sessions, overall),
        ("new_sessions overall", birds.top, new_sessions, everywhere),
    ):
        i = how(np.bincount(codes, weights=hit), np.bincount(codes))
        tallies.setdefault(name, Tally()).add(i.lo <= target <= i.hi, i.hi - i.lo)
    for row in bins.iter_rows(named=True):
        code = row["order"]
        for kind, targets in (("within", per_bin), ("new", per_bin_new)):
            lo, hi = row[f"{kind}_lo"], row[f"{kind}_hi"]
            tallies.setdefault(f"{kind}_sessions by bin", Tally()).add(lo <= targets[code] <= hi, hi - lo)
    delta = per_bin.max() - per_bin.min()
    lo, hi = found["delta_lo"], found["delta_hi"]
    tallies.setdefault("delta within sessions", Tally()).add(lo - 1e-9 <= delta <= hi, hi - lo)
    if n_permutations and found["p"] is not None:
        tallies.setdefault("p < 0.05 for delta", Tally()).add(found["p"] < 0.05)


def simulate(
    *, n_sessions: int, n_birds: int, slope: float, repetitions: int, seed: int = 1, n_permutations: int = 499
) -> dict[str, Tally]:
    """Repeat a design; repetition r has the seed ``seed * 100000 + r``."""
    tallies: dict[str, Tally] = {}
    for r in range(repetitions):
        about = {"n_sessions": n_sessions, "n_birds": n_birds, "slope": slope, "n_permutations": n_permutations}
        repeat(seed * 100_000 + r, tallies=tallies, **about)
    return tallies


def main() -> int:
    """Print coverage, mean width and type-I error of every design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bad = 0
    print(f"seed {args.seed}, {args.repetitions} repetitions; repetition r: seed {args.seed} * 100000 + r")
    print("| sessions | birds | slope | question | share | mean width | tries |\n|---|---|---|---|---|---|---|")
    for n_sessions, n_birds, slope in ((4, 529, 0.0), (4, 529, -0.8), (10, 520, 0.0), (10, 520, -0.8)):
        about = {"n_sessions": n_sessions, "n_birds": n_birds, "slope": slope}
        for name, tally in simulate(repetitions=args.repetitions, seed=args.seed, **about).items():
            test = name.startswith("p <")
            wrong = (
                tally.share > MAX_TYPE_I if test and slope == 0 else tally.share < MIN_COVERAGE if not test else False
            )
            bad += wrong
            label = name if not test else "type-I error of delta" if slope == 0 else "power of delta"
            width = "" if test else f"{np.mean(tally.widths):.3f}"
            mark = " **" if wrong else ""
            print(
                f"| {n_sessions} | {n_birds} | {slope} | {label} | {tally.share:.3f}{mark} | {width} | {tally.tries} |"
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
