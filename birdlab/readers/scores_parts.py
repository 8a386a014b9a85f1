"""One file of a wide score matrix: opened by its names and shape, then streamed a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from birdlab.errors import DataError, Problem
from birdlab.readers.files import at_most
from birdlab.readers.item_fields import heading, shown_list
from birdlab.readers.table_file import Kind, as_text, check_header, csv_lines, csv_problems, csv_shape, damaged, sniff

if TYPE_CHECKING:
    import pyarrow as pa

#: Headings of the column that names the item, the first that is there wins; and of columns that are no label.
ID_HEADINGS = ("item_id", "id", "image_id", "image")
META_HEADINGS = ("model", "prompt_id")
#: Bytes of CSV text held at a time: at least these, and so many per column that one line fits.
_BLOCK, _BLOCK_PER_COLUMN = 1 << 20, 128
#: Rows of a parquet file that are decoded at once: each batch costs a call per column.
_DECODED = 1024
_QUANTISED = "give scale (1/256 for a uint8 softmax), or write probabilities as floats"


@dataclass(frozen=True)
class Part:
    """One file of a matrix: its rows, which of its columns are the labels (in the order of the matrix), its numbers."""

    path: Path
    shown: str
    kind: Kind
    n: int
    places: tuple[int, ...]
    stored: str  #: dtype in the file, as NumPy names it
    scale: float | None = None
    batches: tuple[int, ...] = ()  #: rows of each row group or record batch

    @property
    def out(self) -> np.dtype[Any]:
        """The dtype it is given out in: float32 where that holds every stored value, else float64."""
        return np.dtype(np.float32 if np.dtype(self.stored).itemsize <= 2 or self.stored == "float32" else np.float64)


@dataclass(frozen=True)
class Opened:
    """A part with the names it carries itself: item ids, labels, and the columns model and prompt_id where present."""

    part: Part
    item_ids: list[str | None]
    labels: list[str]
    meta: dict[str, list[str | None]]


def open_npy(path: Path, shown: str, scale: float | None) -> tuple[Part, tuple[int, int]]:
    """Check the header of a npy file, without reading or unpickling anything.

    Raises:
        DataError: it is cut short, holds objects or records, is not two-dimensional, or is integer without a scale.
    """
    try:
        with np.errstate(over="ignore"):  # of a shape that no file has
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError, OverflowError, MemoryError, TokenError) as error:
        if "Python objects" in str(error) or "Object arrays" in str(error):
            remedy = "object arrays are pickles and run code when they are read: save a float array"
            raise DataError(
                Problem("refused_format", "a npy file of Python objects", "floats", remedy, shown)
            ) from error
        raise damaged(path, shown, error) from error
    if array.ndim != 2 or 0 in array.shape:
        expected = "one row per item and one column per label"
        raise DataError(Problem("bad_shape", f"an array of shape {array.shape}", expected, file=shown))
    stored = _checked(str(array.dtype.newbyteorder("=")), array.dtype.kind, scale, shown)
    part = Part(path, shown, "npy", array.shape[0], tuple(range(array.shape[1])), stored, scale)
    return part, (array.shape[0], array.shape[1])


def open_part(path: Path, shown: str, scale: float | None) -> Opened:
    """Open a parquet, feather or CSV file with one column of item ids and one numeric column per label.

    Raises:
        DataError: the file cannot be read, has no id column, columns that are not numbers, or integers without a scale.
    """
    kind = sniff(path, shown)
    if kind == "csv":
        return _open_csv(path, shown, scale)
    if kind not in ("parquet", "arrow"):
        raise DataError(_no_matrix(kind, shown))
    import pyarrow as pa

    try:
        return _open_columnar(path, shown, kind, scale)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, shown, error) from error


def _no_matrix(kind: Kind, shown: str) -> Problem:
    if kind != "jsonl":
        return Problem("refused_format", f"a {kind} file", "npy, parquet, feather or CSV", file=shown)
    # With a label and its probability, or an answer, it would not have come here.
    expected = "item_id and answer, or item_id, label and probability"
    return Problem("missing_column", "objects with neither label nor answer", expected, "name the keys so", shown)


def _open_columnar(path: Path, shown: str, kind: Kind, scale: float | None) -> Opened:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "parquet":
        with pq.ParquetFile(path, memory_map=True) as file:
            schema, metadata = file.schema_arrow, file.metadata
            batches = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
            names = [str(name) for name in schema.names]  # once: pyarrow builds the list anew at each use
            at, meta_at, places = _roles(names, shown, None)
            named = [names[i] for i in (at, *meta_at.values())]
            read = file.read(columns=named)
            columns = {i: read.column(name) for i, name in zip((at, *meta_at.values()), named, strict=True)}
    else:
        with pa.memory_map(str(path)) as source:
            schema = pa.ipc.open_file(source).schema
            names = [str(name) for name in schema.names]
            at, meta_at, places = _roles(names, shown, None)
            wanted = sorted((at, *meta_at.values()))
            some = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
            read = [some.get_batch(i) for i in range(some.num_record_batches)]
            batches = tuple(batch.num_rows for batch in read)
            columns = {
                i: pa.chunked_array([b.column(k) for b in read], schema.field(i).type) for k, i in enumerate(wanted)
            }
    stored = _stored(schema, places, scale, shown)
    part = Part(path, shown, kind, sum(batches), tuple(places), stored, scale, batches)
    texts = {i: as_text(pl.Series(names[i], pl.from_arrow(c)), shown).to_list() for i, c in columns.items()}
    labels = [names[i].strip() for i in places]
    return Opened(part, texts[at], labels, {name: texts[i] for name, i in meta_at.items()})


def _roles(header: list[str], shown: str, line: int | None) -> tuple[int, dict[str, int], list[int]]:
    """Which column is the id, which are model and prompt_id, and which are labels."""
    check_header(header, shown, line)
    by_heading = {heading(name): i for i, name in reversed(list(enumerate(header)))}
    at = next((by_heading[h] for h in ID_HEADINGS if h in by_heading), None)
    if at is None:
        found, expected = f"the columns {shown_list(header, 5)}", "a column item_id"
        raise DataError(Problem("missing_column", found, expected, file=shown, line=line, key="item_id"))
    meta = {h: by_heading[h] for h in META_HEADINGS if h in by_heading}
    places = [i for i in range(len(header)) if i != at and i not in meta.values()]
    if not places:
        found = f"the columns {shown_list(header, 5)}"
        raise DataError(Problem("no_labels", found, "one column of probabilities per label", file=shown, line=line))
    return at, meta, places


def _stored(schema: pa.Schema, places: list[int], scale: float | None, shown: str) -> str:
    """The widest dtype of the label columns; what is no number is told, column by column."""
    import pyarrow.types as kinds

    problems, names = [], []
    for i in places:
        kind = schema.field(i).type
        if kinds.is_floating(kind) or kinds.is_integer(kind):
            names.append(str(np.dtype(kind.to_pandas_dtype())))
        else:
            remedy = "keep item_id and one numeric column per label"
            name = schema.field(i).name[:80]
            problems.append(Problem("not_numeric", f"a column of {kind}", "numbers", remedy, shown, key=name))
    if problems:
        raise DataError(at_most(problems))
    integer = [name for name in names if "int" in name]
    if integer and len(integer) < len(names):
        if scale is not None:
            mixed = "integer and float columns side by side"
            raise DataError(Problem("mixed_columns", mixed, "integers only, where a scale is given", file=shown))
        first = next(schema.field(i).name[:80] for i, name in zip(places, names, strict=True) if "int" in name)
        found = f"{len(integer)} integer columns beside float ones"
        raise DataError(Problem("integer_scores", found, "floats", "write every column as floats", shown, key=first))
    widest = str(np.result_type(*set(names)))
    return _checked(widest, np.dtype(widest).kind, scale, shown)


def _checked(name: str, kind: str, scale: float | None, shown: str) -> str:
    if kind == "f" and scale is None:
        return name
    if kind in "iu" and scale is not None:
        return name
    if kind in "iu":
        raise DataError(Problem("integer_scores", f"{name} values", "probabilities as floats", _QUANTISED, shown))
    if kind == "f":
        found = f"{name} values and a scale"
        raise DataError(Problem("scaled_floats", found, "a scale for integers only", "leave out scale", shown))
    raise DataError(Problem("not_numeric", f"values of {name}", "probabilities as floats", file=shown))


def _open_csv(path: Path, shown: str, scale: float | None) -> Opened:
    """Read the whole file once, block by block: ids, and whether every cell is a number."""
    import pyarrow as pa

    shape = csv_shape(path, shown)
    at, meta_at, places = _roles(list(shape.header), shown, shape.n_header_lines)
    texts: dict[int, list[str | None]] = {i: [] for i in (at, *meta_at.values())}
    largest, whole = 0.0, True
    try:
        for batch in _csv_batches(path, places, shown):
            for i, column in texts.items():
                column.extend(batch.column(i).to_pylist())
            numbers = _matrix(batch, tuple(places))
            largest = max(largest, float(np.nanmax(numbers, initial=0.0)))
            whole = whole and bool((np.nan_to_num(numbers) % 1 == 0).all())
    except pa.ArrowException as error:
        problems = at_most(csv_problems(path, shown, shape, frozenset(places)))
        if not problems and not csv_lines(path):
            problems = [Problem("empty_file", "a header and no rows", "one row per item", file=shown)]
        said = Problem("not_csv", str(error).splitlines()[0][:200], "a table of numbers", file=shown)
        raise DataError(problems or said) from error
    if whole and largest > 1 and scale is None:
        found = f"whole numbers up to {largest:g}"
        raise DataError(Problem("integer_scores", found, "probabilities", _QUANTISED, shown))
    part = Part(path, shown, "csv", len(texts[at]), tuple(places), "float64", scale)
    stripped = {i: [(text or "").strip() or None for text in column] for i, column in texts.items()}
    meta = {name: stripped[i] for name, i in meta_at.items()}
    return Opened(part, stripped[at], [shape.header[i] for i in places], meta)


def _csv_batches(path: Path, places: list[int] | tuple[int, ...], shown: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    shape = csv_shape(path, shown)
    names = [str(i) for i in range(len(shape.header))]
    kinds = {name: pa.string() for name in names} | {str(i): pa.float64() for i in places}
    read = pacsv.ReadOptions(
        use_threads=False,
        column_names=names,
        skip_rows=shape.n_header_lines,
        block_size=max(_BLOCK, _BLOCK_PER_COLUMN * len(names)),
    )
    parse = pacsv.ParseOptions(delimiter=shape.delimiter, newlines_in_values=True)
    convert = pacsv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=True)
    try:
        reader = pacsv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if str(error).startswith("Empty CSV"):
            found = Problem("empty_file", "a header and no rows", "one row per item", file=shown)
            raise DataError(found) from error
        raise
    with reader:
        yield from reader


def _matrix(batch: pa.RecordBatch, places: tuple[int, ...]) -> np.ndarray:
    """The label columns of a batch as one array (k, L); a missing value is NaN."""
    return batch.select(list(places)).to_tensor(null_to_nan=True).to_numpy()


def stream(part: Part, rows: np.ndarray | None, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of a part in the order of the file, at most ``size`` at a time.

    Args:
        part: an opened part.
        rows: ascending positions in the part, int64; ``None`` for all.
        size: most rows per chunk.

    Yields:
        Positions (k,) and values (k, L); read-only, in :attr:`Part.out`. Of a compressed file one row group or record
        batch is held at a time, of others only the chunk.
    """
    import pyarrow as pa

    wanted = np.arange(part.n) if rows is None else rows
    try:
        for positions, block in (
            _npy_blocks(part, wanted, size) if part.kind == "npy" else _arrow_blocks(part, wanted, size)
        ):
            values = np.ascontiguousarray(block, dtype=part.out)
            if part.scale is not None:
                values = values * part.out.type(part.scale)
            values.flags.writeable = False
            yield positions, values
    except (pa.ArrowException, OSError) as error:
        raise damaged(part.path, part.shown, error) from error


def _npy_blocks(part: Part, wanted: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    array = np.load(part.path, mmap_mode="r", allow_pickle=False)
    in_order = part.places == tuple(range(array.shape[1]))
    for start in range(0, len(wanted), size):
        positions = wanted[start : start + size]
        is_run = positions[-1] - positions[0] + 1 == len(positions)
        # A run of rows is a view of the map: nothing is copied.
        block = np.asarray(array[positions[0] : positions[-1] + 1] if is_run else array[positions])
        yield positions, block if in_order else block[:, part.places]


def _arrow_blocks(part: Part, wanted: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    start = 0
    for batch in _batches(part, wanted, size):
        end = start + (batch if isinstance(batch, int) else batch.num_rows)
        here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, end)]
        for first in range(0, len(here), size):
            positions = here[first : first + size]
            low, high = positions[0] - start, positions[-1] - start + 1
            span = _matrix(batch.slice(low, high - low), part.places) if high - low <= 4 * size else None  # type: ignore[union-attr]
            # Far-apart rows are gathered first, so that no more than the chunk is turned into a matrix.
            block = (
                span[positions - positions[0]]
                if span is not None
                else _matrix(batch.take(positions - start), part.places)
            )  # type: ignore[union-attr]
            yield positions, block
        start = end


def _batches(part: Part, wanted: np.ndarray, size: int) -> Iterator[pa.RecordBatch | int]:
    """The batches of a file in order; the number of rows in place of one that holds no wanted row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if part.kind == "csv":
        yield from _csv_batches(part.path, part.places, part.shown)
        return
    edges = np.concatenate([[0], np.cumsum(part.batches)])
    needed = np.diff(np.searchsorted(wanted, edges)) > 0
    if part.kind == "arrow":
        with pa.memory_map(str(part.path)) as source:
            reader = pa.ipc.open_file(source)
            for i, n in enumerate(part.batches):
                yield reader.get_batch(i) if needed[i] else n
        return
    with pq.ParquetFile(part.path, memory_map=True, pre_buffer=False) as file:
        for i, n in enumerate(part.batches):
            if needed[i]:
                yield from file.iter_batches(batch_size=max(size, _DECODED), row_groups=[i], use_threads=False)
            else:
                yield n
