"""A small study through `birdlab run`, with all that the demo has not: two splits that leak, video with a clock, frames labelled twice."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
import yaml
from videos import write_video

from birdlab.report.run import run_recipe

SIZE = (128, 96)
#: Ten frames of a video, one each 0.2 s: a bird (the white corner) is labelled in the first six, none is in the others.
TIMES_MS, N_BIRDS = list(range(0, 2000, 200)), 6


def coco(images: list[dict], boxes: dict[int, list[list[float]]]) -> dict:
    rows = [(image_id, box) for image_id, many in boxes.items() for box in many]
    annotations = [
        {"id": n, "image_id": image_id, "category_id": 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for n, (image_id, box) in enumerate(rows, 1)
    ]
    return {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "bird"}]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Path:
    """Two videos at two sites as test split, four photographs as training split, two of them frames of a video."""
    root = tmp_path_factory.mktemp("whole")
    data = root / "data"
    images, boxes, second, found = [], {}, {}, []
    for site in ("barn", "quay"):
        write_video(data / "test" / site / "a.mp4", TIMES_MS, size=SIZE, gop=5)
        for index in range(len(TIMES_MS)):
            image_id = len(images) + 1
            name = f"test/{site}/a.mp4#{index}"
            images.append({"id": image_id, "file_name": name, "width": SIZE[0], "height": SIZE[1]})
            boxes[image_id] = [[0, 0, 16, 16]] if index < N_BIRDS else []
            if index < 3:  # labelled again, one bird overlooked
                second[image_id] = [] if (site, index) == ("quay", 2) else [[0, 0, 16, 15]]
            if index < N_BIRDS - (site == "quay"):  # one bird missed at the quay
                found.append(
                    {"image_id": image_id, "category_id": 1, "bbox": [0, 0, 16, 16], "score": 0.9 - index / 20}
                )
    alarm = next(i["id"] for i in images if i["file_name"] == "test/quay/a.mp4#9")
    found.append({"image_id": alarm, "category_id": 1, "bbox": [60, 60, 20, 20], "score": 0.5})
    cap = cv2.VideoCapture(str(data / "test" / "barn" / "a.mp4"))
    (data / "train" / "barn").mkdir(parents=True)
    rng = np.random.default_rng(3)
    for n in range(4):
        ok, frame = cap.read()
        assert ok
        picture = frame if n == 1 else rng.integers(0, 255, (SIZE[1], SIZE[0], 3), np.uint8)
        cv2.imwrite(str(data / "train" / "barn" / f"{n}.png"), picture)
        images.append({"id": 100 + n, "file_name": f"train/barn/{n}.png", "width": SIZE[0], "height": SIZE[1]})
        boxes[100 + n] = (
            [[10, 10, 60, 60], [10, 10, 60, 60]] if n == 0 else [[200, 10, 20, 20]] if n == 1 else [[5, 5, 60, 60]]
        )
    cap.release()
    (data / "labels.json").write_text(json.dumps(coco(images, boxes)))
    again = [i for i in images if i["id"] in second]
    (data / "second.json").write_text(json.dumps(coco(again, second)))
    (data / "found.json").write_text(json.dumps(found))
    recipe = {
        "name": "study",
        "data": {
            "root": "data",
            "media": [
                {"videos": "test/*/*.mp4", "session": "test/([a-z]+)/", "site": "test/([a-z]+)/"},
                {"images": "train/*/*.png", "session": "quay", "site": "train/([a-z]+)/", "split": "train"},
            ],
            "labels": [
                {"path": "data/labels.json", "format": "coco", "unlisted": "empty"},
                {"path": "data/second.json", "format": "coco", "second": True, "unlisted": "unlabelled"},
            ],
        },
        "models": [{"name": "given", "predictions": "data/found.json"}],
        "scoring": {"thin_s": 0.6, "published": ["western_bluebird"]},
        "notebooks": ["00_data_audit", "02_detection"],
    }
    (root / "study.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert run_recipe(root / "study.yaml") == 0
    return root / "study"


def table(run: Path, name: str) -> list[dict]:
    return pl.read_parquet(run / "tables" / f"{name}.parquet").to_dicts()


def metric(run: Path, name: str, **key: str) -> dict:
    rows = pl.read_parquet(run / "tables" / "metrics_detection.parquet").filter(pl.col("metric") == name)
    rows = rows.filter(~pl.col("method").str.contains("_sessions|max_f1"))
    for column, wanted in {"model": "given", "group": "all", "level": "all", **key}.items():
        rows = rows.filter(pl.col(column) == wanted)
    assert rows.height == 1, (name, key, rows)
    return rows.row(0, named=True)


def test_splits_that_differ_and_what_leaks_between_them(run: Path) -> None:
    found = table(run, "tab-leaks")
    assert {"kind": "session", "what": "quay (14 frames)", "splits": "test, train"} in found
    assert {"kind": "site", "what": "barn (14 frames)", "splits": "test, train"} in found
    near = [r["what"] for r in found if r["kind"] == "near-duplicate frame"]
    assert any("≈ train/barn/1.png" in what for what in near)
    assert not [what for what in near if "train/barn/0.png" in what or "train/barn/2.png" in what]  # noise, not a copy
    differ = [r["what"] for r in found if r["kind"] == "differs"]
    assert any("median box" in what for what in differ) and any(
        "empty frames: 0.4 against 0" in what for what in differ
    )
    splits = {r["split"]: r for r in table(run, "tab-splits")}
    counted = {name: [r[k] for k in ("sites", "sessions", "labelled", "empty", "birds")] for name, r in splits.items()}
    assert counted == {"test": [2, 2, 12, 8, 12], "train": [1, 1, 4, 0, 5]}
    assert "stand in two splits" in (run / "report.html").read_text()


def test_doubtful_labels_are_counted_and_all_kept(run: Path) -> None:
    doubts = table(run, "tab-doubtful")
    kinds = {r["kind"]: r["n"] for r in doubts}
    assert kinds == {"outside the frame": 1, "the same box twice": 1, "the same file twice": 1}
    assert doubts[2]["examples"] == "test/barn/a.mp4; test/quay/a.mp4"
    assert len(table(run, "doubtful_labels")) == 2
    assert "tables/doubtful_labels.parquet" in (run / "report.html").read_text()


def test_two_observers_in_the_audit_and_as_the_ceiling(run: Path) -> None:
    (agreed,) = table(run, "tab-agreement")
    assert (agreed["frames"], agreed["recall"], agreed["precision"]) == (6, pytest.approx(5 / 6), 1)
    assert agreed["mean_iou"] == pytest.approx(15 / 16)
    row = next(r for r in table(run, "tab-detection") if r["model"] == "human")
    assert row["recall"] == pytest.approx(5 / 6) and row["frames"] == "twice"
    assert row["ap"] == pytest.approx(agreed["ap"])
    # Drawn: the diamond of the precision-recall figure.
    assert "second observer" in (run / "figures" / "fig-pr.svg").read_text()


def test_numbers_of_the_video(run: Path) -> None:
    assert [metric(run, name)["value"] for name in ("tp", "fp", "fn")] == [11, 1, 1]
    assert metric(run, "recall", group="site", level="quay")["value"] == pytest.approx(5 / 6)
    assert metric(run, "false_alarms_per_1000_empty_frames")["value"] == pytest.approx(1000 / 8)
    # Twenty frames that stand for 0.2 s each.
    assert metric(run, "false_alarms_per_hour")["value"] == pytest.approx(3600 / 4)
    (alarms,) = table(run, "tab-alarms")
    assert (alarms["n_empty"], alarms["false_alarms_per_hour"]) == (8, pytest.approx(900))
    # Frames 0, 3, 6, 9 of either video: two of four have a bird.
    thinned = {"group": "thinned", "level": "0.6 s"}
    assert metric(run, "n_frames", **thinned)["value"] == 8 and metric(run, "tp", **thinned)["value"] == 4
    kept = next(r for r in table(run, "tab-detection") if r["frames"] == "0.6 s")
    assert kept["model_note"] == "frames at least 0.6 s apart" and kept["recall"] == 1


def test_published_rows_and_pictures(run: Path) -> None:
    printed = [r for r in table(run, "tab-detection") if r["is_published"]]
    assert len(printed) == 9 and {r["frames"] for r in printed} == {None}
    panels = {name: json.loads((run / "figures" / f"gal-{name}.json").read_text()) for name in ("samples", "outcomes")}
    shown = {k: v["panels"] if isinstance(v, dict) else v for k, v in panels.items()}
    assert len(shown["samples"]) == 2  # one per session
    kinds = {b["kind"] for panel in shown["outcomes"] for b in panel["boxes"]}
    assert kinds == {"hit", "miss", "fa"}
    f1 = pl.read_csv(run / "figures" / "fig-f1.csv")
    assert f1["f1"].max() == pytest.approx(22 / 23)  # eleven found, one missed, the false alarm's score not reached
