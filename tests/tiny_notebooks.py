"""Small notebooks and studies for the tests of the runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

PARAMETERS = 'recipe: str = "reports/study.yaml"  # recipe file\nrun_dir: str = ""  # folder of the run'


def code(source: str, **metadata: Any) -> dict[str, Any]:
    """A code cell."""
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def text(source: str) -> dict[str, Any]:
    """A markdown cell."""
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def make(path: Path, *cells: str, parameters: str = "", kernel: str | None = "python3") -> Path:
    """Write a notebook that is fit to run, with the given code cells between its start and its end."""
    body = [
        text(f"# Chapter {path.stem}\n\nWhat it asks, and what it finds."),
        code("\n".join(filter(None, [PARAMETERS, parameters])), tags=["parameters"]),
        code(f'import birdlab as bl\n\nrun = bl.start(recipe, run_dir, notebook="{path.stem}")'),
        *[code(cell) for cell in cells],
        text("## Limits\n\nMade for a test."),
        code("run.finish()"),
    ]
    return write(path, body, kernel=kernel)


def write(path: Path, cells: list[dict[str, Any]], *, kernel: str | None = "python3") -> Path:
    """Write a notebook of the given cells."""
    cells = [{**cell, "id": f"c{i}"} for i, cell in enumerate(cells)]
    spec = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}} if kernel else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8"
    )
    return path


def study(root: Path, *notebooks: Any, extra: str = "") -> Path:
    """A project with two photographs and a recipe of the given notebooks; returns the recipe."""
    (root / "notebooks").mkdir(parents=True, exist_ok=True)
    (root / "reports").mkdir(exist_ok=True)
    (root / "photos").mkdir(exist_ok=True)
    for i in range(2):
        cv2.imwrite(str(root / "photos" / f"{i}.jpg"), np.full((48, 64, 3), 60 + 40 * i, np.uint8))
    recipe = root / "reports" / "study.yaml"
    listed = json.dumps(list(notebooks))
    recipe.write_text(
        f'name: study\ndata:\n  root: ../photos\n  media:\n    - images: "*.jpg"\nnotebooks: {listed}\n{extra}',
        encoding="utf-8",
    )
    return recipe
