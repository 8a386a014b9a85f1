"""Every method of a study on every protocol and list: who is named, how often that is right, beside chance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from birdlab import schemas
from birdlab.errors import BirdlabError, DataError, Problem
from birdlab.individuals.reid.inputs import place, section_of
from birdlab.individuals.reid.list_size import list_size_curve, observed_points
from birdlab.individuals.reid.lookalikes import individual_recall, look_alikes
from birdlab.individuals.reid.measures import cmc, not_evaluated, summarise
from birdlab.individuals.reid.outcomes import outcomes_of_scores, outcomes_of_similarity, with_left_out
from birdlab.individuals.reid.published import published
from birdlab.individuals.reid.queries import gallery_of, queries_of
from birdlab.individuals.reid.ranked import outcomes_of_ranking
from birdlab.individuals.reid.risk import identity_risk, risk_rows
from birdlab.individuals.reid.years import outcomes_by_years, years_by_split
from birdlab.metrics import metric_frame, metric_row
from birdlab.readers.embeddings import Embedded, SimilarityTable, named_similarity, read_embeddings, read_similarity
from birdlab.readers.files import Notice, notice_table
from birdlab.readers.reid_tables import read_ranking
from birdlab.recipe.reid import RING_METHODS, ReidMethod
from birdlab.schemas.reid import GALLERIES
from birdlab.stats import one_thread

if TYPE_CHECKING:
    from birdlab.study import Run

REFUSED = {"model": pl.String, "split": pl.String, "gallery": pl.String, "reason": pl.String}
RISK = {
    "model": pl.String, "split": pl.String, "gallery": pl.String, "threshold": pl.Float64, "coverage": pl.Float64,
    "n_answered": pl.Int64, "risk": pl.Float64, "base_risk": pl.Float64,
}  # fmt: skip
CMC = {
    "model": pl.String,
    "split": pl.String,
    "gallery": pl.String,
    "k": pl.Int32,
    "top": pl.Float64,
    "chance": pl.Float64,
    "n": pl.Int64,
}
ALWAYS_NAMES = "the published rule names a bird for every clip with rings: it cannot say that one is new"
NO_LISTS = "there is no list of candidates"
NOT_RANKED = "the method ranks no bird there"


def build(run: Run) -> dict[str, pl.DataFrame]:
    """Builder of ``reid_outcomes`` and of the tables of 05 that follow from it.

    Raises:
        DataError: files of methods that cannot be used, all of them in one error.
    """
    section = section_of(run)
    clips, roles = run.table("reid_clips"), run.table("reid_roles")
    asked = asked_queries(clips, roles, run.table("reid_candidates"))
    parts, notices, problems = [schemas.empty("reid_outcomes")], [], []
    with one_thread():
        for method in section.methods:
            try:
                made, told = _of_method(run, method, clips, roles, asked)
                parts += made
                notices += told
            except BirdlabError as error:
                problems += error.problems or [Problem("unusable", str(error), "a method that can be read")]
        if problems:
            raise DataError(problems)
        if section.rings is not None:
            parts += _of_rings(run, clips, roles, asked)
        outcomes = pl.concat(parts, how="diagonal_relaxed")
        refused = _refused(section.methods, section.rings is not None, roles, asked, outcomes)
        years = years_by_split(clips, roles)
        rows = summarise(outcomes) + risk_rows(outcomes)
        for row in refused.to_dicts():
            rows += not_evaluated(row["model"], row["split"], row["gallery"], row["reason"])
        roster = run.table("ring_roster")
        curve, points = list_size_curve(outcomes), observed_points(outcomes)
        tables = {
            "reid_outcomes": outcomes,
            "reid_list_size": curve,
            "reid_lists": points,
            "reid_cmc": _cmc(outcomes),
            "reid_years": outcomes_by_years(outcomes, years),
            "reid_lookalikes": look_alikes(outcomes, roster if roster.height else None),
            "reid_birds": individual_recall(outcomes),
            "reid_risk": _risk(outcomes),
            "reid_refused": refused,
            "reid_method_notices": pl.concat([notice_table(notices), _embedding_notices(run)]),
        }
    more = _count_rows(run.table("reid_counts"))
    metrics = metric_frame(row | {"dataset": run.recipe.name} for row in [*rows, *more])
    return tables | {"metrics_reid": pl.concat([metrics, published(section.published)])}


def asked_queries(clips: pl.DataFrame, roles: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """Table ``reid_queries`` with ``role``: queries and validation of all protocols."""
    lists = candidates if candidates.height else None
    parts = [queries_of(clips, roles, lists, role=r).with_columns(role=pl.lit(r)) for r in ("query", "validation")]
    return pl.concat(parts)


def _of_method(
    run: Run, method: ReidMethod, clips: pl.DataFrame, roles: pl.DataFrame, asked: pl.DataFrame
) -> tuple[list[pl.DataFrame], list[Notice]]:
    if method.ranking:
        found = outcomes_of_ranking(method.name, asked, read_ranking(place(run, method.ranking), model=method.name))
        return [found.outcomes], found.notices
    source = _source(run, method, clips)
    parts = []
    for split in roles["split"].unique(maintain_order=True).cast(pl.String).to_list():
        queries, gallery = _of_split(asked, split), gallery_of(clips, roles, split)
        if queries.height:
            parts.append(
                outcomes_of_similarity(method.name, split, queries, gallery, source, pooling=run.recipe.reid.pooling)
            )
    return parts, source.notices


def _of_split(asked: pl.DataFrame, split: str) -> pl.DataFrame:
    return asked.filter(pl.col("split").cast(pl.String) == split)


def _source(run: Run, method: ReidMethod, clips: pl.DataFrame) -> Embedded | SimilarityTable:
    names = clips["clip_id"].to_list()
    rows = place(run, method.rows) if method.rows else None
    if method.embeddings:
        return read_embeddings(place(run, method.embeddings), rows, clips=names)
    if method.similarity:
        columns = place(run, method.columns) if method.columns else None
        rows, columns = named_similarity(method.name, rows, columns)
        return read_similarity(place(run, method.similarity), rows, columns, clips=names)
    made = run.table("reid_embeddings").filter(pl.col("model") == method.name)
    whole = made.drop_nulls("embedding")
    if whole.is_empty():
        reason = made["message"].drop_nulls().first() if made.height else "the clips name no image"
        expected = "images of the clips that the network can look at"
        raise DataError(Problem("no_embedding", str(reason), expected, record=f"method {method.name}"))
    matrix = np.array(whole["embedding"].to_list(), dtype=np.float32).reshape(whole.height, -1)
    told = made.filter(pl.col("embedding").is_null())
    reasons = {r["clip_id"]: r["message"] or "its images cancel out" for r in told.to_dicts()}
    return Embedded(whole["clip_id"].to_list(), matrix, [], reasons)


def _of_rings(run: Run, clips: pl.DataFrame, roles: pl.DataFrame, asked: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Outcomes of both matchers of rings, among the same birds as every other method.

    In the protocol open a bird is known if it is in the gallery, and the score of birdlab's matcher is how much likelier the
    bird is than one that is on no list: a posterior within a list would rise when the true bird is taken out of it.
    """
    scores = run.table("ring_scores")
    for split in roles["split"].unique(maintain_order=True).cast(pl.String).to_list():
        queries = _of_split(asked, split)
        birds = sorted(gallery_of(clips, roles, split)["individual_id"].unique())
        for matcher, name in zip(("published", "birdlab"), RING_METHODS, strict=True):
            if split == "open" and matcher == "published":
                continue
            mine = with_left_out(queries) if split == "open" else queries.filter(pl.col("role") == "query")
            column = "log_odds" if split == "open" else "score"
            for gallery in GALLERIES:
                here = scores.filter((pl.col("matcher") == matcher) & (pl.col("gallery") == gallery))
                if here.height:
                    matrix = _matrix(here, column, mine["clip_id"], birds)
                    yield outcomes_of_scores(name, split, gallery, mine, matrix, birds)


def _matrix(scores: pl.DataFrame, column: str, clips: pl.Series, birds: list[str]) -> np.ndarray:
    """Scores, clip x bird; -inf where there is none."""
    out = np.full((len(clips), len(birds)), -np.inf)
    rows = pl.DataFrame({"clip_id": clips}).with_row_index("row")
    columns = pl.DataFrame({"individual_id": birds}, schema={"individual_id": pl.String}).with_row_index("column")
    found = scores.join(rows, on="clip_id").join(columns, on="individual_id")
    out[found["row"].to_numpy(), found["column"].to_numpy()] = found[column].to_numpy()
    return out


def _refused(
    methods: list[ReidMethod], rings: bool, roles: pl.DataFrame, asked: pl.DataFrame, outcomes: pl.DataFrame
) -> pl.DataFrame:
    """Methods, protocols and lists without an outcome, and why."""
    names = [m.name for m in methods] + (list(RING_METHODS) if rings else [])
    there = set(outcomes.select(pl.col("model", "split", "gallery").cast(pl.String)).unique().rows())
    rows = []
    for split in roles["split"].unique(maintain_order=True).cast(pl.String).to_list():
        mine = _of_split(asked, split)
        for gallery in GALLERIES:
            column = f"candidates_{gallery}"
            no_list = gallery != "all" and (column not in mine.columns or mine[column].null_count() == mine.height)
            for name in names:
                if (name, split, gallery) not in there:
                    refuses = name == RING_METHODS[0] and split == "open"
                    rows.append(
                        (name, split, gallery, NO_LISTS if no_list else ALWAYS_NAMES if refuses else NOT_RANKED)
                    )
    return pl.DataFrame(rows, schema=REFUSED, orient="row")


def _cmc(outcomes: pl.DataFrame) -> pl.DataFrame:
    parts = []
    for (model, split, gallery), part in outcomes.group_by("model", "split", "gallery", maintain_order=True):
        about = {"model": pl.lit(model), "split": pl.lit(str(split)), "gallery": pl.lit(str(gallery))}
        parts.append(cmc(part).with_columns(**about).select(list(CMC)).cast(CMC))
    return pl.concat(parts) if parts else pl.DataFrame(schema=CMC)


def _risk(outcomes: pl.DataFrame) -> pl.DataFrame:
    parts = []
    for (model, split, gallery), part in outcomes.group_by("model", "split", "gallery", maintain_order=True):
        found = identity_risk(part)
        about = {"model": model, "split": str(split), "gallery": str(gallery), "base_risk": found.aurc.chance}
        frame = found.points.with_columns(pl.lit(v, RISK[k]).alias(k) for k, v in about.items())
        parts.append(frame.select(list(RISK)).cast(RISK))
    return pl.concat(parts) if parts else pl.DataFrame(schema=RISK)


def _count_rows(counts: pl.DataFrame) -> Iterator[dict]:
    """Rows of ``metrics``: what is in the clips."""
    for row in counts.unique("what", keep="first", maintain_order=True).to_dicts():
        yield metric_row(model="data", group="clips", metric=row["what"], value=row["computed"], reason=row["reason"])


def _embedding_notices(run: Run) -> pl.DataFrame:
    told = run.table("reid_embedding_notices")
    return told.select(
        "code", pl.format("{}: {}", "model", "message").alias("message"), "n", file=pl.lit(None, pl.String)
    )
