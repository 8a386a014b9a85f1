"""Application metrics against a row-by-row implementation of the same rules, and a whole set of twelve videos.

    python benchmarks/bench_application.py                  # 20,000 truth rows, five repeats; then 12 videos x 12 combinations
    python benchmarks/bench_application.py --rows 2700 --no-set

The peer walks through the rows of a pandas frame, as the authors' script does: for every box of the truth it looks up the
boxes of its frame, matches them one to one, best first, and looks up the name; rates, seconds and pairs are counted in
dictionaries and sets. Both start from what was read and give the same numbers (checked to 1e-12; birdlab also gives the
summary with its intervals). CPU seconds, one thread. Leaves with exit code 1 where the numbers differ or a budget is exceeded.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from birdlab.individuals.budget import error_budget
from birdlab.individuals.evaluate import evaluate
from birdlab.individuals.matching import documented_view
from birdlab.readers.chirp import read_colony

BIRDS = ("oaor", "brog", "glgw", "wsbl")
#: Smallest ratio to the peer by truth rows, and most CPU seconds for the whole set.
RATIOS, SET_SECONDS = {10_000: 100.0, 0: 50.0}, 20.0


def write_video(root: Path, name: str, n_frames: int, present: float, trackers: int, models: int, methods: int) -> None:
    """Truth and predictions of one video: visits of 200 frames, jittered boxes, some wrong names, pecks."""
    rng = np.random.default_rng([7, *name.encode()])
    truth, tracks = [], []
    for b, bird in enumerate(BIRDS):
        for visit, start in enumerate(range(0, n_frames - 200, 200)):
            if rng.random() < present:
                frames = np.arange(start, start + 200)
                x = 100 + 220 * b + rng.normal(0, 2, 200).round(1)
                rows = pd.DataFrame({"Frame": frames, "ID": f"{bird}_{visit}", "Xmin": x, "Ymin": 50.0})
                truth.append(rows.assign(Xmax=rows.Xmin + 120, Ymax=170.0))
                mine = truth[-1].assign(ID=f"t{b}-{visit}")
                mine[["Xmin", "Xmax"]] += rng.normal(0, 12, (200, 1)).round(1)
                tracks.append(mine[rng.random(200) < 0.95])
    boxes, followed = pd.concat(truth).sort_values("Frame"), pd.concat(tracks).sort_values("Frame")
    boxes.to_csv(root / f"GroundTruth/{name}_BBox.csv", index=False)
    at = np.sort(rng.integers(0, n_frames - 10, n_frames // 100))
    pecks = pd.DataFrame({"ID": rng.choice(BIRDS, len(at)), "Behaviour": "peck", "StartFrame": at, "EndFrame": at + 5})
    pecks.to_csv(root / f"GroundTruth/{name}_PeckEvents.csv", index=False)
    folder = root / "InferenceData"
    for t in range(trackers):
        followed.to_csv(folder / f"{name}_TrackedBBox_track{t}.csv", index=False)
        ids = followed.ID.unique()
        for m in range(methods):
            said = {i: BIRDS[int(i[1])] if rng.random() < 0.8 else str(rng.choice(BIRDS)) for i in ids}
            (folder / f"{name}_method{m}_IDMatch_track{t}.json").write_text(json.dumps(said))
        spans = followed.groupby("ID").Frame.agg(["min", "max"])
        for k in range(models):
            said = {
                i: [[int(s), int(s) + 25, str(rng.choice(["Peck", "Other"]))] for s in range(a, b - 25, 25)]
                for i, (a, b) in zip(spans.index, spans.to_numpy(), strict=True)
            }
            (folder / f"{name}_BehavDict_model{k}_track{t}.json").write_text(json.dumps(said))


def write_set(root: Path, n_videos: int, n_frames: int, present: float, *, counts: tuple[int, int, int]) -> None:
    for part in ("GroundTruth", "InferenceData"):
        (root / part).mkdir(parents=True)
    names = [f"made_{k:02d}" for k in range(n_videos)]
    meta = pd.DataFrame({"Video": names, "VideoLength": n_frames, "PossibleBirds": str(list(BIRDS)), "FPS": 25})
    meta.to_csv(root / "MetaData.csv", index=False)
    for name in names:
        write_video(root, name, n_frames, present, *counts)


def iou(a: Any, b: Any) -> float:
    w, h = min(a.Xmax, b.Xmax) - max(a.Xmin, b.Xmin), min(a.Ymax, b.Ymax) - max(a.Ymin, b.Ymin)
    both = max(w, 0) * max(h, 0)
    return both / ((a.Xmax - a.Xmin) * (a.Ymax - a.Ymin) + (b.Xmax - b.Xmin) * (b.Ymax - b.Ymin) - both)


def row_by_row(boxes: pd.DataFrame, tracks: pd.DataFrame, pecks: pd.DataFrame, names: dict, said: dict, n: int) -> dict:
    """The peer: the same rules, one row after the other."""
    right, visits = 0, {}
    for frame in boxes.Frame.unique():
        mine, theirs = boxes[boxes.Frame == frame], tracks[tracks.Frame == frame]
        pairs = sorted(
            (
                (-iou(a, b), i, j)
                for i, (_, a) in enumerate(mine.iterrows())
                for j, (_, b) in enumerate(theirs.iterrows())
            )
        )
        taken: dict[int, int] = {}
        for value, i, j in pairs:
            if -value >= 0.5 and i not in taken and j not in taken.values():
                taken[i] = j
        for i, (_, row) in enumerate(mine.iterrows()):
            bird = row.ID.rsplit("_", 1)[0]
            hit = i in taken and names.get(theirs.iloc[taken[i]].ID) == bird
            right += hit
            visits.setdefault(row.ID, []).append(hit)
    minutes = n / 25 / 60
    rates = {}
    for bird in sorted({*BIRDS}):
        true = len(pecks[pecks.ID == bird])
        windows = sorted(
            (s, e, t) for t, w in said.items() if names.get(t) == bird for s, e, label in w if label == "Peck"
        )
        count, last = 0, -1
        for start, end, _ in windows:
            if start >= last:
                count, last = count + 1, end
        rates[bird] = (true / minutes, count / minutes)
    seen: dict[str, set] = {b: set() for b in BIRDS}
    guessed: dict[str, set] = {b: set() for b in BIRDS}
    for _, row in boxes.iterrows():
        seen[row.ID.rsplit("_", 1)[0]].add(row.Frame)
    for _, row in tracks.iterrows():
        if row.ID in names:
            guessed[names[row.ID]].add(row.Frame)
    pairs = {
        (a, b): (len(seen[a] & seen[b]) / n, len(guessed[a] & guessed[b]) / n) for a in BIRDS for b in BIRDS if a < b
    }
    good = sum(np.mean(v) > 0.8 for v in visits.values())
    f1 = {bird: seconds(bird, pecks, names, said, n) for bird in BIRDS}
    return {"frame": right / len(boxes), "track": good / len(visits), "rates": rates, "pairs": pairs, "f1": f1}


def seconds(bird: str, pecks: pd.DataFrame, names: dict, said: dict, n: int) -> float | None:
    """F1 of the seconds in which the bird pecks, from sets of frames."""
    there, guess = set(), set()
    for _, row in pecks[pecks.ID == bird].iterrows():
        there.update(range(row.StartFrame, row.EndFrame + 1))
    for track, windows in said.items():
        if names.get(track) == bird:
            for start, end, label in windows:
                if label == "Peck":
                    guess.update(range(start, end))
    hit = wrong = missed = 0
    for start in range(0, n, 25):
        frames = range(start, min(start + 25, n))
        a, b = any(f in there for f in frames), any(f in guess for f in frames)
        hit, wrong, missed = hit + (a and b), wrong + (b and not a), missed + (a and not b)
    return 2 * hit / (2 * hit + wrong + missed) if hit + wrong + missed else None


def versus(rows: int, repeats: int) -> bool:
    """Whether both give the same numbers and the ratio is large enough."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "set"
        write_set(root, 1, max(1000, rows // 2), 0.52, counts=(1, 1, 1))
        colony = read_colony(root)
        evaluate(colony)
        inputs = root / "InferenceData"
        files = (root / "GroundTruth/made_00_BBox.csv", inputs / "made_00_TrackedBBox_track0.csv")
        boxes, tracks = (pd.read_csv(f) for f in files)
        pecks = pd.read_csv(root / "GroundTruth/made_00_PeckEvents.csv")
        said_files = ("method0_IDMatch", "BehavDict_model0")
        names, said = (json.loads((inputs / f"made_00_{f}_track0.json").read_text()) for f in said_files)
        n = int(colony.videos["n_frames"][0])
        ours, theirs = [], []
        for _ in range(repeats):
            start = time.process_time()
            found = evaluate(colony)
            middle = time.process_time()
            want = row_by_row(boxes, tracks, pecks, names, said, n)
            ours.append(middle - start)
            theirs.append(time.process_time() - middle)
    same = equal(found, want)
    mine, peer = statistics.median(ours), statistics.median(theirs)
    least = next(ratio for floor, ratio in RATIOS.items() if colony.boxes.height >= floor)
    sys.stdout.write(
        f"{colony.boxes.height:,} truth rows: birdlab {mine:.3f} s, row by row {peer:.1f} s (medians of {repeats}), "
        f"ratio {peer / mine:.0f} (at least {least:.0f}); same numbers: {same}\n"
    )
    return same and peer / mine >= least


def equal(found: Any, want: dict[str, Any]) -> bool:
    """Whether every number of both is the same to 1e-12."""
    row = found.summary.row(0, named=True)
    pairs = [(row["frame_accuracy"], want["frame"]), (row["track_accuracy"], want["track"])]
    seen = 0
    for r in found.numbers.with_columns(pl.col("measure").cast(pl.String)).to_dicts():
        key = r["subject"][0] if len(r["subject"]) == 1 else tuple(r["subject"])
        if r["measure"] == "feeding_f1":
            pairs.append((r["predicted"], want["f1"][key]))
        else:
            of = want["rates" if r["measure"] == "pecks_per_min" else "pairs"][key]
            pairs += [(r["truth"], of[0]), (r["predicted"], of[1])]
        seen += 1
    told = seen == sum(len(want[k]) for k in ("rates", "pairs", "f1"))
    return told and all(a == b if a is None or b is None else abs(a - b) <= 1e-12 for a, b in pairs)


def whole_set() -> bool:
    """Twelve videos; whether they take at most 20 s."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "set"
        write_set(root, 12, 20_000, 0.5, counts=(2, 2, 3))
        start, wall = time.process_time(), time.perf_counter()
        colony = read_colony(root)
        read = time.process_time() - start
        both = [evaluate(colony, protocol=p) for p in ("documented", "reference")]
        scored = time.process_time() - start
        error_budget(documented_view(colony))
        total, wall = time.process_time() - start, time.perf_counter() - wall
        sys.stdout.write(
            f"12 videos x 20,000 frames x {both[0].summary.height} combinations, {colony.boxes.height:,} truth and "
            f"{colony.tracks.height:,} predicted boxes: read {read:.1f}, both protocols {scored - read:.1f}, error budget "
            f"{total - scored:.1f}, in all {total:.1f} CPU s, {wall:.1f} s wall (at most {SET_SECONDS:.0f})\n"
        )
    return max(total, wall) <= SET_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="about so many truth rows in the video")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-set", action="store_true", help="leave out the whole set")
    args = parser.parse_args()
    sys.stdout.write(f"polars {pl.__version__}, pandas {pd.__version__}\n")
    holds = versus(args.rows, args.repeats)
    if not args.no_set:
        holds &= whole_set()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
