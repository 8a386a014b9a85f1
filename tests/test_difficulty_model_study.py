"""The joint model as a chapter: its tables, tests and sentences, also where nothing can be fitted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from difficulty_cases import FACTORS as NAMES
from difficulty_cases import SLOPES, dense_penalised_loglik, made
from scipy.optimize import minimize
from scipy.stats import chi2

from birdlab import schemas
from birdlab.chapters import difficulty_model as chapter
from birdlab.chapters import difficulty_model_drawn as drawn
from birdlab.chapters import difficulty_model_words as say
from birdlab.difficulty.design import FACTOR_SETS
from birdlab.difficulty.model_study import metric_rows, tables
from birdlab.difficulty.study import INSTANCES
from birdlab.figures import difficulty_model as figures_model
from birdlab.recipe import Difficulty
from birdlab.stats import holm

DATA = Path(__file__).parent / "data" / "difficulty"
LOCAL, GLOBAL = FACTOR_SETS["bluebird-local"], FACTOR_SETS["bluebird-global"]


def instances(case: pl.DataFrame, *models: tuple[str, pl.Series]) -> pl.DataFrame:
    """A case as the table ``instances``: whole-frame values are the local ones with noise, outcomes by model."""
    rng = np.random.default_rng(5)
    columns = {LOCAL[f]: pl.col(f).cast(pl.Float64) for f in NAMES}
    for f in NAMES:
        if GLOBAL[f] not in columns:
            noise = pl.Series(rng.normal(size=case.height) * 0.3)
            columns[GLOBAL[f]] = pl.col(f).cast(pl.Float64) + noise
    base = case.select(
        pl.col("instance").cast(pl.String), "session", pl.col("session").alias("stratum"), "frame",
        **columns,
    )  # fmt: skip
    models = models or (("heron", case["recovered"]),)
    parts = [base.with_columns(model=pl.lit(name), recovered=y.cast(pl.Boolean)) for name, y in models]
    frame = pl.concat(parts)
    missing = [pl.lit(None, dtype=t).alias(c) for c, t in INSTANCES.items() if c not in frame.columns]
    return frame.with_columns(missing).select(pl.col(c).cast(t) for c, t in INSTANCES.items())


def shown(table: pl.DataFrame, names: list[str], settings: Difficulty | None = None) -> dict[str, str | list[str]]:
    """Every table, sentence and figure of the chapter, as the notebook makes them."""
    import matplotlib.pyplot as plt

    settings = settings or Difficulty()
    found, chosen = tables(table, settings), settings.factors
    of = {k.removeprefix("model_"): chapter.of_set(v, chosen) for k, v in found.items() if k.startswith("model_")}
    coefficients, summary = found["coefficients"], of["summary"]
    lead = chapter.lead_model(summary, names[0] if names else None)
    rows = drawn.effects(coefficients, of["loso"])
    ladder = drawn.ladder(of["ladder"])
    last = ladder.filter(rung="factors and sessions")
    maps, curves = drawn.collinearity(of["correlations"], of["vif"]), drawn.partial(of["partial"], coefficients)
    fit, left = drawn.fit(of["reliability"], of["calibration"]), chapter.left_out(of["loso"], coefficients, lead)
    chapter.checks(summary), chapter.effects(coefficients), chapter.sets(found["coefficient_sets"])
    chapter.table_of_slopes(coefficients, summary)
    for draw, frame in (
        *((figures_model.fig_forest, rows), (figures_model.fig_ladder, ladder), (figures_model.fig_partial, curves)),
        (figures_model.fig_fit, fit),
    ):
        for narrow in (False, True):
            plt.close(draw(frame, models=names, narrow=narrow))
    plt.close(figures_model.fig_collinearity(maps))
    words = {
        "answer": " ".join(say.answer(coefficients, summary, lead)),
        "checks": say.checks_title(summary),
        "checks_notes": say.checks_notes(of["checks"], summary, of["missed"]),
        "effects": say.effects_title(coefficients),
        "effects_notes": say.effects_notes(coefficients),
        "slopes": say.slopes_title(coefficients),
        "sets": say.sets_title(found["coefficient_sets"]),
        "left_out": say.left_out_title(left, lead),
        "left_out_notes": say.left_out_notes(left),
        "forest": drawn.forest_title(rows) + drawn.forest_alt(rows),
        "ladder": drawn.ladder_title(ladder, last) + drawn.ladder_alt(last, ladder),
        "collinearity": drawn.collinearity_title(maps) + drawn.collinearity_alt(maps),
        "partial": drawn.partial_title(curves, lead) + drawn.partial_alt(curves),
        "fit": drawn.fit_title(fit) + drawn.fit_alt(fit),
    }
    text = " ".join(w if isinstance(w, str) else " ".join(w) for w in words.values())
    assert "None " not in text.replace("None is confirmed", "").replace("None of", "") and "nan" not in text.split()
    schemas.validate("coefficients", coefficients)
    schemas.validate("metrics", metric_rows(found, ["western_bluebird"], "d"))
    return words


@pytest.fixture(scope="module")
def clear() -> pl.DataFrame:
    """Two models on the same 1,200 birds: one follows the planted slopes, the other fails at random."""
    case = made(n=1200, sessions=6, seed=2)
    luck = pl.Series(np.random.default_rng(9).random(case.height) < 0.7).cast(pl.Int64)
    return instances(case, ("heron", case["recovered"]), ("wren", luck))


@pytest.fixture(scope="module")
def fitted(clear: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The tables of those two models."""
    return tables(clear, Difficulty())


def test_p_values_are_those_of_a_dense_penalised_likelihood_ratio():
    case = made(n=220, sessions=3, seed=2)
    found = tables(instances(case), Difficulty())["coefficients"]
    z = case.select(NAMES).to_numpy()
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    session = case["session"].to_numpy()
    columns = np.column_stack([z, *(session == s for s in sorted(set(session)))]).astype(float)
    y = case["recovered"].to_numpy().astype(float)

    def best(hold: int | None) -> float:
        free = [i for i in range(columns.shape[1]) if i != hold]

        def loss(part: np.ndarray) -> float:
            theta = np.zeros(columns.shape[1])
            theta[free] = part
            return -dense_penalised_loglik(theta, columns, y)

        return -float(minimize(loss, np.zeros(len(free)), method="BFGS", options={"gtol": 1e-7}).fun)

    whole = best(None)
    for j, name in enumerate(NAMES):
        expected = chi2.sf(2 * (whole - best(j)), 1)
        assert found.filter(factor=name)["p"].item() == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_confirmed_slopes_are_the_planted_ones_and_none_of_a_model_without_any(fitted):
    found = fitted
    heron = found["coefficients"].filter(model="heron")
    assert heron["family"].unique().to_list() == [12]
    assert found["coefficients"]["p_holm"].to_list() == holm(found["coefficients"]["p"].to_list())
    sure = heron.filter("confirmed")
    strongest = {NAMES[i] for i in np.argsort(-np.abs(SLOPES))[:3]}
    assert strongest <= set(sure["factor"])
    for r in sure.to_dicts():
        assert np.sign(r["firth"]) == np.sign(SLOPES[NAMES.index(r["factor"])])
        assert r["ame_lo"] < r["ame"] < r["ame_hi"] and r["firth_lo"] < SLOPES[NAMES.index(r["factor"])] < r["firth_hi"]
    assert not found["coefficients"].filter(model="wren")["confirmed"].any()


def test_the_answer_names_the_confirmed_factors_with_points_and_interval(clear, fitted):
    words = shown(clear, ["heron", "wren"])
    found = fitted["coefficients"].filter(model="heron").filter("confirmed")
    top = found.sort(pl.col("ame").abs(), descending=True).row(0, named=True)
    assert chapter.title(top["factor"], "bluebird-local") in words["answer"]
    assert f"{abs(100 * top['ame']):.1f} points" in words["answer"] and "of 12 slopes" in words["effects"]
    assert "log-odds" not in words["answer"] and "whichever session is left out" in words["answer"]
    assert f"judged from {fitted['model_summary']['n_sessions'][0]} sessions" in words["answer"]
    assert "{model:wren} (none)" in words["answer"]


def test_bold_is_the_most_negative_slope_and_only_where_allowed(fitted):
    from birdlab.report.table import lay_out

    found = fitted["coefficients"]
    rows = chapter.effects(found)
    layout = lay_out(rows, columns=chapter.EFFECT_COLUMNS, row_label="factor", model_column="model",
                     models=["heron", "wren"], published=None, reasons=None, best_within="bold_group")  # fmt: skip
    place = list(layout.columns).index("firth")
    bold = [line.cells[place].best for line in layout.lines]
    assert bold == found["is_bold"].fill_null(False).to_list()
    assert layout.columns["firth"].arrow == ""
    assert not any(cell.best for line in layout.lines for i, cell in enumerate(line.cells) if i != place)
    none = chapter.effects(found.with_columns(is_bold=pl.lit(False)))
    assert none["bold_group"].n_unique() == none.height


def test_the_printed_table_10_stands_below_as_printed():
    printed = chapter.printed_slopes(["western_bluebird"])
    assert printed.height == 5 and chapter.printed_slopes([]) is None
    mask = printed.filter(model="Mask R-CNN FT").row(0, named=True)
    assert (mask["brightness"], mask["contrast"], mask["lowest"]) == (-5.29, -3.93, "Brightness")
    assert "Western Bluebird" in mask["model_note"]


def test_strata_stand_for_sessions_where_the_recipe_allows_it(clear):
    split = clear.with_columns(
        stratum=pl.when((pl.col("session") == "s01") & (pl.col("frame").str.ends_with("1")))
        .then(pl.lit("s01 (infrared)"))
        .otherwise("session")
    )
    assert tables(split, Difficulty())["model_summary"]["n_sessions"].unique().to_list() == [7]
    assert tables(split, Difficulty(split_strata=False))["model_summary"]["n_sessions"].unique().to_list() == [6]


def test_the_chosen_set_comes_first_and_is_the_table_of_coefficients(clear):
    found = tables(clear, Difficulty(factors="bluebird-global"))
    assert found["coefficients"]["factor_set"].unique().to_list() == ["bluebird-global"]
    assert found["coefficient_sets"]["factor_set"].unique(maintain_order=True).to_list() == [
        "bluebird-global",
        "bluebird-local",
    ]
    side = chapter.sets(found["coefficient_sets"]).filter(model="heron")
    same = found["coefficients"].filter(model="heron")["ame_within"]
    assert side["global"].to_list() == same.to_list()


def test_a_session_without_information_is_named():
    case = pl.read_csv(DATA / "02_session_all_recovered.csv")
    words = shown(instances(case), ["heron"])
    summary = tables(instances(case), Difficulty())["model_summary"].row(0, named=True)
    idle = summary["uninformative_sessions"]
    assert idle and all(f"no information on slopes from {s} (all of" in " ".join(words["checks_notes"]) for s in idle)


def test_separation_gives_no_finite_estimate_and_is_said():
    case = pl.read_csv(DATA / "03_quasi_separation_by_crowding.csv")
    found = tables(instances(case), Difficulty())["coefficients"].filter(factor="crowding").row(0, named=True)
    assert str(found["status"]).startswith("infinite") and found["mle"] is None and not found["confirmed"]
    words = shown(instances(case), ["heron"])
    assert "No finite estimate: birds in the frame" in words["answer"]
    row = chapter.effects(tables(instances(case), Difficulty())["coefficients"]).filter(factor="Birds in the frame")
    assert row["mle"].item() is None and "separated" in row["mle_reason"].item()


@pytest.mark.parametrize(
    "case", ["04_constant_factor", "06_single_session", "07_missing_values", "11_complete_separation_by_clutter"]
)
def test_cases_build(case):
    words = shown(instances(pl.read_csv(DATA / f"{case}.csv")), ["heron"])
    notes = " ".join(words["checks_notes"])
    expected = {
        "04_constant_factor": "constant",
        "06_single_session": "one session",
        "07_missing_values": "509 of 529 birds used",
        "11_complete_separation_by_clutter": "omplete separation",
    }
    assert expected[case] in notes


def test_recovering_every_bird_fits_nothing_and_says_why():
    case = pl.read_csv(DATA / "08_perfect_recall.csv")
    words = shown(instances(case), ["heron"])
    assert "no bird was missed" in words["answer"] and words["forest"].startswith("No slope")


def test_recovering_no_bird_fits_nothing_and_says_why():
    case = made(n=80, sessions=3).with_columns(recovered=pl.lit(0))
    words = shown(instances(case), ["heron"])
    assert "every bird was missed" in words["answer"]


def test_too_few_misses_fit_nothing_and_name_the_birds():
    case = made(n=80, sessions=3).with_columns(recovered=(pl.col("instance") != 17).cast(pl.Int64))
    words = shown(instances(case), ["heron"])
    assert "events per variable" in words["answer"] and "Missed: 17." in " ".join(words["checks_notes"])


def test_one_session_cannot_be_left_out():
    case = made(n=120, sessions=1, seed=4)
    words = shown(instances(case), ["heron"])
    assert words["left_out"] == "No session could be left out."


def test_one_instance_no_instance_and_no_model_build():
    one = instances(made(n=12, sessions=2).head(1))
    assert "cannot be said" in shown(one, ["heron"])["answer"]
    assert "cannot be said" in shown(one.clear(), ["heron"])["answer"]
    assert "cannot be said" in shown(one.clear(), [])["answer"]


def test_session_names_with_blanks_and_umlauts_and_a_model_that_was_not_asked():
    case = made(n=300, sessions=3, seed=4)
    names = {"s01": "Höhle am Fluß", "s02": "zweiter Tag", "s03": "[[tab-x]] <b>"}
    case = case.with_columns(pl.col("session").replace(names))
    table = instances(case)
    asked = table.with_columns(recovered=pl.when(pl.int_range(pl.len()) >= 5).then("recovered"))
    words = shown(asked, ["heron"])
    assert "295 of 300 birds used, 5 dropped for missing values: the outcome (5)." in words["checks_notes"]
    left = chapter.left_out(
        tables(asked, Difficulty())["model_loso"].filter(factor_set="bluebird-local"),
        tables(asked, Difficulty())["coefficients"],
        "heron",
    )
    assert set(left["session"]) == {"none", *names.values()}


def test_aliased_factor_is_named_with_its_reason():
    case = made(n=300, sessions=3, seed=4).with_columns(contrast=pl.col("brightness") * 2)
    notes = " ".join(shown(instances(case), ["heron"])["checks_notes"])
    assert "Local contrast: an exact combination of local brightness" in notes


def test_many_sessions_show_those_that_move_the_slopes_most():
    found = tables(instances(made(n=900, sessions=18, seed=6)), Difficulty())
    loso = found["model_loso"].filter(factor_set="bluebird-local")
    left = chapter.left_out(loso, found["coefficients"], "heron")
    assert left.height == 13 and left["session"][0] == "none"
    assert say.left_out_notes(left) == ["6 further sessions move the slopes less."]


def test_metrics_hold_both_sets_and_the_printed_table(fitted):
    rows = metric_rows(fitted, ["western_bluebird"], "study")
    ame = rows.filter(metric="ame", model="heron", group="brightness_local")
    coefficient = fitted["coefficients"].filter(model="heron", factor="brightness").row(0, named=True)
    assert (ame["value"].item(), ame["lo"].item()) == (coefficient["ame"], coefficient["ame_lo"])
    assert rows.filter(metric="log_odds", model="RT-DETR FT", group="brightness")["published"].item() == -2.95
    assert rows.filter(metric="ame", group="brightness_global").height == 2


@pytest.mark.real
def test_real_sessions_through_the_notebook(real_data, tmp_path):
    """18 sessions of flying birds: the one of which none was found is named, and too few misses make every slope unstable."""
    birds = real_data / "flying_birds" / "crops"
    recipe = {
        "name": "crops",
        "data": {
            "root": str(birds),
            "media": [{"images": "images/*.jpg", "session": r"images/(V_BIRD_\d+)_"}],
            "labels": [{"path": str(birds / "coco.json"), "format": "coco"}],
        },
        "models": [{"name": "given", "predictions": str(birds / "preds_yolo11n_int8_openvino.json")}],
        "notebooks": ["04_difficulty_model"],
    }
    path = tmp_path / "crops.yaml"
    path.write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "birdlab.cli", "run", str(path), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    summary = pl.read_parquet(tmp_path / "run" / "tables" / "model_summary.parquet").row(0, named=True)
    assert (summary["n"], summary["n_misses"], summary["n_sessions"]) == (165, 91, 18)
    assert summary["uninformative_sessions"] == ["V_BIRD_046"]
    assert summary["events_per_variable"] == pytest.approx(74 / (6 + 17))
    assert set(pl.read_parquet(tmp_path / "run" / "tables" / "coefficients.parquet")["status"].cast(pl.String)) == {
        "unstable"
    }
    assert "V_BIRD_046 (none of 10 recovered)" in (tmp_path / "run" / "report.html").read_text()
