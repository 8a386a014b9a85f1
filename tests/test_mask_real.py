"""Real masks: read, drawn and scored, each against itself, against itself grown by a pixel, and moved by one."""

from __future__ import annotations

import json

import cv2
import numpy as np
import polars as pl
import pytest
from pycocotools import mask as coco_mask

from birdlab import schemas
from birdlab.detection.command import frames_of
from birdlab.detection.mask_checks import check_pair
from birdlab.detection.mask_forms import to_bitmap, to_rle
from birdlab.detection.mask_overlap import DEFINITIONS
from birdlab.detection.masks import evaluate_masks
from birdlab.detection.matching import match
from birdlab.panels.masks import mask_outcomes
from birdlab.readers.coco import read_ground_truth

pytestmark = pytest.mark.real
EXACT = {"abs": 1e-12, "rel": 0}
#: 165 birds of a median of 31 px²: a rim of one pixel more than halves their IoU. Which mean is meant matters.
_PAIRS = ("matched_instances", "all_truth", "all_truth_and_false")  # equal, where every bird is a hit
MIOU = dict.fromkeys(_PAIRS, 0.4420) | {"per_frame": 0.4446, "pooled_pixels": 0.4968}
DICE = dict.fromkeys(_PAIRS, 0.6071) | {"per_frame": 0.6095, "pooled_pixels": 0.6638}
#: At an overlap of 0.5 only these are hits, and the means part.
HITS = 49
MIOU_AT_HALF = {"matched_instances": 0.5641, "all_truth": 0.1675, "all_truth_and_false": 0.0984}


@pytest.fixture(scope="module")
def crops(real_data):
    file = real_data / "flying_birds" / "crops" / "coco.json"
    truth = read_ground_truth(file)
    assert truth.labels["mask_rle"].null_count() == 0 and truth.labels.height == 165
    return file, truth.labels, frames_of(truth)


def found_from(labels: pl.DataFrame, change) -> pl.DataFrame:
    """Detections of score 1 whose masks are those of the labels, changed."""
    bitmaps = [change(to_bitmap(text)) for text in labels["mask_rle"]]
    texts = [to_rle(bitmap) for bitmap in bitmaps]
    boxes = np.array([coco_mask.toBbox(json.loads(text)) for text in texts])
    found = labels.with_columns(
        *(pl.Series(c, boxes[:, k]) for k, c in enumerate("xywh")),
        mask_rle=pl.Series(texts),
        model=pl.lit("m"),
        prediction_id="label_id",
        score=pl.lit(1.0),
    )
    return schemas.TABLES["predictions"].conform(found).select(list(schemas.TABLES["predictions"].dtypes))


def grown(bitmap: np.ndarray) -> np.ndarray:
    return cv2.dilate(bitmap.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0


def pycocotools_iou(labels: pl.DataFrame, found: pl.DataFrame) -> np.ndarray:
    return np.array(
        [
            coco_mask.iou([json.loads(f)], [json.loads(t)], [0])[0, 0]
            for f, t in zip(found["mask_rle"], labels["mask_rle"], strict=True)
        ]
    )


def test_run_lengths_of_the_file_are_the_masks_that_pycocotools_reads(crops):
    file, labels, _ = crops
    raw = json.loads(file.read_text())["annotations"]
    for record, text in zip(raw, labels["mask_rle"], strict=True):
        h, w = record["segmentation"]["size"]
        theirs = coco_mask.decode(coco_mask.frPyObjects(record["segmentation"], h, w))
        assert (theirs > 0).tolist() == to_bitmap(text).tolist()


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
def test_each_mask_against_itself_is_1_in_every_definition(crops, engine):
    _, labels, frames = crops
    result = evaluate_masks(labels, found_from(labels, lambda bitmap: bitmap), frames, engine=engine)
    assert result.miou == result.dice == dict.fromkeys(DEFINITIONS, 1.0)
    assert (result.boundary_iou, result.fixed.f1, result.ap50) == (1.0, 1.0, pytest.approx(1.0))
    assert result.ap == pytest.approx(1.0)


def test_each_mask_grown_by_a_pixel_has_lower_values_those_of_pycocotools(crops):
    _, labels, frames = crops
    found = found_from(labels, grown)
    iou = pycocotools_iou(labels, found)
    result = evaluate_masks(labels, found, frames, iou=0.05)
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (165, 0, 0)
    for kind in ("matched_instances", "all_truth", "all_truth_and_false"):
        assert result.miou[kind] == pytest.approx(iou.mean(), **EXACT)
        assert result.dice[kind] == pytest.approx((2 * iou / (1 + iou)).mean(), **EXACT)
    assert {k: round(v, 4) for k, v in result.miou.items()} == MIOU
    assert {k: round(v, 4) for k, v in result.dice.items()} == DICE
    for kind in DEFINITIONS:
        assert check_pair(result.miou[kind], result.dice[kind]) is None


def test_where_a_hit_takes_half_the_overlap_the_small_birds_are_missed(crops):
    _, labels, frames = crops
    found = found_from(labels, grown)
    iou = pycocotools_iou(labels, found)
    hits = iou[iou >= 0.5]
    result = evaluate_masks(labels, found, frames)
    n = len(iou)
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (len(hits), n - len(hits), n - len(hits))
    assert len(hits) == HITS
    expected = {"matched_instances": len(hits), "all_truth": n, "all_truth_and_false": 2 * n - len(hits)}
    assert {k: result.miou[k] for k in expected} == pytest.approx(
        {k: hits.sum() / m for k, m in expected.items()}, **EXACT
    )
    assert {k: round(result.miou[k], 4) for k in expected} == MIOU_AT_HALF
    assert result.miou["per_frame"] == pytest.approx(MIOU["per_frame"], abs=5e-5)  # pixels do not ask for hits


def test_boundaries_are_those_of_faster_coco_eval(crops):
    peer = pytest.importorskip("faster_coco_eval.core.mask")
    _, labels, frames = crops
    found = found_from(labels, grown)
    result = evaluate_masks(labels, found, frames, iou=0.05)
    bands = [[peer.rleToBoundary(json.loads(t)) for t in side["mask_rle"]] for side in (labels, found)]
    theirs = [coco_mask.iou([f], [t], [0])[0, 0] for t, f in zip(*bands, strict=True)]
    assert result.boundary_iou == pytest.approx(np.mean(theirs), **EXACT)


def test_outlines_of_real_birds(crops):
    file, labels, frames = crops
    found = found_from(labels, grown)
    matches = match(labels, found, frames, iou=0.05, iou_type="segm")
    paths = [str(file.parent / name) for name in frames["frame_id"]]
    media = pl.DataFrame({"media_id": frames["media_id"], "path": paths, "kind": "image"})
    media = schemas.TABLES["media"].conform(media)
    panels = mask_outcomes(frames, media, labels, found, matches, model="m", each=6)
    assert len(panels) == 6
    shown = [float(p.caption.split()[1].rstrip(",")) for p in panels]
    assert shown == sorted(shown) and shown[0] == round(pycocotools_iou(labels, found).min(), 2)
    assert all({kind for kind, _ in p.polygons} == {"truth", "detection"} for p in panels)
