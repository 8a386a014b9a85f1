"""How far long work is: a bar on a terminal, a line per tenth elsewhere, nothing on a notebook's stderr.

Every step is also written to a small file when one is given, so that whoever started the notebook can look there.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from birdlab.shards import write_atomic

log = logging.getLogger("birdlab")


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel, where stderr would become part of the notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


@contextmanager
def progress(label: str, *, unit: str = "shards", state: Path | None = None) -> Iterator[Callable[[int, int], None]]:
    """Give a function ``step(done, total)`` that shows how far the work is.

    On a terminal it moves one bar on stderr; where stderr is no terminal it writes one line per tenth of the work;
    in a notebook it writes to the ``birdlab`` logger only.

    Args:
        label: what is being done, in a few words.
        unit: what is counted.
        state: file that gets ``{"label", "done", "total", "unit"}`` at every step, replaced whole each time.

    >>> with progress("yolo", unit="frames") as step:
    ...     step(0, 0)
    """
    if not in_notebook() and sys.stderr.isatty():
        with _bar(label, unit) as show:
            yield _step(show, label, unit, state)
    else:
        yield _step(_lines(label, unit), label, unit, state)


def _step(show: Callable[[int, int], None], label: str, unit: str, state: Path | None) -> Callable[[int, int], None]:
    def step(done: int, total: int) -> None:
        show(done, total)
        if state is not None:
            text = json.dumps({"label": label, "done": done, "total": total, "unit": unit}, ensure_ascii=False)
            write_atomic(state, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))

    return step


@contextmanager
def _bar(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(label: str, unit: str) -> Callable[[int, int], None]:
    quiet, last = in_notebook(), -1

    def show(done: int, total: int) -> None:
        nonlocal last
        tenth = 10 * done // total if total else 10
        if tenth == last:
            return
        last = tenth
        line = f"{label}: {done} of {total} {unit}"
        log.info(line)
        if not quiet:
            sys.stderr.write(f"birdlab: {line}\n")
            sys.stderr.flush()

    return show
