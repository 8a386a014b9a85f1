"""What ``birdlab run`` costs beside plain papermill on the same notebooks, and what an unchanged rerun costs.

One run of this script measures all of them in turn, several rounds, and prints medians: CPU seconds of the whole
process tree (user + system), and wall seconds. Plain papermill is its own command, once per notebook, without a page;
``birdlab run`` is measured with and without drawing the page.

    python benchmarks/bench_runner.py [--rounds 5] [--notebooks 3] [--work 10]

Leaves with exit code 1 when a budget is exceeded (CPU seconds, so that a busy machine does not decide).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

NO_PAGE = "import sys; from birdlab.report import render; render.render_run = lambda d: d / 'report.html'; from birdlab.cli import main; sys.exit(main(sys.argv[1:]))"


PLAIN, FORCED = "plain papermill, one command per notebook", "birdlab run --force, with the page"
UNCHANGED = "birdlab run, unchanged"
#: Most CPU seconds of an unchanged rerun, and share that the runner may add to plain papermill.
RERUN_S, OVERHEAD = 3.0, 0.05


def project(root: Path, notebooks: int, work: float) -> tuple[Path, list[Path]]:
    """A study of two photographs with ``notebooks`` chapters that each compute for ``work`` CPU seconds in ten cells."""
    for folder in ("notebooks", "reports", "photos", "papermill"):
        (root / folder).mkdir(parents=True)
    for i in range(2):
        Image.fromarray(np.full((48, 64, 3), 60 + 40 * i, np.uint8)).save(root / "photos" / f"{i}.jpg")
    names = [f"{n:02d}_chapter" for n in range(2, 2 + notebooks)]
    recipe = root / "reports" / "study.yaml"
    recipe.write_text(
        f'name: study\ndata:\n  root: ../photos\n  media:\n    - images: "*.jpg"\nnotebooks: {json.dumps(names)}\n'
    )
    busy = f"import time\nbegun = time.process_time()\nwhile time.process_time() - begun < {work / 10}:\n    sum(range(1000))"
    paths = []
    for name in names:
        cells = [
            ("markdown", f"# {name}\n\nWork for a clock."),
            ("code", 'recipe: str = ""  # file\nrun_dir: str = ""  # folder'),
        ]
        cells += [
            ("code", f'import birdlab as bl\n\nrun = bl.start(recipe, run_dir, notebook="{name}")\nrun.table("frames")')
        ]
        cells += [("code", busy)] * 10 + [("markdown", "## Limits\n\nNone."), ("code", "run.finish()")]
        paths.append(root / "notebooks" / f"{name}.ipynb")
        paths[-1].write_text(json.dumps(notebook(cells)))
    return recipe, paths


def notebook(cells: list[tuple[str, str]]) -> dict[str, object]:
    """A notebook of (kind, source) cells; the second one holds the parameters."""
    made = []
    for i, (kind, source) in enumerate(cells):
        cell = {
            "cell_type": kind,
            "id": f"c{i}",
            "metadata": {"tags": ["parameters"]} if i == 1 else {},
            "source": source,
        }
        made.append(cell | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return {"cells": made, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}


def measure(*commands: list[str]) -> tuple[float, float]:
    """CPU seconds of all processes of these commands, and wall seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for command in commands:
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"MPLBACKEND": "agg"},
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - begun


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--notebooks", type=int, default=3)
    parser.add_argument("--work", type=float, default=10.0, help="CPU seconds of work in each notebook")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        recipe, paths = project(root, args.notebooks, args.work)
        run_dir = recipe.parent / "study"
        given = ["-p", "recipe", str(recipe), "-p", "run_dir", str(run_dir)]
        plain = [
            [
                sys.executable,
                "-m",
                "papermill",
                str(p),
                str(root / "papermill" / p.name),
                *given,
                "--no-progress-bar",
                "--cwd",
                str(root),
            ]
            for p in paths
        ]
        rows = {
            PLAIN: plain,
            "birdlab run --force, no page": [[sys.executable, "-c", NO_PAGE, "run", str(recipe), "--force"]],
            FORCED: [[sys.executable, "-m", "birdlab.cli", "run", str(recipe), "--force"]],
            UNCHANGED: [[sys.executable, "-m", "birdlab.cli", "run", str(recipe)]],
        }
        measure(*list(rows.values())[2])  # warms the caches of files, and makes the tables that all then read
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
        for _ in range(args.rounds):
            for name, commands in rows.items():
                if name == FORCED:
                    (run_dir / "report.html").unlink()
                found[name].append(measure(*commands))
    cpu = {name: statistics.median(seconds for seconds, _ in pairs) for name, pairs in found.items()}
    base = cpu[PLAIN]
    print(
        f"{args.notebooks} notebooks with {args.work:g} CPU s of work each, medians of {args.rounds} rounds, {os.cpu_count()} cores\n"
    )
    print("| | CPU s | wall s | CPU against plain papermill |\n|---|---|---|---|")
    for name, pairs in found.items():
        wall = statistics.median(seconds for _, seconds in pairs)
        print(f"| {name} | {cpu[name]:.2f} | {wall:.2f} | {100 * (cpu[name] / base - 1):+.1f} % |")
    kept = cpu[UNCHANGED] <= RERUN_S and cpu[FORCED] <= (1 + OVERHEAD) * base
    print(f"\nbudget: rerun {RERUN_S:g} s, overhead {100 * OVERHEAD:g} %: {'kept' if kept else 'EXCEEDED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
