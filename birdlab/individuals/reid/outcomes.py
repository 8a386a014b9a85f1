"""Where the true bird of every query stands, and what is answered: one row per method, protocol, gallery and query.

From scores of any kind, query x bird (:func:`outcomes_of_scores`), from similarities of clips
(:func:`outcomes_of_similarity`), or from rankings that a method wrote (:mod:`birdlab.individuals.reid.ranked`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab import schemas
from birdlab.individuals.reid.measures import TIED_FIRST, chance_average_precision
from birdlab.individuals.reid.similarity import Pooling, pool, similarity_blocks
from birdlab.readers.embeddings import Embedded, SimilarityTable

Bools, Ints = npt.NDArray[np.bool_], npt.NDArray[np.int64]
NO_LIST = "no list of candidates for its video"
EMPTY_LIST = "the list of candidates is empty"
NONE_RANKED = "no bird of the list is ranked"
NO_CLIP = "the method has nothing for the clip"
#: What is written behind the name of a validation query whose bird was taken out of the gallery.
LEFT_OUT = " without its bird"
LISTS = {"territory": "candidates_territory", "neighbours": "candidates_neighbours"}
#: Extra column of the outcomes: what a random order of the clips would give (beside ``ap_clip``).
CHANCE_AP = "chance_ap_clip"


@dataclass(frozen=True)
class Listed:
    """Who may be answered: per query and bird (q, N), the length of the list, whether the truth is in it, why not.

    ``truth`` is the true bird's number, -1 where it is none of the N.
    """

    mask: Bools
    n_candidates: Ints
    in_list: Bools
    truth: Ints
    reason: list[str | None]


def outcomes_of_scores(
    model: str,
    split: str,
    gallery: str,
    queries: pl.DataFrame,
    scores: npt.NDArray[np.floating],
    individuals: Sequence[str],
    *,
    more: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Outcomes of a method that gives every query and bird a score.

    Args:
        model: name of the method.
        split: protocol.
        gallery: ``territory`` and ``neighbours`` take the lists of the queries, ``all`` every one of ``individuals`` (or
            the lists ``candidates_all`` of the queries, where there are some).
        queries: rows of ``reid_queries`` (of this protocol) and, where there are some, ``role`` and ``left_out`` (true:
            the bird itself may not be answered; it stands in for an unknown one).
        scores: (q, N), higher is more likely; NaN and -inf: the bird is not ranked.
        individuals: the birds of the columns, each once.
        more: columns ap_clip, chance_ap_clip, reason (why a query has no answer), a row per query.

    Returns:
        Table ``reid_outcomes``, in the order of the queries, and ``chance_ap_clip``. A true bird that is not listed or
        not ranked has no ``n_above``. Several birds in the first place: no answer, margin 0, and the reason.

    >>> queries = pl.DataFrame({"query_id": ["q"], "video_id": ["v"], "individual_id": ["a"], "is_known": [True]})
    >>> outcomes_of_scores("m", "closed", "all", queries, np.array([[0.2, 0.7]]), ["a", "b"]).select("n_above", "answer").row(0)
    (1, 'b')
    """
    listed = listed_birds(queries, gallery, individuals)
    values = np.where(listed.mask & ~np.isnan(scores), scores, -np.inf)
    why = more["reason"].to_list() if more is not None and "reason" in more.columns else [None] * len(values)
    columns = _standing(values, listed, individuals, why)
    return _frame(model, split, gallery, queries, columns, more)


def listed_birds(queries: pl.DataFrame, gallery: str, individuals: Sequence[str]) -> Listed:
    """Who may be answered for each query; see :class:`Listed`.

    A list may name birds that are none of ``individuals``: they cannot be ranked, and count in its length. In the
    gallery ``all`` it is every one of them, unless the queries have lists of their own for it (``candidates_all``: the
    birds that wear a code on the day of the clip).
    """
    n, birds = queries.height, len(individuals)
    codes = pl.DataFrame({"name": list(individuals), "code": np.arange(birds)}, schema_overrides={"name": pl.String})
    named = queries.select(name="individual_id").join(codes, on="name", how="left", maintain_order="left")
    truth = named["code"].fill_null(-1).to_numpy()
    column = f"candidates_{gallery}"
    if gallery == "all" and column not in queries.columns:
        mask, length = np.ones((n, birds), dtype=bool), np.full(n, birds, dtype=np.int64)
        in_list, none = truth >= 0, np.zeros(n, dtype=bool)
    else:
        lists = queries[column] if column in queries.columns else pl.Series([None] * n, dtype=pl.List(pl.String))
        mask, length, in_list = _masks(lists, queries["individual_id"], codes)
        none = lists.is_null().to_numpy()
    left_out = _flag(queries, "left_out")
    rows = np.flatnonzero(left_out & (truth >= 0))
    mask[rows, truth[rows]] = False
    length = length - (left_out & in_list)
    reason = [NO_LIST if no else None if k else EMPTY_LIST for no, k in zip(none, length, strict=True)]
    return Listed(mask, length, in_list & ~left_out, truth, reason)


def _masks(lists: pl.Series, truth: pl.Series, codes: pl.DataFrame) -> tuple[Bools, Ints, Bools]:
    """Birds of each list as a mask (q, N), the length of the lists, and whether the true bird is on its own."""
    n = len(lists)
    pairs = pl.DataFrame({"row": np.arange(n), "name": lists}).explode("name").drop_nulls("name").unique()
    hits = pairs.join(codes, on="name")
    mask, in_list = np.zeros((n, codes.height), dtype=bool), np.zeros(n, dtype=bool)
    mask[hits["row"].to_numpy(), hits["code"].to_numpy()] = True
    own = pl.DataFrame({"row": np.arange(n), "name": truth})
    in_list[own.join(pairs, on=["row", "name"])["row"].to_numpy()] = True
    return mask, np.bincount(pairs["row"].to_numpy(), minlength=n), in_list


def outcomes_of_similarity(
    model: str,
    split: str,
    queries: pl.DataFrame,
    gallery: pl.DataFrame,
    source: Embedded | SimilarityTable,
    *,
    pooling: Pooling = "max",
) -> pl.DataFrame:
    """Outcomes of a method that tells how alike two clips are, in the galleries for which there are lists, and in all.

    Args:
        model: name of the method.
        split: protocol.
        queries: rows of ``reid_queries`` of the protocol and, where there is validation, ``role``. Every validation
            query of a known bird gives a second row, with its own bird taken out of the gallery, as an unknown one.
        gallery: clip_id, individual_id of the clips of the gallery.
        source: embeddings, or similarities on disk (rows are queries, columns the gallery).
        pooling: how alike a clip is to a bird: ``max`` or ``mean`` over the bird's clips.

    Returns:
        Table ``reid_outcomes`` and ``chance_ap_clip``. A clip without a vector has no answer, and the reason; a bird
        without one in the gallery is not ranked.
    """
    rows = with_left_out(queries) if split == "open" else queries
    individuals = sorted(gallery["individual_id"].unique().to_list())
    galleries = [*(g for g, column in LISTS.items() if column in queries.columns and _any_list(queries[column])), "all"]
    scores, aps = _pooled_scores(rows, gallery, source, individuals, (galleries, pooling))
    usable = set(source.clip_id if isinstance(source, Embedded) else source.row_id)
    why = [None if clip in usable else source.reasons.get(clip, NO_CLIP) for clip in rows["clip_id"]]
    out = []
    for name in galleries:
        more = pl.DataFrame(
            {"ap_clip": aps[name][0], CHANCE_AP: aps[name][1], "reason": pl.Series(why, dtype=pl.String)}
        )
        out.append(outcomes_of_scores(model, split, name, rows, scores, individuals, more=more))
    return pl.concat(out)


def with_left_out(queries: pl.DataFrame) -> pl.DataFrame:
    """Queries, and validation queries of known birds once more with their bird taken out (``left_out``, not known)."""
    plain = queries.with_columns(left_out=pl.lit(False))
    if "role" not in queries.columns:
        return plain
    again = plain.filter((pl.col("role") == "validation") & pl.col("is_known"))
    again = again.with_columns(
        left_out=pl.lit(True), is_known=pl.lit(False), query_id=pl.col("query_id") + pl.lit(LEFT_OUT)
    )
    return pl.concat([plain, again])


def _pooled_scores(
    queries: pl.DataFrame,
    gallery: pl.DataFrame,
    source: Embedded | SimilarityTable,
    individuals: Sequence[str],
    how: tuple[Sequence[str], Pooling],
) -> tuple[npt.NDArray[np.float32], Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]]:
    """Scores (q, N), and per gallery the average precision over its clips with what a random order would give."""
    galleries, pooling = how
    embedded = isinstance(source, Embedded)
    has_row, has_column = (set(source.clip_id),) * 2 if embedded else (set(source.row_id), set(source.column_id))
    code_of = {name: i for i, name in enumerate(individuals)}
    clips = gallery.filter(pl.col("clip_id").is_in(list(has_column))).sort("individual_id", maintain_order=True)
    codes = np.array([code_of[name] for name in clips["individual_id"]], dtype=np.int64)
    starts = np.searchsorted(codes, np.arange(len(individuals) + 1))
    asked, rows_of = _rows_of_clips(queries["clip_id"], has_row)
    scores = np.full((queries.height, len(individuals)), -np.inf, dtype=np.float32)
    lists = {name: listed_birds(queries, name, individuals) for name in galleries}
    aps = {name: (np.zeros(queries.height), np.zeros(queries.height)) for name in galleries}
    for rows, block in similarity_blocks(source, asked, clips["clip_id"].to_list()):
        # A clip that is asked for twice is multiplied once: products of the same numbers can differ in their last bit.
        pooled = pool(block, codes, len(individuals), pooling)
        for rank in rows_of[rows].T:
            there = rank >= 0
            mine, part = rank[there], block if there.all() else block[there]
            scores[mine] = pooled[there]
            for name in galleries:
                _precisions(part, mine, lists[name], starts, aps[name])
    return scores, aps


def _rows_of_clips(clip_id: pl.Series, usable: set[str]) -> tuple[list[str], Ints]:
    """Distinct clips that have a row in the source, and the queries of each, (clips, most), -1 for none."""
    rows = pl.DataFrame({"clip": clip_id}).with_row_index("row").filter(pl.col("clip").is_in(list(usable)))
    each = rows.group_by("clip", maintain_order=True).agg(pl.col("row").cast(pl.Int64))
    most = int(each["row"].list.len().max() or 0)  # type: ignore[arg-type]
    out = np.full((each.height, most), -1, dtype=np.int64)
    for rank in range(most):
        out[:, rank] = each["row"].list.get(rank, null_on_oob=True).fill_null(-1).to_numpy()
    return each["clip"].to_list(), out


def _precisions(
    block: npt.NDArray[np.float32],
    mine: Ints,
    listed: Listed,
    starts: Ints,
    out: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
) -> None:
    """Average precision of each row of a block over the clips of its candidates, written to ``out``."""
    lengths = np.diff(starts)
    everyone = listed.mask.all(axis=1)
    relevant, total = np.zeros(len(mine), dtype=np.int64), np.zeros(len(mine), dtype=np.int64)
    for i, query in enumerate(mine.tolist()):
        bird = int(listed.truth[query])
        if bird < 0 or not listed.in_list[query] or not lengths[bird]:
            continue
        own = block[i, starts[bird] : starts[bird + 1]]
        if everyone[query]:
            others = block[i]
        else:
            birds = np.flatnonzero(listed.mask[query])
            others = np.concatenate([block[i, starts[b] : starts[b + 1]] for b in birds])
        out[0][query] = average_precision(others, own)
        relevant[i], total[i] = len(own), len(others)
    out[1][mine] = chance_average_precision(relevant, total)


def average_precision(scores: npt.NDArray[np.floating], own: npt.NDArray[np.floating]) -> float:
    """Average precision of the clips of the true bird among all clips; equal scores share a threshold.

    Args:
        scores: of all clips, those of the bird among them, (n,).
        own: of the clips of the bird, (r,), at least one.

    Returns:
        In (0, 1]; scikit-learn's ``average_precision_score``.

    >>> average_precision(np.array([0.9, 0.5, 0.5, 0.1]), np.array([0.9, 0.5]))
    0.8333333333333333
    """
    own, scores = np.sort(own), np.sort(scores)
    at_least = len(scores) - np.searchsorted(scores, own, side="left")
    hits = len(own) - np.searchsorted(own, own, side="left")
    return float(np.mean(hits / at_least))


def _standing(
    values: npt.NDArray[np.floating], listed: Listed, individuals: Sequence[str], why: Sequence[str | None]
) -> dict[str, npt.NDArray | pl.Series]:
    """Columns of the outcomes: where the true bird stands, what is answered, and why nothing is."""
    first, second, n_first, best = _leaders(values)
    there = listed.truth >= 0
    own = np.full(len(values), -np.inf)
    own[there] = values[np.flatnonzero(there), listed.truth[there]]
    ranked, has = own > -np.inf, first > -np.inf
    reasons = [
        unlisted or given or (None if some else NONE_RANKED) or (TIED_FIRST if n > 1 else None)
        for unlisted, given, some, n in zip(listed.reason, why, has, n_first, strict=True)
    ]
    names = np.array([*individuals, ""], dtype=object)
    with np.errstate(invalid="ignore"):
        margin = first - second
    return {
        "n_candidates": listed.n_candidates,
        "in_list": listed.in_list,
        "n_above": _null_where((values > own[:, None]).sum(axis=1), ~ranked, pl.Int32),
        "n_tied": _null_where((values == own[:, None]).sum(axis=1) - 1, ~ranked, pl.Int32),
        "answer": pl.Series(np.where(has & (n_first == 1), names[best], None).tolist(), dtype=pl.String),
        "score": _null_where(first, ~np.isfinite(first), pl.Float64),
        "margin": _null_where(margin, ~np.isfinite(margin), pl.Float64),
        "reason": pl.Series(reasons, dtype=pl.String),
    }


def _leaders(values: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Ints, Ints]:
    """Highest and second score of each row, how many share the first place, and the first of them; -inf: none."""
    n, birds = values.shape
    if not birds:
        none = np.full(n, -np.inf)
        return none, none, np.zeros(n, dtype=np.int64), np.full(n, -1)
    best = values.argmax(axis=1)
    first = values[np.arange(n), best].astype(np.float64)
    n_first = np.where(first > -np.inf, (values == values.max(axis=1)[:, None]).sum(axis=1), 0)
    if birds < 2:
        return first, np.full(n, -np.inf), n_first, best
    second = np.partition(values, birds - 2, axis=1)[:, birds - 2].astype(np.float64)
    return first, second, n_first, best


def _frame(
    model: str,
    split: str,
    gallery: str,
    queries: pl.DataFrame,
    columns: Mapping[str, npt.ArrayLike | pl.Series],
    more: pl.DataFrame | None,
) -> pl.DataFrame:
    """The outcomes as a table, from what is known of the queries and what was found."""
    about = queries.select("query_id", "video_id", "individual_id", "is_known")
    role = queries["role"] if "role" in queries.columns else pl.Series(["query"] * queries.height, dtype=pl.String)
    frame = about.with_columns(
        pl.lit(model).alias("model"),
        pl.lit(split).alias("split"),
        pl.lit(gallery).alias("gallery"),
        role.alias("role"),
        *[pl.Series(name, values) for name, values in columns.items()],
    )
    for name in ("ap_clip", CHANCE_AP):
        there = more is not None and name in more.columns
        values = more[name] if there else pl.Series([None] * queries.height)  # type: ignore[index]
        frame = frame.with_columns(values.cast(pl.Float64).alias(name))
    return schemas.TABLES["reid_outcomes"].conform(frame)


def _null_where(values: npt.NDArray, null: Bools, dtype: type[pl.DataType]) -> pl.Series:
    series = pl.Series(np.where(null, 0, values)).cast(dtype)
    return series.set(pl.Series(null), None)


def _flag(queries: pl.DataFrame, name: str) -> Bools:
    if name not in queries.columns:
        return np.zeros(queries.height, dtype=bool)
    return queries[name].fill_null(False).to_numpy().astype(bool)


def _any_list(column: pl.Series) -> bool:
    return column.null_count() < len(column)
