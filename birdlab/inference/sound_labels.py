"""From the labels of a classifier of sounds to the classes of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from birdlab.errors import DataError, Problem
from birdlab.readers.birdnet import EBIRD, SpeciesCodes, read_label_map
from birdlab.readers.files import Notice
from birdlab.readers.labels import locate

if TYPE_CHECKING:
    from birdlab.recipe.soundscapes import SoundRun


def classes_of_labels(
    spec: SoundRun, labels: list[str], classes: tuple[str, ...], *, base: Path, root: Path
) -> tuple[dict[int, str], list[Notice]]:
    """Which output of a classifier speaks of which class of the study.

    A label is looked up, first hit: whole in ``label_map`` and in ``classes``; then as BirdNET writes it (``Scientific
    name_Common name``), as :func:`birdlab.readers.birdnet.read_birdnet` does: either name in the map, in the classes, and
    the code of eBird for it. Several labels of one class are one class: its score is the highest of theirs.

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
    mapped = read_label_map(locate(spec.label_map, base, root)) if spec.label_map is not None else {}
    codes, known = SpeciesCodes(classes, mapped), set(classes)
    found: dict[int, str] = {}
    by_ebird = []
    for i, label in enumerate(labels):
        whole = mapped.get(label, label if label in known else None)
        if whole is not None:
            if whole in known:
                found[i] = whole
            continue
        scientific, _, common = (part.strip() for part in label.partition("_"))
        code, how = codes.find(scientific or None, common or None, None)
        if code is not None and how != "class_not_in_list" and code in known:
            found[i] = code
            by_ebird += [label] if how == "by_ebird" else []
    if not found:
        said = f"{len(labels)} labels (first: {labels[0]!r}), none of a class (first: {(*classes, '')[0]!r})"
        remedy = "name a CSV label,class_id with label_map"
        raise DataError(Problem("no_class", said, "labels of the study's classes", remedy, key="label_map"))
    return found, _notices(found, labels, classes, mapped, by_ebird)


def _notices(
    found: dict[int, str], labels: list[str], classes: tuple[str, ...], mapped: dict[str, str], by_ebird: list[str]
) -> list[Notice]:
    names = {part.strip() for label in labels for part in (label, *label.split("_", 1))}
    strangers = sorted(set(mapped) - names)
    outside = sorted({c for name, c in mapped.items() if name in names} - set(classes))
    reached = set(found.values())
    without = [c for c in classes if c not in reached]
    said = [
        ("unknown_labels", "labels of the label map that the classifier does not have", strangers, len(strangers)),
        ("classes_outside", "classes of the label map that are not in the class list", outside, len(outside)),
        ("by_ebird", f"labels whose names were turned into codes of eBird ({', '.join(EBIRD)})", by_ebird, len(by_ebird)),
        ("labels_unused", "labels of the classifier that are no class of the study are not listed", [],
         len(labels) - len(found)),
        ("classes_without_label", "classes that the classifier has no label for are never listed", without, len(without)),
        ("labels_share_class", "labels share a class with another one: it has the highest of their scores", [],
         len(found) - len(reached)),
    ]  # fmt: skip
    return [Notice(code, text + (f" ({', '.join(few[:3])})" if few else ""), n) for code, text, few, n in said if n]
