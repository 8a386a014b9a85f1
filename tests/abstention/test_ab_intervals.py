"""Intervals of the abstention measures: every fast form against copies of photographs evaluated one resample at a time."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from birdlab.abstention import quadratic, ratios
from birdlab.abstention.calibration import calibration
from birdlab.abstention.conventions import Conventions
from birdlab.abstention.curves import ig_curve, ua_a
from birdlab.abstention.differences import bootstrap_p, paired_differences, resamples_needed
from birdlab.abstention.events import Events, ig_events
from birdlab.abstention.resampling import cluster_codes, codes_for, count_clusters, interval, resamples
from birdlab.errors import DataError, ParameterError

RULES = ("mean", "trapz", "trapz_left")


def events_of(M: np.ndarray, m: np.ndarray, genus_right: np.ndarray, species_right: np.ndarray, w_g: float = 0.5):
    """Two events per photograph: root to genus at M, genus to species at m."""
    n, one = len(M), np.ones(len(M))
    return Events(
        score=np.concatenate([M, m]),
        item=np.tile(np.arange(n), 2),
        d_info=np.concatenate([w_g * one, (1 - w_g) * one]),
        d_right=np.concatenate([genus_right - 1.0, species_right.astype(float) - genus_right]),
        n=n,
    )


def made(seed: int, n: int, n_clusters: int, levels: int) -> dict[str, np.ndarray]:
    """Photographs with heavy ties (few levels of confidence)."""
    rng = np.random.default_rng(seed)
    m = rng.integers(1, levels + 1, n) / levels
    M = np.minimum(1, m + rng.integers(0, 3, n) / levels)
    return {
        "m": m,
        "M": M,
        "answerable": rng.random(n) < 0.7,
        "genus_right": rng.random(n) < 0.7,
        "species_right": rng.random(n) < 0.4,
        "codes": rng.integers(0, n_clusters, n),
    }


def copies(counts: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Rows of one resample: each photograph as often as its cluster was drawn."""
    return np.repeat(np.arange(len(codes)), counts[codes])


def naive_ua_a(u: np.ndarray, answerable: np.ndarray) -> float:
    a, ua = u[answerable], u[~answerable]
    if not len(a) or not len(ua):
        return float("nan")
    return float(np.mean((ua[:, None] > a) + 0.5 * (ua[:, None] == a)))


def naive_ig(M: np.ndarray, m: np.ndarray, genus_right: np.ndarray, species_right: np.ndarray, w_g: float) -> float:
    """Every threshold by itself: the deepest node that reaches it."""
    if not len(M):
        return float("nan")
    x, y = [0.0], [1.0]
    for t in np.unique(np.concatenate([M, m]))[::-1]:
        species, genus = m >= t, M >= t
        x.append(float(np.mean(np.where(species, 1, np.where(genus, w_g, 0)))))
        y.append(float(np.mean(np.where(species, species_right, np.where(genus, genus_right, 1)))))
    return float(np.trapezoid(y, x))


def naive_acc(u: np.ndarray, right: np.ndarray) -> list[Fraction]:
    """acc(k), tied photographs at their group's mean."""
    out, n0, c0 = [], 0, Fraction(0)
    for t in np.unique(u):
        group = right[u == t]
        p = Fraction(int(group.sum()), len(group))
        out += [(c0 + j * p) / (n0 + j) for j in range(1, len(group) + 1)]
        n0, c0 = n0 + len(group), c0 + int(group.sum())
    return out


def naive_calibration(u: np.ndarray, right: np.ndarray, rule: str) -> float:
    acc = naive_acc(u, right)
    n = len(acc)
    if n == 0:
        return float("nan")
    if rule == "mean" or n == 1:
        return float(sum(acc) / n)
    inside = sum((a + b) / 2 for a, b in itertools.pairwise(acc))
    return float(inside / (n - 1)) if rule == "trapz" else float((acc[0] + inside) / n)


def naive_augrc(u: np.ndarray, right: np.ndarray) -> float:
    """Trapezoids over coverage 0..1 of the joint share of wrong and kept."""
    joint = [Fraction(0)] + [k * (1 - a) for k, a in enumerate(naive_acc(u, right), 1)]
    n = len(joint) - 1
    return float(sum((a + b) / 2 for a, b in itertools.pairwise(joint)) / n**2) if n else float("nan")


def check(made: dict[str, np.ndarray], counts: np.ndarray, w_g: float = 0.5) -> None:
    """All measures against the loop over resamples."""
    u, codes = 1 - made["m"], made["codes"]
    columns = [made[name] for name in ("M", "m", "genus_right", "species_right")]
    got = {
        "ua_a": quadratic.ua_a_values(u, made["answerable"], codes, counts),
        "ig": quadratic.ig_values(events_of(*columns, w_g), codes, counts),
        "augrc": quadratic.augrc_values(u, made["species_right"], codes, counts),
        "mean": ratios.mean_values(made["species_right"], codes, counts),
        "aurc": ratios.aurc_values(u, made["species_right"], codes, counts),
        **{
            rule + "_rule": ratios.calibration_values(u, made["species_right"], codes, counts, rule=rule)
            for rule in RULES
        },
    }
    for r, row in enumerate(counts):
        i = copies(row, codes)
        right = made["species_right"][i]
        want = {
            "ua_a": naive_ua_a(u[i], made["answerable"][i]),
            "ig": naive_ig(*(c[i] for c in columns), w_g),
            "augrc": naive_augrc(u[i], right),
            "mean": right.mean() if len(i) else np.nan,
            "aurc": 1 - naive_calibration(u[i], right, "mean"),
            **{rule + "_rule": naive_calibration(u[i], right, rule) for rule in RULES},
        }
        for name, value in want.items():
            np.testing.assert_allclose(got[name][r], value, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("levels", "w_g"), [(1, 0.5), (3, 0.5), (7, 0.617), (10**6, 0.617)])
def test_every_resample_equals_copies_of_photographs(levels: int, w_g: float) -> None:
    check(made(levels, 150, 12, levels), resamples(12, 40, seed=5), w_g)


@pytest.mark.parametrize("chunk", [1, 20_000])
def test_many_clusters_and_small_chunks_give_the_same(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(quadratic, "CHUNK_BYTES", chunk)
    data, counts = made(3, 120, 30, 6), resamples(30, 25, seed=2)
    check(data, counts, 0.617)
    monkeypatch.setattr(quadratic, "MAX_CLUSTERS", 5)
    check(data, counts, 0.617)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 25),
    n_clusters=st.integers(1, 6),
    levels=st.sampled_from([1, 2, 4, 1000]),
    limit=st.sampled_from([2000, 0]),
)
def test_small_studies_of_any_kind(seed: int, n: int, n_clusters: int, levels: int, limit: int) -> None:
    before, quadratic.MAX_CLUSTERS = quadratic.MAX_CLUSTERS, limit
    try:
        check(made(seed, n, n_clusters, levels), resamples(n_clusters, 5, seed))
    finally:
        quadratic.MAX_CLUSTERS = before


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), levels=st.sampled_from([2, 5, 1000]))
def test_row_order_changes_nothing(seed: int, levels: int) -> None:
    data, counts = made(seed, 60, 7, levels), resamples(7, 10, seed)
    order = np.random.default_rng(seed).permutation(60)
    moved = {name: column[order] for name, column in data.items()}

    def values(d: dict[str, np.ndarray]) -> list[np.ndarray]:
        events = events_of(d["M"], d["m"], d["genus_right"], d["species_right"])
        return [
            quadratic.ua_a_values(1 - d["m"], d["answerable"], d["codes"], counts),
            quadratic.ig_values(events, d["codes"], counts),
            ratios.calibration_values(1 - d["m"], d["species_right"], d["codes"], counts),
        ]

    for a, b in zip(values(data), values(moved), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def columns_of(data: dict[str, np.ndarray]) -> pl.DataFrame:
    """The same photographs as per-image columns, with lists of nodes and some that are never named."""
    n = len(data["m"])
    named = np.random.default_rng(n).random(n) < 0.9
    rows = zip(data["M"], data["m"], data["genus_right"], data["species_right"], data["answerable"], named, strict=True)
    return pl.DataFrame(
        [
            {
                **{"item_id": f"i{i}", "genus": "G", "is_answerable": a, "max_genus": M, "genus_right": bool(g)},
                **{"top_genus": "G" if g else "H", "top_species": "G s" if known else None},
                **{"max_species": m if known else None, "species_right": bool(s) if a else None},
                **{
                    "top_species_top_down": "G s",
                    "max_species_top_down": m * 0.9,
                    "species_right_top_down": bool(s and g) if a else None,
                },
                **{"leaf_p": [M, m], "leaf_info": [0.6, 1.0], "leaf_right": [bool(g), bool(s)]},
                **{"top_genus_n": 3, "within_genus_n": 3, "n_species": 12, "n_genera": 4},
            }
            for i, (M, m, g, s, a, known) in enumerate(rows)
        ],
        schema_overrides={
            "species_right": pl.Boolean,
            "is_answerable": pl.Boolean,
            "max_species": pl.Float64,
            "top_species": pl.String,
        },
    )


@pytest.mark.parametrize("ua", ["exclude", "genus_ok", "overspecific_wrong", "truncate"])
@pytest.mark.parametrize("decision", ["threshold", "darts", "darts_all"])
@pytest.mark.parametrize(("info", "path"), [("depth", "independent"), ("depth", "top_down"), ("leaf", "independent")])
def test_every_convention_equals_the_curve_of_copied_rows(info: str, path: str, decision: str, ua: str) -> None:
    data, counts = made(8, 90, 8, 6), resamples(8, 6, seed=4)
    columns, conventions = columns_of(data), Conventions(info=info, path=path, decision=decision, ua=ua)
    events = ig_events(columns, conventions)
    whole = quadratic.ig_values(events, data["codes"][events.rows], np.ones((1, 8), dtype=np.int32))
    assert whole[0] == pytest.approx(ig_curve(events).area, abs=1e-12)
    got = quadratic.ig_values(events, data["codes"][events.rows], counts)
    want = [ig_curve(ig_events(columns[copies(row, data["codes"])], conventions)).area for row in counts]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_without_drawing_the_values_are_those_of_the_curves() -> None:
    data, one = made(5, 300, 20, 9), np.ones((1, 20), dtype=np.int32)
    u, right, codes = 1 - data["m"], data["species_right"], data["codes"]
    assert quadratic.ua_a_values(u, data["answerable"], codes, one)[0] == ua_a(u, data["answerable"]).area
    shares = right * 0.7
    for rule in RULES:
        for r in (right, shares):
            want = calibration(u, r, rule=rule).area
            assert ratios.calibration_values(u, r, codes, one, rule=rule)[0] == pytest.approx(want, abs=1e-12)
    curve = calibration(u, right)
    assert ratios.aurc_values(u, right, codes, one)[0] == pytest.approx(curve.aurc, abs=1e-12)
    assert quadratic.augrc_values(u, right, codes, one)[0] == pytest.approx(curve.augrc, abs=1e-12)


def test_kernel_of_pairs_by_hand_and_its_sums() -> None:
    u, answerable, codes = (
        np.array([0.1, 0.5, 0.5, 0.9, 0.5]),
        np.array([1, 1, 0, 0, 1], bool),
        np.array([0, 1, 0, 1, 2]),
    )
    U = quadratic.ua_a_kernel(u, answerable, codes, 3)
    assert U.tolist() == [[1.0, 0.5, 0.5], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    # A row is what its UA win against all A, a column what its A lose to all UA.
    assert U.sum(axis=1).tolist() == [2.0, 3.0, 0.0]
    assert U.sum() / 6 == roc_auc_score(~answerable, u)
    data = made(1, 400, 9, 5)
    U = quadratic.ua_a_kernel(1 - data["m"], data["answerable"], data["codes"], 9)
    assert (U * 2 == np.round(U * 2)).all()
    area = U.sum() / ((~data["answerable"]).sum() * data["answerable"].sum())
    assert area == pytest.approx(roc_auc_score(~data["answerable"], 1 - data["m"]), abs=1e-15)


def test_kernel_of_information_by_hand_and_its_sums() -> None:
    M, m = np.array([0.9, 0.6]), np.array([0.8, 0.3])
    events = events_of(M, m, np.array([1, 1]), np.array([1, 0]))
    Q = quadratic.ig_kernel(events, [0, 1], 2)
    assert Q.tolist() == [[1.0, 1.0], [1.0, 0.75]]
    assert Q.sum() / 4 == float(Fraction(15, 16))
    both = events_of(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([1, 1]), np.array([1, 0]))
    assert quadratic.ig_kernel(both, [0, 0], 1).tolist() == [[3.0]]  # IG 3/4: one point for the tied four
    right = events_of(M, m, np.array([1, 1]), np.array([1, 1]))
    # All right: each row sums to the cluster's information times all photographs.
    assert quadratic.ig_kernel(right, [0, 1], 2).sum(axis=1).tolist() == [2.0, 2.0]


def test_nothing_is_ever_named() -> None:
    none = Events(np.zeros(0), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), n=3)
    assert quadratic.ig_values(none, [0, 0, 1], resamples(2, 3, 1)).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(quadratic.ig_values(replace(none, n=0), [], resamples(2, 3, 1))).all()


def test_perfect_inverted_and_constant_in_every_resample() -> None:
    counts, codes = resamples(4, 20, 1), np.arange(8) % 4
    answerable = np.arange(8) < 4
    for u, want in ((1.0 - answerable, 1.0), (answerable * 1.0, 0.0), (np.full(8, 0.3), 0.5)):
        assert set(quadratic.ua_a_values(u, answerable, codes, counts)) == {want}
    abstains = np.where(answerable, 0.2, np.inf)
    assert set(quadratic.ua_a_values(abstains, answerable, codes, counts)) == {1.0}


def test_notes_fixtures_of_calibration() -> None:
    one, u = np.array([[1]]), np.array([0.1, 0.2, 0.8, 0.9])
    right = np.array([1, 1, 0, 0], bool)
    for rule, want in (("mean", Fraction(19, 24)), ("trapz", Fraction(29, 36)), ("trapz_left", Fraction(41, 48))):
        assert ratios.calibration_values(u, right, np.zeros(4), one, rule=rule)[0] == pytest.approx(
            float(want), abs=1e-15
        )
    assert ratios.calibration_values(np.ones(4), right, np.zeros(4), one)[0] == 0.5
    tied = ratios.calibration_values([0.1, 0.5, 0.5, 0.9], right, np.zeros(4), one)
    assert tied[0] == pytest.approx(float(Fraction(35, 48)), abs=1e-15)
    assert quadratic.augrc_values(u, right, np.zeros(4), one)[0] == 0.125


def test_resamples_without_unanswerable_are_skipped_and_counted() -> None:
    # Unanswerable photographs in one cluster of twelve only: about exp(-1) of the draws miss it.
    codes, answerable = np.arange(24) % 12, np.arange(24) != 12
    counts = resamples(12, 1000, seed=3)
    values = quadratic.ua_a_values(np.random.default_rng(0).random(24), answerable, codes, counts)
    missed = int((counts[:, 0] == 0).sum())
    assert np.isnan(values).sum() == missed > 300
    assert count_clusters(codes) == 12 and count_clusters(codes, answerable, ~answerable) == 1
    got = interval(values, n_clusters=12)
    assert (got.n_used, got.n_skipped) == (1000 - missed, missed)
    assert got.reason == f"{missed} of 1,000 resamples have no value"
    want = np.quantile([v for v in values if v == v], [0.025, 0.975])
    assert (got.lo, got.hi) == pytest.approx(tuple(want), abs=1e-15)


@pytest.mark.parametrize(
    ("values", "n_clusters", "reason"),
    [
        ([0.4, 0.5] * 100, 0, "nothing was counted"),
        ([0.4, 0.5] * 100, 1, "one cluster: nothing can be said about another"),
        ([np.nan] * 100, 20, "no resample has a value"),
        ([], 20, "no resample has a value"),
        ([0.5, 0.6] * 10, 20, "only 20 usable resamples: too few for 95%"),
        ([1.0] * 100, 20, "every resample gives the same value"),
    ],
)
def test_no_interval_has_a_reason(values: list[float], n_clusters: int, reason: str) -> None:
    got = interval(values, n_clusters=n_clusters)
    assert (got.lo, got.hi, got.reason) == (None, None, reason)
    assert got.n_used + got.n_skipped == len(values)


def test_few_clusters_have_an_interval_and_a_warning() -> None:
    values = np.linspace(0, 1, 1001)
    assert interval(values, n_clusters=9)[:2] == pytest.approx((0.025, 0.975))
    assert interval(values, n_clusters=9).reason == "few clusters (9): the interval is too narrow"
    assert interval(values, n_clusters=10).reason is None
    assert interval([0.0, 1.0] * 20, n_clusters=10).lo == 0.0  # 40 resamples: one in each tail of 2.5 %


def test_draws_are_multinomial_and_repeat_by_seed() -> None:
    counts = resamples(50, 4000, seed=11)
    assert counts.dtype == np.int32 and counts.shape == (4000, 50)
    assert (counts.sum(axis=1) == 50).all() and (counts >= 0).all()
    assert (counts == resamples(50, 4000, seed=11)).all() and (counts != resamples(50, 4000, seed=12)).any()
    assert (counts[:1000] == resamples(50, 1000, seed=11)).all()
    assert counts.var() == pytest.approx(49 / 50, rel=0.02)  # n p (1 - p)
    assert np.corrcoef(counts[:, 0], counts[:, 1])[0, 1] == pytest.approx(-1 / 49, abs=0.05)
    assert resamples(0, 3, 1).shape == (3, 0)
    for bad in ((-1, 10), (3, 0)):
        with pytest.raises(ParameterError):
            resamples(*bad, seed=1)


ITEMS = pl.DataFrame(
    {
        "item_id": ["a", "b", "c", "d", "e"],
        "genus": ["Larus", "Corvus", "Larus", "Corvus", "Larus"],
        "species": ["Larus canus", None, None, "Corvus corax", None],
        "observer_id": ["o2", None, "o1", None, "o2"],
        "observation_id": [None] * 5,
    },
    schema_overrides={"observation_id": pl.String},
)


def test_clusters_by_every_unit() -> None:
    genus = cluster_codes(ITEMS, "genus")
    assert (genus.codes.tolist(), genus.names, genus.note) == ([1, 0, 1, 0, 1], ["Corvus", "Larus"], None)
    species = cluster_codes(ITEMS, "species")
    assert [species.names[c] for c in species.codes] == [
        *("Larus canus", "Corvus (no species)", "Larus (no species)", "Corvus corax", "Larus (no species)")
    ]
    assert species.note == "photographs without a species: 3, one cluster per genus" and species.n_without_id == 0
    observer = cluster_codes(ITEMS, "observer")
    assert (observer.names, observer.n_without_id) == (["o1", "o2", "item b", "item d"], 2)
    assert observer.codes.tolist() == [1, 2, 0, 3, 1]
    observation = cluster_codes(ITEMS, "observation")
    assert (observation.n, observation.n_without_id) == (5, 5)
    assert cluster_codes(ITEMS, "item").codes.tolist() == [0, 1, 2, 3, 4]
    assert cluster_codes(ITEMS.head(0), "genus").n == 0


def test_an_id_that_reads_like_a_nameless_item_stays_apart() -> None:
    items = pl.DataFrame({"item_id": ["a", "b"], "genus": ["item b", None]})
    assert cluster_codes(items, "genus").codes.tolist() == [0, 1]


def test_clusters_do_not_depend_on_row_order() -> None:
    for by in ("genus", "species", "observer", "item"):
        clusters, moved = cluster_codes(ITEMS, by), ITEMS[[3, 0, 4, 2, 1]]
        assert cluster_codes(moved, by).names == clusters.names
        assert codes_for(moved["item_id"], ITEMS, clusters).tolist() == cluster_codes(moved, by).codes.tolist()


def test_missing_columns_and_ids_are_named_all_at_once() -> None:
    with pytest.raises(ParameterError, match="observer_id"):
        cluster_codes(ITEMS.drop("observer_id"), "observer")
    with pytest.raises(ParameterError, match="genus, species, observer"):
        cluster_codes(ITEMS, "family")
    clusters = cluster_codes(ITEMS, "genus")
    with pytest.raises(DataError) as caught:
        codes_for(pl.Series(["a", "x", "y"]), ITEMS, clusters)
    assert [p.found for p in caught.value.problems] == ["'x'", "'y'"]
    twice = pl.concat([ITEMS, ITEMS.head(1)])
    with pytest.raises(DataError, match="'a' twice"):
        codes_for(pl.Series(["b"]), twice, cluster_codes(twice, "genus"))


def test_nan_and_wrong_lengths_are_refused() -> None:
    counts, answerable = resamples(2, 3, 1), np.array([True, False])
    for u, codes in (
        ([0.1, np.nan], [0, 1]),
        ([0.1], [0, 1]),
        ([0.1, 0.2], [0]),
        ([0.1, 0.2], [0, 2]),
        ([0.1, 0.2], [-1, 0]),
    ):
        with pytest.raises(ValueError, match=r"NaN|length|codes"):
            quadratic.ua_a_values(u, answerable, codes, counts)
    for u, codes in (([0.1, np.nan], [0, 1]), ([0.1], [0, 1])):
        with pytest.raises(ValueError, match=r"NaN|length"):
            ratios.calibration_values(u, answerable, codes, counts)


def test_paired_differences_by_hand() -> None:
    rng = np.random.default_rng(4)
    shared = rng.normal(0, 0.05, 999)
    values = {"a": 0.7 + shared, "b": 0.6 + shared + rng.normal(0, 0.01, 999), "c": 0.6 + rng.normal(0, 0.2, 999)}
    values["c"][:9] = np.nan
    points = {"a": 0.7, "b": 0.6, "c": 0.6}
    rows = {(r["model_a"], r["model_b"]): r for r in paired_differences(values, points, n_clusters=30).to_dicts()}
    assert list(rows) == [("a", "b"), ("a", "c"), ("b", "c")]
    ab, ac = rows["a", "b"], rows["a", "c"]
    d = values["a"] - values["b"]
    assert ab["difference"] == pytest.approx(0.1) and (d > 0).all()
    assert (ab["lo"], ab["hi"]) == pytest.approx(tuple(np.quantile(d, [0.025, 0.975])))
    # Smallest p that 999 resamples allow, 2 / 1000, times three pairs.
    assert (ab["p"], ab["p_holm"], ab["confirmed"], ab["family"]) == (0.002, pytest.approx(0.006), True, 3)
    assert (ac["n_used"], ac["n_skipped"], ac["confirmed"]) == (990, 9, False)
    d = (values["a"] - values["c"])[9:]
    assert ac["p"] == 2 * (1 + min((d <= 0).sum(), (d >= 0).sum())) / 991
    # Overlapping intervals of the two models, and yet a clear difference: pairing is what shows it.
    a, b = (interval(values[m], n_clusters=30) for m in "ab")
    assert a.lo < b.hi


def test_differences_that_cannot_be_tested() -> None:
    same = np.linspace(0, 1, 999)
    rows = paired_differences({"a": same, "b": same}, {"a": 0.5, "b": 0.5}, n_clusters=30).row(0, named=True)
    assert (rows["difference"], rows["p"], rows["family"]) == (0.0, None, 0)
    assert rows["reason"] == "the difference is the same in every resample" and rows["confirmed"] is False
    clear = {"a": same + 2, "b": same[::-1]}
    row = paired_differences(clear, {"a": 2.5, "b": None}, n_clusters=30).row(0, named=True)
    assert (row["difference"], row["p"], row["reason"]) == (None, None, "undefined for one of the models")
    row = paired_differences(clear, {"a": 2.5, "b": 0.5}, n_clusters=1).row(0, named=True)
    assert (row["difference"], row["lo"], row["p"]) == (2.0, None, None) and "one cluster" in row["reason"]
    row = paired_differences(clear, {"a": 2.5, "b": 0.5}, n_clusters=9).row(0, named=True)
    assert row["p_holm"] < 0.05 and row["confirmed"] is False and "few clusters" in row["reason"]
    assert paired_differences({"a": same}, {"a": 0.5}, n_clusters=30).is_empty()
    with pytest.raises(ParameterError) as caught:
        paired_differences({"a": same, "b": same[1:]}, {"a": 0.5}, n_clusters=30)
    assert [p.code for p in caught.value.problems] == ["models_differ", "resamples_differ"]


@pytest.mark.parametrize("n_models", [2, 3, 8, 20])
def test_resamples_needed_is_the_least_that_can_confirm(n_models: int) -> None:
    r = resamples_needed(n_models)
    pairs = n_models * (n_models - 1) // 2
    assert bootstrap_p(np.ones(r)) * pairs < 0.05 - 1e-12
    assert bootstrap_p(np.ones(r - 1)) * pairs >= 0.05 - 1e-12


def test_too_few_resamples_for_the_family_is_said() -> None:
    rng = np.random.default_rng(1)
    names = [f"m{i}" for i in range(8)]
    values = {name: i + rng.normal(0, 0.01, 1000) for i, name in enumerate(names)}
    table = paired_differences(values, {n: float(i) for i, n in enumerate(names)}, n_clusters=50)
    assert table["confirmed"].sum() == 0 and (table["family"] == 28).all()
    assert set(table["reason"]) == {"1,000 resamples are too few to confirm one of 28 pairs"}
