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
from birdlab.cli_score import score_arguments
from birdlab.errors import EXIT_OK, EXIT_USAGE, BirdlabError, DataError, Problem


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

    convert = commands.add_parser(
        "convert", help="CHIRP's pickles as JSON beside them; tracks of a run in CHIRP's layout"
    )
    convert.add_argument(
        "path", type=Path, metavar="PATH", help="a pickle, a folder of them, or a run that followed birds"
    )
    convert.add_argument(
        "--out", type=Path, metavar="DIR", help="of a run: folder that gets InferenceData (default: the run's)"
    )
    convert.add_argument("--force", action="store_true", help="replace files that are already there")
    convert.add_argument("--json", action="store_true", help="print one JSON object")
    convert.set_defaults(work=_convert)

    score_arguments(commands.add_parser("score", help="one evaluation without a notebook"))
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
    from birdlab.report.render import missing_of, render_run

    sys.stdout.write(f"{render_run(args.run)}\n")
    if lost := missing_of(args.run):
        n = f"{len(lost):,} {'file' if len(lost) == 1 else 'files'} of the run missing; the page was written and says so\n"
        sys.stdout.write(n)
        raise DataError(lost)
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


if __name__ == "__main__":
    sys.exit(main())
