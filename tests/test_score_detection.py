"""``birdlab score detection``: the contract of its output, the cases, and every odd input of the evaluators."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from birdlab.cli import main
from birdlab.detection.command import model_names

CASES = Path(__file__).parent / "data" / "detection"
POINT = {"conf", "iou", "tp", "fp", "fn", "precision", "recall", "f1"}


def one_image(annotations: list[dict[str, Any]], categories: tuple[int, ...] = (1,), size: int = 200) -> dict[str, Any]:
    return {
        "images": [{"id": 1, "file_name": "a.jpg", "width": size, "height": size}],
        "annotations": annotations,
        "categories": [{"id": c, "name": f"c{c}"} for c in categories],
    }


def bird(**changes: Any) -> dict[str, Any]:
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "area": 2500, "iscrowd": 0}
    return {k: v for k, v in (box | changes).items() if v is not None}


def hit(**changes: Any) -> dict[str, Any]:
    return {"image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "score": 0.9} | changes


@pytest.fixture
def score(tmp_path, capsys):
    """Write the files, run the command with --json, return exit code and the one object it printed."""

    def run(truth: Any, *results: Any, options: tuple[str, ...] = (), names: tuple[str, ...] = ("dt", "dt2")):
        (tmp_path / "gt.json").write_text(json.dumps(truth))
        paths = []
        for name, content in zip(names, results, strict=False):
            paths.append(tmp_path / f"{name}.json")
            paths[-1].write_text(json.dumps(content))
        code = main(["score", "detection", str(tmp_path / "gt.json"), *map(str, paths), "--json", *options])
        out = capsys.readouterr().out
        assert len(out.splitlines()) == 1
        return code, json.loads(out, parse_constant=pytest.fail)  # no NaN or Infinity token

    return run


def test_the_contract(score):
    truth = one_image([bird(), bird(id=2, bbox=[100, 100, 40, 40], area=1600)], categories=(1, 2))
    found = [hit(), hit(bbox=[100, 100, 40, 30], score=0.3), hit(bbox=[0, 150, 20, 20], score=0.2), hit(category_id=2)]
    code, out = score(truth, found, [hit()], names=("yolo", "owl"))
    assert code == 0 and [m["name"] for m in out["models"]] == ["yolo", "owl"]
    model = out["models"][0]
    assert set(model) >= {
        "name",
        "n_ground_truth",
        "n_images",
        "ap",
        "ap50",
        "ap75",
        "ar100",
        "fixed",
        "max_f1",
        "by_size",
        "warnings",
        "reasons",
    }
    assert (model["n_ground_truth"], model["n_images"], model["n_detections"]) == (2, 1, 4)
    assert set(model["fixed"]) == POINT and set(model["max_f1"]) == POINT | {"chosen"}
    assert model["fixed"] == {
        "conf": 0.25,
        "iou": 0.5,
        "tp": 2,
        "fp": 1,
        "fn": 0,
        "precision": 2 / 3,
        "recall": 1.0,
        "f1": 0.8,
    }
    assert model["max_f1"]["conf"] == 0.3 and model["max_f1"]["chosen"] == "oracle"
    assert model["ap50"] == 1.0 and out["models"][1]["ap50"] == pytest.approx(51 / 101)
    sizes = {(s["definition"], s["level"]): s for s in model["by_size"]}
    assert len(sizes) == 3 + 9 and set(model["by_size"][0]) == {"definition", "level", "lo", "hi", "n", "ap", "ap50"}
    assert (sizes["coco", "medium"]["n"], sizes["coco", "small"]["ap"]) == (2, None)
    # s_r = 50/200 = 1/4 and 40/200 = 0.2: [1/8, 1/4) and [1/4, 1/2)
    assert (sizes["relative", "1/8-1/4"]["n"], sizes["relative", "1/4-1/2"]["n"]) == (1, 1)
    assert model["reasons"]["by_size.coco.small"] == "no labelled bird of this size"
    assert model["reasons"]["ap_large"] == "no labelled bird of this size"
    assert {c["category"]: c["reason"] for c in model["by_category"]} == {
        "c1": None,
        "c2": "no labelled bird of this class",
    }


@pytest.mark.parametrize(
    "case", json.loads((CASES / "greedy_cases.json").read_text())["cases"], ids=lambda c: c["name"]
)
def test_greedy_cases(score, case):
    truth = one_image([], tuple(sorted({g["cls"] for g in case["gt"]} | {d["cls"] for d in case["dt"]} | {1})))
    truth["images"][0] |= case["image"]
    for k, g in enumerate(case["gt"], start=0 if "gt_id_zero" in case["name"] else 1):
        area = g["bbox"][2] * g["bbox"][3]
        truth["annotations"].append(bird(id=k, category_id=g["cls"], bbox=g["bbox"], area=area, iscrowd=g["iscrowd"]))
    found = [hit(category_id=d["cls"], bbox=d["bbox"], score=d["score"]) for d in case["dt"]]
    agnostic = () if case.get("per_class", True) else ("--class-agnostic",)
    _, out = score(truth, found, options=("--iou", str(case["iou_thr"]), "--conf", str(case["conf_thr"]), *agnostic))
    fixed, expected = out["models"][0]["fixed"], case["expected"]
    assert fixed["tp"] == sum(m == 1 for m in expected["gt_matched"])
    assert fixed["fn"] == sum(m == 0 for m in expected["gt_matched"])
    assert fixed["fp"] == sum(m == -1 for m in expected["dt_match"])


PAPER = json.loads((CASES / "bluebird_tables_1_2_counts.json").read_text())["rows"]


@pytest.mark.parametrize("name", PAPER)
def test_counts_of_the_paper_give_its_printed_numbers(score, name):
    row = PAPER[name]
    n = row["tp"] + row["fn"]
    truth = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 3840, "height": 2160} for i in range(n)],
        "annotations": [bird(id=i, image_id=i, bbox=[100, 100, 160, 160], area=25600) for i in range(n)],
        "categories": [{"id": 1, "name": "bluebird"}],
    }
    found = [hit(image_id=i, bbox=[100, 100, 160, 160]) for i in range(row["tp"])]
    found += [hit(image_id=k % n, bbox=[2000 + k // n * 10, 1500, 50, 50], score=0.8) for k in range(row["fp"])]
    _, out = score(truth, found)
    fixed = out["models"][0]["fixed"]
    for key in ("precision", "recall", "f1"):
        assert round(fixed[key], 4) == row[key]


# Edge inputs on which the evaluators disagree or are silently wrong; one image, one 50 x 50 bird.
@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
@pytest.mark.parametrize(
    ("truth", "found", "ap", "warning"),
    [
        (one_image([bird(id=0)]), [hit()], 1.0, None),
        (one_image([bird()]), [], 0.0, "0 detections"),
        (one_image([bird(area=None)]), [hit()], 1.0, "area is missing in 1 of 1 annotations: w·h is used"),
        (one_image([bird(iscrowd=None)]), [hit()], 1.0, None),
        (
            one_image([bird(), bird(id=2, bbox=[100, 100, 50, 50], ignore=1)]),
            [hit()],
            1.0,
            "1 annotations with ignore: 1",
        ),
        (one_image([bird(area=1.0)]), [hit()], 1.0, "area of 1 annotations is more than 10 % off"),
    ],
)
def test_edge_inputs_that_can_be_scored(score, engine, truth, found, ap, warning):
    code, out = score(truth, found, options=("--engine", engine))
    model = out["models"][0]
    assert (code, model["ap"]) == (0, ap)
    assert any(warning in w for w in model["warnings"]) if warning else model["warnings"] == []


@pytest.mark.parametrize(
    ("truth", "found", "code", "record", "key"),
    [
        (one_image([bird()]), [hit(image_id=7)], "unknown_image_id", "detections[0]", "image_id"),
        (one_image([bird()]), [hit(image_id="1")], "wrong_type", "detections[0]", "image_id"),
        (one_image([bird()]), [hit(category_id=0)], "unknown_category_id", None, "category_id"),
        (one_image([bird()]), [hit(), hit(score=math.nan)], "nan", "detections[1]", "score"),
        (one_image([bird()]), [hit(score=0.5), hit(bbox=[10, math.nan, 50, 50])], "nan", "detections[1]", "bbox"),
        (one_image([bird()]), [hit(bbox=[60, 60, -50, -50])], "negative_box", "detections[0]", "bbox"),
        (one_image([bird(bbox=[60, 60, -50, -50])]), [hit()], "negative_box", "annotations[0] (id 1)", "bbox"),
        (
            one_image([bird()]),
            [hit(segmentation={"size": [100, 100], "counts": [10000]})],
            *("mask_size", "detections[0]", "segmentation"),
        ),
    ],
)
def test_edge_inputs_that_cannot_be_scored(score, truth, found, code, record, key):
    exit_code, out = score(truth, found)
    assert exit_code == 3
    (error,) = out["errors"]
    assert (error["code"], error.get("record"), error["key"]) == (code, record, key)
    assert {"file", "found", "expected"} <= set(error)


def test_an_ignored_bird_takes_its_detections_with_it(score):
    truth = one_image([bird(), bird(id=2, bbox=[100, 100, 50, 50], ignore=1)])
    found = [hit(), hit(bbox=[100, 100, 50, 50]), hit(bbox=[110, 110, 20, 20]), hit(bbox=[0, 150, 30, 30])]
    _, out = score(truth, found)
    model = out["models"][0]
    assert (model["fixed"]["tp"], model["fixed"]["fp"], model["fixed"]["fn"]) == (1, 1, 0)
    assert model["n_ground_truth"] == 1 and out["ground_truth"]["n_ignored"] == 1
    assert any("2 detections on ignored regions" in w for w in model["warnings"])


def test_undefined_numbers_are_null_with_a_reason(score):
    _, out = score(one_image([]), [hit()])
    model = out["models"][0]
    assert model["ap"] is None and model["reasons"]["ap"] == "no labelled bird"
    assert (model["fixed"]["recall"], model["reasons"]["fixed.recall"]) == (None, "no labelled bird")
    assert model["fixed"]["precision"] == 0.0
    _, out = score(one_image([bird()]), [])
    model = out["models"][0]
    assert (model["fixed"]["precision"], model["fixed"]["recall"], model["fixed"]["f1"]) == (None, 0.0, 0.0)
    assert model["reasons"]["fixed.precision"] == "no detection"
    assert model["max_f1"]["conf"] is None


def test_problems_of_all_results_files_come_in_one_error(score):
    code, out = score(one_image([bird()]), [hit(image_id=9)], [hit(score=2)])
    assert code == 3
    assert [Path(e["file"]).name for e in out["errors"]] == ["dt.json", "dt2.json"]


@pytest.mark.parametrize(
    "options",
    [
        ("--iou", "0"),
        ("--iou", "1.5"),
        ("--conf", "-1"),
        ("--conf", "nan"),
        ("--max-dets", "0"),
        ("--matches", "m.txt"),
        ("--matches", "none/m.csv"),
    ],
)
def test_options_out_of_range_are_usage_errors(score, options):
    code, out = score(one_image([bird()]), [hit()], options=options)
    assert code == 2 and out["errors"][0]["key"] == options[0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_matches_file(score, tmp_path, suffix):
    path = tmp_path / f"m.{suffix}"
    found = [hit(), hit(bbox=[150, 150, 20, 20], score=0.5), hit(bbox=[100, 0, 9, 9], score=0.1)]
    code, _ = score(
        one_image([bird(), bird(id=2, bbox=[0, 100, 30, 30], area=900)]), found, options=("--matches", str(path))
    )
    assert code == 0
    if suffix == "csv":
        rows = list(csv.DictReader(path.open()))
    else:
        rows = pl.read_parquet(path).to_dicts()
    assert [(r["label_id"] or None, r["prediction_id"] or None, r["outcome"]) for r in rows] == [
        ("1", "0", "tp"),
        ("2", None, "fn"),
        (None, "1", "fp"),
    ]


def test_a_matches_file_that_cannot_be_written(score, tmp_path):
    (tmp_path / "m.csv").mkdir()
    code, out = score(one_image([bird()]), [hit()], options=("--matches", str(tmp_path / "m.csv")))
    assert code == 2 and out["errors"][0]["code"] == "unwritable"


def test_masks_add_their_own_scores(score):
    square = [[10, 10, 60, 10, 60, 60, 10, 60]]
    half = [[10, 10, 60, 10, 60, 40, 10, 40]]
    _, out = score(one_image([bird(segmentation=square)]), [hit(segmentation=half)])
    mask = out["models"][0]["mask"]
    assert set(mask) >= {"ap", "ap50", "precision", "recall", "f1", "miou", "dice"}
    assert mask["miou"]["matched_instances"] == pytest.approx(0.6) and mask["dice"]["pooled_pixels"] == pytest.approx(
        0.75
    )
    assert mask["ap50"] == 1.0 and mask["ap"] == pytest.approx(0.3)  # 0.6 passes .50, .55 and .60
    _, out = score(one_image([bird()]), [hit()])
    assert "mask" not in out["models"][0]


def test_more_birds_than_max_dets_is_said_and_can_be_raised(score):
    boxes = [[12 * (k % 15), 12 * (k // 15), 10, 10] for k in range(150)]
    truth = one_image([bird(id=k, bbox=b, area=100) for k, b in enumerate(boxes)])
    found = [hit(bbox=b) for b in boxes]
    _, out = score(truth, found)
    assert "raise max_dets" in out["models"][0]["warnings"][0] and out["models"][0]["ar100"] == pytest.approx(2 / 3)
    _, out = score(truth, found, options=("--max-dets", "1000"))
    assert out["models"][0]["ap"] == 1.0 and out["settings"]["max_dets"] == 1000


def test_names_tell_files_apart():
    paths = [Path("a/x/best.json"), Path("b/x/best.json"), Path("b/x/last.json"), Path("b/x/last.json")]
    assert model_names(paths) == ["a/x/best", "b/x/best", "b/x/last", "b/x/last (2)"]


def test_the_table_for_the_terminal(tmp_path, capsys):
    truth = one_image([bird(), bird(id=2, category_id=2, bbox=[100, 100, 50, 50])], categories=(1, 2))
    (tmp_path / "gt.json").write_text(json.dumps(truth))
    (tmp_path / "yolo.json").write_text(json.dumps([hit()]))
    (tmp_path / "none.json").write_text("[]")
    files = [str(tmp_path / f"{n}.json") for n in ("gt", "yolo", "none")]
    assert main(["score", "detection", *files]) == 0
    out = capsys.readouterr().out
    assert "1 images (0 empty), 2 labelled birds" in out
    assert "yolo, highest F1 (oracle)" in out and "none: 0 detections" in out
    assert "AP by class" in out and "1/4 – 1/2" in out and "– is undefined" in out
    assert "None" not in out and "nan" not in out.lower().split()


def test_errors_for_a_reader_are_one_line_each(tmp_path, capsys):
    (tmp_path / "gt.json").write_text(json.dumps(one_image([bird()])))
    (tmp_path / "dt.json").write_text('[{"image_id": 1,\n"category_id"')
    assert main(["score", "detection", str(tmp_path / "gt.json"), str(tmp_path / "dt.json")]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("birdlab: ") and "dt.json, line 2" in line and "ends in the middle" in line


@pytest.mark.real
def test_real_predictions_of_small_birds(real_data, capsys):
    crops = real_data / "flying_birds" / "crops"
    files = [str(crops / "coco.json"), str(crops / "preds_yolo11n_int8_openvino.json")]
    assert main(["score", "detection", *files, "--json"]) == 0
    fixed = json.loads(capsys.readouterr().out)["models"][0]["fixed"]
    assert (fixed["tp"], fixed["fp"], fixed["fn"]) == (74, 1, 91)


@pytest.mark.real
@pytest.mark.parametrize("name", ["yolo11n_int8_openvino", "yolox_nano"])
def test_real_photographs_equal_pycocotools(real_data, capsys, name):
    import contextlib
    import io

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    folder = real_data / "photos" / "house_sparrow_cc0"
    files = [str(folder / "annotations_coco.json"), str(folder / f"predictions_{name}.json")]
    assert main(["score", "detection", *files, "--json"]) == 0
    model = json.loads(capsys.readouterr().out)["models"][0]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(files[0])
        run = COCOeval(coco, coco.loadRes(files[1]), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    keys = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100")
    for key, expected in zip(keys, run.stats[:9], strict=True):
        assert model[key] == (None if expected == -1 else pytest.approx(expected, abs=1e-12)), key
