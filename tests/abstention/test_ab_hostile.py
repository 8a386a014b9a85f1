"""Strings that would like to be markup, formulas or references, through the whole chapter to a page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import polars as pl
import pytest
from abstention_cases import SPECIES, answers, item, matrix, opened, write_study

from birdlab.report.run import run_recipe

pytestmark = pytest.mark.slow
LONG = "long" * 1500
#: What stands in answers, ids of photographs, observations, observers, sources, prompts and labels.
HOSTILE = (
    "<script>window.hacked=1;alert(1)</script>",
    "<img src=x onerror=window.hacked=1;alert(2)>",
    "</td></tr></table><b id=injected>out</b>",
    "<svg/onload=alert(3)><style>body{display:none}</style>",
    "$x$ $\\frac{1}{0}$ $\\undefined",
    "right \u202eto left\u202c",
    "nul\x00bell\x07",
    "{model:sure} {model:nobody}",
    "[[tab-areas]] [[fig-tradeoff]]",
    "javascript:alert(4)\" onmouseover=\"alert(5)",
    "<!--shown--><!--/shown-->",
    LONG,
)  # fmt: skip
#: Names of models may hold no slash, backslash, brace or control character.
NAMES = (
    "<img src=x onerror=alert(6)>",
    "[[tab-areas]]",
    "$x$ $y",
    "right \u202eto left",
    "a very " + "long " * 30 + "name",
)
#: File of the list of birds.
LIST_NAME = "<img src=x onerror=alert(7)> [[tab-areas]] {model:sure}.csv"
INJECTED = "#injected, [onerror], [onload], [onmouseover], img:not([src^='data:']), iframe, object, embed, base, form"


def hostile_study(folder: Path) -> Path:
    """Two photographs per string, answers that quote it, and models and prompts that are called so."""
    items: list[dict[str, Any]] = []
    said: dict[str, str] = {}
    for i, text in enumerate(HOSTILE):
        ids = {"observation_id": f"o {text}", "observer_id": f"w {text}", "source": text, text[:200] + " column": "x"}
        ids = dict.fromkeys((t[:200] + " column" for t in HOSTILE), "x") | ids
        items.append(item(f"a {text}", SPECIES[i % 6], **ids))
        items.append(item(f"b {text}", SPECIES[i % 6], **ids | {"observation_id": f"p {text}"}))
        items.append(item(f"u {text}", genus="Larus", reasons="quality", **ids | {"observation_id": f"u {text}"}))
        said |= {f"a {text}": f"{text} I cannot identify this bird, too blurry.", f"b {text}": text, f"u {text}": text}
    prompted = [row for text in HOSTILE for row in answers(said, prompt=text[:200], permits="2" not in text)]
    rest = {name: 0.05 for name in (*SPECIES, *HOSTILE[:-1])}
    labels = list(rest)
    scores = {}
    for k, row in enumerate(items):
        p = {name: 1.0 for name in labels} | {row["species"] or SPECIES[0]: 8.0 if row["species"] else 4.0 + k / 100}
        scores[row["item_id"]] = [p[name] / sum(p.values()) for name in labels]
    wide = matrix(scores, labels)
    models: dict[str, Any] = {"sure": wide, **dict.fromkeys(NAMES, wide), "words": prompted, "<b>words": prompted}
    about = {
        n: {"card": {"family": HOSTILE[1], "parameters": 10.0 + i, "sources": [HOSTILE[1]]}}
        for i, n in enumerate(NAMES)
    }
    about |= {"words": {"prompt": HOSTILE[7]}, "<b>words": {"prompt": HOSTILE[8]}}
    whole = {"notebooks": [{"09_abstention": {"n_examples": 100}}, "10_summary"]}
    recipe = write_study(
        folder, items, models, about=about, recipe=whole, items_file="items.parquet", taxonomy=f"data/{LIST_NAME}"
    )
    shutil.move(folder / "data" / "birds.csv", folder / "data" / LIST_NAME)
    return recipe


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """First of all, so that a machine without a browser does not make the study for nothing."""
    with browser.launch() as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = hostile_study(tmp_path_factory.mktemp("hostile"))
    assert run_recipe(recipe) == 0
    return recipe.parent / "study" / "report.html"


def test_data_are_kept_as_they_were(page: Path) -> None:
    """Nothing is cleaned away in the tables: what was said is there, letter for letter."""
    said = opened(page.parents[1] / "study.yaml").table("answers")
    for text in HOSTILE:
        rows = said.filter((pl.col("item_id") == f"b {text}") & (pl.col("model") == "words"))
        assert set(rows["text"]) == {text} and set(rows["prompt_id"]) == {t[:200] for t in HOSTILE}
    # No string of these is an answer, and none is taken for a wish to decline.
    none = said.filter(pl.col("item_id").str.starts_with("b "))
    assert set(none["decision"].cast(pl.String)) <= {"unparsed"}


def test_notebooks_ran_without_a_word_on_the_error_stream(page: Path) -> None:
    for path in (page.parent / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert [o for c in cells for o in c.get("outputs", []) if o["output_type"] in ("stream", "error")] == []


def test_no_control_character_reaches_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text) is None
    assert "right \ufffdto left" in text  # the override is shown as a replacement character
    said = pl.read_parquet(page.parent / "tables" / "tab-declined.parquet")
    assert said["text"].str.len_chars().max() == 241  # what is longer is cut, and ends in an ellipsis


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 375])
def test_inert_in_a_browser(chromium: Any, page: Path, width: int) -> None:
    with browser.opened(chromium, page, width=width) as (tab, wrong):
        tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate(f'document.querySelectorAll("{INJECTED}").length') == 0
        assert tab.evaluate("document.scripts.length") == 1
        assert tab.evaluate("document.querySelectorAll('style').length") <= 2
        assert tab.evaluate("document.querySelectorAll('a[href^=\"javascript\" i]').length") == 0
        assert tab.evaluate("getComputedStyle(document.body).display") != "none"
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= width
        assert wrong == []


@pytest.mark.browser
def test_it_is_read_as_text(chromium: Any, page: Path) -> None:
    with browser.opened(chromium, page) as (tab, _):
        tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        declined = tab.evaluate(
            "[...document.querySelectorAll('#tab-declined td, #tab-declined th')].map(c => c.textContent)"
        )
        rows = tab.evaluate("[...document.querySelectorAll('#tab-declined tbody tr')].map(r => r.cells.length)")
        assert len(set(rows)) == 1  # no cell was closed from inside
        assert any("<script>window.hacked=1;alert(1)</script>" in text for text in declined)
        whole = tab.evaluate("document.querySelector('#abstention').textContent")
        for text in (*HOSTILE[:5], *HOSTILE[7:11]):
            assert text in whole, text
        # In sentences of ours a space makes sure that words stay words.
        assert "prompt { model:sure} { model:nobody}" in whole and "prompt [ [tab-areas]] [ [fig-tradeoff]]" in whole
        for name in NAMES:
            assert name.replace("\u202e", "\ufffd") in whole
        # No name became a link to a table, and none of another model's colour.
        links = tab.evaluate("[...document.querySelectorAll('#abstention figure a')].map(a => a.textContent)")
        assert not [text for text in links if text.startswith(("Table", "Figure"))]
        coloured = tab.evaluate("[...document.querySelectorAll('#abstention .m')].map(e => e.textContent)")
        assert set(coloured) <= {"sure", "words", "<b>words", *(n.replace("\u202e", "\ufffd") for n in NAMES)}
        # Nothing is written from right to left.
        directions = (
            "[...new Set([...document.querySelectorAll('#abstention *')].map(e => getComputedStyle(e).direction))]"
        )
        assert tab.evaluate(directions) == ["ltr"]
        alts = tab.evaluate("[...document.images].map(i => i.alt)")
        assert alts and all(alt.strip() for alt in alts)
