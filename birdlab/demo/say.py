"""Made answers in words: three models that decline too often, never, or as the prompt pleases.

Every decision is planted first and put into words after; no model was asked. How often each prompt makes a model decline,
and which reason it then gives, are counts, so that the chapter's shares have one right value.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from birdlab.demo.paint import stream
from birdlab.shards import write_atomic

if TYPE_CHECKING:
    from birdlab.demo.identify import Study

_SEED = 43
REASONS = ("vocalization", "angle", "quality")


@dataclass(frozen=True)
class Prompt:
    """One wording of the question.

    Args:
        name: prompt.
        permits: whether it says that the model may decline.
        declines: share of answerable, and of unanswerable photographs that are declined.
    """

    name: str
    permits: bool
    declines: tuple[float, float]


@dataclass(frozen=True)
class Speaker:
    """One made model that answers in words.

    Args:
        name: name of the model.
        prompts: wordings it was asked with.
        right: share of its species answers to answerable photographs that are right.
        genus_only: share of the answers that stop at the genus.
        blames: true reason -> weights of the reasons it gives (vocalization, angle, quality, none).
        states: whether it states a confidence.
        unread: share of answers that say nothing.
    """

    name: str
    prompts: tuple[Prompt, ...]
    right: float
    genus_only: float
    blames: dict[str, tuple[float, float, float, float]]
    states: bool
    unread: float


_QUALITY = {"vocalization": (0.05, 0.1, 0.75, 0.1), "angle": (0.0, 0.4, 0.5, 0.1), "quality": (0.0, 0.0, 1.0, 0.0)}
_FAIR = {"vocalization": (0.6, 0.2, 0.2, 0.0), "angle": (0.1, 0.7, 0.2, 0.0), "quality": (0.05, 0.15, 0.8, 0.0)}
SPEAKERS = (
    Speaker("hesitant", (Prompt("may-decline", True, (0.55, 0.86)),), 0.82, 0.1, _FAIR, True, 0.0),
    Speaker("cocksure", (Prompt("must-name", False, (0.0, 0.0)),), 0.42, 0.0, _QUALITY, True, 0.0),
    Speaker(
        "chatty",
        (
            Prompt("plain", True, (0.10, 0.16)), Prompt("expert", True, (0.05, 0.07)), Prompt("polite", True, (0.26, 0.40)),
            Prompt("list", True, (0.14, 0.18)), Prompt("bare", False, (0.01, 0.02)), Prompt("quiz", False, (0.02, 0.02)),
        ),
        0.5, 0.12, _QUALITY, False, 0.01,
    ),
)  # fmt: skip

_SPECIES = (
    "{common}", "{sci}", "**Species:** {common} (*{sci}*)", "This is a {common} ({sci}).",
    "Looking at bill and plumage, I would say:\n\nFinal answer: {common}", "{{\"species\": \"{sci}\"}}",
    "Most likely {common}, though the light is not ideal.",
)  # fmt: skip
_STATED = '{{"species": "{common}", "confidence": {confidence:.2f}}}'
_GENUS = ("{genus} sp.", "I can only say that it belongs to the genus {genus}.")
_WHY = {
    "vocalization": (
        "I cannot identify this bird to species: it could only be told by its call.",
        '{"species": null, "reason": "needs its song to be heard"}',
    ),
    "angle": (
        "No identification is possible, the head is hidden behind a branch.",
        '{"species": null, "reason": "seen only from behind"}',
    ),
    "quality": (
        "I cannot tell the species; the image is too blurry.",
        '{"species": null, "reason": "low resolution, out of focus"}',
    ),
    "none": ("I am unable to identify the species.", "Unknown"),
}
_NOTHING = ("", "What a pleasant morning to be outside.")


def write_answers(folder: Path, study: Study) -> tuple[list[str], dict[str, Any]]:
    """Write ``<model>.jsonl`` for every speaker.

    Returns:
        File names, and per model and prompt what was planted: counts of decisions, declined and reason right by true
        reason, and the decision for every photograph.
    """
    names, planted = [], {}
    for number, speaker in enumerate(SPEAKERS):
        lines, told = [], {}
        for k, prompt in enumerate(speaker.prompts):
            rng = stream(_SEED, number, k)
            decisions = _decide(study, speaker, prompt, rng)
            told[prompt.name] = _told(study, prompt, decisions)
            for item, decision in zip(study.items["item_id"], decisions, strict=True):
                about = {"item_id": item, "prompt_id": prompt.name, "permits_abstention": prompt.permits}
                lines.append(json.dumps({**about, "answer": _words(study, speaker, decision, rng)}, ensure_ascii=False))
        text = "\n".join(lines) + "\n"
        write_atomic(folder / f"{speaker.name}.jsonl", lambda t, text=text: t.write_text(text, encoding="utf-8"))
        names.append(f"{speaker.name}.jsonl")
        planted[speaker.name] = told
    return names, planted


def _decide(study: Study, speaker: Speaker, prompt: Prompt, rng: np.random.Generator) -> list[dict[str, Any]]:
    """What is said of each photograph, before it is put into words."""
    answerable = study.items["is_answerable"].to_numpy()
    reasons = study.items["reasons"].to_list()
    out: list[dict[str, Any]] = [{} for _ in reasons]
    for is_answerable, share in zip((True, False), prompt.declines, strict=True):
        rows = rng.permutation(np.flatnonzero(answerable == is_answerable))
        declined, spoken = np.split(rows, [round(share * len(rows))])
        for i in declined:
            blame = speaker.blames[reasons[i][0]] if reasons[i] else (0.1, 0.2, 0.6, 0.1)
            out[i] = {"decision": "abstain", "reason": (*REASONS, "none")[int(rng.choice(4, p=blame))]}
        unread, spoken = np.split(spoken, [round(speaker.unread * len(spoken))])
        for i in unread:
            out[i] = {"decision": "unparsed"}
        wide, spoken = np.split(spoken, [round(speaker.genus_only * len(spoken))])
        for i in wide:
            out[i] = {"decision": "genus", "taxon": study.genera[study.shown[i]]}
        right, wrong = np.split(spoken, [round(speaker.right * len(spoken))])
        for i in right if is_answerable else ():
            out[i] = {"decision": "species", "taxon": study.species[study.shown[i]]}
        for i in wrong if is_answerable else spoken:
            out[i] = {"decision": "species", "taxon": study.species[_other(study, int(study.shown[i]), rng)]}
    return out


def _other(study: Study, shown: int, rng: np.random.Generator) -> int:
    """A wrong species: of the same genus two times in three where it has another one."""
    same = [s for s, g in enumerate(study.genera) if g == study.genera[shown] and s != shown]
    far = [s for s, g in enumerate(study.genera) if g != study.genera[shown]]
    return int(rng.choice(same if same and rng.random() < 2 / 3 else far))


def _words(study: Study, speaker: Speaker, decision: dict[str, Any], rng: np.random.Generator) -> str:
    kind = decision["decision"]
    if kind == "abstain":
        return str(rng.choice(_WHY[decision["reason"]]))
    if kind == "unparsed":
        return str(rng.choice(_NOTHING))
    if kind == "genus":
        return str(rng.choice(_GENUS)).format(genus=decision["taxon"])
    names = {"sci": decision["taxon"], "common": study.common[decision["taxon"]]}
    if speaker.states:
        decision["confidence"] = round(float(rng.beta(6, 2)), 2)
        return _STATED.format(confidence=decision["confidence"], **names)
    return str(rng.choice(_SPECIES)).format(**names)


def _told(study: Study, prompt: Prompt, decisions: list[dict[str, Any]]) -> dict[str, Any]:
    by_reason = {}
    reasons = study.items["reasons"].to_list()
    for reason in REASONS:
        mine = [d for d, true in zip(decisions, reasons, strict=True) if reason in true]
        declined = [
            (d, true)
            for d, true in zip(decisions, reasons, strict=True)
            if reason in true and d["decision"] == "abstain"
        ]
        right = sum(d["reason"] in true for d, true in declined)
        by_reason[reason] = {"n": len(mine), "declined": len(declined), "reason_right": right}
    answerable = study.items["is_answerable"].to_list()
    return {
        "permits_abstention": prompt.permits,
        "decisions": dict(sorted(Counter(d["decision"] for d in decisions).items())),
        "declined_answerable": sum(d["decision"] == "abstain" for d, a in zip(decisions, answerable, strict=True) if a),
        "by_reason": by_reason,
        "answers": decisions,
    }
