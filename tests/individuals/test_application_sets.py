"""Application sets cut from the authors' small one and made by hand: what is scored, marked, counted and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.special import stdtrit
from test_application import VIDEO, case_folder, rows_of

from birdlab.cli import main
from birdlab.individuals.errors import error_summary
from birdlab.individuals.evaluate import SUMMARY, evaluate
from birdlab.individuals.matching import documented_view
from birdlab.individuals.notices import notices
from birdlab.readers.chirp import Colony, read_colony

DATA = Path(__file__).parents[1] / "data" / "individuals"
REFSET = DATA / "refset" / "data" / "ApplicationSpecific"
CASES = {c["id"]: c for c in json.loads((DATA / "cases.json").read_text())}
NAMES = ("tracker", "model", "identity")


def cut(root: Path, rename: tuple[str, str] = ("", ""), keep: str = "", more: int = 0) -> Path:
    """A folder cut from refset: files of ``BoTSORT`` and ``CORVID`` of videos named like ``keep``, renamed."""
    shutil.copytree(REFSET, root)
    for path in sorted((root / "InferenceData").iterdir()):
        if "OCSORT" in path.name or "MegaDesc" in path.name or not path.name.startswith(keep):
            path.unlink()
        elif rename[0]:
            path.rename(path.with_name(path.name.replace(*rename)))
    with (root / "MetaData.csv").open("a") as file:
        file.writelines(f"more_{i},1500,\"['abcd']\"\n" for i in range(more))
    return root


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    summary = evaluate(read_colony(REFSET)).summary
    return summary.filter(tracker="BoTSORT", model="C3D", identity="CORVID").row(0, named=True)


@pytest.mark.parametrize(
    ("rename", "names"),
    [
        (("BoTSORT", "Byte_Track"), ("Byte_Track", "C3D", "CORVID")),  # E02
        (("C3D", "C3D_v2"), ("BoTSORT", "C3D_v2", "CORVID")),  # E03
        (("CORVID", "Fine_Mega"), ("BoTSORT", "C3D", "Fine_Mega")),  # E04
    ],
)
def test_e02_e03_e04_another_name_changes_no_number(tmp_path: Path, whole, rename, names) -> None:
    row = evaluate(read_colony(cut(tmp_path / "x", rename))).summary.row(0, named=True)
    assert tuple(row[k] for k in NAMES) == names
    same = [k for k in SUMMARY if k not in (*NAMES, "videos")]
    assert {k: row[k] for k in same} == {k: whole[k] for k in same}


def test_e01_one_of_twelve_videos_is_scored_alone_and_marked(tmp_path: Path) -> None:
    root = cut(tmp_path / "x", keep=VIDEO, more=10)
    found = evaluate(read_colony(root))
    row = found.summary.row(0, named=True)
    assert not row["complete"] and len(row["missing_videos"]) == 11 and row["videos"] == [VIDEO]
    assert found.numbers["video_id"].unique().to_list() == [VIDEO]
    assert row["n_boxes"] == documented_view(read_colony(root)).boxes.filter(video_id=VIDEO).height
    assert row["feeding_rate_mae_lo"] is None and row["feeding_rate_n_clusters"] == 1


def test_e06_a_video_without_metadata_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = cut(tmp_path / "x")
    kept = [line for line in (root / "MetaData.csv").read_text().splitlines() if not line.startswith(VIDEO)]
    (root / "MetaData.csv").write_text("\n".join(kept) + "\n")
    assert main(["score", "application", str(root), "--json"]) == 3
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert errors and all(VIDEO in e["found"] for e in errors)


def test_e07_only_submitted_combinations_are_rows(tmp_path: Path) -> None:
    shutil.copytree(REFSET, root := tmp_path / "x")
    for path in sorted((root / "InferenceData").iterdir()):
        if "MegaDesc" in path.name:
            path.unlink()
        elif "C3D_OCSORT" in path.name:
            path.rename(path.with_name(path.name.replace("C3D", "SlowFast")))
    got = evaluate(read_colony(root)).summary.select("model", "identity", "tracker").rows()
    assert sorted(map(list, got)) == sorted(CASES["E07"]["text_implies"]["valid"])


def test_summary_cases() -> None:
    none = error_summary(CASES["S02"]["input"]["gt"], CASES["S02"]["input"]["pred"])
    assert none["sd_abs_error"] is None and none["r"] is None and none["reason"]
    constant = error_summary(CASES["S03"]["input"]["gt"], CASES["S03"]["input"]["pred"])
    assert constant["r"] is None and constant["reason"]
    for case, key, name in (("S01", "std", "sd_abs_error"), ("S05", "median", "median_abs_error")):
        errors = CASES[case]["input"]["abs_error"]
        assert error_summary([0] * len(errors), errors)[name] == pytest.approx(CASES[case]["text_implies"][key])


def made(root: Path, **given: Any) -> Colony:
    return read_colony(case_folder(root, {"video_length": 100, **given}))


def told(colony: Colony) -> dict[str, str]:
    return dict(notices(colony, documented_view(colony)).select("code", "message").rows())


def test_birds_that_one_side_lacks_are_named_and_scored(tmp_path: Path) -> None:
    colony = made(
        tmp_path,
        gt_bbox=[[f, f"{b}_1", x, 0, x + 10, 10] for f in range(5) for b, x in (("abcd", 0), ("efgh", 40))],
        tracked=[[f, t, x, 0, x + 10, 10] for f in range(5) for t, x in (("t1", 0), ("t2", 40))],
        peck_events=[["efgh", "peck", 3, 5]],
        behav={"t1": [[0, 25, "Peck"]]},
        idmatch={"t1": "abcd", "t2": "wxyz"},
    )
    said = told(colony)
    assert "efgh" in said["never_predicted"] and "wxyz" in said["never_seen"] and VIDEO in said["one_video"]
    found = evaluate(colony)
    rates = {r["subject"][0]: (r["truth"], r["predicted"]) for r in rows_of(found.numbers, "pecks_per_min")}
    assert rates == {"abcd": (0, 15), "efgh": (15, 0), "wxyz": (0, 0)}
    pairs = {tuple(r["subject"]): (r["truth"], r["predicted"]) for r in rows_of(found.numbers, "co_occurrence_frac")}
    assert pairs == {("abcd", "efgh"): (0.05, 0), ("abcd", "wxyz"): (0, 0.05)}
    assert found.summary["frame_accuracy"][0] == found.summary["frame_precision"][0] == 0.5


def test_empty_predictions_are_named_and_scored(tmp_path: Path) -> None:
    colony = made(tmp_path, gt_bbox=[[0, "abcd_1", 0, 0, 9, 9]], peck_events=[["abcd", "peck", 0, 1]])
    said = told(colony)
    assert {"no_box", "no_window", "no_name", "alone"} <= set(said) and f"BoTSORT in {VIDEO}" in said["no_box"]
    row = evaluate(colony).summary.row(0, named=True)
    assert (row["frame_accuracy"], row["track_accuracy"], row["frame_precision"]) == (0, 0, None)
    assert (row["feeding_precision"], row["feeding_recall"], row["feeding_f1"]) == (None, 0, 0)
    assert row["feeding_rate_mean_abs_error"] == 15 and row["co_occurrence_n"] == 0


def test_what_lies_outside_the_video_does_not_count(tmp_path: Path) -> None:
    colony = made(
        tmp_path,
        gt_bbox=[[f, "abcd_1", 0, 0, 10, 10] for f in (98, 99, 100, 101)],
        tracked=[[f, "t1", 0, 0, 10, 10] for f in (99, 100, 101)],
        # Two behaviours that only clipping makes alike are two.
        peck_events=[["abcd", "peck", 95, 120], ["abcd", "peck", 95, 130], ["abcd", "peck", 100, 110]],
        behav={"t1": [[75, 100, "Peck"], [100, 125, "Peck"]]},
        idmatch={"t1": "abcd"},
    )
    said = told(colony)
    assert {"frame_outside", "track_frame_outside", "event_outside", "window_outside"} <= set(said)
    found = evaluate(colony)
    row = found.summary.row(0, named=True)
    assert (row["n_boxes"], row["n_named"], row["frame_accuracy"], row["frame_precision"]) == (2, 1, 0.5, 1)
    rate = rows_of(found.numbers, "pecks_per_min")[0]
    assert (rate["truth"], rate["predicted"]) == (30, 15)


def test_a_flat_box_in_the_authors_rule_covers_nothing(tmp_path: Path) -> None:
    colony = made(
        tmp_path,
        gt_bbox=[[0, "abcd_1", 5, 5, 5, 5], [1, "abcd_1", 0, 0, 10, 10]],
        tracked=[[0, "t1", 0, 0, 10, 10], [1, "t1", 0, 0, 10, 10]],
        idmatch={"t1": "abcd"},
    )
    values = {p: evaluate(colony, protocol=p).summary["frame_accuracy"][0] for p in ("reference", "documented")}
    assert values == {"reference": 0.5, "documented": 1.0}


def test_intervals_are_over_videos() -> None:
    """The mean error of two videos: the textbook t interval of a ratio of sums, by hand."""
    found, names = evaluate(read_colony(REFSET)), {"tracker": "BoTSORT", "model": "C3D", "identity": "CORVID"}
    key = pl.col("measure").cast(pl.String) == "pecks_per_min"
    sums: dict[str, list[float]] = {}
    for row in found.numbers.filter(key, **names).to_dicts():
        sums.setdefault(row["video_id"], []).append(row["abs_error"])
    row = found.summary.filter(**names).row(0, named=True)
    assert row["feeding_rate_n_clusters"] == len(sums) == 2
    n = sum(map(len, sums.values()))
    mean = sum(map(sum, sums.values())) / n
    assert row["feeding_rate_mean_abs_error"] == pytest.approx(mean)
    spread = sum((sum(v) - mean * len(v)) ** 2 for v in sums.values())
    assert spread > 0
    half = stdtrit(1, 0.975) * (2 / (2 - 1) * spread) ** 0.5 / n
    assert row["feeding_rate_mae_hi"] == pytest.approx(mean + half)
    assert row["feeding_rate_mae_lo"] == pytest.approx(max(0.0, mean - half))


def test_every_null_of_the_json_has_its_own_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = case_folder(tmp_path, {"video_length": 100, "gt_bbox": [[0, "abcd_1", 0, 0, 9, 9]]})
    assert main(["score", "application", str(root), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    one = report["combinations"][0]
    for name in ("feeding_rate", "co_occurrence"):
        nulls = {f"{name}.{k}" for k, v in one[name].items() if v is None and k != "reason"}
        assert nulls and nulls == {k for k in one["reasons"] if k.startswith(name)}
    assert one["reasons"]["feeding_rate.mae_lo"].startswith("one video")
    assert one["reasons"]["feeding_rate.r"] == "fewer than 3 points"
    assert one["reasons"]["co_occurrence.mean_abs_error"] == "nothing to compare"
    assert {"no_box", "alone", "one_video"} <= {n["code"] for n in report["notices"]}
    assert main(["score", "application", str(REFSET), "--json"]) == 0
    same = [c for c in json.loads(capsys.readouterr().out)["combinations"] if c["tracker"] == "OCSORT"]
    assert any(c["reasons"].get("feeding_rate.mae_lo") == "the mean error is the same in every video" for c in same)
