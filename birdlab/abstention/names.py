"""Names of taxa as people and models write them, and how each is found in a list. Exact keys only: nothing is fuzzy here.

A fuzzy match turns *Thenus* into *Thunnus* and "Robin" into some robin. What these rules do not find stays unfound.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

#: How a name was found, surest first.
HOW = ("exact", "case", "synonym", "common", "trinomial", "slash", "hybrid", "genus", "higher", "none")
#: Longer texts are no names (characters).
MAX_LENGTH = 300

_LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
_SPACES = "_-‐‑‒–—―−"
_QUOTES = "'’‘ʼʻ`´ʹ′\"“”"
_MARKS = str.maketrans({c: " " for c in _SPACES + "".join(map(chr, range(32)))} | dict.fromkeys(_QUOTES, ""))
_PAREN = re.compile(r"^([^()]+)\((.+)\)$", re.DOTALL)
_AUTHOR = re.compile(r"^([^\W\d_]+ [^\W\d_][\w-]+) \(?[^\W\d_][^()]*,? \d{4}\)?$")
_BETWEEN = re.compile(r"\s*/\s*|\s+[xX]\s+|\s*(?:×|\\xd7)\s*")
_BELOW = {"ssp", "ssp.", "subsp", "subsp.", "var", "var.", "group"}
_OPEN = {"sp", "spp", "species", "ssp", "genus"}


def fold(name: str) -> str:
    """Key under which case, accents, apostrophes, hyphens, underscores and spaces do not count.

    >>> fold("Larus_ARGENTATUS "), fold("Rüppell’s  Griffon"), fold("Black-crowned Night–Heron.")
    ('larus argentatus', 'ruppells griffon', 'black crowned night heron')
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFD", text)
        text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf")).translate(_LETTERS)
    return " ".join(text.translate(_MARKS).split()).strip(" .,;:*")


def common_key(name: str) -> str:
    """:func:`fold` for English names: grey is gray, colour is color.

    >>> common_key("GREY HERON."), common_key("Cooper’s-hawk"), common_key("Tricoloured Heron")
    ('gray heron', 'coopers hawk', 'tricolored heron')
    """
    return fold(name).replace("grey", "gray").replace("colour", "color")


@dataclass(frozen=True)
class Synonym:
    """One row of the table of synonyms: what a name became."""

    old_name: str
    new_names: tuple[str, ...]
    kind: str
    since: int | None = None
    until: int | None = None

    def holds_in(self, year: int | None) -> bool:
        """Whether the row applies to a list of ``year``; a list without a year takes every row."""
        return year is None or ((self.since or 0) <= year <= (self.until or 9999))


@dataclass(frozen=True)
class Match:
    """What a name stands for: one taxon, or several candidates and the genus that they share."""

    taxon_id: str | None = None
    how: str = "none"
    candidates: tuple[str, ...] = ()
    flag: str | None = None


NOTHING = Match()


@dataclass
class NameIndex:
    """Lookups over the names of one list, filled once by :meth:`build`."""

    rank_of: dict[str, str] = field(default_factory=dict)
    genus_of: dict[str, str] = field(default_factory=dict)
    folded: dict[str, str | None] = field(default_factory=dict)
    common: dict[str, tuple[str, ...]] = field(default_factory=dict)
    compact: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    synonyms: dict[str, list[Synonym]] = field(default_factory=dict)
    reverse: dict[str, list[Synonym]] = field(default_factory=dict)
    year: int | None = None

    @classmethod
    def build(
        cls,
        taxa: Iterable[tuple[str, str, str | None]],
        genus_of: Mapping[str, str],
        *,
        aliases: Iterable[tuple[str, str, list[str]]] = (),
        synonyms: Iterable[Synonym] = (),
        year: int | None = None,
    ) -> NameIndex:
        """An index from (taxon_id, rank, common name) of every taxon, (name, kind, taxon ids) of further names, synonyms."""
        index = cls(genus_of=dict(genus_of), year=year)
        for taxon, rank, common in taxa:
            index.rank_of[taxon] = rank
            key = fold(taxon)
            index.folded[key] = None if index.folded.get(key, taxon) != taxon else taxon
            if common and rank == "species":
                index._add_common(common, taxon)
        for name, kind, ids in aliases:
            if kind == "vernacular":
                for taxon in ids:
                    index._add_common(name, taxon)
            else:
                index.aliases.setdefault(common_key(name), (kind, tuple(ids)))
        for row in synonyms:
            index.synonyms.setdefault(common_key(row.old_name), []).append(row)
            for new in row.new_names:
                index.reverse.setdefault(fold(new), []).append(row)
        return index

    def _add_common(self, name: str, taxon: str) -> None:
        key = common_key(name)
        for table, k in ((self.common, key), (self.compact, key.replace(" ", ""))):
            known = table.get(k, ())
            if taxon not in known:
                table[k] = (*known, taxon)

    def find(self, name: str | None) -> Match:
        """The taxon that a name stands for; see :meth:`birdlab.abstention.taxonomy.Taxonomy.resolve`."""
        if not name or not name.strip():
            return replace(NOTHING, flag="empty")
        name = name.strip()
        if len(name) > MAX_LENGTH:
            return replace(NOTHING, flag="too_long")
        found = self._plain(name)
        if found.how != "none":
            return found
        parts = _PAREN.match(name)
        if parts:
            found = self._in_parentheses(self._plain(parts[1].strip()), self._plain(parts[2].strip()))
        if found.how == "none":
            found = self._between(name) or self._unknown(name)
        return found

    def _plain(self, name: str) -> Match:
        return (
            self._scientific(name)
            or self._synonym(name)
            or self._common(name)
            or self._alias(name)
            or self._trinomial(name)
            or self._open_genus(name)
            or NOTHING
        )

    def _scientific(self, name: str) -> Match | None:
        key = fold(name)
        taxon = name if name in self.rank_of else self.folded.get(key)
        if taxon is None:
            return None
        rank = self.rank_of[taxon]
        if rank != "species":
            # "Anhinga" is a genus and the whole English name of one of its species; people mean the bird.
            called = self.common.get(key, ())
            if rank == "genus" and len(called) == 1 and self.genus_of[called[0]] == taxon:
                return Match(called[0], "common", flag="also_genus")
            return Match(taxon, "genus" if rank == "genus" else "higher")
        how = "exact" if name == taxon else "case"
        for row in self.synonyms.get(key, ()):
            present = self._present(row)
            if row.kind == "split" and len(present) > 1:
                return Match(taxon, how, present, "split")
        return Match(taxon, how)

    def _present(self, row: Synonym) -> tuple[str, ...]:
        """The new names of a row that are species of this list, where the row holds for its year."""
        if not row.holds_in(self.year):
            return ()
        return tuple(new for new in row.new_names if self.rank_of.get(new) == "species")

    def _synonym(self, name: str, depth: int = 0) -> Match | None:
        key = common_key(name)
        for row in self.synonyms.get(key, ()):
            found = self._forward(row, depth)
            if found:
                return found
        for row in self.reverse.get(key, ()):
            # A list from before the change knows the bird by its old name; before a split, as part of the old species.
            if row.kind in ("rename", "split") and self.rank_of.get(row.old_name) == "species":
                return Match(row.old_name, "synonym", flag="reversed" if row.kind == "rename" else "before_split")
        return None

    def _forward(self, row: Synonym, depth: int) -> Match | None:
        present = self._present(row)
        if row.kind == "split" and len(present) > 1:
            return self._several(present, "synonym", "split")
        if present and row.kind != "split":
            return Match(present[0], "synonym", flag="lump" if row.kind == "lump" else None)
        # Names change more than once: Amazilia, then Leucolia, then Ramosomyia violiceps.
        if row.kind != "split" and depth < 5:
            return self._synonym(row.new_names[0], depth + 1)
        return None

    def _several(self, ids: tuple[str, ...], how: str, flag: str) -> Match:
        """Candidates, and their genus where they share one."""
        genera = {self.genus_of.get(i, i) for i in ids}
        genus = genera.pop() if len(genera) == 1 else None
        return Match(genus if self.rank_of.get(genus or "") == "genus" else None, how, ids, flag)

    def _common(self, name: str) -> Match | None:
        key = common_key(name)
        ids = self.common.get(key) or self.compact.get(key.replace(" ", ""), ())
        if not ids:
            return None
        return Match(ids[0], "common") if len(ids) == 1 else self._several(ids, "common", "ambiguous")

    def _alias(self, name: str) -> Match | None:
        kind, ids = self.aliases.get(common_key(name), ("", ()))
        if not ids:
            return None
        how = {"slash": "slash", "hybrid": "hybrid", "intergrade": "hybrid", "spuh": "genus"}.get(kind, "trinomial")
        if len(ids) > 1:
            return self._several(ids, how, kind)
        if self.rank_of.get(ids[0]) not in ("species", None) and how == "trinomial":
            how = "genus" if self.rank_of[ids[0]] == "genus" else "higher"
        return Match(ids[0], how, flag=None if kind in ("subspecies", "issf") else kind)

    def _trinomial(self, name: str) -> Match | None:
        author = _AUTHOR.match(name)
        if author:
            found = self._scientific(author[1]) or self._synonym(author[1])
            return replace(found, how="case", flag=found.flag or "author") if found and found.how == "exact" else found
        if "(" in name:
            return None
        words = [w for w in fold(re.sub(r"[\[\]]", " ", name)).split() if w not in _BELOW]
        if len(words) != 3:
            return None
        found = self._scientific(" ".join(words[:2])) or self._synonym(" ".join(words[:2]))
        if found is None or (found.taxon_id is None and not found.candidates):
            return None
        genus = (
            found.taxon_id if not self.rank_of.get(found.taxon_id or "") == "species" else self.genus_of[found.taxon_id]
        )
        # Within a genus a name is used once, so "Anas platyrhynchos diazi" is Anas diazi where the list has that species.
        raised = self.folded.get(f"{fold(genus or '')} {words[2]}") if genus else None
        if raised and self.rank_of[raised] == "species":
            return Match(
                raised, "trinomial", flag=None if words[1] == words[2] or raised == found.taxon_id else "raised"
            )
        return replace(found, how="trinomial")

    def _open_genus(self, name: str) -> Match | None:
        words = fold(name).split()
        if len(words) == 2 and words[1].strip(".") in _OPEN:
            genus = self.folded.get(words[0])
            if genus:
                return Match(genus, "genus" if self.rank_of[genus] == "genus" else "higher", flag="spuh")
        return None

    def _between(self, name: str) -> Match | None:
        """``Aechmophorus occidentalis/clarkii``, ``Western/Clark's Grebe``, ``Anas superciliosa x platyrhynchos``."""
        text = re.sub(r"\s*\([^()]*\)\s*$", "", name)
        parts = [p for p in _BETWEEN.split(text) if p]
        if not 2 <= len(parts) <= 6:
            return None
        first, last, ids = parts[0].split()[0], parts[-1].split()[-1], []
        for part in parts:
            tries = (part, f"{first} {part}", f"{part} {last}")
            found = next((m for m in map(self._plain, tries) if self.rank_of.get(m.taxon_id or "") == "species"), None)
            if found is None:
                return None
            ids.append(found.taxon_id)
        kind = "slash" if "/" in text else "hybrid"
        distinct = tuple(dict.fromkeys(ids))
        return self._several(distinct, kind, kind) if len(distinct) > 1 else Match(distinct[0], kind, flag=kind)

    def _in_parentheses(self, first: Match, second: Match) -> Match:
        """``Corvus corax (Common Raven)``: the part that says more, the scientific name where both name a species."""
        best, other = sorted((first, second), key=self._order)
        if not (self._is_species(best) and self._is_species(other)) or best.taxon_id == other.taxon_id:
            return best
        if best.flag == "split" and other.taxon_id in best.candidates:
            # "Melanitta fusca (White-winged Scoter)": the old, wider name, and which part of it is meant.
            return replace(other, flag="split", candidates=best.candidates)
        if best.how == "trinomial":
            # A subspecies that the list has as a species elsewhere is named by its English name.
            best, other = other, best
        return replace(best, flag="parts_differ", candidates=(best.taxon_id or "", other.taxon_id or ""))

    def _is_species(self, match: Match) -> bool:
        return self.rank_of.get(match.taxon_id or "") == "species"

    def _order(self, match: Match) -> tuple[bool, int]:
        """Sort key of the two parts of a name: species first, then scientific names before the others."""
        return not self._is_species(match), ("exact", "case", "trinomial", *HOW[2:]).index(match.how)

    def _unknown(self, name: str) -> Match:
        words = fold(name).split()
        genus = self.folded.get(words[0]) if len(words) == 2 else None
        known = genus is not None and self.rank_of[genus] == "genus"
        return replace(NOTHING, flag="unknown_epithet") if known else NOTHING
