"""A recipe about soundscapes: its section, its tables against plain counting, other layouts, what is refused; the planted truth."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from birdlab.builders import subject
from birdlab.check.recipe import check_recipe
from birdlab.demo.soundscapes import write_soundscapes
from birdlab.errors import DataError, ParameterError
from birdlab.recipe import load_recipe, parse_recipe
from birdlab.study import Run

SECTION = {
    "truth": ["soundscapes/annotations.csv"],
    "classes": "soundscapes/classes.txt",
    "recordings": "soundscapes/recordings.csv",
    "n_resamples": 200,
    "published": ["birdclef2019"],
    "runs": [
        {"name": "good", "file": "soundscapes/runs/dawn-good.txt", "team": "dawn", "assisted": False, "external_data": False},
        {"name": "ones", "file": "soundscapes/runs/dawn-saturated.txt", "team": "dawn"},
        {"name": "mixed", "file": "soundscapes/runs/noon-confused.txt", "team": "noon"},
        {"name": "helped", "file": "soundscapes/runs/noon-assisted.txt", "team": "noon", "assisted": True},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sound")
    write_soundscapes(out)
    return out


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return _run(tmp_path_factory.mktemp("run"), data, SECTION)


@pytest.fixture(scope="module")
def planted(data: Path) -> dict:
    return json.loads((data / "soundscapes" / "truth.json").read_text(encoding="utf-8"))


def _recipe(folder: Path, data: Path, section: dict) -> Path:
    path = folder / "creek.yaml"
    path.write_text(yaml.safe_dump({"name": "creek", "data": {"root": str(data)}, "soundscapes": section}))
    return path


def _run(folder: Path, data: Path, section: dict) -> Run:
    path = _recipe(folder, data, section)
    return Run(load_recipe(path), path, folder / "run", "08_soundscapes")


def _plain(data: Path, name: str) -> tuple[dict, dict]:
    """Truth and run by plain reading: class -> set of (recording, segment), class -> [(probability, (recording, segment))]."""

    def seconds(text: str) -> int:
        h, m, s = text.split(":")
        return 3600 * int(h) + 60 * int(m) + int(s)

    truth, listed = defaultdict(set), defaultdict(list)
    for line in (data / "soundscapes" / "annotations.csv").read_text().splitlines()[1:]:
        media, cls, span, _ = line.split(";")
        a, b = map(seconds, span.split("-"))
        truth[cls] |= {(media, k) for k in range(a // 5, -(-b // 5))}
    for line in (data / "soundscapes" / "runs" / f"{name}.txt").read_text().splitlines():
        media, span, cls, p = line.split(";")
        listed[cls].append((float(p), (media, seconds(span.split("-")[0]) // 5)))
    return truth, listed


def _average_precision(relevant: set, rows: list, *, best: bool) -> float:
    order = sorted(rows, key=lambda r: (-r[0], (r[1] not in relevant) if best else (r[1] in relevant)))
    hits = np.array([r[1] in relevant for r in order], dtype=float)
    if not len(hits):
        return 0.0
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / len(relevant))


def test_its_chapters_colours_and_subject(data: Path, tmp_path: Path) -> None:
    recipe = load_recipe(_recipe(tmp_path, data, SECTION))
    assert [name for name, _ in recipe.steps()] == ["08_soundscapes", "10_summary"]
    assert recipe.coloured[-1] == ["good", "ones", "mixed", "helped"]
    assert subject("birdlab.soundscapes.study:build") == subject("birdlab.inference.sound_study:build") == "soundscapes"


@pytest.mark.parametrize("name", ["good", "ones"])
def test_scores_equal_plain_counting_line_by_line(run: Run, data: Path, name: str) -> None:
    file = {"good": "dawn-good", "ones": "dawn-saturated"}[name]
    truth, listed = _plain(data, file)
    row = run.table("soundscape_scores").filter(run=name).row(0, named=True)
    for key, best in (("cmap", True), ("cmap_pessimistic", False)):
        values = {c: _average_precision(relevant, listed[c], best=best) for c, relevant in truth.items() if relevant}
        assert row[key] == pytest.approx(np.mean(list(values.values())), abs=1e-12)
        column = {"cmap": "ap", "cmap_pessimistic": "ap_pessimistic"}[key]
        mine = dict(run.table("soundscape_classes").filter(run=name).select("class_id", column).rows())
        assert mine == pytest.approx(values, abs=1e-12)


def test_what_was_planted_is_found(run: Run, planted: dict) -> None:
    scores = {r["run"]: r for r in run.table("soundscape_scores").to_dicts()}
    assert scores["ones"]["gap"] > 0.05 > scores["good"]["gap"]
    assert scores["helped"]["cmap"] > scores["good"]["cmap"] > scores["mixed"]["cmap"]
    board = run.table("soundscape_board")
    assert board.filter(run="helped")["division"][0] == "assisted" and board.filter(run="helped")["rank"][0] == 1
    pairs = next(r["pairs"] for r in planted["runs"] if "pairs" in r)
    instead = run.table("soundscape_instead").filter(run="mixed")
    first = [instead.filter(class_id=p["heard"]).sort("n_instead", descending=True)["said"][0] for p in pairs]
    # A species that is heard in few segments may be drowned by chance.
    assert sum(said == p["said"] for said, p in zip(first, pairs, strict=True)) >= 2
    panels = run.table("soundscape_panels").filter(run="good", panel="recorder").sort("cmap")
    assert panels["recorder"][0] == planted["noisy_recorder"]["recorder"]


def test_silent_recordings_and_species_that_never_sing_are_counted(run: Run, planted: dict) -> None:
    assert set(run.table("soundscape_silent")["media_id"]) == set(planted["silent_recordings"])
    assert set(run.table("soundscape_never")["class_id"]) == set(planted["never"])
    counts = dict(run.table("soundscape_counts").select("name", "value").rows())
    assert counts["recordings"] == planted["n_recordings"]


def test_intervals_and_differences_are_there_and_the_flags(run: Run) -> None:
    scores = run.table("soundscape_scores")
    assert (scores["cmap_lo"] < scores["cmap"]).all() and (scores["cmap"] < scores["cmap_hi"]).all()
    assert run.table("soundscape_pairs").height == 6
    flags = {r["run"]: r["flags"] for r in run.table("soundscape_board").to_dicts()}
    assert flags["good"] == [] and any("not" in f or "said" in f for f in flags["ones"])
    metrics = run.table("metrics")
    printed = metrics.filter(pl.col("published").is_not_null())
    assert sorted(printed["published"]) == [0.16, 0.356, 0.746] and printed["value"].null_count() == 3


def test_another_layout_is_written_as_a_run_and_scores_the_same(run: Run, data: Path, tmp_path: Path) -> None:
    _, listed = _plain(data, "dawn-good")
    rows = {}
    for cls, found in listed.items():
        for p, (media, k) in found:
            rows.setdefault(f"{media}_{5 * k + 5}", {})[cls] = p
    names = (data / "soundscapes" / "classes.txt").read_text().split()
    lines = [",".join(["row_id", *names])]
    lines += [",".join([row, *(repr(cells.get(c, 0.0)) for c in names)]) for row, cells in rows.items()]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    wide = _run(tmp_path, data, SECTION | {"runs": [{"name": "wide", "file": str(tmp_path / "wide.csv")}]})
    mine, other = (r.table("soundscape_scores").row(0, named=True) for r in (wide, run))
    # Listed zeros come after everything that was listed before: no precision at a hit of the other run changes.
    assert mine["cmap_pessimistic"] >= other["cmap_pessimistic"] - 1e-9
    assert (wide.dir / "soundscape_runs" / "wide.txt").is_file()


def test_errors_of_all_runs_are_in_one(data: Path, tmp_path: Path) -> None:
    good = (data / "soundscapes" / "runs" / "dawn-good.txt").read_text().splitlines()
    (tmp_path / "a.txt").write_text("\n".join([good[0], good[0]]) + "\n")
    (tmp_path / "b.txt").write_text(good[0].rsplit(";", 1)[0] + ";1.5\n")
    runs = [{"name": n, "file": str(tmp_path / f"{n}.txt")} for n in "ab"]
    with pytest.raises(DataError) as error:
        _run(tmp_path, data, SECTION | {"runs": runs}).table("soundscape_scores")
    found = {(Path(str(p.file)).name, p.line) for p in error.value.problems}
    assert {("a.txt", 2), ("b.txt", 1)} <= found
    codes = {p.code for _, p in check_recipe(_recipe(tmp_path, data, SECTION | {"runs": runs}))}
    assert len(codes) >= 2


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"truth": ["a.csv"], "runs": []}, "at least 1"),
        ({"truth": ["a.csv"], "runs": [{"name": "a"}]}, "one of them"),
        ({"truth": ["a.csv"], "runs": [{"name": "a", "file": "x"}] * 2}, "a name of its own"),
        ({"truth": ["a.csv"], "runs": [{"name": "a", "weights": "x.onnx"}]}, "under audio"),
    ],
)
def test_a_section_that_cannot_be_is_refused(section: dict, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        parse_recipe({"name": "x", "data": {"root": "."}, "soundscapes": section})
