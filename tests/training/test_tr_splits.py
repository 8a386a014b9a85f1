"""Splits: whole groups, even parts, no leak unseen, and a file that notices every change."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.recipe.training import Splitting
from birdlab.training.leaks import LEVELS, NEAR_BITS, find_leaks, levels_of, near_duplicates, refuse_leaks, thumbnails
from birdlab.training.split_files import read_splits, write_splits
from birdlab.training.split_table import split_table
from birdlab.training.splits import make_splits
from birdlab.training.stratify import WEIGHTS, deviations, divide, group_counts

PARTS = ("train", "val", "test")


def study(
    sessions: list[tuple[str, str | None, list[int]]], *, unlabelled: int = 0, day: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Frames, labels and media of sessions (name, site, birds in every frame); every session on a day of its own."""
    frames, labels, media = [], [], []
    for k, (session, site, birds) in enumerate(sessions):
        when = datetime(2026, 5, 1, 8, tzinfo=UTC) + timedelta(days=0 if day else k)
        for f, n in enumerate([*birds, *[-1] * unlabelled]):
            name = f"{session}/{f}.jpg"
            row = {"media_id": name, "video_id": session, "site_id": site, "width_px": 1000, "height_px": 1000}
            state = "unlabelled" if n < 0 else "labelled" if n else "empty"
            frames.append(row | {"frame_id": name, "frame_index": 0, "split": "test", "label_state": state})
            media.append(row | {"kind": "image", "path": f"nowhere/{name}", "dataset": "made", "recorded_at": when})
            for b in range(n):
                side = 20.0 * (1 + (k + b) % 5)
                box = {"x": 1.0, "y": 2.0, "w": side, "h": side}
                about = {"label_id": f"{name}:{b}", "frame_id": name, "category": "bird"}
                labels.append(about | box | {"is_crowd": False, "is_ignored": False})
    media_table = pl.DataFrame(media).with_columns(pl.col("media_id").hash().cast(pl.String).alias("sha256"))
    return (
        schemas.validate("frames", pl.DataFrame(frames, schema_overrides={"site_id": pl.String})),
        schemas.validate("labels", pl.DataFrame(labels)) if labels else schemas.empty("labels"),
        schemas.validate("media", media_table),
    )


def parts_of(frames: pl.DataFrame, table: pl.DataFrame, column: str) -> dict[str, set[str]]:
    joined = frames.join(table.select("frame_id", pl.col("split").alias("part")), on="frame_id")
    return {k[0]: set(v["part"]) for k, v in joined.partition_by(column, as_dict=True).items()}


SITES = [(f"s{k}", f"site{k // 2}", [k % 3, 1, 0, 2]) for k in range(8)]
made = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.integers(0, 4), min_size=1, max_size=6)), min_size=3, max_size=9
).map(lambda rows: [(f"s{k}", f"site{site}", birds) for k, (site, birds) in enumerate(rows)])


# --- levels and refusals


def test_whole_sites_where_there_are_enough_else_whole_sessions():
    frames, labels, media = study(SITES)
    by_site = make_splits(frames, labels, Splitting(), media=media)
    assert by_site.level == "site" and by_site.reason.startswith("whole sites: there are 4 for 3 parts")
    assert all(len(p) == 1 for p in parts_of(frames, by_site.table, "site_id").values())
    two = frames.filter(pl.col("site_id").is_in(["site0", "site1"]))
    by_session = make_splits(two, labels, Splitting(), media=media)
    assert by_session.level == "session" and "2 sites, fewer than 3 parts" in by_session.reason
    assert all(len(p) == 1 for p in parts_of(two, by_session.table, "video_id").values())
    assert {len(p) for p in parts_of(two, by_session.table, "site_id").values()} != {1}
    half = frames.with_columns(pl.when(pl.col("video_id") != "s1").then("site_id").alias("site_id"))
    assert "4 of 32 frames have no site" in make_splits(half, labels, Splitting()).reason


@pytest.mark.parametrize(
    ("rows", "spec", "code", "said"),
    [
        ([("a", "x", [1, 2])], {}, "one_session", "record a second one"),
        ([("a", None, [1]), ("b", None, [1])], {}, "few_sessions", "set the share of val or test to 0"),
        ([("a", "x", [1]), ("b", "x", [1]), ("c", "x", [1])], {"by": "site"}, "few_sites", "1 site"),
        ([("a", "x", [1]), ("b", None, [1]), ("c", "y", [1])], {"by": "site"}, "few_sites", "1 of 3 frames have no"),
        ([("a", "x", [-1])], {}, "no_labels", "1 frames, none"),
    ],
)
def test_too_little_to_split_is_refused_with_a_remedy(rows, spec, code, said):
    frames, labels, media = study(rows)
    with pytest.raises(DataError) as error:
        make_splits(frames, labels, Splitting(**spec), media=media)
    assert error.value.problems[0].code == code and said in str(error.value)


def test_two_sessions_are_enough_for_two_parts():
    frames, labels, _ = study([("a", None, [1, 1, 1]), ("b", None, [1])])
    splits = make_splits(frames, labels, Splitting(shares={"train": 0.75, "test": 0.25}))
    assert parts_of(frames, splits.table, "video_id") == {"a": {"train"}, "b": {"test"}}
    assert splits.parts == ("train", "test") and splits.deviations["frames"] == 0


def test_sites_that_share_a_session_stay_together():
    frames, labels, _ = study([(f"s{k}", f"site{k}", [1, 1]) for k in range(4)])
    # The camera of s0 was moved: its second frame is at the site of s1.
    moved = frames.with_columns(
        pl.when(pl.col("frame_id") == "s0/1.jpg").then(pl.lit("site1")).otherwise("site_id").alias("site_id")
    )
    splits = make_splits(moved, labels, Splitting())
    assert splits.level == "site" and splits.groups.height == 3
    assert all(len(p) == 1 for p in parts_of(moved, splits.table, "video_id").values())
    assert splits.groups.filter(pl.col("group") == "site0")["sites"][0].to_list() == ["site0", "site1"]


def test_sessions_of_one_day_stay_together_unless_dates_may_leak():
    rows = [(f"s{k}", "nest", [1, 2]) for k in range(6)]
    frames, labels, media = study(rows)
    twice = media.with_columns(pl.col("recorded_at").dt.truncate("1mo").alias("first")).with_columns(
        pl.when(pl.col("video_id").is_in(["s0", "s1"])).then("first").otherwise("recorded_at").alias("recorded_at")
    )
    splits = make_splits(frames, labels, Splitting(), media=twice)
    assert splits.groups.height == 5 and "those of one day at one site stay together" in splits.reason
    of = parts_of(frames, splits.table, "video_id")
    assert of["s0"] == of["s1"]
    refuse_leaks(find_leaks(frames, twice, splits.table), levels_of(splits.level))
    assert make_splits(frames, labels, Splitting(refuse=["session"]), media=twice).groups.height == 6
    one_day = media.with_columns(pl.lit(datetime(2026, 5, 1, tzinfo=UTC)).alias("recorded_at"))
    with pytest.raises(DataError, match="6 sessions on 1 days and places.*leave date out"):
        make_splits(frames, labels, Splitting(), media=one_day)


# --- fixed


def test_fixed_sites_and_sessions_go_where_they_are_put():
    frames, labels, _ = study(SITES)
    splits = make_splits(frames, labels, Splitting(fixed={"site2": "test", "s0": "val"}))
    of = parts_of(frames, splits.table, "site_id")
    assert of["site2"] == {"test"} and of["site0"] == {"val"}
    assert splits.groups.filter("is_fixed")["group"].to_list() == ["site0", "site2"]
    # A part of no share takes what is fixed to it and nothing else.
    only = make_splits(frames, labels, Splitting(shares={"train": 0.7, "val": 0.3}, fixed={"site1": "test"}))
    test = only.table.filter(pl.col("split") == "test")["frame_id"]
    assert set(test.str.split("/").list.first()) == {"s2", "s3"}


@pytest.mark.parametrize(
    ("fixed", "code"),
    [
        ({"sit1": "test"}, "unknown_group"),
        ({"s0": "test", "s1": "train"}, "fixed_twice"),
        ({f"site{k}": "train" for k in range(4)}, "empty_part"),
    ],
)
def test_fixed_that_cannot_be_is_refused(fixed, code):
    frames, labels, _ = study(SITES)
    with pytest.raises(ParameterError) as error:
        make_splits(frames, labels, Splitting(fixed=fixed))
    assert error.value.problems[0].code == code
    assert code != "unknown_group" or "site1" in str(error.value)


# --- invariants


@settings(max_examples=60, deadline=None)
@given(made, st.sampled_from(["auto", "session"]), st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_partition_of_whole_groups_whatever_the_order_of_rows(rows, by, seed, random):
    frames, labels, media = study(rows, unlabelled=1)
    if not labels.height:
        return
    spec = Splitting(by=by, seed=seed)
    splits = make_splits(frames, labels, spec, media=media)
    known = frames.filter(pl.col("label_state") != "unlabelled")
    assert splits.table["frame_id"].to_list() == sorted(known["frame_id"])  # each once, none unlabelled, empties too
    assert splits.n_unlabelled == len(rows) == frames.height - known.height
    column = "site_id" if splits.level == "site" else "video_id"
    assert all(len(parts) == 1 for parts in parts_of(frames, splits.table, column).values())
    assert set(splits.table["split"]) == set(PARTS)
    assert splits.groups["frames"].sum() == known.height and splits.groups["birds"].sum() == labels.height
    order = list(range(frames.height))
    random.shuffle(order)
    again = make_splits(frames[order], labels[::-1], spec, media=media[order])
    assert again.sha256 == splits.sha256 and again.table.equals(splits.table) and again.groups.equals(splits.groups)
    refuse_leaks(find_leaks(frames, media, splits.table), [splits.level, "session"])
    # With birds in three groups, every part has some.
    if splits.groups.filter(pl.col("birds") > 0).height >= 3:
        assert splits.groups.group_by("split").agg(pl.col("birds").sum())["birds"].min() > 0


def test_many_groups_are_whole_and_the_same_twice():
    rng = np.random.default_rng(4)
    rows = [(f"s{k}", None, rng.poisson(k % 3, rng.integers(2, 12)).tolist()) for k in range(40)]
    frames, labels, media = study(rows)
    a, b = (make_splits(frames, labels, Splitting(seed=5), media=media) for _ in range(2))
    assert a.sha256 == b.sha256 and "greedy start and swaps" in a.reason
    assert all(len(p) == 1 for p in parts_of(frames, a.table, "video_id").values())
    assert max(a.deviations.values()) < 0.1


# --- stratification


def test_deviations_by_hand():
    counts = {"frames": np.array([[6.0], [2.0], [2.0]]), "birds": np.array([[0.0], [0.0], [0.0]])}
    off = deviations(counts, np.array([0, 1, 1]), [0.7, 0.3])
    assert off == {"frames": pytest.approx(0.2), "birds": 0.0}  # 6 instead of 7, and 4 instead of 3, of 10


def test_counts_of_groups_by_hand():
    frames, labels, _ = study([("a", None, [0, 1, 4]), ("b", None, [12])])
    names, counts = group_counts(frames, labels, frames["video_id"])
    assert names == ["a", "b"] and counts["frames"].tolist() == [[3], [1]] and counts["birds"].tolist() == [[5], [12]]
    assert counts["birds_per_frame"].tolist() == [[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]
    # s_r of 20, 40, 60, 80, 100 px in 1000: a has 20; 20, 40, 60, 80.
    assert counts["relative_size"][0].tolist() == [0, 0, 0, 2, 2, 1, 0, 0, 0]


def cost_of(counts: dict[str, np.ndarray], part: np.ndarray, shares: list[float]) -> float:
    return sum(WEIGHTS[k] * v for k, v in deviations(counts, part, shares).items())


def test_few_groups_get_the_best_division_there_is():
    rng = np.random.default_rng(0)
    shares = [0.6, 0.2, 0.2]
    for _ in range(5):
        frames, labels, _ = study([(f"s{k}", None, (1 + rng.poisson(2, 4)).tolist()) for k in range(6)])
        _, counts = group_counts(frames, labels, frames["video_id"])
        part, is_best = divide(counts, shares)
        every = (np.array(p) for p in itertools.product(range(3), repeat=6) if len(set(p)) == 3)
        assert is_best and cost_of(counts, part, shares) == pytest.approx(
            min(cost_of(counts, p, shares) for p in every)
        )


def test_stratified_is_more_even_than_random_and_the_search_near_the_best(monkeypatch):
    rng = np.random.default_rng(1)
    shares, mine, random, searched = [0.7, 0.15, 0.15], [], [], []
    for _ in range(12):
        rows = [(f"s{k}", None, rng.poisson(rng.exponential(2), rng.integers(3, 30)).tolist()) for k in range(10)]
        frames, labels, _ = study(rows)
        _, counts = group_counts(frames, labels, frames["video_id"])
        mine.append(cost_of(counts, divide(counts, shares)[0], shares))
        random.append(np.mean([cost_of(counts, rng.choice(3, 10, p=shares), shares) for _ in range(50)]))
        with monkeypatch.context() as patch:
            patch.setattr("birdlab.training.stratify.EXHAUSTIVE", 0)
            part, is_best = divide(counts, shares)
        assert not is_best
        searched.append(cost_of(counts, part, shares))
    assert all(m < r for m, r in zip(mine, random, strict=True)) and np.mean(mine) < 0.6 * np.mean(random)
    assert all(s >= m - 1e-9 for s, m in zip(searched, mine, strict=True))
    assert np.mean(searched) < 1.15 * np.mean(mine)


# --- leaks


def planted(level: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame | None]:
    """Six sessions at six sites on six days, split a/b/c; one thing in two parts."""
    frames, _, media = study([(f"s{k}", f"site{k}", [1]) for k in range(6)])
    split = pl.DataFrame({"frame_id": frames["frame_id"], "split": [PARTS[k // 2] for k in range(6)]})
    thumbs = None
    to_s0 = lambda c: pl.when(pl.col("video_id") == "s5").then(pl.col(c).first()).otherwise(c).alias(c)  # noqa: E731
    if level == "site":
        frames = frames.with_columns(to_s0("site_id"))
    elif level == "session":
        frames = frames.with_columns(
            pl.when(pl.col("frame_id") == "s5/0.jpg").then(pl.lit("s0")).otherwise("video_id").alias("video_id")
        )
    elif level == "date":
        frames = frames.with_columns(pl.lit(None, pl.String).alias("site_id"), pl.lit("cam").alias("camera_id"))
        media = media.with_columns(to_s0("recorded_at"))
    elif level == "near_duplicate":
        rng = np.random.default_rng(2)
        images = rng.integers(0, 255, (6, 16, 17), dtype=np.uint8)
        images[5] = images[0]
        images[5, 0, :3] = images[5, 0, :3][::-1]
        thumbs = thumbnails(zip(frames["frame_id"], images, strict=True))
    else:
        media = media.with_columns(to_s0("sha256"))
    return frames, media, split, thumbs


@pytest.mark.parametrize("level", [*LEVELS, "same_file"])
def test_a_leak_planted_at_each_level_is_refused_with_both_frames_named(level):
    frames, media, split, thumbs = planted(level)
    leaks = find_leaks(frames, media, split, thumbnails=thumbs)
    found = "near_duplicate" if level == "same_file" else level
    assert leaks["level"].to_list() == [found]
    row = leaks.row(0, named=True)
    assert {(row["frame_a"], row["split_a"]), (row["frame_b"], row["split_b"])} == {
        ("s0/0.jpg", "train"),
        ("s5/0.jpg", "test"),
    }
    assert row["n"] == 2
    with pytest.raises(DataError) as error:
        refuse_leaks(leaks, levels_of(found))
    text = str(error.value)
    assert "s0/0.jpg in train" in text and "s5/0.jpg in test" in text
    assert error.value.problems[0].code == f"leak_{found}" and error.value.problems[0].remedy
    others = [v for v in LEVELS if v != found]
    refuse_leaks(leaks, others)


def test_clean_parts_have_no_leaks_and_frames_outside_leak_nothing():
    frames, media, split, _ = planted("session")
    assert find_leaks(frames, media, split.head(4)).is_empty()
    assert find_leaks(frames, media, split.clear()).is_empty()


def test_one_site_on_two_days_is_no_leak_by_date_and_midnight_is_one():
    frames, _, media = study([("a", "nest", [1]), ("b", "nest", [1])])
    split = pl.DataFrame({"frame_id": frames["frame_id"], "split": ["train", "test"]})
    assert find_leaks(frames, media, split)["level"].to_list() == ["site"]
    late = media.with_columns(pl.Series("start_s", [0.0, 0.0]))
    # Session a runs for 20 hours from 8 o'clock: its frame is of the next day, that of session b.
    ran = frames.with_columns(pl.Series("time_s", [20 * 3600.0, 0.0]))
    assert find_leaks(ran, late, split)["level"].to_list() == ["site", "date"]


def test_many_leaks_show_twenty_and_say_the_total():
    frames, _, media = study([(f"s{k}", "nest", [1, 1]) for k in range(30)])
    split = pl.DataFrame({"frame_id": frames["frame_id"], "split": ["train", "test"] * 30})
    with pytest.raises(DataError) as error:
        refuse_leaks(find_leaks(frames, media, split), levels_of("session"))
    assert len(error.value.problems) == 21 and "60 leaks in all (30 by session, 30 by date)" in str(error.value)


def test_near_duplicates_are_read_from_pixels_and_unreadable_frames_are_said(caplog):
    frames, _, media = study([("a", "x", [1, 1]), ("b", "y", [1])])
    split = pl.DataFrame({"frame_id": frames["frame_id"], "split": ["train", "train", "test"]})
    scene = np.random.default_rng(0).integers(0, 255, (32, 34, 3), dtype=np.uint8)
    images: list[Any] = [scene, DataError("gone"), scene]
    leaks = find_leaks(frames, media, split, reader=lambda f, m: zip(f["frame_id"], images, strict=True))
    assert leaks.select("frame_a", "frame_b", "what").rows() == [
        ("b/0.jpg", "a/0.jpg", "0 of 256 bits differ, correlation 1.00")
    ]
    assert "1 frames cannot be read" in caplog.text


def test_clear_skies_hash_alike_and_are_no_duplicates_but_one_sky_twice_is():
    rng = np.random.default_rng(5)
    u, v = np.meshgrid(np.linspace(0, 1, 320), np.linspace(0, 1, 240))

    def sky(bird: tuple[int, int], light: float) -> np.ndarray:
        picture = 120 + light + 60 * u + 30 * v - 25 * u * u + rng.normal(0, 1, u.shape)
        picture[bird[0] : bird[0] + 24, bird[1] : bird[1] + 20] -= 90
        return np.clip(picture, 0, 255).astype(np.uint8)

    skies = {"a": sky((60, 80), 0), "b": sky((150, 200), 8), "c": sky((60, 80), 0)}
    split = pl.DataFrame({"frame_id": list("abc"), "split": ["train", "val", "test"]})
    thumbs = thumbnails(skies.items())
    x, y, z = (np.array(bits, dtype=np.uint8) for bits in thumbs["bits"])
    assert np.bitwise_count(x ^ y).sum() <= NEAR_BITS >= np.bitwise_count(x ^ z).sum()
    assert [(a[0], b[0]) for a, b, _ in near_duplicates(split, thumbs)] == [("c", "a")]
    flat = thumbnails([(f, np.full((32, 32), 90, dtype=np.uint8)) for f in "abc"])
    assert near_duplicates(split, flat) == [] and thumbnails([]).schema == flat.schema


# --- table and file


def test_the_table_counts_by_hand():
    frames, labels, _ = study([("a", "x", [2, 0, 1, 1]), ("b", "y", [4]), ("c", "z", [1])], unlabelled=1)
    splits = make_splits(frames, labels, Splitting(fixed={"x": "train", "y": "val", "z": "test"}))
    rows = {r["split"]: r for r in split_table(frames, labels, splits).to_dicts()}
    assert list(rows) == ["train", "val", "test", "all"] and splits.n_unlabelled == 3
    train = rows["train"]
    assert (train["frames"], train["empty"], train["birds"], train["sessions"], train["sites"]) == (4, 1, 4, 1, 1)
    assert train["birds_per_frame"] == 1.0 and train["share"] == pytest.approx(4 / 6) and train["wanted"] == 0.7
    assert rows["all"]["birds"] == 9 and rows["all"]["sites"] == 3
    sizes = [c for c in train if c.startswith("size_")]
    assert all(sum(r[c] for c in sizes) == pytest.approx(1) for r in rows.values())
    # Session a is drawn with birds of 20 and 40 px in 1000: s_r .02 and .04.
    assert train["size_1/64-1/32"] == 0.75 and train["size_1/32-1/16"] == 0.25


def test_a_part_without_birds_has_null_shares():
    frames, labels, _ = study([("a", None, [2]), ("b", None, [0]), ("c", None, [1])])
    splits = make_splits(frames, labels, Splitting(fixed={"b": "test"}))
    row = split_table(frames, labels, splits).filter(pl.col("split") == "test").row(0, named=True)
    assert row["birds"] == 0 and row["birds_per_frame"] == 0 and row["size_1/64-1/32"] is None
    assert row["median_box_frac"] is None


def test_splits_come_back_from_disk_and_edits_are_noticed(tmp_path: Path):
    frames, labels, media = study(SITES, unlabelled=1)
    splits = make_splits(frames, labels, Splitting(), media=media)
    path = tmp_path / "splits.json"
    write_splits(path, splits)
    back = read_splits(path, frames, media=media)
    assert back.table.equals(splits.table) and back.groups.equals(splits.groups)
    same = ("level", "reason", "shares", "deviations", "n_unlabelled", "seed", "sha256")
    assert all(getattr(back, k) == getattr(splits, k) for k in same)
    first = path.read_bytes()
    write_splits(path, splits)
    assert path.read_bytes() == first and [p.name for p in tmp_path.iterdir()] == ["splits.json"]
    content = json.loads(first)
    content["frames"][0]["split"] = "test" if content["frames"][0]["split"] != "test" else "train"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="digest"):
        read_splits(path)


def test_the_digest_knows_parts_and_content():
    frames, labels, media = study(SITES)
    a = make_splits(frames, labels, Splitting(), media=media).sha256
    other = media.with_columns(
        pl.when(pl.col("media_id") == "s0/0.jpg").then(pl.lit("0")).otherwise("sha256").alias("sha256")
    )
    assert make_splits(frames, labels, Splitting(), media=other).sha256 != a
    assert make_splits(frames, labels, Splitting(fixed={"site0": "test"}), media=media).sha256 != a


def test_changed_missing_and_new_frames_are_named(tmp_path: Path):
    frames, labels, media = study(SITES)
    path = tmp_path / "splits.json"
    write_splits(path, make_splits(frames, labels, Splitting(), media=media))
    changed = media.with_columns(
        pl.when(pl.col("media_id") == "s1/2.jpg").then(pl.lit("0" * 64)).otherwise("sha256").alias("sha256")
    )
    with pytest.raises(DataError, match=r"s1/2\.jpg with content 000000000000…") as error:
        read_splits(path, frames, media=changed)
    assert len(error.value.problems) == 1
    with pytest.raises(DataError, match=r"no frame s3/1\.jpg"):
        read_splits(path, frames.filter(pl.col("frame_id") != "s3/1.jpg"), media=media)
    bare = frames.with_columns(
        pl.when(pl.col("frame_id") == "s2/0.jpg")
        .then(pl.lit("unlabelled"))
        .otherwise(pl.col("label_state").cast(pl.String))
        .cast(frames.schema["label_state"])
        .alias("label_state")
    )
    with pytest.raises(DataError, match=r"s2/0\.jpg without labels"):
        read_splits(path, bare)
    more, _, _ = study([*SITES, ("new", "site0", [1])])
    with pytest.raises(DataError, match=r"new/0\.jpg, labelled and in no part"):
        read_splits(path, more)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2}', "null", "{"],
)
def test_files_that_are_no_splits_are_refused(tmp_path: Path, text: str):
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(DataError):
        read_splits(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("frames", [{"frame_id": "a", "split": "training", "sha256": None}]), ("frames", 3), ("shares", []), ("seed", "x")]
    + [
        ("groups", [{"group": 3}]),
        ("level", 5),
        ("frames", [{"frame_id": None, "split": "test", "sha256": None}]),
        ("version", 9),
    ]
    + [("frames", [{"frame_id": "a", "split": "test", "sha256": None}] * 2), ("deviations", {"frames": None})],
)
def test_broken_splits_files_end_in_one_data_error(tmp_path: Path, key: str, value: Any):
    frames, labels, _ = study(SITES)
    path = tmp_path / "splits.json"
    write_splits(path, make_splits(frames, labels, Splitting()))
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(DataError):
        read_splits(path)
