"""Small studies and odd tables of soundscapes: runs whose species have reasons or none, silence, times and lengths out of range."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from birdlab.chapters import soundscapes as tables
from birdlab.chapters import soundscapes_words as say
from birdlab.chapters.summary_sound import sound_title
from birdlab.check.note import Note
from birdlab.check.soundscapes import check_soundscapes
from birdlab.cli import main
from birdlab.errors import DataError
from birdlab.readers.birdnet import read_birdnet
from birdlab.readers.class_list import read_classes
from birdlab.readers.soundscape_recordings import read_recordings
from birdlab.readers.soundscape_truth import read_annotations
from birdlab.recipe import load_recipe
from birdlab.recipe.soundscapes import SoundRun
from birdlab.study import Run

RECORDINGS = "media_id,duration_s\nr1,20\nr2,20\nr3,20\n"
TRUTH = "MediaId;ClassId;TC1-TC2;Country\nr1;a;00:00:00-00:00:05;X\nr2;b;00:00:10-00:00:15;X\n"
HITS = "r1;00:00:00-00:00:05;a;0.9\nr2;00:00:10-00:00:15;b;0.8\n"


def _study(folder: Path, *, truth: str = TRUTH, recordings: str = RECORDINGS, **runs: str) -> Run:
    """A study of run files, as texts by name."""
    (folder / "gt.csv").write_text(truth)
    (folder / "recordings.csv").write_text(recordings)
    (folder / "classes.txt").write_text("a\nb\nc\n")
    for name, text in runs.items():
        (folder / f"{name}.txt").write_text(text)
    listed = [{"name": name, "file": f"{name}.txt"} for name in runs]
    section: dict[str, Any] = {
        "truth": ["gt.csv"],
        "recordings": "recordings.csv",
        "classes": "classes.txt",
        "runs": listed,
    }
    path = folder / "small.yaml"
    path.write_text(
        yaml.safe_dump({"name": "small", "data": {"root": "."}, "soundscapes": {**section, "n_resamples": 100}})
    )
    return Run(load_recipe(path), path, folder / "run", "08_soundscapes")


def test_runs_whose_species_have_reasons_and_runs_without_stand_in_one_table(tmp_path: Path) -> None:
    wrong = "r1;00:00:05-00:00:10;a;0.9\n"
    run = _study(tmp_path, good=HITS, bad=wrong)
    table = run.table("soundscape_classes")
    by = {(r["run"], r["class_id"]): r for r in table.to_dicts()}
    assert [by["good", c]["ap"] for c in "ab"] == [1, 1]
    assert by["good", "a"]["threshold_reason"] is None
    assert by["bad", "a"]["ap"] == 0
    assert by["bad", "a"]["threshold_reason"]


@pytest.mark.parametrize(
    ("head", "cell", "says"),
    [
        ("duration_s", "1e300", "at most 10000000 s"),
        ("duration_s", "1e9", "at most 10000000 s"),
        ("start_utc,timezone", "0001-01-01 00:00,UTC-5", "years 1 to 9999"),
        ("start_local,timezone", "9999-12-31 23:59,UTC-5", "years 1 to 9999"),
    ],
)
def test_lengths_and_starts_that_no_recording_has_are_told_with_their_line(
    tmp_path: Path, head: str, cell: str, says: str
) -> None:
    path = tmp_path / "recordings.csv"
    path.write_text(f"media_id,{head}\nr1,{cell}\n")
    with pytest.raises(DataError, match=rf"recordings\.csv, line 2.*{says}") as found:
        read_recordings(path)
    assert len(found.value.problems) == 1


SILENT = "MediaId;ClassId;TC1-TC2;Country\n"


@pytest.mark.parametrize("truth", [SILENT, SILENT + "r1;a;00:00:10-00:00:05;X\n"], ids=["no_row", "reversed"])
def test_a_truth_without_a_bird_gives_tables_without_species_and_reasons(tmp_path: Path, truth: str) -> None:
    run = _study(tmp_path, truth=truth, good=HITS, other=HITS)
    assert run.table("soundscape_classes").height == 0
    scores = run.table("soundscape_scores")
    assert scores["cmap"].to_list() == scores["rmap"].to_list() == [None, None]
    assert run.table("metrics_soundscapes").filter(metric="cmap", method="official")["reason"].null_count() == 0


def _problems(run: Run) -> list[str]:
    """Errors that the check of the recipe finds, and the tables raise the same."""
    found = check_soundscapes(run.recipe, run.recipe_path.parent, run.recipe_path.parent)
    told = [str(problem) for _, problem in found if not isinstance(problem, Note)]
    with pytest.raises(DataError) as error:
        run.table("soundscape_classes")
    assert [str(p) for p in error.value.problems] == told
    return told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("row_id,a,b,c\nr1_5,-3.2,0,0\n", "line 2, a: found -3.2.*sigmoid"),
        ("row_id,a,b,c\nzz_5,.2,0,0\n", r"found 'zz' in 3 predictions; expected one of 3 recordings"),
        ("row_id,a,b,c\nr1_100000,.2,0,0\n", "found 3 predictions past 86395 s in 'r1', up to 100000 s"),
    ],
    ids=["logits", "recording", "day"],
)
def test_foreign_runs_are_checked_and_told_under_their_own_name(tmp_path: Path, text: str, says: str) -> None:
    told = _problems(_study(tmp_path, wide=text))
    assert len(told) == 1
    assert re.search(rf"wide\.txt.*{says}", told[0])
    assert "soundscape_runs" not in told[0]


def test_an_annotation_outside_the_lists_is_told_with_its_file(tmp_path: Path) -> None:
    told = _problems(_study(tmp_path, truth=TRUTH + "r1;z;00:00:00-00:00:05;X\n", good=HITS))
    assert len(told) == 1
    assert re.search(r"gt\.csv, line 4, class_id: found 'z'", told[0])


def test_the_check_lists_what_is_wrong_with_every_list_at_once(tmp_path: Path) -> None:
    run = _study(tmp_path, truth="MediaId;ClassId\nr1;a\n", recordings="media_id,duration_s\nr1,-1\n", good=HITS)
    (tmp_path / "classes.txt").write_text("")
    found = check_soundscapes(run.recipe, tmp_path, tmp_path)
    assert [Path(problem.file).name for _, problem in found] == ["recordings.csv", "classes.txt", "gt.csv"]


def test_a_bird_past_a_day_is_remarked(tmp_path: Path) -> None:
    path = tmp_path / "gt.csv"
    path.write_text(TRUTH + "r1;a;23:59:50-23:59:55;X\nr1;a;25:00:00-25:00:05;X\n")
    notices = {n.code: n.n for n in read_annotations(path).notices}
    assert notices["past_a_day"] == 1


def test_an_interval_that_is_missing_has_the_reason_of_its_own_score(tmp_path: Path) -> None:
    run = _study(tmp_path, truth=SILENT + "r1;a;00:00:00-00:00:05;X\n", good=HITS)
    scores, metrics = run.table("soundscape_scores"), run.table("metrics_soundscapes")
    assert scores["rmap"].item() == 1
    assert "one recording" in scores["rmap_reason"].item()
    assert metrics.filter(metric="rmap", method="official")["reason"].item() == scores["rmap_reason"].item()
    table = tables.board_table(run.table("soundscape_board"), scores)
    assert table["rmap_reason"].item() == scores["rmap_reason"].item()


def test_runs_that_are_level_lead_together_and_runs_without_a_hit_do_not_lead(tmp_path: Path) -> None:
    level = _study(tmp_path, first=HITS, second=HITS)
    board, scores, counts = (level.table(f"soundscape_{name}") for name in ("board", "scores", "counts"))
    assert "lead, level: c-mAP 1.00" in say.answer(board, scores, counts)[1]
    assert "1.0 minutes in 3 recordings" in say.answer(board, scores, counts)[2]
    folder = tmp_path / "none"
    folder.mkdir()
    none = _study(folder, first="", second="r1;00:00:15-00:00:20;a;1\n")
    board, scores = (none.table(f"soundscape_{name}") for name in ("board", "scores"))
    assert say.answer(board, scores, counts)[1].startswith("No run lists a species where it is heard")
    assert "leads" not in say.board_title(board, scores, none.table("soundscape_pairs"))
    assert "No run lists" in sound_title(none.table("metrics_soundscapes"), ["first", "second"])


def test_a_table_in_another_layout_is_named_and_sent_to_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _study(tmp_path, good="row_id,a,b\nr1_5,.9,0\n", bird="Start (s),End (s),Scientific name,Common name,Confidence\n")
    args = [str(tmp_path / name) for name in ("gt.csv", "good.txt", "bird.txt")]
    assert main(["score", "soundscapes", *args, "--classes", str(tmp_path / "classes.txt")]) == 3
    said = capsys.readouterr().err
    assert re.search(r"good\.txt: found a wide submission; expected a run file\. Name it in a recipe", said)
    assert re.search(r"bird\.txt: found a table of BirdNET", said)


@pytest.mark.parametrize("key", [{"labels": "l.txt"}, {"sha256": "0"}, {"window_s": 3}, {"sample_rate": 32_000}])
def test_keys_of_a_classifier_beside_a_file_are_refused(key: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(key))} beside file"):
        SoundRun.model_validate({"name": "r", "file": "run.txt", **key})


def test_a_label_map_beside_a_run_file_is_remarked(tmp_path: Path) -> None:
    run = _study(tmp_path, good=HITS)
    recipe = tmp_path / "small.yaml"
    recipe.write_text(recipe.read_text().replace("file: good.txt", "file: good.txt\n    label_map: none.csv"))
    run = Run(load_recipe(recipe), recipe, tmp_path / "run", "08_soundscapes")
    assert "label_map_not_used" in run.table("soundscape_run_notices")["code"].to_list()
    assert "label_map_not_used" in [p.code for _, p in check_soundscapes(run.recipe, tmp_path, tmp_path)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("1e300,1e301,Aus bus,a,0.9", r"Start \(s\): found '1e300'"),
        ("0,1e9,Aus bus,a,0.9", r"End \(s\): found '1e9'"),
        ("0,3,Aus bus,a,00:00:01", "Confidence: found '00:00:01'"),
        ("0,3,Aus bus,a,NaN", "Confidence: found 'NaN'"),
    ],
)
def test_numbers_of_birdnet_that_are_none_are_told_with_their_line(tmp_path: Path, row: str, says: str) -> None:
    path = tmp_path / "r1.BirdNET.results.csv"
    path.write_text(f"Start (s),End (s),Scientific name,Common name,Confidence\n{row}\n")
    with pytest.raises(DataError, match=rf"results\.csv, line 2, {says}"):
        read_birdnet(path, classes=("a",))


def test_too_many_classes_of_a_wide_submission_are_told_under_its_name(tmp_path: Path) -> None:
    run = _study(tmp_path, wide="row_id,a,b,c\nr1_5,.9,.1,.2\nr1_10,.9,.1,.2\n")
    recipe = tmp_path / "small.yaml"
    recipe.write_text(recipe.read_text().replace("  n_resamples", "  max_classes: 2\n  n_resamples"))
    told = _problems(Run(load_recipe(recipe), recipe, run.dir, "08_soundscapes"))
    assert re.search(r"wide\.txt: found 3 classes at 0 s in 'r1', and 1 more segments.*at most 2", told[0])


def test_a_class_list_in_latin_1_is_remarked(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(b"a\n\xe9\n")
    names, notices = read_classes(path)
    assert names == ("a", "é")
    assert [n.code for n in notices] == ["latin_1"]
