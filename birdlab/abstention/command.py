"""``birdlab score abstention``: photographs and scores or answers in, areas, accuracies and intervals out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from birdlab.abstention.conventions import MOST_RESAMPLES, Conventions
from birdlab.abstention.differences import compare
from birdlab.abstention.entry import Scored, entry_of
from birdlab.abstention.evaluate import AREAS, Draws, Evaluated, conventions_for, evaluate
from birdlab.abstention.observations import observations
from birdlab.abstention.resampling import Clusters, cluster_codes, resamples
from birdlab.abstention.score_files import (
    Columns,
    Reading,
    Source,
    at_file,
    columns_of,
    in_tree,
    open_sources,
    tree_of_names,
)
from birdlab.abstention.taxonomy import Taxonomy
from birdlab.abstention.topk import refuse_topk
from birdlab.errors import EXIT_OK, BirdlabError, DataError, ParameterError, Problem
from birdlab.readers.files import Notice

VARIANTS = ("plain", "range_map", "observation")
#: Measures whose differences between models are tested, each a family of its own.
COMPARED = (*AREAS, "a_species_accuracy", "a_genus_accuracy", "ua_genus_accuracy")
#: What helps here, where readers speak of a recipe.
_REMEDIES = {"no_taxonomy": "name the list, or its file, with --taxonomy"}


def score_command(args: argparse.Namespace) -> int:
    """Score files of species probabilities or answers against the truth and print what came out.

    Args:
        args: items, scores, taxonomy, force, json, the options of
            :class:`birdlab.abstention.conventions.Conventions`, cluster, resamples, seed, normalise, ids, labels,
            missing (see ``birdlab score abstention --help``).

    Returns:
        The exit code, 0.

    Raises:
        ParameterError: an option has a value that cannot be used (exit 2).
        DataError: a file cannot be scored; every problem of every file is in it (exit 3).
    """
    result = score(args)
    if args.json:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    else:
        from birdlab.abstention.printed import printed

        text = printed(result)
    sys.stdout.write(text + "\n")
    return EXIT_OK


@dataclass(frozen=True)
class _Study:
    """The photographs with their clusters, and how everything is scored; every model is drawn with the same clusters."""

    items: pl.DataFrame
    taxonomy: Taxonomy
    conventions: Conventions
    clusters: Clusters
    weights: np.ndarray
    force: bool

    def evaluate(self, columns: pl.DataFrame, variant: str) -> Evaluated:
        mine = columns.filter(pl.col("variant").cast(pl.String) == variant)
        mean = mine["missing_mass"].fill_null(0.0).mean() or 0.0
        refused = None if self.force else refuse_topk(float(mean))  # type: ignore[arg-type]
        return evaluate(mine, self.conventions, Draws(self._codes(mine, variant), self.weights), refused=refused)

    def _codes(self, columns: pl.DataFrame, variant: str) -> np.ndarray:
        """Cluster of each row; an observation is drawn with the first of its photographs."""
        name = pl.col("item_id")
        if variant == "observation":
            name = pl.coalesce("observation_id", "item_id")
        codes = self.items.select(name.alias("item_id"), code=pl.Series(self.clusters.codes))
        codes = codes.unique("item_id", keep="first", maintain_order=True)
        return columns.select("item_id").join(codes, on="item_id", how="left", maintain_order="left")["code"].to_numpy()


def score(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that ``--json`` prints, as plain JSON types; see :func:`score_command` for ``args`` and errors."""
    from birdlab.stats import one_thread

    _check_options(args)
    conventions = Conventions(**{f.name: getattr(args, f.name) for f in fields(Conventions)})
    items, taxonomy, sources, notices = _read(args)
    clusters = cluster_codes(items, args.cluster)
    # Without intervals one draw of every cluster once costs nothing and is not looked at.
    one = np.ones((1, clusters.n), dtype=np.int32)
    weights = resamples(clusters.n, args.resamples, args.seed) if args.resamples else one
    study = _Study(items, taxonomy, conventions, clusters, weights, args.force)
    conflict = _conflict(items)
    pooled = conflict is None and items["observation_id"].is_not_null().any()
    reading = Reading(args.normalise, args.nan, args.unparsed, args.missing, observation=pooled)
    settings = {"cluster": args.cluster, "resamples": args.resamples, "seed": args.seed, "normalise": args.normalise}
    settings |= {"missing": args.missing, "force": args.force, "taxonomy": _about_taxonomy(taxonomy)}
    with one_thread():  # products of a few hundred clusters: two threads only wait for one another
        scored = _score_all(sources, study, reading, is_own_tree=args.taxonomy is None)
        entries = [entry_of(one, settings, intervals=bool(args.resamples)) for one in scored]
        pairs = _differences(scored) if args.resamples and len(scored) > 1 else []
    told = [*notices, *([conflict] if conflict else []), *_cluster_notices(clusters)]
    return {
        "models": entries,
        "items": _about_items(items, args.items),
        "alignment": [
            {"name": s.source.name, "prompt": s.source.prompt, "how": s.columns.how, "examples": s.columns.examples}
            for s in scored
        ],
        "differences": pairs,
        "warnings": [f"{n.message} ({n.n:,})" for n in told],
    }


def _check_options(args: argparse.Namespace) -> None:
    problems = []
    if not 0 <= args.resamples <= MOST_RESAMPLES:
        expected = f"from 0 to {MOST_RESAMPLES:,} resamples"
        problems.append(Problem("bad_value", str(args.resamples), expected, key="--resamples"))
    if not 0 <= args.seed < 2**32:
        problems.append(Problem("bad_value", str(args.seed), "a whole number from 0 to 4294967295", key="--seed"))
    if any(not path.name for path in args.scores):
        problems.append(Problem("bad_value", "an empty name", "a file of scores or answers", key="SCORES"))
    if problems:
        raise ParameterError(problems)


def _read(args: argparse.Namespace) -> tuple[pl.DataFrame, Taxonomy, list[Source], list[Notice]]:
    """Items, their list of birds, and the opened scores; the problems of all files end in one error."""
    from birdlab.detection.command import model_names
    from birdlab.readers.items import read_items
    from birdlab.readers.taxonomy import PINNED, read_taxonomy

    problems: list[Problem] = []
    usage = True

    def tried(work: Any, file: Path) -> Any:
        nonlocal usage
        try:
            return work()
        except BirdlabError as error:
            problems.extend(replace(p, remedy=_REMEDIES.get(p.code, p.remedy)) for p in at_file(error, str(file)))
            usage &= not isinstance(error, DataError)
            return None

    taxonomy, notices = None, []
    if args.taxonomy is not None:
        source = args.taxonomy if args.taxonomy in PINNED else Path(args.taxonomy)
        taxonomy = tried(lambda: read_taxonomy(source), args.taxonomy)
    if taxonomy is not None:
        # Names that a list lends to its species are in their hundreds, and nothing to look after.
        notices += [n for n in taxonomy.notices if not n.code.startswith("names_of_")]
    read = tried(lambda: read_items(args.items, taxonomy), args.items) if taxonomy or not args.taxonomy else None
    names = model_names(args.scores)
    sources = tried(lambda: open_sources(args.scores, names, ids=args.ids, labels=args.labels), args.scores[0])
    if problems and _swapped(args):
        found, expected = f"no items in {args.items}, but in {args.scores[0]}", "ITEMS first, then SCORES"
        raise ParameterError(Problem("swapped", found, expected, "put the file of items first", key="ITEMS"))
    if problems:
        raise (ParameterError if usage else DataError)(problems)
    items, more = read
    if taxonomy is None:
        taxonomy = tree_of_names(items, sources)
        items = in_tree(items, taxonomy)
        text = "no --taxonomy: the genus is the first word; species in the tree made of the names of items and labels"
        notices.append(Notice("tree_of_names", text, len(taxonomy.species)))
    return items, taxonomy, sources, [*notices, *more]


def _swapped(args: argparse.Namespace) -> bool:
    """Whether the first file of scores, and not the file of items, says what is answerable."""
    from birdlab.readers.scores import headings_of

    try:
        says = [
            {"is_answerable", "answerable"} & set(headings_of(p, str(p)) or ()) for p in (args.items, args.scores[0])
        ]
    except DataError:
        return False
    return bool(says[1]) and not says[0]


def _score_all(sources: Sequence[Source], study: _Study, reading: Reading, *, is_own_tree: bool) -> list[Scored]:
    """Every source, scored; the problems of all of them end in one error."""

    @cache
    def lexicon() -> Any:
        from birdlab.abstention.answers import Lexicon, read_vernaculars

        return Lexicon(study.taxonomy, read_vernaculars())

    done: list[Scored] = []
    problems: list[Problem] = []
    usage = True
    for source in sources:
        try:
            columns = columns_of(source, study.items, study.taxonomy, reading, lexicon)
            held = {"plain", *columns.frame["variant"].cast(pl.String)}  # no row at all is plain, too
            found = {v: study.evaluate(columns.frame, v) for v in VARIANTS if v in held}
            used = conventions_for(
                columns.frame.filter(pl.col("variant").cast(pl.String) == "plain"), study.conventions
            )
            done.append(Scored(source, columns, found, used, _own_notices(source, columns, study, used, is_own_tree)))
        except BirdlabError as error:
            usage &= not isinstance(error, DataError)
            problems += [_with_remedy(p, is_own_tree=is_own_tree) for p in at_file(error, source.file)]
    if problems:
        raise (ParameterError if usage else DataError)(list(dict.fromkeys(problems)))
    return done


def _with_remedy(problem: Problem, *, is_own_tree: bool) -> Problem:
    """Labels that are no scientific names need a list to be looked up in; options by their name on the command line."""
    for named, option in (("normalise: true", "--normalise"), ("the option nan: abstain", "--nan abstain")):
        remedy, expected = problem.remedy.replace(named, option), problem.expected.replace(named, option)
        problem = replace(problem, remedy=remedy, expected=expected)
    if is_own_tree and problem.code == "no_species":
        return replace(problem, remedy="name a list of birds with --taxonomy, such as ebird_2024")
    return problem


def _own_notices(
    source: Source, columns: Columns, study: _Study, used: Conventions, is_own_tree: bool
) -> tuple[str, ...]:
    """What to know of one model: what was merged, assumed or left out, and which choices it cannot have."""
    told = [f"{n.message} ({n.n:,})" for n in columns.notices]
    if source.kind == "text" and is_own_tree:
        told.append("no --taxonomy: English and other common names in the answers are not known")
    if used.uncertainty != study.conventions.uncertainty:
        asked = study.conventions.uncertainty
        told.append(f"answers have no probabilities: their uncertainty is {used.uncertainty}, not {asked}")
    return tuple(dict.fromkeys(told))


def _conflict(items: pl.DataFrame) -> Notice | None:
    """Why photographs are not pooled by observation; ``None`` where they can be."""
    try:
        observations(items)
    except DataError as error:
        text = "not pooled by observation: observations whose photographs differ in genus, species or answerability"
        return Notice("observation_conflict", f"{text}, {error.problems[0].record} first", len(error.problems))
    return None


def _cluster_notices(clusters: Clusters) -> list[Notice]:
    notices = []
    if clusters.n_without_id and clusters.by != "item":
        text = f"items without {clusters.by}: each is a cluster of its own for the intervals"
        notices.append(Notice("no_cluster_id", text, clusters.n_without_id))
    if clusters.note:
        notices.append(Notice("clusters", clusters.note, clusters.n))
    return notices


def _differences(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Differences between all pairs of models in each measure of :data:`COMPARED`, drawn with the same clusters."""
    return compare({s.title: s.found["plain"] for s in scored}, COMPARED).to_dicts()


def _about_taxonomy(taxonomy: Taxonomy) -> dict[str, str | None]:
    return {"name": taxonomy.name, "version": taxonomy.version, "sha256": taxonomy.sha256}


def _about_items(items: pl.DataFrame, path: Path) -> dict[str, Any]:
    answerable = int(items["is_answerable"].sum())
    reasons = items["reasons"].explode().drop_nulls().value_counts(sort=True)
    return {
        "file": str(path),
        "n": items.height,
        "n_answerable": answerable,
        "n_unanswerable": items.height - answerable,
        "n_genera": items["genus"].n_unique(),
        "n_species": items["species"].drop_nulls().n_unique(),
        "reasons": dict(sorted(reasons.iter_rows())),
        "n_with_candidates": items.height - items["candidates"].null_count(),
        "n_observations": items["observation_id"].drop_nulls().n_unique(),
    }
