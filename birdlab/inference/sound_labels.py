"""From the labels of a classifier of sounds to the classes of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import read_rows
from birdlab.readers.files import Notice, at_most
from birdlab.readers.labels import locate

if TYPE_CHECKING:
    from birdlab.recipe.soundscapes import SoundRun

EXPECTED = "a CSV with the columns label and class_id"


def classes_of_labels(
    spec: SoundRun, labels: list[str], classes: tuple[str, ...], *, base: Path, root: Path
) -> tuple[dict[int, str], list[Notice]]:
    """Which output of a classifier speaks of which class of the study.

    By ``label_map`` where the recipe names one. Without it, a label is the class that is called like it or, for labels as
    BirdNET writes them (``Scientific name_Common name``), like either half; capitals do not count there. Several labels
    of one class are one class: its score is the highest of theirs.

    Args:
        spec: the run's section of the recipe.
        labels: of the classifier, in the order of its output.
        classes: class ids of the study.
        base: folder of the recipe.
        root: folder of the data.

    Returns:
        Class by position of the output, and notices: labels without a class, classes without a label.

    Raises:
        DataError: the map cannot be read, or no label leads to a class.
    """
    notices: list[Notice] = []
    if spec.label_map is not None:
        path = locate(spec.label_map, base, root)
        mapped = read_label_map(path, shown=str(path))
        known = set(classes)
        found = {i: mapped[label] for i, label in enumerate(labels) if label in mapped and mapped[label] in known}
        strangers = sorted(set(mapped) - set(labels))
        if strangers:
            said = f"labels of {path.name} that the classifier does not have ({', '.join(strangers[:3])})"
            notices.append(Notice("unknown_labels", said, len(strangers)))
        outside = sorted({c for label, c in mapped.items() if label in set(labels)} - known)
        if outside:
            said = f"classes of {path.name} that are not in the class list ({', '.join(outside[:3])})"
            notices.append(Notice("classes_outside", said, len(outside)))
    else:
        found = _by_name(labels, classes)
    if not found:
        said = f"{len(labels)} labels (first: {labels[0]!r}), none of a class (first: {(*classes, '')[0]!r})"
        remedy = "name a CSV label,class_id with label_map"
        raise DataError(Problem("no_class", said, "labels of the study's classes", remedy, key="label_map"))
    if len(found) < len(labels):
        said = "labels of the classifier that are no class of the study are not listed"
        notices.append(Notice("labels_unused", said, len(labels) - len(found)))
    without = [c for c in classes if c not in set(found.values())]
    if without:
        said = f"classes that the classifier has no label for are never listed ({', '.join(without[:3])})"
        notices.append(Notice("classes_without_label", said, len(without)))
    several = len(found) - len(set(found.values()))
    if several:
        said = "labels share a class with another label: the class has the highest of their scores"
        notices.append(Notice("labels_share_class", said, several))
    return found, notices


def _by_name(labels: list[str], classes: tuple[str, ...]) -> dict[int, str]:
    exact = set(classes)
    folded: dict[str, str | None] = {}
    for c in classes:
        folded[c.casefold()] = None if c.casefold() in folded else c
    found = {}
    for i, label in enumerate(labels):
        scientific, _, common = label.partition("_")
        near = [folded.get(part.strip().casefold()) for part in (label, scientific, common)]
        said = label if label in exact else next((c for c in near if c), None)
        if said is not None:
            found[i] = said
    return found


def read_label_map(path: Path, *, shown: str) -> dict[str, str]:
    """Class of each label: CSV or TSV with columns ``label`` and ``class_id``; rows without a class are left out.

    Raises:
        DataError: the file cannot be read, lacks a column, or gives a label two classes (each with its line).
    """
    table = read_rows(path, shown=shown)
    names = [name.strip().casefold() for name in table.header]
    lacking = [name for name in ("label", "class_id") if name not in names]
    if lacking:
        found = "columns " + ", ".join(table.header)
        raise DataError(Problem("no_column", found, EXPECTED, file=shown, key="label_map"))
    at, to = names.index("label"), names.index("class_id")
    mapped: dict[str, str] = {}
    problems = []
    for line, row in table.rows:
        label, class_id = row[at].strip(), row[to].strip()
        if label and class_id:
            if mapped.setdefault(label, class_id) != class_id:
                found = f"{label!r} as {class_id!r}, above as {mapped[label]!r}"
                problems.append(Problem("label_twice", found, "one class for each label", file=shown, line=line))
    if problems:
        raise DataError(at_most(problems))
    return mapped
