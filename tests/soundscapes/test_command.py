"""``birdlab score soundscapes`` as its user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from birdlab.cli import main

GT = (
    "SSW0001;amecro;00:00:00-00:00:05;United States\n"
    "SSW0001;amecro;00:00:05-00:00:10;United States\n"
    "SSW0001;blujay;00:00:05-00:00:10;United States\n"
    "SSW0002;amecro;00:00:00-00:00:05;United States\n"
    "SSW0002;blujay;00:00:15-00:00:20;United States\n"
)
RUN = (
    "SSW0001;00:00:00-00:00:05;amecro;0.9\n"
    "SSW0001;00:00:05-00:00:10;amecro;0.8\n"
    "SSW0001;00:00:10-00:00:15;amecro;0.8\n"
    "SSW0002;00:00:00-00:00:05;amecro;0.7\n"
    "SSW0001;00:00:05-00:00:10;blujay;0.3\n"
    "SSW0002;00:00:10-00:00:15;blujay;0.6\n"
    "SSW0002;00:00:15-00:00:20;blujay;0.5\n"
)
KEYS = {
    "name", "cmap", "cmap_pessimistic", "cmap_step", "cmap_expected", "rmap", "rmap_pessimistic", "rmap_step",
    "rmap_expected", "n_classes", "classes", "warnings",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gt.csv").write_text(GT)
    (tmp_path / "crow.txt").write_text(RUN)
    (tmp_path / "classes.txt").write_text("amecro\nblujay\ncangoo\nnorcar\n")
    (tmp_path / "rec.csv").write_text("media_id,duration_s\nSSW0001,20\nSSW0002,20\nNIGHT,20\n")
    return tmp_path


def scored(capsys, *args: str) -> tuple[int, dict]:
    code = main(["score", "soundscapes", "gt.csv", *args, "--classes", "classes.txt", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_json_has_the_promised_keys(folder, capsys):
    code, found = scored(capsys, "crow.txt", "--recordings", "rec.csv")
    run = found["runs"][0]
    assert code == 0 and set(run) >= KEYS and run["name"] == "crow"
    assert (run["cmap"], run["rmap"], run["n_classes"]) == (0.75, 1.0, 2)
    assert run["cmap_expected"] == pytest.approx(13 / 18) and run["cmap_pessimistic"] == pytest.approx(25 / 36)
    crow = run["classes"][0]
    assert set(crow) >= {"class_id", "n_rel", "ap", "ap_pessimistic", "ap_step", "ap_expected"}
    assert (crow["class_id"], crow["n_rel"], crow["n_listed"], crow["n_hit"]) == ("amecro", 3, 4, 3)
    assert run["warnings"][0].startswith("tie_gap: equal probabilities: c-mAP 0.7500")


def test_several_runs_keep_their_order_and_names(folder, capsys):
    (folder / "other").mkdir()
    (folder / "other" / "crow.txt").write_text("")
    _, found = scored(capsys, "crow.txt", "other/crow.txt")
    assert [(r["name"], r["cmap"]) for r in found["runs"]] == [("crow", 0.75), ("other/crow", 0.0)]
    assert found["runs"][1]["warnings"][0].startswith("empty_run:")


def test_problems_of_all_runs_are_told_at_once(folder, capsys):
    (folder / "a.txt").write_text(RUN + RUN.splitlines()[0])
    (folder / "b.txt").write_text("nothing\n")
    code, found = scored(capsys, "a.txt", "crow.txt", "b.txt")
    assert code == 3
    assert [(e["file"], e["line"], e["code"]) for e in found["errors"]] == [
        ("a.txt", 8, "duplicate"),
        ("b.txt", 1, "fields"),
    ]
    assert all(e["found"] and e["expected"] for e in found["errors"])


def test_lenient_and_most_classes(folder, capsys):
    (folder / "odd.txt").write_text("\n" + RUN.replace(";amecro", "; amecro"))
    assert scored(capsys, "odd.txt")[0] == 3
    code, found = scored(capsys, "odd.txt", "--lenient")
    told = found["runs"][0]["warnings"]
    assert code == 0 and told[0].startswith("repaired_blank") and told[1].startswith("repaired_spaces")
    assert found["runs"][0]["cmap"] == 0.75
    code, found = scored(capsys, "crow.txt", "--max-classes", "1")
    assert code == 3 and [(e["code"], e["line"]) for e in found["errors"]] == [("too_many", 5)]
    assert scored(capsys, "crow.txt", "--max-classes", "0")[0] == 2


def test_a_truth_that_is_not_in_the_class_list(folder, capsys):
    (folder / "classes.txt").write_text("amecro\n")
    code, found = scored(capsys, "crow.txt")
    assert code == 3 and found["errors"][0]["code"] == "class_unknown" and "blujay" in found["errors"][0]["found"]


@pytest.mark.parametrize("missing", ["gt.csv", "crow.txt", "classes.txt", "rec.csv"])
def test_a_missing_file_is_named(folder, capsys, missing):
    (folder / missing).unlink()
    code, found = scored(capsys, "crow.txt", "--recordings", "rec.csv")
    assert code == 3 and len(found["errors"]) == 1 and missing in json.dumps(found["errors"])


def test_the_table_reads_well(folder, capsys):
    assert main(["score", "soundscapes", "gt.csv", "crow.txt", "--classes", "classes.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == "run c-mAP worst ties expected step r-mAP worst ties species segments".split()
    assert lines[1].split()[:3] == ["crow", "0.7500", "0.6944"]
    assert any(line.startswith("amecro") for line in lines) and any("no --recordings" in line for line in lines)


def test_help_names_the_layout(capsys):
    with pytest.raises(SystemExit):
        main(["score", "soundscapes", "--help"])
    assert "MediaId;TC1-TC2;ClassId;Probability" in capsys.readouterr().out
