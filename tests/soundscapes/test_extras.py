"""Named averages, curves, thresholds, calibration, confusers, panels: against scikit-learn, loops and hand counts."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from birdlab.errors import ParameterError
from birdlab.soundscapes.calibrate import calibration
from birdlab.soundscapes.coded import Coded, Grid, Truth
from birdlab.soundscapes.confusers import said_instead
from birdlab.soundscapes.curves import best_f1, f1_at, pr_curves
from birdlab.soundscapes.levels import Levels, class_levels, levels, truth_scores
from birdlab.soundscapes.named import auroc, full_ap, named_rows, named_scores, official_ap
from birdlab.soundscapes.panels import panels
from birdlab.soundscapes.scores import class_scores, run_scores
from birdlab.soundscapes.thresholds import class_thresholds, threshold_at
from birdlab.stats import wilson


def study(y, s=None, *, media=None, name="run", beyond=()):
    """Truth and run from matrices of segments × classes; NaN is not listed; ``beyond`` rows (cls, score, media, k)."""
    y = np.asarray(y, dtype=bool)
    s = np.where(y, 1.0, 0.0) if s is None else np.asarray(s, dtype=float)
    n, n_classes = y.shape
    media = np.zeros(n, dtype=int) if media is None else np.asarray(media)
    offsets = np.append(0, np.cumsum(np.bincount(media)))
    grid = Grid(tuple(f"m{i}" for i in range(len(offsets) - 1)), offsets, np.ones(len(offsets) - 1, dtype=bool))
    cls, seg = np.nonzero(y.T)
    truth = Truth(grid, tuple(f"c{i}" for i in range(n_classes)), seg.astype(np.int32), cls.astype(np.int32))
    cls, seg = np.nonzero(~np.isnan(s.T))
    score = s.T[cls, seg]
    places = sorted({(m, k) for _, _, m, k in beyond})
    if beyond:
        cls = np.append(cls, [b[0] for b in beyond])
        seg = np.append(seg, [n + places.index(b[2:]) for b in beyond])
        score = np.append(score, [b[1] for b in beyond])
        order = np.argsort(cls, kind="stable")
        cls, seg, score = cls[order], seg[order], score[order]
    starts = np.searchsorted(cls, np.arange(n_classes + 1))
    where = np.array(places) if places else None
    return truth, Coded(name, seg.astype(np.int32), cls.astype(np.int32), score, starts, (), len(places), where)


def made(seed, n=40, n_classes=4, *, ties=True, listed=0.8):
    rng = np.random.default_rng(seed)
    y = rng.random((n, n_classes)) < 0.3
    s = np.clip(rng.normal(0.4, 0.2, (n, n_classes)) + 0.2 * y, 0, 1)
    s = s.round(1) if ties else s
    s[rng.random((n, n_classes)) > listed] = np.nan
    return y, s


#: Ten segments, three classes, the third heard nowhere: ranks of the heard ones are 1 and 4, and 2.
PADDED = (
    np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], *[[0, 0, 0]] * 6]),
    np.array([[0.9, 0.9, 0.5], [0.8, 0.8, 0.4], [0.7, 0.1, 0.3], [0.6, 0.2, 0.2], *[[0.05, 0.05, 0.1]] * 6]),
)


@pytest.mark.parametrize(
    ("pad", "expected", "mean"),
    [(0, [0.75, 0.5, None], 0.625), (1, [0.866667, 0.833333, 1], 0.9), (5, [0.968254, 0.97619, 1], 0.981481)],
)
def test_padded_average_precision(pad, expected, mean):
    truth, run = study(*PADDED)
    found = [full_ap(x, pad=pad) for _, x in class_levels(truth, run, heard_only=False)]
    assert found == [None if e is None else pytest.approx(e, abs=1e-6) for e in expected]
    named = named_scores(truth, run, pad=pad)
    assert named["value"][0] == pytest.approx(mean, abs=1e-6)
    # Without padding the absent class has no value: 0.625 over two classes, not 0.416667 over three.
    assert named["n_classes"][0] == (2 if pad == 0 else 3)
    assert named["n_skipped"][0] == (1 if pad == 0 else 0)


def test_macro_auroc_skips_absent_classes():
    truth, run = study(*PADDED)
    row = named_scores(truth, run).filter(metric="auroc_macro").row(0, named=True)
    assert row["value"] == pytest.approx((0.875 + 8 / 9) / 2)
    assert (row["n_classes"], row["n_skipped"], row["chance"]) == (2, 1, 0.5)


def test_rows_of_metrics():
    truth, run = study(*PADDED)
    rows = named_rows(named_scores(truth, run))
    assert [r["metric"] for r in rows] == ["cmap_padded", "cmap_min5", "cmap_min5_full", "auroc_macro", "f1_macro"]
    assert rows[0]["n"] == 3 and "5 rows of ones" in rows[0]["method"]
    assert rows[1]["value"] is None and rows[1]["reason"] == "no class is heard in 5 segments"
    assert rows[1]["n"] == 0 and "3 classes skipped" in rows[1]["method"]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("pad", [0, 5])
def test_full_matrix_equals_scikit_learn(seed, pad):
    y, s = made(seed, listed=1 if seed % 2 else 0.6)
    truth, run = study(y, s)
    filled = np.where(np.isnan(s), -1.0, s)  # Not listed: behind everything, a listed 0 too.
    top = np.ones(pad)
    for c, found in class_levels(truth, run):
        expected = average_precision_score(np.append(top, y[:, c]), np.append(top, filled[:, c]))
        assert full_ap(found, pad=pad) == pytest.approx(expected, abs=1e-12)
        assert auroc(found) == pytest.approx(roc_auc_score(y[:, c], filled[:, c]), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_named_means_equal_scikit_learn(seed):
    y, s = made(seed, n=30, n_classes=6, listed=1)
    y[:, 5] = False
    y[:, 4] = np.arange(30) < 3
    truth, run = study(y, s)
    value = dict(named_scores(truth, run).select("metric", "value").iter_rows())
    ones = np.ones((5, 6))
    padded = average_precision_score(np.vstack([ones, y]), np.vstack([ones, s]), average="macro")
    assert value["cmap_padded"] == pytest.approx(padded, abs=1e-12)
    often = np.flatnonzero(y.sum(axis=0) >= 5)
    assert value["cmap_min5_full"] == pytest.approx(average_precision_score(y[:, often], s[:, often], average="macro"))
    assert value["auroc_macro"] == pytest.approx(roc_auc_score(y[:, :5], s[:, :5], average="macro"), abs=1e-12)
    scores = class_scores(truth, run).filter(pl.col("n_rel") >= 5)
    assert value["cmap_min5"] == pytest.approx(scores["ap"].mean(), abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_official_ap_equals_the_score(seed):
    truth, run = study(*made(seed))
    mine = [official_ap(x) for _, x in class_levels(truth, run)]
    assert mine == pytest.approx(class_scores(truth, run)["ap"].to_list(), abs=1e-12)


@pytest.mark.parametrize("n", [10, 10_000])
def test_one_positive_among_equal_scores(n):
    y = np.zeros((n, 1))
    y[n // 2] = 1
    truth, run = study(y, np.full((n, 1), 0.5))
    ((_, found),) = class_levels(truth, run)
    assert (official_ap(found), full_ap(found), auroc(found)) == (1.0, 1 / n, 0.5)
    assert class_scores(truth, run)["ap_pessimistic"][0] == pytest.approx(1 / n)


def test_no_positive_is_undefined_and_all_positive_is_one():
    none, every = (
        levels([0.5] * 3, [False] * 3, n_rel=0, n_segments=3),
        levels([0.5] * 3, [True] * 3, n_rel=3, n_segments=3),
    )
    assert (official_ap(none), full_ap(none), auroc(none), f1_at(none, 0.5)) == (None, None, None, None)
    assert (official_ap(every), full_ap(every), auroc(every)) == (1.0, 1.0, None)
    truth, run = study(np.ones((3, 1)), np.full((3, 1), 0.5))
    row = named_scores(truth, run).filter(metric="auroc_macro").row(0, named=True)
    assert row["value"] is None and row["reason"] == "no class is heard in some segments and not in others"


@pytest.mark.parametrize("n_classes", [3, 5, 8])
def test_macro_f1_does_not_depend_on_the_class_list(n_classes):
    y, said = np.zeros((4, n_classes)), np.zeros((4, n_classes))
    y[range(4), [2, 1, 0, 0]] = 1
    said[range(4), [2, 1, 0, 1]] = 1
    truth, run = study(y, said)
    row = named_scores(truth, run).filter(metric="f1_macro").row(0, named=True)
    assert row["value"] == pytest.approx(7 / 9)
    assert (row["n_classes"], row["n_skipped"]) == (3, n_classes - 3)


@pytest.mark.parametrize("heard", [[1, 0], [0, 1]])
def test_equal_scores_do_not_depend_on_the_order_of_rows(heard):
    truth, run = study(np.array([heard]).T, np.full((2, 1), 0.5))
    scores = run_scores(truth, run)
    assert [scores[k] for k in ("cmap", "cmap_expected", "cmap_pessimistic", "cmap_step")] == [1.0, 0.75, 0.5, 0.5]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_order_of_rows_changes_nothing(seed):
    truth, run = study(*made(seed, n=15, n_classes=3))
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(run.starts)]).astype(int)
    other = Coded("run", run.seg[order], run.cls[order], run.score[order], run.starts)
    assert named_scores(truth, run).equals(named_scores(truth, other))
    assert pr_curves(truth, run).equals(pr_curves(truth, other))
    assert class_thresholds(truth, run).equals(class_thresholds(truth, other))
    assert said_instead(truth, run).species.equals(said_instead(truth, other).species)
    a, b = calibration(truth, run), calibration(truth, other)
    assert a.ece == pytest.approx(b.ece, abs=1e-12) if a.ece is not None else b.ece is None


def test_segments_past_the_grid_are_wrong_ones():
    y, s = np.array([[1], [0]]), np.array([[0.5], [0.4]])
    truth, run = study(y, s, beyond=[(0, 0.9, 0, 7)])
    ((_, found),) = class_levels(truth, run)
    assert (official_ap(found), full_ap(found), auroc(found), found.n_segments) == (0.5, 0.5, 0.5, 3)


@pytest.mark.parametrize("seed", range(6))
def test_precision_recall_points(seed):
    y, s = made(seed, listed=1)
    truth, run = study(y, s)
    points = pr_curves(truth, run)
    for c in range(y.shape[1]):
        precision, recall, at = precision_recall_curve(y[:, c], s[:, c])
        mine = points.filter(class_id=f"c{c}").sort("threshold")
        # scikit-learn closes the curve with a point (1, 0) that no threshold has.
        assert mine["threshold"].to_list() == at.tolist()
        assert mine["precision"].to_list() == pytest.approx(precision[:-1].tolist(), abs=1e-12)
        assert mine["recall"].to_list() == pytest.approx(recall[:-1].tolist(), abs=1e-12)


def test_recall_counts_what_is_not_listed():
    truth, run = study([[1], [1], [0]], [[0.7], [np.nan], [0.2]])
    assert pr_curves(truth, run)["recall"].to_list() == [0.5, 0.5]


def test_thinned_curves_keep_both_ends():
    y, s = made(3, n=5000, n_classes=2, ties=False)
    truth, run = study(y, s)
    full, thin = pr_curves(truth, run), pr_curves(truth, run, max_points=50)
    assert thin.group_by("class_id").len()["len"].max() <= 52
    assert thin.join(full, on=full.columns, how="semi").height == thin.height
    ends = [pl.col("recall").max(), pl.col("threshold").max()]
    assert (
        thin.group_by("class_id", maintain_order=True)
        .agg(ends)
        .equals(full.group_by("class_id", maintain_order=True).agg(ends))
    )


@pytest.mark.parametrize("seed", range(10))
def test_best_f1_and_thresholds_by_trying_them_all(seed):
    y, s = made(seed)
    truth, run = study(y, s)
    thresholds = class_thresholds(truth, run, target=0.5)
    for c, found in class_levels(truth, run):
        tried = {}
        for t in np.unique(s[:, c][~np.isnan(s[:, c])]):
            said = np.nan_to_num(s[:, c], nan=-1) >= t
            hit = int((said & y[:, c]).sum())
            tried[t] = (hit / said.sum(), hit / y[:, c].sum(), 2 * hit / (said.sum() + y[:, c].sum()), said.sum())
        top = max(f1 for *_, f1, _ in tried.values())
        assert best_f1(found)[:2] == (pytest.approx(top), max(t for t, v in tried.items() if v[2] == top))
        assert f1_at(found, best_f1(found).at) == pytest.approx(top)
        row = thresholds.filter(class_id=f"c{c}").row(0, named=True)
        reached = [t for t, v in tried.items() if v[0] >= 0.5]
        assert row["threshold"] == (min(reached) if reached else None)
        if reached:
            precision, recall, _, n = tried[min(reached)]
            ends = (row["precision_at"], row["recall_at"], row["n_at"])
            assert ends == (pytest.approx(precision), pytest.approx(recall), n)
            assert (row["precision_lo"], row["precision_hi"]) == wilson(round(precision * n), int(n))


def test_why_there_is_no_threshold():
    y = np.array([[1, 1, 1], [0, 0, 1], [0, 0, 0]])
    s = np.array([[0.2, np.nan, np.nan], [0.9, np.nan, np.nan], [0.8, np.nan, 0.4]])
    reasons = class_thresholds(*study(y, s))["reason"].to_list()
    assert reasons[0] == "no threshold has a precision of 0.9; the highest is 0.333"
    assert reasons[1:] == ["listed for no segment", "listed for no segment in which it is heard"]
    found = [best_f1(x) for _, x in class_levels(*study(y, s))]
    assert [f[:2] for f in found] == [(0.5, 0.2), (0.0, None), (0.0, None)]
    assert [f.reason for f in found] == [None, *reasons[1:]]


def test_threshold_at_an_exact_share():
    found = levels(np.arange(10, 0, -1) / 10, [True] * 7 + [False] * 3, n_rel=7, n_segments=10)
    assert threshold_at(found, 0.7).threshold == 0.1
    assert threshold_at(found, 1.0).threshold == 0.4
    for target in (0, 1.5, float("nan")):
        with pytest.raises(ParameterError, match="target_precision"):
            threshold_at(found, target)


@pytest.mark.parametrize("seed", range(4))
def test_calibration_by_a_loop(seed):
    y, s = made(seed, ties=seed % 2 == 0)
    truth, run = study(y, s)
    found = calibration(truth, run)
    listed = ~np.isnan(s)
    at = np.minimum((s[listed] + 1e-12) // 0.1, 9).astype(int)
    ece = 0.0
    for b, row in enumerate(found.bins.iter_rows(named=True)):
        inside = at == b
        assert row["n"] == inside.sum()
        if not inside.any():
            assert row["share_right"] is None and row["reason"] == "no row with such a score"
            continue
        mean, share = s[listed][inside].mean(), y[listed][inside].mean()
        assert (row["mean_score"], row["share_right"]) == (pytest.approx(mean), pytest.approx(share))
        ece += inside.sum() / listed.sum() * abs(mean - share)
    assert found.ece == pytest.approx(ece, abs=1e-12)
    assert found.bias == pytest.approx(s[listed].mean() - y[listed].mean(), abs=1e-12)
    assert found.n == found.bins["n"].sum() == listed.sum()


def test_calibration_of_nothing_and_of_certainty():
    none = calibration(*study([[1]], [[np.nan]]))
    assert (none.ece, none.reason) == (None, "listed for no segment")
    sure = calibration(*study([[1], [0]], [[1.0], [1.0]]))
    assert sure.ece == 0.5 and sure.bias == 0.5 and sure.bins["n"].to_list() == [0] * 9 + [2]
    with pytest.raises(ParameterError):
        calibration(*study([[1]]), n_bins=0)


def test_what_was_said_instead_by_hand():
    y = np.array(
        [
            [1, 0, 0],  # c1 said
            [1, 1, 0],  # c1 said, and heard
            [1, 0, 0],  # c0 first, shared
            [1, 0, 0],  # c1 and c2 tie
            [1, 0, 0],  # nothing listed
            [1, 0, 0],  # c2 said
            [1, 0, 0],  # c1 said, c0 not listed
            [1, 0, 0],  # c0 first
        ]
    )
    nan = np.nan
    s = [
        [0.1, 0.9, 0.2], [0.1, 0.9, 0.2], [0.9, 0.9, 0.2], [0.1, 0.5, 0.5],
        [nan, nan, nan], [0.1, 0.2, 0.3], [nan, 0.1, nan], [0.9, 0.1, 0.1],
    ]  # fmt: skip
    found = said_instead(*study(y, s))
    assert found.species.row(0, named=True) == {
        **{"run": "run", "class_id": "c0", "n_rel": 8, "n_first": 2, "n_first_shared": 1, "n_other": 4},
        **{"n_other_right": 1, "n_tied": 1, "n_nothing": 1, "said_instead": "c1", "n_said_instead": 2},
    }
    assert found.pairs.select("class_id", "said", "n", "n_heard_too", "n_instead").rows() == [
        ("c0", "c1", 3, 1, 2),
        ("c0", "c2", 1, 0, 1),
    ]
    assert found.pairs["share"].to_list() == [0.25, 0.125]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_said_instead_by_a_loop(seed, past):
    y, s = made(seed, n=25, n_classes=5, listed=0.5)
    truth, run = study(y, s, beyond=[(0, 1.0, 0, 99), (3, 1.0, 0, 99)] if past else ())
    counts, pairs = {}, {}
    for i, c in zip(*np.nonzero(y), strict=True):
        row = np.nan_to_num(s[i], nan=-1)
        first = np.flatnonzero(row == row.max()) if row.max() >= 0 else []
        kind = "n_nothing" if not len(first) else "n_first" if c in first else "n_tied" if len(first) > 1 else "n_other"
        counts[c, kind] = counts.get((c, kind), 0) + 1
        if kind == "n_other":
            n, too = pairs.get((c, first[0]), (0, 0))
            pairs[c, first[0]] = (n + 1, too + y[i, first[0]])
    found = said_instead(truth, run)
    for row in found.species.iter_rows(named=True):
        c = int(row["class_id"][1:])
        kinds = ("n_first", "n_other", "n_tied", "n_nothing")
        assert [row[k] for k in kinds] == [counts.get((c, k), 0) for k in kinds]
        assert sum(row[k] for k in kinds) == row["n_rel"]
    mine = {(int(a[1:]), int(b[1:])): (n, too) for a, b, n, too in found.pairs.select(pl.nth(1, 2, 3, 4)).iter_rows()}
    assert mine == pairs


def test_scores_of_the_truth():
    y, s = made(5)
    truth, run = study(y, s)
    assert truth_scores(truth, run).tolist() == np.nan_to_num(s.T[y.T], nan=-2).tolist()


RECORDINGS = pl.DataFrame(
    {
        "media_id": ["m0", "m1", "m2", "m3"],
        "recorder": ["A", "B", None, "A"],
        "start_local": [dt.datetime(2017, 3, 1, 5, 59, 50), dt.datetime(2017, 3, 1, 23, 59, 55), None, dt.datetime(2017, 3, 2, 6)],
    }
)  # fmt: skip


def test_hours_are_those_of_segments():
    y, s = made(7, n=16, n_classes=3)
    truth, run = study(y, s, media=np.repeat([0, 1, 2, 3], 4))
    found = panels(truth, run, RECORDINGS)
    hours = found.filter(panel="hour")
    n = dict(hours.select("hour", "n_segments").iter_rows())
    assert (n[5], n[6], n[23], n[0], n[None]) == (2, 6, 1, 3, 4)
    assert hours.height == 25 and sum(n.values()) == 16
    assert hours.filter(pl.col("hour") == 6)["n_recordings"].item() == 2
    empty = hours.filter(pl.col("hour") == 12).row(0, named=True)
    assert (empty["cmap"], empty["top1"], empty["recall"], empty["reason"]) == (None, None, None, "no recording")
    by = dict(found.filter(panel="recorder").select("recorder", "n_recordings").iter_rows())
    assert by == {"A": 2, "B": 1, None: 1}
    assert found.filter(panel="recorder_hour").height == 2 * 24 + 1


@pytest.mark.parametrize("seed", range(5))
def test_panels_by_scoring_each_cell_alone(seed):
    y, s = made(seed, n=60, n_classes=5)
    media = np.repeat([0, 1, 2, 3], 15)
    y[media == 1] = False
    found = panels(*study(y, s, media=media), RECORDINGS, threshold=0.4)
    for recorder, keep in (("A", (media == 0) | (media == 3)), ("B", media == 1), (None, media == 2)):
        row = found.filter((pl.col("panel") == "recorder") & pl.col("recorder").eq_missing(recorder)).row(0, named=True)
        truth, run = study(y[keep], s[keep])
        scores = run_scores(truth, run)
        assert row["n_pairs"] == len(truth.seg) and row["n_segments"] == keep.sum()
        if recorder == "B":
            assert row["cmap"] is None and row["reason"] == "nothing is heard"
            continue
        assert row["cmap"] == pytest.approx(scores["cmap"], abs=1e-12) and row["n_classes"] == scores["n_classes"]
        filled, heard = np.nan_to_num(s[keep], nan=-1), y[keep]
        first = (filled == filled.max(axis=1, keepdims=True)) & (filled >= 0)
        top = (first & heard).sum(axis=1) / np.maximum(first.sum(axis=1), 1)
        assert row["top1"] == pytest.approx(top[heard.any(axis=1)].mean())
        assert row["recall"] == pytest.approx((filled[heard] >= 0.4).mean())


def test_panels_without_a_table_of_recordings():
    truth, run = study(*made(1, n=10))
    found = panels(truth, run)
    assert (
        found.filter(panel="recorder").rows()
        == found.filter((pl.col("panel") == "recorder") & pl.col("hour").is_null()).rows()
    )
    assert found.filter(panel="recorder")["cmap"].item() == pytest.approx(run_scores(truth, run)["cmap"])
    assert found.filter(panel="hour")["n_recordings"].sum() == 1


def test_segments_past_the_end_rank_in_their_cell():
    truth, run = study([[1], [1]], [[0.5], [0.5]], media=[0, 1], beyond=[(0, 0.9, 0, 4)])
    by = dict(panels(truth, run, RECORDINGS).filter(panel="recorder").select("recorder", "cmap").iter_rows())
    assert by == {"A": 0.5, "B": 1.0}
    lost = Coded("run", run.seg, run.cls, run.score, run.starts, (), 1)
    by = dict(panels(truth, lost, RECORDINGS).filter(panel="recorder").select("recorder", "cmap").iter_rows())
    assert by == {"A": 1.0, "B": 1.0}


def test_an_empty_run_and_an_empty_truth():
    truth, run = study([[1, 0]], [[np.nan, np.nan]])
    assert dict(named_scores(truth, run).select("metric", "value").iter_rows())["auroc_macro"] is None
    assert pr_curves(truth, run).height == 0
    assert said_instead(truth, run).pairs.height == 0 and said_instead(truth, run).species["n_nothing"].to_list() == [1]
    assert panels(truth, run)["recall"].drop_nulls().to_list() == [0.0, 0.0]
    truth, run = study([[0, 0]], [[0.5, 0.1]])
    assert class_thresholds(truth, run).height == 0 and said_instead(truth, run).species.height == 0
    assert panels(truth, run)["cmap"].null_count() == panels(truth, run).height
    assert isinstance(next(class_levels(truth, run, heard_only=False))[1], Levels)
