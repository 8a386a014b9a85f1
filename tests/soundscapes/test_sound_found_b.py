"""Small studies and odd tables of soundscapes: runs whose species have reasons or none, silence, times and lengths out of range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from birdlab.errors import DataError
from birdlab.readers.soundscape_recordings import read_recordings
from birdlab.recipe import load_recipe
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
