"""The choices behind every abstention number: what no source fixes is a named option, recorded beside the number."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from birdlab.errors import ParameterError, Problem

Uncertainty = Literal["1-maxprob", "entropy", "1-genusmax", "1-within_genus", "stated", "binary"]
Info = Literal["depth", "leaf"]
Path_ = Literal["independent", "top_down"]
Decision = Literal["threshold", "darts", "darts_all"]
Unanswerable = Literal["exclude", "genus_ok", "overspecific_wrong", "truncate"]
Rule = Literal["mean", "trapz", "trapz_left"]
Nan = Literal["error", "abstain"]
Cluster = Literal["genus", "species", "observer", "observation", "item"]
Unparsed = Literal["wrong", "drop"]
#: Resamples for intervals; of 35,138 single photographs so many take 2.8 GB.
MOST_RESAMPLES = 20_000


def check_choices(choices: Any) -> None:
    """Refuse a dataclass of ``Literal`` fields that holds anything else.

    Raises:
        ParameterError: with every such field, what it holds and what it may hold.
    """
    hints = get_type_hints(type(choices))
    problems = [
        Problem("bad_value", repr(value), "one of " + ", ".join(get_args(hints[f.name])), key=f.name)
        for f in fields(choices)
        if (value := getattr(choices, f.name)) not in get_args(hints[f.name])
    ]
    if problems:
        raise ParameterError(problems)


@dataclass(frozen=True)
class Conventions:
    """One choice per open question.

    Args:
        uncertainty: what is thresholded for UA/A and calibration: ``1-maxprob`` (1 - largest species probability),
            ``entropy`` (of the species probabilities, nats), ``1-genusmax`` (1 - largest genus probability),
            ``1-within_genus`` (1 - m/M), ``stated`` (1 - the confidence a model states), ``binary`` (1 where it abstained).
        info: information of a node: ``depth`` (rank / number of ranks: genus 0.5, species 1) or ``leaf``
            ((log2 S - log2 n) / log2 S for a node over n of S species).
        path: ``independent`` (the largest probability of each rank) or ``top_down`` (the species inside the best genus).
        decision: ``threshold`` (the deepest node whose probability reaches t), ``darts`` (argmax of (information +
            lambda) x probability, lambda >= 0) or ``darts_all`` (every lambda).
        ua: unanswerable photographs in the information curve: ``exclude``, ``genus_ok`` (a species of the right genus
            counts as right), ``overspecific_wrong`` (any species is wrong), ``truncate`` (information capped at the genus).
        rule: area of the calibration curve: ``mean`` of accuracy over k = 1..n, ``trapz`` over coverage 1/n..1 divided
            by its width, ``trapz_left`` the same extended flat to coverage 0.
        nan: an undefined uncertainty is an ``error``, or counts as the strongest wish to ``abstain``.
        unparsed: an answer that could not be read is ``wrong`` (not an abstention) or left out (``drop``).

    >>> Conventions().label("ua_a"), Conventions(info="leaf").label("ig")
    ('u=1-maxprob nan=error', 'info=leaf path=independent decision=threshold ua=exclude')
    """

    uncertainty: Uncertainty = "1-maxprob"
    info: Info = "depth"
    path: Path_ = "independent"
    decision: Decision = "threshold"
    ua: Unanswerable = "exclude"
    rule: Rule = "mean"
    nan: Nan = "error"
    unparsed: Unparsed = "wrong"

    def __post_init__(self) -> None:
        check_choices(self)

    def label(self, measure: str) -> str:
        """The choices that decide one measure (``ua_a``, ``ig`` or ``calibration``), as the ``method`` of its row."""
        used = {
            "ua_a": f"u={self.uncertainty} nan={self.nan}",
            "ig": f"info={self.info} path={self.path} decision={self.decision} ua={self.ua}",
            "calibration": f"u={self.uncertainty} rule={self.rule}",
        }
        return used[measure]

    def as_dict(self) -> dict[str, str]:
        """Every choice by name.

        >>> Conventions().as_dict()["rule"]
        'mean'
        """
        return asdict(self)
