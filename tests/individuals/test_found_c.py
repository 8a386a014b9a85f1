"""Numbers of individuals: what was once wrong or not said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from birdlab.cli import main

BINARY = "time\tpeck\n" + "".join(f"{t}.0\t{int(t in (3, 4, 9))}\n" for t in range(20))


def agreed(capsys: pytest.CaptureFixture[str], *args: object) -> dict:
    assert main(["score", "agreement", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_birds_that_only_one_observer_coded_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The ends of the files' names are the observers here, and would be taken for two birds.
    files = [tmp_path / f"nest_{who}.tsv" for who in ("anna", "ben")]
    for file in files:
        file.write_text(BINARY)
    report = agreed(capsys, *files, "--length", 20)
    told = {n["code"]: (n["message"], n["n"]) for n in report["notices"]}
    assert told["one_sided_birds"][1] == 2
    assert "(the first: anna; the second: ben)" in told["one_sided_birds"][0]
    assert report["agreement"][0]["value"] < 0
    report = agreed(capsys, *files, "--length", 20, "--subject", "abcd")
    assert report["agreement"][0]["value"] == 1
    assert not {n["code"] for n in report["notices"]} & {"one_sided_birds", "one_sided"}


def test_behaviours_that_only_one_observer_coded_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a" / "nest_abcd.tsv", tmp_path / "b" / "nest_abcd.tsv"]
    for file, name in zip(files, ("peck", "Peck"), strict=True):
        file.parent.mkdir()
        file.write_text(BINARY.replace("peck", name))
    notices = agreed(capsys, *files, "--length", 20)["notices"]
    assert [n["n"] for n in notices if n["code"] == "one_sided"] == [2]
    assert any("(the first: peck; the second: Peck)" in n["message"] for n in notices)
