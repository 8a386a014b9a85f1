"""What ``birdlab check`` does with the section ``individuals`` of a recipe: the followed birds, clips and keypoints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from birdlab.check.note import Found, caught, note
from birdlab.readers.labels import locate
from birdlab.recipe import Individuals, Recipe


def check_individuals(recipe: Recipe, base: Path, root: Path) -> list[Found]:
    """Everything of the section that cannot be read, or that its readers remark.

    Args:
        recipe: the recipe.
        base: its folder.
        root: folder of the data.
    """
    section = recipe.individuals
    if section is None or recipe.data.generator:
        return []
    return [
        *caught(lambda: _colony(section, base, root)),
        *caught(lambda: _actions(section, base, root)),
        *caught(lambda: _keypoints(section, base, root)),
    ]


def _colony(section: Individuals, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.readers.chirp import read_colony

    place = locate(section.folder, base, root)
    inference = locate(section.inference, base, root) if section.inference else None
    colony = read_colony(place, inference, fps=section.fps, human=section.human)
    return [_told(row["code"], row["message"], row["n"], section.folder) for row in colony.notices.to_dicts()]


def _actions(section: Individuals, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.actions import check_labels, check_list
    from birdlab.readers.behaviours import read_clips

    actions = section.actions
    if actions is None:
        return []
    check_list(actions.labels)
    files = {name: locate(path, base, root) for name, path in actions.predictions.items()}
    clips, told = read_clips(locate(actions.truth, base, root), files, split=actions.split)
    check_labels(clips, actions.labels, source=actions.truth)
    return [_told(n.code, n.message, n.n, actions.truth) for n in told]


def _keypoints(section: Individuals, base: Path, root: Path) -> Iterable[Found]:
    from birdlab.individuals.oks import sigma_list
    from birdlab.readers.coco_keypoints import read_truth
    from birdlab.readers.pose_files import read_poses

    keypoints = section.keypoints
    if keypoints is None:
        return []
    truth = read_truth(locate(keypoints.truth, base, root), scene=keypoints.scene, session=keypoints.session)
    sigma_list(truth.names, keypoints.sigmas)
    found = [_told(n.code, n.message, n.n, keypoints.truth) for n in truth.notices]
    for path in keypoints.predictions.values():
        found += caught(lambda path=path: _poses(locate(path, base, root), truth, read_poses))
    return found


def _poses(path: Path, truth: object, read: object) -> Iterable[Found]:
    return [_told(n.code, n.message, n.n, str(path)) for n in read(path, truth).notices]  # type: ignore[operator]


def _told(code: str, message: str, n: int | None, file: str) -> Found:
    return note(code, f"{message}{f' ({n:,})' if n else ''}", file)
