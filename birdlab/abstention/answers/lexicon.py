"""Every name that an answer can use, from one pinned list: scientific, English, old, vernacular, genus and group names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from birdlab.abstention.answers.fold import name_keys
from birdlab.abstention.answers.groups import Tree, group_names
from birdlab.errors import DataError, Problem
from birdlab.readers.csvfile import read_rows

#: Longest name in words.
MAX_WORDS = 8
# Names that are everyday words, too: "swift flight", "its dark ruff", "ou" of French.
EVERYDAY = frozenset(
    "ruff redhead hardhead whitehead yellowhead redthroat blackthroat silverbird rook merlin sora ou mao dodo tui kea emu "
    "dives bias arses circus pampa penelope mino moho nok vini alle ara otis anas una pica knot brant star apus grus "
    "swift swallow quail crane rail snipe grouse chat tit booby lark stilt canary cardinal raptor monarch hermit king "
    "sunbeam coronet comet inca brilliant jewel fairy diver darter courser noddy kite jay racket emerald sapphire ruby "
    "violet plume mountain leader pilot sabre gem bishop widow weaver indigo turkey creeper tyrant bar piping trumpeter "
    "screamer umbrella peep runner rifleman".split()
)


class Entry(NamedTuple):
    """What a name stands for.

    ``kind``: species, genus, higher (family and above), group (no single taxon) or split; ``taxa``: the taxon, or the
    candidates of a group or split; ``method``: how it was read; ``flags``: what else is known.
    """

    kind: str
    taxa: tuple[str, ...]
    method: str
    flags: tuple[str, ...] = ()


class Listed(Protocol):
    """A taxonomy: its frames ``taxa`` and ``synonyms``."""

    @property
    def taxa(self) -> pl.DataFrame: ...
    @property
    def synonyms(self) -> pl.DataFrame: ...


def read_vernaculars(path: Path | None = None) -> pl.DataFrame:
    """Names of birds in other languages: name, language, scientific_name.

    Args:
        path: a CSV with these columns; ``None`` for the names of common birds that come with birdlab.

    Raises:
        DataError: the file cannot be read, or a column is missing.
    """
    if path is None:
        with resources.as_file(resources.files("birdlab.abstention") / "data" / "vernaculars.csv") as own:
            return read_vernaculars(own)
    table = read_rows(path, shown=str(path))
    heads = {head.strip().casefold(): i for i, head in enumerate(table.header)}
    names = ("name", "language", "scientific_name")
    if missing := [key for key in names if key not in heads]:
        found = "columns " + ", ".join(table.header[:8])
        expected = "a column " + " and ".join(missing)
        raise DataError(Problem("missing_column", found, expected, "add it", file=table.file, line=1))
    rows = [[row[heads[key]].strip() for key in names] for _, row in table.rows]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


class Lexicon:
    """Names of one taxonomy by key.

    What comes first stays: scientific names, English names, old names (of the synonyms), vernacular names, genera,
    families and orders, group names. So "Anhinga" is the species of that name before it is the genus.

    Args:
        taxonomy: has ``taxa`` (taxon_id, rank, parent_id, scientific_name, common_name) and ``synonyms`` (old_name,
            new_names joined by ``|``, kind).
        vernaculars: name, language, scientific_name (two words; three for a subspecies group); those of birdlab by
            default. Names of birds that the list does not have are left out.
    """

    def __init__(self, taxonomy: Listed, vernaculars: pl.DataFrame | None = None) -> None:
        taxa = taxonomy.taxa.with_columns(pl.col("rank").cast(pl.String))
        self.tree = Tree(
            dict(taxa.select("taxon_id", "parent_id").iter_rows()), dict(taxa.select("taxon_id", "rank").iter_rows())
        )
        self.entries: dict[str, Entry] = {}
        self.genera: dict[str, str] = {}
        self.epithets: dict[str, dict[str, str]] = {}
        self.subspecies: dict[str, set[str]] = {}
        self.old_genera: dict[str, set[str]] = {}
        common = self._add_listed(taxa)
        vernaculars = read_vernaculars() if vernaculars is None else vernaculars
        is_subspecies = pl.col("scientific_name").str.strip_chars().str.count_matches(" ") > 1
        self._add_vernaculars(vernaculars.filter(is_subspecies))
        self._add_synonyms(taxonomy.synonyms)
        self._add_vernaculars(vernaculars.filter(~is_subspecies))
        self._add_higher(taxa)
        self._add_groups(common)
        self.lengths = _lengths(self.entries)

    def get(self, words: list[str]) -> Entry | None:
        """Entry of a name given by the keys of its words; the plural of its last word counts, too."""
        key = " ".join(words)
        entry = self.entries.get(key)
        if entry is None and words[-1].endswith("s"):
            for singular in _singulars(words[-1]):
                if entry := self.entries.get(key[: len(key) - len(words[-1])] + singular):
                    return entry
        return entry

    def rank(self, taxon: str | None) -> str | None:
        """Rank of a taxon id."""
        return None if taxon is None else self.tree.ranks.get(taxon)

    def _put(self, words: list[str], entry: Entry) -> None:
        if words and len(words) <= MAX_WORDS:
            self.entries.setdefault(" ".join(words), entry)

    def _add_listed(self, taxa: pl.DataFrame) -> dict[str, str]:
        species = taxa.filter(pl.col("rank") == "species")
        rows = list(species.select("taxon_id", "scientific_name", "common_name").iter_rows())
        for taxon, scientific, _ in rows:
            words = name_keys(scientific)
            self._put(words, Entry("species", (taxon,), "exact_sci"))
            if len(words) == 2:
                self.epithets.setdefault(words[0], {})[words[1]] = taxon
        for taxon, scientific in (
            taxa.filter(pl.col("rank") == "genus").select("taxon_id", "scientific_name").iter_rows()
        ):
            self.genera[name_keys(scientific)[0]] = taxon
        by_key: dict[str, list[str]] = {}
        for taxon, _, name in rows:
            if name:
                by_key.setdefault(" ".join(name_keys(name)), []).append(taxon)
        for key, owners in by_key.items():
            kind = "species" if len(owners) == 1 else "group"
            self._put(key.split(), Entry(kind, tuple(owners), "exact_common"))
        common = {name: taxon for taxon, _, name in rows if name}
        for name, taxon in common.items():
            self._variants(name, taxon)
        return common

    def _variants(self, name: str, taxon: str) -> None:
        """Hyphenated words written as one, and a possessive without its s."""
        entry = Entry("species", (taxon,), "exact_common")
        if "-" in name:
            self._put([w for unit in name.split() for w in ["".join(name_keys(unit))]], entry)
            self._put(
                [w for unit in name.split()[:-1] for w in name_keys(unit)] + ["".join(name_keys(name.split()[-1]))],
                entry,
            )
        if "'s " in name or "’s " in name:
            self._put(name_keys(name.replace("'s ", " ").replace("’s ", " ")), entry)

    def _add_synonyms(self, synonyms: pl.DataFrame | None) -> None:
        if synonyms is None or synonyms.is_empty():
            return
        for old, new, kind in synonyms.select("old_name", "new_names", "kind").iter_rows():
            words = name_keys(old or "")
            targets = self._species_of((new or "").split("|"))
            if not words or not targets:
                continue
            if len(words) == 2 and words[0] not in self.genera and len(targets) == 1:
                genus = self.tree.at(targets[0], "genus")
                if genus and old[:1].isupper() and old.split()[1][:1].islower():
                    self.old_genera.setdefault(words[0], set()).add(genus)
            if kind == "split" and len(targets) > 1:
                self._put(words, Entry("split", targets, "split", ("split",)))
            elif len(targets) == 1:
                self._put(words, Entry("species", targets, "synonym", (str(kind),)))

    def _species_of(self, names: Iterable[str]) -> tuple[str, ...]:
        found = (self.entries.get(" ".join(name_keys(n))) for n in names)
        return tuple(dict.fromkeys(e.taxa[0] for e in found if e is not None and e.kind == "species"))

    def _add_vernaculars(self, vernaculars: pl.DataFrame) -> None:
        for name, scientific in vernaculars.select("name", "scientific_name").iter_rows():
            words = name_keys(scientific)
            species = self._species_of([" ".join(words[:2])])
            if not species:
                continue
            if len(words) > 2:
                entry = Entry("species", species, "trinomial", ("subspecies",))
                self.subspecies.setdefault(species[0], set()).add(words[2])
            else:
                entry = Entry("species", species, "vernacular")
            self._put(name_keys(name), entry)

    def _add_higher(self, taxa: pl.DataFrame) -> None:
        for key, taxon in self.genera.items():
            self._put([key], Entry("genus", (taxon,), "genus"))
        for old, new in self.old_genera.items():
            if len(new) == 1:
                self._put([old], Entry("genus", tuple(new), "synonym", ("old_genus",)))
        above = taxa.filter(~pl.col("rank").is_in(["species", "genus"]))
        for taxon, scientific in above.select("taxon_id", "scientific_name").iter_rows():
            self._put(name_keys(scientific), Entry("higher", (taxon,), "group"))

    def _add_groups(self, common: Mapping[str, str]) -> None:
        for key, group in group_names(common, self.tree).items():
            if group.is_split:
                entry = Entry("split", group.members, "split", ("split",))
            elif group.taxon is None:
                entry = Entry("group", group.members, "group")
            else:
                kind = "genus" if self.tree.ranks[group.taxon] == "genus" else "higher"
                entry = Entry(kind, (group.taxon,), "group", ("group",))
            self._put(key.split(), entry)


def _singulars(word: str) -> list[str]:
    found = [word[:-1]] if len(word) > 3 and not word.endswith("ss") else []
    if word.endswith("ies") and len(word) > 4:
        found.append(word[:-3] + "y")
    if word.endswith(("ches", "shes", "sses", "xes")):
        found.append(word[:-2])
    return found


def _lengths(entries: Mapping[str, Entry]) -> dict[str, tuple[int, ...]]:
    """Numbers of words of the names that start with a word, longest first."""
    lengths: dict[str, set[int]] = {}
    for key in entries:
        words = key.split(" ")
        lengths.setdefault(words[0], set()).add(len(words))
        if len(words) == 1:
            # The plural of a name of one word starts with another word.
            lengths.setdefault(key + "s", set()).add(1)
            if key.endswith("y"):
                lengths.setdefault(key[:-1] + "ies", set()).add(1)
            elif key.endswith(("ch", "sh", "ss", "x")):
                lengths.setdefault(key + "es", set()).add(1)
    return {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}
