"""What ``birdlab check`` does with the section ``reid`` of a recipe: clips, lists, methods, rings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from birdlab.check.note import Found, caught, found_in, note
from birdlab.errors import BirdlabError
from birdlab.readers.labels import locate
from birdlab.recipe import Model, Recipe, Reid, ReidMethod, Rings

if TYPE_CHECKING:
    from birdlab.readers.reid_clips import ReidData


def check_reid(recipe: Recipe, base: Path, root: Path) -> list[Found]:
    """Everything of the section that cannot be read, or that its readers remark; no picture is decoded.

    Args:
        recipe: the recipe.
        base: its folder.
        root: folder of the data.
    """
    section = recipe.reid
    if section is None or recipe.data.generator:
        return []
    from birdlab.readers.reid_clips import read_clips

    looked_at = section.rings is not None or any(method.weights for method in section.methods)
    clips = locate(section.clips, base, root)
    images = locate(section.images, base, root) if section.images else clips.parent
    data: ReidData | None = None
    try:
        data = read_clips(clips, images=images if looked_at else None)
        found = caught(lambda: _clips(section, data, base, root))
    except BirdlabError as error:
        found = found_in(error)
    for method in section.methods:
        found += caught(lambda method=method: _method(method, data, base, root))
    return found + (caught(lambda: _rings(section.rings, data, base, root)) if section.rings else [])


def _clips(section: Reid, data: ReidData, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.reid.inputs import roles_of
    from birdlab.individuals.rings.codes import Palette
    from birdlab.individuals.rings.roster import read_roster, unnamed_birds
    from birdlab.readers.reid_lists import read_candidates

    roles, told = roles_of(section, data.clips, data.roles, source=section.clips)
    lists = [locate(path, base, root) if path else None for path in (section.territory, section.neighbours)]
    _, more = read_candidates(*lists, clips=data.clips)
    found = [_told(row, section.clips) for row in pl.concat([data.notices, *told, more]).to_dicts()]
    if section.rings is not None:
        asked = roles.filter(pl.col("role").cast(pl.String).is_in(["query", "validation"]))
        with contextlib.suppress(BirdlabError):  # what is wrong with the roster is told with the rings
            roster, _ = read_roster(locate(section.rings.roster, base, root), Palette.of(section.rings.colours))
            unnamed = unnamed_birds(data.clips.join(asked, on="clip_id", how="semi"), roster)
            found += [_told(row, section.rings.roster) for row in unnamed.to_dicts()]
    return found


def _method(method: ReidMethod, data: ReidData | None, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.readers.embeddings import named_similarity, read_embeddings, read_similarity
    from birdlab.readers.reid_tables import read_ranking

    def at(path: str | None) -> Path | None:
        return locate(path, base, root) if path else None

    if method.weights:
        from birdlab.inference.embedder import find_embedder

        find_embedder(method, base, root)
        return []
    if method.ranking:
        read_ranking(locate(method.ranking, base, root), model=method.name)
        return []
    if data is None:
        return []
    names = data.clips["clip_id"].to_list()
    if method.embeddings:
        notices = read_embeddings(locate(method.embeddings, base, root), at(method.rows), clips=names).notices
    else:
        rows, columns = named_similarity(method.name, at(method.rows), at(method.columns))
        notices = read_similarity(locate(method.similarity or "", base, root), rows, columns, clips=names).notices
    return [note(n.code, f"{n.message} ({n.n:,})", n.file or "") for n in notices]


def _rings(rings: Rings, data: ReidData | None, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.rings.codes import Palette
    from birdlab.individuals.rings.instances import in_clips
    from birdlab.individuals.rings.roster import read_roster
    from birdlab.readers.ring_masks import read_coloured_masks, read_ring_masks

    palette = Palette.of(rings.colours)

    def roster(path: str) -> Iterable[Found]:
        return [_told(row, path) for row in read_roster(locate(path, base, root), palette)[1].to_dicts()]

    def training(path: str) -> Iterable[Found]:
        return [_told(row, path) for row in read_coloured_masks(locate(path, base, root), palette)[1].to_dicts()]

    def instances(path: str) -> Iterable[Found]:
        given, _, told = read_ring_masks(locate(path, base, root), palette)
        tables = [told] if data is None else [told, in_clips(given, data.images, source=path)[1]]
        return [_told(row, path) for row in pl.concat(tables).to_dicts()]

    def segmenter(weights: str) -> Iterable[Found]:
        from birdlab.inference.weights import find_weights

        find_weights(Model(name="rings.segmenter", weights=weights, adapter=rings.segmenter_library), base, root)
        return []

    found: list[Found] = []
    for work, path in (
        (roster, rings.roster), (training, rings.training), (instances, rings.instances), (segmenter, rings.segmenter),
    ):  # fmt: skip
        if path:
            found += caught(lambda work=work, path=path: work(path))
    return found


def _told(row: dict, file: str) -> Found:
    count = f" ({row['n']:,})" if row["n"] else ""
    return note(row["code"], f"{row['message']}{count}", row["file"] or file)
