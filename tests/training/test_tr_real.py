"""Fine-tuning on real birds: split by site, taken up again, scored plain and fine-tuned on the same held-out frames.

Nothing here asserts that fine-tuning helps; ``benchmarks/finetune_crops.py`` measures that.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
import yaml

from birdlab.detection.engine import evaluate
from birdlab.study import start
from birdlab.training.data import study_data
from birdlab.training.leaks import find_leaks
from birdlab.training.train import TrainedModel, read_trained, train_one

pytestmark = [pytest.mark.real, pytest.mark.slow]
SMALL = {"imgsz": 128, "batch": 16, "epochs": 3, "patience": 3, "lr": 0.002}


class Stopped(Exception):
    """In place of whatever ends a process."""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "finetune_crops.py"
    spec = importlib.util.spec_from_file_location("finetune_crops", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def crops(real_data: Path) -> Path:
    return (real_data / "flying_birds" / "crops").resolve()


@pytest.fixture(scope="module")
def recipe(bench: ModuleType, crops: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bench.training_recipe(crops, tmp_path_factory.mktemp("crops"), 0, **SMALL)


@pytest.fixture(scope="module")
def tuned(bench: ModuleType, recipe: Path) -> TrainedModel:
    """Stopped after its first epoch, and taken up again by what the recipe's own run does."""
    run = start(str(recipe), notebook="train_detector")
    assert run.recipe.training is not None
    place, spec = run.dir / "training", run.recipe.training.models[0]

    def stop(done: int, _: int) -> None:
        if done == 1:
            raise Stopped

    with pytest.raises(Stopped):
        train_one(spec, study_data(run, run.recipe.training, place), place, base=run.base, progress=stop)
    assert read_trained(place / "tuned" / "seed-0") is None
    (made,) = bench.fine_tune(recipe)
    return made


def sites(frames: pl.DataFrame) -> set[str]:
    return set(frames["site_id"])


def test_no_site_no_session_and_no_picture_stands_in_two_parts(bench: ModuleType, recipe: Path, tuned: TrainedModel):
    run = start(str(recipe), notebook="train_detector")
    assert run.recipe.training is not None
    data = study_data(run, run.recipe.training, run.dir / "training")
    parts = {name: data.part(name) for name in ("train", "val", "test")}
    assert sites(parts["test"]) == {"birch", "field"} and sites(parts["val"]) == {"harbour"}
    assert sites(parts["train"]) == {"golf", "park", "sky"}
    assert {name: part.height for name, part in parts.items()} == {"train": 71, "val": 35, "test": 52}
    assert find_leaks(data.frames, data.media, data.split).is_empty()
    assert (data.licence, data.split_by) == ("CC0-1.0", "site")
    listed = Path(data.yolo["detect"]).parent
    names = [sorted(p.stem for p in (listed / "images" / part).iterdir()) for part in ("train", "val")]
    assert [len(n) for n in names] == [71, 35] and not set(names[0]) & set(names[1])
    assert tuned.card["data"]["sha256"] == data.sha256 and tuned.card["split"]["sha256"] == data.split_key
    tested = [site for test, _ in bench.TURNS for site in test]
    assert sorted(tested) == sorted(bench.SITES), "each site is tested in one turn"
    assert all(not set(test) & set(val) for test, val in bench.TURNS)


def test_a_stopped_run_went_on_and_its_card_says_so(recipe: Path, tuned: TrainedModel):
    assert tuned.log["epoch"].to_list() == [1, 2, 3]
    assert tuned.card["training"]["resumed_after"] == [1]
    assert tuned.card["licence"] == {
        "weights": "AGPL-3.0",
        "data": "CC0-1.0",
        "library": "AGPL-3.0 (weights trained with it included)",
    }
    assert (
        tuned.card["data"]["parts"]["test"] | {"frames": 52, "birds": 53, "masks": 53, "sites": 2}
        == (tuned.card["data"]["parts"]["test"])
    )
    assert any("tensors start from wren.pt" in text for text in tuned.card["limits"])
    text = (tuned.folder / "card.md").read_text(encoding="utf-8")
    assert "| Licence of the data | CC0-1.0 |" in text and "after epoch 1" in text
    assert str(recipe.parent) not in text + json.dumps(tuned.card)


def test_plain_and_fine_tuned_are_scored_on_the_same_frames_and_as_the_card_says(
    bench: ModuleType, recipe: Path, tuned: TrainedModel
):
    run = bench.plain_and_tuned(recipe, tuned)
    tables = bench.pooled([run])
    frames, found = tables["frames"], tables["predictions"]
    assert frames.height == 52 and sites(frames) == {"birch", "field"}
    assert run.table("failures").is_empty()
    metrics = run.table("metrics_detection").filter(pl.col("group") == "all")
    for name in ("plain", "tuned"):
        own = evaluate(tables["labels"], found.filter(pl.col("model") == name), frames)
        assert own.n_ground_truth == 53 and own.n_images == 52
        row = metrics.filter(pl.col("model") == name, pl.col("metric") == "ap")
        assert row["value"].to_list() == [own.stats["ap"]] and row["n"].to_list() == [53]
        shares = metrics.filter(pl.col("model") == name, pl.col("metric") == "recall")
        assert shares["n"].to_list()[:3] == [53] * 3, "the value and its two intervals"
    # The adapter of a study, on the file that the card names by its hash, is the judge that wrote the card.
    test = tuned.scores["test"]
    for metric in ("ap", "ap50"):
        row = metrics.filter(pl.col("model") == "tuned", pl.col("metric") == metric)
        assert row["value"].to_list() == pytest.approx([test[metric]], abs=1e-9)
    assert (test["n_frames"], test["n_birds"], test["looks"]) == (52, 53, 1)
    lines = bench.score_lines(tables, ["plain", "tuned"])
    assert lines[0] == "52 frames, 6 sessions, 2 sites"
    assert lines[-1].startswith("recall of plain minus tuned") and lines[-1].endswith("(2 sites)")


def test_a_segmenter_learns_from_run_lengths_and_its_masks_score_as_its_card_says(
    bench: ModuleType, crops: Path, tmp_path: Path
):
    made, run, lines = bench.segment(crops, tmp_path, **SMALL | {"epochs": 2, "lr": 0.005})
    assert made.card["data"]["parts"]["train"]["masks"] == made.card["data"]["parts"]["train"]["birds"] == 76
    assert {"loss_box", "loss_seg"} <= set(made.log.columns)
    metrics = run.table("metrics_detection").filter(pl.col("group") == "all", pl.col("model") == "outlines")
    for metric in ("mask_ap", "mask_ap50", "ap", "ap50"):
        (value,) = metrics.filter(pl.col("metric") == metric)["value"].to_list()
        assert value == pytest.approx(made.scores["test"][metric], abs=1e-9)
    assert lines[0].startswith("masks of 53 birds in 52 frames")


def test_a_faster_rcnn_goes_the_same_way(bench: ModuleType, crops: Path, tmp_path: Path):
    """Two epochs from random weights on three sessions: that they load in a study, and score there as on the card."""
    path = bench.training_recipe(crops, tmp_path, 0)
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    part_of = {"V_BIRD_002": "test", "V_BIRD_046": "train", "V_BIRD_016": "val"}
    frames = start(str(path), notebook="train_detector").table("frames")
    site = dict(frames.select("video_id", "site_id").unique().iter_rows())
    raw["data"]["media"] = [{"images": f"images/{s}_f*.jpg"} for s in part_of]
    raw["training"]["split"]["fixed"] = {site[s]: part for s, part in part_of.items()}
    told = {"name": "frcnn", "library": "torchvision", "architecture": "fasterrcnn_mobilenet_v3_large_320_fpn"}
    raw["training"]["models"] = [told | {"imgsz": 128, "batch": 4, "epochs": 2}]
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    (made,) = bench.fine_tune(path)
    assert made.log["epoch"].to_list() == [1, 2]
    assert {name: n["sites"] for name, n in made.card["data"]["parts"].items()} == dict.fromkeys(part_of.values(), 1)
    run = bench.scoring_run(path, [{"name": "frcnn", "weights": str(made.weights), "imgsz": 128}])
    metrics = run.table("metrics_detection").filter(pl.col("group") == "all", pl.col("model") == "frcnn")
    for metric in ("ap", "ap50"):
        (value,) = metrics.filter(pl.col("metric") == metric)["value"].to_list()
        assert value == pytest.approx(made.scores["test"][metric], abs=1e-9)
    assert run.table("failures").is_empty() and run.table("predictions").height > 0
