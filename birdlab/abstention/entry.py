"""One model's entry in what ``birdlab score abstention --json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from birdlab.abstention.conventions import Conventions
from birdlab.abstention.evaluate import ACCURACIES, AREAS, Evaluated, Number
from birdlab.abstention.score_files import Columns, Source

#: Areas over further names: risk over coverage of each calibration curve.
RISKS = tuple(f"{kind}_{name[4:]}" for name in AREAS[2:] for kind in ("aurc", "augrc"))
#: Numbers of every entry, in the order printed.
NUMBERS = (*AREAS, *ACCURACIES, *RISKS, "missing_species")
_NO_INTERVALS = "no resamples were asked for"


@dataclass(frozen=True)
class Scored:
    """One model and prompt with its columns and numbers by variant, the choices it was scored by, and what to know."""

    source: Source
    columns: Columns
    found: Mapping[str, Evaluated]
    used: Conventions
    warnings: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name of the model, with the prompt where there is one."""
        return self.source.name if self.source.prompt is None else f"{self.source.name}, {self.source.prompt}"


def entry_of(scored: Scored, settings: Mapping[str, Any], *, intervals: bool) -> dict[str, Any]:
    """The entry of one model in ``models``.

    Args:
        scored: what was measured.
        settings: what else decides the numbers, the same for all models.
        intervals: whether resamples were drawn.

    Returns:
        name, prompt, file, kind, every number of :data:`NUMBERS` (null where undefined, with an entry in ``reasons``),
        counts, ``chance`` and ``gain`` over it, ``intervals`` (null where there is none), ``conventions``,
        ``warnings``, ``reasons``; ``ig_bounds`` and
        ``ig_scenarios`` for lists that leave much unseen; ``decisions`` for answers;
        ``variants`` with the same numbers.
    """
    numbers, notes = _numbers(scored, "plain", intervals=intervals)
    warnings = [*scored.warnings, *notes]
    variants = {}
    for variant in scored.found:
        if variant != "plain":
            variants[variant], notes = _numbers(scored, variant, intervals=intervals)
            warnings += [f"{variant}: {note}" for note in notes]
    more = {} if scored.columns.decisions is None else {"decisions": scored.columns.decisions}
    return {
        **{"name": scored.source.name, "prompt": scored.source.prompt, "file": scored.source.file},
        "kind": {"said": "answers", "text": "answers"}.get(scored.source.kind, scored.source.kind),
        **numbers,
        **more,
        "conventions": {**scored.used.as_dict(), **settings},
        "warnings": list(dict.fromkeys(warnings)),
        "variants": variants,
    }


def _numbers(scored: Scored, variant: str, *, intervals: bool) -> tuple[dict[str, Any], list[str]]:
    """Numbers, counts, chance, intervals and reasons of one variant, and what to know of the intervals."""
    found, used, frame = scored.found[variant], scored.used, scored.columns.frame
    columns = frame.filter(pl.col("variant").cast(pl.String) == variant)
    answerable = int(columns["is_answerable"].sum())
    unknown = columns.height and columns["is_missing_species"].is_null().all()
    lacking = None if unknown else int(columns["is_missing_species"].sum())
    numbers = {name: found.numbers[name] for name in NUMBERS}
    reasons = {name: n.reason or "undefined" for name, n in numbers.items() if n.value is None}
    chance = {name: numbers[name].chance for name in ("ua_a", *ACCURACIES)}
    if lacking is None:
        reasons["n_missing_species"] = reasons["missing_species"]
    for name, value in chance.items():
        if value is None and numbers[name].value is not None:
            reasons[f"chance.{name}"] = "no list to guess from"
    gain = {name: _minus(numbers[name].value, chance[name]) for name in chance}
    ends, notes = _intervals(numbers, reasons) if intervals else ({}, [])
    if not intervals:
        reasons["intervals"] = _NO_INTERVALS
    out: dict[str, Any] = {
        **{name: n.value for name, n in numbers.items()},
        "n": columns.height,
        "n_answerable": answerable,
        "n_unanswerable": columns.height - answerable,
        "n_missing_species": lacking,
        "missing_mass": float(columns["missing_mass"].fill_null(0.0).mean() or 0.0),  # type: ignore[arg-type]
        **{"chance": chance, "gain": gain, "intervals": ends, "reasons": reasons},
    }
    out |= _bounds(found, used)
    if "ig_bounds" in out:
        notes.append(_WIDE.format(100 * out["missing_mass"]))
    return out, notes


_WIDE = (
    "the lists leave {:.1f} % unseen: ig_bounds span IG as listed and with all of it for, and against, the best genus "
    "of every photograph; other ways to spread it may lie outside"
)


def _bounds(found: Evaluated, used: Conventions) -> dict[str, Any]:
    """IG as listed and with all unseen probability for, or against, the best genus; nothing where there are no lists.

    Nodes by leaf information and the top-down path would have to be made anew for that: then there are no bounds.
    """
    if used.info != "depth" or used.path != "independent":
        return {}
    names = {"as_listed": "ig", "for": "ig_missing_for", "against": "ig_missing_against"}
    values = {side: found.numbers[name].value for side, name in names.items() if name in found.numbers}
    known = [value for value in values.values() if value is not None]
    if len(values) < len(names) or not known:
        return {}
    return {"ig_bounds": [min(known), max(known)], "ig_scenarios": values}


def _intervals(numbers: Mapping[str, Number], reasons: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """[lo, hi] by measure, null with a reason; remarks on those that are given, measures with the same one together."""
    ends: dict[str, Any] = {}
    remarks: dict[str, list[str]] = {}
    for name, number in numbers.items():
        found = number.interval
        if found is None or found.lo is None:
            ends[name] = None
            if number.value is not None:
                reasons[f"intervals.{name}"] = (found.reason if found else None) or "undefined"
            continue
        ends[name] = [found.lo, found.hi]
        if found.reason:
            remarks.setdefault(found.reason, []).append(name)
    return ends, [f"intervals of {_names(names)}: {text}" for text, names in remarks.items()]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _minus(value: float | None, chance: float | None) -> float | None:
    return None if value is None or chance is None else value - chance
