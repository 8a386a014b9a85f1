"""A recipe about who a bird is: its section, its lists and pairs, names against the truth, segmented rings, refusals."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from birdlab import schemas
from birdlab.builders import subject
from birdlab.check.recipe import check_recipe
from birdlab.demo.ring_study import write_reid
from birdlab.errors import DataError, ParameterError
from birdlab.individuals.reid.outcomes import outcomes_of_scores
from birdlab.individuals.reid.published import published
from birdlab.individuals.reid.study import _matrix
from birdlab.individuals.rings.called import call_outcomes, called
from birdlab.individuals.rings.found import hold_against
from birdlab.individuals.rings.lists import ring_candidates, together_of
from birdlab.recipe import load_recipe, parse_recipe
from birdlab.study import Run

SECTION = {
    "clips": "reid/clips.csv",
    "territory": "reid/PossibleBirds_Territory.csv",
    "methods": [{"name": "feathers", "embeddings": "reid/embeddings.npy", "rows": "reid/rows.csv"}],
    "published": ["chirp"],
}
RINGS = {"roster": "reid/roster.csv", "training": "reid/ring_masks/masks.json", "instances": "reid/instances.json"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reid")
    write_reid(out)
    return out


def _recipe(folder: Path, data: Path, section: dict) -> Path:
    path = folder / "jays.yaml"
    path.write_text(yaml.safe_dump({"name": "jays", "data": {"root": str(data)}, "reid": section}))
    return path


def _run(folder: Path, data: Path, section: dict) -> Run:
    path = _recipe(folder, data, section)
    return Run(load_recipe(path), path, folder / "run", "05_reidentification")


# --- the recipe -------------------------------------------------------------------------------------------------------


def test_its_chapters_colours_and_subject(data: Path, tmp_path: Path) -> None:
    recipe = load_recipe(_recipe(tmp_path, data, SECTION | {"rings": RINGS}))
    assert [name for name, _ in recipe.steps()] == ["05_reidentification", "10_summary"]
    assert recipe.coloured == [[], [], [], ["feathers", "rings (published)", "rings (birdlab)"]]
    assert subject("birdlab.individuals.rings.study:build") == "reid"
    assert subject("birdlab.individuals.study:build") == "individuals"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"clips": "a.csv"}, "methods, rings or both"),
        ({"clips": "a.csv", "methods": [{"name": "a"}]}, "one of embeddings, similarity, ranking, weights"),
        ({"clips": "a.csv", "methods": [{"name": "a", "ranking": "x", "weights": "y"}]}, "one of embeddings"),
        ({"clips": "a.csv", "methods": [{"name": "a", "ranking": "x"}] * 2}, "a name of its own"),
        ({"clips": "a.csv", "methods": [{"name": "rings (birdlab)", "ranking": "x"}]}, "a name of its own"),
        ({"clips": "a.csv", "rings": {"roster": "r.csv", "training": "t.json"}}, "instances .ring masks., segmenter"),
    ],
)
def test_a_section_that_cannot_be_is_refused(section: dict, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        parse_recipe({"name": "x", "data": {"root": "."}, "reid": section})


def test_check_names_every_file_that_is_missing_and_what_is_odd(data: Path, tmp_path: Path) -> None:
    found = check_recipe(_recipe(tmp_path, data, SECTION | {"rings": RINGS | {"roster": "no.csv"}}))
    assert any("no.csv" in str(p.file) for _, p in found)
    broken = SECTION | {"methods": [{"name": "a", "embeddings": "gone.npy", "rows": "gone.csv"}]}
    found = check_recipe(_recipe(tmp_path, data, broken))
    assert any("gone" in str(p.file) for _, p in found)


def test_tables_of_a_run_without_rings(data: Path, tmp_path: Path) -> None:
    run = _run(tmp_path, data, SECTION)
    outcomes, refused = run.table("reid_outcomes"), run.table("reid_refused")
    assert set(outcomes["model"]) == {"feathers"} and set(outcomes["gallery"].cast(pl.String)) == {"territory", "all"}
    assert refused.filter(gallery="neighbours")["reason"].unique().to_list() == ["there is no list of candidates"]
    assert run.table("ring_calls").is_empty() and run.table("metrics_rings").is_empty()
    metrics = run.table("metrics")
    rows = metrics.filter(pl.col("published").is_null(), metric="top1", group="closed", level="territory")
    row = rows.filter(method="micro; new individuals").row(0, named=True)
    mine = outcomes.filter(pl.col("split") == "closed", pl.col("gallery") == "territory")
    assert row["value"] == pytest.approx((mine["answer"] == mine["individual_id"]).fill_null(False).mean())
    assert row["chance"] == pytest.approx((mine["in_list"] / mine["n_candidates"]).mean())
    assert row["lo"] < row["value"] < row["hi"]


def test_all_files_that_cannot_be_used_are_in_one_error(data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.zeros((3, 4)))
    methods = [
        {"name": "a", "embeddings": str(tmp_path / "short.npy"), "rows": "reid/rows.csv"},
        {"name": "b", "ranking": "none.csv"},
    ]
    with pytest.raises(DataError) as error:
        _run(tmp_path, data, SECTION | {"methods": methods}).table("reid_outcomes")
    assert {p.code for p in error.value.problems} >= {"wrong_row_count"} and len(error.value.problems) == 2


def test_published_counts_are_rows_with_a_verdict(data: Path, tmp_path: Path) -> None:
    counts = _run(tmp_path, data, SECTION).table("reid_counts").filter(what="n_individuals")
    assert set(counts["published"]) == {182.0, 183.0} and set(counts["verdict"]) == {"differs"}
    rows = published("chirp")
    below = rows.filter(pl.col("reason").str.contains("guessing is right"))
    assert sorted(below["published"]) == [0.27, 0.28, 0.31] and rows["value"].null_count() == rows.height == 12


# --- lists, pairs, names ----------------------------------------------------------------------------------------------


def test_lists_hold_the_codes_of_the_day() -> None:
    roster = schemas.TABLES["ring_roster"].conform(
        pl.DataFrame(
            {
                "individual_id": ["a", "b", "c", "c"], "code": ["rgab", "rgab", "oaor", "oa-r"],
                "valid_from": [None, dt.date(2021, 1, 1), None, dt.date(2021, 6, 1)],
                "valid_to": [dt.date(2020, 12, 31), None, dt.date(2021, 5, 31), None],
            }
        )
    )  # fmt: skip
    clips = pl.DataFrame(
        {"clip_id": ["x", "y"], "video_id": ["v", "w"], "date": [dt.date(2020, 5, 1), dt.date(2021, 7, 1)]}
    )
    lists = pl.DataFrame({"video_id": ["v", "w"], "gallery": ["territory"] * 2, "candidates": [["a", "c", "z"], []]})
    found, _ = ring_candidates(clips, lists, roster)
    rows = found.sort("gallery", "clip_id", "individual_id").rows()
    assert rows == [
        ("all", "x", "a", "rgab"), ("all", "x", "c", "oaor"), ("all", "y", "b", "rgab"), ("all", "y", "c", "oa-r"),
        ("territory", "x", "a", "rgab"), ("territory", "x", "c", "oaor"), ("territory", "x", "z", None),
        ("territory", "y", None, None),
    ]  # fmt: skip


def test_clips_that_overlap_show_two_birds() -> None:
    clips = pl.DataFrame(
        {
            "clip_id": list("abcd"),
            "video_id": ["v", "v", "v", "w"],
            "n_images": [25] * 4,
            "start_frame": [0, 24, 25, 10],
        }
    )
    assert together_of(clips).rows() == [("a", "b", 1), ("b", "c", 24)]
    assert together_of(clips.drop("start_frame")).is_empty()


def _calls(rows: list[tuple]) -> pl.DataFrame:
    names = ("clip_id", "individual_id", "best", "n_candidates", "n_tied", "n_with_rings", "reason")
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    about = {"matcher": "birdlab", "assignment": "argmax", "gallery": "territory", "n_frames": 25, "score": 0.9}
    return schemas.TABLES["ring_calls"].conform(
        frame.with_columns(pl.lit(v).alias(k) for k, v in about.items()).with_columns(second=pl.lit(None, pl.Float64))
    )


def test_names_against_the_truth_by_hand() -> None:
    calls = _calls(
        [
            ("1", "a", "a", 2, 0, 25, None),
            ("2", "b", "b", 4, 0, 20, None),
            ("3", None, "a", 2, 0, 5, "posterior 0.6 is below 0.8"),
            ("4", None, None, 5, 1, 3, "2 birds fit"),
        ]
    )
    clips = pl.DataFrame({"clip_id": list("1234"), "video_id": list("vvww"), "individual_id": ["a", "a", "a", "z"]})
    lists = pl.DataFrame({"gallery": "territory", "clip_id": list("112234"), "individual_id": list("abaaab")})
    row = called(call_outcomes(calls, clips, lists)).row(0, named=True)
    assert (row["n"], row["n_named"], row["n_tied"]) == (4, 2, 1)
    assert (row["right"], row["wrong"], row["right_of_named"], row["best_right"]) == (0.25, 0.25, 0.5, 0.5)
    assert row["chance"] == pytest.approx((1 / 2 + 1 / 4 + 1 / 2 + 0) / 4) and row["mean_list"] == 3.25


def test_nobody_named_has_no_share_of_names() -> None:
    calls = _calls([("1", None, None, 2, 1, 0, "no ring")])
    clips = pl.DataFrame({"clip_id": ["1"], "video_id": ["v"], "individual_id": ["a"]})
    lists = pl.DataFrame({"gallery": ["territory"], "clip_id": ["1"], "individual_id": ["a"]})
    row = called(call_outcomes(calls, clips, lists)).row(0, named=True)
    assert row["right_of_named"] is None and row["right"] == 0 and row["n_no_rings"] == 1
    assert row["reason"] == "one video: nothing can be said about another"


def test_scores_of_rings_stand_in_their_column_and_the_rest_is_not_ranked() -> None:
    scores = pl.DataFrame({"clip_id": ["x", "x", "y"], "individual_id": ["a", "q", "b"], "score": [0.5, 0.3, 0.2]})
    matrix = _matrix(scores, "score", pl.Series(["y", "x", "z"]), ["a", "b"])
    assert matrix.tolist() == [[-np.inf, 0.2], [0.5, -np.inf], [-np.inf, -np.inf]]
    queries = pl.DataFrame(
        {"query_id": ["y", "x", "z"], "video_id": "v", "individual_id": ["a", "a", "a"], "is_known": [True] * 3}
    )
    found = outcomes_of_scores("m", "closed", "all", queries, matrix, ["a", "b"])
    assert found["n_above"].to_list() == [None, 0, None] and found["answer"].to_list() == ["b", "a", None]


# --- segmented rings against given ones -------------------------------------------------------------------------------


def _square(x: float, y: float, side: float = 10) -> list[float]:
    return [x, y, x + side, y, x + side, y + side, x, y + side]


def test_found_rings_take_the_colour_of_the_given_ring_they_lie_on() -> None:
    given = pl.DataFrame(
        {"image": ["a", "a", "b"], "ring": [0, 1, 0], "outline": [_square(0, 0), _square(30, 0), _square(0, 0)],
         "score": [1.0] * 3, "truth": ["R", "G", "B"]}
    )  # fmt: skip
    found = pl.DataFrame(
        {"image": ["a", "a", "c"], "ring": [0, 1, 0], "clip_id": "x", "frame_index": [0, 0, 2],
         "outline": [_square(31, 1), _square(60, 60), _square(0, 0)], "score": [0.9, 0.8, 0.7], "truth": [None] * 3},
        schema_overrides={"truth": pl.String},
    )  # fmt: skip
    looked_at = pl.DataFrame({"image": ["a", "b"], "video_id": ["v", "w"]})
    rings, scores = hold_against(found, given, looked_at)
    assert rings["truth"].to_list() == ["G", None, None]
    assert (scores["n_given"], scores["n_found"], scores["n_hit"]) == (3, 2, 1)
    assert scores["recall"] == pytest.approx(1 / 3) and scores["precision"] == pytest.approx(1 / 2)
    _, none = hold_against(found, given.clear(), looked_at)
    assert none["recall"] is None and none["reason"] == "no image with given rings was looked at"
