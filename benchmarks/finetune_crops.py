"""A detector of the demo, plain and fine-tuned on real birds, scored on sites it was not fine-tuned on.

    python benchmarks/finetune_crops.py                  # six sites in three turns, each tested once
    python benchmarks/finetune_crops.py --turns 1 --epochs 3
    python benchmarks/finetune_crops.py --masks          # a small segmenter from random weights, on the masks

Needs the folder of real data (``BIRDLAB_REAL_DATA``, else ``shared/data`` beside the project): 158 crops of 240 x 192 px
from 18 videos at 6 sites, 165 birds of a median of 31 px². In every turn one or two sites are the test part, one or
two choose the best epoch, and the rest is trained on. ``wren`` has seen drawn birds only. In each turn a recipe runs the
weights before and after, as any two models of a study, at one imgsz; the detections of all turns are scored together. So
what is measured is the way of fine-tuning: each turn has a network of its own. The settings are first guesses and were
not chosen by these scores.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from birdlab.detection.comparison import compare_recall
from birdlab.detection.engine import evaluate
from birdlab.detection.groups import shares
from birdlab.detection.masks import evaluate_masks
from birdlab.detection.matching import match
from birdlab.recipe import Recipe
from birdlab.study import Run, start
from birdlab.training.train import TrainedModel, train_models

PROJECT = Path(__file__).resolve().parents[1]
#: Sites of the test part and of the validation part, turn by turn; the other sites are trained on.
TURNS = (
    (("birch", "field"), ("harbour",)),
    (("harbour", "golf"), ("park",)),
    (("park", "sky"), ("field", "golf")),
)
SITES = ("birch", "field", "golf", "harbour", "park", "sky")
CONF = 0.25
RECIPE = """
name: finetune_crops
title: Fine-tuned on some sites, scored on others
seed: 1
device: cpu
data:
  root: {crops}
  licence: CC0-1.0
  media:
    - images: images/*.jpg   # sessions and sites stand in the label file
  labels:
    - path: {crops}/coco.json
      format: coco
training:
  split:
    by: site
    shares: {{train: 0.6, val: 0.2, test: 0.2}}
    fixed: {fixed}
  models:
    - name: tuned
      architecture: {architecture}
      weights: {weights}
      imgsz: 480             # twice the crops' own size: the birds are 6 px wide
      batch: 8
      epochs: 10
      patience: 10
      lr: 0.001
      licence: AGPL-3.0
      settings: {{mosaic: 0.0, warmup_epochs: 1.0}}
notebooks: [train_detector]
"""
#: A small YOLOv8 segmenter whose masks are drawn at a quarter of the input.
SEGMENTER = """
nc: 1
depth_multiple: 1.0
width_multiple: 1.0
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, C2f, [16, true]]
  - [-1, 1, Conv, [32, 3, 2]]
  - [-1, 1, C2f, [32, true]]
  - [-1, 1, Conv, [48, 3, 2]]
  - [-1, 1, C2f, [48, true]]
head:
  - [-1, 1, nn.Upsample, [null, 2, nearest]]
  - [[-1, 4], 1, Concat, [1]]
  - [-1, 1, C2f, [32]]
  - [-1, 1, nn.Upsample, [null, 2, nearest]]
  - [[-1, 2], 1, Concat, [1]]
  - [-1, 1, C2f, [16]]
  - [[12, 9, 6], 1, Segment, [nc, 8, 16]]
"""


def demo_weights(name: str, folder: Path) -> tuple[Path, Path]:
    """A detector of the demo: its weights, and its architecture written into ``folder`` as the file describes it."""
    from birdlab.inference.checkpoint import load_checkpoint
    from birdlab.inference.ultralytics_adapter import prepare_environment

    prepare_environment(folder / "cache")
    weights = PROJECT / "birdlab" / "demo" / "weights" / f"{name}.pt"
    held = load_checkpoint(weights)["model"].yaml
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({k: held[k] for k in ("nc", "backbone", "head")}), encoding="utf-8")
    return weights, path


def training_recipe(crops: Path, folder: Path, turn: int, *, detector: str = "wren", **model: Any) -> Path:
    """Write the recipe of one turn, with other values for its model where they are given."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, architecture = demo_weights(detector, folder)
    test, val = TURNS[turn]
    fixed = {s: "test" if s in test else "val" if s in val else "train" for s in SITES}
    text = RECIPE.format(crops=crops, fixed=fixed, weights=weights, architecture=architecture)
    raw = yaml.safe_load(text)
    raw["training"]["models"][0] |= model
    path = folder / "finetune_crops.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return path


def fine_tune(path: Path) -> list[TrainedModel]:
    """Train what a recipe of :func:`training_recipe` names, or read it where that was done before."""
    run = start(str(path), notebook="train_detector")
    if run.recipe.training is None:
        raise SystemExit(f"{path}: no section training")
    return train_models(run, run.recipe.training)


def scoring_run(path: Path, models: list[dict[str, Any]]) -> Run:
    """A study of these models on the test part that the recipe's training was split into."""
    trained = start(str(path), notebook="train_detector")
    test = trained.recipe.training.split.fixed if trained.recipe.training else {}
    frames = trained.table("frames").filter(pl.col("site_id").is_in([s for s, part in test.items() if part == "test"]))
    told = trained.recipe.model_dump(mode="json", exclude={"training", "notebooks"})
    told |= {"name": "held_out", "models": models, "notebooks": ["02_detection"]}
    told["data"]["media"] = [{"images": f"images/{s}_f*.jpg"} for s in sorted(frames["video_id"].unique())]
    Recipe.model_validate(told)
    other = path.with_name("held_out.yaml")
    other.write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")
    return start(str(other), notebook="02_detection")


def plain_and_tuned(path: Path, tuned: TrainedModel, *, detector: str = "wren") -> Run:
    """A study of the weights that training started from and those it ended with, at one imgsz, on the test part."""
    imgsz = int(tuned.card["settings"]["imgsz"])
    weights = PROJECT / "birdlab" / "demo" / "weights" / f"{detector}.pt"
    models = [{"name": "plain", "weights": str(weights), "imgsz": imgsz}]
    models.append({"name": "tuned", "weights": str(tuned.weights), "imgsz": imgsz, "sha256": tuned.sha256})
    return scoring_run(path, models)


def pooled(runs: list[Run]) -> dict[str, pl.DataFrame]:
    """Frames, labels and predictions of the turns' studies in one; no frame is in two of them."""
    parts = {name: pl.concat([r.table(name) for r in runs]) for name in ("frames", "labels", "predictions")}
    frames = parts["frames"].filter(pl.col("label_state") != "unlabelled")
    if frames["frame_id"].is_duplicated().any():
        raise SystemExit("a frame was tested in two turns")
    return parts | {"frames": frames}


def score_lines(tables: dict[str, pl.DataFrame], models: list[str]) -> list[str]:
    """AP, and precision and recall with both intervals, of each model on the same frames; the paired difference."""
    frames, labels, found = (tables[k] for k in ("frames", "labels", "predictions"))
    lines = [f"{frames.height} frames, {frames['video_id'].n_unique()} sessions, {frames['site_id'].n_unique()} sites"]
    matches = match(labels, found, frames, conf=CONF, models=models)
    for name in models:
        result = evaluate(labels, found.filter(pl.col("model") == name), frames)
        ap, ap50 = (result.stats[k] for k in ("ap", "ap50"))
        lines.append(f"{name}: AP {_number(ap)}, AP50 {_number(ap50)} ({result.n_ground_truth} birds)")
        rows = shares(matches.filter(pl.col("model") == name), frames, method="m")
        for metric in ("recall", "precision"):
            value, within, new = (r for r in rows if r["metric"] == metric)
            about = f"{_number(value['value'])} of {value['n']}" + (f", {value['reason']}" if value["reason"] else "")
            lines.append(f"    {metric} {about}; these sessions {_ends(within)}, new sites {_ends(new)}")
    for r in compare_recall(matches, frames).filter(pl.col("kind") == "new_sessions").iter_rows(named=True):
        clusters = f"{r['n_clusters']} {r['unit']}s"
        ends = "no interval" if r["lo"] is None else f"[{r['lo']:.2f}, {r['hi']:.2f}], p = {r['p']:.2g}"
        lines.append(f"recall of {r['model_a']} minus {r['model_b']}: {r['difference']:.2f} {ends} ({clusters})")
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(row: dict[str, Any]) -> str:
    ends = "–" if row["lo"] is None else f"[{row['lo']:.2f}, {row['hi']:.2f}]"
    return f"{ends} ({row['n_clusters']})"


def compare(crops: Path, folder: Path, *, turns: int, detector: str, **model: Any) -> list[str]:
    """The table of plain against fine-tuned over the first ``turns`` turns."""
    runs, lines = [], []
    for turn in range(turns):
        began = time.monotonic()
        path = training_recipe(crops, folder / f"turn-{turn + 1}", turn, detector=detector, **model)
        (tuned,) = fine_tune(path)
        runs.append(plain_and_tuned(path, tuned, detector=detector))
        ap = dict(_ap_by_model(pooled(runs[-1:])))
        parts = tuned.card["data"]["parts"]
        n = ", ".join(f"{parts[p]['frames']} {p}" for p in ("train", "val", "test"))
        seconds, best = time.monotonic() - began, tuned.card["training"]["best_epoch"]
        what = f"AP plain {_number(ap['plain'])}, fine-tuned {_number(ap['tuned'])}"
        lines.append(f"turn {turn + 1}, tested on {' and '.join(TURNS[turn][0])} ({n} frames): {what}; ")
        lines[-1] += f"best epoch {best} of {tuned.log.height}, {seconds:.0f} s"
    return lines + score_lines(pooled(runs), ["plain", "tuned"])


def _ap_by_model(tables: dict[str, pl.DataFrame]) -> list[tuple[str, float | None]]:
    frames, labels, found = (tables[k] for k in ("frames", "labels", "predictions"))
    return [(n, evaluate(labels, found.filter(pl.col("model") == n), frames).stats["ap"]) for n in ("plain", "tuned")]


def segment(crops: Path, folder: Path, **model: Any) -> tuple[TrainedModel, Run, list[str]]:
    """A small segmenter from random weights in the first turn: the run, its study on the test part, and lines."""
    told = {"name": "outlines", "task": "segment", "architecture": str(folder / "small-seg.yaml"), "weights": None}
    told |= {"epochs": 12, "lr": 0.005}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small-seg.yaml").write_text(SEGMENTER, encoding="utf-8")
    path = training_recipe(crops, folder, 0, **(told | model))
    (made,) = fine_tune(path)
    one = {"name": "outlines", "weights": str(made.weights), "imgsz": int(made.card["settings"]["imgsz"])}
    run = scoring_run(path, [one])
    tables = pooled([run])
    result = evaluate_masks(tables["labels"], tables["predictions"], tables["frames"], conf=CONF)
    point = result.fixed
    means = ", ".join(f"{k} {_number(v)}" for k, v in result.miou.items())
    lines = [
        f"masks of {result.n_ground_truth} birds in {result.n_images} frames: AP {_number(result.ap)}, "
        f"AP50 {_number(result.ap50)}; at {CONF}: {point.tp} hits, {point.fp} false, {point.fn} missed",
        f"mIoU: {means}",
        f"boxes: AP {_number(made.scores['test']['ap'])}, AP50 {_number(made.scores['test']['ap50'])}; "
        f"best epoch {made.card['training']['best_epoch']} of {made.log.height}",
    ]
    return made, run, lines


def main() -> int:
    """Print the table; 0 whatever it says: which of the two is better is what is asked."""
    about = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    about.add_argument("--turns", type=int, choices=(1, 2, 3), default=3)
    about.add_argument("--detector", choices=("wren", "heron"), default="wren")
    about.add_argument("--epochs", type=int)
    about.add_argument("--masks", action="store_true", help="the segmenter in place of the detector")
    about.add_argument("--out", type=Path, help="keep the runs here, and resume them (default: thrown away)")
    args = about.parse_args()
    data = Path(os.environ.get("BIRDLAB_REAL_DATA", PROJECT.parent / "shared" / "data"))
    crops = (data / "flying_birds" / "crops").resolve()
    if not crops.is_dir():
        sys.stdout.write("no folder of real data (set BIRDLAB_REAL_DATA)\n")
        return 0
    model = {"epochs": args.epochs, "patience": args.epochs} if args.epochs else {}
    with tempfile.TemporaryDirectory() as scratch:
        out = (args.out or Path(scratch)).resolve()
        if args.masks:
            *_, lines = segment(crops, out / "masks", **model)
        else:
            lines = compare(crops, out, turns=args.turns, detector=args.detector, **model)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
