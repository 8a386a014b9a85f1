"""Answers in words to a decision: structured first, then labelled lines, then running text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from birdlab.abstention.answers import why
from birdlab.abstention.answers.confidence import read_confidence, stated_confidence
from birdlab.abstention.answers.fold import clean, joined, name_keys, tokenise
from birdlab.abstention.answers.free_text import Reading, read_text
from birdlab.abstention.answers.groups import MAX_CANDIDATES
from birdlab.abstention.answers.lexicon import Lexicon
from birdlab.abstention.answers.policy import ANSWER_SCHEMA, REASONS, Answer, Policy
from birdlab.abstention.answers.structured import Record, json_record, labelled_record

#: Of a longer answer, this many characters of its head and of its tail are read (flag ``truncated``).
HEAD, TAIL = 16_384, 49_152
_TAG = re.compile(r"</?[a-zA-Z!][^<>]{0,500}>")
_THOUGHT = re.compile(r"</think(?:ing)?>", re.I)
_BESIDE_LINE = re.compile(
    r"^[^\w\n]{0,12}(?:similar species|look-?alikes?|confusion species|alternatives?|other candidates|compare with)\b[^:\n]{0,30}:[^\n]*",
    re.I | re.M,
)


def parse_answer(
    text: str | None, lexicon: Lexicon, *, policy: Policy | None = None, candidates: Sequence[str] | None = None
) -> Answer:
    """One answer, read.

    Structured parts come first (the last JSON object, then the last ``Final answer:`` or ``Species:`` line), then the
    running text. Names are exact before fuzzy, a genus before its epithets, and never matched in part. Time is bounded:
    of answers longer than 65,536 characters the first 16,384 and the last 49,152 are read.

    Args:
        text: the answer; null and blanks are ``unparsed``.
        lexicon: names of the pinned list.
        policy: open choices; the defaults of :class:`Policy`.
        candidates: taxa that the question offered: a name of several birds stands for the one that was offered.

    Returns:
        The :class:`Answer`. Never raises for a text, whatever it holds.
    """
    raw = "" if text is None else text
    policy = Policy() if policy is None else policy
    flags: set[str] = set()
    body = _body(raw, flags)
    if not body.strip():
        return Answer(raw, flags=tuple(sorted(flags)))
    asked = frozenset(candidates) if candidates else None
    reader = _Reader(lexicon, policy, asked)
    reading, confidence, more = reader.structured(body)
    if reading is None:
        text_only = _BESIDE_LINE.sub("\n", body)
        reading = reader.read(text_only if text_only.strip() else body)
        confidence, more = stated_confidence(body)
    flags.update(more)
    return _answer(raw, reading, confidence, flags, lexicon, policy, asked)


def _body(raw: str, flags: set[str]) -> str:
    text = raw
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
        flags.add("truncated")
    thoughts = list(_THOUGHT.finditer(text))
    if thoughts and text[thoughts[-1].end() :].strip():
        text = text[thoughts[-1].end() :]
    if "&" in text and ";" in text:
        text = html.unescape(text)
    return text


@dataclass
class _Reader:
    """What every part of one answer is read with."""

    lexicon: Lexicon
    policy: Policy
    asked: frozenset[str] | None
    seen: dict[str, Reading] = field(default_factory=dict)

    def read(self, text: str) -> Reading:
        return read_text(_TAG.sub(" ; ", text), self.lexicon, self.policy, asked=self.asked)

    def structured(self, body: str) -> tuple[Reading | None, float | None, tuple[str, ...]]:
        """What the structured part says; a null reading where there is none that can be used."""
        for find in (json_record, labelled_record):
            record = find(body)
            if record is None:
                continue
            reading = self.record(record, body)
            if reading.decision == "unparsed" and "labelled" in record.flags and not reading.flags & _UNKNOWN:
                continue
            confidence, more = read_confidence(record.confidence)
            if record.confidence is None:
                confidence, more = stated_confidence(body)
            reading.flags.update(record.flags)
            return reading, confidence, more
        return None, None, ()

    def record(self, record: Record, body: str) -> Reading:
        """One record: its names together, then its reason."""
        names = dict(record.names)
        genus, species = names.get("genus", ""), names.get("species", "")
        words = name_keys(species)
        if genus and len(words) == 1 and name_keys(genus):
            if " ".join([*name_keys(genus)[:1], *words]) in self.lexicon.entries:
                names["species"] = f"{genus} {species}"
        readings = {k: self.read(v) for k, v in names.items() if v.strip()}
        reading = _together(readings)
        if reading is None:
            empty = record.has & {"answer", "species", "scientific", "common", "genus"}
            abstains = record.abstains or (empty and "not_text" not in record.flags) or bool(record.reason)
            reading = (
                Reading("abstain", method="json" if "json" in record.flags else "phrase") if abstains else Reading()
            )
        if record.abstains and reading.decision in ("species", "multiple"):
            if not (reading.decision == "species" and self.policy.best_guess == "species"):
                reading.decision, reading.beside, reading.taxa, reading.method = "abstain", reading.taxa, (), "json"
            reading.flags.add("best_guess")
            reading.hedged = True
        self._beside(reading, record)
        self._reasons(reading, record, body)
        return reading

    def _beside(self, reading: Reading, record: Record) -> None:
        for text in record.beside[:20]:
            found = self.read(text)
            extra = (t for t in (*found.taxa, *found.beside) if self.lexicon.rank(t) == "species")
            reading.beside = tuple(dict.fromkeys((*reading.beside, *(t for t in extra if t not in reading.taxa))))

    def _reasons(self, reading: Reading, record: Record, body: str) -> None:
        if reading.decision == "species" and not reading.hedged:
            reading.reasons = ()
            return
        if "no_bird" in reading.flags:
            return
        said = _plain(record.reason) if record.reason.strip() else ""
        if said:
            found = why.reasons_in(said, other=reading.decision == "abstain")
            if reading.decision == "abstain" and "no_bird" not in reading.flags and _NO_BIRD.search(said):
                reading.flags.add("no_bird")
                found = ("other",)
            reading.reasons = tuple(r for r in REASONS if r in {*reading.reasons, *found})
        elif not reading.reasons and reading.decision in ("abstain", "genus", "multiple", "higher"):
            elsewhere = self.read(body[-4000:]).reasons if "labelled" in record.flags else ()
            if elsewhere:
                reading.reasons = elsewhere
                reading.flags.add("reason_elsewhere")


_UNKNOWN = {"unknown_name", "unknown_epithet"}
_NO_BIRD = re.compile(r"\bno (?:\w+ ){0,2}birds?\b|\bnot (?:a|any) bird\b")


def _plain(text: str) -> str:
    return joined(tokenise(clean(text[:8000])))


def _together(readings: dict[str, Reading]) -> Reading | None:
    """The readings of the fields of one record as one."""
    named = {k: r for k, r in readings.items() if r.decision not in ("abstain", "unparsed")}
    precise = [r for r in named.values() if r.decision == "species"]
    if len({r.taxa for r in precise}) > 1:
        first = precise[0]
        taxa = tuple(dict.fromkeys(t for r in precise for t in r.taxa))
        return replace(first, decision="multiple", taxa=taxa, flags={*first.flags, "name_conflict"})
    order = ("answer", "species", "scientific", "common", "genus", "higher")
    lead = next((readings[k] for k in order if k in readings and readings[k].decision != "unparsed"), None)
    if precise and (lead is None or lead.decision != "abstain"):
        best = next(readings[k] for k in order if k in named and named[k].decision == "species")
        return best
    # "Species: unknown" beside "Genus: Empidonax" is a genus.
    if lead is not None and lead.decision == "abstain" and named:
        coarse = next((r for k, r in named.items() if r.decision in ("genus", "higher")), None)
        if coarse is not None:
            return replace(coarse, reasons=coarse.reasons or lead.reasons)
    if lead is not None:
        return lead
    return next(iter(readings.values()), None)


def _answer(
    raw: str,
    reading: Reading,
    confidence: float | None,
    flags: set[str],
    lexicon: Lexicon,
    policy: Policy,
    asked: frozenset[str] | None,
) -> Answer:
    """The decision under the policy, and the taxon of it."""
    flags |= reading.flags
    decision, taxa, beside = reading.decision, reading.taxa, reading.beside
    taxon = taxa[0] if len(taxa) == 1 else None
    if decision == "split":
        taxon = lexicon.tree.common(taxa)
        decision, beside = ("genus" if lexicon.rank(taxon) == "genus" else "multiple"), taxa
        if policy.split == "unparsed":
            decision, taxon = "unparsed", None
    elif decision == "group":
        flags.add("ambiguous_group")
        decision, beside = policy.ambiguous_group, taxa
        taxon = lexicon.tree.common(taxa) if decision == "multiple" else None
    elif decision == "multiple":
        beside, taxon = (*taxa, *beside), lexicon.tree.common(taxa)
        if "hybrid" in flags and policy.hybrid == "unparsed":
            decision, taxon = "unparsed", None
    elif decision == "species" and reading.method == "trinomial" and policy.trinomial == "unparsed":
        decision, taxon, beside = "unparsed", None, taxa
    elif decision in ("abstain", "unparsed"):
        taxon = None
    if asked and decision == "species" and taxon not in asked:
        flags.add("outside_candidates")
    if len(beside) > MAX_CANDIDATES:
        flags.add("candidates_cut")
    return Answer(
        text=raw,
        decision=decision,  # type: ignore[arg-type]
        taxon_id=taxon,
        candidates=tuple(dict.fromkeys(beside))[:MAX_CANDIDATES],
        rank=lexicon.rank(taxon),
        reasons=tuple(r for r in REASONS if r in reading.reasons),
        hedged=reading.hedged,
        confidence=confidence,
        method=reading.method,
        edits=reading.edits if decision == "species" else 0,
        flags=tuple(sorted(flags)),
    )


def parse_answers(frame: pl.DataFrame, lexicon: Lexicon, policy: Policy | None = None) -> pl.DataFrame:
    """Every answer of a table, read; equal texts are read once.

    Args:
        frame: model, prompt_id, permits_abstention, item_id, text, and optionally confidence (stands before one in the
            text) and candidates (taxa that the question offered).
        lexicon: names of the pinned list.
        policy: open choices.

    Returns:
        The ``answers`` table, a row per row of ``frame`` and in its order.
    """
    offered: Iterable[Any] = frame["candidates"].to_list() if "candidates" in frame.columns else [None] * frame.height
    given = frame["confidence"].to_list() if "confidence" in frame.columns else [None] * frame.height
    seen: dict[tuple[str | None, tuple[str, ...]], Answer] = {}
    rows: dict[str, list[Any]] = {name: [] for name in ANSWER_SCHEMA}
    for text, taxa, stated in zip(frame["text"].to_list(), offered, given, strict=True):
        key = (text, tuple(taxa or ()))
        if key not in seen:
            seen[key] = parse_answer(text, lexicon, policy=policy, candidates=key[1])
        answer = seen[key]
        for name in ("decision", "taxon_id", "rank", "hedged", "method", "edits"):
            rows[name].append(getattr(answer, name))
        for name in ("candidates", "reasons", "flags"):
            rows[name].append(list(getattr(answer, name)))
        rows["text"].append(text)
        rows["confidence"].append(answer.confidence if stated is None else stated)
    for name in ("model", "prompt_id", "permits_abstention", "item_id"):
        rows[name] = frame[name].to_list()
    return pl.DataFrame(rows, schema=ANSWER_SCHEMA)
