"""Codes of colour rings: the letters of a bird's rings, and which leg they are on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from birdlab.errors import DataError, ParameterError, Problem

#: Stands for a ring of any colour, on the leg and at the height at which it is written.
ANY = "?"
#: Written between the legs where the length of a code does not tell: ``rg-a``, ``r-ga``.
SPLIT = "-"
EXPECTED = "2 to 4 letters: left up, left down, right up, right down; three as rg-a or r-ga"


@dataclass(frozen=True)
class Palette:
    """The colours that rings can have.

    Args:
        letters: letter of each colour in codes, upper case; the order of every vector of probabilities.
        names: what the masks call them, as long as ``letters``.
    """

    letters: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, colours: Mapping[str, str]) -> Palette:
        """From a recipe's ``colours``: letter to name, in order.

        Raises:
            ParameterError: no colour, a letter or name twice (upper and lower case do not differ).

        >>> Palette.of({"r": "red", "W": "white"})
        Palette(letters=('R', 'W'), names=('red', 'white'))
        """
        letters, names = tuple(letter.upper() for letter in colours), tuple(colours.values())
        problems = [
            Problem("colour_twice", f"{word} {found!r} twice", "each once", key="rings.colours")
            for word, values in (("letter", letters), ("name", tuple(n.casefold() for n in names)))
            for found in dict.fromkeys(v for v in values if values.count(v) > 1)
        ]
        if not letters:
            problems.append(Problem("no_colours", "none", "letter: name of each colour of ring", key="rings.colours"))
        if problems:
            raise ParameterError(problems)
        return cls(letters, names)

    def __len__(self) -> int:
        return len(self.letters)

    def letter_of(self, category: str) -> str | None:
        """Letter of a category of masks, which is a colour's name or letter in any case; ``None`` for another one.

        >>> Palette(("R", "W"), ("red", "white")).letter_of("White")
        'W'
        """
        word = category.strip().casefold()
        for values in (self.names, self.letters):
            for letter, value in zip(self.letters, values, strict=True):
                if value.casefold() == word:
                    return letter
        return None

    def index(self, letter: str) -> int:
        """Place of a letter in vectors of probabilities.

        Raises:
            ValueError: no colour of the palette.
        """
        return self.letters.index(letter)


@dataclass(frozen=True)
class Code:
    """The rings of one bird, from the bird's own view.

    Args:
        left: letters of the left leg, upper ring first, at most two; ``?`` is a ring of any colour.
        right: of the right leg.
        split_known: whether it is known which rings share a leg; else see :attr:`layouts`.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    split_known: bool = True

    @property
    def letters(self) -> tuple[str, ...]:
        """All letters, in the order in which they are written."""
        return self.left + self.right

    @property
    def layouts(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """Every way in which the rings may be on (left, right): two for three letters without a dash, else one.

        >>> parse_code("rga", Palette.of({"R": "red", "G": "green", "A": "metal"}), individual="x").layouts
        ((('R', 'G'), ('A',)), (('R',), ('G', 'A')))
        """
        if self.split_known:
            return ((self.left, self.right),)
        a, b, c = self.letters
        return (((a, b), (c,)), ((a,), (b, c)))

    @property
    def text(self) -> str:
        """As in a roster, in lower case; with a dash where the length does not tell the legs and they are known."""
        left, right = "".join(self.left).lower(), "".join(self.right).lower()
        plain = len(left) == len(right) or not self.split_known
        return left + right if plain else f"{left}{SPLIT}{right}"

    def __str__(self) -> str:
        return self.text


def code_problems(code: str, palette: Palette, *, individual: str) -> list[Problem]:
    """What is wrong with a code, one problem each; empty where it can be used. See :func:`parse_code`."""
    record = f"bird {individual}"
    word = code.strip().upper()
    legs = word.split(SPLIT)
    letters = word.replace(SPLIT, "")
    bad_length = not 2 <= len(letters) <= 4 or len(legs) > 2 or (len(legs) == 2 and max(map(len, legs)) > 2)
    if bad_length:
        found = f"code {code!r} of {len(letters)} letters" if code.strip() else "no code"
        remedy = "leave birds with fewer than two rings out: rings cannot tell them" if len(letters) < 2 else ""
        return [Problem("bad_code", found, EXPECTED, remedy, record=record, key="code")]
    expected = f"letters of the palette, {', '.join(palette.letters)}, or {ANY}"
    remedy = "correct the code, or add the colour to rings.colours"
    return [
        Problem("unknown_colour", f"letter {letter!r} in code {code!r}", expected, remedy, record=record, key="code")
        for letter in dict.fromkeys(letters)
        if letter != ANY and letter not in palette.letters
    ]


def parse_code(code: str, palette: Palette, *, individual: str) -> Code:
    """The legs of a code.

    Four letters are two on each leg, two are one on each; three are two and one in an order that is not known, unless
    a dash is written between the legs. A dash may stand in any code (``rg-``: both on the left leg). Upper and lower
    case do not differ.

    Args:
        code: as written.
        palette: colours that rings can have.
        individual: the bird, for the error.

    Raises:
        DataError: a letter outside the palette, or a code of another length; it names the bird, code and letter.

    >>> palette = Palette.of({"O": "orange", "A": "metal", "R": "red"})
    >>> parse_code("oaor", palette, individual="oaor")
    Code(left=('O', 'A'), right=('O', 'R'), split_known=True)
    >>> parse_code("r-oa", palette, individual="x").text
    'r-oa'
    """
    problems = code_problems(code, palette, individual=individual)
    if problems:
        raise DataError(problems)
    return _parsed(code)


def parse_codes(codes: Iterable[tuple[str, str]], palette: Palette) -> dict[str, Code]:
    """Codes (individual, code) by their text as given; every fault of all of them in one error.

    Raises:
        DataError: as :func:`parse_code`.
    """
    problems: list[Problem] = []
    found: dict[str, Code] = {}
    for individual, code in codes:
        if code in found:
            continue
        wrong = code_problems(code, palette, individual=individual)
        problems += wrong
        if not wrong:
            found[code] = _parsed(code)
    if problems:
        from birdlab.readers.files import at_most

        raise DataError(at_most(problems))
    return found


def _parsed(code: str) -> Code:
    word = code.strip().upper()
    if SPLIT in word:
        left, right = word.split(SPLIT)
        return Code(tuple(left), tuple(right))
    middle = (len(word) + 1) // 2
    return Code(tuple(word[:middle]), tuple(word[middle:]), split_known=len(word) != 3)
