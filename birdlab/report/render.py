"""``report.html`` from what a run left: the executed notebooks and ``run.json``. Nothing is executed.

The same run renders to the same bytes. Numbers of tables and figures are given here, in the order of the report, and
references to them (``[[tab-detection]]``) are resolved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem
from birdlab.recipe import kinds
from birdlab.report import frame
from birdlab.report.chapter import Chapter, add_note, level_headings, opening, read_chapter
from birdlab.report.entries import read_record
from birdlab.report.html import Html, el, in_text, join, link_references
from birdlab.report.missing import missing
from birdlab.report.provenance import provenance
from birdlab.shards import write_atomic
from birdlab.style import Hue, colours_of_kinds

_NUMBER = re.compile(r'<b data-no="([a-z0-9-]+)">[A-Z][a-z]+</b>')
_UNIT = re.compile(r"(?<=\d) (?=(?:%|px|pp)(?![A-Za-z]))")  # a number and its unit stay on one line
_LEFT = re.compile(r"\[\[([a-z]{3}-[a-z0-9-]+)\]\]")


def render_run(run_dir: Path) -> Path:
    """Write ``report.html`` into a run's folder and return its path.

    Args:
        run_dir: folder of a run, with ``run.json`` and ``notebooks/``.

    Raises:
        DataError: it is no folder, or the folder holds no ``run.json``, or one that cannot be read.
    """
    run_dir = Path(run_dir)
    if run_dir.is_file():
        folder = "the folder of a run (birdlab run names it like its recipe, reports/demo for instance)"
        raise DataError(Problem("not_a_folder", "a file", folder, file=str(run_dir)))
    path = run_dir / "run.json"
    record = _read_json(path, "run.json of a run", "`birdlab run RECIPE` writes it")
    if wrong := _odd_record(record):
        raise DataError(
            Problem("not_a_record", wrong, "run.json as a run writes it", "run the recipe again", str(path))
        )
    text = render(record, _read_notebooks(run_dir, record), records=run_dir)
    path = run_dir / "report.html"
    write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    return path


def missing_of(run_dir: Path) -> list[Problem]:
    """What a run's folder lacks of what its ``run.json`` says was made; see :func:`birdlab.report.missing.missing`."""
    run_dir = Path(run_dir)
    record = _read_json(run_dir / "run.json", "run.json of a run", "`birdlab run RECIPE` writes it")
    return missing(run_dir, frame.notebooks(record), _read_notebooks(run_dir, record))


def render(
    record: Mapping[str, Any], notebooks: Mapping[str, Mapping[str, Any]], *, records: Path | None = None
) -> Html:
    """The whole page.

    Args:
        record: ``run.json``.
        notebooks: executed notebooks by name; one that never ran is absent.
        records: folder of the run, where notebooks note what they do not display.
    """
    sections = (("models",), ("abstention", "models"), ("training", "models"))
    listed = [frame.at(record, "recipe", *key, default=[]) or [] for key in sections]
    named = [[str(m.get("name")) for m in models if isinstance(m, Mapping)] for models in listed]
    for task in ("actions", "keypoints"):
        predictions = frame.at(record, "recipe", "individuals", task, "predictions", default={})
        named += [list(predictions)] if isinstance(predictions, Mapping) and predictions else []
    hues = colours_of_kinds(kinds(*named))
    chapters: list[Chapter] = []
    lost = missing(records, frame.notebooks(record), notebooks) if records is not None else []
    gone = [Path(str(p.file)).relative_to(records).as_posix() for p in lost] if records is not None else []
    for number, about in enumerate(frame.notebooks(record), start=1):
        chapter = read_chapter(str(about["name"]), number, notebooks.get(str(about["name"])), about, hues, gone=gone)
        if records is not None and chapter.status not in ("pending", "lost"):
            _recall(chapter, records, hues)
        chapters.append(chapter)
    _unique_slugs(chapters)
    labels = number_artefacts(chapters)
    sections, problems = [], [f"Missing from the run’s folder: {path}." for path in gone]
    for chapter in chapters:
        body = _finish(join(*chapter.body), labels)
        problems += [
            f"{chapter.title}: nothing in this report is called {left}."
            for left in sorted(set(_LEFT.findall(body)) - set(labels))
        ]
        sections.append(el("section", opening(chapter, hues), level_headings(body), id=chapter.slug))
    notes = frame.run_notes(chapters, problems)
    title = str(frame.at(record, "recipe", "title") or frame.at(record, "recipe", "name", default="Untitled study"))
    main = el(
        "main",
        _finish(frame.first_screen(record, chapters, hues, n_missing=len(lost)), labels),
        _finish(frame.in_brief(chapters, hues), labels),
        *[join(Html("\n"), section) for section in sections],
        notes,
        provenance(record, chapters, _hashes(records)),
        id="main",
        tabindex="-1",
    )
    skip = el("a", "Skip to the report", cls="skip", href="#main")
    layout = el("div", frame.contents(chapters, has_notes=notes is not None), main, cls="lay")
    return frame.page(title, [skip, layout])


def number_artefacts(chapters: list[Chapter]) -> dict[str, str]:
    """ "Table 3" or "Figure 2" for every id, counted in the order of the report."""
    counts = {"Table": 0, "Figure": 0}
    labels: dict[str, str] = {}
    for chapter in chapters:
        for entry in chapter.artefacts:
            word = "Table" if entry["kind"] == "table" else "Figure"
            if entry["id"] not in labels:
                counts[word] += 1
                labels[entry["id"]] = f"{word} {counts[word]}"
    return labels


def _finish(html: Html, labels: Mapping[str, str]) -> Html:
    numbered = _NUMBER.sub(lambda m: el("b", labels.get(m[1], "")), html)

    def link(ident: str) -> Html | None:
        return el("a", labels[ident], href=f"#{ident}") if ident in labels else None

    linked = link_references(numbered, link, labels.get)
    return in_text(linked, lambda text: _UNIT.sub("\u00a0", text))


def _recall(chapter: Chapter, run_dir: Path, hues: Mapping[str, Hue]) -> None:
    """Add what the notebook noted without displaying it: several headline numbers in one cell, a kernel that died."""
    entries = read_record(run_dir, chapter.name)["entries"]
    if chapter.answer is None:
        chapter.answer = next((e for e in entries if e["kind"] == "answer"), None)
    if not chapter.headlines:
        chapter.headlines = [e for e in entries if e["kind"] == "headline"]
    seen = {note["text"] for note in chapter.notes}
    for entry in entries:
        if entry["kind"] == "note" and entry["text"] not in seen:
            add_note(chapter, entry, hues)


def _hashes(run_dir: Path | None) -> dict[str, str]:
    """Hashes of input files as ``hashes.json`` has them: path to (bytes, time, sha256)."""
    try:
        known = json.loads((run_dir / "hashes.json").read_text(encoding="utf-8")) if run_dir else {}
    except (OSError, ValueError):
        return {}
    return (
        {str(k): str(v[-1]) for k, v in known.items() if isinstance(v, list) and v} if isinstance(known, dict) else {}
    )


def _unique_slugs(chapters: list[Chapter]) -> None:
    seen: set[str] = set()
    for chapter in chapters:
        if chapter.slug in seen:
            chapter.body = [
                Html(piece.replace(f'id="{chapter.slug}-failed"', f'id="{chapter.slug}-{chapter.number}-failed"'))
                for piece in chapter.body
            ]
            chapter.slug = f"{chapter.slug}-{chapter.number}"
        seen.add(chapter.slug)


def _read_notebooks(run_dir: Path, record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for about in frame.notebooks(record):
        name = str(about["name"])
        path = run_dir / "notebooks" / f"{Path(name).name}.ipynb"
        if path.exists():
            found[name] = _read_json(path, "an executed notebook", "run the recipe again")
            if wrong := _odd_notebook(found[name]):
                expected = "a notebook as Jupyter writes it"
                raise DataError(Problem("not_a_notebook", wrong, expected, "run the recipe again", str(path)))
    return found


def _read_json(path: Path, what: str, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(Problem("no_file", "no such file", what, remedy, file=str(path))) from error
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise DataError(Problem("unreadable", found, what, remedy, file=str(path))) from error
    if not isinstance(value, dict):
        raise DataError(Problem("unreadable", type(value).__name__, what, remedy, file=str(path)))
    return value


def _odd_record(record: Mapping[str, Any]) -> str | None:
    """What in ``run.json`` is of another type than a run writes."""
    recipe = record.get("recipe") or {}
    if not isinstance(recipe, dict):
        return f"a recipe that is {type(recipe).__name__}"
    for key, kind in (("data", dict), ("scoring", dict), ("models", list), ("notebooks", list)):
        if not isinstance(recipe.get(key), kind | None):
            return f"recipe.{key} that is {type(recipe[key]).__name__}"
    return None


def _odd_notebook(notebook: Mapping[str, Any]) -> str | None:
    """What in an executed notebook is of another type than Jupyter writes."""
    cells = notebook.get("cells", [])
    for index, cell in enumerate(cells if isinstance(cells, list) else [cells], start=1):
        if not isinstance(cell, dict) or not isinstance(cell.get("metadata", {}), dict):
            return f"cell {index} that is no cell"
        if not isinstance(cell.get("source", ""), str | list):
            return f"cell {index} whose source is {type(cell['source']).__name__}"
        outputs = cell.get("outputs", [])
        if not isinstance(outputs, list) or not all(_is_output(output) for output in outputs):
            return f"cell {index} with an output that is none"
    return None


def _is_output(output: Any) -> bool:
    if not isinstance(output, dict) or not isinstance(output.get("data", {}), dict):
        return False
    texts = [value for kind, value in output.get("data", {}).items() if not kind.endswith("json")]
    return all(isinstance(text, str | list) for text in texts)
