"""The made ringed birds: what was planted is what chapter 05 finds, from raw frames on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def truth(demo_run: Path) -> dict[str, Any]:
    return json.loads((demo_run / "data" / "reid" / "truth.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def table(demo_run: Path):
    return lambda name: pl.read_parquet(demo_run / "tables" / f"{name}.parquet")


def test_rings_are_found_in_raw_frames_without_given_masks(table) -> None:
    scores = table("ring_segments").row(0, named=True)
    assert scores["recall"] > 0.88 and scores["precision"] > 0.94 and scores["n_given"] > 1000


def test_rings_beat_guessing_and_birdlab_names_fewer_birds_wrong(table) -> None:
    called = table("ring_called").filter(assignment="joint")
    for gallery in ("territory", "neighbours", "all"):
        rows = {r["matcher"]: r for r in called.filter(gallery=gallery).to_dicts()}
        assert rows["birdlab"]["best_right_lo"] > rows["birdlab"]["chance"]
        assert rows["published"]["right_lo"] > rows["published"]["chance"]
        assert rows["birdlab"]["wrong_hi"] < rows["published"]["wrong"] / 1.5
        assert rows["birdlab"]["best_right"] > rows["published"]["right"]


def test_the_short_list_helps_the_published_rule_most(table) -> None:
    points = table("reid_lists").filter(split="closed", model="rings (published)")
    top = dict(points.select("gallery", "top1").rows())
    assert top["territory"] > top["neighbours"] > top["all"]


def test_planted_colours_are_the_ones_that_are_confused(table, truth: dict[str, Any]) -> None:
    confusion = table("ring_confusion").filter(pl.col("truth") != pl.col("read"))
    pairs = {tuple(sorted(pair)) for pair in truth["difficult_colours"]}
    shares = {
        (r["truth"], r["read"]): r["share"] or 0.0
        for r in confusion.to_dicts()
    }  # fmt: skip
    planted = [v for (a, b), v in shares.items() if tuple(sorted((a, b))) in pairs]
    others = [v for (a, b), v in shares.items() if tuple(sorted((a, b))) not in pairs]
    assert sum(planted) / len(planted) > 4 * sum(others) / len(others)


def test_a_code_used_again_belongs_to_the_bird_of_that_day(table, truth: dict[str, Any]) -> None:
    first, second = truth["same_code_another_year"]
    roster, scores = table("ring_roster"), table("ring_scores")
    codes = roster.filter(pl.col("individual_id").is_in([first, second]))
    assert codes["code"].n_unique() == 1
    dates = table("reid_clips").select("clip_id", "date")
    ranked = scores.filter(gallery="all").join(dates, on="clip_id")
    died = codes.filter(individual_id=first)["valid_to"][0]
    assert ranked.filter(pl.col("date") > died, individual_id=first).is_empty()
    mine = ranked.filter(individual_id=second)
    assert mine.height and mine["date"].min() > died


def test_strangers_and_unlisted_birds_are_counted_wrong_not_dropped(table, truth: dict[str, Any]) -> None:
    outcomes = table("reid_outcomes").filter(
        pl.col("split").cast(pl.String) == "closed", pl.col("gallery").cast(pl.String) == "all", model="feathers"
    )
    lost = outcomes.filter(individual_id=truth["query_without_gallery"])
    assert lost.height == 2 and lost["n_above"].null_count() == 2 and not lost["is_known"].any()
    metrics = table("metrics_reid").filter(group="closed", level="all", model="feathers", metric="n_not_ranked")
    metrics = pl.concat(
        [metrics, table("metrics_reid").filter(group="closed", level="all", model="feathers", metric="n_not_listed")]
    )
    assert metrics["value"].sum() == 2


def test_no_protocol_of_the_demo_leaks(table) -> None:
    assert "leak" not in set(table("reid_leaks")["verdict"])


def test_clips_of_two_birds_at_once_are_those_that_were_planted(table, truth: dict[str, Any]) -> None:
    asked = set(table("ring_calls")["clip_id"])
    planted = {tuple(sorted(pair)) for pair in truth["together"] if set(pair) <= asked}
    assert {tuple(sorted(pair)) for pair in table("ring_together").select("clip_id", "other_id").rows()} == planted
    calls = table("ring_calls").filter(pl.col("assignment").cast(pl.String) == "joint", matcher="birdlab")
    for gallery in ("territory", "neighbours", "all"):
        rows = calls.filter(pl.col("gallery").cast(pl.String) == gallery)
        named = dict(rows.select("clip_id", "individual_id").rows())
        assert not any(named.get(a) and named.get(a) == named.get(b) for a, b in planted)


def test_clips_without_a_visible_ring_get_no_name(table, truth: dict[str, Any]) -> None:
    bare = set(truth["without_visible_rings"]["clips"])
    calls = table("ring_calls").filter(pl.col("clip_id").is_in(list(bare)), matcher="birdlab")
    found = calls.filter(pl.col("n_with_rings") == 0)
    assert found["individual_id"].null_count() == found.height and found["reason"].null_count() == 0


def test_methods_that_cannot_be_asked_are_rows_with_a_reason(table) -> None:
    refused = table("reid_refused")
    assert set(refused["model"]) == {"rings (published)"} and set(refused["split"]) == {"open"}
    rows = table("metrics_reid").filter(model="rings (published)", group="open", metric="top1")
    assert rows["value"].null_count() == rows.height == 6
    assert rows["reason"].str.contains("cannot say that one is new").all()


def test_a_posterior_is_calibrated_where_it_is_fitted_on_other_videos(table) -> None:
    ece = table("metrics_rings").filter(metric="rings_ece")
    assert ece["value"].max() < 0.2 and ece["lo"].min() < 0.05
    fits = table("ring_temperatures").drop_nulls("fold")
    assert fits.height >= 3 and (fits["log_loss"] <= fits["log_loss_before"] + 1e-9).all()
