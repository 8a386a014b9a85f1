"""What the runner says on stderr while it works: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol


class Console(Protocol):
    """Someone who is told how a run goes."""

    def line(self, text: str) -> None:
        """Say one line."""

    def begin(self, name: str) -> None:
        """A notebook starts."""

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        """A notebook is at a cell (``cell``, ``of``) or says how far it is (``progress``)."""

    def end(self, name: str, text: str) -> None:
        """A notebook ended; ``text`` says how."""

    def close(self) -> None:
        """Nothing more comes."""


class PlainConsole:
    """One line when a notebook starts, one when it ends, and at most two a minute on how far long work is."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._last = ""

    def line(self, text: str) -> None:
        """Write a line."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def begin(self, name: str) -> None:
        """Say that it runs."""
        self.line(f"{name}: running")

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        """Say how far it is, when something changed and half a minute has passed."""
        text = str(event.get("progress", ""))
        if text and text != self._last and time.monotonic() - self._said > 30:
            self._said, self._last = time.monotonic(), text
            self.line(f"{name}: {text}")

    def end(self, name: str, text: str) -> None:
        """Say how it ended."""
        self.line(f"{name}: {text}")

    def close(self) -> None:
        """Nothing to clear."""


class RichConsole:
    """One bar per running notebook, with the cell it is in and its last progress line; respects ``NO_COLOR``."""

    def __init__(self) -> None:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[what]}", markup=False),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=Terminal(stderr=True, highlight=False), transient=True)
        self._bars.start()
        self._tasks: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Write a line above the bars."""
        self._bars.console.print(text, markup=False, soft_wrap=True)

    def begin(self, name: str) -> None:
        """Add a bar."""
        self._tasks[name] = self._bars.add_task(name, total=None, what="starting")

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        """Move the bar."""
        if "cell" in event:
            self._bars.update(
                self._tasks[name],
                completed=event["cell"],
                total=event["of"],
                what=f"cell {event['cell'] + 1} of {event['of']}",
            )
        elif "progress" in event:
            self._bars.update(self._tasks[name], what=str(event["progress"])[:60])

    def end(self, name: str, text: str) -> None:
        """Replace the bar by a line."""
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self.line(f"{name}: {text}")

    def close(self) -> None:
        """Clear the bars."""
        self._bars.stop()


def open_console() -> Console:
    """Bars when stderr is a terminal that can draw them, plain lines otherwise."""
    return RichConsole() if sys.stderr.isatty() else PlainConsole()


def seconds_text(seconds: float) -> str:
    """A duration in words.

    >>> seconds_text(7.25), seconds_text(754)
    ('7.2 s', '12 min 34 s')
    """
    return (
        f"{seconds:.1f} s"
        if seconds < 60
        else time.strftime("%M min %S s", time.gmtime(seconds))
        if seconds < 3600
        else f"{seconds / 3600:.1f} h"
    )
