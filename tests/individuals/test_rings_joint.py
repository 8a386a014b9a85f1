"""Birds of one frame are named together, posteriors are calibrated, and the simulation holds on made rings."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from birdlab.individuals.rings.calibrate import calibration, cross_fitted, fit_dependence
from birdlab.individuals.rings.codes import Palette
from birdlab.individuals.rings.decide import Posterior, calls, codes_of, match_birdlab, posterior
from birdlab.individuals.rings.forest import train_forest
from birdlab.individuals.rings.joint import assign, assign_jointly, marginals
from birdlab.individuals.rings.likelihood import Settings, log_likelihoods
from birdlab.individuals.rings.published import match_published
from birdlab.individuals.rings.study_made import (
    drawn_features,
    drawn_rings,
    joined,
    made_clips,
    made_lists,
    made_roster,
    simulated_rings,
)

PALETTE = Palette.of({letter: letter for letter in "ABCGLMOPRSWY"})
CASES = {c["id"]: c for c in json.loads((Path(__file__).parents[1] / "data/reid/corvid.json").read_text("utf-8"))}


def made_posterior(tables: dict[str, dict[str, float]]) -> Posterior:
    """Posteriors written down; what is missing to 1 is the unknown bird's."""
    birds = [("territory", c, b, np.log(p)) for c, row in tables.items() for b, p in row.items()]
    clips = [("territory", c, len(r), len(r), np.log(1 - sum(r.values())), True, 40) for c, r in tables.items()]
    names = ["gallery", "clip_id", "n_candidates", "n_coded", "log_unknown", "has_rings", "n_with_rings"]
    return Posterior(
        pl.DataFrame(birds, schema=["gallery", "clip_id", "individual_id", "log_posterior"], orient="row"),
        pl.DataFrame(clips, schema=names, orient="row"),
    )


def pairs_of(*pairs: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"clip_id": pl.String, "other_id": pl.String}, orient="row")


def named(found: Posterior, assignment: str = "joint", **options) -> dict[str, dict]:
    clips = found.clips.select("clip_id").unique().with_columns(n_frames=pl.lit(40))
    rows = calls(found, clips, assignment=assignment, settings=Settings(**options)).to_dicts()
    return {r["clip_id"]: r for r in rows}


def enumerated(table: np.ndarray, apart: np.ndarray) -> tuple[np.ndarray, float]:
    """Marginals over all assignments in which clips that overlap differ, and the best log product."""
    n, k = table.shape
    total, best = np.zeros((n, k)), -np.inf
    for which in itertools.product(range(k), repeat=n):
        if any(apart[i, j] and which[i] == which[j] != k - 1 for i in range(n) for j in range(i)):
            continue
        value = sum(table[i, w] for i, w in enumerate(which))
        best = max(best, value)
        for i, w in enumerate(which):
            total[i, w] += np.exp(value)
    return total / total.sum(axis=1, keepdims=True), best


def test_v03_the_surer_clip_keeps_the_contested_bird():
    found = made_posterior({"1": {"rgab": 0.98, "ywab": 0.01}, "2": {"rgab": 0.54, "ywab": 0.45}})
    joint = named(assign_jointly(found, pairs_of(("2", "1"))))
    assert {c: r["individual_id"] for c, r in joint.items()} == CASES["V03"]["text_implies"]
    assert joint["2"]["score"] == pytest.approx(0.955, abs=1e-3)
    alone = named(found, "argmax")
    assert alone["1"]["individual_id"] == alone["2"]["best"] == "rgab" and alone["2"]["individual_id"] is None


def test_v03_end_to_end():
    """Track 1 certain rgab; track 2 prefers rgab .6 to ywab .5, both half read."""
    rows = []
    for frame in range(40):
        for clip, first in (("1", {"R": 1.0}), ("2", {"R": 0.55, "Y": 0.45})):
            second = {"G": 1.0} if clip == "1" else {"G": 0.55, "W": 0.45}
            for i, (x, y, p) in enumerate([(10, 20, first), (10, 30, second), (60, 20, {"A": 1}), (60, 30, {"B": 1})]):
                vector = [float(p.get(c, 0)) for c in PALETTE.letters]
                rows.append((clip, frame, i, float(x), float(y), 10.0, 9.0, 1.0, vector))
    columns = ["clip_id", "frame_index", "ring", "x", "y", "width", "height", "score", "probabilities"]
    rings = pl.DataFrame(rows, schema=columns, orient="row")
    codes = CASES["V03"]["candidates"]
    lists = pl.DataFrame(
        [("territory", c, b, b) for c in "12" for b in codes],
        schema=["gallery", "clip_id", "individual_id", "code"],
        orient="row",
    )
    clips = pl.DataFrame({"clip_id": ["1", "2"], "n_frames": 40})
    found, _ = match_birdlab(rings, clips, lists, palette=PALETTE, together=pairs_of(("1", "2")))
    joint = found.filter(pl.col("assignment") == "joint")
    assert dict(joint.select("clip_id", "best").iter_rows()) == CASES["V03"]["text_implies"]
    alone = found.filter(pl.col("assignment") == "argmax")
    assert alone["best"].to_list() == ["rgab", "rgab"]


@pytest.mark.parametrize("seed", range(8))
def test_assignment_and_marginals_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    n, birds = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    p = rng.dirichlet(np.ones(birds + 1), n)
    table = np.log(p)
    apart = ~np.eye(n, dtype=bool)
    exact, best = enumerated(table, apart)
    answer = assign(table, apart)
    assert sum(table[i, a] for i, a in enumerate(answer)) == pytest.approx(best)
    taken = [a for a in answer if a != birds]
    assert len(set(taken)) == len(taken)
    found = np.exp(marginals(table, apart))
    assert found.sum(axis=1) == pytest.approx(np.ones(n))
    assert np.abs(found - exact).max() < (1e-9 if n == 2 else 0.12)


def test_marginals_of_a_chain_are_exact_and_its_ends_may_be_one_bird():
    rng = np.random.default_rng(4)
    table = np.log(rng.dirichlet(np.ones(4), 4))
    apart = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) == 1
    assert np.exp(marginals(table, apart)) == pytest.approx(enumerated(table, apart)[0], abs=1e-9)
    found = made_posterior({"1": {"a": 0.9, "b": 0.05}, "2": {"a": 0.3, "b": 0.6}, "3": {"a": 0.8, "b": 0.1}})
    joint = named(assign_jointly(found, pairs_of(("1", "2"), ("2", "3"))))
    assert [joint[c]["best"] for c in "123"] == ["a", "b", "a"]
    three = named(assign_jointly(found, pairs_of(("1", "2"), ("2", "3"), ("1", "3"))))
    assert three["3"]["individual_id"] is None or three["1"]["individual_id"] is None


def test_a_contest_without_a_winner_is_a_tie():
    found = made_posterior({"1": {"a": 0.49, "b": 0.49}, "2": {"a": 0.49, "b": 0.49}})
    joint = named(assign_jointly(found, pairs_of(("1", "2"))))
    for clip in "12":
        assert joint[clip]["individual_id"] is None and joint[clip]["n_tied"] == 1
        assert joint[clip]["reason"] == "2 birds fit the rings equally: a, b"


def test_two_clips_of_one_listed_bird_are_not_both_named():
    found = made_posterior({"1": {"a": 0.97}, "2": {"a": 0.9}})
    joint = named(assign_jointly(found, pairs_of(("1", "2"))), min_posterior=0.2)
    assert joint["1"]["individual_id"] == "a" and joint["2"]["individual_id"] is None


def test_clips_without_company_stay_as_they_are():
    found = made_posterior({"1": {"a": 0.9}, "2": {"a": 0.9}})
    for together in (None, pairs_of(), pairs_of(("1", "1")), pairs_of(("1", "gone"))):
        joint = assign_jointly(found, together)
        assert joint.birds["log_posterior"].to_list() == found.birds["log_posterior"].to_list()
        assert not joint.birds["is_assigned"].any() and not joint.clips["is_left_over"].any()


# Calibration.


def made(seeds: int = 2, videos: int = 60):
    rng = np.random.default_rng(11)
    roster = made_roster(rng, 60, PALETTE)
    rows = simulated_rings(PALETTE, noise=0.7, shared=0.7)
    return joined([made_clips(np.random.default_rng(s), roster, videos, rows, seed=s) for s in range(seeds)])


@pytest.fixture(scope="module")
def study():
    return made()


def test_a_fitted_dependence_lowers_log_loss_and_calibration_error(study):
    lists = made_lists(np.random.default_rng(0), study, 15)
    sure = Settings(dependence=0.0)
    evidence = log_likelihoods(study.rings, codes_of(lists, PALETTE), palette=PALETTE, settings=sure)
    fit = fit_dependence(evidence, lists, study.clips, settings=sure)
    assert 0.1 < fit.value < 2 and fit.log_loss < fit.log_loss_before
    crossed, table = cross_fitted(evidence, lists, study.clips, settings=sure)
    assert table.height == 5 and table["dependence"].is_between(0.1, 2).all()
    assert crossed.clips.height == lists["clip_id"].n_unique()
    errors = []
    for p in (posterior(evidence, lists, settings=sure), crossed):
        rows = calls(p, study.clips).join(study.clips.select("clip_id", truth="individual_id"), on="clip_id")
        rows = rows.with_columns(is_right=pl.col("best") == pl.col("truth"))
        errors.append(calibration(rows, cluster="truth").ece)
    assert errors[1] < errors[0] and errors[1] < 0.08


def test_too_few_clips_keep_the_default(study):
    lists = made_lists(np.random.default_rng(0), study, 5)
    evidence = log_likelihoods(study.rings, codes_of(lists, PALETTE), palette=PALETTE)
    fit = fit_dependence(evidence, lists, study.clips.head(4))
    assert fit.value == Settings().dependence and fit.reason == "4 clips with rings and a known bird; 20 are needed"


def test_calibration_by_hand_and_its_edges():
    rows = pl.DataFrame(
        {
            "score": [0.95, 0.85, 0.15, 1.0, None],
            "is_right": [True, False, False, True, None],
            "individual_id": ["a", "b", "a", "c", "c"],
        }
    )
    found = calibration(rows)
    # bins: [.1,.2) 0 v .15; [.8,.9) 0 v .85; [.9,1] 1 v .975
    assert found.ece == pytest.approx((0.15 + 0.85 + 2 * 0.025) / 4)
    assert found.bins["n"].to_list() == [1, 1, 2] and (found.n, found.n_left_out) == (4, 1)
    assert 0 <= found.lo <= found.ece <= found.hi <= 1
    nothing = calibration(rows.clear())
    assert nothing.ece is None and nothing.bins.is_empty() and nothing.reason == "nothing was counted"


# The simulation, small.


def test_on_made_rings_joint_is_no_worse_and_short_lists_are_easier(study):
    truth = study.clips.select("clip_id", truth="individual_id")
    right = {}
    for size in (2, 5, 15, 50):
        lists = made_lists(np.random.default_rng(size), study, size)
        found, _ = match_birdlab(study.rings, study.clips, lists, palette=PALETTE, together=study.together)
        rows = found.join(truth, on="clip_id")
        for assignment, part in rows.group_by("assignment"):
            right[assignment[0], size] = (part["best"] == part["truth"]).fill_null(False).mean()
        sure = rows.filter(pl.col("individual_id").is_not_null())
        assert (sure["individual_id"] == sure["truth"]).mean() > 0.85
    for assignment in ("argmax", "joint"):
        values = [right[assignment, size] for size in (2, 5, 15, 50)]
        assert values == sorted(values, reverse=True) and values[0] > 0.9
        assert all(value > 1.5 / size for value, size in zip(values[1:], (5, 15, 50), strict=True))
    assert np.mean([right["joint", s] - right["argmax", s] for s in (2, 5, 15, 50)]) >= 0


def test_drawn_clips_from_pictures_to_names():
    """Pictures, crops, histograms, forest, both matchers: a few clips of each."""
    features, letters = [], []
    for i, code in enumerate(made_roster(np.random.default_rng(1), 40, PALETTE)["code"]):
        found, places = drawn_features(np.random.default_rng([1, i]), code, missed=0.0, false=0.0)
        features.append(found[::6])
        letters += [place[5] for place in places[::6]]
    forest = train_forest(np.concatenate(features), letters, palette=PALETTE, trees=40)
    roster = made_roster(np.random.default_rng(2), 40, PALETTE)
    drawn = made_clips(np.random.default_rng(3), roster, 10, drawn_rings(forest.predict))
    lists = made_lists(np.random.default_rng(4), drawn, 10)
    prior = [n / sum(forest.counts) for n in forest.counts]
    found, _ = match_birdlab(
        drawn.rings, drawn.clips, lists, palette=PALETTE, together=drawn.together, prior=prior, unseen=forest.unseen
    )
    frames = drawn.rings.select("clip_id", "frame_index").unique(maintain_order=True)
    published = match_published(drawn.rings, frames, lists, PALETTE, gallery="all", pair_px=16)
    rows = pl.concat([found, published]).join(drawn.clips.select("clip_id", truth="individual_id"), on="clip_id")
    hit = (pl.coalesce("individual_id", "best") == pl.col("truth")).fill_null(False).mean()
    right = {(a, b): value for a, b, value in rows.group_by("matcher", "assignment").agg(hit).iter_rows()}
    assert right["birdlab", "joint"] >= right["birdlab", "argmax"] > 0.6
    assert right["birdlab", "argmax"] > right["published", "argmax"] > 0.1


def test_lists_without_the_bird_name_few(study):
    lists = made_lists(np.random.default_rng(1), study, 10, with_truth=False)
    found, _ = match_birdlab(study.rings, study.clips, lists, palette=PALETTE)
    assert found["individual_id"].is_not_null().mean() < 0.25
    sure = Settings(unknown_prior=0)
    always, _ = match_birdlab(study.rings, study.clips, lists, palette=PALETTE, settings=sure)
    assert always["individual_id"].is_not_null().mean() > found["individual_id"].is_not_null().mean()
