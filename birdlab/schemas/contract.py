"""The contract of one table: its columns, its key, and what is checked before a frame may pass."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from birdlab.errors import DataError, Problem

S, F, I32, I64, B = pl.String, pl.Float64, pl.Int32, pl.Int64, pl.Boolean


@dataclass(frozen=True)
class Column:
    """One column: its name, polars type, meaning (with unit) and whether it may be null."""

    name: str
    dtype: pl.DataType | type[pl.DataType]
    doc: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """The contract of one table: key columns are unique together and never null."""

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def dtypes(self) -> dict[str, pl.DataType]:
        """Column name to polars type, in order."""
        return {c.name: c.dtype for c in self.columns}

    def empty(self) -> pl.DataFrame:
        """A frame with no rows and these columns."""
        return pl.DataFrame(schema=self.dtypes)

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Cast to the declared types, add missing nullable columns as null, order the columns; extra ones stay last."""
        have = set(frame.columns)
        add = [pl.lit(None, dtype=c.dtype).alias(c.name) for c in self.columns if c.name not in have and c.nullable]
        frame = frame.with_columns(add)
        frame = frame.with_columns(pl.col(c.name).cast(c.dtype) for c in self.columns if c.name in frame.columns)
        declared = [c.name for c in self.columns if c.name in frame.columns]
        return frame.select(*declared, *[c for c in frame.columns if c not in set(declared)])

    def validate(self, frame: pl.DataFrame, *, source: str = "") -> pl.DataFrame:
        """Return ``frame`` conformed, or raise one :class:`DataError` that lists everything that is wrong.

        Checked: every declared column is there (nullable ones are added), types can be cast, no null and no NaN
        where none may be, the key is unique.
        """
        where = source or f"table {self.name}"
        problems = [
            Problem("missing_column", "no such column", f"{c.dtype} ({c.doc})", file=where, key=c.name)
            for c in self.columns
            if c.name not in frame.columns and not c.nullable
        ]
        if problems:
            raise DataError(problems)
        try:
            frame = self.conform(frame)
        except (pl.exceptions.PolarsError, TypeError) as error:
            detail = str(error).splitlines()[0]
            raise DataError(Problem("wrong_type", detail, f"the types of table {self.name}", file=where)) from error
        for c in self.columns:
            bad = frame[c.name].is_null()
            if c.dtype == pl.Float64:
                nan = frame[c.name].is_nan().fill_null(False)
                if nan.any():
                    problems.append(_at(frame, nan, "nan", "NaN", "a number or null", where, c.name))
            if not c.nullable and bad.any():
                problems.append(_at(frame, bad, "null", "null", c.doc, where, c.name))
        if self.key and frame.height:
            twice = frame.select(pl.struct(self.key).is_duplicated()).to_series()
            if twice.any():
                problems.append(
                    _at(frame, twice, "duplicate_key", "the same key twice", "unique rows", where, "+".join(self.key))
                )
        if problems:
            raise DataError(problems)
        return frame


def _at(frame: pl.DataFrame, mask: pl.Series, code: str, found: str, expected: str, where: str, key: str) -> Problem:
    first = int(mask.arg_true()[0])
    n = int(mask.sum())
    return Problem(code, f"{found} in {n} of {frame.height} rows", expected, file=where, record=f"row {first}", key=key)


def table(name: str, doc: str, key: tuple[str, ...], *columns: Column) -> Table:
    return Table(name, doc, key, columns)


def must(name: str, dtype: pl.DataType | type[pl.DataType], doc: str) -> Column:
    return Column(name, dtype, doc)


def may(name: str, dtype: pl.DataType | type[pl.DataType], doc: str) -> Column:
    return Column(name, dtype, doc, nullable=True)
