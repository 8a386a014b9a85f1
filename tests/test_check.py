"""`birdlab check`: every kind of file, every row of the bad-input table, exit codes and JSON."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from birdlab.check.command import Note, check_path
from birdlab.cli import main
from birdlab.errors import Problem

TRUTH: dict[str, Any] = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 200, "height": 200}],
    "categories": [{"id": 1, "name": "bird"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "area": 2500, "iscrowd": 0}],
}
HIT: dict[str, Any] = {"image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 50], "score": 0.9}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def picture(path: Path, width: int = 64, height: int = 48) -> Path:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(1).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def errors(problems: list[Problem]) -> list[Problem]:
    return [p for p in problems if not isinstance(p, Note)]


def notes(problems: list[Problem]) -> list[Problem]:
    return [p for p in problems if isinstance(p, Note)]


def truth_with(**changes: Any) -> dict[str, Any]:
    truth = copy.deepcopy(TRUTH)
    for key, value in changes.items():
        if value is None:
            del truth["annotations"][0][key]
        else:
            truth["annotations"][0][key] = value
    return truth


class TestBadInputTable:
    """The table of edge inputs in which the usual tools are silent, crash or disagree."""

    @pytest.fixture
    def check(self, tmp_path: Path) -> Callable[..., list[Problem]]:
        def run(truth: Any = TRUTH, results: Any = None) -> list[Problem]:
            gt = write(tmp_path / "gt.json", truth)
            if results is None:
                return check_path(gt)
            return check_path(write(tmp_path / "pred.json", results), gt)

        return run

    def test_annotation_id_0_is_fine(self, check: Callable[..., list[Problem]]) -> None:
        assert errors(check(truth_with(id=0))) == [] and errors(check(truth_with(id=0), [HIT])) == []

    def test_no_detections(self, check: Callable[..., list[Problem]]) -> None:
        problems = check(TRUTH, [])
        assert errors(problems) == [] and any("0 detections" in p.found for p in notes(problems))

    def test_area_missing_is_noted(self, check: Callable[..., list[Problem]]) -> None:
        problems = check(truth_with(area=None))
        assert errors(problems) == [] and any("area" in p.found for p in notes(problems))

    def test_iscrowd_missing_is_fine(self, check: Callable[..., list[Problem]]) -> None:
        assert errors(check(truth_with(iscrowd=None))) == []

    def test_unknown_image_id_names_ids_and_count(self, check: Callable[..., list[Problem]]) -> None:
        [problem] = errors(check(TRUTH, [HIT, HIT | {"image_id": 7}, HIT | {"image_id": 7}, HIT | {"image_id": 9}]))
        assert "7" in problem.found and "9" in problem.found and "3" in problem.found

    def test_image_id_as_text_names_the_field(self, check: Callable[..., list[Problem]]) -> None:
        [problem] = errors(check(TRUTH, [HIT | {"image_id": "1"}]))
        assert problem.key == "image_id" and "0" in (problem.record or "")

    def test_categories_off_by_one(self, check: Callable[..., list[Problem]]) -> None:
        [problem] = errors(check(TRUTH, [HIT | {"category_id": 0}]))
        assert "category" in f"{problem.key} {problem.found} {problem.expected}" and problem.remedy

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_score_that_is_no_number(self, check: Callable[..., list[Problem]], value: float) -> None:
        [problem] = errors(check(TRUTH, [HIT, HIT | {"score": value}]))
        assert problem.key == "score" and "1" in (problem.record or "")

    def test_nan_in_a_box_beside_a_good_one(self, check: Callable[..., list[Problem]]) -> None:
        [problem] = errors(check(TRUTH, [HIT | {"score": 0.5}, HIT | {"bbox": [math.nan, 10, 50, 50]}]))
        assert problem.key == "bbox" and "1" in (problem.record or "")

    def test_ignored_annotations_are_said(self, check: Callable[..., list[Problem]]) -> None:
        problems = check(truth_with(ignore=1))
        assert errors(problems) == [] and any("ignore" in p.found for p in notes(problems))

    def test_area_far_off_is_noted(self, check: Callable[..., list[Problem]]) -> None:
        problems = check(truth_with(area=1.0))
        assert errors(problems) == [] and any("area" in p.found for p in notes(problems))

    def test_negative_width(self, check: Callable[..., list[Problem]]) -> None:
        [problem] = errors(check(truth_with(bbox=[60, 10, -50, 50])))
        assert problem.key == "bbox"
        [problem] = errors(check(TRUTH, [HIT | {"bbox": [60, 10, -50, 50]}]))
        assert problem.key == "bbox"

    def test_mask_of_another_size(self, check: Callable[..., list[Problem]]) -> None:
        from pycocotools import mask

        rle = mask.encode(np.asfortranarray(np.ones((100, 100), np.uint8)))
        rle["counts"] = rle["counts"].decode()
        [problem] = errors(check(truth_with(segmentation=rle)))
        assert "[100, 100]" in problem.found and "[200, 200]" in problem.found

    def test_several_problems_come_at_once(self, check: Callable[..., list[Problem]]) -> None:
        bad = [HIT | {"score": "high"}, HIT | {"bbox": [1, 2, 3]}, HIT | {"category_id": "bird"}]
        assert {p.key for p in errors(check(TRUTH, bad))} == {"score", "bbox", "category_id"}


class TestJson:
    def test_results_alone_are_checked_for_form(self, tmp_path: Path) -> None:
        good = check_path(write(tmp_path / "p.json", [HIT, HIT | {"image_id": 5}]))
        assert errors(good) == [] and any("--against" in p.found for p in notes(good))
        [problem] = errors(check_path(write(tmp_path / "p.json", [HIT, HIT | {"score": 90}])))
        assert problem.key == "score"

    def test_results_that_name_files_need_no_truth(self, tmp_path: Path) -> None:
        row = {"file_name": "a.jpg", "category_name": "bird", "bbox": [1, 2, 3, 4], "score": 0.5}
        assert errors(check_path(write(tmp_path / "p.json", [row]))) == []

    @pytest.mark.parametrize("content", ["", "  \n", '{"images": [', "[{'a': 1}]", "\x00", "1" * 5000])
    def test_broken_json_is_one_problem(self, tmp_path: Path, content: str) -> None:
        [problem] = check_path(write(tmp_path / "x.json", content))
        assert problem.file == str(tmp_path / "x.json") and problem.found and problem.expected

    def test_another_encoding(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_bytes(json.dumps(TRUTH).encode("utf-16"))
        [problem] = check_path(tmp_path / "x.json")
        assert problem.code == "not_utf8"

    @pytest.mark.parametrize("content", ['{"a": 1}', "{}", "3", '"x"', "null"])
    def test_other_json_is_named(self, tmp_path: Path, content: str) -> None:
        [problem] = check_path(write(tmp_path / "x.json", content))
        assert problem.code == "unknown_kind"

    def test_megadetector(self, tmp_path: Path) -> None:
        entry = {"file": "a.jpg", "detections": [{"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.2, 0.2]}]}
        content = {
            "images": [entry, {"file": "b.jpg", "failure": "image access"}],
            "detection_categories": {"1": "animal"},
        }
        problems = check_path(write(tmp_path / "md.json", content))
        assert errors(problems) == [] and "1 of 2" in notes(problems)[0].found
        entry["detections"][0]["bbox"] = [10, 10, 200, 200]
        [problem] = errors(check_path(write(tmp_path / "md.json", content)))
        assert problem.record == "images[0]"

    def test_labelme_alone_and_with_its_picture(self, tmp_path: Path) -> None:
        shape = {"label": "bird", "shape_type": "rectangle", "points": [[1, 1], [20, 20]]}
        content = {"shapes": [shape], "imagePath": "..\\a.jpg", "imageHeight": 48, "imageWidth": 64}
        path = write(tmp_path / "a.json", content)
        assert [p.code for p in check_path(path)] == ["no_picture"]
        shape["points"] = [[1, 1]]
        [problem, _] = check_path(write(path, content))
        assert problem.record == "shapes[0]" and problem.code == "bad_shape"
        picture(tmp_path / "a.jpg")
        [problem] = errors(check_path(path))
        assert problem.record == "shapes[0]"
        shape["points"] = [[1, 1], [20, 20]]
        content["imageWidth"] = 99
        [problem] = errors(check_path(write(path, content)))
        assert problem.code == "size_differs" and "64" in problem.expected


class TestOtherFiles:
    def test_pictures(self, tmp_path: Path) -> None:
        whole = picture(tmp_path / "a b ö'.jpg", 640, 480)
        assert check_path(whole) == []
        (tmp_path / "cut.jpg").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        (tmp_path / "none.png").write_bytes(b"")
        assert len(errors(check_path(tmp_path / "cut.jpg"))) == 1
        assert len(errors(check_path(tmp_path / "none.png"))) == 1

    def test_video_that_is_none(self, tmp_path: Path) -> None:
        [problem] = check_path(write(tmp_path / "a.mp4", "no video"))
        assert problem.file and problem.file.endswith("a.mp4")

    def test_yolo_text(self, tmp_path: Path) -> None:
        assert check_path(write(tmp_path / "a.txt", "0 0.5 0.5 0.1 0.1\n")) == []
        [problem] = check_path(write(tmp_path / "a.txt", "0 0.5 0.5 0.1 0.1\n0 0.5 0.5 1.7 0.1\n"))
        assert problem.line == 2

    def test_notebook(self, tmp_path: Path) -> None:
        problems = check_path(
            write(tmp_path / "n.ipynb", {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []})
        )
        assert {"parameters_cells", "no_title"} & {p.code for p in problems}

    @pytest.mark.parametrize("name", ["gone.json", "gone.yaml", "gone/", "gone.ipynb"])
    def test_what_is_not_there(self, tmp_path: Path, name: str) -> None:
        assert [p.code for p in check_path(tmp_path / name)] == ["no_file"]

    def test_other_kinds(self, tmp_path: Path) -> None:
        assert [p.code for p in check_path(write(tmp_path / "a.docx", "x"))] == ["unknown_kind"]

    def test_weights_that_are_none(self, tmp_path: Path) -> None:
        pytest.importorskip("onnx")
        assert [p.code for p in check_path(write(tmp_path / "a.onnx", "not a model"))] == ["bad_onnx"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A project with a recipe, a manifest (by `init`), three pictures, COCO labels and results."""
    data = tmp_path / "data"
    for name in ("s1/a.jpg", "s1/b.jpg", "s2/c.jpg"):
        picture(data / name)
    images = [
        {"id": i, "file_name": n, "width": 64, "height": 48} for i, n in enumerate(("s1/a.jpg", "s1/b.jpg", "s2/c.jpg"))
    ]
    box = {"category_id": 1, "bbox": [1, 2, 20, 10], "area": 200, "iscrowd": 0}
    write(
        data / "gt.json",
        {"images": images, "categories": TRUTH["categories"], "annotations": [{"id": 0, "image_id": 0, **box}]},
    )
    write(data / "preds_m1.json", [{"image_id": 0, "category_id": 1, "bbox": [1, 2, 20, 10], "score": 0.9}])
    assert main(["init", str(data), "--out", str(tmp_path), "--name", "s", "--yes"]) == 0
    return tmp_path


class TestRecipe:
    def test_a_good_one(self, study: Path) -> None:
        assert errors(check_path(study / "reports/s.yaml")) == []

    def test_everything_wrong_comes_in_one_list(self, study: Path) -> None:
        path = study / "reports/s.yaml"
        text = path.read_text().replace("gt.json", "gone.json").replace("[00_data_audit,", "[77_nothing,")
        text = text.replace("  - name: m1", "  - name: m0\n    weights: gone.onnx\n  - name: m1")
        path.write_text(text)
        (study / "data/s1/a.jpg").write_bytes(b"changed")
        codes = {p.code for p in errors(check_path(path))}
        assert {"no_notebook", "no_weights", "size_differs", "no_file"} <= codes

    def test_unknown_key_and_not_yaml(self, tmp_path: Path) -> None:
        [problem] = check_path(write(tmp_path / "a.yaml", "name: a\ndata: {media: [{images: '*'}]}\nmodelz: []\n"))
        assert problem.code == "unknown_key" and "models" in problem.remedy
        assert [p.code for p in check_path(write(tmp_path / "b.yaml", "a: [1"))] == ["not_yaml"]

    def test_missing_data_root(self, study: Path) -> None:
        shutil.move(study / "data", study / "elsewhere")
        problems = errors(check_path(study / "reports/s.yaml"))
        assert "no_data_root" in {p.code for p in problems} and all(p.remedy for p in problems)

    def test_results_that_do_not_fit(self, study: Path) -> None:
        write(study / "data/preds_m1.json", [{"image_id": 5, "category_id": 1, "bbox": [1, 2, 20, 10], "score": 0.9}])
        problems = errors(check_path(study / "reports/s.yaml"))
        assert any("5" in p.found and p.file and p.file.endswith("preds_m1.json") for p in problems)

    def test_parameters_of_notebooks(self, study: Path) -> None:
        path = study / "reports/s.yaml"
        cells = [
            (
                "recipe: str = 'r.yaml'  # recipe\nrun_dir: str = ''  # run\nconf: float = 0.5  # kept from",
                ["parameters"],
            ),
            ("run = start(recipe, run_dir, notebook='nb')\nrun.finish()", []),
        ]
        body = [
            {
                "cell_type": "code",
                "id": str(i),
                "source": s,
                "outputs": [],
                "execution_count": None,
                "metadata": {"tags": t},
            }
            for i, (s, t) in enumerate(cells)
        ]
        write(
            study / "notebooks/nb.ipynb",
            {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3"}}, "cells": body},
        )
        head = path.read_text().rpartition("notebooks:")[0]
        path.write_text(head + "notebooks: [{nb: {conf: 0.3}}]\n")
        assert errors(check_path(path)) == []
        path.write_text(head + "notebooks: [{nb: {cnof: 0.3}}]\n")
        [problem] = errors(check_path(path))
        assert problem.code == "unknown_parameter" and "conf" in problem.remedy

    def test_a_study_that_is_made(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "d.yaml", "name: d\ndata: {generator: demo, made: true, manifest: gone.json}\nnotebooks: [nb]\n"
        )
        assert [p.code for p in errors(check_path(path))] == ["no_notebook", "unreadable"]


class TestManifest:
    def test_the_recipe_says_where_the_data_lie(self, study: Path) -> None:
        path = study / "data_manifests/s/datapackage.json"
        assert check_path(path) == []
        (study / "data/s2/c.jpg").unlink()
        picture(study / "data/s2/d.jpg")
        problems = check_path(path)
        assert [(p.code, p.file) for p in errors(problems)] == [("missing_file", "s2/c.jpg")]
        assert ["s2/d.jpg" in p.found for p in notes(problems)] == [True]

    def test_without_a_recipe_only_its_form(self, study: Path) -> None:
        (study / "reports/s.yaml").unlink()
        assert [p.code for p in check_path(study / "data_manifests/s/datapackage.json")] == ["data_elsewhere"]


class TestFolder:
    def test_all_that_is_inside(self, study: Path) -> None:
        assert errors(check_path(study)) == []
        picture(study / "data/s1/cut.jpg").write_bytes(b"\xff\xd8\xff")
        write(study / "data/broken.json", "{")
        write(study / "data/preds_m1.json", [HIT | {"image_id": 77}])
        write(study / "data/data_manifests.yaml", "train: images\nnc: 1\n")
        files = {Path(p.file or "").name for p in errors(check_path(study / "data"))}
        assert files == {"cut.jpg", "broken.json", "preds_m1.json"}

    def test_labels_with_their_pictures(self, tmp_path: Path) -> None:
        picture(tmp_path / "images/a.jpg")
        write(tmp_path / "labels/a.txt", "0 0.5 0.5 0.1 0.1\n0 0.5 x 0.1 0.1\n")
        [problem] = errors(check_path(tmp_path))
        assert problem.line == 2 and problem.file and problem.file.endswith("a.txt")

    def test_empty(self, tmp_path: Path) -> None:
        assert [p.code for p in check_path(tmp_path)] == ["nothing_to_check"]


class TestCommand:
    def test_exit_codes_and_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        good = write(tmp_path / "gt.json", truth_with(area=None))
        bad = write(tmp_path / "bad.json", truth_with(bbox=[1, 2, 3]))
        recipe = write(tmp_path / "r.yaml", "name: a\n")
        assert main(["check", str(good), "--json"]) == 0
        body = json.loads(capsys.readouterr().out)
        assert body["errors"] == [] and body["warnings"][0]["file"] == str(good)
        assert main(["check", str(good), str(bad), "--json"]) == 3
        [error] = json.loads(capsys.readouterr().out)["errors"]
        assert set(error) >= {"file", "record", "code", "found", "expected"}
        assert main(["check", str(bad), str(recipe)]) == 2
        out = capsys.readouterr().out
        assert out.count("error  ") == 2 and out.endswith("2 errors in 2 paths\n")

    def test_every_line_names_its_path(self, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
        recipe = study / "reports/s.yaml"
        other = write(study / "reports/t.yaml", recipe.read_text().replace("session: folder", "#"))
        main(["check", str(recipe), str(other)])
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("note ", "error "))]
        assert lines and all(str(recipe) in line or str(other) in line for line in lines)

    def test_against(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        gt, pred = write(tmp_path / "gt.json", TRUTH), write(tmp_path / "p.json", [HIT | {"image_id": 2}])
        assert main(["check", str(pred), "--against", str(gt)]) == 3
        assert "2" in capsys.readouterr().out
        assert main(["check", str(pred), "--against", str(tmp_path / "gone.json"), "--json"]) == 3
        assert "gone.json" in json.loads(capsys.readouterr().out)["errors"][0]["file"]


@pytest.mark.real
def test_real_files(real_data: Path) -> None:
    crops = real_data / "flying_birds/crops"
    assert errors(check_path(crops / "coco.json")) == []
    assert errors(check_path(crops / "preds_yolo11n_int8_openvino.json", crops / "coco.json")) == []
    assert errors(check_path(real_data / "photos")) == []
    assert errors(check_path(real_data / "flying_birds/frames/clips")) == []
    # Of another study: its image ids are not those of the crops.
    other = real_data / "photos/house_sparrow_cc0/annotations_coco.json"
    assert errors(check_path(crops / "preds_yolo11n_int8_openvino.json", other)) != []
