"""Task metric against biology, and printed rows: against scipy, hand-counted, arithmetic on what is printed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from birdlab import schemas
from birdlab.individuals.across import SCHEMA, permutation_p, ranks, task_against_biology
from birdlab.individuals.published import published


def known(n: int, seed: int = 0, **more: object) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.random(n).round(1)
    return pl.DataFrame(
        {"name": [f"c{k}" for k in range(n)], "idf1": x, "rate_error": 3 - x + 0.6 * rng.random(n), **more}
    )


@pytest.mark.parametrize("n", [8, 12, 40])
def test_rho_is_scipys(n: int) -> None:
    frame = known(n, n)
    row = task_against_biology(frame).row(0, named=True)
    want = spearmanr(frame["idf1"], frame["rate_error"]).statistic
    assert (row["task"], row["measure"], row["n"]) == ("idf1", "rate_error", n)
    assert row["rho"] == pytest.approx(want)
    assert row["lo"] < row["rho"] < row["hi"]
    half = 1.959964 * np.sqrt(1.06 / (n - 3))
    assert np.arctanh(row["hi"]) - np.arctanh(row["rho"]) == pytest.approx(half, rel=1e-6)
    assert 0 < row["p"] <= 1
    assert ("smaller errors" in row["words"]) == (row["hi"] < 0)


def test_p_of_all_orders_is_exact() -> None:
    a, b = np.arange(8.0), np.array([0, 1, 2, 3, 4, 5, 7, 6.0])
    p, method = permutation_p(a, b)
    # rho = 1 - 6 * 2 / 504: the identity, its 7 neighbours, and the same reversed.
    assert p == pytest.approx(2 * 8 / 40320)
    assert method == "all 40320 orders"


def test_too_few_to_say_below_eight() -> None:
    row = task_against_biology(known(7)).row(0, named=True)
    assert (row["rho"], row["lo"], row["p"], row["n"]) == (None, None, None, 7)
    assert row["reason"] == "fewer than 8 combinations: too few to say"


def test_missing_numbers_are_left_out_and_counted() -> None:
    frame = known(9).with_columns(idf1=pl.when(pl.int_range(pl.len()) < 2).then(None).otherwise("idf1"))
    row = task_against_biology(frame).row(0, named=True)
    assert (row["n"], row["n_left_out"], row["rho"]) == (7, 2, None)


def test_a_constant_has_no_rho() -> None:
    row = task_against_biology(known(10).with_columns(idf1=0.5)).row(0, named=True)
    assert (row["rho"], row["reason"]) == (None, "idf1 is the same for every combination")


def test_one_order_has_no_interval() -> None:
    frame = pl.DataFrame({"idf1": np.arange(9.0), "rate_error": -np.arange(9.0)})
    row = task_against_biology(frame).row(0, named=True)
    assert (row["rho"], row["lo"]) == (-1, None)
    assert row["reason"].startswith("all combinations in one order")
    assert row["words"].endswith("combinations that score higher have smaller errors")


def test_columns_can_be_chosen_and_no_rows_are_a_frame() -> None:
    frame = known(8, hota=np.linspace(0, 1, 8), mae=np.linspace(1, 0, 8))
    assert task_against_biology(frame, ["hota", "idf1"], ["mae"]).select("task", "measure").rows() == [
        ("hota", "mae"), ("idf1", "mae"),
    ]  # fmt: skip
    assert task_against_biology(frame.select("name")).schema == pl.Schema(SCHEMA)


def test_ranks_of_equals() -> None:
    assert ranks(np.array([2.0, 2.0, 1.0, 5.0])).tolist() == [2.5, 2.5, 1, 4]


def test_published_rows() -> None:
    rows = published("chirp")
    schemas.TABLES["metrics"].validate(rows)
    assert rows["value"].null_count() == rows.height
    assert rows["source"].str.starts_with("CHIRP, Table").all()

    def of(model: str, metric: str) -> float | None:
        return rows.filter(model=model, metric=metric)["published"].item()

    assert of("C3D", "accuracy") == 0.72 and of("C3D", "macro_f1") == 0.684
    assert of("ViTPose-large", "pck_10") == 0.978
    assert of("MegaDescriptor", "feeding_rate_mean_abs_error") == 13.14
    assert of("Random", "co_occurrence_r") == 0.799
    assert of("Human", "frame_accuracy") is None
    assert published([]).height == 0


def test_a_score_with_two_values_of_its_own_has_no_order() -> None:
    frame = pl.DataFrame(
        {
            "tracker": ["a", "b"] * 4, "model": list("ccddeeff"), "hota": [0.5, 0.6] * 4,
            "feeding_f1": [0.1 * i for i in range(8)], "rate_error": [float(8 - i) for i in range(8)],
        }
    )  # fmt: skip
    made_of = {"hota": ["tracker"], "feeding_f1": ["tracker", "model"], "rate_error": ["tracker", "model"]}
    found = task_against_biology(frame, ["hota", "feeding_f1"], ["rate_error"], made_of=made_of)
    assert found["rho"].to_list() == [None, pytest.approx(-1)] and found["n_values"].to_list() == [2, 8]
    assert found["reason"][0] == "hota has 2 values: too few to say"
    assert found["p_holm"].to_list() == [None, found["p"][1]]


def test_the_title_names_a_relation_only_after_holm() -> None:
    from birdlab.chapters.application_words import across_title

    rng = np.random.default_rng(2)
    frame = pl.DataFrame({f"t{k}": rng.random(9) for k in range(5)} | {"feeding_rate_mean_abs_error": rng.random(9)})
    found = task_against_biology(frame, [f"t{k}" for k in range(5)], ["feeding_rate_mean_abs_error"])
    assert found["p_holm"].min() > 0.05 and across_title(found).startswith("No score shows a relation")
    clear = frame.with_columns(t0=-pl.col("feeding_rate_mean_abs_error"))
    found = task_against_biology(clear, [f"t{k}" for k in range(5)], ["feeding_rate_mean_abs_error"])
    assert across_title(found).endswith("goes with smaller errors of feeding rates: ρ −1.00 over 9 combinations.")
