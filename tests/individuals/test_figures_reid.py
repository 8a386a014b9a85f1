"""Figures and strips of re-identification and rings: the numbers drawn, nothing over anything, frames with little in them."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from drawn import by_gid, check_texts, points, words
from hypothesis import given
from hypothesis import strategies as st

from birdlab import schemas, style
from birdlab.figures import reid, reid_panels, rings
from birdlab.panels import rings as strips
from birdlab.report.gallery import check_panels, to_html

mpl.use("Agg")
F, S = pl.Float64, pl.String
NAMES = ["feathers", "rings (published)", "rings (birdlab)", "MegaDescriptor-L-384-finetuned-on-everything-we-had", "a$b_{c}",
         "<b>&%", "dino", "bio", "clip", "wren", "heron", "jay"]  # fmt: skip
SPLITS = ("closed", "disjoint", "open")
LISTS = ("territory", "neighbours", "all")
PALETTE = {"A": "aluminium", "B": "blue", "c": "light blue", "G": "green", "L": "lavender", "M": "magenta", "O": "orange",
           "P": "pink", "R": "red", "S": "stone", "W": "white", "Y": "yellow"}  # fmt: skip


@pytest.fixture(autouse=True)
def as_the_report_draws() -> Iterator[None]:
    import matplotlib.pyplot as plt

    with style.rc():
        yield
    plt.close("all")


# --- made frames ------------------------------------------------------------------------------------------------------


def sizes(n: int, *, splits: tuple[str, ...] = SPLITS, n_birds: int = 180) -> pl.DataFrame:
    curve, points = [], []
    for i, m in enumerate(NAMES[:n]):
        for s in splits:
            for size in [1, 2, 3, 5, 10, 20, 60, n_birds]:
                top = 0.95 - 0.03 * i - 0.1 * np.log10(size)
                curve.append((m, s, size, top, top - 0.1, min(1.0, top + 0.1), 1 / size, 77))
            for g, mean in zip(LISTS, (3.4, 14.6, float(n_birds)), strict=True):
                points.append((m, s, g, mean, 3, 20, 0.8 - 0.05 * i, 0.6 - 0.05 * i, 0.9 - 0.05 * i, 1 / mean, 77))
    at = {"model": S, "split": S, "list_size": F, "top1": F, "lo": F, "hi": F, "chance": F, "n": pl.Int64}
    on = {"model": S, "split": S, "gallery": S, "list_size": F, "list_min": F, "list_max": F, "top1": F, "lo": F, "hi": F,
          "chance": F, "n": pl.Int64}  # fmt: skip
    return reid.list_size_frame(
        pl.DataFrame(curve, schema=at, orient="row"), pl.DataFrame(points, schema=on, orient="row")
    )


def cmc(n: int, lists: tuple[str, ...] = ("all",), most: int = 20) -> pl.DataFrame:
    rows = [(m, s, g, k, 1 - 0.5 / k - 0.02 * i, k / 30, 77 - i) for i, m in enumerate(NAMES[:n]) for s in SPLITS
            for g in lists for k in range(1, most + 1)]  # fmt: skip
    schema = {"model": S, "split": S, "gallery": S, "k": pl.Int32, "top": F, "chance": F, "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def risk(n: int, *, points: int = 30) -> pl.DataFrame:
    rows = [(m, s, "all", 1 - c, (c + 1) / points, c + 1, 0.02 * i + 0.3 * c / points, 0.02 * i + 0.35)
            for i, m in enumerate(NAMES[:n]) for s in SPLITS for c in range(points)]  # fmt: skip
    schema = {"model": S, "split": S, "gallery": S, "threshold": F, "coverage": F, "n_answered": pl.Int64, "risk": F,
              "base_risk": F}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def years(n: int, levels: tuple[str, ...] = ("0", "1", "2", "3 or more", "unknown")) -> pl.DataFrame:
    rows = [(m, s, "all", level, 12_345 - i, 5, 0.8 - 0.05 * i, 0.4, 0.95, 0.1)
            for i, m in enumerate(NAMES[:n]) for s in SPLITS for level in levels]  # fmt: skip
    schema = {"model": S, "split": S, "gallery": S, "level": S, "n": pl.Int64, "n_individuals": pl.Int64, "top1": F, "lo": F,
              "hi": F, "chance": F}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def birds(n: int, n_birds: int, splits: tuple[str, ...] = ("closed",)) -> pl.DataFrame:
    rows = [(m, s, "all", f"a_bird_with_a_long_name_{b}", 3 + b % 4, (b * 7 % n_birds) / n_birds, None if b % 3 else 0.1,
             0.9, 0.03, f"another_bird_with_a_long_name_{b + 1}", 2)
            for m in NAMES[:n] for s in splits for b in range(n_birds)]  # fmt: skip
    schema = {"model": S, "split": S, "gallery": S, "individual_id": S, "n": pl.Int64, "top1": F, "lo": F, "hi": F, "chance": F,
              "taken_for": S, "n_taken_for": pl.Int64}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def confusion(letters: str) -> pl.DataFrame:
    rows = [
        (t, r, 12_000 if t == r else 50, 0.9 if t == r else 0.1 / max(1, len(letters) - 1))
        for t in letters
        for r in letters
    ]
    return pl.DataFrame(rows, schema={"truth": S, "read": S, "n": pl.Int64, "share": F}, orient="row")


def called(matchers: tuple[str, ...] = ("birdlab", "published"), lists: tuple[str, ...] = LISTS) -> pl.DataFrame:
    rows = [(m, a, g, 16_190, 0.6, 0.4, 0.8, 0.3 if m == "published" else 0.02, 0.7, 0.2)
            for m in matchers for a in ("argmax", "joint") for g in lists]  # fmt: skip
    schema = {"matcher": S, "assignment": S, "gallery": S, "n": pl.Int64, "right": F, "right_lo": F, "right_hi": F, "wrong": F,
              "best_right": F, "chance": F}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def calibration(ways: tuple[str, ...] = ("argmax",), lists: tuple[str, ...] = LISTS) -> pl.DataFrame:
    rows = [(a, g, 0.07, 0.01, 0.14, b / 10, (b + 1) / 10, 10 * b, b / 10 + 0.05, b / 10, None if b < 2 else 0.0, 1.0)
            for a in ways for g in lists for b in range(10)]  # fmt: skip
    schema = {"assignment": S, "gallery": S, "ece": F, "ece_lo": F, "ece_hi": F, "lo": F, "hi": F, "n": pl.Int64,
              "mean_score": F, "right": F, "right_lo": F, "right_hi": F}  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


M = {"models": NAMES}
CASES = [
    ("sizes 12", reid.fig_list_size, sizes(12), M),
    ("sizes 3", reid.fig_list_size, sizes(3), M),
    ("sizes few birds", reid.fig_list_size, sizes(2, splits=("open",), n_birds=15), M),
    ("sizes alone", reid.fig_list_size, sizes(1, splits=("closed",)), M),
    ("cmc 12", reid.fig_cmc, cmc(12), M),
    ("cmc lists", reid.fig_cmc, cmc(2, LISTS), M),
    ("cmc 1", reid.fig_cmc, cmc(1, most=1), M),
    ("risk 12", reid.fig_risk, risk(12), M),
    ("risk one point", reid.fig_risk, risk(1, points=1), M),
    ("years 12", reid.fig_years, years(12), M),
    ("years 3", reid.fig_years, years(3, ("1", "2")), M),
    ("years 1", reid.fig_years, years(1, ("unknown",)), M),
    ("birds 12", reid.fig_birds, birds(12, 183), M),
    ("birds splits", reid.fig_birds, birds(2, 30, SPLITS), M),
    ("birds 1", reid.fig_birds, birds(1, 1), M),
    ("colours 12", rings.fig_confusion, confusion("ABCGLMOPRSWY"), {"colours": PALETTE}),
    ("colours without names", rings.fig_confusion, confusion("ABCDEFGHIJKLMNOPQRST"), {}),
    ("colours 1", rings.fig_confusion, confusion("R"), {"colours": PALETTE}),
    ("matchers", rings.fig_matchers, called(), M),
    ("matchers 1", rings.fig_matchers, called(("mine",), ("all",)).head(1), {"models": []}),
    ("calibration", rings.fig_calibration, calibration(), M),
    ("calibration ways", rings.fig_calibration, calibration(("joint", "argmax"), ("all",)), {"models": []}),
]  # fmt: skip


# --- what is drawn ----------------------------------------------------------------------------------------------------


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
    numbers = [c for c, kind in frame.schema.items() if kind == F]
    ends = [c for c in numbers if c == "lo" and "ece" not in frame.columns or c == "hi" and "ece" not in frame.columns
            or c.endswith(("_lo", "_hi")) or c in ("chance", "base_risk", "best_right", "ece")]  # fmt: skip
    for undefined in (None, float("nan")):
        for columns in (numbers, ends):
            bare = frame.with_columns(pl.lit(undefined, dtype=F).alias(c) for c in columns)
            assert words(draw(bare, narrow=narrow, **about))


def test_empty_tables_make_an_empty_frame() -> None:
    frame = reid.list_size_frame(pl.DataFrame(), pl.DataFrame())
    assert frame.is_empty() and frame.columns == sizes(1).columns and frame.schema == sizes(1).schema
    assert words(reid.fig_list_size(frame, models=NAMES)) == ["No query was ranked."]


def test_a_method_without_rows_has_no_line_and_others_keep_their_colour() -> None:
    frame = cmc(3).filter(pl.col("model") != NAMES[0])
    axes = reid.fig_cmc(frame, models=NAMES).axes[0]
    assert not by_gid(axes, NAMES[0])
    assert by_gid(axes, NAMES[1])[0].get_color() == style.model_colour(1).line
    assert NAMES[0] not in words(axes.figure)


def test_panels_are_in_the_order_of_protocols_and_lists() -> None:
    rows = pl.DataFrame(
        {
            "split": ["open", "closed", "mine"] * 2,
            "panel_gallery": ["all", "all", "all", "territory", "neighbours", "all"],
        }
    )
    found = [f.title for f in reid_panels.facets_of(rows)]
    assert found == ["closed · neighbours", "closed · all", "open · territory", "open · all", "mine · all"]
    figure = reid.fig_cmc(cmc(1).reverse(), models=NAMES)
    assert [a.texts[0].get_text() for a in figure.axes] == ["n = 77"] * 3 or len(figure.axes) == 3


def test_list_sizes_draw_curve_band_chance_and_points() -> None:
    frame = sizes(2, splits=("closed",))
    (axes,) = reid.fig_list_size(frame, models=NAMES).axes
    curve = frame.filter((pl.col("kind") == "curve") & (pl.col("model") == NAMES[1])).sort("list_size")
    assert points(axes, NAMES[1]) == list(curve.select("list_size", "top1").iter_rows())
    assert points(axes, "chance") == [(s, pytest.approx(1 / s)) for s in curve["list_size"]]
    assert axes.get_xscale() == "log"
    assert points(axes, f"{NAMES[0]} territory") == [(3.4, 0.8)] and points(axes, f"{NAMES[0]} neighbours") == [
        (14.6, 0.8)
    ]
    assert not by_gid(axes, f"{NAMES[0]} all"), "all birds are the end of the curve"
    assert [list(d.get_ydata()) for d in by_gid(axes, "interval")][0] == pytest.approx([0.6, 0.9])
    assert {c.get_gid() for c in axes.collections} == {f"{m} band" for m in NAMES[:2]}
    assert {"territory", "neighbours", "Top-1", "chance", "n = 77"} <= set(words(axes.figure))
    (many,) = reid.fig_list_size(sizes(5, splits=("closed",)), models=NAMES).axes
    assert not many.collections, "bands of five methods are not told apart"


def test_points_stand_apart_but_near_their_list() -> None:
    (axes,) = reid.fig_list_size(sizes(12, splits=("closed",)), models=NAMES).axes
    axes.figure.canvas.draw()
    at = [
        float(d.get_transform().transform(d.get_xydata())[0, 0]) for m in NAMES for d in by_gid(axes, f"{m} territory")
    ]
    middle = float(axes.transData.transform((3.4, 0.5))[0])
    assert len(set(np.round(at, 3))) == 12 and max(abs(x - middle) for x in at) <= 0.26 * axes.figure.dpi
    assert np.mean(at) == pytest.approx(middle, abs=0.01)


def test_risk_has_its_line_for_naming_everything() -> None:
    axes = reid.fig_risk(risk(2), models=NAMES).axes[0]
    assert float(by_gid(axes, f"{NAMES[1]} everything")[0].get_ydata()[0]) == pytest.approx(0.37)
    line = points(axes, NAMES[1])
    assert line[0] == (pytest.approx(1 / 30), pytest.approx(0.02)) and line[-1][0] == 1
    assert axes.get_ylim()[1] < 0.5, "the scale ends a little above the worst value"


def test_years_are_in_their_order_with_n() -> None:
    frame = years(2, ("unknown", "10", "3 or more", "0")).filter(pl.col("split") == "closed")
    (axes,) = reid.fig_years(frame, models=NAMES).axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0\n≥12,344", "3+\n≥12,344", "10\n≥12,344", "?\n≥12,344"]
    assert [y for _, y in points(axes, NAMES[1])] == pytest.approx([0.75] * 4)
    assert len(by_gid(axes, "interval")) == 8 and len(by_gid(axes, "chance")) == 4
    holes = frame.with_columns(top1=pl.when(pl.col("level") == "0").then(None).otherwise("top1"))
    (axes,) = reid.fig_years(holes, models=NAMES).axes
    assert [t.get_text() for t in axes.texts].count("–") == 2


def test_birds_stand_from_the_worst_with_whom_they_are_taken_for() -> None:
    rows = [("m", "b1", 2, 1.0, None), ("m", "b2", 2, 0.0, "b1"), ("m", "b3", 5, 0.0, "b2"), ("m", "b4", 4, 0.25, None)]
    schema = {"model": S, "individual_id": S, "n": pl.Int64, "top1": F, "taken_for": S}
    more = {"split": "closed", "gallery": "all", "lo": None, "hi": None, "chance": 0.1}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.lit(v, dtype=S if isinstance(v, str) else F).alias(k) for k, v in more.items()
    )
    (axes,) = reid.fig_birds(frame, models=["m"]).axes
    assert [y for _, y in points(axes, "birds")] == [0, 0, 0.25, 1]
    assert float(by_gid(axes, "mean")[0].get_ydata()[0]) == pytest.approx(0.3125)
    found = words(axes.figure)
    at = [
        found.index(t)
        for t in ("b3: 0 % of 5, taken for b2", "b2: 0 % of 2, taken for b1", "b4: 25 % of 4", "b1: 100 % of 2")
    ]
    assert at == sorted(at) and "4 birds, n = 2–5 each" in found


def test_many_birds_have_no_intervals_and_long_names_keep_their_numbers() -> None:
    few, many = (reid.fig_birds(birds(1, n), models=NAMES) for n in (60, 61))
    assert few.axes[0].collections and "a bird, 95 % for new videos" in words(few)
    assert not many.axes[0].collections and "a bird" in words(many)
    told = [t for t in words(reid.fig_birds(birds(3, 30), models=NAMES)) if " %" in t and "of" in t]
    assert len(told) >= 15 and all("taken for" in t and " of " in t for t in told if t[0] == "a" and ":" in t)


# --- rings ------------------------------------------------------------------------------------------------------------


def test_colours_that_css_knows_have_a_swatch() -> None:
    (axes,) = rings.fig_confusion(confusion("ABCRW"), colours=PALETTE).axes
    found = {
        p.get_gid(): mpl.colors.to_hex(p.get_facecolor()) for p in axes.patches if str(p.get_gid()).startswith("swatch")
    }
    assert found == {"swatch B": "#0000ff", "swatch C": "#add8e6", "swatch R": "#ff0000", "swatch W": "#ffffff"}
    assert {"A  aluminium", "C  light blue"} <= set(words(axes.figure))
    (axes,) = rings.fig_confusion(confusion("ABC"), colours={k: k for k in "ABC"}).axes
    assert not [p for p in axes.patches if str(p.get_gid()).startswith("swatch")]
    assert words(axes.figure).count("A") == 2


def test_the_confusion_has_per_cent_of_the_row_and_n() -> None:
    rows = [
        ("R", "R", 1990, 0.995),
        ("R", "W", 4, 0.002),
        ("R", "B", 6, 0.003),
        ("W", "W", 1, 1.0),
        ("B", "R", 0, None),
    ]
    frame = pl.DataFrame(rows, schema={"truth": S, "read": S, "n": pl.Int64, "share": F}, orient="row")
    (axes,) = rings.fig_confusion(frame, colours=PALETTE).axes
    found = [t.get_text() for t in axes.texts]
    assert found[:12] == ["–", "–", "–", "0", "<1", "100", "<1", "2,000", "0", "0", "100", "1"], "blue, red, white"


def test_bars_of_matchers_sum_to_one() -> None:
    figure = rings.fig_matchers(called(), models=NAMES)
    assert len(figure.axes) == 3
    axes = figure.axes[0]
    parts = {gid: [p for p in axes.patches if p.get_gid() == gid] for gid in ("right", "wrong", "not named")}
    assert [len(v) for v in parts.values()] == [4, 4, 4]
    assert [p.get_width() for p in parts["right"]] == [0.6] * 4
    assert [round(p.get_width(), 9) for p in parts["not named"]] == [0.1, 0.1, 0.38, 0.38], (
        "published first, as in the recipe"
    )
    for row in zip(*parts.values(), strict=True):
        assert sum(p.get_width() for p in row) == pytest.approx(1)
    assert mpl.colors.to_hex(parts["right"][0].get_facecolor()).upper() == style.model_colour(1).line
    assert all(p.get_hatch() for p in parts["wrong"])
    assert [list(d.get_xdata()) for d in by_gid(axes, "interval")] == [[0.4, 0.8]] * 4
    assert [float(d.get_xdata()[0]) for d in by_gid(axes, "chance")] == [0.2] * 4
    assert {"n = 16,190", "territory", "60", "30", "38"} <= set(words(figure))
    undefined = called().with_columns(right=pl.when(pl.col("matcher") == "birdlab").then(None).otherwise("right"))
    assert [t.get_text() for t in rings.fig_matchers(undefined, models=NAMES).axes[0].texts].count("–") == 2


def test_calibration_writes_its_error_and_counts() -> None:
    figure = rings.fig_calibration(calibration(), models=NAMES)
    axes = figure.axes[1]
    assert points(axes, "bins") == [(pytest.approx(b / 10 + 0.05), pytest.approx(b / 10)) for b in range(10)]
    assert len(by_gid(axes, "interval")) == 8
    bars = [p.get_height() for p in axes.patches if p.get_gid() == "n"]
    assert bars == pytest.approx([max(bars) * b / 9 for b in range(10)])
    assert {"ECE 0.070 [0.010, 0.140]", "n = 450"} <= set(words(figure))
    assert by_gid(axes, "bins")[0].get_markerfacecolor() == style.model_colour(2).line


@pytest.mark.parametrize(("draw", "frame", "about"), [c[1:] for c in CASES if c[0] in {
    "sizes 3", "cmc 12", "risk 12", "years 3", "colours 12", "matchers", "calibration"}])  # fmt: skip
def test_pictures_are_small(draw: Any, frame: pl.DataFrame, about: Any) -> None:
    assert len(style.png_bytes(draw(frame, **about))) < 64_000


# --- strips -----------------------------------------------------------------------------------------------------------


def made_clips(folder: Path, n_images: int = 9) -> dict[str, pl.DataFrame]:
    """Six clips of grey pictures: a and b named wrong, c tied, d unsure, e right, f right; frame 4 has most rings."""
    outcome = {"a": ("x", 0.9, 0), "b": ("x", 0.95, 0), "c": (None, 0.5, 1), "d": (None, 0.4, 0), "e": ("y", 0.99, 0), "f": ("y", 0.999, 0)}  # fmt: skip
    calls, images, found = [], [], []
    for clip, (named, score, tied) in outcome.items():
        reason = None if named else "2 birds fit: x, {y}" if tied else "posterior 0.4 is below 0.8"
        for matcher, assignment in itertools.product(("birdlab", "published"), ("argmax", "joint")):
            calls.append(
                (
                    matcher,
                    assignment,
                    "territory",
                    clip,
                    named,
                    None if tied else "x",
                    score,
                    0.1,
                    tied,
                    3,
                    n_images,
                    9,
                    reason,
                )
            )
        for f in range(n_images):
            path = f"{clip}\\{f}.jpg" if clip == "e" else f"{clip}/{f}.jpg"
            images.append((clip, f, path))
            (folder / clip).mkdir(exist_ok=True, parents=True)
            cv2.imwrite(str(folder / clip / f"{f}.jpg"), np.full((80, 100, 3), 25 * f, np.uint8))
            found += [
                (clip, f, i, 50.0 + 12 * i, 40.0, 10.0, 10.0, 1.0, [1.0], None)
                for i in range(2 if f in (1, 4, 6) else 1)
            ]
    reads = [("birdlab", c, 0, "unknown", "R", "G", 0.9, 5) for c in outcome] + [
        ("birdlab", c, 1, "unknown", "A", None, 0.9, 5) for c in outcome
    ]
    tables = {"ring_calls": calls, "ring_reads": reads, "ring_colours": found, "reid_images": images}
    out = {}
    for name, rows in tables.items():
        dtypes = {c: S if isinstance(d, pl.Enum) else d for c, d in schemas.TABLES[name].dtypes.items()}
        out[name] = schemas.TABLES[name].validate(pl.DataFrame(rows, schema=dtypes, orient="row"))
    out["clips"] = pl.DataFrame({"clip_id": [*"abcdef"], "individual_id": ["y"] * 6, "video_id": ["v1", "v1", "v1", "v2", "v2", "v2"],
                                 "date": [dt.date(2020, 1, 1)] * 6})  # fmt: skip
    out["roster"] = pl.DataFrame({"individual_id": ["x", "y", "y"], "code": ["rgao", "agro", "agrr"],
                                  "valid_from": [None, None, dt.date(2021, 1, 1)], "valid_to": [None, dt.date(2020, 12, 31), None]})  # fmt: skip
    return out


def panels_of(made: dict[str, pl.DataFrame], folder: Path, **about: Any) -> list[Any]:
    calls = strips.with_truth(made["ring_calls"], made["clips"], made["roster"])
    found = strips.strip_panels(calls, made["ring_reads"], made["ring_colours"], made["reid_images"], folder, **about)
    check_panels(found)
    return found


def test_failures_come_first_and_each_clip_once(tmp_path: Path) -> None:
    made = made_clips(tmp_path)
    found = panels_of(made, tmp_path, n=10)
    assert [p.alt.split("clip ")[1][0] for p in found] == [*"badcfe"]
    assert [p.caption.split(".")[0] for p in found] == ["**Wrong name"] * 2 + ["**Not named", "**Several birds tie"] + [
        "**Right"
    ] * 2
    assert found[0].caption == "**Wrong name.** Read RG and A?. Named x (rgao), posterior 0.95; it is y (agro)."
    assert found[3].caption.endswith("Named nobody, posterior 0.50; it is y (agro). 2 birds fit: x, (y).")
    assert found[4].caption.endswith("Named y (agro), posterior 0.99."), "0.999 is not 1"
    assert found == panels_of(made, tmp_path, n=10), "the same again"
    shuffled = made | {"ring_calls": made["ring_calls"].reverse(), "ring_colours": made["ring_colours"].reverse()}
    assert [p.caption for p in panels_of(shuffled, tmp_path, n=10)] == [p.caption for p in found]
    assert len(panels_of(made, tmp_path, n=2)) == 2 and panels_of(made, tmp_path, n=0) == []
    assert panels_of(made, tmp_path, gallery="neighbours") == [] and panels_of(made, tmp_path, matcher="mine") == []
    assert "Read nothing." in panels_of(made, tmp_path, matcher="published")[0].caption


def test_a_strip_has_three_pictures_and_its_rings(tmp_path: Path) -> None:
    panel = panels_of(made_clips(tmp_path), tmp_path, n=1)[0]
    picture = cv2.imdecode(np.frombuffer(panel.image_jpeg, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert picture.shape == (panel.height, panel.width) == (200, 760) and panel.size == "big"
    seen = [round(float(picture[100, x]) / 25) for x in (125, 380, 634)]
    assert seen == [1, 4, 6], "of each third the picture with most rings"
    assert len(panel.boxes) == 6 and {b.kind for b in panel.boxes} == {"detection"}
    pairs = [panel.boxes[i : i + 2] for i in (0, 2, 4)]
    for left, (one, other) in zip((0, 254, 508), pairs, strict=True):
        assert left <= one.x < other.x and other.x + other.w <= left + 250
        assert one.w == pytest.approx(one.h, rel=0.03)
        assert (one.x + other.x + other.w) / 2 == pytest.approx(left + 125, abs=6), "the rings are in the middle"


def test_an_outline_lies_on_its_ring(tmp_path: Path) -> None:
    picture = np.zeros((300, 200, 3), np.uint8)
    picture[230:250, 120:136] = 255
    cv2.imwrite(str(tmp_path / "0.png"), picture)
    ring = {"frame_index": 0, "ring": 0, "x": 128.0, "y": 240.0, "width": 16.0, "height": 20.0}
    call = {"clip_id": "c", "matcher": "birdlab", "individual_id": None, "truth": None, "n_tied": 0, "score": None}
    images = pl.DataFrame({"frame_index": [0], "image": ["0.png"]})
    panel = strips.clip_strip(call, [], pl.DataFrame([ring]), images, tmp_path)
    (box,) = panel.boxes
    strip = cv2.imdecode(np.frombuffer(panel.image_jpeg, np.uint8), cv2.IMREAD_GRAYSCALE)
    ys, xs = np.nonzero(strip[:, :250] > 128)
    assert (xs.min() + xs.max() + 1) / 2 == pytest.approx(box.x + box.w / 2, abs=1)
    assert (ys.min() + ys.max() + 1) / 2 == pytest.approx(box.y + box.h / 2, abs=1)
    assert box.w == pytest.approx(1.24 * (xs.max() + 1 - xs.min()), rel=0.05), "an outline stands a little outside"
    assert panel.caption == "**Not named.** Read nothing. Named nobody; it is a bird that is not known."


def test_missing_and_broken_pictures_are_said(tmp_path: Path) -> None:
    made = made_clips(tmp_path)
    (tmp_path / "b" / "4.jpg").unlink()
    (tmp_path / "b" / "6.jpg").write_bytes(b"no picture")
    (tmp_path / "b" / "1.jpg").write_bytes(b"")
    found = panels_of(made, tmp_path, n=2)
    assert found[0].caption.endswith("Grey: 3 of 3 pictures cannot be read.") and not found[0].boxes
    assert "3 of 3" in found[0].alt and "Grey" not in found[1].caption
    lost = made | {"reid_images": made["reid_images"].filter(pl.col("clip_id") != "b")}
    assert panels_of(lost, tmp_path, n=1)[0].caption.endswith("The clip has no picture.")
    outside = made | {"reid_images": made["reid_images"].with_columns(image=pl.lit("../a/1.jpg"))}
    assert "3 of 3" in panels_of(outside, tmp_path / "a", n=1)[0].caption


def test_a_clip_without_rings_is_shown_whole(tmp_path: Path) -> None:
    made = made_clips(tmp_path, n_images=2)
    made |= {"ring_colours": made["ring_colours"].clear(), "ring_reads": made["ring_reads"].clear()}
    panel = panels_of(made, tmp_path, n=1)[0]
    assert not panel.boxes and "Read nothing" in panel.caption
    picture = cv2.imdecode(np.frombuffer(panel.image_jpeg, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert picture[100, 700] > 250, "two pictures leave the third place white"


def test_captions_hold_any_name(tmp_path: Path) -> None:
    made = made_clips(tmp_path)
    odd = "<img src=x>{model:wren}**"
    made["clips"] = made["clips"].with_columns(individual_id=pl.lit(odd))
    page = to_html(panels_of(made, tmp_path, n=6), {})
    assert "<img src=x>" not in page and "&lt;img src=x&gt;(model:wren)∗∗ (not on the roster)" in page


def test_codes_are_those_of_the_day(tmp_path: Path) -> None:
    made = made_clips(tmp_path)
    later = made["clips"].with_columns(date=pl.lit(dt.date(2021, 5, 1)))
    assert strips.with_truth(made["ring_calls"], later, made["roster"])["truth_code"].unique().to_list() == ["agrr"]
    undated = strips.with_truth(made["ring_calls"], later.drop("date", "video_id"), made["roster"])
    assert undated["truth_code"].unique().to_list() == [None] and undated[
        "named_code"
    ].drop_nulls().unique().to_list() == ["rgao"]
    assert strips.with_truth(made["ring_calls"], later)["truth_code"].null_count() == made["ring_calls"].height


@given(st.lists(st.floats(-50, 150), min_size=4, max_size=4), st.floats(0.1, 80), st.floats(0.1, 80))
def test_outlines_stay_in_their_place(at: list[float], width: float, height: float) -> None:
    rows = [{"x": at[i], "y": at[i + 1], "width": width, "height": height, "frame_index": 0, "ring": i} for i in (0, 2)]
    cut = strips._cut(rows, (80, 100))
    assert 0 <= cut.x and 0 <= cut.y and cut.x + cut.w <= 100 + 1e-6 and cut.y + cut.h <= 80 + 1e-6
    place = strips._Place(254, 0, 250, 200, 250 / max(1, int(cut.w)))
    for ring in rows:
        box = strips._box(ring, cut, place)
        assert box is None or (
            254 <= box.x and box.x + box.w <= 504 + 1e-6 and 0 <= box.y and box.y + box.h <= 200 + 1e-6
        )
