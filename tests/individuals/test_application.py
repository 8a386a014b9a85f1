"""Application metrics in both protocols: the hand cases, the authors' own output, and what a user may hand in."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from birdlab.cli import main
from birdlab.individuals.budget import error_budget
from birdlab.individuals.counting import precision_recall, seconds_with
from birdlab.individuals.errors import concordance, error_summary
from birdlab.individuals.evaluate import evaluate, summarise
from birdlab.individuals.human import human_numbers
from birdlab.individuals.matching import documented_view, match_boxes
from birdlab.readers.chirp import read_colony

DATA = Path(__file__).parents[1] / "data" / "individuals"
VIDEO = "20210909_OiFHBq_1"
CASES = [c for c in json.loads((DATA / "cases.json").read_text()) if c["id"][0] in "CFPW" and c["id"] != "W08"]


def write(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def case_folder(root: Path, given: dict[str, Any]) -> Path:
    length = given.get("video_length") or round(given.get("minutes", 1) * 60 * 25)
    more = [given["fps"]] if "fps" in given else []
    head = ["Video", "VideoLength", "PossibleBirds", *(["FPS"] if more else [])]
    write(root / "MetaData.csv", head, [[VIDEO, length, "['abcd', 'efgh', 'wxyz']", *more]])
    box = ["Frame", "ID", "Xmin", "Ymin", "Xmax", "Ymax"]
    write(root / f"GroundTruth/{VIDEO}_BBox.csv", box, given.get("gt_bbox", []))
    events = ["ID", "Behaviour", "StartFrame", "EndFrame"]
    write(root / f"GroundTruth/{VIDEO}_PeckEvents.csv", events, given.get("peck_events", []))
    write(root / f"InferenceData/{VIDEO}_TrackedBBox_BoTSORT.csv", box, given.get("tracked", []))
    (root / f"InferenceData/{VIDEO}_BehavDict_C3D_BoTSORT.json").write_text(json.dumps(given.get("behav", {})))
    (root / f"InferenceData/{VIDEO}_CORVID_IDMatch_BoTSORT.json").write_text(json.dumps(given.get("idmatch", {})))
    return root


def rows_of(found: pl.DataFrame, measure: str) -> list[dict[str, Any]]:
    return found.filter(pl.col("measure").cast(pl.String) == measure).sort("subject").to_dicts()


@pytest.mark.parametrize("protocol", ["documented", "reference"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_hand_cases(tmp_path: Path, case: dict[str, Any], protocol: str) -> None:
    want = case["reference" if protocol == "reference" else "text_implies"]
    found = evaluate(read_colony(case_folder(tmp_path, case["input"])), protocol=protocol)
    summary = found.summary.row(0, named=True)
    if isinstance(want, dict):
        for key in ("frame_acc", "frame_acc_best_match", "frame_acc_boxes"):
            if key in want:
                assert summary["frame_accuracy"] == pytest.approx(want[key], abs=1e-12)
        if "track_acc" in want:
            assert summary["track_accuracy"] == pytest.approx(want["track_acc"], abs=1e-12)
        return
    measure = next(
        (
            m
            for k, m in (("GTFeedRate", "pecks_per_min"), ("GT_PropTime", "co_occurrence_frac"))
            if want and k in want[0]
        ),
        "feeding_f1" if want and "Peck_F1" in want[0] else None,
    )
    if measure is None:  # no row at all
        assert not rows_of(found.numbers, "feeding_f1" if case["id"][0] == "W" else "co_occurrence_frac")
        return
    mine = {tuple(r["subject"]): r for r in rows_of(found.numbers, measure)}
    for w in want:
        row = mine[tuple(w[k] for k in ("ID", "ID1", "ID2") if k in w)]
        if measure == "feeding_f1":
            assert row["predicted"] == pytest.approx(w["Peck_F1"], abs=1e-12)
            assert row["precision"] == (None if w["Peck_Precision"] is None else pytest.approx(w["Peck_Precision"]))
            assert row["recall"] == (None if w["Peck_Recall"] is None else pytest.approx(w["Peck_Recall"]))
        else:
            names = ("GTFeedRate", "PredFeedRate") if measure == "pecks_per_min" else ("GT_PropTime", "Pred_PropTime")
            assert [row["truth"], row["predicted"]] == pytest.approx([w[n] for n in names], abs=1e-12)
    if protocol == "reference" or case["id"][0] in "FP":
        assert len(mine) == len(want)


@pytest.fixture(scope="module")
def refset():
    return read_colony(DATA / "refset" / "data")


def authors(name: str, table: str) -> list[dict[str, str]]:
    with (DATA / "refset" / "out" / f"{name}_{table}.csv").open() as file:
        return list(csv.DictReader(file))


def test_reference_is_the_authors_output_row_by_row(refset) -> None:
    found = evaluate(refset, protocol="reference")
    lengths = dict(refset.videos.select("video_id", "n_frames").iter_rows())
    for key, part in found.numbers.group_by("identity", "tracker", "model"):
        name = "_".join(key)
        mine = {(r["measure"], r["video_id"], *r["subject"]): r for r in part.to_dicts()}
        rates = authors(name, "peck_rates")
        for w in rates:
            row = mine["pecks_per_min", w["Video"], w["ID"]]
            assert (row["truth"], row["predicted"]) == (float(w["GTFeedRate"]), float(w["PredFeedRate"]))
        pairs = authors(name, "proptime")
        for w in pairs:
            row = mine["co_occurrence_frac", w["Video"], w["ID1"], w["ID2"]]
            n = lengths[w["Video"]]
            for mine_value, theirs in ((row["truth"], w["GT_PropTime"]), (row["predicted"], w["Pred_PropTime"])):
                assert round(mine_value * n) == round(float(theirs) * n)
        seconds = authors(name, "precision_recall")
        for w in seconds:
            row = mine["feeding_f1", w["Video"], w["ID"]]
            want = [float(w[f"Peck_{k}"]) for k in ("Precision", "Recall", "F1")]
            assert [row["precision"], row["recall"], row["predicted"]] == pytest.approx(want, abs=1e-12)
        assert part.height == len(rates) + len(pairs) + len(seconds)


def test_reference_summary_and_people(refset) -> None:
    with (DATA / "refset" / "out" / "comprehensive_summary.csv").open() as file:
        want = {row["Combination"]: row for row in csv.DictReader(file)}
    for row in evaluate(refset, protocol="reference").summary.to_dicts():
        w = want[f"{row['identity']}_{row['tracker']}_{row['model']}"]
        assert row["frame_accuracy"] == float(w["PerFrame_Percentage_Correct"])
        assert row["track_accuracy"] == float(w["Track_Percentage_Correct"])
        assert row["feeding_f1"] == pytest.approx(float(w["Mean_Peck_F1"]), abs=1e-12)
        assert row["feeding_rate_sd_abs_error"] == pytest.approx(float(w["Std_FeedRate_AbsError"]), abs=1e-12)
    people = human_numbers(refset, protocol="reference").with_columns(pl.col("measure").cast(pl.String))
    told, w = summarise(people.to_dicts()), want["Human_Human_Human"]
    assert told["feeding_rate_mean_abs_error"] == pytest.approx(float(w["Mean_FeedRate_AbsError"]), abs=1e-12)
    assert told["feeding_rate_r"] == pytest.approx(float(w["FeedRate_Correlation"]), abs=1e-12)
    assert (told["feeding_rate_n"], told["co_occurrence_n"]) == (8, 12)


def test_error_budget_starts_from_the_printed_error(refset) -> None:
    summary = {(r["tracker"], r["identity"]): r for r in evaluate(refset, protocol="documented").summary.to_dicts()}
    names = {"pecks_per_min": "feeding_rate", "co_occurrence_frac": "co_occurrence"}
    for row in error_budget(documented_view(refset)).to_dicts():
        of = summary[row["tracker"], row["identity"]]
        assert row["total"] == pytest.approx(of[f"{names[row['measure']]}_mean_abs_error"], abs=1e-12)


def test_f1_is_the_mean_over_birds_w08() -> None:
    rows = [("v1", "abcd", 1.0), ("v2", "abcd", 1.0), ("v3", "abcd", 1.0), ("v1", "efgh", 0.0)]
    made = [
        {"protocol": "documented", "measure": "feeding_f1", "video_id": v, "subject": [b], "predicted": f}
        | {"precision": f, "recall": f, "truth": 1.0}
        for v, b, f in rows
    ]
    told = summarise(made)
    assert (told["feeding_f1"], told["feeding_f1_by_video_individual"]) == (0.5, 0.75)


def test_human_of_three_minutes_h01(tmp_path: Path) -> None:
    events = [["abcd", "peck", 400 * k, 400 * k + 4] for k in range(10)]
    root = case_folder(tmp_path, {"video_length": 4500, "peck_events": events, "gt_bbox": [[0, "abcd_1", 0, 0, 9, 9]]})
    pecks = {k for _, _, a, b in events for k in range(a, b + 1)}
    rows = "".join(f"{k / 25}\t1\t{int(k in pecks)}\n" for k in range(4500))
    (root / "HumanBenchmarkBORIS").mkdir()
    (root / "HumanBenchmarkBORIS" / f"{VIDEO}_abcd.tsv").write_text(f"time\tPresent\tPeck\n{rows}")
    colony = read_colony(root)
    values = {p: rows_of(human_numbers(colony, protocol=p), "pecks_per_min")[0] for p in ("documented", "reference")}
    assert [values["reference"][k] for k in ("truth", "predicted")] == [2.0, 10.0]
    assert [values["documented"][k] for k in ("truth", "predicted")] == pytest.approx([10 / 3, 10 / 3])


def test_matching_is_one_to_one_and_greedy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        truth, predicted = ([], [])
        for rows, n in ((truth, 4), (predicted, 5)):
            for k in range(n):
                x, y = rng.integers(0, 8, 2)
                rows.append((0, k, float(x), float(y), float(x + 10), float(y + 10)))
        schema = ["frame", "row", "xmin", "ymin", "xmax", "ymax"]
        t = pl.DataFrame(truth, schema=schema, orient="row").with_columns(
            video_id=pl.lit("v"), visit_id=pl.format("b_{}", "row")
        )
        p = pl.DataFrame(predicted, schema=schema, orient="row").with_columns(video_id=pl.lit("v"))
        found = match_boxes(t, p)
        assert found["row"].is_unique().all() and found["predicted_row"].is_unique().all()
        want = _greedy([r[2:] for r in truth], [r[2:] for r in predicted])
        assert sorted(found.select("row", "predicted_row").rows()) == sorted(want)


def _iou(a, b) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(w, 0) * max(h, 0)
    return both / (200 - both)


def _greedy(truth, predicted) -> list[tuple[int, int]]:
    pairs = sorted((-_iou(a, b), i, j) for i, a in enumerate(truth) for j, b in enumerate(predicted))
    taken: list[tuple[int, int]] = []
    for value, i, j in pairs:
        if -value >= 0.5 and i not in {x for x, _ in taken} and j not in {y for _, y in taken}:
            taken.append((i, j))
    return taken


@given(
    st.lists(st.tuples(st.integers(-30, 130), st.integers(0, 40)), max_size=8), st.integers(1, 120), st.integers(1, 30)
)
@settings(max_examples=80, deadline=None)
def test_seconds_are_those_with_a_frame_of_a_span(spans, n, width) -> None:
    whole = [(a, a + d) for a, d in spans]
    frames = {f for a, b in whole for f in range(a, b + 1) if 0 <= f < n}
    want = [any(f in frames for f in range(s, min(s + width, n))) for s in range(0, n, width)]
    assert seconds_with(whole, n, width).tolist() == want


def test_precision_recall_equal_scikit_learn() -> None:
    from sklearn.metrics import precision_recall_fscore_support

    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b = rng.random((2, 12)) < rng.random()
        want = precision_recall_fscore_support(a, b, average="binary", zero_division=0)[:3]
        assert precision_recall(a, b, zero=0.0) == pytest.approx(want)
    nothing = np.zeros(4, dtype=bool)
    assert precision_recall(nothing, nothing) == (None, None, None)


def test_error_summary_rules() -> None:
    assert error_summary([1.0], [2.0])["sd_abs_error"] is None and error_summary([1.0], [2.0])["r"] is None
    assert error_summary([0, 0], [0, 2])["sd_abs_error"] == pytest.approx(np.sqrt(2))
    constant = error_summary([2, 2, 2], [1, 2, 3])
    assert constant["r"] is None and constant["reason"] == "one side is constant"
    assert error_summary([0] * 4, [1, 2, 3, 10])["median_abs_error"] == 2.5
    assert error_summary([], [])["mean_abs_error"] is None
    rng = np.random.default_rng(1)
    t, p = rng.normal(size=(2, 30))
    found = error_summary(t, p, group=np.repeat(["a", "b", "c"], 10))
    assert found["r"] == pytest.approx(np.corrcoef(t, p)[0, 1])
    assert found["loa_hi"] - found["bias"] == pytest.approx(1.96 * (p - t).std(ddof=1))
    assert abs(concordance(t, p)) <= abs(found["r"])
    assert concordance(t, t) == pytest.approx(1) and concordance(t, t + 5) < 0.2


def test_odd_input_is_counted_and_scored(tmp_path: Path) -> None:
    box = [0, "abcd_1", 0, 0, 10, 10]
    given = {
        "video_length": 100,
        "gt_bbox": [box, box, [1, "efgh_1", 9, 9, 3, 3], [2, "unknown", 0, 0, 5, 5]],
        "peck_events": [
            ["abcd", "peck", 5, 9],
            ["abcd", "peck", 5, 9],
            ["abcd", "peck", 200, 210],
            ["abcd", "peck", 95, 150],
        ],
        "tracked": [[0, "t1", 0, 0, 10, 10], [0, "t2", 30, 30, 20, 20]],
        "behav": {"t1": [[0, 25, "Peck"]]},
        "idmatch": {"t1": "abcd", "t2": "zzzz"},
    }
    colony = read_colony(case_folder(tmp_path, given))
    codes = set(colony.notices["code"])
    assert {"duplicate_box", "flat_box", "event_outside", "duplicate_event", "flat_track_box"} <= codes
    found = evaluate(colony, protocol="documented")
    assert found.summary["n_boxes"][0] == 1 and found.summary["frame_accuracy"][0] == 1.0
    rates = {r["subject"][0]: r for r in rows_of(found.numbers, "pecks_per_min")}
    assert rates["abcd"]["truth"] == pytest.approx(2 / (100 / 25 / 60))
    assert rates["zzzz"]["truth"] == 0.0


def test_one_bird_has_no_pair_and_keeps_its_row(tmp_path: Path) -> None:
    given = {"gt_bbox": [[0, "abcd_1", 0, 0, 10, 10]], "tracked": [], "video_length": 50}
    found = evaluate(read_colony(case_folder(tmp_path, given)), protocol="documented")
    row = found.summary.row(0, named=True)
    assert row["co_occurrence_n"] == 0 and row["co_occurrence_mean_abs_error"] is None
    assert row["co_occurrence_reason"] and row["frame_accuracy"] == 0.0 and row["frame_precision"] is None


def test_assignment_never_beats_the_best_possible() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.uniform(0, 20, (2, 6, 2))
    value = np.array([[_iou((*x, *(x + 10)), (*y, *(y + 10))) for y in b] for x in a])
    i, j = linear_sum_assignment(-(value >= 0.5).astype(float))
    rows = (
        [(0, k, *map(float, (*x, *(x + 10)))) for k, x in enumerate(a)],
        [(0, k, *map(float, (*y, *(y + 10)))) for k, y in enumerate(b)],
    )
    schema = ["frame", "row", "xmin", "ymin", "xmax", "ymax"]
    t, p = (pl.DataFrame(r, schema=schema, orient="row").with_columns(video_id=pl.lit("v")) for r in rows)
    assert match_boxes(t.with_columns(visit_id=pl.format("b_{}", "row")), p).height <= (value[i, j] >= 0.5).sum()


def test_a_combination_that_lacks_videos_is_marked(refset) -> None:
    part = replace(refset, combinations=refset.combinations.with_columns(pl.lit(False).alias("complete")))
    assert not evaluate(part, protocol="documented").summary["complete"].any()


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["score", "application", str(DATA / "refset" / "data"), "--json", "--protocol", "reference"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["protocol"] == "reference" and len(out["combinations"]) == 4
    keys = {"tracker", "model", "identity", "frame_accuracy", "track_accuracy", "feeding_precision", "feeding_recall",
            "feeding_f1", "feeding_f1_by_video_individual", "feeding_rate", "co_occurrence", "complete",
            "missing_videos"}  # fmt: skip
    assert keys <= set(out["combinations"][0])
    assert {"mean_abs_error", "median_abs_error", "sd_abs_error", "r", "n"} <= set(out["human"]["feeding_rate"])
    assert main(["score", "application", str(DATA / "refset" / "data")]) == 0
    assert "a person" in capsys.readouterr().out
    assert main(["score", "application", str(tmp_path), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["errors"][0]["file"].endswith("MetaData.csv")
