"""What a finished run no longer has in its folder: executed notebooks, records, saved tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from birdlab.errors import Problem
from birdlab.report.entries import MIME

#: Files that a table, figure or gallery leaves, by their endings.
ENDINGS = {"table": ("parquet", "csv", "tex"), "figure": ("png", "svg", "pdf", "csv"), "gallery": ("json",)}
DONE = ("complete", "unchanged")
_AGAIN = "run the recipe again, or copy the whole folder of the run"


def missing(run_dir: Path, entries: list[dict[str, Any]], notebooks: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Files that notebooks which ended well wrote and that are gone.

    Args:
        run_dir: folder of the run.
        entries: of the notebooks in ``run.json``.
        notebooks: executed notebooks by name, of those that are there.

    Returns:
        One problem per file, in the order of the report; none for notebooks that never ran or failed.
    """
    problems = []
    for name in (str(e["name"]) for e in entries if e.get("status") in DONE):
        if name not in notebooks:
            problems.append(_gone(run_dir, f"notebooks/{Path(name).name}.ipynb", "the executed notebook of a chapter"))
            continue
        shown = list(displayed(notebooks[name]))
        if shown and not (run_dir / "records" / f"{Path(name).name}.json").is_file():
            problems.append(_gone(run_dir, f"records/{Path(name).name}.json", "what a notebook noted for the report"))
        for entry in shown:
            paths = files_of(entry)
            problems += [_gone(run_dir, p, f"saved by {name}") for p in paths if not (run_dir / p).is_file()]
    return problems


def displayed(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What an executed notebook displays of birdlab's, in order."""
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []) if isinstance(cell, Mapping) else []:
            entry = output.get("data", {}).get(MIME)
            if isinstance(entry, dict):
                yield entry


def files_of(entry: Mapping[str, Any]) -> list[str]:
    """Paths, from the run's folder, of the files that a table, figure or gallery was saved as; none for other entries.

    >>> files_of({"kind": "table", "path": "tables/tab-a.parquet"})
    ['tables/tab-a.parquet', 'tables/tab-a.csv', 'tables/tab-a.tex']
    """
    stem = str(entry.get("path", "")).rpartition(".")[0]
    return [f"{stem}.{ending}" for ending in ENDINGS.get(str(entry.get("kind")), ())] if stem else []


def _gone(run_dir: Path, path: str, what: str) -> Problem:
    return Problem("missing", "no such file", what, _AGAIN, file=str(run_dir / path))
