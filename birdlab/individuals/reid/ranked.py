"""Outcomes of rankings that a method wrote: the rank of the file stands, equal ranks are ties."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from birdlab import schemas
from birdlab.errors import DataError, Problem
from birdlab.individuals.reid.measures import TIED_FIRST
from birdlab.individuals.reid.outcomes import EMPTY_LIST, LEFT_OUT, LISTS, NONE_RANKED
from birdlab.readers.files import Notice


@dataclass(frozen=True)
class Ranked:
    """Outcomes of one method, and what was counted on the way."""

    outcomes: pl.DataFrame
    notices: list[Notice]


def outcomes_of_ranking(model: str, queries: pl.DataFrame, ranking: pl.DataFrame) -> Ranked:
    """Outcomes of the rankings of one method, for every protocol and gallery in which it ranks a bird.

    Args:
        model: name of the method; rows of other methods are passed over.
        queries: of ``reid_queries``, with ``role`` where there is validation. ``is_known`` may be null: a bird is known
            where it is ranked for any query of its protocol.
        ranking: of ``reid_ranking``; a null rank is made from the similarity (equal ones are ties).

    Returns:
        Ranked. Candidates are those of the query's list, else the birds ranked for it (``all``: the birds ranked for
        any query of the protocol); birds outside the list do not count. Counted: those, queries without a row,
        queries ranked in parts, equal similarities with different ranks, ranks against their similarities.
    """
    rows = ranking.filter(pl.col("model") == model)
    if "role" not in queries.columns:
        queries = queries.with_columns(role=pl.lit("query"))
    rows = with_split(rows.with_columns(pl.col("split", "gallery").cast(pl.String)), queries, model)
    rows = ranks_made(rows)
    queries = with_known(queries, rows if ranking["split"].null_count() else ranking)
    out, notices = [], _contradictions(rows, model)
    for (split, gallery), part in rows.group_by(["split", "gallery"], maintain_order=True):
        asked = queries.filter(pl.col("split").cast(pl.String) == split)
        found, told = _of_gallery(model, str(split), str(gallery), asked, part)
        out.append(found)
        notices += told
    empty = schemas.TABLES["reid_outcomes"].empty()
    order = {name: i for i, name in enumerate(("territory", "neighbours", "all"))}
    out.sort(key=lambda f: (str(f["split"][0]), order[str(f["gallery"][0])]) if f.height else ("", 0))
    return Ranked(pl.concat(out) if out else empty, notices)


def with_split(rows: pl.DataFrame, queries: pl.DataFrame, model: str) -> pl.DataFrame:
    """Rankings with a protocol in every row; where it is null, the one in which the query is asked.

    Raises:
        DataError: a ranking without a protocol of a query that is asked in several.
    """
    if not rows["split"].null_count():
        return rows
    asked = queries.group_by("query_id").agg(
        _one=pl.col("split").cast(pl.String).first(), _n=pl.col("split").n_unique()
    )
    joined = rows.join(asked, on="query_id", how="left", maintain_order="left")
    several = joined.filter(pl.col("split").is_null() & (pl.col("_n") > 1))
    if several.height:
        expected = "a column split: the query is asked in several protocols"
        raise DataError(Problem("which_split", str(several["query_id"][0]), expected, record=f"method {model}"))
    return joined.with_columns(split=pl.coalesce("split", "_one")).drop("_one", "_n")


def with_known(queries: pl.DataFrame, ranking: pl.DataFrame) -> pl.DataFrame:
    """Queries with ``is_known``; where it is null, whether the bird is ranked for any query of its protocol."""
    if "is_known" not in queries.columns:
        queries = queries.with_columns(is_known=pl.lit(None, dtype=pl.Boolean))
    if not queries["is_known"].null_count():
        return queries
    names = ranking.select(
        pl.col("split").cast(pl.String).alias("_split"), "individual_id", _seen=pl.lit(True)
    ).unique()
    joined = queries.with_columns(_split=pl.col("split").cast(pl.String)).join(
        names, on=["_split", "individual_id"], how="left", maintain_order="left"
    )
    return joined.with_columns(is_known=pl.coalesce("is_known", pl.col("_seen").fill_null(False))).drop(
        "_split", "_seen"
    )


def ranks_made(rows: pl.DataFrame) -> pl.DataFrame:
    """Rankings with a rank in every row: those of the file, else by falling similarity (equal ones share a rank)."""
    if not rows["rank"].null_count():
        return rows
    over = ["model", "split", "query_id", "gallery"]
    made = pl.col("similarity").rank("min", descending=True).over(over).cast(pl.Int32)
    none = pl.col("rank").is_null().any().over(over)
    return rows.with_columns(rank=pl.when(none).then(made).otherwise("rank"))


def _of_gallery(
    model: str, split: str, gallery: str, asked: pl.DataFrame, part: pl.DataFrame
) -> tuple[pl.DataFrame, list[Notice]]:
    """Outcomes in one gallery of one protocol."""
    at = f"{model}, {split}, {gallery}"
    notices = []
    strange = part.join(asked, on="query_id", how="anti")
    if strange.height:
        part = part.join(asked, on="query_id", how="semi", maintain_order="left")
        n = strange["query_id"].n_unique()
        notices.append(Notice("unknown_query", f"{at}: queries ranked that are not asked: passed over", n))
    lists = candidate_lists(asked, part, gallery)
    inside = part.join(
        lists.select("query_id", individual_id="candidates").explode("individual_id"), on=["query_id", "individual_id"]
    )
    outside = part.height - inside.height
    if outside:
        notices.append(
            Notice("outside_list", f"{at}: birds ranked that are not on the list of their query do not count", outside)
        )
    rows = asked.join(
        lists.select("query_id", "candidates", "no_list"), on="query_id", how="left", maintain_order="left"
    )
    rows = rows.with_columns(left_out=pl.lit(False), _query=pl.col("query_id"))
    if split == "open":
        again = rows.filter((pl.col("role") == "validation") & pl.col("is_known"))
        again = again.with_columns(
            left_out=pl.lit(True), is_known=pl.lit(False), query_id=pl.col("query_id") + pl.lit(LEFT_OUT)
        )
        rows = pl.concat([rows, again])
    found = _standing(rows, inside)
    none = found.filter(
        (pl.col("role") == "query") & pl.col("_n_ranked").is_null() & (pl.col("n_candidates") > 0)
    ).height
    if none:
        notices.append(Notice("query_not_ranked", f"{at}: queries for which no bird is ranked: wrong", none))
    short = found.filter((pl.col("role") == "query") & (pl.col("_n_ranked") < pl.col("n_candidates"))).height
    if short:
        said = f"{at}: queries whose ranking is shorter than their list: a bird that is not ranked is wrong"
        notices.append(Notice("short_ranking", said, short))
    derived = int(lists["no_list"].sum()) if gallery != "all" else 0
    if derived:
        said = f"{at}: queries without a list of candidates: the birds ranked for them are taken for it"
        notices.append(Notice("no_list", said, derived))
    found = found.with_columns(model=pl.lit(model), split=pl.lit(split), gallery=pl.lit(gallery))
    wanted = schemas.TABLES["reid_outcomes"]
    return wanted.conform(found).select(list(wanted.dtypes)), notices


def candidate_lists(asked: pl.DataFrame, part: pl.DataFrame, gallery: str) -> pl.DataFrame:
    """query_id, candidates and whether the file has no list for the query (``no_list``)."""
    own = part.group_by("query_id").agg(_ranked=pl.col("individual_id").unique(maintain_order=True))
    rows = asked.select("query_id", *[c for c in LISTS.values() if c in asked.columns])
    if gallery == "all":
        everyone = part["individual_id"].unique().sort().to_list()
        return rows.select("query_id", candidates=pl.lit(pl.Series([everyone])).first(), no_list=pl.lit(True))
    rows = rows.join(own, on="query_id", how="left", maintain_order="left")
    nothing = pl.lit(pl.Series([[]], dtype=pl.List(pl.String))).first()
    given = (
        pl.col(LISTS[gallery]).list.unique(maintain_order=True)
        if LISTS[gallery] in rows.columns
        else pl.lit(None, dtype=pl.List(pl.String))
    )
    return rows.select("query_id", candidates=pl.coalesce(given, "_ranked", nothing), no_list=given.is_null())


def _standing(rows: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """Per row the length of the list, the place of the true bird, the answer, its score and margin."""
    truth = rows.select("query_id", _query="_query", _truth="individual_id", left_out="left_out")
    ranks = inside.select(_query="query_id", individual_id="individual_id", rank="rank", similarity="similarity")
    joined = truth.join(ranks, on="_query").filter(~pl.col("left_out") | (pl.col("individual_id") != pl.col("_truth")))
    is_true = pl.col("individual_id") == pl.col("_truth")
    own = pl.col("rank").filter(is_true).first()
    lead = pl.col("rank") == pl.col("rank").min()
    places = joined.sort("query_id", "rank", pl.col("similarity").fill_null(float("-inf")) * -1, maintain_order=True)
    found = places.group_by("query_id").agg(
        _own=own,
        n_above=(pl.col("rank") < own).sum().cast(pl.Int32),
        n_tied=((pl.col("rank") == own).sum().cast(pl.Int32) - 1),
        _n_first=lead.sum(),
        _n_ranked=pl.len(),
        answer=pl.col("individual_id").first(),
        score=pl.col("similarity").first(),
        _second=pl.col("similarity").get(1, null_on_oob=True),
    )
    out = rows.join(found, on="query_id", how="left", maintain_order="left")
    listed = pl.col("candidates").list.contains(pl.col("individual_id"))
    tied = pl.col("_n_first") > 1
    length = pl.col("candidates").list.len().cast(pl.Int32) - (listed & pl.col("left_out")).cast(pl.Int32)
    return out.with_columns(
        n_candidates=length,
        in_list=listed & ~pl.col("left_out"),
        n_above=pl.when(pl.col("_own").is_not_null()).then("n_above"),
        n_tied=pl.when(pl.col("_own").is_not_null()).then("n_tied"),
        answer=pl.when(tied).then(None).otherwise("answer"),
        margin=pl.when(tied & pl.col("score").is_not_null()).then(0.0).otherwise(pl.col("score") - pl.col("_second")),
        reason=pl.when(length == 0)
        .then(pl.lit(EMPTY_LIST))
        .when(pl.col("_n_ranked").is_null())
        .then(pl.lit(NONE_RANKED))
        .when(tied)
        .then(pl.lit(TIED_FIRST)),
    )


def _contradictions(rows: pl.DataFrame, model: str) -> list[Notice]:
    """Equal similarities with different ranks, and ranks against their similarities."""
    given = rows.filter(pl.col("similarity").is_not_null())
    if not given.height:
        return []
    over = ["split", "query_id", "gallery"]
    ordered = given.sort(*over, "rank", pl.col("similarity") * -1, maintain_order=True)
    before, rank = pl.col("similarity").shift(1).over(over), pl.col("rank").shift(1).over(over)
    equal = (before == pl.col("similarity")) & (rank != pl.col("rank"))
    against = (before < pl.col("similarity")) & (rank < pl.col("rank"))
    n_equal, n_against = ordered.select(equal.sum().alias("a"), against.sum().alias("b")).row(0)
    notices = []
    if n_equal:
        said = f"{model}: birds of equal similarity that the file ranks one after the other: its ranks stand"
        notices.append(Notice("equal_similarity", said, int(n_equal)))
    if n_against:
        said = f"{model}: birds ranked after a bird of lower similarity: the ranks of the file stand"
        notices.append(Notice("rank_against_similarity", said, int(n_against)))
    return notices
