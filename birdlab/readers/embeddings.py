"""What a network makes of clips: embeddings (.npy with a list of rows, or parquet), or similarities of clips to clips.

Everything is read by blocks of rows from the mapped file, so that the embeddings of 400,000 images need no more memory
than those of their clips. Pickled arrays are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import Notice, at_most
from birdlab.readers.item_fields import heading, shown_list
from birdlab.readers.table_file import TableFile, as_text, damaged, read_table, sniff

#: Numbers of one block of rows.
_BLOCK = 1 << 23
NO_ROW = "no embedding in the file"
NOT_FINITE = "the embedding holds NaN or an infinite number"
NO_LENGTH = "the embedding is zero, or its images cancel out"
NO_SIMILARITY = "no similarity in the file"


@dataclass(frozen=True)
class Embedded:
    """Unit vectors of clips.

    Args:
        clip_id: clips that have one, (n).
        matrix: unit vectors, (n, d) float32.
        notices: what was counted.
        reasons: clip of the study without a vector -> why.
    """

    clip_id: list[str]
    matrix: npt.NDArray[np.float32]
    notices: list[Notice]
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SimilarityTable:
    """Similarities of clips to clips, in a mapped file; higher is more alike, what is not finite is not known.

    Args:
        row_id, column_id: clips of the rows (queries) and columns (gallery).
        matrix: (rows, columns).
        notices: what was counted.
        reasons: clip of the study that is neither row nor column -> why it has no answer.
    """

    row_id: list[str]
    column_id: list[str]
    matrix: npt.NDArray[np.floating]
    notices: list[Notice]
    reasons: dict[str, str] = field(default_factory=dict)


def read_embeddings(path: Path, rows: Path | None = None, *, clips: Collection[str]) -> Embedded:
    """Embeddings of clips as unit vectors; those of the images of a clip are pooled.

    Args:
        path: .npy of numbers (n, d) with ``rows``, or parquet with the columns clip_id, embedding[, frame_index].
        rows: CSV clip_id[,frame_index], one line per row of the .npy.
        clips: clips of the study.

    Returns:
        Embedded. With ``frame_index`` there is a row per image: a clip is the mean of its images' unit vectors, scaled
        to length 1 again. Rows that hold NaN, infinity or nothing but zeros are left out and counted, and so are clips that
        the study does not know; a clip of the study that is left without a vector is in ``reasons``.

    Raises:
        DataError: no numbers (n, d); other numbers of rows in the two files; vectors of different lengths; a clip (or an
            image of it) twice; no clip of the study at all.
    """
    shown = str(path)
    if sniff(path, shown) == "npy":
        if rows is None:
            raise DataError(Problem("no_rows", "an .npy file alone", "a CSV with the clip of each row", file=shown))
        matrix = _npy(path)
        table = read_table(rows)
        _same_length(table, len(matrix), path, "rows")
        chunks, d = _npy_chunks(matrix), int(matrix.shape[1])
    else:
        table, d = _parquet_names(path)
        chunks = _parquet_chunks(path, d)
    names, is_images = _row_names(table)
    return _pooled(names, is_images, chunks, d, clips, shown)


def named_similarity(method: str, rows: Path | None, columns: Path | None) -> tuple[Path, Path]:
    """The lists that name rows and columns of a matrix.

    Raises:
        DataError: one of them is not given.
    """
    if rows is None or columns is None:
        missing = "rows" if rows is None else "columns"
        expected = "a CSV clip_id, one line per row (and per column) of the matrix"
        raise DataError(Problem("no_names", f"no {missing}", expected, record=f"method {method}", key=missing))
    return rows, columns


def read_similarity(path: Path, rows: Path, columns: Path, *, clips: Collection[str]) -> SimilarityTable:
    """A matrix of similarities, queries x gallery, that somebody made.

    Args:
        path: .npy of numbers (q, g).
        rows, columns: CSV clip_id, one line per row, or column, of the matrix.
        clips: clips of the study.

    Raises:
        DataError: no numbers (q, g); another number of rows or columns than the lists have; a clip twice in one of them.
    """
    matrix = _npy(path)
    out: list[list[str]] = []
    problems: list[Problem] = []
    for file, n, what in ((rows, matrix.shape[0], "rows"), (columns, matrix.shape[1], "columns")):
        table = read_table(file)
        _same_length(table, n, path, what)
        names, _ = _row_names(table, images=False)
        out.append(names)
    known = set(clips)
    strange = {name for names in out for name in names} - known
    unknown = sum(
        int((~np.isfinite(matrix[i : i + size])).sum())
        for size in (max(1, _BLOCK // max(1, matrix.shape[1])),)
        for i in range(0, len(matrix), size)
    )
    if not known & set(out[0]) or not known & set(out[1]):
        found = f"{shown_list(out[0])}; {shown_list(out[1])}"
        problems.append(Problem("no_clip", found, "clips of the study among rows and columns", file=str(path)))
    if problems:
        raise DataError(problems)
    notices = [_strange(strange, str(path))] if strange else []
    if unknown:
        said = "similarities are NaN or infinite: they count as not known"
        notices.append(Notice("similarity_not_finite", said, unknown, str(path)))
    reasons = {clip: NO_SIMILARITY for clip in known - set(out[0]) - set(out[1])}
    return SimilarityTable(out[0], out[1], matrix, notices, reasons)


def _npy(path: Path) -> npt.NDArray[np.floating]:
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        if "Python objects" in str(error):
            expected, remedy = "an array of numbers", "save it as numbers: array.astype('float32')"
            found = "Python objects, which are a pickle and can run code"
            raise DataError(Problem("pickle", found, expected, remedy, file=str(path))) from error
        raise damaged(path, str(path), error) from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or not matrix.shape[1]:
        found = f"{matrix.dtype} {matrix.shape}" if isinstance(matrix, np.ndarray) else "no array"
        raise DataError(Problem("not_a_matrix", found, "numbers of the shape (rows, columns)", file=str(path)))
    return matrix


def _same_length(table: TableFile, n: int, path: Path, what: str) -> None:
    if table.frame.height != n:
        found = f"{table.frame.height} lines for {n} {what} of {path.name}"
        raise DataError(Problem("wrong_row_count", found, f"one line per one of its {what}", file=table.shown))


def _row_names(table: TableFile, *, images: bool = True) -> tuple[list[str], bool]:
    """Clip of each row, and whether a row is an image; each clip (or image) once."""
    heads = {heading(name): name for name in table.frame.columns}
    if "clip_id" not in heads:
        has = "the columns " + ", ".join(table.frame.columns)[:150]
        raise DataError(table.problem(None, "missing_column", has, "a column clip_id", key="clip_id"))
    names = as_text(table.frame[heads["clip_id"]], table.shown).alias("clip_id")
    is_images = images and "frame_index" in heads
    frame = pl.DataFrame([names])
    if is_images:
        frame = frame.with_columns(as_text(table.frame[heads["frame_index"]], table.shown).alias("frame_index"))
    problems = []
    for name in frame.columns:
        for row in frame[name].is_null().arg_true().to_list():
            problems.append(table.problem(row, "empty_value", "nothing", f"a {name}", key=name))
    twice = (~frame.select(pl.struct(pl.all()).is_first_distinct()).to_series()).arg_true().to_list()
    for row in twice if not problems else []:
        found = " frame ".join(repr(value) for value in frame.row(row))
        remedy = "" if is_images else "name the images in a column frame_index to have them pooled"
        key = "+".join(frame.columns)
        problems.append(table.problem(row, "duplicate_clip", found, "every one once", key=key, remedy=remedy))
    if problems:
        raise DataError(at_most(problems))
    return names.to_list(), is_images


def _npy_chunks(matrix: npt.NDArray[np.floating]) -> Iterator[npt.NDArray[np.floating]]:
    size = max(1, _BLOCK // matrix.shape[1])
    for start in range(0, len(matrix), size):
        yield matrix[start : start + size]


def _parquet_names(path: Path) -> tuple[TableFile, int]:
    """The names of the rows, and how long the embeddings are; all are of one length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path)
        heads = {heading(name): name for name in table.schema_arrow.names}
        if "embedding" not in heads:
            found = "the columns " + ", ".join(table.schema_arrow.names)[:150]
            raise DataError(Problem("missing_column", found, "a column embedding", file=str(path), key="embedding"))
        kind = table.schema_arrow.field(heads["embedding"]).type
        is_lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        if not is_lists or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
            raise DataError(Problem("not_a_matrix", str(kind), "lists of numbers", file=str(path), key="embedding"))
        wanted = [heads[name] for name in ("clip_id", "frame_index") if name in heads]
        names = pl.from_arrow(table.read(columns=wanted))
        lengths: set[int] = set()
        for batch in table.iter_batches(4096, columns=[heads["embedding"]]):
            lists = pl.from_arrow(batch).to_series().cast(pl.List(pl.Float32))  # type: ignore[union-attr]
            lengths |= set(lists.list.len().drop_nulls().unique().to_list())
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(path), error) from error
    if len(lengths) != 1 or 0 in lengths:
        found = f"embeddings of {', '.join(map(str, sorted(lengths)))} numbers" if lengths else "no embedding"
        raise DataError(Problem("ragged_embeddings", found, "all of one length", file=str(path), key="embedding"))
    return TableFile(path, str(path), "parquet", names), lengths.pop()  # type: ignore[arg-type]


def _parquet_chunks(path: Path, d: int) -> Iterator[npt.NDArray[np.floating]]:
    """Embeddings by blocks; a null one, or a null in one, is NaN."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path)
    name = next(name for name in table.schema_arrow.names if heading(name) == "embedding")
    for batch in table.iter_batches(max(1, _BLOCK // d), columns=[name]):
        column = pl.from_arrow(batch).to_series()  # type: ignore[union-attr]
        lists = column.cast(pl.List(pl.Float32))
        out = np.full((len(lists), d), np.nan, dtype=np.float32)
        there = lists.is_not_null().to_numpy()
        out[there] = lists.drop_nulls().explode().to_numpy().astype(np.float32).reshape(-1, d)
        yield out


def _pooled(
    names: list[str],
    is_images: bool,
    chunks: Iterator[npt.NDArray[np.floating]],
    d: int,
    clips: Collection[str],
    shown: str,
) -> Embedded:
    """Unit vectors per clip of the study, from blocks of rows."""
    wanted = {clip: i for i, clip in enumerate(dict.fromkeys(clips))}
    codes = np.array([wanted.get(name, -1) for name in names], dtype=np.int64)
    if not (codes >= 0).any():
        raise DataError(Problem("no_clip", shown_list(names), "clips of the study", file=shown, key="clip_id"))
    matrix = np.zeros((len(wanted), d), dtype=np.float32)
    n_good, n_infinite, n_zero = (np.zeros(len(wanted), dtype=np.int64) for _ in range(3))
    start = 0
    for chunk in chunks:
        at = codes[start : start + len(chunk)]
        start += len(chunk)
        units, infinite, zero = unit_vectors(np.asarray(chunk)[at >= 0])
        at = at[at >= 0]
        good = ~(infinite | zero)
        for count, what in ((n_good, good), (n_infinite, infinite), (n_zero, zero)):
            count += np.bincount(at[what], minlength=len(wanted))
        _add_rows(matrix, at[good], units[good])
    many = np.flatnonzero(n_good > 1)
    for part in np.array_split(many, 1 + len(many) * d // _BLOCK):
        matrix[part], _, _ = unit_vectors(matrix[part] / n_good[part, None], least=1e-6)
    has = matrix.any(axis=1)
    order = list(wanted)
    reasons: dict[str, str] = {}
    for i in np.flatnonzero(~has).tolist():
        zero_only = n_good[i] or (n_zero[i] and not n_infinite[i])
        reasons[order[i]] = NO_LENGTH if zero_only else NOT_FINITE if n_infinite[i] else NO_ROW
    what = "images" if is_images else "rows"
    notices = _notices(set(names) - wanted.keys(), reasons, (int(n_infinite.sum()), int(n_zero.sum())), what, shown)
    return Embedded([order[i] for i in np.flatnonzero(has).tolist()], matrix[has], notices, reasons)


def unit_vectors(
    matrix: npt.NDArray[np.floating], *, least: float = 0.0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Rows scaled to length 1.

    Args:
        matrix: (n, d) numbers.
        least: lengths up to this count as zero.

    Returns:
        Unit vectors (n, d) float32, which rows hold NaN or infinity, which are zero; both kinds are zeros in the first.

    >>> unit_vectors(np.array([[3.0, 4.0], [0.0, 0.0]]))[0].round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    wide = matrix.dtype != np.float32 and matrix.dtype != np.float16
    values = matrix.astype(np.float64 if wide else np.float32)
    infinite = ~np.isfinite(values).all(axis=1)
    values[infinite] = 0
    most = np.abs(values).max(axis=1, initial=0)
    # Divided by the largest number first: squares of very large or small ones would leave the range.
    values /= np.where(most > 0, most, 1)[:, None]
    length = np.sqrt(np.einsum("ij,ij->i", values, values, dtype=np.float64))
    zero = ~infinite & (length * most <= least)
    values /= np.where(length > 0, length, 1)[:, None].astype(values.dtype)
    values[zero] = 0
    return values.astype(np.float32, copy=False), infinite, zero


def _add_rows(total: npt.NDArray[np.float32], at: npt.NDArray[np.int64], rows: npt.NDArray[np.float32]) -> None:
    """Add each row to the one of ``total`` it belongs to."""
    if not len(at):
        return
    order = np.argsort(at, kind="stable")
    sorted_at = at[order]
    starts = np.flatnonzero(np.append(True, sorted_at[1:] != sorted_at[:-1]))
    if len(starts) == len(at):
        total[at] += rows
    else:
        total[sorted_at[starts]] += np.add.reduceat(rows[order], starts, axis=0)


def _notices(strange: set[str], reasons: dict[str, str], n_bad: tuple[int, int], what: str, shown: str) -> list[Notice]:
    notices = [_strange(strange, shown)] if strange else []
    for n, code, said in zip(
        n_bad, ("embedding_not_finite", "embedding_zero"), ("hold NaN or infinity", "are zero"), strict=True
    ):
        if n:
            notices.append(Notice(code, f"{what} of the embeddings {said}: left out", n, shown))
    if reasons:
        said = f"clips of the study have no embedding and no answer: {shown_list(sorted(reasons))}"
        notices.append(Notice("no_embedding", said, len(reasons), shown))
    return notices


def _strange(strange: set[str], shown: str) -> Notice:
    return Notice("unknown_clip", f"clips are not of the study: {shown_list(sorted(strange))}", len(strange), shown)
