"""Text as keys: one spelling per name, and the tokens of an answer with what stands between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

#: Longest token that can be part of a name; longer ones are cut (nothing in a list of birds is longer).
MAX_TOKEN = 40
_APOSTROPHES = dict.fromkeys(map(ord, "'’‘ʼʻʹ′`´＇‛"))
_LETTERS = {ord(a): b for a, b in zip("øØæÆœŒłŁðÐđĐıħĦ", "o O ae AE oe OE l L d D d D i h H".split(), strict=True)}
_TOKEN = re.compile(r"[^\W_]+")
_SPELLINGS = (("gray", "grey"), ("color", "colour"), ("mustache", "moustache"))
# A full stop after one of these, or after a single letter, ends no sentence.
_SHORT = frozenset(
    {"st", "mt", "cf", "aff", "sp", "spp", "ssp", "subsp", "var", "dr", "vs", "eg", "ie", "ca", "mrs", "mr"}
)


class Token(NamedTuple):
    """A word: its key, the word as written, what stands before it, and where it starts.

    ``sep`` is one of: space (a blank), ``-`` (hyphen inside a word), ``,``, ``/``, ``&``, ``x`` (a cross),
    ``;`` (colon, bracket, dash: a new clause) and ``.`` (a new sentence or line).
    """

    key: str
    raw: str
    sep: str
    start: int


def clean(text: str) -> str:
    """Text without accents, apostrophes and invisible characters; case and line breaks stay.

    Control characters become blanks; format characters (zero width, direction overrides, soft hyphen) vanish.

    >>> clean("Mirlo com\\u00fan \\u202eCooper\\u2019s")
    'Mirlo comun Coopers'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).translate(_LETTERS)
        text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf", "Cs"))
        text = unicodedata.normalize("NFC", text)
    text = text.translate(_APOSTROPHES)
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() or c == "\n" else "\n" if c in "\r\x0b\x0c\x85\u2028\u2029" else " " for c in text
        )
    return text


def key_of(word: str) -> str:
    """Key of one cleaned word: case folded, one spelling of gray, colour and moustache, at most 40 characters.

    >>> key_of("GRAYLAG"), key_of("Many"), key_of("colored")
    ('greylag', 'many', 'coloured')
    """
    key = word[:MAX_TOKEN].casefold()
    for american, british in _SPELLINGS:
        if american in key:
            key = key.replace(american, british)
    return key


def name_keys(name: str) -> list[str]:
    """Keys of the words of a name.

    >>> name_keys("Black-billed Cuckoo-Dove"), name_keys("Cooper's Hawk")
    (['black', 'billed', 'cuckoo', 'dove'], ['coopers', 'hawk'])
    """
    return [key_of(word) for word in _TOKEN.findall(clean(name))]


def tokenise(text: str) -> list[Token]:
    """The words of cleaned text (:func:`clean`), in order; linear in its length.

    >>> [(t.key, t.sep) for t in tokenise("Western/Clarks Grebe. Or not")]
    [('western', '.'), ('clarks', '/'), ('grebe', ' '), ('or', '.'), ('not', ' ')]
    """
    tokens: list[Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        raw = match.group()[:MAX_TOKEN]
        sep = _separator(text[max(end, match.start() - 200) : match.start()], tokens[-1].key if tokens else None)
        tokens.append(Token(key_of(raw), raw, sep, match.start()))
        end = match.end()
    return tokens


def _separator(gap: str, before: str | None) -> str:
    if before is None or "\n" in gap:
        return "."
    if gap in (" ", "-"):
        return gap
    if gap[:1] in "?!" and gap:
        return "."
    if gap[:1] == "." and not (before in _SHORT or len(before) == 1):
        return "." if len(gap) > 1 else " "
    marks = gap.replace(".", "").strip(" \t*_~")
    if not marks:
        return " "
    if marks[0] in "‐‑-" and len(marks) == 1:
        return "-" if " " not in gap else ";"
    for sep, marked in (("x", "×"), ("/", "/|\\"), (";", ";:()[]{}<>–—−=→-…"), ("&", "&+"), (",", ",、，")):
        if any(char in marked for char in marks):
            return sep
    return ";" if "." in gap or "?" in gap or "!" in gap else " "


def joined(tokens: Sequence[Token]) -> str:
    """Tokens as plain text for phrase patterns: keys, with ``,`` ``;`` and ``.`` as words of their own."""
    parts: list[str] = []
    for token in tokens:
        if parts and token.sep in ",;.":
            parts.append(token.sep)
        elif parts and token.sep in "/&":
            parts.append("/")
        parts.append(token.key)
    return " ".join(parts)
