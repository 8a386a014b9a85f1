"""A run file of 25,200 segments x 659 classes (16.6 M rows): text and parquet in, c-mAP and r-mAP under four rules out.

    python benchmarks/bench_soundscapes.py                  # about two minutes; 1 GB of disk
    python benchmarks/bench_soundscapes.py --full           # also 252,000 segments (166 M rows) from parquet; 2 GB more
    python benchmarks/bench_soundscapes.py --recordings 4   # a small one

Ours: every rule of a line, duplicates, all classes and segments. Beside it: a bare polars scan of the same file that looks
at every value of all four columns (minimum of each, streaming engine); pandas and scikit-learn as a user would write it
(``read_csv``, ``merge``, ``average_precision_score`` of each class over its listed rows; reading and merging in full, the
classes timed on some and scaled to all); the same text with one bad line near its end; a sparse file of 4 GB. The c-mAP
by the step rule is compared with scikit-learn's on those classes first. CPU seconds are user + system; each measurement
has a process of its own; medians of ``--repeat`` runs, those of scan and ours in turn.
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
import polars as pl

SEGMENTS, CLASSES, DIGITS = 720, 659, 10
TEXT, PARQUET, BAD, MB, FULL_MB = 2.0, 4.0, 1.5, 1000, 4000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=35, help="of an hour each")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--loop", type=int, default=40, help="classes scikit-learn is timed on")
    parser.add_argument("--full", action="store_true", help="ten times as many recordings from parquet, too")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(MEASURED[args.only](args)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), args)
        pairs = ("scan_text", "text", "bad", "scan_parquet", "parquet")
        runs = [{name: apart(name, folder) for name in pairs} for _ in range(args.repeat)]
        found = {name: middle([run[name] for run in runs]) for name in pairs}
        found["pandas"], found["sparse"] = apart("pandas", folder), apart("sparse", folder)
        if args.full:
            (Path(folder) / "run.txt").unlink()
            found["full"] = apart("full", folder)
    return report(found, args)


def middle(runs: list[dict]) -> dict:
    """The run with the median CPU seconds, and the highest peak."""
    cpu = statistics.median_low(run["cpu"] for run in runs)
    return {**next(run for run in runs if run["cpu"] == cpu), "mb": max(run["mb"] for run in runs)}


def apart(name: str, folder: str) -> dict:
    """One measurement in a process of its own, so that its peak is its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", name, "--folder", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def names() -> list[str]:
    return [f"species{c:03d}" for c in range(CLASSES)]


def times() -> list[str]:
    from birdlab.readers.runfile_errors import time_code

    return [time_code(k) for k in range(SEGMENTS)]


def annotations(recordings: int) -> pl.DataFrame:
    """About 5.8 species per segment, from rare to common, as segments."""
    rng = np.random.default_rng(1)
    n = recordings * SEGMENTS * 6
    weight = 1 / np.arange(1, CLASSES + 1) ** 0.5
    cls = np.concatenate([np.arange(CLASSES), rng.choice(CLASSES, n, p=weight / weight.sum())])
    at = rng.integers(0, recordings * SEGMENTS, len(cls))
    frame = pl.DataFrame({"media": at // SEGMENTS, "start_s": at % SEGMENTS * 5, "cls": cls})
    return frame.unique(maintain_order=True).select(
        pl.format("SSW{}", pl.col("media").cast(pl.String).str.zfill(4)).alias("media_id"),
        pl.lit(pl.Series("n", names())).gather(pl.col("cls")).alias("class_id"),
        pl.col("start_s").cast(pl.Int32),
    )


def scores(truth: pl.DataFrame, m: int) -> np.ndarray:
    """Probabilities of one recording, segment by segment: higher where the species is heard."""
    rng = np.random.default_rng(100 + m)
    own = truth.filter(pl.col("media_id") == f"SSW{m:04d}")
    logit = rng.normal(-4, 1.3, (SEGMENTS, CLASSES))
    cls = own["class_id"].str.slice(7).cast(pl.Int32).to_numpy()
    logit[own["start_s"].to_numpy() // 5, cls] += 3
    return np.round(1 / (1 + np.exp(-logit)), DIGITS).ravel()


def rows(truth: pl.DataFrame, m: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "media_id": [f"SSW{m:04d}"] * (SEGMENTS * CLASSES),
            "start_s": np.repeat(np.arange(SEGMENTS, dtype=np.int32) * 5, CLASSES),
            "class_id": names() * SEGMENTS,
            "probability": scores(truth, m),
        }
    )


def make(folder: Path, args: argparse.Namespace) -> None:
    """The truth, the run as text and parquet (at full size only parquet), and the text with one bad line near its end."""
    truth = annotations(args.recordings)
    truth.write_parquet(folder / "truth.parquet")
    time_of = {5 * k: t for k, t in enumerate(times())}
    parts = []
    with (folder / "run.txt").open("wb") as file:
        for m in range(args.recordings):
            frame = rows(truth, m)
            frame.write_parquet(folder / f"part{m:04d}.parquet")
            parts.append(folder / f"part{m:04d}.parquet")
            text = frame.with_columns(pl.col("start_s").replace_strict(time_of, return_dtype=pl.String))
            text.write_csv(file, separator=";", include_header=False, float_precision=DIGITS)
    pl.scan_parquet(parts).sink_parquet(folder / "run.parquet")
    if args.full:
        scans = [
            pl.scan_parquet(parts).with_columns(pl.concat_str(pl.lit(f"{i}_"), "media_id").alias("media_id"))
            for i in range(10)
        ]
        pl.concat(scans).sink_parquet(folder / "full.parquet")
    for part in parts:
        part.unlink()


def truth_of(args: argparse.Namespace, copies: int = 0):
    from birdlab.soundscapes.truth import code_truth

    own = pl.read_parquet(args.folder / "truth.parquet")
    media = pl.DataFrame({"media_id": [f"SSW{m:04d}" for m in range(args.recordings)]})
    if copies:
        own, media = (
            pl.concat(
                [f.with_columns(pl.concat_str(pl.lit(f"{i}_"), "media_id").alias("media_id")) for i in range(copies)]
            )
            for f in (own, media)
        )
    return code_truth(own, media.with_columns(duration_s=pl.lit(5.0 * SEGMENTS)), names())


def ours(args: argparse.Namespace, file: str, copies: int = 0) -> dict:
    from birdlab.readers.runfile import read_run
    from birdlab.soundscapes.scores import run_scores

    truth = truth_of(args, copies)
    clock = Clock()
    coded = read_run(args.folder / file, truth, name="run")
    read = clock.cpu()
    found = run_scores(truth, coded)
    kept = {k: found[k] for k in ("cmap", "cmap_pessimistic", "cmap_expected", "cmap_step", "rmap")}
    step = dict(found["classes"].select("class_id", "ap_step").rows())
    return {**clock.read(), "read": read, **kept, "step": step, "n": len(coded.score)}


def bad(args: argparse.Namespace) -> dict:
    """One class of the line at 96 % of the file is no class."""
    from birdlab.errors import DataError
    from birdlab.readers.runfile import read_run

    truth, path = truth_of(args), args.folder / "run.txt"
    with path.open("r+b") as file:
        file.seek(int(path.stat().st_size * 0.96))
        file.readline()
        at, line = file.tell(), file.readline()
        file.seek(at)
        file.write(line.replace(b"species", b"spezies"))
    clock = Clock()
    try:
        read_run(path, truth, name="run")
    except DataError as error:
        told = f"{error.problems[0].code}, line {error.problems[0].line:,}"
    used = clock.read()
    with path.open("r+b") as file:
        file.seek(at)
        file.write(line)
    return {**used, "told": told}


def scan(args: argparse.Namespace, kind: str) -> dict:
    clock = Clock()
    path = args.folder / f"run.{kind}"
    lazy = pl.scan_parquet(path) if kind == "parquet" else pl.scan_csv(path, separator=";", has_header=False)
    lazy.select(pl.all().min()).collect(engine="streaming")
    return clock.read()


def pandas(args: argparse.Namespace) -> dict:
    """What a user would write."""
    import pandas as pd
    from sklearn.metrics import average_precision_score

    truth = pl.read_parquet(args.folder / "truth.parquet")
    clock = Clock()
    heads = ["media_id", "time", "class_id", "probability"]
    run = pd.read_csv(args.folder / "run.txt", sep=";", header=None, names=heads)
    time_of = dict(enumerate(times()))
    right = pd.DataFrame(
        {
            "media_id": truth["media_id"],
            "class_id": truth["class_id"],
            "time": [time_of[s // 5] for s in truth["start_s"]],
        }
    )
    some = names()[:: max(1, CLASSES // args.loop)][: args.loop]
    merged = run.merge(right.assign(y=1), on=["media_id", "time", "class_id"], how="left")
    merged["y"] = merged["y"].fillna(0)
    before = clock.cpu()
    n_rel = right["class_id"].value_counts()
    ap = {}
    for name in some:
        own = merged[merged["class_id"] == name]
        ap[name] = float(average_precision_score(own["y"], own["probability"]) * own["y"].sum() / n_rel[name])
    return {**clock.read(), "cpu": before + (clock.cpu() - before) * CLASSES / len(some), "ap": ap}


def sparse(args: argparse.Namespace) -> dict:
    from birdlab.errors import DataError
    from birdlab.readers.runfile import read_run

    truth, path = truth_of(args), args.folder / "sparse.txt"
    with path.open("wb") as file:
        file.truncate(4 << 30)
    clock = Clock()
    try:
        read_run(path, truth, name="run")
    except DataError as error:
        told = f"{error.problems[0].code}, line {error.problems[0].line}"
    path.unlink()
    return {**clock.read(), "told": told}


class Clock:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self.begin, self.wall = self._cpu(), time.perf_counter()

    @staticmethod
    def _cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def cpu(self) -> float:
        return self._cpu() - self.begin

    def read(self) -> dict:
        """Seconds, and the peak of the process."""
        return {"cpu": self.cpu(), "wall": time.perf_counter() - self.wall, "mb": peak_mb()}


def peak_mb() -> float:
    """Peak of this process; ``ru_maxrss`` would be that of its parent where that is higher."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


MEASURED = {
    "scan_text": lambda args: scan(args, "txt"),
    "scan_parquet": lambda args: scan(args, "parquet"),
    "text": lambda args: ours(args, "run.txt"),
    "parquet": lambda args: ours(args, "run.parquet"),
    "full": lambda args: ours(args, "full.parquet", 10),
    "bad": bad,
    "pandas": pandas,
    "sparse": sparse,
}


def report(found: dict[str, dict], args: argparse.Namespace) -> int:
    """Print the table; 1 where values differ or a budget is exceeded."""
    text, parquet, theirs = found["text"], found["parquet"], found["pandas"]
    wrong = []
    apart_by = max(abs(text["step"][name] - ap) for name, ap in theirs["ap"].items())
    print(f"step rule against scikit-learn, {len(theirs['ap'])} classes: at most {apart_by:.1e} apart")
    if apart_by > 1e-12 or text["cmap"] != parquet["cmap"] or text["rmap"] != parquet["rmap"]:
        wrong.append("values differ")
    print(f"c-mAP {text['cmap']:.12f} (worst ties {text['cmap_pessimistic']:.12f}), r-mAP {text['rmap']:.12f}")
    print(f"\n{text['n']:,} rows, {os.cpu_count()} cores, medians of {args.repeat}\n")
    print("| what | CPU s | wall s | peak MB | times the scan |\n|---|---|---|---|---|")
    base = {"text": found["scan_text"]["cpu"], "parquet": found["scan_parquet"]["cpu"]}
    told = [
        ("polars scan, text", "scan_text", "text"),
        ("**birdlab, text**", "text", "text"),
        (f"birdlab, text with a bad line ({found['bad']['told']}), reading alone", "bad", "text"),
        (f"pandas and scikit-learn, text ({len(theirs['ap'])} classes timed, scaled)", "pandas", "text"),
        ("polars scan, parquet", "scan_parquet", "parquet"),
        ("**birdlab, parquet**", "parquet", "parquet"),
        (f"sparse file of 4 GB ({found['sparse']['told']})", "sparse", "text"),
    ]
    if args.full:
        told.append((f"birdlab, parquet of {found['full']['n']:,} rows", "full", "parquet"))
    for what, key, kind in told:
        row = found[key]
        print(f"| {what} | {row['cpu']:.2f} | {row['wall']:.2f} | {row['mb']:.0f} | {row['cpu'] / base[kind]:.2f} |")
    worse = found["bad"]["cpu"] / text["read"]
    print(f"\nreading with the bad line: {worse:.2f} x reading without ({text['read']:.2f} CPU s)")
    print(f"pandas and scikit-learn: {theirs['cpu'] / text['cpu']:.0f} x birdlab")
    for what, value, most in (
        ("text / scan", text["cpu"] / base["text"], TEXT),
        ("parquet / scan", parquet["cpu"] / base["parquet"], PARQUET),
        ("bad / good", worse, BAD),
        ("peak MB", max(text["mb"], parquet["mb"]), MB),
        ("peak MB at full size", found.get("full", {"mb": 0})["mb"], FULL_MB),
    ):
        if value > most:
            wrong.append(f"{what}: {value:.2f}, budget {most}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
