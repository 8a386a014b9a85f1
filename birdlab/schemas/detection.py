"""What detectors gave, and what became of it."""

from __future__ import annotations

import polars as pl

from birdlab.schemas.constants import OUTCOMES
from birdlab.schemas.contract import I32, F, S, may, must, table
from birdlab.schemas.recordings import BOX

TABLES = (
    table(
        "predictions",
        "One row per detection.",
        ("model", "prediction_id"),
        must("model", S, "name of the model in the recipe"),
        must("prediction_id", S, "identifier, unique within the model"),
        must("frame_id", S, "frame"),
        must("category", S, "class name, after the recipe's class map"),
        must("score", F, "confidence in [0, 1]"),
        *BOX,
        may("mask_rle", S, "COCO RLE as JSON text, as in labels"),
        may("track_id", S, "track of the bird through the frames"),
        may("rank", I32, "0-based rank by score within the frame, ties in prediction order"),
    ),
    table(
        "failures",
        "One row per frame that a model could not be asked about: counted and shown, never an empty frame.",
        ("model", "frame_id"),
        must("model", S, "name of the model"),
        must("frame_id", S, "frame"),
        must("stage", pl.Enum(["read", "predict"]), "what failed"),
        must("message", S, "why, in one line"),
    ),
    table(
        "speed",
        "Frames per second, twice per model, warm-up excluded.",
        ("model", "stage"),
        must("model", S, "name of the model"),
        must("stage", pl.Enum(["model", "end_to_end"]), "the network alone, or from file to boxes"),
        may("fps", F, "frames per second; null when nothing was timed"),
        must("n_frames", I32, "frames timed"),
        must("n_warmup", I32, "frames run before the clock started"),
        must("seconds", F, "wall time of the timed frames, s"),
        must("device", S, "device, in words"),
        must("batch", I32, "frames per call"),
        must("imgsz", I32, "longer side of the network's input, px"),
        must("precision", S, "fp32, fp16 or int8"),
    ),
    table(
        "matches",
        "One row per labelled bird and per detection that was kept: what became of it.",
        (),
        must("model", S, "name of the model"),
        must("frame_id", S, "frame"),
        must("video_id", S, "recording session"),
        must("category", S, "class name"),
        may("label_id", S, "labelled bird (null for a false positive)"),
        may("prediction_id", S, "detection (null for a miss)"),
        may("iou", F, "overlap of the pair in [0, 1]"),
        may("score", F, "confidence of the detection"),
        must("outcome", pl.Enum(OUTCOMES), "hit, false positive, miss, or not counted"),
        must("iou_thr", F, "overlap that counts as a hit"),
        must("score_thr", F, "confidence kept"),
        must("protocol", pl.Enum(["greedy", "coco"]), "matcher"),
    ),
)
