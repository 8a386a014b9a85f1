"""YOLO, LabelMe, MegaDetector and SpeciesNet labels; class names; names of pictures."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco

from birdlab import schemas
from birdlab.errors import DataError
from birdlab.readers.labelme import Shape, merge_shapes
from birdlab.readers.labels import LabelSet, read_labels
from birdlab.readers.names import index_names
from birdlab.readers.yolo import parse_line, read_yolo
from birdlab.recipe import Labels

SIZE = (200, 100)


def frames_of(*paths: str, size: tuple[int, int] | None = SIZE) -> pl.DataFrame:
    rows = [
        {
            "frame_id": p,
            "media_id": p.split("#")[0],
            "video_id": "s",
            "frame_index": int(p.split("#")[1]) if "#" in p else 0,
        }
        | {"width_px": size and size[0], "height_px": size and size[1], "split": "test", "label_state": "unlabelled"}
        for p in paths
    ]
    return schemas.TABLES["frames"].conform(pl.DataFrame(rows))


def read(root: Path, frames: pl.DataFrame, categories: tuple[str, ...] = ("bird",), **spec: Any) -> LabelSet:
    spec = {"path": str(root / "labels"), **spec}
    return read_labels(Labels(**spec), frames, index_names(frames, root), base=root, categories=list(categories))


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def boxes(labels: LabelSet) -> list[list[float]]:
    return [list(row) for row in labels.labels.select("x", "y", "w", "h").iter_rows()]


def codes(labels: LabelSet) -> dict[str, int]:
    return {n.code: n.n for n in labels.notices}


# ---- YOLO


def test_yolo_lines_become_boxes_in_pixels(tmp_path: Path) -> None:
    frames = frames_of("images/a.jpg", "images/b.jpg", "images/c.jpg")
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.2 0.4\n\n0 0.1 0.2 0.1 0.1 0.93\n")
    write(tmp_path / "labels" / "b.txt", "")
    found = read(tmp_path, frames, format="yolo", classes=["Bird"])
    assert boxes(found) == [pytest.approx([80, 30, 40, 40]), pytest.approx([10, 15, 20, 10])]
    assert found.labels["category"].to_list() == ["bird", "bird"]
    assert found.states() == {"images/a.jpg": "labelled", "images/b.jpg": "empty"}
    assert codes(found)["confidence_unused"] == 1


def test_yolo_outline_has_a_mask_and_its_box(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "a.txt", "1 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6\n")
    found = read(tmp_path, frames_of("images/a.jpg"), format="yolo", classes=["nest", "bird"])
    assert boxes(found) == [pytest.approx([20, 20, 40, 40])]
    mask = coco.decode(json.loads(found.labels["mask_rle"][0]))
    assert mask.shape == (100, 200) and mask[20:60, 20:60].all() and mask.sum() == 1600
    assert found.labels["area_px"][0] == 1600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels/train/s1/a.txt", "images/train/s1/a.jpg"),
        ("pictures/a.txt", "pictures/a.jpg"),
        ("labels/deep/a.txt", "deep/a.jpg"),
        ("labels/a.txt", "s1/images/a.jpg"),
        ("labels/clip_3.txt", "clip.mp4#2"),
    ],
    ids=["images-labels", "beside", "below", "unique-name", "video-frame"],
)
def test_yolo_finds_the_text_of_a_picture(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path / name, "0 0.5 0.5 0.1 0.1")
    path = str(tmp_path / name.split("/")[0])
    found = read(tmp_path, frames_of(text, "other/z.jpg"), format="yolo", classes=["bird"], path=path)
    assert found.states() == {text: "labelled"}


def test_yolo_every_bad_line_is_named(tmp_path: Path) -> None:
    lines = [
        "0 0.5 0.5 0.1",
        "0 320 240 64 48",
        "0 0.5 x 0.1 0.1",
        "-1 0.5 0.5 0.1 0.1",
        "0.5 0.5 0.5 0.1 0.1",
        "0 nan 0.5 0.1 0.1",
        "7 0.5 0.5 0.1 0.1",
        "0 0.5 0.5 -0.1 0.1",
        "0 .5 .5 .1 .1 1.5",
        "0 0.5 0.5 0.1 0.1",
    ]
    path = write(tmp_path / "labels" / "a.txt", "\n".join(lines))
    with pytest.raises(DataError) as caught:
        read(tmp_path, frames_of("images/a.jpg"), format="yolo", classes=["bird"])
    problems = caught.value.problems
    assert sorted(p.line for p in problems) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert {p.file for p in problems} == {str(path.resolve())}
    text = {p.line: p.found for p in problems}
    assert (
        text[1] == "4 columns"
        and "pixels?" in text[2]
        and text[3] == "'x' where a number belongs"
        and text[7] == "class 7"
    )


def test_yolo_class_names_come_from_data_yaml_or_are_asked_for(tmp_path: Path) -> None:
    frames = frames_of("images/a.jpg")
    write(tmp_path / "labels" / "a.txt", "1 0.5 0.5 0.1 0.1\n0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(DataError, match=r"classes: \[bird\]"):
        read(tmp_path, frames, format="yolo")
    write(tmp_path / "data.yaml", "names: {0: person, 1: bird}\n")
    found = read(tmp_path, frames, format="yolo")
    assert found.labels["category"].to_list() == ["bird"]
    assert codes(found)["class_dropped"] == 1
    write(tmp_path / "mine.txt", "person\nsparrow\n")
    found = read(tmp_path, frames, format="yolo", classes="mine.txt", rename={"sparrow": "bird"})
    assert found.labels["label_id"].to_list() == ["images/a.jpg:1"]


def test_yolo_files_without_picture_are_counted_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.1 0.1")
    write(tmp_path / "labels" / "zz.txt", "0 0.5 0.5 0.1 0.1")
    write(tmp_path / "labels" / "classes.txt", "bird")
    assert codes(read(tmp_path, frames_of("images/a.jpg"), format="yolo")) == {"label_without_image": 1}
    with pytest.raises(DataError, match=r"2 text files of other names, e\.g\. a\.txt"):
        read(tmp_path, frames_of("images/q.jpg"), format="yolo", classes=["bird"])
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path, frames_of("a.jpg"), format="yolo", path="nowhere")


def test_yolo_labels_of_an_unreadable_picture_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "a.txt", "0 0.5 0.5 0.1 0.1")
    found = read(tmp_path, frames_of("images/a.jpg", size=None), format="yolo", classes=["bird"])
    assert found.labels.is_empty() and found.states() == {} and codes(found) == {"labels_unplaced": 1}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_yolo_fractions_are_read_exactly(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    root = tmp_path_factory.mktemp("yolo")
    width, height = data.draw(st.integers(1, 9000)), data.draw(st.integers(1, 9000))
    fraction = st.floats(0, 1)
    drawn = data.draw(
        st.lists(st.tuples(fraction, fraction, fraction, fraction, st.sampled_from(["bird", "chick"])), max_size=5)
    )
    rows = []
    for i, (a, b, c, d, category) in enumerate(drawn):
        x, y = a * width, b * height
        box = {"x": x, "y": y, "w": c * (width - x), "h": d * (height - y)}
        rows.append(
            {
                "label_id": str(i),
                "frame_id": "f/a.jpg",
                "category": category,
                **box,
                "is_crowd": False,
                "is_ignored": False,
            }
        )
    labels = schemas.TABLES["labels"].conform(
        pl.DataFrame(rows, schema_overrides=schemas.TABLES["labels"].dtypes) if rows else schemas.empty("labels")
    )
    frames = frames_of("f/a.jpg", "f/b.jpg", size=(width, height)).with_columns(
        label_state=pl.Series(["labelled" if rows else "empty", "unlabelled"])
    )
    text = ""
    for r in rows:
        centre = ((r["x"] + r["w"] / 2) / width, (r["y"] + r["h"] / 2) / height)
        values = (*centre, r["w"] / width, r["h"] / height)
        text += f"{['chick', 'bird'].index(r['category'])} " + " ".join(map(repr, values)) + "\n"
    (root / "labels" / "f").mkdir(parents=True)
    (root / "labels" / "f" / "a.txt").write_text(text)
    (root / "labels" / "classes.txt").write_text("chick\nbird\n")
    found = read_yolo(root / "labels", frames, index_names(frames, root), classes=None)
    assert found.looked_at == {"f/a.jpg"}
    assert found.labels["category"].to_list() == labels["category"].to_list()
    for name in "xywh":
        assert np.allclose(found.labels[name].to_numpy(), labels[name].to_numpy(), atol=1e-9)


def test_yolo_seven_columns_are_a_triangle_or_a_track() -> None:
    assert len(parse_line("0 .1 .1 .2 .1 .2 .3").outline) == 6
    line = parse_line("0 .1 .1 .2 .1 .9 4", tracked=True)
    assert (line.confidence, line.track, line.outline) == (0.9, "4", ())


# ---- LabelMe


def shape(
    label: str, points: list[list[float]], kind: str = "rectangle", group: int | None = None, **more: Any
) -> dict[str, Any]:
    return {"label": label, "points": points, "shape_type": kind, "group_id": group, "flags": {}, **more}


def labelme(*shapes: dict[str, Any], image: str = "a.jpg", size: tuple[int, int] = SIZE, **more: Any) -> dict[str, Any]:
    return {
        "version": "5.4.1",
        "imagePath": image,
        "imageWidth": size[0],
        "imageHeight": size[1],
        "imageData": None,
        "shapes": list(shapes),
        **more,
    }


SQUARE = [[20, 20], [60, 20], [60, 60], [20, 60]]


def test_labelme_rectangle_and_outline_of_one_bird_become_one(tmp_path: Path) -> None:
    content = labelme(
        shape("bird", [[61, 60], [20, 19]]),  # corners in any order; IoU with the outline 1600 / 1681
        shape("bird", SQUARE, "polygon"),
        shape("bird", [[100, 10], [140, 50]], group=3),
        shape("bird", [[110, 20], [130, 20], [120, 45]], "polygon", group=3),  # same group, though little overlap
        shape("bird", [[150, 50], [170, 70]]),
        shape("bird", [[150, 60], [170, 60], [170, 80], [150, 80]], "polygon"),  # IoU 1/3: another bird
    )
    write(tmp_path / "labels" / "a.json", content)
    found = read(tmp_path, frames_of("labels/a.jpg"), format="labelme")
    assert boxes(found) == [[20, 19, 41, 41], [100, 10, 40, 40], [150, 50, 20, 20], [150, 60, 20, 20]]
    assert [m is not None for m in found.labels["mask_rle"]] == [True, True, False, True]
    assert codes(found)["shapes_merged"] == 2
    # COCO-exact: the same as pycocotools makes of the polygon.
    expected = coco.merge(coco.frPyObjects([[v for p in SQUARE for v in p]], 100, 200))
    assert json.loads(found.labels["mask_rle"][0])["counts"] == expected["counts"].decode()
    assert found.labels["area_px"].to_list() == [
        1600.0,
        float(coco.area(json.loads(found.labels["mask_rle"][1]))),
        400.0,
        400.0,
    ]


def test_labelme_outlines_of_one_group_are_parts_of_one_bird(tmp_path: Path) -> None:
    left, right = [[10, 10], [20, 10], [20, 30], [10, 30]], [[24, 10], [30, 10], [30, 30], [24, 30]]
    write(
        tmp_path / "labels" / "a.json", labelme(shape("bird", left, "polygon", 1), shape("bird", right, "polygon", 1))
    )
    found = read(tmp_path, frames_of("labels/a.jpg"), format="labelme")
    assert boxes(found) == [[10, 10, 20, 20]] and found.labels["area_px"].to_list() == [320.0]


def test_labelme_different_groups_are_different_birds() -> None:
    box = (0.0, 0.0, 10.0, 10.0)
    shapes = [Shape(0, "bird", "rectangle", box, None, "1"), Shape(1, "bird", "polygon", box, "m", "2")]
    assert len(merge_shapes(shapes)[0]) == 2
    assert len(merge_shapes([shapes[0], Shape(1, "nest", "polygon", box, "m", None)])[0]) == 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["bird", "Bird ", "nest"]),
            st.integers(0, 3),
            st.integers(0, 3),
            st.booleans(),
            st.sampled_from([None, "1", "2"]),
        ),
        max_size=7,
    ),
    st.randoms(use_true_random=False),
)
def test_labelme_merging_does_not_depend_on_the_order_of_shapes(drawn: list[tuple[Any, ...]], random: Any) -> None:
    def made(order: list[int]) -> list[Shape]:
        shapes = []
        for index, k in enumerate(order):
            label, x, y, outlined, group = drawn[k]
            # Sizes differ a little, so that no two overlaps tie.
            box = (10.0 * x, 10.0 * y, 30.0 + k / 7, 30.0 + k / 11)
            mask = json.dumps(_square_rle(k)) if outlined else None
            shapes.append(Shape(index, label, "polygon" if outlined else "rectangle", box, mask, group))
        return shapes

    order = list(range(len(drawn)))
    first, n_first = merge_shapes(made(order))
    random.shuffle(order)
    second, n_second = merge_shapes(made(order))
    assert n_first == n_second
    assert sorted((s.label.strip().lower(), s.box, _area(s.mask)) for s in first) == sorted(
        (s.label.strip().lower(), s.box, _area(s.mask)) for s in second
    )


def _square_rle(k: int) -> dict[str, Any]:
    mask = np.zeros((20, 20), np.uint8, order="F")
    mask[: k + 1, : k + 2] = 1
    rle = coco.encode(mask)
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def _area(mask: str | None) -> int:
    return int(coco.area(json.loads(mask))) if mask else 0


@settings(max_examples=40, deadline=None)
@given(st.permutations(SQUARE[:2]), st.integers(0, 3), st.booleans())
def test_labelme_the_start_and_sense_of_an_outline_do_not_matter(
    corners: list[list[float]], start: int, reverse: bool
) -> None:
    from birdlab.readers.labelme import read_shape

    points = SQUARE[start:] + SQUARE[:start]
    points = points[::-1] if reverse else points
    a = read_shape(shape("bird", SQUARE, "polygon"), 0, (100, 200))
    b = read_shape(shape("bird", points, "polygon"), 0, (100, 200))
    assert a == b
    box = read_shape(shape("bird", [corners[0], [corners[1][0], 60]]), 0, (100, 200))
    assert isinstance(box, Shape) and box.box == (20, 20, 40, 40)


def test_labelme_empty_is_looked_at_and_missing_is_not(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "a.json", labelme())
    write(tmp_path / "labels" / "b.json", labelme(shape("bird", [[1, 1], [5, 5]]), image="b.jpg"))
    found = read(tmp_path, frames_of("labels/a.jpg", "labels/b.jpg", "labels/c.jpg"), format="labelme")
    assert found.states() == {"labels/a.jpg": "empty", "labels/b.jpg": "labelled"}


def test_labelme_image_path_is_followed_through_backslashes_and_moves(tmp_path: Path) -> None:
    frames = frames_of("photos/s1/a.jpg", "photos/s2/a.jpg", "photos/s1/b.jpg", "labels/own.jpg", "photos/s1/c.JPG")
    bird = shape("bird", [[1, 1], [5, 5]])
    write(tmp_path / "labels" / "1.json", labelme(bird, image="..\\photos\\s1\\a.jpg"))
    write(tmp_path / "labels" / "2.json", labelme(bird, image="C:\\Users\\field\\s2\\a.jpg"))
    write(tmp_path / "labels" / "3.json", labelme(bird, image="/media/card/b.jpg"))
    write(tmp_path / "labels" / "own.json", labelme(bird, image="D:\\before_renaming.jpg"))
    write(tmp_path / "labels" / "4.json", labelme(bird, image="c.jpg"))
    found = read(tmp_path, frames, format="labelme")
    assert set(found.states()) == set(frames["frame_id"])
    assert codes(found) == {"image_moved": 3, "image_by_own_name": 1}
    write(tmp_path / "labels" / "5.json", labelme(bird, image="elsewhere/a.jpg"))
    write(tmp_path / "labels" / "6.json", labelme(bird, image="b2.jpg"))
    with pytest.raises(DataError) as caught:
        read(tmp_path, frames, format="labelme")
    assert {p.code for p in caught.value.problems} == {"ambiguous_image", "unknown_image"}
    assert "photos/s1/b.jpg" in next(p.expected for p in caught.value.problems if p.code == "unknown_image")


def test_labelme_spellings_are_listed_and_mapped_once(tmp_path: Path) -> None:
    frames = frames_of("labels/a.jpg")
    labels = ["bird", "Bird ", "bluebird", "Bluebird ", "intruso", "bluebird"]
    write(
        tmp_path / "labels" / "a.json",
        labelme(*(shape(name, [[i * 10, 1], [i * 10 + 5, 5]]) for i, name in enumerate(labels))),
    )
    with pytest.raises(DataError) as caught:
        read(tmp_path, frames, format="labelme")
    (problem,) = caught.value.problems
    assert problem.code == "unknown_class"
    for name in ("'bluebird' (2)", "'Bluebird ' (1)", "'intruso' (1)", "'Bird ' (1)"):
        assert name in problem.found
    assert "rename: {'bluebird': bird, 'Bluebird ': bird, 'intruso': bird}" in problem.remedy
    found = read(tmp_path, frames, format="labelme", rename={"bluebird": "bird"}, ignore=["intruso"])
    assert found.labels["category"].to_list() == ["bird"] * 4 + ["intruso", "bird"]
    assert found.labels["is_ignored"].to_list() == [False] * 4 + [True, False]
    assert sum(n.n for n in found.notices if n.code == "spelling_mapped") == 4
    with pytest.raises(DataError, match="bad_rename|'wren'"):
        read(tmp_path, frames, format="labelme", rename={"bluebird": "wren"}, ignore=["intruso"])


def test_labelme_ignored_outline_is_a_region_with_its_mask_and_leaves_the_frame_empty(tmp_path: Path) -> None:
    write(tmp_path / "labels" / "a.json", labelme(shape("Decoy", SQUARE, "polygon")))
    found = read(tmp_path, frames_of("labels/a.jpg"), format="labelme", ignore=["decoy"])
    assert found.labels.select("category", "is_ignored").rows() == [("decoy", True)]
    assert coco.area(json.loads(found.labels["mask_rle"][0])) == 1600
    assert found.states() == {"labels/a.jpg": "empty"}
    assert codes(found)["regions_ignored"] == 1


def test_labelme_other_shapes_are_counted(tmp_path: Path) -> None:
    stamp = np.zeros((11, 21), np.uint8)
    stamp[2:9, 3:20] = 255
    buffer = io.BytesIO()
    Image.fromarray(stamp).save(buffer, "PNG")
    content = labelme(
        shape("bird", [[50, 50], [53, 54]], "circle"),
        shape("bird", [[5, 5]], "point"),
        shape("bird", [[5, 5], [9, 9]], "line"),
        shape("bird", [[5, 5], [9, 9]], "line"),
        shape("bird", [[100, 20], [120, 30]], "mask", mask=base64.b64encode(buffer.getvalue()).decode()),
        shape("bird", [[10, 80], [20, 80], [20, 90], [10, 90]], "rectangle"),
    )
    write(tmp_path / "labels" / "a.json", content)
    write(tmp_path / "labels" / "other.json", {"images": []})
    found = read(tmp_path, frames_of("labels/a.jpg"), format="labelme")
    assert boxes(found) == [[45, 45, 10, 10], [100, 20, 20, 10], [10, 80, 10, 10]]
    assert found.labels["area_px"].to_list()[1] == 7 * 17
    assert set(codes(found)) == {"circle_as_box", "shape_skipped", "other_json"}
    assert {n.message.split("'")[1]: n.n for n in found.notices if n.code == "shape_skipped"} == {"line": 2, "point": 1}


def test_labelme_every_problem_is_in_one_error(tmp_path: Path) -> None:
    nan = float("nan")
    write(
        tmp_path / "labels" / "a.json",
        labelme(
            shape("bird", [[1, 1]], "polygon"),
            shape("bird", [[1, 1], [nan, 2], [3, 3]], "polygon"),
            shape("", [[1, 1], [2, 2]]),
            shape("bird", [[1, 1], [2, 2]]),
        ),
    )
    write(tmp_path / "labels" / "b.json", labelme(image="b.jpg", size=(100, 200)))
    write(tmp_path / "labels" / "c.json", labelme(image="c.jpg", size=(400, 200)))
    write(tmp_path / "labels" / "d.json", '{"shapes": [')
    write(tmp_path / "labels" / "e.json", labelme(image="a.jpg"))
    with pytest.raises(DataError) as caught:
        read(tmp_path, frames_of(*(f"labels/{x}.jpg" for x in "abc")), format="labelme")
    found = {(Path(p.file or "").name, p.record or p.code): p for p in caught.value.problems}
    assert set(found) == {
        ("a.json", "shapes[0]"),
        ("a.json", "shapes[1]"),
        ("a.json", "shapes[2]"),
        ("b.json", "size_differs"),
        ("c.json", "size_differs"),
        ("d.json", "truncated_json"),
        ("e.json", "labelled_twice"),
    }
    assert found["a.json", "shapes[0]"].found == "a polygon of 1 point"
    assert "orientation" in found["b.json", "size_differs"].remedy


# ---- MegaDetector and SpeciesNet

MEGA = {
    "info": {"format_version": "1.5"},
    "detection_categories": {"1": "animal", "2": "person"},
    "classification_categories": {"0": "western bluebird", "1": "elk"},
    "images": [
        {
            "file": "s1\\a.jpg",
            "detections": [
                {
                    "category": "1",
                    "conf": 0.9,
                    "bbox": [0.1, 0.2, 0.25, 0.5],
                    "classifications": [["0", 0.8], ["1", 0.1]],
                },
                {"category": "1", "conf": 0.1, "bbox": [0, 0, 0.1, 0.1]},
                {"category": "2", "conf": 0.8, "bbox": [0.5, 0.5, 0.1, 0.1]},
            ],
        },
        {"file": "s1/b.jpg", "detections": [], "failure": None},
        {"file": "s1/c.jpg", "detections": None, "failure": "Failure image access"},
    ],
}


def test_megadetector_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "md.json", MEGA)
    frames = frames_of("s1/a.jpg", "s1/b.jpg", "s1/c.jpg")
    with pytest.raises(DataError, match=r"'animal' \(2\).*rename: \{'animal': bird"):
        read(tmp_path, frames, format="megadetector", path=str(path))
    found = read(tmp_path, frames, format="megadetector", path=str(path), rename={"animal": "bird"}, min_score=0.2)
    assert boxes(found) == [pytest.approx([20, 20, 50, 50])]
    # c failed: neither empty nor labelled, so it stays unlabelled.
    assert found.states() == {"s1/a.jpg": "labelled", "s1/b.jpg": "empty"}
    assert codes(found) | {"class_dropped": 1, "detector_failed": 1, "labels_below": 1} == codes(found)
    named = read(tmp_path, frames, ("western bluebird",), format="megadetector", path=str(path))
    assert named.labels["category"].to_list() == ["western bluebird"]


def test_speciesnet_labels(tmp_path: Path) -> None:
    detections = [{"category": "1", "label": "animal", "conf": 0.9, "bbox": [0.1, 0.2, 0.25, 0.5]}]
    name = "55631055;aves;passeriformes;turdidae;sialia;mexicana;western bluebird"
    content = {
        "predictions": [
            {
                "filepath": "a.jpg",
                "detections": detections,
                "prediction": name,
                "prediction_score": 0.9,
                "prediction_source": "classifier",
            },
            {"filepath": "b.jpg", "failures": ["CLASSIFIER", "DETECTOR"]},
            {"filepath": "c.jpg", "failures": ["CLASSIFIER"], "detections": []},
        ]
    }
    path = write(tmp_path / "sn.json", content)
    frames = frames_of("a.jpg", "b.jpg", "c.jpg")
    found = read(tmp_path, frames, ("Western bluebird",), format="megadetector", path=str(path))
    assert found.labels["category"].to_list() == ["Western bluebird"]
    assert found.states() == {"a.jpg": "labelled", "c.jpg": "empty"}


def test_megadetector_video_entries_speak_of_their_frames(tmp_path: Path) -> None:
    entry = {
        "file": "clip.mp4",
        "frame_rate": 20,
        "frames_processed": [0, 20, 40],
        "detections": [{"category": "1", "conf": 0.9, "bbox": [0, 0, 0.5, 0.5], "frame_number": 20}],
    }
    path = write(tmp_path / "md.json", {"detection_categories": {"1": "animal"}, "images": [entry]})
    frames = frames_of("clip.mp4#0", "clip.mp4#20", "clip.mp4#60")
    found = read(tmp_path, frames, format="megadetector", path=str(path), rename={"animal": "bird"})
    assert found.states() == {"clip.mp4#0": "empty", "clip.mp4#20": "labelled"}
    assert codes(found)["labels_outside"] == 1  # frame 40 is not taken into the study
    failed = {"file": "clip.mp4", "failure": "Failure image access", "detections": None}
    path = write(tmp_path / "md.json", {"detection_categories": {"1": "animal"}, "images": [failed]})
    found = read(tmp_path, frames, format="megadetector", path=str(path), rename={"animal": "bird"})
    assert found.states() == {} and codes(found)["detector_failed"] == 3


def test_megadetector_problems_name_the_entry(tmp_path: Path) -> None:
    def one(**changes: Any) -> dict[str, Any]:
        detection = {"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.1, 0.1], **changes}
        return {"file": "a.jpg", "detections": [detection]}

    images = [
        one(bbox=[10, 10, 50, 50]),
        one(conf=float("nan")),
        one(conf=90),
        one(bbox=[0, 0, 1]),
        {"detections": []},
        one(bbox=[0.1, 0.1, -0.1, 0.1]),
        "a.jpg",
    ]
    path = write(tmp_path / "md.json", {"detection_categories": {"1": "animal"}, "images": images})
    with pytest.raises(DataError) as caught:
        read(tmp_path, frames_of("a.jpg"), format="megadetector", path=str(path))
    assert [p.record for p in caught.value.problems] == [f"images[{i}]" for i in range(7)]
    path = write(tmp_path / "other.json", {"annotations": []})
    with pytest.raises(DataError, match="SpeciesNet"):
        read(tmp_path, frames_of("a.jpg"), format="megadetector", path=str(path))
    path = write(
        tmp_path / "md.json",
        {"detection_categories": {"1": "animal"}, "images": [{"file": "nowhere/q.jpg", "detections": []}]},
    )
    with pytest.raises(DataError, match=r"'nowhere/q\.jpg'.*such as a\.jpg"):
        read(tmp_path, frames_of("a.jpg"), format="megadetector", path=str(path))


# ---- names of pictures


def test_a_name_is_never_matched_to_a_picture_that_lies_elsewhere(tmp_path: Path) -> None:
    frames = frames_of("siteA/img_1.jpg")
    (tmp_path / "siteB").mkdir()
    (tmp_path / "siteB" / "img_1.jpg").write_bytes(b"x")
    names = index_names(frames, tmp_path)
    # It exists and is not part of the study: not to be taken for siteA's picture of the same name.
    assert names.resolve("siteB/img_1.jpg", tmp_path).how == "outside"
    assert names.resolve("siteC/img_1.jpg", tmp_path).frame_id == "siteA/img_1.jpg"
    assert names.resolve("./siteA//img_1.jpg", tmp_path).how == "exact"
    assert names.resolve("img_1.jpg", tmp_path / "siteA").how == "relative"
    assert names.resolve(str(tmp_path / "siteA" / "img_1.jpg"), tmp_path).how == "relative"
    assert names.resolve("x" * 400 + ".jpg", tmp_path).how == "unknown"
    assert names.resolve("a\0b.jpg", tmp_path).how == "unknown"


def test_names_written_on_a_mac_are_found(tmp_path: Path) -> None:
    composed, decomposed = "K\u00e4fig.jpg", "Ka\u0308fig.jpg"
    assert index_names(frames_of(decomposed), tmp_path).resolve(composed, tmp_path).frame_id == decomposed


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (None, r"images\[0\]: found None"),
        ({"file": "a.jpg", "detections": {}}, "found detections that are dict"),
        (
            {"file": "a.jpg", "detections": [{"category": "1", "conf": 0.5, "bbox": None}]},
            r"detections\[0\]: bbox None",
        ),
        ({"file": "a.jpg", "detections": [{"category": "1", "conf": 10**400, "bbox": [0, 0, 1, 1]}]}, "too large"),
        (
            {
                "file": "a.jpg",
                "detections": [{"category": "1", "conf": 0.5, "bbox": [0, 0, 1, 1], "classifications": [[]]}],
            },
            "out of range",
        ),
    ],
)
def test_odd_megadetector_entries_are_named(tmp_path: Path, entry: object, found: str) -> None:
    path = tmp_path / "md.json"
    path.write_text(json.dumps({"images": [entry], "detection_categories": {"1": "bird"}}))
    with pytest.raises(DataError, match=found):
        read(tmp_path, frames_of("a.jpg"), format="megadetector", path=str(path))


@pytest.mark.parametrize("key", ["detection_categories", "classification_categories"])
def test_megadetector_class_names_that_are_a_list(tmp_path: Path, key: str) -> None:
    path = tmp_path / "sn.json"
    path.write_text(json.dumps({"predictions": [{"filepath": "a.jpg", "detections": []}], key: ["bird"]}))
    with pytest.raises(DataError, match=f"{key}: found list; expected class numbers and names"):
        read(tmp_path, frames_of("a.jpg"), format="megadetector", path=str(path))
