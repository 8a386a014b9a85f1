"""A whole study from its recipe, predictions made elsewhere, and the key of its content."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image
from test_readers_images import save
from videos import write_video

from birdlab.errors import DataError
from birdlab.readers.fingerprint import fingerprint
from birdlab.readers.predictions import read_predictions
from birdlab.readers.study import StudyTables, build, read_study
from birdlab.recipe import Model, parse_recipe
from birdlab.study import Run


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def coco(images: list[dict[str, Any]], boxes: list[tuple[int, list[float]]], name: str = "bird") -> dict[str, Any]:
    annotations = [
        {"id": i + 1, "image_id": im, "category_id": 1, "bbox": b, "area": b[2] * b[3], "iscrowd": 0}
        for i, (im, b) in enumerate(boxes)
    ]
    return {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": name}]}


def image(number: int, name: str, **facts: Any) -> dict[str, Any]:
    return {"id": number, "file_name": name, "width": 40, "height": 24, **facts}


def study(root: Path, media: list[dict[str, Any]], labels: list[dict[str, Any]], **data: Any) -> StudyTables:
    recipe = parse_recipe({"name": "x", "data": {"media": media, "labels": labels, **data}})
    return read_study(recipe, root, root)


def run_of(root: Path, data: dict[str, Any], **recipe: Any) -> Run:
    parsed = parse_recipe({"name": "x", "data": data, **recipe})
    return Run(parsed, root / "x.yaml", root / "run", "00_data_audit")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("d1/a.jpg", "d1/b.jpg", "d2/c.jpg", "d2/e.jpg"):
        save(tmp_path / "p" / name)
    return tmp_path


def test_three_states_and_the_rule_for_the_rest(folder: Path) -> None:
    write(folder / "gt.json", coco([image(1, "p/d1/a.jpg"), image(2, "b.jpg")], [(1, [1, 2, 3, 4])]))
    media = [{"images": "p/**/*.jpg"}]
    found = study(folder, media, [{"path": "gt.json", "format": "coco", "split": "val"}])
    assert dict(found.frames.select("frame_id", "label_state").iter_rows()) == {
        "p/d1/a.jpg": "labelled",
        "p/d1/b.jpg": "empty",
        "p/d2/c.jpg": "unlabelled",
        "p/d2/e.jpg": "unlabelled",
    }
    assert found.frames["split"].to_list() == ["val", "val", "test", "test"]
    assert found.labels.select("label_id", "frame_id", "x", "y", "w", "h", "source").rows() == [
        ("1", "p/d1/a.jpg", 1, 2, 3, 4, "gt.json")
    ]
    assert {"session_assumed", "frames_unlisted"} <= set(found.notices["code"])
    assert found.second_labels.is_empty() and found.frames["second_label_state"].null_count() == 4
    found = study(folder, media, [{"path": "gt.json", "format": "coco", "unlisted": "empty"}])
    assert found.frames["label_state"].to_list() == ["labelled", "empty", "empty", "empty"]
    assert study(folder, media, []).frames["label_state"].unique().to_list() == ["unlabelled"]


def test_coco_facts_win_over_folders_and_lose_to_patterns(folder: Path) -> None:
    facts = [
        image(1, "p/d1/a.jpg", session="s9", site="oak", frame=30, fps=10),
        image(2, "p/d1/b.jpg", session="s9", site="oak", frame=45, fps=10),
        image(3, "p/d2/c.jpg", session="s8", site="elm", time_s=7.5),
    ]
    write(folder / "gt.json", coco(facts, []))
    labels = [{"path": "gt.json", "format": "coco"}]
    found = study(folder, [{"images": "p/**/*.jpg"}], labels)
    assert found.frames["video_id"].to_list() == ["s9", "s9", "s8", "d2"]
    assert found.frames["site_id"].to_list() == ["oak", "oak", "elm", None]
    assert found.frames["time_s"].to_list() == [3.0, 4.5, 7.5, None]
    assert (
        found.media.select("video_id", "site_id", "start_s").rows()
        == found.frames.select("video_id", "site_id", "time_s").rows()
    )
    assert {"session_from_labels", "session_assumed"} <= set(found.notices["code"])
    found = study(folder, [{"images": "p/**/*.jpg", "session": r"/(d\d)/"}], labels)
    assert found.frames["video_id"].to_list() == ["d1", "d1", "d2", "d2"]
    assert found.frames["site_id"].to_list() == ["oak", "oak", "elm", None]


def test_every_problem_of_every_label_file_is_in_one_error(folder: Path) -> None:
    write(folder / "one.json", coco([image(1, "p/d1/a.jpg"), image(2, "p/d1/zz.jpg")], []))
    write(folder / "two.json", coco([{"id": 1, "file_name": "p/d2/c.jpg", "width": 24, "height": 40}], []))
    labels = [{"path": name, "format": "coco"} for name in ("one.json", "two.json", "three.json")]
    with pytest.raises(DataError) as caught:
        study(folder, [{"images": "p/**/*.jpg"}], labels)
    assert [(Path(p.file or "").name, p.code) for p in caught.value.problems] == [
        ("one.json", "unknown_image"),
        ("two.json", "size_differs"),
        ("three.json", "no_labels"),
    ]
    assert "orientation" in caught.value.problems[1].remedy


def test_two_label_files_for_one_frame_need_a_word(folder: Path) -> None:
    write(folder / "one.json", coco([image(1, "p/d1/a.jpg"), image(2, "p/d1/b.jpg")], [(1, [1, 1, 5, 5])]))
    write(folder / "two.json", coco([image(1, "p/d1/b.jpg"), image(2, "p/d2/c.jpg")], [(2, [2, 2, 5, 5])]))
    media = [{"images": "p/**/*.jpg"}]
    labels = [{"path": "one.json", "format": "coco"}, {"path": "two.json", "format": "coco"}]
    with pytest.raises(
        DataError,
        match=r"1 of its pictures labelled in one\.json too, e\.g\. p/d1/b\.jpg.*[Mm]ark one of them `second: true`",
    ):
        study(folder, media, labels)
    found = study(folder, media, [labels[0], {**labels[1], "second": True}])
    assert found.frames["label_state"].to_list() == ["labelled", "empty", "unlabelled", "unlabelled"]
    assert found.frames["second_label_state"].to_list() == [None, "empty", "labelled", None]
    assert found.second_labels.select("frame_id", "x").rows() == [("p/d2/c.jpg", 2.0)]


def test_annotation_ids_of_two_files_do_not_collide(folder: Path) -> None:
    write(folder / "one.json", coco([image(1, "p/d1/a.jpg")], [(1, [1, 1, 5, 5])]))
    write(folder / "two.json", coco([image(1, "p/d2/c.jpg")], [(1, [2, 2, 5, 5])]))
    found = study(folder, [{"images": "p/**/*.jpg"}], [{"path": n, "format": "coco"} for n in ("one.json", "two.json")])
    assert found.labels["label_id"].to_list() == ["one.json:1", "two.json:1"]


def test_coco_classes_are_mapped_and_others_dropped(folder: Path) -> None:
    content = coco(
        [image(1, "p/d1/a.jpg"), image(2, "p/d1/b.jpg")], [(1, [1, 1, 5, 5]), (2, [1, 1, 5, 5])], name="House sparrow"
    )
    content["categories"].append({"id": 2, "name": "cat"})
    content["annotations"][1]["category_id"] = 2
    write(folder / "gt.json", content)
    media = [{"images": "p/d1/*.jpg"}]
    with pytest.raises(DataError, match=r"'House sparrow' \(1\), 'cat' \(1\).*rename: \{'House sparrow': bird"):
        study(folder, media, [{"path": "gt.json", "format": "coco"}])
    found = study(folder, media, [{"path": "gt.json", "format": "coco", "rename": {"house sparrow": "bird"}}])
    assert found.labels["category"].to_list() == ["bird"]
    # Looked at, and no bird of the study there.
    assert found.frames["label_state"].to_list() == ["labelled", "empty"]
    assert found.notices.filter(pl.col("code") == "class_dropped")["n"].to_list() == [1]


def test_the_same_file_in_two_entries_is_an_error(folder: Path) -> None:
    with pytest.raises(DataError, match=r"2 files in more than one entry, e\.g\. p/d1/a\.jpg"):
        study(folder, [{"images": "p/**/*.jpg"}, {"images": "p/d1/*.jpg", "split": "train"}], [])


def test_pictures_and_videos_in_one_study(folder: Path) -> None:
    write_video(folder / "v" / "clip.mp4", range(0, 1000, 40))
    media = [{"images": "p/**/*.jpg", "split": "train"}, {"videos": "v/*.mp4", "stride": 10, "site": "oak"}]
    write(
        folder / "gt.json",
        {
            **coco([], [(1, [1, 1, 5, 5])]),
            "images": [{"id": 1, "file_name": "v/clip.mp4#10", "width": 64, "height": 48, "session": "no"}],
        },
    )
    found = study(folder, media, [{"path": "gt.json", "format": "coco"}])
    video = found.frames.filter(pl.col("media_id") == "v/clip.mp4")
    assert video.select("frame_id", "label_state").rows() == [
        ("v/clip.mp4#0", "unlabelled"),
        ("v/clip.mp4#10", "labelled"),
        ("v/clip.mp4#20", "unlabelled"),
    ]
    assert video["time_s"].to_list() == pytest.approx([0, 0.4, 0.8])
    # What a label file says of a session holds for photographs; a video's session is the file.
    assert set(video["video_id"]) == {"clip"} and set(video["site_id"]) == {"oak"}


# ---- predictions made elsewhere


def predictions(
    root: Path, frames: pl.DataFrame, labels: list[Any], categories: tuple[str, ...] = ("bird",), **model: Any
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    found, failures, notices = read_predictions(
        Model(**{"name": "m", **model}), frames, labels, root, root, categories=categories
    )
    return found, failures, dict(notices.group_by("code").agg(pl.col("n").sum()).iter_rows())


def labelled(folder: Path, name: str = "bird", **spec: Any) -> tuple[StudyTables, list[Any]]:
    images = [image(7, "p/d1/a.jpg"), image(8, "p/d1/b.jpg"), image(9, "p/d2/c.jpg")]
    write(folder / "gt.json", coco(images, [(7, [1, 2, 10, 10])], name))
    recipe = parse_recipe(
        {
            "name": "x",
            "data": {"media": [{"images": "p/**/*.jpg"}], "labels": [{"path": "gt.json", "format": "coco", **spec}]},
        }
    )
    return read_study(recipe, folder, folder), recipe.data.labels


def detection(image_id: Any, score: float = 0.5, **more: Any) -> dict[str, Any]:
    return {"image_id": image_id, "category_id": 1, "bbox": [1, 2, 10, 10], "score": score, **more}


def test_coco_results_use_the_ids_of_the_studys_label_file(folder: Path) -> None:
    tables, labels = labelled(folder)
    write(folder / "r.json", [detection(7, 0.4), detection(7, 0.9), detection(9, 0.1)])
    found, failures, _ = predictions(folder, tables.frames, labels, predictions="r.json", conf=0.2)
    assert found.select("frame_id", "score", "rank", "category").rows() == [
        ("p/d1/a.jpg", 0.4, 1, "bird"),
        ("p/d1/a.jpg", 0.9, 0, "bird"),
    ]
    assert failures.is_empty()
    # Without conf in the recipe the file is taken whole.
    assert predictions(folder, tables.frames, labels, predictions="r.json")[0].height == 3
    write(folder / "r.json", [detection(70)])
    with pytest.raises(DataError, match="70"):
        predictions(folder, tables.frames, labels, predictions="r.json")
    with pytest.raises(DataError, match="no such file"):
        predictions(folder, tables.frames, labels, predictions="r2.json")


def test_coco_results_follow_the_labels_rename(folder: Path) -> None:
    tables, labels = labelled(folder, "Bluebird", rename={"bluebird": "bird"})
    write(folder / "r.json", [detection(7)])
    assert predictions(folder, tables.frames, labels, predictions="r.json")[0]["category"].to_list() == ["bird"]


def test_coco_results_by_file_name_need_no_label_file(folder: Path) -> None:
    tables, _ = labelled(folder)
    rows = [
        detection("a", file_name="a.jpg", category_name="bird"),
        detection("c", file_name="p/d2/c.jpg", category_name="cat"),
    ]
    write(folder / "r.json", rows)
    found, _, codes = predictions(folder, tables.frames, [], predictions="r.json")
    assert found["frame_id"].to_list() == ["p/d1/a.jpg"] and codes["class_dropped"] == 1
    write(folder / "r.json", [detection("q", file_name="aa.jpg", category_name="bird")])
    with pytest.raises(DataError, match=r"'aa\.jpg'.*such as p/d1/a\.jpg"):
        predictions(folder, tables.frames, [], predictions="r.json")


def test_ids_that_fit_two_label_files_are_not_guessed(folder: Path) -> None:
    write(folder / "one.json", coco([image(1, "p/d1/a.jpg")], []))
    write(folder / "two.json", coco([image(1, "p/d2/c.jpg")], []))
    data = {
        "media": [{"images": "p/**/*.jpg"}],
        "labels": [{"path": n, "format": "coco"} for n in ("one.json", "two.json")],
    }
    recipe = parse_recipe({"name": "x", "data": data})
    frames = read_study(recipe, folder, folder).frames
    write(folder / "r.json", [detection(1)])
    with pytest.raises(DataError, match=r"fit one\.json and two\.json"):
        predictions(folder, frames, recipe.data.labels, predictions="r.json")


def test_predictions_outside_the_study_are_counted(folder: Path) -> None:
    _, labels = labelled(folder)
    frames = study(folder, [{"images": "p/d1/*.jpg"}], []).frames
    write(folder / "r.json", [detection(7), detection(9)])
    found, _, codes = predictions(folder, frames, labels, predictions="r.json")
    assert found["frame_id"].to_list() == ["p/d1/a.jpg"] and codes["labels_outside"] == 1


def test_megadetector_predictions_and_failures(folder: Path) -> None:
    tables, labels = labelled(folder)
    images = [
        {
            "file": "p/d1/a.jpg",
            "detections": [
                {"category": "1", "conf": 0.8, "bbox": [0.25, 0.5, 0.5, 0.25]},
                {"category": "2", "conf": 0.7, "bbox": [0, 0, 1, 1]},
            ],
        },
        {"file": "p/d1/b.jpg", "failure": "Failure image access", "detections": None},
    ]
    write(folder / "md.json", {"detection_categories": {"1": "animal", "2": "person"}, "images": images})
    with pytest.raises(DataError, match=r"classes: \{'animal': bird\}"):
        predictions(folder, tables.frames, labels, predictions="md.json", format="megadetector")
    found, failures, codes = predictions(
        folder, tables.frames, labels, predictions="md.json", format="megadetector", classes={"Animal": "bird"}
    )
    assert found.select("frame_id", "category", "x", "y", "w", "h").rows() == [("p/d1/a.jpg", "bird", 10, 12, 20, 6)]
    assert failures.select("model", "frame_id", "stage", "message").rows() == [
        ("m", "p/d1/b.jpg", "predict", "Failure image access")
    ]
    assert codes["class_dropped"] == 1 and codes["detector_failed"] == 1


def test_yolo_predictions(folder: Path) -> None:
    tables, labels = labelled(folder)
    write(
        folder / "runs" / "labels" / "a.txt",
        "14 0.5 0.5 0.5 0.5 0.75\n0 0.5 0.5 0.1 0.1 0.9\n14 0.25 0.5 0.5 0.5 0.5 3\n",
    )
    found, _, codes = predictions(
        folder, tables.frames, labels, predictions="runs/labels", format="yolo", classes={"14": "bird"}
    )
    assert found.select("frame_id", "score", "x", "y", "w", "h", "track_id").rows() == [
        ("p/d1/a.jpg", 0.75, 10, 6, 20, 12, None),
        ("p/d1/a.jpg", 0.5, 0, 6, 20, 12, "3"),
    ]
    assert codes["frames_without_file"] == 3
    write(folder / "runs" / "labels" / "b.txt", "14 0.5 0.5 0.5 0.5\n")
    with pytest.raises(DataError, match=r"b\.txt, line 1.*save_conf=True"):
        predictions(folder, tables.frames, labels, predictions="runs/labels", format="yolo", classes={"14": "bird"})


def test_a_class_map_that_leads_nowhere_is_an_error(folder: Path) -> None:
    tables, labels = labelled(folder)
    write(folder / "r.json", [detection(7)])
    with pytest.raises(DataError, match="'brid'"):
        predictions(folder, tables.frames, labels, predictions="r.json", classes={"bird": "brid"})


# ---- key and tables of a run


def test_fingerprint_follows_content_and_nothing_else(folder: Path) -> None:
    write(folder / "gt.json", coco([image(1, "p/d1/a.jpg")], []))
    write(folder / "r.json", [])
    (folder / "w.onnx").write_bytes(b"weights")
    models = [{"name": "a", "predictions": "r.json"}, {"name": "b", "weights": "w.onnx"}]
    run = run_of(
        folder, {"media": [{"images": "p/**/*.jpg"}], "labels": [{"path": "gt.json", "format": "coco"}]}, models=models
    )
    first = fingerprint(run)
    hashes = (run.dir / "hashes.json").read_text()
    assert str(folder) not in hashes and len(json.loads(hashes)) == 7
    os.utime(folder / "gt.json")
    assert fingerprint(run) == first
    keys = {first}
    for change in (
        lambda: (folder / "gt.json").write_text((folder / "gt.json").read_text() + " "),
        lambda: save(folder / "p" / "d1" / "a.jpg", size=(41, 24)),
        lambda: (folder / "w.onnx").write_bytes(b"weightz"),
        lambda: (folder / "r.json").unlink(),
        lambda: (folder / "p" / "d2" / "e.jpg").rename(folder / "p" / "d2" / "f.jpg"),
    ):
        change()
        keys.add(fingerprint(run))
    assert len(keys) == 6
    (run.dir / "hashes.json").write_text("{broken")
    assert fingerprint(run) in keys


def test_build_gives_every_table_with_hashes_and_no_torch(folder: Path) -> None:
    import hashlib

    write(folder / "gt.json", coco([image(1, "p/d1/a.jpg")], []))
    run = run_of(folder, {"media": [{"images": "p/**/*.jpg"}], "labels": [{"path": "gt.json", "format": "coco"}]})
    fingerprint(run)
    tables = build(run)
    assert set(tables) == {"media", "frames", "labels", "second_labels", "notices"}
    digest = hashlib.sha256((folder / "p" / "d1" / "a.jpg").read_bytes()).hexdigest()
    assert tables["media"]["sha256"][0] == digest and tables["media"]["sha256"].null_count() == 0
    assert tables["notices"].columns == ["code", "message", "n", "file"]


def test_a_broken_picture_with_labels_stays_in_the_study(folder: Path) -> None:
    path = folder / "p" / "d1" / "a.jpg"
    path.write_bytes(path.read_bytes()[:20])
    write(folder / "gt.json", coco([image(1, "p/d1/a.jpg")], [(1, [1, 1, 5, 5])]))
    found = study(folder, [{"images": "p/**/*.jpg"}], [{"path": "gt.json", "format": "coco"}])
    row = found.frames.row(by_predicate=pl.col("frame_id") == "p/d1/a.jpg", named=True)
    assert (row["width_px"], row["label_state"]) == (None, "labelled")
    assert found.notices.filter(pl.col("code") == "unreadable_image")["file"].to_list() == ["p/d1/a.jpg"]


@pytest.mark.real
def test_real_crops_of_flying_birds(real_data: Path) -> None:
    root = real_data / "flying_birds" / "crops"
    data = {"media": [{"images": "images/*.jpg"}], "labels": [{"path": "coco.json", "format": "coco"}]}
    recipe = parse_recipe({"name": "crops", "data": data})
    found = read_study(recipe, root, root)
    assert (found.frames.height, found.labels.height) == (158, 165)
    assert (found.frames["video_id"].n_unique(), found.frames["site_id"].n_unique()) == (18, 6)
    assert found.labels["mask_rle"].null_count() == 0
    model = Model(name="m", predictions="preds_yolo11n_int8_openvino.json")
    given, _, notices = read_predictions(model, found.frames, recipe.data.labels, root, root, categories=["bird"])
    raw = json.loads((root / "preds_yolo11n_int8_openvino.json").read_text())
    assert given.height == len(raw) == 396 and notices.is_empty()
    assert np.allclose(given["score"].to_numpy(), [r["score"] for r in raw])


@pytest.mark.real
def test_real_sparrows(real_data: Path) -> None:
    root = real_data / "photos" / "house_sparrow_cc0"
    data = {
        "root": str(root),
        "media": [{"images": "*.jpg"}],
        "labels": [{"path": str(root / "annotations_coco.json"), "format": "coco"}],
    }
    found = read_study(parse_recipe({"name": "sparrows", "data": data}), Path("/"), root)
    assert (found.frames.height, found.labels.height, found.frames["label_state"].unique().to_list()) == (
        6,
        16,
        ["labelled"],
    )
    with Image.open(found.media["path"][0]) as stored:
        assert stored.size == found.frames.select("width_px", "height_px").row(0)
