"""Poses of DeepLabCut: its csv, and its h5 (a pandas table in HDF5), of one animal or several."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.errors import DataError, Problem
from birdlab.readers.coco_keypoints import Poses
from birdlab.readers.files import at_most
from birdlab.readers.hdf5 import as_text, child, dataset, numbers, open_hdf5, texts
from birdlab.readers.pose_images import Sheet, placed
from birdlab.readers.safe_pickle import loads_plain

if TYPE_CHECKING:
    import h5py

KEY = "df_with_missing"
#: Heads of the rows above the numbers; the second only where there are several animals.
HEADS = ("scorer", "individuals", "bodyparts", "coords")
_EXPECTED = "columns scorer, (individuals,) bodyparts, coords"


@dataclass(frozen=True)
class Frame:
    """Rows (names or numbers of frames), columns (one tuple of text each), values (rows, columns) float64."""

    rows: list[str] | list[int]
    columns: list[tuple[str, ...]]
    values: np.ndarray


def read_deeplabcut(path: Path, truth: Poses) -> Poses:
    """Poses of one model, from ``.csv`` or ``.h5``.

    Args:
        path: what DeepLabCut wrote for a video (rows are frames) or for pictures (rows are their names); of one animal
            (three rows of heads: scorer, bodyparts, coords) or of several (four: individuals after scorer).
        truth: birds by hand; see :func:`birdlab.readers.pose_images.placed` for how pictures are found.

    Returns:
        One bird per animal and picture in which a point was placed; its score is the mean likelihood of its points. No
        point is left out for a low likelihood.

    Raises:
        DataError: the file cannot be read, or is not of DeepLabCut; values that only pickle could read.
    """
    frame = read_csv(path) if path.suffix.lower() == ".csv" else read_h5(path)
    return placed(_sheet(frame, path), truth, path)


def read_csv(path: Path) -> Frame:
    """The table of a csv; every cell that is no number is named by its line.

    Raises:
        DataError: see :func:`read_deeplabcut`.
    """
    source = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [(number, row) for number, row in enumerate(csv.reader(file), 1) if any(c.strip() for c in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = "no such file" if not path.exists() else str(error)[:120]
        raise DataError(Problem("unreadable", why, "a csv of DeepLabCut", "check the path", file=source)) from error
    n = next((i for i, (_, row) in enumerate(lines) if row[0].strip().lower() not in HEADS), len(lines))
    heads = [row for _, row in lines[:n]]
    if n not in (3, 4) or [row[0].strip().lower() for row in heads] not in ([*HEADS[:1], *HEADS[2:]], [*HEADS]):
        found = ", ".join(row[0][:20] for _, row in lines[:4]) or "nothing"
        raise DataError(Problem("no_heads", found, f"rows {', '.join(HEADS)} on top", file=source, line=1))
    width = len(heads[0])
    first = next((i for i in range(1, width) if heads[0][i].strip()), width)
    rows, values, problems = [], [], []
    for line, row in lines[n:]:
        if len(row) != width:
            found = f"{len(row)} fields"
            problems.append(Problem("ragged_row", found, f"{width}, as the heads have", file=source, line=line))
        elif any(row[first:]) or line != lines[n][0]:  # names of the index, where it has any, have a row of their own
            rows.append("/".join(cell.strip() for cell in row[:first]))
            values.append(_numbers(row[first:], source, line, problems))
    if problems:
        raise DataError(at_most(problems))
    columns = list(zip(*(row[first:] for row in heads), strict=False))
    return Frame(_index(rows), columns, np.array(values, dtype=np.float64).reshape(len(rows), len(columns)))


def _numbers(cells: Sequence[str], source: str, line: int, problems: list[Problem]) -> list[float]:
    out = []
    for cell in cells:
        try:
            out.append(float(cell) if cell.strip() else np.nan)
        except ValueError:
            problems.append(Problem("bad_cell", repr(cell)[:60], "a number", file=source, line=line))
    return out


def _index(rows: list[str]) -> list[str] | list[int]:
    return [int(r) for r in rows] if all(r.isdecimal() for r in rows) else rows


def read_h5(path: Path) -> Frame:
    """The table of an h5 as pandas writes it, ``format="table"`` or ``"fixed"``, read without pandas.

    Raises:
        DataError: see :func:`read_deeplabcut`.
    """
    source = str(path)
    with open_hdf5(path) as file:
        keys = [KEY] if KEY in file else [k for k in file if as_text(_attributes(file, k, source).get("pandas_type"))]
        if len(keys) != 1:
            found = ", ".join(list(file)[:5]) or "nothing"
            raise DataError(Problem("no_table", found, f"a table {KEY}", file=source))
        group = child(file, keys[0], source)
        kind = as_text(_attributes(file, keys[0], source).get("pandas_type"))
        if kind == "frame":
            return _fixed(group, source)
        if kind == "frame_table":
            return _table(group, source)
        raise DataError(Problem("no_table", kind or "no pandas_type", "a table of pandas", file=source, key=keys[0]))


def _attributes(file: h5py.File, key: str, source: str) -> Any:
    found = child(file, key, source)
    return found.attrs if found is not None else {}


def _fixed(group: h5py.Group, source: str) -> Frame:
    columns: list[tuple[str, ...]] = []
    parts = []
    for block in range(int(group.attrs.get("nblocks", 0))):
        name = f"block{block}_values"
        values = numbers(group, name, source)
        items = _axis(group, f"block{block}_items", source)
        parts.append(values if group[name].attrs.get("transposed") else values.T)
        columns += [item if isinstance(item, tuple) else (str(item),) for item in items]
    rows = _axis(group, "axis1", source)
    return _frame([r if isinstance(r, int) else _joined(r) for r in rows], columns, parts, source)


def _axis(group: h5py.Group, name: str, source: str) -> list[Any]:
    """Labels of an axis: text, whole numbers, or tuples where it has several levels."""
    if as_text(group.attrs.get(f"{name}_variety")) != "multi":
        return _labels(group, name, source)
    levels = []
    for i in range(int(group.attrs.get(f"{name}_nlevels", 0))):
        values = [str(v) for v in _labels(group, f"{name}_level{i}", source)]
        codes = numbers(group, f"{name}_label{i}", source).tolist()
        if any(code >= len(values) for code in codes):
            raise DataError(Problem("bad_table", "a label that is not there", "labels", file=source, key=name))
        levels.append([values[code] if code >= 0 else "" for code in codes])
    return list(zip(*levels, strict=True))


def _labels(group: h5py.Group, name: str, source: str) -> list[Any]:
    if dataset(group, name, source).dtype.kind in "iu":
        return numbers(group, name, source).tolist()
    return texts(group, name, source)


def _table(group: h5py.Group, source: str) -> Frame:
    table = dataset(group, "table", source)
    fields = table.dtype.names or ()
    if "index" not in fields:
        expected = "rows with an index"
        raise DataError(Problem("bad_table", ", ".join(fields) or "no fields", expected, file=source, key="table"))
    columns: list[tuple[str, ...]] = []
    parts = []
    for name in fields:
        if name == "index":
            continue
        kind = table.attrs.get(f"{name}_kind")
        items = loads_plain(bytes(kind), f"{source}, {name}_kind") if isinstance(kind, bytes) else None
        values = table[name]
        if not isinstance(items, list) or values.dtype.kind not in "iuf" or values.ndim != 2:
            raise DataError(Problem("bad_table", f"field {name}", "blocks of numbers", file=source, key="table"))
        columns += [tuple(map(str, item)) if isinstance(item, tuple) else (str(item),) for item in items]
        parts.append(values)
    index = table["index"]
    rows = index.tolist() if index.dtype.kind in "iu" else [as_text(value) for value in index.tolist()]
    return _frame(rows, columns, parts, source)


def _joined(row: Any) -> str:
    return "/".join(row) if isinstance(row, tuple) else str(row)


def _frame(rows: list[Any], columns: list[tuple[str, ...]], parts: list[np.ndarray], source: str) -> Frame:
    shapes = [p.shape for p in parts]
    if not parts or any(len(s) != 2 or s[0] != len(rows) for s in shapes) or sum(s[1] for s in shapes) != len(columns):
        found = f"{len(rows)} rows, {len(columns)} columns, blocks {shapes}"
        raise DataError(Problem("bad_table", found, "blocks as large as rows and columns say", file=source))
    return Frame(rows, columns, np.hstack(parts).astype(np.float64))


def _sheet(frame: Frame, path: Path) -> Sheet:
    """Birds and keypoints out of columns, in their order."""
    width = {len(column) for column in frame.columns}
    if width not in ({3}, {4}):
        found = f"{', '.join(map(str, sorted(width))) or 'no'} levels of columns"
        raise DataError(Problem("no_heads", found, _EXPECTED, file=str(path)))
    if not frame.rows:
        raise DataError(Problem("no_rows", "no row", "poses", file=str(path)))
    about = [(column[1] if len(column) == 4 else "", column[-2], column[-1].lower()) for column in frame.columns]
    if len(set(about)) < len(about):
        found = next("/".join(a) for i, a in enumerate(about) if a in about[:i])
        raise DataError(Problem("column_twice", f"column {found} twice", "one scorer, each once", file=str(path)))
    birds = list(dict.fromkeys(bird for bird, _, _ in about))
    names = list(dict.fromkeys(name for _, name, coord in about if coord in ("x", "y")))
    cube = np.full((len(frame.rows), len(birds), len(names), 3), np.nan)
    for k, (bird, name, coord) in enumerate(about):
        if coord in ("x", "y", "likelihood") and name in names:
            at = ("x", "y", "likelihood").index(coord)
            cube[:, birds.index(bird), names.index(name), at] = frame.values[:, k]
    there = np.isfinite(cube[..., :2]).all(axis=-1)
    said = np.where(there, cube[..., 2], np.nan)
    counted = np.isfinite(said).sum(axis=-1)
    score = np.where(counted > 0, np.nansum(said, axis=-1) / np.maximum(counted, 1), np.nan)
    return Sheet(frame.rows, birds, names, np.where(there[..., None], cube[..., :2], np.nan), score)
