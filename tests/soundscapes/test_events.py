"""Event F1 with a collar: against all assignments, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from birdlab.errors import ParameterError
from birdlab.soundscapes.coded import Coded, Grid, Truth
from birdlab.soundscapes.events import count_matches, event_scores, merge


def study(heard, said, lengths=(12, 12), beyond=None):
    """Truth and run from (class, recording, segment) and (class, recording, segment, probability)."""
    offsets = np.append(0, np.cumsum(lengths))
    grid = Grid(tuple("ab"), offsets, np.ones(2, dtype=bool))
    rows = sorted((c, offsets[m] + k) for c, m, k in heard)
    cls, seg = (np.array([r[i] for r in rows], dtype=np.int32) for i in (0, 1))
    truth = Truth(grid, ("wren", "crow"), seg, cls)
    places = sorted({(m, k) for _, m, k, _ in said if k >= lengths[m]})
    number = {p: offsets[-1] + i for i, p in enumerate(places)}
    rows = sorted((c, number.get((m, k), offsets[m] + k), p) for c, m, k, p in said)
    cls, seg = (np.array([r[i] for r in rows], dtype=np.int32) for i in (0, 1))
    score = np.array([r[2] for r in rows], dtype=float)
    where = np.array(places) if places and beyond is None else None
    return truth, Coded("run", seg, cls, score, np.searchsorted(cls, [0, 1, 2]), (), len(places), where)


def spans(c, *events, p=0.9):
    return [(c, m, k, p) for m, first, last in events for k in range(first, last + 1)]


def told(rows):
    return [r[:3] for r in rows]


def test_both_ends_must_be_near():
    true = spans(0, (0, 2, 4))
    for first, last, right in ((2, 4, 1), (1, 5, 1), (3, 3, 1), (2, 6, 0), (0, 4, 0), (5, 5, 0)):
        found = event_scores(*study(told(true), spans(0, (0, first, last))))
        assert found.classes["n_match"].to_list() == [right]
        assert found.f1_micro == right
    assert event_scores(*study(told(true), spans(0, (0, 1, 5))), collar_s=4.9).f1_micro == 0
    assert event_scores(*study(told(true), spans(0, (0, 2, 4))), collar_s=0).f1_micro == 1


def test_an_event_is_matched_once():
    # Two short ones said around one heard: one is right, one too many.
    found = event_scores(*study(told(spans(0, (0, 3, 3))), spans(0, (0, 2, 2), (0, 4, 4))))
    assert (found.precision, found.recall) == (0.5, 1.0)
    assert found.f1_micro == pytest.approx(2 / 3)


def test_the_end_of_a_recording_parts_events():
    heard = [(0, 0, 11), (0, 1, 0)]
    found = event_scores(*study(heard, [(0, 0, 11, 0.9), (0, 1, 0, 0.9)]))
    assert found.classes.select("n_true", "n_said", "n_match").row(0) == (2, 2, 2)
    # The last segment of one recording does not match the first of the next.
    assert event_scores(*study([(0, 0, 11)], [(0, 1, 0, 0.9)])).f1_micro == 0


def test_micro_and_macro():
    heard = told(spans(0, (0, 0, 0), (0, 4, 4), (0, 8, 8))) + told(spans(1, (1, 3, 4)))
    found = event_scores(*study(heard, spans(0, (0, 0, 0), (0, 4, 4), (0, 8, 8))))
    assert (found.f1_micro, found.f1_macro, found.n_classes) == (pytest.approx(6 / 7), 0.5, 2)
    assert found.classes.filter(class_id="crow")["precision"].item() is None
    assert "onset and offset both within 5 s" in found.method and "probability >= 0.5" in found.method


def test_a_class_only_said_counts_in_micro_alone():
    found = event_scores(*study(told(spans(0, (0, 0, 0))), spans(0, (0, 0, 0)) + spans(1, (1, 1, 1))))
    assert (found.f1_micro, found.f1_macro, found.n_classes) == (pytest.approx(2 / 3), 1.0, 1)


def test_thresholds_of_species_are_an_oracle():
    heard = told(spans(0, (0, 2, 4)) + spans(1, (1, 2, 4)))
    said = spans(0, (0, 2, 4), p=0.2) + spans(1, (1, 2, 4), p=0.9) + spans(1, (1, 8, 9), p=0.6)
    truth, run = study(heard, said)
    assert event_scores(truth, run).f1_micro == pytest.approx(2 * 1 / (2 + 2))
    best = event_scores(truth, run, threshold="best_f1")
    assert best.f1_micro == 1.0 and best.classes["threshold"].to_list() == [0.2, 0.9]
    assert best.method.endswith("same recordings") and "oracle" in best.method
    given_ = event_scores(truth, run, threshold={"wren": 0.2, "crow": None})
    assert given_.classes["n_said"].to_list() == [1, 0] and "oracle" not in given_.method
    assert given_.classes["reason"][1] == "no threshold: the species is never found"


def test_segments_past_the_grid_belong_to_their_recording():
    said = spans(0, (0, 10, 13))
    found = event_scores(*study(told(spans(0, (0, 10, 11))), said))
    assert found.classes.select("n_said", "n_match").row(0) == (1, 0)
    lost = event_scores(*study(told(spans(0, (0, 10, 11))), said, beyond=False))
    assert lost.classes.select("n_said", "n_match").row(0) == (3, 1)


def test_nothing_heard_nothing_said():
    found = event_scores(*study([], []))
    assert found[1:6] == (None, None, None, None, 0) and found.classes.height == 0
    assert event_scores(*study([(0, 0, 0)], [])).f1_micro == 0.0


@pytest.mark.parametrize("options", [{"collar_s": -1}, {"collar_s": float("inf")}, {"threshold": "best"}])
def test_options_that_cannot_be(options):
    with pytest.raises(ParameterError):
        event_scores(*study([(0, 0, 0)], []), **options)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from([0.0, 5.0, 7.0, 10.0, 30.0]))
def test_as_many_matches_as_possible(seed, collar):
    rng = np.random.default_rng(seed)
    both = []
    for _ in range(2):
        media, k = np.nonzero(rng.random((3, 15)) < rng.choice([0.2, 0.5, 0.7]))
        both.append(merge(media, k))
    true, said = both
    near = [
        [
            m == n and abs(a - b) * 5 <= collar and abs(x - y) * 5 <= collar
            for n, b, y in zip(*said, strict=True)
        ]
        for m, a, x in zip(*true, strict=True)
    ]  # fmt: skip
    graph = np.array(near, dtype=int).reshape(len(true[0]), len(said[0]))
    most = int((maximum_bipartite_matching(csr_array(graph)) >= 0).sum()) if graph.any() else 0
    assert count_matches(true, said, collar) == most
