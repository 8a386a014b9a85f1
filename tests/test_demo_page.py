"""The page of the demo run as a reader opens it: quiet, readable on a phone, and the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.launch() as started:
        yield started


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (375, False), (375, True)])
def test_quiet_and_within_the_window(chromium: Any, demo_run: Path, width: int, dark: bool) -> None:
    with browser.opened(chromium, demo_run / "report.html", width=width, dark=dark) as (tab, wrong):
        tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert tab.evaluate("document.scrollingElement.scrollWidth") <= width
        pictures = tab.evaluate("[...document.images].map(i => [i.alt, i.complete && i.naturalWidth > 0])")
        assert len(pictures) > 20 and all(alt.strip() and drawn for alt, drawn in pictures)
        assert wrong == []


@pytest.mark.browser
def test_headings_contents_and_both_schemes(chromium: Any, demo_run: Path) -> None:
    grounds = set()
    for dark in (False, True):
        with browser.opened(chromium, demo_run / "report.html", dark=dark) as (tab, _):
            levels = tab.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])")
            assert levels[0] == 1 and levels.count(1) == 1
            assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
            dead = (
                "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.hash)).length"
            )
            assert tab.evaluate(dead) == 0
            titles = tab.evaluate("[...document.querySelectorAll('nav a')].map(a => a.textContent.trim())")
            for chapter in ("Data audit", "Inference", "Detection", "Summary", "Provenance"):
                assert any(chapter in title for title in titles)
            grounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_rendered_again_it_is_the_same(demo_run: Path) -> None:
    from birdlab.report.render import render_run

    page = demo_run / "report.html"
    before = page.read_bytes()
    assert render_run(demo_run).read_bytes() == before
    assert b"http://" not in before.replace(b"http://www.w3.org/", b"") and len(before) < 8_000_000
