"""Figures of soundscapes: the numbers drawn, nothing over anything, frames with little in them, hundreds of species."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from drawn import by_gid, check_texts, points, words

from birdlab import style
from birdlab.figures import soundscapes, soundscapes_heat, soundscapes_species
from birdlab.metrics import metric_frame
from birdlab.soundscapes.published import published

sys.path.insert(0, str(Path(__file__).parent))
import made_sound_frames as made

mpl.use("Agg")
NAMES = made.RUNS
PUBLISHED = published("birdclef2019")


@pytest.fixture(autouse=True)
def as_the_report_draws() -> Iterator[None]:
    import matplotlib.pyplot as plt

    with style.rc():
        yield
    plt.close("all")


def board(n: int, metrics: pl.DataFrame = PUBLISHED) -> pl.DataFrame:
    return soundscapes.board_frame(made.board(n), made.scores(n), metrics)


def pr(n_runs: int, n_species: int, n: int = 12) -> pl.DataFrame:
    classes = made.classes(n_runs, n_species)
    return soundscapes.pr_frame(made.points(classes), classes, n=n)


M = {"models": NAMES}
CASES = [
    ("species 6", soundscapes.fig_species, made.classes(4, 6), M),
    ("species 1", soundscapes.fig_species, made.classes(1, 1), M),
    ("species 40", soundscapes.fig_species, made.classes(4, 40), M),
    ("species 41", soundscapes.fig_species, made.classes(2, 41), M),
    ("species 659", soundscapes.fig_species, made.classes(4, 659), M),
    ("species 659 of nine", soundscapes.fig_species, made.classes(9, 659), M),
    ("board 4", soundscapes.fig_board, board(4), M),
    ("board 1", soundscapes.fig_board, board(1, metric_frame([])), M),
    ("board 9", soundscapes.fig_board, board(9), M),
    ("pr 12", soundscapes.fig_pr, pr(4, 60), M),
    ("pr of nine", soundscapes.fig_pr, pr(9, 5), M),
    ("pr 1", soundscapes.fig_pr, pr(1, 2, 1), M),
    ("calibration 4", soundscapes.fig_calibration, made.bins(4), M),
    ("calibration 1", soundscapes.fig_calibration, made.bins(1), M),
    ("where 6", soundscapes.fig_when_where, made.panels(6), {}),
    ("where 1", soundscapes.fig_when_where, made.panels(1), M),
    ("where none", soundscapes.fig_when_where, made.panels(0), {}),
    ("where of two runs", soundscapes.fig_when_where, pl.concat([made.panels(3, r) for r in NAMES[3:5]]), {"run": NAMES[3]}),
    ("where, no hours", soundscapes.fig_when_where, made.panels(4, hours=False), {}),
    ("where 60", soundscapes.fig_when_where, made.panels(60), {}),
    ("audit 6", soundscapes.fig_audit, made.months(6, 5), {}),
    ("audit 1", soundscapes.fig_audit, made.months(1, 1), M),
    ("audit two years", soundscapes.fig_audit, made.months(3, 24, start=11), {}),
    ("audit 60", soundscapes.fig_audit, made.months(60, 14), {}),
    ("instead 40", soundscapes.fig_instead, made.instead(40), {}),
    ("instead 2", soundscapes.fig_instead, made.instead(2), M),
    ("instead of two runs", soundscapes.fig_instead, pl.concat([made.instead(9, r) for r in NAMES[3:5]]), {"run": NAMES[3]}),
]  # fmt: skip


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize(("draw", "frame", "about"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_no_text_lies_over_another_or_leaves_the_drawing(
    draw: Any, frame: pl.DataFrame, about: Any, narrow: bool
) -> None:
    check_texts(draw(frame, narrow=narrow, **about), narrow=narrow)


ONE_OF_EACH = {draw: (frame, about) for _, draw, frame, about in reversed(CASES) if "run" not in about}


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("draw", ONE_OF_EACH, ids=lambda f: f.__name__)
def test_nothing_is_said_in_words(draw: Any, narrow: bool) -> None:
    frame, about = ONE_OF_EACH[draw]
    (said,) = words(draw(frame.clear(), narrow=narrow, **about))
    assert said.endswith(".") and len(said.split()) > 3
    numbers = [c for c, kind in frame.schema.items() if kind == pl.Float64]
    ends = [c for c in numbers if c.endswith(("_lo", "_hi", "_pessimistic")) or c.startswith("at")]
    for undefined in (None, float("nan")):
        for columns in (numbers, ends):
            bare = frame.with_columns(pl.lit(undefined, dtype=pl.Float64).alias(c) for c in columns)
            assert words(draw(bare, narrow=narrow, **about))


BIG = ["species 40", "species 659", "board 9", "pr 12", "where 60", "audit 60", "instead 40"]


@pytest.mark.parametrize(("draw", "frame", "about"), [c[1:] for c in CASES if c[0] in BIG], ids=BIG)
def test_pictures_are_small(draw: Any, frame: pl.DataFrame, about: Any) -> None:
    for narrow in (False, True):
        assert len(style.png_bytes(draw(frame, narrow=narrow, **about))) < 62_000


# --- species ----------------------------------------------------------------------------------------------------------


def test_species_stand_by_the_ap_of_the_best_run() -> None:
    frame = made.classes(2, 6).with_columns(
        ap=pl.col("class_id").str.slice(4).str.to_integer(strict=False).fill_null(1) / 10
    )
    frame = frame.with_columns(ap=pl.when(pl.col("run") == NAMES[1]).then(pl.col("ap") / 2).otherwise("ap"))
    frame = frame.with_columns(ap_pessimistic=pl.col("ap") / 2)
    rows = soundscapes_species.tidied(frame, NAMES)
    assert soundscapes_species.lead_of(rows, NAMES) == NAMES[0]
    (axes,) = soundscapes.fig_species(frame, models=NAMES).axes
    assert [x for x, _ in points(axes, NAMES[0])] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    assert [x for x, _ in points(axes, NAMES[1])] == pytest.approx([0.25, 0.2, 0.15, 0.1, 0.05, 0.0])
    (tails,) = [c for c in axes.collections if c.get_gid() == f"{NAMES[0]} tail"]
    ends = np.array([s[:, 0] for s in tails.get_segments()])
    assert ends == pytest.approx(np.array([[v / 2, v] for v in (0.5, 0.4, 0.3, 0.2, 0.1)]))
    assert by_gid(axes, NAMES[1])[0].get_markerfacecolor() == style.model_colour(1).line


def test_equal_species_put_the_most_heard_at_the_ends() -> None:
    rows = pl.DataFrame(
        {"run": ["a"] * 5, "class_id": [*"vwxyz"], "n_rel": [1, 9, 1, 9, 4], "ap": [1.0, 1.0, 0.0, 0.0, None]}
    )
    assert soundscapes_species.ordered(rows, "a")["class_id"].to_list() == [*"wvxyz"]


def test_undefined_and_missing_species() -> None:
    frame = made.classes(1, 3).with_columns(
        pl.when(pl.col("class_id") == "spec000").then(None).otherwise("ap").alias("ap")
    )
    (axes,) = soundscapes.fig_species(frame, models=NAMES).axes
    assert len(points(axes, f"{NAMES[0]} undefined")) == 2 and len(points(axes, NAMES[0])) == 1
    assert "not defined" in words(axes.figure)
    assert soundscapes.fig_species(frame, models=["another"]).texts[0].get_text().startswith("No species")


def test_hundreds_of_species_are_a_strip_and_two_lists() -> None:
    frame = made.classes(4, 659)
    upper, below, best, last = soundscapes.fig_species(frame, models=NAMES).axes
    order = soundscapes_species.ordered(frame, NAMES[0])
    shown = points(upper, f"{NAMES[0]} all")
    assert [y for _, y in shown] == order["ap"].drop_nulls().to_list()
    n = soundscapes_species.N_ENDS
    assert [t.get_text() for t in best.get_yticklabels()] == order["class_id"].head(n).to_list()
    assert len(last.get_yticklabels()) == n and len(below.patches) > 30
    stretch = -(-659 // soundscapes_species.N_STRETCHES)
    by_place = (
        order.with_row_index("at").select("class_id", "at").join(frame.filter(run=NAMES[2]), on="class_id").sort("at")
    )
    assert points(upper, f"{NAMES[2]} all")[0][1] == pytest.approx(by_place["ap"].head(stretch).mean())
    by_another = soundscapes.fig_species(frame, models=NAMES, run=NAMES[3]).axes[0]
    falling = [y for _, y in points(by_another, f"{NAMES[3]} all")]
    assert falling == sorted(falling, reverse=True)


# --- board ------------------------------------------------------------------------------------------------------------


def test_board_frame_has_runs_then_published() -> None:
    frame = board(4)
    assert dict(frame.schema) == soundscapes.BOARD_FRAME
    assert frame["division"].to_list() == ["automatic"] * 3 + ["assisted"] + ["published"] * 2
    assert frame["cmap"].tail(2).to_list() == [0.356, 0.16] and frame["rmap"].tail(2).to_list() == [0.746, None]
    assert board(2, pl.DataFrame()).height == 2 and board(2, metric_frame([])).height == 2


def test_board_draws_both_rules_intervals_and_published() -> None:
    axes, right = soundscapes.fig_board(board(4), models=NAMES).axes
    assert points(axes, NAMES[0])[0][0] == pytest.approx(0.31)
    assert [x for x, _ in points(axes, f"{NAMES[0]} interval")] == pytest.approx([0.26, 0.37])
    assert points(axes, f"{NAMES[1]} pessimistic")[0][0] == pytest.approx(0.14)
    assert points(right, "best run")[0][0] == 0.746 and not by_gid(right, "best run of the second team")
    assert len(by_gid(axes, "published")) == 2 and by_gid(axes, NAMES[3])[0].get_color() != style.model_colour(0).line
    ys = [points(axes, n)[0][1] for n in (NAMES[0], NAMES[3], "best run")]
    assert ys == [1, 5, 7], "a head stands above each group"
    assert {"automatic", "assisted by people", "published, other recordings", "0.310", "–"} <= set(words(axes.figure))
    assert "automatic" not in words(soundscapes.fig_board(board(2, metric_frame([])), models=NAMES))


# --- precision and recall ---------------------------------------------------------------------------------------------


def test_chosen_are_the_ends_of_those_heard_enough() -> None:
    rows = [("a", f"s{i:02d}", i, i / 40) for i in range(40)]
    classes = pl.DataFrame(rows, schema=["run", "class_id", "n_rel", "ap"], orient="row")
    assert soundscapes.chosen(classes, 4) == ["s39", "s38", "s11", "s10"]
    assert soundscapes.chosen(classes, 3) == ["s39", "s38", "s10"] and soundscapes.chosen(classes, 1) == ["s39"]
    assert soundscapes.chosen(classes.head(12), 4) == ["s11", "s10", "s09", "s08"], "then those heard most"
    assert soundscapes.chosen(classes.clear(), 4) == [] and len(soundscapes.chosen(classes, 99)) == 40
    assert soundscapes.chosen(classes.with_columns(ap=pl.lit(float("nan"))), 4) == []


def test_curves_are_steps_whose_area_is_the_average_precision() -> None:
    classes = made.classes(1, 1)
    curve = pl.DataFrame({"run": NAMES[:1] * 2, "class_id": ["spec000"] * 2, "threshold": [0.9, 0.5], "precision": [1.0, 0.5],
                          "recall": [0.5, 1.0], "n_listed": [1, 4], "n_hit": [1, 2]})  # fmt: skip
    frame = soundscapes.pr_frame(curve, classes.with_columns(recall_at=0.5, precision_at=1.0, threshold=0.9))
    (axes,) = soundscapes.fig_pr(frame, models=NAMES).axes
    (line,) = by_gid(axes, NAMES[0])
    assert points(axes, NAMES[0]) == [(0, 1), (0.5, 1), (1, 0.5)] and line.get_drawstyle() == "steps-pre"
    assert points(axes, f"{NAMES[0]} at") == [(0.5, 1.0)]
    missed = curve.head(1).with_columns(threshold=1.0, precision=0.0, recall=0.0, n_hit=0)
    first = soundscapes.pr_frame(pl.concat([missed.cast(curve.schema), curve]), classes)
    assert points(soundscapes.fig_pr(first, models=NAMES).axes[0], NAMES[0])[0] == (0, 1), "no line along the axis"


def test_panels_of_species_are_in_the_order_chosen_also_without_a_curve() -> None:
    classes = made.classes(2, 30)
    names = soundscapes.chosen(classes, 6)
    curves = made.points(classes).filter(pl.col("class_id") != names[-1])
    frame = soundscapes.pr_frame(curves, classes, n=6)
    assert frame["class_id"].unique(maintain_order=True).to_list() == names
    figure = soundscapes.fig_pr(frame, models=NAMES)
    assert len(figure.axes) == 6 and not by_gid(figure.axes[-1], NAMES[0]) and by_gid(figure.axes[0], NAMES[1])
    assert f"heard in {classes.filter(class_id=names[0])['n_rel'].max():,}" in words(figure)


def test_calibration_takes_its_error_from_the_bins() -> None:
    frame = made.bins(3)
    figure = soundscapes.fig_calibration(frame, models=NAMES)
    part = frame.filter(run=NAMES[2]).drop_nulls("mean_score")
    weights = part["n"].to_numpy() / part["n"].sum()
    ece = float((weights * np.abs(part["mean_score"] - part["share_right"]).to_numpy()).sum())
    assert f"ECE {ece:.3f}" in words(figure) and "ECE 0.000" in words(figure)
    assert points(figure.axes[2], "bins") == list(part.select("mean_score", "share_right").iter_rows())
    assert len(by_gid(figure.axes[0], "interval")) == 9, "the last bin is empty"


# --- maps -------------------------------------------------------------------------------------------------------------


def patches(axes: Any, gid: str) -> list[Any]:
    return [p for p in axes.patches if p.get_gid() == gid]


def test_maps_of_score_and_count_hatch_what_was_not_recorded() -> None:
    over, cells, _, counts = soundscapes.fig_when_where(made.panels(3)).axes
    assert len(patches(cells, "nothing recorded")) == 1 and len(patches(cells, "cell")) == 2 * (24 - 2) + 4
    assert len(by_gid(cells, "no value")) == len(patches(cells, "undefined")) == 2, "hour 3 is silent"
    assert len(patches(over, "by column")) == 22, "hours 3 and 14 have no score"
    written = {t.get_text() for t in counts.texts} & set("123456789")
    assert written and max(int(t) for t in written) <= 9
    assert len(by_gid(counts, "by row")) == 3 and {"12", "24", "36"} <= {t.get_text() for t in counts.texts}


def test_the_run_is_named_where_there_are_several() -> None:
    both = pl.concat([made.panels(2, NAMES[0]), made.panels(2, NAMES[1])])
    assert NAMES[1] in words(soundscapes.fig_when_where(both, run=NAMES[1]))
    assert NAMES[0] in words(soundscapes.fig_when_where(both))
    assert NAMES[0] not in words(soundscapes.fig_when_where(made.panels(2)))
    assert len(words(soundscapes.fig_when_where(both, run="another"))) == 1


def test_what_is_left_out_is_said() -> None:
    told = words(soundscapes.fig_when_where(made.panels(60)))
    assert "35 more recorders, with fewer recordings, are not drawn." in told
    assert "unit59" in told and "unit0" not in told
    assert "Of 12 recordings the local hour is not known." in words(
        soundscapes.fig_when_where(made.panels(2, hours=False))
    )
    assert "35 more recorders, with fewer recordings, are not drawn." in words(
        soundscapes.fig_audit(made.months(60, 3))
    )


def test_audit_weighs_shares_by_segments_and_shows_gaps() -> None:
    rows = [
        ("a", "2003-11", 1, 0, 100, 1.0, 0.5, None),
        ("a", "2004-02", 1, 0, 300, 3.0, 0.1, None),
        (None, None, 1, 1, 0, 0.0, None, "no"),
    ]
    figure = soundscapes.fig_audit(pl.DataFrame(rows, schema=made.MONTHS, orient="row"))
    _, hours, _, silent = figure.axes
    assert [t.get_text() for t in hours.get_xticklabels()] == ["11\n2003", "12", "1\n2004", "2", "?"]
    assert [t.get_text() for t in hours.get_yticklabels()] == ["a", "not said"]
    assert "20 %" in {t.get_text() for t in silent.texts}, "(100 · 50 % + 300 · 10 %) / 400"
    assert "4.0" in {t.get_text() for t in hours.texts} and len(patches(silent, "undefined")) == 1
    assert "?: the local start is not known." in words(figure)


def test_many_cells_have_no_words() -> None:
    figure = soundscapes.fig_audit(made.months(20, 12))
    assert 20 * 12 > soundscapes_heat.MOST_WRITTEN
    assert {t.get_text() for t in figure.axes[1].texts} <= {"780", "760"}


def test_instead_begins_with_the_commonest_pair() -> None:
    (axes,) = soundscapes.fig_instead(made.instead(40)).axes
    assert len(patches(axes, "pair")) == 35
    found = words(axes.figure)
    assert found.count("20") >= 2 and "35 of 68 pairs; % of the row" in found
    assert any(t.get_rotation() == 90 and t.get_text() == "spec005" for t in axes.texts)
    none = made.instead(5).with_columns(share=pl.lit(None, pl.Float64))
    assert "–" in words(soundscapes.fig_instead(none))
    assert len(words(soundscapes.fig_instead(made.instead(5).with_columns(n_instead=pl.lit(0, pl.Int64))))) == 1
