"""What a notebook shows: tables, figures, galleries, and the answer of its chapter.

Each call saves what it shows (tables as parquet, CSV and LaTeX; figures as PNG, SVG, PDF and the CSV they were drawn
from), notes it for the report and returns the cell's only output. Notebooks call these through
:class:`birdlab.study.Run`.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from birdlab import style
from birdlab.errors import ParameterError, Problem
from birdlab.report import gallery, table
from birdlab.report.entries import Shown, begin, check_id, finish, put, read_record, sha256_of
from birdlab.report.gallery import Box, Panel
from birdlab.report.html import Html, el, esc, join, plain, rich
from birdlab.report.table import Col
from birdlab.shards import write_atomic, write_parquet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from birdlab.study import Run

__all__ = ["Box", "Col", "Panel", "Shown", "answer", "begin", "finish", "headline", "m", "note", "read_record",
           "show_figure", "show_gallery", "show_table"]  # fmt: skip


def m(name: str) -> str:
    """A model's name for a sentence of an answer, a caption or a note: printed in the model's colour.

    >>> m("heron")
    '{model:heron}'
    """
    return f"{{model:{name}}}"


def show_table(
    run: Run,
    frame: pl.DataFrame,
    *,
    id: str,
    caption: str,
    title: str = "",
    columns: Mapping[str, Col] | None = None,
    published: pl.DataFrame | None = None,
    model_column: str | None = None,
    **more: Any,
) -> Shown:
    """Show a table and save it as ``tables/<id>.parquet``, ``.csv`` and ``.tex``.

    Args:
        run: the notebook's run.
        frame: one row per line, in the order shown. Besides the columns shown it may hold ``<column>_lo`` and
            ``<column>_hi`` (interval, printed small under the value), ``<column>_reason`` (why a value is null) and
            ``<row label>_note`` (small print under a row's label).
        id: ``tab-…``, unique in the run; ``[[tab-…]]`` in any text of the report becomes "Table 3".
        caption: how to read it.
        title: the finding, one sentence.
        columns: what is shown and how, in order (default: all, with kinds guessed from the types).
        published: rows from print, shown last, tinted, never bold, never sorted; a null is "not reported".
        model_column: column with the model's name: gives the coloured dot, and bold for the best model of the recipe.
        **more: ``notes`` (sentences under the table), ``row_label`` (column of the row headers; default the model
            column or the first text column), ``reasons`` (column -> why its nulls are undefined), ``best_within``
            (column: the best is sought within each of its values).

    Returns:
        The cell's output. A null prints as an en dash with a lettered note that says why.

    Raises:
        ParameterError: unknown column or option, malformed id, or an id that another notebook uses.
    """
    unknown = sorted(set(more) - {"notes", "row_label", "reasons", "best_within"})
    if unknown:
        raise ParameterError(
            Problem("unknown_option", ", ".join(unknown), "notes, row_label, reasons, best_within", key=unknown[0])
        )
    check_id(run, "table", id)
    notes: Sequence[str] = more.pop("notes", ())
    names = [name for kind in run.recipe.coloured for name in kind]
    chosen = {"row_label": None, "reasons": None, **more}
    layout = table.lay_out(
        frame, columns=columns, published=published, model_column=model_column, models=names, **chosen
    )
    heading, small = plain(f"{title} {caption}".strip()), [plain(n) for n in notes]
    latex = table.to_latex(layout, ident=id, caption=heading, notes=small)
    path = _save_table(run, frame, published, id, latex)
    hues = _hues(run)
    body = table.to_html(layout, hues=hues, label=plain(title or caption), notes=notes)
    html = el("figure", _caption("Table", id, title, caption, hues), body, id=id, cls="bl-tab")
    return _artefact(run, "table", id, html, {"title": title, "caption": caption, "alt": "", "path": path})


def show_figure(
    run: Run,
    draw: Callable[..., Figure],
    frame: pl.DataFrame,
    *,
    id: str,
    caption: str,
    title: str,
    alt: str,
    width_in: float = style.WIDE_IN,
    **options: Any,
) -> Shown:
    """Draw a figure for a wide and for a narrow page, and save it as PNG, SVG, PDF and the CSV it was drawn from.

    Args:
        run: the notebook's run.
        draw: ``draw(frame, narrow=False, **options) -> Figure``; called under :func:`birdlab.style.rc`, whose
            ``figure.figsize`` has the right width. It is called twice when ``narrow`` is true.
        frame: all that is drawn.
        id: ``fig-…``, unique in the run.
        caption: how to read the marks.
        title: the finding, one sentence.
        alt: the values that a reader would take away, in words.
        width_in: width of the wide drawing, at most 8.6 in.
        **options: ``narrow`` (default True: also draw for a phone, 3.4 in wide), ``dark`` (on a dark page
            ``"invert"``, the default, turns light and dark round and keeps the hues; ``"card"`` leaves the figure as
            it is, for photographs); all others are passed on to ``draw``.

    Raises:
        ParameterError: no alt text or title, a drawing that is too wide, a malformed or doubled id.
    """
    check_id(run, "figure", id)
    narrow, dark = bool(options.pop("narrow", True)), options.pop("dark", "invert")
    missing = [key for key, value in (("alt", alt), ("title", title)) if not value.strip()]
    if missing:
        raise ParameterError(
            [Problem("no_text", f"no {key}", f"{key} in words", record=id, key=key) for key in missing]
        )
    if dark not in ("invert", "card"):
        raise ParameterError(Problem("bad_value", repr(dark), "invert or card", record=id, key="dark"))
    stem = run.dir / "figures" / id
    csv = stem.with_name(f"{id}.csv")
    write_atomic(csv, lambda temporary: _flat(frame).write_csv(temporary))
    hues = _hues(run)
    # No font has control characters; names of models hold none.
    frame = frame.with_columns(cs.string().str.replace_all(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "?"))
    wide, shown_px = _drawing(draw, frame, stem, width_in, id=id, alt=plain(alt), narrow=False, options=options)
    images = [wide]
    if narrow:
        about = {"id": id, "alt": plain(alt), "options": options}
        images.append(_drawing(draw, frame, stem, style.NARROW_IN, narrow=True, **about)[0])
    card = el("div", *images, cls="card" + (" photo" if dark == "card" else "") + (" two" if narrow else ""))
    caption_html = _caption("Figure", id, title, caption, hues)
    html = el("figure", card, caption_html, id=id, cls="bl-fig", style=f"--w:{shown_px}px")
    return _artefact(
        run, "figure", id, html, {"title": title, "caption": caption, "alt": alt, "path": f"figures/{csv.name}"}
    )


def show_gallery(run: Run, panels: Sequence[Panel], *, id: str, caption: str, title: str, alt: str) -> Shown:
    """Show photographs with boxes; saves ``figures/<id>.json`` and the pictures beside it.

    Args:
        run: the notebook's run.
        panels: the pictures, cropped before boxes are drawn; none gives the sentence "No picture to show".
        id: ``gal-…`` or ``fig-…``, unique in the run.
        caption: how the pictures were chosen and how to read them.
        title: the finding, one sentence.
        alt: the whole gallery in words.

    Raises:
        ParameterError: a picture that is not a JPEG, one without alt text, an unknown kind of box.
    """
    check_id(run, "gallery", id)
    gallery.check_panels(panels)
    folder = run.dir / "figures"
    names = [f"{id}-{i:02d}.jpg" for i in range(1, len(panels) + 1)]
    for panel, name in zip(panels, names, strict=True):
        write_atomic(folder / name, lambda temporary, data=panel.image_jpeg: temporary.write_bytes(data))
    text = json.dumps(gallery.as_json(panels, names), ensure_ascii=False, indent=1) + "\n"
    write_atomic(
        folder / f"{id}.json", lambda temporary: temporary.write_text(text, encoding="utf-8", errors="replace")
    )
    hues = _hues(run)
    html = el(
        "figure",
        gallery.to_html(panels, hues),
        _caption("Figure", id, title, caption, hues),
        id=id,
        cls="bl-fig bl-gallery",
        aria_label=plain(alt),
    )
    return _artefact(
        run, "gallery", id, html, {"title": title, "caption": caption, "alt": alt, "path": f"figures/{id}.json"}
    )


def answer(run: Run, question: str, answer: str, detail: str = "") -> Shown:
    """Give the chapter's question, its answer in a few words, and one sentence with the number; shown at its top.

    ``detail`` may name models (:func:`m`) and hold intervals in square brackets.
    """
    hues = _hues(run)
    html = join(
        el("p", rich(question, hues), cls="q"), el("p", el("b", rich(answer, hues)), " ", rich(detail, hues), cls="a")
    )
    entry = put(run, "answer", "answer", {"question": question, "answer": answer, "detail": detail})
    return Shown(html, entry, plain(f"{question} {answer} {detail}"))


def headline(
    run: Run,
    label: str,
    value: float | None,
    *,
    lo: float | None = None,
    hi: float | None = None,
    unit: str = "",
    digits: int = 3,
    detail: str = "",
    **more: Any,
) -> Shown:
    """Offer a number for the top of the report, where the first five stand.

    Args:
        run: the notebook's run.
        label: what it is, in two or three words.
        value: the number, in ``unit``; null prints as an en dash with the reason.
        lo, hi: 95 % interval, in ``unit``.
        unit: printed behind the number.
        digits: places after the point.
        detail: what it is compared with, and whose it is.
        **more: ``scale`` (ends of the small strip, default 0 and 1), ``reference`` (a tick on it: chance, a human),
            ``model``, ``reason`` (why the value or the interval is missing).

    Raises:
        ParameterError: an unknown option.
    """
    unknown = sorted(set(more) - {"scale", "reference", "model", "reason"})
    if unknown:
        raise ParameterError(
            Problem("unknown_option", ", ".join(unknown), "scale, reference, model, reason", key=unknown[0])
        )
    about = {
        "value": _finite(value),
        "lo": _finite(lo),
        "hi": _finite(hi),
        "unit": unit,
        "digits": digits,
        "detail": detail,
    }
    about |= {"scale": [float(end) for end in more.get("scale", (0, 1))], "reference": _finite(more.get("reference"))}
    about |= {"model": more.get("model"), "reason": more.get("reason", "")}
    entry = put(run, "headline", label, {"label": label, **about})
    html = el("p", el("b", label), " ", headline_text(entry), cls="bl-note")
    return Shown(html, entry, plain(f"{label}: {headline_text(entry)}"))


def note(run: Run, text: str) -> Shown:
    """Say something the reader must not miss; the chapter is marked "complete, with a note"."""
    entry = put(run, "note", text, {"text": text})
    return Shown(el("p", el("b", "Note."), " ", rich(text, _hues(run)), cls="bl-note"), entry, plain(f"Note. {text}"))


def headline_text(entry: Mapping[str, Any]) -> str:
    """A headline number in words: value, unit and interval, or the reason why there is none."""
    if entry["value"] is None:
        return f"– ({entry['reason'] or 'undefined'})"
    text = table.number(entry["value"], entry["digits"]) + (f" {entry['unit']}" if entry["unit"] else "")
    if entry["lo"] is not None and entry["hi"] is not None:
        text += f" [{table.number(entry['lo'], entry['digits'])}, {table.number(entry['hi'], entry['digits'])}]"
    return text


def _hues(run: Run) -> dict[str, style.Hue]:
    return style.colours_of_kinds(run.recipe.coloured)


def _finite(value: float | None) -> float | None:
    if value is None:
        return None
    number = float(value)
    return number if number - number == 0 else None  # inf - inf and nan - nan are nan


def _caption(word: str, ident: str, title: str, caption: str, hues: Mapping[str, style.Hue]) -> Html:
    # The page replaces the word by "Table 3"; in JupyterLab it stands as it is.
    number = el("b", word, data_no=ident)
    finding = el("span", rich(title, hues), cls="cl") if title else None
    return el(
        "figcaption", number, esc("\u2002"), finding, esc(" ") if title and caption else None, rich(caption, hues)
    )


def _artefact(run: Run, kind: str, ident: str, html: Html, about: Mapping[str, str]) -> Shown:
    entry = put(run, kind, ident, {"id": ident, **about, "sha256": sha256_of(run.dir / about["path"])})
    return Shown(html, entry, plain(f"{kind} {ident}: {about['title'] or about['caption']}"))


def _save_table(run: Run, frame: pl.DataFrame, published: pl.DataFrame | None, ident: str, latex: str) -> str:
    folder = run.dir / "tables"
    if published is not None:
        rows = [frame.with_columns(is_published=pl.lit(False)), published.with_columns(is_published=pl.lit(True))]
        frame = pl.concat(rows, how="diagonal_relaxed")
    write_parquet(folder / f"{ident}.parquet", frame)
    write_atomic(folder / f"{ident}.csv", lambda temporary: _flat(frame).write_csv(temporary))
    write_atomic(
        folder / f"{ident}.tex", lambda temporary: temporary.write_text(latex, encoding="utf-8", errors="replace")
    )
    return f"tables/{ident}.parquet"


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists joined by ``|`` and structs as JSON: CSV has neither."""
    columns = []
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.List | pl.Array):
            columns.append(pl.col(name).cast(pl.List(pl.String)).list.join("|"))
        elif isinstance(dtype, pl.Struct):
            columns.append(pl.col(name).struct.json_encode())
    return frame.with_columns(columns)


def _drawing(
    draw: Callable[..., Figure],
    frame: pl.DataFrame,
    stem: Path,
    width_in: float,
    *,
    id: str,
    alt: str,
    narrow: bool,
    options: Mapping[str, Any],
) -> tuple[Html, int]:
    """One drawing as an image element, and its width in CSS px."""
    import matplotlib.pyplot as plt

    with style.rc(width_in):
        figure = draw(frame, narrow=narrow, **options)
        try:
            width, _ = figure.get_size_inches()
            if width > width_in + 0.05:
                found = f"a {'narrow' if narrow else 'wide'} drawing {width:.2f} in wide"
                raise ParameterError(
                    Problem(
                        "too_wide", found, f"at most {width_in} in", "take the width from figure.figsize", record=id
                    )
                )
            png = style.png_bytes(figure)
            if not narrow:
                style.save_vector(figure, stem)
        finally:
            plt.close(figure)
    path = stem.with_name(f"{stem.name}{'-narrow' if narrow else ''}.png")
    write_atomic(path, lambda temporary: temporary.write_bytes(png))
    pixels_wide, pixels_high = struct.unpack(">II", png[16:24])  # width and height stand in the PNG's first chunk
    uri = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    size = {"width": round(pixels_wide * 100 / style.DPI), "height": round(pixels_high * 100 / style.DPI)}
    return el("img", src=uri, alt=alt, cls="narrow" if narrow else "wide", **size), size["width"]
