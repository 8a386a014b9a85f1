"""YAML as version 1.2 reads it."""

from __future__ import annotations

import re
from typing import Any

import yaml


class Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2: ``yes``, ``no``, ``on``, ``07:00`` and ``007`` stay text, ``1e-5`` is a number.

    A key that is given twice is refused; PyYAML would keep the last one and say nothing.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if no key is in it twice (a merge, ``<<``, may be)."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} a second time", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


Loader.yaml_implicit_resolvers = {
    first: [(tag, rx) for tag, rx in rules if not tag.endswith((":bool", ":float", ":int", ":timestamp"))]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"), list("-+0123456789"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def load_yaml_scalar(text: str) -> Any:
    """One value as YAML 1.2 reads it.

    >>> [load_yaml_scalar(t) for t in ("1e-5", "007", "no", "false", "null")]
    [1e-05, '007', 'no', False, None]
    """
    return yaml.load(text, Loader=Loader)
