"""The ``birdlab`` command: run, report, init, check, convert, score.

Only the parser is built here, from the standard library, so that ``--help`` answers at once; the work is imported
when it is asked for. Exit codes: 0 fine, 1 a notebook failed, 2 usage or recipe, 3 data missing or not as promised.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from birdlab import __version__
from birdlab.errors import EXIT_OK, EXIT_USAGE, BirdlabError, Problem


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A user's mistake is one clear message on stderr, never a traceback."""
    parser = _parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "work"):
        parser.print_help()
        return EXIT_USAGE
    try:
        return args.work(args)
    except BirdlabError as error:
        if getattr(args, "json", False):
            sys.stdout.write(json.dumps(error.as_json(), ensure_ascii=False) + "\n")
        sys.stderr.write(f"birdlab: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`birdlab … | head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        # What the system refuses anywhere: a full disk, a folder that may not be written.
        remedy = "mend that and run the same command again; what was finished is kept"
        where = str(error.filename) if error.filename else None
        problem = Problem("system", error.strerror or str(error), "to read or write here", remedy, file=where)
        sys.stderr.write(f"birdlab: {problem}\n")
        return EXIT_USAGE
    except KeyboardInterrupt:
        sys.stderr.write("birdlab: interrupted; what was finished is kept, run the same command to go on\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="birdlab",
        description="Computer vision on birds: from frames to a report that can be mailed.",
        epilog="examples:\n  birdlab run reports/demo.yaml\n  birdlab init ~/videos/nest7\n  birdlab score detection truth.json model.json --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"birdlab {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    _run_arguments(commands.add_parser("run", help="execute a recipe's notebooks in order and write the report"))

    report = commands.add_parser("report", help="write report.html again from what a run left; executes nothing")
    report.add_argument("run", type=Path, metavar="RUN", help="folder of a run")
    report.set_defaults(work=_report)

    init = commands.add_parser("init", help="look at a folder and write a recipe and a manifest for it")
    _init_arguments(init)
    init.set_defaults(work=_init)

    check = commands.add_parser(
        "check", help="every problem of a recipe, manifest, data file or notebook in one list; runs nothing"
    )
    check.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    check.add_argument("--against", type=Path, metavar="GT.json", help="ground truth that a results file belongs to")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.set_defaults(work=_check)

    convert = commands.add_parser("convert", help="pickles of plain values (CHIRP's predictions) as JSON beside them")
    convert.add_argument("path", type=Path, metavar="PATH", help="a pickle, or a folder of them")
    convert.add_argument("--force", action="store_true", help="replace JSON files that are already there")
    convert.add_argument("--json", action="store_true", help="print one JSON object")
    convert.set_defaults(work=_convert)

    score = commands.add_parser("score", help="one evaluation without a notebook")
    kinds = score.add_subparsers(title="kinds", metavar="KIND", required=True)
    _detection_arguments(kinds.add_parser("detection", help="boxes and masks against COCO ground truth"))
    difficulty = kinds.add_parser("difficulty", help="what makes birds be missed: recall by factor and the joint model")
    difficulty.add_argument("instances", type=Path, metavar="INSTANCES.csv", help="one bird per line")
    difficulty.add_argument(
        "--preset", choices=("default", "bluebird"), default="default", help="quantiles of the bins (default: thirds)"
    )
    difficulty.add_argument("--json", action="store_true", help="print one JSON object")
    difficulty.set_defaults(work=_score_difficulty)
    _abstention_arguments(kinds.add_parser("abstention", help="does it know when not to answer? RealBirdID-style"))
    _individuals_arguments(kinds)
    _field_arguments(kinds)
    return parser


def _run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("recipe", type=Path, metavar="RECIPE")
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run (default: beside the recipe, named like it)"
    )
    run.add_argument(
        "-p",
        dest="parameters",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of the notebooks (NOTEBOOK.NAME=VALUE for one of them)",
    )
    run.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="notebooks at the same time, where they do not wait for each other",
    )
    run.add_argument("--only", default="", metavar="02,03", help="only these notebooks, by number or name")
    run.add_argument("--force", action="store_true", help="execute unchanged notebooks too")
    run.add_argument(
        "--timeout", type=int, default=0, metavar="SECONDS", help="longest time for one cell (default: no limit)"
    )
    run.set_defaults(work=_run)


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
    detection.set_defaults(work=_score_detection)


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
    abstention.set_defaults(work=_score_abstention)


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
    application.set_defaults(work=_score_application)

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
    actions.set_defaults(work=_score_actions)

    keypoints = kinds.add_parser("keypoints", help="keypoints against those placed by hand: px, PCK, OKS")
    keypoints.add_argument("truth", type=Path, metavar="GT.json", help="COCO keypoints")
    keypoints.add_argument(
        "predictions", type=Path, nargs="+", metavar="PRED", help="COCO results, a COCO file, DeepLabCut or SLEAP files"
    )
    keypoints.add_argument("--sigmas", default="0.05", metavar="0.05|FILE.json", help="fall-off of OKS (default 0.05)")
    keypoints.add_argument("--scene", default="scene", help="field of the images that names the kind of scene")
    keypoints.add_argument("--session", default="video", help="field of the images that names the video")
    keypoints.add_argument("--json", action="store_true", help="print one JSON object")
    keypoints.set_defaults(work=_score_keypoints)

    tracking = kinds.add_parser("tracking", help="tracks in MOT text: HOTA, IDF1, MOTA by TrackEval")
    tracking.add_argument("truth", type=Path, metavar="TRUTH", help="a file, or a folder with one per video")
    tracking.add_argument("predictions", type=Path, nargs="+", metavar="PRED", help="the same of a tracker")
    tracking.add_argument("--frames", type=int, metavar="N", help="length of each video (default: its last box)")
    tracking.add_argument("--json", action="store_true", help="print one JSON object")
    tracking.set_defaults(work=_score_tracking)


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
    visits.set_defaults(work=_score_visits)

    agreement = kinds.add_parser("agreement", help="two BORIS exports of the same video: kappa, rate ICC")
    agreement.add_argument("first", type=Path, metavar="FIRST", help="tabular, aggregated or binary export of BORIS")
    agreement.add_argument("second", type=Path, metavar="SECOND", help="the same by another observer")
    agreement.add_argument("--window", type=float, default=1.0, metavar="S", help="windows of kappa, s (default 1)")
    agreement.add_argument("--length", type=float, metavar="S", help="length of the video, where no export says")
    agreement.add_argument("--video", metavar="NAME", help="name of the video, where the exports do not say")
    agreement.add_argument("--subject", metavar="BIRD", help="bird of binary tables whose name does not end in it")
    agreement.add_argument("--json", action="store_true", help="print one JSON object")
    agreement.set_defaults(work=_score_agreement)


def _init_arguments(init: argparse.ArgumentParser) -> None:
    init.add_argument("folder", type=Path, metavar="FOLDER")
    init.add_argument("--name", help="name of the study (default: the folder's)")
    init.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="project folder that gets reports/ and data_manifests/ (default: here)",
    )
    init.add_argument(
        "--session",
        metavar="HOW",
        help="what one recording session is: folder, file, one (all of it), or a pattern with one (group)",
    )
    init.add_argument("--site", metavar="HOW", help="where it was: a name, folder, or a pattern with one (group)")
    init.add_argument(
        "--no-label",
        choices=("empty", "unlabelled"),
        help="a picture without labels: looked at and no bird (empty), or not looked at (unlabelled)",
    )
    init.add_argument(
        "--truth", metavar="FILE", help="label file that is the truth, where several label the same pictures"
    )
    init.add_argument("--licence", help="licence of the data, e.g. CC0-1.0")
    init.add_argument("--source", help="where the data come from")
    init.add_argument("--yes", action="store_true", help="ask nothing, take the defaults and say which")
    init.add_argument("--force", action="store_true", help="replace a recipe and a manifest that are already there")


def _run(args: argparse.Namespace) -> int:
    from birdlab.report.run import run_recipe

    return run_recipe(
        args.recipe,
        out=args.out,
        parameters=args.parameters,
        jobs=args.jobs,
        only=args.only,
        force=args.force,
        timeout=args.timeout or None,
    )


def _report(args: argparse.Namespace) -> int:
    from birdlab.report.render import render_run

    sys.stdout.write(f"{render_run(args.run)}\n")
    return EXIT_OK


def _init(args: argparse.Namespace) -> int:
    from birdlab.init.command import initialise

    return initialise(args)


def _check(args: argparse.Namespace) -> int:
    from birdlab.check.command import check_command

    return check_command(args)


def _convert(args: argparse.Namespace) -> int:
    from birdlab.readers.convert import convert_command

    return convert_command(args)


def _score_detection(args: argparse.Namespace) -> int:
    from birdlab.detection.command import score_command

    return score_command(args)


def _score_difficulty(args: argparse.Namespace) -> int:
    from birdlab.difficulty.command import score_command

    return score_command(args)


def _score_abstention(args: argparse.Namespace) -> int:
    from birdlab.abstention.command import score_command

    return score_command(args)


def _score_actions(args: argparse.Namespace) -> int:
    from birdlab.individuals.command_actions import score_command

    return score_command(args)


def _score_keypoints(args: argparse.Namespace) -> int:
    from birdlab.individuals.command_keypoints import score_command

    return score_command(args)


def _score_tracking(args: argparse.Namespace) -> int:
    from birdlab.individuals.command_tracking import score_command

    return score_command(args)


def _score_agreement(args: argparse.Namespace) -> int:
    from birdlab.individuals.command_agreement import score_command

    return score_command(args)


def _score_visits(args: argparse.Namespace) -> int:
    from birdlab.field.command import score_command

    return score_command(args)


def _score_application(args: argparse.Namespace) -> int:
    from birdlab.individuals.command_application import score_command

    return score_command(args)


if __name__ == "__main__":
    sys.exit(main())
