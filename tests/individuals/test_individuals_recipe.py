"""A recipe about individuals alone: checked, refused with every file named, and run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml

from birdlab.check.recipe import check_recipe
from birdlab.demo.colony import write_colony
from birdlab.errors import EXIT_USAGE, ParameterError, RecipeError
from birdlab.individuals.actions import check_list
from birdlab.recipe import load_recipe, parse_recipe
from birdlab.recipe.individuals import wrong_list
from birdlab.study import Run

SECTION = {
    "folder": "individuals",
    "n_random": 20,
    "actions": {
        "truth": "individuals/actions/BehaviourAnnotations.csv",
        "predictions": {"wader": "individuals/actions/wader.csv"},
    },
    "keypoints": {
        "truth": "individuals/keypoints/truth.json",
        "predictions": {"curlew": "individuals/keypoints/curlew.json"},
    },
    "published": ["chirp"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("colony")
    write_colony(out)
    return out


def recipe_file(folder: Path, data: Path, section: dict) -> Path:
    path = folder / "jays.yaml"
    path.write_text(yaml.safe_dump({"name": "jays", "data": {"root": str(data)}, "individuals": section}))
    return path


def test_its_chapters_and_colours(data: Path, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, data, SECTION))
    assert [name for name, _ in recipe.steps()] == ["06_actions_keypoints_tracking", "07_application", "10_summary"]
    assert recipe.coloured == [[], [], [], ["wader"], ["curlew"]]
    assert not recipe.has_media


def test_check_notes_what_is_odd_and_names_every_file_that_is_missing(data: Path, tmp_path: Path) -> None:
    found = check_recipe(recipe_file(tmp_path, data, SECTION))
    assert {p.code for _, p in found} == {"unknown_bird", "incomplete", "corrupted", "other_split"}
    broken = SECTION | {"folder": "nowhere", "actions": SECTION["actions"] | {"predictions": {"a": "no.csv"}}}
    codes = {Path(str(p.file)).name for _, p in check_recipe(recipe_file(tmp_path, data, broken))}
    assert {"MetaData.csv", "no.csv"} <= codes


def test_tables_of_a_run(data: Path, tmp_path: Path) -> None:
    path = recipe_file(tmp_path, data, SECTION)
    run = Run(load_recipe(path), path, tmp_path / "run", "07_application")
    metrics = run.table("metrics")
    assert set(metrics["dataset"].unique()) == {"jays", "chirp"}
    shares = metrics.filter(metric="feeding_rate_error_share")
    totals = run.table("error_budget").filter(measure="pecks_per_min").unique("total").height
    assert shares.height == 4 * run.table("error_budget").select("tracker", "model", "identity").unique().height
    assert totals > 1 and metrics.filter(metric="hota", group="tracker").height == 3
    printed = metrics.drop_nulls("published")
    assert printed["value"].null_count() == printed.height and printed["source"].null_count() == 0
    undefined = metrics.filter(pl.col("value").is_null() & pl.col("published").is_null())
    assert undefined["reason"].null_count() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folder": ""}, "folder"),
        ({"protocol": "mine"}, "protocol"),
        ({"fps": 0}, "fps"),
        ({"n_random": 1}, "n_random"),
        ({"actions": {"truth": "a.csv", "predictions": {}, "labels": ["Peck"]}}, "labels"),
        (
            {"actions": {"truth": "a", "predictions": {}, "labels": ["Peck", "peck", "x"]}},
            "labels: found Peck and peck, which",
        ),
        ({"keypoints": {"truth": "a.json", "predictions": {}, "sigmas": -1}}, "sigmas"),
        ({"trackers": ["x"]}, "trackers"),
    ],
)
def test_keys_that_cannot_be_used(change: dict, said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_recipe({"name": "x", "data": {}, "individuals": {"folder": "f"} | change})
    assert said in str(caught.value)


def test_sigmas_of_other_keypoints_are_a_mistake_of_the_recipe_in_check_and_in_the_run(
    data: Path, tmp_path: Path
) -> None:
    path = recipe_file(tmp_path, data, SECTION | {"keypoints": SECTION["keypoints"] | {"sigmas": {"toe": 0.1}}})
    assert [code for code, p in check_recipe(path) if p.code == "sigmas"] == [EXIT_USAGE]
    with pytest.raises(RecipeError, match="unknown toe") as caught:
        Run(load_recipe(path), path, tmp_path / "run", "06_actions_keypoints_tracking").table("keypoints")
    assert caught.value.exit_code == EXIT_USAGE


def test_a_list_of_behaviours_that_is_none_says_which_name_is_wrong() -> None:
    assert wrong_list(["Peck", " peck", "x", "Peck"]) == (
        "Peck and  peck and Peck, which are one name", "each behaviour once, in any case",
    )  # fmt: skip
    assert wrong_list(["Peck", " "]) == ("an empty name", "names of behaviours")
    assert wrong_list(["Peck"]) == ("Peck", "two or more names") and wrong_list(["Peck", "Other"]) is None
    with pytest.raises(ParameterError, match="found Peck and peck, which are one name; expected each behaviour once"):
        check_list(["Peck", "peck"])


def test_tracking_needs_a_detector_of_the_study() -> None:
    with pytest.raises(ParameterError, match="no model called heron"):
        parse_recipe({"name": "x", "data": {"media": [{"videos": "*.mp4"}]}, "tracking": {"detector": "heron"}})
