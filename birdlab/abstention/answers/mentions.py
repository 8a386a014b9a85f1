"""Where an answer names birds: the longest name at each place, misspelt epithets, and names cut short by "or"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from birdlab.abstention.answers.fold import Token
from birdlab.abstention.answers.lexicon import EVERYDAY, Entry, Lexicon

_ARTICLES = frozenset("a an the either some un une ein eine einen een en ett una uno el la le der die das".split())
_OR = frozenset("or and vs versus oder ou und et y o e u of och eller en".split())
_BETWEEN = _ARTICLES | _OR | {"from"}
_SPUH = frozenset({"sp", "spp", "species", "genus", "ssp", "subsp", "cf", "aff"})
_NO_EPITHET = _SPUH | frozenset(
    "bird birds type group complex like family member genus is was has with the and or in".split()
)
_BEFORE = frozenset("a an some of is its be as genus called likely probably possibly ein eine einen une un una".split())
_PLAIN = frozenset(
    "a an the this that large small medium big little tiny young adult immature juvenile male female unknown unidentified "
    "probable possible likely some any species either or and wild unspecified another typical generic only as is its it "
    "common name answer bird definitely maybe perhaps probably not no".split()
)
_EPITHET = re.compile(r"(?:us|is|um|ii|ensis|oides|ae|ana|ata|alis|aris|icus|inus|osus|atus)$")
#: Misspelt names looked up in one answer.
MAX_FUZZY = 60


@dataclass(frozen=True)
class Mention:
    """One name in an answer: what it stands for, and its tokens ``start`` to ``end`` (exclusive)."""

    entry: Entry
    start: int
    end: int
    edits: int = 0

    @property
    def kind(self) -> str:
        """Kind of its entry."""
        return self.entry.kind

    @property
    def taxa(self) -> tuple[str, ...]:
        """Taxa of its entry."""
        return self.entry.taxa


def find_mentions(tokens: Sequence[Token], lexicon: Lexicon) -> list[Mention]:
    """Every name in an answer, in order, none overlapping; names cut short ("Willow or Alder Flycatcher") included."""
    found: list[Mention] = []
    i, tries = 0, 0
    while i < len(tokens):
        mention = _longest(tokens, i, lexicon)
        if mention is None:
            mention = _abbreviated(tokens, i, found, lexicon)
        elif _is_unlisted(tokens, mention):
            mention = replace(mention, entry=Entry("unknown", (), "none", ("unknown_name",)))
        elif mention.kind == "genus" and mention.end - mention.start == 1 and tries < MAX_FUZZY:
            mention, tried = _with_epithet(tokens, mention, lexicon)
            tries += tried
        if mention is None:
            i += 1
            continue
        mention = _extended(tokens, mention, lexicon)
        found.append(mention)
        i = mention.end
    return _elliptical(tokens, found, lexicon)


def _longest(tokens: Sequence[Token], i: int, lexicon: Lexicon) -> Mention | None:
    for n in lexicon.lengths.get(tokens[i].key, ()):
        j = i + n
        if j > len(tokens) or any(t.sep not in " -" for t in tokens[i + 1 : j]):
            continue
        entry = lexicon.get([t.key for t in tokens[i:j]])
        if entry is None or (n == 1 and not _stands_alone(tokens, i, entry, lexicon)):
            continue
        # "Black-billed Cuckoo-Dove" is no Black-billed Cuckoo, "gull-like" no gull.
        if j < len(tokens) and tokens[j].sep == "-" and not tokens[j].key.startswith(("type", "complex", "group")):
            continue
        if n == 1 and entry.kind != "species" and tokens[i].sep == "-" and i:
            continue
        genus = lexicon.genera.get(tokens[i].key) if n == 1 else None
        if genus and entry.kind == "species" and _names_genus(tokens, i):
            entry = Entry("genus", (genus,), "genus")
        return Mention(entry, i, j)
    return None


def _names_genus(tokens: Sequence[Token], i: int) -> bool:
    after = tokens[i + 1].key if i + 1 < len(tokens) and tokens[i + 1].sep == " " else ""
    return after in ("sp", "spp", "species") or (i > 0 and tokens[i - 1].key == "genus")


def _stands_alone(tokens: Sequence[Token], i: int, entry: Entry, lexicon: Lexicon) -> bool:
    """Whether one word is meant as a name: everyday words only where something says so."""
    token = tokens[i]
    if token.key in ("bird", "birds"):
        return len(tokens) <= 3 and all(t.key in _ARTICLES for t in tokens[:i]) and i + 1 == len(tokens)
    short_genus = entry.method == "genus" and len(token.key) < 5
    everyday = token.key in EVERYDAY or token.key.rstrip("s") in EVERYDAY
    if not everyday and not short_genus:
        return True
    closes = i + 1 == len(tokens) or tokens[i + 1].sep in ".,;/" or tokens[i + 1].key in _SPUH
    if len(tokens) == 1 or (closes and token.sep in ".;/" and token.raw[:1].isupper()):
        return True
    if token.raw[:1].isupper() and token.sep not in ".;" and not token.raw.isupper():
        return True
    before = tokens[i - 1].key if i else ""
    if entry.kind == "species" or short_genus:
        return (
            before in _ARTICLES
            and i > 1
            and tokens[i - 2].key in ("is", "its", "be", "as", "likely", "probably", "not")
        )
    return before in _BEFORE or (closes and token.sep == " " and before in _PLAIN) or (closes and len(tokens) <= 4)


def _is_unlisted(tokens: Sequence[Token], mention: Mention) -> bool:
    """Whether a group name is the tail of a name that the list does not have: "Yellow-breasted Gull"."""
    first = tokens[mention.start]
    if mention.kind not in ("group", "split") and "group" not in mention.entry.flags:
        return False
    if mention.start == 0 or first.sep != " " or not first.raw[:1].isupper():
        return False
    at = mention.start - 1
    while at > 0 and tokens[at].sep == "-":
        at -= 1
    before = tokens[at]
    return before.key not in _PLAIN and before.raw[:1].isupper() and len(before.key) > 1 and not before.raw.isupper()


def _with_epithet(tokens: Sequence[Token], mention: Mention, lexicon: Lexicon) -> tuple[Mention, int]:
    """A genus followed by an epithet that is misspelt, old, or of no bird of the list."""
    at = mention.end
    skip = at < len(tokens) and tokens[at].key in ("cf", "aff") and tokens[at].sep in " ."
    at += skip
    if at >= len(tokens) or tokens[at].sep not in " -" or mention.entry.method not in ("genus", "synonym"):
        return mention, 0
    word = tokens[at].key
    if len(word) < 4 or word in _NO_EPITHET or not word.isalpha():
        return mention, 0
    genus = next(iter(lexicon.tree.line(mention.taxa[0])))
    known = lexicon.epithets.get(genus.casefold(), {}) or lexicon.epithets.get(tokens[mention.start].key, {})
    old = mention.entry.method == "synonym"
    flags = ("cf",) if skip else ()
    if word in known:
        method = "synonym" if old else "exact_sci"
        entry = Entry("species", (known[word],), method, (*flags, "old_genus") if old else flags)
        return Mention(entry, mention.start, at + 1), 1
    near = nearest_epithet(word, known)
    if near is not None:
        taxon, edits = near
        return Mention(Entry("species", (taxon,), "fuzzy", flags), mention.start, at + 1, edits), 1
    if tokens[at].raw.islower() and tokens[mention.start].raw[:1].isupper() and _EPITHET.search(word):
        if _closes(tokens, at + 1):
            return Mention(Entry("unknown", (), "none", ("unknown_epithet",)), mention.start, at + 1), 1
    return mention, 1


def _closes(tokens: Sequence[Token], at: int) -> bool:
    return at >= len(tokens) or tokens[at].sep not in " -" or tokens[at].key in _OR or not tokens[at].raw.islower()


def nearest_epithet(word: str, known: dict[str, str]) -> tuple[str, int] | None:
    """The one epithet of a genus within 1 edit of ``word`` (within 2 where it has 8 letters or more); null if not one.

    >>> nearest_epithet("minutila", {"minutilla": "Calidris minutilla", "minuta": "Calidris minuta"})
    ('Calidris minutilla', 1)
    """
    from rapidfuzz.distance import Levenshtein  # edit distance alone: never a partial or weighted scorer

    limit = 2 if len(word) >= 8 else 1
    near = [(d, e) for e in known if (d := Levenshtein.distance(word, e, score_cutoff=limit)) <= limit]
    for allowed in range(1, limit + 1):
        hits = [e for d, e in near if d == allowed]
        if hits:
            return (known[hits[0]], allowed) if len(hits) == 1 else None
    return None


def _abbreviated(tokens: Sequence[Token], i: int, found: Sequence[Mention], lexicon: Lexicon) -> Mention | None:
    """ "E. minimus" after a name of that genus was written out."""
    if len(tokens[i].key) != 1 or i + 1 >= len(tokens) or tokens[i + 1].sep != " ":
        return None
    for mention in reversed(found[-12:]):
        genus = lexicon.tree.at(mention.taxa[0], "genus") if len(mention.taxa) == 1 else None
        if genus and genus[:1].casefold() == tokens[i].key:
            taxon = lexicon.epithets.get(genus.casefold(), {}).get(tokens[i + 1].key)
            if taxon:
                return Mention(Entry("species", (taxon,), "exact_sci"), i, i + 2)
    return None


def _extended(tokens: Sequence[Token], mention: Mention, lexicon: Lexicon) -> Mention:
    """A subspecies after a scientific name; words that go with a genus ("Empidonax sp.", "Empidonax flycatcher")."""
    at = mention.end
    if at >= len(tokens) or tokens[at].sep not in " -":
        return mention
    word, raw = tokens[at].key, tokens[at].raw
    if mention.kind in ("genus", "higher", "group"):
        if word in ("sp", "spp", "species"):
            return replace(mention, end=at + 1)
        follower = lexicon.entries.get(word)
        if mention.entry.method in ("genus", "synonym") and follower and follower.kind in ("group", "higher", "genus"):
            return replace(mention, end=at + 1)
        return mention
    if mention.kind != "species" or mention.entry.method not in ("exact_sci", "synonym", "fuzzy"):
        return mention
    if " " not in mention.taxa[0] or mention.end - mention.start != 2:
        return mention
    at += word in ("ssp", "subsp", "var") and at + 1 < len(tokens)
    word, raw = tokens[at].key, tokens[at].raw
    known = word == tokens[mention.end - 1].key or word in lexicon.subspecies.get(mention.taxa[0], ())
    latin = raw.islower() and len(word) > 4 and _EPITHET.search(word) and _closes(tokens, at + 1)
    if known or at > mention.end or latin:
        # Names of species and subspecies are unique within a genus (ICZN, art. 57): a subspecies whose name the list has
        # as a species of that genus was raised to it.
        raised = lexicon.epithets.get(tokens[mention.start].key, {}).get(word, mention.taxa[0])
        more = ("trinomial",) if raised == mention.taxa[0] else ("raised", "trinomial")
        flags = tuple(dict.fromkeys((*mention.entry.flags, *more)))
        entry = mention.entry._replace(taxa=(raised,), method="trinomial", flags=flags)
        return replace(mention, end=at + 1, entry=entry)
    return mention


def _elliptical(tokens: Sequence[Token], found: list[Mention], lexicon: Lexicon) -> list[Mention]:
    """Names cut short beside a full one: "Willow or an Alder Flycatcher", "Least Flycatcher ... could be a Willow"."""
    taken = {i for m in found for i in range(m.start, m.end)}
    more: list[Mention] = []
    for mention in found:
        if mention.kind not in ("species", "split", "genus") or mention.end - mention.start < 2:
            continue
        tails = [
            [t.key for t in tokens[mention.start + k : mention.end]] for k in range(1, mention.end - mention.start)
        ]
        before = _before(tokens, mention, tails, taken, lexicon) + _epithets(tokens, mention, lexicon)
        for extra in before + _after(tokens, mention, tails, taken, lexicon):
            span = range(extra.start, extra.end)
            if taken.isdisjoint(span):
                taken.update(span)
                more.append(extra)
    return sorted(found + more, key=lambda m: m.start) if more else found


def _cut_short(tokens: Sequence[Token], i: int, j: int, tails: list[list[str]], lexicon: Lexicon) -> Mention | None:
    words = [t.key for t in tokens[i:j]]
    for tail in tails:
        entry = lexicon.get(words + tail)
        if entry is not None and entry.kind in ("species", "split"):
            return Mention(entry._replace(method="ellipsis"), i, j)
    return None


def _before(
    tokens: Sequence[Token], mention: Mention, tails: list[list[str]], taken: set[int], lexicon: Lexicon
) -> list[Mention]:
    found: list[Mention] = []
    at = mention.start
    for _ in range(6):
        j, linked = at, tokens[at].sep in "/,&x"
        while j > 0 and tokens[j - 1].key in _BETWEEN and j - 1 not in taken:
            linked = linked or tokens[j - 1].key not in _ARTICLES or tokens[j - 1].sep in ",/"
            j -= 1
        if not linked or tokens[j].sep in ".;":
            break
        hit = next((h for n in (3, 2, 1) if j >= n and (h := _name_before(tokens, j, n, tails, taken, lexicon))), None)
        if hit is None:
            break
        found.append(hit)
        at = hit.start
    return found


def _name_before(
    tokens: Sequence[Token], j: int, n: int, tails: list[list[str]], taken: set[int], lexicon: Lexicon
) -> Mention | None:
    if any(t.sep not in " -" for t in tokens[j - n + 1 : j]) or not taken.isdisjoint(range(j - n, j)):
        return None
    return _cut_short(tokens, j - n, j, tails, lexicon)


def _after(
    tokens: Sequence[Token], mention: Mention, tails: list[list[str]], taken: set[int], lexicon: Lexicon
) -> list[Mention]:
    found: list[Mention] = []
    stop = min(len(tokens), mention.end + 40)
    for i in range(mention.end, stop):
        if i in taken or not tokens[i].raw[:1].isupper() or not i:
            continue
        leads = tokens[i - 1].key in _ARTICLES | _OR | {"be", "than", "not", "is"} or tokens[i].sep in "/,"
        if not leads and not (i + 1 < stop and tokens[i + 1].key in _OR):
            continue
        for n in (3, 2, 1):
            j = i + n
            ends = j == len(tokens) or (j < len(tokens) and (tokens[j].sep not in " -" or tokens[j].key in _OR))
            if j > len(tokens) or not ends or any(t.sep not in " -" for t in tokens[i + 1 : j]):
                continue
            if hit := _cut_short(tokens, i, j, tails, lexicon):
                found.append(hit)
                break
    return found


def _epithets(tokens: Sequence[Token], mention: Mention, lexicon: Lexicon) -> list[Mention]:
    """The second epithet of "Aechmophorus occidentalis/clarkii" or "Empidonax traillii or alnorum"."""
    known = lexicon.epithets.get(tokens[mention.start].key, {})
    if not known or mention.end - mention.start != 2:
        return []
    found, at = [], mention.end
    while at < len(tokens):
        at += tokens[at].key in ("or", "and", "oder", "ou", "vs") and tokens[at].sep == " "
        if (
            at >= len(tokens)
            or tokens[at].key not in known
            or (tokens[at].sep not in "/,&" and tokens[at - 1].key not in _OR)
        ):
            break
        found.append(Mention(Entry("species", (known[tokens[at].key],), "ellipsis"), at, at + 1))
        at += 1
    return found
