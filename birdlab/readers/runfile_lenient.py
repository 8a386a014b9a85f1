"""Repairs of lines of a run file that are meant as predictions and are none by the rule; each is counted."""

from __future__ import annotations

from typing import Any

import polars as pl

#: Repairs in the order they are made, and what is said of them.
REPAIRS = {
    "blank": "blank lines left out",
    "brackets": "< and > around lines taken away",
    "header": "header lines left out",
    "spaces": "spaces around fields taken away",
    "times": "times written out with two digits",
}
_HEAD = r"(?i)^\s*media_?id\s*;"
_SHORT = r"^(\d{1,2}):(\d{1,2}):(\d{1,2})\s*-\s*(\d{1,2}):(\d{1,2}):(\d{1,2})$"


class Repairs:
    """Repairs made so far: how many of each kind, and where first."""

    def __init__(self) -> None:
        self.n = dict.fromkeys(REPAIRS, 0)
        self.first: dict[str, int] = {}

    def mend(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines (columns at, text) as they are meant; blank and header lines are gone.

        Spaces around the line and its fields, and around the times, are taken away, brackets of the page's notation too;
        ``0:0:10-0:0:15`` becomes ``00:00:10-00:00:15``. Nothing else is: no name is guessed and no number changed.
        """
        bare = pl.col("text").str.strip_chars()
        lines = self._counted(lines, "blank", bare == "").filter(bare != "")
        inner = bare.str.strip_prefix("<").str.strip_suffix(">")
        lines = self._counted(lines, "brackets", inner != bare)
        lines = lines.with_columns(inner.alias("text"))
        is_head = pl.col("text").str.contains(_HEAD)
        lines = self._counted(lines, "header", is_head).filter(~is_head)
        trimmed = bare.str.replace_all(r"[ \t]*;[ \t]*", ";")
        lines = self._counted(lines, "spaces", trimmed != pl.col("text")).with_columns(trimmed.alias("text"))
        return self._padded(lines)

    def _padded(self, lines: pl.DataFrame) -> pl.DataFrame:
        parts = pl.col("text").str.splitn(";", 3)
        time = parts.struct.field("field_1")
        two = [time.str.extract(_SHORT, i).str.zfill(2) for i in range(1, 7)]
        full = pl.format("{}:{}:{}-{}:{}:{}", *two)
        lines = lines.with_columns(full=full, media=parts.struct.field("field_0"), rest=parts.struct.field("field_2"))
        mended = pl.col("full").is_not_null() & pl.col("rest").is_not_null() & (pl.col("full") != time)
        lines = self._counted(lines, "times", mended)
        text = pl.when(mended).then(pl.format("{};{};{}", "media", "full", "rest")).otherwise("text")
        return lines.select("at", text.alias("text"))

    def _counted(self, lines: pl.DataFrame, kind: str, where: pl.Expr) -> pl.DataFrame:
        at = lines.filter(where)["at"]
        self.n[kind] += len(at)
        if len(at):
            self.first.setdefault(kind, int(at[0]))
        return lines

    def warnings(self) -> list[dict[str, Any]]:
        """What was repaired, as warnings of a run."""
        return [
            {"code": f"repaired_{kind}", "message": f"{REPAIRS[kind]}, line {self.first[kind]:,} first", "n": n}
            for kind, n in self.n.items()
            if n
        ]


__all__ = ["REPAIRS", "Repairs"]
