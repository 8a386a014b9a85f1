"""What ``birdlab check`` does with the section ``abstention`` of a recipe: its list of birds, photographs and models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from birdlab.check.note import Found, caught, found_in, note
from birdlab.errors import EXIT_DATA, BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.files import at_most
from birdlab.readers.labels import locate
from birdlab.recipe import Abstention, Classifier, Recipe, resolve

_SHOWN = 5


@dataclass(frozen=True)
class _Study:
    """What the models are checked against; null where it could not be read, which was told already."""

    section: Abstention
    base: Path
    root: Path
    taxonomy: Any
    items: pl.DataFrame | None

    def path(self, name: str) -> Path:
        return locate(name, self.base, self.root)


def check_abstention(recipe: Recipe, path: Path, base: Path, root: Path) -> list[Found]:
    """Everything that would stop or bend the chapter on abstention; no network is run and no matrix is read whole.

    Args:
        recipe: with a section ``abstention``.
        path: the recipe's file.
        base: its folder.
        root: folder of the data.

    Returns:
        Problems and notes of the list of birds, its synonyms and vernacular names, the photographs, and each model:
        missing files, hashes that differ, ids and labels that do not fit the matrix or the photographs, prompts that
        have no answer. Of data that a generator makes only the list is checked.
    """
    section = recipe.abstention
    if section is None:
        return []
    taxonomy, found = _list(section, base, root)
    if recipe.data.generator:
        return found
    items, more = _items(section, taxonomy, base, root, path)
    found += more
    study = _Study(section, base, root, taxonomy, items)
    found += caught(lambda: _ranks(study))
    if any(model.weights for model in section.models):
        found += _images(study, path)
    for model in section.models:
        wrong = caught(lambda model=model: _model(study, model))
        found += [(code, p if p.record else replace(p, record=f"model {model.name}")) for code, p in wrong]
    return found


def _list(section: Abstention, base: Path, root: Path) -> tuple[Any, list[Found]]:
    """The list of birds, and what is wrong with it, its synonyms and its vernacular names."""
    from birdlab.readers.taxonomy import PINNED, read_taxonomy

    found: list[Found] = []
    if section.vernaculars:
        found += caught(lambda: _vernaculars(locate(section.vernaculars or "", base, root)))
    source = section.taxonomy if section.taxonomy in PINNED else locate(section.taxonomy, base, root)
    synonyms = locate(section.synonyms, base, root) if section.synonyms else None
    try:
        return read_taxonomy(source, sha256=section.taxonomy_sha256, synonyms=synonyms, base=base), found
    except BirdlabError as error:
        return None, found + found_in(error)


def _vernaculars(path: Path) -> list[Found]:
    """Whether a table of vernacular names has its columns."""
    from birdlab.readers.csvfile import read_rows

    header = {name.strip().casefold() for name in read_rows(path, shown=str(path)).header}
    missing = [name for name in ("name", "language", "scientific_name") if name not in header]
    expected = "columns name, language, scientific_name"
    return [(EXIT_DATA, Problem("missing_column", f"no column {n}", expected, file=str(path), line=1)) for n in missing]


def _items(
    section: Abstention, taxonomy: Any, base: Path, root: Path, recipe: Path
) -> tuple[pl.DataFrame | None, list[Found]]:
    """The photographs; without a list (told already) only their form can be checked."""
    from birdlab.readers.items import read_items

    place = locate(section.items, base, root)
    if not place.is_file():
        return None, [_no_file(section.items, recipe, "abstention.items")]
    try:
        items, notices = read_items(place, taxonomy)
    except BirdlabError as error:
        return None, found_in(error)
    return items, [note(n.code, f"{n.message} ({n.n:,})", n.file) for n in notices]


def _ranks(study: _Study) -> list[Found]:
    """Further ranks that the list does not give for genera of the photographs; a model may know more of them."""
    from birdlab.abstention.tree import Tree

    if study.taxonomy is not None and study.items is not None and study.section.ranks:
        asked = set(study.items["genus"].to_list())
        species = [s for s, genus in study.taxonomy.genus_of.items() if genus in asked]
        Tree.build(species, study.taxonomy, ranks=study.section.all_ranks)
    return []


def _images(study: _Study, recipe: Path) -> list[Found]:
    """Photographs that classifiers are to be run on and that are not there."""
    folder = resolve(study.section.images or ".", study.root)
    if not folder.is_dir():
        return [_no_file(study.section.images or str(study.root), recipe, "abstention.images")]
    if study.items is None:
        return []
    without = study.items.filter(pl.col("image").is_null())["item_id"].to_list()
    named = study.items["image"].drop_nulls().to_list()
    lacking = [name for name in named if not (folder / name).is_file() and not (study.base / name).is_file()]
    found: list[Found] = []
    for ids, what, expected in (
        (without, "items without a path of their photograph", "a path in the column image"),
        (lacking, "photographs that are not there", f"files in {folder.name}"),
    ):
        if ids:
            shown = ", ".join(map(str, ids[:_SHOWN]))
            text = f"{len(ids):,} {what} ({shown}{', …' if len(ids) > _SHOWN else ''})"
            found.append((EXIT_DATA, Problem("no_picture", text, expected, file=study.section.items)))
    return found


def _model(study: _Study, model: Classifier) -> list[Found]:
    """One model's files."""
    if model.weights:
        return _weights(study, model)
    names = [model.scores] if isinstance(model.scores, str) else [*(model.scores or ())]
    files = [n for n in (*names, model.answers, model.ids, model.labels) if n]
    missing = [name for name in files if not study.path(name).exists()]
    if missing:
        raise DataError(
            at_most([Problem("no_file", "no such file", "a path from the recipe's folder", file=n) for n in missing])
        )
    return _answers(study, model) if model.answers else _scores(study, model, [study.path(n) for n in names])


def _weights(study: _Study, model: Classifier) -> list[Found]:
    from birdlab.inference.classifier_labels import find_labels
    from birdlab.inference.weights import find_classifier

    weights = find_classifier(model, study.base, study.root)
    labels = find_labels(model.labels, weights, study.base, study.root, where=f"model {model.name}")
    return _labels(study, model, labels)


def _scores(study: _Study, model: Classifier, paths: list[Path]) -> list[Found]:
    from birdlab.abstention.said import NO_PROMPT
    from birdlab.abstention.topk import topk_vocabulary
    from birdlab.readers.scores import align, read_scores

    about = {key: study.path(name) if name else None for key, name in (("ids", model.ids), ("labels", model.labels))}
    given: Any = paths[0] if len(paths) == 1 else paths
    opened = read_scores(given, model=model.name, kind=model.kind, scale=model.scale, **about)
    if len(opened) != 1:
        found = f"scores of {len(opened)} models or prompts"
        raise DataError(Problem("several_models", found, "scores of one", "split the file", file=str(paths[0])))
    scores: Any = opened[0]
    is_wide = hasattr(scores, "chunks")
    if not is_wide and not hasattr(scores, "missing_mass"):
        prompts = scores.frame.select(pl.col("prompt_id").fill_null(NO_PROMPT), "item_id")
        prompts = prompts.with_columns(pl.lit(True).alias("permits_abstention"))  # the column abstained says so
        return _answered(
            study, model, prompts, paths[0], [note(n.code, f"{n.message} ({n.n:,})") for n in scores.notices]
        )
    found = _labels(study, model, scores.labels if is_wide else scores.frame["label"].unique(maintain_order=True))
    if not is_wide:
        found += _unseen(study.section, scores, str(paths[0]))
        if model.labels:
            topk_vocabulary(scores, study.path(model.labels), where=f"model {model.name}")
        if model.normalise:
            expected = "false: what a list does not show cannot be renormalised"
            raise ParameterError(Problem("bad_value", "true", expected, "give the full probabilities", key="normalise"))
    if study.items is not None:
        aligned = align(scores, study.items, missing=study.section.missing)
        for code, text, ids in (
            ("items_without_scores", "items without scores will be left out", aligned.missing),
            ("scores_without_item", "scored ids are no item and will be passed over", aligned.extra),
        ):
            found += [note(code, f"{len(ids):,} {text}", str(paths[0]))] if ids else []
    return found


def _unseen(section: Abstention, scores: Any, file: str) -> list[Found]:
    """Whether areas over thresholds will be refused for lists of the most probable labels."""
    from birdlab.abstention.topk import refuse_topk

    why = refuse_topk(scores.mean_missing_mass)
    if why is None:
        return []
    return [note("missing_mass", f"{why}; {'forced' if section.force else 'IG and UA/A will not be given'}", file)]


def _labels(study: _Study, model: Classifier, labels: Any) -> list[Found]:
    """Labels that the list does not know as a species; an error where it knows none."""
    if study.taxonomy is None:
        return []
    known = study.taxonomy.resolve(list(labels))
    other = known.filter(pl.col("rank").cast(pl.String).fill_null("") != "species")["name"].to_list()
    if not other:
        return []
    shown = ", ".join(map(str, other[:_SHOWN])) + (", …" if len(other) > _SHOWN else "")
    if len(other) == known.height:
        remedy = "name the list that the model was trained with"
        found = f"{known.height} labels, none a species ({shown})"
        raise DataError(Problem("no_species", found, f"species of {study.taxonomy.name}", remedy, key="labels"))
    text = f"{len(other):,} of {known.height:,} labels are no species of {study.taxonomy.name} ({shown})"
    return [note("other_labels", f"model {model.name}: {text}")]


def _answers(study: _Study, model: Classifier) -> list[Found]:
    from birdlab.abstention.inputs import known_permission
    from birdlab.readers.answers import read_answers

    place = study.path(model.answers or "")
    given, notices = read_answers(place, model=model.name, prompts=model.prompts or None)
    known_permission(model, given)
    found = [note(code, f"{text} ({n:,})", file) for code, text, n, file in notices.iter_rows()]
    silent = sorted(set(model.prompts) - set(given["prompt_id"].to_list()))
    if silent:
        found.append(note("prompt_without_answer", f"prompts without any answer: {', '.join(silent)}", str(place)))
    return _answered(study, model, given, place, found)


def _answered(study: _Study, model: Classifier, given: pl.DataFrame, place: Path, found: list[Found]) -> list[Found]:
    """Whether there is an answer to every item under the prompt that is scored; added to what was found."""
    from birdlab.abstention.inputs import scored_prompt

    prompt = scored_prompt(model, given)
    if study.items is None:
        return found
    answered = set(given.filter(pl.col("prompt_id") == prompt)["item_id"].to_list())
    lacking = [i for i in study.items["item_id"].to_list() if i not in answered]
    if lacking and (study.section.missing == "error" or len(lacking) == study.items.height):
        text = f"{len(lacking):,} items without an answer to prompt {prompt}, {lacking[0]!r} first"
        some = len(lacking) < study.items.height
        remedy = "ask again, or set missing: drop" if some else "use the item_id of the items file"
        raise DataError(Problem("items_without_answers", text, "an answer to every item", remedy, file=str(place)))
    if lacking:
        text = f"{len(lacking):,} items without an answer to prompt {prompt} will be left out"
        found.append(note("items_without_answers", text, str(place)))
    return found


def _no_file(name: str, recipe: Path, key: str) -> Found:
    expected = "a path from the recipe's folder"
    return EXIT_DATA, Problem("no_file", f"no file or folder {name}", expected, "correct it", file=str(recipe), key=key)
