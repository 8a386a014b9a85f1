"""Masks: every definition by hand on 4 x 4 pixels, AP against pycocotools, boundaries, what printed numbers can be."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import math

import cv2
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from birdlab import schemas
from birdlab.detection.boundary import band_width, boundary, boundary_iou
from birdlab.detection.mask_checks import check_pair, common_definitions, dice_of, possible_definitions
from birdlab.detection.mask_forms import rle_of_bitmap, to_bitmap, to_rle
from birdlab.detection.mask_overlap import DEFINITIONS, TITLES, UNDEFINED
from birdlab.detection.mask_rows import mean_rows
from birdlab.detection.masks import evaluate_masks
from birdlab.detection.matching import match
from birdlab.detection.published import published
from birdlab.panels.masks import mask_outcomes
from birdlab.report.show import m
from birdlab.style import MARKS, model_colour

EXACT = {"abs": 1e-12, "rel": 0}


def frames_of(n: int, *, height: int = 4, width: int = 4, sessions: int = 2) -> pl.DataFrame:
    names = [f"f{k:03d}.jpg" for k in range(n)]
    data = {
        **{"frame_id": names, "media_id": names, "video_id": [f"s{k % sessions}" for k in range(n)]},
        **{"frame_index": [0] * n, "width_px": [width] * n, "height_px": [height] * n},
        **{"split": ["test"] * n, "label_state": ["labelled"] * n},
    }
    return schemas.TABLES["frames"].conform(pl.DataFrame(data))


def row_of(k: int, frame: int, text: str | None, **more) -> dict:
    x, y, w, h = (0.0, 0.0, 1.0, 1.0) if text is None else coco_mask.toBbox(json.loads(text)).tolist()
    base = {"frame_id": f"f{frame:03d}.jpg", "category": "bird", "mask_rle": text, "x": x, "y": y, "w": w, "h": h}
    return {"label_id": f"l{k}", "prediction_id": f"p{k}", "model": "m", "is_crowd": False, "is_ignored": False} | (
        base | more
    )


def tables(truth: list[dict], found: list[dict]) -> tuple[pl.DataFrame, pl.DataFrame]:
    out = []
    for name, rows in (("labels", truth), ("predictions", found)):
        table = schemas.TABLES[name]
        empty = schemas.empty(name)
        out.append(table.conform(pl.DataFrame(rows, infer_schema_length=None)) if rows else empty)
    return tuple(
        t.select([c for c in schemas.TABLES[n].dtypes if c in t.columns])
        for t, n in zip(out, ("labels", "predictions"), strict=True)
    )


def drawn(*rows: str, size: int = 4) -> str:
    """A 4 x 4 mask from its rows, # for a pixel of it; rows that are not given are empty."""
    full = [*rows, *["." * size] * (size - len(rows))]
    return to_rle(np.array([[c == "#" for c in row] for row in full]))


#: The two frames drawn in mask_overlap: (frame, truth), (frame, detection, score).
TRUTH = [(0, ("##..", "##..")), (0, ("....", "....", "....", "##..")), (1, ("....", ".##.", ".##."))]
FOUND = [(0, ("###.", "###."), 0.9), (0, ("....", "....", "....", "...#"), 0.8), (1, ("....", ".##.", ".##."), 0.7)]


def by_hand():
    truth = [row_of(k, frame, drawn(*rows)) for k, (frame, rows) in enumerate(TRUTH)]
    found = [row_of(k, frame, drawn(*rows), score=score) for k, (frame, rows, score) in enumerate(FOUND)]
    return *tables(truth, found), frames_of(3)


# ------------------------------------------------------------------ definitions


@pytest.mark.parametrize("module", ["boundary", "mask_checks", "mask_forms", "mask_overlap"])
def test_examples_in_the_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"birdlab.detection.{module}"))
    assert found.attempted > 0 and found.failed == 0


def test_every_definition_by_hand_on_four_by_four_pixels():
    result = evaluate_masks(*by_hand())
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (2, 1, 1)
    assert result.miou == pytest.approx(
        {
            "matched_instances": (4 / 6 + 1) / 2,
            "all_truth": (4 / 6 + 1) / 3,
            "all_truth_and_false": (4 / 6 + 1) / 4,
            "per_frame": (4 / 9 + 1) / 2,
            "pooled_pixels": 8 / 13,
        },
        **EXACT,
    )
    assert result.dice == pytest.approx(
        {
            "matched_instances": (0.8 + 1) / 2,
            "all_truth": (0.8 + 1) / 3,
            "all_truth_and_false": (0.8 + 1) / 4,
            "per_frame": (8 / 13 + 1) / 2,
            "pooled_pixels": 16 / 21,
        },
        **EXACT,
    )
    # Bands of 1 px: the masks are all band (2 px high), so boundary IoU is IoU.
    assert result.boundary_iou == pytest.approx((4 / 6 + 1) / 2, **EXACT)
    assert list(result.as_dict()["miou"]) == list(DEFINITIONS) == list(TITLES) == list(UNDEFINED)


def test_a_low_confidence_turns_a_detection_into_nothing():
    labels, found, frames = by_hand()
    result = evaluate_masks(labels, found, frames, conf=0.85)
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (1, 0, 2)
    assert result.miou["all_truth_and_false"] == result.miou["all_truth"] == pytest.approx(4 / 6 / 3, **EXACT)
    assert result.miou["per_frame"] == pytest.approx((4 / 8 + 0) / 2, **EXACT)


def test_crowds_and_ignored_regions_are_in_no_definition():
    labels, found, frames = by_hand()
    crowd = labels.with_columns(is_crowd=pl.col("label_id") == "l1")
    extra, _ = tables([row_of(7, 0, drawn("...#", "...#", "...#", "...#"), is_ignored=True)], [])
    result = evaluate_masks(pl.concat([crowd, extra], how="diagonal"), found, frames)
    assert (result.fixed.tp, result.fixed.fp, result.fixed.fn) == (2, 0, 0)
    assert result.miou["all_truth_and_false"] == result.miou["matched_instances"] == pytest.approx(5 / 6, **EXACT)
    assert result.miou["per_frame"] == pytest.approx((4 / 6 + 1) / 2, **EXACT)


def test_a_frame_without_bird_and_detection_is_left_out_and_nothing_at_all_is_null():
    labels, found, frames = by_hand()
    nothing = evaluate_masks(labels, found.with_columns(score=pl.lit(0.1)), frames, conf=0.25)
    assert nothing.miou["matched_instances"] is None and nothing.boundary_iou is None
    assert nothing.reasons["boundary_iou"] == nothing.reasons["miou.matched_instances"] == "no hit"
    assert nothing.miou["per_frame"] == 0.0 and nothing.overlaps.frames.height == 2  # of three
    empty = evaluate_masks(labels.clear(), found, frames)
    assert set(empty.miou.values()) == {None} and empty.reasons["boundary_iou"] == "no masks on both sides"


def random_masks(seed: int, *, size: int = 24, n_frames: int = 5) -> tuple[list[dict], list[dict]]:
    """Birds and detections as polygons, run lengths and bitmaps in turn; detections near birds and elsewhere."""
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for frame in range(n_frames):
        for _ in range(int(rng.integers(1, 4))):
            x, y, r = rng.uniform(3, size - 3, 2).tolist() + [float(rng.uniform(2, 6))]
            truth.append(row_of(len(truth), frame, form(len(truth), x, y, r, size, rng)))
            for _ in range(int(rng.integers(0, 4))):
                dx, dy = rng.normal(0, 0.3, 2)
                near = form(len(found), x + dx, y + dy, r * rng.uniform(0.9, 1.3), size, rng)
                found.append(row_of(len(found), frame, near, score=float(np.round(rng.uniform(), 2))))
        if rng.uniform() < 0.5:
            x, y = rng.uniform(2, size - 2, 2)
            found.append(row_of(len(found), frame, form(len(found), x, y, 3.0, size, rng), score=float(rng.uniform())))
    return truth, found


def form(k: int, x: float, y: float, r: float, size: int, rng: np.random.Generator) -> str:
    angle = np.arange(9) * 2 * math.pi / 9 + rng.uniform(0, 0.5, 9)
    corners = np.stack([x + r * np.cos(angle), y + r * np.sin(angle)], axis=1)
    polygon = [[float(v) for v in corners.reshape(-1)]]
    if k % 4 == 0:
        return to_rle(polygon, (size, size))
    bitmap = to_bitmap(to_rle(polygon, (size, size))) ^ (rng.uniform(size=(size, size)) < 0.01)
    bitmap[int(np.clip(y, 0, size - 1)), int(np.clip(x, 0, size - 1))] = True
    if k % 4 == 1:
        return to_rle(bitmap)
    if k % 4 == 2:
        return to_rle(cv2.imencode(".png", bitmap.astype(np.uint8) * 255)[1].tobytes(), (size, size))
    flat = bitmap.reshape(-1, order="F")
    change = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], change, [flat.size]])).tolist()
    return to_rle({"size": [size, size], "counts": ([0] if flat[0] else []) + runs}, (size, size))


def pycocotools_ap(truth: list[dict], found: list[dict], n_frames: int, size: int) -> tuple[float, float]:
    images = [{"id": k + 1, "height": size, "width": size} for k in range(n_frames)]
    number = {f"f{k:03d}.jpg": k + 1 for k in range(n_frames)}
    rows = []
    for k, r in enumerate(truth):
        rle = json.loads(r["mask_rle"])
        rows.append(
            {"id": k + 1, "image_id": number[r["frame_id"]], "category_id": 1, "iscrowd": 0}
            | {
                "segmentation": rle,
                "area": float(coco_mask.area(rle)),
                "bbox": coco_mask.toBbox(rle).tolist(),
            }
        )
    coco = COCO()
    coco.dataset = {"images": images, "annotations": rows, "categories": [{"id": 1}]}
    results = [
        {
            "image_id": number[r["frame_id"]],
            "category_id": 1,
            "score": r["score"],
            "segmentation": json.loads(r["mask_rle"]),
        }
        for r in found
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        engine = COCOeval(coco, coco.loadRes(results), "segm")
        engine.evaluate()
        engine.accumulate()
        engine.summarize()
    return float(engine.stats[0]), float(engine.stats[1])


@pytest.mark.parametrize("engine", ["hotcoco", "pycocotools"])
@pytest.mark.parametrize("seed", range(8))
def test_mask_ap_is_that_of_pycocotools_on_polygons_run_lengths_and_bitmaps(seed, engine):
    truth, found = random_masks(seed)
    assert truth and found
    result = evaluate_masks(*tables(truth, found), frames_of(5, height=24, width=24), engine=engine)
    ap, ap50 = pycocotools_ap(truth, found, 5, 24)
    assert (result.ap, result.ap50) == (pytest.approx(ap, **EXACT), pytest.approx(ap50, **EXACT))
    assert 0 < ap <= ap50


@pytest.mark.parametrize("seed", range(8))
def test_definitions_against_plain_arithmetic_on_pixels(seed):
    truth, found = random_masks(seed)
    labels, predictions = tables(truth, found)
    frames = frames_of(5, height=24, width=24)
    result = evaluate_masks(labels, predictions, frames, conf=0.2)
    matches = match(labels, predictions, frames, iou=0.5, conf=0.2, iou_type="segm")
    mask_of = {r["label_id"]: to_bitmap(r["mask_rle"]) for r in truth}
    seen_of = {r["prediction_id"]: to_bitmap(r["mask_rle"]) for r in found}
    iou, dice = [], []
    for r in matches.filter(outcome="tp").to_dicts():
        t, p = mask_of[r["label_id"]], seen_of[r["prediction_id"]]
        iou.append((t & p).sum() / (t | p).sum())
        dice.append(2 * (t & p).sum() / (t.sum() + p.sum()))
    n = dict(matches["outcome"].value_counts().iter_rows())
    tp, fp, fn = (n.get(k, 0) for k in ("tp", "fp", "fn"))
    frame_iou, frame_dice, pixels = [], [], np.zeros(3)
    for name in frames["frame_id"]:
        blank = [np.zeros((24, 24), bool)]
        t = np.any([m for r, m in zip(truth, mask_of.values(), strict=True) if r["frame_id"] == name] or blank, axis=0)
        kept = [to_bitmap(r["mask_rle"]) for r in found if r["frame_id"] == name and r["score"] >= 0.2]
        p = np.any(kept or blank, axis=0)
        pixels += [(t & p).sum(), p.sum(), t.sum()]
        if (t | p).any():
            frame_iou.append((t & p).sum() / (t | p).sum())
            frame_dice.append(2 * (t & p).sum() / (t.sum() + p.sum()))
    for got, each, whole, pooled in (
        (result.miou, iou, frame_iou, pixels[0] / (pixels[1] + pixels[2] - pixels[0])),
        (result.dice, dice, frame_dice, 2 * pixels[0] / (pixels[1] + pixels[2])),
    ):
        assert got == pytest.approx(
            {
                "matched_instances": np.mean(each),
                "all_truth": np.sum(each) / (tp + fn),
                "all_truth_and_false": np.sum(each) / (tp + fn + fp),
                "per_frame": np.mean(whole),
                "pooled_pixels": pooled,
            },
            **EXACT,
        )
    for kind in DEFINITIONS:
        assert check_pair(result.miou[kind], result.dice[kind]) is None
    for kind in DEFINITIONS:
        row = {**result.fixed.as_dict(), "miou": result.miou[kind], "dice": result.dice[kind]}
        assert possible_definitions(row, digits=None)[kind] is None
        assert possible_definitions({k: round(v, 4) for k, v in row.items()})[kind] is None


# ------------------------------------------------------------------ forms


def test_one_mask_in_every_form_is_one_text(tmp_path):
    bitmap = np.zeros((6, 9), bool)
    bitmap[1:4, 2:7] = True
    text = to_rle(bitmap)
    compressed = json.loads(text)
    png = cv2.imencode(".png", bitmap.astype(np.uint8) * 255)[1].tobytes()
    deep = cv2.imencode(".png", bitmap.astype(np.uint16) * 3000)[1].tobytes()
    (tmp_path / "m.png").write_bytes(png)
    forms = [
        compressed,
        compressed | {"counts": compressed["counts"].encode()},
        {"size": [6, 9], "counts": [13, 3, 3, 3, 3, 3, 3, 3, 3, 3, 14]},
        [[2, 1, 7, 1, 7, 4, 2, 4]],
        bitmap.astype(np.int64) * 4,
        png,
        deep,
        tmp_path / "m.png",
    ]
    assert [to_rle(form, (6, 9)) for form in forms] == [text] * len(forms)
    assert to_bitmap(text).tolist() == bitmap.tolist()
    assert to_rle(None) is None and to_rle([]) is None
    assert coco_mask.area(json.loads(to_rle(np.zeros((2, 2), bool)))) == 0


def test_a_picture_of_several_birds_gives_each_by_its_number():
    from PIL import Image

    numbers = np.array([[0, 1, 1], [2, 2, 0]], np.uint8)
    picture = Image.fromarray(numbers, "P")
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    out = io.BytesIO()
    picture.save(out, "PNG")
    assert to_bitmap(to_rle(out.getvalue(), value=2)).tolist() == (numbers == 2).tolist()
    assert to_bitmap(to_rle(out.getvalue())).tolist() == (numbers > 0).tolist()


@pytest.mark.parametrize(
    ("mask", "size", "said"),
    [
        (np.zeros((2, 3), bool), (3, 2), "size [2, 3]"),
        (np.zeros((2, 3, 3), np.uint8), None, "(2, 3, 3)"),
        (np.zeros((2, 3)), None, "float64"),
        (np.zeros((0, 3), bool), None, "without a pixel"),
        (b"no picture", None, "cannot be read"),
        (cv2.imencode(".png", np.zeros((2, 2, 3), np.uint8))[1].tobytes(), None, "one channel"),
        ("text", None, "str"),
        ([[0, 0, 1, 0, 1, 1]], None, "width and height are not known"),
        ({"size": [2, 2], "counts": [1, 1]}, (2, 2), "add up to 2"),
    ],
)
def test_a_mask_that_is_none_says_what_is_wrong(mask, size, said):
    with pytest.raises(ValueError) as error:
        to_rle(mask, size)
    assert said in str(error.value)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**31))
def test_bitmaps_come_back_as_they_were(height, width, seed):
    bitmap = np.random.default_rng(seed).uniform(size=(height, width)) < 0.5
    assert to_bitmap(to_rle(bitmap)).tolist() == bitmap.tolist()


# ------------------------------------------------------------------ boundary


@pytest.mark.parametrize("seed", range(6))
def test_boundaries_are_those_of_faster_coco_eval(seed):
    peer = pytest.importorskip("faster_coco_eval.core.mask")
    rng = np.random.default_rng(seed)
    height, width = int(rng.integers(20, 160)), int(rng.integers(20, 160))
    masks = []
    for _ in range(2):
        bitmap = np.zeros((height, width), np.uint8)
        centre = (width // 2 + int(rng.integers(-9, 9)), height // 2 + int(rng.integers(-9, 9)))
        cv2.ellipse(bitmap, centre, (width // 2, height // 3), float(rng.uniform(0, 90)), 0, 360, 1, -1)
        bitmap &= rng.uniform(size=bitmap.shape) < 0.999
        masks.append(rle_of_bitmap(bitmap.astype(bool)))
    bands = []
    for rle in masks:
        ours = boundary(coco_mask.decode(rle) > 0, band_width(height, width))
        for backend in ("mask_api", "opencv"):
            assert (coco_mask.decode(peer.rleToBoundary(rle, 0.02, backend)) > 0).tolist() == ours.tolist()
        bands.append(peer.rleToBoundary(rle, 0.02))
    expected = float(coco_mask.iou([bands[0]], [bands[1]], [0])[0, 0])
    assert boundary_iou(masks[0], masks[1]) == pytest.approx(expected, **EXACT)
    assert boundary_iou(masks[1], masks[0]) == pytest.approx(expected, **EXACT)
    assert expected < float(coco_mask.iou([masks[0]], [masks[1]], [0])[0, 0])


def test_boundary_of_nothing_of_itself_and_of_something_apart():
    blank, bird = np.zeros((50, 50), bool), np.zeros((50, 50), bool)
    bird[5:30, 5:30] = True
    none, one, far = rle_of_bitmap(blank), rle_of_bitmap(bird), rle_of_bitmap(np.roll(bird, 20, axis=1) & ~bird)
    assert boundary_iou(none, none) is None
    assert boundary_iou(one, none) == 0.0 and boundary_iou(one, one) == 1.0
    assert 0 <= boundary_iou(one, far) < 0.1
    assert boundary(bird, 1).sum() == 4 * 24 and boundary(bird, 13).sum() == 25 * 25


# ------------------------------------------------------------------ what printed numbers can be

TABLE_2 = {
    "YOLOv8-Seg": (740, 186, 297),
    "Mask R-CNN": (979, 482, 58),
    "SAM 3": (752, 2543, 285),
}
CAN_BE = {
    "YOLOv8-Seg": ["matched_instances", "per_frame"],
    "Mask R-CNN": ["matched_instances", "per_frame"],
    "Grounded-SAM": ["all_truth", "all_truth_and_false", "per_frame", "pooled_pixels"],
    "SAM 3": ["all_truth_and_false", "per_frame"],
}


def printed_row(model: str) -> dict[str, float]:
    rows = published(["western_bluebird"]).filter(model=model, source="Western Bluebird, Table 2")
    rows = rows.filter(pl.col("published").is_not_null())
    return {m.removeprefix("mask_"): p for m, p in rows.select("metric", "published").iter_rows()}


def test_what_the_rows_of_table_2_can_be():
    rows = {model: printed_row(model) for model in CAN_BE}
    got = {m: [k for k, why in possible_definitions(row).items() if why is None] for m, row in rows.items()}
    assert got == CAN_BE
    assert common_definitions(rows.values()) == ["per_frame"]
    loose = possible_definitions(rows["SAM 3"], hit_iou=0)
    assert loose["matched_instances"] is None and loose["all_truth"] is None
    remarks = published(["western_bluebird"]).filter(model="SAM 3", metric="mask_dice")["reason"][0]
    assert "can be misses and false positives as 0 or per image, not matched pairs" in remarks


@pytest.mark.parametrize("model", list(TABLE_2))
@pytest.mark.parametrize("kind", ["matched_instances", "all_truth", "all_truth_and_false", "per_frame"])
def test_searching_for_masks_finds_some_exactly_where_they_are_said_to_be_possible(model, kind):
    """All means of two values (a for k of the hits, b for the others): by Carathéodory they reach every possible pair."""
    tp, fp, fn = TABLE_2[model]
    row = printed_row(model)
    n = {"matched_instances": tp, "all_truth": tp + fn, "all_truth_and_false": tp + fn + fp, "per_frame": 1006}[kind]
    hits, lowest = (1006, 0.0) if kind == "per_frame" else (tp, 0.5)
    target = np.linspace(row["miou"] - 5e-5, row["miou"] + 5e-5, 9) * n  # sums of IoU that print as this
    k, a = np.meshgrid(np.arange(0, hits), np.linspace(lowest, 1, 401), indexing="ij")
    found = False
    for total in target:
        b = (total - k * a) / (hits - k)
        fits = (b >= lowest) & (b <= 1)
        dice = (k * dice_of(a) + (hits - k) * dice_of(np.clip(b, 0, 1))) / n
        found |= bool((fits & (np.abs(dice - row["dice"]) <= 5e-5)).any())
    assert found == (kind in CAN_BE[model])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 30), st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**31), st.sampled_from([0.0, 0.5]))
def test_the_definition_that_was_used_is_never_ruled_out(tp, fp, fn, seed, lowest):
    rng = np.random.default_rng(seed)
    iou = rng.uniform(lowest, 1, tp) if seed % 3 else rng.choice([lowest, 1.0], tp)
    dice = 2 * iou / (1 + iou)
    sizes = {"matched_instances": tp, "all_truth": tp + fn, "all_truth_and_false": tp + fn + fp}
    row = {"precision": tp / (tp + fp), "recall": tp / (tp + fn), "f1": 2 * tp / (2 * tp + fp + fn)}
    for kind, n in sizes.items():
        full = row | {"miou": iou.sum() / n, "dice": dice.sum() / n}
        for digits in (2, 4):
            rounded = {key: round(value, digits) for key, value in full.items()}
            for keys in (list(rounded), ["recall", "miou", "dice"], ["f1", "miou", "dice"], ["miou", "dice"]):
                got = possible_definitions({k: rounded[k] for k in keys}, hit_iou=lowest, digits=digits)
                # A recall that prints as 0 is taken for no hit; and these are also values that frames could have.
                assert got[kind] is None or rounded["recall"] == 0
                assert got["per_frame"] is None


def test_pairs_that_no_masks_can_have_are_flagged():
    assert check_pair(0.5, 2 / 3) is None and check_pair(0.5, 0.5) is None and check_pair(None, 0.4) is None
    assert check_pair(0.0, 0.0) is None and check_pair(1.0, 1.0) is None
    assert "above 0.6667" in check_pair(0.5, 0.667)
    assert check_pair(0.5, 0.6667, digits=4) is None and "above" in check_pair(0.5, 0.6669, digits=4)
    assert "below" in check_pair(0.5, 0.4999) and check_pair(0.5, 0.4999, digits=3) is None
    assert "outside [0, 1]" in check_pair(0.5, 1.2) and "outside" in check_pair(-0.1, 0)
    swapped = possible_definitions({"miou": 0.9166, "dice": 0.8488})
    assert set(swapped) == set(DEFINITIONS) and all("below the IoU" in why for why in swapped.values())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_every_mean_of_pairs_passes_the_check(values):
    iou = np.array(values)
    assert check_pair(float(iou.mean()), float(dice_of(iou).mean())) is None


# ------------------------------------------------------------------ rows, intervals, pictures


def test_intervals_of_a_mean_are_those_of_a_share_where_values_are_0_or_1():
    from birdlab.detection.groups import clusters, share_rows

    rng = np.random.default_rng(3)
    frames = frames_of(40, sessions=5)
    used = pl.DataFrame({"frame_id": frames["frame_id"], "k": rng.integers(0, 2, 40)})
    got = mean_rows(used, frames, metric="x", method="m", why="w")
    placed = used.join(clusters(frames), on="frame_id").with_columns(top="session")
    about = {"metric": "x", "group": "all", "level": "all", "method": "m"}
    assert got == share_rows(placed, why="w", unit="session", **about)
    assert [r["method"] for r in got] == ["m", "m; within_sessions", "m; new_sessions"]
    none = mean_rows(used.clear(), frames, metric="x", method="m", why="w")
    assert [(r["value"], r["reason"]) for r in none] == [(None, "w")] * 3
    perfect = mean_rows(used.with_columns(k=pl.lit(1.0)), frames, metric="x", method="m", why="w")
    assert perfect[2]["hi"] == 1.0 and 0 < perfect[2]["lo"] < 1


def test_the_interval_for_a_new_session_covers_a_mean_of_overlaps():
    """Values that vary little within and between sessions: the interval holds the true mean at least as often as said."""
    rng = np.random.default_rng(5)
    frames = frames_of(60, sessions=6)
    inside = []
    for _ in range(120):
        k = np.clip(0.8 + rng.normal(0, 0.05, 6)[np.arange(60) % 6] + rng.normal(0, 0.05, 60), 0, 1)
        used = pl.DataFrame({"frame_id": frames["frame_id"], "k": k})
        row = mean_rows(used, frames, metric="x", method="m", why="w")[2]
        inside.append(row["lo"] <= 0.8 <= row["hi"])
    assert np.mean(inside) >= 0.9


def test_metrics_rows_name_the_definition_and_what_the_mean_is_over():
    from types import SimpleNamespace

    from birdlab.chapters.comparison import overlap_notes
    from birdlab.detection.mask_rows import mask_rows
    from birdlab.detection.scored import Scored
    from birdlab.metrics import metric_frame

    labels, found, frames = by_hand()
    setting = SimpleNamespace(engine="hotcoco", iou=0.5, conf=0.25, max_dets=100, class_agnostic=False)
    blank = schemas.empty("failures")
    study = Scored(frames, frames.clear(), labels, found, blank, labels.clear(), ["m"], setting, 0)  # type: ignore[arg-type]
    rows = mask_rows(study, found, frames)
    at = {(r["metric"], r["method"]): r for r in rows}
    assert len(at) == len(rows)
    method = f"mask {study.method}; "
    n = {"matched_instances": 2, "all_truth": 3, "all_truth_and_false": 4, "per_frame": 2, "pooled_pixels": 2}
    assert {k: at["mask_miou", method + k]["n"] for k in DEFINITIONS} == n
    assert at["mask_dice", method + "all_truth_and_false"]["value"] == pytest.approx(9 / 20)
    for kind in DEFINITIONS:
        assert (("mask_miou", f"{method}{kind}; new_sessions") in at) == (kind != "pooled_pixels")
    edge = at["mask_boundary_iou", method + "matched_instances"]
    assert (edge["value"], edge["n"]) == (pytest.approx(5 / 6), 2)
    assert edge["reason"].startswith("the same as IoU for every hit")
    table = metric_frame({**row, "dataset": "x", "model": "m", "group": "all", "level": "all"} for row in rows)
    said = f"Mean boundary IoU of the hits of {{model:m}}: 0.83 ({edge['reason']})."
    assert overlap_notes(table) == [said] and overlap_notes(table.clear()) == []
    within = at["mask_recall", f"mask {study.method}; within_sessions"]
    assert within["value"] == pytest.approx(2 / 3) and within["lo"] < 2 / 3 < within["hi"]


def test_outlines_start_with_the_worst_hit_and_use_no_colour_of_a_model(tmp_path):
    size, n = 64, 4
    frames = frames_of(n, height=size, width=size)
    media = pl.DataFrame({"media_id": frames["media_id"], "path": [str(tmp_path / f) for f in frames["frame_id"]]})
    media = schemas.TABLES["media"].conform(media.with_columns(kind=pl.lit("image")))
    for name in frames["frame_id"]:
        cv2.imwrite(str(tmp_path / name), np.full((size, size, 3), 90, np.uint8))

    def square(x: int, y: int, side: int) -> str:
        bitmap = np.zeros((size, size), bool)
        bitmap[y : y + side, x : x + side] = True
        return to_rle(bitmap)

    truth = [row_of(k, k, square(10, 10, 20)) for k in range(n)]
    found = [row_of(k, k, square(10, 10, 20 - 2 * k), score=0.9) for k in range(3)] + [
        row_of(9, 0, square(45, 45, 8), score=0.6)
    ]
    labels, predictions = tables(truth, found)
    matches = match(labels, predictions, frames, iou_type="segm")
    panels = mask_outcomes(frames, media, labels, predictions, matches, model="m")
    ious = [(16 / 20) ** 2, (18 / 20) ** 2, 1.0]
    heads = [p.caption.split(",")[0].split(".  ")[0] for p in panels]
    assert heads[:3] == [f"IoU {u:.2f}" for u in ious]
    assert [p.caption.split(",")[0].split(".")[0] for p in panels[3:]] == ["Missed", "False outline"]
    assert [sorted({k for k, _ in p.polygons}) for p in panels] == [["detection", "truth"]] * 3 + [["miss"], ["fa"]]
    assert all(p.alt and not p.boxes and p.image_jpeg[:2] == b"\xff\xd8" for p in panels)
    # The truth of the worst hit, in the panel's own pixels: a square of 19 px between the centres of its edge pixels.
    points = np.array(dict(panels[0].polygons)["truth"])
    w, h = np.ptp(points, axis=0)
    inner = np.array(dict(panels[0].polygons)["detection"])
    assert w == pytest.approx(h) and np.ptp(inner[:, 0]) / w == pytest.approx(15 / 19)
    used = {MARKS[k].stroke.lower() for p in panels for k, _ in p.polygons}
    assert not used & {model_colour(i).line.lower() for i in range(14)}
    assert mask_outcomes(frames, media, labels, predictions, matches, model="other") == []


def test_every_model_that_draws_outlines_is_shown_under_its_name(tmp_path, monkeypatch):
    from types import SimpleNamespace

    from birdlab.detection import scored
    from birdlab.panels.masks import mask_outcomes_of_all

    labels, found, frames = by_hand()
    for name in frames["frame_id"]:
        cv2.imwrite(str(tmp_path / name), np.full((4, 4, 3), 90, np.uint8))
    paths = [str(tmp_path / name) for name in frames["frame_id"]]
    media = pl.DataFrame({"media_id": frames["media_id"], "path": paths, "kind": "image"})
    media = schemas.TABLES["media"].conform(media)
    boxes = found.with_columns(model=pl.lit("boxes"), mask_rle=pl.lit(None, pl.String))
    setting = SimpleNamespace(iou=0.5, conf=0.25, class_agnostic=False)
    everything = (frames, frames.clear(), labels, pl.concat([found, boxes]), schemas.empty("failures"))
    study = scored.Scored(*everything, labels.clear(), ["m", "boxes"], setting, 0)  # type: ignore[arg-type]
    monkeypatch.setattr(scored, "scored", lambda run: study)
    panels = mask_outcomes_of_all(SimpleNamespace(table=lambda name: media))  # type: ignore[arg-type]
    assert [p.alt.split(",")[0] for p in panels] == ["m: IoU 0.67", "m: IoU 1.00", "m: Missed", "m: False outline"]
    assert all(p.caption.startswith(m("m")) for p in panels)


def test_a_gallery_takes_the_panels(tmp_path):
    from birdlab.report.gallery import Panel, check_panels, key

    panel = Panel(b"\xff\xd8", 10, 10, alt="a", polygons=[(k, [(0.0, 0.0)] * 3) for k in ("truth", "detection", "fa")])
    check_panels([panel])
    assert all(word in str(key([panel])) for word in ("labelled bird", "detection", "false alarm"))
