"""Protocols that are made, what leaks from a protocol, counts beside published ones, years to the gallery."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.individuals.reid.counts import WHAT, counts
from birdlab.individuals.reid.leaks import CHECKS, leakage
from birdlab.individuals.reid.queries import gallery_of, queries_of
from birdlab.individuals.reid.splits import build_roles, half_of_the_birds, latest_videos, validation_from_gallery
from birdlab.individuals.reid.videos import hold
from birdlab.individuals.reid.years import outcomes_by_years, years_between, years_by_split
from birdlab.recipe.reid import BuiltSplits

START = dt.date(2018, 1, 1)
NO_IMAGES = schemas.empty("reid_images")


def made(*films: tuple[str, int | None, dict[str, int]]) -> pl.DataFrame:
    """Clips from (video, day, bird → clips)."""
    rows = [
        (f"{video}/{bird}/{i}", video, bird, None if day is None else START + dt.timedelta(days=day), 25)
        for video, day, birds in films for bird, n in birds.items() for i in range(n)
    ]  # fmt: skip
    names = {
        "clip_id": pl.String,
        "video_id": pl.String,
        "individual_id": pl.String,
        "date": pl.Date,
        "n_images": pl.Int32,
    }
    clips = pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.col("date").dt.year().alias("year"))
    return schemas.validate("reid_clips", clips)


def with_roles(clips: pl.DataFrame, roles: pl.DataFrame, split: str) -> pl.DataFrame:
    return roles.filter(pl.col("split") == split).join(clips, on="clip_id")


@st.composite
def films(draw, *, alone: bool = False) -> pl.DataFrame:
    """Up to 14 videos of up to 7 birds; ``alone``: of one bird each."""
    birds = [f"b{i}" for i in range(draw(st.integers(1, 7)))]
    out = []
    for v in range(draw(st.integers(1, 14))):
        seen = draw(st.lists(st.sampled_from(birds), min_size=1, max_size=1 if alone else 3, unique=True))
        day = draw(st.one_of(st.integers(0, 900), st.none())) if draw(st.booleans()) else v * 7
        out.append((f"v{v:02d}", day, {bird: draw(st.integers(1, 6)) for bird in seen}))
    return made(*out)


built = st.builds(
    BuiltSplits,
    query_share=st.sampled_from([0.1, 0.2, 0.5]),
    unknown_share=st.sampled_from([0.2, 0.5]),
    validation_share=st.sampled_from([0.0, 0.1, 0.3]),
    seed=st.integers(0, 5),
)


@settings(max_examples=60, deadline=None)
@given(films(), built)
def test_no_video_has_two_roles_and_no_gallery_clip_is_later_than_a_query(clips, how):
    roles, _ = build_roles(clips, settings=how)
    told = roles.join(clips, on="clip_id")
    assert told.group_by("split", "video_id").agg(pl.col("role").n_unique())["role"].max() in (1, None)
    assert roles.select("split", "clip_id").is_unique().all()
    for split in ("closed", "disjoint", "open"):
        mine = with_roles(clips, roles, split)
        gallery = mine.filter(pl.col("role").is_in(["gallery", "validation"]) & pl.col("date").is_not_null())
        last = gallery.group_by("individual_id").agg(pl.col("date").max().alias("last"))
        asked = mine.filter((pl.col("role") == "query") & pl.col("is_known") & pl.col("date").is_not_null())
        # Days that are not known stand before all others: such a query would have only such ones in its gallery.
        assert (asked.join(last, on="individual_id").select((pl.col("date") >= pl.col("last")).all())).item()
        shown = set(mine.filter(pl.col("role") == "gallery")["individual_id"])
        assert (mine["is_known"] == mine["individual_id"].is_in(list(shown))).all()
        if split != "open":
            assert mine.filter(pl.col("role") == "query")["is_known"].all()
    learned = with_roles(clips, roles, "disjoint")
    train = set(learned.filter(pl.col("role") == "train")["individual_id"])
    assert not train & set(learned.filter(pl.col("role") != "train")["individual_id"])


@settings(max_examples=40, deadline=None)
@given(films(), built, st.randoms(use_true_random=False))
def test_same_clips_and_settings_give_the_same_roles_in_any_order(clips, how, random):
    roles, notices = build_roles(clips, settings=how)
    order = list(range(clips.height))
    random.shuffle(order)
    again, told = build_roles(clips[order], settings=how)
    assert again.sort("split", "clip_id").equals(roles.sort("split", "clip_id"))
    assert told.equals(notices)


@settings(max_examples=60, deadline=None)
@given(films(alone=True), built)
def test_shares_are_within_one_video_of_the_asked_ones(clips, how):
    roles, _ = build_roles(clips, settings=how, protocols=["closed"])
    mine = with_roles(clips, roles, "closed")
    assert mine.height == clips.height
    for (_,), bird in mine.group_by("individual_id"):
        videos = bird.group_by("video_id").len()
        n = bird.filter(pl.col("role") == "query").height
        if videos.height == 1:
            assert n == 0
        else:
            assert n > 0
            assert abs(n - how.query_share * bird.height) <= videos["len"].max()


@settings(max_examples=60, deadline=None)
@given(films(), st.sampled_from([0.05, 0.1, 0.4]))
def test_validation_leaves_every_bird_in_the_gallery(clips, share):
    roles, _ = build_roles(clips, settings=BuiltSplits(validation_share=0), protocols=["open"])
    before = set(gallery_of(clips, roles, "open")["individual_id"])
    again, notices = validation_from_gallery(clips, roles, share=share)
    after = gallery_of(clips, again, "open")
    taken = gallery_of(clips, again, "open", role="validation")
    assert set(after["individual_id"]) == before
    assert not set(after["video_id"]) & set(taken["video_id"])
    largest = clips.group_by("video_id").len()["len"].max()
    assert taken.height <= share * (after.height + taken.height) + largest
    if before:
        assert notices["code"].to_list() == (["validation_taken"] if taken.height else ["no_validation"])
    # A second call finds the validation and changes nothing.
    if taken.height:
        third, told = validation_from_gallery(clips, again, share=share)
        assert third.equals(again)
        assert told.is_empty()


@settings(max_examples=60, deadline=None)
@given(films(), st.integers(0, 9))
def test_halves_are_halves(clips, seed):
    held = hold(clips)
    n = len(half_of_the_birds(held, seed))
    assert abs(n - (len(held.birds) - n)) <= max(1, len(held.birds) - 2 * (len(held.birds) // 2))


def test_the_latest_videos_are_asked_for():
    clips = made(*((f"v{i}", i, {"a": 1}) for i in range(10)))
    assert latest_videos(hold(clips), 0.2) == {"v8", "v9"}
    assert latest_videos(hold(clips), 0.01) == {"v9"}


def test_a_video_that_two_birds_share_is_weighed_for_both():
    # v9 holds b's only later video: it is asked for, as a is not asked for with more than half of its clips.
    clips = made(("v1", 1, {"a": 4}), ("v2", 2, {"b": 5}), ("v9", 9, {"a": 1, "b": 1}))
    assert latest_videos(hold(clips), 0.2) == {"v9"}


def test_a_bird_of_one_video_does_not_keep_others_from_being_asked_for():
    clips = made(("v1", 1, {"a": 4}), ("v2", 2, {"a": 2, "guest": 1}))
    roles, notices = build_roles(clips, settings=BuiltSplits(), protocols=["closed"])
    assert dict(with_roles(clips, roles, "closed").select("clip_id", "role").rows()).get("v2/guest/0") is None
    assert dict(notices.select("code", "n").rows()) == {"one_video_closed": 1, "left_out_closed": 1, "share_closed": 2}


def test_one_bird_of_one_video_can_be_asked_for_in_no_protocol():
    roles, notices = build_roles(made(("v1", 1, {"a": 4})), settings=BuiltSplits())
    assert roles.filter(pl.col("role") == "query").is_empty()
    assert {"no_queries_closed", "no_queries_disjoint", "no_queries_open"} <= set(notices["code"])


def test_open_has_unknown_birds_known_ones_and_a_validation():
    clips = made(*((f"v{b}{i}", i * 30 + b, {f"b{b}": 4}) for b in range(10) for i in range(10)))
    roles, notices = build_roles(clips, settings=BuiltSplits(), protocols=["open"])
    mine = with_roles(clips, roles, "open")
    unknown = mine.filter(~pl.col("is_known"))
    assert unknown["individual_id"].n_unique() == 2
    assert unknown["role"].unique().to_list() == ["query"]
    n = dict(mine.filter("is_known")["role"].value_counts().rows())
    assert n == {"query": 64, "gallery": 256 - n["validation"], "validation": n["validation"]}
    assert abs(n["validation"] - 25.6) <= 4
    assert mine.filter(pl.col("role") == "validation")["individual_id"].n_unique() >= 6
    assert set(notices["code"]) == {"validation_taken", "share_open"}


def test_undated_videos_are_the_oldest_and_counted():
    clips = made(("v1", 5, {"a": 1}), ("v9", None, {"a": 1}))
    roles, notices = build_roles(clips, settings=BuiltSplits(), protocols=["closed"])
    assert dict(roles.select("clip_id", "role").rows()) == {"v1/a/0": "query", "v9/a/0": "gallery"}
    assert dict(notices.select("code", "n").rows())["undated_video"] == 1


def test_birds_of_common_videos_go_to_one_half():
    pairs = [(f"v{i}{k}", k, {f"b{i}": 2, f"b{i + 1}": 2}) for i in (0, 2, 4, 6) for k in range(4)]
    clips = made(*pairs)
    roles, notices = build_roles(clips, settings=BuiltSplits(), protocols=["disjoint"])
    assert roles.height == clips.height
    assert with_roles(clips, roles, "disjoint").filter(pl.col("role") == "train")["individual_id"].n_unique() == 4
    assert "left_out_halves" not in notices["code"]


def test_a_chain_of_common_videos_is_cut_and_what_is_lost_is_counted():
    chain = [(f"v{i}{k}", k, {a: 3, b: 1}) for i, (a, b) in enumerate(pairwise("abcdef")) for k in range(3)]
    clips = made(*chain)
    roles, notices = build_roles(clips, settings=BuiltSplits(), protocols=["disjoint"])
    told = dict(notices.select("code", "n").rows())
    assert clips.height - roles.height == told["left_out_halves"] + told.get("left_out_disjoint", 0)
    assert told["left_out_halves"] == 3


# Leaks.


def leaky() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    clips = made(("v1", 10, {"a": 2}), ("v2", 400, {"a": 1}), ("v3", 5, {"a": 1, "b": 1}), ("v4", 10, {"a": 1}))
    clips = clips.with_columns(pl.Series("track_id", ["t1", "t1", "t2", "t3", "t4", None]))
    role = {
        "v1/a/0": "gallery",
        "v1/a/1": "query",
        "v2/a/0": "gallery",
        "v3/a/0": "query",
        "v3/b/0": "query",
        "v4/a/0": "query",
    }
    known = [not clip.endswith("b/0") for clip in role]
    roles = pl.DataFrame(
        {"split": ["closed"] * 6, "clip_id": list(role), "role": list(role.values()), "is_known": known}
    )
    images = pl.DataFrame(
        {"clip_id": clips["clip_id"], "frame_index": [0] * 6, "image": ["x", "x", "y", "z", "z", "w"]}
    )
    return clips, schemas.validate("reid_images", images), schemas.validate("reid_roles", roles)


def test_every_leak_that_was_planted_is_found_and_nothing_else():
    clips, images, roles = leaky()
    lists = pl.DataFrame(
        {"video_id": ["v1", "v3", "v4"], "gallery": ["territory"] * 3, "candidates": [["a"], ["a"], []]}
    )
    found = leakage(clips, images, roles, schemas.validate("reid_candidates", lists))
    assert {r["check"]: (r["n"], r["n_of"], r["verdict"]) for r in found.iter_rows(named=True)} == {
        "video_in_two_roles": (1, 4, "leak"),
        "video_in_query_and_gallery": (1, 4, "leak"),
        "track_in_two_roles": (1, 4, "leak"),
        "image_in_two_clips": (2, 4, "leak"),
        "image_in_two_roles": (1, 4, "leak"),
        "same_day": (2, 3, "remark"),
        "query_before_gallery": (3, 3, "leak"),
        "no_clip_of_the_year": (0, 3, "clean"),
        "no_list_territory": (0, 4, "clean"),
        "empty_list_territory": (1, 4, "remark"),
        "bird_not_in_list_territory": (2, 4, "remark"),
        "no_list_neighbours": (None, None, "cannot be checked"),
        "empty_list_neighbours": (None, None, "cannot be checked"),
        "bird_not_in_list_neighbours": (None, None, "cannot be checked"),
    }
    assert found.filter(check="image_in_two_roles")["example"].item() == "x"
    assert found.filter(check="track_in_two_roles")["reason"].item() == "1 clips without a track are not checked"
    for check in found["check"]:
        assert check.removesuffix("_territory").removesuffix("_neighbours") in CHECKS


def test_what_cannot_be_checked_says_why():
    clips = made(("v1", None, {"a": 1}), ("v2", None, {"a": 1}))
    roles = pl.DataFrame(
        {"split": ["open"] * 2, "clip_id": clips["clip_id"], "role": ["gallery", "query"], "is_known": [True] * 2}
    )
    found = leakage(clips, NO_IMAGES, roles)
    unknown = found.filter(verdict="cannot be checked")
    assert set(unknown["check"]) >= {"same_day", "query_before_gallery", "no_clip_of_the_year", "track_in_two_roles"}
    assert unknown["reason"].null_count() == 0
    assert unknown["n"].null_count() == unknown.height


def test_tracks_numbered_anew_in_each_video_are_not_taken_for_one():
    clips = made(("v1", 1, {"a": 1}), ("v2", 2, {"b": 1})).with_columns(track_id=pl.lit("1"))
    roles = pl.DataFrame(
        {"split": ["closed"] * 2, "clip_id": clips["clip_id"], "role": ["gallery", "query"], "is_known": [True, False]}
    )
    row = leakage(clips, NO_IMAGES, roles).row(by_predicate=pl.col("check") == "track_in_two_roles", named=True)
    assert (row["n"], row["n_of"], row["verdict"]) == (0, 2, "clean")
    assert "names of tracks recur" in row["reason"]


def test_a_bird_that_is_learned_and_asked_is_a_leak_of_disjoint():
    clips = made(("v1", 1, {"a": 1}), ("v2", 2, {"a": 1, "b": 1}))
    roles = pl.DataFrame(
        {
            "split": ["disjoint"] * 3,
            "clip_id": clips["clip_id"],
            "role": ["train", "query", "gallery"],
            "is_known": [False, False, True],
        }
    )
    row = leakage(clips, NO_IMAGES, roles).row(by_predicate=pl.col("check") == "bird_learned_and_asked", named=True)
    assert (row["n"], row["n_of"], row["example"], row["verdict"]) == (1, 2, "a", "leak")


@settings(max_examples=40, deadline=None)
@given(films(), built)
def test_made_protocols_do_not_leak(clips, how):
    roles, _ = build_roles(clips, settings=how)
    assert "leak" not in leakage(clips, NO_IMAGES, roles)["verdict"].to_list()


def test_no_roles_no_rows():
    assert leakage(made(("v1", 1, {"a": 1})), NO_IMAGES, schemas.empty("reid_roles")).is_empty()


# Counts.


def chirp_sized(n_birds: int) -> pl.DataFrame:
    """16,110 clips of 25 images in 443 videos; 59 of the birds in two years."""
    clips = pl.DataFrame({"i": range(16110)}).with_columns(
        pl.format("c{}", "i").alias("clip_id"), pl.format("v{}", pl.col("i") % 443).alias("video_id"),
        pl.format("b{}", pl.col("i") % n_birds).alias("individual_id"), pl.lit(25).alias("n_images"),
        (2014 + (pl.col("i") % n_birds) % 8 + ((pl.col("i") % n_birds < 59) & (pl.col("i") < n_birds))).alias("year"),
    )  # fmt: skip
    return schemas.validate("reid_clips", clips.drop("i"))


def verdicts(clips: pl.DataFrame, **about) -> dict[tuple[str, float | None], str]:
    table = counts(clips, published=["chirp"], **about)
    return {
        (what, published): verdict for what, published, verdict in table.select("what", "published", "verdict").rows()
    }


def test_published_counts_beside_counted_ones():
    said = verdicts(chirp_sized(182))
    assert said["n_clips", 16190.0] == "differs"
    assert said["n_clips", 16110.0] == "equal"
    assert said["n_images", 402750.0] == "equal"
    assert said["n_individuals", 183.0] == "differs"
    assert said["n_individuals", 182.0] == "equal"
    assert said["n_videos", 443.0] == "equal"
    assert said["clips_per_individual", 89.0] == "equal"
    assert said["n_several_years", 59.0] == "equal"
    # 59 birds are 32.42 % of 182, not of 183.
    assert said["share_several_years", 0.3242] == "equal"
    assert verdicts(chirp_sized(183))["share_several_years", 0.3242] == "differs"
    assert said["n_territories", None] == "not published"
    assert said["list_territory", 2.92] == "not computed"
    assert {what for what, _ in said} == set(WHAT)


def test_lists_are_counted_over_the_videos_of_clips():
    clips = made(("v1", 1, {"a": 1}), ("v2", 2, {"b": 1}))
    rows = [
        ("v1", "territory", ["a", "b"]),
        ("v2", "territory", ["a", "b", "c"]),
        ("gone", "territory", []),
        ("v1", "neighbours", []),
    ]
    lists = pl.DataFrame(rows, schema=schemas.TABLES["reid_candidates"].dtypes, orient="row")
    table = counts(clips, candidates=lists)
    computed = dict(table.select("what", "computed").rows())
    assert [computed[f"list_territory{end}"] for end in ("", "_min", "_max")] == [2.5, 2, 3]
    assert computed["list_neighbours"] == 0
    assert table["published"].null_count() == table.height
    assert set(table["verdict"]) == {"not published"}


def test_counts_of_nothing():
    table = counts(schemas.empty("reid_clips"), published=["chirp"])
    assert dict(table.select("what", "computed").rows())["clips_per_individual"] is None
    assert table.filter(pl.col("computed").is_null())["reason"].null_count() == 0


# Years.


def test_years_to_the_nearest_clip_of_the_same_bird():
    asked = pl.DataFrame(
        {"query_id": ["q1", "q2", "q3", "q4", "q5"], "individual_id": ["a", "a", "b", "c", "d"],
         "date": [dt.date(2021, 1, 5), dt.date(2018, 6, 1), None, dt.date(2020, 1, 1), dt.date(2020, 1, 1)]}
    )  # fmt: skip
    shown = pl.DataFrame(
        {
            "individual_id": ["a", "a", "b", "d"],
            "date": [dt.date(2020, 12, 31), dt.date(2019, 1, 1), dt.date(2020, 1, 1), None],
        }
    )
    found = years_between(asked, shown)
    assert found["query_id"].to_list() == ["q1", "q2", "q3", "q4", "q5"]
    assert found["years"].to_list() == [1, 1, None, None, None]
    assert found["days"].to_list() == [5, 214, None, None, None]
    assert found["reason"].to_list() == [
        None, None, "the query has no year", "the bird is not in the gallery", "no gallery clip of the bird has a year",
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(films(), built)
def test_years_equal_a_loop(clips, how):
    roles, _ = build_roles(clips, settings=how)
    found = years_by_split(clips, roles)
    asked = roles.filter(pl.col("role") == "query")
    assert sorted(found.select("split", "query_id").rows()) == sorted(asked.select("split", "clip_id").rows())
    year, bird, day = (dict(clips.select("clip_id", c).rows()) for c in ("year", "individual_id", "date"))
    for row in found.iter_rows(named=True):
        clip = row["query_id"]
        shown = [c for c in gallery_of(clips, roles, row["split"])["clip_id"] if bird[c] == bird[clip]]
        years = [abs(year[c] - year[clip]) for c in shown if year[c] is not None and year[clip] is not None]
        days = [abs((day[c] - day[clip]).days) for c in shown if day[c] is not None and day[clip] is not None]
        assert (row["years"], row["days"]) == (min(years, default=None), min(days, default=None))
        assert (row["years"] is None) == (row["reason"] is not None)


def outcome(query: str, bird: str, above: int | None, tied: int, listed: int, **about) -> dict:
    row = {"model": "m", "split": "closed", "gallery": "all", "query_id": query, "video_id": "v", "individual_id": bird,
           "is_known": True, "role": "query", "n_candidates": listed, "in_list": above is not None, "n_above": above,
           "n_tied": tied}  # fmt: skip
    return row | about


def test_top1_by_years():
    rows = [outcome("q1", "a", 0, 0, 2), outcome("q2", "a", 0, 1, 4), outcome("q3", "b", 1, 0, 4),
            outcome("q4", "b", None, None, 3), outcome("q5", "b", 0, 0, 2), outcome("q6", "b", 0, 0, 2, role="validation"),
            outcome("q7", "z", 0, 0, 2, is_known=False)]  # fmt: skip
    outcomes = schemas.validate("reid_outcomes", pl.DataFrame(rows, infer_schema_length=None))
    years = pl.DataFrame({"split": ["closed"] * 4, "query_id": ["q1", "q2", "q3", "q4"], "years": [0, 0, 0, 7]})
    table = outcomes_by_years(outcomes, years)
    assert table["level"].to_list() == ["0", "3 or more", "unknown"]
    assert table["n"].to_list() == [3, 1, 1]
    assert table["top1"].to_list() == pytest.approx([0.5, 0.0, 1.0])
    assert table["chance"].to_list() == pytest.approx([(1 / 2 + 1 / 4 + 1 / 4) / 3, 0.0, 0.5])
    assert table["lo"][0] < 0.5 < table["hi"][0]
    assert table["lo"].to_list()[1:] == [None, None]
    assert table["reason"].null_count() == 1


# Queries.


def test_queries_carry_the_lists_of_their_videos():
    clips = made(("v1", 1, {"a": 1}), ("v2", 2, {"a": 1}), ("v3", 3, {"a": 1}))
    roles = pl.DataFrame(
        {
            "split": ["closed"] * 3,
            "clip_id": clips["clip_id"],
            "role": ["gallery", "query", "query"],
            "is_known": [True] * 3,
        }
    )
    lists = pl.DataFrame(
        [("v2", "territory", ["a", "b"]), ("v3", "neighbours", [])],
        schema=schemas.TABLES["reid_candidates"].dtypes,
        orient="row",
    )
    found = queries_of(clips, schemas.validate("reid_roles", roles), lists)
    assert found.select("query_id", "candidates_territory", "candidates_neighbours").rows() == [
        ("v2/a/0", ["a", "b"], None), ("v3/a/0", None, []),
    ]  # fmt: skip
    assert queries_of(clips, schemas.validate("reid_roles", roles))["candidates_territory"].to_list() == [None, None]
