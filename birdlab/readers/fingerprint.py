"""What a run's inputs are, as one key per subject: the hash of every file, taken once and remembered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from birdlab.errors import DataError
from birdlab.readers.files import find_files
from birdlab.readers.labels import locate
from birdlab.recipe import Actions, Keypoints, Media, resolve
from birdlab.shards import digest, write_atomic

if TYPE_CHECKING:
    from birdlab.study import Run


def fingerprint(run: Run) -> str:
    """A key of the content of every input file of a recipe; see :func:`fingerprints`."""
    return digest(fingerprints(run))


def fingerprints(run: Run) -> dict[str, str]:
    """A key of the content of the input files of each subject of a recipe.

    Returns:
        ``media``: recorded files, labels, weights, predictions, manifest; ``reid``: clips of single birds, their pictures
        where a network or a segmenter looks at them, methods, rings; ``individuals``: the folder of the followed birds,
        clips and keypoints; ``soundscapes``: recordings, annotations, run files, sounds; ``abstention``: items, lists of birds, scores,
        answers, weights and the photographs they are run on. Each is the digest of (name, sha256) of its files, and of
        where the data lie, since the tables hold paths.

    Hashes are kept in ``<run>/hashes.json``; a file of unchanged size and time is not read again. A missing file changes
    the key and is reported by whoever needs it. Data that birdlab makes count by generator and version.
    """
    known = read_hashes(run.dir / "hashes.json")
    now: dict[str, tuple[int, int, str]] = {}
    unknown: dict[str, str] = {}
    files = {
        "media": list(_input_files(run)),
        "reid": list(_reid_files(run)),
        "individuals": list(_individuals_files(run)),
        "soundscapes": list(_soundscape_files(run)),
        "abstention": list(_abstention_files(run)),
    }
    keys = {path: relative_key(path, run.base) for paths in files.values() for path in paths}
    for path, key in keys.items():
        try:
            status = os.stat(path)  # noqa: PTH116 (called for every file of a study: a Path costs ten times as much)
        except (OSError, ValueError):  # ValueError: a name with a NUL; told by whoever reads it
            continue
        entry = known.get(key)
        if entry is not None and entry[0] == status.st_size and entry[1] == status.st_mtime_ns:
            now[key] = entry
        else:
            unknown[key] = path
    with ThreadPoolExecutor(4) as pool:
        hashed = zip(unknown, pool.map(file_state, unknown.values()), strict=True)
        now |= {key: entry for key, entry in hashed if entry}
    if now and now != known:
        text = json.dumps(now, indent=0, sort_keys=True)
        write_atomic(run.dir / "hashes.json", lambda temporary: temporary.write_text(text, encoding="utf-8"))
    made: list[str] = []
    if (generator := run.recipe.data.generator) is not None:
        from birdlab.demo.generators import data_version

        made = [generator, data_version(generator)]
    where = str(run.data_root.absolute())
    out = {}
    for subject, paths in files.items():
        mine = sorted({keys[path] for path in paths} & set(now))
        out[subject] = digest([where, [[key, now[key][2]] for key in mine], made])
    return out


def _input_files(run: Run) -> Iterator[str]:
    data, root = run.recipe.data, run.data_root
    if data.generator is None:
        yield from _media_files(data.media, root)
        for name in [labels.path for labels in data.labels] + ([data.manifest] if data.manifest else []):
            yield from _files_of(locate(name, run.base, root))
        for name in [labels.classes for labels in data.labels if isinstance(labels.classes, str)]:
            yield from _files_of(locate(name, run.base, root))
    for model in run.recipe.models:
        if model.predictions:
            yield from _files_of(locate(model.predictions, run.base, root))
        elif model.weights and model.weights.startswith("birdlab:"):
            import birdlab.demo

            folder = Path(birdlab.demo.__file__).parent / "weights"
            yield str(folder / f"{model.weights.removeprefix('birdlab:')}.pt")
        elif model.weights:
            yield from _files_of(locate(model.weights, run.base, root))
    for classifier in run.recipe.tracking.classifiers if run.recipe.tracking else ():
        yield from _files_of(locate(classifier.weights, run.base, root))
    for spec in run.recipe.training.models if run.recipe.training else ():
        for name in (spec.weights, spec.architecture):
            if name and (path := locate(name, run.base, run.base)).is_file():
                yield str(path)


def _reid_files(run: Run) -> Iterator[str]:
    """Files of the recipe's section ``reid``; those that birdlab makes count by the generator's version."""
    section = run.recipe.reid
    if section is None:
        return
    names: list[str | None] = []
    if run.recipe.data.generator is None:
        names += [section.clips, section.territory, section.neighbours]
    for method in section.methods:
        names += [method.embeddings, method.rows, method.similarity, method.columns, method.ranking, method.weights]
    if section.rings:
        names += [section.rings.roster, section.rings.training, section.rings.instances, section.rings.segmenter]
    looks = any(method.weights for method in section.methods) or section.rings is not None
    if looks and run.recipe.data.generator is None:
        clips = locate(section.clips, run.base, run.data_root)
        yield from _pictures_of(
            locate(section.images, run.base, run.data_root) if section.images else clips.parent, run
        )
    if section.rings and run.recipe.data.generator is None:
        taught = locate(section.rings.training, run.base, run.data_root)
        given = section.rings.training_images
        yield from _pictures_of(locate(given, run.base, run.data_root) if given else taught.parent, run)
    for name in names:
        if name and name.startswith("birdlab:"):
            import birdlab.demo

            yield str(Path(birdlab.demo.__file__).parent / "weights" / f"{name.removeprefix('birdlab:')}.pt")
        elif name and (run.recipe.data.generator is None or (run.base / name).exists()):
            yield from _files_of(locate(name, run.base, run.data_root))


def _soundscape_files(run: Run) -> Iterator[str]:
    """Files of the recipe's section ``soundscapes``; those that birdlab makes count by the generator's version."""
    section = run.recipe.soundscapes
    if section is None or run.recipe.data.generator:
        return
    names = [*section.truth, section.classes, section.recordings]
    for one in section.runs:
        names += [one.file, one.weights, one.labels, one.label_map]
    names.append(section.audio if any(one.weights for one in section.runs) else None)
    for name in names:
        if name:
            yield from _files_of(locate(name, run.base, run.data_root))


def _individuals_files(run: Run) -> Iterator[str]:
    """Files of the recipe's section ``individuals``; those that birdlab makes count by the generator's version."""
    section = run.recipe.individuals
    if section is None or run.recipe.data.generator:
        return
    for name in (section.folder, section.inference):
        if name:
            yield from _files_of(locate(name, run.base, run.data_root))
    for task in (section.actions, section.keypoints):
        # Single files: a folder named by mistake, perhaps one full of videos, is not read to its end before it is told.
        yield from (str(locate(name, run.base, run.data_root)) for name in _files_named(task))


def _files_named(task: Actions | Keypoints | None) -> list[str]:
    return [task.truth, *task.predictions.values()] if task else []


def _abstention_files(run: Run) -> Iterator[str]:
    """Files of the recipe's section ``abstention``; those that birdlab makes count by the generator's version."""
    section = run.recipe.abstention
    if section is None or run.recipe.data.generator:
        return
    root = run.data_root
    names = [section.items, section.taxonomy, section.synonyms, section.vernaculars]
    for model in section.models:
        names += [model.answers, model.weights, model.ids, model.labels]
        for name in [model.scores] if isinstance(model.scores, str) else model.scores or []:
            place = locate(name, run.base, root)
            names += [name, *(str(place.parent / f"{place.stem}.{what}.txt") for what in ("ids", "labels"))]
    for name in names:
        if name:
            yield from _files_of(locate(name, run.base, root))
    if any(model.weights for model in section.models):
        from birdlab.readers.images import SUFFIXES

        photographs = resolve(section.images or ".", root)
        yield from (path for path in _files_of(photographs) if Path(path).suffix.lower() in SUFFIXES)


def _media_files(entries: list[Media], root: Path) -> Iterator[str]:
    from birdlab.readers import images, video

    for entry in entries:
        suffixes = images.SUFFIXES if entry.images is not None else video.SUFFIXES
        try:
            paths, _ = find_files(root, entry.images or entry.videos or "", suffixes)
        except DataError:  # said, in full, by read_study
            continue
        yield from (f"{root}/{path}" for path in paths)


def _files_of(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, below, files in os.walk(path):
        below.sort()
        yield from (f"{folder}/{name}" for name in sorted(files) if not name.startswith("."))


def _pictures_of(path: Path, run: Run) -> Iterator[str]:
    """Pictures below a folder. What a run writes is no input: it may lie beside the clips, and changes while it runs."""
    from birdlab.readers.images import SUFFIXES

    here, out = os.path.realpath(path), os.path.realpath(run.dir)
    own = f"{path}{out[len(here) :]}/" if out.startswith(f"{here}/") else None
    for name in _files_of(path):
        if os.path.splitext(name)[1].lower() in SUFFIXES and not (own and name.startswith(own)):  # noqa: PTH122 (fast)
            yield name


def relative_key(path: str, base: Path) -> str:
    """The path relative to the recipe's folder: no absolute path enters a run's files."""
    start = f"{base.absolute()}/"
    return path[len(start) :] if path.startswith(start) else Path(os.path.relpath(path, base)).as_posix()


def file_state(path: str) -> tuple[int, int, str] | None:
    from birdlab.manifest import hash_file

    try:
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns, hash_file(Path(path))
    except (OSError, DataError):
        return None


def read_hashes(path: Path) -> dict[str, tuple[int, int, str]]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {key: (size, time, sha) for key, (size, time, sha) in raw.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
