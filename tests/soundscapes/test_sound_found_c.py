"""What chapter 08 and the summary say of made tables: who is named, what is counted, what stands beside a number."""

from __future__ import annotations

import polars as pl
import pytest

from birdlab.chapters import soundscapes as tables
from birdlab.chapters import soundscapes_words as say
from birdlab.chapters.summary_sound import sound_numbers, sound_title
from birdlab.metrics import metric_frame, metric_row
from birdlab.recipe import Recipe, parse_recipe


def recipe(assisted: list[bool | None]) -> Recipe:
    runs = [{"name": f"r{i}", "file": f"r{i}.txt", "assisted": a} for i, a in enumerate(assisted)]
    return parse_recipe({"name": "creek", "data": {"root": "."}, "soundscapes": {"truth": ["a.csv"], "runs": runs}})


def scored() -> pl.DataFrame:
    rows = []
    for model, value in (("r0", 0.4), ("r1", 0.7)):
        about = {"dataset": "creek", "model": model, "metric": "cmap"}
        rows.append(metric_row(**about, method="official", value=value, lo=value - 0.1, hi=value + 0.1))
        rows.append(metric_row(**about, method="pessimistic", value=value - 0.2))
    return metric_frame(rows)


@pytest.mark.parametrize(
    ("assisted", "names"), [([False, True], ["r0"]), ([None, True], ["r0"]), ([True, True], ["r0", "r1"])]
)
def test_the_summary_names_the_best_automatic_run(assisted: list[bool | None], names: list[str]) -> None:
    runs = tables.automatic(recipe(assisted))
    assert runs == names
    assert f"r{len(names) - 1}" in str(sound_title(scored(), runs))


def test_the_summary_says_why_the_pessimistic_value_has_no_interval() -> None:
    rows = sound_numbers(scored(), ["r0", "r1"]).rows_by_key("measure", named=True, unique=True)
    worst = rows["c-mAP, ties worst-case"]
    assert (worst["best"], worst["value"]) == ("r1", pytest.approx(0.5))
    assert worst["value_reason"] == "it is taken for the official rule alone"
    assert rows["r-mAP, ties best-case (official)"]["value_reason"] == "no run was scored"


def test_the_title_of_the_audit_counts_silent_recordings() -> None:
    counts = pl.DataFrame(
        {"name": ["recordings", "hours", "silent_recordings"], "value": [60.0, 6.75, 15.0]}, orient="row"
    )
    assert say.audit_title(counts) == "6.8 hours in 60 recordings, 15 recordings without a bird."


def panel(hour: int, cmap: float, n_heard: int) -> dict:
    return {"run": "r0", "panel": "hour", "recorder": None, "hour": hour, "cmap": cmap, "n_heard": n_heard}


def test_an_hour_with_a_single_song_is_not_the_worst_one() -> None:
    schema = {"run": pl.String, "panel": pl.String, "recorder": pl.String, "hour": pl.Int32, "cmap": pl.Float64, "n_heard": pl.Int64}  # fmt: skip
    rows = [panel(2, 0.0, 1), panel(0, 1.0, 3), panel(8, 0.8, 413), panel(14, 0.18, 356)]
    told = str(say.where_title(pl.DataFrame(rows, schema=schema), "r0"))
    assert "by hour from 0.18 (14 h, 356 segments with a bird) to 0.80 (8 h, 413 segments with a bird)" in told
    few = str(say.where_title(pl.DataFrame(rows[:2], schema=schema), "r0"))
    assert "by hour from 0.00 (2 h, 1 segment with a bird) to 1.00 (0 h, 3 segments with a bird)" in few


def species_pairs() -> pl.DataFrame:
    from birdlab.soundscapes.compare import SPECIES

    none = dict.fromkeys(SPECIES)
    pair = none | {"run_a": "r0", "run_b": "r1", "ap_a": 0.6, "ap_b": 0.4, "difference": 0.2, "family": 2}
    return pl.DataFrame(
        [
            pair | {"class_id": "wren", "lo": 0.1, "hi": 0.3, "p": 0.001, "p_holm": 0.002, "confirmed": True, "n_clusters": 25, "better": "r0"},
            pair | {"class_id": "crow", "lo": 0.1, "hi": 0.3, "p": 0.001, "p_holm": 0.002, "confirmed": False, "n_clusters": 9},
            pair | {"class_id": "jay", "confirmed": False, "n_clusters": 2, "reason": "heard in 2 recordings: too few"},
        ],
        schema=SPECIES,
    )  # fmt: skip


def test_two_runs_species_by_species() -> None:
    pairs = species_pairs()
    assert tables.species_pairs_table(pairs).select("class_id", "confirmed").rows() == [("wren", "yes"), ("crow", "no")]
    told = str(say.species_pairs_title(pairs))
    assert "finds 1 of 2 species better" in told and "finds 0 better" in told
    notes = say.species_pairs_notes(pairs)
    assert "at least 20 recordings" in notes[0]
    assert notes[1] == "Not tested: 1 species (1 heard in 2 recordings: too few)."
    assert say.species_pairs_title(pairs.clear()).startswith("No species")


def test_the_board_tells_how_runs_were_made() -> None:
    board = pl.DataFrame(
        {"run": ["r0", "r1"], "team": ["r0", "b"], "division": ["automatic"] * 2, "rank": [1, 2], "external_data": [True, None],
         "flags": [[], ["external data: not said"]]}, schema_overrides={"flags": pl.List(pl.String), "external_data": pl.Boolean}
    )  # fmt: skip
    scores = pl.DataFrame({"run": ["r0", "r1"], "cmap": [0.5, 0.4]})
    runs = pl.DataFrame({"run": ["r0", "r1"], "description": ["five networks", None]})
    notes = tables.board_table(board, scores, runs)["model_note"].to_list()
    assert notes == ["five networks; external data", "b; external data: not said"]


def test_the_table_of_species_counts_beside_its_numbers() -> None:
    from birdlab import schemas

    row = {"run": "r0", "class_id": "wren", "n_rel": 9, "n_recordings": 3, "n_listed": 8, "n_hit": 4, "ap": 0.5,
           "threshold": 0.4, "precision_at": 0.9, "precision_lo": 0.6, "precision_hi": 0.98, "said_instead": "crow",
           "n_said_instead": 2}  # fmt: skip
    classes = schemas.TABLES["soundscape_classes"].conform(
        pl.DataFrame([row, row | {"class_id": "jay", "said_instead": None}])
    )
    table = tables.species_table(classes, "r0")
    assert table.select("n_hit", "precision_at", "precision_lo", "precision_hi", "said_instead").row(0) == (4, 0.9, 0.6, 0.98, "crow, 2")  # fmt: skip
    assert table["said_instead"][1] is None
    assert "90 %" in say.species_caption(0.9)


def test_published_runs_are_said_to_be_read_second_hand() -> None:
    from birdlab.soundscapes.published import published

    rows = tables.board_published(published("birdclef2019"))
    assert rows is not None
    assert rows.select("model", "model_note", "cmap", "rmap").rows() == [
        ("best run", "BirdCLEF 2019, results, read second-hand", 0.356, 0.746),
        ("best run of the second team", "BirdCLEF 2019, results, read second-hand", 0.16, None),
    ]
