"""The colour forest, ring masks in files, and what is read from them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import top_k_accuracy_score
from sklearn.preprocessing import StandardScaler

from birdlab import schemas
from birdlab.errors import DataError
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.crops import histograms
from birdlab.individuals.rings.forest import train_forest
from birdlab.individuals.rings.instances import forest_of, in_clips, ring_colours
from birdlab.individuals.rings.reads import colour_confusion, colour_scores, ring_reads
from birdlab.readers.ring_masks import read_ring_masks

LETTERS = "ABCGLMOPRSWY"
PALETTE = Palette.of({letter: letter for letter in LETTERS})
NAMED = Palette.of({"R": "red", "G": "green", "A": "aluminium"})
DAY = dt.date


# forest


def made_rings(rng: np.random.Generator, n: int, letters: str = LETTERS) -> tuple[np.ndarray, list[str]]:
    bgr = np.random.default_rng(8).integers(20, 236, (len(LETTERS), 3))
    chosen = rng.choice(list(letters), n)
    crops = [
        np.clip(bgr[LETTERS.index(c)] * rng.normal(1, 0.08) + rng.normal(0, 12, (20, 20, 3)), 0, 255).astype(np.uint8)
        for c in chosen
    ]
    return histograms(crops), chosen.tolist()


def test_probabilities_sum_to_one_in_the_order_of_the_palette() -> None:
    rng = np.random.default_rng(0)
    features, letters = made_rings(rng, 360)
    forest = train_forest(features, letters, palette=PALETTE, trees=60, seed=3)
    unknown, truth = made_rings(rng, 200)
    chances = forest.predict(unknown)
    assert chances.shape == (200, 12)
    assert np.abs(chances.sum(axis=1) - 1).max() < 1e-12
    assert (chances >= 0).all()
    right = np.mean([LETTERS[i] == t for i, t in zip(chances.argmax(axis=1), truth, strict=True)])
    assert right > 0.9
    again = train_forest(features, letters, palette=PALETTE, trees=60, seed=3)
    assert (again.predict(unknown) == chances).all()
    assert (forest.predict(unknown[:1]) == chances[:1]).all()
    assert forest.predict(unknown[:0]).shape == (0, 12)
    assert forest.prior.sum() == pytest.approx(1)


def test_scaling_once_is_as_good_as_scaling_for_each_ring() -> None:
    rng = np.random.default_rng(5)
    features, letters = made_rings(rng, 240)
    forest = train_forest(features, letters, palette=PALETTE, trees=40, seed=1)
    for ring in made_rings(rng, 10)[0]:
        scaled = StandardScaler().fit_transform(np.vstack([features, ring]).astype(np.float64))[-1:]
        assert np.abs(forest.predict(ring[None])[0] - forest._model.predict(scaled)[0]).max() < 0.03


def test_a_colour_never_seen_has_probability_0_and_is_listed() -> None:
    rng = np.random.default_rng(2)
    features, letters = made_rings(rng, 120, "RGA")
    forest = train_forest(features, letters, palette=PALETTE, trees=20)
    assert forest.unseen == tuple(c for c in LETTERS if c not in "RGA")
    chances = forest.predict(made_rings(rng, 30, "W")[0])
    assert (chances[:, [PALETTE.index(c) for c in forest.unseen]] == 0).all()
    assert np.allclose(chances.sum(axis=1), 1)
    one = train_forest(features[:5], ["R"] * 5, palette=PALETTE, trees=10)
    assert (one.predict(features[:3])[:, PALETTE.index("R")] == 1).all()
    with pytest.raises(DataError, match="no ring"):
        train_forest(features[:0], [], palette=PALETTE)
    with pytest.raises(DataError, match="colour Z"):
        train_forest(features[:1], ["Z"], palette=PALETTE)


# masks in files


COLOURS = {"red": (30, 20, 210), "green": (40, 170, 40), "aluminium": (190, 190, 190)}


def write_masks(folder: Path, annotations: list[dict], categories: list[str], n_images: int = 1) -> Path:
    images = [{"id": i + 1, "file_name": f"c/{i:02d}.png", "width": 60, "height": 50} for i in range(n_images)]
    content = {
        "images": images,
        "categories": [{"id": i + 1, "name": name} for i, name in enumerate(categories)],
        "annotations": [{"id": i + 1, "iscrowd": 0, **a} for i, a in enumerate(annotations)],
    }
    path = folder / "masks.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def square(x: int, y: int, side: int = 8) -> list[list[float]]:
    return [[x, y, x + side, y, x + side, y + side, x, y + side]]


def run_lengths(x: int, y: int, side: int = 8) -> dict:
    mask = np.zeros((50, 60), np.uint8)
    mask[y : y + side, x : x + side] = 1
    flat = mask.T.ravel()
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat, [1 - flat[-1]]])))
    return {"size": [50, 60], "counts": np.diff(np.concatenate([[0], edges])).tolist()}


def test_masks_of_every_form_and_categories_by_name_or_letter(tmp_path: Path) -> None:
    small_then_large = [*square(1, 1, 2), *square(20, 20)]
    annotations = [
        {"image_id": 1, "category_id": 1, "segmentation": small_then_large, "bbox": [1, 1, 27, 27]},
        {"image_id": 1, "category_id": 2, "segmentation": run_lengths(5, 6), "bbox": [5, 6, 8, 8], "score": 0.75},
        {"image_id": 1, "category_id": 3, "segmentation": square(30, 3), "bbox": [30, 3, 8, 8]},
        {"image_id": 1, "category_id": 3, "segmentation": square(30, 3), "bbox": [30, 3, 8, 8], "ignore": 1},
        {"image_id": 2, "category_id": 1, "bbox": [30, 3, 8, 8]},
    ]
    path = write_masks(tmp_path, annotations, ["Red", "g", "ring"], n_images=3)
    rings, pictures, notices = read_ring_masks(path, NAMED)
    assert rings.select("image", "ring", "score", "truth").rows() == [
        ("c/00.png", 0, 1.0, "R"),
        ("c/00.png", 1, 0.75, "G"),
        ("c/00.png", 2, 1.0, None),
    ]
    assert rings["outline"][0].to_list() == square(20, 20)[0]
    points = np.array(rings["outline"][1]).reshape(-1, 2)
    assert (points.min(axis=0).tolist(), points.max(axis=0).tolist()) == ([5, 6], [12, 13])
    assert pictures.height == 3
    counted = dict(notices.filter(pl.col("code") != "coco").select("code", "n").rows())
    assert counted == {"ring_no_colour": 2, "ring_no_mask": 1, "ring_ignored": 1}


def test_a_file_of_boxes_alone_is_an_error(tmp_path: Path) -> None:
    path = write_masks(tmp_path, [{"image_id": 1, "category_id": 1, "bbox": [3, 3, 8, 8]}], ["red"])
    with pytest.raises(DataError, match="no ring with a mask"):
        read_ring_masks(path, NAMED)


def made_study(folder: Path, n_images: int = 30) -> tuple[Path, pl.DataFrame]:
    """Pictures of two rings each, red above green or aluminium, two images to a clip."""
    rng = np.random.default_rng(4)
    (folder / "c").mkdir()
    annotations, rows = [], []
    for i in range(n_images):
        picture = rng.integers(60, 120, (50, 60, 3)).astype(np.float64)
        for name, y in (("red", 10), ("green" if i % 2 else "aluminium", 20)):
            picture[y : y + 9, 20:29] = np.array(COLOURS[name]) + rng.normal(0, 8, (9, 9, 3))
            category = list(COLOURS).index(name) + 1
            annotations.append(
                {"image_id": i + 1, "category_id": category, "segmentation": square(20, y), "bbox": [20, y, 8, 8]}
            )
        cv2.imwrite(str(folder / f"c/{i:02d}.png"), np.clip(picture, 0, 255).astype(np.uint8))
        rows.append((f"t{i // 2}", i % 2, f"c/{i:02d}.png"))
    images = pl.DataFrame(rows, schema=["clip_id", "frame_index", "image"], orient="row")
    return write_masks(folder, annotations, list(COLOURS), n_images), schemas.TABLES["reid_images"].conform(images)


def test_masks_to_ring_colours(tmp_path: Path) -> None:
    path, images = made_study(tmp_path)
    rings, _, _ = read_ring_masks(path, NAMED)
    forest, notices = forest_of(rings, tmp_path, NAMED, trees=30)
    assert notices.is_empty()
    assert forest.counts == (30, 15, 15)
    (tmp_path / "c/29.png").write_bytes(b"no picture")
    placed, notices = in_clips(rings.with_columns(image="elsewhere/" + pl.col("image")), images)
    assert notices.is_empty()
    assert placed["image"].to_list() == rings["image"].to_list()
    table, notices = ring_colours(placed, forest, tmp_path)
    assert dict(notices.select("code", "n").rows()) == {"ring_image_unread": 1, "ring_left_out": 2}
    assert table.height == 58
    assert table.select("clip_id", "frame_index", "ring", "x", "y", "width", "height", "truth").row(0) == (
        "t0", 0, 0, 24.0, 14.0, 8.0, 8.0, "R",
    )  # fmt: skip
    read = table["probabilities"].list.arg_max().to_list()
    assert [NAMED.letters[i] for i in read] == table["truth"].to_list()
    scores = colour_scores(table, NAMED)
    assert scores["top1"].to_list() == [1.0] * 4
    assert scores["n_clusters"][0] == 15


def test_pictures_that_no_clip_has(tmp_path: Path) -> None:
    path, images = made_study(tmp_path, 4)
    rings, _, _ = read_ring_masks(path, NAMED)
    placed, notices = in_clips(rings, images.head(3))
    assert placed["image"].n_unique() == 3
    assert dict(notices.select("code", "n").rows()) == {"ring_no_clip": 1}
    # A name that two folders have tells nothing.
    twice = images.with_columns(image=pl.lit("a/") + pl.col("image"))
    twice = pl.concat(
        [twice, twice.with_columns(image=pl.lit("b/") + pl.col("image"), clip_id="x" + pl.col("clip_id"))]
    )
    with pytest.raises(DataError, match="pictures like"):
        in_clips(
            rings.with_columns(image=pl.col("image").str.split("/").list.last()),
            twice.with_columns(image=pl.col("image").str.replace("b/a/", "b/")),
        )


# reads and scores of colours


def colour_table(rows: list[tuple]) -> pl.DataFrame:
    names = schemas.TABLES["ring_colours"].dtypes
    return schemas.TABLES["ring_colours"].validate(pl.DataFrame(rows, schema=names, orient="row"))


def seen(clip: str, frames: int, legs: list[str], *, sure: float = 0.9) -> list[tuple]:
    rest = (1 - sure) / 11
    vector = {c: [sure if c == other else rest for other in LETTERS] for c in LETTERS}
    rows = []
    for frame in range(frames):
        placed = [(40.0 * leg, 12.0 * slot, c) for leg, code in enumerate(legs) for slot, c in enumerate(code)]
        rows += [(clip, frame, i, x, y, 10.0, 10.0, 1.0, vector[c], c) for i, (x, y, c) in enumerate(placed)]
    return rows


def test_reads_of_two_legs_keep_pairs_and_order() -> None:
    table = colour_table(
        [*seen("a", 5, ["OA", "OR"]), *seen("b", 5, ["RR", "RR"]), *seen("c", 5, ["RG", "A"]), *seen("d", 5, ["RG"])]
        + seen("e", 5, ["Y"])
    )
    reads = ring_reads(table, PALETTE)
    pairs = {
        clip: sorted((u, lo) for u, lo in part.select("upper", "lower").rows())
        for (clip,), part in reads.group_by("clip_id")
    }
    assert pairs["a"] == [("O", "A"), ("O", "R")]
    assert pairs["b"] == [("R", "R"), ("R", "R")]
    assert pairs["c"] == [("A", None), ("R", "G")]
    assert pairs["d"] == [("R", "G")]
    assert pairs["e"] == [("Y", None)]
    assert reads.filter(clip_id="a")["probability"].to_list() == [pytest.approx(0.81)] * 2
    assert reads["n_frames"].unique().to_list() == [5]
    sure = colour_table(seen("a", 5, ["OA", "OR"], sure=1.0))
    published = ring_reads(sure, PALETTE, matcher="published")
    assert published.select("upper", "lower", "probability").rows() == [("A", "O", None), ("R", None, None)]
    assert ring_reads(table.clear(), PALETTE).is_empty()


def test_colour_scores_equal_scikit_learn() -> None:
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 12, 300)
    chances = rng.dirichlet(np.full(12, 0.5), 300)
    chances[np.arange(300), truth] += 0.2
    chances /= chances.sum(axis=1, keepdims=True)
    rows = [
        (f"c{i % 30}", i, 0, 0.0, 0.0, 8.0, 8.0, 1.0, p.tolist(), LETTERS[t])
        for i, (p, t) in enumerate(zip(chances, truth, strict=True))
    ]
    scores = colour_scores(colour_table(rows), PALETTE)
    for top, name in ((1, "top1"), (3, "top3")):
        assert scores[name][0] == pytest.approx(top_k_accuracy_score(truth, chances, k=top, labels=np.arange(12)))
    assert scores["lo"][0] < scores["top1"][0] < scores["hi"][0]
    assert scores["n"][0] == 300 == scores["n"][1:].sum()
    assert scores["common1"][0] == np.bincount(truth).max() / 300
    confusion = colour_confusion(colour_table(rows), PALETTE)
    right = confusion.filter(pl.col("truth") == pl.col("read"))["n"].sum() / 300
    assert right == pytest.approx(scores["top1"][0])
    assert confusion.height == 144


def test_ties_of_colours_count_by_expectation_and_no_truth_has_a_reason() -> None:
    flat = [1 / 12] * 12
    table = colour_table(
        [("a", 0, 0, 0.0, 0.0, 8.0, 8.0, 1.0, flat, "R"), ("b", 0, 0, 0.0, 0.0, 8.0, 8.0, 1.0, flat, "G")]
    )
    row = colour_scores(table, PALETTE).row(0, named=True)
    assert (row["top1"], row["top3"]) == (pytest.approx(1 / 12), pytest.approx(3 / 12))
    nothing = colour_scores(table.with_columns(truth=pl.lit(None, pl.String)), PALETTE)
    assert nothing.select("n", "top1", "reason").row(0) == (0, None, "no ring whose colour is given")
