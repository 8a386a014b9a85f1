"""Figures of the chapter on abstention: the numbers drawn, the words written, nothing over anything, and frames with little in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

from birdlab import style
from birdlab.figures import abstention as figures
from birdlab.figures import placing
from birdlab.figures.placing import Box

mpl.use("Agg")
MODELS = [
    "flat",
    "sharp-small",
    "sharp-large",
    "hesitant",
    "cocksure",
    "chatty",
    "organisation/a-very-long-name-7B",
    "eighth",
]
POWERS = [1.15, 2.2, 3.6, 1.6, 0.8, 1.0, 2.6, 1.3]
CALIBRATIONS = ("calibration_a_species", "calibration_a_genus", "calibration_ua_genus")
CURVES_SCHEMA = {"model": pl.String, "curve": pl.String, "x": pl.Float64, "y": pl.Float64, "area": pl.Float64,
                 "lo": pl.Float64, "hi": pl.Float64, "is_point": pl.Boolean}  # fmt: skip
ALL = (figures.fig_tradeoff, figures.fig_calibration, figures.fig_confusion, figures.fig_prompts, figures.fig_across,
       figures.fig_wrongly)  # fmt: skip


@pytest.fixture(autouse=True)
def as_the_report_draws() -> Iterator[None]:
    """Settings hold until a figure is drawn, as :func:`birdlab.report.show.show_figure` has it: fonts are chosen then."""
    import matplotlib.pyplot as plt

    with style.rc():
        yield
    plt.close("all")


def line(model: str, curve: str, x: Any, y: Any, *, area: float | None = None, is_point: bool = False) -> pl.DataFrame:
    x = np.asarray(x, dtype=float)
    about = {"area": area, "lo": None if area is None else area - 0.02, "hi": None if area is None else area + 0.02}
    frame = pl.DataFrame({"x": x, "y": np.asarray(y, dtype=float)}).with_columns(
        pl.lit(model).alias("model"), pl.lit(curve).alias("curve"), pl.lit(is_point).alias("is_point"),
        *(pl.lit(v, dtype=pl.Float64).alias(k) for k, v in about.items()),
    )  # fmt: skip
    return frame.select(CURVES_SCHEMA.keys())


def curves(models: list[str]) -> pl.DataFrame:
    t = np.linspace(0, 1, 101)
    parts = []
    for m, k in zip(MODELS, POWERS, strict=True):
        if m not in models:
            continue
        if m == "chatty":
            parts.append(line(m, "ua_a", [0.1], [0.25], area=0.575, is_point=True))
            parts.append(line(m, "ig", [0, 0.2, 0.6, 0.85], [1, 0.95, 0.8, 0.5], area=0.71, is_point=True))
            continue
        for curve, y in (
            ("ua_a", 1 - (1 - t) ** k),
            ("ig", 1 - (1 - 0.14 * k) * t ** (0.7 + 0.5 * k)),
            *((c, 0.3 + 0.1 * k + (0.6 - 0.1 * k) * t**2) for c in CALIBRATIONS),
        ):
            parts.append(line(m, curve, t, y, area=float(np.trapezoid(y, t))))
    return pl.concat(parts)


def confusion(models: list[str]) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    rows = [
        {"model": m, "true_reason": r, "given_reason": g, "share": None if r == "other" else float(v), "n": 0 if r == "other" else 1234}
        for m in models for r in figures.REASONS for g, v in zip(figures.GIVEN, rng.dirichlet([1] * 5), strict=True)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"share": pl.Float64})


def prompts(models: list[str]) -> pl.DataFrame:
    rows = [
        {"model": m, "prompt_id": f"prompt-{i}", "permits_abstention": i < 3, "rate": 0.1 * i + 0.01, "lo": 0.1 * i, "hi": 0.1 * i + 0.05, "n": 200}
        for j, m in enumerate(models) for i in range(1 if j % 3 == 2 else 5)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def across(models: list[str]) -> pl.DataFrame:
    rows = [
        {"model": m, "ig": 0.5 + 0.013 * i, "ig_lo": 0.48 + 0.013 * i, "ig_hi": 0.52 + 0.013 * i, "ua_a": 0.52 + 0.03 * (i % 3),
         "ua_a_lo": 0.5 + 0.03 * (i % 3), "ua_a_hi": 0.54 + 0.03 * (i % 3), "family": "f" if i in (1, 2) else None,
         "parameters": 10.0**i if i in (1, 2) else None}
        for i, m in enumerate(models)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"family": pl.String, "parameters": pl.Float64})


def wrongly(models: list[str], n: int = 18) -> pl.DataFrame:
    rows = [{"genus": f"Genus{i:03d}", "model": m, "rate": (i + 1) / (2 * n), "n": 1 if i == n - 1 else 10 + i} for m in models for i in range(n)]  # fmt: skip
    return pl.DataFrame(rows)


MADE: list[tuple[Callable[..., Any], Callable[[list[str]], pl.DataFrame]]] = list(
    zip(ALL, (curves, curves, confusion, prompts, across, wrongly), strict=True)
)


def texts(figure: Any) -> list[tuple[str, Any]]:
    """Every text that is seen, with its box in px."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    found = list(figure.texts)
    for axes in figure.axes:
        if not axes.axison:
            continue
        found += [*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):  # matplotlib keeps labels beyond the limits, and draws none of them
            low, high = sorted(axis.get_view_interval())
            found += [label for at, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
                      if low <= at <= high]  # fmt: skip
    return [(t.get_text(), t.get_window_extent(renderer)) for t in found if t.get_visible() and t.get_text().strip()]


def words(figure: Any) -> list[str]:
    return [text for text, _ in texts(figure)]


def by_gid(axes: Any, gid: str) -> list[Any]:
    return [drawn for drawn in axes.lines if drawn.get_gid() == gid]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 8])
@pytest.mark.parametrize(("draw", "make"), MADE, ids=lambda f: f.__name__)
def test_no_text_lies_over_another_or_leaves_the_drawing(draw: Any, make: Any, n: int, narrow: bool) -> None:
    figure = draw(make(MODELS[:n]), models=MODELS, narrow=narrow)
    width, height = figure.get_size_inches()
    assert width <= (style.NARROW_IN if narrow else style.WIDE_IN) + 1e-9
    found = texts(figure)
    for (a, box_a), (b, box_b) in itertools.combinations(found, 2):
        over_x = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        over_y = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        assert over_x <= 1 or over_y <= 1, f"{a!r} over {b!r}"
    for text, box in found:
        inside = (
            box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width * figure.dpi + 1 and box.y1 <= height * figure.dpi + 1
        )
        assert inside, f"{text!r} leaves the drawing: {box}"


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("draw", "make"), MADE, ids=lambda f: f.__name__)
def test_nothing_and_nulls_are_drawn_in_words(draw: Any, make: Any, narrow: bool) -> None:
    full = make(MODELS[:3])
    assert words(draw(full.clear(), models=MODELS[:3], narrow=narrow)) == ["Nothing to draw."]
    numbers = [c for c, kind in full.schema.items() if kind == pl.Float64]
    empty = full.with_columns(pl.lit(None, dtype=pl.Float64).alias(c) for c in numbers)
    found = words(draw(empty, models=MODELS[:3], narrow=narrow))
    if draw in (figures.fig_confusion, figures.fig_prompts):
        assert found.count("–") == (60 if draw is figures.fig_confusion else 11)
    else:
        assert found == ["Nothing to draw."]
    assert draw(full, models=MODELS, narrow=narrow).axes, "models without rows change nothing"


def test_the_lines_of_the_trade_off_are_the_rows_of_the_frame() -> None:
    frame = curves(MODELS[:6])
    left, right = figures.fig_tradeoff(frame, models=MODELS).axes
    for axes, curve in ((left, "ua_a"), (right, "ig")):
        for name, hue in list(style.model_colours(MODELS).items())[:5]:
            rows = frame.filter(pl.col("model") == name, pl.col("curve") == curve)
            (drawn,) = by_gid(axes, name)
            assert np.array_equal(drawn.get_xdata(), rows["x"]) and np.array_equal(drawn.get_ydata(), rows["y"])
            assert drawn.get_color() == hue.line
    assert left.get_window_extent().width == pytest.approx(left.get_window_extent().height)
    (point,), (rings,) = by_gid(left, "chatty"), by_gid(left, "chatty rings")
    assert list(zip(point.get_xdata(), point.get_ydata(), strict=True)) == [(0, 0), (0.1, 0.25), (1, 1)]
    assert (list(rings.get_xdata()), list(rings.get_ydata())) == ([0.1], [0.25])
    assert point.get_linestyle() != "-"
    assert list(by_gid(right, "chatty rings")[0].get_xdata()) == [0.2, 0.6, 0.85]
    assert list(by_gid(left, "chance")[0].get_ydata()) == [0, 1]
    ideals = [tuple(float(v[0]) for v in by_gid(axes, "ideal")[0].get_data()) for axes in (left, right)]
    assert ideals == [(0, 1), (1, 1)]
    assert [t.get_text() for t in right.get_xticklabels()] == ["0\nroot", "", "0.5\ngenus", "", "1\nspecies"]


@pytest.mark.parametrize("narrow", [False, True])
def test_the_list_is_in_the_order_of_the_area_with_chance_in_its_place(narrow: bool) -> None:
    frame = curves(MODELS[:6])
    axes = figures.fig_tradeoff(frame, models=MODELS, narrow=narrow).axes[0]
    areas = [t.get_text() for t in axes.texts if t.get_text()[:2] == "0."]
    assert areas == ["0.78 [0.76, 0.80]", "0.69 [0.67, 0.71]", "0.62 [0.60, 0.64]", "0.57 [0.55, 0.59]",
                     "0.53 [0.51, 0.55]", "0.50", "0.44 [0.42, 0.46]"]  # fmt: skip
    listed = [t.get_text() for t in axes.texts if t.get_gid() != "tag" and t.get_text() in {*MODELS, "chance"}]
    assert listed == ["sharp-large", "sharp-small", "hesitant", "chatty", "flat", "chance", "cocksure"]


def test_an_undefined_area_is_a_dash_at_the_end_of_the_list() -> None:
    frame = pl.concat([line("flat", "ig", [0, 1], [1, 0.2]), line("hesitant", "ig", [0, 0.5], [1, 0.9], area=0.48)])
    (axes,) = figures.fig_tradeoff(frame, models=MODELS).axes
    found = [t.get_text() for t in axes.texts if t.get_gid() != "tag"]
    assert found[-2:] == ["flat", "–"] and "0.48 [0.46, 0.50]" in found


def test_names_and_lists_keep_off_the_lines() -> None:
    figure = figures.fig_tradeoff(curves(MODELS), models=MODELS)
    figure.canvas.draw()
    for axes in figure.axes:
        for text in axes.texts:
            box = text.get_window_extent()
            own = text.get_text() if text.get_gid() == "tag" else None
            for drawn in axes.lines:
                if drawn.get_gid() in ("sample", "ideal", "end", own) or (own and own[:6] in str(drawn.get_gid())):
                    continue
                at = axes.transData.transform(placing.along(*map(np.asarray, drawn.get_data()), 2000))
                hit = (at[:, 0] > box.x0) & (at[:, 0] < box.x1) & (at[:, 1] > box.y0) & (at[:, 1] < box.y1)
                assert not hit.any(), f"{drawn.get_gid()} passes through {text.get_text()!r}"


def test_calibration_has_three_panels_on_one_scale() -> None:
    frame = curves(MODELS[:2])
    figure = figures.fig_calibration(frame, models=MODELS)
    assert [a.get_title(loc="left") for a in figure.axes] == [
        "species, answerable",
        "genus, answerable",
        "genus, unanswerable",
    ]
    assert len({a.get_ylim() for a in figure.axes}) == 1
    rows = frame.filter(pl.col("model") == "sharp-small", pl.col("curve") == "calibration_ua_genus")
    assert np.array_equal(by_gid(figure.axes[2], "sharp-small")[0].get_ydata(), rows["y"])


def test_the_matrix_says_per_cent_n_and_dashes() -> None:
    frame = pl.DataFrame(
        [{"model": "flat", "true_reason": "angle", "given_reason": g, "share": s, "n": 1500}
         for g, s in zip(figures.GIVEN, (0.5, 0.254, 0.0, 0.006, 0.24), strict=True)]
        + [{"model": "flat", "true_reason": "quality", "given_reason": g, "share": None, "n": 0} for g in figures.GIVEN]
    )  # fmt: skip
    axes = figures.fig_confusion(frame, models=["heron", "flat"]).axes[0]
    found = [t.get_text() for t in axes.texts]
    assert found[:12] == ["50", "25", "0", "1", "24", "1,500", "–", "–", "–", "–", "–", "0"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["angle", "quality"]
    assert [t.get_text() for t in axes.texts if t.get_fontweight() == "bold"] == ["25", "–"], "the diagonal"
    half, none = axes.patches[0].get_facecolor(), axes.patches[3].get_facecolor()
    assert sum(half[:3]) < sum(none[:3]), "dark is much"


def test_prompts_are_filled_by_permission_and_have_a_mean_per_kind() -> None:
    frame = prompts(["flat", "hesitant", "chatty"])  # the third was asked once
    first, second, single = figures.fig_prompts(frame, models=["flat", "hesitant", "chatty"]).axes
    dots = by_gid(first, "rate")
    assert [round(float(d.get_xdata()[0]), 2) for d in dots] == [0.21, 0.11, 0.01, 0.41, 0.31]
    assert [d.get_markerfacecolor() == "white" for d in dots] == [False] * 3 + [True] * 2
    assert [round(float(m.get_xdata()[0]), 3) for m in by_gid(first, "mean")] == [0.11, 0.36]
    assert [round(float(v), 2) for v in by_gid(first, "interval")[0].get_xdata()] == [0.2, 0.25]
    found = [t.get_text() for t in first.texts]
    assert found == ["may decline: mean 11 %", "no permission: mean 36 %"]
    assert first.get_xlim() == second.get_xlim() == single.get_xlim()
    assert [t.get_text() for t in single.get_yticklabels()] == ["chatty"]
    assert first.get_xlabel() == "declined, n = 200 photographs"


def test_across_draws_crosses_arrows_and_what_is_undefined() -> None:
    frame = pl.concat(
        [across(MODELS[:4]), across(["cocksure"]).with_columns(pl.lit(None, dtype=pl.Float64).alias("ua_a"))]
    )
    figure = figures.fig_across(frame, models=MODELS)
    (axes,) = figure.axes
    (point,) = by_gid(axes, "sharp-large")
    assert (float(point.get_xdata()[0]), float(point.get_ydata()[0])) == (pytest.approx(0.526), pytest.approx(0.58))
    spans = [[*map(float, d.get_xdata()), *map(float, d.get_ydata())] for d in by_gid(axes, "interval")]
    assert len(spans) == 8 and spans[0] == pytest.approx([0.48, 0.52, 0.52, 0.52])
    arrows = [(t.xy, t.get_position()) for t in axes.texts if t.arrow_patch is not None]
    assert [tuple(map(pytest.approx, a)) for a in arrows] == [((0.526, 0.58), (0.513, 0.55))], "from small to large"
    found = words(figure)
    assert {*MODELS[:4], "chance 0.50", "Undefined: cocksure"} <= set(found)
    low, high = axes.get_ylim()
    assert low < 0.5 < high


def test_all_genera_or_the_top_ones_of_large_enough_genera() -> None:
    few = figures.fig_wrongly(wrongly(MODELS[:3], 18), models=MODELS)
    assert [t.get_text() for t in few.axes[0].get_yticklabels()] == [f"Genus{i:03d}" for i in reversed(range(18))]
    assert [float(d.get_xdata()[0]) for d in by_gid(few.axes[1], "rate")] == [(i + 1) / 36 for i in reversed(range(18))]
    many = figures.fig_wrongly(wrongly(MODELS[:3], 248), models=MODELS)
    axes = many.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == [f"Genus{i:03d}" for i in range(246, 238, -1)]
    assert "8 highest of 248 genera, n ≥ 5" in [t.get_text() for t in axes.texts]
    part = wrongly(["flat"], 248)
    overall = (part["rate"] * part["n"]).sum() / part["n"].sum()
    assert float(by_gid(axes, "overall")[0].get_xdata()[0]) == pytest.approx(overall)
    assert f"all genera, {100 * overall:.0f} %" in axes.get_xlabel()
    small = wrongly(["flat"], 30).with_columns(n=pl.lit(2))
    assert "no genus with n ≥ 5" in words(figures.fig_wrongly(small, models=MODELS))


def test_names_may_hold_anything() -> None:
    odd = "a$b_{c}^<b>&%"
    for draw, make in MADE:
        frame = make(MODELS[:2]).with_columns(pl.col("model").replace({"flat": odd}))
        assert odd in words(draw(frame, models=[odd, "sharp-small"])), draw.__name__


def test_a_corner_is_free_or_not() -> None:
    diagonal = placing.along(np.array([0.0, 3.0]), np.array([0.0, 3.0]))
    inside = Box(0, 0, 3, 3)
    assert placing.free_corner((1, 1), inside, [diagonal], [], ("lower left", "lower right")) == Box(2, 0, 3, 1)
    assert placing.free_corner((1, 1), inside, [diagonal], [], ("lower left", "upper right")) is None
    assert placing.free_corner((1, 1), inside, [], [Box(2.5, 0.5, 3, 1)], ("lower right",)) is None
    assert placing.free_corner((4, 1), inside, [], [], ("lower right",)) is None


def test_a_name_beside_a_point_moves_away_from_texts_and_marks() -> None:
    inside, nothing = Box(0, 0, 3, 3), np.empty((0, 2))
    right = placing.beside((0.5, 0.1), (1, 1), nothing, [], inside)
    assert right is not None and right.left == pytest.approx(1.07)
    left = placing.beside((0.5, 0.1), (1, 1), nothing, [Box(1.1, 0, 3, 3)], inside)
    assert left is not None and left.right == pytest.approx(0.93)
    assert placing.beside((0.5, 0.1), (1, 1), nothing, [inside], inside) is None
