"""What ``birdlab check`` does with the section ``reid`` of a recipe: clips, lists, methods, rings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from birdlab.check.note import Found, caught, note
from birdlab.readers.labels import locate
from birdlab.recipe import Recipe, Reid, ReidMethod, Rings


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
    found = caught(lambda: _clips(section, base, root))
    for method in section.methods:
        found += caught(lambda method=method: _method(method, section, base, root))
    return found + (caught(lambda: _rings(section.rings, base, root)) if section.rings else [])


def _clips(section: Reid, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.reid.inputs import roles_of
    from birdlab.readers.reid_clips import read_clips
    from birdlab.readers.reid_lists import read_candidates

    data = read_clips(locate(section.clips, base, root))
    roles, told = roles_of(section, data.clips, data.roles, source=section.clips)
    lists = [locate(path, base, root) if path else None for path in (section.territory, section.neighbours)]
    _, more = read_candidates(*lists, clips=data.clips)
    return [_told(row, section.clips) for row in pl.concat([data.notices, *told, more]).to_dicts()]


def _method(method: ReidMethod, section: Reid, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.readers.embeddings import read_embeddings, read_similarity
    from birdlab.readers.reid_clips import read_clips
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
    names = read_clips(locate(section.clips, base, root)).clips["clip_id"].to_list()
    if method.embeddings:
        notices = read_embeddings(locate(method.embeddings, base, root), at(method.rows), clips=names).notices
    else:
        rows, columns = at(method.rows), at(method.columns)
        if rows is None or columns is None:
            return [note("no_names", "similarity needs rows and columns: a CSV clip_id each", method.similarity or "")]
        notices = read_similarity(locate(method.similarity or "", base, root), rows, columns, clips=names).notices
    return [note(n.code, f"{n.message} ({n.n:,})", n.file or "") for n in notices]


def _rings(rings: Rings, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.rings.codes import Palette
    from birdlab.individuals.rings.roster import read_roster
    from birdlab.readers.ring_masks import read_ring_masks

    palette = Palette.of(rings.colours)
    _, notices = read_roster(locate(rings.roster, base, root), palette)
    found = [_told(row, rings.roster) for row in notices.to_dicts()]
    for path in filter(None, (rings.training, rings.instances)):
        *_, notices = read_ring_masks(locate(path, base, root), palette)
        found += [_told(row, path) for row in notices.to_dicts()]
    return found


def _told(row: dict, file: str) -> Found:
    count = f" ({row['n']:,})" if row["n"] else ""
    return note(row["code"], f"{row['message']}{count}", row["file"] or file)
