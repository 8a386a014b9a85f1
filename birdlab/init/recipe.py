"""The recipe that ``birdlab init`` writes: YAML with a word on every choice, relative paths, quoted where needed."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from birdlab.init.look import UNKNOWN, LabelSource, Results, Survey, folders_of
from birdlab.init.weights import Weights
from birdlab.kinds import suffix_of
from birdlab.readers.labels import normal
from birdlab.recipe import chapters

#: Folder names that say which part of a study their pictures belong to.
_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
#: More class names than this, "bird" among them: a general list (COCO's 80), of which only birds are meant.
_MANY_CLASSES = 5
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"}


@dataclass(frozen=True)
class Choices:
    """What was asked or given."""

    name: str
    session: str | None = None
    site: str | None = None
    no_label: str = "unlabelled"
    truth: str | None = None
    licence: str = ""
    source: str = ""


def recipe_text(
    survey: Survey, choices: Choices, base: Path, manifest: str | None, left_out: Sequence[str] = ()
) -> str:
    """The recipe as YAML.

    Args:
        survey: what was seen.
        choices: what was answered.
        base: folder the recipe will lie in; every path is relative to it.
        manifest: path of ``datapackage.json`` relative to ``base``, or ``None`` before there is one.
        left_out: results and detectors (by path) that do not fit the study; they are written as comments.
    """
    categories = categories_of(survey.labels)
    splits = sorted({split for _, split in media_globs(survey)} or {"test"})
    lines = [
        "# Written by `birdlab init`; edit it as you like, and let `birdlab check` look it over.",
        "# Paths start at the folder of this file; `images` and `videos` start at `root`.",
        f"name: {quoted(choices.name)}",
        f"title: {quoted(choices.name)}",
        'description: ""  # what was recorded, where, when and by whom; printed on top of the report',
        "",
        "data:",
        f"  root: {quoted(relative(survey.listing.root, base))}",
        *(
            [f"  manifest: {quoted(manifest)}  # sizes and hashes: `birdlab check` sees when a file was changed"]
            if manifest
            else []
        ),
        *([f"  licence: {quoted(choices.licence)}  # of pictures and labels"] if choices.licence else []),
        f"  categories: {inline(categories)}  # classes that are scored",
        "  media:",
        *_media(survey, choices),
        *(
            ["  labels:"]
            if survey.labels
            else ["  labels: []  # none were found: pictures can be looked at, but nothing scored"]
        ),
        *_labels(survey, choices, base, categories),
        "",
        *_models(survey, base, categories, set(left_out)),
        "",
        "scoring:",
        "  iou: 0.5  # overlap of two boxes that counts as the same bird",
        "  conf: 0.25  # a detector's confidence from which a detection counts",
    ]
    if "test" not in splits:
        chosen = "val" if "val" in splits else splits[0]
        lines.append(f"  splits: [{chosen}]  # there is no folder test: these pictures are scored")
    return "\n".join([*lines, "", *_notebooks(survey, left_out), ""])


def _media(survey: Survey, choices: Choices) -> list[str]:
    lines = []
    for pattern, split in media_globs(survey):
        lines.append(f"    - images: {quoted(pattern)}")
        lines += _where(choices, _photo_sessions(survey))
        lines.append(f"      split: {split}")
    for pattern in _globs(survey.videos, survey):
        lines.append(f"    - videos: {quoted(pattern)}")
        lines.append("      rate: 1  # frames looked at per second")
        lines += _where(choices, "each video is one; numbered chapters of one recording are joined")
    return lines


def _photo_sessions(survey: Survey) -> str:
    if any(source.has_session for source in survey.labels):
        return "the label file names them"
    return "each folder is one" if len(folders_of(survey.photos)) > 1 else "all of this is one"


def _where(choices: Choices, default: str) -> list[str]:
    session = (
        f"      session: {quoted(choices.session)}"
        if choices.session
        else f"      # session: {default}, unless you say folder, file, or a pattern with one (group)"
    )
    site = (
        f"      site: {quoted(choices.site)}"
        if choices.site
        else "      # site: a name, folder, or a pattern with one (group)"
    )
    return [session, site]


def media_globs(survey: Survey) -> list[tuple[str, str]]:
    """Globs of the photographs, each with its split; folders called train, val and test are taken at their word."""
    groups: dict[tuple[str, str], list[str]] = {}
    for photo in survey.photos:
        parts = PurePosixPath(photo).parts[:-1]
        at = next((i for i, part in enumerate(parts) if part.lower() in _SPLITS), None)
        key = ("", "test") if at is None else ("/".join(parts[: at + 1]), _SPLITS[parts[at].lower()])
        groups.setdefault(key, []).append(photo)
    if ("", "test") in groups:
        # Some pictures lie outside such folders: the folders do not divide the study.
        return [(pattern, "test") for pattern in _globs(survey.photos, survey)]
    return [
        (f"{escape_glob(folder)}/**/*{_endings(photos)}", split) for (folder, split), photos in sorted(groups.items())
    ]


def _globs(paths: Sequence[str], survey: Survey) -> list[str]:
    """Globs that find ``paths``; one for all, or one per top folder where birdlab's own folders lie among them."""
    if not paths:
        return []
    if not survey.listing.holds_own:
        return [f"**/*{_endings(paths)}"]
    tops: dict[str, list[str]] = {}
    for path in paths:
        tops.setdefault(path.split("/")[0] if "/" in path else "", []).append(path)
    return [
        f"{escape_glob(top)}/**/*{_endings(inside)}" if top else f"*{_endings(inside)}" for top, inside in tops.items()
    ]


def _endings(paths: Iterable[str]) -> str:
    endings = sorted({suffix_of(path) for path in paths})
    return endings[0] if len(endings) == 1 else ".{" + ",".join(ending[1:] for ending in endings) + "}"


def escape_glob(text: str) -> str:
    """A folder name with the characters that mean something in a glob made plain.

    >>> escape_glob("nest [7]")
    'nest [[]7]'
    """
    return re.sub(r"([*?\[{])", r"[\1]", text)


def _labels(survey: Survey, choices: Choices, base: Path, categories: list[str]) -> list[str]:
    lines = []
    roles = label_roles(survey.labels, choices.truth)
    for source in survey.labels:
        if roles[source.path] == "third":
            lines.append(
                f"    # {quoted(source.path)} labels the same pictures once more: birdlab compares two labellings"
            )
            continue
        lines.append(f"    - path: {quoted(relative(survey.listing.root / source.path, base))}")
        lines.append(f"      format: {source.format}")
        if source.format == "yolo":
            lines.append(_yolo_classes(source, survey, base))
        if roles[source.path] == "second":
            lines.append("      second: true  # labels the same pictures again: compared with the truth, not scored")
            continue
        if survey.unlisted:
            looked = "somebody looked and saw no bird" if choices.no_label == "empty" else "not looked at, not scored"
            lines.append(f"      unlisted: {choices.no_label}  # a picture without an entry: {looked}")
        others = [name for name in source.names if normal(name) not in {normal(c) for c in categories}]
        if others:
            lines.append(f"      # other classes, not scored: {inline(others)}")
        if source.format == "labelme":
            lines.append("      # rename: {an odd spelling: bird}")
            lines.append("      # ignore: [decoy]  # shapes of this class mark regions that are left out of scoring")
    return lines


def label_roles(labels: Sequence[LabelSource], truth: str | None) -> dict[str, str]:
    """Path of each label source -> first, second or third: sources of one role have no picture in common (but third)."""
    roles: dict[str, str] = {}
    taken: dict[str, set[str]] = {"first": set(), "second": set()}
    for source in sorted(labels, key=lambda s: s.path != truth):
        role = next((role for role in taken if not taken[role] & source.pictures), "third")
        roles[source.path] = role
        taken.get(role, set()).update(source.pictures)
    return roles


def _yolo_classes(source: LabelSource, survey: Survey, base: Path) -> str:
    if source.classes:
        return f"      classes: {quoted(relative(survey.listing.root / source.classes, base))}"
    return (
        f"      classes: {inline(source.names)}  # names of the classes 0, 1, …: no data.yaml or classes.txt was found"
    )


def categories_of(labels: Sequence[LabelSource]) -> list[str]:
    """Classes to score: those with boxes; only ``bird`` of a long general list; ``bird`` where nothing is labelled.

    Spellings that differ in case or blanks are one class, written as most boxes have it.
    """
    counts: Counter[str] = Counter()
    for source in labels:
        listed = {normal(name): name for name in source.names}
        if source.format in ("coco", "yolo") and len(listed) > _MANY_CLASSES and "bird" in listed:
            counts[listed["bird"].strip()] += 1
            continue
        named = {" ".join(name.split()): n for name, n in source.names.items() if name != UNKNOWN}
        counts.update({name: n for name, n in named.items() if n and name})
    merged: dict[str, str] = {}
    for name, _ in sorted(counts.items(), key=lambda item: -item[1]):
        merged.setdefault(normal(name), name)
    return list(merged.values()) or ["bird"]


def _models(survey: Survey, base: Path, categories: list[str], left_out: set[str]) -> list[str]:
    if not survey.results and not survey.weights:
        return ["models: []  # weights (.pt, .onnx, OpenVINO folder) or predictions made elsewhere, each with a name"]
    names = model_names(survey)
    body: list[str] = []
    used = False
    for model, name in zip((*survey.results, *survey.weights), names, strict=True):
        lines = _model(model, name, survey, base, categories)
        if model.path in left_out:
            body += ["  # does not fit this study:", *(f"  #{line[1:]}" for line in lines)]
        else:
            body, used = body + lines, True
    return ["models:" if used else "models: []", *body]


def model_names(survey: Survey) -> list[str]:
    """Names for the results and then the detectors, each used once."""
    taken: Counter[str] = Counter()
    names = []
    for model in (*survey.results, *survey.weights):
        own = model.name if isinstance(model, Results) else PurePosixPath(model.path).name or survey.listing.root.name
        # What a recipe refuses in the name of a model is left out.
        own = re.sub(r"[/\\{}\s\x00-\x1f\x7f]+", " ", re.sub(r"\.(?:pt|onnx)$", "", own, flags=re.IGNORECASE))
        own = own.lstrip(" .").rstrip() or "model"
        taken[own] += 1
        names.append(own if taken[own] == 1 else f"{own} {taken[own]}")
    return names


def _model(model: Results | Weights, name: str, survey: Survey, base: Path, categories: list[str]) -> list[str]:
    path = quoted(relative(survey.listing.root / model.path, base))
    lines = [f"  - name: {quoted(name)}"]
    if isinstance(model, Results):
        lines += [f"    predictions: {path}", f"    format: {model.format}"]
    else:
        about = "" if model.imgsz else "; not stated in the file"
        lines.append(f"    weights: {path}")
        lines.append(f"    imgsz: {model.imgsz or 640}  # longer side of the picture as the network sees it, px{about}")
    mapping = class_mapping(model, categories)
    about = "class of the model: class of the study"
    if mapping:
        pairs = ", ".join(f"{quoted(own)}: {quoted(target)}" for own, target in mapping.items())
        lines.append(f"    classes: {{{pairs}}}  # {about}")
    elif isinstance(model, Weights) and not model.names:
        lines.append(f"    # classes: {{bird: {quoted(categories[0])}}}  # {about}, where they differ")
    return lines


def class_mapping(model: Results | Weights, categories: Sequence[str]) -> dict[str, str]:
    """Class of the model -> class of the study, as far as it must be written and can be told; empty where names agree."""
    known = {normal(c): c for c in categories}
    if isinstance(model, Results) and model.numbered:
        named = {number: known[normal(name)] for number, name in model.numbered.items() if normal(name) in known}
        alone = len(model.numbered) == len(categories) == 1
        return named or ({number: categories[0] for number in model.numbered} if alone else {})
    own = {normal(n): n for n in model.names}
    if len(categories) > 1 or normal(categories[0]) in own:
        return {}
    # A general detector's nearest word for the only class of the study.
    stand_in = next((own[word] for word in ("bird", "animal") if word in own), None)
    return {stand_in: categories[0]} if stand_in else {}


def _notebooks(survey: Survey, left_out: Sequence[str]) -> list[str]:
    every = chapters()
    models = [m for m in (*survey.results, *survey.weights) if m.path not in left_out]
    if not models:
        return [f"notebooks: [{every[0]}]  # with a model, add {', '.join(every[1:])}"]
    if not survey.labels:
        return [f"notebooks: [{', '.join(every[:2])}]  # with labels, add {', '.join(every[2:])}"]
    return [f"notebooks: [{', '.join(every)}]"]


def relative(path: Path, base: Path) -> str:
    """``path`` as seen from the folder ``base``, with forward slashes; absolute where there is no way between them."""
    try:
        return Path(os.path.relpath(path, base)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def inline(names: Iterable[str]) -> str:
    """A list in one line.

    >>> inline(["bird", "no"])
    '[bird, "no"]'
    """
    return "[" + ", ".join(quoted(name) for name in names) + "]"


def quoted(text: str) -> str:
    r"""A YAML scalar that is read back as ``text``: plain where that is safe, else in double quotes.

    >>> quoted("nest 7"), quoted("007"), quoted("a\n'b\"")
    ('nest 7', '"007"', '"a\\n\'b\\""')
    """
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
