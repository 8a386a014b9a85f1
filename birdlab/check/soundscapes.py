"""What ``birdlab check`` does with the section ``soundscapes`` of a recipe: recordings, annotations, classes, run files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from birdlab.check.note import Found, caught, note
from birdlab.readers.files import Notice
from birdlab.readers.labels import locate
from birdlab.recipe import Recipe, Soundscapes


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
    found = caught(lambda: _truth(section, base, root))
    for one in section.runs:
        if one.weights:
            found += caught(lambda one=one: _weights(one.weights or "", base, root))
    return found


def _truth(section: Soundscapes, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.readers.class_list import read_classes
    from birdlab.readers.foreign_run import layout_of
    from birdlab.readers.runfile import read_run
    from birdlab.readers.soundscape_recordings import read_recordings
    from birdlab.readers.soundscape_truth import read_annotations
    from birdlab.soundscapes.truth import code_truth

    recordings, notices = None, []
    if section.recordings:
        recordings, told = read_recordings(locate(section.recordings, base, root))
        notices += told
    found = read_annotations([locate(path, base, root) for path in section.truth], recordings=recordings)
    notices += found.notices
    classes = None
    if section.classes:
        classes, told = read_classes(locate(section.classes, base, root))
        notices += told
    truth = code_truth(found.annotations, recordings, classes)
    out = [_told(n) for n in notices]
    options = {"lenient": section.lenient, "max_classes": section.max_classes}
    for one in section.runs:
        path = locate(one.file, base, root) if one.file else None
        if path is not None and layout_of(path) == "run":
            out += caught(
                lambda path=path, one=one: _warned(read_run(path, truth, name=one.name, **options), str(path))
            )
    return out


def _warned(coded: object, file: str) -> list[Found]:
    return [note(w["code"], f"{w['message']} ({w.get('n') or 0:,})", file) for w in coded.warnings]  # type: ignore[attr-defined]


def _weights(given: str, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.inference.weights import locate_weights

    locate_weights(given, base, root, expected="a .tflite or .onnx file", where="soundscapes.runs")
    return []


def _told(notice: Notice) -> Found:
    return note(notice.code, f"{notice.message} ({notice.n:,})", notice.file or "")
