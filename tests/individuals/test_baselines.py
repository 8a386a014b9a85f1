"""Baselines: chance worked out by hand, the same seed, everyone at the mean rate, everyone always there."""

from __future__ import annotations

import polars as pl
import pytest
from made_colonies import Made, match, random_colony

from birdlab import schemas
from birdlab.individuals.baselines import (
    METRICS,
    ONE_VIDEO,
    everyone_always_present,
    everyone_mean_rate,
    random_identity,
    true_pairs,
)


def two_birds() -> Made:
    made = Made().video("v", possible=("a", "b"))
    for lane, bird in enumerate("ab"):
        made.visit("v", f"{bird}_1", bird, range(100), lane).track("T", "v", str(lane), range(100), lane)
        made.name("I", "T", "v", str(lane), bird)
    for start in (0, 30, 60):
        made.peck("v", "a", start, start + 2).window("M", "T", "v", "0", start, start + 25)
    return made.combination("T", "M", "I")


def values(colony, n: int = 4000, seed: int = 1) -> dict[str, list]:
    draws = random_identity(colony, n, seed, match=match).draws
    return {m: draws.filter(metric=m)["value"].to_list() for m in METRICS}


def test_chance_with_two_birds_and_two_tracks() -> None:
    found = values(two_birds().done())
    mean = {m: sum(x) / len(x) for m, x in found.items() if None not in x}
    assert mean["frame_accuracy"] == pytest.approx(0.5, abs=0.02)
    # The pecking track is a (error 0) or b (errors 3 and 3): mean 1.5.
    assert set(found["feeding_rate_mean_abs_error"]) == {0.0, 3.0}
    assert mean["feeding_rate_mean_abs_error"] == pytest.approx(1.5, abs=0.1)
    # Both tracks the same bird: never together; else 100 of 1,500 frames as in truth.
    assert sorted(set(found["co_occurrence_mean_abs_error"])) == pytest.approx([0, 100 / 1500])
    assert set(found["feeding_rate_r"]) == {None}  # two rows


def test_the_summary_says_what_is_undefined() -> None:
    rows = random_identity(two_birds().done(), 100, 0, match=match).summary
    r = rows.filter(metric="feeding_rate_r").row(0, named=True)
    assert (r["mean"], r["n_draws"]) == (None, 0)
    assert r["reason"] == "fewer than three rows, or a constant, in every draw"
    one = rows.filter(metric="frame_accuracy").row(0, named=True)
    assert one["lo"] == 0 and one["hi"] == 1 and one["n_draws"] == 100 and one["reason"] is None


def test_birds_that_nobody_listed_are_those_of_the_truth() -> None:
    made = two_birds()
    made.videos = [("v", 1500, 25.0, True, [])]
    assert values(made.done(), 500)["frame_accuracy"] == values(two_birds().done(), 500)["frame_accuracy"]


def test_a_listed_bird_that_was_never_there_takes_tracks_away() -> None:
    made = two_birds()
    made.videos = [("v", 1500, 25.0, True, ["a", "b", "x", "y"])]
    found = values(made.done())
    assert sum(found["frame_accuracy"]) / 4000 == pytest.approx(0.25, abs=0.02)
    assert max(found["feeding_rate_mean_abs_error"]) == 3.0


def test_names_depend_on_the_seed_and_the_tracker_only() -> None:
    made = two_birds()
    alone = values(made.done(), 50)
    for lane in range(2):
        made.track("U", "v", str(lane), range(100), lane)
    made.combination("U", "M", "I").combination("T", "N", "I")
    draws = random_identity(made.done(), 50, 1, match=match).draws
    for model in ("M", "N"):
        got = draws.filter(tracker="T", model=model, metric="frame_accuracy")["value"].to_list()
        assert got == alone["frame_accuracy"]
    assert values(made.done(), 50, seed=2)["frame_accuracy"] != alone["frame_accuracy"]


@pytest.mark.parametrize("seed", range(12))
def test_draws_against_the_error_budget_of_the_same_names(seed: int) -> None:
    """Each draw, written out as an identity method, has the errors that the budget gives it."""
    from birdlab.individuals.baselines import _draw
    from birdlab.individuals.budget import error_budget, scenes_of

    colony = random_colony(seed)
    found = random_identity(colony, 3, 7, match=match).draws
    possible = dict(colony.videos.select("video_id", "possible").iter_rows())
    scenes = dict(scenes_of(colony, "T", sorted(possible), match, others=possible))
    for k in range(3):
        rows = []
        for v, s in scenes.items():
            drawn = _draw(s, possible[v], 3, [7, *b"T", 0, *v.encode()])
            rows += [("R", "T", v, t, s.birds[drawn[k, c]], s.birds[drawn[k, c]]) for t, c in s.tracks.items()]
        colony.identities = pl.DataFrame(rows, schema=schemas.TABLES["colony_identities"].dtypes, orient="row")
        budget = error_budget(colony, colony.combinations.with_columns(identity=pl.lit("R")), match=match)
        for measure, metric in (
            ("pecks_per_min", "feeding_rate_mean_abs_error"), ("co_occurrence_frac", "co_occurrence_mean_abs_error"),
        ):  # fmt: skip
            total = budget.filter(measure=measure)["total"][0]
            value = found.filter(metric=metric, draw=k)["value"].item()
            assert (value or 0) == pytest.approx(total)


def three_videos() -> Made:
    made = Made()
    for k, pecks in enumerate((2, 4, 9)):
        v = f"v{k}"
        made.video(v).visit(v, "a_1", "a", range(300), 0).visit(v, "b_1", "b", range(150), 1)
        for p in range(pecks):
            made.peck(v, "a", 10 * p, 10 * p + 2)
    return made


def test_everyone_at_the_mean_rate_of_the_other_videos() -> None:
    rows = schemas.TABLES["application"].validate(everyone_mean_rate(three_videos().done()))
    assert rows["truth"].to_list() == [2, 0, 4, 0, 9, 0]
    # (4 + 9) / 4, (2 + 9) / 4, (2 + 4) / 4
    assert rows["predicted"].to_list() == [3.25, 3.25, 2.75, 2.75, 1.5, 1.5]
    assert rows["abs_error"].to_list() == [1.25, 3.25, 1.25, 2.75, 7.5, 1.5]
    oracle = everyone_mean_rate(three_videos().done(), oracle=True)
    assert oracle["predicted"].unique().to_list() == [2.5]
    assert oracle["model"].unique().to_list() == ["mean_rate_oracle"]


def test_one_video_has_no_other_mean() -> None:
    rows = everyone_mean_rate(two_birds().done())
    assert rows["predicted"].to_list() == [None, None]
    assert rows["reason"].to_list() == [ONE_VIDEO] * 2


def test_everyone_always_there() -> None:
    rows = schemas.TABLES["application"].validate(everyone_always_present(three_videos().done()))
    assert rows["truth"].to_list() == pytest.approx([0.1] * 3)
    assert rows["predicted"].to_list() == [1.0] * 3
    assert rows["subject"].to_list() == [["a", "b"]] * 3


def test_one_bird_has_no_pair() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(9), 0)
    assert true_pairs(made.done()).height == 0
    assert everyone_always_present(made.done()).height == 0
