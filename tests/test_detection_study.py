"""The metrics of a whole study: every number a row, and every case without a number a row with its reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from birdlab import schemas
from birdlab.detection import study as detection
from birdlab.detection.engine import evaluate
from birdlab.detection.groups import ONLY_WHERE_A_BIRD_IS
from birdlab.errors import ParameterError
from birdlab.recipe import Recipe, parse_recipe


@dataclass
class FakeRun:
    """What the builder needs of a run: a recipe and tables."""

    recipe: Recipe
    tables: dict[str, pl.DataFrame]

    def table(self, name: str) -> pl.DataFrame:
        return self.tables[name] if name in self.tables else schemas.empty(name.removeprefix("second_"))


def make_run(
    frames: list[dict[str, Any]],
    labels: list[dict[str, Any]],
    predictions: list[dict[str, Any]],
    *,
    models: tuple[str, ...] = ("m",),
    scoring: dict[str, Any] | None = None,
    **tables: pl.DataFrame,
) -> FakeRun:
    recipe = parse_recipe(
        {
            "name": "study",
            "data": {"media": [{"images": "*.jpg"}]},
            "models": [{"name": m, "predictions": "p.json"} for m in models],
            "scoring": scoring or {},
        }
    )
    rows = {"frames": frames, "labels": labels, "predictions": predictions}
    made = {
        n: schemas.TABLES[n].conform(pl.DataFrame(r, infer_schema_length=None)) if r else schemas.empty(n)
        for n, r in rows.items()
    }
    made["media"] = schemas.empty("media")
    return FakeRun(recipe, made | tables)


def frame(
    name: str, session: str = "s1", *, state: str = "labelled", split: str = "test", **more: Any
) -> dict[str, Any]:
    about = {
        "frame_id": name,
        "media_id": name,
        "video_id": session,
        "frame_index": 0,
        "width_px": 1000,
        "height_px": 1000,
    }
    return about | {"split": split, "label_state": state} | more


def bird(name: str, on: str, x: float = 0, **more: Any) -> dict[str, Any]:
    about = {"label_id": name, "frame_id": on, "category": "bird", "x": float(x), "y": 0.0, "w": 40.0, "h": 40.0}
    return about | {"is_crowd": False, "is_ignored": False} | more


def found(name: str, on: str, x: float = 0, score: float = 0.9, model: str = "m", **more: Any) -> dict[str, Any]:
    about = {"model": model, "prediction_id": name, "frame_id": on, "category": "bird", "score": score}
    return about | {"x": float(x), "y": 0.0, "w": 40.0, "h": 40.0} | more


def built(run: FakeRun) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(matches, metrics), both checked against their contract; a null value or interval always has a reason."""
    tables = detection.build(run)
    matches, metrics = (
        schemas.validate("matches", tables["matches"]),
        schemas.validate("metrics", tables["metrics_detection"]),
    )
    silent = metrics.filter(pl.col("value").is_null() & pl.col("published").is_null() & pl.col("reason").is_null())
    assert silent.is_empty(), silent
    assert not metrics["value"].is_nan().any()
    return matches, metrics


def value(
    metrics: pl.DataFrame, metric: str, *, model: str = "m", group: str = "all", level: str = "all", method: str = ""
) -> float | None:
    rows = metrics.filter(metric=metric, model=model, group=group, level=level)
    rows = rows.filter(~pl.col("method").str.contains("; "), pl.col("method").str.contains(method, literal=True))
    assert rows.height == 1, rows
    return rows["value"][0]


FRAMES = [
    frame("a.jpg"),
    frame("b.jpg"),
    frame("c.jpg", "s2"),
    frame("d.jpg", "Süd-Ä"),
    frame("e.jpg", "s2", state="empty"),
]
LABELS = [bird("1", "a.jpg"), bird("2", "a.jpg", 100), bird("3", "b.jpg"), bird("4", "c.jpg"), bird("5", "d.jpg")]
FOUND = [
    found("1", "a.jpg"),
    found("2", "b.jpg", score=0.8),
    found("3", "c.jpg", 5, 0.7),
    found("4", "c.jpg", 500, 0.2),
    found("5", "e.jpg", 0, 0.6),
]
FIXED = "iou=0.5 conf=0.25 greedy"


def test_every_number_of_a_small_study() -> None:
    matches, metrics = built(make_run(FRAMES, LABELS, FOUND))
    assert matches["score_thr"].unique().to_list() == [0.25]
    at = {k: value(metrics, k, method=FIXED) for k in ("tp", "fp", "fn", "precision", "recall", "f1")}
    assert at == {"tp": 3, "fp": 1, "fn": 2, "precision": 3 / 4, "recall": 3 / 5, "f1": 6 / 9}
    assert value(metrics, "mean_iou") == pytest.approx((1 + 1 + 35 / 45) / 3)
    best = {
        k: value(metrics, k, method="max_f1 oracle") for k in ("conf", "tp", "fp", "fn", "precision", "recall", "f1")
    }
    assert best == {"conf": 0.7, "tp": 3, "fp": 0, "fn": 2, "precision": 1.0, "recall": 3 / 5, "f1": 6 / 8}
    assert value(metrics, "false_alarms_per_1000_empty_frames") == 1000
    assert value(metrics, "recall", group="session", level="Süd-Ä") == 0
    counts = {
        k: value(metrics, k, model="") for k in ("n_frames", "n_empty_frames", "n_birds", "n_sessions", "n_sites")
    }
    assert counts == {"n_frames": 5, "n_empty_frames": 1, "n_birds": 5, "n_sessions": 3, "n_sites": 0}
    assert metrics.filter(metric="new_sessions_unit").select("method", "value").rows() == [("session", 3)]
    recall = metrics.filter(pl.col("method").str.starts_with(FIXED + "; "), metric="recall", group="all")
    assert recall["method"].to_list() == [f"{FIXED}; within_sessions", f"{FIXED}; new_sessions"]
    assert recall["n_clusters"].to_list() == [4, 3] and recall["lo"].null_count() == 0


def test_ap_is_the_engine_s() -> None:
    run = make_run(FRAMES, LABELS, FOUND)
    metrics = built(run)[1]
    for engine in ("hotcoco", "pycocotools"):
        want = evaluate(run.table("labels"), run.table("predictions"), run.table("frames"), engine=engine)
        for key, number in want.stats.items():
            got = metrics.filter(pl.col("method").str.starts_with("coco bbox"), metric=key, group="all").row(
                0, named=True
            )
            assert got["value"] == (None if number is None else pytest.approx(number, abs=1e-12))
            assert got["reason"]
    sizes = metrics.filter(metric="ap", group="relative_size")
    assert sizes.filter(pl.col("value").is_not_null()).select("level", "n").rows() == [("1/32-1/16", 5)]
    assert sizes.height == 9 and metrics.filter(metric="ap", group="coco_size").height == 3


def test_no_predictions_at_all() -> None:
    metrics = built(make_run(FRAMES, LABELS, []))[1]
    assert (value(metrics, "ap"), value(metrics, "fn", method=FIXED), value(metrics, "recall", method=FIXED)) == (
        0,
        5,
        0,
    )
    assert value(metrics, "precision", method=FIXED) is None
    assert value(metrics, "conf") is None
    assert metrics.filter(group="warning")["reason"].to_list() == ["0 detections"]


def test_no_labelled_frame() -> None:
    frames = [frame("a.jpg", state="unlabelled"), frame("b.jpg", state="unlabelled")]
    matches, metrics = built(make_run(frames, [], FOUND))
    assert matches.is_empty()
    assert value(metrics, "ap") is None and value(metrics, "n_unlabelled_frames", model="") == 2
    assert metrics.filter(metric="recall")["reason"].unique().to_list() == [
        "no frame of split test was labelled or looked at"
    ]


def test_only_empty_frames() -> None:
    frames = [frame("a.jpg", state="empty"), frame("e.jpg", "s2", state="empty")]
    metrics = built(make_run(frames, [], FOUND))[1]
    assert value(metrics, "recall", method=FIXED) is None and value(metrics, "ap") is None
    assert value(metrics, "fp", method=FIXED) == 2 and value(metrics, "precision", method=FIXED) == 0
    assert value(metrics, "empty_frames_with_alarm") == 1


def test_no_empty_frame_says_what_precision_means() -> None:
    metrics = built(make_run(FRAMES[:4], LABELS, FOUND))[1]
    assert metrics.filter(metric="false_alarms_per_hour")["reason"].to_list() == [ONLY_WHERE_A_BIRD_IS]


def test_one_session_has_no_interval_for_new_ones_and_no_confirmed_ranking() -> None:
    frames = [frame(f"{i}.jpg") for i in range(30)]
    labels = [bird(str(i), f"{i}.jpg") for i in range(30)]
    predictions = [found(str(i), f"{i}.jpg") for i in range(29)] + [found("x", "0.jpg", 500, model="other")]
    metrics = built(make_run(frames, labels, predictions, models=("m", "other")))[1]
    new = metrics.filter(metric="recall", model="m", group="all", method=f"{FIXED}; new_sessions").row(0, named=True)
    assert (new["lo"], new["n_clusters"], new["reason"]) == (None, 1, "one session: nothing can be said about another")
    pair = metrics.filter(group="pair", metric="recall_difference_confirmed")
    assert pair["value"].to_list() == [0.0, 0.0] and pair["model"].unique().to_list() == ["m - other"]
    difference = metrics.filter(group="pair", metric="recall_difference", method=f"{FIXED}; within_sessions")
    assert difference["value"].to_list() == [pytest.approx(29 / 30)] and difference["lo"][0] > 0.8


def failures(*names: str, model: str = "m") -> pl.DataFrame:
    rows = [{"model": model, "frame_id": n, "stage": "predict", "message": "cannot be decoded"} for n in names]
    return schemas.TABLES["failures"].conform(pl.DataFrame(rows))


def test_a_frame_that_failed_is_neither_a_hit_nor_a_miss() -> None:
    metrics = built(make_run(FRAMES, LABELS, FOUND, failures=failures("a.jpg")))[1]
    assert (value(metrics, "fn", method=FIXED), value(metrics, "tp", method=FIXED)) == (1, 2)
    lost = metrics.filter(metric="n_birds_on_failed_frames").row(0, named=True)
    assert lost["value"] == 2 and "neither hits nor misses" in lost["reason"]


def test_a_model_that_failed_on_every_frame() -> None:
    run = make_run(FRAMES, LABELS, [], failures=failures("a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"))
    matches, metrics = built(run)
    assert matches.is_empty() and value(metrics, "ap") is None
    assert metrics.filter(metric="recall", model="m")["reason"].unique().to_list() == ["m failed on all 5 frames"]


def test_confidence_is_chosen_on_validation_where_there_is_one() -> None:
    frames = [*FRAMES, frame("v.jpg", "s7", split="val"), frame("w.jpg", "s7", split="val")]
    labels = [*LABELS, bird("v", "v.jpg")]
    predictions = [*FOUND, found("v", "v.jpg", 0, 0.75), found("w", "w.jpg", 0, 0.4)]
    metrics = built(make_run(frames, labels, predictions))[1]
    assert value(metrics, "conf", method="chosen on val") == 0.75
    assert value(metrics, "tp", method="chosen on val") == 2
    assert metrics.filter(pl.col("method").str.contains("oracle")).is_empty()
    both = built(make_run(frames, labels, predictions, scoring={"splits": ["val", "test"]}))[1]
    assert value(both, "tp", method=FIXED) == 4
    assert value(both, "recall", group="split", level="val", method=FIXED) == 1
    assert value(both, "conf", method="oracle") == 0.7


def test_thinned_frames_are_a_second_row() -> None:
    frames = [frame(f"v#{i}", media_id="v", frame_index=i, time_s=float(i)) for i in range(6)]
    labels = [bird(str(i), f"v#{i}") for i in range(6)]
    predictions = [found(str(i), f"v#{i}") for i in (0, 1, 2)]
    metrics = built(make_run(frames, labels, predictions, scoring={"thin_s": 3}))[1]
    assert value(metrics, "recall", method=FIXED) == 1 / 2
    assert value(metrics, "n_frames", group="thinned", level="3 s") == 2
    assert value(metrics, "recall", group="thinned", level="3 s") == 1 / 2
    without = built(make_run(FRAMES, LABELS, FOUND, scoring={"thin_s": 3}))[1]
    assert "no frame has a time" in without.filter(group="thinned")["reason"][0]


def test_adjacent_frames_are_thinned_unasked() -> None:
    frames = [frame(f"v#{i}", media_id="v", frame_index=i, time_s=4.0 * i) for i in range(6)]
    labels = [bird(str(i), f"v#{i}") for i in range(6)]
    metrics = built(make_run(frames, labels, [found("0", "v#0")]))[1]
    assert value(metrics, "n_frames", group="thinned", level="10 s") == 2  # at 0 and 12 s
    off = built(make_run(frames, labels, [found("0", "v#0")], scoring={"thin_s": 0}))[1]
    far = [f | {"time_s": 3 * f["time_s"]} for f in frames]
    for without in (
        off,
        built(make_run(far, labels, [found("0", "v#0")]))[1],
        built(make_run(FRAMES, LABELS, FOUND))[1],
    ):
        assert without.filter(group="thinned").is_empty()


def test_second_labels_are_the_ceiling() -> None:
    second = [bird("1", "a.jpg", 4), bird("9", "b.jpg", 700)]
    table = schemas.TABLES["labels"].conform(pl.DataFrame(second))
    frames = [f | {"second_label_state": "labelled" if f["frame_id"] in ("a.jpg", "b.jpg") else None} for f in FRAMES]
    metrics = built(make_run(frames, LABELS, FOUND, second_labels=table))[1]
    human = {k: value(metrics, k, model="human") for k in ("tp", "fp", "fn", "recall", "mean_iou", "n_frames")}
    assert human == {"tp": 1, "fp": 1, "fn": 2, "recall": 1 / 3, "mean_iou": pytest.approx(36 / 44), "n_frames": 2}
    assert value(metrics, "ap50", model="human") > 0
    none = built(make_run(FRAMES, LABELS, FOUND))[1]
    assert none.filter(model="human")["reason"].to_list() == ["no scored frame was labelled twice"]


def mask(x: int, w: int) -> str:
    import numpy as np
    from pycocotools import mask as coco_mask

    drawn = np.zeros((1000, 1000), dtype=np.uint8, order="F")
    drawn[0:40, x : x + w] = 1
    rle = coco_mask.encode(drawn)
    return json.dumps({"size": rle["size"], "counts": rle["counts"].decode()})


def test_masks_have_their_own_numbers_where_both_sides_have_them() -> None:
    labels = [bird("1", "a.jpg", mask_rle=mask(0, 20)), bird("2", "a.jpg", 100, mask_rle=mask(100, 40))]
    predictions = [found("1", "a.jpg", mask_rle=mask(0, 16)), found("2", "a.jpg", 100, 0.8, mask_rle=mask(130, 10))]
    metrics = built(make_run(FRAMES[:1], labels, predictions))[1]
    assert (value(metrics, "tp", method=FIXED), value(metrics, "mask_tp")) == (2, 1)
    iou = metrics.filter(metric="mask_miou", method=f"mask {FIXED}; matched_instances")["value"].to_list()
    assert iou == [pytest.approx(16 / 20)]
    assert built(make_run(FRAMES, LABELS, FOUND))[1].filter(metric="mask_ap")["reason"].to_list() == [
        "the labels have no masks"
    ]


def test_speed_and_published_rows() -> None:
    row = {"model": "m", "stage": "end_to_end", "fps": 4.0, "n_frames": 20, "n_warmup": 3, "seconds": 5.0}
    speed = schemas.TABLES["speed"].conform(
        pl.DataFrame([row | {"device": "CPU", "batch": 1, "imgsz": 640, "precision": "fp32"}])
    )
    metrics = built(make_run(FRAMES, LABELS, FOUND, speed=speed, scoring={"published": ["western_bluebird"]}))[1]
    assert metrics.filter(metric="fps_end_to_end", model="m").select("value", "n", "method").rows() == [
        (4.0, 20, "CPU, batch 1, 640 px, fp32")
    ]
    printed = metrics.filter(dataset="western_bluebird")
    assert printed.filter(model="YOLO26", metric="f1").select("value", "published").rows() == [(None, 0.9259)]


def test_several_classes_have_rows_of_their_own() -> None:
    labels = [*LABELS, bird("6", "b.jpg", 300, category="decoy")]
    metrics = built(make_run(FRAMES, labels, FOUND))[1]
    assert metrics.filter(group="category", metric="ap").select("level", "value").rows()[1] == ("decoy", 0.0)


def test_a_recipe_without_models_counts_the_data() -> None:
    matches, metrics = built(make_run(FRAMES, LABELS, [], models=()))
    assert matches.is_empty() and value(metrics, "n_birds", model="") == 5
    assert metrics.filter(metric="ap", model="")["reason"].to_list() == ["no model in the recipe"]


def test_no_model_may_be_called_human() -> None:
    with pytest.raises(ParameterError, match="human"):
        detection.build(make_run(FRAMES, LABELS, FOUND, models=("human",)))


def test_curves_of_a_run_and_pairs_of_its_models() -> None:
    run = make_run(FRAMES, LABELS, FOUND)
    points = detection.curves(run)
    assert points["f1"].max() == 6 / 8 and points.height == 5
    assert detection.comparisons(run).is_empty()


@pytest.mark.real
def test_real_sessions_give_the_known_counts(real_data: Path, tmp_path: Path) -> None:
    """18 real recording sessions at 6 sites with given predictions: TP 74, FP 1, FN 91 at confidence 0.25."""
    from birdlab.study import start

    folder = real_data / "flying_birds" / "crops"
    recipe = tmp_path / "crops.yaml"
    recipe.write_text(
        f"name: crops\ndata:\n  root: {folder}\n  media: [{{images: 'images/**/*'}}]\n"
        f"  labels: [{{path: {folder}/coco.json, format: coco}}]\n"
        f"models: [{{name: yolo11n, predictions: {folder}/preds_yolo11n_int8_openvino.json}}]\n"
    )
    run = start(str(recipe), str(tmp_path / "run"), notebook="02_detection")
    metrics = run.table("metrics_detection")
    at = {k: value(metrics, k, model="yolo11n", method=FIXED) for k in ("tp", "fp", "fn")}
    assert at == {"tp": 74, "fp": 1, "fn": 91}
    assert (value(metrics, "n_sessions", model=""), value(metrics, "n_sites", model="")) == (18, 6)
    for group, n in (("session", 18), ("site", 6)):
        rows = metrics.filter(pl.col("method").str.ends_with("within_sessions"), metric="recall", group=group)
        assert rows.height == n and rows["lo"].null_count() == 0
