"""Time offset and tolerance curve: planted shifts, chance, hand-counted matches."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from birdlab.individuals.offset import closest, time_offset, tolerance_curve


def pecks(seed: int, n: int = 40, birds: str = "abc", videos: int = 3, n_frames: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    size = n * videos
    return pl.DataFrame({
        "video_id": [f"v{k % videos}" for k in range(size)],
        "individual_id": rng.choice(list(birds), size).tolist(),
        "start": rng.integers(0, n_frames, size).tolist(),
    })  # fmt: skip


@pytest.mark.parametrize("shift", [-50, -7, 0, 1, 10, 62])
def test_planted_shifts_are_found_exactly(shift: int) -> None:
    truth = pecks(shift + 100)
    found = time_offset(truth, truth.with_columns(pl.col("start") + shift), 25.0)
    assert found.seconds == pytest.approx(shift / 25)
    assert found.lo <= found.seconds <= found.hi
    assert found.hi - found.lo <= 0.2
    assert (found.n_truth, found.n_other, found.reason) == (120, 120, None)


@pytest.mark.parametrize("seed", range(4))
def test_a_shift_is_found_with_lost_and_false_pecks_and_unsteady_hands(seed: int) -> None:
    truth, rng = pecks(seed), np.random.default_rng(seed)
    kept = truth.sample(fraction=0.7, seed=seed)
    kept = kept.with_columns(start=pl.col("start") + 20 + pl.Series(rng.integers(-1, 2, kept.height)))
    found = time_offset(truth, pl.concat([kept, pecks(seed + 50, n=10)]), 25.0)
    assert found.seconds == pytest.approx(0.8, abs=0.0401)


def test_coarse_bins_find_a_shift_of_windows() -> None:
    truth = pecks(3, birds="ab")
    windows = truth.with_columns(pl.col("start") + 15)
    assert time_offset(truth, windows, 25.0, step_s=0.2).seconds == pytest.approx(0.6)


def test_chance_is_flat() -> None:
    found = [time_offset(pecks(k, n=n), pecks(k + 5000, n=n), 25.0) for n in (4, 15, 60) for k in range(60)]
    assert sum(f.seconds is not None for f in found) <= 4  # of 180
    assert {f.reason for f in found if f.seconds is None} <= {
        "no shift fits clearly better than the others", "the best shift lies at the end of the range, so look further",
    }  # fmt: skip


def test_few_pecks_give_no_estimate() -> None:
    truth = pecks(1)
    found = time_offset(truth, truth.head(4), 25.0)
    assert (found.seconds, found.n_other) == (None, 4)
    assert found.reason == "fewer than 5 pecks on one side"
    exact = truth.head(5)
    assert time_offset(exact, exact.with_columns(pl.col("start") + 5), 25.0).seconds == 0.2


def test_birds_and_videos_are_never_mixed() -> None:
    truth = pecks(2)
    other = truth.with_columns(individual_id=pl.col("individual_id") + "x")
    assert time_offset(truth, other, 25.0).seconds is None
    assert tolerance_curve(truth, other, 25.0)["n_matched"].max() == 0


def test_the_curve_is_counted_by_hand() -> None:
    truth = pl.DataFrame({"video_id": "v", "individual_id": "a", "start": [0, 50, 100, 400]})
    other = pl.DataFrame({"video_id": "v", "individual_id": "a", "start": [10, 60, 125]})
    curve = tolerance_curve(truth, other, 25.0, 1.0, n_points=6)  # 0, 0.2 … 1 s are 0, 5 … 25 frames
    assert curve["n_matched"].to_list() == [0, 0, 2, 2, 2, 3]
    assert curve["f1"].to_list() == pytest.approx([0, 0, 4 / 7, 4 / 7, 4 / 7, 6 / 7])
    last = curve.row(-1, named=True)
    assert (last["precision"], last["recall"]) == (1, 0.75)


def test_the_offset_moves_the_curve_to_the_left() -> None:
    truth = pecks(8)
    late = truth.with_columns(pl.col("start") + 10)
    curve = tolerance_curve(truth, late, 25.0, offset=time_offset(truth, late, 25.0))
    at_zero = curve.filter(tolerance_s=0).sort("corrected")
    assert at_zero["f1"].to_list()[1] == 1.0 and at_zero["f1"].to_list()[0] < 0.2
    assert at_zero["offset_s"].to_list() == [0.0, 0.4]
    for _, part in curve.group_by("corrected"):
        assert part["f1"].is_sorted()


def test_nobody_pecks() -> None:
    none = pecks(1).clear()
    curve = tolerance_curve(none, none, 25.0, n_points=2)
    assert curve["f1"].to_list() == [None, None]
    assert curve["reason"].to_list() == ["no peck on either side"] * 2
    assert tolerance_curve(pecks(1), none, 25.0)["f1"].unique().to_list() == [0.0]


def test_greedy_matching_against_a_plain_loop() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        a, b = (np.sort(rng.integers(0, 60, rng.integers(1, 8))) for _ in range(2))
        pairs = sorted((abs(int(y) - int(x)), i, j) for i, x in enumerate(a) for j, y in enumerate(b))
        used_a, used_b, gaps = set(), set(), []
        for gap, i, j in pairs:
            if i not in used_a and j not in used_b:
                used_a.add(i), used_b.add(j), gaps.append(gap)
        assert closest(a, b).tolist() == gaps
