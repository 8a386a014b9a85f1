"""Do intervals from redrawn genera cover where genera differ, and those from redrawn photographs not? Printed seeds.

    python benchmarks/sim_abstention.py                    # 8 to 120 genera, 400 repetitions each (two minutes)
    python benchmarks/sim_abstention.py --repetitions 200

A made study: G genera of unequal size (about 480 photographs in all), 20 % of the photographs unanswerable. A genus is
easier or harder than another (SD 0.8 on the logit of the genus probability M), also for this model alone (SD 0.5),
and its unanswerable photographs apart (SD 0.5). The species probability m is a part of M; genus and species are right
with probabilities M and m (calibrated), except that a genus may be over- or underrated (SD 0.5 on the logit).

Targets are the values over a population of genera (one study of 20,000). Two models of the same kind see the same
photographs: their true difference is 0, and the share of p < 0.05 is the type-I error of the paired test.
Leaves with exit code 1 when, with 40 genera or more, redrawn genera cover less than 0.91 or err more than 0.09.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

import numpy as np

from birdlab.abstention.differences import bootstrap_p
from birdlab.abstention.events import Events
from birdlab.abstention.quadratic import ig_values, ua_a_values
from birdlab.abstention.ratios import calibration_values, mean_values
from birdlab.abstention.resampling import interval, resamples
from birdlab.stats import one_thread

DESIGNS = {8: 60, 12: 40, 20: 24, 40: 12, 120: 4}
GENUS_SD, MODEL_SD, UA_SD, RATED_SD = 0.8, 0.5, 0.5, 0.5
UA_SHARE, POPULATION, DRAWS = 0.2, 20_000, 500
MIN_COVERAGE, MAX_TYPE_I, ENOUGH = 0.91, 0.09, 40
#: Draws come from a stream of their own.
DRAW_SEED = 10**9
Columns = dict[str, np.ndarray]


def expit(x: np.ndarray) -> np.ndarray:
    """Inverse of the logit."""
    return 1 / (1 + np.exp(-x))


def draw_photographs(rng: np.random.Generator, n_genera: int, size: int) -> Columns:
    """Genus, ease (shared by all models) and answerability of each photograph."""
    n = np.maximum(2, np.round(size * rng.uniform(0.3, 1.7, n_genera))).astype(int)
    genus = np.repeat(np.arange(n_genera), n)
    answerable = rng.random(len(genus)) >= UA_SHARE
    ease = rng.normal(0, GENUS_SD, n_genera)[genus] + rng.normal(0, UA_SD, n_genera)[genus] * ~answerable
    return {"genus": genus, "answerable": answerable, "ease": ease + 0.7 * rng.normal(size=len(genus))}


def draw_model(rng: np.random.Generator, photographs: Columns, n_genera: int) -> Columns:
    """What one model says of them: m, M, right or wrong."""
    genus, n = photographs["genus"], len(photographs["genus"])
    own = rng.normal(0, MODEL_SD, n_genera)[genus] + 0.7 * rng.normal(size=n)
    logit = 0.5 + photographs["ease"] + own - 0.8 * ~photographs["answerable"]
    rated = rng.normal(0, RATED_SD, n_genera)[genus]
    part = rng.beta(3, 1.5, n)
    luck = rng.random(n)
    truth = expit(logit + rated)
    return {
        "M": expit(logit),
        "m": expit(logit) * part,
        "genus_right": luck < truth,
        "species_right": luck < truth * part,
    }


def measures(photographs: Columns, model: Columns, codes: np.ndarray, weights: np.ndarray) -> Columns:
    """The measures of every draw."""
    a = photographs["answerable"]
    n, u = int(a.sum()), 1 - model["m"]
    genus_right, right = model["genus_right"][a].astype(float), model["species_right"][a].astype(float)
    events = Events(
        score=np.concatenate([model["M"][a], model["m"][a]]),
        item=np.tile(np.arange(n), 2),
        d_info=np.full(2 * n, 0.5),
        d_right=np.concatenate([genus_right - 1, right - genus_right]),
        n=n,
    )
    return {
        "UA/A": ua_a_values(u, a, codes, weights),
        "information curve": ig_values(events, codes[a], weights),
        "calibration, A-species": calibration_values(u[a], right, codes[a], weights),
        "accuracy, A-species": mean_values(right, codes[a], weights),
    }


def targets(seed: int, size: int) -> dict[str, float]:
    """Values over a population of genera."""
    rng = np.random.default_rng(seed)
    photographs = draw_photographs(rng, POPULATION, size)
    model = draw_model(rng, photographs, POPULATION)
    one = np.zeros(len(photographs["genus"]), dtype=np.int64)
    return {name: float(v[0]) for name, v in measures(photographs, model, one, np.ones((1, 1), dtype=np.int32)).items()}


def repeat(seed: int, n_genera: int, size: int, true: dict[str, float], found: dict[tuple[str, str], list]) -> None:
    """One study of two models: is the first one's interval right, is the difference called one?"""
    rng = np.random.default_rng(seed)
    photographs = draw_photographs(rng, n_genera, size)
    models = [draw_model(rng, photographs, n_genera) for _ in range(2)]
    n = len(photographs["genus"])
    for by, codes, n_clusters in (("genus", photographs["genus"], n_genera), ("photograph", np.arange(n), n)):
        weights = resamples(n_clusters, DRAWS, DRAW_SEED + seed)
        a, b = (measures(photographs, model, codes, weights) for model in models)
        for name, target in true.items():
            got = interval(a[name], n_clusters=n_clusters)
            if got.lo is None or got.hi is None:
                continue
            d = a[name] - b[name]
            row = got.lo <= target <= got.hi, got.hi - got.lo, bootstrap_p(d[~np.isnan(d)]) < 0.05
            found[name, by].append(row)


def main() -> int:
    """Print coverage, width and type-I error of every design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(
        f"seed {args.seed}, {args.repetitions} repetitions of {DRAWS} draws; repetition r: seed {args.seed} * 100000 + r"
    )
    print("| genera | measure | true | redrawn | coverage | mean width | type-I error | tries |")
    print("|---|---|---|---|---|---|---|---|")
    bad = 0
    for n_genera, size in DESIGNS.items():
        true, found = targets(args.seed, size), defaultdict(list)
        for r in range(args.repetitions):
            repeat(args.seed * 100_000 + r, n_genera, size, true, found)
        for (name, by), rows in found.items():
            cover, width, error = np.mean(rows, axis=0)
            wrong = by == "genus" and n_genera >= ENOUGH and (cover < MIN_COVERAGE or error > MAX_TYPE_I)
            bad += wrong
            numbers = f"{cover:.3f}{' **' if wrong else ''} | {width:.3f} | {error:.3f} | {len(rows)}"
            print(f"| {n_genera} | {name} | {true[name]:.3f} | {by} | {numbers} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    with one_thread():
        code = main()
    sys.exit(code)
