"""Lists of classes: ids one per line or in the first column, with a header or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from birdlab.errors import DataError
from birdlab.readers.class_list import read_classes


def written(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected", "notices"),
    [
        ("a\nb\nc\n", ("a", "b", "c"), {}),
        ("ebird2021,comment\na,\nb,x\nc", ("a", "b", "c"), {"class_list_header": 1}),
        ("class_id\na\n", ("a",), {"class_list_header": 1}),
        ("a\n\nb\na\na\n", ("a", "b"), {"class_twice": 2, "class_blank": 1}),
        ("\ufeffa;1\r\nb;2\r\n", ("a", "b"), {}),
        ('Species\n"Sylvia cantillans"\nParus major\n', ("Sylvia cantillans", "Parus major"), {"class_list_header": 1}),
    ],
)
def test_class_lists(tmp_path: Path, text: str, expected: tuple[str, ...], notices: dict) -> None:
    classes, found = read_classes(written(tmp_path, "classes.txt", text))
    assert classes == expected and {n.code: n.n for n in found} == notices


@pytest.mark.parametrize("text", ["", "\n", "class_id\n", b"\0\0\1"])
def test_class_lists_that_are_none(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(DataError):
        read_classes(written(tmp_path, "classes.txt", text))
