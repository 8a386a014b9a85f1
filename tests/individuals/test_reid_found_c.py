"""Faults of re-identification and rings that were found by computing the numbers again in another way."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from birdlab.individuals.rings.codes import Code, Palette
from birdlab.individuals.rings.decide import posterior
from birdlab.individuals.rings.free import leg_strata
from birdlab.individuals.rings.likelihood import Settings, log_likelihoods, temperatures
from birdlab.individuals.rings.study_made import sure_rings

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
