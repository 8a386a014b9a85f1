"""Settings of a trainer that a recipe may name: a fixed list, the nearest one for a slip, the type of each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from birdlab.errors import ParameterError, Problem
from birdlab.recipe.training import Trained


def read_settings(
    spec: Trained,
    defaults: Mapping[str, Any],
    *,
    choices: Mapping[str, Iterable[Any]] | None = None,
    reserved: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The defaults with a model's own settings over them.

    Args:
        spec: the model; its ``settings`` are read.
        defaults: every setting there is. A default other than ``None`` fixes the type: number, text, yes or no, list.
        choices: allowed values of some of them.
        reserved: names that the library knows but that cannot be set, and where to set it instead.

    Raises:
        ParameterError: unknown names (with the nearest known one) and values of a wrong type, all at once.

    >>> spec = Trained(name="a", architecture="x", settings={"momentun": 0.8})
    >>> read_settings(spec, {"momentum": 0.9})
    Traceback (most recent call last):
    birdlab.errors.ParameterError: model a, settings.momentun: found no such setting; expected one of momentum. Did you mean momentum?
    """
    problems = []
    for name, value in spec.settings.items():
        place = {"record": f"model {spec.name}", "key": f"settings.{name}"}
        if name in (reserved or {}):
            problems.append(
                Problem("reserved_setting", name, "a setting of the trainer", (reserved or {})[name], **place)
            )
        elif name not in defaults:
            near = difflib.get_close_matches(name.lower(), list(defaults), n=1)
            remedy = f"did you mean {near[0]}?" if near else ""
            problems.append(
                Problem("unknown_setting", "no such setting", "one of " + ", ".join(sorted(defaults)), remedy, **place)
            )
        elif choices and name in choices and value not in choices[name]:
            expected = "one of " + ", ".join(map(str, choices[name]))
            problems.append(Problem("bad_setting", repr(value), expected, **place))
        elif not _fits(value, defaults[name]):
            problems.append(Problem("bad_setting", repr(value), f"like {defaults[name]!r}", **place))
    if problems:
        raise ParameterError(problems)
    return {**defaults, **spec.settings}


def _fits(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, (int, float)):
        return isinstance(value, (int, float)) and value >= 0
    return isinstance(value, type(default))
