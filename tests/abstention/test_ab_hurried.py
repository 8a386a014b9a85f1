"""Files and recipes as they come from hurried hands: one clear error, the same in a run, in a check and on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import birdlab as bl
from birdlab.check.command import check_path
from birdlab.check.note import Note
from birdlab.cli import main
from birdlab.errors import BirdlabError, DataError, ParameterError
from birdlab.readers.answers import read_answers
from birdlab.readers.items import read_items
from birdlab.readers.scores import read_scores
from birdlab.readers.table_file import read_table, sniff

LIST = "genus,species,common_name\nCorvus,corax,Common Raven\nCorvus,corone,Carrion Crow\nPica,pica,Eurasian Magpie\n"
ITEMS = "item_id,genus,species,is_answerable,reasons\na,Corvus,Corvus corax,1,\nb,Corvus,Corvus corone,1,\nu,Pica,,0,angle\n"
WIDE = "item_id,Corvus corax,Corvus corone,Pica pica\na,0.8,0.1,0.1\nb,0.3,0.3,0.4\nu,0.2,0.2,0.6\n"
TOP = "item_id,label,probability\n" + "".join(f"{i},{s},0.4\n" for i in "abu" for s in ("Corvus corax", "Pica pica"))


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in (("list.csv", LIST), ("items.csv", ITEMS), ("wide.csv", WIDE), ("top.csv", TOP)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def study(folder):
    """What a check and a run find in a recipe of one model: (errors of the check, error of the run or None)."""

    def both(model: dict, **section):
        body = {"items": "items.csv", "taxonomy": "list.csv", "n_resamples": 100, "models": [{"name": "m", **model}]}
        recipe = folder / "r.yaml"
        recipe.write_text(yaml.safe_dump({"name": "birds", "data": {"root": "."}, "abstention": body | section}))
        try:
            found = [p for p in check_path(recipe) if not isinstance(p, Note)]
        except BirdlabError as error:
            found = error.problems
        try:
            run = bl.start(recipe, str(folder / "run"), notebook="09_abstention")
            both.answers = run.table("answers")
            run.table("metrics_abstention")
        except BirdlabError as error:
            return found, error
        return found, None

    return both


def answers(folder, text="Corvus corax", **more) -> dict:
    (folder / "said.jsonl").write_text("\n".join(json.dumps({"item_id": i, "answer": text, **more}) for i in "abu"))
    return {"answers": "said.jsonl"}


def score(*arguments) -> int:
    return main(["score", "abstention", *map(str, arguments), "--resamples", "20", "--json"])


@pytest.mark.parametrize("text", [None, ""])
def test_an_answer_that_is_missing_is_unparsed_and_no_end_of_a_run(study, folder, text):
    assert study(answers(folder, text, permits_abstention=True)) == ([], None)
    assert study.answers["decision"].cast(pl.String).to_list() == ["unparsed"] * 3
    assert study.answers["text"].to_list() == [""] * 3


def test_nobody_says_whether_a_prompt_permits_abstention(study, folder):
    checked, error = study(answers(folder))
    for problem in (*checked, *error.problems):
        assert (problem.code, problem.file, problem.record) == ("permits_unknown", "said.jsonl", "m")
        assert "prompts: {default: true}" in problem.remedy
    assert len(checked) == len(error.problems) == 1
    assert study({**answers(folder), "prompts": {"default": True}}) == ([], None)


@pytest.mark.parametrize(
    ("model", "section", "code"),
    [
        ({"scores": "wide.csv"}, {"ranks": ["family"]}, "no_ancestor"),
        ({"scores": "top.csv", "labels": "few.txt"}, {}, "unknown_label"),
        ({"scores": "top.csv", "labels": "utf16.txt"}, {}, "bad_labels"),
        ({"scores": "top.csv", "normalise": True}, {}, "bad_value"),
        ({"scores": "wide.csv", "labels": "few.txt"}, {}, "bad_value"),
        ({"scores": "wide.csv", "ids": "few.txt"}, {}, "bad_value"),
        ({"answers": "other.jsonl"}, {"missing": "drop"}, "items_without_answers|no_answers"),
    ],
)
def test_a_check_finds_what_would_stop_the_run(study, folder, model, section, code):
    (folder / "few.txt").write_text("Corvus corax\n")
    (folder / "utf16.txt").write_text("Corvus corax\nPica pica\n", encoding="utf-16")
    (folder / "other.jsonl").write_text('{"item_id": "z", "answer": "Pica pica", "permits_abstention": true}')
    checked, error = study(model, **section)
    assert {p.code for p in checked} <= set(code.split("|")) and checked
    assert {p.code for p in error.problems} <= set(code.split("|"))
    assert all("m" in (p.record or "") for p in error.problems)


@pytest.mark.parametrize(
    ("model", "section"),
    [
        ({"scores": "a\0b.csv"}, {}),
        ({"scores": ["wide.csv", ""]}, {}),
        ({"scores": []}, {}),
        ({"answers": ""}, {}),
        ({"weights": "\0.onnx"}, {}),
        ({"scores": "wide.csv"}, {"items": "a\0"}),
        ({"scores": "wide.csv"}, {"taxonomy": ""}),
        ({"scores": "wide.csv"}, {"taxonomy_sha256": ""}),
        ({"scores": "wide.csv"}, {"n_resamples": 10**9}),
        ({"scores": "wide.csv", "scale": float("inf")}, {}),
        ({"weights": "w.onnx", "batch": 10**9}, {}),
    ],
)
def test_recipes_that_can_never_work(study, model, section):
    checked, error = study(model, **section)
    assert isinstance(error, ParameterError)
    (problem,) = error.problems
    assert problem.key.startswith("abstention") and checked == [problem]


def test_lists_written_in_half_characters(folder):
    line = '{"item_id": "a\\ud83d", "genus": "Corvus", "species": "Corvus corax", "is_answerable": true}'
    (folder / "items.jsonl").write_text(f"{line}\n")
    with pytest.raises(DataError, match=r"items.jsonl, line 1: found .*surrogates"):
        read_items(folder / "items.jsonl")
    (folder / "ok.jsonl").write_text('{"item_id": "\\ud83d\\udc26"}\n')  # two halves are one bird
    assert read_table(folder / "ok.jsonl").frame["item_id"].to_list() == ["\N{BIRD}"]


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 4), }",
        b"(" * 117,
    ],
)
def test_npy_headers_that_lie(folder, header):
    (folder / "m.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n" + bytes(160))
    with pytest.raises(DataError) as error:
        read_scores(folder / "m.npy")
    assert error.value.problems[0].code in ("damaged_file", "bad_shape")


def test_labels_end_at_line_ends_only(folder):
    np.save(folder / "m.npy", np.full((1, 2), 0.5))
    (folder / "m.ids.txt").write_text("a\n")
    (folder / "m.labels.txt").write_bytes("Pica\u2028pica\r\nCorvus\x0ccorax\r\n\r\n".encode())
    (scores,) = read_scores(folder / "m.npy")
    assert scores.labels == ("Pica\u2028pica", "Corvus\x0ccorax")


@pytest.mark.parametrize("text", ["item_id,genus,species,is_answerable", "item_id,Pica pica"])
def test_a_header_alone(folder, text):
    (folder / "h.csv").write_text(text)
    with pytest.raises(DataError, match="found a header and no rows"):
        (read_items if "genus" in text else read_scores)(folder / "h.csv")


def test_a_pipe_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(DataError, match="found a pipe; expected a file"):
        sniff(folder / "pipe.csv")


def test_json_lines_with_neither_label_nor_answer(folder):
    (folder / "x.jsonl").write_text('{"item_id": "a", "said": "Pica pica"}\n')
    with pytest.raises(DataError, match="neither label nor answer; expected item_id and answer"):
        read_scores(folder / "x.jsonl")


@pytest.mark.parametrize("value", [["a"], {"a": 1}, "\ud83d"])
def test_odd_names_of_models(folder, capsys, value):
    answers(folder, model=value)
    assert score(folder / "items.csv", folder / "said.jsonl", "--taxonomy", folder / "list.csv") == 0
    (entry,) = json.loads(capsys.readouterr().out)["models"]
    assert entry["name"] == ("?" if value == "\ud83d" else str(value))


@pytest.mark.parametrize("text", ["Item ID;Answer\na;Pica pica\n", "ITEM-ID,answer\na,Pica pica\n"])
def test_answers_from_a_spreadsheet(folder, text):
    (folder / "s.csv").write_text(text)
    table, _ = read_answers(folder / "s.csv", model="m")
    assert table.select("item_id", "text").rows() == [("a", "Pica pica")]


def test_a_folder_in_place_of_answers(folder):
    with pytest.raises(DataError, match="found a folder; expected a file of answers"):
        read_answers(folder, model="m")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("wide.csv", "items.csv"), 2, "Put the file of items first"),
        (("items.csv", ""), 2, "SCORES: found an empty name"),
        (("items.csv", "top.csv", "--labels", "few.txt"), 3, "few.txt, --labels, labels: found 1 labels without Pica"),
        (("items.csv", "nan.csv"), 3, "--nan abstain"),
        (("items.csv", "logits.csv"), 3, "give --normalise"),
    ],
)
def test_on_the_command_line(folder, monkeypatch, capsys, arguments, code, said):
    (folder / "few.txt").write_text("Corvus corax\n")
    (folder / "nan.csv").write_text(WIDE.replace("0.8", "nan"))
    (folder / "logits.csv").write_text(WIDE.replace("0.8", "8.5"))
    monkeypatch.chdir(folder)
    assert score(*arguments) == code
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1
    assert len(json.loads(told.out)["errors"]) == 1


def test_more_resamples_than_any_machine_holds(folder, capsys):
    files = [str(folder / "items.csv"), str(folder / "wide.csv")]
    assert main(["score", "abstention", *files, "--resamples", "1000000000"]) == 2
    assert "from 0 to 20,000 resamples" in capsys.readouterr().err


def test_a_name_does_not_steer_the_terminal(folder, capsys):
    (folder / "items.csv").write_text(ITEMS.replace("\na,", "\n\x1b[2J\u202ea,"))
    assert score(folder / "items.csv", folder / "wide.csv") == 3
    told = capsys.readouterr().err
    assert r"\x1b[2J\u202ea" in told and told.count("\n") == 1 and "\x1b" not in told


def test_a_recipe_folded_a_billion_times(folder):
    names = "abcdefghi"
    folds = [f"{c}: &{c} [{', '.join(['*' + before] * 9)}]" for before, c in zip(names, names[1:], strict=False)]
    head = ["name: x", "data: {root: .}", "abstention: {items: *i, models: *i}"]
    (folder / "bomb.yaml").write_text("\n".join(["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]", *folds, *head]))
    assert main(["check", str(folder / "bomb.yaml")]) == 2
