"""Measures of re-identification against cases, scikit-learn and a plain implementation of their definitions."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

from birdlab import schemas
from birdlab.individuals.reid.list_size import expected_top1, list_size_curve, observed_points
from birdlab.individuals.reid.lookalikes import individual_recall, look_alikes
from birdlab.individuals.reid.measures import (
    TIED_FIRST,
    cmc,
    counts_of,
    expected_reciprocal,
    expected_top_k,
    list_average_precision,
    measures_of,
    not_evaluated,
    scored,
    summarise,
)
from birdlab.individuals.reid.open_set import auroc, baks, balanced_accuracy, baus, choose_threshold, open_measures
from birdlab.individuals.reid.outcomes import (
    EMPTY_LIST,
    LEFT_OUT,
    NO_LIST,
    NONE_RANKED,
    outcomes_of_scores,
    with_left_out,
)
from birdlab.individuals.reid.ranked import outcomes_of_ranking
from birdlab.individuals.reid.risk import aurc, identity_risk, risk_rows
from birdlab.metrics import metric_frame

CASES = {c["id"]: c for c in json.loads((Path(__file__).parents[1] / "data" / "reid" / "libraries.json").read_text())}
BIRDS = [f"b{i}" for i in range(9)]


def made_queries(rng: np.random.Generator, n: int = 60, *, split: str = "closed", birds=BIRDS) -> pl.DataFrame:
    """Queries with lists of 0 to 7 birds, some of them nobody's, some without the true bird."""
    names = [*birds, "stranger"]
    lists = [list(rng.permutation(names)[: rng.integers(0, 8)]) for _ in range(n)]
    return pl.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(n)],
            "clip_id": [f"c{i}" for i in range(n)],
            "video_id": [f"v{rng.integers(0, 12)}" for _ in range(n)],
            "individual_id": list(rng.choice(names, n)),
            "split": [split] * n,
            "candidates_territory": lists,
            "candidates_neighbours": [lst or None for lst in lists],
        },
        schema_overrides={f"candidates_{g}": pl.List(pl.String) for g in ("territory", "neighbours")},
    ).with_columns(is_known=pl.col("individual_id") != "stranger", role=pl.lit("query"))


def plain(query: dict, gallery: str, scores: dict[str, float]) -> dict:
    """The definitions, word by word, for one query; scores by bird, ties in every order."""
    listed = list(scores) if gallery == "all" else query[f"candidates_{gallery}"] or []
    ranked = {b: s for b, s in scores.items() if b in listed and s > -math.inf}
    truth = query["individual_id"]
    out = {"in_list": truth in listed, "length": len(listed), "top": [0.0] * 10, "ap": 0.0}
    if truth in ranked:
        above = [b for b, s in ranked.items() if s > ranked[truth]]
        tied = [b for b, s in ranked.items() if s == ranked[truth]]
        places = range(len(above) + 1, len(above) + len(tied) + 1)
        out["top"] = [np.mean([p <= k for p in places]) for k in range(1, 11)]
        out["ap"] = np.mean([1 / p for p in places])
    best = [b for b, s in ranked.items() if s == max(ranked.values())]
    out["answer"] = best[0] if len(best) == 1 else None
    out["n_first"] = len(best)
    return out


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gallery", ["territory", "neighbours", "all"])
def test_random_rankings_with_ties_equal_the_definitions(seed: int, gallery: str) -> None:
    rng = np.random.default_rng(seed)
    queries = made_queries(rng)
    scores = rng.integers(0, 4, (queries.height, len(BIRDS))).astype(float)
    scores[rng.random(scores.shape) < 0.1] = np.nan
    found = outcomes_of_scores("m", "closed", gallery, queries, scores, BIRDS)
    schemas.TABLES["reid_outcomes"].validate(found)
    table = scored(found, tuple(range(1, 11)))
    expected = []
    for i, query in enumerate(queries.iter_rows(named=True)):
        values = {b: (-math.inf if np.isnan(s) else s) for b, s in zip(BIRDS, scores[i], strict=True)}
        expected.append(plain(query, gallery, values))
    for k in range(1, 11):
        assert table[f"top{k}"].to_list() == pytest.approx([e["top"][k - 1] for e in expected])
        guess = [e["in_list"] * min(k, e["length"]) / max(e["length"], 1) for e in expected]
        assert table[f"chance_top{k}"].to_list() == pytest.approx(guess)
    assert table["ap_individual"].to_list() == pytest.approx([e["ap"] for e in expected])
    assert table["answer"].to_list() == [e["answer"] for e in expected]
    assert (table["reason"] == TIED_FIRST).fill_null(False).to_list() == [e["n_first"] > 1 for e in expected]
    assert table["in_list"].to_list() == [e["in_list"] for e in expected]
    numbers = measures_of(found)
    assert numbers["top1", "micro"].value == pytest.approx(np.mean([e["top"][0] for e in expected]))
    by_bird: dict[str, list[float]] = {}
    for query, e in zip(queries["individual_id"], expected, strict=True):
        by_bird.setdefault(query, []).append(e["ap"])
    assert numbers["map_individual", "macro"].value == pytest.approx(np.mean([np.mean(v) for v in by_bird.values()]))
    assert counts_of(found)["n_not_listed"] == sum(not e["in_list"] for e in expected)


def test_expected_values_are_means_over_the_orders_of_tied_birds() -> None:
    for above, tied in itertools.product(range(4), range(4)):
        places = [above + 1 + i for i in range(tied + 1)]
        for k in range(1, 9):
            assert expected_top_k([above], [tied], k)[0] == pytest.approx(np.mean([p <= k for p in places]))
        assert expected_reciprocal([above], [tied])[0] == pytest.approx(np.mean([1 / p for p in places]))


def test_a_file_of_ranks_gives_what_its_scores_give() -> None:
    rng = np.random.default_rng(7)
    queries = made_queries(rng, 40)
    scores = rng.integers(0, 5, (40, len(BIRDS))).astype(float)
    rows = [
        ("m", "closed", q, gallery, bird, s)
        for i, q in enumerate(queries["query_id"])
        for gallery in ("territory", "all")
        for bird, s in zip(BIRDS, scores[i], strict=True)
        if gallery == "all" or bird in queries["candidates_territory"][i]
    ]
    names = ["model", "split", "query_id", "gallery", "individual_id", "similarity"]
    ranking = pl.DataFrame(rows, schema=names, orient="row")
    by_rank = ranking.with_columns(
        rank=pl.col("similarity").rank("dense", descending=True).over("query_id", "gallery").cast(pl.Int32)
    )
    made = ranking.with_columns(rank=pl.lit(None, dtype=pl.Int32))
    columns = ["query_id", "n_candidates", "in_list", "n_above", "n_tied", "answer", "score", "margin"]
    for table in (by_rank, made, made.sample(fraction=1.0, shuffle=True, seed=3)):
        found = outcomes_of_ranking("m", queries, table).outcomes
        for gallery in ("territory", "all"):
            expected = outcomes_of_scores("m", "closed", gallery, queries, scores, BIRDS)
            mine = found.filter(pl.col("gallery").cast(pl.String) == gallery)
            assert mine.select(columns).rows() == expected.select(columns).rows()


def test_perfect_adversarial_and_constant_methods_have_their_known_values() -> None:
    rng = np.random.default_rng(1)
    queries = made_queries(rng, 300).filter(pl.col("is_known"))
    right = np.array([[bird == b for b in BIRDS] for bird in queries["individual_id"]], dtype=float)
    perfect = measures_of(outcomes_of_scores("m", "closed", "all", queries, right, BIRDS))
    assert {perfect[m, o].value for m in ("top1", "top5", "map_individual") for o in ("micro", "macro")} == {1.0}
    worst = measures_of(outcomes_of_scores("m", "closed", "all", queries, -right + rng.random(right.shape) / 2, BIRDS))
    assert worst["top1", "micro"].value == worst["top5", "micro"].value == 0
    assert worst["map_individual", "micro"].value == pytest.approx(1 / 9)
    same = outcomes_of_scores("m", "closed", "territory", queries, np.zeros(right.shape), BIRDS)
    constant = measures_of(same)
    # A stranger on the list cannot be ranked: the others share its places.
    no_stranger = queries.with_columns(
        candidates_territory=pl.col("candidates_territory").list.set_difference(["stranger"])
    )
    constant = measures_of(outcomes_of_scores("m", "closed", "territory", no_stranger, np.zeros(right.shape), BIRDS))
    for name in ("top1", "top5", "map_individual"):
        for over in ("micro", "macro"):
            assert constant[name, over].value == pytest.approx(constant[name, over].chance)
    assert cmc(same, 9)["top"].is_sorted()


def test_a_random_method_is_at_chance() -> None:
    rng = np.random.default_rng(5)
    queries = made_queries(rng, 4000).filter(pl.col("is_known"))
    numbers = measures_of(
        outcomes_of_scores("m", "closed", "all", queries, rng.random((queries.height, len(BIRDS))), BIRDS)
    )
    for name in ("top1", "top5", "map_individual"):
        assert numbers[name, "micro"].value == pytest.approx(numbers[name, "micro"].chance, abs=0.03)
        ends = numbers[name, "micro"].by_video
        assert ends.lo < numbers[name, "micro"].value < ends.hi


def test_cases_of_known_libraries() -> None:
    case = CASES["L06"]
    given_ = case["input"]
    assert baks(given_["y_true"], given_["y_pred"], given_["unknown"]) == pytest.approx(case["right"])
    given_ = CASES["L07"]["input"]
    assert baus(given_["y_true"], given_["y_pred"], ["z", "y"]) == pytest.approx(CASES["L07"]["right"])
    for name in ("L08", "L09"):
        given_ = CASES[name]["input"]
        assert list_average_precision(given_["true"], given_["ranked"]) == pytest.approx(CASES[name]["right"])
    given_ = CASES["L10"]["input"]
    assert balanced_accuracy(given_["y_true"], given_["y_pred"]) == pytest.approx(CASES["L10"]["right"])
    given_ = CASES["L11"]["input"]
    known = [name != "new" for name in given_["y_true"]]
    assert auroc(given_["score"], known) == pytest.approx(CASES["L11"]["right"])
    given_ = CASES["L13"]["input"]
    values = [list_average_precision(t, p) for t, p in zip(given_["y_true"], given_["y_pred"], strict=True)]
    assert np.mean(values) == pytest.approx(CASES["L13"]["right"])


def test_lists_of_different_length_as_a_ranking() -> None:
    given_ = CASES["L13"]["input"]
    rows = [
        ("m", "closed", f"q{i}", "territory", rank, bird)
        for i, birds in enumerate(given_["y_pred"])
        for rank, bird in enumerate(birds, start=1)
    ]
    ranking = pl.DataFrame(
        rows, schema=["model", "split", "query_id", "gallery", "rank", "individual_id"], orient="row"
    )
    ranking = ranking.with_columns(similarity=pl.lit(None, dtype=pl.Float64))
    queries = pl.DataFrame(
        {"query_id": ["q0", "q1"], "clip_id": ["q0", "q1"], "video_id": ["v", "w"], "individual_id": given_["y_true"]}
    ).with_columns(split=pl.lit("closed"))
    found = outcomes_of_ranking("m", queries, ranking).outcomes
    number = measures_of(found)["map_individual", "micro"]
    assert number.value == pytest.approx(CASES["L13"]["right"])
    assert number.chance == pytest.approx((1.5 / 2 + (1 + 1 / 2 + 1 / 3) / 3) / 2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30))
def test_auroc_and_balanced_accuracy_are_those_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    score, known = zip(*rows, strict=True)
    if len(set(known)) < 2:
        assert auroc(score, known) is None
    else:
        assert auroc(score, known) == pytest.approx(roc_auc_score(known, score))
    true, said = [s % 3 for s in score], [int(k) for k in known]
    with np.testing.suppress_warnings() as quiet:
        quiet.filter(UserWarning)
        assert balanced_accuracy(true, said) == pytest.approx(balanced_accuracy_score(true, said))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40).filter(
        lambda r: any(x[1] for x in r)
    )
)
def test_average_precision_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    from birdlab.individuals.reid.outcomes import average_precision

    score, own = np.array([r[0] for r in rows], dtype=float), np.array([r[1] for r in rows])
    assert average_precision(score, score[own]) == pytest.approx(average_precision_score(own, score))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_rows_and_monotone_scores_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries = made_queries(rng, 25, split="open").with_columns(role=pl.Series(rng.choice(["query", "validation"], 25)))
    rows = with_left_out(queries)
    scores = rng.integers(-3, 4, (rows.height, len(BIRDS))).astype(float)
    order, columns = rng.permutation(rows.height), rng.permutation(len(BIRDS))
    birds = [BIRDS[i] for i in columns]
    for gallery in ("territory", "all"):
        first = outcomes_of_scores("m", "open", gallery, rows, scores, BIRDS)
        moved = outcomes_of_scores("m", "open", gallery, rows[order.tolist()], np.exp(scores)[order][:, columns], birds)
        assert {r["metric"]: r["value"] for r in summarise(first) if r["metric"] != "threshold"} == pytest.approx(
            {r["metric"]: r["value"] for r in summarise(moved) if r["metric"] != "threshold"}
        )
        a, b = choose_threshold(first), choose_threshold(moved)
        assert (a.value is None) == (b.value is None)
        assert a.value is None or b.value == pytest.approx(math.exp(a.value))
        assert identity_risk(first).aurc.value == pytest.approx(identity_risk(moved).aurc.value)


def test_not_listed_empty_lists_and_birds_nobody_ranks_are_wrong_and_counted() -> None:
    queries = pl.DataFrame(
        {
            "query_id": ["in", "out", "empty", "none", "stranger"],
            "video_id": ["v1", "v1", "v2", "v2", "v3"],
            "individual_id": ["b0", "b0", "b0", "b0", "stranger"],
            "is_known": [True, True, True, True, False],
            "candidates_territory": [["b0", "b1"], ["b1", "b2"], [], None, ["stranger", "b1"]],
        }
    )
    found = outcomes_of_scores("m", "closed", "territory", queries, np.tile([3.0, 2.0, 1.0], (5, 1)), BIRDS[:3])
    assert found["n_above"].to_list() == [0, None, None, None, None]
    assert found["answer"].to_list() == ["b0", "b1", None, None, "b1"]
    assert found["reason"].to_list() == [None, None, EMPTY_LIST, NO_LIST, None]
    counts = counts_of(found)
    assert (counts["n"], counts["n_not_listed"], counts["n_not_ranked"], counts["n_empty_list"]) == (5, 3, 1, 2)
    number = measures_of(found)["top1", "micro"]
    assert number.value == pytest.approx(1 / 5)
    assert number.chance == pytest.approx((1 / 2 + 1 / 2) / 5)


def test_one_bird_and_no_query() -> None:
    queries = pl.DataFrame({"query_id": ["q"], "video_id": ["v"], "individual_id": ["b0"], "is_known": [True]})
    found = outcomes_of_scores("m", "closed", "all", queries, np.array([[0.3]]), ["b0"])
    number = measures_of(found)["top1", "micro"]
    assert (number.value, number.chance, number.by_video.lo) == (1.0, 1.0, None)
    assert "nothing can be said" in number.by_video.reason
    assert found["margin"][0] is None
    none = outcomes_of_scores("m", "closed", "all", queries, np.array([[np.nan]]), ["b0"])
    assert none["reason"][0] == NONE_RANKED
    empty = measures_of(found.clear())
    assert empty["top1", "micro"].value is None and empty["top1", "micro"].reason
    nobody = outcomes_of_scores("m", "closed", "all", queries, np.zeros((1, 0)), [])
    assert nobody.select("n_candidates", "in_list", "reason").row(0) == (0, False, EMPTY_LIST)


def open_study() -> pl.DataFrame:
    """Two known birds and two unknown ones, and validation clips; scores decide."""
    rows = [
        ("k1", "a", True, "query", [0.9, 0.1]),
        ("k2", "a", True, "query", [0.2, 0.8]),
        ("k3", "b", True, "query", [0.1, 0.3]),
        ("u1", "x", False, "query", [0.7, 0.1]),
        ("u2", "x", False, "query", [0.2, 0.1]),
        ("u3", "y", False, "query", [0.1, 0.2]),
        ("t1", "a", True, "validation", [0.95, 0.4]),
        ("t2", "b", True, "validation", [0.3, 0.75]),
    ]
    queries = pl.DataFrame(
        {
            "query_id": [r[0] for r in rows],
            "video_id": [f"v{i % 3}" for i in range(len(rows))],
            "individual_id": [r[1] for r in rows],
            "is_known": [r[2] for r in rows],
            "role": [r[3] for r in rows],
        }
    )
    asked = with_left_out(queries)
    scores = np.array([r[4] for r in rows] + [r[4] for r in rows if r[3] == "validation"])
    return outcomes_of_scores("m", "open", "all", asked, scores, ["a", "b"])


def test_open_set_by_hand() -> None:
    found = open_study()
    assert found.filter(pl.col("query_id") == f"t1{LEFT_OUT}").select("is_known", "score", "n_candidates").row(0) == (
        False,
        0.4,
        1,
    )
    # Validation: known .95 and .75, stand-ins .4 and .3. The lowest threshold that tells them apart is .75.
    numbers, threshold = open_measures(found)
    assert (threshold.value, threshold.balanced_accuracy) == (0.75, 1.0)
    assert numbers["auroc"].value == pytest.approx(roc_auc_score([1, 1, 1, 0, 0, 0], [0.9, 0.8, 0.3, 0.7, 0.2, 0.2]))
    said = ["a", "b", "new", "new", "new", "new"]
    true = ["a", "a", "b", "x", "x", "y"]
    assert numbers["baks"].value == pytest.approx(baks(true, said, ["x", "y"]))
    assert numbers["baus"].value == pytest.approx(baus(true, said, ["x", "y"])) == 1.0
    assert numbers["baus"].chance == pytest.approx(4 / 6)
    assert counts_of(found)["n"] == 3 and counts_of(found)["n_unknown"] == 3
    assert measures_of(found)["top1", "micro"].value == pytest.approx(2 / 3)


def test_open_set_without_validation_or_unknown_birds_has_its_reason() -> None:
    found = open_study().filter(pl.col("role") == "query")
    numbers, threshold = open_measures(found)
    assert threshold.value is None and "validation" in threshold.reason
    assert numbers["baks"].value is None and numbers["baks"].reason == threshold.reason
    assert numbers["auroc"].value is not None
    numbers, _ = open_measures(open_study().filter(pl.col("is_known") | (pl.col("role") == "validation")))
    assert numbers["auroc"].value is None and numbers["auroc"].reason
    assert numbers["baus"].value is None and numbers["baks"].value is not None


@pytest.mark.parametrize(("above", "tied", "n_birds"), [(0, 0, 6), (2, 0, 6), (0, 2, 5), (1, 3, 7), (3, 1, 6)])
def test_list_sizes_equal_enumeration(above: int, tied: int, n_birds: int) -> None:
    others = list(range(n_birds - 1))
    sizes = list(range(1, n_birds + 1))
    value = expected_top1([above], [tied], n_birds, sizes)[0]
    for size, found in zip(sizes, value, strict=True):
        outcome = []
        for drawn in itertools.combinations(others, size - 1):
            better = sum(o < above for o in drawn)
            equal = sum(above <= o < above + tied for o in drawn)
            outcome.append(0.0 if better else 1 / (equal + 1))
        assert found == pytest.approx(np.mean(outcome))
    assert value[-1] == pytest.approx(expected_top_k([above], [tied], 1)[0])


def test_the_curve_ends_at_top1_of_the_whole_gallery() -> None:
    rng = np.random.default_rng(2)
    queries = made_queries(rng, 80)
    scores = rng.integers(0, 6, (80, len(BIRDS))).astype(float)
    found = pl.concat(
        [outcomes_of_scores("m", "closed", g, queries, scores, BIRDS) for g in ("territory", "neighbours", "all")]
    )
    curve = list_size_curve(found)
    known = queries["is_known"].mean()
    assert curve["list_size"].to_list() == list(range(1, 10))
    assert curve["top1"][0] == pytest.approx(known) and curve["chance"][0] == pytest.approx(known)
    assert curve["top1"][-1] == pytest.approx(
        measures_of(found.filter(pl.col("gallery") == "all"))["top1", "micro"].value
    )
    assert curve["top1"].is_sorted(descending=True)
    points = observed_points(found)
    assert points["gallery"].to_list() == ["territory", "neighbours", "all"]
    assert points["list_size"][2] == 9


def test_look_alikes_and_recall() -> None:
    queries = pl.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(6)],
            "video_id": ["v1", "v1", "v2", "v2", "v3", "v3"],
            "individual_id": ["a", "a", "a", "b", "b", "c"],
            "is_known": [True] * 6,
        }
    )
    scores = np.array([[1, 2, 0], [1, 2, 0], [2, 1, 0], [1, 2, 0], [1, 1, 0], [0, 1, 2]], dtype=float)
    found = outcomes_of_scores("m", "closed", "all", queries, scores, ["a", "b", "c"])
    roster = pl.DataFrame({"individual_id": ["a", "b", "b"], "code": ["oaor", "OArr", "oooo"]})
    pairs = look_alikes(found, roster)
    assert pairs.select("individual_id", "taken_for", "n", "n_queries", "hamming").rows() == [("a", "b", 2, 3, 1)]
    recall = individual_recall(found)
    assert recall.select("individual_id", "top1", "taken_for").rows() == [
        ("a", pytest.approx(1 / 3), "b"),
        ("b", 0.75, None),
        ("c", 1.0, None),
    ]
    assert recall["reason"][2] is not None


def test_risk_and_coverage_by_hand() -> None:
    queries = pl.DataFrame(
        {"query_id": list("pqrs"), "video_id": list("vvww"), "individual_id": list("aabb"), "is_known": [True] * 4}
    )
    scores = np.array([[0.9, 0.1], [0.6, 0.2], [0.6, 0.5], [np.nan, np.nan]])
    curve = identity_risk(outcomes_of_scores("m", "closed", "all", queries, scores, ["a", "b"]))
    assert curve.points.rows() == [(0.9, 0.25, 1, 0.0), (0.6, 0.75, 3, pytest.approx(1 / 3))]
    assert (curve.n, curve.n_unanswered) == (4, 1)
    assert curve.at_risk[0.1] == 0.25
    assert curve.aurc.value == pytest.approx((0 + 0.25 + 1 / 3 + 0.5) / 4)
    assert curve.aurc.chance == pytest.approx(0.5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_ties(rows: list[tuple[int, bool]]) -> None:
    every = [
        np.mean(1 - np.cumsum([r[1] for r in order]) / np.arange(1, len(rows) + 1))
        for order in itertools.permutations(rows)
        if all(a[0] >= b[0] for a, b in itertools.pairwise(order))
    ]
    sure, right = zip(*rows, strict=True)
    assert aurc(sure, right) == pytest.approx(np.mean(every))


def test_rows_of_metrics_are_unique_and_say_why_a_method_is_missing() -> None:
    rows = [
        *summarise(open_study()),
        *risk_rows(open_study()),
        *not_evaluated("rings", "open", "all", "no unknown bird"),
    ]
    frame = metric_frame([{**row, "dataset": "d"} for row in rows])
    schemas.TABLES["metrics"].validate(frame)
    missing = frame.filter(pl.col("model") == "rings")
    assert missing["value"].null_count() == missing.height == 2
    assert set(missing["reason"]) == {"no unknown bird"}
    assert frame.filter(pl.col("value").is_null() & pl.col("reason").is_null()).height == 0
    with_chance = frame.filter(pl.col("metric").is_in(["top1", "top5", "map_individual", "auroc", "baks", "baus"]))
    assert with_chance.filter(pl.col("value").is_not_null())["chance"].null_count() == 0


def test_lists_of_their_own_for_the_whole_gallery() -> None:
    queries = pl.DataFrame(
        {
            "query_id": ["p", "q"],
            "video_id": ["v", "w"],
            "individual_id": ["b0", "b1"],
            "is_known": [True, True],
            "candidates_all": [["b0", "b1"], ["b0", "b1", "b2"]],
        }
    )
    found = outcomes_of_scores("m", "closed", "all", queries, np.array([[1.0, 2, 3], [1, 2, 3]]), BIRDS[:3])
    assert found.select("n_candidates", "n_above", "answer").rows() == [(2, 1, "b1"), (3, 1, "b2")]
    curve = list_size_curve(found)
    assert curve["top1"].to_list() == pytest.approx([1, 0.25, 0])
    assert curve["chance"].to_list() == pytest.approx([1, 0.5, (1 / 2 + 1 / 3) / 2])
