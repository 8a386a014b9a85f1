"""A results table as a reader expects it: aligned, one precision per column, undefined explained, and the same in LaTeX."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from birdlab.errors import ParameterError, Problem
from birdlab.report.html import Html, el, esc, join, plain, rich
from birdlab.style import NEUTRAL, Hue

Kind = Literal["number", "int", "percent", "p", "text"]
NOT_REPORTED = "Not reported."
NO_REASON = "Undefined; no reason was recorded."
MANY = 8  #: a table with more columns scrolls in its own box
#: More lines than this scroll in a box of their own on screen, and can be searched.
LONG = 24


@dataclass(frozen=True)
class Col:
    """How one column is shown.

    Args:
        label: header; ``{model:NAME}`` stands in the model's colour.
        unit: unit or threshold, in small type under the header.
        better: ``"up"`` or ``"down"`` where larger or smaller is better: an arrow, and the best value in bold.
        digits: places after the point (default 3; 1 for percent; none for int).
        lo, hi: names of the columns with the ends of the interval (default: ``<column>_lo``, ``<column>_hi``).
        kind: ``percent`` takes fractions and prints them times 100; ``p`` is a probability, never printed as 0;
            ``text`` is left-aligned.
    """

    label: str
    unit: str = ""
    better: Literal["up", "down"] | None = None
    digits: int | None = None
    lo: str | None = None
    hi: str | None = None
    kind: Kind = "number"

    @property
    def places(self) -> int:
        """Places after the point that are printed."""
        if self.digits is not None:
            return self.digits
        return {"number": 3, "percent": 1, "int": 0, "p": 3, "text": 0}[self.kind]

    @property
    def arrow(self) -> str:
        """The direction that is better, as an arrow."""
        return {"up": "\u202f↑", "down": "\u202f↓", None: ""}[self.better]


@dataclass(frozen=True)
class Cell:
    """One printed cell: its text, interval, footnote mark, sort value and whether it is the best of its column."""

    text: str
    interval: str = ""
    mark: str = ""
    value: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """One printed row: its label, the small note under it, its model if it has one, and its cells."""

    label: str
    note: str
    model: str | None
    cells: tuple[Cell, ...]


@dataclass
class Layout:
    """A table ready to be written in any format."""

    head: Col
    columns: dict[str, Col]
    lines: list[Line] = field(default_factory=list)
    published: list[Line] = field(default_factory=list)
    footnotes: dict[str, str] = field(default_factory=dict)  #: reason -> letter

    def mark(self, reason: str) -> str:
        """The letter of the footnote that gives this reason; a new one the first time."""
        if reason not in self.footnotes:
            n = len(self.footnotes)
            letters = string.ascii_lowercase
            self.footnotes[reason] = letters[n] if n < 26 else letters[n // 26 - 1] + letters[n % 26]
        return self.footnotes[reason]


def number(value: float, places: int = 3) -> str:
    """A number with a fixed precision, thousands separated and a true minus sign; never a negative zero.

    >>> number(-0.0004), number(1240, 0), number(-13.06, 1)
    ('0.000', '1,240', '−13.1')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.{places}f}"
    if text.startswith("-"):
        text = text[1:] if not text.strip("-0.,") else "−" + text[1:]
    return text


def span(lo: float, hi: float, places: int = 3) -> str:
    """Two ends of an interval, with a dash between them where neither has a sign.

    >>> span(0.437, 0.486), span(-48.3, -0.8, 1)
    ('0.437–0.486', '−48.3 to −0.8')
    """
    ends = number(lo, places), number(hi, places)
    return (" to " if any(e.startswith("−") for e in ends) else "–").join(ends)


def lay_out(
    frame: pl.DataFrame,
    *,
    columns: Mapping[str, Col] | None,
    row_label: str | None,
    model_column: str | None,
    models: Sequence[str],
    published: pl.DataFrame | None,
    reasons: Mapping[str, str] | None,
    best_within: str | None = None,
) -> Layout:
    """Turn a frame into printed cells; see :func:`birdlab.report.show.show_table` for the arguments.

    Raises:
        ParameterError: a column that is asked for is not in the frame.
    """
    head_name = row_label or model_column or _first_text(frame)
    cols = dict(columns) if columns is not None else infer_columns(frame)
    head = cols.pop(head_name, None) or Col(_title(head_name), kind="text")
    given = [model_column, best_within, *(c.lo for c in cols.values()), *(c.hi for c in cols.values())]
    missing = [name for name in [head_name, *cols, *given] if name is not None and name not in frame.columns]
    if missing:
        raise ParameterError(
            [Problem("unknown_column", repr(n), "one of " + ", ".join(frame.columns), key="columns") for n in missing]
        )
    cols = {name: _with_interval(name, col, frame) for name, col in cols.items()}
    layout = Layout(head, cols)
    best = _best(frame, cols, model_column, models, best_within)
    for i, row in enumerate(frame.iter_rows(named=True)):
        cells = tuple(_cell(layout, row, name, col, reasons or {}, (i, name) in best) for name, col in cols.items())
        model = row[model_column] if model_column else None
        layout.lines.append(Line(_text(row[head_name]), _text(row.get(f"{head_name}_note")), model, cells))
    for row in published.iter_rows(named=True) if published is not None else ():
        cells = tuple(_cell(layout, row, name, col, {}, False, default=NOT_REPORTED) for name, col in cols.items())
        label = _text(row.get(head_name)) or _text(row.get("source")) or "As published"
        layout.published.append(Line(label, _text(row.get(f"{head_name}_note")), None, cells))
    return layout


def infer_columns(frame: pl.DataFrame) -> dict[str, Col]:
    """Every column of a frame except interval ends, reasons and notes, with a kind from its type."""
    names = set(frame.columns)
    extra = {f"{n}{suffix}" for n in names for suffix in ("_lo", "_hi", "_reason", "_note")}
    kinds: dict[str, Kind] = {}
    for name, dtype in frame.schema.items():
        if name not in extra:
            kinds[name] = "int" if dtype.is_integer() else "number" if dtype.is_numeric() else "text"
    return {name: Col(_title(name), kind=kind) for name, kind in kinds.items()}


def _with_interval(name: str, col: Col, frame: pl.DataFrame) -> Col:
    lo, hi = f"{name}_lo", f"{name}_hi"
    if col.lo is None and col.hi is None and lo in frame.columns and hi in frame.columns:
        return replace(col, lo=lo, hi=hi)
    return col


def _title(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _first_text(frame: pl.DataFrame) -> str:
    if not frame.columns:
        raise ParameterError("a table needs at least one column")
    return next(
        (n for n, t in frame.schema.items() if t in (pl.String, pl.Categorical) or t == pl.Enum), frame.columns[0]
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _sentence(reason: str) -> str:
    """A reason as a footnote: says that the value is undefined, and ends with a full stop."""
    known = reason in (NOT_REPORTED, NO_REASON) or reason.lower().startswith(("undefined", "not "))
    text = reason[:1].upper() + reason[1:] if known else f"Undefined: {reason}"
    return text if text.endswith((".", "?", "!")) else text + "."


def _is_undefined(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cell(
    layout: Layout,
    row: Mapping[str, Any],
    name: str,
    col: Col,
    reasons: Mapping[str, str],
    best: bool,
    default: str = NO_REASON,
) -> Cell:
    value = row.get(name)
    if _is_undefined(value):
        reason = _text(row.get(f"{name}_reason")) or reasons.get(name, "") or default
        return Cell("–", mark=layout.mark(_sentence(reason)))
    if col.kind == "text":
        return Cell(_text(value), value=_text(value))
    scale = 100.0 if col.kind == "percent" else 1.0
    interval, mark = "", ""
    if col.lo and col.hi and col.lo in row:
        lo, hi = row[col.lo], row[col.hi]
        if _is_undefined(lo) or _is_undefined(hi):
            reason = _text(row.get(f"{name}_reason"))
            mark = layout.mark("No interval: " + reason.rstrip(".") + ".") if reason else ""
        else:
            interval = span(lo * scale, hi * scale, col.places)
    text = number(float(value) * scale, col.places)
    if col.kind == "p" and value < 10.0**-col.places:
        text = "<\u202f" + number(10.0**-col.places, col.places)
    return Cell(text, interval, mark, repr(float(value)), best)


def _best(
    frame: pl.DataFrame, cols: Mapping[str, Col], model_column: str | None, models: Sequence[str], within: str | None
) -> set[tuple[int, str]]:
    """Cells that are best of their column, as printed, among models run here; a column with one value has no best."""
    if model_column is None:
        return set()
    known = set(models)
    groups: dict[object, list[int]] = {}
    for i, row in enumerate(frame.iter_rows(named=True)):
        if row[model_column] in known:
            groups.setdefault(row[within] if within else None, []).append(i)
    best: set[tuple[int, str]] = set()
    for name, col in cols.items():
        if col.better is None:
            continue
        for rows in groups.values():
            scale = 100.0 if col.kind == "percent" else 1.0
            values = {
                i: round(float(frame[name][i]) * scale, col.places) for i in rows if not _is_undefined(frame[name][i])
            }
            if len(values) > 1 and len(set(values.values())) > 1:
                top = max(values.values()) if col.better == "up" else min(values.values())
                best |= {(i, name) for i, value in values.items() if value == top}
    return best


def to_html(layout: Layout, *, hues: Mapping[str, Hue], label: str, notes: Sequence[str] = ()) -> Html:
    """The scrolling box with the table, and the footnotes under it."""
    if not layout.lines and not layout.published:
        said = [el("span", "Nothing to list."), *[el("span", rich(note, hues)) for note in notes]]
        return el("p", *_spaced(said), cls="bl-fn")
    n = len(layout.columns) + 1
    head = [el("th", _head(layout.head, hues), scope="col")]
    head += [
        el("th", _head(c, hues), scope="col", cls=None if c.kind == "text" else "n") for c in layout.columns.values()
    ]
    body = [_row(line, layout, hues) for line in layout.lines]
    parts = [el("thead", el("tr", *head)), *([el("tbody", *body)] if body else [])]
    if layout.published:
        parts.append(el("tbody", *[_row(line, layout, hues) for line in layout.published], cls="pub"))
    cls = "bl-t" + (" sortable" if len(layout.lines) > 1 else "") + (" wide" if n > MANY else "")
    box = el(
        "div",
        el("table", *parts, cls=cls, style=f"--cols:{n}"),
        cls="bl-tw" + (" long" if len(layout.lines) > LONG else ""),
        tabindex="0",
        role="region",
        aria_label=label,
    )
    feet = [el("span", el("sup", letter), " ", reason) for reason, letter in layout.footnotes.items()]
    feet += [el("span", rich(note, hues)) for note in notes]
    return join(box, el("p", *_spaced(feet), cls="bl-fn") if feet else None)


def _spaced(parts: list[Html]) -> list[Html]:
    return [piece for part in parts for piece in (part, esc(" "))]


def _head(col: Col, hues: Mapping[str, Hue]) -> Html:
    return join(rich(col.label, hues, references=False), col.arrow, el("small", col.unit) if col.unit else None)


def _row(line: Line, layout: Layout, hues: Mapping[str, Hue]) -> Html:
    dot = None
    if line.model is not None:
        hue = hues.get(line.model, NEUTRAL)
        dot = el("span", cls=f"sw {hue.css_class}" + ("" if hue.dash == "-" else " ring"), aria_hidden="true")
    head = el("th", dot, line.label, el("small", line.note) if line.note else None, scope="row")
    cells = [_td(cell, col) for cell, col in zip(line.cells, layout.columns.values(), strict=True)]
    return el("tr", head, *cells)


def _td(cell: Cell, col: Col) -> Html:
    mark = el("sup", cell.mark) if cell.mark else None
    if col.kind == "text":
        return el("td", cell.text, mark)
    text = el("b", cell.text) if cell.best else cell.text
    return el("td", text, mark, el("small", cell.interval) if cell.interval else None, cls="n", data_v=cell.value)


_TEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
        "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "²": r"$^2$", "∞": r"$\infty$", "\u202f": r"\,"}  # fmt: skip


def tex(text: str) -> str:
    r"""Text as LaTeX, every special character escaped.

    >>> tex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_TEX.get(c, c) for c in text)


def to_latex(layout: Layout, *, ident: str, caption: str, notes: Sequence[str] = ()) -> str:
    """The table for a paper, in the ``booktabs`` style."""
    cols = list(layout.columns.values())
    spec = "l" + "".join("l" if c.kind == "text" else "r" for c in cols)
    heads = [layout.head, *cols]
    lines = [
        r"\begin{table}",
        r"\caption{" + tex(caption) + r"}\label{" + ident + "}",
        r"\begin{tabular}{" + spec + "}",
        r"\toprule",
    ]
    lines.append(" & ".join(tex(plain(c.label) + c.arrow) for c in heads) + r" \\")
    if any(c.unit for c in heads):
        lines.append(" & ".join(rf"{{\scriptsize {tex(c.unit)}}}" if c.unit else "" for c in heads) + r" \\")
    lines.append(r"\midrule")
    lines += [_tex_row(line, "") for line in layout.lines]
    if layout.published:
        lines += [r"\midrule", *(_tex_row(line, r"\textit") for line in layout.published)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    feet = [rf"\textsuperscript{{{letter}}} {tex(reason)}" for reason, letter in layout.footnotes.items()]
    feet += [tex(note) for note in notes]
    if feet:
        lines.append(r"\par\smallskip{\footnotesize " + " ".join(feet) + "}")
    return "\n".join([*lines, r"\end{table}", ""])


def _tex_row(line: Line, style: str) -> str:
    cells = [_tex_style(tex(line.label), style)]
    for cell in line.cells:
        text = _tex_style(tex(cell.text), r"\textbf" if cell.best else style)
        text += rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
        cells.append(text + (rf" {{\scriptsize {tex(cell.interval)}}}" if cell.interval else ""))
    return " & ".join(cells) + r" \\"


def _tex_style(text: str, style: str) -> str:
    return f"{style}{{{text}}}" if style else text
