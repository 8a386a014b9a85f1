"""Checkpoints of a run that may be killed at any time: whole or absent, plain tensors, and bound to their settings.

``last.pt`` holds all that the next epoch depends on, the log and the best weights so far. It is the only authority:
``log.csv`` and ``best.pt`` are written from it, so no epoch is logged twice and none is lost.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.shards import write_atomic
from birdlab.training.curves import best_epoch, write_log

FORMAT = 1
_LOAD_ERRORS = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, OSError)


@dataclass
class Course:
    """How far a run has come: its log, its best weights, and where it was taken up again.

    Args:
        about: settings the run is bound to (plain JSON types).
        rows: one per finished epoch, as :mod:`birdlab.training.curves` has them.
        best: tensors of the best epoch's network, on the CPU.
        resumed_after: finished epochs each time the run was taken up again.
    """

    about: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    resumed_after: list[int] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Finished epochs."""
        return len(self.rows)

    def add(self, row: dict[str, Any], state: dict[str, Any]) -> bool:
        """Note a finished epoch; keep its network where it is the best so far, and say whether it is."""
        self.rows.append(row)
        is_best = best_epoch(self.rows) == row["epoch"]
        if is_best:
            self.best = on_cpu(state)
        return is_best


@dataclass(frozen=True)
class Fit:
    """What training gave.

    Args:
        course: log, best weights, resumptions.
        stopped: ``epochs`` or ``patience``.
        last_sha256: hash of the network after the last epoch (:func:`birdlab.training.determinism.state_sha256`).
        state_sha256: hash of the tensors in ``best.pt``.
        settings: what the library was told, plain JSON types.
        notes: what a reader of the model card should know.
    """

    course: Course
    stopped: str
    last_sha256: str
    state_sha256: str
    settings: dict[str, Any]
    notes: list[str]


def on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of a state dict on the CPU, cut off from the network it came from."""
    import torch

    return {k: v.detach().to("cpu", copy=True) if isinstance(v, torch.Tensor) else v for k, v in state.items()}


def save_course(folder: Path, course: Course, moving: dict[str, Any]) -> None:
    """Write ``last.pt`` and then ``log.csv``, each whole or not at all.

    Args:
        folder: folder of the run.
        course: how far the run is.
        moving: state of network, optimiser and schedule: nested mappings and lists of tensors, numbers and texts.
    """
    import torch

    held = {"format": FORMAT, "about": course.about, "rows": course.rows, "best": course.best}
    held |= {"resumed_after": course.resumed_after, "moving": moving}
    write_atomic(folder / "last.pt", lambda temporary: torch.save(held, temporary))
    write_log(folder / "log.csv", course.rows)


def load_course(folder: Path, about: dict[str, Any]) -> tuple[Course, dict[str, Any]] | None:
    """The run to go on with, or ``None`` where none was begun.

    Args:
        folder: folder of the run.
        about: settings the run must have been begun with.

    Raises:
        DataError: ``last.pt`` is damaged or something else.
        ParameterError: it was begun with other settings or other data; each difference is named.
    """
    import torch

    path = folder / "last.pt"
    if not path.exists():
        return None
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
        found = held["format"], held["about"], held["rows"], held["best"], held["resumed_after"], held["moving"]
    except (*_LOAD_ERRORS, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        remedy = "delete the file to train from the first epoch"
        expected = "a checkpoint that this training wrote"
        raise DataError(Problem("bad_checkpoint", first, expected, remedy, file=str(path))) from error
    check_about(found[1], about, path)
    course = Course(found[1], found[2], found[3], [*found[4], len(found[2])])
    write_log(folder / "log.csv", course.rows)
    return course, found[5]


def check_about(was: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    """Refuse to go on with a run under settings it was not begun with.

    Raises:
        ParameterError: one problem per setting that differs.
    """
    remedy = "give the model another name, delete its folder, or go back to the settings it was begun with"
    problems = [
        Problem(
            "other_settings", repr(now.get(key)), f"{was.get(key)!r}, as it was begun", remedy, file=str(path), key=key
        )
        for key in sorted(set(was) | set(now))
        if was.get(key) != now.get(key)
    ]
    if problems:
        raise ParameterError(problems)
