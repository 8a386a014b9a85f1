"""COCO files: what is read, what is assumed and said, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from birdlab.errors import DataError
from birdlab.readers.coco import read_ground_truth, read_results, write_ground_truth, write_results
from birdlab.readers.coco_masks import rle_text


def truth_of(**changes: Any) -> dict[str, Any]:
    content = {
        "images": [
            {"id": 1, "file_name": "a.jpg", "width": 200, "height": 100, "session": "s1", "site": "north"},
            {"id": 7, "file_name": "sub\\b.jpg", "width": 200, "height": 100, "session": "s2", "site": "north"},
        ],
        "annotations": [
            {"id": 4, "image_id": 1, "category_id": 3, "bbox": [10, 20, 50, 40], "area": 2000, "iscrowd": 0},
            {"id": 0, "image_id": 7, "category_id": 3, "bbox": [0, 0, 20, 20], "area": 400, "iscrowd": 1},
        ],
        "categories": [{"id": 3, "name": "bird"}],
    }
    return content | changes


def annotation(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "image_id": 1, "category_id": 3, "bbox": [10, 20, 50, 40], "area": 2000, "iscrowd": 0} | changes


def detection(**changes: Any) -> dict[str, Any]:
    return {"image_id": 1, "category_id": 3, "bbox": [10, 20, 50, 40], "score": 0.9} | changes


@pytest.fixture
def save(tmp_path: Path):
    def write(content: Any, name: str = "file.json") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


@pytest.fixture
def truth(save):
    return read_ground_truth(save(truth_of(), "gt.json"))


def test_ground_truth_becomes_tables(truth):
    assert truth.images.columns == ["image_id", "file_name", "width", "height", "session", "site"]
    assert truth.images.rows() == [(1, "a.jpg", 200, 100, "s1", "north"), (7, "sub/b.jpg", 200, 100, "s2", "north")]
    assert truth.categories == {3: "bird"} and truth.warnings == []
    first, second = truth.labels.to_dicts()
    assert (first["label_id"], first["frame_id"], first["category"], first["area_px"]) == ("4", "a.jpg", "bird", 2000.0)
    assert [first[c] for c in "xywh"] == [10.0, 20.0, 50.0, 40.0]
    assert (second["label_id"], second["is_crowd"], second["is_ignored"]) == ("0", True, False)


def test_what_is_absent_is_assumed_and_said(save):
    loose = {"image_id": 1, "category_id": 3, "bbox": [10, 20, 50, 40]}
    truth = read_ground_truth(save(truth_of(annotations=[loose], images=[{"id": 1}])), prefix="p:")
    assert truth.labels["area_px"].to_list() == [None]
    assert truth.labels["is_crowd"].to_list() == [False]
    assert truth.labels["frame_id"].to_list() == ["1"] and truth.labels["label_id"].to_list() == ["p:0"]
    for part in ("area is missing in 1 of 1", "no file_name", "give no width", "annotations have no id"):
        assert any(part in w for w in truth.warnings), part


def test_ignored_annotations_are_marked_whatever_their_crowd_flag(save):
    path = save(truth_of(annotations=[annotation(ignore=1, iscrowd=0), annotation(id=2)]))
    truth = read_ground_truth(path)
    assert truth.labels["is_ignored"].to_list() == [True, False]
    assert any("1 annotations with ignore: 1" in w for w in truth.warnings)


def test_an_area_that_fits_neither_box_nor_mask_is_said(save):
    polygon = [[10, 20, 60, 20, 10, 60]]  # a triangle: half of the box
    good = annotation(id=2, area=1000, segmentation=polygon)
    truth = read_ground_truth(save(truth_of(annotations=[annotation(area=1.0), good])))
    assert len(truth.warnings) == 1
    assert "area of 1 annotations" in truth.warnings[0] and "annotations[0] (id 1): area 1" in truth.warnings[0]


@pytest.mark.parametrize(
    ("change", "code", "key", "found"),
    [
        ({"image_id": 9}, "unknown_image_id", "image_id", "9"),
        ({"image_id": "1"}, "wrong_type", "image_id", 'the text "1"'),
        ({"image_id": 1.5}, "wrong_type", "image_id", "1.5"),
        ({"image_id": True}, "wrong_type", "image_id", "true"),
        ({"category_id": 4}, "unknown_category_id", "category_id", "4"),
        ({"bbox": [1, 2, 3]}, "bad_box", "bbox", "[1, 2, 3]"),
        ({"bbox": [1, 2, "3", 4]}, "bad_box", "bbox", '[1, 2, "3", 4]'),
        ({"bbox": [1, 2, float("nan"), 4]}, "nan", "bbox", "[1, 2, NaN, 4]"),
        ({"bbox": [50, 20, -10, 4]}, "negative_box", "bbox", "[50.0, 20.0, -10.0, 4.0]"),
        ({"area": -3}, "negative_area", "area", "-3.0"),
        ({"area": float("inf")}, "nan", "area", "Infinity"),
        ({"area": 10**400}, "wrong_type", "area", "1000"),
        ({"iscrowd": 2}, "bad_value", "iscrowd", "2"),
        ({"ignore": "yes"}, "bad_value", "ignore", 'the text "yes"'),
        ({"segmentation": {"size": [10, 10], "counts": [100]}}, "mask_size", "segmentation", "size [10, 10]"),
        ({"segmentation": {"size": [100, 200], "counts": [100]}}, "bad_mask", "segmentation", "add up to 100"),
        ({"segmentation": {"size": [100, 200], "counts": "!!"}}, "bad_mask", "segmentation", "RLE"),
        ({"segmentation": {"size": [100, 200], "counts": "\u00ff"}}, "bad_mask", "segmentation", "RLE"),
        ({"segmentation": {"size": [100, 200], "counts": "o" * 40}}, "bad_mask", "segmentation", "cut off"),
        ({"segmentation": {"size": [100, 200], "counts": "o" * 40 + "0"}}, "bad_mask", "segmentation", "50 bits"),
        ({"segmentation": {"size": [100, 200], "counts": "54"}}, "bad_mask", "segmentation", "add up to"),
        ({"segmentation": {"size": [100, 200], "counts": ""}}, "bad_mask", "segmentation", "add up to 0"),
        ({"segmentation": [[1, 2, 3, 4]]}, "bad_mask", "segmentation", "polygon of 4 numbers"),
        ({"segmentation": [[1, 2, 3, 4, float("nan"), 5]]}, "bad_mask", "segmentation", "not lists of numbers"),
        ({"segmentation": "x"}, "bad_mask", "segmentation", "a segmentation that is str"),
    ],
)
def test_bad_annotations_are_refused_by_name(save, change, code, key, found):
    path = save(truth_of(annotations=[annotation(), annotation(id=5) | change]))
    with pytest.raises(DataError) as caught:
        read_ground_truth(path)
    (problem,) = caught.value.problems
    assert (problem.code, problem.key, problem.file) == (code, key, str(path))
    assert problem.record == "annotations[1] (id 5)"
    assert found in problem.found


@pytest.mark.parametrize("key", ["image_id", "category_id", "bbox"])
def test_missing_keys_are_named(save, key):
    bad = annotation()
    del bad[key]
    with pytest.raises(DataError) as caught:
        read_ground_truth(save(truth_of(annotations=[bad])))
    assert [(p.code, p.key) for p in caught.value.problems] == [("missing_key", key)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 1, "file_name": "b.jpg"}]}, "duplicate_image_id"),
        ({"images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "a.jpg"}]}, "duplicate_file_name"),
        ({"images": [{"id": 1, "file_name": "a.jpg", "width": 0}]}, "bad_size"),
        ({"images": [{"id": 1, "file_name": 5}]}, "wrong_type"),
        ({"images": []}, "no_images"),
        ({"images": {"1": "a.jpg"}}, "wrong_type"),
        ({"categories": None}, "missing_key"),
        ({"categories": [{"id": 3, "name": "bird"}, {"id": 3, "name": "tit"}]}, "duplicate_category_id"),
        ({"categories": [{"id": 3, "name": "bird"}, {"id": 4, "name": "bird"}]}, "duplicate_category_name"),
        ({"annotations": [annotation(), annotation()]}, "duplicate_annotation_id"),
        ({"annotations": [annotation(), [1, 2]]}, "wrong_type"),
    ],
)
def test_files_that_do_not_hold_together(save, change, code):
    content = truth_of(annotations=[annotation()]) | change
    with pytest.raises(DataError) as caught:
        read_ground_truth(save({k: v for k, v in content.items() if v is not None}))
    assert code in {p.code for p in caught.value.problems}


def test_every_problem_is_in_one_error_and_long_lists_are_counted(save):
    bad = [annotation(id=k, bbox=[0, 0, -1, 1]) for k in range(30)] + [annotation(id=99, image_id=5, category_id=9)]
    with pytest.raises(DataError) as caught:
        read_ground_truth(save(truth_of(annotations=bad)))
    problems = {p.code: p for p in caught.value.problems}
    assert set(problems) == {"negative_box", "unknown_image_id", "unknown_category_id"}
    assert "and 29 more of 31 annotations: 1, 2, 3, 4, 5, …" in problems["negative_box"].found


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"", "empty_file", None),
        (b"  \n ", "empty_file", None),
        (b'{"images": [\n{"id": 1},\n{"id":', "not_json", 3),
        (b'{"images": [1,]}', "not_json", 1),
        (b'{\n"images": "\xff\xfe"}', "not_utf8", 2),
        (b"[" * 100_000, "not_json", None),
        (b"[]", "not_ground_truth", None),
        (b"3", "not_ground_truth", None),
        (b"{}", "missing_key", None),
    ],
)
def test_files_that_are_not_coco(save, raw, code, line):
    with pytest.raises(DataError) as caught:
        read_ground_truth(save(raw))
    problem = caught.value.problems[0]
    assert (problem.code, problem.line) == (code, line)


def test_missing_file_and_folder(tmp_path):
    for path, code in ((tmp_path / "none.json", "no_file"), (tmp_path, "unreadable")):
        with pytest.raises(DataError) as caught:
            read_ground_truth(path)
        assert caught.value.problems[0].code == code


def test_byte_order_mark_is_accepted(save):
    truth = read_ground_truth(save(b"\xef\xbb\xbf" + json.dumps(truth_of()).encode()))
    assert truth.labels.height == 2


def test_masks_in_every_form_become_the_same_text(save):
    polygon = [[10.0, 10.0, 60.0, 10.0, 60.0, 40.0, 10.0, 40.0]]
    rle = coco_mask.merge(coco_mask.frPyObjects(polygon, 100, 200))
    runs = np.flatnonzero(np.diff(np.r_[2, coco_mask.decode(rle).ravel(order="F"), 2]))
    counts = np.diff(runs).tolist()
    text = rle_text(polygon, (100, 200))
    assert json.loads(text) == {"size": [100, 200], "counts": rle["counts"].decode()}
    assert rle_text({"size": [100, 200], "counts": rle["counts"]}, (100, 200)) == text
    assert rle_text({"size": [100, 200], "counts": rle["counts"].decode()}, None) == text
    assert rle_text({"size": [100, 200], "counts": counts}, (100, 200)) == text
    assert rle_text([], (100, 200)) is None and rle_text(None, None) is None
    without_box = annotation(segmentation=polygon, area=1500)
    del without_box["bbox"]
    truth = read_ground_truth(save(truth_of(annotations=[without_box])))
    assert truth.labels.select("x", "y", "w", "h").row(0) == (10, 10, 50, 30)
    assert truth.labels["mask_rle"][0] == text
    assert truth.warnings == ["bbox is missing in 1 annotations: it is taken from the mask"]


def test_results_become_a_table_in_file_order(save, truth):
    path = save([detection(score=0.2), detection(image_id=7, score=0.9), detection(score=0.8), detection(score=0.8)])
    found, warnings = read_results(path, truth, model="yolo")
    assert warnings == []
    assert found["prediction_id"].to_list() == ["0", "1", "2", "3"]
    assert found["frame_id"].to_list() == ["a.jpg", "sub/b.jpg", "a.jpg", "a.jpg"]
    assert found["rank"].to_list() == [2, 0, 0, 1]
    assert found["model"].unique().to_list() == ["yolo"] and found["category"].unique().to_list() == ["bird"]


LAYOUTS = {
    "compact": lambda d: json.dumps(d, separators=(",", ":")),
    "default": json.dumps,
    "indented": lambda d: json.dumps(d, indent=2),
    "one per line": lambda d: "[\n" + ",\n".join(json.dumps(x) for x in d) + "\n]\n",
    "windows lines": lambda d: "[\r\n" + ",\r\n".join(json.dumps(x) for x in d) + "\r\n]",
    "odd blanks": lambda d: "  [ " + "  ,  ".join(json.dumps(x) for x in d) + " ]",
    "braces in text": lambda d: json.dumps([x | {"note": "}, {"} for x in d]),
    "nested objects": lambda d: json.dumps([x | {"extra": [{"a": 1}, {"b": 2}]} for x in d]),
    "whole floats": lambda d: json.dumps([x | {"image_id": float(x["image_id"])} for x in d]),
    "empty masks": lambda d: json.dumps([x | {"segmentation": []} for x in d]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_of_the_json_does_not_matter(save, truth, layout):
    rows = [detection(score=0.1 + 0.2, bbox=[0.1, 1e-3, 5e1, 7]), detection(image_id=7, score=0), detection(score=1)]
    found, _ = read_results(save(LAYOUTS[layout](rows).encode()), truth, model="m")
    assert found["score"].to_list() == [0.1 + 0.2, 0.0, 1.0]
    assert found.select("x", "y", "w", "h").row(0) == (0.1, 1e-3, 50.0, 7.0)
    assert found["frame_id"].to_list() == ["a.jpg", "sub/b.jpg", "a.jpg"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 7]),
            st.floats(0, 1),
            st.lists(st.floats(0, 1e6), min_size=4, max_size=4),
        ),
        max_size=8,
    )
)
def test_numbers_are_read_exactly(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("exact")
    (folder / "gt.json").write_text(json.dumps(truth_of()))
    records = [detection(image_id=i, score=s, bbox=b) for i, s, b in rows]
    (folder / "dt.json").write_text(json.dumps(records))
    found, _ = read_results(folder / "dt.json", read_ground_truth(folder / "gt.json"), model="m")
    assert found["score"].to_list() == [s for _, s, _ in rows]
    assert found.select("x", "y", "w", "h").rows() == [tuple(b) for _, _, b in rows]


@pytest.mark.parametrize(
    ("change", "code", "key", "found"),
    [
        ({"score": float("nan")}, "nan", "score", "NaN"),
        ({"score": float("inf")}, "nan", "score", "Infinity"),
        ({"score": "0.9"}, "wrong_type", "score", 'the text "0.9"'),
        ({"score": None}, "missing_key", "score", "no such key"),
        ({"score": True}, "wrong_type", "score", "true"),
        ({"bbox": [True, 2, 3, 4]}, "bad_box", "bbox", "[true, 2, 3, 4]"),
        ({"score": 90}, "score_range", "score", "90"),
        ({"score": -0.1}, "score_range", "score", "-0.1"),
        ({"bbox": [1, 2, float("nan"), 4]}, "nan", "bbox", "NaN"),
        ({"bbox": [1, 2, 3]}, "bad_box", "bbox", "[1, 2, 3]"),
        ({"bbox": [[1, 2, 3, 4]]}, "bad_box", "bbox", "[[1, 2, 3, 4]]"),
        ({"bbox": None}, "missing_key", "bbox", "neither bbox nor segmentation"),
        ({"bbox": [1, 2, 3, -4]}, "negative_box", "bbox", "[1.0, 2.0, 3.0, -4.0]"),
        ({"image_id": "1"}, "wrong_type", "image_id", "the text '1'"),
        ({"image_id": None}, "missing_key", "image_id", "no such key"),
        ({"image_id": 2**63}, "wrong_type", "image_id", "9223372036854775808"),
        ({"category_id": "bird"}, "wrong_type", "category_id", 'the text "bird"'),
        ({"segmentation": {"size": [9, 9], "counts": [81]}}, "mask_size", "segmentation", "size [9, 9]"),
    ],
)
def test_bad_detections_are_refused_by_position(save, truth, change, code, key, found):
    path = save([detection(), detection(), detection() | change])
    with pytest.raises(DataError) as caught:
        read_results(path, truth, model="m")
    problem = next(p for p in caught.value.problems if p.code == code)
    assert (problem.record, problem.key, problem.file) == ("detections[2]", key, str(path))
    assert found in problem.found


def test_unknown_images_are_counted_with_their_ids_and_the_nearest(save, truth):
    with pytest.raises(DataError) as caught:
        read_results(
            save([detection(), detection(image_id=9), detection(image_id=8), detection(image_id=9)]), truth, model="m"
        )
    (problem,) = caught.value.problems
    assert problem.code == "unknown_image_id" and problem.record == "detections[1]"
    assert "2 image ids" in problem.found and "(9, 8) in 3 of 4" in problem.found
    assert "nearest: 7" in problem.expected


def test_categories_shifted_by_one_are_refused_with_a_mapping_by_name(save, truth):
    with pytest.raises(DataError) as caught:
        read_results(save([detection(category_id=2)] * 2), truth, model="m")
    (problem,) = caught.value.problems
    assert problem.code == "unknown_category_id" and "2 -> 3 (bird)" in problem.remedy
    with pytest.raises(DataError, match="3 \\(bird\\)"):
        read_results(save([detection(category_id=77)]), truth, model="m")


def test_some_unknown_categories_are_left_out_and_counted(save, truth):
    found, warnings = read_results(save([detection(), detection(category_id=80)]), truth, model="m")
    assert found.height == 1 and "1 detections of 1 categories" in warnings[0] and "(ids 80)" in warnings[0]


def test_percentages_are_recognised(save, truth):
    with pytest.raises(DataError) as caught:
        read_results(save([detection(score=97.5), detection(score=3)]), truth, model="m")
    assert "percentages" in caught.value.problems[0].remedy


def test_no_detections_is_a_warning(save, truth):
    found, warnings = read_results(save([]), truth, model="m")
    assert found.is_empty() and warnings == ["0 detections"]
    assert found.schema["score"] == pl.Float64


def test_image_ids_may_be_file_names_but_not_numbers_in_quotes(save, truth):
    rows = [detection(image_id="a.jpg"), detection(image_id="a"), detection(image_id=7)]
    found, _ = read_results(save(rows), truth, model="m")
    assert found["frame_id"].to_list() == ["a.jpg", "a.jpg", "sub/b.jpg"]
    with pytest.raises(DataError) as caught:
        read_results(save([detection(image_id="aa.jpg")]), truth, model="m")
    assert "a.jpg" in caught.value.problems[0].remedy
    numbered = read_ground_truth(save(truth_of(images=[{"id": 5, "file_name": "1.jpg"}], annotations=[]), "n.json"))
    with pytest.raises(DataError, match="without quotes"):
        read_results(save([detection(image_id="1")]), numbered, model="m")


def test_results_without_ground_truth_go_by_file_name(save):
    rows = [detection(file_name="x/a.jpg", category_name="tit"), detection(file_name="b.jpg")]
    found, _ = read_results(save(rows), None, model="m")
    assert found.select("frame_id", "category").rows() == [("x/a.jpg", "tit"), ("b.jpg", "3")]
    with pytest.raises(DataError, match="file_name"):
        read_results(save([detection()]), None, model="m")


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (truth_of(), "ground truth"),
        ({"images": [], "detection_categories": {"1": "animal"}}, "megadetector"),
        ("text", ""),
    ],
)
def test_other_files_are_not_results(save, truth, content, remedy):
    with pytest.raises(DataError) as caught:
        read_results(save(content), truth, model="m")
    assert caught.value.problems[0].code == "not_results" and remedy in caught.value.problems[0].remedy


@pytest.mark.parametrize(
    "raw", [b"[{},]", b'[{"image_id": 1}, nonsense]', b'[{"image_id": 1}', b'[{"a": 1},, {"b": 2}]']
)
def test_broken_results_name_the_place(save, truth, raw):
    with pytest.raises(DataError) as caught:
        read_results(save(raw), truth, model="m")
    assert (caught.value.problems[0].code, caught.value.problems[0].line) == ("not_json", 1)


def test_masks_of_results_are_kept(save, truth):
    rle = coco_mask.encode(np.asfortranarray(np.ones((100, 200), np.uint8)))
    segmentation = {"size": [100, 200], "counts": rle["counts"].decode()}
    only_mask = {"image_id": 1, "category_id": 3, "score": 0.5, "segmentation": segmentation}
    found, _ = read_results(save([detection(segmentation=segmentation), only_mask, detection()]), truth, model="m")
    assert [json.loads(t) if t else None for t in found["mask_rle"]] == [segmentation, segmentation, None]
    assert found.select("x", "y", "w", "h").row(1) == (0, 0, 200, 100)


def frames_of(truth) -> pl.DataFrame:
    names = {
        "file_name": "frame_id",
        "width": "width_px",
        "height": "height_px",
        "session": "video_id",
        "site": "site_id",
    }
    return truth.images.rename(names)


def test_what_is_written_reads_back_the_same(save, truth, tmp_path):
    labels = truth.labels.with_columns(is_ignored=pl.Series([True, False]), track_id=pl.Series(["t1", None]))
    back = write_ground_truth(tmp_path / "out.json", frames_of(truth), labels)
    assert back.labels.drop("label_id", "source").equals(labels.drop("label_id", "source"))
    assert back.images.drop("image_id").equals(truth.images.drop("image_id"))
    found, _ = read_results(save([detection(score=0.3), detection(image_id=7)]), truth, model="m")
    assert write_results(tmp_path / "dt.json", found, back) == 2
    again, _ = read_results(tmp_path / "dt.json", back, model="m")
    assert again.equals(found)
    raw = json.loads((tmp_path / "out.json").read_text())
    assert raw["annotations"][0]["ignore"] == 1 and raw["annotations"][1]["iscrowd"] == 1
    assert [p.name for p in tmp_path.glob(".*")] == []


@pytest.mark.real
def test_real_files(real_data):
    crops = real_data / "flying_birds" / "crops"
    truth = read_ground_truth(crops / "coco.json")
    assert (truth.images.height, truth.labels.height, truth.warnings) == (158, 165, [])
    assert truth.images["session"].n_unique() == 18 and truth.images["site"].n_unique() == 6
    assert truth.labels["mask_rle"].null_count() == 0
    found, warnings = read_results(crops / "preds_yolo11n_int8_openvino.json", truth, model="m")
    assert (found.height, warnings) == (396, [])


@pytest.mark.parametrize("width", [0, -1, 10**18])
def test_a_size_that_is_none_is_named_and_masks_of_it_do_not_crash(save, width):
    polygon = annotation(segmentation=[[10, 20, 60, 20, 10, 60]])
    truth = truth_of(images=[{"id": 1, "file_name": "a.jpg", "width": width, "height": 100}], annotations=[polygon])
    with pytest.raises(DataError, match=f"width: found {width}; expected 1 to 1,000,000 pixels"):
        read_ground_truth(save(truth))


def test_masks_too_large_for_coco_are_refused(save):
    image = {"id": 1, "file_name": "a.tif", "width": 100_000, "height": 100_000}
    for mask in ([[10, 20, 60, 20, 10, 60]], {"size": [100_000, 100_000], "counts": [10**10]}):
        path = save(truth_of(images=[image], annotations=[annotation(segmentation=mask)]))
        with pytest.raises(DataError, match="a mask of 10,000,000,000 pixels"):
            read_ground_truth(path)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 1.0])
def test_run_length_text_of_any_mask_is_read_and_a_cut_one_is_not(share):
    pixels = np.random.default_rng(3).random((211, 307)) < share
    rle = coco_mask.encode(np.asfortranarray(pixels.astype(np.uint8)))
    text = rle["counts"].decode()
    assert json.loads(rle_text({"size": [211, 307], "counts": text}, (211, 307)))["counts"] == text
    with pytest.raises(ValueError, match="cut off|add up"):
        rle_text({"size": [211, 307], "counts": text[:-1]}, (211, 307))
