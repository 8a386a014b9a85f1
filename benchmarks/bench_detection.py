"""Detection scores of COCO files: birdlab beside pycocotools and faster-coco-eval, in one run.

    python benchmarks/bench_detection.py            # set a: 1,006 4K images, 1 class, 100,600 detections
    python benchmarks/bench_detection.py --set b    # set b: COCO-val size, 80 classes, 500,000 detections (minutes)

Each tool runs in its own process with one thread per library: JSON files in; for birdlab all tables out (labels,
predictions, matches, the twelve numbers, AP by COCO and by relative size, AP by class, curve, counts), for the others
their load, evaluate, accumulate and summarize. Reported: CPU seconds (user + system) and peak resident memory, both
beyond the imports, median of the repeats; and whether the twelve numbers agree.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SETS = {
    "a": {
        "n_images": 1006,
        "size": (3840, 2160),
        "n_classes": 1,
        "n_labels": 1288,
        "n_detections": 100_600,
        "crowd": 0.0,
    },
    "b": {
        "n_images": 5000,
        "size": (640, 480),
        "n_classes": 80,
        "n_labels": 36_000,
        "n_detections": 500_000,
        "crowd": 0.01,
    },
}
BUDGETS = {"a": (1.0, 150), "b": (5.0, 500)}
TOOLS = ("birdlab", "pycocotools", "faster-coco-eval")
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
    )
}


def make(folder: Path, name: str, seed: int = 1) -> None:
    """Write ``gt.json`` and ``dt.json`` of a set: every second detection lies near a label, scores favour those."""
    about, rng = SETS[name], np.random.default_rng(seed)
    (width, height), n, m = about["size"], about["n_labels"], about["n_detections"]
    image = rng.integers(1, about["n_images"] + 1, n)
    category = rng.integers(1, about["n_classes"] + 1, n)
    side = 2.0 ** rng.uniform(-6, -1.2, n)
    wh = np.column_stack([side * width, side * height]) * rng.uniform(0.7, 1.3, (n, 2))
    xy = rng.uniform(0, 1, (n, 2)) * ([width, height] - np.minimum(wh, [width, height]))
    box = np.round(np.column_stack([xy, wh]), 2)
    crowd = rng.random(n) < about["crowd"]
    annotations = [
        {"id": k, "image_id": i, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": int(g)}
        for k, (i, c, b, g) in enumerate(
            zip(image.tolist(), category.tolist(), box.tolist(), crowd, strict=True), start=1
        )
    ]
    images = [
        {"id": k, "file_name": f"{k:06d}.jpg", "width": width, "height": height}
        for k in range(1, about["n_images"] + 1)
    ]
    categories = [{"id": k, "name": f"class {k}"} for k in range(1, about["n_classes"] + 1)]
    (folder / "gt.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    near = rng.integers(0, n, m)
    close = rng.random(m) < (0.02 if name == "a" else 0.2)
    found = box[near] * (1 + rng.normal(0, 0.08, (m, 4)))
    found[~close, :2] = rng.uniform(0, 0.8, (int((~close).sum()), 2)) * [width, height]
    where = np.where(close, image[near], rng.integers(1, about["n_images"] + 1, m))
    what = np.where(close, category[near], rng.integers(1, about["n_classes"] + 1, m))
    score = np.where(close, rng.beta(5, 2, m), rng.beta(1, 6, m))
    rows = zip(where.tolist(), what.tolist(), np.round(found, 2).tolist(), np.round(score, 5).tolist(), strict=True)
    results = [{"image_id": i, "category_id": c, "bbox": b, "score": s} for i, c, b, s in rows]
    (folder / "dt.json").write_text(json.dumps(results))


def birdlab_numbers(folder: Path) -> list[float | None]:
    """All tables that ``birdlab score detection`` makes."""
    from birdlab.detection.command import frames_of
    from birdlab.detection.engine import STATS, evaluate
    from birdlab.detection.matching import match
    from birdlab.detection.scores import max_f1, operating_point
    from birdlab.readers.coco import read_ground_truth, read_results

    truth = read_ground_truth(folder / "gt.json")
    predictions, _ = read_results(folder / "dt.json", truth, model="m")
    frames = frames_of(truth)
    result = evaluate(truth.labels, predictions, frames)
    matches = match(truth.labels, predictions, frames, conf=0.0)
    operating_point(matches, 0.25)
    max_f1(matches)
    return [result.stats[name] for name in STATS]


def reference_numbers(folder: Path, tool: str) -> list[float | None]:
    """The twelve numbers of pycocotools or faster-coco-eval; -1 as ``None``."""
    if tool == "pycocotools":
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    else:
        from faster_coco_eval import COCO
        from faster_coco_eval import COCOeval_faster as COCOeval
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "gt.json"))
        run = COCOeval(truth, truth.loadRes(str(folder / "dt.json")), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return [None if value < 0 else float(value) for value in run.stats[:12]]


def import_tool(tool: str) -> None:
    """Everything the tool imports on its way, so that it is not counted."""
    if tool == "birdlab":
        import hotcoco
        import hotcoco.mask  # noqa: F401
        import polars as pl

        import birdlab.detection.command  # noqa: F401

        pl.DataFrame({"a": [1.0]}).select(pl.col("a").sum())
    elif tool == "pycocotools":
        import pycocotools.cocoeval  # noqa: F401
    else:
        import faster_coco_eval  # noqa: F401


def measure(tool: str, folder: Path) -> None:
    """Child process: run one tool and print one JSON object."""
    import_tool(tool)
    before = resource.getrusage(resource.RUSAGE_SELF)
    numbers = birdlab_numbers(folder) if tool == "birdlab" else reference_numbers(folder, tool)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    unit = 1024 if sys.platform != "darwin" else 1024**2
    print(
        json.dumps(
            {
                "cpu_s": cpu,
                "mb": (after.ru_maxrss - before.ru_maxrss) / unit,
                "peak_mb": after.ru_maxrss / unit,
                "numbers": numbers,
            }
        )
    )


def run(name: str, repeats: int, tools: list[str]) -> bool:
    """Make the set, run the tools, print the table; whether the numbers agree and the budget is kept."""
    with tempfile.TemporaryDirectory() as made:
        # In a child: a process inherits the peak memory of the one that starts it.
        subprocess.run([sys.executable, __file__, "--make", name, "--folder", made], check=True)
        results = {}
        for tool in tools:
            command = [sys.executable, __file__, "--child", tool, "--folder", made]
            times = repeats if tool == "birdlab" or name == "a" else 1
            runs = [
                json.loads(
                    subprocess.run(
                        command, check=True, capture_output=True, text=True, env=os.environ | ONE_THREAD
                    ).stdout
                )
                for _ in range(times)
            ]
            results[tool] = {key: statistics.median(r[key] for r in runs) for key in ("cpu_s", "mb", "peak_mb")} | {
                "numbers": runs[0]["numbers"]
            }
    base = results.get("pycocotools")
    print(f"set {name}: {SETS[name]}")
    print(f"{'tool':18} {'CPU s':>8} {'ratio':>7} {'MB over imports':>16} {'peak MB':>8} {'max difference':>15}")
    agree = True
    for tool, r in results.items():
        ratio = f"{base['cpu_s'] / r['cpu_s']:.1f}x" if base else "–"
        off = difference(r["numbers"], base["numbers"]) if base else float("nan")
        agree &= not off > 1e-12
        print(f"{tool:18} {r['cpu_s']:8.2f} {ratio:>7} {r['mb']:16.0f} {r['peak_mb']:8.0f} {off:15.1e}")
    cpu, mb = BUDGETS[name]
    kept = results["birdlab"]["cpu_s"] <= cpu and results["birdlab"]["mb"] <= mb
    print(
        f"budget: {cpu:g} CPU s and {mb} MB over the imports: {'kept' if kept else 'EXCEEDED'}; numbers {'agree' if agree else 'DIFFER'}\n"
    )
    return agree and kept


def difference(a: list[float | None], b: list[float | None]) -> float:
    """Largest difference of two lists of numbers; infinite where only one side is defined."""
    return max(
        0.0 if x is None and y is None else float("inf") if None in (x, y) else abs(x - y)
        for x, y in zip(a, b, strict=True)
    )


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=(*SETS, "all"), default="a")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tools", default=",".join(TOOLS), help="comma-separated, of " + ", ".join(TOOLS))
    parser.add_argument("--child", choices=TOOLS, help=argparse.SUPPRESS)
    parser.add_argument("--make", choices=SETS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args.folder, args.make)
        return 0
    if args.child:
        measure(args.child, args.folder)
        return 0
    names = list(SETS) if args.set == "all" else [args.set]
    return 0 if all([run(name, args.repeats, args.tools.split(",")) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
