"""An answer in running words: which of the birds it names is its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from birdlab.abstention.answers import phrases, why
from birdlab.abstention.answers.fold import Token, clean, joined, tokenise
from birdlab.abstention.answers.lexicon import Lexicon
from birdlab.abstention.answers.mentions import Mention, find_mentions
from birdlab.abstention.answers.policy import Policy

_BREAKS = frozenset(
    "but however although though while whereas yet aber jedoch obwohl mais cependant pero sino maar men dock".split()
)
_LINKS = frozenset("or and vs versus oder ou und et y o e u of och eller en nor".split())
_FILL = frozenset("a an the either some un une ein eine einen een ett una uno el la both even another else".split())
_HYBRID = re.compile(r"\b(?:hybrids?|intergrades?|crossbreed|cross between)\b")
#: Of an answer with more names the last ones are weighed (flag ``many_names``).
MAX_NAMES = 300
#: What a named bird is to the answer: refused, compared, possible, named, stated, concluded.
DROPPED, POSSIBLE, NAMED, STATED, FINAL = 0, 1, 2, 3, 4


@dataclass
class Reading:
    """What running text says: the answer, and what stood beside it."""

    decision: str = "unparsed"
    taxa: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    method: str = "none"
    edits: int = 0
    reasons: tuple[str, ...] = ()
    hedged: bool = False
    declined: bool = False
    flags: set[str] = field(default_factory=set)


def read_text(text: str, lexicon: Lexicon, policy: Policy, *, asked: frozenset[str] | None = None) -> Reading:
    """Read running text.

    Args:
        text: the answer, or the part of it that holds the answer.
        lexicon: names of the pinned list.
        policy: open choices.
        asked: taxa that the question offered; a name of several birds stands for the one that was offered.
    """
    tokens = tokenise(clean(text))
    if not tokens:
        return Reading()
    if " ".join(t.key for t in tokens) in phrases.NOTHING:
        return Reading("abstain", method="phrase")
    mentions = [_offered(m, asked) for m in find_mentions(tokens, lexicon)]
    many = len(mentions) > MAX_NAMES
    mentions = mentions[-MAX_NAMES:]
    plain = _masked(tokens, mentions)
    chains = _chains(tokens, mentions)
    weights = _weights(tokens, mentions, chains)
    reading = Reading(hedged=phrases.HEDGE.search(plain) is not None)
    declined = phrases.DECLINED.search(plain) is not None
    refused = declined and phrases.DECLINED.search(phrases.UNCERTAIN.sub(" ", plain)) is not None
    reading.declined = declined
    if mentions:
        _choose(reading, tokens, mentions, chains, weights, lexicon)
        if _HYBRID.search(plain) and reading.decision == "multiple":
            reading.flags.add("hybrid")
    guessed = not refused or max(weights, default=0) > POSSIBLE
    _settle(reading, plain, declined, guessed, bool(mentions), policy)
    if many:
        reading.flags.add("many_names")
    if reading.decision != "unparsed" and (reading.decision != "species" or reading.hedged or declined):
        reading.reasons = why.reasons_in(plain)
        if reading.reasons == ("other",) and reading.decision not in ("abstain",):
            reading.reasons = ()
    if "no_bird" in reading.flags:
        reading.reasons = ("other",)
    return reading


def _offered(mention: Mention, asked: frozenset[str] | None) -> Mention:
    if not asked or mention.kind not in ("group", "split"):
        return mention
    only = [t for t in mention.taxa if t in asked]
    if len(only) != 1:
        return mention
    entry = mention.entry._replace(kind="species", taxa=tuple(only), flags=("by_candidates",))
    return Mention(entry, mention.start, mention.end)


def _masked(tokens: Sequence[Token], mentions: Sequence[Mention]) -> str:
    """The text without the names: a Song Sparrow gives no reason."""
    parts, at = [], 0
    for mention in mentions:
        parts += [joined(tokens[at : mention.start]), "§"]
        at = mention.end
        if at < len(tokens) and tokens[at].sep in ",;.":
            parts.append(tokens[at].sep)
    parts.append(joined(tokens[at:]))
    return " ".join(p for p in parts if p)


def _chains(tokens: Sequence[Token], mentions: Sequence[Mention]) -> list[int]:
    """Number of the chain of each mention: names joined by "or", a slash or commas, and one bird's two names."""
    numbers: list[int] = []
    for k, mention in enumerate(mentions):
        number = numbers[-1] if k and _are_linked(tokens, mentions[k - 1], mention) else (numbers[-1] + 1 if k else 0)
        numbers.append(number)
    return numbers


def _are_linked(tokens: Sequence[Token], one: Mention, two: Mention) -> bool:
    gap = tokens[one.end : two.start]
    if gap and gap[0].key == "from" and all(t.key in _FILL for t in gap[1:]):
        return True
    if len(gap) > 5 or tokens[two.start].sep == "." or any(t.sep == "." for t in gap):
        return False
    if not gap and one.kind == "species" and two.kind == "species" and one.taxa == two.taxa:
        return True
    if not gap and tokens[two.start].sep == ";" and "genus" in (one.kind, two.kind):
        return False
    if not all(t.key in _LINKS | _FILL or t.key in ("x", "cross") for t in gap):
        return False
    return any(t.key in _LINKS or t.key in ("x", "cross") for t in gap) or any(
        t.sep in ",/&x" for t in (*gap, tokens[two.start])
    )


def _left(tokens: Sequence[Token], mention: Mention, floor: int) -> str:
    """What is said before a name in its clause, at most twelve words."""
    at = mention.start
    while at > max(floor, mention.start - 12) and tokens[at].sep not in ".;" and tokens[at - 1].key not in _BREAKS:
        at -= 1
    return joined(tokens[at : mention.start]) + (
        " ," if mention.start > at and tokens[mention.start].sep == "," else ""
    )


def _right(tokens: Sequence[Token], mention: Mention) -> str:
    if mention.end < len(tokens) and tokens[mention.end].sep in ".;,":
        return ""
    end = mention.end
    while end < min(len(tokens), mention.end + 8) and (end == mention.end or tokens[end].sep not in ".;"):
        end += 1
    return joined(tokens[mention.end : end])


def _weights(tokens: Sequence[Token], mentions: Sequence[Mention], chains: Sequence[int]) -> list[int]:
    weights: list[int] = []
    for k, mention in enumerate(mentions):
        floor = mentions[k - 1].end if k else 0
        left = _left(tokens, mention, floor)
        weight = _weight(left, _right(tokens, mention), tokens, mention)
        if k and chains[k] == chains[k - 1] and weight == NAMED:
            weight = weights[-1]
        weights.append(weight)
    # "X and Y can be ruled out": what takes back the last of a chain takes back all of it.
    for k in range(len(mentions) - 2, -1, -1):
        if chains[k] == chains[k + 1] and phrases.REFUSED_AFTER.match(_right(tokens, mentions[k + 1])):
            weights[k] = DROPPED
    if not any(weights) and mentions:
        for k, mention in enumerate(mentions):
            if phrases.COMPARED.search(_left(tokens, mention, mentions[k - 1].end if k else 0)):
                weights[k] = POSSIBLE
    return weights


def _weight(left: str, right: str, tokens: Sequence[Token], mention: Mention) -> int:
    after = tokens[mention.end] if mention.end < len(tokens) else None
    if after and after.sep == "-" and after.key in ("like", "sized", "shaped", "ish", "esque"):
        return DROPPED
    if phrases.WEAK_AFTER.match(right):
        return POSSIBLE
    if phrases.REFUSED_AFTER.match(right) or phrases.COMPARED_AFTER.match(right):
        return DROPPED
    left = phrases.NO_NEGATION.sub("surely", left)
    if phrases.LOOKS_LIKE.search(left) and not phrases.NEGATED.search(left):
        return POSSIBLE if phrases.WEAK.search(left) else STATED
    if phrases.COMPARED.search(left):
        return DROPPED
    if phrases.POSSIBLE.search(left):
        return FINAL if phrases.FINAL.search(left) else POSSIBLE
    if phrases.NEGATED.search(left):
        return DROPPED
    if phrases.FINAL.search(left):
        return FINAL
    if phrases.WEAK.search(left):
        return POSSIBLE
    return STATED if phrases.STATED.search(left) else NAMED


def _choose(
    reading: Reading,
    tokens: Sequence[Token],
    mentions: Sequence[Mention],
    chains: Sequence[int],
    weights: Sequence[int],
    lexicon: Lexicon,
) -> None:
    """The names that win: the most decided ones, the more specific of two that agree, the last conclusion."""
    alive = [k for k in range(len(mentions)) if weights[k] > DROPPED]
    alive = _specific(alive, mentions, weights, lexicon)
    if not alive:
        return
    best = max(weights[k] for k in alive)
    top = [k for k in alive if weights[k] == best]
    # A chain belongs together even where its members are worded differently.
    if best == FINAL and len({chains[k] for k in top}) > 1 and len({mentions[k].taxa for k in top}) > 1:
        top = [k for k in top if chains[k] == chains[top[-1]]]
    if len({chains[k] for k in top}) > 1 and len({mentions[k].taxa for k in top}) > 1:
        # A heading is the answer, but not a first guess of several that the answer then gives up.
        title = None if reading.declined else _title(tokens, [mentions[k] for k in top], [chains[k] for k in top])
        top = [k for k in top if chains[k] == title] if title is not None else top
        if title is None:
            reading.flags.add("several_names")
    others = [t for k in alive if k not in top and mentions[k].kind == "species" for t in mentions[k].taxa]
    _set(reading, [mentions[k] for k in top], others)
    pairs = zip(top, top[1:], strict=False)
    if any(chains[a] == chains[b] and _is_cross(tokens, mentions[a], mentions[b]) for a, b in pairs):
        reading.flags.add("hybrid")


def _is_cross(tokens: Sequence[Token], one: Mention, two: Mention) -> bool:
    return tokens[two.start].sep == "x" or any(
        t.key in ("x", "cross") or t.sep == "x" for t in tokens[one.end : two.start]
    )


def _specific(alive: list[int], mentions: Sequence[Mention], weights: Sequence[int], lexicon: Lexicon) -> list[int]:
    """Without genera, families and group names of birds that are named more exactly."""
    exact = [k for k in alive if mentions[k].kind in ("species", "genus", "higher", "split")]
    kept = []
    lines = {k: set(lexicon.tree.line(mentions[k].taxa[0])) for k in exact}
    for k in alive:
        mention = mentions[k]
        if mention.kind in ("group", "unknown"):
            if not exact:
                kept.append(k)
            continue
        held = [
            j
            for j in exact
            if j != k
            and (weights[j] >= min(weights[k], NAMED))
            and (
                (mention.kind != "species" and mention.taxa[0] in lines[j] and mentions[j].taxa != mention.taxa)
                or (mention.kind == "split" and mentions[j].kind == "species" and mentions[j].taxa[0] in mention.taxa)
            )
        ]
        if not held:
            kept.append(k)
    return kept


def _title(tokens: Sequence[Token], top: Sequence[Mention], chains: Sequence[int]) -> int | None:
    """The chain of a first line that is nothing but a name."""
    first = top[0]
    ends = first.end == len(tokens) or tokens[first.end].sep == "."
    return chains[0] if first.start == 0 and ends else None


def _set(reading: Reading, top: Sequence[Mention], others: Sequence[str]) -> None:
    taxa = tuple(dict.fromkeys(t for m in top for t in m.taxa))
    # The name that says most about how it was read: the first exact one.
    lead = min(top, key=lambda m: (m.edits, _METHODS.index(m.entry.method)))
    reading.method, reading.edits = lead.entry.method, lead.edits
    reading.flags.update(f for m in top for f in m.entry.flags)
    kinds = {m.kind for m in top}
    names = {m.taxa for m in top}
    if kinds == {"unknown"}:
        reading.decision = "unparsed"
    elif len(names) == 1:
        reading.decision = top[0].kind
    else:
        reading.decision = "multiple"
    reading.taxa = taxa
    reading.beside = tuple(t for t in dict.fromkeys(others) if t not in taxa)


_METHODS = [
    "exact_sci",
    "exact_common",
    "synonym",
    "vernacular",
    "trinomial",
    "split",
    "ellipsis",
    "fuzzy",
    "genus",
    "group",
    "none",
]


def _settle(reading: Reading, plain: str, declined: bool, guessed: bool, named: bool, policy: Policy) -> None:
    """Abstention against what is named; ``guessed``: the bird is more than one of those that stay possible."""
    if reading.decision == "unparsed" and not reading.flags & {"unknown_name", "unknown_epithet"}:
        if phrases.NO_BIRD.search(plain):
            reading.decision, reading.method = "abstain", "phrase"
            reading.flags.add("no_bird")
        elif declined or (not named and why.is_limited(plain)):
            reading.decision, reading.method = "abstain", "phrase"
        return
    if not declined:
        return
    if reading.decision == "group":
        reading.decision, reading.method, reading.taxa = "abstain", "phrase", ()
    elif reading.decision == "species":
        reading.hedged = True
        if not guessed or policy.best_guess == "abstain":
            reading.decision, reading.beside, reading.taxa = "abstain", reading.taxa + reading.beside, ()
            reading.flags.add("best_guess" if guessed else "possible_names")
            reading.method = "phrase"
        else:
            reading.flags.add("best_guess")
