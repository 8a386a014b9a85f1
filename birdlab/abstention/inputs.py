"""From the recipe's section ``abstention`` to its tables: list of birds, photographs, answers, per-image columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from birdlab import schemas
from birdlab.abstention.answer_columns import answer_columns
from birdlab.abstention.hierarchy import Options
from birdlab.abstention.score_columns import score_columns
from birdlab.abstention.study import no_section
from birdlab.abstention.taxonomy import Taxonomy, alignment
from birdlab.abstention.topk import topk_vocabulary
from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.progress import progress
from birdlab.readers.files import Notice
from birdlab.readers.fingerprint import read_hashes, relative_key
from birdlab.readers.items import read_items
from birdlab.readers.labels import locate
from birdlab.readers.taxonomy import PINNED, read_taxonomy
from birdlab.recipe import Abstention, Classifier, resolve

if TYPE_CHECKING:
    from birdlab.study import Run

NOTICES = {"model": pl.String, "code": pl.String, "message": pl.String, "n": pl.Int64}
FAILURES = {"model": pl.String, "item_id": pl.String, "stage": pl.String, "message": pl.String}
ALIGNMENT = {"model": pl.String, "how": pl.String, "n": pl.Int64, "labels": pl.List(pl.String)}
#: Rows of a part at least: a part has one column per label, and each column costs about 330 bytes.
SHARD_ROWS = 256
#: Labels shown for each way of aligning.
_EXAMPLES = 5


@dataclass
class _Parts:
    """What the models of a recipe gave, collected."""

    scores: list[pl.DataFrame] = field(default_factory=list)
    answers: list[pl.DataFrame] = field(default_factory=list)
    alignments: list[pl.DataFrame] = field(default_factory=list)
    failures: list[pl.DataFrame] = field(default_factory=list)
    notices: list[tuple[str, str, str, int]] = field(default_factory=list)

    def tell(self, model: str, notices: Iterable[Notice] | pl.DataFrame) -> None:
        if isinstance(notices, pl.DataFrame):
            self.notices += [(model, *row) for row in notices.select("code", "message", "n").iter_rows()]
            return
        self.notices += [(model, n.code, n.message, n.n) for n in notices]


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``taxa``, ``items``, ``answers``, ``image_scores`` and of what is to be said about them.

    Every model is read; the problems of all of them are in one error. Classifiers are run in resumable shards.

    Returns:
        Also ``classifier_failures`` (photographs that could not be read), ``abstention_alignment`` (how each model's labels
        align with the list) and ``abstention_notices`` (model, code, message, n).

    Raises:
        DataError: a file is missing or not as it should be.
        ParameterError: the recipe asks for what cannot be.
    """
    section = run.recipe.abstention
    if section is None:
        raise no_section(run)
    if run.recipe.data.generator:
        from birdlab.demo.generators import make_data

        make_data(run.recipe.data.generator, run.data_root)
    taxonomy = taxonomy_of(run, section)
    items, notices = read_items(_path(run, section.items), taxonomy)
    parts = _Parts()
    told = f"name={taxonomy.name} version={taxonomy.version} sha256={(taxonomy.sha256 or '-')[:16]}"
    parts.notices.append(("", "taxonomy", told, taxonomy.taxa.height))
    parts.tell("", [*taxonomy.notices, *notices])
    problems: list[Problem] = []
    kinds: set[type[BirdlabError]] = set()
    lexicon: Any = None
    for model in section.models:
        try:
            if model.answers:
                lexicon = lexicon or _lexicon(run, section, taxonomy)
                _answers(run, model, items, taxonomy, lexicon, parts)
            else:
                _scores(run, model, items, taxonomy, parts)
        except BirdlabError as error:
            found = error.problems or [Problem("bad_model", str(error), "scores that can be used")]
            problems += [p if p.record else replace(p, record=model.name) for p in found]
            kinds.add(type(error))
    if problems:
        raise (DataError if any(issubclass(k, DataError) for k in kinds) else ParameterError)(problems)
    columns = pl.concat(
        [schemas.empty("image_scores"), *map(schemas.TABLES["image_scores"].conform, parts.scores)],
        how="diagonal_relaxed",
    )
    return {
        "taxa": _used_taxa(taxonomy, items),
        "items": items,
        "answers": pl.concat([schemas.empty("answers"), *map(schemas.TABLES["answers"].conform, parts.answers)]),
        "image_scores": columns,
        "classifier_failures": pl.concat([pl.DataFrame(schema=FAILURES), *parts.failures]),
        "abstention_alignment": pl.concat([pl.DataFrame(schema=ALIGNMENT), *parts.alignments]),
        "abstention_notices": pl.DataFrame(parts.notices, schema=NOTICES, orient="row"),
    }


def taxonomy_of(run: Run, section: Abstention) -> Taxonomy:
    """The list of birds that a recipe names: a pinned one, or a file."""
    source = section.taxonomy if section.taxonomy in PINNED else _path(run, section.taxonomy)
    synonyms = _path(run, section.synonyms) if section.synonyms else None
    return read_taxonomy(source, sha256=section.taxonomy_sha256, synonyms=synonyms, base=run.base)


def _path(run: Run, name: str) -> Path:
    return locate(name, run.base, run.data_root)


def _lexicon(run: Run, section: Abstention, taxonomy: Taxonomy) -> Any:
    from birdlab.abstention.answers import Lexicon, read_vernaculars

    own = read_vernaculars(_path(run, section.vernaculars)) if section.vernaculars else None
    names = read_vernaculars()
    return Lexicon(taxonomy, names if own is None else pl.concat([own, names], how="diagonal_relaxed"))


def _answers(run: Run, model: Classifier, items: pl.DataFrame, taxonomy: Taxonomy, lexicon: Any, parts: _Parts) -> None:
    from birdlab.abstention.answers import Policy, parse_answers
    from birdlab.readers.answers import read_answers

    section = run.recipe.abstention
    assert_section(section)
    given, notices = read_answers(_path(run, model.answers or ""), model=model.name, prompts=model.prompts or None)
    parts.tell(model.name, notices)
    known_permission(model, given)
    known = _known(given, model, items, parts)
    answers = parse_answers(known, lexicon, Policy(**section.policy.model_dump()))
    _add_answers(section, model, answers, items, taxonomy, parts)


def _known(given: pl.DataFrame, model: Classifier, items: pl.DataFrame, parts: _Parts) -> pl.DataFrame:
    """Answers to items; others are counted.

    Raises:
        DataError: none is left.
    """
    known = given.filter(pl.col("item_id").is_in(items["item_id"].to_list()))
    if extra := given.height - known.height:
        parts.notices.append((model.name, "answers_without_item", "answers to what is no item, left out", extra))
    if known.is_empty():  # whatever ``missing`` says: nothing is left to score
        found = "no answer" if given.is_empty() else f"{given.height} answers, none to an item of the items file"
        remedy = "use the item_id of the items file"
        expected = "answers to the items"
        where = model.answers or str(model.scores)
        raise DataError(Problem("no_answers", found, expected, remedy, file=where, record=model.name))
    return known


def _add_answers(
    section: Abstention,
    model: Classifier,
    answers: pl.DataFrame,
    items: pl.DataFrame,
    taxonomy: Taxonomy,
    parts: _Parts,
) -> None:
    """Keep the answers of one model, and the columns of those to its scored prompt.

    Raises:
        DataError: items without an answer to it, where the recipe does not drop them.
        ParameterError: the recipe names a prompt that has no answer.
    """
    parts.answers.append(answers.with_columns(pl.col("text").fill_null("")))  # no answer at all: unparsed, counted
    prompt = scored_prompt(model, answers)
    mine = answers.filter(pl.col("prompt_id") == prompt)
    if missing := items.height - mine.height:
        text = f"items without an answer to prompt {prompt}"
        if section.missing == "error":
            first = items.filter(~pl.col("item_id").is_in(mine["item_id"].to_list()))["item_id"][0]
            remedy = "ask again, or set missing: drop"
            raise DataError(
                Problem(
                    "items_without_answers",
                    f"{missing} {text}, e.g. {first}",
                    "an answer to every item",
                    remedy,
                    record=model.name,
                )
            )
        parts.notices.append((model.name, "items_without_answers", f"{text}, left out", missing))
    parts.notices.append((model.name, "prompt", f"scored prompt: {prompt}", mine.height))
    parts.scores.append(
        answer_columns(mine, items, taxonomy, unparsed=section.unparsed, vocabulary=_genus_lists(items, taxonomy))
    )


def known_permission(model: Classifier, given: pl.DataFrame) -> None:
    """Refuse prompts of which nobody says whether they permit abstention: rates under both kinds are compared.

    Raises:
        DataError: there are such prompts, in answers as read.
    """
    silent = given.filter(pl.col("permits_abstention").is_null())["prompt_id"].unique(maintain_order=True).to_list()
    if silent:
        remedy = f"add the key permits_abstention to its rows, or to the model: prompts: {{{silent[0]}: true}}"
        found = f"no word on prompt {', '.join(silent[:5])}"
        expected = "for each prompt whether it permits abstention"
        at = {"file": model.answers, "record": model.name, "key": "permits_abstention"}
        raise DataError(Problem("permits_unknown", found, expected, remedy, **at))


def scored_prompt(model: Classifier, answers: pl.DataFrame) -> str:
    """The prompt whose answers the curves use: the recipe's, else the first that permits abstention, else the first.

    Raises:
        ParameterError: the recipe names a prompt that has no answer.
    """
    prompts = answers.select("prompt_id", "permits_abstention").unique("prompt_id", maintain_order=True)
    names = prompts["prompt_id"].to_list()
    if model.prompt is not None:
        if model.prompt not in names:
            raise ParameterError(
                Problem(
                    "unknown_prompt", repr(model.prompt), "one of " + ", ".join(names), record=model.name, key="prompt"
                )
            )
        return model.prompt
    permits = prompts.filter("permits_abstention")["prompt_id"].to_list()
    return (permits or names)[0]


def _genus_lists(items: pl.DataFrame, taxonomy: Taxonomy) -> list[str]:
    """What could have been answered: every species of every genus that is asked about."""
    asked = set(items["genus"].to_list())
    return [species for species, genus in taxonomy.genus_of.items() if genus in asked]


def _scores(run: Run, model: Classifier, items: pl.DataFrame, taxonomy: Taxonomy, parts: _Parts) -> None:
    from birdlab.abstention.said import read_said
    from birdlab.readers.scores import AnswerScores, read_scores

    section = run.recipe.abstention
    assert_section(section)
    missing = section.missing
    if model.weights:
        paths: Path | list[Path] = _classified(run, model, items, parts)
        missing = "drop"  # photographs that could not be read are listed as failures
    else:
        names = [model.scores] if isinstance(model.scores, str) else list(model.scores or [])
        paths = [_path(run, name) for name in names]
        paths = paths[0] if len(paths) == 1 else paths
    beside = {} if model.weights else {"ids": model.ids, "labels": model.labels}
    files = {key: _path(run, name) if name else None for key, name in beside.items()}
    kind = "wide" if model.weights else model.kind
    found = read_scores(paths, model=model.name, kind=kind, scale=model.scale, **files)
    if len(found) != 1:
        raise DataError(
            Problem(
                "several_models",
                f"scores of {len(found)} models",
                "scores of one",
                "split the file by model",
                record=model.name,
            )
        )
    scores = found[0]
    if isinstance(scores, AnswerScores):
        answers = read_said(_known(scores.frame, model, items, parts), taxonomy)
        _add_answers(section, model, answers.with_columns(pl.lit(model.name).alias("model")), items, taxonomy, parts)
        return
    labels = scores.labels if hasattr(scores, "chunks") else scores.frame["label"].unique(maintain_order=True).to_list()
    parts.alignments.append(_alignment(model.name, taxonomy, labels))
    options = Options(normalise=model.normalise, nan=section.nan, range_map=hasattr(scores, "chunks"))
    about = {"ranks": section.all_ranks, "options": options, "missing": missing}
    if not hasattr(scores, "chunks") and model.labels:
        about["labels"] = topk_vocabulary(scores, _path(run, model.labels), where=f"model {model.name}")
    columns, notices = score_columns(scores, items, taxonomy, observation=hasattr(scores, "chunks"), **about)
    parts.scores.append(columns.with_columns(pl.lit(model.name).alias("model")))
    parts.tell(model.name, notices)


def _classified(run: Run, model: Classifier, items: pl.DataFrame, parts: _Parts) -> list[Path]:
    from birdlab.inference.classify import classify

    section = run.recipe.abstention
    assert_section(section)
    root = resolve(section.images or ".", run.data_root)
    known = read_hashes(run.dir / "hashes.json")
    paths = [f"{root}/{image}" if image else "" for image in items["image"].to_list()]
    found = [known.get(relative_key(path, run.base)) if path else None for path in paths]
    photographs = items.select("item_id", "image").with_columns(
        pl.Series("sha256", [entry[2] if entry else None for entry in found], dtype=pl.String)
    )
    size = max(run.recipe.shard_size, SHARD_ROWS)
    with progress(model.name, state=run.dir / "progress.json") as step:
        about = {"base": run.base, "root": root, "out_dir": run.dir, "device": run.recipe.device}
        done = classify(model, photographs, shard_size=size, progress=step, **about)
    parts.failures.append(
        done.failures.select(pl.lit(model.name).alias("model"), "item_id", "stage", "message").cast(FAILURES)
    )
    parts.tell(model.name, done.notices)
    if done.failures.height == items.height:
        first = done.failures.row(0, named=True)
        found = f"none of {items.height:,} photographs could be named; {first['item_id']}: {first['message']}"
        raise DataError(Problem("no_picture", found, "photographs that can be read", file=section.items, key="image"))
    return list(done.parts)


def _alignment(model: str, taxonomy: Taxonomy, labels: Iterable[str]) -> pl.DataFrame:
    each, _ = alignment(taxonomy, list(labels))
    table = each.group_by("how", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("label").head(_EXAMPLES).alias("labels")
    )
    return (
        table.select(pl.lit(model).alias("model"), "how", "n", "labels")
        .sort("n", descending=True, maintain_order=True)
        .cast(ALIGNMENT)
    )


def _used_taxa(taxonomy: Taxonomy, items: pl.DataFrame) -> pl.DataFrame:
    asked = set(items["genus"].to_list())
    species = [s for s, genus in taxonomy.genus_of.items() if genus in asked]
    return taxonomy.subset(species).taxa


def assert_section(section: Abstention | None) -> None:
    """Refuse to go on without the section (the builder has made sure of it)."""
    if section is None:
        raise ParameterError("no section abstention in the recipe")
