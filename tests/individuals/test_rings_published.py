"""The published matcher of colour rings gives the reference's values, also where they are wrong."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.errors import DataError
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.published import NO_CODE, UNRINGED, colour_sums, match_published, published_scores

LETTERS = "ABCGLMOPRSWY"
PALETTE = Palette.of({letter: letter for letter in LETTERS})
CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "reid" / "corvid.json").read_text(encoding="utf-8"))
}


def one_hot(letter: str) -> list[float]:
    return [float(letter == other) for other in LETTERS]


def mixed(**shares: float) -> list[float]:
    return [shares.get(letter, 0.0) for letter in LETTERS]


def rings_of(clip: str, n: int, *, legs: list[list[list[float]]], used: range | None = None) -> pl.DataFrame:
    """Rings of a clip: every leg's rings 10 px above one another, legs 100 px apart, in the frames ``used``."""
    rows = []
    for frame in used or range(n):
        placed = [(100.0 * leg, 10.0 * slot, p) for leg, rings in enumerate(legs) for slot, p in enumerate(rings)]
        for i, (x, y, p) in enumerate(placed):
            rows.append((clip, frame, i, x, y, 8.0, 8.0, 1.0, p, None))
    return table(rows)


def table(rows: list[tuple]) -> pl.DataFrame:
    names = schemas.TABLES["ring_colours"].dtypes
    return schemas.TABLES["ring_colours"].validate(pl.DataFrame(rows, schema=names, orient="row"))


def frames_of(clips: dict[str, int]) -> pl.DataFrame:
    rows = [(clip, i) for clip, n in clips.items() for i in range(n)]
    return pl.DataFrame(rows, schema={"clip_id": pl.String, "frame_index": pl.Int32}, orient="row")


def lists_of(clips: list[str], birds: list[str]) -> pl.DataFrame:
    rows = [(clip, bird, bird) for clip in clips for bird in birds]
    return pl.DataFrame(rows, schema=dict.fromkeys(("clip_id", "individual_id", "code"), pl.String), orient="row")


def named(calls: pl.DataFrame, assignment: str = "argmax") -> dict[str, str]:
    part = calls.filter(assignment=assignment)
    return {clip: bird or "unringed" for clip, bird in part.select("clip_id", "individual_id").rows()}


def match_one(
    legs: list[list[list[float]]], birds: list[str], *, n: int = 40, used: range | None = None
) -> pl.DataFrame:
    return match_published(rings_of("1", n, legs=legs, used=used), frames_of({"1": n}), lists_of(["1"], birds), PALETTE)


def legs_of(*codes: str) -> list[list[list[float]]]:
    return [[one_hot(letter) for letter in code] for code in codes]


@pytest.mark.parametrize("case", ["V01", "V01b"])
def test_a_doubled_colour_ties_and_the_first_listed_wins(case: str) -> None:
    calls = match_one(legs_of("RR", "AB"), CASES[case]["candidates"])
    assert named(calls) == CASES[case]["reference"]
    row = calls.row(0, named=True)
    assert row["n_tied"] == 1
    assert row["best"] is None
    assert row["score"] == row["second"] == 39 / 40  # the last frame is not used


def test_order_and_legs_are_lost() -> None:
    calls = match_one(legs_of("OA", "OR"), CASES["V02"]["candidates"])
    assert calls.row(0, named=True)["n_tied"] + 1 == len(CASES["V02"]["reference"])
    assert named(calls) == {"1": CASES["V02"]["reference"][0]}


def test_the_contested_bird_goes_to_the_lower_score() -> None:
    case = CASES["V03"]
    unsure = [[mixed(R=0.6, Y=0.4), mixed(G=0.6, W=0.4)], [one_hot("A"), one_hot("B")]]
    rings = pl.concat([rings_of("1", 40, legs=legs_of("RG", "AB")), rings_of("2", 40, legs=unsure)])
    together = pl.DataFrame({"clip_id": ["1"], "other_id": ["2"], "n_common": [40]})
    frames, lists = frames_of({"1": 40, "2": 40}), lists_of(["1", "2"], case["candidates"])
    calls = match_published(rings, frames, lists, PALETTE, together=together)
    assert named(calls, "joint") == case["reference"]
    assert named(calls) == {"1": "rgab", "2": "rgab"}
    # Thirty common frames are not more than thirty.
    few = match_published(rings, frames, lists, PALETTE, together=together.with_columns(n_common=pl.lit(30)))
    assert named(few, "joint") == named(few)


def test_the_last_frame_is_unused_and_one_frame_is_unringed() -> None:
    calls = match_one(legs_of("RG", "AB"), ["rgab"], n=1)
    assert named(calls) == {"1": "unringed"}
    assert calls["reason"][0] == UNRINGED
    assert calls["n_with_rings"][0] == 1
    assert match_one(legs_of("RG", "AB"), ["rgab"], n=2)["score"][0] == 0.5
    assert match_one(legs_of("RG", "AB"), ["rgab"], n=5, used=range(4, 5))["score"][0] is None


def test_codes_that_are_not_four_letters_never_match() -> None:
    calls = match_one(legs_of("RG", "A"), CASES["V05"]["candidates"])
    assert named(calls) == CASES["V05"]["reference"]
    assert calls["reason"][0] == NO_CODE
    assert named(match_one(legs_of("RG", "A"), ["rga", "r?ab", "ywlm"])) == {"1": "ywlm"}


def test_scores_of_nothing_still_name_the_first_of_the_list() -> None:
    calls = match_one(legs_of("RG"), ["ywlm", "abcs"])
    assert named(calls) == {"1": "ywlm"}
    assert calls["score"][0] == 0.0
    assert calls["n_tied"][0] == 1


def test_a_colour_outside_the_palette_is_an_error_that_names_the_bird() -> None:
    assert CASES["V07"]["reference"].startswith("ValueError")
    with pytest.raises(DataError) as caught:
        match_one(legs_of("RG", "AB"), ["rgab", "xxab"])
    (problem,) = caught.value.problems
    assert (problem.code, problem.record) == ("unknown_colour", "bird xxab")
    assert "'X'" in problem.found
    assert "'xxab'" in problem.found


def test_the_divisor_counts_frames_without_rings_and_pairs_add_up() -> None:
    calls = match_one(legs_of("RG", "AB"), CASES["V08"]["candidates"], used=range(20))
    assert named(calls) == CASES["V08"]["reference"]
    assert calls.select("score", "n_frames", "n_with_rings").row(0) == (0.5, 40, 20)
    # Three rings of one leg within 38 px are three pairs: each ring counts twice.
    crowded = match_one([[one_hot("R"), one_hot("G"), one_hot("A")]], ["rgra"], n=41)
    assert crowded["score"][0] == pytest.approx(2 * 40 / 41)


@pytest.mark.parametrize(("distance", "found"), [(37.999, True), (38.0, False)])
def test_38_px_are_strict(distance: float, found: bool) -> None:
    rows = [
        ("1", f, i, x, 0.0, 8.0, 8.0, 1.0, one_hot(letter), None)
        for f in range(3)
        for i, (x, letter) in enumerate([(0.0, "R"), (distance, "G")])
    ]
    calls = match_published(table(rows), frames_of({"1": 3}), lists_of(["1"], ["rgab"]), PALETTE)
    assert (calls["individual_id"][0] == "rgab") is found


def test_an_empty_list_a_clip_without_rings_and_no_clip_at_all() -> None:
    rings, frames = rings_of("1", 3, legs=legs_of("RG")), frames_of({"1": 3, "2": 3})
    calls = match_published(rings, frames, lists_of(["2"], ["rgab"]), PALETTE)
    assert calls.filter(assignment="argmax").select("clip_id", "individual_id", "n_candidates", "n_frames").rows() == [
        ("1", None, 0, 3),
        ("2", None, 1, 3),
    ]
    assert calls["reason"][0] == "the list of candidates is empty"
    assert calls["reason"][1] == UNRINGED
    assert match_published(rings.clear(), frames.clear(), lists_of([], []), PALETTE).is_empty()


def test_a_bird_with_two_codes_has_the_better_score() -> None:
    lists = pl.DataFrame({"clip_id": ["1"] * 3, "individual_id": ["a", "a", "b"], "code": ["ywlm", "rgab", "rglm"]})
    calls = match_published(rings_of("1", 9, legs=legs_of("RG", "AB")), frames_of({"1": 9}), lists, PALETTE)
    assert calls.select("individual_id", "n_candidates", "n_tied").row(0) == ("a", 2, 0)


def plain_scores(rings: pl.DataFrame, n: int, birds: list[str]) -> dict[str, float]:
    """The published rule written out: a matrix for every pair, folded, summed."""
    k = len(LETTERS)
    total = np.zeros((k, k))
    seen = False
    for frame in range(n - 1):
        rows = rings.filter(frame_index=frame).to_dicts()
        vectors = [np.array(r["probabilities"]) for r in rows]
        pairs = list(itertools.combinations(range(len(rows)), 2))
        near = [(i, j) for i, j in pairs if np.hypot(rows[i]["x"] - rows[j]["x"], rows[i]["y"] - rows[j]["y"]) < 38]
        matrices = [np.add.outer(vectors[i], vectors[j]) / 2 for i, j in near]
        if len(rows) == 1:
            matrices = [np.add.outer(vectors[0], np.zeros(k)) / 2]
        for m in matrices:
            seen = True
            total += m + m.T - np.diag(np.diag(m))
    at = {letter: i for i, letter in enumerate(LETTERS)}
    codes = {bird: [at[letter] for letter in bird.upper()] for bird in birds if len(bird) == 4}
    return {b: (total[i[0], i[1]] + total[i[2], i[3]]) / 2 / n for b, i in codes.items()} if seen else {}


def plain_joint(scores: dict[str, dict[str, float]], rivals: dict[str, set[str]]) -> dict[str, str]:
    """The published loop written out."""
    out = {clip: max(s, key=s.get) if s else "unringed" for clip, s in scores.items()}
    marked = {c for c, others in rivals.items() for o in others if out[c] == out[o]}
    for clip in sorted((c for c in scores if scores[c]), key=lambda c: max(scores[c].values()), reverse=True):
        if clip in marked:
            ranked = sorted(scores[clip], key=lambda bird: scores[clip][bird], reverse=True)
            free = [bird for bird in ranked if all(out[o] != bird for o in rivals[clip])]
            out[clip] = (free or ranked)[0]
    return out


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equals_the_rule_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clips = {f"c{i}": int(rng.integers(1, 6)) for i in range(4)}
    rows = []
    for clip, n in clips.items():
        for frame in range(n):
            for i in range(rng.integers(0, 5)):
                x, y = rng.uniform(0, 70, 2)
                p = rng.dirichlet(np.full(len(LETTERS), 0.2))
                rows.append((clip, frame, i, x, y, 8.0, 8.0, 1.0, p.tolist(), None))
    rings = table(rows)
    birds = ["".join(rng.choice(list(LETTERS.lower()), 4)) for _ in range(5)] + ["rga"]
    pairs = [(a, b) for a, b in itertools.combinations(clips, 2) if rng.random() < 0.6]
    together = pl.DataFrame(
        {"clip_id": [a for a, _ in pairs], "other_id": [b for _, b in pairs], "n_common": [31] * len(pairs)},
        schema={"clip_id": pl.String, "other_id": pl.String, "n_common": pl.Int64},
    )
    calls = match_published(rings, frames_of(clips), lists_of(list(clips), birds), PALETTE, together=together)
    scores = {clip: plain_scores(rings.filter(clip_id=clip), n, birds) for clip, n in clips.items()}
    for row in calls.filter(assignment="argmax").to_dicts():
        expected = scores[row["clip_id"]]
        ranked = sorted(expected.values(), reverse=True)
        if not expected:
            assert row["individual_id"] is None
            continue
        assert row["score"] == pytest.approx(ranked[0], abs=1e-12)
        assert row["second"] == pytest.approx(ranked[1], abs=1e-12)
    distinct = all(np.diff(sorted(s.values())).min(initial=1) > 1e-6 for s in scores.values())
    if distinct:
        rivals = {clip: {b if a == clip else a for a, b in pairs if clip in (a, b)} for clip in clips}
        alone = {clip: max(s, key=s.get) if s else "unringed" for clip, s in scores.items()}
        assert named(calls) == alone
        assert named(calls, "joint") == plain_joint(scores, rivals)


def test_colours_may_change_legs_without_a_change_of_score() -> None:
    rng = np.random.default_rng(3)
    legs = [[rng.dirichlet(np.ones(12)).tolist() for _ in range(2)] for _ in range(2)]
    calls = match_one(legs, ["rgab", "ragb", "bgra"])
    assert calls["n_tied"][0] == 2
    assert calls["individual_id"][0] == "rgab"


def test_colour_sums_count_each_ring_once_per_near_ring() -> None:
    sums = colour_sums(rings_of("1", 11, legs=legs_of("RG", "A")), frames_of({"1": 11, "2": 2}))
    assert sums["clip_id"].to_list() == ["1", "2"]
    found = dict(zip(LETTERS, sums["sums"][0], strict=True))
    assert (found["R"], found["G"], found["A"]) == (pytest.approx(10 / 11), pytest.approx(10 / 11), 0.0)
    assert sums["sums"][1] is None


def test_scores_of_all_candidates() -> None:
    rings, frames = rings_of("1", 41, legs=legs_of("RG", "AB")), frames_of({"1": 41, "2": 9})
    lists = lists_of(["1", "2"], ["rga", "ragb", "rgyw", "rgab", "ywlm"])
    scores = published_scores(colour_sums(rings, frames), lists, PALETTE)
    assert scores["clip_id"].to_list() == ["1"] * 5 + ["2"] * 5
    assert scores["individual_id"][:5].to_list() == ["rga", "ragb", "rgyw", "rgab", "ywlm"]
    full = round(40 / 41, 9)
    assert scores["score"].to_list() == [None, full, round(20 / 41, 9), full, 0.0] + [None] * 5
