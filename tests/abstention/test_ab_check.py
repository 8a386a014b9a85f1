"""`birdlab check RECIPE` on the section abstention: everything in one list, nothing run, no matrix read."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import yaml

from birdlab.check.command import check_path
from birdlab.check.note import Note
from birdlab.cli import main

LIST = "genus,species,common_name\nCorvus,corax,Common Raven\nCorvus,corone,Carrion Crow\nPica,pica,Eurasian Magpie\n"
ITEMS = "item_id,genus,species,is_answerable,reasons\na,Corvus,Corvus corax,1,\nb,Corvus,Corvus corone,1,\nu,Pica,,0,angle\n"
WIDE = "item_id,Corvus corax,Corvus corone,Pica pica\na,0.8,0.1,0.1\nb,0.3,0.3,0.4\nu,0.2,0.2,0.6\n"


@pytest.fixture
def study(tmp_path):
    """Writes a recipe of these models beside a list, items and scores; returns what check finds."""
    (tmp_path / "list.csv").write_text(LIST)
    (tmp_path / "items.csv").write_text(ITEMS)
    (tmp_path / "wide.csv").write_text(WIDE)

    def check(*models, **section):
        body = {"items": "items.csv", "taxonomy": "list.csv", "models": list(models), **section}
        recipe = tmp_path / "r.yaml"
        recipe.write_text(yaml.safe_dump({"name": "birds", "data": {"root": "."}, "abstention": body}))
        return check_path(recipe)

    check.folder = tmp_path
    return check


def errors(found):
    return [p for p in found if not isinstance(p, Note)]


def answers(folder, **changes):
    rows = [
        {"item_id": i, "prompt_id": p, "permits_abstention": p == "may", "answer": "Corvus corax"}
        for i in "abu"
        for p in ("may", "must")
        if (i, p) != changes.get("without")
    ]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_a_recipe_about_abstention_alone_has_nothing_wrong(study):
    answers(study.folder)
    assert errors(study({"name": "w", "scores": "wide.csv"}, {"name": "t", "answers": "answers.jsonl"})) == []


def test_no_folder_of_data_is_needed(study):
    recipe = study.folder / "other.yaml"
    body = {"items": "items.csv", "taxonomy": "list.csv", "models": [{"name": "w", "scores": "wide.csv"}]}
    recipe.write_text(yaml.safe_dump({"name": "birds", "data": {"root": "nowhere"}, "abstention": body}))
    assert errors(check_path(recipe)) == []


def test_everything_that_is_missing_is_in_one_list(study, capsys):
    found = errors(
        study(
            {"name": "w", "scores": "nope.csv"},
            {"name": "t", "answers": "nope.jsonl"},
            {"name": "c", "weights": "nope.onnx"},
            taxonomy="ebird_1999",
            items="nope_items.csv",
            vernaculars="nope_names.csv",
        )
    )
    told = " ".join(map(str, found))
    for name in ("nope.csv", "nope.jsonl", "nope.onnx", "ebird_1999", "nope_items.csv", "nope_names.csv"):
        assert told.count(name) == 1, name
    assert main(["check", str(study.folder / "r.yaml"), "--json"]) == 3
    assert len(json.loads(capsys.readouterr().out)["errors"]) == len(found) == 6


def test_items_that_cannot_be_read_and_a_model_all_the_same(study):
    (study.folder / "items.csv").write_text(ITEMS.replace("Pica,", "Pika,"))
    found = errors(study({"name": "w", "scores": "nope.csv"}))
    assert {p.code for p in found} == {"unknown_genus", "no_file"}
    assert next(p for p in found if p.code == "unknown_genus").line == 4


def test_the_hash_of_the_list(study):
    good = hashlib.sha256(LIST.encode()).hexdigest()
    assert errors(study({"name": "w", "scores": "wide.csv"}, taxonomy_sha256=good)) == []
    (problem,) = errors(study({"name": "w", "scores": "wide.csv"}, taxonomy_sha256="0" * 64))
    assert problem.code == "hash_differs" and problem.found == good


def test_the_shape_of_a_matrix(study):
    np.save(study.folder / "m.npy", np.full((2, 3), 1 / 3, dtype=np.float32))
    (study.folder / "m.ids.txt").write_text("a\nb\nu\n")
    (study.folder / "m.labels.txt").write_text("Corvus corax\nCorvus corone\nPica pica\n")
    (problem,) = errors(study({"name": "w", "scores": "m.npy"}))
    assert problem.code == "count_differs" and "3 ids" in problem.found


def test_a_matrix_is_not_read(study, monkeypatch):
    def read(*_, **__):
        pytest.fail("the matrix was read")

    monkeypatch.setattr("birdlab.readers.scores_wide.stream", read)
    np.save(study.folder / "m.npy", np.full((3, 3), np.nan, dtype=np.float32))
    (study.folder / "m.ids.txt").write_text("a\nb\nu\n")
    (study.folder / "m.labels.txt").write_text("Corvus corax\nCorvus corone\nPica pica\n")
    assert errors(study({"name": "w", "scores": "m.npy"}, {"name": "x", "scores": "wide.csv"})) == []


def test_items_and_scores_that_do_not_meet(study):
    (study.folder / "wide.csv").write_text(WIDE.replace("\nb,", "\nz,"))
    (problem,) = errors(study({"name": "w", "scores": "wide.csv"}))
    assert problem.code == "items_without_scores"
    found = study({"name": "w", "scores": "wide.csv"}, missing="drop")
    assert errors(found) == []
    assert {p.code for p in found} >= {"items_without_scores", "scores_without_item"}


def test_labels_that_the_list_does_not_know(study):
    (study.folder / "wide.csv").write_text(WIDE.replace("Pica pica", "background"))
    found = study({"name": "w", "scores": "wide.csv"})
    assert errors(found) == [] and any(p.code == "other_labels" and "background" in p.found for p in found)
    (study.folder / "wide.csv").write_text("item_id,x,y\na,0.5,0.5\nb,0.5,0.5\nu,0.5,0.5\n")
    (problem,) = errors(study({"name": "w", "scores": "wide.csv"}))
    assert problem.code == "no_species"


def test_prompts(study):
    answers(study.folder)
    (unknown,) = errors(study({"name": "t", "answers": "answers.jsonl", "prompt": "perhaps"}))
    assert unknown.code == "unknown_prompt" and "may" in unknown.expected
    found = errors(study({"name": "t", "answers": "answers.jsonl", "prompts": {"may": True}}))
    assert {p.code for p in found} == {"unknown_prompt"}
    named = {"may": True, "must": False, "never": False}
    found = study({"name": "t", "answers": "answers.jsonl", "prompts": named})
    assert errors(found) == [] and any(p.code == "prompt_without_answer" and "never" in p.found for p in found)


def test_items_without_an_answer_to_the_scored_prompt(study):
    answers(study.folder, without=("u", "may"))
    (problem,) = errors(study({"name": "t", "answers": "answers.jsonl"}))
    assert problem.code == "items_without_answers" and "'u'" in problem.found
    assert errors(study({"name": "t", "answers": "answers.jsonl", "prompt": "must"})) == []
    assert errors(study({"name": "t", "answers": "answers.jsonl"}, missing="drop")) == []


def test_lists_that_miss_much_are_told_before(study):
    (study.folder / "top.csv").write_text(
        "item_id,label,probability\n" + "".join(f"{i},Pica pica,0.4\n" for i in "abu")
    )
    found = study({"name": "k", "scores": "top.csv"})
    assert errors(found) == [] and any(p.code == "missing_mass" and "60.0 %" in p.found for p in found)


def test_answers_in_columns_are_answers(study):
    (study.folder / "said.csv").write_text("item_id,answer,abstained\na,Pica pica,0\nb,,1\nu,,1\n")
    assert errors(study({"name": "s", "scores": "said.csv"})) == []
    (problem,) = errors(study({"name": "s", "scores": "said.csv", "prompt": "may"}))
    assert problem.code == "unknown_prompt"
    (study.folder / "said.csv").write_text("item_id,answer,abstained\na,Pica pica,0\n")
    (problem,) = errors(study({"name": "s", "scores": "said.csv"}))
    assert problem.code == "items_without_answers" and "2 items" in problem.found
    assert errors(study({"name": "s", "scores": "said.csv"}, missing="drop")) == []


def test_weights_are_looked_at_and_not_run(study):
    (study.folder / "w.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    (study.folder / "w.labels.txt").write_text("Corvus corax\nPica pica\n")
    found = errors(study({"name": "c", "weights": "w.tflite", "sha256": "0" * 64}))
    assert {p.code for p in found} >= {"wrong_hash"}


def test_photographs_that_are_not_there(study):
    rows = [f"{i},{i}.jpg,{rest}" for i, rest in (line.split(",", 1) for line in ITEMS.splitlines()[1:])]
    (study.folder / "items.csv").write_text("item_id,image,genus,species,is_answerable,reasons\n" + "\n".join(rows))
    (study.folder / "photos").mkdir()
    (study.folder / "photos" / "a.jpg").write_bytes(b"x")
    (study.folder / "w.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    (study.folder / "w.labels.txt").write_text("Corvus corax\nPica pica\n")
    (problem,) = errors(study({"name": "c", "weights": "w.tflite"}, images="photos"))
    assert problem.code == "no_picture" and "2 photographs" in problem.found and "b.jpg, u.jpg" in problem.found
    (problem,) = errors(study({"name": "c", "weights": "w.tflite"}, images="elsewhere"))
    assert problem.code == "no_file" and problem.key == "abstention.images"
