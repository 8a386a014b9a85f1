"""One executed notebook as one chapter of the report.

What :mod:`birdlab.report.show` made goes in as it is. Any other HTML in an output is not trusted: its plain text stands
in its place, escaped. Streams go to the run notes, widgets are dropped, code is folded.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from birdlab.report import markdown
from birdlab.report.clean import BANNER_TAG, split_progress
from birdlab.report.entries import BEGIN, END, MIME
from birdlab.report.html import Html, colour_models, el, esc, join, rich
from birdlab.report.missing import files_of
from birdlab.style import Hue

HIDDEN_TAGS = {"parameters", "injected-parameters", "setup", BANNER_TAG, "papermill-error-cell-tag"}
WIDGET = "application/vnd.jupyter.widget-view+json"
MAX_TEXT = 20_000  #: characters of one text output that the page keeps
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: An absolute path of at least three parts: the page keeps the last two.
_PATH = re.compile(
    r"(?<![\w:/.~])/(?:[^\s/:\"'<>|,;]+/)+(?=[^\s/:\"'<>|,;]+/[^\s/:\"'<>|,;]+)|\b[A-Za-z]:\\(?:[^\\\s\"']+\\)+(?=[^\\\s\"']+\\)"
)
_HOME = re.compile(r"(?<![\w:/.~])(?:/home/[^\s/:\"'<>]+|/Users/[^\s/:\"'<>]+|/root)(?=[/\s\"':]|$)")


@dataclass
class Chapter:
    """What the page says about one notebook."""

    name: str
    number: int
    title: str = ""
    slug: str = ""
    status: str = "pending"  #: complete, note, failed, pending, or lost (ended well, its executed notebook is gone)
    seconds: float | None = None
    answer: dict[str, Any] | None = None
    headlines: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    artefacts: list[dict[str, Any]] = field(default_factory=list)
    streams: list[tuple[int, str]] = field(default_factory=list)  #: cell number from 1, text
    error: dict[str, Any] | None = None
    body: list[Html] = field(default_factory=list)
    n_not_shown: int = 0  #: outputs whose own HTML has no plain text


@dataclass
class _Pass:
    """State of one walk through a notebook: code that waits for an output to be folded under."""

    chapter: Chapter
    hues: Mapping[str, Hue]
    code: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    unrun: list[str] = field(default_factory=list)
    gone: Collection[str] = ()


def read_chapter(
    name: str,
    number: int,
    notebook: Mapping[str, Any] | None,
    about: Mapping[str, Any],
    hues: Mapping[str, Hue],
    *,
    gone: Collection[str] = (),
) -> Chapter:
    """Build the chapter of a notebook.

    Args:
        name: of the notebook, without ``.ipynb``.
        number: its place in the report, from 1.
        notebook: the executed notebook (nbformat 4), or null where there is none.
        about: its entry in ``run.json``.
        hues: colour of each model.
        gone: files of the run's folder, as paths from it, that are not there any more.
    """
    chapter = Chapter(name, number, title=_plain_title(name), slug=slug(name))
    state = str(about.get("status") or "pending")
    chapter.status = {"complete": "complete", "unchanged": "complete", "failed": "failed"}.get(state, "pending")
    chapter.seconds = about.get("seconds") if isinstance(about.get("seconds"), int | float) else None
    chapter.error = about.get("error") if isinstance(about.get("error"), dict) else None
    walk = _Pass(chapter, hues, gone=gone)
    for index, cell in enumerate(notebook.get("cells", []) if notebook else [], start=1):
        _cell(walk, index, cell)
    _fold(walk)
    if walk.unrun and chapter.status != "complete":
        chapter.body.append(el("p", f"{_count(len(walk.unrun), 'cell')} after this point did not run.", cls="status"))
        folded = el("pre", el("code", "\n\n".join(walk.unrun)), tabindex="0")
        chapter.body.append(el("details", el("summary", "Code that did not run"), folded))
    if chapter.status == "failed" and not any('class="err"' in piece for piece in chapter.body):
        chapter.body.append(_failure(walk, None, ""))
    if chapter.status == "complete" and notebook is None:
        chapter.status = "lost"
        text = "This chapter was run, but its executed notebook is missing from the run’s folder: run the recipe again."
        chapter.body.append(el("p", text, cls="status"))
    if chapter.status == "pending":
        why = clean_text(str(about.get("reason") or ""))
        chapter.body.append(el("p", "This chapter has not been run", f": {why}" if why else ".", cls="status"))
    if chapter.status == "complete" and chapter.notes:
        chapter.status = "note"
    return chapter


def add_note(chapter: Chapter, entry: dict[str, Any], hues: Mapping[str, Hue]) -> None:
    """Add a note at the end of a chapter, and mark the chapter."""
    chapter.notes.append(entry)
    chapter.body.append(el("p", el("b", "Note."), esc(" "), rich(str(entry["text"]), hues), cls="bl-note"))
    if chapter.status == "complete":
        chapter.status = "note"


def slug(name: str) -> str:
    """Anchor of a chapter: the notebook's name without its number.

    >>> slug("02_detection"), slug("02b_comparison")
    ('detection', 'comparison')
    """
    short = re.sub(r"[^a-z0-9]+", "-", re.sub(r"^\d+[a-z]?[_-]", "", name).lower()).strip("-") or "chapter"
    return f"{short}-chapter" if short in {"top", "main", "in-brief", "provenance", "run-notes"} else short


def clean_text(text: str) -> str:
    """Text of an output without colour codes, redrawn lines and long absolute paths.

    >>> clean_text("x\\r50 %\\r100 %\\n/opt/a/b/c/d.py: bad")
    '100 %\\n…/c/d.py: bad'
    """
    text = _ANSI.sub("", split_progress(text, drop=False)[0])
    text = _HOME.sub("~", _PATH.sub("…/", text))
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + f"\n… {len(text) - MAX_TEXT:,} more characters are in the executed notebook."
    return text


def _plain_title(name: str) -> str:
    words = re.sub(r"^\d+[a-z]?[_-]", "", name).replace("_", " ").strip()
    return words[:1].upper() + words[1:] or name


def _source(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _cell(walk: _Pass, index: int, cell: Mapping[str, Any]) -> None:
    metadata = cell.get("metadata", {})
    tags = set(metadata.get("tags", []))
    if tags & {BANNER_TAG, "papermill-error-cell-tag"}:
        return
    if cell.get("cell_type") == "markdown":
        walk.chapter.body.append(_markdown(walk, cell))
    elif cell.get("cell_type") == "code" and _source(cell).strip():
        _code_cell(walk, index, cell, hidden=bool(tags & HIDDEN_TAGS))


def _markdown(walk: _Pass, cell: Mapping[str, Any]) -> Html:
    source = _source(cell)
    if not walk.chapter.body:
        first, _, rest = source.lstrip().partition("\n")
        if first.startswith("# "):
            walk.chapter.title = markdown.text_only(markdown.to_html(first)).strip()
            source = rest
    html = markdown.to_html(source, attachments=cell.get("attachments"))
    return colour_models(html.replace("<p><strong>Limits", '<p class="lim"><strong>Limits'), walk.hues)


def _code_cell(walk: _Pass, index: int, cell: Mapping[str, Any], *, hidden: bool) -> None:
    source, status = _source(cell), cell.get("metadata", {}).get("papermill", {}).get("status")
    outputs = cell.get("outputs", [])
    errors = [o for o in outputs if o.get("output_type") == "error"]
    if not errors and status == "pending":
        walk.unrun.append(source.strip("\n"))
        return
    pieces = [piece for output in outputs if (piece := _output(walk, index, output)) is not None]
    if errors or status == "failed":
        walk.chapter.body.extend(pieces)
        _fold(walk)
        walk.chapter.body.append(_failure(walk, errors[0] if errors else None, source))
        return
    if not (hidden or _is_frame(source)):
        walk.code.append(source.strip("\n"))
    walk.chapter.body.extend(pieces)
    # Code that shows nothing, or a note only, waits for the next output: one fold each would be clutter.
    if any("bl-note" not in piece for piece in pieces):
        _fold(walk)


def _is_frame(source: str) -> bool:
    """A cell that only opens or closes the notebook."""
    lines = [line.strip() for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]
    return all(re.match(r"(import|from)\s|run = (bl|birdlab)\.start\(|run\.finish\(\)", line) for line in lines)


def _fold(walk: _Pass) -> None:
    """Put the waiting code under a closed fold, with the names of the files that were saved."""
    if walk.code or walk.saved:
        parts: list[Html] = [el("summary", "Code and files" if walk.saved else "Code")]
        if walk.code:
            parts.append(el("pre", el("code", "\n\n".join(walk.code)), tabindex="0"))
        if walk.saved:
            parts.append(el("p", "Saved in the run’s folder: ", ", ".join(walk.saved), "."))
        walk.chapter.body.append(el("details", *parts))
    walk.code, walk.saved = [], []


def _failure(walk: _Pass, output: Mapping[str, Any] | None, source: str) -> Html:
    error = walk.chapter.error or {}
    found = output or error
    name, value = str(found.get("ename") or "Failed"), clean_text(str(found.get("evalue") or ""))
    trace = found.get("traceback") or []
    trace = clean_text(trace if isinstance(trace, str) else "\n".join(trace))
    where = str(error.get("where") or "")
    parts: list[Html] = [el("p", el("b", f"{name} in {where}" if where else name), f": {value}" if value else None)]
    if source:
        parts.append(el("pre", el("code", source), tabindex="0"))
    if trace.strip():
        parts.append(el("details", el("summary", "Where it happened"), el("pre", trace, tabindex="0")))
    return el("div", *parts, cls="err", id=f"{walk.chapter.slug}-failed")


def _output(walk: _Pass, index: int, output: Mapping[str, Any]) -> Html | None:
    if output.get("output_type") == "stream":
        text = clean_text(_joined(output.get("text", "")))
        if text.strip():
            walk.chapter.streams.append((index, text))
        return None
    data = output.get("data", {})
    if output.get("output_type") == "error" or WIDGET in data:
        return None
    if isinstance(data.get(MIME), dict):
        shown = _shown(walk, data[MIME], _joined(data.get("text/html", "")))
        return shown or None
    return _foreign(walk, data)


def _shown(walk: _Pass, entry: dict[str, Any], html: str) -> Html | None:
    chapter, kind = walk.chapter, entry.get("kind")
    if kind == "answer":
        chapter.answer = entry
        return None
    if kind == "headline":
        chapter.headlines.append(entry)
        return None
    fragment = Html(html.partition(BEGIN)[2].rpartition(END)[0])
    if kind == "note":
        chapter.notes.append(entry)
    elif kind in ("table", "figure", "gallery"):
        chapter.artefacts.append(entry)
        walk.saved.append(_files(entry, walk.gone))
    return fragment


def _files(entry: Mapping[str, Any], gone: Collection[str]) -> str:
    stem = str(entry.get("path", "")).rpartition(".")[0]
    left = [f".{p.rpartition('.')[2]}" for p in files_of(entry) if p not in gone]
    lost = [f".{p.rpartition('.')[2]}" for p in files_of(entry) if p in gone]
    more = " and pictures" if entry["kind"] == "gallery" and left else ""
    told = [*([f"{', '.join(left)}{more}"] if left else []), *([f"missing now: {', '.join(lost)}"] if lost else [])]
    return f"{stem} ({'; '.join(told)})"


def _foreign(walk: _Pass, data: Mapping[str, Any]) -> Html | None:
    """An output that birdlab did not make."""
    for mime in ("image/png", "image/jpeg", "image/svg+xml"):
        if mime in data:
            raw = _joined(data[mime])
            # SVG inside img runs no script and loads nothing.
            code = (
                base64.b64encode(raw.encode()).decode()
                if mime == "image/svg+xml"
                else re.sub(r"[^A-Za-z0-9+/=]", "", raw)
            )
            image = el(
                "img", src=f"data:{mime};base64,{code}", alt="Picture made by the code below; it has no description."
            )
            return el("div", image, cls="out")
    if "text/latex" in data:
        latex = _joined(data["text/latex"]).strip()
        return el("p", markdown.math(latex.strip("$").removeprefix(r"\displaystyle"), block=latex.startswith("$$")))
    if "text/markdown" in data:
        return markdown.to_html(_joined(data["text/markdown"]))
    text = clean_text(_joined(data.get("text/plain", "")))
    if "text/html" in data and (not text or text.startswith("<IPython.core.display.HTML")):
        walk.chapter.n_not_shown += 1
        return el(
            "p",
            "An HTML output is left out: only what run.show_table, show_figure and show_gallery make is carried over as HTML.",
            cls="status",
        )
    return el("pre", text, tabindex="0") if text.strip() else None


def _joined(value: object) -> str:
    return "".join(str(part) for part in value) if isinstance(value, list) else str(value)


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n:,} {word}s"


def level_headings(html: str, start: int = 2) -> Html:
    """Lower every heading that skips a level, so the outline below an h2 has no gap; h1 and h2 become h3."""
    previous = start

    def fit(match: re.Match[str]) -> str:
        nonlocal previous
        if match[1]:
            return f"</h{previous}>"
        previous = max(start + 1, min(int(match[2]), previous + 1))
        return f"<h{previous}"

    return Html(re.sub(r"<(?:(/)h[1-6]>|h([1-6])(?=[ >]))", fit, html))


def opening(chapter: Chapter, hues: Mapping[str, Hue]) -> Html:
    """Heading, question and answer."""
    parts: list[object] = [el("h2", el("span", chapter.number, cls="no"), chapter.title)]
    if chapter.answer:
        told = chapter.answer
        parts.append(el("p", rich(str(told["question"]), hues), cls="q"))
        parts.append(
            el("p", el("b", rich(str(told["answer"]), hues)), esc(" "), rich(str(told["detail"]), hues), cls="a")
        )
    return join(*parts)
