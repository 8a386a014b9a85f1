"""What ``birdlab check`` does with the section ``soundscapes`` of a recipe: recordings, annotations, classes, run files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from birdlab.check.note import Found, Note, caught, note
from birdlab.readers.files import Notice
from birdlab.readers.labels import locate
from birdlab.recipe import Recipe, Soundscapes
from birdlab.recipe.soundscapes import SoundRun

if TYPE_CHECKING:
    import polars as pl

    from birdlab.soundscapes.coded import Truth


def check_soundscapes(recipe: Recipe, base: Path, root: Path) -> list[Found]:
    """Everything of the section that cannot be read, or that its readers remark; run files are read, not scored.

    Args:
        recipe: the recipe.
        base: its folder.
        root: folder of the data.
    """
    section = recipe.soundscapes
    if section is None or recipe.data.generator:
        return []
    found = _truth(section, base, root)
    for one in section.runs:
        if one.weights:
            found += caught(lambda one=one: _weights(one.weights or "", base, root))
    return found


def _truth(section: Soundscapes, base: Path, root: Path) -> list[Found]:
    """What is wrong with the truth and its lists, all of them; the runs are read where these can be."""
    from birdlab.readers.class_list import read_classes
    from birdlab.readers.soundscape_recordings import read_recordings
    from birdlab.readers.soundscape_truth import read_annotations
    from birdlab.soundscapes.truth import code_truth

    out: list[Found] = []
    held: dict[str, Any] = {}

    def keep(name: str, read: Callable[[], tuple[Any, Iterable[Notice]]]) -> Iterable[Found]:
        held[name], notices = read()
        return [_told(n) for n in notices]

    def annotations() -> tuple[Any, Iterable[Notice]]:
        paths = [locate(path, base, root) for path in section.truth]
        found = read_annotations(paths, recordings=held.get("recordings"), classes=held.get("classes"))
        return found.annotations, found.notices

    for name, given, read in (
        ("recordings", section.recordings, read_recordings),
        ("classes", section.classes, read_classes),
    ):
        if given:
            out += caught(lambda n=name, g=given, r=read: keep(n, lambda: r(locate(g, base, root))))
    out += caught(lambda: keep("annotations", annotations))
    if any(not isinstance(problem, Note) for _, problem in out):
        return out
    recordings = held.get("recordings")
    out += caught(lambda: keep("truth", lambda: (code_truth(held["annotations"], recordings, held.get("classes")), ())))
    for one in section.runs if "truth" in held else ():
        if one.file:
            out += caught(
                lambda one=one: _run(one, section, held["truth"], recordings, lambda p: locate(p, base, root))
            )
    return out


def _run(
    one: SoundRun, section: Soundscapes, truth: Truth, recordings: pl.DataFrame | None, find: Callable[[str], Path]
) -> Iterable[Found]:
    from birdlab.readers.foreign_run import MAP_NOT_USED, layout_of, read_foreign
    from birdlab.readers.runfile import read_run

    path = find(one.file or "")
    layout = layout_of(path)
    if layout != "run":
        labels = find(one.label_map) if one.label_map else None
        more = {"label_map": labels, "max_classes": section.max_classes}
        return [_told(n) for n in read_foreign(path, layout, truth=truth, recordings=recordings, **more).notices]
    options = {"lenient": section.lenient, "max_classes": section.max_classes}
    told = [note("label_map_not_used", MAP_NOT_USED, str(path))] if one.label_map else []
    return [*told, *_warned(read_run(path, truth, name=one.name, **options), str(path))]


def _warned(coded: object, file: str) -> list[Found]:
    return [note(w["code"], f"{w['message']} ({w.get('n') or 0:,})", file) for w in coded.warnings]  # type: ignore[attr-defined]


def _weights(given: str, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.inference.weights import locate_weights

    locate_weights(given, base, root, expected="a .tflite or .onnx file", where="soundscapes.runs")
    return []


def _told(notice: Notice) -> Found:
    return note(notice.code, f"{notice.message} ({notice.n:,})", notice.file or "")
