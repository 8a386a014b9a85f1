"""Across models, contamination, published rows: hand-computed, against scipy, and arithmetic on what is printed."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr

from birdlab import schemas
from birdlab.abstention.across import LINE_SCHEMA, across_models, fisher_interval, in_words
from birdlab.abstention.contamination import Card, cards_frame, contamination, contamination_counts, read_card
from birdlab.abstention.published import published, published_models
from birdlab.errors import DataError, ParameterError


def models(ig: list[float | None], ua_a: list[float | None], **more: list[object]) -> pl.DataFrame:
    return pl.DataFrame({"model": [f"m{i}" for i in range(len(ig))], "ig": ig, "ua_a": ua_a, **more}, strict=False)


# ---- across ----


def test_eight_published_models() -> None:
    found = across_models(published_models())
    assert (round(found.r, 3), found.n) == (0.375, 8)
    assert (round(found.lo, 2), round(found.hi, 2)) == (-0.45, 0.85)
    assert found.words == "r = 0.38 [-0.45, 0.85], n = 8: too few models to say"
    table = published_models()
    assert round(across_models(table.filter(kind="encoder")).r, 2) == -0.62
    assert round(across_models(table.filter(kind="mllm")).r, 2) == 0.93
    assert round(across_models(table.filter(pl.col("model") != "Gemma-3-12B")).r, 2) == 0.01


@settings(max_examples=50, deadline=None)
@given(st.integers(4, 30), st.integers(0, 2**32 - 1))
def test_r_p_and_interval_equal_scipy(n: int, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, n))
    found, scipy = across_models(models(x.tolist(), y.tolist())), pearsonr(x, y)
    ends = scipy.confidence_interval(0.95)
    assert found.r == pytest.approx(scipy.statistic) and found.p == pytest.approx(scipy.pvalue)
    assert (found.lo, found.hi) == (pytest.approx(ends.low), pytest.approx(ends.high))


@pytest.mark.parametrize(("n", "p"), [(9, 0.088), (10, 0.067), (11, 0.051), (12, 0.039)])
def test_printed_r_is_not_significant_only_for_few_models(n: int, p: float) -> None:
    """Points with r = 0.60 exactly: two orthogonal standardised vectors, mixed."""
    x = np.arange(n) - (n - 1) / 2
    z = x**2 - np.mean(x**2)
    y = 0.6 * x / np.linalg.norm(x) + 0.8 * z / np.linalg.norm(z)
    found = across_models(models(x.tolist(), y.tolist()))
    assert found.r == pytest.approx(0.6) and round(found.p, 3) == p


def test_no_number_without_ground() -> None:
    few = across_models(models([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]))
    assert (few.r, few.lo, few.p, few.n) == (None, None, None, 3) and "fewer than 4" in few.reason
    flat = across_models(models([1.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]))
    assert flat.r is None and "IG is the same" in flat.words
    line = across_models(models([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]))
    assert line.r == 1.0 and line.lo is None and "one line" in line.words
    holes = across_models(models([1.0, 2.0, 3.0, 4.0, None], [1.0, 3.0, 2.0, float("nan"), 1.0]))
    assert (holes.n, holes.n_left_out) == (3, 2)
    assert across_models(models([], [])).n == 0


@given(st.floats(-0.999, 0.999), st.integers(4, 5000))
def test_words_are_never_stronger_than_the_interval(r: float, n: int) -> None:
    lo, hi = fisher_interval(r, n)
    words = in_words(r, lo, hi, n)
    assert "no correlation" not in words and f"n = {n}" in words
    if lo <= 0 <= hi and (lo < -0.31 or hi > 0.31):
        assert words.endswith("too few models to say")
    if "weak" in words:
        assert -0.3 < lo and hi < 0.3
    if "higher IG" in words:
        assert lo > 0 or hi < 0


def test_lines_run_from_small_to_large_within_a_family() -> None:
    table = models(
        [0.5, 0.7, 0.6, 0.4, 0.3],
        [0.45, 0.44, 0.5, 0.5, 0.5],
        family=["F", "F", "F", "G", None],
        parameters=[8_000_000_000, 72_000_000_000, 1_000_000_000, 5, 6],
    )
    lines = across_models(table).lines
    assert list(lines.columns) == list(LINE_SCHEMA)
    assert lines["model"].to_list() == ["m2", "m0", "m1"] and lines["order"].to_list() == [0, 1, 2]
    assert lines["ig_change"].to_list() == [None, pytest.approx(-0.1), pytest.approx(0.2)]
    assert across_models(table.drop("family")).lines.is_empty()
    one = table.with_columns(parameters=pl.Series([1, None, None, 5, 6], dtype=pl.Int64))
    assert across_models(one).lines.is_empty()


def test_a_model_twice_and_a_missing_column() -> None:
    with pytest.raises(DataError, match="m0"):
        across_models(pl.concat([models([1.0], [1.0])] * 2))
    with pytest.raises(DataError, match="ua_a"):
        across_models(models([1.0], [1.0]).drop("ua_a"))


# ---- contamination ----

CUT = date(2023, 6, 30)
ITEMS = pl.DataFrame(
    {
        "item_id": list("abcdefg"),
        "is_answerable": [True, True, True, False, True, True, True],
        "date": [date(2023, 6, 30), date(2023, 7, 1), None, date(2020, 1, 1), date(2024, 1, 1), None, None],
        "source": ["iNaturalist", " INATURALIST", "iNaturalist", "Own", "Own", None, ""],
    }
)


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (Card("m"), "uuuuuuu"),
        (Card("m", cutoff=CUT), "ucuucuu"),
        (Card("m", sources=("inaturalist",)), "xxxuuuu"),
        (Card("m", sources=("inaturalist",), cutoff=CUT), "xcuucuu"),
        (Card("m", sources=("inaturalist",), sources_complete=True), "xxxccuu"),
        (Card("m", sources=("inaturalist",), cutoff=CUT, sources_complete=True), "xcuccuu"),
        (Card("m", sources_complete=True), "cccccuu"),
    ],
)
def test_status_by_source_and_date(card: Card, expected: str) -> None:
    found = contamination(ITEMS, card)
    assert found["item_id"].to_list() == ITEMS["item_id"].to_list()
    short = {"clean": "c", "unknown": "u", "contaminated": "x"}
    assert "".join(short[s] for s in found["status"]) == expected
    assert found["reason"].null_count() == 0


def test_items_without_date_and_source_are_unknown() -> None:
    found = contamination(ITEMS.select("item_id"), Card("m", cutoff=CUT, sources=("x",), sources_complete=True))
    assert set(found["status"]) == {"unknown"}


def test_counts_add_up() -> None:
    cards = [Card("m", sources=("inaturalist",), cutoff=CUT), Card("k")]
    counts = contamination_counts(pl.concat([contamination(ITEMS, c) for c in cards]), ITEMS)
    assert counts.select("model", "status", "n").rows() == [
        *(("m", "clean", 2), ("m", "unknown", 4), ("m", "contaminated", 1)),
        *(("k", "clean", 0), ("k", "unknown", 7), ("k", "contaminated", 0)),
    ]
    assert counts["share"].to_list() == pytest.approx([2 / 7, 4 / 7, 1 / 7, 0, 1, 0])
    unknown = counts.filter(model="m", status="unknown").row(0, named=True)
    assert (unknown["n_answerable"], unknown["n_unanswerable"]) == (3, 1)
    assert "(2)" in unknown["reason"] and counts.filter(model="k", status="clean")["reason"].item() is None
    assert contamination_counts(contamination(ITEMS.clear(), cards[0]), ITEMS).is_empty()


def test_card_is_read_and_refused_whole() -> None:
    card = read_card(
        "m", {"family": "F", "parameters": 7e9, "cutoff": CUT, "sources": ["a", "b"], "training_images": None}
    )
    assert card == Card("m", "F", 7_000_000_000, None, CUT, ("a", "b"))
    assert cards_frame([card, Card("k")])["sources"].to_list() == ["a|b", None]
    wrong = {"parameters": 0, "cutoff": "June", "sources": "iNaturalist", "sources_complete": 1, "colour": "red"}
    with pytest.raises(ParameterError) as error:
        read_card("m", {**wrong, "training_images": True, "family": " "})
    assert {p.key for p in error.value.problems} == {*wrong, "training_images", "family"}


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.5, -3, "7B", [1]])
def test_counts_of_a_card_are_whole(value: object) -> None:
    with pytest.raises(ParameterError):
        read_card("m", {"parameters": value})


# ---- published ----


def number(**where: str) -> float:
    return published(["realbirdid"]).filter(**{"group": "all", **where})["published"].item()


def test_published_rows_are_metrics_without_values() -> None:
    table = published(["realbirdid", "nobody"])
    schemas.TABLES["metrics"].validate(table)
    assert table["value"].null_count() == table.height and table["published"].null_count() == 0
    assert table["source"].null_count() == 0
    assert table["reason"].str.starts_with("published, not computed here").all()
    assert published([]).is_empty() and published(["western_bluebird"]).is_empty()


def test_printed_counts_add_up() -> None:
    parts = (number(metric="n_answerable"), number(metric="n_unanswerable"), number(metric="n_images"))
    assert parts == (31_885, 3_253, 35_138) and parts[0] + parts[1] == parts[2]
    assert round(number(metric="n_species") / number(metric="n_genera"), 1) == 13.9
    assert round(parts[0] / number(metric="n_species"), 1) == 9.3


def test_printed_means_are_near_those_of_the_rows() -> None:
    table = published_models()
    assert round(100 * table["ig"].mean(), 1) == 58.2 or round(100 * table["ig"].mean(), 2) == 58.15
    assert round(100 * table["ua_a"].mean(), 1) == 45.6
    assert (table["ua_a"] > 0.5).sum() == 1
    plain = {m: number(metric=m, group="variant", level="plain") for m in ("ig", "ua_a")}
    assert plain == {"ig": 0.572, "ua_a": 0.458}
    assert abs(table["ig"].mean() - plain["ig"]) < 0.01 and abs(table["ua_a"].mean() - plain["ua_a"]) < 0.01


def test_ig_lies_above_the_curve_without_ranking_and_below_one() -> None:
    """With depth weights the area through (0, 1), (1/2, A-genus), (1, A-species) is a lower bound on a fair ranking."""
    for model, bound in (
        ("BioCLIP", 0.577),
        ("MetaCLIP-L/14", 0.560),
        ("Gemini-2.5 Pro", 0.546),
        ("GPT-5", 0.504),
        ("Qwen2.5-VL-7B", 0.470),
    ):
        s, g = number(metric="a_species_accuracy", model=model), number(metric="a_genus_accuracy", model=model)
        area = 0.5 * (1 + g) / 2 + 0.5 * (g + s) / 2
        assert area == pytest.approx(bound, abs=1e-3)
        assert area < number(metric="ig", model=model) < 1


def test_printed_reasons_are_abstention_rates() -> None:
    table = published(["realbirdid"]).filter(metric="abstention_rate")
    assert table.height == 12 and set(table["level"]) == {"quality", "angle", "vocalization"}
    assert table.filter(model="InternVL3", level="angle")["published"].item() == 0.291
    assert table["reason"].str.contains("whatever reason it gives").all()
    sd = published(["realbirdid"]).filter(metric="abstention_rate_sd")
    assert (sd["model"].item(), sd["published"].item()) == ("InternVL3", 0.101)
