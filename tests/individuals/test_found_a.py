"""What somebody who brings her own birds meets first: sentences that say too much or too little, and folders half made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from videos import write_video

from birdlab.chapters.summary import following_numbers
from birdlab.cli import main
from birdlab.errors import DataError, ParameterError
from birdlab.individuals.budget_words import budget_sentence
from birdlab.individuals.published import published
from birdlab.panels.clips import clip_panels
from birdlab.readers.chirp import read_colony
from birdlab.readers.coco_keypoints import Poses
from birdlab.readers.pose_files import read_poses
from birdlab.recipe import parse_recipe

STAGES = ("detection", "tracks", "identity", "behaviour")


def _budget(shares: list[float], ends: list[tuple[float, float] | None], n_clusters: int = 3) -> pl.DataFrame:
    total = sum(shares)
    return pl.DataFrame(
        [
            {"measure": "pecks_per_min", "stage": stage, "share": share, "lo": end and end[0], "hi": end and end[1],
             "total": total, "fraction": share / total if total else None, "alone": share, "n": 7,
             "n_clusters": n_clusters}
            for stage, share, end in zip(STAGES, shares, ends, strict=True)
        ]
    )  # fmt: skip


def test_a_stage_that_is_alone_to_blame_is_not_uncertain() -> None:
    alone = budget_sentence(_budget([0.0, 0.0, 0.0, 1.68], [None, None, None, (-1.3, 4.6)]))
    assert alone == "Feeding rates are off by 1.7 pecks/min on average, all of it because of behaviour."
    other = budget_sentence(_budget([0.0, 0.0, 0.01, 1.68], [None, None, (-0.02, 0.04), (-1.3, 4.6)]))
    assert other.endswith("before identity (1 %); their intervals overlap: the order is not certain.")


def test_a_large_error_is_a_plain_number_and_one_video_is_said_when_all_is_right() -> None:
    assert " off by 250 pecks/min" in budget_sentence(_budget([0, 0, 0, 250.0], [None, None, None, (1.0, 2.0)]))
    right = budget_sentence(_budget([0.0] * 4, [None] * 4, n_clusters=1))
    assert right.endswith("no error to share out. This is one video: nothing can be said about others.")


def test_what_is_missing_of_a_folder_is_one_error_that_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_colony(tmp_path)
    files = [Path(str(p.file)).name for p in caught.value.problems]
    assert files == ["MetaData.csv", "GroundTruth", "InferenceData"]
    said = str(caught.value)
    assert all(name in said for name in ("VideoLength", "{video}_PeckEvents.csv", "{video}_TrackedBBox_{tracker}.csv"))


def test_the_folder_above_the_set_is_told_where_the_set_lies(tmp_path: Path) -> None:
    (tmp_path / "MyBirds").mkdir()
    (tmp_path / "MyBirds" / "MetaData.csv").write_text("Video,VideoLength\n")
    with pytest.raises(DataError, match="Name the folder MyBirds in it"):
        read_colony(tmp_path)


def test_a_missing_file_of_keypoints_is_not_called_a_coco_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file; expected .*DeepLabCut.*SLEAP"):
        read_poses(tmp_path / "dlc.h5", Poses([], {}, [], []))


def test_printed_tracks_have_their_interval_and_say_why_one_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    line = "{},1,10,10,20,20,1,-1,-1,-1\n"
    for folder, first in (("truth", 1), ("late", 3)):
        (tmp_path / folder).mkdir()
        for v in range(3):
            text = "".join(line.format(f) for f in range(first + v * (first > 1), 21))
            (tmp_path / folder / f"v{v}.txt").write_text(text)
    assert main(["score", "tracking", str(tmp_path / "truth"), str(tmp_path / "late")]) == 0
    head, columns, row = capsys.readouterr().out.splitlines()
    assert head.startswith("3 videos, 60 frames") and "95 % (new videos)" in columns and " to " in row
    one = [str(tmp_path / folder / "v0.txt") for folder in ("truth", "late")]
    assert main(["score", "tracking", *one]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 video, ") and printed.endswith(
        "note: no interval: one video: nothing can be said about another\n"
    )


def test_a_key_that_would_change_nothing_is_no_key() -> None:
    with pytest.raises(ParameterError, match="protocol"):
        parse_recipe({"name": "x", "data": {}, "individuals": {"folder": "f", "protocol": "reference"}})


def test_the_table_of_clips_may_lie_beside_the_recipe(tmp_path: Path) -> None:
    write_video(tmp_path / "data" / "a.mp4", [0, 40, 80])
    (tmp_path / "clips.csv").write_text("AnnotID,VideoPath,Behaviour\na,a.mp4,Peck\n")
    recipe = SimpleNamespace(individuals=SimpleNamespace(actions=SimpleNamespace(truth="clips.csv")))
    names = ("model", "clip_id", "video_id", "truth", "predicted")
    clips = pl.DataFrame([("c3d", "a", "v", "Peck", "Other")], schema=dict.fromkeys(names, pl.String), orient="row")
    shown = clip_panels(clips, tmp_path / "data", recipe, base=tmp_path)  # type: ignore[arg-type]
    assert [panel.alt.split(",")[0] for panel in shown] == ["3 frames of clip a"]


def test_a_number_that_the_paper_lacks_is_not_blamed_on_the_study() -> None:
    reasons = {r["measure"]: r["published_reason"] for r in following_numbers(published("chirp")).to_dicts()}
    assert reasons["HOTA of the best tracker"] == "no such number of CHIRP is at hand"
    without = following_numbers(published([])).to_dicts()
    assert {r["published_reason"] for r in without} == {"no published number stands beside this study"}
