"""What an answer can be parsed to, and the choices that no convention fixes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from birdlab import schemas
from birdlab.abstention.conventions import check_choices
from birdlab.schemas.constants import DECISIONS, REASONS

DecisionKind = Literal["species", "genus", "higher", "multiple", "abstain", "unparsed"]
#: Columns of the table ``answers``.
ANSWER_SCHEMA = schemas.TABLES["answers"].dtypes

__all__ = ["ANSWER_SCHEMA", "DECISIONS", "REASONS", "Answer", "DecisionKind", "Policy"]


@dataclass(frozen=True)
class Policy:
    """Choices of answer parsing, each a named option.

    Args:
        best_guess: "I can't be certain, but my best guess is X" is the ``species`` X, or an ``abstain``.
        ambiguous_group: a group name that is not one taxon ("Robin") is ``unparsed``, or ``multiple``.
        hybrid: "Mallard x American Black Duck" is ``multiple``, or ``unparsed``.
        trinomial: a subspecies or subspecies group is its ``species``, or ``unparsed``.
        split: a name that the pinned list has split is the ``genus`` (``multiple`` across genera), or ``unparsed``.

    >>> Policy(best_guess="abstain").label()
    'best_guess=abstain ambiguous_group=unparsed hybrid=multiple trinomial=species split=genus'
    """

    best_guess: Literal["species", "abstain"] = "species"
    ambiguous_group: Literal["unparsed", "multiple"] = "unparsed"
    hybrid: Literal["multiple", "unparsed"] = "multiple"
    trinomial: Literal["species", "unparsed"] = "species"
    split: Literal["genus", "unparsed"] = "genus"

    def __post_init__(self) -> None:
        check_choices(self)

    def label(self) -> str:
        """Every choice in one line, to stand beside the numbers."""
        return " ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self))


@dataclass(frozen=True)
class Answer:
    """One answer in words, read.

    Args:
        text: the answer as it came; show it only escaped.
        decision: ``species``, ``genus``, ``higher``, ``multiple``, ``abstain`` or ``unparsed``. The last two are never
            merged: an answer that could not be read is no abstention.
        taxon_id: the taxon named; for ``multiple`` the lowest taxon that holds all candidates; null where there is none.
        candidates: taxa named beside (``species``), or between which the answer does not choose.
        rank: rank of ``taxon_id``.
        reasons: subset of vocalization, angle, quality, other; only of answers that abstain, stop above species or hedge.
        hedged: the answer says that it is unsure.
        confidence: stated by the answer, in [0, 1]; null where none is stated in numbers.
        method: how the name was read: exact_sci, exact_common, synonym, vernacular, genus, group, fuzzy, trinomial,
            split, ellipsis; ``phrase`` or ``json`` for an abstention; ``none``.
        edits: letters changed by ``fuzzy``; else 0.
        flags: what else was seen (hybrid, split, no_bird, truncated, ...), sorted.
    """

    text: str
    decision: DecisionKind = "unparsed"
    taxon_id: str | None = None
    candidates: tuple[str, ...] = ()
    rank: str | None = None
    reasons: tuple[str, ...] = ()
    hedged: bool = False
    confidence: float | None = None
    method: str = "none"
    edits: int = 0
    flags: tuple[str, ...] = ()
