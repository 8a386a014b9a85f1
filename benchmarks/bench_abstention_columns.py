"""Per-image columns of a matrix of probabilities against one sum over it: CPU time and anonymous memory, one thread.

    python benchmarks/bench_abstention_columns.py                     # 35,138 × 3,442 float32, 248 genera (484 MB on disk)
    python benchmarks/bench_abstention_columns.py --items 4000 --labels 500 --genera 40

The matrix lies in a memory-mapped .npy file. *Read-sum* opens it and adds up all of it. Ours are the columns of
``birdlab.abstention.hierarchy.wide_columns`` with labels in order of name and in random order, without and with entropy,
then with a range map of 200 candidates an item, and per observation (two photographs each). Beside it the loop that a
user would write (for every image, for every genus: a sum), on some rows and extrapolated, and the product with a
0/1 matrix. Memory is the growth of anonymous pages at its peak; pages of the file are not counted.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from birdlab.abstention.hierarchy import Options, wide_columns  # noqa: E402
from birdlab.abstention.observations import pooled  # noqa: E402
from birdlab.abstention.taxonomy import Taxonomy  # noqa: E402
from birdlab.abstention.tree import Tree  # noqa: E402

PLAIN, ENTROPY, MEMORY_MB = 10, 25, 64


def make(path: Path, n: int, labels: int) -> None:
    """Write a matrix of made probabilities, a few rows at a time."""
    rng = np.random.default_rng(1)
    matrix = np.lib.format.open_memmap(path, "w+", np.float32, (n, labels))
    for start in range(0, n, 512):
        rows = np.exp(1.5 * rng.gumbel(size=(min(512, n - start), labels))).astype(np.float32)
        matrix[start : start + 512] = rows / rows.sum(axis=1, keepdims=True)
    matrix.flush()


class Matrix:
    """The file as a reader gives it: opened anew for every pass."""

    model, dtype = "made", "float32"

    def __init__(self, path: Path, labels: list[str]) -> None:
        self.path, self.labels = path, labels

    def chunks(self, rows: np.ndarray | None = None, size: int = 256) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        matrix = np.load(self.path, mmap_mode="r")
        wanted = np.arange(len(matrix)) if rows is None else np.unique(rows)
        for start in range(0, len(wanted), size):
            at = wanted[start : start + size]
            whole = at[-1] - at[0] + 1 == len(at)
            yield at, matrix[at[0] : at[-1] + 1] if whole else matrix[at]


def names_of(labels: int, genera: int, rng: np.random.Generator) -> list[str]:
    """Made binomials: most genera are small, a few hold hundreds of species."""
    share = rng.pareto(1.2, genera) + 0.05
    size = np.maximum(1, np.floor(share / share.sum() * (labels - genera))).astype(int)
    size[np.argmax(size)] += labels - size.sum()
    return [f"Genus{g:04d} species{j:04d}" for g, k in enumerate(size) for j in range(k)]


def items_of(names: list[str], n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Items with a truth, 9 of 10 answerable, in observations of two photographs."""
    true = rng.integers(0, len(names), (n + 1) // 2).repeat(2)[:n]
    answerable = (rng.random((n + 1) // 2) < 0.9).repeat(2)[:n]
    species = pl.Series([names[i] for i in true])
    return pl.DataFrame({"item_id": [f"i{i}" for i in range(n)], "is_answerable": answerable}).with_columns(
        genus=species.str.split(" ").list.first(),
        species=pl.when(pl.Series(answerable)).then(species),
        observation_id=pl.Series([f"o{i // 2}" for i in range(n)]),
    )


def cpu(function: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of the process, after one call that is not counted."""
    function()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def anonymous() -> int:
    """Anonymous resident memory of this process, bytes (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def growth(function: Callable[[], object]) -> float:
    """Growth of anonymous memory at its peak while the function runs, MB."""
    before, peak, done = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    kept = function()
    done.set()
    watcher.join()
    return (max(peak[0], anonymous()) - before) / 2**20 if kept is not None else 0.0


def user_loop(matrix: Matrix, tree: Tree, rows: int) -> float:
    """CPU seconds for the whole matrix of the loop that a user would write, extrapolated from some rows."""
    p = np.load(matrix.path, mmap_mode="r")
    of_label = np.empty(len(tree.labels), dtype=int)
    of_label[tree.columns] = tree.genus_index
    columns = {g: np.flatnonzero(of_label == i) for i, g in enumerate(tree.genera)}
    started = time.process_time()
    for row in p[:rows]:
        sums = {g: row[c].sum() for g, c in columns.items()}
        _ = max(sums, key=sums.get), row.argmax(), row.max(), -(row * np.log(row + 1e-12)).sum()
    return (time.process_time() - started) * len(p) / rows


def product(matrix: Matrix, tree: Tree, rows: int) -> float:
    """CPU seconds for the whole matrix of genus sums as a product with a 0/1 matrix, extrapolated."""
    p = np.load(matrix.path, mmap_mode="r")
    one_hot = np.zeros((len(tree.labels), tree.n_genera), np.float32)
    one_hot[tree.columns, tree.genus_index] = 1
    return cpu(lambda: (p[:rows] @ one_hot).argmax(axis=1), 2) * len(p) / min(rows, len(p))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=35_138)
    parser.add_argument("--labels", type=int, default=3_442)
    parser.add_argument("--genera", type=int, default=248)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=200)
    asked = parser.parse_args()
    rng = np.random.default_rng(2)
    names = names_of(asked.labels, asked.genera, rng)
    taxonomy, items = Taxonomy.from_names(names), items_of(names, asked.items, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.npy"
        make(path, asked.items, asked.labels)
        floor = cpu(lambda: np.load(path, mmap_mode="r").sum(), asked.repeats)
        sys.stdout.write(f"{asked.items:,} × {asked.labels:,} float32, {asked.genera} genera\n")
        sys.stdout.write(f"read-sum                        {1e3 * floor:9.0f} ms\n")
        fine = True
        # Libraries are loaded at first use: that is no memory of the pass.
        small = Tree.build(names, taxonomy)
        wide_columns([(np.arange(9), np.load(path, mmap_mode="r")[:9])], small, items.head(9))

        def line(name: str, run: Callable[[], object], limit: float | None) -> None:
            nonlocal fine
            megabytes = growth(run)
            seconds = cpu(run, asked.repeats)
            good = limit is None or (seconds <= limit * floor and megabytes <= MEMORY_MB)
            fine &= good
            told = "" if limit is None else f"  (≤ {limit} ×, ≤ {MEMORY_MB} MB) {'ok' if good else 'OVER'}"
            sys.stdout.write(
                f"{name:31} {1e3 * seconds:9.0f} ms  {seconds / floor:7.1f} ×  {megabytes:5.0f} MB{told}\n"
            )

        for order, labels in (("in order", names), ("shuffled", [names[i] for i in rng.permutation(len(names))])):
            tree, matrix = Tree.build(labels, taxonomy), Matrix(path, labels)
            for what, options, limit in (
                ("", Options(entropy=False), PLAIN),
                (", entropy", Options(), ENTROPY),
            ):
                # Bound now: the lambda is called at once.
                run = lambda t=tree, m=matrix, o=options: wide_columns(m.chunks(), t, items, options=o)  # noqa: E731
                line(f"columns, {order}{what}", run, limit)
        line("per observation, entropy", lambda: pooled(matrix, tree, items), None)
        lists = [[names[j] for j in rng.choice(len(names), asked.candidates, replace=False)] for _ in range(64)]
        mapped = items.with_columns(candidates=pl.Series([lists[i % 64] for i in range(asked.items)]))
        both = Options(range_map=True)
        line("plain + range map, entropy", lambda: wide_columns(matrix.chunks(), tree, mapped, options=both), None)
        for name, seconds in (
            ("the user's loop (extrapolated)", user_loop(matrix, tree, 200)),
            ("0/1 product, genus sums only", product(matrix, tree, 2048)),
        ):
            sys.stdout.write(f"{name:31} {1e3 * seconds:9.0f} ms  {seconds / floor:7.1f} ×\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
