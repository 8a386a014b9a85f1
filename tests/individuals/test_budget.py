"""Error budget: hand cases of the operators, planted errors, sums, and a plain per-box pipeline as oracle."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_colonies import Made, match, random_colony
from plain_pipeline import Plain

from birdlab import schemas
from birdlab.individuals.budget import (
    OPERATORS,
    STAGES,
    Pipeline,
    count_windows,
    error_budget,
    named_of,
    scenes_of,
    shapley,
    windows_of,
)
from birdlab.individuals.budget_words import budget_sentence

RATE, TOGETHER = "pecks_per_min", "co_occurrence_frac"


def budget(colony, measure: str = RATE) -> dict[str, dict]:
    rows = schemas.TABLES["error_budget"].validate(error_budget(colony, match=match)).filter(measure=measure)
    assert rows["stage"].to_list() == list(STAGES)
    return {r["stage"]: r for r in rows.iter_rows(named=True)}


def shares(colony, measure: str = RATE) -> list[float]:
    return [budget(colony, measure)[s]["share"] for s in STAGES]


# ---- hand cases, one per operator; 1,500 frames at 25 Hz are one minute, so pecks are pecks per minute ----


def test_detection_gives_missed_boxes_to_the_nearest_found_ones_and_counts_their_pecks() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(10), 0).visit("v", "b_1", "b", range(10), 1)
    made.peck("v", "a", 7, 8).track("T", "v", "1", range(6), 0).track("T", "v", "2", range(10), 1)
    made.name("I", "T", "v", "1", "a").name("I", "T", "v", "2", "b")
    colony = made.combination("T", "M", "I").done()
    rate, pair = budget(colony), budget(colony, TOGETHER)
    assert shares(colony) == [0.5, 0, 0, 0]  # one peck lost, two birds
    assert (rate["detection"]["total"], rate["detection"]["alone"], rate["behaviour"]["alone"]) == (0.5, 0, 0.5)
    assert pair["detection"]["share"] == pytest.approx(4 / 1500)  # together in 6 of 10 frames
    assert pair["detection"]["others"] == pytest.approx(4 / 1500)
    assert (rate["detection"]["fraction"], rate["tracks"]["fraction"]) == (1.0, 0.0)


def test_detection_is_charged_with_a_visit_that_nobody_found() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(10), 0).visit("v", "b_1", "b", range(10), 1)
    made.peck("v", "a", 7, 8).track("T", "v", "2", range(10), 1).name("I", "T", "v", "2", "b")
    colony = made.combination("T", "M", "I").done()
    assert shares(colony) == [0.5, 0, 0, 0]
    assert shares(colony, TOGETHER) == pytest.approx([10 / 1500, 0, 0, 0])


def test_a_missed_peck_that_a_window_tells_counts_once() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(30), 0).peck("v", "a", 10, 12)
    made.track("T", "v", "1", [*range(10), *range(13, 30)], 0).name("I", "T", "v", "1", "a")
    colony = made.window("M", "T", "v", "1", 0, 25).combination("T", "M", "I").done()
    rows = budget(colony)
    assert rows["detection"]["total"] == rows["detection"]["alone"] == 0
    assert rows["behaviour"]["alone"] == 1  # true behaviours cannot be given to boxes that are not there
    assert (rows["detection"]["share"], rows["behaviour"]["share"]) == (0.5, -0.5)


@pytest.mark.parametrize(("start", "alone"), [(10, 0), (12, 0), (13, 1)])
def test_a_window_tells_a_peck_that_it_shares_a_frame_with(start: int, alone: float) -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(60), 0).peck("v", "a", 10, 12)
    made.track("T", "v", "1", [*range(10), *range(13, 60)], 0).name("I", "T", "v", "1", "a")
    colony = made.window("M", "T", "v", "1", start, start + 25).combination("T", "M", "I").done()
    assert budget(colony)["detection"]["alone"] == alone


def test_false_boxes_are_mended_by_detection_or_identity() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(10), 0).track("T", "v", "1", range(10), 0)
    made.track("T", "v", "2", range(10), 5).name("I", "T", "v", "1", "a").name("I", "T", "v", "2", "b")
    colony = made.window("M", "T", "v", "2", 0, 25).combination("T", "M", "I").done()
    assert shares(colony, TOGETHER) == pytest.approx([5 / 1500, 0, 5 / 1500, 0])
    # The false peck is one of two rows; detection, identity or behaviour alone takes it away.
    assert shares(colony) == pytest.approx([1 / 6, 0, 1 / 6, 1 / 6])


def merged(name: str | None) -> Made:
    """One track over six frames of a, then four of b, with a peck each."""
    made = Made().video("v").visit("v", "a_1", "a", range(6), 0).visit("v", "b_1", "b", range(6, 10), 1)
    made.visit("v", "c_1", "c", range(10), 2).track("T", "v", "3", range(10), 2).name("I", "T", "v", "3", "c")
    made.peck("v", "a", 2, 3).peck("v", "b", 7, 8).track("T", "v", "1", range(6), 0).track(
        "T", "v", "1", range(6, 10), 1
    )
    made.window("M", "T", "v", "1", 2, 4).window("M", "T", "v", "1", 7, 9)
    return made.name("I", "T", "v", "1", name).combination("T", "M", "I")


def test_tracks_parts_a_merged_track_that_was_named_rightly() -> None:
    rows = budget(merged("a").done())
    assert shares(merged("a").done()) == pytest.approx([0, 2 / 3, 0, 0])  # a has one too many, b one too few, c none
    assert (rows["tracks"]["alone"], rows["identity"]["alone"]) == (0, pytest.approx(2 / 3))
    assert shares(merged("a").done(), TOGETHER) == pytest.approx([0, 8 / 1500 / 3, 0, 0])


def test_identity_gives_a_merged_track_to_the_bird_that_owns_most_of_it() -> None:
    rows = budget(merged("d").done())
    # d: 2 pecks, a and b none: errors 1, 1, 0, 2 over four birds; after identity a 2, b 0.
    assert rows["identity"]["total"] == 1
    assert rows["identity"]["alone"] == 0.5
    assert rows["tracks"]["alone"] == 1  # parts of a wrongly named track keep its name
    assert rows["tracks"]["others"] == 0.5


def test_tracks_joins_pieces_by_vote_where_no_name_is_a_vote() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(10), 0).visit("v", "b_1", "b", range(10), 1)
    made.track("T", "v", "1", range(6), 0).track("T", "v", "2", range(6, 10), 0).track("T", "v", "3", range(10), 1)
    made.name("I", "T", "v", "1", "a").name("I", "T", "v", "2", None).name("I", "T", "v", "3", "b")
    colony = made.combination("T", "M", "I").done()
    # A piece without a name is mended by tracks or by identity: half and half.
    assert shares(colony, TOGETHER) == pytest.approx([0, 2 / 1500, 2 / 1500, 0])


def test_a_vote_that_no_name_wins_takes_the_bird_away() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(10), 0).visit("v", "b_1", "b", range(10), 1)
    made.track("T", "v", "1", range(4), 0).track("T", "v", "2", range(4, 10), 0).track("T", "v", "3", range(10), 1)
    made.name("I", "T", "v", "1", "a").name("I", "T", "v", "2", None).name("I", "T", "v", "3", "b")
    rows = budget(made.combination("T", "M", "I").done(), TOGETHER)
    assert rows["tracks"]["alone"] == pytest.approx(10 / 1500)
    assert rows["tracks"]["total"] == pytest.approx(6 / 1500)
    assert rows["tracks"]["share"] < 0 < rows["identity"]["share"]


def test_behaviour_counts_every_peck_under_one_window() -> None:
    made = Made().video("v").visit("v", "a_1", "a", range(25), 0).track("T", "v", "1", range(25), 0)
    made.peck("v", "a", 1, 3).peck("v", "a", 8, 9).peck("v", "a", 20, 22).window("M", "T", "v", "1", 0, 25)
    colony = made.name("I", "T", "v", "1", "a").combination("T", "M", "I").done()
    assert shares(colony) == [0, 0, 0, 2]
    assert budget(colony)["behaviour"]["others"] == 2


def test_operators_name_all_stages_once() -> None:
    assert OPERATORS["stage"].to_list() == list(STAGES)
    assert OPERATORS.null_count().sum_horizontal().item() == 0


# ---- planted errors of one kind ----

KINDS = {"identity": "identity", "behaviour": "behaviour", "detection": "detection", "tracks": "tracks"}


def planted(kind: str, seed: int):
    """Three videos, perfect but for one kind of error (tracks: merged ones, which alone are only the tracker's)."""
    rng, made = np.random.default_rng(seed), Made()
    for k in range(3):
        v = f"v{k}"
        made.video(v, 300)
        for lane, bird in enumerate("abcd"):
            own = list(range(10 * lane, 200 + 20 * lane))
            if kind == "tracks":  # one after the other; a and c stay longer, so the merged track is named after them
                own = list(range(150, 220 + lane)) if lane % 2 else list(range(10 * lane, 120))
            made.visit(v, f"{bird}_1", bird, own, lane)
            pecks = [int(f) for f in np.arange(own[0] + 5, own[-1] - 10, 12) if rng.random() < 0.6]
            lost = {f for f in own if kind == "detection" and (f // 12 + lane) % (2 + k) == 0}
            if kind == "detection" and lane == k:
                lost = set(own)
            track = f"{lane // 2}" if kind == "tracks" and k < 2 else f"{lane}"
            made.track("T", v, track, [f for f in own if f not in lost], lane)
            for p in pecks:
                made.peck(v, bird, p, p + 2)
                dropped = kind == "behaviour" and rng.random() < 0.5
                if not dropped and not {p, p + 1, p + 2} <= lost:
                    made.windows.append(("M", "T", v, track, p, p + 3, "Peck"))
            name = "abcd"[(lane + 1 + k) % 4] if kind == "identity" and lane != k else bird
            if not (kind == "tracks" and k < 2 and lane % 2):
                made.name("I", "T", v, track, name)
    made.windows = list({w[:6]: w for w in made.windows}.values())
    return made.combination("T", "M", "I").done()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_error_is_charged_to_its_stage(kind: str, seed: int) -> None:
    colony = planted(kind, seed)
    for measure in (RATE,) if kind == "behaviour" else (RATE, TOGETHER):
        rows = budget(colony, measure)
        assert rows[kind]["total"] > 0
        assert rows[kind]["fraction"] >= 0.95
    if kind == "behaviour":
        assert shares(colony, TOGETHER) == [0, 0, 0, 0]


def test_no_error_has_no_shares() -> None:
    rows = budget(planted("none", 0))
    assert [rows[s]["share"] for s in STAGES] == [0, 0, 0, 0]
    assert rows["tracks"]["fraction"] is None


# ---- properties ----


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_shares_sum_to_the_total_so_all_replaced_is_no_error(seed: int) -> None:
    colony = random_colony(seed)
    rows = error_budget(colony, match=match)
    sums = rows.group_by("measure").agg(pl.col("share").sum(), pl.col("total").first(), pl.col("n").first())
    for _, share, total, n in sums.iter_rows():
        assert abs(share - total) < 1e-9 if n else share == 0
    assert rows.filter(measure=TOGETHER, stage="behaviour")["share"].drop_nulls().abs().sum() == 0


def plain_errors(colony) -> dict[str, float]:
    """Mean absolute errors of the pipeline as submitted, box by box and window by window."""
    rates, pairs = [], []
    for video, n_frames, fps, *_ in colony.videos.iter_rows():
        named = {r[3]: r[5] for r in colony.identities.iter_rows() if r[2] == video}
        true, seen = {}, {}
        for r in colony.boxes.iter_rows():
            if r[0] == video and r[4] and r[2] < n_frames:
                true.setdefault(r[4], set()).add(r[2])
        for r in colony.tracks.iter_rows():
            if r[1] == video and named.get(r[4]) and r[3] < n_frames:
                seen.setdefault(named[r[4]], set()).add(r[3])
        events = [r for r in colony.events.iter_rows() if r[0] == video and r[3]]
        known = {*true, *(r[3] for r in events)}
        counts: dict[str, list] = {}
        for r in sorted(colony.windows.iter_rows(), key=lambda r: (r[4], r[5], r[3])):
            bird = named.get(r[3])
            if r[2] == video and r[6] == "Peck" and bird and r[5] > r[4]:
                had = counts.setdefault(bird, [0, -1])
                if r[4] >= had[1]:
                    had[:] = [had[0] + 1, r[5]]
        for bird in known | {b for b in named.values() if b}:
            pecks = sum(r[3] == bird and r[4] == "peck" for r in events)
            rates.append(abs(counts.get(bird, [0])[0] - pecks) / (n_frames / fps / 60))
        birds = sorted(known | set(seen))
        for k, a in enumerate(birds):
            for b in birds[k + 1 :]:
                got, was = (len(x.get(a, set()) & x.get(b, set())) for x in (seen, true))
                if got or {a, b} <= known:
                    pairs.append(abs(got - was) / n_frames)
    return {m: float(np.mean(x)) if x else 0.0 for m, x in ((RATE, rates), (TOGETHER, pairs))}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_the_total_is_the_error_of_the_pipeline_as_it_is(seed: int) -> None:
    colony = random_colony(seed)
    rows = error_budget(colony, match=match)
    for measure, error in plain_errors(colony).items():
        assert rows.filter(measure=measure)["total"].unique().to_list() == [pytest.approx(error)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(-1, 2)), max_size=12))
def test_counted_windows_against_a_plain_loop(windows: list[tuple[int, int, int]]) -> None:
    windows = sorted((s, s + n, b) for s, n, b in windows)
    last, count = [-1] * 3, [0] * 3
    for s, e, b in windows:
        if b >= 0 and s >= last[b]:
            last[b], count[b] = e, count[b] + 1
    start, end, bird = (np.array([w[k] for w in windows], dtype=np.int64) for k in range(3))
    assert count_windows(start, end, bird, 3).tolist() == count


def test_shapley_of_a_game_worked_by_hand() -> None:
    # Errors of sets {}, {0}, {1}, {0,1}, and with stage 2: stage 2 mends nothing, 0 and 1 each hide the other.
    values = np.array([[6.0], [6.0], [3.0], [0.0], [6.0], [6.0], [3.0], [0.0]])
    assert shapley(values).ravel() == pytest.approx([1.5, 4.5, 0.0])


def test_intervals_are_over_videos() -> None:
    row = budget(planted("identity", 0))["identity"]
    assert row["n_clusters"] == 3 and row["lo"] < row["share"] < row["hi"] and row["reason"] is None
    one = budget(merged("a").done())["tracks"]
    assert (one["lo"], one["hi"], one["n_clusters"]) == (None, None, 1)
    assert one["reason"] == "one video: nothing can be said about another"


def test_a_missing_video_is_left_out_and_an_empty_colony_says_why() -> None:
    colony = planted("identity", 0)
    colony.combinations = colony.combinations.with_columns(videos=pl.lit(["v0"]), missing_videos=pl.lit(["v1", "v2"]))
    assert budget(colony)["identity"]["n_clusters"] == 1
    empty = budget(Made().video("v").combination("T", "M", "I").done())["identity"]
    assert (empty["share"], empty["n"], empty["total"]) == (None, 0, 0)
    assert empty["reason"] == "no bird was seen or named"


# ---- words ----


def rows_of(
    shares_: list[float], *, half: float | None = 0.1, n_clusters: int = 5, measure: str = RATE
) -> pl.DataFrame:
    total = sum(shares_)
    table = [
        {"tracker": "T", "model": "M", "identity": "I", "measure": measure, "stage": s, "share": x,
         "lo": None if half is None else x - half, "hi": None if half is None else x + half, "total": total,
         "fraction": x / total if total else None, "alone": 0.0, "others": 0.0, "n": 9, "n_clusters": n_clusters}
        for s, x in zip(STAGES, shares_, strict=True)
    ]  # fmt: skip
    return schemas.TABLES["error_budget"].conform(pl.DataFrame(table))


def test_sentences_are_not_stronger_than_the_numbers() -> None:
    assert budget_sentence(rows_of([0.6, 0.3, 1.922, 0.278])) == (
        "Feeding rates are off by 3.1 pecks/min on average, mostly because of identity (62 %)."
    )
    assert "mostly" not in budget_sentence(rows_of([0.6, 0.3, 1.922, 0.278], half=1.0))
    assert "their intervals overlap" in budget_sentence(rows_of([0.6, 0.3, 1.922, 0.278], half=1.0))
    assert "than of any other stage" in budget_sentence(rows_of([0.8, 0.6, 1.2, 0.5]))
    below = budget_sentence(rows_of([-0.4, 0.0, 1.4, 0.0]))
    assert below.endswith("The share of detection is below 0 (−40 %): its errors partly cancel those of other stages.")
    assert "interval holds 0" in budget_sentence(rows_of([-0.04, 0.0, 1.04, 0.0]))
    worse = rows_of([-0.4, 0.0, 1.4, 0.0]).with_columns(alone=pl.lit(1.2))
    assert budget_sentence(worse).endswith("; mending it alone makes the numbers worse.")
    assert "one video" in budget_sentence(rows_of([0.1, 0.0, 1.4, 0.0], half=None, n_clusters=1))
    assert "exactly right" in budget_sentence(rows_of([0.0] * 4))
    together = budget_sentence(rows_of([0.01, 0.0, 0.06, 0.0], half=0.001, measure=TOGETHER))
    assert together.startswith("The share of time that two birds are seen together is off by 7 points")


# ---- every set of stages against the operators written out box by box ----


@pytest.mark.parametrize("seed", range(40))
def test_all_sixteen_pipelines_against_plain_ones(seed: int) -> None:
    colony = random_colony(seed)
    pairs = match(colony.boxes, colony.tracks)
    scenes = dict(scenes_of(colony, "T", colony.videos["video_id"].to_list(), match))
    names, windows = named_of(colony.identities, "T", scenes), windows_of(colony.windows, "T", scenes)
    for video, scene in scenes.items():
        plain = Plain(colony, video, pairs)
        pipeline = Pipeline(video, scene, names, windows, "M", "I", {})
        for subset in range(16):
            pecks, seen = plain.run(*(bool(subset >> k & 1) for k in range(4)))
            assert pipeline.pecks(subset).tolist() == [pecks[b] for b in scene.birds], (video, subset)
            both = [[len(seen.get(a, set()) & seen.get(b, set())) for b in scene.birds] for a in scene.birds]
            assert pipeline.together(subset).tolist() == both, (video, subset)
