"""The labels of an image classifier, one per score, in the order of its output."""

from __future__ import annotations

import ast
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from birdlab.errors import DataError, Problem
from birdlab.inference.weights import Weights
from birdlab.readers.files import at_most, text_lines
from birdlab.readers.labels import locate

#: Most bytes of a list of labels.
MAX_BYTES = 16 * 2**20
EXPECTED = "a text file in UTF-8 with one label per line"
#: Column of a part that names the picture.
ITEM = "item_id"
#: Columns of a table of scores that are no label.
TAKEN = (ITEM, "model", "prompt_id")


def find_labels(given: str | None, weights: Weights, base: Path, root: Path, *, where: str) -> list[str]:
    """The labels of a classifier, from the first of the places where there are any.

    The file that the recipe names; ``<stem>.labels.txt`` beside the weights; a list inside the model (TFLite: the text
    file packed behind it; ONNX: the metadata ``names``); ``labels.txt`` beside the weights.

    Args:
        given: path in the recipe, or ``None``.
        weights: from :func:`birdlab.inference.weights.find_classifier`.
        base: folder of the recipe.
        root: folder of the data.
        where: the model, for errors.

    Raises:
        DataError: there are none, they cannot be read, or a line is empty, double or one of :data:`TAKEN`.
    """
    folder = weights.path.parent
    if given is not None:
        return read_label_list(locate(given, base, root), where=where)
    own = folder / f"{weights.path.stem}.labels.txt"
    if own.exists():
        return read_label_list(own, where=where)
    inside = _packed(weights.path) if weights.kind == "tflite" else _named(weights)
    if inside is not None:
        return checked(inside, f"{weights.path} (labels inside)", where=where)
    if (folder / "labels.txt").exists():
        return read_label_list(folder / "labels.txt", where=where)
    found = f"neither {own.name} nor labels.txt beside the weights, and no list inside them"
    remedy = "name the list with labels: FILE"
    raise DataError(Problem("no_labels", found, EXPECTED, remedy, file=str(weights.path), record=where, key="labels"))


def read_label_list(path: Path, *, where: str) -> list[str]:
    """Labels of a text file, one per line; space around them and empty lines at the end do not count.

    Raises:
        DataError: the file cannot be read, or a line is empty, double or one of :data:`TAKEN`.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            found = f"{path.stat().st_size / 2**20:.0f} MiB"
            raise DataError(Problem("bad_labels", found, EXPECTED, file=str(path), record=where, key="labels"))
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        found = error.strerror or "an error"
        raise DataError(Problem("no_labels", found, EXPECTED, file=str(path), record=where, key="labels")) from error
    except UnicodeDecodeError as error:
        found = f"bytes that are not UTF-8 ({error.reason} at byte {error.start})"
        raise DataError(Problem("bad_labels", found, EXPECTED, file=str(path), record=where, key="labels")) from error
    return checked(text_lines(text), str(path), where=where)


def checked(labels: Sequence[str], file: str, *, where: str) -> list[str]:
    """The labels, if each can be the name of a column of its own.

    Raises:
        DataError: one is empty, double or one of :data:`TAKEN`; every such line.

    >>> checked(["Parus major", "background"], "labels.txt", where="model m")
    ['Parus major', 'background']
    """
    problems = []
    first: dict[str, int] = {}
    for line, label in enumerate(labels, start=1):
        found = ""
        if not label:
            found = "an empty line"
        elif label in TAKEN:
            found = f"{label!r}, the name of a column that is no label"
        elif label in first:
            found = f"{label!r} again (first in line {first[label]})"
        first.setdefault(label, line)
        if found:
            problems.append(
                Problem("bad_label", found, "a label of its own", file=file, line=line, record=where, key="labels")
            )
    if not labels:
        problems.append(Problem("bad_labels", "no label", EXPECTED, file=file, record=where, key="labels"))
    if problems:
        raise DataError(at_most(problems))
    return list(labels)


def _packed(path: Path) -> list[str] | None:
    """Lines of the only text file of the zip archive behind a TFLite model; ``None`` where there is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [i for i in archive.infolist() if i.filename.lower().endswith(".txt") and i.file_size <= MAX_BYTES]
            labelled = [i for i in texts if "label" in i.filename.lower()] or texts
            if len(labelled) != 1:
                return None
            with archive.open(labelled[0]) as stream:
                return text_lines(stream.read(MAX_BYTES).decode("utf-8-sig"))
    except zipfile.BadZipFile:
        return None
    except (OSError, EOFError, RuntimeError, NotImplementedError, zlib.error, UnicodeDecodeError) as error:
        found = f"a packed list of labels that cannot be read ({error})"
        raise DataError(Problem("bad_labels", found, EXPECTED, file=str(path), key="labels")) from error


def _named(weights: Weights) -> list[str] | None:
    """The metadata ``names`` of an ONNX export of ultralytics: ``{0: 'Parus major', …}``."""
    said = weights.metadata.get("names")
    if not isinstance(said, str) or len(said) > MAX_BYTES:
        return None
    try:
        names = ast.literal_eval(said)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(names, dict) and list(names) == list(range(len(names))):
        names = list(names.values())
    return [str(name).strip() for name in names] if isinstance(names, (list, tuple)) else None
