"""Faults of re-identification and rings that were found by computing the numbers again in another way."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from birdlab.chapters import reid_words as say
from birdlab.chapters.reid import MEASURE_COLUMNS, measure_table
from birdlab.individuals.reid.open_set import choose_threshold
from birdlab.individuals.reid.outcomes import outcomes_of_similarity
from birdlab.individuals.rings.called import called, called_rows
from birdlab.individuals.rings.codes import Code, Palette
from birdlab.individuals.rings.decide import posterior
from birdlab.individuals.rings.exact import exact_marginals
from birdlab.individuals.rings.free import leg_strata
from birdlab.individuals.rings.joint import marginals
from birdlab.individuals.rings.likelihood import Settings, log_likelihoods, temperatures
from birdlab.individuals.rings.study_made import sure_rings
from birdlab.metrics import metric_frame, metric_row
from birdlab.readers.embeddings import Embedded

LETTERS = "ABCGLMOPRSWY"
PALETTE = Palette.of({letter: letter for letter in LETTERS})


@pytest.mark.parametrize("n", [1, 2, 9, 100, 144])
def test_strata_stand_for_every_leg_once(n):
    place, share = leg_strata(n)
    assert share.sum() == pytest.approx(1) and (np.diff(place) > 0).all() and place[-1] < n


@pytest.mark.parametrize(
    ("legs", "frames"), [(["R"], 1), (["R"], 10), (["RG"], 1), (["RG", "AB"], 1), (["RG", "AB"], 10)]
)
@pytest.mark.parametrize("sure", [0.5, 0.95])
def test_a_bird_that_is_not_on_the_list_counts_all_codes_it_may_wear(legs, frames, sure):
    """Few or unsure rings fit many codes a little: the likeliest alone were a fiftieth of what they weigh together."""
    rings = sure_rings({"c": legs}, PALETTE, n_frames=frames)
    soft = [[(1 - sure) / 11 if p < 0.5 else sure for p in row] for row in rings["probabilities"]]
    rings = rings.with_columns(pl.Series("probabilities", soft))
    pairs = list(itertools.product(LETTERS, repeat=2))
    codes = {"".join(a + b): Code(a, b) for a in pairs for b in pairs}
    found = log_likelihoods(rings, codes, palette=PALETTE)
    settings = Settings()
    every = np.exp(temperatures(frames, settings.dependence) * found.log_likelihood[0])
    names = ["RGAB", "WYAP", "OOBB"]
    lists = pl.DataFrame({"gallery": "all", "clip_id": "c", "individual_id": names, "code": names})
    said = posterior(found, lists, settings=settings)
    known = (1 - settings.unknown_prior) / 3 * every[[list(codes).index(n) for n in names]].sum()
    unknown = settings.unknown_prior * every.mean()
    assert np.exp(said.clips["log_unknown"].item()) == pytest.approx(unknown / (known + unknown), rel=0.12)


def test_a_validation_clip_and_its_copy_without_its_bird_have_one_score():
    """The copy is asked in another row of the product: a last bit of difference let a threshold pass between the two."""
    rng = np.random.default_rng(9)
    n, birds, size = 60, 12, 29
    vectors = rng.normal(size=(n + 40, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"b{i:02d}" for i in range(birds)]
    clips = [f"c{i}" for i in range(n + 40)]
    queries = pl.DataFrame(
        {
            "query_id": clips[:n], "clip_id": clips[:n], "video_id": "v", "split": "open", "is_known": True,
            "individual_id": [names[i] for i in rng.integers(0, birds, n)], "role": ["validation", "query"] * (n // 2),
        }
    )  # fmt: skip
    gallery = pl.DataFrame({"clip_id": clips[n:], "individual_id": [names[i % birds] for i in range(40)]})
    found = outcomes_of_similarity("m", "open", queries, gallery, Embedded(clips, vectors, [], {}))
    plain = found.filter((pl.col("role") == "validation") & pl.col("is_known"))
    copy = found.filter((pl.col("role") == "validation") & ~pl.col("is_known"))
    assert plain.height == copy.height == n // 2
    wrong = plain["answer"] != plain["individual_id"]
    assert wrong.sum() > 20 and (plain["score"] == copy["score"]).filter(wrong).all()
    first = outcomes_of_similarity("m", "open", queries.reverse(), gallery, Embedded(clips, vectors, [], {}))
    assert first.sort("query_id")["ap_clip"].to_list() == pytest.approx(found.sort("query_id")["ap_clip"].to_list())


def test_the_lowest_of_thresholds_that_are_equally_good_stands():
    """Sums of equal shares can differ in their last bit."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        n_known, n_unknown = rng.integers(1, 15, 2)
        score, known = rng.integers(0, 8, n_known + n_unknown) / 7.0, np.arange(n_known + n_unknown) < n_known
        found = choose_threshold(pl.DataFrame({"role": "validation", "is_known": known, "score": score}))
        steps = [*sorted(set(score)), np.inf]
        kinds = ((score >= s, score < s) for s in steps)
        value = [
            Fraction(int(a[known].sum()), int(n_known)) + Fraction(int(b[~known].sum()), int(n_unknown))
            for a, b in kinds
        ]
        assert found.value == steps[value.index(max(value))] and found.balanced_accuracy == pytest.approx(
            float(max(value)) / 2
        )


def test_every_share_of_the_chapter_stands_beside_its_chance():
    about = {"model": "m", "group": "closed", "level": "all", "n": 9}
    metrics = metric_frame(
        metric_row(**about, metric=metric, method=f"{over}; new individuals", value=0.9, chance=chance)
        for metric, over, chance in (
            ("top1", "micro", 0.1), ("top1", "macro", 0.2), ("top5", "micro", 0.5), ("map_individual", "micro", 0.3),
            ("map_clip", "micro", 0.4),
        )
    )  # fmt: skip
    row = measure_table(metrics, ["m"], "closed").row(0, named=True)
    found = {name.removesuffix("_chance"): row[name] for name in MEASURE_COLUMNS if name.endswith("_chance")}
    assert found == {"top1": 0.1, "top5": 0.5, "map_individual": 0.3, "map_clip": 0.4, "top1_macro": 0.2}
    assert "guessing: 10 % and 50 %" in say.measures_title(metrics, ["m"], "closed")
    told = say.headlines(metrics, ["m"])[0]
    assert told["detail"] == "guessing gives 10 %" and told["reference"] == 10 and told["scale"] == (0, 100)


def test_chance_of_the_clips_that_are_named_is_theirs():
    rows = pl.DataFrame(
        {
            "matcher": "birdlab", "assignment": "argmax", "gallery": "all", "video_id": ["v", "v", "w"], "truth": "a",
            "is_named": [True, True, False], "is_right": [True, False, False], "best_right": False,
            "chance": [0.5, 0.25, 0.1], "n_candidates": [2, 4, 10], "n_tied": 0, "n_with_rings": 1,
        }
    )  # fmt: skip
    row = called(rows).row(0, named=True)
    assert row["chance_of_named"] == 0.375 and row["chance"] == pytest.approx(0.85 / 3)
    assert next(r for r in called_rows(called(rows)) if r["metric"] == "rings_right_of_named")["chance"] == 0.375


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("missing", [0, 1])
def test_posteriors_of_three_and_more_birds_of_one_frame_are_exact(n, missing):
    """Belief propagation alone was off by up to .3 for three birds and .7 for four."""
    rng = np.random.default_rng(n)
    for _ in range(12):
        birds = int(rng.integers(1, 5))
        with np.errstate(divide="ignore"):
            table = np.log(np.where(rng.random((n, birds + 1)) < 0.15, 0, rng.dirichlet(np.full(birds + 1, 0.2), n)))
        table[:, -1] = np.log(0.05)
        apart = ~np.eye(n, dtype=bool)
        if missing:
            apart[0, -1] = apart[-1, 0] = False
        share = np.zeros_like(table)
        for names in itertools.product(range(birds + 1), repeat=n):
            if not any(apart[i, j] and names[i] == names[j] != birds for i in range(n) for j in range(i)):
                share[range(n), names] += np.exp(sum(table[i, name] for i, name in enumerate(names)))
        share /= share.sum(axis=1, keepdims=True)
        assert np.exp(exact_marginals(table, apart)) == pytest.approx(share, abs=1e-12)
        assert np.exp(marginals(table, apart)) == pytest.approx(share, abs=1e-9)


def test_certain_claims_on_one_bird_and_large_groups_stay_numbers():
    sure = np.full((5, 8), -700.0)
    sure[:, 0] = 0.0
    said = np.exp(marginals(sure, ~np.eye(5, dtype=bool)))
    assert np.isfinite(said).all() and said.sum(axis=1) == pytest.approx(1) and said[:, 0] == pytest.approx(0.2)
    many = np.log(np.random.default_rng(0).dirichlet(np.ones(30), 14))
    assert exact_marginals(many, ~np.eye(14, dtype=bool)) is None
    assert np.exp(marginals(many, ~np.eye(14, dtype=bool))).sum(axis=1) == pytest.approx(1)
