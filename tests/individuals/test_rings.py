"""Codes of colour rings, rosters, crops and histograms."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdlab.errors import DataError, ParameterError
from birdlab.individuals.rings.codes import Palette, parse_code, parse_codes
from birdlab.individuals.rings.crops import histogram, histograms, ring_crop
from birdlab.individuals.rings.roster import codes_by_date, read_roster, roster_of_names, valid_at
from birdlab.readers.ring_masks import contour_of

LETTERS = "ABCGLMOPRSWY"
PALETTE = Palette.of({letter: letter for letter in LETTERS})
NAMED = Palette.of({"R": "red", "G": "green", "A": "aluminium"})
DAY = dt.date


# codes


@pytest.mark.parametrize(
    ("text", "left", "right", "known", "written"),
    [
        ("oaor", "OA", "OR", True, "oaor"),
        ("OAoR", "OA", "OR", True, "oaor"),
        ("oa-or", "OA", "OR", True, "oaor"),
        ("rga", "RG", "A", False, "rga"),
        ("rg-a", "RG", "A", True, "rg-a"),
        ("r-ga", "R", "GA", True, "r-ga"),
        ("ra", "R", "A", True, "ra"),
        ("rg-", "RG", "", True, "rg-"),
        (" r?a? ", "R?", "A?", True, "r?a?"),
    ],
)
def test_codes_are_read_and_written(text: str, left: str, right: str, known: bool, written: str) -> None:
    code = parse_code(text, PALETTE, individual="x")
    assert (code.left, code.right, code.split_known) == (tuple(left), tuple(right), known)
    assert code.text == written
    assert parse_code(written, PALETTE, individual="x") == code
    assert all(len(a) <= 2 >= len(b) and a + b == code.letters for a, b in code.layouts)


@pytest.mark.parametrize("text", ["", "r", "rgabo", "rga-b", "r-g-a", "-", "rgab-"])
def test_codes_of_other_lengths_are_errors(text: str) -> None:
    with pytest.raises(DataError, match="bird x") as caught:
        parse_code(text, PALETTE, individual="x")
    assert caught.value.problems[0].code == "bad_code"


def test_every_bad_code_is_named_at_once() -> None:
    with pytest.raises(DataError) as caught:
        parse_codes([("one", "xxab"), ("two", "rgab"), ("three", "rz")], PALETTE)
    assert [(p.record, p.code) for p in caught.value.problems] == [
        ("bird one", "unknown_colour"),
        ("bird three", "unknown_colour"),
    ]
    assert "'X' in code 'xxab'" in caught.value.problems[0].found


def test_palettes() -> None:
    assert (NAMED.letter_of(" RED"), NAMED.letter_of("r"), NAMED.letter_of("ring")) == ("R", "R", None)
    # A name stands before a letter: the category g is the colour called g.
    assert Palette.of({"G": "x", "B": "g"}).letter_of("g") == "B"
    with pytest.raises(ParameterError, match="'R' twice"):
        Palette.of({"r": "red", "R": "rose"})
    with pytest.raises(ParameterError):
        Palette.of({})


# roster


def roster_file(folder: Path, text: str) -> Path:
    path = folder / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_code_is_used_again_rings_are_lost_and_regained(tmp_path: Path) -> None:
    path = roster_file(
        tmp_path,
        "\ufeffindividual_id;code;valid_from;valid_to;territory\n"
        "ada;RGAB;2019-04-01;2020-08-31;north\n"
        "ada;RGA;2020-09-01;2021-03-01;north\n"
        "ada;RGAB;2021-03-02;;north\n"
        "bo;RGAB;;2018-12-31;\n"
        "cy;oaor;;;south\n",
    )
    roster, notices = read_roster(path, PALETTE)
    assert notices.is_empty()
    assert roster["code"].to_list() == ["rgab", "rga", "rgab", "rgab", "oaor"]
    assert roster["territory"].to_list() == ["north", "north", "north", None, "south"]

    def worn(day: dt.date | None) -> set[tuple[str, str]]:
        return set(valid_at(roster, day).select("individual_id", "code").rows())

    assert worn(DAY(2018, 12, 31)) == {("bo", "rgab"), ("cy", "oaor")}
    assert worn(DAY(2019, 1, 1)) == {("cy", "oaor")}
    assert worn(DAY(2020, 8, 31)) == {("ada", "rgab"), ("cy", "oaor")}
    assert worn(DAY(2020, 9, 1)) == {("ada", "rga"), ("cy", "oaor")}
    assert worn(None) == {("ada", "rgab"), ("ada", "rga"), ("bo", "rgab"), ("cy", "oaor")}
    days = pl.Series([DAY(2020, 9, 1), None, None, DAY(2018, 5, 5)], dtype=pl.Date)
    codes, notices = codes_by_date(roster, days)
    assert codes.filter(pl.col("date") == DAY(2020, 9, 1)).select("individual_id", "code").rows() == [
        ("ada", "rga"),
        ("cy", "oaor"),
    ]
    assert codes.filter(pl.col("date").is_null()).height == 4
    assert notices.select("code", "n").rows() == [("clip_undated", 2)]


def test_two_birds_with_one_code_at_one_time_and_gaps_are_told(tmp_path: Path) -> None:
    path = roster_file(
        tmp_path,
        "individual_id,code,valid_from,valid_to\na,rgab,2019-01-01,2019-06-01\na,rgaw,2019-06-03,\n"
        "b,RGAW,,\nb,RGAW,,\nc,rgab,2019-06-02,\n",
    )
    roster, notices = read_roster(path, PALETTE)
    assert roster.height == 4
    assert dict(notices.select("code", "n").rows()) == {"roster_twice": 1, "code_gap": 1, "code_shared": 1}
    assert "rgaw (a, b)" in notices.filter(code="code_shared")["message"][0]


def test_everything_wrong_with_a_roster_is_one_error(tmp_path: Path) -> None:
    path = roster_file(
        tmp_path,
        "individual_id,code,valid_from,valid_to\na,xgab,,\nb,rgab,01.02.2020,\nc,rgab,2020-02-02,2020-02-01\nd,r,,\n",
    )
    with pytest.raises(DataError) as caught:
        read_roster(path, PALETTE)
    assert [(p.code, p.line) for p in caught.value.problems] == [
        ("unknown_colour", 2),
        ("bad_date", 3),
        ("ends_before_it_begins", 4),
        ("bad_code", 5),
    ]


@pytest.mark.parametrize(
    "later", ["a,rgaw,2020-01-01,", "a,rgaw,2019-06-01,2019-06-02", "a,rgaw,,2019-01-01", "a,rgab,,"]
)
def test_two_codes_of_a_bird_on_one_day_are_an_error(tmp_path: Path, later: str) -> None:
    path = roster_file(tmp_path, f"individual_id,code,valid_from,valid_to\na,rgab,2019-01-01,2020-01-01\n{later}\n")
    with pytest.raises(DataError, match="bird a") as caught:
        read_roster(path, PALETTE)
    assert [p.code for p in caught.value.problems] == ["codes_overlap"]


def test_birds_called_by_their_code() -> None:
    roster, notices = roster_of_names(["OAOR", "rga", "oaor", "unringed", "rga"], PALETTE)
    assert roster["individual_id"].to_list() == ["OAOR", "rga", "oaor"]
    assert roster["code"].to_list() == ["oaor", "rga", "oaor"]
    assert dict(notices.select("code", "n").rows()) == {"name_no_code": 1, "code_shared": 1}
    with pytest.raises(DataError, match="bird xxab"):
        roster_of_names(["rgab", "xxab"], PALETTE)


# crops and histograms


def published_crop(image: np.ndarray, polygon: list[tuple[float, float]]) -> np.ndarray:
    """The published steps on the whole picture."""
    points = np.array([[round(x), round(y)] for x, y in polygon])
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.fillPoly(mask, [points], 255)
    masked = cv2.bitwise_and(image, image, mask=mask)
    x, y, w, h = cv2.boundingRect(points)
    box = np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]], np.float32)
    to = np.array([[0, 0], [19, 0], [19, 19], [0, 19]], np.float32)
    return cv2.warpPerspective(masked, cv2.getPerspectiveTransform(box, to), (20, 20))


def published_histogram(crop: np.ndarray) -> np.ndarray:
    hsv = cv2.cvtColor(crop, cv2.COLOR_BGR2HSV)
    return np.concatenate([cv2.calcHist([hsv], [c], None, [10], [0, 256]).ravel() for c in range(3)])


def random_ring(rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[float, float]]]:
    image = cv2.GaussianBlur(rng.integers(0, 256, (90, 120, 3), dtype=np.uint8), (0, 0), 1.5)
    centre, side = rng.uniform([25, 25], [95, 65]), rng.uniform(4, 22, 2)
    angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 12)))
    return image, [(float(centre[0] + side[0] * np.cos(a)), float(centre[1] + side[1] * np.sin(a))) for a in angles]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_crops_and_histograms_are_the_published_ones(seed: int) -> None:
    image, polygon = random_ring(np.random.default_rng(seed))
    crop, expected = ring_crop(image, np.array(polygon)), published_crop(image, polygon)
    # The warp is the same but for the last bit of its fixed-point weights.
    assert np.abs(crop.astype(int) - expected.astype(int)).max() <= 1
    assert (histogram(crop) == published_histogram(crop)).all()


def test_only_seven_of_ten_bins_of_hue_can_be_filled() -> None:
    hues = np.zeros((1, 180, 3), np.uint8)
    hues[0, :, 0], hues[..., 1:] = np.arange(180), 255
    filled = histograms([cv2.cvtColor(hues, cv2.COLOR_HSV2BGR)])[0, :10] > 0
    assert filled.tolist() == [True] * 7 + [False] * 3
    assert histograms([]).shape == (0, 30)


def test_a_mask_is_its_largest_part_and_filled_again() -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    mask = np.zeros((40, 50), bool)
    cv2.ellipse(holder := mask.astype(np.uint8), (22, 18), (9, 6), 20, 0, 360, 1, -1)
    mask |= holder.astype(bool)
    whole = ring_crop(image, mask)
    mask[38, 2:5] = True  # a speck, which OpenCV lists first
    assert (ring_crop(image, mask) == whole).all()
    outline = contour_of(mask)
    again = np.zeros((40, 50), np.uint8)
    cv2.fillPoly(again, [outline.astype(np.int32)], 1)
    assert (again.astype(bool) == holder.astype(bool)).all()
    assert contour_of(np.zeros((4, 4), bool)) is None
    assert ring_crop(image, np.zeros((40, 50), bool)) is None


def test_outlines_at_and_beyond_the_edge() -> None:
    image = np.full((30, 30, 3), 200, np.uint8)
    square = np.array([[0, 0], [10, 0], [10, 10], [0, 10]])
    assert ring_crop(image, square + 100) is None
    assert ring_crop(image, square - 5).any()
    assert ring_crop(image, np.array([[3, 3]])).shape == (20, 20, 3)
