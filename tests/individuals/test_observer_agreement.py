"""Two observers: kappa beside scikit-learn, intraclass correlations beside published numbers."""

from __future__ import annotations

import argparse
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from birdlab.errors import DataError, ParameterError
from birdlab.individuals.agreement import AGREEMENT, BINS, CONSTANT, agreement, both_coded, kappa
from birdlab.individuals.command_agreement import score_command
from birdlab.individuals.icc import NO_SPREAD, PERFECT, TOO_FEW, icc
from birdlab.readers.boris import EVENTS, read_boris

SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def events(*rows: tuple) -> pl.DataFrame:
    """Rows of video, bird, behaviour, start, end, kind."""
    out = [
        {k: None for k in EVENTS}
        | {"video_id": v, "individual_id": i, "behaviour": b, "start_s": s, "end_s": e, "kind": kind}
        for v, i, b, s, e, kind in rows
    ]
    return pl.DataFrame(out, schema=EVENTS, orient="row")


def test_published_intraclass_correlations():
    # Shrout and Fleiss (1979), table 2; intervals as statistical packages print them for it.
    found = icc(SHROUT_FLEISS)
    assert round(found["icc_2_1"], 2) == 0.29
    assert round(found["icc_3_1"], 2) == 0.71
    assert (round(found["icc_2_1_lo"], 3), round(found["icc_2_1_hi"], 2)) == (0.019, 0.76)
    assert (round(found["icc_3_1_lo"], 2), round(found["icc_3_1_hi"], 2)) == (0.34, 0.95)


def test_a_constant_difference_lowers_agreement_only():
    a = np.array([1.0, 2.0, 4.0, 7.0])
    found = icc(np.column_stack([a, a + 3]))
    assert found["icc_3_1"] == 1
    assert found["icc_2_1"] < 0.7
    assert (found["icc_3_1_lo"], found["reason"]) == (None, PERFECT)


@pytest.mark.parametrize(
    ("ratings", "reason"), [([[1, 2], [3, 4]], TOO_FEW), ([[2, 2]] * 4, NO_SPREAD), ([[2, 3]] * 4, NO_SPREAD)]
)
def test_undefined_intraclass_correlations(ratings, reason):
    found = icc(ratings)
    assert (found["icc_2_1"], found["icc_3_1"], found["reason"]) == (None, None, reason)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=12))
def test_intervals_hold_the_value(ratings):
    found = icc(ratings)
    for m in ("icc_2_1", "icc_3_1"):
        if found[f"{m}_lo"] is not None:
            assert found[f"{m}_lo"] <= found[m] + 1e-9
            assert found[f"{m}_hi"] >= found[m] - 1e-9
            assert found[m] <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_kappa_is_that_of_scikit_learn(pairs):
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    value, observed, expected = kappa(a, b)
    assert observed == pytest.approx(np.mean(a == b))
    if a.all() == b.all() and (a.all() or not a.any()) and (b.all() or not b.any()):
        assert value is None
        assert expected == 1
    else:
        assert value == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


def test_windows_by_hand():
    # Ten windows of 1 s. First: peck in 0, 2; sit [3, 6). Second: peck in 0, 5; sit [3, 5.5), which touches 5.
    a = events(
        ("v", "x", "peck", 0.4, 0.4, "point"),
        ("v", "x", "peck", 0.6, 0.6, "point"),
        ("v", "x", "peck", 2.0, 2.0, "point"),
        ("v", "x", "sit", 3.0, 6.0, "state"),
    )
    b = events(
        ("v", "x", "peck", 0.9, 0.9, "point"),
        ("v", "x", "peck", 5.0, 5.0, "point"),
        ("v", "x", "sit", 3.0, 5.5, "state"),
    )
    found = agreement(a, b, {"v": 10.0})
    assert dict(found.schema) == AGREEMENT
    peck, sit = (
        found.filter((pl.col("level") == "behaviour") & (pl.col("measure") == "kappa") & (pl.col("behaviour") == name))
        for name in ("peck", "sit")
    )
    assert peck.select("n", "n_a", "n_b", "n_both", "observed", "expected").row(0) == (10, 2, 2, 1, 0.8, 0.68)
    assert peck["value"][0] == pytest.approx((0.8 - 0.68) / 0.32)
    assert sit.select("n_a", "n_b", "n_both", "value").row(0) == (3, 3, 3, 1.0)
    everything = found.filter(pl.col("level") == "all")
    truth = np.zeros((2, 20), dtype=bool)
    truth[0, [0, 2, 13, 14, 15]] = truth[1, [0, 5, 13, 14, 15]] = True
    assert everything["value"][0] == pytest.approx(cohen_kappa_score(*truth))
    assert everything["reason"][0] == "one video: nothing can be said about another"
    rates = found.filter(pl.col("measure") == "icc_2_1")
    assert rates.select("behaviour", "n_a", "n_b", "reason").rows() == [("peck", 3, 2, TOO_FEW), ("sit", 1, 1, TOO_FEW)]


def test_intervals_over_videos_and_rates():
    times = {"v": (1.5, 4.5, 7.5, 9.5), "w": (2.5, 3.5), "u": (0.5, 1.5, 2.5, 5.5, 6.5, 8.5), "t": (4.5,)}
    a = events(*((v, "x", "peck", t, t, "point") for v, ts in times.items() for t in ts))
    b = events(*((v, "x", "peck", t, t, "point") for v, ts in times.items() for t in ts[: len(ts) - (v == "u")]))
    lengths = {"v": 60.0, "w": 60.0, "u": 120.0, "t": 60.0}
    found = agreement(a, b, lengths)
    pooled = found.filter(pl.col("level") == "all").row(0, named=True)
    assert pooled["n"] == 300
    assert pooled["lo"] < pooled["value"] < pooled["hi"] <= 1
    rates = found.filter(pl.col("measure") == "icc_2_1").row(0, named=True)
    assert rates["value"] == pytest.approx(icc([[4, 4], [2, 2], [3, 2.5], [1, 1]])["icc_2_1"])
    assert rates["lo"] is not None


def test_both_constant_is_undefined():
    full = events(("v", "x", "sit", 0.0, 10.0, "state"))
    found = agreement(full, full, {"v": 10.0}).filter(pl.col("level") == "all").row(0, named=True)
    assert (found["value"], found["expected"], found["reason"]) == (None, 1.0, CONSTANT)


def test_nothing_coded_and_other_videos():
    none = events()
    found = agreement(none, none, {"v": 10.0})
    assert found.select("measure", "value", "n").rows() == [("kappa", None, 0)]
    other = events(("w", "x", "peck", 1.0, 1.0, "point"))
    assert agreement(other, none, {"v": 10.0}).equals(found)


def test_birds_without_a_name_are_compared():
    a = events(("v", None, "alarm", 1.0, 1.0, "point"))
    found = agreement(a, a, {"v": 5.0}).filter(pl.col("level") == "individual").row(0, named=True)
    assert (found["individual_id"], found["value"], found["n"]) == (None, 1.0, 5)


def test_bins_give_no_rates():
    a = events(*(("v", bird, "peck", 1.0, 2.0, "bins") for bird in "xyz"))
    found = agreement(a, a, {"v": 5.0}).filter(pl.col("measure") == "icc_3_1").row(0, named=True)
    assert (found["value"], found["n_a"], found["reason"]) == (None, None, BINS)


def test_swapping_observers_changes_no_value():
    a = events(("v", "x", "peck", 1.0, 1.0, "point"), ("v", "y", "sit", 2.0, 7.3, "state"))
    b = events(("v", "x", "peck", 1.2, 1.2, "point"), ("v", "x", "peck", 4.2, 4.2, "point"))
    one, other = (agreement(*pair, {"v": 9.5}) for pair in ((a, b), (b, a)))
    assert one.drop("n_a", "n_b").equals(other.drop("n_a", "n_b"))


def test_a_window_must_be_above_0():
    with pytest.raises(ParameterError):
        agreement(events(), events(), {"v": 5.0}, window_s=0)


HEAD = (
    "Observation id\tMedia file\tTotal length\tFPS\tSubject\tBehavior\tModifiers\tBehavior type\tStart (s)\tStop (s)\n"
)


def export(folder, name: str, *rows: str, length: float = 10.0):
    path = folder / name
    path.write_text(HEAD + "".join(f"{name}\t{row.replace('LEN', str(length))}\n" for row in rows))
    return path


def test_only_common_videos_are_compared(tmp_path):
    a = export(tmp_path, "a.tsv", "n1.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1\t1")
    b = export(tmp_path, "b.tsv", "n1.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1.5\t1.5", length=10.04)
    lengths, notices = both_coded(read_boris(a), read_boris(b))
    assert (lengths, notices.height) == ({"n1": 10.04}, 0)
    other = export(tmp_path, "c.tsv", "n2.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1\t1")
    with pytest.raises(DataError, match="a video that both coded"):
        both_coded(read_boris(a), read_boris(other))
    longer = export(tmp_path, "d.tsv", "n1.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1\t1", length=20)
    with pytest.raises(DataError, match="Are they the same video"):
        both_coded(read_boris(a), read_boris(longer))


def test_command(tmp_path, capsys):
    a = export(tmp_path, "a.tsv", "n1.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1\t1", "n1.mp4\tLEN\t25\tx\tsit\t\tSTATE\t2\t4")
    b = export(tmp_path, "b.tsv", "n1.mp4\tLEN\t25\tx\tpeck\t\tPOINT\t1.5\t1.5")
    args = argparse.Namespace(first=a, second=b, window=1.0, length=None, video=None, subject=None, json=True)
    assert score_command(args) == 0
    report = json.loads(capsys.readouterr().out)
    assert [r["value"] for r in report["agreement"] if r["level"] == "behaviour"][:2] == [1.0, 0.0]
    args.json = False
    score_command(args)
    out = capsys.readouterr().out
    assert "1 video of 10 s" in out
    args.second = tmp_path / "none.tsv"
    with pytest.raises(DataError, match="no such file"):
        score_command(args)
