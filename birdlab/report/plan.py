"""What a run will do, worked out and checked before anything starts: notebooks, parameters, order, what is unchanged."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from birdlab.errors import BirdlabError, NotebookError, ParameterError, Problem
from birdlab.recipe import Recipe
from birdlab.report.notebook import find_notebook, fit_to_run, read_notebook
from birdlab.report.parameters import RESERVED, Parameter, bind, from_text, unknown_parameter
from birdlab.shards import digest


@dataclass(frozen=True)
class Step:
    """One notebook of a run.

    Args:
        name: file name without ``.ipynb``.
        path: the file.
        declared: its parameters.
        given: values that the recipe and the command line set, checked.
        needs: names of the notebooks that must have ended well before it starts.
        selected: whether this run is to execute it.
        style: number of style problems.
        work: digest of all that decides what its code does.
        key: digest of that and of its text; equal keys mean an equal chapter.
    """

    name: str
    path: Path
    declared: tuple[Parameter, ...]
    given: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    selected: bool = True
    style: int = 0
    work: str = ""
    key: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter with the value it will have, without the two that the runner sets."""
        return {p.name: self.given.get(p.name, p.default) for p in self.declared if p.name not in RESERVED}


def plan(recipe: Recipe, recipe_path: Path, *, assignments: Sequence[str] = (), only: str = "") -> list[Step]:
    """The steps of a run in the recipe's order, without keys (see :func:`with_keys`).

    Args:
        recipe: the study.
        recipe_path: its file.
        assignments: ``NAME=VALUE`` for every notebook that has the parameter, or ``NOTEBOOK.NAME=VALUE``.
        only: notebooks to execute, by number or name, joined by commas; empty for all.

    Raises:
        ParameterError: a notebook is missing, an unknown parameter, a value of the wrong type, an unknown name in ``only``.
        NotebookError: a notebook is not fit to run. All problems are in the one error.
    """
    steps: list[Step] = []
    usage: list[Problem] = []
    unfit: list[Problem] = []
    for entry, given in recipe.steps():
        try:
            path = find_notebook(entry, recipe_path)
            declared, style = fit_to_run(path)
            own = [p for p in declared if p.name not in RESERVED]
            bound = bind(own, given, source=f"{recipe_path.name}, parameters of {path.name}")
            steps.append(Step(path.stem, path, tuple(declared), bound, style=len(style)))
        except NotebookError as error:
            unfit += error.problems
        except ParameterError as error:
            usage += error.problems
    names = [step.name for step in steps]
    usage += [
        Problem(
            "listed_twice", f"two notebooks called {name}", "one of that name", file=str(recipe_path), key="notebooks"
        )
        for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if not unfit:
        # What a missing notebook would have declared is not known: its parameters are not called unknown.
        steps, wrong = _assign(steps, assignments)
        usage += wrong
    if unfit:
        raise NotebookError(unfit + usage)
    if usage:
        raise ParameterError(usage)
    return _select(_order(steps), only)


def with_keys(steps: Sequence[Step], recipe: Recipe, *, inputs: str, package: str) -> list[Step]:
    """Give each step its digests.

    Args:
        steps: from :func:`plan`.
        recipe: the study; its title, description and list of notebooks do not count.
        inputs: digest of all input files.
        package: digest of birdlab's source.
    """
    study = recipe.model_dump(mode="json", exclude={"notebooks", "title", "description"})
    work: dict[str, str] = {}
    keyed = []
    for step in steps:
        cells = read_notebook(step.path)["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        text = [[cell["cell_type"], cell["source"], cell["metadata"]["tags"]] for cell in cells]
        work[step.name] = digest(
            [step.name, code, dict(step.given), study, inputs, package, [work[n] for n in step.needs]]
        )
        keyed.append(replace(step, work=work[step.name], key=digest([work[step.name], text])))
    return keyed


def match(token: str, names: Sequence[str]) -> str | None:
    """The notebook that a user means: its name, or its number.

    >>> match("2", ["00_data_audit", "02_detection"]), match("02b", ["02_detection", "02b_comparison"])
    ('02_detection', '02b_comparison')
    """
    token = token.strip().removesuffix(".ipynb")
    if token in names:
        return token
    numbered = next((name for name in names if name.partition("_")[0] == token), None)
    if numbered or not token.isdecimal():
        return numbered
    return next((name for name in names if number(name) == int(token)), None)


def number(name: str) -> int | None:
    """The number that a notebook's name begins with.

    >>> number("02_detection"), number("explore")
    (2, None)
    """
    found = re.match(r"(\d+)", name)
    return int(found[1]) if found else None


def _order(steps: Sequence[Step]) -> list[Step]:
    """Say what waits for what: 00, 01, the summary and unnumbered notebooks wait for all before them; the others, which
    read the tables of 00 and 01 and not of each other, wait for those only."""
    ordered = []
    for index, step in enumerate(steps):
        earlier = [s.name for s in steps[:index]]
        needs = earlier if _alone(step.name) else [name for name in earlier if _alone(name)]
        ordered.append(replace(step, needs=tuple(needs)))
    return ordered


def _alone(name: str) -> bool:
    n = number(name)
    return n is None or n < 2 or n >= 10


def _select(steps: list[Step], only: str) -> list[Step]:
    if not only.strip():
        return steps
    names = [step.name for step in steps]
    tokens = [token for token in only.split(",") if token.strip()]
    found = {token: match(token, names) for token in tokens}
    problems = [
        Problem(
            "unknown_notebook", repr(token.strip()), "one of " + ", ".join(names), _nearest(token, names), key="--only"
        )
        for token, name in found.items()
        if name is None
    ]
    if problems:
        raise ParameterError(problems)
    return [replace(step, selected=step.name in found.values()) for step in steps]


def _assign(steps: list[Step], assignments: Sequence[str]) -> tuple[list[Step], list[Problem]]:
    names = [step.name for step in steps]
    values: dict[str, dict[str, Any]] = {name: {} for name in names}
    problems: list[Problem] = []
    for assignment in assignments:
        left, equals, text = assignment.partition("=")
        notebook, dot, name = left.strip().rpartition(".")
        target = match(notebook, names) if dot else None
        if not equals or not name:
            problems.append(Problem("bad_assignment", repr(assignment), "NAME=VALUE or NOTEBOOK.NAME=VALUE", key="-p"))
        elif dot and target is None:
            problems.append(
                Problem(
                    "unknown_notebook",
                    repr(notebook),
                    "one of " + ", ".join(names),
                    _nearest(notebook, names),
                    key="-p",
                )
            )
        elif name in RESERVED:
            problems.append(
                Problem(
                    "reserved",
                    f"-p {name}",
                    "a parameter of your own",
                    "the recipe is given first, the folder with --out",
                    key=name,
                )
            )
        else:
            chosen = [step for step in steps if target in (None, step.name)]
            problems += _read(name, text, chosen, values)
    bound = []
    for step in steps:
        try:
            given = {**step.given, **bind(step.declared, values[step.name], source=step.path.name)}
            bound.append(replace(step, given=given))
        except BirdlabError as error:
            problems += error.problems
    return bound, problems


def _read(name: str, text: str, steps: Sequence[Step], values: dict[str, dict[str, Any]]) -> list[Problem]:
    """Read one value for all chosen notebooks that declare the parameter; problems when none does or it does not fit."""
    takers = [(step, p) for step in steps for p in step.declared if p.name == name]
    if not takers:
        known = dict.fromkeys(p.name for step in steps for p in step.declared)
        return [unknown_parameter(name, known, steps[0].path.name if len(steps) == 1 else "-p")]
    problems = []
    for step, parameter in takers:
        try:
            values[step.name][name] = from_text(parameter, text)
        except ValueError as error:
            problems.append(
                Problem("bad_parameter", str(error), f"a value of type {parameter.type}", file=step.path.name, key=name)
            )
    return problems


def _nearest(token: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(token.strip(), names, n=1)
    return f"did you mean {near[0]}?" if near else ""
