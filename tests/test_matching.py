"""The matcher: hand-made cases, parity with pycocotools per detection, and what must not change the result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.detection import boxes
from birdlab.detection.matching import at_confidence, match
from birdlab.errors import ParameterError

CASES = json.loads((Path(__file__).parent / "data/detection/greedy_cases.json").read_text())["cases"]


def make_frames(n: int, states: list[str] | None = None, size: tuple[int, int] = (200, 200)) -> pl.DataFrame:
    """``n`` photographs f0, f1 …, three to a session."""
    rows = [
        {
            "frame_id": f"f{i}",
            "media_id": f"f{i}",
            "video_id": f"s{i // 3}",
            "frame_index": 0,
            "width_px": size[0],
            "height_px": size[1],
            "split": "test",
            "label_state": states[i] if states else "labelled",
        }
        for i in range(n)
    ]
    return schemas.TABLES["frames"].conform(pl.DataFrame(rows))


def make_labels(rows: list[tuple]) -> pl.DataFrame:
    """Rows of (frame, category, x, y, w, h[, crowd[, ignored]])."""
    full = [(*r, *(False,) * (8 - len(r))) for r in rows]
    data = [
        {
            "label_id": f"l{i}",
            "frame_id": r[0],
            "category": r[1],
            "x": r[2],
            "y": r[3],
            "w": r[4],
            "h": r[5],
            "is_crowd": bool(r[6]),
            "is_ignored": bool(r[7]),
        }
        for i, r in enumerate(full)
    ]
    return schemas.TABLES["labels"].conform(pl.DataFrame(data)) if data else schemas.empty("labels")


def make_predictions(rows: list[tuple], model: str = "m") -> pl.DataFrame:
    """Rows of (frame, category, score, x, y, w, h)."""
    data = [
        {
            "model": model,
            "prediction_id": f"p{i}",
            "frame_id": r[0],
            "category": r[1],
            "score": r[2],
            "x": r[3],
            "y": r[4],
            "w": r[5],
            "h": r[6],
        }
        for i, r in enumerate(rows)
    ]
    return schemas.TABLES["predictions"].conform(pl.DataFrame(data)) if data else schemas.empty("predictions")


def counts(matches: pl.DataFrame) -> dict[str, int]:
    have = dict(matches.group_by("outcome").len().iter_rows())
    return {o: have.get(o, 0) for o in schemas.OUTCOMES}


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_hand_made_case(case: dict) -> None:
    labels = make_labels([("f0", str(g["cls"]), *g["bbox"], g["iscrowd"]) for g in case["gt"]])
    predictions = make_predictions([("f0", str(d["cls"]), d["score"], *d["bbox"]) for d in case["dt"]])
    got = match(
        labels,
        predictions,
        make_frames(1),
        iou=case["iou_thr"],
        conf=case["conf_thr"],
        class_agnostic=not case["per_class"],
        models=["m"],
    )
    by_label = {r["label_id"]: r["outcome"] for r in got.filter(pl.col("outcome").is_in(["tp", "fn"])).to_dicts()}
    matched = [None if g["iscrowd"] else int(by_label[f"l{i}"] == "tp") for i, g in enumerate(case["gt"])]
    assert matched == case["expected"]["gt_matched"]
    by_detection = {r["prediction_id"]: r for r in got.drop_nulls("prediction_id").to_dicts()}
    became = []
    for i in range(len(case["dt"])):
        row = by_detection.get(f"p{i}")
        if row is None:
            became.append(None)
        else:
            became.append({"tp": int((row["label_id"] or "l-1")[1:]), "fp": -1, "ignored": "ignored"}[row["outcome"]])
    assert became == case["expected"]["dt_match"]


def test_class_agnostic_finds_a_bird_of_another_class() -> None:
    labels, predictions = (
        make_labels([("f0", "a", 10, 10, 40, 40)]),
        make_predictions([("f0", "b", 0.9, 10, 10, 40, 40)]),
    )
    assert counts(match(labels, predictions, make_frames(1)))["tp"] == 0
    got = match(labels, predictions, make_frames(1), class_agnostic=True)
    assert counts(got) == {"tp": 1, "fp": 0, "fn": 0, "ignored": 0}
    assert got["category"].to_list() == ["a"] and got["iou"].to_list() == [1.0]


def test_unlabelled_frames_and_frames_of_other_studies_are_not_scored() -> None:
    labels = make_labels([("f0", "a", 10, 10, 40, 40), ("f1", "a", 10, 10, 40, 40)])
    predictions = make_predictions([(f, "a", 0.9, 100, 100, 40, 40) for f in ("f0", "f1", "f2", "elsewhere")])
    got = match(labels, predictions, make_frames(3, ["labelled", "unlabelled", "empty"]))
    assert counts(got) == {"tp": 0, "fp": 2, "fn": 1, "ignored": 0}
    assert set(got["frame_id"]) == {"f0", "f2"}


def test_no_predictions_is_all_misses_for_the_models_named() -> None:
    labels = make_labels([("f0", "a", 10, 10, 40, 40)])
    assert match(labels, schemas.empty("predictions"), make_frames(1)).is_empty()
    got = match(labels, schemas.empty("predictions"), make_frames(1), models=["x", "y"])
    assert got["model"].to_list() == ["x", "y"] and counts(got)["fn"] == 2
    schemas.validate("matches", got)


def test_no_frames_no_labels() -> None:
    got = match(schemas.empty("labels"), make_predictions([("f0", "a", 0.9, 0, 0, 5, 5)]), schemas.empty("frames"))
    assert got.is_empty() and got.columns == schemas.empty("matches").columns


@pytest.mark.parametrize(("iou", "conf"), [(0.0, 0.5), (1.1, 0.5), (0.5, -0.1), (0.5, 1.5)])
def test_thresholds_out_of_range(iou: float, conf: float) -> None:
    with pytest.raises(ParameterError):
        match(schemas.empty("labels"), schemas.empty("predictions"), schemas.empty("frames"), iou=iou, conf=conf)


def test_ignored_region_takes_its_detections_out_unless_a_bird_is_there() -> None:
    labels = make_labels([("f0", "decoy", 100, 100, 80, 80, 0, 1), ("f0", "a", 110, 110, 30, 30)])
    predictions = make_predictions(
        [
            ("f0", "a", 0.9, 110, 110, 30, 30),  # on the region, but it is the bird
            ("f0", "a", 0.8, 150, 150, 20, 20),  # inside the region
            ("f0", "a", 0.7, 80, 150, 40, 20),  # half inside: 20 of 40 px
            ("f0", "a", 0.6, 79, 150, 40, 20),  # less than half inside
        ]
    )
    got = match(labels, predictions, make_frames(1))
    became = dict(
        got.drop_nulls("prediction_id").select("prediction_id", pl.col("outcome").cast(pl.String)).iter_rows()
    )
    assert became == {"p0": "tp", "p1": "ignored", "p2": "ignored", "p3": "fp"}
    assert got.filter(pl.col("outcome") == "ignored")["label_id"].unique().to_list() == ["l0"]
    assert "l0" not in got.filter(pl.col("outcome") == "fn")["label_id"].to_list()


def test_drop_ignored_uses_the_mask_where_there_is_one_and_changes_nothing_twice() -> None:
    from pycocotools import mask as coco_mask

    drawn = np.zeros((200, 200), dtype=np.uint8, order="F")
    drawn[:, :100] = 1  # the left half only, though the box is the whole frame
    rle = coco_mask.encode(drawn)
    text = json.dumps({"size": rle["size"], "counts": rle["counts"].decode()})
    labels = make_labels([("f0", "decoy", 0, 0, 200, 200, 0, 1)]).with_columns(mask_rle=pl.lit(text))
    predictions = make_predictions(
        [("f0", "a", 0.9, 90, 50, 20, 20), ("f0", "a", 0.8, 92, 50, 20, 20), ("f0", "a", 0.7, 10, 10, 20, 20)]
    )
    real, kept, dropped = boxes.drop_ignored(labels, predictions)
    assert real.is_empty()
    assert kept["prediction_id"].to_list() == ["p1"]
    assert dropped.select("prediction_id", "label_id").rows() == [("p0", "l0"), ("p2", "l0")]
    again = boxes.drop_ignored(real, kept)
    assert again[1].equals(kept) and again[2].is_empty()
    many = make_predictions([("f0", "a", 0.5, 10, k % 180, 20, 20) for k in range(300)])  # of one frame
    assert boxes.drop_ignored(labels, many)[2].height == 300


def test_masks_are_matched_by_masks() -> None:
    from pycocotools import mask as coco_mask

    def text(x0: int, x1: int) -> str:
        drawn = np.zeros((200, 200), dtype=np.uint8, order="F")
        drawn[10:50, x0:x1] = 1
        rle = coco_mask.encode(drawn)
        return json.dumps({"size": rle["size"], "counts": rle["counts"].decode()})

    labels = make_labels([("f0", "a", 10, 10, 40, 40)]).with_columns(mask_rle=pl.lit(text(10, 20)))
    predictions = make_predictions(
        [("f0", "a", 0.9, 10, 10, 40, 40), ("f0", "a", 0.8, 10, 10, 40, 40), ("f0", "a", 0.7, 10, 10, 40, 40)]
    )
    predictions = predictions.with_columns(mask_rle=pl.Series([text(30, 50), text(10, 18), None]))
    got = match(labels, predictions, make_frames(1), iou_type="segm")
    assert got.filter(pl.col("outcome") == "tp").select("prediction_id", "iou").rows() == [("p1", pytest.approx(0.8))]
    assert counts(got) == {"tp": 1, "fp": 2, "fn": 0, "ignored": 0}


def test_relative_size_is_equation_1() -> None:
    assert boxes.relative_size(180, 180, 3840, 2160) == 1 / 16
    assert boxes.relative_size(np.array([90]), np.array([90]), 3840, 2160).tolist() == [1 / 32]
    table = pl.DataFrame({"w": [240.0, None], "W": [60000, 60000]}, schema={"w": pl.Float64, "W": pl.Int32})
    got = table.select(boxes.relative_size(pl.col("w"), pl.col("w"), pl.col("W"), pl.col("W")))["w"].to_list()
    assert got == [240 / 60000, None]  # 60000² does not fit an Int32


def test_size_bins_are_half_open_and_lose_nothing() -> None:
    assert [b.level for b in boxes.RELATIVE_BINS] == [
        "0-1/256",
        "1/256-1/128",
        "1/128-1/64",
        "1/64-1/32",
        "1/32-1/16",
        "1/16-1/8",
        "1/8-1/4",
        "1/4-1/2",
        "1/2-1",
    ]
    sizes = np.concatenate([np.array(boxes.RELATIVE_EDGES), np.random.default_rng(1).random(100)])
    assert sum(boxes.size_counts(sizes, boxes.RELATIVE_BINS)) == len(sizes)
    assert boxes.size_counts(np.array([1024.0, 9216.0, 1023.0]), boxes.COCO_BINS) == [1, 1, 1]


def test_iou_matrix_of_nothing_has_no_rows_or_columns() -> None:
    assert boxes.iou_matrix(np.empty((0, 4)), np.ones((2, 4))).shape == (0, 2)
    assert boxes.iou_matrix(np.ones((2, 4)), np.empty((0, 4))).shape == (2, 0)


def random_study(seed: int, *, grid: bool, n_frames: int = 12) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Random birds, crowds and detections; on a coarse grid equal scores and equal overlaps are common."""
    rng = np.random.default_rng(seed)
    labels, predictions = [], []
    for f in range(n_frames):
        for _ in range(rng.integers(0, 6)):
            box = rng.integers(0, 8, 2) * 10.0, rng.integers(1, 5, 2) * 10.0
            labels.append((f"f{f}", "ab"[rng.integers(2)], *box[0], *box[1], rng.random() < 0.15))
        for _ in range(rng.integers(0, 15)):
            jitter = 0 if grid else rng.normal(0, 4, 4)
            box = np.concatenate([rng.integers(0, 8, 2) * 10.0, rng.integers(1, 5, 2) * 10.0]) + jitter
            box[2:] = np.maximum(box[2:], 0)
            score = rng.integers(0, 8) / 8 if grid else rng.random()
            predictions.append((f"f{f}", "ab"[rng.integers(2)], float(score), *box.tolist()))
    return make_labels(labels), make_predictions(predictions), make_frames(n_frames)


def coco_outcomes(
    labels: pl.DataFrame, predictions: pl.DataFrame, frames: pl.DataFrame, iou: float, agnostic: bool
) -> tuple[dict, set]:
    """Outcome and label of every detection, and the labels hit, by pycocotools (all detections kept)."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    frame_no = {f: i + 1 for i, f in enumerate(frames["frame_id"])}
    images = [{"id": i, "width": 200, "height": 200} for i in frame_no.values()]
    anns = [
        {
            "id": i + 1,
            "image_id": frame_no[r["frame_id"]],
            "category_id": 1 + "ab".index(r["category"]),
            "bbox": [r["x"], r["y"], r["w"], r["h"]],
            "area": r["w"] * r["h"],
            "iscrowd": int(r["is_crowd"]),
        }
        for i, r in enumerate(labels.to_dicts())
    ]
    dts = [
        {
            "image_id": frame_no[r["frame_id"]],
            "category_id": 1 + "ab".index(r["category"]),
            "bbox": [r["x"], r["y"], r["w"], r["h"]],
            "score": r["score"],
        }
        for r in predictions.to_dicts()
    ]
    gt = COCO()
    gt.dataset = {"images": images, "annotations": anns, "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}
    gt.createIndex()
    run = COCOeval(gt, gt.loadRes(dts), "bbox")
    run.params.iouThrs, run.params.areaRng, run.params.areaRngLbl, run.params.maxDets = (
        np.array([iou]),
        [[0, 1e10]],
        ["all"],
        [1000],
    )
    run.params.useCats = int(not agnostic)
    run.evaluate()
    outcome, hit = {}, set()
    for part in run.evalImgs:
        if part is None:
            continue
        for k, d in enumerate(part["dtIds"]):
            g = int(part["dtMatches"][0, k])
            outcome[f"p{d - 1}"] = (
                ("ignored", f"l{g - 1}") if part["dtIgnore"][0, k] else ("tp", f"l{g - 1}") if g else ("fp", None)
            )
        hit |= {
            f"l{g - 1}" for k, g in enumerate(part["gtIds"]) if part["gtMatches"][0, k] > 0 and not part["gtIgnore"][k]
        }
    return outcome, hit


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_same_as_pycocotools_per_detection(
    seed: int, grid: bool, agnostic: bool, capsys: pytest.CaptureFixture
) -> None:
    labels, predictions, frames = random_study(seed, grid=grid)
    iou = (0.3, 0.5, 0.75, 1.0)[seed % 4]
    want, hit = coco_outcomes(labels, predictions, frames, iou, agnostic)
    got = match(labels, predictions, frames, iou=iou, conf=0.0, class_agnostic=agnostic)
    rows = got.drop_nulls("prediction_id").select("prediction_id", pl.col("outcome").cast(pl.String), "label_id").rows()
    assert {p: (o, label) for p, o, label in rows} == want
    assert set(got.filter(pl.col("outcome") == "tp")["label_id"]) == hit


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), conf=st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.875, 1.0]), grid=st.booleans())
def test_cutting_afterwards_equals_cutting_before(seed: int, conf: float, grid: bool) -> None:
    labels, predictions, frames = random_study(seed, grid=grid, n_frames=5)
    all_of_them = match(labels, predictions, frames, conf=0.0, models=["m"])
    before, after = match(labels, predictions, frames, conf=conf, models=["m"]), at_confidence(all_of_them, conf)
    order = ["label_id", "prediction_id"]
    assert before.sort(order).equals(after.sort(order))
    n = counts(before)
    assert n["tp"] + n["fn"] == labels.filter(~pl.col("is_crowd")).height
    assert n["tp"] + n["fp"] + n["ignored"] == predictions.filter(pl.col("score") >= conf).height


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_rows_does_not_matter_without_ties(seed: int) -> None:
    labels, predictions, frames = random_study(seed, grid=False, n_frames=5)
    order = ["label_id", "prediction_id"]
    want = match(labels, predictions, frames, models=["m"]).sort(order)
    mixed = [t.sample(fraction=1.0, shuffle=True, seed=seed) for t in (labels, predictions, frames)]
    assert match(*mixed, models=["m"]).sort(order).equals(want)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_frames_entered_twice_count_twice(seed: int) -> None:
    labels, predictions, frames = random_study(seed, grid=True, n_frames=4)
    again = [pl.concat([t, t.with_columns(pl.col("frame_id") + "x")]) for t in (labels, predictions, frames)]
    once, twice = counts(match(labels, predictions, frames, models=["m"])), counts(match(*again, models=["m"]))
    assert twice == {k: 2 * v for k, v in once.items()}


def test_a_higher_confidence_cannot_be_lowered() -> None:
    labels, predictions, frames = random_study(3, grid=False)
    with pytest.raises(ParameterError):
        at_confidence(match(labels, predictions, frames, conf=0.5), 0.25)


def test_two_models_are_matched_apart() -> None:
    labels = make_labels([("f0", "a", 10, 10, 40, 40)])
    both = pl.concat([make_predictions([("f0", "a", 0.9, 10, 10, 40, 40)], model=m) for m in ("x", "y")])
    got = match(labels, both, make_frames(1))
    assert got.select("model", pl.col("outcome").cast(pl.String)).rows() == [("x", "tp"), ("y", "tp")]
