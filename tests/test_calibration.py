"""Calibration by hand, against scikit-learn, and what must always hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.detection.calibration import NOTHING, ONE_SCORE, calibration, equal_mass
from birdlab.errors import ParameterError


def study(
    score: np.ndarray, right: np.ndarray, *, per_frame: int = 2, model: str = "m"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Matches of one model with these scores, and their frames."""
    frame = np.arange(len(score)) // per_frame
    names = [f"f{i}" for i in range(int(frame.max()) + 1 if len(frame) else 1)]
    frames = pl.DataFrame({"frame_id": names}).with_columns(
        media_id="frame_id", video_id=pl.lit("v"), label_state=pl.lit("labelled")
    )
    table = pl.DataFrame(
        {
            "frame_id": [f"f{i}" for i in frame],
            "score": np.asarray(score, dtype=float),
            "outcome": np.where(right, "tp", "fp").tolist(),
        }
    )
    table = table.with_columns(
        model=pl.lit(model),
        video_id=pl.lit("v"),
        category=pl.lit("bird"),
        iou_thr=0.5,
        score_thr=0.0,
        protocol=pl.lit("greedy"),
    )
    return schemas.TABLES["matches"].conform(table), schemas.TABLES["frames"].conform(frames)


def test_equals_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss

    rng = np.random.default_rng(1)
    score = rng.random(500)
    right = rng.random(500) < score**2
    got = calibration(*study(score, right), n_bins=10)
    true, mean = calibration_curve(right, score, n_bins=10, strategy="quantile")
    assert got.bins["n"].to_list() == [50] * 10
    assert got.bins["precision"].to_list() == pytest.approx(true.tolist(), abs=1e-12)
    assert got.bins["mean_score"].to_list() == pytest.approx(mean.tolist(), abs=1e-12)
    row = got.summary.row(0, named=True)
    assert row["brier"] == pytest.approx(brier_score_loss(right, score), abs=1e-12)
    assert row["ece"] == pytest.approx(np.mean(np.abs(true - mean)), abs=1e-12)
    assert row["gap"] > 0.1 and row["brier"] < row["brier_constant"]


def test_by_hand() -> None:
    score = np.array([0.2] * 20 + [0.8] * 20)
    right = np.array([1] * 5 + [0] * 15 + [1] * 10 + [0] * 10)
    got = calibration(*study(score, right))
    assert got.bins.select("lo", "hi", "n", "n_right", "precision").rows() == [
        (0.2, 0.2, 20, 5, 0.25),
        (0.8, 0.8, 20, 10, 0.5),
    ]
    row = got.summary.row(0, named=True)
    assert row["ece"] == pytest.approx((0.05 + 0.3) / 2) and row["gap"] == pytest.approx(0.5 - 0.375)
    assert row["brier"] == pytest.approx((5 * 0.64 + 15 * 0.04 + 10 * 0.04 + 10 * 0.64) / 40)
    assert row["brier_constant"] == pytest.approx(0.375 * 0.625) and row["n_bins"] == 2 and row["reason"] is None


def test_intervals_count_frames_not_detections() -> None:
    score = np.repeat(np.linspace(0.1, 0.9, 40), 2)
    right = np.repeat(np.arange(40) % 2 == 0, 2)
    bins = calibration(*study(score, right), n_bins=1).bins.row(0, named=True)
    assert bins["n"] == 80 and bins["n_clusters"] == 40
    assert bins["within_hi"] - bins["within_lo"] > 0.28  # as 40 independent ones, not 80


def test_few_detections_give_few_bins_and_misses_do_not_count() -> None:
    matches, frames = study(np.linspace(0.1, 0.9, 45), np.arange(45) % 3 == 0)
    missed = matches.head(5).with_columns(
        outcome=pl.lit("fn").cast(matches.schema["outcome"]), score=pl.lit(None, pl.Float64)
    )
    ignored = matches.head(5).with_columns(outcome=pl.lit("ignored").cast(matches.schema["outcome"]))
    got = calibration(pl.concat([matches, missed, ignored]), frames)
    assert got.summary["n"].to_list() == [45] and got.bins["n"].to_list() == [23, 22]


def test_nothing_and_one_score() -> None:
    matches, frames = study(np.array([0.5]), np.array([False]))
    only_missed = matches.with_columns(
        outcome=pl.lit("fn").cast(matches.schema["outcome"]), score=pl.lit(None, pl.Float64)
    )
    got = calibration(only_missed, frames)
    assert got.bins.is_empty() and got.summary.row(0, named=True)["reason"] == NOTHING
    assert got.summary.select("ece", "brier", "precision").row(0) == (None, None, None)
    assert calibration(matches.clear(), frames).summary.is_empty()
    same = calibration(*study(np.full(60, 0.7), np.arange(60) < 42))
    assert same.bins.height == 1 and same.summary["reason"][0] == ONE_SCORE
    assert same.summary["ece"][0] == pytest.approx(0.0)
    with pytest.raises(ParameterError):
        calibration(matches, frames, n_bins=0)


@settings(deadline=None, max_examples=80)
@given(
    scores=st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=90),
    n_bins=st.integers(1, 12),
)
def test_equal_scores_are_never_parted_and_the_parts_add_up(scores: list[float], n_bins: int) -> None:
    code = equal_mass(scores, n_bins=n_bins)
    assert code.max() < n_bins and sorted(set(code.tolist())) == list(range(int(code.max()) + 1))
    for value in set(scores):
        assert len(set(code[np.array(scores) == value].tolist())) == 1
    right = np.arange(len(scores)) % 2 == 0
    got = calibration(*study(np.array(scores), right), n_bins=n_bins)
    assert got.bins["n"].sum() == len(scores) and got.bins["n_right"].sum() == right.sum()
    row = got.summary.row(0, named=True)
    assert 0 <= row["ece"] <= 1 and 0 <= row["brier"] <= 1 and abs(row["gap"]) <= row["ece"] + 1e-12
