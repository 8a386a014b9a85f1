"""birdlab's matcher of colour rings: cases with known answers, the likelihood by enumeration, invariances, edges."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from birdlab import schemas
from birdlab.errors import DataError, ParameterError
from birdlab.individuals.rings.codes import Code, Palette, parse_code
from birdlab.individuals.rings.decide import calls, match_birdlab, posterior
from birdlab.individuals.rings.geometry import find_legs
from birdlab.individuals.rings.likelihood import Settings, log_likelihoods
from birdlab.individuals.rings.study_made import made_roster, sure_rings

PALETTE = Palette.of({letter: letter for letter in "ABCGLMOPRSWY"})
SMALL = Palette.of({letter: letter for letter in "ABG"})
CASES = {c["id"]: c for c in json.loads((Path(__file__).parents[1] / "data/reid/corvid.json").read_text("utf-8"))}


def listed(clips: dict[str, list[str]], gallery: str = "territory") -> pl.DataFrame:
    """Candidates whose name is their code."""
    rows = [(gallery, clip, code, code) for clip, codes in clips.items() for code in codes]
    return pl.DataFrame(rows, schema=["gallery", "clip_id", "individual_id", "code"], orient="row")


def named(
    rings: pl.DataFrame, candidates: pl.DataFrame, *, n_frames: int = 40, assignment: str = "argmax", **options
) -> list[dict]:
    clips = candidates.select(pl.col("clip_id").unique(maintain_order=True)).with_columns(n_frames=pl.lit(n_frames))
    options.setdefault("palette", PALETTE)
    found, _ = match_birdlab(rings, clips, candidates, **options)
    return found.filter(pl.col("assignment") == assignment).to_dicts()


def ring_rows(frames: list[list[tuple]], k: int) -> pl.DataFrame:
    """Rings of one clip: x, y, probabilities."""
    rows = [
        ("c", f, i, float(x), float(y), 10.0, 8.0, 1.0, list(p), None)
        for f, rings in enumerate(frames)
        for i, (x, y, p) in enumerate(rings)
    ]
    table = schemas.TABLES["ring_colours"]
    assert all(len(row[8]) == k for row in rows)
    return table.conform(pl.DataFrame(rows, schema=table.dtypes, orient="row"))


# Cases: the values that the published text implies.


@pytest.mark.parametrize("case", ["V01", "V01b"])
def test_a_doubled_colour_is_seen(case):
    rings = sure_rings({"1": ["RR", "AB"]}, PALETTE, n_frames=40)
    row = named(rings, listed({"1": CASES[case]["candidates"]}))[0]
    assert row["individual_id"] == CASES[case]["text_implies"]["1"] == "rrab"
    assert row["score"] > 0.9 and row["n_tied"] == 0


def test_v02_codes_that_differ_in_order_alone_tie_without_it():
    assert "must report a tie" in CASES["V02"]["text_implies"]
    rings = sure_rings({"1": ["OA", "OR"]}, PALETTE, n_frames=40, is_ordered=False)
    row = named(rings, listed({"1": CASES["V02"]["candidates"]}))[0]
    assert row["individual_id"] is None and row["best"] is None and row["n_tied"] == 2
    assert row["reason"] == "3 birds fit the rings equally: aoro, oaor, oroa"
    assert row["score"] == pytest.approx(row["second"]) and row["score"] == pytest.approx(1 / 3, abs=0.01)


def test_v02_the_order_tells_where_the_picture_does_and_the_way_it_faces_tells_left_from_right():
    rings = sure_rings({"1": ["OA", "OR"]}, PALETTE, n_frames=40)
    row = named(rings, listed({"1": CASES["V02"]["candidates"]}))[0]
    assert row["n_tied"] == 1 and row["reason"] == "2 birds fit the rings equally: oaor, oroa"
    for facing, bird in (("away", "oaor"), ("toward", "oroa")):
        facing_rings = rings.with_columns(facing=pl.lit(facing))
        assert named(facing_rings, listed({"1": CASES["V02"]["candidates"]}))[0]["individual_id"] == bird
    assert named(rings.with_columns(facing=pl.lit("left")), listed({"1": ["oaor", "oroa"]}))[0]["n_tied"] == 1


def test_v05_a_code_of_three_letters_is_a_candidate():
    rings = sure_rings({"1": ["RG", "A"]}, PALETTE, n_frames=40)
    row = named(rings, listed({"1": CASES["V05"]["candidates"]}))[0]
    assert row["individual_id"] == CASES["V05"]["text_implies"]["1"] == "rga" and row["score"] > 0.9
    both = named(rings, listed({"1": ["rga", "rgab", "r-ga"]}))[0]
    assert both["best"] == "rga" and both["score"] > both["second"]


def test_v07_a_colour_outside_the_palette_names_the_candidate_and_letter():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE)
    with pytest.raises(DataError) as error:
        named(rings, listed({"1": ["rgab", "xxab"]}))
    assert "naming the candidate" in CASES["V07"]["text_implies"]
    assert "xxab" in str(error.value) and "'X'" in str(error.value)
    with pytest.raises(DataError, match="'X'"):
        log_likelihoods(rings, {"xxab": Code(("X", "X"), ("A", "B"))}, palette=PALETTE)


def test_v08_frames_without_rings_do_not_lower_a_posterior():
    half = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=20)
    rows = [named(half, listed({"1": CASES["V08"]["candidates"]}), n_frames=n)[0] for n in (40, 20)]
    assert rows[0]["individual_id"] == CASES["V08"]["text_implies"]["1"] and rows[0]["score"] == rows[1]["score"] <= 1
    assert rows[0]["n_with_rings"] == 20 and rows[0]["n_frames"] == 40


def test_v04_and_v06_one_frame_is_enough_and_no_evidence_names_nobody():
    row = named(sure_rings({"1": ["RG", "AB"]}, PALETTE), listed({"1": ["ywab", "rgab"]}), n_frames=1)[0]
    assert row["individual_id"] == "rgab" and (row["n_frames"], row["n_with_rings"]) == (1, 1)
    flat = ring_rows([[(10, 20, [1 / 12] * 12), (10, 30, [1 / 12] * 12)]], 12)
    row = named(flat, listed({"c": ["ywab", "rgab"]}))[0]
    assert row["individual_id"] is None and row["n_tied"] == 1


def test_v09_pairs_do_not_depend_on_pixels():
    """Legs 30 px apart with rings of 10 px: one group for the published rule, two legs here."""
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=5).with_columns(x=pl.col("x") * 0.75)
    assert named(rings, listed({"1": ["ragb", "rgab"]}))[0]["individual_id"] == "rgab"


# The likelihood, counted by hand.


def enumerated(frame_rings: list[list[tuple[list[float], ...]]], ordered: bool, code: Code, s: Settings) -> float:
    """Likelihood of frames with up to two groups of rings by listing everything that each ring may be.

    ``frame_rings``: per frame two groups, per group ring ratios by colour (last one is any colour).
    """

    def of_leg(group, slots, is_ordered) -> float:
        total = 0.0
        for state in ("hidden", "seen"):
            weight = s.leg_hidden if state == "hidden" else 1 - s.leg_hidden
            there = () if state == "hidden" else slots
            # Each ring is one of the slots (each at most once) or false; -1 is false.
            for which in itertools.product(range(-1, len(there)), repeat=len(group)):
                real = [w for w in which if w >= 0]
                if len(set(real)) < len(real):
                    continue
                p = (1 - s.hidden) ** len(real) * s.hidden ** (len(there) - len(real))
                p *= s.clutter ** (len(group) - len(real))
                for ratio, w in zip(group, which, strict=True):
                    p *= ratio[there[w]] if w >= 0 else 1.0
                if len(real) == 2:  # the order of two real rings
                    right = real[0] < real[1]
                    p *= 0.5 if not is_ordered else 1 - s.order_error if right else s.order_error
                elif len(group) == 2 and len(real) == 1:  # a false ring is above or below
                    p *= 0.5
                total += weight * p
        return total

    def of_frame(one, two, is_ordered) -> float:
        total = 0.0
        for left, right in code.layouts_as_columns:
            total += 0.5 * (of_leg(one, left, is_ordered) * of_leg(two, right, is_ordered))
            total += 0.5 * (of_leg(one, right, is_ordered) * of_leg(two, left, is_ordered))
        return total

    log_p = 0.0
    for one, two in frame_rings:
        p = of_frame(one, two, ordered)
        if len(one) == 1 and len(two) == 1:
            p = (1 - s.regroup) * p + s.regroup * of_frame([*one, *two], [], False)
        elif sorted((len(one), len(two))) == [0, 2]:
            pair = one or two
            p = (1 - s.regroup) * p + s.regroup * of_frame(pair[:1], pair[1:], False)
        log_p += math.log(p)
    return log_p


class _Columns:
    """A code with a single layout, its letters as columns of the ratios."""

    def __init__(self, text: str, palette: Palette) -> None:
        left, right = text.upper().split("-")
        self.layouts_as_columns = [(tuple(map(palette.index, left)), tuple(map(palette.index, right)))]


def spelled_out(text: str) -> list[str]:
    """Every code that one with unknown colours may be."""
    choices = [("a", "b", "g") if c == "?" else (c,) for c in text]
    return ["".join(c) for c in itertools.product(*choices)]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("code", ["ab-ga", "aa-bg", "ab-g", "a-b", "a?-bb", "?b-?", "ab-"])
@pytest.mark.parametrize("sizes", [[(2, 2)], [(2, 1)], [(1, 1)], [(2, 0)], [(1, 0)], [(2, 2), (1, 0), (2, 1)]])
def test_likelihood_equals_enumeration(ordered, code, sizes):
    rng, s = np.random.default_rng(3), Settings(floor=0.1, clutter=0.07, hidden=0.3, leg_hidden=0.2, regroup=0.15)
    frames, ratios = [], []
    for n_one, n_two in sizes:
        p = rng.dirichlet(np.ones(3), n_one + n_two)
        ratio = np.c_[((1 - s.floor) * p + s.floor / 3) * 3, np.ones(len(p))]
        place = [(10, 20), (10 if ordered else 14, 30 if ordered else 20)][:n_one] + [
            (90, 20),
            (90 if ordered else 94, 30 if ordered else 20),
        ][:n_two]
        frames.append([(*at, q) for at, q in zip(place, p.tolist(), strict=True)])
        ratios.append((list(ratio[:n_one]), list(ratio[n_one:])))
    found = log_likelihoods(
        ring_rows(frames, 3), {code: parse_code(code, SMALL, individual=code)}, palette=SMALL, settings=s
    )
    each = [math.exp(enumerated(ratios, ordered, _Columns(c, SMALL), s)) for c in spelled_out(code)]
    assert found.log_likelihood[0, 0] == pytest.approx(math.log(np.mean(each)), rel=1e-12, abs=1e-12)


def test_prior_of_the_forest_is_divided_out():
    rings = ring_rows([[(0, 0, [0.5, 0.3, 0.2])]], 3)
    codes = {c: parse_code(c, SMALL, individual=c) for c in ("aa", "bb", "gg")}
    s = Settings(floor=1e-9, clutter=1e-12, leg_hidden=0)
    found = log_likelihoods(rings, codes, palette=SMALL, settings=s, prior=[0.5, 0.3, 0.2]).log_likelihood[0]
    assert found == pytest.approx([found[0]] * 3, abs=1e-6)  # the forest says no more than its training shares


def test_three_letters_are_the_mean_over_both_ways_to_split_them():
    rings = ring_rows([[(10, 20, [0.6, 0.3, 0.1]), (10, 30, [0.1, 0.8, 0.1]), (90, 20, [0.2, 0.2, 0.6])]], 3)
    codes = {c: parse_code(c, SMALL, individual=c) for c in ("abg", "ab-g", "a-bg")}
    value = dict(zip(codes, log_likelihoods(rings, codes, palette=SMALL).log_likelihood[0], strict=True))
    assert math.exp(value["abg"]) == pytest.approx((math.exp(value["ab-g"]) + math.exp(value["a-bg"])) / 2)
    assert value["ab-g"] > value["a-bg"]


def test_free_codes_give_the_mean_over_all_codes():
    """With three colours seven of nine legs stand for all: their mean is near that over all 81 codes."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3) * 0.3, 4).tolist()
    frame = [(10, 20, p[0]), (10, 30, p[1]), (90, 20, p[2]), (90, 30, p[3])]
    words = ["".join(w) for w in itertools.product("abg", repeat=4)]
    codes = {w: parse_code(w, SMALL, individual=w) for w in words}
    found = log_likelihoods(ring_rows([frame] * 3, 3), codes, palette=SMALL)
    every, some = np.exp(found.log_likelihood[0]).mean(), np.exp(found.log_free[0]) @ found.free_share
    assert found.log_free.shape == (1, 49) and found.free_share.sum() == pytest.approx(1)
    assert some == pytest.approx(every, rel=0.1)


# What must not matter.


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_order_of_candidates_rings_and_clips_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(12) * 0.3, 40)
    rows = [
        (
            f"c{i % 2}",
            i // 8,
            i % 8 // 2,
            rng.uniform(0, 80),
            rng.uniform(0, 40),
            10.0,
            9.0,
            rng.random(),
            p[i].tolist(),
            None,
        )
        for i in range(40)
    ]
    table = schemas.TABLES["ring_colours"]
    rings = table.conform(pl.DataFrame(rows, schema=table.dtypes, orient="row"))
    codes = made_roster(rng, 6, PALETTE)["code"].to_list()
    lists = listed({"c0": codes, "c1": codes[:3]})
    first = {r["clip_id"]: r for r in named(rings, lists)}
    again = {r["clip_id"]: r for r in named(rings.sample(fraction=1, shuffle=True, seed=1), lists.reverse())}
    for clip, row in first.items():
        other = again[clip]
        assert row["score"] == pytest.approx(other["score"], abs=1e-12)
        assert {k: v for k, v in row.items() if k not in ("score", "second")} == {
            k: v for k, v in other.items() if k not in ("score", "second")
        }


def test_a_larger_picture_says_the_same():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=3)
    large = rings.with_columns(pl.col("x", "y", "width", "height") * 7)
    lists = listed({"1": ["rgab", "grab", "ragb"]})
    assert named(rings, lists) == named(large, lists)


def test_posteriors_sum_to_one_with_the_unknown_bird():
    rng = np.random.default_rng(5)
    rings = ring_rows([[(10, 20, p), (10, 30, q)] for p, q in rng.dirichlet(np.ones(12), (5, 2)).tolist()], 12)
    codes = made_roster(rng, 20, PALETTE)["code"].to_list()
    evidence = log_likelihoods(rings, {c: parse_code(c, PALETTE, individual=c) for c in codes}, palette=PALETTE)
    found = posterior(evidence, listed({"c": codes, "none": codes[:4]}))
    for clip, n in (("c", 20), ("none", 4)):
        known = found.birds.filter(pl.col("clip_id") == clip)["log_posterior"].exp()
        unknown = math.exp(found.clips.filter(pl.col("clip_id") == clip)["log_unknown"].item())
        assert known.sum() + unknown == pytest.approx(1, abs=1e-12) and len(known) == n
    assert found.birds.filter(pl.col("clip_id") == "none")["log_posterior"].exp().to_list() == pytest.approx(
        [0.95 / 4] * 4
    )
    assert found.clips["has_rings"].to_list() == [True, False]


# Edges.


def test_any_colour_and_a_colour_never_learned():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=25)
    assert named(rings, listed({"1": ["rga?", "ywab"]}))[0]["individual_id"] == "rga?"
    assert named(rings, listed({"1": ["rga?", "rgab"]}))[0]["best"] == "rgab"
    # W was never learned: its rings get the probabilities of another colour, and may be anything.
    row = named(rings, listed({"1": ["rgaw", "ywab"]}), unseen=["W"])[0]
    assert row["individual_id"] == "rgaw"
    codes = {c: parse_code(c, PALETTE, individual=c) for c in ("rgaw", "rga?")}
    found = log_likelihoods(rings, codes, palette=PALETTE, unseen=["w", "Y"])
    assert found.unseen == ("W",) and found.log_likelihood[0, 0] == found.log_likelihood[0, 1]
    assert found.free_share.min() == pytest.approx(1e-4)  # of ten colours to the power of four


def test_a_bird_that_is_not_on_the_list_is_refused():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=25)
    row = named(rings, listed({"1": ["wgay", "wwcc", "oooo"]}))[0]
    assert row["individual_id"] is None and row["best"] == "wgay"
    assert row["reason"].startswith("a bird that is not on the list is likelier (")
    always = named(rings, listed({"1": ["wgay", "wwcc"]}), settings=Settings(unknown_prior=0))[0]
    assert always["individual_id"] == "wgay" and always["score"] > 0.99


def test_empty_list_one_candidate_no_rings_and_no_code():
    rings = sure_rings({"one": ["RG", "AB"], "empty": ["RG", "AB"], "uncoded": ["RG", "AB"]}, PALETTE)
    lists = pl.concat(
        [
            listed({"one": ["rgab"], "bare": ["rgab", "ywab"], "alone": ["rgab"]}),
            pl.DataFrame({"gallery": "territory", "clip_id": ["empty"], "individual_id": [None], "code": [None]}).cast(
                pl.String
            ),
            pl.DataFrame({"gallery": "territory", "clip_id": ["uncoded"], "individual_id": ["x"], "code": [None]}).cast(
                pl.String
            ),
        ]
    )
    rows = {r["clip_id"]: r for r in named(rings, lists)}
    assert rows["one"]["individual_id"] == "rgab" and rows["one"]["n_candidates"] == 1
    assert rows["empty"]["reason"] == "the list of candidates is empty" and rows["empty"]["n_candidates"] == 0
    assert rows["uncoded"]["reason"] == "no bird of the list wears a code on that day"
    assert rows["uncoded"]["n_candidates"] == 1
    bare = rows["bare"]
    assert bare["reason"] == "no ring was found" and bare["score"] is None and bare["best"] is None
    assert bare["n_tied"] == 1 and bare["n_with_rings"] == 0 and bare["n_frames"] == 40
    assert rows["alone"]["individual_id"] is None and rows["alone"]["n_tied"] == 0


def test_no_rings_at_all_and_no_clips_at_all():
    nothing = schemas.TABLES["ring_colours"].empty()
    rows = named(nothing, listed({"1": ["rgab", "ywab"]}))
    assert [r["reason"] for r in rows] == ["no ring was found"]
    assert named(nothing, listed({}).cast(pl.String)) == []


def test_two_birds_with_one_code_tie():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE, n_frames=25)
    lists = listed({"1": ["rgab", "ywab"]}).vstack(
        pl.DataFrame({"gallery": ["territory"], "clip_id": "1", "individual_id": "twin", "code": "rgab"})
    )
    row = named(rings, lists)[0]
    assert row["individual_id"] is None and row["n_tied"] == 1 and "rgab, twin" in row["reason"]


def test_a_bird_with_two_codes_on_an_unknown_day_has_their_mean():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE)
    lists = pl.DataFrame(
        {
            "gallery": "all",
            "clip_id": "1",
            "individual_id": ["a", "a", "b", "c"],
            "code": ["rgab", "ywab", "rgab", "ywab"],
        }
    )
    codes = {c: parse_code(c, PALETTE, individual=c) for c in ("rgab", "ywab")}
    found = posterior(log_likelihoods(rings, codes, palette=PALETTE), lists)
    p = dict(zip(found.birds["individual_id"], found.birds["log_posterior"].exp(), strict=True))
    assert p["a"] == pytest.approx((p["b"] + p["c"]) / 2)
    assert found.clips["n_candidates"].to_list() == [3]


def test_less_evidence_less_certainty_and_abstention():
    """One frame with one blurred ring names no bird; 25 sure frames do."""
    p = [0.4 if c == "R" else 0.6 / 11 for c in PALETTE.letters]
    rings = ring_rows([[(10, 20, p)]], 12)
    row = named(rings, listed({"c": ["rgab", "ywab", "ccoo"]}))[0]
    assert row["best"] == "rgab" and row["individual_id"] is None
    assert row["reason"] == f"posterior {round(row['score'], 2)} is below 0.8"
    sure = sure_rings({"c": ["RG", "AB"]}, PALETTE, n_frames=25)
    assert named(sure, listed({"c": ["rgab", "ywab", "ccoo"]}))[0]["score"] > row["score"]


def test_bad_probabilities_and_settings_are_said():
    rings = sure_rings({"1": ["RG", "AB"]}, PALETTE)
    with pytest.raises(DataError, match="expected 3 each"):
        log_likelihoods(rings, {}, palette=SMALL)
    bad = rings.with_columns(pl.lit([float("nan")] * 12).alias("probabilities"))
    with pytest.raises(DataError, match="not finite"):
        log_likelihoods(bad, {}, palette=PALETTE)
    with pytest.raises(ParameterError) as error:
        Settings(floor=0, unknown_prior=1, dependence=-1)
    assert {p.key for p in error.value.problems} == {"floor", "unknown_prior", "dependence"}


# Legs.


def test_legs_pairs_singles_and_what_is_left_over():
    p = [1 / 3] * 3
    frame = [(10, 20, p), (11, 30, p), (60, 21, p), (61, 31, p), (110, 20, p), (110, 30, p)]
    legs = find_legs(ring_rows([frame], 3))
    assert legs.n_extra.tolist() == [2] and (legs.rings >= 0).sum() == 4 and legs.is_ordered.all()
    near = find_legs(ring_rows([[(10, 20, p), (11, 30, p), (12, 39, p)]], 3))
    assert sorted((near.rings >= 0).sum(axis=2)[0].tolist()) == [1, 2]
    flat = find_legs(ring_rows([[(10, 20, p), (14, 22, p)]], 3))
    assert not flat.is_ordered[0, 0] and (flat.rings[0, 0] >= 0).all()
    beside = find_legs(ring_rows([[(10, 20, p), (24, 20, p)]], 3))
    assert (beside.rings >= 0).sum(axis=2)[0].tolist() == [1, 1]


def test_calls_of_no_clip_is_an_empty_table():
    evidence = log_likelihoods(schemas.TABLES["ring_colours"].empty(), {}, palette=PALETTE)
    found = posterior(evidence, listed({}).cast(pl.String))
    assert calls(
        found, pl.DataFrame({"clip_id": [], "n_frames": []}, schema={"clip_id": pl.String, "n_frames": pl.Int32})
    ).is_empty()
