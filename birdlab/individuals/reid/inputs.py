"""From the recipe's section ``reid`` to clips, roles, lists of candidates, and what is to be said of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.individuals.reid.counts import counts
from birdlab.individuals.reid.leaks import leakage
from birdlab.individuals.reid.splits import build_roles, validation_from_gallery
from birdlab.readers.labels import locate
from birdlab.readers.reid_clips import read_clips
from birdlab.readers.reid_lists import read_candidates
from birdlab.recipe import Reid

if TYPE_CHECKING:
    from birdlab.study import Run

SIZES = {
    "split": pl.String, "role": pl.String, "n_clips": pl.Int64, "n_individuals": pl.Int64, "n_videos": pl.Int64,
    "n_unknown": pl.Int64,
}  # fmt: skip


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``reid_clips``, ``reid_images``, ``reid_roles``, ``reid_candidates``, ``reid_notices``, ``reid_leaks``,
    ``reid_counts`` and ``reid_sizes``.

    Raises:
        DataError: a file that cannot be used, or no clip that plays a role in the protocols asked for.
        ParameterError: the recipe has no section ``reid``.
    """
    section = section_of(run)
    data = read_clips(place(run, section.clips))
    roles, told = roles_of(section, data.clips, data.roles, source=section.clips)
    lists = [place(run, path) if path else None for path in (section.territory, section.neighbours)]
    candidates, more = read_candidates(*lists, clips=data.clips)
    return {
        "reid_clips": data.clips,
        "reid_images": data.images,
        "reid_roles": roles,
        "reid_candidates": candidates,
        "reid_notices": pl.concat([data.notices, *told, more]),
        "reid_leaks": leakage(data.clips, data.images, roles, candidates),
        "reid_counts": counts(data.clips, candidates=candidates, published=section.published),
        "reid_sizes": sizes(data.clips, roles),
    }


def roles_of(
    section: Reid, clips: pl.DataFrame, given: pl.DataFrame, *, source: str
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Roles of the protocols asked for, as the file gives them or made, and notices.

    Raises:
        DataError: none of the protocols has a query.
    """
    told = []
    if section.build is not None:
        roles, notices = build_roles(clips, settings=section.build, protocols=section.protocols)
        told.append(notices)
    else:
        roles = given.filter(pl.col("split").cast(pl.String).is_in(section.protocols))
        roles, notices = validation_from_gallery(clips, roles)
        told.append(notices)
    if roles.filter(pl.col("role").cast(pl.String) == "query").is_empty():
        found = f"no clip that is asked for in {', '.join(section.protocols)}"
        remedy = "name the columns closed, disjoint, open, or let birdlab make the protocols: build: {}"
        if section.build is not None:
            remedy = "a bird can be asked for where it has clips of two videos or more: add videos, or name the roles yourself"
        raise DataError(Problem("no_query", found, "clips with the role query", remedy, file=source, key="reid.clips"))
    return roles, told


def sizes(clips: pl.DataFrame, roles: pl.DataFrame) -> pl.DataFrame:
    """Clips, birds and videos of every role in every protocol: split, role, n_clips, n_individuals, n_videos, n_unknown."""
    joined = roles.join(clips.select("clip_id", "video_id", "individual_id"), on="clip_id", maintain_order="left")
    return (
        joined.group_by("split", "role")
        .agg(
            pl.len().alias("n_clips"),
            pl.col("individual_id").n_unique().alias("n_individuals"),
            pl.col("video_id").n_unique().alias("n_videos"),
            (~pl.col("is_known")).sum().alias("n_unknown"),
        )
        .sort("split", "role")
        .cast(SIZES)
    )


def section_of(run: Run) -> Reid:
    """The recipe's section; see :meth:`birdlab.study.Run.section`."""
    return run.section("reid", holds="clips, and methods or rings", chapter="05_reidentification")


def place(run: Run, path: str) -> Path:
    """A path of the section, relative to the recipe or to the folder of the data."""
    return locate(path, run.base, run.data_root)


def image_folder(run: Run, section: Reid) -> Path:
    """Folder that the paths of images start from."""
    return place(run, section.images) if section.images else place(run, section.clips).parent
