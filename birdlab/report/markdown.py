"""Markdown cells as HTML: raw HTML in them is escaped, math becomes MathML, and nothing outside the page is loaded.

A link to somewhere else is printed as its text and its address; an image is kept only when it is part of the notebook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape as _unescape
from typing import TYPE_CHECKING, Any

import mistune

from birdlab.report.html import Html, el, join

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
_BLOCK_MATH = r"\$\$(?P<block_math_text>[\s\S]+?)\$\$"
_INLINE_MATH = r"\$(?![\s$])(?P<inline_math_text>(?:\\\$|[^$\n])+?)(?<![\s\\])\$(?!\d)"
_MATH_ATTRIBUTES = frozenset(
    "display stretchy fence form separator accent accentunder mathvariant displaystyle scriptlevel linethickness columnalign columnlines "
    "columnspacing rowlines rowspacing frame width height depth lspace rspace minsize maxsize movablelimits largeop".split()
)
_ADDRESS = re.compile(r"^(?:https?|ftp)://(?:www\.)?|^mailto:", re.IGNORECASE)


def to_html(source: str, *, shift: int = 1, attachments: Mapping[str, Mapping[str, str]] | None = None) -> Html:
    """Render a markdown cell.

    Args:
        source: Markdown with ``$…$`` and ``$$…$$`` math and tables.
        shift: how many levels deeper headings become; a notebook's ``##`` is the page's h3.
        attachments: the cell's own pictures.

    >>> to_html("## A < B")
    '<h3>A &lt; B</h3>\\n'
    """
    renderer = _Renderer(shift, attachments or {})
    markdown = mistune.create_markdown(renderer=renderer, plugins=["table", "strikethrough", _math])
    return Html(_quoted(markdown(source)))


def math(latex: str, *, block: bool = False) -> Html:
    """LaTeX as MathML, which every current browser sets without help; the source itself where it cannot be converted."""
    from latex2mathml import exceptions
    from latex2mathml.converter import convert_to_element

    broken = tuple(e for e in vars(exceptions).values() if isinstance(e, type) and issubclass(e, Exception))
    try:
        made = convert_to_element(latex.strip(), display="block" if block else "inline")
    except (*broken, ValueError, IndexError, KeyError, AttributeError, StopIteration, RuntimeError):
        return el("code", latex.strip())
    return _mathml(made)


def _mathml(element: Element) -> Html:
    # Written out here: latex2mathml's own text lets the markup inside \\text{<b>} through, and \\href as a link.
    children = [_mathml(child) for child in element]
    attributes = {key: value for key, value in element.attrib.items() if key in _MATH_ATTRIBUTES}
    tag = element.tag if re.fullmatch(r"m[a-z]+", element.tag) else "mrow"
    return el(tag, _unescape(element.text or ""), *children, **attributes)


class _Renderer(mistune.HTMLRenderer):
    def __init__(self, shift: int, attachments: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(escape=True, allow_harmful_protocols=False)
        self._shift, self._attachments = shift, attachments

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        tag = f"h{min(level + self._shift, 6)}"
        return f"<{tag}>{text}</{tag}>\n"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if url.startswith("#"):
            return el("a", Html(text), href=url)
        address = _ADDRESS.sub("", url)
        return text if text == url or not address else join(Html(text), f" ({address})")

    def image(self, text: str, url: str, title: str | None = None) -> str:
        bundle = self._attachments.get(url.removeprefix("attachment:"), {}) if url.startswith("attachment:") else {}
        for mime in _PICTURES:
            if mime in bundle:
                data = "".join(bundle[mime].split())
                return el("img", src=f"data:{mime};base64,{data}", alt=text or "Picture without a description")
        return el("em", f"[picture: {text or 'no description'}]")

    def block_code(self, code: str, info: str | None = None) -> str:
        return el("pre", el("code", code), tabindex="0")

    def table(self, text: str) -> str:
        box = el("table", Html(text), cls="bl-t", style="--cols:2")
        return el("div", box, cls="bl-tw", tabindex="0", role="region", aria_label="Table")

    def inline_math(self, text: str) -> str:
        return math(text)

    def block_math(self, text: str) -> str:
        return math(text, block=True)


def _math(markdown: mistune.Markdown) -> None:
    def parse_inline(inline: Any, match: re.Match[str], state: Any) -> int:
        state.append_token({"type": "inline_math", "raw": match["inline_math_text"]})
        return match.end()

    def parse_block(inline: Any, match: re.Match[str], state: Any) -> int:
        state.append_token({"type": "block_math", "raw": match["block_math_text"]})
        return match.end()

    # Before emphasis and escapes, which would eat underscores and backslashes.
    markdown.inline.register("block_math", _BLOCK_MATH, parse_block, before="escape")
    markdown.inline.register("inline_math", _INLINE_MATH, parse_inline, before="escape")


def _quoted(html: str) -> str:
    """Escape a ``>`` inside an attribute, so that tags can be told from text."""
    return re.sub(r'="[^"]*"', lambda m: m[0].replace("<", "&lt;").replace(">", "&gt;"), html)


def text_only(html: str) -> str:
    """The words of some HTML, for a heading's name in the contents."""
    return re.sub(r"<[^>]*>", "", html)
