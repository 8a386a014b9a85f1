"""The joint model: reference values of R and statsmodels, independent implementations, and what must be refused."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from difficulty_cases import FACTORS, SLOPES, dense_penalised_loglik, made
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from birdlab import schemas
from birdlab.difficulty import checks, design, ladder, logit, printed, profile, published, quality, robust, status
from birdlab.difficulty.model import DifficultyModel, analyse
from birdlab.errors import DataError, ParameterError

DATA = Path(__file__).parent / "data" / "difficulty"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
FITTED = [name for name, e in EXPECTED.items() if "firth" in e]
#: What the reference's own agreement allows (brglm2 and firthmodels differ by that much).
FIRTH_TOLERANCE = {"10_rare_misses_17_of_529": 1e-5, "11_complete_separation_by_clutter": 1e-4}


def case(name: str) -> pl.DataFrame:
    return pl.read_csv(DATA / f"{name}.csv")


@cache
def analysed(name: str) -> DifficultyModel:
    return analyse(case(name))


def column(name: str, key: str) -> dict[str, float | None]:
    return dict(analysed(name).coefficients.select("factor", key).iter_rows())


def row(model: DifficultyModel) -> dict:
    return model.summary.row(0, named=True)


# Reference values


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_and_checks_are_the_reference_ones(name: str) -> None:
    e, model = EXPECTED[name], analysed(name)
    one = row(model)
    assert (one["n_total"], one["n"], one["n_misses"]) == (e["rows_total"], e["rows_used"], e["misses"])
    assert one["recall"] == pytest.approx(e["recall"], abs=1e-12)
    assert one["informative_sessions"] == e["sessions_informative"]
    assert one["events_per_variable"] == pytest.approx(e["epv"], abs=1e-3)
    vif = dict(model.vif.select("factor", "vif_with_sessions").iter_rows())
    assert vif == pytest.approx(e["vif_with_session_dummies"], abs=1e-9)
    sheet = {r["factor"]: r for r in model.sheet.iter_rows(named=True)}
    for factor, ratio in e["within_session_sd_over_sd"].items():
        assert sheet[factor]["within_ratio"] == pytest.approx(ratio, abs=1e-9)
    for factor in e["terms"]:
        assert sheet[factor]["mean"] == pytest.approx(e["zscore"]["mean"][factor], abs=1e-9)
        assert sheet[factor]["sd"] == pytest.approx(e["zscore"]["sd"][factor], abs=1e-9)
    missing = model.checks.filter(check="missing").select("term", "value")
    assert dict(missing.iter_rows()) == e["missing"]


@pytest.mark.parametrize("name", FITTED)
def test_firth_is_that_of_brglm2(name: str) -> None:
    tolerance = FIRTH_TOLERANCE.get(name, 1e-6)
    for key, mine in (("coef", "firth"), ("se", "firth_se")):
        for factor, value in EXPECTED[name]["firth"][key].items():
            assert column(name, mine)[factor] == pytest.approx(value, abs=tolerance), (mine, factor)


@pytest.mark.parametrize("name", FITTED)
def test_profile_intervals_are_the_reference_ones(name: str) -> None:
    lo, hi = column(name, "firth_lo"), column(name, "firth_hi")
    tolerance = FIRTH_TOLERANCE.get(name, 1e-6)
    for factor, (low, high) in EXPECTED[name]["firth"]["profile_ci95_firthmodels"].items():
        if low >= high:  # case 11, crowding: both ends of the reference are one point, on one side of the estimate
            assert (name[:2], factor) == ("11", "crowding")
            assert lo[factor] < column(name, "firth")[factor] < hi[factor]
            continue
        assert (lo[factor], hi[factor]) == pytest.approx((low, high), abs=tolerance), factor


@pytest.mark.parametrize("name", [n for n in EXPECTED if "mle" in EXPECTED[n]])
def test_maximum_likelihood_and_marginal_effects_are_those_of_r_and_statsmodels(name: str) -> None:
    e = EXPECTED[name]
    for key, mine in (("coef", "mle"), ("se", "mle_se")):
        for factor, value in e["mle"][key].items():
            assert column(name, mine)[factor] == pytest.approx(value, abs=1e-8), (mine, factor)
    assert set(filter(None, column(name, "n_mle").values())) == {e["mle"]["n_rows"]}
    for key, mine in (("ame", "ame"), ("se", "ame_se")):
        for factor, value in e.get("ame", {}).get(key, {}).items():
            assert column(name, mine)[factor] == pytest.approx(value, abs=1e-8), (mine, factor)


@pytest.mark.parametrize("name", [n for n in EXPECTED if "cr2_session" in EXPECTED[n]])
def test_cluster_errors_are_those_of_sandwich_and_clubsandwich(name: str) -> None:
    e = EXPECTED[name]
    assert column(name, "se_session") == pytest.approx(e["se_cluster_session"]["se"], abs=1e-8)
    assert column(name, "se_frame") == pytest.approx(e["se_cluster_frame"]["se"], abs=1e-8)
    for key, mine in (("se", "se_cr2"), ("df", "cr2_df"), ("p", "cr2_p")):
        want = {factor: values[key] for factor, values in e["cr2_session"]["rows"].items()}
        assert column(name, mine) == pytest.approx(want, abs=1e-7), key


@pytest.mark.parametrize("name", [n for n in EXPECTED if n[:2] != "08"])
def test_infinite_terms_are_the_reference_ones(name: str) -> None:
    terms = EXPECTED[name]["infinite_terms"]["terms"]
    separated = row(analysed(name))["separated"]
    assert separated == ([*FACTORS, "s2", "s3", "s4", "intercept"] if terms == "all" else terms)


# What each case must show


def test_balanced_data_carry_no_flag() -> None:
    model = analysed("01_balanced")
    assert set(column("01_balanced", "status").values()) == {"ok"}
    assert model.checks.filter(~pl.col("is_fine"))["check"].to_list() == ["sessions"]
    mle, firth = column("01_balanced", "mle"), column("01_balanced", "firth")
    assert max(abs(mle[f] - firth[f]) for f in FACTORS) < 0.05


def test_a_session_recovered_completely_is_named_and_set_aside() -> None:
    model = analysed("02_session_all_recovered")
    said = model.checks.filter(check="informative sessions")["message"].to_list()
    assert said == ["session s3 carries no information on slopes: all of its 131 birds recovered"]
    assert (row(model)["n_mle"], row(model)["n_total"]) == (398, 529)
    numbers = model.coefficients.select(pl.selectors.contains("se") & pl.selectors.float()).to_numpy()
    assert np.nanmax(numbers.astype(float)) < 50


def test_quasi_separation_has_no_finite_estimate_but_a_penalised_one() -> None:
    got = analysed("03_quasi_separation_by_crowding").coefficients.filter(factor="crowding").row(0, named=True)
    assert (got["status"], got["mle"], got["mle_se"], got["ame"]) == ("infinite_pos", None, None, None)
    assert got["firth"] == pytest.approx(0.701393396)
    assert "+infinity" in got["reason"]


def test_a_constant_factor_keeps_its_row() -> None:
    got = analysed("04_constant_factor").coefficients.filter(factor="crowding").row(0, named=True)
    assert (got["status"], got["reason"], got["firth"]) == ("constant", "1 distinct value", None)


def test_one_session_has_no_cluster_error_and_says_so() -> None:
    model = analysed("06_single_session")
    nothing = model.coefficients.select("se_session", "se_cr2", "loso_lo", "loso_hi")
    assert nothing.null_count().row(0) == (6, 6, 6, 6)
    assert model.coefficients["se_frame"].null_count() == 0
    said = " ".join(model.checks["message"])
    assert "its effect cannot be separated" in said and "1.7 birds of the rarer outcome per parameter" in said


def test_perfect_recall_has_no_coefficient_and_a_reason() -> None:
    model = analysed("08_perfect_recall")
    assert not row(model)["is_fitted"] and "529 of 529 recovered" in row(model)["reason"]
    assert set(model.coefficients["status"]) == {"not_fitted"}
    assert model.coefficients.select("firth", "mle", "ame").null_count().row(0) == (6, 6, 6)
    assert model.missed.is_empty() and model.ladder.is_empty() and model.calibration.is_empty()


def test_rare_misses_are_never_bold_and_have_both_units() -> None:
    model = analysed("10_rare_misses_17_of_529")
    brightness = model.coefficients.filter(factor="brightness").row(0, named=True)
    assert set(column("10_rare_misses_17_of_529", "status").values()) == {"unstable"}
    assert not model.coefficients["is_bold"].any()
    assert brightness["vif"] > 20
    assert brightness["mle_within"] == pytest.approx(-5.411135 * 0.1116065, abs=1e-5)
    assert brightness["loso_hi_without"] == "s4" and brightness["loso_hi"] == pytest.approx(-0.36, abs=0.01)
    assert "without session s4" in brightness["reason"]
    assert any("9.0 SDs within a session" in m for m in model.checks["message"])


def test_complete_separation_names_the_factor_that_separates_alone() -> None:
    model = analysed("11_complete_separation_by_clutter")
    one = row(model)
    assert one["is_complete_separation"] and one["n_mle"] == 0
    assert [text.split()[0] for text in one["separates_alone"]] == ["clutter"]
    assert model.coefficients["mle"].null_count() == 6
    assert column("11_complete_separation_by_clutter", "status")["clutter"] == "infinite_neg"


# Cases the reference set does not hold


def test_exact_collinearity_names_the_later_column() -> None:
    frame = made().with_columns(contrast=2 - 3 * pl.col("brightness") + 0.5 * pl.col("rel_size"))
    got = analyse(frame).coefficients.filter(factor="contrast").row(0, named=True)
    assert (got["status"], got["reason"]) == ("aliased", "an exact combination of rel_size, brightness")
    others = analyse(frame, [f for f in FACTORS if f != "contrast"]).coefficients
    same = analyse(frame).coefficients.filter(pl.col("factor") != "contrast")
    assert same["firth"].to_numpy() == pytest.approx(others["firth"].to_numpy(), abs=1e-9)


def test_a_factor_that_varies_only_between_sessions_is_aliased_with_them() -> None:
    frame = made().with_columns(blur=pl.col("session").rank("dense").cast(pl.Float64))
    got = analyse(frame).coefficients.filter(factor="blur").row(0, named=True)
    assert got["status"] == "aliased" and "only between sessions" in got["reason"]


def test_one_miss_is_not_fitted_and_named() -> None:
    frame = made(n=200).with_columns(recovered=pl.when(pl.col("instance") == 17).then(0).otherwise(1))
    model = analyse(frame)
    assert "0.11 events per variable (1 missed of 200)" in row(model)["reason"]
    assert model.missed["instance"].to_list() == [17]
    assert model.missed["probability"].to_list() == [None]


def test_one_informative_session_of_four() -> None:
    frame = made(n=600, seed=5).with_columns(
        recovered=pl.when(pl.col("session") == "s01").then(pl.col("recovered")).otherwise(pl.col("session") != "s02")
    )
    model = analyse(frame)
    assert row(model)["informative_sessions"] == ["s01"]
    assert row(model)["separated"] == ["s02", "s03", "s04"]
    assert dict(model.checks.filter(check="separation").select("term", "value").iter_rows())["s02"] == -1
    units = frame.select((pl.col(f) - pl.col(f).mean()) / pl.col(f).std(ddof=0) for f in FACTORS)
    alone = frame.with_columns(units).filter(pl.col("session") == "s01")
    fit = logit.maximum_likelihood(
        logit.Sample(alone.select(FACTORS).to_numpy(), alone["recovered"].to_numpy(), np.zeros(alone.height, int))
    )
    assert model.coefficients["mle"].to_numpy() == pytest.approx(fit.beta, abs=1e-8)


@pytest.mark.parametrize("value", [0, 1])
def test_one_outcome_only_is_reported(value: int) -> None:
    model = analyse(made(n=60).with_columns(recovered=pl.lit(value)))
    assert set(model.coefficients["status"]) == {"not_fitted"}
    assert ("every bird was missed" if value == 0 else "no bird was missed") in row(model)["reason"]
    assert model.missed.height == (60 if value == 0 else 0)


@pytest.mark.parametrize("n", [0, 1])
def test_no_bird_and_one_bird_are_reported(n: int) -> None:
    model = analyse(made(n=60).head(n))
    assert row(model)["n"] == n and row(model)["reason"]
    assert model.coefficients.height == 6


def test_no_model_gives_tables_without_rows() -> None:
    model = analyse(two_models().clear())
    assert (model.summary.height, model.coefficients.height, model.missed.height) == (0, 0, 0)
    assert model.sheet["factor"].to_list() == list(FACTORS)


def test_a_factor_unknown_everywhere_is_left_out_and_the_others_are_fitted() -> None:
    frame = made().with_columns(blur=pl.lit(None, pl.Float64))
    model = analyse(frame)
    assert row(model)["n"] == 400
    status_of = dict(model.coefficients.select("factor", "status").iter_rows())
    assert (status_of["blur"], status_of["contrast"]) == ("not_fitted", "ok")


def test_session_names_with_spaces_and_umlauts() -> None:
    frame = made().with_columns(session=pl.lit("Nest Süd ") + pl.col("session"))
    assert row(analyse(frame))["informative_sessions"][0] == "Nest Süd s01"


# Several models


def two_models() -> pl.DataFrame:
    other = made(seed=2)["recovered"]
    frame = made()
    return pl.concat(
        [
            frame.with_columns(model=pl.lit("a")),
            frame.with_columns(model=pl.lit("b"), recovered=other).with_columns(
                recovered=pl.when(pl.col("instance") < 10).then(None).otherwise(pl.col("recovered"))
            ),
        ]
    )


def test_models_share_birds_and_units() -> None:
    model = analyse(two_models())
    assert model.summary["n"].to_list() == [390, 390]
    assert model.coefficients.group_by("factor").agg(pl.col("sd").n_unique())["sd"].to_list() == [1] * 6
    assert dict(model.checks.filter(check="missing").select("term", "value").iter_rows()) == {"recovered": 10}
    alone = analyse(
        two_models()
        .filter(
            model="a",
        )
        .filter(pl.col("instance") >= 10)
    )
    mine = model.coefficients.filter(model="a")
    assert mine["firth"].to_numpy() == pytest.approx(alone.coefficients["firth"].to_numpy(), abs=1e-10)


def test_tables_keep_their_contract() -> None:
    model = analyse(two_models())
    schemas.validate("coefficients", model.coefficients)
    assert model.coefficients["factor"].to_list() == [*FACTORS, *FACTORS]
    assert model.loso.height == 2 * 4 * 6 and model.ladder.height == 2 * 6 * 4


def test_wrong_instances_are_refused() -> None:
    with pytest.raises(DataError, match="clutter"):
        analyse(made().drop("clutter"))
    with pytest.raises(DataError, match="twice"):
        analyse(pl.concat([made(), made()]))
    with pytest.raises(DataError, match="0 \\(missed\\) or 1"):
        analyse(made().with_columns(recovered=pl.lit(2)))


# Independent implementations


def dense(frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    z = frame.select(FACTORS).to_numpy()
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    names = sorted(frame["session"].unique())
    dummies = (frame["session"].to_numpy()[:, None] == np.array(names[1:])[None, :]).astype(float)
    return np.column_stack([z, dummies, np.ones(len(z))]), frame["recovered"].to_numpy().astype(float)


def test_newton_equals_statsmodels() -> None:
    import statsmodels.api as sm

    frame = made(n=500, sessions=6, seed=8)
    columns, y = dense(frame)
    fit = sm.Logit(y, columns).fit(method="newton", disp=0, tol=1e-12)
    effects = fit.get_margeff(at="overall", dummy=False)
    got = analyse(frame).coefficients
    assert got["mle"].to_numpy() == pytest.approx(fit.params[:6], abs=1e-9)
    assert got["mle_se"].to_numpy() == pytest.approx(fit.bse[:6], abs=1e-9)
    assert got["ame"].to_numpy() == pytest.approx(effects.margeff[:6], abs=1e-9)
    assert got["ame_se"].to_numpy() == pytest.approx(effects.margeff_se[:6], abs=1e-9)


def test_firth_and_its_profile_equal_firthmodels() -> None:
    firthmodels = pytest.importorskip("firthmodels")
    frame = made(n=150, sessions=3, intercept=2.2, seed=4)
    columns, y = dense(frame)
    theirs = firthmodels.FirthLogisticRegression(backend="numpy", gtol=1e-8, xtol=1e-8, max_iter=200)
    theirs.fit(columns[:, :-1], y)
    ends = theirs.conf_int(method="pl", features=list(range(6)), tol=1e-8, max_iter=200)[:6]
    got = analyse(frame).coefficients
    assert got["firth"].to_numpy() == pytest.approx(theirs.coef_[:6], abs=1e-7)
    assert got.select("firth_lo", "firth_hi").to_numpy() == pytest.approx(ends, abs=1e-6)


def test_firth_is_the_maximum_of_the_penalised_likelihood() -> None:
    frame = made(n=120, sessions=3, intercept=2.0, seed=6)
    columns, y = dense(frame)
    best = minimize(lambda t: -dense_penalised_loglik(t, columns, y), np.zeros(columns.shape[1]), method="BFGS")
    sample = design.common_design(frame).sample("")
    fit = logit.fit_logit(sample)
    assert fit.state.loglik == pytest.approx(-best.fun, abs=1e-6)
    assert fit.beta == pytest.approx(best.x[:6], abs=1e-3)
    held = profile.profile_interval(sample, fit, 1)
    for end in (held.lo, held.hi):
        rest = logit.fit_logit(sample, hold=(1, end))
        assert fit.state.loglik - rest.state.loglik == pytest.approx(3.841458820694124 / 2, abs=1e-6)


def test_inflation_equals_statsmodels() -> None:
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    frame = made(seed=9)
    columns, _ = dense(frame)
    want = [variance_inflation_factor(columns, j) for j in range(6)]
    assert analyse(frame).vif["vif_with_sessions"].to_list() == pytest.approx(want, rel=1e-8)


def test_quality_equals_scikit_learn() -> None:
    from sklearn.metrics import brier_score_loss, roc_auc_score

    rng = np.random.default_rng(1)
    p = np.round(rng.random(300), 2)  # with ties
    y = (rng.random(300) < p).astype(float)
    assert quality.area_under_curve(p, y) == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert quality.brier(p, y) == pytest.approx(brier_score_loss(y, p), abs=1e-12)
    table = quality.reliability(p, y)
    assert table["n"].to_list() == [30] * 10
    assert (table["n"] * table["observed"]).sum() == pytest.approx(y.sum())


def test_quality_of_the_reference_fits() -> None:
    """notes: case 01 AUC .799, Brier .0879 (null .1020); case 10 .891, .0249 (.0311), HL10 4.9."""
    for name, auc, error, null in (
        ("01_balanced", 0.799, 0.0879, 0.102),
        ("10_rare_misses_17_of_529", 0.891, 0.0249, 0.0311),
    ):
        got = dict(analysed(name).calibration.filter(fit="mle").select("measure", "value").iter_rows())
        assert got["auc"] == pytest.approx(auc, abs=6e-4)
        assert (got["brier"], got["brier_null"]) == pytest.approx((error, null), abs=6e-5)
    assert got["hosmer_lemeshow"] == pytest.approx(4.9, abs=0.1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 30), st.integers(1, 3))
@example(40, 22, 1)  # a finite estimate at which one bird's log-odds are beyond 30
@example(1453, 14, 3)
def test_separation_equals_detect_separation(seed: int, n: int, sessions: int) -> None:
    firthmodels = pytest.importorskip("firthmodels")
    rng = np.random.default_rng(seed)
    session = np.arange(n) % sessions
    z = rng.normal(size=(n, 2)).round(1)
    y = (rng.random(n) < 0.7).astype(float)
    sample = logit.Sample(z, y, session)
    columns = np.column_stack([z, session[:, None] == np.arange(1, sessions)]).astype(float)
    if len(np.unique(y)) < 2 or np.linalg.matrix_rank(np.column_stack([columns, np.ones(n)])) < columns.shape[1] + 1:
        return
    theirs = firthmodels.detect_separation(columns, y)
    assert (logit.maximum_likelihood(sample) is None) == theirs.separation
    mine, _ = checks.separated_terms(sample)
    assert mine.tolist() == theirs.directions.tolist()


# Properties


def test_order_of_rows_and_codes_of_frames_do_not_matter() -> None:
    frame = made(n=200, seed=3)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    a, b = analyse(frame).coefficients, analyse(shuffled).coefficients
    numbers = a.select(pl.selectors.float()).columns
    for name in numbers:
        assert b[name].to_numpy() == pytest.approx(a[name].to_numpy(), abs=1e-7, nan_ok=True), name


def test_misses_in_place_of_hits_turn_every_sign() -> None:
    frame = made(n=200, seed=3)
    a = analyse(frame).coefficients
    b = analyse(frame.with_columns(recovered=1 - pl.col("recovered"))).coefficients
    assert b["firth"].to_numpy() == pytest.approx(-a["firth"].to_numpy(), abs=1e-8)
    assert b["firth_lo"].to_numpy() == pytest.approx(-a["firth_hi"].to_numpy(), abs=1e-6)


def test_units_of_a_factor_do_not_matter() -> None:
    frame = made(n=200, seed=3)
    scaled = frame.with_columns(blur=1000 + 250 * pl.col("blur"))
    a, b = analyse(frame).coefficients["firth"], analyse(scaled).coefficients["firth"]
    assert b.to_numpy() == pytest.approx(a.to_numpy(), abs=1e-8)


# Ladder, status, bold


def test_ladder_is_the_reference_one() -> None:
    """notes §3: case 10 brightness -1.59, -4.10, -.55, -5.41; case 01 contrast -.24, -.56, +.21, -.07."""
    for name, factor, want in (
        ("10_rare_misses_17_of_529", "brightness", [-1.59, -4.10, -0.55, -5.41]),
        ("01_balanced", "contrast", [-0.24, -0.56, 0.21, -0.07]),
    ):
        steps = analysed(name).ladder.filter(factor=factor)
        assert steps["rung"].to_list() == list(ladder.RUNGS)
        assert steps["mle"].to_list() == pytest.approx(want, abs=5.1e-3)
    assert steps["is_flipped"].to_list() == [False, False, True, False]
    assert not steps["is_clear_flip"].any()


def test_a_clear_flip_is_flagged() -> None:
    # Dark sessions are easy, but inside each session the dark birds are the ones that are missed.
    rng = np.random.default_rng(2)
    session = np.repeat(np.arange(4), 150)
    inside = rng.normal(size=600)
    eta = 1.0 - 2.5 * (session - 1.5) + 1.2 * inside
    frame = pl.DataFrame(
        {
            "instance": np.arange(600),
            "session": [f"s{g}" for g in session],
            "frame": np.arange(600),
            "brightness": 2.0 * session + inside,
            "recovered": (rng.random(600) < 1 / (1 + np.exp(-eta))).astype(int),
        }
    )
    steps = analyse(frame, ["brightness"]).ladder
    assert steps.filter(rung="sessions")["is_clear_flip"].item()
    assert steps.filter(rung="alone")["firth"].item() < 0 < steps.filter(rung="sessions")["firth"].item()


def existing(infinite: dict[str, int] | None = None, *, complete: bool = False) -> checks.Existence:
    return checks.Existence(infinite or {}, np.ones(1, dtype=bool), (), None, complete)


@pytest.mark.parametrize(
    ("changes", "loso", "epv", "want"),
    [
        ({}, {"a": -0.9}, 20.0, "ok"),
        ({}, {"a": -0.9}, 4.9, "unstable"),
        ({"vif": 10.5}, {"a": -0.9}, 20.0, "unstable"),
        ({}, {"a": 0.2}, 20.0, "unstable"),
        ({}, {"a": -0.4}, 20.0, "unstable"),
        ({"firth_se": 2.0}, {"a": 0.2}, 20.0, "ok"),
        ({}, {"a": float("nan")}, None, "ok"),
    ],
)
def test_status(changes: dict, loso: dict, epv: float | None, want: str) -> None:
    coefficient = {"factor": "blur", "firth": -1.0, "firth_se": 0.3, "vif": 2.0} | changes
    assert status.verdict(coefficient, existing(), loso=loso, epv=epv)[0] == want
    assert status.verdict(coefficient, existing({"blur": -1}), loso=loso, epv=epv)[0] == "infinite_neg"
    assert status.verdict(coefficient, existing(complete=True), loso=loso, epv=epv)[0] == "infinite_neg"


@pytest.mark.parametrize(
    ("rows", "bold"),
    [
        ([("a", "ok", -1.0, -0.6), ("b", "ok", -0.5, 0.1)], "a"),
        ([("a", "ok", -1.0, -0.4), ("b", "ok", -0.5, 0.1)], None),  # the runner-up lies in its interval
        ([("a", "ok", -1.0, 0.1), ("b", "ok", 0.5, 0.9)], None),  # 0 does
        ([("a", "unstable", -3.0, -2.0), ("b", "ok", -0.5, -0.2)], "b"),
        ([("a", "unstable", -3.0, -2.0)], None),
    ],
)
def test_bold_only_where_it_can_be_said(rows: list[tuple], bold: str | None) -> None:
    frame = pl.DataFrame(rows, schema=("factor", "status", "firth", "firth_hi"), orient="row").with_columns(
        model=pl.lit("m")
    )
    marked = status.mark_bold(frame).filter("is_bold")["factor"].to_list()
    assert marked == ([bold] if bold else [])


# Factor sets and published rows


def test_factor_sets_rename_and_refuse_what_cannot_be_told_apart() -> None:
    rng = np.random.default_rng(3)
    names = sorted({column for known in design.FACTOR_SETS.values() for column in known.values()})
    frame = pl.DataFrame({"label_id": range(80), "video_id": ["a", "b"] * 40} | {n: rng.normal(size=80) for n in names})
    local, factors = design.select_factors(frame)
    assert factors == FACTORS and local["clutter"].equals(frame["clutter_local"].alias("clutter"))
    assert local.columns[:2] == ["label_id", "video_id"] and "clutter_background" not in local.columns
    whole, _ = design.select_factors(frame, "bluebird-global")
    assert whole["clutter"].to_list() == frame["clutter_background"].to_list()
    assert len(design.select_factors(frame, "both")[1]) == 9
    same = frame.with_columns(brightness_local=pl.col("brightness_global") + 0.01 * pl.col("rel_size"))
    with pytest.raises(ParameterError, match="brightness_local"):
        design.select_factors(same, "both")
    assert len(design.select_factors(same, "both", allow_collinear=True)[1]) == 9
    with pytest.raises(ParameterError, match="bluebird-local"):
        design.select_factors(frame, "local")
    with pytest.raises(DataError, match="blur_local"):
        design.select_factors(frame.drop("blur_local"))


def test_table_10_is_typed_as_printed() -> None:
    table = published.table_10()
    assert table.height == 30 and table.filter("is_bold").height == 5
    recovered = {"YOLO-World FT": 479, "RT-DETR FT": 478, "Mask R-CNN FT": 512, "YOLO-World ZS": 167, "SAM 3 ZS": 477}
    for model, recall in table.select("model", "recall").unique().iter_rows():
        assert round(recovered[model] / published.N_BIRDS, 4) == recall
    bold = dict(table.filter("is_bold").select("model", "factor").iter_rows())
    assert bold["YOLO-World ZS"] == "crowding" and set(bold.values()) == {"crowding", "brightness"}


def test_tables_4_to_9_agree_with_whole_counts() -> None:
    counts = json.loads((DATA / "bluebird_tables_4_to_9_counts.json").read_text(encoding="utf-8"))
    short = {"YWFT": "YOLO-World FT", "RTD": "RT-DETR FT", "MRC": "Mask R-CNN FT"}
    names = {"clutter_bg": "clutter_background", "blur": "blur_local", "VerySmall": "Very small"}
    table = printed.tables_4_to_9()
    for factor, models in counts.items():
        n = models["n_per_bin"]
        for key, model in short.items():
            recall = {level: k / n[level] for level, k in models[key]["k_example"].items()}
            cell = table.filter(model=model, factor=names.get(factor, factor)).row(0, named=True)
            worst = models[key]["worst"]
            assert cell["worst"] == names.get(worst, worst)
            assert round(recall[worst], 3) == pytest.approx(cell["recall"])
            assert round(max(recall.values()) - recall[worst], 3) == pytest.approx(cell["delta"], abs=1.01e-3)


# Simulation


@pytest.mark.parametrize(("sessions", "n", "seed"), [(4, 529, 20041), (10, 520, 20042)])
def test_penalised_slopes_are_not_biased(sessions: int, n: int, seed: int) -> None:
    """Mean slope over true slope within 0.05 of 1 in 500 repetitions (benchmarks/sim_difficulty.py has the long one)."""
    rng = np.random.default_rng(seed)
    ratios = []
    with threadpool_limits(limits=1):
        for _ in range(500):
            session = np.sort(np.arange(n) % sessions)
            z = rng.normal(size=(n, 6))
            z = (z - z.mean(axis=0)) / z.std(axis=0)
            eta = 2.6 + z @ SLOPES + 0.4 * rng.normal(size=sessions)[session]
            y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
            fit = logit.fit_logit(logit.Sample(z, y, session), tolerance=1e-6)
            assert fit.converged
            ratios.append(fit.beta / SLOPES)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


def test_nothing_warns_and_a_large_session_has_no_cr2() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analyse(made(n=120, intercept=4.0, seed=11))
    sample = logit.Sample(np.zeros((4, 0)), np.array([0, 1, 0, 1.0]), np.array([0, 0, 1, 1]))
    fit = logit.maximum_likelihood(sample)
    limit = robust.LARGEST_CLUSTER
    try:
        robust.LARGEST_CLUSTER = 1
        assert "more than 1 birds" in robust.bias_reduced_error(sample, fit).reason
    finally:
        robust.LARGEST_CLUSTER = limit
