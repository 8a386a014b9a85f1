"""The chapter on training, from photographs to the page: split, train, score, card; done again, and stopped by a leak."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cv2
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
import yaml
from pydantic import ValidationError
from training_cases import DETECT

from birdlab import style
from birdlab.chapters import training as say
from birdlab.check.command import check_path
from birdlab.errors import DataError, ParameterError
from birdlab.figures import training as figures
from birdlab.recipe import load_recipe
from birdlab.recipe.training import Training
from birdlab.study import Run
from birdlab.training import study
from birdlab.training.cards_table import COURSE_SCHEMA
from birdlab.training.seeds import seed_table

SITES, PER_SESSION = ("barn", "marsh", "quay"), 4
TABLES = (
    *("splits", "split_facts", "split_table", "split_shape", "leaks", "training_scores", "training_seeds"),
    *("training_variance", "training_curves", "training_cards", "metrics_training"),
)
SHOWN = ("tab-split", "fig-split", "fig-curves", "tab-trained", "tab-seeds", "tab-cards")
SPEC = {"architecture": "tiny.yaml", "imgsz": 96, "batch": 4, "licence": "CC0-1.0"}
SPEC |= {"settings": {"warmup_epochs": 0.5, "mosaic": 0.0}}


def make_study(
    folder: Path, *, seeds: list[int], weights: str | None = None, epochs: int = 3, lr: float = 0.01
) -> Path:
    """24 pictures of 96 × 72 px with bright birds, 2 sessions at each of 3 sites; returns the recipe."""
    rng = np.random.default_rng(11)
    images, boxes = [], []
    for site in SITES:
        for session in ("a", "b"):
            (folder / "photos" / site / session).mkdir(parents=True, exist_ok=True)
            for k in range(PER_SESSION):
                name = f"{site}/{session}/{k}.png"
                picture = rng.integers(0, 70, (72, 96, 3), dtype=np.uint8)
                images.append({"id": len(images) + 1, "file_name": name, "width": 96, "height": 72})
                for n in range(0 if k == 3 else 1 + k % 2):
                    w, h = (int(v) for v in rng.integers(16, 30, 2))
                    x, y = n * 48 + int(rng.integers(0, 48 - w)), int(rng.integers(0, 72 - h))
                    picture[y : y + h, x : x + w] = (40, 200, 250)
                    box = {"image_id": len(images), "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0}
                    boxes.append({"id": len(boxes) + 1, "category_id": 1, **box})
                cv2.imwrite(str(folder / "photos" / name), picture)
    truth = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "bird"}]}
    (folder / "labels.json").write_text(json.dumps(truth), encoding="utf-8")
    (folder / "tiny.yaml").write_text(DETECT, encoding="utf-8")
    media = {"images": "**/*.png", "site": "^([^/]+)/", "session": "^([^/]+/[^/]+)/"}
    model = {"name": "sparrow", **SPEC, "seeds": seeds, "epochs": epochs, "lr": lr}
    model |= {"weights": weights} if weights else {}
    recipe = {"name": "lesson", "device": "cpu", "notebooks": ["train_detector"]}
    recipe["data"] = {"root": "photos", "made": True, "licence": "CC-BY-4.0", "media": [media]}
    recipe["data"]["labels"] = [{"path": "../labels.json", "format": "coco"}]
    recipe["training"] = {"split": {"shares": {"train": 0.34, "val": 0.33, "test": 0.33}}, "models": [model]}
    path = folder / "lesson.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def command(recipe: Path) -> subprocess.CompletedProcess[str]:
    """`birdlab run` on a recipe."""
    line = [sys.executable, "-m", "birdlab.cli", "run", str(recipe)]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


def run_of(recipe: Path) -> Run:
    return Run(load_recipe(recipe), recipe, recipe.parent / "lesson", "train_detector")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The study, trained from random weights with one seed until it finds birds; tables only."""
    run = run_of(make_study(tmp_path_factory.mktemp("first"), seeds=[4], epochs=40))
    run.table("training_cards")
    return run


@pytest.fixture(scope="module")
def done(first: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, trained further with two seeds and reported, by one command; returns the recipe."""
    folder = tmp_path_factory.mktemp("lesson")
    recipe = make_study(folder, seeds=[0, 1], weights="start.pt", lr=0.002)
    shutil.copy(first.dir / "training" / "sparrow" / "seed-4" / "best.pt", folder / "start.pt")
    ended = command(recipe)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.splitlines()[-1].endswith("report.html")
    return recipe


def tables(recipe: Path) -> dict[str, pl.DataFrame]:
    folder = recipe.parent / "lesson" / "tables"
    return {name: pl.read_parquet(folder / f"{name}.parquet") for name in TABLES}


@pytest.mark.slow
def test_split_scores_and_cards_of_the_whole_notebook(done: Path) -> None:
    t, folder = tables(done), done.parent / "lesson"
    site = t["splits"].with_columns(site=pl.col("frame_id").str.split("/").list.first())
    assert site.height == 24 and site.group_by("site").agg(pl.col("split").n_unique())["split"].to_list() == [1, 1, 1]
    assert set(site["split"]) == {"train", "val", "test"}
    facts = t["split_facts"].row(0, named=True)
    assert facts["level"] == "site" and facts["refused"] == ["site", "session", "date", "near_duplicate"]
    kept = json.loads((folder / "training" / "splits.json").read_text(encoding="utf-8"))
    assert kept["sha256"] == facts["sha256"] and t["leaks"].is_empty()
    assert t["split_table"]["split"].to_list() == ["train", "val", "test", "all"]
    whole = t["split_shape"].group_by("split", "what").agg(pl.col("n").sum(), pl.col("share").sum())
    assert whole["share"].to_list() == pytest.approx([1.0] * 6)
    assert sorted(whole.filter(what="birds per frame")["n"].to_list()) == [8, 8, 8]
    assert whole.filter(what="relative size")["n"].sum() == 24

    scores = t["training_scores"]
    assert scores.height == 3 * 2 * 2 and scores["value"].null_count() == 0
    assert scores["n_birds"].unique().to_list() == [8] and (scores["value"] > 0).all()
    for seed in (0, 1):
        place = folder / "training" / "sparrow" / f"seed-{seed}"
        card = json.loads((place / "card.json").read_text(encoding="utf-8"))
        mine = scores.filter((pl.col("seed") == seed) & (pl.col("part") == "test"))
        assert mine.filter(metric="ap")["value"][0] == card["scores"]["test"]["ap"]
        row = t["training_cards"].filter(seed=seed).row(0, named=True)
        assert row["sha256"] == card["weights"]["sha256"] and row["licence"] == "CC0-1.0"
        assert (folder / row["path"]).samefile(place / "best.pt")
        assert row["epochs"] == 3 and row["stopped"] == "epochs" and row["seconds"] > 0
        assert t["training_curves"].filter(seed=seed)["epoch"].to_list() == [1, 2, 3]
    assert t["training_curves"].filter("is_best").height == 2
    two = t["training_seeds"].filter((pl.col("part") == "test") & (pl.col("metric") == "ap")).row(0, named=True)
    mine = scores.filter((pl.col("part") == "test") & (pl.col("metric") == "ap") & (pl.col("stage") == "trained"))
    values = mine["value"].to_numpy()
    assert values[0] != values[1]
    assert (two["mean"], two["sd"]) == pytest.approx((values.mean(), values.std(ddof=1)))
    metrics = t["metrics_training"].filter((pl.col("level") == "test") & (pl.col("metric") == "ap_sd"))
    assert metrics["value"].to_list() == pytest.approx([values.std(ddof=1)]) and metrics["method"][0] == "2 seeds"
    assert t["training_variance"].filter(metric="ap").select("part", "n_seeds", "n_sessions").row(0) == ("test", 2, 2)


@pytest.mark.slow
def test_the_page_is_complete_and_says_what_was_trained(done: Path) -> None:
    folder = done.parent / "lesson"
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["state"] == "complete" and record["notebooks"][0]["status"] == "complete"
    assert set(SHOWN) <= set(record["notebooks"][0]["artefacts"])
    assert record["recipe"]["training"]["models"][0]["seeds"] == [0, 1] and record["test_looks"] == 3
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in (
        "on sites that it never saw",
        "No site is in two parts: 3 sites",
        "2 seeds",
        "CC0-1.0",
        "CC-BY-4.0",
        "AGPL-3.0",
    ):
        assert words in page
    assert "scored 3 times in this folder" in page
    assert '<span class="m hue-blue">sparrow</span> reaches AP' in page
    sha = tables(done)["training_cards"]["sha256"][0]
    assert sha[:16] in page and str(done.parent) not in page
    assert "sparrow: trained, ultralytics tiny.yaml, seeds 0, 1" in page
    notebook = json.loads((folder / "notebooks" / "train_detector.ipynb").read_text(encoding="utf-8"))
    streams = [o for c in notebook["cells"] for o in c.get("outputs", []) if o["output_type"] == "stream"]
    assert streams == []


@pytest.mark.slow
def test_nothing_is_trained_twice(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = done.parent / "lesson"
    files = [p for p in (folder / "training" / "sparrow").rglob("*") if p.is_file()]
    before = {p: p.stat().st_mtime_ns for p in files}
    ended = command(done)
    assert ended.returncode == 0 and "unchanged" in ended.stderr + ended.stdout
    # Tables of another source of birdlab are made again; what was trained is read.
    old = tables(done)
    monkeypatch.setattr("birdlab.report.record.package_digest", lambda **_: "another source")
    monkeypatch.setattr("birdlab.training.train._fit", lambda *_, **__: pytest.fail("trained again"))
    for place in ("train.score_weights", "scoring.score_weights"):
        monkeypatch.setattr(f"birdlab.training.{place}", lambda *_, **__: pytest.fail("looked at again"))
    run = run_of(done)
    for name in TABLES:
        assert run.table(name).equals(old[name]), name
    assert {p: p.stat().st_mtime_ns for p in files} == before
    looks = json.loads((folder / "training" / "test_looks.json").read_text(encoding="utf-8"))
    assert [e["model"] for e in looks] == ["sparrow/seed-0", "sparrow/seed-1", "sparrow/start"]


@pytest.mark.slow
def test_another_version_of_torch_is_another_training(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "versions", lambda library: {"torch": "99.0", "birdlab": "99.0"})
    with pytest.raises(ParameterError) as caught:
        study.build(run_of(done))
    assert [p.found for p in caught.value.problems] == ["torch 99.0"] * 2


@pytest.mark.slow
def test_weights_to_start_from_are_scored_beside_and_one_seed_says_so(first: Run, done: Path) -> None:
    alone, scores = first.table("training_scores"), tables(done)["training_scores"]
    assert set(alone["stage"]) == {"trained"} and first.table("training_seeds")["reason"].to_list() == ["1 seed"] * 4
    assert first.table("training_variance")["reason"].to_list() == ["1 seed"] * 2
    start = scores.filter(pl.col("stage") == "start")
    key = ["part", "metric", "value"]
    assert start["seed"].null_count() == 4 and start.select(key).sort(key).equals(alone.select(key).sort(key))

    printed = say.score_table(tables(done)["training_seeds"], scores)
    assert printed.select("what", "slice", "seeds").rows()[:2] == [
        ("as they were", "ap", "–"),
        ("trained", "ap", "2 seeds"),
    ]
    assert printed["test"][0] == start.filter((pl.col("part") == "test") & (pl.col("metric") == "ap"))["value"][0]
    assert printed["test_sd_reason"][0] == "weights that were not trained here have no seed"
    one = say.score_table(first.table("training_seeds"), alone)
    assert one["test_sd"].null_count() == 2 and one["test_sd_reason"].to_list() == ["1 seed"] * 2
    assert "(1 seed)" in say.answer(first.table("training_seeds"), alone, first.table("split_facts"),
                                    first.table("split_table"))[1]  # fmt: skip
    damaged = done.parent / "lesson" / "training" / "sparrow" / "start.json"
    kept = damaged.read_text(encoding="utf-8")
    damaged.write_text(kept[:-9], encoding="utf-8")
    with pytest.raises(DataError, match="Delete it; the weights are then scored again"):
        study.build(run_of(done))
    damaged.write_text(kept, encoding="utf-8")


def test_a_planted_leak_stops_the_run_and_names_both_frames(tmp_path: Path) -> None:
    recipe = make_study(tmp_path, seeds=[0])
    shutil.copy(tmp_path / "photos" / "barn" / "a" / "0.png", tmp_path / "photos" / "quay" / "b" / "1.png")
    ended = command(recipe)
    assert ended.returncode == 3
    record = json.loads((tmp_path / "lesson" / "run.json").read_text(encoding="utf-8"))
    said = record["notebooks"][0]["error"]["evalue"]
    assert "barn/a/0.png" in said and "quay/b/1.png" in said
    assert record["notebooks"][0]["error"]["ename"] == DataError.__name__
    assert not list((tmp_path / "lesson" / "training").rglob("*.pt"))
    found = [p for p in check_path(recipe) if p.code == "leak_near_duplicate"]
    assert len(found) == 1 and "barn/a/0.png" in found[0].found and "quay/b/1.png" in found[0].found


def test_check_reads_the_section(tmp_path: Path) -> None:
    recipe = make_study(tmp_path, seeds=[0], weights="nowhere.pt")
    raw = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    raw["training"]["models"][0]["settings"] = {"momentun": 0.9}
    raw["training"]["split"]["fixed"] = {"bran": "test"}
    recipe.write_text(yaml.safe_dump(raw), encoding="utf-8")
    text = "\n".join(map(str, check_path(recipe)))
    assert "Did you mean momentum?" in text and "such as barn" in text
    assert [str(p) for p in check_path(make_study(tmp_path / "good", seeds=[0]))] == []
    raw["training"]["models"][0] |= {"task": "segment", "architecture": "yolov8n-seg.yaml", "settings": {}}
    raw["training"] |= {"split": {}, "models": [*raw["training"]["models"], {"name": "b", "architecture": "tiny.yaml"}]}
    del raw["training"]["models"][0]["weights"]
    recipe.write_text(yaml.safe_dump(raw), encoding="utf-8")
    found = [p.found for p in check_path(recipe)]
    assert found == ["no labelled bird with a mask in train", "no labelled bird with a mask in val"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [-1]}, "greater than or equal to 0"),
        ({"seeds": [2**32]}, "less than 4294967296"),
        ({"seeds": [3, 3]}, "expected each once"),
        ({"split": {"shares": {"train": 0.5, "test": 0.5}}}, "which chooses the best epoch"),
        ({"split": {"shares": {"train": 0.5, "val": 0.6}}}, "sum to 1"),
        ({"more": {"name": "Wren", "architecture": "a.yaml"}}, "differ in more than capitals"),
        ({"more": {"name": "wren", "architecture": "a.yaml"}}, "two models called wren"),
    ],
)
def test_a_section_that_cannot_be_is_refused(changes: dict, words: str) -> None:
    model = {"name": "wren", "architecture": "a.yaml", "seeds": changes.get("seeds", [0])}
    training = {"models": [model, *([changes["more"]] if "more" in changes else [])], "split": changes.get("split", {})}
    with pytest.raises(ValidationError, match=words):
        Training.model_validate(training)
    fixed = {"shares": {"train": 0.5, "test": 0.5}, "fixed": {"quay": "val"}}
    assert Training.model_validate({"models": [{"name": "wren", "architecture": "a.yaml"}], "split": fixed})


def test_a_recipe_without_the_section_is_told(tmp_path: Path) -> None:
    recipe = make_study(tmp_path, seeds=[0])
    raw = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    del raw["training"]
    recipe.write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.raises(ParameterError, match="training.models"):
        run_of(recipe).table("split_table")


def test_what_a_recipe_with_training_gets() -> None:
    from birdlab.recipe import parse_recipe

    base = {"name": "x", "data": {"media": [{"images": "*.jpg"}]}}
    training = {"models": [{"name": "wren", "architecture": "yolov8n.yaml"}]}
    assert parse_recipe(base | {"training": training}).steps() == [("train_detector", {})]
    models = [{"name": "heron", "weights": "h.pt"}]
    both = parse_recipe(base | {"training": training, "models": models})
    assert [name for name, _ in both.steps()][-2:] == ["train_detector", "10_summary"]
    assert both.coloured == [["heron"], [], ["wren"]]
    same = parse_recipe(base | {"training": training, "models": [*models, {"name": "wren", "weights": "w.pt"}]})
    assert same.coloured == [["heron", "wren"], [], []]
    with pytest.raises(ParameterError, match="no media to train on"):
        parse_recipe({"name": "x", "data": {}, "abstention": ABSTENTION, "training": training})


ABSTENTION = {"items": "items.csv", "models": [{"name": "a", "scores": "a.csv"}]}


# Words and drawings, from small tables


def scored(ap: float | None, n: int = 10) -> dict | None:
    return None if ap is None else {"n_frames": 4, "n_birds": n, "ap": ap, "ap50": ap / 2, "mask_ap": 0.1}


def trained(name: str, seed: int, val: float, test: float | None, task: str = "detect") -> SimpleNamespace:
    return SimpleNamespace(name=name, seed=seed, scores={"val": scored(val), "test": scored(test)}, card={"task": task})


def seeds_of(scores: pl.DataFrame) -> pl.DataFrame:
    parts = [(p, scores.filter((pl.col("stage") == "trained") & (pl.col("part") == p))) for p in ("val", "test")]
    return pl.concat([seed_table(rows).select(pl.lit(p).alias("part"), pl.all()) for p, rows in parts])


def facts_of(**more: object) -> pl.DataFrame:
    about = {"level": "session", "reason": "whole sessions: 1 site", "sha256": "ab" * 32, "seed": 0, "n_groups": 4}
    about |= {"refused": ["session"], "n_leaks": 1, "n_unlabelled": 2, "test_looks": 5}
    return pl.DataFrame([about | more])


def table_of(**test: int) -> pl.DataFrame:
    row = {"split": "test", "frames": 1, "birds": 1, "sessions": 1, "sites": 0} | test
    return pl.DataFrame([row, row | {"split": "all"}])


def test_without_a_test_part_the_chapter_says_so() -> None:
    scores = study.score_frame([trained("a", 0, 0.5, None)], {})
    seeds = seeds_of(scores)
    said = say.answer(seeds, scores, facts_of(), table_of())
    assert said[1] == "{model:a} reaches AP 0.500 (1 seed) on val."
    assert "only val was scored" in said[2] and "sessions that it never saw" in said[0]
    row = say.score_table(seeds, scores).row(0, named=True)
    assert (row["val"], row["test"], row["test_reason"]) == (0.5, None, "no labelled frame in test")
    assert say.headlines(seeds, scores)[0]["label"] == "AP on val"
    rows = study.metrics_of(scores, dataset="x").filter((pl.col("level") == "test") & (pl.col("metric") == "ap_mean"))
    assert rows.select("value", "reason").row(0) == (None, "undefined for every seed")


def test_val_names_the_best_model_and_start_weights_are_told() -> None:
    both = [trained("a", 0, 0.6, 0.3), trained("a", 1, 0.8, 0.5), trained("b", 0, 0.5, 0.9)]
    start = {"b": {"val": scored(0.1), "test": scored(0.2)}, "c": {"reason": "no head"}}
    scores = study.score_frame([*both, trained("c", 0, 0.1, 0.1, "segment")], start)
    seeds = seeds_of(scores)
    assert say.best_trained(seeds) == "a", "b is better on test, which chooses nothing"
    question, said, detail = say.answer(seeds, scores, facts_of(level="site"), table_of(sites=2, sessions=3))
    assert said == "{model:a} reaches AP 0.400 ± 0.141 (2 seeds) on test."
    assert "3 sessions at 2 sites" in detail and "{model:b}: 0.900 (1 seed)" in detail
    title = say.score_title(seeds, scores)
    assert "{model:b} goes from AP 0.20 to 0.90 on test" in title
    assert title.endswith("{model:c} reaches AP 0.10, mask AP 0.10 on test.")
    worse = study.score_frame(
        [trained("c", 0, 0.6, 0.5, "segment")], {"c": {"val": scored(0.1), "test": scored(0.2) | {"mask_ap": 0.3}}}
    )
    assert say.score_title(seeds_of(worse), worse) == (
        "{model:c} goes from AP 0.20 to 0.50, mask AP 0.30 to 0.10 on test."
    )
    table = say.score_table(seeds, scores)
    assert table.filter(pl.col("model") == "c")["what"].to_list() == ["as they were", "trained"] * 4
    assert table.filter((pl.col("model") == "c") & (pl.col("what") == "as they were"))["test_reason"][0] == "no head"
    assert table.filter(pl.col("slice") == "mask_ap")["model"].unique().to_list() == ["c"]
    metrics = study.metrics_of(scores, dataset="x")
    key = ["model", "group", "level", "metric", "method"]
    assert metrics.select(key).is_unique().all()


def test_what_a_split_lets_pass_is_said() -> None:
    notes = " ".join(say.split_notes(facts_of()))
    assert "1 thing is shared at a level that the recipe lets pass" in notes and "2 unlabelled frames are" in notes
    leaks = pl.DataFrame({"level": ["site", "date"], "what": ["barn {model:x}", "2024-05-01"]})
    assert "1 by site (barn { model:x}), 1 by day (2024-05-01)" in say.leak_note(leaks)
    assert say.leak_note(leaks.clear()) == ""


def test_curves_mark_the_best_epoch_of_every_seed_and_say_why_they_end() -> None:
    rows = []
    for seed, n in ((0, 4), (3, 2), *((s, 1) for s in range(10, 16))):
        for e in range(1, n + 1):
            row = {"model": "a $b$", "seed": seed, "epoch": e, "val_ap": 0.1 * e, "is_best": e == n}
            rows.append(row | {"stopped": ("patience" if seed else "epochs") if e == n else None})
    curves = pl.DataFrame(rows, schema={k: v for k, v in COURSE_SCHEMA.items() if k in rows[0]})
    for narrow in (False, True):
        with style.rc():
            figure = figures.fig_curves(curves, models=["a $b$", "never trained"], hues={}, narrow=narrow)
        axes = figure.axes[0]
        marks = {line.get_gid(): line.get_xydata().tolist() for line in axes.lines if line.get_gid()}
        assert marks["best-0"] == [[4, pytest.approx(0.4)]] and marks["best-3"] == [[2, pytest.approx(0.2)]]
        words = [t.get_text() for t in axes.get_legend().get_texts()]
        assert words[:2] == ["seed 0: all epochs, 4 epochs", "seed 3: stopped early, 2 epochs"]
        assert words[-1] == "and 2 further seeds" and axes.get_title(loc="left") == "a $b$"
        plt.close(figure)
    assert say.curves_title(curves) == "8 trainings, best at epochs 1 to 4; 7 stopped early."
    assert "a $b$, seed 3: AP 0.20 at epoch 2 of 2, stopped early" in say.curves_alt(curves)
    empty = pl.DataFrame(schema=COURSE_SCHEMA)
    plt.close(figures.fig_curves(empty, models=[], hues={}))
    assert say.curves_title(empty) == "Nothing was trained."


def test_bars_of_a_part_fill_its_row() -> None:
    rows = [("train", "none", 1, 0.25), ("train", "1", 3, 0.75), ("test", "none", 0, None), ("test", "1", 0, None)]
    shape = pl.DataFrame(rows, schema=["split", "bin", "n", "share"], orient="row")
    shape = shape.with_columns(what=pl.lit("birds per frame"))
    figure = figures.fig_split(shape)
    bars = [(p.get_x(), p.get_width()) for p in figure.axes[0].patches]
    assert bars == [(0.0, 0.25), (0.25, 0.75)]
    assert {"4", "0", "none"} <= {t.get_text() for t in figure.axes[0].texts}
    plt.close(figure)
    assert "train, birds per frame: none 25 %, 1 75 %" in say.shape_alt(shape)
