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
