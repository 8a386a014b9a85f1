"""A headless Chromium for the tests of the page; where there is none they are skipped, but never under ``CI=true``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """Path of a browser: ``BIRDLAB_CHROMIUM``, or the first one installed."""
    given = os.environ.get("BIRDLAB_CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def missing(reason: str) -> None:
    """Skip the test, or fail it under ``CI=true``."""
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason}; under CI the browser tests must run")
    pytest.skip(reason)


@contextmanager
def launch() -> Iterator[Any]:
    """A started browser (playwright's), closed at the end."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    path = find()
    if path is None:
        missing("no Chromium found (Debian: apt-get install chromium; or set BIRDLAB_CHROMIUM)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, path: Path, *, width: int = 1280, dark: bool = False, javascript: bool = True
) -> Iterator[tuple[Any, list[str]]]:
    """A page showing a file, and the list of what went wrong on it: console errors, exceptions, foreign requests."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=javascript
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on(
        "console",
        lambda message: (
            wrong.append(f"console {message.type}: {message.text}") if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
    address = path.resolve().as_uri()
    page.on(
        "request",
        lambda request: None if request.url.startswith(("data:", address)) else wrong.append(f"request: {request.url}"),
    )
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    try:
        page.goto(address)
        yield page, wrong
    finally:
        context.close()
