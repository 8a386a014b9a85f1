"""What a notebook showed, written down as it is shown: one small file per item, one record when it finishes.

There is no hidden state between two calls of a notebook: everything shown so far lies in
``records/.<notebook>.parts/`` and becomes ``records/<notebook>.json`` at the end. The same entry travels inside the
notebook's output, so the page needs nothing but the executed notebook.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from birdlab.errors import ParameterError, Problem
from birdlab.report.html import Html
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    from birdlab.study import Run

MIME = "application/vnd.birdlab.shown+json"  #: marks an output made here; holds its entry
BEGIN, END = "<!--shown-->", "<!--/shown-->"  #: around the part of an output that goes into the page
PREFIXES = {"table": ("tab-",), "figure": ("fig-",), "gallery": ("gal-", "fig-")}
_ID = re.compile(r"[a-z]{3}-[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True)
class Shown:
    """What a cell displays: HTML for JupyterLab and for the page, and the entry that says what it is."""

    html: Html
    entry: Mapping[str, Any]
    text: str = ""

    def _repr_html_(self) -> str:
        return f'<div class="bl bl-lab"><style>{lab_css()}</style>{BEGIN}{self.html}{END}</div>'

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": self._repr_html_(), "text/plain": self.text, MIME: dict(self.entry)}


def lab_css() -> str:
    """The part of the style sheet that tables, figures and galleries need in JupyterLab."""
    text = files("birdlab.report").joinpath("page.css").read_text(encoding="utf-8")
    _, _, rest = text.partition("/* shown */")
    return rest.partition("/* end of shown */")[0].strip()


def begin(run: Run) -> None:
    """Forget what an earlier, unfinished pass of this notebook showed; the record of a finished one stays."""
    shutil.rmtree(_parts(run.dir, run.notebook), ignore_errors=True)


def put(run: Run, kind: str, key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Note one item; showing it again replaces it and keeps its place. Returns the entry with its kind and notebook."""
    full = {"kind": kind, "notebook": run.notebook, **entry}
    folder = _parts(run.dir, run.notebook)
    name = f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"
    there = sorted(folder.glob("*.json")) if folder.exists() else []
    path = next((p for p in there if p.name.partition("-")[2] == name), folder / f"{len(there):04d}-{name}")
    _write_json(path, full)
    return full


def finish(run: Run) -> None:
    """Write ``records/<notebook>.json`` from everything shown since :func:`begin`."""
    entries = _read_parts(run.dir, run.notebook)
    _write_json(_record(run.dir, run.notebook), {"notebook": run.notebook, "complete": True, "entries": entries})
    begin(run)


def read_record(run_dir: Path, notebook: str) -> dict[str, Any]:
    """What a notebook showed: ``{"notebook", "complete", "entries"}``.

    Each entry has ``kind`` (table, figure, gallery, answer, headline, note) and ``notebook``; artefacts also have
    ``id, title, caption, alt, path, sha256``. A notebook that did not finish gives what it showed so far, with
    ``complete`` false; one that never ran gives no entries.
    """
    parts = _read_parts(run_dir, notebook)
    if parts:
        return {"notebook": notebook, "complete": False, "entries": parts}
    try:
        record = json.loads(_record(run_dir, notebook).read_text(encoding="utf-8"))
        if all(entry["kind"] and entry["notebook"] for entry in record["entries"]):
            return record
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a damaged record is like none: the notebook's own outputs say what it showed
    return {"notebook": notebook, "complete": False, "entries": []}


def check_id(run: Run, kind: str, ident: str) -> None:
    """Refuse an id that is malformed or that another notebook of the recipe uses in this run.

    Raises:
        ParameterError: with the names of both notebooks where an id is used twice.
    """
    if not _ID.fullmatch(ident) or not ident.startswith(PREFIXES[kind]):
        wanted = " or ".join(f"{prefix}name" for prefix in PREFIXES[kind])
        raise ParameterError(
            Problem(
                "bad_id", repr(ident), f"{wanted} in small letters, digits and hyphens", file=run.notebook, key="id"
            )
        )
    for name, _ in run.recipe.steps():
        other = Path(name).name
        if other == run.notebook:
            continue
        if any(e.get("id") == ident for e in read_record(run.dir, other)["entries"]):
            raise ParameterError(
                Problem(
                    "duplicate_id",
                    f"{ident!r} in {run.notebook} and in {other}",
                    "one notebook for each id",
                    "rename one of the two",
                    key="id",
                )
            )


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _record(run_dir: Path, notebook: str) -> Path:
    return run_dir / "records" / f"{notebook}.json"


def _parts(run_dir: Path, notebook: str) -> Path:
    return run_dir / "records" / f".{notebook}.parts"


def _read_parts(run_dir: Path, notebook: str) -> list[dict[str, Any]]:
    folder = _parts(run_dir, notebook)
    return (
        [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        if folder.exists()
        else []
    )


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="replace"))
