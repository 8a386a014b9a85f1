"""What ``birdlab score abstention`` is given: files of scores or answers, one source per model and prompt, and their tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import polars as pl

from birdlab import schemas
from birdlab.abstention.answer_columns import answer_columns
from birdlab.abstention.conventions import Nan, Unparsed
from birdlab.abstention.said import read_said
from birdlab.abstention.taxonomy import Taxonomy, alignment
from birdlab.abstention.topk import topk_vocabulary
from birdlab.errors import BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.files import Notice
from birdlab.readers.item_fields import heading, tidy_name
from birdlab.readers.table_file import csv_shape, sniff

Kind = Literal["wide", "topk", "said", "text"]
#: Columns of free text that is still to be read, the first that is there wins.
TEXT_HEADINGS = frozenset({"answer", "text", "response", "output", "completion"})
_BINOMIAL = re.compile(r"([A-Z][\w-]+ (?!spp\b)[^\W\d_A-Z][\w-]{2,})(?: [^\W\d_A-Z][\w-]*)?")
_FIRST_LINES = 20


@dataclass(frozen=True)
class Source:
    """One model under one prompt in one file.

    ``scores`` is a ``WideScores`` (kind ``wide``), a ``TopKScores`` (``topk``), or a table of answers: as given in
    columns (``said``, the columns of ``AnswerScores``) or as free text (``text``, those of ``read_answers``).
    """

    name: str
    prompt: str | None
    file: str
    kind: Kind
    scores: Any
    notices: tuple[Notice, ...] = ()
    vocabulary: tuple[str, ...] | None = None  #: top-k: all labels of the model, where they were given

    @property
    def labels(self) -> list[str]:
        """Names that the model uses; of free text none are known before it is read."""
        if self.kind == "text":
            return []
        if self.vocabulary is not None:
            return list(self.vocabulary)
        if self.kind == "wide":
            return list(self.scores.labels)
        names = self.scores.frame["label"] if self.kind == "topk" else self.scores["taxon"].drop_nulls()
        return names.unique(maintain_order=True).to_list()


@dataclass(frozen=True)
class Reading:
    """How scores are read: the options of the command that decide it; ``observation``: whether photographs are pooled."""

    normalise: bool = False
    nan: Nan = "error"
    unparsed: Unparsed = "wrong"
    missing: Literal["error", "drop"] = "error"
    observation: bool = True


@dataclass(frozen=True)
class Columns:
    """The per-image columns of a source, how its names align with the list, and what its answers come to."""

    frame: pl.DataFrame
    notices: tuple[Notice, ...]
    how: dict[str, int]
    examples: dict[str, list[str]]
    decisions: dict[str, int] | None = None


def open_sources(paths: Sequence[Path], names: Sequence[str], *, ids: Path | None, labels: Path | None) -> list[Source]:
    """Open every file; matrices are not read yet.

    Args:
        paths: files of scores or answers.
        names: of the model where a file does not say, one per path.
        ids: names of the rows of the npy files.
        labels: names of their columns; of top-k rows, all that the model knows.

    Returns:
        One source per file, model and prompt, in order; a name that is taken already gets a number behind it.

    Raises:
        DataError: every problem of every file.
        ParameterError: ``ids`` without a npy file, ``labels`` without a npy file or top-k rows.
    """
    npy = [path.suffix.lower() == ".npy" for path in paths]
    found: list[Source] = []
    problems: list[Problem] = []
    usage = True
    if ids and not any(npy):
        problems.append(Problem("bad_value", "no npy file", "a npy file that it names the rows of", key="--ids"))
    for path, name, is_npy in zip(paths, names, npy, strict=True):
        try:
            opened = _open(path, name, ids=ids if is_npy else None, labels=labels if is_npy else None)
            found += [_with_vocabulary(source, labels) for source in opened]
        except BirdlabError as error:
            usage &= not isinstance(error, DataError)
            problems += at_file(error, str(path))
    if labels and not problems and not any(npy) and all(source.vocabulary is None for source in found):
        expected = "a npy file or top-k rows that they belong to"
        problems.append(Problem("bad_value", "no npy file and no top-k rows", expected, key="--labels"))
    if problems:
        raise (ParameterError if usage else DataError)(problems)
    return _distinct(found)


def _with_vocabulary(source: Source, labels: Path | None) -> Source:
    """Top-k rows with all labels of their model."""
    if labels is None or source.kind != "topk":
        return source
    return replace(source, vocabulary=topk_vocabulary(source.scores, labels, where="--labels"))


def at_file(error: BirdlabError, file: str) -> list[Problem]:
    """The problems of an error, each with a file."""
    problems = error.problems or [Problem("error", str(error), "scores that can be used")]
    return [replace(p, file=p.file or file) for p in problems]


def is_free_text(path: Path) -> bool:
    """Whether a file holds answers in words that are still to be read: a column of text and none that says what it means.

    Raises:
        DataError: it cannot be opened or is of no known kind.
    """
    kind = sniff(path)
    if kind == "csv":
        names = {heading(name) for name in csv_shape(path, str(path)).header}
    elif kind == "jsonl":
        names = _keys(path)
    else:
        return False
    ranked = any(name.startswith("top1_") or name.startswith("top_1_") for name in names)
    decided = {"abstained", "probability", "prob", "score"} & names
    return bool(names & TEXT_HEADINGS) and not decided and not ranked


def _keys(path: Path) -> set[str]:
    """Keys of the first objects of a JSON-lines file; what is wrong with it is for its reader to say."""
    keys: set[str] = set()
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in islice(file, _FIRST_LINES):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            keys |= {heading(str(key)) for key in value} if isinstance(value, dict) else set()
    return keys


def _open(path: Path, name: str, *, ids: Path | None, labels: Path | None) -> list[Source]:
    if not path.is_dir() and is_free_text(path):
        return _texts(path, name)
    from birdlab.readers.scores import read_scores

    found: list[Source] = []
    for scores in read_scores(path, model=name, ids=ids, labels=labels):
        more = tuple(getattr(scores, "notices", ()))
        if hasattr(scores, "chunks"):
            found.append(Source(scores.model, scores.prompt_id, str(path), "wide", scores, more))
        elif hasattr(scores, "missing_mass"):
            found.append(Source(scores.model, scores.prompt_id, str(path), "topk", scores, more))
        else:
            parts = scores.frame.group_by("prompt_id", maintain_order=True)
            found += [Source(scores.model, p, str(path), "said", some, more) for (p,), some in parts]  # type: ignore[arg-type]
    return found


def _texts(path: Path, name: str) -> list[Source]:
    """Answers in words by model and prompt; the models are those that the rows name."""
    from birdlab.readers.answers import named_model, read_answers
    from birdlab.readers.answers_rows import Collector, csv_rows, json_rows

    aside = Collector(str(path))  # what is wrong is for the reader to say
    delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
    rows = json_rows(path, aside) if sniff(path) == "jsonl" else csv_rows(path, aside, delimiter=delimiter)
    named = [named_model(row.fields.get("model")) for row in rows]
    found: list[Source] = []
    for model in dict.fromkeys(m for m in named if m is not None) or [name]:
        table, notices = read_answers(path, model=model)
        told = [Notice(*row) for row in notices.select("code", "message", "n", "file").iter_rows()]
        more = tuple(n for n in told if n.code != "other_models")  # each of them is read in its turn
        for (prompt,), some in table.group_by("prompt_id", maintain_order=True):
            found.append(Source(model, str(prompt), str(path), "text", some, more))
    return found


def _distinct(sources: Iterable[Source]) -> list[Source]:
    seen: dict[tuple[str, str | None], int] = {}
    out = []
    for source in sources:
        key = (source.name, source.prompt)
        seen[key] = seen.get(key, 0) + 1
        out.append(source if seen[key] == 1 else replace(source, name=f"{source.name} ({seen[key]})"))
    return out


def tree_of_names(items: pl.DataFrame, sources: Sequence[Source]) -> Taxonomy:
    """The list of the names that items and models use, for want of another: the genus is the first word.

    Args:
        items: as read without a list.
        sources: their labels count where they read like scientific names; of three words the first two.

    Raises:
        DataError: no such name anywhere.
    """
    lists = items["candidates"].explode() if items["candidates"].dtype.is_nested() else items["candidates"]
    names = [*items["species"], *lists.cast(pl.String), *(label for s in sources for label in s.labels)]
    matches = (_BINOMIAL.fullmatch(tidy_name(name)) for name in dict.fromkeys(names) if name)
    found = dict.fromkeys(match.group(1) for match in matches if match)
    if not found:
        remedy = "name the list with --taxonomy"
        expected = "names of species of two words in items or labels"
        raise DataError(Problem("no_species", "no scientific name", expected, remedy, sources[0].file))
    return Taxonomy.from_names(found)


def in_tree(items: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """Items that were read without a list, with their species and candidates as the list writes them."""
    names = {*items["species"].drop_nulls(), *items["candidates"].explode().cast(pl.String).drop_nulls()}
    other = sorted(names - set(taxonomy.genus_of))
    if not other:
        return items
    told = taxonomy.resolve(other)
    new = {n: t for n, t, r in told.select("name", "taxon_id", "rank").iter_rows() if r == "species"}
    return items.with_columns(
        pl.col("species").replace(new),
        pl.col("candidates").list.eval(pl.element().replace(new)).list.unique(maintain_order=True),
    )


def columns_of(
    source: Source, items: pl.DataFrame, taxonomy: Taxonomy, reading: Reading, lexicon: Callable[[], Any]
) -> Columns:
    """Per-image columns of one source.

    Args:
        source: what was opened.
        items: table ``items`` under the same list.
        taxonomy: the list.
        reading: how.
        lexicon: makes the names that free text is read with; called only for such.

    Raises:
        DataError: rows that are no probabilities, items without a row, names of no species.
    """
    if source.kind in ("said", "text"):
        return _answers(source, items, taxonomy, reading, lexicon)
    from birdlab.abstention.hierarchy import Options
    from birdlab.abstention.score_columns import score_columns

    wide = source.kind == "wide"
    options = Options(normalise=reading.normalise, nan=reading.nan, range_map=wide)
    about = {"observation": wide and reading.observation, "missing": reading.missing, "labels": source.vocabulary}
    frame, notices = score_columns(source.scores, items, taxonomy, options=options, **about)
    each, _ = alignment(taxonomy, source.labels)
    how = _counted(each)
    examples = dict(each.group_by("how", maintain_order=True).agg(pl.col("label").head(5)).iter_rows())
    return Columns(_conformed(frame, source), (*source.notices, *notices), how, examples)


def _answers(
    source: Source, items: pl.DataFrame, taxonomy: Taxonomy, reading: Reading, lexicon: Callable[[], Any]
) -> Columns:
    given = source.scores.filter(pl.col("item_id").is_in(items["item_id"].to_list()))
    notices = list(source.notices)
    if extra := source.scores.height - given.height:
        notices.append(Notice("answers_without_item", "answers to what is no item, left out", extra))
    if lacking := items.height - given.height:
        ids = items.filter(~pl.col("item_id").is_in(given["item_id"].to_list()))["item_id"]
        if reading.missing == "error" or not given.height:
            found = f"{lacking} items without an answer, {ids[0]!r} first"
            remedy = "ask again" + (", or use --missing drop" if given.height else "; no answer has the id of an item")
            expected = "an answer to every item"
            raise DataError(Problem("items_without_answers", found, expected, remedy, file=source.file))
        notices.append(Notice("items_without_answers", "items without an answer, left out", lacking))
    if source.kind == "text":
        from birdlab.abstention.answers import parse_answers

        answers = parse_answers(given, lexicon())
    else:
        answers = read_said(given, taxonomy)
    decisions = dict(answers.group_by(pl.col("decision").cast(pl.String)).len().sort("len", "decision").iter_rows())
    if decisions.get("unparsed"):
        text = f"answers that could not be read (no abstentions; unparsed={reading.unparsed})"
        notices.append(Notice("unparsed", text, decisions["unparsed"]))
    asked = set(items["genus"].to_list())
    vocabulary = [species for species, genus in taxonomy.genus_of.items() if genus in asked]
    frame = answer_columns(answers, items, taxonomy, unparsed=reading.unparsed, vocabulary=vocabulary)
    how = _counted(answers.rename({"method": "how"}))
    return Columns(_conformed(frame, source), tuple(notices), how, {}, decisions)


def _counted(table: pl.DataFrame) -> dict[str, int]:
    """How many rows of each ``how``, the most frequent first."""
    return dict(table.group_by("how").len().sort(["len", "how"], descending=[True, False]).iter_rows())


def _conformed(frame: pl.DataFrame, source: Source) -> pl.DataFrame:
    return schemas.TABLES["image_scores"].conform(frame).with_columns(pl.lit(source.name).alias("model"))
