"""The three exact curves of 35,138 photographs: birdlab beside threshold loops, scikit-learn and torch-uncertainty.

    python benchmarks/bench_abstention_curves.py

Made per-image columns of the size of RealBirdID (31,885 answerable, 3,253 not; float32 probabilities). birdlab takes
UA/A, the information curve and calibration over all distinct thresholds; the loop a user would write takes UA/A and the
information curve at 101 and 1,001 thresholds and is scaled to all distinct ones. On 2,000 photographs of float16
probabilities, heavily tied, the loop goes through all distinct thresholds and must agree to 1e-12; UA/A must equal
scikit-learn's ROC AUC on all. torch-uncertainty's AURC is timed where it is installed (its value depends on the order
of tied rows: the confidences are made distinct for it). CPU seconds, one thread, medians of 9; leaves with exit code 1
when values differ or the three curves take longer than 5 sorts of 2 N floats and than 100 ms.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from birdlab.abstention.calibration import calibration, calibrations
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import ig_curve, ua_a
from birdlab.abstention.events import ig_events
from birdlab.abstention.sweep import conventions_sweep
from birdlab.abstention.uncertainty import uncertainty
from birdlab.stats import one_thread

N, N_A, SORTS, FLOOR = 35_138, 31_885, 5, 0.1


def make(n: int = N, n_a: int = N_A, seed: int = 1, dtype: type = np.float32) -> pl.DataFrame:
    """Photographs whose probabilities (m <= M, rounded to ``dtype``) say something about being right."""
    rng = np.random.default_rng(seed)
    answerable = np.arange(n) < n_a
    best = 1 / (1 + np.exp(-(0.5 * answerable + rng.normal(size=n))))
    genus = best.astype(dtype).astype(np.float64)
    alone = rng.random(n) < 0.05
    species = np.where(alone, genus, (best * rng.beta(3, 2, n)).astype(dtype).astype(np.float64))
    genus_right = rng.random(n) < best
    table = {
        "item_id": [f"i{i}" for i in range(n)],
        "is_answerable": answerable,
        "genus": ["Genus"] * n,
        "top_species": np.where(rng.random(n) < best, "Genus one", "Other one"),
        "max_genus": genus,
        "max_species": np.minimum(species, genus),
        "genus_right": genus_right,
        "species_right": rng.random(n) < species,
    }
    return pl.DataFrame(table).with_columns(
        species_right=pl.when("is_answerable").then("species_right"),
        max_species_top_down=pl.col("max_species") * 0.9,
        species_right_top_down=pl.col("species_right"),
    )


def three_curves(columns: pl.DataFrame) -> tuple[float, float, float]:
    """UA/A, IG and calibration of A-species, with birdlab."""
    u = uncertainty(columns)
    answerable = columns["is_answerable"].to_numpy()
    right = columns["species_right"].fill_null(False).to_numpy()[answerable]
    areas = ua_a(u, answerable).area, ig_curve(ig_events(columns)).area, calibration(u[answerable], right).area
    return areas  # type: ignore[return-value]


def loop(columns: pl.DataFrame, thresholds: np.ndarray) -> tuple[float, float]:
    """UA/A and IG, one threshold at a time."""
    a = columns["is_answerable"].to_numpy()
    m, M = columns["max_species"].to_numpy(), columns["max_genus"].to_numpy()
    species_right = columns["species_right"].fill_null(False).to_numpy()[a]
    genus_right = columns["genus_right"].to_numpy()[a]
    roc, ig = [(0.0, 0.0)], [(0.0, 1.0)]
    for t in np.sort(thresholds)[::-1]:
        species, genus = m[a] >= t, M[a] >= t
        right = np.where(species, species_right, np.where(genus, genus_right, True))
        ig.append((np.mean(np.where(species, 1.0, np.where(genus, 0.5, 0.0))), right.mean()))
    for t in np.sort(thresholds):
        abstained = m <= t
        roc.append((abstained[a].mean(), abstained[~a].mean()))
    return area(roc), area(ig)


def area(points: list[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def cpu(function: Callable[[], Any], runs: int = 9) -> float:
    """Median CPU seconds."""
    spent = []
    for _ in range(runs):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def row(name: str, seconds: float, note: str = "") -> None:
    print(f"{name:<58} {1000 * seconds:>10.1f} ms  {note}")


def risk_coverage() -> Any:
    """torch-uncertainty's module of risk-coverage metrics, loaded alone; ``None`` where it cannot be."""
    found = importlib.util.find_spec("torch_uncertainty")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "metrics" / "classification" / "risk_coverage.py"
    spec = importlib.util.spec_from_file_location("risk_coverage", path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except (ImportError, OSError):
        return None
    return module


def beside_torch_uncertainty(columns: pl.DataFrame) -> bool:
    """Times both on distinct confidences of answerable photographs; whether they agree to float32."""
    module = risk_coverage()
    if module is None:
        print("torch-uncertainty's AURC: not installed, left out")
        return True
    import torch

    answerable = columns.filter("is_answerable")
    right = answerable["species_right"].to_numpy()
    order = np.argsort(answerable["max_species"].to_numpy(), kind="stable")
    # Distinct in float32 and above one half, so that the first of two classes is the one predicted.
    confidence = np.empty(len(order))
    confidence[order] = np.linspace(0.51, 0.99, len(order))
    p = torch.tensor(np.stack([confidence, 1 - confidence], axis=1), dtype=torch.float32)
    target = torch.tensor(np.where(right, 0, 1))

    def theirs() -> float:
        metric = module.AURC()
        metric.update(p, target)
        return float(metric.compute())

    found, mine = theirs(), 1 - calibration(1 - confidence, right, rule="trapz").area
    row("torch-uncertainty AURC, update and compute, A only", cpu(theirs, 3), f"{found:.6f}, birdlab {mine:.6f}")
    row("birdlab's for the same", cpu(lambda: calibration(1 - confidence, right, rule="trapz")))
    return abs(found - mine) < 1e-4


def main() -> int:
    columns = make()
    a = columns["is_answerable"].to_numpy()
    both = np.concatenate([columns["max_genus"].to_numpy(), columns["max_species"].to_numpy()])
    every = np.unique(both)
    sort = cpu(lambda: np.argsort(both, kind="stable"))
    quick = cpu(lambda: np.argsort(both))
    mine = cpu(lambda: three_curves(columns))
    areas = three_curves(columns)
    print(f"{N:,} photographs, {len(every):,} distinct thresholds; UA/A, IG, calibration {areas}")
    row("one argsort of 2 N floats (stable / default)", sort, f"/ {1000 * quick:.1f} ms")
    row("birdlab: three curves, all distinct thresholds", mine, f"{mine / quick:.1f} x the default argsort")
    row("  UA/A with its uncertainty", cpu(lambda: ua_a(uncertainty(columns), a)))
    row("  information curve with its events", cpu(lambda: ig_curve(ig_events(columns))))
    row("  all calibration curves", cpu(lambda: calibrations(columns)))
    darts = Conventions(decision="darts_all")
    row("  information curve with DARTS, exact breakpoints", cpu(lambda: ig_curve(ig_events(columns, darts))))
    row("  every convention in turn (what can be had)", cpu(lambda: conventions_sweep(columns), 3))
    for steps in (101, 1001):
        grid = np.linspace(0, 1, steps)
        spent = cpu(lambda g=grid: loop(columns, g), 3 if steps < 500 else 1)
        off = loop(columns, grid)[1] - areas[1]
        scaled = spent / steps * len(every)
        row(
            f"user's loop, UA/A and IG, {steps} thresholds", spent, f"IG off by {off:.1e}; all distinct: {scaled:.0f} s"
        )
    row("scikit-learn roc_auc_score", cpu(lambda: roc_auc_score(~a, 1 - columns["max_species"].to_numpy())))
    agree = beside_torch_uncertainty(columns)

    small = make(2000, 1500, seed=2, dtype=np.float16)
    levels = np.unique(np.concatenate([small["max_genus"].to_numpy(), small["max_species"].to_numpy()]))
    difference = max(abs(p - q) for p, q in zip(loop(small, levels), three_curves(small)[:2], strict=True))
    oracle = abs(roc_auc_score(~a, 1 - columns["max_species"].to_numpy()) - areas[0])
    limit = max(SORTS * quick, FLOOR)
    print(f"largest difference: {difference:.1e} from the loop, {oracle:.1e} from sklearn; limit {1000 * limit:.0f} ms")
    return int(not agree or difference > 1e-12 or oracle > 1e-12 or mine > limit)


if __name__ == "__main__":
    with one_thread():
        sys.exit(main())
