"""Difficulty factors of a 4K frame against what no tool can do without: one gray decode and one Canny.

    python benchmarks/bench_factors.py                # three contents, medians of CPU seconds, one thread
    python benchmarks/bench_factors.py --frames 200   # and a whole shard from the build, frames per second

For dense, natural and smooth content: all factors of a frame from its file (header, check that the JPEG is whole,
decode, statistics, edges, crops, thumbnail; three birds), over ``cv2.imdecode(…, IMREAD_GRAYSCALE)`` and ``cv2.Canny``
of the same bytes. The two are timed in turn. Beside it, for information, the edge density that scikit-image's Canny finds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from birdlab.difficulty import measure
from birdlab.difficulty.factors import measure_shard
from birdlab.readers.pixels import read_gray

SIZE = (3840, 2160)
BUDGET = 1.10
BIRDS = np.array([[1800.5, 1000.25, 240.0, 180.0], [300.0, 400.0, 120.5, 90.0], [3600.0, 1900.0, 200.0, 200.0]])


def content(kind: str, rng: np.random.Generator) -> np.ndarray:
    """A 4K picture: noise (dense), soft shapes with twigs and leaves before them (natural), or one gradient (smooth)."""
    width, height = SIZE
    if kind == "dense":
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    if kind == "smooth":
        ramp = [x * 180 / width + 30, y * 180 / height + 30, (x + y) * 150 / (width + height) + 50]
        return np.stack(ramp, axis=-1).astype(np.uint8)
    total = np.zeros((height, width, 3), np.float32)
    for scale, weight in ((2, 6), (4, 8), (8, 10), (32, 16), (128, 24), (512, 40)):
        small = rng.normal(0, 1, (height // scale + 1, width // scale + 1, 3)).astype(np.float32)
        total += weight * cv2.resize(small, SIZE, interpolation=cv2.INTER_CUBIC)
    picture = np.clip(total + 118, 0, 255).astype(np.uint8)
    for x0, y0, angle, size, tone in rng.uniform((0, 0, 0, 4, 30), (width, height, 180, 40, 220), (9000, 5)):
        colour = (0.6 * tone, tone, 0.8 * tone)
        axes = (int(size), max(1, int(size / 5)))
        cv2.ellipse(picture, (int(x0), int(y0)), axes, angle, 0, 360, colour, -1, cv2.LINE_AA)
    return picture


def in_turn(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median CPU seconds of each function, called in turn so that a busy machine treats them alike."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats + 1):
        for times, function in zip(seconds, functions, strict=True):
            started = time.process_time()
            function()
            times.append(time.process_time() - started)
    return [statistics.median(times[1:]) for times in seconds]


def compare(folder: Path, kind: str, repeats: int) -> bool:
    """Time one content and write a line; whether it is within the budget."""
    path = folder / f"{kind}.jpg"
    cv2.imwrite(str(path), content(kind, np.random.default_rng(1)), [cv2.IMWRITE_JPEG_QUALITY, 90])

    def floor() -> object:
        gray = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_GRAYSCALE)
        return cv2.Canny(gray, *measure.CANNY)

    def factors() -> object:
        gray = read_gray(path)
        return measure.measure_frame(gray, BIRDS), measure.thumbnail(gray)

    least, ours = in_turn([floor, factors], repeats)
    density = measure.measure_frame(read_gray(path), BIRDS)[0]["clutter_background"]
    ratio, fine = ours / least, ours / least <= BUDGET
    sys.stdout.write(
        f"{kind:8} {1e3 * least:8.1f} ms {1e3 * ours:8.1f} ms   x {ratio:.3f} {'ok' if fine else 'OVER'}"
        f"   clutter {density:.4f}, by skimage {_skimage_density(read_gray(path)):.4f}\n"
    )
    return fine


def _skimage_density(gray: np.ndarray) -> float:
    from skimage.feature import canny

    # The same thresholds on the same Sobel sums of gray in [0, 1]; the gradient is its length there, not the L1 norm.
    low, high = (t / 255 for t in measure.CANNY)
    return float(canny(gray / 255.0, sigma=0, low_threshold=low, high_threshold=high).mean())


def shard_speed(folder: Path, n: int) -> None:
    """Frames per second of a whole shard (natural content), as the build measures it."""
    birds = [[f"b{i}", *box] for i, box in enumerate(BIRDS.tolist())]
    entry = {"video_id": "s", "kind": "image", "frame_index": 0, "sha256": "", "media": "natural.jpg", "time_s": None}
    entry |= {"size": list(SIZE), "birds": birds, "others": [], "regions": []}
    payload = [entry | {"frame_id": f"f{i}"} for i in range(n)]
    started, cpu = time.perf_counter(), time.process_time()
    measure_shard(payload, root=str(folder))
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    sys.stdout.write(f"shard of {n} frames: {n / wall:.1f} frames/s, {1e3 * cpu / n:.1f} CPU ms per frame\n")


def main() -> int:
    """Time the three contents; exit code 1 if one is over the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--frames", type=int, default=0, help="also time a shard of this many frames")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    sys.stdout.write(f"OpenCV {cv2.__version__}, one thread, median of {args.repeats}; budget {BUDGET:.2f}\n")
    sys.stdout.write("content   decode+Canny     factors\n")
    with tempfile.TemporaryDirectory() as name:
        fine = [compare(Path(name), kind, args.repeats) for kind in ("dense", "natural", "smooth")]
        if args.frames:
            shard_speed(Path(name), args.frames)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
