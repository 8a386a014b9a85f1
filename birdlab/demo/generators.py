"""Data that birdlab makes itself, by the name that a recipe gives as ``data.generator``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from birdlab.errors import ParameterError, Problem
from birdlab.recipe.sections import GENERATORS


def make_data(name: str, out: Path) -> None:
    """Make the data of one generator in a folder, unless they are there already in this version.

    Args:
        name: one of :data:`birdlab.recipe.sections.GENERATORS`.
        out: folder of the data.

    Raises:
        ParameterError: there is no such generator.
        DataError: the folder cannot be written to.
    """
    _generator(name)[0](out)


def data_version(name: str) -> str:
    """Version of a generator: another one makes other data.

    Raises:
        ParameterError: there is no such generator.
    """
    return _generator(name)[1]


def _generator(name: str) -> tuple[Callable[[Path], None], str]:
    from birdlab.demo import lessons, make, ring_lessons

    if name == "demo":
        return make.make_study, make.VERSION
    if name in lessons.LESSONS:
        return partial(lessons.make_lessons, name), lessons.VERSION
    if name == ring_lessons.NAME:
        return ring_lessons.make_ring_lessons, ring_lessons.VERSION
    raise ParameterError(
        Problem("unknown_generator", repr(name), "one of " + ", ".join(GENERATORS), key="data.generator")
    )
