"""Figures of individuals and behaviour: the numbers drawn, the words written, nothing over anything, and frames with little in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_frames as made
import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from drawn import by_gid, check_texts, points, words
from PIL import Image
from videos import number_of, write_video

from birdlab import style
from birdlab.errors import DataError
from birdlab.figures import application, application_lanes, behaviour, error_budget, sheet
from birdlab.figures.application_matrix import fig_co_occurrence
from birdlab.panels import clips
from birdlab.report.gallery import check_panels

mpl.use("Agg")
CASES = list(made.cases())


@pytest.fixture(autouse=True)
def as_the_report_draws() -> Iterator[None]:
    """Settings hold until a figure is drawn, as :func:`birdlab.report.show.show_figure` has it: fonts are chosen then."""
    import matplotlib.pyplot as plt

    with style.rc():
        yield
    plt.close("all")


def every_axes(figure: Any) -> list[Any]:
    found = list(figure.axes)
    return found + [child for axes in figure.axes for child in axes.child_axes if child not in found]


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize(("draw", "frame", "about"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_no_text_lies_over_another_or_leaves_the_drawing(
    draw: Any, frame: pl.DataFrame, about: Any, narrow: bool
) -> None:
    check_texts(draw(frame, narrow=narrow, **about), narrow=narrow)


ONE_OF_EACH = {draw: (frame, about) for _, draw, frame, about in reversed(CASES)}


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("draw", ONE_OF_EACH, ids=lambda f: f.__name__)
def test_nothing_is_said_in_words(draw: Any, narrow: bool) -> None:
    frame, about = ONE_OF_EACH[draw]
    assert draw(frame, narrow=narrow, **about).axes
    (said,) = words(draw(frame.clear(), narrow=narrow, **about))
    assert said.endswith(".") and len(said.split()) > 3
    numbers = [c for c, kind in frame.schema.items() if kind == pl.Float64]
    for undefined in (None, float("nan")):
        bare = frame.with_columns(pl.lit(undefined, dtype=pl.Float64).alias(c) for c in numbers)
        assert words(draw(bare, narrow=narrow, **about))


def test_names_may_hold_anything() -> None:
    odd = "a$b_{c}^<b>&% · t$ · m"
    frame = made.rates(2, 3).with_columns(pl.col("combination").replace({made.NAMES[0]: odd}))
    assert odd in words(application.fig_rates(frame, models=[odd, made.NAMES[1]]))
    frame = made.pck(2).with_columns(pl.col("model").replace({"heron": "$h_{n}$"}))
    assert any("$h_{n}$" in t for t in words(behaviour.fig_pck(frame, models=["$h_{n}$", "wren"])))


# --- rates ------------------------------------------------------------------------------------------------------------


def test_rates_draws_every_defined_row_and_people_in_every_panel() -> None:
    frame = pl.DataFrame({
        "combination": ["a · t · m"] * 3 + ["b · t · m"] * 2 + ["human"],
        "video_id": ["v"] * 6, "subject": [["x"], ["y"], ["z"], ["x"], ["y"], ["x"]],
        "truth": [1.0, 2.0, 3.0, 1.0, 2.0, 1.0], "predicted": [1.5, None, 2.0, 4.0, 0.0, 1.1],
    })  # fmt: skip
    models = ["a · t · m", "b · t · m", "absent · t · m"]
    figure = application.fig_rates(frame, models=models)
    first, second = figure.axes
    assert points(first, models[0]) == [(1.0, 1.5), (3.0, 2.0)]
    assert points(second, models[1]) == [(1.0, 4.0), (2.0, 0.0)]
    for axes in (first, second):
        assert points(axes, "human") == [(1.0, 1.1)]
        assert by_gid(axes, "human")[0].get_markerfacecolor() == "none"
        (line,) = by_gid(axes, "equal")
        assert list(line.get_xdata()) == list(line.get_ydata())
        assert axes.get_xlim() == axes.get_ylim() == first.get_xlim()
    assert by_gid(first, models[0])[0].get_markerfacecolor() == style.model_colour(0).line
    assert by_gid(second, models[1])[0].get_marker() != by_gid(first, models[0])[0].get_marker()
    assert {"n = 2, 1 undefined", "n = 2", "a person, the same videos"} <= set(words(figure))


def test_people_alone_have_a_panel_of_their_own() -> None:
    frame = made.rates(1, 2).filter(pl.col("combination") == "human")
    figure = application.fig_rates(frame, models=made.NAMES)
    assert len(figure.axes) == 1 and len(points(figure.axes[0], "human")) == frame.drop_nulls().height


def test_dense_points_are_pixels() -> None:
    frame = made.rates(1, 200)
    assert by_gid(application.fig_rates(frame, models=made.NAMES).axes[0], made.NAMES[0])[0].get_rasterized()


def test_birds_stand_by_their_mean_error() -> None:
    frame = pl.DataFrame({
        "combination": ["a · t · m"] * 5 + ["human"], "video_id": ["v", "w", "v", "w", "v", "v"],
        "subject": [["over"], ["over"], ["under"], ["under"], ["none"], ["under"]],
        "truth": [1.0, 1.0, 5.0, 5.0, 2.0, 5.0], "predicted": [2.0, 4.0, 4.0, 2.0, None, 5.5],
    })  # fmt: skip
    (axes,) = application.fig_error_by_individual(frame, models=["a · t · m"]).axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["over", "under", "none"]
    assert sorted(points(axes, "bird")) == [(-2.0, 1.0), (2.0, 0.0)]
    assert sorted(points(axes, "videos")) == [(-3.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (3.0, 0.0)]
    assert points(axes, "human") == [(0.5, 1.0)]
    assert float(by_gid(axes, "mean")[0].get_xdata()[0]) == 0.0
    assert [(t.get_text(), t.get_position()) for t in axes.texts if t.get_text() == "–"] == [("–", (0, 2))]


# --- together ---------------------------------------------------------------------------------------------------------


def test_the_matrices_are_symmetric_and_say_per_cent() -> None:
    frame = pl.DataFrame({
        "bird_a": ["x", "z", "x"], "bird_b": ["y", "x", "w"], "truth": [0.25, 0.5, None], "predicted": [0.2, 0.9, 0.1],
    })  # fmt: skip
    true, predicted, difference = fig_co_occurrence(frame).axes[:3]
    assert [t.get_text() for t in true.get_yticklabels()] == ["w", "x", "y", "z"]

    def cells(axes: Any) -> dict[tuple[int, int], str]:
        return {t.xy: t.get_text() for t in axes.texts if t.get_text().lstrip("−").isdigit()}

    assert cells(true) == {(1, 2): "25", (2, 1): "25", (1, 3): "50", (3, 1): "50"}
    assert cells(predicted) == {(0, 1): "10", (1, 0): "10", (1, 2): "20", (2, 1): "20", (1, 3): "90", (3, 1): "90"}
    assert cells(difference) == {(1, 2): "−5", (2, 1): "−5", (1, 3): "40", (3, 1): "40"}
    assert [p.get_hatch() for p in true.patches if p.get_gid() == "undefined"] == ["/////"]
    shades = [p.get_facecolor()[:3] for p in difference.patches if p.get_gid() == "pair"]
    assert shades[0][2] > shades[0][0], "too little leans to purple"
    assert shades[2][0] > shades[2][2], "too much leans to brown"


def test_equal_values_have_equal_shades_in_both_matrices() -> None:
    frame = pl.DataFrame({"bird_a": ["x"], "bird_b": ["y"], "truth": [0.6], "predicted": [0.6]})
    true, predicted, difference = fig_co_occurrence(frame).axes[:3]
    shade = [[p.get_facecolor() for p in axes.patches if p.get_gid() == "pair"] for axes in (true, predicted)]
    assert shade[0] == shade[1]
    assert {t.get_text() for t in difference.texts} >= {"0"}
    (neutral, _) = [p.get_facecolor() for p in difference.patches if p.get_gid() == "pair"]
    assert max(neutral[:3]) - min(neutral[:3]) < 0.01


@pytest.mark.parametrize("n", [20, 35])
def test_many_birds_have_no_numbers_but_names(n: int) -> None:
    axes = fig_co_occurrence(made.matrix(n)).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == made.birds(n)
    assert not [t for t in axes.texts if t.get_text().isdigit()]


def test_one_bird_has_nobody_to_be_seen_with() -> None:
    assert words(fig_co_occurrence(made.matrix(1))) == ["Fewer than two birds: nobody to be seen with."]


# --- lanes ------------------------------------------------------------------------------------------------------------


def test_lanes_hold_stretches_pecks_and_wrong_stretches() -> None:
    schema = {"bird": pl.String, "source": pl.String, "start_s": pl.Float64, "end_s": pl.Float64, "kind": pl.String}
    rows = [("x", "truth", 10.0, 30.0, "present"), ("x", "truth", 12.0, 13.0, "peck"), ("y", "predicted", 20.0, 50.0, "present"),
            ("y", "predicted", 40.0, 45.0, "other"), ("y", "predicted", 21.0, 22.0, "peck")]  # fmt: skip
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    figure = application_lanes.fig_lanes(frame, models=made.NAMES, model=made.NAMES[1])
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["x", "y"]
    drawn = {c.get_gid(): c for c in axes.collections}
    assert set(drawn) == {"truth present", "predicted present", "predicted other", "truth peck", "predicted peck"}
    spans = {k: c.get_paths()[0].get_extents() for k, c in drawn.items()}
    assert (spans["truth present"].x0, spans["truth present"].x1) == (10, 30)
    assert (spans["predicted other"].x0, spans["predicted other"].x1) == (40, 45)
    assert drawn["predicted other"].get_hatch()
    assert spans["truth peck"].x0 == 12.5 and spans["predicted peck"].x0 == 21.5
    assert spans["truth present"].y1 < 0 < spans["predicted present"].y0, "by hand above, predicted below"
    assert mpl.colors.to_hex(drawn["predicted present"].get_facecolor()[0]).upper() == style.model_colour(1).line
    assert {"predicted, not in view by hand", "a peck", "time in the video, s"} <= set(words(figure))


def test_long_videos_have_minutes() -> None:
    axes = application_lanes.fig_lanes(made.lanes(2, length_s=600.0)).axes[0]
    assert axes.get_xlabel() == "time in the video, min" and axes.get_xlim()[1] == pytest.approx(10, abs=1)


# --- error budget -----------------------------------------------------------------------------------------------------


def test_shares_are_bars_on_both_sides_of_nothing() -> None:
    frame = made.budget(2)
    models = [*made.NAMES[:2], "absent · t · m"]
    figure = error_budget.fig_error_budget(frame, models=models)
    first, second = figure.axes
    for axes, measure in ((first, "pecks_per_min"), (second, "co_occurrence_frac")):
        bars = {p.get_gid(): p for p in axes.patches}
        for r in frame.filter(pl.col("measure") == measure).iter_rows(named=True):
            name = f"{r['identity']} · {r['tracker']} · {r['model']}"
            bar = bars[f"{name} {r['stage']}"]
            assert bar.get_x() + bar.get_width() == pytest.approx(r["share"]) or bar.get_x() == pytest.approx(
                r["share"]
            )
            assert abs(bar.get_width()) == pytest.approx(abs(r["share"]))
        low, high = axes.get_xlim()
        assert low <= 0 < high
        spans = [tuple(map(float, d.get_xdata())) for d in by_gid(axes, "interval")]
        assert len(spans) == 8 and all(a < b for a, b in spans)
    assert mpl.colors.to_hex(bars[f"{models[0]} identity"].get_facecolor()).upper() == style.model_colour(0).line
    assert bars[f"{models[1]} identity"].get_facecolor()[0] == pytest.approx(0x9A / 255)
    total = frame["total"][0]
    assert f"mean error {total:.2f}, the sum of" in words(figure)


def test_wide_intervals_leave_room_for_the_bars() -> None:
    wide = made.budget(1).with_columns(lo=pl.col("share") - 100, hi=pl.col("share") + 100)
    figure = error_budget.fig_error_budget(wide, models=made.NAMES)
    axes = figure.axes[0]
    longest = wide.filter(pl.col("measure") == "pecks_per_min")["share"].abs().max()
    low, high = axes.get_xlim()
    assert high - low < 5 * longest and len(by_gid(axes, "goes on")) == 8
    assert all(low <= x <= high for d in by_gid(axes, "interval") for x in d.get_xdata())
    assert "95 % over videos (arrow: it goes on)" in words(figure)


def test_budget_without_intervals_says_why_and_eight_at_most() -> None:
    figure = error_budget.fig_error_budget(made.budget(1, one_video=True), models=made.NAMES)
    assert not by_gid(figure.axes[0], "interval")
    assert "No interval: one video: no interval over videos." in words(figure)
    many = error_budget.fig_error_budget(made.budget(12), models=made.combinations(12))
    assert len(by_gid(many.axes[0], "zero")) == 8
    assert "The first 8 of 12 combinations; the table has all." in words(many)
    none = made.budget(1).with_columns(share=pl.lit(0.0), total=pl.lit(0.0), fraction=pl.lit(None, pl.Float64))
    assert "no error to share out" in words(error_budget.fig_error_budget(none, models=made.NAMES))


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_against_errors_have_levels_and_numbers() -> None:
    frame = made.across(3)
    models = made.NAMES[:3]
    figure = application.fig_task_against_biology(frame, models=models)
    assert len(figure.axes) == 6
    first = figure.axes[0]
    row = frame.filter((pl.col("combination") == models[0]) & (pl.col("task") == "frame_accuracy")).row(0, named=True)
    assert points(first, models[0]) == [(row["value"], row["error"])]
    assert float(by_gid(first, "a person")[0].get_ydata()[0]) == pytest.approx(0.18)
    assert [p.get_gid() for p in first.patches] == ["random names band"]
    assert {"1  " + models[0], "a person", "random names", "mean rate", "always there ↑"} <= set(words(figure))
    assert first.get_ylim() == figure.axes[1].get_ylim() and first.get_ylim()[0] == 0


def test_an_undefined_combination_is_named() -> None:
    frame = made.across(2, ("hota",)).with_columns(
        value=pl.when(pl.col("combination") == made.NAMES[1]).then(None).otherwise("value")
    )
    assert f"2  {made.NAMES[1]} (undefined)" in words(
        application.fig_task_against_biology(frame, models=made.NAMES[:2])
    )


def test_random_names_are_a_distribution_with_its_middle() -> None:
    frame = pl.DataFrame({"metric": "frame_accuracy", "group": "t · m", "combination": [None] * 101 + ["a · t · m"],
                          "value": [*np.linspace(0, 1, 101), 0.9]})  # fmt: skip
    (axes,) = application.fig_random(frame, models=["a · t · m"]).axes
    assert [float(v) for v in by_gid(axes, "95 %")[0].get_xdata()] == pytest.approx([0.025, 0.975])
    assert points(axes, "median")[0][0] == pytest.approx(0.5)
    assert points(axes, "a · t · m")[0][0] == 0.9


def test_tolerance_draws_both_curves() -> None:
    frame = made.tolerance(1)
    figure = application.fig_tolerance(frame, models=made.NAMES)
    (axes,) = figure.axes
    for corrected in (False, True):
        rows = frame.filter((pl.col("source") == "human") & (pl.col("corrected") == corrected))
        (line,) = by_gid(axes, f"human {'corrected' if corrected else 'coded'}")
        assert np.array_equal(line.get_ydata(), rows["f1"])
        assert (line.get_linestyle() == "-") == corrected
    assert {"as coded", "shift taken out", "a person"} <= set(words(figure))
    alone = application.fig_tolerance(frame.filter(~pl.col("corrected")), models=made.NAMES)
    assert by_gid(alone.axes[0], "human coded")[0].get_linestyle() == "-" and "as coded" not in words(alone)


# --- behaviour --------------------------------------------------------------------------------------------------------


def test_the_confusion_says_per_cent_of_the_row_and_n() -> None:
    rows = [("m", "Peck", "Peck", 0.75, 8), ("m", "Peck", None, 0.25, 8), ("m", "Other", "Peck", None, 0)]
    frame = pl.DataFrame(rows, schema={"model": pl.String, "truth": pl.String, "predicted": pl.String, "share": pl.Float64, "n": pl.Int64},
                         orient="row")  # fmt: skip
    (axes,) = behaviour.fig_confusion(frame, models=["m"]).axes
    found = [t.get_text() for t in axes.texts]
    assert found[:8] == ["75", "0", "25", "8", "–", "–", "–", "0"]
    assert {"Peck", "Other", "no answer", "n", "m"} <= set(found)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["Peck", "Other"]
    assert sum(p.get_gid() == "right" for p in axes.patches) == 2


def test_pck_is_marked_at_five_and_ten() -> None:
    frame = pl.DataFrame({"model": "m", "threshold_px": [0.0, 5.0, 10.0, 20.0], "share": [0.0, 0.915, 0.978, 1.0]})
    figure = behaviour.fig_pck(frame, models=["m"])
    assert points(figure.axes[0], "m marks") == [(5.0, 0.915), (10.0, 0.978)]
    assert "m: 5 px 92 %, 10 px 98 %" in words(figure)
    short = behaviour.fig_pck(frame.head(2), models=["m"])
    assert points(short.axes[0], "m marks") == [(5.0, 0.915)]


def test_keypoints_stand_from_the_worst_to_the_best() -> None:
    rows = [("m", "beak", "all", 3.0, 9.0, 5), ("m", "tail_tip", "all", 8.0, 20.0, 5), ("m", "eye", "all", None, None, 0),
            ("m", "beak", "night", 4.0, None, 1)]  # fmt: skip
    schema = {
        "model": pl.String,
        "keypoint": pl.String,
        "scene": pl.String,
        "median_px": pl.Float64,
        "p95_px": pl.Float64,
        "n": pl.Int64,
    }
    figure = behaviour.fig_keypoint_error(pl.DataFrame(rows, schema=schema, orient="row"), models=["m"])
    every, night = figure.axes
    assert [t.get_text() for t in every.get_yticklabels()] == ["tail tip", "beak", "eye"]
    assert points(every, "m") == [(8.0, 0.0), (3.0, 1.0)]
    assert [tuple(map(float, d.get_xdata())) for d in by_gid(every, "p95")] == [(8.0, 20.0), (3.0, 9.0)]
    assert len(by_gid(every, "undefined")) == 1 and len(by_gid(night, "undefined")) == 2
    assert points(night, "m") == [(4.0, 1.0)] and every.get_xlim() == night.get_xlim()


def test_tracking_has_a_row_per_tracker() -> None:
    frame = made.tracking(2, negative=True).with_columns(
        idf1=pl.when(pl.col("video_id").is_null() & (pl.col("tracker") == "wren")).then(None).otherwise("idf1")
    )
    figure = behaviour.fig_tracking(frame, models=["heron", "wren"])
    assert len(figure.axes) == 5
    hota, idf1, mota = figure.axes[0], figure.axes[3], figure.axes[4]
    whole = frame.filter(pl.col("video_id").is_null())
    assert points(hota, "heron") == [(whole["hota"][0], 0.0)]
    assert [tuple(map(float, d.get_xdata())) for d in by_gid(hota, "interval")][0] == (
        whole["hota_lo"][0],
        whole["hota_hi"][0],
    )
    assert sorted(x for x, _ in points(hota, "videos")) == sorted(frame.drop_nulls("video_id")["hota"])
    assert not points(idf1, "wren") and "–" in [t.get_text() for t in idf1.texts]
    assert mota.get_xlim()[0] < 0
    empty_name = frame.with_columns(pl.col("video_id").fill_null(""))
    assert points(behaviour.fig_tracking(empty_name, models=["heron", "wren"]).axes[0], "heron") == points(
        hota, "heron"
    )


# --- sheets -----------------------------------------------------------------------------------------------------------


def test_heights_are_moved_apart_and_stay_inside() -> None:
    assert sheet.apart([1.0, 1.0, 1.0], 0.5, 0.0, 5.0) == [0.5, 1.0, 1.5]
    assert sheet.apart([0.0, 0.0], 1.0, 0.0, 5.0) == [0.0, 1.0]
    assert sheet.apart([3.0, 1.0], 1.0, 0.0, 5.0) == [3.0, 1.0]
    assert sheet.apart([], 1.0, 0.0, 1.0) == []


# --- clips ------------------------------------------------------------------------------------------------------------


class FakeActions:
    truth = "clips/BehaviourAnnotations.csv"


class FakeRecipe:
    class individuals:
        actions = FakeActions()


def test_a_strip_has_frames_from_first_to_last(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", [i * 40 for i in range(21)])
    assert [number_of(f) for f in clips.frames_of(path, 5)] == [0, 5, 10, 15, 20]
    assert [number_of(f) for f in clips.frames_of(write_video(tmp_path / "short.mp4", [0, 40]), 5)] == [0, 1]
    panel = clips.clip_strip(path, truth="Pe*ck", answers={"heron": "Other", "wren": None}, n=5)
    check_panels([panel])
    assert panel.caption == "**Pe∗ck** by hand. {model:heron}: Other; {model:wren}: nothing."
    assert panel.alt == "5 frames of clip clip, by hand Pe*ck; heron: Other; wren: nothing"
    assert (panel.width, panel.size) == (1400, "full")
    picture = np.asarray(Image.open(__import__("io").BytesIO(panel.image_jpeg)).convert("L"))
    assert picture.shape == (panel.height, panel.width)
    each = panel.width / 5
    found = [round(float(picture[panel.height // 2, int((i + 0.5) * each)]) / 9) for i in range(5)]
    assert found == [0, 5, 10, 15, 20]
    with pytest.raises(DataError):
        clips.clip_strip(tmp_path / "absent.mp4")
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with pytest.raises(DataError):
        clips.clip_strip(tmp_path / "broken.mp4")


def test_frames_of_other_shapes_are_fitted_into_the_first_ones(tmp_path: Path) -> None:
    frames = [np.zeros((40, 40, 3), np.uint8), np.full((80, 40, 3), 90, np.uint8)]
    strip = clips.side_by_side(frames, 404, places=4)
    assert strip.shape == (98, 404, 3)
    assert strip[0, 0].tolist() == [0, 0, 0] and strip[50, 102 + 49].tolist() == [90] * 3
    assert strip[50, 102].tolist() == [255] * 3 and strip[50, 300].tolist() == [255] * 3


def test_mistakes_come_first_and_lost_clips_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "clips"
    for name in ("a", "b", "d"):
        write_video(folder / "v1" / f"{name}.mp4", [0, 40, 80])
    (folder / "v1" / "e.mp4").write_bytes(b"damaged")
    table = "AnnotID,VideoPath,Behaviour\na,v1\\a.mp4,Peck\nb,clips/v1/b.mp4,Peck\nc,v1/c.mp4,Peck\nd,v1/d.mp4,Other\ne,v1/e.mp4,Peck\n"
    (folder / "BehaviourAnnotations.csv").write_text(table)
    rows = [(m, c, "v1", t, p) for m in ("heron", "wren") for c, t, p in (
        ("a", "Peck", "Peck"), ("b", "Peck", "Other" if m == "wren" else "Peck"), ("c", "Peck", None), ("d", "Other", None), ("e", "Peck", None))]  # fmt: skip
    schema = dict.fromkeys(("model", "clip_id", "video_id", "truth", "predicted"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    assert set(clips.clip_files(folder / "BehaviourAnnotations.csv", tmp_path)) == {"a", "b", "d", "e"}
    panels = clips.clip_panels(frame, tmp_path, FakeRecipe(), n=6)  # type: ignore[arg-type]
    assert [p.alt.split(",")[0] for p in panels] == [f"3 frames of clip {c}" for c in ("b", "d", "a")]
    assert len(clips.clip_panels(frame, tmp_path, FakeRecipe(), n=1)) == 1  # type: ignore[arg-type]
    (folder / "BehaviourAnnotations.csv").write_text("clip_id,video_id,behaviour\na,v1,Peck\n")
    assert clips.clip_panels(frame, tmp_path, FakeRecipe()) == []  # type: ignore[arg-type]
