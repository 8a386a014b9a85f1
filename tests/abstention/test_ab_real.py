"""A real classifier on real photographs, and its real list of the three most probable names, through the recipe to the chapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from abstention_cases import cells_of, number, opened

from birdlab.errors import DataError
from birdlab.report.run import run_recipe
from birdlab.study import Run

pytestmark = [pytest.mark.real, pytest.mark.slow]
MODEL = "MobileNet V2 iNat"
#: What the photographs show, as a person sees it; the crow of the sixth is left out, its species is not sure.
SHOWN = {
    "bird.jpg": "Haemorhous mexicanus",
    "eagle.jpg": "Haliaeetus leucocephalus",
    "parrot.jpg": "Ara chloropterus",
    "awpe_pigeon_lake_aerial.jpg": "Pelecanus erythrorhynchos",
}
SPARROW = "Passer domesticus"


def recipe_of(folder: Path, items: list[dict[str, Any]], model: dict[str, Any], **section: Any) -> Path:
    pl.DataFrame(items).write_csv(folder / "items.csv")
    chapter = {"items": "items.csv", "n_resamples": 200, **section, "models": [{"name": MODEL, **model}]}
    path = folder / "real.yaml"
    path.write_text(yaml.safe_dump({"name": "real", "data": {"root": "."}, "abstention": chapter}), encoding="utf-8")
    return path


def information(rows: list[dict[str, Any]]) -> float:
    """The area of accuracy against information, threshold by threshold as its definition says."""
    xs, ys = [0.0], [1.0]
    for t in sorted({r[k] for r in rows for k in ("max_species", "max_genus")}, reverse=True):
        x = y = 0.0
        for r in rows:
            if r["max_species"] >= t:
                x, y = x + 1, y + r["species_right"]
            elif r["max_genus"] >= t:
                x, y = x + 0.5, y + r["genus_right"]
            else:
                y += 1
        xs.append(x / len(rows))
        ys.append(y / len(rows))
    return float(np.trapezoid(ys, xs))


@pytest.fixture(scope="module")
def photographs(real_data: Path) -> dict[str, str]:
    sparrows = sorted((real_data / "photos" / "house_sparrow_cc0").glob("*.jpg"))
    assert len(sparrows) == 6
    return SHOWN | {f"house_sparrow_cc0/{path.name}": SPARROW for path in sparrows}


@pytest.fixture(scope="module")
def run(real_data: Path, photographs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("real")
    items = [
        {"item_id": Path(image).stem, "image": image, "species": species, "is_answerable": 1}
        for image, species in photographs.items()
    ]
    files = real_data / "classifier"
    weights = {"weights": str(files / "mobilenet_v2_1.0_224_inat_bird_quant.tflite")}
    model = {**weights, "labels": str(files / "inat_bird_labels.txt"), "normalise": True}
    recipe = recipe_of(folder, items, model, images=str(real_data / "photos"))
    assert run_recipe(recipe) == 0
    return opened(recipe)


def test_every_photograph_has_a_full_row_of_probabilities(run: Run, photographs: dict[str, str]) -> None:
    parts = sorted((run.dir / "shards").rglob("*.parquet"))
    table = pl.concat([pl.read_parquet(p) for p in parts])
    assert table.shape == (len(photographs), 1 + 965)  # 964 birds and background
    p = table.drop("item_id").to_numpy()
    assert np.isfinite(p).all() and p.min() >= 0 and p.max() <= 1
    assert np.unique(p * 256).tolist() == sorted({*np.round(np.unique(p * 256))})  # steps of a quantised softmax
    sums = p.sum(axis=1)
    # Small probabilities are rounded to 0: the rows fall short of 1, which is why they are normalised.
    assert 0.5 < sums.min() < 0.999 and sums.max() <= 1.05
    assert run.table("classifier_failures").is_empty()


def test_rows_are_those_of_the_network_itself(run: Run, real_data: Path, photographs: dict[str, str]) -> None:
    """Against the interpreter, asked directly with the photograph made smaller by the mean of its areas."""
    import cv2
    from ai_edge_litert.interpreter import Interpreter

    files = real_data / "classifier"
    network = Interpreter(model_path=str(files / "mobilenet_v2_1.0_224_inat_bird_quant.tflite"))
    network.allocate_tensors()
    entry, end = network.get_input_details()[0]["index"], network.get_output_details()[0]["index"]
    table = pl.concat([pl.read_parquet(p) for p in sorted((run.dir / "shards").rglob("*.parquet"))])
    mine = {row[0]: np.array(row[1:]) for row in table.iter_rows()}
    for image in photographs:
        square = cv2.resize(cv2.imread(str(real_data / "photos" / image)), (224, 224), interpolation=cv2.INTER_AREA)
        network.set_tensor(entry, np.ascontiguousarray(square[None, ..., ::-1]))
        network.invoke()
        assert np.abs(network.get_tensor(end)[0] / 256 - mine[Path(image).stem]).max() <= 1 / 256
    labels = (files / "inat_bird_labels.txt").read_text(encoding="utf-8").splitlines()
    assert [c for c in table.columns if c != "item_id"] == labels


def test_labels_align_as_they_are_known_to(run: Run) -> None:
    aligned = dict(run.table("abstention_alignment").select("how", "n").iter_rows())
    assert sum(aligned.values()) == 965
    assert aligned["exact"] == 855 and aligned["synonym"] == 59 and aligned["trinomial"] == 42
    assert aligned["common"] == 6 and aligned["hybrid"] == 2
    assert sorted(
        n for how, n in aligned.items() if how not in ("exact", "synonym", "trinomial", "common", "hybrid")
    ) == [1]


def test_information_and_calibration_are_scored_and_telling_apart_is_not(run: Run, photographs: dict[str, str]) -> None:
    for metric in ("ig", "auc_a_species", "auc_a_genus", "a_species_accuracy", "a_genus_accuracy"):
        row = number(run, metric, MODEL)
        assert 0 < row["value"] <= 1 and row["n"] == len(photographs), metric
    scores = run.table("image_scores").filter(pl.col("variant").cast(pl.String) == "plain")
    assert scores["missing_mass"].abs().max() < 1e-9
    assert scores["max_species"].max() > 0.5 and (scores["max_genus"] >= scores["max_species"] - 1e-9).all()
    # A finch and an eagle that fill their pictures are named; pelicans from the air and seven sparrows on a fence are not.
    right = dict(scores.select("item_id", "species_right").iter_rows())
    assert (
        right["bird"]
        and right["eagle"]
        and not right["awpe_pigeon_lake_aerial"]
        and not right["36485871561_7e721ed49e_b"]
    )
    assert number(run, "ig", MODEL)["value"] == pytest.approx(information(scores.to_dicts()), abs=1e-12)
    for metric in ("ua_a", "auc_ua_genus", "ua_genus_accuracy"):
        row = number(run, metric, MODEL)
        assert row["value"] is None and row["reason"] == "no unanswerable photograph"
    page = (run.dir / "report.html").read_text(encoding="utf-8")
    assert "UA/A is undefined: no unanswerable photograph" in page
    assert "855 exact" in page and "59 synonym" in page and "42 trinomial" in page
    record = json.loads((run.dir / "run.json").read_text(encoding="utf-8"))
    assert {n["status"] for n in record["notebooks"]} == {"complete"}


def test_without_normalising_the_rows_are_refused(real_data: Path, run: Run) -> None:
    recipe = yaml.safe_load(run.recipe_path.read_text(encoding="utf-8"))
    recipe["abstention"]["models"][0]["normalise"] = False
    path = run.recipe_path.with_name("plain.yaml")
    path.write_text(yaml.safe_dump(recipe | {"name": "plain"}), encoding="utf-8")
    with pytest.raises(DataError) as refused:
        opened(path).table("image_scores")
    assert "sum" in str(refused.value) and "normalise" in str(refused.value)


@pytest.fixture(scope="module")
def listed(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of 40 photographs with three names each; those whose truth is a species of the pinned list."""
    folder = tmp_path_factory.mktemp("listed")
    source = real_data / "classifier" / "inat_bird_quant_on_imagenet_samples.csv"
    table = pl.read_csv(source).filter(pl.col("truth_rank") == "species")
    items = [
        {"item_id": r["image"], "species": r["truth"], "is_answerable": 1}
        for r in table.select("image", "truth").iter_rows(named=True)
    ]
    assert len(items) > 20
    return recipe_of(folder, items, {"scores": str(source)})


def test_a_list_of_three_is_refused_with_its_reason(listed: Path, project: Path) -> None:
    run = cells_of(project, listed)
    scores = run.table("image_scores")
    missing = scores["missing_mass"].mean()
    assert 0.25 < missing < 0.4
    for metric in ("ig", "ua_a", "auc_a_species"):
        row = number(run, metric, MODEL)
        assert row["value"] is None and row["reason"].startswith(f"the lists leave {100 * missing:.1f} %"), metric
    assert number(run, "a_species_accuracy", MODEL)["value"] is not None
    assert number(run, "missing_species", MODEL)["value"] is None
    record = (run.dir / "records" / "09_abstention.json").read_text(encoding="utf-8")
    assert f"the lists leave {100 * missing:.1f} % of the probability unseen" in record


def test_a_list_of_three_with_force_has_bounds_and_no_ua_a(listed: Path, project: Path) -> None:
    recipe = yaml.safe_load(listed.read_text(encoding="utf-8"))
    recipe["abstention"]["force"] = True
    path = listed.with_name("forced.yaml")
    path.write_text(yaml.safe_dump(recipe | {"name": "forced"}), encoding="utf-8")
    run = cells_of(project, path)
    low, value, high = (number(run, f"ig{k}", MODEL)["value"] for k in ("_missing_against", "", "_missing_for"))
    assert None not in (low, value, high) and low < high and 0 < value < 1
    row = number(run, "ua_a", MODEL)
    assert row["value"] is None and row["reason"] == "no unanswerable photograph"
