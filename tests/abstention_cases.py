"""Tiny studies of photographs to be named, with a list of six birds, for tests from the recipe to the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

import birdlab as bl
from birdlab.study import Run

#: Three gulls, two crows, and the chat that is alone in its genus.
SPECIES = (
    "Larus argentatus", "Larus fuscus", "Larus canus", "Corvus corax", "Corvus corone", "Icteria virens",
)  # fmt: skip
LIST = """genus,species,common_name
Larus,argentatus,Herring Gull
Larus,fuscus,Lesser Black-backed Gull
Larus,canus,Common Gull
Corvus,corax,Common Raven
Corvus,corone,Carrion Crow
Icteria,virens,Yellow-breasted Chat
"""


def item(name: str, species: str | None = None, *, genus: str | None = None, **more: Any) -> dict[str, Any]:
    """An answerable photograph of a species, or an unanswerable one of a genus."""
    about = {
        "genus": genus or (species or "").split(" ")[0],
        "species": species,
        "is_answerable": int(species is not None),
    }
    return {"item_id": name, **about, **more}


def answers(said: Mapping[str, str], *, prompt: str = "p", permits: bool = True) -> list[dict[str, Any]]:
    """Rows of an answers file: one prompt's answer to every item."""
    about = {"prompt_id": prompt, "permits_abstention": permits}
    return [{"item_id": name, **about, "answer": text} for name, text in said.items()]


def matrix(rows: Mapping[str, Sequence[float]], labels: Sequence[str] = SPECIES) -> pl.DataFrame:
    """Species probabilities, a row per item."""
    values = np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), len(labels))
    return pl.DataFrame({"item_id": list(rows)}).with_columns(pl.Series(s, values[:, j]) for j, s in enumerate(labels))


def write_study(
    folder: Path,
    items: Sequence[Mapping[str, Any]],
    models: Mapping[str, Any],
    *,
    about: Mapping[str, Mapping[str, Any]] | None = None,
    recipe: Mapping[str, Any] | None = None,
    items_file: str = "items.csv",
    **section: Any,
) -> Path:
    """Write items, the list, one file per model and the recipe.

    Args:
        folder: where.
        items: of :func:`item`.
        models: name -> a frame (probabilities) or a list of rows (answers).
        about: name -> further keys of the model.
        recipe: further sections of the recipe.
        items_file: name of the items file, CSV or parquet.
        **section: further keys of the section ``abstention``.

    Returns:
        The recipe.
    """
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "birds.csv").write_text(LIST, encoding="utf-8")
    flat = [{k: "|".join(v) if isinstance(v, (list, tuple)) else v for k, v in row.items()} for row in items]
    section = {"items": items_file, **section}
    frame = pl.DataFrame(flat, infer_schema_length=None)
    frame.write_csv(data / items_file) if items_file.endswith(".csv") else frame.write_parquet(data / items_file)
    listed = []
    for number, (name, given) in enumerate(models.items()):
        one: dict[str, Any] = {"name": name}
        if isinstance(given, pl.DataFrame):
            one["scores"] = f"m{number}.parquet"
            given.write_parquet(data / one["scores"])
        elif given is not None:
            one["answers"] = f"m{number}.jsonl"
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in given)
            (data / one["answers"]).write_text(text, encoding="utf-8")
        listed.append(one | dict((about or {}).get(name, {})))
    chapter = {"taxonomy": "data/birds.csv", "n_resamples": 200, **section, "models": listed}
    whole = {"name": "study", "data": {"root": "data"}, "abstention": chapter, **(recipe or {})}
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def opened(recipe: Path) -> Run:
    """The study, as 09_abstention opens it."""
    return bl.start(str(recipe), notebook="09_abstention")


def study(folder: Path, items: Sequence[Mapping[str, Any]], models: Mapping[str, Any], **more: Any) -> Run:
    """Write a study and open it."""
    return opened(write_study(folder, items, models, **more))


def cells_of(project: Path, recipe: Path, *, notebook: str = "09_abstention", run_dir: str = "") -> Run:
    """Every code cell of a committed notebook, one after the other, without a kernel; the run it worked on."""
    cells = json.loads((project / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"display": lambda *_: None}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook}:{cell['id']}", "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                names |= {"recipe": str(recipe), "run_dir": run_dir}
    return names["run"]


def number(run: Run, metric: str, model: str, *, group: str = "all", level: str = "all") -> dict[str, Any]:
    """The one row of ``metrics_abstention``."""
    key = (pl.col("metric") == metric) & (pl.col("model") == model) & (pl.col("group") == group)
    rows = run.table("metrics_abstention").filter(key & (pl.col("level") == level) & pl.col("published").is_null())
    assert rows.height == 1, (metric, model, group, level, rows)
    return rows.row(0, named=True)
