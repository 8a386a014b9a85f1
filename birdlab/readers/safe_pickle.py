"""Pickles of plain values only: dict, tuple, list, str, int, float. Everything else is refused by its name.

A pickle is a program for a small machine that can look up and call anything. The machine here knows the instructions
that build plain values and no others: the program is only listed (:mod:`pickletools`), and never given to
:mod:`pickle`. Nothing is looked up, so nothing can be called.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

from birdlab.errors import DataError, Problem

#: A dictionary of the windows of a video of half an hour takes some 100 kB.
MAX_BYTES = 16 * 2**20
MAX_STEPS = 4_000_000
MAX_DEPTH = 16
MAX_BITS = 64
_PROTOCOL = 5
_PLAIN = "dict, tuple, list, str, int or float"
_REMEDY = (
    "write it as JSON in the environment that made it, if you trust that; `birdlab convert` writes plain ones as JSON"
)
_CONSTANT = {
    *("BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8", "INT", "BININT", "BININT1", "BININT2"),
    *("LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT, _GET = {"PUT", "BINPUT", "LONG_BINPUT"}, {"GET", "BINGET", "LONG_BINGET"}
#: What instructions would build that do not say it themselves.
_NAMES = {
    "NONE": "None", "NEWTRUE": "bool", "NEWFALSE": "bool", "EMPTY_SET": "set", "FROZENSET": "frozenset",
    "BINBYTES": "bytes", "SHORT_BINBYTES": "bytes", "BINBYTES8": "bytes", "BYTEARRAY8": "bytearray",
    "STRING": "bytes", "BINSTRING": "bytes", "SHORT_BINSTRING": "bytes",
}  # fmt: skip
_MARK = object()


def load_plain(path: Path, source: str = "") -> Any:
    """The plain value in a pickle file.

    Args:
        path: the file.
        source: what to call it in a problem; default: the path.

    Returns:
        A value of dict, tuple, list, str, int and float. ``None``, bool, bytes, sets and everything that has to be
        looked up (classes, functions, numpy's numbers and arrays) are refused.

    Raises:
        DataError: the file is missing, larger than 16 MiB (it is not read then), broken or cut off, nested deeper than
            16, or holds anything else; ``found`` names it. Nothing of it is executed.
    """
    source = source or str(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(_too_large(size, source))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        why = "no such file" if not path.exists() else error.strerror or str(error)
        raise DataError(
            Problem("unreadable", why, "a pickle of plain values", "check the path", file=source)
        ) from error
    return loads_plain(data, source)


def loads_plain(data: bytes, source: str) -> Any:
    """The plain value in the bytes of a pickle; see :func:`load_plain`.

    >>> import pickle
    >>> loads_plain(pickle.dumps({"t1": {(0, 25): "Peck"}}), "x.p")
    {'t1': {(0, 25): 'Peck'}}
    """
    if len(data) > MAX_BYTES:
        raise DataError(_too_large(len(data), source))
    machine = _Machine(source, len(data))
    try:
        for step, (opcode, argument, position) in enumerate(pickletools.genops(data)):
            if step >= MAX_STEPS:
                raise DataError(
                    Problem("too_large", "too many values", f"at most {MAX_STEPS:,} instructions", _REMEDY, source)
                )
            machine.do(opcode.name, argument, position or 0)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise DataError(_broken(str(error) or type(error).__name__, source)) from error
    if len(machine.stack) != 1 or machine.stack[0] is _MARK:
        raise DataError(_broken("no value at its end", source))
    _check_value(machine.stack[0], source)
    return machine.stack[0]


class _Machine:
    """Stack and memo of a pickle's program, for the instructions that build plain values."""

    def __init__(self, source: str, size: int) -> None:
        self.source, self.size = source, size
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any, position: int) -> None:
        """One instruction.

        Raises:
            DataError: it could do more than build a plain value.
            IndexError, ValueError, TypeError, KeyError: the program is broken.
        """
        stack = self.stack
        if name in _CONSTANT and not isinstance(argument, bool):
            if isinstance(argument, int) and argument.bit_length() > MAX_BITS:
                found = f"an integer of {argument.bit_length():,} bits"
                raise DataError(Problem("not_plain", found, f"at most {MAX_BITS}", file=self.source))
            if isinstance(argument, str) and not _is_text(argument):
                raise DataError(Problem("bad_text", ascii(argument)[:60], "text that UTF-8 can hold", file=self.source))
            stack.append(argument)
        elif name in _TUPLES:
            self._tuple(_TUPLES[name])
        elif name in _PUT or name == "MEMOIZE":
            if stack[-1] is _MARK:
                raise ValueError("a mark cannot be remembered")
            self.memo[len(self.memo) if name == "MEMOIZE" else int(argument)] = stack[-1]
        elif name in _GET:
            stack.append(self.memo[int(argument)])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in _FILL:
            _FILL[name](self)
        elif name == "PROTO" and argument > _PROTOCOL:
            raise ValueError(f"pickle protocol {argument}")
        elif name == "FRAME" and argument > self.size - position:
            raise ValueError("a frame longer than the file")
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise DataError(Problem("not_plain", self._named(name, argument), _PLAIN, _REMEDY, file=self.source))

    def _named(self, name: str, argument: Any) -> str:
        """What an instruction would bring in."""
        if name in ("GLOBAL", "INST"):
            return str(argument).replace(" ", ".")[:120]
        if name == "STACK_GLOBAL":
            return ".".join(text[:80] if isinstance(text, str) else "?" for text in self.stack[-2:])
        return _NAMES.get(name, "bool" if name == "INT" else f"the instruction {name}")

    def _pop(self, n: int) -> list[Any]:
        if len(self.stack) < n:
            raise IndexError("too few values")
        values = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        if any(value is _MARK for value in values):
            raise ValueError("a mark where a value must be")
        return values

    def _marked(self) -> list[Any]:
        """Values since the last mark, which goes too."""
        values: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _tuple(self, n: int) -> None:
        self.stack.append(tuple(self._pop(n)))

    def _append(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise TypeError("values added to what is no list")
        self.stack[-1].extend(values)

    def _set(self, values: list[Any], target: Any = None) -> None:
        target = self.stack[-1] if target is None else target
        if type(target) is not dict or len(values) % 2:
            raise TypeError("pairs added to what is no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            # A key is hashed, which for tuples in tuples takes as long, and as deep, as their maker likes.
            if isinstance(key, (list, dict)) or (isinstance(key, tuple) and any(_holds(part) for part in key)):
                found = f"a {type(key).__name__} that holds more as a key"
                raise DataError(Problem("not_plain", found, "text, a number or a flat tuple", file=self.source))
            target[key] = value

    def _dict(self) -> None:
        values, target = self._marked(), {}
        self._set(values, target)
        self.stack.append(target)


def _holds(value: Any) -> bool:
    return isinstance(value, (list, dict, tuple))


_FILL = {
    "TUPLE": lambda machine: machine.stack.append(tuple(machine._marked())),
    "LIST": lambda machine: machine.stack.append(machine._marked()),
    "DICT": _Machine._dict,
    "APPEND": lambda machine: machine._append(machine._pop(1)),
    "APPENDS": lambda machine: machine._append(machine._marked()),
    "SETITEM": lambda machine: machine._set(machine._pop(2)),
    "SETITEMS": lambda machine: machine._set(machine._marked()),
}


def _too_large(size: int, source: str) -> Problem:
    found, expected = f"{size / 2**20:.0f} MiB", f"at most {MAX_BYTES // 2**20} MiB"
    return Problem("too_large", found, expected, _REMEDY, file=source)


def _broken(why: str, source: str) -> Problem:
    return Problem("not_pickle", why[:120], "a whole pickle", "copy it again", file=source)


def _check_value(value: Any, source: str, level: int = 1, known: dict[int, int] | None = None) -> int:
    """How deep a value goes; refuse one that is too deep or holds itself.

    ``known`` holds the depth of what was looked at, 0 while it is being looked at: whoever holds it, it is looked at
    once, so the work is no more than the file has instructions.
    """
    known = {} if known is None else known
    if not isinstance(value, (dict, tuple, list)):
        return 0
    below = known.get(id(value))
    if below is None:
        known[id(value)] = 0
        parts = value if not isinstance(value, dict) else (part for pair in value.items() for part in pair)
        below = (
            1 if level > MAX_DEPTH else 1 + max((_check_value(p, source, level + 1, known) for p in parts), default=0)
        )
        known[id(value)] = below
    elif below == 0:
        raise DataError(Problem("too_deep", "a value that holds itself", "plain values", _REMEDY, file=source))
    if level + below - 1 > MAX_DEPTH:
        expected = f"at most {MAX_DEPTH} in one another"
        raise DataError(Problem("too_deep", "values in values in values", expected, _REMEDY, file=source))
    return below


def _is_text(text: str) -> bool:
    return text.isascii() or not any(0xD800 <= ord(c) <= 0xDFFF for c in text)
