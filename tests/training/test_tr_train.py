"""Training: logs, stopping, seeds, determinism, kill and resume, cards; both libraries on small made pictures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_cases import DETECT, SEGMENT, made_data

from birdlab.errors import DataError, ParameterError
from birdlab.recipe.training import Splitting, Trained, Training
from birdlab.training import curves, determinism, resume, seeds
from birdlab.training.data import TrainingData, check_data, training_data
from birdlab.training.train import (
    ALONE,
    check_models,
    read_trained,
    score_table,
    session_table,
    summary_tables,
    train_models,
    train_one,
)

TORCHVISION = "fasterrcnn_mobilenet_v3_large_320_fpn"
MASKED = "maskrcnn_resnet50_fpn"


def spec_of(library: str, **changes: object) -> Trained:
    """A model that trains in seconds."""
    given = {"name": "wren", "architecture": "tiny.yaml", "imgsz": 64, "batch": 4, "epochs": 3, "lr": 0.01}
    if library == "torchvision":
        given |= {"library": "torchvision", "architecture": TORCHVISION}
    else:
        given |= {"settings": {"warmup_epochs": 0.5}}
    return Trained(**(given | changes))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    (folder / "tiny.yaml").write_text(DETECT, encoding="utf-8")
    (folder / "tiny-seg.yaml").write_text(SEGMENT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(place: Path) -> TrainingData:
    return made_data(place / "boxes")


@pytest.fixture(scope="module")
def data_with_masks(place: Path) -> TrainingData:
    return made_data(place / "masks", n={"train": 4, "val": 2, "test": 2}, masks=True)


# The log


def test_first_of_equal_epochs_is_best_and_zero_never_stops() -> None:
    rows = [{"epoch": e, "val_ap": v} for e, v in enumerate([0.0, 0.0, 0.0, 0.3, 0.2, 0.3], start=1)]
    assert curves.best_epoch(rows) == 4
    assert curves.why_stop(rows[:3], epochs=99, patience=1) is None
    assert curves.why_stop(rows, epochs=99, patience=2) == "patience"
    assert curves.why_stop(rows, epochs=99, patience=3) is None
    assert curves.best_epoch([]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_best_epoch_has_the_highest_score(values: list[float]) -> None:
    rows = [{"epoch": e, "val_ap": v} for e, v in enumerate(values, start=1)]
    best = curves.best_epoch(rows)
    assert values[best - 1] == max(values)
    if max(values) > 0:
        assert best - 1 == int(np.argmax(values))


def test_a_log_with_an_epoch_twice_is_refused(tmp_path: Path) -> None:
    rows = [dict.fromkeys(curves.COLUMNS, 1.0) | {"epoch": e, "loss_box": 0.5} for e in (1, 2)]
    curves.write_log(tmp_path / "log.csv", rows)
    log = curves.read_log(tmp_path / "log.csv")
    assert log.columns == ["epoch", "loss", "loss_box", "val_ap", "val_ap50", "lr", "seconds"]
    curve = curves.curve_table([("a", 3, log)])
    assert curve.filter(quantity="loss_box")["value"].to_list() == [0.5, 0.5]
    assert curve.filter("best")["epoch"].unique().to_list() == [1]
    curves.write_log(tmp_path / "log.csv", [rows[0], rows[0]])
    with pytest.raises(DataError, match="every epoch once"):
        curves.read_log(tmp_path / "log.csv")


# Seeds


def test_one_seed_says_so_and_has_no_deviation() -> None:
    scores = pl.DataFrame({"model": ["a", "b", "b"], "seed": [0, 0, 1], "metric": "ap", "value": [0.4, 0.2, 0.6]})
    table = seeds.seed_table(scores)
    assert table["said"].to_list() == ["0.400 (1 seed)", "0.400 ± 0.283 (2 seeds)"]
    assert table["sd"][0] is None and table["reason"].to_list() == ["1 seed", None]
    none = seeds.seed_table(scores.with_columns(value=pl.lit(None, dtype=pl.Float64)))
    assert none["mean"].null_count() == 2 and none["reason"][0] == "undefined for every seed"


def test_variance_components_equal_a_two_way_analysis() -> None:
    rng = np.random.default_rng(5)
    value = 0.5 + rng.normal(0, 0.03, 4)[:, None] + rng.normal(0, 0.1, 6)[None] + rng.normal(0, 0.02, (4, 6))
    rows = [(s, f"s{k}", value[s, k]) for s in range(4) for k in range(6)]
    scores = pl.DataFrame(rows, schema=["seed", "session", "value"], orient="row")
    scores = scores.with_columns(model=pl.lit("a"), metric=pl.lit("ap"))
    found = seeds.seed_variance(scores).row(0, named=True)

    def rest(*factors: np.ndarray) -> float:
        design = np.column_stack([np.ones((24, 1)), *(np.eye(f.max() + 1)[f] for f in factors)])
        y = value.ravel()
        return float(np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2))

    seed, session = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    ms_rest = rest(seed, session) / 15
    ms_seed, ms_session = (rest(session) - 15 * ms_rest) / 3, (rest(seed) - 15 * ms_rest) / 5
    assert found["var_seeds"] == pytest.approx(np.var(value.mean(1), ddof=1))
    assert found["var_sessions"] == pytest.approx(np.var(value.mean(0), ddof=1))
    assert found["ratio"] == pytest.approx(found["var_seeds"] / found["var_sessions"])
    assert found["component_rest"] == pytest.approx(ms_rest)
    assert found["component_seed"] == pytest.approx(max(0, (ms_seed - ms_rest) / 6))
    assert found["component_session"] == pytest.approx((ms_session - ms_rest) / 4)
    one = seeds.seed_variance(scores.filter(pl.col("seed") == 0)).row(0, named=True)
    assert one["reason"] == "1 seed" and one["var_seeds"] is None and one["ratio"] is None
    assert one["var_sessions"] == pytest.approx(np.var(value[0], ddof=1))
    hole = scores.with_columns(
        pl.when((pl.col("seed") == 1) & (pl.col("session") == "s2")).then(None).otherwise("value").alias("value")
    )
    left = seeds.seed_variance(hole).row(0, named=True)
    assert (left["n_sessions"], left["n_left_out"]) == (5, 1)
    assert left["var_seeds"] == pytest.approx(np.var(np.delete(value, 2, axis=1).mean(1), ddof=1))


# Determinism


def test_an_operation_that_cannot_be_deterministic_is_named_and_all_is_put_back() -> None:
    import torch

    with (
        pytest.raises(ParameterError, match="the operation put_, which") as caught,
        determinism.deterministic(True, model="wren"),
    ):
        torch.zeros(3).put_(torch.tensor([1]), torch.tensor([2.0]))
    problem = caught.value.problems[0]
    assert (problem.code, problem.record) == ("not_deterministic", "model wren")
    assert "deterministic: false" in problem.remedy
    assert not torch.are_deterministic_algorithms_enabled()
    with determinism.deterministic(False, model="wren"):
        torch.zeros(3).put_(torch.tensor([1]), torch.tensor([2.0]))
    with pytest.raises(RuntimeError, match="something else"), determinism.deterministic(True, model="wren"):
        raise RuntimeError("something else")


def test_hash_of_a_network_sees_names_types_shapes_and_values() -> None:
    import torch

    base = {"a": torch.zeros(2, 3), "b": torch.ones(1)}
    others = [
        {"a": torch.zeros(3, 2), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3), "c": torch.ones(1)},
        {"a": torch.zeros(2, 3).half(), "b": torch.ones(1)},
        {"a": torch.zeros(2, 3), "b": torch.full((1,), 1.0000001)},
    ]
    hashes = [determinism.state_sha256(s) for s in [base, *others]]
    assert len(set(hashes)) == 5
    assert determinism.state_sha256({"a": torch.zeros(3, 2).T.contiguous().T.T, "b": torch.ones(1)}) == hashes[0]
    assert len(determinism.state_sha256({"n": torch.tensor(3), "e": torch.zeros(0)})) == 64


def test_randomness_of_the_process_is_left_alone() -> None:
    import torch

    torch.manual_seed(1)
    wanted = torch.rand(2)
    torch.manual_seed(1)
    with determinism.own_randomness():
        determinism.seed_all(determinism.epoch_seed(3, 1))
        torch.rand(5)
    assert torch.equal(torch.rand(2), wanted)


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"momentun": 0.9}}, "did you mean momentum?"),
        ({"settings": {"lr0": 0.1}}, "set lr of the model itself"),
        ({"settings": {"amp": True}}, "downloads"),
        ({"settings": {"optimizer": "auto"}}, "picks its own learning rate"),
        ({"settings": {"fliplr": "often"}}, "fliplr"),
        ({"lr": 3.0}, "lr0"),
        ({"architecture": "yolov8nn.yaml"}, "did you mean yolov8n.yaml?"),
        ({"architecture": "tiny-seg.yaml"}, "last layer Segment"),
        ({"architecture": "act.yaml"}, "a layer of torch.nn"),
        ({"architecture": "fetch.yaml"}, "which downloads weights"),
        ({"weights": "nowhere.pt"}, "birdlab never downloads weights"),
        ({"weights": "birdlab:wren"}, "give the path of the file"),
        ({"weights": "tiny.yaml"}, "not a zip archive"),
    ],
)
def test_a_wrong_ultralytics_model_is_refused_in_words(place: Path, changes: dict[str, object], words: str) -> None:
    (place / "act.yaml").write_text(DETECT + 'activation: __import__("os").getcwd()\n', encoding="utf-8")
    fetch = DETECT.replace("[-1, 1, C2f, [16, true]]", "[-1, 1, TorchVision, [16, resnet18, DEFAULT]]", 1)
    (place / "fetch.yaml").write_text(fetch, encoding="utf-8")
    with pytest.raises((ParameterError, DataError)) as caught:
        check_models([spec_of("ultralytics", **changes)], base=place, cache=place / "cache")
    assert words.lower() in str(caught.value).lower()


def test_all_wrong_models_are_named_at_once(place: Path) -> None:
    models = [
        spec_of("torchvision", name="a", architecture="fasterrcnn_resnet50"),
        spec_of("torchvision", name="b", settings={"flip": 2, "momentum": 0.5}),
        spec_of("torchvision", name="c", architecture="maskrcnn_resnet50_fpn"),
        spec_of("torchvision", name="d", settings={"schedule": "linear"}),
    ]
    with pytest.raises(ParameterError) as caught:
        check_models(models, base=place)
    assert [p.record for p in caught.value.problems] == [f"model {m}" for m in "abcd"]
    text = str(caught.value)
    assert "Did you mean fasterrcnn_resnet50_fpn?" in text and "which is for task segment" in text


def test_weights_of_another_network_are_refused_before_anything_is_trained(project: Path, place: Path) -> None:
    weights = project / "birdlab" / "demo" / "weights"
    spec = spec_of("ultralytics", name="b", weights=str(weights / "wren.pt"), architecture=str(weights / "heron.yaml"))
    others = [spec.model_copy(update={"name": "c", "weights": str(weights / "dunlin.pt")})]
    others.append(spec_of("torchvision", name="d", weights=str(place / "tiny.yaml")))
    fits = spec.model_copy(update={"name": "a", "architecture": str(weights / "wren.yaml")})
    with pytest.raises(DataError) as caught:
        check_models([fits, spec, *others], base=place, cache=place / "cache")
    found = [p.found for p in caught.value.problems]
    assert len(found) == 3 and "tensors fit" in found[0] and "ends in Segment" in found[1]
    # `birdlab check` imports no library, and looks at names and hashes only.
    check_models([fits, spec, others[0]], base=place)


def test_the_data_of_all_tasks_are_looked_at_first(place: Path, data: TrainingData, tmp_path: Path, tiny: None) -> None:
    models = [spec_of("torchvision"), spec_of("torchvision", name="b", task="segment", architecture=MASKED)]
    run = SimpleNamespace(dir=tmp_path, base=place, recipe=SimpleNamespace(device="cpu"))
    with pytest.raises(DataError) as caught:
        train_models(run, Training(models=models), data)
    assert [p.found for p in caught.value.problems] == [
        f"no labelled bird with a mask in {p}" for p in ("train", "val")
    ]
    assert not (tmp_path / "training" / "wren" / "seed-0").exists()


def test_data_without_birds_or_with_other_classes_are_refused(data: TrainingData) -> None:
    val = data.part("val")["frame_id"].to_list()
    bare = data.labels.filter(~pl.col("frame_id").is_in(val)).with_columns(category=pl.lit("gull"))
    poor = TrainingData(data.frames, bare, data.media, data.split, ("bird",))
    with pytest.raises(DataError) as caught:
        check_data(poor, task="detect")
    assert [p.code for p in caught.value.problems] == ["no_birds", "unknown_category"]
    with pytest.raises(DataError, match="with a mask in train"):
        check_data(data, task="segment")


def test_hash_of_data_follows_labels_parts_and_pictures(data: TrainingData) -> None:
    def changed(**tables: pl.DataFrame) -> str:
        given = {"frames": data.frames, "labels": data.labels, "media": data.media, "split": data.split}
        return TrainingData(**(given | tables), categories=data.categories).sha256

    assert changed() == changed(labels=data.labels.reverse(), frames=data.frames.reverse()) == data.sha256
    assert changed(labels=data.labels.with_columns(pl.col("x") + 1)) != data.sha256
    assert changed(split=data.split.with_columns(split=pl.lit("train"))) != data.sha256
    assert changed(media=data.media.with_columns(sha256=pl.lit("0" * 64))) != data.sha256


# Both libraries


def _script(library: str, place: Path, out: Path) -> str:
    """A run that kills itself in the second step of its second epoch."""
    return f"""
import os, signal, sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(Path(__file__).parent)!r}]
from pathlib import Path
import torch.optim.optimizer as optimizer
from training_cases import made_data
from test_tr_train import spec_of
from birdlab.training.train import train_one
done, steps = [0], [0]
def after(*_):
    steps[0] += done[0] >= 1
    if steps[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
optimizer.register_optimizer_step_post_hook(after)
data = made_data(Path({str(place / "again")!r}))
base = Path({str(place)!r})
train_one(spec_of({library!r}), data, Path({str(out)!r}), base=base, progress=lambda n, _: done.__setitem__(0, n))
"""


@pytest.fixture
def one_thread() -> Iterator[dict[str, str]]:
    """One thread for torch here, and the environment that gives a process of its own the same: the number decides the last bits."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield {**os.environ, "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["ultralytics", "torchvision"])
def test_a_killed_run_resumes_and_ends_like_an_unbroken_one(
    library: str, place: Path, data: TrainingData, tmp_path: Path, one_thread: dict[str, str]
) -> None:
    import torch

    spec, out = spec_of(library), tmp_path / "killed"
    killed = subprocess.run(
        [sys.executable, "-c", _script(library, place, out)], capture_output=True, text=True, env=one_thread
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    folder = out / "wren" / "seed-0"
    assert curves.read_log(folder / "log.csv")["epoch"].to_list() == [1]
    first = (folder / "log.csv").read_text(encoding="utf-8").splitlines()[1]
    assert read_trained(folder) is None
    with pytest.raises(ParameterError, match="batch"):
        train_one(spec.model_copy(update={"batch": 2}), data, out, base=place)
    held = torch.load(folder / "last.pt", weights_only=True)
    assert held["moving"]["optimiser"]["state"], "the optimiser's state is saved"
    before = torch.rand(1), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()

    steps: list[tuple[int, int]] = []
    resumed = train_one(spec, data, out, base=place, progress=lambda n, of: steps.append((n, of)))
    assert (before[1], before[2]) == (torch.are_deterministic_algorithms_enabled(), torch.get_num_threads())
    assert steps[0] == (1, 3) and steps[-1] == (3, 3)
    assert resumed.log["epoch"].to_list() == [1, 2, 3]
    assert (folder / "log.csv").read_text(encoding="utf-8").splitlines()[1] == first
    assert resumed.card["training"]["resumed_after"] == [1]
    assert "after epoch 1" in (folder / "card.md").read_text(encoding="utf-8")

    whole = train_one(spec, data, tmp_path / "whole", base=place)
    columns = [c for c in whole.log.columns if c != "seconds"]
    assert resumed.log.select(columns).equals(whole.log.select(columns)), "losses, scores and rates go on"
    assert whole.log["lr"].n_unique() == 3
    for key in ("state_sha256", "last_sha256", "sha256"):
        assert resumed.card["weights"][key] == whole.card["weights"][key]
    assert whole.card["training"]["resumed_after"] == []

    other = train_one(spec.model_copy(update={"seeds": [7]}), data, tmp_path / "whole", base=place)
    assert other.seed == 7 and other.card["weights"]["last_sha256"] != whole.card["weights"]["last_sha256"]
    assert [whole.scores["test"]["looks"], other.scores["test"]["looks"]] == [1, 2]
    _check_finished(spec, data, whole, tmp_path / "whole", place)
    _check_tables([whole, other])


def _check_finished(spec: Trained, data: TrainingData, whole: object, out: Path, place: Path) -> None:
    """A finished run is read, not trained or scored again; its files are safe and name nothing of this machine."""
    again = train_one(spec, data, out, base=place, progress=lambda *_: pytest.fail("trained again"))
    assert again.card == whole.card
    assert sorted(p.name for p in whole.folder.iterdir()) == ["best.pt", "card.json", "card.md", "last.pt", "log.csv"]
    for name in ("best.pt", "card.json", "card.md"):
        content = (whole.folder / name).read_bytes()
        assert str(place).encode() not in content and str(out).encode() not in content and b"/home" not in content
    card = json.loads((whole.folder / "card.json").read_text(encoding="utf-8"))
    assert card["data"]["parts"]["train"] == {
        "frames": 8,
        "empty": 1,
        "birds": 11,
        "masks": 0,
        "sessions": 4,
        "sites": 1,
    }
    weights = whole.weights.read_bytes()
    whole.weights.write_bytes(weights[:-1] + b"?")
    with pytest.raises(DataError, match="as the card says"):
        train_one(spec, data, out, base=place)
    whole.weights.write_bytes(weights)
    with pytest.raises(ParameterError, match="epochs"):
        train_one(spec.model_copy(update={"epochs": 4}), data, out, base=place)


def _check_tables(trained: list) -> None:
    tables = summary_tables(trained)
    assert tables["training_seeds"]["n_seeds"].to_list() == [2, 2]
    assert tables["training_curves"].filter(quantity="loss").height == 6
    assert score_table(trained)["metric"].to_list() == ["ap", "ap50"] * 2
    sessions = session_table(trained)
    assert sessions["session"].unique().sort().to_list() == ["test-0", "test-1"]
    assert tables["training_variance"]["n_seeds"].to_list() == [2, 2]


@pytest.mark.slow
def test_a_segmenter_learns_and_its_log_agrees_with_the_card(place: Path, tmp_path: Path) -> None:
    data = made_data(tmp_path / "data", n={"train": 32, "val": 4, "test": 4}, masks=True)
    changes = {"architecture": "tiny-seg.yaml", "epochs": 10, "imgsz": 96, "settings": {"mosaic": 0.0}}
    made = train_one(spec_of("ultralytics", task="segment", **changes), data, tmp_path, base=place)
    assert {"loss_box", "loss_seg", "loss_cls"} <= set(made.log.columns)
    best = made.log.row(made.card["training"]["best_epoch"] - 1, named=True)
    assert best["val_ap50"] > 0.3
    val = made.scores["val"]
    assert (best["val_ap"], best["val_ap50"]) == pytest.approx((val["mask_ap"], val["mask_ap50"]))
    assert {"ap", "ap50", "mask_ap", "mask_ap50"} <= set(made.scores["test"])


def _tiny(kind: str, *, num_classes: int, min_size: int = 64, max_size: int = 64, **_: object) -> object:
    """A Faster or Mask R-CNN of 0.06 million parameters in place of one on a ResNet-50 or MobileNet."""
    from torch import nn
    from torchvision.models import detection
    from torchvision.models.detection import faster_rcnn as box
    from torchvision.models.detection import mask_rcnn as mask
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    def block(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]

    body = nn.Sequential(*block(3, 16), *block(16, 32), *block(32, 32))
    body.out_channels = 32
    masks = {
        "mask_roi_pool": MultiScaleRoIAlign(["0"], 14, 2),
        "mask_head": mask.MaskRCNNHeads(32, (16,), 1),
        "mask_predictor": mask.MaskRCNNPredictor(16, 16, num_classes),
    }
    return getattr(detection, kind)(
        body,
        min_size=min_size,
        max_size=max_size,
        rpn_anchor_generator=AnchorGenerator(((16, 24),), ((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 5, 2),
        box_head=box.TwoMLPHead(32 * 25, 32),
        box_predictor=box.FastRCNNPredictor(32, num_classes),
        rpn_pre_nms_top_n_train=100,
        rpn_post_nms_top_n_train=50,
        **(masks if kind == "MaskRCNN" else {}),
    )


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very small networks under the names of two of torchvision's builders."""
    from torchvision.models import detection

    monkeypatch.setattr(detection, "maskrcnn_resnet50_fpn", partial(_tiny, "MaskRCNN"))
    monkeypatch.setattr(detection, TORCHVISION, partial(_tiny, "FasterRCNN"))


def test_a_mask_rcnn_learns_and_its_log_agrees_with_the_adapter(place: Path, tmp_path: Path, tiny: None) -> None:
    data = made_data(tmp_path / "data", n={"train": 16, "val": 4, "test": 4}, masks=True)
    spec = spec_of("torchvision", task="segment", architecture="maskrcnn_resnet50_fpn", epochs=12, lr=0.02, imgsz=80)
    made = train_one(spec, data, tmp_path)
    assert "loss_mask" in made.log.columns
    assert made.log["loss"][11] < made.log["loss"][0]
    best = made.log.row(made.card["training"]["best_epoch"] - 1, named=True)
    assert best["val_ap50"] > 0.3
    assert (best["val_ap"], best["val_ap50"]) == pytest.approx(
        (made.scores["val"]["mask_ap"], made.scores["val"]["mask_ap50"])
    )
    tuned = spec.model_copy(update={"name": "tuned", "weights": str(made.weights), "epochs": 1, "lr": 1e-9})
    again = train_one(tuned, data, tmp_path)
    # A rate of almost 0 and frozen batch norms: the fine-tuned network is the one it started from.
    assert again.scores["val"]["mask_ap"] == pytest.approx(made.scores["val"]["mask_ap"], abs=0.01)
    assert any("tensors start from best.pt; batch normalisation stays" in text for text in again.card["limits"])


def test_a_backbone_starts_from_its_classifier_and_others_are_refused(tmp_path: Path) -> None:
    import torch
    from torchvision.models import mobilenet_v3_large, mobilenet_v3_small

    from birdlab.training import torchvision_models as models

    network = models.build(spec_of("torchvision"), 1)
    torch.save(mobilenet_v3_large(weights=None).state_dict(), tmp_path / "large.pth")
    torch.save(mobilenet_v3_small(weights=None).state_dict(), tmp_path / "small.pth")
    taken, left = models.start_from(network, tmp_path / "large.pth")
    held = torch.load(tmp_path / "large.pth", weights_only=True)
    assert torch.equal(network.state_dict()["backbone.body.0.0.weight"], held["features.0.0.weight"])
    assert taken > 100 and not any(name.startswith("backbone.body") for name in left)
    with pytest.raises(DataError, match="tensors of the backbone's body"):
        models.start_from(network, tmp_path / "small.pth")


def test_early_stopping_ends_a_run_and_keeps_the_best_weights(
    data: TrainingData, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from birdlab.training import torchvision_train

    values = iter([0.2, 0.5, 0.4, 0.3, 0.9])
    monkeypatch.setattr(torchvision_train, "score", lambda *_, **__: {"ap": next(values), "ap50": 0.6})
    hashes = []
    added = resume.Course.add
    monkeypatch.setattr(
        resume.Course,
        "add",
        lambda s, row, state: (hashes.append(determinism.state_sha256(state)), added(s, row, state)),
    )
    made = train_one(spec_of("torchvision", epochs=9, patience=2, batch=8), data, tmp_path)
    assert made.card["training"] | {"epochs": 4, "best_epoch": 2, "stopped": "patience"} == made.card["training"]
    assert made.card["weights"]["state_sha256"] == hashes[1] and made.card["weights"]["last_sha256"] == hashes[3]
    assert "no better validation score for 2 epochs" in (made.folder / "card.md").read_text(encoding="utf-8")


def test_flips_move_boxes_and_masks_together(data_with_masks: TrainingData) -> None:
    from pycocotools import mask as coco

    from birdlab.detection.boxes import decode_rle
    from birdlab.training import torchvision_train as tv

    spec = spec_of("torchvision", task="segment", architecture="maskrcnn_resnet50_fpn")
    plan = tv._Plan(spec, 0, tv.SETTINGS, "cpu")
    examples, _ = tv._Examples.of(data_with_masks, plan)
    for flip in (False, True):
        image, target = examples._example(1, flip=flip)
        assert image.shape == (3, 64, 80) and target["masks"].shape[0] == 2
        for box, mask in zip(target["boxes"].numpy(), target["masks"].numpy(), strict=True):
            ys, xs = np.nonzero(mask)
            assert box.tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            # Birds are bright and the ground is dark: the box lies on a bird. Red comes first.
            x0, y0, x1, y1 = box.astype(int)
            assert image[:, y0:y1, x0:x1].mean(dim=(1, 2)).numpy() * 255 == pytest.approx([250, 200, 40])
    empty = examples.labels[data_with_masks.part("train")["frame_id"][0]]
    assert coco.decode(decode_rle(empty[0]["mask_rle"])).shape == (64, 80)
    order = [[t["boxes"].tolist() for t in targets] for _, targets in examples.batches(1)]
    assert order == [[t["boxes"].tolist() for t in targets] for _, targets in examples.batches(1)]
    assert order != [[t["boxes"].tolist() for t in targets] for _, targets in examples.batches(2)]


def test_boxes_of_the_loop_equal_those_of_torchvision_itself() -> None:
    import torch

    from birdlab.training import torchvision_models as models

    torch.manual_seed(0)
    spec = spec_of("torchvision")
    network = models.build(spec, 1).eval()
    picture = np.random.default_rng(1).integers(0, 255, (61, 97, 3), dtype=np.uint8)
    found = models.detect(network, picture, device="cpu", masks=False)
    with torch.inference_mode():
        own = network([models.to_input(picture, "cpu")])[0]
    assert len(own["scores"]) > 0
    assert found.scores == pytest.approx(own["scores"].numpy())
    xyxy = np.clip(own["boxes"].numpy(), 0, [97, 61, 97, 61])
    assert np.concatenate([found.xywh[:, :2], found.xywh[:, :2] + found.xywh[:, 2:]], axis=1) == pytest.approx(xyxy)
    assert set(found.classes) == {0}


def test_a_loss_that_is_not_finite_is_an_error_with_a_remedy(data: TrainingData, tmp_path: Path, tiny: None) -> None:
    with pytest.raises(DataError, match="not finite in epoch 1.*[Ll]ower lr"):
        train_one(spec_of("torchvision", lr=1e30, settings={"warmup_steps": 0, "clip": 1e30}), data, tmp_path)
    assert not (tmp_path / "wren" / "seed-0" / "card.json").exists()


def test_so_it_is_with_ultralytics(
    place: Path, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from birdlab.inference.checkpoint import import_ultralytics

    import_ultralytics()
    from ultralytics.nn.tasks import DetectionModel

    own = DetectionModel.loss

    def spoilt(*given: object, **more: object) -> tuple[object, object]:
        loss, parts = own(*given, **more)
        return loss * float("nan"), {k: v * float("nan") for k, v in parts.items()}

    monkeypatch.setattr(DetectionModel, "loss", spoilt)
    with pytest.raises(DataError, match="not finite in epoch 1.*[Ll]ower lr"):
        train_one(spec_of("ultralytics"), data, tmp_path, base=place)
    assert not (tmp_path / "wren" / "seed-0" / "last.pt").exists()


def test_a_damaged_checkpoint_is_refused(data: TrainingData, tmp_path: Path) -> None:
    folder = tmp_path / "wren" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "last.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(DataError, match="delete the file to train from the first epoch|Delete the file"):
        train_one(spec_of("torchvision"), data, tmp_path)


@pytest.mark.slow
def test_the_split_of_a_recipe_is_exported_and_trained_on(place: Path, data: TrainingData, tmp_path: Path) -> None:
    from birdlab.training.splits import make_splits

    training = Training(split=Splitting(by="session"), models=[spec_of("ultralytics", epochs=1, seeds=[0, 1])])
    splits = make_splits(data.frames, data.labels, training.split, media=data.media)
    tables = (data.frames, data.labels, data.media)
    mine = training_data(tables, splits, training, tmp_path, categories=["bird"], about=("made", "CC0"))
    assert mine.counts()["train"]["frames"] == splits.table.filter(pl.col("split") == "train").height
    made = train_one(training.models[0], mine, tmp_path / "out", base=place)
    assert made.card["split"] == {"by": "session", "sha256": splits.sha256}
    tuned = spec_of("ultralytics", name="tuned", weights=str(made.weights), epochs=1, batch=2)
    assert any(
        "tensors start from best.pt" in t for t in train_one(tuned, mine, tmp_path / "out", base=place).card["limits"]
    )
    (place / "wide.yaml").write_text(DETECT.replace("[16,", "[24,"), encoding="utf-8")
    wide = spec_of("ultralytics", name="wide", weights=str(made.weights), architecture=str(place / "wide.yaml"))
    with pytest.raises(DataError, match="tensors fit"):
        train_one(wide, mine, tmp_path / "out", base=place)


def test_all_models_and_seeds_of_a_study_are_trained(
    place: Path, data: TrainingData, tmp_path: Path, tiny: None
) -> None:
    models = [spec_of("torchvision", epochs=1, seeds=[0, 1]), spec_of("torchvision", name="heron", epochs=1)]
    training = Training(split=Splitting(by="session", refuse=["session"]), models=models)
    tables = {"frames": data.frames, "labels": data.labels, "media": data.media}
    sections = SimpleNamespace(data=SimpleNamespace(categories=["bird"], licence=""), name="made", device="cpu")
    run = SimpleNamespace(dir=tmp_path, base=place, recipe=sections, table=tables.__getitem__)
    trained = train_models(run, training)
    assert [(t.name, t.seed) for t in trained] == [("wren", 0), ("wren", 1), ("heron", 0)]
    assert (tmp_path / "training" / "splits.json").exists()
    assert [t.scores["test"]["looks"] for t in trained] == [1, 2, 3]
    said = dict(summary_tables(trained)["training_seeds"].filter(metric="ap").select("model", "said").rows())
    assert said["wren"].endswith("(2 seeds)") and said["heron"].endswith("(1 seed)")
    assert [t.card for t in train_models(run, training)] == [t.card for t in trained]

    # Another seed and another licence make no other weights, but the finished cards tell of them.
    models[1] = models[1].model_copy(update={"seeds": [0, 5], "licence": "CC-BY-4.0"})
    more = train_models(run, training.model_copy(update={"models": models}))
    old, new = trained[2].card, more[2].card
    assert ALONE in old["limits"] and ALONE not in new["limits"] and ALONE not in more[3].card["limits"]
    assert (old["n_seeds"], new["n_seeds"], new["licence"]["weights"]) == (1, 2, "CC-BY-4.0")
    assert new["weights"] == old["weights"] and new["scores"] == old["scores"]
    assert read_trained(more[2].folder).card == new
    text = (more[2].folder / "card.md").read_text(encoding="utf-8")
    assert "| Licence of the weights | CC-BY-4.0 |" in text and "0 (one of 2)" in text
    assert [t.card for t in train_models(run, training)][2] == old | {"limits": [*new["limits"], ALONE]}


def test_a_card_without_a_test_part_and_with_hostile_names(data: TrainingData, tmp_path: Path, tiny: None) -> None:
    split = data.split.filter(pl.col("split") != "test")
    name = "<b>bird|\nx"
    labels = data.labels.with_columns(category=pl.lit(name))
    bare = TrainingData(data.frames, labels, data.media, split, (name,), name="<script>")
    made = train_one(spec_of("torchvision", epochs=1), bare, tmp_path)
    assert made.scores["test"] is None and made.scores["val"]["ap"] is not None
    assert not (tmp_path / "test_looks.json").exists()
    text = (made.folder / "card.md").read_text(encoding="utf-8")
    assert "nothing was tested" in text and "not tested on any frame" in text
    assert "<b>" not in text and "<script>" not in text and "&lt;b>bird\\| x" in text
    assert score_table([made]).is_empty() and summary_tables([made])["training_variance"].is_empty()
