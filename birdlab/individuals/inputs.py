"""From the recipe's section ``individuals`` to its tables: the followed birds, clips named by models, keypoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.errors import BirdlabError, DataError, Problem, RecipeError
from birdlab.readers.labels import locate

if TYPE_CHECKING:
    from pathlib import Path

    from birdlab.readers.files import Notice
    from birdlab.recipe import Actions, Individuals, Keypoints
    from birdlab.study import Run

#: What a reader remarks: counted, named and shown.
NOTICES = {"code": pl.String, "message": pl.String, "n": pl.Int64, "file": pl.String}
OKS = {
    "model": pl.String, "measure": pl.String, **dict.fromkeys(("value", "lo", "hi"), pl.Float64), "n": pl.Int64,
    "n_clusters": pl.Int32, "reason": pl.String,
}  # fmt: skip


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of the tables ``colony_*``: truth by hand, trackers, identities, behaviours, people's coding.

    Raises:
        DataError: a file is missing or not as it should be.
        ParameterError: the recipe has no section ``individuals``.
    """
    from birdlab.readers.chirp import read_colony

    section = section_of(run)
    inference = place(run, section.inference) if section.inference else None
    colony = read_colony(place(run, section.folder), inference, fps=section.fps, human=section.human)
    parts = ("videos", "boxes", "events", "tracks", "identities", "windows", "human", "combinations", "notices")
    return {f"colony_{part}": getattr(colony, part) for part in parts}


def build_tasks(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``action_clips``, ``keypoints``, ``keypoint_oks`` and ``task_notices``; empty where nothing is asked.

    Raises:
        DataError: every file that cannot be used, of all models, in one error.
        RecipeError: the same, where a value of the recipe (sigmas, labels) is among it.
    """
    section = section_of(run)
    clips, points, oks = schemas.empty("action_clips"), schemas.empty("keypoints"), pl.DataFrame(schema=OKS)
    notices = [pl.DataFrame(schema=NOTICES)]
    problems: list[Problem] = []
    kind: type[BirdlabError] = DataError
    if section.actions:
        try:
            clips, told = _clips(run, section.actions)
            notices.append(told)
        except BirdlabError as error:
            problems += _problems(error)
            kind = _kind(error, kind)
    if section.keypoints:
        try:
            points, oks, told = _points(run, section.keypoints)
            notices.append(told)
        except BirdlabError as error:
            problems += _problems(error)
            kind = _kind(error, kind)
    if problems:
        raise kind(problems)
    return {
        "action_clips": clips,
        "keypoints": points,
        "keypoint_oks": oks,
        "task_notices": pl.concat(notices),
    }


def _clips(run: Run, actions: Actions) -> tuple[pl.DataFrame, pl.DataFrame]:
    from birdlab.individuals.actions import check_labels, check_list, respelt
    from birdlab.readers.behaviours import read_clips

    check_list(actions.labels)
    files = {name: place(run, path) for name, path in actions.predictions.items()}
    clips, told = read_clips(place(run, actions.truth), files, split=actions.split)
    return check_labels(clips, actions.labels, source=actions.truth), _told([*told, *respelt(clips, actions.labels)])


def _points(run: Run, keypoints: Keypoints) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    from birdlab.individuals.oks import oks_numbers, sigma_list
    from birdlab.individuals.poses import keypoint_table
    from birdlab.readers.coco_keypoints import read_truth
    from birdlab.readers.pose_files import read_poses

    truth = read_truth(place(run, keypoints.truth), scene=keypoints.scene, session=keypoints.session)
    sigmas = sigma_list(truth.names, keypoints.sigmas)
    tables, rows, notices, problems = [schemas.empty("keypoints")], [], list(truth.notices), []
    for model, path in keypoints.predictions.items():
        try:
            found = read_poses(place(run, path), truth)
        except BirdlabError as error:
            problems += _problems(error)
            continue
        table, told = keypoint_table(truth, found, model=model, sigmas=sigmas)
        tables.append(table)
        notices += told
        rows += [{"model": model, "n": len(truth.instances), **row} for row in oks_numbers(truth, found, sigmas)]
    if problems:
        raise DataError(problems)
    return pl.concat(tables), pl.DataFrame(rows, schema=OKS), _told(notices)


def _told(notices: list[Notice]) -> pl.DataFrame:
    return pl.DataFrame([(n.code, n.message, n.n, n.file) for n in notices], schema=NOTICES, orient="row")


def section_of(run: Run) -> Individuals:
    """The recipe's section; see :meth:`birdlab.study.Run.section`."""
    return run.section(
        "individuals", holds="folder, actions, keypoints", chapter="06_actions_keypoints_tracking and 07_application"
    )


def place(run: Run, name: str) -> Path:
    """Where a file or folder named in the recipe lies."""
    return locate(name, run.base, run.data_root)


def _kind(error: BirdlabError, kind: type[BirdlabError]) -> type[BirdlabError]:
    """A mistake of the recipe outweighs one of the data, as in ``birdlab check``."""
    return kind if isinstance(error, DataError) else RecipeError


def _problems(error: BirdlabError) -> list[Problem]:
    return error.problems or [Problem("individuals", str(error), "files as the recipe says")]
