"""What ``birdlab init`` tells: what was found, which defaults were taken, what was written and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from birdlab.init.ask import Question
from birdlab.init.look import LabelSource, Results, Survey, folders_of
from birdlab.init.weights import Weights

_LABEL_WORDS = {"coco": "COCO", "yolo": "YOLO", "labelme": "LabelMe"}
_RESULT_WORDS = {"coco": "COCO results", "megadetector": "MegaDetector", "yolo": "YOLO results"}


def readable(name: str) -> str:
    r"""A file name on one line of a terminal.

    >>> readable("a\nb")
    'a\\nb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def plural(n: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "box", "boxes"), plural(1200, "picture")
    ('1 box', '1,200 pictures')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def describe(survey: Survey, folder: str) -> str:
    """What was seen, in sentences."""
    lines = [f"In {folder} I see {_media(survey)}."]
    lines += [_label_line(source) for source in survey.labels]
    if not survey.labels:
        lines.append(
            "There are no labels that I can read (COCO, YOLO, LabelMe): the pictures can be looked at, but nothing scored."
        )
    elif survey.photos:
        n = len(survey.unlisted)
        lines.append(
            "Every picture has an entry in the labels."
            if not n
            else f"{plural(n, 'picture has', 'pictures have')} no entry in the labels."
        )
    lines += [_result_line(result) for result in survey.results]
    lines += [_weights_line(weights) for weights in survey.weights]
    return "\n".join([*lines, *_left_aside(survey)])


def _media(survey: Survey) -> str:
    parts = []
    if survey.photos:
        n = len(folders_of(survey.photos))
        parts.append(f"{plural(len(survey.photos), 'picture')} in {plural(n, 'folder')}")
    if survey.videos:
        parts.append(plural(len(survey.videos), "video"))
    return " and ".join(parts)


def _label_line(source: LabelSource) -> str:
    many = len(source.files) > 1
    what = (
        f"{plural(len(source.files), _LABEL_WORDS[source.format] + ' label file')} in {readable(source.path)}"
        if many
        else f"1 {_LABEL_WORDS[source.format]} label file, {readable(source.files[0])}"
    )
    classes = [name for name, n in source.names.items() if n]
    shown = ", ".join(f"{name!r} {source.names[name]}" for name in classes[:6]) + (" …" if len(classes) > 6 else "")
    line = f"{what}: {plural(source.n_boxes, 'box', 'boxes')} ({shown or 'no class'}) on {plural(len(source.pictures), 'picture')}"
    if source.n_empty:
        line += f", {plural(source.n_empty, 'of them without a bird', 'of them without a bird')}"
    if source.has_session:
        line += "; it names the recording sessions" + (" and sites" if source.has_site else "")
    if source.unknown:
        line += f"; {plural(len(source.unknown), 'entry names a picture', 'entries name pictures')} that I do not find ({readable(source.unknown[0])})"
    return line + "."


def _result_line(result: Results) -> str:
    on = f"{plural(result.n, 'detection')} on {plural(result.n_pictures, 'picture')}"
    return f"1 file of detections made elsewhere, {readable(result.path)} ({_RESULT_WORDS[result.format]}): {on}."


def _weights_line(weights: Weights) -> str:
    size = f", {weights.imgsz} px" if weights.imgsz else ""
    classes = f", {plural(len(weights.names), 'class', 'classes')}" if weights.names else ""
    return f"1 detector, {readable(weights.path)} ({weights.kind}{size}{classes})."


def _left_aside(survey: Survey) -> list[str]:
    lines = []
    if survey.others:
        kinds = ", ".join(f"{n:,} {ending}" for ending, n in survey.others.items())
        lines.append(f"Left aside, no use for them: {kinds}.")
    listing = survey.listing
    if listing.hidden:
        lines.append(f"Left aside: {plural(listing.hidden, 'file')} whose name begins with a dot.")
    if listing.odd_names:
        lines.append(f"Left aside: {plural(len(listing.odd_names), 'file')} whose name is not UTF-8.")
    if listing.dead_links:
        lines.append(f"Left aside: {plural(len(listing.dead_links), 'link')} to a file that is not there.")
    if listing.loops:
        lines.append(f"Left aside: {plural(listing.loops, 'link')} to a folder that was looked at already.")
    lines += [f"Could not open the folder {readable(name)}: {reason}." for name, reason in listing.unreadable]
    lines += [f"Could not read: {problem}" for problem in survey.problems[:10]]
    if len(survey.problems) > 10:
        lines.append(f"… and {len(survey.problems) - 10:,} more files that cannot be read.")
    return lines


def defaults_taken(asked: Sequence[Question]) -> str:
    """Which defaults ``--yes`` has taken."""
    return "\n".join(
        ["Taken without asking (--yes):", *(f"  {question.flag}: {question.default_words}" for question in asked)]
    )
