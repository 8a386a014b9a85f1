"""HTML from Python, escaped by one helper: what is not marked as :class:`Html` is text and is escaped."""

from __future__ import annotations

import html as _html
import re
from collections.abc import Callable, Mapping

from birdlab.style import NEUTRAL, Hue

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
_VOID = frozenset({"img", "br", "hr"})
_SHAPES = frozenset({"circle", "line", "rect", "polygon"})  # SVG: an unclosed one would hold what follows
_INLINE = re.compile(r"\{model:([^{}]+)\}|(\[\s*[−+-]?[\d.,]+(?:\s*%)?\s*[,–]\s*[−+-]?[\d.,]+(?:\s*%)?\s*\])")
_MODEL = re.compile(r"\{model:([^{}]+)\}")
_REFERENCE = re.compile(r"\[\[([a-z][a-z0-9-]*)\]\]")
_TAG = re.compile(r"(<[^>]*>)")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def esc(text: object) -> Html:
    """``text`` as HTML: markup characters and quotes escaped, control and bidirectional override characters replaced.

    Everything that comes from data or from a model passes here before it reaches the page. A name that looks like a
    reference (``[[tab-x]]``) stays a name: only :func:`rich` and notebooks' own text refer to tables and figures.

    >>> esc('<img src=x onerror="alert(1)">')
    '&lt;img src=x onerror=&quot;alert(1)&quot;&gt;'
    """
    if isinstance(text, Html):
        return text
    return text if isinstance(text, Html) else Html(_escaped(text).replace("[[", "&#91;["))


def _escaped(text: object) -> Html:
    if isinstance(text, Html):
        return text
    # A file name that is not UTF-8 holds lone surrogates, which no encoder takes.
    plain = str(text).encode("utf-8", "replace").decode("utf-8")
    return Html(_html.escape(_CONTROL.sub("\ufffd", plain), quote=True))


def join(*parts: object) -> Html:
    """The parts one after the other; plain text among them is escaped, ``None`` is left out."""
    return Html("".join(esc(part) for part in parts if part is not None))


def el(name: str, *children: object, **attributes: object) -> Html:
    """One element. Children that are not :class:`Html` are escaped, attribute values always are.

    ``cls`` is class; an underscore in a name is a hyphen; ``None`` and ``False`` leave the attribute out, ``True``
    gives it without a value.

    >>> el("td", "a<b", cls="n", data_v=1)
    '<td class="n" data-v="1">a&lt;b</td>'
    """
    text = f"<{name}"
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        text += f" {key}" if value is True else f' {key}="{_escaped(value)}"'
    if name in _VOID:
        return Html(text + ">")
    if name in _SHAPES:
        return Html(text + "/>")
    return Html(f"{text}>{join(*children)}</{name}>")


def model_name(name: str, hues: Mapping[str, Hue]) -> Html:
    """The name of a model in its colour; bold and grey for one that the recipe does not list."""
    return el("span", name, cls=f"m {hues.get(name, NEUTRAL).css_class}")


def rich(text: str, hues: Mapping[str, Hue], *, references: bool = True) -> Html:
    """A sentence, escaped, with ``{model:NAME}`` in the model's colour and intervals like [0.4, 0.5] in grey.

    Without ``references``, for text that is made of names, ``[[tab-x]]`` stays as it is.

    >>> rich("{model:heron} finds 3 < 4 [0.1, 0.2]", {})
    '<span class="m hue-none">heron</span> finds 3 &lt; 4 <span class="iv">[0.1, 0.2]</span>'
    """
    text_of = _escaped if references else esc
    parts: list[Html] = []
    last = 0
    for match in _INLINE.finditer(text):
        parts.append(text_of(text[last : match.start()]))
        parts.append(model_name(match[1], hues) if match[1] else el("span", match[2], cls="iv"))
        last = match.end()
    return join(*parts, text_of(text[last:]))


def plain(text: str) -> str:
    """The same sentence as text alone, for titles and alt texts.

    >>> plain("{model:heron} leads")
    'heron leads'
    """
    return _MODEL.sub(r"\1", text)


def in_text(html: str, change: Callable[[str], str], change_tag: Callable[[str], str] | None = None) -> Html:
    """Apply ``change`` to the text between tags, outside code, and ``change_tag`` to the tags themselves.

    ``html`` must be well escaped: no ``>`` inside an attribute.

    >>> in_text("<b title='a'>a</b> <code>a</code>", str.upper)
    "<b title='a'>A</b> <code>a</code>"
    """
    pieces = _TAG.split(html)
    code = 0
    for i, piece in enumerate(pieces):
        if i % 2:
            code += piece.startswith(("<code", "<pre")) - piece.startswith(("</code", "</pre"))
            pieces[i] = change_tag(piece) if change_tag else piece
        elif not code:
            pieces[i] = change(piece)
    return Html("".join(pieces))


def link_references(html: str, link: Callable[[str], Html | None], word: Callable[[str], str | None]) -> Html:
    """Replace ``[[tab-x]]`` in text by ``link("tab-x")``, and inside a tag (an alt text) by the plain ``word``.

    What either function does not know stays as it is.
    """
    return in_text(
        html,
        lambda text: _REFERENCE.sub(lambda m: link(m[1]) or m[0], text),
        lambda tag: _REFERENCE.sub(lambda m: esc(word(m[1]) or m[0]), tag),
    )


def colour_models(html: str, hues: Mapping[str, Hue]) -> Html:
    """Colour ``{model:NAME}`` in the text of finished HTML, as :func:`rich` does in a sentence."""
    return in_text(html, lambda text: _MODEL.sub(lambda m: model_name(_html.unescape(m[1]), hues), text))
