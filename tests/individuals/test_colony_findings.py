"""The made colony: what was planted is what the chapters find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from birdlab.demo.colony import write_colony
from birdlab.individuals.actions import score_actions
from birdlab.individuals.budget import error_budget
from birdlab.individuals.evaluate import evaluate
from birdlab.individuals.matching import documented_view
from birdlab.individuals.offset import time_offset
from birdlab.individuals.study import human_pecks, notices
from birdlab.readers.behaviours import read_clips
from birdlab.readers.chirp import Colony, read_colony


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("colony")
    write_colony(out)
    return out / "individuals"


@pytest.fixture(scope="module")
def colony(folder: Path) -> Colony:
    return read_colony(folder)


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "truth.json").read_text(encoding="utf-8"))


def test_the_planted_stage_has_the_largest_share(colony: Colony, truth: dict[str, Any]) -> None:
    budget = error_budget(documented_view(colony)).filter(pl.col("measure") == "pecks_per_min")
    looked = 0
    for planted in truth["combinations"]:
        rows = budget.filter(**{k: planted[k] for k in ("tracker", "model", "identity")})
        assert rows["share"].sum() == pytest.approx(rows["total"][0], abs=1e-9)
        if planted["clear"]:
            assert rows.sort("share", descending=True)["stage"][0] == planted["leading_stage"], planted
            looked += 1
    assert looked >= 4


def test_complete_and_incomplete_combinations(colony: Colony, truth: dict[str, Any]) -> None:
    want = {tuple(c[k] for k in ("tracker", "model", "identity")): c["complete"] for c in truth["combinations"]}
    got = {row[:3]: row[3] for row in colony.combinations.select("tracker", "model", "identity", "complete").rows()}
    assert got == want and sum(want.values()) >= 8 and not all(want.values())


def test_both_protocols_score_boxes(colony: Colony) -> None:
    """Names of tracks have one type in all files: the authors' script would find nothing otherwise."""
    for protocol in ("documented", "reference"):
        assert evaluate(colony, protocol=protocol).summary["frame_accuracy"].min() > 0.1


def test_birds_that_only_one_side_knows_are_named(colony: Colony, truth: dict[str, Any]) -> None:
    told = {row["code"]: row["message"] for row in notices(colony, documented_view(colony)).to_dicts()}
    assert truth["planted"]["nobody_names"] in told["never_predicted"]
    assert truth["planted"]["nobody_saw"] in told["never_seen"]


def test_the_person_is_late_by_what_was_planted(colony: Colony, truth: dict[str, Any]) -> None:
    coded, inside = human_pecks(documented_view(colony))
    shift = time_offset(inside, coded, 25.0)
    assert shift.seconds == pytest.approx(truth["human"]["delay_s"], abs=0.081)


def test_confusion_of_clips_is_as_planted(folder: Path, truth: dict[str, Any]) -> None:
    labels = truth["actions"]["labels"]
    files = {name: folder / "actions" / f"{name}.csv" for name in truth["actions"]["confusion"]}
    clips, told = read_clips(folder / "actions" / "BehaviourAnnotations.csv", files, split="Test")
    assert {n.code: n.n for n in told}["corrupted"] == truth["actions"]["n_corrupted"]
    for name, planted in truth["actions"]["confusion"].items():
        found = score_actions(clips.filter(pl.col("model") == name), labels)
        want = [[planted[a][b] for b in labels] for a in labels] if isinstance(planted, dict) else planted
        assert found["confusion"][:, :-1].tolist() == want
