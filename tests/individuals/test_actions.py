"""Clips named by models: accuracy beside its baseline, macro F1 over the declared list, and what files may hold."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from birdlab.errors import DataError, ParameterError
from birdlab.individuals import command_actions
from birdlab.individuals.actions import (
    NOT_ABOVE,
    action_rows,
    check_labels,
    confusion_frame,
    respelt,
    score_actions,
)
from birdlab.individuals.jackknife import leave_one_out
from birdlab.metrics import metric_frame
from birdlab.readers.behaviours import read_clips, read_truth
from birdlab.stats import new_sessions

LABELS = ["Peck", "Submissive", "Other"]


def _clips(truth: list[str], predicted: list[str | None], videos: list[str] | None = None, model: str = "m"):
    n = len(truth)
    columns = {"model": [model] * n, "clip_id": [f"c{i}" for i in range(n)], "video_id": videos or ["v"] * n}
    columns |= {"truth": truth, "predicted": predicted}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _args(truth: Path, *predictions: Path, labels: str = ",".join(LABELS), split: str = "Test") -> Namespace:
    return Namespace(truth=truth, predictions=list(predictions), labels=labels, split=split, json=True)


def test_an_absent_class_counts_as_zero_when_it_is_declared() -> None:
    clips = _clips(["Peck", "Other"], ["Peck", "Other"])
    assert score_actions(clips, LABELS)["macro_f1"] == pytest.approx(2 / 3)
    assert score_actions(clips, ["Peck", "Other"])["macro_f1"] == 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=40))
def test_scores_are_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, said = (list(side) for side in zip(*pairs, strict=True))
    found = score_actions(_clips(truth, said), LABELS)
    assert found["macro_f1"] == pytest.approx(f1_score(truth, said, labels=LABELS, average="macro", zero_division=0))
    want = precision_recall_fscore_support(truth, said, labels=LABELS, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "support"), want, strict=True):
        np.testing.assert_allclose(found["classes"][name], values)
    assert found["confusion"][:, :-1].tolist() == confusion_matrix(truth, said, labels=LABELS).tolist()
    assert found["accuracy"] == pytest.approx(np.mean([t == s for t, s in pairs]))


def test_a_clip_without_prediction_is_wrong_and_stays_in_recall() -> None:
    found = score_actions(_clips(["Peck", "Peck", "Other"], ["Peck", None, "Other"]), LABELS)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["classes"]["recall"].tolist() == [0.5, 0.0, 1.0]
    assert found["classes"]["precision"].tolist() == [1.0, 0.0, 1.0]
    assert found["confusion"].tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_intervals_are_over_videos() -> None:
    videos = ["a"] * 4 + ["b"] * 4 + ["c"] * 2
    truth = ["Peck", "Peck", "Other", "Other"] * 2 + ["Peck", "Submissive"]
    said = ["Peck", "Other", "Other", "Other", "Peck", "Peck", "Other", "Peck", "Peck", "Other"]
    found = score_actions(_clips(truth, said, videos), LABELS)
    ends = new_sessions([3, 3, 1], [4, 4, 2], unit="video")
    assert (found["accuracy_lo"], found["accuracy_hi"]) == (ends.lo, ends.hi)

    def measure(used: np.ndarray) -> float:
        kept = [i for i in range(10) if "abc".index(videos[i]) in used]
        return f1_score(
            [truth[i] for i in kept], [said[i] for i in kept], labels=LABELS, average="macro", zero_division=0
        )

    lo, hi, _ = leave_one_out(measure, 3)
    assert found["macro_f1_lo"] == pytest.approx(max(0.0, lo))
    assert found["macro_f1_hi"] == pytest.approx(min(1.0, hi))


def test_leaving_one_out_by_hand() -> None:
    # Mean of 1, 2, 3: pseudo-values are the values, so the interval is that of a mean, 2 ± t(2) 1/√3.
    lo, hi, reason = leave_one_out(lambda used: float(np.mean(np.array([1.0, 2.0, 3.0])[used])), 3)
    half = 4.302652729911275 / np.sqrt(3)
    assert (lo, hi, reason) == (pytest.approx(2 - half), pytest.approx(2 + half), None)


def test_one_video_has_no_interval_and_is_not_called_better() -> None:
    found = score_actions(_clips(["Peck", "Other"], ["Peck", "Other"]), LABELS)
    assert (found["accuracy_lo"], found["macro_f1_lo"], found["above_majority"]) == (None, None, None)
    assert "one video" in found["reason"]
    assert "one video" in found["macro_f1_reason"]


def test_no_clip_is_null() -> None:
    found = score_actions(_clips([], []), LABELS)
    assert (found["accuracy"], found["macro_f1"], found["reason"]) == (None, None, "no clip")


def test_rows_say_when_the_baseline_is_not_beaten() -> None:
    videos = [f"v{i % 12}" for i in range(24)]
    truth = (["Other"] * 16 + ["Peck"] * 8)[::-1]
    always = _clips(truth, ["Other"] * 24, videos, "always")
    right = _clips(truth, ["Other", *truth[1:]], videos, "right")
    rows = metric_frame(action_rows(pl.concat([always, right]), LABELS))
    base = rows.filter(metric="majority_accuracy").row(0, named=True)
    assert (base["value"], base["method"], base["n"]) == (pytest.approx(2 / 3), "always Other", 24)
    said = {r["model"]: r["reason"] or "" for r in rows.filter(metric="accuracy").to_dicts()}
    assert NOT_ABOVE in said["always"]
    assert NOT_ABOVE not in said["right"]
    f1 = rows.filter(model="right", metric="f1")
    assert dict(f1.select("level", "value").iter_rows()) == {
        "Peck": pytest.approx(14 / 15),
        "Submissive": 0.0,
        "Other": pytest.approx(32 / 33),
    }
    assert set(f1["group"]) == {"behaviour"}


def test_truth_alone_gives_the_baseline_and_no_model() -> None:
    rows = action_rows(_clips(["Peck", "Peck", "Other"], [None] * 3, model=""), LABELS)
    assert [(r["metric"], r["value"]) for r in rows] == [("majority_accuracy", pytest.approx(2 / 3))]


def test_equal_counts_take_the_first_of_the_list() -> None:
    rows = action_rows(_clips(["Other", "Peck"], ["Other", "Peck"]), LABELS)
    assert rows[0]["method"] == "always Peck"


def test_cells_of_the_confusion_are_shares_of_the_truth() -> None:
    frame = confusion_frame(_clips(["Peck", "Peck", "Other"], ["Peck", None, "Other"]), LABELS)
    cells = {(t, p): (s, n) for _, t, p, s, n in frame.iter_rows()}
    assert cells["Peck", "Peck"] == (0.5, 2)
    assert cells["Peck", None] == (0.5, 2)
    assert cells["Submissive", "Peck"] == (None, 0)


def test_spelling_is_mapped_and_told_and_other_names_are_refused() -> None:
    clips = _clips(["peck", "Other"], ["PECK", "other "])
    spelt = check_labels(clips, LABELS)
    assert spelt["truth"].to_list() == ["Peck", "Other"]
    assert spelt["predicted"].to_list() == ["Peck", "Other"]
    assert [n.message for n in respelt(clips, LABELS)] == [
        "behaviour PECK taken as Peck",
        "behaviour other  taken as Other",
        "behaviour peck taken as Peck",
    ]
    with pytest.raises(DataError) as caught:
        check_labels(_clips(["Peck", "Preen"], ["Fly", "Peck"]), LABELS, source="a.csv")
    assert [(p.key, p.file) for p in caught.value.problems] == [("truth", "a.csv"), ("predicted", "a.csv")]
    assert "Preen" in str(caught.value)
    assert "Fly, named by m" in str(caught.value)


THEIRS = """AnnotID,VideoPath,Behaviour,BBox,Corrupted,Split,Date
1,2021_A/1.mp4,Peck,"[1, 2]",False,Test,2021-01-01
2,2021_A/2.mp4,,"[1, 2]",True,Test,2021-01-01
3,2021_B_17.mp4,Other,"[1, 2]",,test,2021-01-01
4,2021_B_18.mp4,Other,"[1, 2]",0,Train,2021-01-01
"""


def test_published_annotations(tmp_path: Path) -> None:
    frame, notices = read_truth(_write(tmp_path / "BehaviourAnnotations.csv", THEIRS), split="Test")
    assert frame.rows() == [("1", "2021_A", "Peck"), ("3", "2021_B", "Other")]
    assert [(n.code, n.n) for n in notices] == [("corrupted", 1), ("other_split", 1)]
    whole, _ = read_truth(tmp_path / "BehaviourAnnotations.csv")
    assert whole.height == 3


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("clip_id,video_id,behaviour\n1,a,Peck\n1,a,Peck\n2,a,Peck\n2,b,Peck\n", "clip_twice", [3, 5]),
        ("clip_id,video_id,behaviour\n1,a,\n2,,Peck\n", "bad_cell", [3, 2]),
        ("clip_id,behaviour\n1,Peck\n", "no_column", [1]),
        ("AnnotID,VideoPath,Behaviour,Corrupted\n1,a/1.mp4,Peck,maybe\n", "bad_cell", [2]),
        ("clip_id,video_id,behaviour\n", "no_clips", [None]),
        ("AnnotID,VideoPath,Behaviour,Split\n1,a/1.mp4,Peck,Train\n", "no_split", [None]),
        ("", "empty_file", [None]),
    ],
)
def test_a_truth_that_cannot_be_used_is_named_by_line(tmp_path: Path, text: str, code: str, line: list) -> None:
    with pytest.raises(DataError) as caught:
        read_truth(_write(tmp_path / "t.csv", text), split="Test")
    assert [(p.code, p.line) for p in caught.value.problems] == [(code, at) for at in line]


def test_missing_unknown_and_doubled_predictions(tmp_path: Path) -> None:
    truth = _write(tmp_path / "t.csv", "clip_id,video_id,behaviour\n1,a,Peck\n2,b,Other\n3,b,Other\n")
    some = _write(tmp_path / "some.csv", "AnnotID;behaviour;p_peck\n1;Peck;0.9\n9;Peck;0.1\n3;;0.2\n")
    clips, notices = read_clips(truth, {"some": some})
    assert clips.sort("clip_id")["predicted"].to_list() == ["Peck", None, None]
    assert [(n.code, n.n) for n in notices] == [("unknown_clips", 1), ("unnamed_clips", 2)]
    assert "counted as wrong: 2, 3" in notices[1].message
    twice = _write(tmp_path / "twice.csv", "clip_id,behaviour\n1,Peck\n1,Other\n")
    none = _write(tmp_path / "none.csv", "clip_id,behaviour\n7,Peck\n")
    with pytest.raises(DataError) as caught:
        read_clips(truth, {"twice": twice, "none": none, "gone": tmp_path / "gone.csv"})
    assert [p.code for p in caught.value.problems] == ["clip_twice", "no_common_clip", "unreadable"]


def test_command_prints_every_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = "AnnotID,VideoPath,Behaviour,Corrupted,Split\n"
    rows = [f"{i},v{i % 3}/{i}.mp4,{'Peck' if i % 4 == 0 else 'Other'},0,Test\n" for i in range(24)]
    truth = _write(tmp_path / "truth.csv", head + "".join(rows))
    said = [f"{i},{'peck' if i % 4 == 0 or i == 5 else 'Other'}\n" for i in range(24)]
    model = _write(tmp_path / "wader.csv", "clip_id,behaviour\n" + "".join(said))
    assert command_actions.score_command(_args(truth, model)) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["labels"], out["n"], out["n_videos"]) == (LABELS, 24, 3)
    assert out["majority"] == {"label": "Other", "accuracy": 0.75}
    (wader,) = out["models"]
    assert wader["name"] == "wader"
    assert wader["accuracy"] == pytest.approx(23 / 24)
    assert wader["accuracy_ci"][0] < 23 / 24 < wader["accuracy_ci"][1]
    assert wader["confusion"] == [[6, 0, 0], [0, 0, 0], [1, 0, 17]]
    assert wader["not_named"] == [0, 0, 0]
    assert wader["classes"][1] == {"label": "Submissive", "precision": None, "recall": None, "f1": 0.0, "support": 0}
    assert wader["reasons"]["classes.Submissive.recall"] == "no clip of it"
    assert wader["macro_f1"] == pytest.approx((12 / 13 + 0 + 34 / 35) / 3)
    assert [n["message"] for n in out["notices"]] == ["behaviour peck taken as Peck"]
    command_actions.score_command(Namespace(**vars(_args(truth, model)) | {"json": False}))
    text = capsys.readouterr().out
    assert "always Other: 0.750" in text
    assert "→ nothing" in text


def test_command_refuses_what_cannot_be_a_list(tmp_path: Path) -> None:
    for labels in ("Peck", "Peck,peck", "Peck,,Other"):
        with pytest.raises(ParameterError):
            command_actions.score(_args(tmp_path / "t.csv", tmp_path / "p.csv", labels=labels))


def test_one_video_in_the_command_is_null_with_a_reason(tmp_path: Path) -> None:
    truth = _write(tmp_path / "t.csv", "clip_id,video_id,behaviour\n1,a,Peck\n2,a,Other\n")
    model = _write(tmp_path / "m.csv", "clip_id,behaviour\n1,Peck\n2,Other\n")
    (found,) = command_actions.score(_args(truth, model))["models"]
    assert (found["accuracy"], found["accuracy_ci"], found["macro_f1_ci"], found["above_majority"]) == (
        1,
        None,
        None,
        None,
    )
    assert "one video" in found["reasons"]["accuracy_ci"]
