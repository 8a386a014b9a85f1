"""Intervals and tests against statsmodels, stored reference values and what must always hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import stats

#: k, n and the 95 % Wilson interval of the difficulty reference cases (computed with R and statsmodels).
REFERENCE = [
    (468, 529, 0.8546538129042031, 0.9091756400456267),  # 01_balanced
    (130, 140, 0.8735102126286542, 0.9607416156261346),  # 06_single_session
    (450, 509, 0.85335463339937, 0.9090642258307806),  # 07_missing_values
    (529, 529, 0.9927906157505156, 1.0),  # 08_perfect_recall
    (512, 529, 0.9491411801816158, 0.9798405869195285),  # 10_rare_misses
]
SESSIONS = ([130, 115, 116, 107], [140, 133, 131, 125])  # 01_balanced


@pytest.mark.parametrize(("k", "n", "lo", "hi"), REFERENCE)
def test_wilson_equals_the_reference_values(k: int, n: int, lo: float, hi: float) -> None:
    assert stats.wilson(k, n) == pytest.approx((lo, hi), abs=1e-12)


@settings(deadline=None)
@given(n=st.integers(1, 2000), share=st.floats(0, 1))
def test_wilson_equals_statsmodels(n: int, share: float) -> None:
    from statsmodels.stats.proportion import proportion_confint

    k = round(share * n)
    assert stats.wilson(k, n) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-12)


def test_wilson_of_nothing_and_of_nonsense() -> None:
    assert stats.wilson(0, 0) is None
    assert stats.wilson(0, 3)[0] == 0.0 and stats.wilson(3, 3)[1] == 1.0
    with pytest.raises(ValueError, match="k must be"):
        stats.wilson(4, 3)


@pytest.mark.parametrize("seed", range(4))
def test_new_sessions_equals_a_clustered_logit_of_statsmodels(seed: int) -> None:
    import statsmodels.api as sm
    from scipy import stats as scipy_stats

    rng = np.random.default_rng(seed)
    n = rng.integers(20, 200, 4 + seed)
    k = rng.binomial(n, rng.uniform(0.6, 0.95, len(n)))
    y = np.concatenate([np.r_[np.ones(a), np.zeros(b - a)] for a, b in zip(k, n, strict=True)])
    session = np.repeat(np.arange(len(n)), n)
    # One parameter, so the tool's (N-1)/(N-K) is 1 and the correction left is G/(G-1).
    fit = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": session, "use_correction": True}
    )
    half = scipy_stats.t.ppf(0.975, len(n) - 1) * fit.bse[0]
    want = [1 / (1 + math.exp(-(fit.params[0] + s * half))) for s in (-1, 1)]
    got = stats.new_sessions(k, n)
    assert (got.lo, got.hi) == pytest.approx(want, abs=1e-9)
    assert got.n_clusters == len(n) and got.kind == "new_sessions" and got.reason is None


def test_new_sessions_by_hand() -> None:
    k, n = SESSIONS  # p = 468/529, e = k - p n, v = 4/3 Σe²/529², t(3) = 3.18245
    p = 468 / 529
    v = 4 / 3 * sum((a - p * b) ** 2 for a, b in zip(k, n, strict=True)) / 529**2
    half = 3.182446305284263 * math.sqrt(v) / (p * (1 - p))
    got = stats.new_sessions(k, n)
    assert got.lo == pytest.approx(1 / (1 + math.exp(-(math.log(p / (1 - p)) - half))), abs=1e-12)
    assert got.lo < p < got.hi


def test_one_session_says_nothing_about_another() -> None:
    got = stats.new_sessions([130, 0], [140, 0], unit="site")
    assert (got.lo, got.hi, got.n_clusters) == (None, None, 1)
    assert got.reason == "one site: nothing can be said about another"
    assert stats.new_sessions([], []).reason == "nothing was counted"


def test_no_miss_uses_the_number_of_clusters_and_says_so() -> None:
    within = stats.within_sessions([1] * 505, [1] * 505)
    assert (within.lo, within.hi) == pytest.approx(stats.wilson(505, 505))
    assert "505 clusters" in within.reason
    new = stats.new_sessions([140, 133, 131, 125], [140, 133, 131, 125])
    assert (new.lo, new.hi) == pytest.approx(stats.wilson(4, 4))
    assert "4 sessions" in new.reason


def test_within_sessions_is_wilson_with_fewer_birds() -> None:
    k, n = np.array([2, 0, 2, 1, 2, 2]), np.array([2, 2, 2, 1, 2, 2])
    p, total = 9 / 11, 11
    v = 6 / 5 * np.sum((k - p * n) ** 2) / total**2
    n_eff = min(total, p * (1 - p) / v * (1.959963984540054 / 2.570581835636314) ** 2)
    got = stats.within_sessions(k, n)
    assert (got.lo, got.hi) == pytest.approx(stats.wilson(p * n_eff, n_eff))
    assert stats.design_effect(k, n) == pytest.approx(v / (p * (1 - p) / total))
    assert n_eff < total and got.n_clusters == 6


def test_clusters_without_a_bird_are_left_out() -> None:
    assert stats.within_sessions([1, 0, 0], [2, 1, 0]) == stats.within_sessions([1, 0], [2, 1])


def test_independent_birds_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    k = rng.binomial(1, 0.8, 4000)
    n_eff = stats.n_effective(k, np.ones(4000))
    assert n_eff == pytest.approx(4000, rel=0.005)


@settings(deadline=None)
@given(
    clusters=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30),
    copies=st.integers(1, 3),
)
def test_intervals_hold_the_share_and_stay_in_bounds(clusters: list[tuple[int, int]], copies: int) -> None:
    k = [min(a, b) for a, b in clusters] * copies
    n = [b for _, b in clusters] * copies
    if not sum(n):
        return
    p = sum(k) / sum(n)
    for got in (stats.within_sessions(k, n), stats.new_sessions(k, n)):
        if got.lo is not None:
            assert 0 <= got.lo <= p + 1e-12 and p - 1e-12 <= got.hi <= 1


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_holm_equals_statsmodels(n: int) -> None:
    from statsmodels.stats.multitest import multipletests

    for p_values in (np.random.default_rng(n).random(n) ** 3, np.linspace(0, 0.2, n), np.full(n, 0.03)):
        assert stats.holm(p_values.tolist()) == pytest.approx(
            multipletests(p_values, method="holm")[1].tolist(), abs=1e-12
        )


def test_holm_of_no_tests() -> None:
    assert stats.holm([]) == []


def test_holm_leaves_tests_out_that_could_not_be_made() -> None:
    assert stats.holm([None, 0.02, None]) == [None, 0.02, None]


def test_paired_difference_equals_a_clustered_mean_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(5)
    session = np.repeat(np.arange(6), 30)
    d = rng.integers(-1, 2, 180) + rng.normal(0.2, 0.2, 6)[session]
    fit = sm.OLS(d, np.ones((180, 1))).fit(cov_type="cluster", cov_kwds={"groups": session}, use_t=True)
    total = np.bincount(session, d)
    got = stats.mean_difference(total, np.bincount(session))
    # statsmodels' t uses G-1 degrees of freedom for clusters as well
    assert got.p == pytest.approx(fit.pvalues[0], rel=1e-9)
    assert (got.lo, got.hi) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-9)


def test_paired_difference_without_clusters() -> None:
    assert stats.mean_difference([3], [10]).p is None
    assert stats.mean_difference([], []).reason == "nothing was counted"


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        stats.within_sessions([1, 2], [3])


def test_shares_that_are_alike_but_for_rounding_have_no_variance() -> None:
    k, n = [3, 6, 15], [11, 22, 55]
    assert stats.cluster_variance(k, n) == 0.0
    got = stats.new_sessions(k, n)
    assert got.reason is not None and "do not vary" in got.reason and got.hi - got.lo > 0.5
    assert stats.mean_difference(k, n).p is None
    assert stats.cluster_variance([499_999, 500_000], [1_000_000, 1_000_000]) > 0
