"""Resampled areas of 35,138 photographs of 248 genera: birdlab beside loops over resamples, CPU seconds and memory.

    python benchmarks/bench_abstention_intervals.py

Made per-image columns of the size of RealBirdID (31,885 answerable, 3,253 not), probabilities as float32. 1,000 draws
of genera; the loops copy the photographs of each draw and sort them again: UA/A by scikit-learn's roc_auc_score and by
numpy, the information curve by one sort of all events and cumulated sums. Loops are timed on 15 of the draws and
scaled to 1,000; on those the values must be equal to 1e-12. Leaves with exit code 1 when they are not, or when UA/A
and the information curve together are less than 40 times faster than the numpy loop. One thread: CPU seconds count
idle threads of the linear algebra that wait for work.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from birdlab.abstention.events import Events
from birdlab.abstention.quadratic import augrc_values, ig_values, ua_a_values
from birdlab.abstention.ratios import calibration_values, mean_values
from birdlab.abstention.resampling import resamples
from birdlab.stats import one_thread

N, N_A, GENERA, R, LOOP, SEED = 35_138, 31_885, 248, 1000, 15, 1
BAR = 40


def make() -> dict[str, np.ndarray]:
    """Photographs with genus effects: largest probabilities m <= M, right or wrong, answerable or not."""
    rng = np.random.default_rng(SEED)
    size = rng.lognormal(0, 1, GENERA)
    codes = rng.choice(GENERA, N, p=size / size.sum())
    easy = rng.normal(0, 0.8, GENERA)[codes]
    answerable = np.arange(N) < N_A
    M = 1 / (1 + np.exp(-(easy + 0.5 * answerable + rng.normal(size=N))))
    m = M * rng.beta(3, 2, N)
    return {
        "codes": codes,
        "answerable": answerable,
        "M": M.astype(np.float32).astype(np.float64),
        "m": m.astype(np.float32).astype(np.float64),
        "genus_right": rng.random(N) < M,
        "species_right": rng.random(N) < m,
    }


def events_of(d: dict[str, np.ndarray]) -> Events:
    """Root to genus at M, genus to species at m (depth information, answerable photographs only)."""
    a = d["answerable"]
    right = d["genus_right"][a].astype(float), d["species_right"][a].astype(float)
    n = int(a.sum())
    return Events(
        score=np.concatenate([d["M"][a], d["m"][a]]),
        item=np.tile(np.arange(n), 2),
        d_info=np.full(2 * n, 0.5),
        d_right=np.concatenate([right[0] - 1, right[1] - right[0]]),
        n=n,
    )


def copies(counts: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Rows of one draw."""
    return np.repeat(np.arange(len(codes)), counts[codes])


def loop_sklearn(d: dict[str, np.ndarray], counts: np.ndarray) -> list[float]:
    """UA/A of each draw by scikit-learn."""
    rows = (copies(c, d["codes"]) for c in counts)
    return [float(roc_auc_score(~d["answerable"][i], 1 - d["m"][i])) for i in rows]


def loop_ua_a(d: dict[str, np.ndarray], counts: np.ndarray) -> list[float]:
    """UA/A of each draw by one sort and midranks."""
    out = []
    for c in counts:
        i = copies(c, d["codes"])
        u, ua = 1 - d["m"][i], ~d["answerable"][i]
        order = np.argsort(u, kind="stable")
        u, ua = u[order], ua[order]
        ends = np.append(np.flatnonzero(u[1:] != u[:-1]), len(u) - 1)
        size = np.diff(ends, prepend=-1)
        rank = np.repeat(ends + 1 - (size - 1) / 2, size)
        n_ua = int(ua.sum())
        out.append((rank[ua].sum() - n_ua * (n_ua + 1) / 2) / (n_ua * (len(u) - n_ua)))
    return out


def loop_ig(d: dict[str, np.ndarray], counts: np.ndarray) -> list[float]:
    """Area of accuracy against information of each draw by one sort and cumulated sums."""
    out = []
    for c in counts:
        i = copies(c, d["codes"])
        e = events_of({name: column[i] for name, column in d.items()})
        order = np.argsort(-e.score, kind="stable")
        s = e.score[order]
        ends = np.append(np.flatnonzero(s[1:] != s[:-1]), len(s) - 1)
        x = np.append(0, np.cumsum(e.d_info[order])[ends] / e.n)
        y = np.append(1, 1 + np.cumsum(e.d_right[order])[ends] / e.n)
        out.append(np.trapezoid(y, x))
    return out


def cpu(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Median CPU seconds and the last result."""
    seconds, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Print the table; 0 when values agree and the bar is kept."""
    import scipy.sparse  # noqa: F401  (its import is not what is measured)

    d = make()
    codes, events = d["codes"], events_of(d)
    u, answerable, right = 1 - d["m"], d["answerable"], d["species_right"]
    a_codes = codes[answerable]
    base = peak_mb()
    drawing, counts = cpu(lambda: resamples(GENERA, R, SEED))
    rows: dict[str, tuple[float, np.ndarray]] = {
        "UA/A": cpu(lambda: ua_a_values(u, answerable, codes, counts)),
        "information curve": cpu(lambda: ig_values(events, a_codes, counts)),
        "accuracy": cpu(lambda: mean_values(right[answerable], a_codes, counts)),
        "AUGRC": cpu(lambda: augrc_values(u[answerable], right[answerable], a_codes, counts)),
    }
    quadratic_mb = peak_mb() - base
    rows["calibration, mean rule"] = cpu(
        lambda: calibration_values(u[answerable], right[answerable], a_codes, counts), repeats=1
    )
    calibration_mb = peak_mb() - base
    few = counts[:LOOP]
    loops = {
        "UA/A": ("numpy loop", *cpu(lambda: loop_ua_a(d, few), 1)),
        "UA/A ": ("scikit-learn loop", *cpu(lambda: loop_sklearn(d, few), 1)),
        "information curve": ("numpy loop", *cpu(lambda: loop_ig(d, few), 1)),
    }
    print(f"{N:,} photographs, {GENERA} genera, {R:,} draws, seed {SEED}; loops timed on {LOOP} draws and scaled")
    print(f"  draws                    {drawing:8.3f} CPU s")
    worst = 0.0
    for name, (seconds, _) in rows.items():
        print(f"  {name:24s} {seconds:8.3f} CPU s")
    for name, (what, seconds, want) in loops.items():
        mine, got = rows[name.strip()]
        worst = max(worst, float(np.max(np.abs(got[:LOOP] - want))))
        slow = seconds * R / LOOP
        print(f"  {name.strip() + ', ' + what:33s} {slow:8.1f} CPU s, {slow / mine:6.0f} x")
    both = rows["UA/A"][0] + rows["information curve"][0]
    slow = (loops["UA/A"][1] + loops["information curve"][1]) * R / LOOP
    print(f"  both areas against the numpy loops: {slow / both:.0f} x (bar {BAR} x)")
    print(f"  largest difference from a loop: {worst:.1e}")
    many_codes, many = np.arange(N), resamples(N, 100, SEED)
    each = [cpu(lambda: ua_a_values(u, answerable, many_codes, many), 1)[0]]
    each.append(cpu(lambda: ig_values(events, many_codes[answerable], many), 1)[0])
    print(f"  single photographs drawn, 100 draws: UA/A {each[0]:.2f}, information curve {each[1]:.2f} CPU s")
    print(
        f"  memory beyond {base:.0f} MB: {quadratic_mb:.0f} MB quadratic forms, {calibration_mb:.0f} MB with calibration"
    )
    return 0 if worst <= 1e-12 and slow / both >= BAR else 1


if __name__ == "__main__":
    with one_thread():
        code = main()
    sys.exit(code)
