"""Ranks and their probabilities, agreement of sets and of models, accuracy against speed, and the two figures."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from sklearn.metrics import cohen_kappa_score

from birdlab import schemas, stats
from birdlab.detection import agreement as agreeing
from birdlab.detection import comparison, ranking
from birdlab.errors import DataError, ParameterError
from birdlab.metrics import metric_frame

MODELS = ["heron", "wren", "jay"]
K = {"heron": [8, 9, 5, 10], "wren": [7, 7, 5, 9], "jay": [4, 6, 4, 7]}
N = [10, 11, 9, 12]


def counts(k: dict[str, list[int]] = K, n: list[int] | None = None, metric: str = "recall") -> pl.DataFrame:
    """Counts per session; every model saw the same birds."""
    return pl.DataFrame(
        {"model": m, "session": f"s{g}", "metric": metric, "k": x, "n": (n or N)[g]}
        for m, row in k.items()
        for g, x in enumerate(row)
    )


def matches(found: dict[str, list[list[int]]], *, false: dict[str, list[int]] | None = None) -> pl.DataFrame:
    """Matches with one bird per frame: per model and session, 1 for a hit and 0 for a miss; ``false`` extra detections."""
    rows = []
    about = {"category": "bird", "iou_thr": 0.5, "score_thr": 0.25, "protocol": "greedy"}
    for m, sessions in found.items():
        for s, birds in enumerate(sessions):
            for b, hit in enumerate(birds):
                row = {"model": m, "frame_id": f"s{s}/{b}.jpg", "video_id": f"s{s}", "label_id": f"s{s}-{b}"}
                rows.append(row | about | {"outcome": "tp" if hit else "fn"})
            for _ in range((false or {}).get(m, [0] * len(sessions))[s]):
                row = {"model": m, "frame_id": f"s{s}/0.jpg", "video_id": f"s{s}", "label_id": None}
                rows.append(row | about | {"outcome": "fp"})
    return schemas.TABLES["matches"].conform(pl.DataFrame(rows, infer_schema_length=None))


def frames_of(table: pl.DataFrame, sites: dict[str, str] | None = None) -> pl.DataFrame:
    rows = table.select("frame_id", "video_id").unique(maintain_order=True).with_row_index("frame_index")
    site = pl.col("video_id").replace_strict(sites) if sites else pl.lit(None, dtype=pl.String)
    rows = rows.with_columns(media_id="frame_id", label_state=pl.lit("labelled"), site_id=site, split=pl.lit("test"))
    return schemas.TABLES["frames"].conform(rows)


# ---- ranks ----------------------------------------------------------------------------------------------------------


def test_two_models_agree_with_a_t_test_of_the_paired_difference() -> None:
    k, n = np.array([K["heron"], K["wren"]], float), np.array([N, N], float)
    p = k.sum(axis=1) / n.sum(axis=1)
    u = (k - p[:, None] * n) / n.sum(axis=1)[:, None] / (p * (1 - p))[:, None]
    se = np.sqrt(4 / 3 * np.sum((u[0] - u[1]) ** 2))
    logit = np.log(p / (1 - p))
    want = scipy_stats.t.cdf((logit[0] - logit[1]) / se, 3)
    got, reason = ranking.rank_probabilities(k, n, draws=200_000)
    assert reason is None
    assert got[0] == pytest.approx([want, 1 - want], abs=0.004)
    again, _ = ranking.rank_probabilities(k, n, draws=200_000, n_new=4)
    assert again[0, 0] == pytest.approx(scipy_stats.t.cdf((logit[0] - logit[1]) / se / np.sqrt(2), 3), abs=0.004)


def test_probabilities_are_those_of_counting_orders_one_by_one() -> None:
    drawn = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 2.0], [5.0, 5.0, 5.0], [0.0, 1.0, 0.0]])
    want = np.zeros((3, 3))
    for row in drawn:
        orders = [
            o for o in itertools.permutations(range(3)) if all(row[a] >= row[b] for a, b in itertools.pairwise(o))
        ]
        for order in orders:
            for rank, model in enumerate(order):
                want[model, rank] += 1 / len(orders) / len(drawn)
    assert ranking._shared_ranks(drawn) == pytest.approx(want)


def test_identical_models_share_every_rank_evenly() -> None:
    table = ranking.rank_table(counts({m: K["heron"] for m in MODELS}))
    assert table.select("p_rank_1", "p_rank_2", "p_rank_3").to_numpy() == pytest.approx(np.full((3, 3), 1 / 3))
    assert table["rank"].to_list() == [1, 1, 1]
    twins = ranking.rank_table(counts({"a": K["heron"], "b": K["heron"], "c": [0, 1, 0, 1]}))
    first = twins["p_rank_1"].to_list()
    assert first[0] == first[1] and first[0] + first[1] + first[2] == pytest.approx(1)
    assert twins["rank"].to_list() == [1, 1, 3]


def test_one_session_gives_ranks_without_probabilities() -> None:
    table = ranking.rank_table(counts({m: k[:1] for m, k in K.items()}))
    assert table["rank"].to_list() == [1, 2, 3]
    assert table["p_rank_1"].null_count() == 3 and table["lo"].null_count() == 3
    assert set(table["reason"]) == {"one session: nothing can be said about another"}
    sites = counts({m: k[:1] for m, k in K.items()}).with_columns(unit=pl.lit("site"))
    assert set(ranking.rank_table(sites)["reason"]) == {"one site: nothing can be said about another"}


def test_two_sessions_let_the_model_in_the_middle_be_first() -> None:
    """CR1 alone would draw all models along one line, on which the second of three is never first."""
    p, _ = ranking.rank_probabilities([[60, 80], [58, 70], [50, 66]], [[100, 100]] * 3)
    assert p[1, 0] > 0.02
    assert p.sum(axis=0) == pytest.approx(np.ones(3)) and p.sum(axis=1) == pytest.approx(np.ones(3))


def test_a_share_of_one_is_drawn_on_the_plain_scale() -> None:
    k, n = [[10, 10, 10, 10], [9, 8, 10, 7]], [[10] * 4] * 2
    p, reason = ranking.rank_probabilities(k, n, draws=200_000)
    assert reason == ranking.PLAIN
    # The same paired difference as in the comparison of recall, so the same p value.
    want = stats.mean_difference(np.subtract(*k), n[0]).p
    assert p[1, 0] == pytest.approx(want / 2, abs=0.004)


def test_a_difference_that_never_varies_has_no_probability() -> None:
    p, reason = ranking.rank_probabilities([[5, 10], [4, 8]], [[10, 20]] * 2)
    assert p is None and "the same in every session" in reason
    p, _ = ranking.rank_probabilities([[0, 0], [0, 0]], [[10, 20]] * 2)
    assert p.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_certain_order_and_a_seed() -> None:
    k = {"a": [90, 91, 89, 92, 90], "b": [50, 52, 49, 51, 50], "c": [10, 11, 9, 12, 10]}
    table = ranking.rank_table(counts(k, [100] * 5))
    assert (table["p_rank_1"][0], table["p_rank_2"][1], table["p_rank_3"][2]) == pytest.approx((1, 1, 1), abs=2e-3)
    assert table.equals(ranking.rank_table(counts(k, [100] * 5)))
    assert table.row(0, named=True)["lo"] == stats.new_sessions(k["a"], [100] * 5).lo


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=2, max_size=6), st.permutations(range(3)), st.randoms())
def test_names_and_order_of_rows_do_not_matter(found: list[tuple[int, ...]], order: list[int], random: object) -> None:
    k = {m: [row[i] for row in found] for i, m in enumerate(MODELS)}
    n = [9 + g for g in range(len(found))]
    table = ranking.rank_table(counts(k, n), draws=500)
    shuffled = counts(k, n)
    rows = list(range(shuffled.height))
    random.shuffle(rows)  # type: ignore[attr-defined]
    again = ranking.rank_table(shuffled[rows], draws=500)
    assert table.sort("model").equals(again.sort("model"), null_equal=True) or _near(table, again)
    renamed = ranking.rank_table(counts({f"x{m}": v for m, v in k.items()}, n), draws=500)
    assert table.drop("model").equals(renamed.drop("model"), null_equal=True)
    p = table.select(pl.col("^p_rank_.*$"))
    if not p.to_series(0).has_nulls():
        assert p.to_numpy().sum(axis=0) == pytest.approx(np.ones(3))
        assert p.to_numpy().sum(axis=1) == pytest.approx(np.ones(3))
    # The better value never has the smaller chance of being first, among models that vary alike: here only two.
    two, _ = ranking.rank_probabilities([k["heron"], k["wren"]], [n, n], draws=500)
    if two is not None and sum(k["heron"]) > sum(k["wren"]):
        assert two[0, 0] >= two[1, 0]


def _near(a: pl.DataFrame, b: pl.DataFrame) -> bool:
    """Equal but for rounding in sums."""
    a, b = a.sort("model"), b.sort("model")
    columns = [c for c in a.columns if c.startswith("p_rank_")]
    return a.drop(columns).equals(b.drop(columns)) and np.allclose(
        a[columns].to_numpy(), b[columns].to_numpy(), atol=0.01
    )


def test_sessions_that_a_model_did_not_see_are_left_out_for_all() -> None:
    whole = counts()
    part = whole.filter(~((pl.col("model") == "jay") & (pl.col("session") == "s3")))
    table = ranking.rank_table(part)
    assert table["n"].to_list() == [30, 30, 30] and table["n_sessions"].to_list() == [3, 3, 3]
    assert table["value"][0] == pytest.approx(22 / 30)
    assert set(table["reason"]) == {"left out: 1 session that not every model was asked about"}


def test_ap_is_ranked_by_value_alone_and_no_value_is_no_rank() -> None:
    ap = pl.DataFrame({"model": MODELS, "metric": "ap", "value": [0.4, 0.4, None]})
    table = ranking.rank_table(counts(), values=ap)
    rows = table.filter(metric="ap")
    assert rows["rank"].to_list() == [1, 1, None]
    assert rows["p_rank_1"].null_count() == 3
    assert rows["reason"].to_list() == [ranking.BY_VALUE, ranking.BY_VALUE, ranking.NOT_RANKED]
    assert table.columns[7:10] == ["p_rank_1", "p_rank_2", "p_rank_3"]


def test_a_model_that_detects_nothing_has_no_precision_and_no_rank() -> None:
    precision = counts(metric="precision").with_columns(
        k=pl.when(pl.col("model") == "jay").then(0).otherwise("k"),
        n=pl.when(pl.col("model") == "jay").then(0).otherwise("n"),
    )
    table = ranking.rank_table(precision)
    jay = table.filter(model="jay").row(0, named=True)
    assert (jay["value"], jay["rank"], jay["p_rank_1"]) == (None, None, None)
    assert jay["reason"] == "no detection: not ranked"
    two = table.filter(pl.col("model") != "jay")
    assert two["p_rank_1"].sum() == pytest.approx(1) and two["p_rank_3"].null_count() == 2


def test_bad_tables_name_what_is_wrong() -> None:
    with pytest.raises(DataError, match="k=11, n=10 for heron, s0, recall"):
        ranking.rank_table(counts(K | {"heron": [11, 9, 5, 10]}))
    with pytest.raises(DataError, match="heron, s0, recall"):
        ranking.rank_table(pl.concat([counts(), counts()[:1]]))
    with pytest.raises(DataError) as found:
        ranking.rank_table(counts().drop("k", "n"))
    assert [p.key for p in found.value.problems] == ["k", "n"]
    with pytest.raises(ParameterError, match="n_new"):
        ranking.rank_probabilities([[1]], [[1]], n_new=0)


def test_an_empty_table_has_no_rows() -> None:
    assert ranking.rank_table(counts().clear()).is_empty()
    assert metric_frame(ranking.rank_rows(ranking.rank_table(counts().clear()))).is_empty()


def test_counts_come_from_matches_on_frames_that_all_were_asked_about() -> None:
    found = {"a": [[1, 1, 0], [1, 0]], "b": [[1, 0, 0], [1, 1]]}
    table = matches(found, false={"a": [2, 0], "b": [0, 1]})
    frames = frames_of(table)
    got = ranking.session_counts(table, frames)
    assert got.filter(model="a", metric="recall").select("session", "k", "n").rows() == [("s0", 2, 3), ("s1", 1, 2)]
    assert got.filter(model="a", metric="precision").select("k", "n").rows() == [(2, 4), (1, 1)]
    assert got.filter(model="b", metric="f1").select("k", "n").rows() == [(2, 4), (4, 5)]
    # b failed on one frame: it is left out for both, false positives included.
    lost = table.filter(~((pl.col("model") == "b") & (pl.col("frame_id") == "s0/0.jpg")))
    got = ranking.session_counts(lost, frames)
    assert got.filter(model="a", metric="precision").select("k", "n").rows() == [(1, 1), (1, 1)]
    failures = pl.DataFrame({"model": ["b", "other"], "frame_id": ["s0/0.jpg", "s1/0.jpg"]})
    assert ranking.session_counts(table, frames, failures=failures).equals(got)


def test_sites_are_the_clusters_where_there_are_two() -> None:
    table = matches({"a": [[1, 0], [1, 1], [0, 1]], "b": [[1, 0], [0, 1], [1, 1]]})
    got = ranking.session_counts(table, frames_of(table, {"s0": "north", "s1": "south", "s2": "south"}))
    assert got.filter(model="a", metric="recall").select("session", "k", "n").rows() == [
        ("north", 1, 2),
        ("south", 3, 4),
    ]
    assert set(ranking.rank_table(got)["unit"]) == {"site"}


def test_the_first_place_is_said_at_a_site_and_in_a_session() -> None:
    from birdlab.chapters.comparison import ranks_title

    rank = {"metric": "recall", "rank": 1, "model": "heron", "p_rank_1": 0.98}
    for unit, words in (("site", "at a new site."), ("session", "in a new session.")):
        assert ranks_title(pl.DataFrame([rank | {"unit": unit}])).endswith(f"with probability 98 % {words}")


def test_ranks_become_rows_of_metrics() -> None:
    ap = pl.DataFrame({"model": MODELS, "metric": "ap", "value": [0.4, 0.3, None]})
    table = ranking.rank_table(counts(), values=ap)
    rows = metric_frame(ranking.rank_rows(table, method="iou=0.5 conf=0.25"))
    key = ["model", "group", "level", "metric", "method"]
    assert rows.filter(pl.struct(key).is_duplicated()).is_empty()
    first = rows.filter(model="heron", level="recall", metric="p_rank_1").row(0, named=True)
    assert first["value"] == table["p_rank_1"][0]
    assert (first["method"], first["n"], first["n_clusters"]) == ("iou=0.5 conf=0.25; new_sessions", 3, 4)
    assert rows.filter(model="wren", level="ap", metric="rank")["value"].to_list() == [2.0]
    assert rows.filter(level="ap", metric="p_rank_1")["reason"].null_count() == 0
    assert rows.filter(pl.col("value").is_null() & pl.col("reason").is_null()).is_empty()


# ---- between sets ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_tau_equals_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    got, want = agreeing.kendall_tau_b(x, y), scipy_stats.kendalltau(x, y).statistic
    assert (got is None and np.isnan(want)) or got == pytest.approx(want)


def values(numbers: list[float | None], metric: str = "ap") -> pl.DataFrame:
    names = [f"m{i}" for i in range(len(numbers))]
    return pl.DataFrame({"model": names, "metric": metric, "value": numbers}, schema_overrides={"value": pl.Float64})


def test_few_models_are_too_few_to_say() -> None:
    row = agreeing.rank_agreement(values([1, 2, 3, 4]), values([1, 2, 3, 4])).row(0, named=True)
    assert (row["tau"], row["lo"], row["n"]) == (1.0, None, 4)
    assert row["words"].endswith("n = 4: too few models to say")
    rng = np.random.default_rng(3)
    x = rng.random(9)
    row = agreeing.rank_agreement(values(list(x)), values(list(rng.permutation(x)))).row(0, named=True)
    assert row["lo"] < 0 < row["hi"] and row["words"].endswith("too few models to say")
    y = [*range(9), 10, 9]
    row = agreeing.rank_agreement(values(list(range(11))), values(y)).row(0, named=True)
    assert row["tau"] == pytest.approx(53 / 55) and row["lo"] > 0
    assert row["words"].endswith("models that do better in one set do better in the other")
    assert "within ±0.3" in agreeing.in_words(0.0, -0.1, 0.1, 200)
    same = agreeing.rank_agreement(values([1.0] * 9), values(list(range(9)))).row(0, named=True)
    assert same["tau"] is None and "same value" in same["words"]


def test_fieller_s_interval_covers() -> None:
    rng = np.random.default_rng(11)
    r, n, hits = 0.7, 12, 0
    true = 2 / np.pi * np.arcsin(r)
    for _ in range(600):
        x = rng.normal(size=n)
        y = r * x + np.sqrt(1 - r * r) * rng.normal(size=n)
        lo, hi = agreeing.fieller_interval(agreeing.kendall_tau_b(x, y), n) or (-1, 1)
        hits += lo <= true <= hi
    assert 0.92 <= hits / 600 <= 0.98


def test_measures_of_other_names_are_paired_and_models_that_lack_one_counted() -> None:
    boxes, masks = values([0.3, 0.2, 0.1, None]), values([0.3, 0.1, 0.2, 0.5], metric="mask_ap")
    assert agreeing.rank_agreement(boxes, masks).is_empty()
    row = agreeing.rank_agreement(boxes, masks, pairs=[("ap", "mask_ap")]).row(0, named=True)
    assert (row["n"], row["n_left_out"], row["tau"]) == (3, 1, pytest.approx(1 / 3))
    with pytest.raises(DataError, match="m0 ap"):
        agreeing.rank_agreement(pl.concat([boxes, boxes[:1]]), masks)


def test_moved_needs_more_than_one_interval_s_width() -> None:
    schema = {"model": pl.String, "metric": pl.String, "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
    rows = [("near", 0.5, 0.4, 0.6), ("far", 0.5, 0.4, 0.6), ("edge", 0.5, 0.4, 0.6), ("bare", 0.5, None, None)]
    there = [("near", 0.55, 0.45, 0.65), ("far", 0.8, 0.7, 0.9), ("edge", 0.62, 0.52, 0.72), ("bare", 0.9, 0.8, 1.0)]
    a, b = (pl.DataFrame([(m, "recall", *v) for m, *v in t], schema=schema, orient="row") for t in (rows, there))
    got = agreeing.moved(a, b)
    assert got["outside"].to_list() == [False, True, True, None]
    assert got["moved"].to_list() == [False, True, False, None]
    edge = got.filter(model="edge").row(0, named=True)
    assert (edge["lo"], edge["hi"]) == pytest.approx((0.12 - np.hypot(0.1, 0.1), 0.12 + np.hypot(0.1, 0.1)))
    assert got["reason"].to_list() == [None, None, None, "no interval in one of the sets"]
    back = agreeing.moved(b, a)
    assert back["moved"].to_list() == got["moved"].to_list()
    assert back["lo"][0] == pytest.approx(-got["hi"][0])


# ---- between models -------------------------------------------------------------------------------------------------

FOUND = {
    "label_id": [[1, 1, 0, 0], [1, 0, 1], [1, 1, 1, 0]],
    "wren": [[1, 0, 0, 0], [1, 1, 1], [0, 1, 1, 0]],
    "top": [[1, 1, 0, 1], [1, 0, 1], [1, 1, 0, 0]],
}


def test_birds_are_shared_out_by_hand() -> None:
    table = matches(FOUND)  # models may be called like columns
    got = agreeing.agreement(table, frames_of(table))
    about = {(r["quantity"], r["model_a"], r["model_b"]): r for r in got.to_dicts()}
    assert (about["missed_by_all", None, None]["k"], about["missed_by_all", None, None]["n"]) == (2, 11)
    assert about["found_by_all", None, None]["k"] == 4
    assert about["found_only_by", "wren", None]["k"] == 1
    assert about["found_only_by", "top", None]["k"] == 1
    assert about["found_only_by", "label_id", None]["k"] == 0
    union = about["union_recall", None, None]
    assert (union["value"], union["reason"]) == (pytest.approx(9 / 11), agreeing.ORACLE)
    want = stats.new_sessions([3, 3, 3], [4, 3, 4])
    assert (union["lo"], union["hi"], union["n_clusters"]) == (pytest.approx(want.lo), pytest.approx(want.hi), 3)
    for a, b in itertools.combinations(FOUND, 2):
        x, y = (sum(FOUND[m], []) for m in (a, b))
        assert about["kappa", a, b]["value"] == pytest.approx(cohen_kappa_score(x, y))
        assert about["same_outcome", a, b]["value"] == pytest.approx(np.mean(np.equal(x, y)))
    assert agreeing.missed_by_all(table).rows() == [
        ("s0-2", "s0/2.jpg", "s0", "bird"),
        ("s2-3", "s2/3.jpg", "s2", "bird"),
    ]


def test_a_bird_one_model_was_not_asked_about_counts_for_none() -> None:
    table = matches(FOUND)
    lost = table.filter(~((pl.col("model") == "top") & (pl.col("label_id") == "s0-2")))
    got = agreeing.agreement(lost).filter(quantity="missed_by_all").row(0, named=True)
    assert (got["k"], got["n"]) == (1, 10)
    assert agreeing.missed_by_all(lost)["label_id"].to_list() == ["s2-3"]


def test_kappa_s_interval_is_near_the_jackknife_s_and_orders_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    sessions = [list((rng.random(40) < rng.uniform(0.4, 0.9)).astype(int)) for _ in range(12)]
    other = [[int(x if rng.random() < 0.8 else 1 - x) for x in s] for s in sessions]
    table = matches({"a": sessions, "b": other})
    row = agreeing.agreement(table).filter(quantity="kappa").row(0, named=True)
    left = [
        np.arctanh(cohen_kappa_score(sum(sessions[:g] + sessions[g + 1 :], []), sum(other[:g] + other[g + 1 :], [])))
        for g in range(12)
    ]
    se = np.sqrt(11 / 12 * np.sum((left - np.mean(left)) ** 2))
    half = (np.arctanh(row["hi"]) - np.arctanh(row["lo"])) / 2
    assert half == pytest.approx(scipy_stats.t.ppf(0.975, 11) * se, rel=0.1)
    swapped = agreeing.agreement(table.reverse()).filter(quantity="kappa").row(0, named=True)
    assert swapped["value"] == pytest.approx(row["value"]) and swapped["lo"] == pytest.approx(row["lo"])


def test_kappa_says_why_it_is_missing() -> None:
    one = agreeing.agreement(matches({"a": [[1, 0, 1]], "b": [[1, 1, 0]]}))
    kappa = one.filter(quantity="kappa").row(0, named=True)
    assert kappa["value"] is not None and kappa["lo"] is None
    assert kappa["reason"] == "one session: nothing can be said about another"
    every = agreeing.agreement(matches({"a": [[1, 1], [1]], "b": [[1, 1], [1]]})).filter(quantity="kappa")
    assert every["value"][0] is None and every["reason"][0] == "both models find every bird, or miss every bird"
    same = agreeing.agreement(matches({"a": [[1, 0], [1]], "b": [[1, 0], [1]]})).filter(quantity="kappa")
    assert same["value"][0] == 1 and same["lo"][0] is None and same["reason"][0]
    assert agreeing.agreement(matches({"a": [[1, 0]]})).is_empty()
    assert agreeing.agreement(schemas.empty("matches")).is_empty()


def test_union_and_pairs_fit_the_comparison_of_recall() -> None:
    table = matches(FOUND)
    pair = comparison.compare_recall(table, frames_of(table)).filter(model_a="label_id", model_b="wren")
    row = agreeing.agreement(table).filter(quantity="same_outcome", model_a="label_id", model_b="wren")
    assert row["n"][0] - row["k"][0] == pair["n_only_a"][0] + pair["n_only_b"][0]


# ---- speed and figures ----------------------------------------------------------------------------------------------


def speed(fps: dict[str, float | None], device: dict[str, str] | None = None) -> pl.DataFrame:
    rows = [
        {"model": m, "stage": "end_to_end", "fps": f, "device": (device or {}).get(m, "cpu")} for m, f in fps.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"fps": pl.Float64})


def test_the_front_by_hand() -> None:
    table = pl.DataFrame({"model": list("abcdef"), "metric": "recall", "value": [0.9, 0.8, 0.8, 0.5, None, 0.7]})
    got = ranking.speed_frame(table, speed({"a": 2, "b": 10, "c": 10, "d": 9, "e": 99}))
    assert got["pareto"].to_list() == [True, True, True, False, None, None]
    assert got["reason"].to_list() == [None, None, None, None, "no value", "nothing was timed"]
    mixed = ranking.speed_frame(table, speed({"a": 2, "b": 10}, {"b": "cuda"}))
    assert mixed["pareto"].null_count() == 6 and "different devices" in mixed["reason"][0]


def texts(figure: object) -> str:
    from matplotlib.text import Text

    return "\n".join(t.get_text() for t in figure.findobj(Text))  # type: ignore[attr-defined]


@pytest.mark.parametrize("narrow", [False, True])
def test_ranks_are_drawn_with_their_numbers(narrow: bool) -> None:
    from matplotlib import pyplot as plt

    from birdlab.figures.comparison import fig_ranks

    ap = pl.DataFrame({"model": MODELS, "metric": "ap", "value": [0.4, 0.3, None]})
    table = ranking.rank_table(counts(), values=ap)
    figure = fig_ranks(table, models=MODELS, narrow=narrow)
    words = texts(figure).replace("\n", " ")
    assert f"{100 * table['p_rank_1'][0]:.0f}" in words.split()
    assert "probability in %, from 4 sessions" in words and "ranked by value" in words
    seen = [p for axes in figure.axes for p in axes.patches if p.get_gid() == "seen"]
    assert len(seen) == 5  # three ranks of recall, two of AP
    plt.close(figure)
    one = fig_ranks(ranking.rank_table(counts({m: k[:1] for m, k in K.items()})), models=MODELS, narrow=narrow)
    assert "one session" in texts(one)
    plt.close(one)
    plt.close(fig_ranks(table.clear(), models=MODELS, narrow=narrow))


@pytest.mark.parametrize("narrow", [False, True])
def test_names_and_values_stay_inside_the_drawing(narrow: bool) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.text import Text

    from birdlab.figures.comparison import fig_ranks

    names = [f"a-model-with-a-long-name-{i}" for i in range(9)]
    table = ranking.rank_table(counts({m: [9 - i, 8, 9 - i] for i, m in enumerate(names)}, [10, 11, 12]))
    figure = fig_ranks(table, models=names, narrow=narrow)
    figure.canvas.draw()  # in matplotlib's own font, which is wider than birdlab's
    width = figure.get_size_inches()[0] * figure.dpi
    extents = [t.get_window_extent() for t in figure.findobj(Text) if t.get_text()]
    assert min(e.x0 for e in extents) >= 0 and max(e.x1 for e in extents) <= width
    plt.close(figure)


def test_numbers_can_be_read_on_every_shade() -> None:
    from matplotlib.colors import to_rgb

    from birdlab.figures.comparison import shade_of

    def light(colour: str) -> float:
        c = np.array(to_rgb(colour))
        return float(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])

    before = 1.0
    for p in np.linspace(0, 1, 201):
        shade, ink = shade_of(float(p))
        a, b = sorted((light(shade), light(ink)))
        assert (b + 0.05) / (a + 0.05) >= 4.5, p
        assert light(shade) <= before + 1e-9  # surer is darker
        before = light(shade)


@pytest.mark.parametrize("narrow", [False, True])
def test_speed_is_drawn_and_what_is_missing_is_named(narrow: bool) -> None:
    from matplotlib import pyplot as plt

    from birdlab.figures.comparison import fig_speed

    table = ranking.rank_table(counts())
    frame = ranking.speed_frame(table, speed({"heron": 3.0, "wren": 40.0, "jay": None}))
    figure = fig_speed(frame, models=MODELS, narrow=narrow)
    points = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid() in MODELS}
    assert sorted(points) == ["heron", "wren"]
    assert points["wren"].get_xydata().tolist() == [[40.0, table["value"][1]]]
    assert "No value or speed: jay" in texts(figure) and figure.axes[0].get_xscale() == "log"
    plt.close(figure)
    plt.close(fig_speed(frame.clear(), models=MODELS, narrow=narrow))
