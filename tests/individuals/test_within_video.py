"""Errors within video, and intervals of the F1 of pecks and of OKS AP, against direct computation."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_colonies import Made
from scipy.stats import t as student

from birdlab.individuals.errors import POOLED, WITHIN, error_summary
from birdlab.individuals.evaluate import evaluate
from birdlab.individuals.oks import MEASURES, oks_average_precision, oks_intervals, oks_numbers
from birdlab.readers.chirp import Colony
from birdlab.readers.coco_keypoints import Instance, Poses


def _colony(made: SimpleNamespace) -> Colony:
    return Colony(**vars(made), notices=pl.DataFrame())


def test_within_video_equals_pandas_per_video() -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"v": rng.choice(list("abcde"), 60), "t": rng.normal(3, 2, 60)})
    frame["p"] = frame["t"] + rng.normal(0.5, 1, 60) + frame["v"].map(dict(zip("abcde", range(5), strict=True)))
    found = error_summary(frame["t"], frame["p"], group=frame["v"].to_numpy())
    frame["d"] = frame["p"] - frame["t"]
    frame["e"] = frame["d"].abs()
    by = frame.groupby("v")
    assert found["mean_abs_error_within"] == pytest.approx(by["e"].mean().mean())
    assert found["median_abs_error_within"] == pytest.approx(by["e"].median().mean())
    assert found["sd_abs_error_within"] == pytest.approx(by["e"].std().mean())
    assert found["bias_within"] == pytest.approx(by["d"].mean().mean())
    s = np.sqrt((by["d"].var() * (by.size() - 1)).sum() / (60 - 5))
    assert found["loa_hi_within"] - found["bias_within"] == pytest.approx(1.96 * s)
    t, p = (frame[c] - by[c].transform("mean") for c in "tp")
    assert found["r_within"] == pytest.approx(np.corrcoef(t, p)[0, 1])
    assert found["ccc_within"] == pytest.approx(2 * (t @ p) / (t @ t + p @ p))


def test_a_shift_of_whole_videos_is_no_error_within_them() -> None:
    truth, video = np.array([1.0, 2, 3, 1, 2, 3]), np.repeat(["a", "b"], 3)
    found = error_summary(truth, truth + np.repeat([4.0, -4.0], 3), group=video)
    assert found["ccc_within"] == pytest.approx(1) and found["ccc"] < 0.2
    assert found["bias_within"] == found["loa_lo_within"] == found["loa_hi_within"] == 0
    assert found["loa_hi"] > 8


def test_one_number_per_video_has_no_scatter_within() -> None:
    found = error_summary([1, 2, 3], [2, 2, 5], group=["a", "b", "c"])
    assert found["mean_abs_error_within"] == found["mean_abs_error"]
    for name in ("sd_abs_error", "loa_lo", "loa_hi", "r", "ccc"):
        assert found[f"{name}_within"] is None
    assert all(error_summary([1, 2, 3], [2, 2, 5])[name] is None for name in WITHIN)


def test_a_prediction_that_does_not_vary_within_video_has_no_r_there() -> None:
    video = np.repeat(["a", "b"], 5)
    found = error_summary(np.arange(10.0), np.repeat([0.1 + 0.2, 1 / 7], 5), group=video)
    assert found["r"] is not None and found["r_within"] is None and found["ccc_within"] == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_one_video_is_the_same_pooled_and_within(seed: int) -> None:
    t, p = np.random.default_rng(seed).normal(size=(2, 9))
    found = error_summary(t, p, group=["only"] * 9)
    for pooled, within in zip(POOLED, WITHIN, strict=True):
        if pooled != "ccc":  # the shift between the sides is taken out of it
            assert found[within] == pytest.approx(found[pooled])


def test_f1_of_pecks_has_the_interval_of_leaving_each_video_out() -> None:
    made = Made()
    for k, right in enumerate([(0, 25, 50), (0, 50), (75,), (0, 25, 75)]):
        v = f"v{k}"
        made.video(v, 100).track("t", v, "1", range(100), 0).track("t", v, "2", range(100), 1)
        for lane, bird in enumerate("ab"):
            made.visit(v, f"{bird}_1", bird, range(100), lane).name("n", "t", v, str(lane + 1), bird)
            for start in (0, 25, 50)[lane:]:
                made.peck(v, bird, start + 3, start + 5)
            for start in right:
                made.window("m", "t", v, str(lane + 1), start, start + 25)
    colony = _colony(made.combination("t", "m", "n").done())
    row = evaluate(colony).summary.to_dicts()[0]
    kept = []
    for out in row["videos"]:
        part = dataclasses.replace(colony, videos=colony.videos.filter(pl.col("video_id") != out))
        kept.append(evaluate(part).summary["feeding_f1"][0])
    spread = np.sqrt(3 / 4 * ((np.array(kept) - np.mean(kept)) ** 2).sum())
    half = student.ppf(0.975, 3) * spread
    assert len(set(kept)) > 2 and row["feeding_f1_no_ends"] is None
    assert row["feeding_f1_lo"] == pytest.approx(max(0, row["feeding_f1"] - half))
    assert row["feeding_f1_hi"] == pytest.approx(min(1, row["feeding_f1"] + half))


def test_f1_of_one_video_has_no_interval_and_says_why() -> None:
    made = Made().video("v", 100).visit("v", "a_1", "a", range(100), 0).peck("v", "a", 10, 12)
    made.track("t", "v", "1", range(100), 0).name("n", "t", "v", "1", "a").window("m", "t", "v", "1", 0, 25)
    row = evaluate(_colony(made.combination("t", "m", "n").done())).summary.to_dicts()[0]
    assert row["feeding_f1"] == 1 and row["feeding_f1_lo"] is None
    assert row["feeding_f1_no_ends"] == "one video: nothing can be said about another"


def _poses(seed: int, scatter: float, truth: Poses | None = None) -> Poses:
    rng = np.random.default_rng(seed)
    images = {f"i{k}": {"video": f"v{k % 4}", "scene": None, "file_name": None, "frame": None} for k in range(16)}
    birds = []
    for k in range(24):
        at = rng.uniform(20, 200, 2) if truth is None else truth.instances[k].points[0, :2]
        points = np.column_stack([at + rng.normal(0, scatter, (3, 2)), np.full(3, 2.0)])
        birds.append(Instance(str(k), f"i{k % 16}", points, (*(at - 40), 80.0, 80.0), 6400.0, float(rng.random())))
    return Poses(("a", "b", "c"), images, birds)


def test_oks_ap_has_the_interval_of_leaving_each_video_out() -> None:
    truth = _poses(0, 8)
    found = _poses(1, 9, truth)
    ends, whole = oks_intervals(truth, found, [0.1] * 3), oks_average_precision(truth, found, [0.1] * 3)
    parts = []
    for out in ("v0", "v1", "v2", "v3"):
        images = {k: v for k, v in truth.images.items() if v["video"] != out}
        cut = [
            dataclasses.replace(p, images=images, instances=[b for b in p.instances if b.image_id in images])
            for p in (truth, found)
        ]
        parts.append(oks_average_precision(*cut, [0.1] * 3))
    for name in MEASURES:
        values = [p[name] for p in parts]
        if None in values:
            assert ends[name].lo is None and ends[name].reason
            continue
        spread = np.sqrt(3 / 4 * ((np.array(values) - np.mean(values)) ** 2).sum())
        if spread < 1e-12:
            assert ends[name].lo is None
            continue
        half = student.ppf(0.975, 3) * spread
        assert ends[name].lo == pytest.approx(max(0.0, whole[name] - half), abs=1e-12)
        assert ends[name].hi == pytest.approx(min(1.0, whole[name] + half), abs=1e-12)
    assert ends["ap"].lo is not None and ends["ap"].n_clusters == 4


def test_oks_ap_without_videos_or_birds_says_why_there_is_no_interval() -> None:
    truth = _poses(0, 8)
    nowhere = dataclasses.replace(truth, images={k: {**v, "video": None} for k, v in truth.images.items()})
    rows = oks_numbers(nowhere, truth, [0.1] * 3)
    assert rows[0]["value"] == pytest.approx(1) and rows[0]["reason"] == "pictures without a video: no interval"
    nobody = dataclasses.replace(truth, instances=[])
    assert oks_numbers(nobody, nobody, [0.1] * 3)[0]["reason"] == "no bird with a keypoint by hand"
