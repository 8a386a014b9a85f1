"""Error types by hand and against hotcoco; AP as it is against the engines."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from birdlab import schemas
from birdlab.detection.engine import evaluate
from birdlab.detection.errors import ALL_MISSED, MAIN_ERRORS, NO_LABEL, average_precision, error_types
from birdlab.errors import ParameterError


def frames(n: int = 1) -> pl.DataFrame:
    """Labelled frames f0 …"""
    made = pl.DataFrame({"frame_id": [f"f{i}" for i in range(n)]})
    made = made.with_columns(
        media_id="frame_id", video_id=pl.lit("v"), label_state=pl.lit("labelled"), width_px=600, height_px=500
    )
    return schemas.TABLES["frames"].conform(made)


def labels(*rows: tuple[float, ...] | tuple[object, ...]) -> pl.DataFrame:
    """Labels (frame, category, x, y, w, h), named l0 …"""
    made = [
        {"label_id": f"l{i}", "frame_id": f"f{f}", "category": c, "x": x, "y": y, "w": w, "h": h}
        for i, (f, c, x, y, w, h) in enumerate(rows)
    ]
    table = pl.DataFrame(made) if made else schemas.empty("labels")
    return schemas.TABLES["labels"].conform(table.with_columns(is_crowd=pl.lit(False), is_ignored=pl.lit(False)))


def detections(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Detections (frame, category, score, x, y, w, h), named p0 …"""
    made = [
        {"prediction_id": f"p{i}", "frame_id": f"f{f}", "category": c, "score": s, "x": x, "y": y, "w": w, "h": h}
        for i, (f, c, s, x, y, w, h) in enumerate(rows)
    ]
    table = pl.DataFrame(made) if made else schemas.empty("predictions")
    return schemas.TABLES["predictions"].conform(table.with_columns(model=pl.lit("m")))


def kinds(*args: pl.DataFrame, **about: object) -> dict[str, str]:
    """Detection to error."""
    return dict(error_types(*args, **about).detections.select("prediction_id", "error").iter_rows())


def test_each_error_by_hand() -> None:
    truth = labels((0, "wren", 0, 0, 100, 100), (0, "wren", 300, 0, 100, 100), (0, "tit", 0, 300, 100, 100))
    found = detections(
        (0, "wren", 0.9, 0, 0, 100, 100),  # right
        (0, "wren", 0.8, 5, 0, 100, 100),  # the same bird again
        (0, "wren", 0.7, 360, 0, 100, 100),  # IoU 0.25 with the second wren
        (0, "wren", 0.6, 0, 300, 100, 100),  # on the tit
        (0, "wren", 0.5, 60, 300, 100, 100),  # IoU 0.25 with the tit
        (0, "wren", 0.4, 500, 400, 50, 50),  # on nothing
    )
    got = error_types(truth, found, frames())
    want = [("p1", "Dupe", "l0"), ("p2", "Loc", "l1"), ("p3", "Cls", "l2"), ("p4", "Both", "l2"), ("p5", "Bkg", None)]
    assert got.detections.select("prediction_id", "error", "label_id").rows() == want
    assert got.detections["iou"].to_list() == pytest.approx([95 / 105, 0.25, 1.0, 0.25, None])
    assert got.missed.select("label_id", "error", "prediction_id").rows() == [("l1", "Loc", "p2"), ("l2", "Cls", "p3")]
    assert dict(got.summary.select("error", "n").iter_rows()) == {
        **{"Cls": 1, "Loc": 1, "Both": 1, "Dupe": 1, "Bkg": 1, "Miss": 0},
        **{"FalsePos": 5, "FalseNeg": 2},
    }


def test_gains_by_hand() -> None:
    truth = labels((0, "bird", 0, 0, 100, 100), (0, "bird", 300, 0, 100, 100))
    found = detections((0, "bird", 0.9, 500, 400, 50, 50), (0, "bird", 0.8, 0, 0, 100, 100))
    got = error_types(truth, found, frames())
    gain = dict(got.summary.select("error", "delta_ap").iter_rows())
    # One of two birds at precision 1/2: recalls 0 … 0.50 are 51 of 101 points.
    assert got.summary["ap"][0] == pytest.approx(51 / 101 / 2)
    assert gain["Bkg"] == gain["FalsePos"] == pytest.approx(51 / 101 - 51 / 202)
    assert (
        gain["Miss"] == gain["FalseNeg"] == pytest.approx(0.5 - 51 / 202)
    )  # the only bird left, still at precision 1/2
    assert gain["Cls"] == gain["Loc"] == gain["Both"] == gain["Dupe"] == 0


def test_only_the_best_of_several_bad_boxes_would_find_the_bird() -> None:
    truth = labels((0, "bird", 0, 0, 100, 100))
    found = detections(
        (0, "bird", 0.5, 55, 0, 100, 100), (0, "bird", 0.9, 50, 0, 100, 100), (0, "tit", 0.95, 1, 0, 100, 100)
    )
    got = error_types(truth, found, frames())
    gain = dict(got.summary.select("error", "delta_ap").iter_rows())
    assert got.missed.select("error", "prediction_id").row(0) == ("Cls", "p2")
    assert gain["Cls"] == pytest.approx(1.0) and gain["Loc"] == 0.0  # the label counts once, for the surest detection
    assert (
        error_types(truth, found, frames(), class_agnostic=True).summary.filter(pl.col("error") == "Loc")["n"][0] == 2
    )


@pytest.mark.parametrize(
    ("x", "error"), [(100 - 1e-6, "Bkg"), (100 * 9 / 11, "Loc"), (100 / 3 + 1e-6, "Loc"), (100 / 3 - 1e-6, "Dupe")]
)
def test_edges_of_the_overlaps(x: float, error: str) -> None:
    truth = labels((0, "bird", 0, 0, 100, 100))
    found = detections((0, "bird", 0.9, 0, 0, 100, 100), (0, "bird", 0.8, x, 0, 100, 100))
    overlap = (100 - x) / (100 + x)
    want = "Loc" if error == "Loc" and overlap >= 0.1 else "Bkg" if error == "Loc" else error
    assert kinds(truth, found, frames()) == {"p1": want}


def random_study(seed: int, *, n: int = 30, classes: int = 3) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Labels with detections shifted off them, of wrong classes, doubled, and on nothing."""
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for f in range(n):
        for _ in range(rng.integers(0, 5)):
            box, c = rng.uniform([0, 0, 30, 30], [400, 300, 120, 120]), int(rng.integers(classes))
            truth.append((f, f"c{c}", *box.tolist()))
            for _ in range(rng.integers(0, 4)):
                moved = box + rng.normal(0, 1, 4) * rng.uniform(0, 0.6) * np.array([60, 60, 30, 30])
                name = c if rng.random() < 0.7 else int(rng.integers(classes))
                found.append((f, f"c{name}", round(float(rng.random()), 2), *np.maximum(moved, 5).tolist()))
        if rng.random() < 0.6:
            found.append((f, f"c{rng.integers(classes)}", float(rng.random()), *rng.uniform(30, 300, 4).tolist()))
    return labels(*truth), detections(*found), frames(n)


def hotcoco_errors(truth: pl.DataFrame, found: pl.DataFrame, on: pl.DataFrame) -> dict[str, object]:
    """The same by hotcoco."""
    import hotcoco

    names = sorted(set(truth["category"]) | set(found["category"]))
    number = {f: i + 1 for i, f in enumerate(on["frame_id"])}

    def codes(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        image = np.array([number[f] for f in table["frame_id"]])
        category = np.array([names.index(c) + 1 for c in table["category"]])
        return image, category, table.select("x", "y", "w", "h").to_numpy()

    images = [{"id": i, "width": 600, "height": 500} for i in number.values()]
    categories = [{"id": i + 1, "name": c} for i, c in enumerate(names)]
    image, category, boxes = codes(truth)
    area = boxes[:, 2] * boxes[:, 3]
    crowd = np.zeros(len(image), dtype=np.int64)
    gt = hotcoco.COCO.from_arrays(
        images, categories, image, category, boxes, ids=np.arange(1, len(image) + 1), area=area, iscrowd=crowd
    )
    image, category, boxes = codes(found)
    rows = np.column_stack([image, boxes, found["score"].to_numpy(), category]).astype(float)
    run = hotcoco.COCOeval(gt, gt.load_res(rows), "bbox")
    run.evaluate()
    return run.tide_errors(pos_thr=0.5, bg_thr=0.1)


@pytest.mark.parametrize("seed", range(8))
def test_types_and_gains_equal_hotcoco(seed: int) -> None:
    truth, found, on = random_study(seed)
    got, want = error_types(truth, found, on).summary, hotcoco_errors(truth, found, on)
    assert got["ap"][0] == pytest.approx(want["ap_base"], abs=1e-12)
    for row in got.iter_rows(named=True):
        name = {"FalsePos": "FP", "FalseNeg": "FN"}.get(row["error"], row["error"])
        assert row["delta_ap"] == pytest.approx(want["delta_ap"][name], abs=1e-12), name
        assert row["n"] == want["counts"].get(name, row["n"])


@pytest.mark.parametrize("seed", range(3))
def test_ap_is_that_of_the_report_and_every_error_is_counted(seed: int) -> None:
    truth, found, on = random_study(100 + seed, n=60)
    got = error_types(truth, found, on, max_dets=2)
    assert got.summary["ap"][0] == pytest.approx(
        evaluate(truth, found, on, engine="pycocotools", max_dets=2).stats["ap50"], abs=1e-12
    )
    n = dict(got.summary.select("error", "n").iter_rows())
    assert sum(n[e] for e in MAIN_ERRORS if e != "Miss") == n["FalsePos"] == got.detections.height
    assert n["FalseNeg"] == got.missed.height and n["Miss"] == got.missed.filter(pl.col("error") == "Miss").height


def test_confidence_ignored_regions_crowds_and_unlabelled_frames() -> None:
    truth = labels((0, "bird", 0, 0, 100, 100), (0, "bird", 300, 0, 100, 100), (0, "bird", 300, 300, 100, 100))
    truth = truth.with_columns(is_ignored=pl.col("label_id") == "l1", is_crowd=pl.col("label_id") == "l2")
    found = detections(
        (0, "bird", 0.9, 0, 0, 100, 100),
        (0, "bird", 0.8, 310, 10, 50, 50),
        (0, "bird", 0.7, 320, 320, 40, 40),
        (1, "bird", 0.9, 0, 0, 9, 9),
    )
    on = frames(2).with_columns(
        label_state=pl.when(pl.col("frame_id") == "f1").then(pl.lit("unlabelled")).otherwise(pl.lit("labelled"))
    )
    on = schemas.TABLES["frames"].conform(on)
    got = error_types(truth, found, on)
    assert got.detections.is_empty() and got.missed.is_empty() and got.summary["ap"][0] == 1.0
    high = error_types(truth, found, on, conf=0.95)
    assert high.missed["error"].to_list() == ["Miss"] and high.summary["ap"][0] == 0.0


def test_nothing_labelled_nothing_found_nothing_at_all() -> None:
    truth, found = labels((0, "bird", 0, 0, 10, 10)), detections((0, "bird", 0.5, 100, 100, 10, 10))
    none = error_types(labels(), found, frames())
    assert none.summary["reason"].unique().to_list() == [NO_LABEL] and none.summary["delta_ap"].null_count() == 8
    assert none.detections["error"].to_list() == ["Bkg"] and none.detections["label_id"].to_list() == [None]
    missed = error_types(truth, detections(), frames(), models=["m"])
    by = {r["error"]: r for r in missed.summary.iter_rows(named=True)}
    assert by["Miss"]["n"] == 1 and by["Miss"]["delta_ap"] is None and by["Miss"]["reason"] == ALL_MISSED
    assert by["Bkg"]["delta_ap"] == 0.0
    assert error_types(truth, detections(), frames()).summary.height == 0
    for about in ({"iou": 0.1}, {"iou": 1.5}, {"max_dets": 0}):
        with pytest.raises(ParameterError):
            error_types(truth, found, frames(), **about)


def test_average_precision_by_hand() -> None:
    assert average_precision([], [], 0) is None and average_precision([], [], 3) == 0.0
    assert average_precision([0.9, 0.8, 0.7], [True, False, True], 2) == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert average_precision([0.5, 0.5], [False, True], 1) == 0.5  # ties keep their order
