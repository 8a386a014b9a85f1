"""Keypoints of models against those by hand: errors, PCK, OKS AP, and who is laid on whom."""

from __future__ import annotations

import contextlib
import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.individuals import command_keypoints
from birdlab.individuals.keypoints import (
    MISSED,
    NO_VIDEO,
    keypoint_errors,
    keypoint_rows,
    keypoint_scores,
    pck_curve,
    score_intervals,
)
from birdlab.individuals.oks import MEASURES, oks, oks_average_precision, sigma_list
from birdlab.individuals.poses import keypoint_table
from birdlab.metrics import metric_frame
from birdlab.readers.coco_keypoints import read_results, read_truth
from birdlab.stats import mean_difference, new_sessions

THIRTEEN = [f"k{i}" for i in range(13)]


def _coco(birds: list[dict[str, Any]], names: list[str], *, n_images: int = 1, **images: list[Any]) -> dict[str, Any]:
    rows = [
        {"id": i + 1, "file_name": f"v{i % 3}/{i:03d}.jpg", **{k: v[i] for k, v in images.items()}}
        for i in range(n_images)
    ]
    annotations = [{"id": k + 1, "image_id": 1, "category_id": 1, "iscrowd": 0, **b} for k, b in enumerate(birds)]
    return {"images": rows, "annotations": annotations, "categories": [{"id": 1, "name": "bird", "keypoints": names}]}


def _write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def _flat(points: list[tuple[float, float, float]]) -> list[float]:
    return [v for p in points for v in p]


def _points(
    rows: list[tuple[str, float | None, float]], *, size: float = 100.0, scene: str | None = None
) -> pl.DataFrame:
    """video, error, x of seen keypoints."""
    table = [
        {
            "model": "m", "instance_id": f"i{k}", "image_id": f"i{k}", "video_id": video, "scene": scene, "keypoint": "bill",
            "visible": True, "x": x, "y": 0.0, "x_predicted": None if e is None else x + e,
            "y_predicted": None if e is None else 0.0, "error_px": e, "size_px": size,
        }
        for k, (video, e, x) in enumerate(rows)
    ]  # fmt: skip
    return pl.DataFrame(table, schema=schemas.TABLES["keypoints"].dtypes)


def test_errors_and_shares_by_hand() -> None:
    found = keypoint_scores(_points([("a", 3.0, 0), ("a", 5.0, 0), ("b", 10.0, 0), ("b", 30.0, 0), ("b", None, 0)]))
    assert (found["n_points"], found["n_missing"], found["n_instances"]) == (5, 1, 5)
    assert (found["mean_px"], found["median_px"]) == (12.0, 7.5)
    assert found["p95_px"] == pytest.approx(np.percentile([3, 5, 10, 30], 95))
    # At the threshold counts; the missing one is beyond each.
    assert (found["pck_5"], found["pck_10"], found["pck_norm_0.05"], found["pck_norm_0.1"]) == (0.4, 0.6, 0.4, 0.6)


def test_no_visible_keypoint_and_none_placed_are_null_with_a_reason() -> None:
    none = keypoint_scores(_points([]))
    assert [none[k] for k in ("mean_px", "median_px", "p95_px", "pck_5", "pck_norm_0.1")] == [None] * 5
    rows = metric_frame(keypoint_rows(_points([("a", None, 0), ("b", None, 0)]), pl.DataFrame(schema=_OKS)))
    whole = {r["metric"]: r for r in rows.filter(group="all").to_dicts()}
    assert (whole["error_mean_px"]["value"], whole["error_mean_px"]["reason"]) == (None, "no keypoint was placed")
    assert whole["pck_5"]["value"] == 0.0
    hidden = _points([("a", None, 0)]).with_columns(visible=False)
    rows = metric_frame(keypoint_rows(hidden, pl.DataFrame(schema=_OKS)))
    assert set(rows["reason"]) == {MISSED}


_OKS = {"model": pl.String, "measure": pl.String, "value": pl.Float64, "n": pl.Int64, "reason": pl.String}


def test_intervals_are_over_videos() -> None:
    rows = [("a", 1.0, 0), ("a", 3.0, 0), ("b", 6.0, 0), ("b", 12.0, 0), ("c", 4.0, 0), ("c", None, 0)]
    ends = score_intervals(_points(rows))
    mean = mean_difference([4.0, 18.0, 4.0], [2, 2, 1], unit="video")
    assert (ends["mean_px"].lo, ends["mean_px"].hi) == (max(0.0, mean.lo), mean.hi)
    share = new_sessions([2, 0, 1], [2, 2, 2], unit="video")
    assert (ends["pck_5"].lo, ends["pck_5"].hi) == (share.lo, share.hi)
    assert 1.0 <= ends["median_px"].lo <= 4.0 <= ends["median_px"].hi <= 12.0
    one = score_intervals(_points(rows[:2]))
    assert {at.lo for at in one.values()} == {None}
    assert all("one video" in at.reason for at in one.values())
    unknown = score_intervals(_points([*rows, (None, 1.0, 0)]))
    assert {at.reason for at in unknown.values()} == {NO_VIDEO}


def test_the_interval_of_a_median_covers() -> None:
    """Twelve videos with effects of their own: about 95 of 100 intervals hold the median of all videos."""
    rng = np.random.default_rng(5)
    hits, n = {"mean_px": 0, "median_px": 0, "pck_5": 0}, 200
    big = np.exp(rng.normal(1.5, 0.4, (400_000, 1)) + rng.normal(0, 0.6, (400_000, 1))).ravel()
    truth = {"mean_px": big.mean(), "median_px": np.median(big), "pck_5": (big <= 5).mean()}
    for _ in range(n):
        level = rng.normal(1.5, 0.4, 12)
        errors = np.exp(np.repeat(level, 30) + rng.normal(0, 0.6, 360))
        frame = _points([(f"v{i // 30:02d}", float(e), 0.0) for i, e in enumerate(errors)])
        for name, at in score_intervals(frame).items():
            if name in hits:
                hits[name] += at.lo <= truth[name] <= at.hi
    assert all(0.88 <= k / n <= 1.0 for k in hits.values()), hits


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 60)), min_size=1, max_size=30))
def test_the_curve_ends_in_pck_and_rises(errors: list[float | None]) -> None:
    frame = _points([("a", e, 0) for e in errors])
    curve = pck_curve(frame)
    share = dict(curve.select("threshold_px", "share").iter_rows())
    found = keypoint_scores(frame)
    assert (share[5.0], share[10.0]) == (pytest.approx(found["pck_5"]), pytest.approx(found["pck_10"]))
    assert curve["share"].is_sorted()
    assert curve["threshold_px"].to_list() == [i / 2 for i in range(61)]


def test_errors_by_keypoint_and_scene_for_the_figure() -> None:
    frame = pl.concat([_points([("a", 2.0, 0), ("a", None, 0)], scene="perch"), _points([("a", 8.0, 0)], scene=None)])
    assert keypoint_errors(frame).rows() == [
        ("m", "bill", "perch", 2.0, 2.0, 1), ("m", "bill", "all", 8.0, 8.0, 1),
    ]  # fmt: skip
    rows = metric_frame(keypoint_rows(frame, pl.DataFrame(schema=_OKS)))
    assert rows.filter(group="scene", level="perch", metric="pck_5")["value"].to_list() == [0.5]
    assert rows.filter(group="keypoint", level="bill", metric="error_mean_px")["value"].to_list() == [5.0]
    assert "all" not in rows.filter(group="scene")["level"].to_list()


# OKS


def _truth_of(tmp_path: Path, coco: dict[str, Any]):
    return read_truth(_write(tmp_path / "truth.json", coco))


def _bird(n: int = 13, *, at: float = 50.0, v: float = 2, side: float = 100.0, **more: Any) -> dict[str, Any]:
    points = _flat([(at + 3 * i, at + 2 * i, v) for i in range(n)])
    return {"keypoints": points, "bbox": [at, at, side, side], "area": side * side, **more}


def test_thirteen_keypoints_with_their_own_sigmas_and_no_others(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird()], THIRTEEN))
    found = read_results(
        _write(tmp_path / "r.json", [{"image_id": 1, "keypoints": _bird()["keypoints"], "score": 0.9}]), truth
    )
    values = oks_average_precision(truth, found, sigma_list(truth.names, 0.05))
    assert values["ap"] == pytest.approx(1.0)
    assert values["ap_large"] == pytest.approx(1.0)
    assert values["ap_medium"] is None


def test_small_birds_have_no_bin_of_their_own(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(side=30.0)], THIRTEEN))
    found = read_results(
        _write(tmp_path / "r.json", [{"image_id": 1, "keypoints": _bird()["keypoints"], "score": 1}]), truth
    )
    values = oks_average_precision(truth, found, [0.05] * 13)
    assert [values[k] for k in ("ap", "ap50", "ap75")] == [pytest.approx(1.0)] * 3
    assert (values["ap_medium"], values["ap_large"]) == (None, None)


def test_a_bird_without_a_visible_keypoint_is_ignored(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(v=0)], THIRTEEN))
    found = read_results(
        _write(tmp_path / "r.json", [{"image_id": 1, "keypoints": _bird()["keypoints"], "score": 1}]), truth
    )
    assert set(oks_average_precision(truth, found, [0.05] * 13).values()) == {None}
    assert oks(truth.instances[0].points, found.instances[0].points, 100.0, [0.05] * 13) is None
    nothing = read_results(_write(tmp_path / "none.json", []), truth)
    assert set(oks_average_precision(truth, nothing, [0.05] * 13).values()) == {None}
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_is_that_of_pycocotools_on_the_files(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, sigmas = ["a", "b", "c", "d"], [0.03, 0.05, 0.08, 0.1]
    birds, results = [], []
    for k in range(30):
        side = float(rng.uniform(20, 160))
        xy = rng.uniform(0, side, (4, 2)) + rng.uniform(0, 400, 2)
        v = rng.choice([0, 1, 2], 4)
        image = int(rng.integers(1, 11))
        box = [*xy.min(axis=0).tolist(), side, side]
        points = np.column_stack([xy, v])
        about = {"image_id": image, "bbox": box, "area": side * side * 0.6, "num_keypoints": int((v > 0).sum())}
        birds.append({**about, "keypoints": points.ravel().tolist(), "iscrowd": int(k == 3)})
        for _ in range(rng.integers(0, 3)):
            guess = np.column_stack([xy + rng.normal(0, 0.08 * side, (4, 2)), rng.uniform(0, 1, 4)])
            row = {"image_id": image, "category_id": 1, "keypoints": guess.ravel().tolist()}
            results.append({**row, "score": float(rng.uniform())})
    coco = _coco(birds, names, n_images=10)
    truth = _truth_of(tmp_path, coco)
    found = read_results(_write(tmp_path / "r.json", results), truth)
    with contextlib.redirect_stdout(io.StringIO()):
        gt = COCO(str(tmp_path / "truth.json"))
        run = COCOeval(gt, gt.loadRes(str(tmp_path / "r.json")), "keypoints")
        run.params.kpt_oks_sigmas = np.array(sigmas)
        run.evaluate()
        run.accumulate()
        run.summarize()
    mine = oks_average_precision(truth, found, sigmas)
    for name, want in zip(MEASURES, run.stats, strict=True):
        assert mine[name] == (None if want < 0 else pytest.approx(want, abs=1e-12)), name
    # The similarity of pairs, too.
    for image in {b.image_id for b in found.instances}:
        dts = sorted((b for b in found.instances if b.image_id == image), key=lambda b: -b.score)
        gts = [b for b in truth.instances if b.image_id == image]
        matrix = np.asarray(run.computeOks(int(image), 1))
        for j, g in enumerate(gts):
            if (g.points[:, 2] > 0).any():
                np.testing.assert_allclose(
                    [oks(g.points, d.points, g.area, sigmas) for d in dts], matrix[:, j], rtol=1e-12
                )


def test_sigmas_must_name_every_keypoint() -> None:
    assert sigma_list(["a", "b"], {"b": 0.2, "a": 0.1}) == [0.1, 0.2]
    with pytest.raises(ParameterError, match=r"none for b; unknown c"):
        sigma_list(["a", "b"], {"a": 0.1, "c": 0.1})


# Who is laid on whom


def _results(tmp_path: Path, truth, birds: list[dict[str, Any]]):
    return read_results(_write(tmp_path / "r.json", [{"image_id": 1, "score": 0.5, **b} for b in birds]), truth)


def test_birds_are_laid_on_each_other_by_oks_one_to_one(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(2, at=50.0), _bird(2, at=60.0)], ["a", "b"]))
    near = [{"keypoints": _bird(2, at=at)["keypoints"]} for at in (61.0, 58.0)]
    table, notices = keypoint_table(truth, _results(tmp_path, truth, near), model="m", sigmas=[0.05] * 2)
    # 61 is nearest to 60; 58 would be nearer to 60 than to 50, but 60 is taken.
    error = dict(table.group_by("instance_id").agg(pl.col("error_px").mean()).iter_rows())
    assert error == {"1/1": pytest.approx(8 * np.sqrt(2)), "1/2": pytest.approx(np.sqrt(2))}
    assert notices == []


def test_a_bird_too_few_and_one_too_many_are_counted(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(2), _bird(2, at=300.0)], ["a", "b"], n_images=2))
    table, notices = keypoint_table(
        truth, _results(tmp_path, truth, [{"keypoints": _bird(2)["keypoints"]}, {"image_id": 2, "keypoints": _bird(2)["keypoints"]}]),
        model="m", sigmas=[0.05] * 2,
    )  # fmt: skip
    assert [(n.code, n.n) for n in notices] == [("birds_without_pose", 1), ("poses_without_bird", 1)]
    assert keypoint_scores(table)["n_missing"] == 2
    assert table.filter(pl.col("instance_id") == "1/2")["x_predicted"].to_list() == [None, None]


def test_two_birds_far_from_both_go_to_the_nearer(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(2, side=10.0), _bird(2, at=900.0, side=10.0)], ["a", "b"]))
    far = [{"keypoints": _bird(2, at=2000.0)["keypoints"]}, {"keypoints": _bird(2, at=-800.0)["keypoints"]}]
    table, _ = keypoint_table(truth, _results(tmp_path, truth, far), model="m", sigmas=[0.05] * 2)
    first = dict(table.filter(keypoint="a").select("instance_id", "x_predicted").iter_rows())
    assert first == {"1/1": -800.0, "1/2": 2000.0}


def test_v_zero_is_not_placed_unless_it_always_is(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(2)], ["a", "b"]))
    some = _results(tmp_path, truth, [{"keypoints": [50, 50, 0.9, 0, 0, 0]}])
    table, _ = keypoint_table(truth, some, model="m", sigmas=[0.05] * 2)
    assert table["error_px"].to_list() == [0.0, None]
    never = _results(tmp_path, truth, [{"keypoints": [50, 50, 0, 53, 52, 0]}])
    assert [n.code for n in never.notices] == ["no_visibility"]
    table, _ = keypoint_table(truth, never, model="m", sigmas=[0.05] * 2)
    assert table["error_px"].to_list() == [0.0, 0.0]


def test_crowds_are_not_scored_and_hidden_keypoints_neither(tmp_path: Path) -> None:
    hidden = {"keypoints": [50, 50, 1, 0, 0, 0], "bbox": [0, 0, 40, 80]}
    coco = _coco([hidden, _bird(2, at=300.0, iscrowd=1)], ["a", "b"])
    truth = _truth_of(tmp_path, coco)
    assert [(n.code, n.n) for n in truth.notices] == [("crowds", 1)]
    guesses = [{"keypoints": [53, 54, 1, 9, 9, 1]}, {"keypoints": _bird(2, at=300.0)["keypoints"]}]
    table, notices = keypoint_table(truth, _results(tmp_path, truth, guesses), model="m", sigmas=[0.05] * 2)
    assert table.select("keypoint", "visible", "error_px", "size_px").rows() == [
        ("a", True, 5.0, 80.0),
        ("b", False, None, 80.0),
    ]
    assert notices == []


# Files


def test_a_truth_with_mistakes_names_all_of_them(tmp_path: Path) -> None:
    rows = [
        _bird(2), {**_bird(2), "image_id": 9}, {"keypoints": [1, 2]}, {"keypoints": [1, 2, 3, 4, 5, 6]},
        {"keypoints": [1, 2, 2, None, 5, 2]}, {**_bird(2), "id": 1},
    ]  # fmt: skip
    coco = _coco(rows, ["a", "b"])
    coco["images"].append(dict(coco["images"][0]))
    with pytest.raises(DataError) as caught:
        _truth_of(tmp_path, coco)
    assert [(p.code, p.record) for p in caught.value.problems] == [
        ("bad_image_id", "images[1]"), ("unknown_image_id", "annotations[1]"), ("bad_keypoints", "annotations[2]"),
        ("bad_visibility", "annotations[3]"), ("bad_keypoints", "annotations[4]"), ("id_twice", "annotations[5]"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"images": []}, "bad_shape"),
        ([], "bad_shape"),
        ({"images": [], "annotations": [], "categories": [{"id": 1}]}, "no_keypoints"),
        ({"images": [], "annotations": [], "categories": [{"keypoints": ["a"]}]}, "no_keypoints"),
    ],
)
def test_what_is_no_keypoint_file(tmp_path: Path, value: Any, code: str) -> None:
    with pytest.raises(DataError) as caught:
        read_truth(_write(tmp_path / "t.json", value))
    assert caught.value.problems[0].code == code


def test_results_with_mistakes_and_whole_files(tmp_path: Path) -> None:
    truth = _truth_of(tmp_path, _coco([_bird(2)], ["a", "b"]))
    with pytest.raises(DataError) as caught:
        read_results(_write(tmp_path / "r.json", [3, {"image_id": 7}, {"image_id": 1, "keypoints": "x"}]), truth)
    assert [p.code for p in caught.value.problems] == ["bad_shape", "unknown_image_id", "bad_keypoints"]
    whole = read_results(_write(tmp_path / "w.json", _coco([_bird(2)], ["a", "b"])), truth)
    assert len(whole.instances) == 1
    assert [(n.code, n.n) for n in whole.notices] == [("no_score", 1)]
    with pytest.raises(DataError, match="other_keypoints|found b, a"):
        read_results(_write(tmp_path / "o.json", _coco([_bird(2)], ["b", "a"])), truth)
    assert read_results(
        _write(tmp_path / "f.json", [{"image_id": 1.0, "keypoints": [1, 2, 1, 3, 4, 1]}]), truth
    ).instances


def _args(truth: Path, *predictions: Path, sigmas: str = "0.05") -> Namespace:
    about = {"scene": "scene", "session": "video", "sigmas": sigmas, "json": True}
    return Namespace(truth=truth, predictions=list(predictions), **about)


def test_command_prints_every_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, n = ["bill", "tail"], 6
    birds = [{"image_id": i + 1, **_bird(2)} for i in range(n)]
    coco = _coco(birds, names, n_images=n, video=[f"v{i % 3}" for i in range(n)], scene=["perch", "ground"] * 3)
    truth = _write(tmp_path / "truth.json", coco)
    results = [
        {"image_id": i + 1, "score": 0.9, "keypoints": [50 + i, 50, 1, 53, 52, 0 if i == 5 else 1]} for i in range(n)
    ]
    model = _write(tmp_path / "curlew.json", results)
    sigmas = _write(tmp_path / "sigmas.json", {"tail": 0.08, "bill": 0.03})
    assert command_keypoints.score_command(_args(truth, model, sigmas=str(sigmas))) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["keypoints"] == names
    (found,) = out["models"]
    assert (found["name"], found["n_instances"], found["n_points"], found["n_missing"]) == ("curlew", 6, 12, 1)
    assert found["mean_px"] == pytest.approx(15 / 11)
    assert found["pck"] == {"5": pytest.approx(11 / 12), "10": pytest.approx(11 / 12)}
    assert set(found["pck_normalised"]) == {"0.05", "0.1"}
    assert found["oks"]["sigmas"] == {"bill": 0.03, "tail": 0.08}
    assert 0 < found["oks"]["ap"] < 1
    assert found["oks"]["ap_medium"] is None
    assert found["reasons"]["oks.ap_medium"] == "no bird of that size with a keypoint by hand"
    assert found["intervals"]["mean_px"][0] <= found["mean_px"] <= found["intervals"]["mean_px"][1]
    assert [(r["keypoint"], r["n_missing"]) for r in found["by_keypoint"]] == [("bill", 0), ("tail", 1)]
    assert [(r["scene"], r["n_points"]) for r in found["by_scene"]] == [("perch", 6), ("ground", 6)]
    command_keypoints.score_command(Namespace(**vars(_args(truth, model)) | {"json": False}))
    assert "PCK@0.1 box" in capsys.readouterr().out


def test_command_without_a_visible_keypoint_is_null_with_reasons(tmp_path: Path) -> None:
    truth = _write(tmp_path / "t.json", _coco([_bird(2, v=0)], ["a", "b"]))
    (found,) = command_keypoints.score(_args(truth, _write(tmp_path / "m.json", [])))["models"]
    assert (found["mean_px"], found["pck"]["5"], found["oks"]["ap"]) == (None, None, None)
    assert {found["reasons"][k] for k in ("mean_px", "pck", "intervals.mean_px")} == {MISSED}
    assert found["reasons"]["oks.ap"] == "no bird with a keypoint by hand"


def test_command_refuses_sigmas_that_are_none(tmp_path: Path) -> None:
    truth = _write(tmp_path / "t.json", _coco([_bird(2)], ["a", "b"]))
    for text in (
        "0",
        "-1",
        "nan",
        str(_write(tmp_path / "s.json", {"a": "x", "b": 1})),
        str(_write(tmp_path / "l.json", [])),
    ):
        with pytest.raises(ParameterError):
            command_keypoints.score(_args(truth, truth, sigmas=text))
    with pytest.raises(DataError):
        command_keypoints.score(_args(truth, truth, sigmas="nowhere.json"))
    with pytest.raises(DataError) as caught:
        command_keypoints.score(_args(truth, tmp_path / "a.json", tmp_path / "b.h5"))
    assert [p.code for p in caught.value.problems] == ["unreadable", "unreadable"]
