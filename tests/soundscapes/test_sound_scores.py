"""c-mAP and r-mAP under four rules for ties: against exact fractions, scikit-learn and printed values."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError
from birdlab.soundscapes import scores as module
from birdlab.soundscapes.coded import Coded, Grid, Truth
from birdlab.soundscapes.scores import RULES, class_scores, run_scores, segment_scores
from birdlab.soundscapes.truth import code_truth

CLASSES = ("crow", "jay", "wren", "robin")
LETTERS = st.integers(0, len(CLASSES) - 1)


def coded(rows: list[tuple[int, int, float]], n_classes: int = len(CLASSES)) -> Coded:
    """A run from rows of segment, class, probability, in their order within each class."""
    by_class = sorted(rows, key=lambda row: row[1])
    seg, cls, score = (
        np.array([row[i] for row in by_class], dtype=d) for i, d in enumerate((np.int32, np.int32, float))
    )
    starts = np.searchsorted(cls, np.arange(n_classes + 1))
    return Coded("run", seg, cls, score, starts)


def truth_of(pairs: set[tuple[int, int]], n_segments: int) -> Truth:
    """A truth from pairs of segment and class on one recording."""
    by_class = sorted((c, s) for s, c in pairs)
    seg = np.array([s for _, s in by_class], np.int32)
    grid = Grid(("a",), np.array([0, n_segments]), np.array([True]))
    return Truth(grid, CLASSES, seg, np.array([c for c, _ in by_class], np.int32))


def by_order(order: list[bool], n_rel: int) -> Fraction:
    """AveP of a list of right and wrong, from the definition."""
    hits, total = 0, Fraction(0)
    for k, is_right in enumerate(order, 1):
        if is_right:
            hits += 1
            total += Fraction(hits, k)
    return total / n_rel


def brute(listed: list[tuple[float, bool]], n_rel: int) -> tuple[Fraction, ...]:
    """The four rules, row by row, in the order of ``RULES``."""
    best = [r for _, r in sorted(listed, key=lambda x: (-x[0], not x[1]))]
    worst = [r for _, r in sorted(listed, key=lambda x: (-x[0], x[1]))]
    expected, step, above, right = Fraction(0), Fraction(0), 0, 0
    for value in sorted({v for v, _ in listed}, reverse=True):
        tie = [r for v, r in listed if v == value]
        m, r = len(tie), sum(tie)
        if r:
            slope = Fraction(r - 1, m - 1) if m > 1 else Fraction(0)
            expected += sum(Fraction(r, m) * (right + 1 + j * slope) / (above + j + 1) for j in range(m))
            step += r * Fraction(right + r, above + m)
        above, right = above + m, right + r
    return by_order(best, n_rel), by_order(worst, n_rel), expected / n_rel, step / n_rel


@st.composite
def studies(draw, n_segments: int = 9):
    """Pairs that are heard, and rows listed, with many equal probabilities, some for segments past the end."""
    pairs = draw(st.sets(st.tuples(st.integers(0, n_segments - 1), LETTERS), max_size=20))
    cells = draw(st.sets(st.tuples(st.integers(0, n_segments + 1), LETTERS), max_size=30))
    values = draw(st.lists(st.sampled_from([0.0, 0.1, 0.30000000000000004, 0.3, 0.5, 1.0]), min_size=30, max_size=30))
    return truth_of(pairs, n_segments), [(s, c, v) for (s, c), v in zip(sorted(cells), values, strict=False)], pairs


@settings(max_examples=150, deadline=None)
@given(studies())
def test_every_rule_equals_exact_fractions(study):
    truth, rows, pairs = study
    run = coded(rows)
    for row in class_scores(truth, run).iter_rows(named=True):
        c = CLASSES.index(row["class_id"])
        listed = [(v, (s, c) in pairs) for s, d, v in rows if d == c]
        assert (row["n_rel"], row["n_listed"]) == (sum(d == c for _, d in pairs), len(listed))
        assert row["n_hit"] == sum(r for _, r in listed)
        assert [row[k] for k in RULES] == pytest.approx([float(x) for x in brute(listed, row["n_rel"])], abs=1e-14)
    found = segment_scores(truth, run)
    assert found["segment"].to_list() == sorted({s for s, _ in pairs})
    for row in found.iter_rows(named=True):
        listed = [(v, (s, d) in pairs) for s, d, v in rows if s == row["segment"]]
        assert (row["n_listed"], row["n_hit"]) == (len(listed), sum(r for _, r in listed))
        assert [row[k] for k in RULES] == pytest.approx([float(x) for x in brute(listed, row["n_rel"])], abs=1e-14)


@settings(max_examples=60, deadline=None)
@given(studies(), st.randoms(use_true_random=False))
def test_no_bit_depends_on_the_order_of_lines(study, random):
    truth, rows, _ = study
    first = run_scores(truth, coded(rows))
    random.shuffle(rows)
    second = run_scores(truth, coded(rows))
    assert first["classes"].equals(second["classes"]) and first["segments"].equals(second["segments"])
    for frame in (first["classes"], first["segments"]):
        order = frame.filter((pl.col("ap_pessimistic") > pl.col("ap_expected") + 1e-12) | (pl.col("ap_expected") > pl.col("ap") + 1e-12))  # fmt: skip
        assert order.height == 0


@settings(max_examples=60, deadline=None)
@given(studies())
def test_both_ways_of_counting_classes_of_a_segment_agree(study):
    truth, rows, _ = study
    run = coded(rows)
    kept = module._COMPARED
    try:
        found = []
        for module._COMPARED in (0, 10**9):
            found.append(segment_scores(truth, run))
    finally:
        module._COMPARED = kept
    assert found[0].equals(found[1])


@settings(max_examples=60, deadline=None)
@given(studies())
def test_step_is_scikit_learns_where_that_is_defined(study):
    from sklearn.metrics import average_precision_score

    truth, rows, pairs = study
    for row in class_scores(truth, coded(rows)).filter(pl.col("n_hit") > 0).iter_rows(named=True):
        c = CLASSES.index(row["class_id"])
        y = [(s, c) in pairs for s, d, _ in rows if d == c]
        theirs = average_precision_score(y, [v for _, d, v in rows if d == c])
        assert row["ap_step"] == pytest.approx(theirs * row["n_hit"] / row["n_rel"], abs=1e-14)


@pytest.mark.parametrize(("right", "wrong"), [(1, 3), (2, 2), (3, 1), (2, 3)])
def test_expected_is_the_mean_over_all_orders(right, wrong):
    tie = [True] * right + [False] * wrong
    orders = [by_order([False, *order, True], right + 1) for order in permutations(tie)]
    rows = [(9, 0, 0.9), *((i, 0, 0.5) for i in range(len(tie))), (8, 0, 0.1)]
    truth = truth_of({(i, 0) for i in range(right)} | {(8, 0)}, 10)
    assert class_scores(truth, coded(rows))["ap_expected"][0] == pytest.approx(float(sum(orders) / len(orders)), 1e-14)


def test_step_may_lie_above_the_official_value():
    # A wrong one at 0.9, two right ones tied at 0.5: every order gives 7/12, the end of the tie 2/3.
    row = class_scores(truth_of({(0, 0), (1, 0)}, 3), coded([(2, 0, 0.9), (0, 0, 0.5), (1, 0, 0.5)])).row(0, named=True)
    assert [row[k] for k in RULES] == pytest.approx([7 / 12, 7 / 12, 7 / 12, 2 / 3])


@pytest.mark.parametrize("n", [10, 10_000])
def test_one_right_among_equals(n):
    # A question often asked of scikit-learn: best case by rule 1, worst 1/n, step 1/n.
    row = class_scores(truth_of({(3, 0)}, n), coded([(i, 0, 0.5) for i in range(n)])).row(0, named=True)
    assert row["ap"] == 1 and row["ap_pessimistic"] == row["ap_step"] == pytest.approx(1 / n)
    assert row["ap_expected"] == pytest.approx(sum(1 / k for k in range(1, n + 1)) / n)


def test_not_listed_is_not_a_prediction_of_zero():
    run = coded([(0, 0, 0.9), (1, 0, 0.4)])
    assert class_scores(truth_of({(0, 0), (3, 0)}, 6), run)["ap"][0] == 0.5


def test_long_ties_stay_exact():
    rng = np.random.default_rng(0)
    n = 20_000
    right = set(rng.choice(n, 700, replace=False).tolist())
    values = np.round(rng.random(n), 2)
    row = class_scores(truth_of({(s, 0) for s in right}, n), coded([(i, 0, float(v)) for i, v in enumerate(values)]))
    y = np.isin(np.arange(n), list(right))
    order = np.lexsort((~y, -values))
    ranks = np.flatnonzero(y[order]) + 1
    assert row["ap"][0] == pytest.approx(np.mean(np.arange(1, 701) / ranks), abs=1e-14)
    assert row["ap_pessimistic"][0] < row["ap_expected"][0] < row["ap"][0]


def test_scores_are_compared_as_doubles():
    # In float32 these two would be tied, and the wrong one would no longer be first.
    run = coded([(0, 0, 0.30000000001), (1, 0, 0.30000000002)])
    assert class_scores(truth_of({(0, 0)}, 2), run)["ap"][0] == 0.5


def test_no_species_at_all_is_undefined_with_its_reason():
    result = run_scores(truth_of(set(), 4), coded([(0, 0, 0.5)]))
    assert result["cmap"] is None and result["rmap_step"] is None and result["n_classes"] == 0
    assert result["reasons"]["cmap"] == "no species is heard in the ground truth"


def test_tie_gap_tells_a_rounded_run_from_a_ranking():
    truth = truth_of({(0, 0), (1, 1)}, 4)
    fine = run_scores(truth, coded([(0, 0, 0.9), (2, 0, 0.8), (1, 1, 0.5)]))
    tied = run_scores(truth, coded([(0, 0, 0.9), (2, 0, 0.9), (1, 1, 0.5)]))
    assert fine["warnings"] == [] and [(w["code"], w["n"]) for w in tied["warnings"]] == [("tie_gap", 1)]


# --- the truth ---------------------------------------------------------------


def spans(*rows: tuple[str, str, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["media_id", "class_id", "start_s", "end_s"], orient="row")


@pytest.mark.parametrize(
    ("start", "end", "segments"),
    [
        (47.4, 51.3, [9, 10]),
        (846.0, 846.3, [169]),
        (2442.0, 2470.7, list(range(488, 495))),
        (5.0, 5.0, []),
        (7.0, 7.0, [1]),
        (12.0, 3.0, []),
        (0.0, 5.0, [0]),
        (4.0, 5.0, [0]),
        (-2.0, 6.0, [0, 1]),
    ],
)
def test_spans_cover_segments(start, end, segments):
    assert code_truth(spans(("a", "wren", start, end))).seg.tolist() == segments


def test_truth_counts_repeats_once_and_silent_recordings():
    table = pl.DataFrame({"media_id": ["b", "a", "night"], "duration_s": [12.0, None, 20.0]})
    rows = spans(("a", "wren", 5, 10), ("a", "wren", 5, 10), ("a", "wren", 8, 9), ("b", "jay", 0, 30))
    truth = code_truth(rows, table, ["wren", "robin", "jay"])
    assert truth.grid.media == ("b", "a", "night")
    # What is annotated past the end of b (12 s: three segments) is part of the truth; a reaches to its last annotation.
    assert truth.grid.offsets.tolist() == [0, 6, 8, 12] and truth.grid.known.tolist() == [True, False, True]
    assert truth.n_rel.tolist() == [1, 0, 6] and truth.seg.tolist() == [7, 0, 1, 2, 3, 4, 5]


def test_segments_are_a_truth_too():
    rows = pl.DataFrame({"media_id": ["a", "a"], "start_s": [0, 15], "class_id": ["wren", "wren"]})
    assert code_truth(rows).seg.tolist() == [0, 3]


def test_what_is_not_in_the_lists_is_named_once():
    rows = spans(("a", "wrenn", 0, 5), ("a", "wrenn", 5, 10), ("x", "wren", 0, 5))
    with pytest.raises(DataError) as error:
        code_truth(rows, None, ["wren"], file="gt.csv")
    assert [(p.code, p.found, p.remedy) for p in error.value.problems] == [
        ("class_unknown", "'wrenn' in 2 annotations", "did you mean wren?")
    ]
    with pytest.raises(DataError, match="'x' in 1 annotations"):
        code_truth(rows, pl.DataFrame({"media_id": ["a"]}))


@pytest.mark.parametrize("end", [float("nan"), float("inf"), 1e12])
def test_spans_without_a_number_are_refused(end):
    with pytest.raises(DataError, match="annotation 1"):
        code_truth(spans(("a", "wren", 0, end)))
