"""Intervals and comparisons: drawn recordings scored one by one, weights, and runs that do not differ."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from birdlab.abstention.resampling import resamples
from birdlab.errors import ParameterError
from birdlab.individuals.jackknife import leave_one_out
from birdlab.soundscapes.coded import Coded, Grid, Truth
from birdlab.soundscapes.compare import leaderboard, paired_differences, species_differences
from birdlab.soundscapes.drawn import heard_by_cluster, weighted_ap
from birdlab.soundscapes.resample import (
    class_intervals,
    class_means,
    cmap_estimate,
    resample_run,
    rmap_interval,
    segment_clusters,
)
from birdlab.soundscapes.scores import class_scores, run_scores, segment_scores
from birdlab.stats import holm


def made(seed, n_media=6, per=8, n_classes=4, *, digits=1, skill=0.25, name="run", beyond=0):
    rng = np.random.default_rng(seed)
    n = n_media * per
    y = (rng.random((n_media, 1, n_classes)) < 0.5) & (rng.random((n_media, per, n_classes)) < 0.5)
    y = y.reshape(n, n_classes)
    s = np.clip(rng.normal(0.4, 0.2, y.shape) + skill * y, 0, 1).round(digits)
    s[rng.random(y.shape) < 0.2] = np.nan
    where = np.column_stack([rng.integers(0, n_media, beyond), np.arange(beyond) + per])
    s = np.vstack([s, rng.random((beyond, n_classes)).round(digits)])
    offsets = np.arange(n_media + 1) * per
    grid = Grid(tuple(f"m{i}" for i in range(n_media)), offsets, np.ones(n_media, dtype=bool))
    cls, seg = np.nonzero(y.T)
    truth = Truth(grid, tuple(f"c{i}" for i in range(n_classes)), seg.astype(np.int32), cls.astype(np.int32))
    return truth, listed(s, name, beyond, where)


def listed(s, name="run", beyond=0, where=None):
    cls, seg = np.nonzero(~np.isnan(s.T))
    starts = np.searchsorted(cls, np.arange(s.shape[1] + 1))
    return Coded(name, seg.astype(np.int32), cls.astype(np.int32), s.T[cls, seg], starts, (), beyond, where)


def drawn_ap(truth, run, weight_of_segment, n_heard):
    """Average precision after writing every segment down as often as it is drawn, sorted row by row."""
    out = []
    for c in np.flatnonzero(truth.n_rel):
        heard = set(truth.seg[truth.cls == c].tolist())
        seg, score = run.of_class(int(c))
        rows = [
            (-p, s not in heard)
            for s, p in zip(seg.tolist(), score.tolist(), strict=True)
            for _ in range(weight_of_segment[s])
        ]
        n_rel = sum(weight_of_segment[s] for s in heard)
        tp = total = 0
        for rank, (_, wrong) in enumerate(sorted(rows), start=1):
            tp += not wrong
            total += 0 if wrong else tp / rank
        out.append(total / n_rel if n_rel else np.nan)
    assert len(out) == n_heard
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 10]), st.sampled_from([0, 5]), st.booleans())
def test_weights_are_copies(seed, digits, beyond, known):
    truth, run = made(seed, digits=digits, beyond=beyond)
    if not known:
        run = Coded(run.name, run.seg, run.cls, run.score, run.starts, (), beyond)
    clusters = segment_clusters(truth)
    weights = np.vstack([np.ones((1, 6), dtype=int), resamples(6, 4, seed), 1 - np.eye(6, dtype=int)])
    values = weighted_ap(truth, run, clusters, weights)
    for w, row in zip(weights, values, strict=True):
        past = w[run.beyond[:, 0]] if beyond and known else np.ones(beyond, dtype=int)
        expected = drawn_ap(truth, run, np.append(np.repeat(w, 8), past).tolist(), values.shape[1])
        np.testing.assert_allclose(row, expected, atol=1e-10)


def test_weights_of_one_give_the_score():
    truth, run = made(1, n_media=30, n_classes=12, digits=2)
    found = resample_run(truth, run, segment_clusters(truth), n_resamples=100)
    assert found.ap.tolist() == pytest.approx(class_scores(truth, run)["ap"].to_list(), abs=1e-12)
    assert found.cmap == pytest.approx(run_scores(truth, run)["cmap"], abs=1e-12)


def test_long_lists_are_worked_on_in_parts(monkeypatch):
    truth, run = made(2, n_media=25, per=20, digits=10)
    clusters, weights = segment_clusters(truth), resamples(25, 50, 0)
    whole = weighted_ap(truth, run, clusters, weights)
    monkeypatch.setattr("birdlab.soundscapes.drawn._CELLS", 350)
    np.testing.assert_allclose(weighted_ap(truth, run, clusters, weights), whole, atol=1e-12)


def test_weights_sum_to_the_clusters_and_seeds_repeat():
    truth, run = made(3, n_media=24)
    assert set(resamples(24, 100, 7).sum(axis=1).tolist()) == {24}
    clusters = segment_clusters(truth)
    a, b, c = (resample_run(truth, run, clusters, n_resamples=100, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.draws, b.draws)
    assert not np.array_equal(a.draws, c.draws)
    assert heard_by_cluster(truth, clusters).sum(axis=0).tolist() == truth.n_rel[truth.n_rel > 0].tolist()


def test_a_class_that_is_not_drawn_is_skipped_and_counted():
    truth, run = made(4, n_media=25, n_classes=3)
    keep = (truth.cls != 2) | (truth.seg < 8)
    keep[np.flatnonzero(truth.cls == 2)[0]] = True
    truth = Truth(truth.grid, truth.classes, truth.seg[keep], truth.cls[keep])
    if not (truth.cls == 2).any():
        truth = Truth(truth.grid, truth.classes, np.append(truth.seg, 0), np.append(truth.cls, 2))
    clusters = segment_clusters(truth)
    found = resample_run(truth, run, clusters, n_resamples=400)
    weights = resamples(25, 400, 0)
    home = clusters.codes[truth.seg[truth.cls == 2][0]]
    assert np.isnan(found.draws[:, 2]).tolist() == (weights[:, home] == 0).tolist()
    e = cmap_estimate(found)
    assert e.n_skipped == int((weights[:, home] == 0).sum()) and e.method == "bootstrap"
    np.testing.assert_allclose(class_means(found.draws), np.nanmean(found.draws, axis=1), atol=1e-14)
    row = class_intervals(found).row(2, named=True)
    assert row["lo"] is None and row["reason"] == "heard in 1 recording: too few for an interval"


def test_few_recordings_are_left_out_one_by_one():
    truth, run = made(5, n_media=9, per=12)
    clusters = segment_clusters(truth)
    found = resample_run(truth, run, clusters)
    assert found.draws is None
    e = cmap_estimate(found)
    assert (
        e.method == "leave_one_out"
        and e.reason == "heard in 9 recordings: each recording left out once, none drawn anew"
    )

    def measure(used):
        weights = np.bincount(used, minlength=9)[None, :]
        return float(class_means(weighted_ap(truth, run, clusters, weights))[0])

    lo, hi, _ = leave_one_out(measure, 9, unit="recording")
    assert (e.lo, e.hi) == (pytest.approx(lo), pytest.approx(hi))
    rows = class_intervals(found)
    assert set(rows.filter(pl.col("n_clusters") < 5)["reason"].str.contains("too few")) <= {True}
    assert rows.filter(pl.col("n_clusters") >= 5)["lo"].null_count() == 0


def test_one_recording_says_nothing_about_another():
    truth, run = made(6, n_media=1, per=40)
    e = cmap_estimate(resample_run(truth, run, segment_clusters(truth)))
    assert (e.lo, e.hi, e.reason) == (None, None, "heard in 1 recording: too few for an interval")


def test_nothing_heard_has_no_interval():
    truth, run = made(6, n_media=2)
    truth = Truth(truth.grid, truth.classes, truth.seg[:0], truth.cls[:0])
    found = resample_run(truth, run, segment_clusters(truth))
    assert cmap_estimate(found)[:3] == (None, None, None)
    assert class_intervals(found).height == 0 and paired_differences([found, found])["difference"].item() is None


def test_intervals_hold_the_value_and_stay_inside():
    truth, run = made(7, n_media=40, n_classes=6, skill=0.6)
    found = resample_run(truth, run, segment_clusters(truth), n_resamples=300)
    e = cmap_estimate(found)
    assert 0 <= e.lo < e.value < e.hi <= 1 and e.reason is None and e.df == e.n_clusters - 1
    rows = class_intervals(found).drop_nulls("lo")
    assert rows.filter((pl.col("lo") > pl.col("ap")) | (pl.col("hi") < pl.col("ap"))).height == 0
    assert rows["lo"].min() >= 0 and rows["hi"].max() <= 1


def test_a_perfect_run_has_no_interval_of_zero_width():
    truth, _ = made(8, n_media=25)
    perfect = np.full((200, 4), np.nan)
    perfect[truth.seg, truth.cls] = 1.0
    e = cmap_estimate(resample_run(truth, listed(perfect), segment_clusters(truth), n_resamples=100))
    assert (e.value, e.lo, e.reason) == (1.0, None, "the same in every resample")


def test_days_join_recordings():
    truth, _ = made(9, n_media=4)
    starts = [dt.datetime(2017, 3, 1, 5), dt.datetime(2017, 3, 2, 5), dt.datetime(2017, 3, 1, 23, 30), None]
    table = pl.DataFrame({"media_id": ["m0", "m1", "m2", "m3"], "start_local": starts})
    clusters = segment_clusters(truth, table, by="day")
    assert clusters.names == ("2017-03-01", "2017-03-02", "recording m3") and clusters.n_without_day == 1
    assert clusters.codes.tolist() == [0] * 8 + [1] * 8 + [0] * 8 + [2] * 8
    with pytest.raises(ParameterError):
        segment_clusters(truth, table, by="hour")


def test_interval_of_rmap():
    truth, run = made(10, n_media=30)
    scores, clusters = segment_scores(truth, run), segment_clusters(truth)
    found = rmap_interval(scores["ap"].to_numpy(), scores["segment"].to_numpy(), clusters)
    assert found.lo < scores["ap"].mean() < found.hi
    assert found.n_clusters == len(np.unique(clusters.codes[scores["segment"].to_numpy()]))
    assert rmap_interval(np.zeros(0), np.zeros(0, dtype=int), clusters).lo is None


def runs(n_media, skills, **options):
    out = []
    for i, skill in enumerate(skills):
        truth, _ = made(11, n_media=n_media, **options)
        _, run = made(11, n_media=n_media, skill=skill, name=f"r{i}", **options)
        out.append(resample_run(truth, run, segment_clusters(truth), n_resamples=400, seed=3))
    return out


@pytest.mark.parametrize("n_media", [8, 40])
def test_identical_runs_differ_by_nothing(n_media):
    a, b = runs(n_media, [0.25, 0.25])
    row = paired_differences([a, b]).row(0, named=True)
    assert (row["difference"], row["p"], row["lo"], row["confirmed"]) == (0.0, None, None, False)
    assert row["reason"] == "the difference is the same in every resample" and row["family"] == 0
    species = species_differences(a, b)
    assert (
        species["difference"].to_list() == [0.0] * species.height and species["better"].null_count() == species.height
    )


def test_clear_differences_are_confirmed_with_enough_recordings():
    found = runs(40, [0.5, 0.25, 0.0])
    pairs = paired_differences(found)
    assert pairs["difference"].to_list() == pytest.approx(
        [found[i].cmap - found[j].cmap for i, j in ((0, 1), (0, 2), (1, 2))]
    )
    assert pairs["p_holm"].to_list() == holm(pairs["p"].to_list()) and set(pairs["family"]) == {3}
    assert pairs["confirmed"].all() and (pairs["lo"] > 0).all()
    species = species_differences(found[0], found[2])
    assert set(species["better"]) == {"r0"} and species["p_holm"].to_list() == pytest.approx(
        holm(species["p"].to_list())
    )
    assert (species["difference"].abs().diff().drop_nulls() <= 0).all()
    swapped = species_differences(found[2], found[0]).sort("class_id")
    assert swapped["difference"].to_list() == (-species.sort("class_id")["difference"]).to_list()


def test_few_recordings_confirm_nothing():
    pairs = paired_differences(runs(10, [0.6, 0.0], per=12))
    row = pairs.row(0, named=True)
    assert row["method"] == "leave_one_out" and row["p"] is not None and not row["confirmed"]


def test_paired_differences_have_less_room_than_the_runs():
    a, b = runs(40, [0.25, 0.2])
    row = paired_differences([a, b]).row(0, named=True)
    alone = [cmap_estimate(x) for x in (a, b)]
    assert row["hi"] - row["lo"] < sum(e.hi - e.lo for e in alone)
    draws = class_means(a.draws) - class_means(b.draws)
    assert row["hi"] - row["difference"] == pytest.approx(draws.std(ddof=1) * stdtrit(a.n_clusters - 1, 0.975))


def test_runs_on_other_draws_are_refused():
    truth, run = made(12, n_media=25)
    clusters = segment_clusters(truth)
    a, b = (resample_run(truth, run, clusters, n_resamples=100, seed=s) for s in (0, 1))
    with pytest.raises(ParameterError, match="resampled with one truth"):
        paired_differences([a, b])
    assert paired_differences([a]).height == 0 and paired_differences([]).height == 0


def test_leaderboard():
    rows = [
        ("a1", "A", False, False), ("a2", "A", False, True), ("a3", "A", True, True), ("a4", "A", False, True),
        ("a5", "A", False, True), ("b1", "B", False, True), ("b2", "B", True, True), ("c1", "C", None, None),
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=["run", "team", "assisted", "external_data"], orient="row")
    cmap = {"a1": 0.3, "a2": 0.4, "a3": 0.9, "a4": 0.4, "a5": None, "b1": 0.35, "b2": 0.5, "c1": 0.1}
    board = leaderboard(table, cmap)
    assert board.select("division", "rank", "run").rows() == [
        ("automatic", 1, "a2"), ("automatic", 1, "a4"), ("automatic", 3, "b1"), ("automatic", 4, "a1"),
        ("automatic", 5, "c1"), ("automatic", None, "a5"), ("assisted", 1, "a3"), ("assisted", 2, "b2"),
    ]  # fmt: skip
    flags = dict(board.select("run", "flags").iter_rows())
    assert flags["a1"] == ["team of 5 runs; at most 4 are allowed"]
    assert flags["b1"] == ["team has no run without external data; one is required"]
    assert flags["c1"] == [
        "team has no run said to be without external data; one is required",
        "human assistance: not said; ranked as automatic",
        "external data: not said",
    ]
    assert board.filter("team_best")["run"].to_list() == ["a2", "a4", "b1", "c1", "a3", "b2"]
