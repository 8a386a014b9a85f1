"""A notebook as a file: where it is, what it declares, and whether it is fit to be a chapter of a report.

``check_notebook`` lists everything that is wrong with one. Some of it would make a wrong report look right (no
parameters cell, a derived parameter, a skipped cell): ``fit_to_run`` picks those, and the runner refuses them before
any kernel starts. The rest is the house style.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import birdlab
from birdlab.errors import NotebookError, ParameterError, Problem
from birdlab.report.parameters import RESERVED, Parameter, bind, from_text, parse_parameters

__all__ = [
    "Parameter",
    "bind",
    "check_notebook",
    "find_notebook",
    "fit_to_run",
    "from_text",
    "parse_parameters",
    "project_root",
    "read_notebook",
]

MAX_CELLS, MAX_LINES = 15, 8
#: Codes of problems that ``birdlab run`` refuses; the others are style.
BLOCKING = frozenset(
    (
        "no_notebook",
        "not_a_notebook",
        "syntax_error",
        "no_parameters",
        "parameters_cells",
        "not_a_parameter",
        "not_literal",
    )
    + (
        "set_twice",
        "bad_default",
        "no_run_parameters",
        "skipped_cell",
        "no_code",
        "wrong_name",
        "no_start",
        "no_finish",
    )
)
_SHOWS = ("show_table", "show_figure", "show_gallery")
_FILE_NAME = re.compile(
    r"^(?:/|\./|\.\./|~/|[A-Za-z]:[\\/])\S*$|^[\w.\-~*/\\]+\.(?:csv|tsv|txt|json|ya?ml|parquet|ipynb|py|pt|onnx|jpe?g|png|tiff?|mp4|avi|mov|wav|svg|pdf)$"
)
_HEADING = re.compile(r"^(#{1,6})\s+(\S.*)$", re.MULTILINE)
_LIMITS = re.compile(r"^\s*(?:#{2,6}\s.*|\*\*\s*|)\blimit(?:s|ations?)?\b", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class _Code:
    """A code cell: its place, text, syntax tree (``None`` where it is not Python) and tags."""

    record: str
    text: str
    tree: ast.Module | None
    is_parameters: bool


def project_root(recipe_path: Path) -> Path:
    """The nearest folder above a recipe that has ``notebooks/``; the recipe's own folder when there is none."""
    base = recipe_path.resolve().parent
    return next((folder for folder in (base, *base.parents) if (folder / "notebooks").is_dir()), base)


def find_notebook(step: str, recipe_path: Path) -> Path:
    """The file of a recipe's step: in the project's ``notebooks/``, beside the recipe, or one that comes with birdlab.

    Raises:
        ParameterError: it is in none of these places.
    """
    home = Path(birdlab.__file__).resolve().parent
    name, root, base = f"{step}.ipynb", project_root(recipe_path), recipe_path.resolve().parent
    places = [root / "notebooks" / name, base / name, home / "notebooks" / name, home.parent / "notebooks" / name]
    if "/" in step:
        places = places[1:2]
    for place in places:
        if place.is_file():
            return place.resolve()
    near = sorted(p.stem for p in places[0].parent.glob("*.ipynb"))
    expected = f"one of {', '.join(near)}" if near else f"a file {places[0].parent.name}/{name}"
    raise ParameterError(
        Problem("no_notebook", f"no notebook {step}", expected, file=str(recipe_path), key="notebooks")
    )


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook as JSON (nbformat 4), every cell's source as one text and its tags as a list.

    Raises:
        NotebookError: the file is missing, unreadable, not JSON or not such a notebook.
    """
    where = str(path)
    try:
        nb = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotebookError(Problem("no_notebook", "no such file", "a notebook (.ipynb)", file=where)) from error
    except json.JSONDecodeError as error:
        raise NotebookError(
            Problem("not_a_notebook", error.msg, "a notebook (JSON)", file=where, line=error.lineno)
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotebookError(Problem("not_a_notebook", str(error), "a notebook in UTF-8", file=where)) from error
    cells = nb.get("cells") if isinstance(nb, dict) else None
    if not isinstance(cells, list) or nb.get("nbformat") != 4 or not all(_is_cell(cell) for cell in cells):
        raise NotebookError(Problem("not_a_notebook", "other JSON", "a notebook of format 4 with cells", file=where))
    for cell in cells:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        cell.setdefault("metadata", {}).setdefault("tags", [])
    nb.setdefault("metadata", {})
    return nb


def check_notebook(path: Path | str) -> list[Problem]:
    """Everything that is wrong with a notebook as a chapter of a report; an empty list when nothing is.

    Checked: one parameters cell of commented literals that begins with ``recipe`` and ``run_dir``; a title with an
    abstract, headings that skip no level, a limits paragraph; at most 15 code cells of at most 8 lines (the
    parameters cell may be longer); no functions, classes, loops, shell or magic lines, and no file names outside the
    parameters cell; ``start(..., notebook=<own name>)`` and ``run.finish()`` in the last code cell; artefact ids
    given and unique, ``alt=`` for every figure and gallery; kernelspec ``python3``; no stored outputs. Runs nothing.
    """
    path = Path(path)
    try:
        nb = read_notebook(path)
    except NotebookError as error:
        return error.problems
    where = str(path)
    try:
        parameters, problems = parse_parameters(nb, source=where), []
    except NotebookError as error:
        parameters, problems = [], list(error.problems)
    cells = list(_code_cells(nb))
    problems += _parameters_cell(parameters, where) if parameters or not problems else []
    problems += [*_text(nb, where), *_size(cells, where), *_content(cells, where)]
    problems += [*_frame(cells, path), *_artefacts(cells, where), *_stored(nb, where)]
    return problems


def fit_to_run(path: Path) -> tuple[list[Parameter], list[Problem]]:
    """The parameters of a notebook that may be run, and its problems of style.

    Raises:
        NotebookError: it has problems that could make a wrong report look right, or is no notebook.
    """
    problems = check_notebook(path)
    if blocking := [p for p in problems if p.code in BLOCKING]:
        raise NotebookError(blocking)
    return parse_parameters(read_notebook(path), source=str(path)), problems


def _is_cell(cell: Any) -> bool:
    if (
        not isinstance(cell, dict)
        or not isinstance(cell.get("cell_type"), str)
        or not isinstance(cell.get("metadata", {}), dict)
    ):
        return False
    source = cell.get("source")
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


def _code_cells(nb: dict[str, Any]) -> Iterator[_Code]:
    for index, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == "code":
            try:
                tree = ast.parse(cell["source"])
            except SyntaxError:
                tree = None
            yield _Code(f"cell {index + 1}", cell["source"], tree, "parameters" in cell["metadata"]["tags"])


def _parameters_cell(parameters: list[Parameter], where: str) -> Iterator[Problem]:
    names = tuple(p.name for p in parameters)
    if names[:2] != RESERVED:
        expected = '`recipe: str = "reports/…"` and `run_dir: str = ""` first'
        yield Problem(
            "no_run_parameters",
            ", ".join(names[:2]) or "no parameters",
            expected,
            "`birdlab run` sets them",
            file=where,
            key="parameters",
        )
    for p in parameters:
        if not p.comment:
            yield Problem(
                "no_comment",
                "no comment",
                "`# unit or meaning` after the value",
                file=where,
                line=p.line,
                record="parameters cell",
                key=p.name,
            )


def _text(nb: dict[str, Any], where: str) -> Iterator[Problem]:
    first = nb["cells"][0] if nb["cells"] else {"cell_type": "", "source": ""}
    title = re.match(r"#\s+\S.*\n\s*\n?\s*[^#\s]", first["source"]) if first["cell_type"] == "markdown" else None
    if not title:
        yield Problem(
            "no_title",
            "another first cell",
            "`# Title`, then an abstract of a few sentences",
            file=where,
            record="cell 1",
        )
    level, has_limits = 0, False
    for index, cell in enumerate(nb["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        has_limits = has_limits or bool(_LIMITS.search(cell["source"]))
        for mark, heading in _HEADING.findall(re.sub(r"```.*?```", "", cell["source"], flags=re.DOTALL)):
            if len(mark) > level + 1 or (len(mark) == 1 and level):
                expected = "one title (#)" if len(mark) == 1 else f"level {level + 1} at most"
                yield Problem(
                    "heading_level",
                    f"level {len(mark)} ({heading.strip()[:40]!r})",
                    expected,
                    file=where,
                    record=f"cell {index + 1}",
                )
            level = len(mark)
    if not has_limits:
        yield Problem("no_limits", "no limits paragraph", "a heading or paragraph that begins with Limits", file=where)


def _size(cells: list[_Code], where: str) -> Iterator[Problem]:
    if len(cells) > MAX_CELLS:
        yield Problem("too_many_cells", f"{len(cells)} code cells", f"at most {MAX_CELLS}", file=where)
    for cell in cells:
        lines = sum(bool(line.strip()) for line in cell.text.splitlines())
        if lines > MAX_LINES and not cell.is_parameters:
            yield Problem(
                "long_cell",
                f"{lines} lines",
                f"at most {MAX_LINES}",
                "move the work into the package",
                file=where,
                record=cell.record,
            )


def _content(cells: list[_Code], where: str) -> Iterator[Problem]:
    for cell in cells:
        magic = [
            n for n, line in enumerate(cell.text.splitlines(), 1) if re.match(r"\s*[!%?]|\s*[\w, ]+=\s*[!%]", line)
        ]
        if magic:
            yield Problem("magic", "a shell or magic line", "Python", file=where, record=cell.record, line=magic[0])
            continue
        if cell.tree is None:
            yield Problem("syntax_error", "text that is not Python", "Python", file=where, record=cell.record)
            continue
        if cell.is_parameters:
            continue
        for node in ast.walk(cell.tree):
            line = getattr(node, "lineno", None)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield Problem(
                    "definition",
                    f"a definition ({node.name})",
                    "a call of the package",
                    file=where,
                    record=cell.record,
                    line=line,
                )
            elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
                yield Problem("loop", "a loop", "one call over a table", file=where, record=cell.record, line=line)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE_NAME.match(node.value):
                remedy = "make it a parameter, or ask the run"
                yield Problem(
                    "path", f"the file name {node.value!r}", "no file names here", remedy, where, line, cell.record
                )


def _frame(cells: list[_Code], path: Path) -> Iterator[Problem]:
    where = str(path)
    if not cells:
        yield Problem("no_code", "no code cell", "at least parameters, start and finish", file=where)
        return
    starts = [(cell, call) for cell in cells for call in _calls(cell) if _called(call) == "start"]
    names = [keyword.value for _, call in starts for keyword in call.keywords if keyword.arg == "notebook"]
    if not names:
        yield Problem(
            "no_start", "no `start(recipe, run_dir, notebook=…)`", "one such call after the parameters", file=where
        )
    for name in names:
        if not isinstance(name, ast.Constant) or name.value != path.stem:
            yield Problem(
                "wrong_name",
                f"notebook={ast.unparse(name)}",
                f'notebook="{path.stem}", the file\'s name',
                file=where,
                record=starts[0][0].record,
            )
    last = cells[-1]
    if "finish" not in [_called(call) for call in _calls(last)]:
        yield Problem("no_finish", "no `run.finish()`", "it in the last code cell", file=where, record=last.record)


def _artefacts(cells: list[_Code], where: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for cell in cells:
        for call in _calls(cell):
            name = _called(call)
            if name not in _SHOWS:
                continue
            given = {k.arg: k.value for k in call.keywords}
            place = {"file": where, "record": cell.record, "line": call.lineno}
            artefact = getattr(given.get("id"), "value", None)
            if not isinstance(artefact, str):
                yield Problem("no_id", f"{name} without a literal id", 'id="tab-…" or id="fig-…"', **place)
            elif artefact in seen:
                yield Problem(
                    "id_twice", f"the id {artefact!r} again", f"another one ({seen[artefact]} has it)", **place
                )
            else:
                seen[artefact] = cell.record
            alt = given.get("alt")
            if name != "show_table" and (
                alt is None or (isinstance(alt, ast.Constant) and not str(alt.value or "").strip())
            ):
                yield Problem(
                    "no_alt", f"{name} without alt text", "alt=, what a reader who cannot see it should know", **place
                )


def _stored(nb: dict[str, Any], where: str) -> Iterator[Problem]:
    kernel = nb["metadata"].get("kernelspec", {}).get("name")
    if kernel != "python3":
        yield Problem(
            "kernelspec", str(kernel or "no kernelspec"), "python3", file=where, key="metadata.kernelspec.name"
        )
    for index, cell in enumerate(nb["cells"]):
        if "skip-execution" in cell["metadata"]["tags"]:
            yield Problem(
                "skipped_cell", "the tag skip-execution", "cells that all run", file=where, record=f"cell {index + 1}"
            )
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield Problem(
                "stored_output",
                "a stored output",
                "none",
                "run `nbstripout` on it",
                file=where,
                record=f"cell {index + 1}",
            )


def _calls(cell: _Code) -> list[ast.Call]:
    return [node for node in ast.walk(cell.tree) if isinstance(node, ast.Call)] if cell.tree else []


def _called(call: ast.Call) -> str:
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )
