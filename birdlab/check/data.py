"""What ``birdlab check`` does with data: manifests, label files, results, pictures, videos, weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from birdlab import schemas
from birdlab.check.note import Found, caught, note
from birdlab.datapackage import FILES, read_manifest
from birdlab.errors import EXIT_DATA, BirdlabError, Problem
from birdlab.init.look import LabelSource, Survey, look
from birdlab.init.recipe import Choices, recipe_text
from birdlab.jsonfile import read_json
from birdlab.kinds import IMAGE_SUFFIXES, VIDEO_SUFFIXES, Listing, list_folder, suffix_of
from birdlab.manifest import extra_files, verify
from birdlab.progress import progress
from birdlab.recipe import load_recipe, load_yaml_scalar, parse_recipe, resolve

#: Work on fewer files than this shows no progress.
_QUICK = 200


def check_coco(path: Path) -> list[Found]:
    """Problems and notes of a COCO ground truth.

    Raises:
        DataError: everything that is wrong with it.
    """
    from birdlab.readers.coco import read_ground_truth

    truth = read_ground_truth(path)
    found = [note("coco_warning", warning, str(path)) for warning in truth.warnings]
    if truth.labels["is_ignored"].any():
        n = int(truth.labels["is_ignored"].sum())
        found.append(note("ignored", f"{n} annotations with ignore: 1 are left out of scoring", str(path)))
    return found


def check_results(path: Path, against: Path | None, content: Any) -> list[Found]:
    """Problems and notes of a COCO results file, with its ground truth or, without one, of its form alone.

    Raises:
        DataError: everything that is wrong with it, or with the ground truth.
    """
    from birdlab.readers.coco import read_ground_truth, read_results

    if against is not None:
        truth = read_ground_truth(against)
        _, warnings = read_results(path, truth, model=path.stem)
    else:
        _, warnings = read_results(path, _stand_in(content), model=path.stem)
        warnings = [*warnings, "checked by itself: with --against GT.json its images and classes are compared too"]
    return [note("results_warning", warning, str(path)) for warning in warnings]


def _stand_in(content: Any) -> Any:
    """A ground truth that has every image and every class which a results file names; ``None`` where it names files."""
    from birdlab.readers.coco import CocoTruth

    records = [record for record in content if isinstance(record, dict)] if isinstance(content, list) else []
    if (
        records
        and not any("image_id" in record for record in records)
        and any("file_name" in record for record in records)
    ):
        return None
    ids = sorted({r["image_id"] for r in records if _is_id(r.get("image_id"))}) or [0]
    classes = sorted({r["category_id"] for r in records if _is_id(r.get("category_id"))}) or [0]
    size = pl.Series([None] * len(ids), dtype=pl.Int64)
    images = pl.DataFrame(
        {
            "image_id": pl.Series(ids, dtype=pl.Int64),
            "file_name": [f"image {i}" for i in ids],
            "width": size,
            "height": size,
        }
    )
    return CocoTruth(images, schemas.empty("labels"), {i: str(i) for i in classes})


def _is_id(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def check_manifest(path: Path) -> list[Found]:
    """Problems of a manifest by itself; where a recipe of the same project names it, also of the files it promises."""
    manifest = read_manifest(path)
    for recipe_path in sorted((path.resolve().parent.parent.parent / "reports").glob("*.yaml")):
        try:
            recipe = load_recipe(recipe_path)
        except BirdlabError:
            continue
        base = recipe_path.parent
        if recipe.data.manifest and resolve(recipe.data.manifest, base).resolve() == path.resolve():
            if recipe.data.generator:
                return []
            return check_promises(path, resolve(recipe.data.root, base))
    listed = [name for name in manifest.files["path"] if name != FILES]
    if not listed or (path.parent / listed[0]).exists():
        return check_promises(path, path.parent)
    return [
        note(
            "data_elsewhere",
            "no recipe of this project names it, so where its data lie is not known: only its form was checked",
            str(path),
        )
    ]


def check_promises(path: Path, root: Path) -> list[Found]:
    """Differences between the files under ``root`` and what a manifest promises.

    Raises:
        ManifestError: the manifest cannot be read.
    """
    manifest = read_manifest(path)
    with _steps("hashing", manifest.files.height) as step:
        found: list[Found] = [(EXIT_DATA, problem) for problem in verify(path, root, progress=step)]
    if manifest.remote:
        found.append(
            note("remote", f"{manifest.remote} resources are addresses on the web and were not checked", str(path))
        )
    if root.is_dir() and not any(problem.code == "missing_data" for _, problem in found):
        here = list_folder(root, leave_out=(root / "reports", root / "data_manifests"))
        extra = extra_files(manifest, here.with_suffix(IMAGE_SUFFIXES | VIDEO_SUFFIXES))
        if extra:
            named = ", ".join(extra[:3]) + (" …" if len(extra) > 3 else "")
            found.append(
                note("extra_files", f"{len(extra):,} pictures or videos that it does not list ({named})", str(path))
            )
    return found


def check_images(paths: Sequence[Path]) -> list[Found]:
    """Problems of pictures; each is decoded whole, for a file that was cut off looks well from its beginning."""
    from birdlab.readers.pixels import read_image

    return _each("pictures", paths, read_image)


def check_videos(paths: Sequence[Path]) -> list[Found]:
    """Problems of videos: their packets are read, and their first frames decoded."""
    from birdlab.readers.video_info import read_info

    def read(path: Path) -> list[Found]:
        return [note(n.code, n.message, str(path)) for n in read_info(path).notices]

    return _each("videos", paths, read)


def _each(unit: str, paths: Sequence[Path], read: Callable[[Path], Any]) -> list[Found]:
    def work(path: Path) -> list[Found]:
        def one() -> list[Found]:
            result = read(path)
            return result if isinstance(result, list) else []

        return caught(one)

    found: list[Found] = []
    with _steps("reading", len(paths), unit) as step, ThreadPoolExecutor(4) as pool:
        for done, result in enumerate(pool.map(work, paths), start=1):
            found += result
            if step:
                step(done, len(paths))
    return found


def _steps(label: str, n: int, unit: str = "files") -> Any:
    return progress(label, unit=unit) if n >= _QUICK else nullcontext()


def check_weights(path: Path) -> list[Found]:
    """Problems of a detector's file; nothing is unpickled or run."""
    from birdlab.inference.weights import find_weights
    from birdlab.recipe import Model

    find_weights(Model(name="model", weights=str(path.resolve())), path.parent, path.parent)
    return []


def check_texts(paths: Sequence[Path]) -> list[Found]:
    """Problems of YOLO label files, line by line."""
    from birdlab.readers.yolo import read_lines

    return _each("label files", paths, lambda path: [(EXIT_DATA, problem) for problem in read_lines(path)[1]])


def check_megadetector(path: Path) -> list[Found]:
    """Problems of a MegaDetector or SpeciesNet file, and how many pictures it could not be asked about.

    Raises:
        DataError: everything that is wrong with it.
    """
    from birdlab.readers.megadetector import read_entries

    entries = read_entries(path)
    failed = sum(entry.failure is not None for entry in entries)
    return (
        [note("failures", f"{failed:,} of {len(entries):,} entries are failures, not empty pictures", str(path))]
        if failed
        else []
    )


def check_labelme(path: Path) -> list[Found]:
    """Problems of one LabelMe file, with its picture where that lies beside it, else of its form alone."""
    content = read_json(path)
    named = str(content.get("imagePath") or "").replace("\\", "/").rpartition("/")[2]
    beside = [
        p.name
        for p in path.parent.iterdir()
        if suffix_of(p.name) in IMAGE_SUFFIXES and (p.name == named or p.stem == path.stem)
    ]
    survey = look(Listing(path.parent, (path.name, *beside)))
    if not beside:
        return [
            *_shapes(path, content),
            note("no_picture", "its picture is not beside it, so names and sizes were not compared", str(path)),
        ]
    source = replace(survey.labels[0], path=path.name)
    return caught(lambda: _read_with_pictures(survey, source))


def _shapes(path: Path, content: dict[str, Any]) -> list[Found]:
    from birdlab.readers.labelme import read_shape

    height, width = (content.get(key) for key in ("imageHeight", "imageWidth"))
    size = (height, width) if _is_id(height) and _is_id(width) and height > 0 and width > 0 else (2160, 3840)
    found = []
    for index, shape in enumerate(content["shapes"]):
        try:
            read_shape(shape if isinstance(shape, dict) else {}, index, size)
        except ValueError as error:
            expected = "a label, and points [x, y] in pixels (2 for a rectangle, 3 or more for a polygon)"
            found.append(
                (EXIT_DATA, Problem("bad_shape", str(error), expected, file=str(path), record=f"shapes[{index}]"))
            )
    return found


def check_labels(survey: Survey) -> list[Found]:
    """Problems of LabelMe and YOLO labels together with the pictures that lie with them."""
    found: list[Found] = []
    for source in survey.labels:
        if source.format == "coco":
            continue
        if not survey.photos:
            expected = "the pictures beside the labels, or a recipe that says where they are"
            found.append(
                (
                    EXIT_DATA,
                    Problem("no_pictures", f"{source.format} labels without pictures", expected, file=source.path),
                )
            )
            continue
        found += caught(lambda source=source: _read_with_pictures(survey, source))
    return found


def _read_with_pictures(survey: Survey, source: LabelSource) -> list[Found]:
    from birdlab.readers.study import read_study

    root = survey.listing.root.resolve()
    listing = replace(survey.listing, root=root)
    alone = replace(survey, listing=listing, labels=(source,), results=(), weights=(), videos=())
    recipe = parse_recipe(load_yaml_scalar(recipe_text(alone, Choices("check"), root, None)), source=source.path)
    study = read_study(recipe, root, root)
    return [note(code, f"{message} ({n:,})", file) for code, message, n, file in study.notices.iter_rows()]
