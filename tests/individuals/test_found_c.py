"""Numbers of individuals: what was once wrong or not said."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from made_colonies import Made, frame, match, random_colony
from test_application import case_folder

from birdlab import schemas
from birdlab.cli import main
from birdlab.individuals.across import task_against_biology
from birdlab.individuals.baselines import _draw, random_identity
from birdlab.individuals.budget import scenes_of
from birdlab.individuals.documented import shares, video_numbers
from birdlab.individuals.evaluate import evaluate, summarise
from birdlab.individuals.study import ERRORS, MADE_OF, TASKS, offsets
from birdlab.readers.chirp import read_colony
from birdlab.readers.chirp_remarks import remarks

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


def test_videos_of_several_frame_rates_have_one_time_shift() -> None:
    rng, rates = np.random.default_rng(4), {"v1": 25.0, "v2": 50.0, "v3": 30.0}
    made = Made()
    for video, fps in rates.items():
        made.video(video, int(120 * fps), fps=fps).visit(video, "a_1", "a", range(10), 0)
        for second in rng.uniform(0, 110, 25):
            made.peck(video, "a", round(second * fps), round(second * fps) + 3)
    colony = made.done()
    late = colony.events.select(
        "video_id",
        "individual_id",
        pl.col("start") + (0.8 * pl.col("video_id").replace_strict(rates)).round().cast(int),
    )
    rows = [
        (v, "a", f, False, f in part["start"].to_list())
        for (v,), part in late.group_by("video_id", maintain_order=True)
        for f in range(int(120 * rates[v]))
    ]
    colony.human = frame("colony_human", rows)
    none = pl.DataFrame(schema={"complete": pl.Boolean, "feeding_rate_mean_abs_error": pl.Float64})
    shifts, curves = offsets(colony, colony, SimpleNamespace(summary=none), tolerance_s=3.0)
    assert shifts["seconds"].to_list() == pytest.approx([0.8], abs=0.041)
    assert curves.filter("corrected").filter(pl.col("tolerance_s") >= 0.1)["f1"].min() > 0.9
    assert curves.filter(~pl.col("corrected"), pl.col("tolerance_s") < 0.1)["f1"].max() < 0.3


def test_a_behaviour_after_the_end_is_said_to_be_left_out() -> None:
    colony = Made().video("v", 100).peck("v", "a", 90, 120).peck("v", "a", 200, 210).peck("v", "a", 5, 6).done()
    empty = [getattr(colony, name) for name in ("boxes", "tracks", "identities", "windows", "human", "combinations")]
    boxes, tracks, names, windows, human, combinations = empty
    told = {
        n.code: n for n in remarks(colony.videos, boxes, colony.events, tracks, names, windows, human, combinations)
    }
    assert told["event_outside"].n == 2
    assert "left out where all of it lies outside" in told["event_outside"].message


@pytest.mark.parametrize("seed", range(8))
def test_f1_of_random_names_is_that_of_the_same_names_submitted(seed: int) -> None:
    colony = random_colony(seed, videos=3, n_frames=90)
    colony.events = colony.events.with_columns(pl.col("end").clip(upper_bound=89))
    draws = random_identity(colony, 4, 7, match=match).draws.filter(metric="feeding_f1")["value"].to_list()
    possible = dict(colony.videos.select("video_id", "possible").iter_rows())
    scenes = dict(scenes_of(colony, "T", sorted(possible), match, others=possible))
    for k, value in enumerate(draws):
        rows = []
        for v, s in scenes.items():
            drawn = _draw(s, possible[v], 4, [7, *b"T", 0, *v.encode()])
            names = pl.DataFrame(
                [("R", "T", v, t, s.birds[drawn[k, c]], s.birds[drawn[k, c]]) for t, c in s.tracks.items()],
                schema=schemas.TABLES["colony_identities"].dtypes, orient="row",
            )  # fmt: skip
            parts = [f.filter(video_id=v) for f in (colony.boxes, colony.events, colony.tracks)]
            video = colony.videos.filter(video_id=v).row(0, named=True)
            rows += video_numbers(video, *parts, names, colony.windows.filter(video_id=v))
        found = [r | {"protocol": "documented"} for r in rows]
        assert value == pytest.approx(summarise(found)["feeding_f1"])


def test_f1_of_random_names_by_hand() -> None:
    # One track with the only peck of a, window right: a (F1 1) or b (a 0, b 0).
    made = Made().video("v", possible=("a", "b")).visit("v", "a_1", "a", range(50), 0).peck("v", "a", 3, 4)
    made.track("T", "v", "1", range(50), 0).name("I", "T", "v", "1", "a").window("M", "T", "v", "1", 0, 25)
    draws = random_identity(made.combination("T", "M", "I").done(), 400, 0, match=match).draws
    found = draws.filter(metric="feeding_f1")["value"]
    assert set(found) == {0.0, 1.0}
    assert 0.4 < found.mean() < 0.6


def test_copies_of_a_combination_are_no_new_evidence() -> None:
    # Two trackers x two identities x two models: frames and co-occurrence know no model, so there are four points.
    rows = [(t, i, m, 2 * t + i, 9 - 2 * t - i, 3 * m + t) for t in (0, 1) for i in (0, 1) for m in (0, 1)]
    names = (
        "tracker",
        "identity",
        "model",
        "frame_accuracy",
        "co_occurrence_mean_abs_error",
        "feeding_rate_mean_abs_error",
    )
    table = pl.DataFrame(rows, schema=names, orient="row")
    found = task_against_biology(table, ["frame_accuracy"], list(names[4:]), made_of=MADE_OF)
    together, rates = found.to_dicts()
    assert (together["n"], together["rho"], together["p"]) == (4, None, None)
    assert together["reason"] == "fewer than 8 combinations: too few to say"
    assert rates["n"] == 8 and rates["rho"] is not None
    assert task_against_biology(table, ["frame_accuracy"], [names[4]])["n"].to_list() == [
        8
    ]  # nothing is known of parts
    assert set(MADE_OF) == {*TASKS, *ERRORS}


def test_e05_without_a_bird_the_combination_keeps_its_row(tmp_path: Path) -> None:
    given = {"gt_bbox": [[0, "unknown_1", 0, 0, 10, 10]], "tracked": [[0, "1", 0, 0, 10, 10]]}
    row = evaluate(read_colony(case_folder(tmp_path, given | {"idmatch": {"1": "unringed"}}))).summary.row(
        0, named=True
    )
    assert row["complete"] and (row["n_boxes"], row["feeding_rate_n"], row["co_occurrence_n"]) == (0, 0, 0)
    empty = ("frame_accuracy", "track_accuracy", "feeding_f1", "feeding_rate_mean_abs_error", "co_occurrence_r")
    assert {row[k] for k in empty} == {None}
    assert row["feeding_rate_reason"] == row["co_occurrence_reason"] == "nothing to compare"


def test_s06_shares_of_boxes_are_pooled_over_videos() -> None:
    visits = [("a", "x_1", 10, 10), ("b", "x_1", 90, 0)]
    found = shares(pl.DataFrame(visits, schema=["video_id", "visit_id", "n", "right"], orient="row"))
    assert (found["frame_accuracy"], found["track_accuracy"], found["n_boxes"]) == (0.1, 0.5, 100)


def test_truth_marked_0_and_videos_without_a_file_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "{f},{i},{x},10,20,20,{mark},-1,-1,-1\n"
    truth = "".join(line.format(f=f, i=1, x=10, mark=1) + line.format(f=f, i=2, x=200, mark=0) for f in range(1, 5))
    for name in ("a", "b"):
        (tmp_path / "gt").mkdir(exist_ok=True)
        (tmp_path / "gt" / f"{name}.txt").write_text(truth)
    (tmp_path / "sort").mkdir()
    (tmp_path / "sort" / "a.txt").write_text("".join(line.format(f=f, i=1, x=10, mark=1) for f in range(1, 5)))
    assert main(["score", "tracking", str(tmp_path / "gt"), str(tmp_path / "sort"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (found,) = report["trackers"]
    assert {v["video"]: v["mota"] for v in found["by_video"]} == {"a": 1.0, "b": 0.0}
    assert found["n_boxes"] == 8
    assert {n["code"]: n["n"] for n in report["notices"]} == {"not_considered": 8, "no_file": 1}
    assert any("sort (b)" in n["message"] for n in report["notices"])
    assert main(["score", "tracking", str(tmp_path / "gt"), str(tmp_path / "sort")]) == 0
    assert "note: videos without a file of sort (b)" in capsys.readouterr().out
