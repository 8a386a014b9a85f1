"""Bad input for individuals and behaviour that once went unsaid, or was said in words that did not help."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from birdlab.check.recipe import check_recipe
from birdlab.errors import DataError, ParameterError
from birdlab.individuals.human import human_numbers
from birdlab.readers.behaviours import read_clips
from birdlab.readers.chirp import read_colony
from birdlab.readers.coco_keypoints import read_results, read_truth
from birdlab.readers.fingerprint import fingerprints
from birdlab.readers.megadetector import read_megadetector_predictions
from birdlab.readers.names import index_names
from birdlab.readers.pose_images import Sheet, placed
from birdlab.recipe import ClipClassifier, load_recipe, parse_recipe
from birdlab.study import Run


def coco(names: list[str], points: list[float], **more: object) -> str:
    bird = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 50, 50], "keypoints": points} | more
    images = [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 100, "video": "v"}]
    return json.dumps({"images": images, "annotations": [bird], "categories": [{"id": 1, "keypoints": names}]})


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_keypoint_named_twice_names_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "truth.json", coco(["bill", "bill"], [1, 2, 2, 3, 4, 2]))
    with pytest.raises(DataError, match=r"truth\.json, categories.*found bill twice"):
        read_truth(path)


@pytest.mark.parametrize(("value", "said"), [("NaN", "nan"), ("1e308", "1e[+]308"), ("1e999", "inf"), ("null", "None")])
def test_a_keypoint_that_is_no_place_is_shown(tmp_path: Path, value: str, said: str) -> None:
    text = coco(["bill"], [7, 2, 2])
    truth = read_truth(written(tmp_path / "truth.json", text))
    bad = text.replace("[7,", f"[{value},")
    with pytest.raises(DataError, match=rf"annotations\[0\], keypoints: found {said}; expected numbers"):
        read_truth(written(tmp_path / "bad.json", bad))
    with pytest.raises(DataError, match=rf"record 0, keypoints: found {said}; expected numbers"):
        read_results(tmp_path / "bad.json", truth)


def test_points_of_a_sheet_that_are_no_place(tmp_path: Path) -> None:
    truth = read_truth(written(tmp_path / "truth.json", coco(["bill"], [7, 2, 2])))
    sheet = Sheet(["a.jpg"], ["one"], ["bill"], np.array([[[[1e308, 2.0]]]]), np.array([[1.0]]))
    with pytest.raises(DataError, match=r"x\.csv, a\.jpg, bill: found 1e\+308"):
        placed(sheet, truth, tmp_path / "x.csv")


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    text = coco(["bill"], [7, 2, 2]).replace('{"images"', '{"annotations": [], "images"', 1)
    with pytest.raises(DataError, match="'annotations' twice"):
        read_truth(written(tmp_path / "truth.json", text))


def test_birds_by_hand_without_area_or_without_keypoint_are_counted(tmp_path: Path) -> None:
    flat = read_truth(written(tmp_path / "flat.json", coco(["bill"], [7, 2, 2], bbox=[1, 1, 0, 0])))
    assert [(n.code, n.n) for n in flat.notices] == [("flat_box", 1)]
    unseen = read_truth(written(tmp_path / "unseen.json", coco(["bill"], [0, 0, 0])))
    assert [(n.code, n.n) for n in unseen.notices] == [("no_keypoint", 1)]


def test_clips_without_a_model_are_the_truth_alone(tmp_path: Path) -> None:
    clips, _ = read_clips(written(tmp_path / "clips.csv", "clip_id,video_id,behaviour\nc1,v1,Peck\n"), {})
    assert clips.select("model", "truth", "predicted").rows() == [("", "Peck", None)]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_settings_that_are_no_number(value: float) -> None:
    section = {"folder": "f", "keypoints": {"truth": "a.json", "predictions": {}}}
    for changed in (
        section | {"fps": value},
        section | {"keypoints": section["keypoints"] | {"sigmas": value}},
        section | {"keypoints": section["keypoints"] | {"sigmas": {"bill": value}}},
    ):
        with pytest.raises(ParameterError, match="finite|greater"):
            parse_recipe({"name": "x", "data": {}, "individuals": changed})


@pytest.fixture
def refset(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    shutil.copytree(Path(__file__).parents[1] / "data" / "individuals" / "refset", folder)
    return next(p.parent for p in folder.rglob("MetaData.csv"))


def told(folder: Path) -> dict[str, tuple[str, int]]:
    return {code: (text, n) for code, text, n in read_colony(folder).notices.select("code", "message", "n").rows()}


def test_what_a_person_coded_and_did_not_code_is_counted(refset: Path) -> None:
    place, before = refset / "HumanBenchmarkBORIS", told(refset)
    files = sorted(place.glob("*.tsv"))
    assert not {c for c in before if c.startswith("human_")}
    files[0].rename(place / files[0].name.replace(files[0].stem.rpartition("_")[2], "zzzz"))
    files[1].write_text("Present\tPeck\n")
    files[2].write_text("Present\tPeck\n" + "0\t1\n" * 1510)
    after = told(refset)
    assert after["human_missing"][1] == 2 and after["human_unseen"][1] == 1 and "zzzz in" in after["human_unseen"][0]
    assert after["human_empty"][1] == 1 and files[1].name in after["human_empty"][0]
    assert after["human_outside"][1] == 10 and after["peck_absent"][1] >= 1510
    shutil.rmtree(place)
    place.mkdir()
    assert "human_none" in told(refset)


def test_rows_coded_past_the_end_of_a_video_do_not_lengthen_it(refset: Path) -> None:
    colony = read_colony(refset)
    more = colony.human.filter(pl.col("frame") == 0).with_columns(pl.lit(1_500_000).cast(pl.Int32).alias("frame"))
    longer = replace(colony, human=pl.concat([colony.human, more]))
    assert human_numbers(longer).equals(human_numbers(colony))


def test_nothing_to_find_is_said(refset: Path) -> None:
    truth = sorted((refset / "GroundTruth").glob("*.csv"))
    for path in truth:
        path.write_text(path.read_text().splitlines()[0] + "\n")
    for path in (refset / "InferenceData").glob("*BehavDict*.json"):
        path.write_text(path.read_text().replace('"Peck"', '"Pek"'))
    after = told(refset)
    assert after["no_bird"][1] == 2 and "no_peck" in after
    assert "calls no window Peck, only" in after["never_pecks"][0] and "Pek" in after["never_pecks"][0]


def test_windows_that_reach_outside_are_counted(refset: Path) -> None:
    path = next((refset / "InferenceData").glob("*BehavDict*.json"))
    path.write_text('{"1": [[-5, 20, "Peck"], [1490, 1501, "Other"], [1490, 1500, "Other"]]}')
    assert told(refset)["window_beyond"][1] == 2 + told_before(refset, path)


def told_before(folder: Path, path: Path) -> int:
    path.write_text("{}")
    return told(folder).get("window_beyond", ("", 0))[1]


@pytest.mark.parametrize("labels", [["Peck", "peck "], ["Peck", " "]])
def test_labels_of_a_clip_classifier_are_told_apart(labels: list[str]) -> None:
    with pytest.raises(ValidationError, match="two of one name"):
        ClipClassifier(name="c", weights="c.onnx", labels=labels)


def test_check_looks_into_the_weights_of_a_clip_classifier(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "c.pt").write_bytes(pickle.dumps({"a": 1}))
    classifier = {"name": "c", "weights": "c.pt", "labels": ["Peck", "Other"]}
    recipe = {
        "name": "x",
        "data": {"root": ".", "media": [{"videos": "*.mp4"}]},
        "models": [{"name": "d", "predictions": "p.json", "format": "megadetector"}],
        "tracking": {"detector": "d", "classifiers": [classifier]},
    }
    path = written(tmp_path / "x.yaml", json.dumps(recipe))
    assert "unsafe_weights" in {problem.code for _, problem in check_recipe(path)}


def test_frames_that_a_megadetector_file_does_not_mention_are_counted(tmp_path: Path) -> None:
    frames = pl.DataFrame({"frame_id": ["a.jpg", "b.jpg"], "media_id": ["a.jpg", "b.jpg"]})
    frames = frames.with_columns(width_px=pl.lit(10), height_px=pl.lit(10), frame_index=pl.lit(None, pl.Int32))
    content = {"images": [{"file": "a.jpg", "detections": []}], "detection_categories": {"1": "bird"}}
    path = written(tmp_path / "md.json", json.dumps(content))
    names = index_names(frames, tmp_path)
    _, _, notices = read_megadetector_predictions(path, frames, names, model="d", known={"bird"})
    assert [(n.code, n.n) for n in notices] == [("not_mentioned", 1)]


@pytest.mark.parametrize(
    ("cells", "key"), [(",2000000000,[],25", "VideoLength"), (",300,[],1e308", "FPS"), (",300,[],1e-300", "FPS")]
)
def test_lengths_and_rates_that_no_video_has(refset: Path, cells: str, key: str) -> None:
    (refset / "MetaData.csv").write_text(f"Video,VideoLength,PossibleBirds,FPS\nv{cells}\n")
    with pytest.raises(DataError, match=rf"MetaData\.csv, line 2, {key}: found"):
        read_colony(refset)
    with pytest.raises(ParameterError, match="fps"):
        read_colony(refset, fps=1e300)


def test_corners_that_no_picture_has(refset: Path) -> None:
    path = next((refset / "GroundTruth").glob("*_BBox.csv"))
    path.write_text(path.read_text() + "1,abcd_1,0,0,1e308,10\n")
    with pytest.raises(DataError, match=r"_BBox\.csv, line \d+, Xmax: found 1e\+308"):
        read_colony(refset)


def test_a_folder_named_where_a_file_belongs_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    written(tmp_path / "videos" / "long.mp4", "x")
    actions = {"truth": "videos", "predictions": {"c3d": "videos"}}
    recipe = {"name": "x", "data": {"root": "."}, "individuals": {"folder": "app", "actions": actions}}
    path = written(tmp_path / "x.yaml", json.dumps(recipe))
    run = Run(load_recipe(path), path, tmp_path / "run", "06")
    fingerprints(run)
    assert not (run.dir / "hashes.json").exists()
    with pytest.raises(DataError, match="videos: found a folder"):
        read_clips(tmp_path / "videos", {})
