"""Sentences and tables of the chapters agree with the numbers they are made from, also where a number is undefined."""

from __future__ import annotations

import polars as pl
import pytest

from birdlab import schemas
from birdlab.chapters import audit, common, detection, inference, summary
from birdlab.chapters import detection_words as words
from birdlab.metrics import metric_frame, metric_row

AT = "iou=0.5 conf=0.25 greedy"


def metrics(*rows: dict) -> pl.DataFrame:
    return metric_frame({"dataset": "d", "model": "heron", **metric_row(), **row} for row in rows)


def row(metric: str, value: float | None, method: str = AT, **more) -> dict:
    return {
        **metric_row(metric=metric, value=value, method=method, **more),
        "dataset": "d",
        "model": more.get("model", "heron"),
    }


STUDY = metrics(
    row("ap", 0.5, "coco bbox", n=20),
    row("ap", 0.25, "coco bbox", n=20, model="wren"),
    row("ap50", 0.8, "coco bbox", n=20),
    row("n_birds", 20.0, "splits=test", n=20, model=""),
    row("n_sessions", 3.0, "splits=test", n=3, model=""),
    row("n_empty_frames", 0.0, "splits=test", n=0, model=""),
    row("recall", 0.6, n=20),
    row("recall", 0.6, AT + "; within_sessions", lo=0.5, hi=0.7, n=20),
    row("recall", 0.6, AT + "; new_sessions", lo=0.3, hi=0.9, n=20),
    row("recall", 0.9, "iou=0.5 max_f1 oracle: chosen on the frames that are scored", n=20),
    row("conf", 0.1, "iou=0.5 max_f1 oracle: chosen on the frames that are scored", n=20),
    row("f1", 0.85, "iou=0.5 max_f1 oracle: chosen on the frames that are scored", n=20),
    row("f1", 0.7, n=20),
    row("recall", 0.3, n=20, model="wren"),
    row("precision", 0.75, n=16),
    row("tp", 12.0, n=20),
    row("fp", 4.0, n=20),
    row("fn", 8.0, n=20),
    row("recall", 1.0, group="session", level="a", n=5),
    row("recall", 0.4, group="session", level="b", n=15),
    row("false_alarms_per_1000_empty_frames", None, n=0, reason="no empty frame was looked at"),
)


def test_the_row_of_a_model_takes_the_fixed_score_and_the_interval_of_a_new_session():
    got = detection.scores(STUDY, ["heron"], conf=0.25).row(0, named=True)
    assert (got["ap"], got["recall"], got["recall_lo"], got["recall_hi"], got["precision"]) == (
        0.5,
        0.6,
        0.3,
        0.9,
        0.75,
    )
    assert got["ap75"] is None and got["ap75_reason"] == "not measured in this run"


def test_another_fixed_score_is_not_mixed_in():
    assert detection.scores(STUDY, ["heron"], conf=0.2).row(0, named=True)["recall"] is None


def test_counts_have_a_fixed_and_an_oracle_row():
    fixed, best = detection.counts(STUDY, ["heron"], conf=0.25).to_dicts()
    assert (fixed["tp"], fixed["fp"], fixed["fn"], fixed["conf"]) == (12, 4, 8, 0.25)
    assert best["rule"] == "highest F1, an oracle" and (best["conf"], best["recall"], best["f1"]) == (0.1, 0.9, 0.85)
    assert (
        words.counts_title(detection.counts(STUDY, ["heron"], conf=0.25))
        == "{model:heron} finds 12 of 20 birds with 4 false boxes."
    )
    assert "would gain 0.15 of F1 at score ≥ 0.10" in words.f1_title(detection.counts(STUDY, ["heron"], conf=0.25))


def test_answer_and_titles_name_the_numbers():
    question, answer, detail = words.answer(STUDY, ["heron", "wren"], conf=0.25)
    assert question.endswith("?") and answer == "{model:heron} finds about six birds in ten."
    assert (
        "Recall 60 % [30, 90], precision 75 %" in detail and "AP 0.50" in detail and "{model:wren} finds 30 %" in detail
    )
    assert (
        words.scores_title(STUDY, ["heron", "wren"]) == "{model:heron} has the highest AP of 2 detectors on 20 birds."
    )
    assert words.alarms_title(STUDY, ["heron"]) == "No empty frame was looked at."


def test_places_are_ordered_and_the_extremes_named():
    frames = pl.DataFrame(
        {"video_id": ["a", "b"], "site_id": [None, None]}, schema={"video_id": pl.String, "site_id": pl.String}
    )
    rows = common.by_place(STUDY.filter(pl.col("model") == "heron"), "recall", frames, conf=0.25)
    assert rows["level"].to_list() == ["all", "a", "b"] and rows["rank"].to_list() == [0, 2, 2]
    assert words.places_title(rows, ["heron"]) == "{model:heron} finds 40 % in session b and 100 % in a."


def test_places_nest_sessions_below_their_site():
    more = pl.concat([STUDY, metrics(row("recall", 0.55, group="site", level="nest", n=20))])
    frames = pl.DataFrame({"video_id": ["a", "b"], "site_id": ["nest", "feeder"]})
    rows = common.by_place(more.filter(pl.col("model") == "heron"), "recall", frames, conf=0.25)
    assert rows.select("level", "rank").rows() == [("all", 0), ("b", 2), ("nest", 1), ("a", 2)]


@pytest.mark.parametrize("models", [[], ["heron"]])
def test_nothing_scored_is_said_not_shown_as_zero(models):
    blank = (
        metrics(row("ap", None, "coco bbox", n=0, reason="heron failed on all 3 frames"))
        if models
        else metrics().clear()
    )
    why = "heron failed on all 3 frames" if models else "there is no model in the recipe"
    assert words.answer(blank, models, conf=0.25)[1:] == ("Nothing could be scored.", f"Reason: {why}.")
    assert words.pairs_title(pl.DataFrame(), blank).startswith("No two models were scored")
    assert words.headlines(blank, models, conf=0.25) == []
    assert words.pr_title(blank, models, conf=0.25) == "There is no curve to draw."
    assert summary.title(blank, models) == "Nothing was scored."
    table = detection.scores(blank, models, conf=0.25)
    assert table.height == len(models)
    if models:
        assert table["ap"][0] is None and table["ap_reason"][0] == "heron failed on all 3 frames"


def test_headline_numbers_carry_their_interval_or_the_reason():
    by_label = {h["label"]: h for h in words.headlines(STUDY, ["heron", "wren"], conf=0.25)}
    found = by_label["Birds found"]
    assert (found["value"], found["lo"], found["hi"], found["unit"]) == (60.0, 30.0, 90.0, "%")
    assert (
        by_label["False alarms"]["value"] is None
        and by_label["False alarms"]["reason"] == "no empty frame was looked at"
    )
    assert by_label["Boxes that are birds"]["reason"] == "no interval: it takes two sessions"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "no bird"),
        (0.02, "hardly a bird"),
        (0.51, "about half of the birds"),
        (0.83, "about eight birds in ten"),
        (0.97, "nearly every bird"),
        (1.0, "every bird"),
    ],
)
def test_shares_in_words(share, said):
    assert words._in_words(share) == said


def test_published_rows_stay_apart_from_computed_ones():
    from birdlab.detection.published import published

    both = pl.concat([STUDY, published(["western_bluebird"])])
    printed = detection.published(both, detection.MEASURES)
    assert printed.height == 9 and printed.filter(pl.col("model") == "YOLO26")["ap"][0] == 0.3633
    assert "Faster R-CNN" not in detection.scores(both, ["heron"], conf=0.25)["model"].to_list()
    assert common.best_model(both, ["heron", "wren"]) == "heron"
    key = summary.key_numbers(both, ["heron"], conf=0.25)
    assert key.filter(pl.col("measure") == summary.KEY["ap"])["published"][0] == "0.13–0.47"
    assert summary.key_numbers(STUDY, ["heron"], conf=0.25)["published"].null_count() == len(summary.KEY)


def test_a_lead_is_called_confirmed_only_where_it_is():
    pair = {"model": "heron - wren", "group": "pair"}
    for value, said in ((0.0, "is not confirmed"), (1.0, "confirmed for a new session")):
        sure = metrics(row("recall_difference_confirmed", value, AT + "; new_sessions", **pair))
        more = metrics(row("recall_difference", 0.3, AT + "; new_sessions", **pair))
        _, answer, _ = summary.answer(pl.concat([STUDY, sure, more]), ["heron", "wren"], conf=0.25)
        assert said in answer


def test_a_confirmed_lead_of_another_model_or_pair_is_not_the_best_ones():
    def said(models: list[str], **pairs: float) -> str:
        at = [({"model": name, "group": "pair"}, d) for name, d in pairs.items()]
        rows = [row("recall_difference_confirmed", 1.0, AT + "; new_sessions", **key) for key, _ in at]
        rows += [row("recall_difference", d, AT + "; new_sessions", **key) for key, d in at]
        return summary.answer(pl.concat([STUDY, metrics(*rows)]), models, conf=0.25)[1]

    assert "confirmed for a new session" in said(["wren", "heron"], **{"wren - heron": -0.2})
    # The higher AP goes with the lower recall: the confirmed difference speaks for the other model.
    assert "is not confirmed" in said(["heron", "wren"], **{"heron - wren": -0.2})
    # A pair in which the best model is not, though its name holds the best one's.
    assert "is not confirmed" in said(["heron", "wren"], **{"heron2 - wren": 0.2})


def test_inference_answer_counts_failures():
    asked = pl.DataFrame({"model": ["heron"], "asked": [10.0], "failed": [2.0], "kept": [5.0]})
    assert inference.answer(asked)[1:] == (
        "No.",
        "{model:heron} failed on 2 frames of 10; they are left out of that model's scores and listed below.",
    )
    assert inference.answer(asked.with_columns(failed=pl.lit(0.0)))[2] == "1 model × 10 frames, none skipped."


def test_speed_of_predictions_made_elsewhere_is_a_dash_with_its_reason():
    table = inference.speed(schemas.empty("speed"), ["heron"])
    assert table["fps_end_to_end"][0] is None and "made elsewhere" in table["fps_end_to_end_reason"][0]


def test_size_bins_count_by_hand():
    frames = pl.DataFrame({"frame_id": ["a"], "width_px": [1600], "height_px": [1600]})
    labels = pl.DataFrame(
        {
            "frame_id": ["a"] * 3,
            "w": [100.0, 99.0, 400.0],
            "h": [100.0, 99.0, 400.0],
            "is_ignored": [False] * 3,
            "is_crowd": [False] * 3,
        }
    )
    bins = dict(audit.size_bins(frames, labels).select("level", "n").iter_rows())
    assert bins["1/16-1/8"] == 1 and bins["1/32-1/16"] == 1 and bins["1/4-1/2"] == 1 and sum(bins.values()) == 3
    assert audit.sizes_title(audit.size_bins(frames, labels.clear())) == "No bird is labelled."
