"""What is said beside a figure is about what the figure draws, and what is missing is named with the way to give it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl

from birdlab.chapters import application, behaviour
from birdlab.chapters import application_captions as read
from birdlab.chapters import application_words as say
from birdlab.panels import clips as panels

FIRST, SECOND = "m · t · x", "n · t · x"


def rates() -> pl.DataFrame:
    rows = [
        (FIRST, "v", ["a"], 5.0, 3.0), (FIRST, "w", ["a"], 5.0, 4.0), (FIRST, "v", ["b"], 2.0, 2.5),
        (SECOND, "v", ["a"], 5.0, 25.0), (SECOND, "v", ["b"], 2.0, None),
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=["combination", "video_id", "subject", "truth", "predicted"], orient="row")


def test_errors_by_bird_are_those_of_the_leading_combination() -> None:
    title = say.birds_title(rates(), [FIRST, SECOND])
    assert title == f"{FIRST}: the rate of a is off by −1.5 pecks/min, that of b by +0.5."
    assert say.birds_title(rates(), [SECOND]) == f"{SECOND}: the rate of a is off by +20.0 pecks/min."
    assert say.birds_title(rates().clear(), [FIRST]) == "Error by bird: nothing to compare."
    alt = say.birds_alt(rates(), [FIRST, SECOND])
    assert f"{FIRST}: lowest a −1.5, highest b +0.5; {SECOND}: lowest a +20.0" in alt


def across(rho: list[float | None], p: list[float | None], n: int = 9) -> pl.DataFrame:
    tasks = ["frame_accuracy", "feeding_f1"]
    return pl.DataFrame(
        {"task": tasks, "measure": "feeding_rate_mean_abs_error", "rho": rho, "p": p, "p_holm": p, "n": n,
         "reason": [None if r is not None else "frame_accuracy is the same for every combination" for r in rho]},
        schema_overrides={"rho": pl.Float64, "p": pl.Float64, "p_holm": pl.Float64},
    )  # fmt: skip


def test_scores_against_errors_are_told_of_the_score_that_is_drawn() -> None:
    found = across([-0.4, -0.9], [0.72, 0.01])
    assert say.across_title(found).startswith("A better F1 of pecks goes with smaller errors")
    assert say.drawn_title(found) == (
        "The share of right boxes shows no relation with errors of feeding rates: "
        "ρ −0.40 over 9 combinations (p 0.72 after Holm)."
    )
    assert say.drawn_title(found, "feeding_f1").startswith("A better F1 of pecks goes with smaller errors")
    assert say.drawn_title(across([None, None], [None, None])).endswith(
        "errors of feeding rates: share of right boxes is the same for every combination."
    )
    assert "3 combinations, fewer than 8: too few to say" in say.drawn_title(across([None] * 2, [None] * 2, n=3))


def lane(*stretches: tuple[str, str, float, float]) -> pl.DataFrame:
    rows = [("v", "a", *s) for s in stretches]
    return pl.DataFrame(rows, schema=["video_id", "bird", "source", "kind", "start_s", "end_s"], orient="row")


def test_lanes_say_that_short_gaps_are_closed() -> None:
    drawn = lane(("truth", "present", 0.0, 10.0), ("predicted", "present", 0.0, 10.0))
    assert say.lanes_title(drawn).startswith("But for gaps of up to 0.4 s, 100 % of the birds' time in view")
    assert read.lanes(drawn, [FIRST]).endswith("single frames that were missed do not show.")


def summary(*rows: tuple[str, str, bool]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"tracker": pl.String, "model": pl.String, "complete": pl.Boolean}, orient="row")
    error = pl.lit(1.0).alias("feeding_rate_mean_abs_error")
    return frame.with_columns(error, protocol=pl.lit("documented"), identity=pl.lit("rings"))


def test_captions_speak_of_a_person_only_where_one_coded_again() -> None:
    models, person = summary(("t", "m", True)), ("", "human", True)
    assert "person" not in read.errors(models, "feeding_rate")
    assert "A person" in read.errors(summary(("t", "m", True), person), "feeding_rate")
    assert "person" not in read.rates(rates()) + read.birds(rates())
    people = pl.DataFrame([("human", "v", ["a"], 5.0, 5.0)], schema=rates().schema, orient="row")
    assert read.rates(pl.concat([rates(), people])).endswith("Open diamonds: a person.")
    drawn = pl.DataFrame({"combination": ["mean_rate", FIRST], "error": [2.0, 1.0]})
    assert read.levels(drawn) == "Dashed: the mean rate of the other videos. Incomplete combinations are left out."


def test_random_names_of_incomplete_combinations_are_not_drawn_and_counted() -> None:
    both = summary(("t", "m", True), ("late", "m", False))
    about = {"model": "m", "metric": "feeding_rate_mean_abs_error", "value": 2.0, "n_draws": 1}
    draws = pl.DataFrame({"tracker": ["t", "late"]}).with_columns(pl.lit(v).alias(k) for k, v in about.items())
    assert application.draws_frame(draws, both)["group"].unique().to_list() == ["t · m"]
    assert application.of_complete(draws, both)["tracker"].to_list() == ["t"]
    assert read.random_names(draws, both, 7).endswith("seed 7. Marks: the combinations. 1 incomplete one is left out.")
    assert read.random_names(draws, both.filter("complete"), 7).endswith("Marks: the combinations.")


def test_the_error_budget_tells_both_numbers() -> None:
    stages = ("detection", "tracks", "identity", "behaviour")
    rows = [
        {"tracker": "t", "model": "m", "identity": "x", "measure": measure, "stage": stage, "share": total * (i == lead),
         "total": total, "fraction": float(i == lead), "alone": total, "lo": None, "hi": None, "n": 3, "n_clusters": 3,
         "reason": None}
        for measure, total, lead in (("pecks_per_min", 1.5, 3), ("co_occurrence_frac", 0.02, 0))
        for i, stage in enumerate(stages)
    ]  # fmt: skip
    budget, order = pl.DataFrame(rows, infer_schema_length=None), ["x · t · m"]
    told = say.budget_title(budget, order, ["feeding_rate", "co_occurrence"])
    assert told == (
        "x · t · m: feeding rates are off by 1.5 pecks/min on average, all of it because of behaviour. The share of time "
        "that two birds are seen together is off by 2 points on average, all of it because of detection."
    )
    assert "detection 0.020" in say.budget_alt(budget, order)
    table = application.budget_table(budget, "co_occurrence")
    assert table.select("total", "detection", "lead").rows() == [(0.02, 0.02, "detection (100 %)")]
    assert application.budget_columns("co_occurrence")["total"].digits == 3


def study(actions: object = None, keypoints: object = None) -> SimpleNamespace:
    return SimpleNamespace(individuals=SimpleNamespace(actions=actions, keypoints=keypoints))


def test_what_was_not_asked_for_says_how_to_ask() -> None:
    (told,) = behaviour.lacking(study(), "actions")  # type: ignore[arg-type]
    assert told.startswith("Not asked for: the recipe has no individuals.actions; give truth (BehaviourAnnotations.csv")
    (told,) = behaviour.lacking(study(keypoints=SimpleNamespace(predictions={})), "keypoints")  # type: ignore[arg-type]
    assert told.startswith("No model: individuals.keypoints.predictions of the recipe is empty; give model: COCO")
    asked = study(SimpleNamespace(predictions={"m": "p.csv"}))
    assert behaviour.lacking(asked, "actions") == behaviour.lacking_tracks(["t"]) == []  # type: ignore[arg-type]
    assert "_TrackedBBox_" in behaviour.lacking_tracks([])[0]
    assert behaviour.caption("Rows.", []) == "Rows." and behaviour.caption("Rows.", [told]) == told


def test_no_clip_is_not_no_mistake() -> None:
    schema = {"model": pl.String, "truth": pl.String, "predicted": pl.String, "share": pl.Float64, "n": pl.Int64}
    assert behaviour.confusion_title(pl.DataFrame(schema=schema)) == "No clip was named."
    alone = pl.DataFrame([("", "Peck", None, 1.0, 4)], schema=schema, orient="row")
    assert behaviour.confusion_title(alone) == "No clip was named."
    right = pl.DataFrame([("m", "Peck", "Peck", 1.0, 4)], schema=schema, orient="row")
    assert behaviour.confusion_title(right) == "No mistake was made."


def test_clips_without_pictures_say_what_is_missing(tmp_path: Path) -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b"]})
    recipe, table = study(SimpleNamespace(truth="clips.csv")), tmp_path / "clips.csv"

    def told(text: str, shown: list[object]) -> str:
        table.write_text(text)
        return panels.clip_caption(shown, clips, tmp_path, recipe)  # type: ignore[arg-type]

    assert "give it a column VideoPath (or path)" in told("clip_id,behaviour\na,Peck\nb,Peck\n", [])
    rows = "clip_id,Path,behaviour\na,a.mp4,Peck\nb,b.mp4,Peck\n"
    assert told(rows, []).startswith("No clip of clips.csv has a file: Path is looked for under data.root")
    (tmp_path / "a.mp4").write_bytes(b"damaged")
    assert told(rows, []).startswith("No clip is shown")
    assert told(rows, [object()]).endswith("Mistakes first. 1 of 2 clips have no file at their Path.")
    assert "no individuals.actions" in panels.clip_caption([], clips, tmp_path, study())  # type: ignore[arg-type]
