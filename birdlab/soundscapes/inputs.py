"""From the recipe's section ``soundscapes`` to recordings, annotations, classes, and what there is before anything is scored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab import schemas
from birdlab.readers.class_list import read_classes
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.labels import locate
from birdlab.readers.soundscape_recordings import read_recordings
from birdlab.readers.soundscape_truth import read_annotations
from birdlab.recipe import Soundscapes
from birdlab.soundscapes.audit import audit_tables

if TYPE_CHECKING:
    from birdlab.study import Run

CLASSES = {"class_id": pl.String}
FROM_TRUTH = "no class list was given: the classes are those of the annotations"


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``soundscape_recordings``, ``annotations``, ``soundscape_class_list``, ``soundscape_notices`` and the audit
    (``soundscape_by_month``, ``_by_hour``, ``_counts``, ``_species``, ``_never``, ``_silent``).

    Raises:
        DataError: a file that cannot be used.
        ParameterError: the recipe has no section ``soundscapes``.
    """
    section = section_of(run)
    recordings, notices = None, []
    if section.recordings:
        recordings, told = read_recordings(place(run, section.recordings))
        notices += told
    given, told = read_classes(place(run, section.classes)) if section.classes else (None, [])
    found = read_annotations([place(run, path) for path in section.truth], recordings=recordings, classes=given)
    notices += found.notices
    if recordings is None:
        named = pl.DataFrame({"media_id": found.media}, schema={"media_id": pl.String})
        recordings = schemas.TABLES["soundscape_recordings"].conform(named)
    classes, told = (given, told) if given is not None else _classes_of(found.annotations)
    notices += told
    tables = audit_tables(recordings, found.annotations, classes=classes)
    return {
        "soundscape_recordings": recordings,
        "annotations": found.annotations,
        "soundscape_class_list": pl.DataFrame({"class_id": classes}, schema=CLASSES),
        "soundscape_notices": notice_table(notices),
        **{f"soundscape_{name}": table for name, table in tables.items()},
    }


def _classes_of(annotations: pl.DataFrame) -> tuple[tuple[str, ...], list[Notice]]:
    """The annotated classes, which is remarked."""
    names = annotations["class_id"].unique().sort().to_list()
    return tuple(names), [Notice("classes_of_truth", FROM_TRUTH, len(names))]


def section_of(run: Run) -> Soundscapes:
    """The recipe's section; see :meth:`birdlab.study.Run.section`."""
    return run.section("soundscapes", holds="truth and runs", chapter="08_soundscapes")


def place(run: Run, path: str) -> Path:
    """A path of the section, relative to the recipe or to the folder of the data."""
    return locate(path, run.base, run.data_root)
