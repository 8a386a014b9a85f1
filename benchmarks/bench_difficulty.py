"""Recall by factor with 2,000 permutations: birdlab beside a loop over permutations, and the whole step in CPU seconds.

    python benchmarks/bench_difficulty.py

Two made studies: 529 birds in 4 sessions and 8,000 birds in 41, five models, nine factors. The loop draws the same
permutations and counts with numpy, one permutation, model and bin at a time; its counts must be equal. It is timed on
100 permutations and scaled. CPU seconds (user + system), medians of three runs; leaves with exit code 1 when counts
differ or a budget (10 s and 30 s, with the joint model) is exceeded.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from birdlab.difficulty.arrays import Birds, arrange
from birdlab.difficulty.bins import Bins, bin_instances
from birdlab.difficulty.model import analyse
from birdlab.difficulty.paired import compare_models
from birdlab.difficulty.permutation import permutations, permuted_counts
from birdlab.difficulty.slices import slices
from birdlab.difficulty.univariate import univariate
from birdlab.stats import one_thread

SETS = {"529 x 5, 4 sessions": (529, 4, 10.0), "8,000 x 5, 41 sessions": (8000, 41, 30.0)}
FACTORS = (
    *("rel_size", "brightness_global", "brightness_local", "contrast_global", "contrast_local"),
    *("blur_local", "clutter_background", "clutter_local", "crowding"),
)
N_PERMUTATIONS, LOOP = 2000, 100
JOINT = {f"{name}_local": name for name in ("brightness", "contrast", "clutter", "blur")}


def make(n: int, n_sessions: int, seed: int = 1) -> pl.DataFrame:
    """Birds of five models: factors that share a session's part, recall around 0.9."""
    rng = np.random.default_rng(seed)
    session = np.sort(rng.integers(0, n_sessions, n))
    level = rng.normal(size=(n_sessions, len(FACTORS)))
    values = {name: 0.6 * level[session, i] + rng.normal(size=n) for i, name in enumerate(FACTORS)}
    values["crowding"] = 1.0 + (rng.random(n) < 0.09)
    table = pl.DataFrame(
        {
            "instance": np.arange(n),
            "session": [f"s{s:02d}" for s in session],
            "frame": np.arange(n),
            "block": np.arange(n) // 5,
            **values,
        }
    )
    slope = 2.3 - 0.8 * values["clutter_background"] - 0.4 * values["brightness_local"]
    parts = []
    for i in range(5):
        found = rng.random(n) < 1 / (1 + np.exp(-(slope + 0.3 * i)))
        parts.append(table.with_columns(model=pl.lit(f"model {i}"), recovered=pl.Series(found)))
    return pl.concat(parts)


def cpu(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Median CPU seconds and the last result."""
    seconds, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def loop(birds: Birds, groups: np.ndarray, n_permutations: int) -> np.ndarray:
    """Counts by a plain loop over the same permutations."""
    chunks = permutations(birds.session, birds.block, n_permutations=n_permutations, seed=1)
    out = []
    for rows in chunks:
        for row in rows:
            shuffled = birds.outcome[row]
            out.append(
                [[shuffled[groups[:, g], m].sum() for g in range(groups.shape[1])] for m in range(shuffled.shape[1])]
            )
    return np.array(out)


def indicators(binned: dict[str, Bins]) -> np.ndarray:
    """Which bird is in which bin of any factor."""
    return np.concatenate([b.indicators() for b in binned.values()], axis=1)


def bench(name: str) -> bool:
    """Print the table of one study; whether counts agree and the budget is kept."""
    n, n_sessions, budget = SETS[name]
    instances = make(n, n_sessions)
    birds = arrange(instances, FACTORS)
    binned = bin_instances(birds.table, FACTORS)
    groups = indicators(binned)
    with one_thread():
        bare, _ = cpu(lambda: univariate(instances, FACTORS, n_permutations=0))
        whole, _ = cpu(lambda: univariate(instances, FACTORS, n_permutations=N_PERMUTATIONS))
        two_way, found = cpu(lambda: slices(birds, binned, n_permutations=N_PERMUTATIONS))
        pairs, _ = cpu(lambda: compare_models(birds, binned))
        joint, _ = cpu(lambda: analyse(instances.rename(JOINT)), repeats=1)
        about = {"session": birds.session, "block": birds.block}
        counts, _ = cpu(lambda: permuted_counts(birds.outcome, groups, n_permutations=N_PERMUTATIONS, **about))
        slow, want = cpu(lambda: loop(birds, groups, LOOP), repeats=1)
        got = permuted_counts(birds.outcome, groups, n_permutations=LOOP, **about).k
    agree = bool((got == want).all())
    print(f"\n{name}, {len(FACTORS)} factors, {N_PERMUTATIONS} permutations")
    print(f"  bins with both intervals        {bare:8.2f} CPU s")
    print(f"  the same with the tests of delta {whole:7.2f} CPU s")
    print(f"  two-way slices ({found.height} rows)      {two_way:8.2f} CPU s")
    print(f"  models in pairs                 {pairs:8.2f} CPU s")
    print(f"  joint model                     {joint:8.2f} CPU s")
    print(f"  permuted counts alone           {counts:8.2f} CPU s")
    print(
        f"  the same by a loop (scaled)     {slow * N_PERMUTATIONS / LOOP:8.2f} CPU s, counts {'equal' if agree else 'DIFFER'}"
    )
    total = whole + two_way + pairs + joint
    print(f"  in all {total:.2f} CPU s of {budget:g}: {'kept' if total <= budget else 'EXCEEDED'}")
    return agree and total <= budget


if __name__ == "__main__":
    sys.exit(0 if all([bench(name) for name in SETS]) else 1)
