"""``run.json``: what is true about a run, written as it goes.

An executed notebook cannot be trusted to say that it ended well; this record can. It is replaced as a whole at every
change, so a killed run leaves the last state, in which a notebook that was running is ``running``.

Keys: ``schema``, ``state`` (running, complete, incomplete, interrupted), ``recipe`` (with every default),
``recipe_file``, ``recipe_sha256``, ``title``, ``versions``, ``platform``, ``git``, ``package_sha256``, ``inputs``
(digest of data, labels, weights and predictions), ``device``, ``started``, ``finished``, ``seconds``, ``scored``
(split to the number of times it was scored), ``test_looks`` (how often trainings of this run's folder were scored on
a test part) and ``notebooks``. Each notebook has ``name``, ``file``, ``status``
(pending, running, complete, unchanged, failed), ``reason`` (why it is pending), ``key``, ``parameters``, ``started``,
``finished``, ``seconds``, ``error`` (``cell``: index in the executed copy, ``where``: cell of the source, ``ename``,
``evalue``, ``traceback``, ``source``), ``artefacts`` (ids), ``notes``, ``warnings`` (number), ``style`` (number of
style problems) and ``log``.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import math
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

import birdlab
from birdlab.recipe import Recipe
from birdlab.shards import write_atomic

SCHEMA = 1
#: Libraries whose versions can change a number or the page.
LIBRARIES = (
    "polars numpy pyarrow opencv-python av hotcoco pycocotools statsmodels scikit-image matplotlib papermill nbclient nbconvert ipykernel"
    " torch torchvision ultralytics onnxruntime openvino"
).split()
#: Files of the package that draw the page only: a notebook need not run again when they change.
PAGE_FILES = (
    *(
        f"report/{name}"
        for name in ("render.py", "chapter.py", "frame.py", "provenance.py", "markdown.py", "page.css", "page.js")
    ),
    *("cli.py", "report/console.py"),
)
#: Keys of the record that differ between two runs of the same study.
TIMES = ("started", "finished", "seconds")
_log = logging.getLogger("birdlab")


def now() -> str:
    """The time, UTC, to the second (ISO 8601)."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def read(run_dir: Path) -> dict[str, Any]:
    """The record of a run's folder; empty when there is none, or none that can be read (which is logged)."""
    path = run_dir / "run.json"
    try:
        doc = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read (%s): every notebook is executed again", path.name, error)
        return {}
    if not isinstance(doc, dict) or doc.get("schema") != SCHEMA:
        return {}
    listed = doc.get("notebooks")
    if not isinstance(listed, list) or not all(isinstance(e, dict) and isinstance(e.get("name"), str) for e in listed):
        _log.warning("%s does not list its notebooks: every notebook is executed again", path.name)
        return {}
    return doc


def write(run_dir: Path, doc: Mapping[str, Any]) -> None:
    """Replace the record."""
    text = json.dumps(_strict(doc), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    write_atomic(run_dir / "run.json", lambda temporary: temporary.write_text(text, encoding="utf-8"))


def describe(recipe: Recipe, recipe_path: Path, root: Path) -> dict[str, Any]:
    """The part of the record that says what is run, with what."""
    return {
        "schema": SCHEMA,
        "state": "running",
        "title": recipe.title,
        "recipe": recipe.model_dump(mode="json"),
        "recipe_file": relative(recipe_path, root),
        "recipe_sha256": hashlib.sha256(recipe_path.read_bytes()).hexdigest(),
        "versions": versions(),
        "platform": platform.platform(),
        "git": git_state(root),
        "package_sha256": package_digest(),
        "device": recipe.device,
    }


def versions() -> dict[str, str]:
    """Versions of Python, birdlab and the libraries that are installed."""
    found = {"python": platform.python_version(), "birdlab": birdlab.__version__}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state(root: Path) -> dict[str, Any] | None:
    """Commit of the project and whether tracked files differ from it; ``None`` outside a repository or before a commit."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changed)}


def package_digest(*, page: bool = False) -> str:
    """Digest of birdlab's own source, without the files that only draw the page (with ``page``: of those and all others)."""
    home = Path(birdlab.__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(p for p in home.rglob("*") if p.suffix in (".py", ".css", ".js")):
        name = path.relative_to(home).as_posix()
        if page or not (name in PAGE_FILES or name.startswith(("check/", "init/"))):
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def entry(name: str, file: str, key: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a notebook that has not been run yet."""
    blank = {
        "started": None,
        "finished": None,
        "seconds": None,
        "error": None,
        "artefacts": [],
        "notes": [],
        "warnings": 0,
        "log": None,
    }
    return {
        "name": name,
        "file": file,
        "status": "pending",
        "reason": "",
        "key": key,
        "parameters": dict(parameters),
        "style": 0,
        **blank,
    }


def shown(run_dir: Path, name: str) -> dict[str, list[str]]:
    """Ids of what a notebook showed, and its notes, from ``records/<name>.json``; empty lists when it wrote none."""
    from birdlab.report.entries import read_record

    entries = read_record(run_dir, name)["entries"]
    return {
        "artefacts": [e["id"] for e in entries if "id" in e],
        "notes": [str(e.get("text", "")) for e in entries if e.get("kind") == "note"],
    }


def used_device(run_dir: Path, asked: str) -> str:
    """The device in words, as the tables of speed or of trainings have it; what the recipe asks for when no model has run."""
    for table in ("speed", "training_cards"):
        path = run_dir / "tables" / f"{table}.parquet"
        try:
            names = pl.read_parquet(path, columns=["device"])["device"].drop_nulls().unique(maintain_order=True)
        except (OSError, pl.exceptions.PolarsError):
            continue
        if names.len():
            return "; ".join(names)
    return asked


def test_looks(run_dir: Path) -> int | None:
    """How often trainings in a run's folder were scored on a test part; ``None`` where nothing was trained."""
    try:
        looks = json.loads((run_dir / "training" / "test_looks.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return len(looks) if isinstance(looks, list) else None


def relative(path: Path, root: Path) -> str:
    """``path`` from ``root`` with forward slashes; a path elsewhere by its last two parts, behind an ellipsis."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return "…/" + "/".join(path.parts[-2:])


def files_digest(paths: Iterable[Path]) -> str:
    """Digest of the names and bytes of files, in order; one that is missing counts as such."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0".encode() + (path.read_bytes() if path.is_file() else b"\0missing"))
    return digest.hexdigest()


def _git(root: Path, *command: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()


def _strict(value: Any) -> Any:
    """JSON has no NaN and no infinity; as parameters of a notebook they are text in the record."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _strict(v) for k, v in value.items()}
    return [_strict(v) for v in value] if isinstance(value, list | tuple) else value
