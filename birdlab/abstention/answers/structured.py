"""Answers with a form: JSON objects, and lines such as "Final answer: ..." or "Species: ..."."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from birdlab.abstention.answers.jsonish import find_json

#: Fields by the keys and labels that models use for them.
FIELDS: dict[str, str] = {
    **dict.fromkeys(
        "final_answer answer final final_identification final_id prediction predicted_species identification id best_guess "
        "conclusion bird result label top_prediction verdict antwort reponse respuesta antwoord svar class predicted_class "
        "guess output bird_species identified_species name species_name".split(),
        "answer",
    ),
    **dict.fromkeys("species art espece especie soort".split(), "species"),
    **dict.fromkeys(
        "scientific_name scientific binomial latin_name latin species_scientific wissenschaftlicher_name".split(),
        "scientific",
    ),
    **dict.fromkeys("common_name common english_name english vernacular_name species_common".split(), "common"),
    **dict.fromkeys("genus gattung genre genero genus_name".split(), "genus"),
    **dict.fromkeys("family order".split(), "higher"),
    **dict.fromkeys(
        "reason reasons reasoning explanation rationale justification why because notes note comment abstention_reason "
        "reason_for_abstention grund raison razon comments limitations abstain_reason".split(),
        "reason",
    ),
    **dict.fromkeys(
        "confidence confidence_level confidence_score probability certainty score prob konfidenz sicherheit".split(),
        "confidence",
    ),
    **dict.fromkeys(
        "alternatives alternative other_candidates other_possibilities similar_species lookalikes look_alikes second_choice "
        "confusion_species alternative_species possible_alternatives".split(),
        "beside",
    ),
    **dict.fromkeys("candidates predictions top_k species_list possible_species results options".split(), "list"),
    **dict.fromkeys("abstain abstained abstention cannot_identify unanswerable is_unanswerable".split(), "abstain"),
    **dict.fromkeys("answerable is_answerable identifiable can_identify is_identifiable".split(), "answerable"),
}
_LABELS = sorted(
    (k.replace("_", "[ _-]?") for k in FIELDS if k not in ("class", "score", "why", "because")),
    key=len,
    reverse=True,
)
_LABEL = re.compile(
    r"(?:^[^\S\n]{0,20}(?:(?:[-*>#•+|]|\d{1,2}[.)])[^\S\n]{0,4}){0,4}|[,;({|.][^\S\n]{0,4})[\"'*_`#]{0,4}"
    r"(?P<label>" + "|".join(_LABELS) + r")(?:\(s\))?[\"'*_`]{0,4}[^\S\n]{0,4}(?:is[^\S\n]{0,2})?[:：=][\"'*_`]{0,4}",
    re.I | re.M,
)
_FINAL = re.compile(
    r"\bfinal[ _](?:answer|identification|id|verdict|species|choice)\b[\"'*_`]{0,4}\s{0,4}(?:is\b)?\s{0,4}[:：=\-–—]{0,2}[\"'*_`]{0,4}",
    re.I,
)
_BOXED = re.compile(r"\\boxed\s{0,3}\{(?:\\text\s{0,3}\{)?([^{}\n]{1,300})\}")
_TAG = re.compile(r"<(?:final_)?answer>([^<]{0,2000})(?:</(?:final_)?answer>|$)", re.I)
MAX_VALUE = 2000


@dataclass
class Record:
    """Fields of a structured answer, as text; ``has`` names those that were there, empty ones too."""

    names: dict[str, str] = field(default_factory=dict)
    has: set[str] = field(default_factory=set)
    reason: str = ""
    confidence: object = None
    beside: list[str] = field(default_factory=list)
    abstains: bool | None = None
    flags: set[str] = field(default_factory=set)


def json_record(text: str) -> Record | None:
    """The fields of the last JSON object of an answer; null where there is none with a field that is known."""
    found = find_json(text)
    if found is None:
        return None
    value, mended = found
    record = Record()
    record.flags.update(("json", "repaired") if mended else ("json",))
    if isinstance(value, list):
        value = {"candidates": value} if value and all(isinstance(v, str | dict) for v in value) else {}
    _fill(record, value, 0)
    return (
        record
        if record.has - {"confidence", "reason"} or ("reason" in record.has and "confidence" in record.has)
        else None
    )


def _fill(record: Record, value: dict[Any, Any], depth: int) -> None:
    for key, item in list(value.items())[:200]:
        name = FIELDS.get(re.sub(r"[\s-]+", "_", str(key)[:60].strip().lower()))
        if name is None:
            if isinstance(item, dict) and depth < 3 and str(key).lower() in ("response", "output", "data", "result"):
                _fill(record, item, depth + 1)
            continue
        record.has.add(name)
        if name == "confidence":
            record.confidence = item if record.confidence is None else record.confidence
        elif name == "reason":
            record.reason += " ; ".join(_strings(item)) + " . "
        elif name in ("abstain", "answerable"):
            _decide(record, item, name == "answerable")
        elif name == "beside":
            record.beside += _strings(item)
        elif name == "list":
            _ranked(record, item)
        elif isinstance(item, dict) and depth < 3:
            _fill(record, item, depth + 1)
        else:
            _name(record, name, item)


def _decide(record: Record, item: Any, is_answerable: bool) -> None:
    said = (
        item
        if isinstance(item, bool)
        else {"true": True, "yes": True, "false": False, "no": False}.get(str(item).lower())
    )
    if said is not None:
        record.abstains = said != is_answerable
    elif isinstance(item, str) and item.strip():
        record.reason += item + " . "


def _name(record: Record, name: str, item: Any) -> None:
    if isinstance(item, bool | int | float):
        record.flags.add("not_text")
        return
    text = " or ".join(_strings(item)) if isinstance(item, list) else ("" if item is None else str(item)[:MAX_VALUE])
    if text or name not in record.names:
        record.names[name] = text


def _ranked(record: Record, item: Any) -> None:
    """A list of candidates: with confidences the first of the largest is the answer; without, they are alternatives."""
    rows = [r for r in item[:50] if isinstance(r, dict)] if isinstance(item, list) else []
    scored = []
    for row in rows:
        part = Record()
        _fill(part, {k: v for k, v in row.items() if not isinstance(v, dict | list)}, 3)
        text = " , ".join(v for v in part.names.values() if v)
        if text:
            scored.append((part.confidence if isinstance(part.confidence, int | float) else None, text, part))
    if scored and all(s[0] is not None for s in scored):
        scored.sort(key=lambda s: -float(s[0] or 0))
        if not record.names:
            record.names, record.confidence = scored[0][2].names, scored[0][0]
            scored = scored[1:]
        record.beside += [s[1] for s in scored]
        record.flags.add("ranked")
    elif record.names or "species" in record.has:
        record.beside += _strings(item) + [s[1] for s in scored]
    else:
        _name(record, "answer", [s[1] for s in scored] or _strings(item))


def _strings(item: Any) -> list[str]:
    items = item if isinstance(item, list) else [item]
    return [str(i)[:MAX_VALUE] for i in items[:50] if isinstance(i, str | int | float) and not isinstance(i, bool)]


def labelled_record(text: str) -> Record | None:
    """The labelled lines of an answer, the last of each label; null where there is none that names or abstains.

    A final answer (``Final answer:``, ``\\boxed{}``, ``<answer>``) hides everything before it.
    """
    record = Record(flags={"labelled"})
    final = [(m.start(), m.end(), None) for m in _FINAL.finditer(text)]
    for pattern in (_BOXED, _TAG):
        final += [(m.start(), m.end(), m.group(1)) for m in pattern.finditer(text)]
    floor = 0
    if final:
        start, end, value = max(final)
        value = _value(text, end, text.find("\n", end) if "\n" in text[end:] else len(text)) if value is None else value
        if value.strip(" .*_`\"'"):
            record.names["answer"], floor = value, end
            record.has.add("answer")
    marks = [m for m in _LABEL.finditer(text) if m.start() >= floor]
    for k, mark in enumerate(marks):
        label = re.sub(r"[ -]", "_", mark.group("label").lower())
        name = FIELDS.get(label) or FIELDS.get(label.replace("_", "")) or _loose(label)
        line = text.find("\n", mark.end())
        stop = min(marks[k + 1].start() if k + 1 < len(marks) else len(text), line if line >= 0 else len(text))
        _line(record, name, _value(text, mark.end(), stop), has_final=floor > 0)
    return record if record.has & {"answer", "species", "scientific", "common", "genus"} or record.abstains else None


def _loose(label: str) -> str:
    return next((name for key, name in FIELDS.items() if key.replace("_", "") == label.replace("_", "")), "answer")


def _value(text: str, start: int, stop: int) -> str:
    value = text[start:stop][:MAX_VALUE].strip()
    if not value.strip("*_`\"' "):
        # The label stands on a line of its own: its value is the next line that says something.
        rest = text[stop : stop + MAX_VALUE].lstrip()
        value = rest.split("\n", 1)[0].strip()
        if _LABEL.match(value):
            return ""
    return value


def _line(record: Record, name: str, value: str, *, has_final: bool) -> None:
    if name == "confidence":
        record.confidence = value
    elif name == "reason":
        record.reason += value + " . "
    elif name in ("abstain", "answerable"):
        _decide(record, value.strip(" .*_`\"',}").lower(), name == "answerable")
    elif name in ("beside", "list"):
        record.beside.append(value)
    elif name != "higher" and not (has_final and name != "answer" and record.names.get("answer")):
        if name == "answer":
            # The last answer or species line wins.
            record.names.pop("species", None)
        elif name == "species":
            record.names.pop("answer", None)
        record.names[name] = value
        record.has.add(name)
