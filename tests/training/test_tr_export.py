"""Exports give back the labels when they are read again, whatever the names, and writing again changes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco
from videos import number_of, write_video

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.readers.coco_masks import rle_text
from birdlab.readers.images import read_images
from birdlab.readers.labels import read_coco
from birdlab.readers.names import index_names
from birdlab.readers.pixels import read_image
from birdlab.readers.yolo import read_yolo
from birdlab.recipe import Media
from birdlab.recipe.training import Splitting, Training
from birdlab.training.data import training_data
from birdlab.training.export import Exported, export_coco, export_yolo, text_file
from birdlab.training.outlines import filled_iou, joined, outline, rings, signed_area
from birdlab.training.pictures import Pictures, safe_name
from birdlab.training.splits import Splits, make_splits

SIZE = (64, 48)  # width, height
NAMES = [
    "a/IMG_1.png",
    "b/IMG_1.png",
    "b/img_1.PNG",
    "c/ä ö\n:\"'<b>.png",
    "c/classes.png",
    "c/..x#3.png",
    "d/" + 60 * "é" + ".png",
]


def text_of(mask: np.ndarray) -> str:
    rle = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return json.dumps({"size": [int(v) for v in rle["size"]], "counts": rle["counts"].decode()})


def blob(seed: int, size: tuple[int, int] = SIZE, *, holes: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    smooth = cv2.GaussianBlur(rng.random(size[::-1]), (0, 0), 3)
    return smooth > np.quantile(smooth, 0.7 if holes else 0.97)


def row(frame_id: str, k: int, **changes: Any) -> dict[str, Any]:
    mask = blob(k)
    x, y, w, h = coco.toBbox(json.loads(text_of(mask))).tolist()
    about = {"label_id": f"{frame_id}:{k}", "frame_id": frame_id, "category": "bird" if k % 2 else "jay"}
    box = {"x": x, "y": y, "w": w, "h": h, "area_px": float(mask.sum()), "mask_rle": text_of(mask)}
    return about | box | {"is_crowd": False, "is_ignored": False} | changes


Study = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Pictures of hostile names in four sessions, two birds in every other one."""
    frames, labels, media = [], [], []
    for k, name in enumerate(NAMES):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(k).integers(0, 255, (*SIZE[::-1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        frames.append(frame(name, name.split("/")[0], "empty" if k % 3 == 2 else "labelled"))
        media.append({"dataset": "made", "media_id": name, "kind": "image", "path": str(path), "video_id": name[0]})
        labels += [] if k % 3 == 2 else [row(name, 2 * k), row(name, 2 * k + 1)]
    return tables(frames, labels, media)


def frame(name: str, session: str, state: str, **changes: Any) -> dict[str, Any]:
    about = {"frame_id": name, "media_id": name, "video_id": session, "frame_index": 0, "split": "test"}
    return about | {"width_px": SIZE[0], "height_px": SIZE[1], "label_state": state} | changes


def tables(frames: list[dict[str, Any]], labels: list[dict[str, Any]], media: list[dict[str, Any]]) -> Study:
    given = zip(("frames", "labels", "media"), (frames, labels, media), strict=True)
    return tuple(schemas.validate(n, pl.DataFrame(t)) if t else schemas.empty(n) for n, t in given)  # type: ignore[return-value]


def split(study: Study, **spec: Any) -> Splits:
    return make_splits(*study[:2], Splitting(**spec), media=study[2])


def read_back(done: Exported, part: str, form: str = "yolo") -> tuple[pl.DataFrame, set[str]]:
    """Labels and frames looked at, as our own readers find them, under the frames' first names."""
    _, frames, _ = read_images(Media(images=f"images/{part}/*"), done.folder, "made")
    names = index_names(frames, done.folder)
    if form == "yolo":
        found = read_yolo(done.folder / "labels" / part, frames, names, classes=None)
    else:
        found = read_coco(done.listings[part], frames, names)
    first = dict(done.files.select("file", "frame_id").rows())
    labels = found.labels.with_columns(pl.col("frame_id").replace_strict(first, return_dtype=pl.String))
    return labels, {first[f] for f in found.looked_at}


def same_boxes(a: pl.DataFrame, b: pl.DataFrame, tolerance: float) -> None:
    key = ["frame_id", "category", "x", "y"]
    a, b = (t.with_columns(pl.col("x", "y").round(3)).sort(key) for t in (a, b))
    assert a.select("frame_id", "category").equals(b.select("frame_id", "category"))
    boxes = [t.select("x", "y", "w", "h").to_numpy() for t in (a, b)]
    assert np.abs(boxes[0] - boxes[1]).max(initial=0) <= tolerance


# --- outlines


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_outlines_of_any_mask_draw_it_again(height, width, seed, share):
    mask = np.random.default_rng(seed).random((height, width)) < share
    text = text_of(mask)
    corners, parts, holes = outline(text)
    assert parts == cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)[0] - 1
    outside = np.pad(~mask, 1, constant_values=True).astype(np.uint8)
    assert not mask.any() or holes == cv2.connectedComponents(outside, connectivity=8)[0] - 2
    assert sum(signed_area(ring) for ring in rings(mask)) == mask.sum()
    if mask.any():
        back = coco.decode(json.loads(rle_text([corners.ravel().tolist()], (height, width))))
        assert (back == mask).all()


def test_outlines_by_hand():
    ring = np.ones((3, 3), dtype=bool)
    ring[1, 1] = False
    outer, hole = rings(ring)
    assert outer.tolist() == [[0, 0], [3, 0], [3, 3], [0, 3]] and signed_area(outer) == 9
    assert signed_area(hole) == -1 and sorted(hole.tolist()) == [[1, 1], [1, 2], [2, 1], [2, 2]]
    one = joined([outer, hole])
    assert len(one) == 4 + 4 + 2 and signed_area(one) == 8  # the cut encloses nothing
    assert rings(np.zeros((2, 2))) == [] and len(joined([])) == 0
    # Two pixels that touch at a corner are two parts.
    assert [signed_area(r) for r in rings(np.eye(2))] == [1, 1]


def test_filling_with_edges_costs_what_a_hand_count_gives():
    mask = np.zeros((20, 20), dtype=bool)
    mask[5:15, 5:15] = True
    corners, _, _ = outline(text_of(mask))
    assert filled_iou(corners, text_of(mask)) == pytest.approx(100 / 121)  # one row and one column more


# --- names


def test_names_are_safe_and_never_collide():
    ids = [*NAMES, "x", "", "../../etc/passwd", "a/b.c/d", "video.mp4#12", "con.jpg", "-rf.jpg", "a\0b", "😀.jpg"]
    names = [safe_name(i, "k") for i in ids]
    assert len({n.casefold() for n in names}) == len(ids)
    for name in names:
        assert name.isascii() and "/" not in name and not name.startswith((".", "-")) and len(name) < 100
    assert safe_name("a.jpg", "1") != safe_name("a.jpg", "2") and safe_name("v.mp4#3", "").startswith("v.mp4_3-")


# --- YOLO


def test_boxes_come_back_through_yolo(study, tmp_path):
    frames, labels, media = study
    splits = split(study)
    done = export_yolo(tmp_path / "out", frames, labels, media, splits)
    found, looked_at = zip(*(read_back(done, part) for part in splits.parts), strict=True)
    assert set.union(*looked_at) == set(NAMES) and done.left_out.is_empty() and done.counts["written"] == labels.height
    same_boxes(pl.concat(found), labels, 1e-4)
    assert pl.concat(found)["mask_rle"].null_count() == labels.height
    for part, names in zip(splits.parts, looked_at, strict=True):
        assert names == set(splits.table.filter(pl.col("split") == part)["frame_id"])
    listed = yaml.safe_load((tmp_path / "out" / "data.yaml").read_text())
    assert listed == {**{p: f"images/{p}" for p in splits.parts}, "names": {0: "bird", 1: "jay"}}
    assert set(done.files["how"]) == {"linked"} and len(set(done.files["file"])) == len(NAMES)


def test_masks_come_back_through_yolo(study, tmp_path):
    frames, labels, media = study
    done = export_yolo(tmp_path / "out", frames, labels, media, split(study), task="segment")
    found = pl.concat([read_back(done, part)[0] for part in ("train", "val", "test")])
    same_boxes(found, labels, 1e-4)
    key = ["frame_id", "category"]
    pairs = found.select(*key, "mask_rle").sort(key).with_columns(labels.sort(key)["mask_rle"].alias("truth"))
    assert all((coco.decode(json.loads(a)) == coco.decode(json.loads(b))).all() for _, _, a, b in pairs.rows())
    assert done.losses.height == labels.height and done.losses["iou"].min() == 1.0
    assert done.losses["holes"].max() > 0 and done.losses["parts"].max() > 1
    assert 0.5 < done.losses["iou_filled"].min() and done.losses["iou_filled"].max() < 1


def test_what_yolo_cannot_hold_is_counted(study, tmp_path):
    frames, _, media = study
    labels = schemas.validate(
        "labels",
        pl.DataFrame(
            [
                row(NAMES[0], 1, x=-5.0, y=40.0, w=10.0, h=20.0),
                row(NAMES[0], 2, x=70.0),
                row(NAMES[1], 3, is_crowd=True),
                row(NAMES[1], 4, is_ignored=True),
                row(NAMES[3], 5, mask_rle=None),
                row(NAMES[3], 6),
                row(NAMES[4], 7, mask_rle=text_of(np.zeros(SIZE[::-1]))),
                row(NAMES[6], 8),
            ]
        ),
    )
    splits = make_splits(frames, labels, Splitting(), media=media)
    done = export_yolo(tmp_path / "boxes", frames, labels, media, splits)
    want = {"written": 5, "cut": 1, "no_area": 1, "ignored": 1, "crowds": 1, "frame_left_out": 0}
    assert done.counts == want
    found = pl.concat([read_back(done, part)[0] for part in splits.parts]).filter(pl.col("frame_id") == NAMES[0])
    assert found.select("x", "y", "w", "h").row(0) == pytest.approx((0, 40, 5, 8))
    done = export_yolo(tmp_path / "masks", frames, labels, media, splits, task="segment")
    assert done.left_out.select("frame_id", "reason").rows() == [
        (NAMES[4], "1 of its birds without a mask"),
        (NAMES[3], "1 of its birds without a mask"),
    ] or set(done.left_out["frame_id"]) == {NAMES[3], NAMES[4]}
    assert done.counts["frame_left_out"] == 3 and done.counts["written"] == 3
    assert not any(NAMES[3] == f for f in done.files["frame_id"])


def test_unknown_classes_and_nothing_to_export_are_refused(study, tmp_path):
    frames, labels, media = study
    with pytest.raises(ParameterError, match="'jay'"):
        export_yolo(tmp_path / "out", frames, labels, media, split(study), categories=["bird"])
    assert not (tmp_path / "out").exists()
    boxes = labels.with_columns(pl.lit(None, pl.String).alias("mask_rle"))
    busy = (frames.filter(pl.col("label_state") == "labelled"), boxes, media)
    with pytest.raises(DataError, match="birds without a mask.*task detect"):
        export_yolo(tmp_path / "out", *busy, split(busy), task="segment")


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted(p for p in folder.rglob("*") if not p.is_dir())
    return {p.relative_to(folder).as_posix(): (p.lstat().st_mtime_ns, p.read_bytes()) for p in files}


@pytest.mark.parametrize("how", ["link", "copy"])
def test_writing_again_changes_nothing_and_another_split_leaves_nothing_behind(study, tmp_path, how):
    frames, labels, media = study
    out, pictures = tmp_path / "out", Pictures(how)
    export_yolo(out, frames, labels, media, split(study), pictures=pictures)
    before = state(out)
    export_yolo(out, frames[::-1], labels, media, split(study), pictures=pictures)
    assert state(out) == before and not list(out.rglob("*.tmp"))
    (out / "labels" / "train.cache").write_text("of a trainer")
    other = split(study, fixed={"b": "val", "a": "test"})
    done = export_yolo(out, frames, labels, media, other, pictures=pictures)
    pictures_there = {p.relative_to(out).as_posix() for p in (out / "images").rglob("*") if not p.is_dir()}
    assert pictures_there == set(done.files["file"]) and not (out / "labels" / "train.cache").exists()
    texts = {p.relative_to(out).as_posix() for p in (out / "labels").rglob("*.txt")}
    assert texts == set(map(text_file, done.files["file"]))


def test_files_of_others_are_never_touched(study, tmp_path):
    frames, labels, media = study
    out = tmp_path / "out"
    (out / "images" / "train").mkdir(parents=True)
    (out / "images" / "train" / "mine.jpg").write_bytes(b"x")
    with pytest.raises(DataError, match=r"images/train/mine\.jpg"):
        export_yolo(out, frames, labels, media, split(study))
    assert [p.name for p in out.rglob("*") if p.is_file()] == ["mine.jpg"]
    (out / "images" / "train" / "mine.jpg").unlink()
    (out / "export.json").write_text(json.dumps({"files": ["images/../../data/a/IMG_1.png"]}))
    with pytest.raises(DataError, match="a list birdlab wrote"):
        export_yolo(out, frames, labels, media, split(study))


def test_a_killed_export_is_taken_up(study, tmp_path, monkeypatch):
    frames, labels, media = study
    out, splits = tmp_path / "out", split(study)

    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("birdlab.training.export._write_texts", killed)
        with pytest.raises(KeyboardInterrupt):
            export_yolo(out, frames, labels, media, splits)
    done = export_yolo(out, frames, labels, media, splits)
    assert done.counts["written"] == labels.height


# --- pictures


def test_pictures_that_trainers_read_otherwise_are_written_upright(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (*SIZE[::-1], 3), dtype=np.uint8)
    smooth = cv2.GaussianBlur(pixels, (0, 0), 6)
    (tmp_path / "data").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(smooth).save(tmp_path / "data" / "turned.jpg", exif=exif, quality=95)
    Image.fromarray(smooth).save(tmp_path / "data" / "plain.jpg")
    Image.fromarray(smooth).convert("CMYK").save(tmp_path / "data" / "cmyk.jpg")
    cv2.imwrite(str(tmp_path / "data" / "deep.png"), smooth.astype(np.uint16) * 257)
    Image.fromarray(smooth).save(tmp_path / "data" / "liar.png", format="JPEG")
    Image.fromarray(smooth).save(tmp_path / "data" / "t.tif")
    (tmp_path / "data" / "cut.jpg").write_bytes((tmp_path / "data" / "plain.jpg").read_bytes()[:-200])
    media, frames, _ = read_images(Media(images="*", session="(.*)"), tmp_path / "data", "made")
    frames = frames.with_columns(pl.lit("empty").cast(frames.schema["label_state"]).alias("label_state"))
    splits = make_splits(frames, schemas.empty("labels"), Splitting(), media=media)
    done = export_yolo(tmp_path / "out", frames, schemas.empty("labels"), media, splits, categories=["bird"])
    how = dict(done.files.select("frame_id", "how").rows())
    assert how == {"turned.jpg": "written", "plain.jpg": "linked", "cmyk.jpg": "written", "deep.png": "written"} | {
        "liar.png": "linked",
        "t.tif": "written",
    }
    assert done.left_out["frame_id"].to_list() == ["cut.jpg"] and "runcated" in done.left_out["reason"][0]
    assert not (done.folder / text_file(done.files["file"][0])).read_text()
    for frame_id, file in done.files.select("frame_id", "file").rows():
        stored = cv2.imread(str(done.folder / file), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        truth = read_image(tmp_path / "data" / frame_id)
        assert stored.shape == truth.shape and np.abs(stored.astype(int) - truth).mean() < 2
    sharp = export_yolo(
        tmp_path / "png", frames, schemas.empty("labels"), media, splits, pictures=Pictures("copy", ".png")
    )
    turned = sharp.files.filter(pl.col("frame_id") == "turned.jpg")["file"][0]
    assert (read_image(sharp.folder / turned) == read_image(tmp_path / "data" / "turned.jpg")).all()
    assert set(sharp.files["how"]) == {"copied", "written"}


def test_frames_of_a_video_are_written_once(tmp_path):
    frames, media, labels = [], [], []
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        path = write_video(tmp_path / "data" / name, [0, 100, 200, 300], size=SIZE)
        about = {"dataset": "made", "media_id": name, "kind": "video", "path": str(path), "video_id": name}
        media.append(about | {"start_s": 0.0, "recorded_at": datetime(2026, 5, 1 + len(media), tzinfo=UTC)})
        for k in (3, 1, 2):
            frame_id = f"{name}#{k}"
            frames.append(frame(frame_id, name, "labelled", media_id=name, frame_index=k, time_s=k / 10))
            labels.append(row(frame_id, k))
    study = tables(frames, labels, media)
    splits = split(study)
    assert splits.table["sha256"].n_unique() == 3  # the three files have the same bytes
    done = export_yolo(tmp_path / "out", *study, splits)
    for frame_id, file in done.files.select("frame_id", "file").rows():
        assert number_of(read_image(done.folder / file)) == int(frame_id[-1])
    before = state(done.folder)
    export_yolo(tmp_path / "out", *study, splits)
    assert state(done.folder) == before
    assert json.loads((done.folder / "export.json").read_text())["written_as"] == "JPEG, quality 95"


# --- COCO


def test_everything_comes_back_through_coco(study, tmp_path):
    frames, labels, media = study
    labels = labels.with_columns(
        (pl.col("label_id") == f"{NAMES[0]}:0").alias("is_crowd"),
        (pl.col("label_id") == f"{NAMES[0]}:1").alias("is_ignored"),
    )
    splits = make_splits(frames, labels, Splitting(), media=media)
    done = export_coco(tmp_path / "out", frames, labels, media, splits)
    found, looked_at = zip(*(read_back(done, part, "coco") for part in splits.parts), strict=True)
    assert set.union(*looked_at) == set(NAMES) and done.counts == {"written": labels.height, "frame_left_out": 0}
    key = ["frame_id", "category", "x", "y", "w", "h"]
    columns = [*key, "mask_rle", "is_crowd", "is_ignored", "area_px"]
    clean = labels.with_columns(pl.col("mask_rle").str.replace_all(" ", ""))
    assert pl.concat(found).select(columns).sort(key).equals(clean.select(columns).sort(key))
    before = state(done.folder)
    export_coco(tmp_path / "out", frames[::-1], labels, media, splits)
    assert {k: v[1] for k, v in state(done.folder).items()} == {k: v[1] for k, v in before.items()}
    numbers = [json.loads(p.read_text())["categories"] for p in done.listings.values()]
    assert all(n == numbers[0] for n in numbers)


def test_coco_without_pictures_names_the_frames(study, tmp_path):
    frames, labels, media = study
    elsewhere = media.with_columns(pl.lit("nowhere").alias("path"))
    done = export_coco(tmp_path / "out", frames, labels, elsewhere, split(study), pictures=None)
    assert done.left_out.is_empty() and done.counts["written"] == labels.height
    names = [i["file_name"] for p in done.listings.values() for i in json.loads(p.read_text())["images"]]
    assert sorted(names) == sorted(NAMES) and not (tmp_path / "out" / "images").exists()


# --- trainers, and real data


def trainers_labels(yaml_path: Path, task: str) -> dict[str, tuple[int, int]]:
    """Frames, boxes and outlines of every part as ultralytics reads them."""
    from birdlab.inference.ultralytics_adapter import import_ultralytics

    import_ultralytics()
    from ultralytics.cfg import get_cfg
    from ultralytics.data import build_yolo_dataset
    from ultralytics.data.utils import check_det_dataset

    data = check_det_dataset(str(yaml_path), autodownload=False)
    settings = get_cfg(overrides={"task": task, "imgsz": 64, "cache": False})
    out = {}
    for part in ("train", "val", "test"):
        read = build_yolo_dataset(settings, data[part], 2, data, mode="val", stride=32).labels
        out[part] = (len(read), sum(len(r["bboxes"]) for r in read), sum(len(r["segments"]) for r in read))
    return out


@pytest.mark.slow
def test_ultralytics_reads_every_label(study, tmp_path):
    pytest.importorskip("ultralytics")
    frames, labels, media = study
    splits = split(study)
    part = labels.join(splits.table, on="frame_id").group_by(pl.col("split").cast(pl.String)).len()
    n = dict(part.rows())
    frames_in = dict(splits.table.group_by(pl.col("split").cast(pl.String)).len().rows())
    boxes = export_yolo(tmp_path / "boxes", frames, labels, media, splits)
    assert trainers_labels(boxes.listings["yolo"], "detect") == {
        p: (frames_in[p], n.get(p, 0), 0) for p in splits.parts
    }
    masks = export_yolo(tmp_path / "masks", frames, labels, media, splits, task="segment")
    read = trainers_labels(masks.listings["yolo"], "segment")
    assert read == {p: (frames_in[p], n.get(p, 0), n.get(p, 0)) for p in splits.parts}


@pytest.mark.real
def test_real_crops_are_split_by_site_and_come_back(real_data, tmp_path):
    from birdlab.readers.pixels import iter_frames
    from birdlab.readers.study import read_study
    from birdlab.recipe import Recipe
    from birdlab.training.leaks import find_leaks, levels_of, refuse_leaks

    root = real_data / "flying_birds" / "crops"
    labelled = {"path": str(root / "coco.json"), "format": "coco"}
    pictures = {"images": "images/*.jpg", "session": r"(V_BIRD_\d+)"}
    recipe = Recipe.model_validate(
        {
            "name": "crops",
            "data": {"root": str(root), "media": [pictures], "labels": [labelled], "categories": ["bird"]},
        }
    )
    study = read_study(recipe, root, root)
    splits = make_splits(study.frames, study.labels, Splitting(), media=study.media)
    assert splits.level == "site" and splits.groups.height == 6 and splits.table.height == 158
    leaks = find_leaks(study.frames, study.media, splits.table, reader=iter_frames)
    refuse_leaks(leaks, levels_of(splits.level))  # frames of clear sky hash alike and are no leak
    done = export_yolo(tmp_path / "out", study.frames, study.labels, study.media, splits, task="segment")
    assert done.counts["written"] == 165 and done.losses["iou"].min() == 1.0
    masks = [coco.decode(json.loads(text)) for text in study.labels.sort("label_id")["mask_rle"]]
    parts = [cv2.connectedComponents(m, connectivity=4)[0] - 1 for m in masks]
    assert done.losses.sort("label_id")["parts"].to_list() == parts and max(parts) == 4
    found = pl.concat([read_back(done, part)[0] for part in splits.parts]).sort("frame_id", "x", "y")
    truth = study.labels.join(found.select("frame_id").unique(), on="frame_id", how="semi").sort("frame_id", "x", "y")
    for a, b in zip(found["mask_rle"], truth["mask_rle"], strict=True):
        assert (coco.decode(json.loads(a)) == coco.decode(json.loads(b))).all()


def test_a_recipe_exports_for_other_tools(study, tmp_path):
    frames, labels, media = study
    models = [{"name": "t", "library": "torchvision", "architecture": "fasterrcnn_mobilenet_v3_large_320_fpn"}]
    section = Training.model_validate({"models": models, "export": ["coco", "yolo-detect"]})
    splits = split(study)
    training_data((frames, labels, media), splits, section, tmp_path / "out", categories=["bird", "jay"])
    written = [json.loads(f.read_text()) for f in sorted((tmp_path / "out" / "coco" / "annotations").glob("*.json"))]
    assert sum(len(w["images"]) for w in written) == splits.table.height
    assert (tmp_path / "out" / "yolo-detect" / "data.yaml").is_file()
    plain = Training.model_validate({"models": models})
    training_data((frames, labels, media), splits, plain, tmp_path / "none", categories=["bird", "jay"])
    assert not (tmp_path / "none").exists()
