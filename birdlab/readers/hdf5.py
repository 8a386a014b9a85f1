"""HDF5 files of others: plain arrays and text in this one file. Links out of it and values for pickle are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.errors import DataError, Problem

if TYPE_CHECKING:
    import h5py

#: A day of thirteen points at 25 Hz takes some 700 MB.
MAX_BYTES = 2**30


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """A file, open for reading.

    Raises:
        DataError: no such file, no HDF5, broken or cut off (also where that shows only when it is read).
    """
    import h5py

    if not path.is_file():
        raise DataError(Problem("unreadable", "no such file", "an HDF5 file", "check the path", file=str(path)))
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError) as error:
        # h5py has no error of its own: damage deeper in a file comes as any of these.
        found = " ".join(str(error).split())[:120]
        raise DataError(Problem("bad_hdf5", found, "a whole HDF5 file", "copy it again", file=str(path))) from error


def dataset(group: h5py.Group, name: str, source: str) -> h5py.Dataset:
    """A dataset that lies in the file itself.

    Raises:
        DataError: it is missing, a link, kept in other files, or would take more than 1 GiB.
    """
    found = child(group, name, source)
    import h5py

    if not isinstance(found, h5py.Dataset):
        raise _problem("no_dataset", "nothing" if found is None else "a group", f"a dataset {name}", source, name)
    if found.is_virtual or found.external:
        raise _problem("outside", "values kept in other files", "values in this file", source, name)
    # What is packed well is small on disk and large in memory.
    if (size := found.size * found.dtype.itemsize) > MAX_BYTES:
        raise _problem("too_large", f"{size / 2**30:,.1f} GiB", "at most 1 GiB", source, name)
    return found


def child(group: h5py.Group, name: str, source: str) -> Any:
    """A group or dataset of that name, or None.

    Raises:
        DataError: it is a link to somewhere else.
    """
    import h5py

    link = group.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise _problem("outside", "a link", "values in this file", source, name)
    return group[name]


def numbers(group: h5py.Group, name: str, source: str) -> np.ndarray:
    """A dataset of numbers as it is stored.

    Raises:
        DataError: as :func:`dataset`; it holds something else.
    """
    found = dataset(group, name, source)
    if found.dtype.kind not in "iufb":
        raise _problem("no_numbers", _kind(found.dtype), "numbers", source, name)
    return found[()]


def texts(group: h5py.Group, name: str, source: str) -> list[str]:
    """A dataset of text, one string or a list of them.

    Raises:
        DataError: as :func:`dataset`; it holds something else.
    """
    found = dataset(group, name, source)
    import h5py

    if found.dtype.kind not in "SU" and h5py.check_string_dtype(found.dtype) is None:
        raise _problem("no_text", _kind(found.dtype), "text", source, name)
    return [as_text(value) for value in np.atleast_1d(found[()]).ravel().tolist()]


def as_text(value: Any) -> str:
    """Text of an attribute or a cell; of an empty one ``""``.

    >>> as_text(b"bill"), as_text("tail")
    ('bill', 'tail')
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _kind(dtype: np.dtype) -> str:
    return "pickled values" if dtype.kind == "O" else f"{dtype} values"


def _problem(code: str, found: str, expected: str, source: str, key: str) -> DataError:
    return DataError(Problem(code, found, expected, file=source, key=key))
