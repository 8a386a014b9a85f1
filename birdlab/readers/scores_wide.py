"""Wide scores: one row per item, one column per label, read a few rows at a time and never held as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from birdlab.errors import DataError, ParameterError, Problem
from birdlab.readers.files import at_most, natural_key, text_lines
from birdlab.readers.item_fields import shown_list
from birdlab.readers.scores_parts import Opened, Part, open_npy, open_part, stream
from birdlab.readers.table_file import sniff

Names = Path | Sequence[str]


@dataclass(frozen=True, eq=False)
class WideScores:
    """A matrix of probabilities on disk, with the names of its rows and columns.

    ``dtype`` is the dtype in the file (``float16``, ``float32``, ``float64``, or an integer that a scale is given for;
    CSV is ``float64``). Nothing here looks at the values: rows that do not sum to 1 are told by whoever adds them up.
    """

    model: str
    item_ids: tuple[str, ...]
    labels: tuple[str, ...]
    source: str
    dtype: str
    parts: tuple[Part, ...]
    prompt_id: str | None = None
    rows: np.ndarray | None = field(default=None, repr=False)  #: rows of the parts that are this model's; None for all

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return len(self.item_ids)

    @property
    def n_labels(self) -> int:
        """Number of columns."""
        return len(self.labels)

    def chunks(self, rows: np.ndarray | None = None, size: int = 256) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of the matrix in the order of the file, a few at a time.

        Args:
            rows: positions in ``item_ids``, in any order (each is given once); ``None`` for all.
            size: most rows per chunk; a chunk may hold fewer.

        Yields:
            Positions (k,) int64, ascending over all chunks, and probabilities (k, L), float32 or (for files of 64 bits)
            float64; a missing value is NaN. The array is read-only and may be a view of the file.

        Raises:
            DataError: a file turns out to be damaged.
            IndexError: a position outside ``item_ids``.
        """
        wanted = np.arange(self.n_items) if rows is None else np.unique(np.asarray(rows, dtype=np.int64))
        if len(wanted) and (wanted[0] < 0 or wanted[-1] >= self.n_items):
            raise IndexError(f"row positions must lie in [0, {self.n_items})")
        in_files = wanted if self.rows is None else self.rows[wanted]
        start = 0
        for part in self.parts:
            low, high = np.searchsorted(in_files, [start, start + part.n])
            if high > low:
                for positions, values in stream(part, in_files[low:high] - start, size):
                    found = positions + start
                    yield found if self.rows is None else np.searchsorted(self.rows, found), values
            start += part.n


def read_wide(
    path: Path | Sequence[Path],
    *,
    model: str,
    ids: Names | None = None,
    labels: Names | None = None,
    scale: float | None = None,
    source: str = "",
) -> list[WideScores]:
    """Open a matrix of probabilities: a npy file, a parquet, feather or CSV file, or several of those as parts of one.

    Args:
        path: the file; a list of files or a folder of parquet files is one matrix, its rows in that order, its columns
            put together by name.
        model: name of the model; a column ``model`` of the file wins.
        ids: item ids of a npy file: a text file with one per line, or the ids; ``<stem>.ids.txt`` beside it by default.
        labels: labels of a npy file, likewise; ``<stem>.labels.txt`` by default.
        scale: what integers are multiplied by (1/256 for a uint8 softmax); without it they are refused.
        source: how problems name the file; its path where empty.

    Returns:
        One :class:`WideScores` per model and prompt in the file, in order of appearance.

    Raises:
        DataError: with every problem of shape, names and kind of number that was found.
        ParameterError: ``scale`` is no positive number, or no file is given.
    """
    if scale is not None and not (np.isfinite(scale) and scale > 0):
        raise ParameterError(Problem("bad_value", repr(scale), "a positive number", key="scale"))
    paths = _paths(path)
    shown = [source if source and len(paths) == 1 else str(p) for p in paths]
    if len(paths) == 1 and sniff(paths[0], shown[0]) == "npy":
        return [_npy(paths[0], shown[0], model, ids, labels, scale)]
    if ids is not None or labels is not None:
        found = f"ids or labels beside {paths[0].name}"
        raise ParameterError(Problem("bad_value", found, "them for a npy file only", key="ids"))
    opened = [open_part(p, s, scale) for p, s in zip(paths, shown, strict=True)]
    names = source or (str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more")
    return _joined(opened, model, names)


def _paths(path: Path | Sequence[Path]) -> list[Path]:
    if not isinstance(path, (str, Path)):
        paths = [Path(p) for p in path]
        if not paths:
            raise ParameterError(Problem("no_files", "an empty list of files", "at least one file of scores"))
        return paths
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    parts = sorted(folder.glob("*.parquet"), key=lambda p: natural_key(p.name))
    if not parts:
        problem = Problem("no_files", "no parquet file", "the parts of one matrix", file=str(folder))
        raise DataError(problem)
    return parts


def _npy(
    path: Path, shown: str, model: str, ids: Names | None, labels: Names | None, scale: float | None
) -> WideScores:
    part, shape = open_npy(path, shown, scale)
    problems: list[Problem] = []
    found = []
    for what, names, n, noun in (("ids", ids, shape[0], "rows"), ("labels", labels, shape[1], "columns")):
        default = path.with_name(f"{path.stem}.{what}.txt")
        texts, wrong = _names(default if names is None else names, what)
        problems += wrong
        found.append(texts)
        if not wrong and len(texts) != n:
            turned = shape[0] != shape[1] and len(texts) == shape[1 - ("rows", "columns").index(noun)]
            remedy = "is the matrix transposed? One row per item is expected" if turned else ""
            expected = f"as many as the matrix has {noun}, {n} (its shape is {shape})"
            problems.append(Problem("count_differs", f"{len(texts)} {what}", expected, remedy, file=shown, key=what))
    if problems:
        raise DataError(at_most(problems))
    return WideScores(model, tuple(found[0]), tuple(found[1]), shown, part.stored, (part,))


def _names(names: Names, what: str) -> tuple[list[str], list[Problem]]:
    """Ids or labels, one per line of a text file or given as they are, and what is wrong with them."""
    shown: str | None = None
    if isinstance(names, (str, Path)):
        shown = str(names)
        try:
            texts = text_lines(Path(names).read_bytes().decode("utf-8-sig"))
        except OSError as error:
            remedy = f"write it with one name per line, or say where it is ({what})"
            expected = f"the text file with the {what} of the matrix"
            return [], [Problem("unreadable", error.strerror or "an error", expected, remedy, shown)]
        except UnicodeDecodeError:
            return [], [Problem("not_utf8", "bytes that are not UTF-8", "text in UTF-8", "save it as UTF-8", shown)]
    else:
        texts = [str(name) for name in names]
    texts = [text.strip() for text in texts]
    while texts and not texts[-1]:
        texts.pop()
    return texts, _name_problems(texts, what, shown)


def _name_problems(texts: Sequence[str | None], what: str, shown: str | None) -> list[Problem]:
    problems = []
    first: dict[str, int] = {}
    for number, text in enumerate(texts, start=1):
        if not text:
            problems.append(Problem("empty_value", "nothing", f"one of the {what}", file=shown, line=number, key=what))
        elif text in first:
            expected = f"every one once (first in line {first[text]})"
            problems.append(Problem("duplicate_name", repr(text[:80]), expected, file=shown, line=number, key=what))
        else:
            first[text] = number
    return problems


def _joined(opened: list[Opened], model: str, source: str) -> list[WideScores]:
    """Parts as one matrix: the columns of each in the order of the first, the rows one after the other."""
    labels = opened[0].labels
    problems = [problem for one in opened[1:] for problem in _other_labels(one, labels)]
    if problems:
        raise DataError(at_most(problems))
    stored = str(np.result_type(*{one.part.stored for one in opened}))
    parts = []
    for one in opened:
        at = dict(zip(one.labels, one.part.places, strict=True))
        parts.append(replace(one.part, places=tuple(at[label] for label in labels), stored=stored))
    owners: dict[tuple[str, str | None], list[tuple[int, str]]] = {}
    start = 0
    for one in opened:
        problems += _own_ids(one, model, start, owners)
        start += one.part.n
    if not start:
        problems.append(Problem("empty_file", "no rows", "one row per item", file=source))
    if problems:
        raise DataError(at_most(problems))
    return [
        WideScores(
            name,
            tuple(item for _, item in rows),
            tuple(labels),
            source,
            stored,
            tuple(parts),
            prompt,
            None if len(owners) == 1 else np.array([row for row, _ in rows], dtype=np.int64),
        )
        for (name, prompt), rows in owners.items()
    ]


def _other_labels(one: Opened, labels: list[str]) -> list[Problem]:
    lacking, more = set(labels) - set(one.labels), set(one.labels) - set(labels)
    if not lacking and not more:
        return []
    found = f"{len(lacking)} labels missing and {len(more)} others ({shown_list(sorted(lacking | more))})"
    return [Problem("labels_differ", found, "the labels of the first part", file=one.part.shown)]


def _own_ids(
    one: Opened, model: str, start: int, owners: dict[tuple[str, str | None], list[tuple[int, str]]]
) -> list[Problem]:
    """Give each row of a part to its model and prompt; tell rows without an id and ids that stand twice."""
    problems = []
    nothing: list[str | None] = [None] * one.part.n
    models, prompts = one.meta.get("model", nothing), one.meta.get("prompt_id", nothing)
    seen = {key: {item for _, item in rows} for key, rows in owners.items()}
    for row, (item, name, prompt) in enumerate(zip(one.item_ids, models, prompts, strict=True)):
        place = f"row {row + 1}"
        if not item:
            expected = "the id of the item"
            problems.append(
                Problem("empty_value", "nothing", expected, file=one.part.shown, record=place, key="item_id")
            )
            continue
        key = (name or model, prompt)
        if item in seen.setdefault(key, set()):
            found = repr(item[:80])
            problems.append(
                Problem("duplicate_item", found, "every item once", file=one.part.shown, record=place, key="item_id")
            )
            continue
        seen[key].add(item)
        owners.setdefault(key, []).append((start + row, item))
    return problems
