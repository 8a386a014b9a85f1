"""The parameters of a notebook: read from its one tagged cell, and checked before a kernel starts.

The cell is read with ``ast``, never executed, so it holds literals only. A value that is given for a parameter must
fit the type the cell declares; a name the cell does not have is refused. A report about the wrong model because of
a misspelt option is the mistake this module is for.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import io
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml

from birdlab.errors import NotebookError, ParameterError, Problem
from birdlab.recipe import load_yaml_scalar

#: Parameters that the runner sets in every notebook.
RESERVED = ("recipe", "run_dir")
_NULLS = ("null", "Null", "NULL", "~")
_PLAIN = {"str": str, "int": int, "bool": bool, "list": list, "tuple": list, "dict": dict}
#: Types whose values travel as text: a Path as posix, a date as ISO 8601.
_AS_TEXT = ("Path", "PurePath", "date", "datetime")
_LISTS = ("list", "List", "tuple", "Tuple", "Sequence")
_MAPPINGS = ("dict", "Dict", "Mapping")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, declared type (``float``, ``None | str``), default, comment and line in the cell."""

    name: str
    type: str
    default: Any
    comment: str
    line: int


def parse_parameters(nb: Mapping[str, Any], *, source: str = "notebook") -> list[Parameter]:
    """The parameters that a notebook's one cell tagged ``parameters`` declares, in order.

    Args:
        nb: notebook as JSON gives it (nbformat 4).
        source: name for messages.

    Returns:
        One :class:`Parameter` per assignment; the type is the annotation's text, or the default's where none is given.

    Raises:
        NotebookError: there is no such cell or a second one, it is not Python, or a line is not ``name: type = literal``;
            all problems at once.

    >>> cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "conf: float = 0.25  # kept from"}
    >>> parse_parameters({"cells": [cell]})
    [Parameter(name='conf', type='float', default=0.25, comment='kept from', line=1)]
    """
    tagged = [
        (index, cell)
        for index, cell in enumerate(nb.get("cells", []))
        if "parameters" in (cell.get("metadata", {}).get("tags") or [])
    ]
    if len(tagged) != 1 or tagged[0][1].get("cell_type") != "code":
        raise NotebookError(_not_one_cell(tagged, source))
    index, cell = tagged[0]
    text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    record = f"cell {index + 1}"
    try:
        body = ast.parse(text).body
        comments = _comments(text)
    except (SyntaxError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None)
        raise NotebookError(
            Problem("syntax_error", str(error), "Python assignments", file=source, line=line, record=record)
        ) from error
    found: list[Parameter] = []
    problems: list[Problem] = []
    for statement in body:
        made = _parameter(statement, comments, source, record)
        if isinstance(made, Problem):
            problems.append(made)
        elif made.name in {p.name for p in found}:
            problems.append(
                _at(made.name, "set_twice", "set twice", "one line per parameter", source, record, made.line)
            )
        else:
            found.append(made)
    if problems:
        raise NotebookError(problems)
    return found


def bind(parameters: Iterable[Parameter], given: Mapping[str, Any], *, source: str = "notebook") -> dict[str, Any]:
    """The given values as JSON types, checked against the declared parameters.

    A ``Path`` becomes posix text, a date or datetime ISO 8601 text, a tuple a list, a NumPy scalar a Python number,
    an int a float where a float is declared.

    Args:
        parameters: what the notebook declares.
        given: name to value.
        source: name for messages.

    Returns:
        Only the given names, in the order given.

    Raises:
        ParameterError: an unknown name (with the known ones and the nearest), a value of the wrong type, or a value
            that no parameter can hold; all problems at once.

    >>> bind([Parameter("conf", "float", 0.25, "", 1)], {"conf": 1})
    {'conf': 1.0}
    """
    known = {p.name: p for p in parameters}
    bound: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        if name not in known:
            problems.append(unknown_parameter(name, known, source))
            continue
        try:
            bound[name] = fit(to_plain(value), known[name].type)
        except ValueError as error:
            problems.append(
                Problem("bad_parameter", str(error), f"a value of type {known[name].type}", file=source, key=name)
            )
    if problems:
        raise ParameterError(problems)
    return bound


def from_text(parameter: Parameter, text: str) -> Any:
    """A value typed on the command line, read by the parameter's declared type with the scalars of YAML 1.2.

    Raises:
        ValueError: the text is no such value; the message says what was found.

    >>> from_text(Parameter("flag", "bool", True, "", 1), "false"), from_text(Parameter("id", "str", "", "", 1), "007")
    (False, '007')
    """
    kinds = _members(_annotation(parameter.type))
    nullable = any(isinstance(k, ast.Constant) and k.value is None for k in kinds)
    texts = [k for k in kinds if isinstance(k, ast.Name | ast.Attribute) and _name(k) in ("str", *_AS_TEXT)]
    if text in _NULLS:
        if nullable:
            return None
        raise ValueError(f"{text}, and the parameter may not be null (write '\"{text}\"' for the word itself)")
    only_text = len(texts) == len([k for k in kinds if not (isinstance(k, ast.Constant) and k.value is None)])
    if texts and only_text:
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    try:
        return fit(load_yaml_scalar(text), parameter.type)
    except yaml.YAMLError as error:
        raise ValueError(f"{text!r}, which is not YAML") from error
    except ValueError:
        if texts:
            return text
        raise ValueError(repr(text)) from None


def unknown_parameter(name: str, known: Iterable[str], source: str) -> Problem:
    """The problem of a name that no parameter has: the known ones, and the nearest."""
    names = [n for n in known if n not in RESERVED]
    near = difflib.get_close_matches(name, names, n=1)
    expected = "one of " + ", ".join(names) if names else "no parameter: the notebook has none to set"
    return Problem(
        "unknown_parameter",
        "an unknown parameter",
        expected,
        f"did you mean {near[0]}?" if near else "",
        file=source,
        key=name,
    )


def to_plain(value: Any) -> Any:
    """A value as JSON types; see :func:`bind`.

    Raises:
        ValueError: it is, or holds, something else (a set, bytes, an array, an object); the message names it.
    """
    if value is None or isinstance(value, str | bool | int | float):
        # A subclass (numpy.float64 is one of float) becomes the plain type.
        return value if type(value) in (type(None), str, bool, int, float) else _base(value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if isinstance(value, Mapping):
        if wrong := [k for k in value if not isinstance(k, str)]:
            raise ValueError(f"a mapping with the key {wrong[0]!r}, which is not text")
        return {k: to_plain(v) for k, v in value.items()}
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():
        return to_plain(value.item())
    raise ValueError(f"{type(value).__name__} ({str(value)[:60]})")


def fit(value: Any, declared: str) -> Any:
    """``value`` when it is of the declared type (an int becomes a float where a float is declared).

    Raises:
        ValueError: it is not.

    >>> fit(None, "None | str") is None
    True
    """
    for kind in _members(_annotation(declared)):
        matches, fitted = _fits(value, kind)
        if matches:
            return fitted
    raise ValueError(f"{value!r} ({type(value).__name__})")


def _base(value: Any) -> Any:
    return next(kind(value) for kind in (bool, int, float, str) if isinstance(value, kind))


def _not_one_cell(tagged: list[tuple[int, Any]], source: str) -> Problem:
    if not tagged:
        return Problem(
            "no_parameters",
            "no code cell tagged parameters",
            "exactly one",
            "tag the cell (JupyterLab: property inspector, Cell Tags); without it every given value would be overwritten",
            file=source,
        )
    where = ", ".join(f"cell {index + 1}" for index, _ in tagged)
    return Problem("parameters_cells", f"the tag parameters on {where}", "exactly one code cell with it", file=source)


def _at(key: str | None, code: str, found: str, expected: str, source: str, record: str, line: int) -> Problem:
    return Problem(code, found, expected, file=source, line=line, record=record, key=key)


def _parameter(statement: ast.stmt, comments: dict[int, str], source: str, record: str) -> Parameter | Problem:
    line = statement.lineno
    target, annotation = None, None
    if isinstance(statement, ast.AnnAssign):
        target, annotation = statement.target, statement.annotation
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    value = getattr(statement, "value", None)
    if not isinstance(target, ast.Name) or value is None:
        return _at(
            None,
            "not_a_parameter",
            f"`{ast.unparse(statement)}`",
            "a line `name: type = literal`",
            source,
            record,
            line,
        )
    try:
        default = to_plain(ast.literal_eval(value))
    except (ValueError, TypeError, MemoryError, RecursionError):
        # A derived value would keep its old result when the parameter it comes from is set (`out = root + "/x"`).
        remedy = "derive it in the next cell"
        return Problem(
            "not_literal",
            f"`{ast.unparse(value)}`",
            "a literal (number, text, list, mapping, None)",
            remedy,
            source,
            line,
            record,
            target.id,
        )
    declared = ast.unparse(annotation) if annotation else type(default).__name__ if default is not None else "Any"
    try:
        default = fit(default, declared)
    except ValueError as error:
        return _at(
            target.id, "bad_default", str(error), f"a value of the declared type {declared}", source, record, line
        )
    comment = comments.get(statement.end_lineno or line) or comments.get(-line + 1, "")
    return Parameter(target.id, declared, default, comment, line)


def _comments(text: str) -> dict[int, str]:
    """Comment of each line; one that stands alone on its line ``n`` is kept under ``-n``."""
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            comments[-token.start[0] if alone else token.start[0]] = token.string.lstrip("#").strip()
    return comments


def _annotation(declared: str) -> ast.expr:
    try:
        node = ast.parse(declared, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"the type {declared!r}, which is not one") from error
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _annotation(node.value)
    return node


def _members(node: ast.expr) -> list[ast.expr]:
    """The alternatives of a type: ``None | str`` and ``Optional[str]`` have two."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _members(node.left) + _members(node.right)
    if isinstance(node, ast.Subscript) and _name(node.value) in ("Optional", "Union"):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kinds = [member for item in inner for member in _members(item)]
        return kinds + [ast.Constant(None)] if _name(node.value) == "Optional" else kinds
    return [node]


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _fits(value: Any, kind: ast.expr) -> tuple[bool, Any]:
    if isinstance(kind, ast.Constant):
        return (value is None, None) if kind.value is None else (False, None)
    if isinstance(kind, ast.Subscript):
        return _fits_inside(value, kind)
    name = _name(kind)
    if name in ("Any", "object"):
        return True, value
    if name == "float":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else None
    if name in _AS_TEXT:
        return isinstance(value, str), value
    if name not in _PLAIN and name not in _LISTS and name not in _MAPPINGS:
        raise ValueError(f"the type {ast.unparse(kind)}, which a parameter cannot have")
    wanted = _PLAIN.get(name) or (list if name in _LISTS else dict)
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)), value


def _fits_inside(value: Any, kind: ast.Subscript) -> tuple[bool, Any]:
    name = _name(kind.value)
    inner = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    if name == "Literal":
        allowed = [ast.literal_eval(item) for item in inner]
        return any(type(value) is type(a) and value == a for a in allowed), value
    try:
        if name in _LISTS and isinstance(value, list):
            return True, [fit(v, ast.unparse(inner[0])) for v in value]
        if name in _MAPPINGS and isinstance(value, dict):
            return True, {k: fit(v, ast.unparse(inner[-1])) for k, v in value.items()}
    except ValueError:
        return False, None
    return False, None
