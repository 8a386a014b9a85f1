"""The kinds of ``birdlab score`` and their arguments; the work is imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
from functools import partial
from pathlib import Path

#: Who scores what: each module has ``score_command(args) -> exit code``.
KINDS = {
    "detection": "birdlab.detection.command",
    "difficulty": "birdlab.difficulty.command",
    "abstention": "birdlab.abstention.command",
    "application": "birdlab.individuals.command_application",
    "actions": "birdlab.individuals.command_actions",
    "keypoints": "birdlab.individuals.command_keypoints",
    "tracking": "birdlab.individuals.command_tracking",
    "agreement": "birdlab.individuals.command_agreement",
    "visits": "birdlab.field.command",
    "reid": "birdlab.individuals.command_reid",
    "soundscapes": "birdlab.soundscapes.command",
}


def score_arguments(score: argparse.ArgumentParser) -> None:
    """Add every kind of evaluation, with its arguments, to the parser of ``score``."""
    kinds = score.add_subparsers(title="kinds", metavar="KIND", required=True)
    _detection_arguments(kinds.add_parser("detection", help="boxes and masks against COCO ground truth"))
    difficulty = kinds.add_parser("difficulty", help="what makes birds be missed: recall by factor and the joint model")
    difficulty.add_argument("instances", type=Path, metavar="INSTANCES.csv", help="one bird per line")
    difficulty.add_argument(
        "--preset", choices=("default", "bluebird"), default="default", help="quantiles of the bins (default: thirds)"
    )
    difficulty.add_argument("--json", action="store_true", help="print one JSON object")
    difficulty.set_defaults(work=partial(_score, "difficulty"))
    _abstention_arguments(kinds.add_parser("abstention", help="does it know when not to answer? RealBirdID-style"))
    _individuals_arguments(kinds)
    _field_arguments(kinds)
    _reid_arguments(kinds)
    _soundscape_arguments(kinds)


def _score(kind: str, args: argparse.Namespace) -> int:
    return importlib.import_module(KINDS[kind]).score_command(args)


def _detection_arguments(detection: argparse.ArgumentParser) -> None:
    detection.add_argument("truth", type=Path, metavar="GT.json")
    detection.add_argument("predictions", type=Path, nargs="+", metavar="PRED.json")
    detection.add_argument("--iou", type=float, default=0.5, help="overlap that counts as a hit (default 0.5)")
    detection.add_argument("--conf", type=float, default=0.25, help="confidence kept for P, R, F1 (default 0.25)")
    detection.add_argument(
        "--max-dets",
        type=int,
        default=100,
        metavar="N",
        help="detections per frame and class that count for AP (default 100)",
    )
    detection.add_argument("--engine", choices=("hotcoco", "pycocotools"), default="hotcoco")
    detection.add_argument("--class-agnostic", action="store_true", help="a box of any class may match")
    detection.add_argument(
        "--matches",
        type=Path,
        metavar="FILE",
        help="also write what became of every bird and detection (.csv or .parquet)",
    )
    detection.add_argument("--json", action="store_true", help="print one JSON object")
    detection.set_defaults(work=partial(_score, "detection"))


def _abstention_arguments(abstention: argparse.ArgumentParser) -> None:
    from dataclasses import fields
    from typing import get_args, get_type_hints

    from birdlab.abstention.conventions import Cluster, Conventions

    abstention.add_argument("items", type=Path, metavar="ITEMS", help="photographs and their truth (csv, parquet …)")
    abstention.add_argument(
        "scores",
        type=Path,
        nargs="+",
        metavar="SCORES",
        help="species probabilities (wide, or top-k rows), answers in columns, or answers in words (jsonl, csv)",
    )
    abstention.add_argument(
        "--taxonomy",
        metavar="NAME|FILE",
        help="list of birds: ebird_2024 and its like, or a CSV (default: made of the names in the files)",
    )
    abstention.add_argument("--force", action="store_true", help="IG and UA/A from top-k lists that miss much, too")
    hints = get_type_hints(Conventions)
    for field in fields(Conventions):
        choices = get_args(hints[field.name])
        text = f"{' | '.join(choices)} (default {field.default})"
        abstention.add_argument(f"--{field.name}", choices=choices, default=field.default, metavar="CHOICE", help=text)
    clusters = get_args(Cluster)
    abstention.add_argument(
        "--cluster",
        choices=clusters,
        default="genus",
        metavar="WHAT",
        help=f"what intervals resample: {' | '.join(clusters)} (default genus)",
    )
    abstention.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="for intervals (default 1000; 0: no intervals)"
    )
    abstention.add_argument("--seed", type=int, default=1, help="of the resampling (default 1)")
    abstention.add_argument("--normalise", action="store_true", help="divide every row of a matrix by its sum")
    abstention.add_argument("--ids", type=Path, metavar="FILE", help="npy: item of each row, one per line")
    abstention.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="npy: label of each column, one per line; top-k rows: all labels of the model",
    )
    abstention.add_argument(
        "--missing",
        choices=("error", "drop"),
        default="error",
        help="items that a model gives nothing for: an error (default), or left out and counted",
    )
    abstention.add_argument("--json", action="store_true", help="print one JSON object")
    abstention.set_defaults(work=partial(_score, "abstention"))


def _individuals_arguments(kinds: argparse._SubParsersAction) -> None:
    application = kinds.add_parser("application", help="do errors reach the biology? CHIRP-style: rates, co-occurrence")
    application.add_argument("dataset", type=Path, metavar="DATASET_DIR", help="MetaData.csv and GroundTruth")
    application.add_argument(
        "inference", type=Path, nargs="?", metavar="INFERENCE_DIR", help="default: InferenceData in DATASET_DIR"
    )
    application.add_argument("--protocol", choices=("documented", "reference"), default="documented")
    application.add_argument(
        "--fps", type=float, metavar="N", help="frame rate where MetaData.csv has none (default 25)"
    )
    application.add_argument("--json", action="store_true", help="print one JSON object")
    application.set_defaults(work=partial(_score, "application"))

    actions = kinds.add_parser("actions", help="behaviours of clips against those named by hand")
    actions.add_argument(
        "truth", type=Path, metavar="TRUTH.csv", help="BehaviourAnnotations.csv, or clip_id,video_id,behaviour"
    )
    actions.add_argument("predictions", type=Path, nargs="+", metavar="PRED.csv", help="clip_id,behaviour")
    actions.add_argument(
        "--labels", default="Peck,Submissive,Other", help="the declared list, with commas (default %(default)s)"
    )
    actions.add_argument("--split", default="Test", help="clips of this split, or all (default Test)")
    actions.add_argument("--json", action="store_true", help="print one JSON object")
    actions.set_defaults(work=partial(_score, "actions"))

    keypoints = kinds.add_parser("keypoints", help="keypoints against those placed by hand: px, PCK, OKS")
    keypoints.add_argument("truth", type=Path, metavar="GT.json", help="COCO keypoints")
    keypoints.add_argument(
        "predictions", type=Path, nargs="+", metavar="PRED", help="COCO results, a COCO file, DeepLabCut or SLEAP files"
    )
    keypoints.add_argument("--sigmas", default="0.05", metavar="0.05|FILE.json", help="fall-off of OKS (default 0.05)")
    keypoints.add_argument("--scene", default="scene", help="field of the images that names the kind of scene")
    keypoints.add_argument("--session", default="video", help="field of the images that names the video")
    keypoints.add_argument("--json", action="store_true", help="print one JSON object")
    keypoints.set_defaults(work=partial(_score, "keypoints"))

    tracking = kinds.add_parser("tracking", help="tracks in MOT text: HOTA, IDF1, MOTA by TrackEval")
    tracking.add_argument("truth", type=Path, metavar="TRUTH", help="a file, or a folder with one per video")
    tracking.add_argument("predictions", type=Path, nargs="+", metavar="PRED", help="the same of a tracker")
    tracking.add_argument("--frames", type=int, metavar="N", help="length of each video (default: its last box)")
    tracking.add_argument("--json", action="store_true", help="print one JSON object")
    tracking.set_defaults(work=partial(_score, "tracking"))


def _field_arguments(kinds: argparse._SubParsersAction) -> None:
    visits = kinds.add_parser("visits", help="visit rates and co-occurrence of a Camtrap DP package")
    visits.add_argument("package", type=Path, metavar="PACKAGE", help="datapackage.json, or its folder")
    visits.add_argument(
        "--gap", type=float, default=0.0, metavar="MIN", help="events less than this apart are one visit (default 0)"
    )
    visits.add_argument("--unit", choices=("hours", "events"), default="hours", help="what co-occurrence counts")
    visits.add_argument(
        "--hours", type=float, default=1.0, metavar="H", help="length of a window of effort (default 1)"
    )
    visits.add_argument("--json", action="store_true", help="print one JSON object")
    visits.set_defaults(work=partial(_score, "visits"))

    agreement = kinds.add_parser("agreement", help="two BORIS exports of the same video: kappa, rate ICC")
    agreement.add_argument("first", type=Path, metavar="FIRST", help="tabular, aggregated or binary export of BORIS")
    agreement.add_argument("second", type=Path, metavar="SECOND", help="the same by another observer")
    agreement.add_argument("--window", type=float, default=1.0, metavar="S", help="windows of kappa, s (default 1)")
    agreement.add_argument("--length", type=float, metavar="S", help="length of the video, where no export says")
    agreement.add_argument("--video", metavar="NAME", help="name of the video, where the exports do not say")
    agreement.add_argument("--subject", metavar="BIRD", help="bird of binary tables whose name does not end in it")
    agreement.add_argument("--json", action="store_true", help="print one JSON object")
    agreement.set_defaults(work=partial(_score, "agreement"))


def _reid_arguments(kinds: argparse._SubParsersAction) -> None:
    reid = kinds.add_parser("reid", help="who is it? rankings of birds against their truth, beside chance")
    reid.add_argument(
        "queries",
        type=Path,
        metavar="QUERIES",
        help="query_id, individual_id, split[, video_id, is_known, role, candidates_territory, candidates_neighbours]",
    )
    reid.add_argument(
        "ranking",
        type=Path,
        metavar="RANKING",
        help="query_id, gallery, individual_id, rank or similarity[, model, split]",
    )
    reid.add_argument("--json", action="store_true", help="print one JSON object")
    reid.set_defaults(work=partial(_score, "reid"))


def _soundscape_arguments(kinds: argparse._SubParsersAction) -> None:
    sound = kinds.add_parser("soundscapes", help="run files against annotations: c-mAP and r-mAP of BirdCLEF 2019")
    sound.add_argument(
        "truth", type=Path, metavar="GT.csv", help="annotations: MediaId;ClassId;TC1-TC2;Country, or others"
    )
    sound.add_argument("runs", type=Path, nargs="+", metavar="RUN.txt", help="MediaId;TC1-TC2;ClassId;Probability")
    sound.add_argument(
        "--classes", type=Path, required=True, metavar="FILE", help="class ids, one per line or first column"
    )
    sound.add_argument(
        "--recordings", type=Path, metavar="FILE", help="CSV media_id,duration_s: silent recordings count"
    )
    sound.add_argument("--lenient", action="store_true", help="repair what can be, and count every repair")
    sound.add_argument("--max-classes", type=int, metavar="N", help="most classes per segment (2018: 100, 2020: 10)")
    sound.add_argument("--json", action="store_true", help="print one JSON object")
    sound.set_defaults(work=partial(_score, "soundscapes"))
