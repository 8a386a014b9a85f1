"""Real photographs, real detectors, real sessions: from files to a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run_recipe(recipe: dict, folder: Path, *args: str) -> Path:
    path = folder / f"{recipe['name']}.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))
    command = [sys.executable, "-m", "birdlab.cli", "run", str(path), *args]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1].endswith("report.html")
    return folder / recipe["name"]


def reference(truth: Path, results: list[dict]):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    coco = COCO(str(truth))
    found = COCOeval(coco, coco.loadRes(results), "bbox")
    found.evaluate()
    found.accumulate()
    found.summarize()
    return found


def numbers(run: Path, model: str) -> dict[str, float]:
    metrics = pl.read_parquet(run / "tables" / "metrics_detection.parquet")
    rows = metrics.filter(
        (pl.col("model") == model) & (pl.col("group") == "all") & ~pl.col("method").str.contains("_sessions|max_f1")
    )
    return dict(rows.select("metric", "value").iter_rows())


def counts_at(found, conf: float) -> dict[str, int]:
    """TP, FP, FN at IoU 0.5 from pycocotools' own matches."""
    tp = fp = n = 0
    t = int(abs(found.params.iouThrs - 0.5).argmin())
    for image in found.evalImgs:
        if image is None or image["aRng"] != found.params.areaRng[0]:
            continue
        n += sum(not g for g in image["gtIgnore"])
        for score, match, ignored in zip(image["dtScores"], image["dtMatches"][t], image["dtIgnore"][t], strict=True):
            if score >= conf and not ignored:
                tp, fp = tp + (match > 0), fp + (match == 0)
    return {"tp": tp, "fp": fp, "fn": n - tp}


@pytest.fixture(scope="module")
def sparrow(real_data, tmp_path_factory) -> Path:
    photos = real_data / "photos" / "house_sparrow_cc0"
    recipe = {
        "name": "sparrow",
        "title": "House sparrows",
        "data": {
            "root": str(photos),
            "media": [{"images": "*.jpg"}],
            "labels": [{"path": str(photos / "annotations_coco.json"), "format": "coco"}],
        },
        "models": [
            {"name": "yolo11n", "weights": str(real_data / "detectors" / "yolo11n_int8_openvino_model"), "imgsz": 640},
            {"name": "yolox", "weights": str(real_data / "detectors" / "yolox_nano.onnx"), "imgsz": 416},
        ],
    }
    return run_recipe(recipe, tmp_path_factory.mktemp("sparrow"))


@pytest.mark.parametrize("model", ["yolo11n", "yolox"])
def test_sparrow_scores_and_counts_equal_pycocotools(sparrow, real_data, model):
    truth = real_data / "photos" / "house_sparrow_cc0" / "annotations_coco.json"
    ids = {i["file_name"]: i["id"] for i in json.loads(truth.read_text())["images"]}
    boxes = pl.read_parquet(sparrow / "tables" / "predictions.parquet").filter(pl.col("model") == model)
    results = [
        {
            "image_id": ids[r["frame_id"]],
            "category_id": 1,
            "bbox": [r["x"], r["y"], r["w"], r["h"]],
            "score": r["score"],
        }
        for r in boxes.to_dicts()
    ]
    found = reference(truth, results)
    got = numbers(sparrow, model)
    for metric, index in (("ap", 0), ("ap50", 1), ("ap75", 2), ("ar100", 8)):
        assert got[metric] == pytest.approx(found.stats[index], abs=1e-9)
    assert {k: got[k] for k in ("tp", "fp", "fn")} == counts_at(found, 0.25)
    assert boxes.height > 50 and got["recall"] > 0.4  # the detectors did find birds


def test_sparrow_report_shows_the_seven_small_birds_with_hits_and_misses(sparrow):
    saved = json.loads((sparrow / "figures" / "gal-outcomes.json").read_text())
    panels = saved["panels"] if isinstance(saved, dict) else saved
    strip = [p for p in panels if sum(b["kind"] in ("hit", "miss") for b in p["boxes"]) == 7]
    assert len(strip) >= 2  # once per model
    assert all((sparrow / "figures" / p["file"]).exists() for p in strip)
    kinds = {b["kind"] for p in strip for b in p["boxes"]}
    assert {"hit", "miss"} <= kinds
    page = (sparrow / "report.html").read_text()
    assert "of 7 found" in page and "No empty frame was looked at" in page


@pytest.fixture(scope="module")
def crops(real_data, tmp_path_factory) -> Path:
    birds = real_data / "flying_birds" / "crops"
    recipe = {
        "name": "crops",
        "data": {
            "root": str(birds),
            "media": [{"images": "images/*.jpg"}],
            "labels": [{"path": str(birds / "coco.json"), "format": "coco"}],
        },
        "models": [
            {"name": "given", "predictions": str(birds / "preds_yolo11n_int8_openvino.json")},
            {
                "name": "yolo11n",
                "weights": str(real_data / "detectors" / "yolo11n_int8_openvino_model"),
                "imgsz": 640,
                "iou": 0.6,
            },
        ],
    }
    return run_recipe(recipe, tmp_path_factory.mktemp("crops"))


def test_crops_given_predictions_have_the_known_counts(crops):
    got = numbers(crops, "given")
    assert (got["tp"], got["fp"], got["fn"]) == (74, 1, 91)


def test_crops_by_inference_agree_within_two_boxes(crops):
    got = numbers(crops, "yolo11n")
    assert abs(got["tp"] - 74) <= 2 and abs(got["fp"] - 1) <= 2 and abs(got["fn"] - 91) <= 2


def test_crops_report_shows_recall_by_session_and_site_with_both_intervals(crops):
    metrics = pl.read_parquet(crops / "tables" / "metrics_detection.parquet")
    recall = metrics.filter((pl.col("model") == "given") & (pl.col("metric") == "recall"))
    by_session = recall.filter((pl.col("group") == "session") & ~pl.col("method").str.contains("_sessions"))
    assert by_session.height == 18
    worst = by_session.filter(pl.col("level") == "V_BIRD_046").row(0, named=True)
    assert worst["value"] == 0 and worst["n"] == 10
    sites = recall.filter(pl.col("group") == "site")
    assert sites["level"].n_unique() == 6
    for kind in ("within_sessions", "new_sessions"):
        overall = recall.filter((pl.col("group") == "all") & pl.col("method").str.ends_with(kind)).row(0, named=True)
        assert 0 < overall["lo"] < overall["value"] < overall["hi"] < 1
    drawn = pl.read_csv(crops / "figures" / "fig-places.csv")
    assert {"V_BIRD_046", "all"} <= set(drawn["level"]) and {"within_lo", "new_lo"} <= set(drawn.columns)
    assert "V_BIRD_046" in (crops / "report.html").read_text()


def test_crops_difficulty_names_the_session_that_carries_no_slope_information(crops):
    """V_BIRD_046: none of its 10 birds was found, so it says nothing about what makes a bird be found within a session."""
    summary = pl.read_parquet(crops / "tables" / "model_summary.parquet")
    local = summary.filter((pl.col("model") == "given") & (pl.col("factor_set") == "bluebird-local")).row(0, named=True)
    assert "V_BIRD_046" in local["uninformative_sessions"] and local["n_sessions"] == 18
    assert (local["n_total"], local["n_misses"]) == (165, 91)
    assert local["n_mle"] == 165 - 10
    assert "V_BIRD_046 (none of 10 recovered)" in (crops / "report.html").read_text()


def test_crops_factors_are_measured_and_read_with_n(crops):
    bins = pl.read_parquet(crops / "tables" / "difficulty_bins.parquet").filter(pl.col("model") == "given")
    for factor in ("rel_size", "contrast_local"):
        mine = bins.filter(pl.col("factor") == factor)
        assert mine["n"].sum() == 165 and mine["k"].sum() == 74 and mine.height >= 3
        assert mine["n"].null_count() == 0 and (mine.filter(pl.col("n") > 0)["within_lo"].null_count() == 0)
    birds = pl.read_parquet(crops / "tables" / "factors.parquet")
    assert birds.height == 165 and birds["contrast_local"].null_count() == 0


def test_crops_difficulty_from_the_command_line_says_the_same(crops, tmp_path):
    names = {
        "brightness_local": "brightness",
        "contrast_local": "contrast",
        "clutter_local": "clutter",
        "blur_local": "blur",
    }
    rows = pl.read_parquet(crops / "tables" / "instances.parquet").filter(pl.col("model") == "given").rename(names)
    columns = ["instance", "session", "frame", "rel_size", *names.values(), "crowding"]
    rows.select(*columns, pl.col("recovered").cast(pl.Int8)).write_csv(tmp_path / "birds.csv")
    command = [sys.executable, "-m", "birdlab.cli", "score", "difficulty", str(tmp_path / "birds.csv"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert (out["n"], out["misses"]) == (165, 91) and "V_BIRD_046" not in out["checks"]["informative_sessions"]
    fitted = pl.read_parquet(crops / "tables" / "coefficients.parquet")
    fitted = fitted.filter((pl.col("model") == "given") & (pl.col("factor_set") == "bluebird-local"))
    by_factor = dict(fitted.select("factor", "firth").iter_rows())
    for coefficient in out["coefficients"]:
        assert coefficient["firth"] == pytest.approx(by_factor[coefficient["factor"]], abs=1e-6)


def test_video_clips_are_read_and_their_frames_carry_container_times(real_data, tmp_path):
    from birdlab.readers.study import read_study
    from birdlab.recipe import parse_recipe

    clips = real_data / "flying_birds" / "frames" / "clips"
    recipe = parse_recipe({"name": "clips", "data": {"root": str(clips), "media": [{"videos": "*.mp4", "stride": 10}]}})
    tables = read_study(recipe, tmp_path, clips)
    assert tables.media.height == 5 and set(tables.media["kind"].cast(pl.String)) == {"video"}
    assert tables.frames["label_state"].cast(pl.String).unique().to_list() == ["unlabelled"]
    for _, part in tables.frames.group_by("media_id"):
        steps = part.sort("frame_index")["time_s"].diff().drop_nulls()
        assert part.height > 5 and (steps > 0).all()
