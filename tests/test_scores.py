"""Counts, curves, the plausibility of a highest F1, groups with intervals, false alarms, pairs of models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas, stats
from birdlab.detection import comparison, groups, scores
from birdlab.detection.curves import curve, thin_curve
from birdlab.detection.matching import match
from birdlab.detection.published import published
from birdlab.errors import ParameterError
from birdlab.metrics import metric_frame

PAPER = json.loads((Path(__file__).parent / "data/detection/bluebird_tables_1_2_counts.json").read_text())["rows"]


def outcomes(rows: list[tuple[str, float | None]], model: str = "m") -> pl.DataFrame:
    """Matches of one frame from (outcome, score) pairs."""
    data = {
        "model": model,
        "frame_id": "f0",
        "video_id": "s0",
        "category": "bird",
        "label_id": [f"l{i}" if o in ("tp", "fn") else None for i, (o, _) in enumerate(rows)],
        "prediction_id": [f"p{i}" if o != "fn" else None for i, (o, _) in enumerate(rows)],
        "iou": [0.8 if o == "tp" else None for o, _ in rows],
        "score": [s for _, s in rows],
        "outcome": [o for o, _ in rows],
        "iou_thr": 0.5,
        "score_thr": 0.0,
        "protocol": "greedy",
    }
    return schemas.TABLES["matches"].conform(pl.DataFrame(data)) if rows else schemas.empty("matches")


@pytest.mark.parametrize("name", list(PAPER))
def test_the_paper_s_counts_print_the_paper_s_numbers(name: str) -> None:
    row = PAPER[name]
    matches = outcomes([("tp", 0.9)] * row["tp"] + [("fp", 0.8)] * row["fp"] + [("fn", None)] * row["fn"])
    point = scores.operating_point(matches, 0.25)
    digits = 3 if all(round(row[k], 3) == row[k] for k in ("precision", "recall", "f1")) else 4
    assert {k: round(getattr(point, k), digits) for k in ("precision", "recall", "f1")} == {
        k: row[k] for k in ("precision", "recall", "f1")
    }
    printed = published(["western_bluebird"]).filter(pl.col("model") == name)
    prefix = "mask_" if "mask_ap" in printed["metric"].to_list() else ""
    for k in ("precision", "recall", "f1"):
        assert printed.filter(metric=prefix + k)["published"].to_list() == [row[k]]


def test_published_rows_compute_nothing_and_flag_what_cannot_be_a_highest_f1() -> None:
    rows = published(["western_bluebird"])
    schemas.validate("metrics", rows)
    assert published([]).is_empty()
    assert rows.filter(pl.col("published").is_not_null() & pl.col("value").is_not_null()).is_empty()
    flagged = rows.filter(pl.col("metric").str.ends_with("ap50_bound"))
    assert flagged["model"].to_list() == ["Faster R-CNN", "YOLO-World ZS"]
    assert flagged["value"].round(3).to_list() == [0.752, 0.018]
    assert rows["source"].null_count() == 0


def test_undefined_is_null_with_a_reason() -> None:
    nothing = scores.operating_point(outcomes([]), 0.25)
    assert nothing.as_dict() == {
        "conf": 0.25,
        "iou": 0.5,
        "tp": 0,
        "fp": 0,
        "fn": 0,
        "precision": None,
        "recall": None,
        "f1": None,
    }
    assert set(nothing.reasons()) == {"precision", "recall", "f1"}
    missed = scores.max_f1(outcomes([("fn", None), ("fn", None)]))
    assert (missed.conf, missed.fn, missed.precision, missed.recall, missed.f1) == (None, 2, None, 0.0, 0.0)
    only_false = scores.operating_point(outcomes([("fp", 0.9)]), 0.25)
    assert (only_false.precision, only_false.recall, only_false.f1) == (0.0, None, None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["tp", "fp", "fn", "ignored"]), st.integers(0, 6)), max_size=30))
def test_curve_and_highest_f1_equal_counting_at_every_score(rows: list[tuple[str, int]]) -> None:
    matches = outcomes([(o, None if o == "fn" else s / 8) for o, s in rows])
    points = {r["score"]: r for r in curve(matches).to_dicts()}
    seen = sorted({s / 8 for o, s in rows if o in ("tp", "fp")}, reverse=True)
    assert list(points) == seen
    best = 0.0
    for c in seen:
        point = scores.operating_point(matches, c)
        got = points[c]
        assert (got["tp"], got["fp"], got["precision"], got["recall"], got["f1"]) == (
            point.tp,
            point.fp,
            point.precision,
            point.recall,
            pytest.approx(point.f1) if point.f1 is not None else None,
        )
        best = max(best, point.f1 or 0.0)
    top = scores.max_f1(matches)
    assert (top.f1 or 0.0) == pytest.approx(best)
    assert top.chosen == "oracle"
    if seen:
        assert scores.operating_point(matches, top.conf).as_dict() == {**top.as_dict(), "iou": 0.5}


def test_highest_f1_equals_scikit_learn() -> None:
    from sklearn.metrics import precision_recall_curve

    rng = np.random.default_rng(2)
    y = rng.random(500) < 0.4
    score = np.round(rng.random(500) * 0.6 + 0.4 * y * rng.random(500), 2)
    matches = outcomes([("tp" if a else "fp", float(s)) for a, s in zip(y, score, strict=True)])
    precision, recall, cut = precision_recall_curve(y, score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    got = scores.max_f1(matches)
    assert got.f1 == pytest.approx(f1.max(), abs=1e-12)
    assert got.conf == cut[np.flatnonzero(np.isclose(f1, f1.max()))[-1]]


def test_confidence_chosen_elsewhere_is_not_an_oracle() -> None:
    here = outcomes([("tp", 0.9), ("fp", 0.6), ("tp", 0.5)])
    elsewhere = outcomes([("tp", 0.8), ("tp", 0.6), ("fp", 0.3), ("fn", None)])
    chosen = scores.at_chosen_confidence(here, elsewhere)
    assert (chosen.conf, chosen.chosen, chosen.tp, chosen.fp, chosen.fn) == (0.6, "val", 1, 1, 1)
    assert scores.at_chosen_confidence(here, None).chosen == "oracle"
    assert scores.at_chosen_confidence(here, outcomes([("fp", 0.8)])).chosen == "oracle"


def test_several_models_at_once_are_refused() -> None:
    both = pl.concat([outcomes([("tp", 0.9)], "a"), outcomes([("tp", 0.9)], "b")])
    with pytest.raises(ParameterError, match="one model at a time"):
        scores.max_f1(both)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 10))
def test_ap50_never_exceeds_its_bound(hits: list[bool], misses: int) -> None:
    """The bound holds for the all-points AP of any list of detections."""
    n = sum(hits) + misses
    if not n:
        return
    tp = np.cumsum(hits)
    precision = np.maximum.accumulate((tp / np.arange(1, len(hits) + 1))[::-1])[::-1]
    ap = float(np.sum(precision * np.array(hits)) / n)
    f1 = float(np.max(2 * tp / (np.arange(1, len(hits) + 1) + n)))
    assert ap <= scores.ap50_bound(f1) + 1e-12
    assert scores.max_f1_warning(f1, ap) is None


@pytest.mark.parametrize(("f1", "bound"), [(0.5997, 0.752), (0.017, 0.018), (0.7838, 0.919)])
def test_bound_of_printed_f1(f1: float, bound: float) -> None:
    from scipy.integrate import quad

    whole = quad(lambda r: min(1.0, f1 * r / (2 * r - f1)) if 2 * r > f1 else 1.0, 0, 1, points=[f1 / (2 - f1)])[0]
    assert scores.ap50_bound(f1) == pytest.approx(whole, abs=1e-7)
    assert scores.ap50_bound(f1) == pytest.approx(bound, abs=6e-4)


def test_drawing_keeps_the_ends_and_the_highest_f1() -> None:
    rng = np.random.default_rng(7)
    found = [("tp" if rng.random() < 0.6 else "fp", float(s)) for s in rng.random(4000)]
    whole = curve(outcomes(found))
    small = thin_curve(whole, max_points=100)
    assert small.height <= 100
    assert small["f1"].max() == whole["f1"].max()
    assert small.row(0) == whole.row(0) and small.row(-1) == whole.row(-1)
    assert thin_curve(whole.head(50), max_points=100).equals(whole.head(50))
    # what lies between two kept points is close to the line between them
    drawn = np.interp(whole["recall"], small["recall"], small["precision"])
    assert np.abs(drawn - whole["precision"].to_numpy())[100:].max() < 0.05
    with pytest.raises(ValueError, match="at least 3"):
        thin_curve(whole, max_points=2)


# ---- groups ---------------------------------------------------------------------------------------------------------


def study(
    sessions: dict[str, list[tuple[int, int, int]]], *, sites: dict[str, str] | None = None, video: float | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """labels, predictions, frames: per session a list of frames, each (hits, misses, false positives)."""
    labels, predictions, frames = [], [], []
    for s, found in sessions.items():
        for i, (tp, fn, fp) in enumerate(found):
            frame = f"{s}.mp4#{i}" if video else f"{s}/{i}.jpg"
            about = {"frame_index": i, "width_px": 1000, "height_px": 1000, "split": "test"}
            state = "labelled" if tp + fn else "empty"
            frames.append(
                {"frame_id": frame, "media_id": f"{s}.mp4" if video else frame, "video_id": s, "label_state": state}
                | {"site_id": (sites or {}).get(s), "time_s": i * video if video else None}
                | about
            )
            for k in range(tp + fn):
                box = {"frame_id": frame, "category": "bird", "x": 50.0 * k, "y": 0.0, "w": 40.0, "h": 40.0}
                labels.append({"label_id": f"{frame}:{k}", "is_crowd": False, "is_ignored": False, **box})
                if k < tp:
                    predictions.append({"model": "m", "prediction_id": f"{frame}:{k}", "score": 0.9, **box})
            for k in range(fp):
                box = {"frame_id": frame, "category": "bird", "x": 50.0 * k, "y": 500.0, "w": 40.0, "h": 40.0}
                predictions.append({"model": "m", "prediction_id": f"{frame}:fp{k}", "score": 0.9, **box})
    tables = zip(("labels", "predictions", "frames"), (labels, predictions, frames), strict=True)
    return tuple(
        schemas.TABLES[n].conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else schemas.empty(n)
        for n, rows in tables
    )


FOUR = {"s1": [(2, 0, 0), (1, 1, 1)], "s2": [(1, 0, 0)], "s3": [(0, 2, 0), (1, 0, 1)], "Süd-Ä": [(3, 0, 0)]}


def rows_of(sessions: dict, group: str = "all", **about) -> pl.DataFrame:
    labels, predictions, frames = study(sessions, **about)
    matches = match(labels, predictions, frames, models=["m"])
    return metric_frame(groups.shares(matches, frames, method="x", group=group))


def test_overall_recall_has_both_intervals() -> None:
    rows = rows_of(FOUR)
    base = rows.filter(metric="recall", method="x").row(0, named=True)
    assert (base["value"], base["n"], base["lo"]) == (8 / 11, 11, None)
    within = rows.filter(metric="recall", method="x; within_sessions").row(0, named=True)
    want = stats.within_sessions([2, 1, 1, 0, 1, 3], [2, 2, 1, 2, 1, 3])
    assert (within["lo"], within["hi"], within["n_clusters"]) == (want.lo, want.hi, 6)
    new = rows.filter(metric="recall", method="x; new_sessions").row(0, named=True)
    want = stats.new_sessions([3, 1, 1, 3], [4, 1, 3, 3])
    assert (new["lo"], new["hi"], new["n_clusters"]) == (pytest.approx(want.lo), pytest.approx(want.hi), 4)
    assert rows.filter(metric="precision", method="x")["value"].to_list() == [8 / 10]
    assert rows.filter(metric="f1")["value"].to_list() == [16 / 21]


def test_new_sites_are_counted_where_there_are_two() -> None:
    rows = rows_of(FOUR, sites={"s1": "A", "s2": "A", "s3": "B", "Süd-Ä": "B"})
    new = rows.filter(metric="recall", method="x; new_sessions").row(0, named=True)
    want = stats.new_sessions([4, 4], [5, 6], unit="site")
    assert (new["lo"], new["n_clusters"]) == (pytest.approx(want.lo), 2)
    by_site = rows_of(FOUR, "site", sites={"s1": "A", "s2": "A", "s3": "B", "Süd-Ä": "B"})
    assert by_site.filter(metric="recall", method="x").select("level", "value").rows() == [("A", 4 / 5), ("B", 4 / 6)]


def test_by_session_names_every_session_and_says_why_there_is_no_interval() -> None:
    rows = rows_of({**FOUR, "s9": [(0, 0, 0)]}, "session")
    recall = dict(rows.filter(metric="recall", method="x").select("level", "value").rows())
    assert recall == {"Süd-Ä": 1.0, "s1": 3 / 4, "s2": 1.0, "s3": 1 / 3, "s9": None}
    new = rows.filter(metric="recall", method="x; new_sessions", level="s1").row(0, named=True)
    assert (new["lo"], new["reason"]) == (None, "one session: nothing can be said about another")
    assert rows.filter(metric="recall", method="x", level="s9")["reason"].to_list() == ["no labelled bird"]
    assert rows_of(FOUR, "site")["reason"].to_list() == ["no site is named"]


def test_video_frames_close_together_are_one_cluster() -> None:
    labels, predictions, frames = study({"s1": [(1, 0, 0)] * 10, "s2": [(0, 1, 0)] * 10}, video=2.0)
    assert groups.clusters(frames)["block"].n_unique() == 4  # two sessions of 20 s in blocks of 10 s
    assert groups.clusters(frames, block_s=1.0)["block"].n_unique() == 20
    photographs = study({"s1": [(1, 0, 0)] * 10})[2]
    assert groups.clusters(photographs)["block"].n_unique() == 10


def test_thinned_frames_are_far_enough_apart_and_of_every_session() -> None:
    frames = study({"s1": [(1, 0, 0)] * 10, "s2": [(1, 0, 0)] * 3}, video=2.0)[2]
    kept = groups.thin(frames.sample(fraction=1.0, shuffle=True, seed=1), 5.0)
    assert sorted(kept["frame_id"]) == ["s1.mp4#0", "s1.mp4#3", "s1.mp4#6", "s1.mp4#9", "s2.mp4#0"]
    assert groups.thin(frames.with_columns(time_s=pl.lit(None, pl.Float64)), 5.0).is_empty()


def test_false_alarms_by_hand() -> None:
    labels, predictions, frames = study({"s1": [(1, 0, 1), (0, 0, 3), (0, 0, 0), (0, 0, 0)]}, video=30.0)
    matches = match(labels, predictions, frames, models=["m"])
    rows = metric_frame(groups.false_alarms(matches, frames, method="x"))
    value = dict(rows.filter(method="x").select("metric", "value").rows())
    assert value["false_alarms_per_1000_empty_frames"] == 1000 * 3 / 3
    assert value["empty_frames_with_alarm"] == pytest.approx(1 / 3)
    assert value["false_alarms_per_hour"] == pytest.approx(4 / (4 * 30 / 3600))


def test_without_empty_frames_precision_only_holds_where_a_bird_is() -> None:
    labels, predictions, frames = study({"s1": [(1, 0, 1)]}, video=30.0)
    rows = metric_frame(groups.false_alarms(match(labels, predictions, frames), frames, method="x"))
    assert rows["value"].null_count() == rows.height == 3
    assert rows["reason"].unique().to_list() == [groups.ONLY_WHERE_A_BIRD_IS]


def test_photographs_have_no_hours() -> None:
    labels, predictions, frames = study({"s1": [(1, 0, 1), (0, 0, 1)]})
    rows = metric_frame(groups.false_alarms(match(labels, predictions, frames), frames, method="x"))
    assert rows.filter(metric="false_alarms_per_hour")["reason"].to_list() == [
        "no video frames with times: there are no hours to count"
    ]


def test_recall_by_size_adds_up() -> None:
    labels, predictions, frames = study(FOUR)  # 40 px of 1000: s_r = 0.04, in 1/32-1/16
    rows = metric_frame(groups.recall_by_size(match(labels, predictions, frames), labels, frames, method="x"))
    full = rows.filter(pl.col("method") == "x", pl.col("value").is_not_null())
    assert full.select("level", "value", "n").rows() == [("1/32-1/16", 8 / 11, 11)]
    assert rows.filter(pl.col("value").is_null())["n"].sum() == 0


def two_models(
    sessions: dict[str, list[tuple[int, int, int]]], other: dict[str, list[tuple[int, int, int]]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    labels, predictions, frames = study(sessions)
    theirs = study(other)[1].with_columns(model=pl.lit("other"))
    return match(labels, pl.concat([predictions, theirs]), frames, models=["m", "other"]), frames


def test_pairs_are_compared_on_the_same_birds() -> None:
    other = {"s1": [(1, 1, 0), (1, 1, 0)], "s2": [(0, 1, 0)], "s3": [(0, 2, 0), (0, 1, 0)], "Süd-Ä": [(2, 1, 0)]}
    table = comparison.compare_recall(*two_models(FOUR, other))
    new = table.filter(kind="new_sessions").row(0, named=True)
    assert (new["difference"], new["n"], new["n_only_a"], new["n_only_b"]) == (pytest.approx(4 / 11), 11, 4, 0)
    want = stats.mean_difference([1, 1, 1, 1], [4, 1, 3, 3])
    assert (new["lo"], new["p"], new["n_clusters"], new["family"]) == (
        pytest.approx(want.lo),
        pytest.approx(want.p),
        4,
        1,
    )
    assert new["p_holm"] == new["p"] and new["confirmed"] == (want.p < 0.05)


def test_one_session_confirms_no_ranking() -> None:
    table = comparison.compare_recall(*two_models({"s1": [(2, 0, 0)] * 30}, {"s1": [(0, 2, 0)] * 29 + [(2, 0, 0)]}))
    assert not table["confirmed"].any()
    within, new = table.row(0, named=True), table.row(1, named=True)
    assert within["p"] < 1e-6  # within this session the difference is beyond doubt
    assert (new["p"], new["lo"], new["reason"]) == (None, None, "one session: nothing can be said about another")


def test_a_single_model_has_no_pairs() -> None:
    labels, predictions, frames = study(FOUR)
    assert comparison.compare_recall(match(labels, predictions, frames), frames).is_empty()
