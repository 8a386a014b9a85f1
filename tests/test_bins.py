"""Bins against numpy's reference values, both tie rules, and what must hold for any values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.difficulty import bins
from birdlab.difficulty.bins import assign, bin_factor, bin_instances, quantile_edges, shown_level
from birdlab.errors import DataError, ParameterError

DATA = Path(__file__).parent / "data" / "difficulty"
CASES = json.loads((DATA / "bins_and_recall.json").read_text())["bins"]


@pytest.mark.parametrize("factor", list(CASES))
@pytest.mark.parametrize("ties", ["upper", "lower"])
def test_every_reference_bin(factor: str, ties: str) -> None:
    birds = pl.read_csv(DATA / "01_balanced.csv")
    key = next(k for k in CASES[factor] if f"to_{ties}" in k)
    want = CASES[factor][key]
    preset = "bluebird" if want["quantiles"][0] == 0.33 else "default"
    got = bin_factor(birds[factor], factor, preset=preset, ties=ties)
    assert got.quantiles == pytest.approx(want["quantiles"], abs=1e-15)
    assert got.edges == pytest.approx(want["edges"], abs=1e-12)
    assert np.bincount(got.codes).tolist() == want["n"]
    assert np.bincount(got.codes, weights=birds["recovered"].to_numpy()).tolist() == want["recovered"]


def test_quantiles_of_529_distinct_values_give_the_bin_sizes_of_the_paper() -> None:
    values = np.random.default_rng(1).permutation(529) + 0.5
    assert np.bincount(bin_factor(values, "blur_local", preset="bluebird").codes).tolist() == [175, 174, 180]
    assert np.bincount(bin_factor(values, "blur_local").codes).tolist() == [176, 176, 177]
    size = np.sort(values)
    size[115:133] = size[132]  # 18 tied at the first quartile, 17 of them below its rank
    assert np.bincount(bin_factor(size, "rel_size", preset="bluebird").codes).tolist() == [115, 149, 132, 133]


def test_zero_inflated_values_leave_an_empty_bin_with_its_name() -> None:
    values = np.concatenate([np.zeros(274), np.arange(1, 256)])
    upper, lower = bin_factor(values, "blur"), bin_factor(values, "blur", ties="lower")
    assert upper.levels == lower.levels == ("Blurred", "Medium", "Sharp")
    assert upper.indicators().sum(axis=0).tolist() == [0, 352, 177]
    assert lower.indicators().sum(axis=0).tolist() == [274, 79, 176]
    assert upper.note is None


def test_edges_that_coincide_are_merged_renamed_and_said() -> None:
    values = [0.0] * 10 + [5.0] * 60 + [7.0] * 10 + [9.0] * 20
    upper = bin_factor(values, "rel_size")
    assert upper.levels == ("Very small", "Small + Medium", "Large") and upper.edges == (5.0, 7.0)
    assert upper.indicators().sum(axis=0).tolist() == [10, 60, 30]
    assert upper.note == "several edges fall on 5: bins merged (Small + Medium)"
    lower = bin_factor(values, "rel_size", ties="lower")
    assert lower.levels == ("Very small + Small", "Medium", "Large")
    assert lower.indicators().sum(axis=0).tolist() == [70, 10, 20]


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([3.0, 3.0, 3.0], "no variation: every value is 3"),
        ([3.0], "no variation: every value is 3"),
        ([3.0, None, 3.0], "no variation: every value is 3"),
        ([1.0] * 90 + [2.0] * 10, "no variation: all edges fall on 1"),
    ],
)
def test_no_variation(values: list[float | None], note: str) -> None:
    got = bin_factor(pl.Series(values, dtype=pl.Float64), "brightness")
    assert not got.varies and got.note == note and got.levels == (bins.NO_VARIATION,)
    assert sum(got.codes == 0) == sum(v is not None for v in values)


def test_no_value_at_all() -> None:
    got = bin_factor(pl.Series([None, None], dtype=pl.Float64), "blur")
    assert not got.varies and got.levels == () and got.codes.tolist() == [-1, -1] and got.note == "no bird has a value"


def test_counts_go_by_natural_categories_and_empty_ones_stay() -> None:
    got = bin_factor([1, 2, 3, 1], "crowding", preset="bluebird")
    assert got.levels == ("1", "2-3", "4+") and got.codes.tolist() == [0, 1, 1, 0]
    assert got.lo == (1, 2, 4) and got.hi == (2, 4, None)
    assert bin_factor([0, 1, 4, 9], "crowding").levels == ("0", "1", "2-3", "4+")
    one = bin_factor([1, 1], "crowding")
    assert not one.varies and one.levels == ("1", "2-3", "4+") and "every value is 1" in (one.note or "")
    assert not bin_factor([2, 3], "crowding").varies
    assert "no whole numbers" in (bin_factor([1, 2.5], "crowding").note or "")
    assert shown_level("crowding", "1") == "1 object" and shown_level("crowding", "missing") == "missing"


def test_own_quantiles_and_unknown_factors() -> None:
    got = bin_factor(np.arange(100), "wind", quantiles=[0.5])
    assert got.levels == ("1", "2") and np.bincount(got.codes).tolist() == [50, 50]
    assert bin_factor(np.arange(9), "wind").levels == ("Low", "Medium", "High")


def test_what_is_refused() -> None:
    with pytest.raises(ParameterError, match="no bin preset is called 'paper'"):
        bin_factor([1.0], "blur", preset="paper")
    with pytest.raises(ParameterError, match="ties is upper or lower"):
        bin_factor([1.0, 2.0], "blur", ties="middle")  # type: ignore[arg-type]
    for quantiles in ([], [0.5, 0.5], [0.0, 0.5], [0.6, 0.2]):
        with pytest.raises(ParameterError, match="rise within"):
            bin_factor([1.0, 2.0], "blur", quantiles=quantiles)
    with pytest.raises(DataError, match="row 1, blur: found an infinite value"):
        bin_factor([1.0, float("inf")], "blur")
    with pytest.raises(DataError) as error:
        bin_instances(pl.DataFrame({"blur": ["a"]}), ["blur", "contrast"])
    assert [(p.code, p.key) for p in error.value.problems] == [("wrong_type", "blur"), ("missing_column", "contrast")]


NUMBERS = st.lists(st.one_of(st.none(), st.integers(-5, 5), st.floats(-1e6, 1e6)), min_size=1, max_size=120)


@settings(deadline=None, max_examples=200)
@given(values=NUMBERS, ties=st.sampled_from(["upper", "lower"]), name=st.sampled_from(["blur", "rel_size", "crowding"]))
def test_every_value_is_in_one_bin_and_bins_are_in_order(values: list[float | None], ties: str, name: str) -> None:
    numbers = np.array([np.nan if v is None else v for v in values], dtype=float)
    got = bin_factor(numbers, name, ties=ties)  # type: ignore[arg-type]
    assert ((got.codes == -1) == np.isnan(numbers)).all()
    assert got.indicators().sum() == np.sum(~np.isnan(numbers))
    assert len(got.levels) == len(got.lo) == len(got.hi) and list(got.edges) == sorted(set(got.edges))
    known = got.codes >= 0
    order = np.argsort(numbers[known], kind="stable")
    assert (np.diff(got.codes[known][order]) >= 0).all()
    for code, (lo, hi) in enumerate(zip(got.lo, got.hi, strict=True)):
        inside = numbers[got.codes == code]
        below = ties == "lower" and name != "crowding"
        assert lo is None or ((inside > lo) if below else (inside >= lo)).all()
        assert hi is None or ((inside <= hi) if below else (inside < hi)).all()


@settings(deadline=None)
@given(values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60), seed=st.integers(0, 9))
def test_bins_do_not_depend_on_the_order_of_the_birds(values: list[float], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(len(values))
    a, b = bin_factor(values, "blur"), bin_factor(np.array(values)[shuffled], "blur")
    assert a.edges == b.edges and (a.codes[shuffled] == b.codes).all()


def test_edges_and_codes_by_hand() -> None:
    assert quantile_edges([4, 1, 3, 2], [0.5]).tolist() == [2.5]
    assert quantile_edges([float("nan")], [0.5]).tolist() == []
    assert assign([1.0, 2.0, 2.0, 3.0], [2.0, 3.0]).tolist() == [0, 1, 1, 2]
    assert assign([1.0, 2.0, 2.0, 3.0], [2.0, 3.0], ties="lower").tolist() == [0, 0, 0, 1]
