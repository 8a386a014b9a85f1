"""Train the demo's two detectors on made sessions of their own: ``python -m birdlab.demo.train --out DIR``.

The training sessions have other seeds and other sites than the demo study, and milder light, blur and clutter than its
hardest sessions. Both detectors learn on tiles, at the pixel scale at which they will later see whole frames.
Needs the ``infer`` extra (torch, ultralytics); on two CPU cores it takes ten to twenty minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from birdlab.demo.frames import Labelled, session_frames
from birdlab.demo.paint import WIDTH, stream
from birdlab.demo.scenes import Session

log = logging.getLogger("birdlab")

SEED = 20_240
_KINDS = ("glade", "meadow", "orchard", "pines")


@dataclass(frozen=True)
class Detector:
    """One detector to train.

    Args:
        name: its name in the demo's recipe.
        imgsz: longer side of the whole frame at inference, px; training tiles have the same scale.
        channels: width of the network at strides 2, 4, 8, 16 and 32.
        sessions: how many training sessions it sees.
        epochs: passes over its tiles.
    """

    name: str
    imgsz: int
    channels: tuple[int, int, int, int, int]
    sessions: int
    epochs: int

    @property
    def tile(self) -> int:
        """Side of a training tile, px of the network's input: 1024 px of the 4K frame, in whole strides."""
        return round(1024 * self.imgsz / WIDTH / 32) * 32

    def architecture(self) -> dict[str, Any]:
        """The network for ultralytics: a small YOLOv8 with two output scales (strides 8 and 16)."""
        a, b, c, d, e = self.channels
        backbone = [
            [-1, 1, "Conv", [a, 3, 2]],
            [-1, 1, "Conv", [b, 3, 2]],
            [-1, 1, "C2f", [b, True]],
            [-1, 1, "Conv", [c, 3, 2]],
            [-1, 2, "C2f", [c, True]],
            [-1, 1, "Conv", [d, 3, 2]],
            [-1, 2, "C2f", [d, True]],
            [-1, 1, "Conv", [e, 3, 2]],
            [-1, 1, "C2f", [e, True]],
            [-1, 1, "SPPF", [e, 5]],
        ]
        head = [
            [-1, 1, "nn.Upsample", [None, 2, "nearest"]],
            [[-1, 6], 1, "Concat", [1]],
            [-1, 1, "C2f", [d]],
            [-1, 1, "nn.Upsample", [None, 2, "nearest"]],
            [[-1, 4], 1, "Concat", [1]],
            [-1, 1, "C2f", [c]],
            [-1, 1, "Conv", [c, 3, 2]],
            [[-1, 12], 1, "Concat", [1]],
            [-1, 1, "C2f", [d]],
            [[15, 18], 1, "Detect", ["nc"]],
        ]
        return {"nc": 1, "depth_multiple": 1.0, "width_multiple": 1.0, "backbone": backbone, "head": head}


DETECTORS = (
    Detector("heron", 960, (16, 32, 48, 96, 96), sessions=72, epochs=8),
    Detector("wren", 416, (8, 16, 32, 48, 48), sessions=24, epochs=8),
)


def training_session(index: int) -> Session:
    """The training session number ``index``: drawn at random, milder than the hardest test sessions."""
    rng = stream(SEED, index)
    return Session(
        name=f"train-{index:03d}",
        site=f"train-{index // 4:02d}",
        kind=_KINDS[index % 4],
        unit=float(np.exp(rng.uniform(np.log(125), np.log(290)))),
        step_s=60.0,
        exposure=float(rng.uniform(0.72, 1.16)),
        contrast=float(rng.uniform(0.85, 1.12)),
        warmth=float(rng.uniform(-0.5, 0.5)),
        haze=float(max(0.0, rng.uniform(-0.2, 0.22))),
        blur=float(max(0.0, rng.uniform(-2.5, 2.5))),
        motion=float(max(0.0, rng.uniform(-3, 3))),
        clutter=float(rng.uniform(0, 0.55)),
        noise=float(rng.uniform(1, 3)),
        seed=90_000 + index,
    )


def make_tiles(index: int, folder: Path, n_frames: int = 14) -> int:
    """Write the tiles of one training session for every detector that sees it; returns how many.

    Around every bird one tile, shifted at random, and one more tile anywhere in the frame; labels as YOLO txt.
    """
    import cv2

    cv2.setNumThreads(1)
    rng, written = stream(SEED, 1, index), 0
    part = "val" if index % 12 == 11 else "train"
    for frame, (image, birds) in enumerate(session_frames(training_session(index), n_frames)):
        for detector in DETECTORS:
            if index >= detector.sessions:
                continue
            scale = detector.imgsz / WIDTH
            small = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
            centres = [(b.box[0] + b.box[2] / 2, b.box[1] + b.box[3] / 2) for b in birds]
            centres += [(float(rng.uniform(0, image.shape[1])), float(rng.uniform(0, image.shape[0])))]
            for k, centre in enumerate(centres):
                shift = rng.uniform(-0.4, 0.4, 2) * detector.tile
                corner = np.round(np.array(centre) * scale + shift - detector.tile / 2).astype(int)
                x, y = np.clip(corner, 0, np.array(small.shape[1::-1]) - detector.tile)
                stem = f"{index:03d}_{frame:02d}_{k}"
                base = folder / detector.name
                tile = small[y : y + detector.tile, x : x + detector.tile]
                cv2.imwrite(str(base / "images" / part / f"{stem}.png"), tile)
                text = _yolo_labels(birds, (int(x), int(y)), scale, detector.tile)
                (base / "labels" / part / f"{stem}.txt").write_text(text, encoding="ascii")
                written += 1
    return written


def _yolo_labels(birds: Sequence[Labelled], corner: tuple[int, int], scale: float, tile: int) -> str:
    """``0 cx cy w h`` per bird, in fractions of the tile; birds of which less than 40 % is inside are left out."""
    lines = []
    for bird in birds:
        x, y, w, h = (v * scale for v in bird.box)
        left, top = np.clip([x - corner[0], y - corner[1]], 0, tile)
        right, bottom = np.clip([x - corner[0] + w, y - corner[1] + h], 0, tile)
        if (right - left) * (bottom - top) >= 0.4 * w * h:
            box = np.array([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]) / tile
            lines.append("0 " + " ".join(f"{v:.6f}" for v in box))
    return "\n".join(lines)


def make_training_set(folder: Path, workers: int) -> None:
    """Write all tiles under ``folder/<detector>/{images,labels}/{train,val}``."""
    for detector in DETECTORS:
        for kind in ("images", "labels"):
            for part in ("train", "val"):
                (folder / detector.name / kind / part).mkdir(parents=True, exist_ok=True)
    n = max(d.sessions for d in DETECTORS)
    with ProcessPoolExecutor(workers) as pool:
        written = sum(pool.map(make_tiles, range(n), [folder] * n))
    log.info("%d tiles of %d training sessions", written, n)


def train(detector: Detector, folder: Path, threads: int) -> Path:
    """Train one detector on its tiles from nothing; returns ultralytics' own checkpoint."""
    os.environ.update(_quiet_ultralytics(folder))
    import torch
    import yaml
    from ultralytics import YOLO

    torch.set_num_threads(threads)
    base = folder / detector.name
    description = {"path": str(base.resolve()), "train": "images/train", "val": "images/val", "names": {0: "bird"}}
    (base / "data.yaml").write_text(yaml.safe_dump(description), encoding="utf-8")
    (base / "yolov8.yaml").write_text(yaml.safe_dump(detector.architecture()), encoding="utf-8")
    settings = {
        "imgsz": detector.tile,
        "epochs": detector.epochs,
        "batch": 16,
        "seed": 0,
        "deterministic": True,
        "device": "cpu",
    }
    settings |= {
        "optimizer": "AdamW",
        "lr0": 0.003,
        "lrf": 0.02,
        "warmup_epochs": 1.0,
        "weight_decay": 5e-4,
        "cos_lr": True,
    }
    settings |= {
        "mosaic": 0.0,
        "scale": 0.25,
        "translate": 0.1,
        "fliplr": 0.5,
        "hsv_h": 0.01,
        "hsv_s": 0.3,
        "hsv_v": 0.3,
        "erasing": 0.0,
    }
    settings |= {
        "workers": 0,
        "cache": "ram",
        "amp": False,
        "val": False,
        "plots": False,
        "verbose": False,
        "exist_ok": True,
    }
    YOLO(str(base / "yolov8.yaml"), task="detect").train(
        data=str(base / "data.yaml"), project=str(folder / "runs"), name=detector.name, **settings
    )
    return folder / "runs" / detector.name / "weights" / "last.pt"


def _quiet_ultralytics(folder: Path) -> dict[str, str]:
    """Settings that keep ultralytics off the network, and the font that it would fetch."""
    import matplotlib

    config = folder / "ultralytics"
    for place in (config, config / "Ultralytics"):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", place / "Arial.ttf")
    return {"YOLO_CONFIG_DIR": str(config), "YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "False", "YOLO_VERBOSE": "False"}


def strip(checkpoint: Path, target: Path, detector: Detector) -> str:
    """Keep of a checkpoint what inference needs, in half precision; returns the sha256 of the file written.

    Left out: optimizer, loss, training arguments, dates, versions, and every path and name of the machine.
    """
    import torch

    loaded = torch.load(checkpoint, map_location="cpu", weights_only=False)  # our own file, written a moment ago
    model = loaded.get("ema") or loaded["model"]
    architecture = detector.architecture() | {"channels": 3}
    kept = {
        "yaml": architecture,
        "args": {"task": "detect", "imgsz": detector.imgsz},
        "names": {0: "bird"},
        "task": "detect",
    }
    for name in [n for n in vars(model) if n in ("criterion", "pt_path", "yaml_file", "loss", "args")]:
        delattr(model, name)
    vars(model).update(kept)
    model.half().eval().requires_grad_(False)
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model, "train_args": {"task": "detect", "imgsz": detector.imgsz}}, target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Make the training set, train both detectors and write ``DIR/heron.pt`` and ``DIR/wren.pt``."""
    parser = argparse.ArgumentParser(prog="python -m birdlab.demo.train", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for tiles, runs and the two .pt files"
    )
    parser.add_argument("--only", choices=[d.name for d in DETECTORS], help="train one of the two")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if not (args.out / "tiles_complete").exists():
        make_training_set(args.out, args.threads)
        (args.out / "tiles_complete").touch()
    for detector in DETECTORS:
        if args.only in (None, detector.name):
            digest = strip(train(detector, args.out, args.threads), args.out / f"{detector.name}.pt", detector)
            sys.stdout.write(f"{args.out / detector.name}.pt  sha256 {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
