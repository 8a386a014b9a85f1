"""Masks of one 4K frame from their grids to run lengths: CPU time and memory, one thread.

    python benchmarks/bench_masks.py                     # 10, 100 and 300 masks of 150 px, 300 of 600 px
    python benchmarks/bench_masks.py --peer 100          # the peer on so many masks (it needs 66 MB for each)

*Pasted* are grids of 28 x 28 as Mask R-CNN gives them (``birdlab.inference.masks.pasted_rle``), *drawn* grids of a YOLO
segmenter at imgsz 640 (``ultralytics_adapter.mask_rle``). The peer is torchvision's own pasting into whole frames
followed by pycocotools' encoding. Memory is the peak of what numpy and Python hold beside the grids.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from birdlab.inference.masks import pasted_rle
from birdlab.inference.ultralytics_adapter import mask_rle

SHAPE, INPUT, GRID = (2160, 3840), (384, 640), (96, 160)


def corners(n: int, side: int) -> np.ndarray:
    """Left top corners of ``n`` boxes inside the frame."""
    rng = np.random.default_rng(0)
    return np.stack([rng.uniform(0, SHAPE[1] - side, n), rng.uniform(0, SHAPE[0] - side, n)], axis=1)


def ellipse(shape: tuple[int, int], centre: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """A grid that is positive inside an ellipse, 1 in its middle."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    return (1 - ((x - centre[0]) / radii[0]) ** 2 - ((y - centre[1]) / radii[1]) ** 2).astype(np.float32)


def pasted(n: int, side: int) -> list[str | None]:
    grid = ellipse((28, 28), np.array([14.0, 14.0]), np.array([18.0, 15.0]))
    return [pasted_rle(grid, np.array([*c, side, side]), np.array([*c, *(c + side)]), SHAPE) for c in corners(n, side)]


def drawn(n: int, side: int, grids: list[np.ndarray]) -> list[str | None]:
    pairs = zip(grids, corners(n, side), strict=True)
    return [mask_rle(grid, np.array([*c, side, side]), SHAPE, INPUT) for grid, c in pairs]


def peer(n: int, side: int) -> list[Any]:
    import torch
    from pycocotools import mask as coco
    from torchvision.models.detection.roi_heads import paste_masks_in_image

    torch.set_num_threads(1)
    grid = torch.from_numpy(ellipse((28, 28), np.array([14.0, 14.0]), np.array([18.0, 15.0])))
    low = torch.from_numpy(corners(n, side)).float()
    whole = paste_masks_in_image(grid.expand(n, 1, 28, 28), torch.cat([low, low + side], 1), SHAPE)[:, 0].numpy() > 0.5
    return coco.encode(np.asfortranarray(whole.transpose(1, 2, 0).astype(np.uint8)))


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Best CPU milliseconds of three runs, and megabytes at the peak of one more."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1e3 * best, peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=int, default=20, metavar="N", help="masks of 150 px for the peer (default 20)")
    args = parser.parse_args()
    for n, side in ((10, 150), (100, 150), (300, 150), (300, 600)):
        ms, mb = timed(lambda n=n, side=side: pasted(n, side))
        scale = np.array([GRID[1] / SHAPE[1]] * 2)
        offset = np.array([0.0, 3.0])  # 12 of 384 input rows are padding above, in cells of 4
        centres = [(c + side / 2) * scale + offset for c in corners(n, side)]
        grids = [ellipse(GRID, c, side / 2 * scale * np.array([1.0, 0.8])) for c in centres]
        other_ms, other_mb = timed(lambda n=n, side=side, grids=grids: drawn(n, side, grids))
        sys.stdout.write(
            f"{n:4d} masks of {side} px: pasted {ms:.0f} ms, {mb:.1f} MB; drawn {other_ms:.0f} ms, {other_mb:.1f} MB\n"
        )
    ours, _ = timed(lambda: pasted(args.peer, 150))
    theirs, _ = timed(lambda: peer(args.peer, 150))
    sys.stdout.write(
        f"{args.peer} masks of 150 px: {ours:.1f} ms, torchvision and pycocotools {theirs:.0f} ms: {theirs / ours:.0f}x\n"
    )


if __name__ == "__main__":
    main()
